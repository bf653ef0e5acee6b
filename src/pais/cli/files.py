"""Write output files: either all of them or none."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pais._base.files import load
from pais._base.numerics import FloatArray
from pais._base.validate import attempt
from pais.data.dialect import is_csv
from pais.data.schema import Schema
from pais.data.tables import read
from pais.errors import ArgumentError
from pais.kmeans.labels import LABEL_COLUMN, CenterModel
from pais.kmeans.result import KMeansFit, KMeansValue
from pais.show.page import ReportHeader, write_report

CERTIFICATE = "certificate.json"
MODEL = "model.json"
RELEASE = ("centers.parquet", "centers.csv", "report.html", MODEL, CERTIFICATE)
COUNT_COLUMN = "noisy_count"
WEIGHT_COLUMN = "weight"

# The last columns of a table with a statistic.
STATISTIC_COLUMNS = ["value", "standard_error", "low", "high"]

# Key and values of the metadata of a Parquet file, which say what it contains.
CONTENT_KEY, SAMPLE, LABELS, STATISTIC = b"pais", b"secret sample", b"labels, not protected", b"statistic"


def require_free(paths: list[Path], *, overwrite: bool, option: str = "--out") -> None:
    """Raise, before any budget is spent, if an output file exists already or cannot be written."""
    for path in paths:
        try:
            is_directory, exists, home = path.is_dir(), path.exists(), _existing_home(path)
        except OSError as error:
            # For example, the file name is too long.
            reason = "the system refused" if error.errno is None else os.strerror(error.errno)
            raise ArgumentError(f"{path} cannot be written: {reason}. Check {option}.") from None
        if is_directory:
            raise ArgumentError(f"{path} is a directory. Pass the path of a file.")
        if exists and not overwrite:
            raise ArgumentError(f"{path} exists. Pass another {option}, or --overwrite to replace it.")
        if not _can_be_written(home):
            raise ArgumentError(f"{path} cannot be written: {home} is not a writable directory. Check {option}.")


def _can_be_written(home: Path) -> bool:
    """Try to create a directory in `home`, because some systems refuse it although the permissions allow it."""
    folder = home / f".pais-{uuid.uuid4().hex}"
    try:
        folder.mkdir(mode=0o700)
        folder.rmdir()
    except OSError:
        return False
    return True


def _existing_home(path: Path) -> Path:
    """Return the nearest existing directory above a path."""
    return next(home for home in path.absolute().parents if home.exists())


def write_release(
    directory: Path,
    fit: KMeansFit,
    names: tuple[str, ...],
    header: ReportHeader | None = None,
    *,
    model: CenterModel | None = None,
) -> dict[str, str]:
    """Write centers, certificate, report and model of a release to a directory; return the paths by name."""
    labels = CenterModel(centers=fit.value.centers, columns=names, schema=fit.schema) if model is None else model

    def fill(folder: Path) -> None:
        table = centers_table(fit.value, names, fit.schema)
        pq.write_table(table, folder / "centers.parquet", compression="zstd")
        pa_csv.write_csv(table, folder / "centers.csv")
        write_report(folder / "report.html", fit, feature_names=names, header=header)
        (folder / MODEL).write_text(json.dumps(labels.to_dict(), indent=2) + "\n", encoding="utf-8")
        (folder / CERTIFICATE).write_text(fit.certificate.to_json() + "\n", encoding="utf-8")

    _write_all(directory, RELEASE, fill)
    return {name: str(directory / name) for name in RELEASE}


def model_files(table: str) -> tuple[str, ...]:
    """The files of a release with a table of coefficients or components. The certificate is the last one."""
    return (f"{table}.parquet", f"{table}.csv", "report.html", MODEL, CERTIFICATE)


def write_model(
    directory: Path,
    table: str,
    values: pa.Table,
    described: dict[str, Any],
    write_page: Callable[[Path], object],
    certificate: str,
) -> dict[str, str]:
    """Write a table of values, a model, a report and a certificate to a directory; return the paths by name."""
    names = model_files(table)

    def fill(folder: Path) -> None:
        marked = values.replace_schema_metadata({CONTENT_KEY: table.encode()})
        pq.write_table(marked, folder / names[0], compression="zstd")
        pa_csv.write_csv(values, folder / names[1])
        write_page(folder / "report.html")
        (folder / MODEL).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
        (folder / CERTIFICATE).write_text(certificate + "\n", encoding="utf-8")

    _write_all(directory, names, fill)
    return {name: str(directory / name) for name in names}


def centers_table(value: KMeansValue, names: tuple[str, ...], schema: Schema | None) -> pa.Table:
    """Build the table of released centers. With a schema, they are in the columns' own units."""
    if schema is None:
        return table_of(value.centers, names, COUNT_COLUMN, value.noisy_counts)
    return pa.table(own_units(value.centers, schema) | {COUNT_COLUMN: pa.array(value.noisy_counts)})


def own_units(vectors: FloatArray, schema: Schema) -> dict[str, pa.Array]:
    """Return scaled vectors as columns in own units, with times to the second."""
    frame = {label: pa.array(column) for label, column in schema.decode_frame(vectors).items()}
    return {
        label: column.cast(pa.timestamp("s"), safe=False) if pa.types.is_timestamp(column.type) else column
        for label, column in frame.items()
    }


def read_values(path: Path) -> KMeansValue:
    """Read released centers and noisy counts from a file written by `write_release`.

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
    centers = own_units(model.centers, schema)
    types = {name: column.type for name, column in centers.items()} | {COUNT_COLUMN: pa.float64()}
    if is_csv(path.name):
        table = attempt(lambda: pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(column_types=types)))
    else:
        # Parquet has no unit of whole seconds, so times come back in milliseconds.
        table = attempt(lambda: pq.read_table(path).cast(pa.schema(types)))
    counts = None if table is None or COUNT_COLUMN not in table.column_names else table.column(COUNT_COLUMN)
    if table is None or counts is None or not table.equals(pa.table({**centers, COUNT_COLUMN: counts})):
        raise ArgumentError(f"{path} and {path.parent / MODEL} hold different centers. Pass files of one release.")
    return KMeansValue(centers=model.centers, noisy_counts=counts.to_numpy())


def write_json(path: Path, content: dict[str, Any], *, secret: bool = False) -> None:
    """Write a JSON file. Only the file's owner may read it if it is secret."""

    def fill(folder: Path) -> None:
        (folder / path.name).touch(mode=0o600 if secret else 0o666)
        (folder / path.name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    _write_all(path.absolute().parent, (path.name,), fill)


def write_page(path: Path, write: Callable[[Path], object]) -> None:
    """Write a page with a function that takes its path."""

    def fill(folder: Path) -> None:
        write(folder / path.name)

    _write_all(path.absolute().parent, (path.name,), fill)


def write_secret_sample(path: Path, table: pa.Table) -> None:
    """Write a weighted sample. Only the file's owner may read it, as it contains rows."""

    def fill(folder: Path) -> None:
        target = folder / path.name
        target.touch(mode=0o600)
        marked = table.replace_schema_metadata({**(table.schema.metadata or {}), CONTENT_KEY: SAMPLE})
        pq.write_table(marked, target, compression="zstd")

    _write_all(path.absolute().parent, (path.name,), fill)


def write_table(path: Path, table: pa.Table, certificate: str | None = None) -> None:
    """Write a table that holds no secrets, as CSV or Parquet by the ending of the file name.

    A table has no place for a certificate, so that is a file beside it.
    """
    beside = certificate_beside(path).name

    def fill(folder: Path) -> None:
        if path.suffix.lower() == ".csv":
            pa_csv.write_csv(table, folder / path.name)
        else:
            pq.write_table(table, folder / path.name, compression="zstd")
        if certificate is not None:
            (folder / beside).write_text(certificate + "\n", encoding="utf-8")

    _write_all(path.absolute().parent, (path.name,) if certificate is None else (path.name, beside), fill)


def certificate_beside(path: Path) -> Path:
    """The path of the certificate of a table: mean.certificate.json for mean.csv."""
    return path.with_name(f"{path.stem}.{CERTIFICATE}")


def write_labels(path: Path, tables: Iterator[pa.Table], carried: pa.Schema) -> None:
    """Write labels and carried columns as they come. Only the file's owner may read it, as labels depend on rows."""
    fields = [*carried, pa.field(LABEL_COLUMN, pa.int32())]
    schema = pa.schema(fields, metadata={CONTENT_KEY: LABELS})

    def fill(folder: Path) -> None:
        target = folder / path.name
        target.touch(mode=0o600)
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for table in tables:
                writer.write_table(table.cast(schema))

    _write_all(path.absolute().parent, (path.name,), fill, option="--to")


def read_model(path: Path) -> CenterModel:
    """Read the model of a release from its directory or its file."""
    is_directory = attempt(path.is_dir)
    file = path / MODEL if is_directory else path
    if is_directory and not attempt(file.is_file):
        raise ArgumentError(f"{path} has no {MODEL}. Pass the --out directory of `pais kmeans`.")
    return load(file, "model", CenterModel.from_dict)


def require_names(names: tuple[str, ...] | None, *added: str) -> tuple[str, ...]:
    """Return the column names; raise if they are not unique or clash with a column that is added."""
    if names is None or len({*names, *added}) != len(names) + len(added):
        raise ArgumentError(
            f"column names must be unique, and none may be {added[0]!r}. Rename columns, or choose with --columns."
        )
    return names


def table_of(rows: FloatArray, names: tuple[str, ...], extra: str, values: FloatArray) -> pa.Table:
    columns = [pa.array(column) for column in rows.T]
    return pa.table([*columns, pa.array(values)], names=[*names, extra])


def _write_all(directory: Path, names: tuple[str, ...], fill: Callable[[Path], None], *, option: str = "--out") -> None:
    """Let `fill` write files to a hidden directory on the same disk, then move them; any failure changes nothing.

    A new target directory is moved into place in one step. So even if the process is killed, all files are there or
    none.
    """
    try:
        with _hidden_place(directory) as folder:
            new, old = folder / "new", folder / "old"
            new.mkdir()
            old.mkdir()
            fill(new)
            if directory.exists():
                _move_in(new, old, directory, names)
            else:
                _rename_in(new, directory)
    except OSError as error:
        # Arrow's error messages span several lines, or lack the text for the system's error number.
        reason = "the system refused" if error.errno is None else os.strerror(error.errno)
        raise ArgumentError(f"{directory} cannot be written: {reason}. Check {option}.") from None


@contextlib.contextmanager
def _hidden_place(directory: Path) -> Iterator[Path]:
    # Use the target directory itself if it exists: its parent may be on another disk or readable by others.
    folder = _existing_home(directory / "file") / f".pais-{uuid.uuid4().hex}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
