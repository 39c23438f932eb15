"""Defaults that differ by the signatures of two callables, which nobody executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from paralign.catalogue.naming import names, paddle_argument
from paralign.catalogue.parameters import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paralign.catalogue.parameters import Parameter, Signature


class Differing(NamedTuple):
    """A parameter of PyTorch's callable and of Paddle's, whose defaults are not the same."""

    torch: Parameter
    paddle: Parameter


def differing_defaults(torch: Signature, paddle: Signature) -> Iterator[Differing]:
    """The parameters that both have, with literal defaults of one type that differ."""
    for each in torch.parameters:
        target = paddle_argument(each.name, {}, paddle)
        parameter = None if target is None else paddle.parameter(target)
        if parameter is None or each.name in names().ignored:
            continue
        try:
            due, own = literal(each.default), literal(parameter.default)
        except ValueError:
            continue
        if due is not None and type(due) is type(own) and due != own:
            yield Differing(each, parameter)
