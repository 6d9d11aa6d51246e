"""An agent that mends a program in a sandbox, while every change it makes is shown as a diff.

    python examples/sandbox/fix.py                      # a scripted model: nothing is needed
    python examples/sandbox/fix.py openai:gpt-5.5       # a real one

Commands are isolated by bubblewrap where it works; see docs/sandbox.md.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from interpose import Agent, FileEvent, Middleware
from interpose.sandbox import Sandbox
from interpose.testing import ScriptedModel, calls, text

PROGRAM = "def mean(numbers):\n    return sum(numbers) / len(numbers)\n"
TEST = "from stats import mean\n\nassert mean([1, 2, 3]) == 2\nassert mean([]) == 0\nprint('all is well')\n"
TASK = "`python3 test.py` fails. Find out why, mend stats.py and run the test again."


class ShowChanges(Middleware[Any]):
    """Prints each change as a diff, while the run goes on."""

    def on_file(self, ctx: Any, event: FileEvent) -> None:  # noqa: ARG002  # the arguments of the seam
        print(event.diff())


def scripted() -> ScriptedModel:
    """Return a model that does what a good one would do."""
    return ScriptedModel(
        calls(("run_command", {"command": "python3 test.py"}), ("read_file", {"path": "stats.py"})),
        calls(
            (
                "edit_file",
                {
                    "path": "stats.py",
                    "old_text": "    return sum(numbers) / len(numbers)",
                    "new_text": "    return sum(numbers) / len(numbers) if numbers else 0",
                },
            )
        ),
        calls(("run_command", {"command": "python3 test.py"})),
        text("The mean of no numbers divided by zero; it is 0 now, and the test passes."),
    )


async def main(model: Any) -> None:
    """Make a workspace with a fault in it, and let the agent mend it."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "project"
        sandbox = Sandbox(workspace, isolation="auto", env={"PYTHONDONTWRITEBYTECODE": "1"})
        (workspace / "stats.py").write_text(PROGRAM)
        (workspace / "test.py").write_text(TEST)
        async with Agent(model, middleware=[sandbox, ShowChanges()]) as agent:
            result = await agent.run(TASK)
        last = [one for step in result.steps for one in step.tool_results][-1]
        print(last.data["output"], end="")
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else scripted()))
