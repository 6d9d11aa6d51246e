"""Playing a story whose process is killed at one line of its diary, and what must hold of every such diary."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
KILLED = -9
MOST = 12
"""More processes than any story takes."""


class Nursery:
    """Starts processes that live a story, one at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.crash.nursery"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def live(self, job: dict[str, Any]) -> int:
        """Let one process live, and return how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(job)}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Life:
    """What one process noted, and whether it was killed."""

    lines: list[str] = field(default_factory=list)
    killed: bool = False

    def began(self) -> list[str]:
        """Return the model calls and tool calls that began in this process."""
        return [line.removesuffix(" begins") for line in self.lines if line.endswith(" begins") and is_work(line)]

    def saved(self, until: int | None = None, *, how: str = "done") -> set[str]:
        """Return what the writes hold that were *how*, "done" or "begins", before line *until*."""
        writes = [line.partition(f" {how} ") for line in self.lines[:until] if line.startswith(("put ", "commit "))]
        return {one for _, _, held in writes if held for one in json.loads(held)}

    def lost(self) -> set[str]:
        """Return what began, and had no end that was certainly saved."""
        return {one for one in self.began() if one not in self.saved()} if self.killed else set()

    def unsure(self) -> set[str]:
        """Return those of the lost that were just being saved: the database may have got that, or not."""
        return self.lost() & self.saved(how="begins")

    def hasty(self) -> Iterator[str]:
        """Yield the model calls that began before all was saved that had ended: more could be lost than one step."""
        for place, line in enumerate(self.lines):
            if " said " in line and line.endswith(" begins"):
                who = line.split()[0]
                ended = {one.removesuffix(" done") for one in self.lines[:place] if one.endswith(" done")}
                if before := {one for one in ended if one.startswith(who)} - self.saved(place):
                    yield f"{line} before {before} were saved"


def is_work(line: str) -> bool:
    return line.startswith(("agent ", "helper "))


@dataclass
class Story:
    """The lives of the processes of one story, in order."""

    lives: list[Life]

    @property
    def lines(self) -> list[str]:
        return [line for life in self.lives for line in life.lines]

    def began(self) -> list[str]:
        """Return all calls of the story, each once."""
        return list(dict.fromkeys([one for life in self.lives for one in life.began()]))

    def told(self, what: str) -> list[str]:
        """Return the rest of each line that begins with *what*."""
        return [line.removeprefix(what).strip() for line in self.lines if line.startswith(what)]

    def thread(self) -> list[Any]:
        """Return (role, text, names of calls) of each message of the thread, as it is in the end."""
        over = self.told("over ")
        return list(json.loads(over[-1])) if over else []


def play(nursery: Nursery, story: str, url: str, folder: Path, name: str, *dies_at: int) -> Story:
    """Play *story* until it is over, in as many processes as it takes; a process dies at each of these lines."""
    diary = folder / name
    lives: list[Life] = []
    seen = 0
    for number in range(MOST):
        next_death = next((one for one in dies_at if one >= seen), None)
        job = {"story": story, "url": url, "diary": str(diary), "dies_at": next_death, "name": name, "number": number}
        code = nursery.live(job)
        lines = diary.read_text().splitlines()
        lives.append(Life(lines[seen:], code == KILLED))
        seen = len(lines)
        if not lives[-1].killed and lines[-1].startswith(("over ", "failed: ")):
            break
    return Story(lives)


def faults(story: Story, clean: Story) -> Iterator[str]:
    """Yield what is wrong with *story*, beside the *clean* one that nobody killed."""
    yield from story.told("failed: ")
    yield from [one for life in story.lives for one in life.hasty()]
    keys = {key: call for call, key in {tuple(told.split()) for told in story.told("key of")}}
    if len(keys) != len(set(keys.values())):
        yield f"calls have more than one idempotency key: {keys}"
    lost = Counter(one for life in story.lives for one in life.lost())
    began = Counter(one for life in story.lives for one in life.began())
    unsure = Counter(one for life in story.lives for one in life.unsure())
    cut: dict[str, bool] = {}
    for one in clean.began():
        most = 1 + lost[one]
        least = most - unsure[one]
        if is_a(one, "wire"):
            asked = sum("cut off" in line for line in story.told(f"approves {one.split()[-1]}:"))
            if asked < least - 1:
                yield f"{one} was cut {least - 1} times, and a person was asked about that {asked} times"
        elif is_a(one, "mail"):
            least = most = 1 if began[one] or not _was_noted(story, one) else 0
            if lost[one] or not began[one]:
                cut[one] = not unsure[one]
        if not least <= began[one] <= most:
            yield f"{one} began {began[one]} times instead of {least} to {most}"
    yield from _wrong_messages(story, clean, cut)
    (wanted,) = clean.told("result ")
    yield from [f"result {one}, not {wanted}" for one in story.told("result ") if one != wanted]


def is_a(work: str, tool: str) -> bool:
    return f" ran {tool}_" in work


def _was_noted(story: Story, work: str) -> bool:
    """Whether a process died between the note that a write begins and its beginning."""
    return any(life.killed and work not in life.began() and life.saved() for life in story.lives)


def _wrong_messages(story: Story, clean: Story, cut: dict[str, bool]) -> Iterator[str]:
    """Yield where the thread differs; calls in *cut* are answered with that, certainly or perhaps."""
    thread, whole = story.thread(), clean.thread()
    if len(thread) != len(whole):
        yield f"the thread has {len(thread)} messages instead of {len(whole)}"
        return
    texts = {f"mailed {one.rpartition('_')[2]}": sure for one, sure in cut.items() if one.startswith("agent")}
    for got, wanted in zip(thread, whole, strict=True):
        is_told = got[0] == "tool" and got[1].startswith("cut off while it ran")
        if got != wanted and not (is_told and wanted[1] in texts):
            yield f"{got} instead of {wanted}"
        if got == wanted and texts.get(got[1], False):
            yield f"the model is not told that {got[1]!r} was cut"
