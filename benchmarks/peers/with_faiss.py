"""Centers and seconds of faiss' Kmeans: rows, output directory, k, seeds, most rows for each center (0: all).

Two threads of faiss are slower than one where the cores are shared, so the faster number is found first, on some rows.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

ROUNDS = 10
TRIAL_ROWS = 50_000


def main() -> None:
    import faiss  # type: ignore[import-not-found]  # lives in an environment of its own

    rows_path, out, k, seeds, most = sys.argv[1:]
    rows = np.ascontiguousarray(np.load(rows_path), dtype=np.float32)

    def fit(seed: int, rows: np.ndarray) -> tuple[float, np.ndarray]:
        limit = int(most) or len(rows)
        model = faiss.Kmeans(rows.shape[1], int(k), niter=ROUNDS, seed=seed, max_points_per_centroid=limit)
        start = time.perf_counter()
        model.train(rows)
        return time.perf_counter() - start, model.centroids

    def with_threads(n_threads: int) -> float:
        faiss.omp_set_num_threads(n_threads)
        return min(fit(seed, rows[:TRIAL_ROWS])[0] for seed in range(2))

    available = faiss.omp_get_max_threads()
    n_threads = min({1, available}, key=with_threads)
    faiss.omp_set_num_threads(n_threads)
    record(out, event="ready", version=version("faiss-cpu"), threads=n_threads)
    for seed in range(int(seeds)):
        seconds, centers = fit(seed, rows)
        np.save(Path(out) / f"centers-{seed}.npy", centers)
        record(out, event="fit", seed=seed, seconds=seconds)


def record(out: str, **entry: object) -> None:
    with (Path(out) / "runs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main()
