"""Columns of a Spark frame: check their types, find their layout, and convert them for a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.ml.functions import vector_to_array
from pyspark.sql import (
    functions as F,  # noqa: N812  # the name every Spark programmer knows
    types as kinds,
)
from pyspark.sql.pandas.types import to_arrow_type

from pais._base.validate import attempt
from pais.data.cells import MISSING_WORDS, is_text_column
from pais.data.checks import listed, require_numeric
from pais.data.columns import Columns, Layout
from pais.data.dialect import Dialect
from pais.data.engines.partition import Converting, Encoding
from pais.data.engines.spark_actions import for_workers, guarded
from pais.data.ids import BLANKS, FIRST_LOSSY, LOSSY_FLOAT, LOST, WHOLE_FLOAT
from pais.errors import ArgumentError, DataError

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
    return _field(frame, name).dataType


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


def compared_by_bytes(frame: Any, name: str) -> Any:
    """Return a column by which to group and sort. Text is compared by its bytes, whatever the collation."""
    return F.col(name).cast("binary") if is_string(type_of(frame, name)) else F.col(name)


def marked_as_csv(frame: Any) -> Any:
    """Mark all columns as columns of a CSV file."""
    marked = [
        F.col(f"p{position}").alias(name, metadata={_CSV_MARK: True}) for position, name in enumerate(frame.columns)
    ]
    return renamed(frame).select(*marked)


def as_doubles(frame: Any, name: str) -> Any:
    """Cast a feature to double or array of double. These casts cannot fail and quote a value. Text stays text."""
    kind, column = type_of(frame, name), column_of(frame, name)
    if is_string(kind):
        return column
    if isinstance(kind, kinds.UserDefinedType):
        return vector_to_array(column)
    return column.cast("array<double>" if _is_vector(kind) else "double")


def with_vectors(frame: Any, layout: Layout, features: Sequence[str]) -> Any:
    """Replace features by the coordinates of scaled vectors, one column of doubles each."""
    coordinates = [kinds.StructField(f"f{position}", kinds.DoubleType()) for position in range(len(layout.names))]
    others = [field for field in frame.schema.fields if field.name not in features]
    return frame.mapInArrow(for_workers(Encoding(layout=layout)), kinds.StructType([*coordinates, *others]))


def with_numbers(frame: Any, names: Sequence[str], dialect: Dialect) -> Any:
    """Convert those of the named columns that are text to numbers, and -0.0 to 0.0 in all of them."""
    texts = tuple(name for name in names if is_string(type_of(frame, name)))
    if texts:
        fields = [
            kinds.StructField(field.name, kinds.DoubleType() if field.name in texts else field.dataType)
            for field in frame.schema.fields
        ]
        frame = frame.mapInArrow(for_workers(Converting(names=texts, dialect=dialect)), kinds.StructType(fields))
    return frame.withColumns({name: _without_negative_zero(frame, name) for name in names})


def _without_negative_zero(frame: Any, name: str) -> Any:
    if isinstance(type_of(frame, name), kinds.ArrayType):
        return F.transform(name, lambda number: number + F.lit(0.0))
    return F.col(name) + F.lit(0.0)


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


def is_sortable(kind: Any) -> bool:
    return isinstance(kind, kinds.AtomicType) and not isinstance(kind, kinds.VariantType)


def _is_number(kind: Any) -> bool:
    return isinstance(kind, (kinds.NumericType, kinds.BooleanType))


def _is_vector(kind: Any) -> bool:
    if isinstance(kind, kinds.UserDefinedType):
        return type(kind).__name__ == "VectorUDT"
    return isinstance(kind, kinds.ArrayType) and _is_number(kind.elementType)
