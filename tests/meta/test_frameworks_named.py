"""No code outside of the adapters decides by the name of a framework; what it must know of one stands in the framework's profile."""

from __future__ import annotations

import ast
from pathlib import Path

import paralign

SOURCE = Path(paralign.__file__).parent

NAMES = {"torch", "paddle"}

#: rooms whose subject is these two frameworks: what they offer, source of the one made source of the other, formats of their files
THEIRS = {"adapters", "catalogue", "port", "scaffold", "init", "compat", "formats", "conversion"}

#: files that still ask -> how often: rules of optimizers that are read by the framework's settings; names of the guides' files; what both
#: frameworks offer, asked and listed
ASKING = {
    "locate/optimizer/term_causes.py": 1,
    "locate/optimizer/read_config.py": 1,
    "report/artifacts.py": 1,
    "report/inventories.py": 1,
    "worker/interpreter/signatures.py": 1,
}


def asked(tree: ast.AST) -> int:
    """How often something is compared with a framework's name, or looked up under it."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            inner = [each for part in parts for each in (part.elts if isinstance(part, (ast.Set, ast.Tuple, ast.List)) else [part])]
            count += any(isinstance(each, ast.Constant) and each.value in NAMES for each in inner)
        elif isinstance(node, ast.Dict):
            keys = [each.value for each in node.keys if isinstance(each, ast.Constant)]
            count += {key for key in keys if isinstance(key, str)} >= NAMES
    return count


def test_no_decision_is_made_by_the_name_of_a_framework():
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        count = asked(ast.parse(path.read_text())) if name.partition("/")[0] not in THEIRS else 0
        if count:
            found[name] = count
    assert found == ASKING


def test_a_decision_by_name_would_be_seen():
    for code in ('x if name == "paddle" else y', 'a in ("torch", "numpy")', '{a, b} != {"torch", "paddle"}', '{"torch": 1, "paddle": 2}'):
        assert asked(ast.parse(code)) == 1, code
    assert asked(ast.parse('print("torch", {"torch": 1})')) == 0
