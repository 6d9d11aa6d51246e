"""`OpenTelemetry`: every run as a trace of spans, and its model calls, tools and tokens as metrics."""

from __future__ import annotations

import importlib.metadata
import logging
import os
from typing import Any

from interpose.errors import ConfigurationError
from interpose.info import Node
from interpose.middleware import Middleware
from interpose.telemetry import attributes
from interpose.telemetry.conventions import CALLS, SECONDS, TOKENS, Conventions, conventions_of

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, StatusCode
except ImportError as error:  # pragma: no cover  # the tests have it
    raise ConfigurationError("interpose.telemetry needs OpenTelemetry: pip install 'interpose[otel]'") from error

logger = logging.getLogger("interpose")
MARK = contexts.create_key("interpose")


class Mark:
    """Kept in the current context within a span of ours: whose span it is, and of which node."""

    __slots__ = ("node_id", "owner")

    def __init__(self, owner: OpenTelemetry, node_id: str) -> None:
        self.owner = owner
        self.node_id = node_id


class Open:
    """A node whose end has not come: its span, the context with it, and what was current before.

    A step has no span of its own: it is the run's, under another node's id.
    """

    __slots__ = ("before", "calls", "context", "inference_calls", "key", "model", "run", "span", "tool_calls")

    def __init__(self, key: str, span: Span, context: Context, before: Context, run: Open | None) -> None:
        self.key = key
        self.span = span
        self.context = context
        self.before = before
        self.run = run or self
        self.inference_calls = 0
        self.tool_calls = 0
        self.model: dict[str, Any] = {}


class OpenTelemetry(Middleware[Any]):
    """Tells OpenTelemetry of every run: `invoke_agent`, below it `chat` and `execute_tool`, nested runs below these.

    A span is current while what it stands for runs, so that spans made in the body of a tool, sync ones too, or by an
    instrumented HTTP client are its children. The caller's span is the parent of the run's, and stays current for the
    caller. A span ends with its node, however that ends. Tokens are told of model calls, by the names of the
    conventions; the run has their sum as `interpose.usage.*`, nested runs included, so that nothing is counted twice.

    The providers are those that the application has set, unless others are given. They stay the application's to flush
    and to shut down. Without *content* no text of messages, arguments, results or errors leaves; with it they are as in
    the record: redacted, and cut.

    Raises:
        ConfigurationError: the package is not installed, or what is given is no provider.
    """

    def __init__(self, *, content: bool = False, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        for given, method in ((tracer_provider, "get_tracer"), (meter_provider, "get_meter")):
            if given is not None and not callable(getattr(given, method, None)):
                kind = "tracer" if method == "get_tracer" else "meter"
                raise ConfigurationError(
                    f"OpenTelemetry({kind}_provider={given!r:.80}): expected a provider, with {method}()"
                )
        self.content = self.reads_content = content
        self.conventions: Conventions = conventions_of(os.environ)
        self._given = tracer_provider
        version = importlib.metadata.version("interpose")
        url = self.conventions.schema_url
        self._tracer = trace.get_tracer("interpose", version, tracer_provider, url)
        self._instruments = Instruments(self.conventions, metrics.get_meter("interpose", version, meter_provider, url))
        self._failed: set[str] = set()

    @property
    def provider(self) -> Any:
        """Where the spans go."""
        return self._given if self._given is not None else trace.get_tracer_provider()

    def on_node(self, ctx: Any, node: Node) -> None:
        """Begin or end the node's span, in the very task in which the node runs."""
        opened: dict[str, Open] = ctx.private(self)
        try:
            if node.phase == "start":
                self._start(opened, node)
            elif (one := opened.pop(node.id, None)) is not None and node.kind != "step":
                self._end(one, node)
        except Exception as error:  # of a span processor, a sampler or a metric reader
            if type(error).__name__ not in self._failed:
                self._failed.add(type(error).__name__)
                logger.exception(
                    "OpenTelemetry failed on %s; the run goes on, further failures are not logged", node.kind
                )

    def _start(self, opened: dict[str, Open], node: Node) -> None:
        above = opened.get(node.parent_id or "")
        if above is None and (node.kind != "run" or self._is_told(node)):
            return
        if node.kind == "step":
            opened[node.id] = above  # type: ignore[assignment]  # a step has a run
            return
        before = contexts.get_current()
        mark = contexts.get_value(MARK, before)
        around = before
        if above is not None and not (isinstance(mark, Mark) and mark.owner is self and mark.node_id == above.key):
            around = trace.set_span_in_context(above.span, before)
        span = self._tracer.start_span(
            attributes.span_name(node), around, _kind(node), attributes.at_start(node, self.conventions)
        )
        inside = contexts.set_value(MARK, Mark(self, node.id), trace.set_span_in_context(span, around))
        opened[node.id] = Open(node.id, span, inside, before, above.run if above and node.kind != "run" else None)
        contexts.attach(inside)

    def _is_told(self, node: Node) -> bool:
        """Whether another of these tells the same provider of this run: one of the run, or of the run around it."""
        mark = contexts.get_value(MARK)
        if not isinstance(mark, Mark) or mark.owner is self or mark.owner.provider is not self.provider:
            return False
        return mark.node_id in (node.id, node.parent_id)

    def _end(self, one: Open, node: Node) -> None:
        mark = contexts.get_value(MARK)
        if isinstance(mark, Mark) and mark.owner is self and mark.node_id == one.key:
            contexts.attach(one.before)  # not by a token, which is of no use where a hook left something attached
        try:
            self._tell(one, node)
        finally:
            one.span.end()
            self._count(one, node)

    def _tell(self, one: Open, node: Node) -> None:
        span = one.span
        span.update_name(attributes.span_name(node))
        span.set_attributes(attributes.at_end(node, self.conventions))
        if node.kind == "run":
            span.set_attributes(attributes.agent_model(one.model, self.conventions))
        if self.content:
            span.set_attributes(attributes.content(node))
            for failure in node.failures:
                span.add_event("interpose.attempt_failed", {"exception.message": failure})
        if node.status == "error":
            span.set_status(StatusCode.ERROR, node.error if self.content else None)

    def _count(self, one: Open, node: Node) -> None:
        if node.kind == "model":
            one.run.inference_calls += node.attempts or 0
            if node.call_class == "agent":
                one.run.model = attributes.model_names(node, self.conventions)
            if node.made_by is None:
                self._instruments.model(node, one.context)
        elif node.kind == "tool":
            one.run.tool_calls += 1
            self._instruments.tool(node, one.context)
        else:
            self._instruments.run(node, one.context, one.inference_calls, one.tool_calls)


def _kind(node: Node) -> SpanKind:
    """Return CLIENT for a call of another process, INTERNAL for what happens in this one."""
    return SpanKind.CLIENT if node.kind == "model" and node.provider != "local" else SpanKind.INTERNAL


class Instruments:
    """The metrics, by the names of one version of the conventions."""

    def __init__(self, conventions: Conventions, meter: metrics.Meter) -> None:
        self.conventions = conventions

        def histogram(name: str, unit: str, about: str, borders: Any) -> metrics.Histogram:
            return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=borders)

        self.duration = histogram(conventions.duration, "s", "How long model calls took.", SECONDS)
        if conventions.token_usage is not None:
            self.token_usage = histogram(conventions.token_usage, "{token}", "Tokens of model calls.", TOKENS)
        if conventions.counts_tokens:
            kinds = {
                "input_tokens": "input_tokens",
                "output_tokens": "output_tokens",
                "cache_read.input_tokens": "cache_read_tokens",
                "cache_write.input_tokens": "cache_write_tokens",
                "reasoning.output_tokens": "reasoning_tokens",
            }
            self.tokens = {
                field: meter.create_counter(
                    f"gen_ai.client.inference.usage.{name}", "{token}", "Tokens of model calls."
                )
                for name, field in kinds.items()
            }
        if conventions.counts_agents:
            self.runs = histogram("gen_ai.invoke_agent.duration", "s", "How long runs took.", SECONDS)
            self.tools = histogram("gen_ai.execute_tool.duration", "s", "How long tool calls took.", SECONDS)
            per_run = "{call}", "Calls of one run.", CALLS
            self.inference_calls = histogram("gen_ai.invoke_agent.inference_calls", *per_run)
            self.tool_calls = histogram("gen_ai.invoke_agent.tool_calls", *per_run)

    def model(self, node: Node, context: Context) -> None:
        """Measure a model call."""
        told = {"gen_ai.operation.name": "chat", **attributes.model_names(node, self.conventions)}
        told.pop("interpose.call_class", None)
        told.pop("gen_ai.output.type", None)
        self.duration.record(_seconds(node), _with_error(told, node), context)
        usage = node.usage
        if usage is None:
            return
        if self.conventions.token_usage is not None:
            for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if count is not None:
                    self.token_usage.record(count, {**told, "gen_ai.token.type": kind}, context)
        if self.conventions.counts_tokens:
            for field, counter in self.tokens.items():
                if (count := getattr(usage, field)) is not None:
                    counter.add(count, told, context)

    def tool(self, node: Node, context: Context) -> None:
        """Measure a tool call."""
        if self.conventions.counts_agents:
            told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": node.name}
            self.tools.record(_seconds(node), _with_error(told, node), context)

    def run(self, node: Node, context: Context, inference_calls: int, tool_calls: int) -> None:
        """Measure a run."""
        if self.conventions.counts_agents:
            told = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": node.name}
            self.runs.record(_seconds(node), _with_error(told, node), context)
            self.inference_calls.record(inference_calls, told, context)
            self.tool_calls.record(tool_calls, told, context)


def _seconds(node: Node) -> float:
    return (node.duration_ms or 0.0) / 1000


def _with_error(told: dict[str, Any], node: Node) -> dict[str, Any]:
    return {**told, "error.type": attributes.error_type(node)} if node.status == "error" else told
