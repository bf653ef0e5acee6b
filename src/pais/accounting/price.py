"""The certified price of a mechanism on a sample: an upper bound on the loss of any record in the ball."""

from __future__ import annotations

from pais._base import validate
from pais.accounting.amounts import at_least, sum_up, what_is_left
from pais.accounting.part import Part, survey_shift
from pais.data.ball import Ball
from pais.errors import ArgumentError, BudgetError, MismatchError
from pais.mechanisms import Extent, Mechanism, exact_epsilon
from pais.privacy.amplification import kept_limit
from pais.privacy.certify import CERTIFIED_TOLERANCE, worst_case, worst_case_if_kept
from pais.privacy.joint import delta_after
from pais.privacy.profiles import ShiftProfile
from pais.privacy.rules import Rule
from pais.privacy.rules.base import SMALLEST_PROBABILITY


def own_limit(max_epsilon_if_kept: float | None, spent: tuple[Part, ...]) -> float | None:
    """The part of a stated limit on kept records that earlier releases leave for this one; None for the default."""
    limit = validate.kept_limit(max_epsilon_if_kept, finite=True)
    if limit is None or not spent:
        return limit
    left = what_is_left(limit, sum_up(part.epsilon for part in spent))
    if left <= 0.0:
        raise ArgumentError(
            f"max_epsilon_if_kept={limit!r} is used up by earlier releases on the same rows. State a larger limit."
        )
    return left


def certified_price(
    mechanism: Mechanism,
    rule: Rule,
    ball: Ball,
    *,
    delta: float,
    budget: float | None,
    max_epsilon_if_kept: float | None,
    spent: tuple[Part, ...],
) -> Part:
    """Price of running a mechanism on a sample drawn by a rule. Raises if it is above the budget or the limit.

    All arguments are public and no row is needed, so callers can check the price before they read a row. If `spent` has
    a survey with a shift, the price is that of survey and mechanism together.
    """
    limit, shift = own_limit(max_epsilon_if_kept, spent), survey_shift(spent)
    release_delta = delta_of_release(budget, delta, spent)
    epsilon = certified_epsilon(mechanism, rule, ball, delta=release_delta, budget=budget)
    if shift > 0.0 and budget is not None:
        # The joint price holds at the epsilon that was fixed before the survey, not at a smaller one.
        epsilon = budget  # [note: joint-survey-8]
    profile = mechanism.profile
    kept = worst_case_if_kept(rule, profile, radius=ball.radius, delta=delta, survey_shift=shift).upper
    allowed = kept_limit(epsilon, limit)
    if not kept <= allowed:  # [note: kept-5]
        raise BudgetError(
            f"a record that is kept in the sample would pay epsilon={kept:.6g}, above max_epsilon_if_kept="
            f"{allowed:.6g}. Raise the noise or the rule's probabilities, or state a larger max_epsilon_if_kept.",
            cost=kept,
        )
    if shift > 0.0:
        # Without rule and profile: these describe the rounds alone, and the price is that of survey and rounds.
        what = f"survey and {mechanism.name}"
        return Part(what=what, epsilon=epsilon, delta=delta, epsilon_if_kept=max(kept, epsilon), follows=True)
    return Part(
        what=mechanism.name,
        epsilon=epsilon,
        delta=delta,
        epsilon_if_kept=max(kept, epsilon),
        rule=rule,
        profile=profile,
        ball=ball,
        # A plan made after earlier releases, such as a survey, may depend on their results.
        follows=bool(spent),
    )


def delta_of_release(epsilon: float | None, delta: float, spent: tuple[Part, ...]) -> float:
    """The delta that a release must meet by itself at `epsilon`: smaller than `delta` after a survey with a shift."""
    shift = survey_shift(spent)
    if shift == 0.0:
        return delta
    if epsilon is None:
        raise MismatchError("a survey with a shift has a price only together with an epsilon. Pass epsilon.")
    if validate.target_delta(delta) == 0.0:
        raise MismatchError("a survey with Gaussian noise needs a release with Gaussian noise. Pass delta > 0.")
    return delta_after(epsilon, delta, survey_shift=shift)


def certified_epsilon(
    mechanism: Mechanism, rule: Rule, ball: Ball, *, delta: float = 0.0, budget: float | None = None
) -> float:
    """Epsilon of running a mechanism on a sample drawn by a rule. Raises if it is above the budget.

    All arguments are public and no row is needed, so callers can check the cost before they read a row.
    """
    delta = validate.target_delta(delta)
    validate.instance("mechanism", mechanism, Mechanism, "Pass a mechanism such as WeightedSum, then the sample.")
    validate.instance("ball", ball, Ball, "Build one with pais.Ball(radius=...).")
    validate.instance("rule", rule, Rule, "Wrap a function in FunctionRule.")
    if mechanism.order is not None and mechanism.order != ball.order:  # [note: release-1]
        raise MismatchError(
            f"the noise is for the l{mechanism.order:g} norm, but the ball has order={ball.order:g}. "
            "Build the ball and the rule with the order of the noise."
        )
    if rule.smallest_probability(ball.radius) < SMALLEST_PROBABILITY * (1.0 - 1e-9):
        raise ArgumentError(
            f"the rule keeps some rows with a probability below {SMALLEST_PROBABILITY}. Raise its smallest probability."
        )
    mechanism.require_lattice(Extent.of(rule, ball.radius))
    profile = mechanism.profile
    gaussian = isinstance(profile, ShiftProfile)
    if gaussian != (delta > 0.0):
        raise MismatchError(f"delta={delta!r} does not fit the noise. Gaussian noise needs delta > 0, other noise 0.")
    if gaussian and budget is not None:
        # Compare deltas at the budget's epsilon, as calibration does; this avoids an inversion from delta to epsilon.
        at_budget = worst_case(
            rule, profile, radius=ball.radius, epsilon=budget, tolerance=CERTIFIED_TOLERANCE, enough=0.5 * delta
        )
        if at_budget.upper <= delta:  # [note: release-2]
            return budget
    fixed = delta if gaussian else None
    cost = worst_case(rule, profile, radius=ball.radius, delta=fixed, tolerance=CERTIFIED_TOLERANCE).upper
    fraction = exact_epsilon(mechanism, rule, ball)
    if fraction is not None:
        cost = min(cost, at_least(fraction))
    if budget is not None and budget * (1.0 - 1e-6) <= cost <= budget:
        # The plan was calibrated to the budget and differs by rounding only, so certify the budget itself.
        return budget
    if budget is not None and not cost <= budget:  # [note: release-3]
        raise BudgetError(
            f"the release needs epsilon={cost!r}, but its budget is {budget!r}. Raise the noise, or calibrate the rule "
            "for this mechanism.",
            cost=cost,
        )
    return cost
