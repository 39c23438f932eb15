"""What the form of a call tells: what it is given, and what its object is called."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.catalogue.parameters import stored
from paralign.port.names.ownership import hinted_owner
from paralign.port.names.values import Certainty, Form, Use
from paralign.port.plans.conversions import conversions, signature_of

if TYPE_CHECKING:
    from paralign.port.plans.call_plan import Plan

#: functions that write what an argument asks for around a call
AROUND = {"requires_grad": "_asking(", "dtype": "_of_type(", "out": "_into("}


def call_operands(node: ast.Call, made: Plan) -> list[ast.expr]:
    """What a call is given, with the object whose method it is."""
    given = [each for each in made.bound.given.values() if hasattr(each, "lineno")]
    return [node.func.value, *given] if "{self}" in made.template and isinstance(node.func, ast.Attribute) else given


def says_nothing(keyword: ast.keyword, name: str) -> bool:
    """Whether an argument chooses nothing of the result.

    That is no generator, or what PyTorch's stored signature leaves out.
    """
    if keyword.arg == "generator":
        return isinstance(keyword.value, ast.Constant) and keyword.value.value is None
    signature = signature_of(name)
    if keyword.arg not in conversions().dropped - {"device"}:
        return False
    return signature.known and signature.parameter(keyword.arg) is None


def is_known(name: str) -> bool:
    """Whether PyTorch has a method; of those with a rule that is not asked."""
    return name in stored("torch") or name in conversions().calls


def given_out(use: Use) -> ast.expr | None:
    """What a function of PyTorch is asked to write its result into."""
    if use.form is not Form.CALL or not use.name.startswith("torch.") or use.name.rpartition(".")[2][:1].isupper():
        return None
    given = next((each.value for each in use.keywords if each.arg == "out"), None)
    return None if isinstance(given, ast.Constant) else given


def written_around(use: Use) -> list[str]:
    """Arguments of a call that are written around it: Paddle's has none of them."""
    found = []
    for each in use.keywords:
        of_layer = each.arg == "dtype" and is_layer(use.name)
        of_tensor = each.arg == "requires_grad" and use.name in conversions().learned
        if (of_layer or of_tensor) and use.form in (Form.CALL, Form.METHOD) and each.arg is not None:
            found.append(each.arg)
    return found


def dtype_by_name(use: Use) -> Use:
    """A call of a layer with its ``dtype``, and what follows it, given by name."""
    names = signature_of(use.name).names if use.form is Form.CALL and is_layer(use.name) else []
    at = names.index("dtype") if "dtype" in names else len(use.positional)
    late = use.positional[at:]
    if not late or len(use.positional) > len(names) or any(isinstance(each, ast.Starred) for each in use.positional):
        return use
    named = [ast.keyword(name, value) for name, value in zip(names[at:], late, strict=False)]
    return replace(use, positional=use.positional[:at], keywords=[*named, *use.keywords])


def is_layer(name: str) -> bool:
    """Whether a callable is a class of torch.nn."""
    return name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper()


def hinted(node: ast.Call, use: Use) -> Use:
    """A guessed method of a class that the object's name speaks for.

    ``optimizer.zero_grad()`` is not a layer's.
    """
    owner = hinted_owner(node.func.value, node.func.attr) if isinstance(node.func, ast.Attribute) else None
    if use.certainty is Certainty.GUESSED and use.form is Form.METHOD and owner is not None:
        return replace(use, name=f"{owner}.{use.name.rpartition('.')[2]}")
    return use


def root_name(node: ast.expr) -> str:
    """The name that an attribute, a part or a method's result belongs to; '' where it is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
