"""AG-UI's RunAgentInput, and what of it may reach an agent.

Source: the schema of AG-UI 1.0, read 2026-11.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from interpose.events import messages_from_wire
from interpose.ids import random_id
from interpose.messages import Message, ToolMessage, UserMessage
from interpose.server.caller import checked_id
from interpose.server.http import Refusal

INSTRUCTING = ("system", "developer")
ROLES = ("user", "assistant", "tool", "activity", "reasoning", *INSTRUCTING)


class RunAgentInput(Struct, rename="camel", kw_only=True):
    """What a client sends to begin or resume a run; ids that are left out are made."""

    thread_id: str = field(default_factory=lambda: random_id("thread"))
    run_id: str = field(default_factory=lambda: random_id("run"))
    parent_run_id: str | None = None
    state: Any = None
    messages: tuple[dict[str, Any], ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    context: tuple[dict[str, Any], ...] = ()
    forwarded_props: Any = None
    resume: tuple[dict[str, Any], ...] | None = None

    def check(self) -> None:
        """Check ids, roles and answers.

        Raises:
            Refusal: something is wrong; says what.
        """
        checked_id(self.thread_id, "threadId")
        checked_id(self.run_id, "runId")
        if self.parent_run_id is not None:
            checked_id(self.parent_run_id, "parentRunId")
        for place, message in enumerate(self.messages):
            if message.get("role") not in ROLES:
                role = message.get("role")
                raise Refusal(
                    422, "bad_input", f"messages[{place}].role is {role!r:.40}; expected one of {', '.join(ROLES)}"
                )
        for place, answer in enumerate(self.resume or ()):
            if not isinstance(answer.get("interruptId"), str) or answer.get("status") not in ("resolved", "cancelled"):
                raise Refusal(
                    422,
                    "bad_input",
                    f"resume[{place}] needs `interruptId`, and `status`: 'resolved' or 'cancelled'",
                )


def taken_messages(wire: Sequence[Mapping[str, Any]], *, has_store: bool, instructs: bool) -> tuple[Message, ...]:
    """Return the messages of a client that an agent is given.

    Where a store keeps the thread, that is what was said, and only what a person says now is taken: the user's
    messages at the end. Else it is the client who remembers, and all is taken but what a server alone may say: system
    messages, unless *instructs*, and marks of this library on calls.

    Raises:
        Refusal: a message lacks what its role needs.
    """
    given = [message for message in wire if instructs or message.get("role") not in INSTRUCTING]
    if has_store:
        given = _said_last(given)
    try:
        messages = messages_from_wire([_without_marks(message) for message in given])
    except (ValueError, TypeError):
        why = unreadable(wire, lambda one: messages_from_wire([_without_marks(one)]))
        raise Refusal(422, "bad_input", why) from None
    if wrong := out_of_order(messages):
        raise Refusal(422, "bad_input", f"messages: {wrong}")
    return messages


def unreadable(wire: Sequence[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], Any]) -> str:
    """Return which message cannot be *read*, and why."""
    for place, message in enumerate(wire):
        try:
            read(message)
        except KeyError as error:
            return f"messages[{place}]: {error} is missing in it, or in a part of it"
        except Exception as error:
            if isinstance(error.__cause__, KeyError):
                return f"messages[{place}]: {error.__cause__} is missing in it, or in a part of it"
            if error.__cause__ is not None or not isinstance(error, ValueError):
                return f"messages[{place}] or a part of it is not of the shape that was expected"
            return f"messages[{place}]: {error}"
    return "messages do not fit together"


def out_of_order(messages: Sequence[Message]) -> str | None:
    """Return what is wrong with the order of *messages*, if anything: a result must come after its call, and once."""
    asked: set[str] = set()
    for message in messages:
        asked |= {call.id for call in message.tool_calls}
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in asked:
                call = f"{message.tool_call_id!r:.80}"
                return f"a tool message answers the call {call}, which no message before makes, or which was answered"
            asked.discard(message.tool_call_id)
    return None


def _said_last(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    last: list[Mapping[str, Any]] = []
    for message in reversed(messages):
        if message.get("role") in ("activity", "reasoning"):
            continue
        if message.get("role") not in ("user", *INSTRUCTING):
            break
        last.append(message)
    return last[::-1]


def _without_marks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *message* without this library's own marks, but for the reasoning that goes back to a model."""
    clean = dict(message)
    metadata = clean.get("metadata")
    if isinstance(metadata, Mapping):
        own = metadata.get("interpose")
        kept = {key: value for key, value in metadata.items() if key != "interpose"}
        if message.get("role") == "assistant" and isinstance(own, Mapping):
            kept["interpose"] = {key: own[key] for key in ("parts", "reasoning") if key in own}
        clean["metadata"] = kept
    if isinstance(clean.get("toolCalls"), list | tuple):
        clean["toolCalls"] = [
            {key: value for key, value in call.items() if key != "metadata"} if isinstance(call, Mapping) else call
            for call in clean["toolCalls"]
        ]
    return clean


def prompt_of(messages: tuple[Message, ...]) -> str:
    """Return the user's last text, shortened, as what a thread is called."""
    said = next((one.text for one in reversed(messages) if isinstance(one, UserMessage) and one.text), "")
    return " ".join(said.split())[:80]
