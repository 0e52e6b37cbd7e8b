"""The routes, and who may use them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from math import ceil
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from powermark.detection.detector import Detection
from powermark.interfaces.server import schemas
from powermark.interfaces.server.access import LOCAL, Client, is_forwarded
from powermark.interfaces.server.answers import rendered
from powermark.interfaces.server.refusals import Problems, Refusal
from powermark.interfaces.server.service import Service
from powermark.planning.design import Design
from powermark.planning.plan import Plan
from powermark.signals.references import REFERENCES, reference_profile
from powermark.version import __version__

_bearer = HTTPBearer(auto_error=False, description="A token of `powermark token`.")
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problems, "description": text}
    for status, text in {
        400: "The body is not JSON.",
        401: "The token is missing or unknown.",
        403: "The token's scope does not allow this.",
        404: "No spec or profile has this name.",
        408: "The request took too long to arrive.",
        413: "The body or the text is too large.",
        415: "The content type is not application/json.",
        421: "The host name is not this machine's.",
        422: "A value is out of its domain, or no design meets the request.",
        429: "Too many texts or designs of this client.",
        503: "The server is busy, or the answer takes too long.",
    }.items()
}


async def service_of(request: Request) -> Service:
    """Return the service of the application."""
    service: Service = request.app.state.service
    return service


Serving = Annotated[Service, Depends(service_of)]
Presented = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def admit(request: Request) -> Client:
    """Return the client; refuse unknown ones before the body is read."""
    service: Service = request.app.state.service
    if service.tokens is None:
        if is_forwarded(request.headers):
            raise Refusal(
                403,
                "forwarded",
                "a server without tokens only answers its own machine, not through a proxy.",
                hint="start it with a file of tokens, made by `powermark token`.",
            )
        return LOCAL
    kind, _, presented = request.headers.get("authorization", "").partition(" ")
    client = service.tokens.client(presented.strip()) if kind.lower() == "bearer" else None
    if client is None:
        raise Refusal(401, "token", "this server needs an access token.")
    request.state.client = client.name
    return client


class Authenticated(APIRoute):
    """A route that checks the token first; FastAPI would read the body first."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler behind the check."""
        handle = super().get_route_handler()

        async def admitted(request: Request) -> Response:
            request.state.known = admit(request)
            return await handle(request)

        return admitted


async def known_of(request: Request, _: Presented) -> Client:
    """Return the client; the route has checked the token, so this only documents it."""
    client: Client = request.state.known
    return client


Known = Annotated[Client, Depends(known_of)]


def charge(service: Service, client: Client, texts: int = 1) -> None:
    """Refuse a client over its rate; check and count in one step, as requests are concurrent."""
    wait = 0.0 if service.tokens is None else service.rates.charge(client, texts)
    if wait > 0.0:
        raise Refusal(429, "rate", "too many texts with this token.", retry_after=ceil(wait))


async def client_of(client: Known, service: Serving) -> Client:
    """Return the client, charged for one text or design."""
    charge(service, client)
    return client


Charged = Annotated[Client, Depends(client_of)]


async def inspector_of(client: Charged) -> Client:
    """Return the client if it may get token-level answers."""
    if not client.inspects:
        raise Refusal(403, "scope", "this needs a token with the scope inspect.")
    return client


Inspector = Annotated[Client, Depends(inspector_of)]
api = APIRouter(prefix="/v1", responses=_PROBLEMS, route_class=Authenticated)
health = APIRouter()
monitoring = APIRouter(route_class=Authenticated)


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _documented(model: Any, description: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "description": description}}


@api.post("/plan", responses=_documented(Plan, "As `powermark plan --json`."))
async def plan(body: schemas.PlanRequest, client: Charged, service: Serving) -> Response:
    """Choose gamma and delta: give all but one of n_tokens, alpha, power, kl."""
    return _json(await service.design("plan", body, client))


@api.post("/spec", responses=_documented(dict[str, Any], "As `powermark plan -o` writes."))
async def spec(body: schemas.SpecRequest, client: Charged, service: Serving) -> Response:
    """Freeze a plan into a watermark spec."""
    return _json(await service.design("spec", body, client))


@api.post("/power", responses=_documented(Design, "As `powermark power --json`."))
async def power(body: schemas.PowerRequest, client: Charged, service: Serving) -> Response:
    """Say what a given gamma and delta will do."""
    return _json(await service.design("power", body, client))


@api.post("/curve", responses=_documented(schemas.Curve, "As `powermark curve --json`."))
async def curve(body: schemas.CurveRequest, client: Charged, service: Serving) -> Response:
    """Vary one quantity."""
    return _json(await service.design("curve", body, client))


@api.post(
    "/detect",
    responses=_documented(Detection | schemas.Verdict, "As `powermark detect --json`."),
)
async def detect(body: schemas.DetectRequest, client: Charged, service: Serving) -> Response:
    """Look for a mark in one text."""
    if body.tokens:
        await inspector_of(client)
    return _json(await service.detecting.run(lambda: rendered(service.detect(body, client))))


@api.post("/detect/batch", responses=_documented(schemas.Batch, "A result for each text."))
async def detect_batch(body: schemas.BatchRequest, client: Known, service: Serving) -> Response:
    """Look for a mark in many texts; each counts towards the token's rate."""
    charge(service, client, len(body.texts))
    return _json(await service.detecting.run(lambda: rendered(service.detect_many(body, client))))


@api.post(
    "/report",
    responses={
        200: {"content": {"text/html": {}}, "description": "As `powermark detect --html` writes."}
    },
    response_model=None,
)
async def report(body: schemas.DetectRequest, client: Inspector, service: Serving) -> HTMLResponse:
    """Look for a mark and return a self-contained HTML page."""
    page = await service.detecting.run(lambda: service.report(body, client))
    return HTMLResponse(page, headers={"content-disposition": 'attachment; filename="report.html"'})


@api.get("/specs")
async def specs(client: Charged, service: Serving) -> dict[str, Any]:
    """Return the loaded specs, profiles and examples, and the scope of the token."""
    library, writer = service.library, service.writer
    return {
        "version": __version__,
        "scope": client.scope,
        "model": None if writer is None else writer.model.name,
        "chat": writer is not None and writer.model.chats,
        "specs": [mark.to_dict() for mark in library.marks.values()],
        "profiles": [{"name": name, **p.origin} for name, p in library.profiles.items()],
        "references": [{"name": name, **reference_profile(name).origin} for name in REFERENCES],
        "examples": [{"name": name, "text": text} for name, text in library.examples.items()],
    }


generating = APIRouter(prefix="/v1", responses=_PROBLEMS, route_class=Authenticated)


@generating.post(
    "/generate",
    response_model=None,
    responses={200: {"content": {"application/x-ndjson": {}}, "description": "A line a step."}},
)
async def generate(
    body: schemas.GenerateRequest, _: Inspector, service: Serving
) -> StreamingResponse:
    """Answer a chat, or continue a text, with the mark and, with compare, a second time without."""
    assert service.writer is not None
    lines = service.writer.events(service.library.mark(body.spec), body)
    first = await anext(lines)

    async def all_lines() -> Any:
        yield first
        async for line in lines:
            yield line

    return StreamingResponse(all_lines(), media_type="application/x-ndjson")


@health.get("/healthz")
async def healthz() -> dict[str, str]:
    """Answer while the event loop runs."""
    return {"status": "alive"}


@health.get("/readyz")
async def readyz(service: Serving) -> dict[str, Any]:
    """Answer if specs are loaded and detection accepts requests."""
    if service.detecting.busy >= service.limits.waiting:
        raise Refusal(503, "busy", "too many requests are waiting.", retry_after=1)
    return {"status": "ready", "specs": len(service.library.marks)}


@monitoring.get("/metrics", response_class=Response)
async def metrics(_: Charged, service: Serving) -> Response:
    """Return counters for Prometheus."""
    return Response(service.metrics.exposition(), media_type="text/plain; version=0.0.4")
