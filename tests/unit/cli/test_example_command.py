"""`pais example` writes a table to try the other commands on."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from pais import example_people
from tests.unit.cli.commands import left_in, pais


def test_example_writes_the_generated_table_as_parquet_or_csv(tmp_path: Path) -> None:
    table = example_people(50, random_state=3)
    for name in ("people.parquet", "people.csv"):
        result = pais("example", tmp_path / name, "--people", 50, "--seed", 3)
        assert result.exit_code == 0
        assert "300 rows about 50 people who do not exist" in result.stdout
        assert "customer_id, age, income" in result.stdout
    assert pq.read_table(tmp_path / "people.parquet") == table
    written = pa_csv.read_csv(tmp_path / "people.csv")
    assert written.column_names == table.column_names
    assert written["age"].null_count == table["age"].null_count > 0
    assert left_in(tmp_path) == {"people.parquet", "people.csv"}


@pytest.mark.parametrize("name", ["people.txt", "people"])
def test_example_refuses_other_kinds_of_files(tmp_path: Path, name: str) -> None:
    result = pais("example", tmp_path / name)
    assert result.exit_code == 2
    assert "must end in .csv or .parquet" in result.output


def test_example_replaces_a_file_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("mine")
    result = pais("example", path, "--people", 10)
    assert (result.exit_code, path.read_text()) == (2, "mine")
    assert "--overwrite" in result.output
    assert pais("example", path, "--people", 10, "--overwrite").exit_code == 0
    assert path.read_text().startswith('"customer_id"')
