"""One ledger, one unit: prices that protect rows and prices that protect people are not added."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pais
from pais import Ledger, MismatchError, Part

FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(900, 2)), columns=["x", "y"]).assign(
    who=np.arange(900) // 3, household=np.arange(900) // 9
)
WAYS: dict[str, Any] = {
    "rows": FRAME[["x", "y"]],
    "people": pais.source(FRAME, columns=["x", "y"], unit="who"),
    "households": pais.source(FRAME, columns=["x", "y"], unit="household"),
}


def fit(rows: object, ledger: Ledger, **settings: Any) -> None:
    pais.DPKMeans(n_clusters=2, epsilon=0.5, ledger=ledger, **settings).fit(rows)


def survey(rows: object, ledger: Ledger) -> None:
    pais.survey(rows, epsilon=0.5, ledger=ledger)


@pytest.mark.parametrize("charge", [fit, survey])
@pytest.mark.parametrize(("first", "second"), [("rows", "people"), ("people", "rows"), ("people", "households")])
def test_prices_of_different_units_are_not_added(
    make: Callable[..., Ledger], charge: Callable[[object, Ledger], None], first: str, second: str
) -> None:
    ledger = make(epsilon=10.0, delta=1e-2)
    charge(WAYS[first], ledger)
    entries = ledger.entries
    with pytest.raises(MismatchError, match="their prices do not add up"):
        charge(WAYS[second], ledger)
    assert ledger.entries == entries
    charge(WAYS[first], ledger)
    assert len(ledger.entries) > len(entries)


@pytest.mark.filterwarnings("ignore::pais.QualityWarning")  # unseeded, with more noise than signal
def test_pure_fits_and_their_surveys_are_of_one_unit(make: Callable[..., Ledger]) -> None:
    ledger = make(epsilon=10.0)
    fit(WAYS["people"], ledger, mechanism="laplace")
    assert {unit for entry in ledger.entries for unit in entry.units} == {"who"}


def test_different_limits_of_rows_protect_the_same_units(make: Callable[..., Ledger]) -> None:
    ledger = make(epsilon=10.0, delta=1e-2)
    for limit in (1, 3):
        survey(pais.source(FRAME, columns=["x", "y"], unit="who", max_rows_per_unit=limit), ledger)
    assert len(ledger.entries) == 2


def test_entries_by_hand_state_no_unit(make: Callable[..., Ledger]) -> None:
    ledger = make(epsilon=10.0, delta=1e-2)
    ledger.spend(what="a table of another tool", epsilon=1.0)
    survey(WAYS["people"], ledger)
    ledger.spend(what="another table", epsilon=1.0)
    assert len(ledger.entries) == 3


def _survey_of_people(path: Path) -> None:
    survey(WAYS["people"], Ledger(path=path))


def test_entries_of_another_process_count(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    ledger = Ledger(path=path, epsilon=10.0, delta=1e-2)
    process = multiprocessing.get_context("spawn").Process(target=_survey_of_people, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [entry.units for entry in ledger.entries] == [{"who"}]
    with pytest.raises(MismatchError, match="a single row"):
        survey(WAYS["rows"], ledger)
    with pytest.raises(MismatchError, match="'household'"):
        survey(WAYS["households"], Ledger(path=path))
    assert len(Ledger(path=path).entries) == 1


def test_parts_keep_their_unit() -> None:
    part = Part(what="survey", epsilon=0.5, unit="who")
    assert part.to_dict()["unit"] == "who"
    assert Part.from_dict(part.to_dict()) == part
    with pytest.raises(pais.ArgumentError):
        Part(what="survey", epsilon=0.5, unit=3)  # type: ignore[arg-type]
