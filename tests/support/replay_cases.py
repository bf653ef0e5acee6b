"""Cases of the replay audit: calls of the package, tables, and a record or a person in them that is chosen to hurt.

`spread` lists the cases that the tests replay, and `drawn` draws further ones from the same parts for ``make audit``.
"""

from __future__ import annotations

import csv
import datetime as dt
import functools
import itertools
import math
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import pais
from pais.auditing.replay import ReplayReport, replay
from pais.mechanisms.base import Mechanism
from pais.mechanisms.noise import GaussianNoise, LpNoise
from pais.planning.plan import AT_COST

Floats = NDArray[np.float64]
Row = Mapping[str, Any]
Rows = Sequence[Row]

DELTA = 1e-6
RADIUS = 2.0
REGIONS = ("north", "south", "east")
CLASSES = ("a", "b", "c")
MONTHS = ("2024-01-01", "2024-04-30")
TYPES = pa.schema(
    {
        "person": pa.string(),
        "place": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "spent": pa.float64(),
        "region": pa.string(),
        "active": pa.bool_(),
        "day": pa.timestamp("us"),
        "label": pa.string(),
    }
)


# -- tables --------------------------------------------------------------------------------------------------


@functools.cache
def company(n: int = 150, people: int = 60) -> Rows:
    """The rows of all others: 60 people with some rows each, in two clusters, with a heavy tail in one column."""
    rng = np.random.default_rng(7)
    owners = np.concatenate([np.arange(people), rng.integers(0, people, n - people)])
    sides = rng.choice([-1.5, 1.5], n)
    return tuple(
        {
            "person": f"p{owners[place]}",
            "place": place,
            "x": sides[place] + rng.normal(scale=0.4),
            "y": 0.5 * sides[place] + rng.normal(scale=0.4),
            "spent": float(rng.lognormal(3.0, 1.2)),
            "region": REGIONS[rng.integers(0, 3)],
            "active": bool(rng.integers(0, 2)),
            "day": dt.datetime(2024, 1, 1) + dt.timedelta(days=int(rng.integers(0, 120))),
            "label": CLASSES[rng.integers(0, 3)],
        }
        for place in range(n)
    )


def twins() -> Rows:
    """Sixty people with the same row."""
    return tuple({**company()[0], "person": f"p{place}", "place": place} for place in range(60))


#: The rows of all others: also none at all, and all alike.
COMPANIES: dict[str, Callable[[], Rows]] = {
    "others": company,
    "a crowd": functools.partial(company, 400, 150),
    "twins": twins,
    "nobody": tuple,
}


def arrow(rows: Rows, _: Path) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=TYPES)


def as_text(cell: Any) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return cell.isoformat() if isinstance(cell, dt.datetime) else str(cell)


def csv_file(rows: Rows, home: Path) -> Path:
    with (home / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(TYPES.names)
        writer.writerows([as_text(row[name]) for name in TYPES.names] for row in rows)
    return home / "rows.csv"


def parquet_file(rows: Rows, home: Path) -> Path:
    pq.write_table(arrow(rows, home), home / "rows.parquet", row_group_size=64)
    return home / "rows.parquet"


def parquet_files(rows: Rows, home: Path) -> Path:
    """A directory of three files: the rows of a person may be in several of them."""
    (home / "files").mkdir(exist_ok=True)
    for number, part in enumerate((rows[:30], rows[30:70], rows[70:])):
        pq.write_table(arrow(part, home), home / "files" / f"{number}.parquet")
    return home / "files"


def objects(rows: Rows, _: Path) -> Any:
    """A pandas frame of objects: numbers and text in one column."""
    import pandas as pd

    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in TYPES.names})


def texts(rows: Rows, _: Path) -> pa.Table:
    """An Arrow table in which every cell is text."""
    columns = {name: [as_text(row[name]) or None for row in rows] for name in TYPES.names if name != "place"}
    places = pa.array([row["place"] for row in rows], pa.int64())
    return pa.table({"place": places, **{name: pa.array(cells, pa.string()) for name, cells in columns.items()}})


def relation(rows: Rows, home: Path) -> Any:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", arrow(rows, home))
    return connection.sql("SELECT * FROM rows")


def batches(rows: Rows, home: Path) -> Iterator[pa.RecordBatch]:
    """Batches of uneven sizes, which can be read once. The first one is empty, so that a stream always has a schema."""
    table = arrow(rows, home)
    yield pa.RecordBatch.from_pylist([], schema=TYPES)
    for start, stop in itertools.pairwise((0, 1, 40, 41, max(41, len(rows)))):
        yield from table.slice(start, stop - start).combine_chunks().to_batches()


def array(rows: Rows, _: Path) -> Floats:
    return np.array([[row["x"], row["y"]] for row in rows], dtype=np.float64).reshape(-1, 2)


#: Where the rows are. Each function is called anew for every run.
STORES: dict[str, Callable[[Rows, Path], Any]] = {
    "pandas": lambda rows, home: arrow(rows, home).to_pandas(),
    "Arrow": arrow,
    "Parquet": parquet_file,
    "Parquet files": parquet_files,
    "CSV": csv_file,
    "polars": lambda rows, home: pl.from_arrow(arrow(rows, home)),
    "LazyFrame": lambda rows, home: pl.DataFrame(pl.from_arrow(arrow(rows, home))).lazy(),
    "DuckDB": relation,
    "function": lambda rows, home: functools.partial(batches, rows, home),
    "texts": texts,
    "objects": objects,
}
#: Streams that can be read only once.
ONCE: dict[str, Callable[[Rows, Path], Any]] = {
    "generator": batches,
    "reader": lambda rows, home: arrow(rows, home).to_reader(max_chunksize=33),
}
#: Stores whose columns hold numbers and text.
WITH_TEXT = ("CSV", "texts", "objects")
#: The columns x and y alone, without names.
ARRAYS: dict[str, Callable[[Rows, Path], Any]] = {
    "array": array,
    "Fortran array": lambda rows, home: np.asfortranarray(array(rows, home)),
    "nested list": lambda rows, _: [[row["x"], row["y"]] for row in rows],
}


# -- records -------------------------------------------------------------------------------------------------


def record(**cells: Any) -> Row:
    ordinary = {"person": "new", "place": 10**6, "x": 0.5, "y": -0.25, "spent": 20.0, "region": "north"}
    return {**ordinary, "active": True, "day": dt.datetime(2024, 2, 10), "label": "a", **cells}


#: One row. Numbers of x and y lie in [-3, 3] by the bounds that calls state.
RECORDS: dict[str, Row] = {
    "ordinary": record(),
    "at the corner": record(x=3.0, y=3.0, spent=500.0),
    "at the other corner": record(x=-3.0, y=-3.0, spent=0.0, active=False, label="b"),
    "far": record(x=40.0, y=-35.0, spent=1e6),
    "huge": record(x=1e300, y=-1e300, spent=1e300),
    "overflowing": record(x=1.7e308, y=1.7e308, spent=-1.7e308),
    "denormal": record(x=5e-324, y=-5e-324, spent=5e-324),
    "zero": record(x=0.0, y=0.0, spent=0.0),
    "negative zero": record(x=-0.0, y=-0.0, spent=-0.0),
    "NaN": record(x=math.nan, region="south"),
    "infinite": record(x=math.inf, y=-math.inf, spent=math.inf),
    "missing": record(x=None, y=None, spent=None, region=None, active=None, day=None, label=None),
    "partly missing": record(y=None, region=None, spent=3.0),
    "at an edge": record(x=0.0, y=1.0, spent=64.0, day=dt.datetime(2024, 3, 1)),
    "past an edge": record(x=math.nextafter(0.0, -1.0), y=math.nextafter(1.0, 2.0), spent=math.nextafter(64.0, 0.0)),
    "duplicate": {**company()[3], "person": "new", "place": 10**6},
    "unknown category": record(region="west", label="z", day=dt.datetime(1924, 1, 1)),
}
#: One row with cells that cannot be read; the store must be able to hold text.
UNREADABLE: dict[str, Row] = {
    "unreadable": record(x="a lot", y="1.5.2", spent="-", active="perhaps", day="someday"),
    "another form": record(x="1,5", y="(2)", spent="1 000 000", active="1", day="31.12.2024"),
    "long text": record(x="9" * 400, y="1e999", spent="0x10", region="n" * 5000),
}
#: All rows of one person.
PEOPLE: dict[str, Rows] = {
    "fifty far rows": [RECORDS["far"]] * 50,
    "fifty zeros": [RECORDS["zero"]] * 50,
    "fifty corners": [RECORDS["at the corner"]] * 50,
    "fifty rows of any kind": list(itertools.islice(itertools.cycle(RECORDS.values()), 50)),
    "opposite corners": [record(x=3.0, y=3.0), record(x=-3.0, y=-3.0)],
    "all groups": [
        record(x=x, y=-x, region=region, label=label, active=x > 0, day=dt.datetime(2024, month, 15))
        for x, region, label, month in itertools.product((-2.5, 2.5), REGIONS, CLASSES, (1, 2, 3, 4))
    ],
    "without an id": [{**RECORDS["far"], "person": None}],
    "fifty without an id": [{**RECORDS["at the corner"], "person": None}] * 50,
}


def record_rows(name: str) -> Rows:
    if name in PEOPLE:
        return PEOPLE[name]
    return [RECORDS[name] if name in RECORDS else UNREADABLE[name]]


PLACES: dict[str, Callable[[int], int]] = {"start": lambda n: 0, "middle": lambda n: n // 2, "end": lambda n: n}


# -- calls ---------------------------------------------------------------------------------------------------

COLUMNS: dict[str, Any] = {
    "stated": {"x": (-3.0, 3.0), "y": (-3.0, 3.0)},
    "auto": {"x": "auto", "spent": "auto", "y": (-3.0, 3.0)},
    "mixed": {"x": (-3.0, 3.0), "y": "auto", "region": list(REGIONS), "active": bool, "day": MONTHS},
    "unnamed": None,
}
BY: dict[str, Any] = {
    "": None,
    "categories": {"region": list(REGIONS)},
    "ranges": {"spent": pais.ranges(0, 16, 64, math.inf)},
    "months": {"day": pais.months(*MONTHS)},
    "two": {"region": list(REGIONS), "active": bool},
}
#: Who is protected, and how many rows of a person count in full.
UNITS: dict[str, dict[str, Any]] = {
    "row": {},
    "person": {"unit": "person"},
    "person of 3 rows": {"unit": "person", "max_rows_per_unit": 3},
}
SAMPLINGS: dict[str, dict[str, Any]] = {
    "none": {"sampling": "none"},
    "constrained": {"sampling": "constrained"},
    "constrained 40": {"sampling": "constrained", "sample_size": 40},
    "uniform": {"sampling": "uniform", "sample_size": 60},
    "coreset": {"sampling": "coreset", "sample_size": 60},
    "half": {"sampling": pais.UniformRule(rate=0.5)},
}


def own_probability(norm: Floats) -> Floats:
    """A user's rule; it rises and falls."""
    return np.asarray(0.5 + 0.4 * np.square(np.sin(2.0 * norm)))


RULES: dict[str, pais.Rule] = {
    "none": pais.UniformRule(rate=1.0),
    "uniform": pais.UniformRule(rate=0.5),
    "coreset": pais.CoresetRule(sample_size=60.0, n_rows=150.0, mean_square_norm=2.0, radius=RADIUS),
    "constrained": pais.ConstrainedRule(profile=pais.LinearProfile(0.2, 0.2), radius=RADIUS, epsilon=1.0),
    "own": pais.FunctionRule(function=own_probability, radius=RADIUS),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A call, a table without a record, the record and its place.

    Attributes
    ----------
    what : str
        Name in `SUBJECTS`.
    epsilon : float or None
        The budget; None if the noise is given.
    columns, by, unit, missing, sampling : str
        Names in `COLUMNS`, `BY`, `UNITS` and the subject's samplings; the option `missing` of the call.
    store, company, record, place : str
        Where the rows are, the rows of the others (a name in `COMPANIES`), the record, and its place among them.
    """

    what: str
    epsilon: float | None
    columns: str
    by: str
    unit: str
    missing: str
    sampling: str
    store: str
    company: str
    record: str
    place: str

    @property
    def name(self) -> str:
        by = f"by {self.by}" if self.by else ""
        kept = "" if self.sampling == "none" else self.sampling
        missing = "" if self.missing == "drop" else self.missing
        epsilon = "" if self.epsilon is None else f"epsilon {self.epsilon:g}"
        words = (self.what, epsilon, self.columns, by, f"per {self.unit}", missing, kept, self.store)
        return ", ".join(word for word in (*words, f"{self.record} at the {self.place} of {self.company}") if word)

    @property
    def subject(self) -> Subject:
        return SUBJECTS[self.what]

    def options(self, seed: Any) -> dict[str, Any]:
        """Arguments of the call."""
        chosen = {**UNITS[self.unit], "missing": self.missing, "random_state": seed}
        if self.epsilon is not None:
            chosen["epsilon"] = self.epsilon
        if self.columns != "unnamed":
            chosen["columns"] = COLUMNS[self.columns]
        if self.by:
            chosen["by"] = BY[self.by]
        return {**chosen, **self.subject.samplings[self.sampling]}

    def replayed(self, *, seeds: Sequence[int] = (0,), pushes: Sequence[float] = (0.0, 3.0)) -> ReplayReport:
        """Replay the call with the record and without it."""
        new, others = record_rows(self.record), COMPANIES[self.company]()
        place = PLACES[self.place](len(others))
        present = [*others[:place], *new, *others[place:]]
        subject, store = self.subject, {**STORES, **ONCE, **ARRAYS}[self.store]
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # replay compares the warnings of the runs

            def call(rows: Rows, seed: Any) -> Any:
                return subject.run(store(rows, Path(folder)), **self.options(seed))

            claimed = None if subject.certified else self.epsilon
            return replay(call, present, others, epsilon=claimed, seeds=seeds, pushes=pushes)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A call of the package, and the parts that it can be combined with.

    Attributes
    ----------
    family : str
        The mechanism, by which the table of ``make audit`` is grouped.
    run : callable
        ``run(rows, **options)``: the call.
    one_pass : tuple of str
        Samplings for which one pass over rows suffices if all bounds are stated.
    samples_people : bool
        Whether the call takes a sample of people. Totals about people use all of them.
    certified : bool
        Whether the result has a certificate. If not, the price is the budget.
    """

    family: str
    run: Callable[..., Any]
    epsilons: tuple[float | None, ...] = (1.0, 10.0)
    columns: tuple[str, ...] = ("stated", "auto", "mixed")
    bys: tuple[str, ...] = ("",)
    units: tuple[str, ...] = tuple(UNITS)
    missing: tuple[str, ...] = ("drop", "midpoint", "error")
    samplings: Mapping[str, dict[str, Any]] = field(default_factory=lambda: SAMPLINGS)
    stores: tuple[str, ...] = tuple(STORES)
    one_pass: tuple[str, ...] = ()
    samples_people: bool = True
    certified: bool = True


# -- estimators ----------------------------------------------------------------------------------------------


def estimator(model: Callable[..., Any], **arguments: Any) -> Callable[..., Any]:
    return lambda rows, **options: model(**arguments, **options).fit(rows)


def paper_kmeans(
    rows: Any, *, epsilon: float, random_state: Any, sampling: Any, sample_size: Any = None, **columns: Any
) -> Any:
    """The algorithm of the paper, which no estimator offers."""
    settings = pais.KMeansSettings(
        n_clusters=2,
        epsilon=epsilon,
        delta=0.0,
        mechanism="l2",
        algorithm="paper",
        n_iterations=3,
        sampling=sampling,
        sample_size=sample_size,
    )
    return pais.fit(pais.source(rows, **columns), settings, random_state=random_state)


def stated_kmeans(rows: Any, **options: Any) -> Any:
    """Radius, center and norms are stated, and the rule is the user's: nothing is surveyed."""
    norms = pais.NormDistribution.from_histogram([0.0, 0.5, 1.0, RADIUS], [50.0, 60.0, 40.0])
    stated: dict[str, Any] = {"radius": RADIUS, "center": (0.0, 0.0), "norms": norms}
    return pais.DPKMeans(n_clusters=2, **stated, **options).fit(rows)


KMEANS: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "l2": {"mechanism": "l2", "delta": 0.0},
    "laplace": {"mechanism": "laplace", "delta": 0.0},
}
_FITS: dict[str, Subject] = {
    **{
        f"kmeans {name}": Subject(family=f"k-means, {name}", run=estimator(pais.DPKMeans, n_clusters=2, **arguments))
        for name, arguments in KMEANS.items()
    },
    **{
        f"kmeans {name} of arrays": Subject(
            family=f"k-means, {name}",
            run=estimator(pais.DPKMeans, n_clusters=2, **arguments),
            columns=("unnamed",),
            units=("row",),
            missing=("drop",),
            stores=tuple(ARRAYS),
        )
        for name, arguments in KMEANS.items()
    },
    "kmeans auto": Subject(
        family="k-means, number chosen",
        run=estimator(pais.DPKMeans, n_clusters="auto", max_clusters=4),
        columns=("stated",),
    ),
    "kmeans stated": Subject(
        family="k-means, gaussian",
        run=stated_kmeans,
        columns=("stated",),
        samplings={**SAMPLINGS, "own": {"sampling": RULES["own"]}},
        one_pass=(*SAMPLINGS, "own"),
    ),
    "kmeans paper": Subject(family="k-means, paper", run=paper_kmeans, columns=("stated", "mixed")),
    "linear": Subject(family="linear regression", run=estimator(pais.DPLinearRegression, target="y")),
    "logistic": Subject(
        family="logistic regression",
        run=estimator(pais.DPLogisticRegression, target="active", classes=[False, True]),
        columns=("binary", "yes or no"),
    ),
    "logistic classes": Subject(
        family="logistic regression, classes",
        run=estimator(pais.DPLogisticRegression, target="label"),
        columns=("classes",),
    ),
    "pca": Subject(family="principal components", run=estimator(pais.DPPCA)),
    "pca of arrays": Subject(
        family="principal components",
        run=estimator(pais.DPPCA),
        columns=("unnamed",),
        units=("row",),
        missing=("drop",),
        stores=tuple(ARRAYS),
    ),
}
COLUMNS["binary"] = {"x": (-3.0, 3.0), "y": "auto", "active": bool}
COLUMNS["yes or no"] = {"x": (-3.0, 3.0), "y": (-3.0, 3.0), "active": bool}
COLUMNS["classes"] = {"x": (-3.0, 3.0), "y": (-3.0, 3.0), "label": list(CLASSES)}


# -- statistics ----------------------------------------------------------------------------------------------


def statistic(function: Callable[..., Any], *arguments: Any, **fixed: Any) -> Callable[..., Any]:
    return lambda rows, **options: function(rows, *arguments, **fixed, **options)


COLUMNS["summable"] = {"x": (-3.0, 3.0), "spent": "auto", "region": list(REGIONS), "active": bool}
COLUMNS["one"] = {"x": (-3.0, 3.0)}
COLUMNS["numbers"] = {"x": (-3.0, 3.0), "spent": "auto"}
COLUMNS["counted"] = {"x": (-3.0, 3.0), "spent": (0.0, 100.0), "region": list(REGIONS), "day": MONTHS}
_ALL_ROWS: dict[str, dict[str, Any]] = {"none": {}}
_WITHOUT_SIZE = {name: sampling for name, sampling in SAMPLINGS.items() if name != "constrained 40"}


def one_line(family: str, function: Callable[..., Any], *columns: str, **more: Any) -> Subject:
    """A statistic by no groups, or by any."""
    return Subject(
        family=family,
        run=function,
        columns=columns,
        **{
            "bys": tuple(BY),
            "samplings": _WITHOUT_SIZE,
            "one_pass": ("none",),
            **more,
        },
    )


_STATISTICS: dict[str, Subject] = {
    "count": one_line("count", statistic(pais.count), "unnamed", "counted", samples_people=False),
    "count people": one_line(
        "number of people", statistic(pais.count_people), "unnamed", units=("person",), samplings=_ALL_ROWS
    ),
    "sum": one_line("sum", statistic(pais.sum), "stated", "auto", "summable", samples_people=False),
    "mean": one_line("mean", statistic(pais.mean), "stated", "auto", "mixed"),
    "pure mean": one_line("mean", statistic(pais.mean, delta=0.0), "stated", "numbers"),
    "variance": one_line("variance", statistic(pais.variance), "stated", "auto", "mixed"),
    "histogram": one_line(
        "histogram", statistic(pais.histogram, bins=6), "stated", "counted", "mixed", samples_people=False
    ),
    "median": one_line("quantile", statistic(pais.quantile), "one", samplings=_ALL_ROWS),
    "quantile": one_line("quantile", statistic(pais.quantile, (0.25, 0.9)), "stated", "numbers", samplings=_ALL_ROWS),
    "covariance": one_line("covariance", statistic(pais.covariance), "stated", "numbers"),
    "describe": one_line("description", statistic(pais.describe), "numbers", "counted", bys=("", "categories")),
    "several statistics": one_line(
        "description", statistic(pais.describe, statistics=("count", "mean", "75%")), "numbers", bys=("", "categories")
    ),
}


def survey(rows: Any, *, epsilon: float, random_state: Any, order: float = 2.0, **options: Any) -> Any:
    """The survey as its file holds it."""
    found = pais.survey(pais.source(rows, **options), epsilon=epsilon, order=order, random_state=random_state)
    return SimpleNamespace(value={key: value for key, value in found.to_dict().items() if key != "name"})


_SURVEYS: dict[str, Subject] = {
    "survey": Subject(family="survey", run=survey, columns=("stated", "mixed"), samplings=_ALL_ROWS, certified=False),
    "survey of arrays": Subject(
        family="survey",
        run=survey,
        columns=("unnamed",),
        units=("row",),
        missing=("drop",),
        samplings={"none": {}, "l1": {"order": 1.0}},
        stores=tuple(ARRAYS),
        certified=False,
    ),
}


# -- mechanisms ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TurnedSum(Mechanism):
    """A user's mechanism with a profile of its own: the sum of w x |x|, which a row moves by the square of its norm."""

    noise: GaussianNoise
    name = "turned sum"

    @property
    def profile(self) -> pais.CustomShiftProfile:
        return pais.CustomShiftProfile(np.square, noise=self.noise.scale * (1.0 - 1e-6))

    @property
    def order(self) -> float:
        return 2.0

    def require_lattice(self, extent: pais.Extent) -> None:
        self.noise.lattice.require(extent.square)

    def measure(self, content: Any, ball: pais.Ball, bits: Any) -> Floats:
        lattice = self.noise.lattice
        lengths = np.sqrt(np.square(content.rows).sum(axis=1)) * content.weights
        steps = lattice.encode(content.rows * lengths[:, None]).sum(axis=0)
        return lattice.decode(self.noise.added_to(steps[None, :], lattice, bits)[0])


def itself(rows: Floats) -> Floats:
    return rows


def turned(rows: Floats) -> Floats:
    return np.asarray(rows * np.sqrt(np.square(rows).sum(axis=1, keepdims=True)))


def adaptive(values: tuple[Any, ...]) -> Mechanism:
    """Gradients from a place that follows from the values released so far."""
    center = np.tanh(np.sum(values, axis=0) / 150.0) if values else np.zeros(2)

    def vectors(rows: Floats) -> Floats:
        return np.asarray(np.clip(rows - center, -1.0, 1.0))

    return pais.VectorSum(vectors=vectors, bound=math.sqrt(2.0), noise=GaussianNoise(scale=12.0), n_features=2)


_GAUSSIAN = GaussianNoise(scale=8.0)
_LAPLACE = pais.laplace_noise(8.0)
_L2 = LpNoise(scale=8.0, p=2.0)
MECHANISMS: dict[str, Mechanism] = {
    "count laplace": pais.WeightedCount(noise=_LAPLACE),
    "count geometric": pais.WeightedCount(noise=pais.geometric_noise(8.0)),
    "count gaussian": pais.WeightedCount(noise=_GAUSSIAN),
    "sum laplace": pais.WeightedSum(noise=_LAPLACE),
    "sum l2": pais.WeightedSum(noise=_L2),
    "sum linf": pais.WeightedSum(noise=LpNoise(scale=8.0, p=math.inf)),
    "sum gaussian": pais.WeightedSum(noise=_GAUSSIAN),
    "mean l2": pais.WeightedMean(count_noise=_L2, sum_noise=_L2),
    "mean gaussian": pais.WeightedMean(count_noise=_GAUSSIAN, sum_noise=_GAUSSIAN),
    "joint": pais.Joint(parts=(pais.WeightedCount(noise=_GAUSSIAN), pais.WeightedSum(noise=_GAUSSIAN))),
    "second moment": pais.MomentSum(noise=GaussianNoise(scale=16.0), largest=40.0, n_rows=150.0),
    "vectors": pais.VectorSum(vectors=itself, bound=1.0, noise=_L2, n_features=2),
    "turned vectors": pais.VectorSum(
        vectors=turned, bound=np.square, noise=GaussianNoise(scale=16.0), n_features=2, protects_units=True
    ),
    "adaptive rounds": pais.AdaptiveRounds(step=adaptive, n_rounds=3),
    "own mechanism": TurnedSum(noise=GaussianNoise(scale=16.0)),
}


def ball_of(mechanism: Mechanism) -> pais.Ball:
    return pais.Ball(radius=RADIUS, order=2.0 if mechanism.order is None else mechanism.order)


def executed(mechanism: Mechanism, *, as_plan: bool) -> Callable[..., pais.Release]:
    """Run a plan, or release from a sample that was drawn before."""
    ball, delta = ball_of(mechanism), 0.0 if isinstance(mechanism.profile, pais.PureProfile) else DELTA

    def run(rows: Any, *, rule: pais.Rule, random_state: Any, **options: Any) -> pais.Release:
        engine = pais.source(rows, **options)
        if not as_plan:
            sample = pais.sample(engine, ball=ball, rule=rule, random_state=random_state)
            return pais.release(mechanism, sample, delta=delta, random_state=random_state)
        plan = pais.Plan(ball=ball, rule=rule, mechanism=mechanism, epsilon=AT_COST, delta=delta, unit=engine.unit)
        return pais.run(plan, engine, random_state=random_state)

    return run


COLUMNS["x and y"] = ["x", "y"]
_RULED: dict[str, dict[str, Any]] = {name: {"rule": rule} for name, rule in RULES.items()}
_MECHANISMS: dict[str, Subject] = {
    name: Subject(
        family=mechanism.name if isinstance(mechanism, TurnedSum) else type(mechanism).__name__,
        run=executed(mechanism, as_plan=number % 2 == 0),
        epsilons=(None,),
        columns=("x and y",),
        units=tuple(UNITS) if mechanism.is_for_units else ("row",),
        missing=("drop", "error"),
        samplings=_RULED,
        stores=tuple(name for name in STORES if name != "texts"),
        one_pass=tuple(RULES),
    )
    for number, (name, mechanism) in enumerate(MECHANISMS.items())
}
#: The coins of a sample follow from a column, so that the record can be anywhere.
_KEYED = replace(
    _MECHANISMS["mean gaussian"], samplings={name: {**rule, "key": "place"} for name, rule in _RULED.items()}
)

SUBJECTS: dict[str, Subject] = {
    **_FITS,
    **_STATISTICS,
    **_SURVEYS,
    **{f"run {name}": subject for name, subject in _MECHANISMS.items()},
    "run keyed mean": _KEYED,
}


# -- combinations --------------------------------------------------------------------------------------------

_NAMED_ONCE = ("stated", "counted", "unnamed", "x and y")


def bys_for(subject: Subject, columns: str) -> list[str]:
    """Groups by other columns than those of the values."""
    values = COLUMNS[columns] or ()
    return [by for by in subject.bys if not set(BY[by] or ()) & set(values)]


def stores_for(subject: Subject, columns: str, unit: str, missing: str, sampling: str) -> list[str]:
    once = sampling in subject.one_pass and unit == "row" and missing == "drop" and columns in _NAMED_ONCE
    return [*subject.stores, *(ONCE if once else ())]


def records_for(store: str, unit: str, missing: str) -> list[str]:
    """Records that a store can hold and that the call protects: ``missing="error"`` is outside the guarantee."""
    if missing == "error":
        return ["ordinary", "at the corner", "far", "zero", "at an edge", "duplicate"]
    found = [*RECORDS, *(PEOPLE if unit != "row" else ())]
    if store == "nested list":
        found = [name for name in found if "missing" not in name]
    return [*found, *UNREADABLE] if store in WITH_TEXT else found


def places_for(what: str, unit: str, sampling: str) -> list[str]:
    """Coins of a sample follow from the places of rows, or from the ids of people, or from a key."""
    return list(PLACES) if sampling in ("none", "l1") or unit != "row" or "keyed" in what else ["end"]


def combined(what: str, take: Callable[[Sequence[Any]], Any]) -> Case:
    """A case of a call, of parts that a function takes from lists."""
    subject = SUBJECTS[what]
    unit = take(subject.units)
    sampling = take(list(subject.samplings)) if unit == "row" or subject.samples_people else "none"
    columns, missing = take(subject.columns), take(subject.missing)
    store = take(stores_for(subject, columns, unit, missing, sampling))
    return Case(
        what=what,
        epsilon=take(subject.epsilons),
        columns=columns,
        by=take(bys_for(subject, columns)),
        unit=unit,
        missing=missing,
        sampling=sampling,
        store=store,
        company=take([name for name in COMPANIES if store != "nested list" or name != "nobody"]),
        record=take(records_for(store, unit, missing)),
        place=take(places_for(what, unit, sampling)),
    )


def drawn(rng: np.random.Generator) -> Case:
    """A random combination of parts."""

    def take(parts: Sequence[Any]) -> Any:
        return parts[int(rng.integers(len(parts)))]

    return combined(take(list(SUBJECTS)), take)


def spread(per_call: int) -> list[Case]:
    """So many cases of every call: it takes the part that it was given least often, the rarest records and stores."""
    taken: Counter[Any] = Counter()
    rng = np.random.default_rng(0)

    def take(parts: Sequence[Any]) -> Any:
        order = rng.permutation(len(parts))
        found = min((parts[place] for place in order), key=lambda part: taken[part])
        taken[found] += 1
        return found

    found, carried = {}, (*RECORDS, *UNREADABLE, *PEOPLE, *STORES, *ONCE, *ARRAYS)
    for what in SUBJECTS:
        taken = Counter({name: taken[name] for name in carried})
        for _ in range(per_call):
            case = combined(what, take)
            found[case.name] = case
    return list(found.values())


def plain(what: str, record: str, **parts: Any) -> Case:
    """A case in which all rows are used and nothing special is asked for, apart from some parts."""
    subject = SUBJECTS[what]
    simple: dict[str, Any] = {
        "epsilon": subject.epsilons[0],
        "columns": subject.columns[0],
        "by": "",
        "unit": subject.units[0],
        "missing": "drop",
        "sampling": "none",
        "store": subject.stores[0],
        "company": "others",
        "place": "end",
    }
    return Case(what=what, record=record, **{**simple, **parts})


#: A case of every mechanism, and a push, with which a record moves the totals by nearly all that was paid for.
TEETH: tuple[tuple[Case, float], ...] = (
    (plain("kmeans gaussian of arrays", "far"), 0.0),
    (plain("kmeans l2 of arrays", "at the corner"), 0.0),
    (plain("kmeans laplace of arrays", "at the corner"), 0.0),
    (plain("kmeans auto", "far", epsilon=10.0), 0.0),
    (plain("kmeans paper", "at the corner", epsilon=10.0), 0.0),
    (plain("linear", "at the corner"), 0.0),
    (plain("logistic", "far", epsilon=10.0, unit="person"), 1.0),
    (plain("logistic classes", "at the other corner", epsilon=10.0), -3.0),
    (plain("pca of arrays", "at the corner"), 0.0),
    (plain("count", "ordinary"), 0.0),
    (plain("count people", "fifty zeros"), 0.0),
    (plain("sum", "at the corner"), 0.0),
    (plain("mean", "at the corner"), 0.0),
    (plain("variance", "at the corner"), 0.0),
    (plain("histogram", "at an edge"), 0.0),
    (plain("median", "at the other corner", epsilon=10.0), -3.0),
    (plain("covariance", "far"), 0.0),
    (plain("describe", "at the corner"), 0.0),
    (plain("several statistics", "at the corner"), 0.0),
    (plain("survey", "at the corner"), 0.0),
    (plain("run count geometric", "zero"), 0.0),
    (plain("run sum laplace", "huge"), 0.0),
    (plain("run sum linf", "huge"), 0.0),
    (plain("run mean l2", "far"), 0.0),
    (plain("run joint", "far"), 0.0),
    (plain("run second moment", "overflowing"), 0.0),
    (plain("run vectors", "at the corner"), 0.0),
    (plain("run turned vectors", "at the corner"), 0.0),
    (plain("run adaptive rounds", "far"), 3.0),
    (plain("run own mechanism", "at the other corner"), 0.0),
)
