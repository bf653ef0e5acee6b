"""The schema: rows to scaled vectors, vectors to own units."""

from __future__ import annotations

import copy
import datetime
import json
import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import pais
from pais import ArgumentError, Schema
from pais.data.kinds import Auto, Categories

STATED: dict[str, Any] = {
    "age": (18, 100),
    "income": "auto",
    "region": ["north", "south", "east"],
    "premium": bool,
    "joined": (datetime.date(2015, 1, 1), "2025-12-31"),
    "visits": 10,
}
SCHEMA = Schema.of(STATED)

finite = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.one_of(st.text(max_size=12), st.sampled_from(["north", " south ", "true", "NO", "2020-02-29", "1e308", "7"]))


def encoded(stated: Any, cells: pa.Array) -> list[list[float]]:
    return [column.tolist() for column in Schema.of({"c": stated}).encode_column("c", cells)]


def days(text: str) -> float:
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days


def test_names_labels_and_open_columns() -> None:
    assert SCHEMA.names == ("age", "income", "region", "premium", "joined", "visits")
    regions = ("region=north", "region=south", "region=east")
    assert SCHEMA.labels == ("age", "income", *regions, "premium", "joined", "visits")
    assert SCHEMA.width == 8
    assert SCHEMA.open == ("income",)
    assert not SCHEMA.is_bounded
    assert Schema.of(
        {"age": (18, 100), "premium": bool, "region": ["a"], "day": ("2020-01-01", "2021-01-01")}
    ).is_bounded
    assert Schema.of(SCHEMA) is SCHEMA


def test_bounds_map_to_one_and_clip() -> None:
    assert encoded((18, 100), pa.array([18, 59, 100, 0, 1000, None])) == [
        [-1, 0, 1, -1, 1, pytest.approx(math.nan, nan_ok=True)]
    ]


def test_categories_are_as_far_apart_as_a_range() -> None:
    vectors = np.array(encoded(["a", "b"], pa.array(["a", "b", " a ", "c", None, ""]))).T
    assert np.linalg.norm(vectors[0] - vectors[1]) == pytest.approx(2.0)
    assert vectors[2].tolist() == vectors[0].tolist()
    assert not vectors[3:].any()


def test_numeric_categories_compare_as_numbers() -> None:
    root = math.sqrt(2)
    assert encoded([1, 2, 9], pa.array(["1", " 1.0", "01", "2", "x"]))[:2] == [
        [root, root, root, 0, 0],
        [0, 0, 0, root, 0],
    ]
    assert encoded([1, 2, 9], pa.array([1.0, 2.0, 3.0]))[:2] == [[root, 0, 0], [0, root, 0]]
    assert encoded(["1", "b"], pa.array([1, 2, None])) == [[root, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("values", [[0, 1], [1, 0], [1, 2, 3], [3, 1, 2], [1, 2, 9], [10115, 80331, 20095]])
def test_whole_numbers_that_are_no_edges_are_categories(values: list[int]) -> None:
    assert Schema.of({"c": values}) == Schema((Categories(name="c", values=tuple(values)),))


def test_true_and_false_are_a_boolean() -> None:
    assert Schema.of({"c": [True, False]}) == Schema.of({"c": [np.False_, np.True_]}) == Schema.of({"c": bool})


@pytest.mark.parametrize("columns", ["age", ["age"], ("age", "height")])
def test_names_without_facts_are_told_what_to_state(columns: Any) -> None:
    with pytest.raises(ArgumentError, match=r"columns=\{'age': \(low, high\)\}"):
        Schema.of(columns)


@pytest.mark.parametrize(
    "text",
    [
        "2020-02-29",
        " 2020-02-29 ",
        "2020-02-29T00:00",
        "2020-02-29 00:00:00.000000",
        "2020-02-29T00:00:00Z",
        "2020-02-29T02:00:00+02:00",
        "2020-02-28 19:00-0500",
    ],
)
def test_iso_dates(text: str) -> None:
    assert encoded(("2020-02-28", "2020-03-01"), pa.array([text])) == [[0.0]]


DATES = st.from_regex(r"[0-9]{3,4}[-/.0-9][0-9]{2}[-/ 0-9][0-9]{2}", fullmatch=True)
TIMES = st.from_regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9][ Tt:][0-2][0-9][:.][0-6][0-9][:.][0-6][0-9]", fullmatch=True)


@settings(deadline=None, max_examples=100)
@given(st.one_of(st.lists(DATES, min_size=1, max_size=3), st.lists(TIMES, min_size=1, max_size=3)))
def test_dates_read_at_once_are_those_read_one_by_one(texts: list[str]) -> None:
    stated = ("0001-01-01", "9999-12-31")
    [together] = encoded(stated, pa.array(texts))
    # The last cell is of another form, so that all cells are read one by one.
    [alone] = encoded(stated, pa.array([*texts, "2020-02-29 00:00"]))
    assert np.array_equal(together, alone[:-1], equal_nan=True)


@pytest.mark.parametrize(
    "text", ["2021-02-29", "2020-13-01", "2020-00-10", "2020-1-1", "20200101", "", "NaT", "2020-01-01T25:00"]
)
def test_text_that_is_no_date_is_missing(text: str) -> None:
    assert np.isnan(encoded(("2020-01-01", "2022-01-01"), pa.array([text]))[0]).all()


@settings(deadline=None)
@given(st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)))
def test_every_type_of_time_gives_the_same_coordinate(time: datetime.datetime) -> None:
    stated = ("1900-01-01", "2100-01-01")
    ticks = pa.array([time], pa.timestamp("us"))
    kinds: list[pa.Array] = [
        ticks,
        pa.array([time.replace(tzinfo=datetime.timezone.utc)], pa.timestamp("us", tz="Europe/Berlin")),
        pa.array([time.isoformat()]),
        pa.array([time.replace(tzinfo=datetime.timezone.utc).isoformat()]),
        ticks.cast(pa.timestamp("ns")),
    ]
    assert len({str(encoded(stated, cells)) for cells in kinds}) == 1
    midnight = pa.array([time.date()], pa.date32())
    kinds = [midnight, midnight.cast(pa.date64()), midnight.cast(pa.timestamp("s")), midnight.cast(pa.timestamp("ns"))]
    kinds.append(pa.array([time.date().isoformat()]))
    assert len({str(encoded(stated, cells)) for cells in kinds}) == 1


@settings(deadline=None)
@given(st.lists(st.one_of(finite, st.none(), st.just(math.inf), st.just(1e308), st.just(-1.79e308)), max_size=30))
def test_encoded_numbers_are_finite_or_nan(cells: list[float | None]) -> None:
    for stated in ((-3, 9), 1e-300, 1e300, (-1e300, 1e300), "auto"):
        [column] = Schema.of({"c": stated}).encode_column("c", pa.array(cells, pa.float64()))
        assert not np.isinf(column).any()
    [column] = (
        Schema.of({"c": "auto"}).resolved({"c": (1e300, 1e-300)}).encode_column("c", pa.array(cells, pa.float64()))
    )
    assert not np.isinf(column).any()


@settings(deadline=None)
@given(finite, finite, st.lists(finite, min_size=1, max_size=20))
def test_bounds_decode_what_they_encode(one: float, other: float, cells: list[float]) -> None:
    low, high = sorted((one, other))
    if abs(low) > 1e300 or abs(high) > 1e300 or high / 2 - low / 2 < 1e-300:
        with pytest.raises(ArgumentError):
            Schema.of({"c": (low, high)})
        return
    schema = Schema.of({"c": (low, high)})
    [column] = schema.encode_column("c", pa.array(cells, pa.float64()))
    assert (np.abs(column) <= 1.0).all()
    size = max(abs(low), abs(high))
    decoded = schema.decode(column[:, None])[:, 0]
    assert np.allclose(decoded / size, np.clip(cells, low, high) / size, rtol=0, atol=1e-14)
    assert ((low <= decoded) & (decoded <= high)).all()


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=12), st.integers(0, 11), TEXTS, st.sampled_from(sorted(STATED)))
def test_a_cell_does_not_change_the_encoding_of_another_row(cells: list[str], place: int, cell: str, name: str) -> None:
    place %= len(cells)
    before = SCHEMA.encode_column(name, pa.array(cells, pa.string()))
    after = SCHEMA.encode_column(name, pa.array([*cells[:place], cell, *cells[place + 1 :]], pa.string()))
    for old, new in zip(before, after, strict=True):
        assert np.array_equal(np.delete(old, place), np.delete(new, place), equal_nan=True)
    for row in range(len(cells)):
        alone = SCHEMA.encode_column(name, pa.array([cells[row]], pa.string()))
        assert np.array_equal([column[row] for column in before], [column[0] for column in alone], equal_nan=True)


def test_long_columns_with_one_bad_cell() -> None:
    cells = [str(number % 100) for number in range(3000)]
    cells[1700] = "bad"
    [column] = SCHEMA.encode_column("age", pa.array(cells))
    [clean] = SCHEMA.encode_column("age", pa.array([*cells[:1700], "0", *cells[1701:]]))
    assert np.flatnonzero(column != clean).tolist() == [1700]


def test_bytes_that_are_no_text_are_missing() -> None:
    cells = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 2, 3], np.int32)), pa.py_buffer(b"\xff\xfe1")]
    )
    for name in STATED:
        for column in SCHEMA.encode_column(name, cells):
            assert np.isnan(column[0]) or column[0] == 0.0


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=8), min_size=1, max_size=5))
def test_decoded_values_respect_bounds_and_shares(vectors: list[list[float]]) -> None:
    frame = dict(zip(SCHEMA.labels, SCHEMA.decode(vectors).T, strict=True))
    assert ((frame["age"] >= 18) & (frame["age"] <= 100)).all()
    assert ((frame["premium"] >= 0) & (frame["premium"] <= 1)).all()
    shares = np.array([frame[f"region={name}"] for name in ("north", "south", "east")])
    assert ((shares >= 0) & (shares <= 1)).all()
    assert (shares.sum(axis=0) <= 1 + 1e-12).all()
    assert ((frame["joined"] >= days("2015-01-01")) & (frame["joined"] <= days("2025-12-31"))).all()
    assert (frame["visits"] == 10 * np.array(vectors)[:, 7]).all()


def test_shares_below_one_are_not_normalised() -> None:
    root = math.sqrt(2)
    schema = Schema.of({"region": ["a", "b"]})
    assert schema.decode([[0.25 * root, 0.25 * root]]).tolist() == pytest.approx(np.array([[0.25, 0.25]]))
    assert schema.decode([[root, root]]).tolist() == pytest.approx(np.array([[0.5, 0.5]]))


def test_resolved_columns_are_clipped_centered_and_scaled() -> None:
    cells = pa.array([40.0, 53.0, None])
    assert SCHEMA.encode_column("income", cells)[0][:2].tolist() == [40.0, 53.0]
    resolved = SCHEMA.resolved({"income": (50.0, 5.0)})
    assert resolved.open == ()
    assert resolved.encode_column("income", cells)[0][:2].tolist() == [-1.0, 0.6]
    assert resolved.decode(np.full((1, 8), 2.0))[0, 1] == 55.0
    assert resolved != SCHEMA
    with pytest.raises(ArgumentError, match="not an auto column"):
        SCHEMA.resolved({"age": (1.0, 1.0)})


def test_rescaled_rows_equal_rows_encoded_with_the_resolved_schema() -> None:
    cells = pa.array([1e308, 40.1, 60.3, None, -1e-300])
    resolved = SCHEMA.resolved({"income": (50.7, 5.1)})
    rows = np.zeros((5, 8))
    [rows[:, 1]] = SCHEMA.encode_column("income", cells)
    assert np.array_equal(
        SCHEMA.rescaled(rows, resolved)[:, 1], resolved.encode_column("income", cells)[0], equal_nan=True
    )


def test_unit_scale_is_the_slope_of_decode() -> None:
    schema = SCHEMA.resolved({"income": (50.0, 5.0)})
    point, step = np.full((1, 8), 0.1), 1e-3
    slope = (schema.decode(point + step * np.eye(8)) - schema.decode(point)).diagonal() / step
    assert slope == pytest.approx(schema.unit_scale)


def test_decode_frame_has_dates() -> None:
    frame = SCHEMA.decode_frame([[1.0, 0, 0, 0, 0, 0, 1.0, 0]])
    assert tuple(frame) == SCHEMA.labels
    assert frame["joined"][0] == np.datetime64("2025-12-31")
    assert frame["age"][0] == 100.0


def test_dates_are_whole_days_if_dates_were_stated_and_times_if_times_were() -> None:
    day = Schema.of({"t": ("2025-01-01", "2025-01-04")}).decode_frame([[0.0]])["t"][0]
    time = Schema.of({"t": ("2025-01-01", "2025-01-04T06:00")}).decode_frame([[0.0]])["t"][0]
    assert day == np.datetime64("2025-01-02")
    assert time == np.datetime64("2025-01-02T15:00")


def test_schema_files_and_equality() -> None:
    for schema in (
        SCHEMA,
        SCHEMA.resolved({"income": (50.0, 5.0)}),
        Schema((Categories(name="c", values=(1, 2.5, 9)),)),
        Schema.of({"c": pais.ranges(0, 2.5, 9), "d": pais.ranges(-math.inf, 0, math.inf)}),
        Schema.of({"c": pais.weeks("2024-12-31", "2025-01-31"), "d": pais.years("2020-01-01", "2024-01-01")}),
        Schema.of({"c": ["infinity"]}),
    ):
        rebuilt = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
        assert rebuilt == schema
        assert hash(rebuilt) == hash(schema)
        assert rebuilt.to_dict() == schema.to_dict()
        assert pickle.loads(pickle.dumps(schema)) == schema
        assert copy.deepcopy(schema) == schema
    assert Schema.of({"t": ("2020-01-01T10:30:00.000001", "2020-01-02")}) == Schema.from_dict(
        Schema.of({"t": ("2020-01-01T10:30:00.000001", "2020-01-02")}).to_dict()
    )


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ((5, 5), "low < high"),
        ((9, 5), "low < high"),
        ((math.nan, 5), "out of range"),
        ((0, math.inf), "out of range"),
        (("north", "south"), "write categories as a list"),
        (("2020-01-01", "2019-01-01"), "low < high"),
        ((0, "2019-01-01"), "must be a number"),
        ([], "no categories"),
        ([0, 20, 40, 60, 80, 110], r"Write pais.ranges\(0, 20, 40, 60, 80, 110\) for ranges, or .* \['0', '20', "),
        (np.array([18, 65, 100]), r"pais.ranges\(18, 65, 100\)"),
        ([2.5, 1, 3], r"pais.ranges\(1, 2.5, 3\)"),
        ([4, 6, 8], r"\['4', '6', '8'\], for exact values"),
        ([100, 18], "bounds or categories"),
        ([0.5, 1], "bounds or categories"),
        (["a", "a "], "same one twice"),
        ([True, True], "pass bool"),
        ([True, 2, "a"], "pass bool"),
        ([18, 100], "two numbers"),
        ([0.5, 1.5], "two numbers"),
        ((17,), "two numbers"),
        (("north",), "Write categories as a list"),
        ([""], "cannot be used"),
        ("automatic", "not understood"),
        (True, "not understood"),
        (0, "out of range"),
        (-1, "out of range"),
        ({"a", "b"}, "not understood"),
        (None, "not understood"),
    ],
)
def test_statements_that_are_refused(stated: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Schema.of({"c": stated})


def test_labels_that_occur_twice_are_refused() -> None:
    with pytest.raises(ArgumentError, match="occurs twice"):
        Schema.of({"a": ["x", "y"], "a=x": 1})
    with pytest.raises(ArgumentError, match="State at least one"):
        Schema.of({})


def test_standardized_columns_are_clipped_far_from_the_mean_only() -> None:
    column = Auto(name="gain", standardized=True).resolved(2.0, 0.5, 0.0, 5.0)
    assert column.scaled(np.array([2.5, 7.0, 1e9, -1e300])).tolist() == [1.0, 10.0, 10.0, -10.0]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (lambda: pais.ranges(), "two or more numbers"),
        (lambda: pais.ranges(5), "two or more numbers"),
        (lambda: pais.ranges(0, 20, 20), "ascending order"),
        (lambda: pais.ranges(20, 0), "ascending order"),
        (lambda: pais.ranges(0, True), "two or more numbers"),
        (lambda: pais.ranges("0", "20"), "two or more numbers"),
        (lambda: pais.ranges("0 20"), "two or more numbers"),
        (lambda: pais.ranges(0, math.nan), "two or more numbers"),
        (lambda: pais.ranges(0, 10**400), "two or more numbers"),
        (lambda: pais.ranges(range(5000)), "more than 750 ranges"),
        (lambda: pais.months("2024-12-31", "2024-01-01"), "Pass the first date, then the last"),
        (lambda: pais.months("soon", "2024-01-01"), "not a date"),
        (lambda: pais.years(2020, 2024), "not a date"),
        (lambda: pais.days("1024-01-01", "2024-01-01"), "more than 750 days"),
    ],
)
def test_groups_that_are_refused(state: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        state()


def test_groups_show_how_they_are_written() -> None:
    for text in ("pais.ranges(-math.inf, 0, 20.5, 1000000)", "pais.months('2024-01-01', '2024-02-29')"):
        assert repr(eval(text)) == text
    assert pais.ranges([0, 20]) == pais.ranges(0, 20) == pais.ranges(np.array([0.0, 20.0]))
    assert pais.weeks("2025-01-01", "2025-01-01") == pais.weeks("2024-12-30", "2025-01-05")
    assert Schema.of({"c": pais.ranges(0, 100_000, 2.5e6)}).labels == ("c=0 to 100,000", "c=100,000 to 2,500,000")
