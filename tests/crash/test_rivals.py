"""Processes that want the same: of those that resume one run, or extend one thread, one wins, and others are told."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.crash.diary import gate_of
from tests.crash.played import KILLED, Nursery, is_work

from interpose.stores import SQLStore

PATIENCE_S = 30.0


class Rival:
    """A process that does one run; *closed* are the gates at which it waits."""

    def __init__(self, rivals: "Rivals", nursery: Nursery, name: str, closed: tuple[str, ...], job: Any) -> None:
        self.diary = rivals.folder / name
        self._gates = [Path(gate_of(self.diary, one)) for one in closed]
        for gate in self._gates:
            gate.touch()
        self._opened = 0
        about = {"story": rivals.story, "url": rivals.url, "diary": str(self.diary), "dies_at": None, "number": 0}
        self._ends: Future[int] = rivals.threads.submit(nursery.live, about | {"given": None, "hold": True} | job)

    def waits(self) -> None:
        """Return once it waits at a gate."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(line.startswith("waits") for line in self.lines()):
            assert time.monotonic() < deadline, f"it does not come to its gate: {self.lines()}"
            assert not self._ends.done(), f"it ended before its gate: {self.lines()}"
            time.sleep(0.005)

    def end(self) -> str:
        """Open its gates, and return what it says at its end."""
        self.open()
        assert self._ends.result(PATIENCE_S) == 0
        return self.lines()[-1]

    def open(self) -> None:
        """Open its gates."""
        self._opened = self._opened or len(self.lines())
        for gate in self._gates:
            gate.unlink(missing_ok=True)

    def lines(self) -> list[str]:
        return self.diary.read_text().splitlines() if self.diary.exists() else []

    def began_then(self) -> list[str]:
        """Return which calls began after its gates were opened."""
        return [one for one in self.lines()[self._opened :] if is_work(one) and one.endswith("begins")]


class Rivals:
    """Two processes on one database."""

    def __init__(self, story: str, url: str, folder: Path, nurseries: list[Nursery], threads: ThreadPoolExecutor):
        self.story = story
        self.url = url
        self.folder = folder
        self.threads = threads
        self._nurseries = nurseries
        self._all: list[Rival] = []

    def one(self, *closed: str, **options: Any) -> Rival:
        return self._begun(Rival(self, self._nurseries[0], "one", closed, options))

    def other(self, *closed: str, **options: Any) -> Rival:
        return self._begun(Rival(self, self._nurseries[1], "other", closed, options))

    def _begun(self, rival: Rival) -> Rival:
        self._all.append(rival)
        return rival

    def open(self) -> None:
        """Let go all that still wait."""
        for rival in self._all:
            rival.open()

    def killed(self, at: str) -> None:
        """Let a process die in run "r1" of thread "t1", at this line of its diary."""
        job = {"story": self.story, "url": self.url, "diary": str(self.folder / "dead"), "dies_at": at, "number": 0}
        assert self._nurseries[0].live(job | {"given": "Go", "options": {"run_id": "r1", "thread_id": "t1"}}) == KILLED

    async def approved(self, run_id: str) -> dict[str, Any]:
        """Return what resumes a run with all that it asks approved."""
        async with SQLStore(self.url) as store:
            found = await store.get(run_id)
        assert found is not None
        return {"resume": [one.id for one in found.interrupts], "parent_run_id": run_id}

    async def thread(self) -> list[tuple[str, str]]:
        async with SQLStore(self.url) as store:
            return [(message.role, message.text) for message in await store.load("t1")]


@pytest.fixture
def rivals(
    request: pytest.FixtureRequest, url: str, tmp_path: Path, nurseries: list[Nursery], threads: ThreadPoolExecutor
) -> Iterator[Rivals]:
    """On the story that the test is marked with, or on the plain one."""
    story = getattr(request, "param", "steps")
    made = Rivals(story, url, tmp_path, nurseries, threads)
    yield made
    made.open()


WHOLE = [
    ("user", "Go"),
    *[
        message
        for n in range(4)
        for message in (
            ("assistant", f"step {n}"),
            ("tool", f"looked {n}"),
            ("tool", f"placed {n}"),
            ("tool", f"mailed {n}"),
        )
    ],
    ("assistant", "done"),
]
RESUMES_R1 = {"resume": [], "parent_run_id": "r1"}


@pytest.mark.parametrize("hold", [True, False], ids=["claim decides", "claim lapsed"])
async def test_of_processes_that_resume_one_run_at_once_one_does(rivals: Rivals, hold: bool) -> None:
    rivals.killed("agent said step 1 begins")
    both = [
        rivals.one("claim", hold=hold, options=RESUMES_R1 | {"run_id": "r2"}),
        rivals.other("claim", hold=hold, options=RESUMES_R1 | {"run_id": "r3"}),
    ]
    for one in both:
        one.waits()
    for one in both:
        one.open()
    winner, loser = sorted(both, key=lambda one: one.end())
    assert winner.lines()[-1] == "finished done"
    assert loser.lines()[-1].startswith("refused ResumeError: run 'r1' ")
    assert loser.began_then() == []
    assert await rivals.thread() == WHOLE


@pytest.mark.parametrize("gate", ["answer_2", "place_2"])
async def test_of_a_process_that_resumes_and_one_that_comes_late_one_ends_the_run(rivals: Rivals, gate: str) -> None:
    rivals.killed("agent said step 1 begins")
    first = rivals.one(gate, options=RESUMES_R1 | {"run_id": "r2"})
    first.waits()
    late = rivals.other(options=RESUMES_R1 | {"run_id": "r3"})
    ends = sorted([late.end(), first.end()])
    assert ends[0] == "finished done"
    assert ends[1].startswith("refused ResumeError: run ")
    assert len(await rivals.thread()) == len(WHOLE)


@pytest.mark.parametrize("rivals", ["approved"], indirect=True)
async def test_answers_that_are_given_twice_are_refused_while_the_run_goes_on(rivals: Rivals) -> None:
    assert rivals.one(given="Go", options={"run_id": "r1", "thread_id": "t1"}).end() == "interrupted step 1"
    approved = await rivals.approved("r1")
    first = rivals.one("wire_1", options=approved | {"run_id": "r2"})
    first.waits()
    late = rivals.other(options=approved | {"run_id": "r3"})
    assert late.end().startswith("refused ResumeError: ")
    assert late.began_then() == []
    assert first.end() == "interrupted step 3"


async def test_of_processes_that_extend_one_thread_one_does(rivals: Rivals) -> None:
    both = [
        rivals.one("answer_2", given="Go", options={"run_id": "r1", "thread_id": "t1"}),
        rivals.other("answer_2", given="Go", options={"run_id": "r2", "thread_id": "t1"}),
    ]
    for one in both:
        one.waits()
    ends = sorted(one.end() for one in both)
    assert ends[0] == "finished done"
    assert ends[1].startswith("refused ThreadConflict: thread 't1' had 0 messages when this run loaded it")
    assert await rivals.thread() == WHOLE


@pytest.mark.parametrize("rivals", ["approved"], indirect=True)
async def test_of_a_resumption_and_a_new_prompt_on_its_thread_one_wins(rivals: Rivals) -> None:
    assert rivals.other(given="Go", options={"run_id": "r1", "thread_id": "t1"}).end() == "interrupted step 1"
    one = rivals.one("wire_1", options=await rivals.approved("r1") | {"run_id": "r2"})
    one.waits()
    assert rivals.other(given="Go on", options={"run_id": "r3", "thread_id": "t1"}).end() == "interrupted step 1"
    assert one.end() == "interrupted step 3"
    assert rivals.one(options=await rivals.approved("r2") | {"run_id": "r4"}).end() == "finished done"
    before = await rivals.thread()
    assert (
        rivals.other(options=await rivals.approved("r3") | {"run_id": "r5"})
        .end()
        .startswith("refused ThreadConflict: thread 't1' has 16 messages, and had 0 when run 'r3' stopped")
    )
    assert await rivals.thread() == before


# A run that lives on when another process has gone on with it.


@pytest.mark.parametrize("gate", ["answer_2", "place_2", "mail_2"])
async def test_run_that_was_taken_over_stops_at_its_next_write_and_stores_nothing(rivals: Rivals, gate: str) -> None:
    live = rivals.one(gate, given="Go", options={"run_id": "r1", "thread_id": "t1"})
    live.waits()
    assert rivals.other(options=RESUMES_R1 | {"run_id": "r2"}).end() == "finished done"
    async with SQLStore(rivals.url) as store:
        before = await store.load("t1")
        assert live.end().startswith("refused ResumeError: run 'r1' has no checkpoint any more")
        assert list(await store.load("t1")) == list(before)
        assert await store.get("r1") is None
    assert live.began_then() == []
