"""Room 5: Poisson importance sampling. One pass over the rows, a small weighted sample, spent once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pais import _validate
from pais._numerics import FloatArray, round_down
from pais.domain import Ball, table_of
from pais.errors import ArgumentError, DataError, MismatchError, SpentError
from pais.randomness import BitSource, RandomState, bernoulli, bit_source
from pais.rules import Rule

# Large enough that the calls on a block cost little beside the reading of it.
_BLOCK_BYTES = 1 << 24

# A thinning pass copies only the candidates of a block, so its blocks may be larger.
_THIN_BLOCK_BYTES = 1 << 26

# Below this largest probability it is faster to draw first and read only the candidates.
_THIN_BELOW = 0.3

T = TypeVar("T")
Strategy = Literal["auto", "pass", "thin"]


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightedRows:
    """The content of a sample: secret, for the mechanism that spends it. It has no readable repr on purpose."""

    rows: FloatArray
    weights: FloatArray


@dataclass(frozen=True, kw_only=True, repr=False)
class _Screened:
    """Rows of a block that the first bits of their draws do not rule out, and where in `rows` they are."""

    rows: FloatArray
    place: NDArray[np.intp]
    norm: FloatArray
    probability: FloatArray
    coarse: NDArray[np.uint8]


class WeightedSample:
    """Rows kept by a rule, with weight 1/probability each. Secret; it can be spent once.

    The rule's guarantee speaks of *one* mechanism run on the sample. A second one on the same rows pays again
    and is refused; run both as one `Joint` mechanism, whose profile is the sum, and plan the rule for that.
    """

    __slots__ = ("_ball", "_content", "_lock", "_private", "_rule", "_spent_by")

    def __init__(self, content: WeightedRows, *, rule: Rule, ball: Ball, private: bool) -> None:
        if hasattr(self, "_lock"):
            self._no_copy()
        self._rule, self._ball, self._private = rule, ball, private
        self._content: WeightedRows | None = content
        self._spent_by: str | None = None
        self._lock = Lock()

    @property
    def rule(self) -> Rule:
        """The rule the rows were kept by."""
        return self._rule

    @property
    def ball(self) -> Ball:
        """The ball the rows were clipped to."""
        return self._ball

    @property
    def private(self) -> bool:
        """Whether the draws came from the cryptographic generator."""
        return self._private

    def spend(self, purpose: str) -> WeightedRows:
        """Hand the rows to one mechanism; every later call is refused."""
        with self._lock:
            content, self._content = self._content, None
        if content is None:
            raise SpentError(
                f"this sample was spent on {self._spent_by!r} and cannot serve {purpose!r} too: its records would pay "
                "twice. Draw a new sample and account for it, or run both as one Joint mechanism."
            )
        self._spent_by = purpose
        return content

    @property
    def spent(self) -> bool:
        return self._content is None

    def __repr__(self) -> str:
        return f"WeightedSample(rule={self.rule!r}, ball={self.ball!r}, spent={self.spent}, private={self.private})"

    def _no_copy(self, *_: object) -> NoReturn:
        raise SpentError("a sample cannot be copied or pickled, since a copy could be spent again. Draw a new sample.")

    __copy__ = __deepcopy__ = __reduce_ex__ = __getstate__ = _no_copy


def sample(
    rows: ArrayLike,
    *,
    ball: Ball,
    rule: Rule,
    random_state: RandomState | BitSource = None,
    strategy: Strategy = "auto",
) -> WeightedSample:
    """Keep each row independently with its probability under `rule`; the kept rows are clipped to the ball.

    Parameters
    ----------
    rows : array of shape (n, d)
        float32, float64 or integers, in any memory order.
    ball : Ball
        Public bounds. Norms are taken relative to its center and clipped at its radius.
    rule : Rule
        A public function of the norm.
    random_state : None, int or numpy Generator
        None draws from the operating system's cryptographic generator. Anything else is not private.
    strategy : {"auto", "pass", "thin"}
        "pass" reads every row; "thin" draws against the rule's largest probability first and reads only the
        candidates. Both use the same draws and give the same sample for the same bits.

    Notes
    -----
    Guarantee. The draws are independent and exact for the double the rule returns:
    `tests/statistical/test_sampler.py`. A row's probability depends on that row and public values alone.

    "thin" does not look at rows it does not keep as candidates, so it finds NaN only among those.
    """
    _validate.instance("ball", ball, Ball, "Build one with pais.Ball(radius=...).")
    table = table_of(rows, ball)
    _validate.instance("rule", rule, Rule, "Wrap a function in FunctionRule.")
    if ball.radius > rule.radius:
        raise MismatchError(
            f"the ball has radius={ball.radius!r}, the rule only {rule.radius!r}. Build the rule for this ball."
        )
    if table.shape[0] == 0:
        raise DataError("rows is empty. Pass at least one row.")
    if strategy not in ("auto", "pass", "thin"):
        raise ArgumentError(f"strategy={strategy!r} is not known. Pass 'auto', 'pass' or 'thin'.")
    bits = bit_source(random_state, stream=0)
    # Raised past the rounding of a look-up between knots: no row may be ruled out by its first bits in error.
    ceiling = min(rule.largest_probability(ball.radius) * (1.0 + 2.0**-48), 1.0)
    # A table stored by columns is gathered row by row at a loss; read it through.
    thin = strategy == "thin" or (strategy == "auto" and ceiling < _THIN_BELOW and table.flags.c_contiguous)
    return WeightedSample(
        _draw(table, ball, rule, bits, ceiling, read_all=not thin), rule=rule, ball=ball, private=bits.private
    )


def _draw(
    table: NDArray[np.generic], ball: Ball, rule: Rule, bits: BitSource, ceiling: float, *, read_all: bool
) -> WeightedRows:
    """One pass over the table, in blocks shared among the cores.

    The first 8 bits of every row's draw come before the row is read. A row whose bits exceed the rule's largest
    probability, which is public, is out whatever its norm is; `read_all` reads it all the same and so finds NaN
    anywhere. The few rows that 8 bits do not decide are settled at the end, in the order of the rows, so that a seeded
    run does not depend on the threads.
    """
    # A seeded stream is read in the order of the rows; the operating system's serves every thread.
    seeded = None if bits.private else bits.words8(table.shape[0])
    step = max(1, (_BLOCK_BYTES if read_all else _THIN_BLOCK_BYTES) // (8 * table.shape[1]))

    def screen(start: int) -> _Screened:
        n = min(step, table.shape[0] - start)
        first = bits.words8(n) if seeded is None else seeded[start : start + n]
        candidates = np.flatnonzero(first <= int(min(ceiling * 256.0, 255.0)))
        block = table[start : start + step]
        rows = ball.shift(block if read_all else block.take(candidates, axis=0))
        norm = ball.norms(rows, candidates if read_all else None)
        probability = rule.evaluate(norm)
        coarse = first[candidates]
        maybe = np.flatnonzero(coarse <= probability * 256.0)
        if read_all:
            # A whole block must not be kept alive for the few rows in it.
            rows, place = rows.take(candidates[maybe], axis=0), np.arange(maybe.size)
        else:
            place = maybe
        return _Screened(rows=rows, place=place, norm=norm[maybe], probability=probability[maybe], coarse=coarse[maybe])

    starts = range(0, table.shape[0], step)
    parts = in_threads(screen, starts)
    probability = np.concatenate([part.probability for part in parts])
    drawn = bernoulli(probability, np.concatenate([part.coarse for part in parts]), bits)
    rows = np.empty((int(np.count_nonzero(drawn)), table.shape[1]))
    filled = 0
    for part, mask in zip(parts, np.split(drawn, np.cumsum([part.norm.size for part in parts])[:-1]), strict=True):
        n = int(np.count_nonzero(mask))
        part.rows.take(part.place[mask], axis=0, out=rows[filled : filled + n], mode="clip")
        filled += n
    outside = np.flatnonzero(np.concatenate([part.norm for part in parts])[drawn] >= ball.radius)
    rows[outside] = ball.clip(rows[outside])
    # Rounded toward less loss: weight times probability never exceeds 1.
    weights = np.maximum(round_down(1.0 / probability[drawn], 1.0), 1.0)
    return WeightedRows(rows=rows, weights=weights)


def in_threads(work: Callable[[int], T], starts: range) -> list[T]:
    """The work of every start, in order, shared among the cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if len(starts) == 1 or cores == 1:
        return [work(start) for start in starts]
    return list(_threads(os.getpid(), cores).map(work, starts))


@functools.lru_cache(maxsize=1)
def _threads(process: int, cores: int) -> ThreadPoolExecutor:
    """Threads that are kept; a forked process has none of its parent's, so it makes its own."""
    return ThreadPoolExecutor(cores)
