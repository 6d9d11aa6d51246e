"""Durable runs while nothing is killed: what they give is what a plain run gives."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from interpose import Agent, ConfigurationError, Middleware, ProviderDown, RunAborted, ToolContext, UserMessage, tool
from interpose.durable.dbos import DBOSAgents, RecordedError
from interpose.messages import ToolResult
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, assert_events_valid, calls, collect, event_types, fail, hang, text

Launch = Callable[..., Any]


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def adding() -> Agent[Any]:
    turns = [calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}), text="Let me see."), text("Three and seven.")]
    return Agent(ScriptedModel(*turns * 2), tools=[add])


async def test_durable_run_gives_what_a_plain_one_gives(launch: Launch) -> None:
    plain = await adding().run("add", run_id="r1", thread_id="thread-r1")
    durable = await (await launch({"a": adding()})).run("a", "add", run_id="r1")
    same = ("text", "output", "finish_reason", "status", "interrupts", "run_id", "thread_id", "usage")
    assert [getattr(durable, name) for name in same] == [getattr(plain, name) for name in same]
    assert [one.text for one in durable.messages] == [one.text for one in plain.messages]
    assert [one.text for one in durable.new_messages] == [one.text for one in plain.new_messages]
    assert [[one.data for one in step.tool_results] for step in durable.steps] == [[3, 7], []]


async def test_streamed_run_has_the_events_of_a_plain_one(launch: Launch) -> None:
    plain = await collect(adding().stream("add"))
    agents = await launch({"a": adding()})
    async with agents.stream("a", "add") as run:
        events = [event async for event in run]
        result = await run.result()
    assert event_types(events) == event_types(plain)
    assert_events_valid(events)
    assert result.text == "Three and seven."


async def test_reader_who_leaves_does_not_end_the_run(launch: Launch) -> None:
    agents = await launch({"a": adding()})
    async with agents.stream("a", "add", run_id="r1") as run:
        async for _ in run:
            break
    assert (await agents.handle("r1").result()).text == "Three and seven."


async def test_failed_stream_raises_after_its_last_event(launch: Launch) -> None:
    agents = await launch({"a": Agent(ScriptedModel(fail(ProviderDown("away", provider="p"))))})
    async with agents.stream("a", "go") as run:
        with pytest.raises(ProviderDown):
            async for _ in run:
                pass
        with pytest.raises(ProviderDown):
            await run.result()


async def test_same_id_and_input_is_the_same_run(launch: Launch) -> None:
    agents = await launch({"a": Agent(ScriptedModel(text("once")))})
    handles = [await agents.submit("a", "go", run_id="r1") for _ in range(3)]
    assert [(await one.result()).text for one in handles] == ["once"] * 3
    assert (await agents.run("a", [UserMessage("go")], run_id="r1")).text == "once"


@pytest.mark.parametrize(
    ("agent", "prompt", "options"),
    [("a", "other", {}), ("b", "go", {}), ("a", "go", {"context": 1}), ("a", "go", {"thread_id": "t"})],
    ids=["prompt", "agent", "context", "thread"],
)
async def test_same_id_with_another_input_is_refused(
    launch: Launch, agent: str, prompt: str, options: dict[str, Any]
) -> None:
    agents = await launch({"a": Agent(ScriptedModel(text("x"))), "b": Agent(ScriptedModel(text("x")))})
    await agents.submit("a", "go", run_id="r1")
    with pytest.raises(ConfigurationError, match="run 'r1' was submitted before with another input"):
        await agents.submit(agent, prompt, run_id="r1", **options)


async def test_stream_of_a_run_that_was_there_is_refused(launch: Launch) -> None:
    agents = await launch({"a": Agent(ScriptedModel(text("x")))})
    await agents.run("a", "go", run_id="r1")
    with pytest.raises(ConfigurationError, match="run 'r1' was started before"):
        async with agents.stream("a", "go", run_id="r1"):
            pass


class Odd(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@pytest.mark.parametrize(
    ("error", "given", "expected"),
    [
        (ProviderDown("away", provider="p", status_code=503, retry_after_s=2.0), (), ProviderDown),
        (ValueError("no"), (), ValueError),
        (Odd(7), (), RecordedError),
        (Odd(7), (Odd,), Odd),
    ],
    ids=["library", "python", "unknown", "listed"],
)
async def test_failure_comes_back_as_its_class_with_what_was_done(
    launch: Launch, error: Exception, given: Any, expected: type[Exception]
) -> None:
    turns = [calls(("add", {"a": 1, "b": 2})), fail(error)]
    agents = await launch({"a": Agent(ScriptedModel(*turns), tools=[add])}, errors=given)
    handle = await agents.submit("a", "go")
    with pytest.raises(expected) as caught:
        await handle.result()
    assert type(caught.value) is expected
    assert {**vars(error), "partial": 0}.items() <= {
        **vars(caught.value),
        "partial": 0,
    }.items() or expected is RecordedError
    partial: Any = getattr(caught.value, "partial", None)
    assert [one.data for one in partial.steps[0].tool_results] == [3]
    assert await handle.status() == "failed"


async def test_cancelled_run_is_aborted_and_its_hook_is_called(launch: Launch) -> None:
    seen: list[str] = []
    began = asyncio.Event()

    class Watch(Middleware[Any]):
        def on_step(self, ctx: Any, info: Any) -> None:
            began.set()

        def on_abort(self, ctx: Any, info: Any) -> None:
            seen.append(info.reason)

    agents = await launch({"a": Agent(ScriptedModel(hang()), middleware=[Watch()])})
    handle = await agents.submit("a", "go")
    await began.wait()
    assert await handle.status() == "running"
    await handle.cancel()
    with pytest.raises(RunAborted, match="cancelled"):
        await handle.result()
    assert await handle.status() == "cancelled"
    async with asyncio.timeout(5):
        while not seen:  # noqa: ASYNC110  # the hook has nobody to tell
            await asyncio.sleep(0.01)
    await handle.cancel()


async def test_queued_run_that_is_cancelled_never_begins(launch: Launch) -> None:
    model = ScriptedModel(hang(), text("x"))
    agents = await launch({"a": Agent(model)}, worker_concurrency=1)
    first = await agents.submit("a", "first")
    while not model.requests:  # noqa: ASYNC110  # the model has nobody to tell
        await asyncio.sleep(0.01)
    second = await agents.submit("a", "second")
    assert await second.status() == "queued"
    await second.cancel()
    await first.cancel()
    with pytest.raises(RunAborted):
        await second.result()
    assert len(model.requests) == 1


async def test_process_that_is_no_worker_takes_no_runs(launch: Launch) -> None:
    agents = await launch({"a": Agent(ScriptedModel(text("x")))}, worker=False)
    handle = await agents.submit("a", "go")
    await asyncio.sleep(1.5)
    assert await handle.status() == "queued"


async def test_worker_takes_as_many_runs_at_once_as_it_may(launch: Launch) -> None:
    at_once: list[int] = [0, 0]

    class Count(Middleware[Any]):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            at_once[0] += 1
            at_once[1] = max(at_once)
            await asyncio.sleep(0.1)
            at_once[0] -= 1
            return await call_next(request)

    agents = await launch({"a": Agent(ScriptedModel(*[text("x")] * 6), middleware=[Count()])}, worker_concurrency=2)
    await asyncio.gather(*[agents.run("a", "go") for _ in range(6)])
    assert at_once[1] == 2


@dataclass
class City:
    name: str


async def test_output_comes_back_typed(launch: Launch) -> None:
    agents = await launch({"a": Agent(ScriptedModel(text('{"name": "Lyon"}')), output=City)})
    assert (await agents.run("a", "go")).output == City("Lyon")


async def test_context_is_made_of_the_json_that_was_given(launch: Launch) -> None:
    @tool
    def who(ctx: ToolContext[City]) -> str:
        """Say where we are."""
        return ctx.context.name

    agent: Agent[Any] = Agent(ScriptedModel(calls(("who", {})), text("x")), tools=[who])
    agents = await launch({"a": agent}, make_context=lambda data: City(**data))
    result = await agents.run("a", "go", context={"name": "Lyon"})
    assert result.steps[0].tool_results[0].data == "Lyon"


async def test_tool_result_that_is_no_json_is_saved_as_its_text(launch: Launch) -> None:
    @tool
    def odd() -> Any:
        """Give something odd."""
        return {1: object, "__type__": "os.system"}

    agents = await launch({"a": Agent(ScriptedModel(calls(("odd", {})), text("x")), tools=[odd])})
    result = await agents.run("a", "go")
    assert isinstance(result.steps[0].tool_results[0], ToolResult)
    assert "os.system" in result.steps[0].tool_results[0].text


async def test_thread_of_a_store_goes_on(launch: Launch) -> None:
    store = MemoryStore()
    agents = await launch({"a": Agent(ScriptedModel(text("one"), text("two")), store=store)})
    await agents.run("a", "first", thread_id="t")
    result = await agents.run("a", "second", thread_id="t")
    assert [one.text for one in result.messages] == ["first", "one", "second", "two"]
    assert [one.text for one in await store.load("t")] == ["first", "one", "second", "two"]


async def test_agents_of_the_process_are_left_as_they_are(launch: Launch) -> None:
    agent = adding()
    await launch({"a": agent})
    assert (await agent.run("add")).text == "Three and seven."


async def test_loop_works_on_after_the_end(launch: Launch) -> None:
    agents: DBOSAgents = await launch({"a": Agent(ScriptedModel(text("x")))})
    await agents.run("a", "go")
    await agents.aclose()
    await agents.aclose()
    assert await asyncio.to_thread(lambda: 1) == 1
