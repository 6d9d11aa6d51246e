"""The sandbox of one run: what tools and other middleware do in its workspace."""

import asyncio
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, TypeVar

from interpose.capabilities import Capability
from interpose.messages import Value
from interpose.sandbox import bubblewrap
from interpose.sandbox.errors import SandboxError, refused
from interpose.sandbox.files import Entry, Files
from interpose.sandbox.limits import CommandLimits
from interpose.sandbox.process import LEFT_OUT, MARK, CommandResult, Processes
from interpose.sandbox.tree import Ignored
from interpose.sandbox.watch import Watch

T = TypeVar("T")
Isolation = Literal["bubblewrap", "none"]
_HIT = re.compile(r"(\d+):(.*)", re.DOTALL)
_MAX_LINE_CHARS = 300
_SEARCH_BYTES = 1024 * 1024


class Match(Value, frozen=True, kw_only=True):
    """One line that a search found; lines count from 1, long ones are cut."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, kw_only=True)
class BoxOptions:
    """What all boxes of a sandbox have in common."""

    isolation: Isolation
    limits: CommandLimits
    ignored: Ignored
    ignore: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    readable: tuple[Path, ...] = ()
    network: bool = False


class Box:
    """The workspace of one run, and what may be done in it; `ctx.get(SANDBOX)` gives it.

    Paths are relative to the workspace and cannot leave it. What is refused, or is not there, raises `SandboxError`.
    """

    def __init__(self, workspace: Path, options: BoxOptions) -> None:
        self.workspace = workspace
        self.options = options
        self.watch: Watch | None = None
        self._root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        names = (bubblewrap.MOUNT,) if self.isolation == "bubblewrap" else (str(workspace), bubblewrap.MOUNT)
        self.files = Files(self._root, names, options.ignored, options.limits.max_file_bytes)
        self._processes = Processes()
        self._editing = asyncio.Lock()

    @property
    def isolation(self) -> Isolation:
        """How commands are isolated: by bubblewrap, or not at all."""
        return self.options.isolation

    @property
    def root(self) -> int:
        """A descriptor of the workspace, open for the length of the run."""
        return self._root

    async def __aenter__(self) -> "Box":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._processes.over()
        if self.watch is not None:
            await self.watch.finish()
        os.close(self._root)

    # Commands.

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run *command*, by a shell where it is a text, and return how it ended.

        It begins in the folder *cwd*; its whole tree is gone when this returns, or is cancelled. *timeout_s* is cut to
        `CommandLimits.max_timeout_s`.
        """
        argv, added = _argv(command), dict(env or {})
        if wrong := env_problem(added):
            raise SandboxError(wrong)
        inner = await asyncio.to_thread(self.files.folder, cwd)
        await self._begin()
        try:
            return await self._run(argv, timeout_s, inner, {**self.options.env, **added})
        finally:
            await self._settle(whole=True)

    async def _run(
        self, argv: list[str], timeout_s: float | None, folder: str, env: Mapping[str, str], max_output_bytes: int = 0
    ) -> CommandResult:
        options, limits = self.options, self.options.limits
        if max_output_bytes:
            limits = replace(limits, max_output_bytes=max_output_bytes)
        seconds = min(limits.timeout_s if timeout_s is None else timeout_s, limits.max_timeout_s)
        if not seconds > 0:
            raise SandboxError(f"timeout_s must be above 0, got {timeout_s!r}")
        if self.isolation == "bubblewrap":
            argv = bubblewrap.isolated(
                argv,
                workspace=self.workspace,
                folder=folder,
                limits=limits,
                readable=options.readable,
                network=options.network,
            )
            told = bubblewrap.environment(env)
            tells = bubblewrap.TELLS_INSIDE
            return await self._processes.run(
                argv, env=told, cwd=None, limits=limits, timeout_s=seconds, tells_inside=tells
            )
        told = {"PATH": os.environ.get("PATH", bubblewrap.PATH), "HOME": str(self.workspace), "LANG": "C.UTF-8", **env}
        told[MARK] = token_hex(16)
        argv = bubblewrap.limited(argv, limits, isolated=False)
        where = str(self.workspace / folder)
        return await self._processes.run(argv, env=told, cwd=where, limits=limits, timeout_s=seconds)

    # Files.

    async def read(self, path: str) -> str:
        """Return the text of a file."""
        return await asyncio.to_thread(self.files.read_text, path)

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a file."""
        return await asyncio.to_thread(self.files.read, path)

    async def write(self, path: str, content: str | bytes) -> None:
        """Write a whole file, in the place of the one that is there; folders above it are made."""
        if not isinstance(content, str | bytes):
            raise SandboxError(f"the content of a file is text or bytes, got {type(content).__name__}")
        data = content.encode(errors="replace") if isinstance(content, str) else content
        await self._change(self.files.write, path, data)

    async def edit(self, path: str, old: str, new: str, *, every: bool = False) -> int:
        """Put *new* in the place of *old*, which must be in the file once; with *every*, wherever it is.

        Returns how many places were changed.
        """
        return await self._change(self.files.edit, path, old, new, every)

    async def list(self, path: str = ".", *, depth: int = 1, limit: int = 1000) -> tuple[Entry, ...]:
        """Return what is in a folder, *depth* levels deep, by path; without what the sandbox ignores."""
        return await asyncio.to_thread(self.files.list, path, depth, limit)

    async def search(
        self, pattern: str, path: str = ".", *, glob: str | None = None, regex: bool = True, limit: int = 200
    ) -> tuple[Match, ...]:
        """Return the lines of text files that *pattern* is in, an extended regular expression or a plain text.

        *glob* chooses files by name (`*.py`), or by path (`src/*`). A command searches, so that no expression can keep
        the run busy.
        """
        folder, start = await asyncio.to_thread(self._searched, path)
        argv = ["grep", "-rnHIZ", "-E" if regex else "-F", "--color=never", f"--max-count={limit}"]
        if glob is not None and "/" not in glob:
            argv.append(f"--include={glob}")  # the first of these options says what becomes of all others
        for one in self.options.ignore:
            if "/" not in one.strip("/"):
                argv += [f"--exclude-dir={one}", f"--exclude={one}"]
        argv = _argv([*argv, "-e", pattern, "--", start])
        result = await self._run(argv, None, folder, {**self.options.env, "LC_ALL": "C.UTF-8"}, _SEARCH_BYTES)
        if result.exit_code not in (0, 1) and "\0" not in result.output:
            raise SandboxError(f"the search failed: {(result.stopped or result.output).strip()[:300]}")
        return self._matches(folder, result.output, glob, limit)

    def _searched(self, path: str) -> tuple[str, str]:
        """Return the folder in which grep is to begin, and where; never with a link, which it would follow.

        Raises:
            SandboxError: there is nothing at *path*, or a link.
        """
        inner, mode = self.files.inner(path), self.files.state(path).st_mode
        if stat.S_ISDIR(mode):
            return inner, "."
        if stat.S_ISREG(mode):
            return os.path.dirname(inner), f"./{os.path.basename(inner)}"
        raise refused(path, OSError(errno.ELOOP, "a link"))

    def _matches(self, folder: str, output: str, glob: str | None, limit: int) -> tuple[Match, ...]:
        found: list[Match] = []
        for name, number, text in _hits(output):
            path = os.path.join(folder, name.removeprefix("./"))
            if self.options.ignored(path, path.rpartition("/")[2]):
                continue
            if glob is not None and "/" in glob and not fnmatchcase(path, glob):
                continue
            found.append(Match(path=path, line=number, text=text[:_MAX_LINE_CHARS]))
            if len(found) >= limit:
                break
        return tuple(sorted(found, key=lambda one: (one.path, one.line)))

    # File events.

    async def _change(self, work: Callable[..., T], *args: Any) -> T:
        await self._begin()
        try:
            async with self._editing:
                return await asyncio.to_thread(work, *args)
        finally:
            await self._settle(whole=False)

    async def _begin(self) -> None:
        if self.watch is not None:
            await self.watch.begin()

    async def _settle(self, *, whole: bool) -> None:
        if self.watch is not None:
            await self.watch.settle(whole=whole)


def _hits(output: str) -> Iterator[tuple[str, int, str]]:
    """Yield name, number and text of each line that grep found.

    It writes `name NUL number:text newline`; names may hold line breaks, texts neither those nor zero bytes.
    """
    for index, part in enumerate(LEFT_OUT.split(output)):
        pieces = part.split("\0")
        name = pieces[0] if index == 0 else pieces[0].partition("\n")[2]  # behind what was cut
        for piece in pieces[1:]:
            line, _, following = piece.partition("\n")
            hit = _HIT.fullmatch(line)
            if hit is not None and name:
                yield name, int(hit[1]), hit[2]
            name = following


def env_problem(env: Mapping[Any, Any]) -> str | None:
    """Return what is wrong with the variables of a command's environment, or None."""
    for name, value in env.items():
        texts = isinstance(name, str) and isinstance(value, str)
        if not texts or not name or "=" in name or "\0" in name + value:
            return f"env holds names and values, both text, got {name!r:.80}: {type(value).__name__}"
    return None


def _argv(command: str | Sequence[str]) -> list[str]:
    given: Any = command
    argv = [*_shell(), given] if isinstance(given, str) else list(given)
    if not argv or not all(isinstance(one, str) for one in argv):
        raise SandboxError(f"a command is a text or a list of texts, got {command!r:.200}")
    if any("\0" in one for one in argv):
        raise SandboxError("a command holds no zero bytes")
    try:
        size = sum([len(os.fsencode(one)) for one in argv])
    except UnicodeEncodeError:
        raise SandboxError("a command holds half a character, which is no valid text") from None
    if size > 100_000:
        raise SandboxError(f"the command is too long ({size} bytes); write it to a file and run that")
    return argv


def _shell() -> list[str]:
    return ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c"]


SANDBOX: Capability[Box] = Capability("sandbox")
"""The sandbox of the run, for other middleware and tools: `await ctx.get(SANDBOX).run("make test")`."""
