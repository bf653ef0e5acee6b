"""Sentences of the page of benchmarks that have numbers in them, each made from the tables that it is about."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable

from benchmarks.data import FLOOR_RUNS, N_CLUSTERS
from benchmarks.published import AbsentError, Published, Rows, span

WIDTH = 120
# Brackets would end the words of a link.
_ROUND = str.maketrans("[]", "()")


def linked(name: str, words: str) -> str:
    return f"[{words.translate(_ROUND)}](../benchmarks/results/{name}.md)"


def listed(lines: Iterable[str]) -> str:
    return "".join(wrapped(f"- {line}", "  ") for line in lines)


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) + "\n"


def measured(published: Published, *makers: Callable[[Published], str]) -> list[str]:
    """The sentences whose tables have been measured."""
    made = []
    for maker in makers:
        try:
            made.append(maker(published))
        except AbsentError:
            continue
    return made


def close(published: Published) -> str:
    rows = published.rows("kmeans-public", epsilon="1")
    return (
        f"**Close to non-private.** At epsilon 1 the sum of squared distances is {span(rows, 'median')} times that of "
        f"the best of {FLOOR_RUNS} scikit-learn runs, on {len(rows)} data sets with k = {N_CLUSTERS} and samples of "
        f"{span(rows, 'share of rows', 0)} % of the rows."
    )


def survey(published: Published) -> str:
    ratios = span(published.rows("kmeans-survey", epsilon="1"), "ratio", 3)
    return (
        f"**The private survey costs little.** If nothing is stated about the rows, the cost is {ratios} times that "
        "with public facts, at the same total epsilon."
    )


def free(published: Published) -> str:
    rows = published.rows("kmeans-free", epsilon="1")
    return (
        f"**Sampling for free.** At epsilon 1, {span(rows, 'share of rows', 0)} % of the rows give "
        f"{span(rows, 'ratio', 3)} times the cost of all rows, with the same noise."
    )


def fast(published: Published) -> str:
    rows = published.rows("speed", **{"job": "default fit, nothing stated", "compared with": "scikit-learn KMeans"})
    parts = [f"{float(row['ratio']):.3f} times as long on {row['data']}" for row in rows]
    return f"**Fast.** A default fit takes, compared with scikit-learn's k-means, {'; '.join(parts)}."


def memory(published: Published) -> str:
    rows = [row for row in published.rows("speed") if row["compared with"] == "bytes of the data"]
    if not rows:
        raise AbsentError("speed")
    return f"**Memory.** A default fit needs {span(rows, 'ratio', 0, 100.0)} % of the size of the data beside the data."


def packages(published: Published) -> str:
    rows = published.rows("peers", guarantee="epsilon 1")
    ours, theirs = (
        [row for row in rows if row["package"].startswith(name) and row["median"]]
        for name in ("pais, laplace", "diffprivlib")
    )
    if not (ours and theirs):
        raise AbsentError("peers")
    return (
        f"**Other private packages.** At pure epsilon 1 the cost is {span(ours, 'median')} times the non-private one "
        f"with Laplace noise, and {span(theirs, 'median')} times with diffprivlib."
    )


def files(published: Published) -> str:
    times, memory = published.rows("stream-time"), published.rows("stream-memory")
    smallest, largest = (int(times[place]["rows"]) / 1e6 for place in (0, -1))
    return (
        f"**Files.** One pass over Parquet files reads {span(times, 'M rows/s of a pass', 0)} million rows per second. "
        f"The peak memory is {span(memory, 'peak MB', 0)} MB from {smallest:g} to {largest:g} million rows."
    )


def audits(published: Published) -> str:
    every = replays(published)
    return (
        f"**Audits** replay {int(every['cases']):,} random calls with a record and without it: {every['failures']} of "
        "them show more of the record than was paid for."
    )


def replays(published: Published) -> dict[str, str]:
    """The last line of the replay table, which is about all mechanisms."""
    return published.rows("audit", mechanism="all")[0]


def ordering(published: Published) -> str:
    rows = published.rows("kmeans-ordering")
    largest = sum(float(row["uniform"]) >= max(float(row["constrained"]), float(row["coreset"])) for row in rows)
    above = [float(row["constrained"]) / float(row["coreset"]) - 1.0 for row in rows]
    above = [excess for excess in above if excess > 0.0]
    most = f", by at most {100.0 * max(above):.1f} %" if above else ""
    return (
        f"Among the rules, uniform sampling has the largest cost in {largest} of {len(rows)} cells. Constrained "
        f"sampling is above coreset sampling in {len(above)} of {len(rows)}{most}."
    )


def predictions(published: Published) -> str:
    rows = published.rows("prediction")
    close = sum(row["within a factor of 2"] == "yes" for row in rows)
    return (
        "The excess cost that the plan predicts for 5,000 rows is within a factor of 2 of the measured one in "
        f"{close} of {len(rows)} cells."
    )


def statistics(published: Published) -> str:
    by_name: dict[str, Rows] = {}
    for row in published.rows("peers-statistics"):
        by_name.setdefault(row["statistic"], []).append(row)
    parts = [f"{name}: {span(rows, 'over the best')}" for name, rows in by_name.items()]
    return (
        "Root mean square error of one-line statistics over that of the better of diffprivlib and OpenDP, at pure "
        f"epsilon with the same public bounds: {'; '.join(parts)}."
    )


def code(published: Published) -> str:
    parts = [f"{row['lines']} with {row['package']}" for row in published.rows("peers-statistics-code")]
    return f"Lines of code for a mean of three columns: {', '.join(parts)}."


def threads(published: Published) -> str:
    return f"Two cores are {span(published.rows('stream-threads'), 'one / two', 1)} times as fast as one."


def spark(published: Published) -> str:
    parts = [
        f"{float(row['pais / MLlib']):.2f} ({row['frame']}, {row['rows kept']})"
        for row in published.rows("stream-spark")
    ]
    return f"On Spark, the time of a fit over that of MLlib's non-private k-means is {', '.join(parts)}."


def audit(published: Published) -> str:
    every = replays(published)
    return (
        f"An {linked('audit', 'audit')} replays {int(every['cases']):,} random calls on a table with a record and on "
        f"the same table without it. In {every['failures']} of them, the record moves a total by more than was paid "
        f"for, or something else depends on it. The largest move is {float(every['all rows']):.4f} of the price."
    )


def fuzz(published: Published) -> str:
    cases = sum(int(row["cases"]) for row in published.rows("fuzz"))
    return (
        f"{linked('fuzz', 'Fuzzing')} of files and arguments: {cases:,} cases, "
        f"{_number(published, 'fuzz', r'Crashes: ([0-9,]+)')} crashes."
    )


def sweep(published: Published) -> str:
    seeds, checks, failures = (
        _number(published, "sweep", rf"([0-9,]+) {word}") for word in ("seeds", "checks", "failures")
    )
    return (
        f"A {linked('sweep', 'sweep')} over random configurations: {seeds} configurations, {checks} checks, {failures} "
        "failures."
    )


def kills(published: Published) -> str:
    path = published.directory / "kill-ledger.json"
    if not path.exists():
        raise AbsentError("kill-ledger")
    kills = json.loads(path.read_text(encoding="utf-8"))
    killed, unpaid = kills["killed_while_running"], kills["releases_without_a_spend"]
    return (
        f"{linked('kill-ledger', 'Processes killed')} while they charge a ledger: {killed:,} kills, {unpaid} releases "
        "without a charge."
    )


def _number(published: Published, name: str, pattern: str) -> str:
    match = re.search(pattern, published.text(name))
    assert match is not None
    return match[1]
