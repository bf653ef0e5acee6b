"""The scikit-learn front door."""

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

from pais import _validate
from pais._numerics import FloatArray
from pais._validate import without_sizes
from pais.accounting import accounts, travelling
from pais.engines import Engine, is_streamed, source
from pais.errors import DataError, SurveyWarning
from pais.evaluation import cost
from pais.kmeans import KMeansSettings, asked_delta_of, private_kmeans
from pais.report import write_report
from pais.sources import Table, from_array, is_frame, read

_BLOCK_ROWS = 8192

# Refusals of scikit-learn that tell widths and names of columns and nothing else, where others quote values and sizes.
_HARMLESS = re.compile(
    r"X has \d+ features, but \w+ is expecting \d+ features as input\.?$|The feature names should match those that "
    r"were passed during fit\.|Feature names are only supported if all input features have string names"
)


class DPKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Differentially private k-means on one weighted sample of the rows.

    Parameters
    ----------
    n_clusters : int
        k.
    epsilon : float
        The guarantee for everything that `fit` releases: adding or removing one row.
    delta : float, optional
        What may come on top of the factor e^epsilon in the guarantee. None is 0 for the pure mechanisms; with
        Gaussian noise it is the smaller of 1e-6 and 1 / (10 * number of rows). That number is the one of `norms` if
        these are stated with `radius`. Otherwise it is the surveyed one, and 1e-6 is certified and charged.
    radius : float, optional
        Public bound on the norm of a row about the center; rows beyond it are clipped. None lets a private survey
        find it.
    center : sequence of float, optional
        Public origin of the norms. None: a private survey releases a noisy mean, or the origin where `radius` is
        stated.
    sampling : {"constrained", "coreset", "uniform", "none"} or Rule
        How rows are kept.
    sample_size : float, optional
        Expected rows; None keeps as few as cost no extra noise, and no more than half a gigabyte of numbers hold.
    mechanism : {"gaussian", "laplace", "l2"}
        "gaussian" for (epsilon, delta); "laplace" (l1) and "l2" (the paper's law) for pure epsilon.
    random_state : None, int or numpy Generator
        None draws from the cryptographic generator. Anything else is reproducible and NOT private, and the
        certificate says so.
    norms : NormDistribution, optional
        Public facts about the norms. With `radius` and `norms` stated, no survey is needed and nothing is spent on one.
    ledger : Ledger, optional
        The budget of the rows: every `fit` of this model, and of all its clones, is charged to it before anything is
        released, and refused when it is used up. In a search with several processes it needs a path.
    max_epsilon_if_kept : float, optional
        Largest epsilon that a row may pay for the whole fit, survey included, once it is known that it was kept in the
        sample; None = epsilon + 15. A smaller limit means more noise where few rows are kept.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
    certificate_ : Certificate
        What was released at which price; public.
    plan_ : Plan
        What was decided before the rows were sampled; public. ``print(model.plan_.explain())``.
    fit_ : KMeansFit
        All of that together with the survey, as the report takes it.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Whatever was fitted to the rows before they come here is outside the guarantee. For example,
    ``make_pipeline(StandardScaler(), DPKMeans())`` leaks: the scaler reads means and deviations off the rows, and the
    certificate does not show it. Scale with public constants instead, for example with
    ``FunctionTransformer(lambda X: X / bounds)``, where you know the bounds without looking at the rows.

    There are no `labels_` and no `inertia_`: they depend on the training rows and are not protected. `predict` and
    `score` on rows of your own stay with you; on the training rows their results are not private.

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
        """Release centers of the rows.

        Parameters
        ----------
        X : array, table, path, Spark DataFrame or source
            An array or a pandas or polars table in memory; or whatever `pais.source` takes, of any size: a Parquet or
            CSV file, a directory or pattern of them, a Spark DataFrame. Those are streamed, never held in memory. A row
            with NaN, infinity, a missing value or a cell that is not a number contributes nothing.
            ``pais.source(X, missing="error")`` raises instead, which is outside the guarantee.
        y : ignored
        """
        # Before a row is read; the check of all parameters comes with them. Taken once: a block of a ledger may end
        # in another thread while this one reads.
        charged = accounts(self.ledger)
        settings = KMeansSettings(
            n_clusters=self.n_clusters,
            epsilon=self.epsilon,
            delta=self.delta,
            radius=self.radius,
            center=None if self.center is None else tuple(_validate.flat("center", self.center).tolist()),
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
        """What goes to another process or a file; a model to be fitted there takes the active ledger along.

        A fitted one can be loaded where that ledger is not, to predict; it asks for it when it is fitted again.
        """
        state = dict(super().__getstate__())
        if not hasattr(self, "cluster_centers_"):
            state["ledger"] = travelling(self.ledger)
            return state
        ledger = travelling(None) if self.ledger is None else self.ledger
        state["ledger"] = None if ledger is None else ledger.left_behind()
        return state

    def __copy__(self) -> DPKMeans:
        """A copy within this process, where the ledgers are: it is not bound to those that are active now."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> DPKMeans:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def write_report(self, path: str | Path) -> Path:
        """Write a self-contained HTML page about the fit, for people. Public values only."""
        check_is_fitted(self)
        return write_report(path, self.fit_, feature_names=getattr(self, "feature_names_in_", None))

    @without_sizes
    def predict(self, X: Any) -> NDArray[np.intp]:
        """Nearest center of each row. Rows with NaN, infinity or missing values are refused, by column."""
        return np.asarray(self._distances(X).argmin(axis=1))

    @without_sizes
    def transform(self, X: Any) -> FloatArray:
        """Distance of each row to each center. Rows with NaN, infinity or missing values are refused, by column."""
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
        """Squared distances of each row to each center; rows that are not finite are refused."""
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
        # scikit-learn's own meaning of a RandomState instance: a stream to draw the next seed from.
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31))
        return self.random_state

    def _streamed(self, X: Any) -> Engine:
        """Rows that are not in memory, as an engine."""
        engine = source(X)
        self.n_features_in_ = engine.n_features
        if engine.names is not None:
            self.feature_names_in_ = np.asarray(engine.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return engine

    def _doubles(self, X: Any) -> FloatArray:
        """Rows as doubles. The cast warns of nothing: a signalling NaN is a missing value like any other."""
        with np.errstate(invalid="ignore"):
            return self._rows(X, reset=False).astype(np.float64, copy=False)

    def _rows(self, X: Any, *, reset: bool) -> NDArray[np.generic]:
        """Rows as an array of numbers of the right width, NaN where there is none; errors name columns, not values."""
        if is_streamed(X) and not isinstance(X, (str, Path)):
            raise DataError(
                "labels and distances of rows that are not in memory cannot be held. Read a part of them, and pass "
                "that; score and pais.cost take any source."
            )
        if isinstance(X, (str, Path)) or (hasattr(X, "__arrow_c_stream__") and not _is_frame(X)):
            return self._named_rows(read(X), reset=reset)
        rows, said = _numbers(X), None
        try:
            # Names and width alone: the cells became numbers above.
            validate_data(self, X if _is_frame(X) else rows, reset=reset, skip_check_array=True)
        except MemoryError:
            raise
        except Exception as error:
            said = str(error)
        # Only here is nothing kept of the library's error, which may quote values and sizes.
        if said is not None:
            raise _refusal(said)
        return rows

    def _named_rows(self, table: Table, *, reset: bool) -> NDArray[np.generic]:
        """Rows of a file or an Arrow table, whose names scikit-learn does not see."""
        rows, names = np.asarray(table.rows), np.asarray(table.names, dtype=object)
        if not reset and (
            rows.shape[1] != self.n_features_in_ or not np.array_equal(getattr(self, "feature_names_in_", names), names)
        ):
            raise DataError("The feature names are not those seen in fit. Pass the same columns in the same order.")
        if reset:
            self.n_features_in_, self.feature_names_in_ = rows.shape[1], names
        return rows


def _is_frame(X: Any) -> bool:
    """Whether this is a pandas or polars frame, whose names scikit-learn sees."""
    return is_frame(X, "pandas", "polars")


def _numbers(X: Any) -> NDArray[np.generic]:
    """The cells of a frame or an array as numbers, NaN where there is none."""
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
        raise DataError(f"X must hold real numbers, and it holds {_validate.kind_of(array)}. Convert them to floats.")
    return array


def _require_columns(width: int) -> None:
    if width == 0:
        # The words of scikit-learn, but for the number of rows.
        raise DataError("X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required. Pass at least one column.")


def _refusal(said: str) -> DataError:
    """An error in place of scikit-learn's, in its words where they are harmless."""
    if _HARMLESS.match(said):
        return DataError(said)
    return DataError("X cannot be read as a table of numbers. Pass columns with one number in each cell.")


def _require_finite(rows: FloatArray, names: Any) -> None:
    """Refuse NaN and infinity by column; a sum tells at once whether there are any."""
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
