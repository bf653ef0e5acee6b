"""Plans and surveys in plain words. Everything here is public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from pais._base import validate
from pais._base.cards import Card
from pais._base.numerics import FloatArray, raised
from pais.accounting.certificate import (
    SHIFT_IN_WORDS,
    guarantee_lines,
    norm_in_words,
    person_of,
    price_in_words,
    units_of,
)
from pais.accounting.composition import record_loss
from pais.accounting.part import sum_up
from pais.data.cells import listed, with_article
from pais.mechanisms.base import Mechanism
from pais.privacy.amplification import epsilon_at_delta
from pais.privacy.guarantee import PURE_NOISE, STATED
from pais.privacy.profiles import Finding, Verdict

if TYPE_CHECKING:
    from pais.accounting.part import Part
    from pais.data.units import Unit
    from pais.planning.plan import Plan

_INDENT = " " * 14


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


def named_unit(unit: Unit | None) -> str:
    """Name the protected units in an error."""
    return "single rows" if unit is None else f"{unit.column!r} with max_rows_per_unit={unit.max_rows}"


def explain(plan: Plan) -> str:
    """Describe the numbered stages of a plan and the loss of a record by its norm. Public values only."""
    lines = [f"0. earlier    {part.what}: {_part_in_words(part)} (already released)" for part in plan.spent]
    if plan.survey_shift > 0.0:
        lines.append(_INDENT + SHIFT_IN_WORDS.format(unit=person_of(plan.neighbours)))
    lines += [
        *_rows_lines(plan),
        f"3. rule       public      {_in_words(plan.rule.to_dict())}",
        *_sample_lines(plan),
        *_noise_lines(plan.mechanism),
        *_price_lines(plan),
    ]
    if plan.quality is not None:
        lines.append(f"7. quality    public      predicted: {plan.quality}")
    lines += [
        "",
        "   norm / radius   kept with probability   epsilon of such a record   epsilon if it is known to be kept",
    ]
    share = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    norm = share * plan.ball.radius
    columns = share, plan.rule.probability(norm), record_losses(plan, norm), losses_if_kept(plan, norm)
    for part, kept, loss, if_kept in zip(*columns, strict=True):
        lines.append(f"   {part:13.2f}   {kept:21.5g}   {raised(loss):>24}   {raised(if_kept):>33}")
    return "\n".join([*lines, "", *assumption_lines(plan)])


def _part_in_words(part: Part) -> str:
    if part.shift > 0.0:
        names = f" and delta {raised(part.delta)} for names" if part.delta else ""
        return f"Gaussian shift {raised(part.shift)}{names}, in the price of step 6"
    return price_in_words(part.to_dict())


def _rows_lines(plan: Plan) -> list[str]:
    """How rows are read and clipped, and how the radius was chosen if the plan chose it."""
    unit, ball, choice = plan.unit, plan.ball, plan.radius_choice
    rows = "read once by this release"
    if unit is not None:
        limit = "a row" if unit.full_rows == 1 else f"{unit.full_rows} rows"
        person = person_of(plan.neighbours)
        rows = f"all rows with the same {unit.column} are one {person}, who counts as {limit} at most"
    origin = "a stated or surveyed center" if plan.spent else "a stated center"
    origin = "the origin" if ball.center is None else origin
    constant = f", with a constant coordinate of {ball.constant:.6g}" if ball.constant > 0.0 else ""
    lines = [
        f"1. rows       secret      {rows}",
        f"2. ball       secret      clipped to norm {ball.radius:.6g} (l{ball.order:g}) about {origin}{constant}",
    ]
    if choice is None or plan.norms is None:
        return lines
    chosen = f"{_INDENT}radius chosen from surveyed norms up to {choice.largest:.6g}: least predicted"
    if plan.quality is not None:
        # The quality below counts the rounds of the plan. The choice of the radius came before them and was rougher.
        parts = f"{_INDENT}noise and clipped rows together; step 7 has both parts"
        return [*lines, f"{chosen} error from", parts]
    excess = choice.excess
    noise, clipping = (part / excess if excess > 0.0 else 0.0 for part in (choice.noise, choice.clipping))
    return [
        *lines,
        f"{chosen} excess error,",
        f"{_INDENT}{excess:.4g} per row ({excess / plan.norms.mean_square_norm:.2%} of the mean square norm), of "
        f"which noise {choice.noise:.4g} ({noise:.0%}) and clipping {choice.clipping:.4g} ({clipping:.0%})",
    ]


def _sample_lines(plan: Plan) -> list[str]:
    """Say which records the sample keeps, and how the plan chose its size."""
    kept = "each row kept with its probability, weight 1/probability"
    if plan.unit is not None:
        kept = f"each {person_of(plan.neighbours)} kept as a whole with its probability, weight mass/probability"
    if plan.norms is not None:
        kept += f", about {plan.norms.expected_size(plan.rule):,.0f} {units_of(plan.neighbours)} expected"
    lines, choice = [f"4. sample     secret      {kept}"], plan.sample_choice
    if choice is not None:
        lines += [
            f"{_INDENT}size: {choice}.",
            f"{_INDENT}predicted excess error; the part of clipping is the same for all sizes:",
            *(f"{_INDENT}{line}" for line in choice.lines()),
        ]
    return lines


def _price_lines(plan: Plan) -> list[str]:
    """The guarantee: how delta was chosen, what a survey adds, and how much depends on a secret sample."""
    lines = [
        f"6. release    may leave   epsilon {raised(plan.epsilon)}, delta {raised(plan.price.delta, 3)} for adding or "
        f"removing one {person_of(plan.neighbours)}"
    ]
    if plan.delta_basis not in (STATED, PURE_NOISE):
        lines.append(f"{_INDENT}noise calibrated for delta {raised(plan.delta, 3)}: the {plan.delta_basis}")
    if plan.survey_shift != 0.0:
        lines.append(
            f"{_INDENT}this includes the survey: the mechanism alone meets delta {raised(plan.release_delta, 3)} at "
            "the same epsilon"
        )
    if plan.epsilon_if_kept <= plan.epsilon * (1.0 + 1e-6):
        lines.append(f"{_INDENT}if the sample becomes known: the same, since sampling adds no protection here")
    else:
        lines.append(
            f"{_INDENT}if it becomes known that a record was kept, it pays up to epsilon "
            f"{raised(plan.epsilon_if_kept)}: keep the sample secret"
        )
    earlier = [part.epsilon for part in plan.spent if part.shift == 0.0]
    if earlier:
        total, kept = sum_up([*earlier, plan.epsilon]), sum_up([*earlier, plan.epsilon_if_kept])
        lines.append(f"{_INDENT}together with the earlier releases: epsilon {raised(total)}, if kept {raised(kept)}")
    return lines


# Keys of a description that other lines show, or that a reader does not need.
_SKIPPED = {
    "class",
    "largest_weight",
    "mean_square_norm",
    "mean_weight",
    "mechanism",
    "n_features",
    "n_knots",
    "n_rows",
    "probabilities_sha256",
    "profile",
    "radius",
    "rounds",
    "trust",
}


def _in_words(described: dict[str, Any]) -> str:
    """Format a public description on one line."""
    phrases = [str(described["mechanism"])] if "mechanism" in described else []
    for key, value in described.items():
        name = key.replace("_", " ")
        if key in _SKIPPED or value is None or value == "infinity":
            continue
        if isinstance(value, dict):
            phrases.append(f"{name} {value.get('law', '')} {value.get('scale', 0.0):.6g}")
        else:
            phrases.append(f"{name} {value:.6g}" if isinstance(value, float) else f"{key} {value}")
    return ", ".join(phrases)


def _noise_lines(mechanism: Mechanism) -> list[str]:
    """The step of the mechanism: what it says about itself, or what its description holds."""
    own = mechanism.lines()
    if own is not None:
        return [f"5. mechanism  protected   {mechanism.in_words()}", *(f"{_INDENT}{line}" for line in own)]
    described = mechanism.to_dict()
    rounds = described.get("rounds", ())
    ends = " to ".join(dict.fromkeys(f"{noise['scale']:.6g}" for noise in (*rounds[:1], *rounds[-1:])))
    words = [f"{_INDENT}{len(rounds)} rounds, {law_in_words(rounds[0])} noise {ends}"] if rounds else []
    return [f"5. mechanism  protected   {_in_words(described)}", *words]


def law_in_words(noise: dict[str, Any]) -> str:
    """The name of a noise law, from its description."""
    return f"l{noise['p']:g}" if noise["law"] == "lp" else str(noise["law"])


# Consequence for the user if a condition of the paper does not hold.
_IF_NOT = {
    "feasible": "the sampling lowers the loss to the target",
    "unbounded": "a record with loss 0 can have an arbitrarily small probability",
    "strongly_convex": "weights are found by a search and then checked",
    "sampling_can_lower": "keeping fewer rows saves time but does not lower epsilon",
}


def assumption_lines(plan: Plan) -> list[str]:
    """List the assumption of the guarantee, then the paper's conditions that only concern how rows can be kept."""
    assumptions = plan.mechanism.profile.check(radius=plan.ball.radius, epsilon=plan.epsilon, delta=plan.release_delta)
    lines = ["assumes", f"   {assumptions.monotone}", ""]
    lines.append('further conditions of the paper, not needed for the guarantee ("no" is not an error)')
    for field in fields(assumptions):
        finding: Finding = getattr(assumptions, field.name)
        if finding is assumptions.monotone:
            continue
        answer = {Verdict.PROVED: "yes", Verdict.REFUTED: "no"}.get(finding.verdict, finding.verdict.value)
        consequence = _IF_NOT.get(field.name) if finding.verdict is Verdict.REFUTED else None
        lines.append(
            f"   {finding.statement}: {answer} ({finding.reason}){'' if consequence is None else f'; {consequence}'}"
        )
    return lines


def plan_card(plan: Plan) -> Card:
    """The plan in a few lines, for terminals and notebooks."""
    guarantee = f"epsilon {raised(plan.epsilon)}, delta {raised(plan.price.delta, 3)} for {plan.neighbours}"
    facts = [
        ("guarantee", guarantee),
        *((f"earlier: {part.what}", _part_in_words(part)) for part in plan.spent),
        ("mechanism", plan.mechanism.in_words()),
        ("radius", f"{plan.ball.radius:.4g} ({norm_in_words(plan.ball.order)} norm)"),
    ]
    if plan.norms is not None and plan.expected_rows is not None:
        expected, n_rows, units = plan.expected_rows, plan.norms.n_rows, units_of(plan.neighbours)
        facts.append(("sample", f"about {expected:,.0f} of {n_rows:,.0f} {units} ({expected / n_rows:.1%})"))
    if plan.sample_choice is not None:
        facts.append(("sample size", str(plan.sample_choice)))
    if plan.epsilon_if_kept > plan.epsilon * (1.0 + 1e-6):
        facts.append(
            (
                "if the sample leaks",
                f"epsilon {raised(plan.epsilon_if_kept)} for {with_article(person_of(plan.neighbours))} in it",
            )
        )
    if plan.quality is not None:
        facts.append(("predicted", str(plan.quality)))
    if plan.columns is not None:
        facts.append(("columns", listed(plan.columns)))
    return Card(kind="Plan", summary=f"{plan.mechanism.name}, {guarantee}", facts=tuple(facts))


def survey_text(content: Mapping[str, Any]) -> str:
    """Describe a survey, given as its dictionary: its price, and the facts that it released."""
    ball, neighbours = content["ball"], str(content["neighbours"])
    if content["shift"]:
        guarantee = [
            f"  Gaussian shift {raised(validate.positive('shift', content['shift']))}. "
            "The fit that ran this survey paid for it together with its release.",
            f"  {SHIFT_IN_WORDS.format(unit=person_of(neighbours))}",
            "  Every plan made from it counts the shift in its own price.",
        ]
    else:
        guarantee = guarantee_lines(float(content["epsilon"]), 0.0, neighbours)
    lines = ["This is a survey: noisy facts about the norms of the rows, released and paid for."]
    if content["secure_randomness"] is not True:
        lines += ["", "NOT PRIVATE: a seed was given, so this was a rehearsal."]
    lines += ["", "Guarantee", *guarantee, "", "Facts"]
    lines += [
        f"  About {content['noisy_rows']:,.0f} {units_of(neighbours)}, of mean square norm "
        f"{content['noisy_mean_square_norm']:.6g}.",
        f"  Nearly all lie within norm {ball['radius']:.6g} ({norm_in_words(ball['order'])}); rows beyond are clipped.",
        *([] if content["above_noise"] is True else ["  Nothing was above the noise, so these are assumptions."]),
        "",
        "It counts in every later release from the same rows: pass it as --survey.",
    ]
    return "\n".join(lines)
