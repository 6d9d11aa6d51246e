"""What the nodes of a record tell: usage, attempts, contents, outcomes and parents, also side by side and nested."""

import asyncio
import json
from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, run_once

from interpose import (
    AssistantMessage,
    FatalToolError,
    ImagePart,
    Limits,
    Middleware,
    Pause,
    ProviderDown,
    RunAborted,
    TextPart,
    ToolCall,
    Usage,
    UserMessage,
    tool,
)
from interpose.builtin import RetryModelCalls, Stop
from interpose.testing import FakeClock, calls, fail, hang, text

ONE = ("echo", {"x": "1"})
USED = Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)


class Watches(Middleware):
    def __init__(self, nodes: list[Any]) -> None:
        self.nodes = nodes

    def on_node(self, ctx: Any, node: Any) -> None:
        self.nodes.append(node)


async def ended(make: Any) -> dict[str, Any]:
    """Play once and return the last ended node of each kind."""
    nodes: list[Any] = []
    await run_once(lambda log: make(Watches(nodes)))
    return {node.kind: node for node in nodes if node.phase == "end"}


def tokens(node: Any) -> int | None:
    return None if node.usage is None else node.usage.total_tokens


async def test_usage_is_the_calls_own_the_steps_sum_and_the_runs_total() -> None:
    nodes: list[Any] = []
    child = agent_of(text("c", usage=USED), name="inner").as_tool("child", "Child.")
    turns = [calls(("child", {"prompt": "p"}), usage=USED), text("x", usage=USED)]
    await run_once(lambda log: agent_of(*turns, tools=[child], name="outer", middleware=[Watches(nodes)]))
    used = [(node.kind, node.name, tokens(node)) for node in nodes if node.phase == "end"]
    assert used == [
        ("model", "scripted", 12),
        ("model", "scripted", 12),
        ("step", "step-0", 12),
        ("run", "inner", 12),
        ("tool", "child", None),
        ("step", "step-0", 24),
        ("model", "scripted", 12),
        ("step", "step-1", 12),
        ("run", "outer", 36),
    ]


async def test_attempts_that_failed_are_told() -> None:
    turns = [fail(ProviderDown("busy", status_code=503)), text("x")]
    node = (await ended(lambda w: agent_of(*turns, middleware=[w, RetryModelCalls(max_wait_s=0.001)])))["model"]
    assert (node.attempts, node.status, node.error) == (2, "ok", None)
    assert node.failures == ("ProviderDown: busy",)


async def test_made_up_answer_names_its_maker_and_counts_no_attempt() -> None:
    async def cached(ctx: Any, request: Any, call_next: Any) -> Any:
        return request.answer("from the cache")

    node = (await ended(lambda w: agent_of(middleware=[w, cached])))["model"]
    assert (node.made_by, node.attempts, node.usage) == ("cached", 0, None)
    assert node.content["out"]["text"] == "from the cache"


async def test_what_was_taken_back_is_counted() -> None:
    nodes: list[Any] = []

    async def again(ctx: Any, request: Any, call_next: Any) -> Any:
        await call_next.again(request)
        return await call_next.again(request)

    agent = agent_of(text("one"), text("two"), middleware=[Watches(nodes), again])
    async with agent.stream("go") as run:
        assert (await run.result()).text == "two"
    node = next(node for node in nodes if node.phase == "end" and node.kind == "model")
    assert (node.attempts, node.superseded) == (2, 1)


async def test_call_of_a_middlewares_own_stands_where_it_was_made_with_its_class() -> None:
    nodes: list[Any] = []

    class Judges(Middleware):
        async def before_tool_call(self, ctx: Any, call: Any) -> None:
            await ctx.generate("Is this safe?", call_class="judge")

    turns = [calls(ONE, usage=USED), text("yes", usage=USED), text("x", usage=USED)]
    await run_once(lambda log: agent_of(*turns, tools=[echo], middleware=[Watches(nodes), Judges()]))
    starts = {node.id: node for node in nodes if node.phase == "start"}
    judge = next(node for node in nodes if node.phase == "end" and node.call_class == "judge")
    assert starts[judge.parent_id].kind == "tool"
    assert judge.content["in"]["messages"][0]["text"] == "Is this safe?"
    assert [tokens(node) for node in nodes if node.phase == "end" and node.kind == "step"] == [24, 12]


async def test_start_and_end_carry_contents_without_secrets() -> None:
    nodes: list[Any] = []

    async def look(where: str, password: str) -> dict[str, Any]:
        """Look."""
        return {"url": "postgres://bob:hunter2@db/x", "seen": where}

    turn = calls(("look", {"where": "left", "password": "opensesame"}), text="I look, sk-aaaaaaaaaaaaaaaaaaaa")
    played = await run_once(lambda log: agent_of(turn, text("done"), tools=[look], middleware=[Watches(nodes)]))
    told = json.dumps([node.to_dict() for node in nodes])
    assert [secret for secret in ("hunter2", "opensesame", "sk-aaaa") if secret in told] == []
    start, end = [node for node in nodes if node.kind == "tool"]
    assert start.content["in"]["args"] == {"where": "left", "password": "[REDACTED]"}
    assert end.content == {
        "in": start.content["in"],
        "out": {"data": {"url": "postgres://bob:[REDACTED]@db/x", "seen": "left"}, "is_error": False},
    }
    assert "hunter2" in played.result.messages[2].text


async def test_errors_and_meta_are_redacted_too() -> None:
    class Notes(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> None:
            ctx.meta(api_key="abcdef", url="redis://:hunter2@cache")

    async def breaks() -> str:
        """Break."""
        raise OSError("cannot reach postgres://bob:hunter2@db")

    made = await ended(lambda w: agent_of(calls("breaks"), text("x"), tools=[breaks], middleware=[w, Notes()]))
    node = made["tool"]
    assert node.error == "OSError: cannot reach postgres://bob:[REDACTED]@db"
    assert node.meta == {"api_key": "[REDACTED]", "url": "redis://:[REDACTED]@cache"}


async def test_agents_own_rules_hold_for_its_nested_runs_too() -> None:
    nodes: list[Any] = []
    child = agent_of(text("falcon lands"), redact=["lands"]).as_tool("child", "Child.")
    turns = [calls(("child", {"prompt": "falcon flies"})), text("falcon lands")]
    options = {"tools": [child], "middleware": [Watches(nodes)], "redact": [r"\bfalcon\b"]}
    await run_once(lambda log: agent_of(*turns, **options))
    runs = [node.content["out"]["text"] for node in nodes if node.phase == "end" and node.kind == "run"]
    assert runs == ["[REDACTED] lands", "[REDACTED] lands"]
    assert "falcon" not in json.dumps([node.to_dict() for node in nodes])


async def test_long_answer_is_cut_in_its_node_and_whole_for_the_caller() -> None:
    nodes: list[Any] = []
    played = await run_once(lambda log: agent_of(text("y" * 25_000), middleware=[Watches(nodes)]))
    said = next(node for node in nodes if node.phase == "end" and node.kind == "model").content["out"]["text"]
    assert said == "y" * 20_000 + "…"
    assert len(played.result.text) == 25_000


async def test_contents_are_as_they_were_when_read_later() -> None:
    found = ["a"]

    class Edits(Middleware):
        def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
            found.append("b")

    async def look() -> list[str]:
        """Look."""
        return found

    made = await ended(lambda w: agent_of(calls("look"), text("x"), tools=[look], middleware=[w, Edits()]))
    found.append("c")
    assert made["tool"].content["out"]["data"] == ["a", "b"]


async def test_pictures_are_told_by_type_and_size() -> None:
    async def draw() -> Any:
        """Draw."""
        return [TextPart("here:"), ImagePart(data="QUJD" * 100, media_type="image/png")]

    node = (await ended(lambda w: agent_of(calls("draw"), text("x"), tools=[draw], middleware=[w])))["tool"]
    assert node.content["out"]["data"][1] == {"type": "image", "media_type": "image/png", "size_bytes": 300}


async def test_reader_without_contents_gets_the_structure_alone() -> None:
    class Structure(Watches):
        reads_content = False

    nodes: list[Any] = []
    await run_once(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Structure(nodes)]))
    assert {node.content for node in nodes} == {None}


def pauses(w: Any) -> Any:
    class Asks(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Pause:
            return Pause("sure?")

    return agent_of(calls(ONE), tools=[echo], middleware=[w, Asks()])


def aborts(w: Any) -> Any:
    class Aborts(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> None:
            ctx.abort("enough")

    return agent_of(calls(ONE), tools=[echo], middleware=[w, Aborts()])


def breaks(w: Any) -> Any:
    async def breaks() -> str:
        """Break."""
        raise FatalToolError("broken")

    return agent_of(calls("breaks"), tools=[breaks], middleware=[w])


def stops(w: Any) -> Any:
    return agent_of(calls(ONE), tools=[echo], middleware=[w, Stop.when(lambda request: request.number == 1)])


OUTCOMES = {
    "finished": (lambda w: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[w]), "finished", "stop", "ok"),
    "paused": (pauses, "interrupted", "interrupt", "ok"),
    "aborted": (aborts, "aborted", "cancelled", "error"),
    "failed": (breaks, "failed", "error", "error"),
    "stopped": (stops, "finished", "cancelled", "ok"),
    "limited": (
        lambda w: agent_of(calls(ONE), tools=[echo], middleware=[w], limits=Limits(max_model_calls=1)),
        "finished",
        "limit",
        "ok",
    ),
}


@pytest.mark.parametrize(("make", "outcome", "reason", "status"), OUTCOMES.values(), ids=OUTCOMES)
async def test_run_tells_how_it_ended(make: Any, outcome: str, reason: str, status: str) -> None:
    node = (await ended(make))["run"]
    assert (node.outcome, node.finish_reason, node.status) == (outcome, reason, status)


async def test_paused_call_and_its_step_are_no_errors() -> None:
    made = await ended(pauses)
    assert [(made[kind].status, made[kind].outcome) for kind in ("tool", "step")] == [("ok", "interrupted")] * 2


async def test_side_by_side_each_tool_has_its_own_children() -> None:
    nodes: list[Any] = []
    child = agent_of(text("c"), text("c"), text("c"), name="inner").as_tool("child", "Child.")
    turn = calls(*[("child", {"prompt": str(n)}) for n in range(3)])
    await run_once(lambda log: agent_of(turn, text("x"), tools=[child], middleware=[Watches(nodes)]))
    starts = {node.id: node for node in nodes if node.phase == "start"}
    inner = [node for node in starts.values() if node.kind == "run" and node.name == "inner"]
    asked = [
        (starts[one.parent_id].content["in"]["args"]["prompt"], one.content["in"]["messages"][0]["text"])
        for one in inner
    ]
    assert sorted(asked) == [("0", "0"), ("1", "1"), ("2", "2")]
    assert len({one.parent_id for one in inner}) == 3


async def test_times_are_of_the_agents_clock() -> None:
    clock = FakeClock()
    nodes: list[Any] = []

    @tool
    async def nap() -> str:
        """Sleep."""
        await clock.advance(3)
        return "slept"

    await agent_of(calls("nap"), text("x"), tools=[nap], clock=clock, middleware=[Watches(nodes)]).run("go")
    node = next(node for node in nodes if node.phase == "end" and node.kind == "tool")
    assert node.duration_ms == 3000
    assert node.started_at == clock.now() - 3


async def test_node_that_hangs_is_closed_when_its_caller_leaves() -> None:
    nodes: list[Any] = []
    agent = agent_of(hang(after=("Hal",)), middleware=[Watches(nodes)])
    task = asyncio.ensure_future(agent.run("go"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ends = {node.kind: node for node in nodes if node.phase == "end"}
    assert [ends[kind].outcome for kind in ("model", "step", "run")] == ["aborted"] * 3


async def test_failing_readers_are_told_once_a_run_and_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Middleware):
        def on_node(self, ctx: Any, node: Any) -> None:
            raise asyncio.CancelledError if node.kind == "model" else RuntimeError("cannot watch")

    class FailsLater(Middleware):
        async def on_node(self, ctx: Any, node: Any) -> None:
            await asyncio.sleep(0)
            raise RuntimeError("cannot either")

    nodes: list[Any] = []
    played = await run_once(
        lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Fails(), FailsLater(), Watches(nodes)])
    )
    assert played.result.text == "x"
    assert len(nodes) == 12
    assert len(caplog.records) == 2


async def test_tool_result_that_cannot_be_shown_harms_nothing() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    async def odd() -> Any:
        """Give something odd."""
        return {"x": Odd()}

    played = await both(lambda log: agent_of(calls("odd"), text("x"), tools=[odd], middleware=[Watches([])]))
    assert played.result.text == "x"


async def test_open_calls_handed_in_are_recorded_under_the_run() -> None:
    nodes: list[Any] = []
    given = [UserMessage("go"), AssistantMessage("", tool_calls=(ToolCall(id="c1", name="echo", args={"x": "1"}),))]
    await agent_of(text("x"), tools=[echo], middleware=[Watches(nodes)]).run(given)
    starts = {node.id: node for node in nodes if node.phase == "start"}
    call = next(node for node in starts.values() if node.kind == "tool")
    assert starts[call.parent_id].kind == "run"


async def test_node_to_dict_leaves_out_what_there_is_not() -> None:
    node = (await ended(lambda w: agent_of(text("x"), middleware=[w])))["step"]
    assert sorted(node.to_dict()) == [
        "content", "duration_ms", "id", "kind", "name", "outcome", "parent_id", "phase", "run_id", "started_at",
        "status", "step", "thread_id",
    ]  # fmt: skip
    assert json.loads(node.to_json())["kind"] == "step"


async def test_aborted_run_says_so_in_its_error() -> None:
    nodes: list[Any] = []
    played = await run_once(lambda log: aborts(Watches(nodes)))
    assert isinstance(played.error, RunAborted)
    assert next(node.error for node in nodes if node.kind == "run" and node.phase == "end") == "RunAborted: enough"


async def test_nothing_is_built_where_nobody_listens() -> None:
    seen: list[Any] = []

    class Looks(Middleware):
        def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
            ctx.meta(nobody="reads this")
            seen.append((ctx._run.record, ctx._node))

    await run_once(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Looks()]))
    assert seen == [(None, None)]
