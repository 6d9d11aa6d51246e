"""Structured output: the model's last answer as a value, by the normal calls or by one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from interpose._engine.config import configure, pipe_config
from interpose._engine.resuming import STRUCTURED
from interpose._engine.step import model_call, request_of
from interpose.errors import HookError, OutputError
from interpose.events import CustomEvent
from interpose.info import RunConfig
from interpose.messages import AssistantMessage, UserMessage
from interpose.output import OutputType
from interpose.request import ModelResponse
from interpose.text import to_jsonable

if TYPE_CHECKING:
    from interpose._engine.run import Run

COMPLETE = "structured-output.complete"
FEEDBACK = "This is no valid output: {}. Answer again with JSON of the schema alone."


async def finish_output(run: Run) -> None:
    """Set the run's output, asking again where it is invalid.

    Raises:
        OutputError: it stays invalid.
    """
    output: OutputType = run.agent._output  # type: ignore[assignment]  # asked for only where there is one
    native = run.agent._native_output and bool(run.steps)
    before = before_a_crash(run)
    problem: str | None = None
    raw = ""
    if native:
        raw = run.steps[-1].response.message.text
        problem = output.problem(raw)
        if problem is None:
            run.output, run.output_text = output.decode(raw), raw
            await complete(run)
            return
    elif before:
        raw = before[-1]
        problem = output.problem(raw)
        if problem is None:
            run.output, run.output_text = output.decode(raw), raw
            await complete(run)
            return
    config = await output_config(run, output)
    attempts = run.agent.output_retries + (0 if native else 1) - len(before)
    for _ in range(attempts):
        if problem is not None:
            config = config.replace(messages=(*run.history.messages, UserMessage(FEEDBACK.format(problem))))
        response = await ask(run, config)
        raw = response.text
        problem = output.problem(raw)
        if problem is None:
            run.output, run.output_text = output.decode(raw), raw
            await complete(run)
            return
    raise OutputError(f"the model's output does not fit {output.name}: {problem}", raw)


def before_a_crash(run: Run) -> list[str]:
    """Return the answers to the call for the output that the run had before it was killed."""
    resumption = run.resumption
    if resumption is None or resumption.checkpoint.phase != STRUCTURED:
        return []
    steps = {one.response.message.id for one in run.steps}
    answers: list[str] = []
    for message in reversed(run.history.messages[run.input_end :]):
        if message.id in steps:
            break
        if isinstance(message, AssistantMessage):
            answers.insert(0, message.text)
    return answers


async def output_config(run: Run, output: OutputType) -> RunConfig:
    """Return the config of the call for the output, as the hooks left it."""
    run.phase = "structured_output"
    settings = run.config.settings.replace(tool_choice=None, parallel_tool_calls=None)
    config = run.config.replace(messages=run.history.messages, tools=(), settings=settings, output_schema=output.schema)
    for hook in run.plan.hooks["on_structured_output_config"]:
        config = await pipe_config(run, hook, config)
        if not isinstance(config.output_schema, Mapping):
            raise HookError(f"{hook!r} left no output_schema; expected a JSON schema as a dict")
    return await configure(run, config)


async def ask(run: Run, config: RunConfig) -> ModelResponse:
    """Make the call for the output; it counts, passes the model seam, and is no step."""
    run.phase = "structured_output"
    run.told_id = None
    run.announces_output = True
    request = request_of(run, config).replace(
        call_class="structured_output", messages=config.messages, tools=(), is_final_step=False
    )
    response = await model_call(run, request, phase="structured_output")
    if response.tool_calls:
        text = "not executed: an answer as JSON was asked for"
        run.history.extend(tuple([call.refuse(text).message(call.name) for call in response.tool_calls]))
    run.settling = None
    return response


async def complete(run: Run) -> None:
    """Tell the reader that the output is whole and valid."""
    if run.pipe.active:
        value = {"object": to_jsonable(run.output), "raw": run.output_text}
        await run.pipe.send(CustomEvent(COMPLETE, value))
