"""Bounds of records: functions of one record, public numbers and released values, and a private count of their bins."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.randomness import RandomState, bit_source
from pais._base.rowwise import norms_of
from pais._base.threads import one_blas_thread
from pais.accounting.ledger import Ledger, accounts
from pais.accounting.part import Part
from pais.errors import ArgumentError
from pais.mechanisms.noise import geometric_noise

#: A bound of records: takes arrays of records, one record in each row, and returns a bound for each.
Bound = Callable[..., FloatArray]

# A function is called on blocks of exactly this many records, as everywhere in the package.
_BLOCK = 1024


@dataclass(frozen=True, kw_only=True)
class FeatureNorm:
    """Bound on the gradients of a linear model: `slope` times the length of (x, 1), which clips nothing.

    This holds for every loss whose derivative in the score is at most `slope`: 1 for the logistic loss of two classes,
    sqrt(2) for the cross entropy of a softmax, the threshold for Huber's loss. The squared loss has no such slope: its
    gradients are clipped at the bound.
    """

    slope: float = 1.0
    intercept: bool = True

    def __post_init__(self) -> None:
        validate.positive("slope", self.slope)

    def __call__(self, X: FloatArray, *_: object) -> FloatArray:
        rows = np.asarray(X, dtype=np.float64)
        lengths = norms_of(rows, 2.0)
        return np.asarray(self.slope * (np.hypot(lengths, 1.0) if self.intercept else lengths) * (1.0 + 1e-12))


@dataclass(frozen=True, kw_only=True)
class StatedClasses:
    """A stated bound for each class of records: a class with a large bound has a large rate.

    The table is fixed before the data is seen. How frequent a class is in the data must not enter it.
    """

    bounds: Mapping[Any, float]

    def __post_init__(self) -> None:
        if isinstance(self.bounds, str) or not isinstance(self.bounds, Mapping):
            raise ArgumentError(
                "bounds of classes must be a table of numbers that are fixed before the data is seen. Frequencies of "
                "classes in the data, as in 'balanced', are not allowed: state the numbers, such as {0: 0.2, 1: 1.0}."
            )
        for bound in self.bounds.values():
            validate.positive("a bound of a class", bound)

    def __call__(self, *records: Any) -> FloatArray:
        labels = np.asarray(records[-1])
        # A class that is not in the table has the largest bound, so that no record decides whether a call succeeds.
        bound = np.full(labels.shape, max(self.bounds.values()))
        for label, value in self.bounds.items():
            bound[labels == label] = value
        return bound


@dataclass(frozen=True, kw_only=True)
class GradientNorm:
    """Length of a record's own gradient at a public start or at a released checkpoint, times a factor.

    `gradients` returns one gradient in each row for arrays of records. The parameters in it must be public, or released
    and paid for. Later gradients are clipped at the bound, so `factor` may leave room.
    """

    gradients: Callable[..., FloatArray]
    factor: float = 1.0

    def __post_init__(self) -> None:
        validate.positive("factor", self.factor)

    def __call__(self, *records: Any) -> FloatArray:
        rows = np.asarray(self.gradients(*records), dtype=np.float64)
        return self.factor * norms_of(rows.reshape(len(rows), -1), 2.0)


def bounds_of(bound: Bound, records: Sequence[Any]) -> FloatArray:
    """The bound of each record. The function is called on blocks of one size; a bound that is not finite is infinite.

    Refuses arrays, and functions whose value for a record depends on the other records in the call.
    """
    if not callable(bound):
        raise ArgumentError(
            "the bound must be a function of single records. Bounds or rates computed over the data set, such as class "
            "frequencies or ranks, have no guarantee. Allowed are functions of one record, public numbers and released "
            "parameters: FeatureNorm, StatedClasses, GradientNorm, or your own function."
        )
    if isinstance(records, np.ndarray) or len({len(part) for part in records}) != 1:
        raise ArgumentError("records must be a sequence of arrays of equal length, such as (X, y). Pass (X,) for one.")
    found = np.empty(n := len(records[0]))
    with one_blas_thread():
        for start in range(0, n, _BLOCK):
            block = [np.asarray(part[start : start + _BLOCK]) for part in records]
            found[start : start + _BLOCK] = _values(bound, [_padded(part) for part in block])[: len(block[0])]
        if n:
            _require_alone(bound, [_padded(np.asarray(part[:_BLOCK])) for part in records])
    return np.where(found >= 0.0, found, math.inf)  # [note: training-7]


def _padded(part: Any) -> Any:
    """A block of full size, filled up with its first record."""
    return np.concatenate([part, np.repeat(part[:1], _BLOCK - len(part), axis=0)]) if len(part) < _BLOCK else part


def _values(bound: Bound, block: list[Any]) -> FloatArray:
    values = np.asarray(bound(*block), dtype=np.float64)
    if values.shape != (_BLOCK,):
        raise ArgumentError("the bound must return one number for each record. Check its shape.")
    return values


def _require_alone(bound: Bound, block: list[Any]) -> None:
    """Raise if the first records of a block have other bounds among copies of the first one.

    A function of single records never raises, whatever the records are.
    """
    half = _BLOCK // 2
    alone = [np.concatenate([part[:half], np.repeat(part[:1], half, axis=0)]) for part in block]
    same = np.isclose(_values(bound, block)[:half], _values(bound, alone)[:half], rtol=1e-6, atol=0.0, equal_nan=True)
    if not same.all():
        raise ArgumentError(
            "the bound of a record depends on other records, so that it has no guarantee. Allowed are functions of one "
            "record, public numbers and released parameters; not class frequencies, ranks or batch statistics."
        )


def count_bounds(
    bound: Bound,
    records: Sequence[Any],
    *,
    edges: Sequence[float],
    epsilon: float,
    unit: str = "",
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> dict[float, float]:
    """Release how many records have a bound in each bin, for `pais.training.plan`; costs epsilon.

    Parameters
    ----------
    bound : callable
        Function of single records.
    records : sequence of arrays
        The arguments of the function, such as ``(X, y)``; secret.
    edges : sequence of float
        Largest bound of each bin. Records above the last edge count in the last bin.
    epsilon : float
        Price of the counts.
    unit : str
        Name of a record, such as "client", as in `pais.training.plan`.
    ledger : Ledger, optional
        Charged before noise is drawn, as is every active ledger.
    random_state : None, int or numpy Generator
        None draws from the cryptographic generator. Any other value is not private.

    Notes
    -----
    Guarantee. A record changes one count by one, so the counts cost epsilon: `tests/unit/training/test_bounds.py`.
    """
    points = np.sort(validate.flat("edges", list(edges)))
    noise, bits = geometric_noise(epsilon=epsilon), bit_source(random_state)
    payers = accounts(ledger)
    price = Part(what="counts of bounds", epsilon=epsilon, secure_randomness=bits.private, unit=unit)
    payers.check(price)
    place = np.minimum(np.searchsorted(points, bounds_of(bound, records), side="left"), points.size - 1)
    counts = np.bincount(place, minlength=points.size).astype(np.int64)  # [note: training-8]
    payers.spend(price)
    lattice = noise.lattice
    noisy = lattice.decode(noise.added_to(lattice.encode(counts[:, None].astype(np.float64)), lattice, bits))[:, 0]
    return {float(edge): max(float(count), 0.0) for edge, count in zip(points, noisy, strict=True)}
