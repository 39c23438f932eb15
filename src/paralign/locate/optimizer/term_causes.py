"""Differences between update rules in words: what, on which parameters, what to set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paralign.locate.optimizer.read_config import GIVEN_AS, WORDS, framework
from paralign.model import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from paralign.locate.optimizer.identify import Difference
    from paralign.locate.optimizer.update_rules import Terms, Trace

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
    "single": "betas that the kernel is given in float32",
}

PLACES = {
    "outside": "outside the root",
    "inside": "inside the root",
    "hat": "added before bias correction (epsilon-hat)",
    "twice": "added to the variance too",
}
#: how weights are decayed, with the number
STYLES = {
    "coupled": "{}, added to the gradient (L2)",
    "l1": "{}, L1",
    "decoupled": "{}, decoupled, before the update",
    "after": "{}, decoupled, after the update",
    "unscaled": "{}, decoupled, not times the learning rate",
}
CLIPPED = {
    "global": "of the norm of all gradients together to {}",
    "group": "of each group's norm to {}",
    "tensor": "of each parameter's norm to {}",
    "value": "of each element to {}",
}
#: the same where the optimizer clips after it has added weight decay
CLIPPED_LATE = {
    "global": "of the norm of all gradients together to {} after weight decay",
    "group": "of each group's norm to {} after weight decay",
    "tensor": "of each parameter's norm to {} after weight decay",
    "value": "of each element to {} after weight decay",
}

#: the rates of both sides, of as many steps
Rates = tuple[tuple[float, ...], tuple[float, ...]]

#: the rates that differ, and those of both sides' whole schedules where they were followed
Known = tuple[Rates, "Rates | None"]

#: what the optimizers of both sides say of themselves
Abouts = tuple["Mapping[str, Any]", "Mapping[str, Any]"]

#: epsilons above this are part of the rule: then their place is a fault, although no setting mends it
CHOSEN = 1e-6

#: families in which the two frameworks are known to have epsilon at different places (Paddle's issues 36712 and 36746)
NEVER_EQUAL = ("adamax", "adadelta", "rmsprop")

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


ADAMAX = {"outside": "added to |gradient|", "inside": "added to the old maximum", "hat": "added to the quotient's denominator"}
CORRECTED = {"both": "of both means", "none": "none", "first": "of the first mean only", "second": "of the second mean only"}


def _listed(values: tuple[float, ...]) -> str:
    if len(set(values)) == 1:
        return number(values[0])
    return ", ".join(number(v) for v in values)


#: term -> one side's values of a difference, in words
SAID: dict[str, Callable[[tuple[Any, ...]], str]] = {
    "decay": lambda v: STYLES[v[1]].format(number(v[0])) if v[0] else "none",
    "clip": lambda v: (CLIPPED_LATE if v[3] else CLIPPED)[v[0]].format(number(v[1])) if v[0] else "none",
    "whole": lambda v: f"times {_listed(v[0])}" if v[0] else "as the rule has it",
    "rates": lambda v: _listed(v[0]),
    "place": lambda v: PLACES[v[0]],
    "corrected": lambda v: CORRECTED[v[0]],
    "sign": lambda v: "descent" if v[0] > 0 else "ascent",
    "scaled": lambda v: "before the velocity" if v[0] else "after the velocity",
}


def told(term: str, values: tuple[Any, ...], terms: Terms) -> str:
    """One side's value of a difference."""
    if term == "place" and terms.family == "adamax":
        return ADAMAX[values[0]]
    if term in SAID:
        return SAID[term](values)
    value = values[0]
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
        return bool(abs(first[0] - second[0]) <= STORED * abs(first[0]))
    if term == "single":
        return True
    if term == "scaled":
        return terms.family == "rmsprop"
    return term == "place" and terms.family in NEVER_EQUAL and terms.eps <= CHOSEN


def finding(
    difference: Difference,
    abouts: tuple[Mapping[str, Any], Mapping[str, Any]],
    traces: Mapping[str, Trace],
    terms: Terms,
    followed: Rates | None = None,
    *,
    proven: bool,
) -> Finding:
    """A difference as a finding; proven where recomputing with it gives the steps.

    Args:
        difference: in the rules of both sides.
        abouts: what both optimizers say of themselves.
        traces: the steps of each parameter.
        terms: of the candidate's rule.
        followed: the rates of both sides' whole schedules: what is said of a schedule has to hold in all of it.
        proven: whether recomputing was done.
    """
    term = difference.terms[0]
    rates = _rates(difference, followed) if term == "rates" else ((), ())
    named = CALLED.get(term, term) if term != "first" or terms.family in ("sgd", "rmsprop") else "beta 1"
    if term == "rates" and (described := _schedule(*rates, where(difference.parameters, traces))):
        cause = described
    elif term == "moves":
        cause = _unmoved(difference, abouts, traces)
    else:
        sides = (told(term, values, terms) for values in (difference.reference, difference.candidate))
        first, second = sides
        cause = f"{named}: {first} in the reference, {second} in the candidate, on {where(difference.parameters, traces)}"
    rule = f"update/{term}"
    if inherent(difference, abouts, terms):
        rule, cause = "update/inherent", f"inherent: {cause}"
    return Finding(rule, cause, _fix(difference, abouts, terms, (rates, followed)), proven, difference.before, difference.after)


def _rates(difference: Difference, followed: Rates | None) -> Rates:
    """The rates of whole schedules where they begin with those of the updates, else these.

    A rate of a parameter's own, or what an optimizer does beside what it tells, is in the updates alone.
    """
    made = difference.reference[0], difference.candidate[0]
    if followed is None:
        return made
    for whole, begun in zip(followed, made, strict=True):
        beginning = whole[: len(begun)]
        if len(beginning) < len(begun) or any(abs(a - b) > STORED * abs(a) for a, b in zip(beginning, begun, strict=True)):
            return made
    return followed


def _schedule(first: tuple[float, ...], second: tuple[float, ...], names: str) -> str:
    """What is wrong with a schedule, and of which parameters.

    '' where it is none of the usual things.
    """
    least = STORED**2 * max(map(abs, first), default=0.0)
    ratios = [b / a for a, b in zip(first, second, strict=True) if abs(a) > least]
    if not ratios:
        return ""
    if max(ratios) - min(ratios) <= STORED * abs(ratios[0]):
        due, own, ratio = number(first[0]), number(second[0]), number(ratios[0])
        return f"learning rate: {due} in the reference, {own} in the candidate, {ratio} times the reference's, on {names}"
    return SHIFTED[shift][0].format(names) if (shift := _shift(first, second)) else ""


#: steps that a candidate's schedule runs ahead of the reference's -> the cause, and what to change
SHIFTED = {
    1: (
        "learning rate: the candidate's schedule is one step ahead, on {}",
        "step the schedule once less before the first update: after each update as in the reference, counted from the same number",
    ),
    -1: (
        "learning rate: the candidate's schedule is one step behind, on {}",
        "step the schedule once more before the first update, or count its steps from one more: the reference's is a step further",
    ),
}


def _shift(first: tuple[float, ...], second: tuple[float, ...]) -> int:
    """Count the steps by which the candidate's rates run ahead; 0 where that is not the fault."""
    if len(first) <= 2:  # noqa: PLR2004 - one or two rates would fit by chance
        return 0
    least = STORED**2 * max(map(abs, first))  # a schedule may fall until only rounding is left of it

    def alike(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return all(abs(a - b) <= STORED * abs(a) + least for a, b in zip(one, other, strict=False))

    if alike(first[1:], second):
        return 1
    return -1 if alike(first, second[1:]) else 0


def _stands_still(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    """Whether the reference's rate changes and the candidate's never does."""
    if len(first) <= 2 or not first[0]:  # noqa: PLR2004 - as above
        return False
    moved, still = (max(rates) - min(rates) > STORED * max(map(abs, rates)) for rates in (first, second))
    return moved and not still


#: framework -> what to change where the candidate's rate never changes and the reference's does
_UNSCHEDULED = {
    "paddle": "give the schedule to the optimizer (learning_rate=schedule) and step it: one that is built beside it moves no rate",
    "": "build the schedule on this optimizer and step it as in the reference: its rate never changes",
}


def _unmoved(difference: Difference, abouts: tuple[Mapping[str, Any], Mapping[str, Any]], traces: Mapping[str, Trace]) -> str:
    side = 1 if difference.reference[0] else 0
    who = ("reference", "candidate")[side]
    what = where(difference.parameters, traces)
    known = abouts[side].get("mapped", {})
    absent = all(name not in known for name in difference.parameters)
    return f"{what}: not updated in the {who}" + (", whose optimizer was not given them" if absent else "")


def _fix(difference: Difference, abouts: Abouts, terms: Terms, rates: Known) -> str:
    """What to change in the candidate."""
    term, wanted, about = difference.terms[0], difference.reference, abouts[1]
    if inherent(difference, abouts, terms) or (term == "place" and not about["own"]):
        return f"no setting of {about['class']} changes this: write the update by hand where it matters"
    special = _special(difference, abouts, terms, rates)
    if special:
        return special
    word = next((w for w in WORDS.get(term, ()) if w in about["settings"] or any(w in g for g in about["groups"])), None)
    if word is None and term != "rates":
        return f"{about['class']} has no setting for it: write this part by hand, as in the reference: {told(term, wanted, terms)}"
    word = GIVEN_AS.get(word, word) if word is not None else None
    return f"set {word or 'learning_rate'} as in the reference: {told(term, wanted, terms)}"


#: what to do where one optimizer clips and the other does not, which may well clip in the training loop
CLIPPED_ELSEWHERE = (
    "clip alike; where one side clips in its training loop and the other in its optimizer, "
    "give both sides train_step(model, optimizer, batch): what it comes to is judged then"
)

#: the same where Paddle's optimizer clips and has several parameter groups: a loop that clips all of them together is another rule
_CLIPPED_BY_GROUP = (
    "clip alike: Paddle's optimizers clip each parameter group by its own norm, clip_grad_norm_ in a PyTorch loop all parameters by "
    "one norm. Leave grad_clip out and call paddle.nn.utils.clip_grad_norm_ before step(), with train_step(model, optimizer, batch) "
    "on both sides, which the stage backward judges"
)


def _special(difference: Difference, abouts: Abouts, terms: Terms, rates: Known) -> str:
    """What to change where it is more than the value of a setting; '' where it is not."""
    term, about = difference.terms[0], abouts[1]
    if term == "moves":
        return "give these parameters to the optimizer" if difference.reference[0] else "leave these parameters out of the optimizer"
    if term == "clip":
        return _special_clipping(difference, about, terms)
    if term == "whole":
        return "look for a clipping of the update where the reference clips the gradient, or for a second schedule"
    shift = _shift(*rates[0])
    return SHIFTED[shift][1] if shift else _special_value(difference, abouts, terms, rates)


def _is_paddles(about: Mapping[str, Any]) -> bool:
    """Whether an optimizer is Paddle's, whose groups and rates have rules of their own."""
    return framework(about) == "paddle"


def _special_value(difference: Difference, abouts: Abouts, terms: Terms, rates: Known) -> str:
    """As :func:`_special`, of terms that have a value, where no schedule is shifted."""
    term, about = difference.terms[0], abouts[1]
    if term == "rates":
        return _special_rates(difference, about, rates)
    if term == "first" and _is_paddles(about) and about["class"] == "SGD" and not difference.candidate[0]:
        return "paddle.optimizer.Momentum: Paddle's SGD has no momentum"
    if term == "decay":
        return _special_decay(difference, terms)
    return f"use the reference's: {abouts[0]['class']}" if term == "family" else ""


def _special_clipping(difference: Difference, about: Mapping[str, Any], terms: Terms) -> str:
    """How to clip as the reference does."""
    wanted, given = difference.reference, difference.candidate
    if (wanted[0], given[0]) == ("global", "group"):
        return "clip all gradients together before the update: Paddle's optimizers clip each parameter group by itself"
    if given[0] == "group" and not wanted[0] and _is_paddles(about) and len(about["groups"]) > 1:
        return _CLIPPED_BY_GROUP
    if bool(wanted[0]) != bool(given[0]):
        return CLIPPED_ELSEWHERE
    return f"clip as the reference does: {told('clip', wanted, terms)}"


def _special_rates(difference: Difference, about: Mapping[str, Any], known: Known) -> str:
    """What to change of rates where no schedule is shifted; '' where their values are wrong."""
    rates, followed = known
    if _stands_still(*rates):
        return _UNSCHEDULED["paddle" if _is_paddles(about) else ""]
    own = about.get("mapped", about["parameters"])
    factors = {float(own[name].get("rate", 1.0)) for name in difference.parameters if name in own}
    ratio = _ratio(*rates)
    if len(factors) != 1 or factors == {1.0} or not ratio:
        return ""
    factor = factors.pop()
    wanted = number(factor / ratio)
    # a factor that is a rate by its value, as PyTorch's groups have it, or by which the base rate was multiplied once more
    if any(_alike(own, rate) for own in (factor, ratio) for whole in (rates[0], *(followed or ())) for rate in whole):
        return f"a rate in ParamAttr or in a parameter group is a factor in Paddle: set the ratio that is wanted, {wanted}"
    return f"these parameters have the factor {number(factor)} of ParamAttr or their parameter group: {wanted} gives the reference's rate"


def _ratio(first: tuple[float, ...], second: tuple[float, ...]) -> float:
    """The one factor between both sides' rates; 0 where there is none."""
    ratios = [b / a for a, b in zip(first, second, strict=True) if a]
    return ratios[0] if ratios and ratios[0] and max(ratios) - min(ratios) <= STORED * abs(ratios[0]) else 0.0


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= STORED * abs(one)


def _special_decay(difference: Difference, terms: Terms) -> str:
    """What to change where both sides decay weights, each in another way; '' otherwise."""
    wanted, given = difference.reference, difference.candidate
    if not wanted[0] or not given[0] or wanted[-1] == given[-1]:
        return ""
    due = f"weight decay as in the reference: {told('decay', wanted, terms)}"
    return f"{due} (AdamW)" if wanted[-1] == "decoupled" else due
