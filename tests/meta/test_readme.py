"""The README: its examples run, and it shows the two commands and a small picture."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.meta.test_guides import with_commands

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_python_block_of_the_readme_runs(
    block: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    if "certificate_" in block:
        assert "secure randomness" in printed
        assert "epsilon 1" in printed
    else:
        assert "epsilon 1, delta 0 for one customer_id added or removed" in printed
        assert "number of customers; each customer counts once" in printed
        assert "one customer_id added or removed" in printed


@pytest.mark.slow
def test_the_commands_of_the_readme_go_from_a_messy_file_to_a_readable_report(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    environment = with_commands(tmp_path_factory.mktemp("bin"))
    (commands,) = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)
    done = subprocess.run(
        ["sh", "-e", "-c", commands], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"[Aa]ll 6 segments and \S+ (of )?\d+ features are readable above the noise", report)
    assert "one customer_id added or removed" in (tmp_path / "out" / "certificate.json").read_text()


def test_the_readme_shows_the_two_commands() -> None:
    assert "make demo" in README
    assert "make test" in README


def test_the_pictures_are_small_and_have_a_script() -> None:
    names = re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", README)
    assert len(names) == 2
    script = (ROOT / "benchmarks" / "picture.py").read_text()
    for name in names:
        assert (ROOT / name).stat().st_size < 150_000
        assert Path(name).name in script
