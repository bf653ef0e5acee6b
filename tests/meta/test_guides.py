"""The python and sh blocks of each guide run, in order, in a new directory."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pais.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))
# These need Spark, torch or JAX and have tests of their own: `test_spark_page.py`, `test_torch.py` and `test_jax.py`.
RUN = [page for page in PAGES if page.name not in ("spark.md", "training-torch.md", "training-jax.md")]


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text; a block of `bash` sets things up, and `test_pages.py` holds what may stand in one."""
    return re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def with_commands(place: Path) -> dict[str, str]:
    """An environment in which `pais` is the package under test, and `python` has it."""
    for name, runs in (("pais", "-m pais.cli"), ("python", "")):
        script = place / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {runs} "$@"\n')
        script.chmod(0o755)
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PATH": f"{place}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
    }


def output_of(text: str, environment: dict[str, str]) -> str:
    """What a block of sh prints. Its `pais` commands run in this process, which saves the start of Python for each."""
    printed = ""
    for part in re.split(r"^(pais (?:.*\\\n)*.*\n)", text, flags=re.MULTILINE):
        if part.startswith("pais "):
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                words = shlex.split(part.replace("\\\n", ""), comments=True)
                result = CliRunner().invoke(app, words[1:])
            assert result.exit_code == 0, (part, result.output, result.exception)
            printed += result.stdout
        elif part.strip():
            done = subprocess.run(
                ["sh", "-e", "-c", part], capture_output=True, text=True, env=environment, check=False
            )
            assert done.returncode == 0, (part, done.stdout, done.stderr)
            printed += done.stdout
    return printed


def example_rows() -> None:
    """The files that the commands of a page read where it makes none of its own."""
    columns = np.random.default_rng(0).normal(2500.0, 500.0, size=(3, 20_000))
    pq.write_table(pa.table(dict(zip("abc", columns, strict=True))), "rows.parquet")
    Path("center.txt").write_text("2500\n2500\n2500\n")


@pytest.fixture
def _pandas_options() -> Iterator[None]:
    """Restore afterwards what a page sets for its tables."""
    with pandas.option_context("display.float_format", None):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_pandas_options")
@pytest.mark.parametrize("page", [page for page in RUN if blocks(page)], ids=lambda page: page.name)
def test_every_block_of_a_guide_runs(
    page: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment = with_commands(tmp_path_factory.mktemp("bin"))
    monkeypatch.chdir(tmp_path)
    example_rows()
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
        else:
            printed += output_of(text, environment)
    printed += capsys.readouterr().out
    for shown in re.findall(r"^```text\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE):
        assert shown in printed, "a page shows what its blocks print"


def test_the_guide_to_large_data_has_blocks_to_run() -> None:
    assert {language for language, _ in blocks(ROOT / "docs" / "guide" / "large-data.md")} == {"python", "sh"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_guide_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
