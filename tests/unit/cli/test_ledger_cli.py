"""Ledgers on the command line: charges, refusals, and the state after a killed command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pais as package
from pais.cli import files
from tests.support.commands import RELEASE, certificate, done, left_in, pais, refused, spent

ROOT = Path(__file__).parents[3]


def wanted(data: Path, out: Path, book: Path, *more: object) -> tuple[object, ...]:
    return "kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", out, "--ledger", book, *more


def test_ledger_command_creates_shows_and_keeps_a_ledger(book: Path, data: Path, tmp_path: Path) -> None:
    done(*wanted(data, tmp_path / "out", book))
    shown = done("ledger", book).stdout
    assert "k-means" in shown
    assert "remaining" in shown
    (entry,) = certificate(tmp_path / "out")["ledger_entries"]
    assert entry[:8] in shown
    told = json.loads(done("ledger", book, "--json").stdout)
    assert told["spent"] == {"epsilon": 1.0, "delta": 1e-6}
    assert told["remaining"] == {"epsilon": 1.0, "delta": 9e-6}
    assert "losses" not in json.dumps(told)
    done("ledger", book, "--epsilon", 2, "--delta", 1e-5)
    refused("ledger", book, "--epsilon", 3, "--delta", 1e-5)
    refused("ledger", tmp_path / "none.json")
    refused("ledger", tmp_path / "none.json", "--epsilon", "-1")
    assert not (tmp_path / "none.json").exists()


def test_releases_are_charged_until_the_budget_is_used_up(book: Path, data: Path, tmp_path: Path) -> None:
    done(*wanted(data, tmp_path / "a", book))
    done("survey", data, "--epsilon", 0.5, "--ledger", book)
    assert spent(book) == 1.5
    before = book.read_bytes()
    # A refusal comes before the data is opened.
    missing = tmp_path / "missing.parquet"
    for command in (
        wanted(missing, tmp_path / "b", book),
        ("survey", missing, "--epsilon", 0.6, "--ledger", book, "--out", tmp_path / "survey.json"),
        wanted(missing, tmp_path / "b", book, "--epsilon", 0.1, "--delta", 1e-4),
    ):
        assert "remain" in refused(*command, code=3)
    refused(*wanted(missing, tmp_path / "b", book, "--epsilon", 0.1))
    assert book.read_bytes() == before
    assert left_in(tmp_path) == {"rows.parquet", "budget.json", "budget.json.lock", "a"}


def test_commands_neither_create_ledgers_nor_use_damaged_ones(data: Path, tmp_path: Path) -> None:
    assert "pais ledger" in refused(*wanted(data, tmp_path / "out", tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text('{"kind": "ledger"')
    refused(*wanted(data, tmp_path / "out", tmp_path / "bad.json"))
    assert left_in(tmp_path) == {"rows.parquet", "bad.json"}


def test_the_spend_comes_before_the_outputs(
    book: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(files, "write_report", lambda *_, **__: seen.append(spent(book)))
    pais(*wanted(data, tmp_path / "out", book))
    assert seen == [1.0]


def test_certificate_is_present_only_with_its_own_files(
    book: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real = tmp_path / "out", Path.replace
    out.mkdir()
    for name in RELEASE:
        (out / name).write_text("earlier")
    mixed = []

    def replace(path: Path, to: Path) -> Path:
        moved = real(path, to)
        there = {path.name: path.read_bytes() == b"earlier" for path in out.iterdir() if path.is_file()}
        if "certificate.json" in there:
            mixed.append(set(there) != RELEASE or len(set(there.values())) > 1)
        return moved

    monkeypatch.setattr(Path, "replace", replace)
    done(*wanted(data, out, book, "--overwrite"))
    assert left_in(out) == RELEASE
    assert mixed
    assert not any(mixed)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_killed_command_leaves_no_release_without_its_charge_and_no_partial_output() -> None:
    command = [sys.executable, "-m", "tests.support.kill_ledger", "--kills", "12"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["killed_while_running"] == 12
    assert found["half_written_outputs"] == found["releases_without_a_spend"] == 0
    # Else the kills came too early or too late to tell anything.
    assert 0 < found["spends_found"] < 12 + found["ended_before_the_kill"]


def test_failure_after_the_charge_is_reported(
    book: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_rename_in", full)
    failed = pais(*wanted(data, tmp_path / "out", book))
    assert failed.exit_code == 2
    assert "The ledger was charged while this ran" in " ".join(failed.stderr.split())
    assert "charged" not in refused(*wanted(data, tmp_path / "out", book, "--n-clusters", 0))


def test_a_new_ledger_has_a_delta_that_pays_default_releases(tmp_path: Path, data: Path) -> None:
    book, other, pure = (tmp_path / f"{name}.json" for name in ("budget", "other", "pure"))
    assert "delta 1e-05" in done("ledger", book, "--epsilon", 3).stderr
    assert package.Ledger(path=book).budget == package.Budget(epsilon=3.0, delta=1e-5)
    done(*wanted(data, tmp_path / "out", book))
    # Stating the epsilon again opens the ledger, whatever its delta is.
    done("ledger", other, "--epsilon", 2, "--delta", 1e-7)
    assert done("ledger", other, "--epsilon", 2).stderr == ""
    refused("ledger", other, "--epsilon", 2, "--delta", 1e-5)
    warning = " ".join(done("ledger", pure, "--epsilon", 5, "--delta", 0).stderr.split())
    assert warning.startswith("warning: ")
    assert "will refuse" in warning
    assert "too little delta" in refused(*wanted(data, tmp_path / "none", pure), code=3)
