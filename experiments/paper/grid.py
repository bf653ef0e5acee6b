"""The study, declared: which cells are measured, how often, and what every name in the results means."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from experiments.paper.dplloyd import N_CLUSTERS, N_ROUNDS, RHO

Family = Literal["published", "valid", "ours-pure", "ours", "not-private"]
Start = Literal["rows", "data-free", "own"]
RuleName = Literal["uniform", "coreset", "constrained", "all rows"]
Kind = Literal["cost", "coreset", "time"]

RULES: tuple[RuleName, ...] = ("uniform", "coreset", "constrained")
DELTA = 1e-6

#: Raised whenever the code that makes results changes what they mean.
VERSION = 1

#: How a family is called wherever a person reads it.
TITLES: dict[Family, str] = {
    "published": "as published (no valid guarantee)",
    "valid": "paper, valid noise",
    "ours-pure": "pais, pure epsilon",
    "ours": "pais, (epsilon, 1e-6)",
    "not-private": "not private",
}

#: The paper's short names of the samplers.
PAPER_NAMES: dict[RuleName, str] = {"uniform": "unif", "coreset": "core", "constrained": "opt", "all rows": "full"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the study; its repetitions differ by their seeds alone.

    Attributes
    ----------
    start : {"rows", "data-free", "own"}
        First centers: k rows of the sample (covered by no guarantee), random directions, or our mechanism's own.
    sample_size : int, optional
        Expected rows. None is all rows, and for our families as few as cost no extra noise.
    epsilon : float
        Infinite without privacy.
    """

    kind: Kind
    dataset: str
    family: Family
    start: Start
    rule: RuleName
    sample_size: int | None
    epsilon: float
    delta: float = 0.0

    def seed(self, repetition: int) -> int:
        """A seed of its own for every repetition of every cell, the same in every run."""
        text = json.dumps([*asdict(self).values(), repetition])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Expected sample sizes of one data set: all that are tried, and the three that are shown against epsilon."""

    every: tuple[int, ...]
    shown: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is varied. The cells of a data set follow from it and from the sizes tried there."""

    name: str
    epsilons: tuple[float, ...] = (0.5, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
    size_epsilons: tuple[float, ...] = (3.0, 100.0)
    repetitions: int = 50
    full_repetitions: int = 50
    time_repetitions: int = 5
    center_sets: int = 200
    most_sizes: int = 99

    def cells(self, dataset: str, sizes: Sizes) -> list[Cell]:
        """Every cell of a data set once, costs first."""
        sizes = self._fewer(sizes)
        cells = [*self._costs(dataset, sizes), *self._coresets(dataset, sizes), *self._times(dataset, sizes)]
        return list(dict.fromkeys(cells))

    def repetitions_of(self, cell: Cell) -> int:
        if cell.kind == "time":
            return self.time_repetitions
        return self.full_repetitions if cell.rule == "all rows" else self.repetitions

    def _fewer(self, sizes: Sizes) -> Sizes:
        shown = sizes.shown[: self.most_sizes]
        every = sizes.every if len(sizes.every) <= self.most_sizes else shown
        return Sizes(every=every, shown=shown)

    def _points(self, sizes: Sizes) -> Iterator[tuple[int, float]]:
        """Cost against epsilon at the shown sizes, and against size at few epsilons."""
        yield from ((m, epsilon) for m in sizes.shown for epsilon in self.epsilons)
        yield from ((m, epsilon) for m in sizes.every for epsilon in self.size_epsilons)

    def _costs(self, dataset: str, sizes: Sizes) -> Iterator[Cell]:
        for m, epsilon in self._points(sizes):
            for family, start in _LLOYDS:
                for rule in RULES:
                    yield _cell("cost", dataset, family, start, rule, m, epsilon)
            yield _cell("cost", dataset, "ours-pure", "own", "constrained", m, epsilon)
            yield _cell("cost", dataset, "ours", "own", "constrained", m, epsilon)
        for epsilon in self.epsilons:
            yield _cell("cost", dataset, "ours-pure", "own", "constrained", None, epsilon)
            yield _cell("cost", dataset, "ours", "own", "constrained", None, epsilon)
        for m in sizes.every:
            for rule in ("uniform", "coreset"):
                yield _cell("cost", dataset, "not-private", "rows", rule, m, math.inf)
        for epsilon in self.size_epsilons:
            for family, start in _LLOYDS:
                yield _cell("cost", dataset, family, start, "all rows", None, epsilon)
        yield _cell("cost", dataset, "not-private", "rows", "all rows", None, math.inf)

    def _coresets(self, dataset: str, sizes: Sizes) -> Iterator[Cell]:
        for m in sizes.every:
            for rule in RULES:
                # Only the constrained rule looks at the target.
                for epsilon in self.size_epsilons if rule == "constrained" else (math.inf,):
                    yield _cell("coreset", dataset, "not-private", "rows", rule, m, epsilon)

    def _times(self, dataset: str, sizes: Sizes) -> Iterator[Cell]:
        yield _cell("time", dataset, "valid", "data-free", "all rows", None, 3.0)
        for m in sizes.every:
            for rule in RULES:
                yield _cell("time", dataset, "valid", "data-free", rule, m, 3.0)


_LLOYDS: tuple[tuple[Family, Start], ...] = (("published", "rows"), ("valid", "rows"), ("valid", "data-free"))

FULL = Grid(name="full")
QUICK = Grid(
    name="quick",
    epsilons=(1.0, 10.0, 100.0, 1000.0),
    size_epsilons=(3.0,),
    repetitions=5,
    full_repetitions=2,
    time_repetitions=2,
    center_sets=40,
    most_sizes=2,
)
MINIATURE = Grid(
    name="miniature",
    epsilons=(1.0, 100.0),
    size_epsilons=(3.0,),
    repetitions=2,
    full_repetitions=2,
    time_repetitions=1,
    center_sets=6,
    most_sizes=1,
)


def config_hash(fingerprint: str, grid: Grid) -> str:
    """What must be equal for two results to stand in one table: data, constants, and the meaning of the code."""
    facts = {
        "version": VERSION,
        "data": fingerprint,
        "n_clusters": N_CLUSTERS,
        "n_rounds": N_ROUNDS,
        "rho": RHO,
        "delta": DELTA,
        "repetitions": [grid.repetitions, grid.full_repetitions, grid.time_repetitions, grid.center_sets],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _cell(
    kind: Kind, dataset: str, family: Family, start: Start, rule: RuleName, sample_size: int | None, epsilon: float
) -> Cell:
    return Cell(
        kind=kind,
        dataset=dataset,
        family=family,
        start=start,
        rule=rule,
        sample_size=sample_size,
        epsilon=epsilon,
        delta=DELTA if family == "ours" else 0.0,
    )
