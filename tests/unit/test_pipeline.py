"""From rows to a certified release."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pais
from pais._base.randomness import bit_source
from pais.accounting.ledger import accounts
from pais.kmeans.rounds import Round
from pais.pipeline import release_once

ROWS = np.random.default_rng(0).normal(size=(3000, 4)) * 0.3
BALL = pais.Ball(radius=1.0)
NORMS = pais.NormDistribution.from_quantiles(lambda level: level**0.25, n_rows=3000, radius=1.0)


def laplace_mean(noise: float) -> pais.WeightedMean:
    return pais.WeightedMean(count_noise=pais.laplace_noise(10 * noise), sum_noise=pais.LpNoise(scale=noise, p=2.0))


def gaussian_mean(noise: float) -> pais.WeightedMean:
    return pais.WeightedMean(
        count_noise=pais.GaussianNoise(scale=10 * noise), sum_noise=pais.GaussianNoise(scale=noise)
    )


@pytest.mark.parametrize(("mean", "delta"), [(laplace_mean, 0.0), (gaussian_mean, 1e-6)])
@pytest.mark.parametrize("sampling", ["constrained", "coreset", "uniform"])
def test_the_certificate_states_the_guarantee_the_plan_was_calibrated_for(mean, delta: float, sampling: str) -> None:
    plan = pais.calibrate(sampling, mean(1.0).profile, NORMS, epsilon=2.0, delta=delta, sample_size=400)
    made = pais.Plan(ball=BALL, rule=plan.rule, mechanism=mean(plan.noise), epsilon=2.0, delta=delta)
    release = pais.run(made, ROWS)
    assert release.certificate.epsilon <= 2.0
    assert release.certificate.epsilon == pytest.approx(2.0, rel=1e-6)
    assert release.certificate.delta == delta
    assert release.certificate.secure_randomness


def test_a_rule_planned_for_another_mechanism_is_certified_for_the_one_that_is_run() -> None:
    plan = pais.calibrate("constrained", laplace_mean(1.0).profile, NORMS, epsilon=2.0, sample_size=400)
    kept = pais.sample(ROWS, ball=BALL, rule=plan.rule)
    certificate = pais.release(laplace_mean(plan.noise / 2), kept).certificate
    probability = plan.rule.probability(np.linspace(0, 1, 100001))
    loss = laplace_mean(plan.noise / 2).profile(1 / probability, np.linspace(0, 1, 100001))
    assert certificate.epsilon > 2.5
    assert certificate.epsilon >= pais.amplified_epsilon(loss, probability).max()


def test_a_plan_that_costs_more_than_its_budget_is_refused_before_a_row_is_read() -> None:
    plan = pais.calibrate("constrained", laplace_mean(1.0).profile, NORMS, epsilon=2.0, sample_size=400)
    with pytest.raises(pais.BudgetError) as caught:
        pais.Plan(ball=BALL, rule=plan.rule, mechanism=laplace_mean(1.0), epsilon=2.0)
    assert caught.value.cost > 2.0
    kept = pais.sample(ROWS, ball=BALL, rule=plan.rule)
    with pytest.raises(pais.BudgetError):
        pais.release(laplace_mean(1.0), kept, epsilon=2.0)
    assert not kept.spent


def test_a_second_mechanism_on_the_same_sample_is_refused_and_a_joint_one_is_not() -> None:
    rule = pais.UniformRule(rate=0.5)
    count, total = (
        pais.WeightedCount(noise=pais.laplace_noise(50.0)),
        pais.WeightedSum(noise=pais.LpNoise(scale=50.0, p=2)),
    )
    kept = pais.sample(ROWS, ball=BALL, rule=rule)
    pais.release(count, kept)
    with pytest.raises(pais.SpentError):
        pais.release(total, kept)
    both = pais.release(pais.Joint(parts=(count, total)), pais.sample(ROWS, ball=BALL, rule=rule))
    alone = pais.worst_case(rule, count.profile, radius=1.0).upper
    assert both.certificate.epsilon > alone


def test_a_refused_release_does_not_spend_the_sample() -> None:
    kept = pais.sample(ROWS, ball=BALL, rule=pais.UniformRule(rate=0.5))
    with pytest.raises(pais.MismatchError):
        pais.release(pais.WeightedSum(noise=pais.laplace_noise(1.0)), kept)  # l1 noise, l2 ball
    with pytest.raises(pais.MismatchError):
        pais.release(pais.WeightedSum(noise=pais.GaussianNoise(scale=1.0)), kept)  # no delta
    assert not kept.spent


def test_the_certificate_is_readable_json_and_a_seeded_run_says_so() -> None:
    plan = pais.Plan(
        ball=pais.Ball(radius=1.0, center=(0.0, 0.1, 0.0, 0.0)),
        rule=pais.UniformRule(rate=0.3),
        mechanism=pais.WeightedSum(noise=pais.LpNoise(scale=20.0, p=2.0)),
        epsilon=1.0,
    )
    seeded = pais.run(plan, ROWS, random_state=1)
    again = pais.run(plan, ROWS, random_state=1)
    assert np.array_equal(seeded.value, again.value)
    document = json.loads(seeded.certificate.to_json())
    assert document["secure_randomness"] is False
    assert document["version"] == pais.__version__
    assert document["note"] == "seeded, not private"
    assert document["ball"] == {"radius": 1.0, "order": 2.0, "center": [0.0, 0.1, 0.0, 0.0]}
    private = json.loads(pais.run(plan, ROWS).certificate.to_json())
    assert private["note"] == "secure randomness"
    assert {key for key in document if document[key] != private[key]} == {"secure_randomness", "note", "values_sha256"}


@pytest.mark.parametrize(("of_sample", "of_noise"), [(3, None), (None, 3), (3, 3)])
def test_a_seed_for_the_sample_or_for_the_noise_is_in_the_certificate(
    of_sample: int | None, of_noise: int | None
) -> None:
    kept = pais.sample(ROWS, ball=BALL, rule=pais.UniformRule(rate=0.5), random_state=of_sample)
    certificate = pais.release(laplace_mean(50.0), kept, random_state=of_noise).certificate
    assert not certificate.secure_randomness
    assert certificate.note == "seeded, not private"


def test_earlier_releases_are_in_the_certificate_of_a_release() -> None:
    kept = pais.sample(ROWS, ball=BALL, rule=pais.UniformRule(rate=1.0))
    count = pais.WeightedCount(noise=pais.laplace_noise(epsilon=0.5))
    earlier = pais.Part(what="survey", epsilon=0.25)
    certificate = pais.release(count, kept, epsilon=0.5, spent=(earlier,)).certificate
    assert certificate.epsilon == 0.75
    assert [part.what for part in certificate.parts] == ["survey", "count"]


def test_a_sample_and_its_release_with_the_same_seed_take_other_bits() -> None:
    count, rule = pais.WeightedCount(noise=pais.laplace_noise(50.0)), pais.UniformRule(rate=0.5)
    noisy = pais.release(count, pais.sample(ROWS, ball=BALL, rule=rule, random_state=3), random_state=3).value
    content = pais.sample(ROWS, ball=BALL, rule=rule, random_state=3).spend("a count with the bits of the sample")
    assert noisy != count.measure(content, BALL, bit_source(3, stream=0))


def test_the_released_mean_is_near_the_mean_of_all_rows() -> None:
    rows = np.random.default_rng(1).normal(size=(50000, 4)) * 0.1 + 0.2
    plan = pais.calibrate("constrained", gaussian_mean(1.0).profile, NORMS, epsilon=1.0, delta=1e-6)
    made = pais.Plan(ball=BALL, rule=plan.rule, mechanism=gaussian_mean(plan.noise), epsilon=1.0, delta=1e-6)
    release = pais.run(made, rows, random_state=0)
    assert release.value.noisy_mean == pytest.approx(rows.mean(axis=0), abs=0.02)


class Editable(pais.Mechanism):
    """A mechanism of the user's own whose noise can be changed after a plan was certified."""

    name = "editable sum"
    order = 1.0

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @property
    def inner(self) -> pais.WeightedSum:
        return pais.WeightedSum(noise=pais.laplace_noise(self.scale))

    @property
    def profile(self) -> pais.Profile:
        return self.inner.profile

    def require_lattice(self, extent: pais.Extent) -> None:
        self.inner.require_lattice(extent)

    def measure(self, content, ball: pais.Ball, bits) -> object:
        return self.inner.measure(content, ball, bits)


class EditableRule(pais.UniformRule):
    """A rule of the user's own that can be changed after a plan was certified."""

    factor = 1.0

    def evaluate(self, norm: np.ndarray) -> np.ndarray:
        return np.full_like(norm, self.rate * type(self).factor)


def test_run_refuses_a_mechanism_whose_noise_fell_after_the_plan_was_certified() -> None:
    mechanism = Editable(10.0)
    ball = pais.Ball(radius=1.0, order=1)
    plan = pais.Plan(ball=ball, rule=pais.UniformRule(rate=1.0), mechanism=mechanism, epsilon=1.0)
    ledger = pais.Ledger(epsilon=1000.0)
    assert pais.run(plan, ROWS, ledger=ledger).certificate.epsilon == pytest.approx(0.1)
    mechanism.scale = 2.0
    assert pais.run(plan, ROWS, ledger=ledger).certificate.epsilon == pytest.approx(0.5)
    assert ledger.spent.epsilon == pytest.approx(0.6)
    mechanism.scale = 0.01
    with pytest.raises(pais.BudgetError):
        pais.run(plan, ROWS, ledger=ledger)
    assert ledger.spent.epsilon == pytest.approx(0.6)


def test_run_certifies_a_rule_again_that_changed_after_the_plan_was_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = pais.WeightedCount(noise=pais.laplace_noise(10.0))
    plan = pais.Plan(ball=BALL, rule=EditableRule(rate=0.5), mechanism=mechanism, epsilon=0.5)
    before = pais.run(plan, ROWS).certificate.epsilon
    monkeypatch.setattr(EditableRule, "factor", 0.1)
    assert pais.run(plan, ROWS).certificate.epsilon > 1.05 * before
    monkeypatch.setattr(EditableRule, "factor", 0.01)
    with pytest.raises(pais.BudgetError):
        pais.run(plan, ROWS)


def test_rounds_added_after_the_plan_was_certified_are_not_run() -> None:
    noise = pais.GaussianNoise(scale=100.0)
    rounds = [Round(count_noise=noise, sum_noise=noise)]
    mechanism = pais.KMeans(n_clusters=2, n_features=4, rounds=rounds, radius=1.0, cells=2, explore=0)
    plan = pais.Plan(ball=BALL, rule=pais.UniformRule(rate=1.0), mechanism=mechanism, epsilon=1.0, delta=1e-6)
    rounds *= 1000
    assert len(mechanism.rounds) == 1
    object.__setattr__(mechanism, "rounds", tuple(rounds))
    with pytest.raises(pais.BudgetError):
        pais.run(plan, ROWS)


def test_a_plan_for_another_rule_or_ball_than_the_sample_is_refused_before_it_is_charged() -> None:
    mechanism = pais.WeightedCount(noise=pais.laplace_noise(100.0))
    plan = pais.Plan(ball=BALL, rule=pais.UniformRule(rate=1.0), mechanism=mechanism, epsilon=1.0)
    ledger = pais.Ledger(epsilon=5.0)
    for ball, rule in ((BALL, pais.UniformRule(rate=1e-3)), (pais.Ball(radius=50.0), plan.rule)):
        sample = pais.sample(ROWS, ball=ball, rule=rule)
        with pytest.raises(pais.MismatchError):
            release_once(plan, sample, accounts(ledger), bit_source(None))
        assert not sample.spent
    assert ledger.spent.epsilon == 0.0


def test_settings_whose_plan_leaves_out_the_survey_are_refused() -> None:
    class Forgetful(pais.KMeansSettings):
        def plan(self, facts: pais.Facts, n_features: int) -> pais.Plan:
            return self.release_plan(ball=facts.ball, norms=facts.norms, n_features=n_features)

    class Generous(pais.KMeansSettings):
        def plan(self, facts: pais.Facts, n_features: int) -> pais.Plan:
            return self.release_plan(ball=facts.ball, norms=facts.norms, n_features=n_features, spent=facts.spent)

    for kind, mechanism, spent in ((Forgetful, "gaussian", 1.0), (Forgetful, "l2", 0.052), (Generous, "l2", 0.052)):
        ledger = pais.Ledger(epsilon=5.0, delta=1e-5)
        with pytest.raises(pais.MismatchError, match="survey"):
            pais.fit(ROWS, kind(n_clusters=2, epsilon=1.0, mechanism=mechanism), ledger=ledger)
        assert ledger.spent.epsilon == spent
