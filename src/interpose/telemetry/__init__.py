"""Telemetry: runs as spans and metrics of OpenTelemetry, by its conventions for generative AI."""

from interpose.telemetry.middleware import OpenTelemetry

__all__ = ["OpenTelemetry"]
