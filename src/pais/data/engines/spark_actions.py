"""Run work on Spark's workers, and replace Spark's errors, which can quote rows, with our own."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.logger import PySparkLogger

from pais._base.validate import attempt
from pais._version import __version__
from pais.data.engines.partition import Work
from pais.errors import ArgumentError, DataError

T = TypeVar("T")
OverBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"

# A batch sent to a worker has as many rows as fit into this many bytes, at least 1 and at most `_BATCH_ROWS`.
_BATCH_BYTES = 1 << 25
_BATCH_ROWS = 1 << 17

_VERSION_MARK = "PAIS_WORKER_VERSION"

# Parts of Spark's messages if the workers run another Python, or one without the packages that Spark needs.
_OTHER_PYTHON = re.compile(
    r"PYTHON_VERSION_MISMATCH|Python in worker has different version|No module named|Cannot run program"
    r"|PACKAGE_NOT_INSTALLED"
)
_HINT = "set the environment variable PYSPARK_PYTHON to the Python of this program before Spark starts"


def guarded(action: Callable[[], T], *, otherwise: str | None = None) -> T:
    """Return the result of `action`, or raise our own error: Spark's errors and logs can quote the data."""
    loggers: list[logging.Logger] = [
        PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")
    ]
    # At debug level these loggers write what is sent to Java, including the random bits of a release.
    loggers += [logging.getLogger(f"py4j.{name}") for name in ("clientserver", "java_gateway")]
    loggers.append(logging.getLogger("pyspark.sql.connect.logging"))
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        return action()
    except Exception as error:
        message = _explain(error) if otherwise is None else otherwise
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
    # Raised outside the except block, so that Spark's exception does not become the context of this one.
    raise DataError(message)


def _explain(error: Exception) -> str:
    text = str(error)
    worker_version = re.search(rf"{_VERSION_MARK}=([\w.+-]+)", text)
    if worker_version:
        have = "cannot import pais" if worker_version[1] == "none" else f"have pais {worker_version[1]}"
        return (
            f"Spark's workers {have}, but the driver has pais {__version__}. Install the same version on every node, "
            f"or {_HINT}."
        )
    if _OTHER_PYTHON.search(text):
        return f"Spark's workers run another Python, without the packages they need. To use this one, {_HINT}."
    if "maxResultSize" in text:
        return "the sample is larger than spark.driver.maxResultSize. Plan for fewer rows, or raise that setting."
    if isinstance(error, ImportError):
        return "Spark lacks a package that it needs for Arrow. Install the extra pais[spark]."
    return (
        f"Spark could not read the source ({type(error).__name__}). Check that Spark can compute the frame without "
        "pais; Spark's message is hidden, since it can quote rows."
    )


def for_workers(work: Work) -> OverBatches:
    """Return the function that Spark sends to its workers to do this work."""
    dumps: Callable[[Work], bytes] = cloudpickle.dumps
    pickled = attempt(lambda: dumps(work))
    if pickled is None:
        raise ArgumentError("the rule cannot be sent to Spark's workers. Build it from functions and numbers only.")
    return _importing(pickled, __version__)


def _importing(work: bytes, version: str) -> OverBatches:
    """Return a function that imports pais only when it runs, so a worker without the package can report that."""
    mark = _VERSION_MARK

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            from pais._version import __version__ as worker_version
        except ImportError:
            worker_version = "none"
        if worker_version != version:
            raise RuntimeError(f"{mark}={worker_version}")
        import gc
        import sys

        from pyspark import TaskContext

        is_new_worker = "pais.data.engines.partition" not in sys.modules
        from pais.data.engines.partition import over_partition

        if is_new_worker:
            # Spark collects garbage after each task, which takes 40 ms for the objects of imported modules.
            gc.freeze()

        context = TaskContext.get()
        if context is None:
            # Without the partition number, two partitions could use the same random bits.
            raise RuntimeError("not in a task of Spark")
        yield from over_partition(work, context.partitionId(), batches)

    return run


@contextmanager
def larger_batches(session: Any, n_features: int) -> Iterator[None]:
    """Change Spark's batch size for one pass, then restore the user's setting.

    With Spark's default of 10,000 rows per batch, the overhead of batches takes as long as the work on the rows.
    """
    before = session.conf.get(_BATCH_SETTING, None)
    rows = min(_BATCH_ROWS, max(1, _BATCH_BYTES // (8 * n_features)))
    session.conf.set(_BATCH_SETTING, str(rows))
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_BATCH_SETTING)
        else:
            session.conf.set(_BATCH_SETTING, before)
