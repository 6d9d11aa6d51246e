"""From `FILE.py:agent` or `MODULE:agent` to the agent."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from interpose.agent import Agent
from interpose.cli.problems import Problem, describe, named
from interpose.errors import InterposeError

EXPECTED = "expected FILE.py:NAME or MODULE:NAME, for instance app.py:agent"


def load_agent(target: str) -> Agent[Any]:
    """Return the agent that *target* names.

    Raises:
        Problem: there is no such file, module or name, it cannot be loaded, or it is no `Agent`.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise Problem(f"{target!r} names no agent: {EXPECTED}")
    module = _load_file(Path(place)) if _is_file(place) else _load_module(place)
    found = _attribute(module, name, place)
    if not isinstance(found, Agent):
        raise Problem(f"{name!r} in {place} is {_kind(found)}, not an Agent{_agents_in(module)}")
    return found


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise Problem(f"the file {path} {what} (looked in {Path.cwd()}): {EXPECTED}")
    path = path.resolve()
    _look_in(path.parent)
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names
    name = f"agent_file_{path.stem}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Problem(f"the file {path} is no Python file: {EXPECTED}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs, so that annotations in it can be looked up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failed(path.name, error) from error
    return module


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise Problem(f"{name!r} is neither a .py file nor the name of a module: {EXPECTED}")
    _look_in(Path.cwd())
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and (name == missing or name.startswith(f"{missing}.")):
            raise Problem(f"there is no module {missing!r} (looked in {Path.cwd()} too): {EXPECTED}") from error
        raise _failed(name, error) from error


def _look_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _failed(place: str, error: BaseException) -> Problem:
    """Return the problem of a file that could not be run; our own errors say enough by themselves."""
    if isinstance(error, InterposeError):
        return Problem(f"{place}: {describe(error)}")
    frames = traceback.extract_tb(error.__traceback__)
    line = next((f", line {frame.lineno}" for frame in reversed(frames) if Path(frame.filename).name == place), "")
    hint = ""
    if isinstance(error, ImportError) and "relative import" in str(error):
        hint = "; it belongs to a package, so name it as MODULE:NAME"
    return Problem(f"{place} could not be loaded{line}: {named(error)}{hint}; --debug shows the traceback")


def _attribute(module: ModuleType, name: str, place: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise Problem(f"{place} has no {name!r}{_agents_in(module)}")
        found = getattr(found, part)
    return found


def _agents_in(module: ModuleType) -> str:
    names = [repr(name) for name, value in vars(module).items() if isinstance(value, Agent)]
    return f"; agents there: {', '.join(names)}" if names else "; there is no Agent in it"


def _kind(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
