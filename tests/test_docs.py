"""Every Python block of the README and of docs/ runs, in order, all blocks of a file in one namespace.

A block fenced as `python no-run` is left out. A comment above a block, `<!-- setup: ... -->`, on one line or several,
holds code that readers do not see. It may use `play(*turns)`, which says what models named by text, such as
"openai:gpt-5.5", are to answer next; turns come from `interpose.testing`, without prefix. No real model is called.
"""

import ast
import asyncio
import inspect
import re
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import pytest

from interpose import testing
from interpose.models import PROVIDERS
from interpose.request import ModelRequest
from interpose.testing import ScriptedModel, no_real_models

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TURNS = ("calls", "chunks", "fail", "hang", "text")

# A fence may be indented, as in a list. What is neither set-up nor a block, such as a longer fence, is passed over.
PIECES = re.compile(
    r"^(?P<fence>````+).*?^(?P=fence)"
    r"|^<!--\s*setup:(?P<setup>.*?)-->"
    r"|^(?P<indent>[ ]*)```python(?P<info>[^\n]*)\n(?P<block>.*?)^[ ]*```[ ]*$",
    re.DOTALL | re.MULTILINE,
)


class Piece(NamedTuple):
    code: str
    line: int
    is_setup: bool = False


def pieces_of(text: str) -> Iterator[Piece]:
    """Yield what is to run, with the line on which its code begins."""
    for found in PIECES.finditer(text):
        if found["setup"] is not None:
            code = inspect.cleandoc("\n" + found["setup"])
            yield Piece(code, text.count("\n", 0, found.start("setup")) + 1, is_setup=True)
        elif found["block"] is not None and "no-run" not in found["info"].split():
            lines = [line.removeprefix(found["indent"]) for line in found["block"].splitlines()]
            yield Piece("\n".join(lines), text.count("\n", 0, found.start("block")) + 1)


def compiled(piece: Piece, page: Path) -> CodeType:
    """Return the code of a piece, top-level await allowed, that names the page and its lines in tracebacks."""
    tree = ast.increment_lineno(ast.parse(piece.code, str(page)), piece.line - 1)
    code: CodeType = compile(tree, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


class Script:
    """The turns that models named by text play, whichever of them is called."""

    def __init__(self) -> None:
        self.turns: deque[Any] = deque()

    def play(self, *turns: Any) -> None:
        self.turns.extend(turns)

    def next_turn(self, request: ModelRequest) -> Any:
        if not self.turns:
            raise AssertionError(f"{request.provider}:{request.model} was called and no turn is left: play(...) more")
        turn = self.turns.popleft()
        return turn(request) if callable(turn) else turn

    def providers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put a scripted model in the place of every provider."""
        module = ModuleType("scripted_providers")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        for provider in list(PROVIDERS):
            kind = f"{provider}_model"
            setattr(module, kind, self._factory(provider))
            monkeypatch.setitem(PROVIDERS, provider, (module.__name__, kind))

    def _factory(self, provider: str) -> Any:
        def scripted(name: str) -> ScriptedModel:
            return ScriptedModel(*[self.next_turn] * 100, provider=provider, model=name or provider)

        return scripted


def run_page(page: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the pieces of a page and return its namespace."""
    script = Script()
    script.providers(monkeypatch)
    module = ModuleType("__main__")  # as where a reader runs it, and so that annotations in blocks can be looked up
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = vars(module)
    hidden = {"play": script.play, **{name: getattr(testing, name) for name in TURNS}}
    with no_real_models(), asyncio.Runner() as runner:
        for piece in pieces_of(text):
            lent = {name: value for name, value in hidden.items() if piece.is_setup and name not in names}
            names.update(lent)
            waiting = eval(compiled(piece, page), names)
            if inspect.iscoroutine(waiting):
                runner.run(waiting)
            for name in lent:  # so that a block that forgets its import fails, as it would for a reader
                names.pop(name, None)
    assert list(script.turns) == [], "turns that play(...) gave were never played"
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_the_page_run(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, page.read_text(encoding="utf-8"), monkeypatch)


# The runner itself.

PAGE = Path("page.md")


def test_blocks_share_a_namespace_and_may_await(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "```python\nimport asyncio\nx = 1\n```\n\n```python\nawait asyncio.sleep(0)\nx += 1\n```\n"
    assert run_page(PAGE, text, monkeypatch)["x"] == 2


def test_block_marked_no_run_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(PAGE, "```python no-run\nraise SystemExit\n```\n", monkeypatch)


def test_setup_runs_before_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "<!-- setup:\nif True:\n    x = 1\n-->\n```python\ny = x\n```\n"
    assert run_page(PAGE, text, monkeypatch)["y"] == 1


def test_block_in_a_list_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_page(PAGE, "- so:\n\n  ```python\n  if True:\n      x = 1\n  ```\n", monkeypatch)["x"] == 1


def test_block_does_not_see_what_only_the_setup_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NameError, match="text"):
        run_page(PAGE, "<!-- setup: x = text('hi') -->\n```python\ny = text('hi')\n```\n", monkeypatch)


def test_failing_block_names_the_line_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(PAGE, "# Page\n\n```python\nx = 1\n1 / 0\n```\n", monkeypatch)
    assert caught.traceback[-1].lineno == 4  # counted from 0


def test_named_model_plays_what_the_setup_says(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
<!-- setup: play(text("Lyon")) -->
```python
from interpose import Agent
result = Agent("openai:gpt-5.5").run_sync("Which city?")
```
"""
    assert run_page(PAGE, text, monkeypatch)["result"].text == "Lyon"


def test_turns_that_were_not_played_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="never played"):
        run_page(PAGE, '<!-- setup: play(text("Lyon")) -->', monkeypatch)
