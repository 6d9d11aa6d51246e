"""An answer as a value: in the normal call where the model can, else by a call of its own."""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.lifecycle.play import add, agent, both, deltas, results_of

from interpose import (
    Agent,
    Interrupt,
    Middleware,
    OutputError,
    ProviderDown,
    RunAborted,
    Usage,
    on_config,
    on_structured_output_config,
    on_usage,
)
from interpose.testing import ScriptedModel, calls, fail, text


@dataclass
class City:
    name: str
    people: int


LYON = '{"name":"Lyon","people":520000}'
CALL = calls(("add", {"a": 1, "b": 2}))


def native(*turns: Any, **options: Any) -> Agent[Any]:
    model = ScriptedModel(*turns, native_structured_output=True)
    return agent(model=model, output=City, **options)


def by_call(*turns: Any, tools: Any = (add,), **options: Any) -> Agent[Any]:
    return agent(*turns, output=City, tools=tools, **options)


async def test_a_model_that_supports_it_is_called_once_with_the_schema() -> None:
    played = await both(lambda log: native(text(LYON)))
    assert played.result.output == City("Lyon", 520000)
    assert len(played.requests) == 1
    assert "people" in str(played.requests[0].output_schema)


async def test_another_model_is_asked_for_the_structure_after_its_loop() -> None:
    played = await both(lambda log: by_call(CALL, text("It is Lyon."), text(LYON)))
    assert played.result.output == City("Lyon", 520000)
    assert [request.call_class for request in played.requests] == ["agent", "agent", "structured_output"]
    assert [request.output_schema is not None for request in played.requests] == [False, False, True]
    assert results_of(played.requests[2].messages) == ["3"]
    assert len(played.result.steps) == 2
    assert played.result.text == played.result.messages[-1].text == LYON


async def test_without_tools_only_the_structure_is_asked_for() -> None:
    played = await both(lambda log: by_call(text(LYON), tools=()))
    assert [request.call_class for request in played.requests] == ["structured_output"]
    assert played.result.output == City("Lyon", 520000)


async def test_its_config_is_asked_first_and_the_common_one_after_it() -> None:
    class Configs(Middleware):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def on_structured_output_config(self, ctx: Any, config: Any) -> None:
            self.log.append(("own", config.output_schema is not None))

        def on_config(self, ctx: Any, config: Any) -> None:
            self.log.append((ctx.phase, config.output_schema is not None))

    played = await both(lambda log: by_call(text("Lyon"), text(LYON), middleware=[Configs(log)]))
    assert played.log == [
        ("init", False),
        ("before_model", False),
        ("own", True),
        ("structured_output", True),
    ]


async def test_a_hook_can_add_a_field_to_the_schema() -> None:
    def more(ctx: Any, config: Any) -> Any:
        fields = {**config.output_schema["properties"], "river": {"type": "string"}}
        return config.replace(output_schema={**config.output_schema, "properties": fields})

    played = await both(lambda log: by_call(text(LYON), tools=(), middleware=[on_structured_output_config(more)]))
    assert "river" in played.requests[0].output_schema["properties"]


async def test_a_hook_can_take_the_instructions_off_that_call_alone() -> None:
    bare = on_structured_output_config(lambda ctx, config: config.replace(instructions=""))
    played = await both(
        lambda log: by_call(CALL, text("Lyon"), text(LYON), instructions="Be brief.", middleware=[bare])
    )
    assert [request.instructions for request in played.requests] == ["Be brief.", "Be brief.", ""]


async def test_a_hook_that_returns_nothing_changes_nothing() -> None:
    quiet = on_structured_output_config(lambda ctx, config: None)
    with_it = await both(lambda log: by_call(text("Lyon"), text(LYON), middleware=[quiet]))
    without = await both(lambda log: by_call(text("Lyon"), text(LYON)))
    assert with_it.requests[1].fingerprint() == without.requests[1].fingerprint()


@pytest.mark.parametrize("make", [native, by_call], ids=["native", "by call"])
async def test_the_structure_stands_between_its_marks_in_the_stream(make: Any) -> None:
    turns = [text(LYON)] if make is native else [text("It is Lyon."), text(LYON)]
    events = (await both(lambda log: make(*turns))).events
    names = [event.name if event.type == "CUSTOM" else event.type for event in events]
    assert names.count("RUN_STARTED") == names.count("RUN_FINISHED") == 1
    assert names[-1] == "RUN_FINISHED"
    begin, end = names.index("structured-output.start"), names.index("structured-output.complete")
    assert deltas(events[begin:end]) == [LYON]


async def test_a_provider_that_fails_in_that_call_fails_the_run() -> None:
    played = await both(lambda log: by_call(text("Lyon"), fail(ProviderDown("gone"))))
    assert isinstance(played.error, ProviderDown)
    assert played.endings == ["on_error"]


@pytest.mark.parametrize("make", [native, by_call], ids=["native", "by call"])
async def test_an_answer_that_does_not_fit_is_sent_back_once_with_what_is_wrong(make: Any) -> None:
    bad = '{"name":"Lyon"}'
    turns = [text(bad), text(LYON)] if make is native else [text("It is Lyon."), text(bad), text(LYON)]
    played = await both(lambda log: make(*turns))
    assert played.result.output == City("Lyon", 520000)
    sent = [message.text for message in played.requests[-1].messages]
    assert bad in sent
    assert "people" in sent[-1]


async def test_an_answer_that_never_fits_fails_with_its_text() -> None:
    played = await both(lambda log: by_call(text("It is Lyon."), text("no json"), text("still none")))
    assert isinstance(played.error, OutputError)
    assert played.error.raw == "still none"
    assert played.endings == ["on_error"]
    assert "structured-output.complete" not in [getattr(event, "name", "") for event in played.events]


@pytest.mark.parametrize("retries", [0, 2])
async def test_the_number_of_retries_is_the_agents(retries: int) -> None:
    turns = [text("no json") for _ in range(retries + 1)]
    played = await both(lambda log: by_call(*turns, tools=(), output_retries=retries))
    assert isinstance(played.error, OutputError)
    assert len(played.requests) == retries + 1


async def test_the_usage_of_that_call_is_told_and_counted() -> None:
    used = Usage(input_tokens=1, output_tokens=1)
    tell = on_usage
    played = await both(
        lambda log: by_call(
            text("Lyon", usage=used),
            text(LYON, usage=used),
            middleware=[tell(lambda ctx, usage: log.append((ctx.phase, usage.total_tokens)))],
        )
    )
    assert [total for _, total in played.log] == [2, 2]
    assert played.result.usage.total_tokens == 4


async def test_an_abort_at_its_first_event_has_its_phase() -> None:
    class Stops(Middleware):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        def on_chunk(self, ctx: Any, event: Any) -> None:
            if ctx.phase == "structured_output":
                ctx.abort("no structure")

        def on_abort(self, ctx: Any, info: Any) -> None:
            self.log.append((ctx.phase, info.reason))

    played = await both(lambda log: by_call(text("Lyon"), text(LYON), middleware=[Stops(log)]))
    assert played.log == [("structured_output", "no structure")]
    assert isinstance(played.error, RunAborted)


Review = Interrupt[Any, Any]("review")


async def test_a_paused_run_is_not_asked_for_its_structure() -> None:
    class Asks(Middleware):
        interrupts = (Review,)

        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return [Review.request("one", "Look?")] if ctx.phase == "after_model" else None

    played = await both(lambda log: by_call(text("Lyon"), middleware=[Asks()]))
    assert played.result.status == "interrupted"
    assert len(played.requests) == 1
    assert played.result.output is None


async def test_a_schema_gives_plain_values() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    played = await both(lambda log: agent(text('{"n":1}'), output=schema))
    assert played.result.output == {"n": 1}


async def test_the_common_config_can_change_the_schema_of_that_call() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    def swap(ctx: Any, config: Any) -> Any:
        return config.replace(output_schema={**schema, "title": "N"}) if ctx.phase == "structured_output" else None

    played = await both(lambda log: agent(text('{"n":1}'), output=schema, middleware=[on_config(swap)]))
    assert played.requests[0].output_schema["title"] == "N"


async def test_that_call_passes_the_model_seam() -> None:
    class Watches(Middleware):
        def __init__(self, log: list[Any]) -> None:
            self.log = log

        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            self.log.append(request.call_class)
            return await call_next(request)

    played = await both(lambda log: by_call(text("Lyon"), text(LYON), middleware=[Watches(log)]))
    assert played.log == ["agent", "structured_output"]
