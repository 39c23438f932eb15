"""Exported programs, run by PyTorch."""

from __future__ import annotations

import warnings
import zipfile
from typing import Any

import torch

from paralign.adapters import _exported

SUFFIXES = (".pt2", ".pt", ".pth", ".onnx")


def loaded(file: str, device: Any) -> Any:
    """The program of a file of torch.export or TorchScript, to be called."""
    if file.endswith(".pt2"):
        try:
            return torch.export.load(file).module().to(device)
        except (RuntimeError, ValueError, OSError, zipfile.BadZipFile) as error:
            raise _exported.broken(file, "a program of torch.export", error) from error
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"`torch\.jit\.load` is deprecated", category=DeprecationWarning)
            return torch.jit.load(file, map_location=device)
    except (RuntimeError, ValueError, OSError) as error:
        raise _exported.broken(file, "TorchScript", error) from error
