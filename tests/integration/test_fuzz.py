"""A small run of `make fuzz`: damaged files and arguments end in success or in an error the package declares."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.fuzz.targets import Corpus, corpus_in, outcome_of, run_text

CASES = {"certificate": 800, "explain": 800, "survey": 800, "ledger": 600, "plan": 60, "arguments": 60}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus_in(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("target", list(CASES))
def test_damage_ends_in_success_or_a_declared_error(corpus: Corpus, target: str) -> None:
    ends: Counter[str] = Counter()
    for case in range(CASES[target]):
        ended, crash = outcome_of(corpus, target, case, seed=20)
        assert crash is None, crash
        ends[ended] += 1
    # Damage that is always noticed, or never, would test nothing.
    assert len(ends) > 1


def test_right_files_are_read(corpus: Corpus) -> None:
    for target, documents in corpus.documents.items():
        for _, _, text in documents:
            assert run_text(corpus, target, text, 0) == ("success", None), target


def test_an_undeclared_error_counts_as_a_crash(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, case: int) -> None:
        raise KeyError("x")

    monkeypatch.setattr("tests.support.fuzz.targets._READERS", {"survey": broken})
    ended, detail = run_text(corpus, "survey", b"{}", 0)
    assert ended == "crash: KeyError"
    assert detail is not None
