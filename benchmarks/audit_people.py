"""A person with 50 rows, present or absent: the same release with `unit`, and without it.

NOT PRIVATE, on purpose, where `unit` is left out. A row of the audited tables is a person. The person at the radius
owns 50 rows of the table that is released, all others own one.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

import pais
from benchmarks.audit_cases import CLAIMED, Case
from benchmarks.audit_fits import model
from pais._base.numerics import FloatArray
from pais._base.randomness import SeededBits
from pais.data.engines import Engine

N_ROWS = 50
_BALL = pais.Ball(radius=1.0, order=1.0)
_MEAN = pais.WeightedMean(count_noise=pais.laplace_noise(4.0 / CLAIMED), sum_noise=pais.laplace_noise(4.0 / CLAIMED))
_RULE = pais.ConstrainedRule(profile=_MEAN.profile, radius=1.0, epsilon=CLAIMED)
_PAIR = pais.NeighbourPair.of([1.0], np.full((20, 1), -0.5), name=f"person with {N_ROWS} rows beside 20 with one")


def rows_of(people: FloatArray) -> pd.DataFrame:
    """The rows that these people own."""
    heavy = np.asarray(people)[:, 0] > 0.9
    who = np.repeat(np.arange(len(people)), np.where(heavy, N_ROWS, 1))
    frame = pd.DataFrame(np.asarray(people)[who], columns=[f"x{column}" for column in range(np.shape(people)[1])])
    return frame.assign(who=who)


@cache
def _opened(content: bytes, width: int, unit: str | None) -> Engine:
    frame = rows_of(np.frombuffer(content).reshape(-1, width))
    return pais.source(frame, columns=[name for name in frame if name != "who"], unit=unit)


def released_sum(people: FloatArray, generator: np.random.Generator, *, unit: str | None) -> FloatArray:
    """Noisy count and sum of a sample of the rows."""
    engine = _opened(np.ascontiguousarray(people, dtype=np.float64).tobytes(), np.shape(people)[1], unit)
    bits: Any = SeededBits(generator)
    value: Any = pais.release(
        _MEAN, pais.sample(engine, ball=_BALL, rule=_RULE, random_state=bits), random_state=bits
    ).value
    return np.append(value.noisy_sum, value.noisy_count)


def people_sum(broken: bool) -> dict[str, Any]:
    unit = None if broken else "who"
    return {"target": partial(released_sum, unit=unit), "pair": _PAIR, "epsilon": CLAIMED}


class FiftyRows(pais.DPKMeans):
    """A fit on the rows of people, with the unit that the model states."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        frame = rows_of(X)
        return super().fit(frame.drop(columns="who") if self.unit is None else frame)


def people_fit(broken: bool) -> dict[str, Any]:
    norms = pais.NormDistribution.from_histogram([0.0, 0.5, 1.0], [10.0, 10.0])
    stated = {"radius": 1.0, "center": (0.0,), "norms": norms}
    return {"target": model(FiftyRows, unit=None if broken else "who", **stated), "pair": _PAIR}


PEOPLE_CASES = (
    Case(
        name="person with 50 rows, mean without a unit", arguments=people_sum, runs=4_000, right_runs=4_000, slow=True
    ),
    Case(
        name="whole fit: person with 50 rows, without a unit", arguments=people_fit, runs=400, right_runs=200, slow=True
    ),
)
