"""The chain: layers round a core. The only composition in the code base, for every onion seam.

A middleware's share of a seam is one layer, `before → wrap(… inner layers …) → after`. One pass through a chain is a
`Call`; each layer and the core are coroutine functions `(call, index, value, via)`, where *via* is the `Next` through
which the layer outside got in.

What a layer costs is what a run costs, so the way through one is kept short: whatever is out of the ordinary sets
`Call.odd`, and only then is it looked for.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import CancelledError, current_task
from collections.abc import Callable, Coroutine
from inspect import isawaitable, iscoroutinefunction
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from interpose._engine.call import Call
from interpose._engine.replay import layer_key, replayed
from interpose._engine.signals import Signal
from interpose._engine.steering import rewritten, steer, what_holds
from interpose.errors import HookError, InterposeError, NextCalledTwice
from interpose.outcomes import Retry, Skip

if TYPE_CHECKING:
    from interpose._engine.plan import Hook
    from interpose.middleware import Middleware

Entry = Callable[[Call, int, Any, "Next | None"], Coroutine[Any, Any, Any]]
CALLED_TWICE = (
    "call_next() was called more than once in the same middleware; to try again on purpose: "
    "await call_next.again(request)"
)


class Layer:
    """One middleware's share of a chain; `enter` runs it and all inside."""

    __slots__ = ("after", "before", "enter", "middleware", "name", "wrap", "wrap_call")

    def __init__(
        self, name: str, middleware: Middleware[Any], before: Hook | None, wrap: Hook | None, after: Hook | None
    ) -> None:
        self.name = name
        self.middleware = middleware
        self.before = before
        self.wrap = wrap
        self.wrap_call = as_coroutine_function(wrap.call) if wrap is not None else None
        self.after = after
        self.enter: Entry = enter_wrap if wrap is not None and before is None and after is None else enter_layer


def as_coroutine_function(hook: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return *hook*, which may be `def` and return an awaitable, as a function that makes native coroutines."""
    if iscoroutinefunction(hook):
        return hook

    async def adapted(*args: Any) -> Any:
        result = hook(*args)
        return await result if isawaitable(result) else result

    return adapted


def compose(call: Call, value: Any) -> Coroutine[Any, Any, Any]:
    """Return the coroutine that takes *value* through the layers of *call* to its core and back."""
    return call.entries[0](call, 0, value, None)


def entries_of(layers: tuple[Layer, ...], core: Entry) -> tuple[Entry, ...]:
    """Return what a pass through *layers* to *core* calls, one after the other."""
    return (*[layer.enter for layer in layers], core)


class Next:
    """`call_next` of one layer in one call.

    `owner` is the layer's coroutine: what is called while that runs was awaited by it directly. It has no `__init__`,
    which would cost as much as the layer: the layer's entry fills it in.
    """

    __slots__ = ("call", "given", "index", "owner", "used")

    call: Call
    index: int
    used: bool
    given: Any
    owner: Any

    def __call__(self, value: Any = None) -> Coroutine[Any, Any, Any]:
        if self.used:
            raise NextCalledTwice(CALLED_TWICE)
        self.used = True
        call, index = self.call, self.index
        return call.entries[index](call, index, value, self)

    def again(self, value: Any = None) -> Coroutine[Any, Any, Any]:
        """Call what is inside, any number of times, also first."""
        call, index = self.call, self.index
        return call.entries[index](call, index, call.again_value(value), self)

    def then(self, value: Any, callback: Callable[[Any], Any]) -> Coroutine[Any, Any, Any]:
        """Call what is inside, and *callback* with what comes back; what the callback returns is ignored."""
        return _then(self(value), callback)

    def enter_task(self) -> None:
        """Note that what is inside runs in the current task, where that is not the seam's own.

        Called where the layer's coroutine is not running, so that this was not awaited by it directly.

        Raises:
            CancelledError: the layer has returned meanwhile.
        """
        call, task = self.call, current_task()
        if self.owner.cr_frame is None:
            if task is call.task:
                raise InterposeError("call_next() was awaited after its middleware had returned")
            raise CancelledError("the middleware that started this call_next() has returned")
        if task is not call.task:
            call.odd = True
            call.stray = call.stray or {}
            call.stray.setdefault(self, set()).add(task)  # type: ignore[arg-type]  # a coroutine of ours always has one

    def leave_task(self) -> None:
        """Note that what is inside is over in the current task."""
        if self.call.stray:
            self.call.stray.get(self, set()).discard(current_task())

    async def settle(self) -> None:
        """Cancel what still runs inside and wait for it."""
        tasks = self.call.stray.pop(self, None) if self.call.stray else None
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        done, _ = await asyncio.wait(tuple(tasks))
        for task in done:
            if not task.cancelled():
                task.exception()  # seen here: nobody else will ask


async def _then(coroutine: Coroutine[Any, Any, Any], callback: Callable[[Any], Any]) -> Any:
    result = await coroutine
    seen = callback(result)
    if seen is not None and isawaitable(seen):
        await seen
    return result


def check_entry(call: Call, index: int, value: Any) -> None:
    """Refuse to go further in where an ending was noted, or where *value* is not of the seam's type."""
    if call.run.noted is not None or call.noted is not None:
        raise Signal(call.pending())  # type: ignore[arg-type]  # one of the two is there
    if value.__class__ is not call.takes and call.takes is not None:
        layer = call.layers[index - 1]
        got = "nothing" if value is None else type(value).__name__
        raise HookError(f"{layer.name} called call_next() with {got}; expected a {call.takes.__name__}")
    call.values[index] = value


async def enter_beside(entry: Entry, call: Call, index: int, value: Any, via: Next) -> Any:
    """Enter what the layer outside does not await directly: it may run in a task of its own, and outlive the layer."""
    via.enter_task()
    try:
        result = via.given = await entry(call, index, value, None)
    finally:
        via.leave_task()
    return result


async def enter_wrap(call: Call, index: int, value: Any, via: Next | None) -> Any:
    """Run a layer that has a wrap alone, and all inside."""
    if via is not None and not via.owner.cr_running:
        return await enter_beside(enter_wrap, call, index, value, via)
    if call.odd or value.__class__ is not call.value_type:
        check_entry(call, index, value)
    call.values[index] = value
    call_next = Next()
    call_next.call = call
    call_next.index = index + 1
    call_next.used = False
    call.answered = False
    try:
        call_next.owner = call.layers[index].wrap_call(call.ctx, value, call_next)  # type: ignore[misc]  # has a wrap
        result = await call_next.owner
    except BaseException:  # without a name: a coroutine that waits keeps a place for each
        await close_failed(call, call_next)
        raise
    if call.odd:
        await close_next(call, call_next)
    if result.__class__ is not call.result_type:
        result = _result(call, index, call_next, result)
    if not call.answered:
        result = call.made(call.layers[index], result)
    if via is not None:
        via.given = result
    return result


async def close_next(call: Call, call_next: Next) -> None:
    """Cancel what a layer left running.

    Raises:
        Signal: the layer returned past an ending that was noted.
    """
    if call.stray:
        await call_next.settle()
    noted = call.pending()
    if noted is not None:
        raise Signal(noted)


async def close_failed(call: Call, call_next: Next) -> None:
    """Cancel what a layer left running that raised what is being handled; raise what was noted, where that holds."""
    error = sys.exception()
    assert error is not None
    if call.stray:
        await call_next.settle()
    held = what_holds(call, error)
    if held is not error:
        raise held from None


async def enter_layer(call: Call, index: int, value: Any, via: Next | None) -> Any:
    """Run a layer with a before or an after, and all inside."""
    if via is not None and not via.owner.cr_running:
        return await enter_beside(enter_layer, call, index, value, via)
    check_entry(call, index, value)
    layer = call.layers[index]
    result = None
    if layer.before is not None:
        value, result = await _before(call, layer, index, value)
    inside = value
    while True:
        if result is None:
            result = await _inside(call, layer, index, inside)
        if via is not None:
            via.given = result
        if layer.after is None:
            return result
        given = result
        try:
            result, feedback = await _after(call, layer, index, inside, result)
        except Signal:
            call.paused_at = (layer_key(call, index), given)
            raise
        if feedback is None:
            if via is not None:
                via.given = result
            return result
        inside = call.retry_value(value, result, feedback)
        result = None


def _inside(call: Call, layer: Layer, index: int, value: Any) -> Coroutine[Any, Any, Any]:
    """Return the coroutine of what stands inside the before and the after of *layer*."""
    if layer.wrap is not None:
        return enter_wrap(call, index, value, None)
    if call.replay and layer_key(call, index) in call.replay:
        return replayed(call, None, value, layer_key(call, index))
    return call.entries[index + 1](call, index + 1, value, None)


async def _before(call: Call, layer: Layer, index: int, value: Any) -> tuple[Any, Any]:
    """Return the value to go on with, and the result if the hook answered."""
    hook = layer.before
    said = hook.call(call.ctx, value)  # type: ignore[union-attr]  # has a before
    if hook.is_async or (said is not None and isawaitable(said)):  # type: ignore[union-attr]  # as above
        said = await said
    if call.run.noted is not None or call.noted is not None:
        raise Signal(call.pending())  # type: ignore[arg-type]  # one of the two is there
    if said is None or said is value:
        return value, None
    name = hook.name  # type: ignore[union-attr]  # as above
    if said.__class__ is call.takes:
        return rewritten(call, layer, index, name, value, said), None
    if said.__class__ is Skip and Skip in call.steers[name]:
        result = said.result
        return value, result if result.__class__ is call.gives else call.lift(layer, name, result)
    if said.__class__ is call.gives:
        return value, call.made(layer, said)
    steer(call, layer, name, said, f"a {call.takes.__name__}, a {call.gives.__name__}")  # type: ignore[union-attr]
    return value, None


async def _after(call: Call, layer: Layer, index: int, value: Any, result: Any) -> tuple[Any, str | None]:
    """Return the result to hand out, and the feedback of a retry if one is due."""
    hook = layer.after
    said = hook.call(call.ctx, value, result)  # type: ignore[union-attr]  # has an after
    if hook.is_async or (said is not None and isawaitable(said)):  # type: ignore[union-attr]  # as above
        said = await said
    if call.run.noted is not None or call.noted is not None:
        raise Signal(call.pending())  # type: ignore[arg-type]  # one of the two is there
    if said is None:
        return result, None
    name = hook.name  # type: ignore[union-attr]  # as above
    if said.__class__ is call.gives:
        return said, None
    if said.__class__ is Retry and Retry in call.steers[name]:
        retries = call.retries = call.retries or {}
        retries[index] = retries.get(index, 0) + 1
        return result, said.feedback if retries[index] <= said.max_retries else None
    steer(call, layer, name, said, f"a {call.gives.__name__}")
    return result, None


def _result(call: Call, index: int, call_next: Next, value: Any) -> Any:
    """Return what a wrap gave as a result of the seam, or steer by it."""
    layer = call.layers[index]
    hook = layer.wrap.name  # type: ignore[union-attr]  # has a wrap
    call.paused_at = (layer_key(call, index), getattr(call_next, "given", None))
    if value is None:
        raise HookError(
            f"{layer.name}.{hook} did not return its result: expected a {call.gives.__name__}, got nothing. "
            f"Write `return await call_next(...)`, or return what you made of its result."
        )
    if isawaitable(value):
        if value.__class__ is CoroutineType:
            value.close()
        raise HookError(f"{layer.name}.{hook} returned call_next(...) unawaited: write `return await call_next(...)`")
    if value.__class__ in call.steers[hook]:
        steer(call, layer, hook, value, "")
    return call.lift(layer, hook, value)
