"""The command `pais check`: compare a file with what is stated about its columns, for the owner of the data."""

from __future__ import annotations

from pathlib import Path

from pais.cli import files, options, show
from pais.cli.columns import columns_of
from pais.cli.rows import found
from pais.cli.spelling import spelled
from pais.data.checking import MARK, check as compared
from pais.data.schema import Schema
from pais.errors import ArgumentError


def check(wanted: options.Checked, out: Path | None, *, as_json: bool, overwrite: bool) -> None:
    """Read the file once and print what was found. No ledger is charged, and nothing is written unless asked."""
    if out is not None:
        files.require_free([out], overwrite=overwrite)
    if not wanted.columns:
        raise ArgumentError(
            "--columns is missing. Write what you will state about each column, such as --columns "
            "'age=18:100,premium=bool,region=[north|south]'."
        )
    columns = columns_of(wanted.columns)
    if not isinstance(columns, Schema):
        raise ArgumentError(
            "--columns states nothing about the columns. Write bounds or a kind for each, such as age=18:100."
        )
    if wanted.engine is options.EngineName.spark or wanted.master is not None:
        raise ArgumentError("`pais check` does not read with Spark. Leave --engine and --master out.")
    with show.watch(quiet=as_json) as bar:
        bar.begin("check")
        data, _ = found(wanted)
        result = compared(data, columns, unit=wanted.unit, target=wanted.target)
    if out is not None:
        files.write_json(out, result.to_dict(), secret=True)
        show.warn(f"{MARK}{out} holds exact numbers and cells. Keep it as secret as the data.")
    if as_json:
        show.print_json(result.to_dict())
        return
    for line in result.lines():
        show.say(spelled(line))
