"""Everything on a ledger together: never below what a direct accountant finds, never above the plain sum."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant, privacy_loss_distribution
from scipy import integrate
from scipy.stats import norm as normal

import pais
from pais.accounting import composition
from pais.accounting.composition import Pairs, largest_divergence, log_added_delta, pairs_of, tight_epsilon
from pais.accounting.part import Part
from pais.privacy.amplification import log_amplified_delta

RADIUS = 2.0
BALL = pais.Ball(radius=RADIUS)


def uniform(probability: float, mu: float, delta: float) -> Part:
    """A release whose costliest record has just this shift."""
    profile = pais.GaussianProfile(math.inf, RADIUS / (mu * probability))
    price = float(pais.epsilon_at_delta(delta, mu, probability)) * (1.0 + 1e-9)
    rule = pais.UniformRule(rate=probability)
    return Part(what="sum", epsilon=price, delta=delta, rule=rule, profile=profile, ball=BALL)


def gaussian_epsilon(mu: float, delta: float) -> float:
    return float(pais.epsilon_at_delta(delta, mu, 1.0))


@pytest.mark.parametrize(("probability", "mu"), [(1.0, 0.7), (0.3, 1.5), (0.02, 3.0), (0.9, 0.1)])
def test_both_curves_match_numerical_integrals(probability: float, mu: float) -> None:
    def density(x: float) -> tuple[float, float]:
        without = float(normal.pdf(x))
        return (1.0 - probability) * without + probability * float(normal.pdf(x - mu)), without

    pairs = Pairs(probability=np.array([probability]), shift=np.array([mu]))
    epsilons = np.array([0.01, 0.3, 1.0])
    curves = composition._both(pairs, epsilons)
    for position, epsilon in enumerate([*-epsilons[::-1], 0.0, *epsilons]):
        for curve, sign in zip(curves, (1.0, -1.0), strict=True):

            def integrand(x: float, factor: float = math.exp(epsilon), sign: float = sign) -> float:
                with_, without = density(x)
                return max(with_ - factor * without if sign > 0.0 else without - factor * with_, 0.0)

            exact = integrate.quad(integrand, -12.0, 15.0, points=[0.0, mu, mu / 2], limit=500)[0]
            assert curve[position] == pytest.approx(exact, rel=1e-6, abs=1e-10)


def test_adding_curve_is_zero_beyond_the_largest_likelihood_ratio() -> None:
    at = np.array([-math.log1p(-0.3) + 1e-9, 5.0, 800.0])
    assert np.all(np.isneginf(log_added_delta(at, np.ones(3), np.full(3, 0.3))))


@pytest.mark.parametrize("sampling", ["constrained", "coreset", "uniform"])
def test_curves_of_a_rule_bound_every_norm_and_agree_with_the_certified_worst_case(sampling: str) -> None:
    norms = pais.NormDistribution.from_quantiles(lambda level: RADIUS * level, n_rows=5000, radius=RADIUS)
    plan = pais.plan_kmeans(
        n_clusters=2, n_features=2, epsilon=1.0, delta=1e-6, ball=BALL, norms=norms, sampling=sampling, sample_size=900
    )
    rule, profile = plan.rule, plan.mechanism.profile
    part = Part(what="k-means", epsilon=1.0, delta=1e-6, rule=rule, profile=profile, ball=BALL)
    pairs = pairs_of(part)
    assert pairs is not None
    epsilons = np.array([0.0, 0.05, 0.4, 1.0, 1.5, 2.5])
    curve, other = (largest_divergence(pairs, epsilons, each) for each in (log_amplified_delta, log_added_delta))
    probability = rule.probability(grid := np.linspace(0.0, RADIUS, 3001))
    for epsilon, removed, added in zip(epsilons, curve, other, strict=True):
        exact = pais.amplified_delta(epsilon, profile(1.0 / probability, grid), probability)
        assert np.max(exact) <= removed
        assert added <= removed * (1.0 + 1e-9)
        worst = pais.worst_case(rule, profile, radius=RADIUS, epsilon=epsilon)
        assert removed <= worst.upper * 1.05
        assert removed >= worst.attained


@pytest.mark.parametrize(
    ("probability", "mu", "times", "delta"),
    [(1.0, 0.3, 1, 1e-6), (1.0, 0.3, 25, 1e-6), (0.1, 1.0, 10, 1e-6), (0.02, 1.0, 50, 1e-5), (0.5, 0.2, 20, 1e-9)],
)
def test_uniform_sampling_agrees_with_a_direct_accountant_and_is_never_below_it(
    probability: float, mu: float, times: int, delta: float
) -> None:
    accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp_event.PoissonSampledDpEvent(probability, dp_event.GaussianDpEvent(1.0 / mu)), times)
    direct = accountant.get_epsilon(delta)
    found = tight_epsilon([uniform(probability, mu, delta / times)] * times, delta)
    # Theirs is rounded up as well, by less than this.
    assert direct * (1.0 - 1e-5) <= found <= direct * (1.0 + 1e-3)


def test_plain_gaussian_releases_compose_to_one_gaussian() -> None:
    parts = [uniform(1.0, mu, 1e-7) for mu in (0.1, 0.2, 0.2, 0.4)]
    exact = gaussian_epsilon(math.hypot(0.1, 0.2, 0.2, 0.4), 1e-6)
    assert exact <= tight_epsilon(parts, 1e-6) <= exact * 1.001


def test_mixtures_of_pure_and_gaussian_parts_agree_with_a_direct_accountant() -> None:
    delta, step = 1e-6, 5e-5
    mixed = [uniform(0.2, 0.8, 1e-7), Part(what="survey", epsilon=0.1), uniform(1.0, 0.2, 1e-7)]
    mixed += [Part(what="table", epsilon=0.05, delta=1e-7)] * 3
    pld = privacy_loss_distribution
    direct = pld.from_gaussian_mechanism(1.0 / 0.8, sampling_prob=0.2, value_discretization_interval=step)
    direct = direct.compose(pld.from_gaussian_mechanism(5.0, value_discretization_interval=step))
    for epsilon, spent in ((0.1, 0.0), *[(0.05, 1e-7)] * 3):
        price = pld.common.DifferentialPrivacyParameters(epsilon, spent)
        direct = direct.compose(pld.from_privacy_parameters(price, value_discretization_interval=step))
    expected = direct.get_epsilon_for_delta(delta)
    found = tight_epsilon(mixed, delta)
    assert expected * (1.0 - 1e-4) <= found <= expected * 1.002
    assert found < sum(part.epsilon for part in mixed)


def test_the_plain_sum_is_never_exceeded_and_pure_releases_need_no_delta() -> None:
    assert tight_epsilon([], 0.0) == 0.0
    pure = [Part(what="survey", epsilon=0.1)] * 3
    assert tight_epsilon(pure, 0.0) == 0.3
    assert tight_epsilon(pure, 1e-12) <= 0.3
    one = uniform(0.1, 1.0, 1e-6)
    assert tight_epsilon([one], 1e-6) <= one.epsilon


def test_a_delta_that_is_spent_already_is_refused() -> None:
    spent = [Part(what="table", epsilon=1.0, delta=1e-6)]
    with pytest.raises(pais.UnreachableError):
        tight_epsilon(spent, 1e-7)
    with pytest.raises(pais.UnreachableError):
        tight_epsilon([uniform(0.1, 1.0, 1e-6)], 0.0)


def test_a_ledger_of_fits_is_bounded_the_same_from_memory_and_from_its_file(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(800, 2))
    ledger = pais.Ledger(epsilon=9.0, delta=1e-4, path=tmp_path / "budget.json")
    known = pais.NormDistribution.from_quantiles(lambda level: 4.0 * level**0.5, n_rows=800, radius=4.0)
    for _ in range(4):
        pais.DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, ledger=ledger, radius=4.0, norms=known).fit(X)
    here, there = ledger.tight_epsilon(1e-5), pais.Ledger(path=ledger.path).tight_epsilon(1e-5)
    assert here == pytest.approx(there, rel=1e-9)
    assert here < 0.75 * ledger.spent.epsilon


def test_missing_accountant_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = pais.Ledger(epsilon=9.0, delta=1e-4)
    ledger.spend(what="a sum", epsilon=1.0, delta=1e-6)
    # As if it were not installed.
    for name in [name for name in sys.modules if name.startswith("dp_accounting")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"pais\[accounting\]"):
        ledger.tight_epsilon(1e-5)
    assert ledger.spent.epsilon == 1.0


def test_plan_based_on_an_earlier_release_enters_with_its_price() -> None:
    fixed = uniform(0.3, 1.0, 1e-6)
    follows = dataclasses.replace(fixed, follows=True)
    price = dataclasses.replace(fixed, rule=None, profile=None, ball=None)
    assert tight_epsilon([follows] * 6, 1e-4) == tight_epsilon([price] * 6, 1e-4) > tight_epsilon([fixed] * 6, 1e-4)
    ledger = pais.Ledger(epsilon=9.0, delta=1e-4)
    X = np.random.default_rng(0).normal(size=(800, 2))
    pais.DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, ledger=ledger).fit(X)
    assert ledger.tight_epsilon(1e-5) == ledger.spent.epsilon


def test_user_rules_with_equal_descriptions_have_separate_curves() -> None:
    """Constrained rules of user-defined profiles, whose descriptions are equal."""
    noise = pais.GaussianProfile(math.inf, 40.0)

    def part(slope: float) -> Part:
        own = pais.CustomProfile(lambda weight, norm: weight**1.0001 * (0.01 + slope * norm))
        rule = pais.ConstrainedRule(profile=own, radius=RADIUS, epsilon=1.0)
        return Part(what="sum", epsilon=606.0, delta=1e-6, rule=rule, profile=noise, ball=BALL)

    light, heavy = part(0.45), part(0.0005)
    assert light.to_dict() == heavy.to_dict()
    assert not light.is_complete
    alone = tight_epsilon([heavy, heavy], 1e-5)
    # Both are upper bounds, on grids of their own.
    assert tight_epsilon([light, heavy, heavy], 1e-5) > 0.95 * alone > 100.0


@pytest.mark.parametrize("rule", ["uniform", "constrained"])
def test_user_class_with_a_known_name_is_not_rebuilt(rule: str) -> None:
    class Impostor(pais.UniformRule):
        def describe(self) -> dict[str, object]:
            return {"rule": rule, "probability": 1e-9, "radius": RADIUS}

    class Steep(pais.GaussianProfile):
        pass

    known = uniform(0.3, 1.0, 1e-6)
    assert known.is_complete
    assert not dataclasses.replace(known, rule=Impostor(rate=0.9)).is_complete
    assert not dataclasses.replace(known, profile=Steep(math.inf, 1.0)).is_complete


@pytest.mark.parametrize(
    ("parts", "delta"),
    [
        ([uniform(1e-6, 3.0, 1e-7)] * 2, 0.5),
        ([uniform(0.1, 1.0, 1e-6), Part(what="huge", epsilon=1e6)], 1e-5),
        ([Part(what="tiny", epsilon=5e-324), uniform(0.1, 1.0, 1e-6)], 1e-5),
    ],
)
def test_prices_too_far_apart_for_a_grid_are_added(parts: list[Part], delta: float) -> None:
    assert 0.0 <= tight_epsilon(parts, delta) <= sum(part.epsilon for part in parts) * (1.0 + 1e-12)


def test_a_delta_within_the_rounding_of_the_accountant_is_not_composed() -> None:
    parts = [Part(what="count", epsilon=0.1)] * 20
    assert composition._composed(parts, 21 * composition._HIDDEN, 2.0) == math.inf
    assert tight_epsilon(parts, 1e-14) == 2.0


@pytest.mark.parametrize(("mechanism", "delta"), [("gaussian", 1e-6), ("l2", 0.0)])
def test_losses_of_records_stay_within_the_plan_and_come_near(mechanism: str, delta: float) -> None:
    norms = pais.NormDistribution.from_quantiles(lambda level: RADIUS * level**0.5, n_rows=5000, radius=RADIUS)
    settings = {"n_clusters": 3, "n_features": 3, "epsilon": 1.0, "delta": delta, "mechanism": mechanism}
    for sampling in ("constrained", "uniform"):
        plan = pais.plan_kmeans(ball=BALL, norms=norms, sampling=sampling, sample_size=500, **settings)
        losses = pais.record_losses(plan, np.linspace(0.0, RADIUS, 200))
        assert losses.max() <= 1.0 + 1e-9
        # The rounds charge all records alike, because that needs the least noise.
        assert np.median(losses) > 0.9
