"""One sentence about each segment: in which columns it differs from the average by more than the noise, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.planning.readability import CLEAR, threshold
from pais.report.view import DATE, NOT_DISTINCT, SHARE, WITHIN_NOISE, Sizes, View

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
    values: `tests/unit/report/test_sentences.py`.
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
