"""Weighted DP-Lloyd as the paper describes it, with the noise its code adds and with the noise its proof needs.

NOT PRIVATE, on purpose: seeded generators and floating-point sums, and with `published` no guarantee of any kind. The
private mechanisms are in the library; this one is here to be compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Float32Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]
Law = Literal["published", "valid", "none"]

#: Rounds, clusters, and the typical |center| / radius of the paper's split.
N_ROUNDS = 10
N_CLUSTERS = 25
RHO = 0.225

_BLOCK_ROWS = 2048


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Scales of the noise on the sum and on the count of a cluster, in each round."""

    sum: float
    count: float


def split(n_features: int) -> float:
    """The paper's count scale over its sum scale: blind to the unit of the rows (erratum 9), kept as it is."""
    return float((4.0 * n_features * RHO**2) ** (1.0 / 3.0))


def sum_noise(law: Law, scale: float, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    """Noise for one vector per cluster: a uniform direction times a radius.

    The density proportional to exp(-|z| / scale) has a Gamma(d) radius. The published code takes an exponential one
    (erratum 1), whose density has a pole at the true sum: no guarantee holds for it.
    """
    k, d = shape
    if law == "none":
        return np.zeros(shape)
    direction = rng.standard_normal(shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = rng.exponential(scale, size=k) if law == "published" else rng.gamma(d, scale, size=k)
    return np.asarray(direction * radius[:, None])


def dp_lloyd(
    rows: FloatArray, weights: FloatArray, start: FloatArray, *, law: Law, scales: Scales, rng: np.random.Generator
) -> FloatArray:
    """Centers after ten rounds of noisy weighted means.

    As published, a cluster without rows keeps its center: that tells whether it had rows. With valid noise every
    cluster is measured. Centers are not clipped; both laws divide by the noisy count as it comes.
    """
    k, d = start.shape
    single = rows.astype(np.float32)
    weighted = rows * weights[:, None]
    centers = start.astype(np.float64)
    for _ in range(N_ROUNDS):
        label = _nearest(single, centers)
        member = sparse.csr_array((np.ones(label.size), label, np.arange(label.size + 1)), shape=(label.size, k)).T
        counts, sums = member @ weights, member @ weighted
        filled = counts > 0.0
        if law != "none":
            counts = counts + rng.laplace(scale=scales.count, size=k)
            sums = sums + sum_noise(law, scales.sum, (k, d), rng)
        if law == "valid":
            filled = counts != 0.0
        moved = sums / np.where(filled, counts, 1.0)[:, None]
        centers = np.where(filled[:, None], moved, centers)
    return centers


def _nearest(rows: Float32Array, centers: FloatArray) -> NDArray[np.intp]:
    center = centers.astype(np.float32)
    half = 0.5 * np.einsum("ij,ij->i", center, center)
    label = np.empty(len(rows), dtype=np.intp)
    for begin in range(0, label.size, _BLOCK_ROWS):
        scores = rows[begin : begin + _BLOCK_ROWS] @ center.T
        scores -= half
        label[begin : begin + _BLOCK_ROWS] = scores.argmax(axis=1)
    return label
