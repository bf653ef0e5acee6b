"""`pais kmeans`: what it releases from stated or surveyed facts, what it writes and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from pais import Plan, Schema, Survey
from pais.accounting.certificate import Certificate
from pais.cli import demo
from pais.data.tables import Table
from pais.show.page import today
from tests.conformance.schema_rows import people
from tests.support.commands import (
    FACTS,
    RELEASE,
    SCHEMA,
    STATED,
    certificate,
    done,
    kmeans,
    left_in,
    pais,
    strict_json,
    write_blobs,
)


def test_kmeans_writes_centers_certificate_and_report_and_prints_a_summary(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    result = kmeans(data, out, "--data-name", "Customers <b>", "--owner", "Office")
    assert (result.exit_code, result.stderr) == (0, "")
    assert left_in(out) == RELEASE
    assert left_in(tmp_path) == {"rows.parquet", "new"}
    centers, again = pq.read_table(out / "centers.parquet"), pa_csv.read_csv(out / "centers.csv")
    assert centers.column_names == ["height", "width", "noisy_count"]
    assert centers.num_rows == 3
    for name in centers.column_names:
        assert again[name].to_pylist() == centers[name].to_pylist()
    for text in ("epsilon 1, delta 1e-06", "secure randomness", "height, width", "noisy count", "share of rows"):
        assert text in result.stdout
    assert result.stdout.count("of rows: ") == 3
    page = (out / "report.html").read_text()
    for text in ("width", "<dd>Customers &lt;b&gt;</dd>", "<dd>Office</dd>", f"<dd>{today()}</dd>"):
        assert text in page


def test_wide_centers_are_left_to_the_file(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(500, 70))
    pq.write_table(pa.table({f"x{number}": column for number, column in enumerate(rows.T)}), tmp_path / "wide.parquet")
    shown = kmeans(tmp_path / "wide.parquet", tmp_path / "out").stdout
    assert "3 centers of 70 features: see" in " ".join(shown.split())


def test_json_is_alone_on_stdout_and_holds_the_certificate(data: Path, tmp_path: Path) -> None:
    released = kmeans(data, tmp_path / "out", "--json", "--seed", 1)
    content = strict_json(released.stdout)
    names = {"certificate", "columns", "effective_centers", "expected_rows", "files", "predicted_quality"}
    assert set(content) == names
    assert content["columns"] == ["height", "width"]
    assert 0 < content["expected_rows"] < 6000
    assert content["effective_centers"] == 3
    assert 1.0 < content["predicted_quality"]["predicted_cost_over_best"] < 2.0
    assert set(content["files"]) == RELEASE
    assert "NOT PRIVATE" in released.stderr
    found = certificate(tmp_path / "out")
    assert content["certificate"] == found
    assert [part["what"] for part in found["parts"]] == ["survey and k-means"]
    assert sum(part["epsilon"] for part in found["parts"]) == pytest.approx(found["epsilon"]) == 1.0


def test_quiet_prints_nothing_on_stdout(data: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", "--quiet")
    assert (result.exit_code, result.stdout) == (0, "")


def test_stated_facts_cost_nothing(data: Path, tmp_path: Path) -> None:
    center = tmp_path / "center.txt"
    center.write_text("0, 0\n")
    assert kmeans(data, tmp_path / "out", *STATED, "--center", center).exit_code == 0
    found = certificate(tmp_path / "out")
    assert [part["what"] for part in found["parts"]] == ["k-means"]
    assert found["ball"] == {"radius": 10.0, "order": 2.0, "center": [0.0, 0.0]}


def test_too_few_rows_leave_the_number_unknown(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}), tmp_path / "few.parquet")
    result = kmeans(tmp_path / "few.parquet", tmp_path / "out", "--epsilon", 0.01)
    assert "nothing above its noise" in result.stderr
    assert "unknown" in result.stdout


def test_auto_chooses_the_number_of_clusters_and_a_plan_leaves_it_open(tmp_path: Path) -> None:
    data, plan = write_blobs(tmp_path / "rows.parquet", 20_000), tmp_path / "plan.json"
    auto = ("--n-clusters", "auto", "--max-clusters", 8, "--epsilon", 1)
    done("kmeans", data, *auto, "--seed", 1, "--out", tmp_path / "a")
    assert pq.read_table(tmp_path / "a" / "centers.parquet").num_rows == 3
    explained = done("explain", tmp_path / "a" / "certificate.json", "--values", tmp_path / "a" / "centers.csv")
    assert "up to 8 clusters" in explained.output
    planned = done("plan", "--n-clusters", "auto", "--epsilon", 1, *STATED, "--n-features", 2, "--out", plan)
    assert "up to 20 centers" in planned.output
    done("kmeans", data, "--plan", plan, "--seed", 1, "--out", tmp_path / "b")
    assert np.isfinite(pq.read_table(tmp_path / "b" / "centers.parquet")["height"].to_numpy()).all()
    other = pais("kmeans", data, "--n-clusters", "some", "--epsilon", 1, "--out", tmp_path / "c")
    assert other.exit_code == 2
    assert "auto" in other.stderr
    assert "integer" in other.stderr


@pytest.fixture
def table(tmp_path: Path) -> Path:
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_centers_are_in_own_units(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "look like ids" not in kmeans(table, out, "--epsilon", 3, "--seed", 1, "--columns", FACTS).output
    centers = pq.read_table(out / "centers.parquet")
    assert centers.column_names == [*SCHEMA.labels, "noisy_count"]
    assert all(18 <= age <= 100 for age in centers.column("age").to_pylist())
    assert pa.types.is_timestamp(centers.schema.field("joined").type)
    assert pa_csv.read_csv(out / "centers.csv").column_names == centers.column_names
    assert Certificate.load(out / "certificate.json").schema == SCHEMA.to_dict()
    assert Schema.from_dict(json.loads((out / "model.json").read_text())["schema"]) == SCHEMA
    for name in ("centers.csv", "centers.parquet"):
        done("explain", out / "certificate.json", "--values", out / name)
    text = (out / "centers.csv").read_text()
    (out / "centers.csv").write_text(text.replace("1", "2", 1))
    assert "different centers" in pais("explain", out / "certificate.json", "--values", out / "centers.csv").output


def test_survey_plan_sample_and_release_share_the_schema(table: Path, tmp_path: Path) -> None:
    survey, plan, sample = (tmp_path / name for name in ("survey.json", "plan.json", "sample.parquet"))
    done("survey", table, "--epsilon", 1, "--columns", FACTS, "--seed", 1, "--out", survey)
    assert Survey.load(survey).schema == SCHEMA
    settings = ("--n-clusters", 3, "--epsilon", 3, "--survey", survey)
    done("plan", *settings, "--out", plan)
    assert Plan.load(plan).schema == SCHEMA
    done("sample", table, "--plan", plan, "--seed", 2, "--out", sample, "--carry", "note")
    rows = pq.read_table(sample)
    assert rows.column_names == [*SCHEMA.labels, "weight", "note"]
    assert max(rows.column("age").to_pylist()) > 30
    for number, options in enumerate([("--plan", plan), ("--plan", plan, "--columns", FACTS), settings]):
        done("kmeans", table, *options, "--seed", 2, "--out", tmp_path / f"out{number}")
    result = pais("kmeans", table, "--plan", plan, "--columns", "age=0:100", "--seed", 2, "--out", tmp_path / "other")
    assert "another schema" in result.output


@pytest.fixture
def units(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    who = rng.integers(0, 400, 2400)
    frame = pd.DataFrame(rng.normal(size=(2400, 2)), columns=["x", "y"]).assign(who=[f"p{number}" for number in who])
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def test_survey_plan_kmeans_and_sample_share_the_unit(units: Path, tmp_path: Path) -> None:
    survey, plan, sample = (tmp_path / name for name in ("survey.json", "plan.json", "sample.parquet"))
    unit = ("--unit", "who", "--max-rows-per-unit", 3)
    result = done("survey", units, "--epsilon", 0.5, *unit, "--out", survey)
    for text in ("one who added or removed", "counting at most 3 of each who"):
        assert text in result.stdout
    assert "one who" in done("explain", survey).stdout
    done("plan", "--survey", survey, "--n-clusters", 2, "--epsilon", 1, "--out", plan)
    assert json.loads(plan.read_text())["unit"] == {"column": "who", "max_rows": 3}
    assert "people expected" in done("explain", plan).stdout
    done("kmeans", units, "--plan", plan, *unit, "--out", tmp_path / "out")
    result = done("sample", units, "--plan", plan, *unit, "--carry", "who", "--out", sample)
    assert "people expected" in result.stdout
    kept, rows = pq.read_table(sample).to_pandas(), pd.read_parquet(units)
    assert kept.groupby("who").size().equals(rows[rows["who"].isin(kept["who"])].groupby("who").size())


@pytest.mark.slow
def test_the_demo_compares_four_samplings_and_writes_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = demo.bundled_sample()
    assert whole.rows.shape == (30_000, 54)
    small = Table(rows=whole.rows[::15], names=whole.names)
    monkeypatch.setattr(demo, "bundled_sample", lambda: small)
    content = strict_json(done("demo", "--out", tmp_path / "out", "--repeats", 1, "--json").stdout)
    assert [row["sampling"] for row in content["rows"]] == ["constrained", "coreset", "uniform", "none"]
    assert all(row["relative_cost"] > 0.9 for row in content["rows"])
    assert "not private" in content["reference"]["what"]
    constrained, _, uniform, all_rows = (row["noise"] for row in content["rows"])
    assert all_rows < constrained < uniform
    assert left_in(tmp_path / "out") == RELEASE
    shown = done("demo", "--out", tmp_path / "out", "--repeats", 1, "--seed", 1)
    assert "NOT private" in shown.stdout
    assert "seeded, not private" in shown.stdout
