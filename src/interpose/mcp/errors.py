"""What goes wrong with a tool server, in words that say which one and what to do."""

import os
from collections.abc import Iterator
from typing import Any

from interpose.errors import InterposeError


class ToolServerError(InterposeError):
    """A tool server cannot be reached, or does not speak the protocol; *server* is its label.

    *brief* is the text without what the server itself said, which is not for models.
    """

    def __init__(self, message: str, server: str = "", *, brief: str = "") -> None:
        super().__init__(message)
        self.server = server
        self.brief = brief or message


def roots_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors within *error*, a group or not; cancellations come last."""
    if isinstance(error, BaseExceptionGroup):
        inner = [root for one in error.exceptions for root in roots_of(one)]
        yield from sorted(inner, key=lambda one: not isinstance(one, Exception))
    else:
        yield error


def reason_of(error: BaseException) -> str:
    """Return what *error* says, with what to do about it where that is known."""
    root = next(roots_of(error))
    kind, text = type(root).__name__, " ".join(str(root).split())
    match root:
        case ToolServerError():
            return text
        case FileNotFoundError():
            hint = "" if os.sep in str(root.filename) else ": is it installed, and on the PATH?"
            return f"there is no {root.filename!r}{hint}"
        case PermissionError():
            return f"{root.filename!r} may not be run ({text})"
    if kind in ("ConnectError", "ConnectTimeout"):
        return f"nothing answers there ({text or kind}): is the server running, and is the address right?"
    if kind in ("UnsupportedProtocol", "InvalidURL", "LocalProtocolError"):
        return f"the address or a header cannot be used ({text})"
    if kind == "ValidationError":
        return f"what it sent does not fit the protocol: {unfit(root)}"
    return f"{kind}: {text}" if text else kind


def unfit(error: Any) -> str:
    """Return where and why data of the protocol does not fit, of an error of pydantic's; other errors as they are."""
    if not hasattr(error, "errors"):
        return " ".join(str(error).split())[:600]
    found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
