"""A table about people with every kind of column, and the schema that states what is public about it."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd

from pais import Schema

N = 2000
SCHEMA = Schema.of(
    {
        "age": (18, 100),
        "income": "auto",
        "region": ["north", "south", "NA"],
        "size": [1, 2, 3],
        "premium": bool,
        "joined": ("2015-01-01", "2025-12-31"),
        "seen": (datetime.datetime(2020, 1, 1), datetime.datetime(2024, 1, 1)),
        "visits": 10,
    }
)
SCALES = {"income": (40_000.5, 17_000.25)}
RESOLVED = SCHEMA.resolved(SCALES)
#: The columns that have a public midpoint.
MIDPOINTS = Schema(SCHEMA.columns[:-1])
CARRIED = ("note",)


def people() -> pd.DataFrame:
    """Rows in and out of the bounds, with missing values in every column and columns that are not used."""
    rng = np.random.default_rng(4)
    days = rng.integers(0, 5000, N)
    seconds = rng.integers(0, 10 * 365 * 86400, N)
    frame = pd.DataFrame(
        {
            "id": np.arange(N),
            "age": rng.integers(10, 110, N),
            "income": np.round(np.exp(rng.normal(10.5, 1.0, N)), 2),
            "region": rng.choice(["north", "south", "NA", "west"], N),
            "size": rng.integers(0, 5, N),
            "premium": rng.random(N) < 0.3,
            "joined": np.datetime64("2014-06-01") + days.astype("timedelta64[D]"),
            "seen": np.datetime64("2016-01-01T00:00:00", "us") + seconds.astype("timedelta64[s]"),
            "visits": rng.poisson(4.0, N),
            "note": [f"r{row}" for row in range(N)],
        }
    )
    for name in frame.columns[1:-1]:
        frame[name] = frame[name].astype(nullable(frame[name].dtype))
        frame.loc[rng.random(N) < 0.02, name] = None
    frame.insert(1, "person", rng.permutation(np.arange(N) // 4))
    return frame


def nullable(kind: Any) -> Any:
    if kind.kind == "i":
        return "Int64"
    return "boolean" if kind.kind == "b" else kind
