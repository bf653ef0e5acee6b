"""What the pages of all kinds of results have in common, from made-up values; axes and numbers."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

from pais.linear.page import Step
from pais.show.charts import Axis
from pais.show.page import ReportHeader, report_html
from pais.show.results import Results
from pais.show.text import value_text
from tests.unit.show.pages import (
    check,
    components,
    description,
    every_kind,
    histogram,
    moment_fit,
    page_of,
    regression,
    rendered,
    with_results,
)


def extremes() -> dict[str, Results]:
    zero = np.zeros((1, 2))
    return {
        "all zero": regression(names=("a", "b"), values=zero, standard_errors=zero, steps=()),
        "no intercept": regression(intercepts=None, intercept_errors=None, steps=()),
        "one feature": regression(
            names=("a",), values=np.array([[1e-30]]), standard_errors=np.array([[1e300]]), steps=(Step(),)
        ),
        "tiny and huge": regression(
            names=("a", "b"), values=np.array([[1e-12, 1e12]]), standard_errors=np.array([[1e-13, 1e11]]), steps=()
        ),
        "no class is clear": regression(3, standard_errors=np.full((3, 6), 1e9)),
        "no variance": components(variances=np.zeros(4), shares=np.zeros(4), above_noise=0, noise_level=0.0),
        "no noise": components(standard_errors=np.zeros(4), noise_level=0.0, above_noise=6),
        "one component": components(1, 1, above_noise=1),
        "one value": description(
            rows=(), columns=(), values=np.zeros((1, 1)), lows=np.zeros((1, 1)), highs=np.ones((1, 1)), is_date=None
        ),
        "nothing known": description(values=np.full((4, 6), np.nan), is_date=None),
        "negative means": histogram(
            name="mean", values=-np.ones((5, 1)), lows=-np.full((5, 1), 2), highs=np.ones((5, 1))
        ),
        "equal values": histogram(values=np.ones((5, 1)), lows=np.ones((5, 1)), highs=np.ones((5, 1))),
        "far from zero": histogram(
            name="mean", values=np.full((5, 1), 1e6), lows=np.full((5, 1), 1e6 - 1), highs=np.full((5, 1), 1e6 + 1)
        ),
    }


@pytest.mark.parametrize("name", [*every_kind(), *extremes()])
def test_every_page_is_well_formed_and_has_the_common_sections(name: str) -> None:
    page = check(page_of((every_kind() | extremes())[name]))
    for section in ("guarantee", "budget", "sampling", "noise", "limits", "certificate"):
        assert section in page.ids


@pytest.mark.parametrize("name", every_kind())
def test_names_are_text_and_never_markup(name: str) -> None:
    results = every_kind()[name]
    bad = '<i>&"x" onload=y'
    fields = {field.name for field in dataclasses.fields(results)}  # type: ignore[arg-type]  # all are dataclasses
    changes: dict[str, object] = {}
    for field in {"names", "classes", "columns"} & fields:
        changes[field] = tuple(f"{bad} {j}" for j, _ in enumerate(getattr(results, field)))
    if "rows" in fields:
        changes["rows"] = tuple((bad, *labels) for labels in getattr(results, "rows"))  # noqa: B009  # by kind
    for field in {"target", "name", "penalty", "noise_in_words", "clipping", "caution"} & fields:
        changes[field] = bad
    source = page_of(dataclasses.replace(results, **changes))  # type: ignore[type-var]
    check(source)
    assert "<i>" not in source
    assert '"x" onload' not in source
    assert "&lt;i&gt;&amp;" in source


def test_a_page_has_the_title_of_its_kind_or_the_stated_one() -> None:
    titles = {name: re.search(r"<h1>(.*?)</h1>", page_of(results))[1] for name, results in every_kind().items()}  # type: ignore[index]
    assert titles["linear"] == "Private linear regression"
    assert titles["logistic"] == titles["classes"] == "Private logistic regression"
    assert titles["components"] == "Private PCA"
    assert titles["histogram"] == "Private histogram"
    assert "<h1>Mine</h1>" in page_of(regression(), header=ReportHeader(title="Mine"))


def test_a_caution_replaces_the_headline_and_the_verdict_follows() -> None:
    plain, doubtful = components(4, above_noise=4), components(4, above_noise=4, caution="noise is large. Do less.")
    assert '<div class="verdict good" role="note"><p class="answer">All 4 components stand above' in page_of(plain)
    box = re.search(r'<div class="verdict.*?</div>', page_of(doubtful), re.DOTALL)
    assert box is not None
    assert box[0].startswith(
        '<div class="verdict mixed" role="note"><p class="answer">Noise is large.</p><p>Do less.</p>'
    )
    assert "<p>All 4 components stand above the noise.</p>" in box[0]


def test_technical_sections_are_in_the_appendix() -> None:
    for results in every_kind().values():
        ids = check(page_of(results)).ids
        assert ids.index("limits") < ids.index("appendix") < ids.index("sampling") < ids.index("noise")
    # What the noise was is for readers who check the method.
    before, after = page_of(description()).split('id="appendix"')
    assert "Laplace noise of scale 2" not in before
    assert "Laplace noise of scale 2" in after


def test_a_noisy_number_of_rows_has_two_digits() -> None:
    page = page_of(regression())
    assert re.search(r"from about [1-9](,\d|\d)00 rows, at epsilon 1", page)


def test_a_fit_with_results_describes_them() -> None:
    fit = with_results(regression(caution="the survey missed rows"))
    assert "6 coefficients for income" in repr(fit)
    text = fit.explain()
    assert text.startswith("This fit released 6 coefficients for income. It may be published.\n3 of 6 coefficients are")
    assert "Caution: the survey missed rows." in text
    assert "3 of 6 coefficients are clearly different from zero" in fit._repr_html_()
    assert "The survey missed rows" in report_html(fit)
    assert "a second moment of 4 columns" in moment_fit().explain()


def test_the_page_of_another_value_names_it() -> None:
    page = report_html(moment_fit())
    check(page)
    assert "A second moment of 4 columns." in page
    release = dataclasses.replace(moment_fit(), value=np.zeros((2, 3)))
    assert "An array of shape (2, 3)." in report_html(release)


def test_an_error_bar_beyond_the_axis_has_no_end() -> None:
    axis = Axis(low=-10.0, high=10.0)
    # The zero line, the span and the dot, and a cap for each end.
    for bar, n_lines in (((5.0, 3.0, 7.0), 5), ((5.0, -30.0, 40.0), 3), ((50.0, 40.0, 60.0), 2)):
        assert rendered("parts.html", "bar", axis, *bar, False).count("<line") == n_lines


def test_axes_are_rounded_outward() -> None:
    axis = Axis.over(-43_211.0, 43_211.0)
    assert axis.low <= -43_211.0
    assert axis.high >= 43_211.0
    assert axis.texts == ("-44,000", "0", "44,000")


@pytest.mark.parametrize(("low", "high"), [(-1.7e308, 1.7e308), (1e305, 1.7e308), (0.0, math.inf), (5.0, 5.0)])
def test_an_axis_is_finite_however_far_its_ends_are(low: float, high: float) -> None:
    axis = Axis.over(low, high)
    assert -math.inf < axis.low <= axis.high < math.inf
    assert "nan" not in rendered("parts.html", "bar", axis, low, low, high, False)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (4.3567, 1.94, "4.4"),
        (-0.0151, 0.0083, "-0.0151"),
        (14_007.0, 1_400.0, "14,000"),
        (0.00019, 0.000063, "0.000190"),
        (0.0, 0.0, "0"),
        (1.29e-5, 7.7e-6, "1.29 \u00d7 10⁻⁵"),
        (-0.001, 1.0, "0.0"),
        (1.0, 0.0, "1.000000"),
    ],
)
def test_values_are_rounded_like_their_errors(value: float, error: float, text: str) -> None:
    assert value_text(value, error) == text
