"""The sentences of RESULTS.md: each takes its numbers from a claim, and says so when a claim does not hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from experiments.paper.claims import (
    PAIRS,
    PUBLISHED_EPSILON,
    Approach,
    CoresetEffect,
    Flattery,
    Gain,
    Ordering,
    Overhead,
    Pace,
    Spread,
    StartEffect,
    Thousandfold,
)
from experiments.paper.grid import PAPER_NAMES, RULES, TITLES, Family, RuleName, Start
from experiments.paper.tables import in_order, markdown, number

Titles = Mapping[str, str]

_STARTS: dict[Start, str] = {"rows": "rows as start", "data-free": "data-free start", "own": "its own start"}
_NOT_MEASURED = ["Not measured in this run."]

_FAMILIES: dict[Family, str] = {
    "published": "the paper's method with the noise its code adds. Its density has a pole at the true sum, so no "
    "epsilon holds for it; it appears for comparison only.",
    "valid": "the same method with the noise its proof needs. Its start at rows of the sample is covered by no "
    "guarantee either; the data-free start beside it is.",
    "ours-pure": "this library, pure epsilon.",
    "ours": "this library, (epsilon, delta) with delta = 1e-6.",
    "not-private": "no noise at all, for reference.",
}


def listed(names: Sequence[str]) -> str:
    """Names as a person lists them."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else "nothing"


def families() -> list[str]:
    """One line of what each family is."""
    return ["\n".join(f"- **{TITLES[family]}**: {meaning}" for family, meaning in _FAMILIES.items())]


def warnings(datasets: Iterable[str]) -> list[str]:
    """What a reader must know before believing any number."""
    present = set(datasets)
    text = [
        "As in the paper, the preprocessing reads mean, radius, cut and sizes from the rows themselves. That is not "
        "private, in any family. Every run is seeded and the paper's method sums in floating point: the families stand "
        "for what could be promised, and nothing written here is a private release."
    ]
    if "song-sample" in present:
        text.append(
            "`song-sample` is a subset of the rows of Song: its numbers stand beside the paper's, not for them."
        )
    if "covertype-bundled" in present:
        text.append("`covertype-bundled` is a small subset of the rows of Covertype, for trying the commands.")
    return [" ".join(text)]


def order(valid: Sequence[Ordering], published: Sequence[Ordering], titles: Titles) -> list[str]:
    """Is uniform sampling always the worst, and the constrained rule no worse than the coreset?"""
    if not valid:
        return _NOT_MEASURED
    lines = [_order_line(pair, valid, published, titles) for pair in PAIRS]
    return ["\n".join(lines), _order_table(valid, titles)]


def _order_line(
    pair: tuple[RuleName, RuleName], valid: Sequence[Ordering], published: Sequence[Ordering], titles: Titles
) -> str:
    here = [one for one in valid if (one.lower, one.upper) == pair]
    cells, holding = sum(one.cells for one in here), sum(one.holding for one in here)
    clear = sum(len(one.clear_exceptions) for one in here)
    verdict = _verdict(cells, holding, clear)
    text = f"- {pair[0]} costs no more than {pair[1]}: **{verdict}**, in {holding} of {cells} cells"
    worst = max(((cell, one) for one in here for cell in one.exceptions), key=lambda at: at[0].percent, default=None)
    if worst is not None:
        cell, one = worst
        text += (
            f"; {clear} of the {cells - holding} exceptions have quartiles apart, and the largest is "
            f"{number(cell.percent)} % ({titles[one.dataset]}, {_STARTS[one.start]}, m = {cell.sample_size:,}, "
            f"epsilon {cell.epsilon:g})"
        )
    before = [one for one in published if (one.lower, one.upper) == pair]
    if before:
        held, tried = sum(one.holding for one in before), sum(one.cells for one in before)
        text += f". {TITLES['published'].capitalize()}: {held} of {tried}"
    return text + "."


def _verdict(cells: int, holding: int, clear: int) -> str:
    if holding == cells:
        return "holds"
    if 2 * holding <= cells:
        return "does not hold"
    return "holds in most cells, not in all" if clear else "holds up to overlapping quartiles"


def _order_table(valid: Sequence[Ordering], titles: Titles) -> str:
    lines: dict[tuple[str, Start], dict[str, str]] = {}
    for one in valid:
        line = lines.setdefault((one.dataset, one.start), {"set": titles[one.dataset], "start": _STARTS[one.start]})
        apart = len(one.clear_exceptions)
        line[f"{one.lower} ≤ {one.upper}"] = f"{one.holding} of {one.cells}" + (f" ({apart} apart)" if apart else "")
    table = pd.DataFrame(lines.values()).fillna("-")
    note = "Cells (m, epsilon) in which the order of medians holds; in brackets, exceptions with quartiles apart."
    return f"{note}\n\n" + markdown(table, {name: (name, str) for name in table.columns})


def approach(found: Sequence[Approach], titles: Titles) -> list[str]:
    """Does the cost come near that of all rows, and faster than with uniform sampling?"""
    grown = [one for one in found if one.smallest_size < one.largest_size]
    if not grown:
        return _NOT_MEASURED
    nearer = sum(one.comes_nearer for one in grown)
    verdict = "holds" if nearer == len(grown) else "does not hold everywhere"
    uniform = {(one.dataset, one.start, one.epsilon): one for one in grown if one.rule == "uniform"}
    others = [(one, uniform[key]) for one in grown if (key := (one.dataset, one.start, one.epsilon)) in uniform]
    others = [(one, base) for one, base in others if one.rule != "uniform"]
    faster = sum(_distance(one.ratio_at_largest) <= _distance(base.ratio_at_largest) for one, base in others)
    text = (
        f"The cost comes nearer that of all rows as the sample grows: **{verdict}**, in {nearer} of {len(grown)} lines "
        f"(set, start, sampler, epsilon). At the largest size, coreset and constrained sampling are at least as near "
        f"it as uniform sampling in {faster} of {len(others)}."
    )
    lines: dict[tuple[str, Start, float], dict[str, str]] = {}
    for one in grown:
        line = lines.setdefault(
            (one.dataset, one.start, one.epsilon),
            {
                "set": titles[one.dataset],
                "start": _STARTS[one.start],
                "epsilon": f"{one.epsilon:g}",
                "m": f"{one.smallest_size:,} → {one.largest_size:,}",
            },
        )
        line[PAPER_NAMES[one.rule]] = f"{number(one.ratio_at_smallest)} → {number(one.ratio_at_largest)}"
    table = pd.DataFrame(lines.values()).fillna("-")
    note = "Median cost over that of all rows with the same noise, at the smallest and the largest size."
    return [text, note, markdown(table, {name: (name, str) for name in table.columns})]


def _distance(ratio: float) -> float:
    return abs(math.log(ratio))


def pace(found: Sequence[Pace], titles: Titles) -> list[str]:
    """Is relative time about m/n?"""
    if not found:
        return _NOT_MEASURED
    lines = []
    for rule in RULES:
        here = [one for one in found if one.rule == rule]
        if here:
            low, high = (min(one.ratio.smallest for one in here), max(one.ratio.largest for one in here))
            slowest = max(here, key=lambda one: one.ratio.largest)
            lines.append(
                f"- {rule} ({PAPER_NAMES[rule]}): relative total time is {number(low)} to {number(high)} times m/n, "
                f"highest on {titles[slowest.dataset]}."
            )
    note = "Relative total time over m/n, median over the sizes and range:"
    return ["\n".join(lines), note, _by_rule({(titles[one.dataset], one.rule): one.ratio for one in found})]


def wrong_noise(found: Sequence[Flattery], starts: Sequence[StartEffect], titles: Titles) -> list[str]:
    """How much lower costs look with noise that has no valid guarantee, and what the start at rows is worth."""
    if not found:
        return _NOT_MEASURED
    worst = max(found, key=lambda one: one.ratio.largest)
    raised = sum(one.ratio.median > 1.0 for one in found)
    text = (
        f"With valid noise the cost is above that {TITLES['published']} in {raised} of {len(found)} medians (set, "
        f"sampler, epsilon); at most it is {number(worst.ratio.largest)} times as high ({titles[worst.dataset]}, "
        f"{worst.rule}, epsilon {worst.epsilon:g})."
    )
    note = f"Cost with valid noise over cost {TITLES['published']}, median over the sizes; ranges are in the CSV."
    by_epsilon: dict[tuple[str, str, float], Spread] = {
        (titles[one.dataset], one.rule, one.epsilon): one.ratio for one in found
    }
    parts = [text, note, _by_epsilon(by_epsilon, "sampler")]
    if starts:
        cells, lower = sum(one.ratio.cells for one in starts), sum(one.data_free_lower for one in starts)
        parts.append(
            f"A start that looks at no row costs less than rows as start in {lower} of {cells} cells with valid noise. "
            "Its cost over theirs, median over the cells and range:"
        )
        parts.append(_by_rule({(titles[one.dataset], one.rule): one.ratio for one in starts}))
    return parts


def gain(found: Sequence[Gain], titles: Titles) -> list[str]:
    """The paper's constrained rule with valid noise over ours, at equal size and epsilon."""
    if not found:
        return _NOT_MEASURED
    parts = []
    for family in dict.fromkeys(one.family for one in found):
        here = [one for one in found if one.family == family]
        better = sum(one.ratio.smallest > 1.0 for one in here)
        best, least = max(here, key=lambda one: one.ratio.median), min(here, key=lambda one: one.ratio.median)
        parts.append(
            f"- **{TITLES[family]}** costs less than the paper's constrained rule with valid noise at every size in "
            f"{better} of {len(here)} pairs (set, epsilon) and starts. The median ratio of the paper's cost to its own "
            f"goes from {number(least.ratio.median)} ({_place(least, titles)}) to {number(best.ratio.median)} "
            f"({_place(best, titles)})."
        )
    rows = {
        (titles[one.dataset], TITLES[one.family], one.epsilon): one.ratio for one in found if one.start == "data-free"
    }
    note = (
        "Cost of the paper's constrained rule with valid noise and a data-free start over that of pais, median over "
        "the sizes; the other start is in the CSV."
    )
    return ["\n".join(parts), note, _by_epsilon(rows, "family")]


def _place(one: Gain, titles: Titles) -> str:
    return f"{titles[one.dataset]}, epsilon {one.epsilon:g}, {_STARTS[one.start]}"


def thousandfold(found: Sequence[Thousandfold], titles: Titles) -> list[str]:
    """Ours at a small epsilon beside the published noise at 1000, set by set."""
    if not found:
        return _NOT_MEASURED
    held = sum(one.holds for one in found)
    text = (
        f"Best over the shown sizes, pais costs no more than the best sampler {TITLES['published']} at epsilon "
        f"{PUBLISHED_EPSILON:g} in {held} of {len(found)} lines:"
    )
    table = pd.DataFrame(
        {
            "data set": titles[one.dataset],
            "family": TITLES[one.family],
            "epsilon": f"{one.epsilon:g}",
            "cost over the published one": number(one.ours / one.published),
            "lower at equal size": f"{len(one.below_at_sizes)} of {len(one.sizes)}",
            "reached from epsilon": "-" if one.least_epsilon is None else f"{one.least_epsilon:g}",
        }
        for one in sorted(found, key=lambda one: in_order(titles).index(one.dataset))
    )
    return [text, markdown(table, {name: (name, str) for name in table.columns})]


def coresets(found: Sequence[CoresetEffect], center_sets: int, titles: Titles) -> list[str]:
    """How near samples come to all rows as coresets."""
    if not found:
        return _NOT_MEASURED
    lines = []
    for rule, epsilon in dict.fromkeys((one.rule, one.epsilon) for one in found):
        here = [one for one in found if (one.rule, one.epsilon) == (rule, epsilon)]
        lower, cells = sum(one.lower for one in here), sum(one.ratio.cells for one in here)
        target = f" for epsilon {epsilon:g}" if math.isfinite(epsilon) else ""
        ratios = ", ".join(f"{titles[one.dataset]} {_spread(one.ratio)}" for one in here)
        lines.append(f"- {rule}{target}: lower than uniform in {lower} of {cells} sizes; ratios to it: {ratios}.")
    note = (
        f"The coreset epsilon of a sample is the largest violation of the lightweight-coreset inequality over "
        f"{center_sets} center sets. Medians against uniform sampling of equal size:"
    )
    return [note, "\n".join(lines)]


def overhead(found: Overhead | None) -> list[str]:
    """Weights and sampling of the constrained rule, over all rows clustered."""
    if found is None:
        return ["Covertype at m = 20,000, which the paper decomposes, was not timed in this run."]
    return [
        "On Covertype at m = 20,000, weights and sampling of the constrained rule take "
        f"{100 * found.measured:.2f} % of the time of DP-Lloyd on all rows; in the paper {100 * found.in_paper:.2f} %. "
        f"That DP-Lloyd takes {number(found.all_rows_seconds)} s here and {found.all_rows_seconds_in_paper:.2f} s in "
        "the paper, so the same share is a smaller time here."
    ]


def _spread(ratio: Spread) -> str:
    if ratio.cells == 1:
        return number(ratio.median)
    return f"{number(ratio.median)} ({number(ratio.smallest)} to {number(ratio.largest)})"


def _by_rule(ratios: Mapping[tuple[str, RuleName], Spread]) -> str:
    """A table with a column for each sampler."""
    lines: dict[str, dict[str, str]] = {}
    for (dataset, rule), ratio in ratios.items():
        lines.setdefault(dataset, {"data set": dataset})[PAPER_NAMES[rule]] = _spread(ratio)
    table = pd.DataFrame(lines.values()).fillna("-")
    return markdown(table, {name: (name, str) for name in table.columns})


def _by_epsilon(ratios: Mapping[tuple[str, str, float], Spread], second: str) -> str:
    """A table with a column for each epsilon."""
    epsilons = sorted({epsilon for _, _, epsilon in ratios})
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for (dataset, other, epsilon), ratio in ratios.items():
        line = lines.setdefault((dataset, other), {"data set": dataset, second: other})
        line[f"ε = {epsilon:g}"] = number(ratio.median)
    table = pd.DataFrame(lines.values()).fillna("-")
    columns = ["data set", second, *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    return markdown(table, {name: (name, str) for name in columns})
