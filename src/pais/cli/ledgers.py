"""Ledgers on the command line: open and show them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pais._base.numerics import lowered, raised
from pais.accounting.ledger import Ledger, accounts
from pais.accounting.part import Part
from pais.cli.show import note, plain, print_json, warn
from pais.errors import ArgumentError, PaisError

#: Delta of a new ledger: enough for ten releases with the largest default delta, 1e-6.
DEFAULT_DELTA = 1e-5

# Characters of an entry's id that are shown.
_ID = 8


def opened(path: Path | None, *prices: Part) -> Ledger | None:
    """Open the ledger at a path and check that it can pay these prices, before other work; never create a ledger."""
    if path is None:
        return None
    if not _exists(path):
        raise ArgumentError(f"there is no ledger at {path}. Create it: `pais ledger {path} --epsilon E`.")
    book = Ledger(path=path)
    accounts(book).check(*prices)
    return book


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # The file name is too long.
        return False


@contextlib.contextmanager
def reporting_charges(book: Ledger | None) -> Iterator[None]:
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
        "entries": [entry.to_dict() for entry in ledger.entries],
    }


def ledger_table(ledger: Ledger) -> None:
    spent, left = ledger.spent, ledger.remaining
    table = Table(title=plain(f"Ledger {ledger.path}", "italic"), title_justify="left")
    for name, justify in (("release", "left"), ("epsilon", "right"), ("delta", "right"), ("randomness", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]  # two of the words it takes
    table.add_column("when")
    # Certificates state the whole id; its first characters are enough to find the entry.
    table.add_column("id", no_wrap=True)
    for entry in ledger.entries:
        cells = (entry.what, raised(entry.epsilon), raised(entry.delta, 3), entry.note, entry.when, entry.id[:_ID])
        table.add_row(*map(plain, cells))
    table.add_section()
    for what, price, shown in (
        ("spent", spent, raised),
        ("remaining", left, lowered),
        ("budget", ledger.budget, lowered),
    ):
        table.add_row(what, shown(price.epsilon), shown(price.delta, 3), "", "", "")
    Console().print(table)


def ledger(path: Path, epsilon: float | None, delta: float | None, *, as_json: bool) -> None:
    """Create or open a ledger, and show it. A new ledger without a stated delta gets the default."""
    exists = _exists(path)
    if epsilon is not None and delta is None:
        delta = Ledger(path=path).budget.delta if exists else DEFAULT_DELTA
    book = Ledger(epsilon=epsilon, delta=delta or 0.0, path=path)
    if not exists and delta == DEFAULT_DELTA:
        note(f"The ledger has epsilon {epsilon:g} and delta {DEFAULT_DELTA:g}. Pass --delta to choose another.")
    if epsilon is not None and delta == 0.0:
        warn("The ledger has delta 0, so it will refuse releases with Gaussian noise, which is the default.")
    if as_json:
        print_json(ledger_description(book))
    else:
        ledger_table(book)
