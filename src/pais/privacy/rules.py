"""Sampling rules: the probability of a record by its norm; and the public distribution of the norms."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pais._base import files, validate
from pais._base.files import stored
from pais._base.numerics import ULP, FloatArray, lowered, round_up
from pais.errors import ArgumentError, UnreachableError
from pais.privacy.amplification import epsilon_at_delta, kept_limit
from pais.privacy.profiles import GaussianProfile, LinearProfile, Profile, ShiftProfile
from pais.privacy.weights import SMALLEST_PROBABILITY, solve_weights


class Rule(ABC):
    """Inclusion probability as a function of the norm, fixed before any row is read.

    Attributes
    ----------
    radius : float
        The rule is defined for norms in [0, radius].
    linear_between_breakpoints : bool
        Whether the probability is linear in the norm between breakpoints. If not, it is only monotone there.
    continuous : bool
        Whether the probability has no jumps. If so, its values at the breakpoints determine its bounds.
    """

    radius: float
    linear_between_breakpoints: bool = False
    continuous: bool = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Reset the inherited flags that describe `evaluate` if the subclass overrides `evaluate`."""
        super().__init_subclass__(**kwargs)
        if "evaluate" in cls.__dict__:
            for flag in ("linear_between_breakpoints", "continuous"):
                if flag not in cls.__dict__:
                    setattr(cls, flag, False)  # [note: worst-7]

    #: Whether the rule keeps every row with probability 1, whatever its norm.
    keeps_all: bool = False

    @abstractmethod
    def evaluate(self, norm: FloatArray) -> FloatArray:
        """Probabilities for norms that are known to lie in [0, radius]; the fast path of a pass over the rows."""

    @abstractmethod
    def breakpoints(self, radius: float) -> FloatArray:
        """Norms from 0 to `radius`, both included, such that the probability is monotone strictly between two of them.

        The probability may jump at a breakpoint, on either side, unless the rule is `continuous`.
        """

    def to_dict(self) -> dict[str, Any]:
        """Public description of the rule, for certificates and files."""
        return files.to_dict(self, "rule")

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> Rule:
        """Rebuild a rule of this package from its description."""
        return cast(Rule, files.from_dict(described, "rule"))

    def probability(self, norm: ArrayLike) -> FloatArray:
        """Inclusion probability of each norm, in (0, 1].

        Norms beyond the radius raise an `ArgumentError`: clip the rows to the ball first.
        """
        norms = validate.norms(norm)
        if np.any(norms > self.radius):
            raise ArgumentError(
                f"norm holds an entry above the radius {self.radius!r} of the rule. Clip the rows to the ball first."
            )
        return self.evaluate(np.atleast_1d(norms)).reshape(norms.shape)

    def bounds(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Smallest and largest probability on each interval [low, high] that has no breakpoint strictly inside."""
        ends = [low, high]
        if not self.continuous:
            # The rule is monotone strictly inside the interval, so also evaluate its first and last inner doubles.
            ends += [np.minimum(np.nextafter(low, np.inf), high), np.maximum(np.nextafter(high, 0.0), low)]
        values = [self.evaluate(end) for end in ends]
        return np.minimum.reduce(values), np.maximum.reduce(values)

    def probes(self, radius: float) -> FloatArray:
        """Norms that include the extremes of the probability on the ball: breakpoints, and both sides of jumps."""
        points = self.breakpoints(radius)
        if self.continuous:
            return points
        beside = [np.nextafter(points, 0.0), np.minimum(np.nextafter(points, np.inf), radius)]
        return np.unique(np.concatenate([points, *beside]))

    def _extremes(self, radius: float) -> FloatArray:
        """Norms at which the smallest and the largest probability are reached."""
        return self.probes(radius)

    def largest_probability(self, radius: float) -> float:
        """Largest probability on the ball. It is public, so a pass over the rows may use it to skip rows."""
        return float(np.max(self.evaluate(self._extremes(radius))))

    def smallest_probability(self, radius: float) -> float:
        """Smallest probability on the ball. It is public, and its inverse bounds every weight."""
        return float(np.min(self.evaluate(self._extremes(radius))))

    def largest_contribution(self, radius: float, power: int = 1) -> float:
        """Upper bound on norm**power / probability over the ball: the most that a weighted row can add to a sum."""
        points = self.breakpoints(radius)
        smallest, _ = self.bounds(points[:-1], points[1:])
        return float(np.max(points[1:] ** power / smallest))


@stored("rule", "uniform", renamed={"rate": "probability"})
@dataclass(frozen=True, kw_only=True)
class UniformRule(Rule):
    """Every record has the same probability."""

    rate: float
    radius: float = math.inf
    linear_between_breakpoints = True
    continuous = True

    def __post_init__(self) -> None:
        rate = validate.number(
            "rate",
            self.rate,
            rule=f"a probability in [{SMALLEST_PROBABILITY}, 1]",
            low=SMALLEST_PROBABILITY,
            high=1.0,
        )
        object.__setattr__(self, "rate", rate)
        object.__setattr__(self, "radius", validate.positive_or_infinite("radius", self.radius))

    @property
    def keeps_all(self) -> bool:  # type: ignore[override]  # fixed by the rate, not per class
        return type(self) is UniformRule and self.rate == 1.0

    @classmethod
    def of_size(cls, sample_size: float, *, n_rows: float) -> UniformRule:
        """The uniform rule that keeps `sample_size` of `n_rows` rows in expectation."""
        size, rows = validate.positive("sample_size", sample_size), validate.positive("n_rows", n_rows)
        if size > rows:
            raise UnreachableError(
                f"sample_size={size!r} exceeds n_rows={rows!r}. Pass at most n_rows.", reachable=rows
            )
        return cls(rate=size / rows)

    def evaluate(self, norm: FloatArray) -> FloatArray:
        return np.full_like(norm, self.rate)

    def breakpoints(self, radius: float) -> FloatArray:
        return np.array([0.0, radius])


@stored("rule", "coreset")
@dataclass(frozen=True, kw_only=True)
class CoresetRule(Rule):
    """q(norm) = m/n (uniform_share + (1 - uniform_share) norm**2 / mean_square_norm): CORESET-BOUND.

    Parameters
    ----------
    sample_size, n_rows, mean_square_norm : float
        Expected sample size m, and the public number of rows n and mean squared norm.
    radius : float
        Radius of the ball; q must not exceed 1 on all of it.
    uniform_share : float
        In [0, 1]; 1 is the uniform rule.
    """

    sample_size: float
    n_rows: float
    mean_square_norm: float
    radius: float
    uniform_share: float = 0.5
    continuous = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", validate.radius(self.radius))
        for name in ("sample_size", "n_rows", "mean_square_norm"):
            object.__setattr__(self, name, validate.positive(name, getattr(self, name)))
        object.__setattr__(self, "uniform_share", validate.share("uniform_share", self.uniform_share))
        if self.uniform_share == 0.0:
            raise ArgumentError("uniform_share=0.0 gives records of norm 0 the probability 0. Pass a number in (0, 1].")
        if not self.sample_size / self.n_rows * self.uniform_share >= SMALLEST_PROBABILITY:
            raise ArgumentError(
                f"sample_size={self.sample_size!r} of n_rows={self.n_rows!r} gives norm 0 a probability below "
                f"{SMALLEST_PROBABILITY}. Pass a larger sample_size or uniform_share."
            )
        reachable = largest_coreset_size(self.n_rows, self.mean_square_norm, self.radius, self.uniform_share)
        if self.sample_size > reachable:  # [note: coreset-1]
            raise UnreachableError(
                f"sample_size={self.sample_size!r} needs a probability above 1 at the radius. "
                f"Pass at most {lowered(reachable, 10)}, or a larger uniform_share.",
                reachable=reachable,
            )

    def evaluate(self, norm: FloatArray) -> FloatArray:
        rate = self.sample_size / self.n_rows
        tilt = rate * (1.0 - self.uniform_share) / self.mean_square_norm
        # The minimum only removes rounding error, because the constructor refuses sizes with q > 1.
        return np.minimum(rate * self.uniform_share + tilt * norm * norm, 1.0)  # [note: coreset-2]

    def breakpoints(self, radius: float) -> FloatArray:
        return np.array([0.0, radius])


def largest_coreset_size(n_rows: float, mean_square_norm: float, radius: float, uniform_share: float = 0.5) -> float:
    """Largest expected size at which the coreset rule is at most 1 on the whole ball; exact, see erratum 11."""
    if mean_square_norm <= 0.0:
        raise ArgumentError(
            f"mean_square_norm={mean_square_norm!r} is not positive. Use another rule if all norms are 0."
        )
    return n_rows / (uniform_share + (1.0 - uniform_share) * radius**2 / mean_square_norm)  # [note: coreset-3]


#: Steps of a table, chosen by eye. For smooth profiles, 256 steps give the expected size to 0.1 % (`calibration`).
N_KNOTS = 4096

# A table with more knots gains no accuracy and takes gigabytes.
_MOST_KNOTS = 2**20

# Number of norms looked up at a time: these arrays fit into the cache.
_PIECE = 1 << 14


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
        # Make the probabilities exactly non-decreasing, so that the ends of a cell bound the rule on the cell.
        risen = np.maximum.accumulate(probabilities)
        fallen = np.flatnonzero(probabilities < risen * (1.0 - 1e-10))
        if fallen.size:
            # The feasible weights of a custom profile are not one interval, so a raised probability may be infeasible.
            # From here on, use weight 1, which is always feasible.
            risen[fallen[0] :] = 1.0  # [note: table-6]
        object.__setattr__(self, "_values", risen)
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
        if self._values[0] == self._values[-1]:
            return np.full(norm.shape, self._values[0])
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
        points = self._knots
        if type(self) is ConstrainedRule and type(self.profile) is GaussianProfile:
            # Of several knots with equal values, only the last is a breakpoint. The loss is largest there, too.
            points = points[np.concatenate([[True], self._values[1:-1] != self._values[2:], [True]])]  # [note: table-8]
        return np.append(points[points < radius], radius)


def epsilon_without_sampling(profile: Profile, radius: float, delta: float, n_knots: int = N_KNOTS) -> float:
    """Largest epsilon on the ball at weight 1; infinite for Gaussian noise at delta 0."""
    if isinstance(profile, ShiftProfile):
        return epsilon_at_delta(delta, float(profile(1.0, radius)), 1.0) if delta > 0.0 else math.inf
    knots = knot_norms(radius, n_knots)
    return float(np.max(profile.loss(np.ones_like(knots), knots)))


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


def not_private_variance_optimal(norm: ArrayLike, *, sample_size: float) -> FloatArray:
    """Probabilities proportional to the l2 norm, capped at 1, that sum to `sample_size`. NOT PRIVATE.

    These probabilities minimise the sampling variance of a sum at a given expected size (water-filling). They depend on
    all norms at once, so they give no differential privacy guarantee of any kind. They are not a `Rule`, and no sampler
    of this package accepts them. Use them as a lower bound in a plot.
    """
    norms = validate.non_empty("norm", validate.norms(norm).ravel())
    size = validate.positive("sample_size", sample_size)
    positive = int(np.count_nonzero(norms))
    if size > positive:
        raise UnreachableError(
            f"sample_size={size!r} exceeds the number of positive norms. Pass a smaller size.",
            reachable=float("nan"),
        )
    order = np.argsort(-norms)
    ranked = norms[order]
    # If the j largest probabilities are capped at 1, the others sum to size - j in proportion to the norm.
    tail = np.cumsum(ranked[::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = (size - np.arange(norms.size)) / tail
    fits = (scale > 0.0) & (scale * ranked <= 1.0)
    capped = int(np.argmax(fits)) if np.any(fits) else norms.size
    result = np.ones_like(norms)
    if capped < norms.size:
        result[order[capped:]] = np.minimum(scale[capped] * ranked[capped:], 1.0)
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class NormDistribution:
    """Distribution of a number of rows over norms in [0, radius], as atoms and their masses.

    Build it from a public distribution or a (noisy) histogram. It determines expected sample sizes only.
    Guarantees never depend on it: they hold on the whole ball for any rows.
    """

    norms: FloatArray
    masses: FloatArray
    radius: float
    n_rows: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", validate.radius(self.radius))
        norms = validate.non_empty("norms", validate.norms(self.norms).ravel())
        masses = validate.losses("masses", self.masses).ravel()
        with np.errstate(over="ignore"):
            n_rows = float(masses.sum())
        # No table has this many rows, and products with squared norms stay finite.
        if norms.shape != masses.shape or not 0.0 < n_rows <= 1e100:
            raise ArgumentError(
                "masses must have the shape of norms and a sum in (0, 1e100]. Pass one mass >= 0 for each norm."
            )
        object.__setattr__(self, "norms", np.minimum(norms, self.radius))
        object.__setattr__(self, "masses", masses)
        object.__setattr__(self, "n_rows", n_rows)
        validate.freeze(self.norms, self.masses)

    def __repr__(self) -> str:
        return f"NormDistribution({self.norms.size} atoms, radius={self.radius!r})"

    @classmethod
    def from_histogram(cls, edges: ArrayLike, counts: ArrayLike, *, radius: float | None = None) -> NormDistribution:
        """Build from a histogram on public bins, such as a norm survey; counts may be noisy and negative.

        The mass of each bin is split evenly between its two edges. Norms beyond `radius` (default: the last edge)
        are clipped to it, because the rows will be clipped too.
        """
        edge = validate.norms(edges).ravel()
        count = validate.real_array("counts", counts).ravel()
        if edge.size != count.size + 1 or count.size == 0 or np.any(np.diff(edge) <= 0.0):
            raise ArgumentError("edges must increase and have one entry more than counts. Pass the edges of the bins.")
        if not np.all(np.isfinite(count)):
            raise ArgumentError("counts holds an entry that is not finite. Pass finite counts; they may be negative.")
        half = 0.5 * np.maximum(count, 0.0)
        masses = np.append(half, 0.0) + np.append(0.0, half)
        return cls(norms=edge, masses=masses, radius=float(edge[-1]) if radius is None else radius)

    @classmethod
    def from_quantiles(
        cls, quantile: Callable[[FloatArray], FloatArray], *, n_rows: float, radius: float
    ) -> NormDistribution:
        """Build from the quantile function of a public distribution of norms, e.g. ``scipy.stats.chi(10).ppf``."""
        rows = validate.positive("n_rows", n_rows)
        if not callable(quantile):
            raise ArgumentError("quantile is not a function. Pass a quantile function such as scipy.stats.chi(10).ppf.")
        levels = (np.arange(N_KNOTS) + 0.5) / N_KNOTS
        norms = validate.norms(quantile(levels))
        return cls(norms=norms, masses=np.full(norms.shape, rows / N_KNOTS), radius=radius)

    @classmethod
    def from_private_norms(cls, norm: ArrayLike, *, radius: float) -> NormDistribution:
        """Build from the norms of the rows themselves. NOT PRIVATE: only for the data owner's own studies.

        A noise or size solved with this distribution depends on the rows. Publishing it, or a release planned with
        it, leaks information. Each norm is split between its two neighbouring knots, so sums of a rule that is
        tabulated on these knots are exact.
        """
        radius = validate.radius(radius)
        norms = np.minimum(validate.non_empty("norm", validate.norms(norm).ravel()), radius)
        position = norms * (N_KNOTS / radius)
        cell = np.minimum(position.astype(np.int32), N_KNOTS - 1)
        position -= cell
        upper = np.bincount(cell, weights=position, minlength=N_KNOTS)
        masses = np.append(np.bincount(cell, minlength=N_KNOTS) - upper, 0.0)
        masses[1:] += upper
        return cls(norms=knot_norms(radius, N_KNOTS), masses=np.maximum(masses, 0.0), radius=radius)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NormDistribution) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.radius, self.n_rows))

    def to_dict(self) -> dict[str, Any]:
        """The norms with positive mass, for files."""
        positive = self.masses > 0.0
        return {"radius": self.radius, "norms": self.norms[positive].tolist(), "masses": self.masses[positive].tolist()}

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> NormDistribution:
        """Rebuild a distribution from its description."""
        norms, masses = (np.asarray(described[name], dtype=np.float64) for name in ("norms", "masses"))
        return cls(norms=norms, masses=masses, radius=described["radius"])

    @property
    def mean_square_norm(self) -> float:
        return float(self.masses @ np.square(self.norms) / self.masses.sum())

    def mean_weight(self, rule: Rule) -> float:
        """Mean of 1/probability over all rows."""
        return float(np.average(1.0 / rule.probability(np.minimum(self.norms, self.radius)), weights=self.masses))

    def expected_size(self, rule: Rule) -> float:
        """Expected number of rows that a rule keeps."""
        return float(self.masses @ rule.probability(self.norms))
