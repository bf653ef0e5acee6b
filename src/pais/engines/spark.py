"""Rows in a Spark cluster: each partition is gone over where it is, and only sums and kept rows come back.

The only module that knows Spark. The lower half of it runs in Spark's workers.
"""

from __future__ import annotations

import io
import operator
import zlib
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

try:
    from pyspark import TaskContext, cloudpickle
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql import functions as F  # noqa: N812  # the name every Spark programmer knows
    from pyspark.sql import types as kinds
except ImportError:
    raise ImportError("a Spark frame needs the extra pais[spark]. Run: pip install 'pais[spark]'") from None

from pais._version import __version__
from pais.engines.base import Engine, Fold, Kept, Thinning, WeightedRows, together
from pais.errors import DataError
from pais.randomness import BitSource, KeyedBits, row_bits
from pais.sources import Columns, Layout

T = TypeVar("T")

_BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"

# Rows sent to a worker at a time: as many as fit into this many bytes, within bounds.
_BATCH_BYTES = 1 << 25
_BATCH_ROWS = 1 << 17

_VERSION_MARK = "PAIS_WORKER_VERSION"


class SparkEngine(Engine):
    """Rows of a Spark DataFrame. Each verb is one action, which evaluates the frame once.

    Nothing lazy is ever handed out: a lazy sample is drawn anew by every action on it, and rows that are drawn twice
    pay twice. `on_rows` is not called, since Spark does not say how far its workers are.

    Notes
    -----
    Guarantee. A release draws from SHAKE-256 under a key of 256 fresh bits, by partition, so a task that is retried or
    run twice keeps the same rows and no attempt can be picked for what it kept. With a seed the sample is that of the
    other engines where a key names the rows; without a key, equal rows are numbered, so that it depends on the rows
    alone and not on partitions: `tests/conformance/test_spark_engine.py`, `tests/integration/test_spark_cluster.py`.

    Assumes. The frame yields the same rows in the same order when a task is retried, as files and tables do.
    """

    def __init__(self, frame: Any, columns: Columns, *, on_rows: Callable[[int], None] | None = None) -> None:
        if frame.isStreaming:
            raise DataError("the source is a stream without an end. Pass a frame of rows that are all there.")
        self._frame = frame
        self._layout = _layout(frame, columns)
        self.names, self.n_features = self._layout.names, len(self._layout.names)

    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        reading = _Reading(layout=self._layout, by_rows=seeded)
        table = self._done(_Folding(reading=reading, fold=fold), self._selected(reading), carry=())
        totals = [
            np.load(io.BytesIO(zlib.decompress(total.as_py())), allow_pickle=False) for total in table.column("content")
        ]
        return np.asarray(reduce(operator.add, totals))

    def thin(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
        draws, carry = row_bits(bits), self._layout.columns.carry
        seeded = draws if isinstance(draws, KeyedBits) else None
        keyed = seeded is not None and self._layout.columns.key is not None
        reading = _Reading(layout=self._layout, keyed=keyed, numbered=seeded is not None and not keyed)
        work = _Thinning(
            reading=reading,
            thinning=thinning,
            screen=thinning.screen(self.n_features),
            seeded=seeded,
            key=b"" if seeded is not None else bits.raw(32),
        )
        table = self._done(work, self._selected(reading, carry=carry), carry=carry)
        kept = Kept(
            index=np.arange(table.num_rows),
            rows=_rows_of(table.column("content"), self.n_features),
            weights=np.asarray(table.column("weight").to_numpy()),
        )
        carried = table.select(range(3, table.num_columns)).rename_columns(list(carry)) if carry else None
        return together([kept], self.n_features, carried)

    def _selected(self, reading: _Reading, *, carry: tuple[str, ...] = ()) -> Any:
        """The frame with what a pass needs and no more: features, key, carried columns, in this order."""
        features = [_as_doubles(self._frame, name).alias(f"f{place}") for place, name in enumerate(reading.features)]
        key = [_column(self._frame, self._layout.columns.key).alias("k")] if reading.keyed else []
        beside = [_column(self._frame, name).alias(f"c{place}") for place, name in enumerate(carry)]
        found = _renamed(self._frame).select(*features, *key, *beside)
        if not reading.numbered:
            return found
        # Equal rows must lie side by side to be numbered. 0.0 + x makes one number of the two zeros.
        alike = [f"f{place}" for place in range(len(features))]
        found = found.withColumns({name: _one_zero(found, name) for name in alike})
        # Where features are equal, the columns beside them decide which row is which.
        ties = [f"c{place}" for place, name in enumerate(carry) if _is_sortable(_field(self._frame, name).dataType)]
        return found.repartition(*alike).sortWithinPartitions(*alike, *ties)

    def _done(self, work: _Work, selected: Any, *, carry: tuple[str, ...]) -> pa.Table:
        """What the workers sent back, from one action; their troubles are raised here."""
        schema = kinds.StructType(
            [
                kinds.StructField("content", kinds.BinaryType()),
                kinds.StructField("weight", kinds.DoubleType()),
                kinds.StructField("note", kinds.StringType()),
                *(
                    kinds.StructField(f"c{place}", _sent_type(_field(self._frame, name).dataType))
                    for place, name in enumerate(carry)
                ),
            ]
        )
        run = _for_workers(_pickled(work), __version__)
        with _larger_batches(self._frame.sparkSession, self.n_features):
            table = _guarded(lambda: selected.mapInArrow(run, schema).toArrow())
        notes = {note for note in table.column("note").unique().to_pylist() if note is not None}
        if table.num_rows == 0:
            raise DataError("the source has no rows. Pass at least one row.")
        if notes - {""}:
            raise DataError(min(notes - {""}))
        return table.filter(pc.is_null(table.column("note")))


def _layout(frame: Any, columns: Columns) -> Layout:
    """The columns of a frame, checked by type before any row is read."""
    where = "the source"
    # Names first: at this point every column passes for one of numbers.
    kind = [pa.int64() if isinstance(one.dataType, kinds.IntegralType) else pa.float64() for one in frame.schema.fields]
    found = Layout.of(pa.schema(list(zip(frame.columns, kind, strict=True))), columns, where)
    fields = {name: pa.float64() for name in found.features}
    for name in found.features:
        one = _field(frame, name)
        if _is_vector(one.dataType):
            fields[name] = pa.list_(pa.float64(), _width(frame, name))
        elif not _is_number(one.dataType):
            raise DataError(
                f"column {name!r} of {where} is of type {one.dataType.simpleString()}, not a number. Leave it out or "
                "convert it."
            )
    beside = {name: pa.int64() for name in (*columns.carry, columns.key) if name is not None}
    return Layout.of(pa.schema(list({**beside, **fields}.items())), _keyed_apart(columns, found), where)


def _keyed_apart(columns: Columns, found: Layout) -> Columns:
    """The same columns with the features named; whether the key holds whole numbers has been looked at."""
    key = columns.key if columns.key not in found.features else None
    del key
    return Columns(features=found.features, carry=columns.carry, key=columns.key, missing=columns.missing)
