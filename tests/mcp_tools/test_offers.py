"""Which tools of a server are offered, under what names, with what effect and approval, and as the list changes."""

import asyncio
import logging
from typing import Any

import pytest
from tests.mcp_tools.stage import faulty, methods, offered, outcome, playing, results

from interpose import Agent, Approved, ConfigurationError, Middleware, tool
from interpose.builtin import ToolCache
from interpose.mcp import MCPTools
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, calls

ECHO = ("echo", {"text": "hi"})


async def tools_of(mcp: MCPTools) -> dict[str, Any]:
    async with Agent(ScriptedModel("hi"), middleware=[mcp]) as agent:
        await agent.run("go")
        return {tool.name: tool for tool in agent.model.requests[0].tools}  # type: ignore[attr-defined]


async def test_include_names_all_that_is_offered() -> None:
    assert sorted(await tools_of(MCPTools(faulty(), include=["echo", "cra*"]))) == ["crash", "crash_once", "echo"]


async def test_exclude_wins_over_include() -> None:
    assert sorted(await tools_of(MCPTools(faulty(), include=["cra*"], exclude=["crash"]))) == ["crash_once"]


async def test_pattern_of_a_general_policy_may_fit_nothing() -> None:
    mcp = MCPTools(faulty(), include=["echo"], exclude=["delete_*"], approval={"drop_?": True})
    assert sorted(await tools_of(mcp)) == ["echo"]


async def test_prefix_keeps_two_servers_apart() -> None:
    one, two = MCPTools(faulty(), prefix="a_", include=["echo"]), MCPTools(faulty(), prefix="b_", include=["echo"])
    model = ScriptedModel(calls(("a_echo", {"text": "1"}), ("b_echo", {"text": "2"})), "done")
    async with Agent(model, middleware=[one, two]) as agent:
        assert results(await agent.run("go")) == ["1", "2"]
    assert offered(agent) == ["a_echo", "b_echo"]


async def test_schema_is_passed_as_it_is() -> None:
    found = (await tools_of(MCPTools(faulty(), include=["echo"])))["echo"]
    assert found.parameters == {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    assert found.description == "Say it again."


async def test_annotations_become_effects() -> None:
    found = await tools_of(MCPTools(faulty()))
    assert [found[name].effect for name in ("echo", "put", "add", "write")] == ["read", "idempotent", "write", "write"]


async def test_effect_that_is_given_wins_over_annotations() -> None:
    found = await tools_of(MCPTools(faulty(), effect={"echo": "write", "wr*": "read"}))
    assert [found[name].effect for name in ("echo", "put", "write")] == ["write", "idempotent", "read"]
    assert {one.effect for one in (await tools_of(MCPTools(faulty(), effect="write"))).values()} == {"write"}


APPROVALS: list[tuple[Any, dict[str, bool]]] = [
    (False, {"echo": False, "add": False, "write": False}),
    (True, {"echo": True, "add": True, "write": True}),
    ("write", {"echo": False, "add": True, "write": True}),
    ("destructive", {"echo": False, "add": False, "write": True}),
    ({"echo": True, "w*": "write"}, {"echo": True, "add": False, "write": True}),
]


@pytest.mark.parametrize(("given", "asked"), APPROVALS, ids=[str(one[0]) for one in APPROVALS])
async def test_approval_by_annotation_and_name(given: Any, asked: dict[str, bool]) -> None:
    found = await tools_of(MCPTools(faulty(), approval=given))
    assert {name: found[name].approval for name in asked} == asked


async def test_approval_is_asked_and_the_call_made_after_it() -> None:
    store = MemoryStore()
    async with playing(ECHO, tools=MCPTools(faulty(), approval=True), store=store) as agent:
        run = await agent.run("go")
        assert run.status == "interrupted"
        run = await agent.resume(run.run_id, {run.interrupts[0].id: Approved()})
        assert run.steps[0].tool_results[0].data == "hi"


async def test_paused_call_is_made_by_another_agent_over_the_store() -> None:
    store = MemoryStore()
    async with playing(ECHO, tools=MCPTools(faulty(), approval=True), store=store) as agent:
        run = await agent.run("go")
    async with playing(ECHO, tools=MCPTools(faulty(), approval=True), store=store) as other:
        run = await other.resume(run.run_id, {run.interrupts[0].id: Approved()})
    assert run.steps[0].tool_results[0].data == "hi"


async def test_approval_by_a_rule_sees_the_call() -> None:
    asked: list[Any] = []
    mcp = MCPTools(faulty(), approval=lambda ctx, call: asked.append(dict(call.args)))
    assert (await outcome(mcp, ECHO))[0].data == "hi"
    assert asked == [{"text": "hi"}]


async def test_hooks_see_the_calls_and_a_cache_spares_them(tmp_path: Any) -> None:
    diary = tmp_path / "diary"
    model = ScriptedModel(calls(ECHO), calls(ECHO), "done")
    async with Agent(model, middleware=[ToolCache(tools=["echo"]), MCPTools(faulty(diary=diary))]) as agent:
        await agent.run("go")
    assert methods(diary).count("tools/call") == 1


async def test_tool_named_as_one_of_the_agent_is_refused() -> None:
    @tool
    def echo(text: str) -> str:
        return text

    agent = Agent(ScriptedModel("hi"), tools=[echo], middleware=[MCPTools(faulty(), name="it")])
    with pytest.raises(ConfigurationError, match=r"two tools are called 'echo': one of the agent, one of MCPTools\(it"):
        await agent.run("go")
    await agent.aclose()


@pytest.mark.parametrize("second", ["a", "b"])
async def test_two_servers_with_tools_of_one_name_are_refused(second: str) -> None:
    agent = Agent(ScriptedModel("hi"), middleware=[MCPTools(faulty(), name="a"), MCPTools(faulty(), name=second)])
    with pytest.raises(
        ConfigurationError, match=rf"one of MCPTools\(a\), one of MCPTools\({second}\); give MCPTools a pre"
    ):
        await agent.run("go")
    await agent.aclose()


async def test_the_same_server_twice_is_offered_once() -> None:
    mcp = MCPTools(faulty(), include=["echo"])
    async with Agent(ScriptedModel("hi"), middleware=[mcp, mcp]) as agent:
        await agent.run("go", middleware=[mcp])
    assert offered(agent) == ["echo"]


async def test_pages_of_the_list_are_all_read() -> None:
    assert len(await tools_of(MCPTools(faulty("pages")))) == 20


async def test_order_of_the_tools_is_stable_whatever_the_server_does() -> None:
    found = [list(await tools_of(MCPTools(faulty("shuffled")))) for _ in range(3)]
    assert found == [sorted(found[0])] * 3


async def test_odd_tools_are_mended_or_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = await tools_of(MCPTools(faulty("odd")))
    assert sorted(found) == ["echo", "with_spaces___more", "with_spaces___more_2", "x" * 62 + "_2", "x" * 64]
    assert "the tool '' is left out" in caplog.text
    assert "a second tool called 'echo' is left out" in caplog.text


async def test_mended_name_still_calls_the_right_tool() -> None:
    plain, mended = await outcome(MCPTools(faulty("odd")), ("with_spaces___more", {}), ("with_spaces___more_2", {}))
    assert plain.data.endswith("no tool with_spaces___more")
    assert mended.data.endswith("no tool with spaces & more")


# The list changes.


async def test_tool_that_appears_is_offered_in_the_next_step() -> None:
    model = ScriptedModel(calls(("grow", {})), calls(("grown", {})), "done")
    async with Agent(model, middleware=[MCPTools(faulty())]) as agent:
        run = await agent.run("go")
    assert "grown" not in offered(agent, 0)
    assert "grown" in offered(agent, 1)
    assert run.steps[1].tool_results[0].data == "fresh"


async def test_tool_that_goes_is_offered_no_more() -> None:
    model = ScriptedModel(calls(("shrink", {})), "done", "again")
    async with Agent(model, middleware=[MCPTools(faulty())]) as agent:
        await agent.run("go")
        await agent.run("go")
    assert ["write" in offered(agent, number) for number in range(3)] == [True, False, False]


async def test_filter_holds_for_tools_that_appear() -> None:
    model = ScriptedModel(calls(("grow", {})), "done")
    async with Agent(model, middleware=[MCPTools(faulty(), exclude=["hang"], include=["gr*", "hang"])]) as agent:
        await agent.run("go")
    assert offered(agent, 1) == ["grow", "grown"]


async def test_tool_taken_away_at_init_stays_away_when_the_list_changes() -> None:
    class Without(Middleware):
        def on_config(self, ctx: Any, config: Any) -> Any:
            if ctx.phase == "init":
                return config.replace(tools=tuple(one for one in config.tools if one.name != "hang"))
            return None

    model = ScriptedModel(calls(("grow", {})), "done")
    async with Agent(model, middleware=[MCPTools(faulty()), Without()]) as agent:
        await agent.run("go")
    assert "hang" not in offered(agent, 1)
    assert "grown" in offered(agent, 1)


async def test_list_that_never_rests_does_not_hold_runs_up() -> None:
    async with asyncio.timeout(20), playing(ECHO, tools=MCPTools(faulty("restless"))) as agent:
        assert [results(await agent.run("go")) for _ in range(5)] == [["hi"]] * 5


async def test_what_it_brings_can_be_seen_once_it_is_open() -> None:
    mcp = MCPTools(faulty(), include=["echo", "write"], prefix="x_")
    assert list(mcp.brings) == []
    async with playing(("x_echo", {"text": "hi"}), tools=mcp) as agent:
        await agent.run("go")
        assert [one.name for one in mcp.brings] == ["x_echo", "x_write"]
        assert {one.origin for one in mcp.brings} == {mcp.name}


# Wrong arguments of our own.

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (None, {}, "None is no tool server: expected a command"),
    ("npx -y server", {}, r"as a command: \['npx', '-y', 'server'\]"),
    ("ftp://host/mcp", {}, "begins with http:// or https://"),
    ("http://[", {}, "is no URL"),
    ([], {}, "the command is empty"),
    (["a", 1], {}, "every word of the command must be a string; got 1"),
    (["a"], {"headers": {"a": "b"}}, "headers= is for a server behind a URL; this is a"),
    ("http://x/mcp", {"env": {}}, "env= and cwd= are for a server that is started by a command"),
    ("http://x/mcp", {"headers": {"a": 1}}, "headers must map names to strings"),
    (["a"], {"prefix": "ä "}, "prefix must consist"),
    (["a"], {"include": "echo"}, "include must be a list of tool names or patterns"),
    (["a"], {"approval": "always"}, "approval must be True, False, 'write', 'destructive'"),
    (["a"], {"effect": "safe"}, "effect must be 'read', 'idempotent' or 'write'"),
    (["a"], {"timeout_s": 0}, "timeout_s must be above 0"),
    (["a"], {"connect_timeout_s": -1}, "connect_timeout_s must be above 0"),
    (["a"], {"max_message_bytes": 0}, "max_message_bytes must be above 0"),
    (["a"], {"mode": "new"}, "mode must be 'auto' or 'legacy'"),
]


@pytest.mark.parametrize(("server", "options", "text"), WRONG, ids=[one[2][:40] for one in WRONG])
def test_wrong_argument_is_refused_when_it_is_given(server: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        MCPTools(server, **options)


def test_label_shows_no_secret() -> None:
    assert MCPTools("https://user:secret@host:8/mcp?key=secret").name == "MCPTools(https://host:8/mcp)"
    assert MCPTools(["/usr/bin/npx", "-y", "@scope/server", "--key", "secret"]).name == "MCPTools(npx @scope/server)"
