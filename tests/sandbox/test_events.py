"""What changes in the workspace reaches the hooks: all of it, in order, with what was there before and after."""

import asyncio
import logging
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.kit import Seen, agent_in, file_events, needs_bwrap, streamed, told_in

from interpose import Agent, FileEvent, Middleware, RunAborted, tool
from interpose.context import ToolContext
from interpose.sandbox import SANDBOX, Sandbox
from interpose.testing import ScriptedModel, calls, collect, fail, text

BOTH = [pytest.param("bubblewrap", marks=needs_bwrap), "none"]
WRITE = ("write_file", {"path": "a.txt", "content": "one\n"})


@pytest.mark.parametrize("isolation", BOTH)
async def test_create_change_delete_come_in_order(tmp_path: Path, isolation: Any) -> None:
    (tmp_path / "old").write_text("old")
    seen = await told_in(tmp_path, "echo 1 > b; echo 2 > a; echo more >> old", "rm b; echo 3 > a", isolation=isolation)
    assert seen.told == ["create b", "create a", "change old", "delete b", "change a"]


async def test_before_after_and_diff_tell_the_change(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    edit = ("edit_file", {"path": "a.txt", "old_text": "two", "new_text": "2"})
    event = (await told_in(tmp_path, edit, isolation="none")).of("a.txt")
    assert (event.kind, event.before(), event.after()) == ("change", "one\ntwo\n", "one\n2\n")
    assert event.diff() == "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"


@pytest.mark.parametrize("isolation", BOTH)
async def test_command_tells_before_and_after_too(tmp_path: Path, isolation: Any) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "gone").write_text("bye")
    seen = await told_in(tmp_path, "printf new > a; rm gone; printf x > made", isolation=isolation)
    assert [(event.before(), event.after()) for event in seen.events] == [("old", "new"), ("bye", None), (None, "x")]


@pytest.mark.parametrize("isolation", BOTH)
async def test_rename_is_a_delete_and_a_create(tmp_path: Path, isolation: Any) -> None:
    (tmp_path / "a").write_text("same")
    seen = await told_in(tmp_path, "mv a b", isolation=isolation)
    assert seen.told == ["delete a", "create b"]
    assert seen.of("a").before() == seen.of("b").after() == "same"


async def test_rename_over_a_file_is_a_change_of_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")
    assert (await told_in(tmp_path, "mv a b", isolation="none")).told == ["delete a", "change b"]


async def test_renamed_folder_is_told_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_text("x")
    seen = await told_in(tmp_path, "mv d g; echo y > g/e/h; mv g i", isolation="none")
    assert seen.told[0:1] == ["delete d/e/f"] or "delete d/e/f" in seen.told
    assert sorted(one for one in seen.told if "i/" in one) == ["create i/e/f", "create i/e/h"]


@pytest.mark.parametrize("isolation", BOTH)
async def test_file_made_and_removed_at_once_is_told_twice(tmp_path: Path, isolation: Any) -> None:
    assert (await told_in(tmp_path, "echo x > t; rm t", isolation=isolation)).told == ["create t", "delete t"]


async def test_file_in_a_new_folder_is_told(tmp_path: Path) -> None:
    seen = await told_in(
        tmp_path, "mkdir -p a/b/c; echo x > a/b/c/d; rm -r a/b", "mkdir x; echo 1 > x/y", isolation="none"
    )
    assert seen.told[-1] == "create x/y"


async def test_command_that_ends_just_then_loses_nothing(tmp_path: Path) -> None:
    seen = await told_in(tmp_path, *[f"echo {number} > f{number}" for number in range(12)], isolation="none")
    assert seen.told == [f"create f{number}" for number in range(12)]


async def test_write_through_a_mapping_is_told(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"a" * 4096)
    script = "import mmap, os; m = mmap.mmap(os.open('m', os.O_RDWR), 0); m[0:1] = b'b'; m.flush(); os._exit(0)"
    seen = await told_in(tmp_path, f'python3 -c "{script}"', isolation="none")
    assert seen.told == ["change m"]


async def test_rewriting_the_same_content_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert (
        await told_in(tmp_path, WRITE, "touch a.txt; cat a.txt > t && cat t > a.txt && rm t", isolation="none")
    ).told == [
        "create t",
        "delete t",
    ]


async def test_mode_is_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("echo")
    event = (await told_in(tmp_path, "chmod +x run.sh", isolation="none")).of("run.sh")
    assert (event.kind, event.diff()) == ("change", "")


async def test_binary_and_huge_files_are_told_without_text(tmp_path: Path) -> None:
    seen = await told_in(tmp_path, r"printf 'a\0b' > bin; head -c 3000000 /dev/zero > huge", isolation="none")
    assert seen.of("bin").after() == b"a\0b"
    assert seen.of("bin").diff() == "Binary files /dev/null and b/bin differ\n"
    assert seen.of("huge").after() is None
    assert "not kept" in seen.of("huge").diff()


async def test_link_is_told_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")
    workspace = tmp_path / "workspace"
    seen = await told_in(workspace, "ln -s ../secret l; mkfifo p", isolation="none")
    assert seen.told == ["create l"]
    assert seen.of("l").after() is None


async def test_name_that_is_no_unicode_is_told_as_text(tmp_path: Path) -> None:
    seen = await told_in(tmp_path, r"touch $'bad\xff'", isolation="none")
    assert seen.told == ["create bad\ufffd"]


async def test_ignored_files_are_not_told(tmp_path: Path) -> None:
    command = "mkdir -p .git node_modules/x sub/.git a; touch .git/a node_modules/x/b sub/.git/c a/d.pyc a/e"
    seen = await told_in(tmp_path, command, isolation="none", ignore=[*Sandbox.IGNORED, "*.pyc"])
    assert seen.told == ["create a/e"]


async def test_pattern_with_a_slash_is_compared_with_the_path(tmp_path: Path) -> None:
    seen = await told_in(tmp_path, "mkdir a b; touch a/x b/x", isolation="none", ignore=["a/*"])
    assert seen.told == ["create b/x"]


# When, and to whom.


async def test_result_of_a_tool_comes_after_its_events(tmp_path: Path) -> None:
    order: list[str] = []

    class Order(Middleware[Any]):
        def on_file(self, ctx: Any, event: FileEvent) -> None:
            order.append(event.path)

        def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
            order.append("complete")

    await agent_in(tmp_path, WRITE, "echo > b", more=[Order()], isolation="none").run("Go.")
    assert order == ["a.txt", "complete", "b", "complete"]


async def test_events_come_while_a_command_runs(tmp_path: Path) -> None:
    done: list[bool] = []

    class Early(Middleware[Any]):
        def on_file(self, ctx: Any, event: FileEvent) -> None:
            if event.path == "first":
                done.append((tmp_path / "last").exists())
                (tmp_path / "go").touch()

    command = "echo > first; while [ ! -e go ]; do sleep 0.02; done; echo > last"
    await agent_in(tmp_path, command, more=[Early()], isolation="none").run("Go.")
    assert done == [False]


async def test_stream_has_the_events_before_the_result(tmp_path: Path) -> None:
    events, _ = await streamed(agent_in(tmp_path, "echo > a; echo > b; rm a", isolation="none"))
    assert list(file_events(events)) == ["create a", "create b", "delete a"]
    names = [getattr(event, "name", event.type) for event in events]
    assert names.index("sandbox.file") < names.index("TOOL_CALL_RESULT")


async def test_tool_of_ones_own_is_watched_too(tmp_path: Path) -> None:
    @tool
    def save() -> str:
        """Save."""
        (tmp_path / "own").write_text("x")
        return "saved"

    @tool
    async def build(ctx: ToolContext) -> str:
        """Build."""
        await ctx.get(SANDBOX).write("built", "x")
        return (await ctx.get(SANDBOX).run("cat own built; echo > third")).output

    seen = Seen()
    agent = agent_in(tmp_path, ("save", {}), ("build", {}), tools=[save, build], more=[seen], isolation="none")
    result = await agent.run("Go.")
    assert result.steps[1].tool_results[0].data == "xx"
    assert seen.told == ["create own", "create built", "create third"]


async def test_middleware_that_writes_outside_of_tools_is_told_of_it(tmp_path: Path) -> None:
    class Notes(Middleware[Any]):
        requires = (SANDBOX,)

        async def on_start(self, ctx: Any) -> None:
            await ctx.get(SANDBOX).write("notes", "begun")

    seen = Seen()
    model = ScriptedModel(text("Hello."))
    await Agent(model, middleware=[Sandbox(tmp_path, isolation="none"), Notes(), seen]).run("Hi.")
    assert seen.told == ["create notes"]


async def test_what_comes_after_the_last_tool_is_told_at_the_end(tmp_path: Path) -> None:
    class Late(Middleware[Any]):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
            if not response.tool_calls:
                (tmp_path / "late").write_text("x")

    seen = Seen()
    events, _ = await streamed(agent_in(tmp_path, WRITE, more=[Late(), seen], isolation="none"))
    assert seen.told == ["create a.txt", "create late"]
    assert list(file_events(events)) == seen.told


@pytest.mark.parametrize("isolation", BOTH)
async def test_aborted_command_loses_nothing(tmp_path: Path, isolation: Any) -> None:
    seen = Seen()
    agent = agent_in(tmp_path, "echo x > a; echo y > b; touch ready; sleep 20", more=[seen], isolation=isolation)
    async with agent.stream("Go.") as run:
        while "ready" not in os.listdir(tmp_path):  # noqa: ASYNC110  # only the file tells
            await asyncio.sleep(0.005)
        run.abort("enough")
        with pytest.raises(RunAborted):
            await run.result()
    assert seen.told == ["create a", "create b", "create ready"]


async def test_failed_run_loses_nothing(tmp_path: Path) -> None:
    seen = Seen()
    model = ScriptedModel(calls(WRITE), fail(RuntimeError("down")))
    agent = Agent(model, middleware=[Sandbox(tmp_path, isolation="none"), seen])
    with pytest.raises(RuntimeError):
        await agent.run("Go.")
    assert seen.told == ["create a.txt"]


async def test_hook_that_raises_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Middleware[Any]):
        async def on_file_create(self, ctx: Any, event: FileEvent) -> None:
            raise RuntimeError("broken")

    seen = Seen()
    with caplog.at_level(logging.ERROR, "interpose"):
        result = await agent_in(tmp_path, WRITE, more=[Broken(), seen], isolation="none").run("Go.")
    assert result.text == "Done."
    assert seen.told == ["create a.txt"]
    assert "Broken.on_file_create failed" in caplog.text


async def test_hook_may_work_in_the_sandbox(tmp_path: Path) -> None:
    class Format(Middleware[Any]):
        async def on_file(self, ctx: Any, event: FileEvent) -> None:
            box, content = ctx.get(SANDBOX), event.after()
            if event.path.endswith(".txt") and isinstance(content, str):
                await box.write(event.path, content.strip() + "\n")
                await box.run("touch formatted")

    seen = Seen()
    write = ("write_file", {"path": "a.txt", "content": "one\n\n\n"})
    await agent_in(tmp_path, write, more=[Format(), seen], isolation="none").run("Go.")
    assert (tmp_path / "a.txt").read_text() == "one\n"
    assert sorted(seen.told) == ["change a.txt", "create a.txt", "create formatted"]


async def test_slow_hook_delays_and_loses_nothing(tmp_path: Path) -> None:
    class Slow(Seen):
        async def on_file(self, ctx: Any, event: FileEvent) -> None:  # type: ignore[override]  # async here
            await asyncio.sleep(0.02)
            self.events.append(event)

    slow = Slow()
    await agent_in(tmp_path, "for i in $(seq 10 19); do echo > f$i; done", more=[slow], isolation="none").run("Go.")
    assert slow.told == [f"create f{number}" for number in range(10, 20)]


async def test_parallel_calls_are_told_once_each(tmp_path: Path) -> None:
    seen = Seen()
    many = [("write_file", {"path": f"f{number}", "content": "x"}) for number in range(20)]
    model = ScriptedModel(calls(*many), text("Done."))
    await Agent(model, middleware=[Sandbox(tmp_path, isolation="none"), seen]).run("Go.")
    assert sorted(seen.told) == sorted(f"create f{number}" for number in range(20))


async def test_nobody_who_hears_means_nothing_is_watched(tmp_path: Path) -> None:
    watches: list[Any] = []

    class Look(Middleware[Any]):
        def on_step(self, ctx: Any, info: Any) -> None:
            watches.append(ctx.get(SANDBOX).watch)

    await agent_in(tmp_path, WRITE, more=[Look()], isolation="none").run("Go.")
    assert watches == [None, None]


async def test_five_thousand_files_are_told(tmp_path: Path) -> None:
    seen = Seen()
    make = "for d in $(seq 50); do mkdir -p d$d/s; for f in $(seq 100); do echo $f > d$d/s/$f; done; done"
    agent = agent_in(tmp_path, make, "rm -rf d1 d2", "mv d3 e3", more=[seen], isolation="none")
    async with agent.stream("Go.") as run:
        events = await collect(run)
    kinds = Counter(event.kind for event in seen.events)
    assert (kinds["create"], kinds["delete"]) == (5000 + 100, 200 + 100)
    assert len(seen.told) == len(set(seen.told))
    assert list(file_events(events)) == seen.told


async def test_branches_of_a_repository_are_told(tmp_path: Path) -> None:
    begin = "git init -q . && git config user.email a@b && git config user.name a && git commit -q --allow-empty -m 0"
    add = "git checkout -q -b full && for f in $(seq 500); do echo $f > f$f; done && git add . && git commit -q -m 1"
    seen = await told_in(tmp_path, begin, add, "git checkout -q -", "git checkout -q full", isolation="none")
    kinds = [event.kind for event in seen.events if event.kind != "change"]
    assert kinds == ["create"] * 500 + ["delete"] * 500 + ["create"] * 500
