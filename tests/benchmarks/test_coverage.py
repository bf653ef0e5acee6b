"""The tables of coverage: a stopped run goes on where it ended, and cells that are not clear have more runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import coverage, coverage_models
from benchmarks.coverage import cells, measured_cells


class Pool:
    """Measures in this process."""

    def __init__(self, processes: int) -> None: ...

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *problem: object) -> None: ...

    map = staticmethod(map)


def test_cells_are_measured_once_for_the_same_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []

    def measured(cell: Any, n_seeds: int) -> dict[str, Any]:
        done.append(cell)
        return {"statistic": cell.statistic, "epsilon": cell.epsilon, "runs": n_seeds}

    monkeypatch.setattr(coverage, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(coverage, "measured", measured)
    chosen, store = list(cells())[:6], tmp_path / "new" / "cells.jsonl"
    stopped = measured_cells(chosen, 3, 1, store)
    first = [next(stopped) for _ in range(4)]
    stopped.close()
    rows = list(measured_cells(chosen, 3, 1, store))
    assert rows[:4] == first
    assert [row["epsilon"] for row in rows] == [cell.epsilon for cell in chosen]
    assert done == chosen
    assert len(list(measured_cells(chosen, 3, 1, store))) == len(store.read_text(encoding="utf-8").splitlines()) == 6
    assert done == chosen
    # Other seeds or other sources are another table.
    list(measured_cells(chosen[:1], 4, 1, store))
    monkeypatch.setattr(coverage, "sources", lambda: "changed")
    list(measured_cells(chosen[:1], 3, 1, store))
    assert done == [*chosen, chosen[0], chosen[0]]
    assert json.loads(store.read_text(encoding="utf-8").splitlines()[-1])["state"] == "changed, 3 seeds"


def test_a_cell_of_a_model_has_more_fits_if_its_first_ones_leave_the_coverage_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = replace(coverage_models.noise_columns(2000), null=())
    sure = coverage_models._row("linear", known, 5.0, 4)
    assert (sure["fits"], sure["least coverage"]) == (4, 1.0)
    monkeypatch.setattr(coverage_models, "CLEAR", 1.1)
    assert coverage_models._row("linear", known, 5.0, 4)["fits"] == 10
    # False claims are rare, so columns without effect have more fits in any case.
    assert coverage_models._row("linear", coverage_models.noise_columns(200), 5.0, 4)["fits"] == 24
