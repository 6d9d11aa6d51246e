"""Runs sent to Phoenix, a receiver of OpenTelemetry traces, and what it understood of them; see README.md here.

python examples/phoenix/trace_runs.py        # PHOENIX_URL=http://127.0.0.1:6006
"""

import asyncio
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from interpose import Agent, ConfigurationError, Middleware, RunAborted, RunResult, Usage, tool
from interpose.models import LocalModel
from interpose.telemetry import OpenTelemetry
from interpose.testing import ScriptedModel, calls, text

PHOENIX_URL = os.environ.get("PHOENIX_URL", "http://127.0.0.1:6006").rstrip("/")
PATIENCE_S = 30
PEOPLE = {"Lyon": 522_000, "Nice": 353_000}
AREAS_KM2 = {"Lyon": 47.9, "Nice": 71.9}
provider = TracerProvider(resource=Resource.create({"service.name": "interpose-example"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{PHOENIX_URL}/v1/traces")))
tracer = provider.get_tracer("example")
session = f"session-{time.time_ns()}"


@tool
async def population(city: str) -> int:
    """Return how many people live in a city."""
    with tracer.start_as_current_span("look it up"):
        await asyncio.sleep(0.02)
        return PEOPLE[city]


@tool
def area_km2(city: str) -> float:
    """Return how large a city is."""
    with tracer.start_as_current_span("measure"):
        time.sleep(0.01)
        return AREAS_KM2[city]


class Aborts(Middleware):
    """Aborts the run in its second step."""

    def on_step(self, ctx: Any, info: Any) -> None:
        if info.step == 1:
            ctx.abort("the user left")


def agents(telemetry: OpenTelemetry) -> list[tuple[Agent[Any], str]]:
    """Return agents, and what to ask them."""
    used = Usage(120, 30, cache_read_tokens=40)
    poet: Agent[Any] = Agent(ScriptedModel(text("O Lyon!", usage=Usage(20, 5)), model="small"), name="poet")
    guide: Agent[Any] = Agent(
        ScriptedModel(
            calls(("population", {"city": "Lyon"}), ("area_km2", {"city": "Lyon"}), usage=used),
            calls(("population", {"city": "Atlantis"}), ("poem", {"prompt": "On Lyon."}), usage=used),
            text("Half a million people live on 48 square kilometres.", usage=used),
            model="large",
        ),
        name="guide",
        tools=[population, area_km2, poet.as_tool("poem", "Write a poem.")],
        middleware=[telemetry],
    )
    counter: Agent[Any] = Agent(
        ScriptedModel(text("Two.", usage=Usage(10, 2)), text("2", usage=Usage(11, 1))),
        name="counter",
        output=int,
        middleware=[telemetry],
        tools=[population],
    )
    turns = [calls(("population", {"city": "Nice"}), usage=used)] * 2
    leaver: Agent[Any] = Agent(
        ScriptedModel(*turns), name="leaver", tools=[population], middleware=[Aborts(), telemetry]
    )
    made = [(guide, "Tell me of Lyon."), (counter, "How many cities?"), (leaver, "How many people live in Nice?")]
    try:
        local = Agent(LocalModel(), name="local", tools=[population], middleware=[telemetry])
    except ConfigurationError as missing:
        print(f"without the embedded model: {missing}")
    else:
        made.append((local, "How many people live in Lyon?"))
    return made


async def make_runs() -> dict[str, Usage]:
    """Make the runs and return what each agent's used."""
    used: dict[str, Usage] = {}
    result: RunResult | None = None
    for agent, prompt in agents(OpenTelemetry(content=True, tracer_provider=provider)):
        async with agent:
            try:
                with tracer.start_as_current_span("request"):
                    async with agent.stream(prompt, thread_id=session) as run:
                        async for _ in run:
                            pass
                        result = await run.result()
            except RunAborted as error:
                result = error.partial
        used[agent.name] = result.usage if result is not None else Usage()
    return used


def spans_of(url: str) -> list[dict[str, Any]]:
    """Return the spans that Phoenix has of this session's traces."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        with urllib.request.urlopen(f"{url}/v1/projects/default/spans?limit=1000{cursor}", timeout=10) as answer:
            page = json.load(answer)
        found += page["data"]
        if not page.get("next_cursor"):
            break
        cursor = f"&cursor={page['next_cursor']}"
    traces = {one["context"]["trace_id"] for one in found if session in json.dumps(one["attributes"])}
    return [one for one in found if one["context"]["trace_id"] in traces]


def show(spans: list[dict[str, Any]]) -> None:
    """Print the spans as trees: kind, status and tokens as Phoenix understood them."""
    below: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for one in sorted(spans, key=lambda span: span["start_time"]):
        below[one["parent_id"]].append(one)

    def line(one: dict[str, Any], depth: int) -> None:
        told = one["attributes"]
        tokens = [told.get(f"llm.token_count.{kind}") for kind in ("prompt", "completion")]
        counted = f"  {tokens[0]} + {tokens[1]} tokens" if tokens != [None, None] else ""
        print(f"{'  ' * depth}{one['span_kind']:6} {one['name']}  {one['status_code']}{counted}")
        for child in below[one["context"]["span_id"]]:
            line(child, depth + 1)

    for root in below[None]:
        line(root, 0)


def check(spans: list[dict[str, Any]], used: dict[str, Usage]) -> list[str]:
    """Return what is not as it was."""
    wrong = []
    kinds = {"invoke_agent": "AGENT", "chat": "LLM", "execute_tool": "TOOL"}
    names = {one["context"]["span_id"]: one["name"] for one in spans}
    for one in spans:
        expected = kinds.get(one["name"].split()[0])
        if expected is not None and one["span_kind"] != expected:
            wrong.append(f"{one['name']} is a {one['span_kind']}")
        if expected == "AGENT" and one["attributes"].get("session.id") != session:
            nested = names.get(one["parent_id"] or "", "").startswith("execute_tool")
            wrong += [] if nested else [f"{one['name']} has session {one['attributes'].get('session.id')!r}"]
    parents = {one["name"]: names.get(one["parent_id"] or "") for one in spans}
    for name, parent in (
        ("invoke_agent guide", "request"),
        ("measure", "execute_tool area_km2"),
        ("look it up", "execute_tool population"),
        ("invoke_agent poet", "execute_tool poem"),
        ("chat small", "invoke_agent poet"),
    ):
        if parents.get(name) != parent:
            wrong.append(f"{name} is below {parents.get(name)!r}, not below {parent!r}")
    for kind, count in (
        ("prompt", sum(one.input_tokens or 0 for one in used.values())),
        ("completion", sum(one.output_tokens or 0 for one in used.values())),
    ):
        told = sum(one["attributes"].get(f"llm.token_count.{kind}", 0) for one in spans)
        if told != count:
            wrong.append(f"{told} {kind} tokens over all spans, {count} were used")
    return wrong


def main() -> int:
    """Make the runs, send them, and hold what came of them against what was done."""
    used = asyncio.run(make_runs())
    provider.shutdown()
    expected, spans = len(used), []
    for _ in range(PATIENCE_S):
        try:
            spans = spans_of(PHOENIX_URL)
        except urllib.error.URLError as error:
            print(f"no Phoenix at {PHOENIX_URL} ({error}); see README.md beside this file")
            return 1
        if len([one for one in spans if one["name"] == "request"]) == expected:
            break
        time.sleep(1)
    show(spans)
    wrong = check(spans, used)
    print("\n".join(["", *wrong]) if wrong else f"\n{len(spans)} spans, all as they were. {PHOENIX_URL}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
