"""Base class of the estimators with a target: reading features and target together, and rows to predict."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from pais._base.numerics import FloatArray
from pais._base.threads import in_threads
from pais._base.validate import as_array, attempt
from pais.data.checks import is_numeric
from pais.data.columns import Columns
from pais.data.engines import Engine
from pais.data.engines.local import LocalEngine
from pais.data.kinds import Column
from pais.data.scales import Bounds
from pais.data.schema import Schema
from pais.data.sources import is_streamed, source
from pais.data.tables import as_table, is_frame, read
from pais.data.units import unit_of
from pais.errors import ArgumentError, DataError
from pais.estimators.base import PrivateEstimator

# Rows of an array are turned into columns in pieces of this many.
_PIECE_ROWS = 4096

# Name of the target if neither `target` nor the data name it.
_DEFAULT_TARGET = "y"


@dataclass(frozen=True, kw_only=True, repr=False)
class Labelled:
    """Rows with their targets, or a table that holds both. Secret."""

    X: Any
    y: Any


class SupervisedEstimator(PrivateEstimator):
    """Base class of the estimators that predict a target from features.

    The rows of the engine are scaled vectors of the features and the target, which is the last column of the schema.
    A subclass adapts the schema in `_adapted`.
    """

    target: Any

    def _adapted(self, schema: Schema) -> Schema:
        """Return the schema for this estimator. The target is its last column."""
        return schema

    def _header(self, X: Any) -> list[str]:
        return super()._header(X.X)

    def _opened(self, X: Any) -> Engine:
        assert isinstance(X, Labelled)
        rows, y = X.X, X.y
        if isinstance(rows, Engine):
            raise ArgumentError("X is an open source. Pass the table or the file itself, with columns and target.")
        if y is None and self.target is None:
            raise ArgumentError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Pass y, or name the column "
                "of the target in target."
            )
        if y is not None and is_streamed(rows):
            raise ArgumentError("y is passed beside a file or a Spark DataFrame. Name its column in target instead.")
        is_array = not is_streamed(rows) and not hasattr(rows, "__arrow_c_stream__")
        if y is None and is_array:
            raise ArgumentError("target names a column, which an array does not have. Pass y, or a table.")
        if y is not None:
            # The target is y, also if the table still holds it.
            rows = _without(rows, (getattr(y, "name", None) if self.target is None else self.target,))
        # Without facts about the columns, scikit-learn's rules for names and widths hold.
        self._by_position = is_array or (self.columns is None and self.unit is None and y is not None)
        return self._by_places(rows, y) if self._by_position else self._by_names(rows, y)

    def _by_places(self, X: Any, y: Any) -> Engine:
        """Open an array, or a table whose columns are all features, beside its targets."""
        rows = self._rows(X, reset=True)
        self._columns_in = tuple(map(str, getattr(self, "feature_names_in_", _places(self.n_features_in_))))
        schema = self._schema_of(self._columns_in, y)
        table = _table_of(rows, self._columns_in)
        return self._source(_with_target(table, y, schema.columns[-1]), schema)

    def _by_names(self, X: Any, y: Any) -> Engine:
        """Open a table or a file whose columns are found by name."""
        target = self._target_name(y, names_of(X))
        aside = [] if y is not None else [target]
        if isinstance(self.columns, (Mapping, Schema)):
            known = self.columns.names if isinstance(self.columns, Schema) else tuple(self.columns)
            known += () if y is None else self._unstated(X, known)
        elif self.columns is not None:
            known = tuple(self.columns)
        else:
            opened = source(X, carry=aside, unit=self.unit, max_rows_per_unit=self.max_rows_per_unit)
            known = opened.feature_columns or ()
        features = tuple(name for name in known if name != target)
        schema = self._schema_of(features, y)
        self._columns_in = features
        self.n_features_in_, self.feature_names_in_ = len(features), np.asarray(features, dtype=object)
        if y is None:
            return self._source(X, schema)
        unit = unit_of(self.unit, self.max_rows_per_unit)
        table = as_table(X, Columns(schema=Schema(schema.columns[:-1]), unit=unit))
        return self._source(_with_target(table, y, schema.columns[-1]), schema)

    def _unstated(self, X: Any, stated: Sequence[str]) -> tuple[str, ...]:
        """Columns of a table of features that `columns` does not mention. They must hold numbers."""
        unit = unit_of(self.unit, self.max_rows_per_unit)
        known = {*stated, *(() if unit is None else (unit.column,))}
        names = tuple(name for name in names_of(X) if name not in known)
        if not names:
            return ()
        table = as_table(_without(X, known), Columns())
        others = [name for name in names if not is_numeric(table.column(name).type)]
        if others:
            raise ArgumentError(
                f"column(s) {', '.join(others)} of X do not hold numbers. State in columns what is public about them, "
                "such as a list of categories, or drop them from X."
            )
        return names

    def _source(self, data: Any, schema: Schema) -> Engine:
        return source(
            data, columns=schema, missing=self.missing, unit=self.unit, max_rows_per_unit=self.max_rows_per_unit
        )

    def _target_name(self, y: Any, features: Sequence[str] = ()) -> str:
        """Name of the target: `target`, the name of y, or "y" if `columns` has that and X has no such column."""
        if self.target is not None:
            if not isinstance(self.target, str):
                raise ArgumentError("target is not a text. Pass the name of a column.")
            return self.target
        name = getattr(y, "name", None)
        stated = self.columns if isinstance(self.columns, Mapping) else getattr(self.columns, "names", ())
        if name not in stated and _DEFAULT_TARGET in stated and _DEFAULT_TARGET not in features:
            return _DEFAULT_TARGET
        return name if isinstance(name, str) and name else _DEFAULT_TARGET

    def _schema_of(self, features: Sequence[str], y: Any) -> Schema:
        """What is public about features and target: what `columns` states, and "auto" for the others."""
        target = self._target_name(y, features)
        if target in features:
            raise ArgumentError(f"the target {target!r} is also the name of a feature. Pass another name in target.")
        if not features:
            raise ArgumentError("there is no feature beside the target. Pass at least one column.")
        stated = self.columns if isinstance(self.columns, (Mapping, Schema)) else {}
        known = {column.name: column for column in Schema.of(stated).columns} if stated else {}
        unknown = [name for name in known if name not in (*features, target)]
        if unknown:
            raise ArgumentError(f"columns names {unknown[0]!r}, which is not a column of X. Arrays have x0, x1, ....")
        auto = {name: "auto" for name in (*features, target) if name not in known}
        every = known | ({column.name: column for column in Schema.of(auto).columns} if auto else {})
        return self._adapted(Schema(tuple(every[name] for name in (*features, target))))

    @property
    def _features(self) -> Schema:
        """What is public about the features, with all scales known."""
        assert self.fit_.schema is not None
        return Schema(self.fit_.schema.columns[:-1])

    @property
    def _target_column(self) -> Column:
        assert self.fit_.schema is not None
        return self.fit_.schema.columns[-1]

    def _vectors_of(self, X: Any) -> Iterator[FloatArray]:
        """Yield scaled vectors of the features of all rows, in order; NaN where a value is missing."""
        if self._by_position:
            assert self.fit_.schema is not None
            X = _without(X, {self.fit_.schema.names[-1]} - {*self._features.names})
            rows = _table_of(self._rows(X, reset=False), self._features.names)
            yield np.asarray(read(rows, columns=self._features, missing=self.missing).rows)
        elif is_streamed(X):
            engine = X if isinstance(X, Engine) else source(X, columns=self._features, missing=self.missing)
            if not isinstance(engine, LocalEngine) or engine.schema != self._features:
                raise DataError(
                    "predict takes no Spark DataFrame and no open source. Pass an array, a table or a file."
                )
            yield from engine.in_order(lambda rows, _: np.asarray(rows, dtype=np.float64))
        else:
            yield np.asarray(read(self._table(X), columns=self._features, missing=self.missing).rows)

    def _target_cells(self, X: Any) -> FloatArray:
        """The target of each row of a table or file, as a number."""
        column = self._target_column
        if isinstance(column, Bounds) and column.has_truths:
            return column.decode(np.asarray(read(self._table(X), columns=Schema((column,))).rows)[:, 0])
        return np.asarray(read(self._table(X), columns=[column.name]).rows, dtype=np.float64)[:, 0]


def _places(n_features: int) -> tuple[str, ...]:
    return tuple(f"x{number}" for number in range(n_features))


def names_of(X: Any) -> tuple[str, ...]:
    """Names of the columns of a table in memory; none for an array."""
    if is_streamed(X) or not hasattr(X, "__arrow_c_stream__"):
        return ()
    return tuple(map(str, getattr(X, "column_names", getattr(X, "columns", ()))))


def _without(X: Any, names: Collection[Any]) -> Any:
    """A table in memory without these columns, as far as it has them. Anything else is returned as it is."""
    columns = names_of(X)
    if not any(name in names for name in columns):
        return X
    places = [place for place, name in enumerate(columns) if name not in names]
    if is_frame(X, "pandas"):
        return X.iloc[:, places]
    return pa.table(X).select(places)


def _table_of(rows: NDArray[np.generic], names: Sequence[str]) -> pa.Table:
    """Rows of numbers as a table."""
    columns = np.empty(rows.shape[::-1], dtype=rows.dtype)

    def turn(start: int) -> None:
        # Pieces that stay in the cache: a copy of one whole column after another would read the rows many times.
        columns[:, start : start + _PIECE_ROWS] = rows[start : start + _PIECE_ROWS].T

    in_threads(turn, range(0, len(rows), _PIECE_ROWS))
    return pa.table([pa.array(column) for column in columns], names=list(names))


def _with_target(table: pa.Table, y: Any, column: Column) -> pa.Table:
    """A table with its targets as the last column."""
    cells = _column_of(y)
    if cells.dtype.kind == "c":
        raise DataError("Complex data not supported. Pass real numbers.")
    if cells.ndim == 2:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Pass y.ravel().",
            DataConversionWarning,
            stacklevel=2,
        )
        cells = cells[:, 0]
    _require_rows(cells, table.num_rows)
    return table.append_column(column.name, cells_of(cells, column))


def cells_of(y: NDArray[Any], column: Column) -> pa.Array:
    """Targets as cells that the column of the target reads."""
    cells = attempt(lambda: column.cells_of_objects(y) if y.dtype.kind in "OS" else pa.array(y))
    if cells is None or not column.accepts(cells.type):
        raise DataError("y cannot be read as a column. Pass numbers, texts or booleans.")
    return cells


def targets_of(y: Any, n_rows: int) -> NDArray[Any]:
    """Targets to compare with predictions. Errors show neither cells nor numbers of rows."""
    cells = _column_of(y).ravel()
    _require_rows(cells, n_rows)
    return cells


def weights_of(sample_weight: Any, n_rows: int) -> FloatArray | None:
    """Weights of rows, in the same way."""
    if sample_weight is None:
        return None
    weights = as_array(sample_weight)
    if weights is None or weights.shape != (n_rows,) or weights.dtype.kind not in "biuf":
        raise DataError("sample_weight must hold one number for each row. Pass such numbers.")
    return weights.astype(np.float64)


def require_lengths(X: Any, y: Any) -> None:
    """Raise if rows in memory and targets are not of the same number."""
    if y is None or is_streamed(X):
        return
    n_rows = attempt(lambda: X.shape[0] if hasattr(X, "shape") else len(X))
    if n_rows is not None:
        _require_rows(_column_of(y), n_rows)


def _require_rows(cells: NDArray[Any], n_rows: int) -> None:
    if len(cells) != n_rows:
        raise DataError("X and y have inconsistent numbers of rows. Pass one target for each row.")


def _column_of(y: Any) -> NDArray[Any]:
    cells = _cells_of(y)
    if cells is None or cells.ndim > 2 or (cells.ndim == 2 and cells.shape[1] != 1) or cells.ndim == 0:
        raise DataError("y should be a 1d array. Pass one target for each row.")
    return cells


def _cells_of(y: Any) -> NDArray[Any] | None:
    """Targets as an array, or None. The cells of a list keep their types, so no cell decides how the others are read.

    NumPy gives all cells of a list one type, so a single number would turn booleans into numbers.
    """
    if not isinstance(y, (list, tuple)):
        return as_array(y)
    cells = np.empty(len(y), dtype=object)
    for place, cell in enumerate(y):
        cells[place] = cell[0] if isinstance(cell, (list, tuple)) and len(cell) == 1 else cell
    return cells
