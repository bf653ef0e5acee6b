"""Batches of a Spark partition: a unit is passed on once it is complete, and errors at the end stay hidden."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from pais.data.engines.partition import Task, over_partition
from pais.data.engines.spark import UnitTask
from pais.errors import DataError


@dataclass(kw_only=True)
class Seen(Task):
    """Remember the batches."""

    batches: list[pa.RecordBatch] = field(default_factory=list)

    def take(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)


def batch_of(ids: list[int], first: int) -> pa.RecordBatch:
    rows = np.arange(first, first + len(ids))
    return pa.RecordBatch.from_pydict({"f0": pa.array(rows), "u": pa.array(ids, pa.int64())})


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=8), st.lists(st.integers(0, 7), max_size=30))
def test_every_unit_is_in_one_batch_and_no_row_is_lost(sizes: list[int], cuts: list[int]) -> None:
    ids = [unit for unit, size in enumerate(sizes) for _ in range(size)]
    task, first = UnitTask(task=Seen(), position=1), 0
    for cut in [*cuts, len(ids)]:
        part = ids[first : first + cut]
        task.take(batch_of(part, first))
        first += len(part)
    assert task.end() is None
    assert isinstance(task.task, Seen)
    seen = [batch.column(1).to_pylist() for batch in task.task.batches]
    assert [unit for batch in seen for unit in batch] == ids
    assert [row for batch in task.task.batches for row in batch.column(0).to_pylist()] == list(range(len(ids)))
    owners = [set(batch) for batch in seen]
    assert sum(map(len, owners)) == len(set(ids))


@pytest.mark.parametrize("batches", [[[1, 2, 1]], [[1, 1], [2, 2], [1, 1]], [[1, 2], [2, 1]], [[2], [2], [1]]])
def test_a_unit_that_appears_again_after_others_is_refused(batches: list[list[int]]) -> None:
    work = pickle.dumps(UnitTask(task=Seen(), position=1))
    answers = list(over_partition(work, 0, iter([batch_of(ids, 0) for ids in batches])))
    notes = [note for answer in answers for note in answer.column("note").to_pylist()]
    assert notes == ["Spark did not sort the rows by unit. Store the ids as integers or as plain text."]


@dataclass(kw_only=True)
class Failing(Task):
    """Fail with a message that quotes a row, in the middle or at the end."""

    at_end: bool
    known: bool = False

    def take(self, batch: pa.RecordBatch) -> None:
        if not self.at_end:
            self._fail()

    def end(self) -> None:
        self._fail()

    def _fail(self) -> None:
        raise DataError("a public message") if self.known else ValueError("the row of anna: 1234.5")


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_errors_are_sent_back_without_their_message(at_end: bool, known: bool) -> None:
    work = pickle.dumps(Failing(at_end=at_end, known=known))
    answers = list(over_partition(work, 0, iter([batch_of([1, 1], 0), batch_of([2], 2)])))
    notes = [note for answer in answers for note in answer.column("note").to_pylist()]
    expected = (
        "a public message"
        if known
        else "a Spark worker failed with ValueError. Its message is hidden: it can quote rows."
    )
    assert notes == [expected]


def test_a_partition_without_rows_sends_nothing_back() -> None:
    assert list(over_partition(pickle.dumps(Failing(at_end=True)), 0, iter([]))) == []
