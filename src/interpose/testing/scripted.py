"""A model that plays a script, and refuses what a real provider would refuse."""

import asyncio
import inspect
from collections.abc import AsyncGenerator

from msgspec.structs import replace

from interpose.errors import ScriptExhausted
from interpose.models.base import Model, ModelChunk, ModelProfile
from interpose.request import ModelRequest
from interpose.testing.strict import RequestCheck
from interpose.testing.turns import AnyTurn, Turn, text


class ScriptedModel(Model):
    """Plays one turn for each model call, in the order of the calls, whichever run they belong to.

    `requests` holds every request received, refused ones too; `open_streams` counts the streams begun and not yet
    ended or closed. It streams only, so that runs that nobody reads as a stream keep half-said text as well.
    """

    def __init__(
        self,
        *turns: AnyTurn,
        profile: ModelProfile | None = None,
        provider: str = "scripted",
        model: str = "scripted",
        native_structured_output: bool = False,
    ) -> None:
        for turn in turns:
            if not isinstance(turn, Turn | str) and not callable(turn):
                raise TypeError(f"a turn must be text(), calls(), ..., a string or a function, got {turn!r:.80}")
        if native_structured_output:
            profile = replace(profile or ModelProfile(), supports_structured_output=True)
        self.provider = provider
        self.name = model
        self.profile = profile
        self.requests: list[ModelRequest] = []
        self.open_streams = 0
        self._turns = turns
        self._played = 0
        self._check = RequestCheck()

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelChunk, None]:
        """Yield the chunks of the next turn.

        Raises:
            BadRequest: a real provider would refuse the request; no turn is used up then.
            ScriptExhausted: there is no turn left.
        """
        self.requests.append(request)
        self._check(request)
        turn = await self._next_turn(request)
        self.open_streams += 1
        try:
            for chunk in turn.chunks:
                yield chunk
            if turn.error is not None:
                raise turn.error
            if turn.hangs:
                await asyncio.get_running_loop().create_future()
        finally:
            self.open_streams -= 1

    def assert_consumed(self) -> None:
        """Raise `AssertionError` if turns are left."""
        left = len(self._turns) - self._played
        assert left == 0, f"{left} of {len(self._turns)} turns of the script were not played"

    async def _next_turn(self, request: ModelRequest) -> Turn:
        if self._played == len(self._turns):
            raise ScriptExhausted(
                f"the scripted model was called {len(self.requests)} times and has {len(self._turns)} turns; "
                "add a turn, or look in .requests for the call that was one too many"
            )
        turn = self._turns[self._played]
        self._played += 1
        while not isinstance(turn, Turn):
            if isinstance(turn, str):
                return text(turn)
            if not callable(turn):
                raise TypeError(f"a turn's function must return a turn or a string, got {turn!r:.80}")
            made = turn(request)
            turn = await made if inspect.isawaitable(made) else made
        return turn
