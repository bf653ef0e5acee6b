"""Survey, plan, sample and certificate record the schema of the rows, and a plan runs only on rows with its schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

import pais
from pais import KMeansSettings, MismatchError, Plan, Schema, Survey
from pais.accounting.certificate import Certificate
from pais.planning.facts import Facts

ROOT = Path(__file__).parents[3]
SCHEMA = Schema.of({"age": (18, 100), "premium": bool, "region": ["north", "south"], "income": "auto"}).resolved(
    {"income": (40_000.0, 20_000.0)}
)
SETTINGS = KMeansSettings(n_clusters=3, epsilon=2.0)


def people(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "premium": rng.random(n) < 0.3,
            "region": rng.choice(["north", "south"], n),
            "income": rng.normal(40_000, 20_000, n),
        }
    )


@pytest.fixture(scope="module")
def fitted() -> pais.KMeansFit:
    return pais.fit(pais.source(people(), columns=SCHEMA), SETTINGS, random_state=1)


def test_fit_records_the_schema_everywhere(fitted: pais.KMeansFit) -> None:
    assert fitted.survey is not None
    assert fitted.schema == fitted.plan.schema == fitted.survey.schema == SCHEMA
    assert fitted.certificate.schema == SCHEMA.to_dict()
    assert fitted.plan.columns == SCHEMA.labels
    assert fitted.value.centers.shape == (3, SCHEMA.width)


def test_files_hold_the_schema(fitted: pais.KMeansFit, tmp_path: Path) -> None:
    assert fitted.survey is not None
    fitted.survey.save(tmp_path / "survey.json")
    fitted.plan.save(tmp_path / "plan.json")
    (tmp_path / "certificate.json").write_text(fitted.certificate.to_json())
    assert Survey.load(tmp_path / "survey.json").schema == SCHEMA
    assert Plan.load(tmp_path / "plan.json") == fitted.plan
    assert Certificate.load(tmp_path / "certificate.json") == fitted.certificate
    description = json.loads((ROOT / "docs" / "certificate.schema.json").read_text())
    jsonschema.validate(json.loads(fitted.certificate.to_json()), description)


def test_certificates_state_ranges_and_periods_in_words() -> None:
    by = {"age": pais.ranges(18, 40, float("inf")), "region": ["north"]}
    table = people().assign(joined="2024-02-29")
    result = pais.count(table, by={**by, "joined": pais.months("2024-01-01", "2024-03-31")}, random_state=1)
    description = json.loads((ROOT / "docs" / "certificate.schema.json").read_text())
    jsonschema.validate(result.certificate.schema, description["$defs"]["schema"])
    text = result.explain()
    assert "age: ranges with the edges 18, 40, no limit; values beyond are in none of them" in text
    assert "joined: every month from 2024-01-01 to 2024-03-31; dates beyond are in none of them" in text


def test_plan_opens_a_table_with_its_schema(fitted: pais.KMeansFit) -> None:
    expected = pais.run(fitted.plan, pais.source(people(), columns=SCHEMA), random_state=2)
    release = pais.run(fitted.plan, people(), random_state=2)
    assert release.value.centers.tolist() == expected.value.centers.tolist()  # type: ignore[attr-defined]  # of k-means
    stated = pais.run(fitted.plan, pais.source(people(), columns=SCHEMA.stated), random_state=2)
    assert stated.value.centers.tolist() == expected.value.centers.tolist()  # type: ignore[attr-defined]  # of k-means


def test_rows_with_another_schema_are_refused(fitted: pais.KMeansFit) -> None:
    other = Schema.of({"age": (0, 100), "premium": bool, "region": ["north", "south"], "income": (0, 1e5)})
    for rows in (pais.source(people(), columns=other), pais.source(people()[["age", "income"]])):
        with pytest.raises(MismatchError, match="schema"):
            pais.run(fitted.plan, rows)
    assert fitted.survey is not None
    with pytest.raises(MismatchError, match="schema"):
        pais.fit(pais.source(people(), columns=other), SETTINGS, facts=Facts.from_own(fitted.survey), random_state=1)


def test_plan_for_named_columns_refuses_rows_with_a_schema() -> None:
    frame = people()[["age", "income"]]
    plain = pais.fit(pais.source(frame), SETTINGS, random_state=1)
    with pytest.raises(MismatchError, match="other facts"):
        pais.run(plain.plan, pais.source(frame, columns={"age": (18, 100), "income": 1000.0}))


def test_release_of_a_sample_states_the_schema() -> None:
    schema = Schema.of({"age": (18, 100), "premium": bool})
    ball, rule = pais.Ball(radius=2.0), pais.UniformRule(rate=0.5)
    sample = pais.sample(pais.source(people(), columns=schema), ball=ball, rule=rule)
    assert sample.schema == schema
    noise = pais.GaussianNoise(scale=50.0)
    release = pais.release(pais.WeightedCount(noise=noise), sample, epsilon=1.0, delta=1e-6)
    assert release.certificate.schema == schema.to_dict()
