"""Quality of diffprivlib's models on the sets of our benchmarks: `benchmarks/results/peers-models.csv`.

Run as `python -m benchmarks.peers.models`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks.kmeans import add_places
from benchmarks.peers.outside import Peer, environment, problem_of
from benchmarks.regression_sets import LARGE, SMALL, FloatArray
from benchmarks.state import source_state
from benchmarks.tables import Table
from experiments.paper.formats import read_parquet

# Its logistic regression needs an earlier scikit-learn than its k-means.
MODELS = Peer(
    name="diffprivlib-models",
    requirements=("diffprivlib", "scikit-learn<1.7"),
    script="models_diffprivlib.py",
)

EPSILONS = (0.1, 1.0)

#: Seconds for the fits of one line. Fits that are not done by then are left out.
TASK_LIMIT = 60

#: Rows of a set that the slow models are fitted to.
MOST_ROWS = 50_000

#: Binary targets: the first column of a set above its median.
BINARY = ("covertype", "song-sample")

NUMBERS = {
    "age": (17, 90),
    "education_num": (1, 16),
    "capital_gain": (0, 20_000),
    "capital_loss": (0, 3_000),
    "hours_per_week": (1, 99),
}
CATEGORIES = ("workclass", "marital_status", "occupation", "relationship", "race", "sex")


def adult(data: Path) -> tuple[FloatArray, FloatArray]:
    """Numbers scaled to [-1, 1] by stated bounds, and one coordinate for each category."""
    table = pq.read_table(data / "adult.parquet")
    texts = {name: np.array([str(cell) for cell in table[name].to_pylist()]) for name in (*CATEGORIES, "income_class")}
    parts = [
        (np.clip(table[name].to_numpy().astype(np.float64), low, high) - low) / (high - low) * 2.0 - 1.0
        for name, (low, high) in NUMBERS.items()
    ]
    parts += [(texts[name] == value).astype(np.float64) for name in CATEGORIES for value in np.unique(texts[name])]
    classes = np.unique(texts["income_class"])
    return np.column_stack(parts), (texts["income_class"] == classes[-1]).astype(np.float64)


def binary(name: str, data: Path) -> tuple[FloatArray, FloatArray]:
    rows = np.asarray(read_parquet(data / f"{name}.parquet"), dtype=np.float64)[:MOST_ROWS]
    X = np.delete(rows, 0, axis=1)
    low, high = np.quantile(X, [0.01, 0.99], axis=0)
    width = np.where(high > low, high - low, 1.0)
    return (np.clip(X, low, high) - low) / width * 2.0 - 1.0, (rows[:, 0] > np.median(rows[:, 0])).astype(np.float64)


def write_tasks(data: Path, place: Path, seeds: int) -> list[dict[str, Any]]:
    """The rows of every set as files, and the fits to make."""
    tasks: list[dict[str, Any]] = []

    def add(model: str, name: str, arrays: dict[str, Any], **more: Any) -> None:
        file = place / f"{model}-{name}.npz"
        np.savez(file, **arrays)
        for epsilon in EPSILONS:
            task = {"model": model, "data": name, "file": str(file), "epsilon": epsilon, "seeds": seeds}
            tasks.append(task | {"limit": TASK_LIMIT} | more)

    for name in ("adult", *BINARY):
        X, y = adult(data) if name == "adult" else binary(name, data)
        add("logistic", name, {"X": X, "y": y})
    add("pca", "ijcnn1", {"X": np.asarray(read_parquet(data / "ijcnn1.parquet"), dtype=np.float64)}, k=5)
    for small in SMALL:
        X, y = small.load(data)
        low, high = np.array(small.features, dtype=np.float64).T
        bounds = {"low": low, "high": high, "y_low": small.target[0], "y_high": small.target[1]}
        add("linear", small.name, {"X": X, "y": y, **bounds})
    for large in LARGE:
        X, y = large.load(data)
        X, y = X[:MOST_ROWS], y[:MOST_ROWS]
        low, high = np.quantile(X, [0.01, 0.99], axis=0)
        bounds = {"low": low, "high": np.maximum(high, low + 1.0), "y_low": y.min(), "y_high": y.max()}
        add("linear", large.name, {"X": X, "y": y, **bounds})
    return tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="fits of each line")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for all fits together")
    add_places(parser)
    options, console = parser.parse_args(), Console(highlight=False)
    state, home = source_state(), environment(MODELS, options.cache, console)
    if home.problem is not None:
        console.print(home.problem, markup=False)
        return
    place = options.cache / "peers" / "models"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    tasks = write_tasks(options.data, place, options.seeds)
    (place / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
    script = Path(__file__).with_name(MODELS.script).resolve()
    command = [str(home.python), "-I", str(script), str(place / "tasks.json"), str(place / "out.json")]
    problem = problem_of(command, place, options.limit)
    if problem is not None:
        console.print(problem, markup=False)
    if not (place / "out.json").exists():
        return
    content = json.loads((place / "out.json").read_text(encoding="utf-8"))
    table = Table(
        name="models",
        prefix="peers-",
        title=f"Models of diffprivlib {content['version']}, pure epsilon",
        shown=("model", "data", "k", "epsilon", "measure", "median", "seconds", "seeds"),
        remarks=[
            "Taken as public: for PCA the ends of all columns and the 90 % quantile of the norms; for regression the "
            "stated bounds, or the 1 % and 99 % quantiles of the columns of the large sets; for the logistic model the "
            f"scaling of the columns and the largest norm. Large sets: the first {MOST_ROWS:,} rows, except for PCA.",
            "PCA: variance along the components over that along the best. Linear: predictions are clipped to the "
            "bounds of the target. Nine tenths of the rows to fit, a tenth to test.",
            f"Measured at {state}.",
        ],
    )
    for task, result in zip(tasks, content["results"], strict=False):
        line = {"model": task["model"], "data": task["data"], "k": task.get("k"), "epsilon": task["epsilon"]}
        if not result["scores"]:
            table.rows.append({**line, "measure": f"no fit within {TASK_LIMIT} s"})
            continue
        for measure in result["scores"][0]:
            scores = [score[measure] for score in result["scores"]]
            table.rows.append(
                {
                    **line,
                    "measure": measure,
                    "median": float(np.median(scores)),
                    "worst": float(max(scores) if measure == "log-loss" else min(scores)),
                    "seconds": round(result["seconds"], 3),
                    "seeds": len(scores),
                }
            )
    table.publish(options.out, console)
    shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
