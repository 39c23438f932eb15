"""Exported programs, run by Paddle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import paddle

from paralign.adapters import _exported
from paralign.errors import UsageError

_PROGRAMS, _WEIGHTS = (".json", ".pdmodel"), ".pdiparams"


def program_file(path: str) -> str:
    """The file of a program, named by it, by its weights or by their common prefix."""
    path = path[: -len(_WEIGHTS)] if path.endswith(_WEIGHTS) else path
    file = _exported.find(path, (*_PROGRAMS, ".onnx"))
    if not file.endswith((*_PROGRAMS, ".onnx")):
        _exported.refuse(file, (*_PROGRAMS, ".onnx"))
    return file


def predictor(file: str, *, profile: bool = False) -> Any:
    """What Paddle Inference runs, on the device in use."""
    from paddle import inference

    weights = str(Path(file).with_suffix(_WEIGHTS))
    if not Path(weights).is_file():
        raise UsageError("the weights of this exported program are missing", where=weights, hint="export it again, and keep both files")
    config = inference.Config(file, weights)
    config.disable_glog_info()
    if profile:
        config.enable_profile()
    kind, _, index = paddle.get_device().partition(":")
    if kind == "gpu":
        config.enable_use_gpu(256, int(index or 0))  # MiB to start with
    else:
        config.disable_gpu()
        if hasattr(
            config, "disable_mkldnn"
        ):  # Paddle 3.3.1 switches oneDNN on by itself, whose kernels refuse interpolate's list of scales
            config.disable_mkldnn()
    try:
        return inference.create_predictor(config)
    except (RuntimeError, ValueError) as error:
        raise _exported.broken(file, "a Paddle Inference program", error) from error
