"""Agents served over HTTP: AG-UI with server-sent events, and an OpenAI-compatible API. Needs the extra `server`."""

from interpose.server.app import create_app
from interpose.server.caller import Caller
from interpose.server.failures import ShownError
from interpose.server.options import Options
from interpose.server.stream import sse

__all__ = ["Caller", "Options", "ShownError", "create_app", "sse"]
