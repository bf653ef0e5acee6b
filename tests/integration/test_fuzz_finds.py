"""Regression tests for faults found by fuzzing: internal errors, and costs one bit above a target."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pais
from pais._base.files import read_json
from pais.accounting.part import Part
from pais.cli import commands, files, show
from pais.errors import ArgumentError
from pais.privacy.certify import CERTIFIED_TOLERANCE

HUGE = 10**400
NORMS = {"radius": 2.0, "norms": [1.0, 2.0], "masses": [5.0, 5.0]}
BALL = {"radius": 2.0, "order": 2.0, "center": None}
SURVEY = {**pais.survey(np.zeros((9, 2)), epsilon=1.0, random_state=0).to_dict(), "ball": BALL, "norms": NORMS}


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_deeply_nested_json_and_huge_numbers_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ArgumentError, match="not a JSON object"):
        read_json(written(tmp_path / "file.json", text))


@pytest.mark.parametrize(
    "change", [{"epsilon": HUGE}, {"norms": {**NORMS, "norms": [HUGE]}}, {"norms": {**NORMS, "masses": [HUGE]}}]
)
def test_a_survey_with_an_integer_beyond_any_float_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    right = {**SURVEY, "above_noise": True}
    pais.Survey.load(written(tmp_path / "right.json", right))
    with pytest.raises(ArgumentError, match="survey"):
        pais.Survey.load(written(tmp_path / "survey.json", {**right, **change}))


def test_a_plan_with_an_integer_beyond_any_float_is_refused(tmp_path: Path) -> None:
    norms = pais.NormDistribution.from_dict(NORMS)
    plan = pais.plan_kmeans(n_clusters=2, n_features=2, epsilon=1.0, ball=pais.Ball.from_dict(BALL), norms=norms)
    right = plan.to_dict()
    pais.Plan.load(written(tmp_path / "right.json", right))
    with pytest.raises(ArgumentError, match="plan"):
        pais.Plan.load(written(tmp_path / "plan.json", {**right, "norms": {**NORMS, "norms": [HUGE, 1.0]}}))


def test_names_too_long_for_a_file_are_refused() -> None:
    path = Path("a" * 5000)
    with pytest.raises(ArgumentError, match="cannot be written"):
        files.require_free([path], overwrite=False)
    with pytest.raises(ArgumentError, match="no ledger"), commands.paying(path, pais.Part(what="fit", epsilon=1.0)):
        pass
    with pytest.raises(ArgumentError, match="cannot be the path"):
        pais.Ledger(epsilon=1.0, path=path)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-18, 1e50])
def test_survey_with_integer_overflow_is_refused(epsilon: float) -> None:
    with pytest.raises(ArgumentError, match="out of range"):
        pais.survey(np.ones((20, 2)), epsilon=epsilon, random_state=1)


@pytest.mark.parametrize("sampling", ["none", "constrained"])
def test_plan_with_infinite_epsilon_is_refused(sampling: Any) -> None:
    with pytest.raises(pais.PaisError):
        pais.plan_kmeans(
            n_clusters=2,
            n_features=2,
            epsilon=1e300,
            delta=1e-6,
            ball=pais.Ball(radius=6.0),
            norms=pais.NormDistribution.from_histogram([0.0, 3.0, 6.0], [200.0, 200.0]),
            sampling=sampling,
        )


def test_more_rows_than_a_float_can_count_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"sum in \(0, 1e100\]"):
        pais.NormDistribution(norms=np.array([1.0, 2.0]), masses=np.array([1e308, 1e308]), radius=2.0)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are letters elsewhere")
def test_undecodable_file_name_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "[bold]\udcff.json"
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", out)
    show.ledger(pais.Ledger(epsilon=1.0, path=path))
    out.seek(0)
    assert "[bold]\\udcff.json" in "".join(out.read().split())


def test_a_rule_of_a_billion_knots_is_refused_and_counts_with_its_price_in_a_ledger(tmp_path: Path) -> None:
    profile = pais.LinearProfile(0.02, 0.2)
    for rule in (
        lambda: pais.ConstrainedRule(profile=profile, radius=1.0, epsilon=1.0, n_knots=10**9),
        lambda: pais.FunctionRule(function=lambda norm: norm, radius=1.0, n_knots=10**9),
    ):
        with pytest.raises(ArgumentError, match="n_knots"):
            rule()
    ledger = pais.Ledger(epsilon=9.0, path=tmp_path / "budget.json")
    rule = pais.ConstrainedRule(profile=profile, radius=1.0, epsilon=1.0, n_knots=77)
    part = Part(what="sum", epsilon=1.0, rule=rule, profile=profile, ball=pais.Ball(radius=1.0))
    ledger.spend(what="sum", epsilon=1.0, parts=[part])
    ledger.path.write_text(ledger.path.read_text().replace(": 77", f": {10**9}"))
    assert pais.Ledger(path=ledger.path).record_losses(np.zeros((2, 1))).tolist() == pytest.approx([1.0, 1.0])


def test_a_coreset_of_norms_that_are_all_zero_is_refused() -> None:
    nothing = pais.NormDistribution.from_quantiles(lambda level: 0.0 * level, n_rows=10, radius=6.0)
    for size in (None, 5.0):
        with pytest.raises(ArgumentError, match=r"all 0|mean_square_norm=0"):
            pais.plan_kmeans(
                n_clusters=2,
                n_features=2,
                epsilon=1.0,
                delta=1e-6,
                ball=pais.Ball(radius=6.0),
                norms=nothing,
                sampling="coreset",
                sample_size=size,
            )


def test_audit_accepts_a_huge_time_limit() -> None:
    pair = pais.NeighbourPair(with_record=[[1.0]], without_record=np.empty((0, 1)))
    found = pais.audit(lambda rows, generator: 0.0, pair=pair, epsilon=1.0, runs=10, seconds=1e308, random_state=0)
    assert found.runs == 5


def test_calibrated_release_costs_at_most_its_target() -> None:
    """Of this rule the logarithms of delta were equal, and the numbers were not."""
    radius, epsilon, delta = 1748.1774395260102, 0.033008960105700876, 2.2366367207819134e-08
    heights = [
        0.6619930060488876, 0.8493608725659013, 0.45508048527904477, 0.3429533435598149, 0.6865071884606946,
        0.4794482167061237,
    ]  # fmt: skip
    rule = pais.FunctionRule(
        function=lambda norm: np.interp(norm, np.linspace(0.0, radius, 6), heights), radius=radius, n_knots=64
    )
    norms = pais.NormDistribution.from_histogram([0.0, radius], [383.0])
    found = pais.calibrate(rule, pais.GaussianProfile(1.0, radius), norms, epsilon=epsilon, delta=delta)
    worst = pais.worst_case(rule, found.profile, radius=radius, epsilon=epsilon, tolerance=CERTIFIED_TOLERANCE)
    assert worst.upper <= delta
