"""`pais.audit` by replay: targets, tables, what it finds and says, and what it leaves as it was."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pais
from pais._base.lattice import TAPE, Lattice
from pais._base.randomness import bit_source
from pais._base.threads import in_threads
from pais.auditing.replay import replay, visible
from pais.mechanisms.noise import GaussianNoise
from tests.support.kept import kept_with

ALL_ROWS = pais.UniformRule(rate=1.0)
BALL, L1_BALL = pais.Ball(radius=1.0), pais.Ball(radius=1.0, order=1.0)
RNG = np.random.default_rng(0)
ROWS = RNG.uniform(-1.0, 1.0, size=(60, 2)) / 2.0
PAIR = pais.NeighbourPair.of([1.0, 0.0], ROWS)
COLUMNS = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}


def frame(rows: Any) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["x", "y"])


PRESENT, ABSENT = frame(np.vstack([ROWS, [[1.0, 1.0]]])), frame(ROWS)


def gradient(noise: float, *, bound: float = 1.0) -> pais.VectorSum:
    return pais.VectorSum(
        vectors=lambda rows: rows[:, :1] * 3.0, bound=bound, noise=pais.gaussian_noise(noise), n_features=2
    )


def steps(n_rounds: int) -> pais.AdaptiveRounds:
    def step(values: tuple[Any, ...]) -> pais.Mechanism:
        center = np.mean(values) / 60.0 if values else 0.0
        return pais.VectorSum(
            vectors=lambda rows: np.clip(rows[:, :1] - center, -1.0, 1.0),
            bound=1.0,
            noise=pais.gaussian_noise(8.0),
            n_features=2,
        )

    return pais.AdaptiveRounds(step=step, n_rounds=n_rounds)


# Mechanism, rule, ball and delta.
MECHANISMS: dict[str, tuple[pais.Mechanism, pais.Rule, pais.Ball, float]] = {
    "vector sum": (gradient(4.0), ALL_ROWS, BALL, 1e-5),
    "adaptive rounds": (steps(4), ALL_ROWS, BALL, 1e-5),
    "sum of all rows": (pais.WeightedSum(noise=pais.laplace_noise(2.0)), ALL_ROWS, L1_BALL, 0.0),
    "sampled sum": (pais.WeightedSum(noise=pais.laplace_noise(20.0)), pais.UniformRule(rate=0.1), L1_BALL, 0.0),
    "sampled Gaussian sum": (
        pais.WeightedSum(noise=pais.gaussian_noise(20.0)),
        pais.UniformRule(rate=0.2),
        BALL,
        1e-5,
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_uses_its_whole_price_and_no_more(name: str) -> None:
    mechanism, rule, ball, delta = MECHANISMS[name]
    report = pais.audit(mechanism, rule=rule, ball=ball, delta=delta)
    assert not report.violates, str(report)
    assert 0.99 < report.used <= 1.0 + 1e-9
    assert report.lower_bound == pytest.approx(report.epsilon, rel=0.01)
    assert (report.sampled > 0) == name.startswith("sampled")
    assert (report.kept > 0) == name.startswith("sampled")
    # A smaller claim is refuted.
    refuted = pais.audit(mechanism, rule=rule, ball=ball, delta=delta, epsilon=0.9 * report.epsilon)
    assert refuted.violates
    assert refuted.lower_bound == pytest.approx(report.lower_bound)


@dataclass(frozen=True, kw_only=True)
class Unaccounted(pais.Joint):
    """Two releases on one sample that state the price of one."""

    @property
    def profile(self) -> Any:
        return self.parts[0].profile


@dataclass(frozen=True, kw_only=True)
class UnderstatedProfile(pais.WeightedSum):
    """A profile that is too small for records of a middle norm alone."""

    @property
    def profile(self) -> Any:
        return pais.CustomProfile(lambda weight, norm: weight * np.where(norm < 0.9, 0.5 * norm, norm) / 2.0)


@dataclass(frozen=True, kw_only=True)
class Heavier(pais.WeightedSum):
    """Weights that are 1.5 times those of the sample."""

    def measure(self, content: Any, ball: Any, bits: Any) -> Any:
        return super().measure(replace(content, weights=1.5 * content.weights), ball, bits)


@dataclass(frozen=True, kw_only=True)
class Centered(pais.WeightedSum):
    """The mean of the rows is subtracted after the noise is added."""

    def measure(self, content: Any, ball: Any, bits: Any) -> Any:
        rows = content.rows
        return super().measure(content, ball, bits) - rows.mean(axis=0)


@dataclass(frozen=True, kw_only=True)
class ScaleOfTheRows(pais.WeightedSum):
    """The largest row decides how much noise is added."""

    def measure(self, content: Any, ball: Any, bits: Any) -> Any:
        largest = float(np.abs(content.rows).max(initial=0.1))
        quiet = replace(self, noise=pais.laplace_noise(2.0 * largest))
        return pais.WeightedSum.measure(quiet, content, ball, bits)


@dataclass(frozen=True, kw_only=True)
class OneMoreDraw(pais.WeightedSum):
    """A second sum if there are many rows."""

    def measure(self, content: Any, ball: Any, bits: Any) -> Any:
        if len(content.rows) % 2:
            super().measure(content, ball, bits)
        return super().measure(content, ball, bits)


SUM = pais.WeightedSum(noise=pais.laplace_noise(2.0))
UNDERSTATED = UnderstatedProfile(noise=pais.laplace_noise(2.0))
SOME_ROWS = pais.UniformRule(rate=0.7)
FAULTS: dict[str, tuple[pais.Mechanism, pais.Rule, str]] = {
    "two releases, one price": (Unaccounted(parts=(SUM, SUM)), ALL_ROWS, "moves the totals by more"),
    "profile too small at middle norms": (
        UNDERSTATED,
        pais.ConstrainedRule(profile=UNDERSTATED.profile, radius=1.0, epsilon=0.5),
        "moves the totals by more",
    ),
    "weights above the rule": (
        Heavier(noise=pais.laplace_noise(8.0)),
        pais.UniformRule(rate=0.5),
        "moves the totals by more",
    ),
    "values": (Centered(noise=pais.laplace_noise(2.0)), SOME_ROWS, "DIFFERS  record"),
    "scale of the noise": (
        ScaleOfTheRows(noise=pais.laplace_noise(2.0)),
        SOME_ROWS,
        "the scales of LpNoise noise differ",
    ),
    "number of draws": (OneMoreDraw(noise=pais.laplace_noise(2.0)), SOME_ROWS, "draws on one table"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_own_mechanisms_are_found_and_put_into_words(fault: str) -> None:
    mechanism, rule, words = FAULTS[fault]
    report = pais.audit(mechanism, rule=rule, ball=L1_BALL)
    assert report.violates
    assert "VIOLATED" in str(report)
    assert words in str(report)


@pytest.mark.parametrize(
    "model",
    [
        pais.DPKMeans(n_clusters=2),
        pais.DPKMeans(n_clusters=2, mechanism="l2", radius=1.0),
        pais.DPPCA(n_components=1),
        pais.DPLinearRegression(),
        pais.DPLogisticRegression(classes=[0, 1]),
        pais.DPLinearRegression(columns=COLUMNS, target="y"),
        pais.DPKMeans(
            n_clusters=2,
            columns={"x": (0, 9), "c": ["a", "b"], "p": bool, "day": ("2024-01-01", "2024-12-31"), "z": "auto"},
            unit="who",
        ),
    ],
    ids=["k-means", "pure k-means", "pca", "regression", "classification", "named columns", "people"],
)
def test_a_fit_is_replayed_on_proposed_tables(model: Any) -> None:
    report = pais.audit(model)
    assert not report.violates, str(report)
    assert report.target == f"a fit of {type(model).__name__}"
    assert report.pairs == 2
    assert report.epsilon == pytest.approx(1.0)
    assert 0.3 < report.used <= 1.0 + 1e-9
    assert not hasattr(model, "certificate_")


class Counted(pais.DPKMeans):
    """The exact number of rows reaches a warning, the output, an attribute or an error."""

    leak = ""

    def fit(self, X: Any, y: object = None) -> pais.DPKMeans:
        if self.leak == "warnings":
            warnings.warn(f"{len(X)} rows", RuntimeWarning, stacklevel=2)
        if self.leak == "output":
            print(len(X))
        if self.leak == "outcome" and len(X) > 60:
            raise ZeroDivisionError("too many rows")
        super().fit(X)
        self.n_rows_ = len(X) if self.leak == "attributes" else 0
        return self


@pytest.mark.parametrize("leak", ["", "warnings", "output", "outcome", "attributes"])
def test_what_a_fit_shows_beside_its_values_is_compared(leak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "leak", leak)
    report = pais.audit(Counted(n_clusters=2), pair=PAIR)
    assert report.violates == bool(leak)
    assert any(leak in text for text in report.differences) == bool(leak)
    assert leak == "outcome" or all(leak in text for text in report.differences)


def mean(table: Any, seed: Any) -> Any:
    return pais.mean(table, columns=COLUMNS, epsilon=1.0, random_state=seed)


def released_sum(table: Any, seed: Any) -> Any:
    drawn = pais.sample(np.asarray(table), ball=L1_BALL, rule=pais.UniformRule(rate=0.5), random_state=seed)
    return pais.release(pais.WeightedSum(noise=pais.laplace_noise(4.0)), drawn, random_state=seed)


@pytest.mark.parametrize("unit", [None, "who"])
def test_the_chance_found_in_the_sample_is_that_of_the_plan(unit: str | None) -> None:
    def fit(table: Any, seed: Any) -> Any:
        norms = pais.NormDistribution.from_histogram([0.0, 0.4, 1.0], [20.0, 11.0])
        stated = {"columns": ["x", "y"], "unit": unit, "radius": 1.0, "center": (0.0, 0.0), "norms": norms}
        return pais.DPKMeans(n_clusters=2, sample_size=15, random_state=seed, **stated).fit(table)

    absent = ABSENT.assign(who=np.arange(60) // 2)
    record = frame([[0.3, 0.1]] * (1 if unit is None else 4)).assign(who=99)
    report = pais.audit(fit, method="replay", pair=(pd.concat([absent, record], ignore_index=True), absent))
    assert report.kept > 0
    assert not report.violates, str(report)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = kept_with(record if unit else record[["x", "y"]])(fit(absent, 0))
    assert 0.0 < expected < 1.0
    assert report.probability == pytest.approx(expected, rel=1e-9)


def test_a_sample_that_dropped_the_record_must_not_move() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Peeks(pais.WeightedSum):
        """It adds a row that the sample does not hold."""

        extra: float = 0.0

        def measure(self, content: Any, ball: Any, bits: Any) -> Any:
            lattice = self.noise.lattice
            total = lattice.encode(np.full((1, 2), self.extra))
            return lattice.decode(self.noise.added_to(total, lattice, bits)[0])

    def call(table: Any, seed: Any) -> Any:
        mechanism = Peeks(noise=pais.laplace_noise(1e6), extra=float(len(table)) if leaks else 1.0)
        drawn = pais.sample(np.asarray(table), ball=L1_BALL, rule=pais.UniformRule(rate=0.01), random_state=seed)
        return pais.release(mechanism, drawn, random_state=seed)

    leaks = False
    assert not replay(call, PRESENT, ABSENT, epsilon=1.0, seeds=(0,)).differences
    leaks = True
    report = replay(call, PRESENT, ABSENT, epsilon=1.0, seeds=(0,))
    assert report.violates
    assert report.differences == ("totals of the sample, although the sample does not hold the record",)


def test_a_sample_of_other_rows_is_a_difference() -> None:
    def call(table: Any, seed: Any) -> Any:
        return released_sum(table, seed + len(table))

    report = replay(call, PRESENT, ABSENT, epsilon=10.0, seeds=(0,))
    assert any("the sample holds other rows" in text for text in report.differences)


def test_several_samples_in_one_call_are_refused() -> None:
    def call(table: Any, seed: Any) -> Any:
        released_sum(table, seed)
        return released_sum(table, seed)

    with pytest.raises(pais.ArgumentError, match="more than one sample"):
        replay(call, PRESENT, ABSENT, epsilon=1.0)


def noisy_size(table: Any, seed: Any) -> float:
    totals = np.array([[len(table)]])
    return float(GaussianNoise(scale=3.0).added_to(totals, Lattice(step=1.0), bit_source(seed))[0, 0])


def test_draws_in_threads_of_the_package_are_on_the_tape() -> None:
    def call(table: Any, seed: Any) -> Any:
        return sum(in_threads(lambda task: noisy_size(table, seed), range(8)))

    report = replay(call, PRESENT, ABSENT, epsilon=10.0, delta=1e-3, seeds=(0,))
    assert report.draws == 8
    assert not report.violates, str(report)
    assert report.moves[0].shift == pytest.approx(8**0.5 / 3.0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_no_tape_is_left_on_by_an_error(error: type[BaseException]) -> None:
    def call(table: Any, seed: Any) -> Any:
        noisy_size(table, seed)
        assert TAPE.get() is not None
        raise error("stop")

    with pytest.raises(pais.ArgumentError if error is ValueError else error):
        replay(call, PRESENT, ABSENT, epsilon=1.0)
    assert TAPE.get() is None


def test_pushes_reach_both_signs_and_large_values_of_every_total() -> None:
    noisy: list[Any] = []

    def call(table: Any, seed: Any) -> Any:
        totals = np.zeros((1, 4), dtype=np.int64)
        noisy.append(GaussianNoise(scale=2.0).added_to(totals, Lattice(step=1.0), bit_source(seed))[0])
        return 0.0

    replay(call, PRESENT, ABSENT, epsilon=1.0, delta=1e-3, seeds=(0,))
    values = np.array(noisy)
    assert np.all(values.max(axis=0) > 1e4)
    assert np.all(values.min(axis=0) < -1e4)
    assert np.any(np.abs(values) < 10.0)


def test_choices_are_pushed_to_both_ends() -> None:
    def call(table: Any, seed: Any) -> Any:
        result = pais.quantile(table, columns={"x": (-1.0, 1.0)}, epsilon=1.0, random_state=seed)
        values.append(float(result.value))
        return result

    values: list[float] = []
    report = replay(call, PRESENT[["x"]], ABSENT[["x"]], seeds=(0,))
    assert not report.violates, str(report)
    assert min(values) < -0.5 < 0.5 < max(values)


def test_active_ledgers_are_not_charged_and_own_ledgers_are_compared() -> None:
    active = pais.Ledger(epsilon=0.1)

    def call(table: Any, seed: Any) -> Any:
        own = pais.Ledger(epsilon=5.0)
        return pais.mean(table, columns=COLUMNS, epsilon=1.0, ledger=own, random_state=seed), own

    with active:
        pais.audit(pais.DPKMeans(n_clusters=2, ledger=active), pair=PAIR)
        report = pais.audit(call, method="replay", pair=(PRESENT, ABSENT), epsilon=1.0)
    assert active.entries == ()
    assert not report.violates, str(report)

    def told(table: Any, seed: Any) -> Any:
        own = pais.Ledger(epsilon=5.0)
        own.spend(what=f"a look at {len(table)} rows", epsilon=0.1)
        return mean(table, seed), own

    leaked = pais.audit(told, method="replay", pair=(PRESENT, ABSENT), epsilon=1.0)
    assert any("entries" in text for text in leaked.differences)


def fitted(kind: type[Any], **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(columns=COLUMNS, random_state=0, **settings).fit(PRESENT)


RESULTS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "k-means": (lambda: fitted(pais.DPKMeans, n_clusters=2), {"centers_frame", "elbow_"}),
    "regression": (lambda: fitted(pais.DPLinearRegression, target="y"), {"coefficients_frame"}),
    "pca": (lambda: fitted(pais.DPPCA, n_components=1), {"components_frame"}),
    "mean": (lambda: mean(PRESENT, 0), {"to_frame", "value", "standard_error", "released", "text"}),
    "description": (lambda: pais.describe(PRESENT, columns=COLUMNS, random_state=0), {"to_frame", "text"}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RESULTS)
def test_everything_that_a_reader_can_get_is_compared(name: str) -> None:
    make, own = RESULTS[name]
    result = make()
    seen = visible(result)
    shared = {"explain", "page", "_repr_html_", "repr", "text"}
    assert shared | own <= set(seen)
    assert {"certificate", "certificate_"} & set(seen)
    assert {"plan", "plan_"} & set(seen)
    assert not [text for text in seen.values() if text.startswith(("TypeError", "KeyError"))]
    assert "<html" in seen["page"]


def released(value: Any) -> pais.MeanValue:
    return pais.MeanValue(noisy_mean=value, noisy_count=0.0, noisy_sum=value)


def test_the_last_bit_of_a_value_is_compared() -> None:
    value = np.full(2000, 0.1)
    near = value.copy()
    near[1500] = np.nextafter(0.1, 1.0)
    for wrap in (np.asarray, pd.Series, tuple, lambda part: {"a": part}, released):
        assert visible(wrap(value)) != visible(wrap(near))


def test_report_as_text_and_json() -> None:
    report = pais.audit(SUM, rule=ALL_ROWS, ball=L1_BALL)
    assert "Not refuted" in str(report)
    assert "does not see the law of the noise" in " ".join(str(report).split())
    described = json.loads(report.to_json())
    assert described["violates"] is False
    assert described["lower_bound"] == report.lower_bound == pytest.approx(0.5)
    assert described["pairs"] == report.pairs
    assert len(described["moves"]) == report.transcripts


def test_a_plan_with_a_survey_is_held_to_what_is_left_for_the_release() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = pais.DPKMeans(n_clusters=2, columns=COLUMNS, random_state=0).fit(PRESENT).plan_
    assert plan.survey_shift > 0.0
    report = pais.audit(plan)
    assert report.delta == plan.release_delta < plan.delta
    assert not report.violates, str(report)
    assert report.used > 0.8


def function(rows: Any, generator: Any) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (SUM, {"method": "guess"}, "method='guess' is not known"),
        (SUM, {"rule": ALL_ROWS, "ball": L1_BALL, "runs": 20}, "runs is for method='runs'"),
        (SUM, {"rule": ALL_ROWS, "ball": L1_BALL, "statistic": float}, "statistic is for method='runs'"),
        (SUM, {"rule": ALL_ROWS}, "ball= and rule="),
        (pais.DPKMeans(), {"ball": BALL}, "leave them out"),
        (pais.DPKMeans(), {"method": "runs"}, "does not take an estimator"),
        (pais.DPKMeans(), {"pair": PRESENT}, "no pair of tables"),
        (pais.DPKMeans(columns=["x"]), {}, "Pass pair="),
        (pais.DPLinearRegression(columns={"x": (0, 1)}), {}, "does not state what its target holds"),
        (pais.DPKMeans(n_clusters=-1), {"pair": PAIR}, "fails on both tables .*n_clusters"),
        (pais.DPKMeans(), {"random_state": np.random.default_rng(0)}, "the same seed on both tables"),
        (function, {"method": "replay"}, "pair is missing"),
        (function, {"method": "replay", "pair": PAIR}, "has no certificate"),
    ],
)
def test_refusals(target: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pais.ArgumentError, match=message):
        pais.audit(target, **options)


def draws_of(*laws: Any) -> Callable[[Any, Any], Any]:
    """A call that adds the number of rows once with each noise law."""

    def call(table: Any, random_state: Any) -> list[float]:
        bits, lattice = bit_source(random_state), Lattice(step=1.0)
        return [float(law.added_to(np.full((1, 1), len(table)), lattice, bits)[0, 0]) for law in laws]

    return call


def test_a_claim_with_a_delta_is_not_refuted_by_a_sum_of_pure_losses() -> None:
    """A hundred counts at epsilon 0.05 have epsilon 2.2198 at delta 1e-6 together, by the package's own accountant."""
    counts = draws_of(*[pais.LpNoise(scale=20.0)] * 100)
    report = pais.audit(counts, method="replay", pair=(PRESENT, ABSENT), epsilon=2.221, delta=1e-6)
    assert not report.violates, str(report)
    assert report.lower_bound <= 2.2198
    # Without a delta, only the sum is right.
    exact = pais.audit(counts, method="replay", pair=(PRESENT, ABSENT), epsilon=4.9, delta=0.0)
    assert exact.violates
    assert exact.lower_bound == pytest.approx(5.0)


def test_the_bound_of_mixed_noise_is_below_its_exact_epsilon() -> None:
    """A shift of 0.2 and a loss of 0.5 have epsilon 1.3037 at delta 1e-6, by quadrature."""
    mixed = draws_of(GaussianNoise(scale=5.0), pais.LpNoise(scale=2.0))
    report = pais.audit(mixed, method="replay", pair=(PRESENT, ABSENT), epsilon=1.32, delta=1e-6)
    assert not report.violates, str(report)
    assert report.lower_bound <= 1.3037


def test_a_leak_is_never_a_small_number_and_is_shown_first() -> None:
    def leaks(table: Any, random_state: Any) -> Any:
        print(f"{len(table)} rows")
        return pais.mean(table, columns=COLUMNS, epsilon=1.0, random_state=random_state)

    report = pais.audit(leaks, method="replay", pair=(PRESENT, ABSENT))
    assert report.used == float("inf")
    assert report.transcripts > 0
    assert json.loads(report.to_json())["used"] == "infinity"
    lines = str(report).splitlines()
    assert lines[1].strip().startswith("VIOLATED")
    assert "output" in lines[2]


def test_runs_that_end_in_an_error_are_counted_and_noise_from_elsewhere_is_named() -> None:
    def refuses(table: Any, random_state: Any) -> Any:
        if random_state == 1:
            raise pais.ArgumentError("no")
        return pais.mean(table, columns=COLUMNS, epsilon=1.0, random_state=random_state)

    assert "ended in an error" in str(pais.audit(refuses, method="replay", pair=(PRESENT, ABSENT), random_state=0))

    def elsewhere(table: Any, random_state: Any) -> float:
        return float(len(table) + np.random.default_rng(random_state).laplace(scale=1.0))

    report = pais.audit(elsewhere, method="replay", pair=(PRESENT, ABSENT), epsilon=1.0, delta=0.0)
    assert 'use method="runs"' in str(report)


def test_a_release_inside_an_audit_is_marked_and_one_after_it_is_charged() -> None:
    """A task that a call starts has the tape of the audit, which is closed when the run ends."""
    ledger, tasks, inside = pais.Ledger(epsilon=100.0), [], []

    async def later() -> Any:
        await asyncio.sleep(0.01)
        return pais.count(ABSENT)

    def call(table: Any, _: Any) -> Any:
        tasks.append(asyncio.get_running_loop().create_task(later()))
        inside.append(pais.count(table))
        return inside[-1]

    async def audited() -> list[Any]:
        with ledger:
            replay(call, PRESENT, ABSENT, seeds=(0,), pushes=(0.0,))
            assert len(ledger.entries) == 0
            return [await task for task in tasks]

    after = asyncio.run(audited())
    assert [result.certificate.secure_randomness for result in inside] == [False] * len(inside)
    assert [result.certificate.secure_randomness for result in after] == [True] * len(after)
    assert len(ledger.entries) == len(after) == 4
