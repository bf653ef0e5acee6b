"""The command `pais label`: the nearest released center of each row, for the owner of the data."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from pais.cli import files, options, show
from pais.cli.columns import names_of
from pais.cli.rows import found, passes
from pais.data.engines import Engine
from pais.data.engines.local import LocalEngine
from pais.data.labels import LABEL_COLUMN, CenterModel
from pais.errors import ArgumentError


def label(
    place: options.Place, output: options.Output, path: Path, to: Path, *, carry: str | None, overwrite: bool
) -> None:
    """Read the rows with the columns of a model and write their labels."""
    by_spark = place.engine is options.EngineName.spark or place.master is not None
    if to.suffix != ".parquet" and not by_spark:
        raise ArgumentError(f"{to} does not end in .parquet. Pass the path of a Parquet file with --to.")
    if not (by_spark and overwrite):
        files.require_free([to], overwrite=overwrite, option="--to")
    carried = names_of("--carry", carry) or ()
    if LABEL_COLUMN in carried:
        raise ArgumentError(f"--carry names {LABEL_COLUMN!r}, which is the column of the labels. Rename it.")
    model = files.read_model(path)
    with show.watch(quiet=output.quiet) as bar:
        bar.begin("open")
        data, csv = found(place)
        rows = model.open(data, carry=carried, on_rows=bar.rows, **csv)
        bar.begin("label")
        bar.expect(passes(rows, samples=1))
        if isinstance(rows, LocalEngine):
            files.write_labels(to, model.tables(rows), rows.carried_schema)
        else:
            _write_by_spark(rows, model, carried, to, overwrite=overwrite)
    show.warn(show.LABEL_WARNING)
    if output.as_json:
        show.print_json({"labels": str(to), "carried": list(carried), "warning": show.LABEL_WARNING})
    elif not output.quiet:
        show.say(f"{to}: the number of the nearest center of each row, from 0; null if a value of the row is missing")


def _write_by_spark(rows: Engine, model: CenterModel, carried: tuple[str, ...], to: Path, *, overwrite: bool) -> None:
    """Let Spark write the labels: a directory of Parquet files, which is complete once Spark has committed it."""
    from pais.data.engines.spark_actions import guarded

    frame: Any = rows.labelled(model.centers, LABEL_COLUMN)  # type: ignore[attr-defined]  # the engine for Spark
    columns = [f"`{name.replace('`', '``')}`" for name in (*carried, LABEL_COLUMN)]
    writer = frame.select(*columns).write.mode("overwrite" if overwrite else "error")
    guarded(lambda: writer.parquet(str(to.absolute())))
    with contextlib.suppress(OSError):
        to.chmod(0o700)
