"""The record: a tree of nodes, run, step, model or tool, nested run; built only where somebody listens."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeVar

from interpose._engine.answers_given import about_call, about_run
from interpose._engine.open_node import Kind, OpenNode, ended, ending, named, started
from interpose._engine.plan import Hook
from interpose._engine.provenance import Passed, config_passed, passed_on, untouched
from interpose._engine.shown import Shown
from interpose._engine.signals import Signal
from interpose.info import Later, Node, RunConfig
from interpose.request import ModelRequest, ModelResponse, Usage

if TYPE_CHECKING:
    from interpose._engine.chain import Call
    from interpose._engine.model_call import ModelCall
    from interpose._engine.run import Run
    from interpose._engine.tool_phase import ToolPass
    from interpose.redaction import Redactor
    from interpose.result import RunResult

T = TypeVar("T")
logger = logging.getLogger("interpose")


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
        self.at_init: tuple[Passed, ...] = ()
        self.at_step: tuple[Passed, ...] = ()
        self.hooked: list[Passed] = []
        self.rewrites: dict[int, dict[int, tuple[Any, Any]]] = {}

    @property
    def current(self) -> OpenNode:
        """The node of the run that is open now: its model call, its step, or itself."""
        return self.stack[-1]

    def open(self, kind: Kind, name: str, parent: OpenNode | None = None) -> OpenNode:
        """Return a new node under *parent*, or under the current one."""
        above = parent if parent is not None else self.stack[-1] if self.stack else None
        name = self.shown.name(name)
        if above is None:
            return OpenNode(kind, name, self.parent_id, None, self.run.clock)
        return OpenNode(kind, name, above.id, self.run.number if kind == "step" else above.step, self.run.clock)

    def opened(self, node: OpenNode) -> Coroutine[Any, Any, None] | None:
        """Tell that *node* begins; what is returned is to be awaited."""
        return self._tell(
            Node(
                "start",
                node.kind,
                node.name,
                self.run.run_id,
                node.id,
                node.parent_id,
                self.run.thread_id,
                node.started_at,
                node.step,
                node.provider,
                node.call_class,
                node.tool_call_id,
                self.run.resumed_from if node.kind == "run" else None,
                content=Later(started, node.shown) if self.wanted else None,
            )
        )

    async def push(self, kind: Kind, name: str) -> OpenNode:
        """Open a node of the run itself and tell it; later nodes stand under it."""
        node = self.open(kind, name)
        if kind == "run":
            node.meta = self._made({}, about_run, self.run, node.started_at)
            if self.wanted:
                node.shown = self.shown.given(self.run.given)
        else:
            self.at_step = ()
        self.stack.append(node)
        if (later := self.opened(node)) is not None:
            await later
        return node

    async def pop(self, node: OpenNode, error: BaseException | None = None) -> None:
        """Close *node*, and what was left open above it."""
        stack = self.stack
        if node not in stack:
            return
        if node.kind == "step" and error is None and self.run.asked:
            node.outcome = "interrupted"
        while stack:
            top = stack.pop()
            if (later := self.close(top, error)) is not None:
                await later
            if top is node:
                break

    def close(self, node: OpenNode, error: BaseException | None = None) -> Coroutine[Any, Any, None] | None:
        """Tell that *node* ends; what is returned is to be awaited.

        `node.failed`, where it is set, is a text that says how what came out is a failure.
        """
        took = self.run.clock.monotonic() - node.started
        if node.failed is not None:
            text, outcome = node.failed, "failed"
        else:
            text, outcome = ending(error) if error is not None else (None, "finished")
        redactor = self.shown.redactor
        return self._tell(
            Node(
                "end",
                node.kind,
                node.name,
                self.run.run_id,
                node.id,
                node.parent_id,
                self.run.thread_id,
                node.started_at,
                node.step,
                node.provider,
                node.call_class,
                node.tool_call_id,
                self.run.resumed_from if node.kind == "run" else None,
                "ok" if text is None else "error",
                node.outcome or outcome,  # type: ignore[arg-type]  # of the four
                node.finish_reason,
                text and redactor.cut(text),
                took * 1000,
                node.usage,
                node.attempts,
                node.failures and tuple([redactor.cut(named(one)) for one in node.failures]),  # type: ignore[arg-type]
                node.superseded,
                node.made_by,
                Later(ended, node.shown, node.out) if self.wanted else None,
                redactor.value(node.meta) if node.meta else node.meta,
                self.shown.changes(node.passed) if node.passed else (),  # type: ignore[arg-type]  # made when read
            )
        )

    # The kinds.

    async def end_run(self, result: RunResult | None, kind: str | None, error: BaseException | None) -> None:
        """Close the run's node; *kind* is `abort`, `error` or None for an end in good order."""
        run = self.run
        node = run.run_node
        node.usage, node.passed = run.usage, self.at_init
        if kind is not None:
            node.outcome, node.finish_reason = ("aborted", "cancelled") if kind == "abort" else ("failed", "error")
        elif result is not None:
            node.outcome, node.finish_reason = result.status, result.finish_reason
            if self.wanted:
                node.out = self.shown.result(result)
        await self.pop(node, error)

    async def open_model(self, request: ModelRequest, parent: OpenNode | None = None, *, own: bool = False) -> OpenNode:
        """Open the node of a model call; a middleware's *own* call is not one that later nodes stand under."""
        node = self.open("model", request.model, parent)
        self._sent(node, request)
        self.hooked.clear()
        if not own:
            self.stack.append(node)
        if (later := self.opened(node)) is not None:
            await later
        return node

    def _sent(self, node: OpenNode, request: ModelRequest) -> None:
        node.name, node.provider, node.call_class = self.shown.name(request.model), request.provider, request.call_class
        if self.wanted:
            node.shown = self.shown.request(request)

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
        node.attempts = call.attempts
        node.passed = (*self.at_init, *self.at_step, *self._passed(call, self.hooked))
        if response is not None:
            node.finish_reason, node.made_by = response.finish_reason, response.made_by
            if self.wanted:
                node.out = self.shown.response(response)
        if call.narrator is not None:
            node.superseded = call.narrator.superseded
        await self.pop(node, error)

    async def close_own(
        self, node: OpenNode, response: ModelResponse | None, usage: Usage | None, error: BaseException | None = None
    ) -> None:
        """Close the node of a model call of a middleware's own."""
        node.usage, node.attempts = usage, 1
        if response is not None:
            node.finish_reason = response.finish_reason
            if self.wanted:
                node.out = self.shown.response(response)
        if (later := self.close(node, error)) is not None:
            await later

    async def open_tool(self, one: ToolPass) -> OpenNode:
        """Open the node of a tool call."""
        node = self.open("tool", one.original.name)
        node.tool_call_id = one.original.id
        if self.wanted:
            node.shown = self.shown.call(one.original)
        if (later := self.opened(node)) is not None:
            await later
        return node

    async def close_tool(self, one: ToolPass, error: BaseException | None) -> None:
        """Close the node of a tool call, with the arguments that really ran and what a person said about it."""
        node: OpenNode = one.node
        result = one.result
        if self.wanted and one.ran is not one.original:
            node.shown = self.shown.call(one.ran)
        nothing: dict[str, Any] = {}
        if self.run.answers or one.asked:
            node.meta.update(self._made(nothing, about_call, self.run, one))
        if result is None:
            node.outcome = "interrupted" if error is None else None
        else:
            node.failed = result.text if result.is_error else None
            if self.wanted:
                node.out = self.shown.answer(result)
        node.passed = self._passed(one, ())
        if (later := self.close(node, error)) is not None:
            await later

    # What happens meanwhile.

    def spend(self, usage: Usage) -> None:
        """Count *usage* for the step that is open."""
        for node in self.stack:
            if node.kind == "step":
                node.usage = usage if node.usage is None else node.usage + usage

    def failed_attempt(self, error: BaseException) -> None:
        """Note that a call of the provider failed, which may be tried again."""
        if self.stack[-1].kind == "model" and not isinstance(error, Signal | CancelledError):
            self.stack[-1].failures = (*self.stack[-1].failures, error)

    def rewrote(self, call: Call, index: int, old: Any, new: Any) -> None:
        """Note that the before-hook of a layer of *call* put *new* in the place of *old*."""
        self.rewrites.setdefault(id(call), {})[index] = (old, new)

    def configured(self, base: RunConfig, changes: list[tuple[str, RunConfig]]) -> None:
        """Note what `on_config` hooks changed, for the whole run or for this step."""
        found = tuple(config_passed(base, changes))
        if self.run.phase == "init":
            self.at_init = found
        else:
            self.at_step = found

    def _passed(self, call: Call, hooks: Sequence[Passed]) -> tuple[Passed, ...]:
        """Return who passed on another value than it was given, of the layers of *call*."""
        rewrites = self.rewrites.pop(id(call), None) if self.rewrites else None
        if rewrites is None and untouched(call.values):
            return ()
        return tuple(passed_on(call, rewrites or {}, hooks))

    def _made(self, otherwise: T, make: Callable[..., T], *args: Any) -> T:
        """Return what *make* gives; where values of users play tricks on it, *otherwise*: the run is not harmed."""
        try:
            return make(*args)
        except Exception:
            logger.exception("part of the record of run %s could not be made", self.run.run_id)
            return otherwise

    def _tell(self, node: Node) -> Coroutine[Any, Any, None] | None:
        """Tell all who listen; what is returned is to be awaited, where a hook has to be."""
        for index, (hook, ctx) in enumerate(self.listeners):
            try:
                said = hook.call(ctx, node)
            except (Exception, CancelledError):
                self._failed(hook)
                continue
            if said is not None and isawaitable(said):
                return self._tell_later(index, said, node)
        return None

    async def _tell_later(self, index: int, said: Awaitable[Any], node: Node) -> None:
        """Wait for what the hook at *index* has said, then tell the others."""
        for number, (hook, ctx) in enumerate(self.listeners):
            if number < index:
                continue
            try:
                result = said if number == index else hook.call(ctx, node)
                if result is not None and isawaitable(result):
                    await result
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
    from interpose.redaction import as_redactor

    own = as_redactor(run.agent.redact)
    return own if run.parent is None else own.also(redactor_of(run.parent).given)
