"""Spark jobs: no error and no log quotes a value, and workers that do not fit are named."""

from __future__ import annotations

import base64
import logging
import math
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pais
from pais import Ball, DataError
from pais._base.randomness import BitSource, StreamBits, bit_source
from pais.data.engines.base import Fold
from pais.data.engines.blocks import Block
from pais.data.sources import source
from tests.conformance.spark.spark_rows import FEATURES, RADIUS, Rows, kept
from tests.conftest import SPARK

pytestmark = SPARK
CANARY = 1234.5678


# -- secrets and workers -------------------------------------------------------------------------------------


def error_text(action: Callable[[], object]) -> str:
    """All that an error says, with everything it keeps of others."""
    with pytest.raises(DataError) as refused:
        action()
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    return "".join(traceback.format_exception(refused.value))


class Quoting(Fold):
    """Fails, and says on what."""

    def of(self, block: Block) -> NDArray[np.int64]:
        raise KeyError(f"no place for {block.rows()}")


def test_no_error_and_no_log_quotes_a_value(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    planted = spark.createDataFrame([(CANARY, f"secret{CANARY}"), (float("nan"), "b")], ["x", "label"])
    texts = [
        error_text(lambda: source(planted, columns=["x"], missing="error")),
        error_text(lambda: source(planted.selectExpr("x", "array(x, x) as v"), widths={"v": 2}, missing="error")),
        error_text(lambda: source(planted, columns=["x"]).fold(Quoting(), seeded=False)),
        error_text(lambda: source(planted.selectExpr("cast(label as double) as x")).fold(Rows(), seeded=False)),
        error_text(lambda: source(planted.selectExpr("array(cast(label as double)) as v"))),
        error_text(
            lambda: source(planted.selectExpr("array(cast(label as double)) as v"), widths={"v": 1}).fold(
                Rows(), seeded=False
            )
        ),
        error_text(lambda: source(planted, columns=["label"])),
    ]
    printed = capfd.readouterr()
    for text in [*texts, printed.out, printed.err]:
        assert str(CANARY) not in text
        assert "secret" not in text.replace("tests/", "")
    assert "KeyError" in texts[2]


def test_the_log_of_what_is_sent_to_java_does_not_hold_the_bits_of_a_release(frame: Any) -> None:
    key = bytes(range(100, 132))

    class Known(BitSource):
        private = True

        def raw(self, n_bytes: int) -> bytes:
            return key[:n_bytes]

    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in ("py4j", "py4j.clientserver", "py4j.java_gateway")]
    before = [logger.level for logger in loggers]
    loggers[0].addHandler(handler)
    try:
        for logger in loggers:
            logger.setLevel(logging.DEBUG)
        kept(source(frame, columns=FEATURES), Known())
        frame.count()
    finally:
        loggers[0].removeHandler(handler)
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
    # It was listened to, and on any of the three ways in which base64 could show the key.
    assert heard
    parts = [base64.b64encode(key[start : start + 24]).decode() for start in range(3)]
    assert not any(part in text for part in parts for text in heard)


def test_a_worker_with_another_version_is_named(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pais.data.engines import spark as spark_actions

    monkeypatch.setattr(spark_actions, "__version__", "99.0")
    with pytest.raises(DataError, match=rf"workers have pais {pais.__version__}, but the driver has pais 99\.0"):
        source(spark.sql("select 1.0d as x")).fold(Rows(), seeded=False)


def test_a_worker_without_this_package_says_so() -> None:
    from pyspark import cloudpickle

    from pais.data.engines.spark import _explain, _importing

    sent = cloudpickle.dumps(_importing(b"", "1.0"))
    code = f"import sys, pickle; sys.modules['pais'] = None; list(pickle.loads({sent!r})(iter([])))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "workers cannot import pais" in _explain(RuntimeError(done.stderr))


def test_a_rule_that_cannot_be_sent_is_refused(spark: Any) -> None:
    handle = open(sys.executable, "rb")  # noqa: PTH123, SIM115  # anything that cannot be pickled
    rule = pais.FunctionRule(function=lambda norm: np.full_like(norm, 0.5 if handle else 1.0), radius=RADIUS)
    with handle, pytest.raises(pais.ArgumentError, match="cannot be sent to Spark's workers"):
        kept(source(spark.sql("select 1.0d as x")), bit_source(None), rule, Ball(radius=RADIUS))


# -- the stream of bits --------------------------------------------------------------------------------------


def test_stream_bits_depend_only_on_key_and_context() -> None:
    key = bytes(range(32))
    whole = StreamBits(key, context=b"a").raw(100_000)
    pieces = StreamBits(key, context=b"a")
    assert b"".join(pieces.raw(size) for size in (1, 7, 16_384, 50_000, 33_608)) == whole
    for other in (StreamBits(key), StreamBits(key, context=b"b"), StreamBits(bytes(32), context=b"a")):
        assert other.raw(64) != whole[:64]
    ones = np.unpackbits(np.frombuffer(whole, dtype=np.uint8)).mean()
    assert abs(ones - 0.5) < 5.0 * 0.5 / math.sqrt(800_000)
    assert pickle.loads(pickle.dumps(StreamBits(key, context=b"a"))).raw(9) == whole[:9]
    with pytest.raises(pais.ArgumentError, match="32 bytes"):
        StreamBits(b"short")


def test_a_python_that_does_not_start_names_the_variable_to_set() -> None:
    from pais.data.engines.spark import _explain

    assert "PYSPARK_PYTHON" in _explain(RuntimeError(f'Cannot run program "python3": {CANARY}'))
