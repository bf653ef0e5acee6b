"""Nearest centers and k-means on released or public points. No function here reads a row."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pais._base.numerics import FloatArray

Generator = np.random.Generator
BoolArray = NDArray[np.bool_]

# Starts that `merge` compares. Chosen by eye, with the gates of tests/theory/test_gates.py (commit 8b07537).
RESTARTS = 40


def into_ball(centers: FloatArray, radius: float) -> FloatArray:
    """Scale centers beyond the radius back to it."""
    norm = np.sqrt(np.einsum("ij,ij->i", centers, centers))
    return np.asarray(centers * (radius / np.maximum(norm, radius))[:, None])


def _scores(points: FloatArray, centers: FloatArray) -> FloatArray:
    """Scores x.c - |c|^2 / 2, which are largest for the nearest center."""
    return np.asarray(points @ centers.T - 0.5 * np.einsum("ij,ij->i", centers, centers))


def nearest(points: FloatArray, centers: FloatArray) -> NDArray[np.intp]:
    return np.asarray(_scores(points, centers).argmax(axis=1))


def lloyd(points: FloatArray, mass: FloatArray, centers: FloatArray, steps: int) -> FloatArray:
    """Lloyd's algorithm on weighted points from given centers."""
    k, n = len(centers), len(points)
    # The mass of each point stands in the row of its center. `indices` are the centers of the points.
    member = sparse.csc_array((mass, np.zeros(n, dtype=np.int32), np.arange(n + 1)), shape=(k, n))
    last = None
    for _ in range(steps):
        label = nearest(points, centers)
        if last is not None and np.array_equal(label, last):
            break
        last = member.indices[:] = label
        size = np.bincount(label, mass, minlength=k)[:, None]
        centers = np.where(size > 0.0, (member @ points) / np.maximum(size, 1e-300), centers)
    return np.asarray(centers)


def settle(candidates: FloatArray, points: FloatArray, mass: FloatArray, steps: int = 10) -> FloatArray:
    """Lloyd's algorithm on weighted points from each of several sets of centers; returns the best set."""
    best, lowest = candidates[0], math.inf
    for candidate in candidates:
        centers = lloyd(points, mass, candidate, steps)
        cost = -float(mass @ _scores(points, centers).max(axis=1))
        if cost < lowest:
            best, lowest = centers, cost
    return np.asarray(best)


def merge(points: FloatArray, mass: FloatArray, k: int, rng: Generator) -> FloatArray:
    """Weighted greedy k-means++ and Lloyd on few points. Runs all restarts at once and returns all, best first."""
    n, d = points.shape
    if n <= k:
        jitter = 1e-3 * math.sqrt(float(np.square(points).sum(axis=1).mean()) / d) * rng.standard_normal((k - n, d))
        return np.vstack([points, points[rng.integers(0, n, k - n)] + jitter])[None]

    def scores() -> FloatArray:
        return np.asarray(points @ centers.swapaxes(1, 2) - 0.5 * np.square(centers).sum(axis=2)[:, None, :])

    centers = points[_greedy_start(points, mass, k, rng)]
    restarts = np.arange(RESTARTS)
    for _ in range(30):
        member = np.zeros((RESTARTS, k, n))
        member[restarts[:, None], scores().argmax(axis=2), np.arange(n)] = mass
        size = member.sum(axis=2)[:, :, None]
        moved = np.where(size > 0.0, member @ points / np.maximum(size, 1e-300), centers)
        if np.array_equal(moved, centers):
            break
        centers = moved
    return np.asarray(centers[np.argsort(-(scores().max(axis=2) @ mass), kind="stable")])


def _greedy_start(points: FloatArray, mass: FloatArray, k: int, rng: Generator) -> NDArray[np.intp]:
    """Indices of starting points for each restart: the best of three draws of k-means++ each time."""
    n = len(points)
    square = np.einsum("ij,ij->i", points, points)
    distance = np.maximum(square[:, None] + square - 2.0 * points @ points.T, 0.0)
    restarts = np.arange(RESTARTS)
    seeds = np.empty((RESTARTS, k), dtype=np.intp)
    seeds[:, 0] = rng.choice(n, RESTARTS, p=mass / mass.sum())
    near = distance[seeds[:, 0]]
    for j in range(1, k):
        cumulated = np.cumsum(near * mass, axis=1)
        level = rng.random((RESTARTS, 3)) * cumulated[:, -1:]
        candidate = np.minimum((cumulated[:, None, :] < level[:, :, None]).sum(axis=2), n - 1)
        closer = np.minimum(near[:, None, :], distance[candidate])
        best = (closer @ mass).argmin(axis=1)
        seeds[:, j], near = candidate[restarts, best], closer[restarts, best]
    return seeds
