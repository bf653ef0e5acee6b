"""Release one table many times, with the sampler and the mechanism of a real release."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, RandomState, bit_source
from pais.data.ball import Ball
from pais.data.engines import WeightedRows
from pais.data.engines.memory import MemoryEngine
from pais.errors import MismatchError
from pais.mechanisms import Joint, Mechanism, NoiseLaw, WeightedCount, WeightedMean, WeightedSum
from pais.privacy.rules import Rule
from pais.sampler import sample


@dataclass(frozen=True, kw_only=True)
class Part:
    """One noisy count or sum that a mechanism releases."""

    counts: bool
    noise: NoiseLaw

    @property
    def name(self) -> str:
        return "count" if self.counts else "sum"


def linear_parts(mechanism: Mechanism) -> tuple[Part, ...] | None:
    """The counts and sums that a mechanism releases, in order; None if it releases, or may release, anything else."""
    measure = type(mechanism).measure
    if isinstance(mechanism, WeightedCount) and measure is WeightedCount.measure:
        return (Part(counts=True, noise=mechanism.noise),)
    if isinstance(mechanism, WeightedSum) and measure is WeightedSum.measure:
        return (Part(counts=False, noise=mechanism.noise),)
    if isinstance(mechanism, WeightedMean) and measure is WeightedMean.measure:
        return (Part(counts=True, noise=mechanism.count_noise), Part(counts=False, noise=mechanism.sum_noise))
    if isinstance(mechanism, Joint) and measure is Joint.measure:
        inner = [linear_parts(part) for part in mechanism.parts]
        return None if None in inner else tuple(part for parts in inner if parts is not None for part in parts)
    return None


def measure_many(
    mechanism: Mechanism,
    rows: FloatArray,
    *,
    ball: Ball,
    rule: Rule,
    runs: int,
    random_state: RandomState | BitSource = None,
) -> list[FloatArray]:
    """Draw independent releases of counts and sums, all at once.

    Returns
    -------
    list of arrays of shape (runs, width)
        One array for each count or sum of the mechanism, in order; a mean is a count and a sum.

    Notes
    -----
    Guarantee. Every run has the distribution of `pais.run`, and a single run gives the same numbers from the same
    random bits: `tests/unit/auditing/test_audit_runs.py`. The sampler draws from all copies of the table at once, each
    row independently. These draws are for a study of synthetic rows: nothing is certified, and no ledger is charged.
    """
    parts = linear_parts(mechanism)
    if parts is None:
        raise MismatchError(
            f"{type(mechanism).__name__} cannot be measured many times at once. Call pais.run in a loop."
        )
    bits = bit_source(random_state)
    d = rows.shape[1]
    content, run_of = _samples(rows, ball, rule, runs, bits)
    released = []
    for part in parts:
        lattice = part.noise.lattice
        weights = content.weights[:, None]
        steps = lattice.encode(weights if part.counts else content.rows * weights)
        total = np.zeros((runs, 1 if part.counts else d), dtype=np.int64)
        np.add.at(total, run_of, steps)
        released.append(lattice.decode(part.noise.added_to(total, lattice, bits)))
    return released


def measure_each(
    mechanism: Mechanism,
    rows: FloatArray,
    *,
    ball: Ball,
    rule: Rule,
    runs: int,
    random_state: RandomState | BitSource = None,
) -> list[object]:
    """Draw independent outputs of any mechanism: the samples are drawn all at once, and each is measured separately.

    Notes
    -----
    Guarantee. Every run has the distribution of `pais.run`, and a single run gives the same numbers from the same
    random bits: `tests/unit/auditing/test_audit_runs.py`. As in `measure_many`, nothing is certified or charged.
    """
    bits = bit_source(random_state)
    content, run_of = _samples(rows, ball, rule, runs, bits)
    # The sampler preserves the order of rows, so the rows of a run are contiguous.
    ends = np.searchsorted(run_of, np.arange(runs + 1))
    return [
        mechanism.measure(WeightedRows(rows=content.rows[start:end], weights=content.weights[start:end]), ball, bits)
        for start, end in pairwise(ends)
    ]


def _samples(
    rows: FloatArray, ball: Ball, rule: Rule, runs: int, bits: BitSource
) -> tuple[WeightedRows, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Draw one sample of each copy of the table; return the kept rows and the run of each row."""
    n, d = rows.shape
    if n == 0:
        return WeightedRows(rows=np.empty((0, d)), weights=np.empty(0)), np.empty(0, dtype=np.int64)
    run = pa.table({"run": pa.array(np.repeat(np.arange(runs), n))})
    copies = MemoryEngine(np.tile(rows, (runs, 1)), carried=run)
    content = sample(copies, ball=ball, rule=rule, random_state=bits).spend("an audit")
    assert content.carried is not None
    return content, content.carried["run"].to_numpy()
