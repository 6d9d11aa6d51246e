"""The record: a tree of nodes, run, step, model or tool, nested run; built only where somebody listens."""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeVar

from interpose._engine.answers_given import about_call, about_run
from interpose._engine.open_node import Kind, OpenNode, Outcome, ending, named
from interpose._engine.plan import Hook
from interpose._engine.provenance import Passed, config_passed, passed_on, untouched
from interpose._engine.shown import FIXED, Changes, Content, Kept, Show, Shown, text_of, text_of_args
from interpose._engine.signals import Signal
from interpose.clock import Clock
from interpose.ids import create_id
from interpose.info import Node, RunConfig
from interpose.request import ModelRequest, ModelResponse, Usage

if TYPE_CHECKING:
    from interpose._engine.call import Call
    from interpose._engine.model_call import ModelCall
    from interpose._engine.run import Run
    from interpose._engine.tool_phase import ToolPass
    from interpose.redaction import Redactor
    from interpose.result import RunResult

T = TypeVar("T")
logger = logging.getLogger("interpose")
SHOW_REQUEST, SHOW_RESPONSE = Shown.show_request, Shown.show_response
SHOW_CALL, SHOW_ANSWER = Shown.show_call, Shown.show_answer


class Record:
    """The nodes of one run, told to those who listen: the run's own middleware, and those of the runs around it.

    It is written with care for what a node costs: in the run nothing is copied, redacted or compared, and what a node
    holds is made where it is read.
    """

    __slots__ = (
        "at_init",
        "at_step",
        "base",
        "count",
        "hooked",
        "later",
        "listeners",
        "monotonic",
        "nothing",
        "now",
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
        self.base = create_id("")
        self.count = 0
        clock = run.clock
        self.now: Callable[[], float] = time.time if clock.__class__ is Clock else clock.now
        self.monotonic: Callable[[], float] = clock.monotonic
        self.stack: list[OpenNode] = []
        self.shown = Shown(redactor_of(run))
        self.wanted = any(hook.middleware.reads_content for hook, _ in listeners)
        self.nothing = self.shown.content(None, None) if self.wanted else None
        self.silenced: set[int] = set()
        self.at_init: tuple[Passed, ...] = ()
        self.at_step: tuple[Passed, ...] = ()
        self.hooked: list[Passed] = []
        self.later: Coroutine[Any, Any, None] | None = None
        self.rewrites: dict[int, dict[int, tuple[Any, Any]]] = {}

    @property
    def current(self) -> OpenNode:
        """The node of the run that is open now: its model call, its step, or itself."""
        return self.stack[-1]

    def begin(
        self, kind: Kind, name: str, above: OpenNode | None, step: int | None, content: Content | None = None,
        provider: str | None = None, call_class: str | None = None, tool_call_id: str | None = None,
        *, stands: bool = True,
    ) -> OpenNode:  # fmt: skip
        """Return a new node under *above*, and tell that it begins; `later`, if that is set then, is to be awaited.

        Later nodes stand under it where it *stands*.
        """
        run = self.run
        now = self.now()
        started = self.monotonic()
        if above is None:
            node_id, parent_id = f"{kind}{self.base}", self.parent_id
        else:
            self.count = count = self.count + 1
            node_id, parent_id = f"{kind}{self.base}-{count}", above.id
        resumed_from = run.resumed_from if kind == "run" else None
        node = OpenNode(
            kind,
            name,
            node_id,
            parent_id,
            step,
            now,
            started,
            content,
            provider,
            call_class,
            tool_call_id,
            resumed_from,
        )
        if stands:
            self.stack.append(node)
        self.later = self._tell(
            Node(
                "start", kind, name, run.run_id, node_id, parent_id, run.thread_id, now, step, provider, call_class,
                tool_call_id, resumed_from, content=content,
            )
        )  # fmt: skip
        return node

    async def push(self, kind: Kind, name: str) -> OpenNode:
        """Open a node of the run itself, which is its first or a step, and tell it; later nodes stand under it."""
        run = self.run
        if kind == "step":
            self.at_step = ()
            node = self.begin(kind, name, self.stack[-1], run.number, self.nothing)
        else:
            nothing: dict[str, Any] = {}
            content = None
            if self.wanted:
                given = run.given
                content = self.shown.content(tuple(given) if isinstance(given, list) else given, Shown.show_given)
            node = self.begin(kind, self.shown.name(name), None, None, content)
            node.meta |= self._made(nothing, about_run, run, node.started_at)
        if self.later is not None:
            await self.later
        return node

    async def pop(self, node: OpenNode, error: BaseException | None = None) -> None:
        """Close *node*, and what was left open above it."""
        stack = self.stack
        if stack and stack[-1] is not node and node not in stack:
            return
        if error is None and node.kind == "step" and self.run.asked:
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
        took = self.monotonic() - node.started
        run, shown = self.run, self.shown
        text: str | None = None
        outcome: Outcome = "finished"
        failures: Any = ()
        if node.failed is not None or error is not None or node.failures:
            cut = shown.redactor.cut
            text, outcome = (node.failed, "failed") if node.failed is not None else ending(error)
            text = text and cut(text)
            failures = tuple([cut(named(one)) for one in node.failures])
        return self._tell(
            Node(
                "end",
                node.kind,
                node.name,
                run.run_id,
                node.id,
                node.parent_id,
                run.thread_id,
                node.started_at,
                node.step,
                node.provider,
                node.call_class,
                node.tool_call_id,
                node.resumed_from,
                "ok" if text is None else "error",
                node.outcome or outcome,
                node.finish_reason,
                text,
                took * 1000,
                node.usage,
                node.attempts,
                failures,
                node.superseded,
                node.made_by,
                node.content,
                shown.redactor.value(node.meta) if node.meta else node.meta,
                Changes(shown, node.passed) if node.passed else (),  # type: ignore[arg-type]  # made when read
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
            self._out(node, result, Shown.show_result)
        await self.pop(node, error)

    async def open_model(self, request: ModelRequest, parent: OpenNode | None = None, *, own: bool = False) -> OpenNode:
        """Open the node of a model call; a middleware's *own* call is not one that later nodes stand under."""
        stack, shown, name = self.stack, self.shown, request.model
        above = parent or (stack[-1] if stack else self.run.run_node)
        node = self.begin(
            "model", shown.names.get(name) or shown.name(name), above, above.step,
            shown.content(request, SHOW_REQUEST) if self.wanted else None, request.provider, request.call_class,
            stands=not own,
        )  # fmt: skip
        self.hooked.clear()
        if self.later is not None:
            await self.later
        return node

    async def close_model(
        self, node: OpenNode, call: ModelCall, given: ModelRequest, response: ModelResponse | None,
        error: BaseException | None = None,
    ) -> None:  # fmt: skip
        """Close the node of the model call of a step, with the request that reached the model."""
        sent = call.reached
        if response is not None:
            if response.made_by is not None:
                sent = call.made_request
            node.finish_reason, node.made_by = response.finish_reason, response.made_by
        if sent is not None and sent is not given:
            node.name = self.shown.name(sent.model)
            node.provider, node.call_class = sent.provider, sent.call_class
            if self.wanted:
                node.content = self.shown.content(sent, SHOW_REQUEST)
        node.usage = call.usage
        node.attempts = call.attempts
        passed = self._passed(call, self.hooked) if call.layers else ()
        if passed or self.at_init or self.at_step:
            node.passed = (*self.at_init, *self.at_step, *passed)
        if response is not None:
            self._out(node, response, SHOW_RESPONSE)
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
            self._out(node, response, SHOW_RESPONSE)
        if (later := self.close(node, error)) is not None:
            await later

    async def open_tool(self, one: ToolPass) -> OpenNode:
        """Open the node of a tool call."""
        call, shown, above = one.original, self.shown, self.stack[-1]
        name = shown.names.get(call.name) or shown.name(call.name)
        content = shown.content(call, SHOW_CALL, text_of_args(call.args)) if self.wanted else None
        node = self.begin("tool", name, above, above.step, content, None, None, call.id, stands=False)
        if self.later is not None:
            await self.later
        return node

    async def close_tool(self, one: ToolPass, error: BaseException | None) -> None:
        """Close the node of a tool call, with the arguments that really ran and what a person said about it."""
        node: OpenNode = one.node
        result = one.result
        if self.wanted and one.ran is not one.original:
            node.content = self.shown.content(one.ran, SHOW_CALL, text_of_args(one.ran.args))
        if self.run.answers or one.asked:
            nothing: dict[str, Any] = {}
            node.meta.update(self._made(nothing, about_call, self.run, one))
        if result is None:
            node.outcome = "interrupted" if error is None else None
        else:
            if result.is_error:
                node.failed = result.text
            if self.wanted:
                data = result.data
                self._out(node, result, SHOW_ANSWER, None if data.__class__ in FIXED else text_of(result))
        if one.layers:
            node.passed = self._passed(one, ())
        if (later := self.close(node, error)) is not None:
            await later

    def _out(self, node: OpenNode, out: Any, show: Show, text: Kept = None) -> None:
        """Keep what came out of *node*; *text* is that of what may change until it is shown."""
        content = node.content
        if content is not None:
            content.out, content.show_out, content.out_text = out, show, text

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
        for one in self.listeners:
            hook, ctx = one
            try:
                said = hook.call(ctx, node)
            except (Exception, CancelledError):
                self._failed(hook)
                continue
            if said is not None and isawaitable(said):
                return self._tell_later(self.listeners.index(one), said, node)
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
