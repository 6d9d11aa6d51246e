"""The narrator: tells one answer of a model as events, and keeps account of what is open and what was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.chunks import CALL_EVENTS, CONTENTS, ENDS, STARTS, subject_of
from interpose.events import (
    CustomEvent,
    Event,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from interpose.ids import create_id, message_id
from interpose.messages import AssistantMessage, ReasoningPart, TextPart, ToolCall
from interpose.models.base import UNNAMED, Assembly, PendingCall
from interpose.text import clean

if TYPE_CHECKING:
    from interpose._engine.chunks import Pipe

SUPERSEDED = "interpose.superseded"
OUTPUT_START = "structured-output.start"


class OpenMessage:
    """The text or reasoning message that is being told; its start waits for the first content that survives."""

    __slots__ = ("carry", "content", "end", "id", "is_text", "pieces", "start", "started")

    def __init__(self, id: str, is_text: bool, pieces: list[str]) -> None:
        self.id = id
        self.is_text = is_text
        self.pieces = pieces
        self.content: type = TextMessageContentEvent if is_text else ReasoningMessageContentEvent
        self.end: type = TextMessageEndEvent if is_text else ReasoningMessageEndEvent
        self.start: list[Event] = []
        self.started = False
        self.carry = ""


class Narrator:
    """Tells the answers of one model call. What was shown and is then replaced is superseded, under a new id."""

    def __init__(self, pipe: Pipe, first_id: str, taken: set[str]) -> None:
        self.pipe = pipe
        self.taken = taken
        self.message_id = first_id
        self.assembly = Assembly(first_id, taken)
        self.message: OpenMessage | None = None
        self.open_calls: dict[str, PendingCall | ToolCall | None] = {}
        self.hidden_calls: dict[str, int] = {}
        self.shown_text: list[str] = []
        self.shown_calls: list[str] = []
        self.gone_calls: set[str] = set()
        self.told: AssistantMessage | None = None
        self.fresh = True

    def open_text(self) -> str:
        """Return the text of the open message, or of the last one."""
        message = self.message
        return "".join(message.pieces) if message is not None and message.is_text else self.last_text

    last_text = ""
    announces = False
    superseded = 0
    """How often what was shown was taken back."""
    """Whether the text is to be announced as structured output."""

    def begin(self) -> Assembly:
        """Begin another answer and return its assembly; the first has the id that `on_step` was told."""
        if not self.fresh:
            self.message_id = message_id()
        self.fresh = False
        self.told = None
        self.assembly = Assembly(self.message_id, self.taken)
        return self.assembly

    async def text(self, delta: str) -> None:
        """Tell a piece of text."""
        message = self.message
        if message is None or not message.is_text:
            message = await self._open(True)
        await self._content(message, delta)

    async def reasoning(self, delta: str, signature: str | None) -> None:
        """Tell a piece of reasoning."""
        message = self.message
        if message is None or message.is_text:
            if not delta:
                self.assembly.reasoning("", signature)
                return
            message = await self._open(False)
        if delta:
            await self._content(message, delta)
        if signature is not None:
            self.assembly.reasoning("", signature)
            await self._close_message()

    async def _open(self, is_text: bool) -> OpenMessage:
        await self._close_message()
        if self.open_calls:
            await self._close_calls()
        if is_text:
            first = self.message_id not in self.shown_text
            message = OpenMessage(self.message_id if first else message_id(), True, self.assembly.text_pieces())
            start: Event = TextMessageStartEvent(message.id, "assistant")
        else:
            self.assembly.reasoning("", None)
            message = OpenMessage(create_id("reasoning"), False, self.assembly.items[-1].pieces)  # type: ignore[union-attr]  # just made
            start = ReasoningMessageStartEvent(message.id, "reasoning")
        if is_text and self.announces:
            self.announces = False
            await self.pipe.send(CustomEvent(OUTPUT_START, {"messageId": message.id}))
        self.message = message
        message.start = await self.pipe.through(start) or [start]
        if not any(one.__class__ in STARTS for one in message.start):
            message.start.insert(0, start)
        return message

    async def _content(self, message: OpenMessage, delta: str) -> None:
        if message.carry or not delta.isascii():
            delta, message.carry = _whole(message.carry + delta)
        if delta:
            await self.deliver(message, await self.pipe.through(message.content(message.id, delta)))

    async def deliver(self, message: OpenMessage, events: list[Event]) -> None:
        """Hand on what came out of the pipe for *message*, and remember its content."""
        pipe = self.pipe
        for event in events:
            kind = event.__class__
            if kind in CONTENTS:
                if event.delta:  # type: ignore[attr-defined]  # is content
                    if not message.started:
                        self._send_start(message)
                    message.pieces.append(event.delta)  # type: ignore[attr-defined]  # is content
                    pipe.put(event)
            elif kind in ENDS:
                if message.started:
                    pipe.put(event)
                    if not message.is_text:
                        pipe.put(ReasoningEndEvent(message.id))
            elif kind not in STARTS:
                pipe.put(event)
        await pipe.room()

    def _send_start(self, message: OpenMessage) -> None:
        message.started = True
        if message.is_text:
            self.shown_text.append(message.id)
        else:
            self.pipe.put(ReasoningStartEvent(message.id))
        for event in message.start:
            self.pipe.put(event)

    async def _close_message(self) -> None:
        message = self.message
        if message is None:
            return
        if message.carry:
            carry, message.carry = message.carry, ""
            await self.deliver(message, await self.pipe.through(message.content(message.id, clean(carry))))
        end = message.end(message.id)
        events = await self.pipe.through(end)
        if not any(one.__class__ in ENDS for one in events):
            events.append(end)
        await self.deliver(message, events)
        if message.is_text:
            self.last_text = "".join(message.pieces)
        self.message = None

    async def call(self, call: PendingCall, args: str) -> None:
        """Tell a piece of a tool call, once its name is known."""
        await self._close_message()
        if call.id not in self.open_calls:
            if not call.name:
                return
            args = "".join(call.args)
            await self._start_call(call)
        if args:
            await self._call_event(call.id, ToolCallArgsEvent(call.id, clean(args)))

    async def whole_call(self, call: ToolCall) -> None:
        """Tell a tool call that is known whole."""
        await self._close_message()
        await self._start_call(call)
        await self._call_event(call.id, ToolCallArgsEvent(call.id, call.args_json))

    async def _start_call(self, call: PendingCall | ToolCall) -> None:
        start = ToolCallStartEvent(call.id, clean(call.name) or UNNAMED, self.message_id)
        if not await self._call_event(call.id, start):
            self.hidden_calls[call.id] = self.pipe.dropped_at + 1
        self.open_calls[call.id] = call

    async def _call_event(self, call_id: str, event: Event) -> bool:
        """Pipe an event of a call; return whether it was sent."""
        sent = False
        for one in await self.pipe.through(event, self.hidden_calls.get(call_id)):
            if one.__class__ in CALL_EVENTS:
                if call_id in self.hidden_calls:
                    continue
                sent = sent or one.__class__ is event.__class__
                if one.__class__ is ToolCallStartEvent:
                    self.open_calls[call_id] = None
                    self.shown_calls.append(call_id)
            self.pipe.put(one)
        await self.pipe.room()
        return sent

    async def _close_calls(self) -> None:
        for call_id in list(self.open_calls):
            if not await self._call_event(call_id, ToolCallEndEvent(call_id)) and call_id not in self.hidden_calls:
                self.pipe.put(ToolCallEndEvent(call_id))
            self.open_calls.pop(call_id, None)

    async def finish(self) -> None:
        """Close what is open: the answer is whole."""
        await self._close_message()
        for call in self.assembly.calls:
            if not call.name and call.id not in self.open_calls:
                await self._start_call(call)
        if self.open_calls:
            await self._close_calls()

    async def supersede(self, calls_only: bool = False) -> None:
        """Close what is open, and say that what was shown no longer counts; nothing where nothing was shown."""
        await self.finish()
        value: dict[str, Any] = {}
        if self.shown_text and not calls_only:
            value["messageId"] = self.shown_text[0]
        if self.shown_calls:
            value["toolCallIds"] = list(self.shown_calls)
        if value:
            self.superseded += 1
            held = self.pipe.held
            if held is not None:
                gone = {*self.shown_text, *self.shown_calls}
                held[:] = [event for event in held if subject_of(event) not in gone]
            else:
                await self.pipe.send(CustomEvent(SUPERSEDED, value))
        if not calls_only:
            self.shown_text.clear()
        self.gone_calls.update(self.shown_calls)
        self.shown_calls.clear()
        self.hidden_calls.clear()

    async def narrate(self, message: AssistantMessage) -> AssistantMessage:
        """Tell a message that no stream told, under a fresh id; return it as it left the pipe."""
        assembly = self.begin()
        for part in message.content():
            match part:
                case TextPart():
                    await self.text(part.text)
                case ReasoningPart():
                    await self.reasoning(part.text, part.signature)
                case ToolCall():
                    await self.whole_call(part)
                    assembly.items.append(part)  # type: ignore[arg-type]  # a whole call stands for itself
                case _:
                    await self._close_message()
                    assembly.items.append(part)  # type: ignore[arg-type]  # parts that are no events stay as they are
        await self.finish()
        told = assembly.message()
        self.told = told if message.metadata is None else told.replace(metadata=message.metadata)
        return self.told

    def close_silently(self) -> None:
        """Close what is open after a failure, without the pipe."""
        message, self.message = self.message, None
        if message is not None and message.started:
            self.pipe.put(message.end(message.id))
            if not message.is_text:
                self.pipe.put(ReasoningEndEvent(message.id))
        for call_id in self.open_calls:
            if call_id not in self.hidden_calls:
                self.pipe.put(ToolCallEndEvent(call_id))
        self.open_calls.clear()

    def take_as_told(self, message: AssistantMessage) -> None:
        """Take it that *message* was shown, before a pause."""
        self.told = message
        self.fresh = False
        if message.text:
            self.shown_text.append(message.id)
        self.shown_calls.extend([call.id for call in message.tool_calls])

    def forget(self) -> None:
        """Take it that nothing was opened: what was told is held back and will never be sent."""
        self.message = None
        self.open_calls.clear()
        self.shown_text.clear()
        self.shown_calls.clear()

    async def flush_message(self) -> None:
        """Close the open message, through the pipe, so that a guard can hand out what it holds."""
        await self._close_message()


def _whole(text: str) -> tuple[str, str]:
    """Return *text* clean, and the half of a character at its end that waits for its other half."""
    if text and "\ud800" <= text[-1] <= "\udbff":
        return clean(text[:-1]), text[-1]
    return clean(text), ""
