"""The audit of a whole fit: planted faults are caught, right fits pass, and nothing is charged or warned about."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pais
from benchmarks.audit_cases import Case
from benchmarks.audit_fits import FIT_CASES, model
from pais.auditing.fits import FitTarget
from pais.auditing.targets import Draws
from pais.privacy.guarantee import forget_fits

PAIR = pais.NeighbourPair.of([1.0], [[-0.5]])
RIGHT_SEEDS = range(2)


def usual(kind: type[pais.DPKMeans] = pais.DPKMeans, **settings: Any) -> pais.DPKMeans:
    return model(kind, **{"radius": 1.0, **settings})


@pytest.mark.parametrize("case", FIT_CASES, ids=lambda case: case.name)
def test_planted_fault_is_caught_and_the_right_fit_is_not_refuted(case: Case) -> None:
    # Faults that let a row through without noise need fewer runs than the table has.
    broken = case.audit(broken=True, seed=0, runs=case.runs if case.runs >= 400 else 100)
    assert broken.certified is not None
    assert broken.violates
    assert broken.lower_bound > 1.2 * broken.certified
    for seed in RIGHT_SEEDS:
        right = case.audit(broken=False, seed=seed, runs=50)
        assert right.certified == pytest.approx(broken.certified, rel=1e-9)
        assert not right.violates, str(right)


def test_bound_of_a_right_fit_is_informative_at_large_epsilon() -> None:
    # With enough rows beside the record that the noise drowns neither them nor a cell of the record.
    pair = pais.NeighbourPair.of([1.0], [[0.5]] * 20)
    report = pais.audit(usual(epsilon=8.0), pair=pair, runs=400, random_state=0)
    assert 1.0 < report.lower_bound <= 8.0
    assert report.target == "a whole fit of DPKMeans"


def test_claim_comes_from_the_certificate_or_from_the_caller() -> None:
    pure = pais.audit(usual(epsilon=0.7), pair=PAIR, runs=4, random_state=0)
    assert pure.certified == pytest.approx(0.7, rel=1e-9)
    assert pure.delta == 0.0
    gaussian = usual(mechanism="gaussian", delta=0.01)
    report = pais.audit(gaussian, pair=PAIR, runs=4, random_state=0)
    assert (report.certified, report.delta) == (pytest.approx(1.0, rel=1e-9), 0.01)
    assert pais.audit(gaussian, pair=PAIR, delta=0.02, runs=4, random_state=0).delta == 0.02
    assert pais.audit(gaussian, pair=PAIR, epsilon=9.0, delta=0.001, runs=4, random_state=0).certified == 9.0
    with pytest.raises(pais.ArgumentError, match="below the certified delta"):
        pais.audit(gaussian, pair=PAIR, delta=0.001, runs=4, random_state=0)


def test_no_ledger_is_charged_and_the_model_stays_as_it_was() -> None:
    own, active = pais.Ledger(epsilon=0.1), pais.Ledger(epsilon=0.1)
    audited = usual(ledger=own, random_state=5)
    with active:
        pais.audit(audited, runs=4, random_state=0)
    assert own.entries == active.entries == ()
    assert not hasattr(audited, "cluster_centers_")
    assert audited.get_params()["ledger"] is own
    assert audited.get_params()["random_state"] == 5


def test_no_warnings_are_issued_although_each_fit_warns() -> None:
    with pytest.warns(pais.errors.SurveyWarning):
        usual(random_state=0).fit(PAIR.with_record)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pais.audit(usual(epsilon=12.0), pair=PAIR, runs=4, random_state=0)
        pais.audit(usual(mechanism="gaussian", delta=0.2), pair=PAIR, runs=4)


def test_secure_runs_do_not_count_as_fits_without_a_ledger() -> None:
    forget_fits()
    try:
        pais.audit(usual(), pair=PAIR, runs=4)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pais.errors.PrivacyWarning)
            warnings.simplefilter("ignore", pais.errors.SurveyWarning)
            usual().fit(PAIR.with_record)
        with pytest.warns(pais.errors.PrivacyWarning, match="private release number 2"):
            usual().fit(PAIR.with_record)
    finally:
        forget_fits()


class WarnsOfFewRows(pais.DPKMeans):
    """The exact number of rows decides whether a warning is issued."""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        if len(X) == 1:
            warnings.warn("few rows", RuntimeWarning, stacklevel=2)
        return super().fit(X)


def test_warning_is_part_of_the_outcome() -> None:
    report = pais.audit(usual(WarnsOfFewRows), pair=PAIR, runs=60, random_state=0)
    assert report.violates
    assert report.best.event.startswith("warnings is equal to")


def test_single_run_equals_a_fit() -> None:
    for kind in ("l2", "gaussian"):
        settings = {"mechanism": kind, "delta": 0.01 if kind == "gaussian" else 0.0}
        target = FitTarget.of(
            usual(**settings),
            epsilon=None,
            delta=None,
            statistic={"center": lambda fitted: fitted.cluster_centers_[0, 0]},  # type: ignore[attr-defined]
            n_features=1,
        )
        target.prepare([PAIR], Draws.of(0))
        seen = target.observe(PAIR.with_record, PAIR, 1, Draws.of(7))
        with pytest.warns(pais.errors.SurveyWarning):
            expected = usual(random_state=np.random.default_rng(7), **settings).fit(PAIR.with_record)
        assert seen["center"][0] == expected.cluster_centers_[0, 0]


def test_runs_are_repeated_by_a_seed_and_work_without_one() -> None:
    once, again = (pais.audit(usual(), pair=PAIR, runs=20, random_state=3) for _ in range(2))
    assert once.findings == again.findings
    notes: set[object] = set()
    pais.audit(usual(), pair=PAIR, runs=2, statistic=lambda fitted: notes.add(fitted.certificate_.note) or 0.0)  # type: ignore[attr-defined,func-returns-value]
    assert notes == {"secure randomness"}


def test_own_statistic_is_given_the_fitted_model() -> None:
    def released_radius(fitted: object) -> float:
        assert isinstance(fitted, pais.DPKMeans)
        return float(fitted.plan_.ball.radius)

    report = pais.audit(usual(), pair=PAIR, statistic={"radius": released_radius}, runs=10, random_state=0)
    assert {finding.event.split(" is ")[0] for finding in report.findings} <= {
        "radius",
        "outcome",
        "message",
        "warnings",
    }


class FailsOnOneRow(pais.DPKMeans):
    """The number of rows decides whether the call succeeds."""

    refused = 1

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        if len(X) == self.refused:
            raise ZeroDivisionError("no rows are left")
        return super().fit(X)


class FailsOnTwoRows(FailsOnOneRow):
    refused = 2


@pytest.mark.parametrize("kind", [FailsOnOneRow, FailsOnTwoRows])
def test_exception_is_an_outcome(kind: type[pais.DPKMeans]) -> None:
    report = pais.audit(usual(kind), pair=PAIR, runs=60, random_state=0)
    assert report.violates
    assert report.best.event in ("outcome is equal to released", "outcome is equal to ZeroDivisionError")


def test_error_that_every_attempt_raises_is_passed_on() -> None:
    with pytest.raises(pais.ArgumentError, match="n_clusters"):
        pais.audit(usual(n_clusters=-1), pair=PAIR, runs=4, random_state=0)


class Interrupted(pais.DPKMeans):
    calls = 0

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        Interrupted.calls += 1
        if Interrupted.calls == 3:
            raise KeyboardInterrupt
        return super().fit(X)


def test_interrupt_ends_the_audit_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        pais.audit(usual(Interrupted), pair=PAIR, runs=1_000, random_state=0)
    assert Interrupted.calls == 3


def test_time_limit_ends_the_runs() -> None:
    report = pais.audit(usual(), pair=PAIR, runs=10**6, seconds=0.5, random_state=0)
    assert 0 < report.runs < 10**5
    assert report.seconds < 30.0


def test_proposed_pairs_have_the_columns_of_the_center_and_one_with_many_rows() -> None:
    target = FitTarget.of(usual(center=(1.0, 2.0, 3.0)), epsilon=None, delta=None, statistic=None, n_features=None)
    few, many = target.pairs()
    assert few.with_record.shape == (2, 3)
    assert many.with_record.shape == (201, 3)
    np.testing.assert_allclose(few.record, [2.0, 2.0, 3.0])


def test_rule_and_ball_do_not_go_with_a_fit() -> None:
    with pytest.raises(pais.ArgumentError, match="leave them out"):
        pais.audit(usual(), pair=PAIR, ball=pais.Ball(radius=1.0), runs=4)


ESTIMATORS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "pca": (pais.DPPCA, {"n_components": 1}),
    "linear regression": (pais.DPLinearRegression, {}),
    "logistic regression": (pais.DPLogisticRegression, {"classes": [-0.5, 1.0]}),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_whole_fits_of_other_estimators_are_audited(name: str) -> None:
    """A fit that fails for more than thirty rows tells whether the record is there."""
    kind, settings = ESTIMATORS[name]

    class Fragile(kind):  # type: ignore[misc,valid-type]  # a class that is chosen at run time
        def fit(self, X: Any, y: Any = None) -> Any:
            if len(X) > 30:
                raise ValueError("too many rows")
            return super().fit(X, y) if y is not None else super().fit(X)

    pair = pais.NeighbourPair.of([1.0, 1.0], [[-0.5, -0.5]] * 30)
    right = pais.audit(kind(epsilon=0.5, **settings), pair=pair, runs=6, random_state=0)
    assert right.target == f"a whole fit of {kind.__name__}"
    assert (right.certified, right.violates) == (0.5, False)
    broken = pais.audit(Fragile(epsilon=0.5, **settings), pair=pair, runs=50, random_state=0)
    assert broken.violates
    assert "outcome" in broken.best.event or "message" in broken.best.event
