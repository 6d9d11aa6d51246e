"""An SDK that keeps spans and metrics in memory, and what tests ask of them."""

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from interpose.telemetry import OpenTelemetry


class Memory:
    """A tracer provider and a meter provider, and what reached them."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.tracer = self.tracers.get_tracer("test")

    def telemetry(self, **options: Any) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those that have ended, in that order."""
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        """The only span of this name."""
        (found,) = [one for one in self.spans if one.name == name]
        return found

    def of(self, operation: str) -> list[ReadableSpan]:
        return [one for one in self.spans if one.attributes and one.attributes["gen_ai.operation.name"] == operation]

    def tree(self) -> dict[str, str | None]:
        """The name of each span's parent, by its own name; a parent that has not ended is `?`."""
        names = {one.context.span_id: one.name for one in self.spans}
        return {one.name: names.get(one.parent.span_id, "?") if one.parent else None for one in self.spans}

    def metrics(self) -> dict[str, list[Any]]:
        """The data points of each metric, by its name."""
        data = self.reader.get_metrics_data()
        scopes = [scope for one in (data.resource_metrics if data else ()) for scope in one.scope_metrics]
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_error(span: ReadableSpan) -> bool:
    return span.status.status_code is StatusCode.ERROR


def texts(spans: list[ReadableSpan]) -> str:
    """All that is told of *spans*, as one text."""
    return "\n".join([one.to_json() for one in spans])
