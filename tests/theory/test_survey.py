"""The norm survey: what it releases is right, and its price is the sum of its stages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import Ball, LpNoise
from pais._base.lattice import N_BINS, N_OCTAVES, OCTAVES, WIDEST, IntArray, Lattice, Rung
from pais._base.randomness import BitSource, SecureBits
from pais.data.sources import source
from pais.planning.facts import NormCounts, SurveyNoise
from pais.planning.norm_survey import _best_octave, _first_pass, _noisy_mean, shrunk_mean, survey
from tests.support.sampler_cases import cloud

Floats = NDArray[np.float64]
# Bins have twelve to the octave.
BIN = 2.0 ** (1.0 / 12.0)


@dataclass(kw_only=True)
class Spy:
    """Every draw of noise, every edge at which rows are clipped, and every array of whole steps on its way out."""

    laws: list[LpNoise] = field(default_factory=list)
    shapes: list[tuple[int, int]] = field(default_factory=list)
    released: list[Floats] = field(default_factory=list)
    rungs: list[tuple[Rung, Lattice]] = field(default_factory=list)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    seen = Spy()
    draw_steps, decode, total = LpNoise.draw_steps, Lattice.decode, Rung.total

    def draw(self: LpNoise, shape: tuple[int, int], lattice: Lattice, bits: BitSource) -> IntArray:
        seen.laws.append(self)
        seen.shapes.append(shape)
        return draw_steps(self, shape, lattice, bits)

    def out(self: Lattice, steps: IntArray) -> Floats:
        seen.released.append(decode(self, steps))
        return seen.released[-1]

    def clipped(self: Rung, sums: IntArray, lattice: Lattice) -> IntArray:
        seen.rungs.append((self, lattice))
        return total(self, sums, lattice)

    monkeypatch.setattr(LpNoise, "draw_steps", draw)
    monkeypatch.setattr(Lattice, "decode", out)
    monkeypatch.setattr(Rung, "total", clipped)
    return seen


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch, spy: Spy) -> Spy:
    """Draws of zero: what is released is what the rows contribute."""

    def draw(self: LpNoise, shape: tuple[int, int], lattice: Lattice, bits: BitSource) -> IntArray:
        spy.laws.append(self)
        spy.shapes.append(shape)
        return np.zeros(shape, dtype=np.int64)

    monkeypatch.setattr(LpNoise, "draw_steps", draw)
    return spy


# ---------------------------------------------------------------- what it finds


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_a_survey_finds_center_radius_rows_and_mean_square_norm(order: float) -> None:
    rows = cloud(seed=0)
    found = survey(rows, epsilon=0.5, quantile=0.975, order=order, random_state=0)
    assert found.ball.center is not None
    assert np.max(np.abs(np.asarray(found.ball.center) - rows.mean(axis=0))) < 0.25
    norm = np.linalg.norm(rows - np.asarray(found.ball.center), ord=order, axis=1)
    # The upper edge of the bin of the quantile; noise and the bins it hides may move it by one more.
    assert np.quantile(norm, 0.975) / BIN < found.ball.radius < np.quantile(norm, 0.975) * BIN**2
    assert found.norms.radius == found.ball.radius
    assert found.norms.n_rows == pytest.approx(20_000, rel=0.03)
    clipped = np.mean(np.square(np.minimum(norm, found.ball.radius)))
    assert found.norms.mean_square_norm == pytest.approx(clipped, rel=0.03)


def test_a_stated_center_is_kept_and_norms_are_taken_about_it() -> None:
    rows = cloud()
    center = (10.0, -3.0, 0.5, 0.0, 1.0)
    found = survey(rows, epsilon=0.5, center=center, quantile=0.975, random_state=2)
    assert found.ball.center == center
    expected = np.quantile(np.linalg.norm(rows - np.asarray(center), axis=1), 0.975)
    assert expected / BIN < found.ball.radius < expected * BIN**2


@pytest.mark.parametrize(("n", "d", "epsilon"), [(2000, 2, 0.5), (500, 2, 1.0), (1000, 20, 0.5)])
def test_a_survey_of_few_ordinary_rows_finds_their_scale(n: int, d: int, epsilon: float) -> None:
    """Rows by the hundred, which the noise of a thousand narrow bins must not drown."""
    found = []
    for seed in range(20):
        rows = np.random.default_rng(seed).standard_normal((n, d))
        radius = survey(rows, epsilon=epsilon, random_state=seed).ball.radius
        found.append(radius / float(np.quantile(np.linalg.norm(rows, axis=1), 0.975)))
    assert sum(1 / 8 < ratio < 8 for ratio in found) >= 18


# ---------------------------------------------------------------- what it costs


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 3.0])
@pytest.mark.parametrize("order", [1.0, 2.0])
def test_the_shares_of_the_stages_add_up_to_the_price(spy: Spy, epsilon: float, order: float) -> None:
    found = survey(cloud(), epsilon=epsilon, order=order, random_state=4)
    scale_law, mean_law, norm_law = spy.laws
    assert [shape[1] for shape in spy.shapes] == [1, 5, 1]
    assert spy.shapes[2] == (N_BINS, 1)
    # Laplace noise on bins in which a record counts once, and noise of the ball's own norm on the sum.
    assert scale_law.p == norm_law.p == 1.0
    assert mean_law.p == order
    # A record adds a vector within the radius, and a step more in each column by rounding.
    ((rung, lattice),) = spy.rungs
    reach = 2.0 ** (rung.octave - 99) + lattice.step * 5.0 ** (1.0 / order)
    shares = [1.0 / scale_law.scale, reach / mean_law.scale, 1.0 / norm_law.scale]
    assert sum(shares) <= epsilon * (1.0 + 1e-12)
    assert sum(shares) == pytest.approx(epsilon, rel=1e-9)
    assert found.epsilon == epsilon


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 3.0])
def test_a_stated_center_leaves_the_whole_price_to_two_histograms(spy: Spy, epsilon: float) -> None:
    found = survey(cloud(), epsilon=epsilon, center=(0.0,) * 5, random_state=5)
    assert [shape[1] for shape in spy.shapes] == [1, 1]
    assert all(law.p == 1.0 for law in spy.laws)
    shares = [1.0 / law.scale for law in spy.laws]
    assert sum(shares) <= epsilon * (1.0 + 1e-12)
    assert sum(shares) == pytest.approx(epsilon, rel=1e-9)
    assert found.epsilon == epsilon


@pytest.mark.parametrize(("n", "bins"), [(20_000, 12), (2000, 4), (3, 2)])
def test_fewer_rows_are_counted_in_fewer_bins(spy: Spy, n: int, bins: int) -> None:
    survey(cloud(n), epsilon=0.1, center=(0.0,) * 5, random_state=5)
    assert [shape[0] for shape in spy.shapes] == [200, 200 * bins]


def test_every_bin_has_its_own_noise_of_the_stated_scale(spy: Spy) -> None:
    survey(np.zeros((100_000, 2)), epsilon=0.5, center=(0.0, 0.0), random_state=6)
    noise = spy.released[1][1:]
    assert noise.size == N_BINS - 1
    assert float(np.mean(np.abs(noise))) == pytest.approx(2.0 / 0.92, rel=0.1)
    links = np.corrcoef(noise[:-1], noise[1:])[0, 1], np.corrcoef(np.abs(noise[:-1]), np.abs(noise[1:]))[0, 1]
    assert np.max(np.abs(links)) < 5.0 / math.sqrt(noise.size)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_a_neighbour_changes_one_bin_by_one(noiseless: Spy, order: float, layout: str) -> None:
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((400, 7))
    # Norms at the edges of bins, where the last bit of a norm decides.
    edges = np.exp2(rng.integers(-24, 24, 400) / 12.0)
    rows *= (edges / np.linalg.norm(rows, ord=order, axis=1))[:, None]
    center = (0.0,) * 7

    def counts(table: Floats) -> Floats:
        noiseless.released.clear()
        survey(np.asarray(table, order=layout), epsilon=1.0, order=order, center=center)
        assert np.array_equal(noiseless.released[0], noiseless.released[1].reshape(200, -1).sum(axis=1))
        return noiseless.released[1]

    whole = counts(rows)
    assert whole.sum() == 400.0
    for drop in range(0, 400, 20):
        change = whole - counts(np.delete(rows, drop, axis=0))
        assert np.sum(change) == 1.0
        assert np.count_nonzero(change) == 1
    assert np.array_equal(counts(rows[rng.permutation(400)]), whole)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 1e3])
def test_a_neighbour_changes_a_bin_by_one_for_every_price(noiseless: Spy, epsilon: float) -> None:
    def count(n: int) -> float:
        noiseless.released.clear()
        survey(np.ones((n, 2)), epsilon=epsilon, center=(0.0, 0.0))
        return float(noiseless.released[0].sum())

    counts = [count(n) for n in range(120, 132)]
    assert max(np.abs(np.diff(counts))) <= 1.0


def noisy_mean(table: Floats, order: float, noise: SurveyNoise) -> tuple[float, ...]:
    """The noisy mean of rows that the first stage found to have norms between 1 and 2."""
    counts = np.zeros(N_OCTAVES)
    counts[OCTAVES] = 50.0
    with np.errstate(all="ignore"):
        _, sums = _first_pass(source(table), Ball(radius=WIDEST, order=order), SecureBits())
    return _noisy_mean(sums, NormCounts(counts=counts, variance=1.0), order, noise, SecureBits())


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_rows_enter_the_noisy_mean_clipped_to_the_released_ball(noiseless: Spy, order: float) -> None:
    near = np.random.default_rng(8).uniform(-0.1, 0.1, (50, 3))
    far = np.array([[1e6, -1e6, 3.0]])
    totals = []
    for table in (near, np.concatenate([near, far]), np.concatenate([near, -1e200 * far])):
        noiseless.released.clear()
        noisy_mean(table, order, SurveyNoise(epsilon=2.0))
        totals.append(noiseless.released[0])
    assert noiseless.laws[0].p == order
    assert noiseless.laws[0].scale >= 2.0 / (0.4 * 2.0)
    assert np.max(np.abs(totals[0] - near.sum(axis=0))) < 1e-3
    for total in totals[1:]:
        share = np.linalg.norm(total - totals[0], ord=order)
        assert 1.0 - 1e-4 < share <= 2.0 + 1e-4


def test_rows_are_clipped_where_noise_and_lost_length_are_least() -> None:
    counts = np.zeros(N_OCTAVES)
    counts[OCTAVES - 1 : OCTAVES + 4] = [5000.0, 3000.0, 1000.0, 100.0, 1.0]
    edges = np.exp2(np.arange(N_OCTAVES) - 99.0)
    for spread in (1e-9, 1.0, 30.0, 1e3, 1e5, 1e9):
        lost = [0.75 * sum(counts[o] * (edges[o] - edges[r]) for o in range(r, N_OCTAVES)) for r in range(N_OCTAVES)]
        cost = spread * edges + np.array(lost)
        assert cost[_best_octave(counts, spread)] == pytest.approx(cost.min(), rel=1e-9)
    # With little noise, no row that was seen is clipped.
    assert _best_octave(counts, 1e-9) == OCTAVES + 3


def test_the_noisy_mean_is_shrunk_by_the_known_noise() -> None:
    total = np.array([30.0, -40.0])
    # Half of the squared length is expected from the noise alone.
    deviation = math.sqrt(np.square(total).sum() / 2 / 2)
    np.testing.assert_allclose(shrunk_mean(total, deviation, 10.0), 0.5 * total / 10.0)
    assert not np.any(shrunk_mean(total, 100.0, 10.0))
    assert not np.any(shrunk_mean(np.zeros(2), 1.0, 10.0))
    np.testing.assert_allclose(shrunk_mean(total, 1e-9, 10.0), total / 10.0)


def test_the_center_of_rows_far_from_the_origin_is_among_them() -> None:
    """Few rows lie beyond the edge of an octave, and are scaled down to half of their length there."""
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((20_000, 3)) + np.array([126.5, 0.0, 0.0])
    assert 0.05 < np.mean(np.linalg.norm(rows, axis=1) > 128.0) < 0.1
    ball = survey(rows, epsilon=1.0, random_state=1).ball
    assert ball.center is not None
    assert np.linalg.norm(np.asarray(ball.center) - rows.mean(axis=0)) < 0.5


def test_a_survey_without_a_center_takes_two_passes() -> None:
    engine = source(cloud(100))
    folds = []

    def fold(*args: Any, **options: Any) -> Any:
        folds.append(args[0])
        return type(engine).fold(engine, *args, **options)

    engine.fold = fold  # type: ignore[method-assign]
    survey(engine, epsilon=100.0, random_state=1)
    assert len(folds) == 2
    survey(engine, epsilon=100.0, center=(0.0,) * 5, random_state=1)
    assert len(folds) == 3
