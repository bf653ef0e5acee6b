"""Runs the cases in worker processes, set by set, and keeps each finished run so that a stopped benchmark goes on."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.regimes import worker
from benchmarks.regimes.cases import Case
from benchmarks.regimes.worker import Identity, Run


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """All runs of a case, with what they are compared to."""

    case: Case
    identity: Identity
    floor: float
    runs: list[Run]


@dataclass(kw_only=True)
class Log:
    """Finished runs, one JSON object a line; runs of other sources or other rows are passed over.

    Attributes
    ----------
    state : str
        Digest of the package's sources.
    """

    path: Path
    state: str
    known: dict[str, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.exists():
            for text in self.path.read_text(encoding="utf-8").splitlines():
                # A line is cut off if the process was killed while it wrote; that run is repeated.
                with suppress(json.JSONDecodeError):
                    entry = json.loads(text)
                    self.known[entry["key"]] = Run(**entry["run"])

    def get(self, case: Case, digest: str, seed: int) -> Run | None:
        return self.known.get(self._key(case, digest, seed))

    def put(self, case: Case, digest: str, seed: int, run: Run) -> None:
        key = self._key(case, digest, seed)
        self.known[key] = run
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "run": asdict(run)}) + "\n")

    def _key(self, case: Case, digest: str, seed: int) -> str:
        return f"{case.key} seed={seed} set={digest} sources={self.state}"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where data, floors and runs are, and how many runs of each case are wanted: None = as the case says."""

    data: Path
    floors: Path
    log: Log
    seeds: int | None
    processes: int

    def lines(self, cases: Iterable[Case]) -> Iterator[Line]:
        """A line for each case as soon as all its runs are finished, set by set in the order of the cases."""
        by_table: dict[str, list[Case]] = {}
        for case in cases:
            by_table.setdefault(case.table, []).append(case)
        with self._pool() as pool:
            for table, members in by_table.items():
                yield from self._lines_of(pool, table, members)

    def floors_of(self, cases: Iterable[Case]) -> Iterator[tuple[str, float]]:
        """Each set of the cases with its floor."""
        with self._pool() as pool:
            for table in dict.fromkeys(case.table for case in cases):
                identity = pool.submit(worker.identify, self.data, table).result()
                yield table, pool.submit(worker.floor, self.data, table, identity.digest, self.floors).result()

    @contextmanager
    def _pool(self) -> Iterator[ProcessPoolExecutor]:
        """Worker processes; when stopped, runs that have not begun are dropped."""
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.processes, mp_context=context, initializer=worker.prepare) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _lines_of(self, pool: ProcessPoolExecutor, table: str, cases: list[Case]) -> Iterator[Line]:
        identity = pool.submit(worker.identify, self.data, table).result()
        floor = pool.submit(worker.floor, self.data, table, identity.digest, self.floors)
        waiting: dict[Future[Run], tuple[Case, int]] = {}
        missing = dict.fromkeys(cases, 0)
        for case in cases:
            for seed in self._seeds(case):
                if self.log.get(case, identity.digest, seed) is None:
                    waiting[pool.submit(worker.run, self.data, case, seed)] = (case, seed)
                    missing[case] += 1
        for case, count in missing.items():
            if count == 0:
                yield self._line(case, identity, floor.result())
        for future in as_completed(waiting):
            case, seed = waiting[future]
            self.log.put(case, identity.digest, seed, future.result())
            missing[case] -= 1
            if missing[case] == 0:
                yield self._line(case, identity, floor.result())

    def _line(self, case: Case, identity: Identity, floor: float) -> Line:
        runs = [self.log.get(case, identity.digest, seed) for seed in self._seeds(case)]
        return Line(case=case, identity=identity, floor=floor, runs=[run for run in runs if run is not None])

    def _seeds(self, case: Case) -> range:
        return range(case.seeds if self.seeds is None else self.seeds)
