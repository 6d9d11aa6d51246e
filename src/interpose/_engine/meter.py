"""The meter: what a run has spent, and the check before each unit of work; a nested run spends from its parents too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from interpose._engine.signals import LimitHit, Rank, Signal
from interpose.request import ModelRequest, Usage

if TYPE_CHECKING:
    from interpose._engine.run import Run


def estimate(request: ModelRequest, model: Any) -> int:
    """Return the tokens to set aside for *request*: its text at four characters a token, and the most it may answer."""
    characters = len(request.instructions) + sum(len(message.text) for message in request.messages)
    profile = getattr(model, "profile", None)
    answer = request.settings.max_tokens or (profile.max_output_tokens if profile is not None else None) or 0
    return characters // 4 + 1 + answer


class Reservation:
    """Tokens set aside for a model call that is under way, on one meter and its parents."""

    __slots__ = ("model", "request", "size")

    def __init__(self, request: ModelRequest, model: Any) -> None:
        self.request = request
        self.model = model
        self.size: int | None = None

    def tokens(self) -> int:
        """Return what is set aside, counted when somebody first asks: alone, nobody does."""
        if self.size is None:
            self.size = estimate(self.request, self.model)
        return self.size


class Meter:
    """What one run has spent; limits are looked at in the order duration, model calls, tool calls, tokens."""

    __slots__ = ("limits", "model_calls", "parent", "reserved", "run", "tokens", "tool_calls", "waiters")

    def __init__(self, run: Run, parent: Meter | None) -> None:
        self.run = run
        self.limits = run.limits
        self.parent = parent
        self.model_calls = 0
        self.tool_calls = 0
        self.tokens = 0
        self.reserved: set[Reservation] | None = None
        self.waiters: list[asyncio.Future[None]] | None = None

    def chain(self) -> Iterator[Meter]:
        """Yield this meter, then its parents'."""
        meter: Meter | None = self
        while meter is not None:
            yield meter
            meter = meter.parent

    async def begin_model_call(self, request: ModelRequest, model: Any) -> Reservation | None:
        """Count a model call, and set tokens aside for it where they are limited.

        Raises:
            Signal: a limit of this run or of one around it is reached.
        """
        tokens_limited = self._check_model_calls()
        reservation = None
        if tokens_limited:
            reservation = Reservation(request, model)
            while (full := self._full()) is not None:
                await full.wait()
            self._check_model_calls()
            for meter in self.chain():
                if meter.limits.max_total_tokens is not None:
                    meter.reserved = meter.reserved or set()
                    meter.reserved.add(reservation)
        one: Meter | None = self
        while one is not None:
            one.model_calls += 1
            one = one.parent
        return reservation

    def _check_model_calls(self) -> bool:
        """Return whether tokens are limited.

        Raises:
            Signal: no more model calls are allowed.
        """
        meter: Meter | None = self
        tokens_limited = False
        while meter is not None:
            limits = meter.limits
            if limits.max_model_calls is not None and meter.model_calls >= limits.max_model_calls:
                self.refuse(meter, "max_model_calls", limits.max_model_calls)
            tokens_limited = tokens_limited or limits.max_total_tokens is not None
            meter = meter.parent
        return tokens_limited

    def _full(self) -> Meter | None:
        """Return the meter whose tokens are all set aside, so that this call has to wait.

        Raises:
            Signal: what is spent has reached a limit.
        """
        for meter in self.chain():
            limit = meter.limits.max_total_tokens
            if limit is None:
                continue
            if meter.tokens >= limit:
                self.refuse(meter, "max_total_tokens", limit)
            if meter.reserved and meter.tokens + sum(one.tokens() for one in meter.reserved) >= limit:
                return meter
        return None

    async def wait(self) -> None:
        """Wait until a running call gives back what it set aside."""
        waiter = asyncio.get_running_loop().create_future()
        self.waiters = self.waiters or []
        self.waiters.append(waiter)
        await waiter

    def end_model_call(self, reservation: Reservation | None, usage: Usage | None, *, failed: bool = False) -> None:
        """Charge what a call used; what was not told is charged as it was estimated, but for a failed call."""
        spent = 0
        if usage is not None:
            spent = usage.total_tokens or 0
        elif reservation is not None and not failed:
            spent = reservation.tokens()
        meter: Meter | None = self
        while meter is not None:
            meter.tokens += spent
            if reservation is not None and meter.reserved:
                meter.reserved.discard(reservation)
                for waiter in meter.waiters or ():
                    if not waiter.done():
                        waiter.set_result(None)
                meter.waiters = None
            meter = meter.parent

    def tool_call_refused(self) -> LimitHit | None:
        """Count a tool call, or return the limit that refuses it."""
        for meter in self.chain():
            limit = meter.limits.max_tool_calls
            if limit is not None and meter.tool_calls >= limit:
                return LimitHit(meter.run, "max_tool_calls", limit)
        for meter in self.chain():
            meter.tool_calls += 1
        return None

    def batch_refused(self, size: int) -> LimitHit | None:
        """Return the limit that a batch of *size* tool calls would pass, where passing it raises."""
        for meter in self.chain():
            limit = meter.limits.max_tool_calls
            if limit is not None and meter.limits.on_exceeded == "raise" and meter.tool_calls + size > limit:
                return LimitHit(meter.run, "max_tool_calls", limit)
        return None

    def refuse(self, meter: Meter, limit: str, value: float) -> None:
        """Note that *limit* of *meter* is reached, and raise it.

        Raises:
            Signal: always.
        """
        hit = LimitHit(meter.run, limit, value)
        self.run.note(Rank.LIMIT, hit)
        raise Signal(self.run.noted)  # type: ignore[arg-type]  # just noted
