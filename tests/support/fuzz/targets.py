"""What is fuzzed: a corpus of right files, and how one case of each target is made, run and judged."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from typer.main import get_command

import pais
from pais.accounting.ledger import Ledger
from pais.accounting.stores import parts_of
from pais.cli import commands
from pais.cli.app import app
from pais.cli.explain import explain_file
from pais.cli.guard import BAD_ARGUMENT, OUT_OF_REACH
from pais.errors import PaisError
from tests.support.fuzz.mutations import changed_arguments, changed_document, changed_text, paths_of, text_of

#: Share of all cases. Those that plan or run take milliseconds, those that read take a fraction of one.
SHARES = {"certificate": 0.28, "explain": 0.28, "survey": 0.27, "ledger": 0.14, "plan": 0.01, "arguments": 0.02}
LONGEST = 60.0

# Plain usage errors: the boxes of rich take longer than most commands.
app.rich_markup_mode = None
_COMMAND = get_command(app)

_STATED = ("--radius", "6", "--norms", "0,1,2,4,6", "--n-rows", "400", "--center", "0,0")
_VECTORS: tuple[tuple[str, ...], ...] = (
    ("survey", "rows.parquet", "--epsilon", "0.5", "--out", "new.json", "--seed", "1"),
    ("survey", "rows.csv", "--epsilon", "0.5", "--center", "0,0", "--json", "--quantile", "0.9", "--columns", "x,y"),
    ("survey", "folder", "--epsilon", "0.2", "--mechanism", "laplace", "--ledger", "budget.json", "--engine",
     "memory"),
    ("plan", "--n-clusters", "2", "--epsilon", "1", *_STATED, "--sampling", "uniform", "--sample-size", "50"),
    ("plan", "--n-clusters", "2", "--epsilon", "1", "--n-features", "2", "--survey", "survey.json", "--json"),
    ("plan", "--n-clusters", "3", "--epsilon", "2", *_STATED, "--mechanism", "l2", "--algorithm", "paper", "--out",
     "new.json"),
    ("sample", "rows.parquet", "--plan", "plan.json", "--out", "new.parquet", "--carry", "x", "--missing", "drop"),
    ("sample", "rows.csv", "--plan", "plan.json", "--out", "new.parquet", "--columns", "x,y", "--seed", "3",
     "--json"),
    ("kmeans", "rows.parquet", "--n-clusters", "2", "--epsilon", "1", "--out", "new", *_STATED, "--sampling", "none"),
    ("kmeans", "rows.csv", "--n-clusters", "2", "--epsilon", "1", "--out", "new", "--survey", "survey.json",
     "--seed", "1"),
    ("kmeans", "rows.parquet", "--n-clusters", "2", "--epsilon", "1", "--out", "new", "--ledger", "budget.json",
     "--delta", "1e-6"),
    ("kmeans", "rows.parquet", "--plan", "whole.json", "--out", "o", "--seed", "1", "--ledger", "budget.json"),
    ("explain", "certificate.json"), ("explain", "plan.json", "--json"), ("explain", "survey.json"),
    ("ledger", "budget.json", "--json"), ("ledger", "budget.json", "--epsilon", "10", "--delta", "1e-3"),
    ("ledger", "new.json", "--epsilon", "1", "--delta", "1e-6"),
    ("audit", "plan.json", "--method", "runs", "--runs", "20", "--seconds", "0.1", "--confidence", "0.9", "--seed", "1",
     "--json"),
)  # fmt: skip


class TooLong(BaseException):
    """A case that took longer than any should. Nothing catches it on its way."""


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A case that ended in something nobody declared."""

    target: str
    case: int
    kind: str
    detail: str
    made: str


@dataclass
class Corpus:
    """A directory of right files, which commands may change and which are put back then."""

    home: Path
    files: dict[str, bytes] = field(default_factory=dict)
    documents: dict[str, list[tuple[Any, list[tuple[Any, ...]], bytes]]] = field(default_factory=dict)
    stamps: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def keep(self) -> None:
        """Remember what is there, and take documents apart."""
        for path in sorted(self.home.rglob("*")):
            if path.is_file():
                self.files[str(path.relative_to(self.home))] = path.read_bytes()
        self.restore()

    def restore(self) -> None:
        """Take away what a case wrote, and put back what it changed."""
        keep = {name.split("/")[0] for name in self.files}
        for entry in os.scandir(self.home):
            if entry.name not in keep:
                _remove(Path(entry.path))
        for name, content in self.files.items():
            path = self.home / name
            if self.stamps.get(name) != _stamp(path):
                if path.is_dir():
                    _remove(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                self.stamps[name] = _stamp(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            _remove(inner)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = os.stat(path)  # noqa: PTH116  # asked for every file after every case
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def corpus_in(home: Path) -> Corpus:
    """Files as the commands write them, on 60 made-up rows."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(60, 2)) + rng.integers(2, size=(60, 1)) * 3.0
    table = pa.table({"x": rows[:, 0], "y": rows[:, 1]})
    (home / "folder").mkdir()
    for path in (home / "rows.parquet", home / "folder" / "part.parquet"):
        pq.write_table(table, path)
    pa_csv.write_csv(table, home / "rows.csv")
    (home / "text.txt").write_text("no rows in here\n")
    (home / "empty").write_text("")
    with _inside(home):
        _write_documents(home)
    corpus = Corpus(home)
    corpus.keep()
    plans = [corpus.files[name] for name in corpus.files if name.startswith("plan")]
    for target, texts in {
        "certificate": [corpus.files["certificate.json"]],
        "plan": plans,
        "explain": [corpus.files["certificate.json"], corpus.files["survey.json"], *plans],
        "survey": [corpus.files["survey.json"]],
        "ledger": [corpus.files["budget.json"]],
    }.items():
        corpus.documents[target] = [(json.loads(text), paths_of(json.loads(text)), text) for text in texts]
    return corpus


@contextlib.contextmanager
def _inside(home: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(home)
    try:
        yield
    finally:
        os.chdir(before)


def _write_documents(home: Path) -> None:
    """Plans, a survey, a certificate and a ledger with two entries, shortened where they list norms."""
    _right("ledger", "budget.json", "--epsilon", "10", "--delta", "1e-3")
    _right("survey", "rows.parquet", "--epsilon", "0.5", "--out", "survey.json", "--ledger", "budget.json")
    kinds = (("gaussian", "constrained"), ("laplace", "constrained"), ("l2", "uniform"), ("gaussian", "none"))
    for number, (mechanism, sampling) in enumerate(kinds):
        name = f"plan{number or ''}.json"
        more = ("--mechanism", mechanism, "--sampling", sampling, "--out", name, "--quiet")
        _right("plan", "--n-clusters", "2", "--epsilon", "1", *_STATED, *more)
        if number == 0:
            # To be run; the others are only read.
            (home / "whole.json").write_bytes((home / name).read_bytes())
        _shorten(home / name)
    words = ("--n-clusters", "2", "--epsilon", "1", *_STATED, "--out", "o", "--ledger", "budget.json")
    _right("kmeans", "rows.parquet", *words)
    (home / "certificate.json").write_bytes((home / "o" / "certificate.json").read_bytes())
    _remove(home / "o")
    _shorten(home / "survey.json")


def _right(*arguments: str) -> None:
    code, errors = invoked(arguments)
    if code != 0:
        raise RuntimeError(f"the corpus could not be made: {arguments}: {errors}")


def invoked(arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code and standard error of a command in this process, with streams as strict as those of a terminal."""
    errors = io.StringIO()
    shown = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with shown, contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
        try:
            _COMMAND.main(args=list(arguments), prog_name="pais")
        except SystemExit as end:
            return (end.code if isinstance(end.code, int) else int(end.code is not None)), errors.getvalue()
    return 0, errors.getvalue()


def _shorten(path: Path) -> None:
    """Twelve norms instead of thousands, so that a case is quick and a change hits something else now and then."""
    document = pais.Plan.load(path) if path.name.startswith("plan") else pais.Survey.load(path)
    norms = document.norms
    assert norms is not None
    step = max(1, norms.norms.size // 12)
    shorter = replace(norms, norms=norms.norms[::step], masses=step * norms.masses[::step])
    replace(document, norms=shorter).save(path)


def outcome_of(corpus: Corpus, target: str, case: int, seed: int) -> tuple[str, Crash | None]:
    """Make a case, run it, and say how it ended: "success", the name of a declared error, an exit code, or a crash."""
    rng = random.Random(f"{target}/{seed}/{case}")
    if target == "arguments":
        arguments = argument_case(rng)
        ended, detail = run_arguments(corpus, arguments)
        made = json.dumps(arguments)
    else:
        text = _document_case(corpus, target, rng)
        ended, detail = run_text(corpus, target, text, case)
        made = text.decode("latin-1") if detail is not None else ""
    return ended, None if detail is None else Crash(target=target, case=case, kind=ended, detail=detail, made=made)


def argument_case(rng: random.Random) -> list[str]:
    vector = rng.choice(_VECTORS)
    # An audit that runs takes seconds: fewer of them.
    if vector[0] == "audit" and rng.random() < 0.85:
        vector = rng.choice(_VECTORS[:-1])
    return changed_arguments(vector, rng)


def _document_case(corpus: Corpus, target: str, rng: random.Random) -> bytes:
    document, paths, text = rng.choice(corpus.documents[target])
    if rng.random() < 0.75:
        return text_of(changed_document(document, paths, rng), rng)
    return changed_text(text, rng)


def run_text(corpus: Corpus, target: str, text: bytes, case: int) -> tuple[str, str | None]:
    """Read a file that holds the text; how that ended, and what of, if nobody declared it."""
    path = corpus.home / "case.json"
    path.write_bytes(text)
    limit = time_limit() if target == "plan" else contextlib.nullcontext()
    try:
        with limit:
            _READERS[target](path, case)
    except PaisError as error:
        return type(error).__name__, None
    except TooLong:
        return "too long", "no end in sight"
    except Exception as error:
        return f"crash: {type(error).__name__}", _where(error)
    return "success", None


def _open_ledger(path: Path, case: int) -> None:
    ledger = Ledger(path=path)
    commands.ledger_description(ledger)
    if case % 50 == 0:
        for entry in ledger.entries:
            parts_of(entry)
    ledger.check(epsilon=0.5)


_READERS: dict[str, Callable[[Path, int], object]] = {
    "plan": lambda path, _: json.dumps(pais.Plan.load(path).to_dict()),
    "certificate": lambda path, _: pais.Certificate.load(path).to_json(),
    "explain": lambda path, _: explain_file(path),
    "survey": lambda path, _: json.dumps(pais.Survey.load(path).to_dict()),
    "ledger": _open_ledger,
}


def run_arguments(corpus: Corpus, arguments: list[str]) -> tuple[str, str | None]:
    """One command in this process, in the directory of the corpus."""
    try:
        with _inside(corpus.home), time_limit():
            code, errors = invoked(arguments)
    except TooLong:
        return "too long", "no end in sight"
    except Exception as error:
        return f"crash: {type(error).__name__}", _where(error)
    finally:
        corpus.restore()
    if code in (0, BAD_ARGUMENT, OUT_OF_REACH):
        return f"exit {code}", None
    return f"crash: exit {code}", [*errors.strip().splitlines(), "without a word"][-1 if not errors.strip() else -2]


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """End a case that goes on for too long."""

    def ring(number: int, frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _where(error: BaseException) -> str:
    """The innermost line of the package itself."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/pais/" in frame.filename]
    line = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside the package"
    return f"{line} {type(error).__name__}: {str(error)[:120]}"


def smaller(corpus: Corpus, crash: Crash, tries: int = 400) -> str:
    """A shorter case that ends the same way: pieces are left out as long as it does."""
    is_text = crash.target != "arguments"
    parts: list[Any] = list(crash.made) if is_text else json.loads(crash.made)

    def same(candidate: list[Any]) -> bool:
        if not is_text:
            return bool(candidate) and run_arguments(corpus, candidate)[0] == crash.kind
        return run_text(corpus, crash.target, "".join(candidate).encode("latin-1"), crash.case)[0] == crash.kind

    size = max(1, len(parts) // 2)
    while tries > 0 and crash.kind != "too long":
        start, shrunk = 0, False
        while start < len(parts) and tries > 0:
            candidate = parts[:start] + parts[start + size :]
            tries -= 1
            if same(candidate):
                parts, shrunk = candidate, True
            else:
                start += size
        if size == 1 and not shrunk:
            break
        size = max(1, size // 2)
    return "".join(parts) if is_text else json.dumps(parts)
