"""Tabulated sampling rules: values at the knots of a public grid of norms, looked up on the safe side."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base import validate
from pais._base.files import stored
from pais._base.numerics import ULP, FloatArray, round_up
from pais.errors import ArgumentError, UnreachableError
from pais.privacy.amplification import epsilon_at_delta, kept_limit
from pais.privacy.profiles import LinearProfile, Profile, ShiftProfile
from pais.privacy.rules.base import SMALLEST_PROBABILITY, Rule
from pais.privacy.rules.weights import solve_weights

N_KNOTS = 4096

# Number of norms looked up at a time.
_PIECE = 1 << 14

# A table with more knots gains no accuracy and takes gigabytes.
_MOST_KNOTS = 2**20


def _checked_knots(value: object) -> int:
    n_knots = validate.count("n_knots", value)
    if n_knots > _MOST_KNOTS:
        raise ArgumentError(f"n_knots={n_knots} is more than {_MOST_KNOTS}. Pass fewer: the table is held in memory.")
    return n_knots


def knot_norms(radius: float, n_knots: int) -> FloatArray:
    """The public grid: `n_knots` equal steps from 0 to the radius, with both ends exact."""
    norms = radius * (np.arange(n_knots + 1) / n_knots)
    norms[-1] = radius
    return norms


def _chord(norm: FloatArray, radius: float, knots: FloatArray, values: FloatArray) -> FloatArray:
    """Linear interpolation that is exact at the knots, monotone between them, and rounded toward the upper knot.

    The cell is found by exact comparison, so that a norm next to a knot never uses the wrong cell.
    """
    result = np.empty_like(norm)
    last = knots.size - 2
    rise, width = values[1:] - values[:-1], knots[1:] - knots[:-1]
    # Work in pieces that fit into the cache.
    for start in range(0, norm.size, _PIECE):
        piece = norm[start : start + _PIECE]
        cell = np.minimum((piece * ((last + 1) / radius)).astype(np.int32), last)
        cell -= knots.take(cell) > piece  # [note: table-1]
        cell += (cell < last) & (knots.take(cell + 1) <= piece)
        share = (piece - knots.take(cell)) / width.take(cell)
        share *= 1.0 + 8 * ULP  # [note: table-2]
        np.minimum(share, 1.0, out=share)
        # At a share of 1 the sum below may differ from the upper knot by an ulp, but the knot value was certified.
        interpolated = values.take(cell) + share * rise.take(cell)
        result[start : start + _PIECE] = np.where(share < 1.0, interpolated, values.take(cell + 1))
    return result


def _step_up(norm: FloatArray, radius: float, knots: FloatArray) -> NDArray[np.int32]:
    """Index of the first knot at or above each norm, by exact comparison."""
    last = knots.size - 1
    index = np.minimum(np.ceil(norm * (last / radius)).astype(np.int32), last)
    index += knots.take(index) < norm
    index = np.minimum(index, last)
    index -= (index > 0) & (knots.take(np.maximum(index - 1, 0)) >= norm)
    return index


@stored("rule", "constrained")
@dataclass(frozen=True, kw_only=True)
class ConstrainedRule(Rule):
    """The rule that keeps every record within a guarantee and samples as few rows as possible (CONSTRAINED).

    Parameters
    ----------
    profile : Profile
        The privacy loss of a record. Use `LinearProfile`, `PowerProfile` or `CustomProfile` for a pure guarantee,
        `ShiftProfile` for delta > 0.
    radius, epsilon, delta : float
        Radius of the ball, and the target guarantee.
    n_knots : int
        Number of steps of the table.
    max_epsilon_if_kept : float, optional
        Largest epsilon allowed for a record given that it was kept; None = epsilon + 15, math.inf = no limit.

    Notes
    -----
    Guarantee. With this profile every norm in the ball stays within (epsilon, delta):
    `tests/theory/test_tables.py`. For linear losses the table interpolates q linearly between exact knots. This is
    safe because q is convex in the norm, so the interpolated q is not below the exact q, and a larger q gives a
    smaller loss. For other losses the norm is rounded up to the next knot. This is safe because the loss never
    decreases as the norm grows. No kept record has a loss above `max_epsilon_if_kept`:
    `tests/theory/test_kept_records.py`.
    """

    profile: Profile
    radius: float
    epsilon: float
    delta: float = 0.0
    n_knots: int = N_KNOTS
    max_epsilon_if_kept: float | None = None
    _values: FloatArray = field(init=False, repr=False, compare=False)
    _knots: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", validate.radius(self.radius))
        object.__setattr__(self, "epsilon", validate.target_epsilon(self.epsilon))
        object.__setattr__(self, "delta", validate.target_delta(self.delta))
        object.__setattr__(self, "n_knots", _checked_knots(self.n_knots))
        limit = kept_limit(self.epsilon, validate.kept_limit(self.max_epsilon_if_kept))
        object.__setattr__(self, "max_epsilon_if_kept", limit)
        knots = knot_norms(self.radius, self.n_knots)
        if limit < self.epsilon:
            raise ArgumentError(
                f"max_epsilon_if_kept={limit!r} is below epsilon={self.epsilon!r}. Pass at least epsilon, because the "
                "loss of a kept record is never smaller."
            )
        try:
            weights = solve_weights(self.profile, knots, self.epsilon, self.delta, limit)
        except UnreachableError:
            reachable = epsilon_without_sampling(self.profile, self.radius, self.delta)
            raise UnreachableError(
                f"epsilon={self.epsilon!r} is too small for this noise: even without sampling, a record at the radius "
                f"has epsilon {reachable!r}. Raise epsilon or the noise, or lower the radius.",
                reachable=reachable,
            ) from None
        probabilities = np.minimum(round_up(1.0 / weights, 1.0), 1.0)  # [note: table-3]
        object.__setattr__(self, "_values", _rising(probabilities))
        object.__setattr__(self, "_knots", knots)
        validate.freeze(self._values, self._knots)

    @property
    def linear_between_breakpoints(self) -> bool:  # type: ignore[override]  # fixed by the profile, not per class
        return type(self.profile) is LinearProfile

    @property
    def continuous(self) -> bool:  # type: ignore[override]  # as above
        return self.linear_between_breakpoints

    def evaluate(self, norm: FloatArray) -> FloatArray:
        if self.linear_between_breakpoints:
            # Four ulps cover the rounding errors of the interpolation, so the result is never below the exact chord.
            probability = _chord(norm, self.radius, self._knots, self._values)
            probability *= 1.0 + 4 * ULP  # [note: table-4]
            return np.minimum(probability, 1.0, out=probability)
        return self._values.take(_step_up(norm, self.radius, self._knots))  # [note: table-5]

    def bounds(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.linear_between_breakpoints or type(self) is not ConstrainedRule:
            return super().bounds(low, high)
        value = self.evaluate(high)
        return value, value

    def _extremes(self, radius: float) -> FloatArray:
        # The table never falls. A subclass may change the look-up.
        return (
            np.array([0.0, radius]) if type(self) is ConstrainedRule else super()._extremes(radius)
        )  # [note: table-7]

    def breakpoints(self, radius: float) -> FloatArray:
        return np.append(self._knots[self._knots < radius], radius)


@dataclass(frozen=True, kw_only=True)
class FunctionRule(Rule):
    """A rule defined by a user function, tabulated on a public grid.

    Parameters
    ----------
    function : callable
        ``function(norm)``: takes an array of norms and returns probabilities in (0, 1]. It must not use the data.
    radius : float
        Radius of the ball.
    n_knots : int
        Number of steps of the grid. The rule is the linear interpolation of the function on this grid, not the
        function itself, so that its loss can be certified everywhere without assumptions about the function.
    """

    function: Callable[[FloatArray], FloatArray]
    radius: float
    n_knots: int = N_KNOTS
    linear_between_breakpoints = True
    continuous = True
    _values: FloatArray = field(init=False, repr=False, compare=False)
    _knots: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", validate.radius(self.radius))
        object.__setattr__(self, "n_knots", _checked_knots(self.n_knots))
        knots = knot_norms(self.radius, self.n_knots)
        try:
            values = self.function(knots)
        except (TypeError, ValueError):
            raise ArgumentError("function failed on an array of norms. Vectorise it, e.g. with np.where.") from None
        values = validate.real_array("function(norm)", values)
        if values.shape != knots.shape:
            raise ArgumentError(f"function returned shape {values.shape} for shape {knots.shape}. Vectorise it.")
        if not np.all((values >= SMALLEST_PROBABILITY) & (values <= 1.0)):
            raise ArgumentError(f"function returned a value outside [{SMALLEST_PROBABILITY}, 1]. Return probabilities.")
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_knots", knots)
        validate.freeze(self._values, self._knots)

    def evaluate(self, norm: FloatArray) -> FloatArray:
        return _chord(norm, self.radius, self._knots, self._values)

    def breakpoints(self, radius: float) -> FloatArray:
        return np.append(self._knots[self._knots < radius], radius)

    def to_dict(self) -> dict[str, Any]:
        """Name of the function and a fingerprint of its table: a function cannot be read from a file."""
        return {
            "rule": "function",
            "function": getattr(self.function, "__name__", type(self.function).__name__),
            "radius": self.radius,
            "n_knots": self.n_knots,
            "probabilities_sha256": hashlib.sha256(self._values.astype("<f8").tobytes()).hexdigest(),
        }


def _rising(probabilities: FloatArray) -> FloatArray:
    """Make the probabilities exactly non-decreasing, so that the ends of a cell bound the rule on the cell.

    A decrease larger than rounding error happens only if the feasible weights of a custom profile are not one interval.
    A raised probability might then be infeasible. From that knot on, use weight 1, which is always feasible.
    """
    risen = np.maximum.accumulate(probabilities)
    fallen = np.flatnonzero(probabilities < risen * (1.0 - 1e-10))
    if fallen.size:
        risen[fallen[0] :] = 1.0  # [note: table-6]
    return risen


def epsilon_without_sampling(profile: Profile, radius: float, delta: float, n_knots: int = N_KNOTS) -> float:
    """Largest epsilon on the ball at weight 1; infinite for Gaussian noise at delta 0."""
    if isinstance(profile, ShiftProfile):
        return epsilon_at_delta(delta, float(profile(1.0, radius)), 1.0) if delta > 0.0 else math.inf
    knots = knot_norms(radius, n_knots)
    return float(np.max(profile.loss(np.ones_like(knots), knots)))
