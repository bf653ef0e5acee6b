"""Replay: run a call on two neighbouring tables with the same released values, and compare all that it did.

A call adds noise to secret totals in one place, `NoiseLaw.added_to`. The first run records the totals, the noise and
the values that left. The second run, on the other table, is forced to release those values. Then everything a reader
sees must be equal, and the move of the totals in units of their noise must be within the price that was certified.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import tempfile
import textwrap
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base.lattice import TAPE, IntArray, Named
from pais._base.numerics import FloatArray
from pais._version import __version__
from pais.errors import ArgumentError
from pais.privacy.amplification import epsilon_at_delta, largest_shift

#: Runs on a table with a seed: ``call(table, random_state)``.
Call = Callable[[Any, Any], Any]

#: Multiples of their noise by which the values that leave are moved: as drawn, unlikely, and extreme, on both sides.
#: Chosen by eye.
PUSHES = (0.0, 3.0, -3.0, 1e4, -1e4)

# Seeds that are tried until a sample holds the record: enough for a record that is kept with probability 0.05.
_MOST_SEEDS = 100

# Names and times that are drawn for each release, and addresses of objects; they hold nothing about the rows.
_DRAWN = re.compile(r"\b[0-9a-f]{32}\b|\b0x[0-9a-f]+\b|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:\+\d\d:\d\d|Z)?")

# A move may exceed its price by this factor, for the rounding of the comparison itself.
_ROUNDING = 1.0 + 1e-9

# Points of the integral over the loss of a survey, in standard deviations: tests/theory/test_replay.py compares it.
_GRID = np.linspace(-12.0, 12.0, 4801)

# The law of a choice among candidates, beside the names of noise laws.
_CHOICE = "choice"

# A noisy weight, in steps, with which a name is never published.
_UNPUBLISHED = -(1 << 60)

# What is seen of every run.
_ALWAYS_SEEN = ("outcome", "warnings", "output")

# Attributes of a result that hold values, and attributes that hold objects with a description.
_VALUES = ("value", "released", "standard_error", "entries", "elbow_")
_DESCRIBED = ("certificate", "certificate_", "plan", "plan_", "survey")

# Methods that put a result into words, frames and cards.
_METHODS = (
    "explain",
    "summary",
    "to_frame",
    "centers_frame",
    "coefficients_frame",
    "components_frame",
    "to_dict",
    "_repr_html_",
)

# Parts of a result that repeat its values, such as by a digest of them.
_REPEATED = ("certificate", "page", "html", "repr", "fit", "attributes")

# Kinds of differences that a text shows. Chosen by eye.
_MOST_SHOWN = 8

# Limits of a replay, for reports and pages.
_UNSEEN = (
    "A replay proves nothing about other records and tables. It does not see the law of the noise, the random bits, "
    "the coins of a sample, code that these runs did not reach, or the time that a call takes."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draw:
    """Totals with noise, or scores with a choice, as one run saw them."""

    law: str
    order: float
    scales: FloatArray
    total: IntArray
    left: IntArray
    after_sample: bool
    names: Named | None = None

    def difference(self, other: Draw) -> str:
        """What differs apart from the totals, in words; empty if nothing does."""
        if self.law != other.law:
            return f"the noise is {self.law} on one table and {other.law} on the other"
        if self.names is not None and other.names is not None:
            if self.names.delta != other.names.delta:
                return "the chance that a name of one person alone is published differs"
            # A record brings names that it has alone. Names that more people have, or nobody, cannot come or go.
            for one, two in ((self.names, other.names), (other.names, self.names)):
                if np.any(one.owners[~np.isin(one.keys, two.keys)] != 1):
                    return "a name of one table only gets noise, and it is not that of one person alone"
        elif self.total.shape != other.total.shape:
            return f"{self.law} noise of shape {self.total.shape} on one table and {other.total.shape} on the other"
        if self.order != other.order:
            return f"the norm of {self.law} noise is l{self.order:g} on one table and l{other.order:g} on the other"
        if not np.array_equal(self.scales, other.scales):
            return f"the scales of {self.law} noise differ"
        return ""

    def aligned(self, values: IntArray, keys: NDArray[np.uint64], *, missing: int) -> IntArray:
        """Values of names in the order of other keys, with `missing` for names that are not here."""
        assert self.names is not None
        places = {key: place for place, key in enumerate(self.names.keys.tolist())}
        extended = np.append(values[0], missing)
        return extended[[places.get(key, -1) for key in keys.tolist()]][None, :]

    @property
    def gaussian(self) -> bool:
        return self.law == "GaussianNoise"

    def move(self, other: Draw) -> float:
        """The move between two tables: the shift for Gaussian noise, the loss for pure noise and for a choice."""
        if self.law == _CHOICE:
            choice = int(self.left[0, 0])
            ours, theirs = (log_chance(draw.total[0], choice, float(draw.scales[0])) for draw in (self, other))
            return abs(ours - theirs)
        first, second = self.total, other.total
        if self.names is not None and other.names is not None:
            keys = np.union1d(self.names.keys, other.names.keys)
            first, second = (draw.aligned(draw.total, keys, missing=0) for draw in (self, other))
        # Totals are counted modulo 2**64, so that their difference is exact.
        moved = (first - second).astype(np.float64) / self.scales[:, None]
        lengths = np.linalg.norm(moved, ord=self.order, axis=1)
        return float(np.linalg.norm(lengths)) if self.gaussian else math.fsum(lengths)


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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sample:
    """The rows and weights of a sample that does not keep every row, and the plan whose rule drew it."""

    rows: FloatArray
    weights: FloatArray
    plan: Any

    def beyond(self, other: _Sample) -> FloatArray:
        """The rows that the other sample does not hold with the same weight."""
        known = Counter(other._cells())
        extra = []
        for place, cells in enumerate(self._cells()):
            if known[cells] == 0:
                extra.append(place)
            known[cells] -= 1
        return self.rows[extra]

    def _cells(self) -> list[bytes]:
        return [row.tobytes() for row in np.column_stack([self.rows, self.weights])]

    def chance(self, record: FloatArray) -> float:
        """The chance with which the rule keeps a record: a row, or all rows of a person."""
        ball, unit = self.plan.ball, self.plan.unit
        if unit is None and len(record) > 1:
            return 1.0  # Each row has its own coin, and some row is kept: these tables are no neighbours.
        mass = 1.0 if unit is None else float(unit.masses(np.array([len(record)]))[0]) / 2.0**unit.mass_bits
        norm = math.sqrt(math.fsum(mass * ball.norms(record) ** 2))
        return float(self.plan.rule.probability(min(norm, ball.radius)))


@dataclass(eq=False)
class _Recording:
    """The tape of one run. With `forced`, its values leave instead of those that were drawn."""

    forced: Sequence[Draw] | None = None
    push: float = 0.0
    draws: list[Draw] = field(default_factory=list)
    samples: list[_Sample] = field(default_factory=list)
    in_sample: bool = False
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def noisy(self, total: IntArray, noisy: IntArray, *, law: str, order: float, scales: FloatArray) -> IntArray:
        return self._leaves(total, self._pushed(noisy, scales), law, order, scales)

    def named(
        self, total: IntArray, noisy: IntArray, names: Named, *, law: str, order: float, scales: FloatArray
    ) -> IntArray:
        # That a name of one person alone is published is paid for by a part of delta, and left out here.
        left = np.where(names.owners == 1, _UNPUBLISHED, self._pushed(noisy, scales))
        return self._leaves(total, left, law, order, scales, names)

    def _pushed(self, noisy: IntArray, scales: FloatArray) -> IntArray:
        if not self.push:
            return noisy
        # Far from the values that are likely, so that the second run meets outcomes that are rare.
        signs = np.where(np.arange(noisy.size).reshape(noisy.shape) % 3 == 0, -1.0, 1.0)
        far = np.clip(self.push * signs * scales[:, None], -(2.0**62), 2.0**62)
        return noisy + np.rint(far).astype(np.int64)

    def chosen(self, scores: IntArray, choice: int, *, scale: float) -> int:
        if self.push:
            choice = scores.size - 1 if self.push > 0.0 else 0
        left = self._leaves(scores[None, :], np.array([[choice]]), _CHOICE, 1.0, np.array([scale]))
        return int(left[0, 0])

    def begin_sample(self, content: Any, plan: Any) -> None:
        if not plan.rule.keeps_all:
            self.samples.append(_Sample(rows=content.rows.copy(), weights=content.weights.copy(), plan=plan))
            self.in_sample = True

    def end_sample(self) -> None:
        self.in_sample = False

    def _leaves(
        self,
        total: IntArray,
        left: IntArray,
        law: str,
        order: float,
        scales: FloatArray,
        names: Named | None = None,
    ) -> IntArray:
        draw = Draw(
            law=law,
            order=order,
            scales=np.array(scales),
            total=total.copy(),
            left=left.copy(),
            after_sample=self.in_sample,
            names=names,
        )
        with self.lock:
            position = len(self.draws)
            self.draws.append(draw)
        if self.forced is None or position >= len(self.forced) or draw.difference(self.forced[position]):
            return left
        forced = self.forced[position]
        if names is not None and forced.names is not None:
            return forced.aligned(forced.left, names.keys, missing=_UNPUBLISHED)
        return forced.left.copy()


@dataclass(frozen=True, kw_only=True)
class Move:
    """How far one record moved the totals of one transcript, before a sample was drawn and after it.

    `chance` is the part of delta that pays for names which the record has alone.
    """

    shift: float = 0.0
    loss: float = 0.0
    shift_of_sample: float = 0.0
    loss_of_sample: float = 0.0
    chance: float = 0.0

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
            chance=_chance(ours),
        )

    def _pure(self, probability: float) -> float:
        return self.loss + math.log1p(probability * math.expm1(self.loss_of_sample))

    def used(self, *, epsilon: float, delta: float, probability: float, claimed: bool = False) -> float:
        """The move over the price: of shifts for Gaussian noise, of losses for pure noise, of deltas for a sample.

        Certificates add up the losses of pure noise. A claim of a user may have a delta because of which many losses
        together are worth less than their sum, so the sum does not refute it and is left out.
        """
        pure = 0.0 if claimed and delta > 0.0 else self._pure(probability)
        if self.chance > 0.0:
            if self.chance > delta:
                return math.inf
            delta -= self.chance
        if self.shift == self.shift_of_sample == 0.0:
            return pure / epsilon if epsilon > 0.0 else math.inf if pure > 0.0 else 0.0
        if pure >= epsilon or delta == 0.0:
            return math.inf
        if self.shift_of_sample == 0.0 or probability == 1.0:
            return math.hypot(self.shift, self.shift_of_sample) / largest_shift(epsilon - pure, delta)
        return sampled_delta(epsilon - pure, self.shift, self.shift_of_sample, probability) / delta

    def epsilon(self, *, delta: float, probability: float) -> float:
        """A lower bound on the epsilon at `delta` of releases whose totals move by this much.

        It is infinite for Gaussian noise at delta 0. At another delta, draws of pure noise count as if they were not
        released: then epsilon can only be smaller.
        """
        pure = 0.0 if delta > 0.0 else self._pure(probability)
        shift = math.hypot(self.shift, self.shift_of_sample)
        if shift == 0.0:
            return pure
        if delta == 0.0:
            return math.inf
        high = float(epsilon_at_delta(delta, shift, 1.0))
        if self.shift_of_sample == 0.0 or probability == 1.0:
            return high
        low = 0.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            above = sampled_delta(middle, self.shift, self.shift_of_sample, probability) > delta
            low, high = (middle, high) if above else (low, middle)
        return low

    def measure(self, probability: float) -> str:
        """What `used` is a quotient of."""
        if self.shift == self.shift_of_sample == 0.0:
            return "losses"
        return "shifts" if self.shift_of_sample == 0.0 or probability == 1.0 else "deltas"


def _chance(draws: Sequence[Draw]) -> float:
    """The sum over selections of names of the chance that a name of one person alone is published."""
    # The rounds of a selection share its names and its chance.
    selections = {id(draw.names): draw.names for draw in draws if draw.names is not None}
    return math.fsum(names.delta for names in selections.values())


def sampled_delta(epsilon: float, shift: float, shift_of_sample: float, probability: float) -> float:
    """Delta of a survey that moves by one shift and of a sample that moves by another if it holds the record.

    The larger of adding and removing the record, by one integral over the loss of the survey.
    """
    grid, weights = _GRID, np.exp(-0.5 * _GRID**2) * (_GRID[1] - _GRID[0]) / math.sqrt(2.0 * math.pi)
    if shift == 0.0:
        grid, weights = np.zeros(1), np.ones(1)
    survey = shift * grid - 0.5 * shift**2  # logarithm of the likelihood ratio, under the table without the record
    # With a = e^eps / L0, the sample's ratio 1 - q + q L1 crosses a at L1 = (a - 1 + q) / q.
    excess = np.exp(np.clip(epsilon - survey, -700.0, 700.0))
    removed = np.exp(survey) * _mixture(excess, shift_of_sample, probability, above=True)
    # Adding: E[(1 - e^eps L0 (1 - q + q L1))+] under the table without the record.
    least = np.exp(np.clip(-epsilon - survey, -700.0, 700.0))
    added = np.exp(epsilon + survey) * _mixture(least, shift_of_sample, probability, above=False)
    return float(max(weights @ removed, weights @ added))


def _mixture(level: FloatArray, shift: float, q: float, *, above: bool) -> FloatArray:
    """E[(X - level)+], or E[(level - X)+], of X = 1 - q + q L, where L is the likelihood ratio of a Gaussian shift."""
    rest = level - 1.0 + q
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(rest > 0.0, np.log(rest / q) / shift + 0.5 * shift, -np.inf)
    if above:
        return np.asarray(q * special.ndtr(shift - z) - rest * special.ndtr(-z))
    return np.asarray(rest * special.ndtr(z) - q * special.ndtr(z - shift))


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """What a replay found.

    Attributes
    ----------
    target : str
        Name of the estimator, plan, mechanism or call.
    pair : str
        Name of the neighbouring tables on which the record moved most, or on which something else differed.
    pairs : int
        Number of pairs of tables that were compared.
    epsilon, delta : float
        The price that was certified, or claimed.
    used : float
        The largest move of any transcript over the price: above 1, the guarantee does not hold. It is infinite if
        something differs apart from the totals.
    measure : str
        What `used` is a quotient of: "losses" for pure noise, "shifts" for Gaussian noise, and "deltas" for a sample
        with Gaussian noise, where a move by a few percent changes delta many times.
    lower_bound : float
        A lower bound on the epsilon at `delta` of releases whose totals move by as much as the worst transcript: the
        composed loss for pure noise, the epsilon of the composed shift for Gaussian noise, with the chance of the
        record for a sample. If delta is not 0, losses of pure noise are left out.
    probability : float
        The chance with which the record of the worst transcript is kept in the sample; 1 if all rows are used.
    differences : tuple of str
        Everything that differed apart from the secret totals, in words. Each one is a leak.
    transcripts : int
        Number of transcripts that were compared.
    errors : int
        Number of them that ended in the same error on both tables, so that they test little.
    sampled, kept : int
        Number of transcripts in which a sample was used, and in which it held the record. Only those with the record
        test the noise on a sample.
    draws : int
        Largest number of draws in a transcript.
    moves : tuple of Move
        The moves of the transcripts.
    """

    target: str
    pair: str = "given pair"
    pairs: int = 1
    epsilon: float
    delta: float
    used: float
    measure: str
    lower_bound: float
    probability: float
    differences: tuple[str, ...]
    transcripts: int
    errors: int
    sampled: int
    kept: int
    draws: int
    moves: tuple[Move, ...]
    version: str = __version__

    @property
    def violates(self) -> bool:
        """Whether the guarantee does not hold: something leaked, or a record moved totals by more than was paid."""
        return bool(self.differences) or self.used > _ROUNDING

    @classmethod
    def worst_of(cls, reports: Sequence[ReplayReport]) -> ReplayReport:
        """Return one report on several pairs of tables: the numbers of the worst, and the differences of all."""
        worst = max(reports, key=lambda report: (report.violates, report.used))
        found = [(f"{report.pair}: {text}", text) for report in reports for text in report.differences]
        return replace(
            worst,
            pairs=len(reports),
            differences=tuple({text: title for title, text in reversed(found)}.values())[::-1],
            transcripts=sum(report.transcripts for report in reports),
            errors=sum(report.errors for report in reports),
            sampled=sum(report.sampled for report in reports),
            kept=sum(report.kept for report in reports),
            draws=max(report.draws for report in reports),
            moves=tuple(move for report in reports for move in report.moves),
        )

    def to_dict(self) -> dict[str, object]:
        numbers = {"used": self.used, "lower_bound": self.lower_bound}
        in_json = {name: value if math.isfinite(value) else "infinity" for name, value in numbers.items()}
        return {**asdict(self), **in_json, "differences": [*self.differences], "violates": self.violates}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        lines = [f"replay of {self.target}", f"  {self._verdict()}", *self._shown_differences()]
        if not self.differences:
            lines += [
                f"  used     {self.used:.4g} of the price (quotient of {self.measure}): epsilon {self.epsilon:.6g}, "
                f"delta {self.delta:.3g}",
                f"  epsilon is at least {self.lower_bound:.4f} by the moves of the totals that were seen",
            ]
        errors = f", {self.errors:,} of which ended in an error" if self.errors else ""
        lines += [
            f"  pair     {self.pair}{f', the worst of {self.pairs}' if self.pairs > 1 else ''}",
            f"  compared {_counted(self.transcripts, 'transcript')} with up to {_counted(self.draws, 'draw')} of noise"
            f"{errors}",
        ]
        if self.sampled and not self.differences:
            lines.append(f"  samples  {self.sampled:,}, of which {self.kept:,} held the record")
        return "\n".join([*lines, *textwrap.wrap(_UNSEEN, 100, initial_indent="  ", subsequent_indent="  ")])

    def _shown_differences(self) -> list[str]:
        """The first difference of each kind, those that a certificate or a page only repeats last."""
        kinds: dict[str, str] = {}
        for text in self.differences:
            # The part of a result that differs, without the name of the pair and the values.
            kinds.setdefault(text.partition(" (")[0].rpartition(": ")[2], text)
        ordered = sorted(kinds, key=lambda kind: any(name in kind for name in _REPEATED))[:_MOST_SHOWN]
        left_out = len(self.differences) - len(ordered)
        more = [f"  and {_counted(left_out, 'similar difference')}: see `differences`"] if left_out else []
        return [f"  DIFFERS  {kinds[kind]}" for kind in ordered] + more

    def _verdict(self) -> str:
        if self.differences and self.draws == 0:
            return (
                "VIOLATED: a reader can distinguish the tables. No noise was drawn where a replay sees it: if the call "
                'draws it elsewhere, use method="runs".'
            )
        if self.differences:
            return "VIOLATED: a reader can distinguish the tables by more than their noisy totals."
        if self.violates:
            return "VIOLATED: the record moves the totals by more than was paid."
        if self.draws == 0:
            return "No noise was drawn where a replay sees it. It compared nothing but what a reader sees."
        if self.kept == 0 and 2 * self.sampled > self.transcripts:
            return "Not refuted, but no sample held the record. Audit a record that is kept more often."
        return "Not refuted: nothing differs, and no record moves more than was paid."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Run:
    """What one run drew, the samples it used, what its reader saw, and its result: None if it raised an error."""

    draws: list[Draw]
    samples: list[_Sample]
    seen: dict[str, str]
    result: Any


def _run(call: Call, table: Any, seed: Any, recording: _Recording) -> _Run:
    """Run the call once with a tape in place, which is taken away again however the call ends."""
    token = TAPE.set(recording)
    result, seen = None, {}
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
            else:
                seen = visible(result)
    finally:
        TAPE.reset(token)
        recording.closed = True
    seen = {
        "outcome": outcome,
        "warnings": "\n".join(f"{warning.category.__name__}: {warning.message}" for warning in issued),
        "output": out.getvalue() + err.getvalue(),
        **seen,
    }
    return _Run(
        draws=recording.draws,
        samples=recording.samples,
        seen={name: _DRAWN.sub("…", text) for name, text in seen.items()},
        result=result,
    )


def visible(result: Any) -> dict[str, str]:
    """Everything a reader can get out of a result, as texts by name."""
    if isinstance(result, Mapping):
        return _together(result)
    if isinstance(result, (tuple, list)):
        return _together(dict(enumerate(result)))
    if isinstance(result, (np.ndarray, float, int, str)) or hasattr(result, "to_csv"):
        return {"text": _all_digits(result)}
    seen = {"text": str(result), "repr": _all_digits(result)}
    for name in _VALUES:
        _note(seen, name, _all_digits, result)
    for name in _DESCRIBED:
        _note(seen, name, lambda part: str(part.to_dict()), result)
    for name in _METHODS:
        _note(seen, name, lambda part: _all_digits(part()), result)
    if hasattr(result, "fit_"):
        _note(seen, "fit", lambda part: _all_digits(part.value), result, "fit_")
        attributes = {key: value for key, value in vars(result).items() if key.endswith("_")}
        seen["attributes"] = _all_digits(attributes)
    _note(seen, "page", _page, result, "write_report")
    return seen


def _together(results: Mapping[Any, Any]) -> dict[str, str]:
    return {f"{key}: {name}": text for key, part in results.items() for name, text in visible(part).items()}


def _note(seen: dict[str, str], name: str, text: Callable[[Any], str], result: Any, attribute: str = "") -> None:
    """Add the text of an attribute, if the result has it. If an error arises, its text is what a reader sees."""
    try:
        part = getattr(result, attribute or name, None)
        if part is not None:
            seen[name] = text(part)
    except Exception as error:
        seen[name] = f"{type(error).__name__}: {error}"


def _page(write_report: Callable[..., object]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_report(path, date="today")
        return path.read_text(encoding="utf-8")


def _all_digits(value: Any) -> str:
    """The text of a value with all digits: arrays and frames are written whole."""
    if hasattr(value, "to_csv"):
        return f"{value.to_csv()}{getattr(value, 'attrs', '')}"
    with np.printoptions(threshold=10**9, precision=17, floatmode="unique"):
        return str(value) if isinstance(value, (np.ndarray, str)) else repr(value)


def replay(
    call: Call,
    present: Any,
    absent: Any,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    probability: float | Callable[[Any], float] | None = None,
    seeds: Sequence[int] | int = 0,
    pushes: Sequence[float] = PUSHES,
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
    probability : float or callable, optional
        The chance that the record is kept in the sample, or a function of the result that computes it. None computes
        it from the rule of the sample and the record that was found in it.
    seeds : sequence of int, or int
        Seeds of the runs; each is run with all `pushes`. An int is the first seed: it is run with all pushes, and the
        next seed with the first push. If all of their samples miss the record, up to 100 seeds are tried until a
        sample holds it.
    pushes : sequence of float
        Multiples of their noise by which the values that leave are moved, after they are drawn on either table.

    Notes
    -----
    Replay finds faults and proves nothing: other records, tables and transcripts may move more. It does not see the
    noise law, the random bits, or the time that a call takes. Active ledgers are not charged.
    """
    comparison = _Comparison(
        call=call, present=present, absent=absent, epsilon=epsilon, delta=delta, probability=probability
    )
    if isinstance(seeds, int):
        comparison.add_all(seeds, pushes)
        comparison.add_all(seeds + 1, pushes[:1])
        further = iter(range(seeds + 2, seeds + _MOST_SEEDS))
        while comparison.misses_record and (seed := next(further, None)) is not None:
            if comparison.add(seed, pushes[0], present_first=True):
                comparison.add_all(seed, pushes)
    else:
        for seed in seeds:
            comparison.add_all(seed, pushes)
    return comparison.report()


@dataclass(kw_only=True, eq=False)
class _Comparison:
    """Transcripts of a call on two tables, and all that was found in them."""

    call: Call
    present: Any
    absent: Any
    epsilon: float | None
    delta: float | None
    probability: float | Callable[[Any], float] | None
    differences: dict[str, None] = field(default_factory=dict)
    #: Moves with the chance of the record, and the price of the run; None if the run raised an error.
    moves: list[tuple[Move, float, tuple[float, float] | None]] = field(default_factory=list)
    transcripts: int = 0
    errors: int = 0
    draws: int = 0
    sampled: int = 0
    kept: int = 0
    #: Samples of runs whose values left as they were drawn, and how many of them held the record.
    likely_samples: int = 0
    likely_kept: int = 0
    error: str = ""
    price: tuple[float, float] | None = None

    @property
    def misses_record(self) -> bool:
        """Whether likely values lead to samples, and none of them held the record."""
        return self.likely_samples > 0 and self.likely_kept == 0 and not self.differences

    def add_all(self, seed: int, pushes: Sequence[float]) -> None:
        for push in pushes:
            for present_first in (True, False):
                self.add(seed, push, present_first=present_first)

    def add(self, seed: int, push: float, *, present_first: bool) -> bool:
        """Run on one table, replay on the other, and compare; return whether a sample held the record."""
        first, second = (self.present, self.absent) if present_first else (self.absent, self.present)
        ours = _run(self.call, first, seed, _Recording(push=push))
        theirs = _run(self.call, second, seed, _Recording(forced=ours.draws))
        self.transcripts += 1
        self.draws = max(self.draws, len(ours.draws), len(theirs.draws))
        results = [run.result for run in (ours, theirs) if run.result is not None]
        price = _price(results[0], self.epsilon, self.delta) if results else None
        self.price = price or self.price
        found = _differences(ours, theirs)
        chance = 1.0
        if not found:
            record, found = _record_in(*((ours, theirs) if present_first else (theirs, ours)))
            chance = 1.0 if record is None else record
        self.differences.update(dict.fromkeys(found))
        if found:
            return False
        if ours.result is None:
            self.error = ours.seen["outcome"]
            self.errors += 1
        elif self.probability is not None:
            chance = self.probability(ours.result) if callable(self.probability) else self.probability
        self.sampled += bool(ours.samples)
        self.kept += record is not None
        if push == 0.0:
            self.likely_samples += bool(ours.samples)
            self.likely_kept += record is not None
        self.moves.append((Move.of(ours.draws, theirs.draws), chance, price))
        return record is not None

    def report(self) -> ReplayReport:
        if self.price is None and not self.differences:
            raise ArgumentError(f"the call fails on both tables ({self.error}). Pass one that runs.")
        epsilon, delta = self.price or (self.epsilon or 0.0, self.delta or 0.0)
        used, bound, chance, measure = 0.0, 0.0, 1.0, "losses"
        for move, kept, price in self.moves:
            # A run that raised an error has no certificate. The price of the other runs stands in for it.
            own = price or (epsilon, delta)
            claimed = self.epsilon is not None
            share = move.used(epsilon=own[0], delta=own[1], probability=kept, claimed=claimed)
            if share >= used:
                used, chance, (epsilon, delta) = share, kept, own
                bound, measure = move.epsilon(delta=delta, probability=kept), move.measure(kept)
        return ReplayReport(
            target=str(getattr(self.call, "__name__", "the call")),
            epsilon=epsilon,
            delta=delta,
            used=math.inf if self.differences else used,
            measure=measure,
            lower_bound=bound,
            probability=chance,
            differences=tuple(self.differences),
            transcripts=self.transcripts,
            errors=self.errors,
            sampled=self.sampled,
            kept=self.kept,
            draws=self.draws,
            moves=tuple(move for move, *_ in self.moves),
        )


def _record_in(present: _Run, absent: _Run) -> tuple[float | None, list[str]]:
    """The chance of the record if the sample of the table with it holds it, and what differs between the samples."""
    if len(present.samples) != len(absent.samples):
        return None, ["the numbers of samples"]
    if not present.samples:
        return None, []
    if len(present.samples) > 1:
        raise ArgumentError("the call uses more than one sample, whose coins a replay cannot tell apart. Replay each.")
    (with_record,), (without,) = present.samples, absent.samples
    if len(without.beyond(with_record)):
        return None, ["the sample holds other rows, or other weights of rows, if the record is in the table"]
    record = with_record.beyond(without)
    if len(record):
        return with_record.chance(record), []
    moved = any(
        draw.after_sample and draw.move(other) > 0.0 for draw, other in zip(present.draws, absent.draws, strict=True)
    )
    return None, ["totals of the sample, although the sample does not hold the record"] if moved else []


def _price(result: Any, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    if epsilon is not None:
        return epsilon, delta or 0.0
    certificate: Any = getattr(result, "certificate_", None) or getattr(result, "certificate", None)
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
    # If only one of the runs raised an error, it has no result to compare.
    keys = _ALWAYS_SEEN if (ours.result is None) != (theirs.result is None) else {**ours.seen, **theirs.seen}
    for key in keys:
        if ours.seen.get(key) != theirs.seen.get(key):
            found.append(f"{key} ({_first_difference(ours.seen.get(key, ''), theirs.seen.get(key, ''))})")
    return found


def _first_difference(ours: str, theirs: str) -> str:
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return f"{ours[max(0, place - 20) : place + 40]!r} against {theirs[max(0, place - 20) : place + 40]!r}"
