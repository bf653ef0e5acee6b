"""Fingerprints of seeded results, for changes of structure that must not change a result.

Run ``python -m tests.support.same_results --write before.json``, change the code, and then run it with
``--compare before.json``. It prints the results that differ, and exits with 1 if there are any. Each call has one
fingerprint for its values, its certificate, its plan, its survey and its frame, so that the list shows what changed.
Texts that explain a result are left out. ``--spark`` adds calls on Spark. Fingerprints hold for one machine and one set
of packages.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import pais
from pais.data.example import REGIONS

Call = Callable[[], Any]
Calls = Iterator[tuple[str, Call]]

STATED: dict[str, object] = {
    "age": (18, 100),
    "income": (0, 250_000),
    "region": list(REGIONS),
    "premium": bool,
    "joined": (date(2010, 1, 1), date(2025, 12, 31)),
}
AUTO: dict[str, object] = {"age": (18, 100), "income": "auto", "visits": "auto"}
BY = {"region": list(REGIONS)}
UNIT = {"unit": "customer_id"}
NUMBERS = ["age", "income", "balance", "visits"]
SAMPLINGS = ("constrained", "coreset", "uniform", "none")
SEED = 3
ROWS = np.random.default_rng(0).normal(size=(4000, 3))
BALL = pais.Ball(radius=5.0)
HALF = pais.UniformRule(rate=0.5)
# Fields of files that put a result into words, or name the version that wrote it.
WORDS = {"explanation", "version"}
# A name that is drawn anew for each survey and release.
RANDOM_NAME = re.compile(r"[0-9a-f]{32}")


def fingerprint(value: object) -> str:
    digest = hashlib.sha256()
    for piece in pieces(value):
        digest.update(len(piece).to_bytes(8, "little") + piece)
    return digest.hexdigest()[:24]


def pieces(value: object) -> Iterator[bytes]:
    """The exact content of a value. Names of classes are left out, since they may change."""
    if hasattr(value, "to_csv"):
        yield value.to_csv().encode()
    elif hasattr(value, "to_dict"):
        yield from pieces(value.to_dict())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Mapping):
        for name in sorted({*value} - WORDS, key=str):
            yield str(name).encode()
            yield from pieces(value[name])
    elif isinstance(value, (list, tuple, np.ndarray)):
        yield f"{len(value)} items".encode()
        for item in value:
            yield from pieces(item)
    elif is_dataclass(value):
        yield from pieces({field.name: getattr(value, field.name) for field in fields(value) if field.name[0] != "_"})
    elif isinstance(value, float):
        yield float(value).hex().encode()
    elif value is None or isinstance(value, (str, int, date, np.generic)):
        yield RANDOM_NAME.sub("", str(value)).encode()
    else:
        raise TypeError(f"{type(value).__name__} has no fingerprint")


def shown(result: Any) -> dict[str, object]:
    """What a user can see of a result, by what it is."""
    if hasattr(result, "fit_"):
        return of_model(result)
    if isinstance(result, pais.Statistic):
        values = [result.estimates, result.standard_errors, *result.bounds(0.9), result.clipped, result.lost]
        frame = result.to_frame()
        return {
            "values": [*values, result.about],
            "certificate": result.certificate,
            "plan": result.plan,
            "frame": frame,
        }
    if isinstance(result, pais.WeightedSample):
        kept = result.spend("fingerprint")
        return {"values": [kept.rows, kept.weights, result.n_features]}
    if isinstance(result, pais.Release):
        others = {name: getattr(result, name) for name in ("plan", "survey") if hasattr(result, name)}
        return {"values": result.value, "certificate": result.certificate, **others}
    return {"values": result}


def of_model(model: Any) -> dict[str, object]:
    others = ("certificate_", "plan_", "fit_")
    values = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_") and name not in others
    }
    names = ("centers_frame", "coefficients_frame", "components_frame")
    frames = [getattr(model, name)() for name in names if hasattr(model, name)]
    frames += [model.elbow_] if isinstance(model, pais.DPKMeans) else []
    return {
        "values": values,
        "certificate": model.certificate_,
        "plan": model.plan_,
        "survey": model.fit_.survey,
        "frame": frames,
    }


def clusters(rows: object, **changes: Any) -> Call:
    return lambda: pais.DPKMeans(**{"n_clusters": 4, "epsilon": 3.0, "random_state": SEED, **changes}).fit(rows)


def line(rows: object, **changes: Any) -> Call:
    stated: dict[str, Any] = {"target": "income", "columns": STATED, "epsilon": 3.0, "random_state": SEED}
    return lambda: pais.DPLinearRegression(**stated | changes).fit(rows)


def classes(rows: object, **changes: Any) -> Call:
    stated: dict[str, Any] = {"target": "premium", "columns": STATED, "epsilon": 3.0, "random_state": SEED}
    return lambda: pais.DPLogisticRegression(**stated | changes).fit(rows)


def components(rows: object, **changes: Any) -> Call:
    return lambda: pais.DPPCA(**{"columns": STATED, "epsilon": 3.0, "random_state": SEED, **changes}).fit(rows)


def estimators(table: pa.Table) -> Calls:
    """Every estimator with every kind of setting, on rows in memory."""
    numbers = np.column_stack([table[name].to_numpy() for name in NUMBERS]) / [10.0, 1e4, 1e3, 1.0]
    for mechanism, sampling in itertools.product(("gaussian", "laplace", "l2"), SAMPLINGS):
        yield f"k-means, {mechanism}, {sampling}", clusters(numbers, mechanism=mechanism, sampling=sampling)
    norms = pais.NormDistribution.from_histogram(range(41), [len(numbers) / 40] * 40)
    yield "k-means, stated facts", clusters(numbers, radius=40.0, norms=norms, delta=1e-6)
    yield "k-means, quantile", clusters(numbers, quantile=0.9)
    yield "k-means, own rule", clusters(numbers, radius=40.0, norms=norms, sampling=pais.UniformRule(rate=0.5))
    yield "k-means, number of clusters", clusters(numbers, n_clusters="auto", max_clusters=8)
    yield "k-means, other number", lambda: clusters(numbers, epsilon=5.0)().with_clusters(3)
    yield "k-means, midpoint", clusters(table, columns=STATED, missing="midpoint")
    people = table.to_pandas()
    auto: dict[str, object] = {"region": STATED["region"], "premium": bool, **AUTO}
    for name, fit in {"k-means": clusters, "linear": line, "logistic": classes, "pca": components}.items():
        yield f"{name}, stated", fit(people, columns=STATED)
        yield f"{name}, auto", fit(table, columns=auto)
        yield f"{name}, unit", fit(table, columns=STATED, **UNIT)
        yield f"{name}, unit with stated rows", fit(table, columns=STATED, max_rows_per_unit=3, **UNIT)
        yield f"{name}, auto and unit", fit(table, columns=auto, **UNIT)
        yield f"{name}, small sample", fit(table, columns=STATED, sample_size=1000)
        yield f"{name}, free sample", fit(table, columns=STATED, sample_size="free")
    for sampling in SAMPLINGS[1:]:
        yield f"linear, {sampling}", line(table, sampling=sampling)
        yield f"logistic, {sampling}", classes(table, sampling=sampling)
        yield f"pca, {sampling}", components(table, sampling=sampling)
    yield "linear, midpoint", line(table, missing="midpoint")
    yield "linear, alpha", line(table, alpha=0.1, fit_intercept=False)
    arrays = pais.DPLinearRegression(epsilon=3.0, random_state=SEED)
    yield "linear, arrays", lambda: arrays.fit(numbers[:, :3], numbers[:, 3])
    yield "logistic, midpoint", classes(table, missing="midpoint")
    yield "logistic, several classes", classes(table, target="region")
    yield "pca, midpoint", components(table, missing="midpoint")
    yield "pca, share of the variance", components(table, n_components=0.8, whiten=True)
    yield "pca, array", components(numbers, columns=None)


def statistics(table: pa.Table) -> Calls:
    """Every statistic: stated and "auto" columns, groups, people, samples."""
    wide = {name: STATED[name] for name in ("age", "income", "premium")}
    common: dict[str, Any] = {"epsilon": 2.0, "random_state": SEED}
    ways: dict[str, dict[str, Any]] = {
        "stated": {"columns": STATED},
        "auto": {"columns": AUTO},
        "groups": {"columns": wide, "by": BY},
        "unit": {"columns": wide, **UNIT},
        "unit with stated rows": {"columns": wide, "max_rows_per_unit": 4, **UNIT},
        "auto, groups and unit": {"columns": AUTO, "by": BY, **UNIT},
        "pure": {"columns": wide, "delta": 0.0},
        "auto, pure": {"columns": AUTO, "delta": 0.0},
        # With few columns, Gaussian noise is the smaller one only at a large delta.
        "Gaussian": {"columns": wide, "delta": 0.1},
        "auto, Gaussian": {"columns": AUTO, "delta": 0.1},
        "auto, unit, Gaussian": {"columns": AUTO, "delta": 0.1, **UNIT},
        "midpoint": {"columns": wide, "missing": "midpoint"},
    }
    # Dates have no sum, and categories have no covariance.
    defined = {"sum": wide, "covariance": {**wide, "joined": STATED["joined"]}}
    sampled = {name: {"columns": wide, "sampling": name, "sample_size": 2000} for name in SAMPLINGS[:3]}
    for statistic in ("mean", "count", "sum", "variance", "histogram", "covariance", "describe"):
        for name, way in {**ways, **sampled}.items():
            columns = defined.get(statistic, STATED) if name == "stated" else way["columns"]
            yield f"{statistic}, {name}", one(statistic, table, {**common, **way, "columns": columns})
    numbers = {name: STATED[name] for name in ("age", "income", "joined")}
    for name in ("stated", "auto", "groups", "unit", "auto, groups and unit"):
        way = ways[name] if "auto" in name else ways[name] | {"columns": numbers}
        yield f"quantile, {name}", one("quantile", table, common | way | {"q": [0.25, 0.5, 0.9]})
    yield "quantile, step", one("quantile", table, common | {"columns": {"age": (18, 100)}, "step": 1.0})
    yield "histogram, edges", one("histogram", table, common | {"columns": {"age": (18, 100)}, "bins": [18, 30, 100]})
    yield "count, rows", one("count", table, common)
    yield "count_people", one("count_people", table, common | UNIT)
    yield "count_people, groups", one("count_people", table, common | UNIT | {"by": BY})
    yield "mean, one array", one("mean", table["age"].to_numpy(), common | {"columns": (18, 100)})


def one(statistic: str, rows: object, arguments: dict[str, Any]) -> Call:
    return lambda: getattr(pais, statistic)(rows, **arguments)


def steps(table: pa.Table) -> Calls:
    """`survey`, `plan_kmeans`, `run`, `sample`, `calibrate`, `cost`, and what a ledger records."""
    opened = pais.source(table, columns=STATED, unit="customer_id")
    yield "survey", functools.partial(pais.survey, ROWS, epsilon=0.5, random_state=SEED)
    stated: dict[str, Any] = {"epsilon": 0.5, "center": (0.0, 0.0, 0.0), "quantile": 0.9, "random_state": SEED}
    yield "survey, stated center", functools.partial(pais.survey, ROWS, **stated)
    auto = pais.source(table, columns=AUTO)
    yield "survey, auto", functools.partial(pais.survey, auto, epsilon=0.5, random_state=SEED)
    yield "survey, unit", functools.partial(pais.survey, opened, epsilon=0.5, order=1.0, random_state=SEED)
    norms = pais.NormDistribution.from_histogram(range(6), [800] * 5)
    profile = pais.GaussianProfile(count_scale=1.0, sum_scale=5.0)
    for sampling in SAMPLINGS:
        asked: dict[str, Any] = {"norms": norms, "epsilon": 1.0, "delta": 1e-6, "sampling": sampling}
        plan = pais.plan_kmeans(n_clusters=3, n_features=3, ball=BALL, **asked)
        yield f"plan, {sampling}", functools.partial(pais.plan_kmeans, n_clusters=4, n_features=3, ball=BALL, **asked)
        yield f"run, {sampling}", functools.partial(pais.run, plan, ROWS, random_state=SEED)
        size = None if sampling == "none" else 1000
        yield f"calibration, {sampling}", functools.partial(pais.calibrate, profile=profile, sample_size=size, **asked)
    facts = pais.Facts.from_own(pais.survey(ROWS, epsilon=0.1, random_state=SEED))
    yield "plan from a survey", lambda: pais.KMeansSettings(n_clusters=3, epsilon=1.0).plan(facts, 3)
    rules: dict[str, pais.Rule] = {
        "uniform": HALF,
        "coreset": pais.CoresetRule(sample_size=800.0, n_rows=4000.0, mean_square_norm=3.0, radius=5.0),
    }
    for (name, rule), way in itertools.product(rules.items(), ("pass", "thin")):
        how: dict[str, Any] = {"ball": BALL, "rule": rule, "strategy": way, "random_state": SEED}
        yield f"sample, {name}, {way}", functools.partial(pais.sample, ROWS, **how)
    yield "sample, unit", functools.partial(pais.sample, opened, ball=BALL, rule=HALF, random_state=SEED)
    yield "ledger", charged
    yield "cost", functools.partial(pais.cost, ROWS, np.eye(3))


def releases() -> Calls:
    """`release` for each mechanism of sums, with each noise law."""
    noise, pure = pais.GaussianNoise(scale=3.0), pais.laplace_noise(20.0)
    sums = pais.WeightedSum(noise=noise)
    vectors = pais.VectorSum(vectors=itself, bound=itself, noise=noise, n_features=3, order=2.0)
    mechanisms: dict[str, tuple[pais.Mechanism, float]] = {
        "count": (pais.WeightedCount(noise=pure), 1.0),
        "geometric count": (pais.WeightedCount(noise=pais.geometric_noise(20.0)), 1.0),
        "sum": (sums, 2.0),
        "sum, order 3": (pais.WeightedSum(noise=pais.LpNoise(scale=5.0, p=3.0)), 3.0),
        "mean": (pais.WeightedMean(count_noise=noise, sum_noise=noise), 2.0),
        "joint": (pais.Joint(parts=(pais.WeightedCount(noise=noise), sums)), 2.0),
        "vectors": (vectors, 2.0),
    }
    for name, (mechanism, order) in mechanisms.items():
        yield f"release, {name}", functools.partial(released, mechanism, order)


def released(mechanism: pais.Mechanism, order: float) -> pais.Release:
    kept = pais.sample(ROWS, ball=pais.Ball(radius=5.0, order=order), rule=HALF, random_state=SEED)
    return pais.release(mechanism, kept, delta=1e-6 if order == 2.0 else 0.0, random_state=SEED)


def itself(values: Any) -> Any:
    return values


def charged() -> object:
    """What a ledger holds after a fit and a survey."""
    ledger = pais.Ledger(epsilon=10.0, delta=1e-3)
    clusters(ROWS, ledger=ledger)()
    pais.survey(ROWS, epsilon=0.5, random_state=SEED, ledger=ledger)
    return [ledger.spent, ledger.remaining, *(entry.parts for entry in ledger.entries)]


def sources(layouts: Mapping[str, object]) -> Calls:
    """The same calls on rows from several places."""
    common: dict[str, Any] = {"epsilon": 2.0, "random_state": SEED}
    for layout, rows in layouts.items():
        yield f"{layout}: k-means", clusters(rows, columns=NUMBERS)
        yield f"{layout}: k-means, auto and unit", clusters(rows, columns=AUTO, **UNIT)
        yield f"{layout}: linear, unit", line(rows, **UNIT)
        yield f"{layout}: logistic, small sample", classes(rows, sample_size=1000)
        yield f"{layout}: pca, auto", components(rows, columns=AUTO)
        yield f"{layout}: mean, groups", one("mean", rows, common | {"columns": AUTO, "by": BY})
        yield f"{layout}: sum, unit", one("sum", rows, common | {"columns": AUTO} | UNIT)
        yield f"{layout}: describe", one("describe", rows, common | {"columns": {"age": (18, 100)}})
        yield f"{layout}: quantile", one("quantile", rows, common | {"columns": {"age": (18, 100), "income": "auto"}})
        yield f"{layout}: count_people", one("count_people", rows, common | UNIT | {"by": BY})


def spark_rows(path: Path) -> object:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "OFF").config("spark.sql.shuffle.partitions", "3").getOrCreate()
    return session.read.parquet(str(path)).repartition(3)


def fingerprints(home: Path, *, spark: bool) -> dict[str, str]:
    table = pais.example_people(2000, 3.0, random_state=1)
    pq.write_table(table, home / "people.parquet", row_group_size=700)
    pa_csv.write_csv(table, home / "people.csv")
    layouts: dict[str, object] = {
        "pandas": table.to_pandas(),
        "arrow": table,
        "parquet": home / "people.parquet",
        "csv": home / "people.csv",
    }
    if spark:
        layouts["spark"] = spark_rows(home / "people.parquet")
    found: dict[str, str] = {}
    calls = (estimators(table), statistics(table), steps(table), releases(), sources(layouts))
    for name, call in itertools.chain(*calls):
        found |= {f"{name}: {part}": fingerprint(value) for part, value in shown(call()).items()}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the fingerprints as JSON")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="print what differs from this file")
    parser.add_argument("--spark", action="store_true", help="also read the rows on Spark")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as home:
        found = fingerprints(Path(home), spark=options.spark)
    if options.write is not None:
        options.write.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    if options.compare is None:
        print(f"{len(found)} fingerprints; all of them: {fingerprint(found)}")
        return 0
    before = json.loads(options.compare.read_text())
    if not options.spark:
        before = {name: value for name, value in before.items() if not name.startswith("spark: ")}
    different = sorted(name for name in {*before, *found} if before.get(name) != found.get(name))
    for name in different:
        state = "gone" if name not in found else "new" if name not in before else "differs"
        print(f"{state}: {name}")
    print(f"{len(different)} of {len(found)} fingerprints differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
