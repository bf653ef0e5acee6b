"""The sections of the report about the released centers: the verdict, the table and the pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pais._base.numerics import FloatArray
from pais.accounting.words import person_of
from pais.data.kinds import Categories
from pais.planning import Fit
from pais.planning.readability import CLEAR
from pais.report.grid import Bars, Cell, bars_table, row_head
from pais.report.heat import heat_map
from pais.report.pictures import centers_map, elbow_chart
from pais.report.projection import project
from pais.report.results import Results, as_sentence
from pais.report.rounds import noise
from pais.report.sentences import KEY, sentences
from pais.report.text import TIMES, breakable, escaped, number, paragraph, percent, section, table
from pais.report.view import NOT_DISTINCT, SHARE, WITHIN_NOISE, Sizes, View, sizes_of, view_of

# With more released cells than this, the estimated costs take too long to compute for a page.
_MOST_CELLS = 90

_NOISE = " <b>{}</b>: standard error of {} due to noise; sampling and clipping add further error."

_SIZES = "<b>\u00b1</b>: standard error of a share; lines show two of them to each side."

_READABLE = (
    "A segment is readable if its size is above the noise that was added for privacy, and it differs from every other "
    "segment by more than the noise. A feature is readable if at least two segments differ in it by more than the "
    "noise."
)
_ORDER = (
    "The largest segment comes first; a segment keeps its number in the model, so the numbers can be out of order. "
    "Colours compare each value with the average of the segments, weighted by size. A grey value does not set its "
    "segment apart."
)
_ONE_READABLE = "The segment is readable if its size is above the noise that was added for privacy."


# Why the predicted cost is above that of k-means without noise, and what lowers it.
_CAUSES = (
    ("noise", "noise on the centers", "a larger epsilon, fewer clusters, fewer columns, more rows"),
    ("sampling", "rows that are not in the sample", "a larger sample size"),
    ("search", "a local optimum, as without privacy", "another fit, if the budget allows"),
    ("clipping", "rows beyond the radius", "a larger epsilon, more rows, or a larger stated radius"),
)


class Segments(Results):
    """The centers of k-means as a reader sees them."""

    title = "Segments"
    noun = "segments"
    of_rows = "of"
    cautions = (
        (
            "Labels are not protected.",
            "The segment of a training row, and errors measured on training rows, are not part of this release.",
        ),
        ("Small segments.", "A segment whose size is no larger than its noise is no evidence of one."),
    )

    count_in_words = "The noisy sizes of the segments add up to"

    def __init__(self, fit: Fit, view: View) -> None:
        self._fit, self._view, self._sizes = fit, view, sizes_of(fit)

    def in_words(self) -> str:
        k = len(self._fit.value.centers)
        return f"{k} segment{'s' * (k != 1)}"

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
        fit, view, sizes = self._fit, self._view, self._sizes
        return [overview(fit, view, sizes), centers(fit, view, sizes), pictures(fit, view)]

    def quality(self) -> str:
        return predicted_quality(self._fit)

    def noise(self) -> str:
        return noise(self._fit)


def overview(fit: Fit, view: View, sizes: Sizes) -> str:
    """Render the share of each segment as a bar, and the segment in one sentence."""
    if view.errors is None:
        return ""
    order = np.argsort(-sizes.counts, kind="stable").tolist()
    shares, errors = 100.0 * sizes.shares, 100.0 * sizes.share_errors
    bars = Bars.over(0.0, min(float((shares + CLEAR * errors).max()), 100.0), filled=True)
    words, texts, lines = sentences(view, sizes, _spread(fit)), sizes.share_texts(), []
    for index in order:
        share, error = float(shares[index]), CLEAR * float(errors[index])
        bar = bars.cell(share, max(share - error, 0.0), share + error, weak=not view.centers[index])
        size = Cell(text=texts[index][0], small=(f"\u00b1{texts[index][1]}",), weak=not view.centers[index])
        lines.append(
            f'<tr>{row_head(str(index))}{bar}{size.html()}<td class="words">{breakable(as_sentence(words[index]))}.'
            "</td></tr>"
        )
    head = ("Segment", bars.axis("%"), escaped(sizes.share_name))
    return section(
        "overview",
        "Segments at a glance",
        _all_noise(view),
        bars_table("Segments, the largest first", head, lines, words="In words"),
        paragraph(f"{escaped(KEY.format(noun=sizes.noun))} {_SIZES}{_split(fit, sizes)}", "soft"),
    )


def segment_lines(fit: Fit, feature_names: Sequence[str] | None = None) -> list[str]:
    """Each segment in one line of text, the largest first: its share and how it differs from the average."""
    view, sizes = view_of(fit, feature_names), sizes_of(fit)
    words, texts = sentences(view, sizes, _spread(fit)), sizes.share_texts()
    return [
        f"Segment {index}, {texts[index][0]} \u00b1 {texts[index][1]} of {sizes.noun}"
        + (f": {words[index]}." if words[index] else ".")
        for index in np.argsort(-sizes.counts, kind="stable").tolist()
    ]


def _spread(fit: Fit) -> FloatArray | None:
    """Standard deviation of each column over all rows in own units, as the release shows it."""
    spread = fit.column_spread
    return spread if spread is None or fit.schema is None else np.asarray(spread * fit.schema.unit_scale)


def _split(fit: Fit, sizes: Sizes) -> str:
    """How people with several rows count."""
    if not sizes.split:
        return ""
    one = escaped(person_of(fit.certificate.neighbours))
    return (
        f" Every {one} counts once. If the rows of a {one} are in several segments, each of these has a part of the "
        f"{one}."
    )


def centers(fit: Fit, view: View, sizes: Sizes) -> str:
    """Render the table of the centers in the columns' own units."""
    k, d = view.values.shape
    return section(
        "centers",
        "Averages",
        _all_noise(view) if view.errors is None else "",
        paragraph(
            f"The average of each segment in {d} feature{'s' * (d != 1)} (its center), in the units of the columns."
            f"{_shares(fit, view)}"
        ),
        heat_map(view, sizes),
        paragraph(_ORDER, "soft") if k > 1 else "",
        paragraph(_key(view, sizes), "soft"),
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


def _key(view: View, sizes: Sizes) -> str:
    """What the words and signs in the table mean, as far as it has them."""
    noisy = "" if sizes.split else " and <b>noisy count</b>"
    text = f"<b>{escaped(sizes.share_name)}</b>{noisy}: size of the segment, with noise."
    if WITHIN_NOISE in view.doubts:
        text += " <b>Within noise</b>: the size is not above its noise, so the segment is a guess."
    if NOT_DISTINCT in view.doubts:
        text += " <b>Not distinct</b>: no feature separates the segment from every other by more than the noise."
    if not all(view.features):
        text += " <b>Italics</b>: a feature in which no two segments differ by more than the noise."
    if view.errors is None:
        return text
    is_one = view.has_one_error
    return text + _NOISE.format(*(("Noise", "each value of the segment") if is_one else ("\u00b1", "a value")))


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
            "The area of a circle grows with the size of the segment. The dark ellipse about its center shows two "
            f"standard errors due to noise. {grey}"
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
        paragraph(f"{circles}All of this is computed from released values, at no further price.", "soft"),
    )


def predicted_quality(fit: Fit) -> str:
    """Render the predicted cost over that of k-means without noise, by cause."""
    predicted = fit.quality
    if predicted is None:
        return ""
    parts = predicted.to_dict()
    rows = [
        (cause, remedy, "not predicted" if parts[name] is None else percent(parts[name]))
        for name, cause, remedy in _CAUSES
    ]
    return section(
        "quality",
        "Predicted quality",
        paragraph(
            "The spread within the segments (the sum of squared distances to their centers) is predicted to be about "
            f"<strong>{number(predicted.ratio, 3)} {TIMES}</strong> that of k-means without noise on all rows."
        ),
        table(
            "Excess by cause",
            ("Cause", "What lowers it", "excess"),
            rows,
            n_text=2,
        ),
        paragraph(
            "This is a rough prediction from public and released values, at no further price. It does not see a few "
            "extreme rows that carry much of the spread. The measured spread is not private, so it is not on this "
            "page.",
            "soft",
        ),
    )
