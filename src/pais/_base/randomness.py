"""Random bits: sources of fair bits, the bits of each row's draw, exact draws, and hashes of rows under a secret key.

A cluster may compute a partition again, with its rows in another order, so there a row's draw must not depend on its
position. It follows from a key and the row: a keyed hash of the row's content, and SipHash-2-4 of the row's id. hashlib
has keyed hashes, but needs a Python call for each row, which would make a pass take half as long again. NumPy has no
cryptographic generator. So this module computes SipHash-2-4 for many rows at a time (Aumasson and Bernstein, "SipHash:
a fast short-input PRF", INDOCRYPT 2012). Its keys come from hashlib's SHAKE-256.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

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


class StreamBits(BitSource):
    """Bits from SHAKE-256 under a secret key: cryptographic, and the same each time they are generated.

    A cluster runs a task again if a machine is lost, or runs it twice at the same time, and uses one of the answers.
    With fresh bits, each attempt would keep different rows, and which attempt is used could depend on the rows that it
    kept: a larger sample can run out of memory, and a smaller one finishes sooner. So the workers derive the keys of
    all draws from one key of the driver (`SecretBits`), and all attempts keep the same rows. Without the key, these
    bits cannot be distinguished from fresh ones.

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


class RowBits:
    """Bits for the draws that decide which rows are kept: by default, those that `words` determines for each row."""

    def words(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        """Return 64 bits for each of these rows, from its identity and the turn of its draw."""
        raise NotImplementedError

    def first(self, identity: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Return the first 8 bits of each row's draw."""
        return (self.words(identity, 0) >> np.uint64(56)).astype(np.uint8)

    def more(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        """Return the next 53 bits of these rows' draws. `turn` counts the calls for a row from 1."""
        return self.words(identity, turn) >> np.uint64(11)


class FreshBits(RowBits):
    """The next bits of a source, independent of the row's identity. Used for releases."""

    def __init__(self, bits: BitSource) -> None:
        self._bits = bits

    def first(self, identity: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return self._bits.words8(identity.size)

    def more(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        return self._bits.words53(identity.size)


class KeyedBits(RowBits):
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


Words32 = NDArray[np.uint32]
Words64 = NDArray[np.uint64]

#: Rows hashed at a time: few enough to fit into the cache, many enough that the overhead of a call is negligible.
CHUNK = 1 << 14

# SipHash's initial state: the text "somepseudorandomlygeneratedbytes".
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)

_HASHES = 3
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def siphash24(key: bytes, messages: Words64) -> Words64:
    """Compute SipHash-2-4 of many messages of the same length under one key.

    Parameters
    ----------
    key : bytes
        16 secret bytes.
    messages : array of shape (n, words)
        Each row is a message. Its bytes are the bytes of its words, in little-endian order.

    Returns
    -------
    array of shape (n,)
        64 bits for each message.
    """
    n_messages, n_words = messages.shape
    halves = 2 * (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:16], "little"))
    v0, v1, v2, v3 = (
        np.full(n_messages, start ^ half, dtype=np.uint64) for start, half in zip(_START, halves, strict=True)
    )
    spare = np.empty(n_messages, dtype=np.uint64)
    length = np.full(n_messages, (8 * n_words % 256) << 56, dtype=np.uint64)
    for word in (*messages.T, length):
        v3 ^= word
        _sip_rounds(2, v0, v1, v2, v3, spare)
        v0 ^= word
    v2 ^= np.uint64(0xFF)
    _sip_rounds(4, v0, v1, v2, v3, spare)
    return np.asarray(v0 ^ v1 ^ v2 ^ v3)


def _sip_rounds(rounds: int, v0: Words64, v1: Words64, v2: Words64, v3: Words64, spare: Words64) -> None:
    for _ in range(rounds):
        _add_rotate_xor(v0, v1, 13, spare)
        _rotate_left(v0, 32, spare)
        _add_rotate_xor(v2, v3, 16, spare)
        _add_rotate_xor(v0, v3, 21, spare)
        _add_rotate_xor(v2, v1, 17, spare)
        _rotate_left(v2, 32, spare)


def _add_rotate_xor(left: Words64, right: Words64, bits: int, spare: Words64) -> None:
    left += right
    _rotate_left(right, bits, spare)
    right ^= left


def _rotate_left(word: Words64, bits: int, spare: Words64) -> None:
    np.right_shift(word, np.uint64(64 - bits), out=spare)
    np.left_shift(word, np.uint64(bits), out=word)
    np.bitwise_or(word, spare, out=word)


class ContentHash:
    """96-bit hashes of rows under a secret key. Equal rows have equal hashes; different rows almost never do.

    Each hash is three independent values of the multilinear family over 32-bit characters, whose values have 32 bits:
    the upper half of m_0 + sum m_i s_i modulo 2**64 (Lemire and Kaser, "Strongly universal string hashing is fast",
    The Computer Journal 57, 2014).

    Notes
    -----
    Guarantee. Two rows that differ in a number have the same hash with probability 2**-96 over the key, even if an
    adversary chose the rows: `tests/unit/_base/test_keyed.py`.

    Assumes. The rows were fixed before the key was drawn, and nobody sees a hash.
    """

    def __init__(self, bits: StreamBits, n_features: int) -> None:
        self._key = bits.words64(_HASHES * (2 * n_features + 1)).reshape(2 * n_features + 1, _HASHES)

    def of(self, columns: Sequence[NDArray[np.generic]]) -> tuple[Words64, Words32]:
        """Return the first 64 and the last 32 bits of each row's hash. Takes up to `CHUNK` rows, passed as columns."""
        totals = np.repeat(self._key[0][:, np.newaxis], len(columns[0]), axis=1)
        product = np.empty(len(columns[0]), dtype=np.uint64)
        for position, column in enumerate(columns):
            # -0.0 + 0.0 is 0.0, so both zeros have the same hash.
            word = (np.asarray(column, dtype=np.float64) + 0.0).view(np.uint64)
            for half, characters in enumerate((word & _LOW, word >> _HALF)):
                for total, key in zip(totals, self._key[1 + 2 * position + half], strict=True):
                    total += np.multiply(characters, key, out=product)  # [note: content-hash-1]
        first, second, third = totals
        return (first & ~_LOW) | (second >> _HALF), (third >> _HALF).astype(np.uint32)


class SecretBits(RowBits):
    """Bits from SipHash-2-4 of each row's id. They do not depend on when or in which order they are requested.

    An identity has two 64-bit words. Each partition and each turn of a draw has its own key, derived from the secret
    key with SHAKE-256.

    Parameters
    ----------
    key : bytes
        32 fresh secret bytes, used for one sample.
    partition : int
        Number of the partition. It gives equal rows in different partitions different draws.
    """

    def __init__(self, key: bytes, *, partition: int) -> None:
        self._key, self._partition = key, partition
        self._keys: dict[int, bytes] = {}

    def words(self, identity: Words64, turn: int) -> Words64:
        if turn not in self._keys:
            stream = StreamBits(self._key, context=b"draws %d %d" % (self._partition, turn))
            self._keys[turn] = stream.raw(16)  # [note: spark-1]
        words = np.empty(len(identity), dtype=np.uint64)
        for start in range(0, len(identity), CHUNK):
            words[start : start + CHUNK] = siphash24(self._keys[turn], identity[start : start + CHUNK])
        return words
