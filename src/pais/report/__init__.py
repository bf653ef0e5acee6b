"""HTML report of a fit: the released values and their privacy cost, from public values only."""

from __future__ import annotations

from pais.report.header import DEFAULT_TITLE, ReportHeader, today
from pais.report.page import report_html, write_report

__all__ = ["DEFAULT_TITLE", "ReportHeader", "report_html", "today", "write_report"]
