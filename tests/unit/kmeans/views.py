"""Views of made-up centers."""

from __future__ import annotations

import numpy as np

from pais.kmeans.view import NUMBER, Sizes, View


def view(values: object, **changes: object) -> View:
    array = np.asarray(values, dtype=np.float64)
    k, d = array.shape
    stated = {
        "names": tuple(f"c{j}" for j in range(d)),
        "kinds": (NUMBER,) * d,
        "values": array,
        "errors": None,
        "cells": np.ones((k, d), dtype=bool),
        "features": (True,) * d,
        "centers": (True,) * k,
        "doubts": ("",) * k,
        "sizes": Sizes(counts=np.arange(k, 0.0, -1.0), errors=np.ones(k)),
    }
    return View(**{**stated, **changes})  # type: ignore[arg-type]
