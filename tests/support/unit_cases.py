"""How much a unit changes what a mechanism or a survey adds its noise to, in whole steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pais import Ball, Rule
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import bit_source
from pais.data.engines.base import Engine, Sampling, WeightedRows
from pais.data.engines.local import Members, UnitSampling
from pais.data.sources import source
from pais.data.units import Unit
from pais.mechanisms.base import Mechanism

FEATURES = ("x", "y", "z", "v")
PERSON = "somebody"

#: Noise beyond this many scales is never drawn in these tests.
_FAR = 4.0


@dataclass
class _Steps:
    """The sums of one run before their noise, with the scales of the noise; and what was released."""

    sums: list[IntArray] = field(default_factory=list)
    scales: list[FloatArray] = field(default_factory=list)
    released: list[FloatArray] = field(default_factory=list)


class Replay:
    """Run a computation on two tables. The second run is given the outputs of the first, as composition asks."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def loss(
        self, run: Callable[[Any], object], without: Any, with_unit: Any, *, order: float, gaussian: bool
    ) -> float:
        """Privacy loss of all outputs together, or their Gaussian shift."""
        first, second = _Steps(), _Steps()
        with self._recorded(first, None):
            run(without)
        with self._recorded(second, first.released):
            run(with_unit)
        assert len(first.sums) == len(second.sums) > 0
        parts = []
        for one, other, scale, again in zip(first.sums, second.sums, first.scales, second.scales, strict=True):
            np.testing.assert_array_equal(scale, again)
            change = (other - one).reshape(len(scale), -1).astype(np.float64)
            parts.append(np.linalg.norm(change, ord=2 if gaussian else order, axis=1) / scale)
        every = np.concatenate(parts)
        return float(np.sqrt(np.square(every).sum()) if gaussian else every.sum())

    @contextmanager
    def _recorded(self, steps: _Steps, replayed: list[FloatArray] | None) -> Iterator[None]:
        decode, drawn = Lattice.decode, []

        def noise(law: object, shape: tuple[int, int], scale: Any, bits: object) -> IntArray:
            scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), (shape[0],))
            whole = np.rint(np.clip(self._rng.normal(size=shape), -_FAR, _FAR) * scales[:, None]).astype(np.int64)
            drawn.append((scales, whole))
            return whole

        def released(lattice: Lattice, noisy: IntArray) -> FloatArray:
            # Outputs are decoded in another order than their noise is drawn; they differ in size then.
            place = next(index for index, (_, whole) in enumerate(drawn) if whole.size == noisy.size)
            scales, whole = drawn.pop(place)
            steps.sums.append(noisy - whole.reshape(noisy.shape))
            steps.scales.append(scales)
            output = decode(lattice, noisy) if replayed is None else replayed[len(steps.released)]
            steps.released.append(output)
            return output

        with patch("pais.mechanisms.noise.rounded_noise", noise), patch.object(Lattice, "decode", released):
            yield


def table_of(rows: FloatArray, who: list[Any] | NDArray[Any]) -> pd.DataFrame:
    frame = pd.DataFrame(np.asarray(rows, dtype=np.float64), columns=FEATURES[: np.shape(rows)[1]])
    return frame.assign(who=pd.Series(list(who), dtype=object))


def opened(rows: FloatArray, who: list[Any] | NDArray[Any], max_rows: int = 1) -> Engine:
    return source(table_of(rows, who), unit="who", max_rows_per_unit=max_rows)


def all_kept(engine: Engine, ball: Ball, rule: Rule) -> WeightedRows:
    """A sample in which every unit was kept, with the weights of its probability."""
    with patch("pais.data.engines.local.bernoulli", lambda probability, *_: np.ones(probability.size, dtype=bool)):
        return engine.sample(Sampling(ball=ball, rule=rule), bit_source(None))


def norm_of_unit(rows: FloatArray, ball: Ball, max_rows: int = 1) -> float:
    """The norm by which the engine keeps a unit."""
    members = Members(Unit(column="who", max_rows=max_rows))
    engine: Any = opened(rows, [PERSON] * len(rows), max_rows)
    blocks = engine._over_blocks(lambda block, _: block)
    for block in blocks:
        members.add(block)
    members.finish()
    sample = UnitSampling(members=members, sampling=Sampling(ball=ball, rule=_NONE))
    for block in blocks:
        sample.measure(block)
    return float(sample.norms(slice(0, 1))[0])


_NONE: Any = None


def loss_of_unit(
    mechanism: Mechanism,
    unit: FloatArray,
    others: FloatArray,
    *,
    ball: Ball,
    rule: Rule,
    max_rows: int = 1,
    seed: int = 0,
) -> float:
    """Loss, or shift, of a kept unit beside others that own a row each."""
    names = [f"other {number}" for number in range(len(others))]
    without = all_kept(opened(others, names, max_rows), ball, rule)
    both = np.concatenate([others, unit])
    with_unit = all_kept(opened(both, names + [PERSON] * len(unit), max_rows), ball, rule)
    gaussian = type(mechanism.profile).__name__ == "GaussianProfile"
    return Replay(seed).loss(
        lambda content: mechanism.measure(content, ball, bit_source(seed)),
        without,
        with_unit,
        order=ball.order,
        gaussian=gaussian,
    )
