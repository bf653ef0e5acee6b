"""The part of a page about a regression: coefficients in own units, with error bars and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.cards import number
from pais._base.numerics import FloatArray
from pais.data.cells import all_of, listed
from pais.data.kinds import Auto, Boolean, Bounds, Categories, Column, Scale
from pais.data.schema import Schema
from pais.linear.coefficients import references, with_intervals
from pais.planning.plan import CLEAR
from pais.show.charts import Axis, BarRow, BarTable, Cell, Head, Table
from pais.show.results import Results, TextTable
from pais.show.text import around, as_sentence, error_text, percent, value_text

#: What a table says in place of a coefficient whose interval rests on assumptions and not on the rows.
HIDDEN = "hidden by noise"

# A page shows at most this many classes with drawings. Chosen by eye.
_MOST_CLASSES = 12

_NEVER_ZERO = 1e-300

# Odds are said for one unit of a feature if its coefficient has such a size: 1.01 to 10 times as high. Chosen by eye.
_SMALL, _LARGE = 0.01, 2.3

_MEANING_OF_HIDDEN = (
    " A coefficient is hidden by noise if the rows say less about its size than what is plausible for any table. Then "
    "it has no interval."
)


@dataclass(frozen=True)
class Step:
    """A change of a feature that makes coefficients in different units comparable.

    Attributes
    ----------
    size : float
        The change, in the unit of the feature.
    words : str
        Description of the change, such as "its range".
    reference : str
        Reference of a category: the other one of two, or the average of several. Empty for other features.
    """

    size: float = 1.0
    words: str = "one unit"
    reference: str = ""

    @classmethod
    def of_truth(cls) -> Step:
        """The step of a boolean, or of a category that is compared with rows of no listed category."""
        return cls(1.0, "no to yes")

    @classmethod
    def of(cls, column: Column, *, centered: bool = True) -> tuple[Step, ...]:
        """Steps of the coordinates of a column: its range, two deviations, from false to true, or between categories.

        If coefficients are `centered`, those of a column of at least two categories add up to zero. Then the difference
        of two categories is twice the coefficient of one.
        """
        if isinstance(column, Categories) and centered and len(column.labels) == 2:
            return tuple(cls(2.0, f"from {other}", other) for other in reversed(column.labels))
        if isinstance(column, Categories) and centered and len(column.labels) > 2:
            return tuple(cls(1.0, "from the average", average) for average in references(Schema((column,))))
        if isinstance(column, (Boolean, Categories)):
            return (cls.of_truth(),) * len(column.labels)
        if isinstance(column, Bounds):
            return (cls(column.high - column.low, "its range"),)
        if isinstance(column, Auto) and column.scale is not None:
            return (cls(2.0 * column.scale, "two deviations" if column.standardized else "its range"),)
        return (cls(column.scale, "its scale"),) if isinstance(column, Scale) else (cls(),)


@dataclass(frozen=True, kw_only=True)
class RegressionResults(Results):
    """Coefficients of a regression as a reader sees them.

    Attributes
    ----------
    target : str
        Name of the column that is predicted.
    names : tuple of str
        Names of the features.
    values, standard_errors : array of shape (m, d)
        Coefficients in the units of the columns: one line for a number, or one for each class.
    intercepts, intercept_errors : array of shape (m,), optional
        None if the model has no intercept.
    classes : tuple of str
        What each line predicts; empty if the target is a number.
    hidden : array of bool of shape (m, d), optional
        Which coefficients are hidden by noise: their errors rest on an assumption about their size more than on the
        rows. They have no interval and are never clearly different from zero. None means not one of them.
    steps : sequence of Step
        A change of each feature, by which effects are compared; empty if all changes are one unit.
    compared_with : tuple of str
        Reference of the coefficient of each category, which is a difference from it. It is an empty text for the other
        features, and an empty tuple without categories.
    sources : str
        What the standard errors are due to.
    penalty : str
        What the penalty did to the coefficients, in a sentence.
    counted : float, optional
        Noisy number of rows, from the release itself.
    caution : str, optional
        Text of a warning about the fit.
    """

    template = "linear/page.html"
    #: At most this many coefficients are drawn for each class, or said in sentences. Chosen by eye.
    most_drawn = 6
    noun = table = "coefficients"
    cautions = (
        (
            "Errors of predictions are not protected.",
            "Predictions for training rows, and errors measured on training rows, are not part of this release.",
        ),
        ("Association is not cause.", "A coefficient does not say what happens if a feature is changed."),
    )

    target: str
    names: tuple[str, ...]
    values: FloatArray
    standard_errors: FloatArray
    intercepts: FloatArray | None = None
    intercept_errors: FloatArray | None = None
    classes: tuple[str, ...] = ()
    hidden: NDArray[np.bool_] | None = None
    steps: Sequence[Step] = ()
    compared_with: tuple[str, ...] = ()
    sources: str = "noise"
    penalty: str = ""
    counted: float | None = None
    caution: str | None = None

    @property
    def title(self) -> str:  # type: ignore[override]  # depends on the target
        return "Private logistic regression" if self.classes else "Private linear regression"

    def in_words(self) -> str:
        d, k = len(self.names), len(self.classes)
        several = f"{d} coefficient{'s' * (d != 1)}"
        return f"{several} for {self.target}" if k < 2 else f"{several} for each of {k} classes of {self.target}"

    @property
    def clear(self) -> NDArray[np.bool_]:
        """Which coefficients are more than two standard errors away from zero, and not hidden by noise."""
        return np.asarray((np.abs(self.values) > CLEAR * self.standard_errors) & ~self.is_hidden)

    @property
    def is_hidden(self) -> NDArray[np.bool_]:
        """Which coefficients are hidden by noise, also if `hidden` is None."""
        return np.zeros(self.values.shape, dtype=bool) if self.hidden is None else self.hidden

    @property
    def verdict(self) -> str:
        n_hidden, n_clear, total = int(self.is_hidden.sum()), int(self.clear.sum()), self.values.size
        if n_hidden == total:
            return "the coefficient is hidden by noise" if total == 1 else f"{all_of(total)} coefficients are {HIDDEN}"
        if total == 1:
            start = f"the coefficient is{'' if n_clear else ' not'}"
        elif n_clear == 0:
            start = f"not one of the {total} coefficients is"
        elif n_clear == total:
            start = f"{all_of(total)} coefficients are"
        else:
            start = f"{n_clear} of {total} coefficients {'is' if n_clear == 1 else 'are'}"
        hidden = f"; {n_hidden} {'is' if n_hidden == 1 else 'are'} {HIDDEN}" if n_hidden else ""
        return f"{start} clearly different from zero{hidden}"

    @property
    def meaning(self) -> str:
        return (
            "A coefficient is clearly different from zero if it is more than two standard errors away from it. By "
            "chance, this also holds for about one in twenty coefficients that would be zero without noise. Standard "
            f"errors are due to {self.sources}.{_MEANING_OF_HIDDEN * bool(self.is_hidden.any())}"
        )

    @property
    def readable(self) -> float:
        return float(self.clear.mean())

    @property
    def comparison(self) -> str | None:
        general = self.comparison_in_general
        return " ".join([general, *(self.sentence(j) for j in self._told if self._is_pair(j))]) if general else None

    @property
    def comparison_in_general(self) -> str:
        """Name the reference of the coefficients of categories; empty without categories."""
        averaged = any(step.reference for step in self.steps)
        alone = [
            name
            for name, step, reference in zip(self.names, self.steps, self.compared_with, strict=False)
            if reference and not step.reference
        ]
        sentences = []
        if averaged:
            are_found = any("the found categories" in one for one in self.compared_with)
            sentences.append(
                "the coefficient of a category is its difference from the average of the "
                f"{'found' if are_found else 'listed'} categories of its column, so those of a column add up to zero."
            )
        if alone:
            compare = "the coefficient of {} compares" if len(alone) == 1 else "the coefficients of {} compare"
            sentences.append(f"{compare.format(listed(alone))} with rows of no listed category.")
        return " ".join([*sentences[:1], *map(as_sentence, sentences[1:])])

    @property
    def _sizes(self) -> FloatArray:
        return np.array([step.size for step in self.steps]) if self.steps else np.ones(len(self.names))

    @property
    def _largest(self) -> float:
        """The largest effect of a clear coefficient, or of any if none is clear."""
        effects = np.abs(self.values * self._sizes)
        return max(float(effects[self.clear].max() if self.clear.any() else effects.max()), _NEVER_ZERO)

    @property
    def sentences(self) -> list[str]:
        """The clear coefficients of a single line, each in a sentence, the largest effect first."""
        return [self.sentence(j) for j in self._told[: self.most_drawn]]

    @property
    def has_pairs(self) -> bool:
        """Whether a column has two categories."""
        return any(map(self._is_pair, range(len(self.names))))

    @property
    def _told(self) -> list[int]:
        """Clear coefficients of a single line, the largest effect first; of two categories, the one that is higher."""
        if len(self.values) > 1:
            return []
        clear = [j for j in self._order(0) if self.clear[0, j]]
        return [j for j in clear if self.values[0, j] > 0.0 or not self._is_pair(j)]

    def _is_pair(self, place: int) -> bool:
        """Whether a feature is one of the two categories of its column."""
        return bool(self.steps) and self.steps[place].reference in self.names

    def sentence(self, place: int) -> str:
        """What a coefficient of a single line says, in a sentence, with its interval."""
        name, change = self.names[place], self.steps[place] if self.steps else Step()
        # The difference of two categories is twice the coefficient of one.
        times = change.size if change.reference else 1.0
        if change.reference:
            step = f"For {name}"
        elif change == Step.of_truth():
            step = f"If {name} holds"
        else:
            if self.classes and not _SMALL <= abs(float(self.values[0, place])) <= _LARGE and change.size != 1.0:
                # Odds for one more unit would be 1, or very large: take a round part of the range of the feature.
                times = 10.0 ** math.floor(math.log10(change.size / 5.0))
            step = f"For one more unit of {name}" if times == 1.0 else f"For {number(times, 3)} more units of {name}"
        value, error = times * float(self.values[0, place]), times * float(self.standard_errors[0, place])
        reach = CLEAR * error
        if self.classes:
            finest = max(min(abs(value), reach), 1e-12)
            digits = 3 if finest >= _SMALL else 2 - math.floor(math.log10(finest))
            logits = (value, value - reach, value + reach)
            odds, *ends = (number(math.exp(min(logit, 700.0)), digits) for logit in logits)
            than = f"those for {change.reference}" if change.reference else "as high"
            return (
                f"{step}, the odds of {self.target} = {self.classes[0]} are {odds} times {than} ({' to '.join(ends)})."
            )
        low, high = sorted(abs(end) for end in (value - reach, value + reach))
        size, *ends = (value_text(amount, error) for amount in (abs(value), low, high))
        than = f" than for {change.reference}" if change.reference else ""
        way = "higher" if value > 0.0 else "lower"
        return f"{step}, {self.target} is {way} by {size}{than} ({' to '.join(ends)})."

    def value_columns(self) -> dict[str, Any]:
        values, errors, names = self.values, self.standard_errors, [*self.names]
        hidden, compared_with = self.is_hidden, [reference or None for reference in self.compared_with]
        if self.intercepts is not None and self.intercept_errors is not None:
            values, errors = (
                np.column_stack([values, self.intercepts]),
                np.column_stack([errors, self.intercept_errors]),
            )
            hidden = np.column_stack([hidden, np.zeros(len(values), dtype=bool)])
            names.append("intercept")
            compared_with.append(None)
        columns: dict[str, Any] = {"class": np.repeat(self.classes, len(names))} if len(values) > 1 else {}
        columns |= {"feature": names * len(values), **with_intervals(values.ravel(), errors.ravel(), hidden.ravel())}
        return columns | {"compared_with": pa.array(compared_with * len(values), pa.string())}

    def text_table(self, width: int) -> TextTable:
        lines = zip(self.values.T, self.standard_errors.T, self.clear.T, self.is_hidden.T, strict=True)
        rows = [
            [name, *(_text_cell(*numbers) for numbers in zip(*line, strict=True))]
            for name, line in zip(self.names, lines, strict=True)
        ]
        if self.intercepts is not None and self.intercept_errors is not None:
            pairs = zip(self.intercepts, self.intercept_errors, strict=True)
            rows.append(["intercept", *(_text_cell(*pair, True, False) for pair in pairs)])
        is_weak = not (self.clear | self.is_hidden).all()
        note = "value ± standard error" + ("; in parentheses: within two of them of zero" if is_weak else "")
        if len(self.classes) == 1:
            note += f"\nA coefficient is the change of the log odds of {self.target} = {self.classes[0]}."
        if self.comparison is not None:
            note += f"\n{as_sentence(self.comparison)}"
        header = ["feature", *(self.classes if len(self.values) > 1 else ("coefficient",))]
        return TextTable("Coefficients", header, rows, note)

    def _cell(self, line: int, place: int) -> Cell:
        if self.is_hidden[line, place]:
            return Cell(text=HIDDEN, weak=True, hint="the rows say less about it than what is plausible for any table")
        value, error = float(self.values[line, place]), float(self.standard_errors[line, place])
        weak = not self.clear[line, place]
        return Cell(
            text=value_text(value, error),
            small=(around(error),),
            level=value * float(self._sizes[place]) / self._largest,
            weak=weak,
            hint="within two standard errors of zero" if weak else "",
        )

    def _order(self, line: int) -> list[int]:
        """Features with clear coefficients first, then by the size of the effect; those hidden by noise are last."""
        effects, clear, hidden = np.abs(self.values[line] * self._sizes), self.clear[line], self.is_hidden[line]
        return sorted(range(len(self.names)), key=lambda j: (hidden[j], not clear[j], -float(effects[j])))

    @property
    def values_table(self) -> Table | BarTable:
        """All coefficients: features by class, or with error bars of their effects if there is one line."""
        if len(self.values) == 1:
            return self._bar_table(0, self._order(0), "Coefficients")
        rows = [
            (Head(name), [self._cell(line, j) for line in range(len(self.values))]) for j, name in enumerate(self.names)
        ]
        if self._intercept_cells:
            rows.append((Head("intercept"), self._intercept_cells))
        return Table(caption="Coefficients by class", corner="Feature", columns=[*map(Head, self.classes)], rows=rows)

    @property
    def pictures(self) -> list[BarTable]:
        """The strongest coefficients of each class, with error bars; empty if there is one line."""
        tables = []
        for line, name in enumerate(self.classes[:_MOST_CLASSES] if len(self.values) > 1 else ()):
            strongest = [j for j in self._order(line) if self.clear[line, j]][: self.most_drawn]
            if strongest:
                tables.append(self._bar_table(line, strongest, f"{self.target} = {name}", brief=True))
        return tables

    @property
    def _intercept_cells(self) -> list[Cell]:
        if self.intercepts is None or self.intercept_errors is None:
            return []
        return [
            Cell(text=value_text(value, error), small=(around(error),))
            for value, error in zip(self.intercepts.tolist(), self.intercept_errors.tolist(), strict=True)
        ]

    def _bar_table(self, line: int, places: Sequence[int], caption: str, *, brief: bool = False) -> BarTable:
        """Coefficients of one line, each with an error bar of its effect. A brief table has no further columns."""
        sizes, values, errors = self._sizes, self.values[line], self.standard_errors[line]
        reach = np.abs(values * sizes) + CLEAR * errors * sizes
        clear, hidden = self.clear[line], self.is_hidden[line]
        # An uncertain coefficient must not make all others too small to see.
        top = float(reach[clear if clear.any() else ~hidden].max(initial=0.0)) or 1.0
        compared = bool(self.steps) and not brief
        rows = []
        for j in places:
            effect, error = float(values[j] * sizes[j]), float(errors[j] * sizes[j])
            spread = float(CLEAR * errors[j] * sizes[j])
            cells = [self._cell(line, j)]
            if compared:
                step = self.steps[j]
                plain = step.size == 1.0 or step.reference
                words = step.words if plain else f"{number(step.size, 3)} ({step.words})"
                texts = (words, "" if hidden[j] else value_text(effect, error))
                cells += [Cell(text=text, kind="count") for text in texts]
            bar = None if hidden[j] else (effect, effect - spread, effect + spread)
            rows.append(BarRow(head=Head(self.names[j]), bar=bar, cells=cells, weak=not clear[j]))
        if self._intercept_cells and not brief:
            cells = [self._intercept_cells[line]._replace(kind="")] + [Cell(text="", kind="count")] * (2 * compared)
            rows.append(BarRow(head=Head("intercept", "count"), bar=None, cells=cells))
        return BarTable(
            caption=caption,
            corner="Feature",
            axis=Axis.over(-top, top, name="effect" if self.steps else ""),
            columns=("coefficient", "for a change of", "effect") if compared else ("coefficient",),
            rows=rows,
        )


def _text_cell(value: float, error: float, clear: bool, hidden: bool) -> str:
    if hidden:
        return HIDDEN
    text = f"{value_text(float(value), float(error))} ± {error_text(float(error))}"
    return text if clear else f"({text})"


def penalty_in_words(alpha: object, penalised: FloatArray, plain: FloatArray) -> str:
    """What a penalty did, from coefficients with and without it, in the coordinates in which it holds."""
    if alpha == 0.0:
        return "There is no penalty on large coefficients (alpha = 0)."
    source = "follows from the known noise (alpha = 'noise')" if alpha == "noise" else f"was stated (alpha = {alpha})"
    before, after = float(np.linalg.norm(plain)), float(np.linalg.norm(penalised))
    shorter = 1.0 - after / max(before, _NEVER_ZERO)
    change = f"{percent(shorter)} shorter than" if shorter > 0.005 else "about as long as"
    return (
        f"The penalty on large coefficients {source}. It draws coefficients toward zero where the noise hides them: "
        f"together, and on scaled columns, they are {change} without a penalty."
    )
