"""The result of a private fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from pais._base.cards import Card, Carded
from pais.accounting.certificate import Certificate, Release, value_in_words
from pais.data.schema import Schema
from pais.planning.facts import Survey
from pais.planning.plan import Plan

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
        ]
        return [(label, text) for label, text in findings if text is not None]

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
                secure_randomness=price.secure_randomness,
                above_noise=price.what == "survey",
                name=price.release,
                columns=plan.columns,
                unit=plan.unit,
                schema=plan.schema,
            )
        return fit_class(plan)(value=release.value, certificate=release.certificate, plan=plan, survey=survey)


def fit_class(plan: Plan) -> type[Fit]:
    """The class of a fit by this plan."""
    return plan.mechanism.fit_class or Fit
