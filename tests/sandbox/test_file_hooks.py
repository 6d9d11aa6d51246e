"""`on_file*`: who is told, in which order, and that no hook harms the run; with a sandbox of one's own."""

import asyncio
import logging
from typing import Any

import pytest
from tests.sandbox.kit import Seen, file_events, streamed

from interpose import Agent, FileEvent, Middleware, on_file, tool
from interpose.context import ToolContext
from interpose.testing import ScriptedModel, Trace, calls, make_context, text

KINDS = ("create", "change", "delete")


@tool
async def change(ctx: ToolContext, kinds: list[str]) -> str:
    """Tell of files."""
    for number, kind in enumerate(kinds):
        await ctx.tell_file(FileEvent(kind=kind, path=f"{number}.txt"))  # type: ignore[arg-type]  # of the three
    return "told"


def agent_with(*middleware: Middleware[Any], kinds: tuple[str, ...] = KINDS) -> Agent[Any]:
    model = ScriptedModel(calls(("change", {"kinds": list(kinds)})), text("Done."))
    return Agent(model, tools=[change], middleware=middleware)


async def test_each_kind_reaches_its_own_hook_and_on_file() -> None:
    trace = Trace()
    await agent_with(trace).run("Go.")
    told = [(hook, detail.path) for hook, detail in trace.entries if hook.startswith("on_file")]
    assert told == [
        ("on_file", "0.txt"),
        ("on_file_create", "0.txt"),
        ("on_file", "1.txt"),
        ("on_file_change", "1.txt"),
        ("on_file", "2.txt"),
        ("on_file_delete", "2.txt"),
    ]


async def test_middleware_is_told_in_the_order_of_the_list() -> None:
    told: list[str] = []

    class Named(Middleware[Any]):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_file_create(self, ctx: Any, event: FileEvent) -> None:
            told.append(f"{self.name} create")

        async def on_file(self, ctx: Any, event: FileEvent) -> None:
            await asyncio.sleep(0)
            told.append(f"{self.name} file")

    await agent_with(Named("a"), Named("b"), kinds=("create",)).run("Go.")
    assert told == ["a file", "a create", "b file", "b create"]


@pytest.mark.parametrize("error", [RuntimeError("broken"), asyncio.CancelledError()], ids=["error", "cancelled"])
async def test_hook_that_raises_is_logged_and_harms_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Middleware[Any]):
        def on_file(self, ctx: Any, event: FileEvent) -> None:
            raise error

    seen = Seen()
    with caplog.at_level(logging.ERROR, "interpose"):
        result = await agent_with(Broken(), seen).run("Go.")
    assert result.text == "Done."
    assert seen.told == ["create 0.txt", "change 1.txt", "delete 2.txt"]
    assert "Broken.on_file failed" in caplog.text


async def test_hook_that_returns_something_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @on_file
    def answering(ctx: Any, event: FileEvent) -> str:
        return "no"

    await agent_with(answering).run("Go.")
    assert "returned str ('no'); expected nothing" in caplog.text


async def test_events_are_sent_in_order() -> None:
    events, result = await streamed(agent_with())
    assert list(file_events(events)) == ["create 0.txt", "change 1.txt", "delete 2.txt"]
    assert result.text == "Done."


async def test_events_pass_on_chunk() -> None:
    trace = Trace()
    await agent_with(trace, kinds=("create",)).run("Go.")
    names = [getattr(detail, "name", None) for hook, detail in trace.entries if hook == "on_chunk"]
    assert names.count("sandbox.file") == 1


async def test_hand_made_context_notes_what_is_told() -> None:
    ctx = make_context()
    event = FileEvent(kind="create", path="a.txt")
    await ctx.tell_file(event)
    assert ctx.files == [event]


# The event itself.


def test_content_is_text_where_it_can_be() -> None:
    event = FileEvent(kind="change", path="a", old="é".encode(), new=b"\xff\0")
    assert (event.before(), event.after()) == ("é", b"\xff\0")


def test_diff_is_a_unified_diff() -> None:
    event = FileEvent(kind="change", path="a.txt", old=b"one\ntwo\nthree\n", new=b"one\n2\nthree")
    assert event.diff() == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+three\n\\ No newline at end of file\n"
    )


def test_diff_of_a_new_and_of_a_deleted_file() -> None:
    assert FileEvent(kind="create", path="a", new=b"x\n").diff() == "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n"
    assert FileEvent(kind="delete", path="a", old=b"x\n").diff() == "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


def test_diff_splits_at_line_feeds_alone() -> None:
    event = FileEvent(kind="change", path="a", old="a\x0cb\u2028c\r\n".encode(), new="a\x0cB\u2028c\r\n".encode())
    assert event.diff().splitlines(keepends=False)[2] == "@@ -1 +1 @@"
    assert event.diff().split("\n")[3:5] == ["-a\x0cb\u2028c\r", "+a\x0cB\u2028c\r"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "change", "old": b"a\0", "new": b"b"}, "Binary files a/a and b/a differ\n"),
        ({"kind": "change", "old": b"a"}, "Files a/a and b/a differ (their content was not kept)\n"),
        ({"kind": "create"}, "Files /dev/null and b/a differ (their content was not kept)\n"),
    ],
)
def test_diff_says_what_cannot_be_compared(fields: Any, said: str) -> None:
    assert FileEvent(path="a", **fields).diff() == said


def test_json_has_no_contents() -> None:
    event = FileEvent(kind="create", path="a", new=b"secret")
    assert event.to_json() == '{"kind":"create","path":"a"}'
    assert "secret" not in repr(event)
