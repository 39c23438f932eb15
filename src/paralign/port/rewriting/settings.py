"""What stands around a model.

Settings that are assigned, a launcher's ranks, groups of an optimizer, a context's tensors.
"""

from __future__ import annotations

import ast

from paralign.port.edits.ledger import Fate
from paralign.port.layers.frozen_parameters import Freezer
from paralign.port.names.expression_forms import is_dotted, is_setting
from paralign.port.names.observing import place
from paralign.port.names.values import Choice, Class, Instance, Object, Value
from paralign.port.plans.conversions import conversions
from paralign.port.plans.operators import SIGNS

#: the class whose methods are given a context first
_FUNCTION = "torch.autograd.Function"

#: attributes that programs set in layers that are made already, and that Paddle's layers have under other names
_SET_LATER = frozenset({
    "batch_first", "dilation", "eps", "groups", "kernel_size", "momentum", "negative_slope", "padding", "padding_idx", "running_mean",
    "running_var", "stride", "track_running_stats",
})  # fmt: skip

#: functions of Python that are given an attribute's name, and what is written for them
_BY_TEXT = {"getattr": "_attribute(", "hasattr": "_has_attribute(", "setattr": "_set_of_layer("}

#: arguments of a call whose second is a name
_NAMED_SECOND = 2

#: attributes of a dtype, and what asks for them; tensors have methods of these names
_OF_TYPES = {"is_floating_point": "_is_floating({self})", "is_complex": "_is_complex_type({self})"}

#: what layers of PyTorch keep for themselves, and what stands for it
_OF_LAYERS = {"_modules": "{self}._sub_layers", "_named_members": "_members_of({self})"}

#: what they keep for themselves, and Paddle's do not
_OF_LAYERS_ALONE = frozenset({
    "_apply", "_call_impl", "_get_name", "_load_from_state_dict", "_non_persistent_buffers_set", "_register_load_state_dict_pre_hook",
    "_register_state_dict_hook", "_replicate_for_data_parallel", "_save_to_state_dict", "_version",
})  # fmt: skip

#: why the state of an optimizer is left by hand
_STATE = (
    "Paddle keeps an optimizer's moments by the parameter's name in optimizer._accumulators, under other names; "
    "a parameter that takes another one's place needs them there, and in the group"
)

#: attributes of a context of it
_SAVED = frozenset({"saved_tensors", "saved_variables"})


class Settings(Freezer):
    """Rewrites attributes and assignments that are no calls."""

    def setting(self, node: ast.Assign) -> bool:
        """Rewrite a setting of ``torch.backends`` as a flag of Paddle's; False without one."""
        target = node.targets[0]
        if len(node.targets) > 1 or not isinstance(target, ast.Attribute):
            return False
        name = f"{self.named.get(place(target.value), '')}.{target.attr}"
        flag = conversions().flags.get(name)
        if flag is None or self.hidden("_flag("):
            return False
        self.needs("_flag(")
        self.visit(node.value)
        start, end = self.text.start(node), self.text.end(node)
        self.text.edit(start, end, lambda: f"_flag({flag!r}, {self.text.within(node.value)})")
        self.note(node, name, Fate.REWRITTEN)
        return True

    def layer_setting(self, node: ast.Assign) -> bool:
        """Write ``bn.eps = 1e-3`` by both names; False where it is no such assignment.

        ``bn`` is what may be a layer.
        """
        target = node.targets[0]
        if len(node.targets) > 1 or not isinstance(target, ast.Attribute):
            return False
        if not self._is_set_later(target):
            return False
        self.needs("_set_of_layer(")
        self.visit(target.value)
        self.visit(node.value)
        start, end, bare = self.text.start(node), self.text.end(node), isinstance(node.value, ast.Tuple | ast.Yield | ast.YieldFrom)
        form = "_set_of_layer({}, {!r}, ({}))" if bare else "_set_of_layer({}, {!r}, {})"
        self.text.edit(start, end, lambda: form.format(self.text.within(target.value), target.attr, self.text.within(node.value)))
        self.note(target, f"torch.nn.Module.{target.attr}", Fate.REWRITTEN, "the attribute of a layer has another name in Paddle")
        return True

    def set_among(self, node: ast.Attribute) -> bool:
        """Write one of several targets by both names; False of another attribute.

        It stands in a tuple, a loop or a chain of assignments; one that is changed in place is read, too.
        """
        if isinstance(self._parent(), ast.AugAssign):
            return False
        if not isinstance(node.ctx, ast.Store) or not self._is_set_later(node) or self.hidden("_SetByName("):
            return False
        self.needs("_SetByName(_set_of_layer(")
        start = self.text.start(node)
        end = self.text.outer(node.value, start)[1]
        self.visit(node.value)
        self.text.edit(start, start, "_SetByName(", node)
        self.text.edit(end, end, ")", node, closes=True)
        self.note(node, f"torch.nn.Module.{node.attr}", Fate.REWRITTEN, "the attribute of a layer has another name in Paddle")
        return True

    def around(self, node: ast.Attribute) -> bool:
        """Rewrite an attribute of an optimizer, a context or a wrapped model.

        False where it is none.
        """
        owner = self.seen.values.get(place(node.value))
        if not isinstance(node.ctx, ast.Load) or not self.seen.imported:
            return False
        wrapped = isinstance(owner, Instance) and owner.of == "torch.nn.parallel.DistributedDataParallel"
        if node.attr == "module" and wrapped:
            self._attribute(node, "torch.nn.parallel.DistributedDataParallel.module", "{self}._layers", "the model within")
            return True
        if node.attr in _SAVED:
            return self._saved(node, owner)
        if node.attr in _OF_TYPES and getattr(self._parent(), "func", None) is not node and not isinstance(owner, Object | Class):
            self._attribute(node, f"torch.dtype.{node.attr}", _OF_TYPES[node.attr], "Paddle's dtypes have no such attribute")
            return True
        if node.attr == "param_groups" and not isinstance(owner, Object | Class):
            text = "the rate of a group is read and written through Paddle's factor"
            text += "; setting it raises where the optimizer follows a schedule"
            self._attribute(node, "torch.optim.Optimizer.param_groups", "_param_groups({self})", text)
            return True
        return self._own_of_torch(node, owner)

    def _own_of_torch(self, node: ast.Attribute, owner: Value) -> bool:
        """Rewrite what layers and optimizers keep for themselves, or leave it by hand.

        False of another attribute.
        A class of the program may have an attribute of such a name.
        """
        if _is_of_program(node.attr, self._parents[0]) or isinstance(owner, Class):
            return False
        layer = not isinstance(owner, Instance) or owner.of.startswith("torch.nn.")
        if layer and node.attr in _OF_LAYERS:
            self._attribute(node, f"torch.nn.Module.{node.attr}", _OF_LAYERS[node.attr], "kept under another name in Paddle")
            return True
        if layer and node.attr in _OF_LAYERS_ALONE:
            self.by_hand(node, f"torch.nn.Module.{node.attr}", "PyTorch's own: Paddle's layers have nothing of that name")
            return True
        if node.attr == "state" and _is_optimizer(node.value, owner):
            self.by_hand(node, "torch.optim.Optimizer.state", _STATE)
            return True
        return False

    def _saved(self, node: ast.Attribute, owner: Value) -> bool:
        """Rewrite the tensors that a context keeps.

        Those of an object that is not known are left, and that is noted.
        """
        if owner == Instance(_FUNCTION):
            self._attribute(node, f"{_FUNCTION}.saved_tensors", "{self}.saved_tensor()", "a method in Paddle")
            return True
        if owner is None or isinstance(owner, Choice):
            text = f"left as it is: a context of {_FUNCTION} has a method saved_tensor() in Paddle"
            self.note(node, f"{_FUNCTION}.saved_tensors", Fate.UNTOUCHED, text)
        return False

    def _attribute(self, node: ast.Attribute, name: str, template: str, text: str) -> None:
        if self.hidden(template):
            self.by_hand(node, name, self.hidden(template))
            return
        self.needs(template)
        start, end = self.text.start(node), self.text.end(node)
        self.visit(node.value)
        self.text.edit(start, end, lambda: template.replace("{self}", self.text.within(node.value)))
        self.note(node, name, Fate.REWRITTEN, text)

    def adjoint(self, node: ast.Attribute) -> bool:
        """Write ``x.H``, which Paddle has not; False of what is no tensor."""
        known, plain = self._is_tensor(node.value), getattr(node.value, "id", "")
        other = self.seen.values.get(place(node.value)) is not None or plain in ("self", "cls") or not self.seen.imported
        if (other and not known) or getattr(self._parent(), "func", None) is node:
            return False
        template = "_adjoint({self})" if known else f"_adjoint_of({{self}}, {node.attr!r})"
        self._attribute(node, f"torch.Tensor.{node.attr}", template, "a function in the file")
        return True

    def by_text(self, node: ast.Call) -> bool:
        """Write ``getattr(bn, "momentum")`` by both names; False of another call."""
        name, given = getattr(node.func, "id", ""), node.args
        if name not in _BY_TEXT or len(given) < _NAMED_SECOND or node.keywords or not self.seen.imported:
            return False
        asked, owner = getattr(given[1], "value", None), self.seen.values.get(place(given[0]))
        ours = conversions().layer_attributes.get(asked, "") if isinstance(asked, str) else ""
        helper = _BY_TEXT[name]
        if not ours or isinstance(owner, Object | Class) or self._is_tensor(given[0]) or is_setting(given[0]) or self.hidden(helper):
            return False
        self.needs(helper)
        self.text.edit(self.text.start(node.func), self.text.end(node.func), helper.removesuffix("("))
        if name != "setattr":
            self.text.edit(self.text.end(given[1]), self.text.end(given[1]), f", {ours!r}", node, closes=True)
        for each in given:
            self.visit(each)
        self.note(node, f"torch.nn.Module.{asked}", Fate.REWRITTEN, "the attribute of a layer has another name in Paddle")
        return True

    def layer_change(self, node: ast.AugAssign) -> bool:
        """Write ``bn.momentum *= 0.5`` by both names; False of another change."""
        target, sign = node.target, SIGNS.get(type(node.op), "")
        if not isinstance(target, ast.Attribute) or target.attr not in conversions().layer_attributes or not sign:
            return False
        if not self._is_set_later(target) or not is_dotted(target.value):
            return False
        ours, owner = conversions().layer_attributes[target.attr], self.text.source(target.value)
        self.needs("_set_of_layer(_attribute(")
        self.visit(node.value)
        start, end = self.text.start(node), self.text.end(node)
        head = f"_set_of_layer({owner}, {target.attr!r}, _attribute({owner}, {target.attr!r}, {ours!r}) {sign} "
        self.text.edit(start, end, lambda: f"{head}({self.text.within(node.value)}))")
        self.note(target, f"torch.nn.Module.{target.attr}", Fate.REWRITTEN, "the attribute of a layer has another name in Paddle")
        return True

    def _is_set_later(self, target: ast.Attribute) -> bool:
        """Whether what is given a setting may be a layer."""
        owner, plain = self.seen.values.get(place(target.value)), getattr(target.value, "id", "")
        if target.attr not in _SET_LATER or not self.seen.imported or self.hidden("_set_of_layer("):
            return False
        return not (
            plain in ("self", "cls") or isinstance(owner, Object | Class) or self._is_tensor(target.value) or is_setting(target.value)
        )

    def visit_Constant(self, node: ast.Constant) -> None:  # noqa: N802 - named as ast names it
        """Write the environment's variable that tells a process its rank."""
        ours = conversions().ranks.get(node.value) if isinstance(node.value, str) else None
        if ours is None or not self.seen.imported or not self._is_asked():
            return
        self.text.edit(self.text.start(node), self.text.end(node), repr(ours))
        self.note(node, f"os.environ[{node.value!r}]", Fate.REWRITTEN, "what Paddle's launcher tells a process")

    def _is_asked(self) -> bool:
        """Whether a constant is what the environment is asked for.

        ``os.environ["RANK"]``, ``os.getenv("RANK", 0)`` or ``in``.
        """
        parent = self._parent()
        if isinstance(parent, ast.Compare):
            return any(_is_environment(each) for each in parent.comparators)
        if isinstance(parent, ast.Subscript):
            return _is_environment(parent.value)
        if not isinstance(parent, ast.Call) or not parent.args or parent.args[0] is not self._parents[-1]:
            return False
        func = parent.func
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if name == "getenv":
            return True
        return name == "get" and isinstance(func, ast.Attribute) and _is_environment(func.value)


def _is_of_program(name: str, tree: ast.AST) -> bool:
    """Whether a program defines or sets an attribute of a name itself."""
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == name:
            return True
        if isinstance(each, ast.Attribute) and each.attr == name and isinstance(each.ctx, ast.Store):
            return True
    return False


def _is_optimizer(node: ast.expr, owner: Value) -> bool:
    """Whether an object is an optimizer: one of PyTorch's, or by how it is called."""
    if isinstance(owner, Instance):
        return owner.of.startswith("torch.optim.")
    name = (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")).casefold()
    return owner is None and ("optim" in name or name.strip("_") in ("opt", "meta_opt"))


def _is_environment(node: ast.expr) -> bool:
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "environ"
