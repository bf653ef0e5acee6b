"""Fits and statistics are as accurate as they were: each cell of the table keeps its bound.

Four changes were tried on cells that they could reach. Half the rounds of k-means break at least 9 of its 24 cells. A
tenth of a stated sample breaks the samples of k-means and of linear regression. A radius 1.5 times as large breaks six
of the seven regressions, the components of digits, and three cells of k-means, whose bounds were lowered after this
trial: the other cells of k-means hardly depend on the radius. If the survey alone decides whether rows are seen, iris
and the 500 rows in 2 columns break. Statistics with the noise of
epsilon / 1.5 break five of their nine cells.
"""

from __future__ import annotations

import pytest

from tests.accuracy.cells import CELLS, Cell

pytestmark = pytest.mark.accuracy


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_cell_keeps_its_bound(cell: Cell) -> None:
    found = cell.median()
    worse = 100.0 * (found / cell.reached - 1.0)
    assert found <= cell.bound, (
        f"{cell.name}: the median is {found:.4g}, {worse:.1f} % above {cell.reached:.4g}, which was reached"
    )


def test_bounds_are_a_little_above_what_was_reached() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert [cell.name for cell in CELLS if not cell.reached < cell.bound <= 1.6 * cell.reached] == []
