"""The scikit-learn estimator `DPKMeans`."""

from __future__ import annotations

import copy
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.validate import without_sizes
from pais.accounting import accounts, travelling
from pais.data.cost import cost
from pais.data.engines import Engine
from pais.data.sources import is_streamed, source
from pais.data.tables import Table, from_array, is_frame, read
from pais.errors import DataError, SurveyWarning
from pais.planning.fit import KMeansSettings, asked_delta_of, private_kmeans
from pais.report import write_report

_BLOCK_ROWS = 8192

# Error messages of scikit-learn that contain only column counts and names. Others may quote values and row counts.
_HARMLESS = re.compile(
    r"X has \d+ features, but \w+ is expecting \d+ features as input\.?$|The feature names should match those that "
    r"were passed during fit\.|Feature names are only supported if all input features have string names"
)


class DPKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Differentially private k-means on one weighted sample of the rows.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k.
    epsilon : float
        Privacy guarantee for everything that `fit` releases, with respect to adding or removing one row.
    delta : float, optional
        Additive term of the guarantee, on top of the factor e^epsilon. None means 0 for the pure mechanisms. With
        Gaussian noise, None means the smaller of 1e-6 and 1 / (10 * number of rows). The number of rows is taken from
        `norms` if both `norms` and `radius` are stated. Otherwise it comes from the survey, and 1e-6 is certified and
        charged.
    radius : float, optional
        Public bound on the distance of a row from the center; rows beyond it are clipped. If None, a private survey
        estimates it.
    center : sequence of float, optional
        Public origin of the norms. If None, a private survey releases a noisy mean; if `radius` is stated, the center
        is the origin instead.
    sampling : {"constrained", "coreset", "uniform", "none"} or Rule
        Sampling rule, which decides the probability with which each row is kept.
    sample_size : float, optional
        Expected number of rows in the sample. None keeps as few rows as possible without extra noise, and at most half
        a gigabyte of numbers.
    mechanism : {"gaussian", "laplace", "l2"}
        "gaussian" for (epsilon, delta); "laplace" (l1) and "l2" (the noise of the paper) for pure epsilon.
    random_state : None, int or numpy Generator
        None draws from the cryptographic generator. Any other value makes the fit reproducible and NOT private, and
        the certificate says so.
    norms : NormDistribution, optional
        Public distribution of the norms. If `radius` and `norms` are both stated, there is no survey and none of the
        budget is spent on one.
    ledger : Ledger, optional
        Privacy budget of the rows. Every `fit` of this model and of its clones is charged to the ledger before
        anything is released, and is refused when the budget is used up. A search that runs in several processes needs
        a ledger with a path.
    max_epsilon_if_kept : float, optional
        Largest epsilon of a row for the whole fit, survey included, if it becomes known that the row was kept in the
        sample; None = epsilon + 15. A smaller limit means more noise where few rows are kept.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
    certificate_ : Certificate
        States what was released and the guarantee that it has; public.
    plan_ : Plan
        Everything decided before the rows were sampled; public. ``print(model.plan_.explain())`` describes it.
    fit_ : KMeansFit
        Centers, certificate, plan and survey together; `write_report` uses it.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The guarantee does not cover preprocessing steps that were fitted to the same rows. For example,
    ``make_pipeline(StandardScaler(), DPKMeans())`` leaks: the scaler computes means and deviations from the rows, and
    the certificate does not show it. Scale with public constants instead, for example with
    ``FunctionTransformer(lambda X: X / bounds)``, where you know the bounds without looking at the rows.

    There are no `labels_` and no `inertia_`, because they depend on the training rows and are not protected.
    `predict` and `score` on your own rows return results to you alone. On the training rows these results are not
    private.

    Examples
    --------
    >>> import numpy as np
    >>> from pais import DPKMeans
    >>> X = np.random.default_rng(0).normal(size=(20_000, 3))
    >>> model = DPKMeans(n_clusters=4, epsilon=1.0).fit(X)
    >>> model.cluster_centers_.shape
    (4, 3)
    >>> model.certificate_.epsilon <= 1.0
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        epsilon: float = 1.0,
        delta: float | None = None,
        radius: float | None = None,
        center: Any = None,
        sampling: Any = "constrained",
        sample_size: float | None = None,
        mechanism: str = "gaussian",
        random_state: Any = None,
        norms: Any = None,
        ledger: Any = None,
        max_epsilon_if_kept: float | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.center = center
        self.sampling = sampling
        self.sample_size = sample_size
        self.mechanism = mechanism
        self.random_state = random_state
        self.norms = norms
        self.ledger = ledger
        self.max_epsilon_if_kept = max_epsilon_if_kept

    @without_sizes
    def fit(self, X: Any, y: object = None) -> DPKMeans:
        """Compute and release private cluster centers of the rows.

        Parameters
        ----------
        X : array, table, path, Spark DataFrame or source
            An array or a pandas or polars table in memory, or any input of `pais.source`, of any size: a Parquet or
            CSV file, a directory or pattern of such files, a Spark DataFrame. Files and Spark DataFrames are streamed
            and never held in memory. A row with NaN, infinity, a missing value or a cell that is not a number
            contributes nothing. ``pais.source(X, missing="error")`` raises instead, which is outside the guarantee.
        y : ignored
        """
        # Look up the active ledgers once, before reading a row: the `with` block of a ledger may end in another thread
        # during this fit. `private_kmeans` checks all other parameters.
        charged = accounts(self.ledger)
        settings = KMeansSettings(
            n_clusters=self.n_clusters,
            epsilon=self.epsilon,
            delta=self.delta,
            radius=self.radius,
            center=None if self.center is None else tuple(validate.flat("center", self.center).tolist()),
            norms=self.norms,
            sampling=self.sampling,
            sample_size=self.sample_size,
            mechanism=self.mechanism,  # type: ignore[arg-type]  # checked by the planner
            max_epsilon_if_kept=self.max_epsilon_if_kept,
        )
        charged.check(epsilon=self.epsilon, delta=asked_delta_of(settings))
        rows = self._streamed(X) if is_streamed(X) else self._rows(X, reset=True)
        fitted = private_kmeans(rows, settings, random_state=self._seed(), ledger=charged)
        self.cluster_centers_ = fitted.value.centers
        self.certificate_ = fitted.certificate
        self.plan_ = fitted.plan
        self.fit_ = fitted
        if fitted.survey is not None and not fitted.survey.above_noise:
            warnings.warn(
                "there are too few rows for this price: the survey found nothing above its noise, and columns of unit "
                "size were assumed. Raise epsilon, or state radius, center and norms.",
                SurveyWarning,
                stacklevel=3,
            )
        return self

    def __getstate__(self) -> Any:
        """State for pickling. An unfitted model carries the active ledger, so that fits elsewhere are charged to it.

        A fitted model can be loaded and used to predict where the ledger is not available; it needs the ledger only
        when it is fitted again.
        """
        state = dict(super().__getstate__())
        if not hasattr(self, "cluster_centers_"):
            state["ledger"] = travelling(self.ledger)
            return state
        ledger = travelling(None) if self.ledger is None else self.ledger
        state["ledger"] = None if ledger is None else ledger.left_behind()
        return state

    def __copy__(self) -> DPKMeans:
        """Copy within this process. Unlike pickling, copying does not attach the ledgers that are active now."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> DPKMeans:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def write_report(self, path: str | Path) -> Path:
        """Write a self-contained HTML report about the fit. It contains public values only."""
        check_is_fitted(self)
        return write_report(path, self.fit_, feature_names=getattr(self, "feature_names_in_", None))

    @without_sizes
    def predict(self, X: Any) -> NDArray[np.intp]:
        """Index of the nearest center of each row.

        Raises `DataError`, naming the columns, if a row has NaN, infinity or a missing value.
        """
        return np.asarray(self._distances(X).argmin(axis=1))

    @without_sizes
    def transform(self, X: Any) -> FloatArray:
        """Distance of each row to each center.

        Raises `DataError`, naming the columns, if a row has NaN, infinity or a missing value.
        """
        return np.sqrt(self._distances(X))

    @without_sizes
    def score(self, X: Any, y: object = None) -> float:
        """Not private: minus the sum of squared distances of the rows to their nearest centers.

        Rows with NaN, infinity or missing values are left out.
        """
        check_is_fitted(self)
        if is_streamed(X):
            return -cost(X, self.cluster_centers_)
        rows = self._doubles(X)
        return -float(self._distances_of(rows[np.isfinite(rows).all(axis=1)]).min(axis=1).sum())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _distances(self, X: Any) -> FloatArray:
        """Squared distances of each row to each center; raises if a row is not finite."""
        check_is_fitted(self)
        rows = self._doubles(X)
        _require_finite(rows, getattr(self, "feature_names_in_", None))
        return self._distances_of(rows)

    def _distances_of(self, rows: FloatArray) -> FloatArray:
        result = np.empty((rows.shape[0], self.cluster_centers_.shape[0]))
        for start in range(0, rows.shape[0], _BLOCK_ROWS):
            block = rows[start : start + _BLOCK_ROWS]
            for index, center in enumerate(self.cluster_centers_):
                gap = block - center
                result[start : start + _BLOCK_ROWS, index] = np.einsum("ij,ij->i", gap, gap)
        return result

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])

    def _seed(self) -> Any:
        # As in scikit-learn, a RandomState instance is a stream from which each fit draws its seed.
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return self.random_state

    def _streamed(self, X: Any) -> Engine:
        """Open rows that are not in memory as an engine, and record their column names."""
        engine = source(X)
        self.n_features_in_ = engine.n_features
        if engine.names is not None:
            self.feature_names_in_ = np.asarray(engine.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return engine

    def _doubles(self, X: Any) -> FloatArray:
        """Rows as doubles. The cast does not warn: a signalling NaN is treated as any other missing value."""
        with np.errstate(invalid="ignore"):
            return self._rows(X, reset=False).astype(np.float64, copy=False)

    def _rows(self, X: Any, *, reset: bool) -> NDArray[np.generic]:
        """Rows as a numeric array of the right width, NaN where a cell has no number; errors never quote values."""
        if is_streamed(X) and not isinstance(X, (str, Path)):
            raise DataError(
                "labels and distances of rows that are not in memory cannot be held. Read a part of them, and pass "
                "that; score and pais.cost take any source."
            )
        if isinstance(X, (str, Path)) or (hasattr(X, "__arrow_c_stream__") and not _is_frame(X)):
            return self._named_rows(read(X), reset=reset)
        rows, said = _numbers(X), None
        try:
            # Check only names and width: the cells are already numbers.
            validate_data(self, X if _is_frame(X) else rows, reset=reset, skip_check_array=True)
        except MemoryError:
            raise
        except Exception as error:
            said = str(error)
        # Raise outside the except block, so that scikit-learn's error, which may quote values, is not kept as context.
        if said is not None:
            raise _refusal(said)
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


def _is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars frame, whose column names scikit-learn checks."""
    return is_frame(X, "pandas", "polars")


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
        raise DataError(f"X must hold real numbers, and it holds {validate.kind_of(array)}. Convert them to floats.")
    return array


def _require_columns(width: int) -> None:
    if width == 0:
        # The message of scikit-learn without the number of rows.
        raise DataError("X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required. Pass at least one column.")


def _refusal(said: str) -> DataError:
    """Error that replaces one of scikit-learn, with the original message if it reveals nothing about the rows."""
    if _HARMLESS.match(said):
        return DataError(said)
    return DataError("X cannot be read as a table of numbers. Pass columns with one number in each cell.")


def _require_finite(rows: FloatArray, names: Any) -> None:
    """Raise if a column has NaN or infinity. A finite sum of all cells is a fast check that there is none."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(rows.sum()):
            return
    places = [place for place in range(rows.shape[1]) if not np.isfinite(rows[:, place]).all()]
    if places:
        shown = ", ".join(str(place if names is None else names[place]) for place in places)
        raise DataError(
            f"column(s) {shown} of X have values that are missing, NaN, infinite or not numbers. Every row needs an "
            "answer: correct them, or leave those rows out."
        )
