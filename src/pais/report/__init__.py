"""HTML report of a fit: the released values and their privacy cost, from public values only."""

from __future__ import annotations

from pais.report.components import ComponentResults
from pais.report.header import ReportHeader, today
from pais.report.page import report_html, write_report
from pais.report.regression import RegressionResults, Step
from pais.report.results import Results

__all__ = [
    "ComponentResults",
    "RegressionResults",
    "ReportHeader",
    "Results",
    "Step",
    "report_html",
    "today",
    "write_report",
]
