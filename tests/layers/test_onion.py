"""The list of middleware is an onion round the model call: first listed is outermost, and one shape for all seams."""

import asyncio
from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, roles

from interpose import HookError, Middleware, MiddlewareStack, ModelResponse
from interpose.testing import ScriptedModel, calls, fail, hang, make_response, text


class Layer(Middleware):
    def __init__(self, name: str, log: list[Any]) -> None:
        self.name = name
        self.log = log

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        self.log.append(f"{self.name}+")
        response = await call_next(request)
        self.log.append(f"{self.name}-")
        return response


class Full(Layer):
    def before_model_call(self, ctx: Any, request: Any) -> None:
        self.log.append(f"{self.name}.before")

    async def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
        self.log.append(f"{self.name}.after")

    def before_tool_call(self, ctx: Any, call: Any) -> None:
        self.log.append(f"{self.name}.before_tool")

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        self.log.append(f"{self.name}.tool+")
        result = await call_next(call)
        self.log.append(f"{self.name}.tool-")
        return result

    def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
        self.log.append(f"{self.name}.after_tool")

    async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
        self.log.append(f"{self.name}.run+")
        result = await call_next()
        self.log.append(f"{self.name}.run-")
        return result


class Piped(Middleware):
    def __init__(self, name: str, log: list[Any]) -> None:
        self.name = name
        self.log = log

    def on_start(self, ctx: Any) -> None:
        self.log.append(f"{self.name}.start")

    def on_config(self, ctx: Any, config: Any) -> Any:
        self.log.append(f"{self.name}.config.{ctx.phase}")
        return config.replace(instructions=config.instructions + self.name)

    def on_step(self, ctx: Any, info: Any) -> None:
        self.log.append(f"{self.name}.step{info.step}")

    def on_finish(self, ctx: Any, info: Any) -> None:
        self.log.append(f"{self.name}.finish")


async def test_layers_enter_in_list_order_and_leave_in_reverse() -> None:
    def make(log: list[Any]) -> Any:
        def answer(request: Any) -> Any:
            log.append("model")
            return text("r")

        return agent_of(answer, middleware=[Layer(name, log) for name in "abc"])

    played = await both(make)
    assert played.log == ["a+", "b+", "c+", "model", "c-", "b-", "a-"]
    assert played.result.text == "r"


async def test_an_agent_without_middleware_answers_just_the_same() -> None:
    played = await both(lambda log: agent_of(text("x")))
    assert played.result.text == "x"
    assert roles(played.result.messages) == ["user", "assistant"]


async def test_a_layer_that_answers_keeps_everything_inside_it_out() -> None:
    def make(log: list[Any]) -> Any:
        async def answers(ctx: Any, request: Any, call_next: Any) -> Any:
            log.append("outer+")
            response = request.answer("mine")
            log.append("outer-")
            return response

        return agent_of(text("model"), middleware=[answers, Layer("inner", log)])

    played = await both(make)
    assert played.log == ["outer+", "outer-"]
    assert played.requests == []
    assert played.result.text == "mine"


async def test_a_changed_response_is_what_is_said_stored_and_kept_as_step() -> None:
    async def shout(ctx: Any, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        return response.with_text(response.text.upper())

    result = (await both(lambda log: agent_of(text("oi"), middleware=[shout]))).result
    assert [result.text, result.messages[-1].text, result.steps[0].response.text] == ["OI", "OI", "OI"]


async def test_the_models_exception_comes_out_unchanged_through_a_layer() -> None:
    boom = RuntimeError("boom")
    played = await both(lambda log: agent_of(fail(boom), middleware=[Layer("a", log)]))
    assert played.error is boom
    assert played.log == ["a+"]
    assert played.end == "on_error"


async def test_befores_run_first_to_last_and_afters_last_to_first() -> None:
    class Hooks(Middleware):
        def __init__(self, name: str, log: list[Any]) -> None:
            self.name, self.log = name, log

        def before_model_call(self, ctx: Any, request: Any) -> None:
            self.log.append(f"{self.name}.before")

        def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
            self.log.append(f"{self.name}.after")

    played = await both(lambda log: agent_of(text("x"), middleware=[Hooks("a", log), Hooks("b", log)]))
    assert played.log == ["a.before", "b.before", "b.after", "a.after"]


async def test_every_onion_of_a_tool_step_has_the_same_order() -> None:
    def make(log: list[Any]) -> Any:
        return agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[Full(n, log) for n in "ABC"])

    log = (await both(make)).log
    model = [
        *[s for n in "ABC" for s in (f"{n}.before", f"{n}+")],
        *[s for n in "CBA" for s in (f"{n}-", f"{n}.after")],
    ]
    tool = [
        *[s for n in "ABC" for s in (f"{n}.before_tool", f"{n}.tool+")],
        *[s for n in "CBA" for s in (f"{n}.tool-", f"{n}.after_tool")],
    ]
    assert log == ["A.run+", "B.run+", "C.run+", *model, *tool, *model, "C.run-", "B.run-", "A.run-"]


async def test_piped_hooks_run_in_order_and_terminal_hooks_in_reverse() -> None:
    played = await both(lambda log: agent_of(text("x"), middleware=[Piped("A", log), Piped("B", log)]))
    assert played.log == [
        "A.config.init", "B.config.init", "A.start", "B.start", "A.step0", "B.step0",
        "A.config.before_model", "B.config.before_model", "B.finish", "A.finish",
    ]  # fmt: skip
    assert played.requests[0].instructions == "ABAB"


async def test_a_middleware_takes_part_only_in_the_seam_that_it_overrides() -> None:
    class OnlyAfter(Middleware):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
            self.log.append("after_tool")

    played = await both(
        lambda log: agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[OnlyAfter(log)])
    )
    assert played.log == ["after_tool"]
    lines = [line for line in str(played.agent.explain()).splitlines() if "OnlyAfter" in line]
    seams = [line for line in lines if "_model_call" in line or "on_" in line or "wrap_run" in line]
    assert lines
    assert seams == []


def test_use_of_a_stack_returns_the_stack() -> None:
    stack = MiddlewareStack()
    assert stack.use(Layer("x", [])) is stack
    assert stack.use(Layer("y", [])) is stack


async def test_a_stack_keeps_what_was_used_first_outermost() -> None:
    def make(log: list[Any]) -> Any:
        return agent_of(text("r"), middleware=MiddlewareStack().use(Layer("x", log)).use(Layer("y", log)))

    assert (await both(make)).log == ["x+", "y+", "y-", "x-"]


async def test_a_plain_async_function_is_a_layer_at_its_place() -> None:
    def make(log: list[Any]) -> Any:
        async def plain(ctx: Any, request: Any, call_next: Any) -> Any:
            log.append("f+")
            response = await call_next(request)
            log.append("f-")
            return response

        return agent_of(text("r"), middleware=[Layer("a", log), plain, Layer("b", log)])

    assert (await both(make)).log == ["a+", "f+", "b+", "b-", "f-", "a-"]


async def test_a_factory_is_awaited_once_for_runs_one_after_and_beside_the_other() -> None:
    made: list[int] = []
    log: list[Any] = []

    async def factory() -> list[Any]:
        await asyncio.sleep(0)
        made.append(1)
        return [Layer("a", log)]

    agent = agent_of(text("1"), text("2"), text("3"), middleware=factory)
    await asyncio.gather(agent.run("a"), agent.run("b"))
    await agent.run("c")
    assert made == [1]
    assert log.count("a+") == 3


async def test_a_string_from_a_layer_is_a_hook_error_that_names_everything() -> None:
    class Stringly(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return "hello"

    message = str((await both(lambda log: agent_of(text("x"), middleware=[Stringly()]))).error)
    for word in ("Stringly", "wrap_model_call", "str", "ModelResponse"):
        assert word in message


@pytest.mark.parametrize("seam", ["wrap_model_call", "wrap_tool_call"])
async def test_forgetting_to_return_is_said_in_so_many_words(seam: str) -> None:
    async def forgets(self: Any, ctx: Any, value: Any, call_next: Any) -> None:
        await call_next(value)

    kind: Any = type("Forgetful", (Middleware,), {seam: forgets})
    played = await both(lambda log: agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[kind()]))
    assert isinstance(played.error, HookError)
    assert "return" in str(played.error)
    assert "Forgetful" in str(played.error)
    assert seam in str(played.error)


async def test_a_layer_that_raises_fails_the_run_before_the_model_is_called() -> None:
    class Refuses(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            raise PermissionError("not today")

    played = await both(lambda log: agent_of(text("x"), middleware=[Refuses()]))
    assert isinstance(played.error, PermissionError)
    assert played.requests == []
    assert played.end == "on_error"


async def test_interleaved_runs_do_not_count_each_others_call_next() -> None:
    agent = agent_of(*[text("x")] * 20, middleware=[Layer("a", []), Layer("b", [])])
    results = await asyncio.gather(*[agent.run(str(n)) for n in range(20)])
    assert [result.text for result in results] == ["x"] * 20


async def test_private_state_counts_the_passes_of_one_run() -> None:
    class Counts(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            mine = ctx.private(self)
            mine["passes"] = mine.get("passes", 0) + 1
            return await call_next(request)

        def on_finish(self, ctx: Any, info: Any) -> None:
            seen.append(ctx.private(self)["passes"])

    seen: list[int] = []
    agent = agent_of(*[calls(("echo", {"x": "1"})), calls(("echo", {"x": "2"})), text("x")] * 2, tools=[echo],
                     middleware=[Counts()])  # fmt: skip
    await agent.run("a")
    await agent.run("b")
    assert seen == [3, 3]


async def test_a_def_hook_may_return_call_next_unawaited() -> None:
    class Plain(Middleware):
        def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return call_next(request)

        def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            return call_next(call)

    played = await both(
        lambda log: agent_of(calls(("echo", {"x": "1"})), text("x"), tools=[echo], middleware=[Plain()])
    )
    assert played.result.text == "x"


async def test_an_inner_wrap_is_left_out_where_its_own_before_answers_but_its_after_runs() -> None:
    class Answers(Middleware):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def before_model_call(self, ctx: Any, request: Any) -> Any:
            self.log.append("before")
            return make_response("mine")

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            self.log.append("wrap")
            return await call_next(request)

        def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
            self.log.append(f"after {response.text}")

    def make(log: list[Any]) -> Any:
        return agent_of(text("model"), middleware=[Layer("outer", log), Answers(log), Layer("inner", log)])

    played = await both(make)
    assert played.log == ["outer+", "before", "after mine", "outer-"]
    assert played.requests == []


async def test_cancelling_the_caller_unwinds_every_layer_and_says_so() -> None:
    log: list[str] = []

    class Cleans(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                return await call_next(request)
            except Exception:
                log.append("swallowed")
                raise
            finally:
                log.append(f"{self.name} left")

        def on_abort(self, ctx: Any, info: Any) -> None:
            log.append(f"{self.name} abort")

    agent = agent_of(hang(), middleware=[Cleans("a"), Cleans("b")])
    task = asyncio.create_task(agent.run("x"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["b left", "a left", "b abort", "a abort"]


async def test_a_model_of_ones_own_needs_stream_alone() -> None:
    class Mine:
        provider, name, profile = "mine", "m", None

        async def stream(self, request: Any) -> Any:
            from interpose import Finish, TextDelta

            yield TextDelta("hi")
            yield Finish()

    played = await both(lambda log: agent_of(model=Mine()))
    assert played.result.text == "hi"


def test_a_made_up_response_needs_only_its_message() -> None:
    response = make_response("x")
    assert ModelResponse(response.message).finish_reason == "stop"


async def test_one_scripted_model_serves_both_ways_alike() -> None:
    model = ScriptedModel(text("a"), text("a"))
    agent = agent_of(model=model)
    first = await agent.run("go")
    async with agent.stream("go") as run:
        second = await run.result()
    assert first.text == second.text
