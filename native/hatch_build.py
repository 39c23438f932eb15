"""Hatchling's hook: a wheel with the compiled kernel where there is a C compiler, else a pure one; both do the same."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

from build_fused import HOME, NotCompiled, compile_kernel, name, tag  # beside this file

#: set to 0, nothing is compiled: for a wheel that runs everywhere
SWITCH = "PARALIGN_KERNEL"


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compile ``fused.c``; an editable installation gets it beside the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled file to the wheel, and name what it runs on; without a compiler, say so and leave both."""
        if os.environ.get(SWITCH) == "0":
            return
        self._room = tempfile.TemporaryDirectory()
        editable = version == "editable"
        try:
            built = compile_kernel(HOME if editable else Path(self._room.name))
        except NotCompiled as failure:
            self.app.display_warning(f"paralign: comparisons will use numpy alone, the kernel could not be compiled: {failure}")
            return
        if not editable:
            build_data["force_include"][str(built)] = f"paralign/comparison/{name()}"
            build_data["pure_python"], build_data["tag"] = False, tag()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's signature
        """Remove the compiler's output, which is in the wheel now."""
        if hasattr(self, "_room"):
            self._room.cleanup()
