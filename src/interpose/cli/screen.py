"""What a person sees in the terminal while a run goes on. The one file that knows rich."""

import sys
import time
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from interpose.cli.plain import call_line, harmless, one_line
from interpose.events import (
    CustomEvent,
    Event,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    RunErrorEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
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
        self._may_break = True
        self._has_status = False
        self._wrote_at = time.monotonic()

    @property
    def is_live(self) -> bool:
        """Whether a person looks on who may be shown a line that changes."""
        terminals = self._out.is_terminal and self._errors.is_terminal and not self._errors.is_dumb_terminal
        return terminals and not self._quiet

    def quiet_for_s(self) -> float:
        """Return for how long nothing but the status has been written; 0 where it would break a text in two."""
        return time.monotonic() - self._wrote_at if self._may_break or not self._mid_line else 0.0

    def status(self, text: str | None) -> None:
        """Show *text* below what was written, in the place of the last status; None takes it away."""
        if text is None:
            if self._has_status:
                self._has_status = False
                self._escape("\r\033[2K")
            return
        if self._mid_line:
            self._out.print()
            self._mid_line = False
        self._has_status = True
        line = set_cell_size(one_line_of(text), max(self._errors.width - 1, 1)).rstrip()
        self._escape(f"\r\033[2K\033[2m{line}\033[0m" if self._errors.color_system else f"\r\033[2K{line}")

    def _escape(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def _begin(self) -> None:
        """Make room for what is to be written."""
        self.status(None)
        self._wrote_at = time.monotonic()

    def show(self, event: Event) -> None:
        """Write what a person wants to know of *event*."""
        match event:
            case TextMessageContentEvent():
                self._stream(event.delta, "")
            case TextMessageEndEvent() | ReasoningMessageEndEvent():
                self._may_break = True
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
        self._begin()
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

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> None:
        """Write a table whose first *left* columns are texts, the others figures; none is cut."""
        lines = [[one_line(cell) for cell in row] for row in (heads, *rows)]
        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        for number, line in enumerate(lines):
            padded = []
            for place, (cell, width) in enumerate(zip(line, widths, strict=True)):
                blank = " " * (width - cell_len(cell))
                padded.append(cell + blank if place < left else blank + cell)
            self.line("  ".join(padded).rstrip(), NOTE if number == 0 else "")

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
        self._begin()
        self._may_break = False
        if style != self._style:
            self.end_line()
            self._style = style
        self._out.print(Text(harmless(text), style), end="", soft_wrap=True)
        self._mid_line = not text.endswith("\n")


def one_line_of(text: str) -> str:
    """Return *text* harmless and on one line, uncut."""
    return " ".join(harmless(text).split())
