"""What was released and what it cost, as one page to open, print or send: public values only."""

from __future__ import annotations

from pais.report.page import report_html, write_report

__all__ = ["report_html", "write_report"]
