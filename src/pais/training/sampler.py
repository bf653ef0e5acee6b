"""Weighted Poisson batches: which records join each step of a plan, by the coin of each record alone."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from pais._base import files, validate
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, RandomState, bit_source
from pais.accounting.certificate import Certificate, Release, digest
from pais.accounting.ledger import Ledger, accounts
from pais.accounting.part import Part
from pais.accounting.stores import exclusive, replace_file
from pais.errors import MismatchError, SpentError
from pais.training.bounds import Bound, bounds_of
from pais.training.planning import TrainingPlan

# Relative error of the quotient of two logarithms in doubles, rounded up. [note: training-9]
_SLACK = 2.0**-48


def joined(n: int, rate: float, bits: BitSource) -> NDArray[np.int64]:
    """Positions below n of the successes of independent coins of one rate, in time proportional to their number.

    The gaps between successes are geometric: the largest whole number at most log(u) / log(1 - rate), for a uniform u.
    Doubles decide almost every gap; for the others, more bits of u are drawn.
    """
    if rate >= 1.0:
        return np.arange(n, dtype=np.int64)
    found, last = [], -1
    while last < n - 1:
        left = (n - 1 - last) * rate
        gaps = _gaps(int(left + 4.0 * math.sqrt(left)) + 8, rate, bits)
        # A gap beyond the end ends the step, so gaps are cut there, which keeps the sum small.
        places = last + np.cumsum(np.minimum(gaps, n) + 1)
        found.append(places[places < n])
        last = int(places[-1])
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _gaps(size: int, rate: float, bits: BitSource) -> NDArray[np.int64]:
    words = bits.words64(size)
    scale = math.log1p(-rate)
    # u lies between word / 2^64 and (word + 1) / 2^64; the logarithm of a word above 2^53 has a small relative error.
    low = np.log1p(-(np.float64(2.0**64) - words.astype(np.float64)) * 2.0**-64 * (words >= 2**63))
    low = np.where(words >= 2**63, low, np.log((words.astype(np.float64) + 0.5) * 2.0**-64))
    value = low / scale
    spread = np.abs(value) * _SLACK + 2.0**-62 / (-scale) * np.where(words >= 2**63, 1.0, 0.0)
    spread += np.where(words < 2**63, 0.5 / (words.astype(np.float64) + 0.5) / -scale * 1.01, 2.0**-52 / -scale)
    whole = np.floor(value)
    doubtful = (np.floor(value - spread) != np.floor(value + spread)) | (words == 0)
    for place in np.flatnonzero(doubtful):
        whole[place] = _settled_gap(int(words[place]), rate, bits)
    return np.minimum(whole, 2.0**62).astype(np.int64)


def _settled_gap(word: int, rate: float, bits: BitSource) -> float:
    """The gap of a uniform variable whose first 64 bits are known, with as many more bits as it needs."""
    length = 64
    while True:
        word, length = (word << 128) | int.from_bytes(bits.raw(16), "little"), length + 128
        with mp.workprec(length + 64):
            scale = mp.log1p(-mp.mpf(rate))
            ends = [
                mp.log(mp.mpf(word + more) / mp.mpf(2) ** length) / scale if word + more else mp.inf for more in (0, 1)
            ]
            if mp.isfinite(ends[0]) and mp.floor(ends[0]) == mp.floor(ends[1]):
                return float(mp.floor(ends[0]))


class Batch:
    """The records of one step. SECRET: not to be published, logged or counted.

    Attributes
    ----------
    step : int
        Number of the step, from 1.
    index : array of int
        Positions of the records; may be empty.
    weight : array
        1/rate of each record.
    clip : array
        Largest length of each record's gradient.
    """

    protected = False

    def __init__(self, step: int, index: NDArray[np.int64], weight: FloatArray, clip: FloatArray) -> None:
        self.step, self.index, self.weight, self.clip = step, index, weight, clip
        self._used = False

    def use(self) -> None:
        """Mark the batch as used. Raises if it was used before: the plan pays for one noisy sum in each step."""
        if self._used:
            raise SpentError(f"step {self.step} already released a noisy sum. Take the next batch of the sampler.")
        self._used = True  # [note: training-10]

    def __repr__(self) -> str:
        return f"Batch(step {self.step}, SECRET)"


class WeightedPoissonSampler:
    """Batches of a plan: in each step, every record joins by its own coin with the rate of its bin.

    Parameters
    ----------
    plan : TrainingPlan
        Rates and number of steps; public.
    bound : callable
        Function of single records, such as `FeatureNorm`.
    records : sequence of arrays
        The arguments of the function, such as ``(X, y)``, with one record in each row; secret.
    ledger : Ledger, optional
        Charged for all steps before the first one, as is every active ledger.
    journal : path, optional
        File that holds the number of the last step that was drawn. A step is written before it is drawn, and a sampler
        that opens the file goes on after it: no step is drawn twice, also after a crash.
    random_state : None, int or numpy Generator
        None draws from the cryptographic generator. Any other value is a rehearsal and not private.

    Notes
    -----
    Guarantee. In each step the coins are independent and have exactly the rates of the plan; no step is drawn twice:
    `tests/unit/training/test_sampler.py`.

    Assumes. The function of the bound uses the record, public numbers and released values alone. The time and memory of
    a step, which depend on its batch, are not observed.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        bound: Bound,
        records: Sequence[Any],
        *,
        ledger: Ledger | None = None,
        journal: str | Path | None = None,
        random_state: RandomState = None,
    ) -> None:
        validate.instance("plan", plan, TrainingPlan, "Make one with pais.training.plan.")
        place = plan.bin_of(bounds_of(bound, records))
        self.plan, self._place = plan, place.astype(np.int32)
        # Positions of the records of each bin, in the order of the records.
        self._order = np.argsort(self._place, kind="stable")
        self._starts = np.searchsorted(self._place[self._order], np.arange(len(plan.bins) + 1))
        self._random_state = random_state
        self._bits = bit_source(random_state)
        self._accounts = accounts(ledger)
        self._entries: list[str] | None = None
        self._journal = None if journal is None else Path(journal)
        self._run, self._step, self._process = os.urandom(8).hex(), 0, os.getpid()
        self.last: Batch | None = None
        if self._journal is not None and self._journal.exists():
            self._go_on(files.read_json(self._journal))
        self._accounts.check(self._price)

    def __reduce__(self) -> Any:
        raise SpentError("a sampler is not copied: the copy would draw its steps again. Resume it with a journal.")

    @property
    def secure(self) -> bool:
        """Whether all draws come from the cryptographic generator."""
        return self._bits.private

    @property
    def step(self) -> int:
        """Number of steps that were drawn; public."""
        return self._step

    @property
    def _price(self) -> Part:
        return replace(self.plan.price, secure_randomness=self.secure, release=f"training {self._run}")

    def draw(self) -> Batch:
        """The batch of the next step. Raises after the last step of the plan."""
        if self._step >= self.plan.n_steps:
            raise SpentError(f"all {self.plan.n_steps} steps of the plan were drawn. Plan and pay for more of them.")
        if self._journal is None and os.getpid() != self._process:
            raise SpentError("another process copied this sampler and draws its steps. Pass a journal to go on there.")
        if self._entries is None:
            self._entries = self._accounts.spend(self._price)  # [note: training-11]
        self._step += 1
        self._write()  # [note: training-12]
        spans = zip(self.plan.rates.tolist(), self._starts, np.diff(self._starts), strict=False)
        places = [
            self._order[start + joined(int(size), rate, self.bits_of(number))]
            for number, (rate, start, size) in enumerate(spans)
        ]
        number = np.repeat(np.arange(len(places)), [place.size for place in places])
        index = np.concatenate(places)
        self.last = Batch(self._step, index, self.plan.weights[number], self.plan.bounds[number])
        return self.last

    def batch_of(self, index: Any) -> Batch:
        """The batch that was drawn last, for loops that see only its positions; raises if these are others."""
        if self.last is None or not np.array_equal(self.last.index, np.asarray(index, dtype=np.int64)):
            raise MismatchError(
                "these are not the positions of the batch that was drawn last, in their order. Use a loader without "
                "workers that read ahead."
            )
        return self.last

    def bits_of(self, number: int) -> BitSource:
        """Bits of a bin in the current step, and those of its noise as those of one more bin."""
        if self.secure or not isinstance(self._random_state, (int, np.integer)):
            return self._bits
        return bit_source(int(self._random_state), stream=10 + self._step * (len(self.plan.bins) + 1) + number)

    def __iter__(self) -> Iterator[Batch]:
        while self._step < self.plan.n_steps:
            yield self.draw()

    def __len__(self) -> int:
        return self.plan.n_steps - self._step

    def state_dict(self) -> dict[str, Any]:
        """The step that was drawn last, and the run and the plan that it belongs to; public."""
        return {"plan": digest(self.plan), "run": self._run, "step": self._step, "secure": self.secure}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after the step of a saved state. A step that this sampler or its journal already drew stays drawn.

        A state does not know what was drawn after it was saved, so only a rehearsal goes on without its journal.
        """
        if self.secure and state.get("run") != self._run:  # [note: training-19]
            raise MismatchError("the state is that of another run. Pass the journal of that run: it has all steps.")
        self._go_on(state)

    def _go_on(self, state: dict[str, Any]) -> None:
        if (state.get("plan"), state.get("secure")) != (digest(self.plan), self.secure):
            raise MismatchError("the state is that of another plan, or of a rehearsal. Load the plan it belongs to.")
        if self._entries is not None and state["run"] != self._run:
            raise MismatchError("this sampler already drew steps of another run. Make a new sampler.")
        step = validate.number("step", state["step"], rule="a number of steps", high=float(self.plan.n_steps))
        self._run = validate.text("run", state["run"])
        self._step = max(self._step, int(step))  # [note: training-13]

    def _write(self) -> None:
        if self._journal is None:
            return
        with exclusive(self._journal):
            before = files.read_json(self._journal) if self._journal.exists() else {**self.state_dict(), "step": 0}
            if before["run"] != self._run or before["step"] >= self._step:
                raise MismatchError(f"another process draws steps with {self._journal}. Use one journal for each run.")
            replace_file(self._journal, json.dumps(self.state_dict()))

    def release(self, value: object) -> Release:
        """A value that was computed from the noisy sums of this run, such as a model, with its certificate."""
        if self._entries is None:
            self._entries = self._accounts.spend(self._price)
        certificate: Certificate = self.plan.certificate(value, secure=self.secure, entries=list(self._entries))
        return Release(value=value, certificate=certificate)

    # Adapters: the same draws in the shapes that other packages ask for.

    def torch_batches(self) -> Iterator[list[int]]:
        """Positions of each step as lists, for the `batch_sampler` of a torch DataLoader; some lists may be empty."""
        for batch in self:
            yield batch.index.tolist()

    def batch_iterator(self, num_examples: int, rng: object = None) -> Iterator[NDArray[np.int64]]:
        """Positions of each step, as a `BatchSelectionStrategy` of jax_privacy yields them. `rng` is not used."""
        if num_examples != self._place.size:
            raise MismatchError("num_examples is not the number of records of this sampler. Pass the same records.")
        for batch in self:
            yield batch.index
