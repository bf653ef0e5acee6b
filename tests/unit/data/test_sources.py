"""Arrays, tables and files become one table of numbers, or an error of this package that shows no value."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import pais
from pais import DataError
from pais.data.dialect import require_header
from pais.data.tables import Table, read

NAMES = ("age", "income", "member")
VALUES = np.array([[30.0, 1.5, 1.0], [41.0, -2.25, 0.0], [59.0, 1e6, 1.0]])

# Planted in sources that are refused; it may not turn up in an error.
SECRET = "secret-4711"


def arrow() -> pa.Table:
    return pa.table({"age": [30, 41, 59], "income": [1.5, -2.25, 1e6], "member": [True, False, True]})


def as_parquet(folder: Path) -> Path:
    path = folder / "people.parquet"
    pq.write_table(arrow(), path)
    return path


def as_csv(folder: Path) -> Path:
    path = folder / "people.csv"
    pa_csv.write_csv(arrow(), path)
    return path


def as_upper_case_csv(folder: Path) -> Path:
    return as_csv(folder).rename(folder / "PEOPLE.CSV")


SOURCES: dict[str, Callable[[Path], object]] = {
    "arrow": lambda _: arrow(),
    "arrow in chunks": lambda _: pa.concat_tables([arrow()[:1], arrow()[1:]]),
    "record batch": lambda _: arrow().to_batches()[0],
    "pandas": lambda _: arrow().to_pandas(),
    "polars": lambda _: pl.from_arrow(arrow()),
    "parquet": as_parquet,
    "parquet by text": lambda folder: str(as_parquet(folder)),
    "csv": as_csv,
    "csv by text": lambda folder: str(as_csv(folder)),
    "csv in capitals": as_upper_case_csv,
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_table_gives_the_same_rows_and_names(name: str, tmp_path: Path) -> None:
    source = SOURCES[name](tmp_path)
    table = read(source)
    assert table.names == NAMES
    assert table.rows.dtype == np.float64
    assert np.array_equal(table.rows, VALUES)


@pytest.mark.parametrize("name", SOURCES)
def test_columns_are_read_by_name_in_the_requested_order(name: str, tmp_path: Path) -> None:
    table = read(SOURCES[name](tmp_path), columns=["income", "age"])
    assert table.names == ("income", "age")
    assert np.array_equal(table.rows, VALUES[:, [1, 0]])
    with pytest.raises(DataError, match="height" if name == "arrow" else None):
        read(SOURCES[name](tmp_path), columns=["age", "height"])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_comes_back_as_it_is_without_a_copy(dtype: type, order: str) -> None:
    rows = np.ones((4, 2), dtype=dtype, order=order)  # type: ignore[call-overload]
    table = read(rows)
    assert table.names is None
    assert table.rows is rows


def test_lists_and_objects_that_are_numbers_are_read() -> None:
    assert read([[1, 2], [3, 4]]).rows.tolist() == [[1, 2], [3, 4]]
    assert read(np.array([[1, Decimal("2.5")]], dtype=object)).rows.tolist() == [[1.0, 2.5]]
    assert read(np.array([[1, 2.5]], dtype=object)).rows.dtype == np.float64


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.bool_(), pa.decimal128(7, 2)],
    ids=str,
)
def test_every_numeric_type_of_arrow_is_read(kind: pa.DataType) -> None:
    ones: object = [1, 0]
    if pa.types.is_float16(kind):
        ones = np.array([1, 0], dtype=np.float16)
    elif pa.types.is_decimal(kind):
        ones = [Decimal(1), Decimal(0)]
    elif pa.types.is_boolean(kind):
        ones = [True, False]
    column = pa.array(ones, kind)
    assert read(pa.table({"a": column})).rows.tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(
    "source",
    [
        pa.table({"a": [1.0, 2.0], "b": [1.0, None]}),
        pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, None]}),
        pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, float("nan")]}),
        pd.DataFrame({"a": [1, 2], "b": pd.array([1, None], dtype="Int64")}),
    ],
    ids=["arrow", "polars", "pandas", "pandas nullable"],
)
def test_missing_values_are_nan_or_an_error_by_the_name_of_their_column(source: object) -> None:
    np.testing.assert_array_equal(read(source).rows, [[1.0, 1.0], [2.0, math.nan]])
    with pytest.raises(DataError, match=r"'b'.*missing"):
        pais.source(source, missing="error")
    assert read(source, columns=["a"]).rows.tolist() == [[1.0], [2.0]]


NOT_NUMERIC: dict[str, object] = {
    "arrow": pa.table({"a": [1.0], "b": [SECRET]}),
    "polars": pl.DataFrame({"a": [1.0], "b": [SECRET]}),
    "pandas": pd.DataFrame({"a": [1.0], "b": [SECRET]}),
    "categories": pd.DataFrame({"a": [1.0], "b": pd.Categorical([SECRET])}),
    "dates": pd.DataFrame({"a": [1.0], "b": pd.to_datetime(["2020-04-07"])}),
    "lists": pl.DataFrame({"a": [1.0], "b": [[47, 11]]}),
}
TWICE = pa.table([[1.0], [2.0]], names=["a", "a"])

# Data, the columns that are chosen, and a word of the error.
REFUSED: dict[str, tuple[Any, Any, str]] = {
    **{f"text in {name}": (source, None, "'b'") for name, source in NOT_NUMERIC.items()},
    "mostly text": (pd.DataFrame({"a": [1.0, SECRET, SECRET]}), None, ""),
    "a pandas series": (pd.Series([1.0, 2.0]), None, ""),
    "a polars series": (pl.Series("a", [1.0, 2.0]), None, ""),
    "an arrow array": (pa.chunked_array([[1.0, 2.0]]), None, ""),
    "two columns of one name": (TWICE, None, "more than once"),
    "a name that is there twice": (TWICE, ["a"], "more than once"),
    "a name that is no text": (pd.DataFrame(np.eye(2)), [0], ""),
    "names for an array": (np.ones((2, 2)), ["a"], "columns"),
    "no columns": (pa.table({}), None, "no columns"),
    "rows without columns": (pd.DataFrame(index=range(3)), None, "no columns"),
    "no column chosen": (arrow(), [], "no columns"),
    "a masked array": (np.ma.masked_array([[1.0, 4711.0]], mask=[[False, True]]), None, ""),
    "ragged lists": ([[1.0, 2.0], [3.0]], None, ""),
    "an array of text": (np.array([[1.0, SECRET]] * 3, dtype=object), None, ""),
    "an array of objects": ([[object()]] * 3, None, ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_of_numbers_is_refused_and_no_value_is_quoted(name: str) -> None:
    source, columns, word = REFUSED[name]
    with pytest.raises(DataError, match=word or None) as caught:
        read(source, columns=columns)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", NOT_NUMERIC)
def test_text_beside_the_columns_that_are_chosen_does_not_matter(name: str) -> None:
    assert read(NOT_NUMERIC[name], columns=["a"]).rows.tolist() == [[1.0]]


def test_a_pandas_column_of_numbers_and_text_is_numbers_unless_most_of_it_is_text() -> None:
    np.testing.assert_array_equal(read(pd.DataFrame({"a": [1.0, SECRET]})).rows, [[1.0], [math.nan]])


def test_the_index_of_a_pandas_table_is_not_a_feature(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[50, 10, 90])
    assert read(frame).names == ("a",)
    assert read(frame.set_index(pd.Index([4, 1, 9], name="person"))).names == ("a",)
    frame.to_parquet(tmp_path / "frame.parquet")
    assert read(tmp_path / "frame.parquet").names == ("a",)


def test_a_file_that_does_not_exist_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    for name in ("nothing.parquet", "nothing.csv"):
        with pytest.raises(DataError, match=name):
            read(tmp_path / name)
    with pytest.raises(DataError, match="no Parquet or CSV file"):
        read(tmp_path)


def test_a_table_without_rows_is_read(tmp_path: Path) -> None:
    empty = pa.table({"a": pa.array([], pa.float64())})
    pq.write_table(empty, tmp_path / "empty.parquet")
    (tmp_path / "header.csv").write_text("a,b\n")
    for source in (empty, empty.to_pandas(), tmp_path / "empty.parquet", tmp_path / "header.csv"):
        assert read(source).rows.shape[0] == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.csv", ""),
        ("text.csv", "a,b\n" + f"3,{SECRET}\n" * 3),
        ("words.parquet", SECRET),
        ("words.unknown", SECRET),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_without_its_content(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read(path)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_is_read_into_memory_as_it_is_streamed(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"a;b\n1;2\n{SECRET}\n3;{SECRET}\n5;6\n")
    rows = read(tmp_path / "rows.csv", columns=["a", "b"]).rows
    assert np.array_equal(rows, [[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]], equal_nan=True)


def test_a_table_shows_none_of_its_rows() -> None:
    table = read(np.array([[4711.0]]))
    assert isinstance(table, Table)
    assert "4711" not in repr(table)


HEADERS = [
    "height,width",
    "x1,x2",
    "feature_10,feature_11",
    "2020 sales,2021 sales",
    "V1",
    "p_99,p99.9",
    "Na,Mg,Al",
    "USD,EUR",
    "price ($),share (%)",
    "h (cm),area [m2],24h",
    "größe,高さ,имя",
    "sepal length (cm),sepal width (cm)",
    "Unnamed: 0,a",
    "truth,nullity,falsehood,nano",
    "t,f,yes,no",
    "v1.2.3",
    "e5,1st,3d",
    "0,1,2",
    "1,2,3,4",
    "x0,x1,x2",
    ",".join(f"gene{number}" for number in range(12_000)),
]


@pytest.mark.parametrize("line", HEADERS, ids=lambda line: line[:30])
def test_a_line_of_ordinary_names_is_a_header(line: str) -> None:
    require_header(line.split(","), "file rows.csv")


ROWS_FOR_NAMES = [
    ["1.5", "height"],
    ["height", ""],
    ["0", "1"],
    ["1", "2"],
    ["1"],
    ["1", "2", "4"],
    ["2", "3", "4"],
    ["height;width"],
    ["height\twidth"],
    ["height|width"],
    ["1,5", "b"],
    ["1.234,5"],
    ["12%"],
    ["$ 12"],
    ["(12)"],
    ["'12'"],
    ["1 e5"],
    ["-0x1F"],
    ["2024-01-31"],
    ["2024-01-31T07:00Z"],
    ["on 31.1.2024"],
    ["123-45-6789 ssn"],
    ["P12345"],
    ["NA"],
    ["n/a"],
    ["None"],
    ["TRUE"],
    [" false "],
    ["true0", "true1", "true2"],
    ["nan"],
    ["-inf"],
    ["?"],
    ["a\nb"],
]


@pytest.mark.parametrize("names", ROWS_FOR_NAMES, ids=repr)
def test_first_line_that_looks_like_a_row_is_refused_and_not_quoted(names: list[str]) -> None:
    with pytest.raises(DataError, match="first line") as caught:
        require_header(names, "file rows.csv")
    assert not any(name in str(caught.value) for name in names if len(name.strip()) > 1)
    with pytest.raises(DataError):
        require_header(["height", *names], "file rows.csv")
