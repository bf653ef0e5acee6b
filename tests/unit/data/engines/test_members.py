"""Masses of the rows of a unit: they add up to at most 1 in whatever is summed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import pais
from pais.data.engines.base import Fold
from pais.data.engines.blocks import Block
from pais.data.schema import Schema
from pais.errors import MismatchError

ONE = 2.0 ** -pais.source(pd.DataFrame({"a": [1.0], "id": [1]}), unit="id").unit.mass_bits  # type: ignore[union-attr]


@dataclass(frozen=True, kw_only=True)
class MassOfColumns(Fold):
    """Mass of the cells of each column that hold a number."""

    uses_masses = True

    def of(self, block: Block) -> np.ndarray:
        masses = np.ones(block.n_rows, dtype=np.int64) if block.masses is None else block.masses
        return np.array([masses[np.isfinite(column)].sum() for column in block.columns()])


def test_rows_with_a_missing_cell_add_no_mass_to_any_column() -> None:
    # One complete row and nine without b. If only the complete row counted for the mass 1, a would get mass 10.
    frame = pd.DataFrame({"a": 1.0, "b": [2.0] + 9 * [np.nan], "id": "x"})
    total = pais.source(frame, unit="id").fold(MassOfColumns(), seeded=False)
    assert (total * ONE).tolist() == [1.0, 1.0]


def test_masses_are_shared_out_again_when_missing_values_get_a_midpoint() -> None:
    frame = pd.DataFrame({"a": [1.0] + 9 * [np.nan], "b": 2.0, "id": "x"})
    engine = pais.source(frame, columns={"a": "auto", "b": (0, 4)}, unit="id", missing="midpoint")
    before = engine.fold(MassOfColumns(), seeded=False) * ONE
    schema = engine.schema
    assert isinstance(schema, Schema)
    after = engine.with_schema(schema.resolved({"a": (0.0, 1.0)})).fold(MassOfColumns(), seeded=False) * ONE
    assert before.max() <= 1.0
    assert after.max() <= 1.0
    assert after.min() > 0.99


def test_a_sum_that_ignores_masses_is_refused() -> None:
    class Rows(Fold):
        def of(self, block: Block) -> np.ndarray:
            return np.array([block.n_rows])

    frame = pd.DataFrame({"a": [1.0, 2.0], "id": [1, 1]})
    assert pais.source(frame[["a"]]).fold(Rows(), seeded=False).tolist() == [2]
    with pytest.raises(MismatchError, match="masses"):
        pais.source(frame, unit="id").fold(Rows(), seeded=False)
