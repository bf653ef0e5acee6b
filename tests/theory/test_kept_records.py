"""The loss of a record that is known to be in the sample: certified, limited and shown."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from typer.testing import CliRunner

import pais
from pais.cli.app import app
from pais.cli.explain import explain_file
from pais.privacy.amplification import kept_limit, largest_shift

RADIUS = 2.0
BALL = pais.Ball(radius=RADIUS)
NORMS = pais.NormDistribution(norms=np.linspace(0.01, RADIUS, 200), masses=np.full(200, 5e3), radius=RADIUS)


#: Two upper bounds of one number by `epsilon_at_delta` agree to this.
AGREED = 1.0 + 1e-11


class SteepRule(pais.Rule):
    """A user's rule that jumps at half of the radius."""

    radius = RADIUS
    inner, outer = 0.01, 1.0

    def evaluate(self, norm: np.ndarray) -> np.ndarray:
        return np.where(norm < RADIUS / 2, self.inner, self.outer)

    def breakpoints(self, radius: float) -> np.ndarray:
        return np.array([0.0, RADIUS / 2, radius])

    def describe(self) -> dict[str, object]:
        return {"rule": "steep"}


class RareRule(SteepRule):
    """A user's rule that keeps every row with a probability below delta."""

    inner = outer = 2e-7


RULES = {
    "uniform": pais.UniformRule(rate=0.03),
    "coreset": pais.CoresetRule(sample_size=2e4, n_rows=1e6, mean_square_norm=1.3, radius=RADIUS, uniform_share=0.2),
    "function": pais.FunctionRule(function=lambda norm: 0.01 + 0.1 * norm**2, radius=RADIUS),
    "constrained gaussian": pais.ConstrainedRule(
        profile=pais.GaussianProfile(40.0, 30.0), radius=RADIUS, epsilon=1.0, delta=1e-6
    ),
    "constrained linear": pais.ConstrainedRule(
        profile=pais.LinearProfile(intercept=1e-7, slope=1e-4), radius=RADIUS, epsilon=1.0
    ),
    "steep": SteepRule(),
}
PROFILES = {
    "linear": pais.LinearProfile(intercept=0.003, slope=0.04),
    "power": pais.PowerProfile(0.003, 0.04, 1.5),
    "custom": pais.CustomProfile(lambda weight, norm: 0.01 * weight**0.8 * (0.1 + norm**2)),
    "gaussian": pais.GaussianProfile(50.0, 40.0),
    "gaussian square": pais.GaussianProfile(500.0, 400.0, square_scale=40.0),
}


def exact_gaussian_delta(epsilon: mp.mpf, mu: mp.mpf) -> mp.mpf:
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    list(itertools.product([1e-9, 1.0, 200.0], [0.9999, 0.3, 1e-6, 1e-30])),
)
def test_largest_shift_is_feasible_and_tight_in_high_precision(epsilon: float, delta: float) -> None:
    mu = largest_shift(epsilon, delta)
    with mp.workdps(60):
        assert exact_gaussian_delta(mp.mpf(epsilon), mp.mpf(mu)) <= mp.mpf(delta)
        assert exact_gaussian_delta(mp.mpf(epsilon), mp.mpf(mu * (1 + 1e-9))) > mp.mpf(delta)


@pytest.mark.parametrize(("rule", "profile"), list(itertools.product(RULES, PROFILES)))
def test_certified_loss_of_kept_records_bounds_a_grid_of_norms(rule: str, profile: str) -> None:
    delta = 1e-6 if profile.startswith("gaussian") else 0.0
    worst = pais.worst_case_if_kept(RULES[rule], PROFILES[profile], radius=RADIUS, delta=delta)
    norms = np.concatenate([np.linspace(0.0, RADIUS, 20_001), RULES[rule].probes(RADIUS)])
    loss = PROFILES[profile](1.0 / RULES[rule].probability(norms), norms)
    kept = pais.epsilon_at_delta(delta, loss, 1.0) if delta else loss
    assert worst.upper * AGREED >= kept.max()
    assert worst.attained <= worst.upper
    assert worst.attained <= kept.max() * (1 + 1e-6) + 1e-6
    # The bound is close to what some record pays.
    assert worst.upper <= kept.max() * (1 + 1e-3) + 1e-6


@pytest.mark.parametrize(
    ("probability", "epsilon", "mu", "kept"),
    [
        (0.2, 1.0, 0.54, 2.5),
        (0.005, 1.0, 1.49, 7.7),
        (1e-4, 0.1, 2.22, 12.5),
        (1e-5, 1.0, 3.96, 26),
        (2e-6, 3.0, 5.84, 44),
    ],
)
def test_losses_of_kept_records_under_the_unlimited_rule(
    probability: float, epsilon: float, mu: float, kept: float
) -> None:
    """The table in SECURITY.md: the shift that the first crossing allows, and what it costs once it is known."""
    low, high = 1e-12, 1.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        profile = pais.GaussianProfile(math.inf, 1.0 / middle)
        weight = pais.constrained_weight(profile, 1.0, epsilon=epsilon, delta=1e-6, max_epsilon_if_kept=math.inf)
        low, high = (low, middle) if weight < 1.0 / probability else (middle, high)
    shift = low / probability
    assert shift == pytest.approx(mu, abs=0.01)
    assert pais.epsilon_at_delta(1e-6, shift, 1.0) == pytest.approx(kept, abs=0.6 if kept > 20 else 0.06)


@pytest.mark.parametrize(("rate", "noise"), [(9e-7, 1e-3), (9e-7, 1e5), (1e-9, 1.0)])
def test_plan_with_a_probability_below_delta_and_little_noise_is_refused(rate: float, noise: float) -> None:
    mechanism = pais.WeightedSum(noise=pais.GaussianNoise(scale=noise))
    with pytest.raises(pais.BudgetError, match="max_epsilon_if_kept"):
        pais.Plan(ball=BALL, rule=pais.UniformRule(rate=rate), mechanism=mechanism, epsilon=1.0, delta=1e-6)


def test_release_with_a_probability_below_delta_is_refused_and_spends_nothing() -> None:
    sample = pais.sample(np.ones((50, 2)), ball=BALL, rule=pais.UniformRule(rate=9e-7))
    ledger = pais.Ledger(epsilon=1.0, delta=1e-6)
    with pytest.raises(pais.BudgetError, match="Raise the noise"):
        pais.release(pais.WeightedSum(noise=pais.GaussianNoise(scale=1e-3)), sample, delta=1e-6, ledger=ledger)
    assert not sample.spent
    assert ledger.entries == ()


@pytest.mark.parametrize("rule", [RareRule(), pais.FunctionRule(function=lambda z: 1e-8 + 0 * z, radius=RADIUS)])
def test_user_rules_with_large_losses_of_kept_records_are_refused(rule: pais.Rule) -> None:
    mechanism = pais.WeightedSum(noise=pais.GaussianNoise(scale=30.0))
    with pytest.raises(pais.BudgetError, match="max_epsilon_if_kept"):
        pais.Plan(ball=BALL, rule=rule, mechanism=mechanism, epsilon=1.0, delta=1e-6)


def test_stated_limit_is_kept_and_a_larger_one_admits_the_plan() -> None:
    rule = pais.UniformRule(rate=1e-3)
    mechanism = pais.WeightedSum(noise=pais.GaussianNoise(scale=2.2 * RADIUS / 1e-3 * 0.5))
    plan = pais.Plan(ball=BALL, rule=rule, mechanism=mechanism, epsilon=1.0, delta=1e-6)
    kept = plan.price.epsilon_if_kept
    assert 3.0 < kept < 16.0
    with pytest.raises(pais.BudgetError):
        pais.Plan(ball=BALL, rule=rule, mechanism=mechanism, epsilon=1.0, delta=1e-6, max_epsilon_if_kept=0.99 * kept)
    weaker = pais.WeightedSum(noise=pais.GaussianNoise(scale=0.1 * mechanism.noise.scale))
    with pytest.raises(pais.BudgetError):
        pais.Plan(ball=BALL, rule=pais.UniformRule(rate=9e-7), mechanism=weaker, epsilon=1.0, delta=1e-6)
    pais.Plan(
        ball=BALL,
        rule=pais.UniformRule(rate=9e-7),
        mechanism=weaker,
        epsilon=1.0,
        delta=1e-6,
        max_epsilon_if_kept=1e12,
    )


def test_earlier_releases_count_within_a_stated_limit() -> None:
    earlier = (pais.Part(what="survey", epsilon=0.5),)
    norms = pais.NormDistribution(norms=[1.0], masses=[1e6], radius=RADIUS)

    def planned(limit: float) -> pais.Plan:
        return pais.plan_kmeans(
            n_clusters=3,
            n_features=2,
            epsilon=1.0,
            delta=1e-6,
            ball=BALL,
            norms=norms,
            sample_size=5.0,
            spent=earlier,
            max_epsilon_if_kept=limit,
        )

    plan = planned(3.0)
    assert 2.4 < plan.price.epsilon_if_kept <= 2.5
    certificate = pais.run(plan, np.ones((50, 2)), random_state=0).certificate
    assert certificate.epsilon_if_kept <= certificate.max_epsilon_if_kept == 3.0
    with pytest.raises(pais.ArgumentError, match="used up"):
        planned(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["constrained", "uniform", "coreset"])
@pytest.mark.parametrize(("sample_size", "limit"), [(2.0, None), (2e3, 4.0)])
@pytest.mark.parametrize("kind", ["gaussian", "linear"])
def test_calibrated_rules_meet_guarantee_and_limit_at_every_size(
    sampling: str, sample_size: float, limit: float | None, kind: str
) -> None:
    delta = 1e-5 if kind == "gaussian" else 0.0
    answer = pais.calibrate(
        sampling,  # type: ignore[arg-type]
        PROFILES[kind],
        NORMS,
        epsilon=1.0,
        delta=delta,
        sample_size=sample_size,
        max_epsilon_if_kept=limit,
    )
    allowed = 16.0 if limit is None else limit
    norms = np.linspace(0.0, RADIUS, 5001)
    probability = answer.rule.probability(norms)
    loss = answer.profile(1.0 / probability, norms)
    kept = pais.epsilon_at_delta(delta, loss, 1.0) if delta else loss
    assert kept.max() <= answer.epsilon_if_kept * AGREED
    assert answer.epsilon_if_kept <= allowed
    amplified = pais.epsilon_at_delta(delta, loss, probability) if delta else pais.amplified_epsilon(loss, probability)
    assert amplified.max() <= 1.0 + 1e-9
    assert sample_size * (1 - 1e-3) <= answer.sample_size <= sample_size * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_pure_weights_end_exactly_at_the_limit(epsilon: float) -> None:
    profile = pais.LinearProfile(intercept=1e-11, slope=0.0)
    weight = pais.constrained_weight(profile, 0.0, epsilon=epsilon)
    with mp.workdps(40):
        exact = mp.expm1(mp.mpf(epsilon) + 15) / mp.expm1(mp.mpf(epsilon))
        kept = mp.mpf(1e-11) * mp.mpf(weight)
        assert kept <= epsilon + 15
        # A record that pays c w at weight w meets the target at w = (e^(eps + 15) - 1)/(e^eps - 1) with c w = eps + 15.
        slope = pais.LinearProfile(intercept=float((mp.mpf(epsilon) + 15) / exact * (1 - mp.mpf(10) ** -9)), slope=0.0)
        near = pais.constrained_weight(slope, 0.0, epsilon=epsilon)
        assert mp.mpf(near) == pytest.approx(float(exact), rel=1e-7)


def test_algorithm_one_ends_at_the_limit_of_kept_records() -> None:
    profile = pais.PowerProfile(1e-9, 0.0, 0.5)
    weight = pais.constrained_weight(profile, 0.0, epsilon=1.0, max_epsilon_if_kept=1e-4)
    assert profile(weight, 0.0) <= 1e-4
    assert weight == pytest.approx(1e10, rel=1e-6)


def test_every_probability_is_at_least_1e_12() -> None:
    with pytest.raises(pais.ArgumentError, match="1e-12"):
        pais.UniformRule(rate=0.9e-12)
    with pytest.raises(pais.ArgumentError):
        pais.CoresetRule(sample_size=1.0, n_rows=1e13, mean_square_norm=1.0, radius=1.0)
    with pytest.raises(pais.ArgumentError):
        pais.FunctionRule(function=lambda norm: 1e-13 + 0 * norm, radius=1.0)

    class Tiny(SteepRule):
        def evaluate(self, norm: np.ndarray) -> np.ndarray:
            return np.full_like(norm, 1e-13)

    with pytest.raises(pais.ArgumentError, match="1e-12"):
        pais.Plan(
            ball=BALL,
            rule=Tiny(),
            mechanism=pais.WeightedSum(noise=pais.GaussianNoise(scale=1e14)),
            epsilon=1.0,
            delta=1e-6,
        )


@pytest.mark.parametrize(("mechanism", "delta"), [("gaussian", 1e-6), ("l2", 0.0)])
def test_certificate_states_the_loss_of_kept_records_in_total(mechanism: str, delta: float, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(4000, 2))
    model = pais.DPKMeans(
        n_clusters=2, epsilon=2.0, delta=delta, mechanism=mechanism, sample_size=500, random_state=0
    ).fit(rows)
    certificate = model.certificate_
    # The price of a release with a Gaussian survey is that of both.
    survey = certificate.parts[0].epsilon if mechanism == "l2" else 0.0
    assert certificate.epsilon_if_kept >= model.plan_.price.epsilon_if_kept + survey  # type: ignore[operator]
    assert certificate.epsilon <= certificate.epsilon_if_kept <= certificate.max_epsilon_if_kept
    assert certificate.max_epsilon_if_kept <= certificate.epsilon + 15.0 + 1e-12
    text = model.plan_.explain()
    assert "if it becomes known that a record was kept" in text
    path = tmp_path / "certificate.json"
    path.write_text(certificate.to_json())
    assert json.loads(path.read_text())["epsilon_if_kept"] == certificate.epsilon_if_kept
    assert "if it becomes known" in explain_file(path)


def test_all_rows_cost_the_same_whether_or_not_the_sample_is_known() -> None:
    rows = np.random.default_rng(0).normal(size=(4000, 2))
    model = pais.DPKMeans(n_clusters=2, epsilon=2.0, delta=1e-6, sampling="none", random_state=0).fit(rows)
    certificate = model.certificate_
    assert certificate.epsilon_if_kept == pytest.approx(certificate.epsilon, rel=1e-6)
    assert "sampling adds no protection here" in model.plan_.explain()


def test_estimator_and_command_line_state_the_limit(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(4000, 2))
    model = pais.DPKMeans(n_clusters=2, epsilon=2.0, sample_size=50, max_epsilon_if_kept=4.0, random_state=0)
    certificate = model.fit(rows).certificate_
    assert certificate.survey_shift > 0.0
    assert certificate.epsilon_if_kept <= certificate.max_epsilon_if_kept == 4.0
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="a,b", comments="")
    facts = ["--n-clusters", "2", "--epsilon", "2", "--n-features", "2", "--radius", "3"]
    facts += ["--norms", "0,1,3", "--n-rows", "4000", "--sample-size", "50", "--out", str(tmp_path / "plan.json")]
    assert CliRunner().invoke(app, ["plan", *facts, "--max-epsilon-if-kept", "4", "--quiet"]).exit_code == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["max_epsilon_if_kept"] == 4.0
    assert plan["epsilon_if_kept"] <= 4.0
    arguments = ["kmeans", str(tmp_path / "rows.csv"), "--plan", str(tmp_path / "plan.json"), "--seed", "1", "--quiet"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    # A plan file that was edited to allow more is refused, because its numbers do not match.
    plan["epsilon_if_kept"] = 3.0
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "other")])
    assert result.exit_code == 2


@pytest.mark.parametrize("limit", [1e151, 1e308])
def test_a_limit_beyond_all_numbers_of_the_solver_is_refused(limit: float) -> None:
    with pytest.raises(pais.ArgumentError, match="max_epsilon_if_kept"):
        pais.ConstrainedRule(
            profile=pais.GaussianProfile(30.0, 40.0), radius=2.0, epsilon=1.0, delta=1e-6, max_epsilon_if_kept=limit
        )


def test_the_default_limit_of_kept_records_is_fifteen_more_than_epsilon() -> None:
    assert kept_limit(1.0, None) == 16.0
    assert kept_limit(1.0, 3.0) == 3.0
