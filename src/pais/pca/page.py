"""The part of a page about principal components: explained variance above the noise, and loadings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pais._base.cards import number
from pais._base.numerics import FloatArray
from pais.planning.plan import CLEAR
from pais.show.charts import Bar, Cell, Chart, Head, Table
from pais.show.results import Results, TextTable
from pais.show.text import around, direction_in_words, percent, value_text

#: The first columns of a file of components. No feature may have such a name.
FILE_COLUMNS = ("component", "explained_variance", "explained_variance_ratio", "standard_error")

# A scree plot shows at most this many components, and this many are described in words. Chosen by eye.
_MOST_BARS, _MOST_WORDS = 30, 6


@dataclass(frozen=True, kw_only=True)
class ComponentResults(Results):
    """Principal components as a reader sees them.

    Attributes
    ----------
    names : tuple of str
        Names of the features, or of the coordinates of scaled columns.
    loadings : array of shape (k, d)
        One component in each row.
    variances, shares : array of shape (k,)
        Estimated variance along each component, and its share of the total.
    standard_errors : array of shape (k,)
        Standard error of each variance, due to noise, sampling and clipped rows.
    noise_level : float
        Largest variance that the noise shows by itself.
    above_noise : int
        Number of components above this level.
    scaled : bool
        Whether the features are scaled columns.
    noisy_variances : array of shape (k,), optional
        Variances as released, which the noise spreads. They decide what stands above the noise.
    captured : float, optional
        Predicted variance along these components over that along the best of their number.
    counted : float, optional
        Noisy number of rows, from the release itself.
    caution : str, optional
        Text of a warning about the fit.
    """

    template = "pca/page.html"
    #: The table of loadings shows at most this many components.
    most_columns = 30
    title = "Private PCA"
    noun = table = "components"
    units = "and components and variances refer to the scaled columns."
    cautions = (
        (
            "Coordinates are not protected.",
            "The coordinates of training rows along the components are not part of this release.",
        ),
        (
            "Components below the noise.",
            "Directions that the noise drowns are close to random. Do not read their loadings.",
        ),
    )

    names: tuple[str, ...]
    loadings: FloatArray
    variances: FloatArray
    shares: FloatArray
    standard_errors: FloatArray
    noise_level: float
    above_noise: int
    scaled: bool = False
    noisy_variances: FloatArray | None = None
    captured: float | None = None
    counted: float | None = None
    caution: str | None = None

    def in_words(self) -> str:
        k, d = self.loadings.shape
        return f"{k} principal component{'s' * (k != 1)} of {d} feature{'s' * (d != 1)}"

    @property
    def _clear(self) -> int:
        """Number of the components on this page that stand above the noise."""
        return min(self.above_noise, len(self.loadings))

    def _is_readable(self, place: int) -> bool:
        """Whether to read the loadings of a component: it is above the noise, and its estimated variance is too."""
        noise = self.noise_level / math.sqrt(2.0 * len(self.names))
        return place < self._clear and float(self.variances[place]) > CLEAR * noise

    @property
    def verdict(self) -> str:
        k, clear = len(self.loadings), self._clear
        if clear == 0:
            return "no component stands above the noise"
        if clear == k:
            words = {1: "the component stands", 2: "both components stand"}
            return f"{words.get(k, f'all {k} components stand')} above the noise"
        return (
            f"the first of {k} components stands above the noise"
            if clear == 1
            else f"the first {clear} of {k} components stand above the noise"
        )

    @property
    def meaning(self) -> str:
        more = self.above_noise - len(self.loadings)
        text = (
            "A component stands above the noise if its estimated variance is clearly above zero, and its released "
            "variance is larger than any variance that the noise shows by itself."
        )
        if more <= 0:
            return text
        others = f"{more} further components do, which were" if more > 1 else "One further component does, which was"
        return f"{text} {others} not asked for."

    @property
    def readable(self) -> float:
        return self._clear / len(self.loadings)

    def value_columns(self) -> dict[str, Any]:
        numbers = np.arange(1, len(self.variances) + 1)
        columns = dict(zip(FILE_COLUMNS, (numbers, self.variances, self.shares, self.standard_errors), strict=True))
        return columns | dict(zip(self.names, self.loadings.T, strict=True))

    def text_table(self, width: int) -> TextTable:
        lines = [
            ("variance", self.variances, ".4g"),
            ("standard error", self.standard_errors, ".2g"),
            ("share", self.shares, ".1%"),
            *((name, numbers, ".3f") for name, numbers in zip(self.names, self.loadings.T, strict=True)),
        ]
        clear = self._clear
        rows = [
            [name, *(f"{n:{form}}" if place < clear else f"({n:{form}})" for place, n in enumerate(numbers))]
            for name, numbers, form in lines
        ]
        header = ["component", *(str(place) for place in range(1, len(self.variances) + 1))]
        is_clear = clear == len(self.variances)
        note = "" if is_clear else "In parentheses: components that do not stand above the noise."
        return TextTable("Components", header, rows, note)

    @property
    def explained(self) -> str:
        """Share of the variance that the components explain together."""
        return percent(min(float(self.shares.sum()), 1.0))

    @property
    def chart(self) -> Chart:
        shown = min(len(self.variances), _MOST_BARS)
        marks = [None] * shown if self.noisy_variances is None else self.noisy_variances[:shown].tolist()
        return Chart(
            name="scree",
            title="Variance by component",
            description=f"From {number(float(self.variances[0]), 3)} for component 1 to "
            f"{number(float(self.variances[shown - 1]), 3)} for component {shown}; the noise level is "
            f"{number(self.noise_level, 3)}.",
            x_name="component",
            x_range=(0.0, shown),
            x_ticks=[(j + 0.5, str(j + 1)) for j in range(0, shown, -(-shown // 10))],
            bars=[
                Bar(
                    x=j + 0.5,
                    value=float(self.variances[j]),
                    error=2.0 * float(self.standard_errors[j]),
                    mark=marks[j],
                    weak=j >= self._clear,
                )
                for j in range(shown)
            ],
            limit=self.noise_level,
            note=self._note(),
        )

    def _note(self) -> str:
        """What the lines in the chart mean."""
        marks = (
            ""
            if self.noisy_variances is None
            else " Short lines: variances as released. The noise spreads them, and the bars are without this bias. A "
            "component stands above the noise if its short line is above the dashed line and its bar is clearly above "
            "zero."
        )
        grey = " Grey components do not stand above the noise." if self._clear < len(self.loadings) else ""
        return (
            f"Dashed line: the noise level, {number(self.noise_level, 3)}. Upright lines show two standard errors, "
            f"due to noise, sampling and clipped rows.{marks}{grey}"
        )

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """Number, variance, share and total share of each component."""
        cumulative, errors = np.minimum(np.cumsum(self.shares), 1.0), self.standard_errors.tolist()
        return [
            (
                str(j + 1),
                f"{value_text(float(self.variances[j]), errors[j])} {around(errors[j])}",
                percent(float(self.shares[j])),
                percent(float(cumulative[j])),
            )
            for j in range(min(len(self.loadings), _MOST_BARS))
        ]

    @property
    def directions(self) -> list[tuple[int, str, str]]:
        """Number, share of the variance and largest loadings of the first components that can be read."""
        return [
            (j + 1, percent(float(self.shares[j])), direction_in_words(self.loadings[j], self.names))
            for j in range(min(self._clear, _MOST_WORDS))
            if self._is_readable(j)
        ]

    @property
    def has_grey(self) -> bool:
        return not all(map(self._is_readable, range(len(self.loadings))))

    @property
    def values_table(self) -> Table:
        shown = range(min(len(self.loadings), self.most_columns))
        largest = np.maximum(np.abs(self.loadings).max(axis=1), 1e-300)
        readable = [self._is_readable(j) for j in shown]
        return Table(
            caption="Loadings of each feature",
            corner="Feature",
            columns=[Head(str(j + 1), drowned=not readable[j]) for j in shown],
            rows=[
                (
                    Head(name),
                    [
                        Cell(
                            text=f"{self.loadings[j, feature]:.2f}".replace("-0.00", "0.00"),
                            level=float(self.loadings[j, feature] / largest[j]),
                            weak=not readable[j],
                            hint="" if readable[j] else "the noise hides this component",
                        )
                        for j in shown
                    ],
                )
                for feature, name in enumerate(self.names)
            ],
        )
