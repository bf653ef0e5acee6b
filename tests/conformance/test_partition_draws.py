"""Secure draws in one partition of a cluster: they belong to rows, not to the order in which rows arrive."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from pais import Ball, CoresetRule, Rule, UniformRule
from pais.data.columns import Columns, Layout
from pais.data.engines.base import Sampling
from pais.data.engines.partition import Reading, SampleTask, over_partition

Floats = NDArray[np.float64]
KEY = bytes(range(32))
BALL = Ball(radius=4.0)
HALF = UniformRule(rate=0.5)


def keep(
    rows: Floats, *, rule: Rule = HALF, key: bytes = KEY, partition: int = 0, batch_rows: Sequence[int] = (1000,)
) -> tuple[Floats, NDArray[np.int64]]:
    """Rows that one partition keeps, and their places. Batches take turns to have the given sizes."""
    n, width = rows.shape
    names = [f"f{place}" for place in range(width)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    layout = Layout.of(schema, Columns(features=tuple(names), carry=()), "the source")
    sampling = Sampling(ball=BALL, rule=rule)
    work = SampleTask(
        reading=Reading(layout=layout), sampling=sampling, screen=sampling.screen(width), seeded=None, key=key
    )
    columns = {name: rows[:, place] for place, name in enumerate(names)}
    table = pa.table({**columns, "c0": np.arange(n)})
    batches, start, turn = [], 0, 0
    while start < n:
        size = batch_rows[turn % len(batch_rows)]
        batches += table.slice(start, size).combine_chunks().to_batches()
        start, turn = start + size, turn + 1
    answer = pa.Table.from_batches(list(over_partition(pickle.dumps(work), partition, iter(batches))))
    notes = set(answer.column("note").to_pylist()) - {None}
    assert notes == {""}
    answer = answer.filter(pa.compute.is_null(answer.column("note")))
    content = b"".join(answer.column("content").to_pylist())
    return np.frombuffer(content, dtype="<f8").reshape(-1, width), answer.column("c0").to_numpy()


def in_order(rows: Floats) -> list[list[float]]:
    return sorted(rows.tolist())


def some_rows(n: int = 6000) -> Floats:
    """Rows in and out of the ball; a third of them occur more than once, in different places."""
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((n, 3)) * rng.uniform(0.1, 3.0, (n, 1))
    rows[rng.choice(n, n // 3, replace=False)] = rows[rng.integers(0, 40, n // 3)]
    return rows


# -- the order of rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [HALF, CoresetRule(sample_size=900.0, n_rows=6000, mean_square_norm=4.0, radius=4.0)])
def test_order_and_batches_do_not_change_what_a_partition_keeps(rule: Rule) -> None:
    rows, rng = some_rows(), np.random.default_rng(1)
    expected = in_order(keep(rows, rule=rule)[0])
    assert 300 < len(expected) < 5000
    for batch_rows in ((6000,), (1, 17, 400), (999,)):
        shuffled = rows[rng.permutation(len(rows))]
        assert in_order(keep(shuffled, rule=rule, batch_rows=batch_rows)[0]) == expected


def test_adding_a_row_changes_no_other_draw() -> None:
    rows = some_rows()
    expected = Counter(map(tuple, keep(rows)[0].tolist()))
    for place in (0, 5, 4000):
        fewer = Counter(map(tuple, keep(np.delete(rows, place, axis=0)[::-1])[0].tolist()))
        change = expected - fewer
        assert not fewer - expected
        assert change in (Counter(), Counter([tuple(rows[place].tolist())]))


def test_both_zeros_have_the_same_content_hash() -> None:
    plain = np.zeros((5000, 2))
    mixed = plain.copy()
    mixed[::2, 0], mixed[::3, 1] = -0.0, -0.0
    assert len(keep(plain)[0]) == len(keep(mixed)[0])
    one, other = some_rows(), some_rows()
    one[:, 1], other[:, 1] = 0.0, -0.0
    assert keep(one)[1].tolist() == keep(other)[1].tolist()


# -- the law of the draws ------------------------------------------------------------------------------------


def test_equal_rows_are_drawn_independently() -> None:
    n, rate, keys = 100_000, 0.3, 20
    rows = np.full((n, 2), 1.5)
    kept = np.zeros((keys, n))
    for number in range(keys):
        places = keep(rows, rule=UniformRule(rate=rate), key=bytes([number]) * 32, batch_rows=(40_000,))[1]
        kept[number, places] = 1.0
    sizes = kept.sum(axis=1)
    scores = (sizes - n * rate) / np.sqrt(n * rate * (1.0 - rate))
    assert stats.kstest(scores, "norm").pvalue > 1e-3
    assert np.abs(scores).max() < 4.5
    # Pairs at several distances, some of them in two batches: kept together at the rate of independent draws.
    for distance in (1, 2, 256, 40_000):
        pairs = kept[:, distance:] * kept[:, :-distance]
        share = np.sqrt(pairs.size / (rate**2 * (1.0 - rate**2) * 2.0))
        assert abs(pairs.mean() - rate**2) * share < 5.0
        assert abs(pairs.mean() - rate) * share > 5.0


def test_partitions_draw_equal_rows_independently() -> None:
    n = 20_000
    rows = np.repeat(some_rows(n // 10), 10, axis=0)
    one, other = (keep(rows, partition=partition)[1] for partition in (3, 4))
    both = len(np.intersect1d(one, other))
    assert abs(both - n / 4) < 5.0 * np.sqrt(n * 3 / 16)
    assert abs(both - n / 2) > 5.0 * np.sqrt(n * 3 / 16)


@pytest.mark.parametrize("distinct", [1, 7, 60_000])
@pytest.mark.parametrize("rate", [0.01, 0.0332])
def test_the_share_of_kept_rows_is_the_rate_of_the_rule(rate: float, distinct: int) -> None:
    """Rates that 8 bits do not settle, so that later words of a draw count too."""
    n, keys = 60_000, 8
    rows = np.random.default_rng(5).standard_normal((distinct, 2))[np.arange(n) % distinct]
    sizes = np.array(
        [len(keep(rows, rule=UniformRule(rate=rate), key=bytes([number]) * 32)[0]) for number in range(keys)]
    )

    def scores(share: float) -> Floats:
        return np.asarray((sizes - n * share) / np.sqrt(n * share * (1.0 - share)))

    assert stats.chi2.sf((scores(rate) ** 2).sum(), keys) > 1e-3
    assert stats.chi2.sf((scores(np.floor(256.0 * rate) / 256.0) ** 2).sum(), keys) < 1e-6
