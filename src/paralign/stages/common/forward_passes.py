"""Both sides' forward passes in eval mode, as the stages take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.worker.protocol import Forward
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from paralign.capture import Capture
    from paralign.context import Context


def forward_order(context: Context) -> Forward:
    """What is asked of each side."""
    return Forward([DOUBLE, NATIVE], context.settings.modules, repeat=True, draws=1 + len(context.settings.draws))


def record(context: Context) -> tuple[Capture, Capture]:
    """Both sides' forward captures.

    Where the reference has no float64 run, with its perturbed runs.
    """
    if context.inputs is None:
        raise AssertionError("forward needs inputs")
    return context.record_runs(forward_order(context), {"inputs": context.inputs})


def reference_alone(context: Context) -> Capture:
    """The reference's forward capture, whatever becomes of the candidate's."""
    if context.inputs is None:
        raise AssertionError("forward needs inputs")
    return context.reference.record("forward", forward_order(context), {"inputs": context.inputs})
