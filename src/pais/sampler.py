"""Room 5: Poisson importance sampling. One pass over the rows, a small weighted sample, spent once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pais._numerics import FloatArray, round_down
from pais.domain import Ball, table_of
from pais.errors import ArgumentError, DataError, MismatchError, SpentError
from pais.randomness import BitSource, RandomState, bernoulli, bit_source
from pais.rules import Rule

# Rows of a block stay in the second-level cache while norms, probabilities and draws are formed.
_BLOCK_BYTES = 1 << 19

# Below this largest probability it is faster to draw first and read only the candidates.
_THIN_BELOW = 0.3

Strategy = Literal["auto", "pass", "thin"]


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightedRows:
    """The content of a sample: secret, for the mechanism that spends it. It has no readable repr on purpose."""

    rows: FloatArray
    weights: FloatArray


class WeightedSample:
    """Rows kept by a rule, with weight 1/probability each. Secret; it can be spent once.

    The rule's guarantee speaks of *one* mechanism run on the sample. A second one on the same rows pays again
    and is refused; run both as one `Joint` mechanism, whose profile is the sum, and plan the rule for that.
    """

    __slots__ = ("_content", "_spent_by", "ball", "private", "rule")

    def __init__(self, content: WeightedRows, *, rule: Rule, ball: Ball, private: bool) -> None:
        self.rule = rule
        self.ball = ball
        self.private = private
        self._content: WeightedRows | None = content
        self._spent_by: str | None = None

    def spend(self, purpose: str) -> WeightedRows:
        """Hand the rows to one mechanism; every later call is refused."""
        if self._content is None:
            raise SpentError(
                f"this sample was spent on {self._spent_by!r} and cannot serve {purpose!r} too: its records would pay "
                "twice. Draw a new sample and account for it, or run both as one Joint mechanism."
            )
        content, self._content, self._spent_by = self._content, None, purpose
        return content

    @property
    def spent(self) -> bool:
        return self._content is None

    def __repr__(self) -> str:
        return f"WeightedSample(rule={self.rule!r}, ball={self.ball!r}, spent={self.spent}, private={self.private})"

    def _no_copy(self, *_: object) -> NoReturn:
        raise SpentError("a sample cannot be copied or pickled, since a copy could be spent again. Draw a new sample.")

    __copy__ = __deepcopy__ = __reduce_ex__ = _no_copy


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
    table = table_of(rows, ball)
    if not isinstance(rule, Rule):
        raise MismatchError(
            f"rule must be a Rule, and it is of type {type(rule).__name__}. Wrap a function in FunctionRule."
        )
    if ball.radius > rule.radius:
        raise MismatchError(
            f"the ball has radius={ball.radius!r}, the rule only {rule.radius!r}. Build the rule for this ball."
        )
    if table.shape[0] == 0:
        raise DataError("rows is empty. Pass at least one row.")
    if strategy not in ("auto", "pass", "thin"):
        raise ArgumentError(f"strategy={strategy!r} is not known. Pass 'auto', 'pass' or 'thin'.")
    bits = bit_source(random_state)
    ceiling = rule.largest_probability(ball.radius)
    # A stored-by-columns table is gathered row by row at a loss; read it through.
    thin = strategy == "thin" or (strategy == "auto" and ceiling < _THIN_BELOW and table.flags.c_contiguous)
    step = max(1, _BLOCK_BYTES // (8 * table.shape[1]))
    kept, probabilities = [], []
    for start in range(0, table.shape[0], step):
        block = table[start : start + step]
        chosen, probability = _draw(block, ball, rule, bits, ceiling if thin else 1.0)
        kept.append(ball.clip(chosen))
        probabilities.append(probability)
    weights = np.maximum(round_down(1.0 / np.concatenate(probabilities), 1.0), 1.0)
    content = WeightedRows(rows=np.concatenate(kept), weights=weights)
    return WeightedSample(content, rule=rule, ball=ball, private=bits.private)


def _draw(
    block: NDArray[np.generic], ball: Ball, rule: Rule, bits: BitSource, ceiling: float
) -> tuple[FloatArray, FloatArray]:
    """Kept rows of one block, shifted, and their probabilities.

    The first 16 bits of every row's draw are compared with the public ceiling; a row above it is out whatever
    its norm is, so it need not be read.
    """
    coarse = bits.words16(block.shape[0])
    if ceiling < 1.0:
        candidates = np.flatnonzero(coarse <= np.uint16(min(int(ceiling * 65536.0), 65535)))
        block, coarse = block[candidates], coarse[candidates]
    shifted = ball.shift(block)
    probability = rule.evaluate(ball.norms(shifted))
    keep = np.flatnonzero(bernoulli(probability, coarse, bits))
    return shifted[keep], probability[keep]
