"""The same rows in every form of storage, with rows that are not finite behind them or without."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, CoresetRule, DPKMeans, UniformRule
from pais.data.sources import source
from tests.conformance.streams import STREAMS

Floats = NDArray[np.float64]
N, D = 900, 4
NAMES = tuple(f"x{j}" for j in range(D))
BALL = Ball(radius=4.0, center=(0.1, -0.2, 0.0, 0.3))
RULE = CoresetRule(sample_size=200.0, n_rows=N, mean_square_norm=4.0, radius=4.0)
SECRET = "zebra-4711"
SETTINGS = {"n_clusters": 3, "epsilon": 2.0, "delta": 1e-6, "random_state": 4}


def good(dtype: type = np.float64) -> Floats:
    """Rows in and out of the ball; the squares of the last one overflow."""
    rng = np.random.default_rng(3)
    rows = (rng.standard_normal((N, D)) * rng.uniform(0.1, 2.0, (N, 1))).astype(dtype)
    rows[-1] = 1e200 if dtype is np.float64 else 1e30
    return rows


def bad(values: tuple[float, ...] = (math.nan, math.inf, -math.inf)) -> Floats:
    """Each value in each column in turn, in rows whose other cells are ordinary numbers, and a row of nothing else."""
    rows = [np.where(np.arange(D) == column, value, 0.5) for value in values for column in range(D)]
    return np.array([*rows, np.full(D, values[0])])


def columns_of(rows: Floats, **more: Any) -> dict[str, Any]:
    return {**{name: rows[:, j] for j, name in enumerate(NAMES)}, **more}


def with_bad(dtype: type = np.float64) -> Floats:
    return np.concatenate([good(dtype), bad().astype(dtype)])


def with_nulls(rows: Floats) -> list[pa.Array]:
    """Columns with null in place of NaN, and infinities as they are."""
    return [pa.array(rows[:, j], mask=np.isnan(rows[:, j])) for j in range(D)]


def arrow_table() -> pa.Table:
    return pa.table(with_nulls(with_bad()), names=NAMES)


def objects() -> pd.DataFrame:
    """Object columns with text, None, dictionaries and complex numbers among the numbers."""
    frame = pd.DataFrame(columns_of(good())).astype(object)
    cells = (SECRET, None, {"a": SECRET}, 1 + 2j, np.complex128(1j), pd.NaT, pd.NA, b"\xff", [1.0, 2.0], "", 10**400)
    extra = pd.DataFrame([[cell if j == i % D else 0.5 for j in range(D)] for i, cell in enumerate(cells)])
    extra.columns = frame.columns
    return pd.concat([frame, extra.astype(object)], ignore_index=True)


def csv_text(lines: list[str], rows: Floats | None = None) -> str:
    rows = good() if rows is None else rows
    body = [",".join(repr(float(cell)) for cell in row) for row in rows]
    return "\n".join([",".join(NAMES), *body, *lines]) + "\n"


BAD_LINES = [
    f"{SECRET},1,2,3",
    ",1,2,3",
    "1,NA,2,3",
    "1,2,nan,3",
    "1,2,3,-inf",
    "1,2,3,1e999",
    "1,2,3",
    "1,2,3,4,5",
    "1,2,0x10,4",
    '1,2,3,"a, quoted"',
    "1,2,2020-01-01,4",
    "1,2,3,1.5.2",
    "1,2,3,é",
    ",,,",
]


def csv_file(home: Path) -> Path:
    (home / "rows.csv").write_bytes(csv_text(BAD_LINES).encode() + b"1,2,3,\xff\xfe\n")
    return home / "rows.csv"


def parquet(home: Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, home / "rows.parquet", **options)
    return home / "rows.parquet"


def vectors() -> pa.Table:
    """One column of vectors: with holes, with infinities, and whole vectors that are missing."""
    rows = [[None if np.isnan(cell) else cell for cell in row] for row in with_bad().tolist()]
    return pa.table({"v": pa.array([*rows, None, None], pa.list_(pa.float64(), D))})


def sources(*, dirty: bool) -> dict[str, Callable[[Path], object]]:
    """The same rows in every form, with bad rows behind them or without."""
    rows = with_bad() if dirty else good()
    narrow = with_bad(np.float32) if dirty else good(np.float32)
    table = arrow_table() if dirty else pa.table(columns_of(good()))
    text = objects() if dirty else pd.DataFrame(columns_of(good())).astype(object)
    return {
        "array": lambda _: rows,
        "array by columns": lambda _: np.asfortranarray(rows),
        "array of every other row": lambda _: np.repeat(rows, 2, axis=0)[::2],
        "float32 array": lambda _: narrow,
        "object array": lambda _: text.to_numpy(),
        "nested list": lambda _: rows.tolist(),
        "pandas": lambda _: pd.DataFrame(columns_of(rows)),
        "pandas nullable": lambda _: pd.DataFrame(columns_of(rows)).convert_dtypes(),
        "pandas objects": lambda _: text,
        "polars": lambda _: pl.from_arrow(table),
        "Arrow": lambda _: table,
        "Arrow vectors": lambda _: vectors() if dirty else vectors().slice(0, N),
        "Parquet": lambda home: parquet(home, table, row_group_size=100),
        "Parquet vectors": lambda home: parquet(home, vectors() if dirty else vectors().slice(0, N)),
        "Parquet held": lambda home: source(parquet(home, table)).held(),
        **{name: lambda _, stream=stream: stream(table) for name, stream in STREAMS.items()},
        "CSV": lambda home: csv_file(home) if dirty else written(home, csv_text([])),
        "CSV with names": lambda home: source(
            csv_file(home) if dirty else written(home, csv_text([])), columns=list(NAMES)
        ),
    }


def written(home: Path, text: str) -> Path:
    (home / "clean.csv").write_text(text)
    return home / "clean.csv"


def sampled(data: object, strategy: str = "auto", ball: Ball = BALL) -> Floats:
    kept = pais.sample(data, ball=ball, rule=RULE, random_state=5, strategy=strategy).spend("a test")  # type: ignore[arg-type]
    whole = np.column_stack([kept.rows, kept.weights])
    return whole[np.lexsort(whole.T)]


def same_survey(one: pais.Survey, other: pais.Survey) -> bool:
    return one.ball == other.ball and np.array_equal(one.norms.masses, other.norms.masses)


def holed(columns: tuple[int, ...] = (1, 3)) -> Floats:
    rows = good()
    for place, column in enumerate(columns):
        rows[700 + place, column] = (math.nan, math.inf)[place % 2]
    return rows


def require_release(data: object) -> None:
    """Whatever can be released of rows can be released of none."""
    engine = source(data)
    # With a seed: without one, a survey of no rows finds something above its noise once in some hundred runs.
    survey = pais.survey(data, epsilon=0.5, random_state=1)
    assert not survey.above_noise
    ball = Ball(radius=1.0)
    kept = pais.sample(data, ball=ball, rule=UniformRule(rate=0.5)).spend("a test")
    assert kept.rows.shape == (0, engine.n_features)
    assert not pais.survey(engine.held(), epsilon=0.5, random_state=1).above_noise
    noise = pais.GaussianNoise(scale=100.0)
    for mechanism in (
        pais.WeightedCount(noise=noise),
        pais.WeightedSum(noise=noise),
        pais.WeightedMean(count_noise=noise, sum_noise=noise),
    ):
        plan = pais.Plan(ball=ball, rule=UniformRule(rate=0.5), mechanism=mechanism, epsilon=1.0, delta=1e-6)
        value = pais.run(plan, data).value
        assert np.all(np.isfinite(value.noisy_mean if isinstance(value, pais.MeanValue) else value))
    with pytest.warns(pais.SurveyWarning):
        model = DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, random_state=1).fit(data)
    assert model.cluster_centers_.shape == (2, engine.n_features)
    assert model.score(data) == 0.0
    DPKMeans(n_clusters=2, epsilon=1.0, delta=0.0, mechanism="laplace", radius=1.0).fit(data)
