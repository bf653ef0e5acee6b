"""Small damage to what was right: values of JSON documents, their text, and argument vectors."""

from __future__ import annotations

import json
import math
import random
from typing import Any

BIG = 10**400
DEEP = 20_000

#: Values that stand where others stood.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 0.0, -0.0, 0.5, 1.0, 1.5, -1.5, 1e-6, 1e-12, 1e-100, 1e-101, 5e-324, -5e-324,
    1e100, 1e101, 1e300, 1e308, -1e308, math.nan, math.inf, -math.inf, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63),
    10**9,
    10**9 + 1, BIG, -BIG, "", " ", "0", "1", "nan", "inf", "infinity", "none", "plan", "survey", "ledger", "gaussian",
    "laplace", "l2", "constrained", "coreset", "uniform", "refined", "paper", "é", "\u202e", "\ud800",
    "\U0001d518\U0001d52b", "\x00",
    "a" * 5000, "9" * 5000, [], {}, [None], [[]], [1.0], [1, 2], [1.0, "x"], [math.nan], [math.inf, 1.0], [1e308,
    1e308],
    [BIG], [[1.0, 2.0], [3.0]], [[1.0, 2.0]], [True, False], {"": 1}, {"a": {"b": []}}, [0.0] * 300, [0.0, 0.0],
)  # fmt: skip

#: Pieces put into text.
PIECES: tuple[bytes, ...] = (
    b"NaN", b"Infinity", b"-Infinity", b"-0.0", b"1e400", b"-1e400", b"5e-324", b"null", b"true", b"{}", b"[]",
    b"{", b"[",
    b"}", b"]", b",", b":", b'"', b"\\", b"\\u0000", b"\\ud800", b"\xff", b"\x00", b"\xef\xbb\xbf",
    b"\xe2\x80\xae", b"9" * 5000,
    b"[" * DEEP, b'{"a":' * DEEP, b"-" * 3, b"0" * 400, b"/*", b"'", b"\r\n", b" " * 300,
)  # fmt: skip

#: Words put into argument vectors. None begins with a slash or climbs: commands write where they are told.
WORDS: tuple[str, ...] = (
    "", " ", "0", "-0.0", "1", "2", "3", "-1", "0.5", "1.5", "1e-6", "1e-12", "1e-100", "5e-324", "1e100", "1e101",
    "1e300",
    "1e308", "1e309", "-1e308", "nan", "inf", "-inf", "infinity", "1_0", "0x10", "1,2", "1e308,1e308", "0,nan",
    "0,1,2,3",
    "[0, 1]", "[", ",", ",,", "2147483648", "9223372036854775808", "1" + "0" * 30, "9" * 5000, "é",
    "\U0001d518\U0001d52b", "\u202e", "\udcff",
    "a" * 300, "a" * 5000, "rows.parquet", "rows.csv", "plan.json", "survey.json", "budget.json",
    "certificate.json", "text.txt",
    "empty", "folder", "x", "y", "x,y", "x,x", "weight", "noisy_count", "gaussian", "laplace", "l2", "constrained",
    "coreset",
    "uniform", "none", "refined", "paper", "auto", "memory", "arrow", "--", "-", "--help", "--version",
    "*.parquet", "?", "a\nb", "\t",
)  # fmt: skip

#: Words that pass the parser where one of them stood.
_KINDS: tuple[tuple[str, ...], ...] = (
    ("1", "2", "3", "5", "10", "37", "60", "400", "0", "1000000001", "99999999999999999999"),
    ("0.5", "0.1", "0.9", "0.999999", "1e-6", "1e-12", "1e-300", "5e-324", "1e-100", "1.5", "30.0", "800.0", "1e6",
     "1e7", "1e15",
     "1e100", "1e101", "1e300", "1e308", "inf", "nan", "-0.0", "0.0"),
    ("0,0", "0,1", "1e308,1e308", "1e-300,1", "0,0,0", "0", "0,1,2,4,6", "0,1e-300,6", "6,6,6", "0,1e100", "[0, 0]",
     "nan,0"),
    ("rows.parquet", "rows.csv", "folder", "empty", "text.txt", "plan.json", "survey.json", "budget.json",
     "certificate.json"),
    ("plan.json", "plan1.json", "plan2.json", "plan3.json", "survey.json", "budget.json", "certificate.json",
     "new.json"),
    ("gaussian", "laplace", "l2"), ("constrained", "coreset", "uniform", "none"), ("refined", "paper"), ("auto",
     "memory", "arrow"),
    ("x", "y", "x,y", "x,x", "y,x", "z"),
)  # fmt: skip

Way = tuple[Any, ...]


def paths_of(document: Any, so_far: Way = ()) -> list[Way]:
    """The way to every value of a document, the document itself first."""
    paths = [so_far]
    if isinstance(document, dict):
        for name, value in document.items():
            paths += paths_of(value, (*so_far, name))
    elif isinstance(document, list):
        # A few of a long list tell as much as all.
        for index, value in enumerate(document[:4]):
            paths += paths_of(value, (*so_far, index))
    return paths


def changed_document(document: Any, paths: list[Way], rng: random.Random) -> Any:
    """A document with one to three values replaced, left out, added, doubled or moved; what it was made of stays."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = _changed_at(document, rng.choice(paths), rng)
    return document


def _changed_at(document: Any, path: Way, rng: random.Random) -> Any:
    if not path:
        # The whole of it, rarely: little is left to look at then.
        return rng.choice(VALUES) if rng.random() < 0.2 else document
    if not isinstance(document, (dict, list)):
        return document
    try:
        inner = document[path[0]]
    except (KeyError, IndexError, TypeError):
        return document
    copy = document.copy()
    if len(path) > 1:
        copy[path[0]] = _changed_at(inner, path[1:], rng)
        return copy
    deed = rng.random()
    if deed < 0.7:
        copy[path[0]] = _other_value(inner, rng)
    elif deed < 0.85:
        del copy[path[0]]
    elif isinstance(copy, dict):
        copy[rng.choice(("extra", "", "épsilon", "a" * 300, *copy))] = inner
    else:
        copy.insert(rng.randrange(len(copy) + 1), inner)
    return copy


def _other_value(value: Any, rng: random.Random) -> Any:
    """Something else: of the same kind but odd, or of another kind."""
    near = rng.random() < 0.4
    if near and isinstance(value, bool):
        return not value
    if near and isinstance(value, (int, float)) and abs(value) < BIG:
        return rng.choice(
            (-value, value * 2, value / 3, int(value) if math.isfinite(value) else 0, str(value), [value])
        )
    if near and isinstance(value, list):
        return rng.choice((value[:-1], value + value, value[::-1], [value], value[:1]))
    if near and isinstance(value, dict):
        return rng.choice((list(value), list(value.values()), {"": value}))
    return rng.choice(VALUES)


def text_of(document: Any, rng: random.Random) -> bytes:
    """The document as text; now and then a key stands twice."""
    text = json.dumps(document)
    if isinstance(document, dict) and document and rng.random() < 0.05:
        twice = json.dumps({rng.choice(list(document)): rng.choice(VALUES)})
        text = twice[:-1] + "," + text[1:] if rng.random() < 0.5 else text[:-1] + "," + twice[1:]
    return text.encode("utf-8", "surrogatepass")


def changed_text(text: bytes, rng: random.Random) -> bytes:
    """Text cut, bent, doubled or with something put in."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(text) + 1)
        deed = rng.random()
        if deed < 0.2:
            text = text[:start]
        elif deed < 0.5 and start < len(text):
            text = text[:start] + bytes((text[start] ^ (1 << rng.randrange(8)),)) + text[start + 1 :]
        elif deed < 0.65:
            text = text[:start] + text[start + rng.randrange(1, 30) :]
        elif deed < 0.75:
            text = text[:start] + text[start : start + rng.randrange(1, 60)] + text[start:]
        else:
            # Over a value, where there is one, so that the rest still reads as JSON.
            end = start + rng.choice((0, 0, 1, 3))
            text = text[:start] + rng.choice(PIECES) + text[end:]
    return text


def _other_word(word: str, rng: random.Random) -> str:
    """Mostly a word of the same kind: others are refused before anything happens."""
    kinds = [kind for kind in _KINDS if word in kind]
    if "," in word and not kinds:
        kinds = [_KINDS[2]]
    if kinds and rng.random() < 0.8:
        kind = rng.choice(kinds)
        # A whole number may stand where a fraction is asked for, and is mostly one here.
        return rng.choice(_KINDS[1] if kind is _KINDS[0] and rng.random() < 0.4 else kind)
    return rng.choice(WORDS)


def changed_arguments(arguments: tuple[str, ...], rng: random.Random) -> list[str]:
    """An argument vector with one to three words replaced, left out, doubled, swapped, bent, or added."""
    words = list(arguments)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        index = rng.randrange(1, len(words)) if len(words) > 1 else 0
        draw = rng.random()
        if draw < 0.8:
            # Mostly values, so that the command itself is reached.
            values = [number for number, word in enumerate(words) if number and not word.startswith("--")]
            at = rng.choice(values or [index])
            words[at] = _other_word(words[at], rng)
        elif draw < 0.85 and len(words) > 1:
            del words[index]
        elif draw < 0.89:
            words.insert(index, words[rng.randrange(len(words))])
        elif draw < 0.92:
            second = rng.randrange(len(words))
            words[index], words[second] = words[second], words[index]
        elif draw < 0.97 and words[index]:
            at = rng.randrange(len(words[index]))
            words[index] = words[index][:at] + rng.choice("-.,0e9é\n =[") + words[index][at + rng.randrange(2) :]
        else:
            words.insert(index + 1 if index else len(words), rng.choice(WORDS))
    return words
