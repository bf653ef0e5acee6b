"""Plans of a training run: the noise, and the rate at which the records of each bin join a step."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import interpolate, optimize, stats

from pais._base import files, validate
from pais._base.cards import Card, Carded
from pais._base.numerics import FloatArray, raised
from pais._version import __version__
from pais.accounting.certificate import ONE_ROW, Certificate, digest
from pais.accounting.part import Part
from pais.accounting.stores import SECURE, SEEDED
from pais.data.units import Unit
from pais.errors import ArgumentError, BudgetError, UnreachableError
from pais.privacy.amplification import KEPT_MARGIN, epsilon_at_delta, gaussian_delta, largest_shift
from pais.privacy.guarantee import STATED
from pais.privacy.sampled_steps import sampled_delta

#: The guarantee is certified for shifts that are larger by this factor, far above the rounding errors of clipping.
ROOM = 1.0 + 1e-9

# Smallest rate. A record with a bound near 0 still joins a step now and then.
_SMALLEST_RATE = 1e-9

# Bounds of the curve of rates: knots per halving of the bound over the noise, and the smallest ratio. Chosen by eye.
_KNOTS_PER_OCTAVE, _OCTAVES = 2, 8

# Knots near the largest ratio, where the rate falls from 1: in halvings of the ratio. Chosen by eye.
_STEEP = np.array([0.0, 0.002, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4])

# Rates that are searched, and knots of the curve, are at most these shares above the smallest that are certified; noise
# is promised to 1e-3.
_CLOSE, _ROUGH = 4e-4, 0.005

# The expected batch of a plan may differ from the one that was asked for by this share: no guarantee depends on it.
_BATCH = 2e-3

# Cells of losses while a rate is searched are wider by this factor. The result is certified with cells of factor 1.
_COARSE = 6.0


@dataclass(frozen=True, kw_only=True)
class Bin:
    """The records whose bound is above that of the bin before and at most `bound`; public.

    Attributes
    ----------
    bound : float
        Gradients of these records are clipped to this length.
    records : float
        Stated or released number of records. It decides the expected batch, and not the guarantee.
    rate : float
        Probability with which each of them joins a step.
    """

    bound: float
    records: float
    rate: float


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainingPlan(Carded):
    """A certified plan of steps with weighted batches. Public.

    Attributes
    ----------
    n_steps : int
        Largest number of steps.
    noise : float
        Standard deviation of the noise in each coordinate of the sum of all gradients, in units of the bounds.
    bins : tuple of Bin
        The table of rates, from the smallest to the largest bound.
    epsilon, delta : float
        The guarantee of all steps together, for one record. The constructor raises if a bin costs more.
    max_epsilon_if_joined : float, optional
        Largest epsilon, with twice delta, of a record known to have joined a certain step; None = 15 more than epsilon.
    unit : str
        What a record is, such as "client"; empty for a row.

    Notes
    -----
    Guarantee. Whoever sees every noisy sum, and so every model on the way, learns about one record at most (epsilon,
    delta), whatever the loss function: `tests/theory/test_training.py`.

    Assumes. The bin of a record follows from that record, public numbers and released values alone, and is the same in
    all steps. Which records joined a step stays secret. A noisy sum is not divided by a secret number.
    """

    n_steps: int
    noise: float
    bins: tuple[Bin, ...]
    epsilon: float
    delta: float
    max_epsilon_if_joined: float | None = None
    unit: str = ""
    epsilon_if_joined: float = field(init=False, repr=False, compare=False)
    epsilon_if_known: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        validate.count("n_steps", self.n_steps)
        for name in ("noise", "epsilon", "delta"):
            object.__setattr__(self, name, _CHECKS[name](getattr(self, name)))
        bounds = np.array([one.bound for one in self.bins])
        if bounds.size == 0 or not (bounds[0] > 0.0 and np.all(np.diff(bounds) > 0.0) and np.isfinite(bounds[-1])):
            raise ArgumentError("the bounds of the bins are not positive and increasing. Pass each bound once.")
        validate.probabilities([one.rate for one in self.bins])
        deltas = [self.delta_of(one) for one in self.bins]  # [note: training-5]
        if max(deltas) > self.delta:
            raise BudgetError(
                f"the records of a bin would have delta={max(deltas):.4g} at epsilon={self.epsilon!r}, above "
                f"delta={self.delta!r}. Raise the noise or the rate of the bin.",
                cost=max(deltas),
            )
        shift = max(map(self.shift_of, self.bins))
        limit = _step_limit(self.epsilon, self.max_epsilon_if_joined)
        if shift > largest_shift(limit, self.delta):  # [note: training-6]
            raise BudgetError(
                f"a record known to have joined one step would pay more than {limit:.6g} beside epsilon. "
                "Raise the noise or the rates, or state a larger max_epsilon_if_joined.",
                cost=limit,
            )
        object.__setattr__(self, "epsilon_if_known", max(self._epsilon_if_known(one) for one in self.bins))
        # The step that is known, and all steps as if none were: both have this delta.
        joined = self.epsilon + _epsilon_of(shift, self.delta)
        object.__setattr__(self, "epsilon_if_joined", min(joined, self.epsilon_if_known))

    def shift_of(self, one: Bin) -> float:
        """By how many deviations a record of the bin moves the noise in a step that it joins, rounded up."""
        return one.bound / self.noise / one.rate * ROOM

    def delta_of(self, one: Bin) -> float:
        """Certified delta of a record of the bin at the epsilon of the plan."""
        shift = self.shift_of(one)
        if one.rate == 1.0:
            whole = shift * math.sqrt(self.n_steps)
            return 0.0 if whole <= largest_shift(self.epsilon, self.delta) * (1.0 - 1e-12) else 1.0
        return sampled_delta(self.epsilon, rate=one.rate, shift=shift, n_steps=self.n_steps)

    def _epsilon_if_known(self, one: Bin) -> float:
        """Loss of a record if all the steps that it joined are known; at most delta/2 that it joined more of them."""
        joined = float(stats.binom.isf(0.5 * self.delta, self.n_steps, one.rate)) + 1.0
        shift = self.shift_of(one) * math.sqrt(min(joined, self.n_steps))
        return max(_epsilon_of(shift, 0.5 * self.delta), self.epsilon)

    @property
    def bounds(self) -> FloatArray:
        return np.array([one.bound for one in self.bins])

    @property
    def rates(self) -> FloatArray:
        return np.array([one.rate for one in self.bins])

    @property
    def records(self) -> FloatArray:
        return np.array([one.records for one in self.bins])

    @property
    def weights(self) -> FloatArray:
        """Weights of the bins: 1/rate, rounded down."""
        return np.asarray(np.where(self.rates < 1.0, np.nextafter(1.0 / self.rates, 0.0), 1.0))

    @property
    def mean_batch(self) -> float:
        """Expected number of records in a step."""
        return float(self.records @ self.rates)

    @property
    def sampling_variance(self) -> float:
        """Largest variance of a sum over its steps due to the choice of the records, in squared units of the bounds.

        It is attained if every gradient is as long as its bound.
        """
        return float(self.records @ (self.bounds**2 * (1.0 / self.rates - 1.0)))

    def bin_of(self, bound: FloatArray) -> np.ndarray[Any, np.dtype[np.intp]]:
        """Index of the bin of each bound; records above the largest bound belong to the last bin."""
        place = np.searchsorted(self.bounds, bound, side="left").astype(np.intp)
        return np.asarray(np.minimum(place, len(self.bins) - 1))

    @property
    def price(self) -> Part:
        """What a run of all steps costs, for ledgers and certificates."""
        return Part(what=f"training in {self.n_steps:,} steps", epsilon=self.epsilon, delta=self.delta, unit=self.unit)

    def certificate(self, value: object, *, secure: bool, entries: list[str]) -> Certificate:
        """Certificate of what a run of this plan released. `secure` is False if any draw came from a seed."""
        unit = Unit(column=self.unit, max_rows=1) if self.unit else None
        return Certificate(
            epsilon=self.epsilon,
            delta=self.delta,
            epsilon_if_kept=self.epsilon_if_known,
            max_epsilon_if_kept=self.epsilon_if_known,
            delta_used=self.delta,
            delta_basis=STATED,
            survey_shift=0.0,
            release_delta=self.delta,
            parts=(self.price,),
            neighbours=ONE_ROW if unit is None else unit.neighbours,
            unit=None if unit is None else unit.to_dict(),
            schema=None,
            about="",
            note=SECURE if secure else SEEDED,
            secure_randomness=secure,
            mechanism={
                "mechanism": f"up to {self.n_steps:,} sums of weighted gradients",
                "class": "TrainingPlan",
                "clips": "Gradients",
                "noise": self.noise,
                "n_steps": self.n_steps,
            },
            rule={"rule": "bins", "bounds": self.bounds.tolist(), "rates": self.rates.tolist()},
            ball={"radius": self.bins[-1].bound, "order": 2.0, "center": None},
            values_sha256=digest(value),
            ledger_entries=entries,
            version=__version__,
        )

    def explain(self) -> str:
        """Describe the plan in words: the guarantee, the noise, and the table of rates."""
        one = self.unit or "row"
        lines = [
            f"This is a plan for up to {self.n_steps:,} steps with weighted batches.",
            f"All steps together cost epsilon {raised(self.epsilon)}, delta {raised(self.delta, 3)} for one {one}.",
            f"Each step adds noise of deviation {self.noise:.6g} to the sum of all gradients, in each coordinate.",
            f"About {self.mean_batch:,.1f} {one}s join a step, each by its own coin, with weight 1/rate.",
            f"Which {one}s join stays secret: one that is known to have joined a certain step pays at most epsilon "
            f"{raised(self.epsilon_if_joined)} with twice delta,",
            f"and one whose every step is known pays epsilon {raised(self.epsilon_if_known)}.",
            "",
            "".join(f"{name:>14}" for name in ("bound", "records", "rate", "weight", "delta")),
        ]
        for part, weight in zip(self.bins, self.weights, strict=True):
            numbers = f"{part.bound:14.5g}{part.records:14,.0f}{part.rate:14.5g}{weight:14.5g}"
            lines.append(f"{numbers}{self.delta_of(part):14.3g}")
        return "\n".join(lines)

    def _card(self) -> Card:
        return Card(
            kind="TrainingPlan",
            summary=f"epsilon {raised(self.epsilon)}, delta {raised(self.delta, 3)} in {self.n_steps:,} steps",
            facts=(
                ("noise", f"{self.noise:.6g} on the sum of all gradients"),
                ("expected batch", f"{self.mean_batch:,.1f} of {self.records.sum():,.0f}"),
                ("rates", f"{self.rates.min():.3g} to {self.rates.max():.3g} in {len(self.bins)} bins"),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan as a dictionary, for files."""
        return {
            "kind": "training plan",
            "format": files.FORMAT,
            "n_steps": self.n_steps,
            "noise": self.noise,
            "bins": [asdict(one) for one in self.bins],
            "epsilon": self.epsilon,
            "delta": self.delta,
            "max_epsilon_if_joined": self.max_epsilon_if_joined,
            "unit": self.unit,
            "mean_batch": self.mean_batch,
            "epsilon_if_joined": self.epsilon_if_joined,
            "epsilon_if_known": self.epsilon_if_known,
            "version": __version__,
        }

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> TrainingPlan:
        """Rebuild a plan and certify it again. Raises if a number in the dictionary differs from that of the plan."""
        files.require_format(described, "training plan")
        names = ("n_steps", "noise", "epsilon", "delta", "max_epsilon_if_joined", "unit")
        plan = cls(**{name: described[name] for name in names}, bins=tuple(Bin(**one) for one in described["bins"]))
        shown = plan.to_dict()
        if any(not files.alike(described.get(name), shown[name]) for name in shown if name != "version"):
            raise ArgumentError(
                "it was edited or written by another version, and its numbers do not match. Plan again."
            )
        return plan

    def save(self, path: str | Path) -> None:
        """Write the plan to a JSON file."""
        files.write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> TrainingPlan:
        """Read a plan from a JSON file."""
        return files.load(path, "training plan", cls.from_dict)


_epsilon = partial(validate.number, "epsilon", rule="a number from 1e-3 to 100", low=1e-3, high=100.0)
_delta = partial(validate.number, "delta", rule="a number from 1e-12 to 0.1", low=1e-12, high=0.1)
_CHECKS = {"noise": partial(validate.positive, "noise"), "epsilon": _epsilon, "delta": _delta}


def _epsilon_of(shift: float, delta: float) -> float:
    """Epsilon of a Gaussian shift at a delta, rounded up."""
    return float(epsilon_at_delta(gaussian_delta(delta), shift, 1.0))


def _step_limit(epsilon: float, limit: float | None) -> float:
    """Largest epsilon of one known step, in addition to the epsilon of all steps."""
    if limit is not None and limit <= epsilon:
        raise ArgumentError(f"max_epsilon_if_joined={limit!r} is not above epsilon={epsilon!r}. State a larger one.")
    return KEPT_MARGIN if limit is None else limit - epsilon


class Rates:
    """Smallest rates that meet a guarantee by the ratio of bound to noise: from a curve for searches, or solved."""

    def __init__(self, n_steps: int, epsilon: float, delta: float, limit: float) -> None:
        self.n_steps, self.epsilon, self.delta = n_steps, epsilon, delta
        self.largest_ratio = largest_shift(epsilon, delta) / math.sqrt(n_steps) / ROOM * (1.0 - 1e-11)
        # Two shifts that meet the limit if one step is known; rounded down.
        self._largest_shift = largest_shift(limit, delta) / ROOM * (1.0 - 1e-12)
        halvings = np.arange(1, _OCTAVES * _KNOTS_PER_OCTAVE + 1) / _KNOTS_PER_OCTAVE
        ratios = self.largest_ratio * 2.0 ** -np.concatenate([_STEEP, halvings])
        rates = [1.0]
        for ratio in ratios[1:]:
            # The rate falls from knot to knot about as it did before.
            guess = 0.5 * rates[-1] if len(rates) < 3 else min(rates[-1] ** 2 / rates[-2], 0.9 * rates[-1])
            rates.append(self._search(float(ratio), guess, _ROUGH, _COARSE))
        self._log_ratio, self._log_rate = np.log(ratios[::-1]), np.log(rates[::-1])
        self._curve = interpolate.PchipInterpolator(self._log_ratio, self._log_rate)

    def _delta(self, rate: float, ratio: float, **options: Any) -> float:
        shift = ratio / rate * ROOM
        return sampled_delta(self.epsilon, rate=rate, shift=shift, n_steps=self.n_steps, **options)

    def _excess(self, rate: float, ratio: float, coarse: float) -> float:
        """Logarithm of the delta of removing a record, over the target; that of adding one is checked at the end."""
        if rate >= 1.0:
            return -50.0
        return math.log(max(self._delta(rate, ratio, adding=False, coarse=coarse), 1e-300) / self.delta)

    def _search(self, ratio: float, guess: float, close: float, coarse: float) -> float:
        """The smallest rate near a guess that meets the guarantee, rounded up by about a share `close`.

        Secants in logarithms, within the bracket of the rates that were tried. Steps down stay small without a bracket,
        so that they stop at the first crossing.
        """
        floor = max(ratio / self._largest_shift, _SMALLEST_RATE)
        low, high, rate = 0.0, 1.0, min(max(guess, floor), 1.0)
        last, before = rate * 1.01, self._excess(rate * 1.01, ratio, coarse)
        while floor < 1.0 and high > low * (1.0 + close):
            excess = self._excess(rate, ratio, coarse)
            low, high = (rate, high) if excess > 0.0 else (low, rate)
            if rate == floor == high:
                break
            slope = (excess - before) / math.log(rate / last)
            last, before = rate, excess
            rate *= math.exp(min(max(0.7 * close - excess / min(slope, -1e-3), -0.2), 0.2))
            if low > 0.0 and not low < rate < high:
                rate = math.sqrt(low * high)
            rate = max(min(rate, high / (1.0 + 0.5 * close)), floor)
        return high

    def about(self, ratio: FloatArray) -> FloatArray:
        """Interpolated smallest rates, for a search; 1 above the largest ratio."""
        ratio = np.asarray(ratio, dtype=np.float64)
        log_ratio = np.log(np.maximum(ratio, 1e-300))
        rate = np.exp(self._curve(np.clip(log_ratio, self._log_ratio[0], self._log_ratio[-1])))
        below = log_ratio < self._log_ratio[0]
        rate = np.where(below, np.exp(self._log_rate[0] + log_ratio - self._log_ratio[0]), rate)
        return np.asarray(np.clip(rate, _SMALLEST_RATE, 1.0))

    @functools.lru_cache(maxsize=4096)  # noqa: B019  # a few of these objects live as long as the process
    def smallest(self, ratio: float) -> float:
        """The smallest rate for a ratio, rounded up, certified at its own shift."""
        if ratio > self.largest_ratio:
            raise UnreachableError(
                f"noise of {1.0 / ratio:.6g} times the largest bound is too little for epsilon={self.epsilon!r} in "
                f"{self.n_steps} steps, even if every record joins every step. Pass at least "
                f"{1.0 / self.largest_ratio:.6g} times the largest bound.",
                reachable=1.0 / self.largest_ratio,
            )
        guess = float(self.about(np.array([ratio]))[0])
        rate = self._search(ratio, guess, _CLOSE, 1.0)
        while rate < 1.0 and self._delta(rate, ratio) > self.delta:
            rate = min(rate * (1.0 + _CLOSE), 1.0)
        return rate


@functools.lru_cache(maxsize=32)
def rates_of(n_steps: int, epsilon: float, delta: float, limit: float) -> Rates:
    return Rates(n_steps, epsilon, delta, limit)


def geometric_bounds(largest: float, *, smallest: float, n: int = 24) -> list[float]:
    """Bounds of bins, each the same multiple of the one before.

    Examples
    --------
    >>> from pais import training
    >>> [round(bound, 3) for bound in training.geometric_bounds(1.0, smallest=0.125, n=4)]
    [0.125, 0.25, 0.5, 1.0]
    """
    low, high = validate.positive("smallest", smallest), validate.positive("largest", largest)
    points = np.geomspace(low, high, validate.count("n", n))
    points[-1] = high
    return [float(point) for point in points]


def plan(
    n_steps: int,
    *,
    delta: float,
    bounds: Mapping[float, float],
    epsilon: float | None = None,
    noise: float | None = None,
    mean_batch: float | None = None,
    n_parameters: int | None = None,
    fill: float = 1.0,
    max_epsilon_if_joined: float | None = None,
    unit: str = "",
) -> TrainingPlan:
    """Plan training with weighted batches: compute what is left out of guarantee, noise and expected batch.

    Parameters
    ----------
    n_steps : int
        Number of steps.
    delta : float
        Of all steps together.
    bounds : dict
        Bound of each bin, and a public number of records with a bound up to it and above the bin before: stated, or
        released by `count_bounds`. With a single bound, sampling is uniform.
    epsilon : float, optional
        Of all steps together. If it is left out, it is computed from noise and mean_batch.
    noise : float, optional
        Standard deviation of the noise in each coordinate of the sum of all gradients, in units of the bounds. If only
        noise is given, each rate is the smallest that meets the guarantee: fewest gradients.
    mean_batch : float, optional
        Expected number of records in a step. If only mean_batch is given, the noise is the least that meets the
        guarantee, unless n_parameters is given too.
    n_parameters : int, optional
        Number of coordinates of a gradient. With it, the plan minimises the variance of a step, which is that of the
        noise in all coordinates plus that of the choice of the records, at the given mean_batch.
    fill : float
        Mean square length of a gradient over its squared bound, assumed for that minimum. It has no effect on privacy.
    max_epsilon_if_joined : float, optional
        Largest epsilon, with twice delta, of a record known to have joined a certain step; None = 15 more than epsilon.
    unit : str
        What a record is, such as "client".

    Notes
    -----
    Guarantee. The plan is certified for every bin at exactly the rate and the shift that it uses, for adding and for
    removing a record: `tests/theory/test_training.py`.

    Examples
    --------
    >>> from pais import training
    >>> uniform = training.plan(100, epsilon=1.0, delta=1e-5, bounds={1.0: 10_000}, mean_batch=100)
    >>> weighted = training.plan(100, epsilon=1.0, delta=1e-5, bounds={0.1: 9_000, 1.0: 1_000}, mean_batch=100)
    >>> weighted.noise < 0.7 * uniform.noise
    True
    """
    steps, delta = validate.count("n_steps", n_steps), _delta(delta)
    edges, records = _bins_of(bounds)
    if mean_batch is not None:
        most = float(records.sum())
        rule = "a number > 0 and at most the number of records"
        mean_batch = validate.number("mean_batch", mean_batch, rule=rule, open_low=True, high=most)
    noise = None if noise is None else validate.positive("noise", noise)
    if (epsilon is None and None in (noise, mean_batch)) or (noise is None and mean_batch is None):
        raise ArgumentError("two of epsilon, noise and mean_batch are needed. Pass them, and the third is computed.")
    if epsilon is None:
        epsilon = _least_epsilon(steps, delta, edges, records, float(noise or 0.0), float(mean_batch or 0.0))
    rates = rates_of(steps, _epsilon(epsilon), delta, _step_limit(float(epsilon), max_epsilon_if_joined))
    if noise is None:
        noise = _noise_for(rates, edges, records, float(mean_batch or 0.0), n_parameters, fill)
    floor = np.array([rates.smallest(ratio) for ratio in (edges / noise).tolist()])
    chosen = floor if mean_batch is None else _filled(floor, edges, records, mean_batch)
    numbers = zip(edges.tolist(), records.tolist(), chosen.tolist(), strict=True)
    bins = tuple(Bin(bound=bound, records=count, rate=rate) for bound, count, rate in numbers)
    own: dict[str, Any] = {"max_epsilon_if_joined": max_epsilon_if_joined, "unit": unit}
    return TrainingPlan(n_steps=steps, noise=noise, bins=bins, epsilon=epsilon, delta=delta, **own)


def _bins_of(bounds: Mapping[float, float]) -> tuple[FloatArray, FloatArray]:
    if not isinstance(bounds, Mapping) or not bounds:
        raise ArgumentError(
            "bounds must state the largest bound of each bin and a public number of records in it, such as "
            "{0.1: 9000, 1.0: 1000}. Rates or bounds computed over the data set are not allowed: state the numbers, "
            "or release them with pais.training.count_bounds."
        )
    pairs = sorted((validate.positive("a bound", edge), float(count)) for edge, count in bounds.items())
    edges, records = np.array(pairs).T
    records = validate.losses("a number of records", records)
    if not records.sum() > 0.0:
        raise ArgumentError("no bin has any records. State the numbers of records.")
    return edges, records


def _filled(floor: FloatArray, edges: FloatArray, records: FloatArray, mean_batch: float) -> FloatArray:
    """Rates of the expected batch, at or above the floor, with the least variance: in proportion to the bound."""
    if float(floor @ records) > mean_batch * (1.0 + 2.0 * _BATCH):
        raise UnreachableError(
            f"the guarantee needs an expected batch of {float(floor @ records):.6g} at this noise. Raise mean_batch or "
            "noise.",
            reachable=float(floor @ records),
        )

    def size(log_slope: float) -> float:
        return float(np.maximum(floor, np.minimum(math.exp(log_slope) * edges, 1.0)) @ records)

    low, high = math.log(floor.min() / edges.max()), -math.log(edges.min())
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if size(middle) < mean_batch else (low, middle)
    return np.asarray(np.maximum(floor, np.minimum(math.exp(low) * edges, 1.0)))


def _noise_for(
    rates: Rates, edges: FloatArray, records: FloatArray, mean_batch: float, n_parameters: int | None, fill: float
) -> float:
    """The noise at an expected batch: the least, or the one with the least variance of a step."""
    # A little above the least noise of all, so that its exponential is not below it.
    lowest = math.log(edges.max() / rates.largest_ratio) + 1e-9

    def spare(log_noise: float) -> float:
        return math.log(mean_batch / float(rates.about(edges * math.exp(-log_noise)) @ records))

    high = lowest + 0.1
    while spare(high) < 0.0:
        high += 1.0
        if high > lowest + 60.0:
            raise UnreachableError("no noise meets this expected batch. Raise mean_batch.", reachable=0.0)
    least = lowest if spare(lowest) >= 0.0 else float(optimize.brentq(spare, lowest, high, xtol=1e-7))
    if n_parameters is not None:
        d, share = validate.count("n_parameters", n_parameters), validate.positive("fill", fill)

        def variance(log_noise: float) -> float:
            floor = rates.about(edges * math.exp(-log_noise))
            rate = _filled(np.minimum(floor, 1.0), edges, records, mean_batch * (1.0 + 1e-6))
            return d * math.exp(2.0 * log_noise) + share * float(records @ (edges**2 * (1.0 / rate - 1.0)))

        # Beyond twice the least noise, the variance of the noise alone is four times the least one.
        found = optimize.minimize_scalar(variance, bounds=(least, least + math.log(4.0)), method="bounded")
        if found.fun < variance(least + 1e-9):
            return float(math.exp(found.x))
    # The curve is interpolated. Correct its error at the bounds, so that the exact rates give the batch.
    too_little, enough, before = lowest, math.inf, None
    for _ in range(10):
        ratios = (edges / math.exp(least)).tolist()
        over = math.log(float(np.array([rates.smallest(ratio) for ratio in ratios]) @ records) / mean_batch)
        too_little, enough = (least, enough) if over > 0.0 else (too_little, least)
        if abs(over) <= (_BATCH if edges.size > 1 else 2.0 * _CLOSE) or (least <= lowest and over <= 0.0):
            return math.exp(least)
        # The slope of the curve, and then that of the exact rates; within the bracket of what was tried.
        at, value = before or (least + 1e-2, over - spare(least + 1e-2) + spare(least))
        before, least = (least, over), least + over / max((value - over) / (least - at), 0.5)
        if not too_little < least < enough:
            least = 0.5 * (too_little + enough) if enough < math.inf else too_little + 0.01
    return math.exp(min(enough, least + 0.1))


def _least_epsilon(
    n_steps: int, delta: float, edges: FloatArray, records: FloatArray, noise: float, mean_batch: float
) -> float:
    """The epsilon at which the rates that noise needs give the expected batch, rounded up."""

    def spare(log_epsilon: float) -> float:
        epsilon = math.exp(log_epsilon)
        if float(edges.max()) / noise > largest_shift(epsilon, delta) / math.sqrt(n_steps) / ROOM * (1.0 - 1e-11):
            return -10.0
        rates = rates_of(n_steps, epsilon, delta, KEPT_MARGIN)
        return math.log(mean_batch / float(rates.about(edges / noise) @ records))

    low, high = math.log(1e-3), math.log(100.0)
    if spare(high) < 0.0:
        raise UnreachableError("even epsilon=100 needs more noise or a larger mean_batch. Raise one.", reachable=100.0)
    for _ in range(14):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if spare(middle) < 0.0 else (low, middle)
    return math.exp(high) * 1.001
