"""Recipes of statistics with several values for a column: histograms, covariances and descriptions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.data.scales import Auto, Dates
from pais.errors import ArgumentError
from pais.mechanisms.blocks import Bins, Line, Product, Rows
from pais.statistics.estimates import equal_bins, quartiles_of
from pais.statistics.frames import Axis, Bin
from pais.statistics.recipes import Lost, Means, Recipe, Weighted, by_label, moments, moments_of
from pais.statistics.table import Field, Fields


@dataclass(frozen=True, kw_only=True)
class Histogram(Recipe):
    """Number of cells in each bin of a column, or in each category."""

    name, title, name_for_people = "histogram", "histogram", "histogram of rows"
    needs_cells = False
    counts_clipped = False
    is_linear = True
    bins: Any = 10

    def require(self, fields: Fields) -> None:
        fields.require(self.title)
        self.blocks(fields)

    def blocks(self, fields: Fields) -> list[Weighted]:
        return [
            (
                field.levels(others=False)
                if field.is_listed or field.is_truth
                else Bins(column=field.start, edges=field.coordinates(self.edges(field)[1:-1])),
                1.0,
            )
            for field in fields.columns
        ]

    def edges(self, field: Field) -> FloatArray:
        """The edges of the bins of a column in own units, its bounds included."""
        bins = self.bins.get(field.name, 10) if isinstance(self.bins, Mapping) else self.bins
        if isinstance(bins, (Sequence, np.ndarray)):
            if isinstance(field.column, Auto):
                raise ArgumentError(
                    f"bins of column {field.name!r} are edges, but its bounds are not known before the release. State "
                    "its bounds, or pass a number of bins."
                )
            edges = validate.real_array("bins", bins)
            inside = edges.ndim == 1 and edges.size > 1 and edges[0] == field.low and edges[-1] == field.high
            if not inside or np.any(np.diff(edges) <= 0.0):
                raise ArgumentError(
                    f"bins of column {field.name!r} must increase from its lower bound {field.low:g} to its upper "
                    f"bound {field.high:g}. Pass such edges, or a number of bins."
                )
            return edges
        return equal_bins(field, validate.count("bins", bins))

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        return np.concatenate(parts, axis=-1)

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        return np.maximum(values, 0.0)

    def _labels(self, field: Field) -> list[Any]:
        if field.is_listed or field.is_truth:
            return list(field.values)
        edges = self.edges(field)
        ends = field.column.times(edges) if isinstance(field.column, Dates) else edges.tolist()
        return [Bin(low, high) for low, high in itertools.pairwise(ends)]

    def rows(self, fields: Fields) -> Axis | None:
        names = [field.name for field in fields.columns]
        labels = [self._labels(field) for field in fields.columns]
        if len(names) == 1:
            return Axis.of(labels[0], names[0])
        first = [name for name, several in zip(names, labels, strict=True) for _ in several]
        return Axis(
            names=("column", "bin"), levels=(tuple(first), tuple(label for several in labels for label in several))
        )

    def columns(self, fields: Fields) -> Axis | None:
        return None

    def is_date(self, fields: Fields) -> NDArray[np.bool_]:
        axis = self.rows(fields)
        return np.zeros(1 if axis is None else len(axis), dtype=bool)


class Covariance(Recipe):
    """Covariances of all pairs of columns, from rows without missing values."""

    name, title = "covariance", "covariance"
    by_cell = False

    def require(self, fields: Fields) -> None:
        fields.require(self.title, categories=False)

    def blocks(self, fields: Fields) -> list[Weighted]:
        starts = [field.start for field in fields.columns]
        first, second = np.triu_indices(len(starts))
        products = [Product(first=starts[i], second=starts[j]) for i, j in zip(first, second, strict=True)]
        # Means and the count enter the covariances with small factors, so their noise may be larger.
        lines = [Line(column=start, slope=1.0, intercept=0.0) for start in starts]
        return [*((block, 1.0) for block in products), *((block, 0.5) for block in lines), (Rows(), 0.5)]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        d = len(fields.columns)
        totals = np.concatenate(parts, axis=-1)
        n = np.maximum(totals[..., -1:], 2.0)
        mean = np.clip(totals[..., -1 - d : -1] / n, -1.0, 1.0)
        first, second = np.triu_indices(d)
        product = totals[..., : first.size] / n - mean[..., first] * mean[..., second]
        product *= n / (n - 1.0)
        half = np.array([0.5 * field.width for field in fields.columns])
        product = np.where(first == second, np.maximum(product, 0.0), product) * half[first] * half[second]
        matrix = np.empty((*totals.shape[:-1], d, d))
        matrix[..., first, second] = matrix[..., second, first] = product
        return matrix.reshape(*totals.shape[:-1], d * d)

    def rows(self, fields: Fields) -> Axis | None:
        return self.columns(fields)

    def is_date(self, fields: Fields) -> NDArray[np.bool_]:
        return np.zeros(len(fields.columns) ** 2, dtype=bool)


_DESCRIBED = ("count", "mean", "std", "25%", "50%", "75%")

# Bins of equal width of a column from which quartiles are read. Two more bins hold the bounds alone, where many values
# may be equal, such as zeros: all coordinates that are this near to a bound count as the bound.
_N_BINS, _AT_BOUND = 64, 2.0**-40


class Description(Recipe):
    """Count, mean, standard deviation and quartiles of each column. Quartiles are known up to a bin."""

    name, title = "description", "description"
    power = 1

    def require(self, fields: Fields) -> None:
        fields.require(self.title)

    def blocks(self, fields: Fields) -> list[Weighted]:
        return [weighted for field in fields.columns for weighted in ((moments(field), 1.0), *self._bins(field))]

    def _bins(self, field: Field) -> list[Weighted]:
        if field.is_listed or field.is_truth:
            return []
        inner = np.linspace(-1.0, 1.0, _N_BINS + 1)[1:-1].tolist()
        return [(Bins(column=field.start, edges=(-1.0 + _AT_BOUND, *inner, 1.0 - _AT_BOUND)), 1.0)]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        remaining, counted, places = iter(parts), [], []
        for field in fields.columns:
            counted.append(next(remaining))
            n = counted[-1].sum(axis=-1, keepdims=True)
            quartiles = np.full((*n.shape[:-1], len(field.labels), 3), np.nan)
            if self._bins(field):
                edges = np.linspace(field.low, field.high, _N_BINS + 1)
                edges = np.array([field.low, *edges, field.high])
                quartiles[..., 0, :] = quartiles_of(next(remaining), n, edges)
            places.append((n, quartiles))
        mean, variance = moments_of(counted, fields, lost)
        first = [by_label([n for n, _ in places], fields), mean, np.sqrt(variance)]
        quartiles = np.concatenate([several for _, several in places], axis=-2)
        table = np.concatenate([np.stack(first, axis=-1), quartiles], axis=-1)
        return np.swapaxes(table, -1, -2).reshape(*table.shape[:-2], -1)

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        return Means().noise_of_bounds(low, high, mean)

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        pairs = [
            (0.0, 1.0) if field.is_listed else (field.low, field.high) for field in fields.columns for _ in field.labels
        ]
        low, high = np.array(pairs).T
        nothing, anything = np.zeros_like(low), np.full_like(low, np.inf)
        least = np.concatenate([nothing, low, nothing, np.tile(low, 3)])
        most = np.concatenate([anything, high, anything, np.tile(high, 3)])
        return np.clip(values, least, most)

    def resolution(self, fields: Fields) -> FloatArray:
        widths = [field.width / _N_BINS if self._bins(field) else 0.0 for field in fields.columns for _ in field.labels]
        return np.concatenate([np.zeros(3 * len(widths)), np.tile(widths, 3)])

    def rows(self, fields: Fields) -> Axis | None:
        return Axis.of(_DESCRIBED)

    def columns(self, fields: Fields) -> Axis | None:
        return Axis.of(fields.labels)

    def is_date(self, fields: Fields) -> NDArray[np.bool_]:
        dates = np.array([field.is_date for field in fields.columns for _ in field.labels])
        return np.concatenate([dates & (name not in ("count", "std")) for name in _DESCRIBED])
