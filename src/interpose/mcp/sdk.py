"""The names of the official MCP SDK that are used here; the one file that imports it."""

from interpose.errors import ConfigurationError

try:
    import mcp_types as types
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import get_default_environment
    from mcp.client.streamable_http import streamable_http_client
    from mcp.client.subscriptions import ToolsListChanged
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer
    from mcp.server.stdio import stdio_server
    from mcp.shared.exceptions import MCPError
    from mcp.shared.message import SessionMessage
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as error:  # pragma: no cover  # the tests have it
    raise ConfigurationError("interpose.mcp needs the MCP SDK, 2.3 or newer: pip install 'interpose[mcp]'") from error

__all__ = [
    "Client",
    "MCPError",
    "MCPServer",
    "MODERN_PROTOCOL_VERSIONS",
    "Server",
    "SessionMessage",
    "StdioServerParameters",
    "ToolsListChanged",
    "get_default_environment",
    "stdio_server",
    "streamable_http_client",
    "types",
]
