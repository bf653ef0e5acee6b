"""The page of benchmarks is what the generator writes from the results, and names no place of the machine."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from benchmarks.blocks import all_targets
from benchmarks.page import PAGE, TEMPLATE, page, prose
from benchmarks.published import RESULTS, Published

FILES = [PAGE, *sorted(path for path in RESULTS.iterdir() if path.suffix in (".md", ".csv", ".json"))]


def test_the_page_is_what_the_generator_writes_from_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(Published()), "run python -m benchmarks.page"
    assert (RESULTS / "targets.md").read_text(encoding="utf-8") == all_targets(Published())


@pytest.mark.parametrize("path", [PAGE, TEMPLATE], ids=lambda path: path.name)
def test_prose_outside_of_blocks_has_no_numbers(path: Path) -> None:
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose(path.read_text(encoding="utf-8")))
    assert re.findall(r".*\d.*", text) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_results_name_no_place_and_no_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(^|[\s`'\"(])/(tmp|home|root|work|usr|var|opt|mnt|Users)\b", text)
    host = socket.gethostname()
    assert len(host) < 6 or host not in text
