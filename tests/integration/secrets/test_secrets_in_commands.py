"""Commands show nothing of the rows on the screen or in the files they write."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.secrets.planted import NAMES, SEED, Secrets, assert_quiet, leaks
from tests.support.commands import pais as command


def left_in(place: Path) -> list[Path]:
    """All files, hidden ones too, but for the data."""
    return [path for path in sorted(place.rglob("*")) if path.is_file() and "given" not in path.parts]


def assert_clean(path: Path, secrets: Secrets) -> None:
    assert not secrets.in_text(str(path)), path
    assert not secrets.in_bytes(path.read_bytes()), path
    if path.suffix == ".parquet":
        found = pq.read_table(path)
        assert leaks([column.to_numpy() for column in found.columns], secrets) == [], path
        assert leaks({str(key): str(value) for key, value in (found.schema.metadata or {}).items()}, secrets) == []
    else:
        assert not secrets.in_text(path.read_text(encoding="utf-8")), path


def test_commands_show_no_row_on_the_screen_or_in_any_file(
    data: Path, tmp_path: Path, secrets: Secrets, caplog: pytest.LogCaptureFixture
) -> None:
    columns = ("--columns", ",".join(NAMES))
    book = tmp_path / "book.json"
    fit = ("kmeans", data, *columns, "--n-clusters", 3, "--seed", SEED, "--ledger", book)
    plan = ("plan", "--n-clusters", 3, "--n-features", 3, "--epsilon", 1, "--survey", "survey.json")
    lines = [
        ("ledger", book, "--epsilon", 9, "--delta", 1e-4),
        (*fit, "--epsilon", 1, "--out", "a"),
        (*fit, "--epsilon", 1, "--out", "b/c", "--json"),
        (*fit, "--epsilon", 1, "--out", "a", "--overwrite", "--mechanism", "laplace"),
        ("survey", data, *columns, "--epsilon", 0.2, "--seed", SEED, "--ledger", book, "--out", "survey.json"),
        ("survey", data, *columns, "--epsilon", 0.2, "--seed", SEED, "--json"),
        (*plan, "--out", "plan.json"),
        ("explain", "survey.json"),
        ("explain", "plan.json"),
        ("explain", "a/certificate.json"),
        (*fit, "--epsilon", 1, "--out", "d", "--survey", "survey.json"),
        ("sample", data, *columns, "--plan", "plan.json", "--out", "given/secret.parquet", "--carry", "name",
         "--seed", SEED),
        ("ledger", book),
        ("ledger", book, "--json"),
    ]  # fmt: skip
    for line in lines:
        done = command(*line)
        assert done.exit_code == 0, (line, done.output)
        assert not secrets.in_text(done.stdout + done.stderr), line
    # Commands that fail show nothing of the rows either.
    for line in (
        (*fit, "--epsilon", 100, "--out", "e"),
        (*fit, "--epsilon", 1, "--out", "a"),
        ("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", "e"),
        ("survey", data, "--columns", "name", "--epsilon", 1),
        ("survey", data, "--columns", "nobody", "--epsilon", 1),
        ("explain", data),
        ("ledger", data),
    ):
        done = command(*line)
        assert done.exit_code in (1, 2, 3), line
        assert not secrets.in_text(done.stdout + done.stderr), (line, done.output)
    made = left_in(tmp_path)
    assert {"certificate.json", "centers.csv", "report.html", "book.json"} <= {path.name for path in made}
    for path in made:
        assert_clean(path, secrets)
    assert list(tmp_path.rglob(".pais-*")) == []
    assert list((tmp_path / "temporary").iterdir()) == []
    assert_quiet(caplog, secrets)
    # The sample does hold the rows, and the searches see it.
    held = tmp_path / "given" / "secret.parquet"
    assert pq.read_metadata(held).num_rows in secrets.whole
    assert held.stat().st_mode & 0o777 == 0o600
