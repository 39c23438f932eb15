"""``[inputs]`` and ``[labels]`` of a project, from an example in the reference's code."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.report.language import say
from paralign.scaffold.survey import Use, filled, is_literal, unpacks

if TYPE_CHECKING:
    from paralign.scaffold.examples import Example, Tensor
    from paralign.scaffold.survey import Definition, Parameter, Survey

#: parameters of models that are the number of classes
_CLASSES = ("num_classes", "n_classes", "classes", "nclass", "num_labels", "class_num", "nb_classes", "num_class")

#: losses whose labels are values of the outputs' own shape
_VALUES = ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "mse_loss", "l1_loss", "smooth_l1_loss",
           "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")  # fmt: skip

#: labels of a loss over sequences whose lengths are given: at most as many symbols as four steps can hold, repeated ones included
_SEQUENCES = """\
# handed to loss(outputs, labels) as a dict
[labels.targets]          # CHECK: symbols of each sample, without the blank (0)
shape = [{batch}, 3]
dtype = "int64"
low = 1
high = 2                  # CHECK: the number of symbols

[labels.input_lengths]    # CHECK: steps of each sample, at most as many as the outputs have
shape = [{batch}]
dtype = "int64"
low = 4
high = 5

[labels.target_lengths]   # CHECK: symbols of each sample
shape = [{batch}]
dtype = "int64"
low = 1
high = 3
"""

#: parameters of a forward that are no tensor of the training data
_OWN = ("self",)


def is_whole(call: ast.Call, found: Survey) -> bool:
    """Whether all arguments of a call are literals, with the command line's defaults in place."""
    if unpacks(call):
        return False
    values = [*call.args, *(each.value for each in call.keywords)]
    return all(is_literal(filled(each, found.options)) for each in values)


def whole(call: ast.Call, model: Definition, found: Survey) -> str:
    """Such a call as code, under the model's own name."""
    keywords = [ast.keyword(each.arg, filled(each.value, found.options)) for each in call.keywords]
    return ast.unparse(ast.Call(ast.Name(model.name), [filled(each, found.options) for each in call.args], keywords))


def inputs(found: Survey, model: Definition) -> str:
    """The tables of what a model is called with."""
    parameters = _parameters(model)
    called = f"what {model.name}.forward is called with: {', '.join(map(str, parameters)) or 'unknown'}"
    example = _example(found, model)
    if example is not None:
        return _known(example, called, parameters)
    needed = [each for each in parameters if each.is_needed] or parameters[:1]
    head = f"# CHECK: {called}.\n# No call of it with a tensor of known shape was found: fill in the shape and type of each.\n"
    if len(needed) > 1:
        return head + "".join(f'\n[[inputs]]                # {each.name}\n# shape = [2, …]\ndtype = "float32"\n' for each in needed)
    return f'{head}[inputs]\n# shape = [2, …]\ndtype = "float32"\n'


def told(found: Survey, model: Definition) -> str:
    """A line for the user: where the inputs' shapes come from, or what is to be filled in."""
    example = _example(found, model)
    if example is None:
        told = "  inputs of {model}: no call with a tensor of known shape was found: fill in [inputs] in paralign.toml"
        return say(told, model=model.name)
    shapes = ", ".join(f"{list(each.shape)} {each.dtype}" for each in example.tensors)
    return say("  inputs of {model}: ", model=model.name) + f"{shapes} ({example.path.as_posix()}:{example.line})"


def _parameters(model: Definition) -> list[Parameter]:
    forward = model.method("forward")
    if forward is None:
        return []
    return [each for each in forward.parameters if each.name not in _OWN]


def _example(found: Survey, model: Definition) -> Example | None:
    """A call of this model.

    One of a variable that bears a model's name counts where no other model could be meant.
    """
    calls = [each for each in found.examples if not each.loss]
    candidates = [each for each in calls if each.called == model.name]
    if found.models[:1] == [model]:
        candidates += [each for each in calls if not each.called]
    most = max(len(_parameters(model)), 1)
    for each in candidates:
        if len(each.tensors) <= most:
            return each
    return None


def _known(example: Example, called: str, parameters: list[Parameter]) -> str:
    """The tables of an example.

    Several inputs by position, or by keyword where the call names them.
    """
    place = f"{example.path.as_posix()}:{example.line}"
    head = f"# {called}; the shapes are those of {place}\n"
    tensors = example.tensors
    if len(tensors) == 1 and not tensors[0].name:
        return f"{head}[inputs]\n{_table(tensors[0])}"
    if all(each.name for each in tensors):
        return head + "\n".join(f"[inputs.{each.name}]\n{_table(each)}" for each in tensors)
    names = [each.name for each in parameters] + [""] * len(tensors)
    tables = [f"[[inputs]]                # {name}\n{_table(each)}" for name, each in zip(names, tensors, strict=False)]
    return head + "\n".join(tables)


def _table(tensor: Tensor) -> str:
    lines = f'shape = {list(tensor.shape)}\ndtype = "{tensor.dtype}"\n'
    if tensor.dtype.startswith("int"):
        high = (
            f"high = {tensor.high}\n"
            if tensor.high
            else "high = 2                  # CHECK: values are below this, such as a vocabulary's size\n"
        )
        lines += f"low = 0\n{high}"
    return lines


def labels(found: Survey, model: Definition, loss: Use | Definition | None) -> str:
    """The table of what a loss is given beside the outputs."""
    head = "[labels]                  # handed to loss(outputs, labels)\n"
    if isinstance(loss, Use):
        last = loss.name.rpartition(".")[2]
        if last == "CTCLoss" and loss.name.startswith("torch."):
            return _SEQUENCES.format(batch=_batch(found, model))
    else:
        last = "" if loss is None else loss.name
    example = next((each for each in found.examples if each.loss), None)
    if example is not None:
        tensor = example.tensors[0]
        classes = tensor.high or _classes(found, model)
        place = f"# the shape is that of {example.path.as_posix()}:{example.line}\n"
        return f"{place}{head}shape = {list(tensor.shape)}\n" + _values(tensor.dtype, classes)
    if last in _VALUES:
        return f'{head}# shape = [2, …]          # CHECK: the shape of the outputs, which {last} compares with\ndtype = "float32"\n'
    batch = _batch(found, model)
    return (
        f"{head}shape = [{batch}]               # CHECK: one number a sample; a class for every pixel: [{batch}, height, width]\n"
        + _values("int64", _classes(found, model))
    )


def _batch(found: Survey, model: Definition) -> int:
    example = _example(found, model)
    return 2 if example is None else example.tensors[0].shape[0]


def _values(dtype: str, classes: int | None) -> str:
    if not dtype.startswith("int"):
        return f'dtype = "{dtype}"\n'
    told = f"high = {classes}\n" if classes else "high = 2                  # CHECK: the number of classes\n"
    return f'dtype = "{dtype}"\nlow = 0\n{told}'


def _classes(found: Survey, model: Definition) -> int | None:
    """The number of classes: of the call, a default, or the command line."""
    known = {each.name: each.default for each in model.parameters if each.default is not None}
    call = _first_call(found, model)
    if call is not None:
        for each in call.keywords:
            if each.arg is not None:
                known[each.arg] = ast.unparse(filled(each.value, found.options))
    texts = [known[name] for name in _CLASSES if name in known]
    texts += [ast.unparse(found.options[name]) for name in _CLASSES if name in found.options]
    for text in texts:
        if text.isdigit() and int(text) > 0:
            return int(text)
    return None


def _first_call(found: Survey, model: Definition) -> ast.Call | None:
    """The first call of a model whose arguments are known."""
    for file in found.files:
        for call, name in file.calls:
            if name.rpartition(".")[2] == model.name and is_whole(call, found):
                return call
    return None
