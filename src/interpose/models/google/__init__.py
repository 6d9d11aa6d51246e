"""Google's Gemini API."""

from interpose.models.google.model import GoogleGemini
from interpose.models.google.reading import Reading, from_wire
from interpose.models.google.wire import to_wire

__all__ = ["GoogleGemini", "Reading", "from_wire", "to_wire"]
