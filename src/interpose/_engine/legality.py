"""Whether a history may be sent: every tool call has exactly one result after it, no result lacks its call.

A history is legal if, after each assistant message with calls, the very next messages answer each of them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from interpose.errors import HistoryError
from interpose.messages import AssistantMessage, Message, ToolCall, ToolMessage

NO_IDS: frozenset[str] = frozenset()


class History:
    """The engine's own list of messages, taken account of as it grows: which call ids are taken, and what is open.

    What a caller hands in may be broken; `mend` makes it legal.
    """

    __slots__ = ("_call_ids", "legal", "messages", "open", "said")

    def __init__(self) -> None:
        self.messages: tuple[Message, ...] = ()
        self._call_ids: set[str] | None = None
        self.open: dict[str, str] = {}
        self.said: frozenset[str] | set[str] = NO_IDS
        self.legal = True

    @property
    def call_ids(self) -> set[str]:
        """The ids of calls that are taken; made when first asked for, as a run that waits has no need of it."""
        if self._call_ids is None:
            self._call_ids = set()
        return self._call_ids

    def add_answer(self, message: AssistantMessage) -> None:
        """Append what the model said, with call ids that are free."""
        self.messages = (*self.messages, message)
        if self.said.__class__ is frozenset:
            self.said = {*self.said}
        self.said.add(message.id)  # type: ignore[union-attr]  # a set, as of here
        for call in message.tool_calls:
            self.call_ids.add(call.id)
            self.open[call.id] = call.name

    def add_results(self, messages: tuple[ToolMessage, ...]) -> None:
        """Append the results of open calls."""
        self.messages = (*self.messages, *messages)
        for message in messages:
            self.open.pop(message.tool_call_id, None)

    def extend(self, messages: Sequence[Message]) -> None:
        """Append *messages*, which may be many: a thread, or what a caller hands in.

        A call whose result comes next, which is what most histories hold, is taken in one go.
        """
        self.messages = (*self.messages, *messages) if self.messages else tuple(messages)
        waiting = self.open
        taken: set[str] | None = None
        rest = iter(messages)
        for message in rest:
            if waiting:
                self._add(message)
            elif calls := message.tool_calls:
                call_id, answer = calls[0].id, next(rest, None)
                if taken is None:
                    taken = self.call_ids
                if len(calls) == 1 and answer is not None and answer.tool_call_id == call_id and call_id not in taken:
                    taken.add(call_id)
                    continue
                self._add(message)
                if answer is not None:
                    self._add(answer)
            elif message.tool_call_id is not None:
                self._add(message)

    def _add(self, message: Message) -> None:
        """Take account of one message."""
        if message.__class__ is ToolMessage:
            if self.open.pop(message.tool_call_id, None) is None:
                self.legal = False
            return
        if self.open:
            self.legal = False
        if message.tool_calls and not self._take(message.tool_calls):
            self.legal = False

    def _take(self, calls: tuple[ToolCall, ...]) -> bool:
        """Take account of *calls*, which wait for their results; False where an id of theirs is taken."""
        taken, free = self.call_ids, True
        for call in calls:
            free = free and call.id not in taken
            taken.add(call.id)
            self.open[call.id] = call.name
        return free

    def mend(self, text: str) -> tuple[ToolMessage, ...]:
        """Make a history that was handed in legal, and return the results that were added.

        Results move behind their calls, the newest of several wins, and calls left open before the last messages are
        answered with the error *text*.

        Raises:
            HistoryError: a result answers no call, or a call id is used twice.
        """
        messages, self.messages = self.messages, ()
        self.call_ids.clear()
        self.open.clear()
        self.legal = True
        mended, added = _mended(messages, text)
        self.extend(mended)
        return added


def _mended(messages: Sequence[Message], text: str) -> tuple[list[Message], tuple[ToolMessage, ...]]:
    results = {m.tool_call_id: m for m in messages if m.__class__ is ToolMessage}
    last = max((i for i, m in enumerate(messages) if m.__class__ is not ToolMessage), default=-1)
    mended: list[Message] = []
    added: list[ToolMessage] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        if message.__class__ is ToolMessage:
            continue
        mended.append(message)
        for call in message.tool_calls:
            if call.id in seen:
                raise HistoryError(f"the messages handed in use the call id {call.id!r} twice; ids must differ")
            seen.add(call.id)
            result = results.pop(call.id, None)
            if result is None and index != last:
                result = ToolMessage(text, call.id, True, call.name)
                added.append(result)
            if result is not None:
                mended.append(result)
    if results:
        raise HistoryError(f"the messages handed in have a result for {next(iter(results))!r}, but no such call")
    return mended, tuple(added)


def problem(messages: Iterable[Message]) -> str | None:
    """Return what a provider would refuse *messages* for, or None."""
    waiting: dict[str, None] = {}
    seen: set[str] = set()
    for message in messages:
        kind = message.__class__
        if kind is ToolMessage:
            call_id = message.tool_call_id
            if call_id not in waiting:
                reason = "a second result for it" if call_id in seen else "no call before it"
                return f"the result of call {call_id!r} has {reason}"
            del waiting[call_id]
            continue
        if waiting:
            return f"the call {next(iter(waiting))!r} has no result before the next message"
        if kind is AssistantMessage and message.tool_calls:
            for call in message.tool_calls:
                if call.id in seen:
                    return f"the call id {call.id!r} is used twice"
                seen.add(call.id)
                waiting[call.id] = None
    if waiting:
        return f"the call {next(iter(waiting))!r} has no result"
    return None
