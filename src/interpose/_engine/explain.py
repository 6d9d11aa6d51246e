"""What `agent.explain()` says: the resolved order, seam by seam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.model_call import MODEL_SEAM
from interpose._engine.plan import Plan, name_of
from interpose._engine.tool_phase import TOOL_SEAM
from interpose.messages import Value
from interpose.middleware import HOOKS

if TYPE_CHECKING:
    from interpose.agent import Agent

REVERSED = ("close", "on_finish", "on_abort", "on_error", "after_model_call", "after_tool_call")


class Explanation(Value, frozen=True, kw_only=True):
    """Who acts where, in which order; `str()` gives it as a text.

    *hooks* names, for each hook that somebody has, the middleware in the order in which they are called. *model_layers*
    and *tool_layers* are the two onions, outermost first; *model_seam* and *tool_seam* their stations.
    """

    agent: str
    model: str
    hooks: dict[str, tuple[str, ...]]
    model_layers: tuple[str, ...]
    tool_layers: tuple[str, ...]
    run_layers: tuple[str, ...]
    holds_stream: tuple[str, ...]
    tools: dict[str, str]
    provides: dict[str, tuple[str, ...]]
    requires: dict[str, tuple[str, ...]]
    model_seam: tuple[str, ...]
    tool_seam: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.agent} on {self.model}"]
        for title, order in (
            ("run onion", self.run_layers),
            ("model onion", self.model_layers),
            ("tool onion", self.tool_layers),
        ):
            lines.append(f"\n{title}, outermost first: {' > '.join(order) or 'no layers'}")
        lines.append(f"\nmodel seam: {' > '.join(self.model_seam)}")
        lines.append(f"tool seam:  {' > '.join(self.tool_seam)}\n")
        width = max(map(len, self.hooks), default=0)
        lines += [f"{hook:<{width}}  {', '.join(order)}" for hook, order in self.hooks.items()]
        if self.holds_stream:
            lines.append(f"\nholds the stream: {', '.join(self.holds_stream)}")
        if self.tools:
            lines.append("\ntools: " + ", ".join(f"{tool} ({origin})" for tool, origin in self.tools.items()))
        for title, caps in (("provides", self.provides), ("requires", self.requires)):
            lines += [f"{who} {title} {', '.join(names)}" for who, names in caps.items()]
        return "\n".join(lines)


def explain(agent: Agent[Any], plan: Plan) -> Explanation:
    """Return who acts where in the runs of *agent*."""
    hooks = {}
    for name in HOOKS:
        names = [name_of(hook.middleware) for hook in plan.hooks[name]]
        if names:
            hooks[name] = tuple(reversed(names) if name in REVERSED else names)
    middleware = plan.middleware
    brought = [tool for one in middleware for tool in getattr(one, "brings", ())]  # known only once it is open
    return Explanation(
        agent=agent.name,
        model=f"{agent.model.provider}:{agent.model.name}",
        hooks=hooks,
        model_layers=tuple(layer.name for layer in plan.model_layers),
        tool_layers=tuple(layer.name for layer in plan.tool_layers),
        run_layers=tuple(layer.name for layer in plan.run_layers),
        holds_stream=tuple(name_of(one) for one in middleware if one.holds_stream),
        tools={tool.name: tool.origin for tool in (*plan.tools, *brought)},
        provides={name_of(one): tuple(c.name for c in one.provides) for one in middleware if one.provides},
        requires={name_of(one): tuple(c.name for c in one.requires) for one in middleware if one.requires},
        model_seam=tuple(name for name, _ in MODEL_SEAM),
        tool_seam=tuple(name for name, _ in TOOL_SEAM),
    )
