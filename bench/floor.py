"""The floor: asyncio code written by hand that does the work and nothing else; a layer is a closure."""
# ruff: noqa: ARG001  # hooks and fakes take the arguments of their seam, used or not

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from bench.cases import CHUNKS, PIECE, PROMPT, TALLY, Case, Script, add_stock, call_id, prior_messages, wraps_tools

Call = Callable[[Any], Awaitable[Any]]


def refuses(case: Case) -> str | None:
    """Return why *case* is not measured here, or None."""
    return "code written by hand has no hooks but those it needs" if case.hooks == "all" else None


def build(case: Case, *, counted: bool = False, gate: asyncio.Event | None = None) -> Callable[[], Awaitable[str]]:
    """Return what makes one run of *case* and returns its text."""
    if case.workload == "W4":
        return _streamed(case, counted)
    model = _wrap(_model(Script(case), counted, gate), case.n, "model_hooks", counted)
    tool = _wrap(_call_tool, case.n if wraps_tools(case) else 0, "tool_hooks", counted)
    prior = [{"role": role, "text": text} for role, text in prior_messages(case.prior)]

    async def run() -> str:
        messages = [*prior, {"role": "user", "text": PROMPT}]
        while True:
            answer = await model(messages)
            messages.append(answer)
            calls = answer["calls"]
            if not calls:
                return str(answer["text"])
            if len(calls) == 1:
                messages.append(await tool(calls[0]))
            else:
                messages.extend(await asyncio.gather(*[tool(call) for call in calls]))

    return run


def _model(script: Script, counted: bool, gate: asyncio.Event | None) -> Call:
    async def model(messages: Any) -> Any:
        turn = script.next()
        if counted:
            TALLY.results_seen = len([message for message in messages if message["role"] in ("tool", "result")])
        if gate is not None:
            await gate.wait()
        calls = [{"id": call_id(), "args": args} for args in turn.calls]
        return {"role": "assistant", "text": turn.text, "calls": calls}

    return model


async def _call_tool(call: Any) -> Any:
    args = json.loads(call["args"])
    if not isinstance(args["item"], str) or not isinstance(args["count"], int):
        raise TypeError(call["args"])
    return {"role": "tool", "id": call["id"], "text": await add_stock(**args)}


def _wrap(inner: Call, n: int, seam: str, counted: bool) -> Call:
    for _ in range(n):
        inner = _counting(inner, seam) if counted else _passing(inner)
    return inner


def _passing(inner: Call) -> Call:
    async def layer(given: Any) -> Any:
        return await inner(given)

    return layer


def _counting(inner: Call, seam: str) -> Call:
    async def layer(given: Any) -> Any:
        setattr(TALLY, seam, getattr(TALLY, seam) + 1)
        return await inner(given)

    return layer


def _streamed(case: Case, counted: bool) -> Callable[[], Awaitable[str]]:
    script = Script(case)

    async def model() -> AsyncIterator[str]:
        script.next()
        for _ in range(CHUNKS):
            yield PIECE

    def seen(chunk: str) -> None:
        """Do nothing."""

    async def seen_async(chunk: str) -> None:
        """Do nothing."""

    def count(chunk: str) -> None:
        TALLY.chunk_hooks += 1

    async def count_async(chunk: str) -> None:
        TALLY.chunk_hooks += 1

    hooks = [
        {("def", False): seen, ("def", True): count, ("async", False): seen_async}.get(
            (case.form, counted), count_async
        )
    ] * case.n

    async def piped() -> AsyncIterator[str]:
        if case.form == "async":
            async for chunk in model():
                for hook in hooks:
                    await hook(chunk)  # type: ignore[misc]  # these are the async ones
                yield chunk
        else:
            async for chunk in model():
                for hook in hooks:
                    hook(chunk)
                yield chunk

    async def run() -> str:
        pieces = [chunk async for chunk in piped()]
        return "".join(pieces)

    return run
