"""Agents as a tool server: each is a tool with one argument, `prompt`."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from interpose.agent import Agent
from interpose.errors import ConfigurationError, InterposeError, RunAborted
from interpose.mcp.sdk import Server, types
from interpose.mcp.telling import Progress
from interpose.result import RunResult
from interpose.text import to_json, to_jsonable

logger = logging.getLogger("interpose.mcp")

_ODD = re.compile(r"[^A-Za-z0-9_-]+")
PARAMETERS = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "What to ask, with all that has to be known for it."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


def agent_server(
    agents: Agent[Any] | Sequence[Agent[Any]] | Mapping[str, Agent[Any]],
    *,
    name: str = "",
    descriptions: Mapping[str, str] | None = None,
) -> Any:
    """Return a server of the SDK that offers *agents* as tools, by their own names or those that a mapping gives.

    *descriptions* tells, by these names, what each is for. A call is a run: what it does is told as progress, a client
    that cancels the call aborts the run, and what fails it comes back as an error result. The server does not open or
    close the agents; `serve_stdio` and `serve_http` do.

    Raises:
        ConfigurationError: there is no agent, or two are of one name.
    """
    by_name = named(agents)
    told = dict(descriptions or {})
    if unknown := told.keys() - by_name.keys():
        raise ConfigurationError(f"no agent is called {min(unknown)!r}; there are: {', '.join(by_name)}")
    tools = [
        types.Tool(
            name=name,
            description=told.get(name) or f"Ask the agent {name!r}. It works by itself and answers when it is done.",
            input_schema=PARAMETERS,
        )
        for name in by_name
    ]

    async def on_list_tools(_: Any, __: Any) -> Any:
        return types.ListToolsResult(tools=tools)

    async def on_call_tool(ctx: Any, params: Any) -> Any:
        agent = by_name.get(params.name)
        if agent is None:
            return _error(f"there is no tool {params.name!r}; there are: {', '.join(by_name)}")
        arguments = params.arguments or {}
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or arguments.keys() != {"prompt"}:
            return _error(f"{params.name} takes one argument, 'prompt', a text; got {to_json(arguments)[:200]}")
        return await _answer(agent, prompt, Progress(ctx.session.report_progress))

    return Server(
        name or next(iter(by_name)),
        version=version("interpose"),
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )


async def _answer(agent: Agent[Any], prompt: str, progress: Progress) -> Any:
    """Run the agent and return what the client gets. Leaving it early aborts the run."""
    run = None
    try:
        run = await agent.start(prompt)
        async for event in run:
            await progress.tell(event)
        return _result(await run.result())
    except RunAborted as error:
        return _error(f"the run was aborted: {error}")
    except InterposeError as error:
        return _error(str(error) or type(error).__name__)
    except Exception as error:
        logger.exception("a run of %s failed", agent.name)
        return _error(f"the run failed with {type(error).__name__}; the server's log has more")
    finally:
        if run is not None:
            run.abort("cancelled by the client")  # of a run that has ended, nothing comes of it
            await run.__aexit__(None, None, None)


def _result(result: RunResult) -> Any:
    if result.status == "interrupted":
        questions = "; ".join(one.message or one.reason for one in result.interrupts)
        return _error(f"the run waits for a person, who cannot be asked from here: {questions}")
    if result.finish_reason == "limit":
        said = f"It had said: {result.text}" if result.text else "It had said nothing yet."
        return _error(f"the run was ended by a limit. {said}")
    if result.output is None:
        return types.CallToolResult(content=[types.TextContent(type="text", text=result.text)])
    output = to_jsonable(result.output)
    structured = output if isinstance(output, dict) else {"result": output}
    text = types.TextContent(type="text", text=to_json(output))
    return types.CallToolResult(content=[text], structured_content=structured)


def _error(text: str) -> Any:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def named(agents: Any) -> dict[str, Agent[Any]]:
    """Return *agents* by the names of their tools.

    Raises:
        ConfigurationError: there is none, something else is among them, or two are of one name.
    """
    if isinstance(agents, Mapping):
        pairs = list(agents.items())
    else:
        pairs = [(getattr(one, "name", ""), one) for one in ([agents] if isinstance(agents, Agent) else list(agents))]
    if not pairs:
        raise ConfigurationError("there is no agent to offer")
    found: dict[str, Agent[Any]] = {}
    for name, agent in pairs:
        if not isinstance(agent, Agent):
            raise ConfigurationError(f"expected an Agent, got {type(agent).__name__}: {agent!r:.80}")
        tool = _ODD.sub("_", name).strip("_")[:64] or "agent"
        if found.setdefault(tool, agent) is not agent:
            raise ConfigurationError(f"two agents are called {tool!r}; give one another name: Agent(..., name='...')")
    return found
