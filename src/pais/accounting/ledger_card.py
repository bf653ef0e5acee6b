"""Ledgers in plain words, and as a card for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pais._base.cards import Card
from pais._base.numerics import lowered, raised
from pais.accounting.amounts import Budget
from pais.accounting.entries import Entry

# Number of entries that a notebook shows.
_SHOWN = 8


class _Book(Protocol):
    """The public properties of a ledger."""

    @property
    def budget(self) -> Budget: ...
    @property
    def spent(self) -> Budget: ...
    @property
    def remaining(self) -> Budget: ...
    @property
    def entries(self) -> tuple[Entry, ...]: ...
    @property
    def path(self) -> Path | None: ...


class DescribedLedger:
    """The card and the description of a ledger."""

    def explain(self: _Book) -> str:
        """Describe the ledger in words: the budget, what was spent on what, and what remains."""
        entries = self.entries
        number = f"{len(entries)} release{'s' * (len(entries) != 1)}"
        lines = [
            f"This ledger holds a budget of {_left(self.budget)} for one set of rows.",
            f"{number} spent {_price(self.spent)} together; {_left(self.remaining)} remain.",
            *(f"  {_time(entry)}  {entry.what}: {_price(entry)} ({entry.note})" for entry in entries),
            "Prices add up. A release that would exceed the budget is refused before anything is drawn.",
        ]
        return "\n".join(lines)

    def __str__(self: _Book) -> str:
        budget, spent, left, n = self.budget, self.spent, self.remaining, len(self.entries)
        lines = [
            f"Ledger of {n} release{'s' * (n != 1)}" + ("" if self.path is None else f" in {self.path}"),
            f"  epsilon: {raised(spent.epsilon)} of {lowered(budget.epsilon)} spent, {lowered(left.epsilon)} left",
            f"  delta:   {raised(spent.delta, 3)} of {lowered(budget.delta, 3)} spent, {lowered(left.delta, 3)} left",
        ]
        return "\n".join(lines)

    def _repr_html_(self: _Book) -> str:
        entries = self.entries
        return Card(
            kind="Ledger",
            summary=f"{_left(self.remaining)} of {_left(self.budget)} remain",
            facts=(
                *([("earlier entries", str(len(entries) - _SHOWN))] if len(entries) > _SHOWN else []),
                *((entry.what, f"{_price(entry)}, {entry.note}, {_time(entry)}") for entry in entries[-_SHOWN:]),
                ("spent", _price(self.spent)),
                ("remaining", _left(self.remaining)),
                ("file", "none: in the memory of this process" if self.path is None else str(self.path)),
            ),
        ).html()


def _time(entry: Entry) -> str:
    return entry.when.replace("T", " ").replace("+00:00", " UTC")


def _price(price: Budget | Entry) -> str:
    """An amount that was spent, rounded up."""
    return f"epsilon {raised(price.epsilon)}, delta {raised(price.delta, 3)}"


def _left(price: Budget) -> str:
    """An amount that is left, rounded down."""
    return f"epsilon {lowered(price.epsilon)}, delta {lowered(price.delta, 3)}"
