"""The files of a command: all of them are written or none, and those of an earlier release are read."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pais._base.files import load
from pais._base.validate import attempt
from pais.data.dialect import is_csv
from pais.data.schema import Schema
from pais.data.tables import read
from pais.errors import ArgumentError
from pais.kmeans.labels import LABEL_COLUMN, CenterModel
from pais.kmeans.result import KMeansValue
from pais.planning.plan import Fit
from pais.show.page import ReportHeader, write_report
from pais.show.results import Results

CERTIFICATE = "certificate.json"
MODEL = "model.json"
COUNT_COLUMN = "noisy_count"
WEIGHT_COLUMN = "weight"

# The last columns of a table with a statistic.
STATISTIC_COLUMNS = ["value", "standard_error", "low", "high"]

# Key and values of the metadata of a Parquet file, which say what it contains.
CONTENT_KEY, SAMPLE, LABELS, STATISTIC = b"pais", b"secret sample", b"labels, not protected", b"statistic"

#: What a file holds: text, an object for JSON, a table, or a function that writes it.
Content: TypeAlias = str | Mapping[str, Any] | pa.Table | Callable[[Path], object]


def release_files(table: str) -> tuple[str, ...]:
    """The files of the release of a model whose values are in a table of this name. The certificate is the last one."""
    return (f"{table}.parquet", f"{table}.csv", "report.html", MODEL, CERTIFICATE)


#: The files of a released k-means.
RELEASE = release_files("centers")


def certificate_beside(path: Path) -> Path:
    """The path of the certificate of a table: mean.certificate.json for mean.csv."""
    return path.with_name(f"{path.stem}.{CERTIFICATE}")


def marked(table: pa.Table, mark: bytes) -> pa.Table:
    """A table that says what it contains."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), CONTENT_KEY: mark})


def table_of(columns: Mapping[str, Any]) -> pa.Table:
    """A table of released values. A number that is not defined is an empty cell, and times have whole seconds."""
    table = {}
    for name, column in columns.items():
        cells = column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
        table[name] = cells.cast(pa.timestamp("s"), safe=False) if pa.types.is_timestamp(cells.type) else cells
    return pa.table(table)


def require_names(names: tuple[str, ...] | None, *added: str) -> tuple[str, ...]:
    """Return the column names; raise if they are not unique or clash with a column that is added."""
    if names is None or len({*names, *added}) != len(names) + len(added):
        taken = [name for name in added if name in (names or ())]
        raise ArgumentError(
            f"column names must be unique, and none may be {(taken or added)[0]!r}. Rename columns, or choose with "
            "--columns."
        )
    return names


def write_release(
    directory: Path, fit: Fit, results: Results, names: Sequence[str], model: Mapping[str, Any], header: ReportHeader
) -> dict[str, str]:
    """Write values, report, model and certificate of a fit; return the paths by name."""
    values = table_of(results.value_columns())
    contents: tuple[Content, ...] = (
        marked(values, results.table.encode()),
        values,
        lambda path: write_report(path, fit, feature_names=names, header=header),
        model,
        fit.certificate.to_json(),
    )
    return write_all(directory, dict(zip(release_files(results.table), contents, strict=True)))


def label_writer(tables: Iterator[pa.Table], carried: pa.Schema) -> Callable[[Path], None]:
    """A function that writes labels and carried columns to a file as they come."""
    fields = [*carried, pa.field(LABEL_COLUMN, pa.int32())]
    schema = pa.schema(fields, metadata={CONTENT_KEY: LABELS})

    def write(path: Path) -> None:
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for table in tables:
                writer.write_table(table.cast(schema))

    return write


def read_model(path: Path) -> CenterModel:
    """Read the model of a release from its directory or its file."""
    is_directory = attempt(path.is_dir)
    file = path / MODEL if is_directory else path
    if is_directory and not attempt(file.is_file):
        raise ArgumentError(f"{path} has no {MODEL}. Pass the --out directory of `pais kmeans`.")
    return load(file, "model", CenterModel.from_dict)


def read_values(path: Path) -> KMeansValue:
    """Read released centers and noisy counts from a file of a release.

    Centers in own units cannot be turned back into the released vectors. So they are compared with those of the model
    file beside them, whose vectors are returned.
    """
    # The system may refuse to look, for instance if a name is too long. Reading the file then says so.
    model = read_model(path.parent / MODEL) if attempt((path.parent / MODEL).is_file) else None
    if model is not None and model.schema is not None:
        return _values_of_model(path, model, model.schema)
    table = read(path)
    if table.names is None or COUNT_COLUMN not in table.names:
        raise ArgumentError(f"{path} has no column {COUNT_COLUMN!r}. Pass centers.csv or centers.parquet of a release.")
    rows, column = table.rows.astype(np.float64), table.names.index(COUNT_COLUMN)
    return KMeansValue(centers=np.delete(rows, column, axis=1), noisy_counts=rows[:, column])


def _values_of_model(path: Path, model: CenterModel, schema: Schema) -> KMeansValue:
    """Return the centers of a model with the noisy counts of a table, which must hold the same centers in own units."""
    centers = table_of(schema.decode_frame(model.centers))
    types = {field.name: field.type for field in centers.schema} | {COUNT_COLUMN: pa.float64()}
    if is_csv(path.name):
        table = attempt(lambda: pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(column_types=types)))
    else:
        # Parquet has no unit of whole seconds, so times come back in milliseconds.
        table = attempt(lambda: pq.read_table(path).cast(pa.schema(types)))
    counts = None if table is None or COUNT_COLUMN not in table.column_names else table.column(COUNT_COLUMN)
    if table is None or counts is None or not table.equals(centers.append_column(COUNT_COLUMN, counts)):
        raise ArgumentError(f"{path} and {path.parent / MODEL} hold different centers. Pass files of one release.")
    return KMeansValue(centers=model.centers, noisy_counts=counts.to_numpy())


def require_free(paths: list[Path], *, overwrite: bool, option: str = "--out") -> None:
    """Raise, before any budget is spent, if an output file exists already or cannot be written."""
    for path in paths:
        try:
            is_directory, exists, folder = path.is_dir(), path.exists(), _hidden_folder(path)
        except OSError as error:
            # For example, the file name is too long.
            raise ArgumentError(f"{path} cannot be written: {_reason(error)}. Check {option}.") from None
        if is_directory:
            raise ArgumentError(f"{path} is a directory. Pass the path of a file.")
        if exists and not overwrite:
            raise ArgumentError(f"{path} exists. Pass another {option}, or --overwrite to replace it.")
        try:
            # Some systems refuse to create a directory although the permissions allow it.
            folder.mkdir(mode=0o700)
            folder.rmdir()
        except OSError:
            reason = f"{folder.parent} is not a writable directory"
            raise ArgumentError(f"{path} cannot be written: {reason}. Check {option}.") from None


def _hidden_folder(path: Path) -> Path:
    """A path that no file has, in the nearest existing directory above a path."""
    home = next(home for home in path.absolute().parents if home.exists())
    return home / f".pais-{uuid.uuid4().hex}"


def write(path: Path, content: Content, *, secret: bool = False, option: str = "--out") -> None:
    """Write one file. Only its owner may read it if it is secret."""
    write_all(path.absolute().parent, {path.name: content}, secret=secret, option=option)


def write_all(
    directory: Path, contents: Mapping[str, Content], *, secret: bool = False, option: str = "--out"
) -> dict[str, str]:
    """Write files to a hidden directory on the same disk, then move them; any failure changes nothing.

    A new target directory is moved into place in one step. So even if the process is killed, all files are there or
    none. Returns the paths by name.
    """
    try:
        # Use the target directory itself if it exists: its parent may be on another disk or readable by others.
        folder = _hidden_folder(directory / "file")
        folder.mkdir(mode=0o700)
        try:
            new, old = folder / "new", folder / "old"
            new.mkdir()
            old.mkdir()
            for name, content in contents.items():
                (new / name).touch(mode=0o600 if secret else 0o666)
                _fill(new / name, content)
            if directory.exists():
                _move_in(new, old, directory, tuple(contents))
            else:
                _rename_in(new, directory)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        # Arrow's error messages span several lines, or lack the text for the system's error number.
        raise ArgumentError(f"{directory} cannot be written: {_reason(error)}. Check {option}.") from None
    return {name: str(directory / name) for name in contents}


def _fill(path: Path, content: Content) -> None:
    if isinstance(content, pa.Table):
        if path.suffix.lower() == ".csv":
            pa_csv.write_csv(content, path)
        else:
            pq.write_table(content, path, compression="zstd")
    elif callable(content):
        content(path)
    else:
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        path.write_text(text + "\n", encoding="utf-8")


def _reason(error: OSError) -> str:
    return "the system refused" if error.errno is None else os.strerror(error.errno)


def _rename_in(new: Path, directory: Path) -> None:
    """Move a directory with its content to a path that does not exist yet."""
    created = [home for home in directory.parents if not home.exists()]
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        new.rename(directory)
    except BaseException:
        for home in created:
            with contextlib.suppress(OSError):
                home.rmdir()
        raise


def _move_in(new: Path, old: Path, directory: Path, names: tuple[str, ...]) -> None:
    """Move files into a directory one by one, each atomically; if interrupted, restore the earlier files.

    The file named last, the certificate of a release, is removed first and added last. So if a certificate is present,
    all other files belong to it.
    """
    try:
        for name in reversed(names):
            if (directory / name).exists():
                (directory / name).replace(old / name)
        for name in names:
            (new / name).replace(directory / name)
    except BaseException:
        for name in names:
            # If the hidden directory is gone too, the files in the target directory are not from this run.
            if new.exists() and not (new / name).exists():
                (directory / name).unlink(missing_ok=True)
            if (old / name).exists():
                (old / name).replace(directory / name)
        raise
