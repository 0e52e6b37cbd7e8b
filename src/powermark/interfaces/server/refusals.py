"""Errors as JSON: a code, a sentence, perhaps a hint; never the client's own input."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException

from powermark.errors import Infeasible, MissingExtra, PowermarkError, SpecMismatch

_ARGUMENT = re.compile("`([a-z_]+)`")
_FIELDS = {"start": "from", "stop": "to", "checkpoints": "checkpoint"}  # others are as in Python
_CODES = {400: "malformed", 404: "not-found", 405: "method-not-allowed"}


class Problem(BaseModel):
    """An error: a code for programs, a message and perhaps a hint for people."""

    code: str
    message: str
    hint: str | None = None


class Problems(BaseModel):
    """The body of every error."""

    error: Problem


class Refusal(HTTPException):
    """An error that ends a request, with its status code."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        super().__init__(status, message, headers)
        self.code, self.hint = code, hint

    def response(self) -> JSONResponse:
        """Return the answer."""
        content = problem(self.code, self.detail, self.hint)
        return JSONResponse(content, self.status_code, headers=dict(self.headers or {}))


def problem(code: str, message: str, hint: str | None = None) -> dict[str, Any]:
    """Return the JSON object of an error; arguments are fields here, and need no backquotes."""
    said = {"code": code, "message": _fields(message)}
    return {"error": said | ({} if hint is None else {"hint": _fields(hint)})}


def _fields(sentence: str) -> str:
    return _ARGUMENT.sub(lambda found: _FIELDS.get(found[1], found[1]), sentence)


def of_error(error: PowermarkError) -> Refusal:
    """Return the refusal for an error of the library."""
    status, code = 422, "invalid"
    if isinstance(error, Infeasible):
        code = "infeasible"
    elif isinstance(error, SpecMismatch):
        code = "mismatch"
    elif isinstance(error, MissingExtra):
        status, code = 501, "missing-extra"
    return Refusal(status, code, str(error), hint=error.hint)


def answer_errors(app: FastAPI) -> None:
    """Answer every expected error as a :class:`Problems`."""

    @app.exception_handler(PowermarkError)
    async def _of_library(_: Request, error: PowermarkError) -> JSONResponse:
        return of_error(error).response()

    @app.exception_handler(RequestValidationError)
    async def _of_fields(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]  # its "input" may be the client's text: never shown
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        if first["type"] == "json_invalid":
            return Refusal(400, "malformed", "the body is not JSON.").response()
        name = place if first["type"] != "extra_forbidden" else "a field"
        return Refusal(422, "invalid", f"{name or 'the body'}: {first['msg']}.").response()

    @app.exception_handler(StarletteHTTPException)
    async def _of_http(_: Request, error: StarletteHTTPException) -> JSONResponse:
        if isinstance(error, Refusal):
            return error.response()
        code = _CODES.get(error.status_code, "refused")
        content = problem(code, error.detail)
        return JSONResponse(content, error.status_code, headers=dict(error.headers or {}))
