"""HTML report of a fit: the released values and their privacy cost, from public values only."""

from __future__ import annotations

from pais.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
