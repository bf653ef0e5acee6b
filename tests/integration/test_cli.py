"""The command line: every command, what it writes, what it prints, and how it fails."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pais.cli import app, demo, facts, files, show
from pais.data.columns import Table

RELEASE = {"centers.parquet", "centers.csv", "certificate.json", "report.html"}
CERTIFICATE_KEYS = {
    "epsilon",
    "delta",
    "delta_used",
    "epsilon_if_kept",
    "max_epsilon_if_kept",
    "values_sha256",
    "ledger_entries",
    "delta_basis",
    "parts",
    "neighbours",
    "note",
    "secure_randomness",
    "mechanism",
    "rule",
    "ball",
    "version",
}
CANARY = "8675309.125"


def pais(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def blobs(n: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(3)
    places = rng.normal(size=(3, 2)) * 4.0
    return places[rng.integers(3, size=n)] + rng.normal(size=(n, 2)) * 0.3


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    rows = blobs()
    pq.write_table(pa.table({"height": rows[:, 0], "width": rows[:, 1]}), path)
    return path


@pytest.fixture
def surveyed(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "survey.json"
    assert pais("survey", data, "--epsilon", 0.1, "--out", path).exit_code == 0
    return path


def kmeans(data: Path, out: Path, *more: object) -> Any:
    return pais("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", out, *more)


def left_in(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def strict_json(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_kmeans_writes_centers_certificate_and_report_and_prints_a_summary(data: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "new" / "out")
    assert result.exit_code == 0, result.stderr
    assert left_in(tmp_path / "new" / "out") == RELEASE
    assert left_in(tmp_path) == {"rows.parquet", "new"}
    centers = pq.read_table(tmp_path / "new" / "out" / "centers.parquet")
    assert centers.column_names == ["height", "width", "noisy_count"]
    assert centers.num_rows == 3
    again = pa_csv.read_csv(tmp_path / "new" / "out" / "centers.csv")
    for name in centers.column_names:
        assert again[name].to_pylist() == centers[name].to_pylist()
    assert "epsilon 1, delta 1e-06" in result.stdout
    assert "secure randomness" in result.stdout
    assert "height, width" in result.stdout
    assert "width" in (tmp_path / "new" / "out" / "report.html").read_text()
    assert result.stderr == ""


def test_certificates_hold_the_expected_entries_and_add_up(data: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out").exit_code == 0
    certificate = strict_json((tmp_path / "out" / "certificate.json").read_text())
    assert set(certificate) == CERTIFICATE_KEYS
    assert [part["what"] for part in certificate["parts"]] == ["survey", "k-means"]
    assert sum(part["epsilon"] for part in certificate["parts"]) == pytest.approx(1.0)
    assert certificate["epsilon"] <= 1.0
    assert certificate["secure_randomness"] is True


def test_json_is_alone_on_stdout_and_parses(data: Path, surveyed: Path, tmp_path: Path) -> None:
    released = kmeans(data, tmp_path / "out", "--json", "--seed", 1)
    content = strict_json(released.stdout)
    assert set(content) == {"certificate", "columns", "expected_rows", "files"}
    assert content["columns"] == ["height", "width"]
    assert 0 < content["expected_rows"] < 6000
    assert set(content["certificate"]) == CERTIFICATE_KEYS
    assert content["certificate"] == strict_json((tmp_path / "out" / "certificate.json").read_text())
    assert set(content["files"]) == RELEASE
    assert "NOT PRIVATE" in released.stderr
    assert strict_json(pais("survey", data, "--epsilon", 0.1, "--json").stdout)["kind"] == "survey"
    plan = tmp_path / "plan.json"
    planned = pais("plan", "--survey", surveyed, "--n-clusters", 3, "--epsilon", 1, "--json", "--out", plan)
    shown, written = strict_json(planned.stdout), strict_json(plan.read_text())
    assert {**shown, "request": written["request"], "explanation": written["explanation"]} == written
    drawn = pais("sample", data, "--plan", plan, "--out", tmp_path / "sample.parquet", "--json")
    assert strict_json(drawn.stdout)["expected_rows"] > 0


def test_quiet_prints_nothing_on_stdout(data: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", "--quiet")
    assert (result.exit_code, result.stdout) == (0, "")
    wasted = pais("survey", data, "--epsilon", 0.1, "--quiet")
    assert wasted.exit_code == 2
    assert "not shown" in wasted.stderr


def test_a_seed_is_called_not_private_and_repeats_the_run(data: Path, tmp_path: Path) -> None:
    first, second = (kmeans(data, tmp_path / name, "--seed", 5) for name in ("a", "b"))
    assert "NOT PRIVATE" in first.stderr
    assert "seeded, not private" in second.stdout
    for name in RELEASE:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_stated_facts_cost_nothing(data: Path, tmp_path: Path) -> None:
    center = tmp_path / "center.txt"
    center.write_text("0, 0\n")
    stated = ("--radius", 10, "--center", center, "--norms", "0,3,5,10", "--n-rows", 4000)
    assert kmeans(data, tmp_path / "out", *stated).exit_code == 0
    certificate = strict_json((tmp_path / "out" / "certificate.json").read_text())
    assert [part["what"] for part in certificate["parts"]] == ["k-means"]
    assert certificate["ball"] == {"radius": 10.0, "order": 2.0, "center": [0.0, 0.0]}


@pytest.mark.parametrize("mechanism", ["laplace", "l2"])
def test_pure_mechanisms_need_no_delta(mechanism: str, data: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", "--mechanism", mechanism, "--epsilon", 3)
    assert result.exit_code == 0, result.stderr
    assert strict_json((tmp_path / "out" / "certificate.json").read_text())["delta"] == 0.0


@pytest.mark.parametrize("sampling", ["coreset", "uniform", "none"])
def test_every_sampling_runs(sampling: str, data: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", "--sampling", sampling)
    assert result.exit_code == 0, result.stderr
    assert pais("explain", tmp_path / "out" / "certificate.json").exit_code == 0


def test_columns_choose_features_of_a_csv_file(tmp_path: Path) -> None:
    rows = blobs()
    data = tmp_path / "rows.csv"
    pa_csv.write_csv(pa.table({"a": rows[:, 0], "text": ["x"] * len(rows), "b": rows[:, 1]}), data)
    assert kmeans(data, tmp_path / "out", "--columns", "b, a").exit_code == 0
    assert pq.read_table(tmp_path / "out" / "centers.parquet").column_names == ["b", "a", "noisy_count"]


def test_an_earlier_survey_is_counted_in_epsilon(data: Path, surveyed: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", "--survey", surveyed)
    assert result.exit_code == 0, result.stderr
    certificate = strict_json((tmp_path / "out" / "certificate.json").read_text())
    parts = {part["what"]: part["epsilon"] for part in certificate["parts"]}
    assert parts == pytest.approx({"survey": 0.1, "k-means": 0.9})
    assert certificate["epsilon"] <= 1.0 + 1e-12
    assert certificate["ball"] == strict_json(surveyed.read_text())["ball"]


def test_a_seeded_survey_serves_rehearsals_only(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "survey.json"
    assert pais("survey", data, "--epsilon", 0.1, "--seed", 1, "--out", path).exit_code == 0
    refused = kmeans(data, tmp_path / "out", "--survey", path)
    assert refused.exit_code == 2
    assert "not private" in refused.stderr
    assert kmeans(data, tmp_path / "out", "--survey", path, "--seed", 1).exit_code == 0
    assert "NOT PRIVATE" in pais("explain", tmp_path / "out" / "certificate.json").stdout


def test_a_survey_says_what_it_found_and_what_it_spent(data: Path, tmp_path: Path) -> None:
    result = pais("survey", data, "--epsilon", 0.2, "--center", "0,0", "--out", tmp_path / "s.json")
    assert result.exit_code == 0, result.stderr
    assert "spent epsilon 0.2" in result.stdout
    assert "█" in result.stdout
    content = strict_json((tmp_path / "s.json").read_text())
    assert content["noisy_rows"] == pytest.approx(4000, rel=0.2)
    assert content["ball"]["center"] == [0.0, 0.0]
    again = facts.read_survey(tmp_path / "s.json", rehearsal=False)
    assert facts.survey_description(again)["noisy_mean_square_norm"] == pytest.approx(content["noisy_mean_square_norm"])


def test_a_survey_of_too_few_rows_says_so(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}), tmp_path / "few.parquet")
    result = pais("survey", tmp_path / "few.parquet", "--epsilon", 0.01, "--out", tmp_path / "s.json")
    assert result.exit_code == 0, result.stderr
    assert "too few rows" in result.stderr
    assert "assumptions" in pais("explain", tmp_path / "s.json").stdout


def test_a_plan_needs_no_data_and_explains_itself(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    stated = ("--radius", 10, "--norms", "0,3,5,10", "--n-rows", 1e5, "--n-features", 4)
    result = pais("plan", "--n-clusters", 5, "--epsilon", 1, *stated, "--out", path)
    assert result.exit_code == 0, result.stderr
    assert "6. release    may leave   epsilon 1, delta 1e-06" in result.stdout
    content = strict_json(path.read_text())
    assert content["epsilon"] == 1.0
    assert content["explanation"] == result.stdout.rstrip("\n").split("\n")
    assert max(content["by_norm"]["epsilon"]) <= 1.0
    assert "This is a plan" in pais("explain", path).stdout
    assert "refuted" not in result.stdout
    assert 'no fault where it says "no"' in result.stdout


def test_a_plan_in_json_is_short_and_the_file_holds_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    stated = ("--radius", 10, "--norms", "0,3,5,10", "--n-rows", 1e5, "--n-features", 4)
    shown = pais("plan", "--n-clusters", 5, "--epsilon", 1, *stated, "--json", "--out", path).stdout
    assert len(shown) < 6000 < 20 * len(shown) < len(path.read_text())
    content = strict_json(shown)
    assert content["request"]["n_clusters"] == 5
    assert content["expected_rows"] > 0


def test_a_sample_is_weighted_clipped_secret_and_said_to_be_no_release(
    data: Path, surveyed: Path, tmp_path: Path
) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "sample.parquet"
    assert pais("plan", "--survey", surveyed, "--n-clusters", 3, "--epsilon", 1, "--out", plan).exit_code == 0
    result = pais("sample", data, "--plan", plan, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "NOT A PRIVATE RELEASE" in result.stderr
    table = pq.read_table(out)
    assert table.column_names == ["height", "width", "weight"]
    weight = table["weight"].to_numpy()
    assert weight.min() >= 1.0
    assert weight.sum() == pytest.approx(4000, rel=0.2)
    ball = strict_json(surveyed.read_text())["ball"]
    kept = np.column_stack([table["height"].to_numpy(), table["width"].to_numpy()]) - ball["center"]
    assert np.linalg.norm(kept, axis=1).max() <= ball["radius"] * (1 + 1e-9)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_explain_reads_certificates_plans_surveys_and_nothing_else(data: Path, surveyed: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out").exit_code == 0
    words = pais("explain", tmp_path / "out" / "certificate.json").stdout
    assert "e^epsilon = 2.719" in words
    assert "Someone who owns k rows" in words
    assert "This is a survey" in pais("explain", surveyed).stdout
    for text in ("{}", "[1]", "not json", '{"parts": 3}', '{"kind": "plan"}'):
        (tmp_path / "bad.json").write_text(text)
        result = pais("explain", tmp_path / "bad.json")
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert pais("explain", "--json", tmp_path / "bad.json").exit_code == 2
    assert pais("explain", tmp_path / "missing.json").exit_code == 2


def test_explain_gives_programs_the_guarantee_and_the_words(data: Path, surveyed: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    assert pais("plan", "--survey", surveyed, "--n-clusters", 3, "--epsilon", 1, "--out", plan).exit_code == 0
    assert kmeans(data, tmp_path / "out", "--seed", 1).exit_code == 0
    expected = {
        plan: ("plan", 0.9, 1e-6, None),
        surveyed: ("survey", 0.1, 0.0, True),
        tmp_path / "out" / "certificate.json": ("certificate", 1.0, 1e-6, False),
    }
    for path, (kind, epsilon, delta, secure) in expected.items():
        content = strict_json(pais("explain", path, "--json").stdout)
        assert content == {
            "kind": kind,
            "epsilon": pytest.approx(epsilon),
            "delta": delta,
            "secure_randomness": secure,
            "explanation": pais("explain", path).stdout.rstrip("\n").split("\n"),
        }


def test_the_demo_compares_four_samplings_and_writes_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = demo.bundled_sample()
    assert whole.rows.shape == (30_000, 54)
    small = Table(rows=whole.rows[::15], names=whole.names)
    monkeypatch.setattr(demo, "bundled_sample", lambda: small)
    result = pais("demo", "--out", tmp_path / "out", "--repeats", 1, "--json")
    assert result.exit_code == 0, result.stderr
    content = strict_json(result.stdout)
    assert [row["sampling"] for row in content["rows"]] == ["constrained", "coreset", "uniform", "none"]
    assert all(row["relative_cost"] > 0.9 for row in content["rows"])
    assert "not private" in content["reference"]["what"]
    assert content["rows"][0]["noise"] == pytest.approx(content["rows"][3]["noise"], rel=1e-3)
    assert left_in(tmp_path / "out") == RELEASE
    shown = pais("demo", "--out", tmp_path / "out", "--repeats", 1, "--seed", 1)
    assert "NOT private" in shown.stdout
    assert "seeded, not private" in shown.stdout


def test_a_release_is_not_overwritten_unless_told_so(data: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out").exit_code == 0
    before = (tmp_path / "out" / "certificate.json").read_bytes()
    refused = kmeans(data, tmp_path / "out", "--epsilon", 2)
    assert refused.exit_code == 2
    assert "--overwrite" in refused.stderr
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
def test_an_interrupted_overwrite_puts_the_earlier_release_back(
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


def test_an_interrupt_in_the_rounds_leaves_nothing_behind(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pais.cli.fit.fit_kmeans", failing(KeyboardInterrupt()))
    result = kmeans(data, tmp_path / "out")
    assert result.exit_code == 130
    assert left_in(tmp_path) == {"rows.parquet"}
    assert "Traceback" not in result.output


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


def test_a_target_or_budget_out_of_reach_exits_with_3(data: Path, surveyed: Path, tmp_path: Path) -> None:
    stated = ("--radius", 10, "--norms", "0,3,5,10", "--n-rows", 1000, "--n-features", 4)
    too_many = ("--sampling", "uniform", "--sample-size", 5000)
    for result in (
        pais("plan", "--n-clusters", 5, "--epsilon", 1, *stated, *too_many),
        kmeans(data, tmp_path / "out", "--survey", surveyed, "--epsilon", 0.05),
    ):
        assert result.exit_code == 3, result.output
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1


def test_errors_never_show_a_value_of_a_row(tmp_path: Path) -> None:
    texts = {
        "headerless.csv": f"{CANARY},2\n3,4\n",
        "text.csv": f"a,b\n{CANARY}x,2\n{CANARY}y,4\n{CANARY}z,6\n",
        "no.parquet": f"{CANARY}",
        "clash.csv": f"a,noisy_count\n{CANARY},2\n3,4\n",
        "twice.csv": f"a,a\n{CANARY},2\n3,4\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        result = kmeans(tmp_path / name, tmp_path / "out")
        assert result.exit_code == 2, (name, result.output)
        assert "8675309" not in result.output, name
        assert not (tmp_path / "out").exists()
    lines = {"missing.csv": f"{CANARY},", "infinite.csv": f"{CANARY},inf", "cell.csv": f"1,{CANARY}x"}
    for name, line in lines.items():
        (tmp_path / name).write_text(f"a,b\n{line}\n3,4\n")
        result = kmeans(tmp_path / name, tmp_path / "out", "--missing", "error")
        assert result.exit_code == 2, (name, result.output)
        assert "2 from the left" in result.stderr
        assert "8675309" not in result.output, name
        assert not (tmp_path / "out").exists()
        for more in ([], ["--drop-missing"], ["--missing", "drop"]):
            result = kmeans(tmp_path / name, tmp_path / f"out-{name}-{len(more)}", *more)
            assert result.exit_code == 0, (name, result.output)
            assert "8675309" not in result.output, name


def test_an_internal_error_shows_its_type_only(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pais.cli.fit.fit_kmeans", failing(ZeroDivisionError(CANARY)))
    result = kmeans(data, tmp_path / "out")
    assert result.exit_code == 1
    assert "internal error: ZeroDivisionError" in result.stderr
    assert CANARY not in result.output


def test_columns_that_are_counted_are_a_header(tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    np.savetxt(data, np.hstack([blobs(), blobs()]), delimiter=",", header="0,1,2,3", comments="")
    assert kmeans(data, tmp_path / "out").exit_code == 0
    # Two columns could be a row of zero and one.
    np.savetxt(data, blobs(), delimiter=",", header="0,1", comments="")
    assert kmeans(data, tmp_path / "other").exit_code == 2


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for terminal in (True, False):
        monkeypatch.setenv("FORCE_COLOR", "1" if terminal else "")
        with show.stages(total=2, quiet=False) as begin:
            begin("read")
            begin("write")
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
    refused = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: ")


def test_numbers_that_promise_little_are_named(tmp_path: Path) -> None:
    stated = ("--radius", 6, "--norms", "0,1,2,6", "--n-rows", 400, "--n-features", 2, "--n-clusters", 2)
    assert pais("plan", *stated, "--epsilon", 1, "--delta", 1e-6).stderr == ""
    said = pais("plan", *stated, "--epsilon", 50, "--delta", 0.5).stderr
    assert "epsilon=50 promises hardly anything" in said
    assert "delta=0.5 is too large for about 400 rows" in said


def test_a_certificate_that_contradicts_itself_is_not_explained(data: Path, tmp_path: Path) -> None:
    assert pais("kmeans", data, "--n-clusters", 2, "--epsilon", 1, "--out", tmp_path / "o").exit_code == 0
    path = tmp_path / "o" / "certificate.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "epsilon": 0.1}))
    assert pais("explain", path).exit_code == 2
