"""Centers of diffprivlib's KMeans, for benchmarks.peers: rows, output, k, epsilon, seeds. In its own environment."""

from __future__ import annotations

import sys
import warnings

import numpy as np


def main() -> None:
    from diffprivlib.models import KMeans  # type: ignore[import-not-found]  # lives in an environment of its own

    rows_path, out_path, k, epsilon, seeds = sys.argv[1:]
    rows = np.load(rows_path).astype(np.float64)
    bounds = (rows.min(axis=0), rows.max(axis=0))
    warnings.simplefilter("ignore")
    centers = [
        KMeans(n_clusters=int(k), epsilon=float(epsilon), bounds=bounds, random_state=seed).fit(rows).cluster_centers_
        for seed in range(int(seeds))
    ]
    np.save(out_path, np.stack(centers))


if __name__ == "__main__":
    main()
