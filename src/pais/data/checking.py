"""Check a table against what is stated about its columns, before any budget is spent. For its owner: NOT PRIVATE."""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base.cards import Card, Carded
from pais._base.validate import attempt, without_sizes
from pais.data.cells import MISSING_WORDS, is_text, similar_names, texts_of_objects, times_of_days, trimmed
from pais.data.columns import Columns
from pais.data.dialect import CSVFile, Dialect, in_words, likely_forms
from pais.data.engines.files import DataFile, files_of, names_in, open_file
from pais.data.engines.streams import stream_of
from pais.data.kinds import Auto, Boolean, Bounds, Categories, Column, Dates, Names, Scale
from pais.data.schema import Schema
from pais.data.sources import with_names
from pais.data.tables import as_table, holds_objects, is_frame, require_table
from pais.data.units import Unit, ids_of_objects, normalised, people_concern, people_word, unit_of
from pais.errors import ArgumentError, DataError

#: Every line that a check prints begins so.
MARK = "not private: "

# Distinct texts of a column that are remembered for hints: a bound on memory.
_MOST_TEXTS = 10_000

# Only the most frequent cells are compared with the categories, and a few are shown. Chosen by eye.
_COMPARED, _SHOWN = 200, 3

# How similar two texts are if one may be a misspelling of the other, from 0 to 1. Chosen by eye.
_SIMILAR = 0.75

# A form, or a single value, explains the cells that do not fit if so many of them have it.
_MOST = 0.5

# Letters beside digits, or a sign such as that of a currency.
_BESIDE = re.compile(r"\d.*[^\W\d_]|[^\W\d_].*\d|[€$£¥%<>~]")

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """How many cells of a column do not fit what is stated about it, and hints. Secret.

    Attributes
    ----------
    missing, unreadable, below, above, unlisted : int
        Cells that are empty; that hold something else than stated; that lie beyond a bound, and are clipped to it; and
        that are none of the categories. Each cell counts once.
    n_cells : int
        Number of all cells.
    n_used : int
        Cells that a statistic uses: they have a value, and their row has an id if `unit` is stated.
    low, high : str, optional
        The smallest and the largest number or date.
    hints : tuple of str
        What may be the reason.
    """

    name: str
    kind: str
    n_cells: int
    n_used: int
    missing: int
    unreadable: int
    below: int
    above: int
    unlisted: int
    low: str | None
    high: str | None
    hints: tuple[str, ...]

    @property
    def fitting(self) -> int:
        return self.n_cells - self.missing - self.unreadable - self.below - self.above - self.unlisted

    def lines(self) -> Iterator[str]:
        parts = [("missing", self.missing), ("unreadable", self.unreadable), ("below the bounds", self.below)]
        parts += [("above the bounds", self.above), ("not among the categories", self.unlisted)]
        found = [f"{percent(number, self.n_cells)} {words}" for words, number in parts if number]
        values = "" if self.low is None else f"; values from {self.low} to {self.high}"
        yield f"{self.name}: {', '.join(found) or 'every cell fits'}{values}"
        yield from (f"{self.name}: hint: {hint}" for hint in self.hints)


@dataclass(frozen=True, kw_only=True)
class PeopleCheck:
    """The units of the rows: how many, and how many rows each has. Secret."""

    column: str
    n_people: int
    n_people_kept: int
    without_id: int
    median_rows: float
    rows_of_most: float
    most_rows: int

    @property
    def words(self) -> tuple[str, str]:
        """What one of them and several are called."""
        return people_word(self.column)

    def lines(self) -> Iterator[str]:
        one, many = self.words
        yield (
            f"{self.column}: {self.n_people:,} {many}; rows of a {one}: median {self.median_rows:g}, at most "
            f"{self.rows_of_most:g} for 95 % of them, {self.most_rows:,} for one"
        )
        if self.without_id:
            has = "row has" if self.without_id == 1 else "rows have"
            yield f"{self.column}: {self.without_id:,} {has} no id, so no release counts them: they name no {one}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Check(Carded):
    """What `pais.check` found. NOT PRIVATE: every number is exact. Keep it as secret as the table.

    Attributes
    ----------
    columns : tuple of ColumnCheck
        One for each stated column.
    n_rows : int
        Number of rows.
    n_skipped : int, optional
        Lines of CSV files that are no rows: the number of cells is not that of the header, or a quote is not closed.
    n_kept : int
        Rows that a model uses with ``missing="drop"``: an id, and no number, date or truth value that is missing.
    n_filled : int
        Rows that a model uses with ``missing="midpoint"``: an id, and a target if there is one.
    target : str, optional
        The column that a model predicts. Rows without a known target are not kept.
    people : PeopleCheck, optional
        The units of the rows.
    concern : str, optional
        A warning if `unit` is left out although the name of a column looks like the id of people.
    """

    columns: tuple[ColumnCheck, ...]
    n_rows: int
    n_skipped: int | None
    n_kept: int
    n_filled: int
    target: str | None
    people: PeopleCheck | None
    concern: str | None = None

    def lines(self) -> list[str]:
        """The findings, one on each line, each marked as not private."""
        skipped = f"; {self.n_skipped:,} lines are no rows (number of cells, open quote)" if self.n_skipped else ""
        lines = [f"{self.n_rows:,} rows{skipped}"]
        lines += [] if self.people is None else self.people.lines()
        lines += [] if self.concern is None else [f"hint: {self.concern}"]
        lines += [line for column in self.columns for line in column.lines()]
        return [MARK + line for line in [*lines, *self._uses()]]

    def _uses(self) -> Iterator[str]:
        people = "" if self.people is None else f" of {self.people.n_people_kept:,} {self.people.words[1]}"
        words = "a model" if self.target is None else f"a model of {self.target}"
        yield (
            f'{words} uses {self.n_kept:,} rows{people} ({percent(self.n_kept, self.n_rows)}) with missing="drop"; '
            f'with missing="midpoint", it fills in missing features and uses {self.n_filled:,} rows'
        )
        counts = ", ".join(f"{column.name} {column.n_used:,}" for column in self.columns)
        with_id = "" if self.people is None else ", in rows with an id"
        yield f"a statistic uses the cells that have a value{with_id}: {counts}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_frame(self) -> Any:
        """One row for each column: shares of cells, the range of the values, and the hints. Needs pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise ArgumentError("to_frame needs pandas. Install it: pip install pandas.") from None
        shares = ("missing", "unreadable", "below", "above", "unlisted", "fitting")
        rows = [
            {name: getattr(column, name) / max(column.n_cells, 1) for name in shares}
            | {"low": column.low, "high": column.high, "hints": "; ".join(column.hints)}
            for column in self.columns
        ]
        index = pd.Index([column.name for column in self.columns], name=f"{MARK}column")
        return pd.DataFrame(rows, index=index)

    def to_dict(self) -> dict[str, Any]:
        """All findings, for a file. NOT PRIVATE."""
        return {
            "kind": "check",
            "private": False,
            "rows": self.n_rows,
            "lines_skipped": self.n_skipped,
            "rows_kept": self.n_kept,
            "rows_filled": self.n_filled,
            "target": self.target,
            "people": None if self.people is None else vars(self.people),
            "columns": [{**vars(column), "hints": list(column.hints)} for column in self.columns],
        }

    def _card(self) -> Card:
        facts = [line.removeprefix(MARK).partition(": ") for line in self.lines()[1:]]
        return Card(
            kind="Check",
            summary=self.lines()[0].removeprefix(MARK),
            facts=tuple((f"{MARK}{label}", text) if mark else (MARK, label) for label, mark, text in facts),
            alarm="not private: every number is exact, for the owner of the data only",
        )


@without_sizes
def check(
    data: object,
    columns: Mapping[str, object] | Schema,
    *,
    unit: str | Unit | None = None,
    target: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    date_format: str | None = None,
) -> Check:
    """Compare a table with what you state about its columns, before you spend any budget.

    NOT PRIVATE. The result is for the owner of the data: it holds exact numbers, the smallest and the largest values,
    and cells. It is not written to a file, charges no ledger and has no effect on a later release.

    Parameters
    ----------
    data : table, path, CSVFile, query or batches
        As in `pais.source`, with named columns. Files are streamed. Of a Spark DataFrame, pass a part:
        ``frame.limit(100_000).toPandas()``.
    columns : mapping or Schema
        What is public about each column, as in the release that you plan.
    unit : str, optional
        The column that names the person of each row.
    target : str, optional
        The column that a regression or classification is to predict.
    separator, decimal, thousands, encoding, date_format : str, optional
        How a CSV file is written: see `CSVFile`.

    Returns
    -------
    Check
        Print it, or use `to_frame`. For each column: the shares of cells that are missing, unreadable, beyond the
        bounds or not among the categories, with hints such as decimal commas, days before months, or misspelled
        categories; the number of rows and people; and how many of them a model uses.

    Notes
    -----
    Cells are read by the code that reads them for a release, so a row that is used here is used there:
    `tests/conformance/test_check.py`.

    Examples
    --------
    >>> import pais
    >>> columns = {"age": (18, 100), "region": ["north", "south", "east", "west", "centre"]}
    >>> found = pais.check(pais.example_people(100), columns, unit="customer_id")
    >>> found.lines()[0]
    'not private: 600 rows'
    """
    schema = with_names(Schema.of(columns), data)
    if target is not None and target not in schema.names:
        raise ArgumentError(
            f"target={target!r} is not one of the stated columns. State in columns what is public about it."
        )
    stated = Dialect(
        separator=separator, decimal=decimal, thousands=thousands, encoding=encoding, date_format=date_format
    )
    if isinstance(data, CSVFile):
        stated, data = data.dialect_beside(stated), data.path
    columns_read = Columns(schema=schema, unit=unit_of(unit, None), dialect=stated)
    files, tables, names = _opened(data, columns_read)
    counted = _Counted(columns=schema, unit=columns_read.unit, target=target)
    for file in files:
        for group in [None] if file.metadata is None else range(file.metadata.num_row_groups):
            for batch in file.batches(group):
                counted.add(batch, stated)
    for table in tables:
        for batch in table.combine_chunks().to_batches():
            counted.add(batch, stated)
    # A CSV file has at most as many rows as lines.
    has_lines = any(file.metadata is None for file in files)
    return counted.result(
        n_skipped=sum(file.most_rows for file in files) - counted.n_rows if has_lines else None,
        dialect=stated if files else None,
        concern=people_concern(names, schema.names) if unit is None else None,
    )


def _opened(data: Any, columns: Columns) -> tuple[list[DataFile], Iterable[pa.Table], tuple[str, ...]]:
    """The files of the data, or its tables with the stated columns; and the names of all its columns."""
    assert columns.schema is not None
    if isinstance(data, (str, Path)):
        places = files_of(data)
        return [open_file(*place, columns) for place in places], [], tuple(names_in(*places[0], columns.dialect))
    if is_frame(data, "pyspark.sql"):
        raise DataError("a Spark DataFrame is not checked. Pass a part of it, such as frame.limit(100_000).toPandas().")
    require_table(data)
    if columns.dialect.stated:
        raise ArgumentError(f"{', '.join(columns.dialect.stated)} is stated, which is for CSV files. Leave it out.")
    names = [*columns.schema.names, *(() if columns.unit is None else (columns.unit.column,))]
    stream = stream_of(data)
    if stream is not None:
        known = _known(names, stream.schema.names)
        return [], stream.tables(names), known
    if is_frame(data, "pandas"):
        known = _known(names, data.columns)
        return [], [_pandas_cells(data, names, columns.unit)], known
    if not hasattr(data, "__arrow_c_stream__"):
        raise DataError("an array has no column names. Pass a table or a file.")
    table = as_table(data, Columns())
    known = _known(names, table.column_names)
    return [], [table.select(names)], known


def _known(names: list[str], columns: Iterable[object]) -> tuple[str, ...]:
    """The names of the columns of a table. Raise if some of those needed are not among them."""
    known = tuple(map(str, columns))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(f"column(s) {', '.join(unknown)} do not exist in the data. {similar_names(unknown, known)}")
    return known


def _pandas_cells(frame: Any, names: list[str], unit: Unit | None) -> pa.Table:
    """The columns of a pandas frame. Python objects become text, cell by cell, as their reader would write them."""
    arrays = []
    for name in names:
        series = frame[name]
        column = None if holds_objects(series.dtype) else attempt(lambda series=series: pa.array(series))  # type: ignore[misc]  # bound now
        if column is None:
            objects = np.asarray(series.to_numpy(dtype=object))
            is_unit = unit is not None and name == unit.column
            column = ids_of_objects(objects) if is_unit else texts_of_objects(objects)
        arrays.append(column)
    return pa.table(arrays, names=names)


@dataclass(kw_only=True)
class _Tally:
    """Counts of the cells of one column, over all batches. Secret."""

    column: Column
    counts: Counter[str] = field(default_factory=Counter)
    #: Texts of the cells that are unreadable, unlisted or beyond the bounds.
    texts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    low: float = np.inf
    high: float = -np.inf

    def add(self, cells: pa.Array, dialect: Dialect, counts: Mask) -> Mask:
        """Count the cells of a batch, and return which of them have a value that is stated.

        `counts` says whose rows a release uses.
        """
        column = self.column
        plain = dialect.cells(cells, column.form) if is_text(cells.type) else cells
        fits = column.accepts(plain.type)
        encoded = column.encode(plain) if fits else [np.full(len(cells), np.nan)]
        is_listed = isinstance(column, Categories)
        known = np.any([part > 0.0 for part in encoded], axis=0) if is_listed and fits else np.isfinite(encoded[0])
        if isinstance(column, Names) and fits:
            known = column.places(plain) >= 0
            _remember(self.texts["names"], column.texts(plain), known, trim=False)
        missing = _is_missing(cells) & ~known
        problem, wrong = "unlisted" if is_listed and fits else "unreadable", ~known & ~missing
        masks = {"used": known & counts, "missing": missing, problem: wrong}
        _remember(self.texts[problem], cells, wrong)
        if fits and isinstance(column, (Auto, Bounds, Scale)):
            values = column.numbers(plain)
            whole = values[np.isfinite(values)]
            if whole.size:
                self.low, self.high = min(self.low, float(whole.min())), max(self.high, float(whole.max()))
            if isinstance(column, Bounds):
                masks |= {"below": values < column.low, "above": values > column.high}
                _remember(self.texts["beyond"], cells, masks["below"] | masks["above"])
        self.counts.update({name: int(np.count_nonzero(mask)) for name, mask in masks.items()})
        return known

    def result(self, n_cells: int, dialect: Dialect | None) -> ColumnCheck:
        unreadable, unlisted, beyond = (self.texts[problem] for problem in ("unreadable", "unlisted", "beyond"))
        hints = list(_hints_of_text(self.column, unreadable, dialect)) if unreadable else []
        if unlisted and isinstance(self.column, Categories):
            hints += _hints_of_categories(list(map(str, self.column.values)), unlisted, dialect)
        if isinstance(self.column, Names):
            hints += _hints_of_names(self.column, self.texts["names"])
        [(value, number)] = beyond.most_common(1) or [("", 0)]
        if number >= 3 and number >= _MOST * beyond.total():
            share = percent(number, beyond.total())
            hints.append(f"{value!r} is {share} of the values beyond the bounds: it may stand for a missing value")
        shown = [f"{value:g}" for value in (self.low, self.high)]
        if isinstance(self.column, Dates):
            shown = times_of_days(np.array([self.low, self.high])).astype("datetime64[D]").astype(str).tolist()
        numbers = {name: self.counts[name] for name in ("missing", "unreadable", "below", "above", "unlisted")}
        return ColumnCheck(
            name=self.column.name,
            kind=self.column.kind,
            n_cells=n_cells,
            n_used=self.counts["used"],
            **numbers,
            low=shown[0] if self.low <= self.high else None,
            high=shown[1] if self.low <= self.high else None,
            hints=tuple(hints),
        )


class _Counted:
    """Counts of all columns, rows and people, over all batches. Secret."""

    def __init__(self, *, columns: Schema, unit: Unit | None, target: str | None) -> None:
        self._tallies = [_Tally(column=column) for column in columns.columns]
        self._unit, self._target = None if unit is None else unit.column, target
        self.n_rows = self._n_kept = self._n_filled = self._without_id = 0
        self._people: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch, dialect: Dialect) -> None:
        ids = None if self._unit is None else normalised(batch.column(self._unit), "the data")
        has_id = np.ones(batch.num_rows, dtype=bool)
        if ids is not None:
            has_id = np.asarray(ids.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        kept, filled = has_id.copy(), has_id.copy()
        for tally in self._tallies:
            known = tally.add(batch.column(tally.column.name), dialect, has_id)
            is_target = tally.column.name == self._target
            # A category that is missing or not listed is none of those listed, and keeps its row.
            if not isinstance(tally.column, (Categories, Names)) or is_target:
                kept &= known
            if is_target:
                filled &= known
        self.n_rows += batch.num_rows
        self._n_kept += int(np.count_nonzero(kept))
        self._n_filled += int(np.count_nonzero(filled))
        if ids is not None:
            self._without_id += int(np.count_nonzero(~has_id))
            self._people.append(_by_person(_rows_of_people(ids, kept).filter(pa.array(has_id))))

    def result(self, *, n_skipped: int | None, dialect: Dialect | None, concern: str | None) -> Check:
        return Check(
            columns=tuple(tally.result(self.n_rows, dialect) for tally in self._tallies),
            n_rows=self.n_rows,
            n_skipped=n_skipped,
            n_kept=self._n_kept,
            n_filled=self._n_filled,
            target=self._target,
            people=self._people_check(),
            concern=concern,
        )

    def _people_check(self) -> PeopleCheck | None:
        if self._unit is None:
            return None
        empty = pa.table(
            {"id": pa.nulls(0, pa.large_binary()), "n": pa.nulls(0, pa.int64()), "kept": pa.nulls(0, pa.int64())}
        )
        people = _by_person(pa.concat_tables([empty, *self._people]))
        n_rows = people.column("n").to_numpy()
        rows = n_rows if n_rows.size else np.zeros(1, np.int64)
        return PeopleCheck(
            column=self._unit,
            n_people=int(n_rows.size),
            n_people_kept=int(np.count_nonzero(people.column("kept").to_numpy())),
            without_id=self._without_id,
            median_rows=float(np.median(rows)),
            rows_of_most=float(np.quantile(rows, 0.95, method="inverted_cdf")),
            most_rows=int(rows.max()),
        )


def _rows_of_people(ids: pa.Array, kept: Mask) -> pa.Table:
    """One row for each row, with its id as bytes, whatever the type of the ids."""
    names = ids if pa.types.is_large_binary(ids.type) else ids.cast(pa.large_string()).cast(pa.large_binary())
    return pa.table({"id": names, "n": np.ones(len(ids), np.int64), "kept": kept.astype(np.int64)})


def _by_person(table: pa.Table) -> pa.Table:
    sums = table.group_by("id").aggregate([("n", "sum"), ("kept", "sum")])
    return sums.select(["id", "n_sum", "kept_sum"]).rename_columns(["id", "n", "kept"])


def _is_missing(cells: pa.Array) -> Mask:
    """Which cells are empty, NaN, infinite, or a word for a missing value."""
    cells = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
    missing = cells.is_null()
    if is_text(cells.type):
        texts = trimmed(cells.cast(pa.large_string()))
        missing = pc.or_(missing, pc.is_in(texts, value_set=MISSING_WORDS.cast(pa.large_string())))
    elif pa.types.is_floating(cells.type):
        missing = pc.or_(missing, pc.fill_null(pc.invert(pc.is_finite(cells)), True))
    return np.asarray(pc.fill_null(missing, True).to_numpy(zero_copy_only=False), dtype=bool)


def _remember(texts: Counter[str], cells: pa.Array, mask: Mask, *, trim: bool = True) -> None:
    """Count the texts of some cells. Of many texts, the most frequent are remembered."""
    if not mask.any():
        return
    chosen = cells.filter(pa.array(mask))
    words = attempt(lambda: chosen.cast(pa.large_string()))
    if words is None:
        texts[str(chosen.type)] += len(chosen)
        return
    for pair in pc.value_counts(pc.ascii_trim_whitespace(words) if trim else words).to_pylist():
        texts[pair["values"]] += pair["counts"]
    if len(texts) > 2 * _MOST_TEXTS:
        kept = texts.most_common(_MOST_TEXTS)
        texts.clear()
        texts.update(dict(kept))


def _hints_of_text(column: Column, cells: Counter[str], dialect: Dialect | None) -> Iterator[str]:
    """Hints from the texts of cells that cannot be read, with their numbers.

    `dialect` is None for data whose dialect cannot be stated, such as a table in memory.
    """
    texts, total, unreadable = list(cells), cells.total(), "of the unreadable cells have"
    if column.form in ("numbers", "dates"):
        stated = dialect or Dialect()
        forms, read = likely_forms(pa.array(texts, pa.large_string()), column.form, stated)
        number = sum(cells[text] for text, fits in zip(texts, read.tolist(), strict=True) if fits)
        if forms and number >= _MOST * total:
            yield f"{percent(number, total)} {unreadable} {_form_in_words(forms, stated, dialect)}"
            return
    if isinstance(column, Boolean) and sum(count for _, count in cells.most_common(2)) >= _MOST * total:
        words = " and ".join(repr(text) for text, _ in cells.most_common(2))
        yield f"the most frequent unreadable cells are {words}: state such words as a list of two categories"
        return
    beside = Counter({text: count for text, count in cells.items() if _BESIDE.search(text)})
    if column.form == "numbers" and beside.total() >= _MOST * total:
        yield f"{percent(beside.total(), total)} {unreadable} text beside a number: {_frequent(beside)}"
        return
    yield f"the most frequent unreadable cells are {_frequent(cells)}"


def _form_in_words(forms: Sequence[Dialect], stated: Dialect, dialect: Dialect | None) -> str:
    # If no day is above 12, both orders of day and month are possible.
    texts = [in_words(form, stated) for form in forms[: 2 if forms[0].date_format else 1]]
    if dialect is None:
        return f"{' or '.join(text.partition(':')[0] for text in texts)}: convert them before"
    return " or ".join(texts)


def _hints_of_categories(values: Sequence[str], cells: Counter[str], dialect: Dialect | None) -> Iterator[str]:
    """Hints from the texts of cells that are not listed, with their numbers."""
    total = cells.total()
    damaged = sum(count for text, count in cells.items() if "\ufffd" in text)
    if damaged:
        advice = "read the file again with its encoding" if dialect is None else "pass its encoding, such as 'cp1252'"
        yield f"{percent(damaged, total)} of the unlisted cells have characters that are not UTF-8: {advice}"
    # Text in UTF-8 that was read as cp1252, read as UTF-8.
    decoded = {text: attempt(partial(_recoded, text)) for text in cells if not text.isascii()}
    repaired = sum(count for text, count in cells.items() if decoded.get(text) in values)
    if repaired:
        share = percent(repaired, total)
        yield f"{share} of the unlisted cells are UTF-8 that was read as cp1252: write the file again"
    by_letters = {value.casefold(): value for value in values}
    alike, others = [], Counter[str]()
    for text, count in cells.most_common(_COMPARED):
        close = difflib.get_close_matches(text.casefold(), by_letters, n=1, cutoff=_SIMILAR)
        if "\ufffd" in text or decoded.get(text) in values:
            continue
        if close:
            alike.append(f"{text!r} ({count:,}) may be {by_letters[close[0]]!r}")
        else:
            others[text] = count
    if alike:
        more = f" and {len(alike) - _SHOWN} more" if len(alike) > _SHOWN else ""
        yield f"{', '.join(alike[:_SHOWN])}{more}"
    if others:
        yield f"the most frequent cells that are not listed are {_frequent(others)}"


def _hints_of_names(column: Names, cells: Counter[str]) -> Iterator[str]:
    """A hint if names are alike, from the names of cells that nobody listed, with their numbers."""
    apart, call = column.alike([text for text, _ in cells.most_common()])
    if apart:
        frequent = _frequent(Counter({text: cells[text] for text in apart}))
        more = f" and {len(apart) - _SHOWN} more" if len(apart) > _SHOWN else ""
        yield f"{frequent}{more} are other names but for case, blanks or Unicode form: state {call} to join them"


def _recoded(text: str) -> str:
    return text.encode("cp1252").decode()


def _frequent(cells: Counter[str]) -> str:
    return ", ".join(f"{text!r} ({count:,})" for text, count in cells.most_common(_SHOWN))


def percent(number: int, total: int) -> str:
    """A share in percent with two digits; never 0 % or 100 % for some or for not all."""
    if total == 0 or number in (0, total):
        return "100 %" if total and number else "0 %"
    share = 100.0 * number / total
    if share < 0.1:
        return "under 0.1 %"
    return "over 99.9 %" if share > 99.9 else f"{share:.3g} %"
