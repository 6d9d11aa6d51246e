"""OpenAI's Chat Completions, and every server that speaks it."""

from interpose.models.openai.dialect import Dialect
from interpose.models.openai.model import OpenAIChat
from interpose.models.openai.reading import from_wire
from interpose.models.openai.wire import to_wire

__all__ = ["Dialect", "OpenAIChat", "from_wire", "to_wire"]
