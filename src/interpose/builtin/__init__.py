"""Ready-made middleware."""

from interpose.builtin.approval import Approval
from interpose.builtin.content_guard import ContentGuard
from interpose.builtin.context_window import ContextWindow
from interpose.builtin.fallback import Fallback
from interpose.builtin.result_eviction import ResultEviction, read_tool
from interpose.builtin.retry import RetryModelCalls
from interpose.builtin.stop import Stop
from interpose.builtin.summaries import by_model, extractive
from interpose.builtin.summarization import Summarization
from interpose.builtin.tool_cache import CacheStorage, ToolCache
from interpose.sandbox import Sandbox
from interpose.tokens import CHARS_PER_TOKEN

__all__ = [
    "Approval",
    "CHARS_PER_TOKEN",
    "CacheStorage",
    "ContentGuard",
    "ContextWindow",
    "Fallback",
    "ResultEviction",
    "RetryModelCalls",
    "Sandbox",
    "Stop",
    "Summarization",
    "ToolCache",
    "by_model",
    "extractive",
    "read_tool",
]
