"""The model seam: one model call, from the layers to the provider and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from interpose._engine.call import Call
from interpose._engine.chain import Layer, Next, check_entry, enter_beside, entries_of
from interpose._engine.config import who_broke
from interpose._engine.legality import problem
from interpose._engine.narrator import Narrator
from interpose._engine.provider_call import provide
from interpose._engine.replay import replaying
from interpose._engine.signals import Signal
from interpose._engine.steering import rejected, wrong
from interpose.errors import HistoryError
from interpose.inputs import as_messages
from interpose.outcomes import Abort, End, Pause, Retry
from interpose.prices import with_cost
from interpose.request import ModelRequest, ModelResponse, Usage
from interpose.text import clean

if TYPE_CHECKING:
    from interpose._engine.run import Run

MODEL_SEAM = (
    ("record", "a call that is not recorded is worse than no record"),
    ("middleware", "the user's layers, first listed outermost"),
    ("pre-model hooks", "the lighter seam, in registration order; one layer, innermost"),
    ("count", "below the layers: an answer from a cache costs nothing"),
    ("guard", "dead air and timeouts cut the provider's call alone"),
    ("chunk pipeline", "every event that the call produces goes through on_chunk here"),
    ("language-model", "transform_params, wrap_generate and wrap_stream around one provider"),
    ("provider", "the model itself"),
    ("post-model hooks", "on the way back, in registration order; a retry goes back to the pre-model hooks"),
)
"""The stations of a model call, outermost first, with the reason why each stands where it does."""

STEERS: dict[str, tuple[type, ...]] = {
    "before_model_call": (End, Pause, Abort),
    "wrap_model_call": (End, Pause, Abort),
    "after_model_call": (Retry, End, Pause, Abort),
}


class ModelCall(Call):
    """The model call of one step, with all its attempts."""

    seam = "model_call"
    takes = ModelRequest
    gives = ModelResponse
    steers: ClassVar[Mapping[str, tuple[type, ...]]] = STEERS

    __slots__ = (
        "attempts",
        "made_request",
        "narrator",
        "overlap",
        "own_ids",
        "reached",
        "response",
        "running",
        "usage",
    )

    def __init__(self, run: Run) -> None:
        self.run = run
        self.ctx = run.ctx
        plan = run.plan
        self.layers = layers = plan.model_layers
        entries = plan.model_entries
        if entries is None:
            entries = plan.model_entries = entries_of(layers, call_model)
        self.entries = entries
        self.values = [None] * (len(layers) + 1)
        self.answered = False
        self.noted = self.retries = self.paused_at = self.stray = None
        self.odd = False
        self.value_type, self.result_type = ModelRequest, ModelResponse
        self.replay = run.resumption.kept_responses() if run.resumption is not None else None
        if self.replay is not None:
            self.entries = replaying(entries)
        self.task = run.task
        self.attempts = 0
        self.running = 0
        self.overlap = False
        self.usage: Usage | None = None
        self.reached: ModelRequest | None = None
        self.response: ModelResponse | None = None
        self.made_request: ModelRequest | None = None
        self.narrator: Narrator | None = None
        if run.pipe.active:
            self.narrator = Narrator(run.pipe, run.message_id, run.history.call_ids)
            self.narrator.announces = run.announces_output
        self.own_ids: set[str] | tuple[()] = ()

    def made(self, layer: Layer, result: Any) -> Any:
        """Mark a response that a layer made up with the name of its maker."""
        self.answered = True
        index = self.layers.index(layer)
        self.made_request = self.values[index]
        return result if result.made_by is not None else result.replace(made_by=layer.name)

    def resume_with(self, value: Any, result: Any) -> None:
        """Take a response from before a pause as this call's own: it was counted and told then."""
        self.answered = True
        self.attempts = self.attempts or 1
        self.reached, self.response = value, result
        self.own_ids = {call.id for call in result.tool_calls}
        resumption = self.run.resumption
        if resumption is not None:
            resumption.replayed = True
            self.usage = resumption.kept_usage()
        if self.narrator is not None and not self.run.plan.holds_stream:
            self.narrator.take_as_told(result.message)

    def again_value(self, value: Any) -> Any:
        """Return the request of a further attempt, with its number."""
        if self.attempts and value.__class__ is ModelRequest and value.attempt != self.attempts:
            return value.replace(attempt=self.attempts)
        return value

    def retry_value(self, value: ModelRequest, result: ModelResponse, feedback: str) -> ModelRequest:
        """Return the request of another attempt, with what was rejected and why."""
        return value.replace(messages=rejected(value.messages, result.text, feedback), attempt=self.attempts)

    def lift(self, layer: Layer, hook: str, value: Any) -> Any:
        """Refuse: a response is a `ModelResponse`."""
        raise wrong(layer, hook, value, "a ModelResponse (request.answer(text) makes one), End, Pause, Abort")


async def call_model(call: Any, index: int, request: ModelRequest, via: Next | None) -> ModelResponse:
    """Call the provider: the core of the seam."""
    if via is not None and not via.owner.cr_running:
        return await enter_beside(call_model, call, index, request, via)  # type: ignore[no-any-return]  # what this gives
    if call.odd or request.__class__ is not ModelRequest:
        check_entry(call, index, request)
    run: Run = call.run
    call.values[index] = request
    call.running += 1
    told: list[Usage | None] = []
    reservation = None
    counted = False
    model = run.model_for(request)
    try:
        request = admit(call, request)
        if not run.meter.plain:
            reservation = await run.meter.begin_model_call(request, model)
        counted = True
        if call.attempts > 0 and call.narrator is not None:
            await begin_again(call)
        call.attempts += 1
        run.names = (request.provider, request.model)
        call.reached = request
        response = await provide(run, request, model, call, told)
    except BaseException as error:
        if run.record is not None:
            run.record.failed_attempt(error)
        if counted:
            await charge(run, call, told[0] if told else None, reservation, model, request.model, failed=not told)
        raise
    finally:
        call.running -= 1
    if response.usage is not None or not run.meter.plain:
        await charge(run, call, response.usage, reservation, model, request.model, failed=False)
    call.answered = True
    call.response = response
    if run.noted is not None:
        raise Signal(run.noted)
    if via is not None:
        via.given = response
    return response


async def begin_again(call: ModelCall) -> None:
    """Take back what an earlier attempt has shown; while two overlap, neither is shown."""
    if call.running > 1:
        call.overlap = True
    await call.narrator.supersede()  # type: ignore[union-attr]  # called where there is one


async def charge(
    run: Run, call: ModelCall | None, usage: Usage | None, reservation: Any, model: Any, name: str, *, failed: bool
) -> Usage | None:
    """Charge what a call of *model* used to the meter, the run and, where there is one, the seam's *call*.

    Returns it with its cost.
    """
    if usage is not None:
        usage = with_cost(usage, model, name)
        if call is not None:
            call.usage = usage if call.usage is None else call.usage + usage
        run.add_usage(usage)
    if not run.meter.plain:
        await run.meter.end_model_call(reservation, usage, failed=failed)
    return usage


def admit(call: ModelCall, request: ModelRequest) -> ModelRequest:
    """Return *request* as it may be sent.

    Raises:
        HistoryError: its messages would be refused by a provider; a middleware that broke them is named.
    """
    if not request.tools and (request.settings.tool_choice or request.settings.parallel_tool_calls is not None):
        request = request.replace(settings=request.settings.replace(tool_choice=None, parallel_tool_calls=None))
    if not request.instructions.isascii():
        request = request.replace(instructions=clean(request.instructions))
    if request.messages is not call.run.history.messages:
        what = problem(request.messages)
        if what is not None:
            raise HistoryError(_blame(call, what))
        messages = as_messages(request.messages)
        if messages is not request.messages:
            request = request.replace(messages=messages)
    return request


def _blame(call: ModelCall, what: str) -> str:
    previous = who_broke(call.run)
    if previous is not None:
        return f"{previous} left a history that no provider takes: {what}"
    for index, value in enumerate(call.values):
        if value is not None and index and problem(value.messages) is not None:
            return f"{call.layers[index - 1].name} left a history that no provider takes: {what}"
    return f"the messages are a history that no provider takes: {what}"
