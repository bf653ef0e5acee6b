"""The sections of the report about the released centers: the verdict, the table and the pictures."""

from __future__ import annotations

from pais.data.kinds import Categories
from pais.planning import Fit
from pais.report.heat import heat_map, noise_cells
from pais.report.pictures import centers_map, elbow_chart
from pais.report.projection import project
from pais.report.quality import quality
from pais.report.results import Results
from pais.report.rounds import noise
from pais.report.text import paragraph, section
from pais.report.view import NOT_DISTINCT, SHARE, WITHIN_NOISE, View

# With more released cells than this, the estimated costs take too long to compute for a page.
_MOST_CELLS = 90

# What the column "Noise" holds: if the values of a center have different standard errors, or all the same.
_NOISE = {
    False: "typical standard error of a center's values, over how much the centers differ.",
    True: "standard error of each value of the center due to noise; sampling and clipping add further error.",
}
_AROUND = " <b>\u00b1</b>: standard error of a value due to noise; sampling and clipping add further error."

_READABLE = (
    "A segment is readable if its size is above the noise that was added for privacy, and it differs from every other "
    "segment by more than the noise. A feature is readable if at least two segments differ in it by more than the "
    "noise."
)
_ORDER = (
    "The largest noisy count comes first; a center keeps its number in the model, so the numbers can be out of order. "
    "Colours compare each value with the mean of the centers, weighted by noisy count. A grey value does not set its "
    "center apart."
)
_ONE_READABLE = "The segment is readable if its size is above the noise that was added for privacy."


class Segments(Results):
    """The centers of k-means as a reader sees them."""

    title = "Private k-means"
    noun = "centers"
    of_rows = "of"
    cautions = (
        (
            "Labels are not protected.",
            "The cluster labels of training rows, and errors measured on training rows, are not part of this release.",
        ),
        ("Small clusters.", "A count no larger than its noise is not evidence of a cluster."),
    )

    count_in_words = "The noisy counts of the clusters add up to"

    def __init__(self, fit: Fit, view: View) -> None:
        self._fit, self._view = fit, view

    def in_words(self) -> str:
        k, d = self._fit.value.centers.shape
        return f"{k} centers in {d} features"

    @property
    def verdict(self) -> str | None:
        readable = self._fit.readability
        return None if readable is None else readable.verdict

    @property
    def meaning(self) -> str:
        return _READABLE if len(self._view.centers) > 1 else _ONE_READABLE

    @property
    def readable(self) -> float:
        return min(sum(known) / len(known) for known in (self._view.centers, self._view.features))

    @property
    def concern(self) -> str | None:
        return self._fit.concern

    @property
    def noisy_count(self) -> float:
        return float(self._fit.value.noisy_counts.sum())

    def sections(self) -> list[str]:
        return [centers(self._fit, self._view), pictures(self._fit, self._view)]

    def quality(self) -> str:
        return quality(self._fit)

    def noise(self) -> str:
        return noise(self._fit)


def centers(fit: Fit, view: View) -> str:
    """Render the table of the centers in the columns' own units."""
    k, d = view.values.shape
    return section(
        "centers",
        "Centers",
        _all_noise(view),
        paragraph(
            f"{k} center{'s' * (k != 1)} of {d} feature{'s' * (d != 1)}. A center is the average of a segment (a "
            f"cluster), in the units of the columns.{_shares(fit, view)}"
        ),
        heat_map(view, fit.value.noisy_counts),
        paragraph(_ORDER, "soft") if k > 1 else "",
        paragraph(_key(view), "soft"),
    )


def _is_noise(view: View) -> bool:
    return not any(view.features) or not view.cells.any()


def _all_noise(view: View) -> str:
    """A warning if no value of the table is readable."""
    if not _is_noise(view):
        return ""
    return paragraph(
        "The values in this table are noise, or just the middle of the stated bounds. They say nothing about the rows.",
        "warning",
    )


def _shares(fit: Fit, view: View) -> str:
    if SHARE not in view.kinds:
        return ""
    categories = fit.schema is not None and any(isinstance(column, Categories) for column in fit.schema.columns)
    rest = (
        " Where the shares of a column add up to less than 100%, the rest is missing or not listed."
        if categories
        else ""
    )
    return f" Shares of categories and of true are in percent.{rest}"


def _key(view: View) -> str:
    """What the words and signs in the table mean, as far as it has them."""
    text = "<b>Noisy count</b>: size of the cluster in the last round, with noise."
    if WITHIN_NOISE in view.doubts:
        text += " <b>Within noise</b>: the count is not above its noise, so the center is a guess."
    if NOT_DISTINCT in view.doubts:
        text += " <b>Not distinct</b>: no feature separates the center from every other by more than the noise."
    if not all(view.features):
        text += " <b>Italics</b>: a feature in which no two centers differ by more than the noise."
    if noise_cells(view):
        text += f" <b>Noise</b>: {_NOISE[view.has_one_error]}"
    if view.errors is not None and not view.has_one_error:
        text += _AROUND
    return text


def pictures(fit: Fit, view: View) -> str:
    """Render the map of the centers and the estimated cost by number of clusters; nothing if all of it is noise."""
    if _is_noise(view):
        return ""
    value = fit.value
    charts, circles = [], ""
    if value.effective_centers > 1:
        projection = project(value.centers, value.noisy_counts, value.standard_errors)
        charts.append(centers_map(projection, value.noisy_counts, view))
        grey = "" if all(view.centers) else "Grey circles are not readable above the noise. "
        circles = (
            "The area of a circle grows with the noisy count. The dark ellipse about a center shows two standard "
            f"errors due to noise. {grey}"
        )
    few = value.cells is not None and len(value.cells) <= _MOST_CELLS
    elbow = fit.elbow if few else None
    if elbow is not None and len(elbow) > 1:
        charts.append(elbow_chart(elbow, len(value.centers)))
    if not charts:
        return ""
    return section(
        "pictures",
        "Pictures",
        f'<div class="charts">\n{"".join(charts)}\n</div>',
        paragraph(
            f"{circles}Costs are estimated. All of this is computed from released values and costs no privacy.", "soft"
        ),
    )
