"""Edits what the model says before anybody reads it, also where a match is split over chunks."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal

from interpose.builtin.held_text import GuardState, Held
from interpose.builtin.options import check_takes, check_whole
from interpose.builtin.rules import GivenRule, PatternRule, Rule, as_rule
from interpose.events import (
    CustomEvent,
    Event,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallStartEvent,
)
from interpose.middleware import Middleware
from interpose.outcomes import DROP, Drop

if TYPE_CHECKING:
    from interpose.context import RunContext
    from interpose.request import ModelRequest, ModelResponse

log = logging.getLogger("interpose")

CONTEXT_CHARS = 64
"""How much released text a pattern still sees in front of what is held, for `\\b` and for what it looks behind at."""
MAX_CUTS = 64
"""How many places for a cut are tried before all is held until more has come."""

ContentEvent = TextMessageContentEvent | ReasoningMessageContentEvent
OnFiltered = Callable[[str, str, str, str], Any]


class ContentGuard(Middleware[Any]):
    """Applies *rules* to the text and the reasoning of the model, in order, each to what the one before made.

    A rule is `(pattern, replacement)` as `re.sub` takes them, or a function of the text, plain or async. With strategy
    "buffered" the last *hold_chars* characters of a message (up to half as many again, since text is looked at and
    sent in pieces of that size) are held back until more has come or it ends. So a match is found however it is split
    over chunks, if that many characters are enough to see it; one that may still grow is held whole, and so is text of
    which a function makes something else in two halves. "delta" looks at each chunk alone and holds nothing. With
    *block*, the message (text or reasoning) ends before its first match, and the answer has the finish reason
    `content_filter`, so that its tool calls do not run.

    `on_filtered(message_id, original, filtered, strategy)`, plain or async, is called for each piece that was changed,
    before it is sent; if it fails, that is logged. What is rewritten by a layer outside meets the rules again, so a
    replacement should not match its own pattern. Prompts, tool arguments and results are not looked at.
    """

    run_state = GuardState
    saved = True

    def __init__(
        self,
        rules: Iterable[GivenRule],
        strategy: Literal["buffered", "delta"] = "buffered",
        hold_chars: int = 50,
        block: bool = False,
        on_filtered: OnFiltered | None = None,
    ) -> None:
        if strategy not in ("buffered", "delta"):
            raise ValueError(f"strategy must be 'buffered' or 'delta', got {strategy!r}")
        check_whole("hold_chars", hold_chars, 0)
        if on_filtered is not None:
            check_takes("on_filtered", on_filtered, "message_id", "original", "filtered", "strategy")
        self._rules: tuple[Rule, ...] = tuple([as_rule(rule) for rule in rules])
        patterns = [rule.pattern.search for rule in self._rules if isinstance(rule, PatternRule)]
        self._searches = patterns if len(patterns) == len(self._rules) else ()
        self._strategy = strategy
        self._hold_chars = hold_chars if strategy == "buffered" else 0
        self._look_at = self._hold_chars + self._hold_chars // 2 + 1
        self._block = block
        self._on_filtered = on_filtered

    def before_model_call(self, ctx: "RunContext[Any]", request: "ModelRequest") -> None:
        """Forget what was cut in the call before."""
        if self._block:
            ctx.private(self).begin(request)

    def after_model_call(
        self, ctx: "RunContext[Any]", _request: "ModelRequest", response: "ModelResponse"
    ) -> "ModelResponse | Awaitable[ModelResponse | None] | None":
        """Give a blocked answer its finish reason; one made up further in is blocked here."""
        if not self._block:
            return None
        if ctx.private(self).is_cut(response):
            return response.replace(finish_reason="content_filter")
        return self._block_whole(response) if response.text or response.message.reasoning else None

    async def _block_whole(self, response: "ModelResponse") -> "ModelResponse | None":
        message = response.message
        is_cut = False
        for name in ("reasoning", "text"):
            held = Held(0)
            kept = await self._edit(held, getattr(message, name) or "", final=True)
            if held.blocked:
                is_cut = True
                message = message.replace(**{name: kept})
        return response.replace(message=message, finish_reason="content_filter") if is_cut else None

    def on_chunk(
        self, ctx: "RunContext[Any]", event: Event
    ) -> Event | Drop | Awaitable[Event | list[Event] | Drop | None] | None:
        """Hold back, edit and release text."""
        kind = event.__class__
        if kind is TextMessageContentEvent or kind is ReasoningMessageContentEvent:
            return self._content(ctx.private(self), event)  # type: ignore[arg-type]  # is one of the two
        match event:
            case TextMessageEndEvent():
                return self._end(ctx.private(self), TextMessageContentEvent, event)
            case ReasoningMessageEndEvent():
                return self._end(ctx.private(self), ReasoningMessageContentEvent, event)
            case TextMessageStartEvent() | ReasoningMessageStartEvent() | ToolCallStartEvent():
                ctx.private(self).started(event)
            case CustomEvent(name="interpose.superseded"):
                ctx.private(self).superseded()
        return None

    def _content(self, state: GuardState, event: ContentEvent) -> Event | Drop | Awaitable[Event | Drop]:
        """Take more of a message, and give what of it may be sent; most text needs no editing and no waiting."""
        kind, message_id = event.__class__, event.message_id
        held = state.held.get(message_id)
        if held is None:
            held = state.held[message_id] = Held(self._look_at)
        if held.blocked:
            return DROP
        text = held.text = held.text + event.delta
        if len(text) < held.look_at:
            return DROP
        cut = len(text) - self._hold_chars
        if not self._pass_untouched(held, text, cut):
            return self._edited(state, held, event)
        if not state.shows_text and kind is TextMessageContentEvent:
            state.shows_text = True
        return event if cut == len(event.delta) == len(text) else kind(message_id=message_id, delta=text[:cut])

    async def _edited(self, state: GuardState, held: Held, event: ContentEvent) -> Event | Drop:
        text = await self._release(state, held, event.__class__, event.message_id, final=self._strategy == "delta")
        return event.__class__(message_id=event.message_id, delta=text) if text else DROP

    async def _end(
        self, state: GuardState, kind: type[ContentEvent], event: TextMessageEndEvent | ReasoningMessageEndEvent
    ) -> list[Event] | None:
        """Release what is still held of a message in front of its end."""
        message_id = event.message_id
        held = state.held.pop(message_id, None)
        if held is None or held.blocked or not held.text:
            return None
        rest = await self._release(state, held, kind, message_id, final=True)
        return [kind(message_id=message_id, delta=rest), event] if rest else None

    async def _release(
        self, state: GuardState, held: Held, kind: type[ContentEvent], message_id: str, *, final: bool
    ) -> str:
        """Return the edited beginning of what is held, as much of it as may go, and keep the rest."""
        was = held.text
        sent = await self._edit(held, was, final=final)
        is_text = kind is TextMessageContentEvent
        if held.blocked:
            state.cut(message_id, sent, is_reasoning=not is_text)
        state.shows_text = state.shows_text or (is_text and bool(sent))
        original = was if held.blocked else was[: len(was) - len(held.text)]
        if sent != original and self._on_filtered is not None:
            try:
                done = self._on_filtered(message_id, original, sent, self._strategy)
                if isawaitable(done):
                    await done
            except Exception:
                log.warning("%s: on_filtered failed", self.name or "ContentGuard", exc_info=True)
        return sent

    async def _edit(self, held: Held, text: str, *, final: bool) -> str:
        """Return the beginning of *text*, edited, and leave the rest in *held*."""
        cut = len(text) if final else len(text) - self._hold_chars
        if self._pass_untouched(held, text, cut):
            return text[:cut]
        for _ in range(MAX_CUTS):
            if cut <= 0:
                break
            found = await self._edit_before(held, text, cut, final)
            if not isinstance(found, int):
                held.text = text[cut:]
                held.look_at = self._look_at
                return found
            cut = min(found, cut - 1)
        held.text = text
        held.look_at = max(len(text) + len(text) // 4 + 1, self._look_at)
        return ""

    def _pass_untouched(self, held: Held, text: str, cut: int) -> bool:
        """Return whether no pattern matches, and keep what is behind *cut*; most text goes this way, and fast."""
        if not self._searches or cut <= 0:
            return False
        if held.before_each is not None:
            return self._pass_each(held, text, cut, held.before_each)
        whole, start = held.before + text, len(held.before)
        for search in self._searches:
            if search(whole, start) is not None:
                return False
        held.text = text[cut:]
        held.look_at = self._look_at
        if self._strategy == "buffered":
            held.before = whole[: start + cut][-CONTEXT_CHARS:]
        return True

    def _pass_each(self, held: Held, text: str, cut: int, before_each: list[str]) -> bool:
        """Do the same where the rules do not see the same in front, soon behind an edit."""
        for search, before in zip(self._searches, before_each, strict=True):
            if search(before + text, len(before)) is not None:
                return False
        held.text = text[cut:]
        held.look_at = self._look_at
        self._see(held, [(before + text[:cut])[-CONTEXT_CHARS:] for before in before_each])
        return True

    def _see(self, held: Held, each: list[str]) -> None:
        """Keep what each rule sees in front of what is held."""
        if self._strategy == "buffered" and each:
            held.before = each[0]
            held.before_each = each if any(one != each[0] for one in each) else None

    async def _edit_before(self, held: Held, text: str, cut: int, final: bool) -> str | int:
        """Return *text* up to *cut* with every rule applied, or an earlier place for the cut."""
        left, right = text[:cut], text[cut:]
        each: list[str] = []
        first: int | None = None
        for rule, before in zip(self._rules, held.before_each or [held.before] * len(self._rules), strict=True):
            edit = await rule.edit(before, left + right, len(left), final)
            if isinstance(edit, int):
                return edit if left == text[:cut] else cut - 1
            each.append((before + left)[-CONTEXT_CHARS:])
            if not self._block:
                left, right = edit.left, edit.right
            elif edit.first is not None:
                first = edit.first if first is None else min(first, edit.first)
        if first is not None:
            held.blocked = True
            return text[:first]
        self._see(held, each)
        return left
