"""Poisson importance sampling: one pass over the rows gives a small weighted sample, which can be used once."""

from __future__ import annotations

from threading import Lock
from typing import Any, Literal, NoReturn

from pais._base import process, validate
from pais._base.randomness import BitSource, RandomState, bit_source
from pais.data.ball import Ball
from pais.data.engines import AllRows, Engine, Thinning, WeightedRows
from pais.data.schema import Schema
from pais.data.sources import source
from pais.data.units import Unit
from pais.errors import ArgumentError, MismatchError, SpentError
from pais.mechanisms import Mechanism
from pais.privacy.rules import Rule

Strategy = Literal["auto", "pass", "thin"]


class WeightedSample:
    """Rows kept by a rule, with weight 1/probability each. Secret; it can be spent once.

    The guarantee of the rule holds for *one* mechanism run on the sample. A second mechanism on the same sample would
    cost the records again and is refused. Run both as one `Joint` mechanism, whose profile is the sum, and plan the
    rule for that profile.

    Notes
    -----
    Guarantee. Only one call of `spend` succeeds, even if several threads call it at the same time, and none succeeds in
    a process forked from the one that drew the sample: `tests/unit/test_spent_once.py`.
    """

    __slots__ = (
        "_ball",
        "_content",
        "_lock",
        "_n_features",
        "_private",
        "_process",
        "_rule",
        "_schema",
        "_spent_by",
        "_unit",
    )

    def __init__(
        self,
        content: WeightedRows | AllRows,
        *,
        rule: Rule,
        ball: Ball,
        private: bool,
        unit: Unit | None = None,
        schema: Schema | None = None,
    ) -> None:
        if hasattr(self, "_lock"):
            self._no_copy()
        self._rule, self._ball, self._private, self._unit = rule, ball, private, unit
        self._schema = schema
        self._n_features = content.n_features
        self._content: WeightedRows | AllRows | None = content
        self._spent_by: str | None = None
        self._lock = Lock()
        self._process = process.identity()

    @property
    def rule(self) -> Rule:
        """The rule that decided which rows were kept."""
        return self._rule

    @property
    def ball(self) -> Ball:
        """The ball the rows were clipped to."""
        return self._ball

    @property
    def unit(self) -> Unit | None:
        """The units that were kept as a whole; None if single rows were kept."""
        return self._unit

    @property
    def schema(self) -> Schema | None:
        """What is public about the columns, if the rows are scaled vectors."""
        return self._schema

    @property
    def n_features(self) -> int:
        """Number of columns of the rows."""
        return self._n_features

    @property
    def private(self) -> bool:
        """Whether the draws came from the cryptographic generator."""
        return self._private

    def spend(self, purpose: str) -> Any:
        """Return the rows for one mechanism. Every later call raises, and so does every call in another process.

        They are `WeightedRows`, or `AllRows` for a mechanism that streams.
        """
        # Check before taking the lock: in a forked process, a thread that does not exist there may hold it.
        self.require_own_process()  # [note: sample-2]
        with self._lock:
            content, self._content = self._content, None  # [note: sample-1]
            if content is not None:
                self._spent_by = purpose
        if content is None:
            raise SpentError(
                f"this sample was already spent on {self._spent_by!r}, so {purpose!r} cannot use it. Draw a new sample "
                "and account for it, or run both as one Joint mechanism."
            )
        return content

    def require_own_process(self) -> None:
        """Raise `SpentError` in a process other than the one that drew the sample: both copies could be spent."""
        if process.identity() != self._process:
            raise SpentError(
                "this sample was drawn in another process and can only be spent there. Draw a sample in this process "
                "and account for it."
            )

    @property
    def spent(self) -> bool:
        return self._content is None

    def __repr__(self) -> str:
        return f"WeightedSample(rule={self.rule!r}, ball={self.ball!r}, spent={self.spent}, private={self.private})"

    def _no_copy(self, *_: object) -> NoReturn:
        raise SpentError("a sample cannot be copied or pickled, since a copy could be spent again. Draw a new sample.")

    __copy__ = __deepcopy__ = __reduce_ex__ = __getstate__ = _no_copy


@validate.without_sizes
def sample(
    rows: object,
    *,
    ball: Ball,
    rule: Rule,
    random_state: RandomState | BitSource = None,
    strategy: Strategy = "auto",
) -> WeightedSample:
    """Keep each row independently with its probability under `rule`; the kept rows are clipped to the ball.

    Parameters
    ----------
    rows : array, table, path, Spark DataFrame or source
        Any input of `pais.source`: an array of shape (n, d) in any memory order, a file of any size, ...
    ball : Ball
        Public bounds. Norms are taken relative to its center and clipped at its radius.
    rule : Rule
        A public function of the norm.
    random_state : None, int or numpy Generator
        None draws from the operating system's cryptographic generator. Any other value is not private.
    strategy : {"auto", "pass", "thin"}
        "pass" reads every row; "thin" first selects candidates with the rule's largest probability and reads only
        those. Both use the same draws and give the same sample for the same bits.

    Notes
    -----
    Guarantee. The draws are independent, and each row is kept with exactly the probability that the rule returns as a
    double: `tests/unit/test_exact_draws.py`. This probability depends only on that row and on public values.

    A row that holds NaN or infinity is never kept and changes nothing for other rows:
    `tests/conformance/missing/test_missing_rows.py`.
    """
    validate.instance("ball", ball, Ball, "Build one with pais.Ball(radius=...).")
    engine = source(rows)
    engine.require_width(ball)
    validate.instance("rule", rule, Rule, "Wrap a function in FunctionRule.")
    if ball.radius > rule.radius:
        raise MismatchError(
            f"the ball has radius={ball.radius!r}, but the rule has {rule.radius!r}. Build the rule for this ball."
        )
    if strategy not in ("auto", "pass", "thin"):
        raise ArgumentError(f"strategy={strategy!r} is not known. Pass 'auto', 'pass' or 'thin'.")
    bits = bit_source(random_state, stream=0)
    read_all = None if strategy == "auto" else strategy == "pass"
    kept = engine.thin(Thinning(ball=ball, rule=rule, read_all=read_all), bits)
    return WeightedSample(kept, rule=rule, ball=ball, private=bits.private, unit=engine.unit, schema=engine.schema)


def sample_for(
    mechanism: Mechanism, engine: Engine, *, ball: Ball, rule: Rule, bits: BitSource, strategy: Strategy
) -> WeightedSample:
    """Draw the sample of a mechanism. If the rule keeps all rows and the mechanism streams, no row is held."""
    if not (mechanism.streams and rule.keeps_all):
        return sample(engine, ball=ball, rule=rule, random_state=bits, strategy=strategy)
    engine.require_width(ball)
    engine.require_passes(mechanism.passes)
    content = AllRows(engine=engine, ball=ball, seeded=not bits.private)
    return WeightedSample(content, rule=rule, ball=ball, private=bits.private, unit=engine.unit, schema=engine.schema)
