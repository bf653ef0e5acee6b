"""Settings of a logistic regression: what they refuse, the shares of the releases, the radius and the rounds."""

from __future__ import annotations

import math
from typing import Any

import pytest

import pais
from pais import Ball, GaussianNoise, LogisticRounds, NormDistribution
from pais.data.schema import Schema
from pais.logistic.planning import LogisticSettings, classification_schema
from pais.privacy.amplification import largest_shift

NORMS = NormDistribution.from_histogram([0.0, 1.0, 2.0], [20_000, 30_000])


def planned(n_features: int = 8, **changes: Any) -> pais.Plan:
    settings = LogisticSettings(**{"epsilon": 1.0, "delta": 1e-6, **changes})
    return settings.release_plan(ball=Ball(radius=2.0), norms=NORMS, n_features=n_features)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": "laplace", "delta": 0.0}, "not available for logistic regression"),
        ({"n_classes": 1}, "at least 2"),
        ({"n_classes": 2.0}, "at least 2"),
    ],
)
def test_settings_that_cannot_be_met_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(pais.ArgumentError, match=message):
        LogisticSettings(**{"epsilon": 1.0, **changes}).require()


def test_classes_without_a_feature_are_refused() -> None:
    with pytest.raises(pais.ArgumentError, match="no feature beside the classes"):
        planned(n_features=2)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_plan_costs_its_epsilon_and_hardly_less(n_classes: int, epsilon: float) -> None:
    plan = planned(n_classes=n_classes, epsilon=epsilon, sampling="none")
    assert plan.price.epsilon <= epsilon
    worst = pais.worst_case(plan.rule, plan.mechanism.profile, radius=2.0, delta=1e-6)
    assert 0.999 * epsilon < worst.upper <= epsilon


def test_less_noise_means_more_rounds_and_later_rounds_have_less() -> None:
    mechanisms = [planned(epsilon=epsilon).mechanism for epsilon in (0.1, 1.0)]
    for mechanism in mechanisms:
        assert isinstance(mechanism, LogisticRounds)
        scales = [noise.scale for noise in mechanism.rounds]
        assert scales == sorted(scales, reverse=True)
    assert 12 <= len(mechanisms[0].rounds) < len(mechanisms[1].rounds) <= 48  # type: ignore[attr-defined]


def test_reach_grows_with_epsilon_within_its_limits() -> None:
    reaches = [planned(epsilon=epsilon).mechanism.reach for epsilon in (1e-4, 0.5, 1.0, 3.0)]  # type: ignore[attr-defined]
    assert reaches == sorted(reaches)
    assert reaches[0] == 0.5
    # The noise of 7 coefficients and 50,000 rows.
    noise = 7.0 / 50_000 / largest_shift(1.0, 1e-6)
    assert reaches[2] == pytest.approx((0.045 / noise) ** 0.75, rel=0.1)


def test_target_without_classes_is_refused_and_booleans_are_classes() -> None:
    with pytest.raises(pais.ArgumentError, match="classes of the target 'y'"):
        classification_schema(Schema.of({"x": (0, 1), "y": (0, 1)}))
    assert classification_schema(Schema.of({"x": "auto", "y": bool})).labels == ("x", "y=False", "y=True")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_classes": 1}, "two classes"),
        ({"rounds": ()}, "a round"),
        ({"n_features": 2}, "a feature"),
        ({"groups": ((0, 9),)}, "groups names a column"),
        ({"rounds": (1.0,)}, "noise"),
        ({"curvature_noise": 1.0}, "noise"),
        ({"reach": 0.0}, "reach"),
        ({"radius": -1.0}, "radius"),
        ({"largest": math.nan}, "largest"),
    ],
)
def test_a_mechanism_from_a_damaged_file_is_refused(changes: dict[str, Any], message: str) -> None:
    noise = GaussianNoise(scale=1.0)
    facts: dict[str, Any] = {
        "n_features": 5,
        "n_classes": 2,
        "mean_noise": noise,
        "moment_noise": noise,
        "curvature_noise": noise,
        "rounds": (noise,),
        "radius": 1.0,
        "n_rows": 10.0,
        "mean_square_norm": 0.5,
        "largest": 1.0,
    }
    with pytest.raises(pais.ArgumentError, match=message):
        LogisticRounds(**{**facts, **changes})
