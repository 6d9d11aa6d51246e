"""A process is killed with SIGKILL and another goes on: what was finished is not done again, and counts are exact."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.durable.conftest import Cut

pytestmark = pytest.mark.timeout(180)  # each starts two processes
EACH_CALL_ONCE = {str(n): 1 for n in range(6)}
EACH_STEP_ONCE = {str(n): 1 for n in range(4)}
Cutter = Callable[..., Cut]

MOMENTS = ["start", "in model 0", "after model 0", "after tools 0", "in model 2", "finish"]


@pytest.mark.parametrize(
    ("moment", "folder"), [*((one, "log") for one in MOMENTS), ("in model 2", "stream"), ("after tools 0", "stream")]
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_run_cut_between_calls_repeats_none(cut: Cutter, moment: str, folder: str) -> None:
    run = cut(moment, folder=folder)
    came = run.come_to()
    again = {moment.split()[2]: 2} if moment.startswith("in model") else {}
    tried = {"1": 2} if moment == "in model 2" else {}  # its first answer was an error of the provider
    assert run.said("model") == EACH_STEP_ONCE | again | tried
    assert run.said("tool") == EACH_CALL_ONCE
    assert came["results"] == [f'{{"noted":{n}}}' for n in range(6)]
    assert (came["text"], came["run"], came["status"], came["steps"]) == ("done", "run-1", "finished", 4)
    assert came["tokens"] == 44
    assert run.lines()[-1] == "finish"


@pytest.mark.parametrize("moment", ["in tool 2", "late in tool 2"])
def test_write_cut_in_the_middle_is_told_as_unknown_and_not_run_again(cut: Cutter, moment: str) -> None:
    run = cut(moment)
    came = run.come_to()
    assert run.said("model") == EACH_STEP_ONCE
    assert run.said("tool")["2"] == 1
    assert run.said("tool")["3"] <= 1
    assert "it may have taken effect" in came["results"][2]
    assert [came["results"][n] for n in (0, 1, 4, 5)] == [f'{{"noted":{n}}}' for n in (0, 1, 4, 5)]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_sibling_that_had_finished_keeps_its_result(cut: Cutter) -> None:
    run = cut("late in tool 2")
    assert run.come_to()["results"][3] == '{"noted":3}'
    assert run.said("tool")["3"] == 1


@pytest.mark.parametrize("effect", ["read", "idempotent"])
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_safe_call_cut_in_the_middle_is_run_again_under_its_key(cut: Cutter, effect: str) -> None:
    run = cut("late in tool 2", effect)
    came = run.come_to()
    assert run.said("tool") == EACH_CALL_ONCE | {"2": 2}
    keys = [line.split()[2] for line in run.lines() if line.startswith("tool 2")]
    assert keys[0] == keys[1]
    assert came["results"][2] == '{"noted":2}'


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_error_of_a_tool_comes_back_as_the_result_it_was(cut: Cutter) -> None:
    run = cut("after tools 1", "read")
    assert run.come_to()["results"][1] == "ValueError: one is none"
    assert run.said("tool") == EACH_CALL_ONCE


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_fatal_error_fails_the_run_for_good(cut: Cutter) -> None:
    run = cut("fatal")
    first: Any = [run.run(), run.run()]
    assert [one.returncode for one in first] == [0, 0], first[0].stderr
    assert first[0].stdout == first[1].stdout
    assert '"error": "FatalToolError", "message": "enough"' in first[0].stdout
    assert run.said("tool")["3"] == 1
