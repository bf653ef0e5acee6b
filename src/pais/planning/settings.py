"""Settings of a private fit, and how they become a plan: the price of the survey, the noise, the rule and the sample.

`Settings` is the base of all models, and `SampleSettings` of those that release from one weighted sample.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

import numpy as np

from pais._base import validate
from pais._base.lattice import WIDEST
from pais._base.randomness import RandomState
from pais.accounting.certificate import Release
from pais.accounting.part import Part, delta_of_names, delta_of_release, own_limit, survey_shift, what_is_left
from pais.data.ball import Ball
from pais.data.engines.base import Engine
from pais.data.schema import Schema
from pais.data.sources import opened
from pais.data.units import Unit, most_units
from pais.errors import ArgumentError, BudgetError, MismatchError, UnreachableError
from pais.mechanisms.base import Mechanism
from pais.mechanisms.moments import MomentSum
from pais.mechanisms.noise import GaussianNoise
from pais.planning.facts import Facts, Findings, Stages, Survey, SurveyNoise
from pais.planning.names import NameStage
from pais.planning.norm_survey import survey_of, survey_stages
from pais.planning.plan import Fit, Plan, RadiusChoice, SampleChoice, SizeOption
from pais.privacy.amplification import delta_after, kept_limit, kept_limit_of_rounds, largest_shift
from pais.privacy.calibration import Calibration, Sampling, calibrate
from pais.privacy.guarantee import STATED, chosen_delta, delta_concern, warn
from pais.privacy.profiles import GaussianProfile, LinearProfile
from pais.privacy.rules import NormDistribution, Rule, largest_coreset_size

S = TypeVar("S", bound="Settings")

MechanismName = Literal["gaussian", "laplace", "l2"]

SAMPLINGS = ("constrained", "coreset", "uniform", "none")
MECHANISMS = ("gaussian", "laplace", "l2")

# Shares of epsilon = 1 spent on a pure survey of center, radius and norms, on one of radius and norms, and on one of
# the norms alone. These and the next two groups were chosen by eye; kmeans-survey.md and kmeans-pure.md of
# benchmarks/results show what they reach.
_FULL_SURVEY_SHARE, _RADIUS_SURVEY_SHARE, _NORMS_SURVEY_SHARE = 0.052, 0.03, 0.022

# Share of the squared Gaussian shift that all rows allow, for categories that nobody listed, and of delta for those of
# one person alone. Those of statistics: with them, the noise of what follows grows by 4.5 %.
_NAMES_SHARE, _NAMES_DELTA = 0.075, 0.1

# What a plan with such categories adds to the words on how delta was chosen.
_LESS = "; a part of it is for categories of one person alone"

# Categories of a column that are kept, the most frequent ones. A covariance matrix of 100 categories has 5,000 numbers.
# Chosen by eye.
_MOST_CATEGORIES = 100

# The share grows slowly as epsilon falls, because few rows stand out of much noise, but by no more than this factor.
_SHARE_POWER, _LARGEST_SHARE_FACTOR = -1.0 / 6.0, 2.0

# The same for a Gaussian survey, as shares of the shift that (epsilon, delta) allow without sampling, and the largest
# shift: at 1, a count has a noise of about one row.
_FULL_SHIFT_SHARE, _NORMS_SHIFT_SHARE, _LARGEST_SHIFT = 0.25, 0.1, 1.0


@dataclass(frozen=True, kw_only=True)
class Settings(ABC):
    """Settings of a private fit that the user chooses; public.

    Attributes
    ----------
    epsilon : float
        Guarantee for everything that the fit releases, the survey included.
    delta : float, optional
        None means 0 for the pure mechanisms. For Gaussian noise it means the smaller of 1e-6 and
        1 / (10 * number of rows). The number of rows is taken from `norms` if radius and norms are both stated.
        Otherwise it comes from the survey, and 1e-6 is certified and charged.
    radius, center, norms : optional
        Public facts about the rows. If `radius` is None, a survey releases radius and norms, and the center if it is
        None too. If `radius` is stated, a center of None means 0, and a survey releases the norms if they are None.
    quantile : float, optional
        Share of the rows within a surveyed radius. None lets the plan choose the radius.
    sampling : {"constrained", "coreset", "uniform", "none"} or Rule
        Sampling rule, which decides the probability with which each row is kept.
    sample_size : float or "free", optional
        Expected number of rows in the sample. "free" keeps as few rows as possible without extra noise. With None, the
        settings of each model state the rule.
    mechanism : {"gaussian", "laplace", "l2"}
        Gaussian noise for (epsilon, delta); Laplace (l1) or the l2 noise of the paper for pure epsilon.
    max_epsilon_if_kept : float, optional
        Largest epsilon of a record for the whole fit, given that it was kept in the sample; None = epsilon + 15.
    open_columns, unlisted : int
        Number of "auto" columns whose bounds the survey finds, and of those whose categories it finds. `for_rows` sets
        them.
    is_midpoint : bool
        Whether the center is the midpoint of all columns, and not stated. `for_rows` sets it.
    """

    #: What the fit releases, in errors and in the ledger entry of a Gaussian survey and its release. Other entries of a
    #: release have the name of its mechanism.
    what: ClassVar[str] = "fit"

    #: Whether there is no pure mechanism.
    gaussian_only: ClassVar[bool] = False

    #: Factor on the shift of a survey that has to find the scales of columns.
    more_for_columns: ClassVar[float] = 1.0

    epsilon: float
    delta: float | None = None
    radius: float | None = None
    center: tuple[float, ...] | None = None
    norms: NormDistribution | None = None
    quantile: float | None = None
    sampling: Sampling | Literal["none"] | Rule = "constrained"
    sample_size: float | Literal["free"] | None = None
    mechanism: MechanismName = "gaussian"
    max_epsilon_if_kept: float | None = None
    open_columns: int = 0
    unlisted: int = 0
    is_midpoint: bool = False

    def for_rows(self: S, rows: Engine) -> S:
        """Return the settings for a source, before a row is read. Raises if they do not fit its columns.

        If neither center nor radius is stated and bounds limit all columns, stated or yet to be found, their midpoint
        is the center. It is about as good as a surveyed mean, which would take one more pass over the rows.
        """
        schema = rows.schema
        if schema is None:
            rows.require_width(self.stated_ball())
            return self
        self._require_categories(schema)
        if schema.open and self.norms is not None:
            raise ArgumentError(
                f"norms is stated, but the size of the auto column {schema.open[0]!r} is not known. State its bounds, "
                "or leave out norms."
            )
        is_midpoint = self.is_midpoint or self.center is None
        center = self.center
        if is_midpoint:
            # Before categories are found, their number is not known.
            center = schema.midpoint if self.radius is None else None
        settings = replace(
            self,
            center=center,
            is_midpoint=is_midpoint,
            open_columns=max(self.open_columns, len(schema.open)),
            unlisted=max(self.unlisted, len(schema.unlisted)),
        )
        rows.require_width(settings.stated_ball())
        return settings

    def _require_categories(self, schema: Schema) -> None:
        """Raise if the settings do not allow to find the categories of a column."""
        if not schema.unlisted or self.unlisted:
            return
        name = schema.unlisted[0].name
        hint = f"list the categories: columns={{{name!r}: ['a', 'b']}}"
        if self.mechanism != "gaussian":
            raise ArgumentError(
                f"the categories of {name!r} are not listed, and mechanism={self.mechanism!r} has delta = 0, which "
                "forbids publishing a name from the table: it might be that of one person. Pass mechanism='gaussian', "
                f"or {hint}."
            )
        stated = [what for what in ("center", "norms") if getattr(self, what) is not None]
        if stated:
            raise ArgumentError(
                f"{stated[0]} is stated, but the categories of {name!r} are not known before the survey. Leave out "
                f"{stated[0]}, or {hint}."
            )

    def opened(self, rows: object, facts: Facts | None, random_state: RandomState) -> Engine:
        """Open the rows, with the columns and the unit of facts if there are any. A survey collects candidates."""
        found = opened(rows, None, None) if facts is None else opened(rows, facts.schema, facts.unit)
        return found.collecting(random_state)

    def stages(self, rows: Engine, random_state: RandomState) -> Stages:
        """The stages of a survey of the facts that are not stated.

        With a stated radius and no center, the ball is centered at the origin. Norms are surveyed unless they are
        stated together with a radius, because the expected sample size and the number of rounds follow from them.
        """
        if self.survey_passes == 0:
            return Stages()
        noise = self.survey_noise
        stages = survey_stages(rows, noise, self._origin, random_state, then=1)
        if rows.schema is None or not self.unlisted:
            return stages
        # Shifts add in squares.
        share = (self._names_shift / noise.shift) ** 2
        names = NameStage(
            share=share, columns=rows.schema.unlisted, delta=self.names_delta, most_names=_MOST_CATEGORIES
        )
        others = [replace(stage, share=(1.0 - share) * stage.share) for stage in stages.stages]
        return replace(stages, stages=(names, *others), passes=stages.passes + 1, delta=self.names_delta)

    def _origin(self, rows: Engine) -> Ball:
        """The ball about which the norms of rows are found; the center is None if it is to be found too."""
        center = self.for_rows(rows).center
        if self.radius is not None and center is None:
            center = (0.0,) * rows.n_features
        return Ball(radius=WIDEST, order=self.order, center=center)

    def surveyed(self, findings: Findings) -> Facts:
        """The facts that the user states, completed by what the survey found."""
        # The plan takes the quantile that the settings state, if any.
        survey = None if findings.noise is None else survey_of(findings)
        return self.facts(survey).about(findings.engine.unit, findings.engine.schema)

    def planned(self, facts: Facts, rows: Engine) -> Plan:
        """The plan for a source, with a warning if delta is too large for its number of rows."""
        if self.delta is not None:
            warn(delta_concern(self.delta, most_units(rows.unit, facts.norms.n_rows)))
        return self.plan(facts, rows.n_features)

    def result(self, plan: Plan, release: Release, facts: Facts) -> Fit:
        """The fit with what was released. A model overrides this if its fit computes more from the value."""
        kind: type[Fit] = plan.mechanism.fit_class or Fit
        return kind(value=release.value, certificate=release.certificate, plan=plan, survey=facts.survey)

    @abstractmethod
    def plan(self, facts: Facts, n_features: int) -> Plan:
        """Choose noise, rule and rounds. The survey behind the facts and the plan together cost at most epsilon."""

    @property
    def order(self) -> float:
        """Order of the norm that the noise is calibrated for."""
        return 1.0 if self.mechanism == "laplace" else 2.0

    @property
    def stated_size(self) -> float | None:
        """The sample size, if the user states a number."""
        return None if isinstance(self.sample_size, str) else self.sample_size

    @functools.cached_property
    def price(self) -> Part:
        """Price of the whole fit, to check with the ledgers before a row is read."""
        # `norms` is not validated yet; any other type is refused later.
        stated = self.radius is not None and isinstance(self.norms, NormDistribution)
        n_rows = self.norms.n_rows if stated and self.norms is not None else 1.0
        delta = chosen_delta(self.delta, gaussian=self.mechanism == "gaussian", n_rows=n_rows, surveyed=not stated)
        return Part(what=self.what, epsilon=validate.target_epsilon(self.epsilon), delta=delta.certified)

    @property
    def names_delta(self) -> float:
        """The part of delta that covers the categories of one person alone; 0 if all are listed."""
        return _NAMES_DELTA * self.price.delta if self.unlisted else 0.0

    def delta_of_noise(self, delta: float, names: float) -> float:
        """The delta that noise may have, for a delta that was chosen for all of the fit, and that of categories."""
        if names == 0.0:
            return delta
        left = what_is_left(self.price.delta, names)
        if left <= 0.0:
            raise MismatchError(
                f"the survey found categories with delta={names!r}, which leaves nothing of "
                f"delta={self.price.delta!r}. Raise delta, or survey again."
            )
        return min(delta, left)

    @property
    def _largest_shift(self) -> float:
        """The Gaussian shift that all rows may have."""
        return largest_shift(self.price.epsilon, self.delta_of_noise(self.price.delta, self.names_delta))

    @property
    def _names_shift(self) -> float:
        """Gaussian shift of the stage that finds categories."""
        return math.sqrt(_NAMES_SHARE) * self._largest_shift if self.unlisted else 0.0

    @property
    def survey_share(self) -> float:
        """Share of epsilon that a pure survey uses: zero if all facts are stated, or for Gaussian noise."""
        if self.mechanism == "gaussian":
            return 0.0
        if self.radius is None:
            share = _FULL_SURVEY_SHARE if self.center is None else _RADIUS_SURVEY_SHARE
        elif self.norms is None:
            share = _NORMS_SURVEY_SHARE
        else:
            return 0.0
        factor = min(math.pow(validate.target_epsilon(self.epsilon), _SHARE_POWER), _LARGEST_SHARE_FACTOR)
        # Norms and center have the same noise as without auto columns.
        left = 1.0 - SurveyNoise(epsilon=1.0).columns_share if self.open_columns else 1.0
        return round(share * factor / left, 3)

    @property
    def survey_shift_share(self) -> float:
        """Share that a Gaussian survey uses of the shift allowed without sampling: zero if there is no such survey."""
        if self.mechanism != "gaussian" or self.survey_passes == 0:
            return 0.0
        share = _FULL_SHIFT_SHARE if self.radius is None and self.center is None else _NORMS_SHIFT_SHARE
        if not self.open_columns:
            return share
        # Norms and center have the same noise as without auto columns. Shifts add in squares.
        return share / math.sqrt(1.0 - SurveyNoise(shift=1.0).columns_share) * self.more_for_columns

    @property
    def survey_noise(self) -> SurveyNoise:
        """Noise of the survey, which depends on stated values only."""
        price = self.price
        if self.mechanism != "gaussian":
            return SurveyNoise(epsilon=self.survey_share * price.epsilon)
        shift = self.survey_shift_share * self._largest_shift  # [note: joint-survey-9]
        noise = SurveyNoise(shift=min(shift, _LARGEST_SHIFT))
        if self.unlisted:
            noise = SurveyNoise(shift=math.hypot(noise.shift, self._names_shift))
        # Raises if the survey would leave nothing for the rounds, before it is paid for.
        delta_after(price.epsilon, self.delta_of_noise(price.delta, self.names_delta), survey_shift=noise.shift)
        return noise

    @property
    def survey_passes(self) -> int:
        """Number of passes over the rows that the survey needs."""
        passes = 2 if self.open_columns else 0
        if self.radius is None:
            return passes + (2 if self.center is None else 1)
        return passes + (1 if self.norms is None else 0)

    def require(self) -> None:
        """Validate everything that does not depend on the data, before paying for a survey."""
        validate.target_epsilon(self.epsilon)
        delta = None if self.delta is None else validate.target_delta(self.delta)
        if isinstance(self.sample_size, str) and self.sample_size != "free":
            raise ArgumentError("sample_size is a text other than 'free'. Pass a number, 'free' or None.")
        if self.stated_size is not None:
            rows = "a number of rows, at least 1, or 'free'"
            validate.number("sample_size", self.stated_size, rule=rows, low=1.0, high=math.inf, open_high=True)
        if not isinstance(self.sampling, Rule) and self.sampling not in SAMPLINGS:
            raise ArgumentError(
                f"sampling={self.sampling!r} is not known. Pass 'constrained', 'coreset', 'uniform' or 'none'."
            )
        if self.mechanism not in MECHANISMS:
            raise ArgumentError(f"mechanism={self.mechanism!r} is not known. Pass 'gaussian', 'laplace' or 'l2'.")
        if delta is not None and (self.mechanism == "gaussian") != (delta > 0.0):
            raise MismatchError(
                f"delta={delta!r} does not fit mechanism={self.mechanism!r}. Pass delta > 0 for 'gaussian' and "
                "delta = 0 for 'laplace' and 'l2', or leave it out."
            )
        if self.norms is not None:
            validate.instance("norms", self.norms, NormDistribution, "Build one with NormDistribution.from_histogram.")
            if self.radius is None:
                raise ArgumentError("norms is stated without radius, which clips them. State both, or leave out norms.")
        if self.quantile is not None:
            validate.quantile(self.quantile)
            if self.radius is not None:
                raise ArgumentError("quantile and radius are both stated. A stated radius is kept: leave out quantile.")
        validate.kept_limit(self.max_epsilon_if_kept, finite=True)
        self.stated_ball()
        if self.gaussian_only and self.mechanism != "gaussian":
            raise ArgumentError(f"mechanism={self.mechanism!r} is not available for {self.what}. Pass 'gaussian'.")

    def stated_ball(self) -> Ball:
        """The ball that the user states; a missing radius counts as 1."""
        return Ball(radius=1.0 if self.radius is None else self.radius, order=self.order, center=self.center)

    def facts(self, survey: Survey | None) -> Facts:
        """The facts that the user states, completed by a survey."""
        if self.radius is None:
            assert survey is not None
            return Facts.from_own(survey)
        norms = self.norms
        if survey is not None:
            surveyed = survey.norms
            norms = NormDistribution(norms=surveyed.norms, masses=surveyed.masses, radius=self.radius)
        assert norms is not None
        facts = Facts(ball=self.stated_ball(), norms=norms, survey=survey)
        return facts if survey is None else facts.about(survey.unit, survey.schema)

    def epsilon_after(self, survey: Survey | None) -> float:
        """The part of epsilon that a survey leaves for the release. Raises if nothing is left."""
        epsilon = validate.target_epsilon(self.epsilon)
        if survey is None:
            return epsilon
        if survey.ball.order != self.order:
            raise MismatchError(
                f"the survey used the l{survey.ball.order:g} norm, but mechanism={self.mechanism!r} needs "
                f"l{self.order:g}. Survey again for this mechanism."
            )
        if survey.shift > 0.0:
            if self.mechanism != "gaussian":
                raise MismatchError(
                    f"the survey has Gaussian noise, which mechanism={self.mechanism!r} does not cover. Survey again."
                )
            # The plan counts the shift of the survey at the same epsilon, by a smaller delta of its rounds.
            return epsilon
        if not survey.epsilon < epsilon:
            raise BudgetError(
                f"the survey cost epsilon={survey.epsilon!r}, which leaves nothing of epsilon={epsilon!r}. Raise "
                "epsilon.",
                cost=survey.epsilon,
            )
        return what_is_left(epsilon, survey.epsilon)


#: Largest sample, as rows times columns, if the user does not state a size: half a gigabyte. Sampling without extra
#: noise would keep a share of the rows, which is too many of a billion rows. With so many rows, the extra noise of a
#: smaller sample is negligible.
MOST_SAMPLE_NUMBERS = 2.0**26

# Up to this growth of the noise, an option counts as one without extra noise: a rounding of the growth.
_NO_GROWTH = 1.001

# Relative increase over the calibrated noise, which covers the rounding errors of the price.
_ROOM = 1e-9


@dataclass(frozen=True, kw_only=True)
class SampleSettings(Settings):
    """Settings of a release from one weighted sample. A subclass chooses the mechanism and the rule."""

    @abstractmethod
    def _mechanism(
        self, ball: Ball, norms: NormDistribution, d: int, delta: float, limit: float | None
    ) -> tuple[Mechanism, Rule, SampleChoice | None]:
        """Choose the mechanism and the rule for `delta` and a limit on the epsilon of kept records.

        Also return the sample sizes that were considered, if the size was left open.
        """

    def _with_radius(self, facts: Facts, n_features: int) -> tuple[Facts, RadiusChoice | None]:
        """The facts with the radius of the plan, if the survey leaves that choice open."""
        return facts, None

    def _for_units(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism for rows of units, which have masses below 1."""
        return mechanism

    def _surveyed_delta(self, facts: Facts) -> float:
        """The delta that the noise has for the number of rows or units that a survey found."""
        n_units = most_units(facts.unit, facts.norms.n_rows)
        delta = chosen_delta(self.delta, gaussian=self.mechanism == "gaussian", n_rows=n_units, surveyed=True)
        return self.delta_of_noise(delta.used, delta_of_names(facts.spent))

    def plan(self, facts: Facts, n_features: int) -> Plan:
        """Choose the noise, the sampling rule and what else the mechanism needs from public facts."""
        settings = replace(self, epsilon=self.epsilon_after(facts.survey))
        facts, radius_choice = settings._with_radius(facts, n_features)
        return settings.release_plan(
            ball=facts.ball,
            norms=facts.norms,
            n_features=n_features,
            spent=facts.spent,
            columns=None if facts.survey is None else facts.survey.columns,
            unit=facts.unit,
            schema=facts.schema,
            radius_choice=radius_choice,
        )

    def release_plan(
        self,
        *,
        ball: Ball,
        norms: NormDistribution,
        n_features: int,
        spent: tuple[Part, ...] = (),
        columns: tuple[str, ...] | None = None,
        unit: Unit | None = None,
        schema: Schema | None = None,
        radius_choice: RadiusChoice | None = None,
    ) -> Plan:
        """Plan a release that costs `epsilon` by itself, whatever earlier releases in `spent` cost."""
        self.require()
        d = validate.count("n_features", n_features)
        validate.instance("ball", ball, Ball, "Build one with pais.Ball(radius=...).")
        validate.instance("norms", norms, NormDistribution, "Survey the rows, or state a distribution.")
        if ball.order != self.order:
            raise MismatchError(
                f"the ball has order={ball.order:g}, which mechanism={self.mechanism!r} cannot use. Pass order=1 for "
                "'laplace' and order=2 for the others."
            )
        if norms.radius < ball.radius:
            raise MismatchError(
                f"norms are clipped at {norms.radius!r}, but the ball has the larger radius={ball.radius!r}. Use one "
                "radius."
            )
        if ball.center is not None and len(ball.center) != d:
            raise ArgumentError(
                f"center has {len(ball.center)} numbers, but there are {d} features. Pass one number for each feature."
            )
        if norms.radius > ball.radius:
            norms = NormDistribution(norms=norms.norms, masses=norms.masses, radius=ball.radius)
        n_units = most_units(unit, norms.n_rows)
        delta = chosen_delta(self.delta, gaussian=self.mechanism == "gaussian", n_rows=n_units, surveyed=bool(spent))
        # Delta beyond that of the noise covers the categories that one person alone has. [note: names-17]
        names_delta = delta_of_names(spent)
        noise_delta = self.delta_of_noise(delta.used, names_delta)
        rounds_delta = delta_of_release(float(self.epsilon), noise_delta, spent)
        # Limit on the epsilon of a kept record in the rounds alone, at their own delta.
        limit, shift = own_limit(self.max_epsilon_if_kept, spent), survey_shift(spent)
        if shift > 0.0:
            whole = kept_limit(float(self.epsilon), limit)
            limit = kept_limit_of_rounds(whole, noise_delta, survey_shift=shift, rounds_delta=rounds_delta)
        mechanism, rule, sample_choice = self._mechanism(ball, norms, d, rounds_delta, limit)
        # [note: plan-2]
        return Plan(
            ball=ball,
            rule=rule,
            mechanism=mechanism if unit is None else self._for_units(mechanism),
            epsilon=float(self.epsilon),
            delta=noise_delta,
            norms=norms,
            spent=spent,
            max_epsilon_if_kept=self.max_epsilon_if_kept,
            certified_delta=None if delta.certified == noise_delta else delta.certified,
            delta_basis=delta.basis if delta.basis == STATED or not names_delta else f"{delta.basis}{_LESS}",
            columns=columns,
            unit=unit,
            schema=schema,
            radius_choice=radius_choice,
            sample_choice=sample_choice,
        )

    @staticmethod
    def most_rows(d: int) -> float:
        """Largest expected sample, if the user does not state a size."""
        return MOST_SAMPLE_NUMBERS / d

    def calibrated(
        self,
        profile: GaussianProfile | LinearProfile,
        norms: NormDistribution,
        d: int,
        *,
        delta: float,
        limit: float | None,
        option: SizeOption | None = None,
    ) -> Calibration:
        """Noise and rule for the price, and for the sample size that is stated, chosen in `option`, or the default."""
        epsilon, most_rows = float(self.epsilon), self.most_rows(d)
        sample_size = self.stated_size if option is None else option.size
        solve = functools.partial(
            calibrate, profile=profile, norms=norms, epsilon=epsilon, delta=delta, max_epsilon_if_kept=limit
        )
        if isinstance(self.sampling, Rule):
            return solve(self.sampling)
        if self.sampling == "none" or (sample_size is not None and sample_size >= norms.n_rows):
            # The number of rows may be noisy, so a stated size can turn out to be larger. It then means all rows.
            return solve("uniform", sample_size=norms.n_rows)
        if self.sampling == "constrained":
            if option is not None and option.growth > _NO_GROWTH:
                # One rule for a known noise is quicker than a search for the noise of a size.
                largest_loss = largest_shift(epsilon, delta) if delta > 0.0 else epsilon
                of_all_rows = float(profile(1.0, norms.radius)) / largest_loss
                calibration = solve("constrained", noise=option.growth * of_all_rows)
                if calibration.sample_size <= most_rows:
                    return calibration
            if sample_size is not None:
                try:
                    return solve("constrained", sample_size=sample_size)
                except UnreachableError:
                    # More rows than the rule keeps without extra noise would not improve the result.
                    return solve("constrained")
            free = solve("constrained")
            return free if free.sample_size <= most_rows else solve("constrained", sample_size=most_rows)
        if sample_size is None:
            sample_size = min(solve("constrained").sample_size, most_rows, norms.n_rows)
        if self.sampling == "coreset":
            largest = largest_coreset_size(norms.n_rows, norms.mean_square_norm, norms.radius)
            sample_size = min(sample_size, largest * (1.0 - 1e-9))
        return solve(self.sampling, sample_size=sample_size)

    def moment_sum(
        self, ball: Ball, norms: NormDistribution, d: int, delta: float, limit: float | None
    ) -> tuple[MomentSum, Rule]:
        """A noisy second moment of all rows and the rule of its sample, as regression and PCA release it."""
        profile = GaussianProfile(math.inf, math.inf, square_scale=1.0)
        calibration = self.calibrated(profile, norms, d, delta=delta, limit=limit)
        rule = calibration.rule
        mechanism = MomentSum(
            noise=GaussianNoise(scale=calibration.noise * (1.0 + _ROOM)),  # [note: plan-3]
            largest=rule.largest_contribution(ball.radius, 2) * (1.0 + _ROOM),
            n_rows=max(norms.n_rows, 1.0),
        )
        return mechanism, rule


# Share by which a radius exceeds the constant coordinate, at least: more than all rounding errors.
_LEAST_ROOM = 1e-6


def with_constant(facts: Facts, constant: float) -> Facts:
    """Facts about rows with a constant coordinate, which counts the rows: norms and radius are those of longer rows."""
    # A ball is longer than its constant coordinate, also if all rows are at its center.
    radius = max(math.hypot(facts.ball.radius, constant), constant * (1.0 + _LEAST_ROOM))
    norms = NormDistribution(norms=np.hypot(facts.norms.norms, constant), masses=facts.norms.masses, radius=radius)
    return replace(facts, ball=replace(facts.ball, radius=radius, constant=constant), norms=norms)
