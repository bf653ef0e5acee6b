"""Pictures of the released centers: a map on two principal directions, and the estimated cost by number of clusters."""

from __future__ import annotations

import math

import numpy as np

from pais._base.numerics import FloatArray
from pais.mechanisms import Elbow
from pais.report.charts import LineChart
from pais.report.projection import Projection
from pais.report.text import escaped, number, percent
from pais.report.view import View

_WIDTH = 420.0
_MARGIN = 34.0
_LARGEST, _SMALLEST = 24.0, 3.5

# With more centers than this, the circles are smaller.
_FEW = 10

# A smaller ellipse is drawn with a solid line.
_DASHED_FROM = 6.0

# The height of the map over its width, at least and at most.
_FLAT, _TALL = 0.5, 0.85

# An ellipse larger than this is cut off at the edge of the map.
_OUTSIDE = 400.0


def centers_map(projection: Projection, noisy_counts: FloatArray, view: View) -> str:
    """Draw the centers on their two principal directions: area by noisy count, ellipses of two standard errors."""
    low, high = projection.points.min(axis=0), projection.points.max(axis=0)
    span = high - low
    # Equal centers have no extent: they are drawn in the middle, at any scale.
    span = np.maximum(span, 1e-9 * span.max() if span.max() > 0.0 else 1.0)
    height = _WIDTH * float(np.clip(span[1] / span[0], _FLAT, _TALL))
    scale = min((_WIDTH - 2.0 * _MARGIN) / span[0], (height - 2.0 * _MARGIN) / span[1])
    middle = (low + high) / 2.0
    places = (projection.points - middle) * scale * np.array([1.0, -1.0]) + np.array([_WIDTH, height]) / 2.0
    radii = _radii(noisy_counts)
    order = np.argsort(-radii, kind="stable").tolist()
    marks = [_mark(places[j], radii[j], _ellipse(projection, j, scale), known=view.centers[j]) for j in order]
    # Numbers come last, so that no circle covers them.
    marks += [_number(j, places[j], radii[j], known=view.centers[j]) for j in order]
    title = "Segments on their two principal directions"
    return (
        f'<figure class="map"><figcaption>{title}</figcaption>\n<svg viewBox="0 0 {_WIDTH:g} {height:.1f}" role="img" '
        f'aria-labelledby="map-title map-text">\n<title id="map-title">{title}</title>\n'
        f'<desc id="map-text">{escaped(_description(projection, view))}</desc>\n'
        f'<rect class="frame" x=".5" y=".5" width="{_WIDTH - 1:g}" height="{height - 1:.1f}" rx="8"/>\n'
        + "\n".join(marks)
        + f"\n</svg>\n{_axes(projection, view)}</figure>"
    )


def _radii(noisy_counts: FloatArray) -> FloatArray:
    """Radii of the circles, whose areas grow with the noisy counts."""
    share = np.maximum(noisy_counts, 0.0) / max(float(noisy_counts.max()), 1e-300)
    largest = _LARGEST * min(1.0, math.sqrt(_FEW / len(noisy_counts)))
    return np.asarray(np.maximum(largest * np.sqrt(np.minimum(share, 1.0)), _SMALLEST))


def _ellipse(projection: Projection, index: int, scale: float) -> tuple[float, float, float]:
    long, short, angle = projection.ellipse(index)
    return min(long * scale, _OUTSIDE), min(short * scale, _OUTSIDE), -math.degrees(angle)


def _mark(place: FloatArray, radius: float, ellipse: tuple[float, float, float], *, known: bool) -> str:
    x, y = place.tolist()
    long, short, angle = ellipse
    dashed = " dashed" if long >= _DASHED_FROM else ""
    axes = f'rx="{max(long, 0.6):.1f}" ry="{max(short, 0.6):.1f}"'
    around = (
        f'<ellipse class="error{dashed}" cx="{x:.1f}" cy="{y:.1f}" {axes} '
        f'transform="rotate({angle:.1f} {x:.1f} {y:.1f})"/>'
        if long > 0.0
        else ""
    )
    return f'<g class="{_class(known)}"><circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>{around}</g>'


def _number(index: int, place: FloatArray, radius: float, *, known: bool) -> str:
    """The index of a center, at the upper right of its circle."""
    x, y = (place + (0.71 * radius + 1.0) * np.array([1.0, -1.0])).tolist()
    return f'<text class="{_class(known)}" x="{x:.1f}" y="{y:.1f}">{index}</text>'


def _class(known: bool) -> str:
    return "center" if known else "center weak"


def _axes(projection: Projection, view: View) -> str:
    lines = []
    for axis, side in ((0, "To the right"), (1, "Upwards")):
        words = projection.words(axis, view.names, dates=view.dates)
        if words:
            share = percent(float(projection.shares[axis]))
            lines.append(f"<li><b>{side}</b> ({share} of the spread): {escaped(words)}</li>")
    return f'<ul class="axes">{"".join(lines)}</ul>' if lines else ""


def _description(projection: Projection, view: View) -> str:
    words = [
        f"{side}: {projection.words(axis, view.names, dates=view.dates)}"
        for axis, side in ((0, "To the right"), (1, "upwards"))
    ]
    return f"{len(projection.points)} circles, one for each segment. {'; '.join(words)}."


def elbow_chart(elbow: Elbow, chosen: int) -> str:
    """Draw the estimated cost for each number of clusters, over that of one cluster."""
    numbers = [point.n_clusters for point in elbow]
    costs = np.array([point.cost for point in elbow])
    shares = costs / max(float(costs[0]), 1e-300)
    here = dict(zip(numbers, shares.tolist(), strict=True)).get(chosen)
    return LineChart(
        name="elbow",
        title="Estimated spread within segments, by number of segments",
        description=f"From 1 at {numbers[0]} to {number(float(shares[-1]), 2)} at {numbers[-1]} segments"
        + ("." if here is None else f"; {number(here, 2)} at {chosen}."),
        x=np.array(numbers, dtype=np.float64),
        y=shares,
        x_name="number of segments",
        x_ticks=_integer_ticks(numbers[0], numbers[-1]),
        mark=float(chosen),
        line=float(elbow.suggested),
        note=_elbow_note(elbow, chosen),
    ).svg()


def _elbow_note(elbow: Elbow, chosen: int) -> str:
    """What the curve says about the number of clusters."""
    dot = f"The dot is this result, with {chosen} segment{'s' * (chosen != 1)}. " if chosen <= len(elbow) else ""
    if elbow.stands_out:
        return f"{dot}The curve suggests {elbow.suggested} segments (dashed line)."
    return f"{dot}No number of segments stands out; the curve bends most at {elbow.suggested} (dashed line)."


def _integer_ticks(first: int, last: int) -> tuple[float, ...]:
    """A few integers from first to last, with both ends."""
    step = next(
        step for power in range(12) for step in (10**power, 2 * 10**power, 5 * 10**power) if last - first <= 7 * step
    )
    inner = [tick for tick in range(step * (first // step + 1), last, step) if last - tick >= 0.6 * step]
    return (float(first), *map(float, inner), *([float(last)] if last > first else []))
