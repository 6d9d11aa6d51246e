"""Layers round one model: their order, what each may leave out, leaving early, errors, bare models and agents."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from interpose import (
    Agent,
    ConfigurationError,
    Finish,
    HookError,
    Limits,
    Middleware,
    ModelChunk,
    ModelProfile,
    ModelRequest,
    ModelResponse,
    RunContext,
    TextDelta,
    UserMessage,
    tool,
)
from interpose.models import GenerateNext, LanguageModelMiddleware, Model, StreamNext, fold, wrap_model
from interpose.testing import ScriptedModel, calls, collect, fail, hang, make_request, make_response, text

ASK = make_request(UserMessage("go"), provider="scripted", model="scripted")


class Whole(ScriptedModel):
    """A model that gives whole answers too, and counts how often it is asked for one."""

    asked = 0

    async def generate(self, request: ModelRequest, /) -> ModelResponse:
        self.asked += 1
        return await fold(self.stream(request), request)


class Log(LanguageModelMiddleware):
    """Has every hook, and notes what is called."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def transform_params(self, request: ModelRequest) -> ModelRequest:
        self.log.append(f"{self.name}?")
        return request.append_instructions(self.name or "")

    async def wrap_generate(self, request: ModelRequest, call_next: GenerateNext) -> ModelResponse:
        self.log.append(f"{self.name}+")
        try:
            return await call_next(request)
        finally:
            self.log.append(f"{self.name}-")

    async def wrap_stream(self, request: ModelRequest, call_next: StreamNext) -> AsyncIterator[ModelChunk]:
        self.log.append(f"{self.name}+")
        try:
            async with aclosing(call_next(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self.log.append(f"{self.name}-")


async def whole(model: Model, request: ModelRequest = ASK) -> ModelResponse:
    return await model.generate(request)


async def streamed(model: Model, request: ModelRequest = ASK) -> ModelResponse:
    return await fold(model.stream(request), request)


BOTH = pytest.mark.parametrize("ask", [whole, streamed])
Ask = Callable[..., Any]


def layered(*turns: Any, kind: type[ScriptedModel] = ScriptedModel) -> tuple[Model, ScriptedModel, list[str]]:
    log: list[str] = []
    model = kind(*turns)
    return wrap_model(model, Log("a", log), Log("b", log)), model, log


@BOTH
async def test_first_listed_is_outermost_with_its_own_transformation(ask: Ask) -> None:
    model, inner, log = layered(text("hi"))
    assert (await ask(model)).text == "hi"
    assert log == ["a?", "a+", "b?", "b+", "b-", "a-"]
    assert inner.requests[0].instructions == "a\n\nb"


@BOTH
async def test_without_middleware_the_model_itself_comes_back(ask: Ask) -> None:
    model = ScriptedModel(text("hi"))
    assert wrap_model(model) is model
    assert (await ask(model)).text == "hi"


@BOTH
@pytest.mark.parametrize("kind", [ScriptedModel, Whole])
async def test_layer_that_only_transforms_leaves_both_ways_open(ask: Ask, kind: type[ScriptedModel]) -> None:
    class Colder(LanguageModelMiddleware):
        async def transform_params(self, request: ModelRequest) -> ModelRequest:
            return request.with_temperature(0.1)

    inner = kind(text("hi"))
    assert (await ask(wrap_model(inner, Colder()))).text == "hi"
    assert inner.requests[0].settings.temperature == 0.1


@BOTH
async def test_transformation_that_returns_nothing_changes_nothing(ask: Ask) -> None:
    class Looks(LanguageModelMiddleware):
        def transform_params(self, request: ModelRequest) -> None:
            pass

    inner = ScriptedModel(text("hi"))
    await ask(wrap_model(inner, Looks()))
    assert inner.requests == [ASK]


async def test_layer_that_does_not_go_on_answers_in_the_models_place() -> None:
    class Answers(LanguageModelMiddleware):
        def wrap_generate(self, request: ModelRequest, call_next: GenerateNext) -> ModelResponse:
            return make_response("mine")

        async def wrap_stream(self, request: ModelRequest, call_next: StreamNext) -> AsyncIterator[ModelChunk]:
            yield TextDelta("mine")
            yield Finish()

    inner = ScriptedModel()
    model = wrap_model(inner, Answers())
    assert ((await whole(model)).text, (await streamed(model)).text, inner.requests) == ("mine", "mine", [])


class OnlyWhole(LanguageModelMiddleware):
    async def wrap_generate(self, request: ModelRequest, call_next: GenerateNext) -> ModelResponse:
        return (await call_next(request)).with_text("changed")


class OnlyStream(LanguageModelMiddleware):
    async def wrap_stream(self, request: ModelRequest, call_next: StreamNext) -> AsyncIterator[ModelChunk]:
        async for chunk in call_next(request):
            yield TextDelta("changed") if isinstance(chunk, TextDelta) else chunk


async def test_stream_passes_a_layer_of_whole_answers_untouched() -> None:
    model = wrap_model(ScriptedModel(text("hi"), text("hi")), OnlyWhole())
    assert ((await streamed(model)).text, (await whole(model)).text) == ("hi", "changed")


async def test_whole_answer_of_a_model_that_has_them_passes_a_layer_of_streams_untouched() -> None:
    model = wrap_model(Whole(text("hi"), text("hi")), OnlyStream())
    assert ((await streamed(model)).text, (await whole(model)).text) == ("changed", "hi")


async def test_whole_answer_of_a_model_that_only_streams_passes_the_layer_of_streams() -> None:
    assert (await whole(wrap_model(ScriptedModel(text("hi")), OnlyStream()))).text == "changed"


@pytest.mark.parametrize(
    ("model", "layer", "own"),
    [
        (ScriptedModel(), OnlyStream(), False),
        (ScriptedModel(), OnlyWhole(), True),
        (Whole(), OnlyStream(), True),
    ],
    ids=["streams only", "streams, layer of whole answers", "gives whole answers"],
)
def test_generate_is_its_own_where_model_or_layer_has_it(model: Model, layer: Any, own: bool) -> None:
    assert (type(wrap_model(model, layer)).generate is not Model.generate) == own


class Bare:
    """A model that is no subclass of anything."""

    provider, name, profile = "bare", "bare", None

    async def generate(self, request: ModelRequest) -> ModelResponse:
        return make_response("bare")


@BOTH
async def test_model_with_whole_answers_alone_is_streamed_too(ask: Ask) -> None:
    log: list[str] = []
    bare: Any = Bare()
    assert (await ask(wrap_model(bare, Log("a", log)))).text == "bare"
    assert log == ["a?", "a+", "a-"]


class Counted:
    """An async iterator that is no generator, so it cannot be closed."""

    def __init__(self) -> None:
        self.left: list[ModelChunk] = [TextDelta("hi"), Finish()]

    def __aiter__(self) -> "Counted":
        return self

    async def __anext__(self) -> ModelChunk:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)


class Plain(Model):
    provider, name, profile = "plain", "plain", None

    def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        return Counted()


@BOTH
async def test_stream_that_is_no_generator_is_read_as_well(ask: Ask) -> None:
    log: list[str] = []
    assert (await ask(wrap_model(Plain(), Log("a", log)))).text == "hi"


def test_wrapped_model_goes_by_the_same_name_and_profile() -> None:
    inner = ScriptedModel(profile=ModelProfile(max_input_tokens=9), model="m", provider="p")
    model = wrap_model(inner, Log("a", []))
    assert (model.name, model.provider, model.profile) == ("m", "p", inner.profile)


async def test_hooks_may_be_plain_functions_that_hand_on() -> None:
    class HandsOn(LanguageModelMiddleware):
        def wrap_generate(self, request: ModelRequest, call_next: GenerateNext) -> Any:
            return call_next(request)

        def wrap_stream(self, request: ModelRequest, call_next: StreamNext) -> AsyncIterator[ModelChunk]:
            return call_next(request)

    model = wrap_model(ScriptedModel(text("1"), text("2")), HandsOn())
    assert ((await whole(model)).text, (await streamed(model)).text) == ("1", "2")


async def test_hook_may_be_async_and_return_the_stream() -> None:
    class Waits(LanguageModelMiddleware):
        async def wrap_stream(self, request: ModelRequest, call_next: StreamNext) -> Any:
            await asyncio.sleep(0)
            return call_next(request)

    assert (await streamed(wrap_model(ScriptedModel(text("hi")), Waits()))).text == "hi"


async def test_layer_may_call_the_rest_again() -> None:
    class Twice(LanguageModelMiddleware):
        async def wrap_generate(self, request: ModelRequest, call_next: GenerateNext) -> ModelResponse:
            await call_next(request)
            return await call_next(request)

    assert (await whole(wrap_model(ScriptedModel(text("1"), text("2")), Twice()))).text == "2"


async def test_one_layer_serves_many_calls_at_once() -> None:
    model, inner, _ = layered(*[text(str(n)) for n in range(9)])
    said = await asyncio.gather(*[streamed(model) for _ in range(9)])
    assert sorted(response.text for response in said) == [str(n) for n in range(9)]
    assert inner.open_streams == 0


# --- leaving, errors, cancellation ---


async def read_one(model: Model) -> None:
    async with aclosing(model.stream(ASK)) as chunks:  # type: ignore[type-var]  # a generator
        async for _ in chunks:
            break


async def test_leaving_early_closes_every_layer_and_the_model() -> None:
    model, inner, log = layered(text(chunks=("a", "b")))
    await read_one(model)
    assert (inner.open_streams, log[-2:]) == (0, ["b-", "a-"])


@pytest.mark.parametrize("kind", [ScriptedModel, Whole])
async def test_leaving_early_closes_what_a_careless_layer_left_open(kind: type[ScriptedModel]) -> None:
    inner = kind(text(chunks=("a", "b")))
    await read_one(wrap_model(inner, OnlyStream(), OnlyStream()))
    assert inner.open_streams == 0


async def test_layer_that_stops_early_closes_what_is_inside() -> None:
    class First(LanguageModelMiddleware):
        async def wrap_stream(self, request: ModelRequest, call_next: StreamNext) -> AsyncIterator[ModelChunk]:
            async for chunk in call_next(request):
                yield chunk
                break
            yield Finish("length")

    log: list[str] = []
    inner = ScriptedModel(text(chunks=("a", "b")))
    response = await streamed(wrap_model(inner, First(), Log("b", log)))
    assert (response.text, response.finish_reason, inner.open_streams, log[-1]) == ("a", "length", 0, "b-")


@BOTH
async def test_error_of_the_model_comes_out_unchanged(ask: Ask) -> None:
    error = RuntimeError("boom")
    model, _, log = layered(fail(error, after=("a",)))
    with pytest.raises(RuntimeError) as caught:
        await ask(model)
    assert (caught.value is error, log[-2:]) == (True, ["b-", "a-"])


@BOTH
async def test_cancellation_ends_every_layer(ask: Ask) -> None:
    model, inner, log = layered(hang(after=("a",)))
    task = asyncio.create_task(ask(model))
    await asyncio.sleep(0.01)
    assert inner.open_streams == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (inner.open_streams, log[-2:]) == (0, ["b-", "a-"])


@BOTH
async def test_layer_may_make_up_for_an_error(ask: Ask) -> None:
    class Other(LanguageModelMiddleware):
        async def wrap_generate(self, request: ModelRequest, call_next: GenerateNext) -> ModelResponse:
            try:
                return await call_next(request)
            except RuntimeError:
                return make_response("sorry")

        async def wrap_stream(self, request: ModelRequest, call_next: StreamNext) -> AsyncIterator[ModelChunk]:
            try:
                async for chunk in call_next(request):
                    yield chunk
            except RuntimeError:
                yield TextDelta("sorry")
                yield Finish()

    assert (await ask(wrap_model(ScriptedModel(fail(RuntimeError)), Other()))).text == "sorry"


# --- what is refused ---


class ForgetsWhole(LanguageModelMiddleware):
    async def wrap_generate(self, request: ModelRequest, call_next: GenerateNext) -> Any:
        await call_next(request)


class ForgetsStream(LanguageModelMiddleware):
    def wrap_stream(self, request: ModelRequest, call_next: StreamNext) -> Any:
        call_next(request)


class YieldsText(LanguageModelMiddleware):
    async def wrap_stream(self, request: ModelRequest, call_next: StreamNext) -> Any:
        async for _ in call_next(request):
            yield "text"


class TransformsToText(LanguageModelMiddleware):
    def transform_params(self, request: ModelRequest) -> Any:
        return "text"


class ChangesModel(LanguageModelMiddleware):
    def transform_params(self, request: ModelRequest) -> ModelRequest:
        return request.with_model(ScriptedModel())


@pytest.mark.parametrize(
    ("layer", "ask", "message"),
    [
        (ForgetsWhole(), whole, "ForgetsWhole.wrap_generate gave NoneType .* `return` forgotten"),
        (ForgetsStream(), streamed, "ForgetsStream.wrap_stream gave NoneType .* `return` forgotten"),
        (YieldsText(), streamed, "YieldsText.wrap_stream gave str .* expected chunks"),
        (TransformsToText(), whole, "TransformsToText.transform_params gave str .* expected a ModelRequest"),
        (ChangesModel(), streamed, "ChangesModel.transform_params chose another model"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, LanguageModelMiddleware) else "",
)
async def test_wrong_answer_of_a_hook_is_named(layer: Any, ask: Ask, message: str) -> None:
    inner = ScriptedModel(text("hi"))
    with pytest.raises(HookError, match=message):
        await ask(wrap_model(inner, layer))
    assert inner.open_streams == 0


class Misspelt(LanguageModelMiddleware):
    def wrap_streams(self, request: ModelRequest, call_next: StreamNext) -> Any: ...


@pytest.mark.parametrize(
    ("model", "layer", "message"),
    [
        (ScriptedModel(), Misspelt(), "did you mean 'wrap_stream'"),
        (ScriptedModel(), OnlyStream, "write an instance"),
        (ScriptedModel(), Middleware(), "LanguageModelMiddleware objects"),
        (object(), OnlyStream(), "takes a Model"),
        ("nobody:x", OnlyStream(), "names no model"),
    ],
    ids=["misspelt hook", "class", "middleware of an agent", "no model", "unknown name"],
)
def test_wrong_argument_is_refused(model: Any, layer: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        wrap_model(model, layer)


# --- in an agent ---


class Sees(Middleware):
    def __init__(self) -> None:
        self.instructions: list[str] = []

    async def wrap_model_call(self, ctx: RunContext, request: ModelRequest, call_next: Any) -> Any:
        self.instructions.append(request.instructions)
        return await call_next(request)


@pytest.mark.parametrize("kind", [ScriptedModel, Whole])
@pytest.mark.parametrize("way", ["run", "stream"])
async def test_layers_of_the_agent_see_the_request_before_and_the_model_the_one_after(
    kind: type[ScriptedModel], way: str
) -> None:
    model, inner, log = layered(text("hi"), kind=kind)
    sees = Sees()
    agent = Agent(model, instructions="I", middleware=[sees])
    if way == "run":
        said = (await agent.run("go")).text
    else:
        async with agent.stream("go") as run:
            said = (await run.result()).text
    assert (said, log) == ("hi", ["a?", "a+", "b?", "b+", "b-", "a-"])
    assert (sees.instructions, inner.requests[0].instructions) == (["I"], "I\n\na\n\nb")


async def test_stream_of_an_agent_goes_by_a_layer_of_whole_answers_only() -> None:
    agent = Agent(wrap_model(ScriptedModel(text("hi"), text("hi")), OnlyWhole()))
    async with agent.stream("go") as run:
        await collect(run)
        shown = (await run.result()).text
    assert (shown, (await agent.run("go")).text) == ("hi", "changed")


async def test_tools_run_between_two_calls_of_a_wrapped_model() -> None:
    @tool
    async def echo(x: str) -> str:
        """Say it again."""
        return x

    model, inner, _ = layered(calls(("echo", {"x": "a"})), text("done"))
    result = await Agent(model, tools=[echo]).run("go")
    assert (result.text, [message.role for message in inner.requests[1].messages]) == (
        "done",
        ["user", "assistant", "tool"],
    )


async def test_leaving_the_stream_of_a_run_closes_the_layers() -> None:
    model, inner, log = layered(hang(after=("a",)))
    async with Agent(model).stream("go") as run:
        async for event in run:
            if event.type == "TEXT_MESSAGE_CONTENT":
                break
    assert (inner.open_streams, log[-2:]) == (0, ["b-", "a-"])


async def test_dead_air_is_heard_through_layers() -> None:
    model, inner, _ = layered(hang(after=("a",)))
    result = await Agent(model, limits=Limits(dead_air_s=0.05)).run("go")
    assert (result.text, result.finish_reason, inner.open_streams) == ("a", "dead_air", 0)


def test_layer_without_a_hook_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no hook"):
        wrap_model(ScriptedModel(), LanguageModelMiddleware())


async def test_settings_about_tools_stay_behind_where_a_layer_leaves_none() -> None:
    class Bare(LanguageModelMiddleware):
        def transform_params(self, request: ModelRequest) -> ModelRequest:
            settings = request.settings.replace(tool_choice="required", parallel_tool_calls=True, max_tokens=9)
            return request.with_tools(()).replace(settings=settings)

    inner = ScriptedModel(text("ok"))
    await wrap_model(inner, Bare()).generate(ASK)
    sent = inner.requests[0].settings
    assert (sent.tool_choice, sent.parallel_tool_calls, sent.max_tokens) == (None, None, 9)
