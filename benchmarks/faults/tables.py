"""The answers as tables."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

Row = dict[str, Any]
TOOLS = ("paralign", "reprod_log", "padiff", "padiff_default")

#: a bug that was met in the field -> its class; other faults name their class themselves
CLASSES = {
    "default-arg": "B001 B003",
    "resample": "B004 B005 B006 B007 B065 B066 B068",
    "padding": "B008 B009",
    "epsilon": "B010 B011 B012 B100 B101 B102",
    "activation": "B013 B014 B016 B017",
    "precision": "B018 B020 B021 B043 B162",
    "config": "B023 B025",
    "layout": "B026 B027 B050 B052 B053 B054 B055 B056 B057 B143 B163",
    "axis": "B028",
    "semantics": "B044 B058",
    "naming": "B051",
    "load": "B063 B064",
    "channel": "B069 B071",
    "preproc": "B072 B079",
    "aggregation": "B080",
    "normalization": "B095 B097",
    "weight-decay": "B106 B109",
    "clipping": "B110 B111 B112",
    "unit": "B116",
    "per-param": "B121",
    "scale": "B128 B150 B151",
    "bn-momentum": "B139 B140",
    "off-by-one": "B149",
    "shuffle": "B155",
    "impl-diff": "B158",
    "order": "B161",
    "default-dist": "B129",
    "false-alarm": "B047 B049",
}
_CLASS_OF = {bug: name for name, bugs in CLASSES.items() for bug in bugs.split()}


def class_of(bugs: str) -> str:
    """The class of a fault."""
    return _CLASS_OF.get(bugs, bugs)


def figures(rows: list[Row], tool: str) -> dict[str, int] | None:
    """Counts of one tool; None where it was not asked."""
    asked = [row[tool] for row in rows if tool in row]
    if not asked:
        return None
    flagged = [a for a in asked if a.get("flagged")]
    return {
        "asked": len(asked),
        "flagged": len(flagged),
        "exact": sum(bool(a.get("exact")) for a in flagged),
        "listed": sum(bool(a.get("listed")) for a in flagged),
        "failed": sum(bool(a.get("failed")) and not a.get("flagged") for a in asked),
    }


def _line(name: str, rows: list[Row]) -> str:
    cells = [name, str(len(rows))]
    for tool in TOOLS:
        found = figures(rows, tool)
        if found is None:
            cells.append("")
        elif tool == "reprod_log":
            cells.append(str(found["flagged"]))
        else:
            failed = f" ({found['failed']} failed)" if found["failed"] else ""
            cells.append(f"{found['flagged']} / {found['exact']} / {found['listed']}{failed}")
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "| {} | planted | paralign: flagged / line first / listed | reprod_log: flagged | padiff, 1e-4: flagged / located first / listed "
    "| padiff, its defaults |\n|---|---|---|---|---|---|"
)


def summary(rows: list[Row]) -> str:
    """Totals, by stage."""
    faults, others = [r for r in rows if r["stage"]], [r for r in rows if not r["stage"]]
    lines = [HEAD.format("stage")]
    for stage in ("data", "forward", "backward", "update", "random"):
        chosen = [r for r in faults if r["stage"] == stage]
        lines += [_line(stage, chosen)] if chosen else []
    return "\n".join([*lines, _line("**all faults**", faults), _line("harmless (flagged = false alarm)", others)])


def by_class(rows: list[Row]) -> str:
    """Faults by class."""
    faults = [r for r in rows if r["stage"]]
    names = sorted({r["class"] for r in faults})
    return "\n".join([HEAD.format("class"), *(_line(name, [r for r in faults if r["class"] == name]) for name in names)])


def by_program(rows: list[Row]) -> str:
    """Faults by program, and how many harmless variations of each were flagged."""
    lines = [HEAD.format("program").replace("|\n|---", "| harmless: paralign flagged |\n|---", 1) + "---|"]
    for name in sorted({r["id"].partition("/")[0] for r in rows}):
        own = [r for r in rows if r["id"].partition("/")[0] == name]
        alarms, harmless = figures([r for r in own if not r["stage"]], "paralign"), sum(not r["stage"] for r in own)
        told = f"{alarms['flagged']} of {harmless}" if alarms else str(harmless)
        lines.append(f"{_line(name, [r for r in own if r['stage']])} {told} |")
    return "\n".join(lines)


def by_rule(rows: list[Row]) -> str:
    """How often each rule chose the first place, and how often that place was a true line."""
    answers = [r["paralign"] for r in rows if r["paralign"].get("flagged") and r["stage"]]
    lines = ["| rule | chose the first place | that was a true line |", "|---|---|---|"]
    for rule in sorted({a.get("rule", "") for a in answers}):
        chosen = [a for a in answers if a.get("rule", "") == rule]
        lines.append(f"| {rule or '(none: gradients, updates, data)'} | {len(chosen)} | {sum(bool(a.get('exact')) for a in chosen)} |")
    return "\n".join(lines)


def _told(answer: Row | None) -> str:
    if answer is None:
        return ""
    if not answer.get("flagged"):
        return "failed" if answer.get("failed") else "no"
    if answer.get("exact") is None:
        return "yes"
    return "**line**" if answer["exact"] else ("listed" if answer.get("listed") else "yes")


def brief(row: Row) -> str:
    """What each tool said, and which lines were right and named, in a line."""
    ours = row.get("paralign", {})
    said = "; ".join(f"{tool}: {_told(row[tool])}" for tool in TOOLS if tool in row)
    places = [place.split("/")[-1] for place in ours.get("places", [])]
    return f"({row.get('stage', '')}) {said} | {row.get('truth', '')} {places} {ours.get('failed', '')} {ours.get('note', '')}"


def every(rows: list[Row]) -> str:
    """A line for each plant."""
    lines = ["| plant | stage | bug | what | paralign | reprod_log | padiff | padiff, defaults |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        told = " | ".join(_told(row.get(tool)) for tool in TOOLS)
        lines.append(f"| {row['id']} | {row['stage'] or 'harmless'} | {row['bugs']} | {row['what']} | {told} |")
    return "\n".join(lines)


def document(rows: list[Row]) -> str:
    """The whole page."""
    faults = sum(bool(r["stage"]) for r in rows)
    versions = ", ".join(f"{n} {version(n)}" for n in ("torch", "paddlepaddle", "reprod-log"))
    return f"""# Planted faults

Made by `make faults` with {versions}, padiff 0.2.0, Python {platform.python_version()}: {faults} mistakes planted one
by one into correct ports, and {len(rows) - faults} changes that mean the same. Each is an edit of a line or a few in one
of the programs in [`benchmarks/faults/programs`](../benchmarks/faults/programs); the true line is where the edit is, or
where what it builds is called. `python benchmarks/faults/verify.py` shows, in float64 and without paralign's judgement,
that the ports are right, that every fault changes what its stage computes and that no harmless variation does.

- *flagged*: the tool says that the port differs. *Line first*: the first place that it names is a true line; *listed*:
  one of all those that it names.
- reprod_log gets what its guide has one write down (outputs; losses, learning rates and gradients; samples and batches),
  weights carried over rightly, and its default threshold of 1e-6 on the mean difference. It names no place.
- padiff gets both models with the right weights, the loss and, for faults of the update, the optimizers, once comparing
  every element up to 1e-4 (`compare_mode="strict"`), once with its defaults (means, 1e-7), which rounding exceeds in most
  layers. *Located first* is more lenient than a line: the innermost user line of its stack is a true one, or the class
  of layer that it names holds one; *listed*: any line of its stack. It looks at no data and at no random layers.

## By stage

{summary(rows)}

## By program

The engine was written with the faults of these programs in sight. How it does on mistakes that it has never seen tell
[mutants](mutants.md), drawn at random.

{by_program(rows)}

## By class

{by_class(rows)}

## By rule

Which rule of `locate/` chose the place that is named first. `make faults ABLATE=id,id` leaves rules out.

{by_rule(rows)}

## Every plant

**line**: flagged with the true line first. *listed*: the true line among those named. *yes*: flagged, without it.
*failed*: the tool raised an error.

{every(rows)}
"""
