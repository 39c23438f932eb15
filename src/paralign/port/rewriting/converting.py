"""One program rewritten for Paddle, by the places of its tree.

What is not known to be right raises there instead.
"""

from __future__ import annotations

import ast
import re

from paralign.catalogue.naming import paddle_name
from paralign.port.edits.call_edits import ROOTS
from paralign.port.edits.held_parts import is_changed, whole_of
from paralign.port.edits.kept_tensors import kept_name
from paralign.port.edits.ledger import Fate
from paralign.port.layers.derived_optimizers import looks_at_axes
from paralign.port.layers.layer_attributes import OWN_START
from paralign.port.layers.weight_elements import layout_notes
from paralign.port.names.observing import place
from paralign.port.plans.conversions import conversions
from paralign.port.rewriting.adding import SignConverter, raised
from paralign.port.rewriting.call_converting import TEXT
from paralign.port.rewriting.imports import alike, from_rewritten, import_rewritten

#: methods of a derived class that PyTorch calls, and what stands in the file does not
_UNCALLED = {
    "torch.autograd.Function": frozenset({"vmap", "jvp", "vjp"}),
    "torch.optim.Optimizer": frozenset({"zero_grad", "state_dict", "load_state_dict", "add_param_group"}),
}

#: what is said of a class that is derived from one that stands in the file
_DERIVED = {
    "torch.autograd.Function": "backward gives gradients for tensors alone in Paddle",
    "torch.nn.modules.loss._Loss": "what PyTorch's losses are derived from",
    "torch.nn.modules.loss._WeightedLoss": "what PyTorch's losses are derived from",
    "torch.utils.data.BatchSampler": "batches of what a sampler gives, as PyTorch defines them",
    "torch.optim.Optimizer": "its step treats all elements of a weight alike: Paddle keeps those of Linear the other way round",
    "torch.optim.lr_scheduler.LRScheduler": "raises where another schedule of the same optimizer is made",
}

#: methods whose results are views in both frameworks
_VIEWS = frozenset({"diagonal", "movedim", "narrow", "permute", "select", "squeeze", "swapaxes", "t", "transpose", "unsqueeze", "view"})

_PAST_LAYERS = "a layer of Paddle keeps a tensor without asking the class of an attribute that has __set__, but for a property"


class Converter(SignConverter):
    """Walks one program and notes the edits that make it Paddle's."""

    def visit_Module(self, node: ast.Module) -> None:  # noqa: N802 - named as ast names it
        """Rewrite a program, and note the lines that look at elements of weights."""
        told = self.lay_out_loops(node)
        self.generic_visit(node)
        known = {(each.line, each.column) for each in self.places if each.fate is Fate.BY_HAND}
        for each, text in layout_notes(node, self._names_of):
            if (self._place(each.lineno)[1], each.col_offset + 1) not in known and id(each) not in told:
                self.note(each, "torch.nn.Linear.weight", Fate.CONDITION, text)

    def visit_Import(self, node: ast.Import) -> None:  # noqa: N802 - as above
        """Rewrite ``import torch``."""
        if any(alias.name.partition(".")[0] in ROOTS for alias in node.names):
            self.text.edit(self.text.start(node), self.text.end(node), import_rewritten(node))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802 - as above
        """Rewrite ``from torch import …``."""
        if not node.level and (node.module or "").partition(".")[0] in ROOTS:
            self._statement(node, from_rewritten(node))
        module, ours = alike(node)
        if module:
            start = self.text.content.index(module.encode(), self.text.start(node))
            self.text.edit(start, start + len(module.encode()), ours)
            self.note(node, module, Fate.EQUAL, f"{ours}: the same layers for Paddle")

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
            elif name in conversions().base_helpers:
                self._on_helper(node, base, name)
            elif name is not None:
                self._derived(base, name)
            else:
                self.visit(base)
        for keyword in node.keywords:
            self.visit(keyword)
        self._set_past_layers(node)
        for statement in node.body:
            self.visit(statement)

    def _set_past_layers(self, node: ast.ClassDef) -> None:
        """Let attributes of a class with ``__set__`` see what a layer is given.

        Paddle's layers ask properties alone for a tensor.
        """
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        if "__set__" not in methods or not self.seen.imported:
            return
        kept = {"fget", "fset", "fdel", "__slots__"}  # a property has them already, and they cannot be set
        own = {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in ast.walk(node)}
        if node.bases or node.keywords or own & kept or not _gives_itself(methods.get("__get__")):
            self.note(node, "torch.nn.Module.__setattr__", Fate.CONDITION, _PAST_LAYERS)
            return
        name = re.compile(rb"class\s+\w+\s*(\(\s*\))?").match(self.text.content, self.text.start(node))
        if name is not None:
            written = f"class {node.name}(property)"
            self.text.edit(name.start(), name.end(), written)
            self.note(node, "torch.nn.Module.__setattr__", Fate.REWRITTEN, "Paddle's layers ask properties alone what they are given")

    def _on_helper(self, node: ast.ClassDef, base: ast.expr, name: str) -> None:
        """A class that is derived from one that stands in the file."""
        own = conversions().base_helpers[name]
        methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        lost = sorted(methods & _UNCALLED.get(name, frozenset()))
        reason = f"it has a method {lost[0]}, which Paddle does not call" if lost else self.hidden(own)
        looked = looks_at_axes(node, self._parents[0]) if name == "torch.optim.Optimizer" and not reason else ""
        if looked:
            reason = f"Paddle keeps a Linear's weight the other way round, and its step may see that: {looked}"
        if reason:
            self.by_hand(base, name, reason)
            return
        self.needs(own)
        self.text.edit(self.text.start(base), self.text.end(base), own)
        self.note(base, name, Fate.REWRITTEN, _DERIVED[name])

    def _derived(self, base: ast.expr, name: str) -> None:
        adapter = self.adapter(name)
        if adapter is None or not adapter[1].is_class:
            self.by_hand(base, name, "nobody executed a class derived from it on both sides")
            return
        self._adapted(base, name, adapter)

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
        self.note_read_part(node)

    def visit_Assign(self, node: ast.Assign) -> None:  # noqa: N802 - as above
        """Refuse assignments to what belongs to PyTorch; note writes into tensors."""
        self.freezing(node)
        if self.setting(node) or self.layer_setting(node) or self.weight_set(node):
            return
        for target in node.targets:
            if self.belongs(target):
                self.by_hand(node, ast.unparse(target), "a setting of PyTorch's")
                return
            if isinstance(target, ast.Subscript) and self._is_tensor(target.value) and not self._is_part_of_tensor(target.value):
                self.note(
                    target, "torch.Tensor.__setitem__", Fate.CONDITION, "writes into a view reach the tensor behind it in PyTorch only"
                )
        self.nested_set(node)
        self.set_in_sequential(node)
        self.generic_visit(node)
        self.note_read_part(node)

    def visit_Name(self, node: ast.Name) -> None:  # noqa: N802 - as above
        """Rewrite an imported name; guard one whose tensor is a part that is changed in place."""
        if (
            not self._reference(node)
            and self.seen.imported
            and (self._is_written_into(node) or is_changed(node, self._parents, self._is_function))
        ):
            self._guarded(node)

    def _guarded(self, node: ast.Name) -> None:
        """Let a change of a part raise where Paddle leaves the whole as it was."""
        whole = whole_of(node, self._parents)
        past = getattr(self._parent(), "attr", "") == "data"  # no gradient is lost there, and a view shares its memory
        if whole is None or (past and whole.kind in ("view", "index")) or self.hidden("_changed_part("):
            return
        self.needs("_changed_part(")
        start, end = self.text.start(node), self.text.end(node)
        self.text.edit(start, start, "_changed_part(", node)
        self.text.edit(end, end, f", {self.told(whole)})", node, closes=True)
        self.note(node, "torch.Tensor", Fate.REWRITTEN, f"raises where {raised(whole)}")

    def visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802 - as above
        """As a part's; what a named part is given must not lose its gradient."""
        filled, before = self._filled_name(node.value), len(self.text.edits)
        start, end = self.text.start(node), self.text.end(node)
        if filled:
            values = ", ".join(self.text.source(each) for each in self._tensors_among(node.value))
            told = f", {values}" if values else ""
            self.text.edit(start, start, f"_put_into_view({filled}, lambda {filled}: ", node.value)
        self._visit_expression(node)
        if not filled:
            return
        beside = [each for each in self.text.edits[before + 1 :] if each.start in (start, end) and ";" in str(each.text)]
        if beside:  # other statements watch this one, which raises where a gradient is asked for
            del self.text.edits[before]
            return
        self.needs("_put_into_view(")
        self.text.edit(end, end, f"{told})", node.value, closes=True)
        self.note(node, "torch.Tensor", Fate.REWRITTEN, "a value put into a view of a tensor that may ask for a gradient")

    def _visit_changing(self, node: ast.stmt) -> None:
        """Rewrite a statement whose own expressions may change a tensor in place."""
        self.generic_visit(node)
        self.note_read_part(node)

    visit_Assert = visit_Return = visit_If = visit_While = visit_For = visit_AsyncFor = _visit_changing  # noqa: N815 - as above
    visit_With = visit_AsyncWith = visit_Match = _visit_changing  # noqa: N815 - as above

    def _filled_name(self, call: ast.expr) -> str:
        """The tensor whose view a statement fills: ``x.diagonal().fill_(0)``; '' of another."""
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in ("fill_", "zero_"):
            return ""
        given = [*call.args, *[each.value for each in call.keywords]]
        plain = (ast.Constant, ast.Name, ast.UnaryOp, ast.unaryop, ast.expr_context, ast.Attribute)
        called = [each for part in given for each in ast.walk(part) if not isinstance(each, plain)]
        if any(not isinstance(each, ast.Call) or getattr(each.func, "id", "") != "float" for each in called):
            return ""
        inner = call.func.value
        if not isinstance(inner, ast.Call) or self.hidden("_put_into_view("):
            return ""
        while isinstance(inner, ast.Call):
            if not isinstance(inner.func, ast.Attribute) or inner.func.attr not in _VIEWS:
                return ""
            inner = inner.func.value
        if not isinstance(inner, ast.Name) or place(inner) in self.named or not self.seen.imported:
            return ""
        return "" if self._may_be_part(inner, call) else inner.id

    def _tensors_among(self, call: ast.expr) -> list[ast.expr]:
        """The values that a call fills with which may be tensors."""
        given = [*call.args, *[each.value for each in call.keywords]] if isinstance(call, ast.Call) else []
        names = {id(each): [part for part in ast.walk(each) if isinstance(part, ast.Name)] for each in given}
        return [
            each
            for each in given
            if names[id(each)] and not isinstance(each, ast.Call) and not any(place(part) in self.named for part in names[id(each)])
        ]

    def _may_be_part(self, name: ast.Name, call: ast.Call) -> bool:
        """Whether a name stands for a part; of a parameter that is asked when it runs."""
        return whole_of(name, [*self._parents, call, name]) is not None

    def _visit_expression(self, node: ast.Expr) -> None:
        super().visit_Expr(node)
        self.note_read_part(node)
        call = node.value
        given = [*call.args, *[each.value for each in call.keywords]] if isinstance(call, ast.Call) else []
        if not isinstance(call, ast.Call) or not self.seen.imported or all(isinstance(each, ast.Constant) for each in given):
            return
        name: ast.AST = call
        around: list[ast.AST] = []
        while isinstance(name, ast.Call | ast.Attribute | ast.Subscript):
            around.append(name)
            name = name.func if isinstance(name, ast.Call) else name.value
        inner = [*self._parents, *around, name]
        if not isinstance(name, ast.Name) or any(getattr(each, "attr", "") == "data" for each in around):
            return
        whole = whole_of(name, inner) if is_changed(name, inner, self._is_function) else None
        if whole is None or self.hidden("_not_lost("):
            return
        self.needs("_not_lost(")
        end = self.text.end(node)
        self.text.edit(end, end, f"; _not_lost({name.id}, {self.told(whole)})", closes=True)

    def _is_function(self, called: ast.expr) -> bool:
        """Whether what is called is a function of an imported module, and no method of a tensor."""
        return place(called) in self.named

    def _of_its_own(self, node: ast.Attribute | ast.Subscript) -> bool:
        """Let a change of what an attribute or a key keeps raise where that is a part.

        True where it is left by hand.
        """
        name = kept_name(node) if isinstance(node.ctx, ast.Load) and self.seen.imported else ""
        if not name or not (self._is_written_into(node) or is_changed(node, self._parents, self._is_function)):
            return False
        parent = self._parent()
        if isinstance(parent, ast.Subscript) and (kept_name(parent) or self._may_be_held(parent, numbered=True)):
            return False
        if self.kept.is_copied(name):
            self.by_hand(node, "torch.Tensor", "in place on what may be a part of a tensor: Paddle's is a copy")
            return True
        if self.kept.is_made(name) or getattr(parent, "attr", "") == "data" or self.hidden("_own("):
            return False
        self.needs("_own(")
        self.text.edit(self.text.start(node), self.text.start(node), "_own(", node)
        self.text.edit(self.text.end(node), self.text.end(node), ")", node, closes=True)
        self.note(node, "torch.Tensor", Fate.REWRITTEN, "raises where it is a part of a tensor that asks for a gradient")
        return False

    def _is_written_into(self, node: ast.expr) -> bool:
        """Whether a part of an expression is written as the target of an assignment."""
        return isinstance(self._written_part, ast.Subscript) and self._written_part.value is node

    def visit_Subscript(self, node: ast.Subscript) -> None:  # noqa: N802 - as above
        """As a place's; a tensor that a key keeps is asked for whether it is a part."""
        if node is not self._replaced and not self._of_its_own(node):
            super().visit_Subscript(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:  # noqa: N802 - as above
        """Rewrite a dotted name, or an attribute that means something else."""
        if self._reference(node) or self._of_its_own(node):
            return
        if (node.attr == "weight" and self._of_weight(node)) or self._is_absent(node):
            return
        self._of_layer(node)
        if self.set_among(node) or self.around(node):
            return
        if node.attr in ("H", "mH") and isinstance(node.ctx, ast.Load) and self.adjoint(node):
            return
        if node.attr in ("real", "imag") and isinstance(node.ctx, ast.Load) and self._is_tensor(node.value):
            self.text.edit(self.text.end(node), self.text.end(node), "()", node, closes=True)
            self.note(node, f"torch.Tensor.{node.attr}", Fate.REWRITTEN, "a method in Paddle")
        if node.attr == "device" and isinstance(node.ctx, ast.Load) and self._is_tensor(node.value):
            self.note(node, "torch.Tensor.device", Fate.CONDITION, "a text in Paddle")
        if node.attr == "dtype" and isinstance(self._parent(), ast.Call | ast.FormattedValue):
            self.note(node, "torch.Tensor.dtype", Fate.CONDITION, "another text in Paddle: paddle.float32")
        if node.attr == "shape" and isinstance(self._parent(), ast.Compare) and self._is_tensor(node.value):
            self.text.edit(self.text.start(node), self.text.start(node), "tuple(", node)
            self.text.edit(self.text.end(node), self.text.end(node), ")", node, closes=True)
        self.generic_visit(node)

    def _of_weight(self, node: ast.Attribute) -> bool:
        """Write a weight that may lie the other way round; False of one that is left."""
        if isinstance(node.ctx, ast.Load) and self.seen.imported and self.as_hooked(node):
            self.generic_visit(node)
            return True
        if self._is_linear(node) and not self._is_layout_free() and self.as_written(node):
            self.generic_visit(node)
            return True
        if self._has_ties and self._is_linear(node) and not self._is_started() and self.as_read(node):
            pass
        elif self._is_linear(node) and not self._is_own_start(node) and not self._is_layout_free() and not self._is_started():
            if self._has_ties and not self.turn_here(node):
                self.by_hand(node, "torch.nn.Linear.weight", "layers share weights here, and how this one lies is not known")
                return True
            if not self._has_ties:
                self.text.edit(self.text.end(node), self.text.end(node), ".T", node, closes=True)
            self._transposed(node)
        elif self._is_own_start(node):
            self.note(node, "torch.nn.Linear.weight", Fate.CONDITION, OWN_START)
        elif not isinstance(node.ctx, ast.Load) or not self.seen.imported or not self._turned(node):
            return False
        elif not (self._as_value(node) or self.as_read(node) or self.as_written(node)):
            self.by_hand(node, "torch.nn.Linear.weight", "Linear keeps its weight transposed in Paddle, and this layer may be one")
            return True
        self.generic_visit(node)
        return True

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:  # noqa: N802 - as above
        """As the referrer's; the text of a tensor is noted."""
        for each in node.values:
            if isinstance(each, ast.FormattedValue) and self._is_tensor(each.value):
                self.note(each.value, "torch.Tensor.__format__", Fate.CONDITION, TEXT)
        super().visit_JoinedStr(node)


def _gives_itself(method: ast.FunctionDef | None) -> bool:
    """Whether ``__get__`` gives itself where a class is asked, as a property does."""
    own = method.args.args[0].arg if method is not None and method.args.args else ""
    found = [each.value for each in ast.walk(method) if isinstance(each, ast.Return)] if method is not None else []
    found += [branch for each in found if isinstance(each, ast.IfExp) for branch in (each.body, each.orelse)]
    return any(isinstance(each, ast.Name) and each.id == own for each in found)
