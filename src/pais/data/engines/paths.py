"""Find the files that a path, a directory, a pattern or an address refers to."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs as pa_fs

from pais._base.validate import attempt
from pais.data.headers import is_csv
from pais.errors import DataError


def files_of(source: str | Path) -> list[tuple[pa_fs.FileSystem, str]]:
    """Return the files that a path, a directory, a pattern or an address refers to, sorted by name."""
    text = str(source)
    is_address = "://" in text
    filesystem, path = _filesystem(text) if is_address else (pa_fs.LocalFileSystem(), text)
    if not is_address and any(mark in text for mark in "*?[") and attempt(Path(text).exists) is False:
        names = _matching(Path(text))
        hint = f"no file matches {text}. Check the pattern."
    else:
        names = _files_at(filesystem, path, text)
        hint = f"{text} has no Parquet or CSV file. Check the directory."
    if not names:
        raise DataError(hint)
    return [(filesystem, name) for name in sorted(names)]


def _filesystem(address: str) -> tuple[pa_fs.FileSystem, str]:
    opened: tuple[pa_fs.FileSystem, str] | None = attempt(lambda: pa_fs.FileSystem.from_uri(address))
    if opened is None:
        raise DataError(f"{address} cannot be opened. Check the scheme of the address and your access.")
    return opened


def _matching(pattern: Path) -> list[str]:
    start = Path(pattern.anchor) if pattern.is_absolute() else Path()
    inner = str(pattern.relative_to(pattern.anchor))
    return attempt(lambda: [str(file) for file in start.glob(inner) if file.is_file()]) or []


def _files_at(filesystem: pa_fs.FileSystem, path: str, text: str) -> list[str]:
    info = attempt(lambda: filesystem.get_file_info(path))
    if info is None:
        raise DataError(f"{text} cannot be accessed. Check the path and your permissions.")
    if info.type == pa_fs.FileType.NotFound:
        raise DataError(f"{text} does not exist. Pass a Parquet or CSV file, a directory of them, or a pattern.")
    if info.type != pa_fs.FileType.Directory:
        return [path]
    contents = attempt(lambda: filesystem.get_file_info(pa_fs.FileSelector(path, recursive=True)))
    if contents is None:
        raise DataError(f"{text} cannot be listed. Check your permissions for the directory and its subdirectories.")
    files = [entry.path for entry in contents if entry.type == pa_fs.FileType.File]
    return [name for name in files if _is_data(name.removeprefix(path))]


def _is_data(inner: str) -> bool:
    """Whether a file in a directory is a data file, rather than a hidden file, a marker, a log or an unfinished file.

    Spark, Hive and Delta give the latter, or their directories, names that begin with a dot or an underscore. An
    exception is a partition directory such as `_name=value`, whose files are data.
    """
    *directories, name = inner.strip("/").split("/")
    if any(folder.startswith(".") or (folder.startswith("_") and "=" not in folder) for folder in directories):
        return False
    return not name.startswith((".", "_")) and (".parquet" in name.lower() or is_csv(name))
