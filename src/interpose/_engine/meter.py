"""The meter: what a run has spent, and the check before each unit of work; a nested run spends from its parents too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from interpose._engine.signals import LimitHit, Rank, Signal
from interpose.errors import ConfigurationError, LimitExceeded
from interpose.limits import Budget, Limits
from interpose.models.profiles import profile_of
from interpose.prices import cost_usd
from interpose.request import ModelRequest, Usage

if TYPE_CHECKING:
    from interpose._engine.run import Run


def estimate(request: ModelRequest, model: Any) -> Usage:
    """Return what to set aside for *request*: its text at four characters a token, and the most it may answer."""
    characters = len(request.instructions) + sum(len(message.text) for message in request.messages)
    profile = profile_of(model, request.model)
    answer = _most(request, profile) or 0
    usage = Usage(characters // 4 + 1, answer)
    cost = cost_usd(usage, profile)
    return usage if cost is None else usage.replace(cost_usd=cost)


def _most(request: ModelRequest, profile: Any) -> int | None:
    """Return the most tokens that the answer may have, where that is known."""
    return request.settings.max_tokens or (profile.max_output_tokens if profile is not None else None)


class Reservation:
    """What is set aside for a model call under way, on one meter and its parents; counted when somebody asks."""

    __slots__ = ("_usage", "budgets", "model", "request")

    def __init__(self, request: ModelRequest, model: Any) -> None:
        self.request = request
        self.model = model
        self.budgets: list[tuple[Budget, Any]] = []
        self._usage: Usage | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody knows how long the answer may get: then all that is left is set aside."""
        return _most(self.request, profile_of(self.model, self.request.model)) is None

    @property
    def usage(self) -> Usage:
        """The estimate: alone, nobody asks for it."""
        if self._usage is None:
            self._usage = estimate(self.request, self.model)
        return self._usage


class Meter:
    """What one run has spent; limits are looked at in the order duration, model calls, tool calls, tokens, cost."""

    model_calls = 0
    tool_calls = 0
    tokens = 0
    cost = 0.0
    reserved: set[Reservation] | None = None
    waiters: list[asyncio.Future[None]] | None = None
    plain = False
    """Whether nothing is limited here and around, so that nothing need be counted."""

    def __init__(self, run: Run, parent: Meter | None) -> None:
        self.run = run
        self.limits = run.limits
        self.parent = parent

    def chain(self) -> Iterator[Meter]:
        """Yield this meter, then its parents'."""
        meter: Meter | None = self
        while meter is not None:
            yield meter
            meter = meter.parent

    async def begin_model_call(self, request: ModelRequest, model: Any) -> Reservation | None:
        """Count a model call, and set tokens, cost and budgets aside for it where they are limited.

        Raises:
            Signal: a limit of this run or of one around it is reached.
            ConfigurationError: the cost is limited and the model's price is not known.
        """
        reservation = await self._reserve(request, model) if self._check_model_calls() else None
        for meter in self.chain():
            meter.model_calls += 1
        return reservation

    def _check_model_calls(self) -> bool:
        """Return whether anything but calls is limited.

        Raises:
            Signal: no more model calls are allowed.
        """
        meter: Meter | None = self
        limited = False
        while meter is not None:
            limits = meter.limits
            if limits.max_model_calls is not None and meter.model_calls >= limits.max_model_calls:
                self.refuse(meter, "max_model_calls", limits.max_model_calls)
            if limits.max_total_tokens is not None or limits.max_cost_usd is not None or limits.budgets:
                limited = True
            meter = meter.parent
        return limited

    async def _reserve(self, request: ModelRequest, model: Any) -> Reservation:
        reservation = Reservation(request, model)
        while (full := self._full(reservation)) is not None:
            await full.wait()
        self._check_model_calls()  # again, since this call may have waited
        for meter in self.chain():
            if meter.limits.max_total_tokens is not None or meter.limits.max_cost_usd is not None:
                meter.reserved = meter.reserved or set()
                meter.reserved.add(reservation)
        try:
            for meter in self.chain():
                await self._ask_budgets(meter, reservation)
        except BaseException:
            await self.end_model_call(reservation, None, failed=True)
            raise
        return reservation

    async def _ask_budgets(self, meter: Meter, reservation: Reservation) -> None:
        for budget in meter.limits.budgets:
            try:
                token = await budget.reserve(self.run.ctx, reservation.usage)
            except LimitExceeded as error:
                self.run.note(Rank.LIMIT, LimitHit(meter.run, error.limit, error.value, str(error)))
                raise Signal(self.run.noted) from error  # type: ignore[arg-type]  # just noted
            reservation.budgets.append((budget, token))

    def _full(self, reservation: Reservation) -> Meter | None:
        """Return the meter on which all that is left is set aside, so that this call has to wait.

        Raises:
            Signal: what is spent has reached a limit.
        """
        for meter in self.chain():
            limits = meter.limits
            if limits.max_total_tokens is not None:
                if meter.tokens >= limits.max_total_tokens:
                    self.refuse(meter, "max_total_tokens", limits.max_total_tokens)
                aside = sum(one.usage.total_tokens or 0 for one in meter.reserved or ())
                unknown = any(one.is_open for one in meter.reserved or ())
                if unknown or (aside and meter.tokens + aside >= limits.max_total_tokens):
                    return meter
            if limits.max_cost_usd is not None:
                _check_price(reservation)
                if meter.cost >= limits.max_cost_usd:
                    self.refuse(meter, "max_cost_usd", limits.max_cost_usd)
                spent = sum(one.usage.cost_usd or 0.0 for one in meter.reserved or ())
                if spent and meter.cost + spent >= limits.max_cost_usd:
                    return meter
        return None

    async def wait(self) -> None:
        """Wait until a running call gives back what it set aside."""
        waiter = asyncio.get_running_loop().create_future()
        self.waiters = self.waiters or []
        self.waiters.append(waiter)
        await waiter

    async def end_model_call(self, reservation: Reservation | None, usage: Usage | None, *, failed: bool) -> None:
        """Charge what a call used; what was not told is charged as it was estimated, but for a failed call."""
        charged = usage
        if charged is None and reservation is not None and not failed:
            charged = reservation.usage
        meter: Meter | None = self
        while meter is not None:
            if charged is not None:
                meter.tokens += charged.total_tokens or 0
                meter.cost += charged.cost_usd or 0.0
            if reservation is not None:
                meter.give_back(reservation)
            meter = meter.parent
        if reservation is not None:
            budgets, reservation.budgets = reservation.budgets, []
            for budget, token in budgets:
                await budget.settle(token, charged)

    def give_back(self, reservation: Reservation) -> None:
        """Let go of what was set aside, and wake those who wait for it."""
        if self.reserved:
            self.reserved.discard(reservation)
        for waiter in self.waiters or ():
            if not waiter.done():
                waiter.set_result(None)
        self.waiters = None

    def count_tool_call(self) -> LimitHit | None:
        """Count a tool call, or return the limit that refuses it."""
        if self.plain:
            return None
        for meter in self.chain():
            limit = meter.limits.max_tool_calls
            if limit is not None and meter.tool_calls >= limit:
                return LimitHit(meter.run, "max_tool_calls", limit)
        one: Meter | None = self
        while one is not None:
            one.tool_calls += 1
            one = one.parent
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


class PlainMeter(Meter):
    """The meter of a run in which nothing is limited that is counted; shared by all such runs."""

    plain = True

    def __init__(self) -> None:
        self.limits = Limits()
        self.parent = None


PLAIN = PlainMeter()


def meter_of(run: Run) -> Meter:
    """Return the meter of *run*."""
    around = PLAIN if run.parent is None else run.parent.meter
    limits = run.limits
    spends = run.agent._limits_spending if limits is run.agent.limits else limits_spending(limits)
    if not spends and around is PLAIN:
        return PLAIN
    return Meter(run, None if around is PLAIN else around)


def limits_spending(limits: Limits) -> bool:
    """Whether anything is limited that a meter counts."""
    counted = (limits.max_model_calls, limits.max_tool_calls, limits.max_total_tokens, limits.max_cost_usd)
    return bool(limits.budgets) or any([one is not None for one in counted])


def _check_price(reservation: Reservation) -> None:
    profile = profile_of(reservation.model, reservation.request.model)
    if profile is None or profile.input_price is None or profile.output_price is None:
        request = reservation.request
        raise ConfigurationError(
            f"max_cost_usd is set, but the price of {request.provider}:{request.model} is not known; "
            f"give the model profile=ModelProfile(input_price=..., output_price=...), in USD per million tokens"
        )
