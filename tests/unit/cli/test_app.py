"""How the program starts: as a module, its help, completion in the shell, and `pais example`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from pais import example_people
from tests.support.commands import done, left_in, pais, refused

COMMANDS = ["demo", "example", "survey", "plan", "sample", "kmeans", "label", "audit", "explain", "ledger"]


@pytest.mark.parametrize("module", ["pais", "pais.cli"])
def test_the_package_runs_as_a_module(module: str) -> None:
    result = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.split()[0]) == (0, "pais")


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_shows_flags_without_a_type(command: list[str]) -> None:
    shown = done(*command, "--help")
    # The only bool is that of --columns.
    assert "bool" not in shown.stdout.lower().replace("premium=bool", "")


def test_the_shell_completes_commands_and_options() -> None:
    def completed(words: str, number: int) -> list[str]:
        environment = {**os.environ, "_PAIS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        program = "import sys; sys.argv = ['pais']; from pais.cli import main; main()"
        result = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        return result.stdout.split()

    assert "--install-completion" in pais("--help").stdout
    assert completed("pais km", 1) == ["kmeans"]
    assert "--n-clusters" in completed("pais kmeans --n", 2)
    assert completed("pais kmeans --missing dr", 3) == ["drop"]


def test_example_writes_the_generated_table_as_parquet_or_csv(tmp_path: Path) -> None:
    table = example_people(50, random_state=3)
    for name in ("people.parquet", "people.csv"):
        result = done("example", tmp_path / name, "--people", 50, "--seed", 3)
        assert "300 rows about 50 people who do not exist" in result.stdout
        assert "customer_id, age, income" in result.stdout
    assert pq.read_table(tmp_path / "people.parquet") == table
    written = pa_csv.read_csv(tmp_path / "people.csv")
    assert written.column_names == table.column_names
    assert written["age"].null_count == table["age"].null_count > 0
    assert left_in(tmp_path) == {"people.parquet", "people.csv"}


@pytest.mark.parametrize("name", ["people.txt", "people"])
def test_example_refuses_other_kinds_of_files(tmp_path: Path, name: str) -> None:
    assert "must end in .csv or .parquet" in refused("example", tmp_path / name)


def test_example_replaces_a_file_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("mine")
    assert "--overwrite" in refused("example", path, "--people", 10)
    assert path.read_text() == "mine"
    done("example", path, "--people", 10, "--overwrite")
    assert path.read_text().startswith('"customer_id"')
