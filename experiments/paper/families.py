"""What a cell of the study computes: centers of each family, coreset violations, and times.

NOT PRIVATE, on purpose: sizes and noise are solved on the exact norms and every draw is seeded, as in the paper.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from threadpoolctl import threadpool_limits

import pais
from experiments.paper.cost import Float32Array, FloatArray, mean_costs
from experiments.paper.dplloyd import N_CLUSTERS, N_ROUNDS, Law, Scales, dp_lloyd, split
from experiments.paper.grid import Cell, RuleName
from experiments.paper.results import Measured
from pais.data.engines.base import WeightedRows
from pais.kmeans.result import KMeansValue
from pais.privacy.calibration import Calibration, Sampling


@dataclass(frozen=True, kw_only=True, eq=False)
class Workbench:
    """The rows of a data set, and what the cells on it share."""

    rows: Float32Array
    center_sets: int

    @cached_property
    def norms(self) -> pais.NormDistribution:
        norm = np.sqrt(np.einsum("ij,ij->i", self.rows, self.rows, dtype=np.float64))
        return pais.NormDistribution.from_private_norms(norm, radius=float(norm.max()))

    @cached_property
    def ball(self) -> pais.Ball:
        return pais.Ball(radius=self.norms.radius)

    @cached_property
    def everything(self) -> WeightedRows:
        """All rows, each with weight 1."""
        return WeightedRows(rows=self.rows.astype(np.float64), weights=np.ones(len(self.rows)))

    def sample(self, rule: pais.Rule, seed: int) -> WeightedRows:
        content: WeightedRows = pais.sample(self.rows, ball=self.ball, rule=rule, random_state=seed).spend("study")
        return content

    @cached_property
    def _calibrations(self) -> dict[tuple[RuleName, int | None, float], Calibration]:
        return {}

    def calibrated(self, rule: RuleName, sample_size: int | None, epsilon: float) -> Calibration:
        """What families and starts share: solved once."""
        key = (rule, sample_size, epsilon)
        if key not in self._calibrations:
            self._calibrations[key] = self._solve(rule, sample_size, epsilon)
        return self._calibrations[key]

    def _solve(self, rule: RuleName, sample_size: int | None, epsilon: float) -> Calibration:
        """Rule and noise of the paper's DP-Lloyd, noise 1 meaning a sum scale of 1."""
        d = self.rows.shape[1]
        unit = pais.LinearProfile(N_ROUNDS / split(d), float(N_ROUNDS))
        if rule == "all rows" or sample_size is None:
            return pais.calibrate("uniform", unit, self.norms, epsilon=epsilon, sample_size=self.norms.n_rows)
        sampling: Sampling = rule
        try:
            return pais.calibrate(sampling, unit, self.norms, epsilon=epsilon, sample_size=sample_size)
        except pais.UnreachableError:
            # The constrained rule never keeps more rows than cost no extra noise; the cell says how many it kept.
            return pais.calibrate(sampling, unit, self.norms, epsilon=epsilon)

    def rule_without_noise(self, rule: RuleName, sample_size: int) -> pais.Rule:
        if rule == "uniform":
            return pais.UniformRule.of_size(sample_size, n_rows=self.norms.n_rows)
        return pais.CoresetRule(
            sample_size=sample_size,
            n_rows=self.norms.n_rows,
            mean_square_norm=self.norms.mean_square_norm,
            radius=self.norms.radius,
        )

    @cached_property
    def trial_centers(self) -> FloatArray:
        """Center sets for the coreset inequality: rows, shrunken rows, random points, and few places."""
        rng = np.random.default_rng(0)
        d, shape = self.rows.shape[1], (N_CLUSTERS, self.rows.shape[1])
        deviation = self.rows.std(axis=0, dtype=np.float64)
        sets = []
        for number in range(self.center_sets):
            picked = self.rows[rng.choice(len(self.rows), N_CLUSTERS, replace=False)].astype(np.float64)
            if number % 4 == 0:
                centers = picked
            elif number % 4 == 1:
                centers = picked * rng.uniform(0.0, 1.0)
            elif number % 4 == 2:
                centers = rng.standard_normal(shape) * deviation * rng.uniform(0.1, 1.5)
            else:
                # Few places, so that most of the data are far from all of them.
                centers = picked[rng.integers(0, 3, size=N_CLUSTERS)] + 0.05 * deviation * rng.standard_normal((1, d))
            sets.append(centers)
        return np.array(sets)

    @cached_property
    def trial_costs(self) -> FloatArray:
        return mean_costs(self.rows, self.trial_centers) * len(self.rows)


def measure(cell: Cell, bench: Workbench, repetitions: int) -> list[Measured]:
    """All repetitions of a cell."""
    with threadpool_limits(limits=1, user_api="blas"):
        if cell.kind == "time":
            return _times(cell, bench, repetitions)
        if cell.kind == "coreset":
            return _violations(cell, bench, repetitions)
        return _costs(cell, bench, repetitions)


def _costs(cell: Cell, bench: Workbench, repetitions: int) -> list[Measured]:
    if cell.family in ("ours", "ours-pure"):
        centers, size = _ours(cell, bench, repetitions)
    else:
        centers, size = _lloyd(cell, bench, repetitions)
    costs = mean_costs(bench.rows, centers)
    measured = [Measured(repetition=i, measure="cost", value=float(cost)) for i, cost in enumerate(costs)]
    return [*measured, Measured(repetition=0, measure="expected_size", value=size)]


def _lloyd(cell: Cell, bench: Workbench, repetitions: int) -> tuple[FloatArray, float]:
    """The paper's algorithm, by the noise law of the family."""
    law: Law = "none"
    rule: pais.Rule | None = None
    scales, size = Scales(sum=0.0, count=0.0), float(len(bench.rows))
    if cell.family != "not-private":
        law = "published" if cell.family == "published" else "valid"
        calibration = bench.calibrated(cell.rule, cell.sample_size, cell.epsilon)
        scales = _scales(calibration.noise, bench)
        rule, size = calibration.rule, calibration.sample_size
    elif cell.sample_size is not None:
        rule = bench.rule_without_noise(cell.rule, cell.sample_size)
        size = float(cell.sample_size)
    centers = []
    for repetition in range(repetitions):
        seed = cell.seed(repetition)
        rng = np.random.default_rng(seed)
        sample = bench.everything if rule is None or cell.rule == "all rows" else bench.sample(rule, seed)
        start = first_centers(cell, sample.rows, bench.ball.radius, rng)
        centers.append(dp_lloyd(sample.rows, sample.weights, start, law=law, scales=scales, rng=rng))
    return np.array(centers), size


def _scales(noise: float, bench: Workbench) -> Scales:
    return Scales(sum=noise, count=noise * split(bench.rows.shape[1]))


def first_centers(cell: Cell, rows: FloatArray, radius: float, rng: np.random.Generator) -> FloatArray:
    """k rows of the sample, as the paper has it, or directions at half the radius, which need no data."""
    if cell.start == "rows":
        return rows[rng.choice(len(rows), N_CLUSTERS, replace=len(rows) < N_CLUSTERS)]
    direction = rng.standard_normal((N_CLUSTERS, rows.shape[1]))
    return np.asarray(0.5 * radius * direction / np.linalg.norm(direction, axis=1, keepdims=True))


def _ours(cell: Cell, bench: Workbench, repetitions: int) -> tuple[FloatArray, float]:
    """The library's own k-means from the same facts; pure epsilon by the l2 law, in the same geometry as the paper."""
    plan = pais.plan_kmeans(
        n_clusters=N_CLUSTERS,
        n_features=bench.rows.shape[1],
        epsilon=cell.epsilon,
        delta=cell.delta,
        ball=bench.ball,
        norms=bench.norms,
        sampling="constrained",
        sample_size=cell.sample_size,
        mechanism="gaussian" if cell.family == "ours" else "l2",
    )
    centers = []
    for repetition in range(repetitions):
        value = pais.run(plan, bench.rows, random_state=cell.seed(repetition)).value
        assert isinstance(value, KMeansValue)
        centers.append(value.centers)
    return np.array(centers), bench.norms.expected_size(plan.rule)


def _violations(cell: Cell, bench: Workbench, repetitions: int) -> list[Measured]:
    """Largest violation of the lightweight-coreset inequality: the least epsilon at which the sample satisfies it.

    |phi_D(C) - phi_S(C)| <= epsilon / 2 (phi_D(C) + phi_D({mean})), over the trial center sets.
    """
    assert cell.sample_size is not None
    if math.isinf(cell.epsilon):
        rule = bench.rule_without_noise(cell.rule, cell.sample_size)
    else:
        rule = bench.calibrated(cell.rule, cell.sample_size, cell.epsilon).rule
    spread = bench.norms.mean_square_norm * len(bench.rows)
    found = []
    for repetition in range(repetitions):
        sample = bench.sample(rule, cell.seed(repetition))
        costs = mean_costs(sample.rows.astype(np.float32), bench.trial_centers, sample.weights)
        violation = np.abs(bench.trial_costs - costs) / (0.5 * (bench.trial_costs + spread))
        found.append(Measured(repetition=repetition, measure="violation", value=float(violation.max())))
    return found


def _times(cell: Cell, bench: Workbench, repetitions: int) -> list[Measured]:
    """Seconds for the weights (solving the rule's table), the pass that samples by it, and DP-Lloyd.

    The noise is given, as in the paper. Norms and look-ups of weights are part of the pass: it reads a row once.
    """
    calibration = bench.calibrated(cell.rule, cell.sample_size, cell.epsilon)
    measured = []
    for repetition in range(-1, repetitions):  # the first run only warms caches
        seed = cell.seed(repetition)
        rng = np.random.default_rng(seed)
        begin = time.perf_counter()
        rule = _rule_again(calibration, bench)
        solved = time.perf_counter()
        sample = bench.everything if cell.rule == "all rows" else bench.sample(rule, seed)
        sampled = time.perf_counter()
        start = first_centers(cell, sample.rows, bench.ball.radius, rng)
        dp_lloyd(sample.rows, sample.weights, start, law="valid", scales=_scales(calibration.noise, bench), rng=rng)
        done = time.perf_counter()
        if repetition < 0:
            continue
        measured.append(Measured(repetition=repetition, measure="t_lloyd", value=done - sampled))
        if cell.rule != "all rows":
            measured.append(Measured(repetition=repetition, measure="t_weights", value=solved - begin))
            measured.append(Measured(repetition=repetition, measure="t_sampling", value=sampled - solved))
    return measured


def _rule_again(given: Calibration, bench: Workbench) -> pais.Rule:
    """The rule of a calibration, made anew from its noise."""
    if not isinstance(given.rule, pais.ConstrainedRule):
        return given.rule
    return pais.ConstrainedRule(profile=given.profile, radius=bench.ball.radius, epsilon=given.epsilon)
