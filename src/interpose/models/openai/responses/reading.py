"""What Responses answers, as our chunks: a whole response, or the events of one.

Source: the API reference of Responses and the types of the `openai` package 3.57, read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any

from interpose.messages import ProviderPart
from interpose.models.base import (
    Finish,
    MessageStart,
    ModelChunk,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageUpdate,
)
from interpose.models.openai.reading import Nonsense
from interpose.models.openai.responses.history import CALL_NOTE, MESSAGE_NOTE
from interpose.models.openai.responses.reasoning import BETWEEN, TYPE, shown_of, signature_of, text_of
from interpose.request import Usage

_INCOMPLETE = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "content_filter"}
_ENDED = ("completed", "incomplete")
_CALL_FIELDS = frozenset({"id", "type", "status", "call_id", "name", "arguments"})


class Failed(Exception):
    """The response failed; *error* is what it says of that."""

    def __init__(self, error: Any) -> None:
        self.error: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": str(error)}
        super().__init__(str(self.error.get("message") or "the response failed"))


def from_wire(
    response: Mapping[str, Any], names: Mapping[str, str] | None = None, provider: str = ""
) -> list[ModelChunk]:
    """Return what a whole response says; *names* maps the names on the wire to those of the tools.

    What only the vendor understands is marked as *provider*'s.

    Raises:
        Failed: it failed.
        Nonsense: it is no response.
    """
    reader = ResponsesReader(names or {}, provider)
    return [*reader.read_whole(response), *reader.end()]


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Return the usage that a response tells; details that are not told stay unknown."""
    read = usage.get("input_tokens_details") or {}
    written = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        total_tokens=usage.get("total_tokens"),
        cache_read_tokens=read.get("cached_tokens"),
        cache_write_tokens=read.get("cache_write_tokens"),
        reasoning_tokens=written.get("reasoning_tokens"),
    )


class _Item:
    """An item of the answer while it comes in: how much was told of it, and, of a call, its number among the calls.

    *follows* says that it stands right behind reasoning.
    """

    __slots__ = ("call", "follows", "is_done", "shown", "told")

    def __init__(self, follows: bool) -> None:
        self.call: int | None = None
        self.follows = follows
        self.shown = ""
        self.told = 0
        self.is_done = False


class ResponsesReader:
    """Reads one response, event by event or as a whole. *names* maps the names on the wire to those of the tools.

    What only the vendor understands is marked as *provider*'s.
    Servers differ in what they send beside the deltas: what an item holds when it is done, and was not told before, is
    told then.
    """

    __slots__ = (
        "_after_reasoning",
        "_calls",
        "_finish",
        "_is_refused",
        "_items",
        "_message_id",
        "_names",
        "_provider",
        "_said",
    )

    def __init__(self, names: Mapping[str, str], provider: str = "") -> None:
        self._names = names
        self._provider = provider
        self._items: dict[Any, _Item] = {}
        self._calls = 0
        self._after_reasoning = False
        self._finish: Finish | None = None
        self._is_refused = False
        self._message_id = ""
        self._said: list[ModelChunk] = []

    def read(self, event: Any) -> list[ModelChunk]:
        """Return what *event* says, without what stands at the end.

        Raises:
            Failed: the response failed.
            Nonsense: it is no event.
        """
        if event.__class__ is dict and event.get("type") == "response.output_text.delta":  # nearly all are of this kind
            delta = event.get("delta")
            if delta.__class__ is str:
                self._item(event).told += len(delta)
                return [TextDelta(delta)] if delta else []
        if event.__class__ is dict and event.get("object") == "response":
            return self.read_whole(event)  # of a server that does not stream
        self._said = []
        try:
            handler = _HANDLERS.get(event["type"])
            if handler is not None:
                handler(self, event)
        except (AttributeError, KeyError, TypeError) as error:
            raise Nonsense(f"{str(event)[:200]!r}") from error
        return self._said

    def read_whole(self, response: Any) -> list[ModelChunk]:
        """Return what a whole response says, without what stands at the end.

        Raises:
            Failed: it failed.
            Nonsense: it is no response.
        """
        self._said = []
        try:
            if response.get("error"):
                raise Failed(response["error"])
            self._start({"response": response})
            for number, item in enumerate(response["output"]):
                self._done({"item": item, "output_index": number})
            self._ended({"response": response})
        except (AttributeError, KeyError, TypeError) as error:
            raise Nonsense(f"{str(response)[:200]!r}") from error
        return self._said

    def end(self) -> list[ModelChunk]:
        """Return what stands at the end: the reason to finish, if there was one."""
        return [] if self._finish is None else [self._finish]

    # One method for each kind of event.

    def _own(self, data: dict[str, Any]) -> None:
        self._said.append(ProviderPart(data, self._provider))

    def _start(self, event: Mapping[str, Any]) -> None:
        id = event["response"].get("id")
        if id and id != self._message_id:
            self._message_id = str(id)
            self._said.append(MessageStart(self._message_id))

    def _item(self, event: Mapping[str, Any]) -> _Item:
        """Return the item that an event is about: by its place in the output, else by its id."""
        key = event.get("output_index")
        if key is None:
            key = event.get("item_id") or (event.get("item") or {}).get("id")
        item = self._items.get(key)
        if item is None:
            item = self._items[key] = _Item(self._after_reasoning)
            self._after_reasoning = False
        return item

    def _added(self, event: Mapping[str, Any]) -> None:
        item = event["item"]
        if item["type"] == "function_call":
            self._begin_call(self._item(event), item)

    def _begin_call(self, state: _Item, item: Mapping[str, Any]) -> None:
        if state.call is None:
            state.call = self._calls
            self._calls += 1
            name = item.get("name") or ""
            args = item.get("arguments") or ""
            state.told = len(args)
            self._said.append(ToolCallDelta(state.call, item.get("call_id"), self._names.get(name, name) or None, args))

    def _arguments(self, event: Mapping[str, Any]) -> None:
        state = self._item(event)
        if state.call is None:  # a server that announces no item
            self._begin_call(state, event)
        state.told += len(event["delta"])
        self._said.append(ToolCallDelta(state.call, args=event["delta"]))

    def _refusal(self, event: Mapping[str, Any]) -> None:
        self._is_refused = True
        self._text(event)

    def _text(self, event: Mapping[str, Any]) -> None:
        self._item(event).told += len(event["delta"])
        if event["delta"]:
            self._said.append(TextDelta(event["delta"]))

    def _thought(self, event: Mapping[str, Any], shown: str, number: Any) -> None:
        """Tell a piece of reasoning: of the summary or of the content, whichever came first."""
        state = self._item(event)
        state.shown = state.shown or shown
        if state.shown != shown:
            return
        told = event["delta"]
        if number is not None:
            told = BETWEEN * max(number - state.told, 0) + told
            state.told = number
        if told:
            self._said.append(ReasoningDelta(told))

    def _summary(self, event: Mapping[str, Any]) -> None:
        self._thought(event, "summary", event.get("summary_index"))

    def _content(self, event: Mapping[str, Any]) -> None:
        self._thought(event, "content", event.get("content_index"))

    def _done(self, event: Mapping[str, Any]) -> None:
        item, state = event["item"], self._item(event)
        if state.is_done:
            return
        state.is_done = True
        kind = item["type"]
        if kind == TYPE:
            self._reasoning_done(item, state)
        elif kind == "message":
            self._message_done(item, state)
        elif kind == "function_call":
            self._call_done(item, state)
        else:
            self._own(dict(item))

    def _reasoning_done(self, item: Mapping[str, Any], state: _Item) -> None:
        text = "" if state.shown else text_of(item, shown_of(item))
        shown = state.shown or shown_of(item)
        self._said.append(ReasoningDelta(text, signature_of(item, shown, self._provider)))
        self._after_reasoning = True

    def _message_done(self, item: Mapping[str, Any], state: _Item) -> None:
        contents = item.get("content") or ()
        self._is_refused = self._is_refused or any(one.get("type") == "refusal" for one in contents)
        text = "".join([one.get("text") or one.get("refusal") or "" for one in contents])
        if text and not state.told:
            self._said.append(TextDelta(text))
        notes = [note for one in contents for note in one.get("annotations") or ()]
        self._note(MESSAGE_NOTE, state, item, {"phase": item.get("phase"), "annotations": notes})

    def _call_done(self, item: Mapping[str, Any], state: _Item) -> None:
        self._begin_call(state, item)
        args = item.get("arguments") or ""
        if args and not state.told:
            self._said.append(ToolCallDelta(state.call, args=args))
        more = {key: value for key, value in item.items() if key not in _CALL_FIELDS}
        self._note(CALL_NOTE, state, item, more)

    def _note(self, kind: str, state: _Item, item: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        """Tell what an item says beside its text or arguments, and the id of one that reasoning belongs to."""
        told = {"id": item.get("id") if state.follows else None, **more}
        told = {key: value for key, value in told.items() if value}
        if told:
            call = {"call_id": item["call_id"]} if kind == CALL_NOTE else {}
            self._own({"type": kind, **call, **told})

    def _ended(self, event: Mapping[str, Any]) -> None:
        response = event["response"]
        status = response.get("status") or "completed"
        if status not in _ENDED or response.get("error"):
            raise Failed(response.get("error") or {"message": f"the response is {status}"})
        if not self._items:  # a server that tells its items at the end alone
            for number, item in enumerate(response.get("output") or ()):
                self._done({"item": item, "output_index": number})
        if isinstance(response.get("usage"), Mapping):
            self._said.append(UsageUpdate(usage_of(response["usage"])))
        if status == "incomplete":
            why = (response.get("incomplete_details") or {}).get("reason")
            self._finish = Finish(_INCOMPLETE.get(str(why), "unknown"))
        elif self._is_refused:
            self._finish = Finish("content_filter")
        else:
            self._finish = Finish("tool_calls" if self._calls else "stop")

    def _failed(self, event: Mapping[str, Any]) -> None:
        told = {key: event.get(key) for key in ("code", "message")}
        raise Failed((event.get("response") or {}).get("error") or told)


_HANDLERS: dict[str, Callable[[ResponsesReader, Mapping[str, Any]], None]] = {
    "response.created": ResponsesReader._start,
    "response.output_item.added": ResponsesReader._added,
    "response.output_text.delta": ResponsesReader._text,
    "response.refusal.delta": ResponsesReader._refusal,
    "response.reasoning_summary_text.delta": ResponsesReader._summary,
    "response.reasoning_text.delta": ResponsesReader._content,
    "response.function_call_arguments.delta": ResponsesReader._arguments,
    "response.output_item.done": ResponsesReader._done,
    "response.completed": ResponsesReader._ended,
    "response.incomplete": ResponsesReader._ended,
    "response.failed": ResponsesReader._failed,
    "error": ResponsesReader._failed,
}
