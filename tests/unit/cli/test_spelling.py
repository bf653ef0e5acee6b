"""Messages of the package, printed by a command, name options and not arguments of functions."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main

from pais.cli.app import app
from pais.cli.guard import spelled, spelling
from tests.support.commands import pais

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group


def in_command(name: str, text: str) -> str:
    with spelling(COMMANDS[name].options):
        return spelled(text)


CASES = [
    (
        "mean",
        "pass decimal=',', encoding='cp1252', date_format='%d.%m.%Y'.",
        "pass --decimal ',' --encoding cp1252 --date-format '%d.%m.%Y'.",
    ),
    ("mean", "pass unit='customer_id' to protect", "pass --unit customer_id to protect"),
    ("mean", "Pass separator='\\t', if", "Pass --separator tab, if"),
    ("mean", 'thousands="\'" is not', '--thousands "\'" is not'),
    (
        "check",
        'rows with missing="drop"; with missing="midpoint", missing',
        "rows with --missing drop; with --missing midpoint, missing",
    ),
    ("mean", "encoding='a b' cannot", "--encoding 'a b' cannot"),
    (
        "kmeans",
        "for example columns={'my age': (low, high), ...}, or",
        "for example --columns 'my age=low:high,...', or",
    ),
    ("mean", 'such as columns={"age": (18, 100)}, or', "such as --columns age=18:100, or"),
    (
        "mean",
        "columns['age'] has the bounds 5 and 3. Pass (low, high) with low < high.",
        "--columns age has the bounds 5 and 3. Pass low:high with low < high.",
    ),
    ("mean", "such as by={'age': pais.ranges(0, 20, 40)}, instead", "such as --by 'age=ranges(0,20,40)', instead"),
    (
        "mean",
        "such as by={'day': pais.months('2024-01-01', '2024-12-31')}.",
        "such as --by 'day=months(2024-01-01,2024-12-31)'.",
    ),
    (
        "mean",
        "by='ward' needs public categories. State them, such as by={'ward': ['a', 'b']}, or as a list or bool in "
        "columns.",
        "--by ward needs public categories. State them, such as --by 'ward=[a|b]', or as a list or bool in --columns.",
    ),
    (
        "regression",
        "target='y' is not one of the stated columns. State in columns what is public about it.",
        "--target y is not one of the stated columns. State in --columns what is public about it.",
    ),
    ("classification", "List them in classes, or in columns.", "List them in --classes, or in --columns."),
    ("sum", "Leave out sampling and sample_size: the error", "Leave out --sampling and --sample-size: the error"),
    (
        "kmeans",
        "Raise epsilon, or state radius, center and norms. Check",
        "Raise epsilon, or state --radius, --center and --norms. Check",
    ),
    (
        "kmeans",
        "n_clusters='auto' chose the largest number allowed, max_clusters=25. Raise max_clusters, or",
        "--n-clusters auto chose the largest number allowed, --max-clusters 25. Raise --max-clusters, or",
    ),
    ("kmeans", "name the features with `columns`.", "name the features with --columns."),
    ("kmeans", "random_state must be None", "--seed must be None"),
    (
        "quantile",
        "of a boolean is not defined. Leave out column 'a', or use pais.mean.",
        "of a boolean is not defined. Leave out column 'a', or use `pais mean`.",
    ),
    ("regression", "state (0, 1), or use DPLogisticRegression.", "state 0:1, or use `pais classification`."),
]

#: Texts that stay: quantities, names of the user, paths, nouns, options.
KEPT = [
    "the ledger has too little epsilon: this costs epsilon=1.0, delta=1e-06, and epsilon=0.5, delta=1e-05 remain.",
    "column 'sample_size' of file /tmp/sample_size.csv is not 'date_format'.",
    "column(s) age, unit_price do not exist in file a/missing.csv.",
    "--unit patient_id and --columns age=18:100 are options already.",
    "text in columns of numbers is missing, as are columns with commas.",
]


@pytest.mark.parametrize(("command", "text", "expected"), CASES, ids=[text[:40] for _, text, _ in CASES])
def test_arguments_become_options(command: str, text: str, expected: str) -> None:
    assert in_command(command, text) == expected
    assert in_command(command, expected) == expected


@pytest.mark.parametrize("text", KEPT)
@pytest.mark.parametrize("command", ["mean", "kmeans", "regression"])
def test_other_words_stay(command: str, text: str) -> None:
    assert in_command(command, text) == text


def test_every_option_is_known_by_the_name_of_its_argument() -> None:
    for name, command in COMMANDS.items():
        options = set(command.options.values())
        own = {parameter.opts[0] for parameter in command.params if parameter.opts[0].startswith("--")}
        assert own - {"--help"} <= options, name
        with spelling(command.options):
            for argument, option in command.options.items():
                if argument not in ("epsilon", "delta", "radius"):
                    assert spelled(f"Pass {argument}='x'.") == f"Pass {option} x."


def test_outside_a_command_nothing_changes() -> None:
    assert spelled("pass unit='customer_id'") == "pass unit='customer_id'"


def test_errors_warnings_and_checks_name_options(tmp_path: Path) -> None:
    rows = "".join(f"P{n};{n % 90};{n},5;31.12.2024;{'yes' if n % 2 else 'no'}\n" for n in range(100))
    file = tmp_path / "visits.csv"
    file.write_text("patient_id;age;cost;day;again\n" + rows)

    failed = pais("mean", file, "--columns", "cost=0:100", "--epsilon", 1)
    assert failed.stderr.strip().endswith("has decimal commas: pass --decimal ','.")
    failed = pais("count", file, "--by", "day=months(2024-01-01,2024-12-31)", "--epsilon", 1)
    assert failed.stderr.strip().endswith("pass --date-format '%d.%m.%Y'.")
    done = pais("mean", file, "--columns", "age=0:100", "--epsilon", 1)
    assert "--unit is left out" in done.stderr
    assert "pass --unit patient_id to protect" in done.stderr
    done = pais("check", file, "--columns", "cost=0:100,age=0:100")
    assert "decimal commas: pass --decimal ','" in done.stdout
    assert "with --missing drop; with --missing midpoint" in done.stdout
    for text in ("decimal=", "missing="):
        assert text not in done.stdout
