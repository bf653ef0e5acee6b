"""Fits of diffprivlib's KMeans, and its one-line statistics: files of tasks and of answers. In its own environment."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    tasks, out = sys.argv[1:]
    warnings.simplefilter("ignore")
    for task in json.loads(Path(tasks).read_text(encoding="utf-8")):
        for answer in kmeans(task) if task["statistic"] == "kmeans" else statistic(task):
            # Written at once, so that it is kept if a later fit is stopped.
            with Path(out).open("a", encoding="utf-8") as file:
                print(json.dumps({"version": version("diffprivlib"), **answer}), file=file)


def kmeans(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Centers and seconds of each seed. The ends of the columns are public, as the package asks for them."""
    from diffprivlib.models import KMeans  # type: ignore[import-not-found]  # installed in another environment

    rows = np.load(task["file"]).astype(np.float64)
    bounds = (rows.min(axis=0), rows.max(axis=0))
    for seed in range(task["seeds"]):
        model = KMeans(n_clusters=task["k"], epsilon=task["epsilon"], bounds=bounds, random_state=seed)
        start = time.perf_counter()
        model.fit(rows)
        yield {"seconds": time.perf_counter() - start, "centers": model.cluster_centers_.tolist()}


def statistic(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Estimates of all seeds; none if the package fails, as its exponential mechanism does if many values are equal."""
    from diffprivlib import tools  # type: ignore[import-not-found]  # installed in another environment

    values, estimates = np.load(task["file"])[task["column"]], []
    options = {"epsilon": task["epsilon"], "bounds": (task["low"], task["high"])}
    if task["statistic"] == "histogram":
        options = {"epsilon": task["epsilon"], "bins": task["bins"], "range": options["bounds"]}
    try:
        for seed in range(task["first"], task["first"] + task["seeds"]):
            if task["statistic"] == "quantile":
                estimate = tools.quantile(values, task["q"], **options, random_state=seed)
            else:
                name = {"mean": "mean", "variance": "var", "histogram": "histogram"}[task["statistic"]]
                estimate = getattr(tools, name)(values, **options, random_state=seed)
            estimates.append(np.ravel(estimate[0] if task["statistic"] == "histogram" else estimate).tolist())
    except RuntimeError:
        estimates = []
    yield {"estimates": estimates}


if __name__ == "__main__":
    main()
