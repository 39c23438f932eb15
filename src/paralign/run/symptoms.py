"""What is wrong with one side's interpreter, each with its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from paralign.adapters.finding import OLDEST
from paralign.adapters.profile import profile_of
from paralign.run.examination import LEAST_PYTHON, Check, Examination, Framework, Trouble, version
from paralign.worker.interpreter.diagnosis import COLLECTIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

#: the least numpy, major and minor: the first whose ``array_equal`` takes ``equal_nan`` (`make lowest` runs the tests with it)
LEAST_NUMPY = (1, 19)

#: greatest error of the small computations, relative to their greatest value, in float32: measured are 4e-7 on a CPU
ROUNDED = 1e-5

#: the same where kernels keep fewer bits: TF32 has 10 (5e-4), bfloat16 has 7 (4e-3)
REDUCED = 1e-2


class Severity(Enum):
    """What a finding means for a check."""

    FAILED = "failed"  # the interpreter could not be examined
    FAULT = "fault"  # checks are impossible or wrong
    WARNING = "warning"  # numbers may differ for no fault of the port
    NOTE = "note"


@dataclass
class Symptom:
    """A finding on one side, with its remedy."""

    severity: Severity
    side: str
    what: str
    fix: str


_PYTHON = "correct `python` in paralign.toml: an executable, the folder of an environment, or conda:NAME"
_OTHER = "name another interpreter for this side (`python` in paralign.toml)"

#: what became of an interpreter -> what is said, and the remedy
_TROUBLES = {
    Trouble.NOT_STARTED: ("the interpreter does not start", _PYTHON),
    Trouble.NOT_PYTHON: ("`python` names no Python interpreter", _PYTHON),
    Trouble.TIMEOUT: (
        "the interpreter took too long",
        "run that step in this interpreter by hand to see where it hangs; --timeout SECONDS gives it more time",
    ),
    Trouble.DIED: (
        "the interpreter died",
        "run that step in this interpreter by hand; a crash on import is mostly a broken or mixed installation: make a new environment",
    ),
    Trouble.FOREIGN: (
        "the interpreter's answer cannot be read",
        "look for a sitecustomize or a package in this environment that changes json or writes into files that it has not opened",
    ),
}

#: the same of troubles that come in the middle of an examination: in which step, and what is known
_DURING = {
    Trouble.TIMEOUT: "the interpreter took too long {}: {}",
    Trouble.DIED: "the interpreter died {}: {}",
    Trouble.FOREIGN: "the interpreter's answer cannot be read {}: {}",
}

#: a library of pictures -> the package to install
_PICTURES = {"Pillow": "pillow", "OpenCV": "opencv-python-headless"}

_NUMPY = "the message names the cause; `Numpy is not available` means a numpy that is too new for this framework: install numpy<2"

_COLLECTIVE = (
    "NCCL_DEBUG = INFO in the side's `env` has NCCL say what it finds; mostly it is a driver that is too old for the build, little shared "
    "memory (docker run --shm-size 8g), or NCCL_SOCKET_IFNAME with a network that is not there"
)

_TF32 = "NVIDIA_TF32_OVERRIDE = 0 in the side's `env` has float32 computed in full"


def symptoms(side: Examination) -> Iterator[Symptom]:
    """What is wrong with a side's interpreter."""
    if side.trouble is not None:
        what, fix = _TROUBLES[side.trouble]
        if side.step and side.detail and side.trouble in _DURING:
            what = _DURING[side.trouble].format(side.step, side.detail)
        else:
            what = " ".join(part for part in (what, side.step) if part) + _after(side.detail)
        yield Symptom(Severity.FAILED, side.side, what, fix)
        return
    if version(side.python) < LEAST_PYTHON:
        what = f"Python {side.python} is too old: paralign needs {_dotted(LEAST_PYTHON)} or newer"
        yield Symptom(Severity.FAULT, side.side, what, _OTHER)
        return
    yield from _of_packages(side)
    for framework in side.frameworks:
        yield from _of_framework(side, framework)


def _of_packages(side: Examination) -> Iterator[Symptom]:
    """numpy, whether there is a framework at all, and the libraries of pictures."""
    install = f"{side.interpreter} -m pip install"
    if not side.numpy:
        yield Symptom(
            Severity.FAULT, side.side, f"numpy cannot be imported{_after(side.numpy_failure)}", f"{install} --force-reinstall numpy"
        )
        return
    if (0, 0) < version(side.numpy) < LEAST_NUMPY:
        what = f"numpy {side.numpy} is too old: paralign needs {_dotted(LEAST_NUMPY)} or newer"
        yield Symptom(Severity.FAULT, side.side, what, f"{install} --upgrade numpy")
    if not side.frameworks:
        fix = f"{install} torch, or {install} paddlepaddle; or name another interpreter in paralign.toml"
        yield Symptom(Severity.FAULT, side.side, "no framework is installed for this interpreter", fix)
    for name, about in side.images.items():
        if "failure" in about:
            what = f"{name} is installed and cannot be imported{_after(about['failure'])}"
            yield Symptom(Severity.WARNING, side.side, what, f"{install} --force-reinstall {_PICTURES.get(name, name)}")


def _of_framework(side: Examination, framework: Framework) -> Iterator[Symptom]:
    """Whether a framework can be used, and what its settings do to numbers."""
    name = framework.name
    if framework.failure:
        needed = side.every or side.framework == name or all(each.failure for each in side.frameworks)
        yield Symptom(Severity.FAULT if needed else Severity.WARNING, side.side, framework.failure, _remedy(side, framework))
        return
    released = framework.versions.get(name, "")
    if name in OLDEST and (version(released) == (0, 0) or "dev" in released):
        what = f"{name} {released or 'without a version'} is a development build{_commit(framework)}"
        yield Symptom(Severity.NOTE, side.side, what, "install a release, or keep the commit with your results")
    if framework.build == "gpu" and framework.devices == ["cpu"]:
        driver = f"driver {side.driver}" if side.driver else "no NVIDIA driver is loaded"
        what = f"this build of {name} is for GPUs and sees none; {driver}"
        yield Symptom(Severity.NOTE, side.side, what, "for checks on a GPU: a driver that this build takes, and CUDA_VISIBLE_DEVICES")
    for check in framework.checks:
        yield from _of_check(side, framework, check)
    yield from _of_settings(side, framework)


def _of_check(side: Examination, framework: Framework, check: Check) -> Iterator[Symptom]:
    where = f"the {check.name} of {framework.name} on {side.device}"
    if check.failure:
        fix = _COLLECTIVE if check.name == COLLECTIVE else _NUMPY
        yield Symptom(Severity.FAULT, side.side, f"{where} fails{_after(check.failure)}", fix)
    elif not check.error <= REDUCED:
        what = f"{where} is wrong: {check.error:.1e} from numpy's result, where {ROUNDED:.0e} is rounding"
        fix = f"install {framework.name} anew for this interpreter, or another version of it; on a GPU, one that was built for this device"
        yield Symptom(Severity.FAULT, side.side, what, fix)
    elif check.error > ROUNDED:
        what = f"{where} is computed with fewer bits than float32 has: {check.error:.1e} from numpy's result (TF32 gives 5e-4)"
        yield Symptom(Severity.WARNING, side.side, what, _TF32)


def _of_settings(side: Examination, framework: Framework) -> Iterator[Symptom]:
    settings = framework.settings
    if settings.get("default_dtype", "float32") != "float32":
        what = f"{framework.name} makes tensors of {settings['default_dtype']} by default"
        yield Symptom(Severity.WARNING, side.side, what, "look for what sets it in this environment: models are mostly made for float32")
    if settings.get("deterministic") in ("False", "0"):
        what = f"{framework.name} may choose kernels of cuDNN whose results change from run to run"
        yield Symptom(Severity.NOTE, side.side, what, profile_of(framework.name).deterministic)
    if settings.get("autotune") in ("True", "1"):
        what = f"{framework.name} tries kernels of cuDNN and takes the fastest: which one, changes from run to run"
        yield Symptom(Severity.WARNING, side.side, what, profile_of(framework.name).not_tuned)


def _remedy(side: Examination, framework: Framework) -> str:
    """The framework's own remedy where it gives one.

    Else what fits a device that is not there, or an import that fails.
    """
    wants_gpu = side.device != "cpu" and framework.devices == ["cpu"]
    if wants_gpu:
        return f'{profile_of(framework.name).gpu_build}; or device = "cpu" for this side'
    return framework.hint or f"install {framework.name} anew for {side.interpreter}, or {_OTHER}"


def _after(detail: str) -> str:
    return f": {detail}" if detail else ""


def _commit(framework: Framework) -> str:
    return f", commit {framework.commit[:8]}" if framework.commit else ""


def _dotted(numbers: tuple[int, int]) -> str:
    return ".".join(str(number) for number in numbers)
