"""OpenAI's Responses, which keeps the reasoning of its models between calls and has tools of its own."""

from interpose.models.openai.responses.model import OpenAIResponses
from interpose.models.openai.responses.reading import from_wire
from interpose.models.openai.responses.wire import to_wire

__all__ = ["OpenAIResponses", "from_wire", "to_wire"]
