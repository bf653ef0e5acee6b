"""What the page shows of a file before a release, its columns' names and types, and what the user states about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pais._base.validate import attempt
from pais.data.dialect import CSVFile, Dialect, first_line, is_csv, is_read, likely_forms, open_csv, recognised
from pais.data.engines.files import files_of
from pais.data.schema import Schema
from pais.data.sources import names_of
from pais.errors import ArgumentError, PaisError

#: Parses what --columns states about a column. The command line supplies it.
ReadFact = Callable[[str, str, str], object]

#: How a file may be written, by the names of the arguments of `pais.CSVFile`.
DIALECT = ("separator", "decimal", "thousands", "encoding", "date_format")

#: The kinds of columns that a user chooses from.
KINDS = {
    "bounds": "number or date between bounds",
    "auto": "number, bounds found privately",
    "bool": "yes or no",
    "categories": "one of a list",
    "names": "one of a list found privately",
    "names-alike": "found privately, in any case",
    "other": "ranges, periods, other",
}

# The kinds whose values are found privately, as a file for --columns has them.
_NAMES = {"names": "names()", "names-alike": "names(strip,casefold)"}

# The first bytes and cells of a CSV file that show how it is written, as in `data.engines.files`; and the share of the
# cells that must have a type for the page to name it. Chosen by eye.
_FIRST_BYTES, _FIRST_CELLS, _MOST = 1 << 18, 1000, 0.5

_TRUTHS = ["true", "false", "yes", "no"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Names and types of the columns of a file, and how it is written. It holds no value of a row."""

    names: tuple[str, ...] = ()
    types: Mapping[str, str]
    recognised: Mapping[str, str]
    is_csv: bool = False
    problem: str = ""

    def doubt(self, stated: Stated) -> str:
        """What the type of a column says against a fact."""
        kind = self.types.get(stated.name)
        if stated.kind == "bool" and kind in ("text", "date"):
            return "This reads yes and no, true and false, 1 and 0. Choose “one of a list” for other words, no first."
        return "The first cells look like text." if stated.kind in ("bounds", "auto") and kind == "text" else ""


def table_at(path: Path, stated: Mapping[str, str]) -> Table:
    """Look at a file. What is recognised is only shown: a release uses what is stated."""
    try:
        dialect = Dialect(**stated)
        filesystem, first = files_of(path)[0]
        if not is_csv(first):
            names = names_of(str(path))
            schema = attempt(lambda: pq.read_schema(filesystem.open_input_file(first)))
            types = {} if schema is None else {name: _word(schema.field(name).type) for name in names}
            return Table(names=tuple(names), types=types, recognised={})
        header = attempt(lambda: first_line(filesystem, first, _FIRST_BYTES)) or b""
        if dialect.encoding is None and attempt(lambda: header.decode()) is None:
            dialect = replace(dialect, encoding="cp1252")
        names = names_of(CSVFile(str(path), **_parts(dialect)))
        if dialect.separator is None:
            shown = [mark for mark in ",;\t|" if mark in header.decode(dialect.codec, "replace")]
            dialect = replace(dialect, separator=shown[0] if len(shown) == 1 else ",")
        cells = attempt(lambda: _first_cells(filesystem, first, names, dialect)) or {}
        types, found = _looked_at(cells, dialect)
        recognised_parts = {name: mark for name, mark in _parts(found).items() if not stated.get(name)}
        if recognised_parts.get("separator") == ",":
            del recognised_parts["separator"]
        return Table(names=tuple(names), types=types, recognised=recognised_parts, is_csv=True)
    except PaisError as error:
        return Table(types={}, recognised={}, is_csv=is_csv(str(path)), problem=str(error))


def _parts(dialect: Dialect) -> dict[str, str]:
    return {name: getattr(dialect, name) for name in dialect.stated}


def _word(kind: pa.DataType) -> str:
    """A type in a word."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    for word, is_kind in (("yes or no", pa.types.is_boolean), ("date", pa.types.is_temporal)):
        if is_kind(kind):
            return word
    if pa.types.is_integer(kind):
        return "whole number"
    return "number" if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else "text"


def _first_cells(filesystem: Any, path: str, names: Sequence[str], dialect: Dialect) -> dict[str, pa.Array]:
    """The first cells of each column of a CSV file. Secret: they leave this module as types alone."""
    as_text = {"column_types": dict.fromkeys(names, pa.string()), "check_utf8": False}
    with open_csv(filesystem, path, _FIRST_BYTES, dialect, whole=False, **as_text) as reader:
        first = next(iter(reader), None)
    if first is None:
        return {}
    return {name: first.column(name)[:_FIRST_CELLS].cast(pa.large_string()) for name in names}


def _looked_at(cells: Mapping[str, pa.Array], dialect: Dialect) -> tuple[dict[str, str], Dialect]:
    """The types that the first cells have in the likeliest form, and that form."""
    types, by_kind = {}, {"numbers": [], "dates": [], "text": []}  # type: dict[str, str], dict[str, list[pa.Array]]
    for name, column in cells.items():
        filled = column.filter(pc.not_equal(pc.utf8_trim_whitespace(column), "")).drop_null()
        kind = next((kind for kind in ("numbers", "dates") if _is_mostly(filled, kind, dialect)), "text")
        by_kind[kind].append(filled)
        truths = pc.is_in(pc.utf8_lower(filled), value_set=pa.array(_TRUTHS, pa.large_string()))
        types[name] = {"numbers": "number", "dates": "date"}.get(kind, "text")
        if len(filled) and pc.all(truths).as_py():
            types[name] = "yes or no"
        elif not len(filled):
            types[name] = "empty at first"
    return types, recognised(by_kind, dialect) or dialect


def _is_mostly(cells: pa.Array, kind: str, dialect: Dialect) -> bool:
    if not len(cells):
        return False
    read = is_read(cells, kind, dialect)
    others = cells.filter(pa.array(~read))
    return bool(read.sum() + likely_forms(others, kind, dialect)[1].sum() >= _MOST * len(cells))


@dataclass(frozen=True)
class Stated:
    """What the user typed about a column."""

    name: str
    use: bool = False
    kind: str = ""
    low: str = ""
    high: str = ""
    values: str = ""

    def written(self) -> str | list[str]:
        """The fact as a file for --columns has it."""
        if self.kind == "bounds":
            return f"{self.low.strip()}:{self.high.strip()}"
        if self.kind == "categories":
            mark = "\n" if "\n" in self.values else "|" if "|" in self.values else ","
            return [text.strip() for text in self.values.split(mark) if text.strip()]
        return {**_NAMES, "other": self.values.strip()}.get(self.kind, self.kind)

    def fact(self, read: ReadFact) -> Any:
        """The fact as the package takes it. Raises `ArgumentError` with a message for the user."""
        if not self.kind:
            raise ArgumentError("Choose what this column holds, or take it out.")
        if self.kind == "bounds" and not (self.low.strip() and self.high.strip()):
            raise ArgumentError("State the smallest and the largest value that is possible, whatever the rows hold.")
        written = self.written()
        if not written:
            raise ArgumentError("State the categories, one on each line." if self.kind == "categories" else "State it.")
        fact = written if isinstance(written, list) else read(self.name, written, "--columns")
        column = Schema.of({self.name: fact}).columns[0]
        if self.kind == "bounds" and not hasattr(column, "low"):
            raise ArgumentError("State two numbers, or two dates such as 2025-01-31.")
        return bool if fact == "bool" else fact

    def yaml_fact(self) -> Any:
        """The fact as YAML: numbers in a list are marked as categories."""
        written = self.written()
        if isinstance(written, list) and all(re.fullmatch(r"[-+.\d\s]+", value) for value in written):
            return {"values": written}
        return written


def of_yaml(text: str, names: Sequence[str]) -> tuple[list[Stated], list[str]]:
    """Read a file for --columns, or pasted lines such as `age: 18:100`; return also names that the table lacks."""
    import yaml  # type: ignore[import-untyped]  # its stubs are another package

    # A colon without a blank after it, and an equals sign, are common in pasted text.
    lines = [re.sub(r"^(\s*[^\s:=#'\"{\[][^:=]*?)\s*(?:=|:(?=\S)|\t)\s*", r"\1: ", line) for line in text.splitlines()]
    try:
        content = yaml.load("\n".join(lines), Loader=yaml.BaseLoader)  # it builds no objects
    except (yaml.YAMLError, RecursionError):
        content = None
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise ArgumentError("This is not understood. Write a line such as age: 18:100 for each column.")
    known = [name for name in content if name in names]
    return [_of_fact(name, content[name]) for name in known], [name for name in content if name not in names]


def _of_fact(name: str, fact: Any) -> Stated:
    if isinstance(fact, Mapping) and set(fact) == {"low", "high"}:
        return Stated(name, True, "bounds", low=str(fact["low"]), high=str(fact["high"]))
    if isinstance(fact, Mapping) and isinstance(fact.get("values"), list):
        fact = fact["values"]
    if isinstance(fact, list):
        return Stated(name, True, "categories", values="\n".join(map(str, fact)))
    text = str(fact).strip()
    kinds = {"auto": "auto", "bool": "bool", "names": "names", **{words: kind for kind, words in _NAMES.items()}}
    if (squeezed := re.sub(r"\s", "", text)) in kinds:
        return Stated(name, True, kinds[squeezed])
    if text.startswith("[") and text.endswith("]"):
        return Stated(name, True, "categories", values="\n".join(text[1:-1].split("|")))
    bounds = re.fullmatch(r"([^:(]+):([^:]+)", text)
    if bounds:
        return Stated(name, True, "bounds", low=bounds[1].strip(), high=bounds[2].strip())
    return Stated(name, True, "other", values=text)


def to_yaml(columns: Sequence[Stated]) -> str:
    """The columns as a file for --columns."""
    import yaml

    facts = {column.name: column.yaml_fact() for column in columns}
    text: str = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, default_flow_style=None)
    return text


def literal(value: Any) -> str:
    """A value as Python text."""
    if value is bool:
        return "bool"
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    return f"[{', '.join(map(literal, value))}]" if isinstance(value, list) else repr(value)
