"""The record is a tree of nodes, the same both ways, and it is built only where somebody listens."""

from typing import Any

import pytest
from tests.layers.play import agent_of, both, echo, run_once

from interpose import Agent, Middleware, Model, ModelResponse, RunAborted, Usage
from interpose.testing import calls, make_response, text

ONE = ("echo", {"x": "1"})


class Watches(Middleware):
    def __init__(self, nodes: list[Any]) -> None:
        self.nodes = nodes

    def on_node(self, ctx: Any, node: Any) -> None:
        self.nodes.append(node)


def tree(nodes: list[Any]) -> list[Any]:
    """(kind, name, status, kind of the parent) of every ended node, in the order of their starts."""
    ends = {node.id: node for node in nodes if node.phase == "end"}
    kinds = {node.id: node.kind for node in nodes}
    starts = [node for node in nodes if node.phase == "start"]
    return [(n.kind, n.name, ends[n.id].status, kinds.get(n.parent_id)) for n in starts]


async def test_model_and_tool_stand_side_by_side_under_their_step() -> None:
    nodes: list[Any] = []
    await run_once(lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Watches(nodes)], name="a"))
    assert tree(nodes) == [
        ("run", "a", "ok", None),
        ("step", "step-0", "ok", "run"),
        ("model", "scripted", "ok", "step"),
        ("tool", "echo", "ok", "step"),
        ("step", "step-1", "ok", "run"),
        ("model", "scripted", "ok", "step"),
    ]
    assert len(nodes) == 12


async def test_the_record_is_the_same_both_ways() -> None:
    def make(log: list[Any]) -> Any:
        class Logs(Middleware):
            def on_node(self, ctx: Any, node: Any) -> None:
                log.append((node.phase, node.kind, node.name, node.status, node.error))

        return agent_of(calls(ONE, ONE), text("x"), tools=[echo], middleware=[Logs()])

    assert (await both(make)).log


async def test_a_failed_tool_is_an_error_and_its_run_is_not() -> None:
    nodes: list[Any] = []

    async def breaks() -> str:
        """Break."""
        raise OSError("disk")

    await run_once(lambda log: agent_of(calls("breaks"), text("x"), tools=[breaks], middleware=[Watches(nodes)]))
    status = {node.kind: node.status for node in nodes if node.phase == "end"}
    assert (status["tool"], status["run"]) == ("error", "ok")
    assert "disk" in next(node.error for node in nodes if node.kind == "tool" and node.phase == "end")


async def test_a_failed_model_call_names_the_model_that_was_asked_for() -> None:
    from interpose.testing import fail

    nodes: list[Any] = []

    async def other(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request.with_model("other"))

    played = await run_once(lambda log: agent_of(fail(RuntimeError("x")), middleware=[other, Watches(nodes)]))
    assert str(played.error) == "x"
    assert [node.name for node in nodes if node.kind == "model" and node.phase == "end"] == ["other"]


async def test_every_node_that_starts_ends_also_when_the_run_is_aborted() -> None:
    nodes: list[Any] = []

    class Aborts(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> None:
            ctx.abort("enough")

    played = await run_once(
        lambda log: agent_of(calls(ONE), text("x"), tools=[echo], middleware=[Aborts(), Watches(nodes)])
    )
    assert isinstance(played.error, RunAborted)
    assert {n.id for n in nodes if n.phase == "start"} == {n.id for n in nodes if n.phase == "end"}
    assert next(n.status for n in nodes if n.kind == "run" and n.phase == "end") == "error"


async def test_a_nested_run_hangs_under_its_tool_node_and_counts_in_its_parent() -> None:
    nodes: list[Any] = []
    used = Usage(input_tokens=10, output_tokens=1)
    child = agent_of(text("c", usage=used), name="inner").as_tool("child", "Child.")
    played = await run_once(
        lambda log: agent_of(
            calls(("child", {"prompt": "p"}), usage=used),
            text("x", usage=used),
            tools=[child],
            name="outer",
            middleware=[Watches(nodes)],
        )
    )
    assert ("run", "inner", "ok", "tool") in tree(nodes)
    assert played.result.usage.input_tokens == 30


async def test_a_failing_observer_is_logged_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Middleware):
        def on_node(self, ctx: Any, node: Any) -> None:
            raise RuntimeError("cannot watch")

    played = await run_once(lambda log: agent_of(text("x"), middleware=[Fails()]))
    assert played.result.text == "x"
    assert "cannot watch" in caplog.text


class Own(Model):
    """A model with a `generate` of its own."""

    provider = name = "own"
    profile = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def stream(self, request: Any) -> Any:
        from interpose import Finish, TextDelta

        self.asked.append("stream")
        yield TextDelta("x")
        yield Finish()

    async def generate(self, request: Any) -> ModelResponse:
        self.asked.append("generate")
        return make_response("x")


async def test_a_model_is_asked_to_stream_only_where_chunks_are_needed() -> None:
    class Chunks(Middleware):
        def on_chunk(self, ctx: Any, event: Any) -> None:
            pass

    model = Own()
    await Agent(model, post_model_hooks=()).run("go")
    async with Agent(model, post_model_hooks=()).stream("go") as run:
        await run.result()
    await Agent(model, post_model_hooks=(), middleware=[Chunks()]).run("go")
    assert model.asked == ["generate", "stream", "stream"]


async def test_both_ways_agree_where_the_model_has_two() -> None:
    played = await both(lambda log: agent_of(model=Own()))
    assert played.result.text == "x"
