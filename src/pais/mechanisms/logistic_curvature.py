"""Curvature of a logistic loss in whitened coordinates: a model for normal rows, and what a noisy release corrects.

Nothing in this module reads rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pais._base.numerics import FloatArray

# Curvature along the coefficients over that across them, at least.
_LEAST_ALONG = 0.3

_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()


def doubt(values: FloatArray, noise: float) -> float:
    """How much less the mean square in the direction of an eigenvector may be than the eigenvalue, due to noise.

    One standard deviation of the noise in this direction, and what the other directions explain: their products with it
    are noise, so that the square of each over their own mean square is lost. `noise` is that of the diagonal.
    """
    edge = noise * math.sqrt(2.0 * len(values))
    return noise + (noise**2 / 2.0 * float((1.0 / np.maximum(values, edge)).sum()) if edge > 0.0 else 0.0)


class Curvature(Protocol):
    """Second derivatives of the mean loss, one matrix for each logit."""

    @property
    def mean(self) -> float:
        """Mean of the eigenvalues."""
        ...

    def times(self, point: FloatArray) -> FloatArray:
        """Product with coefficients of shape (d + 1, n_logits)."""
        ...

    def solve(self, target: FloatArray, strength: float) -> FloatArray:
        """Solve (curvature + strength) x = target for targets of shape (d + 1, n_logits)."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelCurvature:
    """Second derivatives diag(across * squares) - along v v' for each logit, of normal rows with these squares."""

    squares: FloatArray
    across: FloatArray
    along: FloatArray
    directions: FloatArray

    @classmethod
    def at(cls, point: FloatArray, squares: FloatArray, size: float) -> ModelCurvature:
        """Curvature at coefficients, for normal rows with these mean squares, times a factor `size`."""
        n_logits = point.shape[1]
        deviations = np.sqrt(squares @ np.square(point))
        # A logit against the others, which are at 0 on average.
        offset = 0.0 if n_logits == 1 else -math.log(n_logits - 1.0)
        chance = 0.5 * (1.0 + np.tanh(0.5 * (offset + np.outer(deviations, _NODES))))
        slope = chance * (1.0 - chance)
        across = slope @ _NODE_WEIGHTS
        along = np.maximum(slope @ (_NODE_WEIGHTS * _NODES**2), _LEAST_ALONG * across)
        directions = squares[:, None] * point / np.where(deviations > 0.0, deviations, 1.0)
        return cls(
            squares=squares,
            across=np.maximum(across, 1e-12) * size,
            along=np.maximum(across - along, 0.0) * size,
            directions=directions,
        )

    @property
    def mean(self) -> float:
        return float(self.across.mean())

    def times(self, point: FloatArray) -> FloatArray:
        inner = np.sum(self.directions * point, axis=0)
        return np.asarray(self.squares[:, None] * self.across * point - self.directions * (self.along * inner))

    def solve(self, target: FloatArray, strength: float) -> FloatArray:
        diagonal = self.across * self.squares[:, None] + strength
        plain, moved = target / diagonal, self.directions / diagonal
        rest = 1.0 - self.along * (self.directions * moved).sum(axis=0)
        return np.asarray(plain + moved * (self.along / rest * (moved * target).sum(axis=0)))

    def matrices(self) -> FloatArray:
        """The matrices themselves, of shape (n_logits, d + 1, d + 1)."""
        diagonal = np.stack([np.diag(self.squares * across) for across in self.across])
        return np.asarray(
            diagonal - self.along[:, None, None] * self.directions.T[:, :, None] * self.directions.T[:, None]
        )


@dataclass(frozen=True, kw_only=True)
class SeenCurvature:
    """Second derivatives by their eigenvalues: the model, moved toward a noisy release of them.

    Attributes
    ----------
    values : array of shape (n_logits, d + 1)
        Eigenvalues, raised to the largest one of the noise.
    least : array of shape (n_logits, d + 1)
        Lower bounds on the eigenvalues. They hold unless the noise is unusually large.
    vectors : array of shape (n_logits, d + 1, d + 1)
        Eigenvectors, in columns.
    """

    values: FloatArray
    least: FloatArray
    vectors: FloatArray

    @classmethod
    def of(cls, model: ModelCurvature, least_squares: FloatArray, seen: FloatArray, noise: float) -> SeenCurvature:
        """Combine a model, in which mean squares may be as small as `least_squares`, with noisy matrices.

        The difference is shrunk as the noise in it demands (James and Stein). Coordinates whose mean square the noise
        hides keep the model: the noise would mix them with the others. `noise` is that of the diagonal.
        """
        taper = np.clip(least_squares / model.squares, 0.0, 1.0)
        outer, square_taper = np.multiply.outer(taper, taper), np.square(taper)
        energy = noise**2 / 2.0 * float(np.square(outer).sum() + np.square(square_taper).sum())
        edge = noise * math.sqrt(2.0 * float(square_taper.sum()))
        missing = np.maximum(model.squares - least_squares, 0.0)
        values, least, vectors = [], [], []
        for across, plain, matrix in zip(model.across, model.matrices(), seen, strict=True):
            change = (matrix - plain) * outer
            square = float(np.square(change).sum())
            gain = max(0.0, 1.0 - energy / square) if square > 0.0 else 0.0
            eigenvalues, directions = np.linalg.eigh(plain + gain * change)
            squares = np.square(directions).T
            unseen = squares @ ((1.0 - gain * square_taper) * across * missing)
            unseen += (squares @ square_taper) * doubt(np.maximum(eigenvalues, 0.0), gain * noise)
            values.append(np.maximum(eigenvalues, np.maximum(gain * edge, 1e-12)))
            least.append(np.maximum(eigenvalues - unseen, 0.0))
            vectors.append(directions)
        return cls(values=np.stack(values), least=np.stack(least), vectors=np.stack(vectors))

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    def times(self, point: FloatArray) -> FloatArray:
        return self._scaled(point, self.values)

    def solve(self, target: FloatArray, strength: float) -> FloatArray:
        return self._scaled(target, 1.0 / (self.values + strength))

    def _scaled(self, point: FloatArray, factors: FloatArray) -> FloatArray:
        inner = np.einsum("lji,jl->li", self.vectors, point) * factors
        return np.asarray(np.einsum("lji,li->jl", self.vectors, inner))
