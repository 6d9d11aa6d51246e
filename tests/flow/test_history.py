"""What is kept of runs: each its own events, numbered from 0, in bounded memory, and never a running one given up."""

import json
from typing import Any

import pytest
from tests.flow.nodes import Told, tell_guide, tell_long_run

from interpose.flow.history import History
from interpose.flow.runlog import MAX_NODES


def listed(history: History) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(history.runs_json())
    return runs


def events_of(history: History, run: str) -> list[dict[str, Any]]:
    log = history.find(run)
    assert log is not None
    return [json.loads(event) for event in log.lights()]


def run_of(history: History, run_id: str) -> Told:
    told = Told(history.add, run_id)
    told.start("run", f"agent of {run_id}")
    return told


def end(told: Told, **fields: Any) -> None:
    told.end(next(node_id for node_id, node in told.started.items() if node.kind == "run"), **fields)


def test_interleaved_runs_have_events_of_their_own_from_0() -> None:
    history = History(20)
    a, b = run_of(history, "a"), run_of(history, "b")
    for told in (a, b, a, b, b):
        told.whole("step", "step-0", None)
    end(b)
    end(a)
    for run, count in (("a", 6), ("b", 8)):
        events = events_of(history, run)
        assert [event["seq"] for event in events] == list(range(count))
        assert {event["run_id"] for event in events} == {run}


def test_list_says_which_run_goes_on_and_how_long_the_other_took() -> None:
    history = History(20)
    run_of(history, "a")
    end(run_of(history, "b"), duration_ms=42)
    b, a = listed(history)
    assert (a["id"], a["status"], a["duration_ms"]) == ("a", "running", None)
    assert (b["id"], b["status"], b["duration_ms"]) == ("b", "ok", 42)


def test_run_with_a_failed_tool_that_succeeds_is_ok() -> None:
    history = History(20)
    told = run_of(history, "a")
    told.whole("tool", "weather", None, error="OSError: no answer")
    end(told)
    assert [(run["status"], run["errors"]) for run in listed(history)] == [("ok", 1)]


def test_oldest_ended_run_leaves_and_a_late_event_does_not_bring_it_back() -> None:
    history = History(2)
    a = run_of(history, "a")
    late = a.start("tool", "slow")
    end(a)
    for name in ("b", "c"):
        end(run_of(history, name))
    assert [run["id"] for run in listed(history)] == ["c", "b"]
    a.end(late)
    a.whole("step", "step-9", None)
    assert [run["id"] for run in listed(history)] == ["c", "b"]
    assert history.find("a") is None


def test_running_run_is_never_given_up() -> None:
    history = History(1)
    old = run_of(history, "old")
    for number in range(5):
        end(run_of(history, f"short {number}"))
    assert [run["id"] for run in listed(history)] == ["old"]
    run_of(history, "new")
    assert {run["id"] for run in listed(history)} == {"old", "new"}
    end(old)
    assert [run["id"] for run in listed(history)] == ["new"]


def test_late_event_of_a_nested_run_does_not_bring_its_outer_run_back() -> None:
    history = History(1)
    told = Told(history.add, "outer")
    run = told.start("run", "outer")
    tool = told.start("tool", "ask", run)
    inner = Told(history.add, "inner")
    inner_run = inner.start("run", "inner", tool)
    late = inner.start("step", "step-0", inner_run)
    told.end(tool)
    told.end(run)
    end(run_of(history, "next"))
    inner.end(late)
    assert [run["id"] for run in listed(history)] == ["next"]


def test_nested_runs_stand_in_the_outermost_run() -> None:
    history = History(20)
    tell_guide(Told(history.add, "guide"))
    (run,) = listed(history)
    assert (run["id"], run["name"], run["nodes"], run["steps"]) == ("guide", "city guide", 19, 3)
    events = events_of(history, "guide")
    assert [event["seq"] for event in events] == list(range(38))
    nested = next(event["run_id"] for event in events if event["run_id"] != "guide")
    assert history.find(nested) is history.find("guide")


def test_nested_run_without_its_outer_run_is_listed_itself() -> None:
    history = History(20)
    Told(history.add, "inner").start("run", "inner", "tool_nobody_knows")
    assert [run["id"] for run in listed(history)] == ["inner"]


def test_two_outer_runs_keep_their_nested_runs_apart() -> None:
    history = History(20)
    tools = {}
    for name in ("a", "b"):
        told = run_of(history, name)
        tools[name] = told.start("tool", "ask")
    for name, tool in tools.items():
        Told(history.add, f"inner of {name}").start("run", "inner", tool)
    for name in ("a", "b"):
        assert {event["run_id"] for event in events_of(history, name)} == {name, f"inner of {name}"}


def test_end_whose_start_was_not_seen_is_kept() -> None:
    history = History(20)
    told = Told(lambda node: None, "a")
    node = told.start("tool", "slow")
    told.listen = history.add
    told.end(node, "found")
    assert [event["phase"] for event in events_of(history, "a")] == ["end"]
    assert listed(history)[0]["nodes"] == 1


def test_end_has_what_its_start_had_which_is_then_given_up() -> None:
    history = History(20)
    told = run_of(history, "a")
    node = told.start("tool", "look", given={"args": {"x": "y" * 5000}})
    log = history.find("a")
    assert log is not None
    before = log.stored_bytes
    told.end(node, "z", given={"args": {"x": "y" * 5000}})
    assert log.stored_bytes < before + 50
    assert "content" not in json.loads(log.whole(1) or b"")
    assert json.loads(log.whole(2) or b"")["content"] == {"in": {"args": {"x": "y" * 5000}}, "out": "z"}


def test_messages_that_requests_share_are_kept_once_and_told_whole() -> None:
    history = History(20)
    told = run_of(history, "a")
    said: list[dict[str, Any]] = []
    sizes = []
    log = history.find("a")
    assert log is not None
    for number in range(60):
        said.append({"role": "user", "text": f"{number} " * 200, "id": f"msg_{number}"})
        told.whole("model", "gpt", None, given={"messages": [*said]})
        sizes.append(log.stored_bytes)
    assert sizes[-1] - sizes[-2] < 2 * (sizes[2] - sizes[1])
    assert json.loads(log.whole(len(log) - 1) or b"")["content"]["in"]["messages"] == said


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said[2:],
        lambda said: [said[0], *said[3:], said[1]],
        lambda said: [said[0], {"role": "user", "text": "edited"}, *said[2:]],
        lambda said: [],
        lambda said: list(reversed(said)),
        lambda said: [said[0], said[0], said[2]],
    ],
    ids=["cut", "moved", "edited", "empty", "reversed", "twice"],
)
def test_requests_are_told_as_they_were_whatever_was_changed_between_them(change: Any) -> None:
    history = History(20)
    told = run_of(history, "a")
    said = [{"role": "user", "text": f"message {number}"} for number in range(6)]
    log = history.find("a")
    assert log is not None
    for messages in (said, change(said), said):
        told.whole("model", "gpt", None, given={"messages": tuple(messages)})
        event = json.loads(log.whole(len(log) - 1) or b"")
        assert event["content"]["in"]["messages"] == messages


def test_oldest_contents_are_given_up_where_there_are_too_many_and_say_so() -> None:
    history = History(20, max_stored_bytes=20_000)
    told = run_of(history, "a")
    for number in range(200):
        told.whole("tool", "look", None, out=[f"{number * n}" for n in range(300)])
    log = history.find("a")
    assert log is not None
    assert log.stored_bytes <= 20_000
    assert json.loads(log.whole(2) or b"")["dropped"] is True
    assert json.loads(log.whole(len(log) - 1) or b"")["content"]["out"][1] == "199"
    assert [json.loads(event)["name"] for event in log.lights()][1:] == ["look"] * 400


def test_contents_of_ended_runs_are_given_up_first() -> None:
    history = History(20, max_stored_bytes=20_000)
    going = run_of(history, "going")
    going.whole("tool", "look", None, out=[f"{n * 7}" for n in range(2000)])
    ended = run_of(history, "ended")
    for number in range(20):
        ended.whole("tool", "look", None, out=[f"{number * n}" for n in range(300)])
    end(ended)
    for _ in range(9):
        going.whole("tool", "look", None, out=[f"{n * 7}" for n in range(300)])
    kept = history.find("going")
    assert kept is not None
    assert "dropped" not in json.loads(kept.whole(2) or b"")


def test_nodes_beyond_the_bound_are_counted_and_not_kept() -> None:
    history = History(20)
    told = Told(history.add, "a")
    run = told.start("run", "long")
    tool = ""
    for number in range(MAX_NODES + 50):
        tool = told.start("tool", f"look {number}", run)
        if number < MAX_NODES + 49:
            told.end(tool)
    inner = Told(history.add, "inner")
    inner.end(inner.start("run", "inner", tool))
    told.end(tool)
    told.end(run)
    (listed_run,) = listed(history)
    assert (listed_run["nodes"], listed_run["left_out"], listed_run["status"]) == (MAX_NODES + 52, 52, "ok")
    log = history.find("a")
    assert log is not None
    assert len(log) == 2 * MAX_NODES


def test_runs_whose_end_nobody_will_tell_are_marked_so_and_can_be_given_up() -> None:
    history = History(1)
    run_of(history, "a")
    history.settle()
    assert [(run["status"], run["outcome"]) for run in listed(history)] == [("error", "lost")]
    run_of(history, "b")
    assert [run["id"] for run in listed(history)] == ["b"]


def test_tokens_are_summed_while_a_run_goes_on_and_those_of_the_run_count_at_its_end() -> None:
    history = History(20)
    tell_guide(Told(history.add, "a"), until=1)
    assert listed(history)[0]["usage"]["total_tokens"] == 1070 + 1800 + 872 + 1474
    history = History(20)
    tell_guide(Told(history.add, "a"))
    assert listed(history)[0]["usage"]["total_tokens"] == 8076


def test_long_run_is_kept_whole() -> None:
    history = History(20)
    tell_long_run(Told(history.add, "a"), 500)
    (run,) = listed(history)
    assert (run["nodes"], run["status"], run["left_out"]) == (500, "ok", 0)
    assert [event["seq"] for event in events_of(history, "a")] == list(range(1000))
