"""The head of the report: title, and what the user states about the data. Nothing here is read from rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timezone

from pais._base import validate
from pais.accounting.certificate import Certificate
from pais.accounting.words import ONE_ROW, person_of, unit_of
from pais.report.text import escaped


@dataclass(frozen=True, kw_only=True)
class ReportHeader:
    """What the head of a report says. The user states all of it; empty texts are left out.

    Attributes
    ----------
    title : str, optional
        Heading of the page; None = one that names the kind of result.
    data_name : str
        Name of the data.
    owner : str
        Who is responsible for the data or for this report.
    date : str
        Date of the report.
    """

    title: str | None = None
    data_name: str = ""
    owner: str = ""
    date: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "title" or self.title is not None:
                validate.instance(field.name, getattr(self, field.name), str, "Pass text.")


def today() -> str:
    """Return the date of this day, in the time zone of this computer."""
    return datetime.now(timezone.utc).astimezone().date().isoformat()


def protected(neighbours: str) -> str:
    """Name the protected record: "each row", or for example "each patient (patient_id), with all rows"."""
    if neighbours == ONE_ROW:
        return "each row"
    return f"each {person_of(neighbours)} ({unit_of(neighbours)}), with all rows"


def header(stated: ReportHeader, certificate: Certificate, subtitle: str) -> str:
    """Render the head of the page: the title, what the user stated, who is protected, and the ledger's entry."""
    entries = certificate.ledger_entries
    facts = [
        ("Data", escaped(stated.data_name)),
        ("Date", escaped(stated.date)),
        ("Owner", escaped(stated.owner)),
        ("Protected", escaped(protected(certificate.neighbours))),
        (
            "Ledger entry" if len(entries) < 2 else "Ledger entries",
            ", ".join(f"<code>{escaped(entry)}</code>" for entry in entries) or "none: no ledger was charged",
        ),
    ]
    lines = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in facts if value)
    return (
        f'<header>\n<h1>{escaped(stated.title)}</h1>\n<p class="soft">{subtitle}</p>\n'
        f'<dl class="stated">{lines}</dl>\n</header>'
    )
