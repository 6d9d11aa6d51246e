"""What a person sees in the terminal while a run goes on. The one file that knows rich."""

from collections.abc import Iterable

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from interpose.cli.plain import call_line, harmless, one_line
from interpose.events import (
    CustomEvent,
    Event,
    ReasoningMessageContentEvent,
    RunErrorEvent,
    TextMessageContentEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

REASONING = "dim italic"
CALL = "cyan"
RESULT = "green"
NOTE = "dim"
PROBLEM = "bold red"


class Screen:
    """Writes events as they come; nothing that a model or a tool said is taken as markup or as a command.

    With *quiet* only the answer's text is written.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._out = Console(highlight=False, markup=False, emoji=False)
        self._errors = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._quiet = quiet
        self._style = ""
        self._mid_line = False
        self._calls: dict[str, list[str]] = {}

    def show(self, event: Event) -> None:
        """Write what a person wants to know of *event*."""
        match event:
            case TextMessageContentEvent():
                self._stream(event.delta, "")
            case ReasoningMessageContentEvent() if not self._quiet:
                self._stream(event.delta, REASONING)
            case ToolCallStartEvent():
                self._calls[event.tool_call_id] = [event.tool_call_name]
            case ToolCallArgsEvent():
                self._calls.setdefault(event.tool_call_id, [""]).append(event.delta)
            case ToolCallEndEvent():
                name, *pieces = self._calls.pop(event.tool_call_id, [""])
                self.line(f"→ {call_line(name, ''.join(pieces))}", CALL)
            case ToolCallResultEvent():
                self.line(f"← {one_line(event.content)}", RESULT)
            case CustomEvent(name="interpose.superseded"):
                self.line("(what stands above was withdrawn; it follows anew)", NOTE)
            case RunErrorEvent():
                self.end_line()

    def line(self, text: str, style: str = "") -> None:
        """Write a line of its own, unless the screen is quiet."""
        if not self._quiet:
            self.end_line()
            self._out.print(Text(harmless(text), style), soft_wrap=True)

    def plain(self, text: str) -> None:
        """Write *text* as it is, whether the screen is quiet or not."""
        self.end_line()
        self._out.print(Text(harmless(text)), soft_wrap=True)

    def end_line(self) -> None:
        """Begin a new line, unless one has just begun."""
        if self._mid_line:
            self._out.print()
            self._mid_line = False

    def problem(self, text: str) -> None:
        """Write one red line to the error output."""
        self.end_line()
        self._errors.print(Text(one_line_of(text), PROBLEM), soft_wrap=True)

    def summary(self, rows: Iterable[tuple[str, str]]) -> None:
        """Write a table of two columns."""
        if self._quiet:
            return
        self.end_line()
        table = Table(box=SIMPLE, show_header=False, pad_edge=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        for label, value in rows:
            table.add_row(Text(one_line(label)), Text(one_line(value)))
        self._out.print(table)

    def ask(self) -> str:
        """Return the next line that a person types.

        Raises:
            EOFError: there is none.
        """
        self.end_line()
        return input("> ")  # not through rich: line editing has to know where the line begins

    def _stream(self, text: str, style: str) -> None:
        if not text:
            return
        if style != self._style:
            self.end_line()
            self._style = style
        self._out.print(Text(harmless(text), style), end="", soft_wrap=True)
        self._mid_line = not text.endswith("\n")


def one_line_of(text: str) -> str:
    """Return *text* harmless and on one line, uncut."""
    return " ".join(harmless(text).split())
