"""A survey: stages that release facts about the rows with noise, paid for before the first of them draws noise.

`SurveyNoise` is the noise of a whole survey, and each `Stage` has a share of it. `Stages.run` is the only place where a
survey runs. Stages for norms and for columns are in `norm_survey` and `column_survey`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pais._base import validate
from pais._base.randomness import BitSource, RandomState, bit_source
from pais.accounting.ledger import Accounts
from pais.accounting.part import Part
from pais.accounting.stores import new_name
from pais.data.ball import Ball
from pais.data.engines.base import Engine
from pais.errors import ArgumentError
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, laplace_noise

# Room for the rounding errors of shares and their sum.
_ROOM = 1.0 + 1e-12

# Smallest price or shift: with a smaller one, the noise would not fit 64-bit integers.
_SMALLEST = 1e-15


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

    Notes
    -----
    Guarantee. The stages of a survey together cost at most `epsilon`, or have at most the shift `shift`:
    `tests/theory/test_survey.py`, `tests/theory/test_joint_fits.py`.
    """

    epsilon: float = math.inf
    shift: float = 0.0

    def __post_init__(self) -> None:
        name, value = ("shift", self.shift) if self.shift > 0.0 else ("epsilon", self.epsilon)
        highest = validate.LARGEST_EPSILON
        rule = f"a number in [{_SMALLEST:g}, {highest:g}]"
        object.__setattr__(self, name, validate.number(name, value, rule=rule, low=_SMALLEST, high=highest))
        if self.shift > 0.0 and self.epsilon != math.inf:
            raise ArgumentError("a survey has a shift or an epsilon, not both. Pass one of them.")

    @property
    def scale_share(self) -> float:
        """Share of the first stage, the octaves of the norms. Shares were tuned for the costs of k-means (e0ae639)."""
        return 0.15 if self.gaussian else 0.08

    @property
    def center_share(self) -> float:
        """Share of the mean of the rows, if no center is stated. The norms about the center get the rest."""
        return 0.45 if self.gaussian else 0.4

    @property
    def columns_share(self) -> float:
        """Share of the bounds of "auto" columns, if there are any. The norms get the rest (95cbfdc)."""
        return 0.8 if self.gaussian else 0.6

    @property
    def gaussian(self) -> bool:
        return self.shift > 0.0

    def part(self, share: float) -> SurveyNoise:
        """Noise of the stages that have this share together; their own shares count within it."""
        if self.gaussian:
            return SurveyNoise(shift=math.sqrt(share) * self.shift)  # [note: columns-4]
        return SurveyNoise(epsilon=share * self.epsilon)

    def on_cells(self, share: float, n_columns: int) -> NoiseLaw:
        """Noise on a vector in which a record changes, for each of its columns, entries by at most one in total."""
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

    `passes` is the number of passes over the rows that the whole call needs. Without noise there is no survey.

    Notes
    -----
    Guarantee. The first stage reads the rows, so an error about them costs nothing. Then the survey is charged, and no
    bits are drawn before that: `tests/unit/accounting/test_ledger_charging.py`.
    """

    noise: SurveyNoise | None = None
    stages: tuple[Stage, ...] = ()
    passes: int = 1

    @property
    def gaussian(self) -> bool:
        return self.noise is not None and self.noise.gaussian

    def run(self, engine: Engine, charged: Accounts, random_state: RandomState | BitSource) -> Findings:
        """Run all stages, and charge them to accounts that the caller has checked."""
        if self.noise is None:
            return Findings(engine=engine)
        engine.require_passes(self.passes)
        bits = bit_source(random_state, stream=2)
        part = Part(
            what="survey",
            epsilon=0.0 if self.noise.gaussian else self.noise.epsilon,
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
                entries = charged.spend(part)  # [note: ledger-3]
            engine, found[stage.name] = stage.release(totals, engine, noise, bits)
        return Findings(engine=engine, noise=self.noise, part=part, ledger_entries=tuple(entries or ()), found=found)
