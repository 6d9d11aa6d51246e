"""Chat Completions, coming in: what a client asks for, and what of it may reach an agent.

Source: the reference of OpenAI's Chat Completions API, read 2026-11.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from interpose.inputs import as_messages
from interpose.messages import Message
from interpose.middleware import Middleware
from interpose.server.ag_ui_input import INSTRUCTING, out_of_order, unreadable
from interpose.server.http import Refusal
from interpose.server.options import Options

ROLES = (*INSTRUCTING, "user", "assistant", "tool")
UNKNOWN_HERE = ("logprobs", "top_logprobs", "functions", "function_call", "audio", "web_search_options", "logit_bias")
"""What changes the answer, so that it may not be passed over in silence."""


class ChatRequest(Struct, kw_only=True):
    """The body of `POST /v1/chat/completions`; what is not named here has no effect."""

    model: str
    messages: tuple[dict[str, Any], ...]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | tuple[str, ...] | None = None
    seed: int | None = None
    logprobs: bool | None = None
    response_format: dict[str, Any] | None = None
    tools: tuple[dict[str, Any], ...] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    modalities: tuple[str, ...] | None = None
    functions: Any = None
    function_call: Any = None
    audio: Any = None
    web_search_options: Any = None
    logit_bias: Any = None
    top_logprobs: Any = None

    def left_out(self, options: Options) -> dict[str, str]:
        """Return a header that says what of the messages the agent is not given."""
        instructs = any(message.get("role") in INSTRUCTING for message in self.messages)
        return {"interpose-left-out": "system messages"} if instructs and not options.client_system_messages else {}

    @property
    def tells_usage(self) -> bool:
        """Whether a stream is to end with the tokens that were used."""
        return bool((self.stream_options or {}).get("include_usage"))

    def check(self, options: Options) -> None:
        """Check that what is asked for can be given.

        Raises:
            Refusal: it cannot; says what.
        """
        if not self.messages:
            raise _wrong("messages", "is empty; send a message at least")
        for place, message in enumerate(self.messages):
            if message.get("role") not in ROLES:
                raise _wrong(f"messages[{place}].role", f"must be one of {', '.join(ROLES)}")
        if self.n not in (None, 1):
            raise _wrong("n", "must be 1: a run gives one answer")
        for name in UNKNOWN_HERE:
            if getattr(self, name):
                raise _wrong(name, "cannot be given here")
        if self.modalities is not None and self.modalities != ("text",):
            raise _wrong("modalities", "must be ['text']")
        if self.response_format is not None and self.response_format.get("type") != "text":
            raise _wrong("response_format", "is the agent's own matter here: give the agent `output=`")
        for name in ("max_tokens", "max_completion_tokens"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise _wrong(name, "must be 1 at least")
        if self.tools and not options.client_tools:
            raise _wrong("tools", "cannot be brought along: agents have their own; see create_app(client_tools=True)")
        if isinstance(self.tool_choice, dict) or self.tool_choice not in (None, "auto", "none", "required"):
            raise _wrong("tool_choice", "must be 'auto', 'none' or 'required'")

    def taken_messages(self, options: Options) -> tuple[Message, ...]:
        """Return the messages that the agent is given: all but system messages, unless clients may give these.

        Raises:
            Refusal: one lacks what its role needs.
        """
        given = [
            _without_marks(message)
            for message in self.messages
            if options.client_system_messages or message.get("role") not in INSTRUCTING
        ]
        try:
            messages = as_messages(given)
        except (ValueError, TypeError, KeyError, AttributeError):
            why = unreadable(self.messages, lambda one: as_messages([_without_marks(one)]))
            raise Refusal(400, "bad_input", why, param="messages") from None
        if wrong := out_of_order(messages):
            raise _wrong("messages", f"are out of order: {wrong}")
        if not messages:
            raise _wrong("messages", "has system messages alone, and these are the agent's own matter here")
        return messages

    def described_tools(self) -> list[Mapping[str, Any]]:
        """Return the tools that the client brings.

        Raises:
            Refusal: one is no function.
        """
        found: list[Mapping[str, Any]] = []
        for place, one in enumerate(self.tools or ()):
            function = one.get("function")
            if one.get("type") != "function" or not isinstance(function, Mapping):
                raise _wrong(f"tools[{place}]", "must be of type 'function'")
            found.append(function)
        return found


KEYS = ("role", "content", "name", "tool_calls", "tool_call_id", "refusal")


def _without_marks(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return *message* with what OpenAI's API knows, and nothing of this library's own."""
    message = {key: value for key, value in message.items() if key in KEYS}
    calls = message.get("tool_calls")
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        return message
    clean = [
        {key: call.get(key) for key in ("id", "type", "function")} if isinstance(call, Mapping) else call
        for call in calls
    ]
    return {**message, "tool_calls": clean}


def _wrong(param: str, what: str) -> Refusal:
    return Refusal(400, "bad_input", f"`{param}` {what}", param=param)


class ClientSettings(Middleware[Any]):
    """Lays what a client sets over the agent's own settings; it cannot raise the agent's `max_tokens`."""

    name = "interpose.client_settings"

    def __init__(self, request: ChatRequest) -> None:
        given = {
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed,
            "stop": request.stop,
            "tool_choice": request.tool_choice if request.tools else None,
            "parallel_tool_calls": request.parallel_tool_calls,
        }
        self._given = {name: value for name, value in given.items() if value is not None}
        asked = [one for one in (request.max_tokens, request.max_completion_tokens) if one is not None]
        self._max_tokens = min(asked, default=None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was set."""
        return not self._given and self._max_tokens is None

    def on_config(self, ctx: Any, config: Any) -> Any:
        """Change the settings of the whole run."""
        if ctx.phase != "init":
            return None
        given = dict(self._given)
        if self._max_tokens is not None:
            own = config.settings.max_tokens
            given["max_tokens"] = self._max_tokens if own is None else min(own, self._max_tokens)
        return config.replace(settings=config.settings.replace(**given))
