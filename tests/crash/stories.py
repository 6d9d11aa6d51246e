"""The runs that are killed: agents of several steps with parallel tool calls, each made anew in every process."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.crash.diary import Diary, DiaryModel, WholeModel

from interpose import Agent, Middleware, ModelRequest, ToolContext, Usage, tool
from interpose.messages import ToolCall
from interpose.testing import calls, text

LAST = "done"
STEPS = 5
USAGE = Usage(input_tokens=10, output_tokens=1)


@dataclass(frozen=True)
class Output:
    """What a structured run gives."""

    city: str
    people: int


def tools(diary: Diary, who: str = "agent") -> list[Any]:
    """Return a tool for each effect, and one that a person must approve; they end at different moments."""

    @tool(effect="read", name="look")
    async def look(n: int) -> str:
        """Look."""
        diary(f"{who} ran look_{n} begins")
        diary(f"{who} ran look_{n} done")
        return f"looked {n}"

    @tool(effect="idempotent", name="place")
    async def place(ctx: ToolContext[Any], n: int) -> str:
        """Place it."""
        diary(f"key of place_{n} {ctx.idempotency_key}")
        diary(f"{who} ran place_{n} begins")
        await diary.gate(f"place_{n}")
        await asyncio.sleep(0.004)
        diary(f"{who} ran place_{n} done")
        return f"placed {n}"

    @tool(effect="write", name="mail")
    async def mail(n: int) -> str:
        """Mail it."""
        diary(f"{who} ran mail_{n} begins")
        await diary.gate(f"mail_{n}")
        await asyncio.sleep(0.002)
        diary(f"{who} ran mail_{n} done")
        return f"mailed {n}"

    @tool(effect="write", name="wire", approval=True)
    async def wire(n: int) -> str:
        """Wire it."""
        diary(f"{who} ran wire_{n} begins")
        await diary.gate(f"wire_{n}")
        await asyncio.sleep(0.002)
        diary(f"{who} ran wire_{n} done")
        return f"wired {n}"

    return [look, place, mail, wire]


def three_calls(n: int, *names: str) -> Any:
    """Return a turn that asks for the three tools at once, or for those of *names*."""
    asked = [ToolCall(f"{name}_{n}", name, {"n": n}) for name in names or ("look", "place", "mail")]
    return calls(*asked, text=f"step {n}", usage=USAGE)


def working(number: int, request: ModelRequest) -> Any:
    """Four steps with three calls each, then the end."""
    return text(LAST, usage=USAGE) if number == STEPS - 1 else three_calls(number)


def steps(diary: Diary, **options: Any) -> Agent[Any]:
    """Return the plain agent."""
    return Agent(WholeModel("agent", diary, working), tools=tools(diary), **options)


class Looks(Middleware[Any]):
    """Has layers round model and tools, so that calls begin one by one."""

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        return await call_next(request)

    async def before_tool_call(self, ctx: Any, call: Any) -> None:
        await asyncio.sleep(0)

    async def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
        await asyncio.sleep(0)


def layered(diary: Diary, **options: Any) -> Agent[Any]:
    """Return the plain agent with layers."""
    return Agent(WholeModel("agent", diary, working), tools=tools(diary), middleware=[Looks()], **options)


def approved(diary: Diary, **options: Any) -> Agent[Any]:
    """Return an agent whose "wire" a person must approve, in the second step and the fourth."""

    def turn(number: int, request: ModelRequest) -> Any:
        if number == STEPS - 1:
            return text(LAST, usage=USAGE)
        return three_calls(number, *(("look", "wire", "mail") if number % 2 else ("look", "place")))

    return Agent(WholeModel("agent", diary, turn), tools=tools(diary), **options)


def nested(diary: Diary, **options: Any) -> Agent[Any]:
    """Return an agent that asks a helper, twice and beside its own tools, which takes three steps each time."""
    return _nested(diary, "mail", options)


def nested_approved(diary: Diary, **options: Any) -> Agent[Any]:
    """Return the same where the helper uses "wire", which must be approved."""
    return _nested(diary, "wire", options)


def _nested(diary: Diary, write: str, options: dict[str, Any]) -> Agent[Any]:
    def inside(number: int, request: ModelRequest) -> Any:
        n = int(request.messages[0].text) + number
        if number == 2:
            return text(f"helped {n - number}", usage=USAGE)
        return three_calls(n, "look", write) if number else three_calls(n, "place", "look")

    def outside(number: int, request: ModelRequest) -> Any:
        if number == 3:
            return text(LAST, usage=USAGE)
        if number == 1:
            return three_calls(number)
        ask = ToolCall(f"ask_{number}", "helper", {"prompt": str(100 * (number + 1))})
        mail = ToolCall(f"mail_{number}", "mail", {"n": number})
        return calls(ask, mail, text=f"ask {number}", usage=USAGE)

    helper: Agent[Any] = Agent(WholeModel("helper", diary, inside), tools=tools(diary, "helper"), name="helper")
    own = [*tools(diary), helper.as_tool("helper", "Helps.")]
    return Agent(WholeModel("agent", diary, outside), tools=own, **options)


def structured(diary: Diary, **options: Any) -> Agent[Any]:
    """Return an agent with two steps of tools and an output by a call of its own, at first invalid."""

    def turn(number: int, request: ModelRequest) -> Any:
        if request.call_class == "structured_output":
            said = request.messages[-1].text
            return text('{"city": "Lyon", "people": 522}' if "no valid output" in said else '{"city": 3}', usage=USAGE)
        return text("enough", usage=USAGE) if number == 2 else three_calls(number)

    return Agent(WholeModel("agent", diary, turn), tools=tools(diary), output=Output, **options)


def streamed(diary: Diary, **options: Any) -> Agent[Any]:
    """Return the plain agent on a model that streams; its runs are read event by event."""
    return Agent(DiaryModel("agent", diary, working), tools=tools(diary), **options)


def streamed_approved(diary: Diary, **options: Any) -> Agent[Any]:
    """Return an agent whose runs are streamed, and pause."""
    return approved(diary, **options)


STORIES: dict[str, Callable[..., Agent[Any]]] = {
    made.__name__: made
    for made in (steps, layered, approved, nested, nested_approved, structured, streamed, streamed_approved)
}
