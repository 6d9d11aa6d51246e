"""`ResultEviction` and `read_tool`: what leaves the conversation, where it goes, how it is read back."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interpose import Agent, FileBackend, ImagePart, TextPart, ToolCall, ToolMessage, ToolResult, tool
from interpose.builtin import ResultEviction, read_tool
from interpose.testing import MemoryBackend, ScriptedModel, calls, make_context, text


async def evicted(eviction: ResultEviction, data: Any, name: str = "fetch", **fields: Any) -> Any:
    """The data that is left of a result."""
    call = ToolCall(fields.pop("call_id", "c1"), name)
    result = ToolResult(tool_call_id=call.id, data=data, **fields)
    changed = await eviction.after_tool_call(make_context(run_id="run1"), call, result)
    return result if changed is None else changed


def eviction(**options: Any) -> tuple[ResultEviction, MemoryBackend]:
    backend = MemoryBackend()
    return ResultEviction(backend, **options), backend


async def test_long_result_is_written_and_replaced() -> None:
    mine, backend = eviction()
    data = (await evicted(mine, "x" * 8001)).data
    assert list(data) == ["_evicted", "preview", "full_result_path", "estimated_tokens", "note"]
    assert (data["_evicted"], data["estimated_tokens"]) == (True, 2001)
    assert backend.files == {"evicted/run1/fetch/c1.txt": "x" * 8001}


async def test_result_at_the_limit_is_untouched() -> None:
    mine, backend = eviction()
    assert (await evicted(mine, "x" * 8000)).data == "x" * 8000
    assert backend.files == {}


async def test_excluded_tool_is_untouched() -> None:
    mine, backend = eviction(excluded_tools=["fetch"])
    assert (await evicted(mine, "x" * 9000)).data == "x" * 9000
    assert backend.files == {}


async def test_result_that_was_evicted_before_is_untouched() -> None:
    mine, _ = eviction(max_tokens=1)
    data = {"_evicted": True, "preview": "x" * 9000}
    assert (await evicted(mine, data)).data is data


async def test_preview_has_the_beginning_and_the_end() -> None:
    mine, _ = eviction()
    preview = (await evicted(mine, "a" * 4000 + "z" * 4001)).data["preview"]
    assert preview == "a" * 500 + "\n… [7301 characters left out] …\n" + "z" * 200


@pytest.mark.parametrize(("chars", "expected"), [(100, "x" * 50), (0, "\n… [50 characters left out] …\n")])
async def test_preview_of_a_short_text_is_whole(chars: int, expected: str) -> None:
    mine, _ = eviction(max_tokens=1, preview_chars=chars)
    assert (await evicted(mine, "x" * 50)).data["preview"] == expected


async def test_objects_are_written_as_json_with_their_letters() -> None:
    mine, backend = eviction()
    data = (await evicted(mine, {"text": "αβγ" * 3000})).data
    assert data["full_result_path"].endswith(".json")
    assert backend.files[data["full_result_path"]] == '{"text":"' + "αβγ" * 3000 + '"}'


async def test_size_of_an_object_is_counted_without_escapes() -> None:
    mine, _ = eviction(max_tokens=1010)
    assert "_evicted" not in (await evicted(mine, {"k": "\n" * 4000})).data


async def test_errors_are_evicted_and_stay_errors() -> None:
    mine, _ = eviction()
    result = await evicted(mine, "x" * 9000, is_error=True)
    assert (result.is_error, result.tool_call_id, result.data["_evicted"]) == (True, "c1", True)


async def test_path_made_of_hostile_names_stays_in_the_folder() -> None:
    mine, backend = eviction()
    await evicted(mine, "x" * 9000, name="../../etc", call_id="/abs é")
    assert list(backend.files) == ["evicted/run1/______etc/_abs__.txt"]


async def test_texts_of_parts_are_evicted_and_the_picture_stays() -> None:
    mine, backend = eviction()
    picture = ImagePart(url="https://example.org/a.png")
    data = (await evicted(mine, [TextPart("a" * 60_000), picture, TextPart("b" * 60_000)])).data
    assert data[1] is picture
    assert [json.loads(data[0].text)["_evicted"], len(data)] == [True, 2]
    assert list(backend.files.values()) == ["a" * 60_000 + "b" * 60_000]


class Failing:
    async def write(self, path: str, text: str, /) -> None:
        raise OSError("disk full")


async def test_failing_backend_leaves_the_result_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def fetch() -> str:
        return "x" * 9000

    model = ScriptedModel(calls("fetch"), text("done"))
    agent = Agent(model, tools=[fetch], middleware=[ResultEviction(Failing())], post_model_hooks=())
    result = await agent.run("go")
    assert (result.text, result.messages[2].text) == ("done", "x" * 9000)
    assert "disk full" in caplog.text


async def test_backend_that_never_answers_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        async def write(self, path: str, text: str, /) -> None:
            await asyncio.get_running_loop().create_future()

    monkeypatch.setattr("interpose.builtin.result_eviction.WRITE_TIMEOUT_S", 0.01)
    assert (await evicted(ResultEviction(Silent()), "x" * 9000)).data == "x" * 9000


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 40_000, float("nan"), {"n": float("nan"), "x": "x" * 9000}, object()],
    ids=["bytes", "nan", "nan inside", "object"],
)
async def test_odd_data_is_measured_and_written_as_the_model_reads_it(data: Any) -> None:
    mine, backend = eviction()
    result = await evicted(mine, data)
    read = ToolResult(tool_call_id="c1", data=data).text
    assert list(backend.files.values()) == ([] if result.data is data else [read])


async def test_data_that_contains_itself_is_evicted_as_text() -> None:
    loop: list[Any] = ["x" * 9000]
    loop.append(loop)
    mine, backend = eviction()
    assert (await evicted(mine, loop)).data["_evicted"] is True
    assert len(backend.files) == 1


async def test_calls_whose_ids_differ_in_odd_letters_only_keep_a_text_each() -> None:
    @tool
    async def fetch(page: str) -> str:
        return page * 9000

    ids = ["a:1", "a_1", "a/1"]
    backend = MemoryBackend()
    model = ScriptedModel(calls(*[ToolCall(one, "fetch", {"page": one[1]}) for one in ids]), text("done"))
    agent = Agent(model, tools=[fetch], middleware=[ResultEviction(backend)], post_model_hooks=())
    stubs = [json.loads(one) for one in answers((await agent.run("go")).messages)]
    assert [backend.files[stub["full_result_path"]][0] for stub in stubs] == [":", "_", "/"]


async def test_half_characters_in_parts_are_written_as_any_text() -> None:
    mine, backend = eviction()
    await evicted(mine, [TextPart("\ud800" * 9000)])
    assert list(backend.files.values()) == ["\ufffd" * 9000]


# --- reading back ---


def reading(backend: MemoryBackend, model: ScriptedModel, data: str, **options: Any) -> Agent:
    @tool
    async def fetch() -> str:
        return data

    reader = read_tool(backend, **options)
    return Agent(model, tools=[fetch, reader], middleware=[ResultEviction(backend)], post_model_hooks=())


def read_next(request: Any) -> Any:
    stub = json.loads(request.messages[-1].text)
    return calls(("read_result", {"path": stub["full_result_path"]}))


def answers(messages: Sequence[Any]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


async def test_model_reads_the_full_text_and_it_is_not_evicted_again() -> None:
    backend = MemoryBackend()
    model = ScriptedModel(calls("fetch"), read_next, text("done"))
    result = await reading(backend, model, "x" * 8001).run("go")
    assert answers(result.messages)[1] == "x" * 8001
    assert len(backend.files) == 1


async def test_note_names_the_tool_that_reads() -> None:
    model = ScriptedModel(calls("fetch"), text("done"))
    result = await reading(MemoryBackend(), model, "x" * 8001).run("go")
    assert "read_result" in json.loads(answers(result.messages)[0])["note"]


async def test_what_is_read_of_a_long_text_says_where_to_go_on() -> None:
    backend = MemoryBackend()
    lines = "\n".join(["y" * 20_000] * 5)
    model = ScriptedModel(calls("fetch"), read_next, text("done"))
    read = answers((await reading(backend, model, lines).run("go")).messages)[1]
    assert read == "y" * 20_000 + "\n… [characters 0 to 20000 of 100004; go on with offset=20000]"


async def test_reading_goes_on_at_the_offset_to_the_end() -> None:
    backend = MemoryBackend()
    await backend.write("evicted/r/t/c.txt", "0123456789")
    read = read_tool(backend, max_chars=4)
    assert await read("evicted/r/t/c.txt", 8) == "89"
    assert (await read("evicted/r/t/c.txt", 4)).startswith("4567\n")


@pytest.mark.parametrize("offset", [10, 99])
async def test_reading_behind_the_end_says_where_the_end_is(offset: int) -> None:
    backend = MemoryBackend()
    await backend.write("evicted/r/t/c.txt", "0123456789")
    assert await read_tool(backend)("evicted/r/t/c.txt", offset) == (
        f"[the result ends at character 10; there is nothing at offset={offset}]"
    )


async def test_empty_result_is_read_as_one() -> None:
    backend = MemoryBackend()
    await backend.write("evicted/r/t/c.txt", "")
    assert await read_tool(backend)("evicted/r/t/c.txt") == ""


@pytest.mark.parametrize("path", ["evicted/r", "evicted/r/t.txt/c.txt"], ids=["a folder", "below a file"])
async def test_path_that_is_no_file_tells_nothing_of_where_files_are(tmp_path: Path, path: str) -> None:
    backend = FileBackend(tmp_path)
    await backend.write("evicted/r/t.txt", "x")
    with pytest.raises(FileNotFoundError) as caught:
        await read_tool(backend)(path)
    assert str(caught.value) == f"there is no result {path!r}"


@pytest.mark.parametrize("path", ["history/t/r.json", "evicted/../history/x", "evicted", "/etc/passwd", "evicted//x"])
async def test_nothing_but_evicted_results_is_read(path: str) -> None:
    backend = MemoryBackend()
    await backend.write(path, "other")
    with pytest.raises(ValueError, match="full_result_path"):
        await read_tool(backend)(path)


async def test_missing_result_is_an_error_that_tells_no_more_than_the_path() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await read_tool(MemoryBackend())("evicted/r/t/c.txt")
    assert str(caught.value) == "there is no result 'evicted/r/t/c.txt'"


def test_backend_that_cannot_read_is_refused() -> None:
    with pytest.raises(TypeError, match="read"):
        read_tool(Failing())


@pytest.mark.parametrize(
    "options",
    [{"max_tokens": 0}, {"preview_chars": -1}, {"excluded_tools": "fetch"}, {"count_tokens": 4}, {"backend": object()}],
    ids=["no tokens", "negative preview", "one name", "no counter", "no backend"],
)
def test_wrong_options_are_refused(options: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        ResultEviction(**{"backend": MemoryBackend(), **options})
