"""Candidates that workers collect in a survey: the same in every attempt, at the stated rate, beside the same sum."""

from __future__ import annotations

import io
import pickle
import zlib

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from pais.data.columns import Columns, Layout
from pais.data.engines.base import Fold
from pais.data.engines.blocks import Block, RowBlock
from pais.data.engines.partition import Reading, over_partition, rows_of
from pais.data.engines.spark import MOST_NUMBERS, CandidatesTask, Counted, ceiling_for

N, D, KEY = 20_000, 3, bytes(range(32))
Floats = NDArray[np.float64]


class Halves(Fold):
    """Numbers of rows by the sign of their first number."""

    def of(self, block: Block) -> NDArray[np.int64]:
        sign = np.asarray(block.rows())[:, 0] < 0.0
        return np.array([(~sign).sum(), sign.sum()])


def rows() -> Floats:
    """Rows of which some are alike and some are not finite."""
    found = np.random.default_rng(0).standard_normal((N, D))
    found[: N // 4] = found[N // 4 : N // 2]
    found[-100:, 1] = np.nan
    return found


def collected(found: Floats, *, ceiling: int, partition: int = 0, size: int = 3000) -> tuple[Floats, NDArray[np.int64]]:
    """The candidates, each with its first bits, in an order of their own; and the sum."""
    table = pa.table({f"f{j}": found[:, j] for j in range(D)})
    reading = Reading(layout=Layout.of(table.schema, Columns(), "the rows"))
    work = CandidatesTask(reading=reading, fold=Halves(), ceiling=ceiling, n_features=D, key=KEY)
    answers = pa.Table.from_batches(
        over_partition(pickle.dumps(work), partition, iter(table.to_batches(max_chunksize=size)))
    )
    weights = answers.column("weight").to_pylist()
    of_sum = [place for place, weight in enumerate(weights) if weight is None]
    assert len(of_sum) == 1
    total = np.load(io.BytesIO(zlib.decompress(answers.column("content")[of_sum[0]].as_py())))
    kept = answers.filter(pa.array([weight is not None for weight in weights]))
    whole = np.column_stack([rows_of(kept.column("content"), D), kept.column("weight").to_numpy()])
    return whole[np.lexsort(whole.T)], total


def test_every_attempt_sends_the_same_candidates_in_any_order_and_batches() -> None:
    found = rows()
    first, total = collected(found, ceiling=15)
    other, again = collected(np.random.default_rng(1).permutation(found), ceiling=15, size=700)
    assert np.array_equal(first, other)
    assert np.array_equal(total, again)
    assert total.sum() == N


def test_candidates_are_finite_rows_at_the_rate_of_the_ceiling_with_even_bits() -> None:
    found, usable = rows(), N - 100
    whole, _ = collected(found, ceiling=255)
    assert len(whole) == usable
    kept, _ = collected(found, ceiling=15)
    deviation = np.sqrt(usable * 16 / 256 * 240 / 256)
    assert abs(len(kept) - usable * 16 / 256) < 5.0 * deviation
    assert abs(len(kept) - usable * 15 / 256) > abs(len(kept) - usable * 16 / 256)
    # The rows that pass a lower ceiling are those whose bits are below it.
    assert np.array_equal(kept, whole[whole[:, -1] <= 15])
    by_bits = np.bincount(whole[:, -1].astype(int), minlength=256)
    assert np.square((by_bits - usable / 256) / np.sqrt(usable / 256)).sum() < 255 + 6.0 * np.sqrt(2 * 255)


def test_partitions_draw_other_bits() -> None:
    both = (collected(rows(), ceiling=255, partition=partition)[0] for partition in (0, 1))
    first, other = (kept[np.argsort(kept[:, 0])] for kept in both)
    assert np.mean(first[:, -1] == other[:, -1]) < 0.05


@pytest.mark.parametrize(
    ("n_numbers", "expected"),
    [
        (0, 255),
        (1, 255),
        (MOST_NUMBERS, 255),
        (2 * MOST_NUMBERS, 127),
        (256 * MOST_NUMBERS, 0),
        (257 * MOST_NUMBERS, -1),
    ],
)
def test_the_ceiling_limits_the_expected_numbers_of_the_candidates(n_numbers: int, expected: int) -> None:
    assert ceiling_for(n_numbers) == expected
    assert n_numbers * (expected + 1) / 256 <= MOST_NUMBERS


def test_rows_are_counted_after_the_numbers_of_a_fold() -> None:
    block = RowBlock(np.array([[1.0], [-2.0], [3.0]]), np.zeros(3, dtype=np.uint64))
    assert Counted(fold=Halves()).over(block).tolist() == [2, 1, 3]
