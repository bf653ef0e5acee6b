"""Invalid norms, weights, probabilities and losses are refused, and no error shows a value of a row."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import pais
from pais import (
    ArgumentError,
    AssumptionError,
    ConstrainedRule,
    CoresetRule,
    CustomProfile,
    FunctionRule,
    GaussianProfile,
    Joint,
    LinearProfile,
    NormDistribution,
    PowerProfile,
    amplified_delta,
    amplified_epsilon,
    constrained_weight,
    epsilon_at_delta,
    not_private_variance_optimal,
)
from tests.support.bad_values import CANARY, EVERY, GAUSSIAN, LINEAR, NO_NUMBERS, each_refused, refused

CORESET = CoresetRule(sample_size=10.0, n_rows=1000.0, mean_square_norm=1e7, radius=1e4)
NO_NORMS: dict[str, object] = {
    **NO_NUMBERS,
    "NaN": [CANARY, math.nan],
    "infinity": [CANARY, math.inf],
    "negative": [0.5, -CANARY],
    "a negative scalar": -CANARY,
    "a NaN scalar": math.nan,
    "float32 NaN": np.array([CANARY, math.nan], dtype=np.float32),
}
NO_WEIGHTS: dict[str, object] = {
    **NO_NUMBERS,
    "NaN": [CANARY, math.nan],
    "infinity": [CANARY, math.inf],
    "below one": [CANARY, math.nextafter(1.0, 0.0)],
    "zero": 0.0,
    "negative": [-CANARY],
}
NO_PROBABILITIES: dict[str, object] = {
    **NO_NUMBERS,
    "NaN": [0.5, math.nan],
    "zero": [0.5, 0.0],
    "negative": [-1e-300],
    "above one": [0.5, math.nextafter(1.0, 2.0)],
    "far above one": CANARY,
}
NO_DELTAS: dict[str, object] = {
    **NO_NUMBERS,
    "zero": 0.0,
    "one": [0.5, 1.0],
    "negative": -0.1,
    "above one": CANARY,
    "NaN": [math.nan],
}
TAKES_NORMS: dict[str, Callable[[object], object]] = {
    "constrained_weight": lambda bad: constrained_weight(LinearProfile(1e-6, 1e-6), bad, epsilon=1.0),
    "constrained_weight, Gaussian": lambda bad: constrained_weight(
        GaussianProfile(1e6, 1e6), bad, epsilon=1.0, delta=1e-6
    ),
    "uniform rule": lambda bad: EVERY.probability(bad),
    "coreset rule": lambda bad: CORESET.probability(bad),
    "function rule": lambda bad: FunctionRule(function=lambda z: 0.5 + 0.0 * z, radius=1e4, n_knots=4).probability(bad),
    "constrained rule": lambda bad: ConstrainedRule(
        profile=LinearProfile(1e-6, 1e-6), radius=1e4, epsilon=1.0, n_knots=4
    ).probability(bad),
    "profile": lambda bad: LINEAR(1.0, bad),
    "Gaussian profile": lambda bad: GAUSSIAN(1.0, bad),
    "custom profile": lambda bad: CustomProfile(lambda w, z: w * z)(1.0, bad),
    "NormDistribution": lambda bad: NormDistribution(norms=bad, masses=np.ones(2), radius=1e4),
    "from_private_norms": lambda bad: NormDistribution.from_private_norms(bad, radius=1e4),
    "from_histogram": lambda bad: NormDistribution.from_histogram(bad, [1.0]),
    "variance-optimal oracle": lambda bad: not_private_variance_optimal(bad, sample_size=1.0),
}


@pytest.mark.parametrize("call", TAKES_NORMS.values(), ids=TAKES_NORMS)
def test_bad_norms_are_refused(call: Callable[[object], object]) -> None:
    each_refused(ArgumentError, call, NO_NORMS, match="norm|edges")


@pytest.mark.parametrize("profile", [LINEAR, PowerProfile(0.1, 0.5, 2.0), GAUSSIAN, CustomProfile(lambda w, z: w * z)])
def test_bad_weights_are_refused(profile: pais.privacy.profiles.Profile) -> None:
    each_refused(ArgumentError, lambda bad: profile(bad, 1.0), NO_WEIGHTS, match="weight")


@pytest.mark.parametrize(
    "call",
    [
        lambda bad: amplified_epsilon(1.0, bad),
        lambda bad: amplified_delta(1.0, 0.5, bad),
        lambda bad: epsilon_at_delta(1e-6, 0.5, bad),
    ],
    ids=["amplified_epsilon", "amplified_delta", "epsilon_at_delta"],
)
def test_bad_probabilities_are_refused(call: Callable[[object], object]) -> None:
    each_refused(ArgumentError, call, NO_PROBABILITIES, match="probability")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda bad: amplified_epsilon(bad, 0.5), "epsilon"),
        (lambda bad: amplified_delta(bad, 0.5, 0.5), "epsilon"),
        (lambda bad: amplified_delta(1.0, bad, 0.5), "mu"),
        (lambda bad: epsilon_at_delta(1e-6, bad, 0.5), "mu"),
        (lambda bad: NormDistribution(norms=np.ones(2), masses=bad, radius=2.0), "masses"),
    ],
    ids=["amplified_epsilon", "amplified_delta epsilon", "amplified_delta mu", "epsilon_at_delta mu", "masses"],
)
def test_bad_losses_are_refused(call: Callable[[object], object], name: str) -> None:
    each_refused(ArgumentError, call, NO_NORMS, match=name)


def test_bad_deltas_of_a_gaussian_are_refused() -> None:
    each_refused(ArgumentError, lambda bad: epsilon_at_delta(bad, 0.5, 0.5), NO_DELTAS, match="delta")


@pytest.mark.parametrize(
    "call",
    [
        lambda: LINEAR([CANARY, CANARY], [CANARY, CANARY, CANARY]),
        lambda: GAUSSIAN([CANARY, CANARY], [CANARY, CANARY, CANARY]),
        lambda: amplified_epsilon([CANARY, CANARY], [0.1, 0.2, 0.3]),
        lambda: amplified_delta([CANARY, CANARY], 1.0, [0.1, 0.2, 0.3]),
        lambda: epsilon_at_delta([0.1, 0.2, 0.3], [CANARY, CANARY], 0.1),
        lambda: NormDistribution(norms=np.full(3, CANARY), masses=np.ones(2), radius=1e4),
        lambda: NormDistribution.from_histogram([0.0, CANARY], [1.0, 2.0]),
    ],
    ids=["linear", "gaussian", "amplified_epsilon", "amplified_delta", "epsilon_at_delta", "masses", "histogram"],
)
def test_arrays_that_do_not_fit_together_are_refused(call: Callable[[], object]) -> None:
    # Behind it numpy's own error would tell the sizes, which are numbers of rows.
    assert refused(ArgumentError, call).__context__ is None


def test_empty_input() -> None:
    refused(ArgumentError, lambda: NormDistribution(norms=np.array([]), masses=np.array([]), radius=1.0), match="empty")
    refused(ArgumentError, lambda: NormDistribution.from_private_norms([], radius=1.0), match="empty")
    refused(ArgumentError, lambda: not_private_variance_optimal([], sample_size=1.0), match="empty")
    refused(ArgumentError, lambda: NormDistribution.from_histogram([0.0], []), match="edges")
    refused(ArgumentError, lambda: NormDistribution.from_histogram([], []), match="edges")
    refused(ArgumentError, lambda: Joint(parts=()), match="parts")
    for profile, delta in [(LINEAR, 0.0), (PowerProfile(0.1, 0.1, 2.0), 0.0), (GAUSSIAN, 1e-6)]:
        assert constrained_weight(profile, [], epsilon=3.0, delta=delta).shape == (0,)
    assert amplified_epsilon([], []).shape == (0,)
    assert epsilon_at_delta([], [], []).shape == (0,)


def test_bad_histograms_are_refused() -> None:
    for edges in ([1.0, 0.0], [0.0, 0.0], [0.0, CANARY, CANARY]):
        counts = [CANARY] * (len(edges) - 1)
        refused(ArgumentError, lambda e=edges, c=counts: NormDistribution.from_histogram(e, c), match="edges")
    for count in (math.nan, math.inf, -math.inf):
        refused(ArgumentError, lambda c=count: NormDistribution.from_histogram([0.0, 1.0, CANARY], [CANARY, c]))
    # Noise makes counts negative, and all of them may be.
    assert NormDistribution.from_histogram([0.0, 1.0, 2.0], [-3.0, 5.0]).n_rows == 5.0
    refused(ArgumentError, lambda: NormDistribution.from_histogram([0.0, 1.0, 2.0], [-CANARY, -5.0]), match="masses")
    refused(ArgumentError, lambda: NormDistribution(norms=np.ones(2), masses=np.zeros(2), radius=1.0), match="masses")


@pytest.mark.parametrize(
    "quantile",
    [lambda u: "no number", lambda u: u * math.nan, lambda u: -u, lambda u: u * 1j, lambda u: None, 3.0],
    ids=["a string", "NaN", "negative", "complex", "None", "no function"],
)
def test_invalid_quantile_function_is_refused(quantile: Callable[[object], object]) -> None:
    refused(ArgumentError, lambda: NormDistribution.from_quantiles(quantile, n_rows=10.0, radius=1.0))


@pytest.mark.parametrize(
    "function",
    [
        lambda z: 0.0 * z,
        lambda z: 1.0 + 1e-9 + 0.0 * z,
        lambda z: -0.5 + 0.0 * z,
        lambda z: z * math.nan,
        lambda z: 0.5,
        lambda z: z[:-1] * 0.0 + 0.5,
        lambda z: "no number",
        lambda z: None,
        lambda z: [[1.0], [1.0, 2.0]],
        lambda z: 0.5 + 0.0 * z + 0.1j,
    ],
    ids=[
        "zero",
        "above one",
        "negative",
        "NaN",
        "one number",
        "too short",
        "a string",
        "None",
        "ragged",
        "complex",
    ],
)
def test_function_without_probabilities_makes_no_rule(function: Callable[[object], object]) -> None:
    refused(ArgumentError, lambda: FunctionRule(function=function, radius=1.0, n_knots=8), match="function")


@pytest.mark.parametrize(
    "function",
    [
        lambda w, z: -w,
        lambda w, z: w * math.nan,
        lambda w, z: 0.5,
        lambda w, z: "no number",
        lambda w, z: None,
        lambda w, z: w * 1j,
        lambda w, z: [[1.0], [1.0, 2.0]],
    ],
    ids=["negative", "NaN", "one number", "a string", "None", "complex", "ragged"],
)
def test_function_without_losses_is_refused_when_called(function: Callable[[object, object], object]) -> None:
    profile = CustomProfile(function)
    for call in (
        lambda: profile([1.0, 2.0], [CANARY, CANARY]),
        lambda: profile.check(radius=1.0, epsilon=1.0),
        lambda: constrained_weight(profile, [CANARY, 0.5], epsilon=1.0),
        lambda: ConstrainedRule(profile=profile, radius=1.0, epsilon=1.0),
    ):
        error = refused(AssumptionError, call, match="function")
        assert "function" in str(error)
