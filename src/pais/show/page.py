"""Assemble the report page and write it in one step."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from pais._base import validate
from pais._base.cards import TIMES, number
from pais._base.numerics import FloatArray
from pais.accounting.certificate import Certificate
from pais.accounting.words import ONE_ROW, columns_in_words, person_of, unit_of, units_of
from pais.data.checks import with_article
from pais.errors import ArgumentError
from pais.planning.explain import assumption_lines, record_losses
from pais.planning.facts import Survey
from pais.planning.fit import Fit
from pais.planning.plan import Plan
from pais.show.charts import LineChart, stacked_bar, swatch
from pais.show.results import Plain, Results, columns_box, verdict_box
from pais.show.style import style_sheet
from pais.show.text import details, escaped, paragraph, percent, price, section, table, whole


@dataclass(frozen=True, kw_only=True)
class ReportHeader:
    """What the head of a report says. The user states all of it; empty texts are left out.

    Attributes
    ----------
    title : str, optional
        Heading of the page; None = one that names the kind of result.
    data_name : str
        Name of the data.
    owner : str
        Who is responsible for the data or for this report.
    date : str
        Date of the report.
    """

    title: str | None = None
    data_name: str = ""
    owner: str = ""
    date: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "title" or self.title is not None:
                validate.instance(field.name, getattr(self, field.name), str, "Pass text.")


def today() -> str:
    """Return the date of this day, in the time zone of this computer."""
    return datetime.now(timezone.utc).astimezone().date().isoformat()


def protected(neighbours: str) -> str:
    """Name the protected record: "each row", or for example "each patient (patient_id), with all rows"."""
    if neighbours == ONE_ROW:
        return "each row"
    return f"each {person_of(neighbours)} ({unit_of(neighbours)}), with all rows"


def page_header(stated: ReportHeader, certificate: Certificate, subtitle: str) -> str:
    """Render the head of the page: the title, what the user stated, who is protected, and the ledger's entry."""
    entries = certificate.ledger_entries
    facts = [
        ("Data", escaped(stated.data_name)),
        ("Date", escaped(stated.date)),
        ("Owner", escaped(stated.owner)),
        ("Protected", escaped(protected(certificate.neighbours))),
        (
            "Ledger entry" if len(entries) < 2 else "Ledger entries",
            ", ".join(f"<code>{escaped(entry)}</code>" for entry in entries) or "none: no ledger was charged",
        ),
    ]
    lines = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in facts if value)
    return (
        f'<header>\n<h1>{escaped(stated.title)}</h1>\n<p class="soft">{subtitle}</p>\n'
        f'<dl class="stated">{lines}</dl>\n</header>'
    )


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
    mechanism = plan.mechanism
    words = mechanism.noise_in_words()
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


_CURVE_POINTS = 201

# If a survey counts less than this share of the rows that the clusters contain, it has missed the data.
_FOUND_SHARE = 0.5

# From this expected share on, the page says that all rows are used.
_ALL_ROWS = 0.9995

# A curve that changes by less than this share of its largest value is said in words and not drawn.
_FLAT = 1e-3


def curves(fit: Fit) -> str:
    """Plot the sampling probability and the loss of a record by norm: properties of the plan, not of the rows."""
    plan = fit.plan
    # A constant coordinate counts in the norm of every row.
    share = np.linspace(plan.ball.constant / plan.ball.radius, 1.0, _CURVE_POINTS)
    kept, losses = plan.rule.probability(share * plan.ball.radius), record_losses(plan, share * plan.ball.radius)
    index = range(0, _CURVE_POINTS, _CURVE_POINTS // 4)
    rows = [(f"{share[i]:.2f}", number(kept[i]), number(1.0 / kept[i]), price(losses[i])) for i in index]
    earlier = sum(part.epsilon for part in plan.spent)
    added = f" The earlier releases add {price(earlier)} to every record." if earlier > 0.0 else ""
    reading = (
        "Survey and release have one price together, and it holds at all norms."
        if plan.survey_shift > 0.0
        else "The sampling probabilities are as small as the guarantee allows, so the loss is the same at all norms."
        if losses.min() > 0.999 * plan.epsilon
        else "Where the curve is below the dashed line, a record has a smaller loss than the certificate states."
    )
    return section(
        "norms",
        "Sampling probability and loss by norm",
        paragraph(
            f"Norms are distances from the center in the l{plan.ball.order:g} norm; rows beyond the radius "
            f"{number(plan.ball.radius)} are scaled back to it. Rows near the center are sampled less often "
            "and have the weight 1 / probability."
            if kept[0] < kept[-1]
            else f"Rows beyond the radius {number(plan.ball.radius)} (l{plan.ball.order:g} norm) are scaled back to it."
        ),
        ""
        if plan.ball.constant == 0.0
        else paragraph(
            f"Every row has a constant coordinate of length {number(plan.ball.constant)}, which counts in its norm. It "
            "stands for the number of rows and for their mean."
        ),
        _flat_in_words(kept, losses),
        _charts(share, kept, losses, plan.epsilon),
        paragraph(reading + added, "soft"),
        ""
        if _is_flat(kept) and _is_flat(losses)
        else details(
            "Values by norm",
            table("By norm", ("norm / radius", "probability", "weight", "epsilon"), rows),
        ),
    )


def _is_flat(curve: FloatArray) -> bool:
    """Whether a chart of the curve would show a horizontal line."""
    return bool(np.isfinite(curve).all() and np.ptp(curve) <= _FLAT * curve.max())


def _flat_in_words(kept: FloatArray, losses: FloatArray) -> str:
    """Say what a chart would show as a horizontal line."""
    sentences = []
    if _is_flat(kept):
        share = float(kept.min())
        sentences.append(
            "All rows are kept, whatever their norm."
            if share >= _ALL_ROWS
            else f"Every row is kept with probability {number(share)}, whatever its norm."
        )
    if _is_flat(losses):
        sentences.append(f"The loss is epsilon {price(float(losses.max()))} at every norm.")
    return paragraph(" ".join(sentences)) if sentences else ""


def _charts(share: FloatArray, kept: FloatArray, losses: FloatArray, epsilon: float) -> str:
    """Draw the curves that are not horizontal lines."""
    probability = LineChart(
        name="kept",
        title="Sampling probability",
        description=f"From {number(kept[0])} at the smallest norm to {number(kept[-1])} at the radius.",
        x=share,
        y=kept,
    )
    loss = LineChart(
        name="loss",
        title="Loss of a record (epsilon)",
        description=f"From {price(losses[0])} at the smallest norm to {price(losses[-1])} at the radius, "
        f"never above {price(epsilon)}.",
        x=share,
        y=losses,
        limit=epsilon,
        limit_label=f"certified: {price(epsilon)}",
    )
    charts = [chart.svg() for chart in (probability, loss) if not _is_flat(chart.y)]
    return f'<div class="charts">\n{"".join(charts)}\n</div>' if charts else ""


def sampling(fit: Fit, results: Results) -> str:
    """Render the expected sample size and the noisy or stated number of rows."""
    norms = fit.plan.norms
    if norms is None:
        return ""
    n_rows, kept = norms.n_rows, norms.expected_size(fit.plan.rule)
    rounds = getattr(fit.plan.mechanism, "rounds", None)
    each = "The release" if rounds is None else f"Each of the {len(rounds)} rounds"
    source = "noisy, from the survey" if fit.survey is not None else "as stated"
    share, units = 1.0 if kept >= _ALL_ROWS * n_rows else kept / n_rows, escaped(units_of(fit.certificate.neighbours))
    text = (
        f"{each} uses about <strong>{whole(kept)}</strong> {units} instead of {whole(n_rows)}: "
        f"the sample leaves out {percent(1.0 - share)}."
        if share < 1.0
        else f"{each} uses all {units}, about {whole(n_rows)} ({source}): this plan does not sample."
    )
    return section(
        "sampling",
        "Sample size",
        paragraph(text),
        _kept_bar(kept, n_rows, units, source) if share < 1.0 else "",
        _survey_note(fit, results, n_rows if fit.plan.unit is None else n_rows * fit.plan.unit.full_rows),
    )


def _kept_bar(kept: float, n_rows: float, units: str, source: str) -> str:
    """Draw the expected share of the rows that are kept."""
    share = kept / n_rows
    bar = stacked_bar("sampling-bar", "Rows kept", [(f"about {whole(kept)} of {whole(n_rows)} {units}", share)], 1.0)
    key = (
        f'<ul class="key"><li>{swatch(0)}kept: about {whole(kept)} ({percent(share)})</li>'
        f'<li><span class="swatch rest" aria-hidden="true"></span>all {units}: about {whole(n_rows)} '
        f"({source})</li></ul>"
    )
    note = paragraph("Both numbers are expectations. The actual sample size is secret.", "soft")
    return f"{bar}\n{key}\n{note}"


def _survey_note(fit: Fit, results: Results, n_rows: float) -> str:
    """Say how reliable the survey's number of rows is."""
    if fit.survey is None:
        return ""
    counted = results.noisy_count
    also = "" if counted is None else f" {results.count_in_words} {whole(counted)}."
    note = paragraph(f"The survey counts only norms above its noise, so it may miss rows.{also}", "soft")
    if counted is None or n_rows >= _FOUND_SHARE * counted:
        return note
    return note + paragraph(
        "The survey found few of the rows above its noise, so radius, center and sample may be inaccurate. The "
        "guarantee still holds. Pass radius and norms, a larger epsilon, or more rows.",
        "warning",
    )


def report_html(fit: Fit, *, feature_names: Sequence[str] | None = None, header: ReportHeader | None = None) -> str:
    """Render a fit as one self-contained HTML page: no network, no script, no other file.

    Parameters
    ----------
    fit : Fit
        The result of `fit`, or of any other fit. If its value is a `Results`, such as `Coefficients`, the
        page shows that.
    feature_names : sequence of str, optional
        Names of the columns of k-means, public; default "feature 0", "feature 1", ... With a schema, its labels are
        used.
    header : ReportHeader, optional
        Title, name of the data, owner and date, as the user states them.

    Notes
    -----
    Guarantee. The page is a function of the fit, which contains released and public values only. The page forbids the
    browser to load anything: `tests/unit/show/test_report.py`.
    """
    validate.instance("fit", fit, Fit, "Get one from pais.fit, or from fit_ of an estimator.")
    results = _results(fit, feature_names)
    stated = ReportHeader() if header is None else header
    validate.instance("header", stated, ReportHeader, "Pass ReportHeader(title=..., data_name=..., owner=...).")
    title = stated.title if stated.title is not None else results.title
    body = [
        banner(fit, results),
        verdict_box(results),
        columns_box(fit.survey),
        *results.sections(),
        guarantee(fit, results),
        columns(fit, results),
        budget(fit.certificate),
        limits(fit, results),
        APPENDIX,
        results.quality(),
        sampling(fit, results),
        results.noise() or plan_in_words(fit.plan, results),
        curves(fit) if results.by_norm else "",
        certificate_json(fit.certificate),
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="generator" content="pais">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title>
<style>
{style_sheet()}
</style>
</head>
<body>
{page_header(replace(stated, title=title), fit.certificate, _subtitle(fit, results))}
<main>
{chr(10).join(part for part in body if part)}
</main>
<footer>pais {escaped(fit.certificate.version)}. This page shows public values only: released results, and facts \
that were stated as public.</footer>
</body>
</html>
"""


def write_report(
    path: str | os.PathLike[str],
    fit: Fit,
    *,
    feature_names: Sequence[str] | None = None,
    header: ReportHeader | None = None,
) -> Path:
    """Write `report_html` to a file atomically: an existing file stays until the new one is complete."""
    target = Path(path)
    page = report_html(fit, feature_names=feature_names, header=header).encode("utf-8", "xmlcharrefreplace")
    if not target.parent.is_dir() or target.is_dir():
        raise ArgumentError(f"{target} cannot be written. Pass the path of a file in a directory that exists.")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        # Temporary files are readable by their owner only; a report gets the permissions of any new file.
        part.chmod(0o666 & ~_umask())
        os.replace(part, target)  # noqa: PTH105  # os.replace is documented as atomic
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return target


def _umask() -> int:
    """Return the permission mask of new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _results(fit: Fit, feature_names: Sequence[str] | None) -> Results:
    """The part of the page that depends on the kind of value."""
    if isinstance(fit.value, Results):
        return fit.value
    return fit.results(feature_names) or Plain(fit.value)


def _subtitle(fit: Fit, results: Results) -> str:
    certificate, norms = fit.certificate, fit.plan.norms
    seen = fit.survey is None or fit.survey.above_noise
    rows = ""
    if norms is not None and seen:
        # The last digits of a noisy number are noise.
        n_rows = norms.n_rows if fit.survey is None else float(f"{norms.n_rows:.1e}")
        rows = f" {results.of_rows} about {whole(n_rows)} {escaped(units_of(certificate.neighbours))}"
    cost = f"at epsilon {price(certificate.epsilon)}, delta {price(certificate.delta)}"
    return f"{escaped(results.in_words())}{rows}, {cost}"
