"""Ledgers, and the accounts of a release: which ledgers pay, what they pay, and when.

A `Ledger` holds the budget of one set of rows. `accounts` collects the ledgers that a release is charged to, and
`Prepaid` charges the price of a whole fit before the noise of its survey is drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pais._base import validate
from pais._base.cards import Card
from pais._base.lattice import current_tape
from pais._base.numerics import exact, lowered, raised
from pais.accounting.composition import RecordLosses, losses_of_rows, tight_epsilon
from pais.accounting.part import Budget, Part, down, require_one_unit, require_prices, sum_up, total, up
from pais.accounting.stores import SECURE, SEEDED, Entry, FileStore, LostStore, MemoryStore, Store, new_entry, parts_of
from pais.errors import ArgumentError, BudgetError, MismatchError

# Number of entries that a notebook shows.
_SHOWN = 8

_BY_HAND = "stated by hand"


class Ledger:
    """The budget of one set of rows: every release from them is checked against it and recorded in it.

    Parameters
    ----------
    epsilon, delta : float
        Total budget for these rows. An existing file already stores a budget: pass the same values, or none.
    path : path, optional
        A JSON file that several processes may share. It is created if it does not exist. With None, the ledger is
        kept in the memory of this process.

    Notes
    -----
    Guarantee. The recorded prices never add up to more than the budget, even if several threads and processes spend at
    the same time, and a release is recorded on disk before its noise is drawn:
    `tests/unit/accounting/test_ledger_charging.py`, `tests/unit/cli/test_ledger_cli.py`. Prices are added exactly,
    as the decimal numbers they are written as; `spent` is rounded up and `remaining` is rounded down.

    Assumes. The rows stay the same throughout, and each person has one row. The ledger only contains releases that
    were charged to it: record releases made by other tools with `spend`.

    A ledger is never copied: copying or cloning an object that holds a ledger yields an object with the same ledger.
    A ledger with a path can be sent to another process, which then spends from the same file; a ledger in memory
    cannot. A ``with`` block applies to the current process only: pass the ledger, or a model that holds it, to other
    processes that work inside the block.

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
        stated = None if epsilon is None else Budget(epsilon=validate.positive("epsilon", epsilon), delta=delta)
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
        # Maps the id of an entry to the parts of a release made in this process, with their rules and profiles.
        self._live: dict[str, tuple[Part, ...]] = {}

    @property
    def budget(self) -> Budget:
        """The total budget."""
        return self._budget

    @property
    def path(self) -> Path | None:
        return self._path

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The recorded releases, in order. Public."""
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
        """The budget that is left, rounded down."""
        return self._left(self.entries)

    def check(self, *, epsilon: float, delta: float = 0.0) -> None:
        """Raise `BudgetError` if less than this amount is left. Nothing is recorded."""
        self._require(self.entries, Budget(epsilon=epsilon, delta=delta))

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
        """Check the budget and record the release, in one step; with a path, the entry is on disk when this returns.

        Parameters
        ----------
        what : str
            Short description of the release.
        epsilon, delta : float
            Price of the release.
        note : str
            How the randomness was drawn, or who states the price.
        parts : sequence of Part
            The mechanisms the release consists of, for tighter accounting; their prices must add up to the price.
        release : str
            A unique name, by which a later release recognises that this one was charged.
        """
        price, known = Budget(epsilon=epsilon, delta=delta), tuple(parts)
        whole = Part(what=what, epsilon=price.epsilon, delta=price.delta, release=release)
        entry = new_entry(whole, note=note, parts=known)

        def decide(entries: tuple[Entry, ...]) -> Entry:
            self._require(entries, price)  # [note: ledger-1]
            # [note: ledger-6]
            require_one_unit([*(part.unit for part in known), *(unit for each in entries for unit in each.units)])
            return entry

        self._store.append(decide)
        if known:
            self._live[entry.id] = known
        return entry

    def tight_epsilon(self, delta: float) -> float:
        """Epsilon of all entries together at a delta.

        It is at most the sum of the epsilons if `delta` is at least the sum of the deltas, and usually far less.
        Gaussian releases enter with their certified privacy curves. Other releases, and those planned from a survey,
        enter with their (epsilon, delta).

        Parameters
        ----------
        delta : float
            In [0, 1).

        Notes
        -----
        Guarantee. The result is an upper bound for all releases together, for adding and for removing one row:
        `tests/unit/accounting/test_composition.py`. The budget check uses the plain sum, so this number does not change
        `remaining`. Needs the extra `pais[accounting]`.

        Assumes. The number of releases, and their rules and noise, were not chosen using the results of earlier
        releases. If they were, use `spent`, which does not need this assumption.
        """
        return tight_epsilon(self._parts(), validate.target_delta(delta))

    def record_losses(self, rows: object) -> RecordLosses:
        """Not private: the privacy loss of each row so far. For the owner of the data; do not publish it.

        Parameters
        ----------
        rows : array or table
            The rows, in memory.

        Returns
        -------
        RecordLosses
            An array with an epsilon for each row: the sum, over all releases, of the row's own loss at the release's
            delta. Surveys, and releases whose rule cannot be rebuilt from public numbers, contribute their full price.

        Notes
        -----
        Guarantee. No row's loss exceeds `spent` by more than rounding: `tests/unit/accounting/test_ledger.py`.
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
            f"the ledger has too little {short}: this costs epsilon={price.epsilon!r}, delta={price.delta!r}, and "
            f"epsilon={left.epsilon!r}, delta={left.delta!r} remain. Nothing was released; ask for less.",
            cost=price.epsilon,
        )

    def __enter__(self) -> Ledger:
        with _active_lock:
            _active.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _active_lock:
            # Remove the innermost occurrence of this ledger: other ledgers may have been entered or left meanwhile.
            del _active[len(_active) - 1 - _active[::-1].index(self)]

    def explain(self) -> str:
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

    def __str__(self) -> str:
        budget, spent, left, n = self.budget, self.spent, self.remaining, len(self.entries)
        lines = [
            f"Ledger of {n} release{'s' * (n != 1)}" + ("" if self.path is None else f" in {self.path}"),
            f"  epsilon: {raised(spent.epsilon)} of {lowered(budget.epsilon)} spent, {lowered(left.epsilon)} left",
            f"  delta:   {raised(spent.delta, 3)} of {lowered(budget.delta, 3)} spent, {lowered(left.delta, 3)} left",
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
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

    def __repr__(self) -> str:
        path = "" if self._path is None else f", path={str(self._path)!r}"
        return f"Ledger(epsilon={self._budget.epsilon!r}, delta={self._budget.delta!r}{path})"

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise ArgumentError(
                "a ledger in memory cannot be pickled or sent to another process. Give it a path: "
                "pais.Ledger(..., path='budget.json')."
            )
        return _reopened, (str(self._path), self._budget)

    def left_behind(self) -> LeftBehind:
        """Return a stand-in for pickles, so that a fitted model can be loaded where this ledger is not available."""
        return LeftBehind(self)


class LeftBehind:
    """Stand-in for a ledger in a pickle.

    It is unpickled as a ledger: on the same file, or, if the ledger was in memory, as one that refuses every operation.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __reduce__(self) -> tuple[Any, ...]:
        path = self.ledger.path
        return _reopened, (None if path is None else str(path), self.ledger.budget)


def _time(entry: Entry) -> str:
    return entry.when.replace("T", " ").replace("+00:00", " UTC")


def _price(price: Budget | Entry) -> str:
    """An amount that was spent, rounded up."""
    return f"epsilon {raised(price.epsilon)}, delta {raised(price.delta, 3)}"


def _left(price: Budget) -> str:
    """An amount that is left, rounded down."""
    return f"epsilon {lowered(price.epsilon)}, delta {lowered(price.delta, 3)}"


def _reopened(path: str | None, budget: Budget) -> Ledger:
    """Rebuild an unpickled ledger. Its file is opened on first use and must then have the same budget."""
    ledger = Ledger.__new__(Ledger)
    # Pickles store the path as a string: a Path pickled on one operating system cannot be loaded on another.
    file = None if path is None else Path(path)
    ledger._path, ledger._budget, ledger._live = file, budget, {}
    ledger._store = LostStore() if file is None else FileStore(file, budget)
    return ledger


# Shared by the whole process, not per thread or task: work inside a `with` block is often done in threads.
_active: list[Ledger] = []
_active_lock = threading.Lock()


class Accounts:
    """The ledgers that a release is charged to: none, one, or several."""

    def __init__(self, ledgers: Sequence[Ledger]) -> None:
        self._ledgers = tuple(ledgers)

    @property
    def empty(self) -> bool:
        """Whether there is no ledger to charge."""
        return not self._ledgers

    def check(self, *parts: Part) -> None:
        """Raise if any ledger cannot pay these prices together. Called before any row is read."""
        require_prices(parts)
        for ledger in self._ledgers:
            due = [part for part in parts if not _entries_of(ledger, part)]
            ledger.check(epsilon=sum_up(part.epsilon for part in due), delta=sum_up(part.delta for part in due))

    def spend(self, *parts: Part) -> list[str]:
        """Charge each part to every ledger that does not hold it yet; release its value only if this does not raise.

        Returns the ids of the entries of all parts, including those that were charged before.
        """
        require_prices(parts)
        return [entry for part in parts for ledger in self._ledgers for entry in _charged(ledger, part)]


def _entries_of(ledger: Ledger, part: Part) -> Sequence[str]:
    """Ids of the entries for a part that was charged before. Raises if the ledger has its name with another price."""
    entries = [entry for entry in ledger.entries if part.release and entry.release == part.release]
    if any((entry.epsilon, entry.delta) != (part.epsilon, part.delta) for entry in entries):
        raise MismatchError(
            f"{part.what!r} states epsilon={part.epsilon!r}, delta={part.delta!r}, but the ledger has another price. "
            "Restore the original file of the survey or plan."
        )
    return [entry.id for entry in entries]


def _charged(ledger: Ledger, part: Part) -> Sequence[str]:
    """Ids of the entries for a part, which is charged now if the ledger does not hold it."""
    before = _entries_of(ledger, part)
    if before:
        return before
    note = SECURE if part.secure_randomness else SEEDED
    price = {"epsilon": part.epsilon, "delta": part.delta}
    return [ledger.spend(what=part.what, **price, note=note, parts=(part,), release=part.release).id]


def accounts(ledger: Ledger | Accounts | None) -> Accounts:
    """Collect the ledger passed and the active ledgers, each once; an `Accounts` object is returned unchanged.

    A run of a replay audit is no release, so active ledgers are not charged for it.
    """
    if isinstance(ledger, Accounts):
        return ledger
    if ledger is not None:
        validate.instance("ledger", ledger, Ledger, "Pass pais.Ledger(epsilon=...) or pais.Ledger(path=...).")
    with _active_lock:
        active = [*_active] if current_tape() is None else []
    charged = active if ledger is None else [ledger, *active]
    # Two ledger objects on the same file are the same ledger and must be charged once.
    by_file = {ledger.path or id(ledger): ledger for ledger in charged}
    return Accounts(list(by_file.values()))


def travelling(ledger: Ledger | None) -> Ledger | None:
    """Return the ledger to send along with a model to another process, so that the ledger active here is charged."""
    with _active_lock:
        ledgers = {each.path or id(each): each for each in ([] if ledger is None else [ledger]) + _active}
    if len(ledgers) > 1:
        raise ArgumentError(
            "several ledgers are active, but a model can carry only one to another process. Fit in this process, or "
            "leave the `with` blocks of the other ledgers."
        )
    return next(iter(ledgers.values()), None)


class Prepaid(Accounts):
    """Accounts of one fit whose survey and release have one price together.

    The first charge, which the survey makes just before it draws noise, pays the price of the whole fit. The release
    that follows is then paid for, once. Another run of the same plan is not, because it has other accounts.

    Parameters
    ----------
    accounts : Accounts
        The ledgers that are charged.
    price : Part
        Price of the whole fit, fixed before a row is read.

    Notes
    -----
    Guarantee. The price is on every ledger before the first bit of the survey's noise is drawn, and nothing beyond one
    survey and one release is covered by it, also if several threads ask: `tests/unit/accounting/test_prepaid.py`.
    """

    def __init__(self, accounts: Accounts, price: Part) -> None:
        self._accounts, self._price = accounts, price
        self._entries: list[str] | None = None
        self._released = False
        self._lock = threading.Lock()

    @property
    def empty(self) -> bool:
        return self._accounts.empty

    def check(self, *parts: Part) -> None:
        """Raise unless the price of the fit was paid and includes these parts."""
        with self._lock:
            self._require_paid(parts)

    def spend(self, *parts: Part) -> list[str]:
        """Charge the whole price, or return the entries of that charge if it was made before."""
        # One thread at a time: between the question whether the release is paid for and the mark that it was made, no
        # other thread may ask.
        with self._lock:
            if self._entries is None:
                # The survey comes first. It has a shift and no price.
                if not all(part.shift > 0.0 for part in parts):
                    raise self._refusal()
                secure = all(part.secure_randomness for part in parts)
                self._entries = self._accounts.spend(replace(self._price, secure_randomness=secure))  # [note: ledger-5]
                return list(self._entries)
            self._require_paid(parts)
            self._released = True
            return list(self._entries)

    def _require_paid(self, parts: tuple[Part, ...]) -> None:
        if self._entries is None or self._released or not all(map(self._includes, parts)):
            raise self._refusal()

    def _includes(self, part: Part) -> bool:
        within = part.epsilon <= self._price.epsilon and part.delta <= self._price.delta
        return within and part.shift == 0.0 and not part.release

    def _refusal(self) -> MismatchError:
        price = self._price
        return MismatchError(
            f"the fit paid epsilon={price.epsilon!r}, delta={price.delta!r} for one survey and one release, and this "
            "is not covered. Use other accounts."
        )
