"""Models that run in this process: the embedded SmolLM2-135M, or a GGUF file of one's own."""

from interpose.models.local.model import LocalModel

__all__ = ["LocalModel"]
