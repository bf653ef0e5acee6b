"""Quality of centers on rows, for the owner of the data. The results are not protected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from pais._base import files, validate
from pais._base.numerics import FloatArray
from pais._base.threads import one_blas_thread
from pais.data.engines.base import Engine, Fold
from pais.data.engines.blocks import Block
from pais.data.engines.local import LocalEngine
from pais.data.schema import Schema
from pais.data.sources import opened, source
from pais.errors import ArgumentError, DataError

#: Label of a row with a missing value, which has no nearest center.
NO_LABEL = -1

_PIECE_ROWS = 8192

Labels = NDArray[np.int32]


def square_distances(rows: NDArray[np.generic], centers: FloatArray) -> FloatArray:
    """Return the squared distance of each row to each center. It does not depend on the other rows."""
    distances = np.empty((rows.shape[0], centers.shape[0]))
    for start in range(0, rows.shape[0], _PIECE_ROWS):
        piece = rows[start : start + _PIECE_ROWS]
        for index, center in enumerate(centers):
            gap = piece - center
            distances[start : start + _PIECE_ROWS, index] = np.einsum("ij,ij->i", gap, gap)
    return distances


def nearest(rows: NDArray[np.generic], centers: FloatArray) -> Labels:
    """Return the number of the nearest center of each row, or -1 for a row that is not finite."""
    labels = np.full(rows.shape[0], NO_LABEL, dtype=np.int32)
    for start in range(0, rows.shape[0], _PIECE_ROWS):
        piece = rows[start : start + _PIECE_ROWS]
        with np.errstate(all="ignore"):
            best = square_distances(piece, centers).argmin(axis=1).astype(np.int32)
        labels[start : start + _PIECE_ROWS] = np.where(np.isfinite(piece).all(axis=1), best, NO_LABEL)
    return labels


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
        width = self.centers.shape[1]
        if engine.n_features != width:
            raise DataError(f"the data has {engine.n_features} feature(s), but the centers have {width}. Check them.")
        return engine

    def labels(self, data: object) -> Any:
        """Label all rows: an array in the order of the rows, or a Spark frame with one more column for a Spark frame.

        NOT PROTECTED. A row with a missing value has the label -1 (null in a Spark frame).
        """
        engine = self.open(data)
        if not isinstance(engine, LocalEngine):
            return engine.labelled(partial(nearest, centers=self.centers), LABEL_COLUMN)  # type: ignore[attr-defined]  # the engine for Spark
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


_ROWS_OF_A_PIECE = 4096


def cost(rows: object, centers: ArrayLike) -> float:
    """Not private: sum of squared distances of the rows to their nearest centers.

    The result depends on every row and is meant for the owner of the data.

    Parameters
    ----------
    rows : array, table, path, Spark DataFrame or source
        Any input of `pais.source`, read in one pass. Rows that are not finite are left out.
    centers : array of shape (k, d)
        For rows with a schema, scaled vectors such as ``model.fit_.value.centers``.
    """
    engine = source(rows)
    points = validate.real_array("centers", centers)
    if points.ndim != 2 or points.shape[0] == 0 or points.shape[1] != engine.n_features:
        raise DataError(f"centers must have shape (k, {engine.n_features}) with k >= 1. Pass one row for each center.")
    # The engine already distributes blocks over threads.
    with one_blas_thread():
        return float(engine.fold(_Cost(centers=points), seeded=False)[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cost(Fold):
    """Squared distances to the nearest centers, computed from differences to stay accurate far from the origin."""

    uses_masses = True
    centers: FloatArray

    def of(self, block: Block) -> FloatArray:
        origin = self.centers.mean(axis=0)
        centers = self.centers - origin
        half = 0.5 * np.einsum("ij,ij->i", centers, centers)
        rows = block.rows()
        total = 0.0
        for start in range(0, len(rows), _ROWS_OF_A_PIECE):
            part = rows[start : start + _ROWS_OF_A_PIECE] - origin
            finite = np.isfinite(part).all(axis=1)
            part = part[finite]
            score = (part @ centers.T - half).max(axis=1)
            gap = np.einsum("ij,ij->i", part, part) - 2.0 * score
            gap = np.maximum(gap, 0.0)
            if block.masses is not None:
                gap *= block.masses[start : start + _ROWS_OF_A_PIECE][finite] * block.mass_step
            total += float(gap.sum())
        return np.array([total])
