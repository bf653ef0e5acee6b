"""A studio about made-up people, spoken to without a socket, and one in a real browser."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

pytest.importorskip("starlette", reason="the studio is an extra: pip install 'pais[studio]'")
pytest.importorskip("uvicorn", reason="the studio is an extra: pip install 'pais[studio]'")

from pais.accounting.ledger import Ledger
from pais.cli.rows import fact_of
from pais.studio.app import Studio

PORT, TOKEN = 4711, "the-token"

LOOP = asyncio.new_event_loop()


@pytest.fixture(scope="session", autouse=True)
def _loop() -> Iterator[None]:
    """Close the loop in which all requests without a socket run."""
    yield
    LOOP.run_until_complete(LOOP.shutdown_default_executor())
    LOOP.close()


#: These texts are in the rows, and in no answer before a release.
SECRETS = (b"zq7person", b"zq7note", b"61357.25")

FACTS = "age: 18:100\nincome: 0:250000\nvisits: auto\npremium: bool\nregion: [north, south, east]\nscore: 0:10"


def people(number: int = 3000) -> pa.Table:
    rng = np.random.default_rng(5)
    kind = rng.integers(3, size=number)
    return pa.table(
        {
            "person_id": [f"zq7person{i // 2}" for i in range(number)],
            "age": rng.integers(20, 70, number),
            "income": np.where(np.arange(number) == 7, 61357.25, 30_000 + 40_000 * kind + rng.normal(0, 3000, number)),
            "visits": rng.poisson(4 + 5 * kind),
            "premium": rng.random(number) < 0.2 + 0.3 * kind,
            "region": np.array(["north", "south", "east"])[kind],
            "score": np.clip(2 + 3 * kind + rng.normal(0, 0.6, number), 0, 10),
            "note": [f"zq7note{i}" for i in range(number)],
            "ward": [f"ward {i % 5}" for i in range(number)],
        }
    )


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """A browser's requests, straight to the application. It follows no redirect by itself."""

    def __init__(self, app: Any) -> None:
        self.app, self.cookie, self.seen = app, "", list[Answer]()

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str | None) -> Answer:
        sent: dict[str, str | None] = {"host": f"127.0.0.1:{PORT}", "cookie": self.cookie}
        if method == "POST":
            sent |= {"origin": f"http://127.0.0.1:{PORT}", "content-type": "application/x-www-form-urlencoded"}
        sent |= headers
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "replace"),
            "query_string": query.encode("utf-8", "replace"),
            "headers": [(k.encode(), v.encode("latin-1", "replace")) for k, v in sent.items() if v is not None],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", PORT),
        }
        messages: list[Any] = []
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if waiting:
                return waiting.pop()
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            messages.append(message)

        LOOP.run_until_complete(self.app(scope, receive, send))
        head = {name.decode().lower(): value.decode("latin-1") for name, value in messages[0]["headers"]}
        answer = Answer(messages[0]["status"], head, b"".join(m.get("body", b"") for m in messages[1:]))
        self.seen.append(answer)
        return answer

    def enter(self) -> Client:
        answer = self.ask("GET", f"/?token={TOKEN}")
        assert answer.status == 200
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def get(self, path: str = "/") -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, **form: Any) -> Answer:
        """Send a form, and follow to the page."""
        answer = self.ask("POST", path, urlencode(form, doseq=True).encode())
        return self.get() if answer.status == 303 else answer

    def fill(self, **question: Any) -> Client:
        """Steps 1 to 4, with a budget of epsilon 20."""
        self.post("/save", form="file", unit="person_id", people="1500", rows_each="2")
        self.post("/paste", yaml=FACTS)
        self.post("/save", form="question", **{"question": "statistics", "statistic": "mean", **question})
        self.post("/save", form="budget", epsilon=question.get("epsilon", "1"))
        self.post("/ledger", budget_epsilon="20", budget_delta="1e-4")
        return self

    def confirm(self) -> str:
        """Ask for the confirmation, and return its token."""
        page = self.post("/confirm")
        found = re.search(r'name="token" value="(\w+)"', page.text)
        assert page.status == 200, message_in(page)
        assert found, (message_in(page), problems_in(page))
        return found[1]

    def wait(self) -> str:
        """Wait for the end of the release, and return what the page says about it."""
        for _ in range(300):
            text = self.get("/progress").text
            if "<progress" not in text:
                return text
            time.sleep(0.1)
        raise AssertionError("the release does not end")


def message_in(page: Answer) -> str:
    found = re.search(r'<div id="message".*?</div>', page.text, re.DOTALL)
    return re.sub(r"<[^>]+>", "", found[0]).strip() if found else page.text


def problems_in(page: Answer) -> list[str]:
    return re.findall(r'class="problem"[^>]*>([^<]+)<', page.text)


def slow(studio: Studio, monkeypatch: pytest.MonkeyPatch, *, charged: bool) -> None:
    """Let the release wait before or after its charge."""
    code = type(studio.question).code.func  # type: ignore[attr-defined]

    def waiting(question: Any) -> str:
        text = str(code(question))
        mark = "result.write_report" if charged else "rows ="
        return text.replace(mark, f"import time; time.sleep(30)\n{mark}", 1)

    monkeypatch.setattr(type(studio.question), "code", property(waiting))


@pytest.fixture(scope="session")
def table_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "people.csv"
    pa_csv.write_csv(people(), path)
    return path


@pytest.fixture
def place(tmp_path: Path, table_file: Path) -> Path:
    shutil.copy(table_file, tmp_path / "people.csv")
    return tmp_path


def studio_in(place: Path, name: str = "people.csv") -> Studio:
    return Studio(place / name, place / "people.ledger", fact_of)


@pytest.fixture
def studio(place: Path) -> Studio:
    return studio_in(place)


@pytest.fixture
def client(studio: Studio) -> Client:
    return Client(studio.guarded(port=PORT, token=TOKEN)).enter()


@pytest.fixture
def ledger(place: Path) -> Any:
    """Reads the ledger anew."""
    return lambda: Ledger(path=place / "people.ledger")


class Served(NamedTuple):
    """A studio that listens on a socket."""

    studio: Studio
    address: str
    stop: Any


def served(studio: Studio) -> Served:
    import socket

    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    config = uvicorn.Config(studio.guarded(port=port, token=TOKEN), log_level="critical", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)

    def stop() -> None:
        server.should_exit = server.force_exit = True
        thread.join(10)
        listener.close()

    return Served(studio, f"http://127.0.0.1:{port}", stop)


@pytest.fixture
def web(studio: Studio) -> Iterator[Served]:
    found = served(studio)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, driven by the ChromeDriver beside it."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    program = shutil.which("chromedriver")
    if not binary or not program:
        pytest.skip("there is no Chromium with ChromeDriver on this machine")
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    data = tempfile.mkdtemp(prefix="studio-browser-")
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    flags += " disable-component-update disable-sync"
    for flag in [*flags.split(), f"user-data-dir={data}", "window-size=1200,1000"]:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program))
    driver.set_page_load_timeout(20)
    yield driver
    driver.quit()
    shutil.rmtree(data, ignore_errors=True)
