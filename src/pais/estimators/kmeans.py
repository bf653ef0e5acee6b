"""The scikit-learn estimator `DPKMeans`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.validate import without_sizes
from pais.accounting import accounts
from pais.data.cost import cost
from pais.data.distances import nearest, square_distances
from pais.data.labels import CenterModel
from pais.data.sources import is_streamed
from pais.estimators.base import PrivateEstimator
from pais.estimators.plots import plot_centers
from pais.planning import Fit, KMeansSettings


class DPKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]  # untyped bases
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
    quantile : float, optional
        Share of the rows within the surveyed radius. If None, the plan chooses the radius with the least predicted
        excess cost from noise and clipped rows.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        In the units of the data.
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
    the certificate does not show it. Scale with public constants instead, for example with
    ``FunctionTransformer(lambda X: X / bounds)``, where you know the bounds without looking at the rows.

    There are no `labels_` and no `inertia_`, because they depend on the training rows and are not protected.
    The results of `predict` and `score` on the training rows are not private either.

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
        quantile: float | None = None,
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
        # during this fit.
        charged = accounts(self.ledger)
        names = {field.name for field in fields(KMeansSettings)}
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        if self.center is not None:
            parameters["center"] = tuple(validate.flat("center", self.center).tolist())
        self._fit(X, KMeansSettings(**parameters), charged)
        return self

    def _keep(self, fitted: Fit) -> None:
        self.cluster_centers_ = fitted.value.centers
        self.effective_centers_ = fitted.value.effective_centers
        self.quality_ = fitted.quality
        super()._keep(fitted)

    def plot(self, ax: Any = None) -> Any:
        """Draw the centers on their two principal directions, and return the matplotlib axes.

        The area of a marker grows with the noisy count, and a dashed ellipse shows two standard errors due to noise.
        Only released values are drawn, so the plot may be published. Needs the extra `pais[plots]`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None = a new figure.
        """
        check_is_fitted(self)
        return plot_centers(self.fit_, getattr(self, "feature_names_in_", None), ax)

    @without_sizes
    def predict(self, X: Any) -> NDArray[np.intp]:
        """Not private: index of the nearest center of each row, or -1 if a value of the row is missing.

        Parameters
        ----------
        X : array, table, path, Spark DataFrame or source
            As in `fit`. Files are streamed, and their columns are found by name. The result has the order of the rows.
            For a Spark DataFrame, the result is the DataFrame with a column `label`, null where a value is missing.
        """
        check_is_fitted(self)
        if is_streamed(X):
            labels: NDArray[np.intp] = self._center_model().labels(X)
            return labels
        return nearest(self._doubles(X), self._centers()).astype(np.intp)

    @without_sizes
    def transform(self, X: Any) -> FloatArray:
        """Not private: distance of each row to each center, or NaN if a value of the row is missing."""
        check_is_fitted(self)
        rows = self._doubles(X)
        with np.errstate(all="ignore"):
            distances = np.sqrt(self._distances_of(rows))
        distances[~np.isfinite(rows).all(axis=1)] = np.nan
        return distances

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

    def _distances_of(self, rows: FloatArray) -> FloatArray:
        return square_distances(rows, self._centers())

    def _centers(self) -> FloatArray:
        """Centers in the space in which the rows are compared with them."""
        return np.asarray(self.cluster_centers_)

    def _center_model(self) -> CenterModel:
        return CenterModel(
            centers=self._centers(), columns=self._columns_in, schema=getattr(self.plan_, "schema", None)
        )

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])
