"""Ways to summarise messages, for `Summarization`."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from interpose.brevity import first_sentence
from interpose.builtin.options import check_whole, model_or_name
from interpose.messages import Message
from interpose.request import ModelSettings
from interpose.tokens import CountTokens, tokens

if TYPE_CHECKING:
    from interpose.context import RunContext

Summarize = Callable[[Any, Sequence[Message]], "str | Awaitable[str]"]
"""Makes a summary of messages: `summarize(ctx, messages)`. A former summary is the first, with metadata `summary`."""

log = logging.getLogger("interpose")

UNUSABLE = ("content_filter", "error", "dead_air", "cancelled")
"""How an answer ends that is no summary, whatever it says."""
EVICTED = '{"_evicted":true'
MAX_LINE_CHARS = 160
MAX_MESSAGE_CHARS = 4000
INSTRUCTIONS = (
    "Summarise the conversation that you are given, for the assistant who goes on with it. Keep what was asked for, "
    "what was decided, names, numbers and paths exactly as written, and what is still open. Take up an earlier "
    "summary at its beginning. Answer with the summary alone."
)


def extractive(
    _ctx: Any, messages: Sequence[Message], *, max_tokens: int = 2000, count_tokens: CountTokens = tokens
) -> str:
    """Return the first sentence of each message, newest first until *max_tokens* are used up, in the old order.

    One line a message, `role: ` and at most 160 characters; calls as `name(argument names)`. No model is called.
    """
    lines: list[str] = []
    for message in messages:
        if _is_summary(message):
            lines += message.text.splitlines()
        else:
            lines.append(line_of(message))
    chosen: list[str] = []
    used = 0
    for line in reversed(lines):
        used += count_tokens(line + "\n")
        if used > max_tokens:
            break
        chosen.append(line)
    if not chosen and lines:
        chosen.append(_cut(lines[-1], max_tokens, count_tokens))
    return "\n".join(reversed(chosen))


def _cut(line: str, max_tokens: int, count_tokens: CountTokens) -> str:
    """Return the beginning of *line* that fits in *max_tokens*."""
    while len(line) > 1 and (size := count_tokens(line)) > max_tokens:
        line = line[: min(int(len(line) * max_tokens / size), len(line) - 1)]
    return line


def _is_summary(message: Message) -> bool:
    return message.role == "system" and message.metadata is not None and bool(message.metadata.get("summary"))


def line_of(message: Message) -> str:
    """Return one line on *message*; of an evicted result it begins with the path, by which it can still be read."""
    said = (
        _of_evicted(message.text) if message.text.startswith(EVICTED) else first_sentence(message.text, MAX_LINE_CHARS)
    )
    calls = ", ".join([f"{call.name}({', '.join(call.args)})" for call in message.tool_calls])
    return f"{message.role}: {' '.join(filter(None, [said, calls]))}"


def _of_evicted(text: str) -> str:
    try:
        stub = msgspec.json.decode(text)
        line = f"{stub['full_result_path']} holds: {first_sentence(stub['preview'], MAX_LINE_CHARS)}"
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        line = first_sentence(text, MAX_LINE_CHARS)
    return line[:MAX_LINE_CHARS]


def by_model(model: Any = None, *, instructions: str = INSTRUCTIONS, max_tokens: int = 1000) -> Summarize:
    """Return a summariser that asks *model* (the run's own, if None) for at most *max_tokens* tokens.

    The call has no tools and no output schema, and counts for usage and limits. Of each message the model reads 4000
    characters at most.
    """
    check_whole("max_tokens", max_tokens, 1)
    asked = None if model is None else model_or_name(model)

    async def summarize(ctx: "RunContext[Any]", messages: Sequence[Message]) -> str:
        settings = ModelSettings(max_tokens=max_tokens)
        text = transcript(messages)
        response = await ctx.generate(text, model=asked, instructions=instructions, settings=settings)
        if response.finish_reason in UNUSABLE:
            raise ValueError(f"the model ended its summary with {response.finish_reason!r}")
        if response.finish_reason == "length":
            log.warning("the summary was cut at max_tokens=%d, so what is newest may be missing in it", max_tokens)
        return response.text

    return summarize


def transcript(messages: Sequence[Message]) -> str:
    """Return *messages* as text to read, a paragraph each."""
    return "\n\n".join([_paragraph(message) for message in messages])


def _paragraph(message: Message) -> str:
    if _is_summary(message):
        return f"Earlier summary: {message.text}"
    calls = "".join([f"\n[calls {call.name} with {call.args_json}]" for call in message.tool_calls])
    said = message.text + calls
    if len(said) > MAX_MESSAGE_CHARS:
        half = MAX_MESSAGE_CHARS // 2
        said = f"{said[:half]}\n[… {len(said) - 2 * half} characters left out …]\n{said[-half:]}"
    return f"{message.role}: {said}"
