"""The command line: how commands fail, and what they leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from pais.cli import files, show
from pais.errors import PrivacyWarning
from tests.support.commands import RELEASE, kmeans, left_in, pais, refused, strict_json

CANARY = "8675309.125"


def test_release_is_overwritten_only_with_the_option(data: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out").exit_code == 0
    before = (tmp_path / "out" / "certificate.json").read_bytes()
    again = kmeans(data, tmp_path / "out", "--epsilon", 2)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    assert (tmp_path / "out" / "certificate.json").read_bytes() == before
    assert kmeans(data, tmp_path / "out", "--epsilon", 2, "--overwrite").exit_code == 0
    assert strict_json((tmp_path / "out" / "certificate.json").read_text())["epsilon"] == pytest.approx(2.0)
    assert left_in(tmp_path / "out") == RELEASE


def failing(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (RuntimeError(CANARY), 1), (OSError(28, "No space left"), 2)]
)
def test_a_failure_while_writing_leaves_nothing_behind(
    error: BaseException, code: int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "write_report", failing(error))
    result = kmeans(data, tmp_path / "deep" / "out")
    assert result.exit_code == code
    assert left_in(tmp_path) == {"rows.parquet"}
    assert CANARY not in result.output
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("moves", range(8))
def test_interrupted_overwrite_restores_the_earlier_release(
    moves: int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in RELEASE:
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / name).write_text(f"earlier {name}")
    real, done = Path.replace, []

    def replace(path: Path, target: Path) -> Path:
        if len(done) == moves:
            done.append(path)
            raise KeyboardInterrupt
        done.append(path)
        return real(path, target)

    monkeypatch.setattr(files, "write_report", lambda path, *_, **__: path.write_text("report"))
    monkeypatch.setattr(Path, "replace", replace)
    assert kmeans(data, tmp_path / "out", "--overwrite").exit_code == 130
    assert left_in(tmp_path / "out") == RELEASE
    assert all((tmp_path / "out" / name).read_text() == f"earlier {name}" for name in RELEASE)
    assert left_in(tmp_path) == {"rows.parquet", "out"}


@pytest.mark.parametrize(
    "more",
    [
        ("--epsilon", 0),
        ("--epsilon", "much"),
        ("--delta", 2),
        ("--mechanism", "laplace", "--delta", 1e-6),
        ("--mechanism", "cauchy"),
        ("--n-clusters", 0),
        ("--radius", -1),
        ("--center", "1,2,3"),
        ("--center", "1,nan"),
        ("--columns", "depth"),
        ("--columns", ","),
        ("--norms", "0,1"),
        ("--norms", "2,1", "--n-rows", 10, "--radius", 2),
        ("--survey", "missing.json"),
        ("--seed", -1),
        ("--wrong",),
    ],
    ids=str,
)
def test_a_bad_argument_exits_with_2(more: tuple[object, ...], data: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", *more)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_file_name_that_is_too_long_is_refused(data: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out").exit_code == 0
    certificate, long = tmp_path / "out" / "certificate.json", tmp_path / ("a" * 300 + ".csv")
    for arguments in (
        ("explain", long),
        ("explain", certificate, "--values", long),
        ("explain", certificate, "--values", long / "centers.csv"),
        ("example", long),
        ("label", data, "--model", long, "--to", tmp_path / "labels.parquet"),
    ):
        result = pais(*arguments)
        assert result.exit_code == 2, result.stderr
        assert f"{long}" in result.stderr
    assert "Check FILE" in pais("example", long).stderr


def test_a_target_or_budget_out_of_reach_exits_with_3(data: Path, surveyed: Path, tmp_path: Path) -> None:
    wanted = ("--n-clusters", 3, "--survey", surveyed, "--epsilon", 0.05)
    refused("kmeans", data, *wanted, "--out", tmp_path / "out", code=3)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [(ZeroDivisionError(CANARY), 1, "internal error: ZeroDivisionError"), (KeyboardInterrupt(), 130, "interrupted")],
)
def test_an_error_in_the_rounds_shows_its_type_only_and_leaves_nothing_behind(
    error: BaseException, code: int, words: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pais.cli.commands.fit", failing(error))
    result = kmeans(data, tmp_path / "out")
    assert result.exit_code == code
    assert words in result.stderr
    assert CANARY not in result.output
    assert "Traceback" not in result.output
    assert left_in(tmp_path) == {"rows.parquet"}


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for terminal in (True, False):
        monkeypatch.setenv("FORCE_COLOR", "1" if terminal else "")
        with show.watch(quiet=False) as bar:
            bar.begin("read")
            bar.begin("write")
        captured = capsys.readouterr()
        assert captured.out == ""
        assert ("write" in captured.err) == terminal


def test_the_command_runs_in_a_process_of_its_own(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "pais.cli", "kmeans", data, "--n-clusters", "3", "--epsilon", "1", "--out", out]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert strict_json(done.stdout)["certificate"]["secure_randomness"] is True
    assert left_in(out) == RELEASE
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith("error: ")


@pytest.mark.parametrize("category", [RuntimeWarning, UserWarning])
def test_a_warning_of_another_package_is_not_shown(
    category: type[Warning], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*_: object, **__: object) -> None:
        warnings.simplefilter("always")
        warnings.warn(CANARY, category, stacklevel=1)
        warnings.warn("a weak guarantee", PrivacyWarning, stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr("pais.cli.commands.fit", fit)
    shown = kmeans(data, tmp_path / "out").output
    assert "a weak guarantee" in shown
    assert CANARY not in shown


def test_missing_settings_are_named(data: Path, tmp_path: Path) -> None:
    start = ("kmeans", data, "--out", tmp_path / "out")
    assert "--epsilon is missing. Pass both options, or --plan" in refused(*start, "--n-clusters", 3)
    assert "--n-clusters is missing" in refused(*start, "--epsilon", 1)
    assert "--n-clusters and --epsilon are missing" in refused(*start)


@pytest.mark.parametrize(
    ("option", "values"),
    [("--columns", ("x=0:1", "y=0:1")), ("--by", ("x=ranges(0,1,2)", "y=ranges(0,1,2)"))],
)
def test_a_list_that_is_passed_in_two_options_is_refused_before_a_row_is_read(
    option: str, values: tuple[str, str], tmp_path: Path
) -> None:
    found = pais("mean", tmp_path / "no-such-file.csv", option, values[0], option, values[1], "--epsilon", 1)
    assert found.exit_code == 2
    text = " ".join(found.stderr.replace("│", " ").split())
    assert f"{option} is passed 2 times. Pass it once, with commas between its parts." in text


def test_a_check_without_columns_shows_how_to_write_them(data: Path) -> None:
    assert "--columns 'age=18:100,premium=bool,region=[north|south]'" in refused("check", data)
