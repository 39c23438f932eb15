"""Change valid files at random, by bytes and by structure, and hand them to the commands that read them.

Whatever a file holds, the command must end with one of its own exit codes, within bounds of time and memory. A case that does
not is written to a folder, with the seed that makes it again.

    python tests/hostile/fuzz.py --cases 20000 --seed 0
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import copy
import functools
import io
import itertools
import json
import pickle
import pickletools
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.capture import CaptureWriter
from paralign.cli import main
from paralign.dtypes import Typed
from paralign.errors import ParalignError
from paralign.formats import save
from paralign.formats.opcodes import integer, integers, text
from paralign.model import Manifest
from paralign.run.inputs import make
from paralign.run.project import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: seconds that one command may take; a valid file takes hundredths
SECONDS = 10.0
#: bytes that the process may grow by
MEMORY = 2 << 30
#: what commands say of a file: compared or written, different, wrong usage, a file failed, nothing concluded
ENDS = (0, 1, 2, 3, 4)
#: characters that no refusal has
FLOOD = 6000

TOML = """
out = "result"
stages = ["weights", "forward"]
seed = 3
timeout = 60.0
[reference]
module = "reference.py"
root = "."
framework = "numpy"
env = {A = "1"}
[candidate]
framework = "numpy"
device = "cpu"
[inputs]
shape = [4, 6]
dtype = "float32"
distribution = "uniform"
low = -1.0
high = 1.0
seed = 1
[labels.first]
shape = [4]
dtype = "int64"
low = 0
high = 3
[data]
split = "val"
samples = 4
batches = 2
[backward]
steps = 3
modes = ["eval", "train"]
[forward]
modules = "digest"
[weights]
mode = "copy"
[tolerance]
ratio = 10.0
forward = {atol = 1e-6, rtol = 0.0}
[infer]
paths = ["a.png"]
"""

RULES = """
others = "keep"
[[rename]]
reference = "layer.{a}.*"
candidate = "blocks.{a+1}.*"
[[route]]
reference = "w"
candidate = "v"
transform = "transpose(1, 0)"
[[route]]
reference = "b"
candidate = "c"
into = "slice(0, 0, 4)"
shape = [8]
[[drop]]
side = "reference"
name = "x"
"""

#: what a setting, a field or a key may hold that nobody expects
ODD: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**62, 2**63, 2**64, 2**70, 10**5000, -(2**63), 0.5, 1e300, float("inf"), float("nan"), "", "a", "\0", "\ud800",
    "x" * 300, "x" * 5000, "../a", "/dev/zero", "a/b", [], [[]], [1], ["a"], {}, {"a": 1}, {"a": {"a": []}}, [0] * 100, [2**62] * 70,
]  # fmt: skip
ODD_TOML = [
    "0", "-1", "9223372036854775807", "9" * 30, "9" * 5000, "1e300", "inf", "nan", "true", '""', '"a"', '"\\u0000"', f'"{"x" * 300}"',
    f'"{"x" * 5000}"', "[]", "[[]]", "[1]", '["a"]', "{}", "{a = 1}", "{a = {a = []}}", "1979-05-27T07:32:00Z", "[" * 100 + "]" * 100,
    '"/dev/zero"', '"../.."', "[4611686018427387904, 4]", "[100000, 100000]", '"float99"', "{shape = [2]}", "[{shape = [2]}, {shape = 1}]",
]  # fmt: skip


@dataclass
class Kind:
    """One kind of file: a valid one, how its structure is changed, and what reads it."""

    name: str
    valid: Callable[[], bytes]
    commands: tuple[str, ...] = ("convert", "diff")
    structure: Callable[[bytes, random.Random], bytes] | None = None


@dataclass
class Outcome:
    """How the cases of a run ended."""

    ends: dict[int, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")


def tensors() -> dict[str, Typed]:
    return {
        "w": Typed(np.arange(12, dtype=np.float32).reshape(3, 4), "float32"),
        "layer.0.b": Typed(np.arange(4, dtype=np.int64), "int64"),
        "c": Typed(np.array([1 + 2j, 3j]), "complex128"),
        "h": Typed(np.arange(4, dtype=np.uint16), "bfloat16"),
    }


def written(suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        save(path, tensors())
        return path.read_bytes()


def torch_program() -> bytes:
    """A pickle as PyTorch writes them: views, a tied tensor, flags, containers around."""
    identity = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + integer(12) + b"tQ"
    view = identity + integer(0) + integers((3, 4)) + integers((4, 1)) + b"\x89ccollections\nOrderedDict\n)R"
    one = b"ctorch._utils\n_rebuild_tensor_v2\n(" + view + b"tRq\x01"
    flagged = b"ctorch._utils\n_rebuild_tensor_v2\n(" + view + b"}" + text("neg") + b"\x89stR"
    typed = b"ctorch._utils\n_rebuild_tensor_v3\n(" + view + b"ctorch\nint32\ntR"
    inner = b"}(" + text("w") + one + text("v") + b"h\x01" + text("n") + flagged + text("t") + typed + b"u"
    return (
        b"\x80\x02}("
        + text("state_dict")
        + inner
        + text("epoch")
        + b"K\x03"
        + text("size")
        + b"ctorch\nSize\n"
        + integers((3, 4))
        + b"\x85Ru."
    )


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def torch_zip(program: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    return zipped({"m/data.pkl": program, "m/byteorder": b"little", "m/data/0": bytes(48), "m/version": b"3\n"}, compression)


def torch_legacy(program: bytes | None = None, keys: Any = ("0",)) -> bytes:
    head = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True})
    tail = pickle.dumps(list(keys) if isinstance(keys, tuple) else keys, 2) + struct.pack("<q", 12) + bytes(48)
    return b"".join(pickle.dumps(value, 2) for value in head) + (program or torch_program()) + tail


def paddle_tree() -> dict[str, Any]:
    array = np.arange(6, dtype=np.float32)
    return {
        "w": array.reshape(2, 3),
        "big": np.arange(2000, dtype=np.float64),
        "pair": ("name", array),
        "a@@.0": array,
        "a@@.1": array,
        "UnpackBigParamInfor@@": {"a": {"slices": ["a@@.0", "a@@.1"], "OriginShape": (2, 6)}},
        "StructuredToParameterName@@": {"w": "w"},
        "LR_Scheduler": {"last_epoch": 3, "last_lr": 0.1},
    }


def npy_tree() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array({"a": np.arange(4.0), "b": {"c": [1, 2.5, "x"], "d": np.float32(3)}}, dtype=object), allow_pickle=True)
    return stream.getvalue()


def changed_tree(value: Any, dice: random.Random) -> Any:
    """A copy of nested values with one of them exchanged, left out, doubled or put deeper."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    if not places:
        return dice.choice(ODD)
    for _ in range(dice.randint(1, 3)):
        owner, key = dice.choice(places)
        with contextlib.suppress(KeyError, IndexError, TypeError):
            deed = dice.randrange(5)
            if deed == 0:
                del owner[key]
            elif deed == 1 and isinstance(owner, dict):
                name = dice.choice(ODD)
                owner[name if isinstance(name, (str, int, float, type(None))) else "k"] = owner.pop(key)
            elif deed == 2:
                owner[key] = [owner[key], owner[key]] if dice.random() < 0.5 else {"x": owner[key]}
            else:
                owner[key] = copy.deepcopy(dice.choice(ODD))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        items: Any = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def changed_program(program: bytes, dice: random.Random) -> bytes:
    """A pickle with operations exchanged, left out, doubled, or with another argument."""
    starts = [place for _, _, place in pickletools.genops(program) if place is not None] + [len(program)]
    pieces = [program[start:stop] for start, stop in itertools.pairwise(starts)]
    odd = [pickle.dumps(value, 2)[2:-1] for value in ODD] + [b"(", b"t", b"R", b"b", b"}", b"]", b"h\x01", b"ctorch\nSize\n", b"ctorch\ndevice\n", b"Q", b")", b"N", b"\x88",
        b"ctorch._tensor\n_rebuild_from_type_v2\n", b"ctorch._utils\n_rebuild_parameter\n", b"ctorch\nBoolStorage\n", b"cnumpy\ndtype\n", b"u", b"a", b"s", b"e"]  # fmt: skip
    for _ in range(dice.randint(1, 4)):
        place, other = dice.randrange(len(pieces)), dice.randrange(len(pieces))
        deed = dice.randrange(5)
        if deed == 0:
            pieces[place : place + dice.randint(1, 3)] = []
            pieces = pieces or [b"N", b"."]
        elif deed == 1:
            pieces.insert(place, pieces[other])
        elif deed == 2:
            pieces[place], pieces[other] = pieces[other], pieces[place]
        else:
            pieces[place] = dice.choice(odd)
    return b"".join(pieces)


def as_json(value: Any) -> str:
    """JSON of any value, numbers of thousands of digits too."""
    most = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(value)
    finally:
        sys.set_int_max_str_digits(most)


def changed_header(data: bytes, dice: random.Random) -> bytes:
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    raw = as_json(changed_tree(header, dice)).encode()
    return struct.pack("<Q", len(raw)) + raw + data[8 + length :]


def changed_lines(data: bytes, dice: random.Random) -> bytes:
    lines = [json.loads(line) for line in data.splitlines()]
    number = dice.randrange(len(lines))
    lines[number] = changed_tree(lines[number], dice)
    return b"".join(as_json(line).encode() + b"\n" for line in lines)


def changed_npz(data: bytes, dice: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = dice.choice(list(members))
    deed = dice.randrange(4)
    if deed == 0:
        members[dice.choice(["../x.npy", "x" * 60_000 + ".npy", "a\n.npy", ".npy", "a"])] = members.pop(name)
    elif deed == 1:
        members[name] = changed_bytes(members[name], dice)
    else:
        header = repr({"descr": dice.choice(["<f4", "|O", "<f16", "<M8[s]", "f4,f4", "<U9", ">i2", "", "|b1", 3]), "fortran_order": dice.choice([True, False, 1]),
            "shape": dice.choice([(), (2,), (0,), (-1,), (2**62, 4), (0, 2**63), [2], (1,) * 70, 4, (True,)])}).encode()  # fmt: skip
        members[name] = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(dice.choice([0, 8, 48]))
    return zipped(members, dice.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))


def changed_toml(data: bytes, dice: random.Random) -> bytes:
    lines = data.decode().splitlines()
    for _ in range(dice.randint(1, 2)):
        number = dice.randrange(len(lines))
        key, sign, _ = lines[number].partition(" = ")
        deed = dice.randrange(6)
        if deed == 0:
            lines[number] = ""
        elif deed == 1:
            lines.insert(number, lines[dice.randrange(len(lines))])
        elif deed == 2:
            lines[number] = dice.choice(
                [
                    "[inputs.a]",
                    "[[inputs]]",
                    "[a.b.c]",
                    "[reference.env]",
                    '"A=B" = "1"',
                    '"" = 1',
                    "a." * 100 + "b = 1",
                    "x" * 5000 + " = 1",
                ]
            )
        elif sign:
            lines[number] = f"{key} = {dice.choice(ODD_TOML)}"
    return "\n".join(lines).encode()


def changed_bytes(data: bytes, dice: random.Random) -> bytes:
    """Some bytes exchanged, left out, put in or doubled; lengths and offsets made extreme."""
    found = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 2, 5, 20])):
        if not found:
            break
        place, length = dice.randrange(len(found)), dice.choice([1, 1, 2, 4, 8, 30])
        deed = dice.randrange(7)
        if deed == 0:
            found[place] ^= 1 << dice.randrange(8)
        elif deed == 1:
            found[place] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, ord("."), ord("["), ord('"'), ord("9"), ord("-")])
        elif deed == 2:
            del found[place : place + length]
        elif deed == 3:
            found[place:place] = dice.randbytes(length)
        elif deed == 4:
            found[place:place] = found[place : place + length] * dice.choice([1, 2, 50])
        elif deed == 5:
            found[place : place + length] = dice.choice([b"\0", b"\xff", b"\x7f"]) * length
        else:
            del found[place:]
    return bytes(found)


def index_of(shard: str = "s.safetensors") -> bytes:
    return as_json({"metadata": {"total_size": 3}, "weight_map": dict.fromkeys(tensors(), shard)}).encode()


@functools.lru_cache(maxsize=1)
def captured() -> Path:
    """A capture of a few records, made once, and gone with the process."""
    folder = Path(tempfile.mkdtemp(prefix="paralign-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with CaptureWriter(folder / "capture", Manifest(stage="forward", settings={"a": 1})) as writer:
        for name, value in tensors().items():
            writer.add(name, value, role="output", run="float64")
    return folder / "capture"


def captured_file(name: str) -> bytes:
    return (captured() / name).read_bytes()


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "x.pth",
            lambda: torch_zip(torch_program()),
            structure=lambda _, dice: torch_zip(changed_program(torch_program(), dice), dice.choice([0, 8])),
        ),
        Kind(
            "legacy.pth",
            torch_legacy,
            structure=lambda _, dice: torch_legacy(changed_program(torch_program(), dice), dice.choice([("0",), *ODD[:20]])),
        ),
        Kind("own.pth", lambda: written(".pth")),
        Kind(
            "x.pdparams",
            lambda: pickle.dumps(paddle_tree(), 4),
            structure=lambda _, dice: pickle.dumps(changed_tree(paddle_tree(), dice), dice.randint(2, 5)),
        ),
        Kind("program.pdparams", lambda: pickle.dumps(paddle_tree(), 2), structure=changed_program),
        Kind("own.pdparams", lambda: written(".pdparams")),
        Kind("x.npz", lambda: written(".npz"), ("convert", "diff", "compare"), changed_npz),
        Kind("x.npy", npy_tree, ("convert", "diff", "compare")),
        Kind("x.safetensors", lambda: written(".safetensors"), structure=changed_header),
        Kind("x.index.json", index_of, structure=lambda data, dice: as_json(changed_tree(json.loads(data), dice)).encode()),
        Kind("paralign.toml", TOML.encode, ("project",), changed_toml),
        Kind("rules.toml", RULES.encode, ("rules",), changed_toml),
        Kind("records.jsonl", functools.partial(captured_file, "records.jsonl"), ("captures",), changed_lines),
        Kind(
            "manifest.json",
            functools.partial(captured_file, "manifest.json"),
            ("captures",),
            lambda data, dice: as_json(changed_tree(json.loads(data), dice)).encode(),
        ),
    )
}


def run_command(command: str, path: Path, folder: Path, dice: random.Random) -> int:
    """Hand a file to a command; its exit code."""
    valid = str(folder / "valid.safetensors")
    if command == "project":
        return _project(folder)
    if command == "captures":
        copied = folder / "capture"
        shutil.copytree(captured(), copied, dirs_exist_ok=True)
        path.replace(copied / path.name)
        return main(["compare", str(captured()), str(copied)])
    destination = str(folder / f"out{dice.choice(['.safetensors', '.pth', '.pdparams', '.npz'])}")
    arguments = {
        "convert": ["convert", "weights", str(path), destination, "--overwrite"],
        "diff": ["weights", "diff", valid, str(path), "--all"],
        "compare": ["compare", str(path), str(path)],
        "rules": ["convert", "weights", valid, destination, "--overwrite", "--rules", str(path)],
    }
    return main(arguments[command])


def _project(folder: Path) -> int:
    try:
        settings = read(folder)
        for name, spec in (("inputs", settings.inputs), ("labels", settings.labels)):
            if spec is not None:
                make(spec, folder, name, settings.settings.seed)
    except ParalignError as error:
        return 2 if len(str(error)) < FLOOD else 70
    return 0


def case(kind: Kind, seed: str, folder: Path) -> tuple[int, str]:
    """Make a changed file, and read it: the exit code, and what was printed on standard error."""
    dice = random.Random(seed)
    valid = kind.valid()
    data = kind.structure(valid, dice) if kind.structure is not None and dice.random() < 0.6 else changed_bytes(valid, dice)
    path = folder / kind.name
    path.write_bytes(data)
    out, err = io.StringIO(), io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")), contextlib.redirect_stderr(err):
        try:
            code = run_command(dice.choice(kind.commands), path, folder, dice)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException:  # noqa: BLE001 - whatever it is, it is a failure of the case
            traceback.print_exc()
            code = 70
    err.flush()
    del out
    return code, err.buffer.getvalue().decode()  # type: ignore[attr-defined]


class TooSlow(BaseException):
    """A command did not end in time."""


def _late(*_: Any) -> None:
    raise TooSlow


def run(cases: int, seed: int, kinds: list[str], keep: Path | None) -> Outcome:
    """So many cases, one kind after the other."""
    outcome = Outcome()
    before = signal.signal(signal.SIGALRM, _late)
    for number in range(cases):
        kind = KINDS[kinds[number % len(kinds)]]
        name = f"{seed}:{kind.name}:{number}"
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for side in ("reference.py", "candidate.py"):
                (folder / side).write_text("")
            for valid in ("valid.safetensors", "s.safetensors"):
                save(folder / valid, tensors())
            began = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            code, told = case(kind, name, folder)
            signal.setitimer(signal.ITIMER_REAL, 0)
            taken = time.monotonic() - began
            outcome.slowest = max(outcome.slowest, (taken, name))
            outcome.ends[code] = outcome.ends.get(code, 0) + 1
            if code not in ENDS or "Traceback" in told or "the memory does not suffice" in told:
                outcome.failures.append(f"{name}: exit {code}, {taken:.1f} s\n{told[-1500:]}")
                if keep is not None:
                    shutil.copytree(folder, keep / name.replace(":", "-"), dirs_exist_ok=True)
    signal.signal(signal.SIGALRM, before)
    return outcome


def bound_memory() -> None:
    """Let the process grow by so much and no more."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def command_line() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=sorted(KINDS))
    parser.add_argument("--keep", type=Path, help="folder for files of cases that failed")
    options = parser.parse_args()
    bound_memory()
    outcome = run(options.cases, options.seed, options.kind or list(KINDS), options.keep)
    told = f"{len(outcome.failures)} failures; exit codes {dict(sorted(outcome.ends.items()))}; slowest {outcome.slowest[0]:.1f} s"
    sys.stdout.write("\n".join([*outcome.failures[:20], f"{options.cases} cases: {told}"]) + "\n")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(command_line())
