"""Write docs/benchmarks.md from the results on disk.

``python -m benchmarks.page`` fills the blocks of ``benchmarks/page.md``, which has no measured number, and writes
``benchmarks/results/targets.md``, the list of all targets. It prints the commits of the tables, and exits with 1 if
there is more than one. Tables that are measured apart because they take long are not counted.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from benchmarks.blocks import BLOCKS, all_targets
from benchmarks.published import LONG_TABLES, RESULTS, Published
from benchmarks.state import ROOT

TEMPLATE = ROOT / "benchmarks" / "page.md"
PAGE = ROOT / "docs" / "benchmarks.md"
_BLOCK = re.compile(r"<!-- block: ([\w-]+) -->")


def page(published: Published) -> str:
    """The whole page."""
    return _BLOCK.sub(
        lambda block: f"<!-- begin: {block[1]} -->\n{BLOCKS[block[1]](published)}<!-- end -->",
        TEMPLATE.read_text(encoding="utf-8"),
    )


def prose(text: str) -> str:
    """What a page has outside its blocks."""
    return re.sub(r"<!-- begin: ([\w-]+) -->\n.*?<!-- end -->", "", text, flags=re.DOTALL)


def write(published: Published, place: Path) -> None:
    (published.directory / "targets.md").write_text(all_targets(published), encoding="utf-8")
    place.write_text(page(published), encoding="utf-8")


def main() -> int:
    published = Published(directory=RESULTS)
    write(published, PAGE)
    by_commit: dict[str, list[str]] = {}
    for name in published.names():
        if name not in LONG_TABLES:
            by_commit.setdefault(published.state(name).commit, []).append(name)
    del by_commit["unknown"]
    for commit, names in by_commit.items():
        sys.stdout.write(f"{commit}: {', '.join(names)}\n")
    return int(len(by_commit) > 1)


if __name__ == "__main__":
    raise SystemExit(main())
