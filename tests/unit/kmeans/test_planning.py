"""Plans of k-means: they explain their stages, and choose the smallest sample whose predicted cost is near the best."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pais
from pais.errors import ArgumentError
from pais.kmeans.planning import _HIDDEN_SHARE, LEAST_ROWS, KMeansSettings, ScheduleInputs, schedule
from pais.planning.plan import TOLERANCE, SampleChoice
from tests.support.kmeans_cases import DELTAS, ROWS, settings_of, stated


@pytest.mark.parametrize("mechanism", DELTAS)
def test_a_plan_explains_its_stages_and_shows_no_row(mechanism: str) -> None:
    canary = 7.36194825172
    rows = ROWS.copy()
    rows[:, 2] = canary
    for case in (stated(mechanism), settings_of(mechanism)):
        fit = pais.fit(rows, case, random_state=0)
        text = fit.plan.explain()
        for stage, word in [
            ("rows", "secret"),
            ("ball", "secret"),
            ("rule", "public"),
            ("sample", "secret"),
            ("mechanism", "protected"),
            ("release", "may leave"),
        ]:
            assert re.search(rf"^\d\. {stage} +{word} ", text, re.MULTILINE), stage
        assert len(re.findall(r"^ +round \d+", text, re.MULTILINE)) == len(fit.plan.mechanism.rounds)  # type: ignore[attr-defined]
        assert ("survey" in text) == (fit.survey is not None)
        for shown in (text, fit.certificate.to_json(), repr(fit.plan), repr(fit.certificate), repr(fit)):
            assert "7.36194" not in shown
            assert "30000" not in shown.replace(",", "") or fit.survey is None


def test_a_plan_says_what_each_round_releases() -> None:
    plan = pais.fit(ROWS, stated(sample_size=3000.0), random_state=0).plan
    text, rounds = plan.explain(), plan.mechanism.rounds  # type: ignore[attr-defined]
    assert "the sum of their residuals (row minus center)" in text
    assert "mean and second moment of the rows clipped to norm" in text
    assert "The clip is smaller for rows of small norm" in text
    for noise in (rounds[-1].count_noise, rounds[-1].distance_noise, rounds[-1].residual_noise):
        assert f"{noise.scale:.6g}" in text.split(f"round {len(rounds)}")[1]
    whole = pais.fit(ROWS, stated(sampling="none"), random_state=0).plan.explain()
    assert "The clip is smaller" not in whole
    paper = pais.fit(ROWS, stated("l2", algorithm="paper"), random_state=0).plan.explain()
    assert "the sum of the rows of each cell" in paper
    assert "residuals" not in paper
    pure = pais.fit(ROWS, stated("laplace"), random_state=0).plan.explain()
    assert "second moment" not in pure
    assert " sectors, " in pure


RADIUS = 6.5
#: Every mechanism and every rule of a sample, each with the usual one of the others.
SAMPLED = [
    *(("gaussian", rule) for rule in ("constrained", "uniform", "coreset")),
    *((p, "constrained") for p in ("l2", "laplace")),
]


def norms_of(n_rows: float) -> pais.NormDistribution:
    return pais.NormDistribution.from_quantiles(stats.chi(16).ppf, n_rows=n_rows, radius=RADIUS)


def planned(n_rows: float = 1e7, mechanism: str = "gaussian", **changes: Any) -> pais.Plan:
    facts = {"ball": pais.Ball(radius=RADIUS, order=1.0 if mechanism == "laplace" else 2.0), "norms": norms_of(n_rows)}
    settings = {"n_clusters": 10, "n_features": 16, "epsilon": 1.0, "delta": DELTAS[mechanism], "mechanism": mechanism}
    return pais.plan_kmeans(**{**facts, **settings, **changes})


def choice_of(plan: pais.Plan) -> SampleChoice:
    assert plan.sample_choice is not None
    return plan.sample_choice


@pytest.mark.parametrize(("mechanism", "sampling"), SAMPLED)
def test_the_chosen_size_is_the_smallest_within_the_tolerance(mechanism: str, sampling: str) -> None:
    plan = planned(mechanism=mechanism, sampling=sampling)
    choice = choice_of(plan)
    best = min(option.excess for option in choice.options)
    assert choice.option.excess <= best + TOLERANCE
    assert all(option.excess > best + TOLERANCE for option in choice.options[: choice.chosen])
    sizes = [option.size for option in choice.options]
    assert sizes == sorted(sizes)
    assert sizes[0] >= LEAST_ROWS
    # The exact rule keeps about as many rows as the rough prediction says, at the noise that it says.
    assert plan.expected_rows == pytest.approx(choice.option.size, rel=0.02)
    assert plan.quality is not None
    assert plan.quality.sampling == pytest.approx(choice.option.sampling, rel=0.05)
    assert plan.quality.noise == pytest.approx(choice.option.noise, rel=0.35, abs=1e-5)
    assert plan.price.epsilon <= 1.0


@pytest.mark.parametrize("mechanism", ["l2", "laplace"])
def test_the_algorithm_of_the_paper_has_a_choice_too(mechanism: str) -> None:
    plan = planned(1e7, mechanism, algorithm="paper")
    assert plan.expected_rows == pytest.approx(choice_of(plan).option.size, rel=0.02)
    assert choice_of(plan).option.size < 0.1 * choice_of(plan).options[-1].size


@pytest.mark.parametrize("mechanism", DELTAS)
def test_an_open_number_of_clusters_has_a_choice_for_the_largest_number(mechanism: str) -> None:
    auto, fixed = (
        choice_of(planned(mechanism=mechanism, **k)).option.size for k in ({"n_clusters": "auto"}, {"n_clusters": 20})
    )
    assert auto == pytest.approx(fixed, rel=0.3)


def test_units_have_a_choice_too() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.repeat(np.arange(30_000), 2), rng.normal(size=(60_000, 3))])
    source = pais.source(pd.DataFrame(rows, columns=["person", "x", "y", "z"]), unit="person", max_rows_per_unit=2)
    settings = KMeansSettings(n_clusters=3, epsilon=8.0, radius=4.0, norms=norms_of(30_000))
    plan = pais.fit(source, settings, random_state=0).plan
    assert plan.unit is not None
    assert plan.expected_rows == pytest.approx(choice_of(plan).option.size, rel=0.02)
    assert choice_of(plan).option.size < 25_000


def test_predictions_fall_with_the_size_and_grow_with_the_clusters() -> None:
    options = choice_of(planned()).options
    for small, large in itertools.pairwise(options):
        assert small.sampling >= large.sampling
        assert small.noise >= large.noise
    sizes = [choice_of(planned(1e7, n_clusters=k)).option.size for k in (5, 20, 80)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 5 * LEAST_ROWS


def test_few_rows_are_enough_for_many() -> None:
    few, many = (choice_of(planned(n_rows)).option.size for n_rows in (1e7, 1e8))
    assert few == pytest.approx(many, rel=0.5)
    assert few < 25_000


def test_more_noise_needs_more_rows() -> None:
    sizes = [choice_of(planned(3e6, n_clusters=40, epsilon=epsilon)).option.size for epsilon in (0.1, 0.3, 3.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1.2 * sizes[2]


@pytest.mark.parametrize("mechanism", DELTAS)
def test_small_tables_keep_the_sample_without_extra_noise(mechanism: str) -> None:
    plan, free = (planned(8000, mechanism, sample_size=size) for size in (None, "free"))
    assert plan == free
    assert plan.sample_choice is None


@pytest.mark.parametrize(
    "changes", [{"sampling": "none"}, {"sampling": pais.UniformRule(rate=0.5)}, {"sample_size": 5e3}]
)
def test_a_size_that_is_stated_is_not_chosen(changes: dict[str, Any]) -> None:
    assert planned(**changes).sample_choice is None


def test_free_keeps_as_few_rows_as_possible_without_extra_noise() -> None:
    plan = planned(1e6, sample_size="free")
    profile = plan.mechanism.profile
    scale = pais.calibrate("constrained", profile, norms_of(1e6), epsilon=1.0, delta=1e-6)
    assert plan.sample_choice is None
    assert scale.noise == pytest.approx(1.0, rel=1e-6)
    assert plan.expected_rows == pytest.approx(scale.sample_size, rel=1e-6)
    assert plan.expected_rows is not None
    assert plan.expected_rows > 10 * choice_of(planned(1e6)).option.size


@pytest.mark.parametrize("sampling", ["constrained", "uniform", "coreset"])
def test_memory_bounds_the_sample(sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KMeansSettings.most_rows(1) == 2.0**26
    monkeypatch.setattr("pais.planning.settings.MOST_SAMPLE_NUMBERS", 16 * 12_000.0)
    plan = planned(3e5, n_clusters=100, sampling=sampling)
    assert plan.expected_rows is not None
    assert plan.expected_rows <= 12_000.0 * (1.0 + 1e-9)


@pytest.mark.parametrize("mechanism", DELTAS)
@pytest.mark.parametrize("flat", [1.0, 0.6, 0.3, 0.1])
def test_the_loss_that_the_prediction_assumes_is_that_of_the_rounds(mechanism: Any, flat: float) -> None:
    problem = ScheduleInputs(
        mechanism=mechanism,
        n_clusters=7,
        n_features=16,
        n_rows=1e5,
        radius=RADIUS,
        mean_square_norm=10.0,
        kept=1.0,
        epsilon=1.0,
        flat_share=flat,
    )
    rounds = schedule(problem, 3.0)
    predicted, share = rounds.predicted(), np.linspace(0.0, 1.0, 7)
    gaussian = mechanism == "gaussian"
    assumed = predicted.base + predicted.rest * (share**2 if gaussian else share)
    loss = rounds.mechanism(1.0).profile(1.0, share * RADIUS)
    np.testing.assert_allclose(np.sqrt(assumed) if gaussian else assumed, loss, rtol=1e-6)


def test_a_plan_with_a_choice_can_be_read_again_and_explains_it() -> None:
    plan = planned()
    assert pais.Plan.from_dict(plan.to_dict()) == plan
    text, option = plan.explain(), choice_of(plan).option
    chosen = next(line for line in text.splitlines() if line.strip().startswith("> "))
    assert f"{option.size:,.0f}" in chosen
    assert f"{100.0 * option.sampling:.3f} %" in chosen
    assert "the smallest of" in text
    assert plan.explain().count("> ") == 1
    described = plan.to_dict()
    described["sample_choice"]["chosen"] = 10**6
    with pytest.raises(ArgumentError, match="not one of its options"):
        pais.Plan.from_dict(described)


def test_a_text_other_than_free_is_refused() -> None:
    settings = KMeansSettings(n_clusters=3, epsilon=1.0)
    replace(settings, sample_size="free").require()
    with pytest.raises(ArgumentError, match="other than 'free'"):
        replace(settings, sample_size="few").require()  # type: ignore[arg-type]


def test_noise_does_not_hide_more_clusters_than_without_sampling() -> None:
    """Counts have noise of at most a small share of all rows; if all rows have more, the sample is the free one."""
    for n_rows in (3e5, 1e6, 1e7):
        for epsilon in (0.1, 0.3, 1.0, 3.0):
            plan, free = (planned(n_rows, epsilon=epsilon, sample_size=size) for size in (None, "free"))
            noise, least = (one.mechanism.rounds[one.mechanism.explore - 1].count_noise.scale for one in (plan, free))
            assert noise <= max(1.01 * least, 1.2 * _HIDDEN_SHARE * n_rows)
    assert planned(1e5, epsilon=0.1).sample_choice is None


@pytest.mark.parametrize(
    "change",
    [
        {"ball": pais.Ball(radius=RADIUS, order=1.0)},
        {"ball": pais.Ball(radius=7.0)},
        {"ball": 3.0},
        {"norms": None},
        {"algorithm": "paper"},
        {"algorithm": "fast"},
        {"n_iterations": 0, "algorithm": "paper", "mechanism": "l2", "delta": 0.0},
    ],
    ids=str,
)
def test_plans_for_other_balls_norms_and_algorithms_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(pais.PaisError):
        planned(1e5, **change)


@pytest.mark.parametrize("share", [0.1, 0.999, 0, -1])
def test_a_share_of_the_rows_is_no_sample_size(share: float) -> None:
    with pytest.raises(pais.ArgumentError, match="number of rows, at least 1"):
        planned(sample_size=share)


@pytest.mark.parametrize(("mechanism", "sampling"), SAMPLED)
def test_a_size_above_the_number_of_rows_keeps_all_rows(mechanism: str, sampling: str) -> None:
    plan = planned(1000, mechanism, sampling=sampling, sample_size=1500)
    every = planned(1000, mechanism, sampling="none")
    assert plan.expected_rows == pytest.approx(1000.0)
    assert plan.rule.probability(np.linspace(0.0, RADIUS, 5)).tolist() == [1.0] * 5
    assert plan.price.epsilon <= 1.0
    assert plan.epsilon_if_kept <= every.epsilon_if_kept * (1.0 + 1e-9)


def test_a_coreset_of_a_size_it_cannot_reach_is_as_large_as_it_can_be() -> None:
    plan = planned(1000, sampling="coreset", sample_size=999)
    assert plan.expected_rows is not None
    assert 500.0 < plan.expected_rows < 999.0
    assert plan.rule.probability(np.array([RADIUS]))[0] == pytest.approx(1.0)


@pytest.mark.parametrize("sampling", ["constrained", "uniform", "coreset"])
def test_a_size_above_the_noisy_number_of_rows_is_released_once_it_is_charged(sampling: str) -> None:
    rows, ledger = np.random.default_rng(0).normal(size=(1000, 3)), pais.Ledger(epsilon=1.0, delta=1e-6)
    model = pais.DPPCA(n_components=1, sampling=sampling, sample_size=1500, random_state=0, ledger=ledger).fit(rows)
    assert model.plan_.norms is not None
    assert model.plan_.expected_rows == pytest.approx(model.plan_.norms.n_rows)
    assert ledger.spent.epsilon <= 1.0
