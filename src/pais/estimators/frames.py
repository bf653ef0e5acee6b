"""Released values as pandas frames. pandas is an optional extra."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.errors import ArgumentError
from pais.mechanisms import Elbow
from pais.planning import KMeansFit
from pais.planning.coefficients import Coefficients
from pais.planning.components import PCAFit
from pais.planning.logits import Logits
from pais.planning.readability import CLEAR
from pais.report.view import sizes_of

_COUNT = "noisy_count"


def centers_frame(fit: KMeansFit, feature_names: Any = None) -> Any:
    """Centers in own units, noisy counts and standard errors, one row per cluster."""
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError("centers_frame needs pandas. Install it: pip install pandas.") from None
    value, schema = fit.value, fit.schema
    if schema is not None:
        columns = schema.decode_frame(value.centers)
    else:
        names = [f"x{j}" for j in range(value.centers.shape[1])] if feature_names is None else map(str, feature_names)
        columns = dict(zip(names, value.centers.T, strict=True))
    frame = pd.DataFrame(columns, index=pd.RangeIndex(len(value.centers), name="cluster"))
    features = list(frame.columns)
    sizes = sizes_of(fit)
    columns = {
        _COUNT: sizes.counts,
        "share": sizes.shares,
        f"{_COUNT}_se": sizes.errors,
        "share_se": sizes.share_errors,
    }
    for name, numbers in columns.items():
        frame.insert(len(frame.columns), name, numbers, allow_duplicates=True)
    if value.standard_errors is not None:
        errors = value.standard_errors * (1.0 if schema is None else schema.unit_scale)
        errors = pd.DataFrame(errors, index=frame.index, columns=[f"{name}_se" for name in features])
        frame = pd.concat([frame, errors], axis=1)
    return frame


def coefficients_frame(coefficients: Coefficients) -> Any:
    """Coefficients with standard errors and intervals of two standard errors to each side, then the intercept."""
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError("coefficients_frame needs pandas. Install it: pip install pandas.") from None
    values = np.append(coefficients.values, coefficients.intercept)
    errors = np.append(coefficients.standard_errors, coefficients.intercept_error)
    index = pd.Index([*coefficients.labels, "intercept"], name="feature")
    columns = with_intervals(values, errors, np.append(coefficients.hidden, False))
    return pd.DataFrame({**columns, "compared_with": [*coefficients.compared_with, ""]}, index=index)


def with_intervals(values: FloatArray, errors: FloatArray, hidden: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Columns of a table of coefficients: those hidden by noise have no interval."""
    reach = np.where(hidden, np.nan, CLEAR * errors)
    return {
        "coefficient": values,
        "standard_error": errors,
        "low": values - reach,
        "high": values + reach,
        "hidden_by_noise": hidden,
    }


def components_frame(fit: PCAFit) -> Any:
    """Explained variances with standard errors, then the loadings, one row per component. Numbers begin at 1."""
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError("components_frame needs pandas. Install it: pip install pandas.") from None
    k, spectrum = fit.n_components, fit.spectrum
    index = pd.RangeIndex(1, k + 1, name="component")
    variances = {
        "explained_variance": spectrum.variances[:k],
        "explained_variance_ratio": spectrum.shares[:k],
        "standard_error": spectrum.standard_errors[:k],
    }
    loadings = pd.DataFrame(spectrum.components[:k], index=index, columns=list(fit.labels))
    return pd.concat([pd.DataFrame(variances, index=index), loadings], axis=1)


def logits_frame(logits: Logits, classes: Any) -> Any:
    """Coefficients of the logits with standard errors and intervals, by class if there are several logits."""
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError("coefficients_frame needs pandas. Install it: pip install pandas.") from None
    values = np.column_stack([logits.values, logits.intercepts]).ravel()
    errors = np.column_stack([logits.standard_errors, logits.intercept_errors]).ravel()
    index: Any = pd.Index([*logits.labels, "intercept"], name="feature")
    if len(logits.values) > 1:
        index = pd.MultiIndex.from_product([classes, index], names=["class", "feature"])
    hidden = np.column_stack([logits.hidden, np.zeros(len(logits.values), dtype=bool)]).ravel()
    columns, compared_with = with_intervals(values, errors, hidden), [*logits.compared_with, ""] * len(logits.values)
    return pd.DataFrame({**columns, "compared_with": compared_with}, index=index)


def elbow_frame(elbow: Elbow) -> Any:
    """Estimated costs by number of clusters: a pandas frame, or a structured array if pandas is not installed."""
    numbers = np.array([point.n_clusters for point in elbow])
    costs = np.array([point.cost for point in elbow])
    columns = {
        "n_clusters": numbers,
        "estimated_cost": costs,
        "relative_cost": costs / max(float(costs[0]), 1e-300),
    }
    try:
        import pandas as pd
    except ImportError:
        array = np.empty(len(numbers), dtype=[(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            array[name] = column
        return array
    return pd.DataFrame(columns)
