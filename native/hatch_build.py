"""Hatchling's hook: a wheel with the compiled kernels where there is a C compiler, else a pure one; both do the same."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

from build_fused import HOME, PRINTS, PRINTS_HOME, NotCompiled, compile_fingerprint, compile_kernel, name, tag  # beside this file

#: set to 0, nothing is compiled: for a wheel that runs everywhere
SWITCH = "PARALIGN_KERNEL"


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compile both; an editable installation gets them beside the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled files to the wheel, and name what it runs on; without a compiler, say so and leave all."""
        if os.environ.get(SWITCH) == "0":
            return
        self._room = tempfile.TemporaryDirectory()
        editable = version == "editable"
        try:
            built = compile_kernel(HOME if editable else Path(self._room.name))
            printing = compile_fingerprint(PRINTS_HOME if editable else Path(self._room.name))
        except NotCompiled as failure:
            self.app.display_warning(f"paralign: comparisons will use numpy alone, the kernel could not be compiled: {failure}")
            return
        if not editable:
            build_data["force_include"][str(built)] = f"paralign/comparison/{name()}"
            build_data["force_include"][str(printing)] = f"paralign/capture/{PRINTS}"
            build_data["pure_python"], build_data["tag"] = False, tag()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's signature
        """Remove the compiler's output, which is in the wheel now."""
        if hasattr(self, "_room"):
            self._room.cleanup()
