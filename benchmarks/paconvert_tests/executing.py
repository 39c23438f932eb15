"""A program run on PyTorch and its conversions on Paddle, each test file in a process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import select
import signal
import struct
import sys
import tempfile
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from borrowed import Snippet

#: seconds that one program may take
LIMIT = 60.0

#: relative difference of float32 numbers that two implementations sum in other orders
CLOSE = 1e-5

#: what may become of a run on Paddle
SAME, KIND, VALUE, REFUSES, RAISES, ENDS = "same", "other kind", "other value", "refuses", "raises", "ends the process"

#: what PyTorch's run gives besides results
UNRUN, UNCOMPARED = "PyTorch raises", "nothing to compare"


@dataclass
class Found:
    """What became of one program: on PyTorch (empty where it gave values), and of each conversion on Paddle."""

    reference: str = ""
    drawn: bool = False
    outcomes: tuple[tuple[str, str], ...] = ()


class Opaque(Exception):
    """A value that cannot be compared."""


def shown(value: Any) -> Any:
    """A value of either framework as arrays, numbers, texts, lists and dictionaries."""
    if value is None or isinstance(value, str | bool | int | float | complex | np.ndarray | np.generic):
        return value
    if isinstance(value, dict):
        return {str(key): shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        return _array(value)
    if type(value).__name__ in ("dtype", "DataType"):
        return str(value).rpartition(".")[2]
    raise Opaque(type(value).__name__)


@dataclass
class Tensor:
    """A tensor's numbers, its type's name, and whether a gradient is asked for."""

    numbers: np.ndarray
    dtype: str
    learned: bool


def _array(value: Any) -> Tensor:
    dtype = str(value.dtype).rpartition(".")[2]
    learned = bool(value.requires_grad) if hasattr(value, "requires_grad") else not value.stop_gradient
    plain = value.detach().cpu()
    for dense in ("is_sparse", "is_sparse_csr"):
        asked = getattr(plain, dense, False)
        if asked() if callable(asked) else asked:
            plain = plain.to_dense()
    if getattr(plain, "is_quantized", False) is True:
        raise Opaque("quantized")
    if hasattr(plain, "resolve_conj"):
        plain = plain.resolve_conj().resolve_neg()
    if dtype in ("bfloat16", "float16") or dtype.startswith("float8"):
        plain = plain.astype("float32") if hasattr(plain, "astype") else plain.float()
    return Tensor(np.asarray(plain.numpy()), dtype, learned)


def compared(reference: Any, candidate: Any, snippet: Snippet, *, drawn: bool) -> tuple[str, str]:
    """Whether two values are the same, and what differs."""
    if isinstance(reference, dict | list):
        if type(reference) is not type(candidate) or len(reference) != len(candidate):
            return VALUE, f"{_form(reference)} vs {_form(candidate)}"
        keys = reference if isinstance(reference, dict) else range(len(reference))
        missing = (VALUE, "no such key")
        return _worst([compared(reference[key], candidate[key], snippet, drawn=drawn) if _has(candidate, key) else missing for key in keys])
    if reference is None or isinstance(reference, str):
        return (SAME, "") if reference == candidate or drawn else (VALUE, f"{reference!r} vs {_form(candidate)}")
    if candidate is None or isinstance(candidate, str | list | dict):
        return VALUE, f"{_form(reference)} vs {_form(candidate)}"
    ours, theirs = _as_tensor(reference), _as_tensor(candidate)
    apart = _numbers(ours.numbers, theirs.numbers, snippet, drawn=drawn)
    kind = _kinds(ours, theirs, snippet) if type(reference) is type(candidate) else f"{_form(reference)} vs {_form(candidate)}"
    return (VALUE, apart) if apart else (KIND, kind) if kind else (SAME, "")


def _has(value: Any, key: Any) -> bool:
    return key in value if isinstance(value, dict) else True


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return Tensor(np.asarray(value), str(np.asarray(value).dtype), learned=False)


def _kinds(ours: Tensor, theirs: Tensor, snippet: Snippet) -> str:
    if snippet.kinds and ours.dtype != theirs.dtype:
        return f"{ours.dtype} vs {theirs.dtype}"
    if ours.learned != theirs.learned:
        return f"requires_grad is {ours.learned}, and stop_gradient {not theirs.learned}"
    return ""


def _numbers(ours: np.ndarray, theirs: np.ndarray, snippet: Snippet, *, drawn: bool) -> str:
    """What differs of two arrays' numbers; of draws the shape alone counts."""
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} vs {theirs.shape}"
    if drawn or not ours.size:
        return ""
    if "SUO" in ours.dtype.kind + theirs.dtype.kind:
        return "" if bool((ours == theirs).all()) else f"{ours} vs {theirs}"
    kind = "complex128" if "c" in (ours.dtype.kind, theirs.dtype.kind) else "float64"
    a, b = ours.astype(kind), theirs.astype(kind)
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max()) if finite.size else 0.0
    with np.errstate(all="ignore"):
        near = np.isclose(b, a, max(snippet.relative, CLOSE), max(snippet.absolute, 1e-6 * scale), equal_nan=True)
    if bool(near.all()):
        return ""
    at = tuple(int(each) for each in np.argwhere(~near)[0])
    return f"{a[at]!s} vs {b[at]!s} at {list(at)}"


def _worst(parts: list[tuple[str, str]]) -> tuple[str, str]:
    for kind in (VALUE, KIND):
        for each in parts:
            if each[0] == kind:
                return each
    return SAME, ""


def _form(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"{type(value).__name__} of {len(value)}"
    return repr(value)[:60] if isinstance(value, str | bool | int | float | None) else type(value).__name__


def run(code: str, names: Sequence[str], seed: int) -> list[Any]:
    """What a program leaves under the names."""
    import paddle
    import torch

    original = torch.manual_seed
    original(seed)
    paddle.seed(seed)
    np.random.seed(7)  # noqa: NPY002 - the draws of the programs
    space: dict[str, Any] = {"__name__": "program"}
    torch.manual_seed = lambda own: original(int(own) + seed)  # programs that set a seed of their own draw too
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, "program", "exec"), space)
            return [shown(space[name]) for name in names]
    finally:
        torch.manual_seed = original


def settled() -> None:
    """Take back what a program may have set for its process."""
    import paddle
    import torch

    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    paddle.set_default_dtype("float32")
    paddle.enable_grad().__enter__() if not paddle.is_grad_enabled() else None
    paddle.disable_static()


def _reference(snippet: Snippet) -> tuple[Found, list[Any]]:
    found = Found()
    try:
        reference = run(snippet.code, snippet.names, 0)
        if not snippet.names:
            return Found(UNCOMPARED), []
        others = [run(snippet.code, snippet.names, seed) for seed in range(1, 2 if snippet.values else 10)]
    except Opaque as kind:
        return Found(f"{UNCOMPARED}: {kind}"), []
    except BaseException as error:  # noqa: BLE001 - a program that PyTorch refuses is none
        return Found(f"{UNRUN}: {type(error).__name__}: {' '.join(str(error).split())[:160]}"), []
    found.drawn = any(compared(reference, each, snippet, drawn=False)[0] == VALUE for each in others)
    return found, reference


def judged(snippet: Snippet, conversions: Sequence[str | None]) -> Found:
    """Run a program on PyTorch, and its conversions on Paddle."""
    settled()
    found, reference = _reference(snippet)
    if found.reference:
        return found
    outcomes = []
    for code in conversions:
        settled()
        outcomes.append((REFUSES, "not written") if code is None else _candidate(code, reference, snippet, drawn=found.drawn))
    found.outcomes = tuple(outcomes)
    return found


def _candidate(code: str, reference: list[Any], snippet: Snippet, *, drawn: bool) -> tuple[str, str]:
    try:
        return compared(reference, run(code, snippet.names, 0), snippet, drawn=drawn)
    except Opaque as kind:
        return VALUE, f"{kind}, which has no value"
    except NotImplementedError as error:
        return REFUSES, " ".join(str(error).split())[:200]
    except BaseException as error:  # noqa: BLE001 - what Paddle raises is the outcome
        return RAISES, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def apart(work: Sequence[Any], of: Callable[[Any], Any]) -> Iterator[Any]:
    """What ``of`` gives for each piece of work, in a process of its own; None for one that ends the process or takes too long."""
    done = 0
    while done < len(work):
        child, reader = _child(work[done:], of)
        finished = 0
        while (answer := _answer(reader)) is not None:
            finished += 1
            yield pickle.loads(answer)
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        done += finished
        if done < len(work):
            done += 1
            yield None


def _child(work: Sequence[Any], of: Callable[[Any], Any]) -> tuple[int, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    try:
        os.chdir(tempfile.gettempdir())  # some write files
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 2)
        for each in work:
            answer = pickle.dumps(of(each))
            os.write(writer, struct.pack("<Q", len(answer)) + answer)
    finally:
        sys.stdout.flush()
        os._exit(0)


def _answer(reader: int) -> bytes | None:
    head = _read(reader, 8)
    return None if head is None else _read(reader, struct.unpack("<Q", head)[0])


def _read(reader: int, size: int) -> bytes | None:
    text = bytearray()
    while len(text) < size:
        ready, _, _ = select.select([reader], [], [], LIMIT)
        part = os.read(reader, size - len(text)) if ready else b""
        if not part:
            return None
        text += part
    return bytes(text)
