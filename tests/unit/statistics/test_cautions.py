"""What a reader must know about a result: cautions and notes in its text, card, frame, page and file."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pais
from pais.cli.commands import described
from pais.cli.explain import explanation
from pais.errors import QualityWarning, SurveyWarning

PEOPLE = pais.example_people(2_000, random_state=0).to_pandas()


def visits(n_people: int = 7_000) -> pd.DataFrame:
    """Visits of patients, with few days in intensive care, costs with a long tail, and a few very expensive ones."""
    rng = np.random.default_rng(7)
    rows = 1 + rng.geometric(0.12, n_people)
    patient = rng.permutation(np.repeat(np.arange(n_people), rows))
    n = patient.size
    cost = rng.lognormal(7.7, 1.1, n)
    cost[rng.choice(n, 12, replace=False)] = rng.uniform(0.4e6, 1.5e6, 12)
    days = np.where(rng.random(n) < 0.1, rng.geometric(0.25, n), 0)
    ward = rng.choice(["eyes", "heart", "hip"], n)
    return pd.DataFrame({"patient": patient, "cost": cost, "days": days, "ward": ward})


VISITS = visits()
PARETO = pd.Series(1.0 + np.random.default_rng(0).pareto(1.2, 20_000), name="x")
ZIPF = pd.DataFrame(
    {"who": np.repeat(np.arange(20_000), np.minimum(np.random.default_rng(0).zipf(2.2, 20_000), 100_000))}
)
ZIPF["x"] = 1.0

WARNED: dict[str, tuple[Callable[[], Any], str]] = {
    "heavy tail": (lambda: pais.mean(PARETO, columns="auto", random_state=0), "have a heavy tail"),
    "weak": (lambda: pais.mean(PARETO[:2000], columns="auto", epsilon=0.1, random_state=0), "too little stands out"),
    "few people": (lambda: pais.count(ZIPF, unit="who", random_state=0), "a few people may hold much of the total"),
    "clipped": (
        lambda: pais.mean(PEOPLE, columns={"age": (60, 110)}, random_state=0),
        "are outside the bounds 60 to 110",
    ),
    "at a bound": (lambda: pais.quantile(PEOPLE, columns={"age": (60, 110)}, random_state=0), "lies at a bound"),
    "lost": (
        lambda: pais.mean(PEOPLE, columns={"age": (18, 100)}, by={"region": ["North", "south"]}, random_state=0),
        "1 of 2 groups are lost in the noise: North",
    ),
    "far bounds": (
        lambda: pais.sum(VISITS, columns={"cost": (0, 2_000_000)}, unit="patient", random_state=0),
        "a single value of cost may be as large as 2,000,000",
    ),
}


@pytest.mark.parametrize("what", WARNED)
def test_a_warning_is_part_of_the_result_and_everything_that_shows_it(what: str, tmp_path: Path) -> None:
    ask, text = WARNED[what]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = ask()
    issued = [str(one.message) for one in caught if issubclass(one.category, (QualityWarning, SurveyWarning))]
    assert issued == [caution.text for caution in result.cautions]
    assert sum(text in one for one in issued) == 1
    assert text in str(result)
    assert text in result.explain()
    assert text in repr(result._card())
    assert result.to_frame().attrs["cautions"] == issued
    page = result.write_report(tmp_path / "page.html").read_text(encoding="utf-8").replace("&#39;", "'")
    assert all(one[1:].replace("'", "").split(". ")[0] in page.replace("'", "") for one in issued)
    headline = re.search(r'<p class="answer">(.*?)</p>', page)
    assert headline is not None
    assert "known to within" not in headline.group(1)
    content = described(result)
    assert content["cautions"] == issued
    (tmp_path / "result.json").write_text(json.dumps(content), encoding="utf-8")
    assert any(text in line for line in explanation(tmp_path / "result.json")["explanation"])
    # A result holds no rows, so it can be stored.
    assert pickle.loads(pickle.dumps(result)).cautions == result.cautions


def test_a_result_without_concerns_has_no_cautions(tmp_path: Path) -> None:
    result = pais.mean(PEOPLE, columns={"age": (18, 100)}, random_state=0)
    assert result.cautions == ()
    assert "caution" not in str(result)
    page = result.write_report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<p class="answer">With values clipped to 18 to 100, the value is known to within' in page


# ------------------------------------------------------------------------------------ quantiles that lie at a bound


@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning", "ignore::pais.errors.QualityWarning")
def test_a_quantile_at_a_bound_has_no_end_on_that_side(tmp_path: Path) -> None:
    values = pd.Series(np.repeat([1.0, 5.0, 9.0, 20.0], 5000), name="x")
    result = pais.quantile(values, [0.2, 0.5, 0.9], columns=(2, 10), random_state=0)
    low, high = result.interval()
    assert (low[0.2], high[0.2]) == (-np.inf, 2.0)
    assert np.isfinite([low[0.5], high[0.5]]).all()
    assert (low[0.9], high[0.9]) == (10.0, np.inf)
    lines = dict(result.lines())
    assert lines["0.2"] == "2  (95 %: at most 2)"
    assert lines["0.9"] == "10  (95 %: at least 10)"
    page = result.write_report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<span>at least</span>" in page
    assert not re.search(r"\b(inf|nan)\b", page)
    assert [value["high"] for value in described(result)["values"]][2] is None


@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning", "ignore::pais.errors.QualityWarning")
def test_the_page_of_one_quantile_at_a_bound_does_not_say_that_it_is_known(tmp_path: Path) -> None:
    result = pais.quantile(np.full(500, 99.0), columns=(0, 10), random_state=0)
    page = result.write_report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "known to within" not in page
    assert "at least 10" in page
    dates = pd.Series(pd.to_datetime(["2030-01-01"] * 500), name="day")
    result = pais.quantile(dates, columns=("2020-01-01", "2024-12-31"), random_state=0)
    assert str(result).startswith("day  2024-12-31  (95 %: at least 2024-12-31)")
    assert pd.isna(result.interval()[1])
    assert "at least 2024-12-31" in result.write_report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_quantile_of_zero_at_a_bound_of_zero_is_certain() -> None:
    values = np.append(np.zeros(900), np.linspace(1.0, 50.0, 100))
    low, high = pais.quantile(values, columns=(0, 50), epsilon=2.0, random_state=1).interval()
    assert (low, high) == (0.0, 0.0)


@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning", "ignore::pais.errors.QualityWarning")
def test_quantiles_with_found_bounds_hold_those_of_the_table() -> None:
    weights = 1.0 / VISITS.groupby("patient")["days"].transform("size")
    order = np.argsort(VISITS["days"].to_numpy())
    reached = np.cumsum(weights.to_numpy()[order]) / weights.sum()
    truth = VISITS["days"].to_numpy()[order][np.searchsorted(reached, 0.99)]
    for seed in range(10):
        result = pais.quantile(VISITS, 0.99, columns={"days": "auto"}, unit="patient", random_state=seed)
        low, high = result.interval()
        assert low <= truth <= high


# --------------------------------------------------------------------------------- what noise could hide of people


def test_a_total_says_how_many_people_noise_could_hide(tmp_path: Path) -> None:
    truth = VISITS["cost"].sum()
    for seed in range(2):
        with pytest.warns(QualityWarning, match=r"Noise could hide up to about 3. patients with more than [\d,]+, and"):
            result = pais.sum(VISITS, columns={"cost": (0, 2_000_000)}, unit="patient", random_state=seed)
        (note,) = (note for note in result.notes if "adds up to more" in note)
        assert re.fullmatch(
            r"noise could hide up to about 3\d patients whose cost adds up to more than [\d,]+, such as by single "
            r"values of up to 2,000,000; intervals do not include them",
            note,
        )
        assert note in str(result)
        assert note in result.explain()
        assert note[1:] in result.write_report(tmp_path / "page.html").read_text(encoding="utf-8")
        # As many people with the largest value are more than enough for what the interval misses.
        assert truth - result.interval()[1] < 70 * 2_000_000


def test_bounds_of_which_a_person_can_reach_many_make_no_caution() -> None:
    for seed in range(2):
        result = pais.sum(VISITS, columns={"cost": (0, 20_000)}, unit="patient", random_state=seed)
        assert not any("single value" in caution.text for caution in result.cautions)
        assert any("whose cost adds up to more than" in note for note in result.notes)
    count = pais.count(VISITS, unit="patient", random_state=0)
    assert re.search(r"noise could hide up to about \d+ patients with more than \d+ rows;", str(count))
    stated = pais.count(VISITS, unit="patient", max_rows_per_unit=60, random_state=0)
    assert "noise could hide" not in str(stated)


# ------------------------------------------------------------------------------- what noise could hide beyond bounds


@pytest.mark.parametrize("unit", [None, "patient"])
@pytest.mark.parametrize("name", ["mean", "sum", "variance", "describe"])
@pytest.mark.filterwarnings("ignore::pais.errors.QualityWarning")
def test_stated_bounds_are_always_named_with_what_noise_could_hide(name: str, unit: str | None, tmp_path: Path) -> None:
    truth = np.mean(VISITS["cost"] > 100_000)
    for seed in range(2):
        result = getattr(pais, name)(VISITS, columns={"cost": (0, 100_000)}, unit=unit, random_state=seed)
        (note,) = (note for note in result.notes if "outside 0 to 100000" in note)
        if result.clipped[0].narrows:
            continue
        assert note.endswith("hidden by the noise; these values count as the nearer bound, however far they are")
        assert note in str(result)
        assert note[1:] in result.write_report(tmp_path / "page.html").read_text(encoding="utf-8")
        assert truth < result.clipped[0].most < 0.2
        if unit is None:
            number = re.match(r"up to ([\d,]+) values of cost \([\d.]+ %\) may be outside", note)
            assert number is not None
            assert float(number.group(1).replace(",", "")) >= (VISITS["cost"] > 100_000).sum()


def test_a_share_of_two_percent_that_is_not_clear_is_an_upper_limit() -> None:
    """2.5 % of the values are clipped and hold a tenth of the mean; noise hides whether there are any."""
    rng = np.random.default_rng(0)
    values = pd.Series(np.where(rng.random(2_000) < 0.025, 5.0, 0.5), name="x")
    texts = []
    for seed in range(40):
        result = pais.mean(values, columns=(0, 1), random_state=seed)
        texts.append(str(result))
        assert "outside 0 to 1" in texts[-1]
    assert sum(bool(re.search(r"up to [\d,]+ values of x \(([\d.]+) %\) may be outside", text)) for text in texts) > 20


def test_several_quiet_columns_share_a_sentence() -> None:
    result = pais.mean(VISITS, columns={"cost": (0, 100_000), "days": (0, 60)}, random_state=0)
    (note,) = result.notes
    assert re.match(r"up to [\d.]+ % of cost \(0 to 100000\), [\d.]+ % of days \(0 to 60\) may be outside", note)


def test_a_share_is_no_fact_unless_it_is_clearly_above_the_noise() -> None:
    columns = {"days": (0, 100), "ward": ["eyes", "heart", "hip"]}
    table = VISITS[:20_000]
    claims = 0
    for seed in range(80):
        clipping = pais.mean(table, columns=columns, unit="patient", random_state=seed).clipping
        claims += "were clipped to the bounds" in clipping
    assert claims <= 1


# ------------------------------------------------------------------------------------------------- smaller findings


def test_a_description_of_many_zeros_has_quartiles_of_zero() -> None:
    for columns in ({"days": (0, 30)}, {"days": "auto"}):
        result = pais.describe(VISITS, columns=columns, random_state=0)
        assert result.value.loc[["25%", "50%", "75%"], "days"].tolist() == [0.0, 0.0, 0.0]
    full = pais.describe(pd.DataFrame({"x": np.full(5_000, 10.0)}), columns={"x": (0, 10)}, random_state=0)
    assert full.value.loc["50%", "x"] == 10.0
    spread = pais.describe(PEOPLE, columns={"age": (18, 100)}, epsilon=10.0, random_state=0)
    assert spread.value.loc["50%", "age"] == pytest.approx(PEOPLE["age"].median(), abs=1.5)


def test_shares_are_named_where_there_are_shares() -> None:
    regions = ["north", "south"]
    text = "shares are of the cells with a listed one"
    assert text in pais.mean(PEOPLE, columns={"region": regions}, random_state=0).clipping
    for result in (
        pais.count(PEOPLE, columns={"region": regions}, random_state=0),
        pais.count(PEOPLE, by={"region": regions}, random_state=0),
        pais.sum(PEOPLE, columns={"age": (18, 100)}, by={"region": regions}, random_state=0),
        pais.mean(PEOPLE, columns={"age": (18, 100)}, by={"region": regions}, random_state=0),
    ):
        assert text not in result.clipping
        assert "A category that is not listed belongs to none of those listed." in result.clipping


def test_bounds_on_people_name_their_columns() -> None:
    result = pais.count(VISITS, columns={"days": (0, 30), "cost": (0, 10)}, unit="patient", random_state=0)
    for name in ("days", "cost"):
        assert re.search(rf"of a patient with more than \d+ rows with a value of {name}, \d+ count", result.about)


def test_means_of_people_say_how_much_weight_they_have() -> None:
    age: dict[str, Any] = {"columns": {"age": (18, 100)}, "unit": "customer_id", "random_state": 0}
    for function in (pais.mean, pais.quantile, pais.variance):
        number = re.search(r"the weights of the customers add up to about ([\d,]+);", str(function(PEOPLE, **age)))
        assert number is not None
        assert float(number.group(1).replace(",", "")) == pytest.approx(1_950, abs=100)
    about = pais.describe(PEOPLE, **age).about
    assert "count is no number of customers" in about


def test_intervals_of_means_stay_within_what_a_mean_can_be() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.lognormal(7.0, 1.2, 20_000), "g": ["a"] * 19_960 + ["b"] * 40})
    for seed in range(10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = pais.mean(table, columns={"x": "auto"}, by={"g": ["a", "b"]}, epsilon=0.5, random_state=seed)
        assert (result.interval()[0] >= 0.0).all()
        assert (result.estimates >= 0.0).all()


@pytest.mark.parametrize("unit", [None, "customer_id"])
def test_a_count_by_groups_that_do_not_exist_names_their_column(unit: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurveyWarning)
        result = pais.count(PEOPLE, by={"region": ["North", "South"]}, unit=unit, random_state=0)
        some = pais.count(PEOPLE, by={"region": ["north", "South"]}, unit=unit, random_state=0)
    assert "no rows of any group stand out of the noise" in str(result)
    assert "in column 'region'" in str(result)
    assert "stand out" not in str(some)


@pytest.mark.filterwarnings("ignore:too (little|few) ")
def test_bounds_that_are_a_guess_make_no_interval(tmp_path: Path) -> None:
    table = pd.DataFrame({"who": np.arange(60), "x": np.random.default_rng(0).normal(104, 1, 60)})
    for function in (pais.mean, pais.sum, pais.variance):
        for unit in (None, "who"):
            with pytest.warns(SurveyWarning, match="clipped to a guess, -1 to 1. What follows says nothing"):
                result = function(table, columns={"x": "auto"}, unit=unit, epsilon=0.3, random_state=1)
            assert result.interval() == (-np.inf, np.inf)
            assert "(95 %: not known, lost in the noise" in str(result)
            assert "clipped to a guess" in result.write_report(tmp_path / "page.html").read_text(encoding="utf-8")
    zeros = pais.mean(pd.DataFrame({"x": np.zeros(20_000)}), columns={"x": "auto"}, random_state=0)
    assert zeros.interval()[1] < 0.1
