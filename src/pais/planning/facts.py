"""Facts about the rows that a plan needs: stated by the user, or released by a survey."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pais._base import files, validate
from pais._base.cards import Card, Carded
from pais._base.numerics import raised
from pais._version import __version__
from pais.accounting.part import Part
from pais.accounting.stores import SECURE, SEEDED, new_name
from pais.accounting.words import ONE_ROW, person_of, units_of
from pais.data.ball import Ball
from pais.data.checks import listed
from pais.data.schema import Schema
from pais.data.units import Unit
from pais.errors import ArgumentError, MismatchError
from pais.planning.explain import survey_text
from pais.planning.norm_counts import NoisyCounts
from pais.privacy.guarantee import reuse_concern, warn
from pais.privacy.norms import NormDistribution


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
    unit: Unit | None = None
    schema: Schema | None = None
    unclear_columns: tuple[str, ...] = ()
    skewed_columns: tuple[str, ...] = ()
    counts: NoisyCounts | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shift", validate.non_negative("shift", self.shift))
        gaussian = self.shift > 0.0 and self.epsilon == math.inf
        object.__setattr__(self, "epsilon", math.inf if gaussian else validate.price_epsilon(self.epsilon))
        if self.shift > 0.0 and not gaussian:
            raise ArgumentError("a survey has a shift or an epsilon, not both. Pass epsilon=math.inf with a shift.")
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
            "above_noise": self.above_noise,
            "unclear_columns": list(self.unclear_columns),
            "skewed_columns": list(self.skewed_columns),
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
            secure_randomness=secure,
            above_noise=described["above_noise"],
            name=described["name"],
            columns=files.texts(described["columns"]),
            unclear_columns=files.texts(described["unclear_columns"]) or (),
            skewed_columns=files.texts(described["skewed_columns"]) or (),
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
