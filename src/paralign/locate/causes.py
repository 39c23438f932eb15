"""Differences between update rules in words: what differs, on which parameters, what to set, and where that is written."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.locate.recipes import WORDS, framework
from paralign.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paralign.locate.rules import Terms, Trace
    from paralign.locate.update import Difference

#: term -> what it is called
CALLED = {
    "rates": "learning rate",
    "decay": "weight decay",
    "clip": "gradient clipping",
    "first": "momentum",
    "second": "decay of the mean of squares",
    "dampening": "dampening of momentum",
    "damped": "first step of momentum",
    "nesterov": "Nesterov momentum",
    "scaled": "place of the learning rate in momentum",
    "eps": "epsilon",
    "place": "place of epsilon",
    "corrected": "bias correction",
    "amsgrad": "AMSGrad",
    "centered": "centred variance",
    "drift": "momentum schedule",
    "fading": "decay of the learning rate",
    "start": "first value of the mean of squares",
    "sign": "direction",
    "moves": "parameters that are updated",
    "family": "algorithm",
    "whole": "size of each whole step",
}

PLACES = {
    "outside": "outside the root",
    "inside": "inside the root",
    "hat": "added before bias correction (epsilon-hat)",
    "twice": "added to the variance too",
}
STYLES = {
    "coupled": "added to the gradient (L2)",
    "l1": "L1",
    "decoupled": "decoupled, before the update",
    "after": "decoupled, after the update",
    "unscaled": "decoupled, not times the learning rate",
}
CLIPPED = {
    "": "none",
    "global": "of the norm of all gradients together",
    "group": "of each group's norm",
    "tensor": "of each parameter's norm",
    "value": "of each element",
}

#: epsilons above this are part of the rule: then their place is a fault, although no setting mends it
CHOSEN = 1e-6

#: families in which the two frameworks are known to differ for good (Paddle's issues 36712 and 36746)
NEVER_EQUAL = ("adamax", "adadelta")

#: values nearer than this differ by being stored in float32
STORED = 1e-6


def number(value: float) -> str:
    """A number as one would write it."""
    return f"{value:.6g}"


def where(parameters: Iterable[str], traces: Mapping[str, Trace]) -> str:
    """Which parameters, in as few words as possible."""
    names = set(parameters)
    moving = {n for n, t in traces.items() if any(g is not None for g in t.gradients)}
    flat = {n for n in moving if traces[n].dims <= 1}
    if names >= moving:
        return "all parameters"
    if flat and names == flat:
        return "biases and normalisation (all one-dimensional parameters)"
    if flat and names == moving - flat:
        return "weights (all parameters that are not one-dimensional)"
    listed = [n for n in traces if n in names]
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")  # noqa: PLR2004 - three are enough to know which


def told(term: str, values: tuple[Any, ...], terms: Terms) -> str:
    """One side's value of a difference."""
    value = values[0]
    if term == "decay":
        return f"{number(value)}, {STYLES[values[1]]}" if value else "none"
    if term == "clip":
        late = " after weight decay" if values[3] else ""
        return f"{CLIPPED[value]} to {number(values[1])}{late}" if value else "none"
    if term == "whole":
        return f"times {', '.join(number(f) for f in value)}" if value else "as the rule has it"
    if term == "rates":
        return number(value[0]) if len(set(value)) == 1 else ", ".join(number(r) for r in value)
    if term == "place":
        return (
            PLACES[value]
            if terms.family != "adamax" or value == "hat"
            else {"outside": "added to |gradient|", "inside": "added to the old maximum"}[value]
        )
    if term == "corrected":
        return {"both": "of both means", "none": "none", "first": "of the first mean only", "second": "of the second mean only"}[value]
    if term == "sign":
        return "descent" if value > 0 else "ascent"
    if term == "scaled":
        return "before the velocity" if value else "after the velocity"
    return number(value) if isinstance(value, float) else {True: "yes", False: "no"}.get(value, str(value))


def inherent(difference: Difference, abouts: tuple[Mapping[str, Any], Mapping[str, Any]], terms: Terms) -> bool:
    """Whether two frameworks' own optimizers differ so for good, whatever is set."""
    frameworks = [framework(about) for about in abouts]
    if not all(frameworks) or frameworks[0] == frameworks[1] or (any(about["own"] for about in abouts) and difference.terms[0] != "clip"):
        return False
    term, first, second = difference.terms[0], difference.reference, difference.candidate
    if term == "clip":  # PyTorch adds 1e-6 to the norm
        return bool(first[0]) and first[0] == second[0] and abs(first[1] - second[1]) <= STORED * first[1] and first[3] == second[3]
    if term in ("first", "second", "eps"):
        return abs(first[0] - second[0]) <= STORED * abs(first[0])
    if term == "scaled":
        return terms.family == "rmsprop"
    return term == "place" and (terms.family in NEVER_EQUAL or (terms.family == "rmsprop" and terms.eps <= CHOSEN))


def finding(
    difference: Difference, abouts: tuple[Mapping[str, Any], Mapping[str, Any]], traces: Mapping[str, Trace], terms: Terms, *, proven: bool
) -> Finding:
    """A difference as a finding: proven where recomputing the update with it gives the candidate's steps."""
    term = difference.terms[0]
    named = CALLED.get(term, term) if term != "first" or terms.family in ("sgd", "rmsprop") else "beta 1"
    if term == "rates" and (described := _schedule(difference.reference[0], difference.candidate[0])):
        cause = f"{described}, on {where(difference.parameters, traces)}"
    elif term == "moves":
        cause = _unmoved(difference, abouts, traces)
    else:
        sides = (told(term, values, terms) for values in (difference.reference, difference.candidate))
        first, second = sides
        cause = f"{named}: {first} in the reference, {second} in the candidate, on {where(difference.parameters, traces)}"
    rule = f"update/{term}"
    if inherent(difference, abouts, terms):
        rule, cause = "update/inherent", f"inherent: {cause}"
    return Finding(rule, cause, _fix(difference, abouts, terms), proven, difference.before, difference.after)


def _schedule(first: tuple[float, ...], second: tuple[float, ...]) -> str:
    """What is wrong with a schedule, where it is one of the usual things."""
    ratios = [b / a for a, b in zip(first, second, strict=True) if a]
    if not ratios:
        return ""
    if max(ratios) - min(ratios) <= STORED * abs(ratios[0]):
        rates = f"{number(first[0])} in the reference, {number(second[0])} in the candidate"
        return f"learning rate: {rates}, {number(ratios[0])} times the reference's"
    if len(first) > 2 and all(abs(a - b) <= STORED * abs(a) for a, b in zip(first[1:], second, strict=False)):  # noqa: PLR2004 - one would fit by chance
        return "learning rate: the candidate's schedule is one step ahead"
    if len(first) > 2 and all(abs(a - b) <= STORED * abs(a) for a, b in zip(first, second[1:], strict=False)):  # noqa: PLR2004 - as above
        return "learning rate: the candidate's schedule is one step behind"
    return ""


def _unmoved(difference: Difference, abouts: tuple[Mapping[str, Any], Mapping[str, Any]], traces: Mapping[str, Trace]) -> str:
    side = 1 if difference.reference[0] else 0
    who = ("reference", "candidate")[side]
    what = where(difference.parameters, traces)
    known = abouts[side].get("mapped", {})
    absent = all(name not in known for name in difference.parameters)
    return f"{what}: not updated in the {who}" + (", whose optimizer was not given them" if absent else "")


def _fix(difference: Difference, abouts: tuple[Mapping[str, Any], Mapping[str, Any]], terms: Terms) -> str:
    """What to change in the candidate."""
    term, wanted = difference.terms[0], difference.reference
    about = abouts[1]
    if inherent(difference, abouts, terms) or (term == "place" and not about["own"]):
        return f"no setting of {about['class']} changes this: write the update by hand where it matters"
    if term == "moves":
        return "give these parameters to the optimizer" if wanted[0] else "leave these parameters out of the optimizer"
    if term == "clip" and wanted[0] == "global" and difference.candidate[0] == "group":
        return "clip all gradients together before the update: Paddle's optimizers clip each parameter group by itself"
    if term == "clip":
        return f"clip as the reference does: {told(term, wanted, terms)}"
    if term == "whole":
        return "look for a clipping of the update where the gradient is clipped in the reference, or for a schedule beside the optimizer's"
    if term == "rates" and any(own.get("rate", 1.0) != 1.0 for own in about["parameters"].values()):
        return (
            "a rate in ParamAttr or in a parameter group is a factor on the optimizer's rate in Paddle: set it to the ratio that is wanted"
        )
    if term == "first" and not difference.candidate[0] and about["class"] == "SGD" and framework(about) == "paddle":
        return f"paddle.optimizer.Momentum(momentum={number(wanted[0])}): Paddle's SGD has no momentum"
    if term == "decay" and wanted[0] and difference.candidate[0] and wanted[1] != difference.candidate[1]:
        return f"weight decay as in the reference: {told(term, wanted, terms)}" + (" (AdamW)" if wanted[1] == "decoupled" else "")
    if term == "family":
        return f"use the reference's: {abouts[0]['class']}"
    word = next((w for w in WORDS.get(term, ()) if w in about["settings"] or any(w in g for g in about["groups"])), None)
    if word is None and term != "rates":
        return f"{about['class']} has no setting for it: write the update by hand, or with {told(term, wanted, terms)} where that is meant"
    return f"set {word or 'learning_rate'} as in the reference: {told(term, wanted, terms)}"


# -- where it is written -----------------------------------------------------------------------------------------------------------

#: term -> words by which its setting is written in a call or a parameter group
WRITTEN = {
    "rates": ("lr", "learning_rate"),
    "decay": ("weight_decay", "apply_decay_param_fun"),
    "clip": ("grad_clip",),
    "first": ("momentum", "beta1", "betas"),
    "second": ("alpha", "rho", "beta2", "betas"),
    "eps": ("eps", "epsilon"),
    "place": ("eps", "epsilon"),
    "nesterov": ("nesterov", "use_nesterov"),
    "moves": ("parameters", "params"),
    "sign": ("maximize",),
}


def setting_line(source: str | None, term: str) -> str | None:
    """The line that writes the setting, in the call at ``source`` (``file:line``); the call's own line where it does not."""
    file, _, line = (source or "").rpartition(":")
    if not line.isdecimal():
        return source
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return source
    words = (*WRITTEN.get(term, ()), *WORDS.get(term, ()))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno <= int(line) <= (n.end_lineno or n.lineno)]
    for call in sorted(calls, key=lambda c: (c.end_lineno or c.lineno) - c.lineno):
        found = [k.value.lineno for k in call.keywords if k.arg in words]
        if len(found) == 1:
            return f"{file}:{found[0]}"
    return source


def parameter_line(files: Iterable[str]) -> str | None:
    """The one line in some files where a parameter is given a rate of its own by ``ParamAttr``; None where there is none or several."""
    found = set()
    for file in files:
        if not file.endswith(".py"):
            continue
        try:
            tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).endswith("ParamAttr")
                and any(k.arg == "learning_rate" for k in node.keywords)
            ):
                found.add(f"{file}:{node.lineno}")
    return found.pop() if len(found) == 1 else None


def code_at(source: str | None) -> str | None:
    """The text of a line, without its indentation."""
    file, _, line = (source or "").rpartition(":")
    return linecache.getline(file, int(line)).strip() or None if line.isdecimal() else None
