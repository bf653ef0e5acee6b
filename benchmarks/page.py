"""Write the tables and the summary of docs/benchmarks.md from the results on disk.

``python -m benchmarks.page`` replaces the text between the markers ``<!-- begin: NAME -->`` and ``<!-- end -->``.
The rest of the page is written by hand. The command prints the commit that each result was measured at, and exits
with 1 if the tables on the page are from more than one.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- begin: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Rows = list[dict[str, str]]


def rows_of(name: str, **fixed: str) -> Rows:
    """Lines of a table in which each column named has the value given."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if all(row[key] == value for key, value in fixed.items())]


def span(rows: Rows, column: str, digits: int = 2, factor: float = 1.0) -> str:
    """Smallest and largest value of a column."""
    values = [factor * float(row[column]) for row in rows]
    low, high = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return low if low == high else f"{low} to {high}"


def of_package(name: str, guarantee: str) -> Rows:
    return [row for row in rows_of("peers", guarantee=guarantee) if row["package"].startswith(name)]


def verdicts(version: str, wanted: str) -> tuple[int, int]:
    """Number of audited cases of a version with the wanted result, and number of all of them."""
    results = [row["result"] for row in rows_of("audit", version=version)]
    return results.count(wanted), len(results)


def summary() -> str:
    speed = {row["job"]: row for row in rows_of("kmeans-speed")}
    fit, peer = float(speed["fit"]["seconds"]), float(speed["scikit-learn, all rows"]["seconds"])
    extra = 100.0 * float(speed["peak extra memory of fit / data"]["fit / job"])
    free = rows_of("kmeans-free", epsilon="1")
    shares = [{"share": row["share of rows"].rstrip(" %")} for row in free]
    command = rows_of("stream-command", command="private survey, 100,000 rows expected")[0]
    times = rows_of("stream-time")
    smallest, largest = int(times[0]["rows"]) // 10**6, int(times[-1]["rows"]) // 10**6
    spark = {
        kept: span(rows_of("stream-spark", **{"rows kept": kept}), "pais / MLlib")
        for kept in ("small sample", "free sample")
    }
    (caught, broken), (passed, right) = verdicts("broken", "caught"), verdicts("right", "passes")
    lines = (
        f"**Close to non-private.** At epsilon 1 the sum of squared distances is "
        f"{span(rows_of('kmeans-public', epsilon='1'), 'median')} times that of the best of five scikit-learn runs, on "
        "four data sets with k = 25 and samples of 3 % to 10 % of the rows.",
        f"**The private survey costs little.** If nothing is stated about the rows, the cost is "
        f"{span(rows_of('kmeans-survey', epsilon='1'), 'ratio', 3)} times that with public facts, at the same total "
        "epsilon.",
        f"**Sampling for free.** At epsilon 1, {span(shares, 'share', 0)} % of the rows give {span(free, 'ratio', 3)} "
        "times the cost of all rows, with the same noise.",
        f"**Fast.** A fit of 566,486 rows of 54 columns takes {fit:.2f} s. Ten rounds of scikit-learn on all rows take "
        f"{peer:.1f} s.",
        f"**Memory.** That fit needs {extra:.0f} % of the size of the data, in addition to the data.",
        f"**Other private packages.** At pure epsilon 1 the cost is "
        f"{span(of_package('pais, laplace', 'epsilon 1'), 'median')} times the non-private one with Laplace noise, and "
        f"{span(of_package('diffprivlib', 'epsilon 1'), 'median')} times with diffprivlib.",
        f"**Files.** One pass over Parquet files reads {span(times, 'M rows/s of a pass', 0)} million rows of 16 "
        f"columns per second on two cores. `pais kmeans` takes {float(command['seconds']):.0f} s for {largest} "
        "million rows, with the private survey and a sample of 100,000 rows.",
        f"**Memory with files** hardly depends on the number of rows: "
        f"{span(rows_of('stream-memory'), 'peak MB', 0)} MB for {smallest} to {largest} million rows.",
        f"**Spark.** A fit takes {spark['small sample']} times as long as MLlib's non-private k-means with a small "
        f"sample, and {spark['free sample']} times with a free sample.",
        f"**Audits** catch {caught} of {broken} known mistakes, and refute {right - passed} of {right} correct "
        "versions.",
    )
    return listed(lines)


def listed(lines: Iterable[str]) -> str:
    return "".join(
        textwrap.fill(f"- {line}", 120, subsequent_indent="  ", break_long_words=False) + "\n" for line in lines
    )


def correctness() -> str:
    (caught, broken), (passed, right) = verdicts("broken", "caught"), verdicts("right", "passes")
    cases = sum(int(row["cases"]) for row in rows_of("fuzz"))
    crashes = re.search(r"Crashes: ([\d,]+)", table("fuzz"))
    swept = re.search(r"([\d,]+) seeds, ([\d,]+) checks, ([\d,]+) failures", table("sweep"))
    kills = json.loads((RESULTS / "kill-ledger.json").read_text(encoding="utf-8"))
    refuted = [row for row in rows_of("audit", version="as it is") if row["result"] == "refuted"]
    assert crashes
    assert swept
    return listed(
        (
            f"An [audit](../benchmarks/results/audit.md) catches {caught} of {broken} known mistakes with every seed, "
            f"and {passed} of {right} correct versions pass with every seed. It refutes the epsilon 1 that "
            f"diffprivlib's k-means claims, with lower bounds of "
            f"{span(refuted, 'lower bound', 1).replace(' to ', ' and ')}.",
            f"[Fuzzing](../benchmarks/results/fuzz.md) of files and arguments: {cases:,} cases, {crashes[1]} crashes.",
            f"A [sweep](../benchmarks/results/sweep.md) over random configurations: {swept[1]} configurations, "
            f"{swept[2]} checks, {swept[3]} failures.",
            f"[Processes killed](../benchmarks/results/kill-ledger.md) while they charge a ledger: "
            f"{kills['killed_while_running']:,} kills, {kills['releases_without_a_spend']} releases without a charge.",
        )
    )


def regimes() -> str:
    """How many goals are met in each group, and the costs over the floor in it."""
    if not (RESULTS / "regimes.csv").exists():
        return "Not measured yet: run `make bench-quality`.\n"
    groups: dict[str, Rows] = {}
    for row in rows_of("regimes"):
        groups.setdefault(row["group"], []).append(row)
    lines = [
        "| group | sets | median cost over the floor | worst run over one center | goals met |",
        "|---|---|---|---|---|",
    ]
    for group, rows in groups.items():
        judged = rows_of("regimes-areas") if group == "pe" else [row for row in rows if row["result"] != "reported"]
        met = f"{sum(row['result'] == 'met' for row in judged)} of {len(judged)}" if judged else "reported"
        worst = max(float(row["worst / one center"]) for row in rows)
        lines.append(
            f"| {group} | {len({row['data'] for row in rows})} | {span(rows, 'median', 3)} | {worst:.3f} | {met} |"
        )
    links = (
        "[All cells](../benchmarks/results/regimes.md), the "
        "[areas of the PE-means protocol](../benchmarks/results/regimes-areas.md) and a "
        "[comparison with diffprivlib](../benchmarks/results/regimes-peers.md)."
    )
    return "\n".join((*lines, "", *textwrap.wrap(links, 120, break_long_words=False, break_on_hyphens=False))) + "\n"


def table(name: str) -> str:
    """A table as it was published, without its title."""
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    return re.sub(r"\A#+ .*\n+", "", text)


def states() -> dict[str, str]:
    """The commit that each table was measured at."""
    found = {}
    for path in sorted(RESULTS.glob("*.md")):
        measured = re.search(r"Measured at (\w+)", path.read_text(encoding="utf-8"))
        found[path.stem] = measured[1] if measured else "unknown"
    return found


SPECIAL: dict[str, Callable[[], str]] = {"summary": summary, "regimes": regimes, "correctness": correctness}


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    written = BLOCK.sub(lambda block: block[1] + SPECIAL.get(block[2], lambda: table(block[2]))() + block[3], text)
    PAGE.write_text(written, encoding="utf-8")
    shown = {name for _, name, _ in BLOCK.findall(text)}
    for name, state in states().items():
        sys.stdout.write(f"{state}  {name}{'  on the page' if name in shown else ''}\n")
    return int(len({state for name, state in states().items() if name in shown}) > 1)


if __name__ == "__main__":
    raise SystemExit(main())
