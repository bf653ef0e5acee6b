"""Prices, certificates and ledgers."""
