"""AG-UI over HTTP: begin and resume runs, read on, cancel, and look at threads and open questions."""

from collections.abc import Mapping
from typing import Any

from interpose.agent import Agent
from interpose.errors import ConfigurationError, InterposeError, ResumeError
from interpose.server.ag_ui_input import INSTRUCTING, RunAgentInput, taken_messages
from interpose.server.auth import Gate
from interpose.server.bodies import convert, read_json
from interpose.server.caller import Caller, checked_id, kept_id
from interpose.server.failures import error_id, logger
from interpose.server.http import Refusal, Request, Response, json_response
from interpose.server.options import Options
from interpose.server.runs import Ended, Runs, Served
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
            return self._read_on(name, kept_id(owner, given.run_id), last_seen(request))
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
        try:
            if given.resume:
                return await self._resumed(name, agent, caller, given)
            instructs = self._options.client_system_messages
            messages = taken_messages(given.messages, has_store=agent.store is not None, instructs=instructs)
            return await self._runs.begin(name, caller, messages)
        except ResumeError as error:
            problems = [{"interruptId": id, "problem": what} for id, what in error.problems]
            raise Refusal(409, "cannot_resume", str(error), problems=problems) from None
        except (ConfigurationError, InterposeError) as error:
            id = error_id(caller.run_id, "begin")
            logger.exception("a run of agent %r could not begin (%s)", name, id)
            raise Refusal(500, "cannot_begin", f"the run could not begin (error id {id})") from error

    async def _resumed(self, name: str, agent: Agent[Any], caller: Caller, given: RunAgentInput) -> Served:
        """Go on with the run of the thread that asked what is answered."""
        thread_id = kept_id(caller.owner, given.thread_id)
        parent = kept_id(caller.owner, given.parent_run_id) if given.parent_run_id else None
        ids = {answer["interruptId"] for answer in given.resume or ()}
        await self._runs.thread_is_free(name, thread_id)
        if agent.store is None:
            kept = self._runs.paused.pop((name, thread_id), None)
            if kept is None:
                raise nothing_open(ids)
            try:
                return await self._runs.begin(
                    name, caller, None, paused=kept.checkpoint, answers=list(given.resume or ())
                )
            except BaseException:
                self._runs.paused[name, thread_id] = kept
                raise
        found = [one for one in await agent.store.paused(thread_id) if ids & {asked.id for asked in one.interrupts}]
        if not found:
            raise nothing_open(ids)
        paused = next((one.run_id for one in found if one.run_id == parent), found[0].run_id)
        return await self._runs.begin(name, caller, None, paused=paused, answers=list(given.resume or ()))

    async def again(self, request: Request) -> Response:
        """Read a run that is named in the query, as TanStack AI asks for it."""
        owner = await self._gate.owner(request)
        name, _ = self._agent(request)
        run_id = checked_id(request.query_params.get("runId"), "runId")
        return self._read_on(name, kept_id(owner, run_id), last_seen(request))

    async def events(self, request: Request) -> Response:
        """Read on in a run."""
        owner = await self._gate.owner(request)
        name, _ = self._agent(request)
        run_id = checked_id(request.path_params["run"], "the run's id")
        return self._read_on(name, kept_id(owner, run_id), last_seen(request))

    async def cancel(self, request: Request) -> Response:
        """Stop a run."""
        owner = await self._gate.owner(request)
        name, _ = self._agent(request)
        run_id = checked_id(request.path_params["run"], "the run's id")
        run = self._found(name, kept_id(owner, run_id))
        if isinstance(run, Served):
            self._runs.cancel(run)
        return json_response({"runId": run_id, "cancelled": isinstance(run, Served)}, 202)

    # Shared.

    def _agent(self, request: Request) -> tuple[str, Agent[Any]]:
        name = request.path_params["name"]
        agent = self._runs.agents.get(name)
        if agent is None:
            raise Refusal(404, "no_agent", f"there is no agent {name!r:.60} here")
        return name, agent

    def _found(self, name: str, kept: str) -> Served | Ended:
        run = self._runs.find(name, kept)
        if run is None:
            raise Refusal(404, "no_run", "there is no such run of yours, or it ended too long ago")
        return run

    def _read_on(self, name: str, kept: str, after: int) -> Response:
        return self._stream(self._found(name, kept), after, {})

    def _stream(self, run: Served | Ended, after: int, headers: Mapping[str, str]) -> Response:
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
        if given.tools:
            left.append("tools")
        return {"interpose-left-out": ", ".join(left)} if left else {}


def nothing_open(ids: set[str]) -> ResumeError:
    """Return the error of answers to what nobody asks, or nobody asks any more."""
    problems = tuple((id, "no such question is open") for id in sorted(ids))
    return ResumeError("the answers do not fit the questions, so nothing ran", problems)


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
