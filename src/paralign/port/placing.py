"""Places of a program's tree, and what is noted of them.

Uses of tensors and layers that mean something else in Paddle are among them.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.catalogue.naming import canonical
from paralign.port.bindings import bindings, counters, innermost
from paralign.port.call_edits import ROOTS, Writer
from paralign.port.conversions import conversions
from paralign.port.ledger import Fate, Place
from paralign.port.observing import Observed, place
from paralign.port.values import Choice, Class, Instance, Object, Use, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.catalogue.parameters import Table
    from paralign.port.texts import Text as SourceText

#: classes whose weight has its axes the other way round in Paddle, or is laid out in another way
_OTHER_LAYOUT = ("torch.nn.Linear", "torch.nn.MultiheadAttention", "torch.nn.Bilinear", "torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN")

#: classes whose objects, or what they hold, may be any layer
_OF_ANY_LAYER = frozenset({"torch.nn.Module", "torch.nn.ModuleDict", "torch.nn.ModuleList", "torch.nn.Sequential"})

#: characters of a source that the ledger keeps
_SHOWN = 120

#: attributes of a tensor that are parts or other forms of it
_VIEWS = frozenset({"T", "mT", "H", "mH", "real", "imag", "grad"})

#: calls that give a tensor that nobody else holds
_FRESH = frozenset({
    "torch.empty", "torch.zeros", "torch.ones", "torch.full", "torch.empty_like", "torch.zeros_like", "torch.ones_like", "torch.rand",
    "torch.randn",
    "torch.Tensor.new_empty", "torch.Tensor.new_zeros", "torch.Tensor.new_ones", "torch.Tensor.clone", "torch.tensor",
})  # fmt: skip

#: functions and methods whose result is new, whatever they are given
_NEW = frozenset({
    "abs", "add", "addcmul", "addmm", "amax", "amin", "baddbmm", "bmm", "cat", "ceil", "clamp", "clip", "concat", "cos", "cumprod",
    "cumsum", "div", "exp", "floor", "full_like", "gather", "index_select", "log", "masked_fill", "matmul", "maximum", "mean",
    "minimum", "mm", "mul", "neg", "outer", "pow", "rand_like", "randn_like", "reciprocal", "round", "rsqrt", "rsub", "scatter", "sigmoid",
    "sin", "softmax", "sqrt", "square", "stack", "sub", "sum", "tanh", "tril", "triu", "true_divide", "where",
})  # fmt: skip

#: methods that give the tensor itself where it is already as they make it, in Paddle a copy
_SAME_OR_NEW = frozenset(
    {"bfloat16", "bool", "contiguous", "cpu", "cuda", "double", "float", "half", "int", "long", "to", "type", "type_as"}
)

#: what changes no element
OF_NO_ELEMENT = frozenset({"requires_grad_"})

#: what changes how a tensor lies, and not its elements: done to a part, it leaves the whole as it is
_OF_FORM = frozenset({
    "as_strided_", "detach_", "resize_", "resize_as_", "set_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_",
})  # fmt: skip

#: functions and methods that give one tensor, which may be a view
_ONE = frozenset({
    "arange", "as_tensor", "contiguous", "expand", "eye", "flatten", "from_numpy", "linspace", "permute", "rand", "randint", "randn",
    "repeat", "reshape", "squeeze", "transpose", "unsqueeze", "view",
})  # fmt: skip

#: functions and methods that give several tensors
_SEVERAL = frozenset({
    "broadcast_tensors", "chunk", "dsplit", "hsplit", "list", "meshgrid", "split", "tensor_split", "tuple", "unbind", "unsafe_chunk",
    "unsafe_split", "vsplit",
})  # fmt: skip

#: what is said of a tensor that is cast or moved, and then changed in place
CAST_AND_CHANGED = "where the cast or the move changes nothing, the tensor before it is changed too, in PyTorch alone"

#: what of a weight does not depend on its layout
_LAYOUT_FREE = frozenset({"dtype", "device", "requires_grad", "ndim", "is_cuda"})

#: methods that change every element alike
_ALIKE = frozenset({"normal_", "zero_", "uniform_", "fill_", "requires_grad_", "numel", "nelement"})

#: methods that change every element alike where they are given a number
_ALIKE_BY_NUMBER = frozenset({"add_", "div_", "mul_", "pow_", "sub_"})

#: what of a tensor is a value of its own
READ = frozenset({
    "abs", "clone", "dim", "dtype", "item", "max", "mean", "min", "ndim", "norm", "numel", "pow", "shape", "size", "std", "sum", "tolist",
    "var",
})  # fmt: skip

#: functions whose result is, or holds, the tensor that they are given
_KEEPS = frozenset({
    "as_tensor", "asarray", "as_strided", "broadcast_to", "broadcast_tensors", "chunk", "detach", "flatten", "from_numpy", "movedim",
    "narrow", "permute", "ravel", "real", "reshape", "save", "select", "split", "squeeze", "swapaxes", "t", "tensor_split", "transpose",
    "unbind", "unflatten", "unsqueeze",
})  # fmt: skip

#: what is said of a weight that is read as a value
_TURNED = "Linear keeps its weight transposed in Paddle; right where neither the weight nor the variable is changed while both are in use"

#: what is said of a weight that a function of the program starts
OWN_START = "a function of the program starts it: right where it treats all elements alike; Linear's weight is [in, out] in Paddle."


class Placer(Writer):
    """Keep a ledger of places beside the edits.

    ``uses`` are the callables that expressions use.
    """

    def __init__(self, path: str, text: str, seen: Observed, paddle: Table, file: SourceText | None = None) -> None:
        aliases = conversions().aliases
        known = {at: canonical(name) for at, name in seen.named.items() if name.partition(".")[0] in ROOTS}
        named = {at: aliases.get(name, name) for at, name in known.items()}
        super().__init__(text, named, paddle)
        self.path, self.seen, self.file = path, seen, file
        self.uses: dict[tuple[int, int, int, int], list[Use]] = {}
        for use in seen.uses:
            if use.name.partition(".")[0] in ROOTS:
                own = replace(use, name=aliases.get(use.name, use.name))
                self.uses.setdefault((use.line, use.column, use.end_line, use.end_column), []).append(own)
        self.places: list[Place] = []
        self._annotation = 0
        self._put_back: ast.expr | None = None
        self._parents: list[ast.AST] = []

    def note(self, node: ast.expr | ast.stmt, name: str, fate: Fate, text: str = "", entries: Sequence[str] = ()) -> None:
        """Note a place in the ledger."""
        before = " ".join(self.text.content[self.text.start(node) : self.text.end(node)].decode("utf-8", "replace").split())
        cell, line = self._place(node.lineno)
        self.places.append(Place(self.path, line, node.col_offset + 1, name, fate, before[:_SHOWN], text, tuple(entries), cell))

    def note_line(self, line: int, before: str, name: str, fate: Fate, text: str) -> None:
        """Note a line that is no Python."""
        cell, line = self._place(line)
        self.places.append(Place(self.path, line, 1, name, fate, before[:_SHOWN], text, (), cell))

    def _place(self, line: int) -> tuple[int, int]:
        return (0, line) if self.file is None else self.file.place(line)

    def by_hand(self, node: ast.expr | ast.stmt, name: str, reason: str) -> None:
        """Let a place raise; an annotation becomes a text."""
        if self._annotation and isinstance(node, ast.expr):
            self.note(node, name, Fate.REWRITTEN, "an annotation without a counterpart: its text alone")
            self.text.edit(self.text.start(node), self.text.end(node), ascii(self.text.source(node)))
            return
        self.note(node, name, Fate.BY_HAND, reason)
        said = ascii(f"{self.places[-1].where}: {name} is not converted: {reason}")
        self.text.edit(self.text.start(node), self.text.end(node), f"(_ for _ in ()).throw(NotImplementedError({said}))")

    def visit(self, node: ast.AST) -> None:
        """Visit a node; its parents are known."""
        self._parents.append(node)
        super().visit(node)
        self._parents.pop()

    def _parent(self) -> ast.AST:
        return self._parents[-2] if len(self._parents) > 1 else self._parents[-1]

    def visit_Delete(self, node: ast.Delete) -> None:  # noqa: N802 - as above
        """Write ``del layers[-1]`` by the layer's name, where it may be a Sequential."""
        for target in node.targets:
            plain = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant | ast.UnaryOp)
            if not plain or not isinstance(target, ast.Subscript) or not self.seen.imported or self.hidden("_key_of("):
                continue
            if not isinstance(target.value, ast.Name | ast.Attribute) or isinstance(getattr(target.slice, "value", 0), str):
                continue
            self.needs("_key_of(")
            self.text.edit(self.text.start(target.slice), self.text.start(target.slice), f"_key_of({self.text.source(target.value)}, ")
            self.text.edit(self.text.end(target.slice), self.text.end(target.slice), ")", closes=True)
            self.note(target, "torch.nn.Sequential.__delitem__", Fate.REWRITTEN, "Paddle's Sequential deletes by names")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:  # noqa: N802 - as above
        """Let a tensor lie in order before an index behind its first axis.

        Paddle reads other elements of a view.
        """
        if isinstance(node.ctx, ast.Load) and _indexed_behind(node.slice) and self.seen.imported:
            known = self._is_tensor(node.value)
            if known or (self.seen.values.get(place(node.value)) is None and not self._annotation):
                self._in_order(node, known=known)
        self.generic_visit(node)

    def _in_order(self, node: ast.Subscript, *, known: bool) -> None:
        start, end = self.text.start(node.value), self.text.outer(node.value, self.text.start(node))[1]
        plain = known and isinstance(node.value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        start = start if plain else self.text.outer(node.value, self.text.start(node))[0]
        self.text.edit(start, start, "" if plain else "_in_order(", node)
        self.text.edit(end, end, ".contiguous()" if plain else ")", node, closes=True)
        if not plain:
            self.needs("_in_order(")
        text = "Paddle reads other elements where a view is indexed behind its first axis"
        self.note(node, "torch.Tensor.__getitem__", Fate.REWRITTEN, text)

    def _is_tensor(self, node: ast.expr) -> bool:
        found = self.seen.values.get(place(node))
        return isinstance(found, Instance) and found.of == "torch.Tensor"

    def _owner(self, node: ast.Attribute) -> Value:
        """The layer that a weight is of; None where it is not known.

        A loop over a container, and an item of it, are taken for the container, which has no weight of its own.
        """
        owner = self.seen.values.get(place(node.value))
        return None if isinstance(owner, Instance) and owner.of in _OF_ANY_LAYER else owner

    def _turned(self, node: ast.Attribute) -> bool:
        """Whether this weight may be laid out in another way, and that matters here."""
        if self._is_tensor(node) or self._is_layout_free() or self._is_started():
            return False
        owner = self._owner(node)
        if isinstance(owner, Instance):
            return owner.of.startswith(_OTHER_LAYOUT)
        if isinstance(owner, Object | Class):
            return False
        return not isinstance(self._parent(), ast.Compare)

    def _of_layer(self, node: ast.Attribute) -> None:
        """Write an attribute of a layer as Paddle calls it: ``conv.in_channels``."""
        owner = self.seen.values.get(place(node.value))
        if not isinstance(node.ctx, ast.Load):
            return
        unknown = owner is None or (isinstance(owner, Instance | Choice) and not self._is_tensor(node.value) and not _is_named_layer(owner))
        unknown = unknown or (self._is_tensor(node.value) and node.attr != "stride")  # tensors have none of the others
        if unknown and node.attr in conversions().layer_attributes and self.seen.imported:
            self._of_any_layer(node)
        if not isinstance(owner, Instance):
            return
        if node.attr == "momentum" and _is_named_layer(owner):  # another share, and not only another name
            self._of_any_layer(node)
        for head, attributes in conversions().layers.items():
            if owner.of.startswith(head) and node.attr in attributes:
                self.text.edit(self.text.end(node) - len(node.attr.encode()), self.text.end(node), attributes[node.attr], node)

    def _of_any_layer(self, node: ast.Attribute) -> None:
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
        ours = conversions().layer_attributes[node.attr]
        self.text.edit(self.text.start(node), self.text.start(node), "_attribute(", node)
        self.text.edit(self.text.end(node.value), self.text.end(node), f", {node.attr!r}, {ours!r})", node, closes=True)
        self.note(node, f"torch.nn.Module.{node.attr}", Fate.REWRITTEN, "the attribute of a layer has another name in Paddle")

    def _is_linear(self, node: ast.Attribute) -> bool:
        """Whether this is a Linear's weight, read as a value and not changed."""
        if not isinstance(node.ctx, ast.Load):
            return False
        if not isinstance(self._parent(), ast.Call | ast.keyword | ast.BinOp):
            return False
        owner = self.seen.values.get(place(node.value))
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
        while isinstance(chain[at - 1], ast.Attribute) and getattr(chain[at - 1], "attr", "") == "T":
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
            return isinstance(parent, ast.Assign)
        call = parents[id(parent)] if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and call.func is not node:
            return self._is_pure_call(call)
        if isinstance(parent, ast.Attribute):
            return isinstance(parent.ctx, ast.Load) and parent.attr in READ
        return isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare)

    def _is_pure_call(self, call: ast.Call) -> bool:
        """Whether a call of PyTorch neither changes nor keeps what it is given."""
        if any(keyword.arg in ("out", "inplace") for keyword in call.keywords):
            return False
        names = self._names_of(call)
        return bool(names) and all(map(_is_pure, names))

    def _names_of(self, call: ast.AST) -> list[str]:
        """The names of the callables that a call uses; none of anything else."""
        if not isinstance(call, ast.Call):
            return []
        return [use.name for use in self.uses.get(place(call), [])]

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
        parent = self._parents[-3] if isinstance(self._parent(), ast.keyword) else self._parent()
        return any(name.startswith("torch.nn.init.") for name in self._names_of(parent))

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

    def _is_whole(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor of its own.

        A name, an attribute that is no view, or a tensor that was just made.
        """
        if isinstance(node, ast.Call):
            names = self._names_of(node)
            if not names:
                return False
            return all(name in _FRESH or _is_new(name) or name in self._inplace_of(node) for name in names)
        if isinstance(node, ast.BinOp | ast.UnaryOp):  # a result of arithmetic is new
            return not isinstance(getattr(node, "op", None), ast.UAdd)
        while isinstance(node, ast.Attribute) and node.attr not in _VIEWS:
            node = node.value
        return isinstance(node, ast.Name)

    def _same_or_new(self, node: ast.expr) -> bool:
        """Whether an expression casts or moves a tensor.

        The result may be that tensor in PyTorch, and is a copy in Paddle.
        """
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        if node.func.attr.endswith("_") and self._names_of(node):
            return self._same_or_new(node.func.value)
        if node.func.attr not in _SAME_OR_NEW:
            return False
        return self._is_whole(node.func.value) or self._same_or_new(node.func.value) or bool(self._names_of(node.func.value))

    def _inplace_of(self, node: ast.Call) -> set[str]:
        """The names of a call that changes a whole tensor in place, and gives that tensor."""
        if not isinstance(node.func, ast.Attribute) or not node.func.attr.endswith("_"):
            return set()
        if not self._is_whole(node.func.value):
            return set()
        return set(self._names_of(node))

    def visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802 - as above
        """Write ``x[i].zero_()`` as an assignment: a part of a tensor is a copy in Paddle."""
        call = node.value
        written = self._assigned(call) if isinstance(call, ast.Call) else None
        part = self._changed_part(call) if isinstance(call, ast.Call) and written is None else None
        if part is not None:
            self.text.edit(self.text.start(node), self.text.start(node), f"{self.text.source(part)} = ", call)
            self._put_back = part
            self.generic_visit(node)
            self._put_back = None
            return
        if written is None or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            self.generic_visit(node)
            return
        target, argument = _part_of(call.func.value) or call.func.value, call.args[0] if call.args else None
        for part in (target, *call.args):
            self.visit(part)
        self.note(call, f"torch.Tensor.{call.func.attr}", Fate.REWRITTEN, "assigned: a part of a tensor is a copy in Paddle")
        start, end = self.text.start(node), self.text.end(node)
        if isinstance(call.func.value, ast.Attribute) and isinstance(target, ast.Subscript):  # x[i].data: past the gradient
            self.text.edit(self.text.end(target.value), self.text.end(target.value), ".data", closes=True)
        self.text.edit(start, end, lambda: f"{self.text.within(target)} = {self.text.within(argument) if argument else written}")

    def _assigned(self, call: ast.Call) -> str | None:
        """What a part of a tensor is given by a statement such as ``x[i].fill_(0)``, else None."""
        func = call.func
        if not isinstance(func, ast.Attribute) or call.keywords:
            return None
        part = _part_of(func.value)
        if part is None or not self._is_whole(part.value) or any(isinstance(each, ast.Starred) for each in call.args):
            return None
        if self._holds_several(part.value):
            return None
        if func.attr == "zero_" and not call.args:
            return "0"
        if func.attr in ("fill_", "copy_") and len(call.args) == 1:
            return ""
        return None

    def _changed_part(self, call: ast.Call) -> ast.expr | None:
        """The part that ``x[:, 0].mul_(2)`` changes; None of another statement.

        It is told by numbers and slices alone. A part by a tensor or a list is a copy in PyTorch too.
        A number alone may also tell one of several tensors, such as those of ``chunk``.
        """
        func = call.func
        if not isinstance(func, ast.Attribute) or not func.attr.endswith("_") or func.attr.endswith("__"):
            return None
        part = func.value
        if func.attr in OF_NO_ELEMENT | _OF_FORM or not isinstance(part, ast.Subscript):
            return None
        if not is_dotted(part.value) or not self.uses.get(place(call)):
            return None
        if self._is_of_several(part.value) or not (any(map(_is_of_axes, _places(part.slice))) or self._is_one(part.value)):
            return None
        parts = [each.attr for each in ast.walk(part.value) if isinstance(each, ast.Attribute)]
        if not _VIEWS.isdisjoint(parts) or "weight" in parts or not all(map(self._is_plain_index, _places(part.slice))):
            return None
        return part

    def _is_one(self, node: ast.expr) -> bool:
        """Whether a name stands for one tensor: whatever binds it in its function gives one."""
        if not isinstance(node, ast.Name):
            return False
        scope = innermost(self._parents)[0]
        bound = bindings(node.id, scope)
        return bool(bound) and all(self._gives_one(each, scope) for each in bound)

    def _gives_one(self, node: ast.AST, scope: ast.AST) -> bool:
        """Whether what binds a name gives one tensor, as an argument by its annotation."""
        if isinstance(node, ast.arg):
            several = isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and node in (scope.args.vararg, scope.args.kwarg)
            return not several and node.annotation is not None and self.named.get(place(node.annotation)) == "torch.Tensor"
        if isinstance(node, ast.BinOp):
            return self._gives_one(node.left, scope) or self._gives_one(node.right, scope)
        names = self._names_of(node)
        if not names or not isinstance(node, ast.Call):
            return False
        if len(node.args) == 1 and any(name == "torch.where" for name in names):  # places, one tensor an axis
            return False
        return all(name in _FRESH or _is_new(name) or _is_among(name, _ONE) for name in names)

    def _holds_several(self, node: ast.expr) -> bool:
        """Whether a name stands for several tensors, by what binds it in its function."""
        bound = bindings(node.id, innermost(self._parents)[0]) if isinstance(node, ast.Name) else []
        displays = (ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.DictComp)
        return any(isinstance(each, displays) or _gives_several(each) for each in bound)

    def _is_made(self, node: ast.expr) -> bool:
        """Whether an expression gives a new tensor."""
        return isinstance(node, ast.Call | ast.BinOp) and self._is_whole(node)

    def _is_of_several(self, node: ast.expr) -> bool:
        """Whether a name may stand for one of several tensors, unpacked or looped over."""
        bound = bindings(node.id, innermost(self._parents)[0]) if isinstance(node, ast.Name) else []
        inner = [part for each in bound if not isinstance(each, ast.expr) or not self._is_made(each) for part in ast.walk(each)]
        held = any(isinstance(each, ast.expr) and self._holds_several(each) for each in inner)
        return held or any(isinstance(each, ast.Name) for each in bound) or any(map(_gives_several, inner))

    def _is_plain_index(self, node: ast.expr) -> bool:
        """Whether one place of an index is a number or a slice by its form."""
        if isinstance(node, ast.Slice):
            return all(each is None or self._is_counted(each) for each in (node.lower, node.upper, node.step))
        return self._is_counted(node) or (isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis))

    def _is_counted(self, node: ast.expr) -> bool:
        """Whether an expression is whole numbers, and names that count a loop.

        Nothing else in its function gives such a name a value.
        """
        if isinstance(node, ast.Name):
            around = innermost(self._parents)
            bound = [each for each in bindings(node.id, around[0]) if not isinstance(each, ast.arg)]
            return any(node.id in counters(each) for each in around) and all(isinstance(each, ast.For) for each in bound)
        if isinstance(node, ast.UnaryOp | ast.BinOp):
            return all(self._is_counted(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        return isinstance(node, ast.Constant) and type(node.value) is int


def _places(index: ast.expr) -> list[ast.expr]:
    """The places of an index, one an axis."""
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _gives_several(node: ast.AST) -> bool:
    """Whether an expression is a call that gives several tensors, by its name."""
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _SEVERAL


def _is_of_axes(node: ast.expr) -> bool:
    """Whether a place of an index is one of tensors, not of lists: a slice or an axis."""
    return isinstance(node, ast.Slice) or (isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis))


def _is_new(name: str) -> bool:
    """Whether a function of PyTorch gives a tensor that nobody else holds."""
    return _is_among(name, _NEW)


def _is_among(name: str, known: frozenset[str]) -> bool:
    """Whether a function or method of PyTorch's tensors is one of those."""
    head, _, last = name.rpartition(".")
    return head in ("torch", "torch.Tensor", "torch.nn.functional") and last in known


def is_dotted(node: ast.expr) -> bool:
    """Whether an expression is a name, or attributes of one: it may be written twice."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def is_told_twice(node: ast.expr) -> bool:
    """Whether an expression may be written twice: a name, attributes and items of one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and not all(isinstance(each, _OF_AN_ITEM) for each in ast.walk(node.slice)):
            return False
        node = node.value
    return isinstance(node, ast.Name)


#: what the place of an item in a list or dictionary is made of
_OF_AN_ITEM = (ast.Name, ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)


def is_alike(call: ast.AST) -> bool:
    """Whether a method changes every element alike: its arguments are numbers by their form."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _ALIKE:
        return True
    given = [*call.args, *[each.value for each in call.keywords]]
    return call.func.attr in _ALIKE_BY_NUMBER and all(map(_is_number, given))


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is made of literal numbers alone."""
    parts = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)
    plain = all(isinstance(each, parts) for each in ast.walk(node))
    return plain and all(isinstance(each.value, int | float) for each in ast.walk(node) if isinstance(each, ast.Constant))


#: how programs call what holds their own settings, which are no layers
_SETTINGS = ("args", "cfg", "config", "conf", "flags", "hparams", "opt", "options", "opts", "params", "settings")


def is_setting(node: ast.expr) -> bool:
    """Whether an object's name is that of a program's own settings: ``args``, ``self.config``."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.casefold().strip("_").endswith(_SETTINGS)


def _is_pure(name: str) -> bool:
    """Whether a function of PyTorch neither changes nor keeps what it is given."""
    head, _, last = name.rpartition(".")
    if head not in ("torch", "torch.nn.functional", "torch.linalg") or last in _KEEPS:
        return False
    return last[:1].islower() and not last.endswith("_")


def _is_named_layer(owner: Value) -> bool:
    """Whether an object's class is one whose attributes the tables name."""
    if not isinstance(owner, Instance):
        return False
    return any(owner.of.startswith(head) for head in conversions().layers)


def _indexed_behind(index: ast.expr) -> bool:
    """Whether a possible tensor or list stands behind the first place of an index."""
    if not isinstance(index, ast.Tuple) or not _is_sliced(index):
        return False
    return any(not isinstance(each, ast.Slice | ast.Constant | ast.UnaryOp) for each in index.elts[1:])


def _is_sliced(index: ast.Tuple) -> bool:
    """Whether an index has slices, as one of a tensor has and a type's parameters have not."""
    for each in index.elts:
        if isinstance(each, ast.Slice):
            return True
        if isinstance(each, ast.Constant) and each.value is Ellipsis:
            return True
    return False


def _part_of(node: ast.expr) -> ast.Subscript | None:
    """The part of a tensor that an expression is, alone or as ``x[i].data``."""
    inner = node.value if isinstance(node, ast.Attribute) and node.attr == "data" else node
    return inner if isinstance(inner, ast.Subscript) else None
