"""Every pair of the catalogue as a small function in several forms, converted and executed on both sides.

``python benchmarks/convert_code.py`` prints how many are right, flagged and silently wrong, and fails where one is silently wrong.
``--write FILE`` writes the table, ``--only ID`` takes those entries alone.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from catalogue import difference, plain
from catalogue_sides import RATES, Paddle, Side, Torch, arrays

from paralign.catalogue.binding import bind
from paralign.catalogue.entries import Entry, Example, Fix, Measured, Outcome, Scope, Words, read_all
from paralign.catalogue.naming import torch_signature
from paralign.catalogue.parameters import Kind, stored
from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate, FileFate

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = """import functools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import linalg, nn, optim
from torch.nn import init
from torch.optim import lr_scheduler as lr


"""

#: what may become of a form
RIGHT, CONDITION, FLAGGED, LOUD, WRONG = "right", "told under a condition", "left by hand", "raises in Paddle", "silently wrong"


@dataclass
class Case:
    """One form of one entry, and what became of it."""

    entry: Entry
    form: str
    source: str
    result: str = ""
    detail: str = ""


class Converted(Paddle):
    """The side of converted programs: a schedule is given an optimizer, as in PyTorch."""

    def _optimizer(self) -> Any:
        return self.paddle.optimizer.Momentum(0.1, momentum=0.0, parameters=[self._parameter(np.zeros(1, "float32"))])

    def rates(self, make: Any) -> np.ndarray:
        """The rate at every step."""
        optimizer = self._optimizer()
        schedule = make(optimizer)
        found = []
        for _ in range(RATES):
            found.append(optimizer.get_lr())
            optimizer.step()
            schedule.step()
        return np.array(found)

    def plateau(self, make: Any) -> np.ndarray:
        """The rates while nothing improves."""
        optimizer = self._optimizer()
        schedule = make(optimizer)
        found = []
        for _ in range(30):
            schedule.step(1.0)
            found.append(optimizer.get_lr())
        return np.array(found)


class _Tensors(ast.NodeTransformer):
    """``X(x)`` as ``torch.tensor(x)``: what it makes is known to be a tensor."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.parse("torch.tensor", mode="eval").body if node.id == "X" else node


def call_of(tree: ast.AST, entry: Entry) -> ast.Call | None:
    """The call that an entry is about."""
    last = entry.torch.rpartition(".")[2]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last in (getattr(node.func, "attr", None), getattr(node.func, "id", None)):
            return node
    return None


def forms(entry: Entry) -> Iterator[tuple[str, str]]:
    """The entry's expression with its call written in several forms."""
    tree = ast.fix_missing_locations(_Tensors().visit(ast.parse(entry.example.reference, mode="eval")))
    yield "as it stands", ast.unparse(tree)
    call = call_of(tree, entry)
    signature = torch_signature(entry.torch)
    if call is None or entry.torch.startswith("torch.Tensor.") or not signature.known:
        return
    bound = bind(signature, call.args, call.keywords)
    if bound.many or bound.open:
        return
    keywords = [ast.keyword(name, value) for name, value in {**bound.given, **bound.unknown}.items()]
    yield "keyword", _with(tree, call, ast.Call(call.func, [], keywords))
    places = [each.name for each in signature.parameters if each.kind is Kind.PLAIN]
    given = []
    for name in places:
        if name not in bound.given:
            break
        given.append(bound.given[name])
    yield "positional", _with(tree, call, ast.Call(call.func, given, [each for each in keywords if each.arg not in places[: len(given)]]))
    partial = ast.Call(ast.parse("functools.partial", mode="eval").body, [call.func], keywords)
    yield "partial", _with(tree, call, ast.Call(partial, [], []))
    last = entry.torch.rpartition(".")[2]
    if entry.torch == f"torch.{last}" and f"torch.Tensor.{last}" in stored("torch") and call.args:
        method = ast.Attribute(call.args[0], last, ast.Load())
        yield "method", _with(tree, call, ast.Call(method, call.args[1:], call.keywords))
    yield "by another name", _with(tree, call, ast.Call(ast.Name("known", ast.Load()), call.args, call.keywords), ast.unparse(call.func))


def _with(tree: ast.AST, old: ast.Call, new: ast.Call, known: str = "") -> str:
    changed = copy.deepcopy(tree)
    index = list(ast.walk(tree)).index(old)
    target = list(ast.walk(changed))[index]
    target.func, target.args, target.keywords = copy.deepcopy((new.func, new.args, new.keywords))  # type: ignore[attr-defined]
    return (f"known = {known}\n    return " if known else "") + ast.unparse(ast.fix_missing_locations(changed))


def cases(only: str) -> list[Case]:
    """Every form of every entry, as a function of the entry's arrays."""
    found = []
    for entry in read_all():
        if not entry.id.startswith(only) or entry.scope is not Scope.CALL or entry.torch.startswith("torchvision."):
            continue
        for form, expression in forms(entry):
            body = expression if expression.startswith("known") else f"return {expression}"
            found.append(Case(entry, form, f"{HEAD}def value():\n    {body}\n"))
    head = f"{HEAD}def value():\n    x = torch.tensor(x0)\n    return "
    return found + [Case(_plain_entry(line), "beside the catalogue", f"{head}{line}\n") for line in more() if line.startswith(only)]


def more() -> list[str]:
    """Expressions that the catalogue does not have."""
    files = sorted(Path(__file__).parent.glob("convert_code_cases*.txt"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _plain_entry(line: str) -> Entry:
    """An expression as an entry of its own."""
    example = Example(setup="x0 = normal(2, 3, 4)", reference=line)
    return Entry(line, "", "", "", Outcome.EQUAL, Words(), Fix(), example, Measured())


def run(source: str, side: Side, names: dict[str, Any]) -> Any:
    """What the source's function gives on one side."""
    side.seed()
    space = {**side.names(), **names}
    exec(compile(source, "case", "exec"), space)
    return plain(space["value"]())


def judge(case: Case, converted: str, fates: set[Fate], torch: Side, paddle: Side) -> None:
    """Execute both, and say what became of the case."""
    made: dict[str, Any] = arrays(case.entry.id)
    known = set(made)
    exec(case.entry.example.setup, made)
    names = {name: value for name, value in made.items() if name not in known and name != "__builtins__"}
    try:
        reference = run(case.source, torch, names)
    except Exception as error:  # noqa: BLE001 - a form that PyTorch refuses is none
        case.result, case.detail = "", f"{type(error).__name__}: {error}"
        return
    if Fate.BY_HAND in fates or not converted:
        case.result = FLAGGED
        return
    try:
        apart = difference(reference, run(converted, paddle, names))
    except Exception as error:  # noqa: BLE001 - what Paddle raises is the outcome
        case.result, case.detail = LOUD, " ".join(f"{type(error).__name__}: {error}".split())[:160]
        return
    if not isinstance(apart, str) and apart <= case.entry.example.tolerance:
        case.result = RIGHT
        return
    case.result, case.detail = CONDITION if Fate.CONDITION in fates else WRONG, str(apart)


def converted(found: list[Case]) -> list[tuple[str, set[Fate]]]:
    """What the converter makes of each case, and the fates of its places."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.mkdir()
        for at, case in enumerate(found):
            (source / f"case{at}.py").write_text(case.source, encoding="utf-8")
        ledger = convert_code(source, target)
        refused = {each.path for each in ledger.files if each.fate is FileFate.REFUSED}
        fates: dict[str, set[Fate]] = {}
        for place in ledger.places:
            fates.setdefault(place.path, set()).add(place.fate)
        names = [f"case{at}.py" for at in range(len(found))]
        return [("" if name in refused else (target / name).read_text(encoding="utf-8"), fates.get(name, set())) for name in names]


def table(found: list[Case]) -> str:
    """Results by form."""
    kinds = (RIGHT, CONDITION, FLAGGED, LOUD, WRONG)
    lines = ["| form | " + " | ".join(kinds) + " |", "|---|" + "---|" * len(kinds)]
    counted = Counter((case.form, case.result) for case in found)
    named = dict.fromkeys(case.form for case in found)
    lines += [f"| {form} | " + " | ".join(str(counted[form, kind]) for kind in kinds) + " |" for form in named]
    lines.append("| all | " + " | ".join(str(sum(case.result == kind for case in found)) for kind in kinds) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Convert, execute, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", type=Path)
    options.add_argument("--only", default="", help="ids that begin so")
    options.add_argument("-v", "--verbose", action="store_true")
    chosen = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    torch, paddle = Torch(), Converted()
    found = cases(chosen.only)
    for case, (text, fates) in zip(found, converted(found), strict=True):
        judge(case, text, fates, torch, paddle)
        if case.result in (WRONG, LOUD) or chosen.verbose:
            print(f"{case.result}: {case.entry.id} ({case.form}): {case.detail}\n{text.strip().splitlines()[-1] if text else ''}")
    found = [case for case in found if case.result]
    print(table(found))
    if chosen.write:
        chosen.write.write_text(table(found), encoding="utf-8")
    return int(any(case.result == WRONG for case in found))


if __name__ == "__main__":
    sys.exit(main())
