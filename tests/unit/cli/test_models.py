"""The commands of regression, classification and PCA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import pais as package
from pais.accounting.certificate import Certificate
from tests.support.commands import done, left_in, pais, refused, spent, strict_json

COLUMNS = "age=18:100,income=0:250000,visits=0:50,premium=bool,region=[north|south|east|west]"
CALLS: dict[str, list[Any]] = {
    "regression": ["--columns", COLUMNS, "--target", "income"],
    "classification": ["--columns", COLUMNS, "--target", "premium"],
    "pca": ["--columns", COLUMNS],
}
TABLE = {"regression": "coefficients", "classification": "coefficients", "pca": "components"}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(package.example_people(1000, random_state=0), path)
    return path


@pytest.fixture(scope="module")
def released(people: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """The directory and the output of each command."""
    home = tmp_path_factory.mktemp("models")
    return {
        name: (home / name, pais(name, people, *call, "--unit", "customer_id", "--epsilon", 3, "--out", home / name))
        for name, call in CALLS.items()
    }


@pytest.mark.parametrize("name", CALLS)
def test_every_model_is_printed_and_written(released: dict[str, tuple[Path, Any]], name: str) -> None:
    out, result = released[name]
    assert result.exit_code == 0, result.stderr
    for text in ("epsilon 3, delta 1e-06", "one customer_id added or removed", "verdict", TABLE[name].capitalize()):
        assert text in result.stdout
    table = TABLE[name]
    assert left_in(out) == {f"{table}.csv", f"{table}.parquet", "report.html", "model.json", "certificate.json"}
    assert Certificate.load(out / "certificate.json").epsilon == pytest.approx(3.0)
    assert (out / "report.html").read_text().startswith("<!DOCTYPE html>")
    model = strict_json((out / "model.json").read_text())
    assert model["kind"] == name
    assert model["values"] == pq.read_table(out / f"{table}.parquet").to_pylist()
    assert pa_csv.read_csv(out / f"{table}.csv").num_rows == len(model["values"])
    assert package.Schema.from_dict(model["schema"]).names[:2] == (
        "age",
        "income" if name == "pca" else model["columns"][1],
    )


@pytest.mark.parametrize("name", CALLS)
def test_every_file_of_a_model_is_explained(released: dict[str, tuple[Path, Any]], name: str) -> None:
    out, _ = released[name]
    for path in out.iterdir():
        result = done("explain", path)
        assert "may be published" in result.stdout or "epsilon 3" in result.stdout
    assert "This is the certificate of a release" in pais("explain", out).stdout
    words = {"regression": "linear regression of income", "classification": "logistic regression of premium"}
    assert words.get(name, "principal components") in pais("explain", out / "model.json").stdout


ESTIMATORS: dict[str, Any] = {
    "regression": lambda **more: package.DPLinearRegression(target="income", **more),
    "classification": lambda **more: package.DPLogisticRegression(target="premium", **more),
    "pca": lambda **more: package.DPPCA(n_components="auto", **more),
}


@pytest.mark.parametrize("engine", ["auto", "memory"])
@pytest.mark.parametrize("name", CALLS)
def test_a_command_releases_what_the_estimator_does(people: Path, tmp_path: Path, name: str, engine: str) -> None:
    columns = {
        "age": (18, 100),
        "income": (0, 250_000),
        "visits": (0, 50),
        "premium": bool,
        "region": ["north", "south", "east", "west"],
    }
    model = ESTIMATORS[name](columns=columns, epsilon=3.0, random_state=4, unit="customer_id").fit(people)
    arguments = [*CALLS[name], "--unit", "customer_id", "--epsilon", 3, "--seed", 4, "--engine", engine]
    result = done(name, people, *arguments, "--out", tmp_path / "out", "--json")
    assert "NOT PRIVATE" in result.stderr
    content = strict_json(result.stdout)
    assert content["certificate"]["values_sha256"] == json.loads(model.certificate_.to_json())["values_sha256"]
    if name == "pca":
        loadings = [[line[label] for label in model.fit_.labels] for line in content["values"]]
        assert np.array_equal(loadings, model.components_)
    else:
        frame = model.coefficients_frame()
        assert [line["feature"] for line in content["values"]] == frame.index.tolist()
        for key in ("coefficient", "standard_error", "low", "high"):
            assert np.allclose([line[key] for line in content["values"]], frame[key], rtol=1e-12)


def test_several_classes_have_a_coefficient_each(people: Path, tmp_path: Path) -> None:
    arguments = ["--columns", "age=18:100,visits=0:50", "--target", "region", "--classes", "north|south|east"]
    result = done("classification", people, *arguments, "--epsilon", 5, "--out", tmp_path / "out")
    assert "region (east, north, south)" in result.stdout
    table = pa_csv.read_csv(tmp_path / "out" / "coefficients.csv")
    assert table.column_names[:2] == ["class", "feature"]
    assert table.column("class").to_pylist() == ["east"] * 3 + ["north"] * 3 + ["south"] * 3


def test_options_reach_the_estimator(people: Path, tmp_path: Path) -> None:
    semicolons = tmp_path / "people.csv"
    package.example_people(1000, random_state=0).to_pandas().to_csv(semicolons, sep=";", decimal=",", index=False)
    arguments = ["--target", "income", "--epsilon", 3, "--delta", 1e-7, "--sampling", "none", "--seed", 1]
    arguments += ["--alpha", 0, "--no-intercept", "--separator", ";", "--decimal", ",", "--missing", "midpoint"]
    columns = ["--columns", "age=ranges(18,40,60,100),income=0:250000"]
    result = done("regression", semicolons, *columns, *arguments, "--out", tmp_path / "out", "--json")
    content = strict_json(result.stdout)
    assert [line["feature"] for line in content["values"]] == ["age=18 to 40", "age=40 to 60", "age=60 to 100"]
    assert content["certificate"]["delta"] <= 1e-7
    assert content["fills_missing"] is True
    result = done(
        "pca", people, "--columns", "age,visits,income", "--epsilon", 3, "--n-components", 1, "--out", tmp_path / "p"
    )
    assert len(pa_csv.read_csv(tmp_path / "p" / "components.csv")) == 1


@pytest.mark.parametrize("name", CALLS)
def test_a_model_is_charged_once_and_refused_beyond_the_budget(people: Path, tmp_path: Path, name: str) -> None:
    book = tmp_path / "ledger.json"
    done("ledger", book, "--epsilon", 4)
    arguments = [*CALLS[name], "--epsilon", 3, "--ledger", book, "--quiet"]
    result = pais(name, people, *arguments, "--out", tmp_path / "first")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert package.Ledger(path=book).spent.epsilon == pytest.approx(3.0)
    again = pais(name, tmp_path / "missing.parquet", *arguments, "--out", tmp_path / "second")
    assert again.exit_code == 3
    assert package.Ledger(path=book).spent.epsilon == pytest.approx(3.0)
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("regression", ["--columns", "age=18:100"], "--target"),
        ("regression", ["--columns", "age=18:100", "--target", "age"], "no feature beside the target"),
        ("regression", ["--columns", "age=18:100,sex=bool", "--target", "sex"], "not a column of numbers"),
        ("regression", ["--target", "age", "--alpha", "large"], "nor 'noise'"),
        ("regression", ["--target", "age", "--norms", "0,1"], "belong together"),
        ("classification", ["--columns", "age=18:100", "--target", "sex"], "classes of the target are not known"),
        ("classification", ["--columns", "age=18:100", "--target", "sex", "--classes", "f"], "two or more classes"),
        ("classification", ["--columns", "age=[0|20|40],sex=bool", "--target", "sex"], "ranges(0,20,40)"),
        ("classification", ["--columns", "age=ranges(0,20,40),sex=bool", "--target", "age"], "ranges, which are no cl"),
        ("pca", ["--n-components", "many"], "nor 'auto'"),
        ("pca", ["--center", "a"], "--center"),
    ],
)
def test_refused_before_the_table_is_opened(name: str, arguments: list[str], message: str, tmp_path: Path) -> None:
    result = pais(name, tmp_path / "missing.parquet", *arguments, "--epsilon", 1, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def test_a_coefficient_that_noise_hides_is_not_shown_as_a_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=2000)
    frame = pd.DataFrame({"a": x, "b": x + rng.normal(scale=1e-3, size=len(x)), "c": rng.uniform(size=len(x))})
    frame.assign(y=x + 5.0 * frame["c"]).to_csv(tmp_path / "rows.csv", index=False)
    stated = "a=0:1,b=0:1,c=0:1,y=0:6"
    arguments = ["--target", "y", "--columns", stated, "--epsilon", 2, "--seed", 0, "--out", tmp_path / "out"]
    result = done("regression", tmp_path / "rows.csv", *arguments)
    lines = {line.split()[0]: line for line in result.stdout.split("\n") if line.startswith((" a ", " b ", " c "))}
    assert "hidden by noise" in lines["a"]
    assert "hidden by noise" in lines["b"]
    assert "±" in lines["c"]
    table = pa_csv.read_csv(tmp_path / "out" / "coefficients.csv").to_pydict()
    assert table["hidden_by_noise"] == [True, True, False, False]
    for end in ("low", "high"):
        assert [cell is None for cell in table[end]] == table["hidden_by_noise"]


def test_numbers_in_a_printed_table_are_not_broken(people: Path, tmp_path: Path) -> None:
    out = tmp_path / "pca"
    printed = done("pca", people, *CALLS["pca"], "--epsilon", 3, "--out", out).stdout
    loadings = pa_csv.read_csv(out / "components.csv").to_pylist()
    assert len(loadings) == 8
    cells = printed[printed.index("Components") :].split()
    for line in loadings:
        shown = (f"{line['explained_variance']:.4g}", f"{line['standard_error']:.2g}", f"{line['age']:.3f}")
        assert all(text in cells or f"({text})" in cells for text in shown)
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.parametrize("name", ["component", "standard_error"])
def test_pca_refuses_the_name_of_a_column_of_its_file_before_the_charge(tmp_path: Path, book: Path, name: str) -> None:
    path = tmp_path / "rows.csv"
    pd.DataFrame({name: [1.0, 2.0], "age": [20.0, 30.0]}).to_csv(path, index=False)
    for stated in ([], ["--columns", f"{name}=0:5,age=18:100"], ["--columns", f"age,{name}"]):
        call = ("pca", path, *stated, "--epsilon", 1, "--ledger", book, "--out", tmp_path / "out")
        assert repr(name) in refused(*call)
    assert spent(book) == 0.0
