"""Open the rows that a command processes. The screen shows no more about them than a rate and a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pais._base.randomness import bit_source
from pais.cli.files import WEIGHT_COLUMN
from pais.cli.options import EngineName, MissingChoice
from pais.cli.show import Watch
from pais.data.ball import Ball
from pais.data.columns import listed
from pais.data.engines import Engine, WeightedRows
from pais.data.sources import source
from pais.errors import ArgumentError

# Common names of columns with row identifiers; pandas writes "Unnamed: 0" for an index without a name.
_IDENTIFIER = re.compile(r"(?i:(.*[\W_])?(id|key|uuid)|index|unnamed: 0)|.*[a-z]I[dD]")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The rows and columns that the user selected, and the engine to process them with."""

    data: str
    columns: str | None
    missing: MissingChoice
    engine: EngineName
    master: str | None
    carry: str | None = None

    def open(self, bar: Watch) -> Engine:
        """Open the rows without reading them; warn if no columns were chosen and one of them may be an id."""
        data: object = self.data
        if self.engine is EngineName.spark or self.master is not None:
            if self.engine not in (EngineName.spark, EngineName.auto):
                raise ArgumentError("--master goes with --engine spark. Leave one of the two out.")
            data = _spark_frame(self.data, self.master)
        opened = source(
            data,
            columns=names_of("--columns", self.columns),
            carry=names_of("--carry", self.carry) or (),
            missing=self.missing.value,
            on_rows=bar.rows,
        )
        found = identifiers(opened.names or ())
        if self.columns is None and found:
            bar.warn(
                f"column(s) {listed(found)} look like ids and are used as features. If that is not meant, name the "
                "features with --columns."
            )
        return opened.held() if self.engine is EngineName.memory else opened


def _spark_frame(data: str, master: str | None) -> object:
    try:
        from pais.data.engines.spark import read_frame
    except ImportError as error:
        # The message comes from this package and names the extra to install.
        raise ArgumentError(str(error)) from None
    return read_frame(data, master=master)


def identifiers(names: Sequence[str]) -> list[str]:
    """Return the columns that look like row identifiers, judged by their names alone."""
    return [name for name in names if _IDENTIFIER.fullmatch(name)]


def names_of(option: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ArgumentError(f"{option} names no column. Pass names with commas between them.")
    return names


def passes(rows: Engine, number: int) -> int | None:
    """Number of rows read in the given number of passes, for a progress bar; None if it is not known in advance."""
    return None if rows.known_rows is None else number * rows.known_rows


def sample_table(kept: WeightedRows, ball: Ball, names: tuple[str, ...], seed: int | None) -> pa.Table:
    """Build a table of a sample: features, weight, carried columns. The order of its rows reveals nothing.

    Rows are sorted, which discards their original positions, and then shuffled.
    """
    origin = 0.0 if ball.center is None else np.asarray(ball.center)
    known = np.lexsort(kept.rows.T)
    order = known[np.argsort(bit_source(seed, stream=3).words64(known.size), kind="stable")]
    columns = [pa.array(column) for column in (kept.rows[order] + origin).T]
    table = pa.table([*columns, pa.array(kept.weights[order])], names=[*names, WEIGHT_COLUMN])
    if kept.carried is not None:
        beside = kept.carried.take(pa.array(order))
        for name in beside.column_names:
            table = table.append_column(name, beside.column(name))
    return table
