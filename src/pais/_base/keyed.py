"""Secret draws determined by a key and a row: a keyed hash of the row's content, and SipHash-2-4 of the row's id.

A cluster may compute a partition again, with its rows in another order, so a row's draw must not depend on the row's
position. hashlib has keyed hashes, but needs a Python call for each row, which would make a pass take half as long
again. NumPy has no cryptographic generator. So this module computes SipHash-2-4 for many rows at a time (Aumasson and
Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012). Its keys come from hashlib's SHAKE-256.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pais._base.randomness import RowBits, StreamBits

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
    n, words = messages.shape
    halves = 2 * (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:16], "little"))
    v0, v1, v2, v3 = (np.full(n, start ^ half, dtype=np.uint64) for start, half in zip(_START, halves, strict=True))
    spare = np.empty(n, dtype=np.uint64)
    length = np.full(n, (8 * words % 256) << 56, dtype=np.uint64)
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


def _add_rotate_xor(one: Words64, other: Words64, bits: int, spare: Words64) -> None:
    one += other
    _rotate_left(other, bits, spare)
    other ^= one


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
        one, two, three = self._sums(columns)
        return (one & ~_LOW) | (two >> _HALF), (three >> _HALF).astype(np.uint32)

    def _sums(self, columns: Sequence[NDArray[np.generic]]) -> Words64:
        totals = np.repeat(self._key[0][:, np.newaxis], len(columns[0]), axis=1)
        product = np.empty(len(columns[0]), dtype=np.uint64)
        for place, column in enumerate(columns):
            # -0.0 + 0.0 is 0.0, so both zeros hash alike.
            word = (np.asarray(column, dtype=np.float64) + 0.0).view(np.uint64)
            for half, characters in enumerate((word & _LOW, word >> _HALF)):
                for number, key in enumerate(self._key[1 + 2 * place + half]):
                    totals[number] += np.multiply(characters, key, out=product)  # [note: content-hash-1]
        return totals


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

    private = True

    def __init__(self, key: bytes, *, partition: int) -> None:
        self._key, self._partition = key, partition
        self._keys: dict[int, bytes] = {}

    def first(self, identity: Words64) -> NDArray[np.uint8]:
        return (self._words(identity, 0) >> np.uint64(56)).astype(np.uint8)

    def more(self, identity: Words64, turn: int) -> Words64:
        return self._words(identity, turn) >> np.uint64(11)

    def _words(self, identity: Words64, turn: int) -> Words64:
        if turn not in self._keys:
            stream = StreamBits(self._key, context=b"draws %d %d" % (self._partition, turn))
            self._keys[turn] = stream.raw(16)  # [note: spark-1]
        words = np.empty(len(identity), dtype=np.uint64)
        for start in range(0, len(identity), CHUNK):
            words[start : start + CHUNK] = siphash24(self._keys[turn], identity[start : start + CHUNK])
        return words
