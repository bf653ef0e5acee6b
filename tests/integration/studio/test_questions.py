"""Every question of the page: it is predicted, released, and the shown Python and command give the same."""

from __future__ import annotations

import json
import math
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pytest
from typer.testing import CliRunner

import pais
from pais.cli.app import app
from pais.studio.app import Studio, _todo
from pais.studio.rehearsal import Rehearsals, _values, made_up
from tests.integration.studio.conftest import FACTS, SECRETS, Client, message_in, problems_in, studio_in

QUESTIONS: dict[str, dict[str, Any]] = {
    "mean": {},
    "mean by region": {"by": ["region"]},
    "mean by two columns": {"by": ["region", "premium"]},
    "mean, list found": {"found": "ward"},
    "segments, list found": {"question": "kmeans", "n_clusters": "3", "found": "ward"},
    "sum": {"statistic": "sum"},
    "count people by names": {"statistic": "count_people", "by": ["ward"]},
    "count": {"statistic": "count"},
    "describe": {"statistic": "describe", "by": ["premium"]},
    "quantile": {"statistic": "quantile", "q": "0.25, 0.5"},
    "histogram": {"statistic": "histogram", "bins": "4"},
    "segments": {"question": "kmeans", "n_clusters": "3"},
    "segments, auto": {"question": "kmeans", "n_clusters": "auto"},
    "linear": {"question": "linear", "target": "income"},
    "linear, gaps filled": {"question": "linear", "target": "income", "missing": "midpoint"},
    "logistic": {"question": "logistic", "target": "premium"},
    "components": {"question": "pca"},
}


def filled(client: Client, name: str) -> Client:
    client.fill(**QUESTIONS[name])
    if name == "count people by names":
        client.post("/save", form="columns", only="kind:ward", **{"kind:ward": "names"})
    if found := QUESTIONS[name].get("found"):
        client.post("/paste", yaml=f"{found}: {'names()' if name == 'mean, list found' else 'names(strip, casefold)'}")
    if name == "linear, gaps filled":  # the middle of bounds that are to be found is not known
        client.post("/save", form="columns", only="use:visits")
    if name == "quantile":
        for column in ("visits", "premium", "region"):
            client.post("/save", form="columns", only=f"use:{column}")
    return client


def certificate(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", QUESTIONS)
def test_python_and_command_repeat_the_release(
    name: str, client: Client, studio: Studio, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(client, name)
    question = studio.question
    assert question.problems == {}
    for folder in ("python", "command"):
        (place / folder).mkdir()
    monkeypatch.chdir(place / "python")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = question.code.replace("    epsilon=", "    random_state=3,\n    epsilon=")
        assert code != question.code
        exec(compile(code, "shown", "exec"), {})
        monkeypatch.chdir(place / "command")
        for file, text in question.files.items():
            Path(file).write_text(text)
        words = shlex.split(question.command)
        assert words[0] == "pais"
        done = CliRunner().invoke(app, [*words[1:], "--seed", "3"])
    assert done.exit_code == 0, done.output
    ours = certificate(place / "python" / "certificate.json")
    found = next(file for file in (Path("out/certificate.json"), Path("values.certificate.json")) if file.exists())
    theirs = certificate(found)
    assert ours["values_sha256"] == theirs["values_sha256"]
    assert (ours["epsilon"], ours["delta"]) == (theirs["epsilon"], theirs["delta"])
    # The page has named this price before.
    found_price = studio.rehearsals.predict(question)
    assert found_price is not None
    assert ours["epsilon"] <= question.arguments["epsilon"]
    assert ours["epsilon"] == pytest.approx(question.arguments["epsilon"], rel=1e-12)
    assert ours["delta"] == found_price.delta
    assert (place / "python" / "report.html").stat().st_size > 5000
    assert (place / "python" / "values.csv").read_text().count("\n") > 1


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_predicted(name: str, client: Client, studio: Studio) -> None:
    filled(client, name)
    page = client.get("/prediction")
    assert page.status == 200
    assert "Predicted error" in page.text
    assert "The ledger before and after" in page.text
    found = studio.rehearsals.predict(studio.question)
    assert found is not None
    assert found.lines
    for line in found.lines:
        assert all(0.0 <= part <= 1.0 for part in line.at)
        assert line.error.startswith("±")
    assert not any(secret in answer.body for answer in client.seen for secret in SECRETS)


def test_the_release_is_the_shown_code_and_its_files_can_be_downloaded(
    client: Client, studio: Studio, ledger: Any
) -> None:
    client.fill(by=["region"])
    code = studio.question.code
    client.post("/release", token=client.confirm())
    assert "Released" in client.wait()
    page = client.get()
    job = studio.store.jobs()[0]
    assert (job.place / "release.py").read_text() == code
    for name in (
        "report.html",
        "values.csv",
        "certificate.json",
        "release.py",
        "command.txt",
        "columns.yaml",
        "by.yaml",
    ):
        assert f"/releases/{job.id}/{name}" in page.text
        assert client.get(f"/releases/{job.id}/{name}").body == (job.place / name).read_bytes()
    report = client.get(f"/releases/{job.id}/report.html")
    assert report.headers["content-security-policy"].startswith("default-src 'none'")
    assert "Private" in report.text
    assert job.entries == [entry.id for entry in ledger().entries]
    assert not any(secret in answer.body for answer in client.seen for secret in SECRETS)
    assert not any(mark in path.read_bytes() for path in studio.store.place.rglob("*.*") for mark in SECRETS)


def test_predicted_errors_shrink_as_epsilon_grows_and_agree_with_many_releases(studio: Studio, client: Client) -> None:
    client.fill()
    tables, errors = made_up(studio.question)[0], []
    for epsilon in (0.5, 1.0, 2.0):
        client.post("/save", form="budget", epsilon=str(epsilon))
        found = Rehearsals().predict(studio.question)
        assert found is not None
        errors.append(float(found.lines[0].error.lstrip("±")))
    assert errors[0] > errors[1] > errors[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = [studio.question.call(tables, random_state=seed).value["age"] for seed in range(30)]
    # The deviation of 30 draws has a standard error of 13 %.
    assert 1 / 1.5 < 1.96 * np.std(values) / errors[2] < 1.5


def errors_of(question: Any, result: Any) -> dict[str, float]:
    """The median error by column. Segments, groups and categories are not the same in two tables."""
    found: dict[str, list[float]] = {}
    for label, value, error, _ in _values(question, result):
        name = re.split("[:=]", label.split(", ")[-1] if question.by else label)[0 if question.kind != "kmeans" else -1]
        # The scale of a column whose bounds are found, and of components, is made up.
        relative = question.kind == "pca" or question.arguments.get("columns", {}).get(name) == "auto"
        found.setdefault(name, []).append(error / max(abs(value), 1e-9) if relative else error)
    return {name: float(np.median(errors)) for name, errors in found.items()}


STATED = (
    "age: 18:100\nincome: 0:250000\nvisits: 0:100\nbalance: 0:100000\npremium: bool\nregion: [north, south, east, west]"
)

#: The ratio of the predicted to the actual error of a question, at least and at most, by its columns.
PREDICTED: dict[str, tuple[dict[str, Any], float, float]] = {
    "mean": ({}, 0.7, 1.1),
    "mean by region": ({"by": ["region"]}, 0.4, 1.5),
    "sum": ({"statistic": "sum"}, 0.3, 3.0),
    "count people by region": ({"statistic": "count_people", "by": ["region"]}, 0.5, 3.0),
    "describe": ({"statistic": "describe"}, 0.3, 3.0),
    "histogram": ({"statistic": "histogram"}, 0.3, 3.0),
    "segments": ({"question": "kmeans", "n_clusters": "4"}, 0.3, 3.0),
    "linear": ({"question": "linear", "target": "income"}, 0.1, 3.0),
    "logistic": ({"question": "logistic", "target": "premium"}, 0.2, 3.0),
    "components": ({"question": "pca"}, 0.3, 3.0),
}


@pytest.mark.parametrize("name", PREDICTED)
def test_the_predicted_error_is_near_that_of_a_release(name: str, tmp_path: Path) -> None:
    """On a table with skewed columns, whose people have different numbers of rows."""
    options, low, high = PREDICTED[name]
    table = pais.example_people(10_000)
    pa_csv.write_csv(table, tmp_path / "people.csv")
    studio = studio_in(tmp_path)
    client = Client(studio.guarded(port=4711, token="the-token")).enter()
    client.post("/save", form="file", unit="customer_id", people="10,000", rows_each="6")
    client.post("/paste", yaml=STATED)
    client.post("/save", form="question", **{"question": "statistics", "statistic": "mean", **options})
    question = studio.question
    assert question.problems == {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = errors_of(question, question.call(made_up(question)[0], random_state=0))
        actual = errors_of(question, question.call(table, random_state=0))
    ratios = {column: predicted[column] / actual[column] for column in predicted.keys() & actual.keys()}
    assert len(ratios) >= min(len(predicted), 3)
    assert low < np.nanmedian(list(ratios.values())) < high, ratios


def test_a_made_up_table_follows_what_is_stated_and_nothing_else(studio: Studio, client: Client, place: Path) -> None:
    client.fill(by=["region"])
    before = made_up(studio.question)
    rows = (place / "people.csv").read_text().splitlines()
    (place / "people.csv").write_text("\n".join([rows[0], *["9,99,1,1,true,south,1,x,y"] * 50]) + "\n")
    after = made_up(studio_in(place).question)
    assert before[0].equals(after[0])
    table, people = before
    assert people == 1500
    assert 1.9 < table.num_rows / people < 2.1
    assert set(table.column("region").to_pylist()) <= {"north", "south", "east"}
    ages = np.array(table.column("age"))
    assert 18 <= ages.min() < ages.max() <= 100
    client.post("/save", form="file", unit="person_id", people="1.000.000.000", rows_each="2")
    assert studio.question.n_people == 10**9
    assert made_up(studio.question)[1] == 30_000


WRONG = [
    ("file", {"unit": ""}, "Choose the column that names the person"),
    ("file", {"unit": "no such"}, "The file has no such column"),
    ("file", {"unit": "person_id", "separator": "ab"}, "cannot separate cells"),
    ("file", {"unit": "person_id", "encoding": "utf-16"}, "cannot be read line by line"),
    ("file", {"unit": "person_id", "date_format": "%q"}, "is not understood"),
    ("file", {"unit": "person_id", "thousands": "."}, "is also the decimal mark"),
    ("columns", {"kind:age": "bounds", "use:age": "on"}, "State the smallest and the largest"),
    ("columns", {"kind:age": "bounds", "use:age": "on", "low:age": "9", "high:age": "1"}, "low &lt; high"),
    ("columns", {"kind:age": "bounds", "use:age": "on", "low:age": "a", "high:age": "b"}, "not understood"),
    ("columns", {"kind:age": "bounds", "use:age": "on", "low:age": "nan", "high:age": "inf"}, "age"),
    ("columns", {"kind:age": "", "use:age": "on"}, "Choose what this column holds"),
    ("columns", {"kind:age": "categories", "use:age": "on", "values:age": ""}, "State the categories"),
    ("columns", {"kind:age": "categories", "use:age": "on", "values:age": "a|a"}, "twice"),
    ("columns", {"kind:age": "other", "use:age": "on", "values:age": "ranges(3)"}, "age"),
    ("columns", {"kind:age": "other", "use:age": "on", "values:age": "ranges(x)"}, "not understood"),
    ("columns", {}, "No column takes part"),
    ("question", {"question": "linear"}, "Choose the column to predict"),
    ("question", {"question": "linear", "target": "region"}, "Choose the column to predict: numbers"),
    ("question", {"question": "logistic", "target": "income"}, "Choose the column to predict: yes or no"),
    ("question", {"question": "kmeans", "n_clusters": "many"}, "Write a whole number"),
    ("question", {"question": "kmeans", "n_clusters": "-3"}, "Write a whole number"),
    ("question", {"question": "pca", "n_components": "2.5"}, "Write a whole number"),
    ("question", {"statistic": "quantile", "q": "1.5"}, "Write levels between 0 and 1"),
    ("question", {"statistic": "histogram", "bins": "x"}, "Write a whole number"),
    ("file", {"unit": "person_id", "people": "many"}, "Write a whole number"),
    ("file", {"unit": "person_id", "rows_each": "1.5"}, "Write a whole number"),
    ("budget", {"epsilon": "0,5"}, "Write a number above 0"),
    ("budget", {"epsilon": "-1"}, "Write a number above 0"),
    ("budget", {"epsilon": "nan"}, "Write a number above 0"),
    ("budget", {"epsilon": ""}, "Write a number above 0"),
]


@pytest.mark.parametrize(("form", "typed", "words"), WRONG, ids=[f"{form} {list(t.values())}" for form, t, _ in WRONG])
def test_wrong_input_is_kept_and_explained_and_spends_nothing(
    form: str, typed: dict[str, str], words: str, client: Client, studio: Studio, ledger: Any
) -> None:
    client.fill()
    page = client.post("/save", form=form, **typed)
    assert page.status == 200
    assert words in page.text
    for name, text in typed.items():
        assert studio.store.typed[name] == [text]
    assert client.get("/prediction").status == 200
    assert client.post("/confirm").status == 400
    assert not studio.store.confirmation
    assert ledger().entries == ()


@pytest.mark.parametrize(
    "text", ["", "age", "- a\n- b", "age: {low: 1}", "{", "a: [", "age: !!python/object:os.system x"]
)
def test_wrong_yaml_is_explained(text: str, client: Client) -> None:
    page = client.post("/paste", yaml=text)
    assert page.status in (200, 400)
    assert message_in(page) or problems_in(page)


def test_columns_are_saved_and_loaded_as_the_yaml_of_the_command_line(
    client: Client, studio: Studio, place: Path
) -> None:
    client.fill()
    text = client.get("/columns.yaml").text
    before = studio.question.arguments["columns"]
    path = place / "columns.yaml"
    path.write_text(text)
    from pais.cli.rows import columns_of

    assert columns_of(str(path)) == pais.Schema.of(before)
    client.post("/save", form="columns")
    assert "columns" in studio.question.problems
    page = client.post("/paste", yaml=text + "\nnobody: auto\n")
    assert "no column named nobody" in page.text
    assert studio.question.arguments["columns"] == before


@pytest.mark.parametrize(
    ("text", "number"),
    [("4.000", 4000), ("10,000", 10_000), ("1 500", 1500), ("1\u00a0200\u00a0000", 1_200_000), ("7", 7)],
)
def test_marks_of_thousands_in_the_number_of_people_are_read(
    text: str, number: int, client: Client, studio: Studio
) -> None:
    client.post("/save", form="file", unit="person_id", people=text)
    assert studio.question.n_people == number


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ("note: bool", "Choose “one of a list”"),
        ("note: 0:1", "look like text"),
        ("premium: bool", ""),
        ("age: 0:99", ""),
    ],
)
def test_a_fact_that_the_type_contradicts_is_doubted(fact: str, words: str, client: Client, studio: Studio) -> None:
    client.post("/save", form="file", unit="person_id")
    page = client.post("/paste", yaml=fact)
    name = fact.partition(":")[0]
    doubt = studio.table.doubt(studio.fields.column(name))
    assert bool(doubt) == bool(words)
    assert words in doubt
    assert doubt in page.text
    # It is a doubt, and no refusal: the first cells are not all cells.
    assert "columns" not in _todo(studio.question, None)


def test_pasted_lines_may_have_equals_signs_tabs_and_blanks(client: Client, studio: Studio) -> None:
    client.post("/save", form="file", unit="person_id")
    client.post("/paste", yaml="age = 18:100\nincome\t0:250000\npremium:bool\nregion: [north, south]\nvisits=auto\n")
    facts = studio.question.arguments["columns"]
    assert facts == {
        "age": (18, 100),
        "income": (0, 250_000),
        "premium": bool,
        "region": ["north", "south"],
        "visits": "auto",
    }


def test_an_exhausted_ledger_refuses_before_anything_is_spent(client: Client, ledger: Any) -> None:
    client.fill(epsilon="15")
    client.post("/release", token=client.confirm())
    assert "Released" in client.wait()
    spent = ledger().spent
    assert "The budget is not enough" in client.get("/prediction").text
    page = client.post("/confirm")
    assert page.status == 400
    assert "too little epsilon" in page.text
    assert ledger().spent == spent


def test_nothing_typed_is_lost_when_the_studio_ends(client: Client, place: Path, studio: Studio) -> None:
    client.fill(by=["region"], question="kmeans", n_clusters="not a number")
    token = "0" * 32
    again = studio_in(place)
    assert again.store.typed == studio.store.typed
    assert again.question.problems == studio.question.problems
    other = Client(again.guarded(port=4711, token="the-token")).enter()
    assert 'value="not a number"' in other.get().text
    assert other.post("/release", token=token).status == 409


def test_files_of_all_kinds_are_opened(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from tests.integration.studio.conftest import people

    pq.write_table(people(), tmp_path / "people.parquet")
    (tmp_path / "folder").mkdir()
    for part in range(2):
        pq.write_table(people(), tmp_path / "folder" / f"part-{part}.parquet")
    for name in ("people.parquet", "folder"):
        table = studio_in(tmp_path, name).table
        assert table.problem == ""
        assert table.types["age"] == "whole number"
        assert table.types["premium"] == "yes or no"
        assert table.types["note"] == "text"
    assert "does not exist" in studio_in(tmp_path, "nothing.csv").table.problem


def test_how_a_csv_file_is_written_is_recognised_and_can_be_stated(tmp_path: Path) -> None:
    lines = ["Nr;Betrag;Eintritt;Ort;leer"]
    lines += [f"{i};{i % 90},5;{i % 28 + 1:02}.03.2021;Köln;" for i in range(300)]
    (tmp_path / "de.csv").write_bytes("\n".join(lines).encode("cp1252"))
    studio = studio_in(tmp_path, "de.csv")
    assert studio.table.problem == ""
    found = studio.table.recognised
    assert found == {"separator": ";", "decimal": ",", "encoding": "cp1252", "date_format": "%d.%m.%Y"}
    assert studio.table.types == {
        "Nr": "number",
        "Betrag": "number",
        "Eintritt": "date",
        "Ort": "text",
        "leer": "empty at first",
    }
    client = Client(studio.guarded(port=4711, token="the-token")).enter()
    assert "This is not stated yet" in client.get().text
    client.post("/save", form="file", unit="Nr", **found)
    assert studio.table.recognised == {}
    assert "This is not stated yet" not in client.get().text
    client.post("/paste", yaml="Betrag: 0:100\nEintritt: 2021-01-01:2021-12-31")
    client.post("/ledger", budget_epsilon="20", budget_delta="1e-4")
    client.post("/save", form="budget", epsilon="1")
    client.post("/release", token=client.confirm())
    assert "Released" in client.wait()
    values = (studio.store.jobs()[0].place / "values.csv").read_text().splitlines()
    assert math.isclose(float(values[1].split(",")[1]), 45, abs_tol=5)
    assert values[2].startswith("Eintritt,2021-03-")


def test_the_page_of_the_check_is_marked_and_for_the_owner_alone(client: Client) -> None:
    client.fill()
    page = client.get("/check")
    assert "Not private" in page.text
    assert "<li>age: every cell fits" in page.text
    assert page.headers["cache-control"] == "no-store"


def test_a_hundred_columns_make_one_page(tmp_path: Path) -> None:
    names = ["person_id", *(f"column {i}" for i in range(100))]
    rows = [",".join(names), *[",".join(["1"] * 101)] * 30]
    (tmp_path / "wide.csv").write_text("\n".join(rows))
    studio = studio_in(tmp_path, "wide.csv")
    client = Client(studio.guarded(port=4711, token="the-token")).enter()
    assert "Search 101 columns" in client.get().text
    client.post("/save", form="file", unit="person_id")
    client.post("/paste", yaml="\n".join(f"{name}: 0:10" for name in names[1:]))
    assert len(studio.question.arguments["columns"]) == 100
    assert FACTS not in client.get().text
