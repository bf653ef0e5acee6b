"""Categories that nobody listed, found for models, for summarised columns and for quantiles of groups."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais._base.randomness import bit_source
from pais.auditing.replay import ReplayReport, replay
from pais.data.kinds import Names
from pais.data.schema import Schema
from pais.data.sources import cells, source, with_categories
from pais.kmeans.planning import KMeansSettings
from pais.mechanisms.names import NameSelection
from pais.pipeline import fit
from pais.planning.facts import SurveyNoise
from pais.planning.names import NameStage
from pais.privacy.amplification import largest_shift
from tests.conformance.test_names import SECRET, STORES, rows
from tests.conformance.test_replay_names import DELTA, RECORDS, table

pytestmark = pytest.mark.filterwarnings("ignore")

AGE = {"age": (0.0, 90.0)}
WARD = {"ward": pais.names()}


def fitted(model: Any, data: Any) -> Any:
    return model.fit(data).fit_


#: A call with the columns, for a table.
MODELS: dict[str, Callable[..., Any]] = {
    "k-means": lambda data, columns, **more: fitted(pais.DPKMeans(3, columns=columns, **more), data),
    "linear": lambda data, columns, **more: fitted(
        pais.DPLinearRegression(columns=columns, target="age", **more), data
    ),
    "logistic": lambda data, columns, **more: fitted(
        pais.DPLogisticRegression(columns=columns, target="size", classes=[1, 2], **more), data
    ),
    "PCA": lambda data, columns, **more: fitted(pais.DPPCA(2, columns=columns, **more), data),
}
STATISTICS: dict[str, Callable[..., Any]] = {
    "mean": pais.mean,
    "count": pais.count,
    "histogram": lambda data, columns, **more: pais.histogram(data, {"ward": columns["ward"]}, **more),
    "describe": pais.describe,
    "median": lambda data, columns, **more: pais.quantile(data, 0.5, AGE, by={"ward": columns["ward"]}, **more),
}


# -- the price


def replayed(call: Callable[..., Any], record: str, **more: Any) -> ReplayReport:
    def run(data: Any, seed: Any) -> Any:
        return call(data, {**AGE, **WARD}, epsilon=2.0, delta=DELTA, random_state=seed, **more)

    return replay(run, table(RECORDS[record]), table([]), seeds=(0,), pushes=(0.0, 3.0, -3.0))


@pytest.mark.parametrize("record", ["frequent", "alone", "both"])
@pytest.mark.parametrize("what", ["k-means", "linear", "mean", "count", "median"])
def test_a_person_moves_no_released_number_by_more_than_was_paid(what: str, record: str) -> None:
    call = (MODELS | STATISTICS)[what]
    report = replayed(call, record, unit="person")
    assert not report.violates, str(report)
    assert 0.0 < report.used <= 1.0 + 1e-9


@pytest.mark.parametrize("what", ["k-means", "mean", "median"])
def test_the_chance_of_names_of_one_person_alone_is_paid_for(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta of the noise and of names add up to what is certified."""
    chances: list[float] = []

    def selection(**stated: Any) -> NameSelection:
        chances.append(stated["delta"])
        return NameSelection(**stated)

    monkeypatch.setattr("pais.planning.names.NameSelection", selection)
    for delta in (1e-5, None):
        chances.clear()
        result = (MODELS | STATISTICS)[what](rows(), {**AGE, **WARD}, epsilon=1.0, delta=delta, random_state=0)
        (chance,) = chances
        # The noise of names needs as much again if it is not in the Gaussian shift of the call.
        alone = chance if what == "median" else 0.0
        assert result.plan.delta + chance + alone <= result.certificate.delta
        assert result.certificate.delta == (delta or {"k-means": 1e-6}.get(what, 1e-9))
        assert result.certificate.epsilon <= 1.0


def test_names_with_a_share_of_epsilon_move_by_the_shift_that_it_allows() -> None:
    """Half of delta is for the noise, and half for names of one person alone."""
    noise, delta = SurveyNoise(epsilon=0.5), 1e-3

    def run(data: Any, seed: Any) -> Any:
        schema = Schema((Names(name="ward"),))
        engine = cells(data, columns=schema, unit="person", max_rows_per_unit=None, missing="drop")
        stage = NameStage(columns=schema.unlisted, delta=delta, max_names=8)
        bits = bit_source(seed)
        return str(stage.release(stage.read(engine, noise, bits), engine, noise, bits)[1])

    allowed = largest_shift(0.5, 0.5 * delta)
    for record in ("many alone", "both"):
        report = replay(run, table(RECORDS[record]), table([]), epsilon=0.5, delta=delta, seeds=(0,), pushes=(0.0, 3.0))
        assert not report.violates, str(report)
        assert 0.98 * allowed < max(move.shift for move in report.moves) <= allowed * (1.0 + 1e-9)
        assert all(move.chance == pytest.approx(0.5 * delta, rel=1e-12) for move in report.moves)


@pytest.mark.parametrize("auto", [False, True], ids=["stated", "auto"])
def test_the_stages_of_a_survey_share_its_shift(auto: bool) -> None:
    """Shifts add in squares, with those of names, of bounds and of norms."""
    columns = {"age": "auto" if auto else (0.0, 90.0), "ward": "auto"}
    schema = with_categories(Schema.of(columns), rows())
    engine = source(rows(), columns=schema)
    settings = KMeansSettings(n_clusters=3, epsilon=1.0).for_rows(engine)
    listed = KMeansSettings(n_clusters=3, epsilon=1.0).for_rows(source(rows(), columns={**columns, "ward": ["a"]}))
    stages = settings.stages(engine, None)
    assert stages.noise is not None
    assert [stage.name for stage in stages.stages] == ["names", *(["columns"] if auto else []), "norms"]
    assert math.fsum(stage.share for stage in stages.stages) <= 1.0 + 1e-12
    names = math.sqrt(stages.stages[0].share) * stages.noise.shift
    others = math.sqrt(1.0 - stages.stages[0].share) * stages.noise.shift
    # Names get their share of what all of the fit may have, and the survey of a list has the same noise as before.
    assert names == pytest.approx(math.sqrt(0.075) * largest_shift(1.0, 0.9e-6), rel=1e-9)
    assert others == pytest.approx(listed.survey_noise.shift, rel=0.02)


def test_a_second_fit_from_a_survey_pays_for_its_names_too() -> None:
    more: dict[str, Any] = {"epsilon": 1.0, "random_state": 0}
    first = MODELS["k-means"](rows(), {**AGE, **WARD}, **more)
    settings = KMeansSettings(n_clusters=2, epsilon=1.0, delta=1e-5)
    second = fit(rows(), settings, facts=pais.Facts.of(first.survey), random_state=0)
    assert first.survey.delta == 1e-7
    assert second.plan.delta + first.survey.delta <= second.certificate.delta == 1e-5
    assert second.plan.schema == first.plan.schema


@pytest.mark.parametrize("delta", [1e-9, 2e-6, 1e-4])
def test_the_names_of_a_survey_cost_the_delta_with_which_they_were_published(delta: float, tmp_path: Path) -> None:
    """Whatever delta a later fit has, and whether it comes from the survey, its file or the plan of the first fit."""
    first = MODELS["k-means"](rows(), {**AGE, **WARD}, epsilon=1.0, delta=1e-5, random_state=0)
    names = first.plan.certified_delta - first.plan.delta
    assert names == pytest.approx(1e-6)
    first.survey.save(tmp_path / "survey.json")
    again = pais.run(first.plan, rows(), random_state=0)
    rebuilt = type(first).of(first.plan, again).survey
    for survey in (first.survey, pais.Survey.load(tmp_path / "survey.json"), rebuilt):
        settings, ledger = KMeansSettings(n_clusters=2, epsilon=1.0, delta=delta), pais.Ledger(epsilon=1.0, delta=0.1)
        more: dict[str, Any] = {"facts": pais.Facts.of(survey), "random_state": 0, "ledger": ledger}
        if delta < names:
            with pytest.raises(pais.MismatchError, match="leaves nothing of delta"):
                fit(rows(), settings, **more)
            continue
        second = fit(rows(), settings, **more)
        assert second.plan.delta + survey.delta <= second.certificate.delta == ledger.spent.delta == delta


def test_a_plan_pays_for_the_names_of_its_survey() -> None:
    first = MODELS["k-means"](rows(), {**AGE, **WARD}, epsilon=1.0, delta=1e-5, random_state=0)
    survey = first.survey
    planned = pais.plan_kmeans(
        n_clusters=2,
        n_features=4,
        ball=pais.Ball(radius=2.0),
        norms=survey.norms,
        epsilon=1.0,
        delta=1e-5,
        spent=(survey.price,),
    )
    own = replace(planned, certified_delta=None)
    for plan in (planned, own, pais.Plan.from_dict(own.to_dict())):
        assert plan.delta + survey.delta <= plan.price.delta <= 1e-5
    with pytest.raises(pais.ArgumentError, match="a survey found names"):
        replace(planned, certified_delta=planned.delta)


@pytest.mark.parametrize("what", [*MODELS, *STATISTICS])
def test_a_ledger_is_charged_the_price_and_refusals_cost_nothing(what: str) -> None:
    call, ledger = (MODELS | STATISTICS)[what], pais.Ledger(epsilon=1.0, delta=1e-5)
    refused: list[dict[str, Any]] = [{"delta": 0.0}]
    if what == "k-means":
        refused = [{"mechanism": "laplace"}, {"mechanism": "l2"}, {"center": (0.0, 0.0)}]
    if what in MODELS:
        norms = pais.NormDistribution.from_histogram([0.0, 1.0], [100.0])
        refused = [*refused[-3:], {"norms": norms, "radius": 1.0}]
    for wrong in refused:
        with pytest.raises(pais.PaisError) as error:
            call(rows(), {**AGE, **WARD}, ledger=ledger, **wrong)
        assert "Jane" not in str(error.value)
        assert "ward 1" not in str(error.value)
    assert ledger.spent.epsilon == 0.0
    result = call(rows(), {**AGE, **WARD}, epsilon=1.0, delta=1e-6, ledger=ledger)
    assert result.certificate.epsilon == pytest.approx(1.0, rel=1e-9)
    assert result.certificate.delta == pytest.approx(1e-6, rel=1e-9)
    assert ledger.spent.epsilon == pytest.approx(1.0, rel=1e-9)
    assert ledger.spent.delta == pytest.approx(1e-6, rel=1e-9)


# -- the same wherever rows are stored


@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize("what", [*MODELS, "mean", "median"])
def test_results_are_the_same_wherever_rows_are_stored(what: str, unit: str | None, tmp_path: Path) -> None:
    call = (MODELS | STATISTICS)[what]
    more: dict[str, Any] = {"epsilon": 2.0, "unit": unit, "random_state": 1}
    expected = call(rows(), {**AGE, "ward": "auto"}, **more)
    # Seeded draws of models without a unit follow the order of the rows.
    stores = {name: store for name, store in STORES.items() if name != "shuffled" or unit is not None or what == "mean"}
    for name, store in stores.items():
        columns = {**AGE, "ward": pais.names() if name in ("objects", "CSV", "categories") else "auto"}
        result = call(store(rows(), tmp_path), columns, **more)
        assert result.certificate.values_sha256 == expected.certificate.values_sha256, name
        assert result.plan.schema == expected.plan.schema, name


@pytest.mark.parametrize("store", ["objects", "CSV"])
@pytest.mark.parametrize("what", ["k-means", "linear", "mean"])
def test_auto_on_text_whose_column_has_no_type_is_refused_before_a_charge(
    what: str, store: str, tmp_path: Path
) -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-5)
    data = STORES[store](rows(), tmp_path)
    with pytest.raises(pais.DataError, match=r"column 'ward' .* has text .*pais.names\(\)") as refused:
        (MODELS | STATISTICS)[what](data, {**AGE, "ward": "auto"}, ledger=ledger)
    assert "Jane" not in str(refused.value)
    assert "ward 1" not in str(refused.value)
    assert ledger.spent.epsilon == 0.0
    # Numbers are numbers, also as text.
    (MODELS | STATISTICS)[what](data, {**AGE, "size": "auto"}, ledger=ledger)


# -- values


@pytest.fixture(scope="module")
def known() -> pa.Table:
    """Incomes that depend on a ward and an age, and a handful of wards of single people."""
    rng = np.random.default_rng(7)
    ward = np.minimum(rng.geometric(0.35, 20_000) - 1, 5)
    age = rng.uniform(20.0, 80.0, ward.size)
    income = 10_000.0 * ward + 300.0 * age + rng.normal(0.0, 2_000.0, ward.size)
    names = [f"w{number}" for number in ward.tolist()]
    names[:4] = [SECRET, "x", "y", "z"]
    table = {"ward": names, "age": age, "income": income, "rich": income > 30_000.0}
    return pa.table({**table, "person": np.arange(ward.size) // 2})


WARDS = [f"w{number}" for number in range(6)]


@pytest.mark.parametrize("unit", [None, "person"])
def test_means_counts_and_medians_are_near_the_truth(known: pa.Table, unit: str | None) -> None:
    ward, income = np.array(known["ward"].to_pylist()), known["income"].to_numpy()
    shares = [np.mean(ward == name) for name in WARDS]
    more: dict[str, Any] = {"unit": unit, "epsilon": 1.0, "random_state": 3}
    mean = pais.mean(known, {"income": (0, 80_000), "ward": "auto"}, **more)
    assert [*mean.value.index] == ["income", *(f"ward={name}" for name in [*WARDS, "other"])]
    np.testing.assert_allclose(mean.value.to_numpy()[1:7], shares, atol=0.01)
    assert abs(mean.value["ward=other"]) < 0.01
    for counted in (pais.count(known, {"ward": "auto"}, **more), pais.histogram(known, {"ward": "auto"}, **more)):
        np.testing.assert_allclose(counted.estimates.ravel()[:6], 20_000 * np.array(shares), atol=150.0)
    medians = pais.quantile(known, 0.5, {"income": (0, 80_000)}, by="ward", **more)
    truth = [np.median(income[ward == name]) for name in WARDS]
    np.testing.assert_allclose(medians.value[WARDS], truth, atol=1_500.0)
    assert medians.value.index[-1] == "other"
    assert "is probably not shown" in " ".join(medians.notes)


@pytest.mark.parametrize("unit", [None, "person"])
def test_models_are_near_the_truth(known: pa.Table, unit: str | None, tmp_path: Path) -> None:
    more: dict[str, Any] = {"unit": unit, "epsilon": 1.0, "random_state": 2}
    columns = {"age": (20, 80), "ward": "auto"}
    linear = pais.DPLinearRegression(columns={**columns, "income": (0, 80_000)}, target="income", **more).fit(known)
    assert linear.fit_.coefficients.labels == ("age", *(f"ward={name}" for name in WARDS))
    np.testing.assert_allclose(linear.coef_[0], 300.0, rtol=0.1)
    np.testing.assert_allclose(linear.coef_[1:], 10_000.0 * (np.arange(6) - 2.5), atol=2_000.0)
    assert linear.score(known) > 0.97
    logistic = pais.DPLogisticRegression(columns={**columns, "rich": bool}, target="rich", **more).fit(known)
    assert logistic.score(known, known["rich"].to_numpy()) > 0.95
    kmeans = pais.DPKMeans(6, columns={"ward": "auto"}, **more).fit(known)
    assert sorted(kmeans.cluster_centers_.argmax(axis=1).tolist()) == list(range(6))
    assert (kmeans.cluster_centers_.max(axis=1) > 0.9).all()
    components = pais.DPPCA(2, columns=columns, **more).fit(known)
    assert components.components_.shape == (2, 8)
    for model in (linear, logistic, kmeans, components):
        page = model.write_report(tmp_path / "page.html").read_text()
        for text in (page, model.explain(), repr(model), model.plan_.explain(), model.certificate_.to_json()):
            assert "Jane" not in text
        assert "ward: 6 names that were found privately" in model.explain()
        assert "is probably not found" in model.explain()
        again = pais.Plan.from_dict(model.plan_.to_dict())
        assert again == model.plan_
        # A plan runs on the table itself, with the categories that were found.
        assert pais.run(again, known, random_state=1).certificate.schema == model.certificate_.schema
        survey = pais.Survey.from_dict(model.fit_.survey.to_dict())
        assert survey.categories == model.fit_.survey.categories
        assert survey.categories[0].n_found == 6


@pytest.mark.parametrize("what", [*MODELS, *STATISTICS])
@pytest.mark.parametrize("n", [0, 1, 40])
def test_a_table_without_frequent_names_has_other_alone_and_says_so(what: str, n: int) -> None:
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        result = (MODELS | STATISTICS)[what](rows().slice(17, n), {**AGE, **WARD}, epsilon=1.0, random_state=0)
    assert result.plan.schema["ward"].values == ("other",)
    texts = [str(warning.message) for warning in issued]
    assert any("'ward' was found" in text and "list the" in text for text in texts), texts
    assert not any("Jane" in text for text in texts)


def test_a_model_takes_the_most_frequent_categories() -> None:
    table = pa.table({"code": [f"c{number:03d}" for number in np.repeat(np.arange(150), np.arange(300, 600, 2))]})
    with pytest.warns(pais.QualityWarning, match=r"The 100 most frequent ones are used"):
        model = pais.DPPCA(2, columns={"code": "auto"}, epsilon=4.0, delta=1e-6, random_state=0).fit(table)
    found = model.plan_.schema["code"].values
    assert len(found) == 101
    # Frequencies grow with the number of the code.
    assert sum(int(name[1:]) >= 45 for name in found[:-1]) >= 98


def test_components_asked_for_do_not_depend_on_what_is_found() -> None:
    table = pa.table({"ward": ["a", "b", "c"] * 2000, "age": np.linspace(0.0, 1.0, 6000)})
    columns = {"ward": "auto", "age": (0, 1)}
    assert pais.DPPCA(4, columns=columns, epsilon=2.0, random_state=0).fit(table).components_.shape == (4, 5)
    few = pais.DPPCA(4, columns=columns, epsilon=2.0, random_state=0).fit(table.slice(0, 5))
    assert few.components_.shape == (2, 2)


def test_targets_need_numbers_or_a_list(known: pa.Table) -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-5)
    for stated in ("auto", pais.names()):
        with pytest.raises(pais.ArgumentError, match="must be a column of numbers"):
            pais.DPLinearRegression(columns={"age": (0, 90), "ward": stated}, target="ward", ledger=ledger).fit(known)
        with pytest.raises(pais.ArgumentError, match=r"classes of the target.* not "):
            pais.DPLogisticRegression(columns={"age": (0, 90), "ward": stated}, target="ward", ledger=ledger).fit(known)
    assert ledger.spent.epsilon == 0.0


def test_models_with_found_categories_are_nearly_as_good_as_with_a_list(known: pa.Table) -> None:
    """At the same epsilon: the share of the variance that is not explained, and the cost of segments."""
    errors: dict[str, list[float]] = {"list": [], "auto": []}
    costs: dict[str, list[float]] = {"list": [], "auto": []}
    for seed in range(3):
        for what, ward in (("list", WARDS), ("auto", "auto")):
            columns = {"age": (20, 80), "ward": ward}
            more: dict[str, Any] = {"epsilon": 1.0, "random_state": seed}
            stated = {**columns, "income": (0, 80_000)}
            model = pais.DPLinearRegression(columns=stated, target="income", **more).fit(known)
            errors[what].append(1.0 - model.score(known))
            segments = pais.DPKMeans(6, columns=columns, **more).fit(known)
            costs[what].append(-segments.score(known.slice(4)))
    assert np.mean(errors["auto"]) < 1.02 * np.mean(errors["list"])
    assert np.mean(costs["auto"]) < 1.02 * np.mean(costs["list"])
