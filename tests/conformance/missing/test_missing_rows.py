"""Rows without a finite number in every feature contribute nothing, in every engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import pais
from pais import Ball, DataError, UniformRule
from pais.data.sources import source
from tests.conformance.missing.missing_sources import (
    BALL,
    NAMES,
    D,
    N,
    bad,
    columns_of,
    good,
    parquet,
    same_survey,
    sampled,
    sources,
    with_bad,
    with_nulls,
)

pytestmark = pytest.mark.usefixtures("batches")

FORMS = list(sources(dirty=True))


# -- bad rows contribute nothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_bad_rows_do_not_change_a_seeded_survey(form: str, tmp_path: Path) -> None:
    clean, dirty = (sources(dirty=flag)[form](tmp_path) for flag in (False, True))
    for order in (1.0, 2.0, math.inf):
        one, other = (pais.survey(data, epsilon=1.0, order=order, random_state=3) for data in (clean, dirty))
        assert same_survey(one, other)


@pytest.mark.parametrize("form", FORMS)
def test_bad_rows_are_never_kept_and_do_not_change_a_seeded_sample(form: str, tmp_path: Path) -> None:
    clean, dirty = (sources(dirty=flag)[form](tmp_path) for flag in (False, True))
    for strategy in ("pass", "thin"):
        assert np.array_equal(sampled(clean, strategy), sampled(dirty, strategy))
    for order in (1.0, 3.0, math.inf):
        ball = Ball(radius=4.0, order=order)
        assert np.array_equal(sampled(clean, "pass", ball), sampled(dirty, "pass", ball))
    every = pais.sample(dirty, ball=BALL, rule=UniformRule(rate=1.0)).spend("a test")
    assert every.rows.shape == (N, D)
    assert np.all(np.isfinite(every.rows))


def test_bad_rows_in_a_table_with_a_key_do_not_change_other_rows(tmp_path: Path) -> None:
    place = 450
    table = pa.table(columns_of(good(), id=np.arange(N)))
    holes = pa.table([*with_nulls(bad()), pa.array(np.arange(len(bad())) + N)], names=[*NAMES, "id"])
    mixed = pa.concat_tables([table.slice(0, place), holes, table.slice(place)])
    parquet(tmp_path, mixed, row_group_size=77)
    pa_csv.write_csv(mixed, tmp_path / "rows.csv")
    clean = source(table, key="id")
    for data in (mixed, mixed.to_pandas(), tmp_path / "rows.parquet", tmp_path / "rows.csv"):
        dirty = source(data, key="id")
        assert np.array_equal(sampled(clean), sampled(dirty))
        assert same_survey(*(pais.survey(one, epsilon=1.0, random_state=3) for one in (clean, dirty)))


@pytest.mark.parametrize("form", ["Arrow", "pandas", "Parquet", "CSV"])
def test_rows_without_a_key_contribute_nothing(form: str, tmp_path: Path) -> None:
    keys = [None if i % 7 == 3 else i for i in range(N)]
    table = pa.table(columns_of(good(), id=pa.array(keys, pa.int64())))
    clean = source(table.filter(table.column("id").is_valid()), key="id")
    forms: dict[str, Callable[[], object]] = {
        "Arrow": lambda: table,
        "pandas": lambda: table.to_pandas().convert_dtypes(),
        "Parquet": lambda: parquet(tmp_path, table, row_group_size=77),
        "CSV": lambda: pa_csv.write_csv(table, tmp_path / "rows.csv") or tmp_path / "rows.csv",
    }
    dirty = source(forms[form](), key="id")
    assert np.array_equal(sampled(clean), sampled(dirty))
    assert same_survey(*(pais.survey(one, epsilon=1.0, random_state=3) for one in (clean, dirty)))
    with pytest.raises(DataError, match="id"):
        source(forms[form](), key="id", missing="error")


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_ball_marks_bad_rows_and_keeps_the_others(order: float) -> None:
    ball = Ball(radius=1.0, order=order)
    clean, dirty = ball.shift(good()), ball.shift(with_bad())
    assert np.array_equal(ball.norms(clean), ball.norms(dirty)[:N])
    assert np.all(np.isnan(ball.norms(dirty)[N:]))
    assert np.array_equal(ball.clip(clean), ball.clip(dirty)[:N])
    assert np.all(np.isnan(ball.clip(dirty)[N:]))
