"""Cells that Spark reads: the vectors that tables in memory and files have, in every spelling and dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pais import ArgumentError, CSVFile
from pais.data.sources import source
from tests.conformance.spark.spark_rows import every_row
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
