"""Rows, frames and folds for the tests of the Spark engine."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import pais
from pais import Ball, CoresetRule, UniformRule
from pais._base.randomness import BitSource, bit_source
from pais.data.engines.base import Engine, Fold, Sampling, WeightedRows
from pais.data.engines.blocks import Block
from pais.data.sources import source

Floats = NDArray[np.float64]
N, D = 3000, 4
RADIUS = 4.0
BALL = Ball(radius=RADIUS, center=(0.1, -0.2, 0.0, 0.3))
RULE = CoresetRule(sample_size=400.0, n_rows=N, mean_square_norm=4.0, radius=RADIUS)
FEATURES = tuple(f"x.{j}" for j in range(D))  # a dot means a struct to Spark, unless the name is quoted


def rows() -> Floats:
    """Rows in and out of the ball, some of them alike."""
    rng = np.random.default_rng(3)
    found = rng.standard_normal((N, D)) * rng.uniform(0.1, 2.0, (N, 1))
    found[10:40] = found[9]
    return found


def table(found: Floats | None = None) -> pa.Table:
    found = rows() if found is None else found
    columns = {f"x.{j}": found[:, j] for j in range(found.shape[1])}
    return pa.table({**columns, "label": [f"r{i}" for i in range(len(found))], "id": np.arange(len(found))})


def kept(engine: Engine, bits: BitSource, rule: pais.Rule = RULE, ball: Ball = BALL) -> WeightedRows:
    return engine.sample(Sampling(ball=ball, rule=rule), bits)


def in_order(found: WeightedRows) -> Floats:
    """Rows and weights in an order of their own."""
    whole = np.column_stack([found.rows, found.weights])
    return whole[np.lexsort(whole.T)]


class Rows(Fold):
    """How many."""

    def of(self, block: Block) -> NDArray[np.int64]:
        return np.array([block.n_rows])


class Norms(Fold):
    """How many have a norm, which rows that are not finite have not."""

    def of(self, block: Block) -> NDArray[np.int64]:
        return np.array([np.count_nonzero(block.finite())])


def in_memory() -> Engine:
    return source(table(), columns=FEATURES, key="id")


def every_row(engine: Engine) -> Floats:
    """All finite rows, in an order of their own."""
    found = kept(engine, bit_source(1), UniformRule(rate=1.0), Ball(radius=1e6)).rows
    return found[np.lexsort(found.T)]
