"""The part of a page that depends on the kind of result: its name, how far it can be read, and its own sections."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from pais.accounting.certificate import value_in_words
from pais.planning.facts import Survey
from pais.show.text import escaped, paragraph, section


class TextTable(NamedTuple):
    """Released values as texts, for a terminal."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str


class Results(ABC):
    """A released result as a reader of the page sees it. It holds public values only.

    A fit with such a value can be written as a page: ``replace(fit, value=results)``. Cards and texts of that fit use
    `in_words`, `verdict` and `concern`.
    """

    #: Heading of the page, if the user states none.
    title: ClassVar[str] = "Private result"
    #: What the page calls the released values.
    noun: ClassVar[str] = "values"
    #: What a file calls the table of the released values.
    table: ClassVar[str] = "values"
    #: The word between the result and the number of rows, in the line below the heading.
    of_rows: ClassVar[str] = "from"
    #: In which units the values are, as the end of a sentence.
    units: ClassVar[str] = "and the {noun} are shown in the units of the columns."
    #: Limits that only this kind of result has: a few words, and what they mean.
    cautions: ClassVar[tuple[tuple[str, str], ...]] = ()
    #: Whether the norm of a row decides about its probability and loss.
    by_norm: ClassVar[bool] = True

    #: What the noise was, in a sentence for the appendix; empty if the plan says enough.
    noise_in_words: str = ""

    #: The sentence that ends with `noisy_count`.
    count_in_words: ClassVar[str] = "The release itself counts about"

    @abstractmethod
    def in_words(self) -> str:
        """The result in a few words, such as "3 centers in 4 features"."""

    @property
    def verdict(self) -> str | None:
        """How far the result can be read above the noise, in one sentence; None if this is not known."""
        return None

    @property
    def meaning(self) -> str:
        """What the words of the verdict mean."""
        return ""

    @property
    def readable(self) -> float:
        """Share of the result that can be read above the noise, which decides the colour of the verdict."""
        return 1.0

    @property
    def concern(self) -> str | None:
        """Text of a warning about the result; None if there is none."""
        return None

    @property
    def comparison(self) -> str | None:
        """Sentences that name the reference of the values of categories; None if there are no categories."""
        return None

    @property
    def noisy_count(self) -> float | None:
        """Number of rows according to the release itself, to compare with the survey; None if it has none."""
        return None

    def value_columns(self) -> dict[str, Any]:
        """The released values as columns of a table in a file."""
        return {}

    def text_table(self, width: int) -> TextTable:
        """The released values for a terminal that has room for `width` columns beside the first."""
        return TextTable(self.title, [], [], self.in_words())

    @abstractmethod
    def sections(self) -> list[str]:
        """Sections with the result itself, which come first."""

    def quality(self) -> str:
        """A section about the predicted quality; empty if there is no prediction."""
        return ""

    def noise(self) -> str:
        """A section about the noise; empty if the plan in words is enough."""
        return ""


class Plain(Results):
    """A released value that has no page of its own, such as that of a mechanism that the user wrote."""

    def __init__(self, value: object) -> None:
        self._value = value

    def in_words(self) -> str:
        return value_in_words(self._value)

    def sections(self) -> list[str]:
        return [section("value", "Released value", paragraph(escaped(as_sentence(self.in_words())) + "."))]


def verdict_box(results: Results) -> str:
    """Render the answer to the first question of a reader: how much of this can be read above the noise.

    If there is a concern, its first sentence is the headline.
    """
    if results.verdict is None:
        return ""
    share, verdict = results.readable, f"{as_sentence(results.verdict)}."
    mood = "good" if share >= 0.75 else "mixed" if share >= 0.25 else "poor"
    headline, advice = verdict, ""
    if results.concern is not None:
        # What a reader must know first replaces the headline; the verdict follows it.
        mood = "mixed" if mood == "good" else mood
        headline, *rest = re.split(
            r"(?<=\.) (?=[A-Z])", as_sentence(results.concern).removesuffix(".") + ".", maxsplit=1
        )
        advice = "".join(paragraph(escaped(text)) for text in (*rest, verdict))
    meaning = paragraph(escaped(results.meaning), "soft") if results.meaning else ""
    return f'<div class="verdict {mood}" role="note"><p class="answer">{escaped(headline)}</p>{advice}{meaning}</div>'


def columns_box(survey: Survey | None) -> str:
    """Render what the survey says against its bounds of "auto" columns; empty if it says nothing."""
    concern = None if survey is None else survey.columns_concern
    if concern is None:
        return ""
    return f'<div class="verdict mixed" role="note"><p>{escaped(as_sentence(concern))}</p></div>'


def as_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
