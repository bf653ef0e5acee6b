"""A cell has the same coordinates whatever the type of its column, and no cell changes another row or the outcome."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from pais import ArgumentError, DataError, Schema, source
from pais.data.tables import read

UTC = datetime.timezone.utc
BERLIN = "Europe/Berlin"

KINDS: dict[str, Any] = {
    "bounds": (-10, 2000),
    "auto": "auto",
    "scale": 10,
    "texts": ["5", "1", "x", "True", "0.5", "nan", "NaT", "05"],
    "numbers": [5, 1, 2, 2**53],
    "boolean": bool,
    "truths": ["no", "yes"],
    "dates": ("1800-01-01", "2030-01-01"),
}

ODD: list[Any] = [
    None,
    math.nan,
    math.inf,
    pd.NA,
    pd.NaT,
    decimal.Decimal("0.5"),
    decimal.Decimal("sNaN"),
    10**5000,
    -(10**400),
    2**63 + 5,
    2**53 + 1,
    fractions.Fraction(1, 2),
    1 + 2j,
    np.complex128(1),
    np.array([1.0]),
    [1],
    (1,),
    {},
    b"5",
    b"\xff",
    True,
    np.bool_(False),
    datetime.date(2020, 1, 1),
    datetime.datetime(2020, 1, 1, 10, tzinfo=UTC),
    datetime.datetime(1, 1, 1),
    datetime.time(1, 2),
    datetime.timedelta(1),
    np.datetime64("2020-01"),
    np.datetime64("NaT"),
    np.datetime64("12345-01-01", "s"),
    np.timedelta64(1, "D"),
    pd.Timestamp("2020-01-01 10:00:00.123456789"),
    pd.Timestamp("1880-01-01", tz=BERLIN),
    pd.Timedelta(1),
    pd.Period("2020-01"),
    pd.Interval(0, 1),
    uuid.UUID(int=5),
    "\ud800",
    "\x00",
    np.float32(0.1),
    np.longdouble(1.5),
    np.int8(1),
    object(),
    type,
]

WORDS = [
    *(
        "5",
        "5.0",
        "05",
        "+5",
        " 5 ",
        "5\u00a0",
        "\u0663",
        "1_000",
        "1000",
        "true",
        "True",
        "TRUE",
        "yes",
        "nan",
        "NaN",
        "tRUE",
        "No",
    ),
    *("inf", "NaT", "", "NA", "x", " x", "0.50", "5e-1", "1e400", "2020-02-29", "2020-02-29T10:00:00+01:00", "0x10"),
    *("9007199254740993", "1880-01-01T00:00:00+00:53:28", "12345-01-01", "2020-02-29 10:00:00.123456789"),
]

texts = st.one_of(st.sampled_from(WORDS), st.text(max_size=5))
floats = st.one_of(st.floats(), st.sampled_from([5.0, 1.0, 0.5]))
integers = st.one_of(st.integers(-3, 6), st.integers(-(2**64), 2**64))
times = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2100, 1, 1))
zoned = times.map(lambda time: pd.Timestamp(time, tz="UTC").tz_convert(BERLIN))
odd = st.sampled_from(ODD)
anything = st.one_of(texts, floats, integers, st.booleans(), times, zoned, st.dates(), odd)

columns_of_cells = st.one_of(
    *(
        st.lists(cells, min_size=1, max_size=6)
        for cells in (texts, floats, integers, st.booleans(), times, zoned, st.dates(), st.none(), anything)
    ),
    st.lists(st.one_of(integers, st.none()), min_size=1, max_size=6),
)


def column_of(cells: list[Any]) -> pd.Series[Any]:
    """Let pandas choose the type of the column, as it does for users; objects if it cannot."""
    objects = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        objects[place] = cell
    try:
        return pd.Series(objects).infer_objects()
    except Exception:
        return pd.Series(objects, dtype=object)


def vectors(column: pd.Series[Any], stated: Any) -> Any:
    return read(pd.DataFrame({"c": column}), columns={"c": stated}).rows


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(cells=columns_of_cells, extra=anything)
@example(cells=[5.0, 1.0, 5.0], extra="x")
@example(cells=["1_000", "5", "true", "5\u00a0", "\u0663"], extra=7)
@example(cells=[pd.Timestamp("1880-01-01", tz=BERLIN)], extra="x")
@example(cells=[math.nan, math.nan], extra="2020-01-01")
@example(cells=[True, False], extra=None)
@example(cells=[1 + 2j], extra="x")
@example(cells=[1.0], extra=1 + 2j)
@example(cells=[np.datetime64("12345-01-01", "s")], extra="x")
@example(cells=[pd.Period("2020-01")], extra=1)
def test_a_row_does_not_change_the_vectors_of_the_others(kind: str, cells: list[Any], extra: Any) -> None:
    stated = KINDS[kind]
    before, after = vectors(column_of(cells), stated), vectors(column_of([*cells, extra]), stated)
    assert after[:-1].tobytes() == before.tobytes()
    assert not np.isinf(after).any()
    for place, cell in enumerate(cells):
        assert vectors(column_of([cell]), stated).tobytes() == before[place].tobytes()


def stored(cells: list[Any]) -> dict[str, Any]:
    """The same cells in columns of several types."""
    series = pd.Series(cells)
    return {
        "inferred": pd.DataFrame({"c": series}),
        "objects": pd.DataFrame({"c": series.astype(object)}),
        "categories": pd.DataFrame({"c": series.astype("category")}),
        "Arrow": pa.table({"c": pa.array(series)}),
        "dictionary": pa.table({"c": pa.array(series).dictionary_encode()}),
        "text": pd.DataFrame({"c": series.astype(str)}),
        "text objects": pd.DataFrame({"c": series.astype(str).astype(object)}),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "cells",
    [[5, 1, 0, 7], [5.0, 1.0, 0.5, -0.0, 0.1], [2**53 + 1, 1], [True, False], ["5", "x", "1_000", "true", "5.0", "05"]],
    ids=str,
)
def test_a_cell_has_the_same_coordinates_in_columns_of_every_type(kind: str, cells: list[Any], tmp_path: Path) -> None:
    if kind == "dates":
        cells = ["2020-01-01", "2020-01-01T10:00:00", "x"]
    tables = stored(cells)
    tables["inferred"].to_csv(tmp_path / "cells.csv", index=False)
    expected = read(tables["inferred"], columns={"c": KINDS[kind]}).rows
    for name, table in tables.items():
        assert read(table, columns={"c": KINDS[kind]}).rows.tobytes() == expected.tobytes(), name
    from_file = source(str(tmp_path / "cells.csv"), columns={"c": KINDS[kind]}).held()
    assert np.array_equal(from_file._rows, expected, equal_nan=True)  # type: ignore[attr-defined]


@pytest.mark.parametrize("values", [["5", "5.0"], ["True", "true"], ["0.5", "0.50", "x"], ["1e3", "1000", "a"]])
def test_categories_that_no_cell_can_tell_apart_are_refused(values: list[str]) -> None:
    with pytest.raises(ArgumentError, match="same one twice"):
        Schema.of({"c": values})


def test_text_with_leading_zeros_is_a_category_of_its_own() -> None:
    schema = Schema.of({"zip": ["01234", "1234", "x"]})
    root = math.sqrt(2)
    first, second, _ = schema.encode_column("zip", pa.array(["01234", "1234", "1234.0"]))
    assert first.tolist() == [root, 0, 0]
    assert second.tolist() == [0, root, root]
    assert [column.tolist() for column in schema.encode_column("zip", pa.array([1234]))] == [[0], [root], [0]]


MIXED = pd.Index(["a", 1, 2.5], dtype=object)


@pytest.mark.parametrize("columns", [{"v": (0, 1)}, ["v"], None])
def test_an_index_that_is_not_used_is_not_converted(columns: Any) -> None:
    frame = pd.DataFrame({"v": [0.1, 0.2, 0.3]}, index=MIXED)
    assert read(frame, columns=columns).rows.shape == (3, 1)


def test_an_index_that_is_used_is_read_like_a_column() -> None:
    frame = pd.DataFrame({"v": [0.1, 0.2, 0.3]}, index=pd.Index([1.0, 2.0, "x"], dtype=object, name="w"))
    stated = {"v": (0, 1), "w": (0, 10)}
    assert np.array_equal(
        read(frame, columns=stated).rows, read(frame.reset_index(), columns=stated).rows, equal_nan=True
    )
    levels = frame.set_index(pd.Index([7, 7, 8], name="id"), append=True)
    assert np.array_equal(read(levels, columns=stated).rows, read(frame, columns=stated).rows, equal_nan=True)
    assert source(levels, columns=stated, unit="id").unit is not None
    assert read(levels, columns=["v", "w"]).rows[:, 1].tolist()[:2] == [1.0, 2.0]
    with pytest.raises(DataError, match="do not exist"):
        read(levels, columns=["missing"])


@pytest.mark.parametrize("name", ["c", "other"])
def test_chunks_whose_dictionaries_hold_nulls(name: str) -> None:
    one = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["5", "1"]))
    other = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["1", None]))
    table = pa.table({"c": pa.chunked_array([one, other]), "other": pa.chunked_array([other, one])})
    for stated in (["5", "1"], (0, 10), bool, "auto"):
        plain = pa.table({key: table.column(key).cast(pa.string()) for key in table.column_names})
        expected = read(plain, columns={name: stated}).rows
        assert np.array_equal(read(table, columns={name: stated}).rows, expected, equal_nan=True)


@settings(deadline=None, max_examples=60)
@given(cells=columns_of_cells, extra=anything)
@example(cells=["1", "2"], extra=3)
@example(cells=[pd.Timestamp("2020-01-01")], extra=3)
@example(cells=["1_000", "5", "true"], extra=7)
def test_columns_named_without_a_schema_follow_the_same_rule(cells: list[Any], extra: Any) -> None:
    before = read(pd.DataFrame({"c": column_of(cells)}), columns=["c"]).rows
    after = read(pd.DataFrame({"c": column_of([*cells, extra])}), columns=["c"]).rows
    finite = np.isfinite(np.asarray(before, dtype=float))
    assert np.array_equal(np.isfinite(np.asarray(after[:-1], dtype=float)), finite)
    assert np.array_equal(after[:-1][finite], before[finite])
