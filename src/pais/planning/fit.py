"""The result of a private fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pais.accounting import Certificate, Release
from pais.mechanisms import KMeansValue
from pais.planning.facts import Survey
from pais.planning.plan import Plan
from pais.planning.quality import Quality
from pais.privacy.guarantee import structure_concern


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Value, certificate, plan and survey of a private fit. All of it may be published."""

    value: Any
    certificate: Certificate
    plan: Plan
    survey: Survey | None

    @property
    def concern(self) -> str | None:
        """Text of a warning if noise hides the clusters or costs much, from released values; else None."""
        if not isinstance(self.value, KMeansValue):
            return None
        ratio = 1.0 if self.quality is None else self.quality.ratio
        return structure_concern(len(self.value.centers), self.value.effective_centers, predicted_ratio=ratio)

    @property
    def quality(self) -> Quality | None:
        """Predicted cost over that of k-means without noise, from public and released values; None if not k-means."""
        return self.plan.quality_of(self.value)

    @classmethod
    def of(cls, plan: Plan, release: Release) -> Fit:
        """Fit from a plan that was run. The survey behind the plan, if any, is rebuilt from it."""
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
            )
        return cls(value=release.value, certificate=release.certificate, plan=plan, survey=survey)
