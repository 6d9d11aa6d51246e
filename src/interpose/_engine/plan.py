"""The plan of a run: middleware lowered, once, into per-seam tuples; the checks of that; and `explain()`."""

from __future__ import annotations

import difflib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from interpose._engine.chain import Layer
from interpose._engine.saved_state import check_saved_state
from interpose.capabilities import Capability
from interpose.errors import CapabilityError, ConfigurationError
from interpose.middleware import HOOKS, FunctionMiddleware, Middleware
from interpose.tools import Tool, as_tool, check_unique, is_async

PREFIXES = ("on_", "before_", "after_", "wrap_")


class Hook:
    """One hook of one middleware, bound and ready to be called."""

    __slots__ = ("call", "is_async", "middleware", "name")

    def __init__(self, middleware: Middleware[Any], name: str, call: Callable[..., Any]) -> None:
        self.middleware = middleware
        self.name = name
        self.call = call
        self.is_async = is_async(call)

    def __repr__(self) -> str:
        return f"{name_of(self.middleware)}.{self.name}"


async def call_hook(hook: Hook, *args: Any) -> Any:
    """Call *hook* and await what it gives, if that can be awaited."""
    result = hook.call(*args)
    if hook.is_async or (result is not None and inspect.isawaitable(result)):
        return await result
    return result


def name_of(middleware: Middleware[Any]) -> str:
    """Return what errors and `explain()` call *middleware*."""
    return middleware.name or type(middleware).__name__


_known: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()


def _overridden(middleware: Middleware[Any]) -> list[str]:
    """Return the hooks that *middleware* has, in the order of `HOOKS`."""
    kind = type(middleware)
    found = _known.get(kind)
    if found is None:
        _refuse_unknown(kind)
        found = tuple(name for name in HOOKS if getattr(kind, name) is not getattr(Middleware, name))
        _known[kind] = found
    own = vars(middleware)
    return [name for name in HOOKS if name in found or name in own]


def _refuse_unknown(kind: type) -> None:
    for name in dir(kind):
        if not name.startswith(PREFIXES) or name in HOOKS or not callable(getattr(kind, name)):
            continue
        near = difflib.get_close_matches(name, HOOKS, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"hooks are: {', '.join(HOOKS)}"
        raise ConfigurationError(
            f"{kind.__name__}.{name} looks like a hook, but there is none of that name; {hint} "
            f"If it is a helper of your own, begin its name with an underscore."
        )


def _hook(middleware: Middleware[Any], name: str) -> Hook:
    function = getattr(middleware, name)
    if not callable(function):
        raise ConfigurationError(f"{name_of(middleware)}.{name} must be a function, got {type(function).__name__}")
    try:
        inspect.signature(function).bind(*(None,) * HOOKS[name])
    except TypeError as error:
        arguments = list(inspect.signature(getattr(Middleware, name)).parameters)[1:]
        expected = f"({', '.join(arguments)})"
        raise ConfigurationError(
            f"{name_of(middleware)}.{name} cannot take its arguments: {error}; write {name}{expected}"
        ) from error
    except ValueError:  # no signature to be had, as of some built-in callables
        pass
    return Hook(middleware, name, function)


def as_middleware(given: Any) -> Middleware[Any]:
    """Return *given* as a middleware; a plain function counts as a `wrap_model_call` layer.

    Raises:
        ConfigurationError: it is neither.
    """
    if isinstance(given, Middleware):
        return given
    if inspect.isroutine(given) or isinstance(given, functools.partial):
        return FunctionMiddleware("wrap_model_call", given)
    hint = " (write an instance, with parentheses)" if isinstance(given, type) else ""
    raise ConfigurationError(f"middleware must be Middleware objects or functions, got {given!r}{hint}")


class Plan:
    """The hooks of a list of middleware, per seam, in the order in which they act; made once and never changed."""

    def __init__(
        self,
        middleware: Iterable[Any],
        tools: Iterable[Any] = (),
        tool_hooks: Layer | None = None,
        model_hooks: Layer | None = None,
    ) -> None:
        self.middleware: tuple[Middleware[Any], ...] = tuple([as_middleware(m) for m in middleware])
        hooks: dict[str, list[Hook]] = {name: [] for name in HOOKS}
        model: list[Layer] = []
        tool: list[Layer] = []
        run: list[Layer] = []
        for one in self.middleware:
            own = {name: _hook(one, name) for name in _overridden(one)}
            for name, hook in own.items():
                hooks[name].append(hook)
            for layers, seam in ((model, "model_call"), (tool, "tool_call")):
                parts = [own.get(f"{part}_{seam}") for part in ("before", "wrap", "after")]
                if any(parts):
                    layers.append(Layer(name_of(one), one, *parts))
            if "wrap_run" in own:
                run.append(Layer(name_of(one), one, None, _without_value(own["wrap_run"]), None))
        self.hooks: dict[str, tuple[Hook, ...]] = {name: tuple(found) for name, found in hooks.items()}
        self.model_hooks = model_hooks
        self.model_layers = (*model, model_hooks) if model_hooks is not None else tuple(model)
        self.tool_hooks = tool_hooks
        self.tool_layers = (tool_hooks, *tool) if tool_hooks is not None else tuple(tool)
        self.run_layers = tuple(run)
        self.model_entries: Any = None
        self.tool_entries: Any = None
        self.setup = self.hooks["setup"]
        self.on_config = self.hooks["on_config"]
        self.on_start = self.hooks["on_start"]
        self.on_step = self.hooks["on_step"]
        self.on_chunk = self.hooks["on_chunk"]
        self.on_usage = self.hooks["on_usage"]
        self.on_tool_phase_complete = self.hooks["on_tool_phase_complete"]
        self.on_should_continue = self.hooks["on_should_continue"]
        self.on_interrupt_boundary = self.hooks["on_interrupt_boundary"]
        self.on_node = self.hooks["on_node"]
        self.holds_stream = any(one.holds_stream for one in self.middleware)
        self.tools = _tools(tools, self.middleware)
        self.provides = any(one.provides for one in self.middleware)
        check_capabilities(self.middleware)
        for one in self.middleware:
            check_saved_state(one, name_of(one))
        self.interrupts = _interrupts(self.middleware)

    def nested_in(self, outer: Plan | None, extra: Sequence[Any] = ()) -> Plan:
        """Return the plan of a run within one of *outer*, and with middleware of its own, *extra*."""
        inherited = [one for one in outer.middleware if one.nested] if outer is not None else []
        inherited = [one for one in inherited if not any(one is own for own in self.middleware)]
        return self.with_run(inherited, extra)

    def with_run(self, before: Sequence[Any], after: Sequence[Any]) -> Plan:
        """Return the plan of one run, with inherited middleware outermost and the run's own innermost."""
        if not before and not after:
            return self
        tools = [tool for tool in self.tools if not any(tool in (*m.tools,) for m in self.middleware)]
        return Plan((*before, *self.middleware, *after), tools, self.tool_hooks, self.model_hooks)


def _without_value(hook: Hook) -> Hook:
    """Return a `wrap_run` hook as the chain calls it: with a value, which it does not take.

    It may return nothing: then what its `call_next()` gave stays.
    """

    async def adapted(ctx: Any, _: None, call_next: Any) -> Any:
        kept: list[Any] = []

        async def go_on() -> Any:
            kept.append(await call_next(None))
            return kept[-1]

        result = await call_hook(hook, ctx, go_on)
        return kept[-1] if result is None and kept else result

    return Hook(hook.middleware, hook.name, adapted)


def _tools(own: Iterable[Any], middleware: Iterable[Middleware[Any]]) -> tuple[Tool, ...]:
    found: list[Tool] = []
    for origin, given in (("the agent", own), *((name_of(m), m.tools) for m in middleware)):
        for one in given:
            tool = as_tool(one)
            if not tool.origin:
                tool.origin = origin
            if not any(tool is other for other in found):
                found.append(tool)
    check_unique(found)
    return tuple(found)


def _interrupts(middleware: Iterable[Middleware[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in middleware:
        for definition in one.interrupts:
            if found.setdefault(definition.id, definition) is not definition:
                raise ConfigurationError(f"two interrupts have the id {definition.id!r}; ids must differ")
    return found


def check_capabilities(middleware: Sequence[Middleware[Any]]) -> None:
    """Check that what is required is provided, and before it is needed.

    Raises:
        CapabilityError: it is not; the text names who needs what, and what is provided.
    """
    provided: dict[Capability[Any], str] = {}
    every = {cap: name_of(one) for one in middleware for cap in one.provides}
    for one in middleware:
        for cap in one.requires:
            if cap in provided:
                continue
            if cap in every:
                raise CapabilityError(
                    f"{name_of(one)} requires {cap.name!r}, which {every[cap]} provides, but only after it: "
                    f"list {every[cap]} before {name_of(one)}"
                )
            there = ", ".join(repr(c.name) for c in every) or "none"
            raise CapabilityError(
                f"{name_of(one)} requires {cap.name!r}, which no middleware provides; provided: {there}"
            )
        for cap in one.provides:
            if cap in provided:
                warnings.warn(
                    f"capability {cap.name!r} is provided by {provided[cap]} and again by {name_of(one)}, "
                    f"which wins for those after it",
                    stacklevel=4,
                )
            provided[cap] = name_of(one)


def as_list(given: Any) -> list[Any]:
    """Return *given* as a list of middleware, each still as it was given.

    Raises:
        ConfigurationError: it is no list.
    """
    if isinstance(given, Middleware | str) or not isinstance(given, Sequence):
        raise ConfigurationError(f"middleware must be a list, a MiddlewareStack or an async factory, got {given!r}")
    return list(given)


def is_factory(given: Any) -> bool:
    """Whether *given* is a factory of middleware, and neither a middleware nor a list of them."""
    return callable(given) and not isinstance(given, Middleware | type)


def model_hooks_layer(hooks: Middleware[Any]) -> Layer:
    """Return the agent's model hooks as a layer, which stands inside those of middleware."""
    return Layer(name_of(hooks), hooks, None, Hook(hooks, "wrap_model_call", hooks.wrap_model_call), None)


def tool_hooks_layer(before: Callable[..., Any] | None, after: Callable[..., Any] | None) -> Layer | None:
    """Return the agent's own tool hooks as a layer, which stands outside those of middleware."""
    if before is None and after is None:
        return None
    owner: Middleware[Any] = Middleware()
    owner.name = "agent"
    hooks = [
        Hook(owner, name, call) if call else None for name, call in (("before_tool", before), ("after_tool", after))
    ]
    return Layer("agent", owner, hooks[0], None, hooks[1])
