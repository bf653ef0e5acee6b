"""Training with weighted batches against uniform Poisson sampling: gradients, noise, accuracy and log-loss.

``python -m benchmarks.training --quick`` for a look, without ``--quick`` for the record. Seeded runs are not private;
they are here to be repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from dp_accounting.pld import privacy_loss_distribution
from numpy.typing import NDArray
from rich.progress import Progress
from scipy import special
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from benchmarks.tables import Cell, Table, parser, run
from pais import training
from pais.training import TrainingPlan

FloatArray = NDArray[np.float64]

DELTA = 1e-6
STEPS = (100, 1_000, 10_000)
RATE = 0.01
EPSILON = 2.0
N_BINS = 12

# Training: steps, share of the records in a uniform batch, and what is tuned for each method alike.
T, SHARE = 200, 0.01
SPEEDS, CUTS = (0.5, 1.0, 2.0, 4.0), (0.9,)
TUNING_SEEDS = (1_000, 1_001)
MOST_ROWS = 50_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """Rows with a label; the model is a logistic regression, whose bounds clip nothing."""

    name: str
    X: FloatArray
    y: FloatArray

    @cached_property
    def rows(self) -> FloatArray:
        return np.column_stack([self.X, np.ones(len(self.X))])

    @property
    def bound(self) -> training.bounds.Bound:
        return training.FeatureNorm()

    @cached_property
    def bounds(self) -> FloatArray:
        return np.asarray(training.bounds.bounds_of(self.bound, (self.X, self.y)))

    def start(self) -> FloatArray:
        return np.zeros(self.rows.shape[1])

    def gradients(self, w: FloatArray, index: NDArray[np.int64]) -> FloatArray:
        rows = self.rows[index]
        return np.asarray((special.expit(rows @ w) - self.y[index])[:, None] * rows)

    def chances(self, w: FloatArray) -> FloatArray:
        chance = special.expit(self.rows @ w)
        return np.column_stack([1.0 - chance, chance])

    def part(self, index: NDArray[np.int64]) -> Records:
        return type(self)(name=self.name, X=self.X[index], y=self.y[index])


class Images(Records):
    """Images of ten classes; the model is a network, whose bounds are gradient norms at its public start."""

    @property
    def bound(self) -> training.bounds.Bound:
        return training.GradientNorm(gradients=lambda X, y: self._gradients(self.start(), X, y), factor=1.0)

    def start(self) -> FloatArray:
        rng = np.random.default_rng(1)
        return np.concatenate([rng.normal(scale=0.125, size=64 * 32), rng.normal(scale=0.17, size=32 * 10)])

    @staticmethod
    def _gradients(w: FloatArray, X: FloatArray, y: FloatArray) -> FloatArray:
        V, W = w[: 64 * 32].reshape(64, 32), w[64 * 32 :].reshape(32, 10)
        first, second = _network(X, y.astype(np.int64), V, W)
        return np.concatenate([first.reshape(len(X), -1), second.reshape(len(X), -1)], axis=1)

    def gradients(self, w: FloatArray, index: NDArray[np.int64]) -> FloatArray:
        return self._gradients(w, self.X[index], self.y[index])

    def chances(self, w: FloatArray) -> FloatArray:
        hidden = np.maximum(self.X @ w[: 64 * 32].reshape(64, 32), 0.0)
        return np.asarray(special.softmax(hidden @ w[64 * 32 :].reshape(32, 10), axis=1))


def linear_sets(directory: Path) -> list[Records]:
    """Tables for logistic regression; numbers are divided by their deviation, which is taken as public."""
    adult = pq.read_table(directory / "adult.parquet")
    columns = []
    for name in adult.column_names:
        cells = adult.column(name).to_numpy(zero_copy_only=False)
        if name == "income_class":
            y = (cells == ">50K").astype(np.float64)
        elif cells.dtype.kind in "if":
            columns.append(_scaled(cells.astype(np.float64)))
        else:
            columns += [(cells == value).astype(np.float64) for value in sorted({*map(str, cells)})]
    found = [Records(name="Adult", X=np.column_stack(columns), y=y)]
    for title, file, target, threshold in (
        ("Covertype", "covertype", 0, 3000.0),
        ("Ijcnn1", "ijcnn1", 12, 0.0),
    ):
        table = pq.read_table(directory / f"{file}.parquet")
        X = np.column_stack([column.to_numpy() for column in table.columns])
        X = X / 10.0 ** int(table.schema.metadata[b"decimals"])
        label = (X[:, target] > threshold).astype(np.float64)
        rest = np.delete(X, target, axis=1)
        parts = [_scaled(part) if np.unique(part).size > 2 else part for part in rest.T]
        found.append(Records(name=title, X=np.column_stack(parts), y=label))
    return found


def _scaled(column: FloatArray) -> FloatArray:
    whole = np.where(np.isfinite(column), column, 0.0)
    return np.asarray((whole - whole.mean()) / max(float(whole.std()), 1e-9))


def images(n: int = 6_000) -> tuple[FloatArray, NDArray[np.int64]]:
    """Images of ten made-up classes: shapes with blur, brightness and noise of very different strength."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 10, n)
    shapes = rng.normal(size=(10, 8, 8)).cumsum(axis=1).cumsum(axis=2)
    shapes /= np.abs(shapes).max(axis=(1, 2), keepdims=True)
    pixels = shapes[label] * np.exp(rng.normal(scale=0.5, size=(n, 1, 1))) + rng.normal(scale=0.3, size=(n, 8, 8))
    return pixels.reshape(n, 64), label


def network_bounds(X: FloatArray, label: NDArray[np.int64]) -> FloatArray:
    """Gradient norms of a network with 32 hidden units after a short training on other records, taken as public."""
    rng = np.random.default_rng(1)
    V, W = rng.normal(scale=0.125, size=(64, 32)), rng.normal(scale=0.17, size=(32, 10))
    half = len(X) // 2
    for _ in range(300):
        batch = rng.integers(0, half, 64)
        gradients = _network(X[batch], label[batch], V, W)
        V -= 0.1 * gradients[0].mean(axis=0)
        W -= 0.1 * gradients[1].mean(axis=0)
    first, second = _network(X[half:], label[half:], V, W)
    return np.asarray(np.sqrt((first**2).sum(axis=(1, 2)) + (second**2).sum(axis=(1, 2))))


def _network(X: FloatArray, label: NDArray[np.int64], V: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gradients of the cross entropy in both layers, one for each record."""
    hidden = np.maximum(X @ V, 0.0)
    slope = special.softmax(hidden @ W, axis=1) - np.eye(10)[label]
    back = (slope @ W.T) * (hidden > 0.0)
    return X[:, :, None] * back[:, None, :], hidden[:, :, None] * slope[:, None, :]


def counts(bounds: FloatArray, cut: float) -> dict[float, float]:
    """Numbers of records by bin, up to a quantile of the bounds; taken as public."""
    largest = float(np.quantile(bounds, cut))
    edges = training.geometric_bounds(largest, smallest=max(float(bounds.min()), largest / 50.0) * 1.05, n=N_BINS)
    place = np.minimum(np.searchsorted(edges, bounds), N_BINS - 1)
    return dict(zip(edges, np.bincount(place, minlength=N_BINS).astype(float).tolist(), strict=True))


def rates_table(options: argparse.Namespace, progress: Progress) -> Table:
    table = Table(
        name="training-rates",
        title=f"Weighted batches over uniform ones with rate {RATE:g}, epsilon {EPSILON:g}, delta {DELTA:g}",
        shown=(
            *("bounds", "steps", "gradients at equal noise", "its sampling variance", "noise at equal gradients"),
            *("its sampling variance ", "balanced: noise", "balanced: sampling variance", "largest delta"),
        ),
        remarks=[
            "All columns but the last are ratios to uniform Poisson sampling. Bounds are cut at their 95 % quantile.",
            "Balanced plans are for equal gradients and 100 parameters: least variance of noise and sampling together.",
            "The largest delta is by dp-accounting, of the two bins of each plan that come nearest to it by our own bound.",
        ],
    )
    digits = load_digits()
    made = images()
    sets = [(known.name, known.bounds) for known in linear_sets(options.data)] + [
        ("digits, network", network_bounds(digits.data / 16.0, digits.target)),
        ("made-up images, network", network_bounds(*made)),
    ]
    cases = [(name, bounds, steps) for name, bounds in sets for steps in options.steps]
    for name, bounds, steps in progress.track(cases, description="rates"):
        table.rows.append(_rates_row(name, counts(bounds, 0.95), steps))
    return table


def _rates_row(name: str, binned: dict[float, float], steps: int) -> dict[str, Cell]:
    # The guarantee does not depend on the number of records, so a million of them gives round numbers.
    share = 1e6 / sum(binned.values())
    binned = {bound: share * count for bound, count in binned.items()}
    largest, batch = max(binned), RATE * 1e6
    base: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
    uniform = training.plan(steps, **base, bounds={largest: 1e6}, mean_batch=batch)
    squares = sum(count * bound**2 for bound, count in binned.items())
    variance = squares * (1.0 / RATE - 1.0)
    fewest = training.plan(steps, **base, bounds=binned, noise=uniform.noise)
    least = training.plan(steps, **base, bounds=binned, mean_batch=batch)
    balanced = training.plan(steps, **base, bounds=binned, mean_batch=batch, n_parameters=100)
    return {
        "bounds": name,
        "steps": steps,
        "gradients at equal noise": fewest.mean_batch / batch,
        "its sampling variance": fewest.sampling_variance / variance,
        "noise at equal gradients": least.noise / uniform.noise,
        "its sampling variance ": least.sampling_variance / variance,
        "balanced: noise": balanced.noise / uniform.noise,
        "balanced: sampling variance": balanced.sampling_variance / variance,
        "largest delta": max(map(_independent_delta, (fewest, least, balanced))),
    }


def _independent_delta(plan: TrainingPlan) -> float:
    """The largest delta of the bins near the worst one, by dp-accounting, in both directions."""
    found = 0.0
    worst = sorted(plan.bins, key=plan.delta_of)[-2:]
    for one in worst:
        deviation = one.rate * plan.noise / one.bound
        steps = privacy_loss_distribution.from_gaussian_mechanism(
            deviation, sampling_prob=one.rate, value_discretization_interval=max(0.05 * one.rate / deviation, 2e-5)
        )
        found = max(found, float(steps.self_compose(plan.n_steps).get_delta_for_epsilon(plan.epsilon)))
    return found


def trained(known: Records, plan: TrainingPlan, speed: float, seed: int) -> FloatArray:
    """Parameters after noisy steps, averaged over the last half of the steps."""
    sampler = training.WeightedPoissonSampler(plan, known.bound, (known.X, known.y), random_state=seed)
    w = known.start()
    mean = np.zeros(w.size)
    for batch in sampler:
        w = w - speed / len(known.y) * training.noisy_sum(sampler, batch, known.gradients(w, batch.index))
        mean += w * (batch.step > plan.n_steps // 2) / (plan.n_steps - plan.n_steps // 2)
    return mean


def accuracy_table(options: argparse.Namespace, progress: Progress) -> Table:
    table = Table(
        name="training-accuracy",
        title=f"Training by {T} noisy steps: weighted batches against uniform ones, delta {DELTA:g}",
        shown=(
            *("data", "epsilon", "batches", "gradients", "noise", "log-loss", "accuracy"),
            *("loss over uniform", "standard error", "result"),
        ),
        remarks=[
            "Logistic regression with the norms of features as bounds, which clip nothing; for images, a network with "
            "32 hidden units and the norms of gradients at its public start.",
            f"Means over {options.seeds} seeds; four fifths of up to {MOST_ROWS:,} rows are fitted. Gradients "
            f"and noise are ratios to uniform Poisson sampling with rate {SHARE:g}, which is what Opacus does.",
            f"The step length, out of {SPEEDS}, is tuned for each method alike, with other seeds. Gradients are "
            f"clipped at the quantile {CUTS[0]:g} of the bounds.",
            "The loss over uniform is a mean of differences, with its standard error.",
        ],
    )
    pixels, label = images()
    every = [*linear_sets(options.data), Images(name="made-up images", X=pixels, y=label.astype(np.float64))]
    sets = [
        known.part(np.arange(min(len(known.y), MOST_ROWS))) for known in every if known.name.lower() in options.only
    ]
    cases = [(known, epsilon) for known in sets for epsilon in options.epsilon]
    for known, epsilon in progress.track(cases, description="training"):
        table.rows.extend(_accuracy_rows(known, epsilon, options.seeds))
        for row in table.rows[-5:]:
            progress.console.print(f"[dim]{[row[name] for name in table.shown]}")
    return table


def _plans(binned: dict[float, float], epsilon: float, d: int) -> dict[str, TrainingPlan]:
    n = sum(binned.values())
    base: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    uniform = training.plan(T, **base, bounds={max(binned): n}, mean_batch=SHARE * n)
    whole = {"bounds": binned, **base}
    return {
        "uniform": uniform,
        "fewest gradients": training.plan(T, noise=uniform.noise, **whole),
        "half, balanced": training.plan(T, mean_batch=0.5 * SHARE * n, n_parameters=d, fill=FILL, **whole),
        "equal, balanced": training.plan(T, mean_batch=SHARE * n, n_parameters=d, fill=FILL, **whole),
        "least noise": training.plan(T, mean_batch=SHARE * n, **whole),
    }


# Mean square length of a gradient over that of its bound, for logistic regression with about half of its gain made.
FILL = 0.1


def _accuracy_rows(known: Records, epsilon: float, seeds: int) -> list[dict[str, Cell]]:
    order = np.random.default_rng(0).permutation(len(known.y))
    fifth = len(order) // 5
    test, fit = order[:fifth], order[fifth:]
    train, held = known.part(fit), known.part(test)

    def score(plan: TrainingPlan, speed: float, seed: int) -> tuple[float, float]:
        chance = held.chances(trained(train, plan, speed, seed))
        classes = np.arange(chance.shape[1])
        return float(log_loss(held.y, chance, labels=classes)), float(np.mean(chance.argmax(axis=1) == held.y))

    plans = [_plans(counts(train.bounds, cut), epsilon, train.start().size) for cut in CUTS]
    rows: list[dict[str, Cell]] = []
    peer = np.zeros(seeds)
    for name in plans[0]:
        tried = {
            (number, speed): float(np.mean([score(made[name], speed, seed)[0] for seed in TUNING_SEEDS]))
            for number, made in enumerate(plans)
            for speed in SPEEDS
        }
        number, speed = min(tried, key=lambda key: tried[key])
        plan = plans[number][name]
        found = np.array([score(plan, speed, seed) for seed in range(seeds)])
        peer = found[:, 0] if name == "uniform" else peer
        gap, error = found[:, 0] - peer, float(np.std(found[:, 0] - peer, ddof=1) / np.sqrt(seeds))
        rows.append(
            {
                "data": known.name,
                "epsilon": epsilon,
                "batches": name,
                "gradients": plan.mean_batch / plans[number]["uniform"].mean_batch,
                "noise": plan.noise / plans[number]["uniform"].noise,
                "log-loss": float(found[:, 0].mean()),
                "accuracy": float(found[:, 1].mean()),
                "loss over uniform": float(gap.mean()),
                "standard error": error,
                "result": "" if name == "uniform" else _verdict(float(gap.mean()), error),
                "quantile": CUTS[number],
                "speed": speed,
            }
        )
    return rows


def _verdict(gap: float, error: float) -> str:
    return "better" if gap < -2.0 * error else "worse" if gap > 2.0 * error else "equal"


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    if "rates" in options.parts:
        yield rates_table(options, progress)
    if "accuracy" in options.parts:
        yield accuracy_table(options, progress)


if __name__ == "__main__":
    made_parser = parser(__doc__, seeds=10, only=("adult", "covertype", "ijcnn1", "made-up images"))
    made_parser.add_argument("--epsilon", nargs="+", type=float, default=(1.0, 3.0), help="guarantees")
    made_parser.add_argument("--steps", nargs="+", type=int, default=STEPS, help="steps of the table of rates")
    made_parser.add_argument("--parts", nargs="+", default=("rates", "accuracy"), help="the tables to measure")
    run(made_parser.parse_args(), tables)
