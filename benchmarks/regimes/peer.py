"""diffprivlib beside our costs, on the sets that it finishes in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.data import DataSet, Source
from benchmarks.peers.outside import DIFFPRIVLIB, Call, environment, run, write_rows
from benchmarks.regimes.runner import Line
from benchmarks.regimes.sets import tables
from benchmarks.tables import Table

SETS = ("pe-4-4", "pe-64-4", "box-10", "digits", "wine", "planar-15", "planar-100", "zoo-20000-10-10")
SEEDS = 5
LIMIT = 120.0


def compared(lines: Sequence[Line], directory: Path, cache: Path, console: Console) -> Table:
    """Our medians and those of diffprivlib, at the same epsilon."""
    table = Table(
        name="peers",
        prefix="regimes-",
        title="Cost over the floor beside diffprivlib, at the same epsilon",
        shown=("data", "epsilon", "pais", "diffprivlib", "one center", "note"),
        remarks=[
            "diffprivlib: pure epsilon, the smallest and largest value of each column taken as public. pais: as in the "
            "table of regimes, with its delta; nothing stated but the ball of the sets pe and planar.",
            "PE-means, DPM and FastLloyd are not installed here. PE-means is compared by its published values.",
        ],
    )
    members = [line for line in lines if line.case.table in SETS and line.case.mechanism == "gaussian"]
    home = environment(DIFFPRIVLIB, cache, console) if members else None
    for line in members:
        assert home is not None
        data = _data_set(line, directory)
        place = (cache / "regimes").resolve()
        write_rows(data, place)
        call = Call(
            word=str(line.case.epsilon),
            seeds=SEEDS,
            limit=LIMIT,
            rows_used=len(data.rows),
            n_clusters=line.identity.n_clusters,
        )
        outcome = run(DIFFPRIVLIB, home, data, place, call)
        table.rows.append(
            {
                "data": line.case.table,
                "epsilon": line.case.epsilon,
                "pais": float(np.median([run.cost for run in line.runs])) / line.floor,
                "diffprivlib": float(np.median(outcome.ratios)) if outcome.ratios else None,
                "one center": line.identity.one_center / line.floor,
                "version": outcome.version,
                "note": "; ".join(outcome.notes),
            }
        )
    return table


def _data_set(line: Line, directory: Path) -> DataSet:
    rows = tables(directory)[line.case.table].rows()
    mean = rows.mean(axis=0)
    source = Source(file=line.case.table, title=line.case.table, sample_size=len(rows), targets={})
    return DataSet(source=source, rows=(rows - mean).astype(np.float32), mean=mean, floor=line.floor)
