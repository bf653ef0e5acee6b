"""A survey with a price of choice."""

from __future__ import annotations

from typing import Any

import numpy as np

import pais

BALL = pais.Ball(radius=1.0)
NORMS = pais.NormDistribution(norms=np.array([0.5]), masses=np.array([1000.0]), radius=1.0)


def survey(**changes: Any) -> pais.Survey:
    return pais.Survey(**{"ball": BALL, "norms": NORMS, "epsilon": 0.1, "secure_randomness": True, **changes})
