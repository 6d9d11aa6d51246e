"""What `ContentGuard` keeps of a run: the text that it holds back, and which answers it has cut."""

from typing import TYPE_CHECKING

from msgspec import Struct, field

from interpose.events import ReasoningMessageStartEvent, TextMessageStartEvent, ToolCallStartEvent

if TYPE_CHECKING:
    from interpose.request import ModelRequest, ModelResponse

Start = TextMessageStartEvent | ReasoningMessageStartEvent | ToolCallStartEvent


class Held(Struct):
    """What is held back of one open message, and what was in front of it."""

    look_at: int
    text: str = ""
    before: str = ""
    before_each: list[str] | None = None
    """What each rule saw in front, where an edit made that differ."""
    blocked: bool = False


class Cut(Struct, frozen=True):
    """A message that was ended before a match; *answer* is the id of the answer that it is part of, where known."""

    message_id: str
    answer: str | None
    is_reasoning: bool
    text: str
    """What of it was sent."""


class GuardState(Struct):
    """The private state of a guard in one run: JSON, so that a cut answer stays one where the run pauses behind it."""

    held: dict[str, Held] = field(default_factory=dict)
    """What is held, by the id of its message."""
    cuts: list[Cut] = field(default_factory=list)
    """The messages that were cut in this model call, also those of attempts that are replaced."""
    answer: str | None = None
    """The id of the answer that is being told: that of its first text, and what its calls name as their parent."""
    shows_text: bool = False
    """Whether any text of that answer was sent. Only then may another text message be part of it."""
    call: str = ""

    def begin(self, request: "ModelRequest") -> None:
        """Forget the former model call; one that is entered again after a pause is the same."""
        call = f"{request.number} {request.call_class} {request.attempt}"
        if call != self.call:
            self.call = call
            self.cuts.clear()
            self.superseded()

    def started(self, event: Start) -> None:
        """Take note of which answer is being told."""
        if isinstance(event, ToolCallStartEvent):
            self.answer = event.parent_message_id or self.answer
        elif not self.shows_text:
            self.answer = event.message_id if isinstance(event, TextMessageStartEvent) else None

    def superseded(self) -> None:
        """Take note that what was told so far is replaced by another answer."""
        self.answer, self.shows_text = None, False

    def cut(self, message_id: str, text: str, *, is_reasoning: bool) -> None:
        """Keep that a message was cut, and that *text* is all of it that was sent."""
        self.cuts.append(Cut(message_id, self.answer, is_reasoning, text))

    def is_cut(self, response: "ModelResponse") -> bool:
        """Return whether a part of *response*, and not of an attempt before it, was cut."""
        message = response.message
        for one in self.cuts:
            if message.id in (one.message_id, one.answer):
                return True
            if one.answer is None and one.is_reasoning and one.text in (message.reasoning or ""):
                return True
        return False
