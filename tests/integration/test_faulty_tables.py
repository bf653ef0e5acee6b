"""Bad CSV files, paths and column names: an error that names them, or the line is left out."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pais import Ball, DataError, UniformRule, sample, source
from pais.data.engines import files
from tests.support.commands import pais
from tests.support.faulty_data import CANARY, STATED, parquet, refused, rows

# -- CSV files -----------------------------------------------------------------------------------------------

LINES = "\n".join(f"{a!r},{b!r}" for a, b in rows(3000).tolist())
BAD_CSV = {
    "no header": f"{CANARY},2\n{LINES}\n",
    "nothing in it": "",
    "bytes that are no text": f"h\udcff,b\n{LINES}\n",
}


@pytest.mark.parametrize("small_blocks", [False, True])
@pytest.mark.parametrize("fault", BAD_CSV)
def test_a_bad_csv_file_is_named(
    fault: str, small_blocks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With small blocks the fault is met in the middle of a pass, not when columns are looked at.
    if small_blocks:
        monkeypatch.setattr(files, "_CSV_BLOCK_BYTES", 4096)
    home = tmp_path / "data"
    home.mkdir()
    (home / "part-0.csv").write_text(f"a,b\n{LINES}\n")
    (home / "part-1.csv").write_bytes(BAD_CSV[fault].encode(errors="surrogateescape"))
    refused(home, names="part-1.csv", work=tmp_path)


def test_csv_columns_of_late_numbers_and_of_booleans_are_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n,true\n,false\n")
    with pytest.raises(DataError, match=r"column\(s\) 1 from the left have values that are missing"):
        source(tmp_path / "rows.csv", missing="error")
    (tmp_path / "rows.csv").write_text("a,b\n1,true\n0.5,false\n")
    kept = sample(tmp_path / "rows.csv", ball=Ball(radius=9.0), rule=UniformRule(rate=1.0)).spend("a test")
    assert sorted(kept.rows.tolist()) == [[0.5, 0.0], [1.0, 1.0]]


# -- names of files and columns ------------------------------------------------------------------------------


def test_a_path_without_data_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.md").write_text("nothing")
    field = pa.field(b"a\xff", pa.float64())
    parquet(tmp_path / "odd.parquet", pa.Table.from_arrays([pa.array([CANARY])], schema=pa.schema([field])))
    for number, (path, error) in enumerate(
        {
            "data": "data has no Parquet or CSV file",
            "rows-*.parquet": "no file matches",
            "missing.parquet": "missing.parquet does not exist",
            "odd.parquet": "odd.parquet cannot be read",
        }.items()
    ):
        (tmp_path / str(number)).mkdir()
        refused(str(tmp_path / path), names=error, work=tmp_path / str(number))
    assert pais("survey", "x" * 5000, "--epsilon", 1, "--json").exit_code == 2
    assert pais("survey", "carrier-pigeon://rows", "--epsilon", 1, "--json").exit_code == 2


@pytest.mark.parametrize("name", ["größe", "[red]", "a\nb", "", "名"])
def test_column_names_may_be_any_text(name: str, tmp_path: Path) -> None:
    found = rows()
    data = parquet(tmp_path / "rows.parquet", pa.table({name: found[:, 0], "plain": found[:, 1]}))
    result = pais("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    centers = pq.read_table(tmp_path / "out" / "centers.parquet")
    assert centers.column_names == [name, "plain", "noisy_count"]


def test_a_carried_column_may_not_be_called_weight_or_be_a_feature(tmp_path: Path) -> None:
    found = rows()
    data = parquet(tmp_path / "rows.parquet", pa.table({"a": found[:, 0], "b": found[:, 1], "weight": found[:, 0]}))
    plan = tmp_path / "plan.json"
    assert pais("plan", "--n-clusters", 3, "--epsilon", 1, "--n-features", 2, *STATED, "--out", plan).exit_code == 0
    for carry in ("weight", "a", "a,weight"):
        result = pais(
            "sample", data, "--columns", "a,b", "--carry", carry, "--plan", plan, "--out", tmp_path / "s.parquet"
        )
        assert result.exit_code == 2, result.output
        assert "column names must be unique" in result.stderr
        assert not (tmp_path / "s.parquet").exists()


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    data = parquet(tmp_path / "rows.parquet")
    for command in (
        ("survey", data, "--columns", "a,a", "--epsilon", 1, "--json"),
        ("kmeans", data, "--columns", "a,b,a", "--n-clusters", 3, "--epsilon", 1, "--out", tmp_path / "out"),
    ):
        result = pais(*command)
        assert result.exit_code == 2, result.output
        assert "column(s) a are named more than once" in result.stderr
    assert not (tmp_path / "out").exists()


def test_missing_spark_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "pais.data.engines.spark", raising=False)
    data = parquet(tmp_path / "rows.parquet")
    for more in (("--engine", "spark"), ("--master", "local[1]")):
        result = pais("survey", data, "--columns", "a,b", "--epsilon", 1, "--out", tmp_path / "s.json", *more)
        assert result.exit_code == 2, result.output
        assert "pais[spark]" in result.stderr
        assert not (tmp_path / "s.json").exists()
