"""What nodes hold is made where it is read: what they were like then is kept, and nothing unread gets out."""

import asyncio
import copy
import pickle
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from tests.layers.play import agent_of

from interpose import Middleware, tool
from interpose.testing import calls, text

SECRET = "sk-" + "a1B2" * 12


class Keeps(Middleware):
    """Keeps nodes, and reads none of them."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def on_node(self, ctx: Any, node: Any) -> None:
        self.nodes.append(node)

    def of(self, kind: str, phase: str) -> Any:
        return next(node for node in self.nodes if (node.kind, node.phase) == (kind, phase))


@tool
async def spoil(words: list[str]) -> dict[str, Any]:
    """Change what it was given."""
    words.append("spoilt")
    return {"words": words, "key": SECRET}


async def kept(*middleware: Middleware) -> Keeps:
    keeps = Keeps()
    turns = [calls(("spoil", {"words": ["fresh"]})), text("Done.")]
    await agent_of(*turns, tools=[spoil], middleware=[keeps, *middleware]).run(f"My key is {SECRET}")
    return keeps


@pytest.mark.parametrize("kind", ["run", "model", "tool"])
async def test_unread_nodes_never_give_raw_contents_to_an_encoder(kind: str) -> None:
    node = (await kept()).of(kind, "end")
    with pytest.raises(TypeError):
        msgspec.json.encode(node)
    assert SECRET not in repr(node) + str(node)


@pytest.mark.parametrize("made", [copy.deepcopy, lambda node: pickle.loads(pickle.dumps(node))], ids=["copy", "pickle"])
async def test_copies_of_unread_nodes_are_whole_and_redacted(made: Any) -> None:
    node = (await kept()).of("model", "end")
    copied = made(node)
    assert copied.content == node.content
    assert SECRET not in copied.to_json()


async def test_start_read_after_the_end_tells_what_went_in_alone() -> None:
    keeps = await kept()
    end, start = keeps.of("tool", "end"), keeps.of("tool", "start")
    assert end.content["out"]["data"]["words"] == ["fresh", "spoilt"]
    assert list(start.content) == ["in"]
    assert start.content["in"]["args"] == end.content["in"]["args"] == {"words": ["fresh"]}


async def test_start_keeps_the_request_that_a_layer_changed_later() -> None:
    class Terse(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return await call_next(request.with_instructions("Be terse."))

    keeps = await kept(Terse())
    end, start = keeps.of("model", "end"), keeps.of("model", "start")
    assert end.content["in"]["instructions"] == "Be terse."
    assert start.content["in"].get("instructions") != "Be terse."


async def test_reader_may_write_on_the_node_that_begins() -> None:
    class Marks(Keeps):
        def on_node(self, ctx: Any, node: Any) -> None:
            super().on_node(ctx, node)
            if node.phase == "start" and node.kind != "tool":
                ctx.meta(mark=node.kind)

    marks = Marks()
    await agent_of(text("x"), middleware=[marks]).run("go")
    assert {node.kind: node.meta["mark"] for node in marks.nodes if node.phase == "end"} == {
        "run": "run", "step": "step", "model": "model",
    }  # fmt: skip


async def test_ids_differ_between_runs_side_by_side() -> None:
    several = await asyncio.gather(*[kept() for _ in range(3)])
    starts = [node.id for one in several for node in one.nodes if node.phase == "start"]
    assert len(starts) == len(set(starts)) == 3 * len([1 for node in several[0].nodes if node.phase == "start"])


@pytest.mark.parametrize("home", ["interpose.report", "interpose.flow"])
def test_readers_are_ready_to_redact_before_a_run(home: str) -> None:
    code = f"import sys, {home}; sys.exit('interpose.redaction' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
