"""The pages of fitted estimators and of statistics: they hold what was released, and nothing of the rows."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pais
from pais import DPPCA, DPLinearRegression, DPLogisticRegression
from pais.show.text import whole
from tests.unit.show.pages import check

COLUMNS = {"age": (18, 100), "income": (0, 200_000), "premium": bool, "region": ["north", "south", "<b>east"]}

# A row whose cells are within the bounds and would be recognised.
CANARY = {"age": 54.3219876, "income": 87_651.2345678, "premium": True, "region": "south"}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def table(n: int = 6_000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 90, n)
    frame = pd.DataFrame(
        {
            "age": age,
            "income": np.clip(1_000.0 * age + rng.normal(0, 10_000, n), 0, 200_000),
            "premium": rng.random(n) < age / 100,
            "region": rng.choice(["north", "south", "<b>east"], n),
        }
    )
    for name, cell in CANARY.items():
        frame.loc[17, name] = cell
    return frame


def linear(**options: Any) -> Any:
    return DPLinearRegression(epsilon=2.0, delta=1e-6, columns=COLUMNS, target="income", **options)


def logistic(**options: Any) -> Any:
    return DPLogisticRegression(epsilon=2.0, delta=1e-6, columns=COLUMNS, target="region", **options)


def binary(**options: Any) -> Any:
    return DPLogisticRegression(epsilon=2.0, delta=1e-6, columns=COLUMNS, target="premium", **options)


def pca(**options: Any) -> Any:
    return DPPCA(n_components=3, epsilon=2.0, delta=1e-6, columns=COLUMNS, **options)


MODELS: dict[str, Callable[..., Any]] = {"linear": linear, "logistic": logistic, "binary": binary, "pca": pca}

STATISTICS: dict[str, Callable[..., pais.Statistic]] = {
    "description": lambda **options: pais.describe(table(), columns=COLUMNS, **options),
    "groups": lambda **options: pais.describe(
        table(), columns={"age": (18, 100)}, by={"region": COLUMNS["region"]}, **options
    ),
    "histogram": lambda **options: pais.histogram(table(), columns=COLUMNS, **options),
    "mean": lambda **options: pais.mean(table(), columns={"age": (18, 100)}, **options),
    "count": lambda **options: pais.count(table(), **options),
    "covariance": lambda **options: pais.covariance(
        table(), columns={"age": (18, 100), "income": (0, 200_000)}, **options
    ),
    "median": lambda **options: pais.quantile(table(), columns={"age": (18, 100)}, **options),
    "auto": lambda **options: pais.mean(table(), columns={"age": "auto", "income": "auto"}, **options),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    return {name: model().fit(table()) for name, model in MODELS.items()}


def page_of(model: Any, folder: Path, **options: Any) -> str:
    return str(model.write_report(folder / "report.html", **options).read_text(encoding="utf-8"))


def assert_no_cell_of_the_canary(page: str) -> None:
    for cell in (CANARY["age"], CANARY["income"]):
        assert repr(cell) not in page
        assert f"{cell:.7g}" not in page


@pytest.mark.parametrize("name", MODELS)
def test_page_of_a_model_is_complete_and_holds_no_cell_of_a_row(
    fitted: dict[str, Any], tmp_path: Path, name: str
) -> None:
    model = fitted[name]
    page = page_of(model, tmp_path, data_name="D&D", owner="O", date="2026-01-31")
    shown = check(page)
    for section in ("guarantee", "columns", "budget", "norms", "sampling", "noise", "limits", "certificate"):
        assert section in shown.ids
    text = " ".join(shown.text)
    assert "D&D" in text
    assert "epsilon 2" in text
    assert "<b>east" in text
    assert "region=<b>east" not in page
    assert "Seeded, not private" not in page
    assert_no_cell_of_the_canary(page)


@pytest.mark.parametrize("name", MODELS)
def test_models_with_the_same_release_have_the_same_page(fitted: dict[str, Any], tmp_path: Path, name: str) -> None:
    # A model that has seen other rows, but was given the same released fit, has nothing else to show.
    other = MODELS[name]().fit(table(seed=1))
    other._keep(fitted[name].fit_)
    date = "2026-01-31"
    assert page_of(other, tmp_path, date=date) == page_of(fitted[name], tmp_path, date=date)


@pytest.mark.parametrize("name", MODELS)
def test_seeded_models_say_so_first(tmp_path: Path, name: str) -> None:
    page = page_of(MODELS[name](random_state=0).fit(table()), tmp_path)
    assert page.index("Seeded, not private") < page.index("<h2")
    noun = {"pca": "components"}.get(name, "coefficients")
    assert f"Do not publish the {noun}." in page


@pytest.mark.parametrize("name", MODELS)
def test_card_and_text_of_a_model_name_its_result(fitted: dict[str, Any], name: str) -> None:
    model = fitted[name]
    words = {
        "linear": "5 coefficients for income",
        "logistic": "3 coefficients for each of 3 classes of region",
        "binary": "5 coefficients for premium",
        "pca": "3 principal components of 6 features",
    }[name]
    assert model.explain().startswith(f"This fit released {words}. It may be published.\n")
    card = model._repr_html_()
    assert words in card
    assert model._results().verdict in card
    assert type(model).__name__ in card


def test_coefficients_on_the_page_are_those_of_the_model(fitted: dict[str, Any], tmp_path: Path) -> None:
    results = fitted["linear"]._results()
    assert np.array_equal(results.values[0], fitted["linear"].coef_)
    assert np.array_equal(results.standard_errors[0], fitted["linear"].coef_standard_errors_)
    assert "alpha = 'noise'" in html.unescape(page_of(fitted["linear"], tmp_path))
    assert np.array_equal(fitted["logistic"]._results().values, fitted["logistic"].coef_)
    assert fitted["logistic"]._results().classes == ("<b>east", "north", "south")
    assert fitted["binary"]._results().classes == ("True",)
    assert np.array_equal(fitted["pca"]._results().loadings, fitted["pca"].components_)


def test_arrays_have_numbered_features(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(3_000, 3))
    page = page_of(DPPCA(n_components=2, epsilon=1.0).fit(rows), tmp_path)
    assert "<span>x2</span>" in page
    page = page_of(DPLinearRegression(epsilon=1.0, fit_intercept=False).fit(rows, rows[:, 0]), tmp_path)
    assert "<span>x2</span>" in page
    assert '<th scope="row">intercept</th>' not in page


@pytest.mark.parametrize("name", STATISTICS)
def test_page_of_a_statistic(tmp_path: Path, name: str) -> None:
    result = STATISTICS[name](epsilon=1.0)
    page = page_of(result, tmp_path, title="T<i>", data_name="D", owner="O", date="2026-01-31")
    shown = check(page)
    assert {"values", "guarantee", "budget", "limits", "certificate"} <= set(shown.ids)
    assert not {"norms", "sampling"} & set(shown.ids)
    assert "<h1>T&lt;i&gt;</h1>" in page
    assert result.noise.split(".")[0] in " ".join(shown.text)
    assert_no_cell_of_the_canary(page)


def test_values_on_the_page_are_those_of_the_statistic(tmp_path: Path) -> None:
    result = pais.count(table(), by={"region": COLUMNS["region"]}, epsilon=1.0)
    page = page_of(result, tmp_path)
    low, high = result.interval(0.95)
    for region in ("north", "south"):
        small = f"<span>{whole(low[region])} to</span> <span>{whole(high[region])}</span>"
        assert f"{whole(result.value[region])}<small>{small}</small>" in page


def test_a_statistic_that_is_lost_in_the_noise_says_so_first(tmp_path: Path) -> None:
    result = pais.mean(table(), columns={"age": (18, 100)}, by={"region": ["north", "nowhere"]}, random_state=0)
    page = result.write_report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<p class="answer">1 of 2 values is lost in the noise.</p>' in page


def test_shares_of_true_are_in_percent(tmp_path: Path) -> None:
    result = pais.mean(table(), columns={"premium": bool}, by={"region": ["north", "south"]}, random_state=0)
    page = result.write_report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(re.findall(r"\d%<small><span>[\d.]+% to</span>", page)) == 2


def test_seeded_statistics_say_so(tmp_path: Path) -> None:
    page = page_of(pais.count(table(), epsilon=1.0, random_state=0), tmp_path)
    assert "Seeded, not private" in page
    assert re.search("Do not publish the values", page)
