"""Examine this interpreter for ``paralign doctor``.

What is installed, how it is set, and whether its kernels compute what numpy does.

The request is a JSON file: ``framework`` ("" for every one that is installed), ``device``, ``root``. The answer is a file of JSON lines
``[key, value]``, written as they become known: what crashes or hangs leaves the name of its step. The side's own module is not run.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import re
import sys
from typing import Any, Callable, Dict, List

from paralign.errors import ParalignError

Say = Callable[[str, Any], None]

#: environment variables that change results or their order of summation
VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "PYTHONHASHSEED",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "FLAGS_cudnn_deterministic",
)

#: where Linux says which NVIDIA driver is loaded
DRIVER = "/proc/driver/nvidia/version"

CHECKS = ("matmul", "convolution", "backward")
COLLECTIVE = "collective"


def main(request: str, answer: str) -> None:
    """Examine as the file ``request`` says, and write what is found to the file ``answer``."""
    with open(request, encoding="utf-8") as file:
        wanted = json.load(file)
    with open(answer, "a", encoding="utf-8") as out:

        def say(key: str, value: Any) -> None:
            out.write(json.dumps([key, value]) + "\n")
            out.flush()

        examine(wanted, say)
        say("end", True)


def examine(wanted: Dict[str, Any], say: Say) -> None:
    """Say all there is to say about this interpreter."""
    if wanted["root"] and wanted["root"] not in sys.path:
        sys.path.insert(0, wanted["root"])  # what lies there comes before what is installed, in a check as well
    say("python", platform.python_version())
    say("driver", _driver())
    say("environment", {name: os.environ[name] for name in VARIABLES if name in os.environ})
    say("step", "while importing numpy")
    try:
        import numpy as np
    except Exception as error:  # noqa: BLE001 - a broken installation raises anything
        say("numpy", {"failure": _told(error)})
        return
    say("numpy", {"version": np.__version__})
    for name in [wanted["framework"]] if wanted["framework"] else _installed():
        _framework(name, wanted["device"], say)
    say("step", "while importing Pillow")
    say("images", {"Pillow": _pillow()})
    say("step", "while importing OpenCV")
    say("images", {"OpenCV": _opencv()})


def _installed() -> List[str]:
    from paralign.adapters.finding import frameworks

    names = []
    for name in frameworks():
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):  # half an installation
            found = None
        if found is not None and found.origin is not None:  # a folder of that name without code is no installation
            names.append(name)
    return names


def _driver() -> str:
    try:
        with open(DRIVER, encoding="utf-8", errors="replace") as file:
            found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", file.readline())
    except OSError:
        return ""
    return found.group(1) if found else ""


def _told(error: BaseException) -> str:
    try:
        text = str(error.what if isinstance(error, ParalignError) else error)
    except Exception:  # noqa: BLE001 - whatever the __str__ of a foreign class raises
        text = "(its message cannot be read)"
    return text if isinstance(error, ParalignError) else f"{type(error).__name__}: {text}"


def _failed(error: BaseException) -> Dict[str, str]:
    return {"failure": _told(error), "hint": getattr(error, "hint", None) or "" if isinstance(error, ParalignError) else ""}


def _framework(name: str, device: str, say: Say) -> None:
    """Import a framework, say how it is built and set, and have it compute."""
    from paralign.adapters.base import Diagnosing, Joining
    from paralign.adapters.finding import load

    say("step", f"while importing {name}")
    facts: Dict[str, Any] = {"name": name}
    try:
        adapter = load(name)
        facts["versions"], facts["devices"] = adapter.versions(), adapter.devices()
        say("step", f"while putting {name} on {device}")
        adapter.use_device(device)
        facts["flags"] = {key: str(value) for key, value in adapter.flags().items()}
        if isinstance(adapter, Diagnosing):
            facts.update(adapter.diagnose())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a framework that is broken raises anything on import; that is the finding
        say("framework", dict(facts, **_failed(error)))
        return
    say("framework", facts)
    if isinstance(adapter, Diagnosing):
        for check in CHECKS:
            say("step", f"in the {check} of {name}")
            say("check", _rehearsed(adapter, check))
    if isinstance(adapter, Joining) and device != "cpu" and "nccl" in facts.get("collectives", {}):
        say("step", f"in a collective of {name}")
        say("check", _rehearsed(adapter, COLLECTIVE))


def _rehearsed(adapter: Any, check: str) -> Dict[str, Any]:
    """How far a small computation is from numpy's in float64, in units of its greatest value."""
    import numpy as np

    draws = np.random.RandomState(0)
    shapes = ((2, 8, 16, 16), (8, 8, 3, 3)) if check == "convolution" else ((64, 64), (64, 64))
    first, second = (draws.standard_normal(shape).astype(np.float32) for shape in shapes)
    right = _expected(check, first.astype(np.float64), second.astype(np.float64))
    try:
        result = np.asarray(adapter.joined_sum(first) if check == COLLECTIVE else adapter.rehearse(check, first, second))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        return {"name": check, "failure": _told(error)}
    if result.shape != right.shape:
        return {"name": check, "failure": f"the result has the shape {result.shape} instead of {right.shape}"}
    distance = float(np.abs(result - right).max() / np.abs(right).max())
    return {"name": check, "error": distance} if np.isfinite(distance) else {"name": check, "failure": "the result is not finite"}


def _expected(check: str, first: Any, second: Any) -> Any:
    import numpy as np

    if check == COLLECTIVE:
        return first
    if check == "matmul":
        return first @ second
    if check == "backward":
        return 2 * (first @ second) @ second.T
    height, width = first.shape[2:]
    padded = np.pad(first, ((0, 0), (0, 0), (1, 1), (1, 1)))
    parts = [
        np.einsum("nchw,oc->nohw", padded[:, :, row : row + height, column : column + width], second[:, :, row, column])
        for row in range(3)
        for column in range(3)
    ]
    return np.sum(parts, axis=0)


def _pillow() -> Dict[str, str]:
    try:
        pillow = importlib.import_module("PIL")
        features = importlib.import_module("PIL.features")
        turbo = features.version("libjpeg_turbo") if features.check("libjpeg_turbo") else None
        jpeg = f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version('jpg') or 'absent'}"
        return {"version": str(pillow.__version__), "jpeg": jpeg}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        return _unimported("PIL", error)


def _opencv() -> Dict[str, str]:
    try:
        opencv = importlib.import_module("cv2")
        line = re.search(r"^\s*JPEG:\s*(.+?)\s*$", opencv.getBuildInformation(), re.MULTILINE)
        return {"version": str(opencv.__version__), "jpeg": line.group(1) if line else "unknown"}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        return _unimported("cv2", error)


def _unimported(module: str, error: BaseException) -> Dict[str, str]:
    """Nothing where a library is not installed; where it is and does not work, why."""
    absent = isinstance(error, ModuleNotFoundError) and error.name == module
    return {} if absent else {"failure": _told(error)}
