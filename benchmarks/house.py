"""How much of the code a call runs through: its modules and functions, beside the size of the package.

Run ``python -m benchmarks.house`` before and after a change of structure: the numbers should fall. Seeded results must
stay the same to the bit, which `tests.support.same_results` checks.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]


def traced(call: Callable[[], object]) -> Counter[str]:
    """Functions of each module of the package that run while `call` does; each function counts once."""
    seen: set[types.CodeType] = set()
    modules: Counter[str] = Counter()

    def profile(frame: types.FrameType, event: str, _: object) -> None:
        code, module = frame.f_code, str(frame.f_globals.get("__name__", ""))
        if event == "call" and module.startswith("pais.") and code not in seen:
            seen.add(code)
            if not code.co_name.startswith("<"):  # No comprehensions, lambdas and bodies of modules.
                modules[module] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return modules


def people(n: int = 20_000) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    age, income = rng.uniform(18, 90, n), rng.gamma(4, 9_000, n)
    return pd.DataFrame(
        {
            "customer": rng.integers(n // 3, size=n),
            "age": age,
            "income": income,
            "region": rng.choice(["north", "south"], n),
            "spend": 0.1 * income + 20 * age + rng.normal(0, 500, n),
        }
    )


def calls(directory: Path) -> dict[str, Callable[[], Any]]:
    from typer.testing import CliRunner

    import pais
    from pais.cli.app import app

    frame = people()
    frame.to_csv(directory / "people.csv", index=False)
    frame = frame.rename(columns={"customer": "customer_id"})
    rows = frame.drop(columns="customer_id")
    (directory / "columns.yaml").write_text("age: 18:90\nincome: auto\nregion: [north, south]\n")
    columns = {"age": (18, 90), "income": "auto", "region": ["north", "south"]}
    linear = {**columns, "spend": (0.0, 20_000.0)}
    command = ["kmeans", str(directory / "people.csv"), "--n-clusters", "6", "--epsilon", "1", "--seed", "3"]
    command += ["--columns", str(directory / "columns.yaml"), "--unit", "customer", "--overwrite"]
    command += ["--out", str(directory / "out")]
    k_means = pais.DPKMeans(n_clusters=6, epsilon=1.0, columns=columns, unit="customer_id", random_state=3)
    model = pais.DPLinearRegression(target="spend", epsilon=1.0, columns=linear, random_state=3)

    def kmeans_command() -> None:
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output

    return {
        "DPKMeans.fit": lambda: k_means.fit(frame),
        "pais.mean": lambda: pais.mean(rows, columns={"age": (18, 90)}, epsilon=1.0, random_state=3),
        "DPLinearRegression.fit": lambda: model.fit(rows),
        "pais kmeans": kmeans_command,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", action="store_true", help="list the modules of each call")
    options = parser.parse_args()
    for folder in ("src", "tests", "benchmarks"):
        files = list((ROOT / folder).rglob("*.py"))
        print(f"{folder}: {sum(len(file.read_text().splitlines()) for file in files):,} lines in {len(files)} modules")
    words = sum(len(file.read_text().split()) for file in (ROOT / "docs").rglob("*.md"))
    print(f"docs: {words:,} words")
    with tempfile.TemporaryDirectory() as directory:
        for name, call in calls(Path(directory)).items():
            call()  # Fill the caches first.
            modules = traced(call)
            print(f"{name}: {len(modules)} modules, {sum(modules.values())} functions")
            if options.modules:
                print("\n".join(f"  {count:4} {module}" for module, count in sorted(modules.items())))


if __name__ == "__main__":
    main()
