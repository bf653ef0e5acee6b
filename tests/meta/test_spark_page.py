"""The code blocks of the guide to Spark run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SPARK

pytestmark = SPARK

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "spark.md"


def test_the_python_blocks_of_the_guide_to_spark_run_one_after_the_other(
    spark: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL):
        # Java does not follow the change of directory.
        exec(compile(block.replace('"rows"', repr(str(tmp_path / "rows"))), "spark.md", "exec"), names)
    printed = capsys.readouterr().out
    assert '"epsilon": 1.0' in printed
    assert "('position[0]', 'position[1]')" in printed
    assert '"note": "secure randomness"' in printed
    assert "ReadSchema: struct<height:double,width:double>" in printed
    assert names["stages"] == [1, 1]
