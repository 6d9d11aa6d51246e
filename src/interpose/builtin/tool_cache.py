"""Answers equal tool calls from memory."""

import copy
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec

from interpose.builtin.cache_keys import key_text
from interpose.builtin.options import check_number, check_takes, check_whole, names_of
from interpose.middleware import Middleware, ToolNext
from interpose.saved import SavedResult
from interpose.text import to_json

if TYPE_CHECKING:
    from interpose.context import RunContext
    from interpose.messages import ToolCall, ToolResult

log = logging.getLogger("interpose")

PLAIN = frozenset({str, int, float, bool, bytes, type(None)})


class CacheStorage(Protocol):
    """A home for results outside the process: text by key. The methods may be `def` or `async def`."""

    def get(self, key: str, /) -> str | Awaitable[str | None] | None:
        """Return the text under *key*, or None."""
        ...

    def set(self, key: str, text: str, /) -> object:
        """Keep *text* under *key*."""
        ...

    def delete(self, key: str, /) -> object:
        """Forget *key*; harmless where there is none."""
        ...


class _Entry(NamedTuple):
    data: Any
    stored_at: float


Entries = OrderedDict[str, _Entry]


class ToolCache(Middleware[Any]):
    """Answers a tool call from the result of an equal one: same tool, same arguments as they reach this layer.

    Successful results only. The least recently used of *max_size* leaves first; a result is used for *ttl_s* seconds,
    which a hit does not prolong. *tools* names the tools to cache (all, if None). *key* is `key(ctx, call)` and stands
    in place of the arguments. *scope* says who shares results: calls of one run ("run"), every run that this object
    serves ("agent"), or those for which `scope(ctx)` gives the same, such as a user's id. A key of None is not
    cached. What *key* and *scope* give is told by its text: an object that has none of its own is refused, since its
    address may be another's next.

    With *storage*, results are kept there as JSON, what leaves when is its own affair, and results made of parts are
    not kept; one that fails is logged and the tool runs. Equal calls that run side by side are executed each. A hit
    asks for no approval, since nothing runs.
    """

    def __init__(
        self,
        ttl_s: float | None = None,
        max_size: int = 100,
        tools: Collection[str] | None = None,
        key: Callable[[Any, Any], Any] | None = None,
        storage: CacheStorage | None = None,
        scope: Literal["run", "agent"] | Callable[[Any], Any] = "run",
    ) -> None:
        if ttl_s is not None:
            check_number("ttl_s", ttl_s, 0, " seconds, or None for no end")
            if ttl_s == 0:
                raise ValueError(f"ttl_s must be above 0, or None for no end, got {ttl_s!r}")
        check_whole("max_size", max_size, 1, "; leave ToolCache out to cache nothing")
        if key is not None:
            check_takes("key", key, "ctx", "call")
        if callable(scope):
            check_takes("scope", scope, "ctx")
        if not callable(scope) and scope not in ("run", "agent"):
            raise ValueError(f"scope must be 'run', 'agent' or a callable of ctx, got {scope!r}")
        if storage is not None and not all(hasattr(storage, name) for name in ("get", "set", "delete")):
            raise TypeError(f"storage needs get(key), set(key, text), delete(key); {type(storage).__name__} lacks one")
        self._ttl_s = ttl_s
        self._max_size = max_size
        self._tools = None if tools is None else names_of("tools", tools)
        self._key = key
        self._storage = storage
        self._scope = scope
        self._shared: Entries = OrderedDict()

    async def wrap_tool_call(self, ctx: "RunContext[Any]", call: "ToolCall", call_next: ToolNext) -> Any:
        """Answer from the cache, or execute and keep the result."""
        if call.error is not None or (self._tools is not None and call.name not in self._tools):
            return await call_next(call)
        key = await self._key_of(ctx, call)
        if key is None:
            return await call_next(call)
        entries = ctx.private(self).setdefault("entries", OrderedDict()) if self._scope == "run" else self._shared
        hit = await self._look_up(key, entries, ctx.now())
        if hit is not None:
            ctx.meta(cache_hit=True)
            return call.answer(hit.data)
        result = await call_next(call)
        if not result.is_error:
            await self._keep(key, entries, result, ctx.now())
        return result

    async def _key_of(self, ctx: "RunContext[Any]", call: "ToolCall") -> str | None:
        """Return the key, in which no id made for this run takes part; None for a call that is not cached."""
        if self._key is None:
            try:
                what = key_text(call.args)
            except (RecursionError, TypeError):  # arguments that no text can stand for
                return None
        else:
            given = await _said(self._key(ctx, call))
            if given is None:
                return None
            what = _key_part("key", given)
        if callable(self._scope):
            who = _key_part("scope", await _said(self._scope(ctx)))
        else:
            who = key_text(ctx.run_id if self._scope == "run" and self._storage is not None else None)
        return f"[{who},{key_text(call.name)},{what}]"

    async def _look_up(self, key: str, entries: Entries, now: float) -> _Entry | None:
        """Return the entry that is there and fresh, and forget one that is not."""
        if self._storage is not None:
            try:
                return await self._look_up_stored(self._storage, key, now)
            except Exception:
                log.warning("%s: the storage failed, so the tool runs", self.name or "ToolCache", exc_info=True)
                return None
        entry = entries.pop(key, None)
        if entry is None or not self._is_fresh(entry, now):
            return None
        entries[key] = entry  # now the most recently used
        return _Entry(_copied(entry.data), entry.stored_at)

    async def _look_up_stored(self, storage: CacheStorage, key: str, now: float) -> _Entry | None:
        text = await _said(storage.get(key))
        if text is None:
            return None
        kept = msgspec.json.decode(text)
        entry = _Entry(kept["data"], kept["stored_at"])
        if self._is_fresh(entry, now):
            return entry
        await _said(storage.delete(key))
        return None

    def _is_fresh(self, entry: _Entry, now: float) -> bool:
        return self._ttl_s is None or now - entry.stored_at < self._ttl_s

    async def _keep(self, key: str, entries: Entries, result: "ToolResult", now: float) -> None:
        try:
            if self._storage is None:
                entries[key] = _Entry(_copied(result.data), now)
            elif not result.parts:
                await _said(self._storage.set(key, to_json({"data": SavedResult.of(result).data, "stored_at": now})))
        except Exception:  # whatever a copy method or a storage may raise: the result itself is there
            log.warning("%s: a result could not be kept", self.name or "ToolCache", exc_info=True)
        while len(entries) > self._max_size:
            entries.popitem(last=False)


def _copied(data: Any) -> Any:
    """Return *data* so that a hook that edits one answer in place does not change the next."""
    return data if data.__class__ in PLAIN else copy.deepcopy(data)


async def _said(value: Any) -> Any:
    """Return what a plain or async function gave."""
    return await value if isawaitable(value) else value


def _key_part(option: str, value: Any) -> str:
    """Return *value*, which the function given as *option* returned, as a part of a key.

    Raises:
        TypeError: it has no text of its own, so that two of it could not be told apart.
    """
    try:
        return key_text(value)
    except (RecursionError, TypeError) as error:
        raise TypeError(
            f"{option} must return what can be told by its text (a text, a number, a list or dict of them), "
            f"got {value!r:.80}"
        ) from error
