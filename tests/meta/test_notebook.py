"""The notebook in examples/ has the text and code of its guide, runs, and holds nothing of the machine it ran on."""

from __future__ import annotations

import getpass
import json
import os
import re
from pathlib import Path

import nbformat
import pytest

from examples.notebook import GUIDE, NOTEBOOK, cells_of, executed, notebook_of

ROOT = Path(__file__).parents[2]
STORED = nbformat.read(NOTEBOOK, as_version=4)


def test_the_notebook_has_the_text_and_code_of_the_guide() -> None:
    cells = [(cell.cell_type, cell.source) for cell in STORED.cells]
    assert cells == cells_of(GUIDE.read_text(encoding="utf-8")), "run `make notebook`"


def test_blocks_of_a_guide_become_cells() -> None:
    guide = (
        "# Title\n\nSee [limits](../../LIMITS.md) and [this](#top).\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n"
        "![A picture](x.png)\n\nIn a shell:\n\n```sh\npais demo\n```\n"
    )
    assert cells_of(guide) == [
        ("markdown", "# Title\n\nSee [limits](../docs/guide/../../LIMITS.md) and [this](#top)."),
        ("code", "print(1)"),
        ("markdown", "In a shell:\n\n```sh\npais demo\n```"),
    ]


def test_links_of_the_notebook_lead_to_files() -> None:
    for cell in STORED.cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", cell.source):
                assert (NOTEBOOK.parent / target).exists(), target


def test_the_stored_notebook_was_executed_in_order_and_shows_cards_tables_and_pictures() -> None:
    code = [cell for cell in STORED.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    kinds = [kind for output in outputs for kind in output.get("data", {})]
    assert kinds.count("image/png") >= 2
    assert kinds.count("text/html") >= 2


def test_the_stored_notebook_holds_nothing_of_the_machine_or_the_time() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    stored = json.loads(text)
    assert set(stored["metadata"]) == {"kernelspec", "language_info"}
    assert all(cell["metadata"] == {} for cell in stored["cells"])
    places = {str(ROOT), str(Path.home()), os.environ.get("TMPDIR", "/tmp/"), "site-packages", "/home/"}
    assert not [place for place in places if place in text]
    assert getpass.getuser() == "root" or getpass.getuser() not in text
    assert len(text) < 600_000


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    executed(notebook_of(GUIDE.read_text(encoding="utf-8")), tmp_path)
