"""The sections of the report page, each built from public values of a fit."""

from __future__ import annotations

import math

import numpy as np

from pais.accounting.certificate import Certificate
from pais.accounting.words import ONE_ROW, columns_in_words, person_of, unit_of
from pais.data.checks import with_article
from pais.mechanisms import MomentSum
from pais.planning import Fit, Plan, Survey
from pais.planning.explain import assumption_lines
from pais.report.charts import stacked_bar, swatch
from pais.report.results import Results
from pais.report.text import TIMES, details, escaped, number, paragraph, percent, price, section, table

#: What comes after this heading is for readers who check the method.
APPENDIX = '<h2 class="appendix" id="appendix">Appendix: how the values were computed</h2>'


def banner(fit: Fit, results: Results) -> str:
    """Render a prominent warning if any random draw came from a seed."""
    if is_secure(fit):
        return ""
    return (
        '<div class="banner" role="alert"><strong>Seeded, not private</strong>'
        "<p>This run used a seed, and anyone who knows the seed can remove the noise. The numbers below describe the "
        f"same run without a seed. Do not publish the {results.noun}.</p></div>"
    )


def is_secure(fit: Fit) -> bool:
    return fit.certificate.secure_randomness and (fit.survey is None or fit.survey.secure_randomness)


def guarantee(fit: Fit, results: Results) -> str:
    """Explain (epsilon, delta): the factor on the odds, and the success of the best guess from even odds."""
    certificate = fit.certificate
    epsilon, delta, unit = certificate.epsilon, certificate.delta, person_of(certificate.neighbours)
    factor = price(math.exp(epsilon), 3) if epsilon < 700.0 else f"e^{price(epsilon)}"
    guess = best_guess(epsilon, delta)
    apart = ", apart from delta" if delta > 0.0 else ""
    facts = [
        (f"epsilon, the largest privacy loss of any possible {unit}", price(epsilon)),
        (
            "delta, the additive part of the guarantee" if delta > 0.0 else "delta: there is no additive part",
            price(delta),
        ),
        (f"largest change in the odds that {with_article(unit)} is in the data{apart}", f"{TIMES} {factor}"),
        (f"largest success rate of guessing whether {with_article(unit)} is in the data, from even odds", guess),
    ]
    boxes = "".join(f"<div><dt>{escaped(label)}</dt><dd>{escaped(value)}</dd></div>" for label, value in facts)
    extra = "" if delta == 0.0 else f", plus {price(delta)}"
    verb = "changes" if is_secure(fit) else "would change"
    return section(
        "guarantee",
        "The guarantee",
        paragraph(
            f"Adding or removing <strong>any one {escaped(unit)}</strong> {verb} the probability of any outcome by at "
            f"most a factor of e<sup>epsilon</sup> = <strong>{factor}</strong>{extra}. This covers everything on this "
            "page together, whatever else a reader knows or computes."
        ),
        f'<dl class="facts">{boxes}</dl>',
        paragraph(kept_sentence(certificate)),
        paragraph(
            f"Neighbours: {escaped(certificate.neighbours)}. Randomness: {escaped(certificate.note)}. The "
            f"{results.noun} show what many rows have in common. The guarantee bounds what they reveal about one "
            f"{escaped(unit)}.",
            "soft",
        ),
    )


def kept_sentence(certificate: Certificate) -> str:
    """Say how much of the guarantee depends on a secret sample."""
    if certificate.epsilon_if_kept <= certificate.epsilon * (1.0 + 1e-6):
        return "The guarantee does not depend on a secret sample."
    unit = escaped(person_of(certificate.neighbours))
    return (
        f"The guarantee depends on the sample staying secret. If it becomes known that {with_article(unit)} is in the "
        f"sample, that {unit} has epsilon <strong>{price(certificate.epsilon_if_kept)}</strong>."
    )


def best_guess(epsilon: float, delta: float) -> str:
    """Success of the best test between two equally likely neighbours, rounded up.

    It is (e^epsilon + delta)/(e^epsilon + 1).
    """
    success = (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))
    return f"{min(math.ceil(1000.0 * success - 1e-9) / 10.0, 100.0):.1f}%"


def budget(certificate: Certificate) -> str:
    """Render the price of each release on these rows, as a bar and a table."""
    parts = [(part.what, part.epsilon, part.delta) for part in certificate.parts]
    several = len(parts) > 1
    bar = stacked_bar(
        "budget-bar",
        f"epsilon {price(certificate.epsilon)} by release",
        [(f"{what}: epsilon {price(epsilon)}", epsilon) for what, epsilon, _ in parts],
        math.fsum(epsilon for _, epsilon, _ in parts),
    )
    rows = [
        (
            swatch(position) * several + escaped(what),
            price(epsilon),
            price(delta),
            percent(epsilon / certificate.epsilon),
        )
        for position, (what, epsilon, delta) in enumerate(parts)
    ]
    return section(
        "budget",
        "Budget spent",
        paragraph("The guarantee is the sum of the prices of all releases on these rows."),
        bar if several else "",
        table(
            "Parts of the certificate",
            ("Release", "epsilon", "delta", "share of epsilon"),
            rows,
            foot=("Total", price(certificate.epsilon), price(certificate.delta), ""),
        ),
    )


def _has_surveyed_radius(plan: Plan, survey: Survey) -> bool:
    """Whether the plan took its radius from the survey, which only offers the edges of its bins."""
    # Surveyed norms do not include the constant coordinate, if there is one.
    radius = math.sqrt(plan.ball.radius**2 - plan.ball.constant**2)
    return plan.ball.center == survey.ball.center and bool(np.isclose(survey.norms.norms, radius, rtol=1e-12).any())


def limits(fit: Fit, results: Results) -> str:
    """Render the assumptions of the guarantee, and how to read the page."""
    plan = fit.plan
    if not results.by_norm:
        facts = "Stated bounds and categories must not come from these rows."
    elif fit.survey is None:
        facts = "Center, radius and norms were stated. They must not come from these rows."
    else:
        surveyed = "radius and norms" if _has_surveyed_radius(plan, fit.survey) else "norms"
        facts = (
            f"A survey released the {surveyed} with noise, and the budget includes its price. A stated center or "
            "radius must not come from these rows."
        )
    lines = [
        f"<strong>Public facts.</strong> {facts}",
        _per_unit(fit.certificate.neighbours),
        "<strong>Preprocessing.</strong> The guarantee does not cover anything fitted to the rows before, such as a "
        "scaler.",
        "<strong>Other releases add up.</strong> Add the epsilons and deltas of all certificates on the same rows, "
        "or use a ledger.",
        *(f"<strong>{escaped(words)}</strong> {escaped(text)}" for words, text in results.cautions),
        "<strong>Running time and memory</strong> depend on the rows and are not covered.",
    ]
    # Lines with a condition are not indented and become headings; lines about the condition are indented.
    checked = "".join(
        f"<li>{escaped(line)}</li>" if line.startswith(" ") else f"</ul><p>{escaped(line)}</p><ul>"
        for line in assumption_lines(plan)
        if line
    )
    return section(
        "limits",
        "Assumptions and limits",
        "<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>",
        paragraph(
            "LIMITS.md, in the documentation of pais, has the full list and says what to do about each limit.", "soft"
        ),
        details("Assumptions on the loss, and what is known about each", checked.removeprefix("</ul>") + "</ul>"),
    )


def _per_unit(neighbours: str) -> str:
    if neighbours == ONE_ROW:
        return (
            "<strong>Per row.</strong> A person with k rows has at most k times epsilon, and k &middot; "
            "e<sup>(k&minus;1) epsilon</sup> times delta. State the column that names the person as unit to protect "
            "people."
        )
    one, column = person_of(neighbours), escaped(unit_of(neighbours))
    return (
        f"<strong>Per {one}.</strong> The guarantee protects each {one} with all rows that have the same {column}, and "
        f"assumes that no {one} has several values of {column}."
    )


def columns(fit: Fit, results: Results) -> str:
    """Render what is public about the columns, if a schema was stated."""
    if fit.schema is None:
        return ""
    rows = [(escaped(name), escaped(words)) for name, words in columns_in_words(fit.schema.to_dict())]
    return section(
        "columns",
        "Columns",
        paragraph(
            "Facts about the columns that were stated as public, or found privately and paid for. Rows are scaled with "
            f"them, {results.units.format(noun=results.noun)}"
        ),
        table("Public facts about the columns", ("Column", "Fact"), rows, n_text=2),
    )


def plan_in_words(plan: Plan, results: Results) -> str:
    """Render what is computed with which noise, and the stages of the plan."""
    mechanism, words = plan.mechanism, ""
    if isinstance(mechanism, MomentSum):
        words = f", with Gaussian noise of standard deviation {number(mechanism.noise.scale)} on its diagonal"
    return section(
        "noise",
        "Plan",
        paragraph(
            f"The release is: <strong>{escaped(mechanism.name)}</strong>{words}. Everything in the plan was "
            "decided before the rows were sampled, and all of it is public."
        ),
        paragraph(escaped(results.noise_in_words)) if results.noise_in_words else "",
        details("Plan in words", f"<pre>{escaped(plan.explain())}</pre>"),
    )


def certificate_json(certificate: Certificate) -> str:
    return section(
        "certificate",
        "Certificate",
        paragraph("The settings of this run and its guarantee, in a form for programs. It holds public values only."),
        details("Certificate as JSON", f"<pre>{escaped(certificate.to_json())}</pre>"),
    )
