"""Rows and stated facts for the tests of the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais import DPKMeans

NAMES = ["first", "second", "third"]
# Multiples of 1/64, which float32 holds exactly.
ROWS = np.round(np.random.default_rng(0).normal(size=(3000, 3)) * 64) / 64
NORMS = pais.NormDistribution.from_quantiles(lambda level: 4.0 * level**0.3, n_rows=3000, radius=4.0)
STATED: dict[str, Any] = {"radius": 4.0, "norms": NORMS}
MECHANISMS = {"gaussian": 1e-6, "l2": 0.0, "laplace": 0.0}
# These tests look at the numbers; tests/unit/privacy/test_delta.py looks at the warning.
weak_epsilon = pytest.mark.filterwarnings("ignore:epsilon=.* is a weak guarantee:UserWarning")
SAMPLINGS = ["constrained", "coreset", "uniform", "none"]
#: Every mechanism and every sampling rule, each with the usual one of the others.
EACH_ONCE = [*(("gaussian", sampling) for sampling in SAMPLINGS), ("l2", "constrained"), ("laplace", "constrained")]


def fitted(X: Any = ROWS, **changes: Any) -> DPKMeans:
    settings: dict[str, Any] = {"n_clusters": 3, "random_state": 0, **changes}
    return DPKMeans(**settings).fit(X)


def arrow() -> pa.Table:
    return pa.table({name: ROWS[:, index] for index, name in enumerate(NAMES)})
