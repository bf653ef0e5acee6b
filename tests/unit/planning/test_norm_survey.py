"""The norm survey: odd tables, public structure and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pais
from pais import ArgumentError, Ball, DataError
from pais._base.lattice import WIDEST
from pais._base.randomness import SecureBits
from pais.accounting.ledger import accounts
from pais.data.sources import source
from pais.planning.facts import Stages, SurveyNoise
from pais.planning.norm_survey import survey, survey_stages
from tests.support.sampler_cases import cloud

# ---------------------------------------------------------------- what it withstands

ODD_TABLES = {
    "one row": np.ones((1, 3)),
    "three rows": np.random.default_rng(9).standard_normal((3, 2)),
    "one row many times": np.full((500, 4), 2.5),
    "zeros": np.zeros((500, 3)),
    "rows of 1e30": np.full((500, 2), 1e30),
    "rows whose squares overflow": np.full((500, 2), -1e200),
    "the largest doubles": np.full((500, 2), 1.7e308),
    "rows whose squares vanish": np.full((500, 2), 1e-300),
    "one column": np.random.default_rng(10).standard_normal((3000, 1)),
    "integers": np.random.default_rng(11).integers(-5, 5, (3000, 2)),
    "single precision": np.random.default_rng(12).standard_normal((3000, 2)).astype(np.float32),
    "booleans": np.random.default_rng(13).uniform(size=(3000, 2)) < 0.5,
}


@pytest.mark.parametrize(
    ("order", "epsilon"), [(1.0, 0.5), (2.0, 1e-6), (2.0, 0.5), (2.0, 10.0), (2.0, 1e6), (math.inf, 0.5)]
)
@pytest.mark.parametrize("name", ODD_TABLES)
def test_odd_tables_give_a_survey_without_a_warning(name: str, order: float, epsilon: float) -> None:
    rows = ODD_TABLES[name]
    for random_state in (0, None):
        found = survey(rows, epsilon=epsilon, order=order, random_state=random_state)
        assert found.ball.center is not None
        assert len(found.ball.center) == rows.shape[1]
        assert np.all(np.isfinite(found.ball.center))
        assert 0.0 < found.ball.radius < math.inf
        assert found.ball.order == order
        assert 0.0 < found.norms.n_rows < math.inf
        assert 0.0 <= found.norms.mean_square_norm <= found.ball.radius**2 * (1.0 + 1e-12)
        assert found.secure_randomness is (random_state is None)


def test_rows_that_are_all_alike_give_their_own_point_and_a_small_radius() -> None:
    found = survey(np.full((5000, 4), 2.5), epsilon=1.0, random_state=14)
    assert found.ball.center is not None
    assert found.ball.center == pytest.approx((2.5,) * 4, rel=0.05)
    assert found.ball.radius < 0.25


def test_zeros_lie_in_the_lowest_bin() -> None:
    found = survey(np.zeros((500, 3)), epsilon=1.0, center=(0.0,) * 3, random_state=15)
    assert found.ball.radius < 1e-29
    assert found.norms.n_rows == pytest.approx(500, abs=20)


def test_norms_beyond_the_last_bin_are_counted_in_it() -> None:
    found = survey(np.full((500, 2), 1e200), epsilon=1.0, center=(0.0, 0.0), random_state=16)
    assert found.ball.radius == 2.0**100
    assert found.norms.n_rows == pytest.approx(500, abs=40)


# ---------------------------------------------------------------- what it shows


def test_the_radius_is_an_edge_of_a_public_bin() -> None:
    for seed in range(5):
        position = 12.0 * math.log2(survey(cloud(seed=seed), epsilon=0.5, random_state=seed).ball.radius)
        assert abs(position - round(position)) < 1e-9


# ---------------------------------------------------------------- what it refuses


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    *(({"epsilon": epsilon}, ArgumentError, "epsilon") for epsilon in (0.0, -1.0, math.nan, math.inf, True, "1")),
    *(({"quantile": quantile}, ArgumentError, "quantile") for quantile in (0.0, 1.0, -0.1, 1.5, math.nan)),
    *(({"order": order}, ArgumentError, "order") for order in (0.5, 0.0, math.nan)),
    ({"center": (0.0, 0.0)}, DataError, "center"),
    ({"center": (math.nan,) * 5}, ArgumentError, "center"),
    ({"rows": np.empty((3, 0))}, DataError, "no columns"),
    ({"rows": np.ones(3)}, DataError, "two-dimensional"),
    ({"rows": np.array([["a"]] * 3)}, DataError, "are not numeric"),
    ({"rows": np.array([["2020-01-01"]], dtype="datetime64[D]")}, DataError, "real numbers"),
    ({"rows": np.ma.masked_array(np.ones((2, 2)), mask=np.eye(2))}, DataError, "mask"),
]


@pytest.mark.parametrize(("stated", "error", "text"), REFUSED)
def test_refusals_cost_nothing(stated: dict[str, Any], error: type[Exception], text: str) -> None:
    with pais.Ledger(epsilon=5.0) as ledger, pytest.raises(error, match=text):
        survey(**{"rows": cloud(10), "epsilon": 1.0, **stated})
    assert ledger.entries == ()


# ---------------------------------------------------------------- when it is charged


class Counted(SecureBits):
    """Bits that note how often they are drawn."""

    drawn = 0

    def raw(self, n_bytes: int) -> bytes:
        self.drawn += 1
        return super().raw(n_bytes)


def stages() -> Stages:
    return survey_stages(source(cloud(100)), SurveyNoise(epsilon=1.0), Ball(radius=WIDEST), None)


def test_no_bit_is_drawn_if_the_charge_is_refused() -> None:
    bits = Counted()
    with pytest.raises(pais.BudgetError):
        stages().run(source(cloud(100)), accounts(pais.Ledger(epsilon=0.5)), bits)
    assert bits.drawn == 0
    stages().run(source(cloud(100)), accounts(pais.Ledger(epsilon=1.0)), bits)
    assert bits.drawn > 0


def test_a_failure_in_the_first_pass_is_not_charged_and_a_later_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for function, entries in (("_first_pass", 0), ("_noisy_mean", 1)):
        ledger = pais.Ledger(epsilon=1.0)
        with monkeypatch.context() as patch:
            patch.setattr(f"pais.planning.norm_survey.{function}", failing)
            with pytest.raises(KeyboardInterrupt):
                survey(cloud(5000), epsilon=1.0, ledger=ledger)
        assert len(ledger.entries) == entries
