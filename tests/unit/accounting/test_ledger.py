"""The ledger: sums on the safe side, budgets, entries, and losses of records."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.base import clone

import pais
from pais._base.numerics import exact
from pais.accounting.part import Part, down, up
from pais.accounting.stores import parts_of
from tests.support.ledger_cases import RADIUS, model, plan, rows


def test_spends_are_recorded_and_the_rest_remains(make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=3.0, delta=1e-5)
    assert ledger.spent == pais.Budget(epsilon=0.0, delta=0.0)
    ledger.spend(what="a table", epsilon=0.1, delta=1e-6)
    ledger.spend(what="another", epsilon=0.2)
    assert ledger.spent == pais.Budget(epsilon=0.3, delta=1e-6)
    assert ledger.remaining == pais.Budget(epsilon=2.7, delta=9e-6)
    assert [entry.what for entry in ledger.entries] == ["a table", "another"]
    with pytest.raises(pais.BudgetError, match=r"epsilon=2.7, delta=9e-06 remain"):
        ledger.check(epsilon=2.8)
    with pytest.raises(pais.BudgetError):
        ledger.spend(what="too many deltas", epsilon=0.1, delta=9.1e-6)
    assert len(ledger.entries) == 2


@pytest.mark.parametrize("epsilon", [0.1, 0.1 + 1e-16, 0.1 + 2e-17])
def test_a_tenth_of_a_budget_fits_ten_times_and_no_more(epsilon: float, make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=1.0)
    fits = 0
    for _ in range(15):
        try:
            ledger.spend(what="a tenth", epsilon=epsilon)
            fits += 1
        except pais.BudgetError:
            pass
    assert fits == (10 if epsilon == 0.1 else 9)
    assert ledger.spent.epsilon <= 1.0


@given(st.lists(st.floats(0.0, 10.0), max_size=40))
def test_sums_are_rounded_to_the_safe_side(prices: list[float]) -> None:
    true = sum((Fraction(repr(price)) for price in prices), Fraction(0))
    assert exact(up(true)) >= true >= exact(down(true))
    assert up(true) - down(true) <= 4e-16 * max(float(true), 1.0)
    assert down(-true) == 0.0


@pytest.mark.parametrize("bad", [math.nan, -1e-300, None])
def test_bad_amounts_are_refused(bad: Any, make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=1.0, delta=0.5)
    for call in (ledger.check, lambda **price: ledger.spend(what="x", **price)):
        with pytest.raises(pais.ArgumentError):
            call(epsilon=bad)
        with pytest.raises(pais.ArgumentError):
            call(epsilon=0.1, delta=bad)
    if bad is not None:
        with pytest.raises(pais.ArgumentError):
            pais.Ledger(epsilon=bad)
    assert ledger.entries == ()


def test_a_budget_must_be_stated_for_a_new_ledger(tmp_path: Path) -> None:
    with pytest.raises(pais.ArgumentError, match="epsilon"):
        pais.Ledger()
    with pytest.raises(pais.ArgumentError, match="no ledger"):
        pais.Ledger(path=tmp_path / "budget.json")
    with pytest.raises(pais.ArgumentError):
        pais.Ledger(delta=1e-6)
    assert not list(tmp_path.iterdir())


def test_a_file_is_opened_again_with_what_was_spent_and_its_budget_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    pais.Ledger(epsilon=1.0, delta=1e-6, path=path).spend(what="a table", epsilon=0.25)
    again = pais.Ledger(path=path)
    assert again.remaining == pais.Budget(epsilon=0.75, delta=1e-6)
    assert pais.Ledger(epsilon=1.0, delta=1e-6, path=str(path)).entries == again.entries
    with pytest.raises(pais.MismatchError):
        pais.Ledger(epsilon=2.0, delta=1e-6, path=path)
    with pytest.raises(pais.MismatchError):
        pais.Ledger(epsilon=1.0, path=path)
    path.write_text(path.read_text().replace('"epsilon": 1.0', '"epsilon": 9.0'))
    with pytest.raises(pais.MismatchError, match="changed"):
        again.check(epsilon=0.1)


def test_deleted_ledger_file_is_not_a_new_budget(tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    kept = pickle.dumps(ledger)
    (tmp_path / "budget.json").unlink()
    for call in (lambda: ledger.spent, lambda: ledger.spend(what="x", epsilon=0.1), lambda: pickle.loads(kept).spent):
        with pytest.raises(pais.ArgumentError):
            call()
    assert not (tmp_path / "budget.json").exists()


def test_a_ledger_is_never_copied(tmp_path: Path) -> None:
    memory, file = pais.Ledger(epsilon=1.0), pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    for ledger in (memory, file):
        assert copy.copy(ledger) is copy.deepcopy(ledger) is ledger
        assert clone(model(ledger=ledger)).ledger is ledger
    with pytest.raises(pais.ArgumentError, match="path"):
        pickle.dumps(memory)
    pickle.loads(pickle.dumps(file)).spend(what="there", epsilon=0.5)
    assert file.spent.epsilon == 0.5


@pytest.mark.parametrize("sampling", ["constrained", "uniform", "coreset", "none"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_an_entry_of_a_file_rebuilds_the_rule_and_the_profile_of_its_release(
    sampling: str, delta: float, tmp_path: Path
) -> None:
    made, X = plan(1.0, delta, sampling=sampling, sample_size=200), rows()
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5, path=tmp_path / "budget.json")
    pais.run(made, X, ledger=ledger)
    pais.survey(X, epsilon=0.25, ledger=ledger)
    (part,) = parts_of(pais.Ledger(path=ledger.path).entries[0])
    grid = np.linspace(0.0, RADIUS, 999)
    assert part.rule is not None
    assert np.array_equal(part.rule.probability(grid), made.rule.probability(grid))
    assert part.profile == made.mechanism.profile
    here, there = ledger.record_losses(X), pais.Ledger(path=ledger.path).record_losses(X)
    assert np.array_equal(here, there)
    own = pais.record_losses(made, np.minimum(np.linalg.norm(X, axis=1), RADIUS))
    assert np.asarray(here) == pytest.approx(own + 0.25, rel=1e-9)
    assert here.max() <= ledger.spent.epsilon * (1.0 + 1e-12)


def test_a_release_that_cannot_be_rebuilt_counts_with_its_price(tmp_path: Path) -> None:
    rule = pais.FunctionRule(function=lambda norm: 0.2 + 0.1 * norm, radius=RADIUS)
    made, X = plan(sampling=rule), rows()
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5, path=tmp_path / "budget.json")
    pais.run(made, X, ledger=ledger)
    known, rebuilt = ledger.record_losses(X), pais.Ledger(path=ledger.path).record_losses(X)
    assert np.median(known) < np.min(rebuilt)
    assert np.asarray(rebuilt) == pytest.approx(ledger.spent.epsilon)
    entry = ledger.entries[0]
    (whole,) = parts_of(dataclasses.replace(entry, parts=({"epsilon": 0.1},)))
    assert (whole.what, whole.epsilon, whole.delta) == (entry.what, entry.epsilon, entry.delta)


def test_record_losses_repr_says_not_protected() -> None:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    model(ledger=ledger, sampling="uniform", sample_size=100).fit(rows())
    losses = ledger.record_losses(rows())
    assert losses.shape == (600,)
    assert losses.protected is False
    assert "NOT PROTECTED" in repr(losses)
    assert str(float(losses[0])) not in str(losses)
    assert 0.0 < losses.max() <= 1.0
    with pytest.raises(TypeError):
        json.dumps({"losses": losses})


def test_parts_must_add_up_to_the_price() -> None:
    ledger = pais.Ledger(epsilon=3.0)
    with pytest.raises(pais.ArgumentError, match="add up"):
        ledger.spend(what="two", epsilon=1.0, parts=[Part(what="one", epsilon=0.4), Part(what="other", epsilon=0.5)])


def test_one_ledger_at_most_is_passed_to_another_process(tmp_path: Path) -> None:
    first, second = (pais.Ledger(epsilon=9.0, delta=1e-4, path=tmp_path / name) for name in ("a.json", "b.json"))
    with first, first, second, pytest.raises(pais.ArgumentError, match="only one"):
        pickle.dumps(model())
    with first:
        pickle.loads(pickle.dumps(model())).fit(rows())
    assert (len(first.entries), len(second.entries)) == (1, 0)


def test_record_losses_refuse_rows_of_another_width() -> None:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    model(ledger=ledger).fit(rows())
    with pytest.raises(pais.MismatchError, match="2"):
        ledger.record_losses(rows()[:, :1])


def test_a_printed_ledger_shows_what_is_spent_and_left(tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-6)
    assert str(ledger).splitlines()[0] == "Ledger of 0 releases"
    ledger.spend(what="a table", epsilon=0.3)
    assert str(ledger) == (
        "Ledger of 1 release\n  epsilon: 0.3 of 1 spent, 0.7 left\n  delta:   0 of 1e-06 spent, 1e-06 left"
    )
    assert repr(ledger) == "Ledger(epsilon=1.0, delta=1e-06)"
    assert str(tmp_path / "budget.json") in str(pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json"))
