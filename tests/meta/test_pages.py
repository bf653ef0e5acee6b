"""The code blocks of the pages run and print what the pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

#: Pages, or directories of them, and the test that runs their blocks.
HELD_BY = {
    "README.md": "tests/meta/test_readme.py",
    "docs/guide/spark.md": "tests/meta/test_spark_page.py",
    "docs/guide/training-torch.md": "tests/unit/training/test_torch.py",
    "docs/guide/training-jax.md": "tests/unit/training/test_jax.py",
    "docs/guide/": "tests/meta/test_guides.py",
}

#: What only sets up, or takes an hour: shown, and run by hand.
SHOWN = ("make ", "pip install ", "python -m experiments.paper ")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_code_is_run_by_a_test_and_the_others_only_set_up(page: Path) -> None:
    if blocks(page, "python") or blocks(page, "sh"):
        homes = [test for part, test in HELD_BY.items() if name_of(page).startswith(part)]
        assert homes
        assert (ROOT / homes[0]).is_file()
    for block in blocks(page, "bash"):
        for line in block.splitlines():
            assert line.startswith(SHOWN), line


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_fences_of_a_page_are_closed_and_python_goes_by_one_name(page: Path) -> None:
    fences = re.findall(r"^```(\w*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(fences) % 2 == 0
    assert all(closing == "" for closing in fences[1::2])
    # Under another name a block would not be run.
    assert set(fences[::2]) <= {"python", "sh", "bash", "text", "json", "mermaid"}


def test_the_security_page_says_who_sees_what_and_how_to_report() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for part in ("## Who sees what", "## The adversary", "## What is promised", "## What is not promised"):
        assert part in text
    for part in ("## Assumptions", "## Side channels", "## Reporting", "## Supported versions"):
        assert part in text


def test_every_limit_has_a_severity_and_advice() -> None:
    rows = re.findall(r"^\| \*\*(.*)$", (ROOT / "LIMITS.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    weights = [row.split(" | ")[1] for row in rows]
    assert set(weights) == {"critical", "theoretical", "negligible"}
    for row, weight in zip(rows, weights, strict=True):
        remedy = row.split(" | ")[2].rstrip(" |")
        assert remedy != "—" or weight == "negligible", row
