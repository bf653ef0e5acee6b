"""The plan of a release: everything that is decided before a row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pais._base import files, validate
from pais._base.cards import Carded
from pais._version import __version__
from pais.accounting.certificate import Certificate, digest
from pais.accounting.part import (
    Part,
    certified_price,
    delta_of_release,
    own_limit,
    require_one_unit,
    require_parts,
    sum_up,
    survey_shift,
)
from pais.accounting.stores import SECURE, SEEDED
from pais.accounting.words import ONE_ROW
from pais.data.ball import Ball
from pais.data.engines.base import Engine
from pais.data.schema import Schema
from pais.data.units import Unit, about_units
from pais.errors import ArgumentError, MismatchError
from pais.mechanisms.base import Mechanism
from pais.planning.choices import RadiusChoice, SampleChoice
from pais.planning.explain import explain, losses_if_kept, named_unit, plan_card, record_losses
from pais.privacy.amplification import kept_limit
from pais.privacy.guarantee import STATED, DeltaChoice
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import Profile
from pais.privacy.rules import Rule

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
        Certified price of the plan, computed by the constructor.
    certified_delta : float, optional
        The delta that is certified and charged, if it is larger than `delta`. It is larger when delta was chosen from a
        surveyed number of rows; it is then the largest delta that could have been chosen. None means `delta`.
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
    _profile: Profile = field(init=False, repr=False, compare=False)

    @property
    def delta_choice(self) -> DeltaChoice:
        """The delta that the noise is calibrated for, and the delta that is certified."""
        certified = self.delta if self.certified_delta is None else self.certified_delta
        return DeltaChoice(used=self.delta, certified=certified, basis=self.delta_basis)

    @property
    def due(self) -> tuple[Part, ...]:
        """The parts that a run of this plan charges: earlier releases that have a name, and its own price.

        A survey with a shift is not charged by itself, because the price of the plan includes it.
        """
        return (*(part for part in self.spent if part.release and part.shift == 0.0), self.price)

    @property
    def survey_shift(self) -> float:
        """Gaussian shift of a survey whose loss the price of this plan includes; 0 if there is none."""
        return survey_shift(self.spent)

    @property
    def release_delta(self) -> float:
        """The delta that the mechanism alone meets: below `delta` if the price includes a survey."""
        return delta_of_release(self.epsilon, self.delta, self.spent)

    @property
    def epsilon_if_kept(self) -> float:
        """Certified epsilon of this release for a record, given that it was kept in the sample."""
        return self.price.epsilon if self.price.epsilon_if_kept is None else self.price.epsilon_if_kept

    @property
    def expected_rows(self) -> float | None:
        """Expected number of rows in the sample, from the assumed norms. The actual number is secret."""
        return None if self.norms is None else self.norms.expected_size(self.rule)

    @property
    def quality(self) -> Any:
        """Predicted cost over that of k-means without noise, from public and released values; None if not k-means."""
        return self.quality_of(None)

    def quality_of(self, value: object) -> Any:
        """The same after a release, whose value shows how much of the cost the centers explain."""
        if self.norms is None:
            return None
        clipping = None if self.radius_choice is None else self.radius_choice.clipping
        return self.mechanism.predicted_quality(self.rule, self.norms, ball=self.ball, clipping=clipping, value=value)

    def __post_init__(self) -> None:
        require_parts(self.spent)
        unit = "" if self.unit is None else self.unit.column
        require_one_unit([unit, *(part.unit for part in self.spent)])
        if self.unit is not None and not self.mechanism.is_for_units:
            raise MismatchError(
                f"the mechanism {self.mechanism.name!r} is not proven for units of several rows. Leave out unit, or "
                "prove it and set protects_units: see the guide."
            )
        delta = self.delta_choice  # Raises if the certified delta is below `delta`.
        price = certified_price(
            self.mechanism,
            self.rule,
            self.ball,
            delta=delta.used,
            budget=None if self.epsilon is AT_COST else validate.target_epsilon(self.epsilon),
            max_epsilon_if_kept=self.max_epsilon_if_kept,
            spent=self.spent,
        )  # [note: release-6]
        stated = price.epsilon if self.epsilon is AT_COST else validate.target_epsilon(self.epsilon)
        numbers = {
            "epsilon": stated,
            "delta": delta.used,
            "max_epsilon_if_kept": validate.kept_limit(self.max_epsilon_if_kept, finite=True),
            "certified_delta": None if self.certified_delta is None else delta.certified,
            "price": replace(price, delta=delta.certified, unit=unit, scaled=self.schema is not None),
            "_profile": self.mechanism.profile,
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
        limit = kept_limit(self.price.epsilon, own_limit(self.max_epsilon_if_kept, self.spent))
        own = [part for part in self.spent if part.shift == 0.0]
        parts = tuple(part.price() for part in (*own, self.price))
        return Certificate(
            epsilon=sum_up(part.epsilon for part in parts),  # [note: release-5]
            delta=sum_up(part.delta for part in parts),
            # Earlier releases used all rows, so their cost does not depend on which rows are kept.
            epsilon_if_kept=sum_up([*earlier, self.epsilon_if_kept]),
            max_epsilon_if_kept=self.max_epsilon_if_kept or sum_up([*earlier, limit]),
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
