"""The option --columns: names, or what is public about each column, as text or in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pais._base.files import parse_json, read_text
from pais.data.kinds import PERIODS, Groups, could_be_edges, ranges
from pais.data.schema import Schema
from pais.errors import ArgumentError

_FILES = (".json", ".yaml", ".yml")

_SPELLINGS = {
    "--columns": "Write age=18:100 for bounds, joined=2015-01-01:2025-12-31 for dates, income=auto, premium=bool, "
    "'region=[north|south]' for categories, 'age=ranges(0,18,65)' for ranges, or visits=/10 to divide by 10",
    "--by": "Write 'region=[north|south]' for categories, premium=bool, 'age=ranges(0,18,65,110)' for ranges of "
    "numbers, or 'joined=months(2024-01-01,2024-12-31)' for days, weeks, months, quarters or years",
}

# Ranges and periods are written as in Python.
_GROUPS = re.compile(rf"(ranges|{'|'.join(PERIODS)})\s*\((.*)\)")

_QUOTED = re.compile(r"'.*'|\".*\"")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def columns_of(text: str | None, option: str = "--columns") -> tuple[str, ...] | Schema | None:
    """Return the columns that an option states: names, a schema, or None if it is left out."""
    if text is None:
        return None
    if text.strip().lower().endswith(_FILES):
        return _schema_in_file(Path(text.strip()))
    parts = _split(text)
    if not any("=" in part for part in parts):
        return names_of(option, text)
    plain = [part for part in parts if "=" not in part]
    if plain:
        raise ArgumentError(f"{option} states nothing about {plain[0]!r}. {_SPELLINGS[option]}.")
    pairs = [part.partition("=") for part in parts]
    names = [name.strip() for name, _, _ in pairs]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ArgumentError(f"{option} names {repeated[0]!r} twice. Name each column once.")
    return Schema.of({name: _fact(name, fact, option) for name, (_, _, fact) in zip(names, pairs, strict=True)})


def names_of(option: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ArgumentError(f"{option} names no column. Pass names with commas between them.")
    return names


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets and parentheses."""
    parts = re.findall(r"(?:\[[^\]]*\]|\([^)]*\)|[^,])+", text)
    return [part.strip() for part in parts if part.strip()]


def _fact(name: str, text: str, option: str = "--columns") -> object:
    """Parse what is stated about one column."""
    fact = text.strip()
    if fact in ("auto", "bool"):
        return fact
    if fact.startswith("[") and fact.endswith("]"):
        # A single category with such a mark is most likely a list that is written in another way.
        marks = [word for mark, word in ((",", "commas"), (":", "colons")) if mark in fact and "|" not in fact]
        if marks:
            raise ArgumentError(f"{option} lists categories of {name!r} with {marks[0]}. Write '{name}=[north|south]'.")
        return _listed(name, fact[1:-1].split("|"), option)
    groups = _GROUPS.fullmatch(fact)
    if groups is not None:
        return _groups(name, groups[1], [end.strip() for end in groups[2].split(",")], option)
    if fact.count(":") == 1:
        low, high = (end.strip() for end in fact.split(":"))
        dates = _DATE.fullmatch(low) and _DATE.fullmatch(high)
        bounds: tuple[Any, Any] = (low, high) if dates else (_number(name, low, option), _number(name, high, option))
        if not bounds[0] < bounds[1]:
            raise ArgumentError(f"{option} states the bounds {fact} of {name!r}. Write low:high with low < high.")
        return bounds
    return _number(name, fact.removeprefix("/"), option)


def _groups(name: str, kind: str, ends: list[str], option: str) -> Groups:
    """Ranges or periods between stated ends."""
    if kind == "ranges":
        return ranges([_number(name, end, option) for end in ends])
    if len(ends) != 2:
        raise ArgumentError(
            f"{option} states {len(ends)} date(s) for {kind} of {name!r}. Write the first and the last date: "
            f"'{name}={kind}(2024-01-01,2024-12-31)'."
        )
    return PERIODS[kind](*ends)


def _listed(name: str, values: list[Any], option: str) -> list[Any]:
    """Categories. Numbers that could be edges of ranges are refused, unless they are in quotes."""
    texts = [str(value).strip() for value in values]
    exact = [text[1:-1] for text in texts if _QUOTED.fullmatch(text)]
    if len(exact) == len(texts):
        return exact
    categories = _categories(values)
    if could_be_edges(categories):
        edges, quoted = ",".join(texts), "|".join(f"'{text}'" for text in texts)
        raise ArgumentError(
            f"{option} lists numbers for {name!r} that could be edges of ranges or exact values. Write "
            f"{name}=ranges({edges}) for ranges, or {name}=[{quoted}] for exact values."
        )
    return categories


def _categories(values: list[Any]) -> list[Any]:
    """Return categories as numbers if all of them are numbers, else as text."""
    texts = [str(value).strip() for value in values]
    numbers = [_float(text) for text in texts]
    return texts if None in numbers else numbers


def _number(name: str, text: str, option: str) -> float:
    number = _float(text)
    if number is None:
        raise ArgumentError(f"{option} states something about {name!r} that is not understood. {_SPELLINGS[option]}.")
    return number


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _schema_in_file(path: Path) -> Schema:
    """Read a schema from a JSON or YAML file: a mapping from column names to facts."""
    text = read_text(path)
    content = _json(path, text) if path.suffix.lower() == ".json" else _yaml(path, text)
    return Schema.of({name: _fact_in_file(name, fact) for name, fact in content.items()})


def _json(path: Path, text: str) -> dict[str, Any]:
    try:
        return parse_json(text)
    except ValueError:
        raise ArgumentError(f"{path} is not a JSON object. Write a mapping from column names to facts.") from None


def _yaml(path: Path, text: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]  # its stubs are another package

    try:
        # This loader leaves scalars as text. Others read 18:45 as a number in base 60, and `no` as false.
        content = yaml.load(text, Loader=yaml.BaseLoader)  # it builds no objects
    except (yaml.YAMLError, RecursionError):
        content = None
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise ArgumentError(f"{path} is not a YAML mapping. Write a line such as `age: 18:100` for each column.")
    return content


def _fact_in_file(name: str, fact: object) -> object:
    """Parse what a file states about a column: text as on the command line, a number, a list or a mapping."""
    if isinstance(fact, str):
        return _fact(name, fact)
    if isinstance(fact, list):
        categories = _categories(fact)
        numbers = [_float(str(value)) for value in fact]
        if len(fact) == 2 and could_be_edges(numbers):
            raise ArgumentError(
                f"columns: two numbers in a list for {name!r} could be bounds or categories. Write low:high as text "
                "for bounds, or {values: [...]} for categories."
            )
        if could_be_edges(categories):
            raise ArgumentError(
                f"columns: the numbers in a list for {name!r} could be edges of ranges or exact values. Write "
                f"ranges({', '.join(map(str, fact))}) for ranges, or {{values: [...]}} for exact values."
            )
        return categories
    if isinstance(fact, Mapping):
        return _detailed_fact(name, fact)
    return fact


def _detailed_fact(name: str, fact: Mapping[str, Any]) -> object:
    if set(fact) == {"values"} and isinstance(fact["values"], list):
        categories = _categories(fact["values"])
        # As text, numbers with gaps are categories and not edges, and stand for the same cells.
        return [str(value) for value in fact["values"]] if could_be_edges(categories) else categories
    if set(fact) == {"low", "high"}:
        return tuple(_end(fact[side]) for side in ("low", "high"))
    raise ArgumentError(
        f"columns: {name!r} has keys that are not understood. Write {{low: ..., high: ...}} or {{values: [...]}}."
    )


def _end(bound: object) -> object:
    number = _float(bound) if isinstance(bound, str) else bound
    return bound if number is None else number
