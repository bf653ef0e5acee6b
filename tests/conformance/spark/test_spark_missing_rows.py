"""Rows without a finite number in every feature contribute nothing in Spark frames."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais import Ball, DPKMeans, UniformRule
from pais.data.engines.base import Engine
from pais.data.sources import source
from tests.conformance.missing.missing_sources import (
    BALL,
    NAMES,
    SETTINGS,
    D,
    N,
    bad,
    columns_of,
    good,
    require_release,
    same_survey,
    sampled,
    sources,
    with_nulls,
)
from tests.conftest import SPARK

pytestmark = SPARK


def frame_of(spark: Any, *, dirty: bool) -> Any:
    rows = np.concatenate([bad(), good()]) if dirty else good()
    keys = np.arange(len(rows)) + (N - len(rows))
    return spark.createDataFrame(pa.table([*with_nulls(rows), pa.array(keys)], names=[*NAMES, "id"])).repartition(3)


def test_bad_rows_contribute_nothing(spark: Any) -> None:
    clean, dirty = (source(frame_of(spark, dirty=flag), key="id") for flag in (False, True))
    assert np.array_equal(sampled(clean), sampled(dirty))
    assert same_survey(*(pais.survey(one, epsilon=1.0, random_state=3) for one in (clean, dirty)))
    one, other = (DPKMeans(**SETTINGS).fit(data) for data in (clean, dirty))
    assert np.array_equal(one.cluster_centers_, other.cluster_centers_)
    assert pais.sample(dirty, ball=BALL, rule=UniformRule(rate=1.0)).spend("a test").rows.shape == (N, D)
    source(frame_of(spark, dirty=False), missing="error")


def test_vectors_of_another_length_or_with_holes_contribute_nothing(spark: Any) -> None:
    rows = good().tolist()
    kind = "v array<double>, id long"
    clean = [(row, i) for i, row in enumerate(rows)]
    dirty = [*clean, ([1.0], N), ([1.0] * 9, N + 1), ([], N + 2), (None, N + 3), ([1.0, None, 2.0, 3.0], N + 4)]
    dirty += [([1.0, math.nan, 2.0, 3.0], N + 5)]
    first_dirty = dirty[::-1]
    one, other = (source(spark.createDataFrame(data, kind), key="id", widths={"v": D}) for data in (clean, first_dirty))
    assert np.array_equal(sampled(one), sampled(other))
    assert same_survey(*(pais.survey(data, epsilon=1.0, random_state=3) for data in (one, other)))


@pytest.mark.filterwarnings("ignore::pais.SurveyWarning")
def test_empty_frames_release(spark: Any) -> None:
    schema = ", ".join(f"{name} double" for name in NAMES)
    empty, useless = spark.createDataFrame([], schema), spark.createDataFrame(pa.table(columns_of(bad())))
    require_release(empty)
    require_release(useless)
    engine = source(empty, columns=NAMES[1:], carry=["x0"])
    kept = pais.sample(engine, ball=Ball(radius=1.0), rule=UniformRule(rate=1.0)).spend("a test")
    assert kept.carried is not None
    assert kept.carried.num_rows == 0


def test_csv_read_by_spark_takes_bad_lines(spark: Any, tmp_path: Path) -> None:
    from pais.data.engines.spark import read_frame

    clean, dirty = (source(read_frame(str(sources(dirty=flag)["CSV"](tmp_path)))) for flag in (False, True))
    every = UniformRule(rate=1.0)
    one, other = (pais.sample(engine, ball=BALL, rule=every).spend("a test").rows for engine in (clean, dirty))
    assert isinstance(clean, Engine)
    assert np.array_equal(np.sort(one, axis=0), np.sort(other, axis=0))
