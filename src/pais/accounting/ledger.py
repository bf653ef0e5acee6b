"""The ledger: what may be spent on a set of rows, what has been, and whoever is to be charged."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pais import _validate
from pais._numerics import exact
from pais.accounting.amounts import Budget, amount, down, total, up
from pais.accounting.composition import tight_epsilon
from pais.accounting.entries import SECURE, SEEDED, Entry, Part, new_entry, parts_of, priced_as
from pais.accounting.individual import RecordLosses, losses_of_rows
from pais.accounting.stores import FileStore, LostStore, MemoryStore, Store
from pais.errors import ArgumentError, BudgetError

_BY_HAND = "stated by hand"


class Ledger:
    """The budget of one set of rows: every release from them is checked against it and recorded in it.

    Parameters
    ----------
    epsilon, delta : float
        All that may ever be spent on these rows. An existing file has its own budget: state the same, or none.
    path : path, optional
        A JSON file that several processes may share; it is made where there is none. None keeps the ledger in the
        memory of this process.

    Notes
    -----
    Guarantee. What is recorded never adds up to more than the budget, whatever threads and processes spend at once, and
    a release is recorded on disk before its noise is drawn: `tests/unit/test_ledger.py`,
    `tests/integration/test_ledger_cli.py`. Prices are added as the decimals they are written as, exactly; `spent` is
    rounded up and `remaining` down.

    Assumes. The same rows throughout, and one row for each person. It holds what was charged to it: releases made
    by other tools are recorded with `spend`.

    A ledger is never copied: copies and clones of what holds it hold the same one. A ledger with a path can go to
    another process, which then spends from the same file; one in memory cannot. A ``with`` block ends at the process:
    others that work inside it must be passed the ledger, or a model that takes it along.

    Examples
    --------
    >>> import pais
    >>> ledger = pais.Ledger(epsilon=1.0, delta=1e-6)
    >>> ledger.spend(what="a table, made elsewhere", epsilon=0.3).epsilon
    0.3
    >>> ledger.remaining
    Budget(epsilon=0.7, delta=1e-06)
    >>> with ledger:
    ...     ...  # every fit, run, release and survey in here is charged
    Ellipsis
    """

    def __init__(self, *, epsilon: float | None = None, delta: float = 0.0, path: str | Path | None = None) -> None:
        stated = None if epsilon is None else amount(_validate.positive("epsilon", epsilon), delta)
        if stated is None and delta != 0.0:
            raise ArgumentError(f"delta={delta!r} is stated without an epsilon. State both, or none.")
        self._store: Store
        if path is None:
            if stated is None:
                raise ArgumentError("epsilon is missing. State the budget: pais.Ledger(epsilon=3, delta=1e-5).")
            self._path, self._budget, self._store = None, stated, MemoryStore()
        else:
            file = FileStore.open(Path(path), stated)
            self._path, self._budget, self._store = file.path, file.budget, file
        # Rules and profiles of releases made in this process, by the name of their entry.
        self._live: dict[str, tuple[Part, ...]] = {}

    @property
    def budget(self) -> Budget:
        """All that may be spent."""
        return self._budget

    @property
    def path(self) -> Path | None:
        return self._path

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was released, in order. Public."""
        return self._store.read()

    @property
    def spent(self) -> Budget:
        """The sum of all entries, rounded up."""
        entries = self.entries
        return Budget(
            epsilon=up(total(entry.epsilon for entry in entries)), delta=up(total(entry.delta for entry in entries))
        )

    @property
    def remaining(self) -> Budget:
        """What is left, rounded down."""
        return self._left(self.entries)

    def check(self, *, epsilon: float, delta: float = 0.0) -> None:
        """Raise `BudgetError` if this much is not left. Nothing is recorded."""
        self._require(self.entries, amount(epsilon, delta))

    def spend(
        self,
        *,
        what: str,
        epsilon: float,
        delta: float = 0.0,
        note: str = _BY_HAND,
        parts: Sequence[Part] = (),
        release: str = "",
    ) -> Entry:
        """Check and record, as one step; with a path, it is on disk when this returns.

        Parameters
        ----------
        what : str
            What is released, in a few words.
        epsilon, delta : float
            Its price.
        note : str
            How its randomness was drawn, or who says so.
        parts : sequence of Part
            The mechanisms it is made of, for tighter accounting; their prices must add up to the price.
        release : str
            A name of its own, for a release that later ones rest on: see `holds`.
        """
        price, made = amount(epsilon, delta), tuple(parts)
        if made and not priced_as(made, price.epsilon, price.delta):
            raise ArgumentError("the parts do not add up to the price. Pass parts with their own epsilon and delta.")
        entry = new_entry(what, price.epsilon, price.delta, note=note, parts=made, release=release)

        def decide(entries: tuple[Entry, ...]) -> Entry:
            self._require(entries, price)  # [note: ledger-1]
            return entry

        self._store.append(decide)
        if made:
            self._live[entry.id] = made
        return entry

    def holds(self, release: str) -> bool:
        """Whether the release of this name was charged."""
        return release != "" and any(entry.release == release for entry in self.entries)

    def tight_epsilon(self, delta: float) -> float:
        """Epsilon of all entries together at a delta: at most their sum where that covers delta, mostly far less.

        Gaussian releases enter with their certified privacy curves; others, and those planned from a survey, with their
        (epsilon, delta).

        Parameters
        ----------
        delta : float
            In [0, 1).

        Notes
        -----
        Guarantee. An upper bound for all releases together, for adding and for removing one row:
        `tests/unit/test_composition.py`. The budget itself is kept by the plain sum, and this number does not change
        what remains. Needs the extra `pais[accounting]`.

        Assumes. How many releases were made, and with which rules and noise, was not chosen by what earlier ones had
        told. Where it was, use `spent`, which needs no such thing.
        """
        return tight_epsilon(self._parts(), _validate.target_delta(delta))

    def record_losses(self, rows: object) -> RecordLosses:
        """Not private: what each row has paid so far. For the data's owner, never to be published.

        Parameters
        ----------
        rows : array or table
            The rows, in memory.

        Returns
        -------
        RecordLosses
            An array with an epsilon for each row: the sum, over all releases, of the row's own loss at the release's
            delta. Surveys, and releases whose rule cannot be rebuilt from public numbers, count with their price.

        Notes
        -----
        Guarantee. No row's loss exceeds `spent` by more than rounding: `tests/unit/test_ledger.py`.
        """
        return losses_of_rows(self._parts(), rows)

    def _parts(self) -> list[Part]:
        return [part for entry in self.entries for part in self._live.get(entry.id) or parts_of(entry)]

    def _left(self, entries: tuple[Entry, ...]) -> Budget:
        return Budget(
            epsilon=down(exact(self._budget.epsilon) - total(entry.epsilon for entry in entries)),
            delta=down(exact(self._budget.delta) - total(entry.delta for entry in entries)),
        )

    def _require(self, entries: tuple[Entry, ...], price: Budget) -> None:
        epsilon = total(entry.epsilon for entry in entries) + exact(price.epsilon)
        delta = total(entry.delta for entry in entries) + exact(price.delta)
        if epsilon <= exact(self._budget.epsilon) and delta <= exact(self._budget.delta):
            return
        left = self._left(entries)
        short = "delta" if epsilon <= exact(self._budget.epsilon) else "epsilon"
        raise BudgetError(
            f"{short} does not suffice: this would cost epsilon={price.epsilon!r}, delta={price.delta!r}, and the "
            f"ledger has epsilon={left.epsilon!r}, delta={left.delta!r} left. Ask for less; this was not released.",
            cost=price.epsilon,
        )

    def __enter__(self) -> Ledger:
        with _active_lock:
            _active.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _active_lock:
            # The innermost of its own, whoever else came and went.
            del _active[len(_active) - 1 - _active[::-1].index(self)]

    def __repr__(self) -> str:
        place = "" if self._path is None else f", path={str(self._path)!r}"
        return f"Ledger(epsilon={self._budget.epsilon!r}, delta={self._budget.delta!r}{place})"

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise ArgumentError(
                "a ledger in memory cannot be pickled or go to another process. Give it a path: "
                "pais.Ledger(..., path='budget.json')."
            )
        return _reopened, (str(self._path), self._budget)

    def left_behind(self) -> LeftBehind:
        """What a fitted model takes along when it is stored or sent: it can be loaded where this ledger is not."""
        return LeftBehind(self)


class LeftBehind:
    """Stands for a ledger in a pickle, and becomes one again: on its file, or, of one in memory, one that refuses."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __reduce__(self) -> tuple[Any, ...]:
        path = self.ledger.path
        return _reopened, (None if path is None else str(path), self.ledger.budget)


def _reopened(path: str | None, budget: Budget) -> Ledger:
    """A ledger that came in a pickle. Its file is looked for when it is used, and then it must have the same budget."""
    ledger = Ledger.__new__(Ledger)
    # A text, and not a Path: those of other systems cannot be loaded.
    place = None if path is None else Path(path)
    ledger._path, ledger._budget, ledger._live = place, budget, {}
    ledger._store = LostStore() if place is None else FileStore(place, budget)
    return ledger


# Of the whole process, not of a thread or a task: work inside a `with` is often done in threads.
_active: list[Ledger] = []
_active_lock = threading.Lock()


class Accounts:
    """All that a release is to be charged to: none, one, or several ledgers."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = tuple(ledgers)

    @property
    def empty(self) -> bool:
        """Whether nobody is charged."""
        return not self._ledgers

    def check(self, *, epsilon: float, delta: float = 0.0) -> None:
        """Refuse what any of them cannot pay, before a row is read."""
        for ledger in self._ledgers:
            ledger.check(epsilon=epsilon, delta=delta)

    def spend(
        self, *, what: str, epsilon: float, delta: float, secure: bool, parts: Sequence[Part], release: str = ""
    ) -> list[str]:
        """Charge all of them and return the ids of the entries; the value may leave only if this does not raise."""
        note = SECURE if secure else SEEDED
        price = {"epsilon": epsilon, "delta": delta}
        return [
            ledger.spend(what=what, **price, note=note, parts=parts, release=release).id for ledger in self._ledgers
        ]


def accounts(ledger: Ledger | Accounts | None) -> Accounts:
    """The ledger that was passed and those that are active, each once; accounts taken before stay as they are."""
    if isinstance(ledger, Accounts):
        return ledger
    if ledger is not None:
        _validate.instance("ledger", ledger, Ledger, "Build one with pais.Ledger(epsilon=...).")
    with _active_lock:
        found = [*_active] if ledger is None else [ledger, *_active]
    # Two ledgers on one file are one.
    by_place = {ledger.path or id(ledger): ledger for ledger in found}
    return Accounts(list(by_place.values()))


def travelling(ledger: Ledger | None) -> Ledger | None:
    """The ledger that a model sent to another process must take along, so that what is active here is charged there."""
    with _active_lock:
        found = {other.path or id(other): other for other in ([] if ledger is None else [ledger]) + _active}
    if len(found) > 1:
        raise ArgumentError(
            "several ledgers are active, and another process can be told of one only. Fit here, or leave one."
        )
    return next(iter(found.values()), None)
