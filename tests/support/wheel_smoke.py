"""What an installed `pais` must do. `wheel_build.py` runs this in an environment made for the wheel alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def pais_command(*arguments: str) -> str:
    """Run the command that the wheel installed; return its output."""
    command = Path(sys.executable).with_name("pais")
    return subprocess.run([command, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    import numpy as np

    import pais

    assert Path(pais.__file__).is_relative_to(sys.prefix), f"{pais.__file__} is not the installed package"
    rows = np.random.default_rng(0).normal(size=(20_000, 2)) + np.repeat([[-4.0, 0.0], [4.0, 0.0]], 10_000, axis=0)
    model = pais.DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, radius=8.0).fit(rows)
    assert model.cluster_centers_.shape == (2, 2)
    assert model.certificate_.epsilon <= 1.0

    assert "kmeans" in pais_command("--help")
    np.savetxt("rows.csv", rows, delimiter=",", header="width,height", comments="")
    pais_command("kmeans", "rows.csv", "--n-clusters", "2", "--epsilon", "1", "--out", "result", "--quiet")
    certificate = json.loads(Path("result/certificate.json").read_text())
    assert certificate["epsilon"] <= 1.0
    assert certificate["version"] == pais.__version__
    assert "epsilon" in pais_command("explain", "result/certificate.json")
    print("ok")


if __name__ == "__main__":
    main()
