"""Compile the kernels of comparison and capture: for wheels and installations by ``hatch_build.py``, in place by hand.

    python native/build_fused.py              (into src/paralign/comparison and src/paralign/capture)
    python native/build_fused.py FOLDER       (the comparison's alone)

Python's limited API makes one file for every version from 3.11 on. 3.10, whose limited API has no buffers, gets one for itself. The kernel
of the capture needs no Python: every version loads it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "native" / "fused.c"
#: what the file is made of, in this order; this script has the flags. comparison/compiled.py names the same files
MADE_OF = (SOURCE, SOURCE.with_name("lanes.h"), Path(__file__).resolve())
#: where it is looked for
HOME = ROOT / "src" / "paralign" / "comparison"
#: the same of what digests and sketches are made with; capture/compiled_passes.py names the same files
PRINTED = ROOT / "native" / "fingerprint.c"
PRINTS_MADE_OF = (PRINTED, PRINTED.with_name("rows.h"), Path(__file__).resolve())
PRINTS_HOME, PRINTS = ROOT / "src" / "paralign" / "capture", "_fingerprint.native"
#: the first version whose limited API has buffers
STABLE = (3, 11)
#: seconds; it takes 3
LIMIT = 120

FLAGS = [
    "-O3",
    "-std=c11",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-flax-vector-conversions",
    "-Wno-psabi",
    "-pthread",
]


class NotCompiled(Exception):
    """There will be no compiled kernel, and why."""


def limited() -> bool:
    """Whether this Python makes a file for all later ones."""
    return sys.version_info >= STABLE and not sysconfig.get_config_var("Py_GIL_DISABLED")


def name() -> str:
    """The file's name."""
    suffix = ".abi3.so" if limited() else sysconfig.get_config_var("EXT_SUFFIX")
    return f"_fused{suffix}"


def digest(made_of: tuple[Path, ...] = MADE_OF) -> str:
    """SHA-256 of what a file is made of: compiled in, so that one of other sources is not used."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in made_of)).hexdigest()


def compiler() -> list[str]:
    """The C compiler and its first arguments: CC, if it is set, else what Python was built with, else cc."""
    if "CC" in os.environ:
        return shlex.split(os.environ["CC"])
    built_with = shlex.split(sysconfig.get_config_var("CC") or "cc")
    from shutil import which

    return built_with if which(built_with[0]) else ["cc"]


def compile_kernel(folder: Path = HOME) -> Path:
    """Compile the comparison's into a folder; what was there is replaced at once, so that no process sees half of it.

    Raises:
        NotCompiled: with the reason; there is no compiler, it has no headers of Python, or knows none of what the source needs.
    """
    whole = [] if limited() else ["-DPARALIGN_WHOLE_API"]
    return _compile(SOURCE, folder / name(), [*whole, f"-I{sysconfig.get_paths()['include']}"], MADE_OF)


def compile_fingerprint(folder: Path = PRINTS_HOME) -> Path:
    """The same of the capture's, which needs no headers of Python."""
    return _compile(PRINTED, folder / PRINTS, [], PRINTS_MADE_OF)


def _compile(source: Path, target: Path, arguments: list[str], made_of: tuple[Path, ...]) -> Path:
    if os.name != "posix":
        raise NotCompiled(f"not for {os.name}")
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    linking = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    command = [*compiler(), *FLAGS, f'-DPARALIGN_SOURCES="{digest(made_of)}"', *arguments, *architectures(), str(source), *linking]
    try:
        done = subprocess.run([*command, "-o", str(draft)], capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode:
            raise NotCompiled((done.stderr.strip().splitlines() or [f"{command[0]} failed"])[0])
        draft.replace(target)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise NotCompiled(str(failure)) from failure
    finally:
        draft.unlink(missing_ok=True)
    return target


def architectures() -> list[str]:
    """Arguments that choose the processor on macOS, as builders of wheels set them (``ARCHFLAGS``)."""
    return shlex.split(os.environ.get("ARCHFLAGS", "")) if sys.platform == "darwin" else []


def tag() -> str:
    """The wheel's tag: the first Python that can load the file, its interface, the platform."""
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    interface = ("cp311", "abi3") if limited() else (version, version + sysconfig.get_config_var("abiflags"))
    platform = os.environ.get("_PYTHON_HOST_PLATFORM") or sysconfig.get_platform()
    return "-".join((*interface, platform.replace("-", "_").replace(".", "_")))


if __name__ == "__main__":
    try:
        print(compile_kernel(Path(sys.argv[1]) if len(sys.argv) > 1 else HOME))
        if len(sys.argv) == 1:
            print(compile_fingerprint())
    except NotCompiled as failure:
        sys.exit(f"not compiled: {failure}")
