"""How often the 95 % interval of a one-line statistic holds the answer of the table, as the result words it.

``python -m benchmarks.coverage`` prints the table and writes it as CSV and Markdown. A cell of the table is a statistic
of a column with its options at one epsilon. Every cell runs with 200 seeds, and with 1,000 if less than 95 % of these
are covered, because 200 runs of a right interval cover less than 93 % by chance in one cell of twelve. Seeded runs are
not private; they are here to be repeated. A run counts as warned if the call warned that its answer may miss the truth,
or marked it as lost in noise.

All cells take more than an hour. With ``--resume cells.jsonl``, every cell is written to this file when it is measured,
and a run that was stopped goes on where it ended, as long as the sources of the package are the same.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.progress import Progress

import pais
from benchmarks.tables import Store, Table, parser, run, sources
from pais._base.numerics import FloatArray
from pais.data.example import REGIONS
from pais.errors import QualityWarning, SurveyWarning

ADULT = Path("../shared/data/adult.parquet")

EPSILONS = (0.1, 0.5, 1.0, 3.0)
LEVELS = (0.25, 0.5, 0.9)
CONFIDENCE = 0.95
N_ROWS = 20_000

# A cell is met if its intervals hold the answer in this share of the runs, or if this share of the runs warns.
LEAST_COVERED, LEAST_WARNED = 0.93, 0.95


@cache
def table_of(name: str) -> pd.DataFrame:
    """A table by name; `people` is the bundled one, the others have ids of people with one to many rows."""
    if name == "people":
        return pais.example_people().to_pandas()
    generator = np.random.default_rng(5)
    if name == "adult":
        frame = pq.read_table(ADULT).to_pandas()
        return frame.rename(columns={"capital_gain": "gain", "hours_per_week": "hours"})
    values = {
        "heavy": generator.lognormal(7.0, 1.2, N_ROWS),
        "zeros": generator.gamma(0.7, 300.0, N_ROWS) * (generator.random(N_ROWS) < 0.3),
    }[name]
    people = generator.permutation(
        np.repeat(np.arange(N_ROWS), np.ceil(generator.lognormal(1.0, 1.1, N_ROWS)).astype(int))[:N_ROWS]
    )
    return pd.DataFrame(
        {"value": values, "person_id": people, "ward": generator.choice(list("abcd"), N_ROWS, p=[0.4, 0.3, 0.2, 0.1])}
    )


@cache
def arrow_table(name: str, columns: tuple[str, ...]) -> pa.Table:
    """The columns of a table that a cell needs, which are faster to read than all of them."""
    return pa.Table.from_pandas(table_of(name)[list(columns)], preserve_index=False)


#: Table, column, stated bounds, unit, groups.
COLUMNS = (
    ("people", "income", (0, 250_000), "customer_id", {"region": list(REGIONS)}),
    ("adult", "gain", (0, 100_000), None, {"sex": ["Female", "Male"]}),
    ("heavy", "value", (0, 50_000), "person_id", {"ward": list("abcd")}),
    ("zeros", "value", (0, 2_000), "person_id", {"ward": list("abcd")}),
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A statistic of a column, with its options, at one epsilon."""

    statistic: str
    table: str
    column: str
    bounds: tuple[float, float] | None
    unit: str | None
    by: tuple[str, tuple[Any, ...]] | None
    epsilon: float

    def release(self, seed: int) -> Any:
        names = {self.column, self.unit, None if self.by is None else self.by[0]} - {None}
        frame = arrow_table(self.table, tuple(sorted(map(str, names))))
        arguments: dict[str, Any] = {"epsilon": self.epsilon, "random_state": seed, "unit": self.unit}
        if self.by is not None:
            arguments["by"] = {self.by[0]: list(self.by[1])}
        if self.statistic == "count":
            return pais.count(frame, **arguments)
        if self.statistic == "people":
            return pais.count_people(frame, **arguments)
        arguments["columns"] = {self.column: "auto" if self.bounds is None else self.bounds}
        if self.statistic == "quantile":
            return pais.quantile(frame, LEVELS, **arguments)
        return getattr(pais, self.statistic)(frame, **arguments)

    def truth(self) -> FloatArray:
        """The answers of the table, one for each group (and level)."""
        frame = table_of(self.table)
        groups = [frame] if self.by is None else [frame[frame[self.by[0]] == label] for label in self.by[1]]
        return np.concatenate([np.atleast_1d(self._answer(frame, group)) for group in groups])

    def _answer(self, frame: pd.DataFrame, group: pd.DataFrame) -> Any:
        if self.statistic == "count":
            return float(len(group if self.unit is None else group[group[self.unit].notna()]))
        if self.statistic == "people":
            return float(group[self.unit].nunique())
        weights = np.ones(len(group))
        if self.unit is not None:
            rows = frame[self.unit].value_counts()
            weights = np.nan_to_num(1.0 / group[self.unit].map(rows).to_numpy(dtype=float))
        values = pd.to_numeric(group[self.column], errors="coerce").to_numpy(dtype=float)
        present = np.isfinite(values) & (weights > 0.0)
        values, weights = values[present], weights[present]
        if self.bounds is not None:
            values = np.clip(values, *self.bounds)
        if self.statistic == "sum":
            return values.sum()
        mean = np.average(values, weights=weights)
        if self.statistic == "mean":
            return mean
        if self.statistic == "variance":
            n = weights.sum()
            return np.average((values - mean) ** 2, weights=weights) * n / (n - 1.0)
        order = np.argsort(values)
        reached = np.cumsum(weights[order]) / weights.sum()
        return values[order][[min(int(np.searchsorted(reached, level)), len(order) - 1) for level in LEVELS]]


def cells() -> Iterator[Cell]:
    """Every cell: each statistic with and without unit, groups and found bounds, where these make a difference."""
    for table, column, bounds, unit, by in COLUMNS:
        pairs = tuple((name, tuple(values)) for name, values in by.items())
        for own in (None, unit) if unit else (None,):
            for groups in (None, pairs[0]):
                common: dict[str, Any] = {"table": table, "column": column, "unit": own, "by": groups}
                for common["epsilon"] in EPSILONS:
                    yield Cell(statistic="count", bounds=bounds, **common)
                    if own:
                        yield Cell(statistic="people", bounds=bounds, **common)
                    for statistic in ("mean", "sum", "variance", "quantile"):
                        for stated in (bounds, None):
                            yield Cell(statistic=statistic, bounds=stated, **common)


def measured(cell: Cell, n_seeds: int) -> dict[str, Any]:
    """Share of the runs whose interval holds the truth, and share of the runs that warn; both over all groups."""
    truth = cell.truth()
    held: list[NDArray[Any]] = []
    warned: list[NDArray[Any]] = []
    gaps: list[FloatArray] = []
    for seed in range(5 * n_seeds):
        if seed == n_seeds and np.mean(held) >= 0.95:
            break
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            result = cell.release(seed)
        low, high = (np.asarray(end, dtype=float).ravel() for end in result.interval(CONFIDENCE))
        tiny = 1e-9 * np.maximum(np.abs(truth), 1.0)
        held.append((low <= truth + tiny) & (truth - tiny <= high))
        lost = np.zeros(1, dtype=bool) if result.lost is None else result.lost.ravel()
        says = any(issubclass(one.category, (QualityWarning, SurveyWarning)) for one in issued)
        warned.append(np.broadcast_to(lost | says, truth.shape))
        gaps.append(np.asarray(result.value, dtype=float).ravel() - truth)
    covered, share = float(np.mean(held)), float(np.mean(warned))
    error = np.sqrt(np.mean(np.square(gaps), axis=0)) / np.maximum(np.abs(truth), 1e-300)
    return {
        "statistic": cell.statistic,
        "table": cell.table,
        "column": cell.column,
        "unit": cell.unit or "",
        "by": cell.by[0] if cell.by else "",
        "bounds": "found" if cell.bounds is None else "stated",
        "epsilon": cell.epsilon,
        "covered": covered,
        "worst group": float(np.mean(held, axis=0).min()),
        "warned": share,
        "error": float(np.median(error)),
        "runs": len(held),
        "result": "met" if covered >= LEAST_COVERED else "met, warned" if share >= LEAST_WARNED else "missed",
    }


def measured_cells(chosen: Sequence[Cell], n_seeds: int, processes: int, path: Path | None) -> Iterator[dict[str, Any]]:
    """The row of each cell, in order. Rows that a file holds are not measured again, and new ones are added to it."""
    store = Store(path, f"{sources()}, {n_seeds} seeds")
    known = store.read()
    missing = [cell for cell in chosen if repr(cell) not in known]
    with ProcessPoolExecutor(processes) as pool:
        fresh = pool.map(measured, missing, [n_seeds] * len(missing))
        for cell in chosen:
            row = known.get(repr(cell))
            if row is None:
                row = next(fresh)
                store.add(repr(cell), row)
            yield row


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    chosen = [
        cell
        for cell in cells()
        if set(options.only) <= {cell.statistic, cell.table, cell.column} and (cell.table != "adult" or ADULT.exists())
    ]
    table = Table(
        name="coverage-statistics",
        title=f"How often the {100.0 * CONFIDENCE:g} % interval of a statistic holds the answer of the table",
        shown=(
            *("statistic", "table", "column", "unit", "by", "bounds", "epsilon", "covered", "warned", "error", "runs"),
            "result",
        ),
    )
    rows = measured_cells(chosen, options.seeds, options.processes, options.resume)
    table.rows += progress.track(rows, total=len(chosen), description="cells")
    missed = sum(row["result"] == "missed" for row in table.rows)
    table.remarks.append(
        f"{len(table.rows)} cells, {missed} missed. `covered` is the share of runs whose interval holds the answer, "
        "over all groups; `warned` is the share that warned or marked the value as lost in noise; `error` is relative "
        "to the answer, for the median group."
    )
    yield table


if __name__ == "__main__":
    made = parser(__doc__, seeds=200)
    made.add_argument("--only", nargs="+", default=(), help="cells of this statistic, table and column")
    made.add_argument("--processes", type=int, default=2)
    made.add_argument("--resume", type=Path, help="file of measured cells, which is written and read")
    run(made.parse_args(), tables)
