"""Private linear regression against AdaSSP (Wang, UAI 2018): test errors by sampling rule, and for middling tables.

``python -m benchmarks.regression --quick`` for a look, without ``--quick`` for the record. Seeded runs are not private;
they are here to be repeated.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress
from sklearn.linear_model import LinearRegression

import pais
from benchmarks.regression_sets import DROWNED, LARGE, SMALL, Bounds, FloatArray, LargeSet, SmallSet
from benchmarks.tables import Cell, Table, parser, run
from pais.privacy.amplification import largest_shift

DELTA = 1e-6
EPSILONS = (0.1, 1.0)

# Fits for each seed of a middling table, which differ more than those of the other tables.
DROWNED_FITS = 10
FOLDS = 10

# From this number of rows on, a small set is sampled.
MANY_ROWS, SAMPLED_SHARE = 10_000, 0.1
SHARES = (0.01, 0.05)
SAMPLINGS = ("constrained", "uniform", "coreset")

# AdaSSP: chance that its bound of the smallest eigenvalue fails.
_FAILURE = 0.05


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    if "small" in options.only:
        yield small_sets(options.data, options.seeds, progress)
    if "large" in options.only:
        yield large_sets(options.data, options.seeds, progress)
    if "drowned" in options.only:
        yield drowned_sets(options.data, DROWNED_FITS * options.seeds, progress)


def adassp(
    X: FloatArray, y: FloatArray, *, epsilon: float, delta: float, tight: bool, rng: np.random.Generator
) -> FloatArray:
    """Coefficients of AdaSSP for rows of norm at most 1 and targets within [-1, 1].

    As published, a third of the budget goes to each of the smallest eigenvalue, X'X and X'y, with the noise of the
    classical Gaussian mechanism. If `tight`, the three releases have the Gaussian shift that (epsilon, delta) allow
    together, which is the least noise for this algorithm.
    """
    d = X.shape[1]
    spread = math.log(6.0 / delta)
    scale = math.sqrt(3.0) / largest_shift(epsilon, delta) if tight else 3.0 * math.sqrt(spread) / epsilon
    moment = X.T @ X
    # A lower bound of the smallest eigenvalue, which holds with high probability.
    smallest = np.linalg.eigvalsh(moment)[0] + scale * rng.normal() - scale * math.sqrt(spread)
    ridge = max(0.0, scale * math.sqrt(d * math.log(2.0 * d * d / _FAILURE)) - max(0.0, smallest))
    noise = np.triu(rng.normal(size=(d, d)))
    noise += np.triu(noise, 1).T
    solved = np.linalg.solve(moment + scale * noise + ridge * np.eye(d), X.T @ y + scale * rng.normal(size=d))
    return np.asarray(solved)


def preprocessed(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows and targets as the authors prepare them. NOT PRIVATE: centers, deviations and bounds are those of the rows.

    Targets are centered and divided by their largest absolute value. Columns are centered and divided by their
    deviations, and every row is scaled to norm 1.
    """
    target = y - y.mean()
    deviation = X.std(axis=0)
    rows = (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    return rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-12)[:, None], target / np.abs(target).max()


def small_sets(data: Path, seeds: int, progress: Progress) -> Table:
    """Mean squared errors over ten folds, in the units of the AdaSSP paper."""
    table = Table(
        name="regression-small",
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
    published = known.published[epsilon]
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
        name="regression-large",
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


def drowned_sets(data: Path, fits: int, progress: Progress) -> Table:
    """Errors on tables in which a survey hardly sees the columns."""
    kinds = ("nothing stated", "bounds stated", "norm of a row stated", "AdaSSP, tight noise", "not private")
    table = Table(
        name="regression-drowned",
        title=f"1 - R^2 on rows held out where rows are few for their columns, delta {DELTA:g}",
        shown=("data", "rows x features", "epsilon", *kinds, "standard error", "result", "tuned on", "fits"),
    )
    task = progress.add_task("middling sets", total=len(DROWNED) * len(EPSILONS) * fits)
    for known in DROWNED:
        X, y = known.make(data)
        for epsilon in EPSILONS:
            runs = [_losses(X, y, epsilon, seed) for seed in progress.track(range(fits), task_id=task, total=fits)]
            mean = {key: _mean(runs, key) for key in kinds}
            error = np.std([run["nothing stated"] for run in runs]) / math.sqrt(fits)
            table.rows.append(
                {
                    "data": known.name,
                    "rows x features": f"{X.shape[0]:,} x {X.shape[1]}",
                    "epsilon": epsilon,
                    **{key: float(f"{loss:.3f}") for key, loss in mean.items()},
                    "standard error": float(f"{error:.3f}"),
                    "result": "met" if mean["nothing stated"] <= mean["AdaSSP, tight noise"] else "missed",
                    "tuned on": "yes" if known.tuned else "no",
                    "fits": fits,
                }
            )
    table.remarks += [
        "Nine tenths of the rows are fitted. Bounds are the 5 % and 95 % quantiles of the features and the 0.2 % and "
        "99.8 % quantiles of the target, to two digits, read off the rows at no price.",
        "AdaSSP and the fit with a stated norm read the same rows: standardized, scaled to norm 1, with centered "
        "targets within [-1, 1], all at no price. Their errors therefore have another floor. The norm is stated by a "
        "scale of 2 / sqrt(d) for each of d columns.",
        "The standard error is that of the first column. Constants of the survey were chosen on some of the tables.",
    ]
    return table


def _losses(X: FloatArray, y: FloatArray, epsilon: float, seed: int) -> dict[str, float]:
    train, test = np.split(np.random.default_rng(seed).permutation(len(y)), [int(0.9 * len(y))])
    losses = {}
    for name, columns in (("nothing stated", None), ("bounds stated", _usual_bounds(X, y))):
        model = _model(epsilon, seed, columns=columns).fit(X[train], y[train])
        losses[name] = 1.0 - _r2(model.predict(X[test]), y[test])
    rows, target = preprocessed(X, y)
    scales = {f"x{place}": 2.0 / math.sqrt(X.shape[1]) for place in range(X.shape[1])}
    model = _model(epsilon, seed, columns={**scales, "y": (-1.0, 1.0)}).fit(rows[train], target[train])
    losses["norm of a row stated"] = 1.0 - _r2(model.predict(rows[test]), target[test])
    rng = np.random.default_rng(seed)
    theta = adassp(rows[train], target[train], epsilon=epsilon, delta=DELTA, tight=True, rng=rng)
    losses["AdaSSP, tight noise"] = 1.0 - _r2(rows[test] @ theta, target[test])
    losses["not private"] = 1.0 - LinearRegression().fit(X[train], y[train]).score(X[test], y[test])
    return losses


def _usual_bounds(X: FloatArray, y: FloatArray) -> dict[str, Bounds]:
    """Bounds with two digits near quantiles of each column. NOT PRIVATE."""
    bounds = {}
    for name, cells, tail in [*((f"x{place}", cells, 0.05) for place, cells in enumerate(X.T)), ("y", y, 0.002)]:
        low, high = np.quantile(cells, [tail, 1.0 - tail]).tolist()
        if low == high:
            low, high = float(cells.min()), float(max(cells.max(), cells.min() + 1.0))
        step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
        bounds[name] = (math.floor(low / step) * step, math.ceil(high / step) * step)
    return bounds


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


if __name__ == "__main__":
    run(parser(__doc__, seeds=3, only=("small", "large", "drowned")).parse_args(), tables)
