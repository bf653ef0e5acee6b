"""The whole price of a fit, charged before the first of its releases."""

from __future__ import annotations

import threading
from dataclasses import replace

from pais.accounting.ledger import Accounts
from pais.accounting.part import Part
from pais.errors import MismatchError


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
