"""What the README shows is run, and the numbers it states are those that come out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pais

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_python_block_of_the_readme_runs(
    block: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = np.random.default_rng(0).normal(size=(3, 30_000))
    pq.write_table(pa.table(dict(zip("abc", columns, strict=True))), "measurements.parquet")
    exec(compile(block, "README.md", "exec"), {})
    if "rows expected" in block:
        printed = capsys.readouterr().out
        stated = re.search(r"rows expected\"\)\s+# ([\d,]+)", block)
        assert stated
        assert f"{stated[1]} rows expected" in printed
        assert '"note": "secure randomness"' in printed
        assert '"epsilon": 1.0' in printed


def test_the_numbers_stated_beside_the_pieces_are_those_that_come_out() -> None:
    block = next(block for block in BLOCKS if "amplified_epsilon" in block)
    names: dict[str, object] = {}
    compared = 0
    for line in block.splitlines():
        code, _, comment = line.partition("#")
        stated = re.match(r" ([\d.e-]+)(?: and ([\d.]+))?", comment)
        if stated:
            value = eval(code, names)
            value = value.upper if isinstance(value, pais.WorstCase) else value
            expected = [float(number) for number in stated.groups() if number]
            assert np.atleast_1d(value) == pytest.approx(expected, rel=1e-3)
            compared += 1
        else:
            exec(code, names)
    assert compared == 5


def test_the_readme_shows_the_two_commands() -> None:
    assert "make demo" in README
    assert "make test" in README
