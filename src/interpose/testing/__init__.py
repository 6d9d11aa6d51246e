"""The testing kit: a model that plays a script, a clock that is turned by hand, and what looks at runs and events."""

from interpose.testing.scripted import ScriptedModel
from interpose.testing.turns import calls, chunks, fail, hang, text

__all__ = ["ScriptedModel", "calls", "chunks", "fail", "hang", "text"]
