"""Structured output: asked for once, validated once, taken from the final answer and from nothing older."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import msgspec
import pytest
from tests.layers.play import agent_of, both, echo, roles

from interpose import Middleware, OutputError
from interpose.testing import ScriptedModel, calls, event_types, text

ONE = ("echo", {"x": "1"})


@dataclass
class City:
    """A city."""

    name: str
    people: int


GOOD = '{"name": "Lyon", "people": 3}'


def native(*turns: Any) -> ScriptedModel:
    return ScriptedModel(*turns, native_structured_output=True)


async def test_a_model_that_can_gets_the_schema_in_the_normal_call() -> None:
    played = await both(lambda log: agent_of(model=native(text(GOOD)), output=City))
    assert played.result.output == City("Lyon", 3)
    assert len(played.requests) == 1
    assert played.requests[0].output_schema is not None


async def test_a_model_that_cannot_gets_a_final_call_after_the_loop() -> None:
    turns = [calls(ONE), text("done"), text(GOOD)]
    played = await both(lambda log: agent_of(*turns, tools=[echo], output=City))
    assert played.result.output == City("Lyon", 3)
    assert [sent.call_class for sent in played.requests] == ["agent", "agent", "structured_output"]
    assert (played.requests[0].output_schema, played.requests[2].tools) == (None, ())
    assert len(played.result.steps) == 2
    assert roles(played.result.messages)[-1] == "assistant"
    assert played.result.messages[-1].text == GOOD
    assert played.result.text == GOOD


async def test_without_tools_the_loop_is_skipped() -> None:
    played = await both(lambda log: agent_of(text(GOOD), output=City))
    assert len(played.requests) == 1
    assert played.result.output == City("Lyon", 3)
    assert played.result.steps == ()


async def test_the_events_of_the_output_are_bracketed_and_before_the_end() -> None:
    played = await both(lambda log: agent_of(text(GOOD), output=City))
    names = [event.name for event in played.events if event.type == "CUSTOM"]
    assert names == ["structured-output.start", "structured-output.complete"]
    assert event_types(played.events)[-1] == "RUN_FINISHED"


@pytest.mark.parametrize("make", [native, ScriptedModel], ids=["native", "own call"])
@pytest.mark.parametrize(
    "bad", ["no json", '{"name": "Lyon"}', '{"name": 3, "people": "x"}', "", "[]", "null"], ids=repr
)
async def test_invalid_output_is_sent_back_with_what_is_wrong(make: Any, bad: str) -> None:
    played = await both(lambda log: agent_of(model=make(text(bad), text(GOOD)), output=City))
    assert played.result.output == City("Lyon", 3)
    assert played.requests[1].messages[-1].role == "user"
    assert roles(played.result.messages).count("user") == 1


@pytest.mark.parametrize("make", [native, ScriptedModel], ids=["native", "own call"])
async def test_output_that_stays_invalid_is_an_error_with_the_raw_text(make: Any) -> None:
    played = await both(lambda log: agent_of(model=make(text("bad 1"), text("bad 2")), output=City))
    assert isinstance(played.error, OutputError)
    assert played.error.raw == "bad 2"
    assert played.end == "on_error"


async def test_no_retries_means_one_answer() -> None:
    played = await both(lambda log: agent_of(model=native(text("bad")), output=City, output_retries=0))
    assert isinstance(played.error, OutputError)
    assert len(played.requests) == 1


async def test_text_said_beside_a_call_is_never_the_output() -> None:
    turns = [calls(ONE, text='{"name": "Old", "people": 1}'), text("", reasoning="hmm"), text(GOOD)]
    played = await both(lambda log: agent_of(model=native(*turns), tools=[echo], output=City))
    assert played.result.output == City("Lyon", 3)


async def test_reading_the_result_twice_gives_the_same_value() -> None:
    agent = agent_of(model=native(text(GOOD)), output=City)
    async with agent.stream("go") as run:
        first, second = await run.result(), await run.result()
    assert first.output is second.output


class Optional(msgspec.Struct):
    a: int
    c: str | None
    b: str = "default"


async def test_null_for_an_optional_field_is_its_default_and_for_a_nullable_one_none() -> None:
    played = await both(lambda log: agent_of(model=native(text('{"a": 1, "b": null, "c": null}')), output=Optional))
    assert played.result.output == Optional(a=1, c=None, b="default")


async def test_null_for_an_optional_argument_is_its_default() -> None:
    async def work(a: int, c: str | None, b: str = "default") -> list[Any]:
        """Work."""
        return [a, b, c]

    played = await both(lambda log: agent_of(calls(("work", {"a": 1, "b": None, "c": None})), text("x"), tools=[work]))
    assert played.result.steps[0].tool_results[0].data == [1, "default", None]


async def test_elements_of_a_list_are_converted() -> None:
    played = await both(lambda log: agent_of(model=native(text('["2024-01-02"]')), output=list[date]))
    assert played.result.output == [date(2024, 1, 2)]


async def test_numbers_as_text_are_taken_leniently() -> None:
    played = await both(lambda log: agent_of(model=native(text('{"name": "Lyon", "people": "3"}')), output=City))
    assert played.result.output == City("Lyon", 3)


async def test_a_fence_round_the_json_is_no_fault() -> None:
    played = await both(lambda log: agent_of(model=native(text(f"```json\n{GOOD}\n```")), output=City))
    assert played.result.output == City("Lyon", 3)


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_json_schema_gives_a_plain_dict_and_is_checked() -> None:
    played = await both(lambda log: agent_of(model=native(text('{"n": "x"}'), text('{"n": 1}')), output=SCHEMA))
    assert played.result.output == {"n": 1}
    assert len(played.requests) == 2


async def test_the_config_of_the_output_call_is_piped_with_its_phase_and_schema() -> None:
    def make(log: list[Any]) -> Any:
        class Config(Middleware):
            def on_structured_output_config(self, ctx: Any, config: Any) -> Any:
                log.append(("output", ctx.phase, config.output_schema is not None))
                return config.replace(instructions="in JSON")

            def on_config(self, ctx: Any, config: Any) -> None:
                log.append((ctx.phase, config.instructions))

        return agent_of(text(GOOD), output=City, middleware=[Config()])

    played = await both(make)
    assert played.log == [
        ("init", ""), ("output", "structured_output", True), ("structured_output", "in JSON"),
    ]  # fmt: skip
    assert played.requests[0].instructions == "in JSON"


async def test_the_output_call_passes_the_model_seam() -> None:
    def make(log: list[Any]) -> Any:
        async def note(ctx: Any, request: Any, call_next: Any) -> Any:
            log.append(request.call_class)
            return await call_next(request)

        return agent_of(text(GOOD), output=City, middleware=[note])

    assert (await both(make)).log == ["structured_output"]


async def test_generate_of_a_hook_is_plain_counted_and_never_shown() -> None:
    from interpose import Limits, Usage

    def make(log: list[Any]) -> Any:
        class Sums(Middleware):
            async def before_model_call(self, ctx: Any, request: Any) -> None:
                response = await ctx.generate("sum up")
                log.append((response.text, ctx.usage.total_tokens))

        turns = [text("SUMMARY", usage=Usage(input_tokens=7, output_tokens=1)), text(GOOD)]
        return agent_of(
            model=native(*turns), tools=[echo], output=City, middleware=[Sums()], limits=Limits(max_model_calls=2)
        )

    played = await both(make)
    assert played.log == [("SUMMARY", 8)]
    inner = played.requests[0]
    assert (inner.call_class, inner.tools, inner.output_schema, inner.settings.tool_choice) == (
        "summary",
        (),
        None,
        None,
    )
    assert "SUMMARY" not in "".join(event.to_json() for event in played.events)
    assert played.result.usage.total_tokens == 8


async def test_generate_passes_no_layer_and_is_recorded() -> None:
    kinds: list[str] = []
    passes: list[str] = []

    class Sums(Middleware):
        async def on_start(self, ctx: Any) -> None:
            await ctx.generate([{"role": "user", "content": "sum up"}])

        def on_node(self, ctx: Any, node: Any) -> None:
            if node.phase == "end":
                kinds.append(node.kind)

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            passes.append(request.call_class)
            return await call_next(request)

    await agent_of(text("SUMMARY"), text("x"), middleware=[Sums()]).run("go")
    assert passes == ["agent"]
    assert kinds == ["model", "model", "step", "run"]


async def test_an_empty_text_for_a_text_only_run_is_fine() -> None:
    played = await both(lambda log: agent_of(text("")))
    assert (played.result.text, played.result.output) == ("", None)
