"""One tidy Parquet file of results: a measured number per line, with everything it was measured at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.paper.grid import Cell
from pais.errors import MismatchError

Measure = Literal["cost", "expected_size", "violation", "t_weights", "t_sampling", "t_lloyd"]

SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("dataset", pa.string()),
        ("family", pa.string()),
        ("start", pa.string()),
        ("rule", pa.string()),
        ("sample_size", pa.int64()),  # null: all rows, or as few as are free
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("repetition", pa.int32()),
        ("measure", pa.string()),
        ("value", pa.float64()),
        ("config", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One measured number of a cell."""

    repetition: int
    measure: Measure
    value: float


class Results:
    """The file and what is not yet in it. A run that was stopped finds here what it need not do again."""

    def __init__(self, path: Path, configs: dict[str, str]) -> None:
        """Open `path`; `configs` is the hash of the present configuration for each data set that will be measured."""
        self._path = path
        self._configs = configs
        self._lines: list[dict[str, Any]] = []
        #: What all runs so far took, together.
        self.minutes = 0.0
        if path.exists():
            table = pq.read_table(path)
            self._lines = table.select(SCHEMA.names).to_pylist()
            self.minutes = float((table.schema.metadata or {}).get(b"minutes", 0.0))
        for line in self._lines:
            if line["dataset"] in configs and line["config"] != configs[line["dataset"]]:
                raise MismatchError(
                    f"{path.name} holds results on {line['dataset']} from another configuration. Move it away, or "
                    "measure afresh with --fresh."
                )
        self._done = {_key(line) for line in self._lines}

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Cells without results."""
        return [cell for cell in cells if _key(asdict(cell)) not in self._done]

    def add(self, cell: Cell, measured: Iterable[Measured]) -> None:
        """Take a whole cell in; it is on disk after the next `save`."""
        config = self._configs[cell.dataset]
        self._lines.extend({**asdict(cell), **asdict(one), "config": config} for one in measured)
        self._done.add(_key(asdict(cell)))

    def save(self) -> None:
        """Write all results; whoever stops us finds the old file or the new one, never half of one."""
        table = pa.Table.from_pylist(self._lines, schema=SCHEMA).replace_schema_metadata(
            {"minutes": f"{self.minutes:.2f}"}
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".partial")
        pq.write_table(table, fresh, compression="zstd")
        fresh.replace(self._path)

    def frame(self) -> pd.DataFrame:
        """All results, for figures and tables."""
        return pa.Table.from_pylist(self._lines, schema=SCHEMA).to_pandas()


def _key(line: dict[str, Any]) -> tuple[Any, ...]:
    names = ("kind", "dataset", "family", "start", "rule", "sample_size", "epsilon", "delta")
    return tuple(line[name] for name in names)
