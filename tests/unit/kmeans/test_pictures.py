"""Centers on two principal directions and the elbow: on a page, and with matplotlib."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from sklearn.exceptions import NotFittedError

import pais
from pais.kmeans.pictures import CentersMap, elbow_chart, project
from pais.kmeans.result import Elbow, ElbowPoint
from pais.kmeans.view import Sizes
from pais.show.charts import Chart
from pais.show.text import direction_in_words
from tests.unit.kmeans.views import view
from tests.unit.show.pages import rendered

mpl.use("Agg")
RNG = np.random.default_rng(0)


def centers_map(places: np.ndarray, counts: object, errors: np.ndarray | None = None, **changes: object) -> str:
    counts = np.asarray(counts, dtype=np.float64)
    shown = view(places, sizes=Sizes(counts=counts, errors=np.ones(len(counts))), **changes)
    return rendered("kmeans/page.html", "centers_map", CentersMap.of(project(places, counts, errors), shown))


def test_projection_keeps_distances_of_centers_in_a_plane() -> None:
    plane = np.linalg.qr(RNG.normal(size=(5, 2)))[0].T
    flat = RNG.normal(size=(7, 2))
    projection = project(flat @ plane + 3.0, np.ones(7))
    distance = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    shown = np.linalg.norm(projection.points[:, None] - projection.points[None], axis=2)
    assert np.allclose(distance, shown)
    assert math.isclose(float(projection.shares.sum()), 1.0)
    assert np.allclose(projection.directions @ projection.directions.T, np.eye(2))


def test_directions_are_those_of_a_weighted_covariance() -> None:
    centers, counts = RNG.normal(size=(9, 4)) * [1, 2, 3, 4], RNG.uniform(1, 9, size=9)
    projection = project(centers, counts)
    values, vectors = np.linalg.eigh(np.cov(centers.T, aweights=counts, bias=True))
    for axis in range(2):
        assert math.isclose(abs(float(projection.directions[axis] @ vectors[:, -1 - axis])), 1.0, rel_tol=1e-9)
        assert math.isclose(projection.shares[axis], values[-1 - axis] / values.sum(), rel_tol=1e-9)
        largest = np.argmax(np.abs(projection.directions[axis]))
        assert projection.directions[axis][largest] > 0.0


def test_error_ellipse_is_the_projected_noise() -> None:
    centers, errors = RNG.normal(size=(4, 6)), RNG.uniform(0.1, 1.0, size=(4, 6))
    projection = project(centers, np.ones(4), errors)
    noise = RNG.normal(size=(200_000, 6)) * errors[2]
    measured = np.cov((noise @ projection.directions.T).T)
    assert np.allclose(projection.covariances[2], measured, atol=0.02)
    long, short, angle = projection.ellipse(2, deviations=1.0)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    assert np.allclose(turn @ np.diag([long**2, short**2]) @ turn.T, projection.covariances[2])
    assert long >= short


def test_one_error_for_each_center_gives_circles() -> None:
    projection = project(RNG.normal(size=(3, 4)), np.ones(3), np.array([0.1, 0.2, 0.3]))
    for index, error in enumerate((0.1, 0.2, 0.3)):
        long, short, _ = projection.ellipse(index)
        assert math.isclose(long, 2.0 * error, rel_tol=1e-9)
        assert math.isclose(short, 2.0 * error, rel_tol=1e-9)


@pytest.mark.parametrize(
    "centers",
    [np.ones((1, 3)), np.ones((4, 3)), np.arange(4.0)[:, None], np.arange(4.0)[:, None] * np.ones(3)],
    ids=["one center", "equal centers", "one feature", "on a line"],
)
def test_degenerate_centers_have_finite_pictures(centers: np.ndarray) -> None:
    counts = np.array([5.0, -2.0, 0.0, 1.0])[: len(centers)]
    picture = centers_map(centers, counts, np.full(centers.shape, 0.1))
    assert not re.search(r"nan|inf", picture)
    assert picture.count("<circle") == len(centers)


def test_words_name_the_columns_that_dominate_a_direction() -> None:
    centers = np.array([[0.0, 0.0, 1.0], [10.0, -8.0, 1.0], [20.0, -16.0, 1.2]])
    projection = project(centers, np.ones(3))
    assert direction_in_words(projection.directions[0], ["income", "visits", "age"]) == "more income, less visits"
    assert direction_in_words(projection.directions[0], ["income", "visits", "age"], most=1) == "more income"
    assert (
        direction_in_words(projection.directions[0], ["income", "visits", "age"], dates=["visits"])
        == "more income, earlier visits"
    )
    assert direction_in_words(project(np.ones((2, 3)), np.ones(2)).directions[0], ["a", "b", "c"]) == ""


def test_areas_of_circles_grow_with_the_counts() -> None:
    picture = centers_map(RNG.normal(size=(3, 2)), [100.0, 400.0, 25.0], centers=(True, True, False))
    radii = [float(radius) for radius in re.findall(r'<circle cx="[\d.]+" cy="[\d.]+" r="([\d.]+)"', picture)]
    assert radii == [24.0, 12.0, 6.0]
    assert picture.count('class="center weak"') == 2


def test_column_names_in_pictures_are_escaped() -> None:
    picture = centers_map(RNG.normal(size=(3, 2)), np.ones(3), names=("<i>", "<i>x"))
    assert "<i>" not in picture
    assert "&lt;i&gt;" in picture


def elbow(n: int, *, stands_out: bool) -> Elbow:
    points = tuple(ElbowPoint(n_clusters=k, cost=100.0 / k) for k in range(1, n + 1))
    return Elbow(points=points, suggested=7, stands_out=stands_out)


def test_elbow_chart_marks_the_chosen_number_of_clusters() -> None:
    picture = rendered("parts.html", "chart", elbow_chart(elbow(30, stands_out=True), 5))
    assert picture.count('class="mark"') == 1
    assert "0.2 at 5" in picture
    assert "The curve suggests 7 segments (dashed line)" in picture
    assert picture.count('class="limit"') == 1
    outside = rendered("parts.html", "chart", elbow_chart(elbow(30, stands_out=True), 40))
    assert 'class="mark"' not in outside
    assert "The dot" not in outside
    ticks = [float(text) for text in re.findall(r'text-anchor="middle">([\d.]+)<', picture)]
    assert ticks == [1, 5, 10, 15, 20, 25, 30]


def test_elbow_chart_says_if_no_number_stands_out() -> None:
    assert (
        "No number of segments stands out; the curve bends most at 7" in elbow_chart(elbow(9, stands_out=False), 1).note
    )


def test_a_chart_of_one_point_is_finite() -> None:
    points = {"x_range": (1.0, 1.0), "x_ticks": [(1.0, "1")], "curve": [(1.0, 1.0)], "mark": 1.0}
    chart = Chart(name="n", title="t", description="d", x_name="x", **points)
    assert not re.search(r"nan|inf", rendered("parts.html", "chart", chart))


CENTERS = np.array([[0.0, 0.0, 0.0], [9.0, 1.0, 0.0], [4.0, 8.0, 0.0]])
ROWS = pd.DataFrame(
    np.repeat(CENTERS, [20_000, 5_000, 1_000], axis=0) + 0.1 * RNG.normal(size=(26_000, 3)),
    columns=["income", "age", "a name that is far too long to be written on an axis"],
)


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def model() -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters=3, epsilon=2.0).fit(ROWS)


def test_plot_draws_every_center_with_its_number(model: pais.DPKMeans) -> None:
    axes = model.plot()
    (markers,) = axes.collections
    assert len(markers.get_offsets()) == 3
    assert sorted(text.get_text() for text in axes.texts) == ["0", "1", "2"]
    assert len(axes.lines) == 3
    assert "more income" in axes.get_xlabel()
    assert "more age" in axes.get_ylabel()
    assert "% of the spread" in axes.get_xlabel()
    # Areas are proportional to noisy counts.
    sizes, counts = markers.get_sizes(), model.fit_.value.noisy_counts
    assert np.allclose(sizes / sizes.max(), counts / counts.max())


@pytest.mark.parametrize("size", [(6.4, 5.0), (7.0, 4.0), (4.0, 6.0)])
def test_markers_and_labels_stay_inside_the_axes(model: pais.DPKMeans, size: tuple[float, float]) -> None:
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    assert model.plot(ax=axes) is axes
    figure.canvas.draw()
    frame = axes.get_window_extent()
    for box in (text.get_window_extent() for text in axes.texts):
        assert frame.x0 < box.x0 < box.x1 < frame.x1
        assert frame.y0 < box.y0 < box.y1 < frame.y1


def test_huge_errors_do_not_widen_the_plot() -> None:
    noise = pais.DPKMeans(n_clusters=4, epsilon=0.05).fit(RNG.normal(size=(300, 3)))
    axes = noise.plot()
    points = np.abs(axes.collections[0].get_offsets()).max()
    assert np.isfinite(axes.get_xlim()).all()
    assert max(map(abs, axes.get_xlim())) <= max(4.0 * points, 1.0)


def test_long_names_are_shortened_on_axes() -> None:
    rows = np.repeat(np.array([[0.0, 0.0], [0.0, 9.0]]), 10_000, axis=0) + 0.1 * RNG.normal(size=(20_000, 2))
    name = "x" * 60
    model = pais.DPKMeans(n_clusters=2, epsilon=2.0).fit(pd.DataFrame(rows, columns=["a", name]))
    axes = model.plot()
    assert name not in axes.get_xlabel()
    assert "more xxxx" in axes.get_xlabel()


def test_plot_needs_a_fitted_model() -> None:
    with pytest.raises(NotFittedError):
        pais.DPKMeans().plot()


def test_missing_matplotlib_is_named(model: pais.DPKMeans, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(pais.ArgumentError, match=r"pip install 'pais\[plots\]'"):
        model.plot()
