"""`make bench` on small rows: every line has a ratio, its spread and a verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import speed
from benchmarks.published import Published
from benchmarks.targets import targets


def test_lines_have_ratios_with_a_spread_and_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "BLOBS", (2_000, 4))
    monkeypatch.setattr(speed, "SMALL", (500, 3))
    monkeypatch.setattr(speed, "KERNEL_ROWS", (30_000, 6))
    monkeypatch.setattr(speed, "SAMPLE_SIZE", 1_000)
    monkeypatch.setattr(speed, "TURNS", dict.fromkeys(speed.TURNS, 2))
    monkeypatch.setattr(sys, "argv", ["speed", "--only", "blobs", "small", "kernels", "--out", str(tmp_path)])
    speed.main()
    published = Published(directory=tmp_path)
    rows = published.rows("speed")
    assert len(rows) == 9
    for row in rows:
        low, high = map(float, row["quartiles"].replace(",", "").split(" to "))
        assert low * 0.99 <= float(row["ratio"]) <= high * 1.01
        assert row["result"] in ("met", "missed", "reported")
    # The passes against bare norms and the weights in closed form have no target.
    assert len(targets(published)) == 6
    assert [row["job"] for row in rows if not row["target"]] == [
        "thinning pass",
        "blocked pass",
        "weights, closed form",
    ]


def test_the_stated_radius_is_the_largest_distance_from_the_center() -> None:
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    center = rows.mean(axis=0)
    assert speed.stated_facts(rows, center)["radius"] == pytest.approx(np.linalg.norm(rows - center, axis=1).max())
