"""What calls of PyTorch return, and whose methods a name can be.

That is enough to tell tensors from other objects.
"""

from __future__ import annotations

import ast
from functools import cache

from paralign.catalogue.parameters import stored
from paralign.port.names.values import TENSOR, Instance, Value

#: packages whose calls are listed
FRAMEWORKS = ("torch", "torchvision", "torchaudio", "paddle")

#: packages whose calls are listed where data is prepared
LIBRARIES = ("numpy", "PIL", "cv2")

#: functions of ``torch`` that return no tensor
_NO_TENSORS = frozenset({
    "Size", "allclose", "autocast", "can_cast", "compile", "device", "dtype", "enable_grad", "equal", "finfo",
    "get_default_dtype", "get_num_threads", "get_rng_state", "iinfo", "inference_mode", "initial_seed", "is_complex",
    "is_floating_point", "is_grad_enabled", "is_inference_mode_enabled", "is_nonzero", "is_tensor", "jit", "load", "manual_seed",
    "no_grad", "numel", "promote_types", "result_type", "save", "seed", "set_default_dtype", "set_default_tensor_type",
    "set_float32_matmul_precision", "set_grad_enabled", "set_num_threads", "set_printoptions", "set_rng_state", "size",
    "typename", "use_deterministic_algorithms", "vmap",
})  # fmt: skip

#: methods of tensors that return no tensor
_PLAIN_METHODS = frozenset({
    "allclose", "equal",
    "backward", "data_ptr", "dim", "element_size", "get_device", "is_complex", "is_contiguous", "is_cuda", "is_floating_point",
    "is_signed", "item", "ndimension", "nelement", "numel", "numpy", "register_hook", "size", "storage", "storage_offset",
    "stride", "tolist", "type_",
})  # fmt: skip

#: methods that every object of some common type has: on an object of unknown type they say nothing
_COMMON = frozenset({name for kind in (str, bytes, list, dict, set, int, float, complex, tuple) for name in dir(kind)}) | frozenset({
    "abs", "add", "all", "any", "apply", "argmax", "argmin", "argsort", "astype", "backward", "bool", "byte", "ceil", "char",
    "choice", "clip", "close", "corr", "cov", "cpu", "cumsum", "data", "diagonal", "diff", "dim", "dot", "double", "eq", "eval",
    "exp", "fill", "filter", "flatten", "float", "floor", "ge", "get", "gt", "half", "histogram", "int", "isna", "isnull", "item",
    "le", "load", "log", "long", "lt", "map", "max", "mean", "median", "min", "name", "ne", "nonzero", "norm", "numpy", "open",
    "power", "prod", "put", "quantile", "read", "rename", "repeat", "reshape", "resize", "round", "run", "sample", "save",
    "select", "send", "short", "shuffle", "size", "sort", "split", "sqrt", "squeeze", "stack", "start", "std", "step",
    "sum", "swapaxes", "t", "take", "to", "tobytes", "tofile", "tolist", "trace", "train", "transpose", "type", "unique",
    "unstack", "update", "values", "var", "view", "where", "write",
})  # fmt: skip

#: classes of PyTorch whose methods are known by name where the object's type is not
_OWNERS = ("torch.Tensor", "torch.nn.Module", "torch.optim.Optimizer", "torch.optim.lr_scheduler.LRScheduler")


@cache
def guessed_owner(method: str) -> str | None:
    """The class of PyTorch that an unknown object's method must belong to.

    None where other objects have it too.
    """
    if method in _COMMON or method.startswith("_"):
        return None
    table = stored("torch")
    for owner in _OWNERS:
        if f"{owner}.{method}" in table:
            return owner
    return None


#: parts of names that people give to objects of a class, and its methods that are common names
_HINTS = (
    ("torch.optim.Optimizer", ("optim",), frozenset({"step", "zero_grad", "state_dict", "load_state_dict"})),
    ("torch.optim.lr_scheduler.LRScheduler", ("sched",), frozenset({"step", "state_dict", "load_state_dict"})),
    ("torch.nn.Module", ("model", "net", "module"), frozenset({"train", "eval", "to", "apply", "float", "half", "double", "cuda", "cpu"})),
    (
        "torch.Tensor",
        ("loss", "logit", "tensor"),
        frozenset({"backward", "item", "mean", "sum", "detach", "cpu", "numpy", "argmax", "max"}),
    ),
)


def hinted_owner(receiver: ast.expr, method: str) -> str | None:
    """The class that an object's name speaks for, such as ``optimizer.step()``."""
    name = receiver.id if isinstance(receiver, ast.Name) else getattr(receiver, "attr", "")
    text = name.casefold()
    for owner, parts, methods in _HINTS:
        if method in methods and any(part in text for part in parts):
            return owner
    return None


@cache
def could_be(method: str) -> bool:
    """Whether an object of PyTorch has a method of this name."""
    return any(f"{owner}.{method}" in stored("torch") for owner in _OWNERS)


@cache
def is_module(name: str) -> bool:
    """Whether a class is a layer: its objects have the methods of ``nn.Module``."""
    home, _, last = name.rpartition(".")
    if not last[:1].isupper():
        return False
    return home in ("torch.nn", "torch.nn.parallel", "torchvision.ops") or home.startswith(("torch.nn.modules", "torchvision.models"))


@cache
def owner_of(name: str) -> str:
    """The class whose methods the objects of a class of PyTorch have."""
    if name in ("torch.Tensor", "torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.FloatTensor", "torch.LongTensor"):
        return "torch.Tensor"
    if name.startswith("torch.optim.lr_scheduler."):
        return "torch.optim.lr_scheduler.LRScheduler"
    if name.startswith("torch.optim."):
        return "torch.optim.Optimizer"
    if is_module(name):
        return "torch.nn.Module"
    return name


@cache
def result_of(name: str) -> Value:
    """What a call of a framework returns, as far as methods of it are concerned."""
    home, _, last = name.rpartition(".")
    root = home.partition(".")[0] or name
    if root in LIBRARIES:
        return None
    if last[:1].isupper():
        owner = owner_of(name)
        return Instance(owner if owner == "torch.Tensor" else name)
    if home == "torch":
        return None if last in _NO_TENSORS else TENSOR
    if home in ("torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.nn.init"):
        return TENSOR
    if home in ("torchvision.models", "torchvision.models.detection", "torchvision.models.segmentation", "torchvision.models.video"):
        return Instance("torch.nn.Module")
    return None


def result_of_method(owner: str, method: str) -> Value:
    """What a method returns."""
    if owner == "torch.Tensor":
        return None if method in _PLAIN_METHODS else TENSOR
    if owner == "torch.nn.Module" and method in (
        "to",
        "cuda",
        "cpu",
        "eval",
        "train",
        "half",
        "float",
        "double",
        "requires_grad_",
        "apply",
    ):
        return Instance("torch.nn.Module")
    return None
