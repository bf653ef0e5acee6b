"""Write docs/benchmarks.md from the tables in benchmarks/results.

``python -m benchmarks.page`` renders the template `benchmarks/page.md`, in which every measured number is an expression
that reads a table. The functions in `NAMES` are those that expressions may use.
"""

from __future__ import annotations

import csv
import re
import textwrap
from itertools import groupby

import jinja2

from benchmarks.tables import RESULTS, ROOT

TEMPLATE = ROOT / "benchmarks" / "page.md"
PAGE = ROOT / "docs" / "benchmarks.md"
#: Tables that take about as long as all others together. They are measured apart, and may name another commit.
LONG_TABLES = ("coverage-statistics",)

Row = dict[str, str]

#: Columns of the value and of its target, if they are not "ratio" and "target". A number is a target of all rows.
_JUDGED = {
    "coverage-models": ("least coverage", "0.9"),
    "coverage-statistics": ("covered", "0.93"),
    "logistic-loss": ("ratio of gaps", "1.05"),
    "names": ("over MaxAdaptiveDegree", "0.98"),
    "names-error": ("over listed", "1.05"),
    "pca-captured": ("k = 5", "goal"),
    "pca-intervals": ("least coverage", "0.9"),
    "prediction": ("chosen / free cost", "1.003"),
    "regimes": ("median", "goal"),
    "regimes: missed: one center": ("worst / one center", "1.05"),
    "regimes-areas": ("area", "goal"),
    "regression-drowned": ("nothing stated", "AdaSSP, tight noise"),
    "regression-large": ("constrained", "goal"),
    "regression-small": ("pais", "AdaSSP, published"),
    "stream-memory": ("over smallest", "1.1"),
    "stream-spark": ("pais / MLlib", "time target"),
}
#: Columns that tell rows apart.
_WORDS = ("data", "job", "fit", "columns", "unit", "frame", "mechanism", "share of rows")


def names() -> list[str]:
    return sorted(path.stem for path in RESULTS.glob("*.md"))


def text(name: str) -> str:
    return (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def rows(name: str, **fixed: str) -> list[Row]:
    """Rows of a table in which each column named has the value given."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if all(row[key] == value for key, value in fixed.items())]


def span(found: list[Row], column: str, digits: int = 2, factor: float = 1.0, over: str = "") -> str:
    """Smallest and largest value of a column, or of its quotient with another one."""
    values = [factor * _number(row[column]) / (_number(row[over]) if over else 1.0) for row in found]
    low, high = (f"{end:.{digits}f}" if end < 1e4 else f"{end:.3g}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def distinct(found: list[Row], column: str) -> list[str]:
    return list(dict.fromkeys(row[column] for row in found))


def body(name: str) -> str:
    """A table as it was published, without title and remarks."""
    return "\n".join(line for line in text(name).splitlines() if line.startswith("|"))


def link(name: str) -> str:
    """A link to a table under its title, with the number of targets that it meets."""
    title = text(name).splitlines()[0].lstrip("# ").translate(str.maketrans("[]", "()"))
    found = results(name)
    met = f": {sum(met for *_, met in found)} of {len(found)} targets met" if found else ""
    return f"[{title}](../benchmarks/results/{name}.md){met}"


def state(name: str, part: str) -> str:
    """Commit, day or machine of a table."""
    match = re.search(r"Measured at (?P<commit>[\w ]+), sources \w+, on (?P<day>[\d-]+), (?P<machine>.+)\.", text(name))
    assert match is not None, f"{name} does not say where it was measured"
    return match[part]


def states(part: str) -> list[str]:
    """The commits, days or machines of all tables but those that are measured apart."""
    return sorted({state(name, part) for name in names() if name not in LONG_TABLES})


def results(name: str) -> list[tuple[Row, str, bool]]:
    """Rows that have a target, the words that judge them, and whether the target is met."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    judged = [(row, row[key]) for row in rows(name) for key in row if key.split()[-1] == "result"]
    return [
        (row, words, words.startswith("met"))
        for row, words in judged
        if words.startswith(("met", "missed", "within error"))
    ]


def missed() -> str:
    """A line for each table, or group of a table, with missed targets: how many, and the largest miss."""
    lines = []
    for name in names():
        for group, members in groupby(results(name), lambda one: one[0].get("group", "")):
            every = list(members)
            misses = [_miss(name, row, words) for row, words, met in every if not met]
            if misses:
                size, what, value, target = max(misses)
                place = f"[{name}](../benchmarks/results/{name}.md){f', {group}' if group else ''}"
                count = f"{len(misses)} of {len(every)}"
                lines.append((-size, f"| {place} | {count} | {what} | {value:.4g} | {target:.4g} |"))
    head = ["| table | missed | largest miss | measured | target |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(line for _, line in sorted(lines))])


def _miss(name: str, row: Row, words: str) -> tuple[float, str, float, float]:
    """The size of a miss, what it is about, the value and the target."""
    column, goal = _JUDGED.get(f"{name}: {words}") or _JUDGED.get(name, ("ratio", "target"))
    value, target = _number(row[column]), _number(row.get(goal, goal))
    what = [row[key] for key in _WORDS if key in row and not row[key].isdecimal()]
    what += [f"epsilon {row['epsilon']}"] if "epsilon" in row else []
    return abs(value / target - 1.0), ", ".join(what) or f"{int(row['rows']):,} rows", value, target


def _number(cell: str) -> float:
    return float(cell.rstrip(" %"))


def _wrapped(page: str) -> str:
    """Paragraphs and items of lists in lines of 120 characters; tables and headings as they are."""
    lines = []
    for line in page.splitlines():
        if line.startswith(("|", "#")) or len(line) <= 120:
            lines.append(line)
        else:
            indent = "  " if line.startswith("- ") else ""
            lines += textwrap.wrap(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


NAMES = {
    function.__name__: function
    for function in (names, rows, span, distinct, body, link, state, states, results, missed)
}


def page() -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return _wrapped(template.render(NAMES, long_tables=LONG_TABLES))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
