"""The sections of the report about the sample: probability and loss by norm, and the sample size."""

from __future__ import annotations

import numpy as np

from pais._base.numerics import FloatArray
from pais.accounting.words import units_of
from pais.planning import Fit, record_losses
from pais.report.charts import LineChart, stacked_bar, swatch
from pais.report.results import Results
from pais.report.text import details, escaped, number, paragraph, percent, price, section, table, whole

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
