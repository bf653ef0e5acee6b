"""What the site has beyond the pages of docs/: pages of the repository's root, the reference, and the navigation.

A page that does not exist is left out of the navigation, and a page that nobody placed comes last in its section.
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

#: Pages of the repository that lie outside docs/, and where the site has them.
OUTSIDE = {
    "README.md": "index.md",
    "LIMITS.md": "limits.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
}

GUIDES = [
    "segments",
    "means-and-counts",
    "people",
    "read-a-file",
    "regression",
    "classification",
    "pca",
    "training",
    "training-torch",
    "training-jax",
    "command-line",
    "studio",
    "choose-epsilon-and-size",
    "read-a-certificate",
    "ledger",
    "large-data",
    "spark",
    "bring-your-own-mechanism",
    "audit",
    "reproduce-the-paper",
]
THEORY = ["map", "errata", "first-crossing"]


# The reference begins with the room that most readers look for.
FIRST_ROOM = "kmeans"


def public_names() -> dict[str, list[str]]:
    """Paths such as `pais.data.ball.Ball` of all public names, by room, read from the source without importing it."""
    rooms: dict[str, list[str]] = {}
    for node in imports("__init__.pyi"):
        if node.module is None:  # a room that is public as a whole, such as pais.training
            for alias in node.names:
                inside = imports(f"{alias.name}/__init__.py")
                rooms[alias.name] = [f"{one.module}.{name.name}" for one in inside for name in one.names]
            continue
        room = node.module.split(".")[0].strip("_")
        rooms.setdefault(room, []).extend(f"pais.{node.module}.{alias.name}" for alias in node.names)
    ordered_rooms = sorted(rooms.items(), key=lambda item: (item[0] != FIRST_ROOM, item[0]))
    return {room: sorted(paths, key=lambda path: path.rpartition(".")[2]) for room, paths in ordered_rooms}


def imports(path: str) -> list[ast.ImportFrom]:
    """The imports of a module of the package, read without importing it."""
    tree = ast.parse((ROOT / "src" / "pais" / path).read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, ast.ImportFrom)]


def sentence_of(room: str) -> str:
    """The first line of a room's docstring."""
    for path in (f"{room}.py", f"{room}/__init__.py", f"_{room}.py", f"_{room}/__init__.py"):
        if (ROOT / "src" / "pais" / path).is_file():
            docstring = ast.get_docstring(ast.parse((ROOT / "src" / "pais" / path).read_text(encoding="utf-8"))) or ""
            first = re.sub(r"^Room \d+: ", "", docstring.partition("\n")[0])
            return first[:1].upper() + first[1:]
    return ""


def reference_page(room: str, paths: list[str]) -> str:
    return f"# {room}\n\n{sentence_of(room)}\n\n" + "\n".join(f"::: {path}\n" for path in paths)


def reference_index(rooms: dict[str, list[str]]) -> str:
    lines = [
        "# Reference",
        "",
        "Every public name, by the room it comes from. Names of `training` are imported",
        "from `pais.training`, all others from `pais`.",
        "",
    ]
    lines += ["| room | names |", "|---|---|"]
    for room, paths in rooms.items():
        names = ", ".join(f"`{path.rpartition('.')[2]}`" for path in paths)
        lines.append(f"| [{room}]({room}.md) | {names} |")
    return "\n".join(lines) + "\n"


def measured() -> dict[str, str]:
    """Tables that benchmarks wrote, and where the site has them."""
    found = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    return {path.relative_to(ROOT).as_posix(): f"measured/{path.name}" for path in found}


def generated() -> dict[str, str]:
    """Pages that are not files of docs/: where the site has them, and their text."""
    rooms = public_names()
    outside = {place: (ROOT / path).read_text(encoding="utf-8") for path, place in {**OUTSIDE, **measured()}.items()}
    pages = {f"reference/{room}.md": reference_page(room, paths) for room, paths in rooms.items()}
    return {**outside, "reference/index.md": reference_index(rooms), **pages}


def ordered(section: str, first: list[str]) -> list[str]:
    """Pages of a section in a given order, those that are missing left out, all others after them."""
    there = sorted(path.stem for path in (DOCS / section).glob("*.md"))
    names = [name for name in first if name in there] + [name for name in there if name not in first]
    return [f"{section}/{name}.md" for name in names]


def navigation() -> list[Any]:
    notes = [path for path in ordered("theory/notes", []) if not path.endswith("/README.md")]
    results = ordered("results", ["RESULTS"])
    benchmarks = ["benchmarks.md", *measured().values()]
    rooms = [f"reference/{room}.md" for room in public_names()]
    found: list[Any] = [
        {"Start": "index.md"},
        {"Guide": ordered("guide", GUIDES)},
        {"Theory": [*ordered("theory", THEORY), {"Notes": ["theory/notes/README.md", *notes]}]},
        {"Reference": ["reference/index.md", *rooms]},
    ]
    if results:
        found.append({"Results": results})
    return [
        *found,
        {"Benchmarks": benchmarks},
        {"Limits": "limits.md"},
        {"Security": "security.md"},
        {"Architecture": ["architecture.md", "contributing.md"]},
        {"Changelog": "changelog.md"},
    ]


def on_config(config: Any) -> Any:
    config.nav = navigation()
    return config


def on_files(files: Files, config: Any) -> Files:
    # Here, so that what this module says of pages can be asked without the builder.
    from mkdocs.structure.files import File

    for place, text in generated().items():
        files.append(File.generated(config, place, content=text))
    return files


def in_site(path: str) -> str | None:
    """Where the site has a file of the repository; None where it has not."""
    moved = {**OUTSIDE, **measured()}.get(path)
    if moved is not None:
        return moved
    return path.removeprefix("docs/") if path.startswith("docs/") and (ROOT / path).is_file() else None


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links and images that name files of the repository, as links within the site.

    A link to a file that the site does not have becomes the text of the link and the path of the file.
    """
    place = page.file.src_uri
    home = {site: path for path, site in {**OUTSIDE, **measured()}.items()}.get(place, f"docs/{place}")
    if place.startswith("reference/"):
        return markdown

    def moved(match: re.Match[str]) -> str:
        mark, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        if "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(home), target))
        found = in_site(path)
        if found is None:
            return text if text.strip("`") == path else f"{text} (`{path}`)"
        return f"{mark}[{text}]({os.path.relpath(found, posixpath.dirname(place) or '.')}{anchor})"

    pieces = re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE)
    outside_of_code = r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)"
    return "".join(piece if piece.startswith("```") else re.sub(outside_of_code, moved, piece) for piece in pieces)
