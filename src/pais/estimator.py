"""Base classes of the estimators: fitting as in scikit-learn, reading rows, pickling, and what a fitted model shows.

`PrivateEstimator` is the base of all. `SupervisedEstimator` adds a target, which becomes the last column of the rows.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.threads import in_threads
from pais._base.validate import as_array, attempt
from pais.accounting.ledger import accounts, travelling
from pais.data.ball import table_of
from pais.data.cells import is_numeric
from pais.data.columns import Columns
from pais.data.dialect import CSVFile
from pais.data.engines.base import Engine, require_finite as require_finite_rows
from pais.data.engines.local import LocalEngine, MemoryEngine
from pais.data.kinds import Column
from pais.data.schema import Schema
from pais.data.sources import is_streamed, names_of, source, with_categories
from pais.data.tables import as_table, from_array, is_frame, read, require_table
from pais.data.units import id_concern, is_person, people_concern, unit_of
from pais.errors import ArgumentError, DataError, QualityWarning, SurveyWarning
from pais.pipeline import fit
from pais.planning.plan import Fit
from pais.planning.settings import Settings
from pais.privacy.guarantee import warn
from pais.show.page import ReportHeader, today, write_report
from pais.show.results import Results

# Error messages of scikit-learn that contain only column counts and names. Others may quote values and row counts.
_HARMLESS = re.compile(
    r"X has \d+ features, but \w+ is expecting \d+ features as input\.?$|The feature names should match those that "
    r"were passed during fit\.|Feature names are only supported if all input features have string names"
)

_EMPTY_SURVEY = (
    "the survey found nothing above its noise, so columns of unit size were assumed. Raise epsilon, or state radius, "
    "center and norms. Check also that the columns hold what was stated: cells that cannot be read count as missing."
)

S = TypeVar("S", bound=Settings)


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # untyped base
    """Base class of the estimators. A subclass builds its settings from its parameters, in `_settings`."""

    ledger: Any
    random_state: Any
    columns: Any
    missing: Any
    unit: Any
    max_rows_per_unit: Any

    def _settings(self) -> Settings:
        raise NotImplementedError

    def _settings_of(self, kind: type[S], **others: Any) -> S:
        """Settings with those parameters of the estimator that have the name of one of their fields."""
        # As in scikit-learn, a parameter is the attribute of its name.
        stated = vars(self)
        parameters = {field.name: stated[field.name] for field in fields(kind) if field.name in stated}
        if parameters.get("center") is not None:
            parameters["center"] = tuple(validate.flat("center", parameters["center"]).tolist())
        return kind(**parameters, **others)

    def _before_fit(self, X: Any) -> None:
        """Prepare what the settings of a subclass depend on, such as the target."""

    def _fit(self, X: Any) -> None:
        """Fit, and store what all estimators show."""
        # Look up the active ledgers once, before reading a row: the `with` block of a ledger may end in another thread
        # during this fit.
        payers = accounts(self.ledger)
        self._before_fit(X)
        settings = self._settings()
        # `fit` checks the price too, but opening a table here may read its rows, and a refusal comes before that.
        payers.check(settings.price)
        rows = self._opened(X)
        if not isinstance(X, Engine):
            # The unit and the columns of an engine were chosen when it was opened. Ids are recognised by the names of
            # their columns: those of people if `unit` is left out, and all of them among features.
            ids = list(rows.names or ()) if self.columns is None else []
            if self.unit is None:
                header = names_of(X.X if isinstance(X, Labelled) else X)
                warn(people_concern(header, _stated_names(self.columns)))
                ids = [name for name in ids if not is_person(name)]
            warn(id_concern(ids), QualityWarning)
        # As in scikit-learn, a RandomState instance is a stream from which each fit draws its seed.
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(2**31))
        fitted = fit(rows, settings, random_state=seed, ledger=payers)
        self._keep(fitted)
        if fitted.survey is not None:
            warn(fitted.survey.columns_concern, SurveyWarning)
            for found in fitted.survey.categories:
                warn(found.concern, QualityWarning)
            warn(None if fitted.survey.above_noise else _EMPTY_SURVEY, SurveyWarning)
        warn(self.fit_.concern, QualityWarning)

    def _keep(self, fitted: Fit) -> None:
        """Store all results of a fit, before a warning about it can be raised as an error."""
        self.certificate_ = fitted.certificate
        self.plan_ = fitted.plan
        self.fit_ = fitted

    # -- rows to fit and to predict

    def _opened(self, X: Any) -> Engine:
        """Open the rows as an engine, and record the names of the columns that `predict` takes."""
        schema = Schema.of(self.columns) if isinstance(self.columns, (Mapping, Schema)) else None
        if isinstance(X, Engine) and self.columns is not None and X.schema != schema:
            raise ArgumentError("columns is stated, but the source is open already. Pass columns to pais.source alone.")
        if isinstance(X, Engine) and self.unit is not None and X.unit != unit_of(self.unit, self.max_rows_per_unit):
            raise ArgumentError("unit is stated, but the source is open already. Pass unit to pais.source alone.")
        if self.columns is None and self.unit is None and not is_streamed(X):
            table = table_of(self._rows(X, reset=True))
            seen = getattr(self, "feature_names_in_", None)
            self._columns_in = None if seen is None else tuple(map(str, seen))
            # Survey and plan record the names of the columns.
            in_memory = MemoryEngine(table, names=self._columns_in)
            if self.missing != "drop":
                # Raises for an unknown value, and for midpoints of columns without bounds.
                Columns(missing=self.missing)
                require_finite_rows(in_memory)
            return in_memory
        columns = self.columns if schema is None or isinstance(X, Engine) else with_categories(schema, X)
        engine = source(
            X, columns=columns, missing=self.missing, unit=self.unit, max_rows_per_unit=self.max_rows_per_unit
        )
        self._columns_in = engine.feature_columns
        names = engine.names if engine.schema is None else engine.schema.names
        self.n_features_in_ = engine.n_features if names is None else len(names)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return engine

    def _doubles(self, X: Any) -> FloatArray:
        """Rows as doubles, or as scaled vectors if the model has a schema.

        The cast does not warn: a signalling NaN is treated as any other missing value.
        """
        if self.fit_.schema is not None:
            return np.asarray(read(self._table(X), columns=self.fit_.schema, missing=self.missing).rows)
        if self.columns is not None:
            return np.asarray(read(self._table(X), columns=self.columns).rows, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            return self._rows(X, reset=False).astype(np.float64, copy=False)

    def _same_columns(self, X: Any) -> Engine:
        """Open rows with the columns of the fit. Rows that are open already must have the same schema."""
        schema = self.fit_.schema
        if isinstance(X, Engine):
            return X if schema is None else X.with_schema(schema)
        columns = self._columns_in if self.columns is None else self.columns
        return source(X, columns=columns if schema is None else schema, missing=self.missing)

    def _table(self, X: Any) -> Any:
        """Return a table in memory, or the path of a file, for a model that reads columns by name."""
        require_in_memory(X)
        require_table(X)
        if not isinstance(X, (str, Path, CSVFile)) and not hasattr(X, "__arrow_c_stream__"):
            raise DataError("the model reads columns by name, which an array does not have. Pass a table or a file.")
        return X

    def _rows(self, X: Any, *, reset: bool) -> NDArray[np.generic]:
        """Rows as a numeric array of the right width, NaN where a cell has no number; errors never quote values."""
        require_in_memory(X)
        require_table(X)
        if isinstance(X, (str, Path, CSVFile)) or (hasattr(X, "__arrow_c_stream__") and not is_frame(X, "pandas")):
            # scikit-learn does not check the names of the columns of files and Arrow tables.
            table = read(X)
            rows, names = np.asarray(table.rows), np.asarray(table.names, dtype=object)
            if reset:
                self.n_features_in_, self.feature_names_in_ = rows.shape[1], names
            seen = getattr(self, "feature_names_in_", names)
            if rows.shape[1] != self.n_features_in_ or not np.array_equal(seen, names):
                raise DataError("The feature names are not those seen in fit. Pass the same columns in the same order.")
            return rows
        rows, message = _numbers(X), None
        try:
            # Check only names and width: the cells are already numbers. All versions of scikit-learn check the names of
            # a pandas frame.
            validate_data(self, X if is_frame(X, "pandas") else rows, reset=reset, skip_check_array=True)
        except MemoryError:
            raise
        except Exception as error:
            message = str(error)
        # Raise outside the except block, so that scikit-learn's error, which may quote values, is not kept as context.
        if message is not None:
            raise _refusal(message)
        return rows

    # -- pickling and copying

    def __getstate__(self) -> Any:
        """State for pickling. An unfitted model carries the active ledger, so that fits elsewhere are charged to it.

        A fitted model can be loaded and used to predict where the ledger is not available; it needs the ledger only
        when it is fitted again.
        """
        state = dict(super().__getstate__())
        if not hasattr(self, "certificate_"):
            state["ledger"] = travelling(self.ledger)
            return state
        ledger = travelling(None) if self.ledger is None else self.ledger
        state["ledger"] = None if ledger is None else ledger.left_behind()
        return state

    def __copy__(self) -> Any:
        """Copy within this process. Unlike pickling, copying does not attach the ledgers that are active now."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    # -- what a fitted model shows

    def write_report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        data_name: str = "",
        owner: str = "",
        date: str | None = None,
    ) -> Path:
        """Write a self-contained HTML report about the fit. It contains public values only.

        Parameters
        ----------
        path : path
            The file to write.
        title, data_name, owner : str, optional
            Heading of the page, name of the data, and who is responsible for it, as you want them to appear. Nothing is
            read from the rows.
        date : str, optional
            Date of the report; None = today.
        """
        check_is_fitted(self)
        header = ReportHeader(title=title, data_name=data_name, owner=owner, date=today() if date is None else date)
        names = getattr(self, "feature_names_in_", None)
        return write_report(path, self._shown(), feature_names=names, header=header)

    def _results(self) -> Results | None:
        """What the page and the card show instead of the released value; None if they show that value."""
        return None

    def _shown(self) -> Fit:
        """The fit as page and card show it."""
        results = self._results()
        return self.fit_ if results is None else replace(self.fit_.extended(Fit), value=results)

    def explain(self) -> str:
        """Describe the fit in words: what was released, how far it can be read, and the certificate."""
        check_is_fitted(self)
        return self._shown().explain()

    def _repr_html_inner(self) -> Any:
        """HTML for notebooks: a card with the results once fitted, and the parameters before, as in scikit-learn."""
        return self._html_card() if hasattr(self, "fit_") else super()._repr_html_inner()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        if hasattr(self, "fit_") and get_config()["display"] == "diagram":
            bundle["text/html"] = self._html_card()
        return bundle

    def _html_card(self) -> str:
        return replace(self._shown()._card(), kind=type(self).__name__).html()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def require_in_memory(X: Any) -> None:
    if is_streamed(X) and not isinstance(X, (str, Path, CSVFile)):
        raise DataError(
            "transform needs rows in memory. Read a part of the rows and pass that; predict, score and pais.cost take "
            "any source."
        )


def _stated_names(columns: Any) -> tuple[str, ...]:
    """The columns that the user states."""
    return columns.names if isinstance(columns, Schema) else tuple(map(str, columns or ()))


def _numbers(X: Any) -> NDArray[np.generic]:
    """Cells of a frame or an array as numbers, NaN where a cell has none."""
    if sparse.issparse(X):
        raise DataError("Sparse data are not supported. Pass a dense array, such as X.toarray().")
    if is_frame(X, "pandas"):
        _require_columns(X.shape[1])
        if all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in X.dtypes):
            return np.asarray(X)
        return read(X).rows
    array = from_array(X)
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported. Pass real numbers.")
    if array.ndim != 2:
        raise DataError(f"Expected 2D array, got {array.ndim}D array instead. Reshape your data to one row per record.")
    _require_columns(array.shape[1])
    if array.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers, but it holds {validate.kind_of(array)}. Convert them to floats.")
    return array


def _require_columns(width: int) -> None:
    if width == 0:
        # The message of scikit-learn without the number of rows.
        raise DataError("X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required. Pass at least one column.")


def _refusal(message: str) -> DataError:
    """Error that replaces one of scikit-learn, with the original message if it reveals nothing about the rows."""
    if _HARMLESS.match(message):
        return DataError(message)
    return DataError("X cannot be read as a table of numbers. Pass columns with one number in each cell.")


# Rows of an array are turned into columns in pieces of this many, which stay in the cache.
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
        places = [f"x{number}" for number in range(self.n_features_in_)]
        self._columns_in = tuple(map(str, getattr(self, "feature_names_in_", places)))
        schema = self._schema_of(self._columns_in, X, y)
        table = _table_of(rows, self._columns_in)
        return self._source(_with_target(table, y, schema.columns[-1]), schema)

    def _by_names(self, X: Any, y: Any) -> Engine:
        """Open a table or a file whose columns are found by name."""
        target = self._target_name(y, column_names(X))
        aside = [] if y is not None else [target]
        if self.columns is None:
            opened = source(X, carry=aside, unit=self.unit, max_rows_per_unit=self.max_rows_per_unit)
            known = opened.feature_columns or ()
        else:
            known = _stated_names(self.columns)
            if y is not None and isinstance(self.columns, (Mapping, Schema)):
                known += self._unstated(X, known)
        features = tuple(name for name in known if name != target)
        schema = self._schema_of(features, X, y)
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
        names = tuple(name for name in column_names(X) if name not in known)
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

    def _schema_of(self, features: Sequence[str], X: Any, y: Any) -> Schema:
        """What is public about features and target: what `columns` states, and "auto" for the others."""
        target = self._target_name(y, features)
        if target in features:
            raise ArgumentError(f"the target {target!r} is also the name of a feature. Pass another name in target.")
        if not features:
            raise ArgumentError("there is no feature beside the target. Pass at least one column.")
        stated = self.columns if isinstance(self.columns, (Mapping, Schema)) else {}
        known = {column.name: column for column in with_categories(Schema.of(stated), X).columns} if stated else {}
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


def column_names(X: Any) -> tuple[str, ...]:
    """Names of the columns of a table in memory; none for an array."""
    if is_streamed(X) or not hasattr(X, "__arrow_c_stream__"):
        return ()
    return tuple(map(str, getattr(X, "column_names", getattr(X, "columns", ()))))


def _without(X: Any, names: Collection[Any]) -> Any:
    """A table in memory without these columns, as far as it has them. Anything else is returned as it is."""
    columns = column_names(X)
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
    """Targets as an array of one column. The cells of a list keep their types, so no cell decides how others are read.

    NumPy gives all cells of a list one type, so a single number would turn booleans into numbers.
    """
    if isinstance(y, (list, tuple)):
        cells: NDArray[Any] | None = np.empty(len(y), dtype=object)
        for place, cell in enumerate(y):
            cells[place] = cell[0] if isinstance(cell, (list, tuple)) and len(cell) == 1 else cell  # type: ignore[index]
    else:
        cells = as_array(y)
    if cells is None or cells.ndim > 2 or (cells.ndim == 2 and cells.shape[1] != 1) or cells.ndim == 0:
        raise DataError("y should be a 1d array. Pass one target for each row.")
    return cells
