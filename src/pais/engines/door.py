"""One door for everything that has rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.fs as pa_fs

from pais._validate import without_sizes
from pais.domain import table_of
from pais.engines.arrow import ArrowEngine
from pais.engines.base import Engine, require_finite
from pais.engines.memory import MemoryEngine
from pais.engines.places import files_of
from pais.errors import ArgumentError, DataError
from pais.sources import Columns, Layout, Missing, as_table, from_array, one_batch


@without_sizes
def source(
    data: object,
    *,
    columns: Sequence[str] | None = None,
    carry: Sequence[str] = (),
    key: str | None = None,
    missing: Missing = "drop",
    widths: Mapping[str, int] | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> Engine:
    """Rows to be gone over, wherever they are; pass the result wherever rows are taken.

    Parameters
    ----------
    data : array, table, path, dataset or Spark DataFrame
        An array of numbers; a pandas, polars or Arrow table; the path of a Parquet or CSV file, a directory of them, a
        pattern such as ``"data/2024-*.parquet"`` or an address such as ``"s3://bucket/data"``; a pyarrow dataset of
        files; a Spark DataFrame. Files are streamed and never held in memory. A CSV file must begin with the names of
        its columns, which are published with a release. A first line that could be a row is refused: a name that is
        empty, has no letter, has five digits in a row, has a semicolon, tab or bar in it, or is a number, an amount, a
        date, a time, `true`, `false` or a word for a missing value. Write a header then, or read the file yourself and
        pass a table. A row of words above columns of numbers cannot be told from names, and is taken for them. Errors
        about CSV files call columns by their places, unless you named them; Spark's call them by name. In a CSV file
        a row is a line: a line with a quote that is not closed on it, with another number of cells than the header,
        or above 1 MB contributes nothing. So a row with a line break in a quoted cell is dropped, but what follows the
        break counts as a row if it has as many cells as the header. Use Parquet for such text.
    columns : sequence of str, optional
        Features, by name; None takes all columns that are not named below. In CSV files, and in pandas columns of
        Python objects, a column that is not named here counts as text if it has at least three non-empty cells and
        fewer than half of them are numbers (in a CSV file: of those in its first block), and text is refused. Columns
        named here are numbers whatever their cells hold.
    carry : sequence of str
        Columns that go along with the rows of a sample. Those of a CSV file are text, unless they are features or the
        key.
    key : str, optional
        A column of whole numbers, one for each row. A seeded run keys its draws by it, so that it draws the same sample
        from the same rows in any order. A row without a key contributes nothing.
    missing : {"drop", "error"}
        What becomes of rows in which a feature is NaN, infinite, missing, or a cell that is not a number. "drop", the
        default: such a row contributes nothing and causes no error. "error" reads all rows once, here, and raises a
        `DataError` that names the columns. It is outside the privacy guarantee, because one row decides whether the
        call succeeds. "refuse" is an older word for "error".
    widths : mapping of str to int, optional
        Lengths of the vectors in columns of a Spark DataFrame, by column: ``widths={"v": 3}`` gives the features
        ``v[0]``, ``v[1]`` and ``v[2]``. Every array column that is a feature needs one, and so does a column of Spark
        ML vectors without a size in its metadata. A row with a vector of another length contributes nothing. Widths
        are public. Other sources take none: an Arrow list of fixed size has its length in the type.
    on_rows : callable, optional
        Told the number of rows after each batch of a pass: for a progress bar.

    Notes
    -----
    Guarantee. Every engine keeps rows by the same code, with draws from the cryptographic generator unless a seed is
    given; with a seed all engines give the same sample and the same survey: `tests/conformance/test_engines.py`.
    With ``missing="drop"``, rows that are not finite change nothing: `tests/conformance/test_missing_rows.py`. No line
    of a CSV file changes what another one contributes: `tests/conformance/test_one_line.py`.
    """
    if isinstance(data, Engine):
        return data
    chosen = Columns(
        features=None if columns is None else tuple(columns),
        carry=tuple(carry),
        key=key,
        missing=missing,
        widths=widths or {},
    )
    if chosen.widths and not _is_spark_frame(data):
        raise ArgumentError("widths is for columns of a Spark DataFrame, and the source is none. Leave it out.")
    engine = _opened(data, chosen, on_rows)
    if chosen.missing == "error":
        require_finite(engine)
    return engine


def _opened(data: object, chosen: Columns, on_rows: Callable[[int], None] | None) -> Engine:
    if isinstance(data, (str, Path)):
        return ArrowEngine(files_of(data), chosen, on_rows=on_rows)
    if isinstance(data, pa_dataset.FileSystemDataset):
        filesystem: pa_fs.FileSystem = data.filesystem
        return ArrowEngine([(filesystem, path) for path in sorted(data.files)], chosen, on_rows=on_rows)
    if _is_spark_frame(data):
        from pais.engines.spark import SparkEngine

        return SparkEngine(data, chosen, on_rows=on_rows)
    if hasattr(data, "__arrow_c_stream__"):
        table = as_table(data, chosen)
        layout = Layout.of(table.schema, chosen, "the source")
        batch = one_batch(table, layout)
        beside = pa.table(batch.select(list(chosen.carry))) if chosen.carry else None
        return MemoryEngine(layout.rows(batch), names=layout.names, carried=beside, identity=layout.keys(batch))
    if chosen.features is not None or chosen.set_aside:
        raise DataError("columns can be chosen by name only from a table or a file. Select them in the array instead.")
    return MemoryEngine(table_of(from_array(data)))


def is_streamed(data: object) -> bool:
    """Whether rows are somewhere else than in an array or a table in memory."""
    return isinstance(data, (Engine, str, Path, pa_dataset.Dataset)) or _is_spark_frame(data)


def _is_spark_frame(data: object) -> bool:
    """Whether this is a Spark DataFrame, classic or Connect, without importing Spark."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql") for kind in type(data).__mro__
    )
