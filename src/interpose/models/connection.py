"""What went wrong with a connection, told from the error of whichever HTTP library an SDK brings."""

from typing import Literal

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
