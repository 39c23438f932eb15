"""Mistakes of porting, planted in the source of a composed candidate: one edit each."""

from __future__ import annotations

import re

#: name -> pattern in the candidate's source, and what takes its place
EDITS = {
    "epsilon": (r"epsilon=1e-5", "epsilon=1e-6"),
    "epsilon of the formula": (r"\+ 1e-5\)", "+ 1e-4)"),
    "momentum": (r"momentum=0\.(97|9|8|7)\b(?!, weight)", "momentum=0.5"),
    "axis": (r"(softmax|mean|cumsum|sort|normalize)\((.*?)axis=1\b", r"\1(\2axis=-1"),
    "sign": (r"= (self\.\w+\(x\))$", r"= -\1"),
    "scale": (r"return (x|y)$", r"return 1.001 * \1"),
    "corners": (r"align_corners=True", "align_corners=False"),
    "other corners": (r"align_corners=False", "align_corners=True"),
    "exclusive": (r"exclusive=False", "exclusive=True"),
    "other exclusive": (r"exclusive=True", "exclusive=False"),
    "gelu": (r", approximate=True", ""),
    "slope": (r"leaky_relu\(x, 0\.2\)", "leaky_relu(x, 0.01)"),
    "bound": (r"clip\(x, -0\.9, 1\.2\)", "clip(x, -0.9, 1.1)"),
    "padding": (r"padding_mode='(reflect|replicate)'", "padding_mode='circular'"),
    "residual": (r"return x \+ kept", "return x"),
    "order": (r"normalize_before=True", "normalize_before=False"),
    "attention": (r"\) \* 0\.(\d+)$", r") * 0.9 * 0.\1"),
    "factor": (r"x = 0\.5 \* ", "x = 0.501 * "),
    "weight decay": (r"weight_decay=0\.05", "weight_decay=0.01"),
    "loss": (r"return F\.(\w+)\((.*?)\)( \+|$)", r"return 1.001 * F.\1(\2)\3"),
    "repeated": (r"repeat_interleave\(x, 2, axis=1\)", "tile([1, 2, 1])"),
    "sum": (r"x \+ 0\.5 \* paddle\.flip", "x + 0.51 * paddle.flip"),
}

#: mistakes that a forward and backward pass in eval mode cannot show
UNSEEN = {"momentum", "weight decay"}


def planted(source, rng):
    """The name of a mistake, drawn among those that the source has room for, and the source with it; None where there is none."""
    room = {}
    for name, (pattern, _) in EDITS.items():
        found = list(re.finditer(pattern, source, re.MULTILINE))
        if found:
            room[name] = found
    if not room:
        return None
    name = rng.choice(sorted(room))
    match = rng.choice(room[name])
    return name, source[: match.start()] + match.expand(EDITS[name][1]) + source[match.end() :]
