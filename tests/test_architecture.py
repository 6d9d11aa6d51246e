"""The shape of the code, read from it: imports point inwards, names are listed, files and functions stay short."""

import ast
import importlib
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))

VALUES, CONTRACT, ENGINE, AGENT, ROOT, EDGE = range(6)
RANKS = {
    **dict.fromkeys(["ids", "clock", "text", "errors", "outcomes", "events"], VALUES),
    **dict.fromkeys(["messages", "message_dicts", "inputs", "request"], VALUES),
    **dict.fromkeys(["models", "models.base", "models.guard", "models.language_model", "models.profiles"], CONTRACT),
    **dict.fromkeys(["models.provider_errors", "models.clients", "models.wire_names"], CONTRACT),
    **dict.fromkeys(["models.schema_dialect", "models.connection", "models.reaching"], CONTRACT),  # the same
    "_engine": ENGINE,
    "agent": AGENT,
    "": ROOT,
}
EDGES = ("builtin", "models", "stores", "durable", "report", "flow", "server", "telemetry", "mcp", "testing", "cli")
CORE_NEEDS = {"msgspec", "docstring_parser"}
CORE_BRINGS = {"typing_extensions"}  # msgspec loads it where it is installed
# Inside functions: to offload to a URL, for tools that take its models, and for what model calls cost.
CORE_MAY_USE = {"fsspec", "pydantic", "genai_prices"}
MEETS_EDGES = {"cli"}  # may import other edges inside a function: it shows what they leave behind
RESOLVES_NAMES = {"models"}  # may import an edge inside a function: it turns "provider:model" into a model

MAX_LINES_OF_FILE = 400
MAX_LINES_OF_FUNCTION = 70


def dotted(path: Path) -> str:
    """`src/interpose/models/base.py` -> `models.base`; the root is empty."""
    parts = path.relative_to(SOURCE / "interpose").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in FILES}


def edge_of(module: str) -> str | None:
    """The edge that a module belongs to: a folder, or one provider among the models."""
    head, _, rest = module.partition(".")
    if module in RANKS or head not in EDGES:
        return None
    return f"models.{rest.split('.')[0]}" if head == "models" else head


def rank_of(module: str) -> int:
    if edge_of(module):
        return EDGE
    return RANKS.get(module, RANKS.get(module.partition(".")[0], CONTRACT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield (full name, whether it is met when the file is loaded), without those for type checkers alone."""

    def visit(node: ast.AST, loading: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, loading) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: imports are absolute"
                for alias in child.names:
                    inner = f"{child.module}.{alias.name}"
                    is_module = inner.removeprefix("interpose.") in MODULES
                    yield (inner if is_module else str(child.module)), loading
            else:
                in_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from visit(child, loading and not in_function)

    return visit(tree_of(path), True)


def own_imports(path: Path) -> Iterator[tuple[str, bool]]:
    for name, loading in imports_of(path):
        if name == "interpose" or name.startswith("interpose."):
            yield name.removeprefix("interpose").removeprefix("."), loading


def foreign_imports(path: Path) -> Iterator[tuple[str, bool]]:
    for name, loading in imports_of(path):
        head = name.partition(".")[0]
        if head != "interpose" and head not in sys.stdlib_module_names:
            yield head, loading


def test_imports_point_inwards() -> None:
    wrong = [
        f"{module} imports {target}"
        for module, path in MODULES.items()
        for target, loading in own_imports(path)
        if loading and rank_of(target) > rank_of(module)
    ]
    assert wrong == []


def test_core_imports_no_edge() -> None:
    wrong = [
        f"{module} imports {target}"
        for module, path in MODULES.items()
        if not edge_of(module) and module not in RESOLVES_NAMES
        for target, _ in own_imports(path)
        if edge_of(target)
    ]
    assert wrong == []


def test_edges_do_not_import_each_other() -> None:
    wrong = [
        f"{module} imports {target}"
        for module, path in MODULES.items()
        for target, loading in own_imports(path)
        if edge_of(module) and edge_of(target) not in (None, edge_of(module))
        if loading or edge_of(module) not in MEETS_EDGES
    ]
    assert wrong == []


def test_core_needs_two_packages_only() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        if not edge_of(module)
        for name, loading in foreign_imports(path)
        if name not in CORE_NEEDS and (loading or name not in CORE_MAY_USE)
    ]
    assert wrong == []


def test_optional_package_is_imported_in_one_file_of_an_edge() -> None:
    users: dict[tuple[str | None, str], set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        for name, _ in foreign_imports(path):
            if edge_of(module) and name not in CORE_NEEDS | CORE_MAY_USE:
                users[edge_of(module), name].add(module)
    assert {pair: sorted(modules) for pair, modules in users.items() if len(modules) > 1} == {}


@pytest.mark.parametrize("module", [m for m, path in MODULES.items() if "\n__all__" in path.read_text("utf-8")])
def test_listed_names_are_sorted_and_true(module: str) -> None:
    loaded = importlib.import_module(f"interpose.{module}" if module else "interpose")
    listed = list(loaded.__all__)
    assert listed == sorted(set(listed))
    assert [name for name in listed if not hasattr(loaded, name)] == []
    if MODULES[module].name == "__init__.py":
        assert set(listed) >= public_names(MODULES[module])


def public_names(path: Path) -> set[str]:
    """The public names that a package makes, or brings in from its own files."""
    names: set[str] = set()
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "interpose":
            names |= {alias.asname or alias.name for alias in node.names}
    return {name for name in names if not name.startswith("_")}


def test_users_packages_list_their_names() -> None:
    packages = [module for module, path in MODULES.items() if path.name == "__init__.py" and "_engine" not in module]
    assert [module for module in packages if "\n__all__" not in MODULES[module].read_text("utf-8")] == []


LOADED = """
import json, sys
before = set(sys.modules)
import interpose
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


def test_import_loads_the_core_alone() -> None:
    out = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = set(json.loads(out.stdout)) - set(sys.stdlib_module_names)
    assert loaded - CORE_NEEDS - CORE_BRINGS == {"interpose"}


def test_import_loads_no_edge() -> None:
    code = "import interpose, sys, json; print(json.dumps([n for n in sys.modules if n.startswith('interpose.')]))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in json.loads(out.stdout) if edge_of(name.removeprefix("interpose."))] == []


def test_files_are_short() -> None:
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text("utf-8").splitlines()) for path in FILES}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES_OF_FILE} == {}


def test_functions_are_short() -> None:
    long = {
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}": lines
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := int(node.end_lineno or 0) - node.lineno + 1) > MAX_LINES_OF_FUNCTION
    }
    assert long == {}


def test_module_docstrings_say_what_a_file_is() -> None:
    bare = [str(path.relative_to(SOURCE)) for path in FILES if ast.get_docstring(tree_of(path)) is None]
    assert bare == []
