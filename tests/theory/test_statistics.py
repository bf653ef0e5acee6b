"""One row, or one unit, never adds more to the totals of a statistic than its price covers."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

import pais
from pais import ArgumentError, GaussianNoise, GeometricNoise, LpNoise, VectorStatistic, laplace_noise
from pais._base.lattice import IntArray
from pais.data.units import Unit
from pais.mechanisms.blocks import Bins, Block, Ends, Levels, Line, Product, Rows, Split, Truth
from pais.statistics.recipes import (
    Counts,
    Covariance,
    Description,
    Histogram,
    Means,
    Recipe,
    Sums,
    SumsOfSample,
    Variances,
)
from pais.statistics.settings import scaled_blocks
from pais.statistics.table import Fields
from pais.statistics.uncertainty import with_ends

# Columns 0 to 2 are numbers, 3 to 5 categories, 6 is a boolean.
BLOCKS: tuple[Block, ...] = (
    Rows(),
    Split(column=0, degree=0),
    Split(column=0, degree=1),
    Split(column=1, degree=2),
    Line(column=0, slope=0.41, intercept=0.59),
    Line(column=1, slope=-1.0, intercept=0.0),
    Product(first=0, second=2),
    Product(first=1, second=1),
    Bins(column=2, edges=(-0.5, 0.1, 0.9)),
    Levels(column=3, n_levels=3),
    Levels(column=3, n_levels=3, others=False),
    Truth(column=6),
    Ends(column=0),
)
BY = (Levels(column=3, n_levels=3, others=False), Truth(column=6, others=False))

place = st.one_of(
    st.floats(-1.0, 1.0), st.sampled_from([-1.0, 1.0, 1.5, -1.5, 2.0, 1e-300, 1.0 - 2**-53, -0.0, 5.0, -7.0])
)
weight = st.one_of(st.just(1.0), st.floats(2.0**-40, 1e6), st.sampled_from([1 / 3, 3.0 - 2**-50, 1e-9]))


def one_row(numbers: list[float], level: int, truth: float) -> NDArray[np.float64]:
    row = np.zeros((1, 7))
    row[0, :3] = numbers
    if level < 3:
        row[0, 3 + level] = math.sqrt(2.0)
    row[0, 6] = truth
    return row


rows = st.builds(one_row, st.lists(place, min_size=3, max_size=3), st.integers(0, 3), st.sampled_from([-1.0, 1.0, 2.0]))


def added(block: Block, row: NDArray[np.float64], whole: IntArray) -> IntArray:
    """What a row adds to the coordinates of a block, one by one."""
    total = np.zeros(block.size, dtype=np.int64)
    for position, steps in block.steps(row, whole):
        np.add.at(total, np.broadcast_to(position, steps.shape), steps)
    return total


@settings(max_examples=300, deadline=None)
@given(row=rows, whole=st.one_of(st.integers(0, 5), st.integers(0, 2**50)))
def test_a_row_adds_at_most_its_whole_steps_to_a_block(row: NDArray[np.float64], whole: int) -> None:
    for block in BLOCKS:
        assert np.abs(added(block, row, np.array([whole]))).sum() <= whole, block


@settings(max_examples=200, deadline=None)
@given(row=rows, w=weight, scale=st.sampled_from([0.001, 0.7, 1.0, 12.5, 1e4]), groups=st.booleans())
def test_a_row_changes_all_totals_by_no_more_than_the_price_covers(
    row: NDArray[np.float64], w: float, scale: float, groups: bool
) -> None:
    by = BY if groups else ()
    for noise, power in ((LpNoise(scale=scale), 1), (GaussianNoise(scale=scale), 2)):
        factor = math.nextafter(len(BLOCKS) ** (1 / power), math.inf)
        blocks = tuple(replace(block, factor=factor) for block in BLOCKS)
        mechanism = VectorStatistic(name="means", blocks=blocks, noise=noise, by=by)
        steps = mechanism.add(row, np.array([w])).reshape(mechanism.n_groups, -1)
        # In units of the noise of each block, compared with that of a count alone.
        unit = Fraction(mechanism.lattice.step)
        size = sum(
            (sum(abs(int(step)) for step in steps[:, place].ravel()) * unit / Fraction(block.factor)) ** power
            for block, place in zip(mechanism.blocks, mechanism.places, strict=True)
        )
        assert size <= Fraction(w) ** power


@settings(max_examples=100, deadline=None)
@given(several=st.lists(rows, min_size=1, max_size=6), extra=st.integers(0, 3))
def test_a_unit_adds_at_most_what_one_row_of_weight_one_adds(several: list[NDArray[np.float64]], extra: int) -> None:
    unit = Unit(column="id", max_rows=1 + extra)
    masses = unit.masses(np.full(len(several), len(several))) * 2.0**-unit.mass_bits
    mechanism = VectorStatistic(name="means", blocks=(BLOCKS[3],), noise=laplace_noise(1.0), by=BY)
    steps = mechanism.add(np.concatenate(several), masses)
    assert int(np.abs(steps).sum()) * Fraction(mechanism.lattice.step) <= 1


def test_too_small_factors_are_refused() -> None:
    blocks = (Split(column=0, factor=2.0), Split(column=1, factor=2.0))
    VectorStatistic(name="means", blocks=blocks, noise=laplace_noise(1.0))
    less = (blocks[0], replace(blocks[1], factor=math.nextafter(2.0, 0.0)))
    with pytest.raises(ArgumentError, match="factors"):
        VectorStatistic(name="means", blocks=less, noise=laplace_noise(1.0))
    root = math.nextafter(math.sqrt(2.0), 2.0)
    gaussian = tuple(replace(block, factor=root) for block in blocks)
    VectorStatistic(name="means", blocks=gaussian, noise=GaussianNoise(scale=1.0))
    with pytest.raises(ArgumentError, match="factors"):
        VectorStatistic(
            name="means",
            blocks=tuple(replace(block, factor=root * (1.0 - 1e-9)) for block in blocks),
            noise=GaussianNoise(scale=1.0),
        )


RECIPES: list[Recipe] = [
    Counts(),
    Sums(),
    SumsOfSample(),
    Means(),
    Variances(),
    Histogram(bins=7),
    Covariance(),
    Description(),
    Description(statistics=("count", "sum", "mean")),
    Description(statistics=("median", "count")),
]
COLUMNS = {"a": (0, 10), "b": (-5, 3), "c": (0, 1), "flag": bool, "kind": ["x", "y", "z"]}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: type(recipe).__name__)
@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("pooled", [False, True])
def test_the_blocks_of_every_statistic_share_the_price_of_one_count(
    recipe: Recipe, gaussian: bool, pooled: bool
) -> None:
    names = [name for name in COLUMNS if name != "kind" or not isinstance(recipe, Covariance)]
    schema = pais.Schema.of({name: COLUMNS[name] for name in names})
    fields = Fields.of(schema, names, (), pooled=pooled)
    blocks = scaled_blocks(with_ends(recipe.blocks(fields), fields, gaussian=gaussian), gaussian=gaussian)
    shares = [1 / Fraction(block.factor) ** (2 if gaussian else 1) for block in blocks]
    assert 1 - Fraction(1, 10**9) <= sum(shares) <= 1


def test_the_noise_that_is_drawn_has_the_scale_that_is_priced() -> None:
    """With one block of factor 4 and scale 0.5, the noise has the scale 2; half of it is caught."""
    mechanism = VectorStatistic(name="counts", blocks=(Rows(factor=4.0),), noise=laplace_noise(0.5))
    plan = pais.Plan(
        ball=pais.Ball(radius=1.0), rule=pais.UniformRule(rate=1.0), mechanism=mechanism, epsilon=2.0 * (1 + 1e-9)
    )
    table = np.zeros((10, 1))
    sizes = [abs(float(pais.run(plan, table, random_state=seed).value[0, 0]) - 10.0) for seed in range(2000)]
    # The mean of 2,000 exponential variables of scale 2 has the deviation 0.045.
    assert abs(np.mean(sizes) - 2.0) < 0.25
    assert abs(np.mean(sizes) - 1.0) > 0.25


def frame(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.beta(2, 5, n) * 10, "b": rng.normal(-1, 2, n), "flag": rng.random(n) < 0.3})


@pytest.mark.parametrize("delta", [0.0, 1e-4], ids=["pure", "gaussian"])
def test_the_certificate_states_what_was_asked_for(delta: float) -> None:
    columns = {"a": (0, 10), "b": (-5, 3), "flag": bool}
    result = pais.covariance(frame(100), columns=columns, epsilon=0.7, delta=delta, random_state=0)
    assert (result.certificate.epsilon, result.certificate.delta) == (0.7, delta)
    assert result.certificate.matches(result)


def test_missing_and_extreme_cells_raise_no_error_and_change_little() -> None:
    """A row of any cells moves a mean by no more than a row within the bounds."""
    columns = {"a": (0, 10), "b": (-5, 3)}
    table = pd.DataFrame({"a": np.full(1000, 5.0), "b": np.full(1000, -1.0)})
    worst = 0.0
    for cell in (np.nan, np.inf, -np.inf, 1e308, -1e308, 10.0, 0.0):
        more = pd.concat([table, pd.DataFrame({"a": [cell], "b": [cell]})], ignore_index=True)
        before, after = (pais.mean(rows, columns=columns, random_state=3) for rows in (table, more))
        mechanism = before.plan.mechanism  # type: ignore[union-attr]
        change = np.abs(after.released - before.released)[0]
        # In units of the noise of each block, compared with that of a count alone.
        size = sum(
            change[place].sum() / block.factor
            for block, place in zip(mechanism.blocks, mechanism.places, strict=True)  # type: ignore[attr-defined]
        )
        worst = max(worst, float(size))
    assert 0.99 <= worst <= 1.0 + 1e-8


def test_the_number_of_groups_does_not_raise_the_noise() -> None:
    table = pd.DataFrame({"a": np.full(300, 5.0), "g": np.repeat(["x", "y", "z"], 100)})
    few = pais.mean(table, columns={"a": (0, 10)}, by={"g": ["x", "y"]}, random_state=0)
    many = pais.mean(table, columns={"a": (0, 10)}, by={"g": ["x", "y", *map(str, range(50))]}, random_state=0)
    assert few.certificate.mechanism["noise"] == many.certificate.mechanism["noise"]
    assert few.certificate.epsilon == many.certificate.epsilon == 1.0


def test_whole_counts_have_geometric_noise_and_others_do_not() -> None:
    table = frame(50)
    whole = pais.histogram(table, columns={"a": (0, 10)}, random_state=0)
    assert whole.certificate.mechanism["noise"]["law"] == GeometricNoise(scale=1.0).to_dict()["law"]  # type: ignore[index]
    assert np.array_equal(whole.released, np.rint(whole.released))
    shares = pais.mean(table, columns={"a": (0, 10)}, random_state=0)
    assert shares.certificate.mechanism["noise"]["law"] == "laplace"  # type: ignore[index]
