"""The parts of the page of benchmarks that are made from results: tables, and sentences with numbers in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchmarks import sentences as say
from benchmarks.data import DELTA, FLOOR_RUNS, N_CLUSTERS
from benchmarks.published import LONG_TABLES, AbsentError, Published, Rows, span
from benchmarks.sentences import linked, listed, measured, wrapped
from benchmarks.targets import Target, targets
from experiments.paper.datasets import QUANTILE

TARGETS = "targets"

#: Tables on the page or linked from it, by section; tables in none of them come with k-means.
SECTIONS = {
    "speed": ("speed", "pca-speed", "regression-time", "people-scale"),
    "regimes": ("regimes", "regimes-areas", "regimes-peers"),
    "models": (
        *("regression-small", "regression-large", "coverage-models"),
        *("pca-captured", "pca-explained", "pca-intervals", "logistic-loss"),
    ),
    "statistics": ("coverage-statistics",),
    "peers": ("peers", "peers-models", "peers-statistics", "peers-statistics-code"),
    "correctness": ("audit", "fuzz", "sweep", "kill-ledger", TARGETS),
}


def machine(published: Published) -> str:
    """The commit and the machine if all tables but the long ones have the same; how many commits there are if not."""
    names = tables_of(published)
    long = [name for name in names if name in LONG_TABLES]
    states = [published.state(name) for name in names if name not in long]
    commits = sorted({state.commit for state in states})
    days = sorted({state.day for state in states if state.day})
    machines = sorted({state.machine for state in states if state.machine})
    when = f" on {days[0]}" if len(days) == 1 else f" from {days[0]} to {days[-1]}" if days else ""
    if len(commits) == 1:
        text = f"All {len(states)} tables were measured at commit `{commits[0]}`{when}."
    else:
        text = (
            f"The {len(states)} tables were measured at {len(commits)} commits: `make bench-all` measures them at one. "
            "[State of every table](#state-of-every-table) has the commit of each."
        )
    for name in long:
        text += (
            f" {linked(name, published.title(name))} takes as long as all others together: it was measured apart, at "
            f"commit `{published.state(name).commit}`."
        )
    named = " ".join(f"Machine: {words}." for words in machines)
    return wrapped(f"{text} {named}".strip())


def tables_of(published: Published) -> list[str]:
    return [name for name in published.names() if name != TARGETS]


def target_block(published: Published) -> str:
    """Counts by table, then the missed targets and by how much; groups of regimes have a line each."""
    found = targets(published)
    missed = [target for target in found if not target.met]
    text = wrapped(
        f"{len(found) - len(missed)} of {len(found)} targets are met and {len(missed)} are missed. "
        f"{linked(TARGETS, 'All targets')} has every value; a miss is the distance from the target, in percent of it."
    )
    text += "\n| table | targets | met |\n|---|---|---|\n"
    for name in tables_of(published):
        members = [target for target in found if target.table == name]
        if members:
            met = "all" if all(target.met for target in members) else sum(target.met for target in members)
            text += f"| {linked(name, published.title(name))} | {len(members)} | {met} |\n"
    single = [target for target in missed if target.table != "regimes"]
    text += "\n| missed target | measured | target | missed by |\n|---|---|---|---|\n"
    text += "".join(_target_line(target) for target in single)
    groups: dict[str, list[Target]] = {}
    for target in found:
        groups.setdefault(target.group if target.table == "regimes" else "", []).append(target)
    for group, members in groups.items():
        worst = [target for target in members if not target.met]
        if group and worst:
            words = f"{linked('regimes', 'regimes')}: {len(worst)} of {len(members)} in group {group}"
            text += f"| {words}; the largest: {worst[0].what} | {_values(worst[0])} |\n"
    return text


def _target_line(target: Target) -> str:
    return f"| {linked(target.table, target.table)}: {target.what} | {_values(target)} |\n"


def _values(target: Target) -> str:
    return f"{target.value:.4g} | {target.target:.4g} | {'' if target.met else _distance(target.miss)}"


def _distance(miss: float) -> str:
    if miss >= 10.0:
        return f"{1.0 + miss:,.0f} times the target"
    return f"{100.0 * miss:.1f} %" if miss >= 0.0005 else "less than 0.1 %"


def all_targets(published: Published) -> str:
    """Every target in a line, missed ones first."""
    lines = ["# All targets", "", "| table | target of | measured | target | missed by |", "|---|---|---|---|---|"]
    for target in targets(published):
        title = f"[{target.table}]({target.table}.md)"
        lines.append(f"| {title} | {' '.join(filter(None, (target.group, target.what)))} | {_values(target)} |")
    return "\n".join(lines) + "\n"


def accuracy(published: Published) -> str:
    ours = (say.close, say.survey, say.free, say.packages, say.papers)
    return listed(measured(published, *ours, say.linear, say.logistic, say.components, say.statistics))


def intervals(published: Published) -> str:
    makers = (say.intervals_of_statistics, say.intervals_of_models, say.intervals_of_components)
    return listed(measured(published, *makers))


def times(published: Published) -> str:
    makers = (say.fast, say.other_models, say.spark, say.files, say.memory, say.people)
    return listed(measured(published, *makers))


def compared(published: Published) -> str:
    return wrapped(" ".join(measured(published, say.compared)) or "Not measured yet.")


def protocol(published: Published) -> str:
    return wrapped(
        "Rows are preprocessed as in the paper: center them, drop those whose norm is at or above the "
        f"{100.0 * QUANTILE:g} % quantile, and center again. The radius is the largest remaining norm. k is "
        f"{N_CLUSTERS}, and delta is {DELTA:g} unless the guarantee is pure. The *cost* is the sum of squared "
        "distances of all rows to their nearest centers, divided by the *floor*. The floor is the cost of the best of "
        f'{FLOOR_RUNS} non-private scikit-learn k-means++ runs on all rows. "Song sample" is a uniform sample of a '
        "quarter of the Song data, not the paper's data set. Seeded runs are not private; they are used here so that "
        "costs can be reproduced."
    )


def public(published: Published) -> str:
    """The table, and where its upper quartile is above the target."""
    try:
        rows, body = published.rows("kmeans-public"), published.body("kmeans-public")
    except AbsentError:
        return "Not measured yet.\n"
    above = [
        f"{row['data']} at epsilon {row['epsilon']}"
        for row in rows
        if row["target"] and float(row["upper quartile"]) > float(row["target"])
    ]
    return f"{body}\n" + wrapped(f"The upper quartile is above the target for: {', '.join(above) or 'no set'}.")


def quality_tables(published: Published) -> str:
    """All tables that no other section has."""
    placed = {"kmeans-public", *(name for names in SECTIONS.values() for name in names)}
    names = [name for name in published.names() if name not in placed and not name.startswith("stream-")]
    return table_list(published, names) + "\n" + listed(measured(published, say.ordering, say.predictions))


def table_list(published: Published, names: Iterable[str]) -> str:
    """Links to tables, with the number of targets that each meets."""
    found = targets(published)
    lines = []
    for name in names:
        if name in published.names():
            members = [target.met for target in found if target.table == name]
            count = f": {sum(members)} of {len(members)} targets met" if members else ""
            lines.append(f"{linked(name, published.title(name))}{count}.")
    return listed(lines) if lines else "Not measured yet.\n"


def regimes(published: Published) -> str:
    """How many goals are met in each group, and the costs over the floor in it."""
    try:
        rows = published.rows("regimes")
    except AbsentError:
        return "Not measured yet: run `make bench-quality`.\n"
    groups: dict[str, Rows] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    found = targets(published)
    text = (
        "| group | sets | median cost over the floor | worst run over one center | goals met |\n|---|---|---|---|---|\n"
    )
    for group, members in groups.items():
        judged = [
            target
            for target in found
            if (
                target.table == "regimes-areas"
                if group == "pe"
                else target.table == "regimes" and target.group == group
            )
        ]
        met = f"{sum(target.met for target in judged)} of {len(judged)}" if judged else "reported"
        worst = max(float(row["worst / one center"]) for row in members)
        sets = len({row["data"] for row in members})
        text += f"| {group} | {sets} | {span(members, 'median', 3)} | {worst:.3f} | {met} |\n"
    return text


def statistics(published: Published) -> str:
    """For each statistic and kind of bounds, how many cells are met and how often their intervals hold the answer."""
    try:
        rows = published.rows("coverage-statistics")
    except AbsentError:
        return "Not measured yet.\n"
    groups: dict[tuple[str, str], Rows] = {}
    for row in rows:
        groups.setdefault((row["statistic"], row["bounds"]), []).append(row)
    names = ("statistic", "bounds", "cells", "met", "met by a warning", "missed", "covered, if met")
    text = f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n"
    for (statistic, bounds), members in groups.items():
        results = [row["result"] for row in members]
        counts = " | ".join(str(results.count(result)) for result in ("met", "met, warned", "missed"))
        met = [row for row in members if row["result"] == "met"]
        named = "" if statistic in ("count", "people") else bounds
        covered = span(met, "covered", 3) if met else ""
        text += f"| {statistic} | {named} | {len(members)} | {counts} | {covered} |\n"
    return text


def peers(published: Published) -> str:
    return listed(measured(published, say.code))


def streaming(published: Published) -> str:
    return listed(measured(published, say.threads))


def correctness(published: Published) -> str:
    return listed(measured(published, say.audit, say.fuzz, say.sweep, say.kills))


def states(published: Published) -> str:
    """Commit and day of every table."""
    text = "| table | commit | sources | day |\n|---|---|---|---|\n"
    for name in tables_of(published):
        state = published.state(name)
        text += f"| {linked(name, name)} | {state.commit} | {state.sources} | {state.day or 'not named'} |\n"
    return text


BLOCKS: dict[str, Callable[[Published], str]] = {
    "machine": machine,
    "targets": target_block,
    "accuracy": accuracy,
    "intervals": intervals,
    "times": times,
    "compared": compared,
    "protocol": protocol,
    "speed": lambda published: published.body("speed") if "speed" in published.names() else "Not measured yet.\n",
    "speed-tables": lambda published: table_list(published, SECTIONS["speed"][1:]),
    "public": public,
    "quality-tables": quality_tables,
    "regimes": regimes,
    "regime-tables": lambda published: table_list(published, SECTIONS["regimes"]),
    "model-tables": lambda published: table_list(published, SECTIONS["models"]),
    "statistics": statistics,
    "statistics-tables": lambda published: table_list(published, SECTIONS["statistics"]),
    "peers": peers,
    "peer-tables": lambda published: table_list(published, SECTIONS["peers"]),
    "streaming": streaming,
    "stream-tables": lambda published: table_list(
        published, [name for name in published.names() if name.startswith("stream-")]
    ),
    "correctness": correctness,
    "states": states,
}
