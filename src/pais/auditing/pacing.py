"""How many runs to make before the next look at the clock, so that a time limit is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator

#: Seconds from some fixed point on.
clock = time.perf_counter

# A chunk is at most this many times the one before: the price of a run is learnt from cheap chunks.
_GROWTH = 4


def chunk_sizes(runs: int, *, most: int, seconds: float | None) -> Iterator[int]:
    """Sizes that add up to `runs`, or to what the time allows; work is done between one size and the next.

    With a time limit the first chunk is a single run, and none is begun that would end too late at the price of those
    before it.
    """
    begun = clock()
    size = most if seconds is None else 1
    left = runs
    while left > 0:
        size = min(size, left)
        before = clock()
        yield size
        left -= size
        if seconds is not None:
            now = clock()
            spare, spent = begun + seconds - now, now - before
            # Multiplied out: a chunk may take no time that the clock can see.
            if spare * size < spent or spare <= 0.0:
                return
            affordable = most if spare * size >= most * spent else int(spare * size / spent)
            size = min(affordable, _GROWTH * size)
