"""Full disks, deleted directories and signals: no partial output is written, and earlier outputs stay."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pytest

from pais.cli import files as outputs
from tests.support.commands import RELEASE, pais
from tests.support.faulty_data import before_pass, parquet, snapshot, table

# -- disks and people ----------------------------------------------------------------------------------------


def earlier_outputs(out: Path) -> dict[str, bytes]:
    out.mkdir(exist_ok=True, parents=True)
    for name in RELEASE:
        (out / name).write_text(f"earlier {name}")
    return snapshot(out)


@pytest.mark.slow
def test_a_full_disk_leaves_earlier_outputs_as_they_were(tmp_path: Path) -> None:
    # A limit on the size of files stands for a full disk: the report is larger than it.
    data, out = parquet(tmp_path / "rows.parquet"), tmp_path / "out"
    before = earlier_outputs(out)

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    for place in (out, tmp_path / "new" / "deep"):
        command = [sys.executable, "-m", "pais.cli", "kmeans", data, "--columns", "a,b", "--n-clusters", "3"]
        done = subprocess.run(
            [*command, "--epsilon", "1", "--out", place, "--overwrite"],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=limited,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("error: ")
        assert f"{place} cannot be written: File too large" in done.stderr
        assert "8675309" not in done.stderr
        assert snapshot(out) == before
        assert {path.name for path in tmp_path.iterdir()} == {"rows.parquet", "out"}


def test_output_directory_deleted_during_the_run_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = parquet(tmp_path / "rows.parquet"), tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    with before_pass(2, lambda: shutil.rmtree(tmp_path / "deep"), monkeypatch):
        result = pais("kmeans", data, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1, "--out", out)
    assert result.exit_code == 0, result.output
    assert set(snapshot(out)) == set(RELEASE)
    assert {path.name for path in tmp_path.iterdir()} == {"rows.parquet", "deep"}


def test_an_output_directory_that_becomes_a_file_during_the_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = parquet(tmp_path / "rows.parquet"), tmp_path / "out"
    with before_pass(1, lambda: out.write_text("in the way"), monkeypatch):
        result = pais("kmeans", data, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1, "--out", out)
    assert result.exit_code == 2, result.output
    assert "out cannot be written" in result.stderr
    assert snapshot(tmp_path).keys() == {"rows.parquet", "out"}


def test_outputs_are_staged_in_an_existing_output_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent may be on another disk, or readable by other users."""
    data, out, places = parquet(tmp_path / "rows.parquet"), tmp_path / "deep" / "out", []
    out.mkdir(parents=True)
    real = outputs._move_in

    def move_in(new: Path, *rest: Any) -> None:
        places.append(new.parent.parent)
        real(new, *rest)

    monkeypatch.setattr(outputs, "_move_in", move_in)
    for made in (out / "survey.json", out / "other.json"):
        assert pais("survey", data, "--columns", "a,b", "--epsilon", 1, "--out", made).exit_code == 0
    assert places == [out, out]
    assert set(snapshot(out)) == {"survey.json", "other.json"}


@pytest.mark.parametrize("gone", ["all", "the hidden place"])
def test_outputs_deleted_while_written_leave_earlier_outputs(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = parquet(tmp_path / "rows.parquet"), tmp_path / "deep" / "out"
    before = earlier_outputs(out)
    real = outputs._move_in

    def move_in(new: Path, *rest: Any) -> None:
        shutil.rmtree(tmp_path / "deep" if gone == "all" else new.parent)
        real(new, *rest)

    monkeypatch.setattr(outputs, "_move_in", move_in)
    result = pais("kmeans", data, "--columns", "a,b", "--n-clusters", 3, "--epsilon", 1, "--out", out, "--overwrite")
    assert result.exit_code == 2, result.output
    assert "out cannot be written" in result.stderr
    if gone == "the hidden place":
        assert snapshot(out) == before
    assert not list(tmp_path.rglob(".pais-*"))


SLOW = """
import sys, time
from pathlib import Path
from pais.data.engines import files
from pais.cli import main

mark = Path(sys.argv.pop(1))
real = files.DataFile._each

def slowly(file, stream):
    for batch in real(file, stream):
        mark.touch()
        time.sleep(0.05)
        yield batch

files.DataFile._each = slowly
files._CSV_BLOCK_BYTES = 2048
files._BATCH_ROWS = 50
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "asked"),
    [
        ("parquet", signal.SIGINT),
        ("csv", signal.SIGTERM),
        ("one.csv", signal.SIGHUP),
    ],
)
def test_interrupted_pass_ends_soon_with_130_and_writes_nothing(
    form: str, asked: signal.Signals, tmp_path: Path
) -> None:
    # Files that take a minute each: threads must not go on to their ends.
    home, out = tmp_path / "data", tmp_path / "out"
    home.mkdir()
    for number in range(1 if form == "one.csv" else 2):
        whole = table(60_000).select(["a", "b"])
        if form == "parquet":
            parquet(home / f"part-{number}.parquet", whole, row_group_size=60_000)
        else:
            pa_csv.write_csv(whole, home / f"part-{number}.csv")
    before = earlier_outputs(out)
    begun = tmp_path / "begun"
    command = [sys.executable, "-c", SLOW, begun, "kmeans", home, "--n-clusters", "3", "--epsilon", "1", "--overwrite"]
    process = subprocess.Popen(
        [*command, "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A child process inherits that a signal is ignored, so reset it.
        preexec_fn=lambda: signal.signal(asked, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 120.0
        while not begun.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert begun.exists()
        time.sleep(0.2)
        sent = time.monotonic()
        process.send_signal(asked)
        said = process.communicate(timeout=120.0)
        took = time.monotonic() - sent
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert said == ("", "interrupted: no partial output was written\n")
    assert took < 20.0
    assert snapshot(out) == before
    assert {path.name for path in tmp_path.iterdir()} == {"data", "out", "begun"}
