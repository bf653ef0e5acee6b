"""The README: its examples run, and it shows the two commands and a small picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_python_block_of_the_readme_runs(
    block: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert '"note": "secure randomness"' in printed
    assert '"epsilon": 1.0' in printed


def test_the_readme_shows_the_two_commands() -> None:
    assert "make demo" in README
    assert "make test" in README


def test_the_picture_is_small_and_has_a_script() -> None:
    (name,) = re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", README)
    assert (ROOT / name).stat().st_size < 150_000
    assert (ROOT / "benchmarks" / "picture.py").is_file()
