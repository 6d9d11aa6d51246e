"""Settling a run: what it came to, every call answered, stored, and saved where it is paused."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from interpose._engine.interrupts import question
from interpose._engine.journal import persist
from interpose._engine.keys import key_of
from interpose._engine.provider_call import clean_pieces
from interpose._engine.resuming import STRUCTURED
from interpose._engine.saving import whole_checkpoint
from interpose._engine.signals import Note, Rank
from interpose._engine.step import tell_results
from interpose.checkpoint import Checkpoint, seal
from interpose.events import StepFinishedEvent
from interpose.messages import AssistantMessage, ToolMessage, ToolResult
from interpose.outcomes import End, Pause
from interpose.request import ModelResponse
from interpose.result import RunResult
from interpose.text import canonical_json

if TYPE_CHECKING:
    from interpose._engine.run import Run

NOT_RUN = "not executed: the run ended"
CUT_OFF = "cut off while it ran: it may have taken effect, or in part"


async def settle_finished(run: Run, reason: str) -> RunResult:
    """Return the result of a run that came to its end."""
    result = result_of(run, reason)
    if run.agent.store is not None:
        await commit(run)
    return result


async def settle_gracefully(run: Run, note: Note) -> RunResult:
    """Return the result of a run that was ended in good order, every call answered unless the run is paused on it."""
    status: Any = "finished"
    value = note.value
    interrupts: tuple[Any, ...] = ()
    await keep_answer(run, {Rank.LIMIT: "limit", Rank.PAUSE: "interrupt"}.get(note.rank))
    if note.rank is Rank.PAUSE:
        if run.passes:
            waiting = {one.original.id for one in run.passes if one.asked}
            await answer_calls(run, tell=True, waiting=waiting)
        status, reason, interrupts = "interrupted", "interrupt", pause(run, value)
        await save(run, interrupts)
    else:
        await answer_calls(run, tell=True)
        reason = "limit" if note.rank is Rank.LIMIT else value.finish_reason
    if note.rank is Rank.LIMIT:
        run.limit_hit = value
    if isinstance(value, End) and value.text is not None:
        await say_last(run, value.text)
    await close_step(run)
    result = result_of(run, reason, status, interrupts)
    if status == "finished":
        await commit(run)
    return result


def pause(run: Run, value: Pause) -> tuple[Any, ...]:
    """Return what the paused run waits on."""
    if not run.asked:
        run.asked = (question(run, value.reason, value.value),)
    return tuple(run.asked)


async def save(run: Run, interrupts: tuple[Any, ...]) -> None:
    """Save the paused run: in the store, if there is one, and sealed in its result; a nested one in the outer one."""
    run.saved = whole = whole_checkpoint(run, interrupts)
    if run.parent is None:
        run.checkpoint = seal(whole, await key_of(run.agent))
    if run.journal is not None:
        await run.journal.paused(interrupts)
    elif (store := run.agent.store) is not None and run.parent is None:
        replaces = use_up(run)
        await persist(run, lambda: store.put(whole, replaces=replaces))


def use_up(run: Run) -> str | None:
    """Return the run that this one goes on from or settles, and that is dropped as this one is stored."""
    if run.claimed:
        run.claimed = False
        return run.resumed_from
    if run.superseded:
        first, *rest = run.superseded
        run.superseded = tuple(rest)
        return first
    return None


async def keep_answer(run: Run, cut: str | None) -> None:
    """Keep the model's answer of a step that was left before it was settled; of one that was *cut*, the text said."""
    call = run.model_call
    if run.settling is not None or call is None:
        return
    structured = run.phase == STRUCTURED
    narrator = call.narrator
    if narrator is not None and cut == "interrupt" and run.pipe.held is not None:
        narrator.forget()  # what is held back is judged, and told, when the run goes on
        run.pipe.held = None
    elif narrator is not None:
        await narrator.finish()
        run.pipe.release()
    if structured and cut == "interrupt":
        return  # the call for the output is no step: its answer is kept for the layer that paused
    if call.response is not None:
        run.settle_response(call.reached, call.response, call.usage)  # type: ignore[arg-type]  # answered, so reached
        if not call.response.tool_calls:
            run.finish_step(())
    elif cut not in (None, "interrupt") and (text := partial_message(run)) is not None:
        response = ModelResponse(text, cut, call.usage, *reversed(run.names))
        run.settle_response(call.reached, response, call.usage)  # type: ignore[arg-type]  # it spoke, so reached
        run.finish_step(())


def partial_message(run: Run) -> AssistantMessage | None:
    """Return what was said of an answer that was cut, without its calls; None where nothing was."""
    assembly = run.partial_assembly
    if assembly is None:
        return None
    clean_pieces(assembly)
    message = assembly.message()
    if not message.text and not message.reasoning:
        return None
    return message.replace(tool_calls=()) if message.tool_calls else message


async def answer_calls(run: Run, why: str = NOT_RUN, *, tell: bool, waiting: Container[str] = ()) -> None:
    """Answer the calls that are open: with what they came to, or with an error result that says *why*."""
    open_calls = run.history.open
    if not open_calls:
        return
    finished = {one.original.id: one.result for one in run.passes if one.result is not None}
    began = {one.original.id for one in run.passes if one.began}
    results: list[ToolResult] = []
    messages: list[ToolMessage] = []
    calls = [call for message in run.history.messages[-1:] for call in message.tool_calls]
    for call in calls or ():
        if call.id in open_calls and call.id not in waiting:
            result = finished.get(call.id) or call.refuse(CUT_OFF if call.id in began else why)
            results.append(result)
            messages.append(result.message(call.name))
    run.history.extend(messages)
    if tell and run.pipe.active:
        await tell_results(run, tuple(messages))
    if not waiting:
        run.finish_step(tuple(results))


async def say_last(run: Run, text: str) -> None:
    """Make *text* the last assistant message of the run, and tell it."""
    message = AssistantMessage(text)
    if run.pipe.active:
        from interpose._engine.narrator import Narrator

        narrator = Narrator(run.pipe, message.id, run.history.call_ids)
        run.pipe.narrator = narrator
        message = await narrator.narrate(message)
    run.history.extend((message,))
    run.end_text = message.text


async def tidy(run: Run) -> None:
    """Close what a failure left open, where a `wrap_run` layer made a result of it all the same."""
    await keep_answer(run, "error")
    await answer_calls(run, tell=True)
    await close_step(run)
    await commit(run)


async def close_step(run: Run) -> None:
    """Close the step that is open."""
    if run.open_step is not None:
        await run.pipe.send(StepFinishedEvent(run.open_step))
    if run.record is not None and len(run.record.stack) > 1:
        await run.record.pop(run.record.stack[1])


def result_of(run: Run, reason: str, status: Any = "finished", interrupts: tuple[Any, ...] = ()) -> RunResult:
    """Return the result of what was done."""
    messages = run.history.messages
    if run.end_text is not None:
        text = run.end_text
    elif run.output_text is not None:
        text = run.output_text
    else:
        text = run.steps[-1].response.message.text if run.steps else ""
        if run.settling is not None:
            text = run.settling[1].message.text
    return RunResult(
        text=text,
        output=run.output,
        messages=messages,
        new_messages=messages[run.input_end :],
        steps=tuple(run.steps),
        usage=run.usage,
        finish_reason=reason,
        status=status,
        interrupts=interrupts,
        run_id=run.run_id,
        thread_id=run.thread_id,
        checkpoint=run.checkpoint,
    )


async def commit(run: Run, kept: Checkpoint | None = None) -> None:
    """Append what is new to the stored thread, if there is a store; *kept* lets a failed run be gone on with."""
    store = run.agent.store
    if store is None or run.committed:
        return
    journal = run.journal
    if journal is not None:
        await journal.quiet()
        if journal.lost:
            return  # somebody else goes on with it
    run.committed = True
    expected = run.stored
    new = run.history.messages[expected:]
    state = run.thread_state if canonical_json(run.thread_state) != run.thread_state_was else None
    if not new:
        if kept is None and journal is not None and run.parent is None:
            await store.drop(run.run_id)
        if state is not None:
            await store.save_state(run.thread_id, state)
        return
    options = {"expected": expected, "checkpoint": kept, "replaces": use_up(run), "state": state}
    await persist(run, lambda: store.commit(run.thread_id, run.run_id, new, **options))
