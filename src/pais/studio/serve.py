"""Starts the server on the loopback address, and opens a browser."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path

import uvicorn

from pais.errors import ArgumentError
from pais.studio.app import Studio
from pais.studio.columns import ReadFact
from pais.studio.store import write


def serve(data: Path, ledger: Path, *, port: int, browser: bool, read: ReadFact, say: Callable[[str], None]) -> None:
    """Serve the studio until the user stops it. `read` parses facts, and `say` prints the address."""
    studio = Studio(data, ledger, read)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
    except OSError:
        raise ArgumentError(f"port {port} is taken. Pass another --port, or leave it out.") from None
    port, token = listener.getsockname()[1], secrets.token_urlsafe(32)
    address = f"http://127.0.0.1:{port}/?token={token}"
    # Uvicorn ends in order on a signal, and then raises it again.
    with contextlib.suppress(KeyboardInterrupt):
        say(f"The studio is at {address}\nKeep this address to yourself. Stop with Ctrl-C; what you typed is kept.")
        sys.stdout.flush()
        if browser:
            # Other users can see the arguments of a browser, so it opens a file that only its owner can read.
            page = studio.store.place / "open.html"
            leads_on = f'<meta http-equiv="refresh" content="0;url={escape(address)}">'
            write(page, f"<!DOCTYPE html><title>pais</title>{leads_on}")
            webbrowser.open(page.absolute().as_uri())
        # No log: it would hold the token, and a message of an exception could quote a row.
        config = uvicorn.Config(
            studio.guarded(port=port, token=token),
            log_level="critical",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=2,
        )
        uvicorn.Server(config).run(sockets=[listener])
