"""The view of released centers that text, page, frame, plots and the command line share.

It has names, values in own units, standard errors, what is readable above the noise, the sizes of the segments, and one
sentence about each segment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.accounting.certificate import units_of
from pais.data.kinds import Boolean, Categories, Dates
from pais.errors import ArgumentError
from pais.kmeans.result import Elbow, KMeansFit, threshold
from pais.planning.plan import CLEAR
from pais.show.text import MOST_DECIMALS, date_text, error_text, fixed_text, whole

NUMBER, SHARE, DATE = "number", "share", "date"

#: Why a center is not readable: its count is within noise, or no feature separates it from some other center.
WITHIN_NOISE, NOT_DISTINCT = "within noise", "not distinct"

# A value is shown with this many digits of the range of its column, or to the first digit of its standard error.
_DIGITS = 3

# A difference is worth a word from this many standard deviations of the column: between small and medium by the rule
# of thumb of Cohen (0.2 and 0.5).
WORTH = 0.3

# A sentence names at most this many columns, those with the largest differences. Chosen by eye.
_MOST_WORDS = 6

# Shares in words, chosen by eye. A share is "nearly all" if it and the lower end of its interval are at least the first
# two numbers, "mostly" if its lower end is above a half, and likewise on the other side.
_NEARLY_ALL, _SURELY_MANY, _MOST, _FEW, _HARDLY_ANY, _SURELY_FEW = 0.9, 0.85, 0.5, 0.25, 0.05, 0.1

_DOUBTS = {
    WITHIN_NOISE: "its size is not above the noise, so this segment is a guess",
    NOT_DISTINCT: "no column separates it from every other segment by more than the noise",
}
_NOTHING = "close to the average in every column, as far as the noise shows"


class Sizes:
    """Noisy sizes of the segments.

    Parameters
    ----------
    counts, errors : array of shape (k,)
        Noisy counts and their standard errors.
    noun : str
        What is counted: "rows", or for instance "patients".
    split : bool
        Whether the rows of a person can be in several segments, which then share the person. A count is then no number
        of people in a segment, so only shares are shown.

    Attributes
    ----------
    weights : array of shape (k,)
        Shares of the segments that are positive and add up to 1.
    shares, share_errors : array of shape (k,)
        Share of each segment, where a negative noisy count is no rows, and its standard error.
    share_name : str
        Heading of the shares.
    share_texts, count_texts : list of (str, str)
        Each share in percent, and each noisy count, with its standard error. There are no texts of counts if only
        shares are shown.
    """

    def __init__(self, *, counts: FloatArray, errors: FloatArray, noun: str = "rows", split: bool = False) -> None:
        self.counts, self.errors, self.noun, self.split = counts, errors, noun, split
        positive, known = np.maximum(counts, 1e-9), np.maximum(counts, 0.0)
        self.weights = positive / positive.sum()
        total = float(known.sum())
        self.shares = known / max(total, 1e-300)
        self.share_name = f"Share of {noun}"
        # A count is in its share and in the sum that divides all of them. A share is between 0 and 1, so its error is
        # at most 1. If no count is positive, nothing more is known of it.
        self.share_errors = np.ones(len(counts))
        if total > 0.0:
            squares = np.square(errors)
            others = np.square(self.shares) * (squares.sum() - squares)
            self.share_errors = np.minimum(np.sqrt(np.square(1.0 - self.shares) * squares + others) / total, 1.0)
        self.share_texts = []
        pairs = zip((100.0 * self.shares).tolist(), (100.0 * self.share_errors).tolist(), strict=True)
        for share, error in pairs:
            # Both are rounded to the first digit of the error.
            digits = int(np.clip(-math.floor(math.log10(max(error, 1e-3))), 0, 3))
            self.share_texts.append((f"{share:.{digits}f}%", f"{error:.{digits}f}%"))
        numbers = zip(counts.tolist(), errors.tolist(), strict=True)
        self.count_texts = [] if split else [(whole(count), error_text(error)) for count, error in numbers]


@dataclass(frozen=True, kw_only=True)
class View:
    """Centers in the columns' own units.

    Attributes
    ----------
    names : tuple of str
        One name for each column of `values`.
    kinds : tuple of str
        "number", "share" or "date".
    values : array of shape (k, d)
        In own units; shares of categories and booleans in [0, 1]; dates as days since 1970-01-01.
    errors : array of shape (k, d), optional
        Standard errors in the same units.
    cells : array of bool of shape (k, d)
        Whether a value is more than two standard errors from the mean of the centers, in a readable feature.
    features, centers : tuple of bool
        Which features and which centers are readable above the noise.
    doubts : tuple of str
        For each center that is not readable, the reason in a few words; empty for the others.
    sizes : Sizes
        Sizes of the segments.
    spread : array of shape (d,), optional
        Standard deviation of each column over all rows, in own units, as far as the release shows it.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    values: FloatArray
    errors: FloatArray | None
    cells: NDArray[np.bool_]
    features: tuple[bool, ...]
    centers: tuple[bool, ...]
    doubts: tuple[str, ...]
    sizes: Sizes
    spread: FloatArray | None = None

    @property
    def dates(self) -> tuple[str, ...]:
        """Names of the columns that hold dates."""
        return tuple(name for name, kind in zip(self.names, self.kinds, strict=True) if kind == DATE)

    @property
    def has_one_error(self) -> bool:
        """Whether the values of a center all have the same standard error, as in columns that are not scaled."""
        return self.errors is not None and bool(np.all(np.ptp(self.errors, axis=1) <= 1e-9 * self.errors[:, 0]))

    @property
    def order(self) -> list[int]:
        """Centers from the largest to the smallest."""
        order: list[int] = np.argsort(-self.sizes.counts, kind="stable").tolist()
        return order

    @property
    def is_noise(self) -> bool:
        """Whether no value is readable."""
        return not any(self.features) or not self.cells.any()

    def texts(self, feature: int) -> tuple[list[str], list[str]]:
        """The values of a column and their standard errors as text, with the same decimals for all centers."""
        values = self.values[:, feature]
        errors = None if self.errors is None else self.errors[:, feature]
        kind = self.kinds[feature]
        if kind == DATE:
            around = [] if errors is None else [f"{error_text(error)} days" for error in errors]
            return [date_text(value) for value in values], around
        factor, unit = (100.0, "%") if kind == SHARE else (1.0, "")
        decimals = _decimals(factor * values, None if errors is None else factor * errors)
        shown = [fixed_text(factor * value, decimals) + unit for value in values.tolist()]
        # A standard error has two digits at most, and is never shown as zero.
        around = [] if errors is None else [error_text(factor * error) + unit for error in errors.tolist()]
        return shown, around


def sizes_of(fit: KMeansFit) -> Sizes:
    """The sizes of the segments of a fit. With a unit that counts as one row, they are shares of people."""
    unit = fit.plan.unit
    split = unit is not None and unit.full_rows == 1
    noun = units_of(fit.certificate.neighbours) if split else "rows"
    return Sizes(counts=fit.value.noisy_counts, errors=fit.count_errors, noun=noun, split=split)


def view_of(fit: KMeansFit, feature_names: Sequence[str] | None = None) -> View:
    """The view of a fit. With a schema, names and units are those of its columns."""
    value, schema = fit.value, fit.schema
    centers = value.centers
    spread = None if value.cells is None else np.sqrt(np.square(value.cells.spread).sum(axis=0))
    readable = fit.readability
    known = (True,) * len(centers) if readable is None else readable.centers
    errors = value.standard_errors
    if errors is not None:
        errors = np.broadcast_to(errors.reshape(len(centers), -1), centers.shape)
    return View(
        names=_names(feature_names, centers.shape[1]) if schema is None else schema.labels,
        kinds=(NUMBER,) * centers.shape[1]
        if schema is None
        else tuple(
            SHARE if isinstance(column, (Boolean, Categories)) else DATE if isinstance(column, Dates) else NUMBER
            for column in schema.columns
            for _ in column.labels
        ),
        values=centers if schema is None else schema.decode(centers),
        errors=errors if errors is None or schema is None else errors * schema.unit_scale,
        # One center alone is its own mean, so none of its values is grey.
        cells=np.ones(centers.shape, dtype=bool)
        if readable is None or len(centers) == 1
        else readable.cells & np.array(readable.features),
        features=(True,) * centers.shape[1] if readable is None else readable.features,
        centers=known,
        doubts=tuple(
            "" if clear else NOT_DISTINCT if count > fit.count_noise * CLEAR else WITHIN_NOISE
            for clear, count in zip(known, value.noisy_counts.tolist(), strict=True)
        ),
        sizes=sizes_of(fit),
        spread=spread if spread is None or schema is None else spread * schema.unit_scale,
    )


def _names(feature_names: Sequence[str] | None, n_features: int) -> tuple[str, ...]:
    if feature_names is None:
        return tuple(f"feature {column}" for column in range(n_features))
    names = tuple(str(name) for name in feature_names)
    if isinstance(feature_names, str) or len(names) != n_features:
        raise ArgumentError(
            f"feature_names has {len(names)} entries, but the centers have {n_features} features. "
            "Pass a list with one name for each column."
        )
    return names


def _decimals(values: FloatArray, errors: FloatArray | None) -> int | None:
    """Number of decimals for all values of a column; None if they need powers of ten."""
    spread = float(np.ptp(values))
    size = spread if spread > 1e-9 * np.abs(values).max(initial=0.0) else float(np.abs(values).max(initial=0.0))
    if not 1e-4 <= size < 1e9:
        return 0 if size == 0.0 else None
    decimals = _DIGITS - 1 - math.floor(math.log10(size))
    error = 0.0 if errors is None else float(np.median(errors))
    if error > 0.0:
        decimals = min(decimals + 1, -math.floor(math.log10(error)))
    return int(np.clip(decimals, 0, MOST_DECIMALS))


def sentences(view: View) -> list[str]:
    """One sentence for each center, without a full stop; empty texts if the standard errors are not known.

    Notes
    -----
    With a probability of about 95 %, no sentence mentions a difference between a center and the average that
    is due to noise alone: the threshold is that of all centers and columns together. Everything follows from released
    values: `tests/unit/kmeans/test_view.py`.
    """
    if view.errors is None:
        return [""] * len(view.values)
    weights, values = view.sizes.weights, view.values
    away, errors = _from_average(values, view.errors, weights)
    # Standard deviation of each column over all rows: at least that of the centers; of a share, that of its rows.
    mean = weights @ values
    share = np.clip(mean, 0.01, 0.99)
    between = np.sqrt(weights @ np.square(values - mean))
    within = np.zeros_like(between) if view.spread is None else view.spread
    is_share = np.array([kind == SHARE for kind in view.kinds])
    deviations = np.where(is_share, np.sqrt(share * (1.0 - share)), np.maximum(between, within))
    size = away / np.asarray(np.maximum(deviations, 1e-300))
    is_clear = np.abs(away) > threshold(away.size) * errors
    is_clear &= (np.abs(size) >= WORTH) & np.array(view.features)
    return [_sentence(view, center, size[center], is_clear[center]) for center in range(len(size))]


def _from_average(values: FloatArray, errors: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Differences between centers and their weighted mean, and the standard errors of these differences."""
    away = values - weights @ values
    squares = np.square(errors)
    others = np.square(weights) @ squares - np.square(weights)[:, None] * squares
    return away, np.sqrt(np.square(1.0 - weights)[:, None] * squares + others)


def _sentence(view: View, center: int, size: FloatArray, is_clear: NDArray[np.bool_]) -> str:
    if view.doubts[center]:
        return _DOUBTS[view.doubts[center]]
    assert view.errors is not None
    found: list[tuple[bool, str, str]] = []
    for feature in sorted(np.flatnonzero(is_clear).tolist(), key=lambda feature: -abs(float(size[feature]))):
        name, kind = view.names[feature], view.kinds[feature]
        is_category = kind == SHARE and "=" in name
        # Categories that a segment has less often follow from the others.
        if size[feature] > 0.0 or not is_category:
            value, error = float(view.values[center, feature]), float(view.errors[center, feature])
            name = name.replace("=", " ", 1) if is_category else name
            words = _difference_in_words(kind, float(size[feature]), value, CLEAR * error)
            found.append((kind == SHARE, words, name.replace("_", " ")))
    found = found[:_MOST_WORDS]
    if not found:
        return _NOTHING
    # Numbers and dates come before shares; columns with the same words stand together, the largest difference first.
    first = {words: place for place, (_, words, _) in reversed([*enumerate(found)])}
    found.sort(key=lambda one: (one[0], first[one[1]]))
    groups = groupby(found, key=lambda one: one[1])
    phrases = []
    for words, several in groups:
        names = [name for _, _, name in several]
        phrases.append(f"{words} {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else f"{words} {names[0]}")
    return "; ".join(phrases)


def _difference_in_words(kind: str, size: float, value: float, reach: float) -> str:
    """The words before the name of the column. The interval of the value reaches so far to each side."""
    if kind != SHARE:
        up, down = ("later", "earlier") if kind == DATE else ("higher", "lower")
        return up if size > 0.0 else down
    low, high = value - reach, value + reach
    if size > 0.0:
        if value >= _NEARLY_ALL and low >= _SURELY_MANY:
            return "nearly all"
        return "mostly" if low > _MOST else "more often"
    if value <= _HARDLY_ANY and high <= _SURELY_FEW:
        return "hardly any"
    return "few" if high < _FEW else "less often"


def segment_lines(fit: KMeansFit, feature_names: Sequence[str] | None = None) -> list[str]:
    """Each segment in one line of text, the largest first: its share and how it differs from the average."""
    view = view_of(fit, feature_names)
    words, texts = sentences(view), view.sizes.share_texts
    return [
        f"Segment {index}, {texts[index][0]} \u00b1 {texts[index][1]} of {view.sizes.noun}"
        + (f": {words[index]}." if words[index] else ".")
        for index in view.order
    ]


_COUNT = "noisy_count"


def centers_frame(fit: KMeansFit, feature_names: Any = None) -> Any:
    """Centers in own units, noisy counts and standard errors, one row per cluster."""
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError("centers_frame needs pandas. Install it: pip install pandas.") from None
    value, schema = fit.value, fit.schema
    if schema is not None:
        columns = schema.decode_frame(value.centers)
    else:
        names = [f"x{j}" for j in range(value.centers.shape[1])] if feature_names is None else map(str, feature_names)
        columns = dict(zip(names, value.centers.T, strict=True))
    frame = pd.DataFrame(columns, index=pd.RangeIndex(len(value.centers), name="cluster"))
    features = list(frame.columns)
    sizes = sizes_of(fit)
    columns = {
        _COUNT: sizes.counts,
        "share": sizes.shares,
        f"{_COUNT}_se": sizes.errors,
        "share_se": sizes.share_errors,
    }
    for name, numbers in columns.items():
        frame.insert(len(frame.columns), name, numbers, allow_duplicates=True)
    if value.standard_errors is not None:
        errors = value.standard_errors * (1.0 if schema is None else schema.unit_scale)
        errors = pd.DataFrame(errors, index=frame.index, columns=[f"{name}_se" for name in features])
        frame = pd.concat([frame, errors], axis=1)
    return frame


def elbow_frame(elbow: Elbow) -> Any:
    """Estimated costs by number of clusters: a pandas frame, or a structured array if pandas is not installed."""
    numbers = np.array([point.n_clusters for point in elbow.points])
    costs = np.array([point.cost for point in elbow.points])
    columns = {"n_clusters": numbers, "estimated_cost": costs, "relative_cost": relative_costs(elbow)}
    try:
        import pandas as pd
    except ImportError:
        array = np.empty(len(numbers), dtype=[(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            array[name] = column
        return array
    return pd.DataFrame(columns)


def relative_costs(elbow: Elbow) -> FloatArray:
    """Estimated cost of each number of clusters, over that of one cluster."""
    costs = np.array([point.cost for point in elbow.points])
    return np.asarray(costs / max(float(costs[0]), 1e-300))
