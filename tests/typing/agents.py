"""Uses of agents that must type-check; nothing here is run."""

from dataclasses import dataclass
from typing import assert_type

from interpose import Agent, Limits, ModelSettings, RunContext, RunResult, ToolContext, UserMessage, tool
from interpose.events import TextMessageContentEvent
from interpose.testing import ScriptedModel, calls, text


@dataclass
class User:
    name: str


@tool
async def population(city: str) -> int:
    """Return how many people live in a city."""
    return len(city)


@tool(name="greet", effect="read")
def greet(ctx: ToolContext[User], greeting: str = "Hello") -> str:
    """Greet the user."""
    return f"{greeting}, {ctx.context.name}"


async def runs() -> None:
    agent = Agent(
        "openai:gpt-5.5",
        instructions="Be brief.",
        tools=[population, greet],
        settings=ModelSettings(temperature=0),
        limits=Limits(max_steps=5, on_exceeded="raise"),
        name="cities",
    )
    result = await agent.run("How many people live in Lyon?", context=User("Ada"))
    assert_type(result, RunResult)
    assert_type(result.text, str)
    await agent.run([UserMessage("And in Nice?"), {"role": "user", "content": "?"}], thread_id="t1")
    assert_type(agent.run_sync("..."), RunResult)


async def streams(agent: Agent) -> str:
    said = ""
    async with agent.stream("And in Nice?", thread_id="t1") as run:
        async for event in run:
            if isinstance(event, TextMessageContentEvent):
                said += event.delta
        assert_type(await run.result(), RunResult)
    return said


async def scripted(agent: Agent) -> None:
    script = ScriptedModel(calls(("population", {"city": "Lyon"})), text("522,000"))
    with agent.override(model=script):
        await agent.run("?")
    async with agent, agent.copy(name="other") as other:
        assert_type(other, Agent)
        other.explain()


def reads(ctx: RunContext[User]) -> str:
    return assert_type(ctx.context, User).name
