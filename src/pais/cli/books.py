"""Ledgers on the command line: open and show them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pais._base.numerics import lowered, raised
from pais.accounting import Ledger
from pais.cli.show import plain, warn
from pais.errors import ArgumentError, PaisError


def opened(path: Path | None, *, epsilon: float, delta: float = 0.0) -> Ledger | None:
    """Open the ledger at a path and check that it can pay this price, before other work; never create a ledger."""
    if path is None:
        return None
    try:
        missing = not path.exists()
    except OSError:
        # The file name is too long.
        missing = True
    if missing:
        raise ArgumentError(f"there is no ledger at {path}. Make one with `pais ledger {path} --epsilon E --delta D`.")
    found = Ledger(path=path)
    found.check(epsilon=epsilon, delta=delta)
    return found


@contextlib.contextmanager
def told(book: Ledger | None) -> Iterator[None]:
    """If the work fails after the ledger was charged, tell the user: work that has drawn noise stays charged."""
    before = None if book is None else book.spent
    try:
        yield
    except BaseException:
        with contextlib.suppress(PaisError):
            if book is not None and book.spent != before:
                warn(f"The ledger was charged while this ran. See `pais ledger {book.path}`.")
        raise


def ledger_description(ledger: Ledger) -> dict[str, Any]:
    """Describe a ledger and its totals. Public values only: the losses of individual rows are left out."""
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
