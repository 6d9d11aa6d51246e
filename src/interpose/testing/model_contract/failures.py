"""Claims about what goes wrong: refusals, errors inside a stream, cut and silent connections, readers who leave."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from types import AsyncGeneratorType
from typing import Any

from interpose.agent import Agent
from interpose.errors import (
    AuthFailed,
    BadRequest,
    ConfigurationError,
    ContextTooLong,
    ModelTimeout,
    ProviderDown,
    ProviderError,
    RateLimited,
)
from interpose.limits import Limits
from interpose.models.base import Model, TextDelta, fold
from interpose.models.guard import refuse_real_calls
from interpose.request import ModelRequest
from interpose.testing.model_contract.claims import claim, request_of
from interpose.testing.model_contract.stage import Answer, Call, Refusal, Said, Stage

Ask = Callable[[Model, ModelRequest], Awaitable[Any]]
WAYS: tuple[Ask, ...] = (
    lambda model, request: fold(model.stream(request)),
    lambda model, request: model.generate(request),
)


async def _failure(act: Awaitable[Any]) -> ProviderError:
    """Return the error that *act* must raise, a `ProviderError` that says something."""
    came: Any = (await asyncio.gather(act, return_exceptions=True))[0]
    assert isinstance(came, ProviderError), f"expected a ProviderError, got {came!r}"
    assert str(came)
    return came


@claim("remote")
async def refusals_are_told_apart(stage: Stage) -> None:
    for kind in (RateLimited, ContextTooLong, AuthFailed, BadRequest, ProviderDown):
        for ask in WAYS:
            stage.play(Refusal(kind=kind, message="no luck today"))
            error = await _failure(ask(stage.model, request_of(stage)))
            assert type(error) is kind
            assert (error.provider, error.model) == (stage.model.provider, stage.model.name)
            assert error.retryable is (kind in (RateLimited, ProviderDown))
            assert error.status_code is not None
            assert stage.model.provider in str(error)
            assert "no luck today" in str(error)


@claim("remote")
async def nothing_is_tried_again_unseen(stage: Stage) -> None:
    for count, kind in enumerate((ProviderDown, RateLimited), 1):
        stage.play(Refusal(kind=kind, retry_after="0"))
        await _failure(stage.model.generate(request_of(stage)))
        assert len(stage.heard) == count


@claim("retry_after")
async def the_wait_that_is_asked_for_is_told(stage: Stage) -> None:
    soon = formatdate(time.time() + 100, usegmt=True)
    for told, low, high in (("7", 7, 7), ("0", 0, 0), (soon, 90, 100), (formatdate(5, usegmt=True), 0, 0)):
        for ask in WAYS:
            stage.play(Refusal(kind=RateLimited, retry_after=told))
            error = await _failure(ask(stage.model, request_of(stage)))
            assert error.retry_after_s is not None
            assert low <= error.retry_after_s <= high


@claim("remote")
async def a_wait_that_makes_no_sense_is_none(stage: Stage) -> None:
    for told in ("soon", "-1", "nan", "", None):
        stage.play(Refusal(kind=RateLimited, retry_after=told))
        assert (await _failure(stage.model.generate(request_of(stage)))).retry_after_s is None


@claim("request_ids")
async def the_request_is_named(stage: Stage) -> None:
    for ask in WAYS:
        stage.play(Refusal(kind=ProviderDown, request_id="req_42"))
        assert (await _failure(ask(stage.model, request_of(stage)))).request_id == "req_42"


@claim("remote")
async def an_error_inside_the_stream_comes_after_the_text(stage: Stage) -> None:
    stage.play(Refusal(kind=ProviderDown, message="too busy", after="he"))
    stream = stage.model.stream(request_of(stage))
    texts: list[str] = []
    error = await _failure(_read(stream, texts))
    assert texts == ["he"]
    assert isinstance(error, ProviderDown)
    assert "too busy" in str(error)
    assert (error.provider, error.model) == (stage.model.provider, stage.model.name)


@claim("remote")
async def an_agent_keeps_what_was_said_before_the_error(stage: Stage) -> None:
    stage.play(Refusal(kind=ProviderDown, after="he"))
    async with Agent(stage.model).stream("hi") as run:
        error = await _failure(run.result())
    assert error.partial is not None
    assert error.partial.text == "he"


@claim("remote")
async def a_cut_connection_is_an_outage(stage: Stage) -> None:
    for parts in ((Said("half a"),), (Call("call_1", "population", '{"city": "Lyon"}'),), ()):
        stage.play(Answer(parts=parts, ends="cut"))
        error = await _failure(fold(stage.model.stream(request_of(stage))))
        assert error.retryable


@claim()
async def an_end_without_a_reason_is_a_cut(stage: Stage) -> None:
    for parts in ((Said("half a"),), (Call("call_1", "population", '{"city": "Lyon"}'),), ()):
        stage.play(Answer(parts=parts, ends="unfinished"))
        error = await _failure(fold(stage.model.stream(request_of(stage))))
        assert error.retryable


@claim("remote")
async def leaving_early_closes_the_connection(stage: Stage) -> None:
    stage.play(Answer(parts=(Said("he"),), ends="silent"))
    stream: Any = stage.model.stream(request_of(stage))
    async for chunk in stream:
        if isinstance(chunk, TextDelta):
            break
    await stream.aclose()
    await stage.left()


@claim("remote")
async def leaving_early_leaves_no_generator_behind(stage: Stage) -> None:
    stage.play(Answer(), Answer(parts=(Said("he"),), ends="silent"))
    await fold(stage.model.stream(request_of(stage)))  # what a client keeps for later is there now
    before = set(map(id, _generators()))
    stream: Any = stage.model.stream(request_of(stage))
    async for chunk in stream:
        if isinstance(chunk, TextDelta):
            break
    await stream.aclose()
    assert [one for one in _generators() if id(one) not in before and one is not stream] == []
    await stage.left()


@claim("remote")
async def cancelling_closes_the_connection(stage: Stage) -> None:
    stage.play(Answer(parts=(Said("he"),), ends="silent"))
    stream: Any = stage.model.stream(request_of(stage))
    async for chunk in stream:
        if isinstance(chunk, TextDelta):
            break
    task = asyncio.ensure_future(_read(stream, []))
    await asyncio.sleep(0.02)  # it waits for the server, which is silent
    task.cancel()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
    await stage.left()


@claim("remote")
async def an_agent_that_is_left_closes_the_connection(stage: Stage) -> None:
    stage.play(Answer(parts=(Said("he"),), ends="silent"))
    async with Agent(stage.model).stream("hi") as run:
        async for event in run:
            if event.type == "TEXT_MESSAGE_CONTENT":
                break
    await stage.left()


@claim("remote")
async def a_silent_model_is_cut_and_left(stage: Stage) -> None:
    stage.play(Answer(), Answer(parts=(Said("he"),), ends="silent"))
    await Agent(stage.model).run("hi")  # the first call of a client takes its time
    result = await Agent(stage.model, limits=Limits(dead_air_s=1.0)).run("hi")
    assert (result.finish_reason, result.text) == ("dead_air", "he")
    await stage.left()


@claim("remote")
async def a_model_that_takes_too_long_is_cut_and_left(stage: Stage) -> None:
    stage.play(Answer(), Answer(parts=(Said("he"),), ends="silent"))
    await Agent(stage.model).run("hi")  # the first call of a client takes its time
    async with Agent(stage.model, limits=Limits(model_timeout_s=1.0)).stream("hi") as run:
        assert isinstance(await _failure(run.result()), ModelTimeout)
    await stage.left()


@claim("remote")
async def a_model_works_on_after_a_failure(stage: Stage) -> None:
    stage.play(Answer(parts=(Said("he"),), ends="cut"), Refusal(kind=ProviderDown), Answer(parts=(Said("there"),)))
    for _ in range(2):
        await _failure(fold(stage.model.stream(request_of(stage))))
    assert (await fold(stage.model.stream(request_of(stage)))).text == "there"


@claim("remote")
async def a_server_that_is_not_there_is_an_outage(stage: Stage) -> None:
    for ask in WAYS:
        error = await _failure(ask(stage.unreachable(), request_of(stage)))
        assert isinstance(error, ProviderDown)
        assert error.retryable


@claim("remote")
async def calls_can_be_forbidden(stage: Stage) -> None:
    with refuse_real_calls():
        for ask in WAYS:
            came: Any = (await asyncio.gather(ask(stage.model, request_of(stage)), return_exceptions=True))[0]
            assert isinstance(came, ConfigurationError)


def _generators() -> list[Any]:
    """Return the asynchronous generators of this process that wait, half read."""
    return [one for one in gc.get_objects() if type(one) is AsyncGeneratorType and one.ag_frame is not None]


async def _read(stream: Any, texts: list[str]) -> None:
    """Read *stream* to its end, and keep its texts."""
    async for chunk in stream:
        if isinstance(chunk, TextDelta):
            texts.append(chunk.text)


__all__: list[str] = []  # its claims are found in MODEL_CONTRACT
