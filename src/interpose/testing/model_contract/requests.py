"""Claims about requests: what the vendor is told, and that it is legal."""

from interpose.messages import (
    AssistantMessage,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from interpose.models.base import fold
from interpose.request import ModelSettings
from interpose.testing.model_contract.claims import ODD, claim, heard_of, named, population, request_of
from interpose.testing.model_contract.stage import Answer, Stage


@claim()
async def instructions_come_first(stage: Stage) -> None:
    heard = await heard_of(stage, instructions="Be brief.")
    assert heard.turns == (("system", "Be brief."), ("user", "hi"))


@claim()
async def messages_of_every_kind_are_legal(stage: Stage) -> None:
    call = ToolCall("call_1", "population", {"city": ""})
    heard = await heard_of(
        stage,
        SystemMessage("S."),
        UserMessage("a"),
        UserMessage("b"),
        AssistantMessage("c"),
        AssistantMessage("d"),
        SystemMessage("T."),
        UserMessage("e", name="ann"),
        AssistantMessage(tool_calls=(call,)),
        ToolMessage("broken", "call_1", is_error=True, name="population"),
        tools=(population,),
    )
    told = " ".join(str(turn[-1]) for turn in heard.of("system", "user", "assistant", "result"))
    assert all(f"{word}" in told.replace("\n", " ") for word in ("S.", "a", "b", "c", "d", "T.", "e", "broken"))


@claim()
async def empty_messages_are_legal(stage: Stage) -> None:
    call = ToolCall("call_1", "population", {})
    heard = await heard_of(
        stage,
        SystemMessage(""),
        UserMessage(""),
        AssistantMessage(""),
        UserMessage("  "),
        AssistantMessage("", tool_calls=(call,)),
        ToolMessage("", "call_1", name="population"),
        AssistantMessage("ok"),
        UserMessage(""),
        tools=(population,),
    )
    assert [turn[-1] for turn in heard.of("call")] == [{}]


@claim()
async def a_history_may_begin_with_an_answer(stage: Stage) -> None:
    heard = await heard_of(stage, AssistantMessage("Welcome."), UserMessage("hi"))
    assert heard.of("assistant", "user")[-2:] == [("assistant", "Welcome."), ("user", "hi")]


@claim("images")
async def pictures_are_sent(stage: Stage) -> None:
    picture = ImagePart(data="iVBORw0KGgo=", media_type="image/png")
    heard = await heard_of(stage, UserMessage(parts=(TextPart("What is this?"), picture)))
    assert heard.turns == (("user", "What is this?"), ("image", "image/png", "iVBORw0KGgo="))


@claim("image_urls")
async def pictures_are_sent_by_url(stage: Stage) -> None:
    heard = await heard_of(stage, UserMessage(parts=(ImagePart(url="https://example.org/a.png"), TextPart("?"))))
    assert heard.turns == (("image", None, "https://example.org/a.png"), ("user", "?"))


@claim("images")
async def pictures_of_results_are_sent(stage: Stage) -> None:
    calls = tuple([ToolCall(f"call_{n}", "population", {"city": "x"}) for n in (1, 2)])
    picture = ImagePart(data="iVBORw0KGgo=", media_type="image/png")
    seen = ToolMessage("", "call_1", name="population", parts=(TextPart("a chart"), picture))
    history = (UserMessage("q"), AssistantMessage(tool_calls=calls), seen, calls[1].answer(2).message("population"))
    heard = await heard_of(stage, *history, tools=(population,))
    assert [turn[-1] for turn in heard.of("result")] == ["a chart", "2"]
    assert heard.of("image") == [("image", "image/png", "iVBORw0KGgo=")]


@claim()
async def the_model_of_the_request_is_asked(stage: Stage) -> None:
    stage.play(Answer(), Answer())
    for ask in (stage.model.generate, lambda request: fold(stage.model.stream(request))):
        await ask(request_of(stage).replace(model="another"))
    assert [heard.model for heard in stage.heard] == ["another", "another"]
    if "remote" in stage.features:
        assert [heard.is_stream for heard in stage.heard] == [False, True]


@claim()
async def settings_are_sent(stage: Stage) -> None:
    heard = await heard_of(stage, settings=ModelSettings(temperature=0.5, max_tokens=99))
    assert (heard.temperature, heard.max_tokens) == (0.5, 99)


@claim("stop")
async def stop_sequences_are_sent(stage: Stage) -> None:
    assert (await heard_of(stage, settings=ModelSettings(stop=("END", "###")))).stop == ("END", "###")


@claim("tool_choice")
async def tool_choice_is_sent(stage: Stage) -> None:
    choices = ["auto", "none", "required", *(["population"] if "named_tool_choice" in stage.features else [])]
    for choice in choices:
        tools = (population, named("other"))
        heard = await heard_of(stage, tools=tools, settings=ModelSettings(tool_choice=choice))
        assert heard.tool_choice == choice


@claim("tool_choice")
async def a_choice_that_is_not_there_forces_nothing(stage: Stage) -> None:
    gone = await heard_of(stage, tools=(population,), settings=ModelSettings(tool_choice="gone"))
    assert gone.tool_choice in (None, "auto")
    bare = await heard_of(stage, settings=ModelSettings(tool_choice="required", parallel_tool_calls=True))
    assert (bare.tools, bare.tool_choice) == ((), None)


@claim("output_schema")
async def the_schema_of_the_answer_is_sent(stage: Stage) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    open_schema = {"type": "object", "title": "My Answer", "properties": {"n": {"type": "integer", "default": 1}}}
    for one in (schema, open_schema):
        heard = await heard_of(stage, output_schema=one)
        assert heard.output_schema is not None
        assert heard.output_schema["properties"].keys() == {"n"}


@claim()
async def odd_characters_are_sent_as_they_are(stage: Stage) -> None:
    call = ToolCall("call_1", "population", {"city": ODD})
    heard = await heard_of(
        stage,
        UserMessage(ODD),
        AssistantMessage("so", tool_calls=(call,)),
        ToolMessage(ODD, "call_1", name="population"),
        instructions=ODD,
        tools=(population,),
    )
    assert [turn[-1] for turn in heard.of("system", "user", "result")] == [ODD, ODD, ODD]
    assert heard.of("call")[0][-1] == {"city": ODD}


@claim()
async def calls_and_results_go_back_in_order(stage: Stage) -> None:
    calls = tuple([ToolCall(f"call_{n}", "population", {"city": f"c{n}"}) for n in (1, 2)])
    results = [call.answer(n).message("population") for n, call in enumerate(calls)]
    said = AssistantMessage("I look.", tool_calls=calls)
    heard = await heard_of(stage, UserMessage("q"), said, *results, UserMessage("go on"), tools=(population,))
    assert [turn[0] for turn in heard.turns] == ["user", "assistant", "call", "call", "result", "result", "user"]
    assert [turn[-1] for turn in heard.of("call")] == [{"city": "c1"}, {"city": "c2"}]
    assert [turn[-1] for turn in heard.of("result")] == ["0", "1"]
    if "call_ids" in stage.features:
        assert [turn[1] for turn in heard.of("call", "result")] == ["call_1", "call_2"] * 2


@claim()
async def ids_of_another_vendor_are_legal(stage: Stage) -> None:
    ids = ["x" * 300, "x" * 300 + "y", "toolu/1|ü =", "1"]
    calls = tuple([ToolCall(id, "population", {"city": id}) for id in ids])
    results = [call.answer(call.id).message("population") for call in calls]
    heard = await heard_of(stage, UserMessage("q"), AssistantMessage(tool_calls=calls), *results, tools=(population,))
    assert [turn[-1] for turn in heard.of("result")] == ids
    sent = [turn[1] for turn in heard.of("call")]
    assert sent == [turn[1] for turn in heard.of("result")]
    assert len(set(sent)) == len(ids) or "call_ids" not in stage.features


@claim()
async def what_belongs_to_another_vendor_stays_behind(stage: Stage) -> None:
    parts = (ReasoningPart("hm", "foreign"), ProviderPart({"type": "foreign"}, "elsewhere"), TextPart("Yes."))
    heard = await heard_of(stage, UserMessage("q"), AssistantMessage(parts=parts), UserMessage("and?"))
    assert heard.of("user", "assistant") == [("user", "q"), ("assistant", "Yes."), ("user", "and?")]
    assert "foreign" not in str(heard.turns)


__all__: list[str] = []  # its claims are found in MODEL_CONTRACT
