"""A fit with a Gaussian survey is charged once, as a whole, before the survey draws noise."""

from __future__ import annotations

import contextlib
import json
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pais
from pais._base.randomness import SecureBits
from pais.accounting.ledger import Prepaid, accounts
from pais.accounting.part import Part

DELTA = 1e-6


def rows(n: int = 2000) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 2))


def settings(**changes: Any) -> pais.KMeansSettings:
    return pais.KMeansSettings(**{"n_clusters": 2, "epsilon": 1.0, "delta": DELTA, **changes})


def entries(ledger: pais.Ledger) -> list[tuple[str, float, float, str]]:
    return [(entry.what, entry.epsilon, entry.delta, entry.note) for entry in ledger.entries]


WHOLE = ("survey and k-means", 1.0, DELTA, "secure randomness")


@pytest.mark.parametrize("facts", [{}, {"radius": 3.0}, {"center": (0.0, 0.0)}], ids=str)
def test_a_fit_is_one_entry_of_its_whole_price(facts: dict[str, Any], tmp_path: Path) -> None:
    file = pais.Ledger(epsilon=1.0, delta=DELTA, path=tmp_path / "budget.json")
    memory = pais.Ledger(epsilon=1.0, delta=DELTA)
    with memory:
        fit = pais.fit(rows(), settings(**facts), ledger=file)
    assert entries(file) == entries(memory) == [WHOLE]
    assert sorted(fit.certificate.ledger_entries) == sorted(
        entry.id for ledger in (file, memory) for entry in ledger.entries
    )
    assert file.remaining == pais.Budget(epsilon=0.0, delta=0.0)


def test_the_whole_price_is_on_disk_before_the_survey_draws_noise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, seen = tmp_path / "budget.json", set()
    raw = SecureBits.raw

    def looking(self: SecureBits, n_bytes: int) -> bytes:
        seen.add(tuple(entries(pais.Ledger(path=path))))
        return raw(self, n_bytes)

    monkeypatch.setattr(SecureBits, "raw", looking)
    pais.fit(rows(500), settings(), ledger=pais.Ledger(epsilon=1.0, delta=DELTA, path=path))
    assert seen == {(WHOLE,)}


def test_a_budget_spent_meanwhile_stops_the_survey(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=DELTA)
    opened = pais.planning.settings.opened

    def meanwhile(*arguments: Any) -> Any:
        ledger.spend(what="another's", epsilon=0.5)
        return opened(*arguments)

    monkeypatch.setattr("pais.planning.settings.opened", meanwhile)
    monkeypatch.setattr(SecureBits, "raw", lambda *_: pytest.fail("noise was drawn"))
    with pytest.raises(pais.BudgetError):
        pais.fit(rows(), settings(), ledger=ledger)
    assert [entry.what for entry in ledger.entries] == ["another's"]


def test_a_failure_after_the_survey_has_spent_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    monkeypatch.setattr("pais.pipeline.sample_for", failing)
    with pytest.raises(KeyboardInterrupt):
        pais.fit(rows(), settings(), ledger=ledger)
    assert entries(ledger) == [WHOLE]


def test_another_run_of_the_plan_is_charged_again(tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    fit = pais.fit(rows(), settings(), ledger=ledger)
    fit.plan.save(tmp_path / "plan.json")
    for plan in (fit.plan, pais.Plan.load(tmp_path / "plan.json")):
        assert [(part.what, part.epsilon, part.delta) for part in plan.due] == [WHOLE[:3]]
        again = pais.run(plan, rows(), ledger=ledger).certificate
        assert (again.epsilon, again.delta, again.survey_shift) == (1.0, DELTA, fit.plan.survey_shift)
        assert set(again.ledger_entries) == {ledger.entries[-1].id}
    assert entries(ledger) == [WHOLE] * 3
    with pytest.raises(pais.BudgetError):
        pais.run(fit.plan, rows(), ledger=ledger)


@pytest.mark.filterwarnings("ignore:these facts come from the Gaussian survey:pais.PrivacyWarning")
def test_another_fit_from_the_same_survey_is_charged_its_own_joint_price(tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    fit = pais.fit(rows(), settings(), ledger=ledger)
    assert fit.survey is not None
    fit.survey.save(tmp_path / "survey.json")
    survey = pais.Survey.load(tmp_path / "survey.json")
    again = pais.fit(rows(), settings(epsilon=0.5), facts=pais.Facts.of(survey), ledger=ledger)
    assert entries(ledger) == [WHOLE, ("survey and k-means", 0.5, DELTA, "secure randomness")]
    assert again.certificate.survey_shift == survey.shift
    assert json.loads((tmp_path / "survey.json").read_text())["epsilon"] == "infinity"


def test_prepaid_accounts_pay_one_survey_and_one_release_within_the_price() -> None:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    whole = Part(what="survey and k-means", epsilon=1.0, delta=DELTA)
    survey, release = Part(what="survey", epsilon=0.0, shift=0.1, release="name"), whole
    prepaid = Prepaid(accounts(ledger), whole)
    assert not prepaid.empty
    for act in (prepaid.check, prepaid.spend):
        with pytest.raises(pais.MismatchError, match="not covered"):
            act(release)
    assert ledger.entries == ()
    paid = prepaid.spend(survey)
    for wrong in (
        survey,
        Part(what="k-means", epsilon=1.1, delta=DELTA),
        Part(what="k-means", epsilon=1.0, delta=2 * DELTA),
        Part(what="earlier", epsilon=0.1, release="another"),
    ):
        with pytest.raises(pais.MismatchError, match="not covered"):
            prepaid.spend(wrong)
    prepaid.check(release)
    assert prepaid.spend(release) == paid == [ledger.entries[0].id]
    with pytest.raises(pais.MismatchError, match="not covered"):
        prepaid.spend(release)
    assert entries(ledger) == [WHOLE]


def test_two_threads_that_ask_at_the_same_time_get_one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Part(what="survey and k-means", epsilon=1.0, delta=DELTA)
    prepaid = Prepaid(accounts(pais.Ledger(epsilon=1.0, delta=DELTA)), whole)
    prepaid.spend(Part(what="survey", epsilon=0.0, shift=0.1, release="name"))
    both_ask, includes = threading.Barrier(2), Prepaid._includes

    def waits_for_the_other(self: Prepaid, part: Part) -> bool:
        # Without a lock, both threads meet here and find the release paid for.
        with contextlib.suppress(threading.BrokenBarrierError):
            both_ask.wait(timeout=0.2)
        return includes(self, part)

    monkeypatch.setattr(Prepaid, "_includes", waits_for_the_other)

    def asks(_: int) -> bool:
        try:
            prepaid.spend(whole)
        except pais.MismatchError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(asks, range(2))) == [False, True]


def test_facts_of_a_gaussian_survey_warn_that_epsilon_must_not_depend_on_them() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = pais.fit(rows(), settings(), random_state=0)
    assert first.survey is not None
    with pytest.warns(pais.PrivacyWarning, match="epsilon that you chose before you saw the survey"):
        pais.Facts.of(first.survey)
    alone = pais.survey(rows(), epsilon=1.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pais.Facts.of(alone)
