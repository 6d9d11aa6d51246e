"""Claims about answers: text, calls, reasoning, usage."""

import asyncio
from typing import Any

from interpose.agent import Agent
from interpose.messages import UserMessage
from interpose.middleware import Middleware
from interpose.models.base import Finish, TextDelta, ToolCallDelta, fold
from interpose.request import Usage
from interpose.testing.model_contract.claims import ODD, both, calls_of, claim, heard_of, named, population, request_of
from interpose.testing.model_contract.stage import Answer, Call, Heard, Said, Stage, Thought

# Text.


@claim()
async def text_arrives_whole(stage: Stage) -> None:
    response = await both(stage, Answer(parts=(Said("Hello there."),)))
    assert (response.text, response.finish_reason, response.tool_calls) == ("Hello there.", "stop", ())
    assert response.message.reasoning is None


@claim()
async def text_comes_in_pieces_and_the_finish_is_last(stage: Stage) -> None:
    stage.play(Answer(parts=(Said(pieces=("Hel", "lo")),)))
    chunks = [chunk async for chunk in stage.model.stream(request_of(stage))]
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["Hel", "lo"]
    assert [n for n, chunk in enumerate(chunks) if isinstance(chunk, Finish)] == [len(chunks) - 1]


@claim()
async def pieces_on_the_line_make_no_difference(stage: Stage) -> None:
    parts = (Said("Zürich ✓ 👍"), Call("call_1", "population", '{"city":"Zürich"}'))
    found = []
    for piece_bytes in (1, 2, 3, 5, 64):
        stage.play(Answer(parts=parts, reason="tool_calls", piece_bytes=piece_bytes))
        response = await fold(stage.model.stream(request_of(stage, tools=(population,))))
        found.append((response.text, [call.args for call in response.tool_calls], response.usage))
    assert found == [("Zürich ✓ 👍", [{"city": "Zürich"}], Usage(3, 2))] * 5


@claim()
async def odd_characters_arrive_as_they_are(stage: Stage) -> None:
    assert (await both(stage, Answer(parts=(Said(ODD),)))).text == ODD


@claim()
async def halves_of_a_character_become_one(stage: Stage) -> None:
    stage.play(Answer(parts=(Said(pieces=("a\ud83d", "\ude00b")),)))
    assert (await fold(stage.model.stream(request_of(stage)))).text == "a\U0001f600b"


@claim()
async def empty_answer_is_an_answer(stage: Stage) -> None:
    response = await both(stage, Answer())
    assert (response.text, response.tool_calls, response.finish_reason) == ("", (), "stop")


@claim()
async def reason_to_finish_is_told(stage: Stage) -> None:
    for reason in ("stop", "length", "content_filter", "unknown"):
        response = await both(stage, Answer(parts=(Said("so"),), reason=reason))
        assert (response.finish_reason, response.text) == (reason, "so")


@claim()
async def a_long_answer_arrives_whole(stage: Stage) -> None:
    pieces = tuple([f"{n} " for n in range(2000)])
    stage.play(Answer(parts=(Said(pieces=pieces),)))
    assert (await fold(stage.model.stream(request_of(stage)))).text == "".join(pieces)


@claim()
async def answers_side_by_side_stay_apart(stage: Stage) -> None:
    stage.play(*[lambda heard: Answer(parts=(Said(f"re {heard.turns[-1][1]}"),))] * 12)
    requests = [request_of(stage, UserMessage(f"q{n}")) for n in range(12)]
    whole = [stage.model.generate(request) for request in requests[:6]]
    found = await asyncio.gather(*whole, *[fold(stage.model.stream(request)) for request in requests[6:]])
    assert [response.text for response in found] == [f"re q{n}" for n in range(12)]


# Calls.


@claim()
async def a_call_arrives_with_its_arguments(stage: Stage) -> None:
    answer = Answer(parts=(Call("call_1", "population", '{"city": "Lyon"}'),), reason="tool_calls")
    response = await both(stage, answer, request_of(stage, tools=(population,)))
    assert calls_of(response) == [("call_1", "population", {"city": "Lyon"})]
    assert (response.finish_reason, response.text) == ("tool_calls", "")


@claim("parallel_calls", "call_ids")
async def calls_of_one_answer_keep_their_order_and_ids(stage: Stage) -> None:
    calls = [Call(f"call_{n}", "population", f'{{"city": "c{n}"}}') for n in (2, 1, 3)]
    answer = Answer(parts=(Said("I look."), *calls), reason="tool_calls")
    response = await both(stage, answer, request_of(stage, tools=(population,)))
    assert calls_of(response) == [(f"call_{n}", "population", {"city": f"c{n}"}) for n in (2, 1, 3)]
    assert response.text == "I look."


@claim("mixed_calls")
async def mixed_pieces_of_calls_are_told_apart(stage: Stage) -> None:
    calls = [Call(f"call_{n}", "population", f'{{"city": "{"x" * 20}{n}"}}') for n in range(3)]
    stage.play(Answer(parts=tuple(calls), reason="tool_calls", mixed=True))
    response = await fold(stage.model.stream(request_of(stage, tools=(population,))))
    assert [call.args["city"][-1] for call in response.tool_calls] == ["0", "1", "2"]


@claim()
async def arguments_come_in_pieces(stage: Stage) -> None:
    stage.play(Answer(parts=(Call("call_1", "population", '{"city": "Lyon"}'),), reason="tool_calls"))
    chunks = [chunk async for chunk in stage.model.stream(request_of(stage, tools=(population,)))]
    deltas = [chunk for chunk in chunks if isinstance(chunk, ToolCallDelta)]
    assert deltas[0].name == "population"
    assert "".join(delta.args for delta in deltas).replace(" ", "") == '{"city":"Lyon"}'


@claim()
async def empty_arguments_are_an_empty_object(stage: Stage) -> None:
    response = await both(stage, Answer(parts=(Call("call_1", "population", ""),), reason="tool_calls"))
    assert (calls_of(response), response.tool_calls[0].error) == ([("call_1", "population", {})], None)


@claim("broken_arguments")
async def broken_arguments_are_kept_and_can_be_sent_back(stage: Stage) -> None:
    for broken in ('{"city": "Ly', "[1]", '"Lyon"', "}"):
        answer = Answer(parts=(Call("call_1", "population", broken),), reason="tool_calls")
        request = request_of(stage, tools=(population,))
        response = await both(stage, answer, request)
        call = response.tool_calls[0]
        assert (call.args, call.raw) == ({}, broken)
        assert call.error
        history = (*request.messages, response.message, call.refuse("bad arguments").message("population"))
        heard = await heard_of(stage, *history, tools=(population,))
        assert isinstance(heard.of("call")[0][-1], dict)


@claim()
async def names_that_the_vendor_refuses_are_mended_and_come_back(stage: Stage) -> None:
    names = ("files.read", "files_read", "a:b/c", "x" * 128, "x" * 127 + "y")
    tools = tuple([named(name) for name in names])

    def call_first(heard: Heard) -> Answer:
        return Answer(parts=(Call("call_1", heard.tools[0], '{"x": 1}'),), reason="tool_calls")

    stage.play(call_first, call_first)
    request = request_of(stage, tools=tools)
    found = [await fold(stage.model.stream(request)), await stage.model.generate(request)]
    assert [response.tool_calls[0].name for response in found] == [names[0]] * 2
    assert len(set(stage.heard[-1].tools)) == len(names)


@claim()
async def an_agent_goes_through_a_tool_and_back(stage: Stage) -> None:
    asks = Answer(parts=(Call("call_1", "population", '{"city": "Lyon"}'),), reason="tool_calls")
    says = Answer(parts=(Said("4 people."),))
    agent = Agent(stage.model, instructions="Be brief.", tools=[population])
    stage.play(asks, says, asks, says)
    result = await agent.run("How many \ud800?")
    async with agent.stream("How many \ud800?") as run:
        streamed = await run.result()
    assert (result.text, streamed.text, len(result.steps)) == ("4 people.", "4 people.", 2)
    assert [turn[-1] for turn in stage.heard[-1].of("system", "user", "result")] == [
        "Be brief.",
        "How many \ufffd?",
        "4",
    ]
    assert stage.heard[1].turns[-1][-1] == "4"
    assert result.usage == streamed.usage
    assert result.usage.replace(cost_usd=None) == Usage(6, 4)  # the price may be known


# Reasoning.


@claim("reasoning")
async def reasoning_stands_apart_from_text(stage: Stage) -> None:
    response = await both(stage, Answer(parts=(Thought("I think.", "c2ln"), Said("Yes."))))
    assert (response.message.reasoning, response.text) == ("I think.", "Yes.")


@claim("reasoning", "signatures")
async def signed_reasoning_goes_back_untouched(stage: Stage) -> None:
    thought, call = (
        Thought("I think.\n\nTwice. ✓", "c2lnbmF0dXJl+/=="),
        Call("call_1", "population", '{"city": "Lyon"}'),
    )
    request = request_of(stage, tools=(population,))
    response = await both(stage, Answer(parts=(thought, Said("I look."), call), reason="tool_calls"), request)
    history = (*request.messages, response.message, response.tool_calls[0].answer(4).message("population"))
    heard = await heard_of(stage, *history, tools=(population,))
    kinds = [turn[0] for turn in heard.turns]
    assert kinds == ["user", "thought", "assistant", "call", "result"]
    assert heard.of("thought") == [("thought", thought.text, thought.signature)]


@claim("reasoning", "signatures")
async def reasoning_without_words_keeps_its_signature(stage: Stage) -> None:
    response = await both(stage, Answer(parts=(Thought("", "c2ln"), Said("Yes."))))
    assert response.text == "Yes."
    assert (await heard_of(stage, UserMessage("q"), response.message, UserMessage("and?"))).of("thought") == [
        ("thought", "", "c2ln")
    ]


# Usage.


@claim("reasoning", "signatures")
async def an_agent_sends_signed_reasoning_back(stage: Stage) -> None:
    thought = Thought("I think. ✓", "c2ln")
    asks = Answer(parts=(thought, Call("call_1", "population", '{"city": "Lyon"}')), reason="tool_calls")
    agent = Agent(stage.model, tools=[population], middleware=[_Watcher()])
    for is_stream in (False, True):
        stage.play(asks, Answer(parts=(Said("4."),)), Answer(parts=(Said("Yes."),)))
        if is_stream:
            async with agent.stream("q") as run:
                result = await run.result()
        else:
            result = await agent.run("q")
        await agent.run([*result.messages, UserMessage("and?")])
        for heard in stage.heard[-2:]:
            assert [turn[0] for turn in heard.turns][:4] == ["user", "thought", "call", "result"]
            assert heard.of("thought") == [("thought", thought.text, thought.signature)]


class _Watcher(Middleware):
    """Looks at each event, so that a run is read as a stream."""

    def on_chunk(self, ctx: Any, event: Any) -> None:  # looking is all it does
        """Leave the event as it is."""


@claim()
async def usage_is_told(stage: Stage) -> None:
    assert (await both(stage, Answer(parts=(Said("a"),), usage=Usage(7, 5)))).usage == Usage(7, 5)


@claim("cache_usage")
async def tokens_from_the_cache_are_counted_as_input_too(stage: Stage) -> None:
    usage = (await both(stage, Answer(parts=(Said("a"),), usage=Usage(10, 5, cache_read_tokens=8)))).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cache_read_tokens) == (10, 5, 15, 8)


@claim("reasoning_usage")
async def tokens_of_reasoning_are_counted_as_output_too(stage: Stage) -> None:
    usage = (await both(stage, Answer(parts=(Said("a"),), usage=Usage(10, 9, reasoning_tokens=4)))).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.reasoning_tokens) == (10, 9, 19, 4)


__all__: list[str] = []  # its claims are found in MODEL_CONTRACT
