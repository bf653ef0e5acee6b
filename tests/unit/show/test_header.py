"""The head of the report: only what the user states, who is protected, and the ledger's entries."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import pais
from pais.show.page import ReportHeader, report_html, today

ROWS = np.random.default_rng(0).normal(size=(20_000, 3))


@pytest.fixture(scope="module")
def model() -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters=2, epsilon=1.0).fit(ROWS)


def stated(page: str) -> dict[str, str]:
    shown = re.search(r'<dl class="stated">(.*?)</dl>', page, re.DOTALL)
    assert shown is not None
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", shown[1]))


def test_header_shows_what_the_user_states(model: pais.DPKMeans) -> None:
    header = ReportHeader(title="Segments", data_name="Customers <2025>", owner="A & B", date="2026-01-31")
    page = report_html(model.fit_, header=header)
    assert "<h1>Segments</h1>" in page
    assert stated(page) == {
        "Data": "Customers &lt;2025&gt;",
        "Date": "2026-01-31",
        "Owner": "A &amp; B",
        "Protected": "each row",
        "Ledger entry": "none: no ledger was charged",
    }


def test_what_is_not_stated_is_left_out(model: pais.DPKMeans) -> None:
    page = report_html(model.fit_)
    assert "<h1>Segments</h1>" in page
    assert set(stated(page)) == {"Protected", "Ledger entry"}


def test_ledger_entries_are_named() -> None:
    ledger = pais.Ledger(epsilon=5.0, delta=1e-4)
    fit = pais.DPKMeans(n_clusters=2, epsilon=1.0, ledger=ledger).fit(ROWS).fit_
    (entry,) = ledger.entries
    assert stated(report_html(fit))["Ledger entry"] == f"<code>{entry.id}</code>"
    two = dataclasses.replace(fit, certificate=dataclasses.replace(fit.certificate, ledger_entries=["a", "b"]))
    assert stated(report_html(two))["Ledger entries"] == "<code>a</code>, <code>b</code>"


def test_page_of_a_person_speaks_of_the_person(model: pais.DPKMeans) -> None:
    certificate = dataclasses.replace(model.certificate_, neighbours="one <customer> added or removed")
    page = report_html(dataclasses.replace(model.fit_, certificate=certificate))
    assert stated(page)["Protected"] == "each customer (&lt;customer&gt;), with all rows"
    assert "<strong>any one customer</strong>" in page
    assert "each customer with all rows that have the same &lt;customer&gt;" in page
    assert "<customer>" not in page
    assert "any one row" not in page
    assert re.search(r"of about [\d,]+ customers, at epsilon", page)


def test_a_header_that_is_not_text_is_refused(model: pais.DPKMeans) -> None:
    with pytest.raises(pais.ArgumentError, match="owner"):
        ReportHeader(owner=3)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(pais.ArgumentError, match="header"):
        report_html(model.fit_, header="title")  # type: ignore[arg-type]  # on purpose


def test_model_writes_its_report_with_a_header(model: pais.DPKMeans, tmp_path: Path) -> None:
    page = model.write_report(tmp_path / "page.html", title="T", data_name="D", owner="O").read_text()
    assert stated(page) | {"Date": today()} == stated(page)
    assert stated(page)["Data"] == "D"
    assert stated(page)["Owner"] == "O"
    assert "<h1>T</h1>" in page
    dated = model.write_report(tmp_path / "page.html", date="2026-01-31").read_text()
    assert stated(dated)["Date"] == "2026-01-31"
