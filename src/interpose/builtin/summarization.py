"""Replaces older messages by a summary when the request grows too long."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from interpose.backends import Backend, path_part
from interpose.builtin.options import check_number, check_takes, check_whole
from interpose.builtin.summaries import Summarize, extractive
from interpose.groups import groups_of, leading, newest_user, without
from interpose.messages import Message, SystemMessage
from interpose.middleware import Middleware
from interpose.text import clean, to_json
from interpose.tokens import CountTokens, Tally, check_counter, tokens

if TYPE_CHECKING:
    from interpose.context import RunContext
    from interpose.request import ModelRequest

log = logging.getLogger("interpose")

HEADING = "Summary so far:\n"
OFFLOAD_TIMEOUT_S = 2.0
EXTRACT_RATIO = 0.25
MAX_EXTRACT_TOKENS = 2000


class _Summary(NamedTuple):
    """A summary, the id of the last message that it covers, and the ids of those before it that it leaves out."""

    text: str
    until: str
    left_out: tuple[str, ...]


class Summarization(Middleware[Any]):
    """Sends a summary in place of older messages once the whole request is above *trigger_ratio* of *max_input_tokens*.

    The last *keep_messages* messages stay, a call always with its results, and so do leading system messages and the
    newest user message; the summary is one system message behind the leading ones. It is kept with the thread, and a
    later one takes it up. What is stored stays whole.

    `summarize(ctx, messages)`, plain or async, gives the summary; a former one is the first of the messages. The
    default, `extractive`, calls no model; `by_model("…")` does. If it fails, gives nothing, or makes the request no
    shorter, that is logged and the request stays as it was. `on_summarized(original_tokens, summarized_tokens,
    messages_removed)`, plain or async, is told of each summary; its failure is logged. With *backend* the full history
    is written to `history/<thread>/<run>-<step>.json` beside the run, for 2 s at most; a failure is logged.
    """

    def __init__(
        self,
        max_input_tokens: float,
        keep_messages: int = 6,
        trigger_ratio: float = 0.85,
        backend: Backend | None = None,
        on_summarized: Callable[[int, int, int], Any] | None = None,
        summarize: Summarize = extractive,
        count_tokens: CountTokens = tokens,
    ) -> None:
        check_number("max_input_tokens", max_input_tokens, 1)
        check_whole("keep_messages", keep_messages, 1, ", or nothing is left to answer")
        check_number("trigger_ratio", trigger_ratio, 0)
        if not 0 < trigger_ratio <= 1:
            raise ValueError(f"trigger_ratio must be above 0 and at most 1, got {trigger_ratio!r}")
        check_takes("summarize", summarize, "ctx", "messages")
        if on_summarized is not None:
            check_takes("on_summarized", on_summarized, "original_tokens", "summarized_tokens", "messages_removed")
        if backend is not None and not hasattr(backend, "write"):
            raise TypeError(f"a backend has an async write(path, text), got {backend!r:.80}")
        self._count_tokens = check_counter(count_tokens)
        self._trigger = round(max_input_tokens * trigger_ratio, 6)  # 0.29 of 100 is 29, not a little less
        self._keep_messages = keep_messages
        self._backend = backend
        self._on_summarized = on_summarized
        self._max_extract_tokens = int(min(max_input_tokens * EXTRACT_RATIO, MAX_EXTRACT_TOKENS))
        self._summarize = summarize

    async def before_model_call(self, ctx: "RunContext[Any]", request: "ModelRequest") -> "ModelRequest | None":
        """Put the former summary in its place, and make a new one if the request is still too long."""
        state = ctx.private(self)
        tally: Tally | None = state.get("tally")
        if tally is None:
            tally = state["tally"] = Tally(self._count_tokens)
        former = self._former(ctx)
        covered = _covered(request.messages, former)
        current = self._with_summary(state, request, former, covered) if former and covered else request
        size = tally.request(current)
        if size > self._trigger:
            shorter = await self._shorten(ctx, request, former if covered else None, covered, tally, size)
            if shorter is not None:
                current, size = shorter
            if size > self._trigger:
                ctx.meta(summary_over_limit=True)
        return None if current is request else current

    async def _shorten(
        self,
        ctx: "RunContext[Any]",
        request: "ModelRequest",
        former: _Summary | None,
        covered: set[int],
        tally: Tally,
        size: int,
    ) -> "tuple[ModelRequest, int] | None":
        """Return the request with a new summary, and its tokens; None if it has to stay as it is."""
        messages = request.messages
        kept = _kept(messages, self._keep_messages)
        removed = [place for place in range(leading(messages), len(messages)) if place not in kept | covered]
        if not removed:
            return None
        gone = covered.union(removed)
        room = size - tally.request(request.with_messages(without(messages, gone))) - self._count_tokens(HEADING) - 1
        old = [SystemMessage(former.text, metadata={"summary": True})] if former else []
        text = await self._summary_of(ctx, (*old, *[messages[place] for place in removed]), room)
        if text is None:
            return None
        last = max(gone)
        left_out = tuple([messages[place].id for place in range(leading(messages), last) if place not in gone])
        summary = _Summary(text, messages[last].id, left_out)
        changed = self._with_summary(ctx.private(self), request, summary, gone)
        now = tally.request(changed)
        if now >= size:
            log.warning("%s: the summary is no shorter than what it covers, and is not used", self._named())
            return None
        ctx.thread_state[self._key()] = [summary.text, summary.until, list(summary.left_out)]
        ctx.meta(summarized_messages=len(removed), tokens_before=size, tokens_after=now)
        await self._tell(size, now, len(removed))
        if self._backend is not None:
            ctx.defer(self._offload(ctx, self._backend, messages))
        return changed, now

    async def _summary_of(self, ctx: "RunContext[Any]", messages: Sequence[Message], room: int) -> str | None:
        """Return the summary, an extract in no more than *room* tokens; None if there is none to use."""
        summarize = self._summarize
        if summarize is extractive:
            budget = max(min(self._max_extract_tokens, room), 1)
            summarize = partial(extractive, max_tokens=budget, count_tokens=self._count_tokens)
        try:
            text = summarize(ctx, messages)
            if isawaitable(text):
                text = await text
            if not isinstance(text, str):
                raise TypeError(f"summarize must return text, got {type(text).__name__}")
            summary = clean(text).strip()
        except Exception:  # whatever a summariser may raise: the history is there
            log.warning("%s: no summary was made, so the history stays", self._named(), exc_info=True)
            return None
        if not summary:
            log.warning("%s: the summary was empty, so the history stays", self._named())
        return summary or None

    def _with_summary(
        self, state: dict[Any, Any], request: "ModelRequest", summary: _Summary, gone: set[int]
    ) -> "ModelRequest":
        """Return the request with *summary*, the same message in every step of the run, in place of those *gone*."""
        message = state.get(summary)
        if message is None:
            message = state[summary] = SystemMessage(HEADING + summary.text)
        kept = without(request.messages, gone)
        kept.insert(leading(request.messages), message)
        return request.with_messages(kept)

    def _former(self, ctx: "RunContext[Any]") -> _Summary | None:
        kept = ctx.thread_state.get(self._key())
        return None if kept is None else _Summary(kept[0], kept[1], tuple(kept[2]))

    def _key(self) -> str:
        return f"interpose.{self._named()}"

    def _named(self) -> str:
        return self.name or type(self).__name__

    async def _tell(self, original: int, summarized: int, removed: int) -> None:
        if self._on_summarized is None:
            return
        try:
            told = self._on_summarized(original, summarized, removed)
            if isawaitable(told):
                await told
        except Exception:  # whoever is told has no say
            log.warning("%s: on_summarized failed", self._named(), exc_info=True)

    async def _offload(self, ctx: "RunContext[Any]", backend: Backend, messages: Sequence[Message]) -> None:
        path = f"history/{path_part(ctx.thread_id)}/{path_part(ctx.run_id)}-{ctx.step}.json"
        try:
            async with asyncio.timeout(OFFLOAD_TIMEOUT_S):
                await backend.write(path, to_json([message.to_dict() for message in messages]))
        except Exception:  # whatever a backend may raise: the thread itself is whole
            log.warning("%s: the history could not be written to %s", self._named(), path, exc_info=True)


def _covered(messages: Sequence[Message], summary: _Summary | None) -> set[int]:
    """Return the positions of what *summary* covers; none where its last message is not there."""
    if summary is None:
        return set()
    last = next((place for place, message in enumerate(messages) if message.id == summary.until), None)
    if last is None:
        return set()
    left_out = frozenset(summary.left_out)
    covered = {place for place in range(leading(messages), last + 1) if messages[place].id not in left_out}
    return covered - {newest_user(messages)}


def _kept(messages: Sequence[Message], keep_messages: int) -> set[int]:
    """Return the positions of the last messages, with the whole of their groups, and of the newest user message."""
    first = max(len(messages) - keep_messages, leading(messages))
    kept = {place for group in groups_of(messages) if group.places[-1] >= first for place in group.places}
    user = newest_user(messages)
    return kept if user is None else kept | {user}
