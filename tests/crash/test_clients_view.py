"""What an AG-UI client makes of the streams of one thread is what the store has of it, through all pauses."""

import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import ag_ui.core as ag_ui
import pytest
from tests.crash.test_any_mishap import Story

from interpose import Message, RunResult
from interpose.events import messages_to_wire
from interpose.testing import assert_events_valid


class Client:
    """Gathers messages from events, as the protocol says."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def take(self, event: Any) -> None:
        wire = json.loads(event.to_json())
        getattr(ag_ui, type(event).__name__).model_validate(wire)
        match wire["type"]:
            case "TEXT_MESSAGE_START":
                self.message(wire["messageId"])
            case "TEXT_MESSAGE_CONTENT":
                self.message(wire["messageId"])["content"] += wire["delta"]
            case "TOOL_CALL_START":
                calls = self.message(wire["parentMessageId"]).setdefault("toolCalls", [])
                calls.append({"id": wire["toolCallId"], "function": {"name": wire["toolCallName"], "arguments": ""}})
            case "TOOL_CALL_ARGS":
                self.call(wire["toolCallId"])["function"]["arguments"] += wire["delta"]
            case "TOOL_CALL_RESULT":
                found = {"id": wire["messageId"], "role": "tool", "content": wire["content"]}
                self.messages.append(found | {"toolCallId": wire["toolCallId"]})
            case "MESSAGES_SNAPSHOT":
                self.messages = wire["messages"]

    def message(self, id: str) -> dict[str, Any]:
        for one in self.messages:
            if one["id"] == id:
                return one
        self.messages.append({"id": id, "role": "assistant", "content": ""})
        return self.messages[-1]

    def call(self, id: str) -> dict[str, Any]:
        calls = [call for one in self.messages for call in one.get("toolCalls", ())]
        found: dict[str, Any] = next(call for call in calls if call["id"] == id)
        return found


def view(messages: Sequence[Any]) -> list[Any]:
    """Return what is told of messages but the user's; results of a step in one order, as they may come in two runs."""
    told: list[Any] = []
    results: list[Any] = []
    for one in messages:
        if one["role"] == "tool":
            results.append((one["id"], one["toolCallId"], one["content"]))
        elif one["role"] == "assistant":
            calls = [(call["id"], call["function"]["name"], _args(call)) for call in one.get("toolCalls", ())]
            told += [*sorted(results), (one["id"], one.get("content") or "", calls)]
            results = []
    return [*told, *sorted(results)]


def _args(call: Any) -> Any:
    return json.loads(call["function"]["arguments"] or "{}")


class Watched(Story):
    """A story in which all runs are streamed to one client, and nobody dies."""

    def __init__(self, seed: int) -> None:
        self.client = Client()
        super().__init__(seed)

    async def attempt(self, name: str, act: Callable[[], Coroutine[Any, Any, RunResult]]) -> RunResult | None:
        self.told.append(name)
        return await act()

    async def call(self, given: Any = None, **options: Any) -> RunResult:
        async with self.agent.stream(given, **options) as run:
            events = [event async for event in run]
            result = await run.result()
        assert_events_valid(events)
        for event in events:
            self.client.take(event)
        there: Sequence[Message] = result.messages
        if result.status == "finished":
            there = await self.world.store.load("t")
        assert view(self.client.messages) == view(messages_to_wire(there)), "; ".join(self.told)
        return result


@pytest.mark.parametrize("seed", range(100, 108))
async def test_a_clients_messages_are_those_of_the_thread(seed: int) -> None:
    await Watched(seed).play()
