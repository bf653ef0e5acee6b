"""Sum of one vector per row, by a function that the user writes; and several such sums, each chosen after the last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import ULP, FloatArray, divide_down, multiply_down
from pais._base.randomness import BitSource
from pais._base.rowwise import norms_of
from pais._base.threads import one_blas_thread
from pais.data.ball import Ball, norm_order
from pais.errors import ArgumentError, AssumptionError, MismatchError
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.noise import NoiseLaw, exact_quotient
from pais.privacy.profiles import CustomProfile, CustomShiftProfile, NormFunction, Profile, ShiftProfile

#: Takes rows of shape (n, n_features) and returns vectors of shape (n, width).
RowFunction = Callable[[FloatArray], FloatArray]

#: A function is always called on this many rows. Rows that are missing at the end are rows of zeros. Chosen by eye.
BLOCK = 1024

# Number of synthetic rows of which a whole block is made, to see whether the place of a row in its block matters.
# Chosen by eye.
_REPEATED = 16


@dataclass(frozen=True, kw_only=True)
class RowMap:
    """A function that was tried on synthetic rows.

    Attributes
    ----------
    width : int
        Number of coordinates of a vector.
    block : int
        Number of rows of each call: 1 if the last bits of a vector depend on the place of the row in a block.
    """

    function: RowFunction
    width: int
    block: int

    @classmethod
    def probed(cls, function: RowFunction, n_features: int) -> RowMap:
        """Try a function on synthetic rows. Raise if it fails, or if the vector of a row depends on other rows."""
        if not callable(function):
            raise ArgumentError(
                "vectors must be a function of rows. Pass a function that returns one vector for each row."
            )
        rows = _synthetic_rows(n_features)
        with one_blas_thread():
            whole = _tried(function, rows)
            differs = _differs(_tried(function, rows[::-1])[::-1], whole)
            for place in range(0, BLOCK, BLOCK // _REPEATED):
                row, vector = rows[place : place + 1], whole[place : place + 1]
                differs |= _differs(_tried(function, np.repeat(row, BLOCK, axis=0)), np.repeat(vector, BLOCK, axis=0))
                # A call on one row may differ in its last bits, because a block always has the same number of rows.
                _differs(_tried(function, row), vector)
        return cls(function=function, width=whole.shape[1], block=1 if differs else BLOCK)

    def pieces(self, rows: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Slices of the rows, and their vectors: zero where they are not finite or the function fails."""
        with one_blas_thread():
            for start in range(0, len(rows), self.block):
                piece = slice(start, start + self.block)
                yield piece, self._vectors(rows[piece])

    def _vectors(self, rows: FloatArray) -> FloatArray:
        block = np.zeros((self.block, rows.shape[1]))
        block[: len(rows)] = rows
        try:
            vectors = _called(self.function, block).reshape(self.block, self.width)[: len(rows)]
        except MemoryError:
            raise
        except Exception:  # whatever a user's function raises; the text could show a row
            if len(rows) == 1:
                return np.zeros((1, self.width))
            # A row that the function fails on must not change the vectors of the others.
            half = len(rows) // 2
            return np.concatenate([self._vectors(rows[:half]), self._vectors(rows[half:])])  # [note: vectors-8]
        finite = np.isfinite(vectors).all(axis=1, keepdims=True)
        return np.where(finite, vectors, 0.0)  # [note: vectors-9]


def _called(function: RowFunction, rows: FloatArray) -> FloatArray:
    """Call a function on rows that it cannot write to."""
    rows.flags.writeable = False
    with np.errstate(all="ignore"):
        return np.asarray(function(rows), dtype=np.float64)


def _tried(function: RowFunction, rows: FloatArray) -> FloatArray:
    try:
        vectors = _called(function, rows.copy())
    except Exception as error:
        raise AssumptionError(
            f"vectors failed for synthetic rows of {rows.shape[1]} columns. Make it return one vector for every row."
        ) from error
    if vectors.ndim != 2 or len(vectors) != len(rows) or vectors.shape[1] == 0:
        raise AssumptionError(
            f"vectors returned shape {vectors.shape} for rows of shape {rows.shape}. Make it return an array with one "
            "vector for each row."
        )
    return vectors


def _differs(vectors: FloatArray, expected: FloatArray) -> bool:
    """Whether vectors differ by rounding errors. Raise if they differ by more."""
    if vectors.shape != expected.shape or not np.allclose(vectors, expected, rtol=1e-9, atol=1e-9, equal_nan=True):
        raise AssumptionError(
            "the vector of a row depends on the other rows of a call, or on earlier calls. Make it a function of the "
            "row alone: no means, ranks or sums over rows."
        )
    return not np.array_equal(vectors, expected, equal_nan=True)


@lru_cache(maxsize=8)
def _synthetic_rows(n_features: int) -> FloatArray:
    """Public rows of many lengths, among them rows of zeros and ones."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(BLOCK, n_features)) * 10.0 ** generator.integers(-3, 4, size=(BLOCK, 1))
    rows[::97], rows[1::97] = 0.0, 1.0
    return rows


# Norms at which a bound is checked before rows are read, and places of those that are also tried alone. Chosen by eye.
_KNOTS, _TRIED = 4097, [1, 2048]

# Added to lengths, because squares below 1e-308 underflow.
_UNDERFLOW = 1e-150


@dataclass(frozen=True)
class _WeightTimes:
    """weight * bound(norm). Frozen, so that the profiles of equal mechanisms compare equal."""

    bound: NormFunction

    def __call__(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        return np.asarray(weight * self.bound(norm))


@dataclass(frozen=True, kw_only=True)
class VectorSum(Mechanism):
    """Weighted sum of one vector per row, plus noise: the user writes a function from rows to vectors and its bound.

    Parameters
    ----------
    vectors : callable
        ``vectors(rows)``: takes clipped rows relative to the ball's center, as an array of shape (n, n_features) that
        cannot be written to, and returns one vector for each row, as an array of shape (n, width). Several threads may
        call it at a time.
    bound : float or callable
        Largest length of a vector, in the norm of the noise: a number, or ``bound(norm)``, a vectorised function of the
        norm of the row that never decreases. A longer vector is scaled back to its bound.
    noise : NoiseLaw
        Noise of the sum. Gaussian noise measures vectors in the l2 norm, and an `LpNoise` in the l_p norm. With
        `GeometricNoise`, vectors are truncated to whole multiples of its step.
    n_features : int
        Number of columns of the rows.
    order : float, optional
        Order of the norm of rows that `bound` is a function of; 2 by default, None if `bound` is a number.
    protects_units : bool
        State True if bound(sqrt(s)) is a concave function of s. The profile then holds for units of several rows too.
        It holds for every bound that is a number.

    Notes
    -----
    Guarantee. The profile bounds the loss of every record, even if `vectors` returns longer vectors than `bound` says:
    a longer vector is scaled back, and a vector with NaN or infinity, or one for which the function fails, counts as
    zero: `tests/unit/mechanisms/test_vectors.py`. No row decides whether a release succeeds.

    Assumes. The vector of a row depends on that row, on public values and on released values alone. The constructor
    searches for a counterexample on synthetic rows and raises an `AssumptionError` if it finds one. The function is
    always called on blocks of 1024 rows, filled up with rows of zeros, so that a matrix product rounds every row in the
    same way. If the last bits of a vector depend on the place of its row in the block, the function is called for one
    row at a time. The bound never decreases as the norm grows; a plan checks this on a grid of norms.

    Examples
    --------
    The sum of x |x|, whose length is the square of the norm:

    >>> import numpy as np
    >>> import pais
    >>> turned = pais.VectorSum(
    ...     vectors=lambda rows: rows * np.sqrt(np.square(rows).sum(axis=1, keepdims=True)),
    ...     bound=np.square,
    ...     noise=pais.gaussian_noise(40.0),
    ...     n_features=2,
    ... )
    >>> plan = pais.Plan(
    ...     ball=pais.Ball(radius=3.0), rule=pais.UniformRule(rate=1.0), mechanism=turned, epsilon=1.0, delta=1e-6
    ... )
    >>> pais.run(plan, np.ones((1000, 2))).value.shape
    (2,)
    """

    vectors: RowFunction
    bound: float | NormFunction
    noise: NoiseLaw
    n_features: int
    order: float | None = None
    protects_units: bool = False
    name = "vector sum"
    streams = True
    _rows: RowMap = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        validate.instance("noise", self.noise, NoiseLaw, "Pass gaussian_noise(...), laplace_noise(...) or an LpNoise.")
        object.__setattr__(self, "n_features", validate.count("n_features", self.n_features))
        if callable(self.bound):
            order = 2.0 if self.order is None else self.order
            object.__setattr__(self, "order", norm_order(order))
        else:
            object.__setattr__(self, "bound", validate.positive("bound", self.bound))
            if self.order is not None:
                raise ArgumentError(f"order={self.order!r} needs a bound that is a function of the norm. Leave it out.")
            object.__setattr__(self, "protects_units", True)  # [note: vectors-5]
        object.__setattr__(self, "_rows", RowMap.probed(self.vectors, self.n_features))

    @property
    def width(self) -> int:
        """Number of coordinates of a vector."""
        return self._rows.width

    @property
    def profile(self) -> Profile:
        at_one = self.noise.count_profile()
        if not callable(self.bound):
            return at_one.with_noise(float(divide_down(1.0, self.bound)))  # [note: vectors-1]
        scale = float(multiply_down(self.noise.scale, 1.0 - 8 * ULP))  # [note: vectors-2]
        if isinstance(at_one, ShiftProfile):
            return CustomShiftProfile(self.bound, scale)
        return CustomProfile(_WeightTimes(self.bound), noise=scale)

    def require_lattice(self, extent: Extent) -> None:
        lattice = self.noise.lattice
        if not callable(self.bound):
            lattice.require(extent.weight * self.bound)
            return
        norms = np.linspace(0.0, extent.radius, _KNOTS)
        bounds = CustomShiftProfile(self.bound).shift(norms)
        _require_elementwise(self.bound, norms)
        if np.any(np.diff(bounds) < -1e-12 * bounds[1:]):
            raise AssumptionError("bound decreases as the norm grows. Pass a bound that never decreases.")
        if self.protects_units:
            _require_concave(self.bound, extent.radius)
        with np.errstate(divide="ignore"):
            # A weight is at most the largest weight, and at most the largest product of weight and norm over the norm.
            weights = np.minimum(extent.weight, extent.contribution / norms[:-1])
        lattice.require(float(np.max(bounds[1:] * weights)))

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        return None if callable(self.bound) else exact_quotient(self.bound, self.noise)

    def measure(self, content: Any, ball: Ball, bits: BitSource) -> FloatArray:
        if content.n_features != self.n_features:
            raise MismatchError(
                f"the rows have {content.n_features} columns, but vectors was made for {self.n_features}. Pass the "
                "number of columns as n_features."
            )
        lattice = self.noise.lattice
        # Set for all threads of this process. Workers of a cluster set it for themselves.
        with one_blas_thread():
            steps = content.total(partial(self._steps, ball, lattice))
        return lattice.decode(self.noise.added_to(steps[None, :], lattice, bits)[0])

    def _steps(self, ball: Ball, lattice: Lattice, rows: FloatArray, weights: FloatArray) -> IntArray:
        """Sum of the weighted vectors of clipped rows, in whole steps."""
        total = np.zeros(self.width, dtype=np.int64)
        with np.errstate(all="ignore"):
            for piece, vectors in self._rows.pieces(rows):
                bounded = self._bounded(vectors, self._bounds(ball, rows[piece]))
                total += lattice.encode(bounded * weights[piece, None]).sum(axis=0)
        return total

    def _bounds(self, ball: Ball, rows: FloatArray) -> FloatArray:
        """Bound of the vector of each row, lowered by more than the function may differ from one call to the next."""
        if not callable(self.bound):
            return np.full(len(rows), self.bound)
        largest = float(self.bound(np.array([ball.radius]))[0])
        # A norm for which the function fails has the bound 0.
        bound = RowMap(function=partial(_column_of, self.bound), width=1, block=BLOCK)
        values = np.concatenate([bounds[:, 0] for _, bounds in bound.pieces(ball.norms(rows)[:, None])])
        # The norm of a clipped row is at most the norm that decided about its probability.
        bounds = np.minimum(values, largest) * (1.0 - 8 * ULP)  # [note: vectors-3]
        return np.where(bounds > 0.0, bounds, 0.0)

    def _bounded(self, vectors: FloatArray, bounds: FloatArray) -> FloatArray:
        """Scale vectors that are longer than their bounds back to just below them."""
        edge = bounds * (1.0 - 2 * (self.width + 16) * ULP)
        length = norms_of(vectors, self.noise.order) + _UNDERFLOW
        # The length of a vector with one coordinate is exact, so such a vector may be as long as its bound.
        exact = (np.count_nonzero(vectors, axis=1) <= 1) & (np.abs(vectors).max(axis=1) <= bounds)
        factor = np.where(exact | (length <= edge), 1.0, edge / length)
        return vectors * factor[:, None]  # [note: vectors-4]

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return value * max_rows

    def describe(self) -> dict[str, Any]:
        """Public description: functions are named, because they cannot be written to a file."""
        return {
            "noise": self.noise.to_dict(),
            "vectors": getattr(self.vectors, "__name__", type(self.vectors).__name__),
            "bound": getattr(self.bound, "__name__", "function") if callable(self.bound) else self.bound,
            "n_features": self.n_features,
            "width": self.width,
        }


def _column_of(bound: NormFunction, norms: FloatArray) -> FloatArray:
    return np.asarray(bound(norms[:, 0]))[:, None]


def _require_elementwise(bound: NormFunction, norms: FloatArray) -> None:
    """Raise if the bound of a norm is seen to depend on the other norms of a call."""
    turned, alone = bound(norms[::-1])[::-1], np.concatenate([bound(norms[place : place + 1]) for place in _TRIED])
    same = partial(np.allclose, rtol=1e-12, atol=0.0, equal_nan=True)
    if not (same(bound(norms), turned) and same(bound(norms)[_TRIED], alone)):
        raise AssumptionError("the bound of a norm depends on the other norms of a call. Use each norm alone.")


def _require_concave(bound: NormFunction, radius: float) -> None:
    """Raise if bound(sqrt(s)) is seen not to be concave in s."""
    squares = np.linspace(0.0, radius**2, _KNOTS)
    values = bound(np.sqrt(squares))
    if np.any(values[:-2] + values[2:] > 2.0 * values[1:-1] + 1e-9 * values[-1]):
        raise AssumptionError(
            "bound(sqrt(s)) is not concave in s, so the profile does not hold for units of several rows. Leave "
            "protects_units out, or pass a larger bound that is concave."
        )


@dataclass(frozen=True, kw_only=True)
class AdaptiveRounds(Mechanism):
    """The same kind of release several times on one sample, each chosen with the values released before.

    Parameters
    ----------
    step : callable
        ``step(values)``: takes the tuple of the values released so far, which is empty at first, and returns the next
        mechanism. All mechanisms must have one and the same profile.
    n_rounds : int
        Number of rounds.

    Notes
    -----
    Guarantee. The profile bounds the loss of all rounds together: Gaussian shifts of equal rounds add in squares, and
    pure losses add. A mechanism with another profile than the first is refused before it reads a row:
    `tests/unit/mechanisms/test_vectors.py`.

    Assumes. `step` uses public values and the values it is given, and nothing else that depends on rows.

    Examples
    --------
    >>> import numpy as np
    >>> import pais
    >>> def step(values):
    ...     center = np.mean(values, axis=0) / 1000 if values else np.zeros(2)
    ...     return pais.VectorSum(
    ...         vectors=lambda rows: np.clip(rows - center, -1, 1),
    ...         bound=2**0.5,
    ...         noise=pais.gaussian_noise(30.0),
    ...         n_features=2,
    ...     )
    >>> rounds = pais.AdaptiveRounds(step=step, n_rounds=3)
    >>> plan = pais.Plan(
    ...     ball=pais.Ball(radius=5.0), rule=pais.UniformRule(rate=1.0), mechanism=rounds, epsilon=1.0, delta=1e-6
    ... )
    >>> len(pais.run(plan, np.ones((1000, 2))).value)
    3
    """

    step: Callable[[tuple[Any, ...]], Mechanism]
    n_rounds: int
    name = "adaptive rounds"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_rounds", validate.count("n_rounds", self.n_rounds))
        validate.instance("step(())", self._first, Mechanism, "Return a VectorSum or another mechanism.")

    @cached_property
    def _first(self) -> Mechanism:
        return self.step(())

    @property
    def profile(self) -> Profile:
        profile = self._first.profile
        rounds: float = self.n_rounds
        if isinstance(profile, ShiftProfile):
            root = math.isqrt(self.n_rounds)
            rounds = root if root**2 == self.n_rounds else math.nextafter(math.sqrt(self.n_rounds), math.inf)
        return profile.with_noise(float(divide_down(1.0, rounds)))  # [note: vectors-6]

    @property
    def n_features(self) -> int:
        """Number of columns of the rows, if the rounds state one; `hasattr` is false if they do not."""
        return int(self._first.n_features)  # type: ignore[attr-defined]  # an AttributeError is what is wanted

    @property
    def order(self) -> float | None:
        return self._first.order

    @property
    def streams(self) -> bool:  # type: ignore[override]  # follows from the rounds
        return self._first.streams

    @property
    def passes(self) -> int:  # type: ignore[override]  # follows from the rounds
        return self.n_rounds * self._first.passes

    @property
    def protects_units(self) -> bool:  # type: ignore[override]  # follows from the rounds
        return self._first.is_for_units

    def require_lattice(self, extent: Extent) -> None:
        self._first.require_lattice(extent)

    def measure(self, content: Any, ball: Ball, bits: BitSource) -> tuple[Any, ...]:
        values: tuple[Any, ...] = ()
        for _ in range(self.n_rounds):
            mechanism = self.step(values)
            self._require_like_the_first(mechanism)
            values = (*values, mechanism.measure(content, ball, bits))
        return values

    def _require_like_the_first(self, mechanism: Mechanism) -> None:
        """Raise if a round has another price than the plan. The rounds depend on released values, so this may tell."""
        validate.instance("step(values)", mechanism, Mechanism, "Return a VectorSum or another mechanism.")
        first = self._first
        alike = type(mechanism) is type(first) and mechanism.order == first.order
        alike = alike and mechanism.is_for_units == first.is_for_units and _numbers(mechanism) == _numbers(first)
        if not (alike and mechanism.profile == first.profile):
            raise AssumptionError(  # [note: vectors-7]
                "a round has another profile than the first round. Let step return mechanisms of one class with the "
                "same noise, the same bound and the same numbers, and define a bound function outside of step."
            )

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return tuple(self._first.in_rows(each, max_rows) for each in value)

    def describe(self) -> dict[str, Any]:
        """Public description of the rounds: that of the first, and their number."""
        return {"rounds": self.n_rounds, "first": self._first.to_dict()}


def _numbers(mechanism: Mechanism) -> list[Any]:
    """The numbers of a mechanism. They decide how fine its sums are, which is checked for the first round alone."""
    values: list[Any] = [getattr(mechanism, each.name) for each in fields(mechanism)] if is_dataclass(mechanism) else []
    own = [value for value in values if isinstance(value, (int, float))]
    return own + [_numbers(part) for part in getattr(mechanism, "parts", ())]
