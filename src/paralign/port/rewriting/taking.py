"""Inputs that take their results in place, and parts of parts that are written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.port.edits.changing import changed_names, is_set_in_place
from paralign.port.edits.held_parts import part_of
from paralign.port.edits.ledger import Fate
from paralign.port.edits.made_states import is_made, made_keys
from paralign.port.edits.number_stores import is_of_numbers
from paralign.port.edits.scope_index import FUNCTIONS, Scope, behind, place_of, scope_of
from paralign.port.edits.tensor_results import SAME_OR_NEW, VIEWED, VIEWS
from paralign.port.names.expression_forms import is_kept_form, is_told_twice
from paralign.port.plans.operators import SIGNS
from paralign.port.rewriting.call_converting import CallConverter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeGuard

#: layers that give back what they are given where they drop nothing; a copy in Paddle
_DROPPING = frozenset({"Dropout", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"})

_DROPPING_FUNCTIONS = frozenset({"dropout", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"})

#: what is said of a layer or function that changes its input
_TAKEN = "in place, as in PyTorch: the input is read again"

_KEPT = "where it drops nothing it gives back its input, as in PyTorch, which is changed here"

_COPIED = "where it drops nothing PyTorch gives back its input, which is changed here, and Paddle a copy of it"

_WRITTEN = "raises where a part of a part asks for a gradient: Paddle leaves the whole tensor, or its gradient, as it was"


class Taker(CallConverter):
    """Write what changes its input, or gives it back, so that all names of the input see it."""

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802 - named as ast names it
        """Rewrite a call, and put around it what its input takes."""
        inplace = self._inplace_of_call(node) if self.seen.imported else None
        given = _input_of(node) if inplace is not None else None
        if inplace is not None and given is not None and self._is_read_again(given) and not self.hidden("_taken("):
            self._write_taken(node, given, inplace)
        elif (
            inplace is None
            and self.seen.imported
            and self._is_dropping(node)
            and self._is_changed_later(node)
            and not self.hidden("_kept_by(")
        ):
            self.needs("_kept_by(")
            start, opening = self.text.start(node), self.text.content.find(b"(", self.text.end(node.func))
            self.text.edit(start, start, "_kept_by(", node)
            self.text.edit(opening, opening + 1, ", ", node)
            self.note(node, "torch.nn.Dropout", Fate.REWRITTEN, _KEPT)
        elif inplace is None and self.seen.imported and self._is_dropping_function(node) and self._is_changed_later(node):
            self.note(node, "torch.nn.functional.dropout", Fate.CONDITION, _COPIED)
        elif (state := self._made_state(node)) is not None and not self.hidden("_MadeState("):
            self.needs("_MadeState(")
            self.text.edit(self.text.start(state), self.text.start(state), "_MadeState(", state)
            self.text.edit(self.text.end(state), self.text.end(state), f"{made_keys(state, self._parents)})", state, closes=True)
        super().visit_Call(node)

    def _made_state(self, node: ast.Call) -> ast.expr | None:
        """The state that a call loads, where the program makes it itself."""
        if self._names_of(node) != ["torch.nn.Module.load_state_dict"]:
            return None
        given = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "state_dict")]
        return given[0] if given and is_made(given[0], self._parents) else None

    def _write_taken(self, node: ast.Call, given: ast.expr, inplace: ast.expr) -> None:
        self.needs("_taken(")
        start, end = self.text.start(node), self.text.end(node)
        asked = "" if isinstance(inplace, ast.Constant) else f", {self.text.source(inplace)}"
        self.text.edit(start, start, f"_taken({self.text.source(given)}, ", node)
        self.text.edit(self.text.end(given), self.text.end(given), ".clone()", given, closes=True)
        self.text.edit(end, end, f"{asked})", node, closes=True)
        self.note(node, "torch.nn.functional.relu", Fate.REWRITTEN, _TAKEN)

    def _inplace_of_call(self, node: ast.Call) -> ast.expr | None:
        """What tells that a call changes its input; None of one that does not."""
        names = self._names_of(node)
        if names and all(name.startswith("torch.nn.functional.") for name in names):
            return is_set_in_place(node)
        made = [node.func] if isinstance(node.func, ast.Call) else self.kept.spelled.get(ast.unparse(node.func), [])
        told = [is_set_in_place(each) if isinstance(each, ast.Call) and self._is_layer(each) else None for each in made]
        if not told or any(each is None for each in told):
            return None
        return told[0] if len({ast.dump(each) for each in told if each is not None}) == 1 and isinstance(told[0], ast.Constant) else None

    def _is_layer(self, node: ast.Call) -> bool:
        names = self._names_of(node)
        return bool(names) and all(name.startswith("torch.nn.") and not name.startswith("torch.nn.functional.") for name in names)

    def _is_read_again(self, given: ast.expr) -> bool:
        """Whether an input may be read where its change is seen."""
        if not isinstance(given, ast.Name):
            return is_kept_form(given) or is_told_twice(given) or _is_sliced(given)
        scope = self._scope()
        statement = next((each for each in reversed(self._parents) if isinstance(each, ast.stmt)), None)
        if scope is None or statement is None:
            return False
        reaching, _ = scope.reaching(given, [*self._parents, given])
        dropped = isinstance(statement, ast.Expr) and statement.value is self._parents[-1]
        if dropped or not reaching or any(each.twice or each.several or _may_be_another(each.value) for each in reaching):
            return True
        return _is_read_behind(given.id, statement, reaching[0].statement, scope)

    def _scope(self) -> Scope | None:
        scopes = [each for each in self._parents if isinstance(each, (*FUNCTIONS, ast.Module, ast.Lambda, ast.ClassDef))]
        return scope_of(scopes[-1]) if scopes and isinstance(scopes[-1], (*FUNCTIONS, ast.Module)) else None

    def _is_dropping(self, node: ast.Call) -> bool:
        """Whether a call is one of a layer that may drop elements, with one input."""
        if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
            return False
        made = [node.func] if isinstance(node.func, ast.Call) else self.kept.spelled.get(ast.unparse(node.func), [])
        return any(self._makes_dropping(each) for each in made)

    def _makes_dropping(self, node: ast.expr) -> bool:
        if isinstance(node, ast.IfExp):
            return self._makes_dropping(node.body) or self._makes_dropping(node.orelse)
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("eval", "train", "to", "cuda", "cpu"):
            return self._makes_dropping(node.func.value)
        if self._names_of(node) == ["torch.nn.Sequential"]:
            return any(map(self._makes_dropping, node.args))
        return any(name.rpartition(".")[2] in _DROPPING for name in self._names_of(node))

    def _is_changed_later(self, node: ast.Call) -> bool:
        """Whether the name that a call's result is given is changed in place in its function."""
        scope, parent = self._scope(), self._parents[-2] if len(self._parents) > 1 and self._parents[-1] is node else self._parents[-1]
        if isinstance(parent, ast.Return):  # a caller may change it
            given = _input_of(node)
            own = isinstance(given, ast.Name) and scope is not None and given.id in scope.given and not scope.bindings.get(given.id)
            return own and bool(changed_names(self._parents[0]))
        if scope is None or not isinstance(parent, ast.Assign | ast.AnnAssign):
            return isinstance(parent, ast.Attribute) and parent.attr.endswith("_")
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        around = [each for each in self._parents if isinstance(each, (*FUNCTIONS, ast.Module))]
        return any(self._is_changed_as(ast.unparse(each), around[-1], ()) for each in targets)

    def _is_changed_as(self, name: str, scope: ast.AST, before: tuple[str, ...]) -> bool:
        """Whether a name is changed in place, or what layers give back of it is."""
        if name in changed_names(scope):
            return True
        given = [each for each in ast.walk(scope) if isinstance(each, ast.Assign) and self._may_give_back(each.value, name)]
        onward = {ast.unparse(target) for each in given for target in each.targets} - {name, *before}
        return any(self._is_changed_as(each, scope, (*before, name)) for each in sorted(onward))

    def _may_give_back(self, value: ast.expr, name: str) -> bool:
        """Whether a value is a call that gives back a name where it drops nothing."""
        if not isinstance(value, ast.Call) or not (self._is_dropping(value) or self._is_dropping_function(value)):
            return False
        given = _input_of(value)
        return given is not None and ast.unparse(given) == name

    def _is_dropping_function(self, node: ast.Call) -> bool:
        """Whether a call is one of a function that may drop elements, and may be told not to."""
        names = self._names_of(node)
        return bool(names) and all(
            name.startswith(("torch.nn.functional.", "torch.dropout", "torch.alpha_dropout"))
            and name.rpartition(".")[2] in _DROPPING_FUNCTIONS
            for name in names
        )

    def nested_set(self, node: ast.Assign) -> None:
        """Let ``x[0][1] = 5`` raise where Paddle does not hand a gradient on to the whole.

        What is written stays where it is: Python takes it before the target.
        """
        for target in (each for told in node.targets for each in _targets_within(told)):
            if not self._is_nested(target) or self.hidden("_Within("):
                continue
            part = target.value
            self.needs("_Within(")
            told = f", {self.text.source(part.value)}" if isinstance(part, ast.Subscript) and is_told_twice(part.value) else ""
            self.text.edit(self.text.start(part), self.text.start(part), "_Within(", target)
            self.text.edit(self.text.end(part), self.text.end(part), f"{told})", target, closes=True)
            self.note(target, "torch.Tensor.__setitem__", Fate.REWRITTEN, _WRITTEN)

    def nested_change(self, node: ast.AugAssign) -> bool:
        """Write ``x[0][1] += 5``: a part of a part, which does not hand its gradient on in Paddle."""
        target, sign = node.target, SIGNS.get(type(node.op), "")
        if not sign or not self._is_nested(target) or self.hidden("_set_within("):
            return False
        part = target.value
        told = self.text.source(part.value) if isinstance(part, ast.Subscript) and is_told_twice(part.value) else "None"
        self.needs("_set_within(")
        for each in (part, target.slice, node.value):
            self.visit(each)
        at = self._places_of(target)
        self.text.edit(
            self.text.start(node),
            self.text.end(node),
            lambda: f"_set_within({self.text.within(part)}, {told}, {at()}, ({self.text.within(node.value)}), {sign!r})",
        )
        self.note(target, "torch.Tensor.__setitem__", Fate.REWRITTEN, _WRITTEN)
        return True

    def _is_nested(self, target: ast.expr) -> TypeGuard[ast.Subscript]:
        """Whether a target is a place of what may be a part of a tensor."""
        if not isinstance(target, ast.Subscript) or isinstance(getattr(target.slice, "value", None), str):
            return False
        return bool(self.seen.imported) and self._is_part_of_tensor(target.value)

    def _is_part_of_tensor(self, part: ast.expr) -> bool:
        """Whether what is written into may be a part of a tensor, by its form."""
        if isinstance(part, ast.Call):
            method = part.func.attr if isinstance(part.func, ast.Attribute) else ""
            return method in VIEWED and is_kept_form(part.func.value if isinstance(part.func, ast.Attribute) else part)
        if isinstance(part, ast.Attribute):
            return part.attr in VIEWS and is_kept_form(part.value)
        if not isinstance(part, ast.Subscript) or isinstance(getattr(part.slice, "value", None), str):
            return False
        root: ast.expr = part
        while isinstance(root, ast.Subscript):
            root = root.value
        if is_of_numbers(root, self._parents) or not is_kept_form(root):
            return False
        bound = self._stored_under(root)
        return not bound or not all(map(self._holds_no_parts, bound))

    def _stored_under(self, root: ast.expr) -> Sequence[ast.expr]:
        """What a function, or else the file, gives a name or an attribute."""
        scope = self._scope()
        own = [each.value for each in scope.bindings.get(ast.unparse(root), [])] if scope is not None else []
        if own or (scope is not None and isinstance(root, ast.Name) and root.id in scope.given):
            return own
        return self.kept.spelled.get(ast.unparse(root), [])

    def _holds_no_parts(self, value: ast.expr) -> bool:
        """Whether a value is a list or dictionary, and none of parts of tensors."""
        displays = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp, ast.Set)
        if isinstance(value, ast.Constant):
            return True
        if isinstance(value, ast.BinOp):  # a list that is repeated or added to: a number beside it tells nothing
            return any(isinstance(each, displays) and self._holds_no_parts(each) for each in (value.left, value.right))
        python = isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("dict", "defaultdict", "list", "range", "Counter")
        scope = self._scope()
        within = [each for each in ast.walk(value) if isinstance(each, ast.Subscript | ast.Call)]
        parts = scope is not None and any(part_of(each, several=False, scope=scope) is not None for each in within)
        return (python or isinstance(value, displays)) and not parts

    def _places_of(self, target: ast.Subscript) -> Callable[[], str]:
        """What gives the index of a target as an argument, once it is written."""
        places = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]

        def told() -> str:
            written = [self._place_of_index(each) for each in places]
            if not isinstance(target.slice, ast.Tuple):
                return f"({written[0]})" if isinstance(target.slice, ast.Yield | ast.YieldFrom) else written[0]
            return f"({', '.join(written)},)" if written else "()"

        return told


def _input_of(call: ast.Call) -> ast.expr | None:
    """The tensor that a call is given first, or by its name."""
    if call.args:
        return None if isinstance(call.args[0], ast.Starred) else call.args[0]
    return next((each.value for each in call.keywords if each.arg == "input"), None)


def _is_sliced(given: ast.expr) -> bool:
    """Whether an expression is a slice of what may be written twice, as its bounds."""
    if not isinstance(given, ast.Subscript) or not is_told_twice(given.value):
        return False
    plain = (ast.Name, ast.Constant, ast.UnaryOp, ast.BinOp, ast.Slice, ast.Tuple, ast.operator, ast.unaryop, ast.expr_context)
    return all(isinstance(each, plain) for each in ast.walk(given.slice))


def _targets_within(target: ast.expr) -> Iterator[ast.expr]:
    """What an assignment writes, one by one."""
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _targets_within(each)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def _is_read_behind(name: str, statement: ast.stmt, bound: ast.stmt, scope: Scope) -> bool:
    """Whether a name is read behind a statement, or a container was given it before."""
    end, rebound = behind(statement), scope.rebound(name, statement)
    own = any(each.statement is statement for each in scope.bindings.get(name, []))
    for each in scope.reads.get(name, []):
        if each.keeping and place_of(bound) < each.place < place_of(statement):
            return True
        if not own and each.place >= end and (rebound is None or each.place < rebound):
            return True
    return False


def _may_be_another(value: ast.expr) -> bool:
    """Whether a value may be a tensor that something else holds, or a part of one."""
    if isinstance(value, ast.IfExp):
        return _may_be_another(value.body) or _may_be_another(value.orelse)
    if isinstance(value, ast.Call):
        name = getattr(value.func, "attr", getattr(value.func, "id", ""))
        return name in VIEWED | SAME_OR_NEW | {"detach", "as_tensor", "Identity", "identity"} or (name.endswith("_") and name[:1] != "_")
    return isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Starred)
