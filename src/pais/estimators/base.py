"""Base class of the estimators: reading tables, the interface of scikit-learn, and ledgers in pickles."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.accounting import Accounts, travelling
from pais.data.ball import table_of
from pais.data.columns import Columns
from pais.data.dialect import CSVFile
from pais.data.engines import Engine
from pais.data.engines.base import require_finite as require_finite_rows
from pais.data.engines.memory import MemoryEngine
from pais.data.identifiers import id_concern, is_person, people_concern
from pais.data.schema import Schema
from pais.data.sources import is_streamed, names_of, source
from pais.data.tables import Table, from_array, is_frame, read, require_table
from pais.data.units import unit_of
from pais.errors import ArgumentError, DataError, QualityWarning, SurveyWarning
from pais.pipeline import fit
from pais.planning import Fit, Settings
from pais.privacy.guarantee import warn
from pais.report import ReportHeader, Results, today, write_report

# Error messages of scikit-learn that contain only column counts and names. Others may quote values and row counts.
_HARMLESS = re.compile(
    r"X has \d+ features, but \w+ is expecting \d+ features as input\.?$|The feature names should match those that "
    r"were passed during fit\.|Feature names are only supported if all input features have string names"
)


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # untyped base
    """Base class of the estimators. A subclass builds its settings from its parameters, in `_settings`."""

    ledger: Any
    random_state: Any
    columns: Any
    missing: Any
    unit: Any
    max_rows_per_unit: Any

    def _fit(self, X: Any, settings: Settings, charged: Accounts) -> None:
        """Fit with accounts that were looked up before a row was read, and store what all estimators show."""
        charged.check(settings.price)
        rows = self._opened(X)
        if not isinstance(X, Engine):
            # The unit and the columns of an engine were chosen when it was opened.
            self._warn_of_ids(X, rows)
        fitted = fit(rows, settings, random_state=self._seed(), ledger=charged)
        self._keep(fitted)
        if fitted.survey is not None:
            warn(fitted.survey.columns_concern, SurveyWarning)
        if fitted.survey is not None and not fitted.survey.above_noise:
            warnings.warn(
                "the survey found nothing above its noise, so columns of unit size were assumed. Raise epsilon, or "
                "state radius, center and norms. Check also that the columns hold what was stated: cells that cannot "
                "be read count as missing.",
                SurveyWarning,
                stacklevel=4,
            )
        warn(self.fit_.concern, QualityWarning)

    def _warn_of_ids(self, X: Any, rows: Engine) -> None:
        """Warn of columns that look like ids, by their names: of people if `unit` is left out, and among features."""
        ids = list(rows.names or ()) if self.columns is None else []
        if self.unit is None:
            warn(people_concern(self._header(X), _names_of(self.columns)))
            ids = [name for name in ids if not is_person(name)]
        warn(id_concern(ids), QualityWarning)

    def _header(self, X: Any) -> list[str]:
        """Names of the columns of the data."""
        return names_of(X)

    def _keep(self, fitted: Fit) -> None:
        """Store all results of a fit, before a warning about it can be raised as an error."""
        self.certificate_ = fitted.certificate
        self.plan_ = fitted.plan
        self.fit_ = fitted

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
        fit, results = self.fit_, self._results()
        if results is None:
            return fit
        return Fit(value=results, certificate=fit.certificate, plan=fit.plan, survey=fit.survey)

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
        card = self._shown()._card()
        return replace(card, kind=type(self).__name__).html()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _seed(self) -> Any:
        # As in scikit-learn, a RandomState instance is a stream from which each fit draws its seed.
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return self.random_state

    def _opened(self, X: Any) -> Engine:
        """Open the rows as an engine, and record the names of the columns that `predict` takes."""
        if isinstance(X, Engine) and self.columns is not None and X.schema != _schema_of(self.columns):
            raise ArgumentError("columns is stated, but the source is open already. Pass columns to pais.source alone.")
        if isinstance(X, Engine) and self.unit is not None and X.unit != unit_of(self.unit, self.max_rows_per_unit):
            raise ArgumentError("unit is stated, but the source is open already. Pass unit to pais.source alone.")
        if self.columns is not None or self.unit is not None or is_streamed(X):
            return self._streamed(X)
        engine = self._held(X)
        if self.missing != "drop":
            # Raises for an unknown value, and for midpoints of columns without bounds.
            Columns(missing=self.missing)
            require_finite_rows(engine)
        return engine

    def _streamed(self, X: Any) -> Engine:
        """Open rows that are not in memory, or columns that the user states, and record the names of the columns."""
        engine = source(
            X, columns=self.columns, missing=self.missing, unit=self.unit, max_rows_per_unit=self.max_rows_per_unit
        )
        self._columns_in = engine.feature_columns
        names = engine.names if engine.schema is None else engine.schema.names
        self.n_features_in_ = engine.n_features if names is None else len(names)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return engine

    def _held(self, X: Any) -> Engine:
        """Rows in memory as an engine that knows the names of its columns, which survey and plan record."""
        table = table_of(self._rows(X, reset=True))
        names = getattr(self, "feature_names_in_", None)
        self._columns_in = None if names is None else tuple(map(str, names))
        return MemoryEngine(table, names=self._columns_in)

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
        if isinstance(X, (str, Path, CSVFile)) or (hasattr(X, "__arrow_c_stream__") and not _is_frame(X)):
            return self._named_rows(read(X), reset=reset)
        rows, message = _numbers(X), None
        try:
            # Check only names and width: the cells are already numbers.
            validate_data(self, X if _is_frame(X) else rows, reset=reset, skip_check_array=True)
        except MemoryError:
            raise
        except Exception as error:
            message = str(error)
        # Raise outside the except block, so that scikit-learn's error, which may quote values, is not kept as context.
        if message is not None:
            raise _refusal(message)
        return rows

    def _named_rows(self, table: Table, *, reset: bool) -> NDArray[np.generic]:
        """Rows of a file or an Arrow table, whose column names scikit-learn does not check."""
        rows, names = np.asarray(table.rows), np.asarray(table.names, dtype=object)
        if not reset and (
            rows.shape[1] != self.n_features_in_ or not np.array_equal(getattr(self, "feature_names_in_", names), names)
        ):
            raise DataError("The feature names are not those seen in fit. Pass the same columns in the same order.")
        if reset:
            self.n_features_in_, self.feature_names_in_ = rows.shape[1], names
        return rows


def require_in_memory(X: Any) -> None:
    if is_streamed(X) and not isinstance(X, (str, Path, CSVFile)):
        raise DataError(
            "transform needs rows in memory. Read a part of the rows and pass that; predict, score and pais.cost take "
            "any source."
        )


def _schema_of(columns: Any) -> Schema | None:
    return Schema.of(columns) if isinstance(columns, (Mapping, Schema)) else None


def _names_of(columns: Any) -> tuple[str, ...]:
    """The columns that the user states."""
    return columns.names if isinstance(columns, Schema) else tuple(map(str, columns or ()))


def _is_frame(X: Any) -> bool:
    """Whether X is a pandas frame, whose column names every version of scikit-learn checks."""
    return is_frame(X, "pandas")


def _numbers(X: Any) -> NDArray[np.generic]:
    """Cells of a frame or an array as numbers, NaN where a cell has none."""
    if sparse.issparse(X):
        raise DataError("Sparse data are not supported. Pass a dense array, such as X.toarray().")
    if _is_frame(X):
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
