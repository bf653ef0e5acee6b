"""Private linear regression against AdaSSP: test errors on ten data sets, sampling rules, and time.

``python -m benchmarks.regression --quick`` for a look, without ``--quick`` for the record. Seeded runs are not private;
they are here to be repeated.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from sklearn.linear_model import LinearRegression

import pais
from benchmarks.adassp import adassp, preprocessed
from benchmarks.regression_sets import LARGE, SMALL, FloatArray, LargeSet, SmallSet
from benchmarks.state import source_state
from benchmarks.tables import Cell, Table, verdict
from benchmarks.timing import Run, compared, interleaved

DELTA = 1e-6
EPSILONS = (0.1, 1.0)
FOLDS = 10
TABLES = ("small", "large", "time")

# From this number of rows on, a small set is sampled.
MANY_ROWS, SAMPLED_SHARE = 10_000, 0.1
SHARES = (0.01, 0.05)
SAMPLINGS = ("constrained", "uniform", "coreset")

# The rows of Covertype that the paper keeps.
TIMED_ROWS = 566_486
# With stated bounds, over scikit-learn.
TIME_TARGET = 0.5


def main() -> None:
    options = arguments()
    console = Console(highlight=False)
    # Before the runs: the sources may be edited meanwhile.
    state = source_state()
    # The fits are many, no ledger holds them, and some deltas are large for their rows.
    warnings.simplefilter("ignore", UserWarning)
    seeds = 1 if options.quick else options.seeds
    with Progress(console=console, transient=True) as progress:
        tables = {
            "small": lambda: small_sets(options.data, seeds, progress),
            "large": lambda: large_sets(options.data, seeds, progress),
            "time": lambda: speed(options.data, 2 if options.quick else options.repeats),
        }
        for name in options.only:
            table = tables[name]()
            table.remarks.append(f"Measured at {state}.")
            table.publish(options.out, console)


def small_sets(data: Path, seeds: int, progress: Progress) -> Table:
    """Mean squared errors over ten folds, in the units of the AdaSSP paper."""
    table = Table(
        name="small",
        prefix="regression-",
        title=f"Test error on the sets of the AdaSSP paper, delta {DELTA:g}",
        shown=(
            *("data", "rows x features", "epsilon", "pais", "share of rows", "pais, nothing stated"),
            *("AdaSSP, published", "AdaSSP, repeated", "AdaSSP, tight noise", "not private", "result"),
        ),
    )
    task = progress.add_task("small sets", total=len(SMALL) * len(EPSILONS) * seeds * FOLDS)
    for known in SMALL:
        X, y = known.load(data)
        for epsilon in EPSILONS:
            errors = [
                _fold_errors(known, X, y, epsilon, seed, test)
                for seed in range(seeds)
                for test in progress.track(_folds(len(y), seed), task_id=task)
            ]
            table.rows.append(_small_row(known, X, epsilon, {key: _mean(errors, key) for key in errors[0]}))
    table.remarks += [
        f"Mean squared error of the target, centered and divided by its largest absolute value, over {FOLDS} folds and "
        f"{seeds} repetitions.",
        "pais reads raw columns with the bounds stated in `benchmarks/regression_sets.py`: round numbers near the 5 % "
        "and 95 % quantiles of a feature and near the ends of the target. They were read off "
        "the data, at no price, because we do not know these quantities as their owners do. The survey of norms is in "
        "the price. "
        '"nothing stated" finds means and deviations of all columns in the price.',
        "AdaSSP reads columns that were standardized, and targets that were centered, with the values of the rows "
        "themselves, at no price; every row is scaled to norm 1. Its errors therefore have another floor.",
    ]
    return table


def _fold_errors(
    known: SmallSet, X: FloatArray, y: FloatArray, epsilon: float, seed: int, test: NDArray[np.intp]
) -> dict[str, float]:
    train = np.delete(np.arange(len(y)), test)
    size = SAMPLED_SHARE * len(train) if len(y) >= MANY_ROWS else None
    scale = float(np.abs(y - y.mean()).max())
    errors = {}
    for name, columns in (("pais", known.columns), ("pais, nothing stated", None)):
        model = _model(epsilon, seed * FOLDS + int(test[0]), columns=columns, sample_size=size)
        model.fit(X[train], y[train])
        errors[name] = float(np.mean(np.square(model.predict(X[test]) - y[test]))) / scale**2
        if columns is not None:
            errors["share of rows"] = _share(model, len(train))
    rows, target = preprocessed(X, y)
    rng = np.random.default_rng([seed, int(test[0])])
    for name, tight in (("AdaSSP, repeated", False), ("AdaSSP, tight noise", True)):
        theta = adassp(rows[train], target[train], epsilon=epsilon, delta=DELTA, tight=tight, rng=rng)
        errors[name] = float(np.mean(np.square(rows[test] @ theta - target[test])))
    predicted = LinearRegression().fit(X[train], y[train]).predict(X[test])
    errors["not private"] = float(np.mean(np.square(predicted - y[test]))) / scale**2
    return errors


def _small_row(known: SmallSet, X: FloatArray, epsilon: float, errors: dict[str, float]) -> dict[str, Cell]:
    published = known.published.adassp[epsilon]
    best = min(published, errors["AdaSSP, tight noise"])
    return {
        "data": known.name,
        "rows x features": f"{X.shape[0]:,} x {X.shape[1]}",
        "epsilon": epsilon,
        **{name: float(f"{error:.4f}") for name, error in errors.items()},
        "share of rows": f"{100.0 * errors['share of rows']:.0f} %",
        "AdaSSP, published": published,
        "result": "met" if errors["pais"] < best else "missed",
    }


def large_sets(data: Path, seeds: int, progress: Progress) -> Table:
    """R^2 of sampled regressions with all columns found privately."""
    table = Table(
        name="large",
        prefix="regression-",
        title=f"R^2 on rows held out, nothing stated, delta {DELTA:g}",
        shown=(
            *("data", "rows x features", "epsilon", "share of rows", "constrained", "uniform", "coreset", "all rows"),
            *("AdaSSP, repeated", "AdaSSP, tight noise", "not private", "goal", "result", "seeds"),
        ),
    )
    task = progress.add_task("large sets", total=len(LARGE) * len(EPSILONS) * seeds)
    for known in LARGE:
        X, y = known.load(data)
        for epsilon in EPSILONS:
            scores = [_scores(X, y, epsilon, seed) for seed in progress.track(range(seeds), task_id=task, total=seeds)]
            mean = {key: _mean(scores, key) for key in scores[0]}
            table.rows += [{**_large_row(known, X, epsilon, share, mean), "seeds": seeds} for share in SHARES]
    table.remarks += [
        'Nine tenths of the rows are fitted; mean over the seeds. All columns are "auto": the survey of means, '
        "deviations and norms is in the price.",
        "AdaSSP uses all rows, standardized with the values of the rows themselves, at no price.",
    ]
    return table


def _scores(X: FloatArray, y: FloatArray, epsilon: float, seed: int) -> dict[str, float]:
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [int(0.9 * len(y))])
    scores = {}
    for share in SHARES:
        for sampling in SAMPLINGS:
            model = _model(epsilon, seed, sampling=sampling, sample_size=share * len(train))
            scores[f"{sampling} {share}"] = model.fit(X[train], y[train]).score(X[test], y[test])
    scores["all rows"] = _model(epsilon, seed, sampling="none").fit(X[train], y[train]).score(X[test], y[test])
    rows, target = preprocessed(X, y)
    rng = np.random.default_rng(seed)
    for name, tight in (("AdaSSP, repeated", False), ("AdaSSP, tight noise", True)):
        theta = adassp(rows[train], target[train], epsilon=epsilon, delta=DELTA, tight=tight, rng=rng)
        scores[name] = _r2(rows[test] @ theta, target[test])
    scores["not private"] = LinearRegression().fit(X[train], y[train]).score(X[test], y[test])
    return scores


def _large_row(
    known: LargeSet, X: FloatArray, epsilon: float, share: float, scores: dict[str, float]
) -> dict[str, Cell]:
    sampled = {name: float(f"{scores[f'{name} {share}']:.4f}") for name in SAMPLINGS}
    others = {name: float(f"{scores[name]:.4f}") for name in scores if " 0." not in name}
    best = max(sampled["uniform"], sampled["coreset"])
    goal = known.goal if epsilon == min(EPSILONS) and share == max(SHARES) else None
    met = sampled["constrained"] >= best and (goal is None or sampled["constrained"] >= goal)
    return {
        "data": known.name,
        "rows x features": f"{X.shape[0]:,} x {X.shape[1]}",
        "epsilon": epsilon,
        "share of rows": f"{100.0 * share:.0f} %",
        **sampled,
        **others,
        "goal": goal,
        "result": "met" if met else "missed",
    }


def speed(data: Path, repeats: int) -> Table:
    """Time of a fit against scikit-learn on all rows."""
    X, y = LARGE[-1].load(data)
    # As many features as the paper has, which are those and the target again.
    X, y = np.column_stack([X, y])[:TIMED_ROWS], y[:TIMED_ROWS]
    stated = {f"x{place}": (float(low), float(high)) for place, (low, high) in enumerate(_ranges(X))}
    columns = {**stated, "y": (float(y.min()), float(y.max()))}
    size = max(SHARES) * len(y)
    sklearn = "scikit-learn LinearRegression"
    jobs: dict[str, Run] = {
        sklearn: lambda _: LinearRegression().fit(X, y),
        "pais, bounds stated": lambda turn: _timed(turn, columns=columns).fit(X, y),
        "pais, bounds stated, 5 % of the rows": lambda turn: _timed(turn, columns=columns, sample_size=size).fit(X, y),
        "pais, nothing stated": lambda turn: _timed(turn).fit(X, y),
    }
    seconds = interleaved(jobs, range(repeats))
    table = Table(
        name="time",
        prefix="regression-",
        title=f"Time of a fit on {X.shape[0]:,} x {X.shape[1]} in memory",
        shown=("fit", "ms", "ms, quartiles", "of minima", "of work", "ratio", "target", "result"),
        remarks=[
            f"Medians of {repeats} turns in shuffled order, secure randomness. Ratio: the median of the ratios to "
            "scikit-learn in a turn. Of minima: smallest time over smallest time. Of work: ratio of the seconds of all "
            "threads together, which other work on the machine changes less.",
        ],
    )
    for name, times in seconds.items():
        ratios, target = compared(times, seconds[sklearn]), TIME_TARGET if name == "pais, bounds stated" else None
        result = verdict(float(str(ratios["ratio"])), target)
        table.rows.append({"fit": name, **ratios, "target": target, "result": result})
    return table


def _timed(turn: int, **settings: Any) -> pais.DPLinearRegression:
    return _model(1.0 + 1e-6 * turn, None, **settings)


def _ranges(X: FloatArray) -> FloatArray:
    low, high = X.min(axis=0), X.max(axis=0)
    return np.column_stack([low, np.where(high > low, high, low + 1.0)])


def _model(epsilon: float, seed: int | None, **settings: Any) -> pais.DPLinearRegression:
    return pais.DPLinearRegression(epsilon=epsilon, delta=DELTA, random_state=seed, **settings)


def _share(model: pais.DPLinearRegression, n_rows: int) -> float:
    """Expected share of the rows in the sample."""
    norms = model.plan_.norms
    assert norms is not None
    return min(1.0, norms.expected_size(model.plan_.rule) / norms.n_rows)


def _folds(n_rows: int, seed: int) -> list[NDArray[np.intp]]:
    return np.array_split(np.random.default_rng(seed).permutation(n_rows), FOLDS)


def _r2(predicted: FloatArray, truth: FloatArray) -> float:
    return 1.0 - float(np.mean(np.square(predicted - truth)) / truth.var())


def _mean(results: list[dict[str, float]], key: str) -> float:
    return float(np.mean([result[key] for result in results]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--seeds", type=int, default=3, help="repetitions")
    parser.add_argument("--repeats", type=int, default=7, help="turns of the table of times")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES, help="tables")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory of the Parquet files")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where the tables are written")
    return parser.parse_args()


if __name__ == "__main__":
    main()
