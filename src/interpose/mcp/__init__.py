"""Tool servers of the Model Context Protocol: their tools in an agent, and an agent as such a server."""

from interpose.mcp.errors import ToolServerError
from interpose.mcp.tools import MCPTools

__all__ = ["MCPTools", "ToolServerError"]
