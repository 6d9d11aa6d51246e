"""Tools that a client brings and runs itself: a call of one pauses the run until the client says what came of it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interpose.errors import ConfigurationError, FatalToolError
from interpose.interrupts import OpenInterrupt, Resolved
from interpose.middleware import Middleware
from interpose.outcomes import Pause
from interpose.server.http import Refusal
from interpose.tools import Tool, tool

ASKED = "interpose.client_tool"
"""The reason of the question that such a call is."""
NO_ARGUMENTS = {"type": "object", "properties": {}}


class ClientTools(Middleware[Any]):
    """Offers a client's tools to the model, and pauses where it calls one."""

    name = "interpose.client_tools"

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tuple(tools)
        self._names = frozenset(one.name for one in tools)

    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        """Ask the client, or hand on what it answered."""
        if call.name not in self._names:
            return None
        answer = ctx.answer(ASKED)
        if isinstance(answer, Resolved):
            return call.answer(answer.payload)
        return Pause(ASKED) if answer is None else None


def client_tools(given: Iterable[Mapping[str, Any]], taken: Iterable[str]) -> list[ClientTools]:
    """Return the middleware that brings the tools that a client describes, none where there are none.

    Raises:
        Refusal: one has no right name or no JSON schema, or its name is *taken* by a tool of the agent.
    """
    tools: list[Tool] = []
    names = set(taken)
    for one in given:
        name, parameters = one.get("name"), one.get("parameters") or NO_ARGUMENTS
        if not isinstance(name, str) or not name or not isinstance(parameters, Mapping):
            raise Refusal(422, "bad_input", "a tool needs a `name`, and `parameters` that are a JSON schema")
        if name in names:
            raise Refusal(422, "bad_input", f"the tool {name!r:.80} is there already; give yours another name")
        names.add(name)
        try:
            made = tool(_never, name=name, description=str(one.get("description") or ""), parameters=dict(parameters))
        except ConfigurationError as error:
            raise Refusal(422, "bad_input", f"the tool {name!r:.80}: {error}") from None
        except Exception:  # schemas can be wrong in more ways than can be named
            raise Refusal(422, "bad_input", f"the `parameters` of the tool {name!r:.80} are no JSON schema") from None
        tools.append(made)
    return [ClientTools(tools)] if tools else []


async def _never(**_: Any) -> None:
    raise FatalToolError("a client's tool is run by the client")


def calls_of_client(interrupts: Iterable[OpenInterrupt]) -> list[OpenInterrupt]:
    """Return those questions that are calls of a client's tools."""
    return [one for one in interrupts if one.reason == ASKED and one.tool_call is not None]
