"""Every proof note, labelled line, test and stated guarantee refers to the others."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pais"
PLACE = ROOT / "docs" / "theory" / "notes"
INDEX = "README.md"

LABEL = r"[a-z]+(?:-[a-z]+)*-\d+"


def here(note: Path) -> bool:
    """Whether the module that a note says it speaks of is in this checkout."""
    spoken_of = re.findall(r"^Speaks of `([\w/.]+)`", note.read_text(), re.MULTILINE)
    return all((ROOT / path).is_file() for path in spoken_of)


NOTES = [note for note in sorted(PLACE.glob("*.md")) if note.name != INDEX]
READABLE = [note for note in NOTES if here(note)]


def labels_of_note(note: Path) -> list[str]:
    return re.findall(rf"`({LABEL})`", note.read_text())


@functools.cache
def labels_of_source() -> list[str]:
    return [
        label for path in sorted(SOURCE.rglob("*.py")) for label in re.findall(r"\[note: ([^\]]*)\]", path.read_text())
    ]


def named_tests(note: Path) -> list[tuple[str, str]]:
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", note.read_text())


@functools.cache
def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@functools.cache
def stated_guarantees() -> set[str]:
    """Full names of functions and classes whose docstring states a guarantee."""

    def within(node: ast.AST, name: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                if "Guarantee." in (ast.get_docstring(child) or ""):
                    yield f"{name}.{child.name}"
                yield from within(child, f"{name}.{child.name}")

    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if "Guarantee." in text:
            found |= set(within(ast.parse(text), ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)))
    return found


@functools.cache
def proved_guarantees() -> set[str]:
    """Full names that stand in the paragraph of a note that begins with "Holds for"."""
    paragraphs = [part for note in NOTES for part in re.findall(r"^Holds for (.*?)\n\n", note.read_text(), re.M | re.S)]
    return {name for part in paragraphs for name in re.findall(r"`(pais\.[\w.]+)`", part)}


@pytest.mark.parametrize("note", READABLE, ids=lambda note: note.stem)
def test_every_label_that_a_note_names_is_in_the_source(note: Path) -> None:
    assert set(labels_of_note(note)) <= set(labels_of_source())


def test_every_label_in_the_source_is_explained_by_a_note_and_is_there_once() -> None:
    found = labels_of_source()
    assert sorted(found) == sorted(set(found)), "a label stands at one line"
    explained = {label for note in READABLE for label in labels_of_note(note)}
    assert set(found) - explained == set()


@pytest.mark.parametrize("note", READABLE, ids=lambda note: note.stem)
def test_every_test_that_a_note_names_exists(note: Path) -> None:
    for file, name in named_tests(note):
        assert (ROOT / file).is_file(), f"{note.name} names {file}"
        assert name in functions_of(ROOT / file), f"{note.name} names {file}::{name}"


@pytest.mark.parametrize("note", READABLE, ids=lambda note: note.stem)
def test_every_note_states_assumes_proves_and_names_a_test(note: Path) -> None:
    text = note.read_text()
    for part in ("**Statement.**", "**Assumes.**"):
        assert part in text, f"{note.name} has no {part}"
    assert named_tests(note), f"{note.name} names no test"


@pytest.mark.parametrize("name", sorted(stated_guarantees()))
def test_every_guarantee_of_a_docstring_has_a_note(name: str) -> None:
    assert name in proved_guarantees()


def test_every_proved_statement_is_in_a_docstring() -> None:
    assert proved_guarantees() <= stated_guarantees()


def test_every_note_is_in_the_index_and_in_the_map() -> None:
    index, overview = (PLACE / INDEX).read_text(), (PLACE.parent / "map.md").read_text()
    for note in NOTES:
        assert f"({note.name})" in index
        assert f"(notes/{note.name})" in overview, f"{note.name} is not linked from the map"


def test_note_checks_find_labels_and_guarantees() -> None:
    assert re.fullmatch(LABEL, "worst-case-12")
    assert not re.fullmatch(LABEL, "1e-6")
    assert "pais.privacy.certify.worst_case" in stated_guarantees()
    assert len(labels_of_source()) > 50
