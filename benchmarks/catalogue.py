"""Execute every entry of the catalogue against the installed frameworks: the naive port differs as stated, the fixed one is equal.

``python benchmarks/catalogue.py`` checks; ``--record`` writes what was measured into the entries; ``--write FILE`` writes the table.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from catalogue_sides import Paddle, Side, Torch, arrays

from paralign.catalogue.entries import DIFFERENCES, Entry, Outcome, read_all
from paralign.catalogue.parameters import stored
from paralign.catalogue.source_fixes import NotApplicable, fixed_expression

#: characters of what differs that are kept, where it is no number
_LONGEST = 100

#: two measurements of one entry on other machines may differ by rounding: relative, and absolute beside the entry's tolerance
_SAME = 0.02


@dataclass
class Execution:
    """What an entry gave: ``before`` and ``after`` are numbers or texts; ``wrong`` says why it does not hold."""

    entry: Entry
    before: float | str
    after: float | str
    fixed: str = ""
    wrong: str = ""


def plain(value: Any) -> Any:
    """Tensors as arrays, lists as lists."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        return value.detach().cpu().numpy()
    return np.asarray(value)


def difference(reference: Any, candidate: Any) -> float | str:
    """The greatest absolute difference, or what else differs."""
    if isinstance(reference, list) or isinstance(candidate, list):
        return _of_lists(reference, candidate)
    if reference.shape != candidate.shape:
        return f"shape {reference.shape} vs {candidate.shape}"
    if reference.dtype.kind in "SU" or candidate.dtype.kind in "SU":
        same = reference.dtype.kind == candidate.dtype.kind and bool((reference == candidate).all())
        return 0.0 if same else f"{reference} vs {candidate}"
    if not reference.size:
        return 0.0
    kind = "complex128" if "c" in (reference.dtype.kind, candidate.dtype.kind) else "float64"
    a, b = reference.astype(kind), candidate.astype(kind)
    if (np.isnan(a) != np.isnan(b)).any():
        return "nan mismatch"
    with np.errstate(all="ignore"):
        apart = np.abs(np.where(a == b, 0, a - b))
    apart = apart[~np.isnan(apart)]
    return float(apart.max()) if apart.size else 0.0


def _of_lists(reference: Any, candidate: Any) -> float | str:
    if not (isinstance(reference, list) and isinstance(candidate, list)):
        return f"{_form(reference)} vs {_form(candidate)}"
    if len(reference) != len(candidate):
        return f"{len(reference)} vs {len(candidate)} results"
    parts = [difference(a, b) for a, b in zip(reference, candidate, strict=True)]
    texts = [part for part in parts if isinstance(part, str)]
    return texts[0] if texts else max(parts, default=0.0)


def _form(value: Any) -> str:
    return f"{len(value)} results" if isinstance(value, list) else f"one result of shape {value.shape}"


def evaluated(expression: str, side: Side, local: dict[str, Any]) -> Any:
    """What an expression of an entry gives on one side."""
    side.seed()
    return plain(eval(expression, {**side.names(), **local}))


def against(reference: Any, expression: str, side: Side, local: dict[str, Any]) -> float | str:
    """How far an expression of the port is from the reference."""
    try:
        return difference(reference, evaluated(expression, side, local))
    except Exception as error:  # noqa: BLE001 - what it raises is the difference
        return f"raises {type(error).__name__}: {' '.join(str(error).split())}"[:_LONGEST]


def execute(entry: Entry, torch: Side, paddle: Side) -> Execution:
    """Execute one entry."""
    local: dict[str, Any] = arrays(entry.id)
    known = set(local)
    exec(entry.example.setup, local)
    local = {name: value for name, value in local.items() if name not in known and name != "__builtins__"}
    try:
        reference = evaluated(entry.example.reference, torch, local)
    except Exception as error:  # noqa: BLE001 - an entry that cannot be executed is wrong
        return Execution(entry, "", "", wrong=f"the reference raises {type(error).__name__}: {error}")
    before = against(reference, entry.naive, paddle, local)
    done = Execution(entry, before, "")
    if entry.outcome is not Outcome.EQUAL:
        try:
            done.fixed = fixed_expression(entry, stored("torch").signature(entry.torch))
            done.after = against(reference, done.fixed, paddle, local)
        except NotApplicable as error:
            done.wrong = f"the fix cannot be applied: {error}"
            return done
    done.wrong = _wrong(entry, done)
    return done


def _wrong(entry: Entry, done: Execution) -> str:
    tolerance = entry.example.tolerance
    kind = _outcome(done.before, tolerance)
    if kind is not entry.outcome and not (entry.outcome is Outcome.TYPE and kind is Outcome.SILENT):
        return f"stated {entry.outcome.value}, found {kind.value} ({done.before})"
    if entry.outcome is not Outcome.EQUAL and (isinstance(done.after, str) or done.after > tolerance):
        return f"the fix leaves {done.after}: {done.fixed}"
    return ""


def _outcome(found: float | str, tolerance: float) -> Outcome:
    if isinstance(found, str):
        return Outcome.RAISES if found.startswith("raises ") else Outcome.TYPE
    return Outcome.EQUAL if found <= tolerance else Outcome.SILENT


def stated(done: Execution) -> str:
    """Why what was measured is not what the entry states; empty where it is."""
    said, tolerance = done.entry.measured.before, done.entry.example.tolerance
    if said == "":
        return "the entry states no difference; run with --record"
    if isinstance(said, str) or isinstance(done.before, str):
        same = isinstance(said, str) and isinstance(done.before, str) and said.split(":")[0] == done.before.split(":")[0]
    else:
        same = abs(said - done.before) <= max(tolerance, _SAME * abs(said))
    return "" if same else f"the entry states {said}, measured {done.before}"


def record(results: list[Execution], folder: Path) -> None:
    """Write what was measured into the entries."""
    found = {each.entry.id: each for each in results}
    for path in sorted(folder.glob("*.toml")):
        blocks = path.read_text(encoding="utf-8").split("[[entry]]\n")
        for at, block in enumerate(blocks):
            name = re.search(r'^id = "(.+)"$', block, re.MULTILINE)
            done = found.get(name.group(1)) if name else None
            if done is not None:
                lines = [line for line in block.rstrip("\n").split("\n") if not re.match(r"(before|after) = ", line)]
                lines += [f"before = {_toml(done.before)}"] + ([f"after = {_toml(done.after)}"] if done.after != "" else [])
                blocks[at] = "\n".join(lines) + "\n\n"
        path.write_text("[[entry]]\n".join(blocks).rstrip("\n") + "\n", encoding="utf-8")


def _toml(value: float | str) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "`") + "'"
    return f"{value:.3g}" if "e" in f"{value:.3g}" or "." in f"{value:.3g}" else f"{value:.3g}.0"


def table(results: list[Execution], versions: str) -> str:
    """The page: one table a topic."""
    wrong = sum(bool(each.wrong) for each in results)
    counts = ", ".join(f"{sum(each.entry.outcome is kind for each in results)} {kind.value}" for kind in Outcome)
    lines = [
        "# Catalogue of differences",
        "",
        (
            f"{len(results)} pairs of calls, each executed on the same input with {versions} on the CPU: {counts}. "
            f"`make catalogue` executes them all and writes this page; {wrong} did not give what they state. `before` is the greatest "
            "absolute difference of the port with the same name and arguments, `after` that of the fixed one. `paralign explain API` "
            "prints an entry."
        ),
    ]
    for topic in dict.fromkeys(each.entry.topic for each in results):
        lines += [
            "",
            f"## {topic}",
            "",
            "| PyTorch | Paddle | outcome | difference | fix | before | after |",
            "|---|---|---|---|---|---|---|",
        ]
        for each in results:
            if each.entry.topic == topic:
                lines.append(_row(each))
    return "\n".join(lines) + "\n"


def _row(done: Execution) -> str:
    entry = done.entry
    when = f" When `{entry.when}`." if entry.when else ""
    where = f" Only {entry.data.en}." if entry.data.en else ""
    text = "" if entry.outcome is Outcome.EQUAL else entry.differs.en + when + where
    cells = [
        f"`{entry.torch}`", f"`{entry.paddle}`" if entry.paddle else "-", entry.outcome.value, text, entry.fix.words.en,
        _shown(done.before), _shown(done.after),
    ]  # fmt: skip
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def main() -> int:
    """Execute, report, and fail where an entry does not hold."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--record", action="store_true")
    options.add_argument("--write", type=Path)
    options.add_argument("--only", default="", help="ids that begin so")
    chosen = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    torch, paddle = Torch(), Paddle()
    versions = f"torch {torch.torch.__version__.split('+')[0]} and paddle {paddle.paddle.__version__}"
    entries = [entry for entry in read_all() if entry.id.startswith(chosen.only)]
    if torch.transforms is None:
        skipped = [entry.id for entry in entries if entry.torch.startswith("torchvision.")]
        print(f"torchvision is not installed: {len(skipped)} entries are not executed")
        entries = [entry for entry in entries if entry.id not in skipped]
    results = [execute(entry, torch, paddle) for entry in entries]
    if chosen.record:
        record(results, DIFFERENCES)
    else:
        for each in results:
            each.wrong = each.wrong or stated(each)
    for each in results:
        if each.wrong:
            print(f"{each.entry.id}: {each.wrong}")
    if chosen.write:
        chosen.write.write_text(table(results, versions), encoding="utf-8")
    print(f"{len(results)} entries executed with {versions}; {sum(bool(each.wrong) for each in results)} do not hold")
    return int(any(each.wrong for each in results))


if __name__ == "__main__":
    sys.exit(main())
