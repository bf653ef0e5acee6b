"""The work of the commands of statistics: open the table, release, print and write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pais import statistics
from pais._base import files as formats, validate
from pais._base.numerics import raised
from pais.accounting import Part
from pais.cli import books, files, options, show
from pais.cli.columns import columns_of, names_of
from pais.cli.commands import warn_of_seed
from pais.cli.options import EngineName
from pais.cli.rows import found, numbers, passes, people_hint
from pais.cli.statistics import Histogram, People, Quantile, Statistic, Table
from pais.data.kinds import Boolean, Categories, Column
from pais.data.scales import Scale
from pais.data.schema import Schema
from pais.data.sources import cells
from pais.errors import ArgumentError
from pais.statistics.table import Selection

#: The kind of a file with a released statistic.
KIND = "statistic"

_TABLES = (".csv", ".parquet")


def statistic(
    name: str, wanted: Table, run: options.Run, ledger: Path | None, out: Path | None, *, overwrite: bool
) -> None:
    """Release a statistic; then print or write its values with the certificate."""
    warn_of_seed(run.seed)
    if out is not None:
        files.require_free(_outputs(out), overwrite=overwrite)
    elif run.quiet and not run.as_json:
        raise ArgumentError("--quiet would hide a result that is paid for. Pass --out or --json, or leave it out.")
    validate.target_epsilon(wanted.epsilon)
    more, (schema, by) = _arguments(wanted), _stated(name, wanted)
    book = books.opened(ledger, Part(what=name, epsilon=wanted.epsilon, unit=wanted.unit or ""))
    with books.reporting_charges(book), show.watch(quiet=run.quiet) as bar:
        bar.begin("open")
        data, csv = found(wanted)
        selection = Selection.of(data, schema, by, wanted.unit)
        engine = cells(
            data,
            columns=selection.schema,
            unit=wanted.unit,
            max_rows_per_unit=wanted.max_rows_per_unit,
            missing=wanted.missing.value,
            # A row with a missing value has no covariances; other statistics leave out the cell alone.
            by_cell=name != "covariance",
            on_rows=bar.rows,
            **csv,
        )
        engine = engine.held() if wanted.engine is EngineName.memory else engine
        opened = Selection(rows=engine, schema=selection.schema, columns=selection.columns, by=selection.by)
        bar.begin(name)
        bar.expect(passes(engine, surveys=2 if engine.schema is not None and engine.schema.open else 0, samples=1))
        function: Callable[..., statistics.Statistic] = getattr(statistics, name)
        result = function(opened, epsilon=wanted.epsilon, ledger=book, random_state=run.seed, **more)
        hint = people_hint(wanted, data, (*selection.columns, *selection.by))
        if hint is not None:
            bar.warn(hint)
        bar.begin("write")
        if out is not None:
            _write(out, result)
    if run.as_json:
        show.print_json(described(result))
    elif not run.quiet:
        _print(result, out)


def _outputs(out: Path) -> list[Path]:
    """The files that --out asks for. Raises if its ending is that of no kind of file."""
    if out.suffix.lower() not in (".json", ".html", *_TABLES):
        raise ArgumentError(f"--out names {out.name!r}. Pass a file that ends in .json, .csv, .parquet or .html.")
    return [out, files.certificate_beside(out)] if out.suffix.lower() in _TABLES else [out]


def _write(out: Path, result: statistics.Statistic) -> None:
    """Write a statistic as JSON, as a page or as a table, by the ending of the file name."""
    if out.suffix.lower() == ".html":
        files.write_page(out, result.write_report)
    elif out.suffix.lower() in _TABLES:
        files.write_table(out, _table(described(result)["values"]), result.certificate.to_json())
    else:
        files.write_json(out, described(result))


def _table(values: list[dict[str, Any]]) -> pa.Table:
    """One line for each value. A column with dates among numbers is text."""
    columns = {name: [value[name] for value in values] for name in values[0]}
    for name, cells_of in columns.items():
        if any(isinstance(cell, str) for cell in cells_of):
            columns[name] = [None if cell is None else str(cell) for cell in cells_of]
    return pa.table(columns).replace_schema_metadata({files.CONTENT_KEY: files.STATISTIC})


def _stated(name: str, wanted: Table) -> tuple[Schema | None, tuple[str, ...]]:
    """What --columns and --by state about columns, and the names of those that form groups."""
    has_facts = "=" in (wanted.by or "")
    columns, groups = columns_of(wanted.columns), columns_of(wanted.by, "--by") if has_facts else None
    if isinstance(columns, tuple):
        raise ArgumentError(
            f"--columns states nothing about {columns[0]!r}. Write bounds, such as {columns[0]}=18:100."
        )
    facts = [column for schema in (columns, groups) if isinstance(schema, Schema) for column in schema.columns]
    by = groups.names if isinstance(groups, Schema) else names_of("--by", wanted.by) or ()
    _require_groups([column for column in facts if column.name in by], by)
    summarised = [column for column in facts if column.name not in by]
    if summarised and name == "count_people":
        raise ArgumentError(
            f"--columns states {summarised[0].name!r}, but `pais count-people` counts people. Leave it out, or put it "
            "in --by."
        )
    if not summarised and name not in ("count", "count_people"):
        raise ArgumentError(
            f"`pais {name}` needs at least one column. State it, such as --columns age=18:100, or age=auto for bounds "
            "that are found privately."
        )
    for column in summarised:
        if isinstance(column, Scale):
            raise ArgumentError(
                f"--columns states a number to divide {column.name!r} by, but `pais {name}` needs bounds. Write "
                f"bounds, such as {column.name}=18:100, or {column.name}=auto for bounds that are found privately."
            )
    return Schema(tuple(facts)) if facts else None, by


def _require_groups(facts: list[Column], by: tuple[str, ...]) -> None:
    """Raise unless each column of --by has categories that are stated once."""
    for name in by:
        stated = [fact for fact in facts if fact.name == name]
        if by.count(name) > 1 or len(stated) > 1:
            raise ArgumentError(f"column {name!r} is stated twice. State it once, in --by or in --columns.")
        if not stated or not isinstance(stated[0], (Boolean, Categories)):
            raise ArgumentError(
                f"--by needs public categories of {name!r}. Write --by '{name}=[a|b]', '{name}=ranges(0,18,65)' for "
                f"numbers, '{name}=months(2024-01-01,2024-12-31)' for dates, or state a list or bool in --columns."
            )


def _arguments(wanted: Table) -> dict[str, Any]:
    """The arguments that only some statistics have."""
    more: dict[str, Any] = {"missing": wanted.missing.value}
    if isinstance(wanted, Statistic):
        if wanted.sample_size is not None and wanted.sampling.value not in ("constrained", "uniform"):
            raise ArgumentError(
                "--sample-size needs --sampling constrained or --sampling uniform. State both, or neither."
            )
        more |= {"delta": wanted.delta, "sampling": wanted.sampling.value, "sample_size": wanted.sample_size}
    if isinstance(wanted, People):
        more["delta"] = wanted.delta
    if isinstance(wanted, Histogram):
        bins = wanted.bins.strip()
        more["bins"] = int(bins) if bins.isdecimal() else list(numbers("--bins", bins))
    if isinstance(wanted, Quantile):
        levels = numbers("--q", wanted.q)
        more |= {"q": levels[0] if len(levels) == 1 else levels, "step": wanted.step}
    return more


def described(result: statistics.Statistic) -> dict[str, Any]:
    """A released statistic with its certificate, for files: one entry for each value, with its 95 % interval."""
    rows, columns = result.rows, result.columns
    only: dict[str, Any] = {} if columns is not None or not result.subject else {"column": result.subject}
    if result.level is not None:
        only["quantile"] = str(result.level)
    places = [
        {**only, **_labels(rows, row, "row"), **_labels(columns, column, "column")}
        for row in range(result.estimates.shape[0])
        for column in range(result.estimates.shape[1])
    ]
    low, high = result.interval(0.95)
    numbers_of = {"value": result.value, "standard_error": result.standard_error, "low": low, "high": high}
    cells_of = {key: np.asarray(value, dtype=object).ravel().tolist() for key, value in numbers_of.items()}
    return {
        "kind": KIND,
        "format": formats.FORMAT,
        "statistic": result.name,
        "values": [
            place | {key: _plain(values[number]) for key, values in cells_of.items()}
            for number, place in enumerate(places)
        ],
        "about": result.about,
        "level": 0.95,
        "noise": result.noise,
        "clipping": result.clipping,
        "notes": [*result.notes],
        "cautions": [caution.text for caution in result.cautions],
        "certificate": json.loads(result.certificate.to_json()),
    }


def _labels(axis: Any, place: int, other: str) -> dict[str, str]:
    """The labels of a place on an axis, by the names of its levels."""
    if axis is None:
        return {}
    return {name or other: str(level[place]) for name, level in zip(axis.names, axis.levels, strict=True)}


def _plain(value: Any) -> Any:
    """A number or a date as JSON holds it; a value that is not defined is null."""
    if isinstance(value, (int, float, np.number)):
        return float(value) if np.isfinite(value) else None
    return None if value is None or str(value) == "NaT" else str(value)


def _print(result: statistics.Statistic, out: Path | None) -> None:
    certificate = result.certificate
    parts = [(f"  {part.what}", show.price(part.to_dict())) for part in certificate.parts]
    facts = [
        *result.lines(),
        *([("±", "standard errors")] if result.name == "description" else []),
        *(("caution", caution.text) for caution in result.cautions),
        ("about", result.about),
        *(("note", note) for note in result.notes),
        ("guarantee", f"epsilon {raised(certificate.epsilon)}, delta {raised(certificate.delta, 3)}"),
        *(parts if len(parts) > 1 else []),
        ("neighbours", certificate.neighbours),
        ("randomness", certificate.note),
        ("noise", result.noise),
        ("clipping", result.clipping),
        *([] if out is None else [("file", str(out))]),
    ]
    show.facts_table(f"Private {result.name}" + (f" of {result.subject}" if result.subject else ""), facts)
