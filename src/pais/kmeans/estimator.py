"""The scikit-learn estimator `DPKMeans`."""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pais._base.numerics import FloatArray
from pais._base.validate import without_sizes
from pais.data.engines.base import Engine
from pais.data.sources import is_streamed
from pais.errors import NotProtectedError
from pais.estimator import PrivateEstimator
from pais.kmeans.labels import CenterModel, cost, nearest, square_distances
from pais.kmeans.pictures import Plotted, elbow_of
from pais.kmeans.planning import KMeansSettings
from pais.kmeans.view import centers_frame, elbow_frame, segment_lines
from pais.planning.plan import Fit


class DPKMeans(Plotted, ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]  # untyped bases
    """Differentially private k-means on one weighted sample of the rows.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters k. "auto" chooses it, up to `max_clusters`, from noisy values that are released anyway, at no
        further price: see `pais.Elbow` for the rule.
    epsilon : float
        Privacy guarantee for everything that `fit` releases, with respect to adding or removing one row, or one person
        with all rows if `unit` is stated.
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
    sample_size : float or "free", optional
        Expected number of rows in the sample. None keeps the fewest rows whose predicted cost is within 0.2 % of the
        best over all sizes: `plan_.explain()` shows them. "free" keeps as few rows as possible without extra noise,
        which is a share of the rows. Both keep at most half a gigabyte of numbers. A size above the (noisy) number of
        rows keeps all of them.
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
    quantile : float, optional
        Share of the rows within the surveyed radius. If None, the plan chooses the radius with the least predicted
        excess cost from noise and clipped rows.
    columns : mapping of str to facts, sequence of str or Schema, optional
        What is public about the columns of a table: bounds, "auto", a list of categories, bool, dates, or a number by
        which to divide, as in ``{"age": (18, 100), "income": "auto", "region": ["north", "south"], "premium": bool}``;
        see `Schema`. The model then works on scaled vectors, to which radius, center and norms refer, and everything
        that it releases is in the columns' own units. A sequence only names the features. None takes all columns as
        they are: columns of very different size then need scaling with public numbers beforehand.
    missing : {"drop", "midpoint", "error"}
        How to treat rows with missing values: see `pais.source`.
    unit : str, optional
        Who is protected: the column that names the person of each row, who may have several rows. The guarantee then
        holds for adding or removing a person with all rows. None protects single rows. The column is not a feature.
    max_rows_per_unit : int, optional
        Number of rows of a person that count in full: see `pais.source`. By default, every person counts once.
    max_clusters : int
        Largest number of clusters that ``n_clusters="auto"`` may choose. The plan is made for this number, so choose it
        without looking at the rows.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        In the units of the data. With `columns`, within the stated bounds, with one share for each category and each
        boolean, and dates as days since 1970-01-01; `fit_.value.centers` are the scaled vectors.
    n_clusters_ : int
        Number of clusters: `n_clusters`, or what "auto" chose.
    noisy_counts_ : array of shape (n_clusters,)
        Noisy number of rows of each cluster.
    elbow_ : pandas DataFrame
        Estimated cost for every number of clusters from 1 to the number of released cells, with the columns
        `n_clusters`, `estimated_cost` and `relative_cost` (over the cost of one cluster). If pandas is not installed,
        a NumPy structured array with the same fields. It costs no further privacy.
    effective_centers_ : int
        Number of distinct centers. It is smaller than `n_clusters` if noise hides the clusters, and `fit` then issues a
        `QualityWarning`.
    quality_ : Quality
        Rough prediction of the cost of these centers over that of k-means without noise, from released values:
        `ratio`, and the parts of the excess due to `noise`, `sampling` and `clipping`.
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
    the certificate does not show it. State bounds in `columns` instead, which you know without looking at the rows.

    There are no `labels_` and no `inertia_`, because they depend on the training rows and are not protected. Accessing
    them, or `fit_predict`, raises `NotProtectedError`. The results of `predict` and `score` on the training rows are
    not private either.

    Examples
    --------
    >>> from pais import DPKMeans, example_people
    >>> columns = {"age": (18, 100), "region": ["north", "south"], "premium": bool}
    >>> model = DPKMeans(n_clusters=4, epsilon=1.0, columns=columns, unit="customer_id").fit(example_people(5_000))
    >>> model.cluster_centers_.shape
    (4, 4)
    >>> model.certificate_.neighbours
    'one customer_id added or removed'
    """

    def __init__(
        self,
        n_clusters: int | str = 8,
        epsilon: float = 1.0,
        delta: float | None = None,
        radius: float | None = None,
        center: Any = None,
        sampling: Any = "constrained",
        sample_size: float | Literal["free"] | None = None,
        mechanism: str = "gaussian",
        random_state: Any = None,
        norms: Any = None,
        ledger: Any = None,
        max_epsilon_if_kept: float | None = None,
        quantile: float | None = None,
        columns: Any = None,
        missing: str = "drop",
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        max_clusters: int = 20,
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
        self.quantile = quantile
        self.columns = columns
        self.missing = missing
        self.unit = unit
        self.max_rows_per_unit = max_rows_per_unit
        self.max_clusters = max_clusters

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
        self._fit(X)
        return self

    def _settings(self) -> KMeansSettings:
        return self._settings_of(KMeansSettings)

    def _keep(self, fitted: Fit) -> None:
        centers = fitted.value.centers
        self.cluster_centers_ = centers if fitted.schema is None else fitted.schema.decode(centers)
        self.n_clusters_ = len(centers)
        self.noisy_counts_ = fitted.value.noisy_counts
        self.effective_centers_ = fitted.value.effective_centers
        self.quality_ = fitted.quality
        super()._keep(fitted)

    @property
    def elbow_(self) -> Any:
        """Estimated cost for every number of clusters."""
        check_is_fitted(self)
        return elbow_frame(elbow_of(self.fit_))

    def with_clusters(self, n_clusters: int) -> DPKMeans:
        """Return a fitted copy of this model with another number of clusters, at no further price.

        The centers are merged from the released cells, or are those of the release if that has this number of clusters.
        They are a little less accurate than those of a fit for this number. The certificate is the same. It matches the
        copy, because it was issued for the values that the new centers were computed from.

        Parameters
        ----------
        n_clusters : int
            At most the number of released cells, ``len(model.elbow_)``.
        """
        check_is_fitted(self)
        merged = self.fit_.with_clusters(n_clusters)
        other = copy.copy(self)
        other.n_clusters = len(merged.value.centers)
        other._keep(merged)
        return other

    def explain(self) -> str:
        """Describe the fit in words: each segment in a sentence, how far it can be read, and the certificate."""
        findings, _, certificate = super().explain().partition("\n\n")
        segments = segment_lines(self.fit_, getattr(self, "feature_names_in_", None))
        return "\n".join([findings, "", *segments, "", certificate])

    def centers_frame(self) -> Any:
        """Centers as a pandas frame, one row per cluster, in the units of the columns.

        The columns are the features; `noisy_count`, which with a unit is a number of people who may be split over
        clusters; `share` of all clusters; then standard errors: `noisy_count_se`, `share_se`, and for each feature that
        due to noise, named ``<feature>_se``. With a schema, categories and booleans are shares, dates are times, and
        the standard error of a date is in days. Features of an array are called ``x0``, ``x1`` and so on. Needs pandas.
        """
        check_is_fitted(self)
        return centers_frame(self.fit_, getattr(self, "feature_names_in_", None))

    @property
    def labels_(self) -> Any:
        """Raise: labels of the training rows are not protected."""
        raise _not_protected("labels_")

    @property
    def inertia_(self) -> Any:
        """Raise: the exact cost of the training rows is not protected."""
        raise _not_protected("inertia_")

    @property
    def fit_predict(self) -> Any:
        """Raise: labels of the training rows are not protected."""
        raise _not_protected("fit_predict")

    @without_sizes
    def predict(self, X: Any) -> NDArray[np.intp]:
        """Not private: index of the nearest center of each row, or -1 if a value of the row is missing.

        Parameters
        ----------
        X : array, table, path, Spark DataFrame or source
            As in `fit`, in the columns' own units. Files are streamed, and their columns are found by name. The result
            has the order of the rows. For a Spark DataFrame, the result is the DataFrame with a column `label`, null
            where a value is missing.
        """
        check_is_fitted(self)
        if is_streamed(X):
            rows = self._same_columns(X) if isinstance(X, Engine) else X
            model = CenterModel(
                centers=self._vectors,
                columns=self._columns_in,
                schema=self.fit_.schema,
                fills_missing=self.missing == "midpoint",
            )
            labels: NDArray[np.intp] = model.labels(rows)
            return labels
        return nearest(self._doubles(X), self._vectors).astype(np.intp)

    @without_sizes
    def transform(self, X: Any) -> FloatArray:
        """Not private: distance of each row to each center, or NaN if a value of the row is missing.

        With `columns`, it is the distance between scaled vectors.
        """
        check_is_fitted(self)
        rows = self._doubles(X)
        with np.errstate(all="ignore"):
            distances = np.sqrt(square_distances(rows, self._vectors))
        distances[~np.isfinite(rows).all(axis=1)] = np.nan
        return distances

    @without_sizes
    def score(self, X: Any, y: object = None) -> float:
        """Not private: minus the sum of squared distances of the rows to their nearest centers.

        Rows with NaN, infinity or missing values are left out.
        """
        check_is_fitted(self)
        if is_streamed(X) or self.columns is not None:
            return -cost(self._same_columns(X), self._vectors)
        rows = self._doubles(X)
        finite = rows[np.isfinite(rows).all(axis=1)]
        return -float(square_distances(finite, self._vectors).min(axis=1).sum())

    @property
    def _vectors(self) -> FloatArray:
        """The centers in the space of the rows: scaled vectors if the model has a schema."""
        return self.cluster_centers_ if self.fit_.schema is None else np.asarray(self.fit_.value.centers)

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])


def _not_protected(name: str) -> NotProtectedError:
    instead = (
        "score(X), or elbow_ for an estimate from released values" if name == "inertia_" else "fit(X) and predict(X)"
    )
    return NotProtectedError(
        f"{name} would depend on the training rows without protection, so this model does not have it. Use {instead}; "
        "the result on training rows is not private."
    )
