"""Choose how many runs to make before checking the clock again, to keep a time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator

#: Seconds since some fixed point in time.
clock = time.perf_counter

# A chunk is at most this many times as large as the previous one, so that small chunks measure the time per run first.
_GROWTH = 4


def chunk_sizes(runs: int, *, most: int, seconds: float | None) -> Iterator[int]:
    """Yield chunk sizes that add up to `runs`, or to fewer if the time is over; the caller works between two sizes.

    With a time limit, the first chunk is a single run. No chunk is started that would end too late, judging by the
    time per run of the previous chunk.
    """
    started = clock()
    size = most if seconds is None else 1
    remaining = runs
    while remaining > 0:
        size = min(size, remaining)
        before = clock()
        yield size
        remaining -= size
        if seconds is not None:
            now = clock()
            spare, spent = started + seconds - now, now - before
            # Multiply instead of dividing by `spent`, which is 0 if a chunk takes less time than the clock can measure.
            if spare * size < spent or spare <= 0.0:
                return
            affordable = most if spare * size >= most * spent else int(spare * size / spent)
            size = min(affordable, _GROWTH * size)
