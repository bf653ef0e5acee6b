"""Small charts in inline SVG: a line, bars and a stacked bar. The page's style sheet sets their colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pais._base.cards import number
from pais._base.numerics import FloatArray
from pais.show.text import escaped

_WIDTH, _HEIGHT = 420.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 16.0, 44.0

#: Number of colours for parts in the style sheet; further parts start again with the first colour.
N_COLOURS = 6


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """One curve with a vertical axis that starts at zero; by default over norm/radius in [0, 1].

    Attributes
    ----------
    name : str
        Unique name of the chart in the page.
    title, description : str
        Description of the chart for readers who cannot see it.
    x, y : array
        Points of the curve; points that are not finite are left out.
    limit : float, optional
        A level to draw as a dashed line, with its label.
    x_name, x_ticks : str and tuple of float
        Name and marks of the horizontal axis, which ends at the outer marks.
    mark : float, optional
        A value of x to mark on the curve.
    line : float, optional
        A value of x at which to draw a dashed line.
    note : str
        A sentence below the chart.
    """

    name: str
    title: str
    description: str
    x: FloatArray
    y: FloatArray
    limit: float | None = None
    limit_label: str = ""
    x_name: str = "norm / radius"
    x_ticks: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    mark: float | None = None
    line: float | None = None
    note: str = ""

    def svg(self) -> str:
        finite = np.isfinite(self.y)
        levels = [*self.y[finite].tolist(), *([] if self.limit is None else [self.limit])]
        ticks = _ticks(max(levels, default=1.0))
        top = ticks[-1]
        points = [
            (self._across(x), _down(y / top), x)
            for x, y in zip(self.x[finite].tolist(), self.y[finite].tolist(), strict=True)
        ]
        line = " ".join(f"{x:.2f},{y:.2f}" for x, y, _ in points)
        marks = [f'<circle class="mark" cx="{x:.2f}" cy="{y:.2f}" r="6"/>' for x, y, at in points if at == self.mark]
        parts = [
            _levels(ticks),
            _across_axis([(self._across(tick), f"{tick:g}") for tick in self.x_ticks], self.x_name),
            "" if self.limit is None else _limit(self.limit, top, self.limit_label),
            self._upright(),
            f'<polyline class="curve" points="{line}"/>',
            *marks,
        ]
        return _figure(self, parts)

    def _upright(self) -> str:
        if self.line is None:
            return ""
        x = self._across(self.line)
        return f'<line class="limit" x1="{x:.2f}" x2="{x:.2f}" y1="{_TOP:g}" y2="{_HEIGHT - _BOTTOM:g}"/>'

    def _across(self, x: float) -> float:
        start, end = self.x_ticks[0], self.x_ticks[-1]
        share = (x - start) / (end - start) if end > start else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


@dataclass(frozen=True, kw_only=True)
class BarChart:
    """Bars from zero with error bars, numbered from 1.

    Attributes
    ----------
    name, title, description, limit, x_name, note
        As in `LineChart`.
    values, errors : array
        Heights of the bars, and half lengths of the error bars.
    marks : array, optional
        Levels at which a short line crosses the bars.
    strong : int
        Number of bars with a colour; those after them are grey.
    """

    name: str
    title: str
    description: str
    values: FloatArray
    errors: FloatArray
    strong: int
    limit: float
    x_name: str
    marks: FloatArray | None = None
    note: str = ""

    def svg(self) -> str:
        n = len(self.values)
        marks = np.empty(0) if self.marks is None else np.maximum(self.marks, 0.0)
        ticks = _ticks(max(float((self.values + self.errors).max()), float(marks.max(initial=0.0)), self.limit))
        top, width = ticks[-1], (_WIDTH - _LEFT - _RIGHT) / n
        places = [_LEFT + (position + 0.5) * width for position in range(n)]
        every = -(-n // 10)
        bars = [
            self._bar(x, width, float(value) / top, float(error) / top, weak=position >= self.strong)
            for position, (x, value, error) in enumerate(zip(places, self.values, self.errors, strict=True))
        ]
        labels = [(places[position], str(position + 1)) for position in range(0, n, every)]
        half = min(0.45 * width, 20.0)
        bars += [
            f'<line class="released" x1="{x - half:.2f}" x2="{x + half:.2f}" y1="{y:.2f}" y2="{y:.2f}"/>'
            for x, y in zip(places, [_down(float(mark) / top) for mark in marks], strict=False)
        ]
        limit = _limit(self.limit, top)
        return _figure(self, [_levels(ticks), _across_axis(labels, self.x_name), *bars, limit])

    def _bar(self, x: float, width: float, value: float, error: float, *, weak: bool) -> str:
        half = min(0.35 * width, 16.0)
        high, low, base = _down(value + error), _down(max(value - error, 0.0)), _down(0.0)
        return (
            f'<rect class="column{" weak-column" * weak}" x="{x - half:.2f}" y="{_down(value):.2f}" '
            f'width="{2.0 * half:.2f}" height="{base - _down(value):.2f}"/>'
            f'<line class="whisker" x1="{x:.2f}" x2="{x:.2f}" y1="{high:.2f}" y2="{low:.2f}"/>'
        )


def _figure(chart: LineChart | BarChart, parts: Sequence[str]) -> str:
    note = f'<p class="axes">{escaped(chart.note)}</p>' if chart.note else ""
    return (
        f'<figure><figcaption>{escaped(chart.title)}</figcaption>\n<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" '
        f'role="img" aria-labelledby="{chart.name}-title {chart.name}-text">\n'
        f'<title id="{chart.name}-title">{escaped(chart.title)}</title>\n'
        f'<desc id="{chart.name}-text">{escaped(chart.description)}</desc>\n'
        + "\n".join(parts)
        + f"\n</svg>{note}</figure>"
    )


def _limit(level: float, top: float, label: str = "") -> str:
    """A dashed line, with a label below it."""
    y = _down(level / top)
    text = f'\n<text class="limit-label" x="{_LEFT + 6:g}" y="{y + 16:.2f}">{escaped(label)}</text>' if label else ""
    return f'<line class="limit" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y:.2f}" y2="{y:.2f}"/>{text}'


def _levels(ticks: Sequence[float]) -> str:
    """Horizontal lines at levels, with their numbers."""
    lines = []
    for tick in ticks:
        y = _down(tick / ticks[-1])
        lines.append(
            f'<line class="grid" x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y:.2f}" y2="{y:.2f}"/>'
            f'<text x="{_LEFT - 8:g}" y="{y + 4:.2f}" text-anchor="end">{number(tick, 3)}</text>'
        )
    return "\n".join(lines)


def _across_axis(labels: Sequence[tuple[float, str]], name: str) -> str:
    """Marks and numbers below the chart, and the name of the axis."""
    base, middle = _HEIGHT - _BOTTOM, (_LEFT + _WIDTH - _RIGHT) / 2.0
    lines = [
        f'<line class="axis" x1="{x:.2f}" x2="{x:.2f}" y1="{base:g}" y2="{base + 5:g}"/>'
        f'<text x="{x:.2f}" y="{base + 19:g}" text-anchor="middle">{escaped(label)}</text>'
        for x, label in labels
    ]
    return "\n".join(lines) + (
        f'\n<text class="axis-name" x="{middle:.2f}" y="{_HEIGHT - 6:g}" text-anchor="middle">{escaped(name)}</text>'
    )


def _down(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _ticks(top: float) -> list[float]:
    """Return four to six round levels, from zero to the first that reaches `top`."""
    top = top if top > 0.0 else 1.0
    unit = 10.0 ** math.floor(math.log10(top))
    step = next(unit * part for part in (0.2, 0.25, 0.5, 1.0, 2.0) if top <= 5.0 * unit * part)
    return [level * step for level in range(math.ceil(top / step * (1.0 - 1e-9)) + 1)]


def stacked_bar(name: str, title: str, parts: Sequence[tuple[str, float]], whole: float) -> str:
    """Draw parts of a whole from left to right; the part of the whole that they do not cover stays empty."""
    boxes, start = [], 0.0
    for position, (label, value) in enumerate(parts):
        width = 1000.0 * value / whole
        boxes.append(
            f'<rect class="part-{position % N_COLOURS}" x="{start:.3f}" y="0" width="{width:.3f}" height="28">'
            f"<title>{escaped(label)}</title></rect>"
        )
        start += width
    description = "; ".join(label for label, _ in parts)
    return (
        f'<svg class="bar" viewBox="0 0 1000 28" preserveAspectRatio="none" role="img" '
        f'aria-labelledby="{name}-title {name}-text">\n<title id="{name}-title">{escaped(title)}</title>\n'
        f'<desc id="{name}-text">{escaped(description)}</desc>\n<rect class="empty" width="1000" height="28"/>\n'
        + "\n".join(boxes)
        + "\n</svg>"
    )


def swatch(position: int) -> str:
    return f'<span class="swatch part-{position % N_COLOURS}" aria-hidden="true"></span>'
