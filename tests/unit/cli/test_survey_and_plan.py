"""`pais survey`, `pais plan` and `pais sample`, and k-means from the files that they write, at the price they state."""

from __future__ import annotations

import itertools
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pais as package
from pais import Survey
from pais._base.numerics import raised
from tests.support.commands import STATED, blobs, certificate, done, kmeans, refused, spent, strict_json

PLANNED = ("--n-clusters", 3, "--epsilon", 2, "--delta", 1e-7, *STATED, "--sampling", "uniform", "--sample-size", 1500)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    done("plan", *PLANNED, "--n-features", 2, "--out", path)
    return path


@pytest.fixture
def plan_of_survey(surveyed: Path, tmp_path: Path) -> Path:
    path = tmp_path / "plan-of-survey.json"
    done("plan", "--survey", surveyed, "--n-clusters", 3, "--epsilon", 1, "--out", path)
    return path


def edited(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# Surveys.


def test_survey_prints_its_facts_and_its_price(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    result = done("survey", data, "--epsilon", 0.2, "--center", "0,0", "--out", path)
    assert result.stdout.startswith(done("explain", path).stdout)
    assert "epsilon 0.2, delta 0" in result.stdout
    assert "█" in result.stdout
    content = strict_json(path.read_text())
    assert content["noisy_rows"] == pytest.approx(4000, rel=0.2)
    assert content["ball"]["center"] == [0.0, 0.0]
    again = Survey.load(path)
    assert again.to_dict()["noisy_mean_square_norm"] == pytest.approx(content["noisy_mean_square_norm"])
    assert strict_json(done("survey", data, "--epsilon", 0.1, "--json").stdout)["kind"] == "survey"
    assert "would hide a survey" in refused("survey", data, "--epsilon", 0.1, "--quiet")


def test_survey_of_too_few_rows_warns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}), tmp_path / "few.parquet")
    result = done("survey", tmp_path / "few.parquet", "--epsilon", 0.01, "--out", tmp_path / "s.json")
    assert "nothing above its noise" in result.stderr
    assert "assumptions" in result.stdout
    assert "█" not in result.stdout
    assert "assumptions" in done("explain", tmp_path / "s.json").stdout


def test_a_seeded_survey_and_a_plan_from_it_need_a_seed(data: Path, tmp_path: Path) -> None:
    survey, plan = tmp_path / "survey.json", tmp_path / "plan.json"
    done("survey", data, "--epsilon", 0.25, "--seed", 1, "--out", survey)
    wanted = ("--n-clusters", 3, "--epsilon", 1, "--survey", survey)
    done("plan", *wanted, "--out", plan)
    for number, way in enumerate([wanted, ("--plan", plan)]):
        out = tmp_path / str(number)
        assert "made with a seed and is not private" in refused("kmeans", data, *way, "--out", out)
        done("kmeans", data, *way, "--seed", 1, "--out", out)
        assert certificate(out)["secure_randomness"] is False
        assert "NOT PRIVATE" in done("explain", out / "certificate.json").stdout


# Plans.


def test_a_plan_needs_no_data_and_explains_itself(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    wanted = ("plan", "--n-clusters", 5, "--epsilon", 1, *STATED, "--n-features", 4, "--out", path)
    shown = done(*wanted).stdout
    assert "6. release    may leave   epsilon 1, delta 1e-06" in shown
    assert "refuted" not in shown
    assert '"no" is not an error' in shown
    content = strict_json(path.read_text())
    assert content["epsilon"] == 1.0
    assert content["explanation"] == shown.rstrip("\n").split("\n")
    assert max(content["by_norm"]["epsilon"]) <= 1.0
    assert "This is a plan" in done("explain", path).stdout
    short = done(*wanted, "--json", "--overwrite").stdout
    assert len(short) < 8000 < 20 * len(short) < len(path.read_text())
    left_out = {name: content[name] for name in ("norms", "explanation", "sample_choice")}
    assert {**strict_json(short), **left_out} == content


def test_a_sample_is_weighted_clipped_and_marked_secret(
    data: Path, surveyed: Path, plan_of_survey: Path, tmp_path: Path
) -> None:
    out = tmp_path / "sample.parquet"
    result = done("sample", data, "--plan", plan_of_survey, "--out", out)
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
    again = done("sample", data, "--plan", plan_of_survey, "--out", out, "--json", "--overwrite")
    assert strict_json(again.stdout)["expected_rows"] > 0


def test_a_seeded_plan_releases_what_the_same_options_release(data: Path, plan: Path, tmp_path: Path) -> None:
    done("kmeans", data, "--plan", plan, "--seed", 4, "--out", tmp_path / "a")
    done("kmeans", data, *PLANNED, "--seed", 4, "--out", tmp_path / "b")
    for name in ("certificate.json", "centers.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


BESIDE: dict[str, object] = {
    **{"--n-clusters": 3, "--epsilon": 2, "--delta": 1e-7, "--radius": 10, "--center": "0,0", "--norms": "0,3,5,10"},
    **{"--n-rows": 4000, "--survey": "survey.json", "--sampling": "constrained", "--sample-size": 10},
    **{"--mechanism": "gaussian", "--algorithm": "refined"},
}


def test_options_that_the_plan_decides_are_refused(plan: Path, tmp_path: Path) -> None:
    """Not even with the same value, or that of the default: there is one place that says it."""
    for option, value in BESIDE.items():
        assert option in refused("kmeans", "missing", "--plan", plan, option, value, "--out", tmp_path / "out")


def test_a_survey_or_plan_without_a_name_is_refused_because_it_could_not_be_charged(
    book: Path, surveyed: Path, plan_of_survey: Path, tmp_path: Path
) -> None:
    spent_parts = json.loads(plan_of_survey.read_text())["spent"]
    unnamed = [{key: part[key] for key in part if key not in ("release", "secure_randomness")} for part in spent_parts]
    edited(plan_of_survey, spent=unnamed)
    ways = ["--plan", plan_of_survey], ["--n-clusters", 3, "--epsilon", 0.5, "--survey", surveyed]
    content = json.loads(surveyed.read_text())
    del content["name"]
    surveyed.write_text(json.dumps(content))
    for way in ways:
        refused("kmeans", "missing", *way, "--ledger", book, "--out", tmp_path / "out")
    refused("plan", *ways[1])
    assert "without a name" in refused("kmeans", "missing", *ways[0], "--out", tmp_path / "out")
    assert spent(book) == 0.0


def test_a_survey_behind_a_plan_is_counted_and_its_columns_are_kept(
    data: Path, book: Path, plan_of_survey: Path, tmp_path: Path
) -> None:
    fit = ("kmeans", data, "--plan", plan_of_survey)
    done(*fit, "--ledger", book, "--out", tmp_path / "a")
    parts = {part["what"]: part["epsilon"] for part in certificate(tmp_path / "a")["parts"]}
    assert parts == pytest.approx({"survey": 0.1, "k-means": 0.9})
    # The survey was not charged when it was made; once it is, it is not charged again.
    assert spent(book) == pytest.approx(1.0)
    done(*fit, "--ledger", book, "--out", tmp_path / "b")
    assert spent(book) == pytest.approx(1.9)
    refused(*fit, "--ledger", book, "--out", tmp_path / "c", code=3)
    for command in (fit, ("sample", data, "--plan", plan_of_survey)):
        assert "plan again: height, width." in refused(*command, "--columns", "width,height", "--out", tmp_path / "d")


def test_a_plan_for_another_number_of_columns_is_refused(data: Path, plan: Path, tmp_path: Path) -> None:
    assert "2 features" in refused("kmeans", data, "--plan", plan, "--columns", "height", "--out", tmp_path / "out")


def test_a_plan_of_another_mechanism_is_refused_before_the_ledger_is_charged(
    book: Path, data: Path, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    noise = package.GaussianNoise(scale=50.0)
    package.Plan(
        ball=package.Ball(radius=3.0),
        rule=package.UniformRule(rate=0.5),
        mechanism=package.WeightedSum(noise=noise),
        epsilon=1.0,
        delta=1e-6,
    ).save(path)
    assert "not for k-means" in refused("kmeans", data, "--plan", path, "--ledger", book, "--out", tmp_path / "out")
    assert spent(book) == 0.0
    # The other commands take it, although it does not say how many rows to expect.
    done("sample", data, "--plan", path, "--out", tmp_path / "sample.parquet")
    assert "5. mechanism  protected   sum" in done("explain", path).stdout


# Files with an invalid price: they are refused before the data are opened, and nothing is charged.

BAD_TEXTS = ["-0.999", "NaN", "1e999", '"0.1"', "null"]


def test_a_survey_file_with_a_bad_price_is_refused(surveyed: Path, book: Path, tmp_path: Path) -> None:
    written = surveyed.read_text()
    assert written.count('"epsilon": 0.1') == 1
    given = ("--survey", surveyed, "--n-clusters", 3, "--epsilon", 1)
    for bad in (*BAD_TEXTS, "0", "-0.0", "1" + "0" * 400):
        surveyed.write_text(written.replace('"epsilon": 0.1', f'"epsilon": {bad}'))
        for arguments in (("plan", *given), ("kmeans", "missing", *given, "--ledger", book, "--out", tmp_path / "out")):
            assert str(surveyed) in refused(*arguments)
    assert spent(book) == 0.0


@pytest.mark.parametrize("field", ["epsilon", "delta"])
def test_a_plan_file_with_a_bad_price_is_refused(field: str, plan_of_survey: Path, book: Path, tmp_path: Path) -> None:
    whole = json.loads(plan_of_survey.read_text())
    survey = {**whole["spent"][0], field: "BAD"}
    for bad, change in itertools.product(BAD_TEXTS, ({"spent": [survey]}, {field: "BAD"})):
        plan_of_survey.write_text(json.dumps({**whole, **change}).replace('"BAD"', bad))
        said = refused("kmeans", "missing", "--ledger", book, "--plan", plan_of_survey, "--out", tmp_path / "out")
        assert str(plan_of_survey) in said
    assert spent(book) == 0.0


# Gaussian surveys: survey and release have one price, which is on the ledger once for each release.

WHOLE = ("survey and k-means", 1.0, 1e-6)


def entries(book: Path) -> list[tuple[str, float, float]]:
    return [(entry.what, entry.epsilon, entry.delta) for entry in package.Ledger(path=book).entries]


@pytest.fixture
def of_fit(tmp_path: Path) -> dict[str, Path]:
    """The survey and the plan of a fit in Python."""
    fit = package.fit(blobs(), package.KMeansSettings(n_clusters=3, epsilon=1.0, delta=1e-6))
    paths = {name: tmp_path / f"{name}.json" for name in ("survey", "plan")}
    assert fit.survey is not None
    fit.survey.save(paths["survey"])
    fit.plan.save(paths["plan"])
    return paths


def test_a_fit_is_one_entry_and_its_certificate_explains_the_survey(data: Path, book: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", "--delta", 1e-6, "--ledger", book)
    assert result.exit_code == 0, result.output
    assert entries(book) == [WHOLE]
    assert "survey and k-means" in result.stdout
    text, found = done("explain", tmp_path / "out" / "certificate.json").stdout, certificate(tmp_path / "out")
    shift, rounds = raised(found["survey_shift"]), raised(found["release_delta"], 3)
    assert f"Survey and release have one price. The survey has the Gaussian shift {shift}." in text
    assert f"The release alone meets the same epsilon at delta {rounds}." in text
    assert "Survey and release have one price together" in (tmp_path / "out" / "report.html").read_text()


def test_surveys_and_plans_with_a_shift_are_explained(of_fit: dict[str, Path]) -> None:
    survey, plan = (done("explain", of_fit[name]).stdout for name in ("survey", "plan"))
    shift = raised(json.loads(of_fit["survey"].read_text())["shift"])
    assert f"Gaussian shift {shift}." in survey
    assert "Every plan made from it counts the shift in its own price." in survey
    assert f"This includes the survey before it, with Gaussian shift {shift}," in plan
    shown = json.loads(done("explain", of_fit["survey"], "--json").stdout)
    assert (shown["kind"], shown["epsilon"], shown["delta"]) == ("survey", None, None)


# Delta, if it is not stated, and weak guarantees.


def facts(n_rows: float) -> tuple[object, ...]:
    return "--radius", 4, "--norms", "0,1,2,4", "--n-rows", n_rows


def test_commands_choose_delta_for_stated_rows(data: Path, tmp_path: Path) -> None:
    book, plan = tmp_path / "book.json", tmp_path / "plan.json"
    done("ledger", book, "--epsilon", 3, "--delta", 2.1e-10)
    wanted = ("--n-clusters", 2, "--epsilon", 1, *facts(1e9))
    done("kmeans", data, *wanted, "--ledger", book, "--out", tmp_path / "a")
    done("plan", *wanted, "--n-features", 2, "--out", plan)
    done("kmeans", data, "--plan", plan, "--ledger", book, "--out", tmp_path / "b")
    for out in ("a", "b"):
        found = certificate(tmp_path / out)
        assert found["delta"] == found["delta_used"] == pytest.approx(1e-10, rel=1e-9)
        assert found["delta_basis"] == "default for the stated number of rows"
    assert package.Ledger(path=book).spent.delta == pytest.approx(2e-10, rel=1e-9)
    # A third does not fit, and the data are not opened for it.
    refused("kmeans", "missing", *wanted, "--ledger", book, "--out", tmp_path / "c", code=3)


def test_commands_warn_about_weak_guarantees_on_stderr(data: Path, tmp_path: Path) -> None:
    survey, plan = tmp_path / "survey.json", tmp_path / "plan.json"
    done("survey", data, "--epsilon", 1, "--out", survey)
    weak = ("--n-clusters", 2, "--epsilon", 20, "--delta", 1e-3)
    texts = [done("plan", *weak, *facts(4000), "--n-features", 2, "--out", plan).stderr]
    for number, options in enumerate([("--plan", plan), (*weak, *facts(4000)), weak, (*weak, "--survey", survey)]):
        texts.append(done("kmeans", data, *options, "--out", tmp_path / str(number)).stderr)
    for said in texts:
        assert "epsilon=20 is a weak guarantee" in said
        assert "delta=0.001 is too large for about" in said
    # Each process makes one fit, so there is no warning about a second fit.
    said = done("kmeans", data, "--n-clusters", 2, "--epsilon", 1, "--out", tmp_path / "fine").stderr
    # The two centers may differ in one feature alone, which is another warning.
    assert [line for line in said.splitlines() if "noise drowns" not in line] == []
