"""Stories in which the database fails and the process lives: played in this process, with no time lost in waiting."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.crash.diary import Diary, DiaryStore
from tests.crash.living import go_on
from tests.crash.played import MOST, Life, Story
from tests.crash.stories import STORIES

from interpose.stores import SQLStore, StoreError
from interpose.testing import FakeClock

Before = Callable[[int], Awaitable[None]]


class Played:
    """A story on one store, that is gone on with after each failure."""

    def __init__(self, story: str, store: SQLStore, folder: Path, name: str) -> None:
        self.story = story
        self.store = store
        self.name = name
        self.lives: list[Life] = []
        self.writes = 0
        self._path = folder / name
        self._diary = Diary(self._path)
        self._seen = 0

    async def live(self, before: Before | None = None) -> StoreError | None:
        """Live one life, with *before* awaited before each write; return what failed it, which is like being killed."""
        noted = DiaryStore(self.store, self._diary, before)
        agent = STORIES[self.story](self._diary, store=noted, clock=FakeClock(auto=True))
        failed = None
        try:
            await go_on(agent, self.store, self._diary, self.name, len(self.lives))
        except StoreError as error:
            failed = error
        self.writes = noted.writes
        lines = self._path.read_text().splitlines()
        self.lives.append(Life(lines[self._seen :], failed is not None))
        self._seen = len(lines)
        return failed

    async def to_the_end(self) -> Story:
        """Live on until the story is over."""
        while len(self.lives) < MOST:
            await self.live()
            if any(line.startswith(("over ", "failed: ")) for line in self.lives[-1].lines):
                break
        return Story(self.lives)
