"""The command line: every command, what it writes and what it prints."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from pais import Survey
from pais.cli import demo
from pais.data.tables import Table
from pais.show.page import today
from tests.unit.cli.commands import RELEASE, blobs, kmeans, left_in, pais, strict_json

CERTIFICATE_KEYS = {
    "kind",
    "format",
    "epsilon",
    "delta",
    "delta_used",
    "epsilon_if_kept",
    "max_epsilon_if_kept",
    "values_sha256",
    "ledger_entries",
    "about",
    "survey_shift",
    "release_delta",
    "delta_basis",
    "parts",
    "neighbours",
    "unit",
    "schema",
    "note",
    "secure_randomness",
    "mechanism",
    "rule",
    "ball",
    "version",
}


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


def test_kmeans_writes_data_name_and_owner_on_the_report(data: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", "--data-name", "Customers <b>", "--owner", "Office")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<dd>Customers &lt;b&gt;</dd>" in page
    assert "<dd>Office</dd>" in page
    assert f"<dd>{today()}</dd>" in page


def test_certificates_hold_the_expected_entries_and_add_up(data: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out").exit_code == 0
    certificate = strict_json((tmp_path / "out" / "certificate.json").read_text())
    assert set(certificate) == CERTIFICATE_KEYS
    assert [part["what"] for part in certificate["parts"]] == ["survey and k-means"]
    assert sum(part["epsilon"] for part in certificate["parts"]) == pytest.approx(1.0)
    assert certificate["epsilon"] <= 1.0
    assert certificate["secure_randomness"] is True


def test_json_is_alone_on_stdout_and_parses(data: Path, surveyed: Path, tmp_path: Path) -> None:
    released = kmeans(data, tmp_path / "out", "--json", "--seed", 1)
    content = strict_json(released.stdout)
    assert set(content) == {
        "certificate",
        "columns",
        "effective_centers",
        "expected_rows",
        "files",
        "predicted_quality",
    }
    assert content["columns"] == ["height", "width"]
    assert 0 < content["expected_rows"] < 6000
    assert content["effective_centers"] == 3
    assert 1.0 < content["predicted_quality"]["predicted_cost_over_best"] < 2.0
    assert set(content["certificate"]) == CERTIFICATE_KEYS
    assert content["certificate"] == strict_json((tmp_path / "out" / "certificate.json").read_text())
    assert set(content["files"]) == RELEASE
    assert "NOT PRIVATE" in released.stderr
    assert strict_json(pais("survey", data, "--epsilon", 0.1, "--json").stdout)["kind"] == "survey"
    plan = tmp_path / "plan.json"
    planned = pais("plan", "--survey", surveyed, "--n-clusters", 3, "--epsilon", 1, "--json", "--out", plan)
    shown, written = strict_json(planned.stdout), strict_json(plan.read_text())
    assert {**shown, **{name: written[name] for name in ("norms", "explanation", "sample_choice")}} == written
    drawn = pais("sample", data, "--plan", plan, "--out", tmp_path / "sample.parquet", "--json")
    assert strict_json(drawn.stdout)["expected_rows"] > 0


def test_quiet_prints_nothing_on_stdout(data: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", "--quiet")
    assert (result.exit_code, result.stdout) == (0, "")
    wasted = pais("survey", data, "--epsilon", 0.1, "--quiet")
    assert wasted.exit_code == 2
    assert "would hide a survey" in wasted.stderr


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
    ball, surveyed_ball = certificate["ball"], strict_json(surveyed.read_text())["ball"]
    assert ball["center"] == surveyed_ball["center"]
    assert ball["radius"] <= surveyed_ball["radius"]


def test_seeded_survey_needs_a_seed(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "survey.json"
    assert pais("survey", data, "--epsilon", 0.1, "--seed", 1, "--out", path).exit_code == 0
    refused = kmeans(data, tmp_path / "out", "--survey", path)
    assert refused.exit_code == 2
    assert "not private" in refused.stderr
    assert kmeans(data, tmp_path / "out", "--survey", path, "--seed", 1).exit_code == 0
    assert "NOT PRIVATE" in pais("explain", tmp_path / "out" / "certificate.json").stdout


def test_survey_prints_its_facts_and_its_price(data: Path, tmp_path: Path) -> None:
    result = pais("survey", data, "--epsilon", 0.2, "--center", "0,0", "--out", tmp_path / "s.json")
    assert result.exit_code == 0, result.stderr
    assert "spent epsilon 0.2" in result.stdout
    assert "█" in result.stdout
    content = strict_json((tmp_path / "s.json").read_text())
    assert content["noisy_rows"] == pytest.approx(4000, rel=0.2)
    assert content["ball"]["center"] == [0.0, 0.0]
    again = Survey.load(tmp_path / "s.json")
    assert again.to_dict()["noisy_mean_square_norm"] == pytest.approx(content["noisy_mean_square_norm"])


def test_survey_of_too_few_rows_warns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}), tmp_path / "few.parquet")
    result = pais("survey", tmp_path / "few.parquet", "--epsilon", 0.01, "--out", tmp_path / "s.json")
    assert result.exit_code == 0, result.stderr
    assert "nothing above its noise" in result.stderr
    assert "unknown" in result.stdout
    assert "█" not in result.stdout
    assert "assumptions" in pais("explain", tmp_path / "s.json").stdout
    assert "unknown" in kmeans(tmp_path / "few.parquet", tmp_path / "out", "--epsilon", 0.01).stdout


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
    assert '"no" is not an error' in result.stdout


def test_a_plan_in_json_is_short_and_the_file_holds_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    stated = ("--radius", 10, "--norms", "0,3,5,10", "--n-rows", 1e5, "--n-features", 4)
    shown = pais("plan", "--n-clusters", 5, "--epsilon", 1, *stated, "--json", "--out", path).stdout
    assert len(shown) < 8000 < 20 * len(shown) < len(path.read_text())
    content = strict_json(shown)
    assert content["mechanism"]["n_clusters"] == 5
    assert content["expected_rows"] > 0


def test_sample_is_weighted_clipped_and_marked_secret(data: Path, surveyed: Path, tmp_path: Path) -> None:
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
    assert "a person with k rows" in words
    assert "This is a survey" in pais("explain", surveyed).stdout
    for text in ("{}", "[1]", "not json", '{"parts": 3}', '{"kind": "plan"}'):
        (tmp_path / "bad.json").write_text(text)
        result = pais("explain", tmp_path / "bad.json")
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert pais("explain", "--json", tmp_path / "bad.json").exit_code == 2
    assert pais("explain", tmp_path / "missing.json").exit_code == 2


def test_explain_as_json(data: Path, surveyed: Path, tmp_path: Path) -> None:
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


@pytest.mark.slow
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
    constrained, _, uniform, all_rows = (row["noise"] for row in content["rows"])
    assert all_rows < constrained < uniform
    assert left_in(tmp_path / "out") == RELEASE
    shown = pais("demo", "--out", tmp_path / "out", "--repeats", 1, "--seed", 1)
    assert "NOT private" in shown.stdout
    assert "seeded, not private" in shown.stdout
