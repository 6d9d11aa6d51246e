"""What is told: names of the conventions, tokens once, content only where it is asked for, metrics."""

import json
import sys
from typing import Any

import pytest
from tests.telemetry.memory import Memory, attributes, is_error, texts

from interpose import (
    Agent,
    ConfigurationError,
    Middleware,
    ModelProfile,
    ModelSettings,
    ProviderDown,
    Usage,
    UserMessage,
    tool,
)
from interpose.telemetry import OpenTelemetry
from interpose.telemetry.conventions import GENAI_V0_1_0, V1_41_0, conventions_of
from interpose.testing import ScriptedModel, calls, fail, text

USED = Usage(100, 20, cache_read_tokens=40, cache_write_tokens=10, reasoning_tokens=5)
RUN, MODEL = "invoke_agent agent", "chat scripted"


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


def agent_of(memory: Memory, *turns: Any, content: bool = False, **options: Any) -> Agent[Any]:
    middleware = [*options.pop("more", ()), memory.telemetry(content=content)]
    model = ScriptedModel(*turns, **options.pop("model", {}))
    return Agent(model, middleware=middleware, post_model_hooks=(), **options)


def sums(memory: Memory) -> tuple[int, int]:
    """The tokens in and out, summed over all spans by the names of the conventions."""
    names = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
    read, said = [sum(attributes(one).get(name, 0) for one in memory.spans) for name in names]
    return read, said


# Names.


async def test_spans_have_the_names_kinds_and_ids_of_the_conventions(memory: Memory) -> None:
    agent = agent_of(memory, calls(("look", {"where": "x"})), text("end", usage=USED), tools=[look], name="guide")
    result = await agent.run("go", thread_id="t1")
    run, chat, tools = memory.named("invoke_agent guide"), memory.of("chat")[1], memory.named("execute_tool look")
    assert [one.kind.name for one in (run, chat, tools)] == ["INTERNAL", "CLIENT", "INTERNAL"]
    assert {attributes(one)["gen_ai.conversation.id"] for one in memory.spans} == {"t1"}
    assert {attributes(one)["interpose.run_id"] for one in memory.spans} == {result.run_id}
    assert attributes(run)["gen_ai.agent.name"] == "guide"
    assert attributes(tools)["gen_ai.tool.call.id"] == result.steps[0].response.tool_calls[0].id
    assert attributes(tools)["gen_ai.tool.name"] == "look"
    assert attributes(chat)["gen_ai.response.finish_reasons"] == ("stop",)
    assert [attributes(one)["interpose.step"] for one in memory.of("chat")] == [0, 1]


async def test_by_default_old_and_new_names_of_the_provider_are_there(memory: Memory) -> None:
    await agent_of(memory, text("x", usage=USED), model={"provider": "google"}).run("go")
    told = attributes(memory.named(MODEL))
    assert (told["gen_ai.provider.name"], told["gen_ai.system"]) == ("gcp.gemini", "gcp.gemini")
    assert told["gen_ai.usage.cache_creation.input_tokens"] == 10
    assert attributes(memory.named(RUN))["gen_ai.provider.name"] == "gcp.gemini"
    scope = memory.spans[0].instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.schema_url) == ("interpose", "https://opentelemetry.io/schemas/1.41.0")


async def test_who_opts_in_gets_the_latest_names_and_no_older_one(latest: Memory) -> None:
    await agent_of(latest, text("x", usage=USED), model={"provider": "google"}).run("go")
    told = attributes(latest.named(MODEL))
    assert told["gen_ai.provider.name"] == "gcp.gemini"
    assert told["gen_ai.usage.cache_write.input_tokens"] == 10
    assert not [name for name in told if name in ("gen_ai.system", "gen_ai.usage.cache_creation.input_tokens")]
    assert "gen_ai.provider.name" not in attributes(latest.named(RUN))


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("", V1_41_0),
        ("http/dup,database", V1_41_0),
        ("gen_ai_latest_experimental", GENAI_V0_1_0),
        ("http, gen_ai_latest_experimental ,database", GENAI_V0_1_0),
        ("gen_ai_latest_experimental_not", V1_41_0),
    ],
)
def test_the_variable_chooses_the_version(variable: str, expected: Any) -> None:
    assert conventions_of({"OTEL_SEMCONV_STABILITY_OPT_IN": variable}) is expected


async def test_a_model_that_a_layer_chose_names_the_span(memory: Memory) -> None:
    class Chooses(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return request.with_model("other")

    await agent_of(memory, text("x"), more=[Chooses()]).run("go")
    assert attributes(memory.named("chat other"))["gen_ai.request.model"] == "other"


async def test_what_middleware_writes_with_meta_is_told(memory: Memory) -> None:
    class Notes(Middleware):
        async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
            ctx.meta(cache_hit=True, took=3, why="seen", nested={"a": "secret"})
            return await call_next(call)

    turns = (calls(("look", {"where": "x"})), text("end"))
    await agent_of(memory, *turns, tools=[look], more=[Notes()]).run("go")
    told = attributes(memory.named("execute_tool look"))
    found = {name: value for name, value in told.items() if name.startswith("interpose.meta")}
    assert found == {"interpose.meta.cache_hit": True, "interpose.meta.took": 3, "interpose.meta.why": "seen"}


# Tokens.


async def test_tokens_summed_over_spans_are_those_of_each_run(memory: Memory) -> None:
    turns = [calls(("look", {"where": "x"}), usage=USED), text("end", usage=Usage(7, 3))]
    agent = agent_of(memory, *turns, *turns, tools=[look])
    for _ in range(2):
        memory.exporter.clear()
        result = await agent.run("go")
        told = attributes(memory.named(RUN))
        assert sums(memory) == (result.usage.input_tokens, result.usage.output_tokens) == (107, 23)
        assert (told["interpose.usage.input_tokens"], told["interpose.usage.output_tokens"]) == (107, 23)


async def test_tokens_of_nested_runs_are_counted_once_and_are_in_both_sums(memory: Memory) -> None:
    inner: Agent[Any] = Agent(ScriptedModel(text("x", usage=Usage(5, 5))), name="inner")
    turns = (calls(("ask", {"prompt": "x"}), usage=Usage(1, 1)), text("end", usage=Usage(2, 2)))
    result = await agent_of(memory, *turns, tools=[inner.as_tool("ask", "Ask.")]).run("go")
    assert sums(memory) == (8, 8) == (result.usage.input_tokens, result.usage.output_tokens)
    assert attributes(memory.named(RUN))["interpose.usage.input_tokens"] == 8
    assert attributes(memory.named("invoke_agent inner"))["interpose.usage.input_tokens"] == 5


async def test_the_call_for_the_output_and_those_of_middleware_have_spans_and_are_in_the_sum(memory: Memory) -> None:
    class Sums(Middleware):
        async def on_step(self, ctx: Any, info: Any) -> None:
            await ctx.generate("Sum up.")

    turns = (text("sum", usage=Usage(1, 1)), text("7", usage=Usage(2, 2)), text("7", usage=Usage(4, 4)))
    result = await agent_of(memory, *turns, tools=[look], output=int, more=[Sums()]).run("go")
    classes = [attributes(one).get("interpose.call_class", "agent") for one in memory.of("chat")]
    assert (result.output, classes) == (7, ["summary", "agent", "structured_output"])
    assert attributes(memory.of("chat")[2])["gen_ai.output.type"] == "json"
    assert sums(memory) == (7, 7) == (result.usage.input_tokens, result.usage.output_tokens)


async def test_attempts_of_a_call_are_one_span_with_the_tokens_of_all(memory: Memory) -> None:
    class Retries(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            try:
                return await call_next(request)
            except ProviderDown:
                return await call_next.again(request)

    from interpose import UsageUpdate

    turns = (fail(ProviderDown("x"), after=[UsageUpdate(Usage(3, 1))]), text("ok", usage=Usage(3, 2)))
    await agent_of(memory, *turns, more=[Retries()]).run("go")
    told = attributes(memory.named(MODEL))
    assert (told["interpose.attempts"], told["gen_ai.usage.output_tokens"]) == (2, 3)
    assert not is_error(memory.named(MODEL))


async def test_an_answer_that_a_layer_made_up_costs_nothing_and_is_told_as_such(memory: Memory) -> None:
    class Answers(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return request.answer("made up").replace(usage=USED)

    await agent_of(memory, more=[Answers()]).run("go")
    assert attributes(memory.named(MODEL))["interpose.made_by"] == "Answers"
    assert sums(memory) == (0, 0)
    assert "gen_ai.client.operation.duration" not in memory.metrics()


async def test_usage_that_nobody_told_is_left_out_and_no_zero(memory: Memory) -> None:
    await agent_of(memory, text("x")).run("go")
    assert not [name for one in memory.spans for name in attributes(one) if "usage" in name]


async def test_the_cost_is_told_where_it_is_known(memory: Memory) -> None:
    profile = ModelProfile(input_price=1e6, output_price=0.0)
    await agent_of(memory, text("x", usage=Usage(3, 1)), model={"profile": profile}).run("go")
    assert attributes(memory.named(MODEL))["interpose.cost_usd"] == 3
    assert attributes(memory.named(RUN))["interpose.usage.cost_usd"] == 3


# Content.

SECRETS = ("prompt-words", "instruction-words", "answer-words", "argument-words", "result-words", "failure-words")


@tool
async def search(query: str) -> str:
    """Search."""
    if query == "break":
        raise OSError("failure-words")
    return "result-words"


def wordy(memory: Memory, content: bool) -> Agent[Any]:
    turns = (calls(("search", {"query": "argument-words"}), ("search", {"query": "break"})), text("answer-words"))
    return agent_of(memory, *turns, tools=[search], instructions="instruction-words", content=content)


async def test_by_default_no_content_leaves(memory: Memory) -> None:
    await wordy(memory, content=False).run("prompt-words")
    assert [word for word in SECRETS if word in texts(memory.spans)] == []
    failing = agent_of(memory, fail(ProviderDown("failure-words")))
    with pytest.raises(ProviderDown):
        await failing.run("prompt-words")
    assert [word for word in SECRETS if word in texts(memory.spans)] == []


async def test_content_stays_out_also_where_another_reader_has_it(memory: Memory) -> None:
    class Reads(Middleware):
        def on_node(self, ctx: Any, node: Any) -> None:
            pass

    turns = (calls(("search", {"query": "argument-words"})), text("answer-words"))
    await agent_of(memory, *turns, tools=[search], more=[Reads()]).run("prompt-words")
    assert [word for word in SECRETS if word in texts(memory.spans)] == []


async def test_content_is_told_where_it_is_asked_for(memory: Memory) -> None:
    await wordy(memory, content=True).run("prompt-words")
    assert [word for word in SECRETS if word not in texts(memory.spans)] == []
    first, second = memory.of("chat")
    told = {name: json.loads(value) for name, value in attributes(second).items() if str(value)[:2] == "[{"}
    calls_made = attributes(first)["gen_ai.output.messages"]
    made = [part for part in json.loads(calls_made)[0]["parts"] if part["type"] == "tool_call"]
    assert made[0] == {
        "type": "tool_call",
        "id": made[0]["id"],
        "name": "search",
        "arguments": {"query": "argument-words"},
    }
    assert told["gen_ai.system_instructions"] == [{"type": "text", "content": "instruction-words"}]
    assert told["gen_ai.input.messages"][0] == {
        "role": "user",
        "parts": [{"type": "text", "content": "prompt-words"}],
    }
    assert told["gen_ai.input.messages"][2]["parts"][0] == {
        "type": "tool_call_response",
        "id": made[0]["id"],
        "response": "result-words",
    }
    assert told["gen_ai.output.messages"][0]["finish_reason"] == "stop"
    assert told["gen_ai.tool.definitions"][0]["name"] == "search"
    ran = attributes(memory.of("execute_tool")[0])
    assert json.loads(ran["gen_ai.tool.call.arguments"]) == {"query": "argument-words"}
    assert ran["gen_ai.tool.call.result"] == "result-words"


async def test_content_is_redacted_and_settings_are_told_with_it(memory: Memory) -> None:
    key = "sk-" + "a1b2c3d4" * 4
    agent = agent_of(
        memory, text(f"the key is {key}"), content=True, settings=ModelSettings(max_tokens=9, stop=("END",))
    )
    result = await agent.run([UserMessage(f"My key: {key}")])
    assert key in result.text
    assert key not in texts(memory.spans)
    told = attributes(memory.named(MODEL))
    assert (told["gen_ai.request.max_tokens"], told["gen_ai.request.stop_sequences"]) == (9, ("END",))


# Metrics.


async def test_metrics_are_those_of_the_conventions(memory: Memory) -> None:
    turns = (calls(("look", {"where": "x"}), usage=USED), text("end", usage=USED))
    await agent_of(memory, *turns, tools=[look]).run("go")
    found = memory.metrics()
    assert set(found) == {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"}
    (duration,) = found["gen_ai.client.operation.duration"]
    assert duration.count == 2
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.system": "scripted",
        "gen_ai.request.model": "scripted",
    }
    kinds = {one.attributes["gen_ai.token.type"]: one.sum for one in found["gen_ai.client.token.usage"]}
    assert kinds == {"input": 200, "output": 40}


async def test_metrics_of_the_latest_conventions(latest: Memory) -> None:
    turns = (calls(("look", {"where": "x"}), usage=USED), text("end", usage=USED))
    await agent_of(latest, *turns, tools=[look]).run("go")
    found = latest.metrics()
    usage = {name: points[0].value for name, points in found.items() if ".usage." in name}
    assert usage == {
        "gen_ai.client.inference.usage.input_tokens": 200,
        "gen_ai.client.inference.usage.output_tokens": 40,
        "gen_ai.client.inference.usage.cache_read.input_tokens": 80,
        "gen_ai.client.inference.usage.cache_write.input_tokens": 20,
        "gen_ai.client.inference.usage.reasoning.output_tokens": 10,
    }
    assert found["gen_ai.client.inference.duration"][0].count == 2
    assert found["gen_ai.execute_tool.duration"][0].attributes["gen_ai.tool.name"] == "look"
    assert found["gen_ai.invoke_agent.duration"][0].attributes["gen_ai.agent.name"] == "agent"
    assert found["gen_ai.invoke_agent.inference_calls"][0].sum == 2
    assert found["gen_ai.invoke_agent.tool_calls"][0].sum == 1


async def test_a_failed_call_is_measured_with_its_kind_of_error(memory: Memory) -> None:
    with pytest.raises(ProviderDown):
        await agent_of(memory, fail(ProviderDown("x"))).run("go")
    (duration,) = memory.metrics()["gen_ai.client.operation.duration"]
    assert dict(duration.attributes)["error.type"] == "ProviderDown"


# Bad input.


@pytest.mark.parametrize("given", [{"tracer_provider": "here"}, {"meter_provider": object()}])
def test_what_is_no_provider_is_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"expected a provider, with get_"):
        OpenTelemetry(**given)


def test_a_missing_package_is_told_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "opentelemetry"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for name in [name for name in sys.modules if name.startswith("interpose.telemetry")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigurationError, match=r"pip install 'interpose\[otel\]'"):
        __import__("interpose.telemetry")
