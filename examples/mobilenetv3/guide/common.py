"""What the scripts share: both models with the same weights, fake data, and the report of a comparison."""

import sys
from pathlib import Path

import numpy as np
import paddle
import torch

PROJECT = Path(__file__).resolve().parents[1]
RESULT = Path(__file__).resolve().parent / "result"  # beside the result/ of paralign check
sys.path[:0] = [str(PROJECT / "reference"), str(PROJECT / "candidate")]

from mobilenetv3.model import MobileNetV3Small  # noqa: E402 - found by the line above
from mobilenetv3_paddle.model import MobileNetV3  # noqa: E402

from paralign.compat.reprod_log import ReprodDiffHelper, ReprodLogger  # noqa: E402

__all__ = ["PROJECT", "build_paddle", "build_torch", "compare", "fake_data", "log_of"]


def build_torch():
    model = MobileNetV3Small()
    model.load_state_dict(torch.load(PROJECT / "mobilenet_v3_small.pth", weights_only=True))
    return model


def build_paddle():
    model = MobileNetV3()
    model.set_state_dict(paddle.load(str(PROJECT / "mobilenet_v3_small.pdparams")))
    return model


def fake_data():
    """The image and the label that prepare.py made."""
    return np.load(PROJECT / "data" / "fake_data.npy"), np.load(PROJECT / "data" / "fake_label.npy")


def log_of(values):
    """A log with arrays, tensors of either framework, or numbers."""
    logger = ReprodLogger()
    for name, value in values.items():
        array = value.detach().numpy() if hasattr(value, "detach") else value
        logger.add(name, np.array(array))
    return logger


def compare(name, reference, candidate, threshold=1e-6):
    """Save both logs, compare them, write ``guide/result/log/NAME_diff.log``; whether all passed."""
    (RESULT / "log").mkdir(parents=True, exist_ok=True)
    paths = [str(RESULT / f"{name}_{side}.npy") for side in ("ref", "paddle")]
    helper = ReprodDiffHelper()
    for logger, path in zip((reference, candidate), paths, strict=True):
        logger.save(path)
    helper.compare_info(*map(helper.load_info, paths))
    path = RESULT / "log" / f"{name}_diff.log"
    helper.report(path=str(path), diff_threshold=threshold)
    return path.read_text().rstrip().endswith("diff check passed")
