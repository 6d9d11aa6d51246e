"""How a run ends: in good order, failed, or aborted; then exactly one terminal hook, and nothing left behind."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError, current_task
from typing import TYPE_CHECKING, Any

from interpose._engine.claiming import settle_claim
from interpose._engine.plan import Hook, call_hook, name_of
from interpose._engine.saving import failed_checkpoint
from interpose._engine.settling import NOT_RUN, answer_calls, commit, partial_message, result_of
from interpose._engine.signals import LimitHit, Note, Rank, Signal
from interpose.errors import HookError, InterposeError, LimitExceeded, RunAborted, StoreError
from interpose.events import RunErrorEvent, RunFinishedEvent, RunStartedEvent, StepFinishedEvent
from interpose.info import AbortInfo, ErrorInfo, FinishInfo
from interpose.request import Usage
from interpose.result import RunResult

if TYPE_CHECKING:
    from interpose._engine.run import Run

logger = logging.getLogger("interpose")
TERMINAL_S = 30.0
"""How long terminal hooks, and then deferred work, may take."""
CLOSED = "closed"
"""The reason of runs that `aclose` stopped: they can be gone on with."""
FLUSH_S = 2.0
"""How long a guard may take to hand out what it holds after a failure."""


async def absorb_cancel() -> None:
    """Take back the cancellation of the current task, also one that is still to be raised."""
    task = current_task()
    if task is None:
        return
    while task.cancelling():
        task.uncancel()
    try:
        await asyncio.sleep(0)
    except CancelledError:
        while task.cancelling():
            task.uncancel()


async def end(run: Run, result: RunResult | None, failure: BaseException | None) -> None:
    """End *run*: the last event, one terminal hook, deferred work, the record."""
    if run.duration_timer is not None:
        run.duration_timer.cancel()
    if result is not None and run.noted is None and run.pipe.active:
        try:
            await send_finished(run, result)
        except BaseException as unsent:
            failure = unsent
    kind, error = verdict(run, failure) if failure is not None or run.noted is not None else (None, None)
    failure = None  # its traceback holds this very frame
    run.closing = True
    if kind is not None:
        await absorb_cancel()
        run.failure = error
        try:
            await close_failed(run, kind, error)
        except Exception:
            logger.exception("closing the events of run %s failed", run.run_id)
    else:
        run.result = result
    name = {"abort": "on_abort", "error": "on_error"}.get(kind or "", "on_finish")
    if run.plan.hooks[name]:
        await terminal_hooks(run, name, error, result)
    if run.beside is not None:
        await run.beside.finish(TERMINAL_S)
    if run.claimed or run.superseded or run.resumed_from is not None:
        try:
            await settle_claim(run)
        except Exception:
            logger.exception("the claims of run %s could not be settled", run.run_id)
    if run.record is not None:
        await run.record.end_run(result, kind, error if kind is not None else None)
    for one in reversed(run.opened):
        await close_middleware(one)


async def send_finished(run: Run, result: RunResult) -> None:
    """Send `RUN_FINISHED` and wait until a reader has taken it."""
    if run.pipe.emitted:
        await run.pipe.flush()
    outcome: dict[str, Any] = {"type": "success"}
    if result.status == "interrupted":
        outcome = {"type": "interrupt", "interrupts": [one.to_wire() for one in result.interrupts]}
    usage = usage_on_wire(run, result.usage)
    await run.pipe.send(RunFinishedEvent(run.thread_id, run.run_id, outcome, usage=usage))
    if run.buffer is not None:
        await run.buffer.last_taken()


def usage_on_wire(run: Run, usage: Usage) -> Any:
    """Return *usage*, without that of the run which this one goes on from, as AG-UI's list; None if it is not known."""
    before = run.usage_before
    told = {
        "inputTokens": (usage.input_tokens, before.input_tokens),
        "outputTokens": (usage.output_tokens, before.output_tokens),
        "totalTokens": (usage.total_tokens, before.total_tokens),
        "reasoningTokens": (usage.reasoning_tokens, before.reasoning_tokens),
        "cachedInputTokens": (usage.cache_read_tokens, before.cache_read_tokens),
        "cacheWriteInputTokens": (usage.cache_write_tokens, before.cache_write_tokens),
    }
    known = {name: value - (was or 0) for name, (value, was) in told.items() if value is not None}
    return ({"provider": run.names[0], "model": run.names[1], **known},) if known else None


def verdict(run: Run, failure: BaseException | None) -> tuple[str | None, BaseException | None]:
    """Return how the run ended, `abort`, `error` or None for in good order, and what its caller is to get."""
    noted = run.noted
    if noted is None and isinstance(failure, CancelledError):
        noted = Note(Rank.CANCEL, "cancelled")
    if noted is not None and noted.rank >= Rank.ABORT:
        return "abort", RunAborted(noted.value)
    if failure is None and noted is None:
        return None, None
    if isinstance(failure, Exception):
        return "error", failure
    if noted is not None and noted.rank is Rank.LIMIT:
        hit: LimitHit = noted.value
        return "error", LimitExceeded(hit.limit, hit.value, hit.message)
    if isinstance(failure, BaseExceptionGroup):
        return "error", failure
    if failure is None or isinstance(failure, Signal):
        return "error", InterposeError(f"the run was steered after its end: {noted.value if noted else failure!r}")
    return "error", failure


async def close_failed(run: Run, kind: str, error: BaseException | None) -> None:
    """Attach what was done to *error*, store it, and close the stream with `RUN_ERROR`."""
    pipe = run.pipe
    narrator = pipe.narrator
    if run.buffer is not None:
        run.buffer.take_back()
    if narrator is not None:
        if pipe.held is not None:
            narrator.forget()
        elif run.plan.on_chunk:
            await flush_open_message(narrator)
    pipe.held = None
    if run.past_checks:
        grown = len(run.history.messages) > max(run.restored, 0)
        why = f"not executed: {error}" if isinstance(error, LimitExceeded) else NOT_RUN
        await answer_calls(run, why, tell=False)
        half = partial_message(run) if run.settling is None and run.model_call is not None else None
        partial = result_of(run, "cancelled" if kind == "abort" else "error")
        if half is not None:
            partial = partial.replace(text=half.text)
        attach(error, partial)
        try:
            if grown:
                goes_on = kind == "error" or getattr(error, "reason", "") == CLOSED
                kept = failed_checkpoint(run) if goes_on and run.journal is not None and run.parent is None else None
                await commit(run, kept)
        except StoreError as unstored:
            logger.warning("what run %s had done could not be stored: %s", run.run_id, unstored)
        except Exception:
            logger.exception("what run %s had done could not be stored", run.run_id)
    if not pipe.active:
        return
    if narrator is not None:
        narrator.close_silently()
    if not run.said_started:
        pipe.put(RunStartedEvent(run.thread_id, run.run_id, run.parent_run_id))
    if run.open_step is not None:
        pipe.put(StepFinishedEvent(run.open_step))
        run.open_step = None
    code = "aborted" if kind == "abort" else getattr(error, "code", None) or "error"
    pipe.put(RunErrorEvent(str(error) or type(error).__name__, str(code), usage=usage_on_wire(run, run.usage)))
    if run.buffer is not None:
        run.buffer.last = True


def _uncalled_for(hook: Hook, raised: BaseException) -> Exception:
    error = InterposeError(f"{hook!r} raised CancelledError, though nobody cancelled it")
    error.__cause__ = raised
    return error


def attach(error: BaseException | None, partial: RunResult | None) -> None:
    """Put what was done on the error that the caller gets, if it takes an attribute."""
    try:
        error.partial = partial  # type: ignore[union-attr]  # there is one, and nearly all take it
    except AttributeError:
        logger.debug("%r takes no attribute `partial`", error)


async def flush_open_message(narrator: Any) -> None:
    """Send the end of an open message through the pipe, so that a guard can hand out what it holds."""
    try:
        async with asyncio.timeout(FLUSH_S):
            await narrator.flush_message()
    except Exception:
        logger.exception("on_chunk failed while an open message was closed after a failure")


async def terminal_hooks(run: Run, name: str, error: BaseException | None, result: RunResult | None) -> None:
    """Call the terminal hook *name* of every middleware, last first."""
    hooks = run.plan.hooks[name]
    if not run.past_checks:
        return
    duration_ms = (run.clock.monotonic() - run.began) * 1000
    info: Any
    if name == "on_abort":
        info = AbortInfo(error.reason, duration_ms)  # type: ignore[union-attr]  # a RunAborted
    elif name == "on_error":
        info = ErrorInfo(error, duration_ms)  # type: ignore[arg-type]  # there is one
    else:
        assert result is not None
        info = FinishInfo(result.status, result.finish_reason, result.text, result.usage, duration_ms)
    failures: list[Exception] = []
    try:
        async with asyncio.timeout(TERMINAL_S) as limit:
            for hook in reversed(hooks):
                try:
                    said = await call_hook(hook, run.ctx, info)
                    if said is not None:
                        raise HookError(f"{hook!r} returned {type(said).__name__} ({said!r:.80}); expected nothing")
                except (Exception, CancelledError) as raised:
                    if limit.expired():
                        raise
                    failure = raised if isinstance(raised, Exception) else _uncalled_for(hook, raised)
                    failures.append(failure)
                    if name != "on_finish":
                        logger.exception("%r failed; the run ends as it was", hook)
    except TimeoutError:
        logger.error("%s hooks of run %s took over %s s and were cut", name, run.run_id, TERMINAL_S)
    if failures and name == "on_finish":
        many = len(failures) > 1
        run.failure = ExceptionGroup("several on_finish hooks failed", failures) if many else failures[0]
        attach(run.failure, result)


async def close_middleware(one: Any) -> None:
    """Close one middleware; a failure is logged."""
    try:
        await call_hook(Hook(one, "close", one.close))
    except Exception:
        logger.exception("%s failed to close", name_of(one))
