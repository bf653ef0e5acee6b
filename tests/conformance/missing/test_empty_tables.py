"""Empty tables, and tables without a finite row, release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from pais import DataError, DPKMeans
from pais.data.sources import source
from tests.conformance.missing.missing_sources import NAMES, SETTINGS, D, bad, columns_of, require_release, with_nulls
from tests.conformance.streams import STREAMS

Floats = NDArray[np.float64]


# -- empty tables --------------------------------------------------------------------------------------------


def empty_sources(home: Path) -> dict[str, object]:
    schema = pa.schema([(name, pa.float64()) for name in NAMES])
    pq.ParquetWriter(home / "none.parquet", schema).close()
    (home / "none.csv").write_text(",".join(NAMES) + "\n")
    (home / "open.csv").write_text(",".join(NAMES))
    (home / "bad.csv").write_text(",".join(NAMES) + "\nx,1,2,3\n1,y,2,3\n")
    return {
        "array": np.empty((0, D)),
        "bad array": bad(),
        "pandas": pd.DataFrame({name: [] for name in NAMES}),
        "pandas without types": pd.DataFrame(columns=list(NAMES)),
        "bad pandas": pd.DataFrame(columns_of(bad())),
        "polars": pl.DataFrame(schema=dict.fromkeys(NAMES, pl.Float64)),
        "Arrow": schema.empty_table(),
        "bad Arrow": pa.table(with_nulls(bad()), names=NAMES),
        "Parquet": home / "none.parquet",
        "Parquet with a key": source(home / "none.parquet", columns=["x1", "x2", "x3"], carry=["x0"]),
        **{name: stream(schema.empty_table()) for name, stream in STREAMS.items()},
        "CSV": home / "none.csv",
        "CSV without a line end": home / "open.csv",
        "CSV of bad rows": source(home / "bad.csv", columns=list(NAMES)),
        "CSV with carried columns": source(home / "none.csv", columns=["x1", "x2"], carry=["x0"]),
    }


EMPTY = [
    "array",
    "bad array",
    "pandas",
    "pandas without types",
    "bad pandas",
    "polars",
    "Arrow",
    "bad Arrow",
    "Parquet",
    "Parquet with a key",
    *STREAMS,
    "CSV",
    "CSV without a line end",
    "CSV of bad rows",
    "CSV with carried columns",
]


@pytest.mark.filterwarnings("ignore::pais.SurveyWarning")
@pytest.mark.parametrize("form", EMPTY)
def test_empty_tables_release(form: str, tmp_path: Path) -> None:
    require_release(empty_sources(tmp_path)[form])


def test_tables_without_columns_stay_errors(tmp_path: Path) -> None:
    for data in (np.empty((3, 0)), np.empty((0, 0)), pa.table({}), pd.DataFrame()):
        with pytest.raises(DataError, match="column"):
            source(data)
        with pytest.raises(DataError, match=r"column|feature"):
            DPKMeans(**SETTINGS).fit(data)
