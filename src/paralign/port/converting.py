"""One program rewritten for Paddle, by the places of its tree: what is not known to be right raises there instead."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.catalogue.naming import canonical, paddle_name
from paralign.catalogue.parameters import stored
from paralign.port.conversions import conversions
from paralign.port.imports import from_rewritten, import_rewritten
from paralign.port.ledger import Fate, Place
from paralign.port.observing import Observed, place
from paralign.port.ownership import could_be, guessed_owner, hinted_owner
from paralign.port.planning import ByHand, plan
from paralign.port.values import Certainty, Class, Form, Instance, Object, Use
from paralign.port.writing import ROOTS, Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.catalogue.parameters import Table

#: classes whose weight has its axes the other way round in Paddle, or is laid out in another way
_OTHER_LAYOUT = ("torch.nn.Linear", "torch.nn.MultiheadAttention", "torch.nn.Bilinear", "torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")

#: characters of a source that the ledger keeps
_SHOWN = 120


class Converter(Writer):
    """Walks one program and notes the edits that make it Paddle's."""

    def __init__(self, path: str, text: str, seen: Observed, paddle: Table) -> None:
        named = {at: canonical(name) for at, name in seen.named.items() if name.partition(".")[0] in ROOTS}
        super().__init__(text, named, paddle)
        self.path, self.seen = path, seen
        self.uses: dict[tuple[int, int, int, int], list[Use]] = {}
        for use in seen.uses:
            if use.name.partition(".")[0] in ROOTS:
                self.uses.setdefault((use.line, use.column, use.end_line, use.end_column), []).append(use)
        self.places: list[Place] = []
        self._annotation = 0
        self._parents: list[ast.AST] = []

    # what is noted

    def note(self, node: ast.expr | ast.stmt, name: str, fate: Fate, text: str = "", entries: Sequence[str] = ()) -> None:
        """Note a place in the ledger."""
        before = " ".join(self.text.content[self.text.start(node) : self.text.end(node)].decode("utf-8", "replace").split())
        self.places.append(Place(self.path, node.lineno, node.col_offset + 1, name, fate, before[:_SHOWN], text, tuple(entries)))

    def by_hand(self, node: ast.expr | ast.stmt, name: str, reason: str) -> None:
        """Let a place raise."""
        self.note(node, name, Fate.BY_HAND, reason)
        said = ascii(f"{self.path}:{node.lineno}: {name} is not converted: {reason}")
        if self._annotation and isinstance(node, ast.expr):
            self.text.edit(self.text.start(node), self.text.end(node), ascii(self.text.source(node)))
            return
        self.text.edit(self.text.start(node), self.text.end(node), f"(_ for _ in ()).throw(NotImplementedError({said}))")

    # the walk

    def visit(self, node: ast.AST) -> None:
        """Visit a node; its parents are known."""
        self._parents.append(node)
        super().visit(node)
        self._parents.pop()

    def _parent(self) -> ast.AST:
        return self._parents[-2] if len(self._parents) > 1 else self._parents[-1]

    def visit_Import(self, node: ast.Import) -> None:  # noqa: N802 - named as ast names it
        """Rewrite ``import torch``."""
        if any(alias.name.partition(".")[0] in ROOTS for alias in node.names):
            self.text.edit(self.text.start(node), self.text.end(node), import_rewritten(node))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802 - as above
        """Rewrite ``from torch import …``."""
        if not node.level and (node.module or "").partition(".")[0] in ROOTS:
            self._statement(node, from_rewritten(node))

    def _statement(self, node: ast.stmt, written: str) -> None:
        """Replace an import; one that says nothing new goes with its line, if it is a module's."""
        start, end = self.text.start(node), self.text.end(node)
        alone = (
            self.text.line(node.lineno) == start and self.text.content[end : end + 1] == b"\n" and isinstance(self._parent(), ast.Module)
        )
        if written == "import paddle" and alone:
            self.spelled_out = True  # where no other import binds it, one is put before everything
            self.text.edit(start, end + 1, "")
        else:
            self.text.edit(start, end, written)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802 - as above
        """Rewrite a class: its bases first."""
        for each in node.decorator_list:
            self.visit(each)
        for base in node.bases:
            name = self.named.get(place(base))
            if name in conversions().bases:
                self.renamed(base, paddle_name(name, self.paddle))
                self.note(base, name, Fate.EQUAL)
            elif name is not None:
                self.by_hand(base, name, "nobody executed a class derived from it on both sides")
            else:
                self.visit(base)
        for keyword in node.keywords:
            self.visit(keyword)
        for statement in node.body:
            self.visit(statement)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in node.decorator_list:
            self.visit(each)
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        self._annotated(*[each.annotation for each in plain if each is not None], node.returns)
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function  # noqa: N815 - as above

    def _annotated(self, *nodes: ast.expr | None) -> None:
        self._annotation += 1
        for node in nodes:
            if node is not None:
                self.visit(node)
        self._annotation -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802 - as above
        """Rewrite an annotated assignment."""
        self.visit(node.target)
        self._annotated(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802 - as above
        """Refuse assignments to what belongs to PyTorch; note writes into tensors."""
        for target in node.targets:
            if self._belongs(target):
                self.by_hand(node, ast.unparse(target), "a setting of PyTorch's")
                return
            if isinstance(target, ast.Subscript) and self._is_tensor(target.value):
                self.note(
                    target, "torch.Tensor.__setitem__", Fate.CONDITION, "writes into a view reach the tensor behind it in PyTorch only"
                )
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802 - as above
        """Note what is in place in PyTorch alone."""
        if self._belongs(node.target):
            self.by_hand(node, ast.unparse(node.target), "a setting of PyTorch's")
            return
        if self._is_tensor(node.target):
            text = "in place in PyTorch, a new tensor in Paddle: another result only where the old tensor has a second name"
            self.note(node.target, "torch.Tensor.__iadd__", Fate.CONDITION, text)
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:  # noqa: N802 - as above
        """Leave strings with PyTorch inside by hand: their parts have no places before Python 3.12."""
        inner = [name for each in ast.walk(node) if isinstance(each, ast.expr) and (name := self.named.get(place(each)))]
        inner += [use.name for each in ast.walk(node) if isinstance(each, ast.Call) for use in self.uses.get(place(each), [])]
        if inner:
            self.by_hand(node, inner[0], "within a formatted string: give it a name before")

    def visit_Name(self, node: ast.Name) -> None:  # noqa: N802 - as above
        """Rewrite an imported name."""
        self._reference(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802 - as above
        """Rewrite a dotted name, or an attribute that means something else."""
        if self._reference(node):
            return
        if node.attr == "weight" and isinstance(node.ctx, ast.Load) and self.seen.imported and self._turned(node):
            self.by_hand(node, "torch.nn.Linear.weight", "Linear keeps its weight transposed in Paddle, and this layer may be one")
            return
        if node.attr == "device" and isinstance(node.ctx, ast.Load) and self._is_tensor(node.value):
            self.note(node, "torch.Tensor.device", Fate.CONDITION, "a text in Paddle")
        if node.attr == "dtype" and isinstance(self._parent(), ast.Call | ast.FormattedValue):
            self.note(node, "torch.Tensor.dtype", Fate.CONDITION, "another text in Paddle: paddle.float32")
        if node.attr == "shape" and isinstance(self._parent(), ast.Compare) and self._is_tensor(node.value):
            self.text.edit(self.text.start(node), self.text.start(node), "tuple(", node)
            self.text.edit(self.text.end(node), self.text.end(node), ")", node, closes=True)
        self.generic_visit(node)

    def _belongs(self, target: ast.expr) -> bool:
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
            if place(target) in self.named:
                return True
        return False

    def _is_tensor(self, node: ast.expr) -> bool:
        found = self.seen.values.get(place(node))
        return isinstance(found, Instance) and found.of == "torch.Tensor"

    def _turned(self, node: ast.Attribute) -> bool:
        """Whether this weight may be laid out in another way, and that matters here."""
        if self._is_tensor(node):
            return False
        owner = self.seen.values.get(place(node.value))
        if isinstance(owner, Instance):
            return owner.of.startswith(_OTHER_LAYOUT)
        if isinstance(owner, Object | Class):
            return False
        parent = self._parent()
        if isinstance(parent, ast.Compare) or isinstance(owner, Instance):
            return False
        return not (isinstance(parent, ast.Call) and any(use.name.startswith("torch.nn.init.") for use in self.uses.get(place(parent), [])))

    # references

    def _reference(self, node: ast.Name | ast.Attribute) -> bool:
        name = self.named.get(place(node))
        if name is None or not isinstance(node.ctx, ast.Load):
            return name is not None
        table = conversions()
        parent = self._parent()
        kind = self._annotation or (isinstance(parent, ast.Call) and getattr(parent.func, "id", "") in ("isinstance", "issubclass"))
        port = table.constants.get(name, "")
        if not port and (name in table.values or (kind and name in stored("torch") and name.rpartition(".")[2][:1].isupper())):
            port = paddle_name(name, self.paddle)
        if port:
            self.renamed(node, port)
            self.note(node, name, Fate.EQUAL)
        else:
            self.by_hand(node, name, "handed on as a value: what it is called with is not shown")
        return True

    # calls

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802 - as above
        """Rewrite a call."""
        uses = [use for use in self.uses.get(place(node), []) if use.form is not Form.REFERENCE]
        if not uses:
            self._without_use(node)
            return
        found = {use.name for use in uses}
        if len(found) > 1 or not self._spelled(node, uses[0]):
            self._by_variable(node, found)
            return
        use = replace(_hinted(node, uses[0]), positional=list(node.args), keywords=list(node.keywords))
        try:
            self._written(node, use)
        except ByHand as reason:
            self.by_hand(node, use.name, str(reason))

    def _spelled(self, node: ast.Call, use: Use) -> bool:
        """Whether the call spells out what it calls."""
        if use.form in (Form.METHOD, Form.SUBCLASS):
            return True
        return self.named.get(place(node.args[0] if use.form is Form.PARTIAL and node.args else node.func)) is not None

    def _by_variable(self, node: ast.Call, names: set[str]) -> None:
        """A call through a variable: right where all that it may call may be handed on as values."""
        name = ", ".join(sorted(names))
        if names <= conversions().values:
            self.note(node, name, Fate.EQUAL)
            self.generic_visit(node)
        else:
            self.by_hand(node, name, "called through a variable")

    def _without_use(self, node: ast.Call) -> None:
        name = self.named.get(place(node.func))
        if name is not None:
            self.by_hand(node, name, "its name is not known, or made at run time")
            return
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and node.args and place(node.args[0]) in self.named:
            self.by_hand(node, self.named[place(node.args[0])] + ".?", "its name is made at run time")
            return
        if isinstance(node.func, ast.Attribute) and self.seen.imported and self._unknown_method(node, node.func):
            return
        self.generic_visit(node)

    def _unknown_method(self, node: ast.Call, func: ast.Attribute) -> bool:
        """A method that tensors have, of an object of unknown type: refused where a tensor's would differ in silence."""
        if func.attr.startswith("__") or not could_be(func.attr) or self.seen.values.get(place(func.value)) is not None:
            return False
        name = f"torch.Tensor.{func.attr}"
        if _is_pythons(node, func.attr) or name not in stored("torch"):
            return False
        use = Use(name, *place(node), Form.METHOD, Certainty.GUESSED, list(node.args), list(node.keywords))
        if func.attr in _DIFFERENT:
            self.by_hand(node, name, "the object's type cannot be told, and a tensor's method differs in silence")
            return True
        try:
            made = plan(use, self.paddle)
        except ByHand:
            made = None
        if made is not None and made.conditions:
            self.note(node, name, Fate.CONDITION, "Where the object is a tensor: " + " ".join(made.conditions))
        elif made is None or made.template or made.added or made.removed or any(made.keywords.values()):
            self.note(node, name, Fate.UNTOUCHED, "the object's type cannot be told")
        return False

    def _written(self, node: ast.Call, use: Use) -> None:
        if use.form is Form.PARTIAL:
            raise ByHand("arguments that are given later are not shown")
        if use.form is Form.SUBCLASS and use.name not in conversions().bases:
            raise ByHand("nobody executed a class derived from it on both sides")
        if use.form is Form.METHOD:
            self._check_receiver(node, use)
        made = plan(use, self.paddle)
        if made.template:
            self.templated(node, made)
        else:
            self.edited(node, use, made)
        if use.name.endswith(".state_dict"):
            made.conditions.append("Other names in Paddle: _mean and _variance for running statistics, no num_batches_tracked.")
        if use.name in _PARAMETERS and not self._for_optimizer():
            made.conditions.append(_STATISTICS)
        touched = bool(made.entries or made.added or made.removed or any(made.keywords.values()))
        fate = Fate.CONDITION if made.conditions else Fate.REWRITTEN if touched else Fate.EQUAL
        guess = ["the object is taken for a tensor by the rules of its base class"] if use.certainty is Certainty.GUESSED else []
        self.note(node, use.name, fate, " ".join([*dict.fromkeys(made.conditions), *guess]), made.entries)

    def _check_guess(self, method: str, use: Use) -> None:
        if use.name.startswith("torch.Tensor.") and method not in _PLAIN:
            raise ByHand("the object's type is a guess by its name")

    def _for_optimizer(self) -> bool:
        """Whether a call is an argument of an optimizer, which leaves out what is not trained."""
        parent = self._parent()
        parent = self._parents[-3] if isinstance(parent, ast.keyword) else parent
        return isinstance(parent, ast.Call) and any(use.name.startswith("torch.optim.") for use in self.uses.get(place(parent), []))

    def _check_receiver(self, node: ast.Call, use: Use) -> None:
        if not isinstance(node.func, ast.Attribute):
            raise ByHand("its object is not shown")
        if (
            use.certainty is Certainty.GUESSED
            and self.seen.values.get(place(node.func.value)) is None
            and guessed_owner(node.func.attr) is None
        ):
            self._check_guess(node.func.attr, use)
        inplace = node.func.attr.endswith("_") and not node.func.attr.endswith("__")
        if inplace and not isinstance(node.func.value, ast.Name):
            raise ByHand("in place on a part of a tensor: Paddle's parts are copies")


def _hinted(node: ast.Call, use: Use) -> Use:
    """A guessed method of a class that the object's name speaks for: ``optimizer.zero_grad()`` is not a layer's."""
    owner = hinted_owner(node.func.value, node.func.attr) if isinstance(node.func, ast.Attribute) else None
    if use.certainty is Certainty.GUESSED and use.form is Form.METHOD and owner is not None:
        return replace(use, name=f"{owner}.{use.name.rpartition('.')[2]}")
    return use


_PARAMETERS = frozenset({"torch.nn.Module.parameters", "torch.nn.Module.named_parameters"})

_STATISTICS = "Paddle counts the running statistics of batch norm among the parameters, with stop_gradient. Only in models with batch norm."

#: methods whose names alone are right in Paddle
_PLAIN = frozenset({"backward", "item", "detach", "cpu", "numpy", "tolist"})

#: methods of tensors that return something else in Paddle, and that other objects may have too
_DIFFERENT = frozenset({"max", "min", "sort", "median", "split", "gather", "scatter", "numel", "fmod", "nanmedian", "prod"})


def _is_pythons(node: ast.Call, method: str) -> bool:
    """Whether the arguments show that the object is no tensor: ``line.split(',')``, ``names.sort()``."""
    if any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in node.args):
        return True
    named = {each.arg for each in node.keywords}
    return bool(named & {"key", "axis", "reverse", "sep", "maxsplit"}) or (method in ("split", "sort") and not node.args and not named)
