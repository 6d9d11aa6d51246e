"""What a step offers to the model, as its calls look it up."""

from __future__ import annotations

from interpose.tools import Tool


class Offered:
    """The tools of a request by name, and whether one of them asks to be alone."""

    __slots__ = ("alone", "by_name", "tools")

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        self.by_name = {tool.name: tool for tool in tools}
        self.alone = any([tool.alone for tool in tools])
