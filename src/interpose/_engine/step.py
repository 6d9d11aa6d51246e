"""The loop: steps, each a model call and the tool calls that it asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interpose._engine.chain import compose
from interpose._engine.config import configure
from interpose._engine.interrupts import boundary
from interpose._engine.model_call import ModelCall
from interpose._engine.narration import settle
from interpose._engine.plan import call_hook
from interpose._engine.signals import LimitHit, Rank, Signal
from interpose._engine.state import NO_MESSAGES
from interpose._engine.tool_phase import ToolPass, ToolPhase
from interpose.errors import HookError
from interpose.events import StepFinishedEvent, StepStartedEvent, ToolCallResultEvent
from interpose.info import ContinueState, RunConfig, StepInfo, ToolPhaseInfo
from interpose.messages import ToolCall, ToolMessage, ToolResult
from interpose.request import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from interpose._engine.run import Run

RUNS_TOOLS = ("stop", "tool_calls")
LAST_STEP = "not executed: the step limit (max_steps={}) is reached; answer with what there is"
UNSAFE = "not executed: the answer ended with {!r}, so the call may not be whole"


async def step(run: Run) -> str | None:
    """Take one step; return the finish reason where it was the last."""
    plan = run.plan
    await open_step(run)
    if plan.on_step:
        info = StepInfo(run.number, run.message_id)
        for hook in plan.on_step:
            await run.tell(hook, info)
    config = run.config
    if plan.on_config:
        config = await configure(run, config.replace(messages=run.history.messages))
    if plan.on_interrupt_boundary:
        await boundary(run, [])
    return await after_model(run, await model_call(run, request_of(run, config)))


async def open_step(run: Run) -> None:
    """Begin a step, or begin again one that was paused."""
    run.phase = "before_model"
    run.told_id = None
    run.partial_assembly = None
    run.passes = ()
    if run.pipe.active:
        await run.pipe.send(StepStartedEvent(f"step-{run.number}"))
    if run.record is not None:
        run.step_node = await run.record.push("step", f"step-{run.number}")


async def after_model(run: Run, response: ModelResponse) -> str | None:
    """Do what follows the answer of a step; return the finish reason where it was the last."""
    plan = run.plan
    run.phase = "after_model"
    if plan.on_interrupt_boundary:
        await boundary(run, [])
    reason = response.finish_reason
    if response.tool_calls:
        ended = await tool_phase(run, response)
    else:
        run.finish_step(())
        ended = reason
    if run.pipe.active:
        await run.pipe.send(StepFinishedEvent(f"step-{run.number}"))
    if run.record is not None:
        await run.record.pop(run.step_node)
    run.phase = "after_tools"
    if run.resumption is not None:
        run.resumption, run.answers, run.passed, run.settled = None, (), (), NO_MESSAGES
    if plan.on_should_continue and not await votes(run, reason, len(response.tool_calls)):
        return ended if ended is not None and not response.tool_calls else "stopped"
    return ended


def request_of(run: Run, config: RunConfig) -> ModelRequest:
    """Return the request of this step."""
    model = run.agent.model if config is run.config and run.own_model else run.resolve(config.model)
    limit = run.limits.max_steps
    return ModelRequest(
        provider=model.provider,
        model=config.model if config.model.__class__ is str and ":" not in config.model else model.name,
        instructions=config.instructions,
        messages=run.history.messages if config is run.config else config.messages,
        tools=config.tools,
        settings=config.settings,
        output_schema=config.output_schema,
        number=run.number,
        is_final_step=limit is not None and run.number + 1 >= limit,
        steps=tuple(run.steps),
        usage=run.usage,
        metadata=config.metadata,
        target=None if model is run.agent.model else model,
    )


async def model_call(run: Run, request: ModelRequest, phase: str = "model_stream") -> ModelResponse:
    """Take *request* through the model seam and settle what comes back in the history."""
    run.phase = phase
    run.model_call = call = ModelCall(run)
    if run.noted is not None:  # also where another thread notes an ending just now
        call.odd = True
    run.names = (request.provider, request.model)
    pipe = run.pipe
    if run.plan.holds_stream and pipe.active:
        pipe.held = []
    node = await run.record.open_model(request) if run.record is not None else None
    try:
        response: ModelResponse = await compose(call, request)
        if pipe.active or response is not call.response:
            response = await settle(call, response)
    except BaseException as error:
        if node is not None:
            await run.record.close_model(node, call, request, None, error)  # type: ignore[union-attr]  # it is there
        raise
    if pipe.held is not None:
        pipe.release()
    if pipe.emitted:
        await pipe.flush()
    sent = call.made_request if response.made_by is not None else call.reached
    run.settle_response(sent or request, response, call.usage)
    run.model_call = None
    if run.journal is not None:
        await run.journal.answered()
    if node is not None:
        await run.record.close_model(node, call, request, response)  # type: ignore[union-attr]  # as above
    if call.usage is not None and run.plan.on_usage:
        for hook in run.plan.on_usage:
            await run.tell(hook, call.usage)
    return response


async def tool_phase(run: Run, response: ModelResponse) -> str | None:
    """Run or answer the calls of *response*; return the finish reason where the run ends with this step."""
    run.phase = "before_tools"
    plan, request = run.plan, run.sent
    reason, refusal, ends = response.finish_reason, None, None
    if reason not in RUNS_TOOLS:
        refusal, ends = UNSAFE.format(reason), reason
    elif request.is_final_step:
        refusal, ends = LAST_STEP.format(run.limits.max_steps), "limit"
    if plan.on_interrupt_boundary:
        await boundary(run, [])
    calls = response.tool_calls
    if refusal is None and not run.meter.plain and (hit := run.meter.batch_refused(len(calls))) is not None:
        run.note(Rank.LIMIT, hit)
        raise Signal(run.noted)  # type: ignore[arg-type]  # just noted
    passes = await ToolPhase(run, run.offered(request.tools), refusal).settle(calls)
    await settle_results(run, calls, passes)
    if ends == "limit":
        run.reach(LimitHit(run, "max_steps", run.limits.max_steps))
    if run.ends_after_step is not None:
        run.reach(run.ends_after_step)
        ends = "limit"
    return ends


async def settle_results(run: Run, calls: tuple[ToolCall, ...], passes: list[ToolPass]) -> None:
    """Put the results in the history and tell them, in the order of the calls; pause where something was asked."""
    plan = run.plan
    results: tuple[ToolResult, ...]
    messages: tuple[ToolMessage, ...]
    settled = run.settled
    if settled:
        results = tuple([one.result for one in passes if one.result is not None])
        messages = tuple([settled.get(r.tool_call_id) or r.message(_name(calls, r)) for r in results])
    elif len(passes) == 1 and (sole := passes[0].result) is not None:
        results = (sole,)
        messages = (sole.message(passes[0].original.name),)
    else:
        results = tuple([one.result for one in passes if one.result is not None])
        messages = tuple([one.result.message(one.original.name) for one in passes if one.result is not None])
    run.history.add_results(messages)
    run.phase = "after_tools"
    if run.pipe.active:
        await tell_results(run, tuple([m for m in messages if m.tool_call_id not in settled]) if settled else messages)
    if plan.on_tool_phase_complete:
        pending = tuple([one.original for one in passes if one.result is None])
        info = ToolPhaseInfo(calls, results, pending)
        for hook in plan.on_tool_phase_complete:
            await run.tell(hook, info)
    asked = [question for one in passes for question in one.asked] if len(results) < len(passes) else []
    if asked:
        run.pending_results = results
    else:
        run.finish_step(results)
    if asked or plan.on_interrupt_boundary:
        await boundary(run, asked)


def _name(calls: tuple[ToolCall, ...], result: ToolResult) -> str | None:
    return next((call.name for call in calls if call.id == result.tool_call_id), None)


async def tell_results(run: Run, messages: tuple[ToolMessage, ...]) -> None:
    """Send the events of results."""
    for message in messages:
        metadata = {"interpose": {"isError": True}} if message.is_error else None
        event = ToolCallResultEvent(message.id, message.tool_call_id or "", message.text, "tool", metadata=metadata)
        await run.pipe.send(event)


async def votes(run: Run, reason: str, calls: int) -> bool:
    """Ask everybody whether the run should go on."""
    state = ContinueState(tuple(run.steps), run.history.messages, reason, run.tool_call_count, calls)
    go_on = True
    for hook in run.plan.on_should_continue:
        said = await call_hook(hook, run.ctx, state)
        if run.noted is not None:
            raise Signal(run.noted)
        if said is not None and said.__class__ is not bool:
            raise HookError(f"{hook!r} returned {type(said).__name__} ({said!r:.80}); expected False, True or nothing")
        go_on = go_on and said is not False
    return go_on


async def answer_open_calls(run: Run, text: str) -> None:
    """Answer, unexecuted, the calls that the last message handed in left open; ask about those that need approval."""
    run.phase = "before_tools"
    calls = tuple([c for m in run.history.messages for c in m.tool_calls if c.id in run.history.open])
    phase = ToolPhase(run, run.offered(run.config.tools), text, asks=True)
    passes = await phase.settle(calls)
    answers = tuple([one.result.message(one.original.name) for one in passes if one.result is not None])
    run.history.extend(answers)
    if run.pipe.active:
        await tell_results(run, answers)
    asked = [question for one in passes for question in one.asked]
    if asked:
        await boundary(run, asked)
