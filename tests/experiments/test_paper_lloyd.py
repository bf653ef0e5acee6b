"""The study's own parts: batched costs, DP-Lloyd with both noise laws, cells and seeds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from experiments.paper.cost import FloatArray, mean_costs
from experiments.paper.dplloyd import Scales, dp_lloyd, sum_noise
from experiments.paper.families import Workbench, measure
from experiments.paper.grid import FULL, Cell, Sizes

QUIET = Scales(sum=1e-9, count=1e-9)


def brute_costs(rows: FloatArray, center_sets: FloatArray) -> FloatArray:
    gap = rows[None, None] - center_sets[:, :, None]
    return np.asarray(np.square(gap).sum(axis=-1).min(axis=1))


@pytest.mark.parametrize(("n", "sets", "k", "d"), [(1, 1, 1, 1), (700, 3, 5, 4), (5000, 50, 25, 7)])
def test_costs_of_many_sets_equal_the_distances_written_out(n: int, sets: int, k: int, d: int) -> None:
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((n, d)).astype(np.float32)
    centers = rng.standard_normal((sets, k, d))
    weights = rng.uniform(1.0, 9.0, size=n)
    gaps = np.array([brute_costs(rows.astype(float), one[None])[0] for one in centers])
    np.testing.assert_allclose(mean_costs(rows, centers), gaps.mean(axis=1), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(mean_costs(rows, centers, weights), gaps @ weights, rtol=2e-5, atol=1e-4)


def radii(law: str, d: int) -> FloatArray:
    noise = sum_noise(law, 2.0, (4000, d), np.random.default_rng(7))  # type: ignore[arg-type]  # a test's loop
    return np.asarray(np.linalg.norm(noise, axis=1) / 2.0)


@pytest.mark.parametrize("d", [2, 8, 54])
def test_valid_noise_has_a_gamma_radius_and_the_published_one_has_not(d: int) -> None:
    gamma: Callable[[FloatArray], FloatArray] = stats.gamma(d).cdf
    assert stats.kstest(radii("valid", d), gamma).pvalue > 1e-3
    assert stats.kstest(radii("published", d), gamma).pvalue < 1e-12
    assert stats.kstest(radii("published", d), stats.expon.cdf).pvalue > 1e-3


@pytest.mark.parametrize("law", ["published", "valid"])
def test_with_vanishing_noise_dp_lloyd_is_lloyd(law: str) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((500, 3))
    start = rows[:4]
    plain = dp_lloyd(rows, np.ones(500), start, law="none", scales=QUIET, rng=rng)
    noisy = dp_lloyd(rows, np.ones(500), start, law=law, scales=QUIET, rng=rng)  # type: ignore[arg-type]  # two laws
    np.testing.assert_allclose(noisy, plain, atol=1e-6)


SIZES = Sizes(every=(300, 400, 500, 600), shown=(300, 400, 600))


def test_the_full_grid_holds_what_the_paper_shows() -> None:
    cells = FULL.cells("some", SIZES)
    assert len(cells) == len(set(cells))
    assert FULL.repetitions == 50
    costs = [cell for cell in cells if cell.kind == "cost"]
    for family, start in (("published", "rows"), ("valid", "rows"), ("valid", "data-free")):
        for rule in ("uniform", "coreset", "constrained"):
            found = {
                (cell.sample_size, cell.epsilon)
                for cell in costs
                if (cell.family, cell.start, cell.rule) == (family, start, rule)
            }
            against_epsilon = {(m, e) for m in SIZES.shown for e in (0.5, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)}
            against_size = {(m, e) for m in SIZES.every for e in (3.0, 100.0)}
            assert found == against_epsilon | against_size


def test_every_repetition_of_every_cell_has_a_seed_of_its_own() -> None:
    cells = FULL.cells("some", SIZES)
    seeds = {cell.seed(repetition) for cell in cells for repetition in range(3)}
    assert len(seeds) == 3 * len(cells)


def small_bench() -> Workbench:
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((3000, 4)) + 4.0 * rng.integers(0, 3, size=(3000, 1))
    rows -= rows.mean(axis=0)
    return Workbench(rows=rows.astype(np.float32), center_sets=12)


@pytest.mark.parametrize("rule", ["coreset", "constrained"])
def test_a_larger_sample_violates_the_coreset_inequality_less(rule: str) -> None:
    bench = small_bench()

    def violation(size: int) -> float:
        cell = Cell(
            kind="coreset",
            dataset="some",
            family="not-private",
            start="rows",
            rule=rule,  # type: ignore[arg-type]  # a test's loop
            sample_size=size,
            epsilon=3.0 if rule == "constrained" else math.inf,
        )
        return float(np.median([one.value for one in measure(cell, bench, 9)]))

    assert violation(900) < violation(60)
    assert violation(900) < 0.5


@pytest.mark.slow
def test_less_privacy_means_less_cost() -> None:
    bench = small_bench()

    def cost(family: str, epsilon: float) -> float:
        cell = Cell(
            kind="cost",
            dataset="some",
            family=family,  # type: ignore[arg-type]  # a test's loop
            start="data-free" if family == "valid" else "own",
            rule="constrained",
            sample_size=600,
            epsilon=epsilon,
            delta=1e-6 if family == "ours" else 0.0,
        )
        return float(np.median([one.value for one in measure(cell, bench, 7) if one.measure == "cost"]))

    for family in ("valid", "ours-pure", "ours"):
        assert cost(family, 1000.0) < cost(family, 0.5)
    assert cost("ours", 3.0) < cost("valid", 3.0)
