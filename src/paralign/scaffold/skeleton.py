"""The files of a project: two sides with the reference's names, the port's tree."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paralign.capture.bounds import checked_path
from paralign.catalogue.naming import paddle_name
from paralign.catalogue.parameters import stored
from paralign.errors import UsageError, quoted, unwritten
from paralign.scaffold import input_tables
from paralign.scaffold.data_functions import LABELS, MOST, OUTPUTS, commented
from paralign.scaffold.survey import GIVEN, Kind, Use, unpacks

if TYPE_CHECKING:
    import ast
    from pathlib import Path

    from paralign.scaffold.survey import Definition, File, Survey

#: the folder of the port in a project
PORT = "port"


@dataclass(frozen=True)
class Asked:
    """What a loss is called with, as code; ``check`` says what it asks of the outputs."""

    arguments: str
    check: str = ""


_BOTH = Asked("outputs, labels")
_PAIR = Asked("outputs[0], outputs[1], labels", "outputs are the pair of inputs that it compares")
_THREE = Asked("outputs[0], outputs[1], outputs[2]", "outputs are anchor, positive and negative; it takes no labels")

#: losses of PyTorch that are not called with outputs and labels alone
_ASKED = {
    "torch.nn.CTCLoss": Asked(
        "outputs, labels['targets'], labels['input_lengths'], labels['target_lengths']",
        "outputs are [steps, batch, symbols] after log_softmax: where the training loop does that, do it here",
    ),
    "torch.nn.CosineEmbeddingLoss": _PAIR,
    "torch.nn.MarginRankingLoss": _PAIR,
    "torch.nn.TripletMarginLoss": _THREE,
    "torch.nn.TripletMarginWithDistanceLoss": _THREE,
    "torch.nn.GaussianNLLLoss": Asked("outputs[0], labels, outputs[1]", "outputs are the mean and the variance"),
}


@dataclass(frozen=True)
class Chosen:
    """What the sides' functions are made of; None for what the repository does not show."""

    model: Definition
    loss: Use | Definition | None
    optimizer: Use | None
    scheduler: Use | None


def choose(found: Survey, model: str = "") -> Chosen:
    """Pick what the sides build: the model that is named, else a whole one.

    Of the rest what a program uses first.

    Raises:
        UsageError: there is no model class, or none of that name.
    """
    models = found.models
    if not models:
        raise UsageError(
            f"none of {len(found.files)} Python files has a class of torch.nn.Module",
            where=str(found.root),
            hint="name the folder of the model's code; `paralign init DIR` alone writes an example to fill in",
        )
    named = [each for each in [*models, *found.classes(Kind.LOSS)] if each.name == model]  # the user's word counts
    if model and not named:
        raise UsageError(
            f"there is no model class {quoted(model)}", where=str(found.root), hint="classes: " + ", ".join(m.name for m in models[:MOST])
        )
    loss: Use | Definition | None = _first([use for use in found.used(Kind.LOSS) if not _is_inside_own_loss(use, found)])
    if loss is None:
        loss = next(iter(found.classes(Kind.LOSS)), None)
    return Chosen(
        named[0] if named else models[0],
        loss,
        _first(found.used(Kind.OPTIMIZER)),
        _first(found.used(Kind.SCHEDULER)),
    )


def _is_inside_own_loss(use: Use, found: Survey) -> bool:
    """Whether a call is a part of a loss class of the repository: the class is the loss then."""
    return any(each.place.path == use.place.path and each.place.line <= use.place.line <= each.end for each in found.classes(Kind.LOSS))


def _first(uses: list[Use]) -> Use | None:
    """The first use that can be written down as it stands, else the first."""
    literal = [each for each in uses if each.literal]
    return next(iter(literal or uses), None)


def write(directory: Path, found: Survey, model: str = "") -> list[Path]:
    """Write a project: ``paralign.toml``, both sides' modules, and the port's tree.

    Args:
        directory: a folder, which is made where it is not there.
        found: the reference repository.
        model: the class of the model; '' takes the likeliest.

    Raises:
        UsageError: no model class; the folder lies in the repository or one of the files is there already: then none is written.
        WriteFailed: a file cannot be written; then none is.
    """
    target = checked_path(directory).resolve()
    if found.root == target or found.root in target.parents:
        raise UsageError("the project would lie in the reference repository", where=str(directory), hint="name a folder beside it")
    if target.is_file():
        raise UsageError("this is a file", where=str(directory), hint="name a folder, new or empty")
    chosen = choose(found, model)
    back = os.path.relpath(found.root, target)
    texts = {
        "paralign.toml": _project(found, chosen, back),
        "reference.py": _reference(found, chosen),
        "candidate.py": _candidate(found, chosen),
        **{f"{PORT}/{path}": text for path, text in _tree(found, back).items()},
    }
    there = [name for name in texts if (target / name).exists()]
    if there:
        raise UsageError(
            f"{', '.join(there[:3])} would be overwritten", where=str(directory), hint="name another folder, or move them away"
        )
    written: list[Path] = []
    try:
        for name, text in texts.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text, encoding="utf-8")
            written.append(target / name)
    except OSError as fault:
        for path in written:  # none of them was there before
            with suppress(OSError):
                path.unlink()
        raise unwritten(directory, fault, "the project") from fault
    return [directory / name for name in texts]


def _project(found: Survey, chosen: Chosen, back: str) -> str:
    return f"""\
# A port of {_comment(found.root.name)} under test. Run it with: paralign check
# docs/project.md lists all keys.

out = "result"

[reference]
module = "reference.py"
root = {_text(back)}      # put on the path first: what reference.py imports lies there
framework = "torch"

[candidate]
module = "candidate.py"
root = "{PORT}"
framework = "paddle"

{input_tables.inputs(found, chosen.model)}
{input_tables.labels(found, chosen.model, chosen.loss)}"""


def _text(path: str) -> str:
    """A path as a TOML string."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _comment(text: str) -> str:
    """A text that stays on its comment's line, and ends no docstring."""
    return " ".join(text.split()).replace('"""', "'''").replace("\\", "/")


# -- the sides -----------------------------------------------------------------------------------------------------------------


def _reference(found: Survey, chosen: Chosen) -> str:
    parts = [
        f'"""The reference side, filled in from the source of {_comment(found.root.name)}. Look at every line marked CHECK."""\n',
        "import torch\nfrom torch import nn, optim\nfrom torch.nn import functional as F\n",
        _build_model(found, chosen.model, "the reference's weights: load a checkpoint here if there is one"),
    ]
    if chosen.loss is not None:
        parts.append(_filled("loss(outputs, labels)", chosen.loss, found))
    if chosen.optimizer is not None:
        parts.append(_filled("build_optimizer(model)", chosen.optimizer, found))
    if chosen.scheduler is not None:
        parts.append(_filled("build_scheduler(optimizer)", chosen.scheduler, found))
    return "\n\n".join([*parts, _commented(found, "")])


def _build_model(found: Survey, model: Definition, what: str) -> str:
    """``build_model()`` of either side, with the import inside."""
    others = [each for each in found.models if each is not model][:MOST]
    listed = "".join(f"    # also there: {each.name}  {each.place}\n" for each in others)
    arguments = ", ".join(str(each) for each in model.parameters)
    head = f'def build_model():\n    """{what}."""\n{listed}'
    imported = _runs(found, model.place.path) + _import(model.place.path, model.name)
    calls = [(file.path, each) for file in found.files for each in _calls_of(file, model)]
    literal = next((each for each in calls if input_tables.is_whole(each[1], found)), None)
    if literal is not None:
        place, call = literal
        return f"{head}{imported}    return {input_tables.whole(call, model, found)}  # as {place.as_posix()}:{call.lineno}\n"
    import ast

    seen = f"    # called as: {_comment(ast.unparse(calls[0][1]))}\n" if calls else ""
    if not model.required:
        return f"{head}{imported}    return {model.name}()  # {model.place}: {model.name}({_comment(arguments)})\n"
    needed = ", ".join(model.required)
    told = f"    # {model.place}: {model.name}({_comment(arguments)})\n{seen}"
    return f'{head}{imported}{told}    raise NotImplementedError("CHECK: build {model.name} with {needed}")\n'


def _calls_of(file: File, model: Definition) -> list[ast.Call]:
    """How a file builds a model, outside of its class."""
    found = [call for call, name in file.calls if name.rpartition(".")[2] == model.name]
    if file.path != model.place.path:
        return found
    inside = range(model.place.line, model.end + 1)
    return [call for call in found if call.lineno not in inside]


def _runs(found: Survey, path: Path) -> str:
    """A warning where importing a file does more than define."""
    if not any(file.path == path and file.runs for file in found.files):
        return ""
    told = "runs what stands outside of its functions: guard that by __name__, or move it"
    return f"    # CHECK: importing {_comment(path.as_posix())} {told}\n"


def _import(path: Path, name: str) -> str:
    """An import of a name from a file below the root, or why there can be none."""
    parts = [*path.parent.parts, path.stem]
    parts = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
    if not all(part.isidentifier() for part in parts):
        return f"    # CHECK: {_comment(str(path))} is no name that can be imported: import {name} by hand\n"
    return f"    from {'.'.join(parts)} import {name}\n\n"


def _filled(signature: str, what: Use | Definition | None, found: Survey) -> str:
    """A function of the reference, from the call that the repository has."""
    if what is None:
        return ""
    if not isinstance(what, Use):
        return _own_loss(signature, what, found)
    kind = {"loss": "the loss", "build_optimizer": "the optimizer", "build_scheduler": "the schedule"}[signature.partition("(")[0]]
    others = [f"    # also there: {_comment(each.text)}  {each.place}\n" for each in found.used(what.kind) if each is not what][:MOST]
    head = f'def {signature}:\n    """As {what.place} has {kind}."""\n{"".join(others)}'
    text = _call(what)
    if what.literal:
        check = _ASKED.get(what.name, _BOTH).check
        return head + (f"    # CHECK: {check}\n" if check else "") + f"    return {text}\n"
    own = _own_function(what)
    if own:
        return f"{head}{_import(what.place.path, own.partition('(')[0])}    return {own}\n"
    if what.alone:
        return f"{head}    return {text}\n"
    if what.within is not None:
        given = ", ".join(_comment(str(each)) for each in what.within.parameters)
        head += f"    # {what.within.name}({given}) of {what.place.path.as_posix()} makes it\n"
    return f'{head}    # {_comment(what.text)}\n    raise NotImplementedError("CHECK: write the call of {what.place} with its values")\n'


#: what functions that make an optimizer or a schedule, or compute a loss, call what a side's function is given
_GIVEN_AS = {
    Kind.OPTIMIZER: (
        {
            **dict.fromkeys(("model", "net", "network"), "model"),
            **dict.fromkeys(("params", "parameters"), "model.parameters()"),
        },
    ),
    Kind.SCHEDULER: (dict.fromkeys(("optimizer", "optim", "opt"), "optimizer"),),
    Kind.LOSS: (
        dict.fromkeys(OUTPUTS, "outputs"),
        dict.fromkeys(LABELS, "labels"),
    ),
}


def _own_function(use: Use) -> str:
    """The call of the repository's function around a use; '' where there is none.

    Nor where it takes other things than the side's function is given.
    """
    if use.within is None or use.kind not in _GIVEN_AS:
        return ""
    named, known = use.within.required, _GIVEN_AS[use.kind]
    if len(named) != len(known) or any(name not in names for name, names in zip(named, known, strict=True)):
        return ""
    return f"{use.within.name}({', '.join(names[name] for name, names in zip(named, known, strict=True))})"


def _own_loss(signature: str, what: Definition, found: Survey) -> str:
    """A loss class of the repository, built as its programs or configurations build it."""
    import ast

    head = f'def {signature}:\n    """The repository\'s own {what.name}."""\n{_import(what.place.path, what.name)}'
    calls = [(file.path, each) for file in found.files for each in _calls_of(file, what)]
    literal = next((each for each in calls if input_tables.is_whole(each[1], found)), None)
    if literal is not None:
        place, call = literal
        return f"{head}    return {input_tables.whole(call, what, found)}(outputs, labels)  # as {place.as_posix()}:{call.lineno}\n"
    seen = f"    # called as: {_comment(ast.unparse(calls[0][1]))}\n" if calls else ""
    if what.required:
        return f'{head}{seen}    raise NotImplementedError("CHECK: build {what.name} with {", ".join(what.required)}")\n'
    check = "CHECK: not as it is called, " if calls else ""
    return f"{head}{seen}    return {what.name}()(outputs, labels)  # {check}{what.place}\n"


def _call(use: Use) -> str:
    """The call with what the side's function is given in the place of what the program had."""
    import ast

    call = _first_call_in(use.text)
    own = ast.parse(use.name, mode="eval").body
    keywords = [each for each in call.keywords if each.arg not in GIVEN]
    if use.kind is Kind.LOSS:
        if use.name.startswith("torch.nn.functional."):
            return ast.unparse(ast.Call(own, [ast.Name("outputs"), ast.Name("labels"), *call.args[2:]], keywords))
        return f"{ast.unparse(ast.Call(own, call.args, keywords))}({_ASKED.get(use.name, _BOTH).arguments})"
    first = "model.parameters()" if use.kind is Kind.OPTIMIZER else "optimizer"
    named = any(each.arg in ("params", "optimizer") for each in call.keywords)
    given = call.args if named else call.args[1:]
    return ast.unparse(ast.Call(own, [ast.parse(first, mode="eval").body, *given], keywords))


def _first_call_in(text: str) -> ast.Call:
    """The outermost call of an expression that holds one."""
    import ast

    return next(node for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Call))


def _candidate(found: Survey, chosen: Chosen) -> str:
    names = {each: _in_paddle(each) for each in (chosen.loss, chosen.optimizer, chosen.scheduler) if each is not None}
    parts = [
        f'"""The candidate side: the port below {PORT}/. Same functions as reference.py, same meaning."""\n',
        "import paddle\nfrom paddle import nn\n",
        _build_model(found, chosen.model, "the ported model; its weights are taken from the reference"),
    ]
    for signature, what in (
        ("loss(outputs, labels)", chosen.loss),
        ("build_optimizer(model)", chosen.optimizer),
        ("build_scheduler(optimizer)", chosen.scheduler),
    ):
        if what is not None:
            own = _own_function(what) if isinstance(what, Use) and not what.literal else ""
            if own:
                imported = _import(what.place.path, own.partition("(")[0]).strip()
                parts.append(
                    f"# def {signature}:\n#     {imported}\n#     return {own}  # as {what.place.path.as_posix()} of the reference\n"
                )
                continue
            text = what.text if isinstance(what, Use) else what.name
            place = names[what] or "no class of Paddle's: see `paralign explain`"
            parts.append(f"# def {signature}:\n#     {place}(…)  # {what.place}: {_comment(text)}\n")
    return "\n\n".join([*parts, _commented(found, f"{PORT}/")])


def _in_paddle(what: Use | Definition) -> str:
    """What a call of PyTorch is called in Paddle; a class of the repository keeps its name."""
    if not isinstance(what, Use):
        return what.name
    if what.name == "torch.optim.SGD" and _has_momentum(what.text):
        return "paddle.optimizer.Momentum"  # Paddle's SGD has none
    return paddle_name(what.name, stored("paddle"))


def _has_momentum(text: str) -> bool:
    """Whether a call of SGD gives a momentum other than 0, or settings that may hold one."""
    import ast

    call = _first_call_in(text)
    if unpacks(call):
        return True
    given = {each.arg: each.value for each in call.keywords}.get("momentum")
    if given is None and len(call.args) > 2:  # noqa: PLR2004 - SGD(params, lr, momentum)
        given = call.args[2]
    if given is None:
        return False
    return not isinstance(given, ast.Constant) or bool(given.value)


def _commented(found: Survey, prefix: str) -> str:
    """The functions about data and prediction as comments."""
    return commented(found, prefix, _import, _base if prefix else str, _comment)


# -- the port's tree -----------------------------------------------------------------------------------------------------------


def _tree(found: Survey, back: str) -> dict[str, str]:
    """Path -> text of the port's files, each a list of what to port."""
    return {path.path.as_posix(): _mirrored(path, back) for path in found.files}


def _mirrored(file: File, back: str) -> str:
    lines = [f'"""Port of {_comment(back)}/{_comment(file.path.as_posix())}."""']
    for each in file.classes:
        bases = ", ".join(_base(base) for base in each.bases)
        lines += ["", f"# class {each.name}({bases}):  # line {each.place.line} of the reference"]
        for method in each.methods:
            lines.append(f"#     def {method.name}({', '.join(_comment(str(p)) for p in method.parameters)}): ...")
    for function in file.functions:
        parameters = ", ".join(_comment(str(p)) for p in function.parameters)
        lines += ["", f"# def {function.name}({parameters}): ...  # line {function.line} of the reference"]
    return "\n".join(lines) + "\n"


def _base(name: str) -> str:
    """A base class as Paddle calls it; one of the repository by its own name."""
    return (paddle_name(name, stored("paddle")) if name.startswith("torch.") else "") or name
