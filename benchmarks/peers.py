"""Other packages on the same rows: table 6. Each runs in an environment of its own, by a script without our imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.data import N_CLUSTERS, DataSet, FloatArray
from benchmarks.quality import Bench, Setting
from benchmarks.tables import Table

_SCRIPT = Path(__file__).with_name("peer_diffprivlib.py")
_REQUIREMENTS = ("diffprivlib", "scikit-learn<=1.8")


def peers(bench: Bench, cache: Path, console: Console, epsilons: tuple[float, ...]) -> Table:
    """Table 6: pure epsilon, same rows; bounds of the columns are public for the peer, the radius for us."""
    python = environment(cache, console)
    table = Table(
        name="peers",
        title="Other packages, pure epsilon: cost over the floor",
        shown=("data", "epsilon", "package", "lower quartile", "median", "upper quartile"),
        remarks=["scikit-learn, non-private, best of 5 on all rows, is the floor: 1 by definition."],
    )
    for data in bench.sets:
        for epsilon in epsilons:
            cell = Setting(file=data.source.file, epsilon=epsilon, mechanism="l2", sample_size=data.source.sample_size)
            theirs = [
                data.cost(centers) / data.floor for centers in run_peer(python, data, cache, epsilon, bench.seeds)
            ]
            sampled = f"pais l2, {data.source.sample_size:,} rows"
            for package, ratios in ((sampled, bench.costs(cell).ratios), ("diffprivlib, all rows", np.array(theirs))):
                low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75]).tolist()
                table.rows.append(
                    {
                        "data": data.source.title,
                        "epsilon": epsilon,
                        "package": package,
                        "lower quartile": low,
                        "median": median,
                        "upper quartile": high,
                        "seeds": len(ratios),
                    }
                )
    return table


def environment(cache: Path, console: Console) -> Path:
    """A virtual environment with the peer, made once."""
    home = cache / "diffprivlib"
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        console.print(f"Making an environment with {' and '.join(_REQUIREMENTS)} ...")
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *_REQUIREMENTS], check=True)
        ready.touch()
    return python


def run_peer(python: Path, data: DataSet, cache: Path, epsilon: float, seeds: int) -> FloatArray:
    """Centers of the peer, one set for each seed."""
    rows, found = cache / f"{data.source.file}-rows.npy", cache / "peer-centers.npy"
    if not rows.exists():
        np.save(rows, data.rows)
    words = (str(rows), str(found), str(N_CLUSTERS), str(epsilon), str(seeds))
    subprocess.run([str(python), str(_SCRIPT), *words], check=True)
    centers: FloatArray = np.load(found)
    return centers
