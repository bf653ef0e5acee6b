"""Units are kept with the probability of their norm, as a whole, and independently of each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

import pais
from pais import Ball, CoresetRule
from pais._base.randomness import bit_source
from pais.data.engines.base import Sampling

pytestmark = pytest.mark.statistical

Bools = NDArray[np.bool_]
DRAWS = 2000
RULE = CoresetRule(sample_size=10.0, n_rows=40.0, mean_square_norm=2.0, radius=2.0)
BALL = Ball(radius=2.0)
N_UNITS = 30


def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(N_UNITS), rng.integers(1, 12, N_UNITS))
    return pd.DataFrame({"x": rng.normal(size=len(who)), "y": rng.normal(size=len(who)), "who": who})


FRAME = people()
NORMS = np.sqrt(
    pd.Series(np.minimum(np.hypot(FRAME["x"], FRAME["y"]), 2.0) ** 2).groupby(FRAME["who"]).mean().to_numpy()
)


def samples(*, unit: str | None, seeded: bool) -> Bools:
    """For each of many samples, whether it has each row."""
    engine = pais.source(FRAME.assign(row=np.arange(len(FRAME))), columns=["x", "y"], carry=["row"], unit=unit)
    found = np.zeros((DRAWS, len(FRAME)), dtype=bool)
    for number in range(DRAWS):
        kept = engine.sample(Sampling(ball=BALL, rule=RULE), bit_source(number if seeded else None))
        assert kept.carried is not None
        found[number, kept.carried["row"].to_numpy()] = True
    return found


def whole(found: Bools) -> bool:
    """Whether all rows of a unit are kept, or none."""
    first = np.searchsorted(FRAME["who"], FRAME["who"])
    return bool(np.array_equal(found, found[:, first]))


def p_value(found: Bools, probability: NDArray[np.float64]) -> float:
    """Chi-square test of the frequencies of units, by their first rows."""
    first = np.searchsorted(FRAME["who"], np.arange(N_UNITS))
    kept = found[:, first].sum(axis=0)
    score = np.square(kept - DRAWS * probability) / (DRAWS * probability * (1.0 - probability))
    return float(stats.chi2.sf(score.sum(), N_UNITS))


@pytest.mark.parametrize("seeded", [False, True])
def test_units_are_kept_as_a_whole_with_the_probability_of_their_norm(seeded: bool) -> None:
    found = samples(unit="who", seeded=seeded)
    probability = RULE.probability(NORMS)
    assert whole(found)
    assert p_value(found, probability) > 1e-6
    # The test rejects probabilities that are ten percent off, and those of a mean of norms.
    assert p_value(found, 0.9 * probability) < 1e-6
    size = np.minimum(np.hypot(FRAME["x"], FRAME["y"]), 2.0)
    means = size.groupby(FRAME["who"]).mean().to_numpy()
    assert p_value(found, RULE.probability(means)) < 1e-6
    # Units are independent: the covariance of any two is within its noise.
    first = np.searchsorted(FRAME["who"], np.arange(N_UNITS))
    correlation = np.corrcoef(found[:, first].T) - np.eye(N_UNITS)
    assert np.abs(correlation).max() < 5.5 / np.sqrt(DRAWS)
