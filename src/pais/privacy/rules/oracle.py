"""The variance-optimal probabilities of a data set, for studies only. NOT PRIVATE.

They depend on the rows, so they are not a `Rule`, and no sampler of this package accepts them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.errors import UnreachableError


def not_private_variance_optimal(norm: ArrayLike, *, sample_size: float) -> FloatArray:
    """Probabilities proportional to the l2 norm, capped at 1, that sum to `sample_size`. NOT PRIVATE.

    These probabilities minimise the sampling variance of a sum at a given expected size (water-filling). They depend on
    all norms at once, so they give no differential privacy guarantee of any kind. Use them as a lower bound in a plot.
    """
    norms = validate.non_empty("norm", validate.norms(norm).ravel())
    size = validate.positive("sample_size", sample_size)
    positive = int(np.count_nonzero(norms))
    if size > positive:
        raise UnreachableError(
            f"sample_size={size!r} exceeds the number of positive norms. Pass a smaller size.",
            reachable=float("nan"),
        )
    order = np.argsort(-norms)
    ranked = norms[order]
    # If the j largest probabilities are capped at 1, the others sum to size - j in proportion to the norm.
    tail = np.cumsum(ranked[::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = (size - np.arange(norms.size)) / tail
    fits = (scale > 0.0) & (scale * ranked <= 1.0)
    capped = int(np.argmax(fits)) if np.any(fits) else norms.size
    result = np.ones_like(norms)
    if capped < norms.size:
        result[order[capped:]] = np.minimum(scale[capped] * ranked[capped:], 1.0)
    return result
