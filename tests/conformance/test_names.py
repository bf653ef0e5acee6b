"""Groups that nobody listed: the same names wherever rows are stored, and nothing about those not published."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
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
from tests.conformance.streams import STREAMS

pytestmark = pytest.mark.filterwarnings("ignore")

SECRET = "Jane Doe, room 4711"


def rows(n: int = 6000, people: int = 1500) -> pa.Table:
    """Wards of very different sizes, one of a single person, in an order of their own."""
    rng = np.random.default_rng(3)
    wards = [f"ward {min(int(place), 300)}" for place in rng.zipf(1.7, n)]
    wards[17] = SECRET
    cells = {
        "person": rng.integers(0, people, n),
        "ward": pa.array([None if place % 97 == 0 else ward for place, ward in enumerate(wards)], pa.string()),
        "size": rng.geometric(0.3, n),
        "age": np.round(rng.uniform(20.0, 90.0, n), 3),
    }
    return pa.table(cells)


def parquet(table: pa.Table, home: Path) -> Path:
    pq.write_table(table, home / "rows.parquet", row_group_size=700)
    return home / "rows.parquet"


def csv(table: pa.Table, home: Path) -> Path:
    pa_csv.write_csv(table, home / "rows.csv")
    return home / "rows.csv"


STORES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "pandas": lambda table, _: table.to_pandas(),
    "objects": lambda table, _: table.to_pandas().astype({"ward": object, "size": object}),
    "categories": lambda table, _: table.to_pandas().astype({"ward": "category"}),
    "polars": lambda table, _: pl.from_arrow(table),
    "Parquet": parquet,
    "CSV": csv,
    "shuffled": lambda table, _: table.take(np.random.default_rng(1).permutation(table.num_rows)),
    **{name: lambda table, _, stream=stream: stream(table) for name, stream in STREAMS.items()},
}

CALLS: dict[str, Callable[[Any], pais.Statistic]] = {
    "count": lambda table: pais.count(table, by="ward", epsilon=1.0, random_state=1),
    "mean": lambda table: pais.mean(table, {"age": (0, 100)}, by="size", unit="person", epsilon=2.0, random_state=1),
    "people": lambda table: pais.count_people(table, by=["ward", "size"], unit="person", epsilon=2.0, random_state=1),
}


@pytest.fixture(scope="module")
def expected() -> dict[str, pais.Statistic]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {what: call(rows()) for what, call in CALLS.items()}


def same(result: pais.Statistic, expected: pais.Statistic) -> bool:
    assert result.rows is not None
    return result.rows == expected.rows and np.array_equal(result.released, expected.released)


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("store", STORES)
def test_names_and_values_are_the_same_wherever_rows_are_stored(
    store: str, what: str, tmp_path: Path, expected: dict[str, pais.Statistic]
) -> None:
    assert same(CALLS[what](STORES[store](rows(), tmp_path)), expected[what])


def test_names_are_sorted_and_other_is_last(expected: dict[str, pais.Statistic]) -> None:
    axis = expected["count"].rows
    assert axis is not None
    (names,) = axis.levels
    assert len(names) > 5
    assert names == (*sorted(names[:-1]), "other")


def test_a_name_that_is_not_published_is_nowhere(tmp_path: Path) -> None:
    """Neither in the words and the page of a result, nor in its certificate, its plan and its errors."""
    for number, call in enumerate(CALLS.values()):
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            result = call(rows())
        assert result.plan is not None
        page, plan = tmp_path / f"{number}.html", tmp_path / f"{number}.json"
        result.write_report(page)
        result.plan.save(plan)
        seen = [str(result), repr(result), result.explain(), result.certificate.to_json(), str(result.to_frame())]
        seen += [page.read_text(), plan.read_text(), *(str(warning.message) for warning in issued)]
        for text in seen:
            assert "Jane" not in text
            assert "ward 299" not in text
    for wrong in ({"delta": 0.0}, {"epsilon": -1.0}, {"columns": {"ward": (0, 1)}}):
        with pytest.raises(pais.PaisError) as refused:
            pais.count(rows(), **{"by": "ward", **wrong})
        assert "Jane" not in str(refused.value)


def test_markup_in_names_is_escaped(tmp_path: Path) -> None:
    table = pa.table({"ward": ["<script>alert(1)</script>", "a & b"] * 400})
    result = pais.count(table, by="ward", epsilon=2.0)
    result.write_report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert(1)" not in page
    assert "<script>alert(1)" not in (result._repr_html_() or "")


@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_tiny_tables_have_other_alone_and_say_so(n: int, unit: str | None) -> None:
    table = rows().slice(17, n)
    result = pais.count(table, by="ward", unit=unit, epsilon=1.0, random_state=0)
    assert result.rows is not None
    assert result.rows.levels == (("other",),)
    assert any("no name in 'ward' was found" in caution.text for caution in result.cautions)


@pytest.mark.parametrize("ward", [[], [None], [None] * 40 + ["other"] * 9], ids=["no row", "no name", "other alone"])
@pytest.mark.parametrize("what", ["count", "sum", "mean", "variance", "histogram", "covariance", "describe"])
def test_a_table_without_names_has_the_result_of_one_with_a_name(what: str, ward: list[str | None]) -> None:
    """Otherwise the error would show that nobody has a name, and no price covers that."""
    levels = []
    for wards in (ward, [*ward, "north"]):
        cells = {"ward": pa.array(wards, pa.string()), "sex": pa.array(["f"] * len(wards), pa.string())}
        numbers = {name: np.full(len(wards), 50.0) for name in ("age", "size")}
        columns = {} if what == "count" else {"columns": dict.fromkeys(numbers, (0, 100))}
        by = {"sex": ["f", "m"], "ward": pais.names()}
        result = getattr(pais, what)(pa.table({**cells, **numbers}), by=by, random_state=0, **columns)
        assert result.rows is not None
        levels.append(result.rows.levels)
    assert levels[0] == levels[1]


def test_one_person_with_many_names_and_names_of_one_person_each_are_other() -> None:
    alone = pa.table({"person": [1] * 5000, "ward": [f"n{number}" for number in range(5000)]})
    unique = pa.table({"person": np.arange(3000), "ward": [f"n{number}" for number in range(3000)]})
    same_name = pa.table({"person": [1] * 5000, "ward": ["n"] * 5000})
    for table in (alone, unique, same_name):
        result = pais.count_people(table, by="ward", unit="person", epsilon=1.0, random_state=0)
        assert result.rows is not None
        assert result.rows.levels == (("other",),)
        assert "is probably not shown" in " ".join(result.notes)


def test_cells_that_say_other_count_there() -> None:
    table = pa.table({"ward": ["a"] * 1000 + ["other"] * 700})
    value = pais.count(table, by="ward", epsilon=5.0, random_state=0).value
    assert value.index.tolist() == ["a", "other"]
    assert 680 < value["other"] < 720


def test_numbers_of_groups_are_limited_by_frequency() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(0, 400, 150_000) for name in ("one", "two")})
    result = pais.count(table, by=["one", "two"], epsilon=8.0, delta=1e-6, random_state=0)
    assert result.rows is not None
    assert 50_000 < len(result.rows) <= 100_000
    assert any("form too many groups" in caution.text for caution in result.cautions)


def test_the_certificate_states_all_of_delta() -> None:
    result = pais.count(rows(), by="ward", epsilon=1.0, delta=1e-6, random_state=0)
    assert result.certificate.delta == pytest.approx(1e-6, rel=1e-9)
    assert result.certificate.epsilon <= 1.0
    assert json.loads(result.certificate.to_json())["delta"] == result.certificate.delta


@pytest.mark.parametrize("what", ["count", "mean", "describe", "histogram"])
def test_the_line_of_a_release_counts_all_coordinates(what: str) -> None:
    """Noise alone exceeds the line by less than one row as often as delta says: 40,000 names of one row each."""
    table = pa.table({"ward": [f"n{number}" for number in range(40_000)], "age": np.full(40_000, 50.0)})
    columns = {} if what == "count" else {"columns": {"age": (0, 100)}}
    delta = 2e-3
    result = getattr(pais, what)(table, by="ward", epsilon=1.0, delta=delta, random_state=4, **columns)
    assert result.rows is not None
    n_found = len(set(result.rows.levels[0])) - 1
    assert n_found <= delta * 40_000 + 4 * math.sqrt(delta * 40_000)
    # The line of several whole counts is a bound, which noise reaches less often.
    assert n_found >= 1 or what == "histogram"


def test_published_totals_replace_those_of_the_release() -> None:
    """Values of found names have the noise of the names, and "other" has all rows of the others."""
    table = rows()
    wards = pd.Series(table["ward"].to_pylist()).value_counts()
    found = pais.count(table, by="ward", epsilon=1.0, delta=1e-5, random_state=1)
    value, error = found.value, found.standard_error
    names = [name for name in value.index if name != "other"]
    assert np.abs(value[names] - wards[names]).max() < 15.0
    assert error[names].to_numpy() == pytest.approx(pais.geometric_noise(epsilon=0.96).deviation(1))
    assert abs(value["other"] - (wards.sum() - wards[names].sum())) < 200.0
    assert "on those of 'other'" in found.noise
    mixed = pais.count(
        table.append_column("sex", pa.array(["f", "m"] * 3000)),
        by={"sex": ["f", "m"], "ward": pais.names()},
        epsilon=1.0,
        delta=1e-5,
        random_state=1,
    )
    by_ward = mixed.value.groupby(level=1).sum()
    shared = [name for name in names if name in by_ward.index]
    assert len(shared) > 5
    assert np.abs(by_ward[shared] - wards[shared]).max() < 25.0


def test_stated_numbers_of_groups_make_counts_of_people_as_good_as_listed_ones() -> None:
    table = pa.table({"person": np.arange(6000), "ward": rows()["ward"]})
    wards = pd.Series(table["ward"].to_pylist()).value_counts()
    found, unstated = (
        pais.count_people(table, by="ward", unit="person", epsilon=1.0, random_state=1, **stated)
        for stated in ({"max_groups_per_unit": 1}, {})
    )
    names = [name for name in found.value.index if name != "other"]
    listed = {"by": {"ward": names}, "unit": "person", "max_groups_per_unit": 1}
    listed_error = pais.count_people(table, epsilon=1.0, random_state=1, **listed).standard_error
    assert found.standard_error[names].max() <= 1.05 * listed_error.min()
    assert len(names) > len(unstated.value)
    assert np.abs(found.value[names] - wards[names]).max() < 15.0
    assert found.interval()[0]["other"] < wards.sum() - wards[names].sum() < found.interval()[1]["other"]


@pytest.mark.parametrize("stated", [{"max_groups_per_unit": 1}, {"max_groups_per_unit": 20}, {}], ids=str)
def test_names_of_people_are_followed_by_pure_noise(stated: dict[str, Any]) -> None:
    """A fifth of epsilon finds the names, so that errors are a quarter above those of listed groups."""
    table = rows(people=6000)
    found = pais.mean(table, {"age": (0, 100)}, by="ward", unit="person", epsilon=1.0, random_state=1, **stated)
    names = [name for name in found.value.index if name != "other"]
    listed = {"by": {"ward": names}, "unit": "person"}
    reference = pais.mean(table, {"age": (0, 100)}, epsilon=1.0, random_state=1, **listed).standard_error
    assert 1.1 < (found.standard_error[names] / reference).median() < 1.4
    assert found.certificate.delta == 1e-9


@pytest.mark.parametrize("what", ["count", "sum", "mean", "variance", "histogram", "describe"])
def test_many_columns_by_unlisted_groups_have_gaussian_noise(what: str) -> None:
    """After names that have nearly all of the shift, nothing would be left for the totals of "other"."""
    table = rows()
    for number in range(20):
        table = table.append_column(f"age {number}", table["age"])
    columns = {f"age {number}": (0, 100) for number in range(20)}
    result = getattr(pais, what)(table, columns, by="ward", epsilon=1.0, random_state=1)
    assert result.rows is not None
    groups = list(dict.fromkeys(result.rows.levels[0]))
    assert groups[0] == "ward 1"
    listed = getattr(pais, what)(table, columns, by={"ward": groups[:-1]}, epsilon=1.0, random_state=1)
    found, known = (one.standard_errors.reshape(-1, 20)[0, 0] for one in (result, listed))
    assert found == pytest.approx(known, rel=0.15)
    assert result.certificate.delta == listed.certificate.delta == 1e-9


def test_counts_of_people_and_of_their_rows_have_the_noise_of_listed_groups() -> None:
    table = pa.table({**dict(zip(("ward", "size", "age"), rows().columns[1:], strict=True)), "person": np.arange(6000)})
    for count in (pais.count, pais.count_people):
        found = count(table, by="ward", unit="person", epsilon=1.0, random_state=1)
        names = [name for name in found.value.index if name != "other"]
        listed = count(table, by={"ward": names}, unit="person", epsilon=1.0, random_state=1)
        assert (found.standard_error[names] / listed.standard_error[names]).median() < 1.6


def test_people_with_many_stated_groups_have_gaussian_noise() -> None:
    """Pure noise covers the number of groups of a person, and Gaussian noise its root."""
    noises = []
    for most in (4, 200):
        stated = {"by": ["ward", "size"], "unit": "person", "max_groups_per_unit": most}
        noises.append(pais.count_people(rows(), epsilon=1.0, delta=1e-6, random_state=1, **stated).noise)
    assert [noise.split()[0] for noise in noises] == ["Laplace", "Gaussian"]


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"max_groups_per_unit": 2}, "Pass the column that names them as unit"),
        ({"max_groups_per_unit": 0, "unit": "person"}, "positive integer"),
        ({"max_groups_per_unit": 1 << 17, "unit": "person"}, "Pass a number up to 65,536"),
        ({"max_groups_per_unit": 2, "unit": "person", "by": {"ward": ["ward 1"]}}, "Leave it out"),
    ],
)
def test_numbers_of_groups_that_mean_nothing_are_refused(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pais.count(rows(), **{"by": "ward", **stated})


@pytest.mark.parametrize("unit", [None, "person"])
def test_top_has_the_highest_counts_and_wider_intervals(unit: str | None) -> None:
    table = pa.table({"person": np.arange(6000), "ward": rows()["ward"]})
    stated = {} if unit is None else {"unit": unit, "max_groups_per_unit": 1}
    price = {"epsilon": 1.0, "delta": 1e-5, "random_state": 1}
    result = pais.top(table, "ward", k=4, **stated, **price)  # type: ignore[arg-type]
    count = pais.count if unit is None else pais.count_people
    whole = count(table, by="ward", **stated, **price)  # type: ignore[operator]
    expected = whole.value.drop("other").sort_values(ascending=False, kind="stable").head(4)
    assert result.value.tolist() == expected.tolist()
    assert result.value.index.tolist() == expected.index.tolist()
    low, high = result.interval()
    usual_low, usual_high = (end[expected.index] for end in whole.interval())
    assert (low < usual_low).all()
    assert (high > usual_high).all()
    assert f"the 4 highest of {len(whole.value) - 1}" in result.about == result.certificate.about
    assert len(result.to_frame()) == 4


def test_top_of_listed_names_and_of_a_table_without_names() -> None:
    listed = pais.top(rows(), {"ward": ["ward 1", "ward 2", "ward 3"]}, k=2, epsilon=1.0, random_state=0)
    assert listed.value.index.tolist() == ["ward 1", "ward 2"]
    assert listed.certificate.delta == 0.0
    none = pais.top(rows().slice(0, 3), "ward", k=2, epsilon=1.0, random_state=0)
    assert none.value.index.tolist() == ["other"]
    with pytest.raises(ValueError, match="positive integer"):
        pais.top(rows(), "ward", k=0)
    with pytest.raises(ValueError, match="Pass it as by"):
        pais.top(rows())


def test_intervals_of_top_hold_the_true_count_for_a_share_of_the_chosen_names() -> None:
    """Of 1,500 wards of 40 rows each, noise chooses the highest. Usual intervals miss most of them."""
    table = pa.table({"ward": np.repeat([f"w{number}" for number in range(1500)], 40)})
    result = pais.top(table, "ward", k=20, epsilon=1.0, delta=1e-5, random_state=3)
    whole = pais.count(table, by="ward", epsilon=1.0, delta=1e-5, random_state=3)
    assert (result.interval()[0] <= 40).mean() >= 0.95
    assert (whole.interval()[0][result.value.index] <= 40).mean() < 0.5


def test_a_plan_of_a_sum_describes_itself() -> None:
    result = pais.sum(rows(), {"age": (0, 100)}, by="ward", epsilon=1.0, random_state=1)
    assert "sums, with noise" in result.explain()


def test_names_that_differ_in_spelling_alone_are_pointed_out_and_only_if_they_are_published() -> None:
    wards = ["north"] * 900 + ["North"] * 800 + ["north "] * 700 + ["NORTH"] * 2 + [None] * 100 + ["south"] * 500
    table = pa.table({"ward": wards})
    result = pais.count(table, by="ward", epsilon=1.0, random_state=0)
    (text,) = (caution.text for caution in result.cautions)
    assert "'north', 'north ' in 'ward' are others but for case" in text.replace(" and ", ", ")
    assert "Pass pais.names(strip=True, casefold=True) for the column" in text
    assert "NORTH" not in text
    joined = pais.count(table, by={"ward": pais.names(strip=True, casefold=True)}, epsilon=1.0, random_state=0)
    assert joined.value.index.tolist() == ["north", "south", "other"]
    assert joined.cautions == ()
    found = str(pais.check(table, {"ward": pais.names()}))
    assert "ward: 3.33 % missing" in found
    assert "'North' (800), 'north ' (700), 'NORTH' (2) are other names but for case, blanks or Unicode form" in found
