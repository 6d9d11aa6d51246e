"""Opening, sharing and closing: in whatever loops the agents run, and whatever already listens at the port."""

import asyncio
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.flow.client import ask, page
from tests.flow.nodes import Told, tell_guide

from interpose import Agent, ConfigurationError
from interpose.flow import Flow
from interpose.testing import ScriptedModel, text


def agent_of(*middleware: Any, turns: int = 1, **options: Any) -> Agent[Any]:
    return Agent(ScriptedModel(*[text("hi")] * turns), middleware=middleware, **options)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


async def is_answered(port: int) -> bool:
    try:
        return (await ask(port)).status == 200
    except OSError:
        return False


async def test_page_is_there_from_open_to_close() -> None:
    flow = Flow(port=free_port())
    assert not await is_answered(flow.port)
    async with agent_of(flow) as agent:
        await agent.run("go")
        assert flow.is_serving
        assert await is_answered(flow.port)
    assert not flow.is_serving
    assert not await is_answered(flow.port)


async def test_port_0_is_any_free_port_which_the_url_tells() -> None:
    flow = Flow(port=0)
    async with agent_of(flow) as agent:
        await agent.run("go")
        assert flow.url == f"http://127.0.0.1:{flow.port}/"
        assert flow.port > 0


async def test_port_in_use_harms_no_run_and_is_said_once(taken: int, caplog: pytest.LogCaptureFixture) -> None:
    flow = Flow(port=taken)
    async with agent_of(flow, turns=3) as agent:
        for _ in range(3):
            assert (await agent.run("go")).text == "hi"
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1
    assert f"port {taken} on 127.0.0.1 is in use" in said[0]
    assert f"give another port ({taken + 1}" in said[0]


async def test_port_in_use_does_not_refuse_use(taken: int) -> None:
    agent = agent_of()
    await agent.use(Flow(port=taken))
    assert (await agent.run("go")).text == "hi"
    await agent.aclose()


async def test_page_comes_once_the_port_is_free() -> None:
    port = free_port()
    flow = Flow(port=port)
    with socket.create_server(("127.0.0.1", port)):
        agent = agent_of(flow, turns=2)
        await agent.run("go")
        assert not flow.is_serving
    await agent.run("go")
    assert await is_answered(port)
    assert len((await ask(port, "/api/runs")).json["runs"]) == 2, "what was seen before is there"
    await agent.aclose()


@pytest.mark.parametrize(
    ("host", "words"),
    [("no such host", "is not known here"), ("192.0.2.1", "is not an address of this machine")],
)
async def test_host_that_cannot_be_listened_at_is_said(host: str, words: str, caplog: pytest.LogCaptureFixture) -> None:
    async with agent_of(Flow(port=0, host=host, token="t")) as agent:
        assert (await agent.run("go")).text == "hi"
    assert words in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": -1}, "port=-1"),
        ({"port": 65536}, "port=65536"),
        ({"port": "4100"}, "port='4100'"),
        ({"port": True}, "port=True"),
        ({"port": None}, "port=None"),
        ({"host": None}, "host=None"),
        ({"host": " localhost"}, "host=' localhost'"),
        ({"max_runs": 0}, "max_runs=0"),
        ({"max_runs": 2.0}, "max_runs=2.0"),
        ({"token": ""}, "token"),
        ({"token": "naïve"}, "token"),
        ({"token": 7}, "token"),
    ],
    ids=str,
)
def test_argument_of_the_wrong_kind_is_refused_when_it_is_given(options: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        Flow(**options)


@pytest.mark.parametrize(
    ("host", "warns"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("localhost", False)]
)
def test_page_for_a_whole_network_without_a_token_is_warned_of(
    host: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    Flow(host=host)
    assert ("without a token" in caplog.text) == warns
    caplog.clear()
    Flow(host=host, token="secret")
    assert caplog.text == ""


async def test_agents_share_one_page_until_the_last_closes() -> None:
    flow = Flow(port=0)
    first, second = agent_of(flow, name="first"), agent_of(flow, name="second")
    await asyncio.gather(first.run("go"), second.run("go"))
    port = flow.port
    await first.aclose()
    names = {run["name"] for run in (await ask(port, "/api/runs")).json["runs"]}
    assert names == {"first", "second"}
    await second.aclose()
    assert not await is_answered(port)


async def test_page_opens_again_and_still_shows_what_was_seen() -> None:
    flow = Flow(port=free_port())
    for count in range(1, 4):
        async with agent_of(flow) as agent:
            await agent.run("go")
            assert len((await ask(flow.port, "/api/runs")).json["runs"]) == count


async def test_page_given_to_runs_that_overlap_is_closed_with_the_last() -> None:
    flow = Flow(port=free_port())
    agent = agent_of(turns=2)
    await asyncio.gather(agent.run("go", middleware=[flow]), agent.run("go", middleware=[flow]))
    assert not await is_answered(flow.port)
    assert not flow.is_serving


def test_each_loop_in_turn_serves_the_page() -> None:
    flow = Flow(port=free_port())

    async def once() -> int:
        async with agent_of(flow) as agent:
            await agent.run("go")
            return len((await ask(flow.port, "/api/runs")).json["runs"])

    assert [asyncio.run(once()) for _ in range(3)] == [1, 2, 3]


def test_loop_that_ends_without_closing_frees_the_port_and_the_next_serves() -> None:
    flow = Flow(port=free_port())
    agent = agent_of(flow, turns=3)

    async def once() -> int:
        await agent.run("go")
        async with page(flow.port) as stream:
            await stream.frame()
            return len((await ask(flow.port, "/api/runs")).json["runs"])

    assert [asyncio.run(once()) for _ in range(3)] == [1, 2, 3]
    with socket.create_server(("127.0.0.1", flow.port)):
        pass  # it is free
    asyncio.run(agent.aclose())


def test_loop_that_ends_while_a_page_listens_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    flow = Flow(port=free_port())
    agent = agent_of(flow)

    async def script(page: socket.socket) -> bytes:
        await agent.run("go")
        page.connect(("127.0.0.1", flow.port))
        page.sendall(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return await asyncio.to_thread(page.recv, 100)

    with socket.socket() as page:
        assert asyncio.run(script(page)).startswith(b"HTTP/1.1 200")
    assert caplog.records == []
    asyncio.run(agent.aclose())


def test_loop_that_is_closed_without_being_told_leaves_the_page_to_the_next() -> None:
    flow = Flow(port=free_port())
    agent = agent_of(flow, turns=2)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(agent.run("go"))
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()

    async def next_loop() -> int:
        await agent.run("go")
        runs = (await ask(flow.port, "/api/runs")).json["runs"]
        await agent.aclose()
        return len(runs)

    assert asyncio.run(next_loop()) == 2


def test_page_is_closed_from_another_loop_than_the_one_that_serves() -> None:
    flow = Flow(port=free_port())
    ready, leave = threading.Event(), threading.Event()

    async def serve() -> None:
        await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
        ready.set()
        await asyncio.to_thread(leave.wait, 10)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)

    async def elsewhere() -> list[bool]:
        there = await is_answered(flow.port)
        async with agent_of(flow) as agent:
            await agent.run("go")
        await flow.close()
        return [there, await is_answered(flow.port)]

    answered = asyncio.run(elsewhere())
    leave.set()
    thread.join(10)
    assert answered == [True, False]


def test_run_sync_is_served_while_it_runs() -> None:
    flow = Flow(port=free_port())
    assert agent_of(flow).run_sync("go").text == "hi"
    assert not flow.is_serving


async def test_signal_handlers_and_loggers_of_the_app_are_left_alone() -> None:
    watched = (signal.SIGINT, signal.SIGTERM)
    loggers = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")]

    def state() -> Any:
        return [signal.getsignal(one) for one in watched], [(one.level, one.handlers, one.propagate) for one in loggers]

    before = state()
    async with agent_of(Flow(port=0)) as agent:
        await agent.run("go")
        assert state() == before
    assert state() == before


async def test_requests_are_not_logged_among_those_of_the_app(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    flow = Flow(port=0)
    async with agent_of(flow) as agent:
        await agent.run("go")
        await ask(flow.port)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("uvicorn")] == []


async def test_requests_do_not_see_the_context_of_the_run_that_opened_the_page() -> None:
    from contextvars import ContextVar

    from interpose.flow.serving import Serving, bind

    secret: ContextVar[str] = ContextVar("secret", default="nothing")
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(secret.get())
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    secret.set("of the run")
    serving = await Serving.start(app, bind("127.0.0.1", 0))
    await ask(serving.port)
    await serving.close()
    assert seen == ["nothing"]


async def test_run_cut_off_by_closing_is_not_shown_as_running(flow: Flow) -> None:
    tell_guide(Told(lambda node: flow.on_node(None, node)), until=1)  # type: ignore[arg-type]  # the node says all
    await flow.close()
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    (run,) = (await ask(flow.port, "/api/runs")).json["runs"]
    assert (run["status"], run["outcome"]) == ("error", "lost")


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_opening_that_is_cancelled_leaves_nothing_open(turns: int) -> None:
    before = asyncio.all_tasks()
    flow = Flow(port=free_port())
    opening = asyncio.create_task(flow.open(None))  # type: ignore[arg-type]  # the page is the same for all agents
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    if opening.cancelled():
        await asyncio.sleep(0.05)
        assert not await is_answered(flow.port)
        assert asyncio.all_tasks() == before
        await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    assert await is_answered(flow.port)
    await flow.close()
    assert not await is_answered(flow.port)


async def test_closing_twice_does_nothing() -> None:
    flow = Flow(port=0)
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    await flow.close()
    await flow.close()
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    assert flow.is_serving
    await flow.close()


async def test_no_task_is_left() -> None:
    before = asyncio.all_tasks()
    flow = Flow(port=0)
    async with agent_of(flow) as agent:
        await agent.run("go")
        async with page(flow.port) as stream:
            await stream.frame()
    assert asyncio.all_tasks() == before


MISSING = """
import sys
sys.modules["starlette"] = None  # as where it is not installed
from interpose.flow import Flow
try:
    Flow()
except Exception as error:
    print(type(error).__name__, error)
"""


def test_missing_extra_is_named_when_the_object_is_made() -> None:
    ran = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("ConfigurationError")
    assert "pip install 'interpose[flow]'" in ran.stdout


def test_neither_server_nor_its_packages_are_loaded_before_the_page_is_opened() -> None:
    code = "import interpose.flow, sys; interpose.flow.Flow(); print({'uvicorn', 'starlette'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
