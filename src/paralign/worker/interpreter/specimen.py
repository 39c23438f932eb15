"""A minimal program for a call of PyTorch, and what it prints.

Small arguments that the call accepts are searched.

Run by itself in an interpreter that has the framework: ``python specimen.py torch.erfc "input, *, out=None"`` prints one line of JSON,
``{"program": …, "printed": …, "does": …, "version": …, "system": …}``. The program is run twice: numbers that change are left out.
"""

import contextlib
import importlib
import inspect
import io
import itertools
import json
import platform
import re
import sys
import time
import warnings
from typing import Any, Dict, Iterator, List, Optional, Tuple

#: seconds that the search for arguments takes at most: a call of some 10 us is tried, and failures cost a traceback
LIMIT = 20.0

#: characters of what a program may print: an issue holds numbers that a reader can compare
_PRINTED = 2000

#: characters of the first sentence of a documentation
_SENTENCE = 300

#: arguments that are no tensor, the plainest first
_PLAIN = ("2", "0", "1", "3", "0.5", "[1, 2]", "[2, 3]", "True", '"mean"', "(1, 0)")

#: parameters that say what is done with an axis, a size or a number: tried as numbers before tensors
_NUMBERS = frozenset(
    {
        "dim", "dims", "dim0", "dim1", "axis", "k", "n", "p", "size", "shape", "num", "num_classes", "num_features", "num_embeddings",
        "embedding_dim", "in_features", "out_features", "in_channels", "out_channels", "kernel_size", "stride", "padding", "groups",
        "window_length", "M", "sections", "chunks", "threshold", "value", "alpha", "beta", "eps", "split_size", "split_sizes",
        "normalized_shape", "norm_type", "output_size", "length", "start", "step",
    }
)  # fmt: skip

#: expression of a tensor, by what it is for: vectors, matrices, whole numbers, pictures, boxes, lists
_TENSORS = (
    "torch.tensor([[0.5, 1.25, 2.0], [1.5, 0.25, 0.75]])",
    "torch.tensor([0.5, 1.25, 2.0])",
    "torch.tensor([0, 2, 1])",
    "torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])",
    "torch.arange(1.0, 17.0).reshape(1, 1, 4, 4) / 16",
    "torch.arange(1.0, 9.0).reshape(1, 2, 4) / 8",
    "torch.tensor([[0, 2, 1], [1, 0, 2]])",
    "[torch.tensor([0.5, 1.25]), torch.tensor([2.0])]",
    "torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 4.0]])",
    "torch.tensor([1.5, 0.75])",
    "torch.tensor([True, False, True])",
    "torch.tensor([[[0.5, 1.0], [1.5, 2.0]], [[2.0, 1.0], [0.5, 1.5]]])",
    "torch.arange(1.0, 9.0).reshape(1, 1, 2, 2, 2) / 8",
)


def specimen(name: str, parameters: str, limit: float = LIMIT) -> Dict[str, str]:
    """A program that calls ``name`` and what it prints.

    Without one, only what is known of the call.

    Args:
        name: the full name of the call.
        parameters: its parameters as the table of signatures has them.
        limit: seconds that the search takes at most.
    """
    package = importlib.import_module(name.partition(".")[0])
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    found = {"version": str(getattr(package, "__version__", "")), "system": system, "does": _does(name)}
    end = time.monotonic() + limit
    for program in _programs(name, _required(parameters)):
        if time.monotonic() > end:
            break
        printed = _printed(program)
        if printed is None:
            continue
        found["program"] = program
        if printed == _printed(program):
            found["printed"] = printed
        break
    return found


def _value(name: str) -> Any:
    parts = name.split(".")
    for many in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:many]))
        except ImportError:
            continue
        for part in parts[many:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def _does(name: str) -> str:
    """The first sentence of the framework's own documentation of a call, behind its signature."""
    text = inspect.getdoc(_value(name)) or ""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    last = name.rpartition(".")[2]
    prose = [part for part in paragraphs if part and not part.startswith((last + "(", "..", name + "("))]
    if not prose:
        return ""
    plain = re.sub(r":\w+:`~?\.?([^`<]*)[^`]*`", r"`\1`", prose[0])
    sentence = plain.partition(". ")[0].rstrip(".:") + "."
    return sentence if len(sentence) <= _SENTENCE else ""


def _required(parameters: str) -> Optional[List[str]]:
    """Names of parameters without a default; None where the signature is not known."""
    text = parameters.partition(" ~ ")[0].strip()
    if text == "...":
        return None
    named = (part.strip() for part in text.split(","))
    return list(itertools.takewhile(lambda each: each and not each.startswith("*") and "=" not in each, named))


def _programs(name: str, required: Optional[List[str]]) -> Iterator[str]:
    """Programs to try, of an operation, a method or a layer: plainest arguments first."""
    root, _, last = name.rpartition(".")
    top = name.partition(".")[0]
    imports = "".join(f"import {module}\n" for module in dict.fromkeys(("torch", top)))
    head = f"{imports}\ntorch.set_printoptions(precision=7)\ntorch.set_grad_enabled(False)\n"
    is_layer = inspect.isclass(_value(name))
    lists = [required] if required is not None else [[], ["input"], ["input", "other"]]
    for names in lists:
        if is_layer:
            yield from _layers(head, name, names)
        elif root == "torch.Tensor":
            for tensor, given in _chosen(["input"], names):
                shown = "".join(f"{each} = {value}\n" for each, value in zip(names, given) if "torch." in value)
                yield f"{head}x = {tensor[0]}\n{shown}print(x.{last}({_arguments(names, given)}))\n"
        else:
            for _, given in _chosen([], names):
                shown = "".join(f"{each} = {value}\n" for each, value in zip(names, given) if "torch." in value)
                yield f"{head}{shown}print({name}({_arguments(names, given)}))\n"


def _arguments(names: List[str], given: Tuple[str, ...]) -> str:
    return ", ".join(each if "torch." in value else value for each, value in zip(names, given))


def _layers(head: str, name: str, names: List[str]) -> Iterator[str]:
    for tensor, given in _chosen(["input"], names):
        lines = [f"layer = {name}({', '.join(given)}).eval()", "for parameter in layer.parameters():", "    parameter.data.fill_(0.5)"]
        yield head + "\n".join([*lines, f"x = {tensor[0]}", "print(layer(x))"]) + "\n"


def _chosen(tensors: List[str], names: List[str]) -> Iterator[Tuple[Tuple[str, ...], Tuple[str, ...]]]:
    """Combinations of values for tensors and parameters, those of the first values first."""
    values = [_TENSORS for _ in tensors] + [_values(name) for name in names]
    most = sum(len(each) - 1 for each in values)
    for total in range(most + 1):
        for places in _places([len(each) for each in values], total):
            picked = tuple(each[place] for each, place in zip(values, places))
            yield picked[: len(tensors)], picked[len(tensors) :]


def _values(name: str) -> Tuple[str, ...]:
    return _PLAIN + _TENSORS if name in _NUMBERS else _TENSORS + _PLAIN


def _places(sizes: List[int], total: int) -> Iterator[Tuple[int, ...]]:
    if not sizes:
        if total == 0:
            yield ()
        return
    for first in range(min(total, sizes[0] - 1) + 1):
        for rest in _places(sizes[1:], total - first):
            yield (first, *rest)


def _printed(program: str) -> Optional[str]:
    """What a program prints; None where it fails, or prints no finite numbers of tensors."""
    into = io.StringIO()
    try:
        with contextlib.redirect_stdout(into), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(program, "<specimen>", "exec"), {"__name__": "__main__"})  # noqa: S102 - a program made above, of a framework's call
    except (Exception, SystemExit):  # noqa: BLE001 - arguments that do not fit raise whatever a call raises
        return None
    text = into.getvalue()
    numbers = "tensor(" in text and not any(word in text for word in ("nan", "inf", "tensor([])"))
    if numbers and len(text) <= _PRINTED:
        return text
    return None


if __name__ == "__main__":
    calls = list(zip(sys.argv[1::2], sys.argv[2::2]))
    for called, told in calls:
        try:
            line = specimen(called, told)
        except Exception as error:  # noqa: BLE001 - whatever a foreign package raises while it is imported or looked through
            line = {"failure": "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:200])}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
