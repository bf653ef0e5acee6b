"""Engine for Spark: workers process each partition in place and send back only sums and sampled rows.

This is the only module that imports Spark. The code that runs on the workers is in `partition.py`.
"""

from __future__ import annotations

import io
import logging
import operator
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

try:
    from pyspark import cloudpickle
    from pyspark.logger import PySparkLogger
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql import (
        SparkSession,
        functions as F,  # noqa: N812  # the name every Spark programmer knows
        types as kinds,
    )
except ImportError:
    raise ImportError("a Spark frame needs the extra pais[spark]. Run: pip install 'pais[spark]'") from None

from pais._base.randomness import BitSource, KeyedBits, row_bits
from pais._version import __version__
from pais.data.cells import is_text_column, numbers_of_text
from pais.data.columns import Columns, Layout, is_csv, listed, require_header, require_numbers
from pais.data.engines.base import Engine, Fold, Kept, Thinning, WeightedRows, together
from pais.data.engines.blocks import empty_block
from pais.data.engines.partition import Converting, Folding, Reading, Thin, Work, rows_of
from pais.errors import ArgumentError, DataError

T = TypeVar("T")

_BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"

# A batch sent to a worker has as many rows as fit into this many bytes, at least 1 and at most `_BATCH_ROWS`.
_BATCH_BYTES = 1 << 25
_BATCH_ROWS = 1 << 17

# Number of rows used to decide whether a CSV column that the user did not name holds text or numbers.
_FIRST_ROWS = 10_000

# Skip lines whose number of cells differs from the header's, whichever columns are read. Quotes work as in Arrow.
_CSV_OPTIONS = {"mode": "DROPMALFORMED", "columnPruning": "false", "escape": '"'}

# Metadata key that marks the columns of a CSV file. They are text, and become numbers if they are features.
_CSV_MARK = "pais_csv"

_VERSION_MARK = "PAIS_WORKER_VERSION"


class SparkEngine(Engine):
    """Rows of a Spark DataFrame. `fold` and `thin` each run one action, which evaluates the frame once.

    The engine never returns a lazy frame. Every action on a lazy sample would draw it again, and rows that are drawn
    twice incur twice the privacy loss. `on_rows` is not called, since Spark does not report the progress of its
    workers.

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

    def __init__(self, frame: Any, columns: Columns, *, on_rows: Callable[[int], None] | None = None) -> None:
        if frame.isStreaming:
            raise DataError("the source is a stream without an end. Pass a frame of rows that are all there.")
        self._layout = _layout(frame, columns)
        self._frame = _having_key(frame, columns)
        self.names, self.n_features = self._layout.names, len(self._layout.names)

    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        reading = Reading(layout=self._layout, by_rows=seeded)
        table = self._done(Folding(reading=reading, fold=fold), self._selected(reading), carry=())
        totals = [
            np.load(io.BytesIO(zlib.decompress(total.as_py())), allow_pickle=False) for total in table.column("content")
        ]
        return np.asarray(reduce(operator.add, totals) if totals else fold.over(empty_block(self.n_features)))

    def thin(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
        draws, carry = row_bits(bits), self._layout.columns.carry
        seeded = draws if isinstance(draws, KeyedBits) else None
        keyed = seeded is not None and self._layout.columns.key is not None
        reading = Reading(layout=self._layout, keyed=keyed, numbered=seeded is not None and not keyed)
        work = Thin(
            reading=reading,
            thinning=thinning,
            screen=thinning.screen(self.n_features),
            seeded=seeded,
            key=b"" if seeded is not None else bits.raw(32),
        )
        table = self._done(work, self._selected(reading, carry=carry), carry=carry)
        kept = Kept(
            index=np.arange(table.num_rows),
            rows=rows_of(table.column("content"), self.n_features),
            weights=np.asarray(table.column("weight").to_numpy()),
        )
        carried = table.select(range(3, table.num_columns)).rename_columns(list(carry)) if carry else None
        return together([kept], self.n_features, carried)

    def _selected(self, reading: Reading, *, carry: tuple[str, ...] = ()) -> Any:
        """Select only the columns that a pass needs: features, key and carried columns, in this order."""
        features = [_as_doubles(self._frame, name).alias(f"f{place}") for place, name in enumerate(reading.features)]
        key = [_column(self._frame, self._layout.columns.key).alias("k")] if reading.keyed else []
        beside = [_carried(self._frame, name).alias(f"c{place}") for place, name in enumerate(carry)]
        found = _renamed(self._frame).select(*features, *key, *beside)
        if not reading.numbered:
            return found
        # Equal rows must be adjacent to be numbered. Adding 0.0 turns -0.0 into 0.0, so both zeros are equal.
        alike = [f"f{place}" for place in range(len(features))]
        found = _with_numbers(found, alike)
        found = found.withColumns({name: _one_zero(found, name) for name in alike})
        # If rows have equal features, the carried columns determine their order.
        ties = [f"c{place}" for place, name in enumerate(carry) if _is_sortable(_field(self._frame, name).dataType)]
        return found.repartition(*alike).sortWithinPartitions(*alike, *ties)

    def _done(self, work: Work, selected: Any, *, carry: tuple[str, ...]) -> pa.Table:
        """Run one action and return the rows that the workers sent back. Raise an error if a worker reported one."""
        schema = kinds.StructType(
            [
                kinds.StructField("content", kinds.BinaryType()),
                kinds.StructField("weight", kinds.DoubleType()),
                kinds.StructField("note", kinds.StringType()),
                *(
                    kinds.StructField(f"c{place}", _carried_type(_field(self._frame, name).dataType))
                    for place, name in enumerate(carry)
                ),
            ]
        )
        run = _for_workers(_pickled(work), __version__)
        with _larger_batches(self._frame.sparkSession, self.n_features):
            table = _guarded(lambda: selected.mapInArrow(run, schema).toArrow())
        notes = {note for note in table.column("note").unique().to_pylist() if note is not None}
        if notes - {""}:
            raise DataError(min(notes - {""}))
        return table.filter(pc.is_null(table.column("note")))


def read_frame(path: str, *, master: str | None = None) -> Any:
    """Open a Parquet or CSV file, or a directory of them, as a frame of the running Spark session or of a new one.

    All columns of a CSV file are text in this frame. Workers convert features to numbers cell by cell, by the same rule
    as the Arrow engine. Types inferred by Spark are not used, because they would depend on all rows.

    Parameters
    ----------
    path : str
        A path or an address that every node of the cluster can open.
    master : str, optional
        Address of the cluster. None uses Spark's configuration, which defaults to this machine.
    """
    session = _guarded(lambda: _session(master), otherwise="Spark did not start. It needs Java 17 and a free port.")
    reader = session.read
    if not is_csv(path):
        return _guarded(lambda: reader.parquet(path), otherwise=f"{path} cannot be read as Parquet. Check the file.")
    found = _guarded(
        lambda: reader.options(**_CSV_OPTIONS).csv(path, header=True, inferSchema=False),
        otherwise=f"{path} cannot be read as CSV. Check the file.",
    )
    require_header(found.columns, f"file {path}")
    marked = [F.col(f"p{place}").alias(name, metadata={_CSV_MARK: True}) for place, name in enumerate(found.columns)]
    return _renamed(found).select(*marked)


def _with_numbers(selected: Any, names: Sequence[str]) -> Any:
    """Convert those of the named columns that are text to numbers."""
    texts = tuple(name for name in names if _is_string(_field(selected, name).dataType))
    if not texts:
        return selected
    schema = kinds.StructType(
        [
            kinds.StructField(one.name, kinds.DoubleType() if one.name in texts else one.dataType)
            for one in selected.schema.fields
        ]
    )
    return selected.mapInArrow(_for_workers(_pickled(Converting(names=texts)), __version__), schema)


def _csv_features(frame: Any, features: Sequence[str], columns: Columns) -> set[str]:
    """Return the CSV columns that are numeric features: those the user named, or else judged by their first cells."""
    marked = [name for name in features if _field(frame, name).metadata.get(_CSV_MARK) is True]
    texts = [name for name in marked if _is_string(_field(frame, name).dataType)]
    if columns.features is not None or not texts:
        return set(texts)
    chosen = _renamed(frame).select(*[_column(frame, name) for name in texts]).limit(_FIRST_ROWS)
    first = _guarded(chosen.toArrow)
    found = set()
    for name, column in zip(texts, first.columns, strict=True):
        cells = pa.concat_arrays([pa.nulls(0, pa.string()), *(chunk.cast(pa.string()) for chunk in column.chunks)])
        if not is_text_column(cells, numbers_of_text(cells)):
            found.add(name)
    return found


def _session(master: str | None) -> Any:
    if master is None or master.startswith("local"):
        # Otherwise Spark's workers could find a different Python on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("pais")
    settings = {"spark.log.level": "ERROR", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    return (builder if master is None else builder.master(master)).getOrCreate()


def _layout(frame: Any, columns: Columns) -> Layout:
    """Check the types of a frame's columns. Rows are read only for CSV columns that the user did not name."""
    # Check the names first. For this check every column counts as numeric.
    kind = [pa.int64() if isinstance(one.dataType, kinds.IntegralType) else pa.float64() for one in frame.schema.fields]
    features = Layout.of(pa.schema(list(zip(frame.columns, kind, strict=True))), columns, "the source").features
    texts = _csv_features(frame, features, columns)
    found = {name: kinds.DoubleType() if name in texts else _field(frame, name).dataType for name in features}
    others = [(name, kind) for name, kind in found.items() if not _is_vector(kind) and not _is_number(kind)]
    require_numbers([(repr(name), kind.typeName()) for name, kind in others], "the source")
    widths = _widths(frame, [name for name, kind in found.items() if _is_vector(kind)], columns.widths)
    types = {name: pa.list_(pa.float64(), widths[name]) if name in widths else pa.float64() for name in found}
    for name in columns.carry:
        kind_carried = _field(frame, name).dataType
        if isinstance(kind_carried, kinds.UserDefinedType) and not _is_vector(kind_carried):
            raise DataError(f"column {name!r} of the source is of a type of its own and cannot be carried. Convert it.")
    layout = Layout.of(pa.schema(list(types.items())), Columns(features=features), "the source")
    return replace(layout, columns=columns)


def _having_key(frame: Any, columns: Columns) -> Any:
    """Drop rows without a key if a key column is given; with missing="error", raise if there are such rows."""
    if columns.key is None:
        return frame
    names = frame.columns
    keyed = _renamed(frame)
    key = _column(frame, columns.key)
    if columns.missing == "error" and _guarded(lambda: keyed.where(key.isNull()).take(1)):
        raise DataError(
            f"column {columns.key!r} of the source, the key, has missing values. Fill them, or leave those "
            "rows out with missing='drop'."
        )
    return keyed.where(key.isNotNull()).toDF(*names)


def _field(frame: Any, name: str | None) -> Any:
    return frame.schema.fields[frame.columns.index(name)]


def _renamed(frame: Any) -> Any:
    """Rename columns by position, because Spark reads dots in names as struct fields and treats `a` and `A` alike."""
    return frame.toDF(*[f"p{place}" for place in range(len(frame.columns))])


def _column(frame: Any, name: str | None) -> Any:
    return F.col(f"p{frame.columns.index(name)}")


def _as_doubles(frame: Any, name: str) -> Any:
    """Cast a feature to double or array of double. These casts cannot fail and quote a value. Text stays text."""
    kind, column = _field(frame, name).dataType, _column(frame, name)
    if _is_string(kind):
        return column
    if isinstance(kind, kinds.UserDefinedType):
        return vector_to_array(column)
    return column.cast("array<double>" if _is_vector(kind) else "double")


def _one_zero(frame: Any, name: str) -> Any:
    if isinstance(_field(frame, name).dataType, kinds.ArrayType):
        return F.transform(name, lambda number: number + F.lit(0.0))
    return F.col(name) + F.lit(0.0)


def _is_number(kind: Any) -> bool:
    return isinstance(kind, (kinds.NumericType, kinds.BooleanType))


def _is_string(kind: Any) -> bool:
    return isinstance(kind, kinds.StringType)


def _is_vector(kind: Any) -> bool:
    if isinstance(kind, kinds.UserDefinedType):
        return type(kind).__name__ == "VectorUDT"
    return isinstance(kind, kinds.ArrayType) and _is_number(kind.elementType)


def _is_sortable(kind: Any) -> bool:
    return isinstance(kind, kinds.AtomicType) and not isinstance(kind, kinds.VariantType)


def _carried(frame: Any, name: str) -> Any:
    kind, column = _field(frame, name).dataType, _column(frame, name)
    if isinstance(kind, kinds.UserDefinedType):
        return vector_to_array(column)
    return column if kind == _carried_type(kind) else column.cast(_carried_type(kind))


def _carried_type(kind: Any) -> Any:
    """Make all parts of a type nullable, since the carried columns are null in a row that holds a note."""
    if isinstance(kind, kinds.UserDefinedType):
        return kinds.ArrayType(kinds.DoubleType())
    if isinstance(kind, kinds.ArrayType):
        return kinds.ArrayType(_carried_type(kind.elementType))
    if isinstance(kind, kinds.MapType):
        return kinds.MapType(kind.keyType, _carried_type(kind.valueType))
    if isinstance(kind, kinds.StructType):
        return kinds.StructType([kinds.StructField(one.name, _carried_type(one.dataType)) for one in kind.fields])
    return kind


def _widths(frame: Any, vectors: Sequence[str], stated: Mapping[str, int]) -> dict[str, int]:
    """Return the lengths of the vectors from Spark ML's column metadata or from the user, without reading rows."""
    others = [name for name in stated if name not in vectors]
    if others:
        raise ArgumentError(
            f"widths names {listed([repr(name) for name in others])} and the source has no feature that holds vectors "
            "there. Leave it out."
        )
    found: dict[str, int] = {}
    for name in vectors:
        noted = _field(frame, name).metadata.get("ml_attr", {}).get("num_attrs")
        if noted is not None and stated.get(name, noted) != noted:
            raise ArgumentError(
                f"widths[{name!r}]={stated[name]} does not fit the source: the metadata of this column states {noted}. "
                "Leave it out."
            )
        if noted is not None or name in stated:
            found[name] = int(noted if noted is not None else stated[name])
    missing = [name for name in vectors if name not in found]
    if missing:
        raise DataError(
            f"column(s) {listed([repr(name) for name in missing])} of the source hold vectors whose length is not "
            f"stated. State it, for example pais.source(frame, widths={{{missing[0]!r}: 3}})."
        )
    return found


@contextmanager
def _larger_batches(session: Any, n_features: int) -> Iterator[None]:
    """Change Spark's batch size for one pass, then restore the user's setting.

    With Spark's default of 10,000 rows per batch, the overhead of batches takes as long as the work on the rows.
    """
    before = session.conf.get(_BATCH_SETTING, None)
    rows = min(_BATCH_ROWS, max(1, _BATCH_BYTES // (8 * n_features)))
    session.conf.set(_BATCH_SETTING, str(rows))
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_BATCH_SETTING)
        else:
            session.conf.set(_BATCH_SETTING, before)


def _guarded(action: Callable[[], T], *, otherwise: str | None = None) -> T:
    """Return the result of `action`, or raise our own error: Spark's errors and logs can quote the data."""
    loggers: list[logging.Logger] = [
        PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")
    ]
    # At debug level these loggers write what is sent to Java, including the random bits of a release.
    loggers += [logging.getLogger(f"py4j.{name}") for name in ("clientserver", "java_gateway")]
    loggers.append(logging.getLogger("pyspark.sql.connect.logging"))
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        return action()
    except Exception as error:
        said = _in_our_words(error) if otherwise is None else otherwise
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
    # Raised outside the except block, so that Spark's exception does not become the context of this one.
    raise DataError(said)


def _in_our_words(error: Exception) -> str:
    text = str(error)
    other = re.search(rf"{_VERSION_MARK}=([\w.+-]+)", text)
    if other:
        found = "cannot import pais" if other[1] == "none" else f"have pais {other[1]}"
        return f"Spark's workers {found}, and here it is pais {__version__}. Install the same version on every node."
    if "maxResultSize" in text:
        return "the sample is larger than spark.driver.maxResultSize. Plan for fewer rows, or raise that setting."
    if isinstance(error, ImportError):
        return "Spark misses a package that it needs for Arrow. Install the extra pais[spark]."
    return (
        f"Spark could not go over the source ({type(error).__name__}). Check that the frame can be computed by itself; "
        "Spark's own words are not shown here, since they can quote rows."
    )


def _pickled(work: Work) -> bytes:
    dumps: Callable[[Work], bytes] = cloudpickle.dumps
    try:
        return dumps(work)
    except Exception:
        pass
    raise ArgumentError("the rule cannot be sent to Spark's workers. Make it of functions and numbers alone.")


def _for_workers(work: bytes, version: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark sends to its workers.

    The function imports this package only when it runs, so a worker without the package can report that.
    """
    mark = _VERSION_MARK

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            from pais._version import __version__ as found
        except ImportError:
            found = "none"
        if found != version:
            raise RuntimeError(f"{mark}={found}")
        from pyspark import TaskContext

        from pais.data.engines.partition import over_partition

        context = TaskContext.get()
        if context is None:
            # Without the partition number, two partitions could use the same random bits.
            raise RuntimeError("not in a task of Spark")
        yield from over_partition(work, context.partitionId(), batches)

    return run
