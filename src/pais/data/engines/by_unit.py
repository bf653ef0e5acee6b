"""Batches of a Spark partition in which every unit is complete."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from pais.data.engines.partition import Work


@dataclass(kw_only=True, repr=False)
class ByUnit(Work):
    """Pass batches on to other work so that all rows of a unit are in one batch.

    Spark has put the rows of a unit into one partition and sorted them by unit. So only the last unit of a batch can
    continue in the next one. Its rows wait here until the unit is complete.
    """

    work: Work
    position: int
    _waiting: list[pa.RecordBatch] = field(default_factory=list, init=False)

    def begin(self, partition: int) -> None:
        self.work.begin(partition)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        if batch.num_rows == 0:
            return None
        ids = batch.column(self.position)
        last = pc.equal(ids, ids[len(ids) - 1])
        start = int(pc.index(last, pa.scalar(True)).as_py())
        if start == 0 and self._waiting and self._waiting[-1].column(self.position)[0].equals(ids[0]):
            self._waiting.append(batch)
            return None
        complete = [*self._waiting, batch.slice(0, start)]
        self._waiting = [batch.slice(start)]
        whole = _joined(complete)
        return self.work.take(whole) if whole.num_rows else None

    def end(self) -> pa.RecordBatch | None:
        rest = self.work.take(_joined(self._waiting)) if self._waiting else None
        answers = [answer for answer in (rest, self.work.end()) if answer is not None]
        return _joined(answers) if answers else None


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches of one schema to one batch."""
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return pa.RecordBatch.from_arrays([pa.concat_arrays(parts) for parts in columns], schema=batches[0].schema)
