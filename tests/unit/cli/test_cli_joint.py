"""The command line with a Gaussian survey: one price, on the ledger once for each release, and explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pais as package
from pais._base.numerics import raised
from tests.unit.cli.commands import blobs, kmeans, pais

WHOLE = ("survey and k-means", 1.0, 1e-6)


def entries(book: Path) -> list[tuple[str, float, float]]:
    return [(entry.what, entry.epsilon, entry.delta) for entry in package.Ledger(path=book).entries]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    package.Ledger(epsilon=5.0, delta=1e-5, path=tmp_path / "book.json")
    return tmp_path / "book.json"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The survey and the plan of a fit in Python."""
    fit = package.fit(blobs(), package.KMeansSettings(n_clusters=3, epsilon=1.0, delta=1e-6))
    paths = {name: tmp_path / f"{name}.json" for name in ("survey", "plan")}
    assert fit.survey is not None
    fit.survey.save(paths["survey"])
    fit.plan.save(paths["plan"])
    return paths


def certificate(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "certificate.json").read_text())
    return content


def test_a_fit_is_one_entry_and_its_certificate_explains_the_survey(data: Path, book: Path, tmp_path: Path) -> None:
    result = kmeans(data, tmp_path / "out", "--delta", 1e-6, "--ledger", book)
    assert result.exit_code == 0, result.output
    assert entries(book) == [WHOLE]
    assert "survey and k-means" in result.stdout
    text = pais("explain", tmp_path / "out" / "certificate.json").stdout
    released = certificate(tmp_path / "out")
    shift, rounds = raised(released["survey_shift"]), raised(released["release_delta"], 3)
    assert f"Survey and release have one price. The survey has the Gaussian shift {shift}." in text
    assert f"The release alone meets the same epsilon at delta {rounds}." in text
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Survey and release have one price together" in page


def test_plan_and_survey_of_a_fit_cost_the_joint_price_again(
    data: Path, book: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    ways = (
        ("--plan", files["plan"]),
        ("--n-clusters", 3, "--epsilon", 1, "--delta", 1e-6, "--survey", files["survey"]),
    )
    for number, way in enumerate(ways):
        out = tmp_path / f"out{number}"
        result = pais("kmeans", data, *way, "--out", out, "--ledger", book)
        assert result.exit_code == 0, result.output
        assert certificate(out)["survey_shift"] == json.loads(files["survey"].read_text())["shift"]
        assert certificate(out)["release_delta"] < 0.8e-6
        assert entries(book) == [WHOLE] * (number + 1)


def test_surveys_and_plans_with_a_shift_are_explained(files: dict[str, Path]) -> None:
    survey, plan = (pais("explain", files[name]).stdout for name in ("survey", "plan"))
    shift = raised(json.loads(files["survey"].read_text())["shift"])
    assert f"Gaussian shift {shift}." in survey
    assert "Every plan made from it counts the shift in its own price." in survey
    assert f"This includes the survey before it, with Gaussian shift {shift}," in plan
    shown = json.loads(pais("explain", files["survey"], "--json").stdout)
    assert (shown["kind"], shown["epsilon"], shown["delta"]) == ("survey", None, None)


def test_a_seeded_survey_with_a_shift_needs_a_seed(data: Path, files: dict[str, Path], tmp_path: Path) -> None:
    content = json.loads(files["survey"].read_text())
    content |= {"secure_randomness": False, "note": "seeded, not private"}
    files["survey"].write_text(json.dumps(content))
    refused = kmeans(data, tmp_path / "out", "--survey", files["survey"])
    assert refused.exit_code == 2
    assert "made with a seed" in refused.stderr


def test_pure_mechanisms_refuse_a_survey_with_a_shift(data: Path, files: dict[str, Path], tmp_path: Path) -> None:
    refused = kmeans(data, tmp_path / "out", "--survey", files["survey"], "--mechanism", "l2")
    assert refused.exit_code == 2
    assert "Gaussian noise" in refused.stderr
