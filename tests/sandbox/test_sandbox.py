"""`Sandbox` in an agent: its tools, its workspaces, what it refuses, and many runs of it at once."""

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.kit import Seen, agent_in, box_in, needs_bwrap, results_of

from interpose import Agent, Approved, ConfigurationError, Middleware, tool
from interpose.builtin import Sandbox as Builtin
from interpose.context import ToolContext
from interpose.sandbox import SANDBOX, CommandLimits, Entry, Match, Sandbox, SandboxError
from interpose.sandbox.middleware import folder_name
from interpose.testing import ScriptedModel, calls, make_context, text

BOTH = [pytest.param("bubblewrap", marks=needs_bwrap), "none"]


@pytest.mark.parametrize("isolation", BOTH)
async def test_tools_work_together(tmp_path: Path, isolation: Any) -> None:
    agent = agent_in(
        tmp_path,
        ("write_file", {"path": "src/main.py", "content": "print('hallo')\n"}),
        ("edit_file", {"path": "src/main.py", "old_text": "hallo", "new_text": "hello"}),
        ("read_file", {"path": "src/main.py"}),
        ("list_files", {}),
        ("search_files", {"pattern": "h.llo"}),
        "cat src/main.py | wc -l",
        isolation=isolation,
    )
    assert results_of(await agent.run("Go.")) == [
        "wrote src/main.py (15 characters)",
        "changed src/main.py in 1 place",
        "print('hello')\n",
        "src/\nsrc/main.py  15 bytes",
        "src/main.py:1: print('hello')",
        {"exit_code": 0, "output": "1\n"},
    ]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("read_file", {"path": "gone.txt"}), "there is no 'gone.txt' in the workspace"),
        (("read_file", {"path": "../x"}), "leads out of the workspace"),
        (("read_file", {"path": "bin"}), "no text file (3 bytes of binary data)"),
        (("read_file", {"path": "a.txt", "first_line": 9}), "the file has 3 lines; line 9 is beyond its end"),
        (("read_file", {"path": "a.txt", "first_line": 0}), "count from 1"),
        (("edit_file", {"path": "a.txt", "old_text": "zwei", "new_text": ""}), "the text to replace is not in 'a.txt'"),
        (("edit_file", {"path": "a.txt", "old_text": "one\n two", "new_text": ""}), "with other spaces or line ends"),
        (("edit_file", {"path": "a.txt", "old_text": "o", "new_text": ""}), "the text is 2 times in 'a.txt'"),
        (("edit_file", {"path": "a.txt", "old_text": "", "new_text": ""}), "the text to replace is empty"),
        (("search_files", {"pattern": "(("}), "the search failed"),
        (("search_files", {"pattern": "x", "path": "gone"}), "there is no 'gone'"),
        (("list_files", {"path": "gone"}), "there is no 'gone'"),
    ],
)
async def test_what_is_refused_is_told_to_the_model(tmp_path: Path, call: Any, said: str) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree")
    (tmp_path / "bin").write_bytes(b"a\0b")
    result = await agent_in(tmp_path, call, isolation="none").run("Go.")
    [told] = result.steps[0].tool_results
    assert told.is_error
    assert said in told.text
    assert result.text == "Done."


async def test_part_of_a_file_is_read_by_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n")
    call = ("read_file", {"path": "a.txt", "first_line": 2, "lines": 2})
    assert results_of(await agent_in(tmp_path, call, isolation="none").run("Go.")) == ["2\n3"]


async def test_long_file_says_where_to_read_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * 999)
    [told] = results_of(await agent_in(tmp_path, ("read_file", {"path": "a.txt"}), isolation="none").run("Go."))
    assert told.endswith("[cut here, 40000 characters are left: go on with first_line=601]")


async def test_line_ends_of_windows_are_kept_by_an_edit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    async with box_in(tmp_path, "none") as box:
        assert await box.edit("a.txt", "one\ntwo", "1\n2") == 1
    assert (tmp_path / "a.txt").read_bytes() == b"1\r\n2\r\n"


async def test_edit_of_every_place_tells_how_many(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a a a")
    async with box_in(tmp_path, "none") as box:
        assert await box.edit("a.txt", "a", "b", every=True) == 3


async def test_edits_at_once_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(" ".join(f"<{number}>" for number in range(20)))
    async with box_in(tmp_path, "none") as box:
        await asyncio.gather(*[box.edit("a.txt", f"<{number}>", str(number)) for number in range(20)])
    assert (tmp_path / "a.txt").read_text() == " ".join(map(str, range(20)))


async def test_edits_of_several_runs_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(" ".join(f"<{number}>" for number in range(200)))

    async def edit(first: int) -> None:
        async with box_in(tmp_path, "none") as box:
            for number in range(first, 200, 4):
                await box.edit("a.txt", f"<{number}>", str(number))

    await asyncio.gather(*[edit(first) for first in range(4)])
    assert (tmp_path / "a.txt").read_text() == " ".join(map(str, range(200)))


async def test_names_with_line_breaks_are_found_and_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "a\nb.txt").write_text("one needle\ntwo needle\n")
    (tmp_path / "c.txt").write_text("three needle\n")
    async with box_in(tmp_path, "none") as box:
        found = [(one.path, one.line) for one in await box.search("needle")]
    assert found == [("a\nb.txt", 1), ("a\nb.txt", 2), ("c.txt", 1)]
    agent = agent_in(tmp_path, ("list_files", {}), ("search_files", {"pattern": "needle"}), isolation="none")
    listed, searched = results_of(await agent.run("Go."))
    assert listed == '"a\\nb.txt"  22 bytes\nc.txt  13 bytes'
    assert searched.split("\n")[0] == '"a\\nb.txt":1: one needle'


async def test_search_that_finds_too_much_tells_no_wrong_lines(tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"file{number:03}.txt").write_text(f"needle {'x' * 20_000} {number}\n")
    async with box_in(tmp_path, "none") as box:
        found = await box.search("needle", limit=400)
    assert 20 < len(found) < 400
    assert all((one.line, one.text[:8]) == (1, "needle x") and (tmp_path / one.path).exists() for one in found)


@pytest.mark.parametrize("env", [{"A": 1}, {"A": "\0"}, {"A=B": "1"}, {"": "1"}, {1: "1"}])
async def test_environment_that_is_none_is_refused(tmp_path: Path, env: Any) -> None:
    async with box_in(tmp_path, "none") as box:
        with pytest.raises(SandboxError, match="env holds names and values"):
            await box.run("true", env=env)


async def test_agents_that_begin_at_once_share_a_sandbox(tmp_path: Path) -> None:
    shared = Sandbox(tmp_path, isolation="auto", tools=())
    runs = [Agent(ScriptedModel("Done."), middleware=[shared]).run("Go.") for _ in range(3)]
    assert [result.text for result in await asyncio.gather(*runs)] == ["Done."] * 3


async def test_root_without_isolation_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    agent = Agent(ScriptedModel("Done.", "Done."), middleware=[Sandbox(tmp_path, isolation="none", tools=())])
    await agent.run("Go.")
    await agent.run("Go.")
    assert len([text for text in caplog.messages if "as root" in text]) == 1


async def test_list_gives_kinds_and_sizes_by_depth(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "deep").touch()
    (tmp_path / "a").write_text("123")
    async with box_in(tmp_path, "none") as box:
        assert await box.list(depth=2) == (
            Entry(path="a", kind="file", size_bytes=3),
            Entry(path="d", kind="folder"),
            Entry(path="d/e", kind="folder"),
        )
        assert await box.list("d/e/deep") == (Entry(path="d/e/deep", kind="file"),)


@pytest.mark.parametrize("isolation", BOTH)
async def test_search_finds_in_folders_files_and_by_glob(tmp_path: Path, isolation: Any) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "node_modules").mkdir()
    for name in ("a.py", "d/b.txt", "d/-e.py", "node_modules/c.py"):
        (tmp_path / name).write_text("one\nTODO: a+b\n")
    match = Match(path="d/b.txt", line=2, text="TODO: a+b")
    async with box_in(tmp_path, isolation) as box:
        assert [one.path for one in await box.search("TODO")] == ["a.py", "d/-e.py", "d/b.txt"]
        assert [one.path for one in await box.search("^TODO", glob="*.py")] == ["a.py", "d/-e.py"]
        assert await box.search("a+b", "d/b.txt", regex=False) == (match,)
        assert await box.search("a[+]b", "d", glob="*.txt") == (match,)
        assert [one.path for one in await box.search("TODO", glob="d/*.py")] == ["d/-e.py"]
        assert await box.search("-e", regex=False) == ()
        assert [one.path for one in await box.search("TODO", "d/-e.py")] == ["d/-e.py"]


async def test_costly_expression_keeps_nobody_busy(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 5000 + "!\n")
    async with box_in(tmp_path, "none", CommandLimits(timeout_s=1)) as box, asyncio.timeout(5):
        with contextlib.suppress(SandboxError):  # that it took longer
            assert len(await box.search("(a*)*(a*)*$")) == 1


# What an agent is given.


def test_tools_are_chosen_named_and_set_up(tmp_path: Path) -> None:
    sandbox = Sandbox(
        tmp_path,
        isolation="none",
        tools=["run_command", "read_file"],
        prefix="docs_",
        approval={"run_command": True},
        effect={"run_command": "idempotent"},
    )
    assert [(one.name, one.approval, one.effect) for one in sandbox.tools] == [
        ("docs_run_command", True, "idempotent"),
        ("docs_read_file", False, "read"),
    ]


def test_every_tool_describes_itself_and_its_arguments(tmp_path: Path) -> None:
    for one in Sandbox(tmp_path, isolation="none").tools:
        assert len(one.description) > 40
        for argument in one.parameters["properties"].values():
            assert argument.get("description"), one.name


def test_description_says_whether_there_is_network(tmp_path: Path) -> None:
    told = {
        network: Sandbox(tmp_path, isolation="none", network=network).tools[0].description for network in (True, False)
    }
    assert "no network" in told[False]
    assert "no network" not in told[True]


async def test_approval_asks_before_a_command_runs(tmp_path: Path) -> None:
    agent = agent_in(tmp_path, "echo x > made", isolation="none", approval={"run_command": True})
    paused = await agent.run("Go.")
    assert paused.status == "interrupted"
    assert os.listdir(tmp_path) == []
    result = await agent.resume(paused.checkpoint or {}, {paused.interrupts[0].id: Approved()})
    assert (result.text, os.listdir(tmp_path)) == ("Done.", ["made"])


async def test_two_sandboxes_have_a_folder_each(tmp_path: Path) -> None:
    one = Sandbox(tmp_path / "one", isolation="none")
    two = Sandbox(tmp_path / "two", isolation="none", prefix="two_")
    write = {"path": "a", "content": "x"}
    model = ScriptedModel(calls(("write_file", write), ("two_write_file", {**write, "path": "b"})), text("Done."))
    with pytest.warns(UserWarning, match="'sandbox' is provided by Sandbox and again by Sandbox"):
        agent = Agent(model, middleware=[one, two])
    await agent.run("Go.")
    assert (os.listdir(tmp_path / "one"), os.listdir(tmp_path / "two")) == (["a"], ["b"])


def test_sandbox_is_among_the_ready_made() -> None:
    assert Builtin is Sandbox


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"isolation": "docker"}, "isolation must be"),
        ({"tools": ["run"]}, "tools names 'run'; its tools are: run_command"),
        ({"tools": "run_command"}, "tools names 'run_command'"),
        ({"approval": {"run": True}}, "approval names 'run'"),
        ({"effect": {"run_command": "none"}}, "effect must be"),
        ({"limits": 5}, "limits must be CommandLimits"),
        ({"env": {"A": 1}}, "env holds names and values"),
        ({"env": {"A=B": "1"}}, "env holds names and values"),
        ({"readable": ["/no/such/folder"]}, "readable: there is no"),
        ({"readable": ["/"]}, "readable: '/' cannot be shown"),
        ({"ignore": "*.pyc"}, "ignore must be a list"),
        ({"ignore": [""]}, "ignore must be a list"),
    ],
)
def test_wrong_argument_is_refused(tmp_path: Path, arguments: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Sandbox(tmp_path, **{"isolation": "none", **arguments})


@pytest.mark.parametrize("workspace", ["/", "/usr", "/etc", "/tmp", "~", "", None, 5, "a\0b", "/proc/self"])
def test_folder_that_cannot_be_a_workspace_is_refused(workspace: Any) -> None:
    given = os.path.expanduser(workspace) if workspace == "~" else workspace
    with pytest.raises(ConfigurationError, match="workspace"):
        Sandbox(given, isolation="none")


def test_file_as_a_workspace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="is a file, and no folder"):
        Sandbox(tmp_path / "file", isolation="none")


@pytest.mark.parametrize(
    "fields", [{"timeout_s": 0}, {"max_processes": True}, {"timeout_s": 900}, {"max_processes": 1.5}]
)
def test_limits_that_are_none_are_refused(fields: Any) -> None:
    with pytest.raises(ConfigurationError, match="CommandLimits"):
        CommandLimits(**fields)


# Isolation that is missing.


def test_missing_isolation_is_refused_when_the_sandbox_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match=r"commands cannot be isolated: 'bwrap' is not installed\. Install"):
        Sandbox(tmp_path)


async def test_isolation_that_goes_missing_is_refused_when_the_agent_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("bwrap", "prlimit"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexit 1")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    agent = agent_in(tmp_path / "workspace", "true")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match="commands cannot be isolated"):
        await agent.run("Go.")


async def test_auto_goes_on_without_isolation_and_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = Sandbox(tmp_path, isolation="auto")
    monkeypatch.setenv("PATH", "")
    with caplog.at_level(logging.WARNING, "interpose"):
        await Agent(ScriptedModel(text("Hi.")), middleware=[sandbox]).run("Hi.")
    assert "run with the rights of this process" in caplog.text


@needs_bwrap
async def test_auto_isolates_where_it_can(tmp_path: Path) -> None:
    result = await agent_in(tmp_path, "id -u; ls /root", isolation="auto").run("Go.")
    assert results_of(result)[0]["output"].startswith("65534\n")
    assert results_of(result)[0]["exit_code"] != 0


# Many runs.


async def test_each_thread_has_its_own_folder(tmp_path: Path) -> None:
    turns = [calls(("write_file", {"path": "a.txt", "content": "x"})), text("Done.")] * 3
    agent = Agent(ScriptedModel(*turns), middleware=[Sandbox(Sandbox.per_thread(tmp_path), isolation="none")])
    for thread in ("one", "../two", "three/a"):
        await agent.run("Go.", thread_id=thread)
    assert sorted(os.listdir(tmp_path)) == ["%2E%2E%2Ftwo", "one", "three%2Fa"]


@pytest.mark.parametrize("thread", ["..", ".", "/", "a/../b", "", "x" * 5000, "\0", "ü", "half\ud800", "~"])
def test_folder_of_a_thread_is_one_name(thread: str) -> None:
    name = folder_name(thread)
    assert "/" not in name
    assert "\0" not in name
    assert name not in ("", ".", "..", "~")
    assert len(os.fsencode(name)) <= 255


def test_folders_of_threads_differ() -> None:
    ids = ["a/b", "a_b", "a%2Fb", "a.b", "x" * 5000, "x" * 5001, "", "%", "%2E", "."]
    assert len({folder_name(one) for one in ids}) == len(ids)


async def test_workspace_may_come_from_an_async_function_of_the_context(tmp_path: Path) -> None:
    async def of_user(ctx: Any) -> Path:
        return tmp_path / str(ctx.context)

    agent = agent_in(of_user, ("write_file", {"path": "a", "content": "x"}), isolation="none")
    await agent.run("Go.", context="ada")
    assert os.listdir(tmp_path / "ada") == ["a"]


async def test_function_that_gives_no_folder_fails_the_run(tmp_path: Path) -> None:
    agent = agent_in(lambda ctx: None, "true", isolation="none")
    with pytest.raises(ConfigurationError, match="a workspace is a folder"):
        await agent.run("Go.")


@pytest.mark.parametrize("isolation", BOTH)
async def test_runs_at_once_are_told_of_their_own_files_alone(tmp_path: Path, isolation: Any) -> None:
    def turn(request: Any) -> Any:
        name = request.messages[-1].text
        return text("Done.") if request.steps else calls(("run_command", {"command": f"echo > {name}; sleep 0.1"}))

    told: dict[str, list[str]] = {}

    class ByRun(Middleware[Any]):
        def on_file(self, ctx: Any, event: Any) -> None:
            told.setdefault(ctx.thread_id, []).append(event.path)

    model = ScriptedModel(*[turn] * 40)
    sandbox = Sandbox(Sandbox.per_thread(tmp_path), isolation=isolation)
    agent = Agent(model, middleware=[sandbox, ByRun()])
    await asyncio.gather(*[agent.run(f"f{number}", thread_id=f"t{number}") for number in range(20)])
    assert told == {f"t{number}": [f"f{number}"] for number in range(20)}


async def test_nested_run_works_in_the_folder_of_the_outer_one(tmp_path: Path) -> None:
    sandbox = Sandbox(Sandbox.per_thread(tmp_path), isolation="none")
    inner_seen, outer_seen = Seen(), Seen()
    write = ("write_file", {"path": "inner.txt", "content": "x"})
    inner = Agent(ScriptedModel(calls(write), text("Written.")), middleware=[sandbox, inner_seen])
    model = ScriptedModel(calls(("helper", {"prompt": "Write."})), text("Done."))
    outer = Agent(model, tools=[inner.as_tool("helper", "Writes.")], middleware=[sandbox, outer_seen])
    await outer.run("Go.", thread_id="t")
    assert os.listdir(tmp_path) == ["t"]
    assert inner_seen.told == outer_seen.told == ["create inner.txt"]


async def test_descriptors_are_given_back(tmp_path: Path) -> None:
    seen = Seen()
    turns = [calls(("run_command", {"command": "echo > a"})), text("Done.")] * 12
    agent = Agent(ScriptedModel(*turns), middleware=[Sandbox(tmp_path, isolation="none"), seen])
    await agent.run("Go.")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        await agent.run("Go.")
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_tools_of_ones_own_use_the_capability(tmp_path: Path) -> None:
    @tool
    async def test(ctx: ToolContext) -> int | None:
        """Run the tests."""
        return (await ctx.get(SANDBOX).run("exit 4")).exit_code

    result = await agent_in(tmp_path, ("test", {}), tools=[test], isolation="none").run("Go.")
    assert results_of(result) == [4]


async def test_sandbox_without_tools_only_provides(tmp_path: Path) -> None:
    model = ScriptedModel(text("Hi."))
    await Agent(model, middleware=[Sandbox(tmp_path, isolation="none", tools=())]).run("Hi.")
    assert model.requests[0].tools == ()


async def test_setup_by_hand_provides_a_box(tmp_path: Path) -> None:
    sandbox, ctx = Sandbox(tmp_path, isolation="none"), make_context()
    await sandbox.setup(ctx)
    await ctx.get(SANDBOX).write("a", "x")
    assert (await ctx.get(SANDBOX).read("a"), [event.path for event in ctx.files]) == ("x", ["a"])
    await ctx.finish()
