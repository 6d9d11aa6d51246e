"""What a tool server is given as, and how a connection to it is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from interpose.errors import ConfigurationError
from interpose.mcp.http import Endpoint, Headers, headers_of
from interpose.mcp.sdk import MCPServer, Server, StdioServerParameters
from interpose.mcp.stdio import Process, as_command

EXPECTED = (
    "expected a command such as ['npx', '-y', 'some-server'], a URL that begins with http:// or https://, "
    "StdioServerParameters, a server object, or a function that returns a transport of the SDK"
)
DEFAULT_MAX_BYTES = 16 * 1024 * 1024


class Target:
    """A server that can be connected to any number of times; *label* is what errors and logs call it."""

    def __init__(
        self,
        server: Any,
        *,
        headers: Headers | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        silence_s: float = 0.0,
    ) -> None:
        self._headers = headers
        self._env = env
        self._cwd = cwd
        self._max_bytes = max_bytes
        self._silence_s = silence_s
        self.is_http = False
        self._connect: Callable[[Callable[[str], None]], Any]
        self.label = self._take(server)
        if headers is not None and not self.is_http:
            raise ConfigurationError(f"headers= is for a server behind a URL; this is {self.label}")
        if (env is not None or cwd is not None) and self._connect != self._start:
            raise ConfigurationError(f"env= and cwd= are for a server that is started by a command, not {self.label}")

    def _take(self, server: Any) -> str:
        match server:
            case str():
                return self._take_url(server)
            case StdioServerParameters():
                self._env = {**(server.env or {}), **(self._env or {})} or None
                self._cwd = self._cwd if self._cwd is not None else server.cwd
                return self._take_command((server.command, *server.args))
            case Server() | MCPServer():
                self._connect = lambda _: server
                return server.name
            case Sequence() if not isinstance(server, bytes):
                return self._take_command(server)
            case _ if callable(server) and not isinstance(server, type):
                self._connect = lambda _: server()
                return getattr(server, "__name__", type(server).__name__).strip("<>")
        raise ConfigurationError(f"{server!r:.80} is no tool server: {EXPECTED}")

    def _take_url(self, url: str) -> str:
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError as error:
            raise ConfigurationError(f"{url!r:.80} is no URL ({error}): {EXPECTED}") from None
        if parts.scheme not in ("http", "https") or not host:
            hint = f"; as a command: {url.split()!r}" if url.split() and "://" not in url else ""
            raise ConfigurationError(f"{url!r:.80} is no tool server: {EXPECTED}{hint}")
        try:
            headers_of(self._headers if not callable(self._headers) else None)
        except TypeError as error:
            raise ConfigurationError(str(error)) from None
        self.is_http = True
        self._url = url
        self._connect = self._open_url
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def _take_command(self, words: Sequence[Any]) -> str:
        try:
            self._command = as_command(words)
        except TypeError as error:
            raise ConfigurationError(str(error)) from None
        self._connect = self._start
        named = next((word for word in self._command[1:] if not word.startswith("-")), "")
        if named.startswith(("/", ".")):
            named = PurePath(named).name
        return " ".join([PurePath(self._command[0]).name, *([named] if named else [])])

    def _start(self, on_end: Callable[[str], None]) -> Process:
        return Process(
            self._command,
            env=self._env,
            cwd=self._cwd,
            label=self.label,
            max_bytes=self._max_bytes,
            on_end=on_end,
        )

    def _open_url(self, _: Callable[[str], None]) -> Endpoint:
        return Endpoint(self._url, headers=self._headers, silence_s=self._silence_s, max_bytes=self._max_bytes)

    def connect(self, on_end: Callable[[str], None]) -> Any:
        """Return what the SDK's client takes: a transport, or the server itself; *on_end* is told of its end."""
        return self._connect(on_end)
