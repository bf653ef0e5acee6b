"""Sources of random bits: the operating system's generator by default, or a seed on request.

A seeded run is reproducible, so anyone who knows the seed can remove the noise. It is not private, and all its results
are marked as not private.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.errors import ArgumentError

RandomState = int | np.random.Generator | None


class BitSource(ABC):
    """A stream of independent fair bits."""

    private: bool

    @abstractmethod
    def raw(self, n_bytes: int) -> bytes:
        """Return the next bytes of the stream."""

    def words8(self, n: int) -> NDArray[np.uint8]:
        return np.frombuffer(self.raw(n), dtype=np.uint8)

    def words64(self, n: int) -> NDArray[np.uint64]:
        return np.frombuffer(self.raw(8 * n), dtype=np.uint64)

    def words53(self, n: int) -> NDArray[np.uint64]:
        """Return uniform integers in [0, 2**53)."""
        return self.words64(n) >> np.uint64(11)


class SecureBits(BitSource):
    """Bits from the operating system's cryptographic generator."""

    private = True

    def raw(self, n_bytes: int) -> bytes:
        return os.urandom(n_bytes)


class SeededBits(BitSource):
    """Reproducible bits; NOT PRIVATE."""

    private = False

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def raw(self, n_bytes: int) -> bytes:
        return self._generator.bytes(n_bytes)


class PaidBits(BitSource):
    """Bits from another source, with a payment just before the first bit is drawn.

    So rows are read before the payment, and an error about the rows costs no budget.
    """

    def __init__(self, bits: BitSource, pay: Callable[[], None]) -> None:
        self.private = bits.private
        self._bits, self._pay = bits, pay
        self._lock, self._paid = threading.Lock(), False

    def raw(self, n_bytes: int) -> bytes:
        # If the payment is refused, no bits are returned.
        with self._lock:
            if not self._paid:
                self._pay()  # [note: ledger-3]
                self._paid = True
        return self._bits.raw(n_bytes)


class StreamBits(BitSource):
    """Bits from SHAKE-256 under a secret key: cryptographic, and the same each time they are generated.

    A cluster runs a task again if a machine is lost, or runs it twice at the same time, and uses one of the answers.
    With fresh bits, each attempt would keep different rows, and which attempt is used could depend on the rows that it
    kept: a larger sample can run out of memory, and a smaller one finishes sooner. So the workers derive the keys of
    all draws from one key of the driver (`keyed.py`), and all attempts keep the same rows. Without the key, these bits
    cannot be distinguished from fresh ones.

    Parameters
    ----------
    key : bytes
        32 fresh secret bytes, used for one sample.
    context : bytes
        Separates the streams of one key. Each use, partition and turn has its own context.
    """

    private = True

    _BLOCK = 1 << 14

    def __init__(self, key: bytes, *, context: bytes = b"") -> None:
        if len(key) != 32:
            raise ArgumentError(f"key must have 32 bytes, but it has {len(key)}. Draw 32 bytes with os.urandom.")
        # All parts have a fixed or stated length, so no two streams have the same prefix.
        self._prefix = b"pais/stream/1" + key + len(context).to_bytes(8, "little") + context
        self._counter = 0
        self._left = b""

    def raw(self, n_bytes: int) -> bytes:
        parts, length = [self._left], len(self._left)
        while length < n_bytes:
            block = hashlib.shake_256(self._prefix + self._counter.to_bytes(8, "little")).digest(self._BLOCK)
            self._counter += 1
            parts.append(block)
            length += len(block)
        stream = b"".join(parts)
        self._left = stream[n_bytes:]
        return stream[:n_bytes]


def bit_source(random_state: RandomState | BitSource, *, stream: int = 0) -> BitSource:
    """Return the source for a `random_state` argument: secure for None, not private for a seed or a generator.

    `stream` separates different uses of one seed. If a user passes the same seed to a sample and to a release, the
    noise must not depend on which rows the sample kept.
    """
    if random_state is None:
        return SecureBits()
    if isinstance(random_state, BitSource):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return SeededBits(random_state)
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0:
        seed = np.random.SeedSequence(int(random_state), spawn_key=(stream,))
        return SeededBits(np.random.default_rng(seed))
    raise ArgumentError(
        f"random_state must be None, an integer >= 0 or a numpy Generator, but its type is "
        f"{type(random_state).__name__}. Use None for a private run."
    )


class RowBits(ABC):
    """Bits for the draws that decide which rows are kept."""

    @abstractmethod
    def first(self, identity: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Return the first 8 bits of each row's draw."""

    @abstractmethod
    def more(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        """Return the next 53 bits of these rows' draws. `turn` counts the calls for a row from 1."""


class FreshBits(RowBits):
    """The next bits of a source, independent of the row's identity. Used for releases."""

    def __init__(self, bits: BitSource) -> None:
        self._bits = bits

    def first(self, identity: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return self._bits.words8(identity.size)

    def more(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        return self._bits.words53(identity.size)


class IdentityBits(RowBits):
    """Bits that are determined by the identity of a row and the turn of its draw."""

    @abstractmethod
    def words(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        """Return 64 bits for each of these rows."""

    def first(self, identity: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return (self.words(identity, 0) >> np.uint64(56)).astype(np.uint8)

    def more(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        return self.words(identity, turn) >> np.uint64(11)


class KeyedBits(IdentityBits):
    """Bits that depend only on a key and the row's identity, not on batch, file, thread or partition. NOT PRIVATE.

    They are mixed as in SplitMix64, which is fast and passes statistical tests but is not cryptographic.
    """

    def __init__(self, key: bytes) -> None:
        self._key = int.from_bytes(key[:8], "little")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyedBits) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def words(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        return mixed64(mixed64(identity + np.uint64(self._key)) + np.uint64(turn))


def mixed64(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64-bit words with the output step of SplitMix64, a bijection whose output shows no visible structure."""
    mixed = word * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def row_bits(bits: BitSource) -> RowBits:
    """Return bits for rows: keyed by the row's identity for a seeded source, else in the order of the requests."""
    return KeyedBits(bits.raw(8)) if isinstance(bits, SeededBits) else FreshBits(bits)


def bernoulli(
    probability: FloatArray,
    coarse: NDArray[np.uint8],
    more: Callable[[NDArray[np.intp], int], NDArray[np.uint64]],
) -> NDArray[np.bool_]:
    """Make independent draws, each true with exactly its probability (the double, taken as an exact real number).

    Parameters
    ----------
    probability : array
        In [0, 1].
    coarse : array of uint8
        The first 8 bits of each draw. They decide all but one draw in 256.
    more : callable
        Returns further bits, 53 at a time, until no bits of the probability are left. It is called with the indices
        of the undecided draws and the number of the call, counted from 1.

    Notes
    -----
    The bits of a uniform real number U are generated from the first one on and compared with the probability q. Scaling
    by a power of two, floor and difference are exact in doubles, so no probability is rounded.
    """
    scaled = probability * 256.0
    whole = np.floor(scaled)
    draw = coarse < whole  # [note: draw-1]
    undecided = np.flatnonzero(coarse == whole)
    rest = (scaled - whole)[undecided] if undecided.size else whole[:0]
    turn = 0
    while undecided.size:
        turn += 1
        scaled = rest * 2.0**53
        whole = np.floor(scaled)
        fresh = more(undecided, turn).astype(np.float64)
        draw[undecided] = fresh < whole
        equal = fresh == whole
        undecided, rest = undecided[equal], (scaled - whole)[equal]  # [note: draw-2]
        undecided, rest = undecided[rest > 0.0], rest[rest > 0.0]
    return draw
