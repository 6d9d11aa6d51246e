"""Who changed what: every middleware that hands on another request, or call, than it got is named with the field."""

from typing import Any

from tests.layers.play import agent_of, echo, run_once

from interpose import Middleware, PreModelHookResult, tool
from interpose.builtin import ContextWindow
from interpose.testing import calls, text


class Watches(Middleware):
    def __init__(self, nodes: list[Any]) -> None:
        self.nodes = nodes

    def on_node(self, ctx: Any, node: Any) -> None:
        if node.phase == "end":
            self.nodes.append(node)


async def changes(kind: str, *middleware: Any, **options: Any) -> list[tuple[Any, ...]]:
    """(middleware, hook, field, old, new) of the first ended node of *kind*."""
    nodes: list[Any] = []
    turns = options.pop("turns", [text("x")])
    agent = agent_of(*turns, middleware=[Watches(nodes), *middleware], **options)
    for hook in options.pop("pre", ()):
        agent.register_pre_model_hook(hook)
    await run_once(lambda log: agent)
    node = next(node for node in nodes if node.kind == kind)
    return [(one.middleware, one.hook, one.field, one.old, one.new) for one in node.changes]


@tool
async def search(q: str) -> str:
    """Search."""
    return q


class Hides(Middleware):
    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request.without_tools("search"))


class Adds(Middleware):
    def before_model_call(self, ctx: Any, request: Any) -> Any:
        return request.append_instructions("Be kind.").with_temperature(0.5)


async def test_who_removed_a_tool_is_told() -> None:
    found = await changes("model", Adds(), Hides(), tools=[echo, search], instructions="Help.")
    assert found == [
        ("Adds", "before_model_call", "instructions", "Help.", "Help.\n\nBe kind."),
        ("Adds", "before_model_call", "settings.temperature", None, 0.5),
        ("Hides", "wrap_model_call", "tools", ["echo", "search"], ["echo"]),
    ]


async def test_before_and_wrap_of_one_middleware_are_told_apart() -> None:
    class Both(Hides):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.with_model("other")

    found = await changes("model", Both(), tools=[echo, search])
    assert [(who, hook, field) for who, hook, field, _, _ in found] == [
        ("Both", "before_model_call", "model"),
        ("Both", "wrap_model_call", "tools"),
    ]


async def test_layers_that_hand_on_what_they_got_are_not_named() -> None:
    async def passes(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request)

    async def copies(ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request.replace())

    assert await changes("model", passes, copies) == []


async def test_config_hooks_are_named_for_the_run_and_its_requests() -> None:
    class Briefs(Middleware):
        def on_config(self, ctx: Any, config: Any) -> Any:
            return config.replace(instructions="Brief.", tools=[t for t in config.tools if t.name != "search"])

    expected = [
        ("Briefs", "on_config", "instructions", "", "Brief."),
        ("Briefs", "on_config", "tools", ["echo", "search"], ["echo"]),
    ]
    assert await changes("run", Briefs(), tools=[echo, search]) == expected
    assert await changes("model", Briefs(), tools=[echo, search]) == expected


async def test_model_hooks_are_named_by_their_functions() -> None:
    def shorten(context: Any) -> Any:
        return PreModelHookResult(system_prompt_suffix="Be short.")

    agent_options = {"instructions": "Help."}
    nodes: list[Any] = []
    agent = agent_of(text("x"), middleware=[Watches(nodes)], **agent_options)
    agent.register_pre_model_hook(shorten)
    await agent.run("go")
    assert [(one.middleware, one.field) for one in nodes[0].changes] == [("shorten", "instructions")]


async def test_cut_messages_are_told_in_brief() -> None:
    turns = [calls(("echo", {"x": "1"})), calls(("echo", {"x": "2"})), text("x")]
    nodes: list[Any] = []
    await agent_of(*turns, tools=[echo], middleware=[Watches(nodes), ContextWindow(max_messages=3)]).run("go")
    last = [node for node in nodes if node.kind == "model"][-1]
    (change,) = last.changes
    assert (change.middleware, change.field) == ("ContextWindow", "messages")
    assert (change.old["count"], change.new["count"]) == (5, 4)
    assert change.old["differ"][0] == "assistant: echo()"


async def test_arguments_that_were_rewritten_are_told() -> None:
    class Moves(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return call.replace(args={**call.args, "x": "there"})

    turns = [calls(("echo", {"x": "here"})), text("x")]
    assert await changes("tool", Moves(), tools=[echo], turns=turns) == [
        ("Moves", "before_tool_call", "args.x", "here", "there")
    ]


async def test_old_and_new_hold_no_secrets_and_are_short() -> None:
    class Leaks(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            request = request.replace(metadata={"password": "hunter2"})
            return request.append_instructions("y" * 5000 + " password=hunter2")

    found = await changes("model", Leaks(), instructions="Help.")
    assert "hunter2" not in str(found)
    assert len(str(found)) < 1500
