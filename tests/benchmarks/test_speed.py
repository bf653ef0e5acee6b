"""`make bench` on small rows: every line has a ratio, its spread and a verdict."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

from benchmarks import speed


def test_lines_have_ratios_with_a_spread_and_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "BLOBS", (2_000, 4))
    monkeypatch.setattr(speed, "SMALL", (500, 3))
    monkeypatch.setattr(speed, "KERNEL_ROWS", (30_000, 6))
    monkeypatch.setattr(speed, "SAMPLE_SIZE", 1_000)
    monkeypatch.setattr(speed, "TURNS", dict.fromkeys(speed.TURNS, 2))
    options = argparse.Namespace(only=["blobs", "small", "kernels"], factor=1)
    with Progress(console=Console(quiet=True)) as progress:
        (table,) = speed.tables(options, progress)
    assert len(table.rows) == 9
    for row in table.rows:
        low, high = map(float, str(row["quartiles"]).replace(",", "").split(" to "))
        assert low * 0.99 <= float(str(row["ratio"])) <= high * 1.01
        assert row["result"] == (
            "reported" if row["target"] is None else "met" if row["ratio"] <= row["target"] else "missed"
        )
    # The passes against bare norms and the weights in closed form have no target.
    without = ["thinning pass", "blocked pass", "weights, closed form"]
    assert [row["job"] for row in table.rows if row["target"] is None] == without


def test_the_stated_radius_is_the_largest_distance_from_the_center() -> None:
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    center = rows.mean(axis=0)
    assert speed.stated_facts(rows, center)["radius"] == pytest.approx(np.linalg.norm(rows - center, axis=1).max())
