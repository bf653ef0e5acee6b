"""A question as a user states it: a sentence, a call of a public function, and the same as Python and a command."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pais
from pais.data.cells import listed
from pais.data.units import people_word
from pais.errors import ArgumentError
from pais.studio.columns import DIALECT, ReadFact, Stated, Table, literal, to_yaml

#: The statistics of the page by the names of their functions: what a user chooses, and how a sentence begins.
STATISTICS = {
    "mean": ("means and shares", "The mean of"),
    "sum": ("totals over all rows", "The total over all rows of"),
    "count_people": ("number of people", "The number of people"),
    "count": ("number of rows", "The number of rows"),
    "describe": ("count, mean, deviation and quartiles", "The count, mean, standard deviation and quartiles of"),
    "quantile": ("median and other quantiles", "The quantiles of"),
    "histogram": ("histogram", "The number of rows in ranges of"),
}

#: Statistics of rows as such, which take no columns.
WITHOUT_COLUMNS = ("count_people", "count")

#: The models: the estimator, the command, what a user chooses, and the method with the released values.
MODELS = {
    "kmeans": ("DPKMeans", "kmeans", "segments (k-means)", "centers_frame"),
    "linear": ("DPLinearRegression", "regression", "linear regression", "coefficients_frame"),
    "logistic": ("DPLogisticRegression", "classification", "logistic regression", "coefficients_frame"),
    "pca": ("DPPCA", "pca", "principal components", "components_frame"),
}

#: What a column that a model predicts may hold.
TARGETS = {"linear": ("bounds", "auto", "other"), "logistic": ("bool", "categories", "other")}

#: What a user chooses for `unit` if each row is one person.
EACH_ROW = "\t"

#: Delta of a new ledger, as of `pais ledger`: ten releases with the largest default delta.
DEFAULT_DELTA = "1e-5"


class Fields:
    """What the user typed, by the names of the fields of the page. It is kept as typed, right or wrong."""

    def __init__(self, typed: Mapping[str, Sequence[str]]) -> None:
        self.typed = typed

    def text(self, name: str, default: str = "") -> str:
        return (self.typed.get(name) or [default])[0]

    def texts(self, name: str) -> list[str]:
        return list(self.typed.get(name, ()))

    def column(self, name: str) -> Stated:
        low, high, values, kind = (self.text(f"{part}:{name}") for part in ("low", "high", "values", "kind"))
        return Stated(name, bool(self.text(f"use:{name}")), kind, low, high, values)

    @property
    def dialect(self) -> dict[str, str]:
        stated = {name: self.text(name) for name in DIALECT if self.text(name)}
        return {name: {"tab": "\t", "space": " "}.get(mark, mark) for name, mark in stated.items()}

    def number(self, name: str, default: str, *, whole: bool = False) -> float:
        """A positive number; raises `ArgumentError` if it is none."""
        text = self.text(name, default).strip().replace("\u00a0", " ")
        try:
            value = float(re.sub(r"(?<=\d)[.,' ](?=\d{3}\b)", "", text) if whole else text)
        except ValueError:
            value = math.nan
        if not (0.0 < value < 1e15) or (whole and not value.is_integer()):
            kind = "a whole number above 0, such as 10000" if whole else "a number above 0, with a point: 0.5"
            raise ArgumentError(f"Write {kind}.")
        return value


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question that can be asked. If `problems` are left, it cannot.

    `problems` are messages by the name of a field, `columns` take part, and `by` form groups.
    """

    kind: str
    function: str
    arguments: dict[str, Any]
    data: Path
    ledger: Path
    dialect: dict[str, str]
    columns: tuple[Stated, ...]
    by: tuple[Stated, ...]
    unit: str | None
    header: dict[str, str]
    n_people: int
    rows_each: int
    sentence: str = ""
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def is_model(self) -> bool:
        return self.kind in MODELS

    @property
    def title(self) -> str:
        return MODELS[self.kind][2] if self.is_model else STATISTICS[self.function][0]

    def call(self, rows: object, **changes: Any) -> Any:
        """Call the public function on a table."""
        arguments = {**self.arguments, **changes}
        if self.is_model:
            return getattr(pais, self.function)(**arguments).fit(rows)
        return getattr(pais, self.function)(rows, **arguments)

    @cached_property
    def code(self) -> str:
        """The Python that makes the release and writes its files. This text is what the studio runs."""
        rows = literal(str(self.data))
        if self.dialect:
            rows = f"pais.CSVFile({rows}, {', '.join(f'{name}={mark!r}' for name, mark in self.dialect.items())})"
        lines = [f"    {name}={_nested(value)}," for name, value in self.arguments.items()]
        lines = [*([] if self.is_model else ["    rows,"]), *lines, "    ledger=ledger,"]
        call = "\n".join([f"pais.{self.function}(", *lines, ")"]) + ".fit(rows)" * self.is_model
        frame, mark = (MODELS[self.kind][3], "_") if self.is_model else ("to_frame", "")
        header = "".join(f", {name}={text!r}" for name, text in self.header.items() if text)
        return (
            "# Running this again is a new release, with new noise. It spends its price once more.\n"
            "from pathlib import Path\n\nimport pais\n\n"
            f"ledger = pais.Ledger(path={str(self.ledger)!r})\n"
            f"rows = {rows}\n"
            f"result = {call}\n"
            f'result.write_report("report.html"{header})\n'
            f'result.{frame}().to_csv("values.csv")\n'
            f'Path("certificate.json").write_text(result.certificate{mark}.to_json())\n'
        )

    @property
    def files(self) -> dict[str, str]:
        """The files that the command reads, by name."""
        texts = {"columns.yaml": self.columns, "by.yaml": self.by}
        return {name: to_yaml(columns) for name, columns in texts.items() if columns}

    @property
    def command(self) -> str:
        """The same release as a command."""
        name = MODELS[self.kind][1] if self.is_model else self.function.replace("_", "-")
        options: dict[str, Any] = {name.removesuffix(".yaml"): name for name in self.files}
        options |= {key: value for key, value in self.arguments.items() if key not in options}
        options |= {"ledger": self.ledger, **self.dialect, "out": "out" if self.is_model else "values.csv"}
        if self.is_model:
            options |= self.header
        words = ["pais", name, str(self.data)]
        for key, value in options.items():
            if value is not None and value != "":
                text = ",".join(map(str, value)) if isinstance(value, list) else literal(value).strip("'")
                if isinstance(value, (str, Path)):
                    text = "tab" if value == "\t" else str(value)
                words += [f"--{key.replace('_', '-')}", text]
        return shlex.join(words)


def _nested(value: Any) -> str:
    if not isinstance(value, dict):
        return literal(value)
    lines = [f"        {name!r}: {literal(fact)}," for name, fact in value.items()]
    return "\n".join(["{", *lines, "    }"])


def asked(fields: Fields, table: Table, data: Path, ledger: Path, read: ReadFact) -> Question:
    """The question that the fields of the page state, with a message for each field that is not right yet."""
    problems: dict[str, str] = {"file": table.problem} if table.problem else {}
    kind = fields.text("question", "statistics")
    kind = kind if kind in MODELS else "statistics"
    function = MODELS[kind][0] if kind in MODELS else fields.text("statistic", "mean")
    function = function if kind in MODELS or function in STATISTICS else "mean"
    arguments: dict[str, Any] = {}

    unit = fields.text("unit")
    if not unit:
        problems["unit"] = (
            "Choose the column that names the person of each row. Everybody is then protected as a whole."
        )
    elif unit != EACH_ROW and unit not in table.names:
        problems["unit"] = "The file has no such column. Choose another one."

    grouped = fields.texts("by") if kind == "statistics" else []
    taken = [fields.column(name) for name in table.names if name != unit]
    by = tuple(one for one in taken if one.name in grouped)
    one_target = fields.text("target") if kind in TARGETS else ""
    columns = tuple(one for one in taken if (one.use or one.name == one_target) and one not in by)
    if function in WITHOUT_COLUMNS:
        columns = ()
    facts: dict[str, Any] = {}
    for one in (*columns, *by):
        try:
            facts[one.name] = one.fact(read)
        except ArgumentError as error:
            problems[f"column:{one.name}"] = str(error)
    if columns:
        arguments["columns"] = {one.name: facts[one.name] for one in columns if one.name in facts}
    elif function not in WITHOUT_COLUMNS:
        problems["columns"] = "No column takes part yet. Tick the columns to use, and say what they hold."
    if by:
        arguments["by"] = {one.name: facts[one.name] for one in by if one.name in facts}
    if one_target and fields.column(one_target).kind in TARGETS[kind]:
        arguments["target"] = one_target
    elif kind in TARGETS:
        what = "numbers" if kind == "linear" else "yes or no, or one of a list"
        problems["target"] = f"Choose the column to predict: {what}, as you state in step 2."
    _own(fields, kind, function, arguments, problems)
    if unit and unit != EACH_ROW:
        arguments["unit"] = unit
    elif function == "count_people" and "unit" not in problems:
        problems["statistic"] = "To count people, name their column in step 1. Or count rows."
    _parsed("epsilon", arguments, problems, lambda: fields.number("epsilon", "1"))
    sizes: dict[str, Any] = {}
    _parsed("people", sizes, problems, lambda: fields.number("people", "10000", whole=True))
    _parsed("rows_each", sizes, problems, lambda: fields.number("rows_each", "1", whole=True))
    question = Question(
        kind=kind,
        function=function,
        arguments=arguments,
        data=data,
        ledger=ledger,
        dialect=fields.dialect,
        columns=columns,
        by=by,
        unit=arguments.get("unit"),
        header={name: fields.text(name).strip() for name in ("data_name", "owner")},
        n_people=int(sizes.get("people", 1)),
        rows_each=int(sizes.get("rows_each", 1)),
        problems=problems,
    )
    object.__setattr__(question, "sentence", _sentence(question))
    return question


def _parsed(name: str, arguments: dict[str, Any], problems: dict[str, str], parse: Any) -> None:
    try:
        arguments[name] = parse()
    except ArgumentError as error:
        problems[name] = str(error)


def _own(fields: Fields, kind: str, function: str, arguments: dict[str, Any], problems: dict[str, str]) -> None:
    """The arguments that only some questions have."""
    if kind in MODELS and fields.text("missing") == "midpoint":
        arguments["missing"] = "midpoint"
    if kind == "kmeans":
        text = fields.text("n_clusters", "6").strip()
        parse = (lambda: "auto") if text == "auto" else lambda: int(fields.number("n_clusters", "6", whole=True))
        _parsed("n_clusters", arguments, problems, parse)
    elif kind == "pca" and fields.text("n_components").strip() not in ("", "auto"):
        _parsed("n_components", arguments, problems, lambda: int(fields.number("n_components", "", whole=True)))
    elif function == "histogram":
        _parsed("bins", arguments, problems, lambda: int(fields.number("bins", "10", whole=True)))
    elif function == "quantile":
        _parsed("q", arguments, problems, lambda: _levels(fields.text("q", "0.5")))


def _levels(text: str) -> Any:
    try:
        levels = [float(part) for part in text.replace(";", " ").replace(",", " ").split()]
    except ValueError:
        levels = []
    if not levels or not all(0.0 < level < 1.0 for level in levels):
        raise ArgumentError("Write levels between 0 and 1 with commas, such as 0.25, 0.5, 0.75.")
    return levels[0] if len(levels) == 1 else levels


def _sentence(question: Question) -> str:
    """What will be computed, about whom."""
    one, many = people_word(question.unit) if question.unit else ("row", "rows")
    names = [column.name for column in question.columns if column.name != question.arguments.get("target")] or ["…"]
    about = {
        "kmeans": f"{_number(question, 'n_clusters')} segments of {many} with similar {listed(names)}",
        "linear": f"How {question.arguments.get('target', '…')} changes with {listed(names)}",
        "logistic": f"How likely each value of {question.arguments.get('target', '…')} is, given {listed(names)}",
        "pca": f"The directions in which {many} differ most in {listed(names)}",
    }.get(question.kind)
    if about is None:
        about = STATISTICS[question.function][1]
        about = about if question.function in WITHOUT_COLUMNS else f"{about} {listed(names)}"
    protected = f"Protected: each {one}, with all rows." if question.unit else "Protected: each row."
    protected = "" if "unit" in question.problems else protected
    groups = f", for each {' and '.join(column.name for column in question.by)}" if question.by else ""
    once = f"Each {one} counts once, however many rows it has." if question.unit else ""
    if question.unit and question.function in ("sum", "count", "histogram"):
        once = f"All rows of a {one} are added up, within limits that are found privately."
    gaps = "Rows with an empty cell are left out." if question.is_model and "missing" not in question.arguments else ""
    return " ".join(filter(None, (f"{about}{groups}.", once, gaps, protected)))


def _number(question: Question, name: str) -> str:
    value = question.arguments.get(name, "…")
    return "A suitable number of" if value == "auto" else str(value)
