"""Middleware that looks on (reports, pages, logs, telemetry) that must type-check; nothing here is run."""

from pathlib import Path
from typing import assert_type

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from interpose import Agent, Middleware
from interpose.flow import Flow
from interpose.report import ConsoleLog, Report, StoredRun, find_run, stored_runs
from interpose.telemetry import OpenTelemetry


def observers() -> list[Middleware]:
    return [
        Report("reports/"),
        Report(Path("reports"), content=False),
        ConsoleLog(),
        Flow(),
        Flow(4200, "0.0.0.0", max_runs=5, token="secret"),
        OpenTelemetry(),
        OpenTelemetry(content=True, tracer_provider=TracerProvider(), meter_provider=MeterProvider()),
    ]


async def served(agent: Agent) -> str:
    flow = Flow(port=0)
    async with agent.copy(middleware=[flow, *observers()]) as watched:
        await watched.run("Go")
        assert_type(flow.port, int)
        assert_type(flow.is_serving, bool)
        return flow.url


def read(report: Report) -> list[str]:
    assert_type(report.directory, Path)
    run = assert_type(find_run(report.directory, "r1"), StoredRun)
    assert_type(run.page, Path)
    return [run.id, *[str(summary["id"]) for summary in stored_runs(report.directory)]]
