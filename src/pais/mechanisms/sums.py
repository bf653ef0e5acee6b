"""Weighted count, sum and mean with noise, and a mechanism that runs several of them on one sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.files import stored
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.data.engines.base import WeightedRows
from pais.errors import ArgumentError, MismatchError
from pais.mechanisms.base import Extent, Mechanism, added, exact_epsilon
from pais.mechanisms.noise import NoiseLaw, exact_quotient
from pais.privacy.profiles import (
    GaussianProfile,
    LinearProfile,
    Profile,
    PureProfile,
    ShiftProfile,
    add_profiles,
    joint_loss,
    joint_shift,
)
from pais.privacy.rules import UniformRule

_NOISE_HINT = "Pass laplace_noise(b), an LpNoise, a GeometricNoise or a GaussianNoise."


@stored("mechanism", "count")
@dataclass(frozen=True, kw_only=True)
class WeightedCount(Mechanism):
    """Sum of weights plus noise: an unbiased count of all rows."""

    noise: NoiseLaw
    name = "count"
    order = None
    protects_units = True

    def __post_init__(self) -> None:
        validate.instance("noise", self.noise, NoiseLaw, _NOISE_HINT)

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        return self.noise.count_profile()

    def require_lattice(self, extent: Extent) -> None:
        self.noise.lattice.require(extent.weight)

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        return exact_quotient(1.0, self.noise)

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> float:
        lattice = self.noise.lattice
        total = lattice.encode(content.weights).sum().reshape(1, 1)
        return float(lattice.decode(self.noise.added_to(total, lattice, bits))[0, 0])

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return value * max_rows


@stored("mechanism", "sum")
@dataclass(frozen=True, kw_only=True)
class WeightedSum(Mechanism):
    """Weighted sum of the rows, relative to the ball's center, plus noise."""

    noise: NoiseLaw
    name = "sum"
    protects_units = True

    def __post_init__(self) -> None:
        validate.instance("noise", self.noise, NoiseLaw, _NOISE_HINT)

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        return self.noise.sum_profile()

    @property
    def order(self) -> float:
        return self.noise.order

    def require_lattice(self, extent: Extent) -> None:
        self.noise.lattice.require(extent.contribution)

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        return exact_quotient(ball.radius, self.noise)

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> FloatArray:
        lattice = self.noise.lattice
        steps = lattice.encode(content.rows * content.weights[:, None]).sum(axis=0)
        return lattice.decode(self.noise.added_to(steps[None, :], lattice, bits)[0])

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return value * max_rows


@dataclass(frozen=True, kw_only=True)
class MeanValue:
    """A noisy mean with the noisy count and sum it was computed from. All are protected and may be published."""

    noisy_mean: FloatArray
    noisy_count: float
    noisy_sum: FloatArray


@stored("mechanism", "mean")
@dataclass(frozen=True, kw_only=True)
class WeightedMean(Mechanism):
    """Mean of all rows: noisy sum divided by noisy count, clipped to the ball, in the coordinates of the rows."""

    count_noise: NoiseLaw
    sum_noise: NoiseLaw
    name = "mean"
    protects_units = True

    def __post_init__(self) -> None:
        validate.instance("count_noise", self.count_noise, NoiseLaw, _NOISE_HINT)
        validate.instance("sum_noise", self.sum_noise, NoiseLaw, _NOISE_HINT)

    @property
    def profile(self) -> Profile:
        return _together([self.count_noise.count_profile(), self.sum_noise.sum_profile()])

    @property
    def order(self) -> float:
        return self.sum_noise.order

    def require_lattice(self, extent: Extent) -> None:
        WeightedCount(noise=self.count_noise).require_lattice(extent)
        WeightedSum(noise=self.sum_noise).require_lattice(extent)

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        return added([exact_quotient(1.0, self.count_noise), exact_quotient(ball.radius, self.sum_noise)])

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> MeanValue:
        noisy_count = WeightedCount(noise=self.count_noise).measure(content, ball, bits)
        noisy_sum = WeightedSum(noise=self.sum_noise).measure(content, ball, bits)
        # Clipping to the ball and a minimum count of one row are post-processing of protected values.
        inside = ball.clip((noisy_sum / max(noisy_count, 1.0))[None, :])[0]
        center = 0.0 if ball.center is None else np.asarray(ball.center)
        return MeanValue(noisy_mean=inside + center, noisy_count=noisy_count, noisy_sum=noisy_sum)

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return replace(value, noisy_count=value.noisy_count * max_rows, noisy_sum=value.noisy_sum * max_rows)


@stored("mechanism", "joint")
@dataclass(frozen=True, kw_only=True)
class Joint(Mechanism):
    """Several mechanisms on one sample, paid for together. Use it to compute more than one value from a sample."""

    parts: tuple[Mechanism, ...]
    name = "joint"

    def __post_init__(self) -> None:
        if not isinstance(self.parts, (tuple, list)) or not self.parts:
            raise ArgumentError("parts must be a tuple of mechanisms. Pass at least one.")
        object.__setattr__(self, "parts", tuple(self.parts))
        for part in self.parts:
            validate.instance("a part", part, Mechanism, "Pass a WeightedSum or another mechanism.")
        orders = {part.order for part in self.parts} - {None}
        if len(orders) > 1:
            raise MismatchError(f"parts have noise of different orders: {sorted(orders)}. Use noise of one order.")  # type: ignore[type-var]  # None was taken out

    @property
    def profile(self) -> Profile:
        return _together([part.profile for part in self.parts])

    @property
    def order(self) -> float | None:
        return next((part.order for part in self.parts if part.order is not None), None)

    def require_lattice(self, extent: Extent) -> None:
        for part in self.parts:
            part.require_lattice(extent)

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        everyone = UniformRule(rate=1.0)
        return added([exact_epsilon(part, everyone, ball) for part in self.parts])

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> tuple[object, ...]:
        return tuple(part.measure(content, ball, bits) for part in self.parts)

    @property
    def protects_units(self) -> bool:  # type: ignore[override]  # follows from the parts
        return all(part.is_for_units for part in self.parts)

    @property
    def streams(self) -> bool:  # type: ignore[override]  # follows from the parts
        return all(part.streams for part in self.parts)

    @property
    def passes(self) -> int:  # type: ignore[override]  # follows from the parts
        return sum(part.passes for part in self.parts)

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return tuple(part.in_rows(each, max_rows) for part, each in zip(self.parts, value, strict=True))


def _together(profiles: list[Profile]) -> Profile:
    """Profile of running several mechanisms on one sample: pure losses add, and squared Gaussian shifts add."""
    pure = [profile for profile in profiles if isinstance(profile, PureProfile)]
    shifts = [profile for profile in profiles if isinstance(profile, ShiftProfile)]
    # Exact types: a subclass may define another loss, which a sum of parameters would ignore.
    linear = [profile for profile in pure if type(profile) is LinearProfile]
    gaussian = [profile for profile in shifts if type(profile) is GaussianProfile]
    if len(linear) == len(profiles):
        return add_profiles(linear)  # [note: joint-1]
    if len(gaussian) == len(profiles):
        return add_profiles(gaussian)  # [note: joint-2]
    if len(pure) == len(profiles):
        return joint_loss(pure)
    if len(shifts) == len(profiles):
        return joint_shift(shifts)
    raise MismatchError("the parts mix pure and Gaussian noise. Use one kind of noise throughout.")
