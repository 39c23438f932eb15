"""The sides' functions about data, metrics and prediction, as comments to fill in.

What the repository itself calls and defines stands in them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.errors import shortened
from paralign.scaffold.survey import Kind, Place, filled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from paralign.scaffold.survey import Definition, File, Method, Survey

#: calls, own classes or functions of one kind that are listed
MOST = 12

#: characters of a call in a comment
LONGEST = 160

#: what functions that compute a metric, or a loss, call what they are given
OUTPUTS = ("outputs", "output", "logits", "preds", "pred", "predictions", "prediction", "scores", "y_pred", "y_hat", "forecast")
LABELS = ("labels", "label", "targets", "target", "y", "y_true", "gt", "masks", "mask", "truth", "actual")

#: beginnings of the names of functions that predict
_PREDICTS = ("predict", "infer", "detect", "generate", "recognize", "recognise", "transcribe", "forecast")

#: parts of names of functions that give a loss
_LOSSES = ("loss", "criterion")


@dataclass
class Data:
    """What a repository has of data, metrics and prediction: code and where it stands."""

    sets: list[tuple[str, Place]] = field(default_factory=list)
    loaders: list[tuple[ast.Call, Place]] = field(default_factory=list)
    transforms: list[tuple[list[str], Place]] = field(default_factory=list)
    samplers: list[tuple[str, Place]] = field(default_factory=list)
    metrics: list[tuple[Method, Place]] = field(default_factory=list)
    predictions: list[tuple[Method, Place]] = field(default_factory=list)


def gather(found: Survey) -> Data:
    """Find them in the files that were read."""
    data = Data()
    own = {each.name for each in found.classes(Kind.DATASET)}
    for file in found.files:
        for call, name in file.calls:
            _add_call(data, call, name, own, (file, found))
        data.samplers += [
            (f"{each.name}({', '.join(map(str, each.parameters))})", each.place)
            for each in file.classes
            if any(base.endswith("Sampler") for base in each.bases)
        ]
        for function in file.functions:
            place = Place(file.path, function.line)
            losses = [use.place.line for use in found.used(Kind.LOSS) if use.place.path == file.path]
            if _is_metric(function) and not any(function.line <= line <= function.end for line in losses):
                data.metrics.append((function, place))
            elif function.gives and function.name.startswith(_PREDICTS):
                data.predictions.append((function, place))
    return data


def _add_call(data: Data, call: ast.Call, name: str, own: set[str], within: tuple[File, Survey]) -> None:
    """Keep a call that makes a data set, a loader or a list of transforms."""
    file, found = within
    place, last = Place(file.path, call.lineno), name.rpartition(".")[2]
    if last not in own | {"DataLoader", "Compose"} and not name.startswith("torchvision.datasets."):
        return
    try:
        given = filled(call, found.options, file.kept_at(call.lineno))
    except RecursionError:  # generated code
        return
    if last in own:
        data.sets.append((ast.unparse(given), place))
    elif name.startswith("torchvision.datasets.") and last[:1].isupper():
        data.sets.append((_resolved(given, file), place))
    elif last == "DataLoader" and name.startswith("torch.utils.data.") and isinstance(given, ast.Call):
        data.loaders.append((given, place))
    elif last == "Compose" and isinstance(given, ast.Call) and given.args and isinstance(given.args[0], ast.List):
        data.transforms.append(([_resolved(each, file) for each in given.args[0].elts], place))


def _is_metric(function: Method) -> bool:
    """Whether a function is given outputs and labels alone, and gives no loss."""
    names = function.required
    if not function.gives or len(names) != 2 or any(part in function.name.lower() for part in _LOSSES):  # noqa: PLR2004 - both
        return False
    return names[0] in OUTPUTS and names[1] in LABELS


def _resolved(node: ast.expr, file: File) -> str:
    """Code with the names of imports spelled out."""
    bound = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    bound |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}

    class Speller(ast.NodeTransformer):
        def visit_Name(self, each: ast.Name) -> ast.AST:
            known = each.id if each.id in bound else file.aliases.get(each.id, each.id)
            return ast.parse(known, mode="eval").body

    return ast.unparse(ast.fix_missing_locations(Speller().visit(node)))


def commented(
    found: Survey, prefix: str, imported: Callable[[Path, str], str], named: Callable[[str], str], comment: Callable[[str], str]
) -> str:
    """The functions as comments.

    Args:
        found: the repository.
        prefix: of the places: the port's folder, or ''.
        imported: the import of a name from a file, on lines of its own.
        named: what a dotted name of PyTorch is on this side.
        comment: makes a text one that stays on its comment's line.
    """
    data, sets = gather(found), found.classes(Kind.DATASET)
    lines = ["# Stages without their functions are skipped and reported as not tested. Fill in and uncomment:"]
    lines += [f"# {each.name}({', '.join(map(str, each.parameters))})  {prefix}{each.place}" for each in sets[:MOST]]
    parts = [
        ("build_dataset(split)", "Anything with a length and indices; split is what [data] split says.", _dataset(data, sets, imported)),
        ("build_dataloader(split)", "Batches, not shuffled for evaluation.", _loader(data, found, imported, named)),
        ("transforms(split)", "The list of transforms, so that each can be compared.", _transforms(data)),
        ("metric(outputs, labels)", "A number, or a dict of them.", _metric(data, imported)),
        ("predict(path, model)", "What the prediction program gives for a file.", _predict(data, imported)),
    ]
    for signature, said, body in parts:
        lines += ["#", f"# def {signature}:", f'#     """{said}"""', *(f"#     {line}" for line in body)]
    return "\n".join(map(comment_of(comment), lines)) + "\n"


def comment_of(comment: Callable[[str], str]) -> Callable[[str], str]:
    """Keep a line's indentation and its quotes, and let the rest stay on it."""

    def kept(line: str) -> str:
        if line.endswith('"""'):
            return line
        body = line.lstrip("# ")
        return line[: len(line) - len(body)] + "  ".join(map(comment, body.split("  "))) if body else line

    return kept


def _listed(calls: list[tuple[str, Place]], word: str = "also") -> list[str]:
    return [f"# {word}: {shortened(text, LONGEST)}  {place}" for text, place in calls[:MOST]]


def _dataset(data: Data, sets: list[Definition], imported: Callable[[Path, str], str]) -> list[str]:
    lines = _listed(data.sets, "called as")
    if sets:
        name = sets[0].name
        ready = next((text for text, _ in data.sets if _is_call_with_split(text, name)), f"{name}(…)")
        return [*lines, *_lines(imported(sets[0].place.path, name)), f"return {ready}"]
    if data.sets:
        return [*lines, "import torchvision", f"return {data.sets[0][0].partition('(')[0]}(…)"]
    return [*lines, "return …"]


def _is_call_with_split(text: str, name: str) -> bool:
    """Whether a call of a data set can stand in ``build_dataset(split)`` as it is.

    It is given ``split`` and constants alone.
    """
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != name:
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg is not None)]
    if len(given) < len(call.args) + len(call.keywords):
        return False
    known = [isinstance(each, ast.Constant) or (isinstance(each, ast.Name) and each.id == "split") for each in given]
    return all(known) and any(isinstance(each, ast.Name) for each in given)


def _loader(data: Data, found: Survey, imported: Callable[[Path, str], str], named: Callable[[str], str]) -> list[str]:
    lines = _listed(data.samplers, "own sampler")
    if not data.loaders:
        return lines
    lines += _listed([(ast.unparse(call), place) for call, place in data.loaders], "called as")
    call, _ = data.loaders[0]
    given = [each for each in call.keywords if each.arg not in ("dataset", "generator", "worker_init_fn")]
    texts = ["build_dataset(split)", *map(ast.unparse, call.args[1:])]
    for each in given:
        value = ast.unparse(each.value)
        texts.append(f"{each.arg}={value}" if each.arg else f"**{value}")
        own = [file.path for file in found.files for function in file.functions if each.arg == "collate_fn" and function.name == value]
        lines += [line for path in own[:1] for line in _lines(imported(path, value))]
    return [*lines, f"return {named('torch.utils.data.DataLoader')}({', '.join(texts)})"]


def _transforms(data: Data) -> list[str]:
    if not data.transforms:
        return []
    texts = [(f"[{', '.join(steps)}]", place) for steps, place in data.transforms]
    imports = [f"import {name}" for name in dict.fromkeys(name for step in data.transforms[0][0] for name in _roots(step))]
    return [*_listed(texts[1:]), *imports, f"return {texts[0][0]}  # {texts[0][1]}"]


def _roots(text: str) -> list[str]:
    """The modules that code of dotted names begins with; those that it binds itself are none."""
    tree = ast.parse(text.lstrip("*"), mode="eval")
    bound = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    bound |= {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    owners = [each.value for each in ast.walk(tree) if isinstance(each, ast.Attribute)]
    return [each.id for each in owners if isinstance(each, ast.Name) and each.id not in bound]


def _metric(data: Data, imported: Callable[[Path, str], str]) -> list[str]:
    if not data.metrics:
        return []
    function, place = data.metrics[0]
    others = [(each.name, at) for each, at in data.metrics[1:]]
    return [*_listed(others), *_lines(imported(place.path, function.name)), f"return {function.name}(outputs, labels)"]


def _predict(data: Data, imported: Callable[[Path, str], str]) -> list[str]:
    if not data.predictions:
        return []
    function, place = data.predictions[0]
    others = [(each.name, at) for each, at in data.predictions[1:]]
    given = ", ".join(map(str, function.parameters))
    return [
        *_listed(others),
        *_lines(imported(place.path, function.name)),
        f"return {function.name}(…)  # {place}: {function.name}({given})",
    ]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
