"""`pais survey`, `pais plan` and `pais sample`, and k-means from the files that they write, at the price they state."""

from __future__ import annotations

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
from tests.unit.cli.commands import STATED, blobs, certificate, done, kmeans, refused, spent, strict_json
from tests.unit.delta_cases import SURVEYED, facts

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


def test_an_earlier_survey_is_counted_in_epsilon(data: Path, surveyed: Path, tmp_path: Path) -> None:
    assert kmeans(data, tmp_path / "out", "--survey", surveyed).exit_code == 0
    found = certificate(tmp_path / "out")
    parts = {part["what"]: part["epsilon"] for part in found["parts"]}
    assert parts == pytest.approx({"survey": 0.1, "k-means": 0.9})
    assert found["epsilon"] <= 1.0 + 1e-12
    ball, surveyed_ball = found["ball"], strict_json(surveyed.read_text())["ball"]
    assert ball["center"] == surveyed_ball["center"]
    assert ball["radius"] <= surveyed_ball["radius"]


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


def test_a_sample_size_above_the_number_of_rows_is_that_of_all_rows() -> None:
    wanted = ("--n-clusters", 5, "--epsilon", 1, *STATED, "--n-features", 4)
    result = done("plan", *wanted, "--sampling", "uniform", "--sample-size", 5000)
    assert "about 4,000 rows expected" in result.stdout


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


def test_the_plan_of_the_file_is_run(data: Path, plan: Path, tmp_path: Path) -> None:
    content = json.loads(done("kmeans", data, "--plan", plan, "--out", tmp_path / "out", "--json").stdout)
    assert content["expected_rows"] == pytest.approx(1500)
    found, written = certificate(tmp_path / "out"), json.loads(plan.read_text())
    for name in ("epsilon", "delta", "mechanism", "rule", "ball"):
        assert found[name] == (pytest.approx(written[name]) if name == "epsilon" else written[name]), name


def test_a_seeded_plan_releases_what_the_same_options_release(data: Path, plan: Path, tmp_path: Path) -> None:
    done("kmeans", data, "--plan", plan, "--seed", 4, "--out", tmp_path / "a")
    done("kmeans", data, *PLANNED, "--seed", 4, "--out", tmp_path / "b")
    for name in ("certificate.json", "centers.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    "beside",
    [
        ("--n-clusters", 3),
        ("--epsilon", 2),
        ("--delta", 1e-7),
        ("--radius", 10),
        ("--center", "0,0"),
        ("--norms", "0,3,5,10"),
        ("--n-rows", 4000),
        ("--survey", "survey.json"),
        ("--sampling", "constrained"),
        ("--sample-size", 10),
        ("--mechanism", "gaussian"),
        ("--algorithm", "refined"),
    ],
    ids=lambda beside: beside[0],
)
def test_options_that_the_plan_decides_are_refused(beside: tuple[str, object], plan: Path, tmp_path: Path) -> None:
    """Not even with the same value, or that of the default: there is one place that says it."""
    assert beside[0] in refused("kmeans", "missing", "--plan", plan, *beside, "--out", tmp_path / "out")


def test_a_plan_that_was_edited_is_not_run(plan: Path, tmp_path: Path) -> None:
    written = json.loads(plan.read_text())
    survey = {"what": "survey", "epsilon": 0.1, "delta": 0.0, "secure_randomness": True}
    edits: list[tuple[dict[str, Any], str]] = [
        ({"epsilon": 0.5}, "cannot be used as a plan"),
        ({"spent": [survey]}, "cannot be used as a plan"),
        ({"mechanism": {**written["mechanism"], "n_clusters": 4}}, "cannot be used as a plan"),
        ({"rule": {"rule": "uniform", "probability": 1.0, "radius": "infinity"}}, "cannot be used as a plan"),
        ({"spent": [{**survey, "epsilon": -1.0}]}, "epsilon=-1.0 is out of range"),
        ({"spent": [survey, survey]}, "Plan again"),
    ]
    for edit, message in edits:
        plan.write_text(json.dumps({**written, **edit}))
        assert message in refused("kmeans", "missing", "--plan", plan, "--out", tmp_path / "out"), edit


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

BAD_TEXTS = ["-0.999", "NaN", "1e999", "-1e999", "1e7", '"0.1"', "true", "null", "[0.1]"]


@pytest.mark.parametrize("bad", [*BAD_TEXTS, "0", "-0.0", "1" + "0" * 400])
def test_a_survey_file_with_a_bad_price_is_refused(bad: str, surveyed: Path, book: Path, tmp_path: Path) -> None:
    written = surveyed.read_text()
    assert written.count('"epsilon": 0.1') == 1
    surveyed.write_text(written.replace('"epsilon": 0.1', f'"epsilon": {bad}'))
    given = ("--survey", surveyed, "--n-clusters", 3, "--epsilon", 1)
    for arguments in (("plan", *given), ("kmeans", "missing", *given, "--ledger", book, "--out", tmp_path / "out")):
        assert str(surveyed) in refused(*arguments)
    assert spent(book) == 0.0


@pytest.mark.parametrize("field", ["epsilon", "delta"])
@pytest.mark.parametrize("bad", BAD_TEXTS)
def test_a_plan_file_with_a_bad_price_is_refused(
    field: str, bad: str, plan_of_survey: Path, book: Path, tmp_path: Path
) -> None:
    whole = json.loads(plan_of_survey.read_text())
    survey = {**whole["spent"][0], field: "BAD"}
    for change in ({"spent": [survey]}, {field: "BAD"}):
        plan_of_survey.write_text(json.dumps({**whole, **change}).replace('"BAD"', bad))
        for command in (("kmeans", "missing", "--ledger", book), ("sample", "missing")):
            said = refused(*command, "--plan", plan_of_survey, "--out", tmp_path / "out")
            assert str(plan_of_survey) in said
    assert spent(book) == 0.0


@pytest.mark.parametrize("change", [{"secure_randomness": "yes"}, {"secure_randomness": 1}, {"above_noise": None}])
def test_survey_file_flags_must_be_booleans(change: dict[str, Any], surveyed: Path) -> None:
    edited(surveyed, **change)
    assert "must be True or False" in refused("plan", "--survey", surveyed, "--n-clusters", 3, "--epsilon", 1)


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


def test_plan_and_survey_of_a_fit_cost_the_joint_price_again(
    data: Path, book: Path, of_fit: dict[str, Path], tmp_path: Path
) -> None:
    settings = ("--n-clusters", 3, "--epsilon", 1, "--delta", 1e-6, "--survey", of_fit["survey"])
    for number, way in enumerate([("--plan", of_fit["plan"]), settings]):
        out = tmp_path / f"out{number}"
        done("kmeans", data, *way, "--out", out, "--ledger", book)
        assert certificate(out)["survey_shift"] == json.loads(of_fit["survey"].read_text())["shift"]
        assert certificate(out)["release_delta"] < 0.8e-6
        assert entries(book) == [WHOLE] * (number + 1)


def test_surveys_and_plans_with_a_shift_are_explained(of_fit: dict[str, Path]) -> None:
    survey, plan = (done("explain", of_fit[name]).stdout for name in ("survey", "plan"))
    shift = raised(json.loads(of_fit["survey"].read_text())["shift"])
    assert f"Gaussian shift {shift}." in survey
    assert "Every plan made from it counts the shift in its own price." in survey
    assert f"This includes the survey before it, with Gaussian shift {shift}," in plan
    shown = json.loads(done("explain", of_fit["survey"], "--json").stdout)
    assert (shown["kind"], shown["epsilon"], shown["delta"]) == ("survey", None, None)


def test_a_survey_with_a_shift_is_not_for_pure_noise_nor_seeded_for_a_release(
    of_fit: dict[str, Path], tmp_path: Path
) -> None:
    wanted = ("kmeans", "missing", "--n-clusters", 3, "--epsilon", 1, "--survey", of_fit["survey"])
    assert "Gaussian noise" in refused(*wanted, "--mechanism", "l2", "--out", tmp_path / "out")
    edited(of_fit["survey"], secure_randomness=False, note="seeded, not private")
    assert "made with a seed" in refused(*wanted, "--out", tmp_path / "out")


# Delta, if it is not stated, and weak guarantees.


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


def test_commands_certify_the_largest_default_for_surveyed_rows(data: Path, tmp_path: Path) -> None:
    book, plan, survey = tmp_path / "book.json", tmp_path / "plan.json", tmp_path / "survey.json"
    done("ledger", book, "--epsilon", 20, "--delta", 3e-6)
    done("survey", data, "--epsilon", 1, "--ledger", book, "--out", survey)
    content = json.loads(survey.read_text())
    # As if very many rows had been surveyed.
    edited(survey, norms={**content["norms"], "masses": [1e6 * mass for mass in content["norms"]["masses"]]})
    wanted = ("--n-clusters", 2, "--epsilon", 3)
    done("plan", *wanted, "--survey", survey, "--out", plan)
    for name, options in {"a": (*wanted, "--survey", survey), "b": ("--plan", plan), "c": wanted}.items():
        done("kmeans", data, *options, "--ledger", book, "--out", tmp_path / name)
        found = certificate(tmp_path / name)
        assert found["delta"] == 1e-6
        assert found["delta_basis"] == SURVEYED
        assert (found["delta_used"] < 1e-8) is (name != "c")
        assert "over all tables delta is at most 1e-06" in done("explain", tmp_path / name / "certificate.json").stdout
    assert package.Ledger(path=book).spent.delta == 3e-6
    assert "over all tables delta is at most 1e-06" in done("explain", plan).stdout
    shown = json.loads(plan.read_text())
    assert shown["delta"] == 1e-6
    assert shown["delta_used"] < 1e-8


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
