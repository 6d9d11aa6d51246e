"""Capabilities: live objects that one middleware provides and others use."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Capability(Generic[T]):
    """A typed key under which a middleware shares a live object with others in one run.

    Two capabilities are the same only if they are the same object; the name is for people.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Capability({self.name!r})"
