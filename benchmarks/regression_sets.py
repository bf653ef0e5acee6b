"""The data of the regression benchmark: sets of the AdaSSP paper, a column of each larger set, and middling tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True, kw_only=True)
class DrownedSet:
    """A table with so few rows for its columns that a survey at epsilon = 0.1 hardly sees them.

    `tuned` says whether constants of the survey were chosen on it.
    """

    name: str
    tuned: bool
    make: Callable[[Path], tuple[FloatArray, FloatArray]]


def bicycles(n: int = 17_000) -> tuple[FloatArray, FloatArray]:
    """Rented bicycles by hour: counters, codes, truth values, weather, and a target with a long tail."""
    rng = np.random.default_rng(1)
    year, month, hour, weekday = (rng.integers(low, high, n) for low, high in ((0, 2), (1, 13), (0, 24), (0, 7)))
    holiday, day = (rng.random(n) < 0.03) * 1.0, rng.integers(1, 31, n)
    working = (weekday > 0) * (weekday < 6) * (1.0 - holiday)
    daily = np.sin(2.0 * np.pi * (hour - 8) / 24.0)
    warm = 0.5 - 0.3 * np.cos(2.0 * np.pi * (month - 1) / 12.0) + 0.08 * daily + 0.06 * rng.normal(size=n)
    warm = np.clip(warm, 0.02, 1.0)
    felt = np.clip(0.9 * warm + 0.03 + 0.03 * rng.normal(size=n), 0.0, 1.0)
    humid = np.clip(0.63 - 0.1 * daily + 0.17 * rng.normal(size=n), 0.0, 1.0)
    wind, sky = np.clip(rng.gamma(2.4, 0.08, n), 0.0, 0.85), 1.0 + rng.choice(4, n, p=[0.66, 0.26, 0.079, 0.001])
    rush = np.exp(-0.5 * ((hour - 8) / 1.2) ** 2) * working + 1.3 * np.exp(-0.5 * ((hour - 17.5) / 1.8) ** 2)
    rush += 0.6 * np.exp(-0.5 * ((hour - 13) / 4.0) ** 2)
    usual = 40.0 + 420.0 * rush * (0.3 + warm) * (1.0 + 0.6 * year) * (1.1 - 0.5 * humid)
    rented = np.round(np.maximum(1.0, usual * np.exp(0.3 * rng.normal(size=n)) * (1.15 - 0.12 * sky)))
    angle = 2.0 * np.pi * hour / 24.0
    columns = [np.arange(n) + 1.0, day, (month % 12) // 3 + 1.0, year, month, hour, holiday, weekday, working, sky]
    columns += [warm, felt, humid, wind, np.cos(angle), np.sin(angle), 41.0 * warm]
    return np.column_stack(columns).astype(np.float64), rented


def signals(n: int = 15_000, d: int = 26) -> tuple[FloatArray, FloatArray]:
    """Counts of a network: whole numbers, many of them zero, and a target that is zero in half of the rows."""
    rng = np.random.default_rng(2)
    level, y = rng.random(n), np.where(rng.random(n) < 0.55, 0.0, 10.0 * np.ceil(10.0 * rng.random(n)))
    kinds: list[Callable[[int], NDArray[Any]]] = [
        lambda _: np.clip(np.round(110.0 - 0.5 * y + 15.0 * rng.normal(size=n)), 0.0, 130.0),
        lambda _: (rng.random(n) < 0.05 + 0.1 * (y > 50)) * np.round(5.0 * rng.random(n)),
        lambda _: np.round(np.maximum(0.0, 20.0 * rng.normal(size=n) - 0.2 * y + 10.0 * level)),
        lambda _: (y + 30.0 * rng.normal(size=n) > 60.0) * 1.0,
        lambda place: np.round(rng.exponential(3.0 + place, n) * (y > 0)),
    ]
    return np.column_stack([kinds[place % 5](place) for place in range(d)]), y


def sensors(n: int = 6_700, d: int = 128) -> tuple[FloatArray, FloatArray]:
    """Responses of 16 sensors to gases: skewed, of both signs, and nearly the same up to a factor."""
    rng = np.random.default_rng(3)
    gas, dose, drift = rng.integers(0, 6, n), np.minimum(np.exp(rng.normal(4.0, 0.8, n)), 600.0), rng.normal(size=n)
    strength = np.exp(rng.normal(0.0, 0.7, (6, 16)))
    sizes = (800.0, 0.3, 0.15, 0.25, 0.6, -0.12, -0.25, -0.5)
    columns = []
    for sensor in range(16):
        response = strength[gas, sensor] * dose**0.6 * np.exp(0.15 * rng.normal(size=n) + 0.1 * drift)
        for place, size in enumerate(sizes[: d // 16]):
            columns.append(size * response ** (0.7 if place % 2 else 1.0) * np.exp(0.2 * rng.normal(size=n)))
    return np.column_stack(columns), dose


def _part(name: str, target: int, columns: range, n: int, seed: int) -> Callable[[Path], tuple[FloatArray, FloatArray]]:
    """Some rows and columns of a larger set."""

    def make(directory: Path) -> tuple[FloatArray, FloatArray]:
        rows = read_parquet(directory / f"{name}.parquet")
        rows = rows[np.random.default_rng(seed).choice(len(rows), n, replace=False)]
        return rows[:, [place for place in columns if place != target]], rows[:, target]

    return make


DROWNED = (
    DrownedSet(name="bicycles", tuned=True, make=lambda _: bicycles()),
    DrownedSet(name="signals", tuned=True, make=lambda _: signals()),
    DrownedSet(name="song, 17 columns", tuned=True, make=_part("song-sample", 0, range(1, 18), 17_000, 0)),
    DrownedSet(name="covertype, 17 columns", tuned=True, make=_part("covertype", 0, range(1, 18), 17_000, 0)),
    DrownedSet(name="sensors", tuned=True, make=lambda _: sensors()),
    DrownedSet(name="kdd-protein, 17 columns", tuned=False, make=_part("kdd-protein", 60, range(55, 73), 17_000, 21)),
    DrownedSet(name="song, 26 columns", tuned=False, make=_part("song-sample", 3, range(1, 28), 15_000, 22)),
    DrownedSet(name="covertype, hillshade", tuned=False, make=_part("covertype", 7, range(18), 17_000, 23)),
    DrownedSet(name="ijcnn1, 12 columns", tuned=False, make=_part("ijcnn1", 15, range(10, 22), 12_000, 24)),
)

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
