"""The scikit-learn estimator `DPPCA`."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.validate import without_sizes
from pais.errors import ArgumentError
from pais.estimator import PrivateEstimator
from pais.pca.components import PCAFit, PCASettings, components_frame
from pais.pca.page import ComponentResults
from pais.planning.plan import Fit


class DPPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]  # untyped bases
    """Differentially private principal component analysis on one weighted sample of the rows.

    The fit releases one noisy matrix, the second moment of the rows with a constant column, which also contains their
    mean and their number. Components and variances are computed from this matrix. The noise makes the first eigenvalues
    of the matrix too large; `explained_variance_` is without this bias, which follows from the known noise.

    Rows beyond a radius are clipped, which changes components little and variances much if there are far rows. The
    norms that the survey released tell how much; `explained_variance_` contains an estimate of it.

    Parameters
    ----------
    n_components : int, float, "auto" or None
        Number of components. A share in (0, 1) takes as many as have more than this share of the estimated variance,
        "auto" as many as stand above the noise, at least one, and None all. The release does not depend on it.
    epsilon : float
        Privacy guarantee for everything that `fit` releases, with respect to adding or removing one row, or one person
        with all rows if `unit` is stated.
    delta : float, optional
        Additive term of the guarantee, on top of the factor e^epsilon. None means the smaller of 1e-6 and
        1 / (10 * number of rows). The number of rows is taken from `norms` if both `norms` and `radius` are stated.
        Otherwise it comes from the survey, and 1e-6 is certified and charged.
    radius : float, optional
        Public bound on the distance of a row from the center; rows beyond it are clipped. If None, a private survey
        releases the norms, and the radius balances noise, which grows with its square, and clipped rows.
    center : sequence of float, optional
        Public origin of the norms. If None, a private survey releases a noisy mean; if `radius` is stated, the center
        is the origin instead.
    sampling : {"constrained", "coreset", "uniform", "none"} or Rule
        Sampling rule, which decides the probability with which each row is kept. "none" uses all rows.
    sample_size : float or "free", optional
        Expected number of rows in the sample. "free" keeps as few rows as possible without extra noise, and at most
        half a gigabyte of numbers. None does the same for large tables. It keeps all rows of a table of up to 16
        million numbers, and of one of which a sample would have more than half. A size above the (noisy) number of
        rows keeps all of them.
    random_state : None, int or numpy Generator
        None draws from the cryptographic generator. Any other value makes the fit reproducible and NOT private.
    norms, ledger, max_epsilon_if_kept, missing, unit, max_rows_per_unit
        See `DPKMeans`.
    quantile : float, optional
        Share of the rows within the surveyed radius. If None, the plan chooses it.
    columns : mapping of str to facts, sequence of str or Schema, optional
        What is public about the columns of a table: see `DPKMeans` and `Schema`. Components, variances and transformed
        rows then refer to the scaled vectors, in which columns of different units have comparable size.
    whiten : bool
        Whether `transform` divides each coordinate by the root of its explained variance, or by that of the noise of a
        variance if this is larger.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Directions of largest variance, one in each row. The largest entry of each is positive.
    explained_variance_ : array of shape (n_components,)
        Estimated variance of the rows along each component.
    explained_variance_ratio_ : array of shape (n_components,)
        The same as shares of the estimated total variance.
    explained_variance_se_ : array of shape (n_components,)
        Standard error of each explained variance, due to the noise, to sampling and to clipped rows. It is that of the
        variance of all rows along the component, and of the variance of the best component of the same number. It
        cannot contain a few far rows that the noise of the survey hides; bounds of the columns rule them out.
    captured_ : float
        Predicted variance along these components over that along the best of their number. It accounts for noise only.
    mean_ : array of shape (n_features,)
        Noisy mean of the rows. With `columns`, in the columns' own units and within their bounds.
    n_components_ : int
        Number of components.
    n_above_noise_ : int
        Number of all components that stand above the noise. `fit` issues a `QualityWarning` if you ask for more.
    noise_level_ : float
        Largest variance that the noise would show in some direction if the rows had none.
    certificate_ : Certificate
        States what was released and the guarantee that it has; public.
    plan_ : Plan
        Everything decided before the rows were sampled; public.
    fit_ : PCAFit
        Second moment, all components, certificate, plan and survey together.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Rows beyond the radius are clipped, so they count less in the directions that they share. If a survey found the
    norms, the variances are multiplied by the ratio of the mean square norms of all rows and of the clipped rows.

    The guarantee does not cover preprocessing steps that were fitted to the same rows, such as a `StandardScaler`.
    State bounds in `columns` instead.

    Examples
    --------
    >>> from pais import DPPCA, example_people
    >>> columns = {"age": (18, 100), "income": (0, 200_000), "visits": (0, 50)}
    >>> model = DPPCA(n_components=2, epsilon=1.0, columns=columns, unit="customer_id").fit(example_people(5_000))
    >>> model.components_.shape
    (2, 3)
    >>> model.certificate_.neighbours
    'one customer_id added or removed'
    """

    def __init__(
        self,
        n_components: int | float | str | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        radius: float | None = None,
        center: Any = None,
        sampling: Any = "constrained",
        sample_size: float | Literal["free"] | None = None,
        random_state: Any = None,
        norms: Any = None,
        ledger: Any = None,
        max_epsilon_if_kept: float | None = None,
        quantile: float | None = None,
        columns: Any = None,
        missing: str = "drop",
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        whiten: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.center = center
        self.sampling = sampling
        self.sample_size = sample_size
        self.random_state = random_state
        self.norms = norms
        self.ledger = ledger
        self.max_epsilon_if_kept = max_epsilon_if_kept
        self.quantile = quantile
        self.columns = columns
        self.missing = missing
        self.unit = unit
        self.max_rows_per_unit = max_rows_per_unit
        self.whiten = whiten

    @without_sizes
    def fit(self, X: Any, y: object = None) -> DPPCA:
        """Compute and release private principal components of the rows.

        Parameters
        ----------
        X : array, table, path, Spark DataFrame or source
            As for `DPKMeans`: rows in memory, or any input of `pais.source`, of any size. Files and Spark DataFrames
            are streamed and never held in memory. A row with NaN, infinity or a missing value contributes nothing.
        y : ignored
        """
        validate.flag("whiten", self.whiten)
        self._fit(X)
        return self

    def _settings(self) -> PCASettings:
        return self._settings_of(PCASettings)

    def _keep(self, fitted: Fit) -> None:
        assert isinstance(fitted, PCAFit)
        spectrum, k = fitted.spectrum, fitted.n_components
        self.n_components_ = k
        self.components_ = spectrum.components[:k]
        self.explained_variance_ = spectrum.variances[:k]
        self.explained_variance_ratio_ = spectrum.shares[:k]
        self.explained_variance_se_ = spectrum.standard_errors[:k]
        self.captured_ = spectrum.captured(k)
        self.n_above_noise_ = spectrum.above_noise
        self.noise_level_ = spectrum.noise_level
        self.mean_ = spectrum.mean if fitted.schema is None else fitted.schema.decode(spectrum.mean[None, :])[0]
        super()._keep(fitted)

    @property
    def _pca_fit(self) -> PCAFit:
        assert isinstance(self.fit_, PCAFit)
        return self.fit_

    def _results(self) -> ComponentResults:
        fit, k = self._pca_fit, self.n_components_
        return ComponentResults(
            names=fit.labels,
            loadings=fit.spectrum.components[:k],
            variances=fit.spectrum.variances[:k],
            noisy_variances=fit.spectrum.noisy_variances[:k],
            shares=fit.spectrum.shares[:k],
            standard_errors=fit.spectrum.standard_errors[:k],
            noise_level=fit.spectrum.noise_level,
            above_noise=fit.spectrum.above_noise,
            scaled=fit.schema is not None,
            captured=fit.spectrum.captured(k),
            counted=fit.value.noisy_count,
            caution=fit.concern,
        )

    def components_frame(self) -> Any:
        """Components as a pandas frame, one row per component, numbered from 1 as in the report.

        It has the columns `explained_variance`, `explained_variance_ratio`, `standard_error` (of the variance),
        then the loading of each feature. With a schema, features are the coordinates of the scaled vectors,
        such as ``region=north``. Features of an array are called ``x0``, ``x1`` and so on. Needs pandas.
        """
        check_is_fitted(self)
        return components_frame(self._pca_fit)

    @without_sizes
    def transform(self, X: Any) -> FloatArray:
        """Not private: coordinates of each row along the components, or NaN if a value of the row is missing.

        Parameters
        ----------
        X : array, table or path
            Rows that fit into memory, in the columns' own units.
        """
        check_is_fitted(self)
        rows = self._doubles(X)
        with np.errstate(all="ignore"):
            coordinates = (rows - self._pca_fit.spectrum.mean) @ self.components_.T / self._lengths
        coordinates[~np.isfinite(rows).all(axis=1)] = np.nan
        return np.asarray(coordinates)

    @without_sizes
    def inverse_transform(self, X: Any) -> FloatArray:
        """Rows with these coordinates: the nearest ones, if `transform` left out components.

        With `columns`, they are in the columns' own units, within the stated bounds, with shares of categories.
        """
        check_is_fitted(self)
        coordinates = validate.real_array("X", X)
        if coordinates.ndim != 2 or coordinates.shape[1] != self.n_components_:
            raise ArgumentError(f"X must have {self.n_components_} columns, one for each component. Pass such rows.")
        rows = (coordinates * self._lengths) @ self.components_ + self._pca_fit.spectrum.mean
        schema = self.fit_.schema
        return np.asarray(rows if schema is None else schema.decode(rows))

    @property
    def _lengths(self) -> FloatArray:
        """Length of one unit of each coordinate."""
        if not self.whiten:
            return np.ones(self.n_components_)
        return np.sqrt(np.maximum(self.explained_variance_, self._pca_fit.spectrum.noise))

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])
