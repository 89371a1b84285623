"""The application: addresses and their answers. Everything is read; nothing is written."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import mimetypes
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import anyio
from altair.utils import schemapi
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from enlist._internal.text import printable, slug
from enlist.errors import EnlistError
from enlist.report.charts import DARK, coloured, specification
from enlist.report.library import library
from enlist.ui.answers import Answer, AnswerCache
from enlist.ui.catalogue import Catalogue
from enlist.ui.guard import Guard
from enlist.ui.metrics import TYPE, metrics
from enlist.ui.requests import TROUBLE, VIEWS, ViewRequest, damaged, make_view, message_of, report, view_request
from enlist.ui.views.model import NotFoundError, as_json, csv_text
from enlist.ui.views.runs import Question, overview_columns, overview_json
from enlist.ui.views.study import picture
from enlist.ui.watcher import MOST_VIEWERS, Viewer, Watcher

PAGES = Path(__file__).parent / "pages"
MOST_IDS = 100
"""Most ids that a viewer may watch by name."""
LONG = 4_000
"""Most characters of a path and of a query."""


class Application:
    """Answers requests. `create_app` turns it into the ASGI application.

    >>> Application(Catalogue([])).answers.size
    0
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue, self.answers = catalogue, AnswerCache()
        self.watcher = Watcher(catalogue)

    def routes(self) -> list[Route]:
        """All addresses."""
        shells = ["/", "/compare", *(f"/{view}/{{id:path}}" for view in VIEWS)]
        return [
            *(Route(path, self.shell) for path in shells),
            Route("/pages/{name}", self.page),
            Route("/data/runs", self.runs),
            Route("/data/{path:path}", self.data),
            Route("/chart/{name}/{path:path}", self.chart),
            Route("/table/runs/runs", self.runs_table),
            Route("/table/{name}/{path:path}", self.table),
            Route("/figure/{path:path}", self.figure),
            Route("/report/{path:path}", self.report),
            Route("/events", self.events),
            Route("/metrics", self.metrics),
            Route("/health", self.health),
        ]

    async def shell(self, request: Request) -> Response:
        """The page; its scripts request the content."""
        return _static("index.html", request)

    async def page(self, request: Request) -> Response:
        """Scripts and styles."""
        name = request.path_params["name"]
        if name == "vega.js":
            return _sent(request, await self._vega(), "text/javascript", "max-age=3600")
        if name == "colours.js":
            return Response(f"export const DARK = {json.dumps(DARK)};\n", media_type="text/javascript",
                            headers={"Cache-Control": "no-cache"})  # fmt: skip
        return _static(name, request)

    async def _vega(self) -> Answer:
        return await self.answers.get("vega.js", "1", lambda: library().encode())

    async def warm(self) -> None:
        """Load what would delay the first visit by seconds: the chart library, and the scoring of ladders."""
        await self._vega()
        await self.watcher.refresh()
        if any(item.kind == "ladder" for item in self.catalogue.index.items.values()):
            await anyio.to_thread.run_sync(_import_ladder)

    async def runs(self, request: Request) -> Response:
        """The overview."""
        await self.watcher.refresh()
        asked = Question.of(request.query_params)
        catalogue = self.catalogue

        def make() -> bytes:
            return overview_json(catalogue, asked)

        return await self._answer(request, ("runs", asked), str(catalogue.number), make)

    async def runs_table(self, request: Request) -> Response:
        """The overview as CSV."""
        await self.watcher.refresh()
        columns = await anyio.to_thread.run_sync(overview_columns, self.catalogue)
        return _download(csv_text(columns), "runs.csv", "text/csv")

    async def data(self, request: Request) -> Response:
        """A view without its charts."""
        return await self._of_view(request, "data", lambda asked: make_view(self.catalogue, asked).as_json())

    async def chart(self, request: Request) -> Response:
        """The specification of a chart."""
        name = request.path_params["name"]

        def make(asked: ViewRequest) -> dict[str, Any]:
            with coloured(self.catalogue.looks):
                try:
                    drawn = make_view(self.catalogue, asked).chart(name)
                    return {"spec": specification(drawn)} if drawn is not None else {"empty": "Nothing to draw yet."}
                except NotFoundError:
                    raise
                except TROUBLE as error:
                    return {"empty": f"This chart cannot be drawn: {message_of(error, asked.items[0])}"}

        return await self._of_view(request, f"chart {name}", make)

    async def table(self, request: Request) -> Response:
        """A whole table as CSV."""
        await self.watcher.refresh()
        name, asked = request.path_params["name"], self._request(request)

        def make() -> str:
            return make_view(self.catalogue, asked).csv(name)

        stem = slug(f"{asked.items[0].id}-{name}", 100) or "table"
        return _download(await anyio.to_thread.run_sync(make), f"{stem}.csv", "text/csv")

    async def figure(self, request: Request) -> Response:
        """A picture of a study."""
        await self.watcher.refresh()
        id, _, name = request.path_params["path"].rpartition("/")
        item = self.catalogue.item(id, ("study",))
        if request.query_params.get("kind") == "svg":  # an SVG could hold scripts: it is downloaded, never shown
            drawing = await anyio.to_thread.run_sync(picture, item, name, "svg")
            return _download(drawing, f"{name}.svg", "image/svg+xml")
        content = await anyio.to_thread.run_sync(picture, item, name)
        return Response(
            content, media_type="image/png", headers={"Content-Security-Policy": "default-src 'none'; sandbox"}
        )

    async def report(self, request: Request) -> Response:
        """A page that opens offline, for download."""
        await self.watcher.refresh()
        asked = self._request(request)

        def make() -> bytes:
            with coloured(self.catalogue.looks):
                return report(self.catalogue, asked).encode()

        version = self.catalogue.version(asked.items)
        answer = await self.answers.get(("report", request.url.path, request.url.query), version, make)
        return _download(answer.body, f"{slug(asked.items[0].id, 100) or 'report'}.html", "text/html")

    async def events(self, request: Request) -> Response:
        """Changes, as server-sent events."""
        if len(self.watcher.viewers) >= MOST_VIEWERS:
            return PlainTextResponse("too many pages are open; close some.", 503, {"Retry-After": "30"})
        viewer = Viewer(request.query_params.getlist("of")[:MOST_IDS])
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(self.watcher.stream(viewer), media_type="text/event-stream", headers=headers)

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        await self.watcher.refresh()
        return Response(await anyio.to_thread.run_sync(metrics, self.catalogue), headers={"Content-Type": TYPE})

    async def health(self, request: Request) -> Response:
        """The health of the server itself."""
        found = {
            "viewers": len(self.watcher.viewers),
            "items": len(self.catalogue.index.items),
            "number": self.catalogue.number,
        }
        return JSONResponse(found | {"tables": self.catalogue.tables.size, "answers": self.answers.size})

    def _request(self, request: Request) -> ViewRequest:
        path, query = request.path_params["path"], request.query_params
        if len(path) > LONG or len(request.url.query) > 4 * LONG:
            raise NotFoundError("the address is too long; choose fewer runs.")
        given: dict[str, list[str]] = {}
        for name, value in query.multi_items():
            given.setdefault(name, []).append(value)
        return view_request(self.catalogue, path, given)

    async def _of_view(self, request: Request, what: str, make: Callable[[ViewRequest], Any]) -> Response:
        await self.watcher.refresh()
        asked = self._request(request)
        key = (what, request.path_params["path"], request.url.query)
        version = self.catalogue.version(asked.items)

        def body() -> bytes:
            try:
                found = make(asked)
            except (NotFoundError, EnlistError):
                raise
            except TROUBLE as error:
                found = damaged(self.catalogue, asked.items[0], error).as_json()
            if isinstance(found, dict):
                found["version"] = version
            return as_json(found)

        return await self._answer(request, key, version, body)

    async def _answer(
        self, request: Request, key: Any, version: str, make: Callable[[], bytes],
        kind: str = "application/json", cache: str = "no-cache",
    ) -> Response:  # fmt: skip
        answer = await self.answers.get(key, version, make)
        return _sent(request, answer, kind, cache)


def _sent(request: Request, answer: Answer, kind: str, cache: str) -> Response:
    packed = bool(answer.packed) and "gzip" in request.headers.get("accept-encoding", "")
    tag = f'"{answer.version}{"-gzip" if packed else ""}"'
    headers = {"ETag": tag, "Cache-Control": cache, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(answer.packed if packed else answer.body, media_type=kind, headers=headers)


def _download(body: str | bytes, name: str, kind: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": "sandbox"}
    return Response(body, media_type=kind, headers=headers)


def _import_ladder() -> None:
    with contextlib.suppress(ImportError):  # the view says what is missing
        importlib.import_module("enlist.ladder")


@functools.cache
def _files() -> dict[str, tuple[bytes, str]]:
    """The files of the page itself; read once, and nothing else is ever served from disk."""
    found = {}
    for path in PAGES.iterdir():
        kind = "text/javascript" if path.suffix == ".js" else mimetypes.guess_type(path.name)[0]
        if path.is_file() and kind:
            found[path.name] = (path.read_bytes(), kind)
    return found


def _static(name: str, request: Request) -> Response:
    if name not in _files():
        raise NotFoundError("there is nothing under this address; the overview is at /.")
    content, kind = _files()[name]
    return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})


async def _not_found(request: Request, error: Exception) -> Response:
    return _trouble(request, error, 404)


async def _wrong(request: Request, error: Exception) -> Response:
    return _trouble(request, error, 400)


def _trouble(request: Request, error: Exception, status: int) -> Response:
    words = printable(error if isinstance(error, EnlistError) else "there is nothing under this address.", 1_000)
    return JSONResponse({"error": words}, status)


def create_app(
    roots: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    names: Collection[str] = (),
) -> Starlette:
    """The ASGI application that shows the content of the given folders.

    Parameters
    ----------
    roots : sequence of Path
        Folders that hold runs, or will.
    host : str, default "127.0.0.1"
        The address that it is served on, which determines the accepted Host headers.
    port : int, default 8765
        The port, which is part of the cookie's name.
    token : str, optional
        The token that visitors need. Required if the address is not loopback.
    names : collection of str
        Further host names of the server.
    """
    application = Application(Catalogue(roots))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        schemapi.DEBUG_MODE = False  # Altair checks every part of every chart; tests do that
        tasks = [asyncio.create_task(application.watcher.run()), asyncio.create_task(application.warm())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    app = Starlette(
        routes=application.routes(),
        lifespan=lifespan,
        middleware=[Middleware(Guard, host=host, token=token, names=names, port=port)],
        exception_handlers={404: _not_found, NotFoundError: _not_found, EnlistError: _wrong},
    )
    app.router.redirect_slashes = False  # a redirect would repeat the host name of the request, whatever it is
    app.state.application = application
    return app
