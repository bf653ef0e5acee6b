"""What a command reads: the data, what the user states about its columns, and facts about its rows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pais._base.files import parse_json, read_text
from pais._base.randomness import bit_source
from pais.cli import options
from pais.cli.files import WEIGHT_COLUMN, table_of
from pais.cli.show import Watch
from pais.data.ball import Ball
from pais.data.dialect import CSVFile
from pais.data.engines.base import Engine, WeightedRows
from pais.data.kinds import PERIODS, could_be_edges, names, ranges
from pais.data.schema import Schema
from pais.data.sources import names_of as header_of, source, with_categories
from pais.data.units import id_concern, is_person, people_concern
from pais.errors import ArgumentError
from pais.privacy.rules import NormDistribution


def open_rows(wanted: options.Rows, bar: Watch, carry: str | None = None, *, default: Schema | None = None) -> Engine:
    """Open the rows without reading them; warn if no columns were chosen and one of them may be an id.

    Without --columns, the schema of a plan or survey, `default`, decides which columns are read.
    """
    columns = columns_of(wanted.columns)
    data, csv = found(wanted)
    if isinstance(columns, Schema):
        columns = with_categories(columns, data)
    engine = source(
        data,
        columns=default if columns is None else columns,
        carry=() if carry is None else names_of("--carry", carry),
        unit=wanted.unit,
        max_rows_per_unit=wanted.max_rows_per_unit,
        missing=wanted.missing,
        **csv,
        on_rows=bar.rows,
    )
    ids = [name for name in engine.names or () if wanted.unit is not None or not is_person(name)]
    concern = id_concern(ids) if columns is None and default is None else None
    people = None
    if wanted.unit is None and default is None:
        people = people_concern(header_of(data), () if columns is None else engine.names or ())
    for text in (people, concern):
        if text is not None:
            bar.warn(text)
    return engine.held() if wanted.engine == "memory" else engine


def found(place: options.Place) -> tuple[object, dict[str, Any]]:
    """Return what `pais.source` opens at a place: a path, a `CSVFile` or a Spark frame, and how cells are written."""
    separator = "\t" if place.separator in ("tab", "\\t") else place.separator
    cells = {"decimal": place.decimal, "thousands": place.thousands, "date_format": place.date_format}
    if place.engine != "spark" and place.master is None:
        dialect = {"separator": separator, "encoding": place.encoding, **cells}
        return CSVFile(place.data, **dialect) if any(dialect.values()) else place.data, {}
    if place.engine not in ("spark", "auto"):
        raise ArgumentError("--master needs --engine spark. Leave one of the two out.")
    if place.encoding is not None:
        raise ArgumentError("--encoding is not for Spark. Convert the files to UTF-8, or leave --engine spark out.")
    try:
        from pais.data.engines.spark import read_frame
    except ImportError as error:
        # The message comes from this package and names the extra to install.
        raise ArgumentError(str(error)) from None
    return read_frame(place.data, master=place.master, separator=separator), cells


def passes(rows: Engine, *, surveys: int = 0, samples: int = 0) -> int | None:
    """Number of rows read in passes of a survey and of samples, for a progress bar; None if not known in advance.

    With units, one more pass counts their rows, and a sample takes two passes. In files, the last pass of a survey that
    finds no center, and the sample after a survey, use rows that an earlier pass has collected.
    """
    number = surveys + samples if rows.unit is None else 1 + surveys + 2 * samples
    if surveys and rows.collecting(None).collects:
        # Columns take two passes of a survey, and norms one, or two without a center.
        number -= samples + (1 if surveys % 2 == 0 else 0)
    return None if rows.known_rows is None else number * rows.known_rows


def sample_table(
    kept: WeightedRows, ball: Ball, names: tuple[str, ...], seed: int | None, schema: Schema | None = None
) -> pa.Table:
    """Build a table of a sample: features, weight, carried columns. The order of its rows reveals nothing.

    With a schema, the features are in the columns' own units. Rows are sorted, which discards their original positions,
    and then shuffled.
    """
    origin = 0.0 if ball.center is None else np.asarray(ball.center)
    by_value = np.lexsort(kept.rows.T)
    order = by_value[np.argsort(bit_source(seed, stream=3).words64(by_value.size), kind="stable")]
    rows = kept.rows[order] + origin
    columns = [*rows.T] if schema is None else table_of(schema.decode_frame(rows)).columns
    table = pa.table([*columns, kept.weights[order]], names=[*names, WEIGHT_COLUMN])
    if kept.carried is not None:
        carried = kept.carried.take(pa.array(order))
        for name in carried.column_names:
            table = table.append_column(name, carried.column(name))
    return table


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas or spaces; the brackets of a JSON list are allowed."""
    parts = [_float(part) for part in text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()]
    found = tuple(part for part in parts if part is not None and math.isfinite(part))
    if not found or len(found) < len(parts):
        raise ArgumentError(f"{name} is not a list of finite numbers. Pass numbers with commas between them.")
    return found


def center_of(text: str) -> tuple[float, ...]:
    """Parse a center from a list of numbers, or from a file that contains one."""
    try:
        is_file = Path(text).is_file()
    except OSError:
        # A long list of numbers is not a valid file name.
        is_file = False
    return numbers("--center", read_text(Path(text)) if is_file else text)


def stated_norms(norms: str | None, n_rows: float | None, radius: float | None) -> NormDistribution:
    """Build the norm distribution from quantiles at evenly spaced levels, linear in between."""
    if norms is None or n_rows is None or radius is None:
        raise ArgumentError("--norms, --n-rows and --radius belong together. State all three, or pass --survey.")
    values = np.asarray(numbers("--norms", norms))
    if values.size < 2 or np.any(np.diff(values) < 0.0):
        raise ArgumentError("--norms must be two or more non-decreasing numbers. Pass quantiles from level 0 to 1.")
    levels = np.linspace(0.0, 1.0, values.size)
    return NormDistribution.from_quantiles(
        lambda level: np.asarray(np.interp(level, levels, values)), n_rows=n_rows, radius=radius
    )


# The option --columns: names, or what is public about each column, as text or in a file.

_FILES = (".json", ".yaml", ".yml")

_SPELLINGS = {
    "--columns": "Write age=18:100 for bounds, joined=2015-01-01:2025-12-31 for dates, income=auto, premium=bool, "
    "'region=[north|south]' for categories, 'ward=names()' for names that are found privately, "
    "'age=ranges(0,18,65)' for ranges, or visits=/10 to divide by 10",
    "--by": "Write ward or 'ward=names(strip,casefold)' for names that are found privately, 'region=[north|south]' for "
    "categories, premium=bool, 'age=ranges(0,18,65,110)' for ranges of "
    "numbers, or 'joined=months(2024-01-01,2024-12-31)' for days, weeks, months, quarters or years",
}

# Ranges and periods are written as in Python.
_NAMES = re.compile(r"names\s*\((.*)\)")
_NAME_OPTIONS: dict[str, dict[str, Any]] = {
    "strip": {"strip": True},
    "casefold": {"casefold": True},
    **{form: {"unicode_form": form} for form in ("NFC", "NFD", "NFKC", "NFKD")},
    **{period: {"period": period} for period in ("day", "month")},
}
_GROUPS = re.compile(rf"(ranges|{'|'.join(PERIODS)})\s*\((.*)\)")

_QUOTED = re.compile(r"'.*'|\".*\"")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def columns_of(text: str | None, option: str = "--columns") -> tuple[str, ...] | Schema | None:
    """Return the columns that an option states: names, a schema, or None if it is left out."""
    if text is None:
        return None
    if text.strip().lower().endswith(_FILES):
        return _schema_in_file(Path(text.strip()))
    # Commas within brackets and parentheses do not separate columns.
    parts = [part.strip() for part in re.findall(r"(?:\[[^\]]*\]|\([^)]*\)|[^,])+", text) if part.strip()]
    if not any("=" in part for part in parts):
        return names_of(option, text)
    plain = [part for part in parts if "=" not in part]
    if plain and option != "--by":
        raise ArgumentError(f"{option} states nothing about {plain[0]!r}. {_SPELLINGS[option]}.")
    # Groups that nobody listed are found privately.
    pairs = [(part if "=" in part else f"{part}=names()").partition("=") for part in parts]
    stated = [name.strip() for name, _, _ in pairs]
    repeated = [name for name in dict.fromkeys(stated) if stated.count(name) > 1]
    if repeated:
        raise ArgumentError(f"{option} names {repeated[0]!r} twice. Name each column once.")
    return Schema.of({name: fact_of(name, fact, option) for name, (_, _, fact) in zip(stated, pairs, strict=True)})


def names_of(option: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ArgumentError(f"{option} names no column. Pass names with commas between them.")
    return names


def fact_of(name: str, text: str, option: str) -> object:
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
    unlisted = _NAMES.fullmatch(fact)
    if unlisted is not None:
        return names(**_options_of_names(name, unlisted[1], option))
    groups = _GROUPS.fullmatch(fact)
    if groups is not None:
        kind, ends = groups[1], [end.strip() for end in groups[2].split(",")]
        if kind == "ranges":
            return ranges([_number(name, end, option) for end in ends])
        if len(ends) != 2:
            raise ArgumentError(
                f"{option} states {len(ends)} date(s) for {kind} of {name!r}. Write the first and the last date: "
                f"'{name}={kind}(2024-01-01,2024-12-31)'."
            )
        return PERIODS[kind](*ends)
    if fact.count(":") == 1:
        low, high = (end.strip() for end in fact.split(":"))
        dates = _DATE.fullmatch(low) and _DATE.fullmatch(high)
        bounds: tuple[Any, Any] = (low, high) if dates else (_number(name, low, option), _number(name, high, option))
        if not bounds[0] < bounds[1]:
            raise ArgumentError(f"{option} states the bounds {fact} of {name!r}. Write low:high with low < high.")
        return bounds
    return _number(name, fact.removeprefix("/"), option)


def _options_of_names(name: str, text: str, option: str) -> dict[str, Any]:
    """The options in names(strip,casefold,NFC,month)."""
    stated: dict[str, Any] = {}
    for word in (word.strip() for word in text.split(",") if word.strip()):
        if word not in _NAME_OPTIONS:
            raise ArgumentError(
                f"{option} states {word!r} for the names of {name!r}. Write {', '.join(_NAME_OPTIONS)}, or nothing: "
                f"'{name}=names(strip,casefold)'."
            )
        stated |= _NAME_OPTIONS[word]
    return stated


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
    if path.suffix.lower() == ".json":
        try:
            content: Any = parse_json(text)
        except ValueError:
            raise ArgumentError(f"{path} is not a JSON object. Write a mapping from column names to facts.") from None
    else:
        import yaml  # type: ignore[import-untyped]  # its stubs are another package

        try:
            # This loader leaves scalars as text. Others read 18:45 as a number in base 60, and `no` as false.
            content = yaml.load(text, Loader=yaml.BaseLoader)  # it builds no objects
        except (yaml.YAMLError, RecursionError):
            content = None
        if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
            raise ArgumentError(f"{path} is not a YAML mapping. Write a line such as `age: 18:100` for each column.")
    return Schema.of({name: _fact_in_file(name, fact) for name, fact in content.items()})


def _fact_in_file(name: str, fact: Any) -> object:
    """Parse what a file states about a column: text as on the command line, a number, a list or a mapping."""
    if isinstance(fact, str):
        return fact_of(name, fact, "--columns")
    if isinstance(fact, list):
        categories = _categories(fact)
        if len(fact) == 2 and could_be_edges([_float(str(value)) for value in fact]):
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
    if not isinstance(fact, Mapping):
        return fact
    if set(fact) == {"values"} and isinstance(fact["values"], list):
        categories = _categories(fact["values"])
        # As text, numbers with gaps are categories and not edges, and stand for the same cells.
        return [str(value) for value in fact["values"]] if could_be_edges(categories) else categories
    if set(fact) == {"low", "high"}:
        ends = [fact[side] for side in ("low", "high")]
        return tuple(end if not isinstance(end, str) or _float(end) is None else _float(end) for end in ends)
    raise ArgumentError(
        f"columns: {name!r} has keys that are not understood. Write {{low: ..., high: ...}} or {{values: [...]}}."
    )
