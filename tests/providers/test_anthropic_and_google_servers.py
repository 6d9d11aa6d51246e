"""What the network does to two vendors' answers, through their SDKs: cuts at every byte, slow bytes, odd answers."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="needs pip install 'interpose[anthropic]'")
pytest.importorskip("google.genai", reason="needs pip install 'interpose[google]'")

from tests.providers.gemini_vendor import GeminiVendor
from tests.providers.messages_vendor import MessagesVendor, OlderVendor
from tests.providers.wire_server import Asked, Reply, WireServer, json_reply

from interpose import Agent
from interpose.errors import AuthFailed, ConfigurationError, ModelTimeout, ProviderDown, ProviderError
from interpose.messages import UserMessage
from interpose.models import AnthropicMessages, GoogleGemini
from interpose.models.base import Model, TextDelta, fold
from interpose.request import ModelRequest, ModelResponse, ModelSettings, Usage
from interpose.testing.model_contract import Answer, Call, Heard, Said, Thought
from interpose.testing.model_contract.claims import population

Vendor = MessagesVendor | GeminiVendor
vendors = pytest.mark.parametrize("vendor", [MessagesVendor(), GeminiVendor()], ids=["anthropic", "google"])
both = pytest.mark.parametrize(
    "ask",
    [lambda model, request: fold(model.stream(request), request), lambda model, request: model.generate(request)],
    ids=["stream", "generate"],
)
Ask = Callable[[Model, ModelRequest], Any]
ANSWER = Answer(
    parts=(Thought("hm ✓", "c2ln"), Said("Zürich 👍\u2028."), Call("call_1", "population", '{"city": "Zü"}')),
    reason="tool_calls",
    usage=Usage(7, 5),
)


def request_of(model: Model, **fields: Any) -> ModelRequest:
    return ModelRequest(provider=model.provider, model=model.name, messages=(UserMessage("hi"),), **fields)


def seen(response: ModelResponse) -> Any:
    calls = [(call.name, dict(call.args)) for call in response.tool_calls]
    return response.text, response.message.reasoning, calls, response.finish_reason, response.usage


def streamed(vendor: Vendor, answer: Answer = ANSWER) -> Reply:
    return vendor.answer(answer, Heard(model="m", is_stream=True))


@vendors
async def test_a_stream_may_be_cut_at_every_byte(vendor: Vendor) -> None:
    whole = streamed(vendor)
    distance = 60  # each stream is cut at every 60th byte, and the next one a byte further on
    firsts = iter(range(1, distance + 1))

    def respond(asked: Asked) -> Reply:
        cuts = tuple(range(next(firsts), len(whole.payload), distance))
        return Reply(content_type=whole.content_type, payload=whole.payload, cuts=cuts)

    async with WireServer(respond) as server:
        model = vendor.model(server.origin)
        request = request_of(model, tools=(population,))
        found = {str(seen(await fold(model.stream(request)))) for _ in range(distance)}
    text, calls = "Zürich 👍\u2028.", [("population", {"city": "Zü"})]
    assert found == {str((text, "hm ✓", calls, "tool_calls", Usage(7, 5)))}


@vendors
async def test_a_stream_that_breaks_off_anywhere_is_an_outage(vendor: Vendor) -> None:
    whole = streamed(vendor)
    ends = range(0, len(whole.payload), 29)
    left = iter(ends)

    def respond(asked: Asked) -> Reply:
        return Reply(content_type=whole.content_type, payload=whole.payload[: next(left)], end="reset")

    async with WireServer(respond) as server:
        model = vendor.model(server.origin)
        for _ in ends:
            with pytest.raises(ProviderError) as caught:
                await fold(model.stream(request_of(model, tools=(population,))))
            assert caught.value.retryable


@vendors
async def test_slow_bytes_arrive_and_silence_is_a_timeout(vendor: Vendor) -> None:
    slow = streamed(vendor, Answer(parts=(Said("so"),)))
    replies = [
        Reply(content_type=slow.content_type, payload=slow.payload, piece_bytes=len(slow.payload) // 4, delay_s=0.1),
        Reply(content_type=slow.content_type, payload=slow.payload[:40], end="hang"),
    ]
    async with WireServer(lambda asked: replies.pop(0)) as server:
        model = patient(vendor, server.origin, 0.3)
        assert (await fold(model.stream(request_of(model)))).text == "so"
        with pytest.raises(ModelTimeout, match="timeout_s=") as caught:
            await fold(model.stream(request_of(model)))
    assert caught.value.retryable


def patient(vendor: Vendor, origin: str, timeout_s: float) -> Model:
    if isinstance(vendor, GeminiVendor):
        return GoogleGemini(vendor.name, base_url=origin, api_key="k", timeout_s=timeout_s)
    return AnthropicMessages("claude-sonnet-5", base_url=origin, api_key="k", timeout_s=timeout_s)


ODD_ANSWERS = {
    "web page": Reply(content_type="text/html", payload=b"<html>It works!</html>"),
    "nothing": Reply(payload=b""),
    "a list": json_reply([]),
    "a word": json_reply("ok"),
    "broken JSON": Reply(content_type="text/event-stream", payload=b"event: message_start\ndata: {\n\n"),
    "wrong fields": json_reply({"type": "message", "content": [{"type": "text"}, 3], "candidates": [3]}),
    "bytes": Reply(content_type="text/event-stream", payload=b"event: x\ndata: \xff\xfe\n\n"),
}


@vendors
@both
@pytest.mark.parametrize("odd", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
async def test_odd_answers_are_errors_of_the_provider(vendor: Vendor, ask: Ask, odd: Reply) -> None:
    async with WireServer(lambda asked: odd) as server:
        model = vendor.model(server.origin)
        with pytest.raises(ProviderError) as caught:
            await ask(model, request_of(model))
    assert (caught.value.provider, caught.value.model) == (model.provider, model.name)


@vendors
@both
@pytest.mark.parametrize(
    "payload", [b"<html>Bad Gateway</html>", b"", b'{"error": "busy"}', b"[]", b'{"error": {"message": "busy"}}']
)
async def test_a_refusal_of_a_proxy_keeps_its_status(vendor: Vendor, ask: Ask, payload: bytes) -> None:
    async with WireServer(lambda asked: Reply(status=502, payload=payload, headers={"retry-after": "3"})) as server:
        model = vendor.model(server.origin)
        with pytest.raises(ProviderDown) as caught:
            await ask(model, request_of(model))
    assert (caught.value.status_code, caught.value.retry_after_s, len(server.asked)) == (502, 3, 1)


@vendors
async def test_leaving_early_leaves_nothing_behind(vendor: Vendor) -> None:
    reply = streamed(vendor, Answer(parts=(Said(pieces=("a", "b", "c")),), ends="silent"))
    async with WireServer(lambda asked: reply) as server:
        model = vendor.model(server.origin)
        stream: Any = model.stream(request_of(model))
        async for chunk in stream:
            if isinstance(chunk, TextDelta):
                break
        serving = asyncio.all_tasks()
        await stream.aclose()
        for _ in range(3):
            await asyncio.sleep(0)
            assert asyncio.all_tasks() <= serving
        await asyncio.wait_for(server.left.wait(), 5)


@vendors
def test_one_model_serves_one_loop_after_another(vendor: Vendor) -> None:
    reply = streamed(vendor, Answer(parts=(Said("so"),)))
    model = vendor.model("http://127.0.0.1:1")

    async def ask() -> str:
        async with WireServer(lambda asked: reply) as server:
            model._base_url = server.origin
            return (await fold(model.stream(request_of(model)))).text

    assert [asyncio.run(ask()), asyncio.run(ask())] == ["so", "so"]
    assert model._clients._held == {}


@vendors
async def test_many_agents_stream_at_once(vendor: Vendor) -> None:
    async with WireServer(lambda asked: streamed(vendor, Answer(parts=(Said("so it is"),)))) as server:
        agent = Agent(vendor.model(server.origin))

        async def one() -> str:
            async with agent.stream("hi") as run:
                return (await run.result()).text

        assert await asyncio.gather(*[one() for _ in range(40)]) == ["so it is"] * 40


@pytest.fixture
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ANTHROPIC_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.usefixtures("_no_keys")
@both
@pytest.mark.parametrize(
    ("model", "variable"),
    [
        (lambda **more: AnthropicMessages("claude-sonnet-5", **more), "ANTHROPIC_API_KEY"),
        (lambda **more: GoogleGemini("gemini-3.5-flash", **more), "GEMINI_API_KEY"),
    ],
    ids=["anthropic", "google"],
)
async def test_a_missing_key_is_told_at_the_first_call(model: Any, variable: str, ask: Ask) -> None:
    with pytest.raises(AuthFailed, match=variable):
        await ask(model(), request_of(model()))
    async with WireServer(lambda asked: json_reply({"type": "message"})) as server:  # one of one's own needs none
        other = model(base_url=server.origin)
        with pytest.raises(ProviderError, match=r"finish|cut"):
            await other.generate(request_of(other))


@pytest.mark.parametrize("name", ["", "a b", "a?key=b", "../files"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="name of a model"):
        GoogleGemini(name)


def test_anthropic_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs the name of a model"):
        AnthropicMessages("")


# Anthropic alone.


async def test_sampling_asks_for_the_older_version_of_the_api() -> None:
    async with WireServer(lambda asked: json_reply(MESSAGE)) as server:
        model = MessagesVendor().model(server.origin)
        options = {"betas": ["a-1", "b-2"], "extra_headers": {"x-own": "1"}, "extra_query": {"beta": "true"}}
        for temperature in (None, 0.0):
            settings = ModelSettings(temperature=temperature, provider_options=options)
            await model.generate(request_of(model, settings=settings))
    first, second = (asked.headers for asked in server.asked)
    assert (first["anthropic-version"], second["anthropic-version"]) == ("2026-10-21", "2023-06-01")
    assert (first["anthropic-beta"], first["x-own"], server.asked[0].path) == ("a-1,b-2", "1", "/v1/messages?beta=true")


MESSAGE = {"type": "message", "id": "msg_1", "content": [{"type": "text", "text": "so"}], "stop_reason": "end_turn"}


async def test_an_answer_that_may_get_long_is_streamed() -> None:
    vendor = MessagesVendor()
    async with WireServer(lambda asked: streamed(vendor, Answer(parts=(Said("so"),)))) as server:
        model = AnthropicMessages("claude-sonnet-5", base_url=server.origin, api_key="k")
        response = await model.generate(request_of(model, settings=ModelSettings(max_tokens=64_000)))
    assert (response.text, server.asked[0].body["stream"]) == ("so", True)


async def test_an_error_in_the_stream_names_the_request() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_7"}
    payload = b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"
    async with WireServer(lambda asked: Reply(content_type="text/event-stream", payload=payload)) as server:
        model = MessagesVendor().model(server.origin)
        with pytest.raises(ProviderDown, match="Overloaded") as caught:
            await fold(model.stream(request_of(model)))
    assert (caught.value.status_code, caught.value.request_id, caught.value.code) == (None, "req_7", "overloaded_error")


async def test_the_limit_on_the_answer_is_the_profiles_by_default() -> None:
    async with WireServer(lambda asked: json_reply(MESSAGE)) as server:
        for model in (
            MessagesVendor().model(server.origin),
            AnthropicMessages("nobody-knows", base_url=server.origin, api_key="k"),
        ):
            await model.generate(request_of(model))
    assert [asked.body["max_tokens"] for asked in server.asked] == [8192, 4096]


async def test_a_given_client_is_used_but_for_retries() -> None:
    import anthropic

    async with (
        WireServer(lambda asked: json_reply({"error": {"message": "x"}}, 500)) as server,
        anthropic.AsyncAnthropic(auth_token="own", base_url=server.origin, max_retries=5) as client,
    ):
        model = AnthropicMessages("m", client=client)
        with pytest.raises(ProviderDown):
            await model.generate(request_of(model))
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer own"]


# Google alone.


async def test_a_client_of_the_sdk_is_used_but_for_retries() -> None:
    from google import genai

    async with WireServer(lambda asked: json_reply({"error": {"code": 503, "message": "x"}}, 503)) as server:
        options: Any = {"base_url": server.origin, "retry_options": {"attempts": 3, "initial_delay": 0.01}}
        client = genai.Client(api_key="own", http_options=options)
        model = GoogleGemini("m", client=client, extra_headers={"x-own": "1"})
        for ask in (model.generate, lambda request: fold(model.stream(request))):
            with pytest.raises(ProviderDown):
                await ask(request_of(model))
        await client.aio.aclose()
        client.close()
    assert [(asked.headers["x-goog-api-key"], asked.headers["x-own"]) for asked in server.asked] == [("own", "1")] * 2


async def test_an_error_without_a_code_in_the_stream_is_read() -> None:
    payload = b'data: {"error": {"message": "busy", "status": "UNAVAILABLE"}}\r\n\r\n'
    async with WireServer(lambda asked: Reply(content_type="text/event-stream", payload=payload)) as server:
        model = GeminiVendor().model(server.origin)
        with pytest.raises(ProviderDown, match="busy"):
            await fold(model.stream(request_of(model)))


async def test_the_wait_in_an_errors_details_is_told() -> None:
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    error = {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED", "details": [detail]}
    async with WireServer(lambda asked: json_reply({"error": error}, 429)) as server:
        model = GeminiVendor().model(server.origin)
        with pytest.raises(ProviderError) as caught:
            await model.generate(request_of(model))
    assert caught.value.retry_after_s == 34.5


@pytest.mark.parametrize("streamed_run", [True, False])
async def test_an_older_model_gives_an_agent_its_output(streamed_run: bool) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    vendor = OlderVendor()
    said = Answer(parts=(Call("call_1", "output", '{"n": 4}'),), reason="tool_calls")

    def respond(asked: Asked) -> Reply:
        assert vendor.problems(asked) == []
        assert asked.body["tool_choice"]["name"] == "output"
        return vendor.answer(said, Heard(model="m", is_stream=asked.body.get("stream", False)))

    async with WireServer(respond) as server:
        agent = Agent(vendor.model(server.origin), output=schema)
        if streamed_run:
            async with agent.stream("How many?") as run:
                result = await run.result()
        else:
            result = await agent.run("How many?")
    assert result.output == json.loads(result.text) == {"n": 4}
