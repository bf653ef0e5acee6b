"""The sections of the report about the released centers: the verdict, the table and the pictures."""

from __future__ import annotations

from pais.planning import KMeansFit
from pais.report.heat import heat_map
from pais.report.pictures import centers_map, elbow_chart
from pais.report.projection import project
from pais.report.text import escaped, paragraph, section
from pais.report.view import SHARE, View

# With more released cells than this, the estimated costs take too long to compute for a page.
_MOST_CELLS = 90

# What the column "Noise" holds: if the values of a center have different standard errors, or all the same.
_NOISE = {
    False: "typical standard error of a center's values, over how much the centers differ. <b>\u00b1</b>: standard "
    "error of a value due to noise; sampling and clipping add further error.",
    True: "standard error of each value of the center due to noise; sampling and clipping add further error.",
}


def verdict(fit: KMeansFit) -> str:
    """Render the answer to the first question of a reader: how much of this can be read above the noise."""
    readable = fit.readability
    if readable is None:
        return ""
    share = min(sum(known) / len(known) for known in (readable.centers, readable.features))
    mood = "good" if share >= 0.75 else "mixed" if share >= 0.25 else "poor"
    caution = "" if fit.concern is None else paragraph(escaped(as_sentence(fit.concern)))
    return (
        f'<div class="verdict {mood}" role="note"><p class="answer">{escaped(as_sentence(readable.verdict))}.</p>'
        f"{caution}</div>"
    )


def centers(fit: KMeansFit, view: View) -> str:
    """Render the table of the centers in the columns' own units."""
    k, d = view.values.shape
    noise = "" if view.errors is None else f" <b>Noise</b>: {_NOISE[view.has_one_error]}"
    grey = (
        " A name in italics marks a feature in which no two centers differ by more than the noise."
        if not all(view.features)
        else ""
    )
    shares = " Shares of categories and of true are in percent." if SHARE in view.kinds else ""
    doubt = " <b>Not distinct</b>: no feature separates the center from every other by more than the noise."
    return section(
        "centers",
        "Centers",
        paragraph(
            f"{k} center{'s' * (k != 1)} of {d} feature{'s' * (d != 1)}, ordered by noisy count. The number of a "
            "center is its index in the model. Colours compare the centers within each feature. Values are in the "
            f"units of the columns.{shares}{grey}"
        ),
        heat_map(view, fit.value.noisy_counts),
        paragraph(
            "<b>Noisy count</b>: size of the cluster in the last round, with noise."
            + (doubt if "not distinct" in view.doubts else "")
            + noise,
            "soft",
        ),
    )


def pictures(fit: KMeansFit, view: View) -> str:
    """Render the map of the centers and the estimated cost by number of clusters."""
    value = fit.value
    charts = []
    if value.effective_centers > 1:
        projection = project(value.centers, value.noisy_counts, value.standard_errors)
        charts.append(centers_map(projection, value.noisy_counts, view))
    few = value.cells is not None and len(value.cells) <= _MOST_CELLS
    elbow = fit.elbow if few else None
    if elbow is not None and len(elbow) > 1:
        charts.append(elbow_chart(elbow, len(value.centers)))
    if not charts:
        return ""
    grey = "" if all(view.centers) else " Grey circles are not readable above the noise."
    return section(
        "pictures",
        "Pictures",
        f'<div class="charts">\n{"".join(charts)}\n</div>',
        paragraph(
            "The area of a circle grows with the noisy count. The dark ellipse about a center shows two standard "
            f"errors due to noise.{grey} Costs are estimated. All of this is computed from released values and costs "
            "no privacy.",
            "soft",
        ),
    )


def as_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
