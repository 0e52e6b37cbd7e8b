"""Errors as answers: one shape, one sentence, nothing of what the client sent."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException

from powermark.errors import Infeasible, MissingExtra, PowermarkError, SpecMismatch

_OPTION = re.compile(r"--([a-z][a-z-]*)")
_CODES = {400: "malformed", 404: "not-found", 405: "method-not-allowed"}


class Problem(BaseModel):
    """What was wrong: a word for programs, a sentence and perhaps advice for people."""

    code: str
    message: str
    hint: str | None = None


class Problems(BaseModel):
    """The answer wherever there is no other."""

    error: Problem


class Refusal(HTTPException):
    """A request that is not answered, and why."""

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
    """Return the JSON object of an error; names of options become names of fields."""
    said = {"code": code, "message": _fields(message)}
    return {"error": said | ({} if hint is None else {"hint": _fields(hint)})}


def _fields(sentence: str) -> str:
    return _OPTION.sub(lambda option: option[1].replace("-", "_"), sentence)


def of_error(error: PowermarkError) -> Refusal:
    """Return the refusal that an error of the library amounts to."""
    status, code = 422, "invalid"
    if isinstance(error, Infeasible):
        code = "infeasible"
    elif isinstance(error, SpecMismatch):
        code = "mismatch"
    elif isinstance(error, MissingExtra):
        status, code = 501, "missing-extra"
    return Refusal(status, code, str(error), hint=error.hint)


def answer_errors(app: FastAPI) -> None:
    """Give every foreseen error the one shape."""

    @app.exception_handler(PowermarkError)
    async def _of_library(_: Request, error: PowermarkError) -> JSONResponse:
        return of_error(error).response()

    @app.exception_handler(RequestValidationError)
    async def _of_fields(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]  # its "input" is the client's text and stays out
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
