"""The code blocks of the Spark guide run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SPARK

pytestmark = SPARK

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "spark.md").read_text()


def test_the_python_blocks_of_the_guide_to_spark_run_one_after_the_other(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "spark.md", "exec"), names)
    printed = capsys.readouterr().out
    assert '"epsilon": 1.0' in printed
    assert "('position[0]', 'position[1]')" in printed
    assert '"note": "secure randomness"' in printed
