"""Intervals of statistics hold the values without noise as often as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import pais

RUNS = 700
# Among thousands of runs, noise makes some look as if values were beyond the bounds.
pytestmark = pytest.mark.filterwarnings("ignore:about .* of the values of .* are outside the bounds")

N = 1500
WIDE = {f"x{j}": (0.0, 1.0) for j in range(12)}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.beta(2.0, 4.0, (N, 12)), columns=list(WIDE))
    table["x1"] = (table["x1"] < 0.1).astype(float)
    table["group"] = rng.choice(["a", "b"], N, p=[0.8, 0.2])
    return table


TABLE = frame()
BINS = np.linspace(0.0, 1.0, 6)


def shares_within(name: str, truth: Any, runs: int, level: float = 0.95, **options: Any) -> NDArray[np.float64]:
    """How often the interval of each value holds its true value."""
    function, hits = getattr(pais, name), np.zeros(np.size(truth))
    for seed in range(runs):
        low, high = function(TABLE, random_state=seed, **options).bounds(level)
        hits += (low.ravel() <= np.ravel(truth)) & (np.ravel(truth) <= high.ravel())
    return hits / runs


PURE = {
    "count": (N, {}),
    "sum": (TABLE["x0"].sum(), {"columns": {"x0": (0, 1)}}),
    "mean": (TABLE["x0"].mean(), {"columns": {"x0": (0, 1)}}),
    "variance": (TABLE["x0"].var(), {"columns": {"x0": (0, 1)}}),
    "histogram": (np.histogram(TABLE["x0"], BINS)[0], {"columns": {"x0": (0, 1)}, "bins": 5}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PURE)
def test_intervals_with_pure_noise(name: str) -> None:
    truth, options = PURE[name]
    shares = shares_within(name, truth, RUNS, epsilon=0.25, delta=0, **options)
    assert np.all((shares >= 0.93) & (shares <= 0.97)), shares


GAUSSIAN = {
    "sum": TABLE[list(WIDE)].sum(),
    "mean": TABLE[list(WIDE)].mean(),
    "variance": TABLE[list(WIDE)].var(),
    "histogram": np.concatenate([np.histogram(TABLE[name], BINS)[0] for name in WIDE]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GAUSSIAN)
def test_intervals_with_gaussian_noise(name: str) -> None:
    """Each run has 12 columns with independent noise, so 100 runs are more than 1,000 intervals."""
    options = {"bins": 5} if name == "histogram" else {}
    shares = shares_within(name, GAUSSIAN[name], 100, epsilon=1.0, delta=1e-5, columns=WIDE, **options)
    # Bins without a cell are within their intervals more often, since counts are not negative.
    positive = np.ravel(GAUSSIAN[name]) > 0.0
    assert 0.93 <= shares[positive].mean() <= 0.97, shares


def test_intervals_at_another_level_in_groups() -> None:
    columns, by = {"x0": (0, 1), "x1": (0, 1)}, {"group": ["a", "b"]}
    truth = TABLE.groupby("group")[["x0", "x1"]].mean()
    shares = shares_within("mean", truth, 300, level=0.8, epsilon=0.5, columns=columns, by=by)
    assert 0.76 <= shares.mean() <= 0.84, shares


def test_intervals_of_samples_hold_the_value_at_least_as_often() -> None:
    options = {"columns": {"x0": (0, 1)}, "sampling": pais.UniformRule(rate=0.2)}
    assert shares_within("mean", TABLE["x0"].mean(), 200, **options) >= 0.93


def test_standard_errors_are_those_of_the_noise() -> None:
    mean = pais.mean(TABLE, columns={"x0": (0, 1)}, epsilon=0.5, random_state=0)
    values = [pais.mean(TABLE, columns={"x0": (0, 1)}, epsilon=0.5, random_state=seed).value for seed in range(400)]
    assert mean.standard_error == pytest.approx(np.std(values), rel=0.15)
    assert pais.count(TABLE, epsilon=0.5, random_state=0).standard_error == pytest.approx(
        pais.GeometricNoise(scale=2.0).deviation(1), rel=2e-3
    )
    place = TABLE["x0"].mean()
    # The numbers of values beyond the bounds take 3 % of the price.
    expected = 1.03 * np.sqrt(2.0) / 0.5 * np.hypot(place, 1.0 - place) / N
    assert mean.standard_error == pytest.approx(expected, rel=0.02)
