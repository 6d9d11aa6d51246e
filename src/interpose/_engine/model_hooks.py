"""Model hooks lowered into one layer, the innermost of the model seam."""

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeVar

from interpose._engine.steering import rejected
from interpose.errors import ConfigurationError, HookError
from interpose.hooks import (
    PostModelHook,
    PostModelHookContext,
    PostModelHookResult,
    PreModelHook,
    PreModelHookContext,
    PreModelHookResult,
)
from interpose.messages import AssistantMessage
from interpose.middleware import Middleware, ModelNext
from interpose.models.profiles import profile_of
from interpose.outcomes import Pause, Retry
from interpose.request import ModelRequest, ModelResponse

if TYPE_CHECKING:
    from interpose.context import RunContext
    from interpose.models.base import ModelProfile

HookT = TypeVar("HookT", bound=Callable[..., Any])
ResultT = TypeVar("ResultT", PreModelHookResult, PostModelHookResult)


class ModelHooks(Middleware[Any]):
    """Runs *pre* hooks on each request and *post* hooks on each response; the lists may grow until the first run."""

    name = "model hooks"

    def __init__(self, pre: Sequence[PreModelHook], post: Sequence[PostModelHook]) -> None:
        self.pre = pre
        self.post = post

    async def wrap_model_call(
        self, ctx: "RunContext[Any]", request: ModelRequest, call_next: ModelNext
    ) -> ModelResponse | Pause:
        """Call the model, again for each retry: with the messages as they came, what was rejected, and why."""
        attempt = request
        call: Callable[[ModelRequest], Any] = call_next
        while True:
            sent = await self._prepared(ctx, attempt) if self.pre else attempt
            if not isinstance(sent, ModelRequest):
                return sent
            response = await call(sent)
            judged = await self._judged(ctx, sent, response)
            if not isinstance(judged, tuple):
                return judged
            retry, text = judged
            messages = rejected(request.messages, text, retry.feedback)
            attempt = request.replace(messages=messages, attempt=attempt.attempt + 1)
            call = call_next.again

    async def _prepared(self, ctx: "RunContext[Any]", request: ModelRequest) -> ModelRequest | ModelResponse | Pause:
        """Return the request as the pre hooks leave it, or what one of them answered or asked."""
        for hook in self.pre:
            context = PreModelHookContext(
                messages=request.messages,
                model=request.model,
                model_profile=_profile(ctx, request),
                tools=request.tools,
                system_prompt=request.instructions,
                state=ctx.state,
                answer=ctx.answer,
            )
            said = await _call(hook, context, PreModelHookResult)
            if said is None:
                continue
            if said.interrupt is not None:
                return said.interrupt
            if said.short_circuit is not None:
                return _answer(request, said.short_circuit)
            before, request = request, _changed(request, said)
            if ctx._run.record is not None:
                ctx._run.record.hooked.append((_name(hook), "pre_model_hook", before, request))
        return request

    async def _judged(
        self, ctx: "RunContext[Any]", request: ModelRequest, response: ModelResponse
    ) -> "ModelResponse | Pause | tuple[Retry, str]":
        """Return the response as the post hooks leave it, what one of them asked, or a retry with what it rejected."""
        for place, hook in enumerate(self.post):
            context = PostModelHookContext(response=response, request=request, state=ctx.state, answer=ctx.answer)
            said = await _call(hook, context, PostModelHookResult)
            if said is None:
                continue
            if said.interrupt is not None:
                return said.interrupt
            if said.retry is not None and self._may_retry(ctx, request, place, said.retry):
                return said.retry, response.text
            if said.response is not None:
                response = said.response
        return response

    def _may_retry(self, ctx: "RunContext[Any]", request: ModelRequest, place: int, retry: Retry) -> bool:
        """Count a retry of the hook at *place* in this step; false where its share is used up."""
        now = (request.number, request.call_class)
        state = ctx.private(self)
        if state.get("now") != now:
            state["now"], state["used"] = now, {}
        used: dict[int, int] = state["used"]
        if used.get(place, 0) >= retry.max_retries:
            return False
        used[place] = used.get(place, 0) + 1
        return True


async def _call(hook: Callable[[Any], Any], context: Any, kind: type[ResultT]) -> ResultT | None:
    said = hook(context)
    if isawaitable(said):
        said = await said
    if said is None or isinstance(said, kind):
        return said
    raise HookError(f"model hook {_name(hook)} returned {type(said).__name__}; expected a {kind.__name__} or nothing")


def _name(hook: Callable[[Any], Any]) -> str:
    return str(getattr(hook, "__name__", type(hook).__name__))


def _answer(request: ModelRequest, given: AssistantMessage | ModelResponse) -> ModelResponse:
    if isinstance(given, ModelResponse):
        return given
    return ModelResponse(given, model=request.model, provider=request.provider)


def _changed(request: ModelRequest, result: PreModelHookResult) -> ModelRequest:
    if result.messages is not None:
        request = request.with_messages(result.messages)
    if result.tools is not None:
        request = request.with_tools(result.tools)
    if result.system_prompt_suffix:
        request = request.append_instructions(result.system_prompt_suffix)
    return request if result.model is None else request.with_model(result.model)


def _profile(ctx: "RunContext[Any]", request: ModelRequest) -> "ModelProfile | None":
    """Return what is known of the model that *request* names, also of another one of the same provider."""
    return profile_of(ctx._run.model_for(request), request.model)


def register(agent: Any, hooks: list[Any], hook: HookT) -> HookT:
    """Append *hook* to the agent's *hooks*, and return it.

    Raises:
        ConfigurationError: the agent has run already, or the hook is none.
    """
    if agent._openings.ran:
        raise ConfigurationError("model hooks must be registered before the first run")
    hooks.append(hook)
    try:
        agent._build()
    except ConfigurationError:
        hooks.pop()
        raise
    return hook
