"""A default fit from Spark on more rows than a machine has: computed from costs that are measured on this machine.

The costs of a row, a task, a job and a row of the sample are measured on a part of the rows. A fit on all of the rows
shows how far the computed time is from the measured one.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow.dataset as pa_dataset

import pais
from benchmarks.stream import child
from benchmarks.stream.bench import PREFIX, Bench
from benchmarks.stream.costs import FEW_TASKS, MANY_TASKS, RUNS, STEPS, Costs
from benchmarks.stream.data import COLUMNS
from benchmarks.stream.spark import CORES, DELTA, EPSILON, N_CLUSTERS, missing
from benchmarks.tables import Table, verdict
from pais.privacy.norms import NormDistribution

#: Shares of the rows on which costs are measured, and on which the computed time is checked: 1 and 4 million of 50.
SHARE, CHECK_SHARE = 0.02, 0.08
#: The most by which the computed time and the measured one may differ, as a ratio.
MOST_OFF = 1.25

#: Rows and cores of clusters that are simulated.
CLUSTERS = ((10**9, 16), (10**9, 128), (10**11, 128), (10**11, 1024), (10**11, 4096))
#: Assumed: the most bytes of Parquet in a partition, and the least, Spark's settings by default.
PARTITION_BYTES, LEAST_BYTES = 1 << 27, 1 << 22
#: Assumed: seconds in which Spark's driver starts a task and takes note of its end.
SCHEDULING = 1e-3
#: Copies of the sample on the driver while it is assembled and used, in Java and in Python.
COPIES = 7
#: Bytes of a kept row beside its numbers: weight, offset and validity.
ROW_EXTRA = 14


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A default fit on a cluster, by arithmetic: tasks run in waves of as many as there are cores."""

    costs: Costs
    n_rows: float
    cores: int
    sample_rows: float

    @property
    def tasks(self) -> int:
        """Partitions of the files: of the most bytes, or fewer if there would be fewer partitions than cores."""
        size = self.n_rows * self.costs.file_bytes
        return max(math.ceil(size / PARTITION_BYTES), min(self.cores, math.ceil(size / LEAST_BYTES)))

    @property
    def jobs(self) -> int:
        return self.costs.survey_passes + 1

    def pass_seconds(self, per_row: float) -> float:
        """The tasks of a job on the cores, or their scheduling on the driver if that takes longer."""
        costs, tasks = self.costs, self.tasks
        work = math.ceil(tasks / self.cores) * (self.n_rows / tasks * per_row + costs.task)
        return costs.job + max(work, SCHEDULING * tasks)

    @property
    def driver_seconds(self) -> float:
        costs = self.costs
        return costs.driver + costs.driver_row * self.sample_rows + costs.survey_passes * self.tasks * costs.answer

    @property
    def seconds(self) -> float:
        costs = self.costs
        passes = costs.survey_passes * self.pass_seconds(costs.survey) + self.pass_seconds(costs.sample)
        return costs.start + passes + self.driver_seconds

    @property
    def sample_bytes(self) -> float:
        return self.sample_rows * (8 * COLUMNS + ROW_EXTRA)

    @property
    def network_bytes(self) -> float:
        """Answers of the workers: sums of the survey's passes, and the rows that are kept."""
        return self.costs.survey_passes * self.tasks * self.costs.answer_bytes + self.sample_bytes

    @property
    def driver_bytes(self) -> float:
        """The sample while it is used, or the answers of a pass before they are added, in Java and in Python."""
        return max(COPIES * self.sample_bytes, 2 * self.tasks * self.costs.answer_bytes)


def tables(bench: Bench) -> Iterator[Table]:
    problem = missing()
    if problem is not None:
        bench.console.print(f"The simulation is left out: {problem}.")
        return
    rows = bench.mixture()
    few, many = (rows.files(round(share * bench.rows)) for share in (SHARE, CHECK_SHARE))
    n_few, n_many = (pa_dataset.dataset(files).count_rows() for files in (few, many))
    with (
        bench.steps("costs of a fit from Spark", STEPS) as on_step,
        tempfile.TemporaryDirectory(dir=bench.cache) as scratch,
    ):
        measured = child.run(
            "costs", on_step, few=few, many=many, n_few=n_few, large_sample=bench.rows // 250, scratch=scratch
        )
    costs = Costs(**measured["costs"])
    norms = NormDistribution(
        norms=np.array(measured["norms"]), masses=np.array(measured["masses"]), radius=measured["radius"]
    )
    yield _costs_table(costs, measured["spread"], n_few)
    check = Simulated(costs=costs, n_rows=n_many, cores=CORES, sample_rows=measured["check_rows"])
    yield _simulated_table(costs, norms, check, measured["check"])


def planned_rows(norms: NormDistribution, n_rows: float) -> float:
    """Rows of the sample that a default plan expects, if the norms are distributed in this way."""
    more = NormDistribution(
        norms=norms.norms, masses=np.asarray(norms.masses) * (n_rows / norms.n_rows), radius=norms.radius
    )
    plan = pais.plan_kmeans(
        n_clusters=N_CLUSTERS,
        n_features=COLUMNS,
        epsilon=EPSILON,
        delta=min(DELTA, 0.1 / n_rows),
        ball=pais.Ball(radius=norms.radius),
        norms=more,
    )
    return float(plan.expected_rows or 0.0)


def _costs_table(costs: Costs, spread: dict[str, list[float]], n_rows: int) -> Table:
    table = Table(
        name="costs",
        prefix=PREFIX,
        title=f"Costs of a fit from Spark: {n_rows:,} x {COLUMNS} float64 in Parquet, local[{CORES}]",
        shown=("what", "unit", "median", "smallest", "largest"),
        remarks=[
            f"Medians of {RUNS} runs in one session, after a first fit. Times by row and by task are those of a core: "
            f"wall time times {CORES} cores.",
            "scan: Spark reads the columns. to Python: Spark reads them and sends them to Python, which drops them. "
            "survey and sample: a whole pass, with scan and transfer.",
            f"task and job: a pass over {MANY_TASKS} partitions of one row against one over {FEW_TASKS}. start: what "
            "the first pass of a session takes longer than others, most of it to start Python workers.",
        ],
    )
    units = {
        "scan": ("scan", "ns/row", 1e9),
        "transfer": ("scan and to Python", "ns/row", 1e9),
        "survey": ("survey pass", "ns/row", 1e9),
        "sample": ("sample pass", "ns/row", 1e9),
        "task": ("task", "ms", 1e3),
        "job": ("job", "ms", 1e3),
        "start": ("start", "s", 1.0),
        "driver": ("driver: plan and the rest", "s", 1.0),
        "driver_row": ("driver: rounds", "us/row of the sample", 1e6),
        "answer": ("driver: add the answer of a task", "us", 1e6),
        "answer_bytes": ("answer of a task", "bytes", 1.0),
        "file_bytes": ("Parquet", "bytes/row", 1.0),
    }
    for name, (what, unit, factor) in units.items():
        values = [factor * value for value in spread.get(name, [])]
        table.rows.append(
            {
                "what": what,
                "unit": unit,
                "median": factor * float(asdict(costs)[name]),
                "smallest": min(values) if values else None,
                "largest": max(values) if values else None,
            }
        )
    return table


def _simulated_table(costs: Costs, norms: NormDistribution, check: Simulated, seconds: float) -> Table:
    table = Table(
        name="simulated",
        prefix=PREFIX,
        title=f"Simulated: a default fit from Spark on clusters, {COLUMNS} float64 columns, k = {N_CLUSTERS}",
        shown=(
            "rows",
            "cores",
            "tasks of a job",
            "jobs",
            "rows kept",
            "minutes",
            "driver alone s",
            "Parquet GB of a job",
            "read MB/s of a core",
            "network MB",
            "driver MB",
            "measured minutes",
            "off by",
            "target",
            "result",
        ),
        remarks=[
            "Computed from the costs in stream-costs, which were measured in the same run. The first line is this "
            f"machine: computed against measured, off by at most {MOST_OFF:g}. The other lines are not measured.",
            f"Assumed: partitions of {PARTITION_BYTES >> 20} MiB of Parquet; tasks in waves of as many as there are "
            f"cores, of the speed of these; {1e3 * SCHEDULING:g} ms of the driver for each task, while others run; "
            "storage that delivers the MB/s in the table to every core at once; no lost machines or stragglers; the "
            "start of a cluster is not counted.",
            "Three jobs: the survey's second pass collects no candidates for the sample, as on tables of more than "
            "2**30 numbers. On smaller ones, a fit has two jobs; the first line has three here too.",
            "rows kept: expected by the default plan for so many rows whose norms are distributed as those of the "
            f"mixture, epsilon {EPSILON:g}, delta {DELTA:g} or a tenth of 1 / rows if that is smaller.",
            f"network: answers of the survey's tasks and kept rows of {8 * COLUMNS + ROW_EXTRA} bytes; without what "
            f"Spark itself sends with each task, and without reading storage. driver: {COPIES} copies of the sample, "
            "or two of the answers of a pass, whichever is more.",
        ],
    )
    simulations = [(check, seconds)] + [
        (Simulated(costs=costs, n_rows=n_rows, cores=cores, sample_rows=planned_rows(norms, n_rows)), None)
        for n_rows, cores in CLUSTERS
    ]
    for one, measured in simulations:
        off = None if measured is None else max(one.seconds / measured, measured / one.seconds)
        table.rows.append(
            {
                "rows": int(one.n_rows),
                "cores": one.cores,
                "tasks of a job": one.tasks,
                "jobs": one.jobs,
                "rows kept": round(one.sample_rows),
                "minutes": one.seconds / 60,
                "driver alone s": one.driver_seconds,
                "Parquet GB of a job": one.n_rows * costs.file_bytes / 1e9,
                "read MB/s of a core": costs.file_bytes / max(costs.survey, 1e-9) / 1e6,
                "network MB": one.network_bytes / 1e6,
                "driver MB": one.driver_bytes / 1e6,
                "measured minutes": None if measured is None else measured / 60,
                "off by": off,
                "target": None if off is None else MOST_OFF,
                "result": "" if off is None else verdict(off, MOST_OFF),
            }
        )
    return table
