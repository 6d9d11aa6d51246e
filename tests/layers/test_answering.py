"""A response that a layer makes up is a real step, in history, record and stream, and costs nothing."""

from typing import Any

from tests.layers.play import agent_of, both, echo, roles, run_once, stream_once

from interpose import (
    AssistantMessage,
    CustomEvent,
    Limits,
    Middleware,
    ModelResponse,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    Usage,
)
from interpose.testing import calls, event_types, make_response, text, text_of


def answering(*responses: Any) -> Any:
    """A layer that answers with the next of *responses* each time."""
    left = list(responses)

    async def answers(ctx: Any, request: Any, call_next: Any) -> Any:
        return left.pop(0)

    return answers


async def test_an_answer_of_a_layer_is_a_step_without_a_model_call() -> None:
    played = await both(lambda log: agent_of(middleware=[answering(make_response("cached"))]))
    assert (played.result.text, len(played.result.steps), played.requests) == ("cached", 1, [])
    assert (played.result.messages[-1].role, played.result.messages[-1].text) == ("assistant", "cached")


async def test_a_made_up_answer_names_its_maker() -> None:
    class Cache(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            return request.answer("cached")

    played = await both(lambda log: agent_of(middleware=[Cache()]))
    assert played.result.steps[0].response.made_by == "Cache"


async def test_usage_of_a_made_up_answer_is_not_charged() -> None:
    used = Usage(input_tokens=1000, output_tokens=1000)
    call = ToolCall("c1", "echo", {"x": "1"}), ToolCall("c2", "echo", {"x": "1"})

    def make(log: list[Any]) -> Any:
        made = [
            ModelResponse(AssistantMessage(tool_calls=(call[0],)), usage=used),
            ModelResponse(AssistantMessage(tool_calls=(call[1],)), usage=used),
            ModelResponse(AssistantMessage("done"), usage=used),
        ]
        return agent_of(tools=[echo], middleware=[answering(*made)], limits=Limits(max_total_tokens=100))

    played = await both(make)
    assert played.result.text == "done"
    assert len(played.result.steps) == 3
    assert played.result.usage.total_tokens is None


async def test_a_made_up_answer_counts_no_model_call() -> None:
    class Cache(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return make_response([("echo", {"x": str(request.number)})]) if request.number < 3 else None

    limits = Limits(max_model_calls=1)
    played = await both(lambda log: agent_of(text("end"), tools=[echo], middleware=[Cache()], limits=limits))
    assert played.result.text == "end"
    assert len(played.result.steps) == 4


async def test_a_made_up_answer_streams_as_start_content_end() -> None:
    played = await both(lambda log: agent_of(middleware=[answering(make_response("all of it"))]))
    assert event_types(played.events) == [
        "RUN_STARTED", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "STEP_FINISHED", "RUN_FINISHED",
    ]  # fmt: skip
    assert text_of(played.events) == "all of it"


async def test_an_empty_made_up_answer_sends_no_text_events() -> None:
    played = await both(lambda log: agent_of(middleware=[answering(make_response(""))]))
    assert event_types(played.events) == ["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"]


async def test_a_tool_call_of_a_made_up_answer_is_executed() -> None:
    def make(log: list[Any]) -> Any:
        class Cache(Middleware):
            def before_model_call(self, ctx: Any, request: Any) -> Any:
                return make_response([("echo", {"x": "1"})]) if request.is_first_step else None

        return agent_of(text("x"), tools=[echo], middleware=[Cache()])

    played = await both(make)
    assert roles(played.requests[0].messages) == ["user", "assistant", "tool"]
    kinds = event_types(played.events)
    assert kinds[2:6] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]


async def test_the_same_made_up_answer_in_two_steps_gets_fresh_ids() -> None:
    canned = make_response([ToolCall("same", "echo", {"x": "1"})])

    class Cache(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return canned if request.number < 2 else None

    played = await both(lambda log: agent_of(text("x"), tools=[echo], middleware=[Cache()]))
    asked = [message for message in played.result.messages if message.tool_calls]
    assert asked[0].id != asked[1].id
    assert asked[0].tool_calls[0].id != asked[1].tool_calls[0].id


async def test_outer_layers_see_a_made_up_answer_and_inner_ones_do_not() -> None:
    class Note(Middleware):
        def __init__(self, name: str, log: list[Any]) -> None:
            self.name, self.log = name, log

        def before_model_call(self, ctx: Any, request: Any) -> Any:
            self.log.append(f"{self.name}.before")

        def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
            self.log.append(f"{self.name}.after {response.text}")

    class Answers(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return make_response("mine")

    played = await both(lambda log: agent_of(middleware=[Note("outer", log), Answers(), Note("inner", log)]))
    assert played.log == ["outer.before", "outer.after mine"]


async def test_a_replaced_text_supersedes_what_was_shown() -> None:
    async def replaces(ctx: Any, request: Any, call_next: Any) -> Any:
        await call_next(request)
        return request.answer("Replaced")

    played = await both(lambda log: agent_of(text(chunks=("first ", "text")), middleware=[replaces]))
    starts = [event.message_id for event in played.events if isinstance(event, TextMessageStartEvent)]
    ends = [event.message_id for event in played.events if isinstance(event, TextMessageEndEvent)]
    named = [event.value["messageId"] for event in played.events if isinstance(event, CustomEvent)]
    assert len(starts) == 2
    assert ends == starts
    assert named == starts[:1]
    assert text_of(played.events) == played.result.text == "Replaced"


async def test_an_answer_equal_to_what_was_shown_supersedes_nothing() -> None:
    async def passes(ctx: Any, request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        return response.replace(message=response.message.replace(text=response.text))

    played = await both(lambda log: agent_of(text("same"), middleware=[passes]))
    assert event_types(played.events).count("TEXT_MESSAGE_START") == 1
    assert "CUSTOM" not in event_types(played.events)


async def test_an_answer_of_before_run_is_recorded_with_the_makers_meta() -> None:
    nodes: list[Any] = []

    class Watches(Middleware):
        def on_node(self, ctx: Any, node: Any) -> None:
            if node.phase == "end":
                nodes.append(node)

    class Cache(Middleware):
        async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
            ctx.meta(cache_hit=True)
            return request.answer("cached")

    await run_once(lambda log: agent_of(middleware=[Cache(), Watches()]))
    assert [node.kind for node in nodes] == ["model", "step", "run"]
    assert nodes[0].meta["cache_hit"] is True


async def test_dropped_tool_calls_are_withdrawn_and_not_executed() -> None:
    ran: list[int] = []

    async def pay() -> str:
        """Pay."""
        ran.append(1)
        return "paid"

    class Strips(Middleware):
        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return make_response("no payment")

    played = await both(lambda log: agent_of(calls("pay"), tools=[pay], middleware=[Strips()]))
    assert ran == []
    assert played.result.text == "no payment"
    value = next(event.value for event in played.events if isinstance(event, CustomEvent))
    assert len(value["toolCallIds"]) == 1


async def test_holding_the_stream_sends_only_what_stands() -> None:
    class Holds(Middleware):
        holds_stream = True

        def after_model_call(self, ctx: Any, request: Any, response: Any) -> Any:
            return response.with_text("judged")

    played = await stream_once(lambda log: agent_of(text(chunks=("secret ", "text")), middleware=[Holds()]))
    said = [event.delta for event in played.events if isinstance(event, TextMessageContentEvent)]
    assert said == ["judged"]
    assert "CUSTOM" not in event_types(played.events)


async def test_a_response_that_is_no_response_names_the_hook() -> None:
    class Wrong(Middleware):
        def before_model_call(self, ctx: Any, request: Any) -> Any:
            return AssistantMessage("not a response")

    played = await both(lambda log: agent_of(text("x"), middleware=[Wrong()]))
    for word in ("Wrong", "before_model_call", "AssistantMessage", "ModelResponse"):
        assert word in str(played.error)
