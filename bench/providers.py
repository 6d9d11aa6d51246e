"""What an adapter costs for each chunk, apart from its SDK: `python -m bench.providers`.

Each provider's stream of text, in the shape of a recorded one, is played by a real server on loopback, in a process of
its own. It is read in three ways, in turn: by the SDK into plain JSON, the least that any adapter needs; by the SDK
into its own types, as its users read it; and by the model. The first is subtracted from the other two. Beside them
stands what the adapter's own functions take for the same events in memory, without any connection. Figures are CPU time
of this process, so that other work on the machine counts little, per chunk, in the best of several rounds.
"""

import argparse
import asyncio
import importlib.util
import multiprocessing
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct
from tests.providers.wire_server import Reply, WireServer

from interpose.messages import UserMessage
from interpose.request import ModelRequest
from interpose.testing.model_contract import Answer, Heard, Said

TARGET_US = 15.0
PIECES, ROUNDS = 3000, 9
TEXT = Answer(parts=(Said(pieces=tuple([f"word{n} " for n in range(PIECES)])),))
REQUEST = ModelRequest(messages=(UserMessage("hi"),))

Events = AsyncIterator[Any]


class Subject(Struct, frozen=True):
    """One provider: *connect* gives a client of the SDK, *plain* and *typed* ask it, *reads* the adapter's own."""

    name: str
    vendor: Any
    connect: Callable[[str], Any]
    plain: Callable[[Any], Awaitable[Events]]
    typed: Callable[[Any], Awaitable[Events]]
    reads: Callable[[], Callable[[Any], Iterable[Any]]]


def chat() -> Subject:
    """Chat Completions."""
    from openai import AsyncOpenAI, AsyncStream
    from tests.providers.chat_vendor import ChatVendor

    from interpose.models.openai.reading import ChatReader

    return Subject(
        "OpenAIChat",
        ChatVendor(),
        lambda origin: AsyncOpenAI(api_key="k", base_url=f"{origin}/v1"),
        lambda client: client.post("/chat/completions", body={}, **_as_json(AsyncStream[object])),
        lambda client: client.chat.completions.create(model="m", messages=[], stream=True),
        lambda: ChatReader({}, True).read,
    )


def responses() -> Subject:
    """Responses."""
    from openai import AsyncOpenAI, AsyncStream
    from tests.providers.responses_vendor import ResponsesVendor

    from interpose.models.openai.responses.reading import ResponsesReader

    return Subject(
        "OpenAIResponses",
        ResponsesVendor(),
        lambda origin: AsyncOpenAI(api_key="k", base_url=f"{origin}/v1"),
        lambda client: client.post("/responses", body={}, **_as_json(AsyncStream[object])),
        lambda client: client.responses.create(model="m", input="", stream=True),
        lambda: ResponsesReader({}).read,
    )


def messages() -> Subject:
    """Anthropic's Messages."""
    from anthropic import AsyncAnthropic, AsyncStream
    from tests.providers.messages_vendor import MessagesVendor

    from interpose.models.anthropic.reading import Reading, from_wire

    return Subject(
        "AnthropicMessages",
        MessagesVendor(),
        lambda origin: AsyncAnthropic(api_key="k", base_url=origin),
        lambda client: client.post("/v1/messages", body={}, **_as_json(AsyncStream[object])),
        lambda client: client.messages.create(model="m", messages=[], max_tokens=1, stream=True),
        lambda: partial(_read, from_wire, Reading()),
    )


def gemini() -> Subject:
    """Google's Gemini; the client of the SDK stands in one of the adapter's, which asks for JSON."""
    from tests.providers.gemini_vendor import GeminiVendor

    from interpose.models.google.reading import Reading, from_wire
    from interpose.models.google.sdk import GeminiClient

    async def plain(client: Any) -> Events:
        return aiter(await client.stream("m", {}, {}))

    return Subject(
        "GoogleGemini",
        GeminiVendor(),
        lambda origin: GeminiClient.make("k", origin, {}, None),
        plain,
        lambda client: client._client.aio.models.generate_content_stream(model="m", contents="hi"),
        lambda: partial(_read, from_wire, Reading()),
    )


def _as_json(kind: Any) -> dict[str, Any]:
    return {"cast_to": object, "stream": True, "stream_cls": kind}


def _read(from_wire: Callable[[Any, Any], Iterable[Any]], reading: Any, event: Any) -> Iterable[Any]:
    return from_wire(event, reading)


SUBJECTS = {"openai": (chat, responses), "anthropic": (messages,), "google.genai": (gemini,)}
"""Package of the SDK -> what is measured where it is installed."""


def _serve(payload: bytes, content_type: str, tell: Any) -> None:
    reply = Reply(content_type=content_type, payload=payload, piece_bytes=16_000)

    async def run() -> None:
        async with WireServer(lambda _: reply) as server:
            tell.send(server.origin)
            await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def served(reply: Reply) -> Iterator[str]:
    """Give the address of a process that answers every request with *reply*."""
    context = multiprocessing.get_context("spawn")
    hear, tell = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(reply.payload, reply.content_type, tell), daemon=True)
    process.start()
    try:
        yield hear.recv()
    finally:
        process.terminate()
        process.join()


async def drained(events: Events) -> None:
    """Read *events* to their end."""
    async for _ in events:
        pass


async def measure(subject: Subject) -> str:
    """Return the line of one provider."""
    reply = subject.vendor.answer(TEXT, Heard(model="m", is_stream=True))
    best: dict[str, float] = {}
    with served(reply) as origin:
        model = subject.vendor.model(origin)
        client = subject.connect(origin)
        events = [event async for event in await subject.plain(client)]

        async def functions() -> None:
            read = subject.reads()
            for event in events:
                for _ in read(event):
                    pass

        async def through_sdk(ask: Callable[[Any], Awaitable[Events]]) -> None:
            await drained(await ask(client))

        ways: dict[str, Callable[[], Awaitable[None]]] = {
            "plain": lambda: through_sdk(subject.plain),
            "typed": lambda: through_sdk(subject.typed),
            "model": lambda: drained(model.stream(REQUEST)),
            "functions": functions,
        }
        for _ in range(ROUNDS):
            for name, read in ways.items():
                began = time.process_time()
                await read()
                took = (time.process_time() - began) / len(events) * 1e6
                best[name] = min(took, best.get(name, took))
        await client.close()
    added = best["model"] - best["plain"]
    verdict = "yes" if added < TARGET_US else "NO"
    return (
        f"{subject.name:<22} {best['plain']:>8.1f} {best['typed'] - best['plain']:>+10.1f} {added:>+10.1f} "
        f"{best['functions']:>10.1f}   under {TARGET_US:g}: {verdict}"
    )


async def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"{'microseconds a chunk':<22} {'SDK':>8} {'its types':>10} {'adapter':>10} {'functions':>10}")
    for package, subjects in SUBJECTS.items():
        if importlib.util.find_spec(package.partition(".")[0]) is None:
            print(f"{package} is not installed")
            continue
        for subject in subjects:
            print(await measure(subject()))


if __name__ == "__main__":
    asyncio.run(main())
