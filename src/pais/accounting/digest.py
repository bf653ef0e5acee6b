"""A hash of released values, so that a user can check that a certificate belongs to the given numbers."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from typing import Any

import numpy as np


def digest(value: object) -> str | None:
    """Return the SHA-256 of a released value in a canonical form, or None if this kind of value is not supported.

    Supported are numbers, texts, arrays of numbers, tuples, lists, dictionaries with text keys, and dataclasses of
    these. A field of a dataclass with the metadata ``{"fingerprint": False}`` is left out. The digest is the same on
    every machine. Numbers are hashed as little-endian doubles, so numbers that round to the same double have the same
    digest, while 0.0 and -0.0 have different digests.

    Examples
    --------
    >>> from pais.accounting.digest import digest
    >>> digest(1.5) == digest(1.5), digest(1.5) == digest(1.25)
    (True, False)
    """
    sha = hashlib.sha256(b"pais/values/1")
    try:
        _feed(sha, value)
    except (TypeError, UnicodeEncodeError):
        return None
    return sha.hexdigest()


def _feed(sha: Any, value: object) -> None:
    """Hash a value with a mark for its kind and with its length, so that successive values cannot run together."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.metadata.get("fingerprint", True)]
        _feed(sha, {name: getattr(value, name) for name in names})
    elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
        sha.update(b"{" + struct.pack("<q", len(value)))
        for key in sorted(value):
            _feed(sha, key)
            _feed(sha, value[key])
    elif isinstance(value, (tuple, list)):
        sha.update(b"(" + struct.pack("<q", len(value)))
        for item in value:
            _feed(sha, item)
    elif isinstance(value, str):
        content = value.encode()
        sha.update(b"s" + struct.pack("<q", len(content)) + content)
    elif isinstance(value, (bool, int, float, np.ndarray, np.number, np.bool_)):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        sha.update(b"a" + struct.pack(f"<q{array.ndim}q", array.ndim, *array.shape))
        sha.update(array.astype("<f8", order="C").tobytes())
    elif value is None:
        sha.update(b"n")
    else:
        raise TypeError
