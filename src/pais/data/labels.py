"""Labels: the nearest released center of each row. A label depends on its row, so labels are NOT protected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base import files, validate
from pais._base.numerics import FloatArray
from pais.data.distances import NO_LABEL, nearest
from pais.data.engines import Engine
from pais.data.engines.local import LocalEngine
from pais.data.schema import Schema
from pais.data.sources import opened, source
from pais.errors import ArgumentError, DataError

LABEL_COLUMN = "label"


@dataclass(frozen=True, kw_only=True, eq=False)
class CenterModel:
    """Released centers, and how to read the rows that they label. Public.

    Attributes
    ----------
    centers : array of shape (k, d)
        In the space of the rows as `pais.source` reads them: scaled vectors if there is a schema.
    columns : tuple of str, optional
        Names of the columns that hold the features; None if the fitted rows had no names.
    schema : Schema, optional
        What is public about the columns, with all scales known.
    fills_missing : bool
        Whether missing values are replaced by the midpoints of their columns, as in the fit. Otherwise a row with a
        missing value has no label.
    """

    centers: FloatArray
    columns: tuple[str, ...] | None = None
    schema: Schema | None = None
    fills_missing: bool = False

    def __post_init__(self) -> None:
        centers = validate.real_array("centers", self.centers)
        if centers.ndim != 2 or centers.size == 0 or not np.isfinite(centers).all():
            raise ArgumentError("centers must be a table of finite numbers. Pass one row for each center.")
        object.__setattr__(self, "centers", centers)
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(map(str, self.columns)))

    def open(self, data: object, *, carry: Sequence[str] = (), **more: Any) -> Engine:
        """Open data with the columns of the model. Other arguments are those of `pais.source`."""
        if isinstance(data, Engine):
            # Its columns were chosen when it was opened.
            engine = opened(data, self.schema, None)
        else:
            engine = source(
                data,
                columns=self.columns if self.schema is None else self.schema,
                carry=carry,
                missing="midpoint" if self.fills_missing else "drop",
                **more,
            )
        self._require_width(engine)
        return engine

    def labels(self, data: object) -> Any:
        """Label all rows: an array in the order of the rows, or a Spark frame with one more column for a Spark frame.

        NOT PROTECTED. A row with a missing value has the label -1 (null in a Spark frame).
        """
        engine = self.open(data)
        if not isinstance(engine, LocalEngine):
            return engine.labelled(self.centers, LABEL_COLUMN)  # type: ignore[attr-defined]  # the engine for Spark
        parts = [np.empty(0, dtype=np.int32), *engine.in_order(lambda rows, _: nearest(rows, self.centers))]
        return np.concatenate(parts).astype(np.intp)

    def tables(self, engine: LocalEngine) -> Iterator[pa.Table]:
        """Yield tables with the carried columns and the labels of all rows, in the order of the rows.

        NOT PROTECTED. The label of a row with a missing value is null.
        """

        def label(rows: NDArray[np.generic], carried: pa.Table) -> pa.Table:
            labels = nearest(rows, self.centers)
            return carried.append_column(LABEL_COLUMN, pa.array(labels, mask=labels == NO_LABEL))

        return engine.in_order(label)

    def _require_width(self, engine: Engine) -> None:
        width = self.centers.shape[1]
        if engine.n_features != width:
            raise DataError(f"the data has {engine.n_features} feature(s), but the centers have {width}. Check them.")

    def to_dict(self) -> dict[str, Any]:
        """The model as a dictionary, for files."""
        return {
            "kind": "model",
            "format": files.FORMAT,
            "columns": None if self.columns is None else list(self.columns),
            "schema": None if self.schema is None else self.schema.to_dict(),
            "fills_missing": self.fills_missing,
            "centers": self.centers.tolist(),
        }

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> CenterModel:
        """Rebuild a model from its dictionary."""
        files.require_format(described, "model")
        schema = described["schema"]
        return cls(
            centers=described["centers"],
            columns=files.texts(described["columns"]),
            schema=None if schema is None else Schema.from_dict(schema),
            fills_missing=described["fills_missing"] is True,
        )
