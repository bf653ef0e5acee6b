"""The norm survey: odd tables, public structure and refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pais
from pais import ArgumentError, Ball, DataError
from pais._base.lattice import N_OCTAVES, OCTAVES, WIDEST
from pais._base.numerics import FloatArray
from pais._base.randomness import SecureBits
from pais.accounting.ledger import accounts
from pais.data.sources import source
from pais.mechanisms.noise import GaussianNoise, NoiseLaw, laplace_noise
from pais.planning.facts import NoisyCounts, Stages, SurveyNoise, octave_weights
from pais.planning.norm_survey import _joined, _likely_counts, _norms_of, _pooled, _shapes, survey, survey_stages
from tests.support.sampler_cases import cloud

# ---------------------------------------------------------------- what it withstands

ODD_TABLES = {
    "one row": np.ones((1, 3)),
    "three rows": np.random.default_rng(9).standard_normal((3, 2)),
    "one row many times": np.full((500, 4), 2.5),
    "zeros": np.zeros((500, 3)),
    "rows of 1e30": np.full((500, 2), 1e30),
    "rows whose squares overflow": np.full((500, 2), -1e200),
    "the largest doubles": np.full((500, 2), 1.7e308),
    "rows whose squares vanish": np.full((500, 2), 1e-300),
    "one column": np.random.default_rng(10).standard_normal((3000, 1)),
    "integers": np.random.default_rng(11).integers(-5, 5, (3000, 2)),
    "single precision": np.random.default_rng(12).standard_normal((3000, 2)).astype(np.float32),
    "booleans": np.random.default_rng(13).uniform(size=(3000, 2)) < 0.5,
}


@pytest.mark.parametrize(
    ("order", "epsilon"), [(1.0, 0.5), (2.0, 1e-6), (2.0, 0.5), (2.0, 10.0), (2.0, 1e6), (math.inf, 0.5)]
)
@pytest.mark.parametrize("name", ODD_TABLES)
def test_odd_tables_give_a_survey_without_a_warning(name: str, order: float, epsilon: float) -> None:
    rows = ODD_TABLES[name]
    for random_state in (0, None):
        found = survey(rows, epsilon=epsilon, order=order, random_state=random_state)
        assert found.ball.center is not None
        assert len(found.ball.center) == rows.shape[1]
        assert np.all(np.isfinite(found.ball.center))
        assert 0.0 < found.ball.radius < math.inf
        assert found.ball.order == order
        assert 0.0 < found.norms.n_rows < math.inf
        assert 0.0 <= found.norms.mean_square_norm <= found.ball.radius**2 * (1.0 + 1e-12)
        assert found.secure_randomness is (random_state is None)


def test_rows_that_are_all_alike_give_their_own_point_and_a_small_radius() -> None:
    found = survey(np.full((5000, 4), 2.5), epsilon=1.0, random_state=14)
    assert found.ball.center is not None
    assert found.ball.center == pytest.approx((2.5,) * 4, rel=0.05)
    assert found.ball.radius < 0.25


def test_zeros_lie_in_the_lowest_bin() -> None:
    found = survey(np.zeros((500, 3)), epsilon=1.0, center=(0.0,) * 3, random_state=15)
    assert found.ball.radius < 1e-29
    assert found.norms.n_rows == pytest.approx(500, abs=20)


def test_norms_beyond_the_last_bin_are_counted_in_it() -> None:
    found = survey(np.full((500, 2), 1e200), epsilon=1.0, center=(0.0, 0.0), random_state=16)
    assert found.ball.radius == 2.0**100
    assert found.norms.n_rows == pytest.approx(500, abs=40)


# ---------------------------------------------------------------- what it shows


def test_the_radius_is_an_edge_of_a_public_bin() -> None:
    for seed in range(5):
        position = 12.0 * math.log2(survey(cloud(seed=seed), epsilon=0.5, random_state=seed).ball.radius)
        assert abs(position - round(position)) < 1e-9


# ---------------------------------------------------------------- small groups far beyond the other rows


def histograms(rows: int, *, seed: int, at: int = 3) -> tuple[NoisyCounts, NoisyCounts]:
    """Counts of 6,000 rows in an octave and of more rows `at` octaves beyond it, in four bins per octave and in one."""
    rng, true = np.random.default_rng(seed), np.zeros(N_OCTAVES)
    true[OCTAVES], true[OCTAVES + at] = 6_000.0, rows
    fine = np.repeat(true / 4.0, 4) + rng.normal(scale=80.0, size=4 * N_OCTAVES)
    coarse = true + rng.normal(scale=130.0, size=N_OCTAVES)
    return (
        NoisyCounts(counts=fine, bins_per_octave=4, noise=GaussianNoise(scale=80.0)),
        NoisyCounts(counts=coarse, bins_per_octave=1, noise=GaussianNoise(scale=130.0)),
    )


def test_two_histograms_show_a_group_of_rows_that_one_of_them_hides() -> None:
    seen, alone, counted = [], [], []
    for seed in range(50):
        fine, coarse = histograms(450, seed=seed)
        better, far = _joined(fine, coarse, 0.0)
        seen.append(far[OCTAVES + 3])
        alone.append(fine.above[OCTAVES + 3])
        counted.append(better.in_octaves()[OCTAVES + 3])
    assert np.mean(seen) > 0.8
    assert np.mean(alone) < 0.3
    # The noise of both histograms together: 1 / sqrt(1/160^2 + 1/130^2) = 101.
    assert np.std(np.array(counted)[seen]) < 110.0


def test_noise_alone_seldom_shows_a_group_of_rows() -> None:
    found = [np.any(_joined(*histograms(0, seed=seed), 0.0)[1]) for seed in range(300)]
    assert np.mean(found) < 0.05


def test_norms_about_the_origin_say_nothing_about_rows_near_a_far_center() -> None:
    fine, coarse = histograms(0, seed=1)
    counts = coarse.counts.copy()
    counts[OCTAVES + 3] += 5_000.0
    coarse = replace(coarse, counts=counts)
    assert np.any(_joined(fine, coarse, 1.0)[1])
    better, far = _joined(fine, coarse, 2.0**6)
    assert not np.any(far)
    assert np.array_equal(better.counts, fine.counts)


def test_a_group_is_counted_and_no_tail_is_continued_beyond_it() -> None:
    fine, coarse = histograms(900, seed=0)
    better, far = _joined(fine, coarse, 0.0)
    found = better.estimate(far)
    assert found is not None
    by_octave = found.counts.reshape(N_OCTAVES, -1).sum(axis=1)
    assert 500.0 < by_octave[OCTAVES + 2 : OCTAVES + 5].sum() < 1_300.0
    assert by_octave[OCTAVES + 5 :].sum() == 0.0


def test_a_few_rows_stand_out_in_the_octaves_that_they_share() -> None:
    """150 rows in two octaves, none of which stands out: the last histogram has two bins per octave."""
    seen, noise = [], GaussianNoise(scale=18.0)
    for seed in range(100):
        rng, true = np.random.default_rng(seed), np.zeros(N_OCTAVES)
        true[OCTAVES + 2 : OCTAVES + 4] = 75.0
        fine = NoisyCounts(
            counts=np.repeat(true / 2.0, 2) + rng.normal(scale=18.0, size=2 * N_OCTAVES), bins_per_octave=2, noise=noise
        )
        coarse = replace(fine, counts=true + rng.normal(scale=43.0, size=N_OCTAVES), bins_per_octave=1)
        better, far = _joined(fine, replace(coarse, noise=GaussianNoise(scale=43.0)), 0.0)
        seen.append((better.estimate(far) is not None, fine.estimate() is not None))
    together, alone = np.mean(seen, axis=0)
    assert together > 0.85
    assert alone < 0.6


def test_noise_alone_seldom_shows_rows() -> None:
    found = []
    for seed in range(300):
        rng, scales = np.random.default_rng(seed), {2: 18.0, 1: 43.0}
        fine, coarse = (
            NoisyCounts(
                counts=rng.normal(scale=scale, size=bins * N_OCTAVES),
                bins_per_octave=bins,
                noise=GaussianNoise(scale=scale),
            )
            for bins, scale in scales.items()
        )
        found.append(np.any(_joined(fine, coarse, 0.0)[1]))
    assert np.mean(found) < 0.05


@pytest.mark.parametrize("noise", [GaussianNoise(scale=80.0), laplace_noise(80.0)])
def test_an_empty_histogram_shows_no_group(noise: NoiseLaw) -> None:
    empty = NoisyCounts(counts=np.zeros(N_OCTAVES), bins_per_octave=1, noise=noise)
    better, far = _joined(empty, empty, 0.0)
    assert not np.any(far)
    assert better.estimate(far) is None


@pytest.mark.parametrize(("beside", "least", "most"), [(0.0, 0.0, 0.15), (250.0, 0.7, 1.0)])
def test_a_group_reaches_into_the_octave_beside_it(beside: float, least: float, most: float) -> None:
    """Noise would hide 250 rows that are 2.5 deviations of both histograms, if no group were beside them."""
    found = []
    for seed in range(200):
        fine, coarse = histograms(1_500, seed=seed)
        more = np.zeros(N_OCTAVES)
        more[OCTAVES + 4] = beside
        fine = replace(fine, counts=fine.counts + np.repeat(more / 4.0, 4))
        found.append(_joined(fine, replace(coarse, counts=coarse.counts + more), 0.0)[1][OCTAVES + 4])
    assert least <= np.mean(found) <= most


# ---------------------------------------------------------------- few rows


def few_rows(octaves: FloatArray, *, scale: float, seed: int, bins: int = 2) -> NoisyCounts:
    """Noisy counts of rows whose norms have these binary logarithms."""
    place = np.floor((octaves + OCTAVES) * bins).astype(int)
    counts = np.bincount(place, minlength=bins * N_OCTAVES) + np.random.default_rng(seed).normal(
        scale=scale, size=bins * N_OCTAVES
    )
    return NoisyCounts(counts=counts, bins_per_octave=bins, noise=GaussianNoise(scale=scale))


def logarithms(name: str, n: int = 300) -> FloatArray:
    """Binary logarithms of norms: of a plane, of thirty columns, and of a table with a skewed column."""
    rng = np.random.default_rng(7)
    norms = {
        "plane": np.linalg.norm(rng.normal(size=(n, 2)), axis=1),
        "thirty columns": np.linalg.norm(rng.normal(size=(n, 30)), axis=1),
        "skewed": rng.lognormal(6.0, 0.8, size=n),
    }[name]
    return np.log2(np.maximum(norms, 1e-3))


@pytest.mark.parametrize("name", ["plane", "thirty columns", "skewed"])
@pytest.mark.parametrize("bins", [1, 3])
def test_a_few_rows_are_counted_where_they_are(name: str, bins: int) -> None:
    """Number of rows, root mean square norm and a quantile, although no bin stands far out of the noise."""
    octaves = logarithms(name)
    exact = np.array([300.0, np.sqrt(np.mean(4.0**octaves)), 2.0 ** np.quantile(octaves, 0.95)])
    found = []
    for seed in range(60):
        counts = _likely_counts(few_rows(octaves, scale=16.0, seed=seed, bins=bins))
        if counts is None:
            continue
        norms = _norms_of(counts.counts)
        order = np.argsort(norms.norms)
        upper = norms.norms[order][np.searchsorted(np.cumsum(norms.masses[order]), 0.95 * norms.n_rows)]
        found.append([norms.n_rows, math.sqrt(norms.mean_square_norm), upper])
    ratio = np.median(found, axis=0) / exact
    assert len(found) >= 45
    assert np.all((ratio > 0.65) & (ratio < 1.4)), ratio


def test_noise_alone_seldom_shows_a_few_rows() -> None:
    empty = [_likely_counts(few_rows(np.empty(0), scale=24.0, seed=seed, bins=1 + seed % 2)) for seed in range(400)]
    assert np.mean([counts is not None for counts in empty]) < 0.02


def test_likely_counts_are_the_mean_over_all_shapes_and_places() -> None:
    """Compared with plain loops, which keep the unlikely ones too."""
    noisy = few_rows(logarithms("plane"), scale=30.0, seed=3, bins=1)
    coarse, finest = _shapes(1)
    total, mass = np.zeros(12 * N_OCTAVES + finest.shape[1]), 0.0
    weights = octave_weights(N_OCTAVES) ** 2
    padded = np.concatenate([np.zeros(8), noisy.counts, np.zeros(coarse.shape[1])])
    for place in range(N_OCTAVES):
        for shape, fine in zip(coarse, finest, strict=True):
            rows = padded[place : place + shape.size] @ shape / (shape @ shape)
            score = rows * math.sqrt(shape @ shape) / 30.0
            if score > 1.0:
                chance = math.exp(0.5 * score**2) / score * weights[place]
                mass += chance
                total[12 * place : 12 * place + fine.size] += chance * rows * fine
    plain, found = total[96:][: 12 * N_OCTAVES] / mass, _likely_counts(noisy)
    assert found is not None
    assert float(np.abs(found.counts - plain).sum()) < 0.1 * float(plain.sum())


def test_two_histograms_of_the_same_bins_have_less_noise_together() -> None:
    one, other = (few_rows(np.empty(0), scale=scale, seed=seed, bins=1) for scale, seed in ((24.0, 1), (43.0, 2)))
    pooled = _pooled(one, other)
    assert pooled.deviation == pytest.approx((24.0**-2 + 43.0**-2) ** -0.5)
    assert np.std(pooled.counts) == pytest.approx(pooled.deviation, rel=0.15)


# ---------------------------------------------------------------- what it refuses


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    *(({"epsilon": epsilon}, ArgumentError, "epsilon") for epsilon in (0.0, -1.0, math.nan, math.inf, True, "1")),
    *(({"quantile": quantile}, ArgumentError, "quantile") for quantile in (0.0, 1.0, -0.1, 1.5, math.nan)),
    *(({"order": order}, ArgumentError, "order") for order in (0.5, 0.0, math.nan)),
    ({"center": (0.0, 0.0)}, DataError, "center"),
    ({"center": (math.nan,) * 5}, ArgumentError, "center"),
    ({"rows": np.empty((3, 0))}, DataError, "no columns"),
    ({"rows": np.ones(3)}, DataError, "two-dimensional"),
    ({"rows": np.array([["a"]] * 3)}, DataError, "are not numeric"),
    ({"rows": np.array([["2020-01-01"]], dtype="datetime64[D]")}, DataError, "real numbers"),
    ({"rows": np.ma.masked_array(np.ones((2, 2)), mask=np.eye(2))}, DataError, "mask"),
]


@pytest.mark.parametrize(("stated", "error", "text"), REFUSED)
def test_refusals_cost_nothing(stated: dict[str, Any], error: type[Exception], text: str) -> None:
    with pais.Ledger(epsilon=5.0) as ledger, pytest.raises(error, match=text):
        survey(**{"rows": cloud(10), "epsilon": 1.0, **stated})
    assert ledger.entries == ()


# ---------------------------------------------------------------- when it is charged


class Counted(SecureBits):
    """Bits that note how often they are drawn."""

    drawn = 0

    def raw(self, n_bytes: int) -> bytes:
        self.drawn += 1
        return super().raw(n_bytes)


def stages() -> Stages:
    return survey_stages(source(cloud(100)), SurveyNoise(epsilon=1.0), lambda _: Ball(radius=WIDEST), None)


def test_no_bit_is_drawn_if_the_charge_is_refused() -> None:
    bits = Counted()
    with pytest.raises(pais.BudgetError):
        stages().run(source(cloud(100)), accounts(pais.Ledger(epsilon=0.5)), bits)
    assert bits.drawn == 0
    stages().run(source(cloud(100)), accounts(pais.Ledger(epsilon=1.0)), bits)
    assert bits.drawn > 0


def test_a_failure_in_the_first_pass_is_not_charged_and_a_later_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for function, entries in (("_first_pass", 0), ("_noisy_mean", 1)):
        ledger = pais.Ledger(epsilon=1.0)
        with monkeypatch.context() as patch:
            patch.setattr(f"pais.planning.norm_survey.{function}", failing)
            with pytest.raises(KeyboardInterrupt):
                survey(cloud(5000), epsilon=1.0, ledger=ledger)
        assert len(ledger.entries) == entries
