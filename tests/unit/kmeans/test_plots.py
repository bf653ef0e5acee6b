"""Plots of released centers with matplotlib."""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from sklearn.exceptions import NotFittedError

import pais

mpl.use("Agg")
RNG = np.random.default_rng(0)
CENTERS = np.array([[0.0, 0.0, 0.0], [9.0, 1.0, 0.0], [4.0, 8.0, 0.0]])
ROWS = pd.DataFrame(
    np.repeat(CENTERS, [20_000, 5_000, 1_000], axis=0) + 0.1 * RNG.normal(size=(26_000, 3)),
    columns=["income", "age", "a name that is far too long to be written on an axis"],
)


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
    pyplot.close(axes.figure)


@pytest.mark.parametrize("size", [(6.4, 5.0), (7.0, 4.0), (4.0, 6.0)])
def test_markers_and_labels_stay_inside_the_axes(model: pais.DPKMeans, size: tuple[float, float]) -> None:
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    model.plot(ax=axes)
    figure.canvas.draw()
    frame = axes.get_window_extent()
    for text in axes.texts:
        box = text.get_window_extent()
        assert frame.x0 < box.x0
        assert box.x1 < frame.x1
        assert frame.y0 < box.y0
        assert box.y1 < frame.y1
    pyplot.close(figure)


def test_areas_are_proportional_to_noisy_counts(model: pais.DPKMeans) -> None:
    axes = model.plot()
    sizes, counts = axes.collections[0].get_sizes(), model.fit_.value.noisy_counts
    assert np.allclose(sizes / sizes.max(), counts / counts.max())
    pyplot.close(axes.figure)


def test_plot_uses_given_axes(model: pais.DPKMeans) -> None:
    figure, axes = pyplot.subplots()
    assert model.plot(ax=axes) is axes
    pyplot.close(figure)


def test_huge_errors_do_not_widen_the_plot() -> None:
    noise = pais.DPKMeans(n_clusters=4, epsilon=0.05).fit(RNG.normal(size=(300, 3)))
    axes = noise.plot()
    points = np.abs(axes.collections[0].get_offsets()).max()
    assert np.isfinite(axes.get_xlim()).all()
    assert max(map(abs, axes.get_xlim())) <= max(4.0 * points, 1.0)
    pyplot.close(axes.figure)


def test_long_names_are_shortened_on_axes() -> None:
    rows = np.repeat(np.array([[0.0, 0.0], [0.0, 9.0]]), 10_000, axis=0) + 0.1 * RNG.normal(size=(20_000, 2))
    name = "x" * 60
    model = pais.DPKMeans(n_clusters=2, epsilon=2.0).fit(pd.DataFrame(rows, columns=["a", name]))
    axes = model.plot()
    assert name not in axes.get_xlabel()
    assert "more xxxx" in axes.get_xlabel()
    pyplot.close(axes.figure)


def test_plot_needs_a_fitted_model() -> None:
    with pytest.raises(NotFittedError):
        pais.DPKMeans().plot()


def test_missing_matplotlib_is_named(model: pais.DPKMeans, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(pais.ArgumentError, match=r"pip install 'pais\[plots\]'"):
        model.plot()
