"""The plan of a release, the choices it made, and the fit that follows from it.

A plan is everything that is decided before a row is read. A fit is a released value with its plan, certificate and
survey.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pais._base import files, validate
from pais._base.cards import Card, Carded
from pais._version import __version__
from pais.accounting.certificate import ONE_ROW, Certificate, Release, digest, value_in_words
from pais.accounting.part import (
    Part,
    certified_price,
    delta_of_names,
    delta_of_release,
    own_limit,
    require_one_unit,
    sum_up,
    survey_shift,
)
from pais.accounting.stores import SECURE, SEEDED
from pais.data.ball import Ball
from pais.data.engines.base import Engine
from pais.data.schema import Schema
from pais.data.units import Unit, about_units
from pais.errors import ArgumentError, MismatchError
from pais.mechanisms.base import Mechanism
from pais.planning.explain import explain, losses_if_kept, named_unit, plan_card, record_losses
from pais.planning.facts import CategoriesFound, Facts, Survey
from pais.privacy.amplification import kept_limit
from pais.privacy.guarantee import STATED
from pais.privacy.profiles import Profile
from pais.privacy.rules import NormDistribution, Rule


@dataclass(frozen=True, kw_only=True)
class RadiusChoice:
    """Predicted excess cost per row at the radius of a plan, in squared units of the data; public.

    Attributes
    ----------
    noise : float
        Mean square noise of the released vectors, which grows with the square of the radius.
    clipping : float
        Mean squared distance by which rows are clipped, according to the released norms.
    largest : float
        Radius of the outermost norms that the survey released.
    """

    noise: float
    clipping: float
    largest: float

    @property
    def excess(self) -> float:
        """Predicted excess cost per row."""
        return self.noise + self.clipping

    def to_dict(self) -> dict[str, Any]:
        """The choice as a dictionary, for files."""
        return {
            "rule": "least predicted noise plus clipping",
            "largest_radius": self.largest,
            "noise_per_row": self.noise,
            "clipping_per_row": self.clipping,
        }

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> RadiusChoice:
        """Rebuild a choice from its dictionary."""
        return cls(
            noise=validate.non_negative("noise_per_row", described["noise_per_row"]),
            clipping=validate.non_negative("clipping_per_row", described["clipping_per_row"]),
            largest=validate.radius(described["largest_radius"]),
        )


def radius_at(norms: NormDistribution, quantile: float) -> float:
    """The smallest norm of the distribution within which a share `quantile` of the rows lies."""
    order = np.argsort(norms.norms, kind="stable")
    norm, mass = norms.norms[order], norms.masses[order]
    reached = (np.cumsum(mass) >= quantile * mass.sum()) & (norm > 0.0) & (mass > 0.0)
    return float(norm[np.argmax(reached)]) if np.any(reached) else norms.radius


def clipped_facts(facts: Facts, radius: float) -> Facts:
    """Facts with a smaller ball about the same center."""
    norms = NormDistribution(norms=facts.norms.norms, masses=facts.norms.masses, radius=radius)
    return replace(facts, ball=replace(facts.ball, radius=radius), norms=norms)


#: The chosen size may have a larger predicted cost than the best size by this share of the best cost. Chosen by eye
#: (commit 721a0ba); benchmarks/results/prediction.md compares predicted and measured costs.
TOLERANCE = 0.002

# At most so many sizes are shown beside the chosen one.
_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class SizeOption:
    """A sample size and the excess cost that it is predicted to have, over the cost of the best value; public.

    Attributes
    ----------
    size : float
        Expected number of rows in the sample.
    noise, sampling : float
        Predicted excess cost of the noise, and of the rows that are not in the sample.
    flat : float
        Share of the price of the rounds that does not depend on the norm of a record.
    growth : float
        Noise over that of all rows.
    """

    size: float
    noise: float
    sampling: float
    flat: float
    growth: float

    @property
    def excess(self) -> float:
        """Predicted excess cost, without the parts that no size changes."""
        return self.noise + self.sampling


@dataclass(frozen=True, kw_only=True)
class SampleChoice:
    """The sample sizes that a plan considered, from small to large, and the one it chose; public.

    Attributes
    ----------
    options : tuple of SizeOption
        The sizes, each with the best share `flat` for it.
    chosen : int
        Index of the chosen size.
    """

    options: tuple[SizeOption, ...]
    chosen: int

    @property
    def option(self) -> SizeOption:
        """The chosen size."""
        return self.options[self.chosen]

    @property
    def is_largest(self) -> bool:
        """Whether the sample is as large as it can be without extra noise, or in memory."""
        return self.chosen == len(self.options) - 1

    def __str__(self) -> str:
        return (
            f"{self.option.size:,.0f} is the smallest of {len(self.options)} sizes from {self.options[0].size:,.0f} to "
            f"{self.options[-1].size:,.0f} with a predicted error within {100.0 * TOLERANCE:g} % of the best"
        )

    def lines(self) -> list[str]:
        """A table of some of the sizes, the chosen one marked."""
        n, last = len(self.options), len(self.options) - 1
        shown = {round(last * place / (_SHOWN - 1)) for place in range(_SHOWN)} if n > _SHOWN else range(n)
        parts = ["  " + "".join(f"{name:>14}" for name in ("rows", "noise", "sampling", "together"))]
        for place in sorted({*shown, self.chosen}):
            option = self.options[place]
            mark = "> " if place == self.chosen else "  "
            shares = "".join(f"{100.0 * part:12.3f} %" for part in (option.noise, option.sampling, option.excess))
            parts.append(f"{mark}{option.size:14,.0f}{shares}")
        return parts

    def to_dict(self) -> dict[str, Any]:
        """The choice as a dictionary, for files."""
        return {
            "rule": f"smallest size with a predicted error within {100.0 * TOLERANCE:g} % of the best",
            "chosen": self.chosen,
            "options": [asdict(option) for option in self.options],
        }

    @classmethod
    def read(cls, described: Mapping[str, Any] | None) -> SampleChoice | None:
        """Rebuild a choice from its dictionary, if there is one."""
        if described is None:
            return None
        names = [field.name for field in fields(SizeOption)]
        options = tuple(
            SizeOption(**{name: validate.non_negative(name, option[name]) for name in names})
            for option in described["options"]
        )
        chosen = described["chosen"]
        if not isinstance(chosen, int) or not 0 <= chosen < len(options):
            raise ArgumentError("the chosen sample size is not one of its options. Plan again.")
        return cls(options=options, chosen=chosen)


#: Pass this as epsilon to accept any certified price.
AT_COST: Any = object()


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Carded):
    """Everything that is decided before a row is read. Public.

    Attributes
    ----------
    ball : Ball
        Bounds the rows.
    rule : Rule
        Maps the norm of a row to its inclusion probability.
    mechanism : Mechanism
        Computes the noised value; its profile gives the loss of a record.
    epsilon, delta : float
        The guarantee required of this release; delta is 0 for pure noise. The constructor raises if the plan costs
        more.
    norms : NormDistribution, optional
        Assumed distribution of the norms, used for the expected sample size.
    spent : tuple of Part
        Prices of earlier releases on the same rows, such as a survey.
    max_epsilon_if_kept : float, optional
        Largest epsilon of a record given that it was kept in the sample, `spent` included; None = 15 more than
        epsilon. The constructor raises if the plan exceeds it.
    price : Part
        Certified price of the plan, computed by the constructor, as are the next three numbers.
    survey_shift : float
        Gaussian shift of a survey whose loss the price includes; 0 if there is none.
    release_delta : float
        The delta that the mechanism alone meets: below `delta` if the price includes a survey.
    epsilon_if_kept : float
        Certified epsilon of this release for a record, given that it was kept in the sample.
    certified_delta : float, optional
        The delta that is certified and charged, if it is larger than `delta`. It is larger when delta was chosen from a
        surveyed number of rows; it is then the largest delta that could have been chosen. It includes the delta of
        names that a survey in `spent` published. None means `delta` and that of such names.
    delta_basis : str
        How delta was chosen: "stated", "pure noise", or a default for a stated or surveyed number of rows.
    columns : tuple of str, optional
        Names of the columns that the survey behind this plan read. `run` refuses a table with other columns.
    unit : Unit, optional
        Who is protected; None for single rows. `run` refuses rows with another unit.
    schema : Schema, optional
        What is public about the columns. The rows of the plan are then scaled vectors. `run` opens a table with it and
        refuses rows with another schema.
    radius_choice : RadiusChoice, optional
        Predicted noise and clipping, if the radius was chosen from a survey; None if it was stated or a quantile.
    sample_choice : SampleChoice, optional
        Sample sizes with their predicted costs, if the plan chose among several.

    Examples
    --------
    >>> import pais
    >>> ball, half = pais.Ball(radius=1.0, order=1), pais.UniformRule(rate=0.5)
    >>> mechanism = pais.WeightedSum(noise=pais.laplace_noise(4.0))
    >>> plan = pais.Plan(ball=ball, rule=half, mechanism=mechanism, epsilon=1.0)
    >>> pais.Plan.from_dict(plan.to_dict()) == plan
    True
    """

    ball: Ball
    rule: Rule
    mechanism: Mechanism
    epsilon: float
    delta: float = 0.0
    norms: NormDistribution | None = None
    spent: tuple[Part, ...] = ()
    max_epsilon_if_kept: float | None = None
    certified_delta: float | None = None
    delta_basis: str = STATED
    columns: tuple[str, ...] | None = None
    unit: Unit | None = None
    schema: Schema | None = None
    radius_choice: RadiusChoice | None = None
    sample_choice: SampleChoice | None = None
    price: Part = field(init=False, repr=False, compare=False)
    survey_shift: float = field(init=False, repr=False, compare=False)
    release_delta: float = field(init=False, repr=False, compare=False)
    epsilon_if_kept: float = field(init=False, repr=False, compare=False)
    _profile: Profile = field(init=False, repr=False, compare=False)

    @property
    def due(self) -> tuple[Part, ...]:
        """The parts that a run of this plan charges: earlier releases that have a name, and its own price.

        A survey with a shift is not charged by itself, because the price of the plan includes it.
        """
        return (*(part for part in self.spent if part.release and part.shift == 0.0), self.price)

    @property
    def expected_rows(self) -> float | None:
        """Expected number of rows in the sample, from the assumed norms. The actual number is secret."""
        return None if self.norms is None else self.norms.expected_size(self.rule)

    @property
    def quality(self) -> Any:
        """What the mechanism predicts of its value before the release; None if it predicts nothing."""
        return self.quality_of(None)

    def quality_of(self, value: object) -> Any:
        """The same after a release, whose value the prediction may use."""
        if self.norms is None:
            return None
        clipping = None if self.radius_choice is None else self.radius_choice.clipping
        return self.mechanism.predicted_quality(self.rule, self.norms, ball=self.ball, clipping=clipping, value=value)

    def __post_init__(self) -> None:
        validate.instance("spent", self.spent, tuple, "Pass a tuple of pais.Part.")
        for part in self.spent:
            validate.instance("an entry of spent", part, Part, "Pass pais.Part(what=..., epsilon=...).")
        unit = "" if self.unit is None else self.unit.column
        require_one_unit([unit, *(part.unit for part in self.spent)])
        if self.unit is not None and not self.mechanism.is_for_units:
            raise MismatchError(
                f"the mechanism {self.mechanism.name!r} is not proven for units of several rows. Leave out unit, or "
                "prove it and set protects_units: see the guide."
            )
        delta = validate.target_delta(self.delta)
        names = delta_of_names(self.spent)
        least = validate.target_delta(sum_up([delta, names]))  # [note: names-18]
        charged = least if self.certified_delta is None else validate.target_delta(self.certified_delta)
        if charged < least:
            found = f", and a survey found names with delta={names!r}" if names else ""
            raise ArgumentError(
                f"certified_delta={charged!r} is below delta={delta!r}{found}. "
                f"Pass at least {least!r}, or leave it out."
            )
        validate.text("delta_basis", self.delta_basis)
        budget = None if self.epsilon is AT_COST else validate.target_epsilon(self.epsilon)
        limit = own_limit(self.max_epsilon_if_kept, self.spent)
        shift, release_delta = survey_shift(self.spent), delta_of_release(budget, delta, self.spent)
        price, profile = certified_price(
            self.mechanism,
            self.rule,
            self.ball,
            delta=delta,
            release_delta=release_delta,
            survey_shift=shift,
            budget=budget,
            limit=limit,
            # A plan made after earlier releases, such as a survey, may depend on their results.
            follows=bool(self.spent),
        )  # [note: release-6]
        numbers = {
            "epsilon": price.epsilon if budget is None else budget,
            "delta": delta,
            "survey_shift": shift,
            "release_delta": release_delta,
            "epsilon_if_kept": price.epsilon_if_kept,
            "max_epsilon_if_kept": validate.kept_limit(self.max_epsilon_if_kept, finite=True),
            "certified_delta": None if self.certified_delta is None and charged == delta else charged,
            "price": replace(price, delta=charged, unit=unit, scaled=self.schema is not None),
            "_profile": profile,
        }
        for name, value in numbers.items():
            object.__setattr__(self, name, value)

    @property
    def neighbours(self) -> str:
        """The meaning of presence or absence in the guarantee."""
        return ONE_ROW if self.unit is None else self.unit.neighbours

    def certified(self) -> Plan:
        """Return the plan with its current price. Raises if that exceeds the budget.

        A user-defined rule or mechanism may have changed since the plan was certified, so it is certified again.
        """
        known = files.is_complete([self.rule.to_dict(), self.mechanism.to_dict()])
        return self if known and self.mechanism.profile == self._profile else replace(self)

    _card = plan_card

    def explain(self) -> str:
        """Describe the plan in words: what is read, public and protected, and the loss of a record."""
        return explain(self)

    def certificate(self, value: object, *, secure: bool, entries: Sequence[str]) -> Certificate:
        """Certificate of a value that this plan released. `secure` is False if any draw came from a seed."""
        earlier = [part.epsilon for part in self.spent]
        own = [part for part in self.spent if part.shift == 0.0]
        # A certificate states prices alone, without the numbers from which they were computed.
        parts = tuple(
            Part(what=part.what, epsilon=part.epsilon, delta=part.delta, unit=part.unit) for part in (*own, self.price)
        )
        return Certificate(
            epsilon=sum_up(part.epsilon for part in parts),  # [note: release-5]
            delta=sum_up(part.delta for part in parts),
            # Earlier releases used all rows, so their cost does not depend on which rows are kept.
            epsilon_if_kept=sum_up([*earlier, self.epsilon_if_kept]),
            max_epsilon_if_kept=self.max_epsilon_if_kept or sum_up([*earlier, kept_limit(self.price.epsilon, None)]),
            delta_used=self.delta,
            delta_basis=self.delta_basis,
            survey_shift=self.survey_shift,
            release_delta=self.release_delta,
            parts=parts,
            neighbours=self.neighbours,
            unit=None if self.unit is None else self.unit.to_dict(),
            schema=None if self.schema is None else self.schema.to_dict(),
            about=about_units(self.unit),
            note=SECURE if secure else SEEDED,
            secure_randomness=secure,
            mechanism=self.mechanism.to_dict(),
            rule=self.rule.to_dict(),
            ball=self.ball.to_dict(),
            values_sha256=digest(value),
            ledger_entries=list(entries),
            version=__version__,
        )

    def require_columns(self, rows: Engine) -> None:
        """Raise if the rows have other columns, or another order of columns, than the survey behind this plan."""
        if rows.unit != self.unit:
            raise MismatchError(
                f"the plan protects {named_unit(self.unit)}, but the source protects {named_unit(rows.unit)}. Open the "
                "source with the unit of the plan, or plan again."
            )
        known = self.schema is not None or self.columns is not None
        if known and rows.schema != self.schema:
            raise MismatchError(
                "the plan was made for columns with other facts. Open the source with columns=plan.schema, or survey "
                "and plan again."
            )
        planned = getattr(self.mechanism, "n_features", rows.n_features)
        if rows.n_features != planned:
            raise ArgumentError(f"the plan is for {planned} features, not {rows.n_features}. Choose other columns.")
        if None not in (self.columns, rows.names) and tuple(rows.names or ()) != self.columns:
            raise MismatchError(
                "the plan was made for other columns, or in another order. Choose these columns in this order, or "
                f"survey and plan again: {', '.join(self.columns or ())}."
            )

    def to_dict(self) -> dict[str, Any]:
        """The plan as a dictionary, for files: the fields for `from_dict`, and some for readers."""
        norm = np.linspace(0.0, 1.0, 11) * self.ball.radius
        return {
            "kind": "plan",
            "format": files.FORMAT,
            "epsilon": self.epsilon,
            "delta": self.price.delta,
            "delta_used": self.delta,
            "delta_basis": self.delta_basis,
            "survey_shift": self.survey_shift,
            "release_delta": self.release_delta,
            "epsilon_if_kept": self.epsilon_if_kept,
            "max_epsilon_if_kept": self.max_epsilon_if_kept,
            "spent": [part.to_dict() for part in self.spent],
            "neighbours": self.neighbours,
            "unit": None if self.unit is None else self.unit.to_dict(),
            "schema": None if self.schema is None else self.schema.to_dict(),
            "columns": files.plain(self.columns),
            "expected_rows": self.expected_rows,
            "n_rows": None if self.norms is None else self.norms.n_rows,
            "mechanism": self.mechanism.to_dict(),
            "rule": self.rule.to_dict(),
            "ball": self.ball.to_dict(),
            "predicted_quality": None if self.quality is None else self.quality.to_dict(),
            "radius_choice": None if self.radius_choice is None else self.radius_choice.to_dict(),
            "sample_choice": None if self.sample_choice is None else self.sample_choice.to_dict(),
            "norms": None if self.norms is None else self.norms.to_dict(),
            "by_norm": {
                "norm": norm.tolist(),
                "probability": self.rule.probability(norm).tolist(),
                "epsilon": record_losses(self, norm).tolist(),
                "epsilon_if_kept": losses_if_kept(self, norm).tolist(),
            },
            "explanation": self.explain().splitlines(),
            "version": __version__,
        }

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Plan:
        """Rebuild a plan and certify it again. Raises if a number in the dictionary differs from that of the plan."""
        files.require_format(described, "plan")
        norms, used, radius_choice = described["norms"], described["delta_used"], described["radius_choice"]
        plan = cls(
            ball=Ball.from_dict(described["ball"]),
            rule=Rule.from_dict(described["rule"]),
            mechanism=Mechanism.from_dict(described["mechanism"]),
            epsilon=validate.target_epsilon(described["epsilon"]),
            delta=used,
            norms=None if norms is None else NormDistribution.from_dict(norms),
            spent=tuple(Part.from_dict(part) for part in described["spent"]),
            max_epsilon_if_kept=described["max_epsilon_if_kept"],
            certified_delta=None if described["delta"] == used else described["delta"],
            delta_basis=described["delta_basis"],
            columns=files.texts(described["columns"]),
            unit=Unit.from_dict(described["unit"]),
            schema=Schema.read(described["schema"]),
            radius_choice=None if radius_choice is None else RadiusChoice.from_dict(radius_choice),
            sample_choice=SampleChoice.read(described["sample_choice"]),
        )
        shown = plan.to_dict()
        if any(not files.alike(described.get(name), shown[name]) for name in shown if name != "version"):
            raise ArgumentError(
                "it was edited, or another version of pais wrote it, and its numbers do not match. Plan again."
            )
        return plan

    def save(self, path: str | Path) -> None:
        """Write the plan to a JSON file, which `load` and the command line read."""
        content = self.to_dict()
        self.from_dict(content)  # Raises if a user-defined class cannot be read back.
        files.write_json(path, content)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan from a JSON file."""
        return files.load(path, "plan", cls.from_dict)


F = TypeVar("F", bound="Fit")

#: A single number is readable if it differs from another by more than this many standard errors.
CLEAR = 2.0


@dataclass(frozen=True, kw_only=True, repr=False)
class Fit(Carded):
    """Value, certificate, plan and survey of a private fit. All of it may be published.

    A value may describe itself: `in_words()` names it in a few words, `verdict` says how far it can be read above the
    noise, and `concern` is the text of a warning.
    """

    value: Any
    certificate: Certificate
    plan: Plan
    survey: Survey | None

    @property
    def concern(self) -> str | None:
        """Text of a warning if noise hides much of the value or costs much, from released values; else None."""
        concern: str | None = getattr(self.value, "concern", None)
        return concern

    @property
    def verdict(self) -> str | None:
        """How far the value can be read above the noise, in one sentence; None if this is not known."""
        verdict: str | None = getattr(self.value, "verdict", None)
        return verdict

    @property
    def schema(self) -> Schema | None:
        """What is public about the columns. It maps the released vectors to the columns' own units."""
        return self.plan.schema

    @cached_property
    def quality(self) -> Any:
        """Predicted quality of the value, from public and released values; None if nothing is predicted."""
        return self.plan.quality_of(self.value)

    def extended(self, kind: type[F], **others: Any) -> F:
        """The same fit as one of a kind, with the fields that this adds."""
        return kind(value=self.value, certificate=self.certificate, plan=self.plan, survey=self.survey, **others)

    def results(self, feature_names: Sequence[str] | None) -> Any:
        """The part of a page that this kind of fit supplies; None for the value in words."""
        return None

    def explain(self) -> str:
        """Describe the fit in words: what was released, how far it can be read, and the certificate."""
        sentences = [f"This fit released {self.in_words()}. It may be published."]
        for label, finding in self._findings():
            text = finding if label == "verdict" else f"{label}: {finding}"
            sentences.append(f"{text[:1].upper()}{text[1:].removesuffix('.')}.")
        return "\n".join([*sentences, "", self.certificate.explain()])

    def _card(self) -> Card:
        card = self.certificate._card()
        return replace(
            card,
            kind="Fit",
            summary=f"{self.in_words()}; {card.summary}",
            facts=(*self._findings(), *card.facts),
        )

    def _findings(self) -> list[tuple[str, str]]:
        """How far the value can be read: the verdict, the predicted quality and the concern, as far as known."""
        findings = [
            ("verdict", self.verdict),
            ("categories", getattr(self.value, "comparison", None)),
            ("predicted", None if self.quality is None else str(self.quality)),
            ("caution", self.concern),
            ("columns", None if self.survey is None else self.survey.columns_concern),
            *((f"categories of {one.column}", one.in_words(self.certificate.neighbours)) for one in self._categories),
        ]
        return [(label, text) for label, text in findings if text is not None]

    @property
    def _categories(self) -> tuple[CategoriesFound, ...]:
        """What the survey says of columns whose categories it found."""
        return () if self.survey is None else self.survey.categories

    def in_words(self) -> str:
        """The value in a few words."""
        return value_in_words(self.value)

    @staticmethod
    def of(plan: Plan, release: Release) -> Fit:
        """Fit from a plan that was run. The survey behind the plan, if any, is rebuilt from it."""
        if plan.schema is None and release.certificate.schema is not None:
            # The plan says nothing about the columns, and the rows were opened with a schema.
            plan = replace(plan, schema=Schema.from_dict(release.certificate.schema))
        survey = None
        if plan.spent and plan.norms is not None:
            price = plan.spent[0]
            survey = Survey(
                ball=plan.ball,
                norms=plan.norms,
                epsilon=math.inf if price.shift > 0.0 else price.epsilon,
                shift=price.shift,
                delta=price.delta,
                secure_randomness=price.secure_randomness,
                above_noise=price.what == "survey",
                name=price.release,
                columns=plan.columns,
                unit=plan.unit,
                schema=plan.schema,
            )
        kind: type[Fit] = plan.mechanism.fit_class or Fit
        return kind(value=release.value, certificate=release.certificate, plan=plan, survey=survey)
