"""`interpose mcp`: agents as a tool server, over stdin and stdout or at an address."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from interpose.cli.load import load_agent
from interpose.cli.problems import Problem
from interpose.cli.run import run_until_interrupted
from interpose.cli.screen import NOTE, Screen
from interpose.cli.signals import call_on
from interpose.errors import ConfigurationError


def offer_agents(
    targets: Sequence[str], screen: Screen, *, http: str | None, token: str | None, description: Sequence[str]
) -> None:
    """Offer the agents that *targets* name until the client leaves, SIGTERM, or Ctrl-C.

    Raises:
        Problem: the SDK is not installed, or an argument does not fit.
        InterposeError: an agent cannot be offered, or the address cannot be served.
    """
    if description and len(description) != len(targets):
        raise Problem(f"{len(description)} descriptions for {len(targets)} agents: give one for each, in their order")
    if token is not None and http is None:
        raise Problem("--token is for --http; over stdin and stdout there is nobody to keep out")
    place = None if http is None else address_of(http)
    try:
        from interpose.mcp.offering_agents import named
        from interpose.mcp.serving import serve_http, serve_stdio
    except ConfigurationError as error:
        raise Problem(str(error)) from error
    # What an agent's file prints while it is loaded must not reach the client, which reads messages from stdout.
    printed, sys.stdout = sys.stdout, sys.stderr
    try:
        agents = named([load_agent(target) for target in targets])
    finally:
        sys.stdout = printed
    told = dict(zip(agents, description, strict=True)) if description else {}
    if place is None:
        run_until_interrupted(until_terminated(serve_stdio(agents, descriptions=told)), screen)
    else:
        host, port = place

        def started(url: str) -> None:
            screen.line(f"MCP: {url}", "bold")
            screen.line(f"offers {', '.join(agents)}; Ctrl-C ends", NOTE)

        token = token or os.environ.get("INTERPOSE_TOKEN")
        serving = serve_http(agents, host=host, port=port, token=token, started=started, descriptions=told)
        run_until_interrupted(until_terminated(serving), screen)


async def until_terminated(serving: Coroutine[Any, Any, None]) -> None:
    """Serve until SIGTERM, by which clients and service managers end a server: runs are aborted and agents closed."""
    task = asyncio.current_task()
    assert task is not None
    is_terminated = False

    def terminate() -> None:
        nonlocal is_terminated
        if not is_terminated:
            is_terminated = True
            task.cancel()

    call_on(signal.SIGTERM, terminate)
    try:
        await serving
    except asyncio.CancelledError:
        if not is_terminated:
            raise


def address_of(text: str) -> tuple[str, int]:
    """Return HOST:PORT, PORT, or HOST as a pair; the host is this machine and the port 8000 where they are left out.

    Raises:
        Problem: the port is no number of one.
    """
    host, colon, port = text.rpartition(":")
    if not colon and not text.isdigit():
        host, port = text, "8000"
    if not port.isdigit() or int(port) > 65535:
        raise Problem(f"--http takes HOST:PORT, for instance 127.0.0.1:8000; got {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
