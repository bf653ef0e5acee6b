"""The table of the centers: own units, errors, grey cells, full names, and both orientations."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pais.kmeans.page import centers_table, standardised
from pais.kmeans.view import DATE, NUMBER, SHARE, Sizes
from tests.unit.kmeans.views import view
from tests.unit.show.pages import rendered

LONG = "average_monthly_transaction_amount_in_euros_during_the_last_twelve_months_before_the_survey"


def heat_map(values: object, counts: object = (), **changes: object) -> str:
    """The table of made-up centers, the first of which is the largest if no counts are stated."""
    counts = np.asarray(counts if len(counts) else np.arange(len(values), 0.0, -1.0))  # type: ignore[arg-type]
    sizes = Sizes(counts=counts, errors=np.full(len(counts), 2.0))
    return rendered("parts.html", "table", centers_table(view(values, **{"sizes": sizes, **changes})))


def texts(page: str) -> list[str]:
    return re.findall(r'<td class="(?:heat-\d|weak)"[^>]*>([^<]*)', page)


def test_colours_compare_centers_feature_by_feature() -> None:
    centers = np.array([[1.0, 5.0, 1e9], [3.0, 5.0, 3e9]])
    assert standardised(centers).tolist() == [[-1.0, 0.0, -1.0], [1.0, 0.0, 1.0]]


def test_colours_show_the_side_of_the_mean_by_size() -> None:
    # Two small clusters are below the mean of all rows, and both are blue although one is above the other.
    levels = standardised(np.array([[10.0], [0.0], [2.0]]), weights=np.array([98.0, 1.0, 1.0]))
    assert levels[1, 0] < levels[2, 0] < 0.0 < levels[0, 0]


def test_spread_is_that_of_readable_cells() -> None:
    centers, cells = np.array([[0.0], [1.0], [90.0]]), np.array([[True], [True], [False]])
    weights = np.array([1.0, 1.0, 0.0])
    assert np.allclose(standardised(centers, weights=weights, cells=cells)[:2, 0], [-1.0, 1.0])
    assert np.isfinite(standardised(centers, weights=weights, cells=~cells & ~cells)).all()


def test_readable_features_come_first_among_many() -> None:
    features = tuple(j % 3 == 1 for j in range(12))
    page = heat_map(np.arange(24.0).reshape(2, 12), features=features)
    names = re.findall(r'<th scope="row"[^>]*><span>c(\d+)</span>', page)
    assert names == ["1", "4", "7", "10", "0", "2", "3", "5", "6", "8", "9", "11"]


def test_long_names_are_complete_and_may_break() -> None:
    for width in (3, 30):
        names = (LONG, *(f"c{j}" for j in range(1, width)))
        page = heat_map(np.eye(2, width), names=names)
        assert re.sub("<wbr>", "", page).count(f"<span>{LONG}</span>") >= 1
        assert "average_<wbr>monthly_<wbr>" in page


def test_shares_are_in_percent_and_dates_are_dates() -> None:
    values = [[0.25, 20_000.0, 1234.5678], [0.5, 20_031.0, 4321.0]]
    page = heat_map(values, kinds=(SHARE, DATE, NUMBER))
    assert texts(page) == ["25.0%", "2024-10-04", "1,235", "50.0%", "2024-11-04", "4,321"]


def test_errors_are_in_the_units_of_the_column() -> None:
    values, errors = [[0.25, 20_000.0, 1234.5], [0.5, 20_031.0, 4321.0]], [[0.013, 3.0, 41.0], [0.02, 4.0, 52.0]]
    page = heat_map(values, errors=np.array(errors), kinds=(SHARE, DATE, NUMBER))
    shown = re.findall(r'<td class="(?:heat-\d|weak)"[^>]*>[^<]*<small><span>\u00b1([^<]*)</span></small>', page)
    assert shown == ["1.3%", "3 days", "41", "2%", "4 days", "52"]
    assert texts(page) == ["25%", "2024-10-04", "1,234", "50%", "2024-11-04", "4,321"]
    # Each value has its error, so there is no further column about noise.
    assert "Noise" not in page


def test_one_error_for_all_features_is_shown_once() -> None:
    errors = np.array([[0.1, 0.1], [0.2, 0.2]])
    page = heat_map([[1.0, 2.0], [3.0, 4.0]], errors=errors)
    assert not re.search(r'<td class="(?:heat-\d|weak)"[^>]*>[^<]*<small>', page)
    assert re.findall(r'<td class="count">\u00b1([\d.]+)</td>', page) == ["0.1", "0.2"]


def test_few_features_have_a_row_for_each_center() -> None:
    page = heat_map(np.arange(50.0).reshape(25, 2), np.arange(25.0))
    assert re.findall(r'<th scope="row"><b>(\d+)</b>', page) == [str(j) for j in range(24, -1, -1)]
    assert "on-paper" not in page


@pytest.mark.parametrize(("k", "d", "blocks"), [(3, 100, 0), (25, 12, 2), (40, 60, 4), (12, 10, 0), (6, 11, 0)])
def test_wide_tables_turn_around_and_print_in_blocks(k: int, d: int, blocks: int) -> None:
    page = heat_map(np.arange(float(k * d)).reshape(k, d), np.arange(float(k)))
    screen, *paper = page.split('<div class="on-paper">')
    assert screen.count('<table class="heat') == 1
    assert len(texts(screen)) == k * d
    assert len(paper) == (blocks > 0)
    if paper:
        assert paper[0].count('<table class="heat') == blocks
        assert sorted(texts(paper[0])) == sorted(texts(screen))
    rows = len(re.findall("<tr", screen)) - 1
    assert rows == (d + 2 if d > 8 and d >= k else k)


def test_noisy_counts_are_whole_numbers_beside_shares() -> None:
    sizes = Sizes(counts=np.array([996.9, -0.2289, 17.09, 12_345.6]), errors=np.array([2.0, 3.1, 2.0, 2.0]))
    page = heat_map(np.eye(4, 2), sizes=sizes)
    cells = re.findall(r'<td class="count">([^<]*)<small><span>\u00b1([^<]*)</span></small></td>', page)
    assert cells[1::2] == [("12,346", "2"), ("997", "2"), ("17", "2"), ("0", "3.1")]
    assert [share for share, _ in cells[::2]] == ["92.41%", "7.46%", "0.13%", "0.00%"]


def test_people_who_are_split_over_segments_are_shown_as_shares_alone() -> None:
    sizes = Sizes(counts=np.array([750.0, 250.0]), errors=np.array([4.0, 4.0]), noun="patients", split=True)
    page = heat_map(np.eye(2), sizes=sizes)
    assert "Share of patients" in page
    assert "Noisy count" not in page
    assert re.findall(r'<td class="count">([^<]*)<small>', page) == ["75.0%", "25.0%"]


def test_grey_values_and_drowned_features_say_why() -> None:
    cells = np.array([[False, False], [True, False], [False, False]])
    doubts = ("", "", "within noise")
    page = heat_map(np.eye(3, 2), cells=cells, features=(True, False), doubts=doubts)
    assert page.count('<td class="weak"') == 5
    assert len(re.findall(r'<td class="heat-\d"', page)) == 1
    assert page.count('class="drowned"') == page.count("c1: no two segments differ by more than the noise") == 1
    assert page.count('<span class="doubt">within noise</span>') == 1
    assert "c0, segment 0: 1.00, within two standard errors of the average" in page
    assert "c0, segment 2: 0.00, and the size of the segment is within noise" in page
    assert page.count("and no two segments differ by more than the noise") == 3


@pytest.mark.parametrize(
    ("values", "errors", "shown"),
    [
        ([30.123456, 41.5], None, ["30.1", "41.5"]),
        ([30.123456, 41.5], [0.04, 0.04], ["30.12", "41.50"]),
        ([30.123456, 41.5], [4.0, 4.0], ["30", "42"]),
        ([1_234_567.0, 2_000_000.0], None, ["1,234,567", "2,000,000"]),
        ([1e12, 2e12], None, ["10\u00b9\u00b2", "2 \u00d7 10\u00b9\u00b2"]),
        ([1e-7, 2e-7], None, ["10\u207b\u2077", "2 \u00d7 10\u207b\u2077"]),
        ([0.0, 0.0], None, ["0", "0"]),
        ([5.0, 5.0], None, ["5.00", "5.00"]),
        ([-0.0001, 3.0], None, ["0.00", "3.00"]),
    ],
)
def test_decimals_follow_the_range_and_the_error(values: list, errors: list | None, shown: list) -> None:
    column = None if errors is None else np.array(errors)[:, None]
    assert view(np.array(values)[:, None], errors=column).texts(0)[0] == shown
