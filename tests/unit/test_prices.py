"""Prices are checked where they are made: no negative, infinite or undefined number is ever added up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st
from typer.testing import CliRunner

import pais
from pais.accounting import Part
from pais.cli import app

BALL = pais.Ball(radius=1.0)
NORMS = pais.NormDistribution(norms=np.array([0.5]), masses=np.array([1000.0]), radius=1.0)
COUNT = pais.WeightedCount(noise=pais.laplace_noise(4.0))


def survey(**changes: Any) -> pais.Survey:
    return pais.Survey(**{"ball": BALL, "norms": NORMS, "epsilon": 0.1, "secure_randomness": True, **changes})


MAKERS: dict[str, Callable[..., Any]] = {
    "Spent": lambda **price: pais.Spent(**{"what": "a table", "epsilon": 0.1, **price}),
    "Part": lambda **price: Part(**{"what": "a table", "epsilon": 0.1, **price}),
    "Budget": lambda **price: pais.Budget(**{"epsilon": 0.1, "delta": 0.0, **price}),
    "Survey": survey,
}
BAD_EPSILONS = [-0.999, -1e-300, math.nan, math.inf, -math.inf, 1.0000001e6, True, False, np.True_, "0.1", b"1", None]
BAD_EPSILONS += [1j, [0.1], 10**400, np.timedelta64(1)]
BAD_DELTAS = [-1e-300, 1.0, 1.5, math.nan, math.inf, True, "1e-6", None]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("bad", BAD_EPSILONS, ids=repr)
def test_an_epsilon_that_is_no_price_is_refused(make: Callable[..., Any], bad: Any) -> None:
    with pytest.raises(pais.ArgumentError, match="epsilon"):
        make(epsilon=bad)


@pytest.mark.parametrize(
    "make", [MAKERS[name] for name in ("Spent", "Part", "Budget")], ids=["Spent", "Part", "Budget"]
)
@pytest.mark.parametrize("bad", BAD_DELTAS, ids=repr)
def test_a_delta_that_is_no_price_is_refused(make: Callable[..., Any], bad: Any) -> None:
    with pytest.raises(pais.ArgumentError, match="delta"):
        make(delta=bad)


@pytest.mark.parametrize("make", [MAKERS["Spent"], MAKERS["Part"]], ids=["Spent", "Part"])
@pytest.mark.parametrize("bad", ["", "two\nlines", "x" * 401, 7, None, b"bytes"], ids=repr)
def test_what_was_released_is_a_short_text(make: Callable[..., Any], bad: Any) -> None:
    with pytest.raises(pais.ArgumentError, match="what must be a text"):
        make(what=bad)


@pytest.mark.parametrize("bad", [1, 0, "True", None, np.True_], ids=repr)
def test_whether_randomness_was_secure_is_a_bool(bad: Any) -> None:
    for make in (MAKERS["Spent"], survey):
        with pytest.raises(pais.ArgumentError, match="secure_randomness must be True or False"):
            make(secure_randomness=bad)
    with pytest.raises(pais.ArgumentError, match="above_noise must be True or False"):
        survey(above_noise=bad)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("good", [0, 0.0, -0.0, 5e-324, 1, np.float32(0.5), np.int64(3), 1e6], ids=repr)
def test_a_price_becomes_a_float_that_is_not_below_it(make: Callable[..., Any], good: Any) -> None:
    price = make(epsilon=good).epsilon
    assert type(price) is float
    assert price == good
    assert math.copysign(1.0, price) == 1.0


def test_the_price_that_was_once_taken_off_a_certificate_is_refused() -> None:
    with pytest.raises(pais.ArgumentError, match=r"epsilon=-0\.999 is out of range"):
        pais.Spent(what="a refund", epsilon=-0.999)


@pytest.mark.parametrize("bad", [[], (0.5,), ({"what": "a", "epsilon": 0.1, "delta": 0.0},), None, "ab"], ids=repr)
def test_earlier_releases_are_a_tuple_of_spent(bad: Any) -> None:
    sample = pais.sample(np.ones((3, 2)), ball=BALL, rule=pais.UniformRule(rate=1.0))
    with pytest.raises(pais.ArgumentError, match="spent"):
        pais.release(COUNT, sample, spent=bad)
    assert not sample.spent
    with pytest.raises(pais.ArgumentError, match="spent"):
        pais.Plan(ball=BALL, rule=pais.UniformRule(rate=1.0), mechanism=COUNT, epsilon=1.0, spent=bad)


def test_a_release_that_costs_more_than_any_price_is_refused_and_spends_no_sample() -> None:
    sample = pais.sample(np.ones((3, 2)), ball=BALL, rule=pais.UniformRule(rate=1.0))
    with pytest.raises(pais.ArgumentError, match="out of range"):
        pais.release(pais.WeightedCount(noise=pais.laplace_noise(1e-7)), sample)
    assert not sample.spent


prices = st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e-3))


@settings(max_examples=60, deadline=None)
@given(st.lists(prices, max_size=6))
def test_a_certificate_is_never_below_the_sum_of_its_parts(earlier: list[tuple[float, float]]) -> None:
    sample = pais.sample(np.ones((3, 2)), ball=BALL, rule=pais.UniformRule(rate=1.0), random_state=0)
    spent = tuple(pais.Spent(what="earlier", epsilon=epsilon, delta=delta) for epsilon, delta in earlier)
    certificate = pais.release(COUNT, sample, spent=spent, random_state=0).certificate
    own = 0.25
    for name, total, stated in (
        ("epsilon", certificate.epsilon, [own, *(part.epsilon for part in spent)]),
        ("delta", certificate.delta, [part.delta for part in spent]),
    ):
        assert Fraction(total) >= sum(map(Fraction, stated))
        assert Fraction(total) >= sum(Fraction(part[name]) for part in certificate.parts)  # type: ignore[arg-type]
        assert all(total >= price for price in stated)


@pytest.mark.parametrize("epsilon", [1.0000001e6, 1e12])
def test_a_survey_above_the_largest_price_is_refused_before_a_row_is_read(epsilon: float) -> None:
    class Unread:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("a row was read")

    with pytest.raises(pais.ArgumentError, match="epsilon"):
        pais.survey(Unread(), epsilon=epsilon)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    rows = np.random.default_rng(3).normal(size=(4000, 2)) + 3.0
    pq.write_table(pa.table({"height": rows[:, 0], "width": rows[:, 1]}), path)
    return path


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> None:
    result = command(*arguments)
    assert result.exit_code == 0, result.output


BAD_TEXTS = ["-0.999", "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e7", '"0.1"', "true", "null", "[0.1]", "{}"]


@pytest.mark.parametrize("bad", [*BAD_TEXTS, "0", "-0.0", "1" + "0" * 400])
def test_a_survey_file_with_a_price_that_is_none_is_refused_and_nothing_is_paid(
    bad: str, data: Path, tmp_path: Path
) -> None:
    path, book, out = tmp_path / "survey.json", tmp_path / "book.json", tmp_path / "out"
    done("survey", data, "--epsilon", 0.25, "--out", path)
    done("ledger", book, "--epsilon", 5, "--delta", 1e-5)
    written = path.read_text()
    assert written.count('"epsilon": 0.25') == 1
    path.write_text(written.replace('"epsilon": 0.25', f'"epsilon": {bad}'))
    given = ("--survey", path, "--n-clusters", 3, "--epsilon", 1)
    missing = tmp_path / "there-is-no-such-file.parquet"
    for arguments in (("plan", *given), ("kmeans", missing, *given, "--ledger", book, "--out", out)):
        result = command(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        # The file is named, and not the data: it was refused before these were opened.
        assert str(path) in result.stderr
    assert pais.Ledger(path=book).entries == ()
    assert not out.exists()


@pytest.mark.parametrize("field", ["epsilon", "delta"])
@pytest.mark.parametrize("bad", BAD_TEXTS)
def test_a_plan_file_with_a_price_that_is_none_is_refused_and_nothing_is_paid(
    field: str, bad: str, data: Path, tmp_path: Path
) -> None:
    survey, path, book, out = (tmp_path / name for name in ("survey.json", "plan.json", "book.json", "out"))
    done("survey", data, "--epsilon", 0.25, "--out", survey)
    done("plan", "--survey", survey, "--n-clusters", 3, "--epsilon", 1, "--out", path)
    done("ledger", book, "--epsilon", 5, "--delta", 1e-5)
    written = json.loads(path.read_text())
    for place in (written, written["request"]["facts"]):
        place["spent"][0][field] = "BAD"
    path.write_text(json.dumps(written).replace('"BAD"', bad))
    missing = tmp_path / "there-is-no-such-file.parquet"
    for arguments in (("kmeans", missing, "--plan", path, "--ledger", book), ("sample", missing, "--plan", path)):
        result = command(*arguments, "--out", out)
        assert result.exit_code == 2, (arguments, result.output)
        assert str(path) in result.stderr
    assert pais.Ledger(path=book).entries == ()
    assert not out.exists()


@pytest.mark.parametrize("place", ["epsilon", "delta"])
@pytest.mark.parametrize("bad", BAD_TEXTS)
def test_a_plan_file_with_a_target_that_is_none_is_refused(place: str, bad: str, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    stated = ("--radius", 10, "--norms", "0,3,5,10", "--n-rows", 4000, "--n-features", 2)
    done("plan", "--n-clusters", 3, "--epsilon", 2, "--delta", 1e-7, *stated, "--out", path)
    written = json.loads(path.read_text())
    written[place] = "BAD"
    (written["request"]["facts"] if place == "epsilon" else written["request"])[place] = "BAD"
    path.write_text(json.dumps(written).replace('"BAD"', bad))
    assert command("kmeans", data, "--plan", path, "--out", tmp_path / "out").exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", [{"secure_randomness": "yes"}, {"secure_randomness": 1}, {"above_noise": None}])
def test_a_survey_file_says_true_or_false_where_it_must(change: dict[str, Any], data: Path, tmp_path: Path) -> None:
    path = tmp_path / "survey.json"
    done("survey", data, "--epsilon", 0.25, "--out", path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    result = command("plan", "--survey", path, "--n-clusters", 3, "--epsilon", 1)
    assert result.exit_code == 2
    assert "must be True or False" in result.stderr


@pytest.mark.parametrize("bad", [-0.5, True, "1"], ids=repr)
def test_a_certificate_with_a_price_that_is_none_is_not_explained(bad: Any, data: Path, tmp_path: Path) -> None:
    done("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", tmp_path / "out")
    path = tmp_path / "out" / "certificate.json"
    written = json.loads(path.read_text())
    done("explain", path)
    written["parts"].append({"what": "a refund", "epsilon": bad, "delta": 0.0})
    written["epsilon"] += float(bad)
    path.write_text(json.dumps(written))
    assert command("explain", path).exit_code == 2
