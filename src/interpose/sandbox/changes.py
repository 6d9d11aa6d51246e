"""What has changed between two moments: what was known, what is there now, and what the kernel told in between."""

import stat
import time
from collections.abc import Mapping
from typing import Literal, NamedTuple

from interpose.sandbox.inotify import Seen
from interpose.sandbox.tree import Ignored, Stamp, content_of, stamp_of, state_of, walk

MAX_KEPT_FILE_BYTES = 256 * 1024
MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Of how large a file, and of how many bytes in all, the content is kept, for `before()`."""
MAX_FILES = 100_000
"""In how large a workspace changes are told; beyond it a walk takes seconds."""


class Change(NamedTuple):
    """What happened to one file."""

    kind: Literal["create", "change", "delete"]
    path: str
    old: bytes | None
    new: bytes | None


class TooManyFiles(Exception):
    """There are more files than are looked at."""


class Known:
    """The files of a workspace as they were last told, below the folder *root*; contents only where they are wanted."""

    def __init__(self, root: int, ignored: Ignored, *, keeps_contents: bool) -> None:
        self.root = root
        self.ignored = ignored
        self.keeps_contents = keeps_contents
        self.stamps: dict[str, Stamp] = {}
        self.contents: dict[str, bytes] = {}
        self.kept_bytes = 0

    def scan(self) -> tuple[dict[str, Stamp], set[str]]:
        """Return what is there now, and the folders.

        Raises:
            TooManyFiles: as it says.
        """
        stamps: dict[str, Stamp] = {}
        folders = {""}
        for path, state in walk(self.root, self.ignored):
            stamp = stamp_of(state)
            if stamp is not None:
                stamps[path] = stamp
                if len(stamps) > MAX_FILES:
                    raise TooManyFiles
            elif stat.S_ISDIR(state.st_mode):
                folders.add(path)
        return stamps, folders

    def take(self, stamps: dict[str, Stamp]) -> None:
        """Take *stamps* for what is known, and nothing for changed."""
        self.stamps = stamps
        if self.keeps_contents:
            for path, stamp in stamps.items():
                if stamp.size <= MAX_KEPT_FILE_BYTES and self.kept_bytes + stamp.size <= MAX_KEPT_BYTES:
                    self._keep(path, content_of(self.root, path, MAX_KEPT_FILE_BYTES))

    def differences(self, seen: list[Seen], now: Mapping[str, Stamp] | None) -> list[Change]:
        """Return what has changed, in order, and take it for known.

        *seen* gives the order, and tells of files that were made and removed at once. *now* are all files that are
        there; without it only those that were seen are looked at.
        """
        places = _places(seen)
        found = {} if now is None else dict(now)
        odd = set()
        for path in places:
            found.pop(path, None)
            if (state := state_of(self.root, path)) is None:
                continue
            if (stamp := stamp_of(state)) is not None:
                found[path] = stamp
            else:
                odd.add(path)  # a pipe, or a folder in its place
        looked = places if now is None else {**self.stamps, **found, **places}
        ordered: list[tuple[tuple[int, int], Change]] = []
        for path in looked:
            first, last, made = places.get(path, (len(seen), len(seen), False))
            before, after = self.stamps.get(path), found.get(path)
            if after is None:
                made = made and path not in odd
                if before is None and made:
                    ordered.append(((first, 0), Change("create", path, None, None)))
                if before is not None or made:
                    ordered.append(((last, 1), self._changed("delete", path, None)))
            elif before is None:
                ordered.append(((first, after.mtime_ns), self._changed("create", path, after)))
            elif before != after or path in places:
                change = self._changed("change", path, after)
                if _differ(change, before, after):
                    ordered.append(((first, after.mtime_ns), change))
        ordered.sort(key=lambda pair: pair[0])
        return [change for _, change in ordered]

    def _changed(self, kind: Literal["create", "change", "delete"], path: str, after: Stamp | None) -> Change:
        old = self.contents.pop(path, None)
        self.kept_bytes -= len(old or b"")
        if after is None:
            self.stamps.pop(path, None)
            return Change(kind, path, old, None)
        self.stamps[path] = after
        new = content_of(self.root, path, MAX_KEPT_FILE_BYTES) if self.keeps_contents else None
        self._keep(path, new)
        return Change(kind, path, old, new)

    def _keep(self, path: str, content: bytes | None) -> None:
        if content is not None and self.kept_bytes + len(content) <= MAX_KEPT_BYTES:
            self.contents[path] = content
            self.kept_bytes += len(content)


def unfinished(root: int, seen: list[Seen], fresh_s: float) -> set[str]:
    """Return the new files of *seen* that somebody may still be writing to: not closed, and written *fresh_s* ago."""
    last = dict(seen)
    states = [(path, state_of(root, path)) for path, what in last.items() if what == "made"]
    now_ns = time.time_ns()
    return {
        path
        for path, state in states
        if state and stat.S_ISREG(state.st_mode) and state.st_nlink == 1
        if 0 <= now_ns - state.st_mtime_ns < fresh_s * 1e9
    }


def _differ(change: Change, before: Stamp, after: Stamp) -> bool:
    """Whether a file is another than before: by its content where both are kept, else by what the system says of it."""
    if change.old is None or change.new is None:
        return before != after
    return change.old != change.new or before.mode != after.mode


def _places(seen: list[Seen]) -> dict[str, tuple[int, int, bool]]:
    """Return, by path, where it was first and last seen, and whether it was made then."""
    places: dict[str, tuple[int, int, bool]] = {}
    for index, (path, what) in enumerate(seen):
        first, _, made = places.get(path, (index, index, False))
        places[path] = (first, index, made or what in ("made", "moved"))
    return places
