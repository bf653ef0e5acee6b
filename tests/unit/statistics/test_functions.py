"""One-line statistics: values, errors, groups, missing cells, units, samples and ledgers."""

from __future__ import annotations

import datetime
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pais
from pais import ArgumentError, BudgetError, DataError, Statistic
from pais.errors import PrivacyWarning, QualityWarning

N = 4000
LARGE = {"epsilon": 1000.0, "delta": 0.0, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore:epsilon=:pais.errors.PrivacyWarning")


def frame(n: int = N, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": rng.lognormal(10.5, 0.5, n),
            "region": rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2]),
            "premium": rng.random(n) < 0.4,
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D"),
            "customer": rng.integers(0, n // 3, n),
        }
    )


TABLE = frame()
COLUMNS: dict[str, Any] = {"age": (18, 100), "income": (0, 200_000), "premium": bool}
REGIONS = ["north", "south", "east"]


def test_every_statistic_is_right_if_there_is_hardly_any_noise() -> None:
    ages, incomes = TABLE["age"], TABLE["income"].clip(0, 200_000)
    numbers = pd.DataFrame({"age": ages, "income": incomes, "premium": TABLE["premium"].astype(float)})
    assert pais.count(TABLE, **LARGE).value == N
    assert np.allclose(pais.sum(TABLE, columns=COLUMNS, **LARGE).value, numbers.sum(), rtol=1e-4)
    assert np.allclose(pais.mean(TABLE, columns=COLUMNS, **LARGE).value, numbers.mean(), rtol=1e-4)
    assert np.allclose(pais.variance(TABLE, columns=COLUMNS, **LARGE).value, numbers.var(), rtol=1e-3)
    assert np.allclose(pais.covariance(TABLE, columns=COLUMNS, **LARGE).value, numbers.cov(), rtol=0.05, atol=1.0)
    described = pais.describe(TABLE, columns=COLUMNS, **LARGE).value
    expected = numbers.describe().loc[["count", "mean", "std", "25%", "50%", "75%"]]
    assert np.allclose(described["age"], expected["age"], rtol=0.05)
    assert np.allclose(described["income"], expected["income"], rtol=0.05)


def test_a_description_has_the_statistics_that_are_asked_for() -> None:
    asked = ["sum", "median", "count", "variance", "mean", "75%", "std"]
    described = pais.describe(TABLE, columns=COLUMNS, statistics=asked, **LARGE)
    numbers = pd.DataFrame({"age": TABLE["age"], "income": TABLE["income"].clip(0, 200_000)})
    for column, cells in numbers.items():
        expected = [cells.sum(), cells.median(), cells.count(), cells.var(), cells.mean(), cells.quantile(0.75)]
        assert np.allclose(described.value[column], [*expected, cells.std()], rtol=0.05)
        low, high = (end[column] for end in described.interval(0.99))
        assert all(low <= [*expected, cells.std()])
        assert all([*expected, cells.std()] <= high)
    assert described.value.index.tolist() == asked
    flags = described.value["premium"]
    assert flags["sum"] == pytest.approx(TABLE["premium"].sum(), abs=2)
    assert flags[["median", "75%"]].isna().all()


def test_fewer_statistics_have_less_noise_and_sums_and_counts_are_free_beside_means() -> None:
    age = {"columns": {"age": (18, 100)}, "by": {"region": REGIONS}, "random_state": 0}
    mean, whole = pais.mean(TABLE, **age), pais.describe(TABLE, **age)
    several = pais.describe(TABLE, statistics=["count", "sum", "mean"], **age)
    for region in REGIONS:
        error = several.standard_error.loc[(region, "mean"), "age"]
        assert error == pytest.approx(mean.standard_error[region], rel=0.1)
        assert error < 0.7 * whole.standard_error.loc[(region, "mean"), "age"]
    medians = pais.describe(TABLE, statistics="median", **age).standard_error
    assert medians.loc[("north", "median"), "age"] <= whole.standard_error.loc[("north", "50%"), "age"]


def test_several_statistics_of_found_groups_are_one_release() -> None:
    table = pd.DataFrame({"who": np.arange(N) // 2, "ward": TABLE["region"], "age": TABLE["age"]})
    with pais.Ledger(epsilon=1.0, delta=1e-6) as ledger:
        stated = {"columns": {"age": (18, 100)}, "by": "ward", "epsilon": 1.0, "delta": 1e-6, "random_state": 0}
        result = pais.describe(table, statistics=["count", "mean", "median"], **stated)
    assert sum(entry.epsilon for entry in ledger.entries) == pytest.approx(1.0)
    groups = result.value.index.get_level_values(0)
    assert groups.unique().tolist() == [*sorted(set(TABLE["region"])), "other"]
    counts = result.value["age"].xs("count", level=1)
    assert np.allclose(counts.drop("other"), TABLE.groupby("region")["age"].count().sort_index(), atol=60)


def test_histograms_agree_with_numpy() -> None:
    counts, edges = np.histogram(TABLE["age"], bins=8, range=(18, 98))
    result = pais.histogram(TABLE, columns={"age": (18, 98)}, bins=8, **LARGE)
    assert result.value.tolist() == counts.tolist()
    assert [interval.left for interval in result.value.index] == edges[:-1].tolist()
    uneven = pais.histogram(TABLE, columns={"age": (18, 98)}, bins=[18, 20, 50, 98], **LARGE)
    assert uneven.value.tolist() == np.histogram(TABLE["age"], bins=[18, 20, 50, 98])[0].tolist()
    several = pais.histogram(TABLE, columns={"region": REGIONS, "premium": bool}, **LARGE)
    assert several.value["region"].tolist() == TABLE["region"].value_counts()[REGIONS].tolist()
    assert several.value["premium"][True] == TABLE["premium"].sum()


def test_shapes_and_labels() -> None:
    one = pais.mean(TABLE, columns={"age": (18, 100)}, **LARGE)
    assert isinstance(one.value, float)
    assert isinstance(one.standard_error, float)
    several = pais.mean(TABLE, columns=COLUMNS, **LARGE)
    assert several.value.index.tolist() == list(COLUMNS)
    by_region = pais.mean(TABLE, columns=COLUMNS, by={"region": REGIONS}, **LARGE)
    assert by_region.value.shape == (3, 3)
    assert by_region.value.index.tolist() == REGIONS
    assert by_region.value.index.name == "region"
    by_two = pais.count(TABLE, by={"region": REGIONS, "premium": bool}, **LARGE)
    assert by_two.value["north"][True] == ((TABLE["region"] == "north") & TABLE["premium"]).sum()
    described = pais.describe(TABLE, columns=COLUMNS, by={"region": REGIONS}, **LARGE)
    assert described.value.loc[("south", "count"), "age"] == pytest.approx((TABLE["region"] == "south").sum(), abs=1)


def test_groups_agree_with_pandas() -> None:
    expected = TABLE.groupby("region")["age"].mean()[REGIONS]
    columns = {"age": (18, 100), "region": REGIONS}
    assert np.allclose(pais.mean(TABLE, columns=columns, by="region", **LARGE).value, expected, rtol=1e-3)
    assert np.allclose(pais.mean(TABLE, columns=columns, by=["region"], **LARGE).value, expected, rtol=1e-3)


def test_dates_are_dates() -> None:
    columns = {"joined": (datetime.date(2020, 1, 1), datetime.date(2023, 1, 1))}
    result = pais.mean(TABLE, columns=columns, **LARGE)
    assert abs(pd.Timestamp(result.value) - TABLE["joined"].mean()) < pd.Timedelta(days=1)
    assert 0.0 < result.standard_error < 1.0
    described = pais.describe(TABLE, columns=columns, **LARGE)
    assert abs(pd.Timestamp(described.value.loc["50%", "joined"]) - TABLE["joined"].median()) < pd.Timedelta(days=40)
    with pytest.raises(ArgumentError, match="sum of dates"):
        pais.sum(TABLE, columns=columns)


def test_a_missing_cell_leaves_out_its_cell_alone() -> None:
    table = TABLE.astype({"age": float})
    table.loc[:999, "age"] = np.nan
    result = pais.mean(table, columns=COLUMNS, **LARGE)
    assert result.value["age"] == pytest.approx(table["age"].mean(), rel=1e-3)
    assert result.value["income"] == pytest.approx(table["income"].clip(0, 200_000).mean(), rel=1e-3)
    counts = pais.count(table, columns={"age": (18, 100), "premium": bool}, **LARGE)
    assert counts.value.tolist() == [N - 1000, N]
    filled = pais.mean(table, columns=COLUMNS, missing="midpoint", **LARGE)
    assert filled.value["age"] == pytest.approx(table["age"].fillna(59.0).mean(), rel=1e-3)
    with pytest.raises(DataError, match="age"):
        pais.mean(table, columns=COLUMNS, missing="error", **LARGE)
    pairs = pais.covariance(table, columns={"age": (18, 100), "premium": bool}, **LARGE)
    complete = table[["age", "premium"]].dropna().astype(float).cov()
    assert pairs.value.loc["age", "age"] == pytest.approx(complete.loc["age", "age"], rel=0.01)


def test_a_category_that_is_missing_or_unknown_belongs_to_no_group() -> None:
    table = TABLE.copy()
    table.loc[:499, "region"] = None
    table.loc[500:999, "region"] = "elsewhere"
    counts = pais.count(table, by={"region": REGIONS}, **LARGE)
    assert counts.value.sum() == N - 1000
    shares = pais.mean(table, columns={"region": REGIONS}, **LARGE).value
    assert shares.sum() == pytest.approx(1.0)
    assert shares["region=north"] == pytest.approx((table["region"] == "north").sum() / (N - 1000), abs=1e-3)


def test_a_single_column_needs_no_name() -> None:
    expected = TABLE["age"].mean()
    for column in (TABLE["age"], TABLE["age"].to_numpy(), pa.array(TABLE["age"])):
        assert pais.mean(column, columns=(18, 100), **LARGE).value == pytest.approx(expected, rel=1e-3)
    flags = pais.mean(TABLE["premium"], columns=bool, **LARGE)
    assert flags.value == pytest.approx(TABLE["premium"].mean(), abs=1e-3)


def test_bounds_that_are_not_known_are_found_and_paid_for() -> None:
    result = pais.mean(TABLE, columns={"age": (18, 100), "income": "auto"}, epsilon=4.0, random_state=0)
    assert [part.what for part in result.certificate.parts] == ["survey", "means"]
    assert result.certificate.epsilon == 4.0
    assert "found privately" in result.clipping
    assert result.value["income"] == pytest.approx(TABLE["income"].mean(), rel=0.05)


def test_bounds_are_found_with_gaussian_noise_for_one_joint_price() -> None:
    columns: dict[str, Any] = {f"x{j}": (0, 1) for j in range(11)} | {"income": "auto"}
    table = pd.DataFrame(np.random.default_rng(0).random((N, 11)), columns=list(columns)[:11])
    table["income"] = TABLE["income"]
    ledger = pais.Ledger(epsilon=10.0, delta=1e-3)
    result = pais.mean(table, columns=columns, epsilon=3.0, delta=1e-5, ledger=ledger, random_state=0)
    assert result.certificate.survey_shift > 0.0
    assert (result.certificate.epsilon, result.certificate.delta) == (3.0, 1e-5)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (3.0, 1e-5)
    assert result.value["x0"] == pytest.approx(table["x0"].mean(), abs=0.1)


def test_delta_decides_between_pure_and_gaussian_noise() -> None:
    wide = {f"x{j}": (0, 1) for j in range(30)}
    table = pd.DataFrame(np.random.default_rng(0).random((500, 30)), columns=list(wide))
    assert pais.mean(table, columns=wide, random_state=0).certificate.delta == 1e-9
    assert pais.mean(table, columns=wide, delta=0, random_state=0).certificate.delta == 0.0
    assert pais.mean(table, columns={"x0": (0, 1)}, random_state=0).certificate.delta == 0.0
    assert pais.mean(table, columns={"x0": (0, 1)}, delta=1e-6, random_state=0).certificate.delta == 0.0
    smaller = pais.mean(table, columns=wide, random_state=0).standard_error
    assert (smaller < pais.mean(table, columns=wide, delta=0, random_state=0).standard_error).all()


def test_a_delta_that_is_large_for_the_number_of_rows_warns() -> None:
    wide = {f"x{j}": (0, 1) for j in range(30)}
    table = pd.DataFrame(np.random.default_rng(0).random((2000, 30)), columns=list(wide))
    with pytest.warns(PrivacyWarning, match="too large for about 2,0"):
        pais.mean(table, columns=wide, delta=1e-3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pais.mean(table, columns=wide, random_state=0)


def test_means_over_units_count_each_once() -> None:
    people = pais.count_people(TABLE, unit="customer", **LARGE)
    assert people.value == TABLE["customer"].nunique()
    assert people.certificate.neighbours == "one customer added or removed"
    weighted = TABLE.groupby("customer")["age"].mean().mean()
    mean = pais.mean(TABLE, columns={"age": (18, 100)}, unit="customer", **LARGE)
    assert mean.value == pytest.approx(weighted, rel=1e-3)
    assert mean.about.endswith("each customer counts once, with all rows sharing one weight")
    every = pais.count(TABLE, unit="customer", max_rows_per_unit=20, **LARGE)
    assert every.value == pytest.approx(N, rel=1e-3)


def test_a_sample_has_more_error_and_says_so() -> None:
    columns = {"age": (18, 100)}
    whole = pais.mean(TABLE, columns=columns, epsilon=1.0, random_state=0)
    part = pais.mean(TABLE, columns=columns, epsilon=1.0, sampling="uniform", sample_size=1000, random_state=0)
    assert part.standard_error > 3.0 * whole.standard_error
    assert "upper bound" in part.noise
    assert [entry.what for entry in part.certificate.parts] == ["survey", "means"]
    free = pais.mean(TABLE, columns=columns, epsilon=1.0, sampling="constrained", random_state=0)
    assert free.value == whole.value
    rule = pais.mean(TABLE, columns=columns, sampling=pais.UniformRule(rate=0.5), random_state=0)
    assert rule.certificate.rule["probability"] == 0.5


def test_a_ledger_is_charged_before_noise_is_drawn() -> None:
    ledger = pais.Ledger(epsilon=1.5)
    pais.mean(TABLE, columns={"age": (18, 100)}, epsilon=1.0, ledger=ledger, random_state=0)
    assert ledger.spent.epsilon == 1.0
    with pytest.raises(BudgetError):
        pais.count(TABLE, epsilon=1.0, ledger=ledger)
    assert ledger.spent.epsilon == 1.0
    with ledger:
        pais.count(TABLE, epsilon=0.5, random_state=0)
    assert ledger.spent.epsilon == 1.5


def test_a_second_call_without_a_ledger_warns() -> None:
    from pais.privacy.guarantee import forget_fits

    forget_fits()
    pais.count(TABLE)
    with pytest.warns(PrivacyWarning, match="number 2"):
        pais.count(TABLE)


def test_results_show_themselves() -> None:
    result = pais.mean(TABLE, columns={"age": (18, 100), "region": REGIONS}, by="region", epsilon=1.0)
    assert "3 values" in repr(result)
    assert "<script" not in result._repr_html_()
    assert "north" in result._repr_html_()
    assert "95 %" in str(result)
    text = result.explain()
    assert "clipped" in text
    assert "epsilon 1" in text
    seeded = pais.count(TABLE, random_state=0)
    assert "seeded, not private" in repr(seeded)
    assert "seeded, not private" in str(seeded)


def test_results_can_be_stored() -> None:
    result = pais.describe(TABLE, columns=COLUMNS, random_state=0)
    again: Statistic = pickle.loads(pickle.dumps(result))
    assert again.value.equals(result.value)
    assert again.interval(0.9)[0].equals(result.interval(0.9)[0])


def test_plans_of_statistics_can_be_rebuilt_from_certificates() -> None:
    result = pais.describe(TABLE, columns=COLUMNS, by={"region": REGIONS}, random_state=0)
    described = result.certificate.mechanism
    assert pais.Mechanism.from_dict(described).to_dict() == described


@pytest.mark.parametrize("facts", [(0, 10), [1, 2, 3], bool], ids=["bounds", "categories", "boolean"])
@pytest.mark.parametrize(
    "cell", ["other", 2**70, 10**400, 1j, b"x", [1], object(), True], ids=lambda cell: type(cell).__name__
)
def test_an_odd_cell_of_an_array_does_not_decide_whether_it_is_read(facts, cell):
    column = np.empty(40, dtype=object)
    column[:] = [1, 2] * 20
    column[3] = cell
    table = pais.count(pd.DataFrame({"value": column}), {"value": facts}, epsilon=100.0, random_state=0)
    assert np.array_equal(pais.count(column, facts, epsilon=100.0, random_state=0).value, table.value)


def test_sources_that_are_open_already() -> None:
    opened = pais.source(TABLE, columns={"age": (18, 100), "premium": bool, "region": REGIONS})
    assert pais.count(opened, **LARGE).value == N
    assert pais.count(opened, by="premium", **LARGE).value[True] == TABLE["premium"].sum()
    assert pais.mean(opened, by="region", **LARGE).value.shape == (3, 2)


def test_rows_of_an_array_and_of_a_file_are_counted(tmp_path: Path) -> None:
    assert pais.count(np.zeros((50, 3)), **LARGE).value == 50
    TABLE.to_csv(tmp_path / "people.csv", index=False)
    TABLE.to_parquet(tmp_path / "people.parquet")
    assert pais.count(tmp_path / "people.csv", **LARGE).value == N
    assert pais.count_people(tmp_path / "people.parquet", unit="age", **LARGE).value == pytest.approx(72, abs=1)


@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning")
def test_a_sample_with_bounds_to_be_found_and_gaussian_noise() -> None:
    columns: dict[str, Any] = {f"x{j}": (0, 1) for j in range(14)} | {"y": "auto"}
    table = pd.DataFrame(np.random.default_rng(0).random((20_000, 15)), columns=list(columns))
    options: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-6,
        "sampling": "uniform",
        "sample_size": 4000,
        "random_state": 0,
    }
    result = pais.mean(table, columns=columns, **options)
    assert (result.certificate.epsilon, result.certificate.delta) == (2.0, 1e-6)
    assert result.certificate.rule["probability"] == pytest.approx(0.2, rel=0.2)
    assert np.abs(result.value - table.mean()).max() < 0.2
    covariance = pais.covariance(table, columns={"x0": (0, 1), "x1": (0, 1)}, **options)
    assert covariance.standard_error.loc["x0", "x1"] > 0.0
    signed = pais.sum(table - 0.5, columns={"x0": (-1, 1), "x1": (-0.5, 1)}, **options)
    assert abs(signed.value["x0"]) < 4.0 * signed.standard_error["x0"]
    whole = pais.sum(table - 0.5, columns=dict.fromkeys(columns, (-1, 1)), delta=1e-6, random_state=0)
    assert whole.certificate.delta == 1e-6


def test_many_complete_columns_share_one_count() -> None:
    columns = {f"x{j}": (0, 1) for j in range(6)}
    table = pd.DataFrame(np.random.default_rng(0).beta(2, 4, (N, 6)), columns=list(columns))
    apart, shared = (
        pais.mean(table, columns=columns, missing=missing, delta=0, random_state=0) for missing in ("drop", "midpoint")
    )
    assert (shared.standard_error < 0.9 * apart.standard_error).all()
    assert np.allclose(pais.mean(table, columns=columns, missing="midpoint", **LARGE).value, table.mean(), atol=1e-3)


def test_an_empty_table_gives_a_release_like_any_other() -> None:
    empty = TABLE.head(0)
    for name in ("sum", "mean", "variance", "histogram", "covariance", "describe"):
        result = getattr(pais, name)(empty, columns={"age": (18, 100), "premium": bool}, random_state=0)
        assert np.isfinite(result.estimates[:3]).all()
        assert result.certificate.epsilon == 1.0


def test_true_and_false_form_groups() -> None:
    counts = pais.count(TABLE, by={"premium": [True, False]}, **LARGE)
    assert counts.value[True] == TABLE["premium"].sum()


def test_ranges_and_periods_form_groups() -> None:
    frame = TABLE.assign(joined=pd.Timestamp("2024-11-15") + pd.to_timedelta(np.arange(len(TABLE)) % 90, unit="D"))
    edges = [18, 30, 45.5, 60]
    grouped = frame.groupby(pd.cut(frame["age"], [*edges[:-1], 60.001], right=False), observed=True)["income"].count()
    by_age = pais.count(frame, by={"age": pais.ranges(edges)}, **LARGE)
    assert by_age.value.index.tolist() == ["18 to 30", "30 to 45.5", "45.5 to 60"]
    assert np.array_equal(by_age.value, grouped)
    assert "A value outside the stated groups belongs to none of them (age 18 to 60)." in by_age.clipping
    months = pais.months("2024-12-01", "2025-01-31")
    expected = frame.groupby(frame["joined"].dt.strftime("%Y-%m"))["age"]
    for values in (frame, frame.assign(joined=frame["joined"].astype(str))):
        means = pais.mean(values, columns={"age": (18, 100)}, by={"joined": months}, **LARGE).value
        assert np.allclose(means, expected.mean()[means.index], rtol=1e-3)
        medians = pais.quantile(values, columns={"age": (18, 100)}, by={"joined": months}, epsilon=1000.0).value
        assert np.allclose(medians, expected.median()[medians.index], atol=1.0)
    described = pais.describe(frame, columns={"age": (18, 100)}, by={"joined": months}, unit="customer", **LARGE)
    assert described.value.index.get_level_values(0).unique().tolist() == ["2024-12", "2025-01"]


def test_ranges_and_periods_are_columns_too() -> None:
    stated = {"age": pais.ranges(0, 40, math.inf), "premium": bool}
    shares = pais.mean(TABLE, columns=stated, **LARGE).value
    assert shares["age=0 to 40"] == pytest.approx((TABLE["age"] < 40).mean(), rel=1e-3)
    counts = pais.count(TABLE["age"], columns=pais.ranges(0, 40, math.inf), **LARGE).value
    assert counts["age=40 or more"] == (TABLE["age"] >= 40).sum()


def test_a_histogram_of_dates_has_bins_of_dates() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"joined": pd.date_range("2020-01-01", "2022-12-31", 2_000)})
    result = pais.histogram(frame, columns={"joined": ("2020-01-01", "2023-01-01")}, bins=3, random_state=0)
    assert result.value.index[0].left.year == 2020
    assert result.value.sum() == pytest.approx(2_000, abs=30)
    assert len(result.to_frame()) == 3


@pytest.mark.parametrize(("n", "epsilon"), [(50, 0.3), (100, 0.3), (300, 0.3), (1000, 0.1), (5000, 1.0)])
def test_intervals_of_described_quartiles_hold_in_few_skewed_cells(n: int, epsilon: float) -> None:
    """Noise moves quartiles of few cells toward the middle of the bounds, so that drawn noise missed two in three."""
    covered = []
    for seed in range(20):
        cells = np.minimum(np.random.default_rng(seed).exponential(3.5, n), 60.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QualityWarning)
            found = pais.describe(pa.table({"x": cells}), columns={"x": (0, 60)}, epsilon=epsilon, random_state=seed)
        low, high = (np.ravel(end.loc[["25%", "50%", "75%"]]) for end in found.interval())
        true = np.quantile(cells, [0.25, 0.5, 0.75])
        covered.append((low <= true) & (true <= high))
    assert np.mean(covered) >= 0.95
    # Clear quartiles are known to about a bin.
    assert n < 5000 or np.all(high - low <= 2.5 * 60 / 64)
