"""Open the rows that a command reads, and parse the facts that the user states about them."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pais._base.files import read_text
from pais._base.numerics import FloatArray
from pais._base.randomness import bit_source
from pais.cli import options
from pais.cli.columns import columns_of, names_of
from pais.cli.files import WEIGHT_COLUMN, own_units
from pais.cli.options import EngineName
from pais.cli.show import Watch
from pais.data.ball import Ball
from pais.data.dialect import CSVFile
from pais.data.engines.base import Engine, WeightedRows
from pais.data.schema import Schema
from pais.data.sources import names_of as header_of, source
from pais.data.units import id_concern, is_person, people_concern
from pais.errors import ArgumentError
from pais.privacy.norms import NormDistribution


def open_rows(wanted: options.Rows, bar: Watch, carry: str | None = None, *, default: Schema | None = None) -> Engine:
    """Open the rows without reading them; warn if no columns were chosen and one of them may be an id.

    Without --columns, the schema of a plan or survey, `default`, decides which columns are read.
    """
    columns = columns_of(wanted.columns)
    data, csv = found(wanted)
    engine = source(
        data,
        columns=default if columns is None else columns,
        carry=names_of("--carry", carry) or (),
        unit=wanted.unit,
        max_rows_per_unit=wanted.max_rows_per_unit,
        missing=wanted.missing.value,
        **csv,
        on_rows=bar.rows,
    )
    ids = [name for name in engine.names or () if wanted.unit is not None or not is_person(name)]
    concern = id_concern(ids) if columns is None and default is None else None
    people = people_hint(wanted, data, () if columns is None else engine.names or ()) if default is None else None
    for text in (people, concern):
        if text is not None:
            bar.warn(text)
    return engine.held() if wanted.engine is EngineName.memory else engine


def people_hint(wanted: options.Rows, data: object, stated: Collection[str]) -> str | None:
    """A warning text if --unit is left out although the header has a name like that of an id of people."""
    return None if wanted.unit is not None else people_concern(header_of(data), stated)


def found(place: options.Place) -> tuple[object, dict[str, Any]]:
    """Return what `pais.source` opens at a place: a path, a `CSVFile` or a Spark frame, and how cells are written."""
    separator = "\t" if place.separator in ("tab", "\\t") else place.separator
    cells = {"decimal": place.decimal, "thousands": place.thousands, "date_format": place.date_format}
    if place.engine is not EngineName.spark and place.master is None:
        dialect = {"separator": separator, "encoding": place.encoding, **cells}
        return CSVFile(place.data, **dialect) if any(dialect.values()) else place.data, {}
    if place.engine not in (EngineName.spark, EngineName.auto):
        raise ArgumentError("--master needs --engine spark. Leave one of the two out.")
    if place.encoding is not None:
        raise ArgumentError("--encoding is not for Spark. Convert the files to UTF-8, or leave --engine spark out.")
    return _spark_frame(place.data, place.master, separator), cells


def _spark_frame(data: str, master: str | None, separator: str | None) -> object:
    try:
        from pais.data.engines.spark import read_frame
    except ImportError as error:
        # The message comes from this package and names the extra to install.
        raise ArgumentError(str(error)) from None
    return read_frame(data, master=master, separator=separator)


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
    columns = [pa.array(column) for column in rows.T] if schema is None else list(own_units(rows, schema).values())
    table = pa.table([*columns, pa.array(kept.weights[order])], names=[*names, WEIGHT_COLUMN])
    if kept.carried is not None:
        carried = kept.carried.take(pa.array(order))
        for name in carried.column_names:
            table = table.append_column(name, carried.column(name))
    return table


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas or spaces; the brackets of a JSON list are allowed."""
    parts = text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
    if not parts or not all(_is_number(part) and math.isfinite(float(part)) for part in parts):
        raise ArgumentError(f"{name} is not a list of finite numbers. Pass numbers with commas between them.")
    return tuple(float(part) for part in parts)


def center_of(text: str | None) -> tuple[float, ...] | None:
    """Parse a center from a list of numbers, or from a file that contains one."""
    if text is None:
        return None
    try:
        is_file = Path(text).is_file()
    except OSError:
        # A long list of numbers is not a valid file name.
        is_file = False
    return numbers("--center", read_text(Path(text)) if is_file else text)


def stated_norms(norms: str | None, n_rows: float | None, radius: float | None) -> NormDistribution | None:
    """Build the norm distribution from quantiles at evenly spaced levels, linear in between."""
    if norms is None and n_rows is None:
        return None
    if norms is None or n_rows is None or radius is None:
        raise ArgumentError("--norms, --n-rows and --radius belong together. State all three, or pass --survey.")
    values = np.asarray(numbers("--norms", norms))
    if values.size < 2 or np.any(np.diff(values) < 0.0):
        raise ArgumentError("--norms must be two or more non-decreasing numbers. Pass quantiles from level 0 to 1.")
    levels = np.linspace(0.0, 1.0, values.size)

    def quantile(level: FloatArray) -> FloatArray:
        return np.asarray(np.interp(level, levels, values))

    return NormDistribution.from_quantiles(quantile, n_rows=n_rows, radius=radius)
