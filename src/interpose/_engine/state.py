"""What lives through one run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from os import urandom
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from interpose.request import Usage

if TYPE_CHECKING:
    from interpose._engine.beside import Beside
    from interpose._engine.buffer import Buffer, Log
    from interpose._engine.journal import Journal
    from interpose._engine.legality import History
    from interpose._engine.meter import Meter
    from interpose._engine.model_call import ModelCall
    from interpose._engine.offered import Offered
    from interpose._engine.open_node import OpenNode
    from interpose._engine.plan import Plan
    from interpose._engine.record import Record
    from interpose._engine.resuming import Resumption
    from interpose._engine.run import Run
    from interpose._engine.signals import LimitHit, Note
    from interpose._engine.tool_phase import ToolPass
    from interpose.agent import Agent
    from interpose.checkpoint import Checkpoint
    from interpose.clock import Clock
    from interpose.context import RunContext
    from interpose.info import RunConfig
    from interpose.interrupts import OpenInterrupt, Resolution
    from interpose.limits import Limits
    from interpose.messages import ToolMessage, ToolResult
    from interpose.models.base import Assembly
    from interpose.request import ModelRequest, ModelResponse, Step
    from interpose.result import RunResult

NO_USAGE = Usage()
NO_MESSAGES: Mapping[str, ToolMessage] = MappingProxyType({})


class RunState:
    """The data of a run, in slots: each is read often, and ten thousand runs may wait at once."""

    __slots__ = (
        "_capabilities",
        "_offered",
        "_private",
        "_state",
        "_thread_state",
        "agent",
        "alive",
        "announces_output",
        "answers",
        "asked",
        "began",
        "beside",
        "buffer",
        "checkpoint",
        "claimed",
        "clock",
        "closing",
        "committed",
        "config",
        "config_changes",
        "context",
        "ctx",
        "done",
        "duration_timer",
        "end_text",
        "ends_after_step",
        "extra",
        "failed",
        "failure",
        "flushing",
        "given",
        "has_plain_tasks",
        "heard",
        "history",
        "input_end",
        "input_size",
        "journal",
        "limit_hit",
        "limits",
        "locked",
        "loop",
        "meter",
        "model_call",
        "named_thread",
        "names",
        "noted",
        "number",
        "open_step",
        "opened",
        "outer_call",
        "output",
        "output_text",
        "own_model",
        "parent",
        "parent_node_id",
        "parent_run_id",
        "partial_assembly",
        "passed",
        "passes",
        "past_checks",
        "pending_results",
        "phase",
        "pipe",
        "plan",
        "pump",
        "raised",
        "record",
        "restored",
        "result",
        "resumed_from",
        "resumption",
        "run_id",
        "run_node",
        "said_started",
        "saved",
        "sent",
        "settled",
        "settling",
        "started",
        "step_node",
        "steps",
        "stored",
        "superseded",
        "task",
        "thread_base",
        "thread_id",
        "thread_ident",
        "thread_state_was",
        "to_resume",
        "told_id",
        "tool_call_count",
        "tool_tasks",
        "usage",
        "usage_before",
        "vote",
        "waiters",
    )

    agent: Agent[Any]
    plan: Plan
    given: Any
    context: Any
    run_id: str
    thread_id: str
    parent_run_id: str | None
    limits: Limits
    buffer: Buffer | Log | None
    extra: Sequence[Any]
    parent: Run | None
    steps: list[Step]
    loop: asyncio.AbstractEventLoop
    clock: Clock
    ctx: RunContext[Any]
    history: History
    meter: Meter
    config: RunConfig
    own_model: bool
    pipe: Any
    has_plain_tasks: bool
    resumed_from: str | None
    thread_ident: int
    task: asyncio.Task[None]
    noted: Note | None
    closing: bool
    started: bool
    done: bool
    failed: bool
    failure: BaseException | None
    result: RunResult | None
    raised: bool
    phase: str
    number: int
    began: float
    alive: bool
    told_id: str | None
    open_step: str | None
    usage: Usage
    usage_before: Usage
    names: tuple[str, str]
    sent: ModelRequest
    settling: tuple[ModelRequest, ModelResponse, Usage | None] | None
    pending_results: tuple[ToolResult, ...]
    passes: Sequence[ToolPass]
    tool_tasks: Sequence[asyncio.Task[None]]
    tool_call_count: int
    pump: asyncio.Future[None] | None
    flushing: bool
    ends_after_step: LimitHit | None
    partial_assembly: Assembly | None
    heard: Any
    past_checks: bool
    named_thread: bool
    locked: Any
    said_started: bool
    committed: bool
    announces_output: bool
    limit_hit: LimitHit | None
    input_end: int
    model_call: ModelCall | None
    config_changes: Sequence[tuple[str, RunConfig]]
    record: Record | None
    run_node: OpenNode
    step_node: OpenNode
    duration_timer: Any
    beside: Beside | None
    output: Any
    output_text: str | None
    end_text: str | None
    input_size: int
    thread_base: int
    _offered: Offered | None
    opened: Sequence[Any]
    asked: Sequence[OpenInterrupt]
    waiters: Sequence[asyncio.Future[None]]
    parent_node_id: str | None
    _private: dict[int, Any] | None
    answers: Sequence[Resolution]
    checkpoint: Mapping[str, Any] | None
    claimed: bool
    journal: Journal | None
    outer_call: str
    saved: Checkpoint | None
    stored: int
    restored: int
    to_resume: tuple[Any, Any] | None
    passed: Sequence[str]
    resumption: Resumption | None
    settled: Mapping[str, ToolMessage]
    superseded: Sequence[str]
    thread_state_was: bytes
    vote: str
    _state: dict[str, Any] | None
    _thread_state: dict[str, Any] | None
    _capabilities: dict[Any, Any] | None

    def __init__(
        self,
        agent: Agent[Any],
        plan: Plan,
        given: Any,
        context: Any,
        thread_id: str | None,
        run_id: str | None,
        parent_run_id: str | None,
        limits: Limits,
        buffer: Buffer | Log | None,
        extra: Sequence[Any] = (),
        parent: Run | None = None,
    ) -> None:
        self.agent = agent
        self.plan = plan
        self.given = given
        self.context = context
        self.named_thread = thread_id is not None
        if run_id is None or thread_id is None:
            name = urandom(12).hex()
            run_id = run_id or f"run_{name}"
            thread_id = thread_id or f"thread_{name}"
        self.run_id = run_id
        self.thread_id = thread_id
        self.parent_run_id = parent_run_id
        self.limits = limits
        self.buffer = buffer
        self.extra = extra
        self.parent = parent
        self.parent_node_id = None
        self.usage_before = NO_USAGE
        self.outer_call = ""
        self.steps = []
        self.make_ready()

    def make_ready(self) -> None:
        """Set what has a value before the run begins."""
        self.resumed_from = None
        self.thread_ident = 0
        self.noted = None
        self.closing = False
        self.started = False
        self.done = False
        self.failed = False
        self.failure = None
        self.result = None
        self.raised = False
        self.phase = "init"
        self.number = 0
        self.began = 0.0
        self.alive = False
        self.told_id = None
        self.open_step = None
        self.usage = NO_USAGE
        self.names = ("", "")
        self.settling = None
        self.pending_results = ()
        self.passes = ()
        self.tool_tasks = ()
        self.tool_call_count = 0
        self.pump = None
        self.flushing = False
        self.ends_after_step = None
        self.partial_assembly = None
        self.heard = None
        self.past_checks = False
        self.locked = None
        self.said_started = False
        self.committed = False
        self.announces_output = False
        self.limit_hit = None
        self.input_end = 0
        self.model_call = None
        self.config_changes = ()
        self.record = None
        self.duration_timer = None
        self.beside = None
        self.output = None
        self.output_text = None
        self.end_text = None
        self.input_size = 0
        self.thread_base = 0
        self._offered = None
        self.opened = ()
        self.asked = ()
        self.waiters = ()
        self._private = None
        self.answers = ()
        self.checkpoint = None
        self.claimed = False
        self.journal = None
        self.saved = None
        self.stored = 0
        self.restored = -1
        self.to_resume = None
        self.passed = ()
        self.resumption = None
        self.settled = NO_MESSAGES
        self.superseded = ()
        self.thread_state_was = b""
        self.vote = "continue"
        self._state = None
        self._thread_state = None
        self._capabilities = None

    @property
    def private(self) -> dict[int, Any]:
        """What each middleware keeps of this run, by its identity."""
        if self._private is None:
            self._private = {}
        return self._private

    @property
    def state(self) -> dict[str, Any]:
        """What all middleware of this run share."""
        if self._state is None:
            self._state = {}
        return self._state

    @property
    def thread_state(self) -> dict[str, Any]:
        """What lives with the thread."""
        if self._thread_state is None:
            self._thread_state = {}
        return self._thread_state

    @property
    def capabilities(self) -> dict[Any, Any]:
        """The live objects that middleware share."""
        if self._capabilities is None:
            self._capabilities = {}
        return self._capabilities
