"""Training with weighted batches against uniform Poisson sampling: gradients, noise, accuracy and log-loss.

``python -m benchmarks.training --quick`` for a look, without ``--quick`` for the record. Seeded runs are not private;
they are here to be repeated.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

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

# Training: number of steps, seeds for tuning, and how many of the best settings of the first seed get all of them.
T = 200
TUNING_SEEDS, TRIED_AGAIN = (1_000, 1_001), 3
MOST_ROWS = 50_000
# DPIS reads all rows in each step, which takes long where they have many columns.
MOST_CELLS = 3e6


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """Rows with a label; the model is a logistic regression, whose bounds clip nothing."""

    name: str
    X: FloatArray
    y: FloatArray

    # Share of the records in a uniform batch; what is tuned for each method alike: lengths of steps, and the largest
    # bounds over the median one; and passes over the data to find the bounds, in gradients.
    share: ClassVar[float] = 0.01
    speeds: ClassVar[tuple[float, ...]] = (2.0, 4.0, 8.0)
    cuts: ClassVar[tuple[float, ...]] = (0.4, 0.7, 1.0, 1.4)
    passes: ClassVar[float] = 0.0

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

    share = 0.05
    speeds = (0.5, 1.0, 2.0, 4.0)
    cuts = (0.1, 0.3, 1.0)
    passes = 1.0

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


class Pretrained(Images):
    """The same network, whose public start was trained on other images."""

    cuts = (0.5, 1.0, 3.0)

    def start(self) -> FloatArray:
        return _pretrained()


def image_sets() -> list[Records]:
    pixels, label = images()
    X, y = pixels[:-PUBLIC], label[:-PUBLIC].astype(np.float64)
    return [Images(name="images", X=X, y=y), Pretrained(name="images, public start", X=X, y=y)]


@functools.cache
def _pretrained() -> FloatArray:
    """Parameters after 400 steps without noise on images that are taken as public."""
    pixels, label = images()
    public = Images(name="public", X=pixels[-PUBLIC:], y=label[-PUBLIC:].astype(np.float64))
    w, rng = public.start(), np.random.default_rng(1)
    for _ in range(400):
        w = w - 0.1 * public.gradients(w, rng.integers(0, PUBLIC, 32)).mean(axis=0)
    return w


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


# Images that are taken as public.
PUBLIC = 500


def images(n: int = 6_500) -> tuple[FloatArray, NDArray[np.int64]]:
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


def counts(bounds: FloatArray, largest: float) -> dict[float, float]:
    """Numbers of records by bin, up to a largest bound; taken as public."""
    smallest = min(max(float(bounds.min()), largest / 50.0) * 1.05, 0.9 * largest)
    edges = training.geometric_bounds(largest, smallest=smallest, n=N_BINS)
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
            "The largest delta is by dp-accounting, of the two bins of each plan that are worst by our own bound.",
        ],
    )
    digits = load_digits()
    made = images(6_000)
    sets = [(known.name, known.bounds) for known in linear_sets(options.data)] + [
        ("digits, network", network_bounds(digits.data / 16.0, digits.target)),
        ("made-up images, network", network_bounds(*made)),
    ]
    cases = [(name, bounds, steps) for name, bounds in sets for steps in options.steps]
    for name, bounds, steps in progress.track(cases, description="rates"):
        table.rows.append(_rates_row(name, counts(bounds, float(np.quantile(bounds, 0.95))), steps))
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
            "Logistic regression with the norms of features as bounds, and uniform batches with rate "
            f"{Records.share:g}. For images, a network with 32 hidden units, the norms of gradients at its public "
            f"start as bounds, and uniform batches with rate {Images.share:g}; the public start is random, or was "
            f"trained on {PUBLIC} other images.",
            f"Means over {options.seeds} seeds; four fifths of up to {MOST_ROWS:,} rows are fitted. Gradients are over "
            "those of uniform Poisson sampling, which is what Opacus does, and include a pass over the data if bounds "
            "are norms of gradients. Noise is over the noise of uniform sampling; both are clipped as tuned.",
            f"Tuned for each line alike, with {len(TUNING_SEEDS)} other seeds: the length of steps, out of "
            f"{Records.speeds} or {Images.speeds}, and the largest bound, out of {Records.cuts} times the median bound "
            f"for rows, {Images.cuts} and {Pretrained.cuts} for images.",
            "The loss over uniform is a mean of differences, with its standard error. Better and worse are by more "
            "than two of them.",
            "DPIS: rates in proportion to the gradient in each step (Wei et al., CCS 2022), idealised: the sum of the "
            "gradients is known without a price, and no accountant certifies the whole run. It needs the gradient of "
            "each record in each step.",
        ],
    )
    every = [*linear_sets(options.data), *image_sets()]
    sets = [
        known.part(np.arange(min(len(known.y), MOST_ROWS))) for known in every if known.name.lower() in options.only
    ]
    cases = [(known, epsilon) for known in sets for epsilon in options.epsilon]
    for known, epsilon in progress.track(cases, description="training"):
        for row in _accuracy_rows(known, epsilon, options.seeds):
            table.rows.append(row)
            progress.console.print(f"[dim]{[row[name] for name in table.shown]}")
    return table


# Mean square length of a gradient over that of its bound, for logistic regression with about half of its gain made.
FILL = 0.1


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to draw batches: its gradients over those of uniform batches, and how it is planned."""

    name: str
    gradients: float
    weighted: bool = True

    def plan(self, known: Records, epsilon: float, cut: float) -> TrainingPlan:
        n = len(known.y)
        base: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
        largest = cut * float(np.median(known.bounds))
        batch = known.share * self.gradients * n
        if not self.weighted:
            return training.plan(T, **base, bounds={largest: n}, mean_batch=batch)
        binned = counts(known.bounds, largest)
        batch -= known.passes * n / T
        return training.plan(T, **base, bounds=binned, mean_batch=batch, n_parameters=known.start().size, fill=FILL)


WAYS = (
    Way(name="uniform", gradients=1.0, weighted=False),
    Way(name="uniform, half", gradients=0.5, weighted=False),
    Way(name="weighted, half", gradients=0.5),
    Way(name="weighted", gradients=1.0),
)


def _accuracy_rows(known: Records, epsilon: float, seeds: int) -> Iterator[dict[str, Cell]]:
    order = np.random.default_rng(0).permutation(len(known.y))
    fifth = len(order) // 5
    test, fit = order[:fifth], order[fifth:]
    train, held = known.part(fit), known.part(test)

    def score(w: FloatArray) -> tuple[float, float]:
        chance = held.chances(w)
        classes = np.arange(chance.shape[1])
        return float(log_loss(held.y, chance, labels=classes)), float(np.mean(chance.argmax(axis=1) == held.y))

    peer, base = np.zeros(seeds), None
    ways: list[tuple[str, Way | None]] = [(way.name, way) for way in WAYS]
    for name, way in [*ways, *([] if known.rows.size > MOST_CELLS or known.passes else [("DPIS, idealised", None)])]:
        plans = {cut: (way or WAYS[0]).plan(train, epsilon, cut) for cut in known.cuts}

        def run(
            cut: float, speed: float, seed: int, way: Way | None = way, plans: dict[float, TrainingPlan] = plans
        ) -> FloatArray:
            if way is None:
                return _dpis(train, epsilon, cut * float(np.median(train.bounds)), speed, seed)
            return trained(train, plans[cut], speed, seed)

        tried = {
            (cut, speed): [score(run(cut, speed, TUNING_SEEDS[0]))[0]] for cut in known.cuts for speed in known.speeds
        }
        for key in sorted(tried, key=lambda key: tried[key][0])[:TRIED_AGAIN]:
            tried[key] += [score(run(*key, seed))[0] for seed in TUNING_SEEDS[1:]]
        full = {key: float(np.mean(found)) for key, found in tried.items() if len(found) == len(TUNING_SEEDS)}
        cut, speed = min(full, key=lambda key: full[key])
        found = np.array([score(run(cut, speed, seed)) for seed in range(seeds)])
        plan = plans[cut]
        base = base or plan
        peer = found[:, 0] if plan is base else peer
        gap, error = found[:, 0] - peer, float(np.std(found[:, 0] - peer, ddof=1) / np.sqrt(seeds))
        pass_over = known.passes * (way is not None and way.weighted) * len(train.y) / T
        yield {
            "data": known.name,
            "epsilon": epsilon,
            "batches": name,
            "gradients": (plan.mean_batch + pass_over if way else len(train.y)) / base.mean_batch,
            "noise": plan.noise / base.noise if way else None,
            "log-loss": float(found[:, 0].mean()),
            "accuracy": float(found[:, 1].mean()),
            "loss over uniform": float(gap.mean()),
            "standard error": error,
            "result": "" if plan is base else _verdict(float(gap.mean()), error),
            "cut": cut,
            "speed": speed,
        }


@functools.cache
def _multipliers(epsilon: float) -> tuple[FloatArray, FloatArray]:
    """Noise over the contribution of a record, by rates of uniform sampling."""
    rates = np.geomspace(0.002, 0.5, 9)
    base: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    plans = [training.plan(T, **base, bounds={1.0: 1e6}, mean_batch=1e6 * rate) for rate in rates]
    return rates, np.array([plan.noise * plan.rates[0] for plan in plans])


def _dpis(known: Records, epsilon: float, clip: float, speed: float, seed: int) -> FloatArray:
    """Batches with rates in proportion to clipped gradients of the step; every joined record adds equally much."""
    rng, n = np.random.default_rng(seed), len(known.y)
    rates, multipliers = _multipliers(epsilon)
    lengths = np.sqrt((known.rows**2).sum(axis=1))
    w = known.start()
    mean = np.zeros(w.size)
    for step in range(1, T + 1):
        clipped = np.minimum(np.abs(special.expit(known.rows @ w) - known.y) * lengths, clip)
        whole = float(clipped.sum())
        rate = np.minimum(known.share * n * clipped / whole, 1.0)
        index = np.flatnonzero(rng.random(n) < rate)
        gradients = known.gradients(w, index)
        scale = clipped[index] / np.sqrt((gradients**2).sum(axis=1)) / rate[index]
        noise = whole / (known.share * n) * float(np.interp(known.share * n * clip / whole, rates, multipliers))
        w = w - speed / n * (scale @ gradients + noise * rng.normal(size=w.size))
        mean += w * (step > T // 2) / (T - T // 2)
    return mean


def _verdict(gap: float, error: float) -> str:
    return "better" if gap < -2.0 * error else "worse" if gap > 2.0 * error else "equal"


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    if "rates" in options.parts:
        yield rates_table(options, progress)
    if "accuracy" in options.parts:
        yield accuracy_table(options, progress)


if __name__ == "__main__":
    made_parser = parser(__doc__, seeds=10, only=("adult", "covertype", "ijcnn1", "images", "images, public start"))
    made_parser.add_argument("--epsilon", nargs="+", type=float, default=(1.0, 3.0), help="guarantees")
    made_parser.add_argument("--steps", nargs="+", type=int, default=STEPS, help="steps of the table of rates")
    made_parser.add_argument("--parts", nargs="+", default=("rates", "accuracy"), help="the tables to measure")
    run(made_parser.parse_args(), tables)
