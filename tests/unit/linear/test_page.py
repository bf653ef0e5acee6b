"""The part of a page about coefficients, from made-up values: verdict, units, effects and sentences."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from pais.data.schema import Schema
from pais.linear.page import RegressionResults, Step, penalty_in_words
from tests.unit.show.pages import SCHEMA, page_of, regression


def line(values: object, errors: object, names: str = "abc", **changes: object) -> RegressionResults:
    """Coefficients of a single line."""
    shown = np.atleast_2d(np.asarray(values, dtype=np.float64))
    stated = {"target": "y", "names": tuple(names[: shown.shape[1]]), "values": shown}
    return RegressionResults(**{**stated, "standard_errors": np.atleast_2d(errors), **changes})  # type: ignore[arg-type]


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
    results = line(np.ones(len(clear)), np.where(clear, 0.49, 0.51))
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
    results = line([7.0, 7.0, 0.1][:d], np.ones(d), hidden=np.array([hidden]), steps=(Step(),) * d)
    assert results.verdict == verdict
    assert not np.any(results.clear & results.hidden)
    page = page_of(results)
    assert page.count(">hidden by noise</td>") == sum(hidden)
    assert page.count('<td class="drawn"></td>') == sum(hidden)
    assert "no interval" in page


def test_coefficients_are_in_own_units_with_standard_errors_and_effects() -> None:
    page = page_of(line([120.0, -3.0], [10.0, 0.5], steps=(Step(82.0, "its range"), Step(1.0, "no to yes"))))
    assert "120<small><span>±10</span></small>" in page
    assert "-3.00<small><span>±0.5</span></small>" in page
    assert '<td class="count">82 (its range)</td><td class="count">9,840</td>' in page
    assert '<td class="count">no to yes</td><td class="count">-3.00</td>' in page


def test_clear_coefficients_come_first_and_large_effects_before_small_ones() -> None:
    page = page_of(line([1.0, 9.0, -5.0], [0.1, 9.0, 0.1]))
    assert re.findall(r'<th scope="row"><span>(\w+)</span>', page) == ["c", "a", "b"]


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


@pytest.mark.parametrize(
    ("alpha", "share", "words"),
    [
        ("noise", 0.2, "80% shorter than without a penalty"),
        ("noise", 1.0, "follows from the known noise"),
        (2.0, 1.0, "alpha = 2.0"),
        (2.0, 1.0, "about as long as without a penalty"),
        (0.0, 1.0, "no penalty"),
    ],
)
def test_penalty_in_words_says_how_much_shorter_the_coefficients_are(alpha: object, share: float, words: str) -> None:
    plain = np.array([3.0, 4.0])
    assert words in penalty_in_words(alpha, share * plain, plain)


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


@pytest.mark.parametrize(
    ("coefficient", "size", "words"),
    [
        (4e-5, 250_000.0, "For 10,000 more units of a, the odds of y = yes are 1.49 times as high (1.43 to 1.55)."),
        (2e-3, 82.0, "For 10 more units of a, the odds of y = yes are 1.0202 times as high (1.0182 to 1.0222)."),
        (400.0, 0.01, "For 0.001 more units of a, the odds of y = yes are 1.49 times as high (1.43 to 1.55)."),
        (4e-5, 1.0, "For one more unit of a, the odds of y = yes are 1.00004 times as high (1.000036 to 1.000044)."),
        (0.5, 82.0, "For one more unit of a, the odds of y = yes are 1.65 times as high (1.57 to 1.73)."),
    ],
)
def test_odds_are_said_for_a_step_that_shows_an_effect(coefficient: float, size: float, words: str) -> None:
    steps = (Step(size, "its range"),) if size != 1.0 else ()
    results = line([coefficient], [0.05 * coefficient], "a", classes=("yes",), steps=steps)
    assert results.sentence(0) == words


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
