"""Dictionaries and files of the public classes: what is written can be read, and means the same."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pais
from pais._base.files import parse_json
from pais.accounting.stores import Entry, parts_of

NORMS = pais.NormDistribution.from_histogram([0.0, 1.0, 2.0], [3000.0, 5000.0])
GAUSSIAN = pais.GaussianProfile(30.0, 40.0)

RULES = [
    pais.UniformRule(rate=0.25),
    pais.UniformRule(rate=0.25, radius=2.0),
    pais.CoresetRule(sample_size=100.0, n_rows=8000.0, mean_square_norm=2.0, radius=2.0),
    pais.ConstrainedRule(profile=GAUSSIAN, radius=2.0, epsilon=1.0, delta=1e-6, n_knots=64),
    pais.ConstrainedRule(profile=pais.LinearProfile(0.1, 0.2), radius=2.0, epsilon=1.0, max_epsilon_if_kept=math.inf),
    pais.ConstrainedRule(profile=pais.PowerProfile(0.1, 0.2, 1.5), radius=2.0, epsilon=1.0, n_knots=64),
]
SQUARE = pais.GaussianProfile(math.inf, math.inf, square_scale=2.0)
PROFILES = [
    GAUSSIAN,
    SQUARE,
    pais.GaussianProfile(math.inf, 2.0, 3),
    pais.LinearProfile(0.1, 0.2),
    pais.PowerProfile(1, 2, 3),
]
LAWS = [pais.GaussianNoise(scale=2.0), pais.laplace_noise(3.0), pais.LpNoise(scale=1.0, p=2.0)]
LAWS.extend([pais.LpNoise(scale=1.0, p=math.inf), pais.GeometricNoise(scale=1.0, step=0.5)])
MECHANISMS = [
    pais.WeightedCount(noise=LAWS[0]),
    pais.WeightedSum(noise=LAWS[2]),
    pais.WeightedMean(count_noise=LAWS[1], sum_noise=LAWS[1]),
    pais.Joint(parts=(pais.WeightedCount(noise=LAWS[1]), pais.WeightedSum(noise=LAWS[1]))),
]


def kmeans_plan(**settings: Any) -> pais.Plan:
    usual = {"n_clusters": 3, "n_features": 2, "epsilon": 1.0, "ball": pais.Ball(radius=2.0), "norms": NORMS}
    return pais.plan_kmeans(**{**usual, **settings})


PLANS = [
    kmeans_plan(),
    kmeans_plan(sampling="uniform", sample_size=500.0, max_epsilon_if_kept=9.0),
    kmeans_plan(mechanism="l2", delta=0.0, algorithm="paper", n_iterations=3),
    kmeans_plan(spent=(pais.Part(what="survey", epsilon=0.1, release="a name", secure_randomness=False),)),
    pais.Plan(ball=pais.Ball(radius=2.0), rule=RULES[0], mechanism=MECHANISMS[1], epsilon=40.0),
]


EXPLORING = PLANS[0].mechanism.to_dict()


@pytest.fixture(scope="module")
def certificate() -> dict[str, Any]:
    """The dictionary of a certificate with two parts."""
    plan = kmeans_plan(spent=(pais.Part(what="survey", epsilon=0.1),))
    return through_json(pais.run(plan, np.zeros((50, 2))).certificate.to_dict())


def through_json(described: dict[str, Any]) -> dict[str, Any]:
    return parse_json(json.dumps(described, allow_nan=False))


ROUND_TRIPS: list[tuple[Any, Any]] = [
    (pais.Ball, pais.Ball(radius=2.0)),
    (pais.Ball, pais.Ball(radius=1.0, order=math.inf, center=(1.0, -2.0))),
    *((pais.Rule, rule) for rule in RULES),
    *((pais.Profile, profile) for profile in PROFILES),
    *((pais.NoiseLaw, law) for law in LAWS),
    *((pais.Mechanism, mechanism) for mechanism in [*MECHANISMS, *(plan.mechanism for plan in PLANS)]),
]


@pytest.mark.parametrize(("family", "value"), ROUND_TRIPS, ids=lambda one: getattr(one, "__name__", type(one).__name__))
def test_round_trip(family: Any, value: Any) -> None:
    rebuilt = family.from_dict(through_json(value.to_dict()))
    assert rebuilt == value
    if family is pais.Rule:
        norms = np.linspace(0.0, 2.0, 201)
        assert np.array_equal(rebuilt.probability(norms), value.probability(norms))


@pytest.mark.parametrize("plan", PLANS, ids=range(len(PLANS)))
def test_plan_round_trip(plan: pais.Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.json")
    assert pais.Plan.load(tmp_path / "plan.json") == plan


def test_survey_round_trip(tmp_path: Path) -> None:
    survey = pais.survey(np.random.default_rng(0).normal(size=(3000, 2)), epsilon=1.0)
    survey.save(tmp_path / "survey.json")
    loaded = pais.Survey.load(tmp_path / "survey.json")
    assert loaded == survey
    assert loaded.name == survey.name


def test_certificate_round_trip(tmp_path: Path) -> None:
    model = pais.DPKMeans(n_clusters=3, epsilon=1.0, random_state=0).fit(
        np.random.default_rng(0).normal(size=(3000, 2))
    )
    (tmp_path / "certificate.json").write_text(model.certificate_.to_json())
    assert pais.Certificate.load(tmp_path / "certificate.json") == model.certificate_


def test_ledger_entry_round_trip() -> None:
    ledger = pais.Ledger(epsilon=2.0, delta=1e-5)
    pais.run(PLANS[0], np.zeros((50, 2)), ledger=ledger)
    (entry,) = ledger.entries
    assert Entry.from_dict(through_json(entry.to_dict())) == entry
    (part,) = parts_of(entry)
    assert part.rule == PLANS[0].rule
    assert part.profile == PLANS[0].mechanism.profile


class Doubled(pais.UniformRule):
    def evaluate(self, norm: Any) -> Any:
        return np.minimum(2.0 * super().evaluate(norm), 1.0)


class OwnCount(pais.WeightedCount):
    """Goes by the name of a mechanism of the package and computes something else."""

    def measure(self, content: Any, ball: Any, bits: Any) -> float:
        return 7.0


def test_subclasses_are_described_and_never_rebuilt_as_their_base(tmp_path: Path) -> None:
    for described, family in (
        (Doubled(rate=0.3).to_dict(), pais.Rule),
        (OwnCount(noise=LAWS[0]).to_dict(), pais.Mechanism),
    ):
        assert described["class"] in ("Doubled", "OwnCount")
        with pytest.raises(pais.ArgumentError, match="does not define"):
            family.from_dict(described)
    plan = pais.Plan(ball=pais.Ball(radius=2.0), rule=RULES[0], mechanism=OwnCount(noise=LAWS[1]), epsilon=40.0)
    with pytest.raises(pais.ArgumentError, match="does not define"):
        plan.save(tmp_path / "plan.json")
    assert not (tmp_path / "plan.json").exists()


def test_describe_of_a_user_class_is_part_of_its_dictionary() -> None:
    class Own(OwnCount):
        def describe(self) -> dict[str, Any]:
            return {"bins": 4}

    assert Own(noise=LAWS[0]).to_dict() == {"bins": 4, "mechanism": "count", "class": "Own"}


def edits(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Single changes that make a plan file show, or do, something else."""
    rounds = content["mechanism"]["rounds"]
    louder = [{**rounds[0], "residual_noise": {**rounds[0]["residual_noise"], "scale": 1.0}}, *rounds[1:]]
    clipped = {**content["mechanism"]["second_moment"], "radius": 1e-3}
    return [
        {**content, "epsilon": 0.5},
        {**content, "epsilon": 2.0},
        {**content, "delta": 1e-9},
        {**content, "explanation": content["explanation"][:-1]},
        {**content, "by_norm": {**content["by_norm"], "epsilon": [0.0] * 11}},
        {**content, "mechanism": {**content["mechanism"], "rounds": louder}},
        {**content, "mechanism": {**content["mechanism"], "rounds": [{**one, "flat": 0.5} for one in rounds]}},
        {**content, "mechanism": {**content["mechanism"], "second_moment": clipped}},
        {**content, "mechanism": {**content["mechanism"], "n_clusters": 2}},
        {**content, "rule": {"rule": "uniform", "probability": 1.0, "radius": "infinity"}},
        {**content, "ball": {**content["ball"], "radius": 1.0}},
    ]


def test_edited_plan_files_are_refused(tmp_path: Path) -> None:
    for number, content in enumerate(edits(PLANS[0].to_dict())):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(content))
        with pytest.raises(pais.ArgumentError, match=path.name):
            pais.Plan.load(path)


@pytest.mark.parametrize("kind", [pais.Plan, pais.Survey, pais.Certificate])
def test_files_of_another_format_or_kind_are_refused(kind: Any, tmp_path: Path) -> None:
    path, named = tmp_path / "file.json", {"kind": kind.__name__.lower()}
    for change in (
        {"format": 3},
        {"format": 1},
        {"format": "2"},
        {"format": True},
        {},
        {"kind": "recipe", "format": 2},
    ):
        path.write_text(json.dumps({**named, **change}))
        with pytest.raises(pais.ArgumentError, match=r"file\.json cannot be used as a"):
            kind.load(path)


def test_certificate_whose_parts_do_not_add_up_is_refused(certificate: dict[str, Any]) -> None:
    assert [part.what for part in pais.Certificate.from_dict(certificate).parts] == ["survey", "k-means"]
    with pytest.raises(pais.ArgumentError, match="do not add up"):
        pais.Certificate.from_dict({**certificate, "epsilon": 0.5})


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [300, 600, 900])
def test_deeply_nested_values_are_refused_as_any_other(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    rule = {"rule": "uniform", "probability": nested(depth), "radius": 1.0}
    path.write_text(json.dumps({**PLANS[4].to_dict(), "rule": rule}))
    with pytest.raises(pais.ArgumentError, match=r"plan\.json"):
        pais.Plan.load(path)
    described = {**PLANS[4].price.to_dict(), "rule": rule}
    assert pais.Part.from_dict(described).rule is None


@pytest.mark.parametrize("kind", ["\x1b[2J", "x" * 10_000, ["a"], "1996-02-29"])
def test_errors_do_not_quote_a_file_of_another_kind(kind: object, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    for content in ({"kind": kind}, {**PLANS[0].to_dict(), "mechanism": {**EXPLORING, "exploring_rounds": kind}}):
        path.write_text(json.dumps(content))
        with pytest.raises(pais.ArgumentError) as caught:
            pais.Plan.load(path)
        assert str(kind) not in str(caught.value)


@pytest.mark.parametrize(
    "edit",
    [
        {"secure_randomness": "yes"},
        {"secure_randomness": False},
        {"note": "seeded, not private"},
        {"epsilon_if_kept": 0.5},
        {"epsilon_if_kept": True},
        {"max_epsilon_if_kept": "large"},
        {"delta_used": 1e-3},
        {"delta_used": None},
        {"ledger_entries": "none"},
        {"rule": "uniform"},
    ],
    ids=str,
)
def test_certificates_with_contradictions_or_other_types_are_refused(
    edit: dict[str, Any], certificate: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps({**certificate, **edit}))
    with pytest.raises(pais.ArgumentError, match=r"certificate\.json"):
        pais.Certificate.load(path)


@pytest.mark.parametrize(
    "edit",
    [
        {"note": "seeded, not private"},
        {"secure_randomness": False},
        {"columns": "ab"},
        {"columns": [1, 2]},
        {"name": ""},
    ],
    ids=str,
)
def test_surveys_with_contradictions_or_other_types_are_refused(edit: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "survey.json"
    survey = pais.survey(np.zeros((50, 2)), epsilon=1.0)
    path.write_text(json.dumps({**survey.to_dict(), **edit}))
    with pytest.raises(pais.ArgumentError, match=r"survey\.json"):
        pais.Survey.load(path)


def test_missing_and_unreadable_files_are_named_for_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(pais.ArgumentError, match="No such file"):
        pais.Plan.load(tmp_path / "absent.json")
    with pytest.raises(pais.ArgumentError, match="directory"):
        pais.Survey.load(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(pais.ArgumentError, match="is not text"):
        pais.Certificate.load(tmp_path / "bytes")
    with pytest.raises(pais.ArgumentError, match="cannot be written"):
        PLANS[0].save(tmp_path)


def test_part_with_an_unprintable_name_is_refused() -> None:
    with pytest.raises(pais.ArgumentError, match="not printable"):
        pais.Part(what="survey", epsilon=0.1, release="\x1b[2J")
