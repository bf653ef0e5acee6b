"""Read a CSV file so that each line is parsed on its own and cannot affect another line."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.fs as pa_fs

from pais._base.validate import attempt
from pais.data.dialect import Dialect
from pais.errors import DataError

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
            _require_header(_is_header(_ENDS.split(lines, 1)[0], separator, codec))
        closed = _without_open_lines(piece, separator) if b'"' in piece else piece
        yield closed if closed.isascii() else _as_utf8(closed, codec)


@functools.lru_cache
def _closed_line(separator: str) -> re.Pattern[bytes]:
    """Match a line in which every quoted cell is closed. Arrow treats a quote as such only at the start of a cell."""
    mark = re.escape(separator.encode())
    cell = rb'(?:"(?:[^"]|"")*"(?!")[^%b]*|[^"%b][^%b]*|)' % (mark, mark, mark)
    return re.compile(rb"%b(?:%b%b)*" % (cell, mark, cell))


def _is_header(line: bytes, separator: str, codec: str) -> bool:
    return _closed_line(separator).fullmatch(line) is not None and attempt(lambda: line.decode(codec)) is not None


def _require_header(fits: bool) -> None:
    if not fits:
        raise DataError(
            "the first line is too long, is in another encoding or has an unclosed quote. Correct the header."
        )


def _as_utf8(piece: bytes, codec: str) -> bytes:
    """Write a piece in UTF-8, with replacement characters for bytes that the encoding does not have. ASCII stays."""
    is_whole = codec.startswith("utf-8") and attempt(piece.decode) is not None
    return piece if is_whole else piece.decode(codec, errors="replace").encode()


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
