"""What tests of several rooms share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

# One Spark is enough for two cores: with `pytest -n auto --dist loadgroup` one process runs all these tests.
SPARK = [
    pytest.mark.xdist_group("spark"),
    # Spark says so of pandas 3 whenever Arrow is used; nothing here is pandas.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def require_spark() -> None:
    """Skip where Spark cannot run, and say why."""
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'pais[spark]'")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        pytest.skip("Spark needs Java 17, and there is no java on the path or in JAVA_HOME")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark with two threads, in which a task may fail twice before the job does."""
    require_spark()
    from pyspark.sql import SparkSession

    # Workers take the interpreter from the environment; the path would lead them to another one.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,3]").appName("pais tests")
    for setting, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "3",
    }.items():
        builder = builder.config(setting, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
