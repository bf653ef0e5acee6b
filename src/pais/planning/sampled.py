"""Settings of a release from one weighted sample, and the plan that follows from them and from public facts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

from pais._base import validate
from pais.accounting import Part
from pais.accounting.part import survey_shift
from pais.accounting.price import delta_of_release, own_limit
from pais.data.ball import Ball
from pais.data.schema import Schema
from pais.data.units import Unit, most_units
from pais.errors import ArgumentError, MismatchError
from pais.mechanisms import Mechanism
from pais.planning.facts import Facts
from pais.planning.plan import Plan
from pais.planning.radius import RadiusChoice
from pais.planning.settings import Settings
from pais.planning.size_choice import SampleChoice
from pais.privacy.amplification import kept_limit
from pais.privacy.guarantee import chosen_delta
from pais.privacy.joint import kept_limit_of_rounds
from pais.privacy.norms import NormDistribution
from pais.privacy.rules import Rule

#: Largest sample, as rows times columns, if the user does not state a size: half a gigabyte. Sampling without extra
#: noise would keep a share of the rows, which is too many of a billion rows. With so many rows, the extra noise of a
#: smaller sample is negligible.
MOST_SAMPLE_NUMBERS = 2.0**26


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
        norms = _norms_on(ball, norms, self)
        _require_center(ball, d)
        n_units = most_units(unit, norms.n_rows)
        delta = chosen_delta(self.delta, gaussian=self.mechanism == "gaussian", n_rows=n_units, surveyed=bool(spent))
        rounds_delta = delta_of_release(float(self.epsilon), delta.used, spent)
        limit = self._limit_of_rounds(delta.used, rounds_delta, spent)
        mechanism, rule, sample_choice = self._mechanism(ball, norms, d, rounds_delta, limit)
        # [note: plan-2]
        return Plan(
            ball=ball,
            rule=rule,
            mechanism=mechanism if unit is None else self._for_units(mechanism),
            epsilon=float(self.epsilon),
            delta=delta.used,
            norms=norms,
            spent=spent,
            max_epsilon_if_kept=self.max_epsilon_if_kept,
            certified_delta=None if delta.certified == delta.used else delta.certified,
            delta_basis=delta.basis,
            columns=columns,
            unit=unit,
            schema=schema,
            radius_choice=radius_choice,
            sample_choice=sample_choice,
        )

    def _limit_of_rounds(self, delta: float, rounds_delta: float, spent: tuple[Part, ...]) -> float | None:
        """Limit on the epsilon of a kept record in the rounds alone, at their own delta."""
        limit, shift = own_limit(self.max_epsilon_if_kept, spent), survey_shift(spent)
        if shift == 0.0:
            return limit
        whole = kept_limit(float(self.epsilon), limit)
        return kept_limit_of_rounds(whole, delta, survey_shift=shift, rounds_delta=rounds_delta)


def _require_center(ball: Ball, d: int) -> None:
    if ball.center is not None and len(ball.center) != d:
        raise ArgumentError(
            f"center has {len(ball.center)} numbers, but there are {d} features. Pass one number for each feature."
        )


def _norms_on(ball: Ball, norms: NormDistribution, settings: Settings) -> NormDistribution:
    """Norms clipped to a ball. Raises if ball, norms and mechanism do not match."""
    validate.instance("ball", ball, Ball, "Build one with pais.Ball(radius=...).")
    validate.instance("norms", norms, NormDistribution, "Survey the rows, or state a distribution.")
    if ball.order != settings.order:
        raise MismatchError(
            f"the ball has order={ball.order:g}, which mechanism={settings.mechanism!r} cannot use. Pass order=1 for "
            "'laplace' and order=2 for the others."
        )
    return _clipped(norms, ball.radius)


def _clipped(norms: NormDistribution, radius: float) -> NormDistribution:
    """Norms clipped to the ball. Raises if they were already clipped at a smaller radius."""
    if norms.radius < radius:
        raise MismatchError(
            f"norms are clipped at {norms.radius!r}, but the ball has the larger radius={radius!r}. Use one radius."
        )
    if norms.radius == radius:
        return norms
    return NormDistribution(norms=norms.norms, masses=norms.masses, radius=radius)
