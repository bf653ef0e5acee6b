"""What a model room supplies about its kind of result: for the page, for cards and texts, for a terminal and a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from pais.accounting.certificate import value_in_words


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

    #: The template whose macro `sections(results)` renders the result itself. It may also have `quality(results)`, and
    #: `noise(results)` where the plan in words is not enough.
    template: ClassVar[str] = "value.html"
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
    #: The sentence that ends with `counted`.
    count_in_words: ClassVar[str] = "The release itself counts about"
    #: What the noise was, in a sentence for the appendix; empty if the plan says enough.
    noise_in_words: str = ""
    #: Text of a warning about the result; None if there is none.
    caution: str | None = None
    #: Number of rows according to the release itself, to compare with the survey; None if it has none.
    counted: float | None = None

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
        """The caution, under the name that a fit looks for."""
        return self.caution

    @property
    def comparison(self) -> str | None:
        """Sentences that name the reference of the values of categories; None if there are no categories."""
        return None

    def value_columns(self) -> dict[str, Any]:
        """The released values as columns of a table in a file."""
        return {}

    def text_table(self, width: int) -> TextTable:
        """The released values for a terminal that has room for `width` columns beside the first."""
        return TextTable(self.title, [], [], self.in_words())


class Plain(Results):
    """A released value that has no page of its own, such as that of a mechanism that the user wrote."""

    def __init__(self, value: object) -> None:
        self._value = value

    def in_words(self) -> str:
        return value_in_words(self._value)
