"""Engine for Spark: workers process each partition in place and send back only sums and sampled rows.

Only the modules `spark*.py` import Spark. The code that runs on the workers is in `partition.py`.
"""

from __future__ import annotations

import copy
import functools
import io
import operator
import os
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

try:
    from pyspark.sql import SparkSession, types as kinds
except ImportError:
    raise ImportError("Spark DataFrames need the extra pais[spark]. Run: pip install 'pais[spark]'") from None

from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, KeyedBits, RandomState, SecureBits, row_bits
from pais.data.columns import Columns
from pais.data.dialect import Dialect, no_csv, require_separator, separator_in
from pais.data.engines import spark_columns
from pais.data.engines.base import Engine, Fold, KeptRows, Thinning, WeightedRows, join
from pais.data.engines.blocks import RowBlock
from pais.data.engines.by_unit import ByUnit
from pais.data.engines.candidates import Collecting, Counted, ceiling_for
from pais.data.engines.partition import Folding, Numbering, Reading, Thin, Work, label_batches, rows_of
from pais.data.engines.people import PeopleFold
from pais.data.engines.sieve import Sieve
from pais.data.engines.spark_actions import for_workers, guarded, larger_batches
from pais.data.headers import is_csv, require_header
from pais.data.schema import Schema
from pais.errors import DataError

# Skip lines whose number of cells differs from the header's, whichever columns are read. Quotes work as in Arrow.
_CSV_OPTIONS = {"mode": "DROPMALFORMED", "columnPruning": "false", "escape": '"'}

_SESSION_SETTINGS = {"spark.log.level": "ERROR", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


class SparkEngine(Engine):
    """Rows of a Spark DataFrame. `fold` and `thin` each run one action, which evaluates the frame once.

    `fold_again` also collects candidates. If they suffice for a sample, `thin` runs no action. The engine never returns
    a lazy frame. Every action on a lazy sample would draw it again, and rows that are drawn twice incur twice the
    privacy loss. `on_rows` is not called, since Spark does not report the progress of its workers.

    Notes
    -----
    Guarantee. A release draws a key of 256 fresh bits. A row's draw is determined by that key, the number of its
    partition and the row id: content hash plus occurrence number among equal rows. So if Spark computes a partition
    again, the same rows are kept, in whatever order they arrive, and which attempt Spark uses cannot depend on the rows
    that it kept. With a seed and a key column, the sample is the same as in the other engines. With a seed but without
    a key column, equal rows are numbered, so that the sample depends only on the rows and not on the partitions:
    `tests/conformance/spark/test_spark_engine.py`, `tests/conformance/test_partition_draws.py`,
    `tests/integration/test_spark_cluster.py`.

    Assumes. If Spark computes a partition again, it has the same rows, each the same number of times, in any order.
    This is not checked: only the attempt that Spark uses sends an answer, so the driver has nothing to compare it with.
    If rows differ only in carried columns, the number of these rows that are kept does not depend on the order, but
    which of them are kept does.
    """

    _sieve: Sieve | None = None
    _ceiling = -1

    def __init__(self, frame: Any, columns: Columns, *, on_rows: Callable[[int], None] | None = None) -> None:
        if frame.isStreaming:
            raise DataError("the source is a streaming frame, which has no end. Pass a frame with a fixed set of rows.")
        of_lines = Dialect(separator=columns.dialect.separator, encoding=columns.dialect.encoding)
        if of_lines.stated:
            raise no_csv("a Spark DataFrame", of_lines)
        self._layout = spark_columns.layout_of(frame, columns)
        self._frame = spark_columns.with_keys(frame, columns)
        if columns.unit is not None:
            # Raises if the column has a type that cannot name units.
            spark_columns.unit_ids(frame, columns.unit.column)
        self.names, self.n_features, self.unit = self._layout.names, len(self._layout.names), columns.unit
        self.schema, self._columns = columns.schema, columns

    def _rescaled(self, schema: Schema) -> Engine:
        engine = copy.copy(self)
        engine._layout = self._layout.with_schema(schema)
        engine._columns = engine._layout.columns
        engine.schema = schema
        return engine

    @property
    def feature_columns(self) -> tuple[str, ...] | None:
        return self._layout.features

    def labelled(self, centers: FloatArray, name: str) -> Any:
        """Return the frame with the number of the nearest center of each row; null if a value is missing.

        The result is an ordinary lazy frame. NOT PROTECTED: a label depends on its row.
        """
        frame, reading = self._frame, Reading(layout=self._layout, by_rows=True)
        columns = tuple(frame.columns)
        if name.casefold() in map(str.casefold, columns):
            raise DataError(f"the frame has a column {name!r} already. Rename it before you label the rows.")
        types = [spark_columns.carried_type(spark_columns.type_of(frame, column)) for column in columns]
        fields = [kinds.StructField(f"c{i}", kind) for i, kind in enumerate(types)]
        schema = kinds.StructType([*fields, kinds.StructField(name, kinds.IntegerType())])
        work = functools.partial(label_batches, reading, centers, name)
        return self._selected(reading, carry=columns).mapInArrow(work, schema).toDF(*columns, name)

    def sifting(self, random_state: RandomState | BitSource, *, stream: int = 0) -> Engine:
        """Return an engine that collects candidates for a release, unless units or carried columns need the rows again.

        The candidates come with the second pass of a survey. Its first pass counts the rows, which limits them.
        """
        if random_state is not None or stream != 0 or self.unit is not None or self._layout.columns.carry:
            return self
        engine = copy.copy(self)
        engine._sieve = Sieve.of(random_state, stream=stream)
        return engine

    def sift(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        if self._sieve is None:
            return self.fold(fold, seeded=seeded)
        total = self.fold(Counted(fold=fold), seeded=seeded)
        self._ceiling = ceiling_for(int(total[-1]) * self.n_features)
        return total[:-1]

    def fold_again(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        if self._sieve is None or self._ceiling < 0:
            return self.fold(fold, seeded=seeded)
        reading = Reading(layout=self._layout)
        work = Collecting(
            reading=reading,
            fold=fold,
            ceiling=self._ceiling,
            n_features=self.n_features,
            key=SecureBits().raw(32),
        )
        table = self._run(work, self._selected(reading), carry=())
        is_sum = pc.is_null(table.column("weight"))
        candidates = table.filter(pc.invert(is_sum))
        block = RowBlock(
            rows_of(candidates.column("content"), self.n_features), np.zeros(candidates.num_rows, dtype=np.uint64)
        )
        first = candidates.column("weight").to_numpy().astype(np.uint8)
        self._sieve.hold(block, first, ceiling=self._ceiling, schema=self.schema)
        return self._sum(fold, table.filter(is_sum))

    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        self.require_masses(fold)
        return self._folded(fold, seeded=seeded)

    def fold_people(self, fold: PeopleFold, *, seeded: bool) -> NDArray[Any]:
        # A worker gets all rows of a unit in one batch.
        return self._folded(fold, seeded=seeded)

    def _folded(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        reading = Reading(layout=self._layout, by_rows=seeded, unit=self.unit)
        return self._sum(fold, self._run(Folding(reading=reading, fold=fold), self._selected(reading), carry=()))

    def _sum(self, fold: Fold, table: pa.Table) -> NDArray[Any]:
        # One by one: a large table has a hundred thousand partitions, and their sums would not fit into memory.
        contents = (io.BytesIO(zlib.decompress(content.as_py())) for content in table.column("content"))
        sums = (np.load(content, allow_pickle=False) for content in contents)
        return np.asarray(functools.reduce(operator.add, sums, self.total(fold, [])))

    def thin(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
        draws, carry = row_bits(bits), self._layout.columns.carry
        if self._sieve is not None:
            sample = self._sieve.thinned(thinning, draws, self.n_features, self.schema)
            if sample is not None:
                return sample
        seeded = draws if isinstance(draws, KeyedBits) else None
        by_row = seeded is not None and self.unit is None
        keyed = by_row and self._layout.columns.key is not None
        numbering = Numbering() if by_row and not keyed else None
        encoded = self.schema is not None and numbering is not None
        reading = Reading(layout=self._layout, keyed=keyed, numbering=numbering, unit=self.unit, encoded=encoded)
        work = Thin(
            reading=reading,
            thinning=thinning,
            screen=thinning.screen(self.n_features),
            seeded=seeded,
            key=b"" if seeded is not None else bits.raw(32),
        )
        table = self._run(work, self._selected(reading, carry=carry), carry=carry)
        kept = KeptRows(
            index=np.arange(table.num_rows),
            rows=rows_of(table.column("content"), self.n_features),
            weights=np.asarray(table.column("weight").to_numpy()),
        )
        carried = table.select(range(3, table.num_columns)).rename_columns(list(carry)) if carry else None
        return join([kept], self.n_features, carried)

    def _selected(self, reading: Reading, *, carry: tuple[str, ...] = ()) -> Any:
        """Select only the columns that a pass needs: features, key and carried columns, in this order."""
        frame, key = self._frame, self._layout.columns.key
        columns = {f"f{i}": self._feature(name) for i, name in enumerate(reading.features)}
        features = list(columns)
        if reading.keyed:
            columns["k"] = spark_columns.column_of(frame, key)
        if self.unit is not None:
            columns["u"] = spark_columns.unit_ids(frame, self.unit.column)
        columns |= {f"c{i}": spark_columns.carried(frame, name) for i, name in enumerate(carry)}
        selected = spark_columns.renamed(frame).select(*[column.alias(name) for name, column in columns.items()])
        if self.unit is not None:
            # All rows of a unit come to one worker, next to each other. Text is compared by its bytes.
            unit = spark_columns.compared_by_bytes(selected, "u")
            return selected.where("u is not null").repartition(unit).sortWithinPartitions(unit)
        if reading.numbering is None:
            return selected
        # Equal rows must be adjacent to be numbered. If rows have equal features, the carried columns decide the order.
        types = [spark_columns.type_of(frame, name) for name in carry]
        ties = [f"c{i}" for i, kind in enumerate(types) if spark_columns.is_sortable(kind)]
        if self.schema is not None:
            numbers = spark_columns.with_vectors(selected, self._layout, features)
            features = [f"f{i}" for i in range(self.n_features)]
        else:
            numbers = spark_columns.with_numbers(selected, features, self._layout.columns.dialect)
        return numbers.repartition(*features).sortWithinPartitions(*features, *ties)

    def _feature(self, name: str) -> Any:
        """Select a feature: in its own type with a schema, by which workers encode it, else as doubles."""
        if self.schema is not None:
            return spark_columns.column_of(self._frame, name)
        return spark_columns.as_doubles(self._frame, name)

    def _run(self, work: Work, selected: Any, *, carry: tuple[str, ...]) -> pa.Table:
        """Run one action and return the rows that the workers sent back. Raise an error if a worker reported one."""
        types = {"content": kinds.BinaryType(), "weight": kinds.DoubleType(), "note": kinds.StringType()}
        carried = [spark_columns.carried_type(spark_columns.type_of(self._frame, name)) for name in carry]
        types |= {f"c{i}": kind for i, kind in enumerate(carried)}
        schema = kinds.StructType([kinds.StructField(name, kind) for name, kind in types.items()])
        if self.unit is not None:
            work = ByUnit(work=work, position=len(dict.fromkeys(self._layout.features)))
        run = for_workers(work)
        with larger_batches(self._frame.sparkSession, self.n_features):
            table = guarded(lambda: selected.mapInArrow(run, schema).toArrow())
        notes = {note for note in table.column("note").unique().to_pylist() if note is not None}
        if notes - {""}:
            raise DataError(min(notes - {""}))
        return table.filter(pc.is_null(table.column("note")))


def read_frame(path: str, *, master: str | None = None, separator: str | None = None) -> Any:
    """Open a Parquet or CSV file, or a directory of them, as a frame of the running Spark session or of a new one.

    All columns of a CSV file are text in this frame. Workers convert features to numbers cell by cell, by the same rule
    as the Arrow engine. Types inferred by Spark are not used, because they would depend on all rows.

    Parameters
    ----------
    path : str
        A path or an address that every node of the cluster can open.
    master : str, optional
        Address of the cluster. None uses Spark's configuration, which defaults to this machine.
    separator : str, optional
        As in `pais.source`, for CSV files.
    """
    require_separator(separator)
    session = guarded(lambda: _session(master), otherwise="Spark did not start. It needs Java 17 and a free port.")
    reader = session.read
    if not is_csv(path):
        if separator is not None:
            raise no_csv(path, Dialect(separator=separator))
        return guarded(lambda: reader.parquet(path), otherwise=f"{path} cannot be read as Parquet. Check the file.")

    def opened(mark: str) -> Any:
        options = {**_CSV_OPTIONS, "sep": mark}
        return guarded(
            lambda: reader.options(**options).csv(path, header=True, inferSchema=False),
            otherwise=f"{path} cannot be read as CSV. Check the file.",
        )

    frame = opened(separator or ",")
    if separator is None and len(frame.columns) == 1 and separator_in(frame.columns[0]) != ",":
        frame = opened(separator_in(frame.columns[0]))
    require_header(frame.columns, f"file {path}")
    return spark_columns.marked_as_csv(frame)


def _session(master: str | None) -> Any:
    if master is None or master.startswith("local"):
        # Otherwise Spark's workers could find a different Python on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("pais")
    for name, value in _SESSION_SETTINGS.items():
        builder = builder.config(name, value)
    return (builder if master is None else builder.master(master)).getOrCreate()
