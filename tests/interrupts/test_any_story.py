"""Whatever is asked about in whatever order, each call runs as often as a person let it, and all is told once."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.interrupts.play import Asks, Review, agent, asked, go_on, play, results_of

from interpose import Approved, Cancelled, Middleware, Pause, Rejected, Resolved, Usage, tool
from interpose.testing import assert_events_valid, calls, text, text_of

KINDS = ("free", "approved", "rejected", "cancelled", "edited", "gated", "kept")
PHASES = ("before_model", "after_model", "before_tools", "after_tools")
STORIES = st.lists(
    st.tuples(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3), st.sets(st.sampled_from(PHASES), max_size=2)),
    min_size=1,
    max_size=3,
)
COST = Usage(input_tokens=1)


class Gates(Middleware):
    """Pauses in front of each call of a `gated` tool, and behind each of a `kept` one."""

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        if call.name == "gated" and ctx.answer("before?") is None:
            return Pause("before?")
        result = await call_next(call)
        if call.name == "kept" and ctx.answer("behind?") is None:
            return Pause("behind?")
        return result


def tools_of(log: list[Any]) -> list[Any]:
    def made(kind: str) -> Any:
        async def body(at: str) -> str:
            """Do it."""
            log.append((kind, at))
            return f"did {at}"

        return tool(name=kind, approval=kind in ("approved", "rejected", "cancelled", "edited"))(body)

    return [made(kind) for kind in KINDS]


def answer_to(question: Any) -> Any:
    if question.definition == Review.id:
        return Resolved(True)
    call = question.tool_call
    match call.name:
        case "approved":
            return Approved()
        case "rejected":
            return Rejected("no")
        case "cancelled":
            return Cancelled()
        case "edited":
            return Approved({"at": f"{call.args['at']} edited"})
        case _:
            return Resolved(True)


async def tell(how: str, story: Sequence[Any]) -> None:
    log: list[Any] = []
    turns = [
        calls(
            *[(kind, {"at": f"{step}.{place}"}) for place, kind in enumerate(kinds)], text=f"step {step} ", usage=COST
        )
        for step, (kinds, _) in enumerate(story)
    ]
    asks = [Asks(phase, step=step) for step, (_, phases) in enumerate(story) for phase in sorted(phases)]
    made = agent(*turns, text("end", usage=COST), tools=tools_of(log), middleware=[*asks, Gates()])
    played = await play(how, made)
    events, seen = list(played.events), [one.id for one in asked(played)]
    for _ in range(40):
        if played.result.status == "finished":
            break
        played = await go_on(played, {one.id: answer_to(one) for one in asked(played)})
        events += played.events
        seen += [one.id for one in asked(played)]
        if how == "stream":
            assert_events_valid(played.events)
    assert (played.result.status, played.result.text) == ("finished", "end")
    assert len(seen) == len(set(seen)), "a question was asked twice"
    wanted, results = [], []
    for step, (kinds, _) in enumerate(story):
        for place, kind in enumerate(kinds):
            at = f"{step}.{place}" + (" edited" if kind == "edited" else "")
            ran = kind not in ("rejected", "cancelled")
            wanted += [(kind, at)] if ran else []
            results.append(f"did {at}" if ran else None)
    assert sorted(log) == sorted(wanted)
    told = results_of(played.result.messages)
    assert [one if one.startswith("did ") else None for one in told] == results
    assert len(played.requests) == len(story) + 1
    assert played.result.usage.input_tokens == len(story) + 1
    assert [step.number for step in played.result.steps] == list(range(len(story) + 1))
    if how == "stream":
        assert text_of(events) == "".join(f"step {n} " for n in range(len(story))) + "end"
        for kind in ("START", "END", "RESULT"):
            ids = [event.tool_call_id for event in events if event.type == f"TOOL_CALL_{kind}"]
            assert len(ids) == len(set(ids)) == len(results)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(story=STORIES)
async def test_any_story_comes_to_what_it_would_without_a_pause(how: str, story: Any) -> None:
    await tell(how, story)


@pytest.mark.parametrize("kinds", [KINDS, tuple(reversed(KINDS))], ids=["in order", "turned round"])
async def test_a_step_with_every_kind_of_call_and_every_boundary(how: str, kinds: Any) -> None:
    await tell(how, [(kinds, set(PHASES)), (kinds, set(PHASES))])
