"""What every store must do, as tests for a store of one's own.

Each claim is an async function of two store objects on the same data, which is empty at first; of a store that lives
in one object, pass that one twice. With pytest:

    pytest.register_assert_rewrite("interpose.testing.store_contract", "interpose.testing.store_threads")

    @pytest.mark.parametrize("claim", STORE_CONTRACT, ids=lambda claim: claim.__name__)
    async def test_keeps_the_contract(claim, tmp_path):
        await claim(MyStore(tmp_path), MyStore(tmp_path))
"""

import asyncio
from typing import TYPE_CHECKING

from interpose.checkpoint import Checkpoint
from interpose.errors import ResumeError, ThreadConflict
from interpose.interrupts import OpenInterrupt
from interpose.messages import (
    AssistantMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from interpose.request import ModelResponse, Usage
from interpose.saved import SavedResult, SavedStep
from interpose.testing.store_threads import CLAIMS, Claim, refused
from interpose.testing.store_values import full_checkpoint, some_checkpoint, some_messages

if TYPE_CHECKING:
    from interpose.stores import Store

STORE_CONTRACT: list[Claim] = [*CLAIMS]
"""The claims, each an async function of two store objects."""


def _claim(check: Claim) -> Claim:
    STORE_CONTRACT.append(check)
    return check


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
    await refused(ResumeError, other.put(some_checkpoint(agent="another")))
    await store.put(Checkpoint(run_id="r1", part=1, number=1))
    await refused(ResumeError, other.put(Checkpoint(run_id="r1", part=1, number=2)))
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
    await refused(ResumeError, store.put(Checkpoint(run_id="r1", part=1)))
    assert await store.get("r1") is None


@_claim
async def resumption_takes_the_place_of_what_it_resumes(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint(status="paused"))
    resumed = some_checkpoint("r2", resumed_from="r1")
    await other.put(resumed, replaces="r1")
    assert await store.get("r1") == await store.get("r2") == resumed  # under the old id too
    assert not await store.claim("r1", 5.0)
    await other.put(resumed, replaces="r1")  # sent again, since the first reply was lost
    await refused(ResumeError, store.put(Checkpoint(run_id="r1", part=1)))


@_claim
async def resumed_run_is_found_by_every_id_that_it_had(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint("r1", status="paused"))
    for old, new in [("r1", "r2"), ("r2", "r3"), ("r3", "r2"), ("r2", "r4")]:
        await other.put(some_checkpoint(new), replaces=old)
    assert [(await store.get(f"r{n}") or some_checkpoint()).run_id for n in (1, 2, 3, 4)] == ["r4"] * 4
    await store.commit("t1", "r4", some_messages(1), checkpoint=some_checkpoint("r4", number=7))
    found = await other.get("r1")
    assert found is not None
    assert found.number == 7
    await other.drop("r4")
    assert [await store.get(f"r{n}") for n in (1, 2, 3, 4)] == [None] * 4


@_claim
async def run_that_has_gone_on_is_not_replaced(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint("r1"))
    await store.put(Checkpoint(run_id="r1", part=1))
    await refused(ResumeError, other.put(some_checkpoint("r2"), replaces="r1", at=0))
    assert (await store.get("r2"), (await other.get("r1") or some_checkpoint()).part) == (None, 1)
    await other.put(some_checkpoint("r2"), replaces="r1", at=1)


@_claim
async def state_of_a_thread_is_committed_with_its_messages(store: "Store", other: "Store") -> None:
    await store.commit("t1", "r1", some_messages(1), state={"a": 1})
    await refused(ThreadConflict, other.commit("t1", "r2", some_messages(1, 1), expected=0, state={"a": 2}))
    await store.commit("t1", "r3", some_messages(1, 1))
    assert await other.load_state("t1") == {"a": 1}


@_claim
async def unfinished_lists_what_waits_for_nothing(store: "Store", other: "Store") -> None:
    await store.put(some_checkpoint("r1", created_at=3.0))
    await store.put(some_checkpoint("r2", created_at=2.0, thread_id="t2"))
    await store.put(some_checkpoint("r3", created_at=1.0, status="paused"))
    assert [one.run_id for one in await other.unfinished()] == ["r2", "r1"]
    assert [one.run_id for one in await other.unfinished("t1")] == ["r1"]
    await store.put(Checkpoint(run_id="r1", part=1, status="paused"))
    assert [one.run_id for one in await other.unfinished()] == ["r2"]


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


__all__ = ["Claim", "STORE_CONTRACT"]
