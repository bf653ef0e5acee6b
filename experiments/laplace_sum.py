"""The Laplace-sum study: what sampling costs in privacy and error when a sum is released with Laplace noise.

Synthetic points, three ways to sample them, and the same question for each: how much does the costliest point pay,
and how far is the released sum from the true one? Run it with ``python -m experiments.laplace_sum --out out``.

NOT PRIVATE, on purpose: noise and sizes are solved on the exact points, the variance-optimal probabilities
are fitted to them, and every draw is seeded. The points are synthetic, so there is nobody to protect.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import brentq

import pais
from pais._base.randomness import bit_source

FloatArray = NDArray[np.float64]

N_POINTS = 1000
N_DIMENSIONS = 10
SHOWN_SIZE = 19.0
NOISE_SCALES = tuple(float(noise) for noise in np.geomspace(3.0, 3000.0, 13))

ALL_POINTS = "all-points"
UNIFORM = "uniform"
CONSTRAINED = "constrained"
VARIANCE_OPTIMAL = "variance-optimal"
UNIFORM_SAME_LOSS = "uniform-same-loss"

# Runs simulated at a time: bounds the memory of the draws whatever the number of runs.
_RUNS_AT_A_TIME = 1000

# Okabe and Ito's colours, told apart with every common kind of colour vision; marker and dash differ as well.
_STYLES: dict[str, dict[str, Any]] = {
    ALL_POINTS: {"color": "#999999", "marker": "", "linestyle": "-."},
    UNIFORM: {"color": "#D55E00", "marker": "s", "linestyle": "-"},
    CONSTRAINED: {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    VARIANCE_OPTIMAL: {"color": "#444444", "marker": "^", "linestyle": ":"},
    UNIFORM_SAME_LOSS: {"color": "#E69F00", "marker": "D", "linestyle": "--"},
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """The synthetic data set and the two norms the samplers look at."""

    rows: FloatArray
    l1_norms: FloatArray
    l2_norms: FloatArray

    @property
    def n_points(self) -> int:
        return int(self.rows.shape[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    """Part 1: the weight of every point at one expected size, points in rising order of their l1 norm.

    Attributes
    ----------
    free_noise, free_epsilon : float
        Noise at which sampling for free keeps `sample_size` points, and the loss of the costliest point there.
    unit_epsilon : float
        Target at which the constrained rule keeps as many with noise 1.
    constrained, constrained_unit_noise : arrays
        Weights of the constrained rule in these two settings.
    """

    sample_size: float
    free_noise: float
    free_epsilon: float
    unit_epsilon: float
    uniform: FloatArray
    constrained: FloatArray
    constrained_unit_noise: FloatArray
    variance_optimal: FloatArray


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Part 2: one sampler at one noise scale; a line of the table.

    Attributes
    ----------
    sampler : str
        Which probabilities.
    noise : float
        Scale of the Laplace noise on each coordinate of the sum.
    sample_size : float
        Expected number of points kept.
    largest_epsilon : float
        Loss of the costliest point after sampling.
    mse, mse_standard_error : float
        Mean over the runs of the squared l2 distance to the true sum, and the standard error of that mean.
    mse_exact : float
        The expectation that `mse` estimates.
    """

    sampler: str
    noise: float
    sample_size: float
    largest_epsilon: float
    mse: float
    mse_standard_error: float
    mse_exact: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """Both parts."""

    weights: Weights
    measurements: tuple[Measurement, ...]

    def of(self, sampler: str) -> list[Measurement]:
        """The measurements of one sampler, in the order of the noise scales."""
        return [measurement for measurement in self.measurements if measurement.sampler == sampler]


def draw_points(generator: np.random.Generator) -> Points:
    """Isotropic normal points whose expected squared l2 norm is 1."""
    rows = generator.normal(scale=math.sqrt(1.0 / N_DIMENSIONS), size=(N_POINTS, N_DIMENSIONS))
    return Points(rows=rows, l1_norms=np.abs(rows).sum(axis=1), l2_norms=np.sqrt(np.square(rows).sum(axis=1)))


def profile_at(noise: float) -> pais.LinearProfile:
    """What a point pays in a sum with Laplace noise: weight * l1 norm / noise."""
    return pais.LinearProfile(intercept=0.0, slope=1.0 / noise)


def free_epsilon(points: Points, noise: float) -> float:
    """Loss of the costliest point when all points are used: the target that sampling for free keeps."""
    return float(np.max(profile_at(noise)(1.0, points.l1_norms)))


def constrained_probabilities(points: Points, noise: float, *, epsilon: float | None = None) -> FloatArray:
    """Probabilities of the constrained rule; without `epsilon`, for the target of sampling for free."""
    target = free_epsilon(points, noise) if epsilon is None else epsilon
    weight = pais.constrained_weight(profile_at(noise), points.l1_norms, epsilon=target)
    # Rounded up, so that no rounding of 1/weight takes a point past the target.
    return np.minimum(np.nextafter(1.0 / weight, 2.0), 1.0)


def noise_of_size(points: Points, sample_size: float) -> float:
    """Noise at which sampling for free keeps `sample_size` points in expectation; solved on the exact points.

    The target moves with the noise, so this is no question for `pais.calibrate`, which fixes the target.
    """
    largest = float(points.l1_norms.max())
    return _solve(
        lambda noise: constrained_probabilities(points, noise), sample_size, low=1e-3 * largest, high=1e6 * largest
    )


def epsilon_of_size(points: Points, noise: float, sample_size: float) -> float:
    """Target at which the constrained rule with this noise keeps `sample_size` points in expectation."""
    return _solve(
        lambda epsilon: constrained_probabilities(points, noise, epsilon=epsilon),
        sample_size,
        low=free_epsilon(points, noise),
        high=1e4,
    )


def _solve(probabilities_at: Callable[[float], FloatArray], sample_size: float, *, low: float, high: float) -> float:
    """The value in [low, high] at which a falling expected size meets `sample_size`; searched in logarithms."""

    def value(logarithm: float) -> float:
        # exp(log(low)) may round below low, where a target is infeasible.
        return max(math.exp(logarithm), low)

    def excess(logarithm: float) -> float:
        return math.log(float(probabilities_at(value(logarithm)).sum()) / sample_size)

    return value(float(brentq(excess, math.log(low), math.log(high), xtol=1e-14)))


def compare_weights(points: Points, sample_size: float = SHOWN_SIZE) -> Weights:
    """Part 1: the weights of all samplers at one expected size."""
    order = np.argsort(points.l1_norms)
    noise = noise_of_size(points, sample_size)
    unit_epsilon = epsilon_of_size(points, 1.0, sample_size)
    optimal = pais.not_private_variance_optimal(points.l2_norms, sample_size=sample_size)
    return Weights(
        sample_size=sample_size,
        free_noise=noise,
        free_epsilon=free_epsilon(points, noise),
        unit_epsilon=unit_epsilon,
        uniform=np.full(points.n_points, points.n_points / sample_size),
        constrained=1.0 / constrained_probabilities(points, noise)[order],
        constrained_unit_noise=1.0 / constrained_probabilities(points, 1.0, epsilon=unit_epsilon)[order],
        variance_optimal=1.0 / optimal[order],
    )


def samplers_at(points: Points, noise: float) -> Iterator[tuple[str, float, FloatArray]]:
    """Name, noise and probabilities of each sampler; all that sample have the expected size of the constrained rule."""
    constrained = constrained_probabilities(points, noise)
    sample_size = float(constrained.sum())
    uniform = np.full(points.n_points, sample_size / points.n_points)
    yield ALL_POINTS, noise, np.ones(points.n_points)
    yield UNIFORM, noise, uniform
    yield CONSTRAINED, noise, constrained
    yield VARIANCE_OPTIMAL, noise, pais.not_private_variance_optimal(points.l2_norms, sample_size=sample_size)
    norms = pais.NormDistribution.from_private_norms(points.l1_norms, radius=float(points.l1_norms.max()))
    matched = pais.calibrate(
        "uniform", profile_at(1.0), norms, epsilon=free_epsilon(points, noise), sample_size=sample_size
    )
    yield UNIFORM_SAME_LOSS, matched.noise, uniform


def largest_loss(points: Points, noise: float, probability: FloatArray) -> float:
    """Loss after sampling of the point that pays most."""
    loss = profile_at(noise)(1.0 / probability, points.l1_norms)
    return float(np.max(pais.amplified_epsilon(loss, probability)))


def exact_mse(points: Points, noise: float, probability: FloatArray) -> float:
    """Expected squared l2 error: d * 2 noise^2 of the noise, sum of (1/q - 1) ||x||_2^2 of the sampling."""
    sampling = (1.0 / probability - 1.0) @ np.square(points.l2_norms)
    return float(points.rows.shape[1] * 2.0 * noise**2 + sampling)


def squared_errors(
    points: Points, noise: float, probability: FloatArray, *, runs: int, generator: np.random.Generator
) -> FloatArray:
    """Squared l2 distance of the noisy weighted sum from the true sum, one for each independent run.

    The probabilities are arrays fitted to the points, which `pais.sample` refuses; numpy draws them here.
    """
    true_sum = points.rows.sum(axis=0)
    law, bits, weight = pais.LpNoise(scale=noise, p=1.0), bit_source(generator), 1.0 / probability
    errors = []
    for start in range(0, runs, _RUNS_AT_A_TIME):
        block = min(_RUNS_AT_A_TIME, runs - start)
        kept = generator.random((block, points.n_points)) < probability
        noisy_sum = np.where(kept, weight, 0.0) @ points.rows + law.draw((block, points.rows.shape[1]), bits)
        errors.append(np.square(noisy_sum - true_sum).sum(axis=1))
    return np.concatenate(errors)


def run_study(*, runs: int, seed: int, noise_scales: Sequence[float] = NOISE_SCALES) -> Study:
    """Both parts on points drawn from the seed."""
    generator = np.random.default_rng(seed)
    points = draw_points(generator)
    measurements = []
    for scale in noise_scales:
        for sampler, noise, probability in samplers_at(points, scale):
            errors = squared_errors(points, noise, probability, runs=runs, generator=generator)
            measurements.append(
                Measurement(
                    sampler=sampler,
                    noise=noise,
                    sample_size=float(probability.sum()),
                    largest_epsilon=largest_loss(points, noise, probability),
                    mse=float(errors.mean()),
                    mse_standard_error=float(errors.std(ddof=1) / math.sqrt(runs)),
                    mse_exact=exact_mse(points, noise, probability),
                )
            )
    return Study(weights=compare_weights(points), measurements=tuple(measurements))


def factors_at_same_loss(study: Study, sampler: str) -> tuple[FloatArray, FloatArray]:
    """Losses that both curves reach, and there the exact error of `sampler` over that of the constrained rule.

    Both curves are interpolated linearly in log-log axes; at the losses returned one of them is not interpolated.
    """
    curves = [
        np.log([[at.largest_epsilon, at.mse_exact] for at in sorted(study.of(name), key=lambda at: at.largest_epsilon)])
        for name in (sampler, CONSTRAINED)
    ]
    low, high = max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves)
    knots = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    knots = knots[(knots >= low) & (knots <= high)]
    if knots.size == 0:
        raise ValueError("the curves share no loss. Pass noise scales that lie further apart.")
    other, constrained = (np.interp(knots, curve[:, 0], curve[:, 1]) for curve in curves)
    return np.exp(knots), np.exp(other - constrained)


def table_text(study: Study) -> str:
    """The measurements for a person: a line for each noise scale."""
    lines = [
        f"{'':17} | {'largest loss (epsilon)':^30} | {'mean squared error':^30} | {'uniform at same loss':^20}",
        f"{'noise':>8} {'size':>8}" + " |   uniform   constr.   var-opt." * 2 + f" | {'noise':>9} {'error':>10}",
    ]
    samplers = (UNIFORM, CONSTRAINED, VARIANCE_OPTIMAL, UNIFORM_SAME_LOSS)
    for uniform, constrained, optimal, same in zip(*(study.of(name) for name in samplers), strict=True):
        losses = f"{uniform.largest_epsilon:9.3g} {constrained.largest_epsilon:9.3g} {optimal.largest_epsilon:10.3g}"
        errors = f"{uniform.mse:9.3g} {constrained.mse:9.3g} {optimal.mse:10.3g}"
        lines.append(
            f"{constrained.noise:8.1f} {constrained.sample_size:8.2f} | {losses} | {errors}"
            f" | {same.noise:9.1f} {same.mse:10.3g}"
        )
    return "\n".join(lines)


def _range(values: Sequence[float] | FloatArray) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def reading_text(study: Study) -> str:
    """What is seen, in sentences whose every number is computed from the exact errors and losses."""
    everyone, uniform, constrained, same = (
        study.of(name) for name in (ALL_POINTS, UNIFORM, CONSTRAINED, UNIFORM_SAME_LOSS)
    )
    pairs = list(zip(uniform, constrained, same, strict=True))
    sampling_cost = [b.mse_exact / a.mse_exact for a, b in zip(everyone, constrained, strict=True)]
    losses = [a.largest_epsilon / b.largest_epsilon for a, b, _ in pairs]
    errors = [b.mse_exact / a.mse_exact for a, b, _ in pairs]
    knots, factors = factors_at_same_loss(study, UNIFORM)
    off = max(abs(at.mse - at.mse_exact) / at.mse_standard_error for at in study.measurements)
    weights = study.weights
    free, unit = (
        np.median(np.abs(weight / weights.variance_optimal - 1.0))
        for weight in (weights.constrained, weights.constrained_unit_noise)
    )
    return "\n".join(
        textwrap.fill(sentence, 118, subsequent_indent="  ")
        for sentence in (
            f"At equal noise and size, uniform sampling costs its costliest point {_range(losses)} times the epsilon "
            f"of the constrained rule; the constrained error is {_range(errors)} times the uniform one.",
            f"At equal loss, from {knots[0]:.3g} to {knots[-1]:.3g}, uniform sampling has {_range(factors)} times the "
            "error; the constrained rule gets there with less noise and more points.",
            f"At equal loss and equal size, uniform sampling needs {_range([c.noise / b.noise for _, b, c in pairs])} "
            f"times the noise and has {_range([c.mse_exact / b.mse_exact for _, b, c in pairs])} times the error.",
            f"Against all points at the same noise and loss, the constrained rule keeps "
            f"{constrained[0].sample_size:.0f} to {constrained[-1].sample_size:.0f} points and has "
            f"{_range(sampling_cost)} times the error.",
            f"Weights at expected size {weights.sample_size:g}: half of the constrained ones lie within {free:.0%} of "
            f"the variance-optimal ones when sampling is free (noise {weights.free_noise:.1f}, epsilon "
            f"{weights.free_epsilon:.3f}), within {unit:.1%} at noise 1 (epsilon {weights.unit_epsilon:.1f}).",
            f"Check: no simulated error is more than {off:.1f} standard errors from its exact expectation.",
        )
    )


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; it takes the place of `path` only when all went well."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_table(study: Study, path: Path) -> None:
    """The measurements as CSV, numbers in full."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Measurement)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(measurement) for measurement in study.measurements)
    with _replacing(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")


def write_figure(study: Study, path: Path) -> None:
    """Two panels: weights by rank of the l1 norm, and error against largest loss."""
    with mpl.rc_context({"font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(10.0, 4.3), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_weights(left, study.weights)
        _draw_errors(right, study)
        with _replacing(path) as temporary:
            # Without the version of the library the same numbers give the same bytes.
            figure.savefig(temporary, format="png", dpi=110, metadata={"Software": None})


def _draw_weights(axes: Any, weights: Weights) -> None:
    rank = np.arange(1, weights.uniform.size + 1)
    free = f"constrained, free at noise {weights.free_noise:.0f} (ε = {weights.free_epsilon:.2g})"
    unit = f"constrained, noise 1 (ε = {weights.unit_epsilon:.0f})"
    series: tuple[tuple[FloatArray, str, dict[str, Any]], ...] = (
        (weights.variance_optimal, "variance-optimal (not private)", _STYLES[VARIANCE_OPTIMAL] | {"alpha": 0.5}),
        (weights.uniform, "uniform", _STYLES[UNIFORM] | {"markersize": 1.5}),
        (weights.constrained_unit_noise, unit, _STYLES[CONSTRAINED] | {"color": "#56B4E9", "markersize": 1.8}),
        (weights.constrained, free, _STYLES[CONSTRAINED]),
    )
    for values, label, style in series:
        axes.plot(rank, values, label=label, **({"markersize": 2.8} | style | {"linestyle": "", "markeredgewidth": 0}))
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("rank of the point by l1 norm (1 = smallest)")
    axes.set_ylabel("weight 1/q")
    axes.set_title(f"Weights at expected size {weights.sample_size:g} of {weights.uniform.size}")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, markerscale=3.0, loc="lower left")


def _draw_errors(axes: Any, study: Study) -> None:
    labels = {
        ALL_POINTS: "all points, no sampling",
        UNIFORM: "uniform, same noise and size",
        UNIFORM_SAME_LOSS: "uniform, same loss and size",
        VARIANCE_OPTIMAL: "variance-optimal (not private)",
        CONSTRAINED: "constrained",
    }
    for sampler, label in labels.items():
        style, line = _STYLES[sampler], study.of(sampler)
        loss, simulated = [at.largest_epsilon for at in line], [at.mse for at in line]
        axes.plot(loss, [at.mse_exact for at in line], linewidth=1.0, **(style | {"marker": ""}))
        axes.plot([], [], label=label, linewidth=1.0, markersize=5, **style)
        axes.plot(loss, simulated, markersize=5, **(style | {"linestyle": ""}))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("largest loss of a point after sampling (ε)")
    axes.set_ylabel("mean squared error of the noisy sum")
    axes.set_title("Error against loss (markers: simulated, lines: exact)")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="lower left")


def _whole_number(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= {least}")
        return int(text)

    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study, write figure and table, print what is seen."""
    parser = argparse.ArgumentParser(prog="python -m experiments.laplace_sum", description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory for figure and table; made if missing")
    parser.add_argument("--runs", type=_whole_number(2), default=1000, help="runs behind each mean (default 1000)")
    parser.add_argument("--seed", type=_whole_number(0), default=0, help="seed of points and draws (default 0)")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    study = run_study(runs=options.runs, seed=options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    figure, table = options.out / "laplace-sum.png", options.out / "laplace-sum.csv"
    write_figure(study, figure)
    write_table(study, table)
    print(table_text(study), reading_text(study), sep="\n\n")
    print(f"\nWrote {figure} and {table} in {time.perf_counter() - started:.1f} s. Seeded study on synthetic points.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
