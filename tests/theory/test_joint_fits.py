"""Fits whose Gaussian survey and rounds have one price: accounted for anew from the noise that is drawn."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

import pais
from pais import GaussianNoise, KMeansSettings, Plan, Survey
from pais._base.lattice import IntArray
from pais.accounting.ledger import accounts
from pais.planning.facts import SurveyNoise
from pais.privacy.amplification import delta_after, joint_delta, kept_limit_of_rounds, largest_shift
from tests.support.sampler_cases import cloud

DELTA = 1e-6
RULES = ["none", "uniform"]


def survey(shift: float, *, n_rows: float = 1e5, secure: bool = True) -> Survey:
    norms = pais.NormDistribution.from_quantiles(lambda level: 3.0 * level**0.3, n_rows=n_rows, radius=3.0)
    ball = pais.Ball(radius=3.0, center=(0.0,) * 5)
    return Survey(ball=ball, norms=norms, epsilon=math.inf, shift=shift, secure_randomness=secure)


def share_of(epsilon: float, share: float = 0.2) -> float:
    return share * largest_shift(epsilon, DELTA)


def settings_of(epsilon: float = 1.0, **changes: Any) -> KMeansSettings:
    return KMeansSettings(**{"n_clusters": 4, "epsilon": epsilon, "delta": DELTA, **changes})


def planned(epsilon: float, sampling: str, share: float = 0.2, **changes: Any) -> Plan:
    settings = settings_of(epsilon, sampling=sampling, sample_size=2e4 if sampling == "uniform" else None, **changes)
    return settings.plan(pais.Facts.from_own(survey(share_of(epsilon, share))), 5)


def accounted_delta(plan: Plan, survey_shift: float, *, pessimistic: bool) -> float:
    """Delta of survey and rounds by another library, for a rule that keeps all rows with one probability."""
    probability = float(plan.rule.probability(plan.ball.radius))
    shift = float(plan.mechanism.profile(1.0 / probability, plan.ball.radius))
    step = 1e-3 * plan.epsilon
    rounds, surveyed = (
        privacy_loss_distribution.from_gaussian_mechanism(
            standard_deviation=1.0 / mu,
            sampling_prob=q,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=step,
        )
        for mu, q in ((shift, probability), (survey_shift, 1.0))
    )
    return float(rounds.compose(surveyed).get_delta_for_epsilon(plan.epsilon))


@pytest.mark.parametrize("sampling", RULES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_an_independent_accountant_finds_survey_and_rounds_within_the_price(epsilon: float, sampling: str) -> None:
    plan = planned(epsilon, sampling)
    assert (plan.price.epsilon, plan.price.delta) == (epsilon, DELTA)
    assert accounted_delta(plan, plan.survey_shift, pessimistic=False) <= DELTA
    # The price is for the worst of all plans, of which this is one.
    assert accounted_delta(plan, plan.survey_shift, pessimistic=True) > 0.5 * DELTA


@pytest.mark.parametrize("rows", [{}, {"radius": 4.0}, {"center": (0.0,) * 5}], ids=str)
def test_noise_of_a_whole_fit_is_within_its_price(rows: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    stages = spied(monkeypatch)
    table = cloud(4000)
    fit = pais.fit(table, settings_of(2.0, sampling="none", **rows), random_state=0)
    total = math.sqrt(math.fsum(shift**2 for shift in stages))
    assert len(stages) == (2 if rows else 3)
    assert total <= fit.plan.survey_shift == fit.survey.shift == fit.certificate.survey_shift
    assert total == pytest.approx(fit.plan.survey_shift, rel=1e-9)
    assert accounted_delta(fit.plan, total, pessimistic=False) <= DELTA
    assert [(part.what, part.epsilon, part.delta) for part in fit.certificate.parts] == [
        ("survey and k-means", 2.0, DELTA)
    ]


def spied(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Shift of a record in each stage of a survey: one count, or a vector as long as the radius of the ball."""
    stages: list[float] = []
    shifts: list[tuple[GaussianNoise, float]] = []
    on_counts, on_sum, draw_steps = SurveyNoise.on_counts, SurveyNoise.on_sum, GaussianNoise.draw_steps

    def counts(self: SurveyNoise, share: float) -> Any:
        noise = on_counts(self, share)
        assert isinstance(noise, GaussianNoise)
        shifts.append((noise, 1.0 / noise.scale))
        return noise

    def sums(self: SurveyNoise, share: float, ball: pais.Ball) -> Any:
        noise = on_sum(self, share, ball)
        assert isinstance(noise, GaussianNoise)
        shifts.append((noise, ball.radius / noise.scale))
        return noise

    def draw(self: GaussianNoise, *args: Any, **more: Any) -> IntArray:
        stages.extend(shift for noise, shift in shifts if noise is self)
        return draw_steps(self, *args, **more)

    monkeypatch.setattr(SurveyNoise, "on_counts", counts)
    monkeypatch.setattr(SurveyNoise, "on_sum", sums)
    monkeypatch.setattr(GaussianNoise, "draw_steps", draw)
    return stages


def test_a_survey_without_rows_above_its_noise_spends_the_rest_on_the_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = spied(monkeypatch)
    fit = pais.fit(np.ones((3, 2)), settings_of(0.5), random_state=0)
    assert not fit.survey.above_noise
    assert len(stages) == 2
    assert math.hypot(*stages) == pytest.approx(fit.plan.survey_shift, rel=1e-9)


@pytest.mark.parametrize("delta", [None, 1e-8])
def test_the_shift_is_fixed_before_a_row_is_read(delta: float | None) -> None:
    """Tables of all sizes and scales are surveyed with one shift, which the settings give without any table."""
    settings = settings_of(1.0, delta=delta)
    shifts = {
        pais.fit(table, settings, random_state=1).plan.survey_shift
        for table in (cloud(300), cloud(30_000), 1e6 * cloud(2000), np.zeros((1, 5)))
    }
    assert shifts == {settings.survey_noise.shift}
    share = settings.survey_shift_share
    assert 0.05 < share < 0.5
    assert settings.survey_noise.shift == pytest.approx(share * largest_shift(1.0, delta or 1e-6), rel=1e-12)


def test_a_surveyed_number_of_rows_gives_a_smaller_delta_and_the_largest_is_certified() -> None:
    largest = delta_after(1.0, 1e-6, survey_shift=share_of(1.0))
    for n_rows in (1e3, 1e6, 1e8, 1e12):
        plan = settings_of(1.0, delta=None).plan(pais.Facts.from_own(survey(share_of(1.0), n_rows=n_rows)), 5)
        used = pais.privacy.guarantee.default_delta(plan.norms.n_rows)
        assert plan.delta == used
        assert plan.price.delta == 1e-6
        assert plan.release_delta == delta_after(1.0, used, survey_shift=share_of(1.0)) <= largest
        worst = pais.worst_case(plan.rule, plan.mechanism.profile, radius=3.0, epsilon=1.0)
        assert worst.upper <= plan.release_delta
        together = joint_delta(
            1.0, survey_shift=share_of(1.0), rounds_epsilon=1.0, rounds_delta=max(worst.upper, 1e-300)
        )
        assert together <= used


@pytest.mark.parametrize("epsilon", [1e-6, 0.03, 30.0, 1e4, 1e6])
def test_extreme_targets_leave_enough_for_the_rounds(epsilon: float) -> None:
    settings = settings_of(epsilon)
    noise = settings.survey_noise
    rounds = delta_after(epsilon, DELTA, survey_shift=noise.shift)
    assert largest_shift(epsilon, rounds) > 0.8 * largest_shift(epsilon, DELTA)


@pytest.mark.parametrize("limit", [1.5, 3.0, 16.0])
@pytest.mark.parametrize("sampling", ["constrained", "uniform", "coreset"])
def test_a_kept_record_stays_within_its_limit_together_with_the_survey(limit: float, sampling: str) -> None:
    size = {"sample_size": 1e4} if sampling != "coreset" else {"sample_size": 5e3}
    settings = settings_of(1.0, sampling=sampling, max_epsilon_if_kept=limit, **size)
    plan = settings.plan(pais.Facts.from_own(survey(share_of(1.0))), 5)
    norm = np.linspace(0.0, 3.0, 400)
    shift = np.hypot(plan.mechanism.profile(1.0 / plan.rule.probability(norm), norm), plan.survey_shift)
    assert np.max(pais.epsilon_at_delta(DELTA, shift, 1.0)) <= plan.epsilon_if_kept * (1.0 + 1e-9)
    assert plan.epsilon_if_kept <= limit


@pytest.mark.parametrize("limit", [0.5, 2.0, 16.0, 1e3])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_limit_of_the_rounds_and_the_survey_meet_the_limit_together(limit: float, share: float) -> None:
    most, rounds = largest_shift(limit, DELTA), 0.5 * DELTA
    own = kept_limit_of_rounds(limit, DELTA, survey_shift=share * most, rounds_delta=rounds)
    both = math.hypot(largest_shift(own, rounds), share * most)
    assert both <= most
    assert both == pytest.approx(most, rel=1e-6)
    with pytest.raises(pais.UnreachableError, match="max_epsilon_if_kept"):
        kept_limit_of_rounds(limit, DELTA, survey_shift=most, rounds_delta=rounds)


# ---------------------------------------------------------------- a survey is never free


def test_every_plan_made_from_a_survey_counts_its_shift() -> None:
    first = pais.fit(cloud(4000), settings_of(1.0), random_state=0)
    assert first.survey is not None
    again = settings_of(0.5).plan(pais.Facts.from_own(first.survey), 5)
    assert again.survey_shift == first.survey.shift
    assert again.release_delta == delta_after(0.5, DELTA, survey_shift=first.survey.shift)
    by_hand = pais.plan_kmeans(
        n_clusters=4,
        n_features=5,
        epsilon=0.5,
        delta=DELTA,
        ball=first.survey.ball,
        norms=first.survey.norms,
        spent=(first.survey.price,),
    )
    assert by_hand.release_delta == again.release_delta
    with pytest.raises(pais.UnreachableError, match="survey_shift"):
        settings_of(0.05).plan(pais.Facts.from_own(first.survey), 5)


def test_a_gaussian_survey_has_no_price_of_its_own() -> None:
    made = survey(0.1)
    assert made.epsilon == math.inf
    with pytest.raises(pais.ArgumentError):
        pais.Part(what="survey", epsilon=made.epsilon)
    with pytest.raises(pais.ArgumentError, match="not both"):
        replace(made.price, epsilon=0.1)
    with pytest.raises(pais.ArgumentError, match="not both"):
        replace(made, epsilon=0.1)
    ledger = pais.Ledger(epsilon=9.0, delta=1e-5)
    for act in (accounts(ledger).check, accounts(ledger).spend):
        with pytest.raises(pais.MismatchError, match="no price of its own"):
            act(made.price)
    assert ledger.entries == ()


@pytest.mark.parametrize("mechanism", ["l2", "laplace"])
def test_pure_noise_after_a_gaussian_survey_is_refused(mechanism: str) -> None:
    settings = settings_of(1.0, delta=0.0, mechanism=mechanism)
    with pytest.raises(pais.MismatchError):
        settings.plan(pais.Facts.from_own(survey(0.1)), 5)
    order = 1.0 if mechanism == "laplace" else 2.0
    with pytest.raises(pais.MismatchError, match="Gaussian noise"):
        pais.Plan(
            ball=pais.Ball(radius=1.0, order=order),
            rule=pais.UniformRule(rate=1.0),
            mechanism=pais.WeightedSum(noise=pais.LpNoise(scale=100.0, p=order)),
            epsilon=1.0,
            spent=(survey(0.1).price,),
        )


def test_a_release_at_cost_after_a_gaussian_survey_is_refused() -> None:
    sample = pais.sample(np.zeros((9, 2)), ball=pais.Ball(radius=1.0), rule=pais.UniformRule(rate=1.0))
    mechanism = pais.WeightedSum(noise=GaussianNoise(scale=100.0))
    with pytest.raises(pais.MismatchError, match="Pass epsilon"):
        pais.release(mechanism, sample, delta=DELTA, spent=(survey(0.1).price,))
    made = pais.release(mechanism, sample, epsilon=1.0, delta=DELTA, spent=(survey(0.1).price,))
    assert [(part.what, part.epsilon) for part in made.certificate.parts] == [("survey and sum", 1.0)]


@pytest.mark.parametrize("seeded", [True, False])
def test_a_seeded_survey_makes_every_certificate_from_it_say_so(seeded: bool) -> None:
    plan = settings_of(1.0).plan(pais.Facts.from_own(survey(0.05, secure=not seeded)), 5)
    certificate = pais.run(Plan.from_dict(json.loads(json.dumps(plan.to_dict()))), cloud(500)).certificate
    assert certificate.secure_randomness is not seeded


# ---------------------------------------------------------------- what other numbers say about it


def test_no_account_counts_less_than_the_joint_price() -> None:
    ledger, table = pais.Ledger(epsilon=5.0, delta=1e-5), cloud(2000)
    fit = pais.fit(table, settings_of(1.0, sampling="uniform", sample_size=500), ledger=ledger)
    assert np.asarray(ledger.record_losses(table)) == pytest.approx(1.0)
    assert ledger.tight_epsilon(DELTA) >= 1.0
    assert np.all(pais.record_losses(fit.plan, np.linspace(0.0, fit.plan.ball.radius, 9)) == 1.0)
    described = fit.plan.price.to_dict()
    assert "rule" not in described
    assert "profile" not in described


def edits_of_plan(content: dict[str, Any]) -> list[dict[str, Any]]:
    (part,) = content["spent"]
    return [
        {**content, "survey_shift": 0.0},
        {**content, "release_delta": content["delta"]},
        {**content, "spent": []},
        {**content, "spent": [{**part, "shift": 0.5 * part["shift"]}]},
        {**content, "spent": [{name: value for name, value in part.items() if name != "shift"}]},
        {**content, "spent": [{**part, "shift": 2.0 * part["shift"]}]},
        {**content, "spent": [{**part, "shift": -1.0}]},
        {**content, "spent": [{**part, "shift": "small"}]},
    ]


def test_plan_files_survive_a_round_trip_and_edits_are_refused() -> None:
    plan = planned(1.0, "constrained")
    content = json.loads(json.dumps(plan.to_dict()))
    assert Plan.from_dict(content) == plan
    for edited in edits_of_plan(content):
        with pytest.raises(pais.PaisError):
            Plan.from_dict(edited)


def test_survey_files_survive_a_round_trip_and_edits_are_refused() -> None:
    made = survey(0.1)
    content = json.loads(json.dumps(made.to_dict()))
    assert Survey.from_dict(content) == made
    for edit in ({"shift": 0.0}, {"epsilon": 0.1}, {"shift": -0.1}, {"shift": None}, {"epsilon": None}):
        with pytest.raises(pais.ArgumentError):
            Survey.from_dict({**content, **edit})


def test_certificate_files_survive_a_round_trip_and_edits_are_refused() -> None:
    certificate = pais.fit(cloud(2000), settings_of(1.0)).certificate
    content = json.loads(certificate.to_json())
    assert pais.Certificate.from_dict(content) == certificate
    shift, rounds = certificate.survey_shift, certificate.release_delta
    for edit in (
        {"survey_shift": 2.0 * shift},
        {"survey_shift": 0.0},
        {"survey_shift": -shift},
        {"release_delta": 1.01 * rounds},
        {"release_delta": 0.0},
        {"release_delta": None},
    ):
        with pytest.raises(pais.ArgumentError):
            pais.Certificate.from_dict({**content, **edit})


def test_plan_and_fit_explain_the_joint_price() -> None:
    text = planned(1.0, "constrained").explain()
    assert "Gaussian shift 0.0473" in text
    assert "the mechanism alone meets delta 5.62e-07" in text
