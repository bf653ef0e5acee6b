"""What all estimators have in common: the contract of scikit-learn, copies and pickles, and the ledger."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimators_pickle, estimator_checks_generator

import pais
from pais.estimator import PrivateEstimator

ROWS = np.random.default_rng(0).normal(size=(3000, 3))
MODELS: dict[str, PrivateEstimator] = {
    "k-means": pais.DPKMeans(),
    "pure k-means": pais.DPKMeans(mechanism="laplace", delta=0.0),
    "PCA": pais.DPPCA(),
    "linear regression": pais.DPLinearRegression(),
    "logistic regression": pais.DPLogisticRegression(),
}

# Checks of scikit-learn that ask for what the guarantee forbids, or for an answer where there is none.
EXPECTED_FAILURES = {
    "check_dtype_object": "one cell that is no number must not decide whether fit succeeds",
    "check_supervised_y_no_nan": "one target that is no number must not decide whether fit succeeds",
    "check_estimators_empty_data_messages": "an error would tell an empty table from a table with one row",
}
# The classes of a logistic regression are public, so a table of no rows or of odd targets has none.
REFUSED = {("logistic regression", "check_supervised_y_no_nan")}
REFUSED |= {("logistic regression", "check_estimators_empty_data_messages")}


def checks() -> list[Any]:
    found = []
    for name, model in MODELS.items():
        for number, (made, check) in enumerate(estimator_checks_generator(model)):
            title = getattr(check, "func", check).__name__
            fails = title in EXPECTED_FAILURES and (name, title) not in REFUSED
            marks = [pytest.mark.xfail(reason=EXPECTED_FAILURES[title], strict=True)] if fails else []
            found.append(pytest.param(made, check, id=f"{name}-{title}-{number}", marks=marks))
    return found


# scikit-learn warns where it skips a check (array API input without SCIPY_ARRAY_API). The tables of its checks are too
# small for a survey of their columns, and their classes are those of y.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::pais.SurveyWarning", "ignore::pais.QualityWarning")
@pytest.mark.filterwarnings("ignore:the classes are:pais.PrivacyWarning")
@pytest.mark.parametrize(("model", "check"), checks())
def test_scikit_learn_accepts_the_estimator(model: Any, check: Callable[[Any], None]) -> None:
    check(model)


class FiniteRowsOnly(pais.DPKMeans):
    """The estimator as scikit-learn's checks see it without the tag that makes them predict rows with NaN."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags


@pytest.mark.parametrize("readonly", [False, True])
def test_scikit_learn_accepts_the_pickled_estimator_on_finite_rows(readonly: bool) -> None:
    check_estimators_pickle("FiniteRowsOnly", FiniteRowsOnly(), readonly_memmap=readonly)


def fitted(name: str, **changes: Any) -> Any:
    model = clone(MODELS[name]).set_params(epsilon=1.0, random_state=0, **changes)
    y = ROWS.sum(axis=1)
    if name == "logistic regression":
        y = y > 0.0
        model.set_params(classes=[False, True])
    return model.fit(ROWS) if "k-means" in name or name == "PCA" else model.fit(ROWS, y)


def shown(model: Any) -> Any:
    return model.predict(ROWS) if hasattr(model, "predict") else model.transform(ROWS)


@pytest.mark.filterwarnings("ignore::pais.QualityWarning")
@pytest.mark.parametrize("name", MODELS)
def test_copies_and_pickles_predict_alike_and_clones_fit_alike(name: str) -> None:
    model = fitted(name)
    for other in (pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model), fitted(name)):
        np.testing.assert_array_equal(shown(other), shown(model))
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "fit_")


@pytest.mark.filterwarnings("ignore::pais.QualityWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_charged_once_and_refused_when_the_budget_is_used_up(name: str) -> None:
    ledger = pais.Ledger(epsilon=1.5, delta=1e-5)
    assert fitted(name, ledger=ledger).certificate_.epsilon <= 1.0
    assert ledger.spent.epsilon == pytest.approx(1.0)
    with pytest.raises(pais.BudgetError):
        fitted(name, ledger=ledger)
    assert ledger.spent.epsilon == pytest.approx(1.0)
