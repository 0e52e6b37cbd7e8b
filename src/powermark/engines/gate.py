"""Middleware that refuses requests which name a mark where the engine does not look.

Servers silently drop unknown fields. A client that put ``powermark`` in the wrong place would get a
text with another mark, or none, without noticing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import JSONResponse

from powermark.engines.settings import FIELD
from powermark.errors import InvalidInput, PowermarkError

Receive = Callable[[], Awaitable[dict[str, Any]]]
_IN_FORMS = re.compile(rb'name="?(powermark\w*)')


class Gate:
    """ASGI middleware that answers some requests with HTTP 400.

    Parameters
    ----------
    app
        The application behind it.
    check
        Called with the fields of each body that mentions marks; raises to refuse it.
    """

    def __init__(self, app: Any, check: Callable[[Mapping[str, Any]], object]) -> None:
        self._app, self._check = app, check

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Any) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        body = b"".join(message.get("body", b"") for message in messages)
        try:
            if FIELD.encode() in body:
                self._check(_fields(body))
        except PowermarkError as error:
            about = {"message": str(error), "type": "BadRequestError", "param": FIELD, "code": 400}
            await JSONResponse({"error": about}, 400)(scope, receive, send)
            return
        read = iter(messages)

        async def again() -> dict[str, Any]:
            return next(read, None) or await receive()

        await self._app(scope, again, send)


def _fields(body: bytes) -> dict[str, Any]:
    """Return the fields of a JSON object, or the fields of a form that mention marks."""
    try:
        found = json.loads(body)
    except RecursionError:
        raise InvalidInput("the body is nested too deeply to be read.") from None
    except ValueError:
        return {name.decode(): None for name in _IN_FORMS.findall(body)}
    return found if isinstance(found, dict) else {}


def mark_fields(fields: Mapping[str, Any], *places: str) -> dict[str, Any]:
    """Return the fields about marks in a body and in the objects at these places in it."""
    objects = [fields, *(fields.get(place) for place in places)]
    return {
        name: value
        for part in objects
        if isinstance(part, dict)
        for name, value in part.items()
        if name.startswith(FIELD)
    }
