"""The site: every page in its navigation, every public name in its reference, nothing loaded from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import pais

ROOT = Path(__file__).parents[2]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = loaded()


def pages_in(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for inner in part.values():
            yield from pages_in(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from pages_in(inner)


def rewritten(text: str, place: str) -> str:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=place))
    result: str = HOOKS.on_page_markdown(text, page, None, None)
    return result


def test_the_reference_lists_every_public_name_once() -> None:
    rooms = HOOKS.public_names()
    training = [path.rpartition(".")[2] for path in rooms.pop("training")]
    names = [path.rpartition(".")[2] for paths in rooms.values() for path in paths]
    assert sorted([*names, "training"]) == sorted(pais.__all__)
    assert sorted(training) == sorted(pais.training.__all__)


def test_the_reference_begins_with_the_estimator_and_the_guides_with_segments() -> None:
    room, paths = next(iter(HOOKS.public_names().items()))
    assert (room, paths[0].rpartition(".")[2]) == ("kmeans", "DPKMeans")
    assert HOOKS.ordered("guide", HOOKS.GUIDES)[0] == "guide/segments.md"


def test_every_page_is_in_the_navigation_once() -> None:
    placed = list(pages_in(HOOKS.navigation()))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(placed) == sorted(written | set(HOOKS.generated()))


def test_pages_that_are_missing_are_left_out_and_new_ones_come_last() -> None:
    found = HOOKS.ordered("theory", ["errata", "no-such-page"])
    assert found[0] == "theory/errata.md"
    assert "theory/no-such-page.md" not in found
    assert "theory/first-crossing.md" in found[1:]


def test_site_links_resolve_or_become_text() -> None:
    assert rewritten("[limits](../../LIMITS.md#top)", "guide/x.md") == "[limits](../limits.md#top)"
    assert rewritten("[first](docs/guide/segments.md)", "index.md") == "[first](guide/segments.md)"
    assert rewritten("[code](../../src/pais/data/ball.py)", "guide/x.md") == "code (`src/pais/data/ball.py`)"
    assert rewritten("[CITATION.cff](CITATION.cff)", "index.md") == "CITATION.cff"
    assert rewritten("[away](https://example.org)", "index.md") == "[away](https://example.org)"
    code = "```text\n[a](../../LIMITS.md)\n```"
    assert rewritten(code, "guide/x.md") == code


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings_handlers")),
    reason="needs the extra pais[docs], which is too large for every run of the tests; make docs builds the same",
)
def test_site_builds_without_warnings_and_external_resources(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    for room, paths in HOOKS.public_names().items():
        text = (site / "reference" / f"{room}.html").read_text(encoding="utf-8")
        for path in paths:
            name = path.rpartition(".")[2]
            assert re.search(rf'id="pais\.[\w.]*\b{name}"', text), f"{path} has no entry"
    for page in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?//', text), page.name
        assert not re.search(r"""(?:url\(|@import )["']?(?:https?:)?//""", text), page.name
