"""What is public about the rows: stated facts, and those that a survey releases with noise.

`NoisyCounts` are the noisy counts of a survey. `Facts` and `Survey` are what a plan starts from. `SurveyNoise` is the
noise of a whole survey, and each `Stage` has a share of it. `Stages.run` is the only place where a survey runs: it is
paid for before the first stage draws noise. Stages for norms and for columns are in `norm_survey` and `column_survey`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from pais._base import files, validate
from pais._base.cards import Card, Carded
from pais._base.numerics import FloatArray, raised
from pais._base.randomness import BitSource, RandomState, bit_source
from pais._version import __version__
from pais.accounting.certificate import ONE_ROW, person_of, units_of
from pais.accounting.ledger import Accounts
from pais.accounting.part import Part
from pais.accounting.stores import SECURE, SEEDED, new_name
from pais.data.ball import Ball
from pais.data.cells import listed
from pais.data.engines.base import Engine
from pais.data.schema import Schema
from pais.data.units import Unit
from pais.errors import ArgumentError, MismatchError
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, laplace_noise
from pais.planning.explain import survey_text
from pais.privacy.guarantee import reuse_concern, warn
from pais.privacy.rules import NormDistribution

# The constants of this module were chosen by eye (commits e92db7f and 80c6e7b); kmeans-survey.md of benchmarks/results
# shows what they reach.

# Probability, by default, that noise alone lifts any empty octave above its threshold.
_EMPTY_OCTAVE_RISK = 0.02

# The outermost bin shown has more rows from it outwards than this many standard deviations of their noise.
_SEEN_TAIL = 2.5

# Where the number of rows outwards is known this well, in standard deviations, it shows how fast the tail falls. Where
# the bins of a far group are known so well, they show where it ends.
_CLEAR_TAIL = 6.0

# Bins over which the fall of the tail is measured.
_FALL_BINS = 4

# The tail is continued if the number of rows is above this many standard deviations of the noise of a bin.
_MANY_ROWS = 100.0


@dataclass(frozen=True, kw_only=True)
class NormCounts:
    """Estimated numbers of rows in bins of norms, none negative, with the variance of their sum."""

    counts: FloatArray
    variance: float

    @property
    def n_rows(self) -> float:
        return float(self.counts.sum())


@dataclass(frozen=True, kw_only=True)
class NoisyCounts:
    """Released numbers of rows in bins of norms: the same number of bins in every octave, and noise on every bin.

    `risk` is the probability that noise alone lifts any empty octave above its threshold.
    """

    counts: FloatArray
    bins_per_octave: int
    noise: NoiseLaw
    risk: float = _EMPTY_OCTAVE_RISK

    @property
    def deviation(self) -> float:
        return self.noise.deviation(1)

    def in_octaves(self) -> FloatArray:
        """Noisy number of rows in each octave."""
        return np.asarray(self.counts.reshape(-1, self.bins_per_octave).sum(axis=1))

    @property
    def above(self) -> NDArray[np.bool_]:
        """Which octaves have more rows than noise alone would show."""
        by_octave = self.in_octaves()
        log_chance = -np.log(self.risk * octave_weights(by_octave.size))
        return np.asarray(by_octave > sum_bound(self.noise, self.bins_per_octave, log_chance))

    def estimate(self, far: NDArray[np.bool_] | None = None) -> NormCounts | None:
        """The numbers of rows from the counts that stand above the noise; None if none does.

        Octaves above a threshold count, and those beside them, which contain the tails of their norms. The number of
        rows from a bin outwards falls with the norm, so its noisy values are replaced by the nearest ones that fall.
        `far` are further octaves that are known to hold rows. They are a group of their own, and no tail begins there.
        """
        above = self.above if far is None else self.above | far
        if not np.any(above):
            return None
        groups = np.flatnonzero(far if far is not None else ()).astype(np.intp)
        near = above | np.append(above[1:], False) | np.append(False, above[:-1])
        bins = np.flatnonzero(np.repeat(near, self.bins_per_octave))
        # Noisy number of rows from each bin outwards, and its standard deviation.
        outwards = np.cumsum(self.counts[bins][::-1])[::-1]
        spread = self.deviation * np.sqrt(np.arange(bins.size, 0, -1.0))
        seen = np.flatnonzero(outwards > _SEEN_TAIL * spread)
        n_seen = int(seen[-1]) + 1 if seen.size else bins.size
        if groups.size:
            n_seen = max(n_seen, int(np.searchsorted(bins, (groups[-1] + 1) * self.bins_per_octave)))
        counts = np.zeros_like(self.counts)
        counts[bins[:n_seen]] = falling_counts(self.counts[bins[:n_seen]])
        # Noise may hide where in its octave a group ends. A radius that is a little too large costs less than clipping.
        by_octave = counts.reshape(-1, self.bins_per_octave)
        mean = by_octave[groups].mean(axis=1, keepdims=True)
        by_octave[groups] = np.where(mean < _CLEAR_TAIL * self.deviation, mean, by_octave[groups])
        n_rows = float(counts.sum())
        if n_rows > _MANY_ROWS * self.deviation and not groups.size:
            counts += self._continuation(bins, n_seen, outwards, spread)
            counts *= n_rows / counts.sum()
        return NormCounts(counts=counts, variance=n_seen * self.deviation**2)

    def _continuation(
        self, bins: NDArray[np.intp], n_seen: int, outwards: FloatArray, spread: FloatArray
    ) -> FloatArray:
        """Rows beyond the bins that are seen: the tail falls on as a power of the norm, down to one row.

        The fall is measured where the tail is clear, with one standard deviation taken off the outer value and added
        to the inner one. A tail that ends within one bin is therefore not continued.
        """
        counts = np.zeros_like(self.counts)
        clear = np.flatnonzero(outwards > _CLEAR_TAIL * spread)
        end = int(clear[-1]) + 1 if clear.size else 0
        start = end - _FALL_BINS
        if start < 0 or end >= bins.size or bins[end] - bins[start] != _FALL_BINS:
            return counts
        outer, inner = outwards[end] - spread[end], outwards[start] + spread[start]
        if outer <= 0.0:
            return counts
        # At least by half in an octave.
        fall = max(math.log2(inner / outer) / _FALL_BINS, 1.0 / self.bins_per_octave)
        edges = np.arange(bins[n_seen - 1] + 1, self.counts.size + 1)
        tail = outer * np.exp2(-fall * (edges - bins[end]))
        tail[tail < 1.0] = 0.0
        counts[edges[:-1]] = tail[:-1] - tail[1:]
        return counts


def falling_counts(noisy: FloatArray) -> FloatArray:
    """Counts without negative values, with the same sum (at least 1), from noisy counts.

    The sums from each bin outwards are replaced by the nearest ones that fall (isotonic regression).
    """
    outwards = np.cumsum(noisy[::-1])[::-1]
    falling = np.maximum(isotonic_regression(outwards, increasing=False).x, 0.0)
    counts = np.maximum(falling - np.append(falling[1:], 0.0), 0.0)
    if not np.any(counts > 0.0):
        counts[-1] = 1.0
    return np.asarray(counts * (max(float(outwards[0]), 1.0) / counts.sum()))


@lru_cache(maxsize=4)
def octave_weights(n_octaves: int) -> FloatArray:
    """Shares of the risk that an empty octave is taken for one with rows. They sum to 1.

    Norms near 1 have larger shares than extreme ones, and therefore lower thresholds.
    """
    distance = np.abs(np.arange(n_octaves) - n_octaves // 2 - 3)
    weights = (3.0 + distance) ** -1.5
    weights /= weights.sum()
    validate.freeze(weights)
    return weights


def sum_bound(noise: NoiseLaw, n_terms: int, log_chance: FloatArray) -> FloatArray:
    """Bounds that a sum of `n_terms` independent noise values exceeds with probability at most exp(-log_chance)."""
    if isinstance(noise, GaussianNoise):
        return np.asarray(noise.scale * np.sqrt(2.0 * n_terms * log_chance))
    # Chernoff's bound for Laplace noise.
    tilt = np.linspace(0.01, 0.99, 99)
    bounds = (log_chance[:, None] - n_terms * np.log1p(-tilt * tilt)) / tilt
    return np.asarray(noise.scale * bounds.min(axis=1))


def combined(first: NormCounts, second: NormCounts) -> NormCounts:
    """The counts of `second`, scaled to the number of rows that follows from both with the least variance."""
    total = first.variance + second.variance
    n_rows = max((first.n_rows * second.variance + second.n_rows * first.variance) / total, 1.0)
    variance = first.variance * second.variance / total
    return NormCounts(counts=second.counts * (n_rows / second.n_rows), variance=variance)


class CategoriesFound(NamedTuple):
    """What a survey says of the categories of a column. Public.

    Attributes
    ----------
    column : str
        Name of the column.
    n_found, n_left_out : int
        Number of categories that were found, and how many of them, the least frequent, are left out.
    half_found : float
        Number of people or rows from which a category is found with a probability of one half.
    """

    column: str
    n_found: int
    n_left_out: int
    half_found: float

    def in_words(self, neighbours: str) -> str:
        """How many categories are used, and how small one may be that is probably not found."""
        used, most = self.n_found - self.n_left_out, math.ceil(self.half_found)
        are_used = "1 category that was found is used" if used == 1 else f"{used:,} categories that were found are used"
        return (
            f"{are_used}; one that fewer than about {most:,} {units_of(neighbours)} have is probably not found, and "
            "its rows count as 'other'"
        )

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> CategoriesFound:
        """Rebuild it from its dictionary."""
        numbers = [validate.non_negative(name, described[name]) for name in ("n_found", "n_left_out", "half_found")]
        column = described["column"]
        validate.instance("column", column, str, "Pass its name.")
        return cls(column, int(numbers[0]), int(numbers[1]), numbers[2])

    @property
    def concern(self) -> str | None:
        """A warning if no category was found, or if some were left out."""
        if self.n_found == 0:
            return (
                f"no category of {self.column!r} was found, so all rows are in 'other': too few have the same one. "
                f"Raise epsilon or delta, or list the categories: columns={{{self.column!r}: ['a', 'b']}}."
            )
        if self.n_left_out:
            return (
                f"column {self.column!r} has more categories than a model takes. The {self.n_found - self.n_left_out} "
                "most frequent ones are used, and the rows of the others are in 'other'."
            )
        return None


@dataclass(frozen=True, kw_only=True, repr=False)
class Survey(Carded):
    """Result of a survey. It is public.

    A survey with Laplace noise costs each record `epsilon`. A survey with Gaussian noise, which a fit runs for itself,
    has a `shift` instead. The fit has paid for it, and every plan made from it later counts the shift in its own price.

    Attributes
    ----------
    ball : Ball
        Center (stated, or a noisy mean) and radius: that of the outermost norms in `norms`, or the quantile that was
        asked for.
    norms : NormDistribution
        Noisy distribution of the norms, clipped to the radius, with the number of rows and the mean square norm. If
        many rows are seen, a tail that falls slowly is continued beyond the norms above the noise.
    epsilon : float
        Privacy cost of the survey for each record (pure epsilon). Infinite for Gaussian noise.
    shift : float
        Gaussian shift of a record in all stages of the survey together; 0 for Laplace noise.
    delta : float
        Largest probability that the survey published a category which one person alone has. Every plan made from the
        survey counts it in its own price.
    secure_randomness : bool
        False if a seed was given; then nothing here is private.
    above_noise : bool
        False if the survey found nothing above its noise; it then assumes columns of unit size.
    name : str
        Random name of this survey, by which a ledger recognises that the survey was paid for.
    columns : tuple of str, optional
        Names of the columns that the survey read. The center refers to them in this order.
    unit : Unit, optional
        Who is protected; None for single rows. With a unit, the number of rows is their mass, which is the number of
        units if `max_rows_per_unit` is 1.
    schema : Schema, optional
        What is public about the columns, if it was stated. Ball and norms are then those of scaled vectors.
    quantile_asked : bool
        True if the radius is the quantile that the user asked for. Otherwise a plan may choose a smaller radius.
    ledger_entries : tuple of str
        Ids of the ledger entries charged for the survey in this process.
    unclear_columns : tuple of str
        "auto" columns of which the survey saw too little above its noise to find good bounds. If it saw nothing but
        zeros, the bounds are -1 and 1.
    skewed_columns : tuple of str
        "auto" columns whose far values decide their variance, as far as the survey saw.
    categories : tuple of CategoriesFound
        Columns whose categories the survey found. The schema has these categories.
    counts : NoisyCounts, optional
        Released numbers of rows by norm, from which the norms were estimated. Files do not contain them.
    """

    ball: Ball
    norms: NormDistribution
    epsilon: float
    secure_randomness: bool
    above_noise: bool = True
    name: str = field(default_factory=new_name, repr=False, compare=False)
    columns: tuple[str, ...] | None = None
    quantile_asked: bool = True
    ledger_entries: tuple[str, ...] = field(default=(), repr=False, compare=False)
    shift: float = 0.0
    delta: float = 0.0
    unit: Unit | None = None
    schema: Schema | None = None
    unclear_columns: tuple[str, ...] = ()
    skewed_columns: tuple[str, ...] = ()
    categories: tuple[CategoriesFound, ...] = ()
    counts: NoisyCounts | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shift", validate.non_negative("shift", self.shift))
        gaussian = self.shift > 0.0 and self.epsilon == math.inf
        object.__setattr__(self, "epsilon", math.inf if gaussian else validate.price_epsilon(self.epsilon))
        if self.shift > 0.0 and not gaussian:
            raise ArgumentError("a survey has a shift or an epsilon, not both. Pass epsilon=math.inf with a shift.")
        object.__setattr__(self, "delta", validate.price_delta(self.delta))
        validate.flag("secure_randomness", self.secure_randomness)
        validate.flag("above_noise", self.above_noise)
        validate.flag("quantile_asked", self.quantile_asked)
        validate.instance("ball", self.ball, Ball, "Build one with pais.Ball(radius=...).")
        validate.instance("norms", self.norms, NormDistribution, "Build one with NormDistribution.from_histogram.")
        if not validate.is_text(self.name):
            # A ledger recognises the survey by its name. Without one, it would not charge the survey.
            raise ArgumentError("name must be a printable text. Leave it out for a new name.")

    @property
    def price(self) -> Part:
        """The price or the shift of the survey, which counts in every later release from the same rows."""
        return Part(
            what="survey" if self.above_noise else "survey (too few rows for its price)",
            epsilon=0.0 if self.shift > 0.0 else self.epsilon,
            delta=self.delta,
            secure_randomness=self.secure_randomness,
            release=self.name,
            shift=self.shift,
            unit="" if self.unit is None else self.unit.column,
        )

    @property
    def columns_concern(self) -> str | None:
        """A warning that names the "auto" columns without good bounds; None if there are none."""
        concerns = []
        if self.unclear_columns:
            concerns.append(
                f"the survey saw too little above its noise to find good bounds for the auto column(s) "
                f"{listed(self.unclear_columns)}. State their bounds, or raise epsilon."
            )
        if self.skewed_columns:
            concerns.append(
                f"far values hold much of the variance of the auto column(s) {listed(self.skewed_columns)}. They are "
                "clipped or count less, so the result is about the other values. State bounds that hold all values, or "
                "use the logarithm of the column."
            )
        return " Also, ".join(concerns) or None

    @property
    def neighbours(self) -> str:
        """The meaning of presence or absence in the guarantee."""
        return ONE_ROW if self.unit is None else self.unit.neighbours

    def explain(self) -> str:
        """Describe the survey in words: its price, and the facts that it released."""
        return survey_text(self.to_dict())

    def _card(self) -> Card:
        unit, units = person_of(self.neighbours), units_of(self.neighbours)
        radius, n_rows = f"{self.ball.radius:.4g}", f"about {self.norms.n_rows:,.0f}"
        price = (
            f"in the price of its fit (Gaussian shift {raised(self.shift, 3)}: one {unit} moves the result by at most "
            "that many standard deviations of its noise)"
            if self.shift > 0.0
            else f"epsilon {raised(self.epsilon)}"
        )
        paid = "paid for by its fit" if self.shift > 0.0 else price
        center = "the origin" if self.ball.center is None else f"{len(self.ball.center)} numbers, stated or surveyed"
        return Card(
            kind="Survey",
            summary=f"{n_rows} {units} within norm {radius}; {paid}",
            facts=(
                ("price", price),
                (units, f"{n_rows}, noisy"),
                ("radius", f"{radius} (l{self.ball.order:g} norm)"),
                ("center", center),
                ("mean square norm", f"{self.norms.mean_square_norm:.4g}"),
                *([] if self.columns is None else [("columns", listed(self.columns))]),
                *([] if self.above_noise else [("caution", "nothing was above the noise: these are assumptions")]),
            ),
            alarm="" if self.secure_randomness else SEEDED,
        )

    def to_dict(self) -> dict[str, Any]:
        """All released values and the names of the columns, for files."""
        return {
            "kind": "survey",
            "format": files.FORMAT,
            "columns": files.plain(self.columns),
            "unit": None if self.unit is None else self.unit.to_dict(),
            "schema": None if self.schema is None else self.schema.to_dict(),
            "neighbours": self.neighbours,
            "note": SECURE if self.secure_randomness else SEEDED,
            "secure_randomness": self.secure_randomness,
            "epsilon": files.plain(self.epsilon),
            "shift": self.shift,
            "delta": self.delta,
            "above_noise": self.above_noise,
            "unclear_columns": list(self.unclear_columns),
            "skewed_columns": list(self.skewed_columns),
            "categories": [found._asdict() for found in self.categories],
            "quantile_asked": self.quantile_asked,
            "noisy_rows": self.norms.n_rows,
            "noisy_mean_square_norm": self.norms.mean_square_norm,
            "ball": self.ball.to_dict(),
            "norms": self.norms.to_dict(),
            "name": self.name,
            "version": __version__,
        }

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Survey:
        """Rebuild a survey from its dictionary."""
        files.require_format(described, "survey")
        secure = validate.flag("secure_randomness", described["secure_randomness"])
        note = SECURE if secure else SEEDED
        if described["note"] != note:
            raise ArgumentError("its note contradicts secure_randomness. Survey again.")
        return cls(
            ball=Ball.from_dict(described["ball"]),
            norms=NormDistribution.from_dict(described["norms"]),
            epsilon=validate.positive_or_infinite("epsilon", files.number(described["epsilon"])),
            shift=described["shift"],
            delta=described["delta"],
            secure_randomness=secure,
            above_noise=described["above_noise"],
            name=described["name"],
            columns=files.texts(described["columns"]),
            unclear_columns=files.texts(described["unclear_columns"]) or (),
            skewed_columns=files.texts(described["skewed_columns"]) or (),
            categories=tuple(map(CategoriesFound.from_dict, described["categories"])),
            unit=Unit.from_dict(described["unit"]),
            schema=Schema.read(described["schema"]),
            quantile_asked=described["quantile_asked"],
        )

    def save(self, path: str | Path) -> None:
        """Write the survey to a JSON file, which `load` and the command line read."""
        files.write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Survey:
        """Read a survey from a JSON file."""
        return files.load(path, "survey", cls.from_dict)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Public facts about the rows: the ball that bounds them and the distribution of their norms.

    `survey` is the survey that released some of them, or None if the user stated all of them. If you fit again with the
    facts of a Gaussian survey, charge a ledger that holds the fit that made the survey, or choose epsilon without
    looking at it: the joint price of survey and fit holds for an epsilon that was fixed beforehand.
    """

    ball: Ball
    norms: NormDistribution
    survey: Survey | None = None
    unit: Unit | None = None
    schema: Schema | None = None

    @property
    def spent(self) -> tuple[Part, ...]:
        """The price of the survey."""
        return () if self.survey is None else (self.survey.price,)

    @property
    def radius_is_open(self) -> bool:
        """Whether the ball is that of a survey which leaves the choice of a smaller radius to the plan."""
        survey = self.survey
        return survey is not None and survey.above_noise and not survey.quantile_asked and self.ball == survey.ball

    def about(self, unit: Unit | None, schema: Schema | None) -> Facts:
        """Return the facts for rows with this unit and schema. Raises if they are about others."""
        if self.survey is not None and self.survey.unit != unit:
            raise MismatchError("the survey protects another unit than the source. Open the source with its unit.")
        if self.survey is not None and self.survey.schema != schema:
            raise MismatchError("the survey is about other columns than the source. Open the source with its schema.")
        if self.unit not in (None, unit):
            raise MismatchError("the facts are about another unit than the source. Open the source with their unit.")
        if schema is not None and schema.open:
            raise MismatchError(
                f"the auto column(s) {listed(schema.open)} have no bounds yet. Pass facts of a survey of these rows."
            )
        return replace(self, unit=unit, schema=schema)

    @classmethod
    def of(cls, survey: Survey) -> Facts:
        """Facts that a survey released, for another fit than the one that made it."""
        warn(reuse_concern(survey.shift))
        return cls.from_own(survey)

    @classmethod
    def from_own(cls, survey: Survey) -> Facts:
        """Facts that the survey of the same fit released. Its epsilon was fixed before the survey."""
        return cls(ball=survey.ball, norms=survey.norms, survey=survey, unit=survey.unit, schema=survey.schema)


# Room for the rounding errors of shares and their sum.
_ROOM = 1.0 + 1e-12

# Smallest price or shift: with a smaller one, the noise would not fit 64-bit integers.
_SMALLEST = 1e-15

# `scale_share`, `center_share` and `columns_share` of pure and of Gaussian noise.
_SHARES = ((0.08, 0.4, 0.6), (0.15, 0.45, 0.8))


@dataclass(frozen=True, kw_only=True)
class SurveyNoise:
    """Noise of the stages of a survey; fixed before a row is read.

    Each stage gets a share. The shares of all stages add up to at most 1.

    Attributes
    ----------
    epsilon : float, optional
        Price of a survey with pure noise; a stage costs its share of it.
    shift : float
        Gaussian shift of a record in all stages together. Shifts add in squares, so a stage of share f has the shift
        sqrt(f) * shift.
    gaussian : bool
        Whether the survey has a shift.
    scale_share, center_share : float
        Shares of the octaves of the norms, which come first, and of the mean of the rows, if no center is stated. The
        norms about the center get the rest. Tuned for the costs of k-means (e0ae639).
    columns_share : float
        Share of the bounds of "auto" columns, if there are any. The norms get the rest (95cbfdc).

    Notes
    -----
    Guarantee. The stages of a survey together cost at most `epsilon`, or have at most the shift `shift`:
    `tests/theory/test_survey.py`, `tests/theory/test_joint_fits.py`.
    """

    epsilon: float = math.inf
    shift: float = 0.0
    gaussian: bool = field(init=False, repr=False)
    scale_share: float = field(init=False, repr=False)
    center_share: float = field(init=False, repr=False)
    columns_share: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        gaussian = self.shift > 0.0
        for each, found in zip(fields(self)[2:], (gaussian, *_SHARES[gaussian]), strict=True):
            object.__setattr__(self, each.name, found)
        name, value = ("shift", self.shift) if self.shift > 0.0 else ("epsilon", self.epsilon)
        highest = validate.LARGEST_EPSILON
        rule = f"a number in [{_SMALLEST:g}, {highest:g}]"
        object.__setattr__(self, name, validate.number(name, value, rule=rule, low=_SMALLEST, high=highest))
        if self.shift > 0.0 and self.epsilon != math.inf:
            raise ArgumentError("a survey has a shift or an epsilon, not both. Pass one of them.")

    def part(self, share: float) -> SurveyNoise:
        """Noise of the stages that have this share together; their own shares count within it."""
        if self.gaussian:
            return SurveyNoise(shift=math.sqrt(share) * self.shift)  # [note: columns-4]
        return SurveyNoise(epsilon=share * self.epsilon)

    def on_cells(self, share: float, n_columns: float) -> NoiseLaw:
        """Noise on a vector in which a record changes, for each of its columns, entries by at most one in total.

        Columns may have different numbers here, if their inverses add up to at most 1.
        """
        if self.gaussian:
            scale = math.sqrt(n_columns) / (math.sqrt(share) * self.shift)
            return GaussianNoise(scale=scale * _ROOM)  # [note: columns-2]
        return laplace_noise(n_columns / (share * self.epsilon) * _ROOM)  # [note: columns-3]

    def on_counts(self, share: float) -> NoiseLaw:
        """Noise on counts of which a record changes one by one."""
        if self.gaussian:
            return GaussianNoise(scale=_ROOM / (math.sqrt(share) * self.shift))  # [note: survey-7]
        return laplace_noise(_ROOM / (share * self.epsilon))  # [note: survey-1]

    def on_sum(self, share: float, ball: Ball) -> NoiseLaw:
        """Noise on a sum that a record changes by a vector within the ball."""
        if self.gaussian:
            if ball.order != 2.0:
                raise ArgumentError(f"Gaussian noise needs a ball of order 2, not {ball.order:g}. Pass order=2.")
            return GaussianNoise(scale=ball.radius / (math.sqrt(share) * self.shift) * _ROOM)  # [note: survey-8]
        return LpNoise(scale=ball.radius / (share * self.epsilon) * _ROOM, p=ball.order)  # [note: survey-4]


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage(ABC):
    """A stage of a survey: a pass over the rows, the noise on what it adds up, and what follows from the noisy totals.

    `name` says what it finds, and `share` is its share of the noise of the survey.
    """

    name: str
    share: float = 1.0

    @abstractmethod
    def read(self, engine: Engine, noise: SurveyNoise, bits: BitSource) -> Any:
        """Add up the rows in the first pass of the stage. No bits are drawn. Secret."""

    @abstractmethod
    def release(self, totals: Any, engine: Engine, noise: SurveyNoise, bits: BitSource) -> tuple[Engine, Any]:
        """Add noise to these totals. Return the source for later stages, and what the stage finds, which is public."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Findings:
    """What the stages of a survey found, by the names of the stages. Public, apart from the rows of the engine."""

    engine: Engine
    noise: SurveyNoise | None = None
    part: Part | None = None
    ledger_entries: tuple[str, ...] = ()
    found: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spent(self) -> tuple[Part, ...]:
        """The price or the shift of the survey."""
        return () if self.part is None else (self.part,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Stages:
    """The stages of a survey, in their order, and its noise, which is fixed before a row is read.

    `passes` is the number of passes over the rows that the whole call needs. Without noise there is no survey. `delta`
    is that of names which the survey publishes.

    Notes
    -----
    Guarantee. The first stage reads the rows, so an error about them costs nothing. Then the survey is charged, and no
    bits are drawn before that: `tests/unit/accounting/test_ledger_charging.py`.
    """

    noise: SurveyNoise | None = None
    stages: tuple[Stage, ...] = ()
    passes: int = 1
    delta: float = 0.0

    def run(self, engine: Engine, payers: Accounts, random_state: RandomState | BitSource) -> Findings:
        """Run all stages, and charge them to accounts that the caller has checked."""
        if self.noise is None:
            return Findings(engine=engine)
        engine.require_passes(self.passes)
        bits = bit_source(random_state, stream=2)
        part = Part(
            what="survey",
            epsilon=0.0 if self.noise.gaussian else self.noise.epsilon,
            delta=self.delta,
            shift=self.noise.shift,
            secure_randomness=bits.private,
            release=new_name(),
            unit=engine.unit_column,
        )
        entries: list[str] | None = None
        found = {}
        for stage in self.stages:
            noise = self.noise.part(stage.share)
            totals = stage.read(engine, noise, bits)
            if entries is None:
                entries = payers.spend(part)  # [note: ledger-3]
            engine, found[stage.name] = stage.release(totals, engine, noise, bits)
        return Findings(engine=engine, noise=self.noise, part=part, ledger_entries=tuple(entries or ()), found=found)
