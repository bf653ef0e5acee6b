"""Values that are no numbers, norms or parts, and the check that each is refused without being quoted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pytest

import pais
from pais import Ball, GaussianProfile, LinearProfile, NormDistribution, PaisError, UniformRule, sample

# Planted in rows and arrays; none of its digits may turn up in an error.
CANARY = 1234.5678
DIGITS = ("1234", "5678")
LINEAR = LinearProfile(0.1, 0.5)
GAUSSIAN = GaussianProfile(20.0, 20.0)
BALL = Ball(radius=1e4)
EVERY = UniformRule(rate=1.0)
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


def each_refused(
    error: type[PaisError], call: Callable[[object], object], values: Mapping[str, object], match: str | None = None
) -> None:
    """Every value is refused; of the first that is not, the name is printed."""
    for name, bad in values.items():
        try:
            refused(error, functools.partial(call, bad), match=match)
        except BaseException:
            print(f"not refused as it should be: {name}")
            raise


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


def kept() -> pais.WeightedSample:
    return sample(np.ones((3, 2)), ball=Ball(radius=2.0, order=1.0), rule=UniformRule(rate=0.5))
