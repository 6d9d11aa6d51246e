"""AG-UI over HTTP: begin and resume runs, read on, cancel, and look at threads and open questions."""

from collections.abc import Mapping
from typing import Any

from interpose.agent import Agent
from interpose.errors import InterposeError, ResumeError, StoreError
from interpose.server.ag_ui_input import INSTRUCTING, RunAgentInput, taken_messages
from interpose.server.ag_ui_threads import MOST, questions, thread, threads
from interpose.server.auth import Gate
from interpose.server.bodies import convert, read_json
from interpose.server.caller import Caller, checked_id, kept_id
from interpose.server.client_tools import client_tools
from interpose.server.failures import error_id, logger
from interpose.server.going_on import Claimed, going_on
from interpose.server.http import Refusal, Request, Response, json_response
from interpose.server.options import Options
from interpose.server.runs import Runs
from interpose.server.served import Elsewhere, Served
from interpose.server.stream import EventStream


class AgUi:
    """What the addresses under `/ag-ui` answer."""

    def __init__(self, runs: Runs, gate: Gate, options: Options) -> None:
        self._runs = runs
        self._gate = gate
        self._options = options

    async def agents(self, request: Request) -> Response:
        """List the agents."""
        await self._gate.owner(request)
        return json_response({"agents": [{"name": name} for name in self._runs.agents]})

    async def run(self, request: Request) -> Response:
        """Begin a run, or go on with a paused one, and stream its events."""
        owner = await self._gate.owner(request)
        name, agent = self._agent(request)
        given = convert(await read_json(request, self._options), RunAgentInput, "RunAgentInput")
        given.check()
        if "last-event-id" in request.headers:  # a client whose connection broke sends its request again
            return await self._read_on(name, kept_id(owner, given.run_id), last_seen(request))
        caller = Caller(
            owner=owner,
            agent=name,
            thread_id=given.thread_id,
            run_id=given.run_id,
            state=given.state,
            context=given.context,
            forwarded_props=given.forwarded_props,
            headers=request.headers,
        )
        served = await self._begun(name, agent, caller, given)
        return self._stream(served, -1, {"x-run-id": given.run_id, **self._left_out(given)})

    async def _begun(self, name: str, agent: Agent[Any], caller: Caller, given: RunAgentInput) -> Served:
        own = client_tools(given.tools, [one.name for one in agent.tools]) if self._options.client_tools else []
        try:
            going = await going_on(self._runs, name, caller.owner, given)
            if going is not None:
                with Claimed(self._runs, name, going) as claimed:
                    answers = list(going.answers)
                    return await self._runs.begin(
                        name, caller, None, paused=claimed.run, answers=answers, middleware=own
                    )
            instructs = self._options.client_system_messages
            messages = taken_messages(given.messages, has_store=agent.store is not None, instructs=instructs)
            if given.resume is not None and not messages:
                raise Refusal(422, "bad_input", "`resume` is empty: name the run to go on with, as `parentRunId`")
            return await self._runs.begin(name, caller, messages, middleware=own)
        except ResumeError as error:
            problems = [{"interruptId": id, "problem": what} for id, what in error.problems]
            raise Refusal(409, "cannot_resume", _public(error, caller.owner), problems=problems) from None
        except InterposeError as error:
            id = error_id(caller.run_id, "begin")
            logger.exception("a run of agent %r could not begin (%s)", name, id)
            status = 503 if isinstance(error, StoreError) else 500
            raise Refusal(status, "cannot_begin", f"the run could not begin (error id {id})") from error

    async def again(self, request: Request) -> Response:
        """Read a run that is named in the query, as TanStack AI asks for it."""
        owner = await self._gate.owner(request)
        name, _ = self._agent(request)
        if "runId" not in request.query_params:
            raise Refusal(422, "bad_id", "say which run to read, with ?runId=…; a POST begins one")
        run_id = checked_id(request.query_params["runId"], "runId")
        return await self._read_on(name, kept_id(owner, run_id), last_seen(request))

    async def events(self, request: Request) -> Response:
        """Read on in a run."""
        owner = await self._gate.owner(request)
        name, _ = self._agent(request)
        run_id = checked_id(request.path_params["run"], "the run's id")
        return await self._read_on(name, kept_id(owner, run_id), last_seen(request))

    async def cancel(self, request: Request) -> Response:
        """Stop a run."""
        owner = await self._gate.owner(request)
        name, _ = self._agent(request)
        run_id = checked_id(request.path_params["run"], "the run's id")
        run = await self._found(name, kept_id(owner, run_id))
        return json_response({"runId": run_id, "cancelled": await self._runs.cancel(run)}, 202)

    # Looking.

    async def threads(self, request: Request) -> Response:
        """List the owner's threads."""
        owner = await self._gate.owner(request)
        name, _ = self._agent(request)
        query = request.query_params
        limit = int(_number(query.get("limit", str(MOST)), "limit", 1, MOST))
        before = _number(query["before"], "before", 0, 1e12) if "before" in query else None
        return json_response(await threads(self._runs, name, owner, limit, before))

    async def thread(self, request: Request) -> Response:
        """Show one thread."""
        owner = await self._gate.owner(request)
        name, _ = self._agent(request)
        found = await thread(self._runs, name, owner, checked_id(request.path_params["thread"], "the thread's id"))
        if found is None:
            raise Refusal(404, "no_thread", "there is no such thread of yours")
        return json_response(found)

    async def interrupts(self, request: Request) -> Response:
        """List what waits for the owner's answers."""
        owner = await self._gate.owner(request)
        name, _ = self._agent(request)
        asked = request.query_params.get("threadId")
        thread_id = None if asked is None else checked_id(asked, "threadId")
        return json_response({"runs": await questions(self._runs, name, owner, thread_id)})

    # Shared.

    def _agent(self, request: Request) -> tuple[str, Agent[Any]]:
        name = request.path_params["name"]
        agent = self._runs.agents.get(name)
        if agent is None:
            raise Refusal(404, "no_agent", f"there is no agent {name!r:.60} here")
        return name, agent

    async def _found(self, name: str, kept: str) -> Served | Elsewhere:
        run = await self._runs.find(name, kept)
        if run is None:
            raise Refusal(404, "no_run", "there is no such run of yours, or it ended too long ago")
        return run

    async def _read_on(self, name: str, kept: str, after: int) -> Response:
        return self._stream(await self._found(name, kept), after, {})

    def _stream(self, run: Served | Elsewhere, after: int, headers: Mapping[str, str]) -> Response:
        return EventStream(
            lambda: self._runs.reading(run, after),
            heartbeat_s=self._options.heartbeat_s,
            send_timeout_s=self._options.send_timeout_s,
            headers=headers,
        )

    def _left_out(self, given: RunAgentInput) -> dict[str, str]:
        """Return a header that says what of a client's input was not taken."""
        left = []
        if not self._options.client_system_messages and any(m.get("role") in INSTRUCTING for m in given.messages):
            left.append("system messages")
        if given.tools and not self._options.client_tools:
            left.append("tools")
        return {"interpose-left-out": ", ".join(left)} if left else {}


def _public(error: ResumeError, owner: str) -> str:
    """Return why a run cannot be gone on with, with the ids that its owner knows."""
    return str(error).replace(kept_id(owner, ""), "") if owner else str(error)


def last_seen(request: Request) -> int:
    """Return the place of the last event that a client has, -1 for none.

    Raises:
        Refusal: what it says is no number.
    """
    query = request.query_params
    given = request.headers.get("last-event-id") or query.get("after") or query.get("offset") or "-1"
    try:
        return max(int(given), -1) if given.isascii() and len(given) < 20 else int("?")
    except ValueError:
        raise Refusal(
            400, "bad_event_id", f"Last-Event-ID must be the `id` of an event of this run, got {given!r:.60}"
        ) from None


def _number(given: str, name: str, least: float, most: float) -> float:
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise Refusal(400, "bad_query", f"{name} must be a number from {least:g} to {most:g}, got {given!r:.40}")
    return number
