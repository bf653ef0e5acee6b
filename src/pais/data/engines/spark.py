"""Engine for Spark: workers process each partition in place and send back only sums and sampled rows.

This is the code of the driver, and the only module that imports Spark. The code of the workers is in `partition.py`.
"""

from __future__ import annotations

import copy
import functools
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
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base.randomness import BitSource, KeyedBits, RandomState, SecureBits, row_bits
from pais._base.validate import attempt
from pais._version import __version__
from pais.data.cells import MISSING_WORDS, is_text_column, listed, require_numeric
from pais.data.columns import Columns, Layout
from pais.data.dialect import Dialect, is_csv, no_csv, require_header, separator_in
from pais.data.engines.base import CarriedCells, Engine, Fold, KeptRows, PeopleFold, Sampling, WeightedRows, join
from pais.data.engines.blocks import RowBlock, empty_block
from pais.data.engines.local import Candidates
from pais.data.engines.partition import (
    CandidatesTask,
    Counted,
    FoldTask,
    Numbering,
    Reading,
    SampleTask,
    Task,
    UnitTask,
    VectorsTask,
    ceiling_for,
    label_batches,
    rows_of,
)
from pais.data.schema import Schema
from pais.data.units import BLANKS, FIRST_LOSSY, LOSSY_FLOAT, LOST, WHOLE_FLOAT, normalised
from pais.errors import ArgumentError, DataError

try:
    from pyspark import cloudpickle
    from pyspark.logger import PySparkLogger
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql import (
        SparkSession,
        functions as F,  # noqa: N812  # the name every Spark programmer knows
        types as kinds,
    )
    from pyspark.sql.pandas.types import to_arrow_type
except ImportError:
    raise ImportError("Spark DataFrames need the extra pais[spark]. Run: pip install 'pais[spark]'") from None


T = TypeVar("T")
OverBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"

# A batch sent to a worker has as many rows as fit into this many bytes, at least 1 and at most `_BATCH_ROWS`.
_BATCH_BYTES = 1 << 25
_BATCH_ROWS = 1 << 17

_VERSION_MARK = "PAIS_WORKER_VERSION"

# Parts of Spark's messages if the workers run another Python, or one without the packages that Spark needs.
_OTHER_PYTHON = re.compile(
    r"PYTHON_VERSION_MISMATCH|Python in worker has different version|No module named|Cannot run program"
    r"|PACKAGE_NOT_INSTALLED"
)
_HINT = "set the environment variable PYSPARK_PYTHON to the Python of this program before Spark starts"


def guarded(action: Callable[[], T], *, otherwise: str | None = None) -> T:
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
        message = _explain(error) if otherwise is None else otherwise
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
    # Raised outside the except block, so that Spark's exception does not become the context of this one.
    raise DataError(message)


def _explain(error: Exception) -> str:
    text = str(error)
    worker_version = re.search(rf"{_VERSION_MARK}=([\w.+-]+)", text)
    if worker_version:
        have = "cannot import pais" if worker_version[1] == "none" else f"have pais {worker_version[1]}"
        return (
            f"Spark's workers {have}, but the driver has pais {__version__}. Install the same version on every node, "
            f"or {_HINT}."
        )
    if _OTHER_PYTHON.search(text):
        return f"Spark's workers run another Python, without the packages they need. To use this one, {_HINT}."
    if "maxResultSize" in text:
        return "the sample is larger than spark.driver.maxResultSize. Plan for fewer rows, or raise that setting."
    if isinstance(error, ImportError):
        return "Spark lacks a package that it needs for Arrow. Install the extra pais[spark]."
    return (
        f"Spark could not read the source ({type(error).__name__}). Check that Spark can compute the frame without "
        "pais; Spark's message is hidden, since it can quote rows."
    )


def for_workers(task: Task) -> OverBatches:
    """Return the function that Spark sends to its workers to do this work."""
    dumps: Callable[[Task], bytes] = cloudpickle.dumps
    pickled = attempt(lambda: dumps(task))
    if pickled is None:
        raise ArgumentError("the rule cannot be sent to Spark's workers. Build it from functions and numbers only.")
    return _importing(pickled, __version__)


def _importing(task: bytes, version: str) -> OverBatches:
    """Return a function that imports pais only when it runs, so a worker without the package can report that."""
    mark = _VERSION_MARK

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            from pais._version import __version__ as worker_version
        except ImportError:
            worker_version = "none"
        if worker_version != version:
            raise RuntimeError(f"{mark}={worker_version}")
        import gc
        import sys

        from pyspark import TaskContext

        is_new_worker = "pais.data.engines.partition" not in sys.modules
        from pais.data.engines.partition import over_partition

        if is_new_worker:
            # Spark collects garbage after each task, which takes 40 ms for the objects of imported modules.
            gc.freeze()

        context = TaskContext.get()
        if context is None:
            # Without the partition number, two partitions could use the same random bits.
            raise RuntimeError("not in a task of Spark")
        yield from over_partition(task, context.partitionId(), batches)

    return run


@contextmanager
def larger_batches(session: Any, n_features: int) -> Iterator[None]:
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


# Number of rows used to decide whether a CSV column that the user did not name holds text or numbers.
_FIRST_ROWS = 10_000

# Metadata key that marks the columns of a CSV file. They are text, and become numbers if they are features.
_CSV_MARK = "pais_csv"


# Every integer of so many digits fits into 64 bits.
_DIGITS_OF_BIGINT = 18

# Types of Spark that a schema takes, and Arrow types of the same kind.
_STAND_INS = (
    (kinds.IntegralType, pa.int64()),
    (kinds.NumericType, pa.float64()),
    (kinds.BooleanType, pa.bool_()),
    (kinds.StringType, pa.string()),
    (kinds.DateType, pa.date32()),
    ((kinds.TimestampType, kinds.TimestampNTZType), pa.timestamp("us")),
    (kinds.NullType, pa.null()),
)

_WHERE = "the source"


def renamed(frame: Any) -> Any:
    """Rename columns by position, because Spark reads dots in names as struct fields and treats `a` and `A` alike."""
    return frame.toDF(*[f"p{position}" for position in range(len(frame.columns))])


def column_of(frame: Any, name: str | None) -> Any:
    """Return a column of the renamed frame, given its name in this frame."""
    return F.col(f"p{frame.columns.index(name)}")


def type_of(frame: Any, name: str) -> Any:
    return frame.schema.fields[frame.columns.index(name)].dataType


def _field(frame: Any, name: str) -> Any:
    return frame.schema.fields[frame.columns.index(name)]


def layout_of(frame: Any, columns: Columns) -> Layout:
    """Check the types of a frame's columns. Rows are read only for CSV columns that the user did not name."""
    if columns.schema is not None:
        _require_carried(frame, columns)
        return Layout.of(
            pa.schema([(field.name, _arrow_type(field.dataType)) for field in frame.schema.fields]), columns, _WHERE
        )
    # Check the names first. For this check every column counts as numeric.
    stand_ins = [
        (field.name, pa.int64() if isinstance(field.dataType, kinds.IntegralType) else pa.float64())
        for field in frame.schema.fields
    ]
    features = Layout.of(pa.schema(stand_ins), columns, "the source").features
    numeric_texts = _numeric_texts(frame, features, columns)
    types = {name: kinds.DoubleType() if name in numeric_texts else type_of(frame, name) for name in features}
    others = [(name, kind) for name, kind in types.items() if not _is_vector(kind) and not _is_number(kind)]
    require_numeric([(repr(name), kind.typeName()) for name, kind in others], "the source")
    widths = _widths(frame, [name for name, kind in types.items() if _is_vector(kind)], columns.widths)
    _require_carried(frame, columns)
    schema = [(name, pa.list_(pa.float64(), widths[name]) if name in widths else pa.float64()) for name in types]
    return replace(Layout.of(pa.schema(schema), Columns(features=features), "the source"), columns=columns)


def _arrow_type(kind: Any) -> pa.DataType:
    """Return a type that stands for those in which workers receive a column; binary for types that no schema takes."""
    for base, stand_in in _STAND_INS:
        if isinstance(kind, base):
            return stand_in
    return attempt(lambda: to_arrow_type(kind)) or pa.binary()


def _require_carried(frame: Any, columns: Columns) -> None:
    for name in (name for name in columns.carry if name in frame.columns):
        kind = type_of(frame, name)
        if isinstance(kind, kinds.UserDefinedType) and not _is_vector(kind):
            raise DataError(f"column {name!r} of the source has a user-defined type and cannot be carried. Convert it.")


def _numeric_texts(frame: Any, features: Sequence[str], columns: Columns) -> set[str]:
    """Return the CSV columns that are numeric features: those the user named, or else judged by their first cells."""
    marked = [name for name in features if _field(frame, name).metadata.get(_CSV_MARK) is True]
    texts = [name for name in marked if is_string(type_of(frame, name))]
    if columns.features is not None or not texts:
        return set(texts)
    first_rows = renamed(frame).select(*[column_of(frame, name) for name in texts]).limit(_FIRST_ROWS)
    table = guarded(first_rows.toArrow)
    numeric = set()
    for name, column in zip(texts, table.columns, strict=True):
        cells = pa.concat_arrays([pa.nulls(0, pa.string()), *(chunk.cast(pa.string()) for chunk in column.chunks)])
        if not is_text_column(cells, columns.dialect.numbers(cells)):
            numeric.add(name)
    return numeric


def _widths(frame: Any, vectors: Sequence[str], stated: Mapping[str, int]) -> dict[str, int]:
    """Return the lengths of the vectors from Spark ML's column metadata or from the user, without reading rows."""
    others = [repr(name) for name in stated if name not in vectors]
    if others:
        raise ArgumentError(f"widths names {listed(others)}, but the source has no such vector feature. Leave it out.")
    known = {name: _field(frame, name).metadata.get("ml_attr", {}).get("num_attrs") for name in vectors}
    for name, width in known.items():
        if width is not None and stated.get(name, width) != width:
            raise ArgumentError(
                f"widths[{name!r}]={stated[name]} is wrong: the metadata of this column states {width}. Leave it out."
            )
    widths = {name: stated.get(name) if width is None else int(width) for name, width in known.items()}
    unknown = [name for name, width in widths.items() if width is None]
    if unknown:
        raise DataError(
            f"column(s) {listed([repr(name) for name in unknown])} of the source hold vectors of unknown length. State "
            f"it, for example pais.source(frame, widths={{{unknown[0]!r}: 3}})."
        )
    return {name: width for name, width in widths.items() if width is not None}


def with_keys(frame: Any, columns: Columns) -> Any:
    """Drop rows without a key if a key column is given; with missing="error", raise if there are such rows."""
    if columns.key is None:
        return frame
    by_position, key = renamed(frame), column_of(frame, columns.key)
    if columns.missing == "error" and guarded(lambda: by_position.where(key.isNull()).take(1)):
        raise columns.key_is_missing("the source")
    return by_position.where(key.isNotNull()).toDF(*frame.columns)


def unit_ids(frame: Any, name: str) -> Any:
    """Return the ids of units: text without blanks around it, and null for an id that is missing."""
    kind, column = type_of(frame, name), column_of(frame, name)
    if is_string(kind):
        # Under another collation, different ids can be equal.
        trimmed = F.btrim(F.collate(column, "UTF8_BINARY"), F.lit(BLANKS))
        missing = trimmed.isin(MISSING_WORDS.to_pylist()) | trimmed.rlike(LOSSY_FLOAT) | trimmed.contains(LOST)
        return F.when(~missing, F.regexp_replace(trimmed, WHOLE_FLOAT, "$1"))
    if isinstance(kind, kinds.DecimalType) and kind.scale == 0:
        # Both are exact. A double would make different ids equal.
        return column.cast("bigint" if kind.precision <= _DIGITS_OF_BIGINT else "string")
    if isinstance(kind, (kinds.FloatType, kinds.DoubleType)):
        number = column.cast("double") + F.lit(0.0)
        return F.when(~F.isnan(number) & (F.abs(number) < F.lit(float(FIRST_LOSSY))), number)
    if not isinstance(kind, (kinds.IntegralType, kinds.BinaryType)):
        raise DataError("the unit column of the source holds neither integers nor text. Convert it, or choose another.")
    return column


def as_doubles(frame: Any, name: str) -> Any:
    """Cast a feature to double or array of double. These casts cannot fail and quote a value. Text stays text."""
    kind, column = type_of(frame, name), column_of(frame, name)
    if is_string(kind):
        return column
    if isinstance(kind, kinds.UserDefinedType):
        return vector_to_array(column)
    return column.cast("array<double>" if _is_vector(kind) else "double")


def with_vectors(frame: Any, layout: Layout) -> Any:
    """Replace the features, which come first, by the numbers of a row, one column of doubles each."""
    numbers = [kinds.StructField(f"f{position}", kinds.DoubleType()) for position in range(len(layout.names))]
    others = frame.schema.fields[len(layout.features) :]
    task = VectorsTask(reading=Reading(layout=layout))
    return frame.mapInArrow(for_workers(task), kinds.StructType([*numbers, *others]))


def carried(frame: Any, name: str) -> Any:
    kind, column = type_of(frame, name), column_of(frame, name)
    if isinstance(kind, kinds.UserDefinedType):
        return vector_to_array(column)
    return column if kind == carried_type(kind) else column.cast(carried_type(kind))


def carried_type(kind: Any) -> Any:
    """Make all parts of a type nullable, since the carried columns are null in a row that holds a note."""
    if isinstance(kind, kinds.UserDefinedType):
        return kinds.ArrayType(kinds.DoubleType())
    if isinstance(kind, kinds.ArrayType):
        return kinds.ArrayType(carried_type(kind.elementType))
    if isinstance(kind, kinds.MapType):
        return kinds.MapType(kind.keyType, carried_type(kind.valueType))
    if isinstance(kind, kinds.StructType):
        return kinds.StructType([kinds.StructField(field.name, carried_type(field.dataType)) for field in kind.fields])
    return kind


def is_string(kind: Any) -> bool:
    return isinstance(kind, kinds.StringType)


def _is_number(kind: Any) -> bool:
    return isinstance(kind, (kinds.NumericType, kinds.BooleanType))


def _is_vector(kind: Any) -> bool:
    if isinstance(kind, kinds.UserDefinedType):
        return type(kind).__name__ == "VectorUDT"
    return isinstance(kind, kinds.ArrayType) and _is_number(kind.elementType)


# Skip lines whose number of cells differs from the header's, whichever columns are read. Quotes work as in Arrow.
_CSV_OPTIONS = {"mode": "DROPMALFORMED", "columnPruning": "false", "escape": '"'}

_SESSION_SETTINGS = {"spark.log.level": "ERROR", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


class SparkEngine(Engine):
    """Rows of a Spark DataFrame. `fold` and `sample` each run one action, which evaluates the frame once.

    `fold_again` also collects candidates. If they suffice, `sample` runs no action. The engine never returns a lazy
    frame. Every action on a lazy sample would draw it again, and rows that are drawn twice incur twice the
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

    _candidates: Candidates | None = None
    _ceiling = -1

    def __init__(self, frame: Any, columns: Columns, *, on_rows: Callable[[int], None] | None = None) -> None:
        if frame.isStreaming:
            raise DataError("the source is a streaming frame, which has no end. Pass a frame with a fixed set of rows.")
        of_lines = Dialect(separator=columns.dialect.separator, encoding=columns.dialect.encoding)
        if of_lines.stated:
            raise no_csv("a Spark DataFrame", of_lines)
        self._layout = layout_of(frame, columns)
        self._frame = with_keys(frame, columns)
        if columns.unit is not None:
            # Raises if the column has a type that cannot name units.
            unit_ids(frame, columns.unit.column)
        names = self._layout.names
        super().__init__(columns, names=names, features=self._layout.features, n_features=len(names))

    def _rescale(self, before: Schema) -> None:
        assert self.schema is not None
        self._layout = self._layout.with_schema(self.schema)

    def labelled(self, label: Callable[[NDArray[np.generic]], NDArray[np.int32]], name: str) -> Any:
        """Return the frame with a label of each row, as `label` computes it; null for a label below 0.

        The result is an ordinary lazy frame. NOT PROTECTED: a label depends on its row.
        """
        frame, reading = self._frame, Reading(layout=self._layout, by_rows=True)
        columns = tuple(frame.columns)
        if name.casefold() in map(str.casefold, columns):
            raise DataError(f"the frame has a column {name!r} already. Rename it before you label the rows.")
        types = [carried_type(type_of(frame, column)) for column in columns]
        fields = [kinds.StructField(f"c{i}", kind) for i, kind in enumerate(types)]
        schema = kinds.StructType([*fields, kinds.StructField(name, kinds.IntegerType())])
        work = functools.partial(label_batches, reading, label, name)
        return self._selected(reading, carry=columns).mapInArrow(work, schema).toDF(*columns, name)

    def collecting(self, random_state: RandomState | BitSource, *, stream: int = 0, most: int | None = None) -> Engine:
        """Return an engine that collects candidates for a release, unless units or carried columns need the rows again.

        The candidates come with the second pass of a survey. Its first pass counts the rows, which limits them.
        """
        if random_state is not None or stream != 0 or self.unit is not None or self.stated.carry:
            return self
        engine = copy.copy(self)
        engine._candidates = Candidates.of(random_state, stream=stream)
        return engine

    def fold_and_collect(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        if self._candidates is None:
            return self.fold(fold, seeded=seeded)
        total = self.fold(Counted(fold=fold), seeded=seeded)
        self._ceiling = ceiling_for(int(total[-1]) * self.n_features)
        return total[:-1]

    def fold_again(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        if self._candidates is None or self._ceiling < 0:
            return self.fold(fold, seeded=seeded)
        reading = Reading(layout=self._layout)
        task = CandidatesTask(
            reading=reading,
            fold=fold,
            ceiling=self._ceiling,
            n_features=self.n_features,
            key=SecureBits().raw(32),
        )
        table = self._run(task, self._selected(reading), carry=())
        is_sum = pc.is_null(table.column("weight"))
        candidates = table.filter(pc.invert(is_sum))
        block = RowBlock(
            rows_of(candidates.column("content"), self.n_features), np.zeros(candidates.num_rows, dtype=np.uint64)
        )
        first = candidates.column("weight").to_numpy().astype(np.uint8)
        self._candidates.hold(block, first, ceiling=self._ceiling, schema=self.schema)
        return self._sum(fold, table.filter(is_sum))

    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        self.require_masses(fold)
        return self._folded(fold, seeded=seeded)

    def fold_people(self, fold: PeopleFold, *, seeded: bool) -> NDArray[Any]:
        # A worker gets all rows of a unit in one batch.
        return self._folded(fold, seeded=seeded)

    def _folded(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        reading = Reading(layout=self._layout, by_rows=seeded, unit=self.unit)
        return self._sum(fold, self._run(FoldTask(reading=reading, fold=fold), self._selected(reading), carry=()))

    def _sum(self, fold: Fold, table: pa.Table) -> NDArray[Any]:
        # One by one: a large table has a hundred thousand partitions, and their sums would not fit into memory.
        contents = (io.BytesIO(zlib.decompress(content.as_py())) for content in table.column("content"))
        sums = (np.load(content, allow_pickle=False) for content in contents)
        return np.asarray(functools.reduce(operator.add, sums, fold.over(empty_block(self.n_features))))

    def sample(self, sampling: Sampling, bits: BitSource) -> WeightedRows:
        draws, carry = row_bits(bits), self.stated.carry
        if self._candidates is not None:
            sample = self._candidates.sample(sampling, draws, self)
            if sample is not None:
                return sample
        seeded = draws if isinstance(draws, KeyedBits) else None
        by_row = seeded is not None and self.unit is None
        keyed = by_row and self.stated.key is not None
        numbering = Numbering() if by_row and not keyed else None
        reading = Reading(layout=self._layout, keyed=keyed, numbering=numbering, unit=self.unit)
        task = SampleTask(
            reading=reading,
            sampling=sampling,
            screen=sampling.screen(self.n_features),
            seeded=seeded,
            key=b"" if seeded is not None else bits.raw(32),
        )
        table = self._run(task, self._selected(reading, carry=carry), carry=carry)
        kept = KeptRows(
            index=np.arange(table.num_rows),
            rows=rows_of(table.column("content"), self.n_features),
            weights=np.asarray(table.column("weight").to_numpy()),
        )
        carried = table.select(range(3, table.num_columns)).rename_columns(list(carry)) if carry else None
        return join([kept], self.n_features, carried)

    def over_carried(self, work: Callable[[CarriedCells], T]) -> list[T]:
        # The workers reduce the rows, so that the driver gets each pair of a unit and cells once.
        frame, carry = self._frame, self.stated.carry
        columns = [carried(frame, name).alias(f"c{i}") for i, name in enumerate(carry)]
        if self.unit is None:
            counted = renamed(frame).select(*columns).groupBy(*[f"c{i}" for i in range(len(carry))]).count()
            table = guarded(counted.toArrow)
            counts = np.asarray(table.column("count").to_numpy())
            return [work(CarriedCells(table.drop_columns(["count"]).rename_columns(list(carry)), counts=counts))]
        selected = renamed(frame).select(unit_ids(frame, self.unit.column).alias("u"), *columns)
        table = guarded(selected.where("u is not null").distinct().toArrow)
        ids = normalised(pa.concat_arrays(table.column("u").chunks), "the source")
        return [work(CarriedCells(table.drop_columns(["u"]).rename_columns(list(carry)), ids))]

    def _selected(self, reading: Reading, *, carry: tuple[str, ...] = ()) -> Any:
        """Select only the columns that a pass needs: features, key and carried columns, in this order."""
        frame = self._frame
        # With a schema, workers encode a feature by its own type.
        feature = column_of if self.schema is not None else as_doubles
        columns = {f"f{i}": feature(frame, name) for i, name in enumerate(self._layout.features)}
        if reading.keyed:
            columns["k"] = column_of(frame, self.stated.key)
        if self.unit is not None:
            columns["u"] = unit_ids(frame, self.unit.column)
        columns |= {f"c{i}": carried(frame, name) for i, name in enumerate(carry)}
        selected = renamed(frame).select(*[column.alias(name) for name, column in columns.items()])
        if self.unit is not None:
            # All rows of a unit come to one worker, next to each other. Text is compared by its bytes.
            unit = F.col("u").cast("binary") if is_string(type_of(selected, "u")) else F.col("u")
            return selected.where("u is not null").repartition(unit).sortWithinPartitions(unit)
        if reading.numbering is None:
            return selected
        # Equal rows must be adjacent to be numbered. If rows have equal features, the carried columns decide the order.
        types = enumerate(type_of(frame, name) for name in carry)
        ties = [
            f"c{i}"
            for i, kind in types
            if isinstance(kind, kinds.AtomicType) and not isinstance(kind, kinds.VariantType)
        ]
        numbers = [f"f{i}" for i in range(self.n_features)]
        return with_vectors(selected, self._layout).repartition(*numbers).sortWithinPartitions(*numbers, *ties)

    def _run(self, task: Task, selected: Any, *, carry: tuple[str, ...]) -> pa.Table:
        """Run one action and return the rows that the workers sent back. Raise an error if a worker reported one."""
        types = {"content": kinds.BinaryType(), "weight": kinds.DoubleType(), "note": kinds.StringType()}
        carried = [carried_type(type_of(self._frame, name)) for name in carry]
        types |= {f"c{i}": kind for i, kind in enumerate(carried)}
        schema = kinds.StructType([kinds.StructField(name, kind) for name, kind in types.items()])
        if self.unit is not None:
            task = UnitTask(task=task, position=len(self._layout.features))
        run = for_workers(task)
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
    stated = Dialect(separator=separator)
    session = guarded(lambda: _session(master), otherwise="Spark did not start. It needs Java 17 and a free port.")
    reader = session.read
    if not is_csv(path):
        if separator is not None:
            raise no_csv(path, stated)
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
    # Mark all columns as columns of a CSV file.
    marked = [F.col(f"p{place}").alias(name, metadata={_CSV_MARK: True}) for place, name in enumerate(frame.columns)]
    return renamed(frame).select(*marked)


def _session(master: str | None) -> Any:
    if master is None or master.startswith("local"):
        # Otherwise Spark's workers could find a different Python on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("pais")
    for name, value in _SESSION_SETTINGS.items():
        builder = builder.config(name, value)
    return (builder if master is None else builder.master(master)).getOrCreate()
