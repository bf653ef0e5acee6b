"""What the results say about each claim: pure functions from the tidy frame to numbers, and never a sentence.

Everything compares medians over the repetitions. A claim about cells that were not measured is absent, not false.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from experiments.paper.grid import RULES, TITLES, Family, RuleName, Start
from experiments.paper.tables import TIMES, full_epsilons, in_order, paper_times, quartiles, shown_sizes, times_table

#: Which sampling rule should cost no more than which.
PAIRS: tuple[tuple[RuleName, RuleName], ...] = (
    ("coreset", "uniform"),
    ("constrained", "uniform"),
    ("constrained", "coreset"),
)

#: At which epsilon ours is held against the published noise at `PUBLISHED_EPSILON`; 1 where nothing is said.
OWN_EPSILONS = {"ijcnn1": 10.0}
PUBLISHED_EPSILON = 1000.0

#: The cell of the paper's decomposed times.
TIMED_SET, TIMED_SIZE = "covertype", 20_000


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Median and range of the ratios of several cells."""

    cells: int
    median: float
    smallest: float
    largest: float


@dataclass(frozen=True, kw_only=True)
class Exceeding:
    """A cell where the order is the other way round, by how much, and whether the quartiles overlap."""

    sample_size: int
    epsilon: float
    percent: float
    overlapping: bool


@dataclass(frozen=True, kw_only=True)
class Ordering:
    """How often the median cost of rule `lower` is at most that of rule `upper`, at equal size and epsilon."""

    dataset: str
    family: Family
    start: Start
    lower: RuleName
    upper: RuleName
    cells: int
    holding: int
    exceptions: tuple[Exceeding, ...]

    @property
    def clear_exceptions(self) -> tuple[Exceeding, ...]:
        """Exceptions whose quartiles do not overlap."""
        return tuple(one for one in self.exceptions if not one.overlapping)


@dataclass(frozen=True, kw_only=True)
class Approach:
    """Median cost over that of all rows with the same noise law, at the smallest and at the largest size."""

    dataset: str
    start: Start
    rule: RuleName
    epsilon: float
    smallest_size: int
    largest_size: int
    ratio_at_smallest: float
    ratio_at_largest: float

    @property
    def comes_nearer(self) -> bool:
        return abs(math.log(self.ratio_at_largest)) <= abs(math.log(self.ratio_at_smallest))


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Relative total time over m/n; 1 is time in proportion to size."""

    dataset: str
    rule: RuleName
    ratio: Spread


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Cost of the paper's constrained rule with valid noise over ours, at equal epsilon and size."""

    dataset: str
    epsilon: float
    family: Family
    start: Start
    ratio: Spread


@dataclass(frozen=True, kw_only=True)
class Thousandfold:
    """Ours at a small epsilon beside the published noise at epsilon 1000; medians of cost.

    Attributes
    ----------
    ours, published : float
        Best over the shown sizes, and for the published noise over the rules too.
    below_at_sizes : tuple of int
        Shown sizes at which ours is at most the best published rule of that size.
    sizes : tuple of int
        Shown sizes at which both were measured.
    least_epsilon : float, optional
        Smallest measured epsilon at which ours, best over the shown sizes, is at most `published`.
    """

    dataset: str
    family: Family
    epsilon: float
    ours: float
    published: float
    below_at_sizes: tuple[int, ...]
    sizes: tuple[int, ...]
    least_epsilon: float | None

    @property
    def holds(self) -> bool:
        return self.ours <= self.published


@dataclass(frozen=True, kw_only=True)
class Flattery:
    """Cost with valid noise over cost as published, same start, at equal size and epsilon."""

    dataset: str
    rule: RuleName
    epsilon: float
    ratio: Spread


@dataclass(frozen=True, kw_only=True)
class StartEffect:
    """Cost with a data-free start over cost with rows as start, valid noise; and where the data-free one is lower."""

    dataset: str
    rule: RuleName
    ratio: Spread
    data_free_lower: int


@dataclass(frozen=True, kw_only=True)
class CoresetEffect:
    """Coreset epsilon of a rule over that of uniform sampling of equal size; and where it is lower.

    `epsilon` is the privacy target that the constrained rule looks at, infinite for a rule that looks at none.
    """

    dataset: str
    rule: RuleName
    epsilon: float
    ratio: Spread
    lower: int


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """Weights and sampling of the constrained rule on Covertype, over the Lloyd rounds on all rows."""

    measured: float
    in_paper: float
    all_rows_seconds: float
    all_rows_seconds_in_paper: float


def orderings(frame: pd.DataFrame, family: Family = "valid") -> list[Ordering]:
    """Claim: coreset and constrained sampling never cost more than uniform sampling."""
    summary = _sampled(_costs(frame), family)
    claims = []
    for dataset, part in _by_set(summary):
        for start in _starts(part):
            for lower, upper in PAIRS:
                here = part[part["start"] == start]
                pairs = _paired(_only(here, rule=lower), _only(here, rule=upper), ["sample_size", "epsilon"])
                if len(pairs):
                    claims.append(_ordering(pairs, dataset, family, start, lower, upper))
    return claims


def approaches(frame: pd.DataFrame) -> list[Approach]:
    """Claim: as the size grows, the cost comes near that of all rows."""
    summary = _only(_costs(frame), family="valid")
    claims = []
    for dataset, part in _by_set(summary):
        for start in _starts(part):
            for epsilon in full_epsilons(part):
                here = _only(part, start=start, epsilon=epsilon)
                full = here.loc[here["rule"] == "all rows", "median"]
                for rule in RULES:
                    line = _only(here, rule=rule).sort_values("sample_size")
                    if len(full) and len(line):
                        claims.append(_approach(line, float(full.iloc[0]), dataset, start, rule, epsilon))
    return claims


def paces(frame: pd.DataFrame, n_rows: Mapping[str, int]) -> list[Pace]:
    """Claim: relative time is about m/n."""
    table = times_table(frame, n_rows)
    table = table[table["relative_percent"].notna() & (table["rule"] != "all rows")]
    table = table.assign(ratio=table["relative_percent"] / table["size_percent"])
    return [
        Pace(dataset=dataset, rule=rule, ratio=_spread(part.loc[part["rule"] == rule, "ratio"]))
        for dataset, part in _by_set(table)
        for rule in RULES
        if (part["rule"] == rule).any()
    ]


def gains(frame: pd.DataFrame, family: Family = "ours", start: Start = "rows") -> list[Gain]:
    """How many times the cost of ours the paper's constrained rule with valid noise has."""
    summary = _costs(frame)
    theirs = _only(summary, family="valid", start=start, rule="constrained")
    pairs = _paired(theirs, _only(summary, family=family), ["dataset", "sample_size", "epsilon"])
    return [
        Gain(dataset=dataset, epsilon=float(epsilon), family=family, start=start, ratio=_spread(cells["ratio"]))
        for dataset, part in _by_set(pairs)
        for epsilon, cells in part.groupby("epsilon")
    ]


def thousandfold(frame: pd.DataFrame, family: Family = "ours") -> list[Thousandfold]:
    """Claim: ours at epsilon 1 costs no more than the published noise at epsilon 1000."""
    summary = _costs(frame)
    claims = []
    for dataset, part in _by_set(summary):
        sizes = shown_sizes(part, dataset)
        shown = part[part["sample_size"].isin(sizes)]
        published = _only(shown, family="published", epsilon=PUBLISHED_EPSILON).groupby("sample_size")["median"].min()
        all_ours = _only(shown, family=family)
        epsilon = OWN_EPSILONS.get(dataset, 1.0)
        ours = _only(all_ours, epsilon=epsilon).groupby("sample_size")["median"].min()
        both = sorted(set(ours.index) & set(published.index))
        if not both:
            continue
        best = all_ours.groupby("epsilon")["median"].min()
        enough = [float(at) for at, cost in best.items() if cost <= published.min()]
        claims.append(
            Thousandfold(
                dataset=dataset,
                family=family,
                epsilon=epsilon,
                ours=float(ours.min()),
                published=float(published.min()),
                below_at_sizes=tuple(int(size) for size in both if ours[size] <= published[size]),
                sizes=tuple(int(size) for size in both),
                least_epsilon=min(enough, default=None),
            )
        )
    return claims


def flatteries(frame: pd.DataFrame) -> list[Flattery]:
    """How many times the published cost a run has once its noise is valid."""
    summary = _only(_costs(frame), start="rows")
    on = ["dataset", "rule", "sample_size", "epsilon"]
    pairs = _paired(_sampled(summary, "valid"), _sampled(summary, "published"), on)
    return [
        Flattery(dataset=dataset, rule=rule, epsilon=float(epsilon), ratio=_spread(cells["ratio"]))
        for dataset, part in _by_set(pairs)
        for rule in RULES
        for epsilon, cells in part[part["rule"] == rule].groupby("epsilon")
    ]


def start_effects(frame: pd.DataFrame) -> list[StartEffect]:
    """What it costs to start without looking at rows."""
    summary = _sampled(_costs(frame), "valid")
    on = ["dataset", "rule", "sample_size", "epsilon"]
    pairs = _paired(_only(summary, start="data-free"), _only(summary, start="rows"), on)
    return [
        StartEffect(
            dataset=dataset, rule=rule, ratio=_spread(cells["ratio"]), data_free_lower=int((cells["ratio"] < 1.0).sum())
        )
        for dataset, part in _by_set(pairs)
        for rule in RULES
        if len(cells := part[part["rule"] == rule])
    ]


def coreset_effects(frame: pd.DataFrame) -> list[CoresetEffect]:
    """How much nearer than uniform samples the others come to all rows, as coresets."""
    summary = quartiles(frame, "coreset", "violation")
    others = summary[summary["rule"] != "uniform"]
    pairs = _paired(others, _only(summary, rule="uniform"), ["dataset", "sample_size"])
    return [
        CoresetEffect(
            dataset=dataset,
            rule=rule,
            epsilon=float(epsilon),
            ratio=_spread(cells["ratio"]),
            lower=int((cells["ratio"] < 1.0).sum()),
        )
        for dataset, part in _by_set(pairs)
        for rule in RULES
        for epsilon, cells in part[part["rule"] == rule].groupby("epsilon")
    ]


def overhead(frame: pd.DataFrame) -> Overhead | None:
    """Claim: finding weights and sampling is nothing beside clustering all rows. None where it was not timed."""
    here = frame[(frame["kind"] == "time") & (frame["dataset"] == TIMED_SET)]
    times = here.assign(sample_size=here["sample_size"].astype("float64"))
    times = times.groupby(["rule", "sample_size", "measure"], dropna=False)["value"].median().reset_index()
    measured, all_rows = _overhead(times), _all_rows_seconds(times)
    in_paper, all_rows_in_paper = _overhead(_paper_timed()), _all_rows_seconds(_paper_timed())
    if measured is None or in_paper is None or all_rows is None or all_rows_in_paper is None:
        return None
    return Overhead(
        measured=measured,
        in_paper=in_paper,
        all_rows_seconds=all_rows,
        all_rows_seconds_in_paper=all_rows_in_paper,
    )


def _all_rows_seconds(times: pd.DataFrame) -> float | None:
    seconds = times[(times["rule"] == "all rows") & (times["measure"] == "t_lloyd")]["value"]
    return float(seconds.iloc[0]) if len(seconds) else None


def as_table(claims: Sequence[Any]) -> pd.DataFrame:
    """Claims as lines, their spreads as columns; exceptions are counted here and listed by `exceptions_table`."""
    lines = []
    for claim in claims:
        line = asdict(claim)
        line |= line.pop("ratio", {})
        line |= {name: len(value) for name, value in line.items() if isinstance(value, tuple)}
        lines.append(line)
    return _labelled(pd.DataFrame(lines)).rename(columns={"published": "published, no valid guarantee"})


def exceptions_table(found: Sequence[Ordering]) -> pd.DataFrame:
    """Every exception to the order, one per line."""
    names = ["dataset", "family", "start", "lower", "upper"]
    lines = [{name: getattr(one, name) for name in names} | asdict(cell) for one in found for cell in one.exceptions]
    return _labelled(pd.DataFrame(lines, columns=[*names, "sample_size", "epsilon", "percent", "overlapping"]))


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """No line of the published noise without what it is worth, even in a file for programs."""
    return table.assign(meaning=table["family"].map(TITLES)) if "family" in table else table


def _costs(frame: pd.DataFrame) -> pd.DataFrame:
    return quartiles(frame, "cost", "cost")


def _only(table: pd.DataFrame, **values: object) -> pd.DataFrame:
    for name, value in values.items():
        table = table[table[name] == value]
    return table


def _sampled(summary: pd.DataFrame, family: Family) -> pd.DataFrame:
    return summary[(summary["family"] == family) & (summary["rule"] != "all rows")]


def _by_set(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for dataset in in_order(table["dataset"]):
        yield dataset, table[table["dataset"] == dataset]


def _starts(table: pd.DataFrame) -> list[Start]:
    known: tuple[Start, ...] = ("rows", "data-free", "own")
    return [start for start in known if (table["start"] == start).any()]


def _paired(left: pd.DataFrame, right: pd.DataFrame, on: list[str]) -> pd.DataFrame:
    """Cells that both have, of a known size, and the ratio of their medians."""
    pairs = left.merge(right, on=on, suffixes=("", "_right"))
    pairs = pairs[pairs["sample_size"].notna()]
    return pairs.assign(ratio=pairs["median"] / pairs["median_right"])


def _spread(ratios: pd.Series) -> Spread:
    return Spread(
        cells=len(ratios),
        median=float(ratios.median()),
        smallest=float(ratios.min()),
        largest=float(ratios.max()),
    )


def _ordering(
    pairs: pd.DataFrame, dataset: str, family: Family, start: Start, lower: RuleName, upper: RuleName
) -> Ordering:
    wrong = pairs[pairs["median"] > pairs["median_right"]].sort_values(["sample_size", "epsilon"])
    exceptions = tuple(
        Exceeding(
            sample_size=int(cell.sample_size),
            epsilon=float(cell.epsilon),
            percent=100.0 * (float(cell.ratio) - 1.0),
            overlapping=bool(cell.low <= cell.high_right),
        )
        for cell in wrong.itertuples()
    )
    return Ordering(
        dataset=dataset,
        family=family,
        start=start,
        lower=lower,
        upper=upper,
        cells=len(pairs),
        holding=len(pairs) - len(exceptions),
        exceptions=exceptions,
    )


def _approach(line: pd.DataFrame, full: float, dataset: str, start: Start, rule: RuleName, epsilon: float) -> Approach:
    first, last = line.iloc[0], line.iloc[-1]
    return Approach(
        dataset=dataset,
        start=start,
        rule=rule,
        epsilon=epsilon,
        smallest_size=int(first["sample_size"]),
        largest_size=int(last["sample_size"]),
        ratio_at_smallest=float(first["median"]) / full,
        ratio_at_largest=float(last["median"]) / full,
    )


def _paper_timed() -> pd.DataFrame:
    here = _only(paper_times(), dataset=TIMED_SET).rename(columns={"m": "sample_size"})
    return here.melt(id_vars=["rule", "sample_size"], value_vars=TIMES, var_name="measure").dropna(subset="value")


def _overhead(times: pd.DataFrame) -> float | None:
    before = _only(times, rule="constrained", sample_size=float(TIMED_SIZE))
    before = before[before["measure"].isin(["t_weights", "t_sampling"])]
    full = _only(times, rule="all rows", measure="t_lloyd")
    if len(before) != 2 or len(full) != 1:
        return None
    return float(before["value"].sum() / full["value"].iloc[0])
