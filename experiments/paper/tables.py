"""Tables of the reproduction: medians and quartiles of every cell, the times of the paper's Tables 2-3, coresets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.paper.grid import PAPER_NAMES, RULES, TITLES

#: The data sets of the paper's figures 3 and 4, and of 6 and 7, in its order. What stands in for a set stands by it.
MAIN_SETS = ("kdd-protein", "rna", "song", "song-sample", "covertype", "covertype-bundled")
OTHER_SETS = ("ijcnn1", "pose", "miniboone", "fma")

#: Everything a cell is named by.
CELL = ["kind", "dataset", "family", "start", "rule", "sample_size", "epsilon", "delta"]

#: The three times of a run, in its order.
TIMES = ["t_weights", "t_sampling", "t_lloyd"]

_PAPER_TIMES = Path(__file__).with_name("paper_times.csv")


def in_order(datasets: Iterable[str]) -> list[str]:
    """Data sets once each, in the paper's order; those it does not know come last."""
    known = [*MAIN_SETS, *OTHER_SETS]
    return sorted(set(datasets), key=lambda name: (known.index(name) if name in known else len(known), name))


def groups(datasets: Iterable[str]) -> tuple[list[str], list[str]]:
    """The sets of figures 3 and 4, and the sets of figures 6 and 7."""
    ordered = in_order(datasets)
    return [name for name in ordered if name in MAIN_SETS], [name for name in ordered if name not in MAIN_SETS]


def quartiles(frame: pd.DataFrame, kind: str, measure: str) -> pd.DataFrame:
    """One line per cell: lower quartile `low`, `median`, upper quartile `high` and number of `repetitions`."""
    chosen = frame[(frame["kind"] == kind) & (frame["measure"] == measure)]
    chosen = chosen.assign(sample_size=chosen["sample_size"].astype("float64"))
    cells = chosen.groupby(CELL, dropna=False, sort=False)["value"]
    table = cells.median().reset_index(name="median")
    table["low"] = cells.quantile(0.25).to_numpy()
    table["high"] = cells.quantile(0.75).to_numpy()
    table["repetitions"] = cells.size().to_numpy()
    return table


def shown_sizes(summary: pd.DataFrame, dataset: str) -> list[int]:
    """Sizes of a data set that are tried at the most epsilons: those shown against epsilon."""
    here = (summary["dataset"] == dataset) & (summary["family"] != "not-private")
    counts = summary[here & summary["sample_size"].notna()].groupby("sample_size")["epsilon"].nunique()
    return sorted(int(size) for size in counts[counts == counts.max()].index)


def full_epsilons(summary: pd.DataFrame) -> list[float]:
    """Epsilons at which all rows were clustered too: those at which cost is shown against size."""
    full = summary[(summary["family"] == "valid") & (summary["rule"] == "all rows")]
    return sorted(float(epsilon) for epsilon in full["epsilon"].unique())


def costs_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Every cost cell: quartiles, expected size, and what its family is called."""
    table = quartiles(frame, "cost", "cost")
    sizes = quartiles(frame, "cost", "expected_size")[[*CELL, "median"]].rename(columns={"median": "expected_size"})
    table = table.merge(sizes, on=CELL, how="left").drop(columns="kind")
    table.insert(1, "meaning", table["family"].map(TITLES))
    return _sorted(table, ["family", "start", "rule", "sample_size", "epsilon"])


def coreset_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Every coreset cell: quartiles of the epsilon of the lightweight-coreset inequality that samples reach."""
    table = quartiles(frame, "coreset", "violation")
    return _sorted(table.drop(columns=["kind", "family", "start", "delta"]), ["rule", "epsilon", "sample_size"])


def paper_times() -> pd.DataFrame:
    """The times and percentages the paper prints, and the totals that follow from them."""
    rules = {name: rule for rule, name in PAPER_NAMES.items()}
    table = pd.read_csv(_PAPER_TIMES)
    table["rule"] = table["sampling"].map(rules)
    table["t_total"] = table[TIMES].sum(axis=1)
    return table


def times_table(frame: pd.DataFrame, n_rows: Mapping[str, int]) -> pd.DataFrame:
    """Tables 2-3: median seconds of each part, their total against all rows, and the paper's number beside it.

    Parameters
    ----------
    n_rows : mapping
        Rows of each data set after its cut.
    """
    times = frame[(frame["kind"] == "time") & frame["measure"].isin(TIMES)]
    rows = times["dataset"].map(n_rows).astype("float64")
    table = (
        times.assign(m=times["sample_size"].astype("float64").fillna(rows))
        .groupby(["dataset", "rule", "m", "measure"])["value"]
        .median()
        .unstack("measure")
        .reindex(columns=TIMES)
        .reset_index()
    )
    table.insert(2, "sampling", table["rule"].map(PAPER_NAMES))
    table["t_total"] = table[TIMES].sum(axis=1)
    table["relative_percent"] = _relative_percent(table)
    table["size_percent"] = 100.0 * table["m"] / table["dataset"].map(n_rows).astype("float64")
    # Only the very same set can be compared: on a subset the share of m is another.
    paper = paper_times()[["dataset", "rule", "m", "relative_percent"]]
    table = table.merge(paper, on=["dataset", "rule", "m"], how="left", suffixes=("", "_in_paper"))
    table["m"] = table["m"].astype("int64")
    return _sorted(table, ["rule", "m"])


def _relative_percent(table: pd.DataFrame) -> pd.Series:
    full = table[table["rule"] == "all rows"].set_index("dataset")["t_lloyd"]
    return 100.0 * table["t_total"] / table["dataset"].map(full).astype("float64")


def _sorted(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    orders = {
        "dataset": {name: place for place, name in enumerate(in_order(table["dataset"]))},
        "rule": {name: place for place, name in enumerate(("all rows", *RULES))},
    }
    keyed = table.sort_values(
        ["dataset", *by], key=lambda column: column.map(orders[column.name]) if column.name in orders else column
    )
    return keyed.reset_index(drop=True)


def number(value: float, digits: int = 3) -> str:
    """A number for a person; what was not measured is a dash."""
    if not math.isfinite(value):
        return "∞" if value == math.inf else "-"
    if value == 0.0 or 1e-3 <= abs(value) < 1e6:
        size = math.floor(math.log10(abs(value))) if value else 0
        return f"{value:,.{max(digits - 1 - size, 0)}f}"
    return f"{value:.{digits - 1}e}"


def markdown(table: pd.DataFrame, columns: Mapping[str, tuple[str, Callable[[Any], str]]]) -> str:
    """A Markdown table; for each column its heading and how its values are written."""
    heads = [heading for heading, _ in columns.values()]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for _, row in table.iterrows():
        lines.append("| " + " | ".join(write(row[name]) for name, (_, write) in columns.items()) + " |")
    return "\n".join(lines)
