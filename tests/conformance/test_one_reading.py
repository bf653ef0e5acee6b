"""One reading of a cell: the same truth values, numbers, dates and categories wherever a column is used or stored."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pais
from pais import DPLinearRegression, DPLogisticRegression, Schema
from pais.data.sources import source

#: Ways to write true, false and a missing value.
TRUTHS: dict[str, list[Any]] = {
    "booleans": [True, False, None],
    "integers": [1, 0, None],
    "floats": [1.0, 0.0, None],
    "digits": ["1", "0", ""],
    "digits with decimals": ["1.0", "0.0", None],
    "true and false": ["true", "false", None],
    "capitals and blanks": [" TRUE", "False ", " "],
    "odd capitals": ["tRUE", "fALSE", ""],
    "yes and no": ["yes", "no", ""],
    "Yes and NO": [" Yes ", "NO", None],
}

#: Ways to state that a column holds truth values, false first.
STATED: dict[str, Any] = {
    "bool": bool,
    "numbers": [0, 1],
    "floats": [0.0, 1.0],
    "digits": ["0", "1"],
    "words": ["no", "yes"],
    "False and True": ["False", "True"],
}

PATTERN = np.random.default_rng(0).choice(3, p=[0.45, 0.45, 0.1], size=600)


def written(spelling: str) -> list[Any]:
    return [TRUTHS[spelling][place] for place in PATTERN.tolist()]


def as_frame(cells: list[Any], _: Path) -> pd.DataFrame:
    return pd.DataFrame({"age": AGE, "flag": pd.Series(cells)})


def as_objects(cells: list[Any], _: Path) -> pd.DataFrame:
    return pd.DataFrame({"age": AGE, "flag": pd.Series(cells, dtype=object)})


def as_csv(cells: list[Any], home: Path) -> Path:
    as_objects(cells, home).to_csv(home / "rows.csv", index=False)
    return home / "rows.csv"


def as_parquet(cells: list[Any], home: Path) -> Path:
    pq.write_table(pa.table({"age": AGE, "flag": cells}), home / "rows.parquet")
    return home / "rows.parquet"


STORED: dict[str, Callable[[list[Any], Path], Any]] = {
    "a pandas frame": as_frame,
    "Python objects": as_objects,
    "an Arrow table": lambda cells, _: pa.table({"age": AGE, "flag": cells}),
    "a polars frame": lambda cells, _: pl.DataFrame({"age": AGE, "flag": cells}),
    "a CSV file": as_csv,
    "a Parquet file": as_parquet,
}

AGE = np.random.default_rng(1).uniform(20.0, 80.0, len(PATTERN)).round(1)


def vectors(data: Any, columns: Any) -> list[Any]:
    rule, ball = pais.UniformRule(rate=1.0), pais.Ball(radius=1e9)
    rows = pais.sample(source(data, columns=columns, missing="midpoint"), ball=ball, rule=rule).spend("a test").rows
    return rows[np.lexsort(rows.T)].tolist()


#: Each spelling in every other store.
every_other = pytest.mark.parametrize(
    ("spelling", "stored"),
    [(one, other) for i, one in enumerate(TRUTHS) for j, other in enumerate(STORED) if (i + j) % 2 == 0],
)


@every_other
def test_truth_values_have_the_same_vectors(spelling: str, stored: str, tmp_path: Path) -> None:
    data = STORED[stored](written(spelling), tmp_path)
    expected = pa.table({"age": AGE, "flag": written("booleans")})
    for stated in (bool, *(STATED[name] for name in STATED)):
        columns = {"age": (0, 100), "flag": stated}
        assert vectors(data, columns) == vectors(expected, columns)


@every_other
def test_bounds_of_0_and_1_read_truth_values_as_numbers(spelling: str, stored: str, tmp_path: Path) -> None:
    data = STORED[stored](written(spelling), tmp_path)
    expected = pa.table({"age": AGE, "flag": written("floats")})
    columns = {"age": (0, 100), "flag": (0, 1)}
    assert vectors(data, columns) == vectors(expected, columns)
    found = pais.check(data, columns).columns[1]
    assert (found.missing, found.unreadable, found.low, found.high) == (written("floats").count(None), 0, "0", "1")


def test_only_bounds_of_0_and_1_read_words_for_truth_values() -> None:
    cells = pa.array(["yes", "No ", "0.25", "7", "maybe", None])
    marks = {(0, 1): [1.0, -1.0, -0.5, 1.0, None, None], (0, 2): [None, None, -0.75, 1.0, None, None]}
    for bounds, expected in marks.items():
        column = Schema.of({"c": bounds})["c"]
        objects = np.array(["yes", "No ", 0.25, 7, "maybe", None], dtype=object)
        for read in (cells, column.cells_of_objects(objects)):
            [numbers] = column.encode(read)
            assert [None if np.isnan(number) else float(number) for number in numbers] == expected


def test_a_linear_regression_scores_a_target_of_words() -> None:
    columns = {"age": (0, 100), "flag": (0, 1)}
    words, numbers = (pd.DataFrame({"age": AGE, "flag": written(name)}) for name in ("Yes and NO", "floats"))
    model = DPLinearRegression(epsilon=5.0, columns=columns, target="flag", random_state=0).fit(words)
    expected = DPLinearRegression(epsilon=5.0, columns=columns, target="flag", random_state=0).fit(numbers)
    assert model.coef_.tolist() == expected.coef_.tolist()
    assert model.score(words) == expected.score(numbers)
    assert model.score(words[["age"]], words["flag"]) == expected.score(numbers[["age"]], numbers["flag"])


def test_other_categories_are_compared_as_they_are() -> None:
    cells = pa.array(["yes", "Yes", "no", "1", "true", "TRUE"])

    def found(stated: Any) -> list[list[bool]]:
        return [(marks > 0.0).tolist() for marks in Schema.of({"c": stated})["c"].encode(cells)]

    assert found(["yes", "no", "unknown"])[0] == [True, False, False, False, False, False]
    assert found([0, 1, 2])[1] == [False, False, False, True, True, True]
    assert found(["yes", "Yes"]) == [
        [True, False, False, False, False, False],
        [False, True, False, False, False, False],
    ]
    assert found(["true", "false", "other"])[0] == [False, False, False, False, True, True]


@pytest.mark.parametrize("spelling", ["digits with decimals", "capitals and blanks", "Yes and NO"])
@pytest.mark.parametrize("stated", ["bool", "numbers", "words", "bounds"])
def test_a_logistic_regression_reads_every_spelling_of_its_target(spelling: str, stated: str, tmp_path: Path) -> None:
    cells = written(spelling)
    columns = {"age": (0, 100), "flag": {**STATED, "bounds": (0, 1)}[stated]}
    truths = written("booleans")

    def fitted(data: Any, y: Any = None) -> DPLogisticRegression:
        model = DPLogisticRegression(epsilon=5.0, columns=columns, target="flag", random_state=0)
        return model.fit(data, y)

    expected = fitted(pa.table({"age": AGE, "flag": truths}))
    assert expected.certificate_.epsilon <= 5.0
    for stored in ("Python objects", "a CSV file"):
        model = fitted(STORED[stored](cells, tmp_path))
        assert model.coef_.tolist() == expected.coef_.tolist()
        assert model.score(STORED[stored](cells, tmp_path)) == expected.score(pa.table({"age": AGE, "flag": truths}))
    beside = fitted(pd.DataFrame({"age": AGE}), cells)
    assert beside.coef_.tolist() == expected.coef_.tolist()
    known = [place for place, cell in enumerate(truths) if cell is not None]
    rows, right = pd.DataFrame({"age": AGE[known]}), [truths[place] for place in known]
    assert beside.score(rows, [cells[place] for place in known]) == expected.score(rows, right)


@pytest.mark.parametrize("spelling", TRUTHS)
def test_statistics_and_groups_read_every_spelling(spelling: str) -> None:
    data, expected = (
        pd.DataFrame({"age": AGE, "flag": pd.Series(written(name), dtype=object)}) for name in (spelling, "booleans")
    )
    for stated in (bool, [0, 1]):
        for columns, by in (({"flag": stated}, None), ({"age": (0, 100)}, {"flag": stated})):
            one, other = (
                pais.mean(rows, columns=columns, by=by, epsilon=5.0, random_state=0) for rows in (data, expected)
            )
            assert np.array_equal(one.value, other.value)


def people() -> dict[str, list[Any]]:
    """Cells of every kind, with some that are missing, wrong or beyond the bounds."""
    day = datetime.date(2024, 1, 1)
    return {
        "stay": [1.5, 20.0, None, -3.0, 4.0, 700.0],
        "day": [day + datetime.timedelta(days=40 * place) if place != 3 else None for place in range(6)],
        "ward": ["north", "south", " north", None, "wset", "south"],
        "code": [1, 2, 3, 2, None, 1],
        "again": [True, False, None, True, False, True],
    }


COLUMNS: dict[str, Any] = {
    "stay": (0, 50),
    "day": ("2024-01-01", "2024-12-31"),
    "ward": ["north", "south"],
    "code": [1, 2],
    "again": bool,
}


def test_cells_of_every_kind_have_the_same_vectors(tmp_path: Path) -> None:
    table = pa.table(people())
    pq.write_table(table, tmp_path / "rows.parquet")
    table.to_pandas().to_csv(tmp_path / "rows.csv", index=False)
    texts = pa.table(
        {name: pa.array([None if c is None else str(c) for c in cells]) for name, cells in people().items()}
    )
    texts.to_pandas().to_csv(tmp_path / "rows.tsv", index=False, sep="\t")
    texts.to_pandas().to_csv(tmp_path / "rows.txt", index=False, sep="|")
    expected = vectors(table, COLUMNS)
    assert len(expected) == 6
    for data in (
        table.to_pandas(),
        table.to_pandas().astype(object),
        pl.from_arrow(table),
        texts,
        *(tmp_path / f"rows.{ending}" for ending in ("parquet", "csv", "tsv", "txt")),
    ):
        assert vectors(data, COLUMNS) == expected
