"""Find the files that a path, a directory, a pattern or an address refers to."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pyarrow.fs as pa_fs

from pais._base.validate import attempt
from pais.data.headers import is_csv
from pais.errors import DataError


def files_of(source: str | Path) -> list[tuple[pa_fs.FileSystem, str]]:
    """Return the files that a path, a directory, a pattern or an address refers to, sorted by name."""
    text = str(source)
    if "://" in text:
        return _files_at(*_filesystem(text), text)
    local = pa_fs.LocalFileSystem()
    path = Path(text)
    there = attempt(path.exists)
    if there is False and any(mark in text for mark in "*?["):
        home = Path(path.anchor) if path.is_absolute() else Path()
        pattern = str(path.relative_to(path.anchor))
        found = attempt(lambda: sorted(str(file) for file in home.glob(pattern) if file.is_file()))
        if not found:
            raise DataError(f"no file matches {text}. Check the pattern.")
        return [(local, name) for name in found]
    if there is None:
        raise DataError(f"{text} cannot be looked at. Check the path and your access to it.")
    if not there:
        raise DataError(f"{text} does not exist. Pass a Parquet or CSV file, a directory of them, or a pattern.")
    return _files_at(local, text, text)


def _filesystem(text: str) -> tuple[pa_fs.FileSystem, str]:
    found = attempt(lambda: pa_fs.FileSystem.from_uri(text))
    if found is None:
        raise DataError(f"{text} is not an address that can be opened. Check its scheme and your access.")
    filesystem, path = found
    return filesystem, path


def _files_at(filesystem: pa_fs.FileSystem, path: str, text: str) -> list[tuple[pa_fs.FileSystem, str]]:
    info = attempt(lambda: filesystem.get_file_info(path))
    if info is None:
        raise DataError(f"{text} cannot be looked at. Check the address and your access to it.")
    if info.type == pa_fs.FileType.NotFound:
        raise DataError(f"{text} does not exist. Pass a Parquet or CSV file, or a directory of them.")
    if info.type != pa_fs.FileType.Directory:
        return [(filesystem, path)]
    inside = attempt(lambda: filesystem.get_file_info(pa_fs.FileSelector(path, recursive=True)))
    if inside is None:
        raise DataError(f"{text} cannot be listed. Check your access to the directory and those in it.")
    files = [one.path for one in inside if one.type == pa_fs.FileType.File]
    names = sorted(name for name in files if _is_data(name.removeprefix(path)))
    if not names:
        raise DataError(f"{text} holds no Parquet or CSV file. Check the directory.")
    return [(filesystem, name) for name in names]


def _is_data(inner: str) -> bool:
    """Whether a file in a directory is a data file, rather than a hidden file, a marker, a log or an unfinished file.

    Spark, Hive and Delta give the latter, or their directories, names that begin with a dot or an underscore. An
    exception is a partition directory such as `_name=value`, whose files are data.
    """
    *homes, name = inner.strip("/").split("/")
    aside = [home for home in homes if home.startswith(".") or (home.startswith("_") and "=" not in home)]
    if aside or name.startswith((".", "_")):
        return False
    return fnmatch.fnmatch(name.lower(), "*.parquet*") or is_csv(name)
