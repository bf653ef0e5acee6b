"""Rules of the house that a program can see."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pais

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pais"

# From the lowest room to the highest: a module imports only from rooms before its own.
ROOMS = [
    "_version",
    "errors",
    "_base",
    "privacy",
    "data",
    "mechanisms",
    "accounting",
    "planning",
    "pipeline",
    "show",
    "estimator",
    "kmeans",
    "pca",
    "linear",
    "logistic",
    "statistics",
    "training",
    "auditing",
    "studio",
    "cli",
    "__main__",
]
OPTIONAL = {
    "matplotlib",
    "pyspark",
    "pandas",
    "polars",
    "opendp",
    "dp_accounting",
    "starlette",
    "uvicorn",
    "torch",
    "opacus",
    "jax",
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@functools.cache
def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "pais" else {node.module}
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_rooms_below_it(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    assert room in ROOMS, f"{room} has no place in the order of rooms"
    for name in imported(path):
        if name.startswith("pais."):
            other = name.split(".")[1]
            assert ROOMS.index(other) <= ROOMS.index(room), f"{room} imports from {other}"


#: The rooms of the models, which know nothing of each other. Both regressions describe coefficients in the same way.
MODELS = {"kmeans", "pca", "linear", "logistic", "statistics", "training"}
SHARED = {("logistic", "linear")}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_model_room_imports_from_no_other_model_room(path: Path) -> None:
    room = room_of(path)
    others = {name.split(".")[1] for name in imported(path) if name.startswith("pais.")} & MODELS - {room}
    assert room not in MODELS or {(room, other) for other in others} <= SHARED


def test_an_optional_package_is_imported_in_one_place_at_most() -> None:
    homes: dict[str, str | tuple[str, ...]] = {
        "pyspark": "data/engines/spark",
        "dp_accounting": "accounting/composition.py",
        "matplotlib": "kmeans/pictures.py",
        "starlette": "studio/",
        "uvicorn": "studio/serve.py",
        "torch": "training/steps.py",
        "pandas": (
            "data/checking.py",
            "kmeans/view.py",
            "linear/coefficients.py",
            "pca/components.py",
            "statistics/table.py",
        ),
    }
    for path in modules():
        for name in {name.split(".")[0] for name in imported(path)} & OPTIONAL:
            home = homes.get(name, "nowhere")
            assert str(path.relative_to(SOURCE)).startswith(home), f"{path} imports {name}"


def test_spark_is_loaded_only_when_a_frame_is_passed() -> None:
    code = "import sys, pais, pais.cli; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_exists_and_is_listed_in_order() -> None:
    assert all(hasattr(pais, name) for name in pais.__all__)
    assert list(pais.__all__) == sorted(pais.__all__)


def test_every_test_and_function_named_in_the_theory_pages_exists() -> None:
    for page in (ROOT / "docs" / "theory").glob("*.md"):
        text = page.read_text()
        for name in re.findall(r"`(tests/[\w/]+\.py)`", text):
            assert (ROOT / name).is_file(), f"{page.name} names {name}"
        for name in re.findall(r"`pais\.(\w+)`", text):
            assert hasattr(pais, name), f"{page.name} names pais.{name}"
        for name in re.findall(r"`(test_erratum_\d+)`", text):
            assert f"def {name}_" in (ROOT / "tests/theory/test_errata.py").read_text()


def test_every_test_named_in_a_docstring_exists() -> None:
    for path in modules():
        for name in re.findall(r"`((?:tests|docs)/[\w/.-]+)`", path.read_text()):
            assert (ROOT / name).is_file(), f"{path.name} names {name}"


def test_links_between_pages_resolve() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
