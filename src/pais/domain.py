"""Room 2: the ball the rows live in. Nothing unbounded passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pais import _validate
from pais._numerics import ULP, FloatArray
from pais.errors import ArgumentError, DataError

_UNDERFLOW = 1e-150

_FARTHEST_CENTER = 1e100

#: Stands for the power of a finite row that overflows.
OVERFLOWN = 1e300

# Beyond 8192 columns numpy takes a single row in other pieces than several.
_PIECE_COLUMNS = 4096


@dataclass(frozen=True, kw_only=True)
class Ball:
    """All rows x with ||x - center||_order <= radius: public, stated or paid for.

    Parameters
    ----------
    radius : float
        Rows beyond it are scaled back to it, never dropped.
    order : float
        The norm: 1, 2, any p >= 1, or math.inf. It must be the norm the mechanism's noise is made for.
    center : sequence of float, optional
        Public origin; None = zero.
    """

    radius: float
    order: float = 2.0
    center: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _validate.radius(self.radius))
        object.__setattr__(self, "order", norm_order(self.order))
        if self.center is not None:
            center = _validate.real_array("center", self.center)
            # Within the range of radii, no finite row overflows when the center is taken off.
            if center.ndim != 1 or center.size == 0 or not np.all(np.abs(center) <= _FARTHEST_CENTER):
                raise ArgumentError(
                    "center must be a flat sequence of numbers within [-1e100, 1e100]. Pass one for each column."
                )
            object.__setattr__(self, "center", tuple(center.tolist()))

    def shift(self, rows: NDArray[np.generic]) -> FloatArray:
        """Rows as float64, relative to the center, one after another in memory."""
        with np.errstate(over="ignore"):
            block = rows.astype(np.float64, order="C", copy=False)
        return block if self.center is None else block - np.asarray(self.center)

    def norms(self, shifted: FloatArray) -> FloatArray:
        """Norm of each shifted row, rounded up past its own rounding error, and at most the radius.

        The norm of a row that holds NaN or infinity is NaN. It does not change the norms of other rows.
        """
        return self.norms_of_powers(self.powers(shifted), shifted.shape[1])

    def powers(self, shifted: FloatArray) -> FloatArray:
        """The sum of squares of each shifted row in the l2 norm, its norm in others; NaN if the row is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            power = _squares(shifted) if self.order == 2.0 else norms_of(shifted, self.order)
        return settled(power, lambda index: shifted[index])

    def norms_of_powers(self, power: FloatArray, n_features: int) -> FloatArray:
        """Norms, from powers, which are overwritten."""
        norm = np.sqrt(power, out=power) if self.order == 2.0 else power
        with np.errstate(over="ignore"):
            norm *= 1.0 + (n_features + 16) * ULP  # [note: ball-1]
        # Squares below 1e-308 vanish; this stands for them.
        norm += _UNDERFLOW  # [note: ball-2]
        return np.minimum(norm, self.radius, out=norm)

    def clip(self, shifted: FloatArray) -> FloatArray:
        """Shifted rows, those beyond the radius scaled back to just inside it; rows that are not finite become NaN."""
        with np.errstate(over="ignore", invalid="ignore"):
            norm = norms_of(shifted, self.order)
        slack = 1.0 - 2 * (shifted.shape[1] + 16) * ULP  # [note: ball-3]
        outside = np.flatnonzero(~(norm <= self.radius * slack))
        if outside.size == 0:
            return shifted
        clipped = shifted.copy()
        # In two steps, so that rows whose norm overflows come back too.
        part = clipped[outside]
        part[~np.isfinite(part).all(axis=1)] = np.nan
        part /= np.max(np.abs(part), axis=1, keepdims=True)
        factor = self.radius * slack / norms_of(part, self.order)
        clipped[outside] = part * factor[:, None]  # [note: ball-4]
        return clipped

    def describe(self) -> dict[str, object]:
        order = "infinity" if math.isinf(self.order) else self.order
        return {"radius": self.radius, "order": order, "center": None if self.center is None else list(self.center)}


def settled(power: FloatArray, rows_at: Callable[[NDArray[np.intp]], FloatArray]) -> FloatArray:
    """Powers without infinity: OVERFLOWN for finite rows whose power overflows, NaN for rows that are not finite.

    Only rows whose own power is not finite are looked at, so no row changes the power of another.
    """
    beyond = np.flatnonzero(~np.isfinite(power))
    if beyond.size:
        power[beyond] = np.where(np.isfinite(rows_at(beyond)).all(axis=1), OVERFLOWN, np.nan)  # [note: ball-5]
    return power


def norm_order(value: object) -> float:
    return _validate.number(
        "order", value, rule="a number >= 1, or math.inf", low=1.0, high=math.inf, open_low=False, open_high=False
    )


def table_of(rows: ArrayLike, ball: Ball | None = None) -> NDArray[np.generic]:
    """Rows as a two-dimensional numeric array (of the ball's width), or an error that shows no value."""
    array = _validate.as_array(rows)
    if array is None:
        raise DataError("rows cannot be read as a table of numbers. Pass a two-dimensional array without a mask.")
    if array.ndim != 2:
        raise DataError(f"rows must be two-dimensional, and they have {array.ndim} dimension(s). Reshape them.")
    if array.dtype.kind not in "fiub":
        raise DataError(f"rows must be real numbers, and they are {_validate.kind_of(array)}. Convert them to floats.")
    if array.shape[1] == 0:
        raise DataError("rows have no columns. Pass at least one feature.")
    if ball is not None and ball.center is not None and array.shape[1] != len(ball.center):
        raise DataError(
            f"rows have {array.shape[1]} column(s) where the center has {len(ball.center)}. Pass the same features."
        )
    return array


def norms_of(rows: FloatArray, order: float) -> FloatArray:
    """The l_order norm of each row, without overflow of powers beyond squares; the same in any company of rows."""
    if order == 2.0:
        power = _squares(rows)
        return np.sqrt(power, out=power)
    # By rows in memory: by columns, numpy adds up a single row in another order than several.
    size = np.abs(np.ascontiguousarray(rows))
    if order == 1.0:
        return np.asarray(size.sum(axis=1))
    largest: FloatArray = size.max(axis=1)
    if math.isinf(order):
        return largest
    scale = np.where(largest > 0.0, largest, 1.0)
    ratio = size / scale[:, None]
    return np.asarray(scale * np.sum(ratio**order, axis=1) ** (1.0 / order))


def _squares(rows: FloatArray) -> FloatArray:
    """The sum of squares of each row, the same in any company of rows."""
    rows = np.ascontiguousarray(rows)
    power: FloatArray = np.einsum("ij,ij->i", rows[:, :_PIECE_COLUMNS], rows[:, :_PIECE_COLUMNS])
    for start in range(_PIECE_COLUMNS, rows.shape[1], _PIECE_COLUMNS):
        piece = rows[:, start : start + _PIECE_COLUMNS]
        power += np.einsum("ij,ij->i", piece, piece)
    return power
