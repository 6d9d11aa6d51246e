"""Anthropic's Messages API, and every server that speaks it."""

from interpose.models.anthropic.model import AnthropicMessages
from interpose.models.anthropic.pausing import ContinuePausedTurns
from interpose.models.anthropic.reading import Reading, from_wire
from interpose.models.anthropic.wire import to_wire

__all__ = ["AnthropicMessages", "ContinuePausedTurns", "Reading", "from_wire", "to_wire"]
