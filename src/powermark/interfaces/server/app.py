"""The application: routes, page and API documentation behind one guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

from powermark.interfaces.server import routes
from powermark.interfaces.server.guard import Guard
from powermark.interfaces.server.refusals import answer_errors
from powermark.interfaces.server.service import Service
from powermark.version import __version__

STATIC = Path(__file__).with_name("static")
SWAGGER = Path(str(files("fastapi_offline"))) / "static"  # Swagger UI, shipped by a package
_ABOUT = """\
Everything the page does, and everything `powermark ... --json` prints. Clients send texts, never
keys: the server reads keys and specs from a folder when it starts.
"""


def create_app(service: Service) -> FastAPI:
    """Return the application; without tokens it only answers under this machine's own names."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="powermark",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    answer_errors(app)
    app.include_router(routes.api)
    if service.writer is not None:
        app.include_router(routes.generating)
    app.include_router(routes.health)
    app.include_router(routes.monitoring)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    app.mount("/static", StaticFiles(directory=STATIC))
    app.mount("/swagger", StaticFiles(directory=SWAGGER))
    app.add_middleware(
        Guard,
        limits=service.limits,
        log=service.log,
        metrics=service.metrics,
        local=service.tokens is None,
    )
    return app
