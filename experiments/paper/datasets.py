"""The data sets of the paper: what it prints about them, where they are found, and the preprocessing they get.

Every set is kept after preprocessing as one ``.npy`` file with its facts beside it, and mapped into memory from there.
The facts (size, radius, mean square) are computed from the rows themselves, as the paper does: they are taken as
public here, which for data of people they would not be.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import pais
from experiments.paper.formats import LAYOUTS, FloatArray, Layout
from pais.errors import ArgumentError, DataError

Float32Array = NDArray[np.float32]

# Rows whose norm is not below this quantile of the norms are dropped.
QUANTILE = 0.975

BUNDLED = "covertype-bundled"
NOT_THE_PAPERS = "subset, not the paper's data"

# Raised whenever the preprocessing or the files in the cache change their meaning.
_CACHE_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """A row of the paper's Table 1 in printed digits, so that equality is a match to all that is printed."""

    n: str
    d: str
    radius: str
    mean_square: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set of the paper, or a part of one.

    Attributes
    ----------
    key, title : str
        Name in files and on the command line; name for people.
    subset : bool
        Whether this is only a part of the paper's data; `paper` is then the row of the whole.
    paper : PaperRow
        What the paper prints.
    publisher : str
        Who offers the data, and what to ask for.
    sample_sizes, shown_sizes : tuple of int
        Expected sample sizes tried in the paper's appendix, and the three of them that are shown.
    """

    key: str
    title: str
    subset: bool
    paper: PaperRow
    publisher: str
    sample_sizes: tuple[int, ...]
    shown_sizes: tuple[int, int, int]


_SONG = PaperRow(n="502461", d="90", radius="7507.16", mean_square="6769375.49")
_COVERTYPE = PaperRow(n="566486", d="54", radius="4489.17", mean_square="3839798.28")
_LARGE_SIZES = (5_000, 10_000, 15_000, 20_000, 50_000)
_LIBSVM = "LIBSVM Data (www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets)"
_UCI = "UCI Machine Learning Repository (archive.ics.uci.edu)"

SOURCES = (
    Source(
        key="kdd-protein",
        title="KDD-Protein",
        subset=False,
        paper=PaperRow(n="142107", d="74", radius="8020.65", mean_square="7031359.55"),
        publisher="KDD Cup 2004 (kdd.org/kdd-cup), protein homology task",
        sample_sizes=(5_000, 10_000, 15_000, 20_000),
        shown_sizes=(5_000, 10_000, 20_000),
    ),
    Source(
        key="rna",
        title="RNA",
        subset=False,
        paper=PaperRow(n="476350", d="8", radius="420.67", mean_square="24902.47"),
        publisher=f"{_LIBSVM}, cod-rna",
        sample_sizes=_LARGE_SIZES,
        shown_sizes=(5_000, 20_000, 50_000),
    ),
    Source(
        key="song",
        title="Song",
        subset=False,
        paper=_SONG,
        publisher=f"{_UCI}, YearPredictionMSD",
        sample_sizes=_LARGE_SIZES,
        shown_sizes=(5_000, 20_000, 50_000),
    ),
    Source(
        key="song-sample",
        title="Song sample (25.3 % of rows)",
        subset=True,
        paper=_SONG,
        publisher=f"no one; the whole of it is Song, {_UCI}, YearPredictionMSD",
        sample_sizes=(5_000, 10_000, 15_000, 20_000),
        shown_sizes=(5_000, 10_000, 20_000),
    ),
    Source(
        key="covertype",
        title="Covertype",
        subset=False,
        paper=_COVERTYPE,
        publisher=f"{_LIBSVM}, covtype.binary; {_UCI}, Covertype",
        sample_sizes=_LARGE_SIZES,
        shown_sizes=(5_000, 20_000, 50_000),
    ),
    Source(
        key="ijcnn1",
        title="Ijcnn1",
        subset=False,
        paper=PaperRow(n="48740", d="22", radius="1.51", mean_square="1.26"),
        publisher=f"{_LIBSVM}, ijcnn1",
        sample_sizes=(3_000, 4_000, 5_000, 6_000, 7_000, 10_000, 15_000, 20_000),
        shown_sizes=(5_000, 10_000, 15_000),
    ),
    Source(
        key="pose",
        title="Pose",
        subset=False,
        paper=PaperRow(n="34936", d="48", radius="2250.64", mean_square="1249739.50"),
        publisher="Human3.6M (vision.imar.ro/human3.6m), open challenge, 3-D poses of the training part",
        sample_sizes=(3_000, 4_000, 5_000, 6_000, 7_000, 8_000),
        shown_sizes=(3_000, 5_000, 8_000),
    ),
    Source(
        key="miniboone",
        title="MiniBooNE",
        subset=False,
        paper=PaperRow(n="126812", d="50", radius="2213.05", mean_square="295947.13"),
        publisher=f"{_UCI}, MiniBooNE particle identification",
        sample_sizes=(4_000, 5_000, 6_000, 7_000),
        shown_sizes=(4_000, 5_000, 7_000),
    ),
    Source(
        key="fma",
        title="FMA",
        subset=False,
        paper=PaperRow(n="103909", d="518", radius="6020.23", mean_square="5838871.88"),
        publisher="FMA: A Dataset For Music Analysis (github.com/mdeff/fma), fma_metadata.zip",
        sample_sizes=(5_000, 10_000, 15_000),
        shown_sizes=(5_000, 10_000, 15_000),
    ),
    Source(
        key=BUNDLED,
        title="Covertype, bundled sample (5.2 % of rows)",
        subset=True,
        paper=_COVERTYPE,
        publisher="this package",
        sample_sizes=(1_000, 2_000, 3_000),
        shown_sizes=(1_000, 2_000, 3_000),
    ),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Preprocessed:
    """Rows as the paper uses them, and the facts of its Table 1.

    Attributes
    ----------
    rows : float32 array
        Centered rows, C-contiguous.
    mean : float64 array
        All that was taken off the raw rows.
    n, d : int
        Rows that are left, and features.
    radius, mean_square : float
        Largest l2 norm and mean squared l2 norm, of the rows before they were rounded to float32: a norm of `rows`
        may lie above `radius` by that rounding.
    """

    rows: Float32Array
    mean: FloatArray
    n: int
    d: int
    radius: float
    mean_square: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A data set ready for use: rows mapped read-only from the cache, facts as in `Preprocessed`.

    `fingerprint` tells apart rows that differ in any bit: 16 hexadecimal digits of the SHA-256 of shape and rows.
    """

    source: Source
    rows: Float32Array
    n: int
    d: int
    radius: float
    mean_square: float
    fingerprint: str

    def printed(self) -> PaperRow:
        """The facts in as many digits as the paper prints."""
        return PaperRow(
            n=str(self.n), d=str(self.d), radius=f"{self.radius:.2f}", mean_square=f"{self.mean_square:.2f}"
        )


@dataclass(frozen=True, kw_only=True)
class _Raw:
    """Files that were found, and how to read them."""

    layout: Layout
    paths: tuple[Path, ...]

    def state(self) -> dict[str, Any]:
        """Names, sizes and times of the files; the many files of a folder as one digest."""
        files = [file for path in self.paths for file in (sorted(path.glob("*.csv")) if path.is_dir() else [path])]
        facts = [(file, file.stat()) for file in files]
        lines = "\n".join(f"{file.resolve()} {fact.st_size} {fact.st_mtime_ns}" for file, fact in facts)
        return {
            "files": [str(path) for path in self.paths],
            "bytes": sum(fact.st_size for _, fact in facts),
            "changed": max(fact.st_mtime_ns for _, fact in facts),
            "digest": hashlib.sha256(lines.encode()).hexdigest(),
        }


def source_of(key: str) -> Source:
    """The source with this key."""
    for source in SOURCES:
        if source.key == key:
            return source
    raise ArgumentError(f"key={key!r} names no data set. Known are {', '.join(source.key for source in SOURCES)}.")


def preprocess(raw: FloatArray) -> Preprocessed:
    """Center, drop rows with an l2 norm from the 97.5 % quantile on, center again; all in float64."""
    first = raw.mean(axis=0)
    rows = raw - first
    norm = np.linalg.norm(rows, axis=1)
    rows = rows[norm < np.quantile(norm, QUANTILE)]
    if len(rows) == 0:
        raise DataError("no row has a norm below the 97.5 % quantile of the norms. Pass rows of different norms.")
    second = rows.mean(axis=0)
    rows -= second
    square = np.einsum("ij,ij->i", rows, rows)
    return Preprocessed(
        rows=rows.astype(np.float32, order="C"),
        mean=first + second,
        n=rows.shape[0],
        d=rows.shape[1],
        radius=float(np.sqrt(square.max())),
        mean_square=float(square.mean()),
    )


def load(source: Source, directories: Sequence[Path], *, check_rows: bool = True) -> FloatArray | None:
    """The raw rows from the first of Parquet and publisher's files that is there; None where none is."""
    raw = _find(source, directories)
    return None if raw is None else raw.layout.read(raw.paths, check_rows=check_rows)


def _find(source: Source, directories: Sequence[Path]) -> _Raw | None:
    if source.key == BUNDLED:
        directories = (Path(pais.__file__).parent / "data",)
    for layout in LAYOUTS[source.key]:
        for directory in directories:
            paths = layout.find(directory)
            if paths is not None:
                return _Raw(layout=layout, paths=paths)
    return None


def missing_line(source: Source, directories: Sequence[Path]) -> str:
    """Where to get a set that was not found, and where to put it."""
    parquet, *published = LAYOUTS[source.key]
    files = ", or ".join(layout.words() for layout in (*published, parquet))
    places = " or ".join(str(directory) for directory in directories) or "a data directory"
    return f"{source.title}: not found, left out. Offered by {source.publisher}; put {files} into {places}."


def prepare(
    source: Source, directories: Sequence[Path], cache: Path, console: Console, *, check_rows: bool = True
) -> Prepared | None:
    """The preprocessed set, from the cache unless the raw files changed; None, and a line, where it is not found."""
    raw = _find(source, directories)
    if raw is None:
        _say(console, missing_line(source, directories), style="yellow")
        return None
    state = raw.state()
    data = _cached(source, cache, state)
    if data is None:
        _say(console, f"{source.title}: reading and preprocessing ...")
        _store(preprocess(raw.layout.read(raw.paths, check_rows=check_rows)), source, cache, state)
        data = _cached(source, cache, state)
    if data is None:
        raise DataError(f"{cache} does not keep what is written to it. Choose another directory for the cache.")
    remark = f"; {NOT_THE_PAPERS}" if source.subset else ""
    row = data.printed()
    _say(console, f"{source.title}: {data.n:,} x {row.d}, radius {row.radius}, mean square {row.mean_square}{remark}")
    return data


def present(
    directories: Sequence[Path],
    cache: Path,
    console: Console,
    keys: Iterable[str] | None = None,
    *,
    check_rows: bool = True,
) -> list[Prepared]:
    """The sets that are there, in the order of `SOURCES`, each missing one named in a line.

    Without `keys` that is all sets of the paper; the sample of Song stands in where Song is not there, and the bundled
    sample where nothing is. With `keys` it is these sets alone.
    """
    if keys is None:
        chosen = [source for source in SOURCES if source.key != BUNDLED and _is_wanted(source, directories)]
    else:
        named = {source_of(key).key for key in keys}
        chosen = [source for source in SOURCES if source.key in named]
    found = [prepare(source, directories, cache, console, check_rows=check_rows) for source in chosen]
    if keys is None and not any(found):
        found.append(prepare(source_of(BUNDLED), directories, cache, console))
    return [data for data in found if data is not None]


def _is_wanted(source: Source, directories: Sequence[Path]) -> bool:
    """Whether a set belongs into a study of all: a sample only where it is there and the whole is not."""
    if source.key != "song-sample":
        return True
    return _find(source, directories) is not None and _find(source_of("song"), directories) is None


def fingerprint_of(rows: Float32Array) -> str:
    """16 hexadecimal digits of the SHA-256 of shape and rows."""
    digest = hashlib.sha256(repr(rows.shape).encode())
    digest.update(np.ascontiguousarray(rows).data)
    return digest.hexdigest()[:16]


def _store(made: Preprocessed, source: Source, cache: Path, state: dict[str, Any]) -> None:
    """Write rows, then facts: facts in the cache always belong to the rows beside them."""
    cache.mkdir(parents=True, exist_ok=True)
    rows, facts = cache / f"{source.key}.npy", cache / f"{source.key}.json"
    facts.unlink(missing_ok=True)
    part = cache / f".{source.key}.{os.getpid()}.part"
    try:
        with part.open("wb") as stream:
            np.save(stream, made.rows)
        part.replace(rows)
        kept = {
            "format": _CACHE_FORMAT,
            "raw": state,
            "n": made.n,
            "d": made.d,
            "radius": made.radius,
            "mean_square": made.mean_square,
            "fingerprint": fingerprint_of(made.rows),
        }
        part.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        part.replace(facts)
    finally:
        part.unlink(missing_ok=True)


def _cached(source: Source, cache: Path, state: dict[str, Any]) -> Prepared | None:
    """The set in the cache, or None where it is not there, not whole, or made from other files."""
    try:
        kept = json.loads((cache / f"{source.key}.json").read_text(encoding="utf-8"))
        if kept["format"] != _CACHE_FORMAT or kept["raw"] != state:
            return None
        rows = np.load(cache / f"{source.key}.npy", mmap_mode="r")
        facts = {name: kept[name] for name in ("n", "d", "radius", "mean_square", "fingerprint")}
    except (OSError, ValueError, EOFError, KeyError, TypeError):
        return None
    if rows.dtype != np.float32 or rows.shape != (facts["n"], facts["d"]) or not rows.flags.c_contiguous:
        return None
    return Prepared(source=source, rows=rows, **facts)


def _say(console: Console, line: str, *, style: str | None = None) -> None:
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
