"""The privacy loss of records of given norms under a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pais._base.numerics import FloatArray
from pais.accounting import record_loss
from pais.privacy.amplification import epsilon_at_delta

if TYPE_CHECKING:
    from pais.planning.plan import Plan


def record_losses(plan: Plan, norm: FloatArray) -> FloatArray:
    """Not private with norms of real rows: epsilon of records of given norms under the plan, at its delta.

    Norms that you choose yourself give public results. Norms of real rows give results that depend on those rows; do
    not publish them. If the price includes a survey, each record has the epsilon of the plan.
    """
    if plan.survey_shift > 0.0:
        return np.full(np.shape(norm), plan.price.epsilon)
    return record_loss(plan.rule, plan.mechanism.profile, norm, delta=plan.delta)


def losses_if_kept(plan: Plan, norm: FloatArray) -> FloatArray:
    """Epsilon of records of given norms, at the plan's delta, given that they are in the sample."""
    loss = plan.mechanism.profile(1.0 / plan.rule.probability(norm), norm)
    loss = np.hypot(loss, plan.survey_shift) if plan.survey_shift > 0.0 else loss
    return np.asarray(epsilon_at_delta(plan.delta, loss, 1.0)) if plan.delta > 0.0 else loss
