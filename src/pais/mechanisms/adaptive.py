"""Several releases on one sample, each chosen with the values released before."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

from pais._base import validate
from pais._base.numerics import divide_down
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.errors import AssumptionError
from pais.mechanisms.base import Extent, Mechanism
from pais.privacy.profiles import Profile, ShiftProfile


@dataclass(frozen=True, kw_only=True)
class AdaptiveRounds(Mechanism):
    """The same kind of release several times on one sample, each chosen with the values released before.

    Parameters
    ----------
    step : callable
        ``step(values)``: takes the tuple of the values released so far, which is empty at first, and returns the next
        mechanism. All mechanisms must have one and the same profile.
    n_rounds : int
        Number of rounds.

    Notes
    -----
    Guarantee. The profile bounds the loss of all rounds together: Gaussian shifts of equal rounds add in squares, and
    pure losses add. A mechanism with another profile than the first is refused before it reads a row:
    `tests/unit/mechanisms/test_vectors.py`.

    Assumes. `step` uses public values and the values it is given, and nothing else that depends on rows.

    Examples
    --------
    >>> import numpy as np
    >>> import pais
    >>> def step(values):
    ...     center = np.mean(values, axis=0) / 1000 if values else np.zeros(2)
    ...     return pais.VectorSum(
    ...         vectors=lambda rows: np.clip(rows - center, -1, 1),
    ...         bound=2**0.5,
    ...         noise=pais.gaussian_noise(30.0),
    ...         n_features=2,
    ...     )
    >>> rounds = pais.AdaptiveRounds(step=step, n_rounds=3)
    >>> plan = pais.Plan(
    ...     ball=pais.Ball(radius=5.0), rule=pais.UniformRule(rate=1.0), mechanism=rounds, epsilon=1.0, delta=1e-6
    ... )
    >>> len(pais.run(plan, np.ones((1000, 2))).value)
    3
    """

    step: Callable[[tuple[Any, ...]], Mechanism]
    n_rounds: int
    name = "adaptive rounds"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_rounds", validate.count("n_rounds", self.n_rounds))
        validate.instance("step(())", self._first, Mechanism, "Return a VectorSum or another mechanism.")

    @cached_property
    def _first(self) -> Mechanism:
        return self.step(())

    @property
    def profile(self) -> Profile:
        profile = self._first.profile
        rounds: float = self.n_rounds
        if isinstance(profile, ShiftProfile):
            root = math.isqrt(self.n_rounds)
            rounds = root if root**2 == self.n_rounds else math.nextafter(math.sqrt(self.n_rounds), math.inf)
        return profile.with_noise(float(divide_down(1.0, rounds)))  # [note: vectors-6]

    @property
    def n_features(self) -> int:
        """Number of columns of the rows, if the rounds state one; `hasattr` is false if they do not."""
        return int(self._first.n_features)  # type: ignore[attr-defined]  # an AttributeError is what is wanted

    @property
    def order(self) -> float | None:
        return self._first.order

    @property
    def streams(self) -> bool:  # type: ignore[override]  # follows from the rounds
        return self._first.streams

    @property
    def protects_units(self) -> bool:  # type: ignore[override]  # follows from the rounds
        return self._first.is_for_units

    def require_lattice(self, extent: Extent) -> None:
        self._first.require_lattice(extent)

    def measure(self, content: Any, ball: Ball, bits: BitSource) -> tuple[Any, ...]:
        values: tuple[Any, ...] = ()
        for _ in range(self.n_rounds):
            mechanism = self.step(values)
            self._require_like_the_first(mechanism)
            values = (*values, mechanism.measure(content, ball, bits))
        return values

    def _require_like_the_first(self, mechanism: Mechanism) -> None:
        """Raise if a round has another price than the plan. The rounds depend on released values, so this may tell."""
        validate.instance("step(values)", mechanism, Mechanism, "Return a VectorSum or another mechanism.")
        first = self._first
        alike = type(mechanism) is type(first) and mechanism.order == first.order
        alike = alike and mechanism.is_for_units == first.is_for_units and _numbers(mechanism) == _numbers(first)
        if not (alike and mechanism.profile == first.profile):
            raise AssumptionError(  # [note: vectors-7]
                "a round has another profile than the first round. Let step return mechanisms of one class with the "
                "same noise, the same bound and the same numbers, and define a bound function outside of step."
            )

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return tuple(self._first.in_rows(each, max_rows) for each in value)

    def describe(self) -> dict[str, Any]:
        """Public description of the rounds: that of the first, and their number."""
        return {"rounds": self.n_rounds, "first": self._first.to_dict()}


def _numbers(mechanism: Mechanism) -> list[Any]:
    """The numbers of a mechanism. They decide how fine its sums are, which is checked for the first round alone."""
    values: list[Any] = [getattr(mechanism, each.name) for each in fields(mechanism)] if is_dataclass(mechanism) else []
    parts = [value for value in values if isinstance(value, tuple)]
    return [
        *(value for value in values if isinstance(value, (int, float))),
        *(_numbers(each) for part in parts for each in part if isinstance(each, Mechanism)),
    ]
