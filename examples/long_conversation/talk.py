"""A conversation that outgrows its model, which runs in this process and is given room for 768 tokens.

    python examples/long_conversation/talk.py

First without any care: after two ledgers there is no room for a third, and the run fails. Then the same questions with
`ResultEviction` and `Summarization`: long results leave the conversation, older turns become a summary, and the last
question is answered from a ledger that left long ago and is read back.
"""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from interpose import (
    Agent,
    ContextTooLong,
    ContinueState,
    Middleware,
    ModelRequest,
    ModelSettings,
    RunContext,
    RunResult,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
    tool,
)
from interpose.builtin import ResultEviction, Summarization, read_tool
from interpose.messages import Message
from interpose.models import LocalModel, Model
from interpose.stores import MemoryStore

CONTEXT_TOKENS = 768
ANSWER_TOKENS = 160  # enough to write down the path of a result
MAX_INPUT_TOKENS = CONTEXT_TOKENS - ANSWER_TOKENS
HALLS = ("north", "south", "east")
GOODS = ("lamps", "chairs", "kettles", "mirrors", "clocks", "baskets", "rugs")
BAYS = 20
BAY = 11
FETCHES = [f"Fetch the ledger of the {hall} hall." for hall in HALLS]
QUESTION = f"How many boxes are in bay {BAY} of the north hall?"


def entry(hall: str, bay: int) -> str:
    """Return what the ledger of *hall* says of *bay*; always the same."""
    chance = random.Random(f"{hall} {bay}")
    return f"Bay {bay} of the {hall} hall has {chance.randrange(100, 999)} boxes of {chance.choice(GOODS)}."


@dataclass
class Count:
    """The answer, in a form that also so small a model can give."""

    boxes: int


@tool
async def ledger(hall: str) -> str:
    """Fetch the ledger of a hall."""
    return "\n".join([entry(hall, bay) for bay in range(1, BAYS + 1)])


class Memory:
    """A backend for `ResultEviction`; a folder or a bucket would be `FileBackend(url)`."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def write(self, path: str, text: str, /) -> None:
        """Keep a text."""
        self.texts[path] = text

    async def read(self, path: str, /) -> str:
        """Return a text."""
        if path not in self.texts:
            raise FileNotFoundError(path)
        return self.texts[path]


class Guide(Middleware):
    """Decides what so small a model cannot: which tool helps, with which argument, and when nothing more is to be done.

    The ledger of the hall in question as long as it was not evicted, then the tool that reads it back.
    """

    def before_model_call(self, ctx: RunContext, request: ModelRequest) -> ModelRequest:
        hall = next(one for one in HALLS if one in question_of(ctx.messages))
        path = path_of(hall, ctx.messages)
        readers = [one for one in request.tools if one.name == "read_result"]
        if readers and path is not None:
            return request.with_tools([with_constant(readers[0], "path", path)])
        return request.with_tools([with_constant(ledger, "hall", hall)])

    def on_should_continue(self, ctx: RunContext, _state: ContinueState) -> bool:
        return question_of(ctx.messages) not in FETCHES


class Focus(Middleware):
    """Leaves of what is read back the lines that the question is about."""

    def after_tool_call(self, ctx: RunContext, call: ToolCall, result: ToolResult) -> ToolResult | None:
        bays = re.findall(r"bay \d+ ", question_of(ctx.messages))
        if call.name != "read_result" or result.is_error:
            return None
        lines = [line for line in result.text.splitlines() if any(bay in line.lower() for bay in bays)]
        return result.replace(data="\n".join(lines))


def question_of(messages: Sequence[Message]) -> str:
    """Return the newest question."""
    return next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")


def path_of(hall: str, messages: Sequence[Message]) -> str | None:
    """Return where the evicted ledger of *hall* is. The thread knows it, also when the model is sent a summary."""
    asked = {call.id: call.args.get("hall") for message in messages for call in message.tool_calls}
    for message in messages:
        if message.role == "tool" and asked.get(message.tool_call_id or "") == hall and message.text.startswith("{"):
            return str(json.loads(message.text)["full_result_path"])
    return None


def with_constant(one: Tool, name: str, value: str) -> Tool:
    """Return a copy of a tool that takes nothing but *value*, as its argument *name*."""
    return one.replace(parameters={"type": "object", "properties": {name: {"const": value}}, "required": [name]})


def count_tokens(text: str) -> int:
    """Estimate with care: this model's tokens are short, above all in numbers and paths."""
    return -(-len(text) // 2)


def agent_of(*, with_care: bool, model: Model | None = None) -> Agent:
    """Return the agent, with or without the two that keep its conversation within the model."""
    backend = Memory()
    care: list[Middleware] = [
        Summarization(MAX_INPUT_TOKENS, keep_messages=2, count_tokens=count_tokens),
        ResultEviction(backend, max_tokens=200, preview_chars=70),
        Focus(),
    ]
    return Agent(
        model or LocalModel(context_tokens=CONTEXT_TOKENS, max_output_tokens=ANSWER_TOKENS),
        instructions="Say how many boxes the data tells of.",
        tools=[ledger, read_tool(backend)] if with_care else [ledger],
        middleware=[Guide(), *care] if with_care else [Guide()],
        settings=ModelSettings(max_tokens=ANSWER_TOKENS),
        store=MemoryStore(),
        post_model_hooks=(),
        name="halls",
    )


async def talk(agent: Agent) -> AsyncIterator[tuple[str, RunResult]]:
    """Say one thing after the other on one thread, and yield each with its result; the last one's output is a `Count`.

    Raises:
        ContextTooLong: the conversation no longer fits the model.
    """
    for said in FETCHES:
        yield said, await agent.run(said, thread_id="talk")
    yield QUESTION, await agent.copy(output=Count).run(QUESTION, thread_id="talk")


async def main() -> None:
    """Play both conversations."""
    for with_care in (False, True):
        print(f"\n{'with' if with_care else 'without'} ResultEviction and Summarization\n")
        try:
            async for question, result in talk(agent_of(with_care=with_care)):
                print(f"  > {question}\n    {shown(result)}")
        except ContextTooLong as error:
            print(f"    failed: {error}")
    print(f"\n  the ledger says: {entry('north', BAY)}")


def shown(result: RunResult) -> str:
    """Return what a run came to: what was called, what was sent at last, and the answer."""
    calls = ", ".join([call.name for step in result.steps for call in step.response.tool_calls])
    sent = result.steps[-1].request.messages
    summary = ", a summary among them" if any(message.text.startswith("Summary") for message in sent) else ""
    about = f"[{calls}; {len(result.messages)} messages, {len(sent)} sent{summary}]"
    return about if result.output is None else f"{about}\n    {result.output}"


if __name__ == "__main__":
    asyncio.run(main())
