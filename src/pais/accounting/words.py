"""Certificates in plain words, from their public content."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pais._base import files, validate
from pais._base.numerics import raised
from pais.data.checks import with_article
from pais.data.units import people_word
from pais.mechanisms.base import Mechanism

ONE_ROW = "one row added or removed"

#: Explains the words "Gaussian shift" where a plan, a survey or a certificate uses them.
SHIFT_IN_WORDS = "A Gaussian shift s means: one {unit} moves the result by at most s standard deviations of its noise."


def unit_of(neighbours: str) -> str:
    """Name the protected unit in a certificate's `neighbours`: "row" for "one row added or removed"."""
    return neighbours.removeprefix("one ").removesuffix(" added or removed")


def person_of(neighbours: str) -> str:
    """Return the noun for the protected unit: "row", or "patient" if the column of the unit is ``patient_id``."""
    return "row" if neighbours == ONE_ROW else people_word(unit_of(neighbours))[0]


def units_of(neighbours: str) -> str:
    """Return the plural noun for the protected units: "rows", or for example "patients"."""
    return "rows" if neighbours == ONE_ROW else people_word(unit_of(neighbours))[1]


def price_in_words(content: Mapping[str, Any]) -> str:
    """Epsilon and delta, rounded up."""
    return f"epsilon {raised(content['epsilon'])}, delta {raised(content['delta'], 3)}"


def price_of(content: Mapping[str, Any]) -> tuple[float, float]:
    """Read epsilon and delta of a file or of a part of it; raise unless both are non-negative numbers."""
    return validate.non_negative("epsilon", content["epsilon"]), validate.target_delta(content.get("delta", 0.0))


def certificate_text(content: Mapping[str, Any]) -> str:
    """Describe a certificate, given as its dictionary: the guarantee, its parts, the mechanism and the limits."""
    epsilon, delta = price_of(content)
    parts = [price_of(part) for part in content["parts"]]
    for total, prices in zip((epsilon, delta), zip(*parts, strict=True), strict=True):
        if not math.isclose(total, sum(prices), rel_tol=1e-9, abs_tol=1e-300):
            raise ValueError
    about = content["about"]
    lines = ["This is the certificate of a release.", *([f"The release is about: {about}."] if about else [])]
    if content["secure_randomness"] is not True:
        lines += [
            "",
            "NOT PRIVATE: a seed was given, so this was a rehearsal. The numbers below are not a guarantee.",
        ]
    neighbours = str(content["neighbours"])
    lines += ["", "Guarantee", *guarantee_lines(epsilon, delta, neighbours), *delta_lines(content)]
    kept, unit = float(content["epsilon_if_kept"]), person_of(neighbours)
    if not kept >= epsilon:
        raise ValueError
    lines.append(
        "  It does not depend on keeping the sample secret."
        if kept <= epsilon * (1.0 + 1e-6)
        else f"  The sample must stay secret: if it becomes known that {with_article(unit)} was kept, that {unit} has "
        f"epsilon {raised(kept)}."
    )
    lines += ["", "Parts"]
    lines += [f"  {part['what']}: {price_in_words(part)}" for part in content["parts"]]
    lines += joint_lines(content, neighbours)
    lines += ["", "How", *how_lines(content)]
    if content["schema"] is not None:
        lines += ["", "Columns", *(f"  {name}: {words}" for name, words in columns_in_words(content["schema"]))]
    limit = "one row. For a person with k rows, it is (k epsilon, k e^((k-1) epsilon) delta)"
    if neighbours != ONE_ROW:
        limit = f"one {unit}: all rows with the same {unit_of(neighbours)} together"
    lines += [
        "",
        "Limits",
        f"  The guarantee is for {limit}.",
        "  It does not cover steps that were fitted to the rows before this release, such as a scaler.",
        "  It does not cover other releases from the same rows: add their epsilons and deltas.",
        f"  Randomness: {content['note']}. Issued by pais {content['version']}.",
    ]
    return "\n".join(lines)


def guarantee_lines(epsilon: float, delta: float, neighbours: str) -> list[str]:
    """Explain (epsilon, delta) to a reader who does not know the terms."""
    unit = person_of(neighbours)
    lines = [
        f"  epsilon {raised(epsilon)}, delta {raised(delta, 3)}; neighbours: {neighbours}.",
        f"  Adding or removing one {unit} changes the probability of any outcome",
        f"  by a factor of at most e^epsilon = {raised(math.exp(min(epsilon, 700.0)), 4)}"
        + (f", plus at most delta = {raised(delta, 3)}." if delta > 0.0 else "."),
        f"  This holds for every {unit}, whatever its values.",
    ]
    # Posterior odds are at most e^epsilon times the prior odds; shown for even prior odds.
    guess = 1.0 / (1.0 + math.exp(-epsilon))
    sure = raised(100.0 * guess, 3)
    lines.append(
        f"  Someone who gave {with_article(unit)} a 50 % chance to be in the data is at most {sure} % sure of it "
        "afterwards."
    )
    if delta > 0.0:
        lines[-1] = lines[-1].removesuffix(".") + ", apart from delta."
    return lines


def delta_lines(content: Mapping[str, Any]) -> list[str]:
    """Explain how delta was chosen, if the user did not state it."""
    basis = str(content["delta_basis"])
    if not basis.startswith("default"):
        return []
    used = validate.target_delta(content["delta_used"])
    return [f"  The noise was calibrated for delta {raised(used, 3)}: the {basis}."]


def joint_lines(content: Mapping[str, Any], neighbours: str = ONE_ROW) -> list[str]:
    """Explain how a price divides between the survey and the release, if it includes a survey."""
    if not content["survey_shift"]:
        return []
    shift = validate.positive("survey_shift", content["survey_shift"])
    rounds = validate.target_delta(content["release_delta"])
    return [
        f"  Survey and release have one price. The survey has the Gaussian shift {raised(shift)}.",
        f"  {SHIFT_IN_WORDS.format(unit=person_of(neighbours))}",
        f"  The release alone meets the same epsilon at delta {raised(rounds, 3)}.",
    ]


def how_lines(content: Mapping[str, Any]) -> list[str]:
    """Describe how the rows were bounded, sampled and measured."""
    ball, rule, mechanism = content["ball"], content["rule"], content["mechanism"]
    origin = "the origin" if ball["center"] is None else "a center that was stated or surveyed"
    lines = [f"Rows are clipped to norm {ball['radius']:.6g} ({norm_in_words(ball['order'])}) about {origin}."]
    if "constant" in ball:
        lines.append(f"Every row has a constant coordinate of length {ball['constant']:.6g}, which counts in its norm.")
    return [f"  {line}" for line in (*lines, _rule_in_words(rule), *_mechanism_lines(mechanism))]


def _mechanism_lines(described: Mapping[str, Any]) -> list[str]:
    """What a mechanism says about itself, or its name if it says nothing or is not a class of this package."""
    own = Mechanism.from_dict(described).certificate_lines() if files.is_complete(described) else None
    if own is not None:
        return own
    rounds = described.get("rounds")
    steps = f" in {len(rounds)} rounds" if isinstance(rounds, list) else ""
    return [f"Then: {described['mechanism']}{steps}, with noise."]


def columns_in_words(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name of each column of a schema, given as its dictionary, and what is public about it."""
    return [(str(column["name"]), _column_in_words(column)) for column in schema["columns"]]


def _column_in_words(column: Mapping[str, Any]) -> str:
    kind = column["kind"]
    if kind == "categories":
        return f"categories {', '.join(map(str, column['values']))}"
    if kind == "ranges":
        ends = ["no limit" if end is None else f"{end:,.10g}" for end in column["ends"]]
        return f"ranges with the edges {', '.join(ends)}; values beyond are in none of them"
    if kind == "periods":
        return f"every {column['period']} from {column['first']} to {column['last']}; dates beyond are in none of them"
    if kind == "boolean":
        return "true or false"
    if kind in ("bounds", "dates"):
        ends = [
            f"{end:,.10g}" if isinstance(end, (int, float)) else str(end) for end in (column["low"], column["high"])
        ]
        return f"from {ends[0]} to {ends[1]}; values beyond are clipped"
    if kind == "auto" and column["scale"] is not None:
        return f"center {_amount(column['center'])} and scale {_amount(column['scale'])}, found privately"
    return "scale not known yet" if kind == "auto" else f"divided by {_amount(column['scale'])}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def norm_in_words(order: object) -> str:
    return f"l{order:g}" if isinstance(order, (int, float)) else f"l-{order}"


def _rule_in_words(rule: Mapping[str, Any]) -> str:
    kind = rule["rule"]
    if kind == "uniform" and rule.get("probability") == 1.0:
        return "All rows are used."
    if kind == "uniform":
        return f"Each row is kept with the same probability, {rule['probability']:.4g}."
    kinds = {
        "constrained": "that is as small as the limits on its loss allow",
        "coreset": "that grows with its squared norm",
    }
    return f"Each row is kept with a probability {kinds.get(kind, 'given by a public function of its norm')}."
