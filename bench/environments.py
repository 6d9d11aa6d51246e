"""The virtual environments of the contestants, and what it costs to install and import each (W6)."""

import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENVS = ROOT / "bench" / ".venvs"
IMPORTS = 10

_INSTALLED = """
import json, importlib.metadata as metadata
own = [d for d in metadata.distributions() if d.metadata["Name"].lower() not in ("pip", "setuptools", "wheel")]
files = {path.resolve() for d in own for file in d.files or () if (path := d.locate_file(file)).is_file()}
versions = {d.metadata["Name"]: d.version for d in own}
print(json.dumps({"versions": versions, "bytes": sum(path.stat().st_size for path in files)}))
"""


@dataclass(frozen=True)
class Contestant:
    """Who is measured: *module* of the benchmark in the environment that *requirement* makes.

    Without a requirement it runs where the benchmark runs. *imports* is the import that a first program writes.
    """

    name: str
    label: str
    module: str
    requirement: str = ""
    imports: str = ""

    @property
    def python(self) -> str:
        """The interpreter that it runs in."""
        return str(_python(self.name)) if self.requirement else sys.executable


FLOOR = Contestant("floor", "floor", "floor")
OURS = Contestant("interpose", "interpose", "ours", imports="from interpose import Agent, Middleware, tool")
PEERS = (
    Contestant(
        "agent_framework",
        "Agent Framework",
        "peer_agent_framework",
        "agent-framework-core",
        "from agent_framework import Agent, ChatMiddleware, tool",
    ),
    Contestant("strands", "Strands", "peer_strands", "strands-agents", "from strands import Agent, tool"),
    Contestant(
        "langchain",
        "LangChain",
        "peer_langchain",
        "langchain",
        "from langchain.agents import create_agent; from langchain.agents.middleware import AgentMiddleware; "
        "from langchain.tools import tool",
    ),
)


def _python(name: str) -> Path:
    return VENVS / name / "bin" / "python"


def ensure(name: str, *requirements: str) -> Path:
    """Return the interpreter of the environment *name*, made with *requirements* where it is not there yet."""
    python = _python(name)
    stamp = VENVS / name / "installed"
    wanted = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making an environment for {name}", file=sys.stderr, flush=True)
        venv.EnvBuilder(with_pip=True, clear=True).create(VENVS / name)
        install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *requirements]
        subprocess.run(install, check=True)
        stamp.write_text(wanted)
    return python


def footprint(contestant: Contestant) -> dict[str, Any]:
    """Return W6 of *contestant*: ms of its import, best of some; distributions; MB, with compiled files; versions."""
    python = ensure(contestant.name, contestant.requirement) if contestant.requirement else _own_environment()
    installed = json.loads(_output(python, _INSTALLED))
    timed = f"import time; t = time.perf_counter(); {contestant.imports}; print((time.perf_counter() - t) * 1e3)"
    _output(python, timed)
    return {
        "import_ms": min([float(_output(python, timed)) for _ in range(IMPORTS)]),
        "distributions": len(installed["versions"]),
        "mb": installed["bytes"] / 1e6,
        "versions": installed["versions"],
    }


def _own_environment() -> Path:
    """Return an interpreter with this library as it is now and what it depends on, and nothing else."""
    (VENVS / "interpose" / "installed").unlink(missing_ok=True)
    return ensure("interpose", str(ROOT))


def _output(python: Path, code: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True, cwd=VENVS, env=env)
    return done.stdout
