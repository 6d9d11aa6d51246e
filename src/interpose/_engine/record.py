"""The record: a tree of nodes, run, step, model or tool, nested run; built only where somebody listens."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from interpose._engine.answers_given import about_call, about_run
from interpose._engine.plan import Hook
from interpose._engine.provenance import Passed, changes_of, config_passed, passed_on
from interpose._engine.shown import Shown
from interpose._engine.signals import LimitHit, Rank, Signal
from interpose.errors import RunAborted
from interpose.ids import create_id
from interpose.info import Change, Node, RunConfig
from interpose.redaction import Redactor
from interpose.request import ModelRequest, ModelResponse, Usage

if TYPE_CHECKING:
    from interpose._engine.chain import Call
    from interpose._engine.model_call import ModelCall
    from interpose._engine.run import Run
    from interpose._engine.tool_phase import ToolPass
    from interpose.result import RunResult

Kind = Literal["run", "step", "model", "tool"]
Outcome = Literal["finished", "interrupted", "aborted", "failed"]
T = TypeVar("T")
logger = logging.getLogger("interpose")


class OpenNode:
    """A node while it is open; `meta` is what `ctx.meta` wrote on it, `shown` what went in."""

    __slots__ = (
        "call_class", "failures", "id", "kind", "meta", "name", "parent_id", "provider", "shown", "started",
        "started_at", "step", "tool_call_id", "usage",
    )  # fmt: skip

    def __init__(self, kind: Kind, name: str, parent_id: str | None, started: float, started_at: float) -> None:
        self.kind: Kind = kind
        self.name = name
        self.parent_id = parent_id
        self.started = started
        self.started_at = started_at
        self.id = create_id(kind)
        self.meta: dict[str, Any] = {}
        self.shown: Any = None
        self.step: int | None = None
        self.provider: str | None = None
        self.call_class: str | None = None
        self.tool_call_id: str | None = None
        self.usage: Usage | None = None
        self.failures: list[BaseException] = []


class Record:
    """The nodes of one run, told to those who listen: the run's own middleware, and those of the runs around it."""

    __slots__ = (
        "at_init",
        "at_step",
        "hooked",
        "listeners",
        "parent_id",
        "rewrites",
        "run",
        "shown",
        "silenced",
        "stack",
        "wanted",
    )

    def __init__(self, run: Run, listeners: tuple[tuple[Hook, Any], ...], parent_id: str | None) -> None:
        self.run = run
        self.listeners = listeners
        self.parent_id = parent_id
        self.stack: list[OpenNode] = []
        self.shown = Shown(redactor_of(run))
        self.wanted = any(hook.middleware.reads_content for hook, _ in listeners)
        self.silenced: set[int] = set()
        self.at_init: tuple[Change, ...] = ()
        self.at_step: tuple[Change, ...] = ()
        self.hooked: list[Passed] = []
        self.rewrites: dict[int, dict[int, tuple[Any, Any]]] = {}

    @property
    def current(self) -> OpenNode:
        """The node of the run that is open now: its model call, its step, or itself."""
        return self.stack[-1]

    def open(self, kind: Kind, name: str, parent: OpenNode | None = None) -> OpenNode:
        """Return a new node under *parent*, or under the current one."""
        above = parent or (self.stack[-1] if self.stack else None)
        clock = self.run.clock
        node = OpenNode(
            kind, self.shown.name(name), above.id if above else self.parent_id, clock.monotonic(), clock.now()
        )
        node.step = self.run.number if kind == "step" else above.step if above is not None else None
        return node

    async def opened(self, node: OpenNode) -> None:
        """Tell that *node* begins."""
        run = self.run
        await self._tell(
            Node(
                phase="start",
                kind=node.kind,
                name=node.name,
                run_id=run.run_id,
                id=node.id,
                parent_id=node.parent_id,
                thread_id=run.thread_id,
                started_at=node.started_at,
                step=node.step,
                provider=node.provider,
                call_class=node.call_class,
                tool_call_id=node.tool_call_id,
                resumed_from=run.resumed_from if node.kind == "run" else None,
                content={"in": node.shown} if self.wanted else None,
            )
        )

    async def push(self, kind: Kind, name: str) -> OpenNode:
        """Open a node of the run itself and tell it; later nodes stand under it."""
        node = self.open(kind, name)
        if kind == "run":
            node.meta = self._made({}, about_run, self.run, node.started_at)
            if self.wanted:
                node.shown = self._made(None, self.shown.given, self.run.given)
        else:
            self.at_step = ()
        self.stack.append(node)
        await self.opened(node)
        return node

    async def pop(self, node: OpenNode, error: BaseException | None = None, **ended: Any) -> None:
        """Close *node*, and what was left open above it; *ended* are more fields of its last event."""
        while self.stack and node in self.stack:
            top = self.stack.pop()
            if top is node and node.kind == "step" and error is None and self.run.asked:
                ended["outcome"] = "interrupted"
            await self.close(top, error, **(ended if top is node else {}))

    async def close(
        self, node: OpenNode, error: BaseException | None = None, *, out: Any = None, failed: str | None = None,
        outcome: Outcome | None = None, changes: tuple[Change, ...] = (), **more: Any,
    ) -> None:  # fmt: skip
        """Tell that *node* ends: with *error*, or with *failed*, a text, where what it gave says that it failed."""
        run = self.run
        text, ended = (failed, "failed") if failed is not None else _ending(error)
        if text is not None:
            text = self.shown.redactor.cut(text)
        failures = node.failures
        await self._tell(
            Node(
                phase="end",
                kind=node.kind,
                name=node.name,
                run_id=run.run_id,
                id=node.id,
                parent_id=node.parent_id,
                thread_id=run.thread_id,
                started_at=node.started_at,
                step=node.step,
                provider=node.provider,
                call_class=node.call_class,
                tool_call_id=node.tool_call_id,
                resumed_from=run.resumed_from if node.kind == "run" else None,
                status="ok" if text is None else "error",
                outcome=outcome or ended,
                error=text,
                duration_ms=(run.clock.monotonic() - node.started) * 1000,
                usage=node.usage,
                failures=tuple([self.shown.redactor.cut(_named(one)) for one in failures]) if failures else (),
                content={"in": node.shown, "out": out} if self.wanted else None,
                meta=self.shown.redactor.value(node.meta) if node.meta else {},
                changes=changes,
                **more,
            )
        )

    # The kinds.

    async def end_run(self, result: RunResult | None, kind: str | None, error: BaseException | None) -> None:
        """Close the run's node; *kind* is `abort`, `error` or None for an end in good order."""
        run = self.run
        run.run_node.usage = run.usage
        outcome = {"abort": "aborted", "error": "failed"}.get(kind or "", result.status if result else "finished")
        reason = {"abort": "cancelled", "error": "error"}.get(kind or "", result.finish_reason if result else None)
        out = self._made(None, self.shown.result, result) if result is not None and self.wanted else None
        await self.pop(run.run_node, error, out=out, outcome=outcome, finish_reason=reason, changes=self.at_init)

    async def open_model(self, request: ModelRequest, parent: OpenNode | None = None, *, own: bool = False) -> OpenNode:
        """Open the node of a model call; a middleware's *own* call is not one that later nodes stand under."""
        node = self.open("model", request.model, parent)
        self._sent(node, request)
        self.hooked.clear()
        if not own:
            self.stack.append(node)
        await self.opened(node)
        return node

    def _sent(self, node: OpenNode, request: ModelRequest) -> None:
        node.name, node.provider, node.call_class = self.shown.name(request.model), request.provider, request.call_class
        if self.wanted:
            node.shown = self._made(None, self.shown.request, request)

    async def close_model(
        self, node: OpenNode, call: ModelCall, given: ModelRequest, response: ModelResponse | None,
        error: BaseException | None = None,
    ) -> None:  # fmt: skip
        """Close the node of the model call of a step, with the request that reached the model."""
        sent = call.reached
        if response is not None and response.made_by is not None:
            sent = call.made_request
        if sent is not None and sent is not given:
            self._sent(node, sent)
        node.usage = call.usage
        changes = self._changes(passed_on(call, self.rewrites.pop(id(call), {}), self.hooked))
        more: dict[str, Any] = {}
        if response is not None:
            out = self._made(None, self.shown.response, response) if self.wanted else None
            more = {"out": out, "finish_reason": response.finish_reason, "made_by": response.made_by}
        superseded = call.narrator.superseded if call.narrator is not None else 0
        await self.pop(
            node, error, attempts=call.attempts, superseded=superseded,
            changes=(*self.at_init, *self.at_step, *changes), **more,
        )  # fmt: skip

    async def close_own(
        self, node: OpenNode, response: ModelResponse | None, usage: Usage | None, error: BaseException | None = None
    ) -> None:
        """Close the node of a model call of a middleware's own."""
        node.usage = usage
        out = self._made(None, self.shown.response, response) if response is not None and self.wanted else None
        reason = response.finish_reason if response is not None else None
        await self.close(node, error, out=out, attempts=1, finish_reason=reason)

    async def open_tool(self, one: ToolPass) -> OpenNode:
        """Open the node of a tool call."""
        node = self.open("tool", one.original.name, self.run.step_node)
        node.tool_call_id = one.original.id
        if self.wanted:
            node.shown = self._made(None, self.shown.call, one.original)
        await self.opened(node)
        return node

    async def close_tool(self, one: ToolPass, error: BaseException | None) -> None:
        """Close the node of a tool call, with the arguments that really ran and what a person said about it."""
        node: OpenNode = one.node
        result = one.result
        if self.wanted and one.ran is not one.original:
            node.shown = self._made(None, self.shown.call, one.ran)
        nothing: dict[str, Any] = {}
        node.meta.update(self._made(nothing, about_call, self.run, one))
        await self.close(
            node,
            error,
            out=self._made(None, self.shown.answer, result) if result is not None and self.wanted else None,
            failed=result.text if result is not None and result.is_error else None,
            outcome="interrupted" if result is None and error is None else None,
            changes=self._changes(passed_on(one, self.rewrites.pop(id(one), {}))),
        )

    # What happens meanwhile.

    def spend(self, usage: Usage) -> None:
        """Count *usage* for the step that is open."""
        for node in self.stack:
            if node.kind == "step":
                node.usage = usage if node.usage is None else node.usage + usage

    def failed_attempt(self, error: BaseException) -> None:
        """Note that a call of the provider failed, which may be tried again."""
        if self.stack[-1].kind == "model" and not isinstance(error, Signal | CancelledError):
            self.stack[-1].failures.append(error)

    def rewrote(self, call: Call, index: int, old: Any, new: Any) -> None:
        """Note that the before-hook of a layer of *call* put *new* in the place of *old*."""
        self.rewrites.setdefault(id(call), {})[index] = (old, new)

    def configured(self, base: RunConfig, changes: list[tuple[str, RunConfig]]) -> None:
        """Note what `on_config` hooks changed, for the whole run or for this step."""
        found = self._changes(config_passed(base, changes))
        if self.run.phase == "init":
            self.at_init = found
        else:
            self.at_step = found

    def _changes(self, passed: Iterator[Passed]) -> tuple[Change, ...]:
        return self._made((), changes_of, passed, self.shown.redactor)

    def _made(self, otherwise: T, make: Callable[..., T], *args: Any) -> T:
        """Return what *make* gives; where values of users play tricks on it, *otherwise*: the run is not harmed."""
        try:
            return make(*args)
        except Exception:
            logger.exception("part of the record of run %s could not be made", self.run.run_id)
            return otherwise

    async def _tell(self, node: Node) -> None:
        for hook, ctx in self.listeners:
            try:
                said = hook.call(ctx, node)
                if said is not None and isawaitable(said):
                    await said
            except Exception:
                self._failed(hook)
            except CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling() or self.run.noted is not None:
                    raise
                self._failed(hook)

    def _failed(self, hook: Hook) -> None:
        """Log, once a run, that an observer fails."""
        if id(hook) not in self.silenced:
            self.silenced.add(id(hook))
            logger.exception("%r failed; the run goes on, and further failures of it in this run are not told", hook)


def redactor_of(run: Run) -> Redactor:
    """Return what takes secrets out of the record of *run*: as its agent says, and those of the runs around it."""
    own: Any = run.agent.redact
    return own if run.parent is None else own.also(redactor_of(run.parent).given)  # type: ignore[no-any-return]


def _ending(error: BaseException | None) -> tuple[str | None, Outcome]:
    """Return what *error* says, None where it is none, and how what it ended came out."""
    if error is None:
        return None, "finished"
    if isinstance(error, Signal):
        rank, value = error.note.rank, error.note.value
        if rank is Rank.END:
            return None, "finished"
        if rank is Rank.PAUSE:
            return None, "interrupted"
        if isinstance(value, LimitHit):
            return f"LimitExceeded: {value.message or f'{value.limit}={value.value} is reached'}", "failed"
        if rank is Rank.ERROR:
            return _named(value), "failed"
        return f"aborted: {value}" if value else "aborted", "aborted"
    return _named(error), "aborted" if isinstance(error, RunAborted | CancelledError) else "failed"


def _named(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
