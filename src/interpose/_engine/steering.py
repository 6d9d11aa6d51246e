"""Steering: outcomes that hooks return, noted and raised, and what holds where several things happen at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.signals import Rank, Signal
from interpose.errors import HookError
from interpose.messages import AssistantMessage, UserMessage
from interpose.outcomes import Abort, End, Pause, Retry, Skip

if TYPE_CHECKING:
    from interpose._engine.call import Call
    from interpose._engine.chain import Layer


def steer(call: Call, layer: Layer, hook: str, outcome: Any, values: str) -> None:
    """Note *outcome* and raise it.

    Raises:
        HookError: the hook may not return it.
    """
    if outcome.__class__ not in call.steers[hook] or outcome.__class__ in (Skip, Retry):
        raise wrong(layer, hook, outcome, ", ".join(filter(None, [values, *[t.__name__ for t in call.steers[hook]]])))
    match outcome:
        case End():
            call.note(Rank.END, outcome)
        case Pause():
            call.note(Rank.PAUSE, outcome)
        case Abort():
            call.run.abort(outcome.reason)
    raise Signal(call.pending())  # type: ignore[arg-type]  # just noted


def rewritten(call: Call, layer: Layer, index: int, hook: str, before: Any, after: Any) -> Any:
    """Return what a before-hook put in the place of *before*, checked, and noted where there is a record."""
    changed = call.changed(layer, hook, before, after)
    if call.run.record is not None:
        call.run.record.rewrote(call, index, before, changed)
    return changed


def wrong(layer: Any, hook: str, value: Any, expected: str) -> HookError:
    """Return the error of a hook that returned what its seam does not take; *layer* has a name."""
    return HookError(
        f"{layer.name}.{hook} returned {type(value).__name__} ({value!r:.80}); expected {expected} or nothing"
    )


def what_holds(call: Call, error: BaseException) -> BaseException:
    """Return what goes on up after a layer raised *error*: what was noted, unless *error* outranks it."""
    noted = call.pending()
    if noted is None:
        return error
    if noted.rank < Rank.ERROR and isinstance(error, Exception):
        return error
    return error if isinstance(error, Signal) and error.note is noted else Signal(noted)


def rejected(messages: tuple[Any, ...], text: str, feedback: str) -> tuple[Any, ...]:
    """Return *messages* with the text that was rejected and the feedback, for one attempt."""
    said = (AssistantMessage(text),) if text else ()
    return (*messages, *said, UserMessage(feedback))
