"""The app: agents in front of HTTP clients, put together."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from interpose.agent import Agent
from interpose.errors import ConfigurationError, StoreError
from interpose.server.ag_ui import AgUi
from interpose.server.auth import Gate, id_of
from interpose.server.door import Door
from interpose.server.failures import error_id, logger
from interpose.server.http import (
    ClientDisconnect,
    CORSMiddleware,
    HTTPException,
    Layer,
    Refusal,
    Request,
    Response,
    Route,
    Starlette,
    json_response,
)
from interpose.server.openai_api import OpenAi
from interpose.server.options import Auth, Options, options_of
from interpose.server.runs import Runs

NAME = re.compile(r"[^/\x00-\x1f\x7f\ud800-\udfff]+")


def create_app(
    agents: Mapping[str, Agent[Any]], *, auth: Auth | None = None, ui: bool = False, **options: Any
) -> Starlette:
    """Return an ASGI app that serves *agents* by their names, over AG-UI and as an OpenAI-compatible API.

    *auth* is a bearer token, a mapping of tokens to owners, or a function of the request that returns the owner, or
    None to refuse; runs and threads are their owner's alone. Without it everybody may do everything. *ui* adds the chat
    page. The other options are those of `interpose.server.Options`.

    Raises:
        ConfigurationError: a name, an agent or an option makes no sense.
    """
    _check(agents)
    settings = options_of(options)
    runs = Runs(agents, settings)
    gate = Gate(auth)
    app = Starlette(
        routes=[*_routes(runs, gate, settings), *(_page(agents) if ui else ())],
        middleware=_layers(settings),
        exception_handlers={
            Refusal: _refused,
            HTTPException: _problem,
            StoreError: _no_store,
            ClientDisconnect: _gone,
            Exception: _failed,
        },
        lifespan=_lifespan(runs),
    )
    app.state.runs = runs
    return app


def _check(agents: Any) -> None:
    if not isinstance(agents, Mapping) or not agents:
        raise ConfigurationError("create_app takes agents by name, and one at least: create_app({'helper': agent})")
    for name, agent in agents.items():
        if not isinstance(name, str) or NAME.fullmatch(name) is None or name != name.strip() or name in (".", ".."):
            raise ConfigurationError(f"create_app: {name!r} is no name for an agent; it becomes a part of addresses")
        if not isinstance(agent, Agent):
            raise ConfigurationError(f"create_app: {name!r} is of type {type(agent).__name__}, not an Agent")


def _routes(runs: Runs, gate: Gate, options: Options) -> list[Route]:
    ag_ui = AgUi(runs, gate, options)

    async def alive(_: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(_: Request) -> Response:
        return json_response({"status": "closing" if runs.is_closing else "ok"}, 503 if runs.is_closing else 200)

    openai = OpenAi(runs, gate, options)
    return [
        Route("/healthz", alive, methods=["GET"]),
        Route("/readyz", ready, methods=["GET"]),
        Route("/ag-ui", ag_ui.agents, methods=["GET"]),
        Route("/ag-ui/{name}", ag_ui.run, methods=["POST"]),
        Route("/ag-ui/{name}", ag_ui.again, methods=["GET"]),
        Route("/ag-ui/{name}/runs/{run:path}/events", ag_ui.events, methods=["GET"]),
        Route("/ag-ui/{name}/runs/{run:path}/cancel", ag_ui.cancel, methods=["POST"]),
        Route("/ag-ui/{name}/threads", ag_ui.threads, methods=["GET"]),
        Route("/ag-ui/{name}/threads/{thread:path}", ag_ui.thread, methods=["GET"]),
        Route("/ag-ui/{name}/interrupts", ag_ui.interrupts, methods=["GET"]),
        Route("/v1/models", openai.models, methods=["GET"]),
        Route("/v1/models/{model}", openai.model, methods=["GET"]),
        Route("/v1/chat/completions", openai.complete, methods=["POST"]),
    ]


def _page(agents: Mapping[str, Agent[Any]]) -> list[Route]:
    from interpose.server.ui import routes

    return routes(agents)


def _layers(options: Options) -> list[Layer]:
    layers = [Layer(Door, origins=tuple(options.origins), hosts=tuple(options.hosts))]
    if options.origins:
        cors = Layer(
            CORSMiddleware,
            allow_origins=list(options.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-run-id", "interpose-left-out"],
        )
        layers.insert(0, cors)
    return layers


def _lifespan(runs: Runs) -> Any:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await runs.close()

    return lifespan


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "wrong_method"}.get(error.status_code, "refused")
    return Refusal(error.status_code, code, error.detail.lower(), headers=dict(error.headers or {})).response()


async def _no_store(_: Request, error: Exception) -> Response:
    id = error_id("store", id_of(error))
    logger.error("the store failed a request (%s): %s", id, error)
    return Refusal(503, "no_store", f"what was asked for is out of reach just now (error id {id})").response()


async def _gone(_: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _failed(_: Request, error: Exception) -> Response:
    id = error_id("request", id_of(error))
    if not isinstance(error, asyncio.CancelledError):
        logger.error("a request failed (%s)", id, exc_info=error)
    return Refusal(500, "failed", f"the server failed (error id {id})").response()
