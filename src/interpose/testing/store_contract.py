"""What every store must do, as tests for a store of one's own.

Each claim is an async function of two store objects on the same data, which is empty at first; of a store that lives
in one object, pass that one twice. With pytest:

    pytest.register_assert_rewrite("interpose.testing.store_contract")

    @pytest.mark.parametrize("claim", STORE_CONTRACT, ids=lambda claim: claim.__name__)
    async def test_keeps_the_contract(claim, tmp_path):
        await claim(MyStore(tmp_path), MyStore(tmp_path))
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from interpose.checkpoint import Checkpoint
from interpose.errors import ResumeError, ThreadConflict
from interpose.interrupts import OpenInterrupt
from interpose.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from interpose.request import ModelResponse, Usage
from interpose.saved import SavedResult, SavedStep
from interpose.testing.store_values import full_checkpoint, some_checkpoint, some_messages

if TYPE_CHECKING:
    from interpose.stores import Store

Claim = Callable[["Store", "Store"], Coroutine[Any, Any, None]]
STORE_CONTRACT: list[Claim] = []
"""The claims, each an async function of two store objects."""


def _claim(check: Claim) -> Claim:
    STORE_CONTRACT.append(check)
    return check


# Threads.


@_claim
async def unknown_thread_is_empty(store: "Store", _: "Store") -> None:
    assert list(await store.load("t1")) == []
    assert list(await store.load("t1", after=-5, limit=3)) == []
    assert await store.load_state("t1") == {}


@_claim
async def messages_come_back_as_they_went_in(store: "Store", other: "Store") -> None:
    call = ToolCall("c1", "find", {"q": "é", "n": 2**70, "nested": {"a": [None, True, 1.5]}})
    broken = ToolCall("c2", "find", '{"q": ')  # type: ignore[arg-type]  # arguments as a model may send them
    messages: list[Message] = [
        SystemMessage("be brief", metadata={"summary": True}),
        UserMessage(parts=(TextPart("look: "), ImagePart(data="aGk=", media_type="image/png")), name="ann"),
        AssistantMessage(parts=(ReasoningPart("hm", "sig"), TextPart("I look"), call, broken)),
        ToolMessage("found \0 it", "c1", name="find"),
        ToolMessage("no JSON", "c2", is_error=True),
        AssistantMessage("schön \U0001f600 '; DROP TABLE x; --"),
    ]
    await store.commit("t1", "r1", messages)
    assert list(await other.load("t1")) == messages


@_claim
async def commits_follow_each_other(store: "Store", other: "Store") -> None:
    await store.commit("t1", "r1", some_messages(2))
    await other.commit("t1", "r2", some_messages(2, 2))
    await store.commit("t2", "r3", some_messages(1, 9))
    assert list(await store.load("t1")) == some_messages(4)


@_claim
async def same_run_twice_changes_nothing(store: "Store", other: "Store") -> None:
    await store.commit("t1", "r1", some_messages(2), expected=0)
    await other.commit("t1", "r1", some_messages(2), expected=0)
    assert list(await store.load("t1")) == some_messages(2)


@_claim
async def commit_on_a_thread_that_grew_is_refused_whole(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint("r2"))
    await store.commit("t1", "r1", some_messages(2), expected=0)
    await _refused(ThreadConflict, other.commit("t1", "r2", some_messages(3, 5), expected=0))
    assert list(await store.load("t1")) == some_messages(2)
    assert await store.get("r2") == some_checkpoint("r2")
    await other.commit("t1", "r2", some_messages(1, 2), expected=2)
    assert list(await store.load("t1")) == some_messages(3)


@_claim
async def of_commits_side_by_side_one_wins(store: "Store", other: "Store") -> None:
    tries = [(store, other)[n % 2].commit("t1", f"r{n}", some_messages(3, n * 3), expected=0) for n in range(6)]
    came = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(one).__name__ for one in came) == ["NoneType", *["ThreadConflict"] * 5]
    winner = came.index(None)
    assert list(await store.load("t1")) == some_messages(3, winner * 3)


@_claim
async def commits_without_expectation_are_all_kept_whole(store: "Store", other: "Store") -> None:
    await asyncio.gather(*[(store, other)[n % 2].commit("t1", f"r{n}", some_messages(3, n * 3)) for n in range(6)])
    ids = [message.id for message in await store.load("t1")]
    runs = [ids[n : n + 3] for n in range(0, 18, 3)]
    assert sorted(runs) == sorted([f"m{n}", f"m{n + 1}", f"m{n + 2}"] for n in range(0, 18, 3))


@_claim
async def commit_ends_the_checkpoint(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint())
    await store.commit("t1", "r1", some_messages(1))
    assert await other.get("r1") is None


@_claim
async def commit_may_leave_another_checkpoint(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint())
    await store.put(Checkpoint(run_id="r1", part=1, number=1))
    left = some_checkpoint(messages=(), base=1, number=1)
    await store.commit("t1", "r1", some_messages(1), checkpoint=left)
    assert await other.get("r1") == left


@_claim
async def commit_takes_the_place_of_what_it_settles(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint("r0", status="paused"))
    await _refused(ThreadConflict, store.commit("t1", "r1", some_messages(1), expected=5, replaces="r0"))
    assert await other.get("r0") is not None
    for _ in range(2):  # the second time since the first reply was lost
        await store.commit("t1", "r1", some_messages(1), expected=0, replaces="r0")
    assert await other.get("r0") is None
    await _refused(ResumeError, other.commit("t1", "r2", some_messages(1, 1), expected=1, replaces="r0"))
    assert list(await store.load("t1")) == some_messages(1)


@_claim
async def nothing_is_shared_by_reference(store: "Store", _: "Store") -> None:
    args: dict[str, Any] = {"list": [1]}
    state: dict[str, Any] = {"list": [1]}
    await store.commit("t1", "r1", [AssistantMessage(tool_calls=(ToolCall("c1", "f", args),), id="a1")])
    await store.save_state("t1", state)
    await store.put(some_checkpoint(state=state))
    args["list"].append(2)
    state["list"].append(2)
    for time in ("first", "second"):
        (message,) = await store.load("t1")
        kept = await store.get("r1")
        assert kept is not None
        for found in (message.tool_calls[0].args, await store.load_state("t1"), kept.state):
            assert found == {"list": [1]}, time
            found["list"].append(3)


# Reading in pages, forking, state.


@_claim
async def a_page_is_a_slice(store: "Store", _: "Store") -> None:
    messages = some_messages(10)
    await store.commit("t1", "r1", messages[:4])
    await store.commit("t1", "r2", messages[4:])
    for after in (0, 1, 4, 9, 10, 11, -1, -4, -10, -11):
        for limit in (None, 0, 1, 5, 50):
            page = list(await store.load("t1", after=after, limit=limit))
            assert page == messages[after:][: len(messages) if limit is None else limit]


@_claim
async def fork_ends_with_its_message(store: "Store", other: "Store") -> None:
    await store.commit("t1", "r1", some_messages(4))
    await store.save_state("t1", {"a": 1})
    forked = await store.fork("t1", "m1")
    assert list(await other.load(forked)) == some_messages(2)
    assert await other.load_state(forked) == {"a": 1}
    assert list(await store.load("t1")) == some_messages(4)


@_claim
async def fork_lives_a_life_of_its_own(store: "Store", _: "Store") -> None:
    await store.commit("t1", "r1", some_messages(2))
    forked, again = await store.fork("t1", "m0"), await store.fork("t1", "m0")
    await store.commit(forked, "r1", some_messages(1, 7), expected=1)
    await store.save_state(forked, {"b": 2})
    assert [message.id for message in await store.load(forked)] == ["m0", "m7"]
    assert list(await store.load("t1")) == some_messages(2)
    assert list(await store.load(again)) == some_messages(1)
    assert await store.load_state("t1") == {}


@_claim
async def fork_at_an_unknown_message_is_refused(store: "Store", _: "Store") -> None:
    await store.commit("t1", "r1", some_messages(2))
    await _refused(LookupError, store.fork("t1", "m9"))
    await _refused(LookupError, store.fork("t9", "m0"))


@_claim
async def state_of_a_thread_is_replaced_and_needs_no_messages(store: "Store", other: "Store") -> None:
    await store.save_state("t1", {"a": 1})
    await other.save_state("t1", {"b": [None, "é\0", 0, ""]})
    assert await store.load_state("t1") == {"b": [None, "é\0", 0, ""]}
    await store.commit("t1", "r1", some_messages(1), expected=0)
    assert await store.load_state("t1") == {"b": [None, "é\0", 0, ""]}


# Checkpoints.


@_claim
async def unknown_run_has_no_checkpoint(store: "Store", _: "Store") -> None:
    assert await store.get("r1") is None
    assert await store.claim("r1", 60) is False
    await store.release("r1")
    await store.drop("r1")
    assert list(await store.paused()) == []


@_claim
async def checkpoint_comes_back_as_it_went_in(store: "Store", other: "Store") -> None:
    await store.put(full_checkpoint())
    assert await other.get("r1") == full_checkpoint()


@_claim
async def parts_are_folded(store: "Store", other: "Store") -> None:
    answer = AssistantMessage("", tool_calls=(ToolCall("c1", "f"), ToolCall("c2", "f")), id="a1")
    result = SavedResult.of(ToolResult(tool_call_id="c1", data=1))
    parts = [
        some_checkpoint(state={"a": 1}, tools={"f": "x"}),
        Checkpoint(run_id="r1", part=1, messages=(answer,), steps=(SavedStep.of(0, ModelResponse(answer)),)),
        Checkpoint(run_id="r1", part=3, answered={"c1": result}, state={"a": 2}),
        Checkpoint(run_id="r1", part=2, started=("c1",), usage=Usage(1, 1)),
    ]
    for number, part in enumerate(parts):
        await (store, other)[number % 2].put(part)
    whole = await store.get("r1")
    assert whole == Checkpoint.fold(parts)
    assert whole.messages == (UserMessage("hi", id="u1"), answer)
    assert (whole.part, whole.started, dict(whole.answered), whole.state) == (3, ("c1",), {"c1": result}, {"a": 2})


@_claim
async def same_part_twice_changes_nothing(store: "Store", other: "Store") -> None:
    more = Checkpoint(run_id="r1", part=1, messages=(UserMessage("more", id="u2"),))
    for part in (some_checkpoint(), some_checkpoint(), more, more):
        await store.put(part)
    assert await other.get("r1") == Checkpoint.fold([some_checkpoint(), more])


@_claim
async def two_writers_of_one_run_are_found_out(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint())
    await _refused(ResumeError, other.put(some_checkpoint(agent="another")))
    await store.put(Checkpoint(run_id="r1", part=1, number=1))
    await _refused(ResumeError, other.put(Checkpoint(run_id="r1", part=1, number=2)))
    whole = await store.get("r1")
    assert whole is not None
    assert (whole.agent, whole.number) == ("agent", 1)


@_claim
async def parts_put_side_by_side_are_all_kept(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint())
    results = {f"c{n}": SavedResult.of(ToolResult(tool_call_id=f"c{n}", data=n)) for n in range(1, 20)}
    parts = [Checkpoint(run_id="r1", part=n, answered={f"c{n}": results[f"c{n}"]}) for n in range(1, 20)]
    await asyncio.gather(*[store.put(part) for part in parts])
    whole = await other.get("r1")
    assert whole is not None
    assert whole.answered == results


@_claim
async def one_refusal_leaves_those_beside_it_alone(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint())
    parts = [Checkpoint(run_id=id, part=1, number=1) for id in ("r1", "r9")]
    came = await asyncio.gather(*[store.put(part) for part in parts], return_exceptions=True)
    assert [type(one) for one in came] == [type(None), ResumeError]
    whole = await other.get("r1")
    assert whole is not None
    assert whole.number == 1


@_claim
async def part_of_a_run_that_is_gone_is_refused(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint())
    await other.drop("r1")
    await _refused(ResumeError, store.put(Checkpoint(run_id="r1", part=1)))
    assert await store.get("r1") is None


@_claim
async def resumption_takes_the_place_of_what_it_resumes(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint(status="paused"))
    resumed = some_checkpoint("r2", resumed_from="r1")
    await other.put(resumed, replaces="r1")
    assert await store.get("r1") is None
    assert await store.get("r2") == resumed
    await other.put(resumed, replaces="r1")  # sent again, since the first reply was lost
    await _refused(ResumeError, store.put(Checkpoint(run_id="r1", part=1)))


@_claim
async def of_resumptions_side_by_side_one_wins(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint("r0", status="paused"))
    tries = [(store, other)[n % 2].put(some_checkpoint(f"r{n}"), replaces="r0") for n in range(1, 7)]
    came = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(one).__name__ for one in came) == ["NoneType", *["ResumeError"] * 5]
    there = [n for n in range(1, 7) if await store.get(f"r{n}") is not None]
    assert there == [came.index(None) + 1]


@_claim
async def paused_lists_what_waits(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint("r1", created_at=3.0))
    await store.put(some_checkpoint("r2", created_at=2.0, thread_id="t2", status="paused"))
    await store.put(some_checkpoint("r3", created_at=4.0))
    await store.put(some_checkpoint("r4", created_at=1.0, status="paused"))
    question = OpenInterrupt(id="i1", reason="ok?")
    await store.put(Checkpoint(run_id="r1", part=1, status="paused", interrupts=(question,)))
    assert [one.run_id for one in await other.paused()] == ["r4", "r2", "r1"]
    assert [(one.run_id, len(one.interrupts)) for one in await other.paused("t1")] == [("r4", 0), ("r1", 1)]
    await store.drop("r4")
    assert [one.run_id for one in await other.paused("t1")] == ["r1"]


# Claims.


@_claim
async def a_claim_holds_until_it_is_given_back(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint())
    assert await store.claim("r1", 60) is True
    assert await other.claim("r1", 60) is False
    assert await store.claim("r1", 60) is False
    await store.release("r1")
    assert await other.claim("r1", 60) is True


@_claim
async def a_claim_lapses(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint())
    assert await store.claim("r1", 0.05) is True
    assert await other.claim("r1", 0.05) is False
    await asyncio.sleep(0.1)
    assert await other.claim("r1", 60) is True


@_claim
async def a_claim_goes_with_its_checkpoint(store: "Store", _: "Store") -> None:
    await store.put(some_checkpoint())
    assert await store.claim("r1", 60) is True
    await store.drop("r1")
    assert await store.claim("r1", 60) is False
    await store.put(some_checkpoint())
    assert await store.claim("r1", 60) is True


@_claim
async def of_claims_side_by_side_one_wins(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint())
    won = await asyncio.gather(*[(store, other)[n % 2].claim("r1", 60) for n in range(8)])
    assert sorted(won) == [False] * 7 + [True]


@_claim
async def the_key_stays(store: "Store", other: "Store") -> None:
    keys = await asyncio.gather(*[one.key() for one in (store, other, store)])
    assert set(map(len, keys)) == {32}
    assert len(set(keys)) == 1


async def _refused(kind: type[Exception], act: Awaitable[Any]) -> None:
    """Check that *act* raises an error of *kind* that says something."""
    came: Any = (await asyncio.gather(act, return_exceptions=True))[0]
    assert isinstance(came, kind), f"expected {kind.__name__}, got {came!r}"
    assert str(came)


__all__ = ["Claim", "STORE_CONTRACT"]
