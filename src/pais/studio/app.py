"""The pages of the studio. Every answer of the package comes from a public function, as in anybody's program."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

import pais
from pais._base.numerics import lowered, raised
from pais.data.dialect import CSVFile
from pais.data.units import is_person, people_word
from pais.errors import ArgumentError, BudgetError, PaisError
from pais.show.page import best_guess, templates
from pais.studio.columns import DIALECT, KINDS, ReadFact, Table, of_yaml, table_at, to_yaml
from pais.studio.guard import Guard
from pais.studio.question import DEFAULT_DELTA, EACH_ROW, MODELS, STATISTICS, Fields, Question, asked
from pais.studio.rehearsal import Prediction, Rehearsals
from pais.studio.store import Store, history, opened

#: The fields of each form. Those of the columns have the name of their column behind a colon.
FORMS: dict[str, tuple[str, ...]] = {
    "file": (*DIALECT, "unit", "people", "rows_each", "data_name", "owner"),
    "columns": (),
    "paste": ("yaml",),
    "question": ("question", "statistic", "by", "target", "missing", "n_clusters", "n_components", "bins", "q"),
    "budget": ("epsilon", "budget_epsilon", "budget_delta"),
}
_PARTS = ("use", "kind", "low", "high", "values")

#: What a user chooses from in step 3.
QUESTIONS = [("statistics", "statistics, also by groups"), *((kind, words[2]) for kind, words in MODELS.items())]

#: The longest body of a request that is read, and the longest text of a field that is kept.
MOST_BYTES, _LONGEST = 4 << 20, 100_000

#: Positions of the slider for epsilon, about even in ratio.
STEPS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10)

_PACKAGE = Path(__file__).parents[1]
_STATIC = {f"/studio.{kind}": _PACKAGE / f"studio/templates/studio.{kind}" for kind in ("css", "js")}
_STATIC["/style.css"] = _PACKAGE / "show/templates/style.css"

# The report has its style in its head, and nothing else. It may be shown in a frame of this page alone.
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"

Form = dict[str, list[str]]
Handler = Callable[[Request, Form], Response]


class Studio:
    """One file, one ledger, and what the user has typed about them."""

    def __init__(self, data: Path, ledger: Path, read: ReadFact) -> None:
        self.data, self.ledger_path, self.read = data.absolute(), ledger.absolute(), read
        self.store = Store(self.ledger_path)
        self.rehearsals = Rehearsals()
        self.lock = threading.RLock()
        self._seen: tuple[Any, Table] | None = None

    # -- what the page shows

    @property
    def fields(self) -> Fields:
        return Fields(self.store.typed)

    @property
    def table(self) -> Table:
        """The names and types of the columns, read again if the file or the stated form changed."""
        stamp: Any = None
        with contextlib.suppress(OSError):
            stamp = self.data.stat().st_mtime_ns
        key = (stamp, self.fields.dialect)
        if self._seen is None or self._seen[0] != key:
            self._seen = key, table_at(self.data, self.fields.dialect)
        return self._seen[1]

    @property
    def question(self) -> Question:
        return asked(self.fields, self.table, self.data, self.ledger_path, self.read)

    def page(self, *, message: str = "", status: int = 200) -> Response:
        fields, table, question = self.fields, self.table, self.question
        problem, ledger = message, None
        try:
            ledger = opened(self.ledger_path)
        except PaisError as error:
            problem = problem or str(error)
        jobs = self.store.jobs()
        code = self._digest(question)
        waiting = self.store.confirmation if self.store.confirmation.get("digest") == code else {}
        job = jobs[0] if jobs else None
        known = None if question.problems else self.rehearsals.kept(question)
        return _page(
            "page",
            status,
            **self._predicted(question, known),
            fields=fields,
            table=table,
            columns=[fields.column(name) for name in table.names],
            problem=problem,
            todo=_todo(question, ledger) | ({"file"} if table.recognised else set()),
            ledger=ledger,
            each_row=EACH_ROW,
            is_person=is_person,
            kinds=KINDS,
            questions=QUESTIONS,
            statistics=STATISTICS,
            steps=STEPS,
            raised=raised,
            confirmation=waiting,
            job=job,
            charged=job is not None and job.charged(ledger),
            history=list(history(ledger, jobs)),
            guess="" if "epsilon" in question.problems else best_guess(question.arguments["epsilon"], 1e-6),
            who=people_word(question.unit)[0] if question.unit else "row",
        )

    @staticmethod
    def _digest(question: Question) -> str:
        return hashlib.sha256(question.code.encode()).hexdigest()

    # -- what the page does

    def save(self, request: Request, form: Form) -> Response:
        """Keep what was typed, right or wrong. A script sends one field, and gets the page; a form sends all."""
        step = _one(form, "form")
        if step not in FORMS:
            raise HTTPException(400, "This form is not known.")
        names: list[str] = list(FORMS[step])
        if step == "columns":
            names = [f"{part}:{name}" for name in self.table.names for part in _PARTS]
        only = form.get("only")
        for name in names:
            if only is None or name in only:
                self.store.typed[name] = [value[:_LONGEST] for value in form.get(name, ())]
        self.store.save()
        return self.page() if only is not None else RedirectResponse(f"/#{step}", 303)

    def paste(self, request: Request, form: Form) -> Response:
        """Take over facts about many columns, as a file for --columns has them."""
        stated, unknown = of_yaml(_one(form, "yaml")[:_LONGEST], self.table.names)
        for one in stated:
            parts = zip(_PARTS, ("on", one.kind, one.low, one.high, one.values), strict=True)
            self.store.typed |= {f"{part}:{one.name}": [text] for part, text in parts} | {"yaml": []}
        self.store.save()
        if unknown:
            shown = ", ".join(name[:60] for name in unknown[:5])
            return self.page(message=f"{len(stated)} columns were taken over. The file has no column named {shown}.")
        return RedirectResponse("/#columns", 303)

    def yaml(self, request: Request, form: Form) -> Response:
        stated = [one for one in map(self.fields.column, self.table.names) if one.use and one.kind]
        headers = {"content-disposition": 'attachment; filename="columns.yaml"'}
        return PlainTextResponse(to_yaml(stated) if stated else "", media_type="application/yaml", headers=headers)

    def prediction(self, request: Request, form: Form) -> Response:
        """The predicted error of the question, on a made-up table."""
        with self.lock:
            question, found, refused = self.question, None, ""
        try:
            if not question.problems:
                found = self.rehearsals.predict(question)
                if found is None:
                    return Response(status_code=204)
        except PaisError as error:
            refused = str(error)
        return _page("prediction", **self._predicted(question, found, refused))

    def _predicted(self, question: Question, found: Prediction | None, refused: str = "") -> dict[str, Any]:
        """The predicted error, and the ledger before and after the release, on the safe side."""
        shown: dict[str, Any] = {"question": question, "found": found, "refused": refused}
        ledger = None
        with contextlib.suppress(PaisError):
            ledger = opened(self.ledger_path)
        if ledger is None or found is None:
            return shown
        budget, spent, left, delta = ledger.budget, ledger.spent, ledger.remaining, found.delta
        epsilon, is_enough = float(question.arguments["epsilon"]), True
        try:
            ledger.check(epsilon=epsilon, delta=delta)
        except BudgetError:
            is_enough = False
        parts = [("Spent so far", spent.epsilon, spent.delta), ("This release", epsilon, delta)]
        rows = [(name, raised(amount), raised(part, 3)) for name, amount, part in parts]
        if is_enough:
            parts.append(("Left afterwards", max(left.epsilon - epsilon, 0.0), max(left.delta - delta, 0.0)))
            rows.append((parts[-1][0], lowered(parts[-1][1]), lowered(parts[-1][2], 3)))
        whole = ("Budget of these rows", lowered(budget.epsilon), lowered(budget.delta, 3))
        bars = [part[:2] for part in parts]
        return {**shown, "rows": rows, "whole": whole, "bars": bars, "is_enough": is_enough, "left": left}

    def check(self, request: Request, form: Form) -> Response:
        """Compare the file with what is stated. For the owner's eyes: the page may quote cells."""
        question, lines, problem = self.question, [], ""
        facts = {**question.arguments.get("columns", {}), **question.arguments.get("by", {})}
        facts = {name: fact for name, fact in facts.items() if not repr(fact).startswith("pais.names(")}
        stated = {"unit": question.unit, "target": question.arguments.get("target")}
        rows = CSVFile(self.data, **question.dialect) if question.dialect else self.data
        try:
            lines = pais.check(rows, facts, **stated).lines()
        except PaisError as error:
            problem = str(error)
        return _page("check", lines=lines, problem=problem, data=self.data)

    def ledger(self, request: Request, form: Form) -> Response:
        """Create the ledger."""
        self.store.typed |= {name: form.get(name, []) for name in ("budget_epsilon", "budget_delta")}
        self.store.save()
        delta = _one(form, "budget_delta") or DEFAULT_DELTA
        try:
            numbers = float(_one(form, "budget_epsilon")), float(delta)
        except ValueError:
            raise ArgumentError("Write the budget as numbers, such as epsilon 3 and delta 1e-5.") from None
        if not self.ledger_path.exists():
            pais.Ledger(epsilon=numbers[0], delta=numbers[1], path=self.ledger_path)
        return RedirectResponse("/#budget", 303)

    def confirm(self, request: Request, form: Form) -> Response:
        """Ask for the confirmation of the question as it is now. It can be used once."""
        question, ledger = self.question, opened(self.ledger_path)
        if question.problems:
            return self.page(message="Something is still missing: see the messages in red.", status=400)
        if ledger is None:
            return self.page(message="Set the budget first, in step 4.", status=400)
        while (found := self.rehearsals.predict(question)) is None:
            pass  # another tab asked for a prediction in the meantime
        epsilon, delta = question.arguments["epsilon"], found.delta
        ledger.check(epsilon=epsilon, delta=delta)
        price = f"epsilon {raised(epsilon)}" + (f" and delta {raised(delta, 3)}" if delta else "")
        digest = self._digest(question)
        if self.store.confirmation.get("digest") != digest:
            self.store.confirmation = {"token": secrets.token_hex(16), "digest": digest, "price": price}
            self.store.save()
        return RedirectResponse("/#release", 303)

    def withdraw(self, request: Request, form: Form) -> Response:
        self.store.confirmation = {}
        self.store.save()
        return RedirectResponse("/#release", 303)

    def release(self, request: Request, form: Form) -> Response:
        """Start the release that was confirmed. A confirmation that was used already shows its release."""
        token, question, kept = _one(form, "token"), self.question, self.store.confirmation
        if self.store.job(token) is not None:
            return RedirectResponse("/#release", 303)
        if not kept or not secrets.compare_digest(kept["token"].encode(), token.encode()):
            return self.page(message="This confirmation is no longer valid. Nothing was spent by it.", status=409)
        if kept["digest"] != self._digest(question) or question.problems:
            return self.page(message="The question changed after you confirmed it. Nothing was spent.", status=409)
        if any(job.status == "running" for job in self.store.jobs()):
            return self.page(message="A release is running. Wait for its end. Nothing more was spent.", status=409)
        ledger = opened(self.ledger_path)
        self.store.start(token, question, [entry.id for entry in ledger.entries] if ledger else [])
        self.store.confirmation = {}
        self.store.save()
        return RedirectResponse("/#release", 303)

    def stop(self, request: Request, form: Form) -> Response:
        job = self.store.job(_one(form, "job"))
        if job is not None and job.status == "running":
            job.cancel()
        return RedirectResponse("/#release", 303)

    def progress(self, request: Request, form: Form) -> Response:
        job, ledger = next(iter(self.store.jobs()), None), None
        with contextlib.suppress(PaisError):
            ledger = opened(self.ledger_path)
        return _page("progress", job=job, charged=job is not None and job.charged(ledger))

    def file(self, request: Request, form: Form) -> Response:
        """A file of a release: its name is one of a list, and the release one of those in the directory."""
        job, name = self.store.job(request.path_params["job"]), request.path_params["name"]
        if job is None or job.status != "done" or name not in job.files():
            raise HTTPException(404, "There is no such file.")
        headers = {"content-security-policy": _REPORT_POLICY} if name == "report.html" else {}
        if name != "report.html" or "download" in request.query_params:
            headers["content-disposition"] = f'attachment; filename="{name}"'
        return FileResponse(job.place / name, headers=headers)

    def static(self, request: Request, form: Form) -> Response:
        return FileResponse(_STATIC[request.url.path])

    # -- the server

    @cached_property
    def app(self) -> Starlette:
        get: dict[str, Handler] = {"/": lambda request, form: self.page(), "/columns.yaml": self.yaml}
        get |= {"/prediction": self.prediction, "/check": self.check}
        get |= {"/progress": self.progress, "/releases/{job}/{name}": self.file}
        get |= dict.fromkeys(_STATIC, self.static)
        post = {"/save": self.save, "/paste": self.paste, "/ledger": self.ledger, "/confirm": self.confirm}
        post |= {"/withdraw": self.withdraw, "/release": self.release, "/stop": self.stop}
        slow = (self.prediction, self.check, self.static, self.file, self.progress)
        routes = [
            Route(path, self._endpoint(handler, alone=handler not in slow), methods=[method])
            for method, handlers in (("GET", get), ("POST", post))
            for path, handler in handlers.items()
        ]
        return Starlette(routes=routes)

    def _endpoint(self, handler: Handler, *, alone: bool) -> Callable[[Request], Awaitable[Response]]:
        """Read the form, and run a handler in a thread, one at a time if it changes something.

        A message of this package holds public values only. Of any other exception, the page shows the type.
        """

        def run(request: Request, form: Form) -> Response:
            with self.lock if alone else contextlib.nullcontext():
                try:
                    return handler(request, form)
                except HTTPException:
                    raise
                except PaisError as error:
                    return self.page(message=str(error), status=400)
                except Exception as error:
                    text = f"Internal error: {type(error).__name__} (message hidden: it could quote a row)"
                    return PlainTextResponse(text, 500)

        async def endpoint(request: Request) -> Response:
            form: Form = {}
            if request.method == "POST":
                body = b""
                try:
                    async for piece in request.stream():
                        body += piece
                        if len(body) > MOST_BYTES:
                            raise HTTPException(413, "This is too long.")
                    pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100_000)
                except (ValueError, ClientDisconnect):
                    raise HTTPException(400, "This form cannot be read.") from None
                for name, value in pairs:
                    form.setdefault(name, []).append(value.replace("\r\n", "\n").replace("\0", ""))
            return await run_in_threadpool(run, request, form)

        return endpoint

    def guarded(self, *, port: int, token: str) -> Guard:
        return Guard(self.app, port=port, token=token)


def _todo(question: Question, ledger: pais.Ledger | None) -> set[str]:
    """The steps in which something is missing."""
    steps = dict.fromkeys(("file", "unit", "people", "rows_each"), "file") | {"columns": "columns", "epsilon": "budget"}
    found = {"columns" if name.startswith("column:") else steps.get(name, "question") for name in question.problems}
    return found if ledger else {*found, "budget"}


def _page(template: str, status: int = 200, **content: Any) -> Response:
    return HTMLResponse(templates().get_template(f"studio/templates/{template}.html").render(**content), status)


def _one(form: Form, name: str) -> str:
    return (form.get(name) or [""])[0]
