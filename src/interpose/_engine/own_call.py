"""A model call of a middleware's own: `ctx.generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interpose._engine.legality import problem
from interpose._engine.model_call import charge
from interpose._engine.provider_call import provide
from interpose._engine.signals import Signal
from interpose.errors import HistoryError, InterposeError
from interpose.inputs import as_messages
from interpose.request import ModelRequest, ModelResponse, ModelSettings, Usage

if TYPE_CHECKING:
    from interpose._engine.open_node import OpenNode
    from interpose._engine.run import Run


async def generate(
    run: Run,
    given: Any,
    model: Any,
    instructions: str | None,
    settings: ModelSettings | None,
    call_class: str,
    parent: OpenNode | None = None,
) -> ModelResponse:
    """Make a model call of a middleware's own: counted and recorded, never shown, passed through no layer."""
    if run.done:
        raise InterposeError("ctx.generate was called after the end of its run")
    if isinstance(given, ModelRequest):
        request = given.replace(call_class=call_class)
    else:
        request = ModelRequest(
            provider=run.agent.model.provider,
            model=run.agent.model.name,
            messages=as_messages(given),
            settings=settings or ModelSettings(),
            call_class=call_class,
            number=run.number,
        )
    if model is not None:
        request = request.with_model(model)
    if instructions is not None:
        request = request.with_instructions(instructions)
    if settings is not None:
        request = request.replace(settings=settings)
    what = problem(request.messages)
    if what is not None:
        raise HistoryError(f"ctx.generate was given a history that no provider takes: {what}")
    if run.noted is not None:
        raise Signal(run.noted)
    target = run.model_for(request)
    reservation = await run.meter.begin_model_call(request, target)
    node = None
    if run.record is not None:
        node = await run.record.open_model(request, parent, own=True)
    told: list[Usage | None] = []
    try:
        response = await provide(run, request, target, None, told)
    except BaseException as error:
        spent = told[0] if told else None
        await charge(run, None, spent, reservation, target, request.model, failed=spent is None)
        if node is not None:
            await run.record.close_own(node, None, spent, error)  # type: ignore[union-attr]  # it is there
        raise
    usage = await charge(run, None, response.usage, reservation, target, request.model, failed=False)
    if node is not None:
        await run.record.close_own(node, response, usage)  # type: ignore[union-attr]  # as above
    return response
