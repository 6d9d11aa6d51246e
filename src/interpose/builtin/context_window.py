"""Keeps the request within a number of messages or characters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interpose.builtin.options import check_whole
from interpose.groups import groups_of, insert_note, leading, without
from interpose.messages import Message, ToolMessage
from interpose.middleware import Middleware
from interpose.tokens import Growing

if TYPE_CHECKING:
    from interpose.context import RunContext
    from interpose.request import ModelRequest

NOTICE = "Earlier messages were left out here to keep the conversation short."
TRUNCATED = "\n… [truncated]"


class ContextWindow(Middleware[Any]):
    """Sends the newest part of a long history; what is stored stays whole. No limit unless given.

    First tool results longer than *max_chars_per_tool* characters are cut to it. Then, while the messages after the
    leading system ones are more than *max_messages*, and while their texts sum to more than *max_chars* characters, the
    oldest go, a call always with its results. Leading system messages, the newest user message and the newest message,
    or call with its results, never go, so the request may stay above a limit; `window_over_limit` in the record tells.
    A system message with *notice* stands where something was removed (None for none) and is counted in no limit.
    """

    def __init__(
        self,
        max_messages: int | None = None,
        max_chars: int | None = None,
        max_chars_per_tool: int | None = None,
        notice: str | None = NOTICE,
    ) -> None:
        given = {"max_messages": max_messages, "max_chars": max_chars, "max_chars_per_tool": max_chars_per_tool}
        for name, limit in given.items():
            if limit is not None:
                check_whole(name, limit, 1, ", or None for no limit")
        if notice is not None and not isinstance(notice, str):
            raise TypeError(f"notice must be a text, or None for none, got {notice!r:.80}")
        self._max_messages = max_messages
        self._max_chars = max_chars
        self._max_chars_per_tool = max_chars_per_tool
        self._notice = notice

    def before_model_call(self, ctx: "RunContext[Any]", request: "ModelRequest") -> "ModelRequest | None":
        """Cut the request of one step."""
        messages = request.messages
        state = ctx.private(self)
        if self._max_chars_per_tool is not None:
            messages = self._cap_tools(state, messages)
        start = leading(messages)
        count = len(messages) - start
        chars = 0
        if self._max_chars is not None:
            known: Growing = state.get("chars") or state.setdefault("chars", Growing(_length))
            chars = known.sum(messages) - sum(map(_length, messages[:start]))
        is_cut = False
        if self._is_over(count, chars):
            gone, is_over = self._removed(messages, count, chars)
            if gone:
                is_cut = True
                messages = self._noted(messages, gone)
            if is_over:
                ctx.meta(window_over_limit=True)
        ctx.meta(window_cut=is_cut, messages_sent=len(messages), messages_original=len(request.messages))
        return None if messages is request.messages else request.with_messages(messages)

    def _is_over(self, count: int, chars: int) -> bool:
        too_many = self._max_messages is not None and count > self._max_messages
        return too_many or (self._max_chars is not None and chars > self._max_chars)

    def _removed(self, messages: Sequence[Message], count: int, chars: int) -> tuple[set[int], bool]:
        """Return the positions of what goes, and whether a limit is still passed then."""
        gone: set[int] = set()
        for group in groups_of(messages):
            if not self._is_over(count, chars):
                break
            if group.may_go:
                gone.update(group.places)
                count -= len(group.places)
                chars -= sum([len(messages[place].text) for place in group.places])
        return gone, self._is_over(count, chars)

    def _noted(self, messages: Sequence[Message], gone: set[int]) -> tuple[Message, ...]:
        kept = without(messages, gone)
        if self._notice is not None:
            insert_note(kept, min(gone), self._notice)
        return tuple(kept)

    def _cap_tools(self, state: dict[Any, Any], messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return *messages* with long tool results cut; once in a run, so that later layers meet the same object."""
        known: Growing = state.get("long") or state.setdefault("long", Growing(self._is_long))
        if not known.sum(messages):
            return messages
        capped: dict[int, tuple[Message, Message]] = state.setdefault("capped", {})
        for message in messages:
            if isinstance(message, ToolMessage) and id(message) not in capped and self._is_long(message):
                text = message.text[: self._max_chars_per_tool] + TRUNCATED
                capped[id(message)] = (message, message.replace(text=text))
        return tuple([capped[id(m)][1] if id(m) in capped else m for m in messages])

    def _is_long(self, message: Message) -> bool:
        return message.role == "tool" and len(message.text) > (self._max_chars_per_tool or 0)


def _length(message: Message) -> int:
    return len(message.text)
