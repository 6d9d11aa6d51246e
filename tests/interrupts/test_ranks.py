"""A pause beside stronger and weaker endings, and resumed runs that end badly."""

import asyncio
from typing import Any

import pytest
from tests.interrupts.play import agent, answers_to, carried, go_on, guarded, paused, play, results_of

from interpose import Abort, Approved, End, FatalToolError, Limits, Middleware, RunAborted, tool
from interpose.testing import calls, text

BOB = ("mail", {"to": "bob"})


class On(Middleware):
    """Answers the tool `other` with *outcome*."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def before_tool_call(self, ctx: Any, call: Any) -> Any:
        return self.outcome if call.name == "other" else None


@tool
async def other() -> str:
    """Do something else."""
    return "other"


@pytest.mark.parametrize("turn", [calls(BOB, "other"), calls("other", BOB)], ids=["before", "behind"])
async def test_an_abort_is_stronger_than_a_question(how: str, turn: Any) -> None:
    log: list[Any] = []
    played = await play(how, agent(turn, tools=[guarded(log), other], middleware=[On(Abort("policy"))]))
    assert isinstance(played.error, RunAborted)
    assert (played.endings, log) == (["on_abort"], [])
    assert played.partial.interrupts == ()


@pytest.mark.parametrize("turn", [calls(BOB, "bad"), calls("bad", BOB)], ids=["before", "behind"])
async def test_an_error_is_stronger_than_a_question(how: str, turn: Any) -> None:
    @tool
    async def bad() -> str:
        """Fail."""
        raise FatalToolError("broken")

    played = await play(how, agent(turn, tools=[guarded([]), bad]))
    assert isinstance(played.error, FatalToolError)
    assert played.endings == ["on_error"]


async def test_a_question_is_stronger_than_an_end_that_comes_after_it(how: str) -> None:
    turn = calls(BOB, "other")
    played = await play(how, agent(turn, tools=[guarded([]), other], middleware=[On(End("bye"))]))
    assert (played.result.status, played.endings) == ("interrupted", ["on_finish"])


async def test_an_abort_in_the_resumed_run_runs_nothing_more(how: str) -> None:
    log: list[Any] = []

    class Aborts(Middleware):
        def before_tool_call(self, ctx: Any, call: Any) -> Any:
            return Abort("changed my mind") if ctx.resumed_from else None

    first = await paused(how, agent(calls(BOB), text("never"), tools=[guarded(log)], middleware=[Aborts()]))
    after = await go_on(first, answers_to(first, Approved()))
    assert isinstance(after.error, RunAborted)
    assert (log, len(after.requests)) == ([], 1)


async def test_a_resumed_run_whose_caller_is_cancelled_ends_with_one_abort() -> None:
    ended: list[str] = []
    running = asyncio.Event()

    class Ends(Middleware):
        def on_abort(self, ctx: Any, info: Any) -> None:
            ended.append("abort")

        def on_finish(self, ctx: Any, info: Any) -> None:
            ended.append(info.status)

    @tool(approval=True)
    async def slow() -> str:
        """Take long."""
        running.set()
        await asyncio.sleep(5)
        return "late"

    first = await paused("run", agent(calls("slow"), text("never"), tools=[slow], middleware=[Ends()]))
    task = asyncio.create_task(first.agent.resume(carried(first), answers_to(first, Approved())))
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["interrupted", "abort"]


async def test_a_fatal_error_of_an_approved_tool_reaches_the_caller(how: str) -> None:
    @tool(approval=True)
    async def bad() -> str:
        """Fail."""
        raise FatalToolError("broken")

    first = await paused(how, agent(calls("bad"), text("never"), tools=[bad]))
    after = await go_on(first, answers_to(first, Approved()))
    assert isinstance(after.error, FatalToolError)
    assert len(results_of(after.partial.messages)) == 1


async def test_an_approved_tool_has_its_time_limit(how: str) -> None:
    @tool(approval=True)
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(5)
        return "late"

    first = await paused(how, agent(calls("slow"), text("done"), tools=[slow], limits=Limits(tool_timeout_s=0.02)))
    after = await go_on(first, answers_to(first, Approved()))
    assert after.result.text == "done"
    assert "0.02" in results_of(after.result.messages)[0]


async def test_a_resumed_run_is_cut_by_its_duration_like_any_other(how: str) -> None:
    @tool(approval=True)
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(5)
        return "late"

    first = await paused(how, agent(calls("slow"), text("never"), tools=[slow], limits=Limits(max_duration_s=0.1)))
    after = await go_on(first, answers_to(first, Approved()))
    assert (after.result.status, after.result.finish_reason) == ("finished", "limit")
    assert len(results_of(after.result.messages)) == 1


async def test_many_runs_paused_and_resumed_at_once_do_not_mix(how: str) -> None:
    log: list[Any] = []

    async def story(n: int) -> None:
        made = agent(calls(("mail", {"to": str(n)})), text(f"done {n}"), tools=[guarded(log)])
        first = await made.run(f"Mail {n}")
        result = await made.resume(first.checkpoint or {}, {one.id: Approved() for one in first.interrupts})
        assert (result.text, result.messages[0].text, results_of(result.messages)) == (
            f"done {n}",
            f"Mail {n}",
            [f"sent to {n}"],
        )

    await asyncio.gather(*[story(n) for n in range(20)])
    assert sorted(int(to) for _, to, _ in log) == list(range(20))
    assert how
