"""The default delta, what of it is certified and charged, and warnings about weak guarantees."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import pais
from pais._base.numerics import exact
from pais.privacy import guarantee
from pais.privacy.guarantee import default_delta
from tests.support.oracles import remove_delta

BALL = pais.Ball(radius=4.0)
SURVEYED = "default for the surveyed number of rows; over all tables delta is at most 1e-06"


def rows(n: int = 600, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2))


def norms(n_rows: float = 600.0) -> pais.NormDistribution:
    return pais.NormDistribution(norms=np.array([1.0, 2.0, 3.0]), masses=np.full(3, n_rows / 3.0), radius=4.0)


def stated(n_rows: float = 600.0, **more: Any) -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters=2, radius=4.0, norms=norms(n_rows), **more)


@pytest.fixture(autouse=True)
def fresh_count() -> Iterator[None]:
    guarantee.forget_fits()
    yield
    guarantee.forget_fits()


# -- the number ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "delta"),
    [(1e-9, 1e-6), (0.5, 1e-6), (1, 1e-6), (99_999, 1e-6), (1e5, 1e-6), (1e6, 1e-7), (1e9, 1e-10), (1e12, 1e-13)],
)
def test_default_delta_by_number_of_rows(n_rows: float, delta: float) -> None:
    assert default_delta(n_rows) == delta


@given(st.floats(1e-3, 1e100))
def test_default_delta_is_never_above_either_limit_and_hardly_below(n_rows: float) -> None:
    delta = default_delta(n_rows)
    limit = min(Fraction(1, 10**6), 1 / (10 * Fraction(max(n_rows, 1.0))))
    assert 0 < exact(delta) <= limit
    assert exact(delta) >= limit * (1 - Fraction(1, 10**15))
    assert guarantee.delta_concern(delta, n_rows) is None


# -- what is certified and charged -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("facts", "n"), [({}, 600), ({"radius": 4.0}, 600), ({}, 400_000)], ids=str)
def test_a_surveyed_number_of_rows_is_certified_with_the_largest_default(n: int, facts: dict[str, Any]) -> None:
    ledger = pais.Ledger(epsilon=5.0, delta=1e-6)
    model = pais.DPKMeans(n_clusters=2, epsilon=5.0, ledger=ledger, **facts).fit(rows(n))
    certificate = model.certificate_
    assert certificate.delta == 1e-6 == ledger.spent.delta
    assert [(part.what, part.delta) for part in certificate.parts] == [("survey and k-means", 1e-6)]
    assert certificate.delta_basis == SURVEYED
    assert model.fit_.survey is not None
    n_rows = model.fit_.survey.norms.n_rows
    assert certificate.delta_used == model.plan_.delta == default_delta(n_rows)
    assert certificate.delta_used < 1e-6 if n == 400_000 else certificate.delta_used == 1e-6
    # The noise itself is made for a smaller delta, which leaves the survey its part.
    worst = pais.worst_case(
        model.plan_.rule, model.plan_.mechanism.profile, radius=model.plan_.ball.radius, epsilon=model.plan_.epsilon
    )
    assert worst.upper <= certificate.release_delta < certificate.delta_used


def test_neighbours_whose_surveys_differ_by_orders_of_magnitude_get_one_certified_delta() -> None:
    """Whatever number of rows a survey releases, certificate and charge are the same for both neighbours."""
    made = []
    for n_rows in (1.0, 1e3, 1e8, 1e12):
        survey = pais.Survey(ball=BALL, norms=norms(n_rows), epsilon=0.1, secure_randomness=True)
        plan = pais.plan_kmeans(
            n_clusters=2,
            n_features=2,
            epsilon=0.9,
            ball=survey.ball,
            norms=survey.norms,
            spent=(pais.Part(what="survey", epsilon=survey.epsilon),),
        )
        assert plan.delta == default_delta(survey.norms.n_rows)
        ledger = pais.Ledger(epsilon=1.0, delta=1e-6)
        certificate = pais.run(plan, rows(), ledger=ledger).certificate
        made.append((certificate.delta, certificate.delta_basis, ledger.spent.delta))
    assert set(made) == {(1e-6, SURVEYED, 1e-6)}


@pytest.mark.parametrize("mechanism", ["laplace", "l2"])
def test_pure_mechanisms_have_delta_zero_by_default(mechanism: str) -> None:
    ledger = pais.Ledger(epsilon=2.0)
    for facts in ({}, {"radius": 4.0, "norms": norms()}):
        model = pais.DPKMeans(n_clusters=2, mechanism=mechanism, ledger=ledger, **facts).fit(rows())
        assert model.certificate_.delta == model.certificate_.delta_used == 0.0
        assert model.certificate_.delta_basis == "pure noise"


@pytest.mark.parametrize("facts", [{}, {"radius": 4.0, "norms": norms()}], ids=["surveyed", "stated"])
def test_a_stated_delta_is_kept(facts: dict[str, Any]) -> None:
    certificate = pais.DPKMeans(n_clusters=2, delta=1e-9, **facts).fit(rows()).certificate_
    assert (certificate.delta, certificate.delta_used, certificate.delta_basis) == (1e-9, 1e-9, "stated")


class Unread:
    """Rows that fail when they are read."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a row was read")


def test_a_ledger_without_enough_delta_refuses_before_a_row_is_read() -> None:
    with pytest.raises(pais.BudgetError, match="too little delta"):
        pais.DPKMeans(ledger=pais.Ledger(epsilon=5.0, delta=9e-7)).fit(Unread())
    with pytest.raises(pais.BudgetError, match="too little delta"):
        stated(1e6, ledger=pais.Ledger(epsilon=5.0, delta=9e-8)).fit(Unread())
    # For a stated number of rows no more than its own delta is asked for.
    stated(1e6, ledger=pais.Ledger(epsilon=5.0, delta=1.01e-7)).fit(rows())


def test_a_plan_cannot_certify_less_than_its_delta() -> None:
    plan = pais.plan_kmeans(n_clusters=2, n_features=2, epsilon=1.0, ball=BALL, norms=norms(), delta=1e-7)
    kept = {name: getattr(plan, name) for name in ("ball", "rule", "mechanism", "epsilon", "delta")}
    with pytest.raises(pais.ArgumentError, match="certified_delta=9e-08 is below delta=1e-07"):
        pais.Plan(**kept, certified_delta=9e-8)
    assert "delta 2e-07" in pais.Plan(**kept, certified_delta=2e-7).explain()


# -- deltas far below 1e-12 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-13, 1e-30])
@pytest.mark.parametrize("sampling", ["none", "constrained", "uniform"])
def test_plans_at_a_tiny_delta_hold_in_fifty_digits(sampling: Any, delta: float) -> None:
    size = 2e11 if sampling == "uniform" else None
    more = {"sampling": sampling, "sample_size": size}
    plan = pais.plan_kmeans(n_clusters=2, n_features=2, epsilon=1.0, ball=BALL, norms=norms(1e12), delta=delta, **more)
    profile = plan.mechanism.profile
    norm = np.linspace(0.0, plan.ball.radius, 41)
    with mpmath.workdps(50):
        largest = mpmath.mpf(0)
        for one, kept in zip(norm.tolist(), plan.rule.probability(norm).tolist(), strict=True):
            weight = 1 / mpmath.mpf(kept)
            shift = weight * mpmath.hypot(1 / mpmath.mpf(profile.count_scale), mpmath.mpf(one) / profile.sum_scale)
            largest = max(largest, remove_delta(plan.epsilon, shift, kept))
    assert largest <= delta
    # The noise is not larger than it must be either.
    assert largest >= delta * 0.9


# -- warnings --------------------------------------------------------------------------------------------------------


def concerns(work: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    known = (pais.PrivacyWarning, pais.SurveyWarning, pais.QualityWarning)
    assert all(one.category in known for one in caught)
    assert all(Path(one.filename) == Path(__file__) for one in caught)
    return [str(one.message) for one in caught if one.category is pais.PrivacyWarning]


def test_warning_about_a_large_delta() -> None:
    (text,) = concerns(lambda: stated(600.0, delta=1e-3, random_state=0).fit(rows()))
    assert "delta=0.001 is too large for about 600 rows" in text
    assert "pass at most 1e-06" in text
    (text,) = concerns(lambda: pais.DPKMeans(n_clusters=2, epsilon=5.0, delta=1e-3, random_state=0).fit(rows(5000)))
    assert "is too large for about" in text
    assert concerns(lambda: stated(600.0, delta=1.0 / 6000.0, random_state=0).fit(rows())) == []


def test_warning_about_a_large_epsilon_before_a_row_is_read() -> None:
    (text,) = concerns(lambda: stated(epsilon=10.1, random_state=0).fit(rows()))
    assert text.startswith("epsilon=10.1 is a weak guarantee")
    assert concerns(lambda: stated(epsilon=10.0, random_state=0).fit(rows())) == []
    ledger = pais.Ledger(epsilon=50.0, delta=1e-5)
    with pytest.raises(pais.PrivacyWarning):
        stated(epsilon=20.0, ledger=ledger).fit(rows())
    assert ledger.entries == ()


def test_fits_without_a_ledger_are_counted_and_warned_of_at_powers_of_two() -> None:
    assert concerns(lambda: stated().fit(rows())) == []
    (text,) = concerns(lambda: stated(epsilon=0.5).fit(rows()))
    assert "private release number 2 of this process" in text
    assert "Losses on the same rows add up, here to epsilon 1.5." in text
    assert "pais.Ledger(" in text
    assert concerns(lambda: stated().fit(rows())) == []
    (text,) = concerns(lambda: stated().fit(rows()))
    assert "private release number 4" in text
    assert "epsilon 3.5." in text


def test_fits_with_a_ledger_or_a_seed_and_refused_ones_do_not_count() -> None:
    ledger = pais.Ledger(epsilon=10.0, delta=1e-5)

    def work() -> None:
        for _ in range(2):
            stated(random_state=0).fit(rows())
            stated(ledger=ledger).fit(rows())
            with ledger:
                stated().fit(rows())
            with pytest.raises(pais.PaisError):
                stated(sampling="all").fit(rows())
        stated().fit(rows())

    assert concerns(work) == []


@pytest.mark.parametrize("function", [pais.mean, pais.quantile, pais.count])
def test_a_statistic_of_a_table_that_cannot_be_opened_does_not_count(function: Any) -> None:
    table = pd.DataFrame({"age": [30.0, 40.0]})

    def work() -> None:
        for _ in range(4):
            with pytest.raises(pais.DataError):
                function(table, columns={"agee": (0, 100)}, epsilon=1.0)
        stated().fit(rows())

    assert concerns(work) == []


def test_fits_of_many_threads_are_counted_together() -> None:
    with ThreadPoolExecutor(8) as pool:
        concerns = list(pool.map(lambda _: guarantee.ledger_concern(0.5), range(400)))
    numbers = sorted(int(text.split()[5]) for text in concerns if text is not None)
    assert numbers == [2, 4, 8, 16, 32, 64, 128, 256]


def test_runs_surveys_and_audits_do_not_count_as_fits() -> None:
    plan = pais.plan_kmeans(n_clusters=2, n_features=2, epsilon=1.0, ball=BALL, norms=norms())

    def work() -> None:
        pais.audit(plan)
        pais.audit(plan, method="runs", runs=20)
        for _ in range(2):
            pais.survey(rows(), epsilon=0.1)
        stated().fit(rows())

    assert concerns(work) == []
