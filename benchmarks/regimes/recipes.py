"""Generated tables. Each recipe takes its sizes and returns float64 rows, the same rows on every call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_blobs, make_circles, make_moons

from benchmarks.data import FloatArray


def unit_ball(rows: FloatArray) -> FloatArray:
    """The scaling of the PE-means protocol: four digits, centered, largest norm 1."""
    rounded = np.round(rows, 4)
    rounded -= rounded.mean(axis=0)
    scaled: FloatArray = rounded / np.linalg.norm(rounded, axis=1).max()
    return scaled


def blobs_in_ball(k: int, d: int) -> FloatArray:
    rows, _ = make_blobs(20_000, d, centers=k, random_state=1)
    return unit_ball(rows)


def boxed(d: int) -> FloatArray:
    rows: FloatArray = make_blobs(100_000, n_features=d, centers=64, center_box=(-100, 100), random_state=0)[0]
    return rows


def satellites(d: int, distance: float) -> FloatArray:
    """One cluster of 180,000 rows and 19 of 1,000, each of deviation 1, at about `distance` from the large one."""
    rng = np.random.default_rng(11)
    direction = rng.normal(size=(19, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    means = np.concatenate([np.zeros((1, d)), direction * distance * rng.uniform(0.8, 1.2, size=(19, 1))])
    group = np.repeat(np.arange(20), [180_000] + [1_000] * 19)
    return _shuffled(means[group] + rng.normal(size=(len(group), d)), rng)


def small_far_clusters(d: int, *, n_far: int = 100, far: int = 5, one_side: bool = False, seed: int = 1) -> FloatArray:
    """Three clusters of 2,000 rows about 20 from the origin, and small ones at 80 to 200; deviations are about 1."""
    rng = np.random.default_rng(seed)
    side = _direction(d, rng)
    near = _apart(3, 20.0, lambda: rng.uniform(12.0, 28.0) * _direction(d, rng))

    def far_place() -> FloatArray:
        towards = side + 0.4 * _direction(d, rng) if one_side else _direction(d, rng)
        return np.asarray(rng.uniform(80.0, 200.0) * towards / np.linalg.norm(towards))

    rows = [place + rng.normal(size=(2_000, d)) for place in near]
    rows += [place + rng.uniform(0.7, 1.7) * rng.normal(size=(n_far, d)) for place in _apart(far, 20.0, far_place)]
    return _shuffled(np.concatenate(rows), rng)


def _direction(d: int, rng: np.random.Generator) -> FloatArray:
    direction = rng.normal(size=d)
    return np.asarray(direction / np.linalg.norm(direction))


def _apart(n: int, gap: float, draw: Callable[[], FloatArray]) -> list[FloatArray]:
    """Draw n places that are at least the gap apart; the gap shrinks if they are hard to find."""
    places: list[FloatArray] = []
    while len(places) < n:
        place = draw()
        if all(np.linalg.norm(place - other) > gap for other in places):
            places.append(place)
        else:
            gap *= 0.99
    return places


def mixture(n: int, d: int, groups: int, *, spread: float = 3.0, seed: int = 0) -> FloatArray:
    """Gaussian clusters of deviation 1 and moderately unequal sizes; their means have deviation `spread`."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(groups, d)) * spread
    group = rng.choice(groups, size=n, p=rng.dirichlet(np.full(groups, 5.0)))
    rows: FloatArray = means[group] + rng.normal(size=(n, d))
    return rows


def t_mixture(n: int, d: int, groups: int, *, degrees: float = 3.0) -> FloatArray:
    """Clusters of a multivariate t, near enough to each other that five non-private runs find a good optimum."""
    rng = np.random.default_rng(3)
    means = rng.normal(size=(groups, d)) * 2.5
    group = rng.choice(groups, size=n, p=rng.dirichlet(np.full(groups, 3.0)))
    radial = np.sqrt(degrees / rng.chisquare(degrees, size=(n, 1)))
    rows: FloatArray = means[group] + rng.normal(size=(n, d)) * radial
    return rows


def lognormal(n: int, d: int, *, sigma: float = 1.0, units: float = 1.0) -> FloatArray:
    """Correlated lognormal columns: `sigma` is the deviation of the logarithms, `units` spreads their scales."""
    rng = np.random.default_rng(4)
    loading = rng.normal(size=(2, d))
    loading *= 0.6 / np.linalg.norm(loading, axis=0)
    logarithm = 0.8 * rng.normal(size=(n, d)) + rng.normal(size=(n, 2)) @ loading
    rows: FloatArray = np.exp(sigma * logarithm + units * rng.uniform(-1.0, 1.0, size=d))
    return rows


def pareto(n: int, d: int, *, shape: float = 1.8) -> FloatArray:
    """Columns whose variance is infinite."""
    rows: FloatArray = np.random.default_rng(5).pareto(shape, size=(n, d))
    return rows


def planar(n: int, k: int) -> FloatArray:
    """Clusters in the square from -1 to 1: random places for few, a grid for many."""
    rng = np.random.default_rng(6)
    if k < 50:
        places, deviation = rng.uniform(-0.85, 0.85, size=(k, 2)), 0.05
    else:
        side = round(k**0.5)
        axis = (np.arange(side) + 0.5) / side * 2.0 - 1.0
        places, deviation = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2), 0.4 / side
    rows = places[rng.integers(len(places), size=n)] + deviation * rng.normal(size=(n, 2))
    return np.asarray(np.clip(rows, -1.0, 1.0))


def one_hot(n: int, variables: int, levels: int) -> FloatArray:
    """Indicator columns of categorical variables that depend on eight hidden classes."""
    rng = np.random.default_rng(7)
    hidden = rng.integers(8, size=n)
    columns = []
    for _ in range(variables):
        shares = rng.dirichlet(np.full(levels, 0.4), size=8).cumsum(axis=1)
        level = (rng.random((n, 1)) > shares[hidden]).sum(axis=1).clip(max=levels - 1)
        columns.append(np.eye(levels)[level])
    return np.concatenate(columns, axis=1)


def one_column_scaled(n: int, d: int) -> FloatArray:
    rows = mixture(n, d, 10, seed=8)
    rows[:, 0] *= 1000.0
    return rows


def far_from_zero(n: int, d: int) -> FloatArray:
    rows = mixture(n, d, 10, seed=9)
    rows += 1e4 * rows.std()
    return rows


def few_distinct(n: int, d: int) -> FloatArray:
    """Six different rows, up to a jitter of a hundredth of their distance."""
    rng = np.random.default_rng(10)
    rows: FloatArray = rng.normal(size=(6, d))[rng.integers(6, size=n)] + 0.01 * rng.normal(size=(n, d))
    return rows


def with_outlier(n: int, d: int) -> FloatArray:
    """One row a thousand deviations away."""
    rows = mixture(n, d, 10, seed=12)
    rows[0] += 1000.0
    return rows


def gaussian(n: int, d: int) -> FloatArray:
    return np.random.default_rng(13).normal(size=(n, d))


# Recipes that no constant is tuned on.


def unequal_covariances(n: int, d: int, groups: int) -> FloatArray:
    rng = np.random.default_rng(101)
    group = rng.integers(groups, size=n)
    rows = np.empty((n, d))
    for index in range(groups):
        member = group == index
        shape = rng.normal(size=(d, d)) / np.sqrt(d) * rng.uniform(0.2, 2.0)
        rows[member] = rng.normal(size=d) * 4.0 + rng.normal(size=(int(member.sum()), d)) @ shape
    return rows


def rings_and_moons(n: int) -> FloatArray:
    rings, _ = make_circles(n // 2, noise=0.05, factor=0.5, random_state=102)
    moons, _ = make_moons(n - n // 2, noise=0.08, random_state=103)
    return _shuffled(np.concatenate([rings, moons + np.array([3.0, 1.0])]), np.random.default_rng(102))


def gamma_columns(n: int, d: int) -> FloatArray:
    rng = np.random.default_rng(104)
    rows: FloatArray = rng.gamma(rng.uniform(0.5, 5.0, size=d), rng.uniform(0.5, 20.0, size=d), size=(n, d))
    return rows


def correlated(n: int, d: int) -> FloatArray:
    """One Gaussian cloud with correlation 0.9 between neighbouring columns."""
    rng = np.random.default_rng(105)
    rows = rng.normal(size=(n, d))
    for column in range(1, d):
        rows[:, column] = 0.9 * rows[:, column - 1] + np.sqrt(1.0 - 0.81) * rows[:, column]
    return rows


def uniform_cube(n: int, d: int) -> FloatArray:
    return np.random.default_rng(106).uniform(0.0, 1.0, size=(n, d))


def binary_and_numbers(n: int) -> FloatArray:
    """Twelve yes-or-no columns and four numbers such as age, hours, income in thousands and a score."""
    rng = np.random.default_rng(107)
    kind = rng.integers(5, size=n)
    binary = rng.random((n, 12)) < rng.beta(0.5, 0.5, size=(5, 12))[kind]
    age = np.clip(rng.normal(20.0 + 10.0 * kind, 6.0), 16.0, 95.0)
    hours = np.clip(rng.normal(40.0, 8.0, size=n), 0.0, 80.0)
    income = rng.lognormal(3.0 + 0.2 * kind, 0.5)
    score = rng.uniform(0.0, 100.0, size=n)
    return np.column_stack([binary, age, hours, income, score]).astype(np.float64)


def counts(n: int, d: int, topics: int) -> FloatArray:
    """Sparse counts: words in short texts on one topic each."""
    rng = np.random.default_rng(108)
    rates = rng.gamma(0.15, 1.5, size=(topics, d))
    return rng.poisson(rates[rng.integers(topics, size=n)]).astype(np.float64)


def zipf_sizes(n: int, d: int, groups: int) -> FloatArray:
    """Clusters of sizes in proportion to 1, 1/2, 1/3, ..."""
    rng = np.random.default_rng(109)
    share = 1.0 / np.arange(1, groups + 1)
    group = rng.choice(groups, size=n, p=share / share.sum())
    rows: FloatArray = rng.uniform(-10.0, 10.0, size=(groups, d))[group] + rng.normal(size=(n, d))
    return rows


def low_rank(n: int, d: int, rank: int) -> FloatArray:
    rng = np.random.default_rng(110)
    score = mixture(n, rank, 12, spread=4.0, seed=111)
    rows: FloatArray = score @ rng.normal(size=(rank, d)) + 0.5 * rng.normal(size=(n, d))
    return rows


# Recipes that were measured once, after all constants were chosen.


def answers(n: int, questions: int, kinds: int) -> FloatArray:
    """Answers from 1 to 5 by people of a few kinds."""
    rng = np.random.default_rng(201)
    shares = rng.dirichlet(np.full(5, 0.8), size=(kinds, questions)).cumsum(axis=2)
    kind = rng.integers(kinds, size=n)
    levels = (rng.random((n, questions, 1)) > shares[kind]).sum(axis=2).clip(max=4)
    return np.asarray(1.0 + levels, dtype=np.float64)


def rolled_sheet(n: int) -> FloatArray:
    rng = np.random.default_rng(202)
    angle = 1.5 * np.pi * (1.0 + 2.0 * rng.random(n))
    sheet = np.column_stack([angle * np.cos(angle), 21.0 * rng.random(n), angle * np.sin(angle)])
    return np.asarray(sheet + 0.3 * rng.normal(size=(n, 3)))


def waits_and_visits(n: int) -> FloatArray:
    """Three waiting times in minutes and three numbers of visits, of customers of four kinds."""
    rng = np.random.default_rng(203)
    kind = rng.integers(4, size=n)
    waits = rng.exponential(rng.uniform(5.0, 60.0, size=(4, 3))[kind])
    return np.column_stack([waits, rng.poisson(rng.uniform(1.0, 20.0, size=(4, 3))[kind])]).astype(np.float64)


def towns(n: int, n_towns: int) -> FloatArray:
    """Latitudes and longitudes in towns of unequal sizes, about a place far from zero."""
    rng = np.random.default_rng(204)
    place = np.array([52.0, 13.0]) + rng.uniform(-1.5, 1.5, size=(n_towns, 2))
    town = rng.choice(n_towns, size=n, p=rng.dirichlet(np.full(n_towns, 1.5)))
    return np.asarray(place[town] + rng.uniform(0.02, 0.08, size=(n_towns, 1))[town] * rng.normal(size=(n, 2)))


def spectra(n: int, d: int, kinds: int) -> FloatArray:
    """Smooth curves with three peaks, at places that depend on their kind."""
    rng = np.random.default_rng(205)
    place, kind = rng.uniform(0.0, d, size=(kinds, 3)), rng.integers(kinds, size=n)
    peaks = place[kind] + rng.normal(size=(n, 3))
    heights = rng.gamma(8.0, 1.0, size=(n, 3, 1))
    curves = heights * np.exp(-0.5 * np.square((np.arange(d) - peaks[:, :, None]) / 2.5))
    return np.asarray(curves.sum(axis=1) + 0.5 * rng.normal(size=(n, d)))


def dense_in_sparse(n: int, d: int) -> FloatArray:
    """Half of the rows in one narrow cluster at the side of a cube that the others fill."""
    rng = np.random.default_rng(206)
    dense = np.full(d, 80.0) + rng.normal(size=(n // 2, d))
    return _shuffled(np.concatenate([dense, rng.uniform(0.0, 100.0, size=(n - n // 2, d))]), rng)


def cauchy(n: int, d: int, groups: int) -> FloatArray:
    """Clusters with a few rows at any distance, up to 100 deviations."""
    rng = np.random.default_rng(207)
    member = rng.integers(groups, size=n)
    return np.asarray(rng.normal(size=(groups, d))[member] * 5.0 + rng.standard_cauchy(size=(n, d)).clip(-100.0, 100.0))


def nested(n: int, d: int, groups: int, each: int) -> FloatArray:
    """Groups of small clusters."""
    rng = np.random.default_rng(208)
    outer = rng.integers(groups, size=n)
    inner = rng.integers(each, size=n)
    means = 20.0 * rng.normal(size=(groups, 1, d)) + 4.0 * rng.normal(size=(groups, each, d))
    return np.asarray(means[outer, inner] + rng.normal(size=(n, d)))


def patients(n: int) -> FloatArray:
    """Age, weight, blood pressure, pulse and a skewed laboratory value, in their own units."""
    rng = np.random.default_rng(209)
    kind = rng.integers(4, size=n)
    means = np.array([[25, 60, 110, 65], [45, 85, 135, 75], [70, 75, 150, 80], [60, 110, 145, 95]])[kind]
    values = rng.normal(means, [6.0, 9.0, 10.0, 8.0])
    return np.column_stack([values, rng.lognormal(np.array([4.4, 4.6, 4.9, 5.2])[kind], 0.25)])


def income_and_shares(n: int, d: int) -> FloatArray:
    """One column in the ten thousands, and shares of spending between 0 and 1."""
    rng = np.random.default_rng(210)
    kind = rng.integers(6, size=n)
    income = rng.lognormal(rng.uniform(9.8, 11.2, size=6)[kind], 0.3)
    shares = rng.gamma(rng.uniform(0.3, 4.0, size=(6, d - 1))[kind])
    return np.column_stack([income, shares / shares.sum(axis=1, keepdims=True)])


def _shuffled(rows: FloatArray, rng: np.random.Generator) -> FloatArray:
    return rows[rng.permutation(len(rows))]
