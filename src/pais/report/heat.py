"""Table of the centers, with each cell coloured by how its value compares with the other centers in that feature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pais._base.numerics import FloatArray
from pais.mechanisms import KMeans, KMeansValue, Round
from pais.report.text import escaped, number

#: Number of colour steps on each side of the middle; the last step stands for _WIDEST standard deviations.
N_STEPS = 4
_WIDEST = 1.75

# From this number of features, the names are written vertically; the printed table has this many columns per block.
_UPRIGHT_FROM = 9
_PRINTED_TOGETHER = 9

_NOISE_HEAD = '<th scope="col">Noise</th>'


def standardised(centers: FloatArray) -> FloatArray:
    """Standardise each feature over the centers; zero where all centers agree."""
    away = centers - centers.mean(axis=0)
    spread = np.sqrt(np.mean(np.square(away), axis=0))
    flat = spread <= 1e-12 * np.maximum(np.abs(centers).max(axis=0), 1e-300)
    return np.where(flat, 0.0, away / np.where(flat, 1.0, spread))


def heat_map(value: KMeansValue, mechanism: KMeans, names: Sequence[str]) -> str:
    """Render a table that scrolls on a screen and, if it is too wide for paper, a copy in blocks of columns."""
    n_features = len(names)
    whole = _table(value, mechanism, names, 0, n_features)
    screen = f'<div class="scroll" role="region" tabindex="0" aria-label="Centers by feature">\n{whole}\n</div>'
    if n_features <= _PRINTED_TOGETHER:
        return _legend() + screen
    blocks = "\n".join(
        _table(value, mechanism, names, start, min(start + _PRINTED_TOGETHER, n_features))
        for start in range(0, n_features, _PRINTED_TOGETHER)
    )
    return f'{_legend()}<div class="on-screen">{screen}</div>\n<div class="on-paper">{blocks}</div>'


def noise_of_centers(value: KMeansValue, mechanism: KMeans) -> FloatArray | None:
    """Standard deviation of one coordinate of each center due to noise; None if the release does not tell it."""
    last = mechanism.rounds[-1]
    if not isinstance(last, Round):
        return None
    filled = np.maximum(value.noisy_counts, last.count_noise.deviation(1))
    return np.asarray(last.sum_noise.deviation(mechanism.n_features) / filled)


def _table(value: KMeansValue, mechanism: KMeans, names: Sequence[str], start: int, stop: int) -> str:
    levels = standardised(value.centers)
    noise = noise_of_centers(value, mechanism)
    floor = mechanism.trust * mechanism.rounds[-1].count_noise.deviation(1)
    upright = ' class="upright"' if len(names) >= _UPRIGHT_FROM else ""
    head = "".join(
        f'<th scope="col"{upright} title="{escaped(name)}"><span>{escaped(name)}</span></th>'
        for name in names[start:stop]
    )
    lines = []
    for index in np.argsort(-value.noisy_counts, kind="stable").tolist():
        count = value.noisy_counts[index]
        doubt = "" if count > floor else ' <span class="doubt">within noise</span>'
        cells = "".join(
            _cell(names[j], index, float(value.centers[index, j]), float(levels[index, j])) for j in range(start, stop)
        )
        lines.append(
            f'<tr><th scope="row"><b>{index}</b></th><td class="count">{number(count)}{doubt}</td>'
            f"{'' if noise is None else _noise_cell(noise[index])}{cells}</tr>"
        )
    body = "\n".join(lines)
    return (
        '<table class="heat"><caption>Centers, ordered by noisy count</caption>\n<thead><tr><th scope="col">Center</th>'
        f'<th scope="col">Noisy count</th>{_NOISE_HEAD if noise is not None else ""}{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table>"
    )


def _noise_cell(noise: float) -> str:
    return f'<td class="count">± {number(noise, 2)}</td>'


def _cell(name: str, index: int, value: float, level: float) -> str:
    step = int(np.clip(round(level / _WIDEST * N_STEPS), -N_STEPS, N_STEPS))
    side = "above" if level >= 0.0 else "below"
    hint = f"{name}, center {index}: {value:.6g}, {abs(level):.2f} deviations {side} the mean of the centers"
    return f'<td class="heat-{step + N_STEPS}" title="{escaped(hint)}">{_short(value)}</td>'


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"


def _legend() -> str:
    boxes = "".join(f'<span class="heat-{step}"></span>' for step in range(2 * N_STEPS + 1))
    return (
        f'<p class="legend"><span>below the mean of the centers</span><span class="scale" aria-hidden="true">{boxes}'
        "</span><span>above</span></p>\n"
    )
