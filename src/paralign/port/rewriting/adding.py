"""Signs that change a tensor: ``x += 1`` is in place in PyTorch, not in Paddle."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.port.edits.changing import HEADED
from paralign.port.edits.held_parts import Whole, is_held, whole_of
from paralign.port.edits.kept_tensors import kept_name
from paralign.port.edits.ledger import Fate
from paralign.port.edits.number_stores import is_of_numbers
from paralign.port.edits.read_parts import ReadPart, read_parts
from paralign.port.edits.shared_tensors import is_kept_item, is_kept_twice, is_shared, item_of
from paralign.port.edits.tensor_results import SAME_OR_NEW, VIEWED, VIEWS
from paralign.port.names.expression_forms import is_text, is_told_twice
from paralign.port.names.observing import place
from paralign.port.names.operand_types import Kind
from paralign.port.plans.operators import SIGNS
from paralign.port.rewriting.taking import Taker

if TYPE_CHECKING:
    from collections.abc import Iterator

#: what a part that is changed in place raises for
_PART = "a part that asks for a gradient is changed: Paddle leaves the whole tensor, or its gradient, as it was"

#: what one raises for that is a copy in Paddle at all times
_COPIED = "a part that is a view in PyTorch and a copy in Paddle is changed"

#: what is said of a part that is not known to be one
_NEW_PART = "a part of a tensor that asks for a gradient becomes a new tensor: another result only where that tensor is read later"

#: what is said of a tensor that an attribute or a key keeps
_KEPT = "in place, as in PyTorch; raises where it is a part of a tensor that asks for a gradient"

#: what is no operand of a tensor, or waits for another program
_NO_OPERANDS = (ast.Await, ast.Dict, ast.List, ast.ListComp, ast.Set, ast.Tuple, ast.Yield, ast.YieldFrom)

#: functions and methods that give texts
_TEXTS = frozenset({"format", "join", "repr", "str"})

#: layers that may give back what they are given
_SAME = frozenset(
    {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "Flatten", "Identity", "Unflatten"}
)

#: functions whose result may be what they are given, or share its memory
_SHARING = frozenset({
    "as_strided", "as_tensor", "asarray", "alpha_dropout", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "detach", "dropout",
    "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "frombuffer", "from_numpy", "positive", "real", "imag",
}) | SAME_OR_NEW | VIEWED | VIEWS  # fmt: skip


def raised(whole: Whole) -> str:
    """What a change of a part raises for."""
    return _COPIED if whole.kind == "copy" else _PART


class SignConverter(Taker):
    """Write signs that change a tensor so that all names of it see the change."""

    def visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802 - as above
        """Note what is in place in PyTorch alone."""
        if self.layer_change(node):
            return
        if self.belongs(node.target):
            self.by_hand(node, ast.unparse(node.target), "a setting of PyTorch's")
            return
        if self.nested_change(node) or self._added_to_part(node):
            self.note_read_part(node)
            return
        if self._is_tensor(node.target):
            text = "in place in PyTorch, a new tensor in Paddle: another result only where the old tensor has a second name"
            self.note(node.target, "torch.Tensor.__iadd__", Fate.CONDITION, text)
        super().visit_AugAssign(node)
        self.note_read_part(node)

    def note_read_part(self, node: ast.stmt) -> None:
        """Let a change raise where a part that is read later would keep its gradient."""
        found = read_parts(node, self._parents) if self.seen.imported else []
        if not found or self.hidden("_parts_kept("):
            return
        self.needs("_parts_kept(")
        calls = "; ".join(map(self._asked_for, found))
        if isinstance(node, HEADED):  # before its line; what is behind `elif`, before the first `if`
            first = next(
                (each for each in self._ifs_around(node) if not self.text.content.startswith(b"elif", self.text.start(each))), node
            )
            start = self.text.start(first)
            indent = self.text.content[self.text.line(first.lineno) : start].decode("utf-8", errors="surrogatepass")
            self.text.edit(start, start, f"{calls}\n{indent}", first)
        elif isinstance(node, ast.Return):
            self.text.edit(self.text.start(node), self.text.start(node), f"{calls}; ", node)
        else:
            end = self.text.end(node)
            self.text.edit(end, end, f"; {calls}", node, closes=True)
        self.note(
            node, "torch.Tensor", Fate.REWRITTEN, "raises where a part that is read later asks for a gradient, or is a copy in Paddle"
        )

    def _ifs_around(self, node: ast.stmt) -> Iterator[ast.stmt]:
        """A statement, and the conditions that it is an alternative of, the innermost first."""
        yield node
        inner: ast.AST = node
        for each in reversed([each for each in self._parents if each is not node]):
            if not isinstance(each, ast.If) or each.orelse != [inner]:
                return
            yield each
            inner = each

    def _asked_for(self, part: ReadPart) -> str:
        """The call that raises where a part is kept; it is asked which of several kinds it is."""
        asked = part.names if part.kind in ("index", "split") else ()
        return f"_parts_kept({self.text.source(part.whole)}, {part.kind!r}{''.join(f', lambda: {each}' for each in asked)})"

    def told(self, whole: Whole) -> str:
        """A whole and its kind, for helpers of the file.

        It is asked for later where it may not be there.
        """
        if whole.others:
            told = ", ".join(f"lambda: {self.text.source(each)}" for each in (whole.tensor, *whole.others))
            return f"({told}), {whole.kind!r}"
        return f"{'' if whole.sure else 'lambda: '}{self.text.source(whole.tensor)}, {whole.kind!r}"

    def _added_to_part(self, node: ast.AugAssign) -> bool:
        """Write ``a += 1`` of a part, or of a tensor with other names, as a call."""
        target, sign = node.target, SIGNS.get(type(node.op), "")
        if not sign or not self.seen.imported or self.hidden("_added_to_part(") or self._is_of_no_tensor(node):
            return False
        if isinstance(target, ast.Name):
            return self._added_to_name(node, target, sign)
        if not is_told_twice(target):
            return False
        if is_kept_item(target):
            return self._added_to_kept(node, target, sign)
        return isinstance(target, ast.Subscript) and self._added_to_item(node, target, sign)

    def _is_of_no_tensor(self, node: ast.AugAssign) -> bool:
        """Whether a sign changes a number, a text or a list, by the source."""
        target, value = node.target, node.value
        called = getattr(value.func, "attr", getattr(value.func, "id", "")) if isinstance(value, ast.Call) else ""
        if isinstance(value, _NO_OPERANDS) or is_text(value) or called in _TEXTS:
            return True
        if self.kinds.of(value, self._parents) is not Kind.NUMBER:
            return False
        if self.kinds.of(target, self._parents) is Kind.NUMBER:
            return True
        last = target.id if isinstance(target, ast.Name) else kept_name(target)
        stored = [*self.kept.stored.get(last, []), *self.kept.spelled.get(last, [])] if not isinstance(target, ast.Name) else []
        return bool(stored) and all(self.kinds.of(each, self._parents[:1]) is Kind.NUMBER for each in stored)

    def _added_to_name(self, node: ast.AugAssign, target: ast.Name, sign: str) -> bool:
        around = [*self._parents, target]
        whole = whole_of(target, around)
        if whole is not None:
            self._write_added(node, sign, f", {self.told(whole)}", f"in place, as in PyTorch; raises where {raised(whole)}")
        elif is_held(target, around):
            self._write_added(node, sign, "", "in place, as in PyTorch")
        elif not is_shared(target, around, self._is_new):
            return False
        elif item_of(target, around) and not self.hidden("_own("):
            self._write_added(node, sign, "", _KEPT, own=True)
        else:
            self._write_added(node, sign, "", _NEW_PART, Fate.CONDITION)
        return True

    def _added_to_kept(self, node: ast.AugAssign, target: ast.Attribute | ast.Subscript, sign: str) -> bool:
        """Write ``self.total += x`` of what may have another name."""
        name = kept_name(target)
        if not name or self.hidden("_own("):
            return False
        if self.kept.is_copied(name):
            self.by_hand(node, "torch.Tensor.__iadd__", "in place on what may be a part of a tensor: Paddle's is a copy")
            return True
        if not is_kept_twice(name, self.kept, self._is_new):
            return False
        self._write_added(node, sign, "", _KEPT, own=True)
        return True

    def _added_to_item(self, node: ast.AugAssign, target: ast.Subscript, sign: str) -> bool:
        """Write ``values[0] += 1``, which changes a tensor that a list holds."""
        places = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        by_axes = (ast.Slice, ast.Compare, ast.List)
        plain = any(isinstance(each, by_axes) or getattr(each, "value", 0) in (None, Ellipsis) for each in places)
        known = self._is_one(target.value) or is_of_numbers(target.value, self._parents)
        if plain or known or isinstance(target.slice, ast.Tuple | ast.Yield | ast.YieldFrom) or self.hidden("_added_to_item("):
            return False
        self.needs("_added_to_item(")
        self.visit(node.value)
        container, at = target.value, target.slice
        for each in (container, at):
            self.visit(each)
        self.text.edit(
            self.text.start(node),
            self.text.end(node),
            lambda: f"_added_to_item({sign!r}, {self.text.within(container)}, {self.text.within(at)}, {self.text.within(node.value)})",
        )
        self.note(target, "torch.Tensor.__iadd__", Fate.REWRITTEN, "a tensor that a list or a dictionary holds is changed, as in PyTorch")
        return True

    def _write_added(self, node: ast.AugAssign, sign: str, tail: str, said: str, fate: Fate = Fate.REWRITTEN, *, own: bool = False) -> None:
        """Write a sign as a call, and what it is a part of behind it."""
        self.needs("_added_to_part(")
        self.visit(node.value)
        changed = self.text.source(node.target)
        if own:
            self.needs("_own(")
        part = f"_own({changed})" if own else changed
        head = f"{changed} = _added_to_part({sign!r}, {part}, "
        self.text.edit(self.text.start(node), self.text.end(node), lambda: f"{head}({self.text.within(node.value)}){tail})")
        self.note(node.target, "torch.Tensor.__iadd__", fate, said)

    def _is_new(self, call: ast.Call) -> bool:
        """Whether nothing else holds what a call of PyTorch or of its layers gives."""
        if any(each.arg == "inplace" for each in call.keywords):
            return False
        names = self._names_of(call)
        if names:
            return all(name.startswith("torch.") and not _is_sharing(name.rpartition(".")[2]) for name in names)
        layers = self.kept.spelled.get(ast.unparse(call.func), [])
        return bool(layers) and all(map(self._is_layer_of_results, layers))

    def _is_layer_of_results(self, node: ast.expr) -> bool:
        """Whether an expression makes a layer of PyTorch that gives new tensors."""
        if not isinstance(node, ast.Call) or any(each.arg == "inplace" for each in node.keywords):
            return False
        names = self._names_of(node)
        if names == ["torch.nn.Sequential"]:
            return any(map(self._is_layer_of_results, node.args))
        made = all(name.startswith("torch.nn.") and name.rpartition(".")[2] not in _SAME for name in names)
        return bool(names) and made and not any(name.startswith("torch.nn.Module.") for name in names)

    def belongs(self, target: ast.expr) -> bool:
        """Whether a target belongs to an imported module."""
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
            if place(target) in self.named:
                return True
        return False


def _is_sharing(name: str) -> bool:
    """Whether a function gives what it is given, or a part of it."""
    return name in _SHARING or (name.endswith("_") and not name.endswith("__"))
