"""Sentences of the page of benchmarks that have numbers in them, each made from the tables that it is about.

A number in a sentence is read from a table, or is a constant of the module that measured it.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable

from benchmarks.coverage import CONFIDENCE, LEAST_WARNED
from benchmarks.coverage_models import LEAST
from benchmarks.data import FLOOR_RUNS, N_CLUSTERS
from benchmarks.pca import NUMBERS
from benchmarks.prediction import MOST_FACTOR
from benchmarks.published import AbsentError, Published, Rows, span

WIDTH = 120
#: The epsilon of the sentences, as the tables spell it.
EPSILON = "1"
#: Columns of the table of explained variances.
COVERED = ("least coverage", "least coverage, along")
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
    rows = published.rows("kmeans-public", epsilon=EPSILON)
    return (
        f"**k-means, close to non-private.** At epsilon {EPSILON} the sum of squared distances is "
        f"{span(rows, 'median')} times that of the best of {FLOOR_RUNS} scikit-learn runs, on {len(rows)} data sets "
        f"with k = {N_CLUSTERS}, public radius, center and norms, and samples of {span(rows, 'share of rows', 0)} % of "
        "the rows."
    )


def survey(published: Published) -> str:
    ratios = span(published.rows("kmeans-survey", epsilon=EPSILON), "ratio", 3)
    return (
        f"**k-means without stating facts.** If nothing is stated about the rows, the cost is {ratios} times that "
        "with public facts, at the same total epsilon."
    )


def free(published: Published) -> str:
    rows = published.rows("kmeans-free", epsilon=EPSILON)
    return (
        f"**Sampling for free.** At epsilon {EPSILON}, {span(rows, 'share of rows', 0)} % of the rows give "
        f"{span(rows, 'ratio', 3)} times the cost of all rows, with the same noise."
    )


def packages(published: Published) -> str:
    rows = published.rows("peers", guarantee=f"epsilon {EPSILON}")
    ours, theirs = (
        [row for row in rows if row["package"].startswith(name) and row["median"]]
        for name in ("pais, laplace", "diffprivlib")
    )
    if not (ours and theirs):
        raise AbsentError("peers")
    return (
        f"**k-means, other private packages.** At pure epsilon {EPSILON} the cost is {span(ours, 'median')} times the "
        f"non-private one with Laplace noise ({ours[0]['taken as public']} public), and {span(theirs, 'median')} times "
        f"with diffprivlib ({theirs[0]['taken as public']} public)."
    )


def papers(published: Published) -> str:
    """The sets on which a published method is better are named."""
    rows = published.rows("regimes-areas")
    for row in rows:
        row["over published"] = str(float(row["area"]) / float(row["published"]))
    better = [row for row in rows if float(row["over published"]) <= 1.0]
    others = [f"{float(row['over published']):.2f} times on {row['data']}" for row in rows if row not in better]
    if not better:
        raise AbsentError("regimes-areas")
    more = f", and {' and '.join(others)}" if others else ""
    return (
        f"**k-means, published results.** On {len(better)} of {len(rows)} sets of the PE-means protocol the loss, as "
        f"an area over epsilon, is {span(better, 'over published')} times the published one{more}."
    )


def linear(published: Published) -> str:
    rows, large = published.rows("regression-small"), published.rows("regression-large", epsilon=EPSILON)
    for row in rows:
        row["over AdaSSP"] = str(float(row["pais"]) / float(row["AdaSSP, published"]))
    for row in large:
        row["share"] = str(float(row["all rows"]) / float(row["not private"]))
    return (
        f"**Linear regression.** On {len({row['data'] for row in rows})} sets of the AdaSSP paper the test error "
        f"with stated bounds is {span(rows, 'over AdaSSP')} times the published one, at epsilon "
        f"{' and '.join(sorted({row['epsilon'] for row in rows}, key=float))}. On "
        f"{len({row['data'] for row in large})} large tables at epsilon {EPSILON}, with nothing stated, a fit explains "
        f"{span(large, 'share', 1, 100.0)} % of the variance that a fit without privacy explains."
    )


def logistic(published: Published) -> str:
    rows = published.rows("logistic-loss")
    return (
        "**Logistic regression.** The log-loss on rows held out exceeds that of the model without privacy by "
        f"{span(rows, 'gap', 3)}, at epsilon {' and '.join(sorted({row['epsilon'] for row in rows}, key=float))}. This "
        f"is {span(rows, 'ratio of gaps')} times the excess of plain noisy gradient descent that is tuned on the test "
        "rows themselves."
    )


def components(published: Published) -> str:
    rows = published.rows("pca-captured", epsilon=EPSILON, sampling="constrained", size="free")
    return (
        f"**Principal components.** At epsilon {EPSILON}, {max(NUMBERS)} components capture "
        f"{span(rows, f'k = {max(NUMBERS)}', 1, 100.0)} % of the variance that the best ones capture, with nothing "
        f"stated and from {span(rows, 'share of rows', 0)} % of the rows."
    )


def statistics(published: Published) -> str:
    by_name: dict[str, Rows] = {}
    for row in published.rows("peers-statistics"):
        by_name.setdefault(row["statistic"], []).append(row)
    parts = [f"{name}: {span(rows, 'over the best')}" for name, rows in by_name.items()]
    return (
        "**One-line statistics.** Root mean square error over that of the better of diffprivlib and OpenDP, at pure "
        f"epsilon with the same public bounds: {'; '.join(parts)}."
    )


def intervals_of_statistics(published: Published) -> str:
    rows = published.rows("coverage-statistics")
    met, warned = ([row for row in rows if row["result"] == result] for result in ("met", "met, warned"))
    missed = len(rows) - len(met) - len(warned)
    return (
        f"**Statistics.** In {len(met)} of {len(rows)} cells (a statistic of a column at one epsilon), the "
        f"{100.0 * CONFIDENCE:g} % intervals hold the answer of the table in {span(met, 'covered', 0, 100.0)} % of the "
        f"runs. Cells in which they do so less often, but the results warn: {len(warned)}. Cells with neither: "
        f"{missed}."
    )


def intervals_of_models(published: Published) -> str:
    by_model: dict[str, Rows] = {}
    for row in published.rows("coverage-models"):
        if row["coverage of intervals"]:
            by_model.setdefault(row["model"], []).append(row)
    parts = [
        f"{span(rows, 'coverage of intervals', 0, 100.0)} % in {len(rows)} cells of {model} regression, and "
        f"{100.0 * min(float(row['least coverage']) for row in rows):.0f} % for the worst coefficient of a cell"
        for model, rows in by_model.items()
    ]
    return (
        "**Coefficients.** Share of the intervals of two standard errors that hold the coefficient of the same model "
        f"without privacy on all rows: {'; '.join(parts)}."
    )


def intervals_of_components(published: Published) -> str:
    rows = published.rows("pca-intervals")
    held = [row for row in rows if min(float(row[name]) for name in COVERED) >= LEAST]
    warned = [row for row in rows if row not in held and float(row["warned"]) >= LEAST_WARNED]
    return (
        f"**Explained variances.** In {len(held)} of {len(rows)} cells (a table at one epsilon), the intervals hold "
        f"each variance of the table in {100.0 * LEAST:g} % of the fits or more. Cells in which they do so less often, "
        f"but the fits warn that much of the variance lies beyond their radius: {len(warned)}. Cells with neither: "
        f"{len(rows) - len(held) - len(warned)}."
    )


def fast(published: Published) -> str:
    rows = published.rows("speed", **{"job": "default fit, nothing stated", "compared with": "scikit-learn KMeans"})
    rows.sort(key=lambda row: float(row["ratio"]))
    parts = [f"{float(row['ratio']):.2f} times as long on {row['data']}" for row in rows]
    return f"**k-means in memory.** A default fit takes, compared with scikit-learn's k-means, {'; '.join(parts)}."


def other_models(published: Published) -> str:
    pca = {row["job"]: float(row["ratio"]) for row in published.rows("pca-speed")}
    regression = {row["fit"]: float(row["ratio"]) for row in published.rows("regression-time")}
    return (
        "**Other models in memory.** Compared with scikit-learn on the same rows, principal components take "
        f"{pca['fit, radius and norms stated']:.2f} times as long if the radius and the norms are stated and "
        f"{pca['fit, nothing stated']:.2f} times if nothing is. Linear regression takes "
        f"{regression['pais, bounds stated']:.2f} times as long with stated bounds and "
        f"{regression['pais, nothing stated']:.2f} times if nothing is stated."
    )


def spark(published: Published) -> str:
    parts = [
        f"{float(row['pais / MLlib']):.2f} times as long ({row['frame']}), at "
        f"{float(row['cost, pais / MLlib']):.2f} times its cost"
        for row in published.rows("stream-spark")
    ]
    return f"**Spark.** A private fit takes, compared with MLlib's non-private k-means, {'; '.join(parts)}."


def memory(published: Published) -> str:
    rows = [row for row in published.rows("speed") if row["compared with"] == "bytes of the data"]
    if not rows:
        raise AbsentError("speed")
    return f"**Memory.** A default fit needs {span(rows, 'ratio', 0, 100.0)} % of the size of the data beside the data."


def files(published: Published) -> str:
    times, memory = published.rows("stream-time"), published.rows("stream-memory")
    smallest, largest = (int(times[place]["rows"]) / 1e6 for place in (0, -1))
    return (
        f"**Files.** One pass over Parquet files reads {span(times, 'M rows/s of a pass', 0)} million rows per second. "
        f"The peak memory is {span(memory, 'peak MB', 0)} MB from {smallest:g} to {largest:g} million rows."
    )


def people(published: Published) -> str:
    rows = published.rows("people-scale", protects="people")
    return (
        "**Guarantees for people.** Protecting people who have many rows takes "
        f"{span(rows, 'times the seconds')} times as long as protecting rows."
    )


def compared(published: Published) -> str:
    """The packages in the tables, with their versions."""
    names = {row["package"].split(",")[0]: bool(row["epsilon"]) for row in published.rows("peers")}
    private, others = ([name for name, own in names.items() if own is kind] for kind in (True, False))
    peers = [name for name in private if not name.startswith("pais")]
    return (
        f"Without privacy: {', '.join(others)}. With privacy: {', '.join(peers)}, OpenDP for statistics, and the "
        "published results of PE-means (k-means) and AdaSSP (linear regression)."
    )


def replays(published: Published) -> dict[str, str]:
    """The last line of the replay table, which is about all mechanisms."""
    every = published.rows("audit", mechanism="all")
    if not every:
        raise AbsentError("audit")
    return every[0]


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
        "The excess cost that the plan predicts for a small sample is within a factor of "
        f"{MOST_FACTOR:g} of the measured one in {close} of {len(rows)} cells."
    )


def code(published: Published) -> str:
    parts = [f"{row['lines']} with {row['package']}" for row in published.rows("peers-statistics-code")]
    return f"Lines of code for a mean of three columns: {', '.join(parts)}."


def threads(published: Published) -> str:
    return f"Two cores are {span(published.rows('stream-threads'), 'one / two', 1)} times as fast as one."


def audit(published: Published) -> str:
    every = replays(published)
    return (
        f"An {linked('audit', 'audit')} replays {int(every['cases']):,} random calls on a table with a record and on "
        f"the same table without it. In {every['failures']} of them, the record moves a total by more than was paid "
        f"for, or something else depends on it. The largest move is {float(every['all rows']):.4f} of the price."
    )


def fuzz(published: Published) -> str:
    cases = sum(int(row["cases"]) for row in published.rows("fuzz"))
    crashes = _number(published, "fuzz", r"Crashes: ([\d,]+)")
    return f"{linked('fuzz', 'Fuzzing')} of files and arguments: {cases:,} cases, {crashes} crashes."


def sweep(published: Published) -> str:
    seeds, checks, failures = (
        _number(published, "sweep", rf"([\d,]+) {word}") for word in ("seeds", "checks", "failures")
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
