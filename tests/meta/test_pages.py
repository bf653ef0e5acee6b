"""What the pages show is run, page by page, and what they say is printed is printed."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

#: Pages whose blocks speak to Spark.
NEEDS_SPARK = {"docs/guide/spark.md"}

#: Pages, or directories of them, that have a test of their own, which knows what their blocks need.
HELD_BY = {"README.md": "tests/meta/test_readme.py", "docs/guide/": "tests/meta/test_guides.py"}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def held_elsewhere(name: str) -> bool:
    return any(name.startswith(part) and (ROOT / test).is_file() for part, test in HELD_BY.items())


def spark_is_missing() -> bool:
    return importlib.util.find_spec("pyspark") is None or shutil.which("java") is None


RUN_HERE = [page for page in PAGES if blocks(page, "python") and not held_elsewhere(name_of(page))]


@pytest.mark.parametrize("page", RUN_HERE, ids=name_of)
def test_every_python_block_of_a_page_runs_after_those_before_it(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name_of(page) in NEEDS_SPARK and spark_is_missing():
        pytest.skip("needs pyspark and Java")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    printed = capsys.readouterr().out
    for shown in [*blocks(page, "text"), *blocks(page, "json")]:
        assert shown in printed, f"{page.name} shows what its blocks do not print"


def test_every_page_with_python_is_run_by_some_test() -> None:
    with_python = {name_of(page) for page in PAGES if blocks(page, "python")}
    assert "docs/guide/choose-a-rule.md" in with_python
    for name in with_python - {name_of(page) for page in RUN_HERE}:
        assert held_elsewhere(name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_fences_of_a_page_are_closed_and_python_goes_by_one_name(page: Path) -> None:
    fences = re.findall(r"^```(\w*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(fences) % 2 == 0
    assert all(closing == "" for closing in fences[1::2])
    # Under another name a block would not be run.
    assert not set(fences) & {"py", "python3", "pycon", "Python"}


def test_the_security_page_says_who_sees_what_and_how_to_report() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for part in ("## Who sees what", "## The adversary", "## What is promised", "## What is not promised"):
        assert part in text
    for part in ("## Assumptions", "## Side channels", "## Reporting", "## Supported versions"):
        assert part in text
