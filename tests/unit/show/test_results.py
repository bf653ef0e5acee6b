"""Pages of regressions, components and statistics, from made-up values: what they say, show and leave out."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

import pais
from pais.data.schema import Schema
from pais.linear.page import RegressionResults, Step, penalty_in_words
from pais.show.page import ReportHeader, Results, report_html
from pais.show.tables import Axis
from pais.show.text import value_text
from tests.unit.show.pages import (
    SCHEMA,
    check,
    components,
    description,
    every_kind,
    histogram,
    moment_fit,
    regression,
    rendered,
    with_results,
)


def page_of(results: Results, **options: object) -> str:
    return report_html(with_results(results), **options)  # type: ignore[arg-type]  # as stated in each test


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


@pytest.mark.parametrize(
    ("clear", "verdict"),
    [
        ((True, False, True), "2 of 3 coefficients are clearly different from zero"),
        ((True, False, False), "1 of 3 coefficients is clearly different from zero"),
        ((False, False, False), "not one of the 3 coefficients is clearly different from zero"),
        ((True, True, True), "all 3 coefficients are clearly different from zero"),
        ((True, True), "both coefficients are clearly different from zero"),
        ((False,), "the coefficient is not clearly different from zero"),
    ],
)
def test_verdict_of_a_regression_counts_clear_coefficients(clear: tuple[bool, ...], verdict: str) -> None:
    errors = np.where(clear, 0.49, 0.51)[None, :]
    names = tuple("abc"[: len(clear)])
    results = RegressionResults(target="y", names=names, values=np.ones((1, len(clear))), standard_errors=errors)
    assert results.verdict == verdict
    page = page_of(results)
    assert f"{verdict[:1].upper()}{verdict[1:]}." in page
    assert page.count('<td class="weak"') == clear.count(False)


@pytest.mark.parametrize(
    ("hidden", "verdict"),
    [
        ((False, True, False), "1 of 3 coefficients is clearly different from zero; 1 is hidden by noise"),
        ((True, True, False), "not one of the 3 coefficients is clearly different from zero; 2 are hidden by noise"),
        ((True, True, True), "all 3 coefficients are hidden by noise"),
        ((True,), "the coefficient is hidden by noise"),
    ],
)
def test_coefficients_that_noise_hides_have_no_interval(hidden: tuple[bool, ...], verdict: str) -> None:
    d = len(hidden)
    results = RegressionResults(
        target="y",
        names=tuple("abc"[:d]),
        values=np.array([[7.0, 7.0, 0.1]])[:, :d],
        standard_errors=np.ones((1, d)),
        hidden=np.array([hidden]),
        steps=(Step(),) * d,
    )
    assert results.verdict == verdict
    assert not np.any(results.clear & results.hidden)
    page = page_of(results)
    assert page.count(">hidden by noise</td>") == sum(hidden)
    assert page.count('<td class="drawn"></td>') == sum(hidden)
    assert "no interval" in page


def test_coefficients_are_in_own_units_with_standard_errors_and_effects() -> None:
    values, errors = np.array([[120.0, -3.0]]), np.array([[10.0, 0.5]])
    steps = (Step(82.0, "its range"), Step(1.0, "no to yes"))
    page = page_of(
        RegressionResults(target="income", names=("age", "premium"), values=values, standard_errors=errors, steps=steps)
    )
    assert "120<small><span>±10</span></small>" in page
    assert "-3.00<small><span>±0.5</span></small>" in page
    assert '<td class="count">82 (its range)</td><td class="count">9,840</td>' in page
    assert '<td class="count">no to yes</td><td class="count">-3.00</td>' in page


def test_clear_coefficients_come_first_and_large_effects_before_small_ones() -> None:
    results = RegressionResults(
        target="y",
        names=("small", "unclear", "large"),
        values=np.array([[1.0, 9.0, -5.0]]),
        standard_errors=np.array([[0.1, 9.0, 0.1]]),
    )
    shown = re.findall(r'<th scope="row"><span>(\w+)</span>', page_of(results))
    assert shown == ["large", "small", "unclear"]


def test_steps_follow_from_what_is_public_about_a_column() -> None:
    steps = [step for column in SCHEMA.columns for step in Step.of(column)]
    # The difference of two categories is twice the coefficient of one.
    assert [step.size for step in steps] == [82.0, 10_000.0, 1.0, 2.0, 2.0, 10.0]
    assert [step.words for step in steps[:3]] == ["its range", "its range", "no to yes"]
    assert [step.words for step in steps[3:5]] == ["from region=south", "from region=north"]
    plain = [step for column in SCHEMA.columns for step in Step.of(column, centered=False)]
    assert [step.words for step in plain[3:5]] == ["no to yes", "no to yes"]


def test_coefficients_by_class_are_a_table_and_the_strongest_are_drawn() -> None:
    results = regression(3)
    page = page_of(results)
    for name in results.classes:
        assert f"<span>{name}</span>" in page
        assert f"income = {name}" in page
    assert "9 of 18 coefficients are clearly different from zero" in page
    assert page.count('<svg class="bars') == 9
    assert results.in_words() == "6 coefficients for each of 3 classes of income"


def test_penalty_in_words_says_how_much_shorter_the_coefficients_are() -> None:
    plain = np.array([3.0, 4.0])
    assert "80% shorter than without a penalty" in penalty_in_words("noise", 0.2 * plain, plain)
    assert "follows from the known noise" in penalty_in_words("noise", plain, plain)
    assert "about as long as without a penalty" in penalty_in_words(2.0, plain, plain)
    assert "alpha = 2.0" in penalty_in_words(2.0, plain, plain)
    assert "no penalty" in penalty_in_words(0.0, plain, plain)


@pytest.mark.parametrize(
    ("k", "above", "verdict"),
    [
        (4, 2, "the first 2 of 4 components stand above the noise"),
        (4, 1, "the first of 4 components stands above the noise"),
        (4, 0, "no component stands above the noise"),
        (4, 6, "all 4 components stand above the noise"),
        (2, 2, "both components stand above the noise"),
        (1, 3, "the component stands above the noise"),
    ],
)
def test_verdict_of_components(k: int, above: int, verdict: str) -> None:
    results = components(k, above_noise=above)
    assert results.verdict == verdict
    page = page_of(results)
    # One grey cell for each feature of a component within the noise, on the screen.
    assert page.count('<td class="weak"') == 6 * max(k - above, 0)
    assert page.count("weak-column") == max(k - above, 0) + 1


def test_further_components_are_counted() -> None:
    assert components(4, above_noise=4).meaning.endswith("by itself.")
    assert components(4, above_noise=5).meaning.endswith(" One further component does, which was not asked for.")
    assert components(4, above_noise=6).meaning.endswith(" 2 further components do, which were not asked for.")


def test_a_caution_replaces_the_headline_and_the_verdict_follows() -> None:
    plain, doubtful = components(4, above_noise=4), components(4, above_noise=4, caution="noise is large. Do less.")
    assert '<div class="verdict good" role="note"><p class="answer">All 4 components stand above' in page_of(plain)
    box = re.search(r'<div class="verdict.*?</div>', page_of(doubtful), re.DOTALL)
    assert box is not None
    assert box[0].startswith(
        '<div class="verdict mixed" role="note"><p class="answer">Noise is large.</p><p>Do less.</p>'
    )
    assert "<p>All 4 components stand above the noise.</p>" in box[0]


def by_group(**changes: object) -> Results:
    values = np.array([[2.0, 0.1, 20_000.0], [4.0, 0.9, 20_100.0]])
    dates = np.zeros((2, 3), dtype=bool)
    dates[:, 2] = True
    around = np.array([0.5, 0.02, 3.0])
    stated = {"values": values, "lows": values - around, "highs": values + around, "is_date": dates}
    names = {"name": "mean", "rows": (("north",), ("south",)), "columns": ("stay", "readmitted", "admission")}
    return description(**{**stated, **names, "is_share": (False, True, False), **changes})


def test_means_by_group_are_drawn_with_error_bars_for_each_column_on_its_own_axis() -> None:
    page = page_of(by_group())
    captions = re.findall(r"<caption><span>(.*?)</span></caption>", page)[:3]
    assert captions == ["Mean of stay", "Mean of readmitted", "Mean"]
    # A bar, and an interval with two ends, for each of two groups and two columns. Dates stay in a table.
    assert page.count('<rect class="filled"') == 4
    assert page.count('<line class="span"') == 3 * 4
    assert "90.0%<small><span>88.0% to</span> <span>92.0%</span></small>" in page
    assert "2024-10-04<small>" in page


def test_means_of_one_group_or_of_very_many_columns_are_a_table() -> None:
    one = by_group(rows=(("north",),), **{key: np.ones((1, 3)) for key in ("values", "lows", "highs")}, is_date=None)
    wide = {key: np.ones((2, 13)) for key in ("values", "lows", "highs")}
    many = by_group(columns=tuple(f"c{j}" for j in range(13)), **wide, is_date=None, is_share=(False,) * 13)
    assert all('class="filled"' not in page_of(results) for results in (one, many))


def test_components_within_the_noise_are_not_put_into_words() -> None:
    page = page_of(components())
    assert "<b>Component 2</b>" in page
    assert "<b>Component 3</b>" not in page


def test_a_component_without_estimated_variance_is_grey() -> None:
    variances = np.array([1.0, 0.09, 0.05, 0.0])
    page = page_of(components(variances=variances, noisy_variances=variances + 0.3))
    assert page.count('<td class="weak"') == 6 * 3
    assert "<b>Component 2</b>" not in page
    assert page.count('class="released"') == 4


def test_statistics_show_intervals_and_grey_values_that_the_noise_hides() -> None:
    values = np.array([[100.0, 10.0]])
    results = description(
        rows=(), columns=("a", "b"), values=values, lows=values - 6.0, highs=values + 6.0, is_date=None
    )
    page = page_of(results)
    assert '<td class="heat-4">100<small><span>94 to</span> <span>106</span></small></td>' in page
    assert '<td class="weak">10<small><span>4 to</span> <span>16</span></small></td>' in page
    assert results.verdict == "half of the 2 values are known to within 33%, or better"


def test_statistics_with_many_columns_are_turned_on_their_side() -> None:
    def heads(n_columns: int) -> list[str]:
        return re.findall(r'<th scope="col"><span>(.*?)</span></th>', page_of(description(n_columns)))

    assert heads(6) == ["count", "mean", "std", "50%"]
    assert heads(3)[::2] == ["column 0", "column 2"]


def test_dates_are_shown_as_dates_and_missing_values_as_dashes() -> None:
    page = page_of(description())
    assert "2024-10-04<small><span>2024-03-18 to</span> <span>2025-04-22</span></small>" in page
    assert 'title="not defined for this column">\u2013</td>' in page


def test_histograms_have_one_table_of_bars_for_each_column_on_one_axis() -> None:
    page = page_of(histogram())
    captions = re.findall(r"<caption><span>(.*?)</span></caption>", page)[:2]
    assert captions[0] == "age"
    widths = [float(width) for width in re.findall(r'<rect class="filled"[^>]*width="([\d.]+)"', page)]
    assert np.allclose(np.divide(widths, widths[0]), [1.0, 3.0, 0.5, 0.2, 0.1], atol=0.01)
    assert "norms" not in check(page).ids


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


def test_a_header_title_is_text() -> None:
    with pytest.raises(pais.ArgumentError, match="title"):
        ReportHeader(title=3)  # type: ignore[arg-type]  # on purpose


def test_technical_sections_are_in_the_appendix() -> None:
    for results in every_kind().values():
        ids = check(page_of(results)).ids
        assert ids.index("limits") < ids.index("appendix") < ids.index("sampling") < ids.index("noise")
    # What the noise was is for readers who check the method.
    before, after = page_of(description()).split('id="appendix"')
    assert "Laplace noise of scale 2" not in before
    assert "Laplace noise of scale 2" in after


def test_clear_coefficients_are_said_in_sentences() -> None:
    names, steps = ("age", "ward=north", "visits"), (Step(82.0, "its range"), Step.of_truth(), Step())
    values, errors = np.array([[-20.0, 1500.0, 1.0]]), np.array([[2.0, 100.0, 1.0]])
    linear = RegressionResults(target="cost", names=names, values=values, standard_errors=errors, steps=steps)
    said = re.findall(r"<li>(For one more|If )(.*?)</li>", page_of(linear))
    assert ["".join(parts) for parts in said] == [
        "For one more unit of age, cost is lower by 20.0 (16.0 to 24.0).",
        "If ward=north holds, cost is higher by 1,500 (1,300 to 1,700).",
    ]
    logits = dataclasses.replace(linear, values=values / 1000.0, standard_errors=errors / 1000.0, classes=("yes",))
    assert logits.sentence(1) == "If ward=north holds, the odds of cost = yes are 4.48 times as high (3.67 to 5.47)."
    hidden = dataclasses.replace(linear, hidden=np.array([[True, True, False]]))
    assert "<li>For one more" not in page_of(hidden)


def test_sentences_about_categories_name_what_they_are_compared_with() -> None:
    schema = Schema.of({"sex": ["F", "M"], "ward": ["north", "south", "east"]})
    steps = tuple(step for column in schema.columns for step in Step.of(column))
    values, errors = np.array([[100.0, -100.0, -300.0, 200.0, 100.0]]), np.full((1, 5), 10.0)
    linear = RegressionResults(target="cost", names=schema.labels, values=values, standard_errors=errors, steps=steps)
    average = "the average of the listed categories of ward"
    assert re.findall(r"<li>(For .*?)</li>", page_of(linear)) == [
        f"For ward=north, cost is lower by 300 than for {average} (280 to 320).",
        "For sex=F, cost is higher by 200 than for sex=M (160 to 240).",
        f"For ward=south, cost is higher by 200 than for {average} (180 to 220).",
        f"For ward=east, cost is higher by 100 than for {average} (80 to 120).",
    ]
    logits = dataclasses.replace(linear, values=values / 100.0, standard_errors=errors / 100.0, classes=("yes",))
    assert logits.sentence(0) == "For sex=F, the odds of cost = yes are 7.39 times those for sex=M (4.95 to 11)."
    assert (
        logits.sentence(3)
        == f"For ward=south, the odds of cost = yes are 7.39 times those for {average} (6.05 to 9.03)."
    )
    assert logits.comparison is not None
    assert logits.comparison.endswith(f"so those of a column add up to zero. {logits.sentence(0)}")
    assert dataclasses.replace(linear, steps=(Step.of_truth(),) * 5).comparison is None


def test_a_statistic_of_one_column_names_it() -> None:
    page = page_of(histogram(name="mean", subject="stay", rows=tuple((f"2024-0{j}",) for j in range(1, 6))))
    assert "<h1>Private mean of stay</h1>" in page
    assert "<caption><span>Mean of stay</span></caption>" in page


def test_a_noisy_number_of_rows_has_two_digits() -> None:
    page = page_of(regression())
    assert re.search(r"from about [1-9](,\d|\d)00 rows, at epsilon 1", page)


@pytest.mark.parametrize(("low", "high"), [(-1.7e308, 1.7e308), (1e305, 1.7e308), (0.0, math.inf), (5.0, 5.0)])
def test_an_axis_is_finite_however_far_its_ends_are(low: float, high: float) -> None:
    axis = Axis.over(low, high)
    assert -math.inf < axis.low <= axis.high < math.inf
    assert "nan" not in rendered("parts.html", "bar", axis, low, low, high, False)
