"""Categories that nobody listed, found for models, for summarised columns and for quantiles of groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pais
from pais.auditing.replay import ReplayReport, replay
from pais.mechanisms.names import NameSelection
from tests.conformance.test_names import STORES, rows
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
