"""Prices, certificates and the ledger: what releases from a set of rows cost, and how much of the budget is left."""

from pais.accounting.amounts import Budget
from pais.accounting.certificate import Certificate, Release
from pais.accounting.entries import Entry, new_name
from pais.accounting.individual import record_loss
from pais.accounting.ledger import Accounts, Ledger, accounts, travelling
from pais.accounting.part import Part
from pais.accounting.prepaid import Prepaid

__all__ = [
    "Accounts",
    "Budget",
    "Certificate",
    "Entry",
    "Ledger",
    "Part",
    "Prepaid",
    "Release",
    "accounts",
    "new_name",
    "record_loss",
    "travelling",
]
