"""Ready-made middleware."""

from interpose.builtin.content_guard import ContentGuard
from interpose.builtin.tool_cache import CacheStorage, ToolCache

__all__ = ["CacheStorage", "ContentGuard", "ToolCache"]
