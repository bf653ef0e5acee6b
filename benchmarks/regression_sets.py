"""The data of the regression benchmark: seven sets of the AdaSSP paper, and a column of each larger set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from experiments.paper.formats import read_parquet

FloatArray = NDArray[np.float64]
Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class SmallSet:
    """A set of the AdaSSP paper: what is stated about its columns, and the published error of AdaSSP by epsilon.

    The errors are mean squared errors at delta = 1e-6.
    The bounds are round numbers near the 5 % and 95 % quantiles of a feature, and near the ends of a target. They
    were read off the data; someone who knows the quantities could state them. Cells beyond are clipped.
    """

    name: str
    published: dict[float, float]
    target: Bounds
    features: tuple[Bounds, ...]

    @property
    def columns(self) -> dict[str, Bounds]:
        return {**{f"x{place}": bounds for place, bounds in enumerate(self.features)}, "y": self.target}

    def load(self, directory: Path) -> tuple[FloatArray, FloatArray]:
        table = pq.read_table(directory / "regression" / f"{self.name}.parquet")
        columns = [table.column(name).to_numpy().astype(np.float64) for name in table.column_names if name != "y"]
        return np.column_stack(columns), table.column("y").to_numpy().astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class LargeSet:
    """A larger set, the column that is predicted from the others, and the R^2 to reach at epsilon = 0.1."""

    name: str
    column: int
    goal: float

    def load(self, directory: Path) -> tuple[FloatArray, FloatArray]:
        rows = read_parquet(directory / f"{self.name}.parquet")
        return np.delete(rows, self.column, axis=1), rows[:, self.column]


LARGE = (
    LargeSet(name="song-sample", column=0, goal=0.60),
    LargeSet(name="kdd-protein", column=10, goal=0.86),
    LargeSet(name="covertype", column=0, goal=0.755),
)

SMALL = (
    SmallSet(
        name="airfoil",
        published={0.1: 0.0912, 1.0: 0.0588},
        target=(100, 145),
        features=((0, 10_000), (0, 20), (0, 0.35), (30, 75), (0, 0.045)),
    ),
    SmallSet(
        name="parkinsons",
        published={0.1: 0.1543, 1.0: 0.1330},
        target=(5, 55),
        features=(
            *((0, 45), (45, 80), (0, 1), (0, 200), (0, 0.015), (1e-05, 0.00011), (0.0005, 0.0075), (0.001, 0.007)),
            *((0, 0.025), (0.01, 0.075), (0.1, 0.7), (0.005, 0.04), (0.005, 0.045), (0.005, 0.065), (0, 0.15)),
            *((0, 0.09), (10, 30), (0.35, 0.75), (0.5, 0.8), (0.05, 0.4)),
        ),
    ),
    SmallSet(
        name="pumadyn32nm",
        published={0.1: 0.0957, 1.0: 0.0955},
        target=(-3.5, 3.5),
        features=(*((-2, 2),) * 17, *((0.5, 4),) * 15),
    ),
    SmallSet(
        name="skillcraft",
        published={0.1: 0.0381, 1.0: 0.0243},
        target=(1.5, 5.5),
        features=(
            *((500, 9000), (1.5, 6), (15, 30), (0, 40), (0, 2000), (50, 250), (0, 0.015), (5e-05, 0.00075), (0, 8)),
            *((0, 0.0004), (0, 0.0015), (0.0015, 0.0055), (35, 100), (3, 8), (10, 35), (0, 0.0025), (3, 10)),
            *((0, 0.00035), (0, 0.00065)),
        ),
    ),
    SmallSet(
        name="sml",
        published={0.1: 0.1379, 1.0: 0.0405},
        target=(25, 65),
        features=(
            *((0, 30), (3, 4), (2011, 2013), (0, 25), (0, 45), (10, 30), (10, 30), (5, 25), (190, 220), (190, 225)),
            *((30, 60), (10, 85), (0, 150), (-1, 1), (0, 650), (0, 4), (0, 85_000), (0, 80_000), (0, 90_000)),
            *((-50, 850), (-1, 1), (-1, 1), (-1, 1), (10, 30), (30, 75), (1, 7)),
        ),
    ),
    SmallSet(
        name="tamielectric",
        published={0.1: 0.3346, 1.0: 0.3344},
        target=(0, 1),
        features=((0, 1), (0, 20), (0, 30)),
    ),
    SmallSet(
        name="wine",
        published={0.1: 0.0627, 1.0: 0.0326},
        target=(8, 15),
        features=(
            *((6, 12), (0.25, 0.85), (0, 0.6), (1.5, 5.5), (0.05, 0.13), (0, 35), (0, 150), (0.9935, 1), (3.05, 3.6)),
            *((0.45, 0.95), (5, 7)),
        ),
    ),
)
