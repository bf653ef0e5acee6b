"""One odd target changes nothing about how the other rows are read, and does not decide whether a fit succeeds."""

import math

import numpy as np
import pytest

import pais
from pais.data.ball import Ball
from pais.data.engines.base import AllRows
from pais.estimator import Labelled

N = 40
X = np.linspace(-1.0, 1.0, 2 * N).reshape(N, 2)
CLASSES = [[0, 1], [False, True], ["a", "b"], [0.0, 1.0]]
ODD = ["other", None, 0.5, 7, 1j, b"x", [1, 2], float("nan"), 2**70, 10**400, np.datetime64("2020-01-01"), ...]


def opened_sum(model, y):
    """Sum of the rows as the engine reads them."""
    if isinstance(model, pais.DPLogisticRegression):
        model.classes_ = model._public_classes(X, y)
    rows = AllRows(engine=model._opened(Labelled(X=X, y=y)), ball=Ball(radius=1e6), seeded=True)
    return rows.total(lambda rows, weights: np.rint(rows * 2.0**20).astype(np.int64).sum(axis=0)[-2:])


def with_cell(y, cell, kind):
    cells = list(y)
    cells[3] = cell
    if kind is list:
        return cells
    array = np.empty(len(cells), dtype=object)
    for place, value in enumerate(cells):
        array[place] = value
    return array


@pytest.mark.parametrize("kind", [list, object])
@pytest.mark.parametrize("cell", ODD, ids=repr)
@pytest.mark.parametrize("classes", CLASSES, ids=str)
def test_an_odd_class_counts_as_no_class(classes, cell, kind):
    model = pais.DPLogisticRegression(classes=classes)
    y = [classes[place % 2] for place in range(N)]
    assert np.array_equal(opened_sum(model, with_cell(y, cell, kind)), opened_sum(model, with_cell(y, None, kind)))
    assert np.all(opened_sum(model, with_cell(y, cell, kind)) > 0)


@pytest.mark.parametrize("kind", [list, object])
@pytest.mark.parametrize("cell", ["other", None, 1j, b"x", [1, 2], float("nan"), ...], ids=repr)
@pytest.mark.parametrize("values", [[0.5, 2.0], [1, 2**60 + 1], [False, True]], ids=str)
def test_an_odd_number_leaves_out_its_row_alone(values, cell, kind):
    model = pais.DPLinearRegression(columns={"y": (0, 2**61)})
    y = [values[place % 2] for place in range(N)]
    assert np.array_equal(opened_sum(model, with_cell(y, cell, kind)), opened_sum(model, with_cell(y, None, kind)))


def test_a_column_of_targets_in_lists_is_read_as_its_cells():
    model = pais.DPLinearRegression(columns={"y": (0, 1)})
    y = (np.arange(N) / N).tolist()
    assert np.array_equal(opened_sum(model, [[cell] for cell in y]), opened_sum(model, y))


@pytest.mark.parametrize("kind", [np.longdouble, "m8[D]", "V8"])
def test_a_kind_of_numbers_that_cannot_be_read_is_refused_in_words(kind):
    with pytest.raises(pais.DataError, match="y"):
        pais.DPLinearRegression().fit(X, np.zeros(N).astype(kind))


@pytest.mark.parametrize(
    ("y", "weights"),
    [
        (["secret"] * N, None),
        ([0.0, "secret"] * (N // 2), None),
        ([0.0] * (N - 1), None),
        ([0.0] * N, [1.0] * 7),
        ([0.0] * N, ["secret"] * N),
        ([[0.0, 1.0]] * N, None),
        ([math.nan] * N, None),
    ],
)
@pytest.mark.parametrize("estimator", [pais.DPLinearRegression, pais.DPLogisticRegression])
@pytest.mark.filterwarnings("ignore::pais.QualityWarning")
def test_errors_of_score_show_neither_cells_nor_numbers_of_rows(estimator, y, weights):
    known = {"classes": [0.0, 1.0]} if estimator is pais.DPLogisticRegression else {}
    model = estimator(random_state=0, columns={"x0": (-1, 1), "x1": (-1, 1), "y": (0, 1)}, **known)
    model.fit(X, [0.0, 1.0] * (N // 2))
    text = ""
    try:
        model.score(X, y, sample_weight=weights)
    except pais.DataError as error:
        text = str(error).replace("1d array", "")
    assert "secret" not in text
    assert not any(character.isdigit() for character in text)
