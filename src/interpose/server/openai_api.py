"""An OpenAI-compatible API in front of the agents: any client of Chat Completions gets the agent, middleware and all.

Nothing is kept between requests: the client sends the whole conversation, as with OpenAI.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from interpose.agent import Agent
from interpose.events import TextMessageContentEvent, ToolCallStartEvent
from interpose.interrupts import Cancelled
from interpose.server.auth import Gate, id_of
from interpose.server.bodies import convert, read_json
from interpose.server.caller import Caller
from interpose.server.client_tools import calls_of_client, client_tools
from interpose.server.failures import ShownError, classified, error_id, logger, told
from interpose.server.http import Refusal, Request, Response, json_response
from interpose.server.openai_input import ChatRequest, ClientSettings
from interpose.server.openai_wire import DONE, Answer, Piece
from interpose.server.options import Options
from interpose.server.runs import Runs
from interpose.server.stream import EventStream
from interpose.text import to_json

T = TypeVar("T")
BETWEEN = "\n\n"
"""Stands between the messages of several steps."""


class OpenAi:
    """What the addresses under `/v1` answer."""

    def __init__(self, runs: Runs, gate: Gate, options: Options) -> None:
        self._runs = runs
        self._gate = gate
        self._options = options

    async def models(self, request: Request) -> Response:
        """List the agents as models."""
        await self._gate.owner(request)
        return json_response({"object": "list", "data": [_model(name) for name in self._runs.agents]})

    async def model(self, request: Request) -> Response:
        """Show one agent as a model."""
        await self._gate.owner(request)
        name = request.path_params["model"]
        self._agent(name)
        return json_response(_model(name))

    async def complete(self, request: Request) -> Response:
        """Run an agent on a conversation, and answer with what it says."""
        owner = await self._gate.owner(request)
        given = convert(await read_json(request, self._options), ChatRequest, "request for a chat completion")
        agent = self._agent(given.model)
        given.check(self._options)
        messages = given.taken_messages(self._options)
        middleware: list[Any] = client_tools(given.described_tools(), [one.name for one in agent.tools])
        if not (settings := ClientSettings(given)).is_empty:
            middleware.append(settings)
        caller = Caller(owner=owner, agent=given.model, headers=request.headers)
        context = self._options.context(caller) if self._options.context is not None else caller
        done = Done()
        pieces = self._pieces(agent, owner, messages, {"context": context, "middleware": middleware}, done)
        try:
            if given.stream:
                first = await until_gone(request, anext(pieces))
                return self._streamed(given, first, pieces)
            return await until_gone(request, self._whole(given, pieces))
        except Refusal:
            raise
        except Exception as error:
            raise self._refusal(error, done) from error

    def _agent(self, name: str) -> Agent[Any]:
        agent = self._runs.stateless.get(name)
        if agent is None:
            text = f"the model {name!r:.80} does not exist here; GET /v1/models lists those that do"
            raise Refusal(404, "model_not_found", text, param="model")
        return agent

    async def _pieces(
        self, agent: Agent[Any], owner: str, messages: Any, options: dict[str, Any], done: "Done"
    ) -> AsyncGenerator[Piece, None]:
        """Yield what the agent says, and then how it ended.

        Nobody can be asked over this API: calls that need an approval are withdrawn, and the model reads that.
        """
        given: dict[str, Any] = {"prompt_or_messages": messages}
        async with self._runs.counted(owner):
            said = ""
            while True:
                async with agent.stream(**given, **options) as run:
                    async for event in run:
                        if isinstance(event, ToolCallStartEvent):
                            done.has_called = True
                        if isinstance(event, TextMessageContentEvent):
                            between = BETWEEN if said and event.message_id != said else ""
                            said = event.message_id
                            yield Piece(between + event.delta)
                    result = await run.result()
                calls = calls_of_client(result.interrupts)
                if result.status != "interrupted" or calls:
                    yield Piece(reason=result.finish_reason, calls=calls, usage=result.usage)
                    return
                answers = {one.id: Cancelled() for one in result.interrupts}
                given = {"resume": answers, "parent_run_id": result.checkpoint}

    async def _whole(self, given: ChatRequest, pieces: AsyncGenerator[Piece, None]) -> Response:
        parts: list[str] = []
        end = Piece()
        async with aclosing(pieces):
            async for piece in pieces:
                parts.append(piece.text)
                end = piece
        return json_response(Answer(given.model).whole("".join(parts), end), headers=given.left_out(self._options))

    def _streamed(self, given: ChatRequest, first: Piece, pieces: AsyncGenerator[Piece, None]) -> Response:
        @asynccontextmanager
        async def frames() -> AsyncIterator[AsyncIterator[bytes]]:
            async with aclosing(pieces):
                yield self._chunks(given, first, pieces)

        return EventStream(
            frames,
            heartbeat_s=self._options.heartbeat_s,
            send_timeout_s=self._options.send_timeout_s,
            headers=given.left_out(self._options),
        )

    async def _chunks(
        self, given: ChatRequest, first: Piece, pieces: AsyncGenerator[Piece, None]
    ) -> AsyncIterator[bytes]:
        answer = Answer(given.model)
        yield answer.chunk({"role": "assistant", "content": ""})
        piece = first
        try:
            while True:
                if piece.text:
                    yield answer.text_chunk(piece.text)
                if piece.reason is not None:
                    break
                piece = await anext(pieces)
        except Exception as error:
            yield b"data: %s\n\n" % to_json(self._refusal(error).body()).encode()
            return
        yield answer.end_chunk(piece)
        if given.tells_usage:
            yield answer.usage_chunk(piece.usage)
        yield DONE

    def _refusal(self, error: Exception, done: "Done | None" = None) -> Refusal:
        """Return what a client is told of what failed a run; the whole of it is logged."""
        code, status, public = classified(error)
        id = error_id("completion", id_of(error))
        logger.error("a completion failed (%s)", id, exc_info=error)
        shown = ShownError(kind="run", code=code, text=str(error), error_id=id, public=public)
        wait = getattr(error, "retry_after_s", None)
        headers = {"retry-after": str(max(1, round(wait)))} if wait is not None else {}
        if done is not None and done.has_called:
            headers["x-should-retry"] = "false"
        return Refusal(status, code, told(shown, self._options.show_error), headers=headers)


class Done:
    """What a run has done so far: once it *has_called* tools, OpenAI's SDKs are told not to do all that again."""

    has_called = False


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "interpose"}


async def until_gone(request: Request, work: Awaitable[T]) -> T:
    """Return what *work* gives; it is cancelled when its client goes away.

    Raises:
        Refusal: the client has gone; nobody reads it.
    """
    working = asyncio.ensure_future(_awaited(work))
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Refusal(499, "gone", "the client has gone")
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait([working, leaving])
    return working.result()


async def _awaited(work: Awaitable[T]) -> T:
    return await work


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
