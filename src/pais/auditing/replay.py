"""Replay: run a call on two neighbouring tables with the same released values, and compare all that it did.

A call adds noise to secret totals in one place, `NoiseLaw.added_to`. The first run records the totals, the noise and
the values that left. The second run, on the other table, is forced to release those values. Then everything a reader
sees must be equal, and the move of the totals in units of their noise must be within the price that was certified.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray
from pais._base.tape import TAPE
from pais.data.engines import AllRows
from pais.data.sources import opened
from pais.errors import ArgumentError
from pais.privacy.amplification import largest_shift

#: Runs on a table with a seed: ``call(table, random_state)``.
Call = Callable[[Any, Any], Any]

# Names and times that are drawn for each release; they hold nothing about the rows.
_DRAWN = re.compile(r"\b[0-9a-f]{32}\b|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:\+\d\d:\d\d|Z)?")

# A move may exceed its price by this factor, for the rounding of the comparison itself.
_ROUNDING = 1.0 + 1e-9

# Points of the integral over the loss of a survey, in standard deviations.
_GRID = np.linspace(-12.0, 12.0, 4801)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """Totals with noise, or scores with a choice, as one run saw them."""

    law: str
    order: float
    scales: FloatArray
    total: IntArray
    left: IntArray
    after_sample: bool

    def difference(self, other: Draw) -> str:
        """What differs apart from the totals, in words; nothing if nothing does."""
        if self.law != other.law:
            return f"the noise is {self.law} on one table and {other.law} on the other"
        if self.total.shape != other.total.shape:
            return f"{self.law} noise of shape {self.total.shape} on one table and {other.total.shape} on the other"
        if not np.array_equal(self.scales, other.scales):
            return f"the scales of {self.law} noise differ"
        return ""

    @property
    def gaussian(self) -> bool:
        return self.law == "GaussianNoise"

    def move(self, other: Draw) -> float:
        """The move between two tables: the shift for Gaussian noise, the loss for pure noise and for a choice."""
        if self.law == _CHOICE:
            choice = int(self.left[0, 0])
            ours, theirs = (log_chance(draw.total[0], choice, float(draw.scales[0])) for draw in (self, other))
            return abs(ours - theirs)
        # Totals are counted modulo 2**64, so that their difference is exact.
        moved = (self.total - other.total).astype(np.float64) / self.scales[:, None]
        lengths = np.linalg.norm(moved, ord=self.order, axis=1)
        return float(np.linalg.norm(lengths)) if self.gaussian else math.fsum(lengths)


_CHOICE = "choice"


def log_chance(scores: IntArray, choice: int, scale: float) -> float:
    """Logarithm of the chance that permute-and-flip takes a candidate, exact up to rounding.

    A candidate that is accepted is taken with probability 1 / (number accepted), which is the integral over t of the
    product of (1 - p + p t) over the other candidates. Its logarithm is concave in t, so that intervals which halve
    toward 1 and a few nodes in each give all digits that matter.
    """
    gaps, counts = np.unique(scores.max() - scores, return_counts=True)
    counts[np.searchsorted(gaps, scores.max() - scores[choice])] -= 1
    points, weights = special.roots_legendre(24)
    ends = np.append(0.0, 0.5 ** np.arange(60.0, -1.0, -1.0))
    below = (ends[:-1, None] + 0.5 * (points + 1.0) * np.diff(ends)[:, None]).ravel()
    width = (0.5 * weights * np.diff(ends)[:, None]).ravel()
    logs = counts @ np.log1p(-np.exp(-gaps / scale)[:, None] * below)
    return float(special.logsumexp(logs, b=width) - (scores.max() - scores[choice]) / scale)


@dataclass(eq=False)
class _Recording:
    """The tape of one run. With `forced`, its values leave instead of those that were drawn."""

    forced: Sequence[Draw] | None = None
    push: float = 0.0
    draws: list[Draw] = field(default_factory=list)
    after_sample: bool = False

    def noisy(self, total: IntArray, noisy: IntArray, *, law: str, order: float, scales: FloatArray) -> IntArray:
        if self.push:
            # Far from the values that are likely, so that the second run meets outcomes that are rare.
            signs = np.where(np.arange(noisy.size).reshape(noisy.shape) % 3 == 0, -1.0, 1.0)
            far = np.clip(self.push * signs * scales[:, None], -(2.0**62), 2.0**62)
            noisy = noisy + np.rint(far).astype(np.int64)
        return self._leaves(total, noisy, law, order, scales)

    def chosen(self, scores: IntArray, choice: int, *, scale: float) -> int:
        if self.push:
            choice = scores.size - 1 if self.push > 0.0 else 0
        left = self._leaves(scores[None, :], np.array([[choice]]), _CHOICE, 1.0, np.array([scale]))
        return int(left[0, 0])

    def sampled(self, *, keeps_all: bool) -> None:
        self.after_sample = not keeps_all

    def _leaves(self, total: IntArray, left: IntArray, law: str, order: float, scales: FloatArray) -> IntArray:
        draw = Draw(
            law=law,
            order=order,
            scales=np.array(scales),
            total=total.copy(),
            left=left.copy(),
            after_sample=self.after_sample,
        )
        position = len(self.draws)
        self.draws.append(draw)
        if self.forced is None or position >= len(self.forced) or draw.difference(self.forced[position]):
            return left
        return self.forced[position].left.copy()


@dataclass(frozen=True, kw_only=True)
class Move:
    """How far one record moved the totals of one transcript, before a sample was drawn and after it."""

    shift: float = 0.0
    loss: float = 0.0
    shift_of_sample: float = 0.0
    loss_of_sample: float = 0.0

    @classmethod
    def of(cls, ours: Sequence[Draw], theirs: Sequence[Draw]) -> Move:
        pairs = [(draw, draw.move(other)) for draw, other in zip(ours, theirs, strict=True)]

        def total(*, gaussian: bool, after: bool) -> float:
            moves = [move for draw, move in pairs if draw.gaussian is gaussian and draw.after_sample is after]
            return math.hypot(*moves) if gaussian else math.fsum(moves)

        return cls(
            shift=total(gaussian=True, after=False),
            loss=total(gaussian=False, after=False),
            shift_of_sample=total(gaussian=True, after=True),
            loss_of_sample=total(gaussian=False, after=True),
        )

    def used(self, *, epsilon: float, delta: float, probability: float) -> float:
        """The move over the price: of shifts for Gaussian noise, of losses for pure noise, of deltas for a sample."""
        pure = self.loss + math.log1p(probability * math.expm1(self.loss_of_sample))
        if self.shift == self.shift_of_sample == 0.0:
            return pure / epsilon
        if pure >= epsilon or delta == 0.0:
            return math.inf
        if self.shift_of_sample == 0.0 or probability == 1.0:
            return math.hypot(self.shift, self.shift_of_sample) / largest_shift(epsilon - pure, delta)
        return sampled_delta(epsilon - pure, self.shift, self.shift_of_sample, probability) / delta


def sampled_delta(epsilon: float, shift: float, shift_of_sample: float, probability: float) -> float:
    """Delta of a survey that moves by one shift and of a sample that moves by another if it holds the record.

    The larger of adding and removing the record, by one integral over the loss of the survey.
    """
    weights = np.exp(-0.5 * _GRID**2) * (_GRID[1] - _GRID[0]) / math.sqrt(2.0 * math.pi)
    if shift == 0.0:
        grid, weights = np.zeros(1), np.ones(1)
    else:
        grid = _GRID
    survey = shift * grid - 0.5 * shift**2  # logarithm of the likelihood ratio, under the table without the record
    # With a = e^eps / L0, the sample's ratio 1 - q + q L1 crosses a at L1 = (a - 1 + q) / q.
    excess = np.exp(np.clip(epsilon - survey, -700.0, 700.0))
    removed = np.exp(survey) * _mixture_excess(excess, shift_of_sample, probability)
    # Adding: E[(1 - e^eps L0 (1 - q + q L1))+] under the table without the record.
    least = np.exp(np.clip(-epsilon - survey, -700.0, 700.0))
    added = np.exp(epsilon + survey) * _mixture_shortfall(least, shift_of_sample, probability)
    return float(max(weights @ removed, weights @ added))


def _mixture_excess(level: FloatArray, shift: float, q: float) -> FloatArray:
    """E[(1 - q + q L - level)+], where L is the likelihood ratio of a Gaussian shift."""
    ratio = (level - 1.0 + q) / q
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(ratio > 0.0, np.log(ratio) / shift + 0.5 * shift, -np.inf)
    return np.asarray(q * special.ndtr(shift - z) - (level - 1.0 + q) * special.ndtr(-z))


def _mixture_shortfall(level: FloatArray, shift: float, q: float) -> FloatArray:
    """E[(level - (1 - q + q L))+]."""
    ratio = (level - 1.0 + q) / q
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(ratio > 0.0, np.log(ratio) / shift + 0.5 * shift, -np.inf)
    return np.asarray((level - 1.0 + q) * special.ndtr(z) - q * special.ndtr(z - shift))


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """What a replay found.

    Attributes
    ----------
    target : str
        Name of the call.
    epsilon, delta : float
        The price that was certified, or claimed.
    used : float
        The largest move of any transcript over the price: above 1, the guarantee does not hold.
    probability : float
        The chance with which the record is kept in the sample; 1 if all rows are used.
    differences : tuple of str
        Everything that differed apart from the secret totals. Each one is a leak.
    transcripts : int
        Number of transcripts that were compared.
    draws : int
        Largest number of draws in a transcript.
    moves : tuple of Move
        The moves of the transcripts.
    """

    target: str
    epsilon: float
    delta: float
    used: float
    probability: float
    differences: tuple[str, ...]
    transcripts: int
    draws: int
    moves: tuple[Move, ...]

    @property
    def violates(self) -> bool:
        """Whether the guarantee does not hold: something leaked, or a record moved totals by more than was paid."""
        return bool(self.differences) or self.used > _ROUNDING

    def __str__(self) -> str:
        verdict = "the guarantee does NOT hold" if self.violates else "nothing above the price was found"
        lines = [
            f"Replay of {self.target}: {verdict}.",
            f"The record moved the totals by {self.used:.4g} of the price (epsilon {self.epsilon:g}, delta "
            f"{self.delta:.3g}) in the worst of {self.transcripts} transcripts with up to {self.draws} draws each.",
        ]
        return "\n".join([*lines, *(f"differs: {text}" for text in self.differences)])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Run:
    draws: list[Draw]
    seen: dict[str, str]
    result: Any


def _run(call: Call, table: Any, seed: Any, recording: _Recording) -> _Run:
    """Run the call once; return what it drew, what its reader saw, and its result (None if it raised)."""
    token = TAPE.set(recording)
    result = None
    try:
        with (
            warnings.catch_warnings(record=True) as issued,
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            warnings.simplefilter("always")
            try:
                result = call(table, seed)
                outcome = "released"
            except Exception as error:  # an error is an outcome that the caller sees
                outcome = f"{type(error).__name__}: {error}"
    finally:
        TAPE.reset(token)
    seen = {
        "outcome": outcome,
        "warnings": "\n".join(f"{warning.category.__name__}: {warning.message}" for warning in issued),
        "output": out.getvalue() + err.getvalue(),
        **({} if result is None else visible(result)),
    }
    return _Run(draws=recording.draws, seen={name: _DRAWN.sub("…", text) for name, text in seen.items()}, result=result)


def visible(result: Any) -> dict[str, str]:
    """Everything a reader can get out of a result, as texts by name."""
    seen = {"text": str(result), "repr": repr(result)}
    fitted = getattr(result, "fit_", None)
    for name, owner in (("certificate", result), ("certificate_", result), ("plan", result), ("plan_", result)):
        part = getattr(owner, name, None)
        if part is not None:
            seen[name] = str(part.to_dict())
    for name in ("value", "released", "standard_error"):
        if hasattr(result, name):
            seen[name] = _numbers(getattr(result, name))
    if fitted is not None:
        seen["fit"] = _numbers(fitted.value)
        seen["attributes"] = _numbers({key: value for key, value in vars(result).items() if key.endswith("_")})
    for name in ("explain", "to_frame", "summary"):
        method = getattr(result, name, None)
        if callable(method):
            with contextlib.suppress(ImportError):
                table = method()
                seen[name] = table.to_csv() if hasattr(table, "to_csv") else str(table)
    if hasattr(result, "write_report"):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "report.html"
            with contextlib.suppress(ArgumentError):
                result.write_report(page, date="today")
                seen["page"] = page.read_text(encoding="utf-8")
    return seen


def _numbers(value: Any) -> str:
    """All digits of a value: arrays are written whole."""
    with np.printoptions(threshold=10**9, precision=17, floatmode="unique"):
        return str(value) if isinstance(value, (np.ndarray, float, int, str)) else repr(value)


def replay(
    call: Call,
    present: Any,
    absent: Any,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    probability: float | Callable[[Any], float] = 1.0,
    seeds: Sequence[int] = (0, 1),
    pushes: Sequence[float] = (0.0, 3.0),
) -> ReplayReport:
    """Replay a call on a table with a record and on the same table without it.

    Parameters
    ----------
    call : callable
        ``call(table, random_state)`` runs a release with that seed and returns a result with its certificate.
    present, absent : tables
        The table with the record and without it. In a sample, the coins of all other rows must be the same on both:
        append the record at the end.
    epsilon, delta : float, optional
        The price, if it is claimed: then delta is 0 if left out. None takes both from the certificate of each run.
    probability : float or callable
        The chance that the record is kept in the sample, or a function of the result that computes it.
    seeds, pushes : sequences
        Every seed is run from either table, with values that leave as drawn, and moved by a multiple of their noise.

    Notes
    -----
    Replay finds faults and proves nothing: other records, tables and transcripts may move more. It does not see the
    noise law, the random bits, or the time that a call takes.
    """
    differences: dict[str, None] = {}
    moves: list[Move] = []
    used, most_draws, chance = 0.0, 0, 1.0
    price = (epsilon or 0.0, delta or 0.0)
    for seed in seeds:
        for push in pushes:
            for first, second in ((present, absent), (absent, present)):
                ours = _run(call, first, seed, _Recording(push=push))
                theirs = _run(call, second, seed, _Recording(forced=ours.draws))
                most_draws = max(most_draws, len(ours.draws))
                found = _differences(ours, theirs)
                differences.update(dict.fromkeys(found))
                if found:
                    continue
                if ours.result is None:
                    raise ArgumentError(f"the call fails on both tables ({ours.seen['outcome']}). Pass one that runs.")
                price = _price(ours.result, epsilon, delta)
                chance = probability(ours.result) if callable(probability) else probability
                move = Move.of(ours.draws, theirs.draws)
                moves.append(move)
                used = max(used, move.used(epsilon=price[0], delta=price[1], probability=chance))
    return ReplayReport(
        target=getattr(call, "__name__", "the call"),
        epsilon=price[0],
        delta=price[1],
        used=used,
        probability=chance,
        differences=tuple(differences),
        transcripts=len(moves),
        draws=most_draws,
        moves=tuple(moves),
    )


def kept_with(record: Any) -> Callable[[Any], float]:
    """Return the function of a result that says with which chance its plan keeps a record: a row, or a person's rows.

    The norm of a person is the root of the sum of the squares of the norms of the rows, each times the row's mass.
    """

    def probability(result: Any) -> float:
        plan = getattr(result, "plan_", None) or getattr(result, "plan", None)
        if plan is None or plan.rule.keeps_all:
            return 1.0
        squares: list[float] = []

        def look(rows: FloatArray, masses: FloatArray) -> IntArray:
            squares.append(float(masses @ plan.ball.norms(rows) ** 2))
            return np.zeros(1, dtype=np.int64)

        engine = opened(record, plan.schema, plan.unit)
        AllRows(engine=engine, ball=plan.ball, seeded=True).total(look)
        return float(plan.rule.probability(min(math.sqrt(math.fsum(squares)), plan.ball.radius)))

    return probability


def _price(result: Any, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    certificate: Any = getattr(result, "certificate_", None) or getattr(result, "certificate", None)
    if epsilon is not None:
        return epsilon, delta or 0.0
    if certificate is None:
        raise ArgumentError("the result of the call has no certificate. Pass the claimed epsilon and delta.")
    return float(certificate.epsilon), float(certificate.delta)


def _differences(ours: _Run, theirs: _Run) -> list[str]:
    found = []
    if len(ours.draws) != len(theirs.draws):
        found.append(f"{len(ours.draws)} draws on one table and {len(theirs.draws)} on the other")
    for number, (draw, other) in enumerate(zip(ours.draws, theirs.draws, strict=False)):
        if text := draw.difference(other):
            found.append(f"draw {number + 1}: {text}")
            break
    for key in {**ours.seen, **theirs.seen}:
        if ours.seen.get(key) != theirs.seen.get(key):
            found.append(f"{key} ({_first_difference(ours.seen.get(key, ''), theirs.seen.get(key, ''))})")
    return found


def _first_difference(ours: str, theirs: str) -> str:
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return f"{ours[max(0, place - 20) : place + 40]!r} against {theirs[max(0, place - 20) : place + 40]!r}"
