"""Every span ends, whatever ends the run, and says what was used and how it ended."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.telemetry.memory import Memory, attributes, is_error

from interpose import (
    Abort,
    Agent,
    Approved,
    End,
    LimitExceeded,
    Limits,
    Middleware,
    ProviderDown,
    RunAborted,
    Usage,
    UsageUpdate,
    tool,
)
from interpose.telemetry import OpenTelemetry
from interpose.testing import ScriptedModel, calls, collect, fail, hang, text

USED = Usage(10, 12)
RUN, MODEL = "invoke_agent agent", "chat scripted"


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return where


def agent_of(memory: Memory, *turns: Any, **options: Any) -> Agent[Any]:
    middleware = [*options.pop("more", ()), memory.telemetry()]
    return Agent(ScriptedModel(*turns), middleware=middleware, post_model_hooks=(), **options)


def told(memory: Memory, span: str = RUN) -> tuple[Any, ...]:
    """How the run came out, by its span: outcome, finish reason, error, and its tokens in and out."""
    given = attributes(memory.named(span))
    names = ("outcome", "finish_reason", "usage.input_tokens", "usage.output_tokens")
    outcome, reason, read, said = [given.get(f"interpose.{name}") for name in names]
    return outcome, reason, given.get("error.type"), read, said


async def played(agent: Agent[Any], way: str, expected: type[BaseException] | None = None) -> None:
    """Run or stream *agent* to its end, which raises *expected*."""
    with nullcontext() if expected is None else pytest.raises(expected):
        if way == "run":
            await agent.run("go")
        else:
            async with agent.stream("go") as run:
                await collect(run)
                await run.result()


ASKS = calls(("look", {"where": "x"}), usage=USED)


class Aborts(Middleware):
    async def on_step(self, ctx: Any, info: Any) -> None:
        if info.step == 1:
            ctx.abort("enough")


class AbortsInTool(Middleware):
    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        return Abort("no more")


class Ends(Middleware):
    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        return End("that is all")


class Breaks(Middleware):
    def on_step(self, ctx: Any, info: Any) -> None:
        if info.step == 1:
            raise ValueError("a bug")


class BreaksAtOnce(Middleware):
    def setup(self, ctx: Any) -> None:
        raise ValueError("a bug")


WAYS = pytest.mark.parametrize("way", ["run", "stream"])
CASES: dict[str, tuple[Any, type[BaseException] | None, tuple[Any, ...]]] = {
    "finished": (lambda m: agent_of(m, text("x", usage=USED)), None, ("finished", "stop", None, 10, 12)),
    "abort": (
        lambda m: agent_of(m, ASKS, text("x"), tools=[look], more=[Aborts()]),
        RunAborted,
        ("aborted", "cancelled", "RunAborted", 10, 12),
    ),
    "abort in a tool": (
        lambda m: agent_of(m, ASKS, tools=[look], more=[AbortsInTool()]),
        RunAborted,
        ("aborted", "cancelled", "RunAborted", 10, 12),
    ),
    "end": (
        lambda m: agent_of(m, ASKS, tools=[look], more=[Ends()]),
        None,
        ("finished", "stop", None, 10, 12),
    ),
    "error": (
        lambda m: agent_of(m, ASKS, tools=[look], more=[Breaks()]),
        ValueError,
        ("failed", "error", "ValueError", 10, 12),
    ),
    "error in setup": (
        lambda m: agent_of(m, more=[BreaksAtOnce()]),
        ValueError,
        ("failed", "error", "ValueError", None, None),
    ),
    "provider": (
        lambda m: agent_of(m, ASKS, fail(ProviderDown("the line is dead")), tools=[look]),
        ProviderDown,
        ("failed", "error", "ProviderDown", 10, 12),
    ),
    "limit, stop": (
        lambda m: agent_of(m, ASKS, ASKS, tools=[look], limits=Limits(max_model_calls=1)),
        None,
        ("finished", "limit", None, 10, 12),
    ),
    "limit, raise": (
        lambda m: agent_of(m, ASKS, ASKS, tools=[look], limits=Limits(max_model_calls=1, on_exceeded="raise")),
        LimitExceeded,
        ("failed", "error", "LimitExceeded", 10, 12),
    ),
    "out of time": (
        lambda m: agent_of(m, ASKS, hang(), tools=[look], limits=Limits(max_duration_s=0.05)),
        None,
        ("finished", "limit", None, 10, 12),
    ),
}


@WAYS
@pytest.mark.parametrize("case", list(CASES))
async def test_every_ending_closes_all_spans_and_the_run_says_how_and_what_was_used(
    case: str, way: str, memory: Memory
) -> None:
    made, expected, ended = CASES[case]
    counter = Counts()
    memory.tracers.add_span_processor(counter)
    await played(made(memory), way, expected)
    assert told(memory) == ended
    assert is_error(memory.named(RUN)) == (ended[2] is not None)
    assert counter.open == 0


class Counts(SpanProcessor):
    """Counts the spans that are open."""

    def __init__(self) -> None:
        self.open = 0

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.open += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.open -= 1


async def test_a_consumer_that_leaves_ends_the_run_as_aborted(memory: Memory) -> None:
    async with agent_of(memory, hang(after=["half"])).stream("go") as run:
        async for event in run:
            if event.type == "TEXT_MESSAGE_CONTENT":
                break
    assert told(memory)[:3] == ("aborted", "cancelled", "RunAborted")
    assert is_error(memory.named(MODEL))


async def test_a_cancelled_caller_ends_the_run_as_aborted_with_what_was_told(memory: Memory) -> None:
    model = fail(ProviderDown("never"), after=[UsageUpdate(USED)])

    @tool
    async def wait() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return ""

    task = asyncio.create_task(agent_of(memory, calls("wait", usage=USED), model, tools=[wait]).run("go"))
    while not memory.of("chat"):  # noqa: ASYNC110  # nothing tells of a span
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told(memory) == ("aborted", "cancelled", "RunAborted", 10, 12)
    assert attributes(memory.named("execute_tool wait"))["interpose.outcome"] == "aborted"


async def test_a_pause_is_no_error_and_the_resumed_run_names_it(memory: Memory) -> None:
    @tool(approval=True)
    async def pay(n: int) -> str:
        """Pay."""
        return "paid"

    agent = agent_of(memory, calls(("pay", {"n": 1}), usage=USED), text("done", usage=USED), tools=[pay])
    paused = await agent.run("go")
    assert told(memory) == ("interrupted", "interrupt", None, 10, 12)
    assert not any(is_error(one) for one in memory.spans)
    memory.exporter.clear()
    assert paused.checkpoint is not None
    await agent.resume(paused.checkpoint, {paused.interrupts[0].id: Approved()})
    assert told(memory)[:2] == ("finished", "stop")
    assert attributes(memory.named(RUN))["interpose.resumed_from"] == paused.run_id
    assert not is_error(memory.named("execute_tool pay"))


async def test_usage_that_a_broken_call_told_is_on_its_span_and_the_runs(memory: Memory) -> None:
    with pytest.raises(ProviderDown):
        await agent_of(memory, fail(ProviderDown("x"), after=[UsageUpdate(USED)])).run("go")
    assert attributes(memory.named(MODEL))["gen_ai.usage.input_tokens"] == 10
    assert told(memory) == ("failed", "error", "ProviderDown", 10, 12)


async def test_the_models_span_has_error_status_where_the_reader_stops_at_the_failure(memory: Memory) -> None:
    async with agent_of(memory, fail(ProviderDown("x"), after=["half"])).stream("go") as run:
        async for event in run:
            if event.type == "RUN_ERROR":
                break
    assert is_error(memory.named(MODEL))
    assert attributes(memory.named(MODEL))["error.type"] == "ProviderDown"
    assert is_error(memory.named(RUN))


async def test_a_tool_that_failed_has_an_error_and_the_run_that_went_on_has_none(memory: Memory) -> None:
    @tool
    async def breaks(n: int) -> str:
        """Break."""
        raise OSError("no disk")

    await agent_of(memory, calls(("breaks", {"n": 1}), ("nope", {})), text("well"), tools=[breaks]).run("go")
    assert attributes(memory.named("execute_tool breaks"))["error.type"] == "OSError"
    assert attributes(memory.named("execute_tool nope"))["error.type"] == "tool_error"
    assert not is_error(memory.named(RUN))


# Exporters and processors that fail.


class FailsOnce(SpanExporter):
    """Raises on its first batch, and then keeps what it gets."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if not self.failed:
            self.failed = True
            raise ConnectionError("no collector")
        self.kept += [one.name for one in spans]
        return SpanExportResult.SUCCESS


async def test_an_exporter_that_fails_once_gets_what_comes_later(caplog: pytest.LogCaptureFixture) -> None:
    provider, exporter = TracerProvider(), FailsOnce()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    turns = [calls(("look", {"where": str(n)})) for n in range(9)]
    agent: Agent[Any] = Agent(
        ScriptedModel(*turns, text("end")), tools=[look], middleware=[OpenTelemetry(tracer_provider=provider)]
    )
    result = await agent.run("go")
    assert result.text == "end"
    assert len(exporter.kept) == 19  # 20 spans, of which the first was lost
    caplog.clear()


@pytest.mark.parametrize("where", ["on_start", "on_end"])
async def test_a_processor_that_raises_harms_neither_the_run_nor_later_spans(
    where: str, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    class Raises(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            if where == "on_start":
                raise RuntimeError("a bug of a plugin")

        def on_end(self, span: ReadableSpan) -> None:
            if where == "on_end":
                raise RuntimeError("a bug of a plugin")

    provider = TracerProvider()
    provider.add_span_processor(Raises())
    telemetry = OpenTelemetry(tracer_provider=provider)
    turns = (calls(("look", {"where": "x"})), text("end"))
    agent: Agent[Any] = Agent(ScriptedModel(*turns), tools=[look], middleware=[telemetry, memory.telemetry()])
    assert (await agent.run("go")).text == "end"
    assert len(memory.spans) == 4
    assert len([one for one in caplog.records if one.levelno >= logging.ERROR]) == 1


async def test_an_outage_keeps_neither_the_run_nor_the_close_of_the_agent() -> None:
    class Hangs(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            time.sleep(3)
            return SpanExportResult.FAILURE

    provider = TracerProvider(shutdown_on_exit=False)
    processor = BatchSpanProcessor(Hangs(), schedule_delay_millis=10)
    provider.add_span_processor(processor)
    before = time.monotonic()
    async with Agent(ScriptedModel(text("x")), middleware=[OpenTelemetry(tracer_provider=provider)]) as agent:
        await agent.run("go")
    assert time.monotonic() - before < 1


async def test_without_a_provider_nothing_is_told_and_nothing_breaks() -> None:
    agent: Agent[Any] = Agent(ScriptedModel(text("x", usage=USED)), middleware=[OpenTelemetry()])
    assert (await agent.run("go")).text == "x"


async def test_nothing_is_kept_of_runs_that_have_ended(memory: Memory) -> None:
    telemetry = memory.telemetry()
    agent: Agent[Any] = Agent(ScriptedModel(*[text("x")] * 3), middleware=[telemetry])
    await agent.run("go")
    before = {name: repr(value) for name, value in vars(telemetry).items()}
    await agent.run("go")
    async with agent.stream("go"):
        pass
    assert {name: repr(value) for name, value in vars(telemetry).items()} == before


async def test_an_in_memory_exporter_needs_no_more_than_the_global_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = OpenTelemetry()  # made before the application sets its provider, as at import
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    agent: Agent[Any] = Agent(ScriptedModel(text("x")), middleware=[telemetry])
    await agent.run("go")
    assert len(exporter.get_finished_spans()) == 2


async def test_usage_told_before_an_abort_in_the_middle_of_a_call_is_on_both_spans(memory: Memory) -> None:
    class Enough(Middleware):
        def on_chunk(self, ctx: Any, event: Any) -> None:
            if event.type == "TEXT_MESSAGE_CONTENT":
                ctx.abort("enough")

    turns = (ASKS, hang(after=[UsageUpdate(USED), "half"]))
    with pytest.raises(RunAborted):
        await agent_of(memory, *turns, tools=[look], more=[Enough()]).run("go")
    assert told(memory) == ("aborted", "cancelled", "RunAborted", 20, 24)
    cut = memory.of("chat")[1]
    assert (attributes(cut)["gen_ai.usage.output_tokens"], is_error(cut)) == (12, True)


def test_a_blocking_run_is_below_the_callers_span(memory: Memory) -> None:
    with memory.tracer.start_as_current_span("script"):
        agent_of(memory, ASKS, text("x"), tools=[look]).run_sync("go")
    assert memory.tree()[RUN] == "script"


async def test_closing_an_agent_closes_the_spans_of_its_runs(memory: Memory) -> None:
    agent = agent_of(memory, hang())
    run = await agent.start("go")
    await asyncio.sleep(0.01)
    await agent.aclose()
    with pytest.raises(RunAborted):
        await run.result()
    assert told(memory)[:3] == ("aborted", "cancelled", "RunAborted")
    assert len(memory.spans) == 2
