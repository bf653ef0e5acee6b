"""What the studio refuses, and what a crash, a second tab or a double click cannot do."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pais.studio.app import FORMS, MOST_BYTES, Studio
from tests.integration.studio.conftest import PORT, SECRETS, TOKEN, Client, Served, message_in, slow, studio_in

PATHS = (
    "/",
    "/style.css",
    "/studio.js",
    "/columns.yaml",
    "/prediction",
    "/check",
    "/progress",
    "/releases/a/report.html",
)
POSTS = ("/save", "/paste", "/ledger", "/confirm", "/withdraw", "/release", "/stop")


@pytest.mark.parametrize("path", [*PATHS, *POSTS])
def test_without_the_token_nothing_answers(path: str, client: Client) -> None:
    method = "POST" if path in POSTS else "GET"
    for cookie in (
        "",
        "pais-4711=wrong",
        "pais-4711=",
        f"pais-4711={TOKEN}",
        "pais-4711=\xff; =;;",
        client.cookie + "x",
    ):
        assert client.ask(method, path, cookie=cookie).status == 403
    assert client.ask("GET", "/?token=wrong", cookie="").status == 403
    assert client.ask("GET", "/?token=", cookie="").status == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost.evil.example:4711",
        "[::1]:4711",
        "",
        "127.0.0.1:4711.",
        None,
    ],
)
def test_another_host_is_refused_even_with_the_cookie(host: str | None, client: Client) -> None:
    for path in PATHS:
        assert client.ask("GET", path, host=host).status == 400
    assert client.ask("GET", f"/?token={TOKEN}", host=host).status == 400


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:4711", "http://127.0.0.1:4712", "", None]
)
def test_another_origin_changes_nothing(origin: str | None, client: Client, studio: Studio) -> None:
    client.fill()
    before = dict(studio.store.typed)
    for path in POSTS:
        assert client.ask("POST", path, b"form=budget&epsilon=7", origin=origin).status == 403
    assert studio.store.typed == before
    if origin:
        assert client.ask("GET", "/", origin=origin).status == 403


def test_the_cookie_and_the_headers_of_every_answer_are_strict(client: Client) -> None:
    cookie = client.ask("GET", f"/?token={TOKEN}", cookie="").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    for path in [*PATHS, "/nothing"]:
        headers = client.get(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
    page = client.get("/").text
    assert " style=" not in page
    assert "<script>" not in page
    assert " onclick=" not in page
    assert "http://" not in page.replace("http://127.0.0.1", "")
    assert "https://" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/releases/../state.json",
        "/releases/%2e%2e/state.json",
        "/releases/..%2f..%2fpeople.csv/report.html",
        "/releases/./report.html",
        "/people.csv",
        "/../people.csv",
        "/etc/passwd",
        "//etc/passwd",
        "/releases/",
        "/releases",
        "/state.json",
        "/studio.css/../page.html",
        "/releases/{job}/job.json",
        "/releases/{job}/outcome.json",
        "/releases/{job}/../../state.json",
        "/releases/{job}/..%2f..%2fstate.json",
        "/releases/{job}/%2e%2e/state.json",
        "/releases/{job}/",
        "/releases/{job}",
        "/releases/{job}/report.html%00.json",
    ],
)
def test_no_path_leads_beyond_the_files_of_a_release(path: str, client: Client, studio: Studio) -> None:
    made = studio.store.place / "releases" / "abc"
    made.mkdir()
    (made / "job.json").write_text(json.dumps({"started": 1}))
    (made / "outcome.json").write_text(json.dumps({"status": "done"}))
    (made / "report.html").write_text("the report")
    assert client.get("/releases/abc/report.html").status == 200
    answer = client.get(path.replace("{job}", "abc"))
    assert answer.status in (404, 307)
    assert b"the report" not in answer.body


def test_ten_thousand_random_requests_cause_no_error_and_show_no_row(
    client: Client, studio: Studio, ledger: Any
) -> None:
    client.fill()
    spent = ledger().spent
    draw = random.Random(11)
    fields = [name for names in FORMS.values() for name in names]
    fields += [f"{part}:{name}" for part in ("use", "kind", "low", "high", "values") for name in ("age", "note", "x")]
    fields += ["form", "only", "token", "job", "yaml", ""]
    words = ["", "age", "auto", "bool", "bounds", "categories", "names", "other", "mean", "kmeans", "-1", "1e400", "0"]
    words += ["nan", "\x00", "é\ud83d", "a" * 3000, "../..", "ranges(0,1)", "{}", "a: [", "file", "columns", "question"]
    words += ["budget", "note", "<script>", "%", "utf-7", ";", "\t", "person_id", "tab"]
    seen: dict[int, int] = {}
    # Confirmations are left out, so that no release starts.
    posts = ("/save", "/paste", "/ledger", "/withdraw", "/release", "/stop", "/nothing")
    for _ in range(10_000):
        method = draw.choice(["GET", "GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"])
        path = draw.choice(
            [
                *PATHS,
                "/releases/" + quote(draw.choice(words), errors="replace"),
                "/" + quote(draw.choice(words), errors="replace"),
            ]
        )
        # A check shows cells on purpose, and a prediction takes its time.
        path = "/columns.yaml" if path in ("/check", "/prediction") else path
        pairs = [(draw.choice(fields), draw.choice(words)) for _ in range(draw.randrange(8))]
        body = "&".join(f"{quote(k, errors='replace')}={quote(v, errors='replace')}" for k, v in pairs).encode()
        if draw.random() < 0.1:
            body = draw.randbytes(draw.randrange(60))
        if draw.random() < 0.7 and method == "POST":
            path = draw.choice(posts)
        headers: dict[str, str | None] = {}
        if draw.random() < 0.5:
            name = draw.choice(["host", "origin", "cookie", "content-type", "content-length", "range", "if-range", "x"])
            headers[name] = draw.choice([*words[:15], "bytes=0-1", "pais-4711=1", None])
            headers = {k: None if v is None else v.encode("ascii", "ignore").decode() for k, v in headers.items()}
        answer = client.ask(
            method,
            path + draw.choice(["", "", "?token=1", "?download", "?" + quote(draw.choice(words), errors="replace")]),
            body,
            **headers,
        )
        seen[answer.status] = seen.get(answer.status, 0) + 1
        assert answer.status < 500, (method, path, body, answer.body[:300])
        client.seen.clear()
        assert not any(secret in answer.body for secret in SECRETS)
        assert b"Traceback" not in answer.body
    assert {200, 303, 400, 403, 404, 405} <= set(seen)
    assert ledger().spent == spent


def test_a_long_body_is_refused(client: Client) -> None:
    assert client.ask("POST", "/save", b"a" * (MOST_BYTES + 1)).status == 413


def test_raw_bytes_on_the_socket_do_not_end_the_server(web: Served) -> None:
    port = int(web.address.rpartition(":")[2])
    draw = random.Random(3)
    starts = [
        b"GET / HTTP/1.1\r\nHost: evil\r\n\r\n",
        b"POST /save HTTP/1.1\r\nContent-Length: 99\r\n\r\n",
        b"\x16\x03\x01",
        b"",
    ]
    for _ in range(60):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection, contextlib.suppress(OSError):
            connection.sendall(draw.choice(starts) + draw.randbytes(draw.randrange(200)))
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(4096)
            assert not answer.startswith(b"HTTP/1.1 5")
            assert not answer.startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(
            f"GET /?token={TOKEN} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_the_files_of_the_studio_are_its_owners_alone(client: Client, studio: Studio) -> None:
    client.fill()
    client.post("/release", token=client.confirm())
    assert "Released" in client.wait()
    for path in [studio.store.place, *studio.store.place.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_confirmation_spends_once_whoever_uses_it_how_often(
    client: Client, studio: Studio, place: Path, ledger: Any
) -> None:
    client.fill()
    token = client.confirm()
    # A second tab sees the same confirmation, also through another process on the same ledger.
    assert client.confirm() == token
    other = Client(studio_in(place).guarded(port=PORT, token=TOKEN)).enter()
    clients = [client, other, client, other]
    pages = [one.post("/release", token=token) for one in clients]
    assert all(page.status in (200, 409) for page in pages)
    assert "Released" in client.wait()
    assert client.post("/release", token=token).status == 200
    assert client.wait()
    assert len(studio.store.jobs()) == 1
    assert ledger().spent.epsilon == pytest.approx(1.0)
    assert "no longer valid" in message_in(client.post("/release", token="0" * 32))


def test_threads_that_start_the_same_confirmation_start_one_release(
    client: Client, studio: Studio, place: Path
) -> None:
    client.fill()
    token, question = client.confirm(), studio.question
    stores = [studio_in(place).store for _ in range(8)]
    started: list[Any] = []
    threads = [
        threading.Thread(target=lambda s=store: started.append(s.start(token, question, []))) for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(job is not None for job in started) == 1
    assert "Released" in client.wait()


def test_a_question_that_changed_after_the_confirmation_is_not_released(
    client: Client, studio: Studio, ledger: Any
) -> None:
    client.fill()
    token = client.confirm()
    client.post("/save", form="budget", epsilon="2")
    page = client.post("/release", token=token)
    assert page.status == 409
    assert "changed after you confirmed" in page.text
    assert ledger().entries == ()
    client.post("/save", form="budget", epsilon="1")
    client.post("/withdraw")
    assert client.post("/release", token=token).status == 409
    assert studio.store.jobs() == []


@pytest.mark.parametrize("charged", [False, True])
def test_cancelling_says_what_stays_spent(
    charged: bool, client: Client, studio: Studio, ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(studio, monkeypatch, charged=charged)
    client.fill()
    client.post("/release", token=client.confirm())
    words = "The budget is charged" if charged else "nothing is charged yet"
    for _ in range(200):
        text = client.get("/progress").text
        if words in text and (charged or (studio.store.jobs()[0].place / "alive").stat().st_size == 0):
            break
        time.sleep(0.1)
    assert words in text
    # While one runs, another cannot start.
    client.post("/save", form="budget", epsilon="2")
    client.post("/confirm")
    assert "A release is running" in message_in(client.post("/release", token=studio.store.confirmation["token"]))
    client.post("/stop", job=studio.store.jobs()[0].id)
    text = client.wait()
    assert "Cancelled" in text
    assert ("stays spent" in text) == charged
    assert ("Nothing was charged" in text) == (not charged)
    assert bool(ledger().entries) == charged
    assert studio.store.jobs()[0].status == "cancelled"


def test_a_release_outlives_the_studio_and_its_report_is_found_again(
    place: Path, client: Client, studio: Studio
) -> None:
    client.fill()
    client.post("/release", token=client.confirm())
    again = Client(studio_in(place).guarded(port=PORT, token=TOKEN)).enter()
    assert "Released" in again.wait()
    assert "report-frame" in again.get().text


def test_a_release_that_was_killed_leaves_a_right_ledger_and_is_said_to_be_interrupted(
    client: Client, studio: Studio, ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(studio, monkeypatch, charged=True)
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **b: started.append(popen(*a, **b)) or started[0])
    client.fill()
    client.post("/release", token=client.confirm())
    while len(ledger().entries) < 2:
        time.sleep(0.1)
    started[0].kill()
    started[0].wait()
    job = studio.store.jobs()[0]
    os.utime(job.place / "alive", (1, 1))
    text = client.get("/progress").text
    assert "interrupted" in text
    assert "stays spent" in text
    assert ledger().spent.epsilon == pytest.approx(1.0)


def test_an_error_of_the_release_quotes_no_row(client: Client, studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    code = type(studio.question).code.func  # type: ignore[attr-defined]
    monkeypatch.setattr(
        type(studio.question), "code", property(lambda q: str(code(q)) + "raise ValueError('zq7person3')\n")
    )
    client.fill()
    client.post("/release", token=client.confirm())
    text = client.wait()
    assert "Internal error: ValueError" in text
    assert "zq7" not in text
    assert not any(b"zq7" in path.read_bytes() for path in studio.store.place.rglob("*.json"))


def test_a_damaged_state_file_and_a_damaged_ledger_are_survived(place: Path, client: Client) -> None:
    client.fill()
    (place / "people.ledger.studio" / "state.json").write_text('{"typed": ')
    (place / "people.ledger").write_text("{}")
    again = Client(studio_in(place).guarded(port=PORT, token=TOKEN)).enter()
    page = again.get()
    assert page.status == 200
    assert message_in(page)
    assert again.post("/confirm").status == 400


def test_help_and_import_load_nothing_of_the_studio() -> None:
    code = (
        "import sys, pais, pais.cli; print([m for m in sys.modules if 'studio' in m or m in ('starlette', 'uvicorn')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_serves_until_it_is_interrupted(place: Path) -> None:
    words = [sys.executable, "-m", "pais.cli", "studio", str(place / "people.csv"), "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        line = process.stdout.readline()
        assert line.startswith("The studio is at http://127.0.0.1:")
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    words[4] = str(place / "nothing.csv")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "does not exist" in done.stderr
