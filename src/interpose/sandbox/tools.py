"""The tools that a sandbox brings, named and described so that weak models use them well."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interpose.context import ToolContext
from interpose.errors import ConfigurationError
from interpose.sandbox.box import Box
from interpose.sandbox.errors import SandboxError
from interpose.text import to_json
from interpose.tools import Approval, Effect, Tool, tool

EFFECTS: dict[str, Effect] = {
    "run_command": "write",
    "read_file": "read",
    "write_file": "idempotent",
    "edit_file": "write",
    "list_files": "read",
    "search_files": "read",
}
"""Every tool, with what a repeated call of it does."""
MAX_READ_CHARS = 60_000
MAX_LISTED = 500


def make_tools(
    box_of: Callable[[Any], Box],
    wanted: Sequence[str],
    prefix: str,
    approval: Mapping[str, Approval],
    effect: Mapping[str, Effect],
) -> tuple[Tool, ...]:
    """Return the *wanted* tools; *approval* and *effect* are by name, without the *prefix*.

    Raises:
        ConfigurationError: a name is none of a tool.
    """
    for argument, names in (("tools", wanted), ("approval", approval), ("effect", effect)):
        if isinstance(names, str) or (unknown := [one for one in names if one not in EFFECTS]):
            what = names if isinstance(names, str) else unknown[0]
            raise ConfigurationError(f"Sandbox: {argument} names {what!r}; its tools are: {', '.join(EFFECTS)}")
    functions = {**_commands(box_of), **_files(box_of)}
    return tuple(
        [
            tool(
                functions[name],
                name=f"{prefix}{name}",
                approval=approval.get(name, False),
                effect=effect.get(name, EFFECTS[name]),
            )
            for name in EFFECTS
            if name in wanted
        ]
    )


def with_network(description: str) -> str:
    """Return the *description* of a tool where commands reach the network."""
    return description.replace("has no network", "reaches the network")


def _commands(box_of: Callable[[Any], Box]) -> dict[str, Callable[..., Any]]:
    async def run_command(ctx: ToolContext[Any], command: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Run a shell command in the workspace and return its exit code and what it printed.

        It starts in the workspace folder, cannot ask questions, and has no network. Everything it started is stopped
        when it ends. An exit code of 0 means success.

        Args:
            command: The shell command, such as "python test.py" or "ls -la src".
            timeout_s: How many seconds it may take. Leave it out unless the command needs long.
        """
        result = await box_of(ctx).run(command, timeout_s=timeout_s)
        told: dict[str, Any] = {"exit_code": result.exit_code, "output": result.output}
        if result.stopped is not None:
            told["stopped"] = f"the command was stopped: {result.stopped}"
        return told

    async def search_files(
        ctx: ToolContext[Any], pattern: str, path: str = ".", glob: str | None = None, regex: bool = True
    ) -> str:
        r"""Search the text of all files in the workspace and return the lines found, as path:line: text.

        Args:
            pattern: What to search for: a regular expression, such as "def \w+", or plain text with regex=false.
            path: The folder or file to search in; the whole workspace if left out.
            glob: Only files with such names, for example "*.py".
            regex: Whether the pattern is a regular expression.
        """
        found = await box_of(ctx).search(pattern, path, glob=glob, regex=regex)
        if not found:
            return "nothing was found"
        return "\n".join([f"{_named(one.path)}:{one.line}: {one.text}" for one in found])

    return {"run_command": run_command, "search_files": search_files}


def _files(box_of: Callable[[Any], Box]) -> dict[str, Callable[..., Any]]:
    async def read_file(ctx: ToolContext[Any], path: str, first_line: int = 1, lines: int | None = None) -> str:
        """Return the text of a file in the workspace.

        Args:
            path: The file, relative to the workspace, such as "src/main.py".
            first_line: The first line to return, counted from 1.
            lines: How many lines to return; all if left out.
        """
        return _part(await box_of(ctx).read(path), first_line, lines)

    async def write_file(ctx: ToolContext[Any], path: str, content: str) -> str:
        """Write a whole file in the workspace. A file that is there is replaced; missing folders are made.

        To change a part of a file, use edit_file.

        Args:
            path: The file, relative to the workspace, such as "notes/plan.md".
            content: The whole new text of the file.
        """
        await box_of(ctx).write(path, content)
        return f"wrote {path} ({len(content)} characters)"

    async def edit_file(
        ctx: ToolContext[Any], path: str, old_text: str, new_text: str, replace_all: bool = False
    ) -> str:
        """Replace a text in a file of the workspace by another. The old text must be in the file exactly once.

        Args:
            path: The file, relative to the workspace.
            old_text: The text to replace, copied exactly from the file, with enough lines to be the only such place.
            new_text: What is to stand there instead; empty to remove the old text.
            replace_all: Replace every place where the old text is.
        """
        many = await box_of(ctx).edit(path, old_text, new_text, every=replace_all)
        return f"changed {path} in {many} place{'s' if many != 1 else ''}"

    async def list_files(ctx: ToolContext[Any], path: str = ".", depth: int = 2) -> str:
        """List the files and folders of the workspace, one a line. Folders end with a slash.

        Args:
            path: The folder to list; the whole workspace if left out.
            depth: How many levels of folders to go down; 1 lists only the folder itself.
        """
        found = await box_of(ctx).list(path, depth=max(depth, 1), limit=MAX_LISTED + 1)
        marks = {"folder": "/", "link": " (a link)", "other": " (no ordinary file)"}
        lines = [f"{_named(one.path)}{marks.get(one.kind, f'  {one.size_bytes} bytes')}" for one in found[:MAX_LISTED]]
        if len(found) > MAX_LISTED:
            lines.append(f"... and more: list a folder of it, or a smaller depth (here: {depth})")
        return "\n".join(lines) or "there are no files here"

    return {"read_file": read_file, "write_file": write_file, "edit_file": edit_file, "list_files": list_files}


def _named(path: str) -> str:
    """Return *path* as it can stand in a line: one with line breaks and the like as a JSON text."""
    return path if path.isprintable() else to_json(path)


def _part(text: str, first_line: int, lines: int | None) -> str:
    if first_line < 1 or (lines is not None and lines < 1):
        raise SandboxError(f"first_line and lines count from 1, got {first_line} and {lines}")
    if first_line > 1 or lines is not None:
        every = text.split("\n")
        if first_line > len(every):
            raise SandboxError(f"the file has {len(every)} lines; line {first_line} is beyond its end")
        last = len(every) if lines is None else first_line - 1 + lines
        text = "\n".join(every[first_line - 1 : last])
    if len(text) <= MAX_READ_CHARS:
        return text
    shown = text[:MAX_READ_CHARS]
    following = first_line + shown.count("\n")
    return f"{shown}\n[cut here, {len(text) - MAX_READ_CHARS} characters are left: go on with first_line={following}]"
