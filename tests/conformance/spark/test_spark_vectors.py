"""Vector sums of Spark frames: the user's function runs on the workers, with the values of the rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import pais
from tests.conftest import SPARK

pytestmark = SPARK


def test_seeded_vector_sum_does_not_depend_on_the_partitions(spark: Any) -> None:
    generator = np.random.default_rng(0)
    table = pa.table({name: generator.normal(size=3000) for name in "abc"})
    slope = generator.normal(size=3)
    mechanism = pais.VectorSum(
        vectors=lambda rows: rows * np.tanh(rows @ slope)[:, None],
        bound=lambda norm: norm,
        noise=pais.gaussian_noise(10.0),
        n_features=3,
    )
    rounds = pais.AdaptiveRounds(step=lambda values: mechanism, n_rounds=2)
    rule = pais.UniformRule(rate=1.0)
    plan = pais.Plan(ball=pais.Ball(radius=2.0), rule=rule, mechanism=rounds, epsilon=3.0, delta=1e-6)
    in_memory = pais.run(plan, table, random_state=1).value
    for partitions in (1, 4):
        frame = spark.createDataFrame(table).repartition(partitions)
        np.testing.assert_array_equal(pais.run(plan, frame, random_state=1).value, in_memory)
