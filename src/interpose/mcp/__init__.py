"""Tool servers of the Model Context Protocol: their tools in an agent, and agents as such a server."""

from interpose.mcp.errors import ToolServerError
from interpose.mcp.offering_agents import agent_server
from interpose.mcp.serving import serve_http, serve_stdio
from interpose.mcp.tools import MCPTools

__all__ = ["MCPTools", "ToolServerError", "agent_server", "serve_http", "serve_stdio"]
