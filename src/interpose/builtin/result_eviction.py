"""Moves long tool results out of the conversation, and lets the model read them back."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from interpose.backends import Backend, ReadableBackend, path_part
from interpose.builtin.options import check_number, check_whole, names_of
from interpose.messages import TextPart
from interpose.middleware import Middleware
from interpose.text import clean, readable, to_json
from interpose.tokens import CountTokens, check_counter, plain_json, tokens
from interpose.tools import Tool, tool

if TYPE_CHECKING:
    from interpose.context import RunContext
    from interpose.messages import ToolCall, ToolResult

log = logging.getLogger("interpose")

FOLDER = "evicted"
WRITE_TIMEOUT_S = 10.0
"""How long a write may take; the conversation waits for it, since only then the text may leave."""
PAGE_CHARS = 20_000


class ResultEviction(Middleware[Any]):
    """Writes a tool result above *max_tokens* through *backend*, and leaves a preview and its path in the conversation.

    The preview is the first five and the last two sevenths of *preview_chars* characters. Left alone: results of
    *excluded_tools* and of a tool made by `read_tool`, and results already evicted. Of a result made of parts the texts
    are evicted together, and pictures stay. If the backend fails, or takes over 10 s, the result stays as it was and a
    warning is logged.
    """

    def __init__(
        self,
        backend: Backend,
        max_tokens: float = 2000,
        excluded_tools: Collection[str] = (),
        preview_chars: int = 700,
        count_tokens: CountTokens = tokens,
    ) -> None:
        if not hasattr(backend, "write"):
            raise TypeError(f"a backend has an async write(path, text), got {backend!r:.80}")
        check_number("max_tokens", max_tokens, 1)
        check_whole("preview_chars", preview_chars, 0)
        self._backend = backend
        self._max_tokens = max_tokens
        self._excluded = names_of("excluded_tools", excluded_tools)
        self._preview_chars = preview_chars
        self._count_tokens = check_counter(count_tokens)

    async def after_tool_call(self, ctx: "RunContext[Any]", call: "ToolCall", result: "ToolResult") -> Any:
        """Evict the result if it is long."""
        data, readers = result.data, [one.name for one in ctx.tools if isinstance(one.function, _Reader)]
        if call.name in self._excluded or call.name in readers or (isinstance(data, Mapping) and data.get("_evicted")):
            return None
        text, suffix = _text_of(result)
        size = self._count_tokens(text if suffix == "txt" or "\\" not in text else _plain(data, text))
        if size <= self._max_tokens:
            return None
        path = _path_for(ctx, ctx.private(self), call, suffix)
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self._backend.write(path, text)
        except Exception:  # whatever a backend may raise: the result itself is there
            log.warning(
                "%s: the result of %s could not be written and stays",
                self.name or "ResultEviction",
                call.name,
                exc_info=True,
            )
            return None
        ctx.meta(evicted=path, evicted_tokens=size)
        stub = {
            "_evicted": True,
            "preview": preview(text, self._preview_chars),
            "full_result_path": path,
            "estimated_tokens": size,
            "note": _note(readers),
        }
        return result.replace(data=_in_parts(result, stub) if result.parts else stub)


def _path_for(ctx: "RunContext[Any]", taken: dict[str, str], call: "ToolCall", suffix: str) -> str:
    """Return where the result of *call* goes; calls whose ids differ only in what no path may hold are kept apart."""
    stem = f"{FOLDER}/{path_part(ctx.run_id)}/{path_part(call.name)}/{path_part(call.id)}"
    path, number = f"{stem}.{suffix}", 1
    while taken.setdefault(path, call.id) != call.id:
        number += 1
        path = f"{stem}-{number}.{suffix}"
    return path


def _text_of(result: "ToolResult") -> tuple[str, str]:
    """Return the text of a result and the ending of its file."""
    if isinstance(result.data, str) or result.parts:
        return clean(result.text), "txt"
    return readable(result.data), "json"


def _plain(data: Any, text: str) -> str:
    """Return JSON as it is counted; *text* where JSON cannot hold the data."""
    try:
        return plain_json(data)
    except (RecursionError, ValueError, TypeError):
        return text


def _in_parts(result: "ToolResult", stub: Mapping[str, Any]) -> list[Any]:
    """Return the parts with the stub in place of the first text, and without the other texts."""
    parts: list[Any] = []
    placed = False
    for part in result.parts:
        if not isinstance(part, TextPart):
            parts.append(part)
        elif not placed:
            parts.append(TextPart(to_json(stub)))
            placed = True
    return parts


def preview(text: str, chars: int) -> str:
    """Return the first five and the last two sevenths of *chars* characters, and how many were left out between."""
    if len(text) <= chars:
        return text
    head = chars * 5 // 7
    tail = chars - head
    return f"{text[:head]}\n… [{len(text) - chars} characters left out] …\n{text[len(text) - tail :]}"


def _note(readers: list[str]) -> str:
    if readers:
        return f"This result was too long to show. To read it, call {readers[0]} with path set to full_result_path."
    return "This result was too long to show. The whole text is stored under full_result_path."


class _Reader:
    """What a `read_tool` calls; `ResultEviction` knows it by this class."""

    def __init__(self, backend: ReadableBackend, max_chars: int) -> None:
        self._backend = backend
        self._max_chars = max_chars

    async def __call__(self, path: str, offset: int = 0) -> str:
        """Read a tool result that was too long to show.

        Args:
            path: The full_result_path of the result.
            offset: The character to begin at.
        """
        parts = path.split("/")
        if parts[0] != FOLDER or len(parts) < 2 or not all(part.strip(".") for part in parts):
            raise ValueError(f"{path!r} is no full_result_path of an earlier result")
        try:
            text = await self._backend.read(path)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            # whose own text may tell where the backend's files are
            raise FileNotFoundError(f"there is no result {path!r}") from None
        start = max(offset, 0)
        if start >= len(text) > 0:
            return f"[the result ends at character {len(text)}; there is nothing at offset={start}]"
        end = start + self._max_chars
        if end >= len(text):
            return text[start:]
        return f"{text[start:end]}\n… [characters {start} to {end} of {len(text)}; go on with offset={end}]"


def read_tool(backend: Any, *, name: str = "read_result", max_chars: int = PAGE_CHARS) -> Tool:
    """Return a tool with which the model reads evicted results, *max_chars* characters at a time.

    It reads below `evicted/` only, where each run has a folder under its id. Its own results are never evicted.

    Raises:
        TypeError: *backend* cannot read.
        ValueError: *max_chars* is below 1.
    """
    if not isinstance(backend, ReadableBackend):
        raise TypeError(f"read_tool needs a backend with an async read(path) beside write, got {backend!r:.80}")
    check_whole("max_chars", max_chars, 1)
    if not name:
        raise ValueError("a tool needs a name, got an empty one")
    return tool(_Reader(backend, max_chars), name=name, effect="read")
