"""Audits: a lower bound on epsilon, found by running a mechanism on two neighbouring tables many times."""

from pais.auditing.auditor import audit
from pais.auditing.events import Event, epsilon_lower_bound
from pais.auditing.many import measure_many
from pais.auditing.pairs import NeighbourPair
from pais.auditing.report import AuditReport, Finding

__all__ = ["AuditReport", "Event", "Finding", "NeighbourPair", "audit", "epsilon_lower_bound", "measure_many"]
