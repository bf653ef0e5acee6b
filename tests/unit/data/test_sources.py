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
from pais import Ball, DataError, sample
from pais.data.dialect import require_header
from pais.data.tables import read
from tests.support.bad_values import BALL, CANARY, EVERY, refused

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
    "two columns of one name": (TWICE, None, "more than once"),
    "a name that is there twice": (TWICE, ["a"], "more than once"),
    "a name that is no text": (pd.DataFrame(np.eye(2)), [0], ""),
    "names for an array": (np.ones((2, 2)), ["a"], "columns"),
    "no column chosen": (arrow(), [], "no columns"),
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


def test_a_file_is_read_into_memory_as_it_is_streamed(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"a;b\n1;2\n{SECRET}\n3;{SECRET}\n5;6\n")
    rows = read(tmp_path / "rows.csv", columns=["a", "b"]).rows
    assert np.array_equal(rows, [[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]], equal_nan=True)


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


# -- tables and their cells


def test_rows_of_another_width_than_the_center_are_refused() -> None:
    ball = Ball(radius=1.0, center=(0.0, 1.0, 2.0))
    for width in (1, 2, 4):
        table = np.full((5, width), CANARY)
        error = refused(DataError, lambda t=table: sample(t, ball=ball, rule=EVERY))
        assert f"{width} column" in str(error)
        assert "3" in str(error)


@pytest.mark.parametrize("bad", ["text", None, 1j, b"\xff", 10**400, {}, object()], ids=lambda bad: type(bad).__name__)
def test_one_cell_of_a_list_does_not_change_how_the_others_are_read(bad: object) -> None:
    rows = [[CANARY, True], [np.float32(0.1), 2], [3, 0.25]]
    kept = [
        sample(one, ball=BALL, rule=EVERY, random_state=0).spend("a test").rows for one in (rows, [*rows, [1, bad]])
    ]
    assert np.array_equal(kept[0], kept[1])


def test_a_source_shows_its_kind_and_its_columns_and_no_number_of_rows() -> None:
    table = pa.table({f"c{column}": [CANARY] * 57 for column in range(12)})
    assert repr(pais.source(table)) == "<MemoryEngine: c0, c1, c2, c3, c4, c5, c6, c7 and 4 more>"
    assert str(pais.source(table, columns=["c3", "c1"])) == "<MemoryEngine: c3, c1>"
    assert repr(pais.source(np.full((57, 3), CANARY))) == "<MemoryEngine: 3 column(s)>"


def test_unknown_column_name_is_answered_with_the_nearest_and_all_names() -> None:
    table = pa.table({"height": [CANARY], "width": [CANARY]})
    for chosen in ({"columns": ["hieght"]}, {"columns": ["width"], "carry": ["Height"]}, {"key": "heigh"}):
        error = refused(DataError, lambda chosen=chosen: pais.source(table, **chosen), match="do not exist")
        assert "Did you mean height? Pass names of its columns: height, width." in str(error)
