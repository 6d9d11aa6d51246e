"""`Sandbox`: a folder in which a run may run commands and change files, and nothing else."""

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from interpose.errors import ConfigurationError
from interpose.middleware import Middleware
from interpose.sandbox import bubblewrap
from interpose.sandbox.box import SANDBOX, Box, BoxOptions, Isolation, env_problem
from interpose.sandbox.ignoring import IGNORED, ignoring
from interpose.sandbox.limits import CommandLimits
from interpose.sandbox.tools import EFFECTS, make_tools, with_network
from interpose.sandbox.watch import Watch
from interpose.tools import Approval, Effect

if TYPE_CHECKING:
    from interpose.agent import Agent
    from interpose.context import RunContext
    from interpose.messages import ToolCall, ToolResult
    from interpose.middleware import RunNext, ToolNext
    from interpose.result import RunResult

logger = logging.getLogger("interpose")
Workspace = str | Path | Callable[[Any], "str | Path | Awaitable[str | Path]"]
"""A folder, or a plain or async function of the run's context that gives one."""
_TAKEN = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/home", "/run", "/sbin", "/sys")
_SYSTEM = (*_TAKEN, "/tmp", "/usr", "/var")
_MAX_NAME_BYTES = 200
_outer: ContextVar[Mapping["Sandbox", Box]] = ContextVar("interpose_sandbox_outer")


class Sandbox(Middleware[Any]):
    """Gives a run one folder, the *workspace*, and tools to work in it; provides `SANDBOX`.

    *workspace* is a folder, which is made where it is missing, or a function of the run's context that gives one:
    `Sandbox(Sandbox.per_thread("work"))` gives each thread its own. A nested run with the same sandbox works in the
    folder of the run around it.

    Commands are isolated by bubblewrap: no network, the system read-only, an environment of their own, and the
    *limits*. Where it does not work, opening the agent is refused; `isolation="auto"` runs commands without it then,
    with all the rights of this process, and warns; `"none"` does so always. Paths of file tools never leave the
    workspace, isolated or not.

    *tools* are those to bring (`Sandbox.TOOLS`; none is `()`), *prefix* stands before their names; *approval* and
    *effect* are by tool, as `@tool` takes them: `approval={"run_command": True}`. *env* is added to the environment of
    commands, *readable* folders are seen inside at their own path, *network* lets them reach it. Files that fit
    *ignore* are neither listed nor searched nor told of.

    Files that are created, changed and deleted reach the `on_file*` hooks of the run, from its first tool call to its
    end, and its stream as `CUSTOM sandbox.file` events.

    Raises:
        ConfigurationError: an argument is wrong, or commands cannot be isolated.
    """

    provides = (SANDBOX,)
    TOOLS = tuple(EFFECTS)
    """The names of all tools."""
    IGNORED = IGNORED

    def __init__(
        self,
        workspace: Workspace,
        *,
        isolation: Literal["bubblewrap", "none", "auto"] = "bubblewrap",
        tools: Sequence[str] = TOOLS,
        prefix: str = "",
        approval: Mapping[str, Approval] | None = None,
        effect: Mapping[str, Effect] | None = None,
        limits: CommandLimits = CommandLimits(),  # noqa: B008  # frozen
        env: Mapping[str, str] | None = None,
        readable: Sequence[str | Path] = (),
        network: bool = False,
        ignore: Sequence[str] = IGNORED,
    ) -> None:
        if isolation not in ("bubblewrap", "none", "auto"):
            raise ConfigurationError(f"isolation must be 'bubblewrap', 'none' or 'auto', got {isolation!r}")
        if not isinstance(limits, CommandLimits):
            raise ConfigurationError(f"limits must be CommandLimits(...), got {limits!r:.80}")
        if isolation == "bubblewrap" and (why := bubblewrap.missing()) is not None:
            raise ConfigurationError(f"Sandbox: commands cannot be isolated: {why}")
        self._workspace = workspace if callable(workspace) else checked_folder(workspace)
        self._wanted = isolation
        self._isolation: Isolation | None = "none" if isolation == "none" else None
        self._is_warned = False
        self._limits = limits
        self._env = dict(env or {})
        if wrong := env_problem(self._env):
            raise ConfigurationError(wrong)
        self._readable = tuple([_checked_readable(one) for one in readable])
        self._network = network
        self._ignored = ignoring(ignore)
        self._ignore = tuple(ignore)
        self.tools = make_tools(self.box, tools, prefix, approval or {}, effect or {})
        if network:
            self.tools = tuple([one.replace(description=with_network(one.description)) for one in self.tools])
        self._reading = {one.name for one in self.tools if one.name.removeprefix(prefix) in _READING}
        self._own = {one.name for one in self.tools}

    @staticmethod
    def per_thread(folder: str | Path) -> Callable[[Any], Path]:
        """Return a *workspace* that gives each thread a folder of its own, below *folder*, whatever its id is."""
        return lambda ctx: Path(folder) / folder_name(ctx.thread_id)

    def box(self, ctx: "RunContext[Any]") -> Box:
        """Return what the run of *ctx* may do in its workspace; as `ctx.get(SANDBOX)`, if there are several."""
        return ctx.private(self)["box"]  # type: ignore[no-any-return]  # put there by `setup`

    async def open(self, agent: "Agent[Any]") -> None:  # noqa: ARG002  # of the seam
        """Try whether commands can be isolated."""
        await self._try_isolation()

    async def _try_isolation(self) -> None:
        if self._wanted == "none" and not self._is_warned and getattr(os, "geteuid", lambda: 1)() == 0:
            self._is_warned = True
            logger.warning("the commands of a sandbox run as root and without isolation (isolation='none')")
        if self._isolation is not None:
            return
        why = bubblewrap.missing() or await asyncio.to_thread(bubblewrap.failing)
        if why is None:
            self._isolation = "bubblewrap"
        elif self._wanted == "auto":
            logger.warning("the commands of a sandbox run with the rights of this process: %s", why)
            self._isolation = "none"
        else:
            raise ConfigurationError(f"commands cannot be isolated: {why}")

    async def setup(self, ctx: "RunContext[Any]") -> None:
        """Provide the sandbox of this run."""
        await (
            self._try_isolation()
        )  # of two agents that begin at once, the second does not wait for the first to open it
        assert self._isolation is not None
        outer = _outer.get({}).get(self) if ctx.parent_run_id is not None else None
        workspace = outer.workspace if outer is not None else await self._folder(ctx)
        options = BoxOptions(
            isolation=self._isolation,
            limits=self._limits,
            ignored=self._ignored,
            ignore=self._ignore,
            env=self._env,
            readable=self._readable,
            network=self._network,
        )
        try:
            box = Box(workspace, options)
        except OSError as error:
            raise ConfigurationError(f"the workspace {str(workspace)!r} cannot be opened: {error.strerror}") from error
        await ctx.enter(box)
        hooked, seen = ctx.hears_files()
        if hooked or seen:
            box.watch = Watch(box.root, self._ignored, ctx.tell_file, keeps_contents=hooked)
        ctx.private(self)["box"] = box
        ctx.provide(SANDBOX, box)

    async def _folder(self, ctx: "RunContext[Any]") -> Path:
        if isinstance(self._workspace, Path):
            return self._workspace
        given = self._workspace(ctx)
        if isawaitable(given):
            given = await given
        return await asyncio.to_thread(checked_folder, given)

    async def wrap_run(self, ctx: "RunContext[Any]", call_next: "RunNext") -> "RunResult":
        """Tell, when all is done, what is left to tell."""
        try:
            return await call_next()
        finally:
            if (watch := self.box(ctx).watch) is not None:
                await watch.finish()

    async def wrap_tool_call(self, ctx: "RunContext[Any]", call: "ToolCall", call_next: "ToolNext") -> "ToolResult":
        """Tell what any tool changes in the workspace, before its result is known."""
        box = self.box(ctx)
        _outer.set({**_outer.get({}), self: box})
        watch = box.watch
        if watch is None or call.name in self._reading:
            return await call_next(call)
        await watch.begin()
        try:
            return await call_next(call)
        finally:
            if call.name not in self._own:
                await watch.settle(whole=False)


_READING = frozenset([name for name, effect in EFFECTS.items() if effect == "read"])


def folder_name(thread_id: str) -> str:
    """Return a thread's id as the name of a folder: one of its own, and never one that leads elsewhere."""
    name = quote(thread_id, safe="", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")
    if len(name) <= _MAX_NAME_BYTES:
        return name or "%"
    digest = hashlib.sha256(thread_id.encode(errors="surrogatepass")).hexdigest()
    return f"{name[: _MAX_NAME_BYTES - 70]}-{digest}"


def checked_folder(given: Any) -> Path:
    """Return *given* as an absolute folder, made where it is missing.

    Raises:
        ConfigurationError: it cannot be a workspace.
    """
    if not isinstance(given, str | Path) or not str(given).strip() or "\0" in str(given):
        raise ConfigurationError(f"a workspace is a folder or a function of ctx that gives one, got {given!r:.80}")
    try:
        folder = Path(given).resolve()
        if str(folder) in _SYSTEM or folder == Path.home() or str(folder).startswith(("/proc/", "/sys/", "/dev/")):
            raise ConfigurationError(f"{str(folder)!r} cannot be a workspace: give a folder of its own")
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigurationError(f"the workspace {str(given)!r} is a file, and no folder") from None
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(f"the workspace {str(given)!r} cannot be made: {error}") from error
    return folder


def _checked_readable(given: Any) -> Path:
    folder = Path(given).resolve()
    if not folder.exists():
        raise ConfigurationError(f"readable: there is no {str(given)!r}")
    if str(folder) in _TAKEN or str(folder).startswith(bubblewrap.MOUNT):
        raise ConfigurationError(f"readable: {str(folder)!r} cannot be shown inside as a whole")
    return folder
