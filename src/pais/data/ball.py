"""The ball that bounds all rows: norms, and clipping of rows outside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pais._base import files, validate
from pais._base.numerics import ULP, FloatArray
from pais._base.rowwise import norms_of, rough_norms_of, rough_slack, rough_square_sums, square_sums
from pais.errors import ArgumentError, DataError

_UNDERFLOW = 1e-150

_FARTHEST_CENTER = 1e100

# Rows are shifted in pieces of this many numbers, which stay in the cache.
_PIECE_NUMBERS = 1 << 16

norm_order = partial(validate.number, "order", rule="a number >= 1, or math.inf", low=1.0)

#: Replaces the power of a finite row if that power overflows.
OVERFLOWN = 1e300


@dataclass(frozen=True, kw_only=True)
class Ball:
    """All rows x with ||x - center||_order <= radius. Public: stated by the user or paid for with privacy budget.

    Parameters
    ----------
    radius : float
        Rows outside it are scaled back to it, never dropped.
    order : float
        The norm: 1, 2, any p >= 1, or math.inf. It must be the norm that the mechanism's noise is calibrated for.
    center : sequence of float, optional
        Public origin; None means zero.
    constant : float
        Length of one more coordinate that every row has and no column holds. The norm of a row x is then that of the
        longer row (x - center, constant), and clipping scales the longer row as a whole. A clipped row of a regression
        thus keeps its intercept in proportion. Order 2 only.
    """

    radius: float
    order: float = 2.0
    center: tuple[float, ...] | None = None
    constant: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", validate.radius(self.radius))
        object.__setattr__(self, "order", norm_order(self.order))
        if self.center is not None:
            center = validate.real_array("center", self.center)
            # With centers in the range of radii, subtracting the center from a finite row never overflows.
            if center.ndim != 1 or center.size == 0 or not np.all(np.abs(center) <= _FARTHEST_CENTER):
                raise ArgumentError(
                    "center must be a flat sequence of numbers in [-1e100, 1e100]. Pass one number for each column."
                )
            object.__setattr__(self, "center", tuple(center.tolist()))
        object.__setattr__(self, "constant", validate.non_negative("constant", self.constant))
        if self.constant > 0.0 and (self.order != 2.0 or self.constant >= self.radius):
            raise ArgumentError(
                f"constant={self.constant!r} needs order=2 and a larger radius, but the ball has order={self.order:g} "
                f"and radius={self.radius!r}. Leave it out, or change the ball."
            )

    def shift(self, rows: NDArray[np.generic]) -> FloatArray:
        """Return the rows as a C-contiguous float64 array, relative to the center."""
        with np.errstate(all="ignore"):
            block = rows.astype(np.float64, order="C", copy=False)
        return block if self.center is None else block - np.asarray(self.center)

    def norms(self, shifted: FloatArray) -> FloatArray:
        """Return the norm of each shifted row, rounded up by more than its rounding error, and at most the radius.

        The norm of a row that contains NaN or infinity is NaN. Such a row does not change the norms of other rows.
        """
        return self.norms_of_powers(self.powers(shifted), shifted.shape[1])

    def powers(self, shifted: FloatArray) -> FloatArray:
        """Return each shifted row's sum of squares (l2 norm) or norm (other norms); NaN if the row is not finite."""
        with np.errstate(all="ignore"):
            power = square_sums(shifted) if self.order == 2.0 else norms_of(shifted, self.order)
        return self.completed(power, lambda index: shifted[index])

    def rough_powers(self, rows: NDArray[np.generic], *, is_shifted: bool = False) -> FloatArray:
        """Return powers of rows, shifted or not; infinite or NaN if they overflow or the row is not finite.

        They are faster to compute, and no shifted copy is made. Their last bits can depend on the other rows, so use
        them only if every value within `rough_slack` leads to the same result.
        """
        (n, d), center = rows.shape, None if is_shifted else self.center
        whole = center is None and rows.dtype == np.float64 and rows.flags.c_contiguous
        step = n if whole else max(1, min(n, _PIECE_NUMBERS // d))
        # One center for each row: a difference of equal shapes is faster than one that repeats a short row.
        centers = np.tile(0.0 if center is None else center, (0 if whole else step, 1))
        power, scratch = np.empty(n), np.empty((len(centers), d))
        with np.errstate(all="ignore"):
            for start in range(0, n, max(step, 1)):
                piece = rows[start : start + step].astype(np.float64, order="C", copy=False)
                if not whole:
                    piece = np.subtract(piece, centers[: len(piece)], out=scratch[: len(piece)])
                power[start : start + step] = (
                    rough_square_sums(piece) if self.order == 2.0 else rough_norms_of(piece, self.order)
                )
        return self.completed(power)

    def completed(
        self, power: FloatArray, rows_at: Callable[[NDArray[np.intp]], FloatArray] | None = None
    ) -> FloatArray:
        """Add the square of the constant coordinate to sums of squares. Overwrites the powers.

        If `rows_at` returns rows by their positions, infinite powers are replaced: by OVERFLOWN for finite rows whose
        power overflows, and by NaN for rows that are not finite. Only rows whose own power is not finite are inspected,
        so no row changes the power of another.
        """
        if self.constant > 0.0:
            power += self.constant * self.constant  # [note: ball-8]
        if rows_at is not None and not np.isfinite(power).all():
            beyond = np.flatnonzero(~np.isfinite(power))
            power[beyond] = np.where(np.isfinite(rows_at(beyond)).all(axis=1), OVERFLOWN, np.nan)  # [note: ball-7]
        return power

    def constants(self, clipped: FloatArray) -> FloatArray:
        """Return the constant coordinate of each row that was shifted and clipped to this ball.

        It is shorter than the constant if the row was clipped, by the same factor as the row.
        """
        if self.constant == 0.0:
            return np.zeros(len(clipped))
        edge, constants = self.edge(clipped.shape[1]), np.full(len(clipped), self.constant)
        # Rows farther inside were certainly not clipped, in whatever order their squares are added.
        inside = edge * edge * (1.0 - 4 * rough_slack(clipped.shape[1])) - self.constant * self.constant
        near = np.flatnonzero(~(rough_square_sums(clipped) <= inside))  # [note: ball-10]
        rest = np.maximum(edge * edge - square_sums(clipped[near]), 0.0)  # [note: ball-9]
        constants[near] = np.minimum(np.sqrt(rest), self.constant)
        return constants

    def norms_of_powers(self, power: FloatArray, n_features: int) -> FloatArray:
        """Compute norms from powers. Overwrites the powers."""
        norm = np.sqrt(power, out=power) if self.order == 2.0 else power
        with np.errstate(all="ignore"):
            norm *= 1.0 + (n_features + 16) * ULP  # [note: ball-1]
        # Squares below 1e-308 underflow; this term accounts for them.
        norm += _UNDERFLOW  # [note: ball-2]
        return np.minimum(norm, self.radius, out=norm)

    def clip(self, shifted: FloatArray) -> FloatArray:
        """Scale shifted rows outside the ball back to just inside it. Rows that are not finite become NaN."""
        d = shifted.shape[1]
        with np.errstate(all="ignore"):
            norm = rough_norms_of(shifted, self.order)
            norm = np.hypot(norm, self.constant) if self.constant > 0.0 else norm
        near = np.flatnonzero(~(norm <= self.edge(d) * (1.0 - 2 * rough_slack(d))))
        if near.size == 0:
            return shifted
        clipped, rows, edge = shifted.copy(), shifted[near], self.edge(d)
        power = self.powers(rows)
        beyond = np.flatnonzero(power >= OVERFLOWN)
        length = np.sqrt(power, out=power) if self.order == 2.0 else power
        # Exactly 1 for rows inside the ball.
        factor = np.divide(edge, np.maximum(length, edge, out=length), out=length)
        factor[beyond] = 0.0  # [note: engines-1]
        clipped[near] = rows * factor[:, None]  # [note: ball-4]
        # The powers of these rows overflow, so they are scaled in two steps.
        part = rows[beyond] / np.abs(rows[beyond]).max(axis=1)[:, None]
        clipped[near[beyond]] = part * (edge / norms_of(part, self.order))[:, None]
        return clipped

    def edge(self, n_features: int) -> float:
        """Return the largest computed norm for which a row is certainly inside the ball."""
        return self.radius * (1.0 - 2 * (n_features + 16) * ULP)  # [note: ball-3]

    def to_dict(self) -> dict[str, Any]:
        """Public description of the ball, for certificates and files."""
        described = {"radius": self.radius, "order": files.plain(self.order), "center": files.plain(self.center)}
        return described if self.constant == 0.0 else {**described, "constant": self.constant}

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Ball:
        """Rebuild a ball from its description."""
        center = described["center"]
        order = files.number(described["order"])
        return cls(
            radius=described["radius"],
            order=order,
            center=None if center is None else tuple(center),
            constant=described.get("constant", 0.0),
        )


def table_of(rows: ArrayLike, ball: Ball | None = None) -> NDArray[np.generic]:
    """Return rows as a two-dimensional numeric array (of the ball's width), or raise an error that shows no value."""
    array = validate.as_array(rows)
    if array is None:
        raise DataError("rows cannot be read as a table of numbers. Pass a two-dimensional array without a mask.")
    if array.ndim != 2:
        raise DataError(f"rows must be two-dimensional, but they have {array.ndim} dimension(s). Reshape them.")
    if array.dtype.kind not in "fiub":
        raise DataError(f"rows must be real numbers, but they are {validate.kind_of(array)}. Convert them to floats.")
    if array.shape[1] == 0:
        raise DataError("rows have no columns. Pass at least one feature.")
    if ball is not None:
        require_width(array.shape[1], ball)
    return array


def require_width(n_features: int, ball: Ball) -> None:
    """Raise `DataError` if the center and the rows differ in the number of columns."""
    if ball.center is not None and n_features != len(ball.center):
        raise DataError(
            f"rows have {n_features} column(s), but the center has {len(ball.center)}. Pass the same number."
        )
