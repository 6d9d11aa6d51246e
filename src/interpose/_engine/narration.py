"""What the model seam gave, told to the reader where it was not yet, and superseding what it replaces."""

from __future__ import annotations

from interpose._engine.free_ids import with_free_ids
from interpose._engine.model_call import ModelCall
from interpose._engine.narrator import Narrator
from interpose.ids import create_id
from interpose.messages import AssistantMessage
from interpose.request import ModelResponse


async def settle(call: ModelCall, response: ModelResponse) -> ModelResponse:
    """Return the response that the seam gave, told to the reader if it was not yet, with ids that are free."""
    run, narrator = call.run, call.narrator
    if narrator is None and response is call.response:
        return response
    message: AssistantMessage = response.message
    own = call.own_ids if response.made_by is None else set()
    if narrator is None:
        if message.tool_calls:
            message = with_free_ids(message, run.history.call_ids, own)
        if response.made_by is not None and message.id != run.message_id:
            message = message.replace(id=run.message_id)
        return response if message is response.message else response.replace(message=message)
    told = narrator.told
    if told is not None and not call.overlap and message is told:
        return response
    message = with_free_ids(message, run.history.call_ids, own) if message.tool_calls else message
    if told is not None and not call.overlap:
        if _same(message, told):
            return response.replace(message=message.replace(id=told.id))
        if message.text == told.text and message.reasoning == told.reasoning:
            return response.replace(message=await _other_calls(narrator, message, told))
    await narrator.supersede()
    if narrator.gone_calls:
        message = with_free_ids(message, run.history.call_ids, set(own) - narrator.gone_calls)
    pipe_narrator, run.pipe.narrator = run.pipe.narrator, narrator
    message = await narrator.narrate(message)
    run.pipe.narrator = pipe_narrator or narrator
    return response.replace(message=message)


def _same(one: AssistantMessage, other: AssistantMessage) -> bool:
    return (
        one.text == other.text
        and one.reasoning == other.reasoning
        and [(c.id, c.name, c.args, c.raw) for c in one.tool_calls]
        == [(c.id, c.name, c.args, c.raw) for c in other.tool_calls]
    )


async def _other_calls(narrator: Narrator, message: AssistantMessage, told: AssistantMessage) -> AssistantMessage:
    """Supersede the calls alone, where a layer changed nothing else, and tell the new ones under new ids."""
    old = {c.id: (c.name, c.args, c.raw) for c in told.tool_calls}
    await narrator.supersede(calls_only=True)
    calls = []
    for call in message.tool_calls:
        fresh = call.replace(id=create_id("call")) if call.id in old or call.id in narrator.gone_calls else call
        narrator.taken.add(fresh.id)
        await narrator.whole_call(fresh)
        calls.append(fresh)
    await narrator.finish()
    return message.replace(tool_calls=tuple(calls), id=told.id)
