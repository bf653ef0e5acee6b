"""A certificate names the values it was issued for, and says in words what it states."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import pais
from pais.accounting.certificate import certificate_text, digest
from pais.cli.app import app

ROWS = np.random.default_rng(0).normal(size=(3000, 2))


def test_different_values_have_different_digests() -> None:
    values = [
        0.0,
        1.0,
        np.nextafter(1.0, 2.0),
        np.array([1.0]),
        np.array([[1.0]]),
        (1.0,),
        (1.0, 1.0),
        ((1.0,), 1.0),
        np.ones(2),
        "1.0",
        None,
        {"a": 1.0},
        {"b": 1.0},
        pais.KMeansValue(centers=np.ones((2, 1)), noisy_counts=np.ones(2)),
        pais.KMeansValue(centers=np.ones((1, 2)), noisy_counts=np.ones(2)),
    ]
    for one, other in itertools.combinations(values, 2):
        assert digest(one) != digest(other)


def test_digest_does_not_depend_on_memory_order_or_type() -> None:
    values = np.arange(6.0).reshape(2, 3)
    assert digest(values) == digest(np.asfortranarray(values)) == digest(values.astype(np.int16))
    assert digest(1.5) == digest(np.float64(1.5)) == digest(np.float32(1.5))


def test_values_of_an_unknown_kind_have_no_digest() -> None:
    assert digest(object()) is None
    assert digest(np.array(["text"])) is None


@pytest.mark.parametrize("ledgers", [0, 1, 2])
def test_certificate_names_its_values_and_ledger_entries(ledgers: int) -> None:
    books = [pais.Ledger(epsilon=3.0, delta=1e-5) for _ in range(ledgers)]
    plan = pais.Plan(
        ball=pais.Ball(radius=3.0),
        rule=pais.UniformRule(rate=0.5),
        mechanism=pais.WeightedSum(noise=pais.GaussianNoise(scale=60.0)),
        epsilon=2.0,
        delta=1e-6,
    )
    if ledgers == 2:
        with books[1]:
            release = pais.run(plan, ROWS, ledger=books[0])
    else:
        release = pais.run(plan, ROWS, ledger=books[0] if books else None)
    assert release.certificate.matches(release.value)
    assert not release.certificate.matches(np.asarray(release.value) + 1.0)
    assert sorted(release.certificate.ledger_entries) == sorted(entry.id for book in books for entry in book.entries)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("digest")
    np.savetxt(place / "rows.csv", ROWS, delimiter=",", header="a,b", comments="")
    arguments = ["kmeans", str(place / "rows.csv"), "--n-clusters", "2", "--epsilon", "4", "--out", str(place / "out")]
    assert CliRunner().invoke(app, [*arguments, "--seed", "1", "--quiet"]).exit_code == 0
    return place / "out"


@pytest.mark.parametrize("name", ["centers.csv", "centers.parquet"])
def test_explain_accepts_the_values_of_the_release(released: Path, name: str) -> None:
    result = CliRunner().invoke(app, ["explain", str(released / "certificate.json"), "--values", str(released / name)])
    assert result.exit_code == 0, result.output
    assert "holds the values that this certificate was issued for" in result.output.replace("\n", " ")


def test_explain_refuses_values_of_another_release(released: Path, tmp_path: Path) -> None:
    lines = (released / "centers.csv").read_text().splitlines()
    cells = lines[1].split(",")
    cells[0] = repr(float(cells[0]) + 1e-9)
    edited = tmp_path / "centers.csv"
    edited.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")
    result = CliRunner().invoke(app, ["explain", str(released / "certificate.json"), "--values", str(edited)])
    assert result.exit_code != 0
    assert "does not hold the values" in result.output.replace("\n", " ")


def test_explain_refuses_values_for_a_file_without_a_fingerprint(tmp_path: Path, released: Path) -> None:
    survey = tmp_path / "survey.json"
    rows = str(released.parent / "rows.csv")
    arguments = ["survey", rows, "--epsilon", "1", "--out", str(survey), "--seed", "1", "--quiet"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    result = CliRunner().invoke(app, ["explain", str(survey), "--values", str(released / "centers.csv")])
    assert result.exit_code != 0
    assert "no fingerprint" in result.output


def content() -> dict[str, object]:
    plan = pais.Plan(
        ball=pais.Ball(radius=1.0, order=1),
        rule=pais.UniformRule(rate=0.5),
        mechanism=pais.WeightedSum(noise=pais.laplace_noise(4.0)),
        epsilon=1.0,
    )
    return pais.run(plan, [[0.5], [0.2]], random_state=0).certificate.to_dict()


def test_a_certificate_of_a_sample_says_that_the_sample_must_stay_secret() -> None:
    assert "sample must stay secret" in certificate_text(content())


REFUND = {"what": "a refund", "epsilon": -0.5, "delta": 0.0}


@pytest.mark.parametrize(
    "change",
    [
        lambda written: {"epsilon_if_kept": 0.5 * written["epsilon"]},
        lambda written: {"epsilon": 0.1},
        lambda written: {"epsilon": written["epsilon"] - 0.5, "parts": [*written["parts"], REFUND]},
    ],
    ids=["kept for less", "parts that do not add up", "a refund"],
)
def test_a_certificate_that_contradicts_itself_is_not_put_into_words(change: Any) -> None:
    described = content()
    with pytest.raises(ValueError):  # noqa: PT011  # it has no message
        certificate_text({**described, **change(described)})
