"""Names of PyTorch that are made at run time: ``getattr(nn, name)``."""

from __future__ import annotations

import ast
import re
import textwrap

from paralign.catalogue.naming import paddle_name
from paralign.catalogue.parameters import stored
from paralign.port.edits.ledger import Fate
from paralign.port.names.observing import place
from paralign.port.plans.adapters import adapter_of
from paralign.port.plans.conversions import conversions
from paralign.port.rewriting.mixing import Mixer

#: what configurations name, a module each; further names are those that stand in the file as texts
_COMMON = {
    "torch": "relu sigmoid tanh",
    "torch.nn": (
        "AdaptiveAvgPool2d AvgPool2d BatchNorm1d BatchNorm2d BatchNorm3d BCELoss BCEWithLogitsLoss CELU CrossEntropyLoss Dropout ELU GELU "
        "GroupNorm GRU Hardsigmoid Hardswish Hardtanh HuberLoss Identity InstanceNorm1d InstanceNorm2d KLDivLoss L1Loss LayerNorm "
        "LeakyReLU LogSigmoid LSTM MaxPool2d Mish MSELoss NLLLoss PReLU ReLU ReLU6 RMSNorm RNN SELU Sigmoid SiLU SmoothL1Loss Softmax "
        "Softplus Softsign Tanh"
    ),
    "torch.nn.functional": (
        "binary_cross_entropy binary_cross_entropy_with_logits celu cross_entropy elu gelu hardsigmoid hardswish huber_loss kl_div l1_loss "
        "leaky_relu logsigmoid mish mse_loss nll_loss relu relu6 selu sigmoid silu smooth_l1_loss softplus softsign tanh"
    ),
    "torch.optim": "Adagrad Adam AdamW Adamax NAdam RAdam RMSprop SGD",
    "torch.optim.lr_scheduler": "CosineAnnealingLR CosineAnnealingWarmRestarts ExponentialLR LambdaLR MultiStepLR OneCycleLR StepLR",
}


#: what is written of a module of which the file names nothing
_FEW = {
    "torch.nn": "GELU LayerNorm ReLU Sigmoid SiLU Tanh",
    "torch.nn.functional": "cross_entropy gelu mse_loss relu sigmoid silu tanh",
    "torch.optim": "Adam AdamW SGD",
    "torch.optim.lr_scheduler": "CosineAnnealingLR StepLR",
}

#: characters of a text that may be names; a longer one is prose
_LONGEST = 80

_INDENT = " " * 12

#: where ``%`` and ``format`` put something in
_PUT_IN = re.compile(r"%[dis]|\{\w*\}")

#: what a name consists of
_OF_NAMES = re.compile(r"\w+")

#: characters that a name made at run time shares with a known one at least
_TELLING = 3


def is_made_name(name: str) -> bool:
    """Whether a callable is one whose name is made at run time: ``torch.nn.?``."""
    return name.endswith(".?") and name[:-2] in _COMMON


class MadeNames(Mixer):
    """Look such a name up in a table of what is converted; another one raises."""

    #: words of the texts of all files of the program
    words_elsewhere: frozenset[str] = frozenset()

    def made_name(self, node: ast.Call) -> bool:
        """Write ``getattr(nn, name)``; False of another call."""
        asked = self._asked_by_name_of(node)
        if not asked or self.hidden("_by_made_name(") or self._is_asked_of_objects(node):
            return False
        self.needs("_by_made_name(")
        table = self._table(asked)
        self.visit(node.args[1])
        head = f"_by_made_name({table}, {asked!r}, "
        self.text.edit(self.text.start(node), self.text.end(node), lambda: f"{head}{self.text.within(node.args[1])})")
        told = "looked up in a table of the file; a name that is not in it raises"
        conditions = self._conditions(asked)
        self.note(node, f"{asked}.?", Fate.CONDITION if conditions else Fate.REWRITTEN, " ".join([*conditions, told]))
        return True

    def _conditions(self, module: str) -> list[str]:
        """What is said of the classes that the program names, which differ under a condition."""
        told: dict[str, list[str]] = {}
        for name in sorted(self._known(module) | self._put_together(module)):
            whole = f"{module}.{name}"
            adapter = None if whole in conversions().values or whole in conversions().constants else adapter_of(whole, self.paddle)
            for each in adapter.conditions if adapter is not None else ():
                told.setdefault(each, []).append(name)
        return [f"{', '.join(names)}: {each}" for each, names in told.items()]

    def _is_asked_of_objects(self, node: ast.Call) -> bool:
        """Whether objects are asked for the class: one of the table need not be theirs.

        Where it stands, or by what it is bound to.
        """
        tree = list(ast.walk(self._parents[0]))
        bound = {ast.unparse(target) for each in tree if isinstance(each, ast.Assign) and each.value is node for target in each.targets}
        asked: list[ast.expr] = []
        for each in tree:
            if isinstance(each, ast.Call) and getattr(each.func, "id", "") in ("isinstance", "issubclass"):
                asked += each.args[1:]
            elif isinstance(each, ast.Compare):
                asked += [each.left, *each.comparators]
        inner = [part for each in asked for part in _told(each)]
        return any(part is node or (isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part) in bound) for part in inner)

    def _asked_by_name_of(self, node: ast.AST) -> str:
        """The module of PyTorch's that a call of ``getattr`` asks; '' of another call."""
        plain = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and not node.keywords
        if not plain or not isinstance(node, ast.Call) or len(node.args) != _ASKED or isinstance(node.args[1], ast.Starred):
            return ""
        module = self.named.get(place(node.args[0]), "")
        return module if module in _COMMON and not isinstance(node.args[1], ast.Constant) else ""

    def _table(self, module: str) -> str:
        """The name of a module's table, which stands in the file from then on."""
        own = f"_{module.replace('.', '_')}"
        while own.encode() in self.text.content:
            own += "_"
        if own not in self.tables:
            found = [(name, port) for name in self._names(module) if (port := self._standing(f"{module}.{name}"))]
            home = paddle_name(f"{module}.{found[0][0]}", self.paddle).rpartition(".")[0] if found else ""
            alike = [name for name, port in found if port == f"{home}.{name}"]
            lines = "".join(f"    {name!r}: {port},\n" for name, port in found if name not in alike)
            if alike:
                spelled = textwrap.fill(" ".join(alike), 100, initial_indent=_INDENT, subsequent_indent=_INDENT)
                lines += (
                    f'    **{{\n        name: getattr({home}, name)\n        for name in """\n{spelled}\n        """.split()\n    }},\n'
                )
            self.tables[own] = f"{own} = {{  # {module} by names\n{lines}}}\n"
        return own

    def _names(self, module: str) -> list[str]:
        """The names that may be asked for: texts of the file, and what is called alike in Paddle.

        What needs a function or class of its own in the file is written where the file names it, or names none at all.
        """
        known = self._known(module)
        constants = {name.rpartition(".")[2] for name in conversions().constants if module == name.rpartition(".")[0] == "torch"}
        common = {name for name in _COMMON[module].split() if f"{module}.{name}" in conversions().values}
        few = set() if known else set(_FEW.get(module, "").split())
        return sorted({*common, *known, *self._put_together(module), *few, *(constants - {"Tensor"})})

    def _known(self, module: str) -> set[str]:
        """The names of a module that stand in the program's texts."""
        tree = self._parents[0]
        texts = {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)}
        words = self.words_elsewhere | {word for text in texts if len(text) <= _LONGEST for word in re.findall(r"\w+", text)}
        forms = {form for word in words for form in (word, word.capitalize(), word.upper(), word.lower())}
        return {form for form in forms if f"{module}.{form}" in stored("torch")}

    def _put_together(self, module: str) -> set[str]:
        """The names of a module that the file may put together."""
        patterns = _patterns(self._parents[0])
        return {name for name in stored("torch").members(module) if any(pattern.fullmatch(name) for pattern in patterns)}

    def _standing(self, name: str) -> str:
        """What stands for a class, function or constant of PyTorch; '' where nothing does."""
        table = conversions()
        if name in table.constants:
            self.needs(table.constants[name])
            return table.constants[name]
        if name in table.values:
            self.spelled_out = True
            return paddle_name(name, self.paddle)
        adapter = self.adapter(name)
        return adapter[0] if adapter is not None else ""


def _patterns(tree: ast.AST) -> list[re.Pattern[str]]:
    """Texts of a file that are put together at run time.

    A part of each is known: ``f"Conv{n}d"``.
    """
    made = [_pieces(node) for node in ast.walk(tree)]
    names = [pieces for pieces in made if any(len(each) >= _TELLING for each in pieces) and _OF_NAMES.fullmatch("".join(pieces))]
    known = [[*pieces[:1], *filter(None, pieces[1:-1]), *pieces[1:][-1:]] for pieces in names]  # what is put in side by side is one
    return [re.compile(r"\w*".join(map(re.escape, pieces))) for pieces in known]


def _pieces(node: ast.AST) -> list[str]:
    """What is known of a text, from its beginning to its end.

    What is put in stands between two pieces.
    """
    if isinstance(node, ast.JoinedStr):
        return _joined([_pieces(part) if isinstance(part, ast.Constant) else ["", ""] for part in node.values])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined([_pieces(side) or ["", ""] for side in (node.left, node.right)])
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= _LONGEST:
        return _PUT_IN.split(node.value)
    return []


def _joined(parts: list[list[str]]) -> list[str]:
    """The pieces of texts that follow one another."""
    found = [""]
    for part in parts:
        found[-1] += part[0]
        found += part[1:]
    return found


def _told(node: ast.expr) -> list[ast.expr]:
    """An expression, or those of a tuple."""
    return [part for each in node.elts for part in _told(each)] if isinstance(node, ast.Tuple) else [node]


#: arguments of ``getattr`` without a default
_ASKED = 2
