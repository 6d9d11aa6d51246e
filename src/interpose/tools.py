"""Tools: functions that a model may call."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self, overload

from interpose.arguments import ArgumentError, Arguments, SchemaArguments
from interpose.errors import ConfigurationError
from interpose.messages import ToolCall, ToolResult
from interpose.signature import read_signature

__all__ = ["ArgumentError", "Tool", "ToolCall", "ToolResult", "as_tool", "check_unique", "tool"]

Effect = Literal["read", "idempotent", "write"]
Approval = bool | Callable[..., Any]

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")  # the widest that any provider takes; adapters narrow it


class Tool:
    """A function that a model may call, with what it needs to know about it; equal only to itself.

    `function` is called with keyword arguments: those that `validate` returns, and the context under the name
    `context_parameter`, if there is one. `origin` says who brings the tool, for error messages; `agent` is the one
    that the tool runs, of `Agent.as_tool`.
    """

    __slots__ = (
        "_arguments",
        "agent",
        "alone",
        "approval",
        "context_parameter",
        "description",
        "effect",
        "function",
        "is_async",
        "name",
        "origin",
        "parameters",
        "timeout_s",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Arguments,
        *,
        name: str,
        description: str = "",
        context_parameter: str | None = None,
        approval: Approval = False,
        effect: Effect = "write",
        alone: bool = False,
        timeout_s: float | None = None,
        origin: str = "",
        agent: Any = None,
    ) -> None:
        if _NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"{name!r} cannot be a tool's name: providers take letters, digits, '_' and '-'; give name='...'"
            )
        if effect not in ("read", "idempotent", "write"):
            raise ConfigurationError(f"{name}: effect must be 'read', 'idempotent' or 'write', got {effect!r}")
        if not callable(approval) and not isinstance(approval, bool):
            raise ConfigurationError(f"{name}: approval must be True, False or a callable(ctx, call), got {approval!r}")
        if timeout_s is not None and not timeout_s > 0:
            raise ConfigurationError(f"{name}: timeout_s must be above 0, or None for no limit, got {timeout_s!r}")
        self.function = function
        self._arguments = arguments
        self.parameters: Mapping[str, Any] = arguments.parameters
        self.name = name
        self.description = description
        self.is_async = is_async(function)
        self.context_parameter = context_parameter
        self.approval = approval
        self.effect = effect
        self.alone = alone
        self.timeout_s = timeout_s
        self.origin = origin
        self.agent = agent

    def __repr__(self) -> str:
        return f"<Tool {self.name!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, unchecked, as if it were undecorated."""
        return self.function(*args, **kwargs)

    def validate(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return *args* as typed keyword arguments, defaults filled in.

        Raises:
            ArgumentError: with every argument that is missing, unknown or of the wrong type.
        """
        try:
            return self._arguments.read(self.name, args)
        except RecursionError:
            raise ArgumentError([f"{self.name}: the arguments are nested too deep"]) from None

    def to_dict(self) -> dict[str, Any]:
        """Return what a model is told: name, description and the parameters' schema, which is not a copy."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    def renamed(self, name: str) -> Self:
        """Return a copy under another name."""
        return self.replace(name=name)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with *changes*; unknown fields raise `TypeError`.

        New *parameters* change what the model is told; arguments are still read as the function declares them, or, for
        a tool made with `parameters=`, by the new schema. A new *function* is called with the same keyword arguments.
        """
        settable = [slot for slot in Tool.__slots__ if slot not in ("_arguments", "is_async")]
        if unknown := [name for name in changes if name not in settable]:
            raise TypeError(f"a tool has no field {unknown[0]!r} to replace; it has: {', '.join(settable)}")
        fields = {slot: getattr(self, slot) for slot in settable} | changes
        parameters = fields.pop("parameters")
        arguments = self._arguments
        if isinstance(arguments, SchemaArguments) and "parameters" in changes:
            arguments = SchemaArguments(parameters)
            parameters = arguments.parameters
        copy = type(self)(fields.pop("function"), arguments, **fields)
        copy.parameters = parameters
        return copy


@overload
def tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    effect: Effect = "write",
    alone: bool = False,
    timeout_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Tool: ...
@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    effect: Effect = "write",
    alone: bool = False,
    timeout_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    effect: Effect = "write",
    alone: bool = False,
    timeout_s: float | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Any:
    """Return *function* as a `Tool`; without it, a decorator that does so.

    Name, description and arguments come from the function: its name, its docstring (Google, NumPy or reST), its
    annotations. A parameter annotated `ToolContext`, or an unannotated one called `ctx`, gets the context and is not
    shown to the model; what a `functools.partial` binds by keyword isn't either. *approval* asks a person before the
    call runs: always, or where `approval(ctx, call)` is true. *effect* tells what a repeated call does: "read" changes
    nothing, "idempotent" nothing more than the first. *alone* keeps other calls from running at the same time. With
    *parameters*, a JSON schema, arguments are checked against that only and reach `**kwargs` as they came.

    Raises:
        ConfigurationError: the function cannot be called by a model, and why.
    """
    if function is None:
        return functools.partial(
            tool,
            name=name,
            description=description,
            approval=approval,
            effect=effect,
            alone=alone,
            timeout_s=timeout_s,
            parameters=parameters,
        )
    signature = read_signature(_callable(function), name, parameters)
    return Tool(
        function,
        signature.arguments,
        name=signature.name,
        description=signature.description if description is None else description,
        context_parameter=signature.context_parameter,
        approval=approval,
        effect=effect,
        alone=alone,
        timeout_s=timeout_s,
    )


def as_tool(obj: Any) -> Tool:
    """Return *obj* as a tool: a `Tool` as it is, a function or another callable lifted.

    Raises:
        TypeError: it is neither.
    """
    return obj if isinstance(obj, Tool) else tool(_callable(obj))


def check_unique(tools: Iterable[Tool]) -> None:
    """Refuse two tools of one name; the same tool twice is fine.

    Raises:
        ConfigurationError: names the tool and who brings each.
    """
    seen: dict[str, Tool] = {}
    for one in tools:
        other = seen.setdefault(one.name, one)
        if other is not one:
            raise ConfigurationError(
                f"two tools are called {one.name!r}: one {_whence(other)}, one {_whence(one)}; "
                "give one of them another name with tool.renamed('...')"
            )


def _whence(one: Tool) -> str:
    function = one.function
    where = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    return f"of {one.origin} ({where})" if one.origin else f"from {where}"


def _callable(obj: Any) -> Callable[..., Any]:
    expected = "expected a tool: a function, or what @tool makes of one"
    if isinstance(obj, Mapping):
        raise TypeError(f"{expected}; got a {type(obj).__name__}; for a JSON schema: tool(function, parameters=schema)")
    if isinstance(obj, type):
        raise TypeError(f"{expected}; got the class {obj.__name__}; give an instance with __call__")
    if hasattr(obj, "as_tool"):
        raise TypeError(f"{expected}; got {obj!r:.80}; give .as_tool(name, description) of it")
    if not callable(obj):
        raise TypeError(f"{expected}; got {type(obj).__name__}: {obj!r:.80}")
    return obj  # type: ignore[no-any-return]  # callable, as was just seen


def is_async(function: Any) -> bool:
    """Say whether calling *function* gives a coroutine, as far as can be told without calling it."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
