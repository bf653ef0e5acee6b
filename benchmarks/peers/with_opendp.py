"""Estimates of the same statistics with OpenDP: files of tasks and of answers. In its own environment.

One row is added or removed, and the number of rows is not public. A mean is a sum over a count, which halve epsilon; a
variance needs a sum of squares too. Quantiles are chosen from stated candidates. The deterministic part of a
measurement runs once, and its noise as often as there are seeds.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    tasks, out = sys.argv[1:]
    measures = {"mean": mean, "variance": variance, "histogram": histogram, "quantile": quantile}
    with Path(out).open("w", encoding="utf-8") as file:
        for task in json.loads(Path(tasks).read_text(encoding="utf-8")):
            values = np.load(task["file"])[task["column"]].tolist()
            estimates = measures[task["statistic"]](dp, values, task)
            print(json.dumps({"version": version("opendp"), "estimates": estimates}), file=file)


def floats(dp: Any) -> tuple[Any, Any]:
    return dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()


def noised(dp: Any, exact: Any, data: list[float], epsilon: float, seeds: int) -> list[Any]:
    """Run a transformation once, and Laplace noise for an epsilon on its result many times."""
    noise = dp.binary_search_chain(lambda scale: exact >> dp.m.then_laplace(scale), d_in=1, d_out=epsilon)
    scale = dp.binary_search_param(lambda scale: exact >> dp.m.then_laplace(scale), d_in=1, d_out=epsilon)
    assert noise.map(1) <= epsilon
    measure = dp.m.make_laplace(exact.output_domain, exact.output_metric, scale=scale)
    value = exact(data)
    return [measure(value) for _ in range(seeds)]


def totals(dp: Any, data: list[float], task: dict[str, Any], power: int, parts: int) -> list[float]:
    """Noisy sums of a power of the clamped values, for a part of epsilon."""
    if power == 0:
        exact = floats(dp) >> dp.t.then_count()
    else:
        low, high = (task[end] ** power for end in ("low", "high"))
        data = [value**power for value in data]
        exact = floats(dp) >> dp.t.then_clamp((float(low), float(high))) >> dp.t.then_sum()
    return noised(dp, exact, data, task["epsilon"] / parts, task["seeds"])


def mean(dp: Any, data: list[float], task: dict[str, Any]) -> list[list[float]]:
    sums, counts = (totals(dp, data, task, power, 2) for power in (1, 0))
    return [[total / max(count, 1)] for total, count in zip(sums, counts, strict=True)]


def variance(dp: Any, data: list[float], task: dict[str, Any]) -> list[list[float]]:
    squares, sums, counts = (totals(dp, data, task, power, 3) for power in (2, 1, 0))
    ratios = zip(squares, sums, counts, strict=True)
    return [[square / max(n, 1) - (total / max(n, 1)) ** 2] for square, total, n in ratios]


def histogram(dp: Any, data: list[float], task: dict[str, Any]) -> list[list[int]]:
    edges = np.linspace(task["low"], task["high"], task["bins"] + 1)
    # As numpy does it: the last bin holds its right edge.
    places = np.clip(np.searchsorted(edges, data, side="right") - 1, 0, task["bins"] - 1).tolist()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    exact = space >> dp.t.then_count_by_categories(list(range(task["bins"])), null_category=False)
    return noised(dp, exact, places, task["epsilon"], task["seeds"])


def quantile(dp: Any, data: list[float], task: dict[str, Any]) -> list[list[float]]:
    n_points = round((task["high"] - task["low"]) / task["step"]) + 1
    candidates = np.linspace(task["low"], task["high"], n_points)
    scores = floats(dp) >> dp.t.then_quantile_score_candidates(candidates.tolist(), alpha=task["q"])

    def chain(scale: float) -> Any:
        return scores >> dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True)

    scale = dp.binary_search_param(chain, d_in=1, d_out=task["epsilon"])
    choose = dp.m.make_noisy_max(scores.output_domain, scores.output_metric, dp.max_divergence(), scale, negate=True)
    value = scores(data)
    return [[float(candidates[choose(value)])] for _ in range(task["seeds"])]


if __name__ == "__main__":
    main()
