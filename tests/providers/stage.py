"""The stage of a vendor that is reached over HTTP: a strict server plays its part, in its own wire format."""

import asyncio
import socket
from types import TracebackType
from typing import Protocol, Self

from tests.providers.wire_server import Asked, Reply, WireServer

from interpose.errors import BadRequest
from interpose.models.base import Model
from interpose.testing.model_contract import FEATURES, Answer, Heard, Play, Refusal


class Vendor(Protocol):
    """One vendor's wire format, written from its documents and its SDK's types, and not from our adapter."""

    features: frozenset[str]

    def model(self, origin: str) -> Model:
        """Return the model under test, which asks the server at *origin* (`http://127.0.0.1:PORT`)."""
        ...

    def problems(self, asked: Asked) -> list[str]:
        """Return what the vendor would refuse in a request."""
        ...

    def heard(self, asked: Asked) -> Heard:
        """Return a request in general words."""
        ...

    def answer(self, answer: Answer, heard: Heard) -> Reply:
        """Return an answer in the vendor's form, as a stream or whole, as it was asked for."""
        ...

    def refusal(self, refusal: Refusal, heard: Heard) -> Reply:
        """Return a refusal in the vendor's form."""
        ...


class WireStage:
    """A stage, used with `async with`; at its end every play was asked for and nothing was refused as illegal."""

    def __init__(self, vendor: Vendor) -> None:
        assert vendor.features <= FEATURES
        self._vendor = vendor
        self._plays: list[Play] = []
        self._server = WireServer(self._respond)
        self.features = vendor.features
        self.heard: list[Heard] = []
        self.refused: list[str] = []

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        self.model = self._vendor.model(self._server.origin)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, error, trace)
        assert self.refused == [], self.refused
        if kind is None:
            assert self._plays == [], "some plays were not asked for"

    @property
    def asked(self) -> list[Asked]:
        """The requests as they came."""
        return self._server.asked

    def play(self, *plays: Play) -> None:
        self._plays += plays

    async def left(self) -> None:
        await asyncio.wait_for(self._server.left.wait(), 5)

    def unreachable(self) -> Model:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return self._vendor.model(f"http://127.0.0.1:{free.getsockname()[1]}")

    def _respond(self, asked: Asked) -> Reply:
        problems = self._vendor.problems(asked)
        try:
            heard = self._vendor.heard(asked)
        except (KeyError, TypeError, ValueError) as error:
            problems, heard = [*problems, f"cannot be read: {error!r}"], Heard(model="")
        if not problems and not self._plays:
            problems = ["no play is left"]
        if problems:
            self.refused += problems
            return self._vendor.refusal(Refusal(kind=BadRequest, message="; ".join(problems)), heard)
        self.heard.append(heard)
        play = self._plays.pop(0)
        play = play(heard) if callable(play) else play
        return self._vendor.answer(play, heard) if isinstance(play, Answer) else self._vendor.refusal(play, heard)
