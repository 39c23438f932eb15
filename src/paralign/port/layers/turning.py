"""Weights of layers that may be Linear, read, written, set and shared.

Paddle keeps such a weight transposed. What the layer is, is asked when the program runs.
"""

from __future__ import annotations

import ast
from functools import cached_property

from paralign.port.edits.ledger import Fate
from paralign.port.layers.layer_attributes import READ, LayerReader
from paralign.port.layers.weight_loops import weight_loops
from paralign.port.names.expression_forms import is_dotted, is_setting, is_told_twice
from paralign.port.names.name_bindings import bindings, innermost
from paralign.port.names.observing import place
from paralign.port.names.values import Instance

#: classes whose objects may be a Linear
_OPEN = frozenset({"torch.nn.Linear", "torch.nn.Module"})

#: attributes of a weight that are the weight, past the gradient
_PAST = frozenset({"data", "grad"})

#: methods that write a tensor into a weight, element by element
_WRITES = frozenset({"copy_", "add_", "sub_", "mul_", "div_", "set_"})

#: methods whose results are the weight's elements in another form
_VIEWED = frozenset({"contiguous", "detach", "double", "flatten", "float", "reshape", "squeeze", "unsqueeze", "view"})

#: turned forms of a weight
_TURNS = frozenset({"t", "T"})

_SAID = "Linear keeps its weight transposed in Paddle: what the layer is, is asked when it runs"

#: methods that call a function of the program for every gradient
HOOKING = frozenset({"register_hook", "register_post_accumulate_grad_hook"})

_GIVEN_TO_A_HOOK = "a hook is given the weight, which Linear keeps transposed in Paddle: right where it treats all elements alike"

_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})


class Turner(LayerReader):
    """Write such weights."""

    #: loops over parameters that see weights as PyTorch lays them out, by their identities
    laid_out: frozenset[int] = frozenset()

    #: whether another file of the program gives a layer another one's weight
    tied_elsewhere = False

    @cached_property
    def _has_ties(self) -> bool:
        """Whether a layer may be given another one's weight, as PyTorch lays it out."""
        return self.tied_elsewhere or has_ties(self._parents[0])

    def lay_out_loops(self, tree: ast.Module) -> set[int]:
        """Write loops over a model's parameters as PyTorch lays weights out.

        The expressions that are written so are given, by their identities.
        """
        told: set[int] = set()
        if self.hidden("_in_layout(_marked("):
            return told
        for found in weight_loops(tree, self._names_of):
            func = found.giver.func
            if not found.uses and not found.given:
                continue
            if not isinstance(func, ast.Attribute) or not is_told_twice(func.value):
                continue
            self.needs("_in_layout(_marked(")
            self._put_around_value(found.giver, f"_marked({self.text.source(func.value)}, ")
            for name, value in (*found.uses, *found.given):
                self._put_around_value(value, f"_in_layout({name.id}, ", ").contiguous()" if id(value) in found.rows else ")")
                self.note(name, "torch.nn.Linear.weight", Fate.REWRITTEN, _SAID)
            weight = (found.uses or found.given)[0][0].id
            self.laid_out |= {id(found.loop)}
            body = [each for statement in found.loop.body for each in ast.walk(statement)]
            told.update(id(each) for each in body if any(getattr(inner, "id", "") == weight for inner in ast.walk(each)))
        return told

    def _put_around_value(self, value: ast.expr, opening: str, closing: str = ")") -> None:
        start, end = self.text.start(value), self.text.end(value)
        self.text.edit(start, start, opening, value)
        self.text.edit(end, end, closing, value, closes=True)

    def as_read(self, node: ast.Attribute) -> bool:
        """Write ``layer.weight.shape`` and its like; False of another use."""
        chain, at = self._parents, len(self._parents) - 1
        if not self._may_turn(node):
            return False
        if getattr(chain[at - 1], "attr", "") in _PAST:
            at -= 1
        value = chain[at]
        if not isinstance(value, ast.expr) or not self._is_read_here(at):
            return False
        self._turn(node, value)
        return True

    def turn_here(self, node: ast.Attribute) -> bool:
        """Write a weight as PyTorch lays it out; False where that cannot be written."""
        if not self._may_turn(node):
            return False
        self._turn(node, node)
        return True

    def _may_turn(self, node: ast.Attribute) -> bool:
        owner = self._owner(node)
        is_open = owner is None or (isinstance(owner, Instance) and owner.of == "torch.nn.Linear")
        return is_open and is_told_twice(node.value) and not self.hidden("_turned(")

    def _turn(self, node: ast.Attribute, value: ast.expr) -> None:
        self.needs("_turned(")
        self.text.edit(self.text.start(value), self.text.start(value), f"_turned({self.text.source(node.value)}, ", value)
        self.text.edit(self.text.end(value), self.text.end(value), ")", value, closes=True)
        self.note(node, "torch.nn.Linear.weight", Fate.REWRITTEN, _SAID)

    def _is_read_here(self, at: int) -> bool:
        """Whether what stands around a part only reads it."""
        chain = self._parents
        climbed = at
        while isinstance(chain[climbed - 1], ast.Attribute | ast.Call) and self._is_viewed(chain[climbed - 1], chain[climbed]):
            climbed -= 1
        value, parent = chain[climbed], chain[climbed - 1]
        if climbed < at and isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            return False  # what is viewed once more may be a copy
        at = climbed
        if isinstance(parent, ast.Attribute):
            return parent.attr in READ or (parent.attr == "T" and self._is_operand(parent, chain[at - 2]))
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.value is value:
            turned = parent.func.attr in _TURNS and self._is_operand(parent, chain[at - 2])  # a method's object is visited alone
            return parent.func.attr in READ or turned
        if isinstance(parent, ast.Subscript) and parent.value is value:
            if parent is self._written_part or (isinstance(parent.ctx, ast.Store) and isinstance(chain[at - 2], ast.Assign)):
                return True  # a turned weight shares its memory
            return isinstance(parent.ctx, ast.Load) and (self._is_operand(parent, chain[at - 2]) or _is_asked(parent, chain[at - 2]))
        return self._is_operand(value, parent)

    def _is_viewed(self, parent: ast.AST, value: ast.AST) -> bool:
        """Whether a part is a value in another form: ``weight.detach().flatten(1)``."""
        if isinstance(parent, ast.Attribute):  # of a method that is called
            return parent.value is value and parent.attr in _VIEWED
        func = parent.func if isinstance(parent, ast.Call) else None
        return isinstance(func, ast.Attribute) and func.attr in _VIEWED and (func is value or func.value is value)

    def _is_operand(self, node: ast.AST, parent: ast.AST) -> bool:
        """Whether a value goes into arithmetic, or into a function that only reads it."""
        if isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Compare):
            return True
        if not isinstance(parent, ast.Call) or not any(node is each for each in parent.args):
            return False
        return self._is_pure_call(parent) or not _PARAMETERS.isdisjoint(self._names_of(parent))

    def as_hooked(self, node: ast.Attribute) -> bool:
        """Let a hook of ``layer.weight`` see gradients as PyTorch lays them out.

        False of another use than ``layer.weight.register_hook(f)``.
        """
        call = next((each for each in self._parents[-3:-1] if isinstance(each, ast.Call)), None)
        func = call.func if call is not None else None
        if not isinstance(func, ast.Attribute) or func.attr not in HOOKING or func.value is not node or not self._may_turn(node):
            return False
        if call is None or len(call.args) + len(call.keywords) != 1 or isinstance(call.args[:1] and call.args[0], ast.Starred):
            return False
        hook = call.args[0] if call.args else call.keywords[0].value
        if func.attr != "register_hook":  # what it is given is the parameter, which keeps its layout
            self.note(node, "torch.nn.Linear.weight", Fate.CONDITION, _GIVEN_TO_A_HOOK)
            return True
        self.needs("_hook_for(")
        self._put_around_value(hook, f"_hook_for({self.text.source(node.value)}, ")
        self.note(node, "torch.nn.Linear.weight", Fate.REWRITTEN, _SAID)
        return True

    def as_written(self, node: ast.Attribute) -> bool:
        """Write ``layer.weight.copy_(x)``, where x is turned; False of another use."""
        chain, at = self._parents, len(self._parents) - 1
        if not self._may_turn(node):
            return False
        if getattr(chain[at - 1], "attr", "") in _PAST:
            at -= 1
        call = chain[at - 1] if isinstance(chain[at - 1], ast.Call) else chain[at - 2]
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.value is not chain[at]:
            return False
        if call.func.attr not in _WRITES or not call.args or isinstance(call.args[0], ast.Starred):
            return False
        if self._may_lie_as_in_paddle(call.args[0]):
            self.by_hand(node, "torch.nn.Linear.weight", f"{_OF_A_STATE}, and which layout it has is not known")
            return True
        self._turn_value(node, call.args[0])
        return True

    def _may_lie_as_in_paddle(self, value: ast.expr) -> bool:
        """Whether a value is one of a state, by its name.

        Of the port's own it lies as in Paddle already.
        """
        inner = list(ast.walk(value))
        if any(isinstance(each, ast.Subscript) and isinstance(getattr(each.slice, "value", None), str) for each in inner):
            return True
        return any(isinstance(each, ast.Call) and getattr(each.func, "attr", "") in _STATES for each in inner)

    def _turn_value(self, node: ast.Attribute, value: ast.expr) -> None:
        """Turn what is written into a weight."""
        if isinstance(value, ast.Constant):
            return
        self.needs("_written_for(")
        self.text.edit(self.text.start(value), self.text.start(value), f"_written_for({self.text.source(node.value)}, ", value)
        self.text.edit(self.text.end(value), self.text.end(value), ")", value, closes=True)
        self.note(node, "torch.nn.Linear.weight", Fate.REWRITTEN, _SAID)

    def weight_set(self, node: ast.Assign) -> bool:
        """Write ``a.weight = b.weight`` and the like; True where it is written."""
        target = node.targets[0]
        if len(node.targets) > 1 or not self.seen.imported:
            return False
        if _is_tie(node) and isinstance(target, ast.Attribute) and isinstance(node.value, ast.Attribute):
            return self._tied(node, target, node.value)
        past = isinstance(target, ast.Attribute) and target.attr == "data" and isinstance(target.value, ast.Attribute)
        weight = target.value if past and isinstance(target, ast.Attribute) else target
        if not isinstance(weight, ast.Attribute) or weight.attr != "weight" or getattr(weight.value, "id", "") in ("self", "cls"):
            return False
        if past and self._may_lie_as_in_paddle(node.value):
            self.by_hand(node.value, "torch.nn.Linear.weight", f"{_OF_A_STATE}, and which layout it has is not known")
            return True
        sole = isinstance(node.value, ast.Name) and self._is_sole_parameter(node.value)
        if past or sole or self._is_parameter(node.value):
            return self._set_to(weight, node.value, past=past)
        return False if isinstance(node.value, ast.Constant) else self._set_by_name(node, weight, node.value)

    def _set_to(self, weight: ast.Attribute, value: ast.expr, *, past: bool) -> bool:
        """Write ``layer.weight = nn.Parameter(x)``, or what is given past the gradient."""
        if not self._may_turn(weight) or self.hidden("_weight_for("):
            return False
        helper = "_turned(" if past else "_weight_for("
        self._put_for(weight, value, helper)
        self.note(weight, "torch.nn.Linear.weight", Fate.REWRITTEN, _SAID)
        if past:  # the weight within the target is no value
            self.visit(value)
        return past

    def _put_for(self, weight: ast.Attribute, value: ast.expr, helper: str) -> None:
        """Write a call of a helper around what a weight is given."""
        self.needs(helper)
        start, end = self.text.start(value), self.text.end(value)
        self.text.edit(start, start, f"{helper}{self.text.source(weight.value)}, ", value)
        self.text.edit(end, end, ")", value, closes=True)

    def _is_sole_parameter(self, node: ast.Name) -> bool:
        """Whether a variable is a new parameter that nothing else uses."""
        scope = innermost(self._parents)[0]
        bound = bindings(node.id, scope)
        used = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == node.id and isinstance(each.ctx, ast.Load)]
        return len(bound) == len(used) == 1 and self._is_parameter(bound[0])

    def _set_by_name(self, node: ast.Assign, weight: ast.Attribute, value: ast.expr) -> bool:
        """Write ``layer.weight = w``, where w may be the weight of another layer.

        It is left by hand where the layer is a Linear, which is asked when it runs.
        """
        owner = self._owner(weight)
        if isinstance(owner, Instance) and owner.of == "torch.nn.Linear":
            self.by_hand(node, "torch.nn.Linear.weight", _BY_NAME)
            return True
        if owner is not None or is_setting(weight.value):
            return False
        if not is_told_twice(weight.value) or self.hidden("_unshared("):
            self.by_hand(node, "torch.nn.Linear.weight", _BY_NAME)
            return True
        self._put_for(weight, value, "_unshared(")
        self.note(weight, "torch.nn.Linear.weight", Fate.CONDITION, f"raises where the layer is a Linear: {_BY_NAME}")
        return False

    def _is_parameter(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and not _PARAMETERS.isdisjoint(self._names_of(node))

    def _tied(self, node: ast.Assign, target: ast.Attribute, value: ast.Attribute) -> bool:
        owners = [self.seen.values.get(place(each.value)) for each in (target, value)]
        same = all(isinstance(each, Instance) for each in owners) and owners[0] == owners[1]
        if same and not (isinstance(owners[0], Instance) and owners[0].of in _OPEN):  # one may be tied to an Embedding
            self.note(target, "torch.nn.Linear.weight", Fate.EQUAL, "one parameter of two layers of one class")
            return True
        if not is_dotted(target.value) or not is_dotted(value.value) or self.hidden("_tie("):
            return False
        self.needs("_tie(")
        written = f"_tie({self.text.source(target.value)}, {self.text.source(value.value)})"
        self.text.edit(self.text.start(node), self.text.end(node), written)
        self.note(target, "torch.nn.Linear.weight", Fate.REWRITTEN, "one parameter of both layers, which lies as in PyTorch")
        return True


def _is_asked(value: ast.AST, parent: ast.AST) -> bool:
    """Whether a value's method or attribute is asked that only reads it."""
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.value is value:
        return parent.func.attr in READ
    return isinstance(parent, ast.Attribute) and parent.attr in READ


_OF_A_STATE = "a tensor of a state by its name is written into a Linear's weight"

_BY_NAME = "it is given a weight by a variable: whose it is, and how it lies, is not known"

#: what gives tensors by their names
_STATES = frozenset({"state_dict", "named_parameters", "load", "load_state_dict", "get_parameter"})


def has_ties(tree: ast.AST) -> bool:
    """Whether a program has ``head.weight = embedding.weight``."""
    return any(isinstance(each, ast.Assign) and _is_tie(each) for each in ast.walk(tree))


def _is_tie(node: ast.Assign) -> bool:
    """Whether a statement gives a layer another one's weight."""
    target = node.targets[0]
    if not isinstance(target, ast.Attribute) or not isinstance(node.value, ast.Attribute):
        return False
    return target.attr == "weight" == node.value.attr
