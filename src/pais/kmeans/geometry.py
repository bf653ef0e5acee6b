"""Post-processing of released counts and sums into good centers, at no privacy cost because no function reads a row.

Each function takes released or public values. The techniques are: shrink singular values by the known noise, combine
rounds according to how far centers moved beyond the noise, and merge many cells into k centers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pais._base.numerics import FloatArray

Generator = np.random.Generator
BoolArray = NDArray[np.bool_]

#: Factor on the spread of the model points, because the best cells are more spread out than the data.
START_SPREAD = 1.25
# Number of model points for each starting cell, and largest number of model points.
_CELL_POINTS, _MOST_POINTS = 30, 2000
RESTARTS = 40


def into_ball(centers: FloatArray, radius: float) -> FloatArray:
    """Scale centers beyond the radius back to it."""
    norm = np.sqrt(np.einsum("ij,ij->i", centers, centers))
    return np.asarray(centers * (radius / np.maximum(norm, radius))[:, None])


def scores(points: FloatArray, centers: FloatArray) -> FloatArray:
    """Scores x.c - |c|^2 / 2, which are largest for the nearest center."""
    return np.asarray(points @ centers.T - 0.5 * np.einsum("ij,ij->i", centers, centers))


def nearest(points: FloatArray, centers: FloatArray) -> NDArray[np.intp]:
    return np.asarray(scores(points, centers).argmax(axis=1))


def directions(n: int, d: int, radius: float, rng: Generator) -> FloatArray:
    """Random directions at half the radius: a start that uses no rows. With equal norms, the cells are sectors."""
    direction = rng.standard_normal((n, d))
    return np.asarray(0.5 * radius * direction / np.linalg.norm(direction, axis=1, keepdims=True))


def lloyd_on_model(points: FloatArray, k: int, rng: Generator, steps: int = 6) -> FloatArray:
    """Plain Lloyd's algorithm on points drawn from a model, not from the rows."""
    centers = points[rng.choice(len(points), k, replace=len(points) < k)]
    member = _membership(np.ones(len(points)), k)
    for _ in range(steps):
        member.indices[:] = nearest(points, centers)
        size = np.bincount(member.indices, minlength=k)[:, None]
        centers = np.where(size > 0, (member @ points) / np.maximum(size, 1), centers)
    return centers


def _membership(mass: FloatArray, k: int) -> sparse.csc_array:
    """Matrix with the mass of each point in the row of its cell. Set its `indices` to the cells of the points."""
    return sparse.csc_array((mass, np.zeros(len(mass), dtype=np.int32), np.arange(len(mass) + 1)), shape=(k, len(mass)))


def spread_of_moment(moment: FloatArray, noise: float, n_rows: float, mean_square_norm: float) -> FloatArray:
    """Matrix s such that s.T @ s approximates the covariance.

    It uses the eigenvalues beyond the edge of the noise spectrum, corrected for the bias that the noise adds to them,
    and made larger to compensate for rows that were clipped before the moment was taken.
    """
    d = len(moment)
    value, vector = np.linalg.eigh(moment)
    energy = noise**2 / 2.0 * d
    keep = value > 2.0 * math.sqrt(energy)
    if not np.any(keep):
        return np.eye(d) * math.sqrt(mean_square_norm / d)
    value = value[keep]
    value = 0.5 * (value + np.sqrt(value**2 - 4.0 * energy))
    clipped = max(float(np.trace(moment)), float(value.sum()))
    enlarged = min(max(n_rows * mean_square_norm / clipped, 1.0), 4.0)
    return np.asarray(np.sqrt(value * enlarged / n_rows)[:, None] * vector[:, keep].T)


def spread_of_sectors(means: FloatArray, share: FloatArray, mean_square_norm: float) -> FloatArray:
    """The same matrix from sector means, whose singular values are about proportional to the covariance eigenvalues."""
    _, value, vector = np.linalg.svd(means * np.sqrt(share)[:, None], full_matrices=False)
    if value.sum() <= 0.0:
        return np.eye(means.shape[1]) * math.sqrt(mean_square_norm / means.shape[1])
    return np.asarray(np.sqrt(mean_square_norm * value / value.sum())[:, None] * vector)


def start_from_spread(spread: FloatArray, cells: int, radius: float, rng: Generator) -> tuple[FloatArray, float]:
    """Starting cells by Lloyd's algorithm on a Gaussian with the covariance of `spread`; and their root mean square."""
    points = START_SPREAD * rng.standard_normal((_n_points(cells), len(spread))) @ spread
    return _started(points, cells, radius, rng)


def _n_points(cells: int) -> int:
    return min(_CELL_POINTS * cells, _MOST_POINTS)


def _started(points: FloatArray, cells: int, radius: float, rng: Generator) -> tuple[FloatArray, float]:
    centers = into_ball(lloyd_on_model(points, cells, rng), radius)
    distance = np.square(points - centers[nearest(points, centers)]).sum(axis=1)
    return centers, math.sqrt(float(distance.mean()))


def start_from_sectors(
    means: FloatArray, share: FloatArray, spread: FloatArray, cells: int, radius: float, rng: Generator
) -> tuple[FloatArray, float]:
    """Starting cells: Lloyd's algorithm on sector means plus a Gaussian with the variance they do not explain."""
    total = float(np.square(spread).sum())
    explained = float(share @ np.square(means).sum(axis=1)) / max(total, 1e-300)
    points = means[rng.choice(len(means), _n_points(cells), p=share)]
    rest = math.sqrt(max(0.0, 1.0 - explained))
    points = points + rest * rng.standard_normal((len(points), len(spread))) @ spread
    return _started(into_ball(points, radius), cells, radius, rng)


def denoise(stack: FloatArray, strength: FloatArray, last: int) -> tuple[FloatArray, FloatArray]:
    """Shrink the last rows of a stack of signal plus unit noise, where the signals share a low-dimensional space.

    Gavish and Donoho's shrinkage factor of a singular direction is a Wiener factor g/(1+g) at mean strength. Rows of
    larger strength are shrunk less. Returns the shrunk rows and the noise variance that remains in each.
    """
    rows, d = stack.shape
    long, beta = max(rows, d), min(rows, d) / max(rows, d)
    if rows >= d:
        square, right = np.linalg.eigh(stack.T @ stack)
    else:
        square, left = np.linalg.eigh(stack @ stack.T)
    y = np.maximum(square, 0.0) / long
    keep = y > (1.0 + math.sqrt(beta)) ** 2
    y = y[keep]
    factor = np.sqrt(np.maximum((y - beta - 1.0) ** 2 - 4.0 * beta, 0.0)) / y
    right = right[:, keep] if rows >= d else stack.T @ (left[:, keep] / np.sqrt(square[keep]))
    gain = factor / np.maximum(1.0 - factor, 1e-9)
    gain = (strength[-last:] / strength.mean())[:, None] * gain
    gain = gain / (1.0 + gain)
    return (stack[-last:] @ right * gain) @ right.T, gain.sum(axis=1)


def restore(
    noisy: FloatArray, shrunk: FloatArray, left: FloatArray, strength: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Give back a part of what `denoise` removed, if its energy is more than that of noise.

    The excess energy is the signal in directions that are too weak to be recognised one by one. Rows of larger strength
    get more of it back. Returns the rows and the noise variance that remains in each.
    """
    removed, degrees = noisy - shrunk, noisy.shape[1] - left
    excess = max(0.0, float(np.square(removed).sum() / max(float(degrees.sum()), 1e-9)) - 1.0)
    square = np.square(strength)
    gain = excess * square / square.mean()
    gain = gain / (1.0 + gain)
    return shrunk + gain[:, None] * removed, left + gain * degrees


def merge(points: FloatArray, mass: FloatArray, k: int, rng: Generator, steps: int = 30, tries: int = 3) -> FloatArray:
    """Weighted greedy k-means++ and Lloyd on released cells. Runs all restarts at once and returns all, best first."""
    n, d = points.shape
    if n <= k:
        jitter = 1e-3 * math.sqrt(float(np.square(points).sum(axis=1).mean()) / d) * rng.standard_normal((k - n, d))
        return np.vstack([points, points[rng.integers(0, n, k - n)] + jitter])[None]
    centers = points[_greedy_start(points, mass, k, rng, tries)]
    all_ = np.arange(RESTARTS)
    for _ in range(steps):
        label = (points @ centers.swapaxes(1, 2) - 0.5 * np.square(centers).sum(axis=2)[:, None, :]).argmax(axis=2)
        member = np.zeros((RESTARTS, k, n))
        member[all_[:, None], label, np.arange(n)] = mass
        size = member.sum(axis=2)[:, :, None]
        moved = np.where(size > 0.0, member @ points / np.maximum(size, 1e-300), centers)
        if np.array_equal(moved, centers):
            break
        centers = moved
    score = (points @ centers.swapaxes(1, 2) - 0.5 * np.square(centers).sum(axis=2)[:, None, :]).max(axis=2)
    return np.asarray(centers[np.argsort(-(score @ mass), kind="stable")])


def settle(candidates: FloatArray, points: FloatArray, mass: FloatArray, steps: int = 10) -> FloatArray:
    """Lloyd's algorithm on weighted model points from each of several sets of centers; returns the best set."""
    best, lowest = candidates[0], math.inf
    member = _membership(mass, candidates.shape[1])
    for centers in candidates:
        last = None
        for _ in range(steps):
            label = nearest(points, centers)
            if last is not None and np.array_equal(label, last):
                break
            last = member.indices[:] = label
            size = np.bincount(label, mass, minlength=len(centers))[:, None]
            centers = np.where(size > 0.0, (member @ points) / np.maximum(size, 1e-300), centers)
        cost = -float(mass @ scores(points, centers).max(axis=1))
        if cost < lowest:
            best, lowest = centers, cost
    return np.asarray(best)


def _greedy_start(points: FloatArray, mass: FloatArray, k: int, rng: Generator, tries: int) -> NDArray[np.intp]:
    n = len(points)
    square = np.einsum("ij,ij->i", points, points)
    distance = np.maximum(square[:, None] + square - 2.0 * points @ points.T, 0.0)
    all_ = np.arange(RESTARTS)
    seeds = np.empty((RESTARTS, k), dtype=np.intp)
    seeds[:, 0] = rng.choice(n, RESTARTS, p=mass / mass.sum())
    near = distance[seeds[:, 0]]
    for j in range(1, k):
        cumulated = np.cumsum(near * mass, axis=1)
        level = rng.random((RESTARTS, tries)) * cumulated[:, -1:]
        candidate = np.minimum((cumulated[:, None, :] < level[:, :, None]).sum(axis=2), n - 1)
        closer = np.minimum(near[:, None, :], distance[candidate])
        best = (closer @ mass).argmin(axis=1)
        seeds[:, j], near = candidate[all_, best], closer[all_, best]
    return seeds
