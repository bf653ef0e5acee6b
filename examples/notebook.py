"""Write examples/segments.ipynb from the guide docs/guide/segments.md, executed, with its outputs.

``python -m examples.notebook`` writes it in about half a minute. The guide is the source: its text becomes cells of
text, its Python blocks become cells of code. Blocks that show printed text, and pictures, are left out, because the
notebook shows its outputs. Commands for the shell stay text.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide" / "segments.md"
NOTEBOOK = Path(__file__).with_name("segments.ipynb")

# Where the pages of the guide are, seen from the notebook.
_HOME = "../docs/guide/"

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```\n", flags=re.DOTALL | re.MULTILINE)
_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n", flags=re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


def cells_of(guide: str) -> list[tuple[str, str]]:
    """Return the kind, "markdown" or "code", and the text of each cell."""
    cells: list[tuple[str, str]] = []
    text, end = "", 0
    for block in _FENCE.finditer(guide):
        text += guide[end : block.start()]
        end = block.end()
        language, code = block.groups()
        if language == "python":
            cells += [("markdown", _as_text(text)), ("code", code.strip())]
            text = ""
        elif language != "text":
            text += block.group()
    cells.append(("markdown", _as_text(text + guide[end:])))
    return [(kind, source) for kind, source in cells if source]


def _as_text(markdown: str) -> str:
    without_pictures = _PICTURE.sub("", markdown)
    lines = re.sub(r"\n{3,}", "\n\n", _LINK.sub(rf"]({_HOME}\1)", without_pictures))
    return lines.strip()


def notebook_of(guide: str) -> Any:
    """Return the notebook of a guide, not yet executed. Nothing in it depends on the machine or the time."""
    cells = []
    for number, (kind, source) in enumerate(cells_of(guide)):
        new_cell = new_code_cell if kind == "code" else new_markdown_cell
        cells.append(new_cell(source, id=f"cell-{number:02d}"))
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": python, "language_info": {"name": "python"}})


def executed(notebook: Any, folder: Path) -> Any:
    """Run all cells in a folder, and keep the outputs and nothing else. Raises if a cell does."""
    metadata = notebook.metadata.copy()
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    notebook.metadata = metadata
    for cell in notebook.cells:
        cell.metadata = {}
    return notebook


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=NOTEBOOK, help="file to write")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        notebook = executed(notebook_of(GUIDE.read_text(encoding="utf-8")), Path(folder))
    nbformat.validate(notebook)
    nbformat.write(notebook, out)


if __name__ == "__main__":
    main()
