"""The routes: who may ask what, and which work answers."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from powermark.calibration.design import Design
from powermark.calibration.plan import Plan
from powermark.detection.detection import Detection
from powermark.interfaces.server import schemas
from powermark.interfaces.server.access import LOCAL, Client, is_forwarded
from powermark.interfaces.server.refusals import Problems, Refusal
from powermark.interfaces.server.service import Service
from powermark.version import __version__

_bearer = HTTPBearer(auto_error=False, description="A token of `powermark token`.")
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problems, "description": text}
    for status, text in {
        400: "The body is not JSON.",
        401: "No token, or none that is known.",
        403: "The token's scope does not allow this.",
        404: "No spec or profile has this name.",
        408: "The request took too long to arrive.",
        413: "The body or the text is too large.",
        415: "The content type is not application/json.",
        421: "Asked by a name that is not this machine's.",
        422: "A value is out of its domain, or no design can do what is asked.",
        429: "Too many texts with this token.",
        503: "Busy, or the answer takes too long.",
    }.items()
}


async def service_of(request: Request) -> Service:
    """Return the service that the application holds."""
    service: Service = request.app.state.service
    return service


Serving = Annotated[Service, Depends(service_of)]
Presented = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


async def known_of(request: Request, service: Serving, presented: Presented) -> Client:
    """Return who asks; refuse those who may not."""
    if service.tokens is None:
        if is_forwarded(request.headers):
            raise Refusal(
                403,
                "forwarded",
                "a server without tokens answers to its own machine, not through a proxy.",
                hint="start it with a file of tokens, made by `powermark token`.",
            )
        return LOCAL
    client = None if presented is None else service.tokens.client(presented.credentials)
    if client is None:
        raise Refusal(401, "token", "this server needs an access token.")
    request.state.client = client.name
    return client


Known = Annotated[Client, Depends(known_of)]


def charge(service: Service, client: Client, texts: int = 1) -> None:
    """Refuse a client that asks too often; check and count in one step, as many ask at once."""
    wait = 0.0 if service.tokens is None else service.rates.charge(client, texts)
    if wait > 0.0:
        raise Refusal(429, "rate", "too many texts with this token.", retry_after=ceil(wait))


async def client_of(client: Known, service: Serving) -> Client:
    """Return who asks, for one text or one design."""
    charge(service, client)
    return client


Asking = Annotated[Client, Depends(client_of)]


async def inspector_of(client: Asking) -> Client:
    """Return who asks, if token-level answers may be given."""
    if not client.inspects:
        raise Refusal(403, "scope", "this needs a token with the scope inspect.")
    return client


Inspecting = Annotated[Client, Depends(inspector_of)]
api = APIRouter(prefix="/v1", responses=_PROBLEMS)
health = APIRouter()


def _documented(model: Any, description: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "description": description}}


@api.post("/plan", responses=_documented(Plan, "As `powermark plan --json`."))
async def plan(asked: schemas.PlanAsked, _: Asking, service: Serving) -> JSONResponse:
    """Choose gamma and delta: give all but one of n_tokens, alpha, power, kl."""
    found = await service.designing.run(lambda: service.plan(asked).to_dict())
    return JSONResponse(found)


@api.post("/spec", responses=_documented(dict[str, Any], "As `powermark plan -o` writes."))
async def spec(asked: schemas.SpecAsked, _: Asking, service: Serving) -> JSONResponse:
    """Freeze a plan into a watermark spec."""
    found = await service.designing.run(lambda: service.spec(asked).to_dict())
    return JSONResponse(found)


@api.post("/power", responses=_documented(Design, "As `powermark power --json`."))
async def power(asked: schemas.PowerAsked, _: Asking, service: Serving) -> JSONResponse:
    """Say what a given gamma and delta will do."""
    found = await service.designing.run(lambda: service.power(asked).to_dict())
    return JSONResponse(found)


@api.post("/curve", responses=_documented(schemas.Curve, "As `powermark curve --json`."))
async def curve(asked: schemas.CurveAsked, _: Asking, service: Serving) -> JSONResponse:
    """Vary one quantity."""
    found = await service.designing.run(lambda: service.curve(asked).to_dict())
    return JSONResponse(found)


@api.post(
    "/detect",
    responses=_documented(Detection | schemas.Verdict, "As `powermark detect --json`."),
)
async def detect(asked: schemas.DetectAsked, client: Asking, service: Serving) -> JSONResponse:
    """Look for a mark in one text."""
    if asked.tokens:
        await inspector_of(client)
    found = await service.detecting.run(lambda: service.detect(asked, client))
    return JSONResponse(found)


@api.post("/detect/batch", responses=_documented(schemas.Batch, "A result for each text."))
async def detect_batch(asked: schemas.BatchAsked, client: Known, service: Serving) -> JSONResponse:
    """Look for a mark in many texts; each counts towards the token's rate."""
    charge(service, client, len(asked.texts))
    found = await service.detecting.run(lambda: service.detect_many(asked, client))
    return JSONResponse(found)


@api.post(
    "/report",
    responses={
        200: {"content": {"text/html": {}}, "description": "As `powermark detect --html` writes."}
    },
    response_model=None,
)
async def report(asked: schemas.DetectAsked, client: Inspecting, service: Serving) -> HTMLResponse:
    """Look for a mark and return a page that stands alone."""
    page = await service.detecting.run(lambda: service.report(asked, client))
    return HTMLResponse(page, headers={"content-disposition": 'attachment; filename="report.html"'})


@api.get("/specs")
async def specs(client: Asking, service: Serving) -> dict[str, Any]:
    """Return what is loaded, and what this client may do."""
    library, writer = service.library, service.writer
    return {
        "version": __version__,
        "scope": client.scope,
        "model": None if writer is None else writer.model.name,
        "specs": [mark.to_dict() for mark in library.marks.values()],
        "profiles": [{"name": name, **p.origin} for name, p in library.profiles.items()],
        "examples": [{"name": name, "text": text} for name, text in library.examples.items()],
    }


generating = APIRouter(prefix="/v1", responses=_PROBLEMS)


@generating.post(
    "/generate",
    response_model=None,
    responses={200: {"content": {"application/x-ndjson": {}}, "description": "A line a step."}},
)
async def generate(
    asked: schemas.GenerateAsked, _: Inspecting, service: Serving
) -> StreamingResponse:
    """Continue a prompt with the mark, and with compare beside it without."""
    assert service.writer is not None
    lines = service.writer.events(service.library.mark(asked.spec), asked)
    first = await anext(lines)

    async def all_lines() -> Any:
        yield first
        async for line in lines:
            yield line

    return StreamingResponse(all_lines(), media_type="application/x-ndjson")


@health.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the event loop turns."""
    return {"status": "alive"}


@health.get("/readyz")
async def readyz(service: Serving) -> dict[str, Any]:
    """Say that specs are loaded and threads are free."""
    if service.detecting.busy >= service.limits.waiting:
        raise Refusal(503, "busy", "too many requests are waiting.", retry_after=1)
    return {"status": "ready", "specs": len(service.library.marks)}


@health.get("/metrics", response_class=Response)
async def metrics(_: Asking, service: Serving) -> Response:
    """Return counters for Prometheus."""
    return Response(service.metrics.exposition(), media_type="text/plain; version=0.0.4")
