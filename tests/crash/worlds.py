"""A world of one process and its store, which may be left at any moment as if the process had been killed there.

The process itself lives on, so that its end is seen too; what goes on does so from what was written by that moment.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from interpose import Agent, Interrupt, Middleware, Pause, Usage, tool
from interpose.builtin import Approval
from interpose.stores import MemoryStore
from interpose.testing import ScriptedModel, calls, text

Step = tuple[tuple[str, str], ...]
"""What a model asks for in one step: names of tools, and which call it is."""
Plan = Callable[[str], tuple[Step, ...]]
"""The steps of the run that a prompt begins; after them comes a text."""
COST = Usage(input_tokens=1)
REVIEW = Interrupt[Any, bool]("review", response=bool)
ONCE = ("write", "behind", "before", "alone", "pay", "rule")
"""Tools whose calls run once, unless a person says that they may run again."""
ASKED = ("pay", "rule", "read_secret")


class Writes(MemoryStore):
    """Keeps what was written to it, to be written to another one."""

    def __init__(self, moment: Callable[[str], None]) -> None:
        super().__init__()
        self.moment = moment
        self.done: list[tuple[str, Any, Any]] = []

    async def put(self, *given: Any, **options: Any) -> None:
        await self._write("put", given, options)

    async def commit(self, *given: Any, **options: Any) -> None:
        await self._write("commit", given, options)

    async def save_state(self, *given: Any, **options: Any) -> None:
        await self._write("save_state", given, options)

    async def drop(self, *given: Any, **options: Any) -> None:
        await self._write("drop", given, options)

    async def _write(self, name: str, given: Any, options: Any) -> None:
        self.moment(f"before {name}")
        await getattr(MemoryStore, name)(self, *given, **options)
        self.done.append((name, given, options))
        self.moment(f"after {name}")


class World:
    """What one process has done, and what would be left if it had been killed at the moment `dies_at`."""

    def __init__(self, deaths: int = 0, log: tuple[Any, ...] = (), said: tuple[Any, ...] = ()) -> None:
        self.deaths = deaths
        self.log: list[tuple[str, str]] = list(log)
        self.said: list[tuple[str, str, str]] = list(said)
        self.ends: dict[str, list[str]] = defaultdict(list)
        self.store = Writes(self.moment)
        self.dies_at: int | None = None
        self.left: tuple[str, list[Any], tuple[Any, ...], tuple[Any, ...]] | None = None

    def moment(self, name: str) -> None:
        """Pass a moment; the one at which it dies leaves what there is."""
        if self.dies_at is None or self.left is not None:
            return
        if self.dies_at == 0:
            self.left = (name, list(self.store.done), tuple(self.log), tuple(self.said))
        self.dies_at -= 1

    async def after_death(self) -> "World":
        """Return the world that was left; claims have lapsed in it."""
        assert self.left is not None
        _, writes, log, said = self.left
        world = World(self.deaths + 1, log, said)
        for name, given, options in writes:
            await getattr(MemoryStore, name)(world.store, *given, **options)
            world.store.done.append((name, given, options))
        return world

    def faults(self) -> list[str]:
        """Return what was done that must not be, or more often than it may be."""
        found = []
        for (name, at), times in Counter(self.log).items():
            yes = self.said.count(("approved", name, at))
            most = 1 if name in ONCE else 1 + self.deaths
            if name in ASKED:
                most = yes if name in ONCE else yes and yes + self.deaths
            if times > most:
                found.append(f"{name} {at} ran {times} times, and may {most} times after {self.deaths} deaths")
        return found + [f"run {run} ended as {ends}" for run, ends in self.ends.items() if len(ends) != 1]


class Ends(Middleware):
    nested = True

    def __init__(self, world: World) -> None:
        self.world = world

    def setup(self, ctx: Any) -> None:
        self.world.ends[ctx.run_id] = []

    def on_finish(self, ctx: Any, info: Any) -> None:
        self.world.ends[ctx.run_id].append("finish")

    def on_abort(self, ctx: Any, info: Any) -> None:
        self.world.ends[ctx.run_id].append("abort")

    def on_error(self, ctx: Any, info: Any) -> None:
        self.world.ends[ctx.run_id].append("error")


class Gates(Middleware):
    """Pauses in front of each call of `before`, and behind each of `behind`; asks at *phase* of every second step."""

    interrupts = (REVIEW,)

    def __init__(self, phase: str | None = None) -> None:
        self.phase = phase

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        if call.name == "before" and ctx.answer("before?") is None:
            return Pause("before?")
        result = await call_next(call)
        return Pause("behind?") if call.name == "behind" and ctx.answer("behind?") is None else result

    def on_interrupt_boundary(self, ctx: Any) -> Any:
        return [REVIEW.request("one"), REVIEW.request("two")] if ctx.phase == self.phase and ctx.step % 2 else None


def agent_in(world: World, plan: Plan, phase: str | None = None, name: str = "outer", **options: Any) -> Agent[Any]:
    """Return an agent whose model follows *plan*; `helper` is another one, which does so too."""
    tools = [_tool(world, one, effect) for one, effect in _TOOLS.items()]
    if name == "outer":
        helper = agent_in(world, plan, name="inner")
        tools.append(helper.as_tool("helper", "Helps."))
        options = {"store": world.store, **options}
    rules = Approval([Approval.ask("rule"), Approval.ask("never", at="x")])
    layers = [Ends(world), rules, Gates(phase)] if name == "outer" else [Gates()]
    return Agent(_model(world, plan), name=name, tools=tools, middleware=layers, **options)


_TOOLS = {
    "write": "write",
    "read": "read",
    "idempotent": "idempotent",
    "pay": "write",
    "rule": "write",
    "read_secret": "read",
    "before": "write",
    "behind": "write",
    "alone": "write",
    "never": "write",
}


def _tool(world: World, name: str, effect: Any) -> Any:
    async def body(at: str) -> str:
        """Do it."""
        world.log.append((name, at))
        world.moment(f"in {name}")
        await asyncio.sleep(0)
        world.moment(f"at the end of {name}")
        return f"did {name} {at}"

    return tool(name=name, approval=name in ("pay", "read_secret"), effect=effect, alone=name == "alone")(body)


def _model(world: World, plan: Plan) -> ScriptedModel:
    def turn(request: Any) -> Any:
        world.moment("in the model call")
        place = max(place for place, message in enumerate(request.messages) if message.role == "user")
        prompt = request.messages[place].text
        number = sum(message.role == "assistant" for message in request.messages[place:])
        steps = plan(prompt)
        if number >= len(steps):
            return text(f"end of {prompt}", usage=COST)
        asked = [(name, {"prompt" if name == "helper" else "at": at}) for name, at in steps[number]]
        return calls(*asked, text=f"step {number} ", usage=COST)

    return ScriptedModel(*[turn] * 300)
