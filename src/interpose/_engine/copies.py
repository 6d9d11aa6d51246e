"""Copies of agents: whole, new and unopened."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from interpose._engine.models import as_model
from interpose._engine.plan import as_list, as_middleware, is_factory
from interpose.clock import REAL_CLOCK
from interpose.limits import Limits
from interpose.request import ModelSettings

if TYPE_CHECKING:
    from interpose.agent import Agent

AgentT = TypeVar("AgentT", bound="Agent[Any]")


def copied(agent: AgentT, changes: dict[str, Any]) -> AgentT:
    """Return a copy of *agent* with *changes*.

    Raises:
        TypeError: a name is no argument of `Agent`.
    """
    known = inspect.signature(type(agent).__init__).parameters
    for name in changes:
        if name not in known or name == "self":
            raise TypeError(f"copy() got {name!r}; it takes the arguments of Agent: {', '.join([*known][1:])}")
    new: AgentT = object.__new__(type(agent))
    new.__dict__.update(agent.__dict__)
    new._middleware = list(agent._middleware)
    new.post_model_hooks = list(agent.post_model_hooks)
    new.pre_model_hooks = list(agent.pre_model_hooks)
    renamed = {"tools": "own_tools"}
    for name, value in changes.items():
        if name == "middleware":
            new._factory = value if is_factory(value) else None
            new._middleware = [] if is_factory(value) else [as_middleware(one) for one in as_list(value)]
        elif name == "model":
            new.model = as_model(value)
        elif name in ("settings", "limits", "clock"):
            default = {"settings": ModelSettings(), "limits": Limits(), "clock": REAL_CLOCK}[name]
            setattr(new, name, default if value is None else value)
        else:
            setattr(new, renamed.get(name, name), list(value) if name == "post_model_hooks" else value)
    new.own_tools = tuple(new.own_tools)
    new._begin_life()
    new._build()
    return new
