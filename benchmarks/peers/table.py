"""The table: every package on every set, cost over the floor and seconds of a fit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from rich.progress import Progress

from benchmarks.data import N_CLUSTERS, DataSet
from benchmarks.peers import inside, outside
from benchmarks.peers.outcome import Outcome
from benchmarks.peers.outside import DIFFPRIVLIB, FAISS, SPARK, Call, Environment, Peer
from benchmarks.quality import Mechanism
from benchmarks.tables import Cell, Table

NOT_PRIVATE = "not private"
OURS: tuple[Mechanism, ...] = ("gaussian", "l2", "laplace")
SLOW_SETS = ("covertype",)
FAISS_ROWS = 256  # of each center, its default

REMARKS = (
    "Same preprocessed rows, k = 25. Cost: median over seeds, over the floor. Seconds: median of the fit alone, rows "
    "in memory as doubles (faiss: its only type, single precision). Non-private: 10 rounds, but for the first line.",
    "pais: constrained sampling, the size that the plan chooses; planning is inside the seconds; costs from seeded "
    "runs, seconds with secure randomness. laplace: radius and norms are l1.",
    "A guarantee is what the package itself declares. diffprivlib: the smallest and largest value of each column are "
    "taken as public, it picks 2 to 7 rounds by itself, and is given fewer seeds on Covertype, where it is slow.",
    "Spark: frame cached in two parts from a Parquet file. faiss starts from random rows, scikit-learn from "
    "k-means++, Spark from its parallel form.",
    "Lines are measured one after another, so a busy moment of the machine may hit one alone.",
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line to be measured."""

    package: str
    guarantee: str
    public: str
    run: Callable[[], Outcome]
    epsilon: float | None = None


@dataclass(kw_only=True)
class Contest:
    """All that the entries share."""

    sets: list[DataSet]
    cache: Path
    progress: Progress
    seeds: int
    slow_seeds: int
    limit: float
    epsilons: tuple[float, ...]
    environments: dict[str, Environment] = field(default_factory=dict)

    def table(self) -> Table:
        table = Table(
            name="peers",
            prefix="",
            title="Other packages: cost over the floor and seconds of a fit",
            shown=(
                "data",
                "package",
                "guarantee",
                "taken as public",
                "rows used",
                "median",
                "seconds",
                "fewest seconds",
                "seeds",
                "note",
            ),
            remarks=list(REMARKS),
        )
        for peer in (SPARK, FAISS, DIFFPRIVLIB):
            self.environments[peer.name] = outside.environment(peer, self.cache, self.progress.console)
        for data in self.sets:
            outside.write_rows(data, self.cache / "peers")
            entries = list(self.entries(data))
            task = self.progress.add_task(data.source.title, total=len(entries))
            for entry in entries:
                self.progress.update(task, description=f"{data.source.title}: {entry.package}, {entry.guarantee}")
                table.rows.append(self._row(data, entry))
                self.progress.advance(task)
            self.progress.remove_task(task)
        return table

    def entries(self, data: DataSet) -> Iterator[Entry]:
        """The lines of one set: non-private ones first, then by epsilon."""
        rows = data.rows.astype(np.float64)
        sample = FAISS_ROWS * N_CLUSTERS
        free = partial(Entry, guarantee=NOT_PRIVATE, public="")
        yield free(package="scikit-learn, to the end", run=partial(inside.floor, rows, self.seeds))
        yield free(package="scikit-learn", run=partial(inside.ten_rounds, data, rows, self.seeds))
        yield free(package="Spark MLlib", run=self._outside(SPARK, data, str(min(2, os.cpu_count() or 1))))
        yield free(package="faiss, all rows", run=self._outside(FAISS, data, "0"))
        yield free(package="faiss, its own sample", run=self._outside(FAISS, data, str(FAISS_ROWS), sample))
        for epsilon in self.epsilons:
            for mechanism in OURS:
                delta = ", delta 1e-6" if mechanism == "gaussian" else ""
                yield Entry(
                    package=f"pais, {mechanism}",
                    guarantee=f"epsilon {epsilon:g}{delta}",
                    public="radius, center, norms",
                    run=partial(inside.private, data, rows, self.seeds, epsilon=epsilon, mechanism=mechanism),
                    epsilon=epsilon,
                )
            yield Entry(
                package="diffprivlib",
                guarantee=f"epsilon {epsilon:g}",
                public="bounds of columns",
                run=self._outside(DIFFPRIVLIB, data, str(epsilon)),
                epsilon=epsilon,
            )

    def _outside(self, peer: Peer, data: DataSet, word: str, most_rows: int | None = None) -> Callable[[], Outcome]:
        slow = peer is DIFFPRIVLIB and data.source.file in SLOW_SETS
        call = Call(
            word=word,
            seeds=min(self.seeds, self.slow_seeds) if slow else self.seeds,
            limit=self.limit,
            rows_used=min(len(data.rows), most_rows or len(data.rows)),
        )
        return partial(outside.run, peer, self.environments[peer.name], data, self.cache / "peers", call)

    def _row(self, data: DataSet, entry: Entry) -> dict[str, Cell]:
        outcome = entry.run()
        cells = outcome.cells()
        self.progress.console.print(
            f"{data.source.title}, {entry.package}, {entry.guarantee}: "
            f"cost {cells['median']}, {cells['seconds']} s {cells['note']}",
            markup=False,
            style="dim",
        )
        name, *rest = entry.package.split(",", maxsplit=1)
        return {
            "data": data.source.title,
            "package": ",".join([f"{name} {outcome.version}".strip(), *rest]),
            "epsilon": entry.epsilon,
            "guarantee": entry.guarantee,
            "taken as public": entry.public,
            **cells,
        }
