"""What the middleware of one run keep and share, made when it is first asked for."""

from __future__ import annotations

from typing import Any


class Shared:
    """The private states, the shared state and the capabilities of one run."""

    _private: dict[int, Any] | None = None
    _state: dict[str, Any] | None = None
    _thread_state: dict[str, Any] | None = None
    _capabilities: dict[Any, Any] | None = None

    @property
    def private(self) -> dict[int, Any]:
        """What each middleware keeps of this run, by its identity."""
        if self._private is None:
            self._private = {}
        return self._private

    @property
    def state(self) -> dict[str, Any]:
        """What all middleware of this run share."""
        if self._state is None:
            self._state = {}
        return self._state

    @property
    def thread_state(self) -> dict[str, Any]:
        """What lives with the thread."""
        if self._thread_state is None:
            self._thread_state = {}
        return self._thread_state

    @property
    def capabilities(self) -> dict[Any, Any]:
        """The live objects that middleware share."""
        if self._capabilities is None:
            self._capabilities = {}
        return self._capabilities
