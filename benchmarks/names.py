"""Names that nobody listed: how many are published at epsilon 1 and delta 1e-5, and the errors of their groups.

``python -m benchmarks.names`` prints the table and writes it as CSV and Markdown. Two of the tables come from packages
that ship data, which are installed into an environment of their own. The other rules are written down here in floating
point and draw their noise with NumPy: read them for what they find, not for protection.
"""

from __future__ import annotations

import argparse
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.progress import Progress
from scipy.special import log_ndtr, ndtri

import pais
from benchmarks.peers.environment import CORPORA, answers
from benchmarks.tables import Cell, Table, parser, run
from pais._base.randomness import bit_source
from pais.mechanisms.names import CountLine, NameSelection
from pais.mechanisms.noise import geometric_noise
from pais.privacy.amplification import amplified_delta, largest_shift
from pais.statistics.settings import TOTALS_SHARE

EPSILON, DELTA = 1.0, 1e-5
# Ours must find more names than these, and at least 98 % of those of the adaptive rule.
LEAST_OF_ADAPTIVE = 0.98

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class People(NamedTuple):
    """Which names people have: numbers from 0, each pair once, by person and then in a random order."""

    people: IntArray
    names: IntArray

    @classmethod
    def of(cls, people: IntArray, names: IntArray, seed: int = 0) -> People:
        pairs = np.unique(np.stack([people, names], axis=1), axis=0)
        order = np.lexsort((np.random.default_rng(seed).random(len(pairs)), pairs[:, 0]))
        return cls(*pairs[order].T.copy())

    @property
    def rows(self) -> People:
        """The same pairs, each of them from a different person."""
        return People(np.arange(len(self.names)), self.names)

    @property
    def n_names(self) -> int:
        return int(self.names.max()) + 1

    def max_names(self) -> int:
        """The power of two that at least 95 % of the people do not exceed."""
        return int(2 ** math.ceil(math.log2(np.quantile(np.bincount(self.people), 0.95, method="higher"))))

    def kept(self, max_names: int, left: NDArray[np.bool_] | None = None) -> People:
        """The first names of each person, of those that are left."""
        people, names = (self.people, self.names) if left is None else (self.people[left], self.names[left])
        first = np.searchsorted(people, people)
        return People(*(part[np.arange(len(people)) - first < max_names] for part in (people, names)))

    def weights(self, each: FloatArray, n_names: int) -> FloatArray:
        """Sums over people of a weight for each pair."""
        return np.asarray(np.bincount(self.names, weights=each, minlength=n_names), dtype=np.float64)

    @property
    def sizes(self) -> FloatArray:
        """For each pair, how many names the person has."""
        return np.bincount(self.people)[self.people].astype(float)


# -- the other rules ----------------------------------------------------------------------------------------------


def line(delta: float, deviation: float, max_names: int) -> float:
    """A person who alone has m names is seen with probability delta at most, for every m."""
    m = np.arange(1, max_names + 1)
    return float(np.max(1.0 / np.sqrt(m) - deviation * ndtri(-np.expm1(np.log1p(-delta) / m))))


@functools.cache
def exact_round(max_names: int) -> tuple[float, float]:
    """Deviation and line of one round with the lowest line whose delta is exact, so that it is not split.

    A person with t names, m of which nobody else has, moves the others by sqrt(1 - m/t).
    """
    best = math.inf, math.inf
    for part in (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1.0 - 1e-9):
        shift = largest_shift(EPSILON, part * DELTA)
        low, high = 1e-4 * DELTA, DELTA
        for _ in range(30):
            middle = math.sqrt(low * high)
            fits = _exact_delta(shift, line(middle, 1.0 / shift, max_names), max_names) <= DELTA
            low, high = (middle, high) if fits else (low, middle)
        best = min(best, (line(low, 1.0 / shift, max_names), 1.0 / shift))
    return best[1], best[0]


def _exact_delta(shift: float, threshold: float, max_names: int) -> float:
    worst = 0.0
    for t in np.unique(np.geomspace(1, max_names, 40).round()).astype(int):
        m = np.arange(1, t + 1)
        log_unseen = m * log_ndtr((threshold - 1.0 / math.sqrt(t)) * shift)
        moved = np.maximum(shift * np.sqrt(1.0 - m / t), 1e-9)
        there = -np.expm1(log_unseen) + np.exp(log_unseen) * amplified_delta(EPSILON - log_unseen, moved, 1.0)
        worst = max(worst, float(np.max(there)), float(np.max(amplified_delta(EPSILON + log_unseen, moved, 1.0))))
    return worst


def weighted(table: People, max_names: int, rng: np.random.Generator) -> int:
    """Weighted Gaussian: one round, each name of a person gets 1/sqrt(t), and delta is halved."""
    kept, deviation = table.kept(max_names), 1.0 / largest_shift(EPSILON, DELTA / 2)
    weights = kept.weights(1.0 / np.sqrt(kept.sizes), table.n_names)
    noisy = weights + deviation * rng.normal(size=weights.size)
    return int(((weights > 0) & (noisy > line(DELTA / 2, deviation, max_names))).sum())


def sips(table: People, max_names: int, rng: np.random.Generator) -> int:
    """DP-SIPS (Swanberg et al., 2023): three rounds without memory; shares grow by a factor of 1/0.3."""
    shares = np.array([0.09, 0.3, 1.0]) / 1.39
    shift, found = largest_shift(EPSILON, DELTA / 2), np.zeros(table.n_names, dtype=bool)
    for share in shares:
        deviation = 1.0 / (shift * math.sqrt(share))
        kept = table.kept(max_names, ~found[table.names])
        weights = kept.weights(1.0 / np.sqrt(kept.sizes), table.n_names)
        noisy = weights + deviation * rng.normal(size=weights.size)
        found |= (weights > 0) & (noisy > line(DELTA / 2 * share, deviation, max_names))
    return int(found.sum())


def adaptive(table: People, max_names: int, rng: np.random.Generator) -> int:
    """MaxAdaptiveDegree (Chen et al., 2025): names far above the line hand weight back, which goes to the others.

    Written from the paper. People with at most half of the largest degree take part, with which a person moves the
    weights by at most 1. It gets the exact delta of a single round.
    """
    kept, (deviation, threshold) = table.kept(max_names), exact_round(max_names)
    degree, most = min(2 * max_names, 50), threshold + 2.0 * deviation
    takes_part = (kept.sizes >= 2) & (2 * kept.sizes <= degree)
    shares = np.where(takes_part, 1.0 / kept.sizes, 0.0)
    first = kept.weights(shares, table.n_names)
    back = np.maximum(0.0, 1.0 - most / np.maximum(first, 1e-300))
    handed = np.bincount(kept.people, weights=shares * back[kept.names])[kept.people] / degree
    added = handed * takes_part + 1.0 / np.sqrt(kept.sizes) - shares
    weights = np.minimum(first, most) + kept.weights(added, table.n_names)
    exists = kept.weights(np.ones(len(kept.names)), table.n_names) > 0
    return int((exists & (weights + deviation * rng.normal(size=weights.size) > threshold)).sum())


def laplace(table: People, max_names: int, rng: np.random.Generator) -> int:
    """One name of each person, two-sided geometric noise, and a threshold."""
    counts = np.bincount(table.kept(1).names, minlength=table.n_names)
    low = math.exp(-EPSILON)
    threshold = 1 + math.ceil(math.log(1.0 / (DELTA * (1.0 + low))) / EPSILON)
    noise = rng.geometric(1.0 - low, counts.size) - rng.geometric(1.0 - low, counts.size)
    return int(((counts > 0) & (counts + noise >= threshold)).sum())


def ours(table: People, max_names: int, seed: int) -> int:
    """Names alone by rounds; with one name for each person those of a count, which are published with their totals."""
    if max_names == 1:
        noise = geometric_noise(epsilon=TOTALS_SHARE * EPSILON)
        counts = np.bincount(table.names)
        counts = counts[counts > 0]
        noisy = counts + noise.draw_steps((1, counts.size), noise.lattice, bit_source(seed))[0]
        return int((noisy > CountLine(noise=noise, delta=DELTA).line).sum())
    selection = NameSelection.whole(epsilon=EPSILON, delta=DELTA, max_names=max_names)
    return selection.published(table.people, table.names, bit_source(seed)).size


OTHERS: dict[str, Callable[[People, int, np.random.Generator], int]] = {
    "weighted Gaussian": weighted,
    "DP-SIPS": sips,
    "MaxAdaptiveDegree": adaptive,
    "Laplace, one name": laplace,
}


# -- tables -------------------------------------------------------------------------------------------------------


def zipf(n_people: int, n_names: int, exponent: float, sizes: str, seed: int = 2) -> People:
    """Names with frequencies that fall as a power of their rank, and sets of random sizes."""
    rng = np.random.default_rng(seed)
    if sizes == "geometric":
        each = rng.geometric(0.1, n_people)
    else:
        each = np.minimum((3.0 * (1.0 - rng.random(n_people)) ** (-1.0 / 1.2)).astype(int) + 1, 2000)
    people = np.repeat(np.arange(n_people), each)
    chance = np.cumsum(np.arange(1, n_names + 1.0) ** -exponent)
    return People.of(people, np.searchsorted(chance / chance[-1], rng.random(len(people))))


def wards(n_people: int = 100_000, n_wards: int = 4000, seed: int = 2) -> People:
    """One to three wards for each person; sizes of wards are lognormal."""
    rng = np.random.default_rng(seed)
    people = np.repeat(np.arange(n_people), rng.choice([1, 2, 3], n_people, p=[0.7, 0.2, 0.1]))
    size = rng.lognormal(0.0, 1.5, n_wards)
    return People.of(people, rng.choice(n_wards, len(people), p=size / size.sum()))


def shipped(options: argparse.Namespace, progress: Progress) -> Iterator[tuple[str, People]]:
    """Tables of packages that ship data."""
    found, problem = answers(CORPORA, [], options.cache, progress.console, 300.0)
    titles = {
        "flights": "carrier and destination per plane",
        "verses": "words per verse",
        "chapters": "words per chapter",
    }
    for one in found:
        yield titles[one["table"]], People.of(np.array(one["people"]), np.array(one["names"]))
    if problem:
        progress.console.print(f"Tables of packages: {problem}", markup=False)


def adult(options: argparse.Namespace) -> People:
    """One country and occupation for each row."""
    columns = pq.read_table(options.data / "adult.parquet", columns=["native_country", "occupation"])
    texts = [f"{country} {work}" for country, work in zip(*(column.to_pylist() for column in columns), strict=True)]
    _, names = np.unique(texts, return_inverse=True)
    return People.of(np.arange(len(names)), names.astype(np.int64))


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[tuple[str, People]]:
    yield "wards", wards()
    if options.quick:
        return
    yield "zipf 1.05, geometric sets", zipf(100_000, 100_000, 1.05, "geometric")
    yield "zipf 1.3, sets of a power law", zipf(100_000, 100_000, 1.3, "power")
    yield "zipf 1.05, 10,000 people", zipf(10_000, 1_000_000, 1.05, "power")
    yield "zipf 1.6, geometric sets", zipf(200_000, 1_000_000, 1.6, "geometric")
    yield from shipped(options, progress)
    if (options.data / "adult.parquet").exists():
        yield "Adult, country and occupation", adult(options)


# -- the comparison -----------------------------------------------------------------------------------------------


def row(title: str, table: People, protects: str, n_seeds: int) -> dict[str, Cell]:
    """Mean numbers of names that the rules publish, and ours over theirs."""
    most = table.max_names()
    # Few names are counted more often, so that chance moves all ratios by less than a hundredth.
    n_seeds *= 10 if table.n_names < 1000 else 1
    mine = float(np.mean([ours(table, most, seed) for seed in range(n_seeds)]))
    made: dict[str, Cell] = {"data": title, "protects": protects, "people": int(table.people.max()) + 1}
    made |= {"names": len(np.unique(table.names)), "names per person": most, "pais": mine}
    numbers = {}
    for name, rule in OTHERS.items():
        numbers[name] = float(np.mean([rule(table, most, np.random.default_rng(seed)) for seed in range(n_seeds)]))
        made |= {name: numbers[name], f"over {name}": mine / max(numbers[name], 1.0)}
    more = mine > max(numbers["weighted Gaussian"], numbers["DP-SIPS"])
    good = more and mine >= LEAST_OF_ADAPTIVE * numbers["MaxAdaptiveDegree"]
    return made | {"result": "met" if good else "missed"}


def measure(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    found = Table(
        name="names",
        title="Names that nobody listed: how many are published at epsilon 1 and delta 1e-5",
        shown=(
            *("data", "protects", "people", "names", "names per person", "pais"),
            *(f"over {name}" for name in OTHERS),
            "result",
        ),
    )
    for title, table in progress.track(list(tables(options, progress)), description="tables"):
        several = table.people.size > np.unique(table.people).size
        if several:
            found.rows.append(row(title, table, "people", options.seeds))
        found.rows.append(row(title, table.rows if several else table, "rows", options.seeds))
    found.remarks += [
        f"Means of {options.seeds} runs, ten times as many for tables with under 1,000 names. `over` is the number of "
        "names of pais over that of another rule. Met: more than the weighted Gaussian and DP-SIPS, and at least 98 % "
        "of MaxAdaptiveDegree.",
        "Names per person is the power of two that 95 % of the people do not exceed, for all rules. If rows are "
        "protected, each pair of a person and a name is one row.",
        "With one name per row pais publishes names with counts, which have Laplace noise in whole steps. It keeps "
        "4 % of epsilon for the count of all other rows. The other rules publish names without counts.",
    ]
    yield found


# -- the price of not having a list ---------------------------------------------------------------------------------

# Groups whose true value is known to a tenth or better have at least this many rows.
_LARGE = 100

# The error of found groups may be this many times that of listed ones.
_MOST_RATIO = 1.05


def wards_of_rows(title: str, n: int = 100_000) -> pa.Table:
    """One row for each person, with a group of a heavy-tailed size and a number between 0 and 100."""
    rng = np.random.default_rng(5)
    if title == "wards":
        size = rng.lognormal(0.0, 1.5, 4000)
    elif title == "Pareto":
        size = rng.pareto(1.0, 4000)
    else:
        size = np.arange(1, 20_001.0) ** -float(title.removeprefix("zipf "))
    group = rng.choice(size.size, n, p=size / size.sum())
    value = 100.0 * rng.beta(2.0, 3.0, n) * (0.5 + 0.5 * rng.random(size.size)[group])
    return pa.table({"person": np.arange(n), "group": [f"g{number}" for number in group], "value": value})


#: Who is protected, and the facts that are stated about people. Each person has one row here.
PROTECTED: dict[str, dict[str, object]] = {
    "rows": {},
    "people, one group stated": {"unit": "person", "max_groups_per_unit": 1},
    "people": {"unit": "person"},
}


def price_of_no_list(title: str, what: str, protects: str, n_seeds: int) -> dict[str, Cell]:
    """Error of large groups that were found, over that with a list of the same groups; coverage of all groups."""
    table = wards_of_rows(title)
    frame = table.to_pandas().groupby("group")["value"].agg(count="size", mean="mean", sum="sum")
    call: Callable[..., pais.Statistic] = getattr(pais, "count_people" if what == "number of people" else what)
    own: dict[str, object] = dict(PROTECTED[protects])
    own |= {"columns": {"value": (0, 100)}} if what in ("mean", "sum") else {}
    other = {name: value for name, value in own.items() if name != "max_groups_per_unit" or what == "number of people"}
    column = what if what in ("mean", "sum") else "count"
    squares, covered, covered_rare, numbers = [], [], [], []
    for seed in range(n_seeds):
        found = call(table, by="group", epsilon=EPSILON, delta=DELTA, random_state=seed, **own)
        names = [name for name in found.value.index if name != "other"]
        listed = call(table, by={"group": names}, epsilon=EPSILON, random_state=1000 + seed, **other)
        true, large = frame.loc[names, column].to_numpy(), frame.loc[names, "count"].to_numpy() >= _LARGE
        squares.append([np.mean((_numbers(one.value, names) - true)[large] ** 2) for one in (found, listed)])
        low, high = (_numbers(end, names) for end in found.interval())
        holds = (low <= true) & (true <= high)
        covered.append(holds.mean())
        covered_rare.append(holds[~large].mean() if not large.all() else math.nan)
        numbers.append(len(names))
    ours_of, theirs_of = np.sqrt(np.mean(squares, axis=0)).tolist()
    ratio = ours_of / theirs_of
    return {
        "data": title,
        "protects": protects,
        "statistic": what,
        "groups": len(frame),
        "found": float(np.mean(numbers)),
        "error": ours_of,
        "over listed": ratio,
        "covered": float(np.mean(covered)),
        "covered, rare": float(np.nanmean(covered_rare)) if not np.isnan(covered_rare).all() else None,
        "result": "met" if ratio <= _MOST_RATIO else "missed",
    }


def _numbers(values: object, names: list[str]) -> FloatArray:
    return np.asarray(pd.DataFrame(values).loc[names].to_numpy(), dtype=np.float64).ravel()


def measure_price(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    found = Table(
        name="names-error",
        title="Groups that nobody listed: error over that with a list of the same groups, at epsilon 1",
        shown=(
            *("data", "protects", "statistic", "groups", "found", "error", "over listed"),
            *("covered", "covered, rare", "result"),
        ),
    )
    calls = [(what, "rows") for what in ("count", "mean", "sum")]
    calls += [("number of people", "people, one group stated"), ("mean", "people, one group stated")]
    calls += [(what, "people") for what in ("number of people", "count", "mean", "sum")]
    titles = ["wards"] if options.quick else ["wards", "zipf 1.05", "zipf 1.3", "Pareto"]
    cells = [(title, *call) for title in titles for call in calls]
    for title, what, protects in progress.track(cells, description="errors"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.rows.append(price_of_no_list(title, what, protects, options.seeds))
    found.remarks += [
        f"Means of {options.seeds} runs with delta 1e-5, 100,000 rows, one for each person. The list holds the groups "
        "that were found, has the same price and pure noise. The error is the root of the mean square over groups with "
        f"{_LARGE} rows or more. With one group stated, max_groups_per_unit is 1. Covered: share of 95 % intervals "
        f"that hold the true value, of all published groups and of those with fewer than {_LARGE} rows.",
        "A sum takes a fifth of epsilon to count the rows of each name. With a list it needs no count. The names of "
        "people are found with a fifth of epsilon, but for their numbers with one group stated.",
    ]
    yield found


def everything(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    for part, work in (("found", measure), ("errors", measure_price)):
        if part in options.only:
            yield from work(options, progress)


if __name__ == "__main__":
    run(parser(__doc__, seeds=10, only=("found", "errors")).parse_args(), everything)
