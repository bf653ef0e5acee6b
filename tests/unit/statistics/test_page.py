"""The part of a page about statistics, from made-up values: tables, bars, intervals and dates."""

from __future__ import annotations

import re

import numpy as np

from pais.show.results import Results
from tests.unit.show.pages import check, description, histogram, page_of


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


def test_a_time_is_shown_as_the_day_it_is_on() -> None:
    page = page_of(by_group(values=np.array([[2.0, 0.1, 20_000.7], [4.0, 0.9, 20_100.0]])))
    assert "2024-10-04<small>" in page  # as the text of the result and the frame show it


def test_numbers_of_people_by_group_are_drawn_as_whole_numbers() -> None:
    values = np.array([[1204.3], [88.2]])
    people = {"name": "number of people", "columns": ("number of people",), "is_date": None, "is_share": (False,)}
    page = page_of(by_group(**people, values=values, lows=values - 7.7, highs=values + 7.7))
    assert page.count('<rect class="filled"') == 2
    assert "1,204<small>" in page


def test_means_of_one_group_or_of_very_many_columns_are_a_table() -> None:
    one = by_group(rows=(("north",),), **{key: np.ones((1, 3)) for key in ("values", "lows", "highs")}, is_date=None)
    wide = {key: np.ones((2, 13)) for key in ("values", "lows", "highs")}
    many = by_group(columns=tuple(f"c{j}" for j in range(13)), **wide, is_date=None, is_share=(False,) * 13)
    assert all('class="filled"' not in page_of(results) for results in (one, many))


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


def test_a_statistic_of_one_column_names_it() -> None:
    page = page_of(histogram(name="mean", subject="stay", rows=tuple((f"2024-0{j}",) for j in range(1, 6))))
    assert "<h1>Private mean of stay</h1>" in page
    assert "<caption><span>Mean of stay</span></caption>" in page


def test_a_group_without_a_value_has_no_bar() -> None:
    missing = np.array([[2.0], [np.nan]])
    page = page_of(histogram(name="median", rows=(("a",), ("b",)), values=missing, lows=missing, highs=missing))
    check(page)
    assert page.count('<td class="drawn"></td>') == 1
