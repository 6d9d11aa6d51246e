"""Calls of a server's tools: what they come to, and what they cost when they go wrong."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_tools.stage import faulty, methods, outcome, playing, results, until

from interpose import AudioPart, FilePart, ImagePart, TextPart
from interpose.mcp import MCPTools
from interpose.testing import assert_events_valid, collect

PICTURE = "iVBORw0KGgo="


async def test_text_of_a_tool_is_its_result() -> None:
    (result,) = await outcome(MCPTools(faulty()), ("echo", {"text": "héllo ✓"}))
    assert (result.data, result.is_error) == ("héllo ✓", False)


async def test_streamed_run_gives_the_same_result() -> None:
    async with playing(("echo", {"text": "hi"}), tools=MCPTools(faulty())) as agent, agent.stream("go") as run:
        assert_events_valid([event async for event in run])
        assert results(await run.result()) == ["hi"]


async def test_error_result_stays_an_error() -> None:
    (result,) = await outcome(MCPTools(faulty()), ("error", {}))
    assert (result.data, result.is_error) == ("disk full", True)


async def test_refusal_by_the_protocol_is_an_error_result() -> None:
    (result,) = await outcome(MCPTools(faulty()), ("refused", {}))
    assert result.is_error
    assert "refused refused: no such city" in result.data


async def test_bad_arguments_are_answered_before_the_server_is_asked(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    (result,) = await outcome(MCPTools(faulty(diary=diary)), ("echo", {}))
    assert result.is_error
    assert "missing argument 'text'" in result.data
    assert "tools/call" not in methods(diary)


async def test_result_that_is_none_says_so() -> None:
    (result,) = await outcome(MCPTools(faulty()), ("wrong", {}))
    assert result.is_error
    assert "something that is no result" in result.data


async def test_result_against_its_own_schema_says_so() -> None:
    (result,) = await outcome(MCPTools(faulty()), ("mismatch", {}))
    assert result.is_error
    assert "'there' is a required property" in result.data


TEXT = {"type": "text", "text": "one"}
GIVEN: list[tuple[str, dict[str, Any], Any]] = [
    ("two texts", {"content": [TEXT, {"type": "text", "text": "two"}]}, "one\ntwo"),
    ("nothing", {"content": []}, ""),
    (
        "structured, said again",
        {"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}},
        {"a": 1},
    ),
    ("structured alone", {"content": [], "structuredContent": {"a": 1}}, {"a": 1}),
    ("wrapped", {"content": [{"type": "text", "text": "7"}], "structuredContent": {"result": 7}}, {"result": 7}),
    ("structured, and a text of its own", {"content": [TEXT], "structuredContent": {"a": 1}}, 'one\n{"a":1}'),
    (
        "picture",
        {"content": [TEXT, {"type": "image", "data": PICTURE, "mimeType": "image/png"}]},
        (TextPart("one"), ImagePart(data=PICTURE, media_type="image/png")),
    ),
    (
        "sound",
        {"content": [{"type": "audio", "data": PICTURE, "mimeType": "audio/wav"}]},
        (AudioPart(data=PICTURE, media_type="audio/wav"),),
    ),
    (
        "picture that is none",
        {"content": [{"type": "image", "data": "%%%", "mimeType": "image/png"}]},
        "[a picture (image/png) that cannot be read: its data is no base64]",
    ),
    (
        "text resource",
        {"content": [{"type": "resource", "resource": {"uri": "file:///a.txt", "text": "body"}}]},
        "[resource file:///a.txt]\nbody",
    ),
    (
        "file resource",
        {
            "content": [
                {
                    "type": "resource",
                    "resource": {"uri": "file:///x/a.pdf", "blob": PICTURE, "mimeType": "application/pdf"},
                }
            ]
        },
        (FilePart(data=PICTURE, media_type="application/pdf", name="a.pdf"),),
    ),
    (
        "link",
        {"content": [{"type": "resource_link", "uri": "file:///b", "name": "b", "description": "the b"}]},
        "[resource file:///b: b; the b]",
    ),
]


@pytest.mark.parametrize(("given", "data"), [one[1:] for one in GIVEN], ids=[one[0] for one in GIVEN])
async def test_content_becomes_data(given: dict[str, Any], data: Any) -> None:
    (result,) = await outcome(MCPTools(faulty()), ("give", given))
    assert (result.data, result.is_error) == (data, False)


async def test_picture_reaches_the_model_as_a_part() -> None:
    tools = MCPTools(faulty())
    async with playing(("give", GIVEN[6][1]), tools=tools) as agent:
        await agent.run("go")
        message = agent.model.requests[1].messages[-1]  # type: ignore[attr-defined]  # a ScriptedModel
    assert message.parts == GIVEN[6][2]


async def test_progress_comes_as_events_before_the_result() -> None:
    async with playing(("progress", {}), tools=MCPTools(faulty())) as agent, agent.stream("go") as run:
        events = await collect(run)
    told = [event.value for event in events if event.type == "CUSTOM"]  # type: ignore[attr-defined]  # of a CUSTOM one
    assert [one["progress"] for one in told] == [0, 1, 2]
    assert told[2]["message"] == "part 2"
    assert told[0]["toolCallId"]
    kinds = [event.type for event in events]
    assert max(n for n, kind in enumerate(kinds) if kind == "CUSTOM") < kinds.index("TOOL_CALL_RESULT")


async def test_flood_of_progress_is_cut() -> None:
    async with playing(("progress", {"times": 3000}), tools=MCPTools(faulty())) as agent, agent.stream("go") as run:
        events = await collect(run)
    assert sum(event.type == "CUSTOM" for event in events) <= 1000
    assert_events_valid(events)


async def test_calls_of_one_step_run_side_by_side() -> None:
    asked = [("echo", {"text": str(number)}) for number in range(30)]
    found = await outcome(MCPTools(faulty()), *asked)
    assert [one.data for one in found] == [str(number) for number in range(30)]


async def test_garbage_on_stdout_is_logged_and_harmless(caplog: pytest.LogCaptureFixture) -> None:
    (result,) = await outcome(MCPTools(faulty()), ("garbage", {}))
    assert result.data == "after garbage"
    assert "no message: Hello, I am not JSON" in caplog.text


async def test_flood_of_garbage_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    (result,) = await outcome(MCPTools(faulty()), ("bare", {"line": "hm", "times": 5000, "more": True}))
    assert result.data == "after it"
    assert len(caplog.messages) < 30
    assert "no more of it is logged" in caplog.text


async def test_messages_in_a_list_are_read() -> None:
    answer = {"jsonrpc": "2.0", "id": "ID", "result": {"content": [TEXT]}}
    said = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hm"}}
    (result,) = await outcome(MCPTools(faulty(), timeout_s=5), ("bare", {"line": [said, answer]}))
    assert result.data == "one"


@pytest.mark.parametrize("line", [{"id": "ID"}, {"jsonrpc": "2.0", "id": "ID", "result": None}, [{"id": "ID"}]])
async def test_answer_of_no_form_is_an_error_at_once(line: Any) -> None:
    (result,) = await outcome(MCPTools(faulty(), timeout_s=30), ("bare", {"line": line}))
    assert result.is_error
    assert "neither a result nor an error" in result.data


async def test_half_characters_are_read_as_replaced() -> None:
    content = [{"type": "text", "text": "cut HALF"}]
    answer = {"jsonrpc": "2.0", "id": "ID", "result": {"content": content, "structuredContent": {"HALF": ["HALF"]}}}
    (result,) = await outcome(MCPTools(faulty(), timeout_s=5), ("bare", {"line": answer}))
    assert result.data == 'cut \ufffd\n{"\ufffd":["\ufffd"]}'


async def test_stderr_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "interpose.mcp"):
        await outcome(MCPTools(faulty(), name="mine"), ("whisper", {"text": "psst"}))
    assert "mine: psst" in caplog.messages


async def test_large_result_comes_through() -> None:
    (result,) = await outcome(MCPTools(faulty()), ("huge", {"bytes": 5_000_000}))
    assert len(result.data) == 5_000_000


async def test_too_large_result_is_an_error_and_the_server_goes_on() -> None:
    tools = MCPTools(faulty(), max_message_bytes=100_000)
    async with playing(("huge", {"bytes": 3_000_000}), tools=tools) as agent:
        (result,) = (await agent.run("go")).steps[0].tool_results
        assert result.is_error
        assert "more than 100,000 bytes" in result.data
    (again,) = await outcome(tools, ("echo", {"text": "still here"}))
    assert again.data == "still here"


async def test_hanging_call_times_out_and_is_cancelled_at_the_server(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    (result,) = await outcome(MCPTools(faulty(diary=diary), timeout_s=0.3), ("hang", {}))
    assert result.is_error
    assert "timed out after 0.3 s" in result.data
    await until(lambda: "notifications/cancelled" in methods(diary))
