"""Figures, tables and RESULTS.md of the reproduction, drawn from invented results."""

from __future__ import annotations

import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.paper.figures import Scatter
from experiments.paper.grid import MINIATURE, QUICK, Cell, Grid, Sizes
from experiments.paper.report import DatasetFacts, Facts, write_results
from experiments.paper.tables import paper_times, times_table

SETS = {
    "kdd-protein": (DatasetFacts(title="KDD-Protein", n_rows=142_107), 7e6),
    "song-sample": (DatasetFacts(title="Song sample (25.3 % of rows)", n_rows=127_033), 6.7e6),
    "covertype": (DatasetFacts(title="Covertype", n_rows=566_486), 3.8e6),
    "ijcnn1": (DatasetFacts(title="Ijcnn1", n_rows=48_740), 1.26),
}
SIZES = Sizes(every=(5_000, 10_000, 20_000), shown=(5_000, 10_000, 20_000))


def invented(grid: Grid, sets: list[str], seed: int = 0) -> pd.DataFrame:
    """Plausible numbers for every cell of a grid."""
    rng = np.random.default_rng(seed)
    lines = []
    for name in sets:
        for cell in grid.cells(name, SIZES):
            for repetition in range(grid.repetitions_of(cell)):
                for measure, value in _numbers(cell, rng).items():
                    if measure != "expected_size" or repetition == 0:
                        lines.append(asdict(cell) | _line(repetition, measure, value))
    return pd.DataFrame(lines)


def _line(repetition: int, measure: str, value: float) -> dict[str, Any]:
    return {"repetition": repetition, "measure": measure, "value": value, "config": "test"}


def _numbers(cell: Cell, rng: np.random.Generator) -> dict[str, float]:
    facts, scale = SETS[cell.dataset]
    m = cell.sample_size or facts.n_rows
    rank = ("all rows", "constrained", "coreset", "uniform").index(cell.rule)
    jitter = float(rng.lognormal(sigma=0.1))
    if cell.kind == "coreset":
        return {"violation": 5.0 / math.sqrt(m) * (1 + rank) * jitter}
    if cell.kind == "time":
        lloyd = {"t_lloyd": 1e-4 * m * jitter}
        return lloyd if cell.rule == "all rows" else {"t_weights": 0.1 / rank, "t_sampling": 0.01} | lloyd
    noise = {"published": 2.5, "valid": 5.0, "ours-pure": 0.03, "ours": 0.005, "not-private": 0.0}[cell.family]
    excess = noise * (1 + rank) * (20_000 / m) ** 0.5 / math.sqrt(cell.epsilon)
    return {"cost": 0.1 * scale * (1 + excess * jitter) * (1 + 0.002 * jitter), "expected_size": float(m)}


def scatter() -> Scatter:
    rng = np.random.default_rng(0)
    background = rng.standard_normal((3000, 2)) * [2000.0, 700.0]
    samples = {}
    for name in ("unif", "core", "opt"):
        kept = background[rng.random(3000) < 0.1]
        weights = rng.uniform(5.0, 15.0, len(kept)) if name != "unif" else np.full(len(kept), 10.0)
        samples[name] = (kept, weights, rng.uniform(0.5, 3.0, len(kept)))
    return Scatter(title="Covertype, m = 300", background=background, samples=samples, epsilon=3.0)


def facts_of(grid: Grid, sets: list[str]) -> Facts:
    return Facts(
        grid_name=grid.name,
        repetitions=grid.repetitions,
        full_repetitions=grid.full_repetitions,
        time_repetitions=grid.time_repetitions,
        center_sets=grid.center_sets,
        minutes=12.0,
        datasets={name: SETS[name][0] for name in sets},
    )


def written(folder: Path, grid: Grid, sets: list[str]) -> str:
    frame = invented(grid, sets)
    write_results(
        frame, directory=folder, table_one_markdown="| set |\n|---|", scatter=scatter(), facts=facts_of(grid, sets)
    )
    return (folder / "RESULTS.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("sets", [["song-sample"], ["kdd-protein", "covertype", "ijcnn1"]], ids=["one", "three"])
def test_every_figure_is_drawn_and_referenced_and_no_number_is_missing(tmp_path: Path, sets: list[str]) -> None:
    text = written(tmp_path, MINIATURE, sets)
    referenced = re.findall(r"\]\((figures/[^)]+)\)", text)
    drawn = sorted(f"figures/{path.name}" for path in (tmp_path / "figures").iterdir())
    assert sorted(referenced) == drawn
    assert {"figures/figure-1.png", "figures/figure-3.png", "figures/figure-5.png"} <= set(drawn)
    assert ("figures/figure-7.png" in drawn) == ("ijcnn1" in sets)
    assert all((tmp_path / name).stat().st_size < 300_000 for name in drawn)
    assert ("`song-sample` is a subset" in text) == ("song-sample" in sets)
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", text)
    assert len(re.findall(r"!\[[^\]]{20,}\]\(figures/", text)) == len(referenced)


@pytest.mark.slow
def test_the_published_noise_is_never_named_without_its_warning(tmp_path: Path) -> None:
    text = written(tmp_path, QUICK, ["kdd-protein", "ijcnn1"])
    assert text.lower().count("as published") == text.lower().count("as published (no valid guarantee)") > 0
    tables = {path.name: path.read_text() for path in (tmp_path / "tables").iterdir()}
    lines = [line for table in tables.values() for line in table.splitlines() if "published" in line]
    assert lines
    assert all("no valid guarantee" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cost", "time"])
def test_results_of_one_kind_alone_still_make_a_report(tmp_path: Path, kind: str) -> None:
    frame = invented(MINIATURE, ["covertype"])
    write_results(
        frame[frame["kind"] == kind],
        directory=tmp_path,
        table_one_markdown="",
        scatter=None,
        facts=facts_of(MINIATURE, ["covertype"]),
    )
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "Not measured in this run." in text
    assert not re.search(r"\bnan\b", text)


def test_the_transcribed_times_give_the_percentages_the_paper_prints() -> None:
    paper = paper_times()
    full = paper[paper["sampling"] == "full"].set_index("dataset")["t_lloyd"]
    # The paper prints seconds in two digits: half a digit of a short run is a quarter of a percent of all rows.
    percent = 100.0 * paper["t_total"] / paper["dataset"].map(full)
    assert len(paper) == 128
    assert np.abs(percent - paper["relative_percent"]).max() < 0.25


def test_relative_times_are_compared_only_on_the_same_set() -> None:
    n_rows = {name: facts.n_rows for name, (facts, _) in SETS.items()}
    table = times_table(invented(MINIATURE, ["covertype", "song-sample"]), n_rows)
    sampled = table[table["rule"] != "all rows"]
    assert sampled.loc[sampled["dataset"] == "covertype", "relative_percent_in_paper"].notna().all()
    assert sampled.loc[sampled["dataset"] == "song-sample", "relative_percent_in_paper"].isna().all()
