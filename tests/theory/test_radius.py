"""The radius that a plan chooses from surveyed norms: predicted noise plus clipping, checked by brute force."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import pais
from pais import Facts, KMeansSettings, MismatchError, NormDistribution, Plan, Survey
from pais.kmeans.planning import best_radius, square_noise
from pais.planning.plan import radius_at
from pais.privacy.amplification import largest_shift


def heavy_rows(n: int = 20_000, d: int = 4, seed: int = 0) -> Any:
    return np.exp(np.random.default_rng(seed).normal(size=(n, d)))


def random_norms(seed: int) -> NormDistribution:
    rng = np.random.default_rng(seed)
    edges = np.append(0.0, np.exp2(np.arange(60) / 12))
    counts = np.round(1000 * rng.pareto(1.0, size=60)) * (rng.uniform(size=60) < 0.7)
    return NormDistribution.from_histogram(edges, counts)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("factor", [1e-3, 1e9])
@pytest.mark.parametrize("clipping", [1.0, 0.3])
def test_best_radius_minimises_noise_plus_clipping(seed: int, factor: float, clipping: float) -> None:
    norms = random_norms(seed)
    radius, choice = best_radius(norms, factor, clipping=clipping)

    def noise(r: float) -> float:
        return factor * r**2 / norms.n_rows

    def clipped(r: float) -> float:
        return sum(
            clipping * mass * max(norm - r, 0.0) ** 2
            for norm, mass in zip(norms.norms.tolist(), norms.masses.tolist(), strict=True)
        )

    candidates = [norm for norm, mass in zip(norms.norms, norms.masses, strict=True) if mass > 0.0 and norm > 0.0]
    assert radius in candidates
    least = min(noise(r) + clipped(r) for r in candidates)
    assert noise(radius) + clipped(radius) == pytest.approx(least, rel=1e-9)
    scale = norms.mean_square_norm
    assert choice.noise == pytest.approx(noise(radius) / norms.n_rows, rel=1e-9, abs=1e-12 * scale)
    assert choice.clipping == pytest.approx(clipped(radius) / norms.n_rows, rel=1e-9, abs=1e-12 * scale)
    assert choice.largest == norms.radius


def test_norms_of_zero_keep_their_radius() -> None:
    norms = NormDistribution(norms=np.zeros(3), masses=np.ones(3), radius=2.0)
    radius, choice = best_radius(norms, 1.0)
    assert radius == radius_at(norms, 0.5) == 2.0
    assert choice.clipping == 0.0


@pytest.mark.parametrize("quantile", [0.01, 0.5, 0.9, 1.0 - 1e-9])
def test_radius_at_a_quantile_holds_that_share_of_the_rows(quantile: float) -> None:
    norms = random_norms(3)
    radius = radius_at(norms, quantile)
    total = norms.n_rows
    assert norms.masses[norms.norms <= radius].sum() >= quantile * total * (1.0 - 1e-12)
    assert norms.masses[norms.norms < radius].sum() < quantile * total


@pytest.mark.parametrize(("mechanism", "order"), [("gaussian", 2.0), ("l2", 2.0), ("laplace", 1.0)])
def test_square_noise_is_that_of_one_release_of_all_sums(mechanism: str, order: float) -> None:
    k, d, epsilon, delta = 3, 5, 0.7, 1e-6
    if mechanism == "gaussian":
        scale = 1.0 / largest_shift(epsilon, delta)
        law: Any = pais.GaussianNoise(scale=scale)
        factor = 0.7
    else:
        law, factor = pais.LpNoise(scale=1.0 / epsilon, p=order), 2.0
    expected = factor * d * law.deviation(d) ** 2 * k**2
    predicted = square_noise(mechanism, n_clusters=k, n_features=d, epsilon=epsilon, delta=delta)
    assert predicted == pytest.approx(expected, rel=1e-6)


def settings(**changes: Any) -> KMeansSettings:
    return KMeansSettings(**{"n_clusters": 5, "epsilon": 1.0, "delta": 1e-6, **changes})


@pytest.mark.parametrize("mechanism", ["gaussian", "l2", "laplace"])
def test_a_plan_from_a_saved_survey_chooses_the_same_radius_and_says_how(mechanism: str) -> None:
    order = 1.0 if mechanism == "laplace" else 2.0
    survey = pais.survey(heavy_rows(), epsilon=0.1, order=order, random_state=1)
    assert not survey.quantile_asked
    saved = Survey.from_dict(json.loads(json.dumps(survey.to_dict())))
    delta = 1e-6 if mechanism == "gaussian" else None
    plans = [settings(mechanism=mechanism, delta=delta).plan(Facts.from_own(one), 4) for one in (survey, saved)]
    assert plans[0].ball == plans[1].ball
    choice = plans[0].radius_choice
    assert choice is not None
    assert plans[0].ball.radius <= choice.largest == survey.ball.radius
    assert "radius chosen from surveyed norms" in plans[0].explain()
    assert Plan.from_dict(json.loads(json.dumps(plans[0].to_dict()))) == plans[0]


def test_a_stated_quantile_fixes_the_radius() -> None:
    rows = heavy_rows()
    survey = pais.survey(rows, epsilon=0.5, center=(1.6,) * 4, random_state=1)
    plan = settings(quantile=0.9).plan(Facts.from_own(survey), 4)
    expected = np.quantile(np.linalg.norm(rows - 1.6, axis=1), 0.9)
    assert plan.radius_choice is None
    assert expected * 2 ** (-1 / 12) < plan.ball.radius < expected * 2 ** (1 / 6)
    again = pais.survey(rows, epsilon=0.5, center=(1.6,) * 4, quantile=0.9, random_state=1)
    assert settings().plan(Facts.from_own(again), 4).ball == plan.ball == again.ball
    with pytest.raises(MismatchError, match="quantile"):
        settings(quantile=0.9).plan(Facts.from_own(again), 4)
    fitted = pais.fit(rows, settings(quantile=0.9), random_state=1)
    assert fitted.plan.radius_choice is None


def test_the_algorithm_of_the_paper_keeps_a_fixed_quantile() -> None:
    rows = heavy_rows()
    fitted = pais.fit(
        rows, settings(epsilon=10.0, algorithm="paper", mechanism="l2", delta=None, center=(1.6,) * 4), random_state=1
    )
    assert fitted.plan.radius_choice is None
    expected = np.quantile(np.linalg.norm(rows - 1.6, axis=1), 0.975)
    assert expected * 2 ** (-1 / 12) < fitted.plan.ball.radius < expected * 2 ** (1 / 6)
