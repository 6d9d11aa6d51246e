"""`interpose serve`: agents over HTTP until Ctrl-C."""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from interpose.agent import Agent
from interpose.cli.load import load_agent
from interpose.cli.problems import Problem
from interpose.cli.screen import NOTE, Screen

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def serve_agents(
    targets: Sequence[str],
    screen: Screen,
    *,
    host: str,
    port: int,
    token: str | None,
    ui: bool,
    options: Mapping[str, Any],
) -> None:
    """Serve the agents that *targets* name until the process is interrupted.

    Raises:
        Problem: two agents have one name, or strangers could reach the agents.
        InterposeError: an agent cannot be served, or the port is in use.
    """
    from interpose.server import create_app
    from interpose.server.serving import bind, serve

    if token is None and not _is_local(host):
        raise Problem(f"at {host} others could use the agents: give --token, or listen at 127.0.0.1")
    hosts = () if token is not None else tuple({*LOOPBACK, f"[{host}]" if ":" in host else host})
    app = create_app(_by_name(targets), auth=token, ui=ui, hosts=hosts, **options)
    sock = bind(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host or '127.0.0.1'}:{sock.getsockname()[1]}"
    for name in app.state.runs.agents:
        screen.line(f"AG-UI:  {url}/ag-ui/{quote(name, safe='')}", "bold")
    screen.line(f"OpenAI: {url}/v1", "bold")
    if ui:
        screen.line(f"Chat:   {url}/ui/", "bold")
    screen.line("Ctrl-C lets runs end, and a second one leaves at once", NOTE)
    serve(app, sock)


def _by_name(targets: Sequence[str]) -> dict[str, Agent[Any]]:
    """Return agents by the names that they give themselves, or where these are alike, by those in their files."""
    agents: dict[str, Agent[Any]] = {}
    for target in targets:
        agent = load_agent(target)
        name = agent.name if agent.name != "agent" else target.rpartition(":")[2]
        if name in agents:
            raise Problem(f"two agents are called {name!r}: give one of them another `name=`")
        agents[name] = agent
    return agents


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
