"""Operators of tensors of several types, which Paddle refuses."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from paralign.port.edits.ledger import Fate
from paralign.port.names.operand_types import DISCRETE, Kind, Kinds
from paralign.port.plans.conversions import conversions
from paralign.port.plans.operators import OF_BITS, OF_ONE_TYPE, SIGNS, as_calls, is_operator, parsed
from paralign.port.rewriting.deriving import Deriver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: what joins tensors along an axis that is there; one without elements is left out, whatever its rank
_CAT = frozenset({"torch.cat", "torch.concat", "torch.concatenate"})

#: what makes a tensor without elements
_EMPTY = frozenset({
    "BoolTensor", "DoubleTensor", "FloatTensor", "IntTensor", "LongTensor", "Tensor", "empty", "new_empty", "new_zeros", "ones", "rand",
    "randn", "tensor", "zeros",
})  # fmt: skip

_SAID = "PyTorch computes it in a common type of both, Paddle refuses two types"


#: operators of numbers, which Paddle refuses for a truth value beside a floating tensor
_OF_NUMBERS = frozenset({"+", "-", "*", "/"})

#: methods and functions that are given truth values: a method first, a function second, ``where`` first
_CONDITIONED = frozenset({"masked_fill", "masked_fill_", "masked_select", "masked_scatter", "masked_scatter_", "where"})

#: methods of truth values that give them in another form, or count them
_FORMS = frozenset({
    "clamp", "clamp_min", "contiguous", "cumsum", "detach", "expand", "expand_as", "flatten", "reshape", "squeeze", "sum", "transpose",
    "unsqueeze", "view",
})  # fmt: skip


class Mixer(Deriver):
    """Write such an operator as a call, where an operand is known to be discrete."""

    #: functions in which Paddle has refused an operator, as ``Class.method``: all that may be of several types is written so there
    refused: frozenset[str] = frozenset()

    #: whether a file of the program asks for gradients that have gradients
    derived_twice = False

    @property
    def kinds(self) -> Kinds:
        """What the source tells of the types of expressions."""
        if not hasattr(self, "_kinds"):
            self._kinds = Kinds(self.named)
        return self._kinds

    def visit_BinOp(self, node: ast.BinOp) -> None:  # noqa: N802 - named as ast names it
        """Write ``a + b`` of several types."""
        sign = SIGNS.get(type(node.op), "")
        if sign and self._is_mixed(sign, node.left, node.right):
            self._as_call(node, sign, node.left, node.right)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:  # noqa: N802 - as above
        """Write ``a < b`` of several types."""
        sign = SIGNS.get(type(node.ops[0]), "") if len(node.ops) == 1 else ""
        if sign and self._is_mixed(sign, node.left, node.comparators[0]):
            self._as_call(node, sign, node.left, node.comparators[0])
        super().visit_Compare(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802 - as above
        """Write ``a += b`` of several types: the tensor keeps its own."""
        sign = SIGNS.get(type(node.op), "")
        plain = isinstance(node.target, ast.Name | ast.Attribute)
        if plain and self._is_mixed(sign, node.target, node.value) and not self.hidden("_operand("):
            self.needs("_operand(")
            start, end = self.text.outer(node.value, self.text.end(node.target))
            self.text.edit(start, start, f"_operand({self.text.source(node.target)}, ", node.value)
            self.text.edit(end, end, ")", node.value, closes=True)
            self.note(node, f"torch.Tensor {sign}=", Fate.REWRITTEN, "the tensor keeps its type, and Paddle refuses two")
        self.generic_visit(node)

    def _is_mixed(self, sign: str, first: ast.expr, second: ast.expr) -> bool:
        """Whether Paddle may refuse an operator because of its operands' types."""
        if not self.seen.imported or self._annotation or any(isinstance(each, ast.JoinedStr) for each in self._parents):
            return False
        kinds = [self.kinds.of(each, self._parents) for each in (first, second)]
        if sign in OF_BITS:
            written = any(isinstance(each, ast.Constant) and isinstance(each.value, int) for each in (first, second))
            return _is_of_bits_and_numbers(kinds, written=written and any(map(self._is_known, (first, second))))
        if kinds == [Kind.BOOL, Kind.BOOL]:
            return sign == "/"
        if self.refused and Kind.UNKNOWN in kinds and Kind.NUMBER not in kinds and qualified(self._parents) in self.refused:
            return True
        if Kind.UNKNOWN in kinds and Kind.NUMBER not in kinds and self._is_unknown_whole(sign, kinds, (first, second)):
            return True
        return (
            DISCRETE.intersection(kinds) != set()
            and Kind.NUMBER not in kinds
            and (kinds[0] is not kinds[1] or Kind.SHORT in kinds or Kind.NARROW in kinds)
        )

    def _is_unknown_whole(self, sign: str, kinds: Sequence[Kind], operands: Sequence[ast.expr]) -> bool:
        """Whether an operand of unknown type is used as truth values, or spread as times are."""
        unknown = [each for kind, each in zip(kinds, operands, strict=True) if kind is Kind.UNKNOWN]
        if sign in _OF_NUMBERS and any(map(self._is_mask, unknown)):
            return True
        return set(kinds) == {Kind.FLOAT, Kind.UNKNOWN} and self._is_spread(unknown[0])

    def _is_mask(self, node: ast.expr) -> bool:
        """Whether the function around an expression uses its tensor as truth values too.

        ``~mask``, ``mask & other``, ``x.masked_fill(mask, 0)``: beside a floating tensor Paddle refuses it.
        """
        root = _root(node)
        functions = [each for each in self._parents if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        return root is not None and functions != [] and ast.unparse(root) in self._masks_of(functions[-1])

    def _masks_of(self, scope: ast.AST) -> frozenset[str]:
        """The spellings of what a function uses as truth values."""
        if id(scope) not in self._masks:
            roots = [_root(used) for each in ast.walk(scope) for used in _as_truth(each)]
            self._masks[id(scope)] = frozenset(ast.unparse(root) for root in roots if root is not None)
        return self._masks[id(scope)]

    @cached_property
    def _masks(self) -> dict[int, frozenset[str]]:
        return {}

    def _is_spread(self, node: ast.expr) -> bool:
        """Whether an expression is an argument along a new axis: ``time[:, None]``.

        Times and positions, which are whole numbers, meet their frequencies so.
        """
        if isinstance(node, ast.Subscript):
            index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            spread = any(isinstance(each, ast.Constant) and each.value is None for each in index)
        else:
            spread = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "unsqueeze"
        while isinstance(node, ast.Subscript | ast.Call | ast.Attribute):
            node = node.func if isinstance(node, ast.Call) else node.value
        functions = [each for each in self._parents if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        given = {each.arg for each in functions[-1].args.args} - {"self", "cls"} if functions else set()
        return spread and isinstance(node, ast.Name) and node.id in given

    def _is_known(self, node: ast.expr) -> bool:
        """Whether an expression is a tensor, by its type or its elements' type."""
        return self._is_tensor(node) or self.kinds.of(node, self._parents) in DISCRETE

    def _as_call(self, node: ast.BinOp | ast.Compare, sign: str, first: ast.expr, second: ast.expr) -> None:
        text = self.text
        before = text.outer(first, text.start(node))[1]
        after = text.outer(second, before)[0]
        if self.hidden("_mixed(") or b"#" in text.content[before:after] or b"\\" in text.content[before:after]:
            return
        self.needs("_mixed(")
        text.edit(text.start(node), text.start(node), f"_mixed({sign!r}, ", node)
        text.edit(before, after, ", ", node)
        text.edit(text.end(node), text.end(node), ")", node, closes=True)
        self.note(node, f"torch.Tensor {sign}", Fate.REWRITTEN, _SAID)

    def typed_template(self, name: str, given: Mapping[str, ast.expr], receiver: ast.expr | None = None) -> str:
        """The template of a call of several types, or of bounds that may be tensors.

        ``receiver`` is the object whose method it is.
        """
        table = conversions()
        chosen = self._by_operands(name, given, receiver)
        if chosen is not None:
            return chosen
        if name in table.bounded:
            bounds = [given[each] for each in ("min", "max") if each in given]
            known = all(getattr(each, "value", 0) is None or self.kinds.of(each, self._parents) is Kind.NUMBER for each in bounds)
            return "" if known or self.hidden(table.bounded[name]) else table.bounded[name]
        listed = given.get("tensors") if name in table.joined else None
        if listed is not None and name in _CAT and self._holds_empty(listed) and not self.hidden(table.joined[name]):
            return table.joined[name]
        if not isinstance(listed, ast.List | ast.Tuple) or any(isinstance(each, ast.Starred) for each in listed.elts):
            return ""
        kinds = {self.kinds.of(each, self._parents) for each in listed.elts}
        several = len(kinds) > 1 and not DISCRETE.isdisjoint(kinds)
        return table.joined[name] if several and not self.hidden(table.joined[name]) else ""

    def _by_operands(self, name: str, given: Mapping[str, ast.expr], receiver: ast.expr | None) -> str | None:
        """The template that the types of a call's tensors ask for; None without one."""
        table = conversions()
        if self.derived_twice and name in table.twice and "dtype" not in given and not self.hidden(table.twice[name]):
            return table.twice[name]
        if name in table.paired:
            pair = [self.kinds.of(each, self._parents) for each in ([receiver] if receiver is not None else []) + [*given.values()]]
            plain = len(pair) != _PAIR or Kind.NUMBER in pair or (pair[0] is pair[1] and pair[0] in (Kind.FLOAT, Kind.INT))
            return "" if plain or self.hidden(table.paired[name]) else table.paired[name]
        summed = receiver if receiver is not None else given.get("input")
        if summed is None or "dtype" in given:
            return None
        for kind, widened in ((Kind.NARROW, table.widened), (Kind.BOOL, table.counted)):
            if name in widened and self.kinds.of(summed, self._parents) is kind:
                return widened[name]
        return table.summed[name] if name in table.summed and self._may_be_narrow(summed) else None

    def _may_be_narrow(self, node: ast.expr) -> bool:
        """Whether a tensor of unknown type may be of whole numbers of less than 32 bits."""
        return self.kinds.of(node, self._parents) is Kind.UNKNOWN and self.holds_narrow() and not self.hidden("_summed(")

    def _holds_empty(self, listed: ast.expr) -> bool:
        """Whether a list of tensors begins empty: ``torch.cat([torch.empty(0), x])``.

        By its own elements, or by what the file gives a name of the same spelling.
        """
        asked = [listed, *listed.elts] if isinstance(listed, ast.List | ast.Tuple) else [listed]
        spelled = {ast.unparse(each) for each in asked if isinstance(each, ast.Name | ast.Attribute)}
        bound = [value for each in spelled for value in self.kept.spelled.get(each, [])]
        inner = [part for each in bound if isinstance(each, ast.List | ast.Tuple) for part in each.elts]
        return any(map(_is_empty, [*asked, *bound, *inner]))

    def mixed_template(self, name: str, template: str, operands: Sequence[ast.expr]) -> str:
        """A template with calls for operators of several types."""
        if name in OF_ONE_TYPE or not is_operator(template):
            return template
        kinds = [self.kinds.of(each, self._parents) for each in operands]
        tensors = [each for each in kinds if each is not Kind.NUMBER]
        bits = any(SIGNS.get(type(each), "") in OF_BITS for each in ast.walk(parsed(template)))
        alike = len(tensors) == len(kinds) and len(set(tensors)) == 1 and tensors[0] in (Kind.FLOAT, Kind.INT)
        if alike or (not bits and len(tensors) < _PAIR):
            return template
        return as_calls(template)


def _root(node: ast.AST) -> ast.Name | ast.Attribute | None:
    """The name or attribute that an expression has the elements of, or their number."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FORMS:
            node = node.func.value
        else:
            return node if isinstance(node, ast.Name | ast.Attribute) else None


def _as_truth(node: ast.AST) -> list[ast.expr]:
    """What an expression uses as truth values."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return [node.operand]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return [node.left, node.right]
    name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or name not in _CONDITIONED:
        return []
    own = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") != "torch"
    at = 0 if own or name == "where" else 1
    return [*node.args[at : at + 1], *[each.value for each in node.keywords if each.arg in ("mask", "condition")]]


def _is_empty(node: ast.AST | None) -> bool:
    """Whether an expression is a tensor of one axis without elements: ``torch.empty(0)``."""
    name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or name not in _EMPTY:
        return False
    if not node.args:
        return name.endswith("Tensor") and not node.keywords
    first = node.args[0]
    one = first.elts[0] if isinstance(first, ast.List | ast.Tuple) and len(first.elts) == 1 else first
    size = isinstance(one, ast.Constant) and type(one.value) is int and one.value == 0 and name != "tensor" and len(node.args) == 1
    return size or (isinstance(first, ast.List | ast.Tuple) and not first.elts and name.lower().endswith("tensor"))


def qualified(around: Sequence[ast.AST]) -> str:
    """The innermost function around a place, as ``Class.method``; '' in none."""
    named = [each for each in around if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    while named and isinstance(named[-1], ast.ClassDef):
        named.pop()
    return ".".join(each.name for each in named)


#: operands of an operator
_PAIR = 2


def _is_of_bits_and_numbers(kinds: Sequence[Kind], *, written: bool) -> bool:
    """Whether an operator of bits has a number, or several types."""
    if written:
        return True
    if Kind.NUMBER in kinds:
        return DISCRETE.intersection(kinds) != set()
    return Kind.UNKNOWN not in kinds and kinds[0] is not kinds[1]
