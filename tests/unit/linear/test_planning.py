"""Settings of a linear regression: weight of the target, radius and price."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pais
from pais import NormDistribution, Schema
from pais.data.kinds import Auto
from pais.linear.planning import LinearSettings, regression_schema
from pais.planning.facts import Facts, Survey

COLUMNS: dict[str, Any] = {"age": (18, 100), "region": ["north", "south"], "income": "auto", "spent": (0, 100)}


def surveyed(n_rows: float, **changes: Any) -> Facts:
    norms = NormDistribution.from_quantiles(lambda level: 1.0 + level, n_rows=n_rows, radius=2.0)
    settings: dict[str, Any] = {"epsilon": math.inf, "shift": 0.02, "quantile_asked": False, **changes}
    survey = Survey(ball=pais.Ball(radius=2.0), norms=norms, secure_randomness=True, **settings)
    return Facts.from_own(survey)


def radius_for(n_rows: float, n_features: int, **settings: Any) -> float:
    facts, _ = LinearSettings(epsilon=1.0, delta=1e-6, **settings)._with_radius(surveyed(n_rows), n_features)
    return math.sqrt(facts.ball.radius**2 - facts.ball.constant**2)


def test_the_radius_grows_as_the_noise_matters_less() -> None:
    radii = [radius_for(n_rows, 11) for n_rows in (300, 1000, 3000, 10_000, 100_000, 1_000_000)]
    assert radii == sorted(radii)
    assert radii[0] < 1.1
    assert radii[-1] > 1.99
    assert radius_for(800, 11, quantile=0.5) == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize("n_rows", [1000, 3000, 10_000])
def test_the_radius_has_the_least_predicted_error(n_rows: int) -> None:
    """Row by row: the mean square after clipping, and the variance of the weights by squared norm."""
    d, shift = 10, pais.privacy.amplification.largest_shift(1.0, 1e-6)
    # Without facts about the columns, all are "auto": 0.03 for each feature.
    squares = np.square(1.0 + (np.arange(2000) + 0.5) / 2000) + 0.03 * d

    def error(radius: float) -> float:
        edge = radius**2 + 0.03 * d
        weights = np.minimum(1.0, edge / squares)
        mean = np.average(weights, weights=squares)
        spread = np.average(np.square(weights - mean), weights=squares) / mean**2
        noise = (d + 1) * edge / (n_rows * shift * np.mean(weights * squares))
        return float(0.5 * 1.5 * 7.0 * noise**2 + 0.25**2 * 0.5 * spread)

    radii = np.linspace(1.0, 2.0, 501)
    best = radii[np.argmin([error(radius) for radius in radii])]
    assert radius_for(n_rows, d + 1) == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize(("epsilon", "keeps_all"), [(0.05, False), (1.0, True)])
def test_all_rows_are_used_if_a_sample_would_add_more_error_than_the_noise(epsilon: float, keeps_all: bool) -> None:
    settings = LinearSettings(epsilon=epsilon, delta=1e-6, quantile=0.99, center=(0.0,) * 11)
    plan = settings.plan(surveyed(30_000, shift=settings.survey_noise.shift), 11)
    assert plan.norms is not None
    share = plan.norms.expected_size(plan.rule) / plan.norms.n_rows
    assert (share > 0.99) == keeps_all
    # A stated size is kept.
    sampled = replace(settings, sample_size=3000.0).plan(surveyed(30_000, shift=settings.survey_noise.shift), 11)
    assert sampled.norms is not None
    assert sampled.norms.expected_size(sampled.rule) <= 3000.0


def test_a_schema_for_regression_standardizes_and_gives_the_target_a_factor() -> None:
    schema = regression_schema(Schema.of(COLUMNS))
    assert [column.name for column in schema.columns] == list(COLUMNS)
    assert schema["age"] == Schema.of(COLUMNS)["age"]
    assert schema["income"] == Auto(name="income", standardized=True)
    # Four coordinates are features.
    assert schema["spent"].factor == pytest.approx(math.sqrt(4.0 + 0.3 * 4.0))  # type: ignore[attr-defined]  # bounds have one
    auto = regression_schema(Schema.of({**COLUMNS, "spent": "auto"}))
    assert auto["spent"].factor == pytest.approx(math.sqrt(4.0 + 0.3 * 4.0) / 2.0)  # type: ignore[attr-defined]
    with pytest.raises(pais.ArgumentError, match="not a column of numbers"):
        regression_schema(Schema.of({"age": (18, 100), "premium": bool}))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("sampling", ["constrained", "coreset", "uniform", "none"])
def test_survey_and_release_together_cost_at_most_epsilon(epsilon: float, sampling: Any) -> None:
    settings = LinearSettings(epsilon=epsilon, delta=1e-6, sampling=sampling, open_columns=3, center=(0.0,) * 4)
    facts = surveyed(50_000, shift=settings.survey_noise.shift)
    plan = settings.plan(facts, 4)
    assert plan.price.epsilon <= epsilon
    assert plan.certified().price.delta <= 1e-6


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"alpha": "ridge"}, "alpha"), ({"alpha": -1.0}, "alpha"), ({"mechanism": "laplace"}, "mechanism")],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(pais.PaisError, match=message):
        LinearSettings(epsilon=1.0, **changes).require()


def test_rows_of_the_plan_keep_their_intercept() -> None:
    plan = LinearSettings(epsilon=1.0, delta=1e-6).plan(surveyed(50_000), 3)
    assert plan.ball.constant == pytest.approx(math.sqrt(2 * 0.03))
    rows = plan.ball.clip(np.array([[1.0, 5.0, 9.0]]))
    constant = plan.ball.constants(rows)[0]
    assert constant / plan.ball.constant == pytest.approx(rows[0, 0], rel=1e-9)


def test_a_survey_of_many_columns_or_at_a_small_epsilon_has_a_larger_share() -> None:
    """Up to a bound, and only where a count of cells would drown; the share follows from stated values alone."""

    def share(n_columns: int, epsilon: float) -> float:
        return LinearSettings(
            epsilon=epsilon, delta=1e-6, radius=3.0, center=(0.0,), open_columns=n_columns
        ).survey_shift_share

    usual = share(20, 1.0)
    assert share(60, 0.1) == share(5, 0.1) == share(1000, 1.0) == usual
    assert usual < share(80, 0.1) < share(100, 0.1) < share(10_000, 0.1) < 0.6
    assert share(10_000, 0.1) == share(20, 0.01)
    assert share(0, 0.01) < usual
