"""Pictures of released centers, for a page and with matplotlib, which is an optional extra: the map and the elbow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pais._base.cards import number
from pais._base.numerics import FloatArray
from pais.errors import ArgumentError
from pais.kmeans.result import Elbow, KMeansFit
from pais.kmeans.view import View, relative_costs, view_of
from pais.show.charts import Chart
from pais.show.text import direction_in_words, percent


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Centers on two principal directions. It is computed from released values only.

    Attributes
    ----------
    points : array of shape (k, 2)
        Centers relative to their mean, along the two directions.
    covariances : array of shape (k, 2, 2)
        Covariance of each point due to noise; zero if the standard errors are not known.
    directions : array of shape (2, d)
        Orthogonal unit vectors, or zero where the centers have no second direction.
    shares : array of shape (2,)
        Share of the spread between the centers that each direction shows.
    """

    points: FloatArray
    covariances: FloatArray
    directions: FloatArray
    shares: FloatArray

    def ellipse(self, index: int, deviations: float = 2.0) -> tuple[float, float, float]:
        """Half axes of the error ellipse of a center and the angle of the first one, in radians."""
        squares, axes = np.linalg.eigh(self.covariances[index])
        long, short = deviations * np.sqrt(np.maximum(squares[::-1], 0.0))
        return float(long), float(short), float(np.arctan2(axes[1, 1], axes[0, 1]))


def project(centers: FloatArray, noisy_counts: FloatArray, errors: FloatArray | None = None) -> Projection:
    """Project centers on the two directions in which they spread most, weighted by their noisy counts.

    `errors` are the standard errors of the coordinates, of shape (k, d) or (k,).
    """
    k, d = centers.shape
    weights = np.maximum(noisy_counts, 0.0)
    weights = weights / weights.sum() if weights.sum() > 0.0 else np.full(k, 1.0 / k)
    away = centers - weights @ centers
    _, lengths, rows = np.linalg.svd(np.sqrt(weights)[:, None] * away, full_matrices=False)
    directions, squares = np.zeros((2, d)), np.zeros(2)
    for axis in range(min(2, len(lengths))):
        if lengths[axis] > 1e-12 * max(lengths[0], 1e-300):
            # The sign of a principal direction is arbitrary: the largest weight is positive.
            directions[axis] = rows[axis] * np.sign(rows[axis][np.argmax(np.abs(rows[axis]))])
            squares[axis] = lengths[axis] ** 2
    variances = np.zeros((k, d)) if errors is None else np.square(np.broadcast_to(errors.reshape(k, -1), (k, d)))
    return Projection(
        points=away @ directions.T,
        covariances=np.einsum("ai,ki,bi->kab", directions, variances, directions),
        directions=directions,
        shares=squares / max(float(np.square(lengths).sum()), 1e-300),
    )


# Size of the circles of the map on a page. With more centers than `_FEW`, the circles are smaller.
_LARGEST, _SMALLEST, _FEW = 24.0, 3.5, 10

# The margin of the map, and its height over its width, at least and at most.
_MARGIN, _FLAT, _TALL = 34.0, 0.5, 0.85

# A smaller ellipse is drawn with a solid line, and a larger one is cut off at the edge of the map.
_DASHED_FROM, _OUTSIDE, _THINNEST = 6.0, 400.0, 0.6

# A number stands at the upper right of its circle: at 45 degrees, and a little further.
_CORNER, _BESIDE = 0.71, 1.0


class Mark(NamedTuple):
    """A center on the map: its circle, and the half axes and the angle of its error ellipse (0 if not known).

    The number of the center stands at `label`.
    """

    number: int
    x: float
    y: float
    radius: float
    long: float
    short: float
    degrees: float
    is_dashed: bool
    known: bool
    label: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class CentersMap:
    """The centers on their two principal directions, for a page: area by noisy count, ellipses of two errors.

    Attributes
    ----------
    marks : tuple of Mark
        The centers, the largest circle first.
    axes : tuple of (str, str, str)
        Side, share of the spread, and the columns that dominate the direction.
    """

    height: float
    marks: tuple[Mark, ...]
    description: str
    axes: tuple[tuple[str, str, str], ...]

    title = "Segments on their two principal directions"
    width = 420.0

    @classmethod
    def of(cls, projection: Projection, view: View) -> CentersMap:
        low, high = projection.points.min(axis=0), projection.points.max(axis=0)
        span = high - low
        # Equal centers have no extent: they are drawn in the middle, at any scale.
        span = np.maximum(span, 1e-9 * span.max() if span.max() > 0.0 else 1.0)
        height = cls.width * float(np.clip(span[1] / span[0], _FLAT, _TALL))
        scale = min((cls.width - 2.0 * _MARGIN) / span[0], (height - 2.0 * _MARGIN) / span[1])
        places = (projection.points - (low + high) / 2.0) * scale * np.array([1.0, -1.0])
        places = places + np.array([cls.width, height]) / 2.0
        largest = _LARGEST * min(1.0, math.sqrt(_FEW / len(places)))
        radii = np.maximum(largest * np.sqrt(_relative_sizes(view)), _SMALLEST)
        words = [direction_in_words(axis, view.names, dates=view.dates) for axis in projection.directions]
        shares = [percent(float(share)) for share in projection.shares]
        marks = []
        for index in np.argsort(-radii, kind="stable").tolist():
            long, short, angle = projection.ellipse(index)
            if long > 0.0:
                long, short = (max(min(axis * scale, _OUTSIDE), _THINNEST) for axis in (long, short))
            (x, y), radius = places[index].tolist(), float(radii[index])
            beside = _CORNER * radius + _BESIDE
            marks.append(
                Mark(
                    number=index,
                    x=x,
                    y=y,
                    radius=radius,
                    long=long,
                    short=short,
                    degrees=-math.degrees(angle),
                    is_dashed=long >= _DASHED_FROM,
                    known=view.centers[index],
                    label=(x + beside, y - beside),
                )
            )
        return cls(
            height=height,
            marks=tuple(marks),
            description=f"{len(places)} circles, one for each segment. To the right: {words[0]}; upwards: {words[1]}.",
            axes=tuple(
                (side, share, text)
                for side, share, text in zip(("To the right", "Upwards"), shares, words, strict=True)
                if text
            ),
        )


def _relative_sizes(view: View) -> FloatArray:
    """Noisy counts over the largest of them."""
    counts = view.sizes.counts
    return np.minimum(np.maximum(counts, 0.0) / max(float(counts.max()), 1e-300), 1.0)


def elbow_chart(elbow: Elbow, chosen: int) -> Chart:
    """The estimated cost for each number of clusters, over that of one cluster, for a page."""
    numbers, shares = [point.n_clusters for point in elbow.points], relative_costs(elbow).tolist()
    here = dict(zip(numbers, shares, strict=True)).get(chosen)
    dot = f"The dot is this result, with {chosen} segment{'s' * (chosen != 1)}. " if chosen <= len(numbers) else ""
    return Chart(
        name="elbow",
        title="Estimated spread within segments, by number of segments",
        description=f"From 1 at {numbers[0]} to {number(shares[-1], 2)} at {numbers[-1]} segments"
        + ("." if here is None else f"; {number(here, 2)} at {chosen}."),
        x_name="number of segments",
        x_range=(numbers[0], numbers[-1]),
        x_ticks=[(tick, str(tick)) for tick in _integer_ticks(numbers[0], numbers[-1])],
        curve=list(zip(numbers, shares, strict=True)),
        mark=chosen,
        line=elbow.suggested,
        note=f"{dot}The curve suggests {elbow.suggested} segments (dashed line)."
        if elbow.stands_out
        else f"{dot}No number of segments stands out; the curve bends most at {elbow.suggested} (dashed line).",
    )


def _integer_ticks(first: int, last: int) -> list[int]:
    """A few integers from first to last, with both ends."""
    step = next(
        step for power in range(12) for step in (10**power, 2 * 10**power, 5 * 10**power) if last - first <= 7 * step
    )
    inner = [tick for tick in range(step * (first // step + 1), last, step) if last - tick >= 0.6 * step]
    return [first, *inner, *([last] if last > first else [])]


# Area of the largest marker of a plot, in square points, and the smallest share of it that stays visible.
_LARGEST_AREA, _LEAST_SHARE = 900.0, 0.015

# Room around the centers of a plot for their markers and labels, over the largest distance on an axis.
_PLOT_MARGIN = 0.14

# The label of an axis names at most this many columns, shortened to so many letters, so that it fits a small figure.
_NAMED, _LONGEST_NAME = 2, 28


class Plotted:
    """The plots of a fitted k-means model."""

    fit_: KMeansFit

    def plot(self, ax: Any = None) -> Any:
        """Draw the centers on their two principal directions, and return the matplotlib axes.

        The area of a marker grows with the noisy count, and a dashed ellipse shows two standard errors due to noise.
        Centers that are not readable above the noise are grey. Only released values are drawn, so the plot may be
        published. Needs the extra `pais[plots]`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None = a new figure.
        """
        check_is_fitted(self)
        view = view_of(self.fit_, getattr(self, "feature_names_in_", None))
        value, axes = self.fit_.value, _axes_or_new(ax)
        projection = project(value.centers, value.noisy_counts, value.standard_errors)
        points = projection.points
        colours = ["tab:blue" if readable else "0.6" for readable in view.centers]
        area = _LARGEST_AREA * np.maximum(_relative_sizes(view), _LEAST_SHARE)
        axes.scatter(*points.T, s=area, c=colours, alpha=0.45, edgecolors=colours)
        angles = np.linspace(0.0, 2.0 * np.pi, 73)
        for index, point in enumerate(points):
            long, short, turn = projection.ellipse(index)
            if long > 0.0:
                rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
                x, y = point[:, None] + rotation @ np.stack([long * np.cos(angles), short * np.sin(angles)])
                # Ellipses must not widen the view: a center that is drowned has a very large one.
                axes.plot(x, y, color="0.25", linestyle="--", linewidth=0.8, scalex=False, scaley=False)
            # At the upper right of the marker, whose radius in points follows from its area.
            beside = float(np.sqrt(area[index] / np.pi)) * _CORNER + _BESIDE
            axes.annotate(str(index), point, (beside, beside), textcoords="offset points", fontsize=9)
        # Equal scales may cut margins, but never data: the limits count as data, so that no label is outside.
        around = _PLOT_MARGIN * float(np.ptp(points, axis=0).max())
        axes.update_datalim([points.min(axis=0) - around, points.max(axis=0) + around])
        axes.autoscale_view()
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xlabel(_label(projection, 0, view))
        axes.set_ylabel(_label(projection, 1, view))
        axes.set_title("Released centers: area by noisy count, ellipses of two standard errors", fontsize=10)
        return axes

    def plot_elbow(self, ax: Any = None) -> Any:
        """Draw the estimated cost for every number of clusters, and return the matplotlib axes.

        The cost is relative to that of one cluster. A ring marks the number of clusters of the fit, and a dashed line
        the suggested number. Only released values are drawn, so the plot may be published. Needs the extra
        `pais[plots]`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None = a new figure.
        """
        check_is_fitted(self)
        elbow, k = elbow_of(self.fit_), len(self.fit_.value.centers)
        axes, share = _axes_or_new(ax), relative_costs(elbow)
        numbers = [point.n_clusters for point in elbow.points]
        axes.plot(numbers, share, color="tab:blue", marker="o", markersize=3.5, linewidth=1.2)
        if k <= len(numbers):
            axes.plot([k], [share[k - 1]], "o", color="tab:orange", markersize=10.0, fillstyle="none", label="this fit")
        reason = "clusters stand out" if elbow.stands_out else "the curve bends"
        label = f"suggested: {elbow.suggested} ({reason})"
        axes.axvline(elbow.suggested, color="0.5", linestyle="--", linewidth=0.9, label=label)
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("number of clusters")
        axes.set_ylabel("estimated spread within segments, relative to one")
        axes.set_title("Estimated spread within segments by their number, from released values", fontsize=10)
        axes.legend(frameon=False)
        return axes


def _axes_or_new(axes: Any) -> Any:
    """Return the axes, or the axes of a new figure if None. Raises if matplotlib is not installed."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ArgumentError("plots need matplotlib. Install it: pip install 'pais[plots]'.") from None
    return pyplot.subplots(figsize=(6.4, 5.0), layout="constrained")[1]


def elbow_of(fit: KMeansFit) -> Elbow:
    """The elbow of a fit. Raises if the release has no cells."""
    if fit.elbow is None:
        raise ArgumentError("this release has no cells, so nothing is known about other numbers of clusters.")
    return fit.elbow


def _label(projection: Projection, axis: int, view: View) -> str:
    """Name of an axis, with the columns that dominate it."""
    names, dates = (
        tuple(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}\u2026" for name in names)
        for names in (view.names, view.dates)
    )
    words = direction_in_words(projection.directions[axis], names, dates=dates, most=_NAMED)
    share = percent(float(projection.shares[axis]))
    return f"direction {axis + 1}, {share} of the spread" + (f"\n\u2192 {words}" if words else "")
