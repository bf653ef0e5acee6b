"""QUANTILE: exact probabilities of every outcome on small tables, for all neighbours, against the price.

The oracle shares no code with the package: ranks as fractions from lists of rows, and the probabilities of
permute-and-flip as integrals of polynomials.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import pais
from pais._base.lattice import rounded_noise
from pais._base.randomness import BitSource
from pais.data.engines.base import WeightedRows
from pais.statistics import quantile as quantiles, quantile as selection
from pais.statistics.quantile import _Exponential, permute_and_flip, selection_scale, uniform_below
from tests.support.lattice_cases import seeded
from tests.theory.test_exact_noise import ACCEPT, REJECT, Scripted

POINTS = 3
# Values at the points 0, 1, 2 of a grid and between them.
VALUES = (0, Fraction(1, 2), 1, Fraction(3, 2), 2)
Table = tuple[tuple[Fraction | int, int], ...]  # values and masses, in steps


@pytest.fixture(autouse=True)
def many_digits() -> Iterator[None]:
    with mp.workprec(200):
        yield


def mechanism(levels: tuple[float, ...], epsilon: float = 1.0, step: float = 1.0) -> pais.GridQuantiles:
    grid = pais.Grid(column=0, center=1.0, scale=1.0, step=1.0, first=0.0, n_points=POINTS)
    return pais.GridQuantiles(epsilon=epsilon, levels=levels, grids=(grid,), step=step)


def distances(table: Table, level: Fraction, points: list[int]) -> list[int]:
    """Distance of the quantile from the ranks of the rows at each point, times the denominator of the level."""
    total = sum(mass for _, mass in table)
    gaps = []
    for point in points:
        below = sum(mass for value, mass in table if value < point)
        upto = sum(mass for value, mass in table if value <= point)
        gaps.append(level.denominator * max(Fraction(0), below - level * total, level * total - upto))
    return [int(gap) for gap in gaps]


def flip_probabilities(gaps: list[int], scale: float) -> list[mp.mpf]:
    """Permute-and-flip: p_j times the integral of the product of 1 - p_i t over t from 0 to 1."""
    accepted = [mp.exp(-(gap - min(gaps)) / mp.mpf(scale)) for gap in gaps]
    probabilities = []
    for j, own in enumerate(accepted):
        coefficients = [mp.mpf(1)]
        for i, other in enumerate(accepted):
            if i != j:
                shifted = [mp.mpf(0), *(-other * c for c in coefficients)]
                coefficients = [a + b for a, b in zip([*coefficients, mp.mpf(0)], shifted, strict=True)]
        probabilities.append(own * mp.fsum(c / (k + 1) for k, c in enumerate(coefficients)))
    return probabilities


def outcomes(table: Table, model: pais.GridQuantiles, factor: float = 1.0) -> dict[tuple[int, ...], mp.mpf]:
    """Probability of every sequence of choices and divisions. `factor` multiplies the scales."""
    result = {}

    def follow(nodes: list, parts: dict, path: tuple[int, ...], probability: mp.mpf) -> None:
        if not nodes:
            result[path] = probability
            return
        node, rest = nodes[0], nodes[1:]
        points, part = parts[node.below, node.above]
        scale = factor * model._scale(node.level, node.price)
        for point, chance in zip(points, flip_probabilities(distances(part, node.level, points), scale), strict=True):
            if not node.division:
                follow(rest, parts, (*path, point), probability * chance)
                continue
            left = [row for row in part if row[0] < point]
            right = [row for row in part if row[0] > point]
            within = sum(mass for value, mass in part if value == point)
            below, total = sum(mass for _, mass in left), sum(mass for _, mass in part)
            shares = [within * k // quantiles._PARTS for k in range(quantiles._PARTS + 1)]
            gaps = [abs(node.level.denominator * (below + share) - node.level.numerator * total) for share in shares]
            scale_of_division = factor * model._scale(node.level, node.division)
            for k, more in enumerate(flip_probabilities(gaps, scale_of_division)):
                lower = (*left, (point, shares[k]))
                upper = ((point, within - shares[k]), *right)
                follow(
                    rest,
                    parts
                    | {
                        (node.below, node.at): ([p for p in points if p <= point], lower),
                        (node.at + 1, node.above): ([p for p in points if p >= point], upper),
                    },
                    (*path, point, k),
                    probability * chance * more,
                )

    follow(model._nodes, {(0, len(model.levels)): (list(range(POINTS)), table)}, (), mp.mpf(1))
    return result


def largest_log_ratio(first: dict[tuple[int, ...], mp.mpf], second: dict[tuple[int, ...], mp.mpf]) -> mp.mpf:
    assert mp.almosteq(mp.fsum(first.values()), 1)
    assert mp.almosteq(mp.fsum(second.values()), 1)
    return max(abs(mp.log(first[outcome] / second[outcome])) for outcome in first)


def tables(most_rows: int) -> Iterator[Table]:
    for n in range(most_rows + 1):
        for values in itertools.combinations_with_replacement(VALUES, n):
            yield tuple((value, 1) for value in values)


def price_of_choices(model: pais.GridQuantiles) -> Fraction:
    return model.exact_price * (1 - quantiles._COUNTS_SHARE)


def bound_of(model: pais.GridQuantiles) -> mp.mpf:
    """The price of all choices, with room for the last of 60 digits."""
    price = price_of_choices(model)
    return mp.mpf(price.numerator) / price.denominator + mp.mpf(10) ** -50


@pytest.mark.parametrize("level", [0.5, 0.9, 0.25, 0.35])
@pytest.mark.parametrize("epsilon", [1.0, 0.1])
def test_no_quantile_is_more_likely_by_more_than_the_price_for_any_neighbour(level: float, epsilon: float) -> None:
    model = mechanism((level,), epsilon)
    bound, largest, too_little = bound_of(model), mp.mpf(0), mp.mpf(0)
    for table in tables(3):
        plain, quiet = outcomes(table, model), outcomes(table, model, factor=0.5)
        for value in VALUES:
            more = (*table, (value, 1))
            largest = max(largest, largest_log_ratio(plain, outcomes(more, model)))
            too_little = max(too_little, largest_log_ratio(quiet, outcomes(more, model, factor=0.5)))
    assert largest <= bound
    # The bound is nearly reached, and half of the scale, as for a sensitivity half as large, breaks it.
    assert largest > 0.5 * bound
    assert too_little > bound


@pytest.mark.parametrize("levels", [(0.25, 0.5), (0.25, 0.5, 0.75)])
def test_several_quantiles_together_cost_at_most_the_price(
    levels: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantiles, "_PARTS", 2)
    model = mechanism(levels)
    bound = bound_of(model)
    largest = mp.mpf(0)
    for table in tables(2):
        plain = outcomes(table, model)
        for value in VALUES:
            largest = max(largest, largest_log_ratio(plain, outcomes((*table, (value, 1)), model)))
    assert bound * 0.4 < largest <= bound
    crowd: Table = tuple((value, 1) for value in (0, 1, 1, 1, 2))
    assert largest_log_ratio(outcomes(crowd, model), outcomes((*crowd, (1, 1)), model)) <= bound


def test_a_unit_with_rows_in_several_places_costs_at_most_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiles, "_PARTS", 2)
    model = mechanism((0.3, 0.5), step=0.25)
    bound, largest = bound_of(model), mp.mpf(0)
    for table in [(), ((1, 4),), ((0, 2), (1, 3), (2, 4)), ((Fraction(1, 2), 4), (1, 4))]:
        plain = outcomes(table, model)
        for masses in [(4, 0, 0), (2, 1, 1), (0, 3, 1), (1, 1, 2), (0, 0, 4)]:
            unit = tuple((value, mass) for value, mass in zip((0, 1, 2), masses, strict=True))
            largest = max(largest, largest_log_ratio(plain, outcomes((*table, *unit), model)))
    assert bound * 0.4 < largest <= bound


@pytest.mark.parametrize("n_levels", range(1, 12))
@pytest.mark.parametrize("epsilon", [1.0, 0.1, 1 / 3])
def test_prices_along_every_path_of_the_tree_add_up_to_the_price(n_levels: int, epsilon: float) -> None:
    levels = tuple(((np.arange(n_levels) + 1) / (n_levels + 1)).tolist())
    model = mechanism(levels, epsilon)
    assert sorted(node.at for node in model._nodes) == list(range(n_levels))
    for number in range(n_levels):
        path = [node for node in model._nodes if node.below <= number < node.above]
        # A row belongs to one node on each level of the tree: those whose range holds a leaf.
        assert sum(node.price + node.division for node in path) <= price_of_choices(model)
    counts = 1 / Fraction(model.count_noise.scale)
    assert counts + price_of_choices(model) <= model.exact_price <= Fraction(epsilon)
    two = pais.GridQuantiles(epsilon=epsilon, levels=levels, grids=model.grids * 2)
    assert 2 * two._nodes[0].price <= model._nodes[0].price
    assert 2 / Fraction(two.count_noise.scale) <= counts


def test_gaps_are_exact_distances_of_ranks() -> None:
    rng = np.random.default_rng(1)
    for level in (Fraction(1, 2), Fraction(9, 10), Fraction(997, 1000), Fraction(1, 1000)):
        for size in (1, 3, 10**9, 2**43):
            counts = rng.integers(0, size, 2 * POINTS - 1)
            table = tuple(zip(VALUES, counts.tolist(), strict=True))
            expected = [min(gap, 2**61) for gap in distances(table, level, list(range(POINTS)))]
            assert quantiles._gaps(counts, level).tolist() == expected
    # Ranks of 2**62 steps: beyond 64 bits after the multiplication.
    counts = np.array([2**61, 5, 2**61, 7, 2**61], dtype=np.int64)
    table = tuple(zip(VALUES, counts.tolist(), strict=True))
    expected = [min(gap, 2**61) for gap in distances(table, Fraction(1, 3), list(range(POINTS)))]
    assert quantiles._gaps(counts, Fraction(1, 3)).tolist() == expected


@pytest.mark.parametrize(("scale", "gap"), [(1.0, 1), (2.5, 3), (1e6, 12345), (2.0**50, 2**50 + 1)])
def test_a_candidate_is_accepted_by_the_exact_value_of_its_uniform_variable(scale: float, gap: int) -> None:
    with mp.workprec(700):
        # Accepted if the uniform variable 2t is at most exp(-gap / scale).
        border = mp.exp(-gap / mp.mpf(scale)) / 2
        for side, accepted in ((-1, True), (1, False)):
            known = int(mp.floor(border * (1 + side * mp.mpf(2) ** -120) * mp.mpf(2) ** 448))
            portions = [(known >> shift) & (2**128 - 1) for shift in (256, 128, 0)]
            bits = Scripted([known >> 384], portions)
            steps = rounded_noise(_Exponential(scale=scale), (1, 1), scale, bits)
            assert (int(steps[0, 0]) >= gap) is accepted


@pytest.mark.parametrize("gap", [1, 9, 10, 37, 10**6])
def test_a_candidate_is_accepted_from_exactly_its_gap_on(gap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for steps, accepted in ((gap - 1, 1), (gap, 2)):
        drawn = np.array([[0], [steps]])
        monkeypatch.setattr(selection, "rounded_noise", lambda *_, tails, drawn=drawn: drawn)
        numbers: list[int] = []
        monkeypatch.setattr(selection, "uniform_below", lambda n, _, numbers=numbers: numbers.append(n) or 0)
        permute_and_flip(np.array([0, -gap]), float(gap), seeded(0))
        assert numbers == [accepted]


class Portions(BitSource):
    """Bits written in advance, a portion for each request."""

    private = False

    def __init__(self, portions: list[bytes]) -> None:
        self._portions = portions

    def raw(self, n_bytes: int) -> bytes:
        portion = self._portions.pop(0)
        assert len(portion) == n_bytes
        return portion


@pytest.mark.parametrize("gap", [11, 12, 25])
def test_a_far_candidate_is_accepted_by_all_bits_of_its_uniform_variable(
    gap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At scale 1, a candidate is accepted if its tail is at most exp(-gap) / 2.
    border = int(mp.floor(mp.exp(-gap) * mp.mpf(2) ** 63))
    for word, accepted in ((border - (border >> 20), 2), (border + (border >> 20), 1)):
        numbers: list[int] = []
        monkeypatch.setattr(selection, "uniform_below", lambda n, _, numbers=numbers: numbers.append(n) or 0)
        first, rest = [1 << 14, word >> 48], [0, word % 2**48 << 16]
        drawn = [np.array(first, dtype=np.uint16).tobytes(), np.array(rest, dtype=np.uint64).tobytes()]
        permute_and_flip(np.array([0, -gap]), 1.0, Portions(drawn))
        assert numbers == [accepted]


def test_far_candidates_are_accepted_with_their_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    monkeypatch.setattr(selection, "uniform_below", lambda n, _: numbers.append(n) or 0)
    scores, bits, n_calls = -np.repeat([0, 12], [1, 100_000]), seeded(4), 300
    for _ in range(n_calls):
        permute_and_flip(scores, 1.0, bits)
    accepted, expected = sum(numbers) - n_calls, 100_000 * n_calls * math.exp(-12.0)
    assert 2.0 * min(stats.poisson.cdf(accepted, expected), stats.poisson.sf(accepted - 1, expected)) > ACCEPT
    assert stats.poisson.sf(accepted - 1, 0.5 * expected) < REJECT


def test_the_rows_of_a_part_are_divided_among_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    totals: list[int] = []
    gaps = quantiles._gaps

    def recorded(counts: np.ndarray, level: Fraction) -> np.ndarray:
        totals.append(int(counts.sum()))
        return gaps(counts, level)

    monkeypatch.setattr(quantiles, "_gaps", recorded)
    rows = np.repeat([[-1.0], [0.0], [0.5], [1.0]], [30, 250, 40, 7], axis=0)
    content = WeightedRows(rows=rows, weights=np.ones(len(rows)))
    for seed in range(5):
        totals.clear()
        mechanism((0.25, 0.5, 0.75)).measure(content, pais.Ball(radius=4.0), seeded(seed))
        assert totals[0] == totals[1] + totals[2] == len(rows)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_scores_of_a_release_are_the_distances_of_ranks(level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    scores: list[list[int]] = []

    def first(found: np.ndarray, scale: float, bits: object) -> int:
        scores.append(found.tolist())
        return 0

    monkeypatch.setattr(quantiles, "permute_and_flip", first)
    table: Table = tuple(zip(VALUES, (30, 1, 250, 40, 7), strict=True))
    rows = np.repeat([[float(value) - 1.0] for value, _ in table], [mass for _, mass in table], axis=0)
    mechanism((level,)).measure(WeightedRows(rows=rows, weights=np.ones(len(rows))), pais.Ball(radius=4.0), seeded(0))
    expected = distances(table, Fraction(str(level)), list(range(POINTS)))
    assert scores == [[-gap for gap in expected]]
    assert max(expected) > 100


def test_choices_follow_their_exact_probabilities_and_not_those_of_the_exponential_mechanism() -> None:
    gaps, scale, n = [0, 1, 1, 4, 9], 2.0, 20_000
    bits = seeded(2)
    observed = np.bincount([permute_and_flip(-np.array(gaps), scale, bits) for _ in range(n)], minlength=5)
    assert stats.chisquare(observed, [float(p) * n for p in flip_probabilities(gaps, scale)]).pvalue > ACCEPT
    weights = np.exp(-np.array(gaps) / scale)
    assert stats.chisquare(observed, weights / weights.sum() * n).pvalue < REJECT


def test_whole_numbers_are_uniform() -> None:
    bits = seeded(3)
    observed = np.bincount([uniform_below(7, bits) for _ in range(14_000)])
    assert stats.chisquare(observed).pvalue > ACCEPT
    # 2**64 - 1 is above the largest multiple of 10, so it is drawn again.
    assert uniform_below(10, Words([2**64 - 1, 23])) == 3


class Words(Scripted):
    """Words of 64 bits, one at a time."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def raw(self, n_bytes: int) -> bytes:
        return self._words.pop(0).to_bytes(n_bytes, "little")


def test_released_choices_follow_the_exact_probabilities() -> None:
    model = mechanism((0.5,))
    table: Table = tuple((value, 1) for value in (0, Fraction(1, 2), 2, 2))
    rows = np.array([[float(value) - 1.0] for value, _ in table])
    bits, n = seeded(4), 4_000
    content = WeightedRows(rows=rows, weights=np.ones(len(rows)))
    values = [model.measure(content, pais.Ball(radius=4.0), bits).values[0, 0, 0] for _ in range(n)]
    expected = [float(p) * n for p in outcomes(table, model).values()]
    assert stats.chisquare(np.bincount(np.array(values, dtype=np.int64), minlength=POINTS), expected).pvalue > ACCEPT


def test_scales_are_rounded_up_and_too_large_ones_are_refused() -> None:
    for epsilon in (1.0, 0.1, 1 / 3, 7.0):
        scale = selection_scale(3, Fraction(epsilon))
        assert Fraction(3) / Fraction(scale) <= Fraction(epsilon)
        assert scale <= math.nextafter(3 / epsilon, math.inf)
    with pytest.raises(pais.ArgumentError, match="too small"):
        selection_scale(2**40, Fraction(1, 10**6))
    with pytest.raises(pais.ArgumentError, match="too small"):
        mechanism((0.5,), epsilon=1e-9, step=2.0**-40)


@pytest.mark.parametrize("step", [2.0, 0.7, 0.0, -1.0, float("nan")])
def test_a_step_must_divide_a_row_into_a_whole_number_of_steps(step):
    """The price of a choice is that of the whole number of steps in one row."""
    grid = quantiles.Grid.over(0, 0.0, 1.0, most_points=20)
    with pytest.raises(pais.ArgumentError, match="step"):
        quantiles.GridQuantiles(epsilon=1.0, levels=(0.5,), grids=(grid,), step=step)
