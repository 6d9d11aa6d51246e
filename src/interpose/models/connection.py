"""What went wrong with a connection, told from the error of whichever HTTP library an SDK brings."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

from interpose.errors import ModelTimeout, ProviderDown, ProviderError
from interpose.models.reaching import shown_url

Trouble = Literal["unreachable", "silent", "broken"]

_LIBRARIES = frozenset({"aiohttp", "httpcore", "httpcore2", "httpx", "httpx2"})
_UNREACHABLE = frozenset({"ConnectError", "ConnectTimeout", "ClientConnectorError", "ConnectionTimeoutError"})
_SILENT = frozenset({"TimeoutException", "ServerTimeoutError"})
_BROKEN = frozenset({"ClientError", "HTTPError", "NetworkError", "ProtocolError"})


def trouble_of(error: BaseException) -> Trouble | None:
    """Return what *error* says of the connection, or None where it is no error of an HTTP library.

    The libraries are known by name, since an SDK says neither which it uses nor that it will go on using it.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] in _LIBRARIES}
    if kinds & _UNREACHABLE:
        return "unreachable"
    if kinds & _SILENT or isinstance(error, TimeoutError):
        return "silent"
    return "broken" if kinds & _BROKEN or isinstance(error, ConnectionError) else None


def failure_of(
    error: BaseException, *, base_url: str, has_begun: bool, provider: str, model: str, request_id: str | None = None
) -> ProviderError:
    """Return our error for *error* of a connection to *base_url*; *has_begun* says whether an answer was coming in."""
    trouble, said = trouble_of(error), str(error) or type(error).__name__
    base_url = shown_url(base_url)
    if trouble == "silent":
        message = f"{base_url} was silent for longer than the time limit; timeout_s= sets it"
        return ModelTimeout(message, provider=provider, model=model, request_id=request_id)
    if trouble == "unreachable" or not has_begun:
        check = "Check that the server runs there and that base_url is right."
        return ProviderDown(f"cannot reach {base_url} ({said}). {check}", provider=provider, model=model)
    message = f"the connection to {base_url} broke while the answer came in: {said}"
    return ProviderDown(message, provider=provider, model=model, request_id=request_id)


async def close_reading(chunks: AsyncIterator[Any], close: Callable[[], Awaitable[None]]) -> None:
    """Close a connection with *close*, and end *chunks*, what an SDK reads from it.

    SDKs read through generators that stand in one another and do not close each other: left alone, each would be ended
    by a task of the garbage collector's, some time later. A reader of a closed connection ends at once, and so do they.
    """
    await close()
    try:
        async for _ in chunks:
            pass
    except Exception as error:
        del error  # that the connection is closed is what was asked for
