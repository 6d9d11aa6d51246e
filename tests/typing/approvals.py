"""Questions to people, and runs that go on from a store, that must type-check; nothing here is run."""

from typing import Literal, assert_type

from interpose import (
    Agent,
    Approved,
    Cancelled,
    Interrupt,
    InterruptRequest,
    Middleware,
    OpenInterrupt,
    Rejected,
    Resolutions,
    Resolved,
    RunContext,
    RunResult,
    ToolCall,
    tool,
)
from interpose.builtin import Approval
from interpose.stores import MemoryStore, SQLStore, Store


class User:
    name: str


REVIEW: Interrupt[str, bool] = Interrupt("review", payload=str, response=bool)


@tool(approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def late(ctx: RunContext[User], call: ToolCall) -> bool | None:
    return True if ctx.step > 10 else None


async def on_a_list(ctx: RunContext[User], call: ToolCall) -> bool | None:
    return False if ctx.context.name in ("Ada", "Bob") else None


class Reviews(Middleware[User]):
    """Asks before the tools run."""

    interrupts = (REVIEW,)

    def on_interrupt_boundary(self, ctx: RunContext[User]) -> list[InterruptRequest] | None:
        return [REVIEW.request("plan", "Fine?", "the plan")] if ctx.phase == "before_tools" else None

    def on_interrupt_resolution(self, ctx: RunContext[User], resolutions: Resolutions) -> Literal["continue", "stop"]:
        return "continue" if all(one.payload for one in resolutions.for_(REVIEW)) else "stop"


def ruled(store: Store) -> Agent[User]:
    rules = Approval(
        [
            Approval.ask("delete_*"),
            Approval.ask("pay", amount=Approval.above(100)),
            Approval.ask("pay", amount=lambda amount: amount < 0),
            Approval.allow("pay"),
            late,
            on_a_list,
        ]
    )
    return Agent("openai:gpt-5.5", tools=[pay], middleware=[rules, Reviews()], store=store)


def answer(question: OpenInterrupt) -> Approved | Rejected | Resolved | Cancelled:
    match question.tool_call:
        case None:
            return Resolved(True) if question.definition == REVIEW.id else Cancelled()
        case ToolCall(name="pay", args={"amount": int(amount)}) if amount > 1_000:
            return Approved({"amount": 1_000}, by="ann")
        case ToolCall(name="pay"):
            return Approved(always="tool") if question.message else Approved(always="arguments", by="ann")
    return Rejected("not today", by="ann")


async def goes_on() -> None:
    async with SQLStore("sqlite:///runs.db", timeout_s=2.0) as store:
        assert_type(store, SQLStore)
        agent = ruled(store)
        paused = await agent.run("Pay", context=User(), thread_id="t1")
        assert_type(paused.interrupts, tuple[OpenInterrupt, ...])
        answers = {one.id: answer(one) for one in await agent.pending("t1")}
        assert_type(await agent.resume(paused.run_id, answers, context=User()), RunResult)
        for run_id in await agent.unfinished():
            assert_type(run_id, str)
            await agent.resume(run_id)
        assert_type(await agent.pending(), list[OpenInterrupt])
        assert_type(await agent.unfinished("t1"), list[str])


def stores() -> list[Store]:
    return [MemoryStore(), SQLStore(), SQLStore("postgresql://db/runs")]
