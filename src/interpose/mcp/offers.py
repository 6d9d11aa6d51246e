"""The tools of a server as tools of an agent: which, under what names, with what approval and effect."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from interpose.arguments import SchemaArguments
from interpose.errors import ConfigurationError
from interpose.mcp.errors import ToolServerError
from interpose.tools import Tool

logger = logging.getLogger("interpose.mcp")

Effect = Literal["read", "idempotent", "write"]
Ask = bool | Literal["write", "destructive"] | Callable[..., Any]
CONTEXT = "interpose context"
"""The keyword under which a tool gets its context: no argument of a server's tool can be called so by accident."""
MAX_NAME = 64
"""The longest name that all providers take."""
_EFFECTS = ("read", "idempotent", "write")
_ODD = re.compile(r"[^A-Za-z0-9_.:/-]")
_PREFIX = re.compile(r"[A-Za-z0-9_.:/-]*")


@dataclass(frozen=True)
class Offering:
    """What the user said about a server's tools; names are those of the server, without the prefix."""

    prefix: str = ""
    include: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    approval: Ask | Mapping[str, Ask] = False
    effect: Effect | Mapping[str, Effect] | None = None
    timeout_s: float | None = 60.0

    def __post_init__(self) -> None:
        prefix: Any = self.prefix
        if not isinstance(prefix, str) or _PREFIX.fullmatch(prefix) is None:
            raise ConfigurationError(f"prefix must consist of letters, digits, '_' and '-'; got {prefix!r}")
        for name in ("include", "exclude"):
            _check_names(name, getattr(self, name))
        for one in _values(self.approval):
            if not isinstance(one, bool) and one not in ("write", "destructive") and not callable(one):
                raise ConfigurationError(
                    "approval must be True, False, 'write', 'destructive' or a callable(ctx, call), or a mapping from "
                    f"tools to these; got {one!r:.80}"
                )
        for one in _values(self.effect):
            if one is not None and one not in _EFFECTS:
                raise ConfigurationError(
                    f"effect must be 'read', 'idempotent' or 'write', or a mapping from tools to these; got {one!r:.80}"
                )
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ConfigurationError(f"timeout_s must be above 0, or None for no limit; got {self.timeout_s!r}")

    def check_names(self, server: str, names: Iterable[str]) -> None:
        """Refuse a name that the server's list lacks: a typing error there would let through what was to be kept out.

        Patterns of a general policy may fit nothing, but for those of `include`.

        Raises:
            ToolServerError: names it, and what there is.
        """
        there = list(names)
        for what, given in self._named().items():
            for pattern in given:
                general = what != "include" and any(letter in pattern for letter in "*?[")
                if not general and not any(fnmatchcase(name, pattern) for name in there):
                    listed = ", ".join(sorted(there)) or "none"
                    raise ToolServerError(f"{what} names {pattern!r}, but {server} has no such tool. It has: {listed}")

    def _named(self) -> dict[str, Iterable[str]]:
        named: dict[str, Iterable[str]] = {"include": self.include or (), "exclude": self.exclude}
        for what, given in (("approval", self.approval), ("effect", self.effect)):
            named[what] = given if isinstance(given, Mapping) else ()
        return named

    def admits(self, name: str) -> bool:
        """Whether the server's tool *name* is to be offered."""
        included = self.include is None or any(fnmatchcase(name, pattern) for pattern in self.include)
        return included and not any(fnmatchcase(name, pattern) for pattern in self.exclude)

    def tools(self, listed: Iterable[Any], owner: str, call: Callable[..., Awaitable[Any]]) -> tuple[Tool, ...]:
        """Return what is offered of *listed*, by name; what no provider could be told of is left out, with a warning.

        *call* is awaited with the server's name of the tool, its effect, the context and the arguments.
        """
        made: dict[str, Tool] = {}
        seen: set[str] = set()
        admitted = [one for one in listed if self.admits(one.name)]
        # Names that fit come first and stay; of those that have to be mended, none takes the name of another.
        for one in sorted(admitted, key=lambda one: (self._offered(one.name) != self.prefix + one.name, one.name)):
            if one.name in seen:
                logger.warning("%s: a second tool called %r is left out", owner, one.name)
                continue
            seen.add(one.name)
            try:
                tool = self._tool(one, _unused(self._offered(one.name), made), owner, call)
            except (ConfigurationError, AttributeError, TypeError) as error:
                logger.warning("%s: the tool %r is left out: %s", owner, one.name, error)
                continue
            made[tool.name] = tool
        return tuple([made[name] for name in sorted(made)])  # servers list in any order; requests are to stay equal

    def _offered(self, name: str) -> str:
        """Return the name under which the server's tool *name* is offered."""
        return _ODD.sub("_", self.prefix + name)[:MAX_NAME]

    def _tool(self, listed: Any, offered: str, owner: str, call: Callable[..., Awaitable[Any]]) -> Tool:
        name, hints = listed.name, listed.annotations
        effect = self._effect(name, hints)

        async def run(**arguments: Any) -> Any:
            ctx = arguments.pop(CONTEXT)
            return await call(name, effect, ctx, arguments)

        run.__module__, run.__qualname__ = owner, name  # what errors about two tools of one name say
        return Tool(
            run,
            SchemaArguments(listed.input_schema),
            name=offered,
            description=listed.description or listed.title or "",
            context_parameter=CONTEXT,
            approval=self._approval(name, hints),
            effect=effect,
            timeout_s=self.timeout_s,
            origin=owner,
        )

    def _effect(self, name: str, hints: Any) -> Effect:
        said = _of(self.effect, name) if isinstance(self.effect, Mapping) else self.effect
        if said is not None:
            return said
        if hints is not None and hints.read_only_hint:
            return "read"
        return "idempotent" if hints is not None and hints.idempotent_hint else "write"

    def _approval(self, name: str, hints: Any) -> bool | Callable[..., Any]:
        said = _of(self.approval, name) if isinstance(self.approval, Mapping) else self.approval
        if said not in ("write", "destructive"):
            return said if callable(said) else bool(said)
        if hints is not None and hints.read_only_hint:
            return False
        return said == "write" or hints is None or hints.destructive_hint is not False


def _unused(name: str, taken: Collection[str]) -> str:
    """Return *name*, with a number where it is taken."""
    found, count = name, 2
    while found in taken:
        tail = f"_{count}"
        found, count = name[: MAX_NAME - len(tail)] + tail, count + 1
    return found


def _of(given: Mapping[str, Any], name: str) -> Any:
    """Return what is said of *name*: by its very name, else by the first pattern that fits."""
    if name in given:
        return given[name]
    return next((value for pattern, value in given.items() if fnmatchcase(name, pattern)), None)


def _values(given: Any) -> tuple[Any, ...]:
    return tuple(given.values()) if isinstance(given, Mapping) else (given,)


def _check_names(what: str, given: Any) -> None:
    if given is None:
        return
    if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(one, str) for one in given):
        raise ConfigurationError(f"{what} must be a list of tool names or patterns such as 'read_*'; got {given!r:.80}")
