"""Plans, surveys and certificates with units: files, refusals and words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pais
from pais import Ball, Certificate, MismatchError, NormDistribution, Plan, Survey
from pais.data.units import Unit
from pais.kmeans.planning import KMeansSettings

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(900, 2)), columns=["x", "y"]).assign(who=np.arange(900) // 3)
NORMS = NormDistribution.from_histogram([0.0, 1.0, 4.0], [100.0, 200.0])
BALL = Ball(radius=4.0)


def people(**options: Any) -> Any:
    return pais.source(FRAME, **{"columns": ["x", "y"], "unit": "who", **options})


def plan_of(unit: Unit | None) -> Plan:
    settings = KMeansSettings(n_clusters=2, epsilon=1.0)
    return settings.plan(pais.Facts(ball=BALL, norms=NORMS, unit=unit), 2)


WHO = Unit(column="who")


# -- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [None, WHO, Unit(column="who", max_rows=7)])
def test_plans_come_back_from_files(unit: Unit | None, tmp_path: Path) -> None:
    plan = plan_of(unit)
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.unit == unit
    assert again.price.unit == ("" if unit is None else "who")
    assert again.neighbours == ("one row added or removed" if unit is None else "one who added or removed")


def test_a_plan_file_whose_unit_was_taken_out_is_refused() -> None:
    content = plan_of(WHO).to_dict()
    for change in ({"unit": None}, {"neighbours": "one row added or removed"}):
        with pytest.raises(pais.ArgumentError, match="do not match"):
            Plan.from_dict({**content, **change})


@pytest.mark.parametrize("limit", [1, 4])
def test_surveys_come_back_from_files(limit: int, tmp_path: Path) -> None:
    survey = pais.survey(people(max_rows_per_unit=limit), epsilon=1.0)
    survey.save(tmp_path / "survey.json")
    again = Survey.load(tmp_path / "survey.json")
    assert again.unit == Unit(column="who", max_rows=limit)
    assert again.price.unit == "who"
    content = survey.to_dict()
    assert content["neighbours"] == "one who added or removed"
    del content["unit"]
    (tmp_path / "survey.json").write_text(json.dumps(content))
    with pytest.raises(pais.ArgumentError, match="is not a survey"):
        Survey.load(tmp_path / "survey.json")


def test_a_certificate_says_who_is_protected(tmp_path: Path) -> None:
    release = pais.run(plan_of(WHO), people())
    certificate = release.certificate
    assert certificate.neighbours == "one who added or removed"
    assert certificate.unit == {"column": "who", "max_rows": None}
    content = json.loads(certificate.to_json())
    assert content["unit"] == {"column": "who", "max_rows": None}
    assert all(part["unit"] == "who" for part in content["parts"])
    assert isinstance(certificate, Certificate)
    rows = pais.run(plan_of(None), FRAME[["x", "y"]]).certificate
    assert (rows.unit, rows.neighbours) == (None, "one row added or removed")


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planned", "rows"),
    [
        (WHO, lambda: pais.source(FRAME, columns=["x", "y"])),
        (None, people),
        (WHO, lambda: people(max_rows_per_unit=2)),
        (Unit(column="other"), people),
    ],
)
def test_rows_with_another_unit_than_the_plan_are_refused(planned: Unit | None, rows: Any) -> None:
    ledger = pais.Ledger(epsilon=10.0, delta=1e-2)
    with pytest.raises(MismatchError, match="Open the source with the unit of the plan"):
        pais.run(plan_of(planned), rows(), ledger=ledger)
    assert ledger.entries == ()


def test_a_survey_of_other_units_is_refused() -> None:
    facts = pais.Facts.of(pais.survey(people(), epsilon=0.5))
    settings = KMeansSettings(n_clusters=2, epsilon=1.0)
    for rows in (pais.source(FRAME, columns=["x", "y"]), people(max_rows_per_unit=5)):
        with pytest.raises(MismatchError, match="another unit"):
            pais.fit(rows, settings, facts=facts)
    assert pais.fit(people(), settings, facts=facts).certificate.unit is not None


def test_facts_that_name_no_unit_have_that_of_their_survey() -> None:
    survey = pais.survey(people(), epsilon=0.5, random_state=0)
    facts = pais.Facts(ball=survey.ball, norms=survey.norms, survey=survey)
    for other in (None, Unit(column="who", max_rows=5)):
        with pytest.raises(MismatchError, match="the survey protects another unit"):
            facts.about(other, survey.schema)
    assert facts.about(survey.unit, survey.schema).unit == survey.unit


def test_a_survey_of_rows_does_not_go_with_a_plan_for_people() -> None:
    survey = pais.survey(FRAME[["x", "y"]], epsilon=0.5)
    with pytest.raises(MismatchError, match="do not add up"):
        KMeansSettings(n_clusters=2, epsilon=1.0).release_plan(
            ball=BALL, norms=NORMS, n_features=2, spent=(survey.price,), unit=WHO
        )


@dataclass(frozen=True, kw_only=True)
class Largest(pais.Mechanism):
    """A count of a user, who has not said that it protects units."""

    noise: pais.NoiseLaw
    name = "largest"

    @property
    def profile(self) -> Any:
        return self.noise.count_profile()

    @property
    def order(self) -> None:
        return None

    def require_lattice(self, extent: pais.Extent) -> None:
        return None

    def measure(self, content: Any, ball: Ball, bits: Any) -> float:
        return float(content.weights.sum())


@dataclass(frozen=True, kw_only=True)
class Proven(Largest):
    protects_units = True


def test_a_mechanism_that_is_not_proven_for_units_is_refused() -> None:
    noise, rule = pais.laplace_noise(1.0), pais.UniformRule(rate=1.0)
    for mechanism in (
        Largest(noise=noise),
        pais.Joint(parts=(pais.WeightedCount(noise=noise), Largest(noise=noise))),
    ):
        kept = pais.sample(people(), ball=BALL, rule=rule)
        with pytest.raises(MismatchError, match="not proven for units"):
            pais.release(mechanism, kept)
        pais.release(mechanism, pais.sample(FRAME[["x", "y"]], ball=BALL, rule=rule))
    release = pais.release(Proven(noise=noise), pais.sample(people(), ball=BALL, rule=rule))
    assert release.value == pytest.approx(300.0, rel=1e-6)


def test_a_limit_of_rows_needs_a_unit() -> None:
    with pytest.raises(pais.ArgumentError, match="without a unit"):
        pais.source(FRAME, columns=["x", "y"], max_rows_per_unit=3)


# -- numbers and words -------------------------------------------------------------------------------------


def test_the_default_delta_counts_units() -> None:
    norms = NormDistribution.from_histogram([0.0, 1.0, 4.0], [1e7, 2e7])
    settings = KMeansSettings(n_clusters=2, epsilon=1.0)
    deltas = [
        settings.plan(pais.Facts(ball=BALL, norms=norms, unit=unit), 2).delta
        for unit in (None, WHO, Unit(column="who", max_rows=10))
    ]
    assert deltas[0] == deltas[1]
    assert deltas[2] == pytest.approx(deltas[0] / 10.0)


@pytest.mark.parametrize("limit", [1, 6])
def test_words_name_the_unit(limit: int) -> None:
    plan = plan_of(Unit(column="who", max_rows=limit))
    text = plan.explain()
    assert "adding or removing one person" in text
    assert "each person kept as a whole" in text
    assert f"counts as {'a row' if limit == 1 else '6 rows'} at most" in text
    assert "people expected" in text
    assert " rows expected" not in text
    survey = pais.survey(people(max_rows_per_unit=limit), epsilon=1.0)
    assert "one person" in survey.explain()
    assert "people" in survey.explain()


def test_a_subclass_has_to_state_again_that_it_protects_units() -> None:
    @dataclass(frozen=True, kw_only=True)
    class SumOfSquares(pais.WeightedCount):
        pass

    rule, noise = pais.UniformRule(rate=1.0), pais.laplace_noise(1.0)
    ball = Ball(radius=1.0, order=1)
    Plan(ball=ball, rule=rule, mechanism=pais.WeightedCount(noise=noise), epsilon=1.0, unit=WHO)
    for mechanism in (SumOfSquares(noise=noise), pais.Joint(parts=(SumOfSquares(noise=noise),))):
        with pytest.raises(MismatchError, match="not proven for units"):
            Plan(ball=ball, rule=rule, mechanism=mechanism, epsilon=2.0, unit=WHO)


def test_a_certificate_whose_neighbours_contradict_its_unit_is_refused() -> None:
    content = pais.run(plan_of(WHO), people(), random_state=0).certificate.to_dict()
    assert Certificate.from_dict(content).unit == WHO.to_dict()
    for change in ({"neighbours": "one household added or removed"}, {"unit": None}):
        with pytest.raises(pais.ArgumentError, match="neighbours"):
            Certificate.from_dict({**content, **change})


def test_record_losses_of_scaled_columns_are_the_full_price() -> None:
    # With a schema, a row at the midpoint has the smallest vector, although its numbers are not the smallest.
    frame = pd.DataFrame({"age": [0.0, 50.0, 100.0]})
    ledger = pais.Ledger(epsilon=2.0)
    plan = Plan(
        ball=Ball(radius=1.0, order=1),
        rule=pais.UniformRule(rate=0.5),
        mechanism=pais.WeightedSum(noise=pais.laplace_noise(4.0)),
        epsilon=1.0,
        schema=pais.Schema.of({"age": (0, 100)}),
    )
    pais.run(plan, frame, ledger=ledger)
    losses = np.asarray(ledger.record_losses(frame))
    assert np.all(losses >= plan.price.epsilon)
