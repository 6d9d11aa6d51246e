"""What users give to reach a server, checked before it is used: an address, a key, headers. No error shows a secret."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from interpose.errors import AuthFailed, ConfigurationError

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def checked_url(url: Any) -> str:
    """Return *url*, the address of a server.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(url, str):
        raise ConfigurationError(
            f"base_url must be a text such as 'http://localhost:8000/v1', got {type(url).__name__}"
        )
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        is_address = False
    if is_address and url.isprintable() and " " not in url:
        return url
    hint = "" if "://" in url or not url.strip() else f" Did you mean {'http://' + url.strip()!r}?"
    raise ConfigurationError(f"base_url must be like 'http://localhost:8000/v1', got {shown_url(url)!r:.200}.{hint}")


def shown_url(url: str) -> str:
    """Return *url* without a name and a password in it."""
    try:
        parts = urlsplit(url)
        _, at, host = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=host)) if at else url
    except ValueError:
        return url.rpartition("@")[2]


def checked_key(key: str, provider: str, model: str) -> str:
    """Return *key* without the blanks around it, such as the line break at the end of a file.

    Raises:
        AuthFailed: it has characters that no key has, and that cannot be sent.
    """
    plain = key.strip()
    if plain.isascii() and plain.isprintable() and " " not in plain:
        return plain
    raise AuthFailed(
        f"the API key of {provider}:{model} has characters that no key has, such as spaces or typographic quotes; "
        "copy it anew.",
        provider=provider,
        model=model,
    )


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return *headers* as a dict.

    Raises:
        ConfigurationError: one of them cannot be sent.
    """
    given: Any = headers or {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"extra_headers must map names to texts, got {type(given).__name__}")
    for name, value in given.items():
        if not isinstance(name, str) or _HEADER_NAME.fullmatch(name) is None:
            raise ConfigurationError(f"extra_headers: {name!r:.80} is no name of a header")
        if not isinstance(value, str) or not value.isascii() or not (value.isprintable() or not value):
            raise ConfigurationError(
                f"extra_headers: the value of {name!r} must be a text of ASCII characters, without line breaks"
            )
    return dict(given)
