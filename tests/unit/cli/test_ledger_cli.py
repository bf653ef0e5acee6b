"""Ledgers on the command line: charges, refusals, and the state after a killed command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pais
from pais.cli import files
from pais.cli.app import app

ROOT = Path(__file__).parents[3]
RELEASE = {"centers.parquet", "centers.csv", "certificate.json", "model.json", "report.html"}


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    values = np.random.default_rng(3).normal(size=(2000, 2))
    pq.write_table(pa.table({"height": values[:, 0], "width": values[:, 1]}), path)
    return path


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "budget.json"
    assert command("ledger", path, "--epsilon", 2, "--delta", 1e-5).exit_code == 0
    return path


def kmeans(data: Path, out: Path, book: Path, *more: object) -> Any:
    return command("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", out, "--ledger", book, *more)


def spent(book: Path) -> float:
    return pais.Ledger(path=book).spent.epsilon


def left_in(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def test_ledger_command_creates_shows_and_keeps_a_ledger(book: Path, data: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out", book).exit_code == 0
    shown = command("ledger", book)
    assert shown.exit_code == 0
    assert "k-means" in shown.stdout
    assert "remaining" in shown.stdout
    told = json.loads(command("ledger", book, "--json").stdout)
    assert told["spent"] == {"epsilon": 1.0, "delta": 1e-6}
    assert told["remaining"] == {"epsilon": 1.0, "delta": 9e-6}
    assert "losses" not in json.dumps(told)
    assert command("ledger", book, "--epsilon", 2, "--delta", 1e-5).exit_code == 0
    assert command("ledger", book, "--epsilon", 3, "--delta", 1e-5).exit_code == 2
    assert command("ledger", tmp_path / "none.json").exit_code == 2
    assert command("ledger", tmp_path / "none.json", "--epsilon", "-1").exit_code == 2
    assert not (tmp_path / "none.json").exists()


def test_releases_are_charged_until_the_budget_is_used_up(book: Path, data: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "a", book).exit_code == 0
    assert command("survey", data, "--epsilon", 0.5, "--ledger", book).exit_code == 0
    assert spent(book) == 1.5
    before = book.read_bytes()
    for refused in (
        kmeans(data, tmp_path / "b", book),
        command("survey", data, "--epsilon", 0.6, "--ledger", book, "--out", tmp_path / "survey.json"),
        kmeans(data, tmp_path / "b", book, "--epsilon", 0.1, "--delta", 1e-4),
    ):
        assert refused.exit_code == 3
        assert "remain" in refused.stderr
        assert refused.stdout == ""
    assert book.read_bytes() == before
    assert left_in(tmp_path) == {"rows.parquet", "budget.json", "budget.json.lock", "a"}


def test_a_refusal_comes_before_the_data_is_opened(book: Path, tmp_path: Path) -> None:
    assert kmeans(tmp_path / "missing.parquet", tmp_path / "out", book, "--epsilon", 5).exit_code == 3
    assert kmeans(tmp_path / "missing.parquet", tmp_path / "out", book).exit_code == 2
    assert spent(book) == 0.0


def test_commands_neither_create_ledgers_nor_use_damaged_ones(data: Path, tmp_path: Path) -> None:
    missing = kmeans(data, tmp_path / "out", tmp_path / "none.json")
    assert missing.exit_code == 2
    assert "pais ledger" in missing.stderr
    (tmp_path / "bad.json").write_text('{"kind": "ledger"')
    assert kmeans(data, tmp_path / "out", tmp_path / "bad.json").exit_code == 2
    assert left_in(tmp_path) == {"rows.parquet", "bad.json"}


def test_earlier_survey_is_charged_once(book: Path, data: Path, tmp_path: Path) -> None:
    paid, unpaid = tmp_path / "paid.json", tmp_path / "unpaid.json"
    assert command("survey", data, "--epsilon", 0.25, "--out", paid, "--ledger", book).exit_code == 0
    assert command("survey", data, "--epsilon", 0.25, "--out", unpaid).exit_code == 0
    assert kmeans(data, tmp_path / "a", book, "--epsilon", 0.5, "--survey", paid).exit_code == 0
    assert spent(book) == pytest.approx(0.5)
    assert kmeans(data, tmp_path / "b", book, "--epsilon", 0.5, "--survey", unpaid).exit_code == 0
    assert spent(book) == pytest.approx(1.0)
    assert kmeans(data, tmp_path / "c", book, "--epsilon", 0.5, "--survey", unpaid).exit_code == 0
    assert spent(book) == pytest.approx(1.25)


def test_a_seeded_release_is_charged_and_marked(book: Path, data: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out", book, "--seed", 1).exit_code == 0
    assert pais.Ledger(path=book).entries[0].note == "seeded, not private"


def test_the_spend_comes_before_the_outputs(
    book: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(files, "write_report", lambda *_, **__: seen.append(spent(book)))
    kmeans(data, tmp_path / "out", book)
    assert seen == [1.0]


def test_a_new_output_directory_comes_into_place_in_one_step(
    book: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, real, seen = tmp_path / "deep" / "out", Path.rename, []

    def rename(path: Path, to: Path) -> Path:
        seen.append((left_in(path), Path(to), target.exists()))
        return real(path, to)

    monkeypatch.setattr(Path, "rename", rename)
    assert kmeans(data, target, book).exit_code == 0
    assert seen == [(RELEASE, target, False)]
    assert left_in(target) == RELEASE


def test_certificate_is_present_only_with_its_own_files(
    book: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real = tmp_path / "out", Path.replace
    out.mkdir()
    for name in RELEASE:
        (out / name).write_text("earlier")
    mixed = []

    def replace(path: Path, to: Path) -> Path:
        done = real(path, to)
        there = {path.name: path.read_bytes() == b"earlier" for path in out.iterdir() if path.is_file()}
        if "certificate.json" in there:
            mixed.append(set(there) != RELEASE or len(set(there.values())) > 1)
        return done

    monkeypatch.setattr(Path, "replace", replace)
    assert kmeans(data, out, book, "--overwrite").exit_code == 0
    assert mixed[-1:] == [False]
    assert not any(mixed)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_killed_command_leaves_no_release_without_its_charge_and_no_partial_output() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.kill_ledger", "--kills", "30"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["killed_while_running"] == 30
    assert found["half_written_outputs"] == found["releases_without_a_spend"] == 0
    # Else the kills came too early or too late to tell anything.
    assert 0 < found["spends_found"] < 30 + found["ended_before_the_kill"]


def test_failure_after_the_charge_is_reported(
    book: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_rename_in", full)
    result = kmeans(data, tmp_path / "out", book)
    assert result.exit_code == 2
    assert "The ledger was charged while this ran" in " ".join(result.stderr.split())
    refused = kmeans(data, tmp_path / "out", book, "--n-clusters", 0)
    assert "charged" not in refused.stderr


def test_new_ledger_has_a_delta_that_pays_default_releases(tmp_path: Path, data: Path) -> None:
    book = tmp_path / "budget.json"
    created = command("ledger", book, "--epsilon", 3)
    assert "delta 1e-05" in created.stderr
    assert pais.Ledger(path=book).budget == pais.Budget(epsilon=3.0, delta=1e-5)
    assert kmeans(data, tmp_path / "out", book).exit_code == 0
    # Stating the epsilon again opens the ledger, whatever its delta is.
    other = tmp_path / "other.json"
    assert command("ledger", other, "--epsilon", 2, "--delta", 1e-7).exit_code == 0
    assert command("ledger", other, "--epsilon", 2).stderr == ""
    assert command("ledger", other, "--epsilon", 2, "--delta", 1e-5).exit_code == 2


def test_ledger_shows_the_ids_that_certificates_name(book: Path, data: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out", book).exit_code == 0
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    (entry,) = certificate["ledger_entries"]
    assert entry[:8] in command("ledger", book).stdout


def test_ledger_with_delta_zero_warns_about_gaussian_noise(tmp_path: Path, data: Path) -> None:
    book = tmp_path / "pure.json"
    warning = " ".join(command("ledger", book, "--epsilon", 5, "--delta", 0).stderr.split())
    assert warning.startswith("warning: ")
    assert "will refuse" in warning
    refused = kmeans(data, tmp_path / "out", book)
    assert refused.exit_code == 3
    assert "too little delta" in refused.stderr


def test_a_survey_file_without_a_name_is_refused_because_it_could_not_be_charged(
    book: Path, data: Path, tmp_path: Path
) -> None:
    path = tmp_path / "survey.json"
    assert command("survey", data, "--epsilon", 0.25, "--out", path).exit_code == 0
    content = json.loads(path.read_text())
    del content["name"]
    path.write_text(json.dumps(content))
    assert kmeans(data, tmp_path / "a", book, "--epsilon", 0.5, "--survey", path).exit_code == 2
    facts = ("--n-clusters", 3, "--epsilon", 0.5, "--survey", path)
    assert command("plan", *facts, "--out", tmp_path / "plan.json").exit_code == 2
    assert spent(book) == 0.0


def test_a_plan_of_another_mechanism_is_refused_before_the_ledger_is_charged(
    book: Path, data: Path, tmp_path: Path
) -> None:
    plan = pais.Plan(
        ball=pais.Ball(radius=3.0),
        rule=pais.UniformRule(rate=0.5),
        mechanism=pais.WeightedSum(noise=pais.GaussianNoise(scale=50.0)),
        epsilon=1.0,
        delta=1e-6,
    )
    path = tmp_path / "plan.json"
    plan.save(path)
    result = command("kmeans", data, "--plan", path, "--ledger", book, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "k-means" in result.stderr
    assert spent(book) == 0.0
    # The other commands take it, although it does not say how many rows to expect.
    assert command("sample", data, "--plan", path, "--out", tmp_path / "sample.parquet").exit_code == 0
    assert "sum, with noise" in command("explain", path).stdout
