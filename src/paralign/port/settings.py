"""What stands around a model.

Settings that are assigned, a launcher's ranks, groups of an optimizer, a context's tensors.
"""

from __future__ import annotations

import ast

from paralign.port.conversions import conversions
from paralign.port.ledger import Fate
from paralign.port.observing import place
from paralign.port.placing import Placer
from paralign.port.values import Choice, Class, Instance, Object, Value

#: the class whose methods are given a context first
_FUNCTION = "torch.autograd.Function"

#: attributes that programs set in layers that are made already, and that Paddle's layers have under other names
_SET_LATER = frozenset({"eps", "momentum", "stride", "dilation", "padding", "groups", "kernel_size", "negative_slope", "padding_idx"})

#: attributes of a context of it
_SAVED = frozenset({"saved_tensors", "saved_variables"})


class Settings(Placer):
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
        if len(node.targets) > 1 or not isinstance(target, ast.Attribute) or not self.seen.imported or self.hidden("_set_of_layer("):
            return False
        owner, plain = self.seen.values.get(place(target.value)), getattr(target.value, "id", "")
        if target.attr not in _SET_LATER or plain in ("self", "cls") or isinstance(owner, Object | Class) or self._is_tensor(target.value):
            return False
        self.needs("_set_of_layer(")
        self.visit(target.value)
        self.visit(node.value)
        start, end, bare = self.text.start(node), self.text.end(node), isinstance(node.value, ast.Tuple | ast.Yield | ast.YieldFrom)
        form = "_set_of_layer({}, {!r}, ({}))" if bare else "_set_of_layer({}, {!r}, {})"
        self.text.edit(start, end, lambda: form.format(self.text.within(target.value), target.attr, self.text.within(node.value)))
        self.note(target, f"torch.nn.Module.{target.attr}", Fate.REWRITTEN, "the attribute of a layer has another name in Paddle")
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
        if node.attr == "param_groups" and not isinstance(owner, Object | Class):
            text = "the rate of a group is read and written through Paddle's factor"
            text += "; setting it raises where the optimizer follows a schedule"
            self._attribute(node, "torch.optim.Optimizer.param_groups", "_param_groups({self})", text)
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


def _is_environment(node: ast.expr) -> bool:
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "environ"
