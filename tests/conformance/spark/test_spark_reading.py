"""Cells, lines and rows that Spark reads: the vectors of tables in memory and of files, and bad rows add nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais import ArgumentError, Ball, CSVFile, DataError, DPKMeans, UniformRule
from pais._base.randomness import bit_source
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
from tests.conformance.spark.spark_rows import Norms, every_row, in_order, kept
from tests.conformance.test_one_reading import COLUMNS, STATED, TRUTHS, people
from tests.conftest import SPARK

pytestmark = SPARK


@pytest.mark.parametrize("stated", [STATED["bool"], STATED["numbers"], STATED["words"], (0, 1)])
def test_truth_values_in_every_spelling(spark: Any, stated: Any) -> None:
    cells = {name.replace(" ", "_"): truths for name, truths in TRUTHS.items()}
    table = pa.table(cells)
    columns = dict.fromkeys(cells, stated)
    expected = every_row(source(table, columns=columns, missing="midpoint"))
    assert np.array_equal(
        every_row(source(spark.createDataFrame(table), columns=columns, missing="midpoint")), expected
    )


def test_cells_of_every_kind(spark: Any, tmp_path: Path) -> None:
    from pais.data.engines.spark import read_frame

    table = pa.table(people())
    expected = every_row(source(table, columns=COLUMNS, missing="midpoint"))
    assert np.array_equal(
        every_row(source(spark.createDataFrame(table), columns=COLUMNS, missing="midpoint")), expected
    )
    for name, mark in (("rows.csv", ","), ("rows.tsv", "\t"), ("rows.txt", "|")):
        table.to_pandas().to_csv(tmp_path / name, index=False, sep=mark)
        frame = read_frame(str(tmp_path / name))
        assert np.array_equal(every_row(source(frame, columns=COLUMNS, missing="midpoint")), expected)


def test_a_dialect(spark: Any, tmp_path: Path) -> None:
    from pais.data.engines.spark import read_frame

    path = tmp_path / "rows.csv"
    path.write_text("size;day;again\n1.234,5;31.12.2024;1,0\n2;1.2.2025;no\n3,25;2024-01-01;0,0\n")
    columns = {"size": (0, 2000), "day": ("2024-01-01", "2026-01-01"), "again": bool}
    dialect = {"decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"}
    expected = every_row(source(CSVFile(path, **dialect), columns=columns))
    assert len(expected) == 2
    assert np.array_equal(every_row(source(read_frame(str(path)), columns=columns, **dialect)), expected)
    numbers = every_row(source(CSVFile(path, decimal=",", thousands="."), columns=["size"]))
    frame = read_frame(str(path))
    assert np.array_equal(every_row(source(frame, columns=["size"], decimal=",", thousands=".")), numbers)
    with pytest.raises(ArgumentError, match="encoding is stated"):
        source(frame, columns=columns, encoding="cp1252")


def test_ids_that_have_lost_characters_are_missing(spark: Any) -> None:
    table = pa.table({"size": [0.5, 0.25, 0.125], "who": ["M\ufffdller", "Meier", None]})
    for data in (table, spark.createDataFrame(table)):
        engine = source(data, columns={"size": (0, 1)}, unit="who")
        assert every_row(engine).tolist() == [[-0.5]]


# -- CSV files: the numbers that Arrow reads, and no line changes another


def csv_frame(home: Path, text: str, name: str = "rows.csv") -> tuple[Path, Any]:
    from pais.data.engines.spark import read_frame

    path = home / name
    path.write_text(text)
    return path, read_frame(str(path))


@pytest.mark.parametrize("columns", [None, ["a", "b"]])
def test_a_line_of_a_csv_file_does_not_change_the_numbers_of_other_lines(
    spark: Any, tmp_path: Path, columns: list[str] | None
) -> None:
    lines = "a,b\n" + "1,true\n" * 1000
    alone = source(csv_frame(tmp_path, lines)[1], columns=columns)
    assert alone.fold(Norms(), seeded=False)[0] == 1000
    path, frame = csv_frame(tmp_path, f"{lines}1,0.5\n1,word\n1,2024-01-02\n1,1 day\n1,\n1,99999999999999999999\n")
    engine = source(frame, columns=columns)
    expected = every_row(source(path, columns=columns))
    assert len(expected) >= 1000
    assert engine.fold(Norms(), seeded=False)[0] == len(expected)
    assert np.array_equal(every_row(engine), expected)


CELLS = (
    *("1", "-0", "+1.5", " 2 ", "\t3", ".5", "4.", "1e5", "1E+3", "1e-400", "1e400", "12345678901234567890123"),
    *("true", "FALSE", " True ", "tRUE", "yes", "nan", "inf", "NA", "null", "", '""', '"6"', '" 7"', '"8 ""x"""'),
    *("0x10", "1d", "2f", "1_0", "\u0661", "\u00a01", "$5", "1%", "2024-01-02", "12:30", "P1D", "0.1", "\\9", '"\\"'),
)


@pytest.mark.parametrize("seeded", [True, False])
def test_spark_reads_the_same_numbers_from_a_csv_file_as_arrow(spark: Any, tmp_path: Path, *, seeded: bool) -> None:
    text = "a,b,c\n" + "".join(f"{place},{cell},{cell}\n" for place, cell in enumerate(CELLS)) + "1,2\n1,2,3,4\n"
    path, frame = csv_frame(tmp_path, text)
    one, other = (source(data, columns=["b", "a"]) for data in (path, frame))
    bits = bit_source(1 if seeded else None)
    found = [in_order(kept(engine, bits, UniformRule(rate=1.0), Ball(radius=1e30))) for engine in (one, other)]
    assert len(found[0]) == 18
    assert np.array_equal(found[0], found[1])


def test_first_lines_decide_which_csv_columns_are_numeric(spark: Any, tmp_path: Path) -> None:
    mostly_numbers = "a,b\n" + "1,2\n" * 30 + "1,word\n" * 20
    assert len(every_row(source(csv_frame(tmp_path, mostly_numbers)[1]))) == 30
    _, frame = csv_frame(tmp_path, "a,b\n" + "1,2\n" * 20 + "1,word\n" * 30)
    with pytest.raises(DataError, match=r"column\(s\) 'b' \(type string\) of the source are not numeric"):
        source(frame)
    assert len(every_row(source(frame, columns=["b"]))) == 20
    found = kept(source(frame, columns=["a"], carry=["b"]), bit_source(None), UniformRule(rate=1.0), Ball(radius=9.0))
    assert found.carried is not None
    assert sorted(found.carried.column("b").to_pylist()) == ["2"] * 20 + ["word"] * 30


# -- rows without a finite number in every feature contribute nothing in Spark frames


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
