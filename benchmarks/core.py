"""Speed of the core against bare NumPy, as ratios measured in one run.

Times depend on the machine; ratios of interleaved runs travel. Nothing here is asserted in a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import pais
from pais.privacy.rules import ConstrainedRule
from pais.privacy.rules.weights import closed_form_weight

ROWS, COLUMNS = 566_486, 54
REPEATS = 20


@dataclass(frozen=True, kw_only=True)
class Job:
    """One thing timed, the bare NumPy call it is compared with, and the ratio it must not exceed."""

    name: str
    run: Callable[[], object]
    against: str
    at_most: float | None


def clustered_rows(seed: int = 0) -> np.ndarray:
    """Rows of the shape of Covertype: 54 columns, root mean square norm near 0.44 of the 97.5 % quantile."""
    rng = np.random.default_rng(seed)
    rows: np.ndarray = rng.standard_normal((ROWS, COLUMNS))
    rows *= rng.lognormal(sigma=0.62, size=(ROWS, 1))
    return rows


def main() -> None:
    rows = clustered_rows()
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    radius = float(np.quantile(norms, 0.975))
    ball = pais.Ball(radius=radius)
    inside = np.minimum(norms, radius)
    distribution = pais.NormDistribution.from_private_norms(norms, radius=radius)
    profile = pais.LinearProfile(intercept=0.1, slope=1.0 / radius)
    plan = pais.calibrate("constrained", profile, distribution, epsilon=1.0, sample_size=20_000)
    assert isinstance(plan.rule, ConstrainedRule)
    rule, at_one = plan.rule, plan.profile(1.0, inside)
    ceiling = rule.largest_probability(radius)
    shape = np.sqrt(distribution.mean_square_norm) / radius
    print(f"expected size {plan.sample_size:,.0f}, largest q {ceiling:.3f}, rms norm / radius {shape:.2f}")
    gaussian = pais.GaussianProfile(count_scale=10.0, sum_scale=radius, n_iterations=5)

    def solve_noise() -> object:
        distribution = pais.NormDistribution.from_private_norms(norms, radius=radius)
        return pais.calibrate("constrained", profile, distribution, epsilon=1.0, sample_size=20_000)

    jobs = [
        Job(name="np.linalg.norm(X, axis=1)", run=lambda: np.linalg.norm(rows, axis=1), against="", at_most=None),
        Job(name="einsum norms", run=lambda: np.sqrt(np.einsum("ij,ij->i", rows, rows)), against="", at_most=None),
        Job(name="weights: safe table", run=lambda: rule.evaluate(inside), against="norm", at_most=0.2),
        Job(name="weights: closed form", run=lambda: closed_form_weight(at_one, 1.0), against="norm", at_most=None),
        Job(
            name="blocked pass, secure draws",
            run=lambda: pais.sample(rows, ball=ball, rule=rule, strategy="pass"),
            against="einsum",
            at_most=1.6,
        ),
        Job(
            name=f"thinning pass, secure draws, largest q = {ceiling:.2f}",
            run=lambda: pais.sample(rows, ball=ball, rule=rule, strategy="thin"),
            against="einsum",
            at_most=1.0,
        ),
        Job(name="noise for a target size, pure", run=solve_noise, against="norm", at_most=0.3),
        Job(
            name="noise for a target size, (epsilon, delta)",
            run=lambda: pais.calibrate(
                "constrained", gaussian, distribution, epsilon=1.0, delta=1e-6, sample_size=20_000
            ),
            against="norm",
            at_most=None,
        ),
    ]
    report(jobs, interleaved(jobs))


def interleaved(jobs: list[Job]) -> list[float]:
    """Smallest time of each job, all jobs taking turns so that a slow moment of the machine hits all alike."""
    best = [float("inf")] * len(jobs)
    for _ in range(REPEATS):
        for index, job in enumerate(jobs):
            job.run()  # every job is timed warm: caches, and the cores it uses
            start = time.perf_counter()
            job.run()
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def report(jobs: list[Job], seconds: list[float]) -> None:
    base = {"norm": seconds[0], "einsum": seconds[1]}
    named = {"norm": "np.linalg.norm", "einsum": "einsum norms"}
    print(f"\n{ROWS:,} x {COLUMNS} float64, best of {REPEATS} interleaved runs\n")
    print(f"{'job':<58}{'ms':>8}  {'ratio':>6}  {'against':<16}{'at most':>8}")
    for job, time_ in zip(jobs, seconds, strict=True):
        ratio = f"{time_ / base[job.against]:.2f}" if job.against else ""
        limit = "" if job.at_most is None else f"{job.at_most:.1f}"
        mark = "" if job.at_most is None or time_ <= job.at_most * base[job.against] else "  EXCEEDED"
        print(f"{job.name:<58}{1e3 * time_:8.1f}  {ratio:>6}  {named.get(job.against, ''):<16}{limit:>8}{mark}")


if __name__ == "__main__":
    main()
