"""Quality of diffprivlib's PCA, LinearRegression and LogisticRegression: tasks and output file. In its own environment.

Bounds of columns and the largest norm are taken as public from the rows, as the package asks for them.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    tasks_path, out = sys.argv[1:]
    signal.signal(signal.SIGALRM, stop)
    warnings.simplefilter("ignore")
    results = []
    measures = {"pca": pca, "linear": linear, "logistic": logistic}
    for task in json.loads(Path(tasks_path).read_text(encoding="utf-8")):
        content = np.load(task["file"])
        start, scores = time.perf_counter(), []
        # Its sampler of eigenvectors may not end.
        signal.alarm(task["limit"])
        try:
            for seed in range(task["seeds"]):
                scores.append(measures[task["model"]](content, task, seed))
        except TimeoutError:
            pass
        signal.alarm(0)
        results.append({"scores": scores, "seconds": (time.perf_counter() - start) / max(len(scores), 1)})
        # Write each result at once, so that it is kept if a later fit is stopped.
        Path(out).write_text(json.dumps({"version": version("diffprivlib"), "results": results}), encoding="utf-8")


def stop(*_: object) -> None:
    raise TimeoutError


def pca(content: Any, task: dict[str, Any], seed: int) -> dict[str, float]:
    """Variance along the components over that along the best ones."""
    from diffprivlib.models import PCA  # type: ignore[import-not-found]  # installed in another environment

    rows = content["X"]
    bounds = (rows.min(axis=0), rows.max(axis=0))
    # The norm at which the package clips rows; far rows are left out of it, which helps it.
    norm = float(np.quantile(np.linalg.norm(rows - rows.mean(axis=0), axis=1), 0.9))
    model = PCA(n_components=task["k"], epsilon=task["epsilon"], bounds=bounds, data_norm=norm, random_state=seed)
    components = model.fit(rows).components_
    covariance = np.cov(rows, rowvar=False, bias=True)
    best = np.linalg.eigvalsh(covariance)[::-1][: task["k"]].sum()
    captured = np.einsum("ki,ij,kj->", components, covariance, components)
    return {"captured variance": float(captured / best)}


def linear(content: Any, task: dict[str, Any], seed: int) -> dict[str, float]:
    from diffprivlib.models import LinearRegression

    X, y = content["X"], content["y"]
    train, test = split(len(y), seed)
    bounds = (content["low"], content["high"])
    target = (float(content["y_low"]), float(content["y_high"]))
    # Scaled to [-1, 1], which helps it.
    middle, half = (bounds[0] + bounds[1]) / 2.0, (bounds[1] - bounds[0]) / 2.0
    X = (np.clip(X, *bounds) - middle) / half
    y_middle, y_half = (target[0] + target[1]) / 2.0, (target[1] - target[0]) / 2.0
    model = LinearRegression(epsilon=task["epsilon"], bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), random_state=seed)
    model.fit(X[train], np.clip((y[train] - y_middle) / y_half, -1.0, 1.0))
    predicted = np.clip(model.predict(X[test]), -1.0, 1.0) * y_half + y_middle
    residual, spread = np.mean((y[test] - predicted) ** 2), np.var(y[test])
    return {"R^2": float(1.0 - residual / spread)}


def logistic(content: Any, task: dict[str, Any], seed: int) -> dict[str, float]:
    from diffprivlib.models import LogisticRegression
    from sklearn.metrics import log_loss

    X, y = content["X"], content["y"]
    train, test = split(len(y), seed)
    norm = float(np.linalg.norm(X, axis=1).max())
    model = LogisticRegression(epsilon=task["epsilon"], data_norm=norm, max_iter=1000, random_state=seed)
    model.fit(X[train], y[train])
    chances = model.predict_proba(X[test])
    accuracy = float((chances.argmax(axis=1) == y[test]).mean())
    return {"log-loss": float(log_loss(y[test], chances)), "accuracy": accuracy}


def split(n: int, seed: int) -> tuple[Any, Any]:
    """Nine tenths to fit, a tenth to test."""
    order = np.random.default_rng(seed).permutation(n)
    return order[n // 10 :], order[: n // 10]


if __name__ == "__main__":
    main()
