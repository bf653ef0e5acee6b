"""Sorted centers and rounds of diffprivlib's KMeans on neighbouring tables: output, runs, epsilon. Its own environment.

One dimension, bounds 0 and 1 stated, two clusters. `labels_` and `inertia_` of the training rows are not looked at:
that they are not protected is plain.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

ALONE = np.full((30, 1), 0.1)
BESIDE = np.concatenate([np.full((30, 1), 0.1), np.full((30, 1), 0.9)])
RECORD = np.array([[1.0]])
COVERTYPE_COLUMNS = 54


def main() -> None:
    from diffprivlib.models import KMeans  # type: ignore[import-not-found]  # lives in an environment of its own

    out, runs, epsilon = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    warnings.simplefilter("ignore")
    rng = np.random.RandomState(0)
    edge = at_the_edge(KMeans(n_clusters=2, epsilon=epsilon))
    tables = {"alone": (ALONE, runs), "beside": (BESIDE, runs), "rounds": (np.full((edge - 1, 1), 0.1), 200)}
    for name, (company, n) in tables.items():
        for side, rows in (("without", company), ("with", np.concatenate([company, RECORD]))):
            seen = np.empty((n, 3))
            for run in range(n):
                model = KMeans(n_clusters=2, epsilon=epsilon, bounds=(0.0, 1.0), random_state=rng).fit(rows)
                seen[run] = [*np.sort(model.cluster_centers_[:, 0]), model.n_iter_]
            np.save(out / f"{name}-{side}.npy", seen)
    first, second = KMeans(n_clusters=2, epsilon=1.0)._split_epsilon(COVERTYPE_COLUMNS, 1)
    # As `_update_centers` uses them: the first for the count, the second for each column of the sum.
    spent = float(first + COVERTYPE_COLUMNS * second)
    (out / "facts.json").write_text(
        json.dumps({"version": version("diffprivlib"), "spent_where_1_is_declared": spent, "rows_at_the_edge": edge})
    )


def at_the_edge(model: object) -> int:
    """A number of rows with which one more round is made than with one row less."""
    rounds = [model._calc_iters(1, n) for n in range(2, 5000)]  # type: ignore[attr-defined]  # their class
    return 2 + next(index for index in range(1, len(rounds)) if rounds[index] != rounds[index - 1])


if __name__ == "__main__":
    main()
