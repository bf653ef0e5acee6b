"""A Spark cluster of this machine alone, for tests: a master, workers, their executors, all on the loopback address.

The package of pip has no scripts to start one, but all the classes. Every process is a child of this one, so a test can
end exactly its own executors.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

_JARS = Path(pyspark.__file__).parent / "jars"
_DEPLOY = "org.apache.spark.deploy"
_PATIENCE = 300.0

_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": _QUICK_START,
    "spark.executor.extraJavaOptions": _QUICK_START,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {_PATIENCE:g} seconds")
        time.sleep(0.05)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    address: str
    home: Path
    workers: list[subprocess.Popen[bytes]]

    @property
    def events(self) -> Path:
        """Where Spark writes its event log."""
        return self.home / "events"

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session with one executor on each worker, which are all there."""
        from pyspark.sql import SparkSession

        # The driver names the interpreter of the workers, from its own environment.
        os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
        builder = SparkSession.builder.master(self.address).appName("pais tests")
        self.events.mkdir()
        places = {"spark.sql.warehouse.dir": str(self.home / "warehouse"), "spark.eventLog.dir": self.events.as_uri()}
        for name, value in {**_SETTINGS, **places}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        try:
            self.await_executors(session)
            yield session
        finally:
            session.stop()

    def await_executors(self, session: Any) -> None:
        status = session.sparkContext._jsc.sc()
        # The driver counts itself.
        wait_for(lambda: status.getExecutorMemoryStatus().size() > len(self.workers), "executors")

    def executors(self) -> list[int]:
        """Process numbers of the executors: the children of our workers."""
        tasks = [task for worker in self.workers for task in Path(f"/proc/{worker.pid}/task").glob("*/children")]
        return [int(child) for task in tasks for child in task.read_text().split()]

    def kill_an_executor(self) -> int:
        victim = self.executors()[0]
        os.kill(victim, signal.SIGKILL)
        return victim


@contextmanager
def cluster(workers: int = 2) -> Iterator[Cluster]:
    home = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
    started: list[subprocess.Popen[bytes]] = []
    try:
        master = _launch(home, "master", started, "master.Master")
        log = home / "master.log"
        address = _said(r"spark://127\.0\.0\.1:[1-9]\d*", log, master)
        running = [
            _launch(home, f"worker{i}", started, "worker.Worker", "--cores", "1", "--memory", "1g",
                    "--work-dir", str(home / f"work{i}"), address)
            for i in range(workers)
        ]  # fmt: skip
        for number, process in enumerate(running):
            _said("Successfully registered with master", home / f"worker{number}.log", process)
        yield Cluster(address=address, home=home, workers=running)
    finally:
        # Workers first: a worker that is told to end ends its executors.
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(home, ignore_errors=True)


def _launch(
    home: Path, name: str, started: list[subprocess.Popen[bytes]], kind: str, *arguments: str
) -> subprocess.Popen[bytes]:
    java_home = os.environ.get("JAVA_HOME")
    java = f"{java_home}/bin/java" if java_home else "java"
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dspark.ui.enabled=false"]
    # Port 0: whichever is free.
    place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(_JARS.parent),
        # Without it a worker looks for a build tree of Spark and starts no executor.
        "SPARK_SCALA_VERSION": next(_JARS.glob("spark-core_*.jar")).name.split("_")[1].split("-")[0],
    }
    with (home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [java, *options, "-cp", str(_JARS / "*"), f"{_DEPLOY}.{kind}", *place, *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=home,
        )
    started.append(process)
    return process


def _said(text: str, log: Path, process: subprocess.Popen[bytes]) -> str:
    """What a process wrote that matches, once it has."""
    wait_for(lambda: process.poll() is not None or re.search(text, log.read_text()) is not None, f"{text!r} in a log")
    found = re.search(text, log.read_text())
    if found is None:
        raise RuntimeError(f"{log.name} ended before it said {text!r}: {log.read_text()[-1000:]}")
    return found[0]
