"""Model hooks: plain functions before and after each model call, the lighter seam, and the four that come with it.

A pre-model hook gets a `PreModelHookContext` and may return a `PreModelHookResult`; a post-model hook gets a
`PostModelHookContext` and may return a `PostModelHookResult`. Both may be `def` or `async def`; nothing, or a result
in which nothing is set, changes nothing. They run in the order of their registration, each on what the one before left.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import msgspec

from interpose.brevity import with_short_descriptions, without_descriptions
from interpose.groups import groups_of, insert_note, leading, newest_user, without
from interpose.messages import MESSAGE_TYPES, AssistantMessage, Message, ToolCall, Value
from interpose.models.base import ModelProfile
from interpose.outcomes import Pause, Retry
from interpose.repetition import repeats_itself
from interpose.request import ModelRequest, ModelResponse
from interpose.text import canonical_json
from interpose.tokens import count_message, count_tool, tokens
from interpose.tools import ArgumentError, Tool


def _not_asked(_reason: str) -> None:
    """Answer as where nobody was asked."""


class PreModelHookContext(Value, frozen=True, kw_only=True):
    """What is about to be sent. *state* is the run's shared state, `ctx.state`.

    `answer(reason)` is what a person answered to an *interrupt* with this reason, or None. A hook that paused the run
    is called again when it is resumed, and asks again unless it looks there.
    """

    messages: tuple[Message, ...]
    model: str
    model_profile: ModelProfile | None
    tools: tuple[Tool, ...]
    system_prompt: str
    state: MutableMapping[str, Any]
    answer: Callable[[str], Any] = _not_asked


class PreModelHookResult(Value, frozen=True, kw_only=True):
    """What to send instead; what is None stays.

    *model* is a name, "provider:name" or a `Model`. *system_prompt_suffix* goes behind the instructions.
    *short_circuit* answers in the model's place, and *interrupt* asks a person: later hooks and the model are not
    called. All of it holds for this step.
    """

    messages: Sequence[Message] | None = None
    model: Any = None
    system_prompt_suffix: str | None = None
    tools: Sequence[Tool] | None = None
    short_circuit: AssistantMessage | ModelResponse | None = None
    interrupt: Pause | None = None

    def __post_init__(self) -> None:
        _check(self, "short_circuit", AssistantMessage, ModelResponse)
        _check(self, "interrupt", Pause)
        _check(self, "system_prompt_suffix", str)
        _check_each(self, "messages", *MESSAGE_TYPES, Mapping)
        _check_each(self, "tools", Tool)
        if self.model is not None and not isinstance(self.model, str) and not hasattr(self.model, "stream"):
            raise TypeError(f"PreModelHookResult(model=...) takes a name or a Model, got {self.model!r:.80}")


class PostModelHookContext(Value, frozen=True, kw_only=True):
    """What the model answered, and the request as it was sent. *state* and *answer* are as before the call."""

    response: ModelResponse
    request: ModelRequest
    state: MutableMapping[str, Any]
    answer: Callable[[str], Any] = _not_asked


class PostModelHookResult(Value, frozen=True, kw_only=True):
    """What to make of the answer; what is None stays.

    *retry* asks the model again and beats *response*, also for later hooks; where its `max_retries` are used up in this
    step, it counts as nothing. *interrupt* asks a person and beats both.
    """

    response: ModelResponse | None = None
    retry: Retry | None = None
    interrupt: Pause | None = None

    def __post_init__(self) -> None:
        _check(self, "response", ModelResponse)
        _check(self, "retry", Retry)
        _check(self, "interrupt", Pause)


def _check(result: Any, name: str, *kinds: type) -> None:
    value = getattr(result, name)
    if value is not None and not isinstance(value, kinds):
        expected = " or ".join([kind.__name__ for kind in kinds])
        raise TypeError(f"{type(result).__name__}({name}=...) takes a {expected}, got {value!r:.80}")


def _check_each(result: Any, name: str, *kinds: type) -> None:
    values = getattr(result, name)
    if values is None:
        return
    if not isinstance(values, str | list | tuple):
        values = tuple(values)
        msgspec.structs.force_setattr(result, name, values)
    wrong = [values] if isinstance(values, str) else [one for one in values if not isinstance(one, kinds)]
    if wrong:
        raise TypeError(f"{type(result).__name__}({name}=...) takes a list of {name}, got {wrong[0]!r:.80} in it")


PreModelHook = Callable[[PreModelHookContext], PreModelHookResult | Awaitable[PreModelHookResult | None] | None]
PostModelHook = Callable[[PostModelHookContext], PostModelHookResult | Awaitable[PostModelHookResult | None] | None]


def history_trimmer(context: PreModelHookContext) -> PreModelHookResult | None:
    """Leave out the oldest messages where the history does not fit the model; a note says how many.

    The history may have the model's `max_input_tokens` less what the answer (a quarter of them at most), instructions
    and tools take. A call goes with its results; nothing from the newest user message on goes.
    """
    profile = context.model_profile
    if profile is None or profile.max_input_tokens is None:
        return None
    answer = min(profile.max_output_tokens or 0, profile.max_input_tokens // 4)
    offered = sum([count_tool(tool) for tool in context.tools])
    budget = profile.max_input_tokens - answer - tokens(context.system_prompt) - offered
    messages = context.messages
    sizes = [count_message(message) for message in messages]
    left = sum(sizes)
    user = newest_user(messages)
    gone: set[int] = set()
    note = ""
    for group in groups_of(messages):
        if left + tokens(note) <= budget:
            break
        if group.may_go and (user is None or group.places[-1] < user):
            gone.update(group.places)
            left -= sum([sizes[place] for place in group.places])
            note = f"{len(gone)} earlier message{' was' if len(gone) == 1 else 's were'} left out to fit the model."
    if not gone:
        return None
    kept = without(messages, gone)
    insert_note(kept, leading(messages), note)
    return PreModelHookResult(messages=kept)


MAX_SCHEMA_TOKENS = 2000
SCHEMA_PERCENT = 15
MAX_DESCRIPTION_CHARS = 120


def tool_prompt_budget(context: PreModelHookContext) -> PreModelHookResult | None:
    """Shorten the tools for a model with `weak_tool_schema`, to 15 % of its input or 2000 tokens at most.

    First descriptions, then enumerations and all descriptions inside parameters, then whole tools from the end, but for
    those that the history called. The system prompt then lists what is left.
    """
    profile = context.model_profile
    if profile is None or not profile.weak_tool_schema:
        return None
    limit = profile.max_input_tokens
    cap = MAX_SCHEMA_TOKENS if limit is None else min(limit * SCHEMA_PERCENT // 100, MAX_SCHEMA_TOKENS)
    if _fits(context.tools, cap):
        return None
    tools = [with_short_descriptions(tool, MAX_DESCRIPTION_CHARS) for tool in context.tools]
    if not _fits(tools, cap):
        tools = [without_descriptions(tool) for tool in context.tools]
        called = {call.name for message in context.messages for call in message.tool_calls}
        for tool in reversed(tools.copy()):
            if _fits(tools, cap):
                break
            if tool.name not in called:
                tools.remove(tool)
    lines = [f"{tool.name}({', '.join(tool.parameters.get('properties', {}))})" for tool in tools]
    suffix = "To use a tool, call it by its name with its arguments as one JSON object. The tools are:\n"
    return PreModelHookResult(tools=tuple(tools), system_prompt_suffix=suffix + "\n".join(lines) if tools else None)


def _fits(tools: Iterable[Tool], cap: int) -> bool:
    return sum([count_tool(tool) for tool in tools]) <= cap


def tool_call_validator(context: PostModelHookContext) -> PostModelHookResult | None:
    """Send calls back that cannot run, with what is wrong, at most twice in a step; mend names that are nearly right.

    A name that equals exactly one offered name but for case, `-` and `_` is corrected. Looked at are the name, whether
    the arguments are an object, those that are required, and those of a simple type, as leniently as the tool itself.
    """
    response = context.response
    if not response.tool_calls:
        return None
    offered = {tool.name: tool for tool in context.request.tools}
    calls = [_corrected(call, offered) for call in response.tool_calls]
    problems = [problem for call in calls for problem in _problems(call, offered)]
    corrected = None
    if any(new is not old for new, old in zip(calls, response.tool_calls, strict=True)):
        corrected = response.replace(message=_with_calls(response.message, calls))
    if not problems:
        return PostModelHookResult(response=corrected) if corrected is not None else None
    lines = [*problems, f"Tools on offer: {', '.join(offered) or 'none'}."]
    return PostModelHookResult(response=corrected, retry=Retry("\n".join(lines), max_retries=2))


def _with_calls(message: AssistantMessage, calls: Sequence[ToolCall]) -> AssistantMessage:
    """Return *message* with *calls* for its own, each in its place: signed reasoning belongs to the call behind it."""
    if not message.parts:
        return message.replace(tool_calls=tuple(calls))
    left = iter(calls)
    return message.replace(parts=tuple([next(left) if isinstance(part, ToolCall) else part for part in message.parts]))


def _folded(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")


def _corrected(call: ToolCall, offered: Mapping[str, Tool]) -> ToolCall:
    if call.name in offered:
        return call
    near = [name for name in offered if _folded(name) == _folded(call.name)]
    return call.replace(name=near[0]) if len(near) == 1 else call


_CLASSES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
}


def _problems(call: ToolCall, offered: Mapping[str, Tool]) -> Iterator[str]:
    """Yield a line for each thing that is wrong with *call*."""
    tool = offered.get(call.name)
    if tool is None:
        yield f"There is no tool {call.name!r}."
        return
    if call.error is not None:
        yield f"{call.name}: {call.error}"
        return
    try:
        tool.validate(call.args)
    except ArgumentError as error:
        wrong = [f"{name}:" for name, value in call.args.items() if not _has_its_type(value, tool, name)]
        heads = tuple([f"{tool.name}: {head}" for head in ("missing argument", *wrong)])
        yield from [problem for problem in error.problems if problem.startswith(heads)]


def _has_its_type(value: Any, tool: Tool, name: str) -> bool:
    """Whether *value* is of the simple type that the schema gives it; true where it gives none."""
    schema = tool.parameters.get("properties", {}).get(name)
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind not in _CLASSES:
        return True
    is_bool = isinstance(value, bool)
    return isinstance(value, _CLASSES[kind]) and is_bool == (kind == "boolean")


def repetition_detector(context: PostModelHookContext) -> PostModelHookResult | None:
    """Ask again, once in a step, where the model makes the same calls for the third time or repeats its own text.

    Calls count as the same with the same names and arguments, if the two times before, since the newest user message,
    also had the same results. Text repeats itself with a line of 10 characters or more, or a block of 40 or more, four
    times in a row.
    """
    response = context.response
    if response.tool_calls and _calls_again(response.message, context.request.messages):
        text = (
            "You made the same call with the same arguments before, and its result is above. "
            "Answer with what is there, or try another way."
        )
        return PostModelHookResult(retry=Retry(text))
    if response.text and repeats_itself(response.text):
        return PostModelHookResult(retry=Retry("Your answer said the same thing over and over. Say it once."))
    return None


def _calls_again(message: AssistantMessage, messages: Sequence[Message]) -> bool:
    """Return whether the two assistant messages before asked for the same calls and got the same results."""
    user = newest_user(messages)
    recent = messages[0 if user is None else user + 1 :]
    before = [one for one in recent if one.role == "assistant"][-2:]
    asked = _asked(message)
    if len(before) < 2 or any(_asked(one) != asked for one in before):
        return False
    results = {one.tool_call_id: one.text for one in recent if one.role == "tool"}
    first, second = [{(*_key(call), results.get(call.id)) for call in one.tool_calls} for one in before]
    return first == second


def _asked(message: Message) -> set[tuple[Any, ...]]:
    return {_key(call) for call in message.tool_calls}


def _key(call: ToolCall) -> tuple[str, str | bytes]:
    return call.name, call.raw if call.raw is not None else canonical_json(call.args)


DEFAULT_POST_MODEL_HOOKS: tuple[PostModelHook, ...] = (tool_call_validator, repetition_detector)
"""What an agent has where nothing else is asked for; `Agent(post_model_hooks=())` has none."""
