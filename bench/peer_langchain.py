"""LangChain's agent with agent middleware, as its documentation says, and a chat model of its base class."""
# ruff: noqa: ARG002  # hooks and fakes take the arguments of their seam, used or not

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from bench.cases import (
    LOOP_STEPS,
    PROMPT,
    TALLY,
    TOOL,
    Case,
    Script,
    Turn,
    add_stock,
    call_id,
    prior_messages,
    wraps_tools,
)


def refuses(case: Case) -> str | None:
    """Return why *case* is not measured here, or None."""
    if case.workload == "W4":
        return "its middleware has no hook that sees streamed text"
    if case.hooks == "all" and (case.n > 10 or case.workload == "W7"):
        return "each hook becomes a node of its graph, which takes too long to measure"
    return None


class BenchModel(BaseChatModel):
    """Answers from a script; counts what it is asked."""

    script: Any
    counted: bool = False
    gate: Any = None

    @property
    def _llm_type(self) -> str:
        return "bench"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model: its answers are fixed."""
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        raise TypeError("the model of the benchmark is called with await")

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        turn = self.script.next()
        if self.counted:
            TALLY.results_seen = len([message for message in messages if message.type == "tool"])
        if self.gate is not None:
            await self.gate.wait()
        return ChatResult(generations=[ChatGeneration(message=_answer(turn))])


def _answer(turn: Turn) -> AIMessage:
    calls = [{"name": TOOL, "args": json.loads(args), "id": call_id(), "type": "tool_call"} for args in turn.calls]
    return AIMessage(content=turn.text, tool_calls=calls)


class WrapModel(AgentMiddleware[Any, Any]):
    """A layer around model calls."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Pass on."""
        return await handler(request)


class WrapBoth(WrapModel):
    """A layer around model calls and around tool calls."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Pass on."""
        return await handler(request)


class CountModel(AgentMiddleware[Any, Any]):
    """Counts model calls."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Count and pass on."""
        TALLY.model_hooks += 1
        return await handler(request)


class CountBoth(CountModel):
    """Counts model calls and tool calls."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Count and pass on."""
        TALLY.tool_hooks += 1
        return await handler(request)


class _Nodes:
    """The hooks that are no wraps."""

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    async def aafter_model(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Do nothing."""


def _middleware(case: Case, counted: bool) -> list[Any]:
    both = wraps_tools(case) or case.hooks == "all"
    kind: Any = (CountBoth if both else CountModel) if counted else WrapBoth if both else WrapModel
    bases = (_Nodes, kind) if case.hooks == "all" else (kind,)
    return [type(f"Bench{index}", bases, {})() for index in range(case.n)]  # names must differ


def build(case: Case, *, counted: bool = False, gate: asyncio.Event | None = None) -> Callable[[], Awaitable[str]]:
    """Return what makes one run of *case* and returns its text."""
    model = BenchModel(script=Script(case), counted=counted, gate=gate)
    tools = [tool(add_stock)] if wraps_tools(case) else []
    agent = create_agent(model, tools, middleware=_middleware(case, counted))
    prior = [_message(index, role, text) for index, (role, text) in enumerate(prior_messages(case.prior))]
    config = {"recursion_limit": 50 * LOOP_STEPS}

    async def run() -> str:
        state = await agent.ainvoke({"messages": [*prior, HumanMessage(PROMPT)]}, config)
        return str(state["messages"][-1].content)

    return run


def _message(index: int, role: str, text: str) -> BaseMessage:
    match role:
        case "user":
            return HumanMessage(text)
        case "call":
            args = {"item": text, "count": index}
            return AIMessage(content="", tool_calls=[{"name": TOOL, "args": args, "id": f"prior_{index}"}])
        case "result":
            return ToolMessage(text, tool_call_id=f"prior_{index - 1}")
        case _:
            return AIMessage(content=text)
