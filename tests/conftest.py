"""Settings and fixtures shared by all folders: markers, the order of tests, one Spark session per process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The same examples in every run, so that a change is judged by itself. To search further, run a file with
# --hypothesis-profile=default.
settings.register_profile("repeatable", derandomize=True, database=None)
settings.load_profile("repeatable")

SPARK = [
    pytest.mark.spark,
    # PySpark warns so about pandas 3 whenever Arrow is used; the package does not use pandas.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the folder of statistical tests, and begin with Spark and the files that take long."""
    for item in items:
        if "statistical" in Path(item.path).parts:
            item.add_marker("statistical")
    long = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None, item.path not in long))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Send each file to one process, so that its fixtures are made once, and all Spark files to the same one.

    The mark `xdist_group` has no effect from pytest 9.2 on (pytest-xdist issue 1386).
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.split("::")[0]
            return "spark" if "spark" in path else path

    config.option.loadscopereorder = False  # the order of collection, in which long files come first
    return ByFile(config, log)


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
        # Jobs are short: a quick compiler takes half the time of one that optimises.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "3",
    }.items():
        builder = builder.config(setting, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
