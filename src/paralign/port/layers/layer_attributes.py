"""Attributes of layers, and their weights, that mean something else in Paddle."""

from __future__ import annotations

import ast

from paralign.port.edits.changed_parts import PartWriter
from paralign.port.edits.ledger import Fate
from paralign.port.names.expression_forms import is_alike, is_setting, is_told_twice
from paralign.port.names.observing import place
from paralign.port.names.values import Choice, Class, Instance, Object, Value
from paralign.port.plans.conversions import conversions

#: classes whose weight has its axes the other way round in Paddle, or is laid out in another way
_OTHER_LAYOUT = ("torch.nn.Linear", "torch.nn.MultiheadAttention", "torch.nn.Bilinear", "torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")

#: classes whose objects, or what they hold, may be any layer
_OF_ANY_LAYER = frozenset({"torch.nn.Module", "torch.nn.ModuleDict", "torch.nn.ModuleList", "torch.nn.Sequential"})

#: what of a weight does not depend on its layout
_LAYOUT_FREE = frozenset({"dtype", "device", "requires_grad", "ndim", "is_cuda"})

#: what of a tensor is a value of its own
READ = frozenset({
    "abs", "clone", "dim", "dtype", "item", "max", "mean", "min", "ndim", "norm", "numel", "pow", "shape", "size", "std", "sum", "tolist",
    "var",
})  # fmt: skip

#: methods that change a tensor in place, element by element
_ELEMENTWISE = frozenset({
    "add_", "clamp_", "clip_", "copy_", "div_", "fill_", "mul_", "normal_", "pow_", "sub_", "uniform_", "zero_",
})  # fmt: skip

#: functions whose result is, or holds, the tensor that they are given
_KEEPS = frozenset({
    "as_tensor", "asarray", "as_strided", "broadcast_to", "broadcast_tensors", "chunk", "detach", "flatten", "from_numpy", "movedim",
    "narrow", "permute", "ravel", "real", "reshape", "save", "select", "split", "squeeze", "swapaxes", "t", "tensor_split", "transpose",
    "unbind", "unflatten", "unsqueeze",
})  # fmt: skip

#: dots in the name of an optimizer's class: ``torch.optim.SGD``
_OF_OPTIMIZER = 2

#: what is said of a weight that is read as a value
_TURNED = "Linear keeps its weight transposed in Paddle; right where neither the weight nor the variable is changed while both are in use"

#: what is said of a weight that a function of the program starts
OWN_START = "a function of the program starts it: right where it treats all elements alike; Linear's weight is [in, out] in Paddle."


def _as_linear(owner: Value) -> Value:
    """A Linear for an object of a class of the program that is derived from it."""
    made = owner.of if isinstance(owner, Object) else owner
    if isinstance(made, Class) and made.framework_base() == "torch.nn.Linear" and made.attribute("weight") is None:
        return Instance("torch.nn.Linear")
    return owner


class LayerReader(PartWriter):
    """Write attributes of layers, and weights that are read as values."""

    def _owner(self, node: ast.Attribute) -> Value:
        """The layer that a weight is of; None where it is not known.

        A loop over a container, and an item of it, are taken for the container, which has no weight of its own.
        """
        owner = _as_linear(self.seen.values.get(place(node.value)))
        if isinstance(owner, Choice):  # isinstance(layer, (nn.Conv2d, nn.Linear))
            owner = owner.values[0] if all(map(_lies_as_in_pytorch, owner.values)) else None
        return None if isinstance(owner, Instance) and owner.of in _OF_ANY_LAYER else owner

    def _turned(self, node: ast.Attribute) -> bool:
        """Whether this weight may be laid out in another way, and that matters here."""
        if self._is_tensor(node) or self._is_layout_free() or self._is_started() or self._is_optimized():
            return False
        if getattr(node.value, "attr", "") == "parametrizations":  # what the weight is computed from lies as in PyTorch
            return False
        owner = self._owner(node)
        if isinstance(owner, Instance):
            return owner.of.startswith(_OTHER_LAYOUT)
        if isinstance(owner, Object | Class):
            return False
        return not isinstance(self._parent(), ast.Compare)

    def _is_absent(self, node: ast.Attribute) -> bool:
        """Whether a layer of a known class is asked for what Paddle's does not keep.

        It is by hand then.
        """
        owner = self.seen.values.get(place(node.value))
        if not isinstance(node.ctx, ast.Load) or not _is_layer(owner) or not isinstance(owner, Instance) or not self.seen.imported:
            return False
        absent = any(owner.of.startswith(head) and node.attr in names for head, names in conversions().absent_attributes.items())
        if absent:
            self.by_hand(node, f"{owner.of}.{node.attr}", "Paddle's layer does not keep it")
        return absent

    def _of_layer(self, node: ast.Attribute) -> None:
        """Write an attribute of a layer as Paddle calls it: ``conv.in_channels``."""
        owner = self.seen.values.get(place(node.value))
        if not isinstance(node.ctx, ast.Load):
            return
        ours = _renamed(owner).get(node.attr, "")
        if ours:
            self.text.edit(self.text.end(node) - len(node.attr.encode()), self.text.end(node), ours, node)
            return
        attributes = conversions().layer_attributes
        if _is_layer(owner):
            attributes = attributes | conversions().known_attributes
        elif not isinstance(owner, Instance | Choice | None) or (self._is_tensor(node.value) and node.attr != "stride"):
            return  # tensors have none of the others
        if node.attr in attributes and self.seen.imported:
            self._of_any_layer(node, attributes[node.attr])

    def _of_any_layer(self, node: ast.Attribute, ours: str) -> None:
        """Ask an object that may be a layer for an attribute by both names.

        What is no call of it stays as it is.
        """
        plain = node.value.id if isinstance(node.value, ast.Name) else ""
        if (
            plain in ("self", "cls")
            or is_setting(node.value)
            or self.hidden("_attribute(")
            or getattr(self._parent(), "func", None) is node
        ):
            return
        self.needs("_attribute(")
        self.text.edit(self.text.start(node), self.text.start(node), "_attribute(", node)
        self.text.edit(self.text.end(node.value), self.text.end(node), f", {node.attr!r}, {ours!r})", node, closes=True)
        self.note(node, f"torch.nn.Module.{node.attr}", Fate.REWRITTEN, "the attribute of a layer has another name in Paddle")

    def _is_linear(self, node: ast.Attribute) -> bool:
        """Whether this is a Linear's weight, read as a value and not changed."""
        if not isinstance(node.ctx, ast.Load):
            return False
        if not isinstance(self._parent(), ast.Call | ast.keyword | ast.BinOp):
            return False
        owner = _as_linear(self.seen.values.get(place(node.value)))
        return isinstance(owner, Instance) and owner.of == "torch.nn.Linear"

    def _as_value(self, node: ast.Attribute) -> bool:
        """Write a weight, or its gradient, that a variable is bound to which is only read.

        False where it is used otherwise. What the layer is, is asked when it runs.
        """
        owner = self._owner(node)
        known = isinstance(owner, Instance) and owner.of == "torch.nn.Linear"
        chain, at = self._parents, len(self._parents) - 1
        if isinstance(chain[at - 1], ast.Attribute) and getattr(chain[at - 1], "attr", "") in ("data", "grad"):
            at -= 1
        value = chain[at]
        while isinstance(chain[at - 1], ast.IfExp) or (
            isinstance(chain[at - 1], ast.Attribute) and getattr(chain[at - 1], "attr", "") == "T"
        ):
            at -= 1
        parent = chain[at - 1]
        target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
        plain = isinstance(target, ast.Name) and is_told_twice(node.value) and (known or owner is None)
        if not plain or not isinstance(target, ast.Name) or not isinstance(value, ast.expr) or self.hidden("_turned("):
            return False
        if not self._is_only_read(target.id):
            return False
        self.needs("_turned(")
        self.text.edit(self.text.start(node), self.text.start(node), f"_turned({self.text.source(node.value)}, ", node)
        self.text.edit(self.text.end(value), self.text.end(value), ")", value, closes=True)
        self.note(node, "torch.nn.Linear.weight", Fate.CONDITION, _TURNED)
        return True

    def _is_only_read(self, name: str) -> bool:
        """Whether every use of a variable's name in the file reads its values.

        None keeps or changes the tensor.
        """
        parents = {id(child): each for each in ast.walk(self._parents[0]) for child in ast.iter_child_nodes(each)}
        for node in ast.walk(self._parents[0]):
            if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
                return False
            if isinstance(node, ast.Name) and node.id == name and not self._reads(node, parents):
                return False
        return True

    def _reads(self, node: ast.Name, parents: dict[int, ast.AST]) -> bool:
        """Whether one use of a name reads its values, or binds it."""
        parent = parents[id(node)]
        if isinstance(node.ctx, ast.Store):
            return isinstance(parent, ast.Assign | ast.For | ast.comprehension | ast.Tuple)
        call = parents[id(parent)] if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and call.func is not node:
            return self._is_pure_call(call)
        if isinstance(parent, ast.Attribute):
            read = parent.attr in READ or parent.attr in _LAYOUT_FREE or _is_written(parent, parents)
            return isinstance(parent.ctx, ast.Load) and read
        return isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare)

    def _is_pure_call(self, call: ast.Call) -> bool:
        """Whether a call of PyTorch neither changes nor keeps what it is given."""
        if any(keyword.arg in ("out", "inplace") for keyword in call.keywords):
            return False
        names = self._names_of(call)
        return bool(names) and all(map(_is_pure, names))

    def _transposed(self, node: ast.Attribute) -> None:
        parent = self._parents[-3] if isinstance(self._parent(), ast.keyword) else self._parent()
        own = isinstance(parent, ast.Call) and not self.uses.get(place(parent))
        text = "Linear keeps its weight transposed in Paddle"
        condition = "; right where the function that it is given to does not change it in place"
        self.note(node, "torch.nn.Linear.weight", Fate.CONDITION if own else Fate.REWRITTEN, text + (condition if own else ""))

    def _is_own_start(self, node: ast.Attribute) -> bool:
        """Whether an in-place function of the program is given this weight first.

        Its name tells that it works in place.
        """
        parent = self._parent()
        if not isinstance(parent, ast.Call) or not parent.args or parent.args[0] is not node or self.uses.get(place(parent)):
            return False
        name = parent.func.id if isinstance(parent.func, ast.Name) else getattr(parent.func, "attr", "")
        return name.endswith("_") and not name.endswith("__")

    def _is_started(self) -> bool:
        """Whether a weight is an argument of a call that gives it its first values."""
        at = len(self._parents) - 2
        while isinstance(self._parents[at], ast.keyword) or getattr(self._parents[at], "attr", "") == "data":
            at -= 1
        return any(name.startswith("torch.nn.init.") for name in self._names_of(self._parents[at]))

    def _is_optimized(self) -> bool:
        """Whether an optimizer is given this weight, which treats all elements alike."""
        at = len(self._parents) - 2
        while at > 0 and isinstance(self._parents[at], ast.Dict | ast.List | ast.Tuple | ast.keyword):
            at -= 1
        names = self._names_of(self._parents[at])
        return bool(names) and all(name.startswith("torch.optim.") and name.count(".") == _OF_OPTIMIZER for name in names)

    def _is_layout_free(self) -> bool:
        """Whether what is asked of this weight does not depend on its layout.

        ``weight.dtype``, ``weight.data.normal_()``.
        """
        chain = self._parents
        at = len(chain) - 2
        if at >= 0 and isinstance(chain[at], ast.Attribute) and getattr(chain[at], "attr", "") == "data":
            at -= 1
        inner, last = chain[at + 1], chain[at] if at >= 0 else None
        if isinstance(last, ast.Call) and isinstance(last.func, ast.Attribute) and last.func.value is inner:
            return is_alike(last)  # a method's object is visited without its name
        if not isinstance(last, ast.Attribute):
            return False
        called = at > 0 and isinstance(chain[at - 1], ast.Call) and getattr(chain[at - 1], "func", None) is last
        return is_alike(chain[at - 1]) if called else last.attr in _LAYOUT_FREE


def _lies_as_in_pytorch(owner: Value) -> bool:
    """Whether a layer is known to keep its weight as PyTorch does."""
    return isinstance(owner, Instance) and owner.of not in _OF_ANY_LAYER and not owner.of.startswith(_OTHER_LAYOUT)


def _is_written(node: ast.Attribute, parents: dict[int, ast.AST]) -> bool:
    """Whether a statement changes a tensor in place: ``w.data.mul_(2).add_(x)``.

    Element by element: a weight that is turned shares its memory with the layer's.
    """
    inner: ast.AST = parents[id(node)] if node.attr == "data" else node
    while isinstance(inner, ast.Attribute) and inner.attr in _ELEMENTWISE:
        call = parents[id(inner)]
        if not isinstance(call, ast.Call) or call.func is not inner:
            return False
        inner = parents[id(call)]
        if isinstance(inner, ast.Expr):
            return True
    return False


def _is_pure(name: str) -> bool:
    """Whether a function of PyTorch neither changes nor keeps what it is given."""
    head, _, last = name.rpartition(".")
    if head == "torch.Tensor":  # of what a method is given beside its object
        return last != "set_"
    if head not in ("torch", "torch.nn.functional", "torch.linalg") or last in _KEEPS:
        return False
    return last[:1].islower() and not last.endswith("_")


def _renamed(owner: Value) -> dict[str, str]:
    """The attributes of a known layer that differ in Paddle by their names alone."""
    found: dict[str, str] = {}
    for head, attributes in conversions().layers.items():
        if isinstance(owner, Instance) and owner.of.startswith(head):
            found |= attributes
    return found


def _is_layer(owner: Value) -> bool:
    """Whether an object is one of a layer's class of PyTorch."""
    if not isinstance(owner, Instance) or owner.of in _OF_ANY_LAYER or not owner.of.startswith("torch.nn."):
        return False
    name = owner.of.removeprefix("torch.nn.")
    return name[:1].isupper() and "." not in name and not name.endswith(("Parameter", "Buffer", "List", "Dict"))
