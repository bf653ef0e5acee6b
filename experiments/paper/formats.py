"""The data sets of the paper as their publishers ship them, and as Parquet: one small reader for each format.

Every reader returns the raw features alone, in float64 and in the order of the files, and refuses what does not have
the published shape. The data are public, so an error may count rows.
"""

from __future__ import annotations

import bz2
import gzip
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from pais.errors import DataError

FloatArray = NDArray[np.float64]

# A pose is one row of 48 numbers, or 16 joints in three dimensions.
_POSE_SHAPES = {(1, 48), (16, 3)}

_FMA_HEADER_LINES = 4


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Published rows and features of a raw data set."""

    rows: int
    columns: int


SHAPES = {
    "kdd-protein": Shape(rows=145_751, columns=74),
    "rna": Shape(rows=488_565, columns=8),
    "song": Shape(rows=515_345, columns=90),
    "covertype": Shape(rows=581_012, columns=54),
    "ijcnn1": Shape(rows=49_990, columns=22),
    "pose": Shape(rows=35_832, columns=48),
    "miniboone": Shape(rows=130_064, columns=50),
    "fma": Shape(rows=106_574, columns=518),
    "song-sample": Shape(rows=130_290, columns=90),
    "covertype-sample": Shape(rows=30_000, columns=54),
}


class Reader(Protocol):
    """Reads the files of one data set; only tests pass ``check_rows=False``."""

    def __call__(self, paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray: ...


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One way a data set is shipped: the names of its files, all needed, and what reads them.

    Attributes
    ----------
    files : tuple of str
        Names below a data directory; each file may also be there with .bz2 or .gz after its name.
    read : Reader
        Takes the files in the order of `files`.
    folder : bool
        Whether the one name is that of a folder of CSV files.
    """

    files: tuple[str, ...]
    read: Reader
    folder: bool = False

    def find(self, directory: Path) -> tuple[Path, ...] | None:
        """The files in this directory, or None where one of them is missing."""
        candidates = [self._find_one(directory / name) for name in self.files]
        paths = tuple(path for path in candidates if path is not None)
        return paths if len(paths) == len(self.files) else None

    def _find_one(self, path: Path) -> Path | None:
        if self.folder:
            return path if path.is_dir() and any(path.glob("*.csv")) else None
        candidates = (path, *(path.with_name(path.name + suffix) for suffix in (".bz2", ".gz")))
        return next((candidate for candidate in candidates if candidate.is_file()), None)

    def words(self) -> str:
        """The files for a person."""
        return " + ".join(f"{name}/*.csv" if self.folder else name for name in self.files)


def read_parquet(path: Path) -> FloatArray:
    """A table of integers with their decimal scale in the schema, of any shape."""
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} cannot be read as Parquet. Fetch the file again.") from error
    metadata = table.schema.metadata or {}
    scale = 10.0 ** int(metadata.get(b"decimals", b"0"))
    return np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64) / scale


def read_kdd_protein(paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray:
    """``bio_train.dat``: block, example and class, then the features, between tabs or blanks."""
    (path,) = paths
    return _after_columns(_blank_separated(path), path, SHAPES["kdd-protein"], skipped=3, check_rows=check_rows)


def read_rna(paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray:
    """``cod-rna``, ``cod-rna.t`` and ``cod-rna.r``, one after the other."""
    return _libsvm(paths, SHAPES["rna"], check_rows=check_rows)


def read_song(paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray:
    """``YearPredictionMSD.txt``: the year, then the features, between commas."""
    (path,) = paths
    return _after_columns(_comma_separated(path), path, SHAPES["song"], skipped=1, check_rows=check_rows)


def read_covertype_libsvm(paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray:
    """``covtype.libsvm.binary``; not the ``.scale`` file, whose features are squeezed into [0, 1]."""
    return _libsvm(paths, SHAPES["covertype"], check_rows=check_rows)


def read_covertype_uci(paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray:
    """``covtype.data``: the features, then the label, between commas."""
    (path,) = paths
    shape = SHAPES["covertype"]
    table = _comma_separated(path)
    _check(table, path.name, Shape(rows=shape.rows, columns=shape.columns + 1), check_rows=check_rows)
    return np.ascontiguousarray(table[:, :-1])


def read_ijcnn1(paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray:
    """``ijcnn1``, or its two parts ``ijcnn1.tr`` and ``ijcnn1.val``, one after the other."""
    return _libsvm(paths, SHAPES["ijcnn1"], check_rows=check_rows)


def read_pose(paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray:
    """A folder of CSV files, one pose in each, taken in the order of their names and flattened row by row."""
    (folder,) = paths
    files = sorted(folder.glob("*.csv"))
    rows = np.array([_pose(path) for path in files], dtype=np.float64).reshape(len(files), -1)
    _check(rows, folder.name, SHAPES["pose"], check_rows=check_rows)
    return rows


def read_miniboone(paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray:
    """``MiniBooNE_PID.txt``: a line with the counts of signal and background, then the features between blanks."""
    (path,) = paths
    first = _first_lines(path, 1)[0].split()
    if len(first) != 2 or not all(word.isdecimal() for word in first):
        raise DataError(
            f"{path.name} has no line of two whole numbers at its beginning, where the counts of signal and background"
            " are expected. Use the file as published, without changes."
        )
    rows = _blank_separated(path, skipped_lines=1)
    announced = sum(int(word) for word in first)
    if announced != len(rows):
        raise DataError(
            f"{path.name} has {len(rows)} rows, where its first line announces {announced}. Fetch the file again."
        )
    _check(rows, path.name, SHAPES["miniboone"], check_rows=check_rows)
    return rows


def read_fma(paths: Sequence[Path], *, check_rows: bool = True) -> FloatArray:
    """``features.csv``: three lines of names, a line that names the index, then track and features."""
    (path,) = paths
    header = _first_lines(path, _FMA_HEADER_LINES)
    names = [line.split(",")[0].strip() for line in header]
    if names != ["feature", "statistics", "number", "track_id"]:
        raise DataError(
            f"{path.name} begins with lines named {', '.join(names) or 'nothing'}, where feature, statistics, number"
            " and track_id are expected. Use features.csv of fma_metadata.zip without changes."
        )
    table = _comma_separated(path, skipped_lines=_FMA_HEADER_LINES)
    return _after_columns(table, path, SHAPES["fma"], skipped=1, check_rows=check_rows)


def _one_parquet(paths: Sequence[Path], *, check_rows: bool = True, shape: Shape) -> FloatArray:
    (path,) = paths
    rows = read_parquet(path)
    _check(rows, path.name, shape, check_rows=check_rows)
    return rows


def _parquet(name: str) -> Layout:
    return Layout(files=(f"{name}.parquet",), read=partial(_one_parquet, shape=SHAPES[name]))


# Parquet first, then what the publishers ship.
LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "kdd-protein": (_parquet("kdd-protein"), Layout(files=("bio_train.dat",), read=read_kdd_protein)),
    "rna": (_parquet("rna"), Layout(files=("cod-rna", "cod-rna.t", "cod-rna.r"), read=read_rna)),
    "song": (_parquet("song"), Layout(files=("YearPredictionMSD.txt",), read=read_song)),
    "covertype": (
        _parquet("covertype"),
        Layout(files=("covtype.libsvm.binary",), read=read_covertype_libsvm),
        Layout(files=("covtype.data",), read=read_covertype_uci),
    ),
    "ijcnn1": (
        _parquet("ijcnn1"),
        Layout(files=("ijcnn1",), read=read_ijcnn1),
        Layout(files=("ijcnn1.tr", "ijcnn1.val"), read=read_ijcnn1),
    ),
    "pose": (_parquet("pose"), Layout(files=("pose",), read=read_pose, folder=True)),
    "miniboone": (_parquet("miniboone"), Layout(files=("MiniBooNE_PID.txt",), read=read_miniboone)),
    "fma": (
        _parquet("fma"),
        Layout(files=("fma_metadata/features.csv",), read=read_fma),
        Layout(files=("fma/features.csv",), read=read_fma),
    ),
    "song-sample": (_parquet("song-sample"),),
    "covertype-bundled": (_parquet("covertype-sample"),),
}


def _check(rows: FloatArray, name: str, shape: Shape, *, check_rows: bool) -> None:
    """Raise unless the columns, and if asked the rows, are as many as published, and all numbers are finite."""
    n_rows, n_columns = rows.shape
    if n_columns != shape.columns:
        raise DataError(
            f"{name} has {n_columns} columns, expected {shape.columns}. Use the file as published, without changes."
        )
    if n_rows == 0 or (check_rows and n_rows != shape.rows):
        raise DataError(
            f"{name} has {n_rows} rows, expected {shape.rows}. Fetch the file again, and all its parts if it has any."
        )
    finite = np.isfinite(rows).all(axis=0)
    if not finite.all():
        raise DataError(
            f"{name} has values that are missing or not finite in column {int(np.argmin(finite)) + 1},"
            " expected numbers only. Use the file as published, without changes."
        )


def _after_columns(table: FloatArray, path: Path, shape: Shape, *, skipped: int, check_rows: bool) -> FloatArray:
    """The features behind the columns that name or label the rows."""
    _check(table, path.name, Shape(rows=shape.rows, columns=shape.columns + skipped), check_rows=check_rows)
    return np.ascontiguousarray(table[:, skipped:])


def _unreadable(path: Path, form: str) -> DataError:
    return DataError(f"{path.name} cannot be read as {form}. Use the file as published, or fetch it again.")


def _libsvm(paths: Sequence[Path], shape: Shape, *, check_rows: bool) -> FloatArray:
    matrices = [_one_libsvm(path) for path in paths]
    name = " + ".join(path.name for path in paths)
    # A file says its width only by the largest index in it; all together have the published one.
    widest = max(matrix.shape[1] for matrix in matrices)
    if widest != shape.columns:
        raise DataError(
            f"{name} has {widest} columns, expected {shape.columns}. Use the file as published, without changes."
        )
    for matrix in matrices:
        matrix.resize(matrix.shape[0], shape.columns)
    rows = np.concatenate([matrix.toarray() for matrix in matrices])
    _check(rows, name, shape, check_rows=check_rows)
    return rows


def _one_libsvm(path: Path) -> csr_matrix:
    try:
        return load_svmlight_file(str(path), dtype=np.float64, zero_based=False)[0]
    except (ValueError, OSError, EOFError) as error:
        raise _unreadable(path, "LIBSVM text, a label and index:value pairs on each line") from error


def _comma_separated(path: Path, *, skipped_lines: int = 0) -> FloatArray:
    try:
        table = pa_csv.read_csv(
            path, read_options=pa_csv.ReadOptions(skip_rows=skipped_lines, autogenerate_column_names=True)
        )
        columns = [column.cast(pa.float64()).to_numpy() for column in table.columns]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise _unreadable(path, "numbers between commas") from error
    return np.column_stack(columns).astype(np.float64, copy=False)


def _blank_separated(path: Path, *, skipped_lines: int = 0) -> FloatArray:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no data", UserWarning)
            return np.loadtxt(path, dtype=np.float64, skiprows=skipped_lines, ndmin=2)
    except (ValueError, OSError, EOFError) as error:
        raise _unreadable(path, "rows of equally many numbers between blanks") from error


def _first_lines(path: Path, count: int) -> list[str]:
    """The first lines of a text file, empty ones where it is shorter."""
    try:
        with _opened(path) as text:
            return [text.readline() for _ in range(count)]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise _unreadable(path, "text") from error


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".bz2":
        return bz2.open(path, "rt", encoding="utf-8")
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _pose(path: Path) -> list[float]:
    lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    shapes = {(len(lines), len(line)) for line in lines}
    if len(shapes) != 1 or not shapes <= _POSE_SHAPES:
        found = ", ".join(f"{rows} x {columns}" for rows, columns in sorted(shapes)) or "nothing"
        raise DataError(
            f"{path.name} has {found} numbers, expected one row of 48 or 16 rows of 3."
            f" Keep only the poses of the training part in {path.parent.name}."
        )
    try:
        return [float(word) for line in lines for word in line]
    except ValueError as error:
        raise _unreadable(path, "numbers between commas") from error
