"""From what an optimizer tells of itself to the terms of its rule, parameter by parameter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.locate.optimizer.update_rules import SLACK, Terms

if TYPE_CHECKING:
    from collections.abc import Mapping

#: names of optimizers, longest first, as they occur in the names of classes -> family
FAMILIES = {
    "adabelief": "adabelief",
    "adadelta": "adadelta",
    "adagrad": "adagrad",
    "momentum": "sgd",
    "rmsprop": "rmsprop",
    "adamax": "adamax",
    "nadam": "nadam",
    "radam": "radam",
    "adam": "adam",
    "lion": "lion",
    "sgd": "sgd",
}

#: term -> the settings that may tell it, in the words of the frameworks
WORDS = {
    "decay": ("weight_decay", "regularization_coeff", "wd", "coeff"),
    "first": ("momentum", "beta1", "betas"),
    "second": ("alpha", "rho", "beta2", "betas"),
    "dampening": ("dampening",),
    "nesterov": ("nesterov", "use_nesterov"),
    "eps": ("eps", "epsilon"),
    "amsgrad": ("amsgrad",),
    "centered": ("centered",),
    "drift": ("momentum_decay",),
    "fading": ("lr_decay",),
    "start": ("initial_accumulator_value",),
    "sign": ("maximize",),
}

#: names under which optimizers keep a setting -> what their constructors call it
GIVEN_AS = {"regularization_coeff": "weight_decay"}

#: the clipping objects of Paddle -> what is clipped, and the setting that tells to what
CLIPS = {"ClipGradByGlobalNorm": ("global", "clip_norm"), "ClipGradByNorm": ("tensor", "clip_norm"), "ClipGradByValue": ("value", "max")}

#: families whose betas Paddle's kernels are given in float32, also where all else is float64
SINGLE = ("rmsprop", "adadelta", "adamax", "nadam", "radam")

#: settings from here up to one may be betas; what storing them may change at most
LEAST_BETA, MOST_STORED = 0.5, 1e-4

#: families whose weights shrink by themselves
DECOUPLED = ("adamw", "lion", "sgdw", "nadamw")


def family(about: Mapping[str, Any]) -> str | None:
    """The family of an optimizer, by its framework's class, else by its own name.

    None for one of no known family.
    """
    for name in (str(about["kind"]), str(about["class"])):
        found = next((kind for word, kind in FAMILIES.items() if word in name.lower()), None)
        if found:
            return found
    return None


def framework(about: Mapping[str, Any]) -> str:
    """The framework that an optimizer derives from; '' where from none."""
    return str(about["framework"])


def told(about: Mapping[str, Any], rates: list[list[float]], base: Terms | None = None) -> dict[str, Terms]:
    """Parameter (by the side's own name) -> terms, as far as the optimizer tells them.

    Args:
        about: what the worker recorded of the optimizer.
        rates: the learning rates of every step, one a group.
        base: terms that count where the optimizer tells nothing.
    """
    kind = family(about) or (base.family if base is not None else None)
    if kind is None:
        return {}
    start = base if base is not None and base.family == kind else Terms(kind, ())
    if base is None or base.family != kind:
        start = _dialect(start, about)
    return {name: _terms(start, about, own, rates) for name, own in about["parameters"].items()}


def _dialect(terms: Terms, about: Mapping[str, Any]) -> Terms:
    """How the framework of an optimizer writes its rule."""
    paddle = framework(about) == "paddle"
    name = str(about["kind"] or about["class"]).lower()
    style = "decoupled" if any(word in name for word in DECOUPLED) else "coupled"
    place = "inside" if terms.family == "adadelta" or (paddle and terms.family in ("rmsprop", "adamax")) else "outside"
    single = paddle and not about["own"] and terms.family in SINGLE
    return replace(terms, style=style, place=place, scaled=paddle and terms.family == "rmsprop", single=single)


def _terms(start: Terms, about: Mapping[str, Any], own: Mapping[str, Any], rates: list[list[float]]) -> Terms:
    group = about["groups"][own["group"]] if own["group"] < len(about["groups"]) else {}
    settings = {**about["settings"], **{k: v for k, v in group.items() if v is not None}}
    found: dict[str, Any] = {"group": own["group"]}
    for term in WORDS:
        value = setting(term, settings, start.family)
        if value is not None:
            found[term] = value
    if settings.get("decoupled_weight_decay") is True:
        found["style"] = "decoupled"
    found.update(_decay(about, settings, own, found))
    found.update(_clip(about, group, own))
    factor = own.get("rate", 1.0) / (group.get("learning_rate") or 1.0) if "rate" in own else 1.0
    found["rates"] = tuple(step[min(own["group"], len(step) - 1)] * factor for step in rates) if rates and rates[0] else start.rates
    return replace(start, **found)


def tells(about: Mapping[str, Any], group: int, term: str) -> bool:
    """Whether an optimizer, or one of its groups, has a setting that tells a term."""
    of_group = about["groups"][group] if group < len(about["groups"]) else {}
    return any(word in of_group or word in about["settings"] for word in WORDS[term])


def stored_near_one(about: Mapping[str, Any]) -> float:
    """By how much storing betas in float32 changes what one has left of them, relatively.

    Kernels of a framework are given them so; of known rules that is part of the rule, and of the user's own nothing is stored.
    """
    if about["own"] or family(about) is not None:
        return 0.0
    told: list[Any] = []
    for settings in (about["settings"], *about["groups"]):
        for value in settings.values():
            told += value if isinstance(value, (list, tuple)) else [value]
    near = [value for value in told if isinstance(value, float) and LEAST_BETA <= value < 1.0]
    return min(MOST_STORED, max((abs(float(np.float32(value)) - value) / (1.0 - value) for value in near), default=0.0))


def setting(term: str, settings: Mapping[str, Any], kind: str) -> Any:
    """The value of a term among the settings of an optimizer; None where it does not tell."""
    if term == "sign":
        return None if "maximize" not in settings else (-1.0 if settings["maximize"] else 1.0)
    for word in WORDS[term]:
        value = settings.get(word)
        if word == "momentum" and kind not in ("sgd", "rmsprop"):
            continue
        if word == "alpha" and kind != "rmsprop":
            continue
        if word == "betas" and isinstance(value, list) and len(value) > 1:
            return float(value[0 if term == "first" else 1])
        if isinstance(value, bool) and term in ("nesterov", "amsgrad", "centered"):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and term not in ("nesterov", "amsgrad", "centered"):
            return float(value)
    return None


def _decay(about: Mapping[str, Any], settings: Mapping[str, Any], own: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The decay by Paddle's regularizers, a parameter's own before the optimizer's.

    A function may exempt parameters.
    """
    if own.get("decayed") is False:
        return {"decay": 0.0}
    if str(settings.get("type")) == "adamw" or found.get("style") == "decoupled":
        return {}
    chosen = own if "decay" in own else about["regularization"]
    if "decay" in chosen:
        return {"decay": chosen["decay"], **({"style": "l1"} if chosen.get("l1") else {})}
    return {}


def clipping(about: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The terms of the clipping that an optimizer carries for a parameter; empty without one."""
    own = about["parameters"][name]
    group = about["groups"][own["group"]] if own["group"] < len(about["groups"]) else {}
    return _clip(about, group, own)


def _clip(about: Mapping[str, Any], group: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The clipping that Paddle's optimizers carry.

    With parameter groups it is done group by group.
    """
    carried = group if "clip" in group else about["clip"]
    kind, word = CLIPS.get(str(carried.get("clip")), ("", ""))
    if not kind or own.get("clipped") is False:
        return {}
    kind = "group" if kind == "global" and len(about["groups"]) > 1 else kind
    return {"clip": kind, "threshold": float(carried.get(word) or 0.0), "slack": 0.0}


def standard_clip(kind: str, threshold: float, *, slack: bool) -> dict[str, Any]:
    """Terms of a clipping; ``slack`` as PyTorch's functions have it."""
    return {"clip": kind, "threshold": threshold, "slack": SLACK if slack else 0.0}
