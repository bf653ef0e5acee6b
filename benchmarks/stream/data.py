"""Files of rows for the measurements: written a row group at a time, never held in memory, kept and reused."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.progress import Progress

COLUMNS, N_FILES = 16, 50
GROUP_ROWS = 1 << 17
N_GROUPS, SPREAD = 40, 3.0

Kind = Literal["integers", "mixture"]
SEEDS: dict[Kind, int] = {"integers": 2, "mixture": 3}


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A directory of Parquet files with rows of one kind; every file has its own seed."""

    kind: Kind
    n_rows: int
    n_files: int
    cache: Path

    @property
    def directory(self) -> Path:
        return self.cache / f"{self.kind}-{self.n_rows}-in-{self.n_files}"

    @property
    def sizes(self) -> list[int]:
        """Rows of each file."""
        ends = [self.n_rows * number // self.n_files for number in range(self.n_files + 1)]
        return [end - start for start, end in pairwise(ends)]

    def files(self, n_rows: int | None = None) -> list[str]:
        """All files, or as many of them as have so many rows."""
        ends = np.cumsum(self.sizes)
        count = self.n_files if n_rows is None else int(np.searchsorted(ends, n_rows)) + 1
        return [str(self._path(number)) for number in range(count)]

    def written(self, progress: Progress) -> Rows:
        """The same, with what was absent written."""
        absent = [number for number in range(self.n_files) if not self._path(number).exists()]
        self.directory.mkdir(parents=True, exist_ok=True)
        for number in progress.track(absent, description=f"write {self.n_rows:,} {self.kind}"):
            self._write(number)
        return self

    def _path(self, number: int) -> Path:
        return self.directory / f"part-{number:03d}.parquet"

    def _write(self, number: int) -> None:
        """One file, under another name until it is complete."""
        path = self._path(number)
        partial = path.with_name(f"_{path.name}.partial")
        names = [f"x{column}" for column in range(COLUMNS)]
        schema = pa.schema([(name, pa.float64()) for name in names])
        plain = self.kind != "integers"
        with pq.ParquetWriter(partial, schema, compression="zstd", use_dictionary=not plain) as writer:
            for rows in groups(self.kind, self.sizes[number], number):
                writer.write_table(pa.table(list(rows), schema=schema), row_group_size=GROUP_ROWS)
        partial.rename(path)


def mixture(options: argparse.Namespace, progress: Progress) -> Rows:
    """The largest set, in many files."""
    return Rows(kind="mixture", n_rows=options.rows, n_files=N_FILES, cache=options.cache).written(progress)


def groups(kind: Kind, n_rows: int, number: int) -> Iterator[NDArray[np.float64]]:
    """The row groups of a file, each as an array of shape (columns, rows)."""
    rng = np.random.default_rng([SEEDS[kind], number])
    for start in range(0, n_rows, GROUP_ROWS):
        size = min(GROUP_ROWS, n_rows - start)
        if kind == "integers":
            yield rng.integers(10, size=(COLUMNS, size)).astype(np.float64)
            continue
        rows = rng.standard_normal((COLUMNS, size))
        rows += means()[:, rng.integers(N_GROUPS, size=size)]
        yield rows


def means() -> NDArray[np.float64]:
    """Centers of the groups of the mixture, by columns: public, since we make it."""
    return SPREAD * np.random.default_rng(0).standard_normal((COLUMNS, N_GROUPS))


def public_radius() -> float:
    """A radius about the origin that the maker of the mixture can state: a group's spread reaches 8 nowhere near."""
    return float(np.linalg.norm(means(), axis=0).max()) + 8.0
