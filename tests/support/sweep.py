"""Many short checks, from end to end, over seeds: each seed is a configuration of its own.

    python -m tests.support.sweep --seconds 3600 --jobs 2

A seed draws rows, a ball, a mechanism, a rule and a target. What is checked: no loss on a dense grid of norms exceeds
the certified worst case; what was calibrated to a target accounts to at most that target; a seeded sample is the same
from memory and from a file; the parts of a certificate add up; noise has the moments of its law; a k-means charges its
ledger what it certifies, and neighbouring rows have one certificate; nothing raises. `--first` names the seed to begin
with, so that another run can go on where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pais
from pais._base.lattice import Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import bit_source
from pais.mechanisms.noise import NoiseLaw
from pais.privacy.certify import CERTIFIED_TOLERANCE

CHUNK = 5
_MOST_SEEDS = 1_000_000
_GRID = 2001
# Past the roundings of the formulas this compares with; certificates themselves are rounded up.
_ROUNDING = 1e-9
_DEVIATIONS = 8.0
_NOISE_DRAWS = 2000


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a seed stands for."""

    mechanism: str
    sampling: str
    radius: float
    order: float
    epsilon: float
    delta: float
    rows: FloatArray
    ball: pais.Ball
    norms: pais.NormDistribution


def setting_of(seed: int) -> Setting:
    """Rows, a ball that clips some of them, and a target; all from the seed."""
    rng = np.random.default_rng(seed)
    mechanism = str(rng.choice(["gaussian", "laplace", "l2"]))
    n, d = int(rng.integers(20, 1500)), int(rng.integers(1, 6))
    scale = float(10.0 ** rng.uniform(-3.0, 3.0))
    rows = scale * rng.standard_normal((n, d)) * rng.lognormal(0.0, 0.7, size=(n, 1))
    order = 1.0 if mechanism == "laplace" else 2.0
    center = None if rng.random() < 0.5 else tuple((scale * rng.standard_normal(d)).tolist())
    radius = float(scale * rng.uniform(1.0, 4.0))
    edges = np.linspace(0.0, radius, 9)
    return Setting(
        mechanism=mechanism,
        sampling=str(rng.choice(["constrained", "coreset", "uniform", "own"])),
        radius=radius,
        order=order,
        epsilon=float(10.0 ** rng.uniform(-1.5, 1.0)),
        delta=float(10.0 ** rng.uniform(-9.0, -3.0)) if mechanism == "gaussian" else 0.0,
        rows=rows,
        ball=pais.Ball(radius=radius, order=order, center=center),
        norms=pais.NormDistribution.from_histogram(edges, n * rng.dirichlet(np.ones(8))),
    )


def noise_of(mechanism: str, scale: float) -> NoiseLaw:
    if mechanism == "gaussian":
        return pais.GaussianNoise(scale=scale)
    return pais.LpNoise(scale=scale, p=1.0 if mechanism == "laplace" else 2.0)


def own_rule(radius: float, rng: np.random.Generator) -> pais.FunctionRule:
    """A rule that rises and falls, as nobody would plan it."""
    heights = rng.uniform(0.05, 1.0, size=6)
    return pais.FunctionRule(
        function=lambda norm: np.interp(norm, np.linspace(0.0, radius, 6), heights), radius=radius, n_knots=64
    )


def checks_of(seed: int, home: Path) -> dict[str, str | None]:
    """Each check of a seed with None, or with what was wrong."""
    setting = setting_of(seed)
    rng = np.random.default_rng([seed, 1])
    # Sums and counts in one, at noise 1.
    unit = pais.Joint(
        parts=(
            pais.WeightedCount(noise=_count_noise(setting, 1.0)),
            pais.WeightedSum(noise=noise_of(setting.mechanism, setting.radius)),
        )
    )
    plan = _planned(setting, unit.profile, rng)
    results = {
        "calibrated, then accounted: at most the target": _accounts(setting, plan),
        "grid below the certified worst case, calibrated": _grid(setting, plan.rule, plan.profile, rng),
        "grid below the certified worst case, any rule": _grid(
            setting, own_rule(setting.radius, rng), plan.profile, rng
        ),
        "one sample from memory and from a file": _engines(setting, plan.rule, seed, home),
        "parts add up, and to at most the target": _certificate(setting, plan, seed),
        "moments of the noise": _moments(setting, plan.noise, seed),
        "a fit pays what its certificate says, and no more than stated": _fit(setting, seed, rng),
        "neighbours have one certificate": _neighbours(setting, seed),
    }
    if setting.mechanism != "gaussian":
        results["grid below the certified worst case, powers"] = _powers(setting, rng)
    return results


def _count_noise(setting: Setting, scale: float) -> NoiseLaw:
    return pais.GaussianNoise(scale=scale) if setting.mechanism == "gaussian" else pais.laplace_noise(scale)


def _planned(setting: Setting, profile: pais.Profile, rng: np.random.Generator) -> pais.Calibration:
    sampling: Any = own_rule(setting.radius, rng) if setting.sampling == "own" else setting.sampling
    size = None
    if setting.sampling in ("uniform", "coreset"):
        # What a coreset rule can reach at most, and less.
        reach = setting.norms.n_rows / (0.5 + 0.5 * setting.radius**2 / setting.norms.mean_square_norm)
        size = float(reach * rng.uniform(0.1, 0.95))
    return pais.calibrate(
        sampling, profile, setting.norms, epsilon=setting.epsilon, delta=setting.delta, sample_size=size
    )


def _accounts(setting: Setting, plan: pais.Calibration) -> str | None:
    if setting.delta > 0.0:
        worst = pais.worst_case(
            plan.rule, plan.profile, radius=setting.radius, epsilon=setting.epsilon, tolerance=CERTIFIED_TOLERANCE
        )
        return None if worst.upper <= setting.delta else f"delta {worst.upper!r} above {setting.delta!r}"
    worst = pais.worst_case(plan.rule, plan.profile, radius=setting.radius, tolerance=CERTIFIED_TOLERANCE)
    return None if worst.upper <= setting.epsilon else f"epsilon {worst.upper!r} above {setting.epsilon!r}"


def _grid(setting: Setting, rule: pais.Rule, profile: pais.Profile, rng: np.random.Generator) -> str | None:
    """Losses by the plain formulas, at even and at random norms and at breakpoints."""
    points = rule.breakpoints(setting.radius)
    even, drawn = np.linspace(0.0, setting.radius, _GRID), rng.uniform(0.0, setting.radius, size=500)
    norm = np.concatenate([even, drawn, rng.choice(points, size=min(200, points.size))])
    probability = rule.probability(norm)
    loss = profile(1.0 / probability, norm)
    if setting.delta > 0.0:
        upper = pais.worst_case(rule, profile, radius=setting.radius, epsilon=setting.epsilon).upper
        seen = pais.amplified_delta(np.full_like(norm, setting.epsilon), loss, probability)
    else:
        upper = pais.worst_case(rule, profile, radius=setting.radius).upper
        with np.errstate(over="ignore"):
            plain = np.log1p(probability * np.expm1(np.minimum(loss, 700.0)))
        seen = np.where(loss < 700.0, plain, loss + np.log(probability))
    largest = float(np.max(seen))
    return None if largest <= upper * (1.0 + _ROUNDING) else f"{largest!r} above {upper!r}"


def _powers(setting: Setting, rng: np.random.Generator) -> str | None:
    profile = pais.PowerProfile(
        intercept=float(rng.uniform(0.01, 0.5)),
        slope=float(rng.uniform(0.01, 1.0)) / setting.radius,
        power=float(rng.uniform(1.0, 2.5)),
    )
    target = float(np.max(profile(np.ones(1), np.array([setting.radius])))) * float(rng.uniform(1.0, 3.0))
    rule = pais.ConstrainedRule(profile=profile, radius=setting.radius, epsilon=target, n_knots=256)
    upper = pais.worst_case(rule, profile, radius=setting.radius).upper
    if not upper <= target * (1.0 + _ROUNDING):
        return f"epsilon {upper!r} above {target!r}"
    return _grid(setting, rule, profile, rng)


def _engines(setting: Setting, rule: pais.Rule, seed: int, home: Path) -> str | None:
    path = home / "rows.parquet"
    columns = {f"x{number}": column for number, column in enumerate(setting.rows.T)}
    pq.write_table(pa.table(columns), path, row_group_size=97)
    drawn = [
        pais.sample(rows, ball=setting.ball, rule=rule, random_state=seed).spend("a comparison")
        for rows in (setting.rows, str(path))
    ]
    same = np.array_equal(drawn[0].rows, drawn[1].rows) and np.array_equal(drawn[0].weights, drawn[1].weights)
    return None if same else f"{len(drawn[0].weights)} and {len(drawn[1].weights)} rows, or others"


def _certificate(setting: Setting, plan: pais.Calibration, seed: int) -> str | None:
    mechanism = pais.Joint(
        parts=(
            pais.WeightedCount(noise=_count_noise(setting, plan.noise * (1.0 + 1e-9))),
            pais.WeightedSum(noise=noise_of(setting.mechanism, setting.radius * plan.noise * (1.0 + 1e-9))),
        )
    )
    kept = pais.sample(setting.rows, ball=setting.ball, rule=plan.rule, random_state=seed)
    earlier = (pais.Part(what="earlier", epsilon=0.125, delta=1e-12),)
    certificate = pais.release(
        mechanism, kept, epsilon=setting.epsilon, delta=setting.delta, spent=earlier, random_state=seed
    ).certificate
    fields = json.loads(certificate.to_json())
    for what in ("epsilon", "delta"):
        exactly = sum(Fraction(part[what]) for part in fields["parts"])
        # The smallest double that is not below the sum.
        if not Fraction(math.nextafter(fields[what], 0.0)) < exactly <= Fraction(fields[what]):
            return f"{what} is not the sum of the parts, rounded up"
    cost = fields["parts"][-1]["epsilon"]
    return None if cost <= setting.epsilon else f"epsilon {cost!r} above the target"


def _moments(setting: Setting, noise: float, seed: int) -> str | None:
    """Mean 0, and the mean square of the law, up to eight standard errors."""
    d = setting.rows.shape[1]
    law = noise_of(setting.mechanism, setting.radius * noise)
    lattice = Lattice.for_scale(law.scale)
    drawn = lattice.decode(law.draw_steps((_NOISE_DRAWS, d), lattice, bit_source(seed, stream=9))) / law.scale
    square = {"gaussian": 1.0, "laplace": 2.0, "l2": d + 1.0}[setting.mechanism]
    if np.any(np.abs(drawn.mean(axis=0)) > _DEVIATIONS * math.sqrt(square / _NOISE_DRAWS)):
        return "the mean is not 0"
    squares = np.mean(np.square(drawn), axis=1)
    error = float(squares.std()) / math.sqrt(_NOISE_DRAWS)
    gap = abs(float(squares.mean()) - square)
    return None if gap <= _DEVIATIONS * error else f"mean square {squares.mean()!r} where {square!r} is due"


def _model(setting: Setting, seed: int, **more: Any) -> pais.DPKMeans:
    return pais.DPKMeans(
        n_clusters=2 + seed % 4,
        epsilon=setting.epsilon,
        delta=setting.delta,
        mechanism=setting.mechanism,
        center=setting.ball.center,
        random_state=seed,
        **more,
    )


def _fit(setting: Setting, seed: int, rng: np.random.Generator) -> str | None:
    """A k-means from end to end, with more or less of the facts stated."""
    stated: list[tuple[str, Any]] = [("radius", setting.radius), ("norms", setting.norms)]
    facts = dict(stated[: seed % 3])
    ledger = pais.Ledger(epsilon=setting.epsilon, delta=setting.delta)
    sampling = str(rng.choice(["constrained", "none"]))
    model = _model(setting, seed, sampling=sampling, ledger=ledger, **facts).fit(setting.rows)
    certificate = model.certificate_
    if not certificate.epsilon <= setting.epsilon or not certificate.delta <= setting.delta:
        return f"epsilon {certificate.epsilon!r}, delta {certificate.delta!r} above the target"
    charged = [(entry.epsilon, entry.delta) for entry in ledger.entries]
    if charged != [(part.epsilon, part.delta) for part in certificate.parts]:
        return "the ledger was charged something else"
    return None if np.all(np.isfinite(model.cluster_centers_)) else "centers are not finite"


def _neighbours(setting: Setting, seed: int) -> str | None:
    """All facts stated: nothing on a certificate may know a row, but for the fingerprint of the released values."""
    models = [
        _model(setting, seed, radius=setting.radius, norms=setting.norms).fit(rows)
        for rows in (setting.rows, setting.rows[:-1])
    ]
    if not all(model.certificate_.matches(model.fit_.value) for model in models):
        return "a certificate names other values"
    larger, smaller = (replace(model.certificate_, values_sha256=None).to_json() for model in models)
    return None if larger == smaller else "certificates differ"


def run_chunk(first: int) -> tuple[Counter[str], list[str]]:
    """The checks of a few seeds."""
    warnings.simplefilter("error")
    # Surveys of a few hundred rows often find nothing, and say so.
    warnings.simplefilter("ignore", pais.SurveyWarning)
    # Weak guarantees are among what is swept, and made-up rows need no ledger.
    warnings.simplefilter("ignore", pais.PrivacyWarning)
    # Budgets and tables are small, so results may be poor; the sweep does not judge them.
    warnings.simplefilter("ignore", pais.QualityWarning)
    counts: Counter[str] = Counter()
    failures = []
    for seed in range(first, first + CHUNK):
        setting = setting_of(seed)
        counts[f"{setting.mechanism}, {setting.sampling}"] += 1
        with tempfile.TemporaryDirectory() as home:
            try:
                results = checks_of(seed, Path(home))
            except Exception as error:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                line = f"{Path(frame.filename).name}:{frame.lineno}"
                results = {"no exception": f"{type(error).__name__} at {line}: {error}"}
        counts.update(f"check: {name}" for name in results)
        failures += [f"seed {seed}: {name}: {wrong}" for name, wrong in results.items() if wrong is not None]
    return counts, failures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    failures: list[str] = []
    start, seeds = time.monotonic(), options.first
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        firsts = range(options.first, options.first + _MOST_SEEDS, CHUNK)
        for chunk_counts, chunk_failures in pool.imap(run_chunk, firsts):
            counts += chunk_counts
            seeds += CHUNK
            failures += chunk_failures
            print("\n".join(chunk_failures), end="\n" if chunk_failures else "", flush=True)
            if time.monotonic() - start > options.seconds:
                break
    for name, number in sorted(counts.items()):
        print(f"{number:8,}  {name}")
    print(f"{len(failures)} failures; the next seed is {seeds}")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
