"""Published names: the chance that a name of one person alone is seen, and both directions of the price, exactly."""

from __future__ import annotations

import functools
import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm as normal

from pais._base.randomness import bit_source
from pais.mechanisms.names import MOST_NAMES, CountLine, NameSelection
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, geometric_noise
from pais.privacy.amplification import largest_shift

DELTA = 1e-5


def divergence(epsilon: float, mu: float) -> float:
    return float(normal.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal.cdf(-mu / 2 - epsilon / mu))


def not_found(weights: tuple[float, ...], selection: NameSelection) -> list[float]:
    """Probability that a name with these weights, one in each round, is not found after 0, 1, ... rounds."""
    return _not_found(weights, selection.shares, selection.lines, selection.shift)


@functools.cache
def _not_found(
    weights: tuple[float, ...], shares: tuple[float, ...], lines: tuple[float, ...], shift: float, nodes: int = 60
) -> list[float]:
    x, q = np.polynomial.legendre.leggauss(nodes)
    masses, done, before, density = [1.0], 0.0, None, np.empty(0)
    for share, line, weight in zip(shares, lines, weights, strict=True):
        done += share
        step, high = math.sqrt(share) / shift, done * line
        low = min(high, 0.0) - 9.0 * math.sqrt(done) / shift
        y, qy = (high + low) / 2 + (high - low) / 2 * x, (high - low) / 2 * q
        gaps = y - share * weight if before is None else y[:, None] - before[None, :] - share * weight
        kernel = np.exp(-0.5 * (gaps / step) ** 2) / (step * math.sqrt(2 * math.pi))
        density = kernel if before is None else kernel @ density
        masses.append(float(density @ qy))
        density, before = density * qy, y
    return masses


def deltas(epsilon: float, selection: NameSelection, crowds: tuple[float, ...], alone: int) -> tuple[float, float]:
    """Exact deltas for adding and removing a person who shares names with crowds and has `alone` names of their own.

    An outcome says in which round each shared name is found, and whether a name of the person's own is.
    """
    n_rounds, there, absent = len(selection.shares), 0.0, 0.0
    for when in itertools.product(range(n_rounds + 1), repeat=len(crowds)):
        left = [alone + sum(found >= turn for found in when) for turn in range(n_rounds)]
        added = [1.0 / math.sqrt(number) if number else 0.0 for number in left]
        present, without = 1.0, 1.0
        for crowd, found in zip(crowds, when, strict=True):
            own = tuple(crowd + (added[turn] if turn <= found else 0.0) for turn in range(n_rounds))
            for weights, is_present in ((own, True), ((crowd,) * n_rounds, False)):
                masses = [*not_found(weights, selection), 0.0]
                mass = max(masses[found] - (masses[found + 1] if found < n_rounds else 0.0), 0.0)
                present, without = (present * mass, without) if is_present else (present, without * mass)
        seen = 1.0 - not_found(tuple(added), selection)[-1] ** alone if alone else 0.0
        there += present * seen + max(present * (1.0 - seen) - math.exp(epsilon) * without, 0.0)
        absent += max(without - math.exp(epsilon) * present * (1.0 - seen), 0.0)
    return there, absent


def worst(epsilon: float, selection: NameSelection) -> tuple[float, float]:
    """Largest deltas over small worlds. The worst absence lies near 1.8 times the line, so that crowds reach beyond."""
    grid, most = np.linspace(1.0, 2.3 * selection.lines[-1], 24), selection.max_names
    worlds: list[tuple[tuple[float, ...], int]] = [((), most)]
    worlds += [((crowd,), alone) for crowd in grid for alone in {0, 1, most - 1} if alone < most]
    if most > 1:
        worlds += [((one, two), alone) for one in grid[::5] for two in grid[::8] for alone in {0, most - 2}]
    found = [deltas(epsilon, selection, *world) for world in worlds]
    return max(there for there, _ in found), max(absent for _, absent in found)


@pytest.mark.parametrize("max_names", [1, 2, 10])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_both_directions_of_small_worlds_stay_within_the_price(epsilon: float, max_names: int) -> None:
    shift = largest_shift(epsilon, DELTA / 2)
    selection = NameSelection(shift=shift, delta=DELTA / 2, max_names=max_names)
    price = divergence(epsilon, shift) + DELTA / 2
    there, absent = worst(epsilon, selection)
    assert there <= price * (1 + 1e-6)
    assert 0.02 * price < absent <= price * (1 + 1e-6)


def test_small_worlds_find_too_low_a_line_and_too_little_noise() -> None:
    shift = largest_shift(1.0, DELTA / 2)
    low, loud = (NameSelection(shift=scale * shift, delta=DELTA / 2, max_names=2) for scale in (1.0, 1.4))
    low.__dict__["lines"] = tuple(0.75 * line for line in low.lines)
    assert deltas(1.0, low, (), 2)[0] > DELTA
    loud.__dict__["lines"] = NameSelection(shift=shift, delta=DELTA / 2, max_names=2).lines
    assert min(np.max([deltas(1.0, loud, (float(crowd),), 0) for crowd in range(1, 60)], axis=0)) > DELTA


@pytest.mark.parametrize("max_names", [1, 2, 10])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_names_alone_need_not_split_delta(epsilon: float, max_names: int) -> None:
    """Both directions of small worlds stay within delta, and nearly reach it."""
    selection = NameSelection.whole(epsilon=epsilon, delta=DELTA, max_names=max_names)
    there, absent = worst(epsilon, selection)
    assert 0.5 * DELTA < there <= DELTA * (1 + 1e-6)
    assert 0.02 * DELTA < absent <= DELTA * (1 + 1e-6)
    halves = NameSelection(shift=largest_shift(epsilon, DELTA / 2), delta=DELTA / 2, max_names=max_names)
    assert selection.lines[-1] < 0.97 * halves.lines[-1]


@pytest.mark.parametrize("max_names", [1, 7, 300])
def test_names_alone_stay_within_delta_for_every_number_of_own_names(max_names: int) -> None:
    """With m names of one person alone: the chance that one is seen, and the divergence of the others."""
    selection = NameSelection.whole(epsilon=1.0, delta=DELTA, max_names=max_names)
    for m in range(1, max_names + 1):
        log_unseen, done = 0.0, 0.0
        for share, line in zip(selection.shares, selection.lines, strict=True):
            done += share
            seen = m * normal.sf((line - 1 / math.sqrt(m)) * selection.shift * math.sqrt(done))
            log_unseen += math.log1p(-seen)
        others = selection.shift * math.sqrt(1 - m / max_names)
        assert -log_unseen + (divergence(1.0, others) if others else 0.0) <= DELTA * (1 + 1e-5), m


def test_small_worlds_find_faults_of_names_alone() -> None:
    for max_names in (1, 2):
        low = NameSelection.whole(epsilon=1.0, delta=DELTA, max_names=max_names)
        low.__dict__["lines"] = tuple(0.97 * line for line in low.lines)
        assert deltas(1.0, low, (), max_names)[0] > DELTA
    with pytest.raises(ValueError, match="Pass a smaller one"):
        NameSelection(shift=1.01 * largest_shift(1.0, DELTA), delta=DELTA, epsilon=1.0)


@pytest.mark.parametrize("max_names", [1, 3, 200])
def test_names_of_one_person_alone_are_seen_with_at_most_delta(max_names: int) -> None:
    """For every number m of such names: the sum over rounds of the chance that one of m scores exceeds the line."""
    selection = NameSelection(shift=0.3, delta=1e-6, max_names=max_names)
    with mp.workdps(40):
        for m in range(1, max_names + 1):
            seen, done = mp.mpf(0), mp.mpf(0)
            for share, line in zip(selection.shares, selection.lines, strict=True):
                done += mp.mpf(share)
                gap = (mp.mpf(line) - 1 / mp.sqrt(m)) * mp.mpf(0.3) * mp.sqrt(done)
                seen += 1 - mp.ncdf(gap) ** m
            assert seen <= mp.mpf(1e-6), m
    assert seen > 0.0


def test_the_line_is_the_largest_over_the_numbers_of_names() -> None:
    """With many names the quantile outweighs the smaller weight; with little noise it is the other way round."""
    few, many = (NameSelection(shift=1.0, delta=1e-6, max_names=most).lines[-1] for most in (2, 1000))
    assert many > few
    assert NameSelection(shift=40.0, delta=1e-2, max_names=1000).lines[-1] >= 1.0


@pytest.mark.parametrize("max_names", [1, 7, 1000, MOST_NAMES])
def test_the_weight_of_a_person_never_exceeds_norm_one(max_names: int) -> None:
    selection = NameSelection(shift=1.0, delta=1e-6, max_names=max_names)
    for number in {1, max_names // 3 + 1, max_names}:
        found = np.zeros(number, dtype=bool)
        weights = selection.weights(np.zeros(number, dtype=np.int64), np.arange(number), found)
        assert sum(int(weight) ** 2 for weight in weights) <= 4**20
        assert weights.min() >= 2**20 / math.sqrt(number) - 1


def test_one_person_moves_the_weights_of_all_rounds_by_at_most_one() -> None:
    """Whatever was found in earlier rounds: forced outcomes, all people left out in turn."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        pairs = np.unique(rng.integers([0, 0], [12, 9], size=(60, 2)), axis=0)
        selection = NameSelection(shift=1.0, delta=1e-6, max_names=9)
        when = rng.integers(4, size=9)
        for person in range(12):
            others, square = pairs[pairs[:, 0] != person], 0.0
            for turn, share in enumerate(selection.shares):
                with_person, without = (selection.weights(p[:, 0], p[:, 1], when < turn) for p in (pairs, others))
                square += share * float(((with_person - without) * 2.0**-20 @ (with_person - without)) * 2.0**-20)
            assert square <= 1.0


def test_a_person_with_more_names_counts_by_a_random_choice_of_them() -> None:
    people, names = np.zeros(40, dtype=np.int64), np.arange(40)
    selection = NameSelection(shift=1.0, delta=1e-6, max_names=4)
    choices = {tuple(sorted(selection.cut(people, names, bit_source(seed))[1])) for seed in range(30)}
    assert all(len(choice) == 4 for choice in choices)
    assert len(choices) > 25


def test_frequent_names_are_published_and_names_of_one_person_are_not() -> None:
    rng = np.random.default_rng(1)
    sizes = np.r_[np.full(20, 400), np.full(500, 1)]
    names = np.repeat(np.arange(len(sizes)), sizes)
    people = rng.permutation(len(names))
    for max_names in (1, 8):
        found = NameSelection(shift=0.27, delta=5e-6, max_names=max_names).published(people, names, bit_source(2))
        assert found.tolist() == list(range(20))
    single = NameSelection(shift=0.27, delta=5e-6)
    assert single.scored_of_rows(sizes, bit_source(2))[0].tolist() == list(range(20))


def test_rounds_find_more_names_than_one_round() -> None:
    """Rare names get the weight that popular names no longer need."""
    rng = np.random.default_rng(3)
    cumulative = np.cumsum(np.arange(1, 20_001.0) ** -1.05)
    people = np.repeat(np.arange(20_000), rng.geometric(0.1, 20_000))
    names = np.searchsorted(cumulative / cumulative[-1], rng.random(len(people)))
    pairs = np.unique(np.c_[people, names], axis=0)
    rounds = NameSelection(shift=0.27, delta=5e-6, max_names=32)
    single = NameSelection(shift=0.27, delta=5e-6, max_names=32)
    found = rounds.published(pairs[:, 0], pairs[:, 1], bit_source(4)).size
    kept = single.cut(pairs[:, 0], pairs[:, 1], bit_source(4))
    weights = single.weights(*kept, np.zeros(20_000, dtype=bool)) * 2.0**-20
    noisy = weights + rng.normal(size=weights.size) / 0.27
    assert found > 1.15 * (noisy > single.lines[-1])[weights > 0].sum()


@pytest.mark.parametrize(
    "wrong",
    [
        {"shift": 0.0},
        {"shift": math.inf},
        {"delta": 0.0},
        {"delta": 0.5},
        {"max_names": 0},
        {"max_names": 1 << 17},
        {"epsilon": 0.0},
    ],
)
def test_impossible_selections_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Pass"):
        NameSelection(**{"shift": 1.0, "delta": 1e-6, **wrong})  # type: ignore[arg-type]


# -- names that are published with their totals ----------------------------------------------------------------------


def geometric_masses(epsilon: float, reach: int) -> np.ndarray:
    """Probabilities of two-sided geometric noise, from -reach to reach."""
    return math.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(np.arange(-reach, reach + 1)))


def delta_of_count(count: int, epsilon: float, parts: tuple[float, float], line: float) -> tuple[float, float]:
    """Exact deltas of one name with `count` rows, one more and one fewer, and of "other", which has 20 more rows.

    An outcome is the published count of the name, or that it is not published and the count of "other".
    """
    reach = 1500
    noise, noise_of_other = (geometric_masses(part, reach) for part in parts)
    worlds = []
    for rows in (count, count - 1):
        noisy = rows + np.arange(-reach, reach + 1)
        above = np.zeros(noisy.size + 1) if rows == 0 else np.append(np.where(noisy > line, noise, 0.0), 0.0)
        shown = np.zeros(2 * reach + 2 * count + 2)
        shown[noisy + reach] = above[:-1]
        hidden = 1.0 - above.sum()
        other = np.zeros_like(shown)
        # Rows without a published name belong to "other"; only their difference matters.
        other[np.arange(noise_of_other.size) + rows] = hidden * noise_of_other
        worlds.append((shown, other))
    with_row, without = (np.concatenate(world) for world in worlds)
    there = np.maximum(with_row - math.exp(epsilon) * without, 0.0).sum()
    absent = np.maximum(without - math.exp(epsilon) * with_row, 0.0).sum()
    # Rounding, and the tails that are cut off.
    return float(there) - 1e-12, float(absent) - 1e-12


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_published_counts_and_other_stay_within_the_price(epsilon: float) -> None:
    parts = (0.9 * epsilon, 0.1 * epsilon)
    line = CountLine(noise=geometric_noise(epsilon=parts[0]), delta=DELTA).line
    price = sum(parts) * (1 + 1e-9)
    worst_of = [max(delta_of_count(count, price, parts, line)) for count in range(2, 80)]
    assert max(worst_of) <= 0.0
    # A name of one row alone is paid for by delta.
    alone = delta_of_count(1, price, parts, line)
    assert 0.05 * DELTA < max(alone) <= DELTA
    # Neither part of the price can be left out, and the line cannot be lower.
    less = sum(parts) - 0.5 * parts[1]
    assert max(max(delta_of_count(count, less, parts, line)) for count in range(2, 80)) > DELTA
    assert max(delta_of_count(1, price, parts, line - 1.0)) > DELTA


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_the_line_of_whole_counts_is_the_lowest(epsilon: float, delta: float) -> None:
    law = geometric_noise(epsilon=epsilon)
    line = CountLine(noise=law, delta=delta).line
    with mp.workdps(40):
        ratio = mp.exp(-1 / mp.mpf(law.scale))

        def seen(least: int) -> mp.mpf:
            """The chance that a count of 1 becomes at least this large."""
            return ratio ** (least - 1) / (1 + ratio)

        least = math.floor(line) + 1
        assert seen(least) <= mp.mpf(delta) < seen(least - 1) or least == 2


def tail_by_density(law: NoiseLaw, n: int, above: float) -> float:
    """The tail of a sum of n noise variables by adding up the density on a fine grid."""
    step = law.scale / 200
    grid = np.arange(-24_000, 24_001) * step
    if isinstance(law, GaussianNoise):
        density = normal.pdf(grid, scale=law.scale) * step
    else:
        density = 0.5 * np.exp(-np.abs(grid) / law.scale) / law.scale * step
    spectrum = np.fft.rfft(density, 1 << 20) ** n
    total = np.fft.irfft(spectrum, 1 << 20)
    places = np.arange(total.size) * step - n * 24_000 * step
    return float(total[places > above].sum())


@pytest.mark.parametrize("law", [LpNoise(scale=2.0, p=1.0), GaussianNoise(scale=3.0)])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_tails_of_sums_of_noise(law: NoiseLaw, n: int) -> None:
    line = CountLine(noise=law, n=n, delta=1e-4, step=1e-9)
    for above in (0.7, 4.0, 11.0):
        assert line.tail(np.array([above]))[0] == pytest.approx(tail_by_density(law, n, above), rel=0.02)
    assert tail_by_density(law, n, line.line - 1.0) == pytest.approx(1e-4, rel=0.03)


def test_sums_of_geometric_noise_stay_below_the_line() -> None:
    """The bound by Laplace noise and one step for each coordinate holds, and costs at most as many steps."""
    masses = geometric_masses(0.8, 400)
    for n in (2, 5):
        total = masses
        for _ in range(n - 1):
            total = np.convolve(total, masses)
        line = CountLine(noise=geometric_noise(epsilon=0.8), n=n, delta=1e-3).line
        outwards = np.cumsum(total[::-1])[::-1]
        beyond = np.arange(-n * 400, n * 400 + 1)
        assert outwards[beyond + 1 > line][0] <= 1e-3 < outwards[beyond + 1 > line - n - 2][0]


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_intervals_of_published_counts_hold_given_that_they_were_published(epsilon: float, delta: float) -> None:
    """For every count, however rare: the exact chance that the interval holds it, once its name is published."""
    law = geometric_noise(epsilon=epsilon)
    line = CountLine(noise=law, delta=delta)
    least = math.floor(line.line) + 1
    noisy = np.arange(least, least + int(60 / epsilon) + 200)
    low = line.least_counts(noisy.astype(float), 0.025)
    usual = noisy - np.ceil(math.log(40.0) / epsilon)
    for count in range(1, least + 60):
        masses = np.exp(-epsilon * np.abs(noisy - count))
        held = masses[low <= count].sum() / masses.sum()
        assert held >= 0.975 - 1e-9, count
        if count == least // 2:
            # Without the correction, hardly any interval holds a rare count that noise has put above the line.
            assert masses[usual <= count].sum() / masses.sum() < 0.2


def test_several_names_of_one_person_share_the_chance() -> None:
    """All of M names of one person alone are hidden with a probability of at least 1 - delta."""
    for max_names in (1, 3, 50):
        law = geometric_noise(epsilon=0.9, sensitivity=max_names)
        line = CountLine(noise=law, delta=1e-4, max_names=max_names).line
        least = math.floor(line) + 1
        ratio = math.exp(-1.0 / law.scale)
        hidden = (1.0 - ratio ** (least - 1) / (1.0 + ratio)) ** max_names
        lower = (1.0 - ratio ** (least - 2) / (1.0 + ratio)) ** max_names
        assert lower < 1.0 - 1e-4 <= hidden
