"""Sums of clipped rows in whole steps, as mechanisms add them up."""

from __future__ import annotations

import numpy as np

from pais import Ball
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais.data.engines.base import _Contributions


def clipped_sum(ball: Ball, lattice: Lattice) -> _Contributions:
    """A fold that adds up the rows, clipped to the ball and multiplied by their masses."""

    def contribution(rows: FloatArray, masses: FloatArray) -> IntArray:
        return np.asarray(lattice.encode(rows * masses[:, None]).sum(axis=0))

    return _Contributions(ball=ball, contribution=contribution)
