"""Bad input is refused by name, with an error of this package, and no error ever shows a value of a row."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais import (
    ArgumentError,
    AssumptionError,
    Ball,
    ConstrainedRule,
    CoresetRule,
    CustomProfile,
    DataError,
    FunctionRule,
    GaussianNoise,
    GaussianProfile,
    Joint,
    LinearProfile,
    LpNoise,
    MismatchError,
    NormDistribution,
    PaisError,
    Plan,
    PowerProfile,
    UniformRule,
    UnreachableError,
    WeightedCount,
    WeightedMean,
    WeightedSum,
    amplified_delta,
    amplified_epsilon,
    calibrate,
    constrained_weight,
    epsilon_at_delta,
    laplace_noise,
    not_private_variance_optimal,
    release,
    sample,
    worst_case,
)

# Planted in rows and arrays; none of its digits may turn up in an error.
CANARY = 1234.5678
DIGITS = ("1234", "5678")

LINEAR = LinearProfile(0.1, 0.5)
GAUSSIAN = GaussianProfile(20.0, 20.0)
BALL = Ball(radius=1e4)
EVERY = UniformRule(rate=1.0)
CORESET = CoresetRule(sample_size=10.0, n_rows=1000.0, mean_square_norm=1e7, radius=1e4)
NORMS = NormDistribution(norms=np.array([0.5, 1.0, 1.5]), masses=np.array([300.0, 500.0, 200.0]), radius=2.0)


def refused(
    error: type[PaisError], call: Callable[[], object], match: str | None = None, *, planted: bool = True
) -> PaisError:
    """The error a call ends with: of the named class, worded for a person, and silent about planted values."""
    with pytest.raises(error, match=match) as caught:
        call()
    raised = caught.value
    assert isinstance(raised, ValueError)
    shown: BaseException | None = raised
    while shown is not None:
        for text in (str(shown), repr(shown), repr(shown.args)):
            assert not (planted and any(digits in text for digits in DIGITS))
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    assert raised.__cause__ is None
    # What is wrong, and what to do: at least two sentences, the last one ended.
    assert str(raised).count(". ") + str(raised).count("? ") >= 1
    assert str(raised).endswith(".")
    return raised


# -- arrays --------------------------------------------------------------------------------------------------

NO_NUMBERS: dict[str, object] = {
    "a string": "1234.5678",
    "strings": ["1234.5678", "0.5"],
    "bytes": [b"1234.5678"],
    "None": None,
    "None among numbers": [CANARY, None],
    "an object": object(),
    "objects": np.array([CANARY, 0.5], dtype=object),
    "complex": [CANARY + 1j, 0.5],
    "a ragged list": [[CANARY], [CANARY, 0.5]],
    "a dict": {"norm": CANARY},
    "a set": {CANARY},
    "bools": [True, False],
    "dates": np.array(["2024-01-01"], dtype="datetime64[D]"),
    "records": np.array([(CANARY, 1)], dtype=[("a", float), ("b", int)]),
    "a whole number beyond any float": [10**400],
}
NO_NORMS: dict[str, object] = {
    **NO_NUMBERS,
    "NaN": [CANARY, math.nan],
    "infinity": [CANARY, math.inf],
    "negative": [0.5, -CANARY],
    "a negative scalar": -CANARY,
    "a NaN scalar": math.nan,
    "float32 NaN": np.array([CANARY, math.nan], dtype=np.float32),
}
NO_WEIGHTS: dict[str, object] = {
    **NO_NUMBERS,
    "NaN": [CANARY, math.nan],
    "infinity": [CANARY, math.inf],
    "below one": [CANARY, math.nextafter(1.0, 0.0)],
    "zero": 0.0,
    "negative": [-CANARY],
}
NO_PROBABILITIES: dict[str, object] = {
    **NO_NUMBERS,
    "NaN": [0.5, math.nan],
    "zero": [0.5, 0.0],
    "negative": [-1e-300],
    "above one": [0.5, math.nextafter(1.0, 2.0)],
    "far above one": CANARY,
}
NO_DELTAS: dict[str, object] = {
    **NO_NUMBERS,
    "zero": 0.0,
    "one": [0.5, 1.0],
    "negative": -0.1,
    "above one": CANARY,
    "NaN": [math.nan],
}

TAKES_NORMS: dict[str, Callable[[object], object]] = {
    "constrained_weight": lambda bad: constrained_weight(LinearProfile(1e-6, 1e-6), bad, epsilon=1.0),
    "constrained_weight, Gaussian": lambda bad: constrained_weight(
        GaussianProfile(1e6, 1e6), bad, epsilon=1.0, delta=1e-6
    ),
    "uniform rule": lambda bad: EVERY.probability(bad),
    "coreset rule": lambda bad: CORESET.probability(bad),
    "function rule": lambda bad: FunctionRule(function=lambda z: 0.5 + 0.0 * z, radius=1e4, n_knots=4).probability(bad),
    "constrained rule": lambda bad: ConstrainedRule(
        profile=LinearProfile(1e-6, 1e-6), radius=1e4, epsilon=1.0, n_knots=4
    ).probability(bad),
    "profile": lambda bad: LINEAR(1.0, bad),
    "Gaussian profile": lambda bad: GAUSSIAN(1.0, bad),
    "custom profile": lambda bad: CustomProfile(lambda w, z: w * z)(1.0, bad),
    "NormDistribution": lambda bad: NormDistribution(norms=bad, masses=np.ones(2), radius=1e4),
    "from_private_norms": lambda bad: NormDistribution.from_private_norms(bad, radius=1e4),
    "from_histogram": lambda bad: NormDistribution.from_histogram(bad, [1.0]),
    "variance-optimal oracle": lambda bad: not_private_variance_optimal(bad, sample_size=1.0),
}


@pytest.mark.parametrize("bad", NO_NORMS.values(), ids=NO_NORMS)
@pytest.mark.parametrize("call", TAKES_NORMS.values(), ids=TAKES_NORMS)
def test_what_is_no_norm_is_refused(call: Callable[[object], object], bad: object) -> None:
    refused(ArgumentError, lambda: call(bad), match="norm|edges")


@pytest.mark.parametrize("bad", NO_WEIGHTS.values(), ids=NO_WEIGHTS)
@pytest.mark.parametrize("profile", [LINEAR, PowerProfile(0.1, 0.5, 2.0), GAUSSIAN, CustomProfile(lambda w, z: w * z)])
def test_what_is_no_weight_is_refused(profile: pais.privacy.profiles.Profile, bad: object) -> None:
    refused(ArgumentError, lambda: profile(bad, 1.0), match="weight")


@pytest.mark.parametrize("bad", NO_PROBABILITIES.values(), ids=NO_PROBABILITIES)
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: amplified_epsilon(1.0, bad),
        lambda bad: amplified_delta(1.0, 0.5, bad),
        lambda bad: epsilon_at_delta(1e-6, 0.5, bad),
    ],
    ids=["amplified_epsilon", "amplified_delta", "epsilon_at_delta"],
)
def test_what_is_no_probability_is_refused(call: Callable[[object], object], bad: object) -> None:
    refused(ArgumentError, lambda: call(bad), match="probability")


@pytest.mark.parametrize("bad", NO_NORMS.values(), ids=NO_NORMS)
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda bad: amplified_epsilon(bad, 0.5), "epsilon"),
        (lambda bad: amplified_delta(bad, 0.5, 0.5), "epsilon"),
        (lambda bad: amplified_delta(1.0, bad, 0.5), "mu"),
        (lambda bad: epsilon_at_delta(1e-6, bad, 0.5), "mu"),
        (lambda bad: NormDistribution(norms=np.ones(2), masses=bad, radius=2.0), "masses"),
    ],
    ids=["amplified_epsilon", "amplified_delta epsilon", "amplified_delta mu", "epsilon_at_delta mu", "masses"],
)
def test_what_is_no_loss_is_refused(call: Callable[[object], object], name: str, bad: object) -> None:
    refused(ArgumentError, lambda: call(bad), match=name)


@pytest.mark.parametrize("bad", NO_DELTAS.values(), ids=NO_DELTAS)
def test_what_is_no_delta_of_a_gaussian_is_refused(bad: object) -> None:
    refused(ArgumentError, lambda: epsilon_at_delta(bad, 0.5, 0.5), match="delta")


@pytest.mark.parametrize(
    "call",
    [
        lambda: LINEAR([CANARY, CANARY], [CANARY, CANARY, CANARY]),
        lambda: GAUSSIAN([CANARY, CANARY], [CANARY, CANARY, CANARY]),
        lambda: amplified_epsilon([CANARY, CANARY], [0.1, 0.2, 0.3]),
        lambda: amplified_delta([CANARY, CANARY], 1.0, [0.1, 0.2, 0.3]),
        lambda: epsilon_at_delta([0.1, 0.2, 0.3], [CANARY, CANARY], 0.1),
        lambda: NormDistribution(norms=np.full(3, CANARY), masses=np.ones(2), radius=1e4),
        lambda: NormDistribution.from_histogram([0.0, CANARY], [1.0, 2.0]),
    ],
    ids=["linear", "gaussian", "amplified_epsilon", "amplified_delta", "epsilon_at_delta", "masses", "histogram"],
)
def test_arrays_that_do_not_fit_together_are_refused(call: Callable[[], object]) -> None:
    # Behind it numpy's own error would tell the sizes, which are numbers of rows.
    assert refused(ArgumentError, call).__context__ is None


def test_empty_input_is_refused_where_there_is_no_answer_and_answered_where_there_is() -> None:
    refused(ArgumentError, lambda: NormDistribution(norms=np.array([]), masses=np.array([]), radius=1.0), match="empty")
    refused(ArgumentError, lambda: NormDistribution.from_private_norms([], radius=1.0), match="empty")
    refused(ArgumentError, lambda: not_private_variance_optimal([], sample_size=1.0), match="empty")
    refused(ArgumentError, lambda: NormDistribution.from_histogram([0.0], []), match="edges")
    refused(ArgumentError, lambda: NormDistribution.from_histogram([], []), match="edges")
    refused(ArgumentError, lambda: Joint(parts=()), match="parts")
    for profile, delta in [(LINEAR, 0.0), (PowerProfile(0.1, 0.1, 2.0), 0.0), (GAUSSIAN, 1e-6)]:
        assert constrained_weight(profile, [], epsilon=3.0, delta=delta).shape == (0,)
    assert amplified_epsilon([], []).shape == (0,)
    assert epsilon_at_delta([], [], []).shape == (0,)


def test_histograms_that_are_none_are_refused() -> None:
    for edges in ([1.0, 0.0], [0.0, 0.0], [0.0, CANARY, CANARY]):
        counts = [CANARY] * (len(edges) - 1)
        refused(ArgumentError, lambda e=edges, c=counts: NormDistribution.from_histogram(e, c), match="edges")
    for count in (math.nan, math.inf, -math.inf):
        refused(ArgumentError, lambda c=count: NormDistribution.from_histogram([0.0, 1.0, CANARY], [CANARY, c]))
    # Noise makes counts negative, and all of them may be.
    assert NormDistribution.from_histogram([0.0, 1.0, 2.0], [-3.0, 5.0]).n_rows == 5.0
    refused(ArgumentError, lambda: NormDistribution.from_histogram([0.0, 1.0, 2.0], [-CANARY, -5.0]), match="masses")
    refused(ArgumentError, lambda: NormDistribution(norms=np.ones(2), masses=np.zeros(2), radius=1.0), match="masses")


@pytest.mark.parametrize(
    "quantile",
    [lambda u: "no number", lambda u: u * math.nan, lambda u: -u, lambda u: u * 1j, lambda u: None, 3.0],
    ids=["a string", "NaN", "negative", "complex", "None", "no function"],
)
def test_a_quantile_function_of_no_norms_is_refused(quantile: Callable[[object], object]) -> None:
    refused(ArgumentError, lambda: NormDistribution.from_quantiles(quantile, n_rows=10.0, radius=1.0))


# -- rows ----------------------------------------------------------------------------------------------------

NO_TABLES: dict[str, object] = {
    # A string is the path of a file.
    **{name: bad for name, bad in NO_NUMBERS.items() if name not in ("bools", "a string")},
    "flat": [CANARY, CANARY],
    "a scalar": CANARY,
    "three-dimensional": np.full((2, 2, 2), CANARY),
    "a table of strings": [["1234.5678 m", "1"]] * 3,
    "a table of objects": np.array([[CANARY, object()]] * 3, dtype=object),
    "a complex table": [[CANARY + 1j, CANARY]] * 3,
    "a ragged table": [[CANARY], [CANARY, CANARY]],
    "a table of dates": np.array([["2024-01-01"]], dtype="datetime64[D]"),
    "no columns": np.empty((3, 0)),
    "an empty list": [],
    "empty lists": [[], []],
    "numbers beyond any float": [[10**400, 1.5]] * 3,
}


@pytest.mark.parametrize("strategy", ["auto", "pass", "thin"])
@pytest.mark.parametrize("bad", NO_TABLES.values(), ids=NO_TABLES)
def test_what_is_no_table_of_numbers_is_refused(bad: object, strategy: str) -> None:
    refused(DataError, lambda: sample(bad, ball=BALL, rule=EVERY, strategy=strategy))
    plan = Plan(ball=BALL, rule=EVERY, mechanism=WeightedCount(noise=laplace_noise(1.0)), epsilon=2.0)
    refused(DataError, lambda: pais.run(plan, bad))


def test_rows_of_another_width_than_the_center_are_refused() -> None:
    ball = Ball(radius=1.0, center=(0.0, 1.0, 2.0))
    for width in (1, 2, 4):
        table = np.full((5, width), CANARY)
        error = refused(DataError, lambda t=table: sample(t, ball=ball, rule=EVERY))
        assert f"{width} column" in str(error)
        assert "3" in str(error)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("strategy", ["auto", "pass", "thin"])
@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf], ids=str)
def test_a_row_with_a_value_that_is_no_number_is_left_out(bad: float, order: float, strategy: str, dtype: type) -> None:
    table = np.full((57, 9), CANARY, dtype=dtype)
    table[41, 6] = bad
    center = tuple(float(column) for column in range(9))
    for ball in (Ball(radius=10.0, order=order), Ball(radius=10.0, order=order, center=center)):
        kept = sample(table, ball=ball, rule=EVERY, strategy=strategy).spend("a test")
        assert kept.rows.shape == (56, 9)
        assert np.all(np.isfinite(kept.rows))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf], ids=str)
def test_columns_with_a_value_that_is_no_number_are_named_on_demand_and_the_value_is_not(
    bad: float, dtype: type
) -> None:
    table = np.full((57, 9), CANARY, dtype=dtype)
    table[41, 6] = bad
    error = refused(DataError, lambda: pais.source(table, missing="error"), match=r"column\(s\) 6 have")
    # Neither which row, nor how many there are.
    for secret in ("41", "42", "57"):
        assert secret not in str(error)
    table[3, [0, 8]] = bad
    error = refused(DataError, lambda: pais.source(table, missing="error"))
    assert all(str(column) in str(error) for column in (0, 6, 8))
    assert not any(str(column) in str(error) for column in (1, 2, 3, 4, 5, 7))


def test_all_bad_columns_are_named() -> None:
    table = np.full((3, 400), math.nan)
    error = refused(DataError, lambda: pais.source(table, missing="error"), match="column")
    assert all(str(column) in str(error) for column in range(400))


@pytest.mark.parametrize("bad", ["text", None, 1j, b"\xff", 10**400, {}, object()], ids=lambda bad: type(bad).__name__)
def test_one_cell_of_a_list_does_not_change_how_the_others_are_read(bad: object) -> None:
    rows = [[CANARY, True], [np.float32(0.1), 2], [3, 0.25]]
    kept = [
        sample(one, ball=BALL, rule=EVERY, random_state=0).spend("a test").rows for one in (rows, [*rows, [1, bad]])
    ]
    assert np.array_equal(kept[0], kept[1])


def test_a_source_shows_its_kind_and_its_columns_and_no_number_of_rows() -> None:
    table = pa.table({f"c{column}": [CANARY] * 57 for column in range(12)})
    assert repr(pais.source(table)) == "<MemoryEngine: c0, c1, c2, c3, c4, c5, c6, c7 and 4 more>"
    assert str(pais.source(table, columns=["c3", "c1"])) == "<MemoryEngine: c3, c1>"
    assert repr(pais.source(np.full((57, 3), CANARY))) == "<MemoryEngine: 3 column(s)>"


def test_a_wrong_name_of_a_column_is_met_with_a_right_one_and_with_all() -> None:
    table = pa.table({"height": [CANARY], "width": [CANARY]})
    for chosen in ({"columns": ["hieght"]}, {"columns": ["width"], "carry": ["Height"]}, {"key": "heigh"}):
        error = refused(DataError, lambda chosen=chosen: pais.source(table, **chosen), match="do not exist")
        assert "Did you mean height? Pass names of its columns: height, width." in str(error)


def test_rows_however_large_are_clipped_and_no_cause_of_an_error() -> None:
    table = np.array([[1e308, -1e308], [CANARY, 0.0], [5e-324, 0.0], [0.0, 0.0]])
    for order in (1.0, 2.0, 3.0, math.inf):
        content = sample(table, ball=Ball(radius=1.0, order=order), rule=EVERY).spend("a test")
        assert content.rows.shape == (4, 2)
        assert np.all(np.isfinite(content.rows))


# -- configured numbers ----------------------------------------------------------------------------------------

NO_SCALARS: dict[str, object] = {
    "NaN": math.nan,
    "True": True,
    "False": False,
    "a string": "1",
    "None": None,
    "complex": 1 + 1j,
    "a list": [1.0],
    "an array": np.array([1.0]),
    "an object": object(),
}
# Numbers in disguise: what float() would make of them is not what was meant.
DISGUISED: dict[str, object] = {
    "numpy True": np.True_,
    "numpy complex": np.complex128(0.5 + 0.25j),
    "numpy string": np.str_("0.5"),
    "numpy bytes": np.bytes_(b"0.5"),
    "numpy date": np.datetime64(1, "D"),
    "numpy span": np.timedelta64(1, "D"),
    "beyond any float": 10**400,
    "a fraction beyond any float": Fraction(10**400, 3),
    "a decimal NaN": Decimal("nan"),
}
NOT_POSITIVE: dict[str, object] = {**NO_SCALARS, "zero": 0.0, "negative": -1.0, "infinite": math.inf}
NOT_POSITIVE_OR_INFINITE = {name: bad for name, bad in NOT_POSITIVE.items() if name != "infinite"}
NO_TARGET_DELTA: dict[str, object] = {
    **NO_SCALARS,
    "negative": -1e-300,
    "one": 1.0,
    "two": 2.0,
    "infinite": math.inf,
}
NO_SHARE: dict[str, object] = {**NO_SCALARS, "zero": 0.0, "negative": -0.1, "above one": math.nextafter(1.0, 2.0)}
NO_COUNT: dict[str, object] = {**NO_SCALARS, "zero": 0, "negative": -1, "a float": 2.0, "infinite": math.inf}
NO_ORDER: dict[str, object] = {**NO_SCALARS, "zero": 0.0, "below one": 0.999, "negative": -math.inf}
NO_RADIUS: dict[str, object] = {**NOT_POSITIVE, "1e200": 1e200, "1e-200": 1e-200}


def kept() -> pais.WeightedSample:
    return sample(np.ones((3, 2)), ball=Ball(radius=2.0, order=1.0), rule=UniformRule(rate=0.5))


def coreset(**changes: object) -> CoresetRule:
    facts: dict[str, object] = {"sample_size": 1.0, "n_rows": 10.0, "mean_square_norm": 1.0, "radius": 1.0}
    return CoresetRule(**(facts | changes))


CONFIGURED: dict[str, tuple[dict[str, object], Callable[[object], object]]] = {
    # epsilon
    "epsilon of constrained_weight": (NOT_POSITIVE, lambda bad: constrained_weight(LINEAR, 0.5, epsilon=bad)),
    "epsilon of ConstrainedRule": (
        NOT_POSITIVE,
        lambda bad: ConstrainedRule(profile=LINEAR, radius=1.0, epsilon=bad),
    ),
    "epsilon of calibrate": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "None"},
        lambda bad: calibrate("uniform", LINEAR, NORMS, epsilon=bad, noise=1.0),
    ),
    "epsilon of check": (NOT_POSITIVE, lambda bad: LINEAR.check(radius=1.0, epsilon=bad)),
    "epsilon of a Gaussian check": (NOT_POSITIVE, lambda bad: GAUSSIAN.check(radius=1.0, epsilon=bad, delta=1e-6)),
    "epsilon of a custom check": (
        NOT_POSITIVE,
        lambda bad: CustomProfile(lambda w, z: w * z).check(radius=1.0, epsilon=bad),
    ),
    "epsilon of Plan": (
        NOT_POSITIVE,
        lambda bad: Plan(ball=BALL, rule=EVERY, mechanism=WeightedCount(noise=laplace_noise(1.0)), epsilon=bad),
    ),
    "epsilon of release": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "None"},
        lambda bad: release(WeightedCount(noise=laplace_noise(1.0)), kept(), epsilon=bad),
    ),
    "epsilon of worst_case": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name not in ("None", "zero")},
        lambda bad: worst_case(EVERY, GAUSSIAN, radius=1.0, epsilon=bad),
    ),
    # delta
    "delta of constrained_weight": (
        NO_TARGET_DELTA,
        lambda bad: constrained_weight(GAUSSIAN, 0.5, epsilon=1.0, delta=bad),
    ),
    "delta of ConstrainedRule": (
        NO_TARGET_DELTA,
        lambda bad: ConstrainedRule(profile=GAUSSIAN, radius=1.0, epsilon=1.0, delta=bad),
    ),
    "delta of calibrate": (
        NO_TARGET_DELTA,
        lambda bad: calibrate("uniform", GAUSSIAN, NORMS, epsilon=1.0, delta=bad, noise=1.0),
    ),
    "delta of check": (NO_TARGET_DELTA, lambda bad: GAUSSIAN.check(radius=1.0, epsilon=1.0, delta=bad)),
    "delta of a pure check": (NO_TARGET_DELTA, lambda bad: LINEAR.check(radius=1.0, epsilon=1.0, delta=bad)),
    "delta of release": (
        NO_TARGET_DELTA,
        lambda bad: release(WeightedCount(noise=GaussianNoise(scale=1.0)), kept(), delta=bad),
    ),
    "delta of worst_case": (
        {name: bad for name, bad in NO_TARGET_DELTA.items() if name != "None"},
        lambda bad: worst_case(EVERY, GAUSSIAN, radius=1.0, delta=bad),
    ),
    # probabilities and shares
    "rate of UniformRule": (NO_SHARE, lambda bad: UniformRule(rate=bad)),
    "uniform_share of CoresetRule": (NO_SHARE, lambda bad: coreset(uniform_share=bad)),
    "uniform_share of calibrate": (
        NO_SHARE,
        lambda bad: calibrate("coreset", LINEAR, NORMS, epsilon=2.0, uniform_share=bad),
    ),
    # sizes
    "sample_size of CoresetRule": (NOT_POSITIVE, lambda bad: coreset(sample_size=bad)),
    "n_rows of CoresetRule": (NOT_POSITIVE, lambda bad: coreset(n_rows=bad)),
    "mean_square_norm of CoresetRule": (NOT_POSITIVE, lambda bad: coreset(mean_square_norm=bad)),
    "sample_size of UniformRule": (NOT_POSITIVE, lambda bad: UniformRule.of_size(bad, n_rows=10.0)),
    "n_rows of UniformRule": (NOT_POSITIVE, lambda bad: UniformRule.of_size(1.0, n_rows=bad)),
    "sample_size of the oracle": (NOT_POSITIVE, lambda bad: not_private_variance_optimal([1.0], sample_size=bad)),
    "sample_size of calibrate": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "None"},
        lambda bad: calibrate("uniform", LINEAR, NORMS, epsilon=1.0, sample_size=bad),
    ),
    "n_rows of from_quantiles": (
        NOT_POSITIVE,
        lambda bad: NormDistribution.from_quantiles(lambda u: u, n_rows=bad, radius=1.0),
    ),
    "n_knots of ConstrainedRule": (
        NO_COUNT,
        lambda bad: ConstrainedRule(profile=LINEAR, radius=1.0, epsilon=1.0, n_knots=bad),
    ),
    "n_knots of FunctionRule": (
        NO_COUNT,
        lambda bad: FunctionRule(function=lambda z: 0.5 + 0.0 * z, radius=1.0, n_knots=bad),
    ),
    "n_iterations of GaussianProfile": (NO_COUNT, lambda bad: GaussianProfile(1.0, 1.0, bad)),
    # noise
    "noise of with_noise": (NOT_POSITIVE, lambda bad: LINEAR.with_noise(bad)),
    "noise of calibrate": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "None"},
        lambda bad: calibrate("uniform", LINEAR, NORMS, epsilon=1.0, noise=bad),
    ),
    "scale of LpNoise": (NOT_POSITIVE, lambda bad: LpNoise(scale=bad)),
    "scale of laplace_noise": (NOT_POSITIVE, laplace_noise),
    "scale of GaussianNoise": (NOT_POSITIVE, lambda bad: GaussianNoise(scale=bad)),
    "count_scale of GaussianProfile": (NOT_POSITIVE_OR_INFINITE, lambda bad: GaussianProfile(bad, 1.0)),
    "sum_scale of GaussianProfile": (NOT_POSITIVE_OR_INFINITE, lambda bad: GaussianProfile(1.0, bad)),
    "intercept of LinearProfile": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "zero"},
        lambda bad: LinearProfile(bad, 1.0),
    ),
    "slope of LinearProfile": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "zero"},
        lambda bad: LinearProfile(1.0, bad),
    ),
    "power of PowerProfile": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "zero"},
        lambda bad: PowerProfile(1.0, 1.0, bad),
    ),
    # balls
    "order of Ball": (NO_ORDER, lambda bad: Ball(radius=1.0, order=bad)),
    "order of LpNoise": (NO_ORDER, lambda bad: LpNoise(scale=1.0, p=bad)),
    "radius of Ball": (NO_RADIUS, lambda bad: Ball(radius=bad)),
    "radius of CoresetRule": (NOT_POSITIVE, lambda bad: coreset(radius=bad)),
    "radius of ConstrainedRule": (NOT_POSITIVE, lambda bad: ConstrainedRule(profile=LINEAR, radius=bad, epsilon=1.0)),
    "radius of FunctionRule": (
        NOT_POSITIVE,
        lambda bad: FunctionRule(function=lambda z: 0.5 + 0.0 * z, radius=bad),
    ),
    "radius of UniformRule": (NOT_POSITIVE_OR_INFINITE, lambda bad: UniformRule(rate=0.5, radius=bad)),
    "radius of NormDistribution": (
        NOT_POSITIVE,
        lambda bad: NormDistribution(norms=np.ones(1), masses=np.ones(1), radius=bad),
    ),
    "radius of from_private_norms": (NOT_POSITIVE, lambda bad: NormDistribution.from_private_norms([1.0], radius=bad)),
    "radius of worst_case": (NOT_POSITIVE, lambda bad: worst_case(EVERY, LINEAR, radius=bad)),
    "radius of check": (NOT_POSITIVE, lambda bad: LINEAR.check(radius=bad, epsilon=1.0)),
    "tolerance of worst_case": (NOT_POSITIVE, lambda bad: worst_case(EVERY, LINEAR, radius=1.0, tolerance=bad)),
}
CONFIGURED_CASES = [
    pytest.param(call, bad, name.split(" ")[0], id=f"{name}: {kind}")
    for name, (kinds, call) in CONFIGURED.items()
    for kind, bad in kinds.items()
]


@pytest.mark.parametrize(("call", "bad", "argument"), CONFIGURED_CASES)
def test_a_configured_number_out_of_range_is_refused_by_its_name(
    call: Callable[[object], object], bad: object, argument: str
) -> None:
    refused(ArgumentError, lambda: call(bad), match=argument)


@pytest.mark.parametrize("bad", DISGUISED.values(), ids=DISGUISED)
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: constrained_weight(LINEAR, 0.5, epsilon=bad),
        lambda bad: UniformRule(rate=bad),
        lambda bad: LpNoise(scale=bad),
        lambda bad: GAUSSIAN.check(radius=1.0, epsilon=1.0, delta=bad),
        lambda bad: Ball(radius=bad),
    ],
    ids=["epsilon", "rate", "scale", "delta", "radius"],
)
def test_numbers_in_disguise_are_refused_and_not_converted(call: Callable[[object], object], bad: object) -> None:
    refused(ArgumentError, lambda: call(bad))


def test_numbers_of_other_types_that_are_numbers_are_taken() -> None:
    for one in (1, 1.0, np.float32(1.0), np.float64(1.0), np.int8(1), np.uint64(1), Fraction(1, 1), Decimal(1)):
        assert constrained_weight(LINEAR, 0.5, epsilon=one) == constrained_weight(LINEAR, 0.5, epsilon=1.0)
        assert LpNoise(scale=one).scale == 1.0
        assert Ball(radius=one).radius == 1.0


@pytest.mark.parametrize(
    "bad",
    [
        [[0.0, 1.0]],
        [],
        5.0,
        [CANARY, math.nan],
        [CANARY, math.inf],
        ["1234.5678"],
        "1234.5678",
        [CANARY, None],
        [CANARY + 1j],
        [[CANARY], [1.0, 2.0]],
    ],
    ids=["a table", "empty", "a number", "NaN", "infinity", "strings", "a string", "None", "complex", "ragged"],
)
def test_a_center_that_is_no_point_is_refused(bad: object) -> None:
    refused(ArgumentError, lambda: Ball(radius=1.0, center=bad), match="center")


@pytest.mark.parametrize("radius", [1e200, 1e300, 1e-200, 1e-310])
@pytest.mark.parametrize(
    "make",
    [
        lambda radius: coreset(radius=radius),
        lambda radius: coreset(radius=radius, mean_square_norm=1e300),
        lambda radius: ConstrainedRule(profile=LINEAR, radius=radius, epsilon=1.0, n_knots=8),
        lambda radius: ConstrainedRule(profile=GAUSSIAN, radius=radius, epsilon=1.0, delta=1e-6, n_knots=8),
        lambda radius: FunctionRule(function=lambda z: 0.5 + 0.0 * z, radius=radius, n_knots=8),
        lambda radius: UniformRule(rate=0.5, radius=radius),
    ],
    ids=["coreset", "coreset of large norms", "constrained", "constrained Gaussian", "function", "uniform"],
)
def test_a_rule_for_an_absurd_radius_works_or_is_refused_and_nothing_else(
    make: Callable[[float], pais.Rule], radius: float
) -> None:
    try:
        rule = make(radius)
    except PaisError:
        return
    probability = rule.probability(np.array([0.0, 0.3, 1.0]) * radius)
    assert np.all((probability > 0.0) & (probability <= 1.0))


def test_norms_of_an_absurd_radius_have_a_mean_square_or_are_refused() -> None:
    try:
        norms = NormDistribution(norms=np.array([1e200]), masses=np.ones(1), radius=1e200)
    except PaisError:
        return
    assert math.isfinite(norms.mean_square_norm)


@pytest.mark.parametrize(
    "bad",
    [-1, "seed", 1.5, True, [1, 2], np.array([1]), b"seed", math.nan, object()],
    ids=lambda bad: type(bad).__name__,
)
def test_a_random_state_that_is_no_seed_is_refused_and_not_shown(bad: object) -> None:
    refused(
        ArgumentError, lambda: sample(np.ones((3, 2)), ball=BALL, rule=EVERY, random_state=bad), match="random_state"
    )
    waiting = kept()
    mechanism = WeightedCount(noise=laplace_noise(1.0))
    refused(ArgumentError, lambda: release(mechanism, waiting, random_state=bad), match="random_state")
    assert not waiting.spent
    # A seed is a secret of the data owner, however wrong.
    error = refused(ArgumentError, lambda: sample(np.ones((3, 2)), ball=BALL, rule=EVERY, random_state=-987654321))
    assert "987654321" not in str(error)


@pytest.mark.parametrize("bad", ["Pass", "", "fast", None, 3, ("pass",), ["thin"]], ids=repr)
def test_an_unknown_strategy_is_refused(bad: object) -> None:
    table = np.full((3, 2), CANARY)
    refused(ArgumentError, lambda: sample(table, ball=BALL, rule=EVERY, strategy=bad), match="strategy")


@pytest.mark.parametrize("bad", ["Uniform", "", "none", None, 3, ("uniform",)], ids=repr)
def test_an_unknown_sampling_is_refused(bad: object) -> None:
    refused(ArgumentError, lambda: calibrate(bad, LINEAR, NORMS, epsilon=1.0), match="sampling")


def test_calibration_wants_two_of_three_or_epsilon_alone() -> None:
    for given in [{}, {"noise": 1.0}, {"sample_size": 5.0}, {"epsilon": 1.0, "noise": 1.0, "sample_size": 5.0}]:
        refused(ArgumentError, lambda given=given: calibrate("uniform", LINEAR, NORMS, **given), match="given")


# -- parts in wrong places -------------------------------------------------------------------------------------

COUNT = WeightedCount(noise=laplace_noise(1.0))

MISPLACED: dict[str, Callable[[], object]] = {
    "a function for a rule": lambda: sample(np.full((3, 2), CANARY), ball=BALL, rule=lambda z: 0.5),
    "a number for a ball": lambda: sample(np.full((3, 2), CANARY), ball=1.0, rule=EVERY),
    "None for a ball": lambda: sample(np.full((3, 2), CANARY), ball=None, rule=EVERY),
    "rows for a sample": lambda: release(COUNT, np.full((3, 2), CANARY)),
    "a string for a mechanism": lambda: release("count", kept()),
    "a noise law for a mechanism": lambda: release(laplace_noise(1.0), kept()),
    "a mechanism for its parts": lambda: Joint(parts=COUNT),
    "a string among the parts": lambda: Joint(parts=(COUNT, "sum")),
    "a number for a noise law": lambda: WeightedCount(noise=1.0).profile,
    "a number for a noise law of a sum": lambda: release(WeightedSum(noise=1.0), kept()),
    "a number for a noise law of a mean": lambda: WeightedMean(count_noise=1.0, sum_noise=laplace_noise(1.0)).profile,
    "a number for a ball of a plan": lambda: Plan(ball=1.0, rule=EVERY, mechanism=COUNT, epsilon=1.0),
    "a mechanism for a rule of a plan": lambda: Plan(ball=BALL, rule=COUNT, mechanism=COUNT, epsilon=1.0),
    "an array for norms": lambda: calibrate("uniform", LINEAR, np.array([CANARY]), epsilon=1.0),
    "a mechanism for a profile": lambda: calibrate("uniform", COUNT, NORMS, epsilon=1.0),
    "a mechanism for a profile of a rule": lambda: ConstrainedRule(profile=COUNT, radius=1.0, epsilon=1.0),
    "a mechanism for a profile of a weight": lambda: constrained_weight(COUNT, CANARY, epsilon=1.0),
    "a mechanism for a profile of a worst case": lambda: worst_case(EVERY, COUNT, radius=1.0),
    "a function for a rule of a worst case": lambda: worst_case(lambda z: 0.5, LINEAR, radius=1.0),
    "a number for a function of a rule": lambda: FunctionRule(function=0.5, radius=1.0),
    "rows for a plan": lambda: pais.run(np.full((3, 2), CANARY), np.full((3, 2), CANARY)),
}


@pytest.mark.parametrize("call", MISPLACED.values(), ids=MISPLACED)
def test_a_part_in_the_place_of_another_is_refused_by_this_package(call: Callable[[], object]) -> None:
    error = refused(PaisError, call)
    assert isinstance(error, (ArgumentError, MismatchError))


def test_parts_made_for_different_balls_or_kinds_are_refused() -> None:
    small = CoresetRule(sample_size=1.0, n_rows=10.0, mean_square_norm=1.0, radius=1.0)
    table = np.full((3, 2), CANARY)
    refused(MismatchError, lambda: sample(table, ball=Ball(radius=1.5), rule=small), match="radius")
    refused(MismatchError, lambda: worst_case(small, LINEAR, radius=1.5), match="radius")
    refused(MismatchError, lambda: worst_case(EVERY, GAUSSIAN, radius=1.0, delta=0.0), match="delta")
    refused(MismatchError, lambda: constrained_weight(GAUSSIAN, CANARY, epsilon=1.0), match="delta")
    refused(MismatchError, lambda: ConstrainedRule(profile=GAUSSIAN, radius=1.0, epsilon=1.0), match="delta")
    refused(MismatchError, lambda: calibrate("uniform", GAUSSIAN, NORMS, epsilon=1.0), match="delta")
    refused(MismatchError, lambda: calibrate("uniform", LINEAR, NORMS, epsilon=1.0, delta=1e-6), match="delta")
    refused(ArgumentError, lambda: worst_case(EVERY, GAUSSIAN, radius=1.0), match="exactly one")
    refused(
        ArgumentError, lambda: worst_case(EVERY, GAUSSIAN, radius=1.0, epsilon=1.0, delta=1e-6), match="exactly one"
    )
    refused(ArgumentError, lambda: worst_case(EVERY, LINEAR, radius=1.0, epsilon=1.0), match="epsilon")
    refused(ArgumentError, lambda: GaussianProfile(math.inf, math.inf), match="infinite")
    refused(ArgumentError, lambda: LinearProfile(0.0, 0.0), match="0")
    refused(ArgumentError, lambda: NORMS.expected_size(small), match="radius")


@pytest.mark.parametrize(
    "function",
    [
        lambda z: 0.0 * z,
        lambda z: 1.0 + 1e-9 + 0.0 * z,
        lambda z: -0.5 + 0.0 * z,
        lambda z: z * math.nan,
        lambda z: 0.5,
        lambda z: z[:-1] * 0.0 + 0.5,
        lambda z: "no number",
        lambda z: None,
        lambda z: [[1.0], [1.0, 2.0]],
        lambda z: 0.5 + 0.0 * z + 0.1j,
    ],
    ids=[
        "zero",
        "above one",
        "negative",
        "NaN",
        "one number",
        "too short",
        "a string",
        "None",
        "ragged",
        "complex",
    ],
)
def test_a_function_of_no_probabilities_makes_no_rule(function: Callable[[object], object]) -> None:
    refused(ArgumentError, lambda: FunctionRule(function=function, radius=1.0, n_knots=8), match="function")


@pytest.mark.parametrize(
    "function",
    [
        lambda w, z: -w,
        lambda w, z: w * math.nan,
        lambda w, z: 0.5,
        lambda w, z: "no number",
        lambda w, z: None,
        lambda w, z: w * 1j,
        lambda w, z: [[1.0], [1.0, 2.0]],
    ],
    ids=["negative", "NaN", "one number", "a string", "None", "complex", "ragged"],
)
def test_a_function_of_no_losses_is_refused_when_it_is_asked(function: Callable[[object, object], object]) -> None:
    profile = CustomProfile(function)
    for call in (
        lambda: profile([1.0, 2.0], [CANARY, CANARY]),
        lambda: profile.check(radius=1.0, epsilon=1.0),
        lambda: constrained_weight(profile, [CANARY, 0.5], epsilon=1.0),
        lambda: ConstrainedRule(profile=profile, radius=1.0, epsilon=1.0),
    ):
        error = refused(AssumptionError, call, match="function")
        assert "function" in str(error)


# -- targets out of reach: refused, never clipped ----------------------------------------------------------------


def test_a_coreset_too_large_is_refused_and_what_is_reachable_is_reached_without_clipping() -> None:
    for share in (0.01, 0.3, 0.5, 0.99, 1.0):
        facts = {"n_rows": 977.0, "mean_square_norm": 0.37, "radius": 1.7, "uniform_share": share}
        error = refused(
            UnreachableError, lambda f=facts: CoresetRule(sample_size=977.1, **f), match="sample_size", planted=False
        )
        assert isinstance(error, UnreachableError)
        rule = CoresetRule(sample_size=error.reachable, **facts)
        at_radius = error.reachable / 977.0 * (share + (1.0 - share) * 1.7**2 / 0.37)
        assert at_radius == pytest.approx(1.0, rel=1e-12)
        assert float(rule.probability(1.7)) == pytest.approx(1.0, rel=1e-12)
        assert float(rule.probability(1.7)) <= 1.0
        # A little more than reachable is refused too: nothing is clipped to fit.
        refused(
            UnreachableError,
            lambda f=facts, m=error.reachable: CoresetRule(sample_size=m * (1.0 + 1e-9), **f),
            planted=False,
        )


def test_a_coreset_so_small_that_its_probability_vanishes_is_refused() -> None:
    """A probability must be above 0; one that underflows is none."""
    refused(PaisError, lambda: CoresetRule(sample_size=1e-200, n_rows=1e200, mean_square_norm=1.0, radius=1.0))


def test_a_uniform_sample_larger_than_the_rows_is_refused_and_all_rows_are_reachable() -> None:
    error = refused(
        UnreachableError, lambda: UniformRule.of_size(10.5, n_rows=10.0), match="sample_size", planted=False
    )
    assert isinstance(error, UnreachableError)
    assert error.reachable == 10.0
    assert float(UniformRule.of_size(error.reachable, n_rows=10.0).probability(1.0)) == 1.0


CALIBRATIONS: list[tuple[str, pais.privacy.profiles.Profile, float]] = [
    (sampling, profile, delta)
    for sampling in ("constrained", "coreset", "uniform")
    for profile, delta in ((LINEAR, 0.0), (GAUSSIAN, 1e-6))
]
CALIBRATION_NAMES = [f"{sampling}-{'gaussian' if delta else 'linear'}" for sampling, _, delta in CALIBRATIONS]


@pytest.mark.parametrize(("sampling", "profile", "delta"), CALIBRATIONS, ids=CALIBRATION_NAMES)
@pytest.mark.parametrize("fixed", [{"epsilon": 1.3}, {"noise": 1.0}], ids=["epsilon", "noise"])
def test_a_calibrated_size_out_of_reach_is_refused_and_what_is_reachable_is_reached(
    sampling: str, profile: pais.privacy.profiles.Profile, delta: float, fixed: dict[str, float]
) -> None:
    def solved(size: float) -> pais.Calibration:
        return calibrate(sampling, profile, NORMS, sample_size=size, delta=delta, **fixed)

    error = refused(UnreachableError, lambda: solved(NORMS.n_rows * 1.01), match="sample_size", planted=False)
    assert isinstance(error, UnreachableError)
    assert 0.0 < error.reachable <= NORMS.n_rows
    found = solved(error.reachable)
    assert found.sample_size == pytest.approx(error.reachable, rel=1e-6)
    assert np.all(found.rule.probability(np.linspace(0.0, NORMS.radius, 1000)) <= 1.0)
    refused(UnreachableError, lambda: solved(error.reachable * (1.0 + 1e-6)), match="sample_size", planted=False)


@pytest.mark.parametrize(("sampling", "profile", "delta"), CALIBRATIONS, ids=CALIBRATION_NAMES)
def test_a_calibrated_guarantee_out_of_reach_is_refused_and_what_is_reachable_is_reached(
    sampling: str, profile: pais.privacy.profiles.Profile, delta: float
) -> None:
    def solved(epsilon: float) -> pais.Calibration:
        return calibrate(sampling, profile, NORMS, epsilon=epsilon, noise=1.0, delta=delta)

    error = refused(UnreachableError, lambda: solved(0.05), match="epsilon", planted=False)
    assert isinstance(error, UnreachableError)
    assert math.isfinite(error.reachable)
    found = solved(error.reachable)
    assert found.epsilon == error.reachable
    assert found.noise == 1.0
    refused(UnreachableError, lambda: solved(error.reachable * (1.0 - 1e-5)), match="epsilon", planted=False)


@pytest.mark.parametrize(("profile", "delta"), [(LINEAR, 0.0), (PowerProfile(0.1, 0.5, 2.0), 0.0), (GAUSSIAN, 1e-6)])
def test_a_constrained_rule_out_of_reach_is_refused_and_what_is_reachable_is_reached(
    profile: pais.privacy.profiles.Profile, delta: float
) -> None:
    def made(epsilon: float) -> ConstrainedRule:
        return ConstrainedRule(profile=profile, radius=2.0, epsilon=epsilon, delta=delta, n_knots=64)

    error = refused(UnreachableError, lambda: made(0.05), match="epsilon", planted=False)
    assert isinstance(error, UnreachableError)
    rule = made(error.reachable)
    assert float(rule.probability(2.0)) == pytest.approx(1.0, rel=1e-6)
    refused(UnreachableError, lambda: made(error.reachable * (1.0 - 1e-6)), match="epsilon", planted=False)


def test_a_norm_that_cannot_meet_the_target_is_refused_without_being_shown() -> None:
    for profile, delta in [(LINEAR, 0.0), (PowerProfile(0.1, 0.5, 2.0), 0.0), (GAUSSIAN, 1e-6)]:
        for norm in (CANARY, [0.1, CANARY]):
            refused(
                UnreachableError,
                lambda p=profile, z=norm, d=delta: constrained_weight(p, z, epsilon=1.0, delta=d),
                match="epsilon",
            )
    refused(UnreachableError, lambda: not_private_variance_optimal([CANARY, 0.0, 0.0], sample_size=2.0))
