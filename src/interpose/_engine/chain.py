"""The chain: layers round a core. The only composition in the code base, for every onion seam.

A middleware's share of a seam is one layer, `before → wrap(… inner layers …) → after`. One pass through a chain is a
`Call`; each layer and the core are coroutine functions `(call, index, value, via)`, where *via* is the `Next` through
which the layer outside got in.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, current_task
from collections.abc import Callable, Coroutine, Mapping
from inspect import isawaitable, iscoroutinefunction
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar

from interpose._engine.replay import layer_key, replayed
from interpose._engine.signals import Note, Rank, Signal
from interpose._engine.steering import rewritten, steer, what_holds, wrong
from interpose.errors import HookError, InterposeError, NextCalledTwice
from interpose.outcomes import Retry, Skip

if TYPE_CHECKING:
    from interpose._engine.plan import Hook
    from interpose._engine.run import Run
    from interpose.middleware import Middleware

Entry = Callable[["Call", int, Any, "Next | None"], Coroutine[Any, Any, Any]]
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


class Call:
    """One pass through a chain: what is shared by its layers, and the rules of the seam."""

    seam = ""
    takes: type | None = None
    gives: type = object
    steers: ClassVar[Mapping[str, tuple[type, ...]]] = {}

    __slots__ = (
        "answered",
        "ctx",
        "entries",
        "layers",
        "noted",
        "paused_at",
        "replay",
        "retries",
        "run",
        "task",
        "values",
    )

    def __init__(self, run: Run, ctx: Any, layers: tuple[Layer, ...], entries: tuple[Entry, ...]) -> None:
        self.run = run
        self.ctx = ctx
        self.layers = layers
        self.entries = entries
        self.values: list[Any] = [None] * (len(layers) + 1)
        self.answered = False
        self.noted: Note | None = None
        self.retries: dict[int, int] | None = None
        self.paused_at: tuple[str, Any] | None = None
        self.replay: dict[str, Any] | None = None
        self.task = run.task

    def note(self, rank: Rank, value: Any) -> None:
        """Note an ending; on the run, unless the seam keeps it to itself."""
        self.run.note(rank, value)

    def pending(self) -> Note | None:
        """Return what was noted, the higher rank first."""
        noted, own = self.run.noted, self.noted
        return own if noted is None or (own is not None and own.rank > noted.rank) else noted

    def made(self, layer: Layer, result: Any) -> Any:  # noqa: ARG002  # for seams that mark it
        """Return *result*, which *layer* made up, marked as such where the seam has a mark."""
        return result

    def lift(self, layer: Layer, hook: str, value: Any) -> Any:
        """Return *value*, which is not of the seam's type, as a result.

        Raises:
            HookError: it cannot become one.
        """
        raise wrong(layer, hook, value, self.gives.__name__)

    def changed(self, layer: Layer, hook: str, before: Any, after: Any) -> Any:  # noqa: ARG002  # for seams that check
        """Return a value that a before-hook put in place of another, checked."""
        return after

    def resume_with(self, value: Any, result: Any) -> None:  # noqa: ARG002  # for seams that keep account
        """Take account of a *result* from before a pause."""
        self.answered = True

    def again_value(self, value: Any) -> Any:
        """Return the value of a further attempt."""
        return value

    def retry_value(self, value: Any, result: Any, feedback: str) -> Any:  # noqa: ARG002  # for seams that retry
        """Return the value of another attempt after *result* was rejected."""
        return value


def compose(call: Call, value: Any) -> Coroutine[Any, Any, Any]:
    """Return the coroutine that takes *value* through the layers of *call* to its core and back."""
    return call.entries[0](call, 0, value, None)


def entries_of(layers: tuple[Layer, ...], core: Entry) -> tuple[Entry, ...]:
    """Return what a pass through *layers* to *core* calls, one after the other."""
    return (*[layer.enter for layer in layers], core)


class _Closed:
    """What owns a `Next` whose layer has returned."""

    cr_running = False


CLOSED: Any = _Closed()


class Next:
    """`call_next` of one layer in one call.

    `owner` is the layer's coroutine while it runs: what is called while that runs was awaited by it directly. It has
    no `__init__`, which would cost as much as the layer: `enter_wrap` fills it in.
    """

    __slots__ = ("call", "given", "index", "owner", "tasks", "used")

    call: Call
    index: int
    used: bool
    given: Any
    owner: Any
    tasks: set[asyncio.Task[Any]] | None

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

    def enter_task(self) -> asyncio.Task[Any] | None:
        """Note that what is inside runs in the current task; return it if it is not the seam's own.

        Called where the layer's coroutine is not running, so that this was not awaited by it directly.

        Raises:
            CancelledError: the layer has returned meanwhile.
        """
        task = current_task()
        if self.owner is CLOSED:
            if task is self.call.task:
                raise InterposeError("call_next() was awaited after its middleware had returned")
            raise CancelledError("the middleware that started this call_next() has returned")
        if task is self.call.task:
            return None
        if self.tasks is None:
            self.tasks = set()
        self.tasks.add(task)  # type: ignore[arg-type]  # a coroutine of ours always runs in a task
        return task

    async def settle(self) -> None:
        """Cancel what still runs inside and wait for it."""
        tasks = self.tasks
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


async def enter_wrap(call: Call, index: int, value: Any, via: Next | None) -> Any:
    """Run a layer that has a wrap alone, and all inside."""
    task = None if via is None or via.owner.cr_running else via.enter_task()
    run = call.run
    if run.noted is not None or call.noted is not None or value.__class__ is not call.takes:
        check_entry(call, index, value)
    call.values[index] = value
    layer = call.layers[index]
    call_next = Next()
    call_next.call = call
    call_next.index = index + 1
    call_next.used = False
    call_next.tasks = None
    call.answered = False
    try:
        call_next.owner = coroutine = layer.wrap_call(call.ctx, value, call_next)  # type: ignore[misc]  # has a wrap
        result = await coroutine
    except BaseException as error:
        held = await close_next(call, call_next, error)
        if held is None or held is error:
            raise
        raise held from None
    finally:
        if task is not None:
            via.tasks.discard(task)  # type: ignore[union-attr]  # where there is a task, both are there
    call_next.owner = CLOSED
    if call_next.tasks or run.noted is not None or call.noted is not None:  # type: ignore[redundant-expr]  # set inside
        await close_next(call, call_next, None)
    if result.__class__ is not call.gives:
        call.paused_at = (layer_key(call, index), getattr(call_next, "given", None))
        result = _result(call, layer, layer.wrap.name, result)  # type: ignore[union-attr]  # as above
    if not call.answered:
        result = call.made(layer, result)
    if via is not None:
        via.given = result
    return result


async def close_next(call: Call, call_next: Next, error: BaseException | None) -> BaseException | None:
    """Cancel what a layer left running, and return what goes on up where it raised *error*.

    Raises:
        Signal: the layer returned past an ending that was noted.
    """
    call_next.owner = CLOSED
    if call_next.tasks:
        await call_next.settle()
    if error is not None:
        return what_holds(call, error)
    noted = call.pending()
    if noted is not None:
        raise Signal(noted)
    return None


async def enter_layer(call: Call, index: int, value: Any, via: Next | None) -> Any:
    """Run a layer with a before or an after, and all inside."""
    task = None if via is None or via.owner.cr_running else via.enter_task()
    try:
        check_entry(call, index, value)
        layer = call.layers[index]
        result = None
        if layer.before is not None:
            value, result = await _before(call, layer, index, value)
        inside = value
        while True:
            if result is None and layer.wrap is None and call.replay and layer_key(call, index) in call.replay:
                result = await replayed(call, None, inside, layer_key(call, index))
            elif result is None and layer.wrap is None:
                result = await call.entries[index + 1](call, index + 1, inside, None)
            elif result is None:
                result = await enter_wrap(call, index, inside, None)
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
    finally:
        if task is not None:
            via.tasks.discard(task)  # type: ignore[union-attr]  # where there is a task, both are there


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


def _result(call: Call, layer: Layer, hook: str, value: Any) -> Any:
    """Return what a wrap gave as a result of the seam, or steer by it."""
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
