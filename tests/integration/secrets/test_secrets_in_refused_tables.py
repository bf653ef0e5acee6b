"""Tables, headers and column names that are refused are not quoted."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import sparse

import pais
from pais.data.tables import read
from tests.integration.secrets.planted import (
    DIGITS,
    HALF,
    N_ROWS,
    NAMES,
    ROWS,
    STATED,
    WORD,
    assert_silent,
    fitted,
    frame,
    planted_in,
    strict,
    written,
)
from tests.support.commands import pais as command

Floats = NDArray[np.float64]


def test_error_search_finds_a_planted_value() -> None:
    behind = ValueError("nothing")
    behind.__context__ = KeyError(WORD)
    noted = ValueError("nothing")
    noted.__notes__ = [f"{N_ROWS} rows"]
    for error in (ValueError(f"{N_ROWS:,}"), behind, noted, json.JSONDecodeError("bad", WORD, 0)):
        assert planted_in(error)
    assert planted_in(ValueError("column 3")) == []


class Unreadable:
    """A value or table whose own error message contains its secret."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def __float__(self) -> float:
        raise self._error(f"cannot parse {WORD}")

    def __array__(self, *_: object, **__: object) -> Any:
        raise self._error(f"cannot parse {WORD}")


def cells(value: object) -> NDArray[Any]:
    rows = np.ones((N_ROWS, 2), dtype=object)
    for place in range(N_ROWS):
        rows[place, 1] = value
    return rows


def beside(value: object, n: int = N_ROWS) -> dict[str, list[object]]:
    return {"a": [1.0] * n, "b": [value] * n}


# None of them is a table of numbers, in whatever it comes.
AWKWARD: dict[str, Callable[[], Any]] = {
    "ragged list": lambda: [[1.0, 2.0]] * (N_ROWS - 1) + [[1.0]],
    "a list in a cell": lambda: [[1.0, 2.0]] * (N_ROWS - 1) + [[1.0, [float(DIGITS)]]],
    "an array in a cell": lambda: cells(np.array([float(DIGITS)] * 3)),
    "no columns": lambda: np.ones((N_ROWS, 0)),
    "no columns, pandas": lambda: pd.DataFrame(index=range(N_ROWS)),
    "one dimension": lambda: np.full(N_ROWS, float(DIGITS)),
    "three dimensions": lambda: np.full((N_ROWS, 2, 2), float(DIGITS)),
    "text": lambda: np.array([[WORD, "1"]] * N_ROWS),
    "text objects": lambda: cells(WORD),
    "a dict in a cell": lambda: cells({WORD: 1}),
    "a huge whole number": lambda: cells(int(DIGITS) * 10**400),
    "a complex number": lambda: cells(complex(float(DIGITS), 1.0)),
    "complex numbers of numpy": lambda: cells(np.complex128(float(DIGITS) + 1j)),
    "masked rows": lambda: [np.ma.masked_array([1.0, float(DIGITS)], mask=[False, True])] * N_ROWS,
    "a date": lambda: np.full((N_ROWS, 2), np.datetime64("1981-07-26")),
    "records": lambda: np.array([(float(DIGITS), 1)] * N_ROWS, dtype=[("a", float), ("b", int)]),
    "a mask": lambda: np.ma.masked_greater(ROWS, 5.0),
    **{f"a cell with {kind.__name__}": lambda kind=kind: cells(Unreadable(kind))
       for kind in (ValueError, TypeError, RuntimeError, OverflowError, KeyError, ZeroDivisionError)},
    **{f"a table with {kind.__name__}": lambda kind=kind: Unreadable(kind)
       for kind in (ValueError, TypeError, RuntimeError, OverflowError)},
    "record batch of text": lambda: pa.record_batch(beside(WORD)),
    "arrow of text": lambda: pa.table(beside(WORD)),
    "reader of text": lambda: pa.table(beside(WORD)).to_reader(),
    "arrow column": lambda: pa.chunked_array([[float(DIGITS)] * N_ROWS]),
    "arrow of structs": lambda: pa.table(beside({WORD: 1})),
    "arrow of lists of structs": lambda: pa.table(beside([{WORD: 1}])),
    "arrow of empty vectors": lambda: pa.table({"a": pa.array([[]] * N_ROWS, pa.list_(pa.float64(), 0))}),
    "pandas column": lambda: pd.Series([float(DIGITS)] * N_ROWS),
    "pandas of text": lambda: pd.DataFrame(beside(WORD)),
    "pandas of categories": lambda: pd.DataFrame({"a": [1.0] * N_ROWS, "b": pd.Categorical([WORD] * N_ROWS)}),
    "pandas of text and huge numbers": lambda: pd.DataFrame(
        {"a": [WORD] * N_ROWS, "b": pd.Series([10**400] * N_ROWS, dtype=object)}
    ),
    "pandas of huge numbers": lambda: pd.DataFrame({"b": pd.Series([int(DIGITS) * 10**400] * N_ROWS, dtype=object)}),
    "pandas of complex numbers": lambda: pd.DataFrame(beside(complex(float(DIGITS), 1.0))),
    "pandas of dicts": lambda: pd.DataFrame(beside({WORD: 1})),
    "pandas of lists": lambda: pd.DataFrame(beside([float(DIGITS)])),
    "pandas of dates": lambda: pd.DataFrame(beside(pd.Timestamp("1981-07-26"))),
    "pandas of what cannot be read": lambda: pd.DataFrame(beside(Unreadable(RuntimeError))),
    "pandas of two kinds of names": lambda: pd.DataFrame({"a": [WORD] * 3, 1: [1.0] * 3}),
    "pandas of one name": lambda: pd.DataFrame([[float(DIGITS), 1.0]] * N_ROWS, columns=["a", "a"]),
    "polars column": lambda: pl.Series("a", [float(DIGITS)] * N_ROWS),
    "polars of text": lambda: pl.DataFrame(beside(WORD)),
    "polars of dates": lambda: pl.DataFrame(beside(datetime.date(1981, 7, 26))),
    "polars of moments": lambda: pl.DataFrame(beside(datetime.datetime(1981, 7, 26))),
    "polars of spans": lambda: pl.DataFrame(beside(datetime.timedelta(days=int(DIGITS)))),
    "polars of structs": lambda: pl.DataFrame(beside({WORD: 1})),
    "polars of lists": lambda: pl.DataFrame(beside([float(DIGITS)])),
    "polars of objects": lambda: pl.DataFrame({"a": [Unreadable(RuntimeError)] * 9}),
    "sparse": lambda: sparse.csr_matrix(np.full((N_ROWS, 2), float(DIGITS))),
    "nothing": lambda: None,
    "a dict": lambda: {WORD: [float(DIGITS)] * N_ROWS},
}  # fmt: skip


@pytest.fixture(scope="module")
def model() -> pais.DPKMeans:
    return fitted(np.ones((50, 2)), **STATED)


@pytest.mark.parametrize("case", AWKWARD)
def test_bad_tables_are_refused_by_the_model_without_a_trace(case: str, model: pais.DPKMeans) -> None:
    assert_silent(lambda: fitted(AWKWARD[case]()))
    assert_silent(lambda: fitted(AWKWARD[case](), **STATED))
    for act in (model.predict, model.transform, model.score):
        assert_silent(lambda act=act: act(AWKWARD[case]()))


@pytest.mark.parametrize("case", AWKWARD)
def test_bad_tables_are_refused_by_sources_without_a_trace(case: str) -> None:
    assert_silent(lambda: pais.survey(AWKWARD[case](), epsilon=1.0))
    assert_silent(lambda: pais.sample(AWKWARD[case](), ball=pais.Ball(radius=1.0), rule=pais.UniformRule(rate=0.5)))
    assert_silent(lambda: pais.cost(AWKWARD[case](), np.ones((1, 2))))


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_model_refuses_other_columns_without_quoting_values(method: str) -> None:
    plain, named = fitted(ROWS, **STATED), fitted(frame()[list(NAMES)], **STATED)
    for X in (np.full((N_ROWS, 2), float(DIGITS)), np.full((N_ROWS, 4), float(DIGITS)).tolist()):
        assert_silent(lambda X=X: getattr(plain, method)(X), match="features")
    other = pd.DataFrame(np.full((N_ROWS, 3), float(DIGITS)), columns=["height", "span", "other"])
    for X in (other, pl.DataFrame(other), pa.table(other), pa.record_batch(other)):
        assert_silent(lambda X=X: getattr(named, method)(X), match="feature names")
    for X in (pl.DataFrame(other).lazy(), pa.table(other).to_reader()):
        assert_silent(lambda X=X: getattr(named, method)(X), match="do not exist|in memory")


# First lines that are rows, followed by similar rows. No error quotes them, and they never become column names.
# `unit/data/test_sources.py` has more of them.
HEADERLESS: dict[str, str] = {
    "semicolons": f"{DIGITS};987654321",
    "blanks": f"{DIGITS} 987654321",
    "semicolons and text": f"{HALF};b;1",
    "quoted decimal commas": f'"{DIGITS},5","1,5"',
    "dollars": f"${DIGITS},$1",
    "ids": f"P{DIGITS},,true",
    "dates": "1981-07-26,2024-01-31",
    "text": f"{HALF},{HALF} b",
    "truths": "true,false",
    "bits": "0,1",
    "an empty cell": f"{HALF},",
    "two lines in a cell": f'"{HALF}\n{DIGITS}",x',
}


@pytest.mark.parametrize("case", HEADERLESS)
def test_a_first_line_that_is_a_row_is_neither_quoted_nor_published(
    case: str, tmp_path: Path, model: pais.DPKMeans
) -> None:
    text = f"{HEADERLESS[case]}\n" * 60
    path = written(tmp_path, text)
    for act in (
        lambda: pais.source(path),
        lambda: pais.survey(path, epsilon=1.0),
        lambda: fitted(path, **STATED),
        lambda: model.predict(path),
        lambda: pais.source(path, columns=["height", "b"]),
        lambda: pais.source(tmp_path, columns=["height"], carry=["weight"]),
        lambda: read(path),
        lambda: read(path, columns=["height"]),
    ):
        assert_silent(act)
    done = command("kmeans", path, "--n-clusters", 2, "--epsilon", 1, "--out", "out")
    assert done.exit_code == 2, done.output
    assert not any(secret in done.output for secret in (HALF, DIGITS))
    assert not Path("out").exists()


CSV_FAULTS: dict[str, str] = {
    "text": f"{HALF},x\nword,1\n",
    "doubled": f"{HALF},{HALF}\n1,2\n",
    "missing": f"{HALF},x\n,1\n2,3\n",
    "late text": f"{HALF},x\n" + "1,2\n" * 200 + "word,1\n",
}


@pytest.mark.parametrize("case", CSV_FAULTS)
def test_csv_names_that_the_user_did_not_type_are_not_quoted(case: str, tmp_path: Path) -> None:
    path = written(tmp_path, CSV_FAULTS[case])
    model = fitted(np.ones((50, 3)), **STATED)
    for act in (lambda: pais.survey(strict(path), epsilon=1.0), lambda: strict(path), lambda: model.predict(path)):
        assert_silent(act)
    (tmp_path / "rows.csv").rename(tmp_path / "more.csv")
    written(tmp_path, "u,v\n1,2\n", "a.csv")
    assert_silent(lambda: pais.survey(tmp_path, epsilon=1.0))


def test_typed_names_are_quoted_and_others_are_given_by_position(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HALF},typed,late\n1,word,\n2,word,3\n4,word,5\n")
    assert_silent(lambda: pais.source(path), match=r"column\(s\) 2 from the left \(type string\) of file")
    for name in ("typed", "late"):
        assert_silent(
            lambda name=name: pais.source(path, columns=[name], missing="error"), match=rf"column\(s\) '{name}' have"
        )
    assert_silent(lambda: pais.source(path, columns=["typo"]), match=r"column\(s\) typo do not exist in file")
    written(tmp_path, f"{HALF},late\n1,\n2,3\n")
    assert_silent(lambda: strict(path), match=r"column\(s\) 2 from the left have")
