"""Ledgers on the command line: opened, and shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pais._numerics import lowered, raised
from pais.accounting import Ledger
from pais.cli.show import plain, warn
from pais.errors import ArgumentError, PaisError


def opened(path: Path | None, *, epsilon: float, delta: float = 0.0) -> Ledger | None:
    """The ledger at a path, asked for this much before anything else is done; a command never makes one by the way."""
    if path is None:
        return None
    try:
        missing = not path.exists()
    except OSError:
        # A name too long for any file.
        missing = True
    if missing:
        raise ArgumentError(f"there is no ledger at {path}. Make one with `pais ledger {path} --epsilon E --delta D`.")
    found = Ledger(path=path)
    found.check(epsilon=epsilon, delta=delta)
    return found


@contextlib.contextmanager
def told(book: Ledger | None) -> Iterator[None]:
    """Say, when work fails, that it was charged: what has drawn noise is."""
    before = None if book is None else book.spent
    try:
        yield
    except BaseException:
        with contextlib.suppress(PaisError):
            if book is not None and book.spent != before:
                warn(f"The ledger was charged while this ran. See `pais ledger {book.path}`.")
        raise


def ledger_description(ledger: Ledger) -> dict[str, Any]:
    """A ledger and its sums. Public values only: what single rows have paid is not among them."""
    spent, left = ledger.spent, ledger.remaining
    return {
        "kind": "ledger",
        "epsilon": ledger.budget.epsilon,
        "delta": ledger.budget.delta,
        "spent": {"epsilon": spent.epsilon, "delta": spent.delta},
        "remaining": {"epsilon": left.epsilon, "delta": left.delta},
        "entries": [entry.describe() for entry in ledger.entries],
    }


def ledger_table(ledger: Ledger) -> None:
    spent, left = ledger.spent, ledger.remaining
    table = Table(title=plain(f"Ledger {ledger.path}", "italic"), title_justify="left")
    for name, justify in (("release", "left"), ("epsilon", "right"), ("delta", "right"), ("randomness", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]  # two of the words it takes
    table.add_column("when")
    for entry in ledger.entries:
        words = (entry.what, raised(entry.epsilon), raised(entry.delta, 3), entry.note, entry.when)
        table.add_row(*map(plain, words))
    table.add_section()
    for what, price, shown in (
        ("spent", spent, raised),
        ("remaining", left, lowered),
        ("budget", ledger.budget, lowered),
    ):
        table.add_row(what, shown(price.epsilon), shown(price.delta, 3), "", "")
    Console().print(table)
