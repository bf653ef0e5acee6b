"""Centers and seconds of diffprivlib's KMeans: rows, output directory, k, seeds, epsilon. In its own environment."""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np


def main() -> None:
    from diffprivlib.models import KMeans  # type: ignore[import-not-found]  # lives in an environment of its own

    rows_path, out, k, seeds, epsilon = sys.argv[1:]
    rows = np.load(rows_path).astype(np.float64)
    bounds = (rows.min(axis=0), rows.max(axis=0))
    warnings.simplefilter("ignore")
    record(out, event="ready", version=version("diffprivlib"))
    for seed in range(int(seeds)):
        model = KMeans(n_clusters=int(k), epsilon=float(epsilon), bounds=bounds, random_state=seed)
        start = time.perf_counter()
        model.fit(rows)
        seconds = time.perf_counter() - start
        np.save(Path(out) / f"centers-{seed}.npy", model.cluster_centers_)
        record(out, event="fit", seed=seed, seconds=seconds)


def record(out: str, **entry: object) -> None:
    with (Path(out) / "runs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main()
