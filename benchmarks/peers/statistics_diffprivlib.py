"""Estimates of diffprivlib's one-line statistics: columns, tasks and output file. In its own environment."""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np


def main() -> None:
    from diffprivlib import tools  # type: ignore[import-not-found]  # installed in another environment

    columns_path, tasks_path, out = sys.argv[1:]
    columns = np.load(columns_path)
    warnings.simplefilter("ignore")
    results = []
    for task in json.loads(Path(tasks_path).read_text(encoding="utf-8")):
        values, bounds, epsilon = columns[task["column"]], (task["low"], task["high"]), task["epsilon"]
        start, estimates = time.perf_counter(), []
        try:
            for seed in range(task["first"], task["first"] + task["seeds"]):
                options = {"epsilon": epsilon, "bounds": bounds, "random_state": seed}
                if task["statistic"] == "mean":
                    estimate = tools.mean(values, **options)
                elif task["statistic"] == "variance":
                    estimate = tools.var(values, **options)
                elif task["statistic"] == "histogram":
                    estimate, _ = tools.histogram(
                        values, epsilon=epsilon, bins=task["bins"], range=bounds, random_state=seed
                    )
                else:
                    estimate = tools.quantile(values, task["q"], **options)
                estimates.append(np.ravel(estimate).tolist())
        except RuntimeError:
            # Its exponential mechanism fails if many values are equal.
            estimates = []
        results.append({"estimates": estimates, "seconds": time.perf_counter() - start})
    Path(out).write_text(json.dumps({"version": version("diffprivlib"), "results": results}), encoding="utf-8")


if __name__ == "__main__":
    main()
