"""CSV files read by Spark: the numbers that Arrow reads, and no line changes another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pais import Ball, DataError, UniformRule
from pais._base.randomness import bit_source
from pais.data.sources import source
from tests.conformance.spark.spark_rows import Norms, every_row, in_order, kept
from tests.conftest import SPARK

pytestmark = SPARK


def csv_frame(home: Path, text: str, name: str = "rows.csv") -> tuple[Path, Any]:
    from pais.data.engines.spark import read_frame

    path = home / name
    path.write_text(text)
    return path, read_frame(str(path))


@pytest.mark.parametrize("columns", [None, ["a", "b"]])
@pytest.mark.parametrize("more", ["1,0.5", "1,word", "1,2024-01-02", "1,1 day", "1,", "1,99999999999999999999"])
def test_a_line_of_a_csv_file_does_not_change_the_numbers_of_other_lines(
    spark: Any, tmp_path: Path, more: str, columns: list[str] | None
) -> None:
    lines = "a,b\n" + "1,true\n" * 1000
    alone = source(csv_frame(tmp_path, lines)[1], columns=columns)
    assert alone.fold(Norms(), seeded=False)[0] == 1000
    path, frame = csv_frame(tmp_path, f"{lines}{more}\n")
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
