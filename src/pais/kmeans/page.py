"""The part of a page about the released centers: the verdict, the segments in words, the table and the pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.kmeans.mechanism import rows_of_page
from pais.kmeans.pictures import CentersMap, elbow_chart, project
from pais.kmeans.result import KMeansFit
from pais.kmeans.view import WITHIN_NOISE, WORTH, View, segment_lines, sentences
from pais.planning.plan import CLEAR
from pais.show.charts import Axis, BarRow, BarTable, Cell, Chart, Head, Table
from pais.show.results import Results, TextTable
from pais.show.text import PLUS_MINUS, around, as_sentence, percent

# The last step of colour stands for this many standard deviations. Chosen by eye.
_WIDEST = 1.75

# With more features than this, and at least as many features as centers, features are the rows of the table.
_MOST_COLUMNS = 8

# From this number of columns, or of letters in a name, the names are written vertically.
_UPRIGHT_FROM, _LONG_NAME = 9, 16

# With more released cells than this, the estimated costs take too long to compute for a page.
_MOST_CELLS = 90

# Why the predicted cost is above that of k-means without noise, and what lowers it.
_CAUSES = (
    ("noise", "noise on the centers", "a larger epsilon, fewer clusters, fewer columns, more rows"),
    ("sampling", "rows that are not in the sample", "a larger sample size"),
    ("search", "a local optimum, as without privacy", "another fit, if the budget allows"),
    ("clipping", "rows beyond the radius", "a larger epsilon, more rows, or a larger stated radius"),
)


_MEANING_OF_ONE = "The segment is readable if its size is above the noise that was added for privacy."
_MEANING = (
    "A segment is readable if its size is above the noise that was added for privacy, and it differs from every other "
    "segment by more than the noise. A feature is readable if at least two segments differ in it by more than the "
    "noise."
)


class Segments(Results):
    """The centers of k-means as a reader sees them."""

    template = "kmeans/page.html"
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
    worth = WORTH

    def __init__(self, fit: KMeansFit, view: View) -> None:
        self.fit, self.view = fit, view
        self.caution, self.counted = fit.concern, float(view.sizes.counts.sum())

    @property
    def verdict(self) -> str | None:
        return self.fit.verdict

    @property
    def meaning(self) -> str:
        return _MEANING_OF_ONE if len(self.view.centers) == 1 else _MEANING

    @property
    def readable(self) -> float:
        return min(sum(known) / len(known) for known in (self.view.centers, self.view.features))

    def in_words(self) -> str:
        k = len(self.view.values)
        return f"{k} segment{'s' * (k != 1)}"

    @property
    def overview(self) -> BarTable | None:
        """The share of each segment as a bar, and the segment in one sentence; None if no errors are known."""
        view, sizes = self.view, self.view.sizes
        if view.errors is None:
            return None
        shares, errors = 100.0 * sizes.shares, CLEAR * (100.0 * sizes.share_errors)
        words, texts, rows = sentences(view), sizes.share_texts, []
        for index in view.order:
            share, error, weak = float(shares[index]), float(errors[index]), not view.centers[index]
            rows.append(
                BarRow(
                    head=Head(str(index)),
                    bar=(share, max(share - error, 0.0), share + error),
                    cells=[Cell(text=texts[index][0], small=(f"{PLUS_MINUS}{texts[index][1]}",), weak=weak)],
                    weak=weak,
                    words=f"{as_sentence(words[index])}.",
                )
            )
        return BarTable(
            caption="Segments, the largest first",
            corner="Segment",
            axis=Axis.over(0.0, min(float((shares + errors).max()), 100.0), filled=True, name="%"),
            columns=[sizes.share_name],
            rows=rows,
            words="In words",
        )

    @property
    def values_table(self) -> Table:
        return centers_table(self.view)

    @property
    def map(self) -> CentersMap | None:
        if self.view.is_noise or self.fit.value.effective_centers <= 1:
            return None
        value = self.fit.value
        return CentersMap.of(project(value.centers, value.noisy_counts, value.standard_errors), self.view)

    @property
    def elbow(self) -> Chart | None:
        cells = self.fit.value.cells
        if self.view.is_noise or cells is None or len(cells) > _MOST_CELLS:
            return None
        elbow = self.fit.elbow
        return None if elbow is None or len(elbow.points) < 2 else elbow_chart(elbow, len(self.view.values))

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """Predicted excess cost by cause, with what lowers it."""
        parts = self.fit.quality.to_dict()
        return [
            (cause, remedy, "not predicted" if parts[name] is None else percent(parts[name]))
            for name, cause, remedy in _CAUSES
        ]

    #: Called by the template.
    rounds = staticmethod(rows_of_page)

    def value_columns(self) -> dict[str, Any]:
        value, schema = self.fit.value, self.fit.schema
        plain = dict(zip(self.view.names, value.centers.T, strict=True))
        columns: dict[str, Any] = plain if schema is None else schema.decode_frame(value.centers)
        return {**columns, "noisy_count": value.noisy_counts}

    def text_table(self, width: int) -> TextTable:
        """Features are rows and centers are columns, unless there are many centers."""
        view, sizes = self.view, self.view.sizes
        columns = [(sizes.share_name.lower(), [text for text, _ in sizes.share_texts])]
        if not sizes.split:
            columns.append(("noisy count", [text for text, _ in sizes.count_texts]))
        for feature, name in enumerate(view.names):
            cells = zip(view.texts(feature)[0], view.cells[:, feature], strict=True)
            columns.append((name, [text if clear else f"({text})" for text, clear in cells]))
        table = [["segment", *map(str, range(len(view.values)))], *([name, *texts] for name, texts in columns)]
        header, *rows = table if len(view.values) <= width else map(list, zip(*table, strict=True))
        lines = segment_lines(self.fit, view.names)
        if not view.cells.all():
            lines.insert(
                0, "In parentheses: within two standard errors of the average, or a feature that noise drowns."
            )
        return TextTable("Segments", header, rows, "\n".join(lines))


def centers_table(view: View) -> Table:
    """The centers in own units. Many features of few centers are rows, so that the table is not too wide."""
    k, d = view.values.shape
    levels = standardised(view.values, weights=view.sizes.counts, cells=view.cells)
    sizes = _size_columns(view)
    centers = [Head(str(index), "index") for index in range(k)]
    if d > _MOST_COLUMNS and d >= k:
        # Readable features come first, each group in the order of the columns.
        features = sorted(range(d), key=lambda j: not view.features[j])
        rows = sizes + [_feature_column(view, levels, j) for j in features]
        return Table(
            caption="Features by segment; the largest segment comes first",
            label="Segments by feature",
            corner="Feature",
            columns=[centers[index] for index in view.order],
            rows=[(head, [cells[index] for index in view.order]) for head, cells in rows],
        )
    upright = d >= _UPRIGHT_FROM or any(len(name) > _LONG_NAME for name in view.names)
    columns = sizes + [_feature_column(view, levels, j, upright=upright) for j in range(d)]
    return Table(
        caption="Segments, the largest first",
        label="Segments by feature",
        corner="Segment",
        columns=[head for head, _ in columns],
        rows=[(centers[index], [cells[index] for _, cells in columns]) for index in view.order],
        n_leading=len(sizes),
    )


def _size_columns(view: View) -> list[tuple[Head, list[Cell]]]:
    """Share of each center, its noisy count if that is a number of rows, and its noise if all values have the same."""
    sizes = view.sizes
    shares = [
        Cell(text=text, small=(f"{PLUS_MINUS}{error}",), doubt=doubt, kind="count")
        for (text, error), doubt in zip(sizes.share_texts, view.doubts, strict=True)
    ]
    counts = [Cell(text=text, small=(f"{PLUS_MINUS}{error}",), kind="count") for text, error in sizes.count_texts]
    columns = [(sizes.share_name, shares), ("Noisy count", counts)]
    if view.errors is not None and view.has_one_error:
        columns.append(("Noise", [Cell(text=around(error), kind="count") for error in view.errors[:, 0].tolist()]))
    return [(Head(name, "count"), cells) for name, cells in columns if cells]


def _feature_column(view: View, levels: FloatArray, feature: int, *, upright: bool = False) -> tuple[Head, list[Cell]]:
    """One feature: its heading, and its value for each center."""
    name, readable, has_one_error = view.names[feature], view.features[feature], view.has_one_error
    hint = name if readable else f"{name}: no two segments differ by more than the noise"
    texts, errors = view.texts(feature)
    cells = []
    for index, text in enumerate(texts):
        error, level = errors[index] if errors else "", float(levels[index, feature])
        if view.cells[index, feature]:
            side = "above" if level >= 0.0 else "below"
            why = f"{abs(level):.2f} deviations {side} the average of the segments"
        elif not readable:
            why = "and no two segments differ by more than the noise"
        elif view.doubts[index] == WITHIN_NOISE:
            why = "and the size of the segment is within noise"
        else:
            why = "within two standard errors of the average of the segments"
        shown = f"{text} {PLUS_MINUS} {error}" if error else text
        cells.append(
            Cell(
                text=text,
                small=(f"{PLUS_MINUS}{error}",) if error and not has_one_error else (),
                level=level / _WIDEST,
                weak=not view.cells[index, feature],
                hint=f"{name}, segment {index}: {shown}, {why}",
            )
        )
    return Head(name, hint=hint, drowned=not readable, upright=upright), cells


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
