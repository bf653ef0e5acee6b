"""CSV files with other separators and decimal marks: the same rows as from a file with commas."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import pais
from pais.data.cells import with_decimal_points
from pais.data.engines import files
from tests.unit.cli.commands import pais as command

Floats = NDArray[np.float64]
ROWS = np.random.default_rng(1).normal(size=(300, 3)).round(4)


@pytest.fixture(autouse=True, params=[1 << 10, 1 << 22], ids=["small blocks", "large blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CSV_BLOCK_BYTES", request.param)


def written(path: Path, separator: str, decimal: str = ".", header: str = "a b c") -> Path:
    lines = [[f"{number:.4f}".replace(".", decimal) for number in row] for row in ROWS]
    text = "\n".join(separator.join(cells) for cells in [header.split(), *lines]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def rows_of(data: object, **named: Any) -> Floats:
    ball, rule = pais.Ball(radius=1e9), pais.UniformRule(rate=1.0)
    rows = pais.sample(pais.source(data, **named), ball=ball, rule=rule).spend("a test").rows
    return rows[np.lexsort(rows.T)]


SORTED = ROWS[np.lexsort(ROWS.T)]


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_semicolons_are_recognised_from_the_header(tmp_path: Path, name: str) -> None:
    assert np.array_equal(rows_of(written(tmp_path / name, ";")), SORTED)
    assert np.array_equal(rows_of(written(tmp_path / name, ";", ","), decimal=","), SORTED)
    assert pais.source(tmp_path / name, decimal=",").names == ("a", "b", "c")


def test_semicolons_in_rows_do_not_change_how_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n3;4;5\n6,7\n" + "8;9\n" * 50)
    assert np.array_equal(rows_of(path), [[1.0, 2.0], [6.0, 7.0]])
    path.write_text("a;b\n1;2\n3,4\n6;7\n" + "8,9\n" * 50)
    assert np.array_equal(rows_of(path), [[1.0, 2.0], [6.0, 7.0]])


@pytest.mark.parametrize("header", ["a;b,c", "a;;b", "a;1;b", '"a;b"', "a,b;c"])
def test_doubtful_headers_are_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n1;2;3\n")
    with pytest.raises(pais.DataError, match="first line"):
        pais.source(path)


@pytest.mark.parametrize("separator", ["\t", "|", ";", " ", ":"])
def test_a_stated_separator_is_used(tmp_path: Path, separator: str) -> None:
    assert np.array_equal(rows_of(written(tmp_path / "rows.csv", separator), separator=separator), SORTED)


def test_a_stated_comma_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(pais.DataError, match="first line"):
        pais.source(written(tmp_path / "rows.csv", ";"), separator=",")


def test_quotes_work_with_every_separator(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('a;"b"\n"1";2\n"3;4";5\n6;"7\n8;9"\n"10";"11"\n12;1"3\n')
    assert np.array_equal(rows_of(path, columns=["a", "b"]), [[1.0, 2.0], [10.0, 11.0]])


def test_a_decimal_comma_in_quoted_cells(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('a,b\n"1,5",2\n3,"0,25"\n')
    assert np.array_equal(rows_of(path, decimal=","), [[3.0, 0.25], [1.5, 2.0]])


@pytest.mark.parametrize(("cell", "value"), [("1,5", "1.5"), ("-2", "-2"), ("1.5", None), ("1.234,5", None), ("", "")])
def test_decimal_commas_cell_by_cell(cell: str, value: str | None) -> None:
    for cells in ([cell], [cell, "1,0"], [cell, "1.0", None]):
        assert with_decimal_points(pa.array(cells), ",")[0].as_py() == value


@pytest.mark.parametrize("bad", ["", ";;", '"', "\n", "a", "5", "é", 3, None])
def test_bad_separators_and_decimal_marks_are_refused(tmp_path: Path, bad: Any) -> None:
    path = written(tmp_path / "rows.csv", ";")
    with pytest.raises(pais.ArgumentError, match="decimal"):
        pais.source(path, decimal=bad)
    if bad is not None:
        with pytest.raises(pais.ArgumentError, match="separator"):
            pais.source(path, separator=bad)


def test_separator_and_decimal_are_for_csv_files(tmp_path: Path) -> None:
    table = pa.table({"a": [1.0], "b": [2.0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    for data in (table, ROWS, tmp_path / "rows.parquet"):
        with pytest.raises(pais.ArgumentError, match="CSV"):
            pais.source(data, separator=";")
        with pytest.raises(pais.ArgumentError, match="CSV"):
            pais.source(data, decimal=",")


def test_options_of_the_command_line(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain.csv", ",")
    other = written(tmp_path / "other.csv", "\t", ",")
    arguments = ("--epsilon", 1, "--seed", 1, "--json")
    expected = command("survey", plain, *arguments).stdout
    for separator in ("tab", r"\t", "\t"):
        shown = command("survey", other, *arguments, "--separator", separator, "--decimal", ",")
        assert shown.exit_code == 0, shown.stderr
        assert [line for line in shown.stdout.split("\n") if '"name"' not in line] == [
            line for line in expected.split("\n") if '"name"' not in line
        ]
    assert command("survey", plain, *arguments, "--decimal", ";").exit_code == 2


def test_a_decimal_comma_with_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("size;kind;day\n1,5;x,y;2025-01-01\n1.5;z;2025-01-02\n2,0;z;2025-01-03\n")
    columns = {"size": (0, 2), "kind": ["x,y", "z"], "day": ("2025-01-01", "2025-01-03")}
    rows = rows_of(path, columns=columns, decimal=",")
    assert np.allclose(sorted(rows[:, 0]), [0.5, 1.0])
    assert np.allclose(rows[np.argmin(rows[:, 0]), 1:], [2**0.5, 0.0, -1.0])
