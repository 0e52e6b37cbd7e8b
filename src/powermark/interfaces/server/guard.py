"""The outermost layer: limits on requests, security headers, one log line a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from powermark.interfaces.server.access import is_loopback
from powermark.interfaces.server.limits import Limits
from powermark.interfaces.server.refusals import Refusal
from powermark.interfaces.server.telemetry import Log, Metrics

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
    "'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_METHODS = ("GET", "HEAD", "POST")


class Guard:
    """ASGI middleware.

    Parameters
    ----------
    local
        Only serve requests for this machine's own names. Otherwise a web page could reach a server
        without tokens by pointing its own name here (DNS rebinding).
    """

    def __init__(
        self, app: ASGIApp, *, limits: Limits, log: Log, metrics: Metrics, local: bool
    ) -> None:
        self._app, self._limits, self._local = app, limits, local
        self._log, self._metrics = log, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, number = time.perf_counter(), 0, uuid4().hex[:12]

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers["x-request-id"] = number
                stored = "no-cache" if scope["path"].startswith("/static/") else "no-store"
                headers["cache-control"] = stored
            await send(message)

        self._metrics.running.inc()
        try:
            self._check(scope)
            await self._app(scope, self._bounded(scope, receive), reply)
        except Refusal as refusal:
            await refusal.response()(scope, receive, reply)
        except Exception as error:  # its message may quote a text
            self._log.error(error, id=number)
            if status == 0:
                broken = Refusal(500, "broken", "something went wrong here; the log says where.")
                await broken.response()(scope, receive, reply)
        finally:
            self._metrics.running.dec()
            self._note(scope, status, time.perf_counter() - start, number)

    def _check(self, scope: Scope) -> None:
        """Refuse what the headers alone rule out."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self._local and not is_loopback(name.removeprefix("[").removesuffix("]")):
            raise Refusal(421, "wrong-host", "this server only answers its own machine.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 12 or int(length) > self._limits.body_bytes:
            raise self._too_large()
        if scope["method"] == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Refusal(415, "not-json", "the content type must be application/json.")

    def _too_large(self) -> Refusal:
        most = self._limits.body_bytes
        return Refusal(413, "too-large", f"a request may have at most {most:,} bytes.")

    def _bounded(self, scope: Scope, receive: Receive) -> Callable[[], Awaitable[Message]]:
        """Limit the size of the body and the time it takes to arrive."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.client_seconds
        size, whole = 0, scope["method"] in ("GET", "HEAD")

        async def bounded() -> Message:
            nonlocal size, whole
            if whole:  # the next message is the end of the connection
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), deadline - loop.time())
            except TimeoutError:
                raise Refusal(408, "too-slow", "the request took too long to arrive.") from None
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > self._limits.body_bytes:
                raise self._too_large()
            return message

        return bounded

    def _note(self, scope: Scope, status: int, seconds: float, number: str) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        self._log(
            "request",
            id=number,
            method=scope["method"] if scope["method"] in _METHODS else "other",
            route=route,
            status=status,
            ms=round(1000 * seconds, 2),
            client=scope.get("state", {}).get("client"),
        )
