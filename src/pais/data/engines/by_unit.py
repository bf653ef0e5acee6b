"""Batches of a Spark partition in which every unit is complete."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from pais.data.engines.partition import Work
from pais.errors import DataError


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
        self._require_sorted(ids)
        last = pc.equal(ids, ids[len(ids) - 1])
        start = int(pc.index(last, pa.scalar(True)).as_py())
        if start == 0 and self._waiting and self._waiting[-1].column(self.position)[0].equals(ids[0]):
            self._waiting.append(batch)
            return None
        complete = [*self._waiting, batch.slice(0, start)]
        self._waiting = [batch.slice(start)]
        whole = _joined(complete)
        return self.work.take(whole) if whole.num_rows else None

    def _require_sorted(self, ids: pa.Array) -> None:
        """Raise if the units are not in order: the rows of a unit could then be apart, and would weigh too much."""
        ascending = pc.all(pc.less_equal(ids[:-1], ids[1:]), min_count=0).as_py()
        if self._waiting:
            last = self._waiting[-1].column(self.position)[0]
            ascending = ascending and pc.less_equal(last, ids[0]).as_py()
        if not ascending:
            raise DataError("Spark did not sort the rows by unit. Store the ids as integers or as plain text.")

    def end(self) -> pa.RecordBatch | None:
        rest = self.work.take(_joined(self._waiting)) if self._waiting else None
        answers = [answer for answer in (rest, self.work.end()) if answer is not None]
        return _joined(answers) if answers else None


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches of one schema to one batch."""
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return pa.RecordBatch.from_arrays([pa.concat_arrays(parts) for parts in columns], schema=batches[0].schema)
