"""The stages of the migration guides, a folder each: what to record, and how to judge it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from paralign.locate.lines import equivalents

if TYPE_CHECKING:
    from paralign.context import Context
    from paralign.model import StageResult
    from paralign.registry import Stage


def run(stage: Stage, context: Context) -> StageResult:
    """Carry out a stage of ``registry.STAGES``.

    It is the ``run`` of the file of its name, or of ``stage.py`` in the folder of its name.
    """
    module = import_module(f"paralign.stages.{stage.name}")
    if hasattr(module, "__path__"):
        module = import_module(f"paralign.stages.{stage.name}.stage")
    result: StageResult = module.run(context)
    result.list_first()
    if "candidate" in context.about:
        equivalents.say(result, context.framework("candidate"))
    return result
