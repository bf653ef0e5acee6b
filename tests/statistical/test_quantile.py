"""Coverage of the intervals of quantiles, and errors that stay near those of the noise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import pais

N_RUNS = 600


def values_of(kind: str, n: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(7)
    if kind == "normal":
        return rng.normal(50.0, 10.0, n)
    if kind == "whole":
        return np.rint(rng.normal(50.0, 3.0, n))
    return np.where(rng.random(n) < 0.6, 0.0, rng.exponential(30.0, n))


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "level"), [("normal", 0.9), ("whole", 0.5), ("mostly zero", 0.9)])
def test_intervals_hold_the_quantile_at_least_as_often_as_they_say(kind: str, level: float) -> None:
    values = np.clip(values_of(kind, 4000), 0.0, 100.0)
    truth = np.quantile(values, level, method="inverted_cdf")
    held, narrow = 0, 0
    for seed in range(N_RUNS):
        result = pais.quantile(values, columns=(0, 100), q=level, step=0.1, epsilon=1.0, random_state=seed)
        low, high = result.interval(0.95)
        held += low <= truth + 0.1 and high >= truth - 0.1
        narrow += high - low < 60.0
    assert held >= 0.93 * N_RUNS
    # An interval that is always the whole range would hold the quantile too.
    assert narrow >= 0.9 * N_RUNS


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("level", "rows"), [(0.5, 1.7), (0.9, 3.0)])
def test_error_in_rows_is_that_of_permute_and_flip(level: float, rows: float) -> None:
    values = np.sort(values_of("normal", 5000))
    runs = [
        pais.quantile(values, columns=(0, 100), q=level, epsilon=1.0, random_state=seed).value for seed in range(200)
    ]
    ranks = np.searchsorted(values, runs)
    error = np.sqrt(np.mean(np.square(ranks - level * values.size)))
    assert 0.4 * rows < error < 1.2 * rows
