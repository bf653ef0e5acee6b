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
from pais._base.randomness import BitSource, SeededBits
from pais.data.engines import Engine, Thinning, WeightedRows
from pais.data.units import Unit

N_ROWS = 50
_WHO = Unit(column="who")
_NORMS = pais.NormDistribution.from_histogram([0.0, 0.5, 1.0], [10.0, 10.0])
_SUM = pais.WeightedSum(noise=pais.laplace_noise(1.3 / CLAIMED))
_SUM_PLAN = pais.Plan(
    ball=pais.Ball(radius=1.0, order=1.0),
    rule=pais.ConstrainedRule(profile=_SUM.profile, radius=1.0, epsilon=CLAIMED),
    mechanism=_SUM,
    epsilon=CLAIMED,
    unit=_WHO,
)
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


def _kept(people: FloatArray, plan: pais.Plan, unit: str | None, bits: BitSource) -> WeightedRows:
    """A sample of the rows, as `pais.run` draws it."""
    engine = _opened(np.ascontiguousarray(people, dtype=np.float64).tobytes(), np.shape(people)[1], unit)
    return engine.thin(Thinning(ball=plan.ball, rule=plan.rule), bits)


def released_sum(people: FloatArray, generator: np.random.Generator, *, unit: str | None) -> FloatArray:
    """Noisy sum of a sample of the rows."""
    bits = SeededBits(generator)
    return _SUM.measure(_kept(people, _SUM_PLAN, unit, bits), _SUM_PLAN.ball, bits)


def released_centers(people: FloatArray, generator: np.random.Generator, *, unit: str | None) -> FloatArray:
    """Noisy count and center of a k-means with one cluster."""
    bits, plan = SeededBits(generator), _kmeans_plan()
    value = plan.mechanism.measure(_kept(people, plan, unit, bits), plan.ball, bits)
    assert isinstance(value, pais.KMeansValue)
    return np.append(value.noisy_counts[0], value.centers[0])


@cache
def _kmeans_plan() -> pais.Plan:
    settings = pais.KMeansSettings(n_clusters=1, epsilon=CLAIMED, mechanism="l2", sampling=pais.UniformRule(rate=1.0))
    return settings.plan(pais.Facts(ball=pais.Ball(radius=1.0, center=(0.0,)), norms=_NORMS, unit=_WHO), 1)


def people_sum(broken: bool) -> dict[str, Any]:
    """The others are at the center, so that sampling them adds nothing to the noise."""
    target = partial(released_sum, unit=None if broken else "who")
    pair = pais.NeighbourPair.of([1.0], np.zeros((3, 1)), name=f"person with {N_ROWS} rows beside 3 at the center")
    return {"target": target, "pair": pair, "epsilon": CLAIMED}


def people_centers(broken: bool) -> dict[str, Any]:
    target = partial(released_centers, unit=None if broken else "who")
    return {"target": target, "pair": _PAIR, "epsilon": CLAIMED}


class FiftyRows(pais.DPKMeans):
    """A fit on the rows of people, with the unit that the model states."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        frame = rows_of(X)
        return super().fit(frame.drop(columns="who") if self.unit is None else frame)


def people_fit(broken: bool) -> dict[str, Any]:
    stated = {"radius": 1.0, "center": (0.0,), "norms": _NORMS}
    return {"target": model(FiftyRows, unit=None if broken else "who", **stated), "pair": _PAIR}


PEOPLE_CASES = (
    Case(name="sum of rows, 50 of one person", arguments=people_sum, runs=4_000, right_runs=4_000, slow=True),
    Case(name="k-means of rows, 50 of one person", arguments=people_centers, runs=4_000, right_runs=4_000, slow=True),
    Case(name="whole fit: rows, 50 of one person", arguments=people_fit, runs=400, right_runs=200, slow=True),
)
