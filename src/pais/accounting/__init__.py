"""What has been spent on a set of rows: a ledger of releases, in memory or in a file that several processes share."""

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
