"""Plots of released values with matplotlib, which is an optional extra."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pais.errors import ArgumentError
from pais.mechanisms import Elbow
from pais.planning import KMeansFit
from pais.report.projection import Projection, project
from pais.report.text import percent
from pais.report.view import View, view_of

# Area of the largest marker, in square points, and the smallest share of it that stays visible.
_LARGEST_AREA, _LEAST_SHARE = 900.0, 0.015

# Room around the centers for their markers and labels, over the largest distance on an axis.
_MARGIN = 0.14

# An axis label names at most this many columns, so that it fits below a small figure.
_NAMED = 2
_LONGEST_NAME = 28


class Plotted:
    """The plots of a fitted k-means model."""

    fit_: KMeansFit

    def plot(self, ax: Any = None) -> Any:
        """Draw the centers on their two principal directions, and return the matplotlib axes.

        The area of a marker grows with the noisy count, and a dashed ellipse shows two standard errors due to noise.
        Only released values are drawn, so the plot may be published. Needs the extra `pais[plots]`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None = a new figure.
        """
        check_is_fitted(self)
        return plot_centers(self.fit_, getattr(self, "feature_names_in_", None), ax)

    def plot_elbow(self, ax: Any = None) -> Any:
        """Draw the estimated cost for every number of clusters, and return the matplotlib axes.

        Only released values are drawn, so the plot may be published. Needs the extra `pais[plots]`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; None = a new figure.
        """
        check_is_fitted(self)
        return plot_elbow(self.fit_, ax)


def new_axes(axes: Any) -> Any:
    """Return the axes, or the axes of a new figure if None. Raises if matplotlib is not installed."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ArgumentError("plots need matplotlib. Install it: pip install 'pais[plots]'.") from None
    return pyplot.subplots(figsize=(6.4, 5.0), layout="constrained")[1]


def plot_centers(fit: KMeansFit, feature_names: Any = None, axes: Any = None) -> Any:
    """Draw released centers on their two principal directions and return the axes.

    The area of a marker grows with the noisy count of the cluster. A dashed ellipse shows two standard errors of the
    center. Centers that are not readable above the noise are grey.

    Parameters
    ----------
    fit : KMeansFit
        Only released values are drawn.
    feature_names : sequence of str, optional
        Names of the columns. With a schema, its labels are used.
    axes : matplotlib Axes, optional
        Where to draw; None = a new figure.
    """
    view, value = view_of(fit, feature_names), fit.value
    projection = project(value.centers, value.noisy_counts, value.standard_errors)
    axes = new_axes(axes)
    share = np.maximum(value.noisy_counts, 0.0) / max(float(value.noisy_counts.max()), 1e-300)
    colours = ["tab:blue" if readable else "0.6" for readable in view.centers]
    area = _LARGEST_AREA * np.maximum(share, _LEAST_SHARE)
    axes.scatter(*projection.points.T, s=area, c=colours, alpha=0.45, edgecolors=colours)
    _draw_errors(axes, projection)
    for index, point in enumerate(projection.points):
        # At the upper right of the marker, whose radius in points follows from its area.
        beside = float(np.sqrt(area[index] / np.pi)) * 0.71 + 1.0
        axes.annotate(str(index), point, (beside, beside), textcoords="offset points", fontsize=9)
    # Equal scales may cut margins, but never data: the limits count as data, so that no label is outside.
    around = _MARGIN * float(np.ptp(projection.points, axis=0).max())
    axes.update_datalim([projection.points.min(axis=0) - around, projection.points.max(axis=0) + around])
    axes.autoscale_view()
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(_label(projection, 0, view))
    axes.set_ylabel(_label(projection, 1, view))
    axes.set_title("Released centers: area by noisy count, ellipses of two standard errors", fontsize=10)
    return axes


def plot_elbow(fit: KMeansFit, axes: Any = None) -> Any:
    """Draw the estimated cost for every number of clusters and return the axes.

    The cost is relative to that of one cluster. A ring marks the number of clusters of the fit, and a dashed line the
    suggested number. Only released values are drawn.

    Parameters
    ----------
    fit : KMeansFit
    axes : matplotlib Axes, optional
        Where to draw; None = a new figure.
    """
    elbow = elbow_of(fit)
    axes = new_axes(axes)
    numbers = [point.n_clusters for point in elbow]
    share = [point.cost / max(elbow.points[0].cost, 1e-300) for point in elbow]
    axes.plot(numbers, share, color="tab:blue", marker="o", markersize=3.5, linewidth=1.2)
    k = len(fit.value.centers)
    if k <= len(elbow):
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


def elbow_of(fit: KMeansFit) -> Elbow:
    """The elbow of a fit. Raises if the release has no cells."""
    if fit.elbow is None:
        raise ArgumentError("this release has no cells, so nothing is known about other numbers of clusters.")
    return fit.elbow


def _draw_errors(axes: Any, projection: Projection) -> None:
    angle = np.linspace(0.0, 2.0 * np.pi, 73)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for index, point in enumerate(projection.points):
        long, short, turn = projection.ellipse(index)
        if long > 0.0:
            rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
            x, y = point[:, None] + rotation @ (np.array([[long], [short]]) * circle)
            # Ellipses must not widen the view: a center that is drowned has a very large one.
            axes.plot(x, y, color="0.25", linestyle="--", linewidth=0.8, scalex=False, scaley=False)


def _label(projection: Projection, axis: int, view: View) -> str:
    """Name of an axis, with the columns that dominate it."""
    names, dates = (
        tuple(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}\u2026" for name in names)
        for names in (view.names, view.dates)
    )
    words = projection.words(axis, names, dates=dates, most=_NAMED)
    share = percent(float(projection.shares[axis]))
    return f"direction {axis + 1}, {share} of the spread" + (f"\n\u2192 {words}" if words else "")
