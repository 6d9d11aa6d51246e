"""Answers to what a paused run asked, checked as a whole before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from interpose._engine.interrupts import APPROVAL
from interpose.errors import ResumeError
from interpose.interrupts import Approved, Cancelled, OpenInterrupt, Rejected, Resolution, Resolved
from interpose.output import as_type
from interpose.text import to_jsonable
from interpose.tools import ArgumentError

if TYPE_CHECKING:
    from interpose._engine.plan import Plan
    from interpose.tools import Tool

ANSWERS = (Resolved, Approved, Rejected, Cancelled)
APPROVAL_KEYS = ("approved", "editedArgs", "always", "reason")
"""What the payload of an answer to an approval may hold."""
Problem = tuple[str, str]
"""The id of a question, and what is wrong with its answer."""


def checked(
    asked: Iterable[OpenInterrupt],
    answers: Mapping[str, Any],
    plan: Plan,
    tools: Iterable[Tool],
    now: float,
    problems: list[Problem],
) -> tuple[Resolution, ...]:
    """Return each question with its answer, typed; one that is missing, too late or mistyped is added to *problems*."""
    resolutions = []
    by_name = {tool.name: tool for tool in tools}
    for one in asked:
        answer = answers.get(one.id)
        if answer is None:
            problems.append((one.id, "no answer was given"))
        elif one.expires_at is not None and one.expires_at <= datetime.fromtimestamp(now, UTC):
            problems.append((one.id, f"expired at {one.expires_at.isoformat()}"))
        else:
            try:
                resolutions.append(Resolution(one, _typed(one, answer, plan, by_name)))
            except (ValueError, TypeError, RecursionError) as error:
                problems.append((one.id, str(error)))
    return tuple(resolutions)


def refuse(problems: list[Problem]) -> ResumeError:
    """Return the error that lists *problems*."""
    listed = "; ".join(f"{key}: {what}" for key, what in problems)
    return ResumeError(f"the answers do not fit the questions, so nothing ran: {listed}", tuple(problems))


def by_id(given: Any, questions: Iterable[OpenInterrupt]) -> dict[str, Any]:
    """Return answers by id: a mapping as it is, and AG-UI's list of resume entries by what each says.

    Raises:
        ResumeError: it is neither, or answers a question twice.
    """
    asked = {one.id: one for one in questions}
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {key: _from_wire(answer, asked.get(key)) for key, answer in given.items()}
    entries: dict[str, Any] = {}
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ResumeError(f"answers are a mapping by interrupt id, or AG-UI's resume entries; got {given!r:.80}")
    for entry in given:
        key = entry.get("interruptId") if isinstance(entry, Mapping) else None
        if not isinstance(key, str):
            raise ResumeError(
                f"an answer must be a mapping by interrupt id, or AG-UI's resume entries; got {entry!r:.80}"
            )
        if key in entries:
            raise ResumeError("the answers name a question twice", ((key, "answered twice"),))
        entries[key] = _from_wire(entry, asked.get(key))
    return entries


class Unread:
    """An answer on the wire that says something that is not understood: it is refused, and not acted on in part."""

    def __init__(self, why: str) -> None:
        self.why = why


def _from_wire(answer: Any, asked: OpenInterrupt | None) -> Any:
    if not isinstance(answer, Mapping) or "status" not in answer:
        return answer
    if asked is not None and answer.get("interruptId", asked.id) != asked.id:
        return Unread(f"the entry is for another question, {answer['interruptId']!r:.80}")
    call = asked.tool_call if asked is not None else None
    if answer.get("toolCallId") not in (None, call.id if call is not None else None):
        return Unread(f"the entry is about another call, {answer['toolCallId']!r:.80}")
    if answer["status"] == "cancelled":
        return Cancelled()
    if answer["status"] != "resolved":
        return answer  # no status of AG-UI: refused with the other answers of a wrong type
    payload = answer.get("payload")
    if asked is None or asked.definition != APPROVAL:
        return Resolved(payload)
    if isinstance(payload, Mapping):
        if unknown := [key for key in payload if key not in APPROVAL_KEYS]:
            return Unread(f"the payload has {unknown[0]!r:.60}; it may have: {', '.join(APPROVAL_KEYS)}")
        if payload.get("approved") is not True:
            return Rejected(payload.get("reason") or "")
        return Approved(payload.get("editedArgs"), None, payload.get("always"))
    return Approved() if payload is True else Rejected()


def _typed(asked: OpenInterrupt, answer: Any, plan: Plan, tools: Mapping[str, Tool]) -> Any:
    if isinstance(answer, Unread):
        raise ValueError(answer.why)
    if not isinstance(answer, ANSWERS):
        names = ", ".join(kind.__name__ for kind in ANSWERS)
        raise TypeError(f"an answer is one of {names}, got {type(answer).__name__} ({answer!r:.60})")
    if isinstance(answer, Cancelled):
        return answer
    for name in ("by", "reason"):
        said = getattr(answer, name, None)
        if said is not None and not isinstance(said, str):
            raise TypeError(f"{name}= is a text, got {type(said).__name__} ({said!r:.60})")
    if isinstance(answer, Rejected) and not isinstance(answer.reason, str):
        raise TypeError("reason= is a text, got None")
    if asked.definition == APPROVAL and asked.tool_call is not None:
        if isinstance(answer, Resolved):
            raise TypeError("an approval is answered with Approved, Rejected or Cancelled, not with Resolved")
        if isinstance(answer, Approved) and answer.always not in (None, "tool", "arguments"):
            raise ValueError(f"always= is 'tool', 'arguments' or None, got {answer.always!r:.60}")
        if isinstance(answer, Approved) and answer.edited_args is not None:
            _check_edit(asked, answer, tools)
        return answer
    if isinstance(answer, Resolved):
        to_jsonable(answer.payload)
    else:
        raise TypeError(f"this question is answered with Resolved or Cancelled, not with {type(answer).__name__}")
    definition = plan.interrupts.get(asked.definition) if asked.definition is not None else None
    if definition is None and asked.definition is not None:
        raise ValueError(f"no middleware of this agent declares the interrupt {asked.definition!r} any more")
    if definition is None or definition.response is Any:
        return answer
    try:
        payload = as_type(to_jsonable(answer.payload), definition.response, strict=True)
    except ValueError as error:
        raise ValueError(f"the payload does not fit {definition.response}: {error}") from error
    return answer.replace(payload=payload)


def _check_edit(asked: OpenInterrupt, answer: Approved, tools: Mapping[str, Tool]) -> None:
    call = asked.tool_call
    tool = tools.get(call.name) if call is not None else None
    if not isinstance(answer.edited_args, Mapping):
        raise TypeError(f"edited_args must be a mapping, got {type(answer.edited_args).__name__}")
    if tool is None:
        return  # one that `on_config` adds for the run: it validates for itself, when it is there
    try:
        tool.validate(answer.edited_args)
    except ArgumentError as error:
        raise ValueError(f"the edited arguments are invalid: {error}") from error
