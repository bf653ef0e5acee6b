"""CSV files: how they are written, the check of their header, and the lines that are rows.

The names in a header are published with a release, so a first line that could be a row is refused. Whether a line is
read depends on that line alone.
"""

from __future__ import annotations

import codecs
import datetime
import functools
import importlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.fs as pa_fs
from numpy.typing import NDArray

from pais._base.validate import attempt
from pais.data.cells import MISSING_WORDS, days_of, numbers_of, numbers_of_text, trimmed
from pais.errors import ArgumentError, DataError

#: Separators that a header can show, and their names.
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}

# Characters that cannot separate cells: quotes, line ends, letters, digits and the characters of numbers.
_IN_CELLS = re.compile(r"[\"'\r\n\0\w.+-]")

# Marks of thousands, each with the characters that are written for it.
_THOUSANDS = {",": ",", ".": r"\.", " ": "[ \u00a0\u202f]", "'": "['\u2019]", "_": "_"}

# The parts of a date and the digits they have. Python's `strptime` has the same letters.
_PARTS = {
    "d": r"\d{1,2}",
    "m": r"\d{1,2}",
    "Y": r"\d{4}",
    "y": r"\d{2}",
    "H": r"\d{1,2}",
    "M": r"\d{1,2}",
    "S": r"\d{1,2}",
}

# Forms of numbers and dates that files have, the most likely first. A form that reads the most cells is likely.
_NUMBER_FORMS = (
    {"decimal": "."},
    {"thousands": ","},
    {"decimal": ","},
    {"decimal": ",", "thousands": "."},
    {"thousands": " "},
    {"decimal": ",", "thousands": " "},
    {"thousands": "'"},
)
_DATE_FORMS = tuple(
    {"date_format": f"{date}{time}"}
    for time in ("", " %H:%M", " %H:%M:%S")
    for date in (
        *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d"),
        *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y"),
    )
)

# What a form of each kind of cells states.
_FORMS = {"numbers": ("decimal", "thousands"), "dates": ("date_format",)}

# A form is recognised if this many cells have it, and at most one cell that does not in this many that do. Chosen by
# eye.
_CELLS_THAT_SHOW, _PER_OTHER = 20, 20

#: The first cells of a column, which show how they are written.
FIRST_CELLS = 1000

# Encodings of this kind that Python decodes without a table.
_WITHOUT_TABLE = ("utf-8", "utf-8-sig", "ascii", "iso8859-1")

# Two digits of a year from here on belong to the last century, as in Python.
_LAST_CENTURY = 69


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How the cells of a CSV file are written. None stands for the usual way. See `pais.CSVFile`."""

    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    date_format: str | None = None
    #: Names of what is stated.
    stated: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = ("separator", "decimal", "thousands", "encoding", "date_format")
        object.__setattr__(self, "stated", tuple(name for name in names if getattr(self, name) is not None))
        mark = self.separator
        is_mark = isinstance(mark, str) and len(mark) == 1 and mark.isascii() and not _IN_CELLS.match(mark)
        if mark is not None and not is_mark:
            raise ArgumentError(
                f"separator={mark!r} cannot separate cells. Pass one character, such as ',', ';', '|' or a tab."
            )
        if self.decimal not in (None, ".", ","):
            raise ArgumentError(f"decimal={self.decimal!r} is not a decimal mark. Pass '.' or ','.")
        if self.thousands is not None and self.thousands not in _THOUSANDS:
            marks = ", ".join(map(repr, _THOUSANDS))
            raise ArgumentError(f"thousands={self.thousands!r} is not a mark of thousands. Pass one of {marks}.")
        if self.thousands == (self.decimal or "."):
            raise ArgumentError(
                f"thousands={self.thousands!r} is also the decimal mark. Pass decimal=',' if the comma is that."
            )
        if self.encoding is not None and not _reads_line_by_line(self.encoding):
            raise ArgumentError(
                f"encoding={self.encoding!r} cannot be read line by line. Pass 'utf-8', 'cp1252' or another encoding "
                "with one byte for each character, or convert the file to UTF-8."
            )
        if self.date_format is not None:
            _date_pattern(self.date_format)

    @property
    def codec(self) -> str:
        return codecs.lookup(self.encoding or "utf-8").name

    def cells(self, column: pa.Array, kind: str) -> pa.Array:
        """Return text cells of numbers, or of dates, as they are written without a dialect; null where they are not."""
        if kind == "numbers":
            return self._plain_numbers(column)
        return _iso_dates(column, self.date_format) if kind == "dates" and self.date_format is not None else column

    def numbers(self, column: pa.Array) -> pa.Array:
        """Return text as doubles; null for what is no number."""
        return numbers_of_text(self._plain_numbers(column))

    def _plain_numbers(self, column: pa.Array) -> pa.Array:
        """Return numbers without marks of thousands and with a decimal point; other cells stay as they are."""
        if self.thousands is not None:
            column, mark = trimmed(column), _THOUSANDS[self.thousands]
            grouped = pc.match_substring_regex(
                column, rf"^[+-]?[1-9]\d{{0,2}}({mark}\d{{3}})+({re.escape(self.decimal or '.')}\d*)?$"
            )
            others = pc.if_else(pc.match_substring_regex(column, mark), pa.scalar(None, column.type), column)
            column = pc.if_else(grouped, pc.replace_substring_regex(column, mark, ""), others)
        if self.decimal != ",":
            return column
        # With a decimal comma, a cell with a point is not a number.
        pointed = pc.replace_substring(column, ",", ".")
        return pc.if_else(pc.match_substring(column, "."), pa.scalar(None, column.type), pointed)


@dataclass(frozen=True)
class CSVFile:
    """A CSV file, a directory of them or a pattern, and how they are written. Pass it wherever a path is accepted.

    The other arguments say how the cells are written. They are public, and the options of the command line have the
    same names. What is left out has its usual form. A file whose header or first thousand lines show another form is
    refused, and the message names it: another separator, decimal commas, marks of thousands, dates in another order, or
    text that is not UTF-8. Lines count as showing a form if at least 20 cells have it and at most one in 20 has the
    usual one. A form that you state is not checked.

    Parameters
    ----------
    path : str or Path
        As in `pais.source`.
    separator : str, optional
        Character between the cells. If None, the comma; or semicolon, tab or bar, if the header has that and no comma.
    decimal : {".", ","}, optional
        Decimal mark of numbers; a point if None. With a comma, a cell with a point is not a number.
    thousands : {",", ".", " ", "'", "_"}, optional
        Mark between groups of three digits. A cell in which it stands elsewhere is not a number.
    encoding : str, optional
        UTF-8 if None; or an encoding with one byte for each character, such as "cp1252" or "latin-1".
    date_format : str, optional
        How dates are written, in the letters of Python's `strptime`: ``"%d.%m.%Y"``. They may have %d, %m, %Y or %y,
        %H, %M and %S. If None, they are written as 2025-01-31.

    Notes
    -----
    Assumes. The dialect of a file is public, as its header is. A single row decides nothing about it, unless the first
    lines of a file are written in two ways. Messages name a dialect and quote no cell:
    `tests/conformance/test_csv_dialects.py`.

    Examples
    --------
    >>> from pais import CSVFile
    >>> visits = CSVFile("visits.csv", separator=";", decimal=",", date_format="%d.%m.%Y")
    """

    path: str | Path
    dialect: Dialect

    def __init__(
        self,
        path: str | Path,
        *,
        separator: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        encoding: str | None = None,
        date_format: str | None = None,
    ) -> None:
        if not isinstance(path, (str, Path)):
            raise ArgumentError(f"path must be a text or a Path, but its type is {type(path).__name__}. Pass a path.")
        object.__setattr__(self, "path", path)
        dialect = Dialect(
            separator=separator, decimal=decimal, thousands=thousands, encoding=encoding, date_format=date_format
        )
        object.__setattr__(self, "dialect", dialect)

    def dialect_beside(self, other: Dialect) -> Dialect:
        """Return how the file is written. Raise if something is stated beside it."""
        if other.stated:
            raise ArgumentError(f"{', '.join(other.stated)} is stated beside a CSVFile. State it there.")
        return self.dialect


def no_csv(where: str, dialect: Dialect) -> ArgumentError:
    """Return the error for a dialect that is stated for data that is not a CSV file."""
    stated = ", ".join(dialect.stated)
    return ArgumentError(f"{stated} is stated, which is for CSV files, and {where} is none. Leave it out.")


def separator_in(header: str) -> str:
    """Return the separator that a header shows. Nothing else of the file decides it."""
    shown = [mark for mark in SEPARATORS if mark in header]
    return shown[0] if len(shown) == 1 else ","


def _reads_line_by_line(encoding: object) -> bool:
    """Whether an encoding is UTF-8, or has one byte for each character and contains ASCII.

    Then a damaged character cannot change another line. Python decodes such an encoding with a table.
    """
    name = attempt(lambda: codecs.lookup(encoding).name) if isinstance(encoding, str) else None
    if name is None or name in _WITHOUT_TABLE:
        return name is not None
    module = attempt(lambda: importlib.import_module(f"encodings.{name.replace('-', '_')}"))
    table = getattr(module, "decoding_table", "")
    return bool(table[:128] == bytes(range(128)).decode())


def _date_pattern(date_format: object) -> str:
    """Return the pattern of dates in a format, with a name for each part."""
    parts = re.findall(r"%(.?)", date_format) if isinstance(date_format, str) else []
    has_date = {"d", "m"} < set(parts) and len({"y", "Y"} & set(parts)) == 1
    if not has_date or len(set(parts)) < len(parts) or not set(parts) <= set(_PARTS):
        raise ArgumentError(
            f"date_format={date_format!r} is not understood. Write a day, a month and a year, such as '%d.%m.%Y' or "
            "'%m/%d/%Y %H:%M', with each part once."
        )
    pieces = re.split(r"%(.)", str(date_format))
    texts = [
        re.escape(piece) if place % 2 == 0 else f"(?P<{piece}>{_PARTS[piece]})" for place, piece in enumerate(pieces)
    ]
    return f"^{''.join(texts)}$"


def _iso_dates(column: pa.Array, date_format: str) -> pa.Array:
    """Return text dates in a format as ISO 8601; null for cells that are not in the format."""
    cells = trimmed(pc.cast(column, pa.large_string()))
    found = pc.extract_regex(cells, _date_pattern(date_format))
    names = {field.name for field in found.type}

    def text(cell: str) -> pa.Scalar:
        return pa.scalar(cell, pa.large_string())

    def part(name: str) -> pa.Array | pa.Scalar:
        return pc.utf8_lpad(pc.struct_field(found, name), 2, "0") if name in names else text("00")

    year = part("Y")
    if "y" in names:
        is_last = pc.greater_equal(pc.cast(part("y"), pa.int32()), _LAST_CENTURY)
        year = pc.binary_join_element_wise(pc.if_else(is_last, text("19"), text("20")), part("y"), text(""))
    day = pc.binary_join_element_wise(year, part("m"), part("d"), text("-"))
    if not names & {"H", "M", "S"}:
        return day
    time = pc.binary_join_element_wise(part("H"), part("M"), part("S"), text(":"))
    return pc.binary_join_element_wise(day, time, text("T"))


def likely_forms(cells: pa.Array, kind: str, dialect: Dialect) -> tuple[list[Dialect], NDArray[np.bool_]]:
    """Return the dialects that read the most of some text cells, and which of the cells these are."""
    best, most = [], np.zeros(len(cells), dtype=bool)
    for form in _NUMBER_FORMS if kind == "numbers" else _DATE_FORMS:
        other = replace(dialect, **{"decimal": None, "thousands": None, **form} if kind == "numbers" else form)
        read = is_read(cells, kind, other)
        if read.sum() > most.sum():
            best, most = [other], read
        elif read.any() and read.sum() == most.sum():
            best.append(other)
    return best, most


def is_read(cells: pa.Array, kind: str, dialect: Dialect) -> NDArray[np.bool_]:
    """Which text cells are numbers, or dates, in a dialect."""
    plain = dialect.cells(cells, kind)
    return np.isfinite(numbers_of(plain) if kind == "numbers" else days_of(plain))


def recognised(columns: Mapping[str, Sequence[pa.Array]], dialect: Dialect) -> Dialect | None:
    """Return the dialect that the first cells of a file show, if it is not the stated one; None if they show none.

    `columns` has the columns of text cells by kind: "numbers", "dates" and "text".
    """
    shown = dialect
    for kind, is_stated in (
        ("numbers", dialect.decimal is not None or dialect.thousands is not None),
        ("dates", dialect.date_format is not None),
    ):
        cells = pa.concat_arrays([pa.nulls(0, pa.large_string()), *columns.get(kind, ())])
        usual = is_read(cells, kind, dialect)
        others = cells.filter(pa.array(~usual)).drop_null()
        if is_stated or len(others) < _CELLS_THAT_SHOW:
            continue
        forms, read = likely_forms(others, kind, dialect)
        if forms and _shows(read.sum(), (usual & ~is_read(cells, kind, forms[0])).sum()):
            shown = replace(shown, **{name: getattr(forms[0], name) for name in _FORMS[kind]})
    texts = pa.concat_arrays([pa.nulls(0, pa.large_string()), *columns.get("text", ())])
    damaged = int(pc.sum(pc.match_substring(texts, "\ufffd")).as_py() or 0)
    other = int(pc.sum(pc.match_substring_regex(texts, "[^\\x00-\\x7f]")).as_py() or 0)
    if dialect.encoding is None and _shows(damaged, other - damaged):
        shown = replace(shown, encoding="cp1252")
    return None if shown == dialect else shown


def _shows(n_cells: int, n_others: int) -> bool:
    return bool(n_cells >= _CELLS_THAT_SHOW and _PER_OTHER * n_others <= n_cells)


def require_numbers(name: str, cells: pa.Array, dialect: Dialect, where: str) -> None:
    """Raise if the first cells of an "auto" column are words. No cell is quoted.

    The type of the column does not tell numbers from text, and one form of cells is told from another by `_shows`.
    """
    cells = cells.cast(pa.large_string()).drop_null()
    cells = cells.filter(pc.invert(pc.is_in(pc.ascii_trim_whitespace(cells), value_set=_MISSING)))
    n_numbers = int(is_read(cells, "numbers", dialect).sum())
    if _shows(len(cells) - n_numbers, n_numbers):
        raise DataError(
            f"column {name!r} of {where} has text that is no number, and 'auto' finds the bounds of numbers there. For "
            f"categories that are found privately, state columns={{{name!r}: pais.names()}}, or list them: "
            f"columns={{{name!r}: ['a', 'b']}}."
        )


def in_words(form: Dialect, dialect: Dialect) -> str:
    """Say how a file is written and what to pass, for a form that differs from a dialect."""
    differ = {name: getattr(form, name) for name in form.stated if getattr(form, name) != getattr(dialect, name)}
    date = datetime.datetime(2025, 12, 31).strftime(form.date_format or "")
    words = {
        "decimal": f"decimal {'commas' if form.decimal == ',' else 'points'}",
        "thousands": f"marks of thousands ({form.thousands!r})",
        "encoding": "text that is not UTF-8",
        "date_format": f"dates such as {date}",
    }
    *others, last = [words[name] for name in differ]
    shown = f"{', '.join(others)} and {last}" if others else last
    stated = ", ".join(f"{name}={value!r}" for name, value in differ.items())
    return f"{shown}: pass {stated}"


_MISSING = MISSING_WORDS.cast(pa.large_string())

# Text that can be a cell but not a column name. Arrow reads these words as missing or as booleans.
_CELL_WORDS = {*pa_csv.ConvertOptions().null_values, "none", "true", "false"}
_CELL_MARKS = re.compile(
    r"[;|]|\d{5}"  # another separator; an id, or a number with more digits than a year
    r"|(?<![^\W\d_])\d{1,4}([-/.:])\d{1,2}\1\d{1,4}"  # a date or a time
    r"|^\s*[+-]?0[xX][\da-fA-F]+\s*$"
)


def is_csv(name: str) -> bool:
    return name.lower().removesuffix(".gz").removesuffix(".bz2").endswith((".csv", ".tsv", ".txt"))


def require_header(names: Sequence[str], where: str) -> None:
    """Raise if the first line could be a row of data, because its cells would be published as names.

    The error does not quote the line. A name is refused if it is empty or has no letter; if it is a number, an amount,
    a date, a time, a boolean or a word for a missing value; or if it contains five digits in a row, or a semicolon, tab
    or bar, which separate cells in other files. Three or more consecutively numbered names, such as `0,1,2` or
    `x1,x2,x3`, are accepted as a header.
    """
    if not _are_numbered(names) and any(_is_cell(name) for name in names):
        raise DataError(
            f"the first line of {where} looks like a row of values, not like column names. Write a header of names "
            "with letters, separated by commas, none of them empty (with pandas, pass index=False), or pass a table "
            "with column names."
        )


def _are_numbered(names: Sequence[str]) -> bool:
    first = re.fullmatch(r"(\D*)([01])", names[0]) if len(names) >= 3 else None
    if first is None or (first[1] and _is_cell(first[1])):
        return False
    return all(name == f"{first[1]}{number}" for number, name in enumerate(names, int(first[2])))


def _is_cell(name: str) -> bool:
    """Whether this text looks like a cell of a row rather than a column name."""
    # Spark appends a number to a name that occurs twice.
    word = name.strip().rstrip("0123456789")
    if {name, word, word.casefold()} & _CELL_WORDS or not any(letter.isalpha() for letter in name):
        return True
    if not name.isprintable() or _CELL_MARKS.search(name):
        return True
    plain = re.sub(r"[\s,'\"()\[\]$€£¥%]", "", name)
    return attempt(lambda: float(plain)) is not None


_ENDS = re.compile(rb"[\r\n]")


def first_line(filesystem: pa_fs.FileSystem, path: str, block_bytes: int) -> bytes:
    """Return the header of a CSV file."""
    with filesystem.open_input_stream(path) as stream:
        text: bytes = stream.read(block_bytes // 4)
    return _ENDS.split(text.lstrip(b"\r\n"), 1)[0]


def n_lines(filesystem: pa_fs.FileSystem, path: str) -> int:
    """Return the number of lines of a text file that are not empty. Secret."""
    number, after_end = 0, True
    with filesystem.open_input_stream(path) as stream:
        while chunk := stream.read(1 << 20):
            codes = np.frombuffer(chunk, dtype=np.uint8)
            is_end = (codes == 10) | (codes == 13)
            number += int(np.count_nonzero(~is_end & np.concatenate([[after_end], is_end[:-1]])))
            after_end = bool(is_end[-1])
    return number


def open_csv(
    filesystem: pa_fs.FileSystem, path: str, block_bytes: int, dialect: Dialect, *, whole: bool = True, **convert: Any
) -> pa_csv.CSVStreamingReader:
    """Open a CSV file with a known separator for reading block by block.

    The reader skips lines whose number of cells differs from the header's, lines with an unclosed quoted cell, and
    lines longer than a quarter of a block. Whether a line is skipped depends on that line alone. Bytes that the
    encoding does not have become replacement characters. Unless `whole`, the file ends with its first block.
    """
    separator = dialect.separator or ","
    lines = _ClosedLines(filesystem.open_input_stream(path), block_bytes // 4, separator, dialect.codec)
    return pa_csv.open_csv(
        pa.PythonFile(lines, mode="r") if whole else _first_block(lines, block_bytes),
        read_options=pa_csv.ReadOptions(block_size=block_bytes, use_threads=False),
        parse_options=pa_csv.ParseOptions(delimiter=separator, invalid_row_handler=lambda line: "skip"),
        convert_options=pa_csv.ConvertOptions(**convert),
    )


def _first_block(lines: _ClosedLines, block_bytes: int) -> pa.BufferReader:
    """The whole lines of the first block, in memory.

    Arrow reads ahead in a thread that calls Python. A process that ends with an error about the first lines would be
    aborted, if that thread were still reading.
    """
    with lines:
        block = lines.read(block_bytes)
    return pa.BufferReader(block[: max(block.rfind(b"\n"), block.rfind(b"\r")) + 1])


class _ClosedLines(io.RawIOBase):
    """A byte stream that skips lines with an unclosed quoted cell and overlong lines.

    Arrow would continue an unclosed cell into the following lines, up to the next quote or the end of the block.
    """

    def __init__(self, stream: Any, longest: int, separator: str, codec: str) -> None:
        super().__init__()
        self._stream = stream
        self._pieces = _closed(_whole_lines(stream, longest), separator, codec)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        parts, wanted = [], size
        while wanted != 0:
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest = memoryview(piece)
            part = self._rest if wanted < 0 else self._rest[:wanted]
            self._rest = self._rest[len(part) :]
            parts.append(part)
            wanted -= len(part) if wanted > 0 else 0
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _whole_lines(stream: Any, longest: int) -> Iterator[bytes]:
    """Yield pieces that end at a line end, without lines longer than `longest`. Raise if the header is that long."""
    tail, overlong, in_header = b"", False, True
    while chunk := stream.read(longest):
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        if end < 0:
            tail = b"" if overlong else tail + chunk
        else:
            first = _ENDS.search(chunk)
            head = 0 if first is None else first.start()
            overlong = overlong or len(tail) + head > longest
            _require_header(not (in_header and overlong))
            # A line that lies within one chunk is never too long. Only a line that began in an earlier chunk can be.
            piece = chunk[head : end + 1] if overlong else tail + chunk[: end + 1]
            in_header = in_header and not piece.strip(b"\r\n")
            yield piece
            tail, overlong = chunk[end + 1 :], False
        if len(tail) > longest:
            tail, overlong = b"", True
    _require_header(not (in_header and overlong))
    if tail:
        yield tail + b"\n"


def _closed(pieces: Iterator[bytes], separator: str, codec: str) -> Iterator[bytes]:
    """Yield the pieces as UTF-8, without lines with an unclosed quoted cell. Raise if the header is such a line."""
    in_header = True
    for piece in pieces:
        if in_header:
            lines = piece.lstrip(b"\r\n")
            in_header = not lines
            header = _ENDS.split(lines, 1)[0]
            is_closed = _closed_line(separator).fullmatch(header) is not None
            _require_header(is_closed and attempt(functools.partial(header.decode, codec)) is not None)
        closed = _without_open_lines(piece, separator) if b'"' in piece else piece
        is_utf8 = closed.isascii() or (codec.startswith("utf-8") and attempt(closed.decode) is not None)
        # Bytes that the encoding does not have become replacement characters.
        yield closed if is_utf8 else closed.decode(codec, errors="replace").encode()


@functools.lru_cache
def _closed_line(separator: str) -> re.Pattern[bytes]:
    """Match a line in which every quoted cell is closed. Arrow treats a quote as such only at the start of a cell."""
    mark = re.escape(separator.encode())
    cell = rb'(?:"(?:[^"]|"")*"(?!")[^%b]*|[^"%b][^%b]*|)' % (mark, mark, mark)
    return re.compile(rb"%b(?:%b%b)*" % (cell, mark, cell))


def _require_header(fits: bool) -> None:
    if not fits:
        raise DataError(
            "the first line is too long, is in another encoding or has an unclosed quote. Correct the header."
        )


def _without_open_lines(piece: bytes, separator: str) -> bytes:
    """Drop the lines with an unclosed quoted cell from a piece of whole lines.

    A vectorised test accepts most lines with quotes: a line is closed if its number of quotes is even and the first
    quote of each pair stands at the start of a cell or right after another quote. A regular expression checks the
    remaining lines one by one.
    """
    codes = np.frombuffer(piece, dtype=np.uint8)
    ends = np.flatnonzero((codes == 10) | (codes == 13))
    quotes = np.flatnonzero(codes == 34)
    line = np.searchsorted(ends, quotes)
    n_before = np.searchsorted(quotes, ends)
    n_quotes = np.diff(n_before, prepend=0)
    # The position of each quote among the quotes of its line.
    rank = np.arange(quotes.size) - (n_before - n_quotes)[line]
    previous = codes[quotes - 1]
    previous[quotes == 0] = 10
    opens_late = (rank % 2 == 0) & ~np.isin(previous, np.array([10, 13, 34, ord(separator)], dtype=np.uint8))
    doubtful = n_quotes % 2 == 1
    doubtful[line[opens_late]] = True
    closed, start = [], 0
    for number in np.flatnonzero(doubtful):
        first = int(ends[number - 1]) + 1 if number else 0
        end = int(ends[number])
        if _closed_line(separator).fullmatch(piece, first, end) is None:
            closed.append(piece[start:first])
            start = end + 1
    return b"".join([*closed, piece[start:]])
