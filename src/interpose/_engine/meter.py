"""The meter: what a run has spent, and the check before each unit of work; a nested run spends from its parents too."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from interpose._engine.signals import LimitHit, Rank, Signal
from interpose.errors import LimitExceeded
from interpose.limits import Budget, Limits
from interpose.models.profiles import profile_of
from interpose.prices import price_of, required_price, with_cost
from interpose.request import ModelRequest, Usage
from interpose.tokens import Tally

if TYPE_CHECKING:
    from interpose._engine.run import Run

SETTLE_S = 10.0
"""How long budgets may take to settle a call; a run that is cancelled waits that long for them too."""
logger = logging.getLogger("interpose")


def estimate(request: ModelRequest, model: Any) -> Usage:
    """Return what to set aside for *request*: its text and tools at four characters a token, and the longest answer."""
    usage = Usage(Tally().request(request), _most(request, model) or 0)
    price = price_of(model, request.model)
    cost = price(usage) if price is not None else None
    return usage if cost is None else usage.replace(cost_usd=cost)


def _most(request: ModelRequest, model: Any) -> int | None:
    """Return the most tokens that the answer may have, where that is known."""
    if request.settings.max_tokens:
        return request.settings.max_tokens
    profile = profile_of(model, request.model)
    return profile.max_output_tokens if profile is not None else None


class Reservation:
    """What is set aside for a model call under way, on one meter and its parents; counted when somebody asks."""

    __slots__ = ("_usage", "around", "budgets", "is_over", "model", "request")

    def __init__(self, request: ModelRequest, model: Any, around: Reservation | None) -> None:
        self.request = request
        self.model = model
        self.around = around
        self.is_over = False
        self.budgets: list[tuple[Budget, Any]] = []
        self._usage: Usage | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody knows how long the answer may get: then all that is left is set aside."""
        return _most(self.request, self.model) is None

    @property
    def usage(self) -> Usage:
        """The estimate: alone, nobody asks for it."""
        if self._usage is None:
            self._usage = estimate(self.request, self.model)
        return self._usage

    def charged(self, told: Usage | None) -> Usage:
        """Return what a call that succeeded is charged: what was told, and the estimate of what was not."""
        if told is not None and told.input_tokens is not None and told.output_tokens is not None:
            return told
        if told is None or told.total_tokens is None:
            return self.usage if told is None or told.cost_usd is None else self.usage.replace(cost_usd=told.cost_usd)
        if told.input_tokens is None and told.output_tokens is None:
            return told if told.cost_usd is not None else told.replace(cost_usd=self.usage.cost_usd)
        guess = self.usage
        read = told.input_tokens if told.input_tokens is not None else guess.input_tokens
        said = told.output_tokens if told.output_tokens is not None else guess.output_tokens
        whole = told.replace(input_tokens=read, output_tokens=said, total_tokens=None, cost_usd=None)
        return with_cost(whole, self.model, self.request.model)


_under_way: ContextVar[Reservation | None] = ContextVar("interpose_call_under_way", default=None)
"""The model call, with something set aside, within which the current code runs."""


def call_under_way() -> Reservation | None:
    """Return the innermost call that is under way around the current code: a call within it cannot wait for it."""
    one = _under_way.get()
    while one is not None and one.is_over:
        one = one.around
    return one


class Meter:
    """What one run has spent; limits are looked at in the order duration, model calls, tool calls, tokens, cost."""

    model_calls = 0
    under_way = 0
    """How many of the model calls are not over yet."""
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
        if not self._check_model_calls():
            self._count_model_call()
            return None
        reservation = Reservation(request, model, call_under_way())
        while (full := self._full(reservation)) is not None and reservation.around is None:
            await full.wait()
            self._check_model_calls()  # others have begun meanwhile
        self._count_model_call()
        for meter in self.chain():
            if meter.limits.max_total_tokens is not None or meter.limits.max_cost_usd is not None:
                meter.reserved = meter.reserved or set()
                meter.reserved.add(reservation)
        _under_way.set(reservation)
        try:
            await self._ask_budgets(reservation)
        except BaseException:
            for meter in self.chain():
                meter.model_calls -= 1  # nothing was sent
            await self.end_model_call(reservation, None, failed=True)
            raise
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

    def _count_model_call(self) -> None:
        meter: Meter | None = self
        while meter is not None:
            meter.model_calls += 1
            meter.under_way += 1
            meter = meter.parent

    async def _ask_budgets(self, reservation: Reservation) -> None:
        """Ask each budget of this run and of those around it once; one that several have counts as the outermost's."""
        owners = {id(budget): meter for meter in self.chain() for budget in meter.limits.budgets}
        asked: set[int] = set()
        for budget in [budget for meter in self.chain() for budget in meter.limits.budgets]:
            if id(budget) in asked:
                continue
            asked.add(id(budget))
            try:
                token = await budget.reserve(self.run.ctx, reservation.usage)
            except LimitExceeded as error:
                self._stop(LimitHit(owners[id(budget)].run, error.limit, error.value, str(error)), error)
            reservation.budgets.append((budget, token))

    def _full(self, reservation: Reservation) -> Meter | None:
        """Return the meter on which all that is left is set aside, so that this call has to wait.

        Raises:
            Signal: what is spent has reached a limit.
            ConfigurationError: the cost is limited and the model's price is not known.
        """
        full: Meter | None = None
        for meter in self.chain():
            limits = meter.limits
            aside = meter.reserved or ()
            if limits.max_total_tokens is not None:
                if meter.tokens >= limits.max_total_tokens:
                    self.refuse(meter, "max_total_tokens", limits.max_total_tokens)
                if aside and meter.tokens + _tokens_of(aside) >= limits.max_total_tokens:
                    full = full or meter
            if limits.max_cost_usd is not None:
                required_price(reservation.model, reservation.request.provider, reservation.request.model)
                if meter.cost >= limits.max_cost_usd:
                    self.refuse(meter, "max_cost_usd", limits.max_cost_usd)
                if aside and meter.cost + _cost_of(aside) >= limits.max_cost_usd:
                    full = full or meter
        return full

    async def wait(self) -> None:
        """Wait until a running call gives back what it set aside."""
        waiter = asyncio.get_running_loop().create_future()
        self.waiters = self.waiters or []
        self.waiters.append(waiter)
        await waiter

    async def end_model_call(self, reservation: Reservation | None, usage: Usage | None, *, failed: bool) -> None:
        """Charge what a call used; what was not told is charged as it was estimated, but for a failed call."""
        charged = usage
        if reservation is not None and not failed:
            charged = reservation.charged(usage)
        if reservation is not None:
            reservation.is_over = True
            if _under_way.get() is reservation:
                _under_way.set(reservation.around)
        meter: Meter | None = self
        while meter is not None:
            if charged is not None:
                meter.tokens += charged.total_tokens or 0
                meter.cost += charged.cost_usd or 0.0
            meter.under_way -= 1
            if reservation is not None:
                meter.give_back(reservation)
            meter = meter.parent
        if reservation is not None and reservation.budgets:
            budgets, reservation.budgets = reservation.budgets, []
            await settle(budgets, charged)

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

    def refuse(self, meter: Meter, limit: str, value: float) -> NoReturn:
        """Note that *limit* of *meter* is reached, and raise it.

        Raises:
            Signal: always, but for
            LimitExceeded: the run is over, so that nothing ends it any more: a terminal hook asked for a call.
        """
        self._stop(LimitHit(meter.run, limit, value), LimitExceeded(limit, value))

    def _stop(self, hit: LimitHit, error: LimitExceeded) -> NoReturn:
        if self.run.closing:
            raise error
        self.run.note(Rank.LIMIT, hit)
        raise Signal(self.run.noted) from error  # type: ignore[arg-type]  # just noted


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


def _tokens_of(aside: Iterable[Reservation]) -> float:
    """Return the tokens that are set aside: no end of them where an answer may get as long as it likes."""
    if any([one.is_open for one in aside]):
        return math.inf
    return sum([one.usage.total_tokens or 0 for one in aside])


def _cost_of(aside: Iterable[Reservation]) -> float:
    """Return the USD that are set aside; a call of a model without a price sets nothing aside."""
    if any([one.is_open and one.usage.cost_usd is not None for one in aside]):
        return math.inf
    return sum([one.usage.cost_usd or 0.0 for one in aside])


async def settle(budgets: list[tuple[Budget, Any]], usage: Usage | None) -> None:
    """Settle a call with each budget, also while the run is cancelled; what fails is logged, since the call was made.

    Raises:
        CancelledError: the run was cancelled meanwhile; all were settled first, or had their time.
    """
    loop = asyncio.get_running_loop()
    tasks = {loop.create_task(_settle(budget, token, usage)) for budget, token in budgets}
    cancelled: asyncio.CancelledError | None = None
    until = loop.time() + SETTLE_S
    while tasks and (left := until - loop.time()) > 0:
        try:
            _, tasks = await asyncio.wait(tasks, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if tasks:
        logger.error("a budget took over %s s to settle a call and was cut", SETTLE_S)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=1)
    if cancelled is not None:
        raise cancelled


async def _settle(budget: Budget, token: Any, usage: Usage | None) -> None:
    try:
        await budget.settle(token, usage)
    except Exception:
        logger.exception("%r failed to settle a call that was made; what it set aside stays so", budget)
