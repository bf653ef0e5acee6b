"""Fits, runs and surveys are charged once each, before anything leaves."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.model_selection import GridSearchCV

import pais
import pais.pipeline
from pais._base.lattice import TAPE
from pais._base.randomness import BitSource
from pais.accounting import stores
from pais.accounting.part import what_is_left
from tests.support.ledger_cases import RADIUS, model, norms, plan, rows


def test_fits_runs_and_surveys_are_charged_once_each(make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=10.0, delta=1e-5)
    X = rows()
    pais.DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, ledger=ledger).fit(X)
    assert [(entry.what, entry.epsilon, entry.delta) for entry in ledger.entries] == [
        ("survey and k-means", 1.0, 1e-6),
    ]
    pais.survey(X, epsilon=0.25, ledger=ledger)
    pais.run(plan(0.5), X, ledger=ledger)
    settings = pais.KMeansSettings(n_clusters=2, epsilon=0.75, mechanism="l2", radius=RADIUS, norms=norms())
    pais.fit(X, settings, ledger=ledger)
    assert [entry.epsilon for entry in ledger.entries] == pytest.approx([1.0, 0.25, 0.5, 0.75], rel=1e-6)
    assert ledger.spent.epsilon <= 2.5
    assert {entry.note for entry in ledger.entries} == {"secure randomness"}


def test_seeded_fits_are_charged_and_marked() -> None:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    model(ledger=ledger, random_state=3).fit(rows())
    pais.survey(rows(), epsilon=0.5, random_state=3, ledger=ledger)
    assert [entry.note for entry in ledger.entries] == ["seeded, not private"] * 2


def test_an_active_ledger_is_charged_from_every_thread_and_left_when_its_block_ends() -> None:
    X = rows()
    with pais.Ledger(epsilon=3.0, delta=1e-5) as ledger:
        model().fit(X)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: pais.survey(X, epsilon=0.25), range(2)))
        with pytest.raises(pais.BudgetError):
            pais.run(plan(2.0), X)
    model().fit(X)
    assert [entry.what for entry in ledger.entries] == ["k-means", "survey", "survey"]
    assert ledger.spent.epsilon == 1.5


def test_nested_blocks_charge_each_ledger_once(tmp_path: Path) -> None:
    X, path = rows(), tmp_path / "budget.json"
    with pais.Ledger(epsilon=3.0) as outer, pais.Ledger(epsilon=2.0, path=path) as inner:
        pais.survey(X, epsilon=0.5, ledger=pais.Ledger(path=path))
        pais.survey(X, epsilon=0.5, ledger=outer)
    assert outer.spent.epsilon == inner.spent.epsilon == 1.0
    assert len(outer.entries) == len(inner.entries) == 2


class Unread:
    """Rows that must not be looked at."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of the rows was asked for")


def test_a_refusal_comes_before_a_row_is_read() -> None:
    ledger = pais.Ledger(epsilon=0.5, delta=1e-5)
    settings = pais.KMeansSettings(n_clusters=2, epsilon=1.0, delta=1e-6)
    made = plan()
    for call in (
        lambda: model(ledger=ledger).fit(Unread()),
        lambda: pais.fit(Unread(), settings, ledger=ledger),
        lambda: pais.run(made, Unread(), ledger=ledger),
        lambda: pais.survey(Unread(), epsilon=0.75, ledger=ledger),
    ):
        with pytest.raises(pais.BudgetError):
            call()
    assert ledger.entries == ()


@dataclass(frozen=True, kw_only=True)
class Failing(pais.WeightedCount):
    """Fails before or after its noise is drawn."""

    draws: bool

    def measure(self, content: Any, ball: pais.Ball, bits: Any) -> float:
        if self.draws:
            super().measure(content, ball, bits)
        raise KeyboardInterrupt


def sampled() -> pais.WeightedSample:
    return pais.sample(rows(), ball=pais.Ball(radius=RADIUS), rule=pais.UniformRule(rate=0.5))


@pytest.mark.parametrize("draws", [False, True])
def test_failure_before_the_mechanism_is_not_charged_and_one_in_it_is(draws: bool) -> None:
    ledger = pais.Ledger(epsilon=5.0, delta=1e-5)
    bad = rows()
    bad[3, 1] = np.nan

    def strict() -> object:
        return pais.source(bad, missing="error")

    for call in (lambda: model(ledger=ledger).fit(strict()), lambda: pais.survey(strict(), epsilon=1.0, ledger=ledger)):
        with pytest.raises(ValueError, match=r"NaN|finite"):
            call()
    with pytest.raises(KeyboardInterrupt):
        pais.release(Failing(noise=pais.laplace_noise(1.0), draws=draws), sampled(), ledger=ledger)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_clusters": 0},
        {"n_clusters": 2.5},
        {"delta": 0.0},
        {"sample_size": -5.0},
        {"mechanism": "laplce"},
        {"sampling": "foo"},
        {"radius": 0.0},
        {"center": (0.0, 0.0, 0.0)},
        {"epsilon": math.inf},
    ],
    ids=str,
)
def test_plan_that_cannot_run_is_refused_before_a_survey_is_charged(wrong: dict[str, Any]) -> None:
    ledger = pais.Ledger(epsilon=5.0, delta=1e-5)
    stated = {"n_clusters": 2, "epsilon": 1.0, "delta": 1e-6, **wrong}
    with pytest.raises(pais.PaisError):
        pais.DPKMeans(**stated, ledger=ledger).fit(rows())
    assert ledger.entries == ()


class Witness(BitSource):
    """Bits that look at the ledger each time they are asked for."""

    private = True

    def __init__(self, path: Path) -> None:
        self.path, self.seen = path, set()

    def raw(self, n_bytes: int) -> bytes:
        self.seen.add(len(pais.Ledger(path=self.path).entries))
        return bytes(range(256)) * (n_bytes // 256) + bytes(range(n_bytes % 256))


class Watch:
    """A tape that notes how many entries a ledger has whenever noise is drawn or a candidate is chosen."""

    closed = False

    def __init__(self, ledger: pais.Ledger) -> None:
        self.ledger, self.released, self.entries = ledger, False, {False: set(), True: set()}

    def note(self) -> None:
        self.entries[self.released].add(len(self.ledger.entries))

    def noisy(self, total: Any, noisy: Any, **_: Any) -> Any:
        self.note()
        return noisy

    def chosen(self, scores: Any, choice: int, **_: Any) -> int:
        self.note()
        return choice

    def begin_sample(self, content: Any, plan: Any) -> None:
        self.released = True

    def end_sample(self) -> None: ...


AUTO = {"x": "auto", "y": "auto"}
PRICED_APART = {
    "k-means": lambda table, ledger: pais.DPKMeans(2, columns=AUTO, mechanism="l2", ledger=ledger).fit(table),
    "mean": lambda table, ledger: pais.mean(table, columns=AUTO, delta=0.0, ledger=ledger),
    "median": lambda table, ledger: pais.quantile(table, columns=AUTO, ledger=ledger),
    "total about people": lambda table, ledger: pais.sum(table, columns=AUTO, unit="who", delta=0.0, ledger=ledger),
}
PRICED_TOGETHER = {
    "k-means": lambda table, ledger: pais.DPKMeans(2, columns=AUTO, ledger=ledger).fit(table),
    "mean": lambda table, ledger: pais.mean(table, columns=AUTO, delta=0.1, ledger=ledger),
    "total about people": lambda table, ledger: pais.sum(table, columns=AUTO, unit="who", delta=0.1, ledger=ledger),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("call", PRICED_APART.values(), ids=PRICED_APART)
def test_survey_and_release_are_each_charged_before_they_draw_noise(call: Callable[..., Any]) -> None:
    assert entries_at_draws(call) == {False: {1}, True: {2}}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("call", PRICED_TOGETHER.values(), ids=PRICED_TOGETHER)
def test_a_joint_price_is_charged_before_the_survey_draws_noise(call: Callable[..., Any]) -> None:
    assert entries_at_draws(call) == {False: {1}, True: {1}}


def entries_at_draws(call: Callable[..., Any]) -> dict[bool, set[int]]:
    """Numbers of entries of a ledger at the draws of a survey, and at those of the release after it."""
    table = pytest.importorskip("pandas").DataFrame(rows()[:, :2], columns=["x", "y"])
    watch = Watch(pais.Ledger(epsilon=9.0, delta=0.5))
    token = TAPE.set(watch)
    try:
        call(table.assign(who=np.arange(len(table)) // 2), watch.ledger)
    finally:
        TAPE.reset(token)
    return watch.entries


def test_price_is_on_disk_before_noise_is_drawn(tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=5.0, path=tmp_path / "budget.json")
    noise = Witness(tmp_path / "budget.json")
    pais.release(pais.WeightedCount(noise=pais.laplace_noise(1.0)), sampled(), ledger=ledger, random_state=noise)
    assert noise.seen == {1}
    looked = Witness(tmp_path / "budget.json")
    pais.survey(rows(), epsilon=0.5, ledger=ledger, random_state=looked)
    assert looked.seen == {2}


def test_a_mechanism_without_noise_is_charged_too() -> None:
    class Silent(pais.WeightedCount):
        def measure(self, content: Any, ball: pais.Ball, bits: Any) -> float:
            return 0.0

    ledger = pais.Ledger(epsilon=5.0)
    pais.release(Silent(noise=pais.laplace_noise(1.0)), sampled(), ledger=ledger)
    assert len(ledger.entries) == 1


def test_survey_is_charged_before_a_refusal_may_quote_it() -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-6)
    narrow = pais.UniformRule(rate=0.5, radius=1e-9)
    demanding = pais.DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, ledger=ledger, sampling=narrow)
    with pytest.raises(pais.PaisError):
        demanding.fit(rows())
    assert [(entry.what, entry.epsilon) for entry in ledger.entries] == [("survey and k-means", 1.0)]
    # Not once more: nothing is left.
    with pytest.raises(pais.BudgetError):
        demanding.fit(rows())


def test_nothing_is_returned_if_the_budget_was_spent_meanwhile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    ledger = pais.Ledger(epsilon=1.0, delta=1e-5, path=path)
    real = pais.pipeline.sample_for

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        pais.Ledger(path=path).spend(what="another's", epsilon=0.75)
        return real(*args, **kwargs)

    monkeypatch.setattr("pais.pipeline.sample_for", meanwhile)
    fitted = model(ledger=ledger)
    with pytest.raises(pais.BudgetError):
        fitted.fit(rows())
    assert not hasattr(fitted, "cluster_centers_")
    assert [entry.what for entry in ledger.entries] == ["another's"]


def test_fit_started_in_a_block_is_charged_after_the_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, real = pais.Ledger(epsilon=5.0, delta=1e-5), pais.DPKMeans._rows

    def leaving(*args: Any, **kwargs: Any) -> Any:
        ledger.__exit__(None, None, None)
        return real(*args, **kwargs)

    monkeypatch.setattr(pais.DPKMeans, "_rows", leaving)
    ledger.__enter__()
    model().fit(rows())
    assert len(ledger.entries) == 1


def test_the_spend_is_on_disk_before_the_value_is_returned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-5, path=tmp_path / "budget.json")

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(stores, "_sync_directory", broken)
    fitted = model(ledger=ledger)
    with pytest.raises(pais.ArgumentError, match="cannot be written"):
        fitted.fit(rows())
    assert not hasattr(fitted, "cluster_centers_")


@pytest.mark.slow
@pytest.mark.parametrize(("way", "n_jobs"), [("passed", 1), ("active", 2)])
def test_a_grid_search_is_charged_for_every_fit_and_refused_when_the_budget_is_used_up(
    way: str, n_jobs: int, tmp_path: Path
) -> None:
    # 2 settings, 2 folds, and the fit of the best on all rows.
    ledger = pais.Ledger(epsilon=6.0, delta=1e-5, path=tmp_path / "budget.json")
    searched = model(ledger=ledger) if way == "passed" else model()
    search = GridSearchCV(searched, {"n_clusters": [2, 3]}, cv=2, n_jobs=n_jobs, error_score="raise")
    if way == "passed":
        search.fit(rows())
    else:
        with ledger:
            search.fit(rows())
    assert len(ledger.entries) == 5
    assert ledger.spent.epsilon == 5.0
    again = GridSearchCV(model(ledger=ledger), {"n_clusters": [2, 3]}, cv=2, n_jobs=n_jobs, error_score="raise")
    with pytest.raises(pais.BudgetError):
        again.fit(rows())
    assert ledger.spent.epsilon == 6.0


def test_a_search_in_other_processes_is_refused_with_a_ledger_in_memory() -> None:
    search = GridSearchCV(model(), {"n_clusters": [2, 3]}, cv=2, n_jobs=2, error_score="raise")
    with pais.Ledger(epsilon=9.0, delta=1e-5) as ledger, pytest.raises(Exception, match=r"path|pickle"):
        search.fit(rows())
    assert ledger.entries == ()


def test_a_release_by_hand_is_charged_too_and_a_refused_one_leaves_the_sample_unspent() -> None:
    count = pais.WeightedCount(noise=pais.laplace_noise(1.0))
    first, second = (
        pais.sample(rows(), ball=pais.Ball(radius=RADIUS), rule=pais.UniformRule(rate=1.0)) for _ in range(2)
    )
    ledger, other = pais.Ledger(epsilon=1.5), pais.Ledger(epsilon=9.0)
    with other:
        made = pais.release(count, first, spent=(pais.Part(what="earlier", epsilon=0.25),), ledger=ledger)
        # The earlier release is not charged again.
        price = made.certificate.parts[-1].epsilon
        assert price == pytest.approx(1.0)
        assert ledger.spent.epsilon == other.spent.epsilon == price
        with pytest.raises(pais.BudgetError):
            pais.release(count, second, ledger=ledger)
        assert len(other.entries) == 1
    pais.release(count, second)


def test_pickled_model_loads_without_its_ledger(tmp_path: Path) -> None:
    file, memory = (
        pais.Ledger(epsilon=9.0, delta=1e-4, path=tmp_path / "budget.json"),
        pais.Ledger(epsilon=9.0, delta=1e-4),
    )
    with file:
        kept = pickle.dumps(model().fit(rows()))
    pickle.loads(kept).fit(rows())
    assert len(file.entries) == 2
    with memory:
        elsewhere = pickle.loads(pickle.dumps(model().fit(rows())))
        copied = copy.copy(copy.deepcopy(model(ledger=memory).fit(rows())))
    for use in (lambda: elsewhere.fit(rows()), lambda: elsewhere.ledger.spend(what="x", epsilon=0.1)):
        with pytest.raises(pais.ArgumentError, match="set_params"):
            use()
    copied.fit(rows())
    assert len(memory.entries) == 3
    # Copies within the process are bound to no block; a pickle inside two of them holds the model's own ledger.
    with memory, file:
        assert copy.copy(model(ledger=None)).ledger is None
        assert copy.deepcopy(model(ledger=file)).ledger is file
        assert pickle.loads(pickle.dumps(copied)).ledger.path is None
    # Stored once more, and loaded where no ledger is: it predicts.
    (tmp_path / "budget.json").unlink()
    for stored in (kept, pickle.dumps(elsewhere)):
        loaded = pickle.loads(stored)
        assert loaded.predict(rows()).shape == (600,)
        with pytest.raises(pais.ArgumentError):
            loaded.fit(rows())


@settings(deadline=None)
@given(budget=st.floats(1e-9, 1e6), share=st.floats(1e-9, 1.0, exclude_max=True))
def test_budget_left_by_a_survey_fits_the_ledger_to_the_last_decimal(budget: float, share: float) -> None:
    ledger = pais.Ledger(epsilon=budget)
    ledger.spend(what="survey", epsilon=share * budget)
    ledger.spend(what="the rest", epsilon=what_is_left(budget, share * budget))


def surveyed_fit(survey: pais.Survey, ledger: pais.Ledger, epsilon: float = 1.0) -> None:
    settings = pais.KMeansSettings(n_clusters=2, epsilon=epsilon)
    pais.fit(rows(), settings, facts=pais.Facts.of(survey), ledger=ledger)


def test_the_survey_behind_a_plan_is_charged_once_to_a_ledger_that_lacks_it() -> None:
    survey = pais.survey(rows(), epsilon=0.25)
    ledger = pais.Ledger(epsilon=2.0, delta=1e-5)
    surveyed_fit(survey, ledger)
    surveyed_fit(survey, ledger)
    assert [entry.what for entry in ledger.entries] == ["survey", "k-means", "k-means"]
    assert survey.name in {entry.release for entry in ledger.entries}


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_a_survey_that_the_ledger_holds_at_another_price_is_refused(epsilon: float) -> None:
    ledger = pais.Ledger(epsilon=10.0, delta=1e-5)
    survey = pais.survey(rows(), epsilon=0.25, ledger=ledger)
    with pytest.raises(pais.MismatchError, match="another price"):
        surveyed_fit(pais.Survey.from_dict({**survey.to_dict(), "epsilon": epsilon}), ledger)
    assert ledger.spent.epsilon == 0.25
    surveyed_fit(survey, ledger)
    assert ledger.spent.epsilon == 1.0
