"""Who may speak with the studio: a browser on this machine that was given the token, and no page of another site."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}

# The first page sets the cookie and leads on by itself: a browser sends a strict cookie only to a page that this site
# has led to.
_WELCOME = (
    '<!DOCTYPE html><html lang="en"><head><title>pais</title><link rel="icon" href="data:,">'
    '<meta http-equiv="refresh" content="0;url=/"></head>'
)


class Guard:
    """Wraps the application. It refuses a request that has another host or origin, or no token or cookie."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self._app, self._token, self._cookie = app, token, secrets.token_urlsafe(32)
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._name = f"pais-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                held = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in _HEADERS.items() if k.encode() not in held]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        answer = self._refusal(scope, headers) or self._app
        await answer(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        """The answer to a request that the application must not see; None if it may."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return PlainTextResponse("This server answers on the address that it printed.", 400)
        if origin not in (None, f"http://{host}") or (scope["method"] not in ("GET", "HEAD") and origin is None):
            return PlainTextResponse("This request came from another site.", 403)
        if scope["path"] == "/" and scope["query_string"]:
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if _same(given, self._token):
                answer = HTMLResponse(_WELCOME)
                answer.set_cookie(self._name, self._cookie, httponly=True, samesite="strict", path="/")
                return answer
        if not _same(_cookie(headers.get("cookie", ""), self._name), self._cookie):
            text = "Open the address that `pais studio` printed when it started. What you typed is kept."
            return PlainTextResponse(text, 403)
        return None


def _same(given: str, expected: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _cookie(header: str, name: str) -> str:
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return next((value for key, _, value in pairs if key == name), "")
