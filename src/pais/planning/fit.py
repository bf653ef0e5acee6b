"""The result of a private fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.cards import Card, Carded
from pais._base.numerics import FloatArray
from pais.accounting import Certificate, Release
from pais.accounting.certificate import value_in_words
from pais.data.distances import nearest
from pais.data.intervals import Intervals
from pais.data.kinds import Categories
from pais.data.schema import Schema
from pais.errors import ArgumentError
from pais.mechanisms import CellModel, Elbow, KMeans, KMeansValue
from pais.planning.facts import Survey
from pais.planning.plan import Plan
from pais.planning.quality import Quality
from pais.planning.readability import Readability, readability_concern, readability_of
from pais.privacy.guarantee import structure_concern

# A column of categories is suspect if the listed ones have less than this share together.
_FEW_CATEGORIES = 0.05


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
        """Text of a warning if noise hides clusters or features or costs much, from released values; else None."""
        if not isinstance(self.value, KMeansValue):
            concern: str | None = getattr(self.value, "concern", None)
            return concern
        ratio = 1.0 if self.quality is None else self.quality.ratio
        concern = structure_concern(len(self.value.centers), self.value.effective_centers, predicted_ratio=ratio)
        if concern is not None or self.readability is None:
            return concern
        # With a schema, all columns have about one size already.
        named = None if self.schema is not None else self.plan.columns
        return readability_concern(self.readability, named) or self._category_concern or self._choice_concern

    @property
    def _category_concern(self) -> str | None:
        """Text of a warning if the centers say that hardly any row has one of the listed categories of a column."""
        if self.schema is None:
            return None
        shares = np.average(
            self.schema.decode(self.value.centers), axis=0, weights=np.maximum(self.value.noisy_counts, 1)
        )
        for column in self.schema.columns:
            place = [self.schema.labels.index(label) for label in column.labels]
            if isinstance(column, Categories) and float(shares[place].sum()) < _FEW_CATEGORIES:
                hint = "type of the column" if isinstance(column, Intervals) else "spelling; case counts"
                return f"hardly any row has one of the {column.kind} stated for {column.name!r}. Check the {hint}."
        return None

    @property
    def _choice_concern(self) -> str | None:
        """Text of a warning if the release chose the largest number of clusters that it was allowed."""
        most = getattr(self.plan.mechanism, "n_clusters", 0)
        if not self._chooses or len(self._released.centers) < most:
            return None
        return (
            f"n_clusters='auto' chose the largest number allowed, max_clusters={most}. Raise max_clusters, or state a "
            "number: compare the spreads within segments in elbow_."
        )

    @property
    def schema(self) -> Schema | None:
        """What is public about the columns. It maps the released vectors to the columns' own units."""
        return self.plan.schema

    @cached_property
    def readability(self) -> Readability | None:
        """Which clusters and features stand above the noise, from released values; None if not k-means."""
        mechanism = self.plan.mechanism
        if not isinstance(self.value, KMeansValue) or not isinstance(mechanism, KMeans):
            return None
        return readability_of(self.value, count_noise=self.count_noise, radius=self.plan.ball.radius)

    @property
    def count_noise(self) -> float:
        """Standard deviation of the noise of each noisy count of k-means; 0 for other mechanisms."""
        mechanism = self.plan.mechanism
        return mechanism.rounds[-1].count_noise.deviation(1) * self._max_rows if isinstance(mechanism, KMeans) else 0.0

    @property
    def count_errors(self) -> FloatArray:
        """Standard error of each noisy count of k-means, from noise and from the rows that are not in the sample.

        If these are not the released centers, a count has the noise of about as many cells as were merged.
        """
        value, norms = self.value, self.plan.norms
        noise = np.full(len(value.centers), self.count_noise)
        if value.released is not None and value.cells is not None:
            cells = nearest(value.cells.centers, value.centers)
            noise = value.cells.size_noise * np.sqrt(np.maximum(np.bincount(cells, minlength=len(value.centers)), 1))
        spare = 0.0 if norms is None else max(norms.mean_weight(self.plan.rule) - 1.0, 0.0)
        return np.asarray(np.sqrt(np.square(noise) + np.maximum(value.noisy_counts, 0.0) * spare * self._max_rows))

    @property
    def column_spread(self) -> FloatArray | None:
        """Standard deviation of each feature over all rows, as the release shows it; None if it does not.

        It is that of the vectors, before they are decoded to own units.
        """
        cells = getattr(self.value, "cells", None)
        return None if cells is None else np.sqrt(np.square(cells.spread).sum(axis=0))

    @property
    def _max_rows(self) -> int:
        """Rows that a count of 1 stands for."""
        return 1 if self.plan.unit is None else self.plan.unit.full_rows

    @cached_property
    def elbow(self) -> Elbow | None:
        """Estimated cost for every number of clusters, from released values; None if there are no cells."""
        model = self._model
        if model is None:
            return None
        elbow = Elbow.of(model)
        # The release has chosen already, from the cells as they were then.
        return replace(elbow, suggested=len(self._released.centers)) if self._chooses else elbow

    @property
    def _released(self) -> KMeansValue:
        """The value that was released, before another number of clusters was asked for."""
        value: KMeansValue = self.value.released or self.value
        return value

    @property
    def _chooses(self) -> bool:
        """Whether the release chose the number of clusters."""
        return isinstance(self.plan.mechanism, KMeans) and self.plan.mechanism.choose

    def with_clusters(self, n_clusters: int) -> Fit:
        """The same fit with another number of clusters, from 1 to the number of released cells.

        The centers follow from the released cells at no further price. The certificate is the same, and it matches the
        new fit, because it was issued for the value that the new centers were computed from.
        """
        k, model = validate.count("n_clusters", n_clusters), self._model
        if model is None:
            raise ArgumentError("this release has no cells to merge. Fit again with the number of clusters you want.")
        if k > len(model.cells):
            raise ArgumentError(
                f"n_clusters={k} is more than the {len(model.cells)} released cells. Pass at most that number, or fit "
                "again."
            )
        released = self._released
        if k == len(released.centers):
            return replace(self, value=released)
        value = replace(model.merged(k).value.moved(self._origin), cells=released.cells, released=released)
        return replace(self, value=value)

    @property
    def _origin(self) -> FloatArray:
        center = self.plan.ball.center
        return np.zeros(self.value.centers.shape[1]) if center is None else np.asarray(center)

    @cached_property
    def _model(self) -> CellModel | None:
        """Points that stand for the rows of the released cells."""
        mechanism, plan = self.plan.mechanism, self.plan
        if not isinstance(self.value, KMeansValue) or not isinstance(mechanism, KMeans) or self.value.cells is None:
            return None
        cells = self.value.moved(-self._origin).cells
        assert cells is not None
        return CellModel(
            cells=cells,
            n_rows=mechanism.n_rows * self._max_rows,
            mean_square_norm=mechanism.mean_square_norm if mechanism.order == 2.0 else None,
            radius=plan.ball.radius,
        )

    @cached_property
    def quality(self) -> Quality | None:
        """Predicted cost over that of k-means without noise, from public and released values; None if not k-means."""
        return self.plan.quality_of(self.value)

    def explain(self) -> str:
        """Describe the fit in words: what was released, how far it can be read, and the certificate."""
        sentences = [f"This fit released {self._value_in_words()}. It may be published."]
        for label, finding in self._findings():
            text = finding if label == "verdict" else f"{label}: {finding}"
            sentences.append(f"{text[:1].upper()}{text[1:].removesuffix('.')}.")
        return "\n".join([*sentences, "", self.certificate.explain()])

    def _card(self) -> Card:
        card = self.certificate._card()
        return replace(
            card,
            kind="Fit",
            summary=f"{self._value_in_words()}; {card.summary}",
            facts=(*self._findings(), *card.facts),
        )

    def _findings(self) -> list[tuple[str, str]]:
        """How far the value can be read: the verdict, the predicted quality and the concern, as far as known."""
        readable = self.readability
        findings = [
            ("verdict", getattr(self.value if readable is None else readable, "verdict", None)),
            ("categories", getattr(self.value, "comparison", None)),
            ("predicted", None if self.quality is None else str(self.quality)),
            ("caution", self.concern),
            ("columns", None if self.survey is None else self.survey.columns_concern),
        ]
        return [(label, text) for label, text in findings if text is not None]

    def _value_in_words(self) -> str:
        if not isinstance(self.value, KMeansValue):
            return value_in_words(self.value)
        k, d = self.value.centers.shape
        return f"{k} center{'s' * (k != 1)} of {d} feature{'s' * (d != 1)}"

    @classmethod
    def of(cls, plan: Plan, release: Release) -> Fit:
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
        return cls(value=release.value, certificate=release.certificate, plan=plan, survey=survey)
