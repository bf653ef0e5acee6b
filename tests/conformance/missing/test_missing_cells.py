"""Missing and textual cells: an error on demand names the columns and shows no value."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pais
from pais import Ball, DataError, DPKMeans, UniformRule
from pais.data.sources import source
from tests.conformance.missing.missing_sources import (
    NAMES,
    SECRET,
    SETTINGS,
    columns_of,
    csv_text,
    good,
    holed,
    parquet,
    with_nulls,
    written,
)

pytestmark = pytest.mark.usefixtures("batches")


@pytest.mark.parametrize("form", ["array", "pandas", "polars", "Arrow", "Parquet", "CSV"])
def test_error_names_all_columns_and_shows_no_value(form: str, tmp_path: Path) -> None:
    table = pa.table(with_nulls(holed()), names=NAMES)
    forms: dict[str, Callable[[], object]] = {
        "array": holed,
        "pandas": lambda: table.to_pandas(),
        "polars": lambda: pl.from_arrow(table),
        "Arrow": lambda: table,
        "Parquet": lambda: parquet(tmp_path, table, row_group_size=50),
        "CSV": lambda: written(tmp_path, csv_text([f"1,{SECRET},2,3"], holed())),
    }
    expected = {"array": r"1, 3", "CSV": "2 from the left, 4 from the left"}.get(form, "'x1', 'x3'")
    with pytest.raises(DataError, match=expected) as refusal:
        source(forms[form](), missing="error")
    text = str(refusal.value).replace(str(tmp_path), "")
    assert SECRET not in text
    assert "700" not in text
    assert "x0" not in text
    source(good(), missing="error")


def test_unknown_missing_option_is_refused() -> None:
    with pytest.raises(pais.ArgumentError, match="missing='fill'"):
        source(good(), missing="fill")  # type: ignore[arg-type]


# -- which columns hold numbers ------------------------------------------------------------------------------


def test_columns_of_text_are_refused_all_at_once(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "name": ["a", "b", "c"], "y": [1, 2, 3], "town": [SECRET, "q", 3.5]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for fit in (source, DPKMeans(**SETTINGS).fit):
        with pytest.raises(DataError, match=r"name.*town") as refusal:
            fit(frame)
        assert SECRET not in str(refusal.value)
    with pytest.raises(DataError, match=r"2 from the left.*4 from the left") as refusal:
        source(tmp_path / "rows.csv")
    assert SECRET not in str(refusal.value)


def test_named_columns_of_csv_are_numbers_whatever_their_cells_hold(tmp_path: Path) -> None:
    for cells in (["text", "3"], ["text"] * 5, ["1.5", "text"]):
        (tmp_path / "rows.csv").write_text("\n".join(["x,y", *(f"1,{cell}" for cell in cells)]))
        pais.survey(source(tmp_path / "rows.csv", columns=["x", "y"]), epsilon=1.0)


def test_one_text_cell_in_a_million_does_not_make_a_column_text(tmp_path: Path) -> None:
    lines = [f"{i},{i / 7}" for i in range(2000)]
    for place in (0, 1, 1999):
        dirty = [*lines[:place], "n/k,1", *lines[place:]]
        (tmp_path / "rows.csv").write_text("\n".join(["x,y", *dirty]))
        assert source(tmp_path / "rows.csv").names == ("x", "y")
        pais.survey(tmp_path / "rows.csv", epsilon=1.0)


def test_csv_cell_value_does_not_depend_on_other_cells(tmp_path: Path) -> None:
    cells = [
        "1.1",
        " 2.25",
        "3.5\t",
        "+4",
        "-.5",
        "6.",
        "7e-3",
        "0.1234567890123456789",
        "1e-320",
        "12345678901234567890",
    ]
    found = []
    for extra in ([], ["text"]):
        (tmp_path / "rows.csv").write_text("\n".join(["x", *cells, *extra]))
        kept = pais.sample(tmp_path / "rows.csv", ball=Ball(radius=1e90), rule=UniformRule(rate=1.0)).spend("a test")
        found.append(np.sort(kept.rows[:, 0]))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], np.sort([float(cell) for cell in cells]))


# -- predict -------------------------------------------------------------------------------------------------


def test_rows_with_bad_cells_have_no_label_and_no_distance() -> None:
    frame = pd.DataFrame(columns_of(good()))
    model = DPKMeans(**SETTINGS).fit(frame)
    frame.loc[3, "x2"] = math.nan
    frame["x1"] = frame["x1"].astype(object)
    frame.loc[7, "x1"] = SECRET
    labels = model.predict(frame)
    assert np.flatnonzero(labels == -1).tolist() == [3, 7]
    assert np.array_equal(np.isnan(model.transform(frame)).all(axis=1), labels == -1)
    assert model.score(frame.iloc[:-1]) == pytest.approx(model.score(frame.drop(index=[3, 7]).iloc[:-1]))
