"""Anthropic's Messages API, and every server that speaks it."""

from interpose.models.anthropic.model import AnthropicMessages
from interpose.models.anthropic.reading import Reading, from_wire
from interpose.models.anthropic.wire import to_wire

__all__ = ["AnthropicMessages", "Reading", "from_wire", "to_wire"]
