"""Audits: test a privacy claim on two neighbouring tables, by replay or by many runs."""
