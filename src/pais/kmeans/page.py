"""The sections of the report about the released centers: the verdict, the table and the pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.cards import TIMES, number
from pais._base.numerics import FloatArray
from pais.accounting.words import person_of
from pais.data.kinds import Categories
from pais.kmeans.mechanism import KMeans, Round
from pais.kmeans.pictures import centers_map, elbow_chart, project
from pais.kmeans.result import KMeansFit, threshold
from pais.kmeans.sums import ResidualRound
from pais.kmeans.view import DATE, NOT_DISTINCT, SHARE, WITHIN_NOISE, Sizes, View, sizes_of, view_of
from pais.mechanisms.noise import NoiseLaw
from pais.planning.fit import CLEAR
from pais.show.grid import N_STEPS, PRINTED_TOGETHER, Bars, Cell, bars_table, row_head, table_of
from pais.show.results import Results, TextTable, as_sentence
from pais.show.text import breakable, error_text, escaped, paragraph, percent, section, table

# The last step of colour stands for this many standard deviations.
_WIDEST = 1.75

# With more features than this, and at least as many features as centers, features are the rows of the table.
_MOST_COLUMNS = 8

# From this number of columns, or of letters in a name, the names are written vertically.
_UPRIGHT_FROM = 9
_LONG_NAME = 16


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """The centers as a table.

    Attributes
    ----------
    view : View
        Values in own units.
    sizes : Sizes
        Noisy counts, or shares of people.
    levels : array of shape (k, d)
        Standardised values, which decide the colours.
    """

    view: View
    sizes: Sizes
    levels: FloatArray

    def html(self) -> str:
        """Render a table that scrolls on a screen and, if it is too wide for paper, a copy in blocks of columns."""
        k, d = self.view.values.shape
        by_feature = d > _MOST_COLUMNS and d >= k
        table = self._by_feature if by_feature else self._by_center
        columns = self._order() if by_feature else list(range(d))
        whole, legend = table(columns), _legend() if k > 1 else ""
        screen = f'<div class="scroll" role="region" tabindex="0" aria-label="Segments by feature">\n{whole}\n</div>'
        if len(columns) <= PRINTED_TOGETHER:
            return legend + screen
        n_blocks = -(-len(columns) // PRINTED_TOGETHER)
        blocks = "\n".join(table(block.tolist()) for block in np.array_split(columns, n_blocks))
        return f'{legend}<div class="on-screen">{screen}</div>\n<div class="on-paper">{blocks}</div>'

    def _order(self) -> list[int]:
        """Centers from the largest to the smallest."""
        order: list[int] = np.argsort(-self.sizes.counts, kind="stable").tolist()
        return order

    def _by_center(self, features: Sequence[int]) -> str:
        """One row for each center."""
        names = self.view.names
        upright = len(names) >= _UPRIGHT_FROM or any(len(names[j]) > _LONG_NAME for j in features)
        head = "".join(self._feature_head(j, upright=upright) for j in features)
        cells, noise, sizes = [self._cells(j) for j in features], _noise_cells(self.view), self._sizes()
        lines = []
        for index in self._order():
            around = noise[index] if noise else ""
            line = "".join(column[index] for column in cells)
            counts = "".join(column[index] for _, column in sizes)
            lines.append(f"<tr>{self._center_head(index, 'row')}{counts}{around}{line}</tr>")
        extra = '<th scope="col" class="count">Noise</th>' if noise else ""
        counted = "".join(f'<th scope="col" class="count">{escaped(name)}</th>' for name, _ in sizes)
        return table_of(
            "Segments, the largest first",
            f'<th scope="col">Segment</th>{counted}{extra}{head}',
            lines,
            n_columns=len(sizes) + bool(noise) + len(features),
        )

    def _by_feature(self, centers: Sequence[int]) -> str:
        """One row for each feature: for tables with many features and few centers."""
        noise = _noise_cells(self.view)
        head = "".join(self._center_head(index, "col") for index in centers)
        lines = [self._counts_line(escaped(name), centers, column.__getitem__) for name, column in self._sizes()]
        if noise:
            lines.append(self._counts_line("Noise", centers, lambda index: noise[index]))
        # Readable features come first, each group in the order of the columns.
        for j in sorted(range(len(self.view.names)), key=lambda j: not self.view.features[j]):
            cells = self._cells(j)
            lines.append(f"<tr>{self._feature_head(j, scope='row')}{''.join(cells[index] for index in centers)}</tr>")
        return table_of(
            "Features by segment; the largest segment comes first",
            f'<th scope="col">Feature</th>{head}',
            lines,
            n_columns=len(centers),
        )

    @staticmethod
    def _counts_line(name: str, centers: Sequence[int], cell: Callable[[int], str]) -> str:
        return f'<tr class="counts"><th scope="row">{name}</th>{"".join(cell(index) for index in centers)}</tr>'

    def _feature_head(self, feature: int, *, scope: str = "col", upright: bool = False) -> str:
        name = self.view.names[feature]
        kinds = ["upright"] * upright + ["drowned"] * (not self.view.features[feature])
        classes = f' class="{" ".join(kinds)}"' if kinds else ""
        hint = name if self.view.features[feature] else f"{name}: no two segments differ by more than the noise"
        return f'<th scope="{scope}"{classes} title="{escaped(hint)}"><span>{breakable(name)}</span></th>'

    def _center_head(self, index: int, scope: str) -> str:
        return f'<th scope="{scope}"><b>{index}</b></th>'

    def _sizes(self) -> list[tuple[str, list[str]]]:
        """Name and cells of the share of each center, and of its noisy count if that is a number of rows."""
        shares = [_size(*pair, doubt) for pair, doubt in zip(self.sizes.share_texts(), self.view.doubts, strict=True)]
        counts = [_size(*pair) for pair in self.sizes.count_texts()]
        return [(name, cells) for name, cells in ((self.sizes.share_name, shares), ("Noisy count", counts)) if cells]

    def _cells(self, feature: int) -> list[str]:
        """The cells of one feature, for each center."""
        values, errors = self.view.texts(feature)
        return [self._cell(feature, index, text, errors[index] if errors else "") for index, text in enumerate(values)]

    def _cell(self, feature: int, index: int, text: str, error: str) -> str:
        level = float(self.levels[index, feature])
        step = int(np.clip(round(level / _WIDEST * N_STEPS), -N_STEPS, N_STEPS))
        side = "above" if level >= 0.0 else "below"
        around = f" \u00b1 {error}" if error else ""
        hint = f"{self.view.names[feature]}, segment {index}: {text}{around}, "
        small = f"<small>\u00b1{escaped(error)}</small>" if error and not self.view.has_one_error else ""
        if not self.view.cells[index, feature]:
            hint += self._why_grey(feature, index)
            return f'<td class="weak" title="{escaped(hint)}">{escaped(text)}{small}</td>'
        hint += f"{abs(level):.2f} deviations {side} the average of the segments"
        return f'<td class="heat-{step + N_STEPS}" title="{escaped(hint)}">{escaped(text)}{small}</td>'

    def _why_grey(self, feature: int, index: int) -> str:
        if not self.view.features[feature]:
            return "and no two segments differ by more than the noise"
        if self.view.doubts[index] == WITHIN_NOISE:
            return "and the size of the segment is within noise"
        return "within two standard errors of the average of the segments"


def _size(text: str, error: str, doubt: str = "") -> str:
    """A cell with the share or the count of a center, and the reason if the center is not readable."""
    mark = f' <span class="doubt">{doubt}</span>' if doubt else ""
    return f'<td class="count">{text}<small>\u00b1{error}</small>{mark}</td>'


def _noise_cells(view: View) -> list[str]:
    """The cells of the column with the noise of each center, if all values of a center have one standard error."""
    if view.errors is None or not view.has_one_error:
        return []
    return [f'<td class="count">\u00b1{error_text(error)}</td>' for error in view.errors[:, 0].tolist()]


def heat_map(view: View, sizes: Sizes) -> str:
    """Render the centers as a table in their own units."""
    levels = standardised(view.values, weights=sizes.counts, cells=view.cells)
    return HeatMap(view=view, sizes=sizes, levels=levels).html()


def standardised(
    centers: FloatArray, *, weights: FloatArray | None = None, cells: NDArray[np.bool_] | None = None
) -> FloatArray:
    """Distance of each center from the mean of all centers in each feature, in units of the spread of the centers.

    The mean is weighted by the (noisy) sizes of the clusters. The spread is that of the readable cells, if a feature
    has any. It is zero where all centers agree.
    """
    sizes = np.ones(len(centers)) if weights is None else np.maximum(weights, 1e-9)
    away = centers - np.average(centers, axis=0, weights=sizes)
    counted = np.ones(centers.shape) if cells is None else np.where(cells.any(axis=0), cells, True).astype(np.float64)
    spread = np.sqrt(np.average(np.square(away), axis=0, weights=counted))
    flat = spread <= 1e-12 * np.maximum(np.abs(centers).max(axis=0), 1e-300)
    return np.where(flat, 0.0, away / np.where(flat, 1.0, spread))


def _legend() -> str:
    boxes = "".join(f'<span class="heat-{step}"></span>' for step in range(2 * N_STEPS + 1))
    return (
        f'<p class="legend"><span class="entry"><span>below average</span><span class="scale" aria-hidden="true">'
        f'{boxes}</span><span>above</span></span> <span class="entry"><span class="scale" aria-hidden="true">'
        '<span class="weak"></span></span><span>grey: close to the average, within two standard errors</span></span>'
        "</p>\n"
    )


def noise(fit: KMeansFit) -> str:
    """Render the standard deviations of the noise in each round."""
    mechanism = fit.plan.mechanism
    assert isinstance(mechanism, KMeans)
    rows = []
    if mechanism.moment is not None:
        moment = f"{number(mechanism.moment.noise.deviation(1))} on the second moment"
        rows.append(("start", "mean and directions of spread", "", "", moment))
    rounds: tuple[Round | ResidualRound, ...] = mechanism.rounds
    for position, round_ in enumerate(rounds):
        rows.append((str(position + 1), _phase(mechanism, position), *_noise_deviations(round_, mechanism.n_features)))
    return section(
        "noise",
        "Noise by round",
        paragraph("Standard deviation of the noise on each count, each distance and each coordinate of each sum."),
        table("Noise added", ("Round", "Purpose", "on counts", "on distances", "on sums"), rows, n_text=2),
        "" if mechanism.explore == 0 else _residuals(),
    )


def _residuals() -> str:
    return paragraph(
        "Rounds release residuals: sums of row minus center. The clip of a cell is the largest residual that "
        "counts in full. It follows from the distances that earlier rounds released, so the noise shrinks with the "
        "cells.",
        "soft",
    )


def _noise_deviations(round_: Round | ResidualRound, d: int) -> tuple[str, str, str]:
    """Deviations of the noise on counts, on distances and on coordinates of sums, with their laws."""
    counts = f"{number(round_.count_noise.deviation(1))} ({_law(round_.count_noise)})"
    if isinstance(round_, Round):
        return counts, "", f"{number(round_.sum_noise.deviation(d))} ({_law(round_.sum_noise)})"
    distances = f"{number(round_.distance_noise.deviation(1))} {TIMES} clip"
    deviation = round_.residual_noise.deviation(d)
    sums = number(deviation * round_.radius) if round_.whole_rows else f"{number(deviation)} {TIMES} clip"
    return counts, distances, f"{sums} ({_law(round_.residual_noise)})"


def _law(law: NoiseLaw) -> str:
    described = law.to_dict()
    name = described["law"]
    return escaped(f"l{described['p']} law" if name == "lp" else name).replace(".0", "")


def _phase(mechanism: KMeans, position: int) -> str:
    if mechanism.explore == 0:
        return f"move {mechanism.n_clusters} centers"
    first = 1 if mechanism.moment is None else 0
    if position < first:
        return f"start from {mechanism.cells} sectors"
    if position < first + mechanism.explore:
        return f"explore with {mechanism.cells} cells"
    return f"polish {'up to ' if mechanism.choose else ''}{mechanism.n_clusters} centers"


# A difference is worth a word from this many standard deviations of the column: between small and medium by the rule
# of thumb of Cohen (0.2 and 0.5).
_WORTH = 0.3

# A sentence names at most this many columns, those with the largest differences.
_MOST_WORDS = 6

# Shares in words. A share is "nearly all" if it and the lower end of its interval are at least this, and so on.
_NEARLY_ALL, _SURELY_MANY, _MOST, _FEW, _HARDLY_ANY, _SURELY_FEW = 0.9, 0.85, 0.5, 0.25, 0.05, 0.1

_DOUBTS = {
    WITHIN_NOISE: "its size is not above the noise, so this segment is a guess",
    NOT_DISTINCT: "no column separates it from every other segment by more than the noise",
}
_NOTHING = "close to the average in every column, as far as the noise shows"

#: What the words of the sentences mean.
KEY = (
    "In words: how a segment differs from the average over all {noun}, if the difference is above the noise and at "
    f"least {_WORTH:g} standard deviations of the column."
)


@dataclass(frozen=True, kw_only=True)
class _Difference:
    """A clear difference between one value of a center and the average."""

    name: str
    kind: str
    size: float
    value: float
    error: float

    @property
    def words(self) -> str:
        """The words before the name of the column."""
        if self.kind == SHARE:
            return self._share_in_words()
        up, down = ("later", "earlier") if self.kind == DATE else ("higher", "lower")
        return up if self.size > 0.0 else down

    def _share_in_words(self) -> str:
        low, high = self.value - CLEAR * self.error, self.value + CLEAR * self.error
        if self.size > 0.0:
            if self.value >= _NEARLY_ALL and low >= _SURELY_MANY:
                return "nearly all"
            return "mostly" if low > _MOST else "more often"
        if self.value <= _HARDLY_ANY and high <= _SURELY_FEW:
            return "hardly any"
        return "few" if high < _FEW else "less often"

    @property
    def _is_category(self) -> bool:
        return self.kind == SHARE and "=" in self.name

    @property
    def is_named(self) -> bool:
        """Whether a sentence mentions it. Categories that a segment has less often follow from the others."""
        return self.size > 0.0 or not self._is_category

    @property
    def plain_name(self) -> str:
        name = self.name.replace("=", " ", 1) if self._is_category else self.name
        return name.replace("_", " ")


def sentences(view: View, sizes: Sizes, spread: FloatArray | None = None) -> list[str]:
    """One sentence for each center, without a full stop; empty texts if the standard errors are not known.

    Parameters
    ----------
    view : View
    sizes : Sizes
    spread : array of shape (d,), optional
        Standard deviation of each column over all rows, in own units, as far as the release shows it.

    Notes
    -----
    With a probability of about 95 %, no sentence mentions a difference between a center and the average that
    is due to noise alone: the threshold is that of all centers and columns together. Everything follows from released
    values: `tests/unit/kmeans/test_sentences.py`.
    """
    if view.errors is None:
        return [""] * len(view.values)
    away, errors = _from_average(view.values, view.errors, sizes.weights)
    size = away / _deviations(view, sizes, spread)
    is_clear = np.abs(away) > threshold(away.size) * errors
    is_clear &= (np.abs(size) >= _WORTH) & np.array(view.features)
    return [_sentence(view, center, size[center], is_clear[center]) for center in range(len(size))]


def _from_average(values: FloatArray, errors: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Differences between centers and their weighted mean, and the standard errors of these differences."""
    away = values - weights @ values
    squares = np.square(errors)
    others = np.square(weights) @ squares - np.square(weights)[:, None] * squares
    return away, np.sqrt(np.square(1.0 - weights)[:, None] * squares + others)


def _deviations(view: View, sizes: Sizes, spread: FloatArray | None) -> FloatArray:
    """Standard deviation of each column over all rows: at least that of the centers; of a share, that of its rows."""
    mean = sizes.weights @ view.values
    between = np.sqrt(sizes.weights @ np.square(view.values - mean))
    share = np.clip(mean, 0.01, 0.99)
    is_share = np.array([kind == SHARE for kind in view.kinds])
    within = np.zeros_like(between) if spread is None else spread
    deviations = np.where(is_share, np.sqrt(share * (1.0 - share)), np.maximum(between, within))
    return np.asarray(np.maximum(deviations, 1e-300))


def _sentence(view: View, center: int, size: FloatArray, is_clear: NDArray[np.bool_]) -> str:
    if view.doubts[center]:
        return _DOUBTS[view.doubts[center]]
    assert view.errors is not None
    found = [
        _Difference(
            name=view.names[feature],
            kind=view.kinds[feature],
            size=float(size[feature]),
            value=float(view.values[center, feature]),
            error=float(view.errors[center, feature]),
        )
        for feature in sorted(np.flatnonzero(is_clear).tolist(), key=lambda feature: -abs(float(size[feature])))
    ]
    found = [difference for difference in found if difference.is_named][:_MOST_WORDS]
    if not found:
        return _NOTHING
    # Numbers and dates come before shares; columns with the same words stand together, the largest difference first.
    first = {words: place for place, words in reversed([*enumerate(one.words for one in found)])}
    found.sort(key=lambda one: (one.kind == SHARE, first[one.words]))
    return "; ".join(
        f"{words} {_joined([one.plain_name for one in several])}"
        for words, several in groupby(found, key=lambda one: one.words)
    )


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
    table = "centers"
    of_rows = "of"
    cautions = (
        (
            "Labels are not protected.",
            "The segment of a training row, and errors measured on training rows, are not part of this release.",
        ),
        ("Small segments.", "A segment whose size is no larger than its noise is no evidence of one."),
    )

    count_in_words = "The noisy sizes of the segments add up to"

    def __init__(self, fit: KMeansFit, view: View) -> None:
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

    def value_columns(self) -> dict[str, Any]:
        value, schema = self._fit.value, self._fit.schema
        plain = dict(zip(self._view.names, value.centers.T, strict=True))
        columns: dict[str, Any] = plain if schema is None else schema.decode_frame(value.centers)
        return {**columns, "noisy_count": value.noisy_counts}

    def text_table(self, width: int) -> TextTable:
        """Features are rows and centers are columns, unless there are many centers."""
        view, sizes = self._view, self._sizes
        columns = [(sizes.share_name.lower(), [text for text, _ in sizes.share_texts()])]
        if not sizes.split:
            columns.append(("noisy count", [text for text, _ in sizes.count_texts()]))
        for feature, name in enumerate(view.names):
            cells = zip(view.texts(feature)[0], view.cells[:, feature], strict=True)
            columns.append((name, [text if clear else f"({text})" for text, clear in cells]))
        table = [["segment", *map(str, range(len(view.values)))], *([name, *texts] for name, texts in columns)]
        header, *rows = table if len(view.values) <= width else map(list, zip(*table, strict=True))
        lines = segment_lines(self._fit, view.names)
        if not view.cells.all():
            lines.insert(
                0, "In parentheses: within two standard errors of the average, or a feature that noise drowns."
            )
        return TextTable("Segments", header, rows, "\n".join(lines))

    def sections(self) -> list[str]:
        fit, view, sizes = self._fit, self._view, self._sizes
        return [overview(fit, view, sizes), centers(fit, view, sizes), pictures(fit, view)]

    def quality(self) -> str:
        return predicted_quality(self._fit)

    def noise(self) -> str:
        return noise(self._fit)


def overview(fit: KMeansFit, view: View, sizes: Sizes) -> str:
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


def segment_lines(fit: KMeansFit, feature_names: Sequence[str] | None = None) -> list[str]:
    """Each segment in one line of text, the largest first: its share and how it differs from the average."""
    view, sizes = view_of(fit, feature_names), sizes_of(fit)
    words, texts = sentences(view, sizes, _spread(fit)), sizes.share_texts()
    return [
        f"Segment {index}, {texts[index][0]} \u00b1 {texts[index][1]} of {sizes.noun}"
        + (f": {words[index]}." if words[index] else ".")
        for index in np.argsort(-sizes.counts, kind="stable").tolist()
    ]


def _spread(fit: KMeansFit) -> FloatArray | None:
    """Standard deviation of each column over all rows in own units, as the release shows it."""
    spread = fit.column_spread
    return spread if spread is None or fit.schema is None else np.asarray(spread * fit.schema.unit_scale)


def _split(fit: KMeansFit, sizes: Sizes) -> str:
    """How people with several rows count."""
    if not sizes.split:
        return ""
    one = escaped(person_of(fit.certificate.neighbours))
    return (
        f" Every {one} counts once. If the rows of a {one} are in several segments, each of these has a part of the "
        f"{one}."
    )


def centers(fit: KMeansFit, view: View, sizes: Sizes) -> str:
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


def _shares(fit: KMeansFit, view: View) -> str:
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


def pictures(fit: KMeansFit, view: View) -> str:
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


def predicted_quality(fit: KMeansFit) -> str:
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
