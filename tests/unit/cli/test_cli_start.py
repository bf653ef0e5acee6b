"""How the command line starts: as a module, its help, and completion in the shell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.unit.cli.commands import pais

COMMANDS = ["demo", "example", "survey", "plan", "sample", "kmeans", "label", "audit", "explain", "ledger"]


@pytest.mark.parametrize("module", ["pais", "pais.cli"])
def test_the_package_runs_as_a_module(module: str) -> None:
    result = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.split()[0]) == (0, "pais")


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_shows_flags_without_a_type(command: list[str]) -> None:
    shown = pais(*command, "--help")
    assert shown.exit_code == 0
    # The only bool is that of --columns.
    assert "bool" not in shown.stdout.lower().replace("premium=bool", "")


def test_the_shell_completes_commands_and_options() -> None:
    def completed(words: str, number: int) -> list[str]:
        environment = {**os.environ, "_PAIS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        program = "import sys; sys.argv = ['pais']; from pais.cli import main; main()"
        result = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        return result.stdout.split()

    assert completed("pais km", 1) == ["kmeans"]
    assert "--n-clusters" in completed("pais kmeans --n", 2)
    assert completed("pais kmeans --missing dr", 3) == ["drop"]


def test_the_program_offers_to_install_completion() -> None:
    assert "--install-completion" in pais("--help").stdout
