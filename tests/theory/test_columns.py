"""Private bounds of columns: how much a row can change what is released, the noise on it, and what it finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import pais
from pais import GaussianNoise, LpNoise
from pais._base.lattice import IntArray, Lattice
from pais._base.randomness import BitSource, bit_source
from pais.accounting.ledger import accounts
from pais.data.engines.base import Engine, Fold
from pais.data.kinds import Auto
from pais.data.sources import source
from pais.planning.column_survey import (
    ColumnBounds,
    ColumnRange,
    _CellCounts,
    _means,
    _OctaveTotals,
    clipped_total,
    column_ranges,
    octave_totals,
)
from pais.planning.facts import Stages, SurveyNoise

Floats = NDArray[np.float64]
GAUSSIAN, PURE = SurveyNoise(shift=0.05), SurveyNoise(epsilon=0.3)


def messy(n: int, d: int, seed: int) -> Floats:
    """Cells of all sizes and signs, some of them missing or infinite."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-40, 40, (n, d))
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 2.0**100])
    return np.where(rng.random((n, d)) < 0.3, rng.choice(special, (n, d)), rows)


def counts_of(d: int) -> Fold:
    return _CellCounts(positions=tuple(range(d)), centers=tuple(np.linspace(-2.0, 3.0, d).tolist()))


def change_of_counts(before: Engine, after: Engine, step: float) -> Floats:
    """Change of the counts, one line for each column, in cells."""
    fold = counts_of(after.n_features)
    change = after.fold(fold, seeded=True) - before.fold(fold, seeded=True)
    return np.asarray(change.reshape(len(change), -1) * step)


# Ranges in which a mean may be clipped: edges of octaves, in units of the first one, and zero.
ENDS = [(0, 1), (1, 0), (1 << 99, 1 << 99), (0, 1 << 110), (1 << 60, 1 << 130), (1 << 199, 1 << 199), (1 << 199, 1)]


def totals_of(engine: Engine, lattice: Lattice) -> list[list[int]]:
    """The clipped sum of each column in each range."""
    mass_bits = 0 if engine.unit is None else engine.unit.mass_bits
    totals = engine.fold(_OctaveTotals(positions=tuple(range(engine.n_features))), seeded=True)
    return [[clipped_total(column, ends, mass_bits, lattice) for ends in ENDS] for column in totals]


def test_a_row_changes_one_count_of_each_column_by_one() -> None:
    d, largest = 5, 0.0
    for seed in range(200):
        rows = messy(8, d, seed)
        change = change_of_counts(source(rows[1:]), source(rows), 1.0)
        assert np.array_equal(np.abs(change).sum(axis=1), np.isfinite(rows[0]).astype(float))
        assert np.linalg.norm(change) <= math.sqrt(d)
        assert np.abs(change).sum() <= d
        largest = max(largest, float(np.linalg.norm(change)))
    assert largest == math.sqrt(d)


@pytest.mark.parametrize("step", [2.0**-4, 2.0**-20])
def test_a_row_changes_the_sum_of_a_column_by_at_most_one_in_every_range(step: float) -> None:
    lattice, largest = Lattice(step=step), 0.0
    for seed in range(100):
        rows = messy(8, 5, seed)
        change = np.subtract(totals_of(source(rows), lattice), totals_of(source(rows[1:]), lattice)) * step
        assert np.abs(change).max() <= 1.0
        assert not change[~np.isfinite(rows[0])].any()
        largest = max(largest, float(np.abs(change).max()))
    assert largest == 1.0


def people(seed: int, n_people: int = 6) -> pa.Table:
    rng = np.random.default_rng(seed)
    rows = messy(60, 3, seed)
    rows[rng.random(60) < 0.3] = [1.0, -2.0, 5.0]
    # One person has many rows, and some of them are complete.
    owner = np.where(rng.random(60) < 0.5, 0, rng.integers(0, n_people, 60))
    return pa.table({"id": owner, "a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]})


@pytest.mark.parametrize("max_rows", [1, 5])
def test_a_unit_changes_counts_and_sums_by_at_most_one_in_each_column(max_rows: int) -> None:
    def opened(table: pa.Table) -> Engine:
        return source(table, unit="id", max_rows_per_unit=max_rows)

    largest = 0.0
    for seed in range(40):
        table = people(seed)
        without = table.filter(pa.compute.not_equal(table.column("id"), 0))
        engine = opened(table)
        assert engine.unit is not None
        step = 2.0**-engine.unit.mass_bits
        change = np.abs(change_of_counts(opened(without), engine, step)).sum(axis=1)
        assert change.max() <= 1.0
        largest = max(largest, float(change.max()))
        for lattice in (Lattice(step=2.0**-4), Lattice(step=2.0**-20)):
            sums = np.subtract(totals_of(engine, lattice), totals_of(opened(without), lattice)) * lattice.step
            assert np.abs(sums).max() <= 1.0
    assert largest > 0.99


def stages_of(
    monkeypatch: pytest.MonkeyPatch, rows: Floats, noise: SurveyNoise, work: Callable[[], object] | None = None
) -> list[float]:
    """Loss of a row in each stage of the bounds, from the noise that is drawn: shifts, or epsilons for pure noise."""
    d, losses = rows.shape[1], []
    law = GaussianNoise if noise.gaussian else LpNoise
    draw_steps = law.draw_steps

    def draw(self: Any, shape: Any, lattice: Lattice, bits: BitSource, **more: Any) -> IntArray:
        losses.append(math.sqrt(d) / self.scale if noise.gaussian else d / self.scale)
        return draw_steps(self, shape, lattice, bits, **more)

    monkeypatch.setattr(law, "draw_steps", draw)
    found(rows, noise)
    return losses


def whole(losses: list[float], noise: SurveyNoise) -> float:
    return math.sqrt(math.fsum(loss**2 for loss in losses)) if noise.gaussian else math.fsum(losses)


def stated(noise: SurveyNoise) -> float:
    return noise.shift if noise.gaussian else noise.epsilon


@pytest.mark.parametrize("noise", [GAUSSIAN, PURE], ids=["gaussian", "pure"])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_the_noise_of_all_stages_is_within_the_price(
    d: int, noise: SurveyNoise, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = stages_of(monkeypatch, np.random.default_rng(0).standard_normal((500, d)), noise)
    assert len(losses) == 3
    assert whole(losses, noise) <= stated(noise)
    assert whole(losses, noise) == pytest.approx(stated(noise), rel=1e-9)
    parts = [noise.part(share) for share in (noise.columns_share, 1.0 - noise.columns_share)]
    assert whole([stated(part) for part in parts], noise) <= stated(noise) * (1.0 + 1e-12)


def test_noise_of_a_fit_with_open_columns_is_within_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[float] = []
    on_counts, on_cells = SurveyNoise.on_counts, SurveyNoise.on_cells

    def counts(self: SurveyNoise, share: float) -> Any:
        noise = on_counts(self, share)
        stages.append(1.0 / noise.scale)
        return noise

    def cells(self: SurveyNoise, share: float, n_columns: int) -> Any:
        noise = on_cells(self, share, n_columns)
        stages.append(math.sqrt(2.0) / noise.scale)
        return noise

    monkeypatch.setattr(SurveyNoise, "on_counts", counts)
    monkeypatch.setattr(SurveyNoise, "on_cells", cells)
    rng = np.random.default_rng(1)
    table = pa.table({"a": rng.lognormal(8.0, 1.0, 6000), "b": rng.normal(40.0, 9.0, 6000), "c": rng.random(6000)})
    rows = source(table, columns={"a": "auto", "b": "auto", "c": (0.0, 1.0)})
    fit = pais.fit(rows, pais.KMeansSettings(n_clusters=2, epsilon=1.0), random_state=0)
    total = math.sqrt(math.fsum(shift**2 for shift in stages))
    assert len(stages) == 5
    assert total <= fit.plan.survey_shift == fit.survey.shift == fit.certificate.survey_shift
    assert total == pytest.approx(fit.plan.survey_shift, rel=1e-9)


# ---------------------------------------------------------------- what it finds


def found(rows: Floats, noise: SurveyNoise, seed: int = 0) -> tuple[ColumnRange, ...]:
    engine, places = source(rows), range(rows.shape[1])
    return column_ranges(octave_totals(engine, places, seeded=True), engine, places, noise, bit_source(seed, stream=2))


@pytest.mark.parametrize("noise", [GAUSSIAN, PURE], ids=["gaussian", "pure"])
def test_bounds_contain_most_cells_and_are_not_much_wider(noise: SurveyNoise) -> None:
    rng, n = np.random.default_rng(0), 50_000
    rows = np.column_stack(
        [
            rng.lognormal(10.0, 0.8, n),
            rng.normal(2000.0, 5.0, n),
            -rng.exponential(3e-6, n),
            np.where(rng.random(n) < 0.8, 0.0, rng.uniform(100.0, 200.0, n)),
            rng.random(n) < 0.3,
        ]
    )
    rows[rng.random(rows.shape) < 0.03] = np.nan
    ranges = found(rows, noise)
    for cells, column in zip(rows.T, ranges, strict=True):
        cells = cells[np.isfinite(cells)]
        low, high = np.quantile(cells, [0.005, 0.995])
        assert column.clear
        assert np.mean((cells < column.low) | (cells > column.high)) < 0.05
        assert column.high - column.low < 1.9 * (high - low)
    assert ranges[0].low >= 0.0
    assert ranges[2].high <= 0.0


def test_bounds_from_few_cells_are_not_clear() -> None:
    rows = np.random.default_rng(0).normal(100.0, 5.0, (900, 1))
    assert [column.clear for column in found(rows, SurveyNoise(shift=0.05))] == [False]
    assert [column.clear for column in found(rows, SurveyNoise(shift=0.5))] == [True]


def test_missing_and_extreme_cells_raise_no_error() -> None:
    for seed in range(30):
        for column in found(messy(200, 3, seed), SurveyNoise(shift=1.0), seed):
            assert math.isfinite(column.center)
            assert 1e-100 < column.scale < 1e100


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("log_cells", [24, 25, 30, 37])
def test_no_number_of_rows_makes_the_mean_of_a_column_fail(log_cells: int, sign: int) -> None:
    # All cells are at one end of the range, and the noise is so small that their sum does not fit into 64 bits.
    totals = np.zeros((1, 2, 200, 2), dtype=np.int64)
    totals[0, int(sign > 0), 150] = 2**log_cells, 2 ** (log_cells + 24)
    engine, noise = source(np.zeros((1, 1))), SurveyNoise(epsilon=1e6)
    high = math.ldexp(1.0, 51)
    wide = ColumnRange(low=-high, high=high)
    (mean,) = _means(totals, engine, [wide], [2.0**log_cells], noise.on_cells(0.1, 1), bit_source(1))
    assert math.isfinite(mean)


def test_few_far_cells_do_not_move_bounds() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(0.0, 1.0, (50_000, 2))
    rows[:100] = 1e12
    for column in found(rows, GAUSSIAN):
        assert -6.0 < column.low < -2.0
        assert 2.0 < column.high < 6.0


# ---------------------------------------------------------------- in a fit


@pytest.mark.parametrize("mechanism", ["gaussian", "l2"])
def test_a_column_that_is_not_seen_is_named_in_a_warning(mechanism: str) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"seen": rng.normal(50.0, 9.0, 30_000), "empty": np.zeros(30_000)})
    model = pais.DPKMeans(n_clusters=2, epsilon=2.0, mechanism=mechanism, random_state=0)
    with pytest.warns(pais.SurveyWarning, match=r"auto column\(s\) empty\. State their bounds"):
        model.fit(source(table, columns={"seen": "auto", "empty": "auto"}))
    assert model.fit_.survey.unclear_columns == ("empty",)
    assert pais.Survey.from_dict(model.fit_.survey.to_dict()).unclear_columns == ("empty",)


def test_stated_facts_are_refused_beside_open_columns() -> None:
    norms = pais.NormDistribution.from_histogram([0.0, 1.0], [100.0])
    facts = pais.Facts(ball=pais.Ball(radius=1.0), norms=norms)
    rows = source(pa.table({"a": [1.0, 2.0]}), columns={"a": "auto"})
    with pytest.raises(pais.MismatchError, match="no bounds yet"):
        pais.fit(rows, pais.KMeansSettings(n_clusters=1, epsilon=1.0), facts=facts, random_state=0)
    with pytest.raises(pais.ArgumentError, match="auto column 'a'"):
        pais.DPKMeans(n_clusters=1, radius=1.0, norms=norms, random_state=0).fit(rows)


def test_bounds_of_all_columns_save_the_mean_of_the_survey() -> None:
    table = pais.example_people(500)
    columns = {"age": (18, 100), "region": ["north", "south"], "premium": bool}
    settings = pais.KMeansSettings(n_clusters=2, epsilon=1.0)
    bounded = settings.for_rows(source(table, columns=columns))
    assert bounded.center == pytest.approx((0.0, math.sqrt(0.5), math.sqrt(0.5), 0.0))
    assert bounded.survey_passes == 1
    assert settings.for_rows(source(table, columns={**columns, "income": "auto"})).survey_passes == 3
    assert settings.for_rows(source(table, columns={**columns, "income": 1e4})).survey_passes == 2
    assert pais.survey(source(table, columns=columns), epsilon=1.0, random_state=0).ball.center == bounded.center


def test_means_and_deviations_follow_from_the_same_counts() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack(
        [
            rng.normal(100.0, 5.0, 60_000),
            rng.exponential(3.0, 60_000),
            -1e6 * rng.random(60_000),
            rng.normal(0.0, 1e-9, 60_000),
        ]
    )
    ranges = found(rows, SurveyNoise(shift=0.05))
    for cells, column in zip(rows.T, ranges, strict=True):
        assert abs(column.mean - cells.mean()) < 0.3 * cells.std()
        assert 0.7 < column.deviation / cells.std() < 1.5


def test_rare_values_are_not_blown_up() -> None:
    rng = np.random.default_rng(0)
    rows = (rng.random((60_000, 3)) < [0.3, 1e-3, 1e-5]).astype(float)
    for seed in range(10):
        usual, *rare = found(rows, GAUSSIAN, seed)
        assert 0.7 < usual.deviation / rows[:, 0].std() < 1.5
        # Ones that are not seen have the deviation of the smallest share that would be.
        assert all(0.03 < column.deviation <= 1.0 for column in rare)


def test_standardized_columns_cost_the_same_and_are_clipped_far_out_only() -> None:
    rows = pa.table({"a": np.random.default_rng(0).normal(50.0, 2.0, 20_000)})
    schemas = [pais.Schema((Auto(name="a", standardized=standardized, factor=3.0),)) for standardized in (False, True)]
    noise = SurveyNoise(epsilon=1.0)
    stages = Stages(noise=noise, stages=(ColumnBounds(),))
    results = [stages.run(source(rows, columns=schema), accounts(None), 1) for schema in schemas]
    assert results[0].noise == results[1].noise
    clipped, standard = (result.engine for result in results)
    assert clipped.schema is not None
    assert standard.schema is not None
    bounds, column = clipped.schema["a"], standard.schema["a"]
    assert isinstance(column, Auto)
    assert column.decode(np.array([-1e9, 1e9])).tolist() == pytest.approx(bounds.decode(np.array([-9.0, 9.0])))
    assert column.encode(pa.array([50.0, 60.0, 500.0]))[0] == pytest.approx([0.0, 15.0, 30.0], rel=0.3, abs=0.3)
    assert pais.Schema.from_dict(standard.schema.to_dict()) == standard.schema
    assert schemas[1].may_become(standard.schema)
