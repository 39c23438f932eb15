"""What two interpreters have not in common, and whether it matters for the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.adapters.base import TF32_OVERRIDE
from paralign.run.examination import version
from paralign.run.symptoms import ROUNDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.run.examination import Examination

#: what stands for a library that a side has not
ABSENT = "absent"


@dataclass
class Difference:
    """What is not the same on both sides, whether and why it matters, and the remedy."""

    what: str
    reference: str
    candidate: str
    matters: bool
    why: str
    fix: str


@dataclass(frozen=True)
class _Feature:
    """Something that an interpreter has.

    ``read`` gives "" where nothing is known of it, and then nothing is compared.
    """

    what: str
    read: Callable[[Examination], str]
    matters: bool
    why: str
    fix: str


def _device(side: Examination) -> str:
    return "gpu" if side.device.startswith(("gpu", "cuda")) else side.device


def _major(side: Examination) -> str:
    return str(version(side.numpy)[0])


def _version_of(library: str) -> Callable[[Examination], str]:
    return lambda side: next((each.versions[library] for each in side.frameworks if library in each.versions), "")


def _setting(name: str) -> Callable[[Examination], str]:
    """A setting as its framework writes it, with 0 and 1 for what is off and on."""
    words = {"False": "0", "True": "1"}

    def read(side: Examination) -> str:
        value = next((each.settings[name] for each in side.frameworks if name in each.settings), "")
        return words.get(value, value)

    return read


def _picture(library: str, part: str) -> Callable[[Examination], str]:
    """Nothing where it cannot be imported: that is a symptom of its own."""

    def read(side: Examination) -> str:
        about = side.images.get(library)
        if about is None or "failure" in about:
            return ""
        return about.get(part, ABSENT)

    return read


def _variable(name: str) -> Callable[[Examination], str]:
    return lambda side: side.environment.get(name, "not set")


def _full(side: Examination) -> str:
    """Whether products are computed in full; they are on a CPU."""
    return "0" if side.device == "cpu" else _variable(TF32_OVERRIDE)(side)


def _precision(side: Examination) -> str:
    errors = [check.error for each in side.frameworks for check in each.checks if not check.failure]
    if not errors:
        return ""
    return "fewer bits than float32" if max(errors) > ROUNDED else "float32"


_ENVIRONMENT = "set the same in `env` of both sides"
_DECODING = "decoders differ by single steps of 256, which `data` and `infer` then show"

FEATURES = (
    _Feature("device", _device, True, "kernels of another device round otherwise", "give both sides the same `device`"),
    _Feature(
        "precision of the kernels",
        _precision,
        True,
        "results differ in the fourth digit",
        "NVIDIA_TF32_OVERRIDE = 0 in `env` of both sides",
    ),
    _Feature(
        "default type", _setting("default_dtype"), True, "constants and weights have other types", "set the same default on both sides"
    ),
    _Feature(
        "deterministic kernels", _setting("deterministic"), True, "one side's runs differ among themselves", "choose them on both sides"
    ),
    _Feature(
        "search for the fastest kernel",
        _setting("autotune"),
        True,
        "one side's runs differ among themselves",
        "switch it off on both sides",
    ),
    _Feature("CUDA", _version_of("cuda"), False, "rounding only", "none is needed"),
    _Feature("cuDNN", _version_of("cudnn"), False, "rounding only", "none is needed"),
    _Feature("threads", _setting("threads"), False, "another order of sums: rounding only", _ENVIRONMENT + ": OMP_NUM_THREADS"),
    _Feature("OMP_NUM_THREADS", _variable("OMP_NUM_THREADS"), False, "another order of sums: rounding only", _ENVIRONMENT),
    _Feature("MKL_NUM_THREADS", _variable("MKL_NUM_THREADS"), False, "another order of sums: rounding only", _ENVIRONMENT),
    _Feature(TF32_OVERRIDE, _full, True, "on a GPU, one side rounds to 10 bits", _ENVIRONMENT),
    _Feature(
        "PYTHONHASHSEED", _variable("PYTHONHASHSEED"), True, "the order of sets of texts, and of what is listed from them", _ENVIRONMENT
    ),
    _Feature(
        "numpy, major version", _major, True, "from 2.0 on, numbers of Python no longer raise the type of float32", "install the same numpy"
    ),
    _Feature("Python", lambda side: ".".join(map(str, version(side.python))), False, "numbers do not depend on it", "none is needed"),
    _Feature(
        "Pillow", _picture("Pillow", "version"), True, "resizing and decoding may differ where pictures are read", "install the same Pillow"
    ),
    _Feature("Pillow's JPEG library", _picture("Pillow", "jpeg"), True, _DECODING, "install the same Pillow from the same source"),
    _Feature(
        "OpenCV", _picture("OpenCV", "version"), True, "resizing and decoding may differ where pictures are read", "install the same OpenCV"
    ),
    _Feature("OpenCV's JPEG library", _picture("OpenCV", "jpeg"), True, _DECODING, "install the same OpenCV from the same source"),
)


def differences(reference: Examination, candidate: Examination) -> list[Difference]:
    """What differs, what matters first."""
    found = []
    for feature in FEATURES:
        left, right = feature.read(reference), feature.read(candidate)
        if left and right and left != right:
            found.append(Difference(feature.what, left, right, feature.matters, feature.why, feature.fix))
    return sorted(found, key=lambda each: not each.matters)
