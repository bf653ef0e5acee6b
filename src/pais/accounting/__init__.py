"""The privacy ledger: a record of the releases from a set of rows, in memory or in a file shared by processes."""

from pais.accounting.amounts import Budget
from pais.accounting.entries import Entry, Part, new_name
from pais.accounting.individual import RecordLosses, record_loss
from pais.accounting.ledger import Accounts, Ledger, accounts, travelling

__all__ = [
    "Accounts",
    "Budget",
    "Entry",
    "Ledger",
    "Part",
    "RecordLosses",
    "accounts",
    "new_name",
    "record_loss",
    "travelling",
]
