"""What every store must do with threads: the first part of `interpose.testing.store_contract`."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from interpose.checkpoint import Checkpoint
from interpose.errors import ResumeError, ThreadConflict
from interpose.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from interpose.testing.store_values import some_checkpoint, some_messages

if TYPE_CHECKING:
    from interpose.stores import Store

Claim = Callable[["Store", "Store"], Coroutine[Any, Any, None]]
CLAIMS: list[Claim] = []


def _claim(check: Claim) -> Claim:
    CLAIMS.append(check)
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
    await refused(ThreadConflict, other.commit("t1", "r2", some_messages(3, 5), expected=0))
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
    await refused(ThreadConflict, store.commit("t1", "r1", some_messages(1), expected=5, replaces="r0"))
    assert await other.get("r0") is not None
    for _ in range(2):  # the second time since the first reply was lost
        await store.commit("t1", "r1", some_messages(1), expected=0, replaces="r0")
    assert await other.get("r0") is None
    await refused(ResumeError, other.commit("t1", "r2", some_messages(1, 1), expected=1, replaces="r0"))
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
    await refused(LookupError, store.fork("t1", "m9"))
    await refused(LookupError, store.fork("t9", "m0"))


@_claim
async def state_of_a_thread_is_replaced_and_needs_no_messages(store: "Store", other: "Store") -> None:
    await store.save_state("t1", {"a": 1})
    await other.save_state("t1", {"b": [None, "é\0", 0, ""]})
    assert await store.load_state("t1") == {"b": [None, "é\0", 0, ""]}
    await store.commit("t1", "r1", some_messages(1), expected=0)
    assert await store.load_state("t1") == {"b": [None, "é\0", 0, ""]}


async def refused(kind: type[Exception], act: Awaitable[Any]) -> None:
    """Check that *act* raises an error of *kind* that says something."""
    came: Any = (await asyncio.gather(act, return_exceptions=True))[0]
    assert isinstance(came, kind), f"expected {kind.__name__}, got {came!r}"
    assert str(came)


__all__ = ["CLAIMS", "Claim", "refused"]
