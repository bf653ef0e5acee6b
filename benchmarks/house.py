"""How hard the code is to take over: rooms and edges crossed by a call, lengths, repeated certifying.

Run ``python -m benchmarks.house`` before and after a change of structure: the numbers should fall. Seeded results must
stay the same to the bit, which `tests.support.same_results` checks. A room is a top-level module or subpackage of
`pais`.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

SOURCE = Path(__file__).parents[1] / "src" / "pais"
LONG_MODULE, MANY_PARAMETERS = 350, 8


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def functions() -> Iterator[tuple[Path, ast.FunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield path, node


def length(node: ast.FunctionDef) -> int:
    """Lines of a function without its docstring."""
    documented = ast.get_docstring(node, clean=False) is not None
    body = node.body[1:] if documented else node.body
    if not body:
        return 1
    head = node.body[0].lineno - node.lineno
    return head + (node.end_lineno or 0) - body[0].lineno + 1


def two_way_pairs() -> list[str]:
    """Pairs of rooms that import from each other."""
    edges = set()
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pais") and own != "__init__":
                names = [node.module] if node.module != "pais" else [f"pais.{name.name}" for name in node.names]
                edges |= {(own, room(str(name))) for name in names}
    return sorted(f"{lower}/{upper}" for lower, upper in edges if lower < upper and (upper, lower) in edges)


def static() -> dict[str, Any]:
    lines = {str(path.relative_to(SOURCE)): path.read_text().count("\n") for path in SOURCE.rglob("*.py")}
    lengths = sorted(length(node) for _, node in functions())
    crowded = []
    for path, node in functions():
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        count = len([name for name in names if name not in ("self", "cls")])
        if count > MANY_PARAMETERS:
            crowded.append(f"{path.relative_to(SOURCE)}:{node.name} ({count})")
    return {
        "lines of src": sum(lines.values()),
        "modules": len(lines),
        "rooms": len({name.split("/")[0] for name in lines}),
        f"modules above {LONG_MODULE} lines": sorted(name for name, n in lines.items() if n > LONG_MODULE),
        "two-way pairs of rooms": two_way_pairs(),
        "functions": len(lengths),
        "median function length": statistics.median(lengths),
        "p90 function length": lengths[int(0.9 * len(lengths))],
        f"functions with more than {MANY_PARAMETERS} parameters": sorted(crowded),
    }


def crossed(call: Callable[[], object]) -> dict[str, Any]:
    """Rooms entered, edges between rooms, and how often the worst case was computed, while `call` runs."""
    edges: set[tuple[str, str]] = set()
    certified = {"worst_case": 0, "worst_case_if_kept": 0}

    def profile(frame: Any, event: str, _: object) -> None:
        if event != "call":
            return
        here = str(frame.f_globals.get("__name__", ""))
        if not here.startswith("pais."):
            return
        if frame.f_code.co_name in certified:
            certified[frame.f_code.co_name] += 1
        caller = "" if frame.f_back is None else str(frame.f_back.f_globals.get("__name__", ""))
        if caller.startswith("pais.") and room(caller) != room(here):
            edges.add((room(caller), room(here)))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    rooms = {name for edge in edges for name in edge}
    return {"rooms": len(rooms), "edges": len(edges), "names": sorted(rooms), **certified}


def table(n: int = 60_000, d: int = 5) -> np.ndarray[Any, np.dtype[np.float64]]:
    rng = np.random.default_rng(7)
    centers = rng.normal(scale=4.0, size=(6, d))
    return np.asarray(centers[rng.integers(6, size=n)] + rng.normal(size=(n, d)))


def files(directory: Path) -> tuple[Path, Path]:
    rows = table()
    columns = pa.table([pa.array(column) for column in rows.T], names=[f"x{i}" for i in range(rows.shape[1])])
    pq.write_table(columns, directory / "rows.parquet", row_group_size=7_000)
    pa_csv.write_csv(columns, directory / "rows.csv")
    return directory / "rows.parquet", directory / "rows.csv"


def calls(directory: Path) -> dict[str, Any]:
    from typer.testing import CliRunner

    import pais
    from pais.cli import app

    rows, (parquet, _) = table(), files(directory)
    facts = pais.survey(rows, epsilon=0.1, random_state=1)
    plan = pais.plan_kmeans(n_clusters=6, n_features=5, epsilon=1.0, ball=facts.ball, norms=facts.norms)
    pais.DPKMeans(n_clusters=6, epsilon=1.0, random_state=3).fit(rows)  # Fill the caches first.
    command = ["kmeans", str(parquet), "--n-clusters", "6", "--epsilon", "1", "--seed", "3", "--out"]
    return {
        "fit": crossed(lambda: pais.DPKMeans(n_clusters=6, epsilon=1.0, random_state=3).fit(rows)),
        "run": crossed(lambda: pais.run(plan, rows, random_state=3)),
        "pais kmeans": crossed(lambda: CliRunner().invoke(app, [*command, str(directory / "out")])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        report = {
            "house": static(),
            "calls": calls(Path(directory)),
        }
    text = json.dumps(report, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
