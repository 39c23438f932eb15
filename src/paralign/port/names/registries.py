"""Strings that name a callable: entries of configurations that a registry looks up."""

from __future__ import annotations

from functools import cache

from paralign.catalogue.parameters import stored

#: keys of configurations whose value is the name of a class or function
_KEYS = frozenset(
    {
        "type",
        "name",
        "_target_",
        "class",
        "cls",
        "optimizer",
        "scheduler",
        "lr_scheduler",
        "activation",
        "act",
        "norm",
        "loss",
        "norm_layer",
        "act_layer",
    }
)

#: where a short name is looked for, first to last
_HOMES = ("torch.nn", "torch.optim", "torch.optim.lr_scheduler", "torchvision.transforms")


@cache
def dotted(text: str) -> str:
    """The callable that a string names in full, such as ``torch.nn.ReLU``.

    Empty for other strings.
    """
    root, dot, _ = text.partition(".")
    if dot and root in ("torch", "torchvision", "torchaudio") and text in stored(root):
        return text
    return ""


@cache
def by_name(key: str, text: object) -> str:
    """The callable that a configuration's entry names, such as ``type: "Conv2d"``; else ''."""
    if key not in _KEYS or not isinstance(text, str) or not text[:1].isupper() or not text.isidentifier():
        return ""
    names = (f"{home}.{text}" for home in _HOMES)
    for name in names:
        if name in stored(name.partition(".")[0]):
            return name
    return ""
