"""The same rows with a schema, whatever they are stored in: the same vectors, sample, survey and fit, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pais
from pais import Ball, UniformRule
from pais.data.engines.base import Engine
from pais.data.sources import source
from tests.conformance.schema_rows import CARRIED, MIDPOINTS, RESOLVED, SCALES, SCHEMA, people
from tests.conformance.streams import STREAMS

pytestmark = pytest.mark.usefixtures("batches")


def arrow() -> pa.Table:
    return pa.Table.from_pandas(people(), preserve_index=False)


def with_other_types() -> pa.Table:
    """The same values in other types: dictionaries, decimals, times with a zone, integers for booleans."""
    table = arrow()
    kinds = {
        "region": lambda column: pc.dictionary_encode(column),
        "size": lambda column: column.cast(pa.float32()),
        "income": lambda column: column.cast(pa.decimal128(20, 2)),
        "premium": lambda column: column.cast(pa.int8()),
        "joined": lambda column: column.cast(pa.date32()),
        "seen": lambda column: column.cast(pa.timestamp("ms", tz="America/New_York")),
        "visits": lambda column: column.cast(pa.string()),
        "age": lambda column: column.cast(pa.uint8()),
    }
    for name, convert in kinds.items():
        table = table.set_column(table.column_names.index(name), name, convert(table.column(name)))
    return table


def as_objects() -> Any:
    """The same values as Python objects."""
    frame = people()
    for name in frame.columns[1:]:
        cells = frame[name].astype(object)
        frame[name] = cells.where(cells.notna(), None)
    return frame


def csv(home: Path) -> Path:
    people().to_csv(home / "people.csv", index=False)
    return home / "people.csv"


def parquet(home: Path, **options: Any) -> Path:
    pq.write_table(arrow(), home / "people.parquet", **options)
    return home / "people.parquet"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "an Arrow table": lambda _: arrow(),
    "other types": lambda _: with_other_types(),
    "Python objects": lambda _: as_objects(),
    "a polars table": lambda _: pl.from_arrow(arrow()),
    "a categorical column": lambda _: people().astype({"region": "category"}),
    "a Parquet file": lambda home: parquet(home),
    "small row groups": lambda home: parquet(home, row_group_size=37),
    "a CSV file": csv,
    **{name: lambda _, stream=stream: stream(arrow()) for name, stream in STREAMS.items()},
}


def vectors(engine: Engine) -> Any:
    """All vectors without missing values, in an order of their own, with the column that is carried."""
    ball = Ball(radius=1e9)
    kept = pais.sample(engine, ball=ball, rule=UniformRule(rate=1.0), random_state=0).spend("a test")
    return kept.rows[np.lexsort(kept.rows.T)].tolist()


@pytest.mark.parametrize("missing", ["drop", "midpoint"])
@pytest.mark.parametrize("stored", SOURCES)
def test_vectors_do_not_depend_on_the_storage(stored: str, missing: Any, tmp_path: Path) -> None:
    schema = SCHEMA if missing == "drop" else MIDPOINTS
    resolved = schema.resolved(SCALES)
    options: dict[str, Any] = {"columns": schema, "key": "id", "missing": missing}
    expected, engine = source(people(), **options), source(SOURCES[stored](tmp_path), **options)
    assert engine.schema == schema
    assert engine.names == schema.labels
    assert engine.n_features == schema.width
    assert vectors(engine) == vectors(expected)
    after = vectors(source(people(), **{**options, "columns": resolved}))
    assert vectors(engine.with_schema(resolved)) == after
    assert vectors(expected.with_schema(resolved)) == after
    assert vectors(engine.held().with_schema(resolved)) == after
    assert vectors(engine.with_schema(resolved).held()) == after


def seeded(data: Any) -> tuple[Any, ...]:
    """What a sample, a survey and a fit with a seed give."""
    rows = source(data, columns=RESOLVED, key="id", carry=CARRIED)
    kept = pais.sample(rows, ball=Ball(radius=3.0), rule=UniformRule(rate=0.2), random_state=1).spend("a test")
    assert kept.carried is not None
    sample = sorted(zip(kept.rows.tolist(), kept.carried.column("note").to_pylist(), strict=True))
    fit = pais.fit(rows, pais.KMeansSettings(n_clusters=3, epsilon=3.0), random_state=3)
    return sample, pais.survey(rows, epsilon=1.0, random_state=2), fit.value.centers.tolist()


@pytest.fixture(scope="module")
def expected() -> tuple[Any, ...]:
    return seeded(people())


@pytest.mark.parametrize("stored", SOURCES)
def test_sample_survey_and_fit_do_not_depend_on_the_storage(
    stored: str, tmp_path: Path, expected: tuple[Any, ...]
) -> None:
    assert seeded(SOURCES[stored](tmp_path)) == expected


def test_missing_values_leave_the_row_out_or_become_the_midpoint() -> None:
    frame = people()
    complete = frame.drop(columns=["id", "person", "note", "region", "size"]).notna().all(axis=1)
    assert len(vectors(source(frame, columns=RESOLVED))) == complete.sum() < len(frame)
    assert len(vectors(source(frame, columns=MIDPOINTS.resolved(SCALES), missing="midpoint"))) == len(frame)


def test_rows_of_another_schema_are_refused() -> None:
    with pytest.raises(pais.MismatchError, match="another schema"):
        source(people(), columns=["age", "visits"], key="id").with_schema(RESOLVED)
    with pytest.raises(pais.MismatchError, match="another schema"):
        source(people(), columns=RESOLVED).with_schema(SCHEMA.resolved({"income": (0.0, 1.0)}))
