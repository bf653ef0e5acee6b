"""The study from end to end in miniature, on the bundled sample: interrupted, continued, reported."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from experiments.paper.datasets import BUNDLED
from experiments.paper.grid import Cell, Grid
from experiments.paper.results import Measured, Results
from experiments.paper.study import Study, measured
from pais.errors import MismatchError

TINY = Grid(
    name="tiny",
    epsilons=(10.0,),
    size_epsilons=(10.0,),
    repetitions=1,
    full_repetitions=1,
    time_repetitions=1,
    center_sets=4,
    most_sizes=1,
)


def some_cell(epsilon: float = 1.0) -> Cell:
    return Cell(
        kind="cost",
        dataset="some",
        family="valid",
        start="rows",
        rule="uniform",
        sample_size=None,
        epsilon=epsilon,
    )


ONE = [Measured(repetition=0, measure="cost", value=2.5)]


def test_saved_results_are_found_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    cells = [some_cell(epsilon) for epsilon in (1.0, 3.0, math.inf)]
    results = Results(path, {"some": "first"})
    results.add(cells[0], ONE)
    results.add(cells[2], ONE)
    results.save()
    again = Results(path, {"some": "first"})
    assert again.missing(cells) == [cells[1]]
    assert again.frame()["value"].tolist() == [2.5, 2.5]


def test_results_of_another_configuration_are_never_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    results = Results(path, {"some": "first"})
    results.add(some_cell(), ONE)
    results.save()
    with pytest.raises(MismatchError, match="another configuration"):
        Results(path, {"some": "second"})
    # Another data set may join in.
    Results(path, {"other": "second"})


def study(work: Path) -> Study:
    return measured(TINY, directories=[], work=work, keys=[BUNDLED], fresh=False, console=Console(quiet=True))


@pytest.mark.slow
def test_the_command_makes_results_tables_and_figures_in_miniature(tmp_path: Path) -> None:
    """`make paper-quick` on one set, smaller still; where no data set is at hand the bundled sample serves."""
    words = ["--grid", "miniature", "--data", str(tmp_path), "--work", str(tmp_path / "work")]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.paper", *words, "--out", str(tmp_path / "report")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Covertype: not found, left out. Offered by" in done.stdout
    text = (tmp_path / "report" / "RESULTS.md").read_text()
    assert "no valid guarantee" in text
    assert "subset" in text
    for name in re.findall(r"\]\(((?:figures|tables)/[^)]+)\)", text):
        assert (tmp_path / "report" / name).is_file(), name
    costs = (tmp_path / "report" / "tables" / "costs.csv").read_text()
    assert "published" in costs
    assert pq.read_table(tmp_path / "work" / "results.parquet").num_rows > 100


@pytest.mark.slow
def test_an_interrupted_run_continues_where_it_was_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = study(tmp_path / "whole").results.frame()
    add = Results.add

    def interrupted(self: Results, cell: Cell, found: Iterable[Measured]) -> None:
        add(self, cell, found)
        if len(self.frame()) > 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Results, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            study(tmp_path / "parts")
    kept = pq.read_table(tmp_path / "parts" / "results.parquet").num_rows
    assert 5 < kept < len(whole)
    continued = study(tmp_path / "parts")
    frame = continued.results.frame()
    assert continued.cells < len(whole)
    key = ["kind", "family", "start", "rule", "sample_size", "epsilon", "repetition", "measure"]
    timed = ["t_weights", "t_sampling", "t_lloyd"]

    def settled(lines: object) -> list[float]:
        ordered = lines[~lines["measure"].isin(timed)].sort_values(key)  # type: ignore[index]  # a pandas frame
        return list(ordered["value"])

    assert len(frame) == len(whole)
    assert settled(frame) == settled(whole)
    assert study(tmp_path / "parts").cells == 0
