"""Asks a person before tool calls, by rules."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from interpose.errors import ConfigurationError
from interpose.middleware import Middleware
from interpose.tools import Tool

if TYPE_CHECKING:
    from interpose.agent import Agent
    from interpose.context import RunContext
    from interpose.info import RunConfig
    from interpose.messages import ToolCall
    from interpose.request import ModelRequest

Decision = Callable[["RunContext[Any]", "ToolCall"], Any]
"""A rule of one's own, plain or async: True asks, False lets the call run, None leaves it to the next rule."""


class Rule:
    """Asks about, or allows, the calls of tools whose name fits *tool* and whose arguments fit *conditions*."""

    __slots__ = ("asks", "conditions", "tool")

    def __init__(self, asks: bool, tool: Any, conditions: Mapping[str, Any]) -> None:
        if not isinstance(tool, str) or not tool:
            raise ConfigurationError(f"a rule names a tool, or a pattern such as 'delete_*', got {tool!r:.80}")
        self.asks = asks
        self.tool = tool
        self.conditions = dict(conditions)

    def __repr__(self) -> str:
        told = "".join([f", {name}={value!r}" for name, value in self.conditions.items()])
        return f"Approval.{'ask' if self.asks else 'allow'}({self.tool!r}{told})"

    async def __call__(self, _ctx: Any, call: "ToolCall") -> bool | None:
        """Return whether *call* is to be asked about; None where the rule does not fit it."""
        if not fnmatchcase(call.name, self.tool):
            return None
        for name, wanted in self.conditions.items():
            if name not in call.args or not await self._fits(wanted, call.args[name]):
                return None
        return self.asks

    async def _fits(self, wanted: Any, value: Any) -> bool:
        if not callable(wanted):
            return bool(wanted == value) and isinstance(wanted, bool) is isinstance(value, bool)
        try:
            said = wanted(value)
            return bool(await said if isawaitable(said) else said)
        except (TypeError, ValueError, ArithmeticError):
            return self.asks  # what cannot be compared is asked about

    def check(self, tools: Sequence[Tool]) -> None:
        """Check the rule against the *tools* of an agent.

        Raises:
            ConfigurationError: no tool has this name, or none has an argument that it looks at.
        """
        fitting = [one for one in tools if fnmatchcase(one.name, self.tool)]
        if not fitting and not any(sign in self.tool for sign in "*?["):
            names = ", ".join(repr(one.name) for one in tools) or "none"
            raise ConfigurationError(f"{self!r}: the agent has no tool {self.tool!r}; it has: {names}")
        for name in self.conditions:
            if fitting and not any(_takes(one, name) for one in fitting):
                raise ConfigurationError(f"{self!r}: no tool that it is about has an argument {name!r}")


def _takes(tool: Tool, name: str) -> bool:
    return name in tool.parameters.get("properties", {}) or bool(tool.parameters.get("additionalProperties", False))


class _Above:
    __slots__ = ("limit",)

    def __init__(self, limit: Any) -> None:
        self.limit = limit

    def __call__(self, value: Any) -> bool:
        return bool(value is not None and not value <= self.limit)

    def __repr__(self) -> str:
        return f"Approval.above({self.limit!r})"


class _Gate:
    """The `approval` of one tool under the rules; what the tool says itself comes last."""

    __slots__ = ("own", "owner")

    def __init__(self, owner: "Approval", own: Any) -> None:
        self.owner = owner
        self.own = own

    async def __call__(self, ctx: Any, call: "ToolCall") -> bool:
        wanted = await self.owner.decide(ctx, call)
        if wanted is None:
            wanted = self.own(ctx, call) if callable(self.own) else self.own
            if isawaitable(wanted):
                wanted = await wanted
        return bool(wanted)


class Approval(Middleware[Any]):
    """Asks a person before tool calls, by *rules*: the first that fits a call decides.

    `Approval.ask("pay")` asks about every call of a tool, or of all that fit a pattern (`"delete_*"`);
    `Approval.ask("pay", amount=Approval.above(100))` about those whose arguments fit: a value, or a function of it,
    plain or async. `Approval.allow(...)` lets such calls run unasked. A rule may also be a function of `(ctx, call)`,
    plain or async: True asks, False allows, None leaves it to the next rule. Rules see the final, typed arguments, and
    hold in nested runs too. Where none fits, the tool's own `approval=` decides.

    Raises:
        ConfigurationError: a rule is none, or names a tool or an argument that the agent does not have.
    """

    nested = True

    def __init__(self, rules: Sequence[Rule | Decision]) -> None:
        given: Any = rules
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ConfigurationError(f"rules must be a list, such as [Approval.ask('pay')], got {rules!r:.80}")
        for one in rules:
            if not callable(one):
                raise ConfigurationError(
                    f"a rule is Approval.ask(...), Approval.allow(...) or a function, got {one!r:.80}"
                )
        self._rules = tuple(rules)

    @staticmethod
    def ask(tool: str = "*", /, **conditions: Any) -> Rule:
        """Ask about calls of *tool* whose arguments fit *conditions*."""
        return Rule(True, tool, conditions)

    @staticmethod
    def allow(tool: str = "*", /, **conditions: Any) -> Rule:
        """Let calls of *tool* whose arguments fit *conditions* run unasked."""
        return Rule(False, tool, conditions)

    @staticmethod
    def above(limit: Any) -> Callable[[Any], bool]:
        """Return a condition that holds for values above *limit*.

        What cannot be compared with it counts as above; None, which is no value, does not.
        """
        return _Above(limit)

    def open(self, agent: "Agent[Any]") -> None:
        """Check the rules against the agent's tools."""
        for one in self._rules:
            if isinstance(one, Rule):
                one.check(agent.tools)

    def on_config(self, ctx: "RunContext[Any]", config: "RunConfig") -> "RunConfig | None":
        """Put the rules in front of each tool's own approval."""
        if ctx.phase == "structured_output":
            return None
        guarded = self._guarded(config.tools)
        return None if guarded is None else config.replace(tools=guarded)

    def before_model_call(self, _ctx: "RunContext[Any]", request: "ModelRequest") -> "ModelRequest | None":
        """Do so for tools that came later: by the `on_config` of others, or by a layer outside this one."""
        guarded = self._guarded(request.tools)
        return None if guarded is None else request.with_tools(guarded)

    def _guarded(self, tools: Sequence[Tool]) -> tuple[Tool, ...] | None:
        """Return *tools* with the rules in front of each one's own approval; None where all have them already."""
        if all([self._guards(one) for one in tools]):
            return None
        return tuple([one if self._guards(one) else one.replace(approval=_Gate(self, one.approval)) for one in tools])

    def _guards(self, tool: Tool) -> bool:
        gate = tool.approval
        while isinstance(gate, _Gate):
            if gate.owner is self:
                return True
            gate = gate.own
        return False

    async def decide(self, ctx: Any, call: "ToolCall") -> bool | None:
        """Return whether *call* is to be asked about; None where no rule fits."""
        for rule in self._rules:
            said = rule(ctx, call)
            if isawaitable(said):
                said = await said
            if said is not None:
                return bool(said)
        return None
