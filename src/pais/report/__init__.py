"""HTML report of a fit: the released values and their privacy cost, from public values only."""

from __future__ import annotations

from pais.report.components import ComponentResults
from pais.report.header import ReportHeader, today
from pais.report.page import report_html, write_report
from pais.report.regression import RegressionResults, Step, penalty_in_words
from pais.report.results import Results
from pais.report.summary import StatisticResults

__all__ = [
    "ComponentResults",
    "RegressionResults",
    "ReportHeader",
    "Results",
    "StatisticResults",
    "Step",
    "penalty_in_words",
    "report_html",
    "today",
    "write_report",
]
