"""The command `pais example`: a table about people who do not exist, to try the other commands on."""

from __future__ import annotations

from pathlib import Path

from pais.cli import files, show
from pais.data.example import example_people
from pais.errors import ArgumentError

_KINDS = (".csv", ".parquet")


def example(path: Path, *, n_people: int, seed: int, overwrite: bool) -> None:
    """Write the table as CSV or Parquet, by the ending of the file name, and say what it holds."""
    if path.suffix.lower() not in _KINDS:
        raise ArgumentError(f"{path} must end in .csv or .parquet. Pass a name such as people.csv.")
    if path.exists() and not overwrite:
        raise ArgumentError(f"{path} exists. Pass another name, or --overwrite to replace it.")
    files.require_free([path], overwrite=True)
    table = example_people(n_people, random_state=seed)
    files.write_table(path, table)
    show.say(
        f"{path}: {table.num_rows:,} rows about {n_people:,} people who do not exist, with missing cells.\n"
        f"Columns: {', '.join(table.column_names)}."
    )
