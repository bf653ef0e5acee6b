"""The commands of the one-line statistics."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import pais as package
from tests.support.commands import done, pais, refused, strict_json

COLUMNS = "age=18:100,premium=bool"
REGIONS = "region=[north|south]"
NAMES = ["mean", "sum", "count", "variance", "covariance", "describe", "histogram", "quantile"]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(package.example_people(400, random_state=0), path)
    return path


def test_describe_takes_a_list_of_statistics(people: Path, tmp_path: Path) -> None:
    out = tmp_path / "several.json"
    done("describe", people, "--columns", COLUMNS, "--statistics", "count, mean", "--epsilon", 1, "--out", out)
    values = strict_json(out.read_text())["values"]
    assert list(dict.fromkeys(value["row"] for value in values)) == ["count", "mean"]
    assert "mode is not a list" in refused(
        "describe", people, "--columns", COLUMNS, "--statistics", "mode", "--epsilon", 1
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_statistic_is_printed_with_its_guarantee(people: Path, name: str) -> None:
    result = done(name, people, "--columns", "age=18:100,income=0:200000", "--epsilon", 1)
    assert "epsilon 1, delta" in result.stdout
    assert "one row added or removed" in result.stdout
    assert ("±" if name == "describe" else "95 %") in result.stdout


@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning")
@pytest.mark.parametrize("name", NAMES)
def test_every_statistic_is_written_and_explained(people: Path, name: str, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    arguments = ["--columns", "age=18:100", "--by", REGIONS, "--unit", "customer_id", "--epsilon", 0.5, "--out", out]
    result = done(name, people, *arguments, "--json")
    content = strict_json(out.read_text())
    assert content == strict_json(result.stdout)
    assert content["kind"] == "statistic"
    assert content["certificate"]["epsilon"] <= 0.5
    assert content["certificate"]["neighbours"] == "one customer_id added or removed"
    assert {value["region"] for value in content["values"]} == {"north", "south"}
    for value in content["values"]:
        assert value["low"] <= value["value"] <= value["high"]
        assert value["standard_error"] >= 0.0
    explained = done("explain", out)
    assert explained.stdout.startswith("This is a released statistic: ")
    assert "one customer_id added or removed" in explained.stdout
    assert strict_json(pais("explain", out, "--json").stdout)["kind"] == "statistic"
    assert "--overwrite" in refused(name, people, *arguments)


def test_a_statistic_is_written_as_a_page(people: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "describe.html"
    done("describe", people, "--columns", COLUMNS, "--epsilon", 1, "--out", out)
    page = out.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "<h1>Private description</h1>" in page


@pytest.mark.parametrize("ending", ["csv", "parquet", "CSV"])
def test_a_statistic_is_written_as_a_table_with_its_certificate_beside_it(
    people: Path, tmp_path: Path, ending: str
) -> None:
    out, certificate = tmp_path / f"means.{ending}", tmp_path / "means.certificate.json"
    arguments = ["mean", people, "--columns", COLUMNS, "--by", REGIONS, "--epsilon", 1, "--out", out]
    result = done(*arguments, "--json")
    content = strict_json(result.stdout)
    table = pq.read_table(out) if ending == "parquet" else pa_csv.read_csv(out)
    assert table.column_names == ["region", "column", "value", "standard_error", "low", "high"]
    assert table.to_pylist() == content["values"]
    assert strict_json(certificate.read_text()) == content["certificate"]
    assert "one row added or removed" in pais("explain", certificate).stdout
    explained = pais("explain", out).stdout
    assert explained.startswith("This is a released statistic: ")
    assert "pais explain means.certificate.json" in explained
    out.unlink()
    assert f"{certificate} exists" in refused(*arguments)


@pytest.mark.parametrize("name", ["means.txt", "means", "means.xlsx"])
def test_other_endings_are_refused_before_anything_is_paid(people: Path, tmp_path: Path, name: str) -> None:
    ledger = tmp_path / "ledger.json"
    done("ledger", ledger, "--epsilon", 1)
    arguments = ["--columns", COLUMNS, "--epsilon", 1, "--ledger", ledger, "--out", tmp_path / name]
    assert "Pass a file that ends in .json, .csv, .parquet or .html" in refused("mean", people, *arguments)
    assert strict_json(pais("ledger", ledger, "--json").stdout)["spent"]["epsilon"] == 0
    assert not (tmp_path / name).exists()


def test_values_are_those_of_the_function(people: Path) -> None:
    result = pais("mean", people, "--columns", COLUMNS, "--by", REGIONS, "--epsilon", 1, "--seed", 3, "--json")
    assert "NOT PRIVATE" in result.stderr
    content = strict_json(result.stdout)
    columns = {"age": (18, 100), "premium": bool}
    expected = package.mean(people, columns, by={"region": ["north", "south"]}, epsilon=1.0, random_state=3)
    assert [value["value"] for value in content["values"]] == expected.value.to_numpy().ravel().tolist()
    assert [(value["region"], value["column"]) for value in content["values"]] == [
        ("north", "age"),
        ("north", "premium"),
        ("south", "age"),
        ("south", "premium"),
    ]
    assert content["certificate"]["secure_randomness"] is False


def test_groups_can_be_stated_among_the_columns(people: Path) -> None:
    result = pais("count", people, "--columns", REGIONS, "--by", "region", "--epsilon", 1, "--json")
    assert [value["region"] for value in strict_json(result.stdout)["values"]] == ["north", "south"]


def test_rows_are_counted_without_columns_in_csv_files_of_any_dialect(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n" + "1,5;x\n" * 500 + ";y\n" * 500)
    result = done("count", path, "--epsilon", 20, "--separator", ";", "--decimal", ",", "--json")
    assert strict_json(result.stdout)["values"][0]["value"] == pytest.approx(1000, abs=5)
    arguments = ["--separator", ";", "--decimal", ",", "--columns", "a=0:10", "--epsilon", 20, "--json"]
    mean = pais("mean", path, *arguments, "--engine", "memory")
    assert strict_json(mean.stdout)["values"][0]["value"] == pytest.approx(1.5, abs=0.1)


def test_quantiles_have_levels_and_steps_and_histograms_have_bins_or_edges(people: Path) -> None:
    wanted = (people, "--columns", "age=18:100", "--epsilon", 1, "--json")
    values = strict_json(done("quantile", *wanted, "--q", "0.25,0.5", "--step", 1).stdout)["values"]
    assert [value["quantile"] for value in values] == ["0.25", "0.5"]
    assert all(value["value"] % 1 == 0 for value in values)
    for bins, n_bins in (("4", 4), ("18,30,60,100", 3)):
        assert len(strict_json(done("histogram", *wanted, "--bins", bins).stdout)["values"]) == n_bins


def test_dates_are_text_in_json_and_in_tables_beside_numbers(people: Path, tmp_path: Path) -> None:
    dates, out = "joined=2000-01-01:2030-01-01", tmp_path / "means.csv"
    value = strict_json(done("mean", people, "--columns", dates, "--epsilon", 5, "--json").stdout)["values"][0]
    assert value["low"] <= value["value"] <= value["high"]
    assert str(value["value"]).startswith("20")
    for columns in (dates, f"{dates},age=18:100"):
        done("describe", people, "--columns", columns, "--epsilon", 5, "--out", out, "--overwrite")
        assert pa_csv.read_csv(out).num_rows > 0


def test_a_ledger_is_charged(people: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.json"
    done("ledger", ledger, "--epsilon", 1)
    arguments = ["--columns", "age=18:100", "--epsilon", 0.75, "--ledger", ledger]
    done("quantile", people, *arguments)
    assert "epsilon" in refused("mean", people, *arguments, code=3)
    assert strict_json(pais("ledger", ledger, "--json").stdout)["spent"]["epsilon"] == 0.75


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mean", "--columns", "age"], "states nothing about 'age'"),
        (["mean"], "at least one column"),
        (["mean"], "--columns age=18:100"),
        (["mean", "--columns", "age=/10"], "needs bounds, and a number states a scale"),
        (["mean", "--columns", "age=18:100", "--by", "region", "--delta", 0], "delta=0 forbids"),
        (["mean", "--columns", "age=18:100", "--by", "income=auto"], "such as --by 'income=ranges("),
        (["mean", "--columns", "age=18:100", "--by", "age"], "such as --by 'age=ranges("),
        (["mean", "--columns", "age=18:100", "--by", "region,region"], "--by"),
        (
            ["mean", "--columns", f"age=18:100,{REGIONS}", "--by", REGIONS],
            "'region' occurs twice",
        ),
        (["mean", "--columns", "age=18:100", "--by", "region=[north,south]"], "--by lists categories of 'region'"),
        (["mean", "--columns", "age=18:100", "--by", "region=north"], "--by states something about 'region'"),
        (["mean", "--columns", "region=[north:south]"], "with colons. Write 'region=[north|south]'"),
        (["mean", "--columns", "age=100:18"], "Write low:high with low < high"),
        (["mean", "--columns", "age=18:100", "--sample-size", "10"], "--sampling constrained"),
        (["mean", "--columns", "age=18:100", "--epsilon", "-1"], "number > 0"),
        (["mean", "--columns", "age=18:100", "--epsilon", "0"], "number > 0"),
        (["mean", "--columns", "height=0:3"], "do not exist"),
        (["quantile", "--columns", "age=18:100", "--q", "0.5,x"], "--q"),
        (["quantile", "--columns", "age=18:100", "--q", "1.5"], "q"),
        (["histogram", "--columns", "age=18:100", "--bins", "many"], "--bins"),
        (["mean", "--columns", "age=18:100", "--quiet"], "--quiet"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(people: Path, arguments: list[str], words: str) -> None:
    name, *more = arguments
    result = pais(name, people, "--epsilon", 1, *more)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("name", NAMES)
def test_statistics_by_ranges_and_years(people: Path, name: str) -> None:
    groups = "age=ranges(18,40,100),joined=years(2010-01-01,2011-12-31)"
    result = done(name, people, "--columns", "income=0:200000", "--by", groups, "--epsilon", 50, "--json")
    values = strict_json(result.stdout)["values"]
    found = {(value["age"], value["joined"]) for value in values}
    assert found == {(age, year) for age in ("18 to 40", "40 to 100") for year in ("2010", "2011")}


@pytest.mark.parametrize("by", ["region", "region=names()", "region=names(strip,casefold,NFC)", "region,premium=bool"])
def test_groups_that_nobody_listed_are_found(tmp_path: Path, by: str) -> None:
    path = tmp_path / "people.csv"
    pa_csv.write_csv(package.example_people(3000, random_state=0), path)
    result = strict_json(done("count", path, "--by", by, "--epsilon", 2, "--json").stdout)
    found = {value["region"] for value in result["values"]}
    assert "other" in found
    assert len(found) > 2
    assert result["certificate"]["delta"] > 0.0
    assert "is probably not shown" in " ".join(result["notes"])


def test_groups_without_a_list_need_delta_and_known_options(people: Path) -> None:
    assert "delta=0 forbids" in refused("count", people, "--by", "region", "--epsilon", 1, "--delta", 0)
    assert "Write strip" in refused("count", people, "--by", "region=names(trim)", "--epsilon", 1)
    zero = ("--columns", "age=18:100", "--by", "region", "--epsilon", 1, "--delta", 0)
    assert "delta=0 forbids" in refused("quantile", people, *zero)


def test_names_of_people_and_the_most_frequent_names(people: Path) -> None:
    """The unit belongs to the open source here, so that people are protected, not rows."""
    who = ["--by", "region", "--unit", "customer_id", "--epsilon", 2]
    mean = done("mean", people, "--columns", "age=18:100", *who)
    assert "one customer_id added or removed" in mean.stdout
    few = strict_json(done("count-people", people, *who, "--max-groups-per-unit", 1, "--json").stdout)
    assert "of a customer in more than one group, one counts" in few["about"]
    assert "Pass a positive integer" in refused("count-people", people, *who, "--max-groups-per-unit", 0)
    content = strict_json(done("top", people, *who, "--k", 2, "--json").stdout)
    values = [value["value"] for value in content["values"]]
    assert len(values) == 2
    assert values == sorted(values, reverse=True)
    assert content["certificate"]["neighbours"] == "one customer_id added or removed"
    rows = strict_json(done("top", people, "--by", "region", "--epsilon", 2, "--json").stdout)
    assert rows["certificate"]["neighbours"] == "one row added or removed"
    assert "--by" in refused("top", people, "--epsilon", 1)


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("regions") / "people.csv"
    pa_csv.write_csv(package.example_people(3000, random_state=0), path)
    return path


def test_quantiles_by_groups_and_shares_of_categories_that_nobody_listed(regions: Path) -> None:
    options = ("--columns", "age=18:100", "--by", "region", "--epsilon", 2, "--delta", 1e-6, "--json")
    medians = strict_json(done("quantile", regions, *options).stdout)
    assert {"north", "south", "other"} <= {value["region"] for value in medians["values"]}
    assert medians["certificate"]["delta"] == 1e-6
    shares = strict_json(done("mean", regions, "--columns", "region=names(strip)", "--epsilon", 2, "--json").stdout)
    assert {value["column"] for value in shares["values"]} >= {"region=north", "region=other"}


def test_models_find_categories_and_refuse_auto_on_the_text_of_a_csv(regions: Path, tmp_path: Path) -> None:
    columns, options = "age=18:100,region=names()", ("--epsilon", 2, "--unit", "customer_id")
    for command, more in (
        ("kmeans", ("--n-clusters", 3)),
        ("pca", ()),
        ("regression", ("--target", "age")),
        ("classification", ("--target", "premium")),
    ):
        stated = f"{columns},premium=bool" if command == "classification" else columns
        out = tmp_path / command
        done(command, regions, "--columns", stated, *options, *more, "--out", out)
        assert "names that were found privately" in (out / "report.html").read_text()
        refusal = refused(
            command,
            regions,
            "--columns",
            stated.replace("names()", "auto"),
            *options,
            *more,
            "--out",
            out,
            "--overwrite",
        )
        assert "--columns 'region=names()'" in " ".join(refusal.split())
    assert re.search(r"region: [0-9.]+ % missing", done("check", regions, "--columns", columns).stdout)
