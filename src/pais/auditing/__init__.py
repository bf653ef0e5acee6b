"""Audits: test a privacy claim on two neighbouring tables, by replay or by many runs."""

from pais.auditing.auditor import audit
from pais.auditing.pairs import NeighbourPair
from pais.auditing.replay import ReplayReport
from pais.auditing.runs import AuditReport, Finding
from pais.auditing.targets import Event, epsilon_lower_bound, measure_many

__all__ = [
    "AuditReport",
    "Event",
    "Finding",
    "NeighbourPair",
    "ReplayReport",
    "audit",
    "epsilon_lower_bound",
    "measure_many",
]
