"""Cards: short lines in a terminal, small tables in a notebook, words from `explain`; never arrays, never markup."""

from __future__ import annotations

import dataclasses
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context

import pais
from pais._base.cards import Card
from pais.cli.explain import explain_file

ROWS = np.random.default_rng(0).normal(size=(20_000, 3)) + 4.0 * np.repeat(np.eye(3), [7_000, 7_000, 6_000], axis=0)


@pytest.fixture(scope="module")
def model() -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters=3, epsilon=1.0).fit(ROWS)


@pytest.fixture(scope="module")
def objects(model: pais.DPKMeans) -> dict[str, object]:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    count = pais.WeightedCount(noise=pais.laplace_noise(20.0))
    plan = pais.Plan(ball=pais.Ball(radius=9.0), rule=pais.UniformRule(rate=0.5), mechanism=count, epsilon=1.0)
    return {
        "model": model,
        "fit": model.fit_,
        "plan": model.plan_,
        "plan of a count": plan,
        "certificate": model.certificate_,
        "survey of a fit": model.fit_.survey,
        "survey": pais.survey(ROWS, epsilon=0.5, ledger=ledger),
        "release": pais.run(plan, ROWS, ledger=ledger),
        "ledger": ledger,
    }


NAMES = (
    "model",
    "fit",
    "plan",
    "plan of a count",
    "certificate",
    "survey of a fit",
    "survey",
    "release",
    "ledger",
)


class Text(HTMLParser):
    """The text of a page and the names of its tags; raises on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def text_of(page: str) -> str:
    parser = Text()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser.text


@pytest.mark.parametrize("name", NAMES)
def test_repr_is_one_short_line_without_arrays(objects: dict[str, object], name: str) -> None:
    line = repr(objects[name])
    assert "\n" not in line
    assert len(line) <= 160
    assert not re.search(r"array\(|\binf\b|\bnan\b", line)


@pytest.mark.parametrize("name", NAMES)
def test_card_is_small_and_needs_nothing_from_outside(objects: dict[str, object], name: str) -> None:
    page = objects[name]._repr_html_()  # type: ignore[attr-defined]
    text = text_of(page)
    assert ("shift" if name == "survey of a fit" else "epsilon") in text
    assert not re.search(r"\b(inf|nan|None)\b|array\(", text)
    assert not re.search(r"(src|href)\s*=|url\(|<script|<link|<style|https?://|\bon\w+=", page, re.IGNORECASE)
    assert len(page) < 8_000


@pytest.mark.parametrize("name", NAMES)
def test_explain_is_words(objects: dict[str, object], name: str) -> None:
    text = objects[name].explain()  # type: ignore[attr-defined]
    assert ("shift" if name == "survey of a fit" else "epsilon") in text
    assert not re.search(r"\b(inf|nan|None)\b|array\(", text)


def test_gaussian_survey_says_who_paid_instead_of_an_infinite_price(model: pais.DPKMeans) -> None:
    survey = model.fit_.survey
    assert survey.epsilon == math.inf
    assert "paid for by its fit" in repr(survey)
    assert "standard deviations of its noise" in text_of(survey._repr_html_())
    assert "standard deviations of its noise" in survey.explain()


def test_seeded_results_carry_an_alarm(model: pais.DPKMeans) -> None:
    seeded = pais.DPKMeans(n_clusters=3, epsilon=1.0, random_state=0).fit(ROWS)
    for value in (seeded.fit_, seeded.certificate_, seeded.fit_.survey):
        assert "seeded, not private" in repr(value)
        assert "seeded, not private" in text_of(value._repr_html_())
        assert "NOT PRIVATE" in value.explain()
    for value in (model.fit_, model.certificate_, model.fit_.survey):
        assert "not private" not in repr(value)


def test_ledger_card_shows_the_latest_entries_only() -> None:
    ledger = pais.Ledger(epsilon=1.0)
    for number in range(20):
        ledger.spend(what=f"release {number}", epsilon=0.01)
    text = text_of(ledger._repr_html_())
    assert "release 19" in text
    assert "release 3\n" not in text
    assert "earlier entries\n12" in text
    assert "release 3:" in ledger.explain()


def test_card_texts_are_escaped() -> None:
    card = Card(kind="<i>", summary="<b>&", facts=(("<u>", "<s>"),), alarm="<em>")
    page = card.html()
    assert not re.search(r"<(i|b|u|s|em)>", page)
    assert text_of(page).split() == ["<i>", "<b>&", "<em>", "<u>", "<s>"]
    assert card.line() == "<<i>: <b>&; <em>>"


def test_unfitted_model_keeps_the_diagram_of_scikit_learn(model: pais.DPKMeans) -> None:
    unfitted = pais.DPKMeans(n_clusters=3)
    assert "pais-card" not in unfitted._repr_html_()
    assert "pais-card" not in unfitted._repr_mimebundle_()["text/html"]
    bundle = model._repr_mimebundle_()
    assert "pais-card" in bundle["text/html"]
    assert bundle["text/html"] == model._repr_html_()
    assert bundle["text/plain"] == repr(model)
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")


def test_release_shows_numbers_and_only_the_shape_of_arrays(model: pais.DPKMeans) -> None:
    certificate = model.certificate_
    shown = {
        12.5: "12.5",
        (1.0, 2.0): "2 values",
        "text": "str",
    }
    for value, words in shown.items():
        assert repr(pais.Release(value=value, certificate=certificate)).startswith(f"<Release: {words}; epsilon 1")
    array = pais.Release(value=np.zeros((2, 3)), certificate=certificate)
    assert "an array of shape (2, 3)" in repr(array)
    assert "an array of shape (2, 3)" in array.explain()


def test_certificate_of_a_person_names_the_person_in_words(model: pais.DPKMeans) -> None:
    certificate = dataclasses.replace(model.certificate_, neighbours="one customer_id added or removed")
    text = certificate.explain()
    assert "Adding or removing one customer changes" in text
    assert "one row" not in text
    assert "for one customer: all rows with the same customer_id together" in text
    assert "one customer_id" in repr(certificate)


def test_files_and_objects_have_the_same_explanation(model: pais.DPKMeans, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(model.certificate_.to_json())
    assert explain_file(path) == model.certificate_.explain()
    model.fit_.survey.save(tmp_path / "survey.json")
    assert explain_file(tmp_path / "survey.json") == model.fit_.survey.explain()
