"""The report of a private k-means: complete, self-contained, safe to open, and free of rows; and its head."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pais
from pais._base.cards import number
from pais.kmeans.planning import KMeansSettings
from pais.kmeans.result import KMeansFit
from pais.show.page import ReportHeader, best_guess, report_html, templates, write_report
from pais.show.text import price
from tests.unit.show.pages import check, on_one_line, parsed

NAMES = ["age", "<b>&", '"quoted" onload=x', "height"]
ROWS = np.random.default_rng(0).normal(size=(40_000, 4)) + 4.0 * np.repeat(np.eye(4), 10_000, axis=0)
NORMS = pais.NormDistribution.from_quantiles(lambda level: 6.0 * level, n_rows=40_000, radius=6.0)


def fitted(rows: np.ndarray = ROWS, *, seed: int | None = None, **changes) -> KMeansFit:
    settings = {"n_clusters": 3, "epsilon": 1.25, "delta": 1e-6, **changes}
    return pais.fit(rows, KMeansSettings(**settings), random_state=seed)


@pytest.fixture(scope="module")
def fit() -> KMeansFit:
    return fitted()


def page_with(fit: KMeansFit, **changes: object) -> str:
    """The page of a fit with other released values."""
    return on_one_line(report_html(dataclasses.replace(fit, value=dataclasses.replace(fit.value, **changes))))


def variants() -> dict[str, dict]:
    return {
        "gaussian": {},
        "laplace": {"mechanism": "laplace", "delta": 0.0},
        "l2": {"mechanism": "l2", "delta": 0.0, "sampling": "coreset"},
        "paper": {"mechanism": "l2", "delta": 0.0, "algorithm": "paper"},
        "uniform": {"sampling": "uniform", "sample_size": 500.0},
        "all rows": {"sampling": "none"},
        "stated": {"radius": 6.0, "norms": NORMS},
        "one cluster": {"n_clusters": 1},
        "no privacy to speak of": {"epsilon": 900.0, "mechanism": "l2", "delta": 0.0},
    }


@pytest.mark.filterwarnings("ignore:epsilon=.* is a weak guarantee:UserWarning")
@pytest.mark.parametrize("name", variants())
def test_every_kind_of_fit_gives_a_page_of_balanced_tags_with_all_sections(name: str) -> None:
    page = check(report_html(fitted(**variants()[name])))
    for section in ("guarantee", "budget", "norms", "sampling", "centers", "noise", "limits", "certificate"):
        assert section in page.ids


def test_the_page_holds_the_numbers_of_the_certificate(fit: KMeansFit) -> None:
    page = report_html(fit)
    text = " ".join(parsed(page).text)
    assert "1.25" in text
    assert number(1e-6) == "10⁻⁶"
    assert "10⁻⁶" in text
    for part in fit.certificate.parts:
        assert part.what in text
        assert price(part.epsilon) in text
    shown = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)
    assert shown is not None
    assert json.loads(html.unescape(shown[1])) == json.loads(fit.certificate.to_json())
    for count in fit.value.noisy_counts:
        assert number(count) in text
    assert number(fit.plan.norms.expected_size(fit.plan.rule)) in text
    for round_ in fit.plan.mechanism.rounds:
        assert number(round_.count_noise.scale) in text
        assert f"{number(round_.distance_noise.scale)} \u00d7 clip" in text
        unit = 1.0 if not round_.whole_rows else round_.radius
        assert number(round_.residual_noise.scale * unit) in text


def test_a_loss_is_never_shown_smaller_than_it_is() -> None:
    assert price(0.1 + 0.2) == "0.3"
    assert price(0.123451) == "0.12346"
    assert price(1.0000001) == "1.0001"
    assert price(1234.5678) == "1,234.6"
    assert price(1.0000001e-6) == "1.0001 \u00d7 10⁻⁶"
    assert price(0.0) == "0"
    for value in np.exp(np.random.default_rng(0).uniform(-5, 5, 200)):
        assert float(price(value).replace(",", "")) >= value * (1 - 1e-11)


def test_best_guess_equals_randomised_response() -> None:
    # Randomised response attains (e^epsilon + delta)/(e^epsilon + 1): tell all with probability delta, else toss.
    assert best_guess(np.log(3.0), 0.0) == "75.0%"
    assert best_guess(0.0, 0.5) == "75.0%"
    assert best_guess(1.0, 0.0) == "73.2%"
    assert best_guess(800.0, 0.0) == "100.0%"


def test_the_page_refers_to_nothing_outside_itself(fit: KMeansFit) -> None:
    page = report_html(fit, feature_names=NAMES)
    check(page)
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'\"" in page


def test_names_and_titles_are_text_and_never_markup(fit: KMeansFit) -> None:
    page = report_html(fit, feature_names=NAMES, header=ReportHeader(title="</title><script>alert(1)</script>"))
    assert "<b>&<" not in page
    assert "&lt;b&gt;&amp;" in page
    assert "<script" not in page
    assert '"quoted"' not in page
    text = " ".join(parsed(page).text)
    assert "<b>&" in text
    assert '"quoted" onload=x' in text


def test_certificate_texts_are_escaped(fit: KMeansFit) -> None:
    part = pais.Part(what="<i>survey", epsilon=1.25, delta=1e-6)
    certificate = dataclasses.replace(fit.certificate, parts=(part,), note="<i>note", version="<i>1")
    assert "<i>" not in report_html(dataclasses.replace(fit, certificate=certificate))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda fit: report_html(fit, feature_names=["a", "b", "c"]), "3 entries, but the centers have 4 features"),
        (lambda fit: report_html(fit, feature_names="abcd"), "feature_names"),
        (lambda fit: report_html(fit.value), r"pais\.fit"),
        (lambda fit: report_html(fit, header="title"), "header"),
        (lambda _: ReportHeader(owner=3), "owner"),  # type: ignore[arg-type]  # on purpose
        (lambda _: ReportHeader(title=3), "title"),  # type: ignore[arg-type]  # on purpose
    ],
)
def test_what_is_no_fit_name_or_text_is_refused(fit: KMeansFit, call: Callable[[Any], object], named: str) -> None:
    with pytest.raises(pais.ArgumentError, match=named):
        call(fit)


def test_banner_is_shown_if_the_run_or_its_survey_was_seeded(fit: KMeansFit) -> None:
    loud = 'role="alert"'
    assert loud not in report_html(fit)
    assert "Seeded, not private" not in report_html(fit)
    page = report_html(fitted(seed=7))
    assert loud in page
    assert page.index("Seeded, not private") < page.index("<h2")
    survey = dataclasses.replace(fit.survey, secure_randomness=False)
    assert loud in report_html(dataclasses.replace(fit, survey=survey))


def test_no_value_of_a_row_is_on_the_page() -> None:
    rows = ROWS.copy()
    canary = [5.4321987, -4.8765123, 3.1928374, 2.7364519]
    rows[17] = canary
    page = report_html(fitted(rows, seed=3, radius=6.0, norms=NORMS, sampling="none"))
    norm = float(np.linalg.norm(canary))
    for value in [*canary, norm, norm / 6.0]:
        # As printed in full, and as the first seven digits of it.
        assert repr(value) not in page
        assert f"{abs(value):.7g}" not in page


def test_the_same_fit_gives_the_same_page(fit: KMeansFit) -> None:
    assert report_html(fit) == report_html(fit)


def test_centers_are_ordered_by_noisy_count_with_their_index(fit: KMeansFit) -> None:
    page = report_html(fit)
    shown = [int(index) for index in re.findall(r'<th scope="row"><b>(\d+)</b>', page)]
    assert shown == np.argsort(-fit.value.noisy_counts).tolist()


def test_a_count_within_its_noise_is_marked(fit: KMeansFit) -> None:
    doubt, key = '<span class="doubt">within noise', "<b>Within noise</b>"
    for counts, n_doubts in (([20_000.0, 12_000.0, 8_000.0], 0), ([20_000.0, -3.0, 8_000.0], 1)):
        page = page_with(fit, noisy_counts=np.array(counts))
        assert page.count(doubt) == page.count(key) == n_doubts


def test_counts_without_a_positive_one_give_a_page(fit: KMeansFit) -> None:
    page = page_with(fit, noisy_counts=np.full(3, -1e7), standard_errors=np.full((3, 4), 100.0))
    assert "\u00b1100%" in page
    assert not re.search(r"\d{30}", page)


def test_a_table_of_noise_says_so(fit: KMeansFit) -> None:
    words = "The values in this table are noise"
    assert words not in report_html(fit)
    page = page_with(fit, standard_errors=np.full((3, 4), 100.0))
    assert words in page
    assert 'id="pictures"' not in page


def test_the_column_of_the_noise_is_explained_only_if_it_is_there(fit: KMeansFit) -> None:
    assert "<b>Noise</b>:" in report_html(fit)
    page = page_with(fit, centers=np.ones((3, 4)), standard_errors=np.full((3, 4), 0.1) * [1.0, 2.0, 3.0, 4.0])
    assert "<b>Noise</b>:" not in page
    assert "<b>\u00b1</b>:" in page


def test_only_curves_and_bars_that_say_something_are_drawn() -> None:
    everything = on_one_line(report_html(fitted(sampling="none")))
    assert "All rows are kept, whatever their norm." in everything
    assert "this plan does not sample" in everything
    for name in ("kept-title", "sampling-bar-title", "budget-bar-title"):
        assert name not in everything
    sampled = report_html(fitted(radius=6.0, norms=NORMS, sample_size=500.0, mechanism="l2", delta=0.0))
    assert 'id="kept-title"' in sampled
    assert 'id="sampling-bar-title"' in sampled


def test_report_warns_about_a_survey_that_missed_most_rows(fit: KMeansFit) -> None:
    words = "The survey found few of the rows"
    assert words not in report_html(fit)
    norms = pais.NormDistribution(norms=np.array([1.0]), masses=np.array([1.0]), radius=fit.plan.ball.radius)
    plan = dataclasses.replace(fit.plan, norms=norms)
    assert words in report_html(dataclasses.replace(fit, plan=plan))
    assert words not in report_html(dataclasses.replace(fit, plan=plan, survey=None))


def test_templates_are_loaded_only_when_a_page_is_written() -> None:
    code = "import sys, pais, pais.cli; pais.DPKMeans, pais.mean, pais.run; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_contrast_meets_accessibility_rules() -> None:
    sheet = templates().get_template("style.css").render()
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w+);", rule)) for rule in re.findall(r":root {(.*?)}", sheet, re.DOTALL)[:2]
    )
    assert len(light) == len(dark) == 13 + 2 * 9
    for colours in (light, dark):
        for step in range(9):
            assert contrast(colours[f"heat-{step}"], colours[f"heat-text-{step}"]) >= 4.5, step
        for ink in ("text", "soft", "accent", "alarm"):
            for back in ("page", "card", "code"):
                assert contrast(colours[ink], colours[back]) >= 4.5, (ink, back)
        assert contrast(colours["weak"], colours["weak-text"]) >= 4.5
        assert contrast(colours["alarm"], colours["alarm-text"]) >= 7.0


def test_the_report_is_written_whole(fit: KMeansFit, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    header = ReportHeader(title="T", data_name="D", owner="O", date="2026-01-31")
    assert write_report(target, fit, feature_names=NAMES, header=header) == target
    assert target.read_text(encoding="utf-8") == report_html(fit, feature_names=NAMES, header=header)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failed_write_keeps_the_old_report(
    fit: KMeansFit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, call, fails)
    for before in (None, "the old report"):
        target = tmp_path / "report.html"
        if before is not None:
            target.write_text(before)
        with pytest.raises(OSError, match="disk full"):
            write_report(target, fit)
        assert [path.read_text() for path in tmp_path.iterdir()] == ([] if before is None else [before])


def stated(page: str) -> dict[str, str]:
    shown = re.search(r'<dl class="stated">(.*?)</dl>', page, re.DOTALL)
    assert shown is not None
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", shown[1]))


def test_header_shows_what_the_user_states(fit: KMeansFit) -> None:
    header = ReportHeader(title="Segments", data_name="Customers <2025>", owner="A & B", date="2026-01-31")
    page = report_html(fit, header=header)
    assert "<h1>Segments</h1>" in page
    assert stated(page) == {
        "Data": "Customers &lt;2025&gt;",
        "Date": "2026-01-31",
        "Owner": "A &amp; B",
        "Protected": "each row",
        "Ledger entry": "none: no ledger was charged",
    }


def test_ledger_entries_are_named() -> None:
    ledger = pais.Ledger(epsilon=5.0, delta=1e-4)
    fit = pais.DPKMeans(n_clusters=2, epsilon=1.0, ledger=ledger).fit(ROWS).fit_
    (entry,) = ledger.entries
    assert stated(report_html(fit))["Ledger entry"] == f"<code>{entry.id}</code>"
    two = dataclasses.replace(fit, certificate=dataclasses.replace(fit.certificate, ledger_entries=["a", "b"]))
    assert stated(report_html(two))["Ledger entries"] == "<code>a</code>, <code>b</code>"


def test_page_of_a_person_speaks_of_the_person(fit: KMeansFit) -> None:
    certificate = dataclasses.replace(fit.certificate, neighbours="one <customer> added or removed")
    page = on_one_line(report_html(dataclasses.replace(fit, certificate=certificate)))
    assert stated(page)["Protected"] == "each customer (&lt;customer&gt;), with all rows"
    assert "<strong>any one customer</strong>" in page
    assert "each customer with all rows that have the same &lt;customer&gt;" in page
    assert "<customer>" not in page
    assert "any one row" not in page
    assert re.search(r"of about [\d,]+ customers, at epsilon", page)
