"""What an AG-UI request goes on with: the paused run whose questions it answers, or whose calls its client has run."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from interpose.agent import Agent
from interpose.errors import ResumeError
from interpose.interrupts import OpenInterrupt
from interpose.server.ag_ui_input import RunAgentInput
from interpose.server.caller import kept_id
from interpose.server.client_tools import calls_of_client
from interpose.server.runs import Paused, Runs


class GoingOn(NamedTuple):
    """A run that is gone on with: its id in the store, or its checkpoint, and AG-UI's answers to its questions."""

    run: Any
    answers: Sequence[Mapping[str, Any]]


async def going_on(runs: Runs, name: str, owner: str, given: RunAgentInput) -> GoingOn | None:
    """Return what *given* goes on with; None where it begins something new.

    An empty list of answers, with the id of a run that was cut, goes on with that run.

    Raises:
        ResumeError: it answers what nobody asks.
    """
    agent: Agent[Any] = runs.agents[name]
    thread_id = kept_id(owner, given.thread_id)
    parent = kept_id(owner, given.parent_run_id) if given.parent_run_id else None
    results = results_of(given.messages) if runs.options.client_tools else {}
    if given.resume is None and not results:
        return None
    await runs.thread_is_free(name, thread_id)
    if given.resume is not None and not given.resume and parent is not None and agent.store is not None:
        if not await runs.is_own(name, parent):
            raise ResumeError(f"run {parent!r} is not known here, or there is nothing of it to go on with")
        return GoingOn(parent, ())
    ids = {answer["interruptId"] for answer in given.resume or ()}
    for run, asked in await _waiting(runs, name, agent, thread_id, parent):
        answers = [*(given.resume or ()), *_ran(asked, results, ids)]
        if {answer["interruptId"] for answer in answers} & {one.id for one in asked}:
            return GoingOn(run, answers)
    if ids:
        problems = tuple((id, "no such question is open") for id in sorted(ids))
        raise ResumeError("the answers do not fit the questions, so nothing ran", problems)
    return None


async def _waiting(
    runs: Runs, name: str, agent: Agent[Any], thread_id: str, parent: str | None
) -> list[tuple[Any, Sequence[OpenInterrupt]]]:
    """Return the paused runs of a thread with what they ask, the one that is named first."""
    if agent.store is None:
        kept = runs.paused.get((name, thread_id))
        return [] if kept is None else [(kept, kept.interrupts)]
    found = sorted(await agent.store.paused(thread_id), key=lambda one: one.run_id != parent)
    return [(one.run_id, one.interrupts) for one in found if await runs.is_own(name, one.run_id, one.agent)]


def _ran(asked: Sequence[OpenInterrupt], results: Mapping[str, Any], answered: set[str]) -> list[dict[str, Any]]:
    """Return the answers that a client's tool messages are."""
    return [
        {"interruptId": one.id, "status": "resolved", "payload": results[one.tool_call.id]}
        for one in calls_of_client(asked)
        if one.tool_call is not None and one.tool_call.id in results and one.id not in answered
    ]


def results_of(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the tool messages after the last answer say, by the ids of their calls."""
    found: dict[str, Any] = {}
    for message in reversed(messages):
        if message.get("role") == "assistant":
            break
        if message.get("role") == "tool" and isinstance(message.get("toolCallId"), str):
            found[message["toolCallId"]] = message.get("content")
    return found


class Claimed:
    """Takes a paused run that is kept in memory, so that it is gone on with once; gives it back where that fails."""

    def __init__(self, runs: Runs, name: str, going: GoingOn) -> None:
        self._paused = runs.paused
        self._kept = going.run if isinstance(going.run, Paused) else None
        self._key = (name, self._kept.thread_id) if self._kept is not None else ("", "")
        self.run = going.run if self._kept is None else self._kept.checkpoint

    def __enter__(self) -> "Claimed":
        if self._kept is not None and self._paused.pop(self._key, None) is not self._kept:
            raise ResumeError(f"run {self._kept.run_id!r} is being resumed, or was resumed already")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._kept is not None:
            self._paused.setdefault(self._key, self._kept)
