"""Classes as dictionaries, and dictionaries as JSON files.

A class that is written to a file has `to_dict` and `from_dict`. The classes of a family (rules, profiles, noise laws,
mechanisms) share both methods: a dictionary names its family and its kind, such as ``{"rule": "uniform", ...}``, and
holds the fields of the dataclass.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pais.errors import ArgumentError, PaisError

#: Format of the files. Files that state another format, or none, are refused.
FORMAT = 2

#: The kinds of files.
KINDS = ("certificate", "ledger", "model", "plan", "survey")

#: The kind of a class that this package does not define. It can be described, but not rebuilt.
OTHER = "other"

C = TypeVar("C", bound=type)
T = TypeVar("T")


# Of each class: the name of its kind, and the names in files of the fields that are written, by field name.
_KINDS: dict[type, tuple[str, dict[str, str]]] = {}
_CLASSES: dict[tuple[str, str], type] = {}


def stored(
    family: str,
    name: str,
    *,
    renamed: Mapping[str, str] | None = None,
    implied: Sequence[str] = (),
) -> Callable[[C], C]:
    """Register a dataclass of a family, so that it can be rebuilt from its dictionary.

    `implied` are fields that the class determines, which are not written.
    """
    names = renamed or {}

    def register(cls: C) -> C:
        written = [field.name for field in fields(cls) if field.init and field.name not in implied]
        _KINDS[cls] = (name, {field: names.get(field, field) for field in written})
        _CLASSES[family, name] = cls
        return cls

    return register


def to_dict(value: object, family: str) -> dict[str, Any]:
    """Describe an object of a registered class by its fields, and any other by its class and its method `describe`.

    A subclass of a registered class counts as another class, because it may behave differently.
    """
    kind = _KINDS.get(type(value))
    if kind is None:
        described = value.describe() if hasattr(value, "describe") else {}
        return {**described, family: OTHER, "class": type(value).__name__}
    name, written = kind
    return {family: name} | {stored_name: plain(getattr(value, field)) for field, stored_name in written.items()}


def plain(value: object) -> Any:
    """Convert a public value to what JSON can hold; infinity becomes a word."""
    if isinstance(value, float):
        return "infinity" if math.isinf(value) else value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def from_dict(described: Mapping[str, Any], family: str) -> Any:
    """Rebuild an object of a family; raise if its kind or a field is not valid."""
    if not isinstance(described, Mapping):
        raise ArgumentError(f"the description of a {family} is not a dictionary. Pass the result of to_dict.")
    key = family, str(described.get(family))
    if key not in _CLASSES:
        _load_all()
    cls = _CLASSES.get(key)
    if cls is None or "class" in described:
        raise ArgumentError(f"a {family} that pais does not define cannot be read from a file. Build it in Python.")
    names = {stored_name: name for name, stored_name in _KINDS[cls][1].items()}
    return cls(**{names.get(key, key): _rebuilt(value) for key, value in described.items() if key != family})


@functools.cache
def _load_all() -> None:
    """Import the modules of all public names: a class is registered when its module is imported."""
    package = importlib.import_module("pais")
    for name in package.__all__:
        getattr(package, name)


def _rebuilt(value: Any) -> Any:
    if isinstance(value, Mapping):
        family = next((name for name, _ in _CLASSES if name in value), None)
        return from_dict(value, family) if family else {key: _rebuilt(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_rebuilt(item) for item in value)
    return number(value)


def is_complete(described: Any) -> bool:
    """Whether a description contains no object, at any depth, of a class that this package does not define."""
    if isinstance(described, Mapping):
        return "class" not in described and all(map(is_complete, described.values()))
    return not isinstance(described, (list, tuple)) or all(map(is_complete, described))


def number(value: Any) -> Any:
    """Convert the word for infinity back; return anything else unchanged."""
    return math.inf if value == "infinity" else value


def parse_json(text: str) -> dict[str, Any]:
    """Parse a JSON object. Infinite numbers, NaN and duplicate names raise `ValueError`: readers disagree on them."""
    try:
        content = json.loads(text, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError from None
    if not isinstance(content, dict):
        raise ValueError
    return content


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON object from a file."""
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError:
        raise ArgumentError(f"{path} is not a JSON object. Pass a file that pais wrote.") from None


def read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be read: {error.strerror or 'the system refused'}. Check the path."
        ) from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{path} is not text. Pass a file that pais wrote.") from None


def write_json(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object to a file, which is replaced if it exists."""
    try:
        Path(path).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be written: {error.strerror or 'the system refused'}. Check the path."
        ) from None


def load(path: str | Path, kind: str, build: Callable[[dict[str, Any]], T]) -> T:
    """Read an object from a JSON file. An error names the file."""
    content = read_json(path)
    try:
        return build(content)
    except PaisError as error:
        raise ArgumentError(f"{path} cannot be used as a {kind}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        raise ArgumentError(f"{path} is not a {kind}. Pass a {kind} file that pais wrote.") from None


def require_format(content: Mapping[str, Any], kind: str) -> None:
    """Raise if a file's content is of another kind or format."""
    stated = content.get("kind")
    if stated != kind:
        # The file may be any JSON object, even one with rows, so the text does not quote it.
        other = next((name for name in KINDS if name == stated), f"file of another kind than a {kind}")
        raise ArgumentError(f"it is a {other}. Pass a {kind}.")
    if type(content.get("format")) is not int or content["format"] != FORMAT:
        raise ArgumentError("another version of pais wrote it. Install that version to read it.")


def texts(values: Any) -> tuple[str, ...] | None:
    """Read a list of texts, such as the names of columns; None if there is none."""
    if values is not None and not (isinstance(values, (list, tuple)) and all(isinstance(one, str) for one in values)):
        raise ArgumentError("it holds other values where texts belong. Pass a file that pais wrote.")
    return None if values is None else tuple(values)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError
    return content


def alike(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, up to rounding differences between machines."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(alike(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(alike, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9)
    return bool(left == right)
