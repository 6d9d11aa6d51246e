"""A backend in memory."""


class MemoryBackend:
    """Keeps texts by path in `files`."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    async def write(self, path: str, text: str) -> None:
        """Keep *text* under *path*, in place of what was there."""
        self.files[path] = text

    async def read(self, path: str) -> str:
        """Return the text under *path*.

        Raises:
            FileNotFoundError: there is none.
        """
        if path not in self.files:
            known = ", ".join(sorted(self.files)) or "nothing"
            raise FileNotFoundError(f"there is no {path!r} in this backend; it holds {known}")
        return self.files[path]
