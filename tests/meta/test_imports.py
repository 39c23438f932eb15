"""The house: imports run downwards, the core needs no framework, starting costs little. Each guard has a test that trips it."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pkgutil
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import paralign

SOURCE = Path(paralign.__file__).parent

#: from top to bottom; a folder may import only what stands below it (and itself)
ORDER = ["__main__", "cli", "commands", "agents", "testing", "sweeping", "verification", "api", "repair", "streaming", "checking", "scaffold", "progress", "report", "port", "conversion", "stages", "locate", "context", "align", "comparison", "training", "lite", "formats", "weights", "catalogue", "run", "remote", "ray_session", "worker", "trainlog", "adapters", "compat", "init", "capture",
         "model", "registry", "dtypes", "errors", "__init__"]  # fmt: skip

#: folders that are put on a user's own interpreter
PORTABLE = ["trainlog", "worker", "adapters", "compat", "init", "capture", "model", "registry", "dtypes", "errors", "__init__"]

FRAMEWORKS = {"torch", "paddle", "tensorflow", "jax", "mindspore", "onnx", "onnxruntime"}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST):
    """Names of all modules that a tree imports, those for type checking left out."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            skipped.update(id(n) for n in ast.walk(node))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def upward(path: Path, tree: ast.AST):
    """Imports of a file that lead upwards."""
    here = ORDER.index(room(path))
    for name in imported(tree):
        parts = name.split(".")
        if parts[0] == "paralign" and len(parts) > 1 and parts[1] in ORDER and ORDER.index(parts[1]) < here:
            yield name


def files():
    return sorted(SOURCE.rglob("*.py"))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """A file's code, parsed once for all tests."""
    return ast.parse(path.read_text(), str(path))


def module(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach one another by imports, those for type checking included."""
    reached: dict[str, set[str]] = {}
    for name, first in imports.items():
        found, todo = set(), list(first)
        while todo:
            each = todo.pop()
            if each not in found:
                found.add(each)
                todo += imports.get(each, ())
        reached[name] = found
    groups = {tuple(sorted(other for other in each if name in reached[other])) for name, each in reached.items() if name in each}
    return [list(group) for group in sorted(groups)]


def imports_of_all() -> dict[str, set[str]]:
    """Module -> modules of the package that it imports anywhere; the names that a package hands on count as the package."""
    modules = {module(path) for path in files()}
    found = {}
    for path in files():
        lines = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Import | ast.ImportFrom)]
        named = [alias.name for n in lines if isinstance(n, ast.Import) for alias in n.names]
        for node in (n for n in lines if isinstance(n, ast.ImportFrom)):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            named += inner & modules if inner <= modules else [*(inner & modules), node.module or ""]
        found[module(path)] = {name for name in named if name in modules and name not in ("paralign", module(path))}
    return found


def unresolved(tree: ast.AST) -> list[str]:
    """Names that a tree imports from the package, and that are not there."""
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "paralign":
            try:
                home = importlib.import_module(node.module)
            except ModuleNotFoundError:
                wrong.append(node.module)
                continue
            absent = [alias.name for alias in node.names if not hasattr(home, alias.name)]
            inner = hasattr(home, "__path__")
            wrong += [f"{node.module}.{name}" for name in absent if not (inner and importlib.util.find_spec(f"{node.module}.{name}"))]
    return wrong


@pytest.mark.parametrize("folder", ["benchmarks", "examples"])
def test_programs_beside_the_package_import_what_is_there(folder):
    scripts = sorted((SOURCE.parents[1] / folder).rglob("*.py"))
    assert [f"{path.name}: {name}" for path in scripts for name in unresolved(ast.parse(path.read_text()))] == []


def test_a_name_that_is_gone_would_be_seen():
    assert unresolved(ast.parse("from paralign.errors import Gone")) == ["paralign.errors.Gone"]


def test_no_module_imports_itself_through_others():
    assert circles(imports_of_all()) == []


def between_folders(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports between the folders, and files, that lie directly in one room."""
    found: dict[str, set[str]] = {}
    for name, first in imports.items():
        here = name.split(".")[:3]
        homes = [each.split(".")[:3] for each in first]
        inner = {".".join(home) for home in homes if home[:2] == here[:2] and home != here and len(home) == 3}
        found.setdefault(".".join(here), set()).update(inner)
    return found


def test_no_folder_imports_itself_through_others_of_its_room():
    found = circles(between_folders(imports_of_all()))
    assert [group for group in found if not group[0].startswith("paralign.locate.")] == []  # the folders of locate still do


def test_a_circle_of_folders_would_be_seen():
    imports = {"paralign.a.b.x": {"paralign.a.c.x"}, "paralign.a.c.x": set(), "paralign.a.c.y": {"paralign.a.b.z"}, "paralign.a.b.z": set()}
    assert circles(imports) == []
    assert circles(between_folders(imports)) == [["paralign.a.b", "paralign.a.c"]]


def test_a_circle_would_be_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_every_file_has_a_place_in_the_house():
    homeless = {room(path) for path in files()} - set(ORDER)
    assert not homeless, "give them a place in ORDER and in docs/architecture.md"


def test_imports_run_downwards():
    inner = [path for path in files() if path.name != "__init__.py" or path.parent != SOURCE]
    assert {str(path.relative_to(SOURCE)): found for path in inner if (found := list(upward(path, tree_of(path))))} == {}


def test_an_upward_import_would_be_seen():
    assert list(upward(SOURCE / "comparison" / "x.py", ast.parse("from paralign.stages import forward"))) == [
        "paralign.stages",
        "paralign.stages.forward",
    ]


def strangers(path: Path, allowed: set[str]) -> set[str]:
    """The packages that a file imports, but for some."""
    return {name.split(".")[0] for name in imported(tree_of(path))} - allowed


def test_only_adapters_import_a_framework():
    inner = [path for path in files() if room(path) != "adapters"]
    assert {str(path.relative_to(SOURCE)) for path in inner if not FRAMEWORKS.isdisjoint(strangers(path, set()))} == set()


def test_the_portable_half_needs_the_standard_library_and_numpy_alone():
    allowed = set(sys.stdlib_module_names) | {"numpy", "paralign", "__future__", ""}
    asked_for = FRAMEWORKS | {"ml_dtypes"}  # asked for its types only where it is there
    wrong = {}
    for path in (p for p in files() if room(p) in PORTABLE):
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))
        wrong[str(path.relative_to(SOURCE))] = strangers(path, allowed | asked_for if room(path) == "adapters" else allowed)
    assert {path: found for path, found in wrong.items() if found} == {}


def test_a_strange_package_would_be_seen():
    assert strangers(SOURCE / "adapters" / "torch.py", {"torch"}) >= {"numpy"}


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


LOADED = f"import sys; print(sorted({FRAMEWORKS!r} & set(sys.modules)))"


def test_no_framework_is_imported_by_any_module_of_the_core():
    names = [
        m.name
        for m in pkgutil.walk_packages([str(SOURCE)], "paralign.")
        if not m.name.startswith("paralign.adapters.") and "__main__" not in m.name
    ]
    assert "paralign.stages.forward.stage" in names
    done = python(f"import importlib\nfor n in {names!r}: importlib.import_module(n)\n{LOADED}")
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.torch
def test_the_guard_against_frameworks_can_fail():
    pytest.importorskip("torch")
    assert python(f"import torch\n{LOADED}").stdout.strip() == "['torch']"


@pytest.mark.parametrize("name", paralign.__all__)
def test_every_public_name_is_there(name):
    assert getattr(paralign, name) is not None
    assert name in dir(paralign)


def test_a_name_that_is_not_public_is_told():
    with pytest.raises(AttributeError, match="module 'paralign' has no attribute 'chekc'"):
        paralign.chekc  # noqa: B018 - the access is the point


def processor_seconds(command: list[str]) -> float:
    """The least processor time of several starts: other load on the machine does not count."""
    taken = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def test_starting_costs_little():
    assert processor_seconds([sys.executable, "-m", "paralign", "--help"]) < 0.3
    assert processor_seconds([sys.executable, "-c", "import paralign"]) < 0.3


def test_the_guard_of_the_start_can_fail():
    assert (
        processor_seconds([sys.executable, "-c", "import time; e = time.process_time() + 0.3\nwhile time.process_time() < e: pass"]) > 0.3
    )


def test_every_module_can_be_imported():
    for module in pkgutil.walk_packages([str(SOURCE)], "paralign."):
        if module.name.rsplit(".", 1)[0] != "paralign.adapters" and "__main__" not in module.name:
            importlib.import_module(module.name)
