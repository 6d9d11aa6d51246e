"""The commands, their options and exit codes. The one file that knows cyclopts."""

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from interpose.cli.chat import chat as chat_with
from interpose.cli.flow import show_reports
from interpose.cli.load import load_agent
from interpose.cli.mcp import offer_agents
from interpose.cli.problems import describe
from interpose.cli.reports import list_reports, show_difference, show_report
from interpose.cli.run import run_prompts
from interpose.cli.screen import Screen
from interpose.cli.serve import serve_agents

FAILED = 1
INTERRUPTED = 130  # 128 + SIGINT, as shells count

app = App(
    name="interpose",
    help="Run an agent, talk to it, or look at the order of its middleware.",
    version=version("interpose"),
    result_action="return_value",
)

Target = Annotated[str, Parameter(help="Where the agent is: FILE.py:NAME or MODULE:NAME.")]
Debug = Annotated[bool, Parameter(negative=(), help="Show the traceback of what went wrong.")]


@app.command
def run(
    target: Target,
    prompt: Annotated[str, Parameter(help="What to ask.")],
    /,
    *more: Annotated[str, Parameter(help="Further prompts, each a run of its own.")],
    json: Annotated[bool, Parameter(negative=(), help="Print one event a line, as AG-UI JSON.")] = False,
    quiet: Annotated[bool, Parameter(negative=(), alias="-q", help="Print the answer alone.")] = False,
    debug: Debug = False,
) -> int:
    """Run the agent on a prompt and stream what it says, with its tool calls and a summary."""
    screen = Screen(quiet=quiet)
    return _guarded(screen, debug, lambda: run_prompts(load_agent(target), (prompt, *more), screen, as_json=json))


@app.command
def chat(target: Target, /, *, debug: Debug = False) -> int:
    """Talk to the agent. Ctrl-C cancels an answer and keeps the chat, Ctrl-D leaves."""
    screen = Screen()

    def report(error: Exception) -> None:
        if debug:
            raise error
        screen.problem(describe(error))

    return _guarded(screen, debug, lambda: chat_with(load_agent(target), screen, report))


@app.command
def explain(target: Target, /, *, debug: Debug = False) -> int:
    """Print, seam by seam, which middleware acts in which order."""
    screen = Screen()
    return _guarded(screen, debug, lambda: screen.plain(str(load_agent(target).explain())))


@app.command
def flow(
    folder: Annotated[Path, Parameter(help="Where `Report` writes to.")] = Path("reports"),
    /,
    *,
    port: Annotated[int, Parameter(help="Where to serve the page; 0 for any free port.")] = 4100,
    host: Annotated[str, Parameter(help="The name or address to listen at.")] = "127.0.0.1",
    token: Annotated[str | None, Parameter(help="What a browser has to know to see the page.")] = None,
    open: Annotated[bool, Parameter(negative=(), help="Open the page in a browser.")] = False,
    debug: Debug = False,
) -> int:
    """Show stored reports on the Flow page, until Ctrl-C."""
    screen = Screen()
    serve = partial(show_reports, folder, screen, host=host, port=port, token=token, open_page=open)
    return _guarded(screen, debug, serve)


@app.command
def mcp(
    target: Target,
    /,
    *more: Annotated[str, Parameter(help="Further agents, each a tool of its own.")],
    http: Annotated[str | None, Parameter(help="Serve at HOST:PORT, path /mcp, and not over stdin and stdout.")] = None,
    token: Annotated[str | None, Parameter(help="With --http: what a client has to send as bearer token.")] = None,
    description: Annotated[list[str] | None, Parameter(help="What an agent is for; one for each, in order.")] = None,
    debug: Debug = False,
) -> int:
    """Offer agents as an MCP server: each is a tool with one argument, `prompt`."""
    screen = Screen()
    serve = partial(offer_agents, (target, *more), screen, http=http, token=token, description=description or ())
    return _guarded(screen, debug, serve)


Folder = Annotated[Path, Parameter(help="Where `Report` writes to.")]
RUN_HELP = "A run: its id, the beginning of one, `last`, or the path of a report."


@app.command
def report(
    folder: Folder = Path("reports"),
    run: Annotated[str | None, Parameter(help=RUN_HELP)] = None,
    /,
    *,
    open: Annotated[bool | None, Parameter(help="Open the page in a browser; by default in a terminal.")] = None,
    json: Annotated[bool, Parameter(negative=(), help="List the runs as one JSON object a line.")] = False,
    debug: Debug = False,
) -> int:
    """List the reports in a folder, or open that of one run."""
    screen = Screen()
    if run is None:
        return _guarded(screen, debug, lambda: list_reports(folder, screen, as_json=json))
    return _guarded(screen, debug, lambda: show_report(folder, run, screen, open_page=open))


@app.command
def diff(
    first: Annotated[str, Parameter(help=RUN_HELP)],
    second: Annotated[str, Parameter(help="The run to compare it with.")],
    /,
    *,
    reports: Folder = Path("reports"),
    debug: Debug = False,
) -> int:
    """Compare two runs, step by step: what was asked, answered and done. Ids and times are not compared."""
    screen = Screen()
    return _guarded(screen, debug, lambda: show_difference(reports, first, second, screen))


@app.command
def serve(
    target: Target,
    /,
    *more: Annotated[str, Parameter(help="Further agents, served beside it.")],
    port: Annotated[int, Parameter(help="Where to listen; 0 for any free port.")] = 8000,
    host: Annotated[str, Parameter(help="The name or address to listen at.")] = "127.0.0.1",
    token: Annotated[
        str | None, Parameter(help="What clients have to know.", env_var="INTERPOSE_TOKEN", show_default=False)
    ] = None,
    ui: Annotated[bool, Parameter(negative=(), help="Offer a chat page too.")] = False,
    on_disconnect: Annotated[
        Literal["continue", "cancel"], Parameter(help="What becomes of a run whose reader leaves.")
    ] = "continue",
    origin: Annotated[
        tuple[str, ...], Parameter(help="A site whose pages may use the server; may be given again.", negative=())
    ] = (),
    max_runs: Annotated[int, Parameter(help="How many runs may go on at once.")] = 1000,
    shutdown_s: Annotated[float, Parameter(help="How long runs may go on after Ctrl-C, in seconds.")] = 30.0,
    debug: Debug = False,
) -> int:
    """Serve the agent over HTTP, as AG-UI and as an OpenAI-compatible API, until Ctrl-C."""
    screen = Screen()
    options = {
        "on_disconnect": on_disconnect,
        "origins": origin,
        "max_runs": max_runs,
        "shutdown_s": shutdown_s,
    }
    work = partial(serve_agents, (target, *more), screen, host=host, port=port, token=token, ui=ui, options=options)
    return _guarded(screen, debug, work)


def _guarded(screen: Screen, debug: bool, work: Callable[[], object]) -> int:
    """Return the exit code of *work*; what goes wrong becomes one red line, unless *debug* asks for the traceback."""
    try:
        work()
    except KeyboardInterrupt:
        screen.problem("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if debug:
            raise
        screen.problem(describe(error))
        return FAILED
    return 0


def run_app(arguments: list[str] | None = None) -> int:
    """Run the command that *arguments* name and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows another, and the run goes on
    code = app(arguments)
    return code if isinstance(code, int) else 0
