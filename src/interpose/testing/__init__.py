"""The testing kit: a model that plays a script, a clock that is turned by hand, and what looks at runs and events."""

from interpose.testing.backend import MemoryBackend
from interpose.testing.clock import FakeClock
from interpose.testing.context import HandContext, make_context
from interpose.testing.events import collect, event_types, text_of
from interpose.testing.offline import no_real_models
from interpose.testing.ordering import assert_events_valid
from interpose.testing.scripted import ScriptedModel
from interpose.testing.trace import Trace
from interpose.testing.turns import calls, chunks, fail, hang, text
from interpose.testing.values import make_request, make_response

__all__ = [
    "FakeClock",
    "HandContext",
    "MemoryBackend",
    "ScriptedModel",
    "Trace",
    "assert_events_valid",
    "calls",
    "chunks",
    "collect",
    "event_types",
    "fail",
    "hang",
    "make_context",
    "make_request",
    "make_response",
    "no_real_models",
    "text",
    "text_of",
]
