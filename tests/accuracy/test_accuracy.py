"""Fits and statistics are as accurate as they were: each cell of the table keeps its bound."""

from __future__ import annotations

import pytest

from tests.accuracy.cells import CELLS, Cell

pytestmark = pytest.mark.accuracy


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_cell_keeps_its_bound(cell: Cell) -> None:
    assert cell.median() <= cell.bound


def test_bounds_are_a_little_above_what_was_reached() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert [cell.name for cell in CELLS if not cell.reached < cell.bound <= 1.6 * cell.reached] == []
