"""Calls rewritten for Paddle, or made to raise where nobody knows what is right."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from paralign.catalogue.parameters import stored
from paralign.port.edits.changed_parts import CAST_AND_CHANGED
from paralign.port.edits.ledger import Fate
from paralign.port.edits.tensor_results import COPIED, OF_NO_ELEMENT, VIEWED, VIEWS
from paralign.port.names.expression_forms import is_dotted, is_text
from paralign.port.names.name_bindings import innermost
from paralign.port.names.observing import place
from paralign.port.names.ownership import guessed_owner
from paralign.port.names.values import Certainty, Class, Form, Use
from paralign.port.plans.adapters import adapter_of, given_back, is_start
from paralign.port.plans.call_forms import (
    AROUND,
    call_operands,
    dtype_by_name,
    given_out,
    hinted,
    is_known,
    is_layer,
    root_name,
    says_nothing,
    written_around,
)
from paralign.port.plans.call_plan import ByHand, Different, Overfull, Plan
from paralign.port.plans.conversions import conversions
from paralign.port.plans.planning import plan
from paralign.port.rewriting.deriving import without_legacy
from paralign.port.rewriting.made_names import MadeNames, is_made_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


#: methods whose results hold more in Paddle, and the functions that leave that out
_PARAMETERS = {"torch.nn.Module.parameters": "_parameters({self})", "torch.nn.Module.named_parameters": "_named_parameters({self})"}

#: methods that give an iterator in PyTorch and may give a list in Paddle
_LISTS = frozenset({f"torch.nn.Module.{name}" for name in ("parameters", "modules", "children", "buffers")})

#: what is said of elements that are written into any parameter of a model
_ANY_PARAMETER = "Linear's weight is [in, out] in Paddle: another model where the parameter is one and its elements differ."

#: what loads samples, and what is said of one with processes of its own
_LOADER = "torch.utils.data.DataLoader"
_WORKERS = (
    "Paddle 3.3.1 hangs or crashes where a data set, its transforms or collate_fn make tensors in a worker. "
    "Only where they do: give NumPy arrays, which the loader makes tensors of."
)

#: what gives several tensors in a tuple, and in a list in Paddle
_LISTED = frozenset({"torch.unbind", "torch.meshgrid", "torch.Tensor.unbind"})

#: functions that take several values one by one, whatever holds them
_ONE_BY_ONE = frozenset({"len", "zip", "enumerate", "list", "tuple", "set", "map", "sum", "max", "min", "sorted", "reversed", "iter"})

#: what is said of a tensor that becomes text
TEXT = "another text in Paddle where it is no single number"

_STATISTICS = "Paddle counts the running statistics of batch norm among the parameters, with stop_gradient. Only in models with batch norm."

_WEIGHT_BY_NAME = "A weight of a Linear that named_parameters or a state gives lies the other way round in Paddle, [in, out]."

_STATE_NAMES = (
    "Other names in Paddle: _mean and _variance for running statistics, no num_batches_tracked; recurrent layers have each weight twice. "
    "Numbers that are drawn for one name after another go to other weights then."
)

#: attributes that are a parameter of a layer by their names
_STARTED = frozenset({"weight", "bias", "in_proj_weight", "in_proj_bias", "weight_ih", "weight_hh", "bias_ih", "bias_hh"})

#: attributes of a tensor that are another tensor with its memory
_SHARING = frozenset({"data", "grad", "T", "mT", "H", "mH", "real", "imag"})

#: methods of tensors that take no text, and that texts, patterns and tables have too
_NO_TEXT = frozenset(
    {"add", "all", "any", "count_nonzero", "diff", "div", "eq", "expand", "fill_", "gather", "index_select", "mul", "round", "split", "sub"}
)

#: methods of sparse tensors that dictionaries have too
_OF_SPARSE = frozenset({"torch.Tensor.values"})

#: methods whose names alone are right in Paddle
_PLAIN = frozenset({"backward", "item", "detach", "cpu", "numpy", "tolist"})


def _is_one_by_one(node: ast.AST, parent: ast.AST) -> bool:
    """Whether several values are used in a way that a list and a tuple share."""
    if isinstance(parent, ast.Subscript | ast.Attribute):
        return parent.value is node and not isinstance(getattr(parent, "slice", None), ast.Slice)
    if isinstance(parent, ast.For | ast.AsyncFor | ast.comprehension):
        return parent.iter is node
    if isinstance(parent, ast.Assign):
        return all(isinstance(each, ast.Tuple | ast.List) for each in parent.targets)
    if isinstance(parent, ast.Call):
        return getattr(parent.func, "id", "") in _ONE_BY_ONE and parent.func is not node
    return isinstance(parent, ast.Starred | ast.Expr)


def _has_workers(given: Mapping[str, ast.expr]) -> bool:
    """Whether a loader may have processes of its own."""
    workers = given.get("num_workers")
    return workers is not None and not (isinstance(workers, ast.Constant) and workers.value == 0)


def _is_by_name(node: ast.expr) -> bool:
    """Whether an argument is an item by a text that names a weight."""
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key is not None and is_text(key) and "weight" in ast.unparse(key)


def _is_given_text(node: ast.Call) -> bool:
    """Whether a method is given a text, as no tensor's is: ``pattern.sub("-", name)``."""
    if getattr(node.func, "attr", "") not in _NO_TEXT or not node.args:
        return False
    first = node.args[0]
    return isinstance(first, ast.JoinedStr) or (isinstance(first, ast.Constant) and isinstance(first.value, str | bytes))


class CallConverter(MadeNames):
    """Write calls, and what their arguments ask for around them."""

    def _text_of(self, node: ast.Call) -> None:
        """Note ``str(x)`` and ``"{}".format(x)`` of tensors."""
        named = getattr(node.func, "id", "") in ("str", "repr", "format")
        formatted = isinstance(node.func, ast.Attribute) and node.func.attr == "format" and isinstance(node.func.value, ast.Constant)
        for each in [*node.args, *[keyword.value for keyword in node.keywords]] if named or formatted else []:
            if self._is_tensor(each):
                self.note(each, "torch.Tensor.__format__", Fate.CONDITION, TEXT)

    def visit_Call(self, node: ast.Call) -> None:  # noqa: N802 - as above
        """Rewrite a call."""
        if self._is_asked_for(node) or self.made_name(node):
            return
        self.freezing(node)
        uses = [use for use in self.uses.get(place(node), []) if use.form is not Form.REFERENCE]
        strange = [use for use in uses if use.name.startswith("torch.Tensor.") and (not is_known(use.name) or use.name in _OF_SPARSE)]
        if strange:
            self.note(node, strange[0].name, Fate.UNTOUCHED, "tensors that are dense have no such method: the object is another one")
            self.generic_visit(node)
            return
        if not uses:
            self._without_use(node)
            return
        if all(use.certainty is Certainty.GUESSED for use in uses) and _is_given_text(node):
            self.note(node, uses[0].name, Fate.UNTOUCHED, "it is given a text, as no tensor's method is: the object is another one")
            self.generic_visit(node)
            return
        found = {use.name for use in uses}
        if len(found) > 1 or not self._spelled(node, uses[0]) or uses[0].form is Form.PARTIAL:
            self._by_variable(node, uses)
            return
        use = dtype_by_name(replace(hinted(node, uses[0]), positional=list(node.args), keywords=list(node.keywords)))
        edits, places = len(self.text.edits), len(self.places)
        try:
            self._written(node, self._plain(use))
            self._put_around(node, use)
        except ByHand as reason:
            del self.text.edits[edits:], self.places[places:]
            if use.certainty is Certainty.GUESSED and isinstance(reason, Overfull) and self._is_own_method(node):
                self.note(node, use.name, Fate.UNTOUCHED, "a class of the program has such a method, which takes these arguments")
                self.generic_visit(node)
                return
            if isinstance(reason, Different) or not (self._by_adapter(node, use) or self.derived(node, use)):
                self.by_hand(node, use.name, str(reason))

    def _is_own_method(self, node: ast.Call) -> bool:
        """Whether a class of the program has a method of the name that a call asks for."""
        name = getattr(node.func, "attr", "")
        imported = [each for each in self.seen.names.values() if isinstance(each, Class)]
        classes = [each for each in ast.walk(self._parents[0]) if isinstance(each, ast.ClassDef)]
        own = {method.name for each in classes for method in each.body if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)}
        return name in own or any(each.defines(name) for each in imported)

    def _plain(self, use: Use) -> Use:
        """A call without the arguments that are written around it.

        A loss gets ``reduction`` in place of the arguments that stood for it.

        Raises:
            ByHand: what ``out=`` writes into is no plain name.
        """
        plain = self._without_out(use)
        around = written_around(plain)
        plain = replace(plain, keywords=[each for each in plain.keywords if each.arg not in around and not says_nothing(each, plain.name)])
        return without_legacy(plain) or plain

    def _without_out(self, use: Use) -> Use:
        """A call without ``out=``, which names tensors; as it is where it has none.

        Raises:
            ByHand: what is written into is no plain name.
        """
        given = given_out(use)
        if given is None or self.hidden("_into("):
            return use
        parts = given.elts if isinstance(given, ast.Tuple | ast.List) else [given]
        if not all(is_dotted(each) and VIEWS.isdisjoint(ast.unparse(each).split(".")) for each in parts):
            raise ByHand("what out= writes into is no plain name")
        return replace(use, keywords=[each for each in use.keywords if each.arg != "out"])

    def _put_around(self, node: ast.Call, use: Use) -> None:
        """Write what ``requires_grad=``, a layer's ``dtype=`` and ``out=`` ask for around a call."""
        around = written_around(use)
        given = given_out(use)
        if given is not None and not self.hidden("_into("):
            around.append("out")
        if not around:
            return
        values = [next(each.value for each in use.keywords if each.arg == name) for name in around]
        for name, value in zip(around, values, strict=True):
            if self.hidden(AROUND[name]):
                raise ByHand(self.hidden(AROUND[name]))
            self.needs(AROUND[name])
            self.visit(value)
        head = "".join(AROUND[name] for name in reversed(around))
        self.text.edit(self.text.start(node), self.text.start(node), head, node)
        self.text.edit(self.text.end(node), self.text.end(node), partial(self._closing, values), node, closes=True)

    def _closing(self, values: Sequence[ast.expr]) -> str:
        return "".join(f", {self.text.within(value)})" for value in values)

    def _is_asked_for(self, node: ast.Call) -> bool:
        """``hasattr(nn, "SiLU")``: what PyTorch has is known; the branch for it is converted."""
        if getattr(node.func, "id", "") != "hasattr" or node.keywords or not node.args:
            return False
        name, asked = self.named.get(place(node.args[0])), node.args[-1]
        if name is None or not isinstance(asked, ast.Constant) or not isinstance(asked.value, str):
            return False
        if name not in conversions().modules:
            return False
        table = stored("torch")
        has = f"{name}.{asked.value}" in table or f"{name}.{asked.value}" in conversions().constants
        self.text.edit(self.text.start(node), self.text.end(node), str(has))
        self.note(node, f"{name}.{asked.value}", Fate.REWRITTEN, f"what PyTorch {table.version} has")
        return True

    def _by_adapter(self, node: ast.Call, use: Use) -> bool:
        """Call an adapter where the call itself cannot be written; False where none fits.

        A call of ``*arguments`` is such.
        """
        if use.form is not Form.CALL or self._not_handed_on(use) or place(node.func) not in self.named:
            return False
        adapter = self.adapter(use.name)
        if adapter is None:
            return False
        self._adapted(node.func, use.name, adapter)
        for each in (*node.args, *node.keywords):
            self.visit(each)
        return True

    def _spelled(self, node: ast.Call, use: Use) -> bool:
        """Whether the call spells out what it calls."""
        if use.form in (Form.METHOD, Form.SUBCLASS):
            return True
        return self.named.get(place(node.args[0] if use.form is Form.PARTIAL and node.args else node.func)) is not None

    def _by_variable(self, node: ast.Call, uses: list[Use]) -> None:
        """Judge a call through a variable, or with arguments given ahead.

        It is right where all that it may call may be handed on as values.
        """
        name = ", ".join(sorted({use.name for use in uses}))
        reasons = [reason for use in uses if (reason := self._not_handed_on(use))]
        if reasons:
            later = uses[0].form is Form.PARTIAL and self._is_kept(node) and not self.hidden("_not_converted(")
            (self._put_off if later else self.by_hand)(node, name, reasons[0])
            return
        self.note(node, name, Fate.EQUAL)
        self.generic_visit(node)

    def _not_handed_on(self, use: Use) -> str:
        """Why a callable cannot be called through a variable as this use does; empty where it can."""
        if use.form in (Form.METHOD, Form.SUBCLASS):
            return "called through a variable, or of several classes"
        if use.name in conversions().values or is_made_name(use.name):
            return ""
        adapter = adapter_of(use.name, self.paddle)
        if adapter is None:
            return "called through a variable"
        named = {each.arg for each in use.keywords if each.arg is not None}
        if not adapter.fits(len(use.positional), named):
            lost = sorted(named - {each.name for each in adapter.takes})
            return f"called through a variable with {lost[0] if lost else 'more arguments'}, and nobody executed that on both sides"
        return ""

    def _as_number(self, node: ast.Call) -> bool:
        """Write ``int(x)`` of what may be a tensor; False of another call.

        Paddle's takes none that has axes. A name may stand for a number as well, and is asked for at run time.
        """
        if not isinstance(node.func, ast.Name) or node.func.id not in ("int", "float") or len(node.args) != 1 or node.keywords:
            return False
        kind, given = node.func.id, node.args[0]
        if (
            not isinstance(given, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
            or not self._is_tensor(given)
            or self.hidden("_number(")
        ):
            return False
        self.needs("_number(")
        self.visit(given)
        self.text.edit(self.text.start(node), self.text.end(node), lambda: f"_number({kind}, {self.text.within(given)})")
        self.note(node, f"torch.Tensor.__{kind}__", Fate.REWRITTEN)
        return True

    def _without_use(self, node: ast.Call) -> None:
        name = self.named.get(place(node.func))
        if name is not None:
            self.by_hand(node, name, "its name is not known, or made at run time")
            return
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and node.args and place(node.args[0]) in self.named:
            self.by_hand(node, self.named[place(node.args[0])] + ".?", "its name is made at run time")
            return
        if self.by_text(node):
            return
        if self._as_number(node):
            return
        self._text_of(node)
        if isinstance(node.func, ast.Attribute) and self.seen.imported and self.unknown_method(node, node.func):
            return
        self.generic_visit(node)

    def _written(self, node: ast.Call, use: Use) -> None:
        if use.form is Form.SUBCLASS and use.name not in conversions().bases:
            self._begun(node, use)
            return
        if use.form is Form.METHOD:
            self._check_receiver(node, use)
        made = plan(use, self.paddle)
        self._leave_out(node, use, made)
        if is_start(use.name) and not (isinstance(self._parent(), ast.Expr) and self._owns_memory(made.bound.given.get("tensor"))):
            made.template = given_back(made.template)
        template = _PARAMETERS.get(use.name, "")
        told = template and (bool(use.positional or use.keywords) or self._is_first() or bool(self.hidden(template)))
        if template and not told and not self._takes_statistics():
            made.template = template
        receiver = node.func.value if use.form is Form.METHOD and isinstance(node.func, ast.Attribute) else None
        made.template = self.typed_template(use.name, made.bound.given, receiver) or made.template
        if made.template:
            made.template = self.mixed_template(use.name, made.template, call_operands(node, made))
            self.templated(node, made)
        else:
            self.edited(node, use, made)
        self._iterated(node, use)
        self._indexed(node, use)
        made.conditions += self._conditions_of(node, use, made)
        made.conditions += self.of_values(use.name, made.bound.given)
        if use.name.endswith(".state_dict"):
            made.conditions.append(_STATE_NAMES)
        if told and not self._takes_statistics():
            made.conditions.append(_STATISTICS)
        touched = bool(made.entries or made.added or made.removed or any(made.keywords.values()))
        fate = Fate.CONDITION if made.conditions else Fate.REWRITTEN if touched else Fate.EQUAL
        guess = ["the object is taken for a tensor by the rules of its base class"] if use.certainty is Certainty.GUESSED else []
        refused = [f"raises where {made.refuses}"] if made.refuses else []
        self.note(node, use.name, fate, " ".join([*dict.fromkeys(made.conditions), *refused, *guess]), made.entries)

    def _conditions_of(self, node: ast.Call, use: Use, made: Plan) -> list[str]:
        """Under which conditions a call gives another result for what stands around it."""
        held = {
            _ANY_PARAMETER: use.name == "torch.Tensor.copy_" and self._is_any_parameter(node),
            _WEIGHT_BY_NAME: use.name == "torch.nn.functional.linear" and any(map(_is_by_name, made.bound.given.values())),
            CAST_AND_CHANGED: self._is_cast_and_changed(node, use),
            _WORKERS: use.name == _LOADER and _has_workers(made.bound.given),
        }
        return [text for text, holds in held.items() if holds]

    def _is_cast_and_changed(self, node: ast.Call, use: Use) -> bool:
        """Whether a tensor is cast or moved, and changed in place at once."""
        if use.form is not Form.METHOD or not isinstance(node.func, ast.Attribute):
            return False
        method = node.func.attr
        inplace = method.endswith("_") and not method.endswith("__") and method not in OF_NO_ELEMENT
        return inplace and not self._is_whole(node.func.value) and self._same_or_new(node.func.value)

    def _loop_parameters(self, *, turned: bool = False) -> set[str]:
        """The variables of the loops around a place that run over a model's parameters.

        ``turned``: those alone whose weights may lie otherwise than in PyTorch.
        """
        return {
            inner.id
            for loop in self._parents
            if isinstance(loop, ast.For | ast.AsyncFor)
            and not (turned and id(loop) in self.laid_out)
            and any(getattr(each, "attr", "") in ("parameters", "named_parameters") for each in ast.walk(loop.iter))
            for inner in ast.walk(loop.target)
            if isinstance(inner, ast.Name)
        }

    def _owns_memory(self, node: ast.expr | None) -> bool:
        """Whether an expression is a parameter itself by its form.

        A view of one, ``.data`` or an argument of a function may share its memory with another tensor.
        """
        if isinstance(node, ast.Attribute):
            return node.attr in _STARTED or (node.attr not in _SHARING and getattr(node.value, "id", "") == "self")
        return isinstance(node, ast.Name) and node.id in self._loop_parameters()

    def _is_any_parameter(self, node: ast.Call) -> bool:
        """Whether one of ``model.parameters()`` gets elements of no other parameter."""
        names = self._loop_parameters(turned=True)
        into, *rest = [node.func, *node.args, *[each.value for each in node.keywords]]
        return root_name(into) in names and not all(root_name(each) in names for each in rest)

    def _leave_out(self, node: ast.Call, use: Use, made: Plan) -> None:
        """Remove arguments that a call was planned without; write what stands for them."""
        standing = {each.arg: each.value for each in use.keywords if each.arg is not None and not hasattr(each.value, "lineno")}
        if not made.template:
            made.added.update({made.keywords.pop(name, None) or name: ast.unparse(value) for name, value in standing.items()})
        planned = {id(keyword) for keyword in use.keywords}
        for each in node.keywords:
            if each.arg is None or id(each) in planned:
                continue
            if made.template and each.arg in standing:
                continue
            made.bound.given[each.arg] = each.value
            made.removed.add(each.arg)
        if not is_layer(use.name):
            return
        values = {id(each) for each in (*use.positional, *(keyword.value for keyword in use.keywords))}
        for value in node.args:
            if id(value) not in values:  # a dtype in its place
                made.bound.given["dtype"] = value
                made.removed.add("dtype")

    def _indexed(self, node: ast.Call, use: Use) -> None:
        """Make a tuple of several tensors that are used as one value.

        ``x[places.unbind(1)]`` takes one along each axis; Paddle gives a list, which is one index for the first axis.
        """
        if use.name not in _LISTED or not self._is_asked_whole(node):
            return
        parent = self._parent()
        around = parent if isinstance(parent, ast.expr) and not isinstance(parent, ast.Subscript) else None
        self.text.edit(self.text.start(node), self.text.start(node), "tuple(", around)
        self.text.edit(self.text.end(node), self.text.end(node), ")", around, closes=True)

    def _is_asked_whole(self, node: ast.Call) -> bool:
        """Whether several tensors may be used as one value, and not one by one."""
        parent = self._parent()
        if _is_one_by_one(node, parent) or any("torch." in name for name in self._names_of(parent)):
            return False
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
            name, scope = parent.targets[0].id, innermost(self._parents)[0]
            loads = [
                (each, outer)
                for outer in ast.walk(scope)
                for each in ast.iter_child_nodes(outer)
                if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
            ]
            return isinstance(scope, ast.Module) or not all(_is_one_by_one(*each) for each in loads)
        return True

    def _iterated(self, node: ast.Call, use: Use) -> None:
        """``next(model.parameters())``: Paddle gives a list."""
        parent = self._parent()
        if use.name in _LISTS and isinstance(parent, ast.Call) and getattr(parent.func, "id", "") == "next":
            self.text.edit(self.text.start(node), self.text.start(node), "iter(", parent)
            self.text.edit(self.text.end(node), self.text.end(node), ")", parent, closes=True)

    def _begun(self, node: ast.Call, use: Use) -> None:
        """Note ``super().__init__(…)`` of a class derived from an adapter.

        It takes PyTorch's arguments.
        """
        stands = use.name in conversions().base_helpers
        reason = "" if stands else self._not_handed_on(replace(use, form=Form.CALL))
        if reason:
            raise ByHand(reason)
        self.note(node, use.name, Fate.EQUAL)
        self.generic_visit(node)

    def _check_guess(self, method: str, use: Use) -> None:
        if use.name.startswith("torch.Tensor.") and method not in _PLAIN:
            raise ByHand("the object's type is a guess by its name")

    def _takes_statistics(self) -> bool:
        """Whether a call is an argument of an optimizer or of clipping.

        These leave out what is not trained.
        """
        parent = self._parents[-3] if isinstance(self._parent(), ast.keyword) else self._parent()
        return any(name.startswith(("torch.optim.", "torch.nn.utils.clip_grad_")) for name in self._names_of(parent))

    def _is_first(self) -> bool:
        """Whether a call's first result alone is asked for: ``next(model.parameters())``."""
        parent = self._parent()
        return isinstance(parent, ast.Call) and getattr(parent.func, "id", "") == "next"

    def _is_view_changed(self, node: ast.Call, view: ast.expr) -> bool:
        """Write ``x.view(-1).add_(y)``, whose view shares its memory; False of what is none.

        It raises where a gradient is asked for, as a part with a name does.
        """
        if not isinstance(view, ast.Call) or not isinstance(view.func, ast.Attribute) or not isinstance(self._parent(), ast.Expr):
            return False
        whole = view.func.value
        plain = self._is_whole(whole) if is_dotted(whole) else self._is_part_by_numbers(whole)
        if view.func.attr not in VIEWED - COPIED or not plain or "weight" in ast.unparse(whole):
            return False
        if any(map(self.hidden, ("_changed_part(", "_not_lost("))):
            return False
        self.needs("_changed_part(")
        self.needs("_not_lost(")
        told = f", {self.text.source(whole)}, 'view')"
        for around, head in ((view, "_changed_part("), (node, "_not_lost(")):
            self.text.edit(self.text.start(around), self.text.start(around), head, around)
            self.text.edit(self.text.end(around), self.text.end(around), told, around, closes=True)
        return True

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
        method = use.name.rpartition(".")[2]
        whole = method in OF_NO_ELEMENT or node.func.value is self._put_back or self._is_whole(node.func.value)
        if inplace and method not in OF_NO_ELEMENT and getattr(node.func.value, "attr", "") == "grad":
            end = self.text.end(node.func.value)  # a gradient of Paddle asks for gradients itself
            self.text.edit(end, end, ".data", node.func.value, closes=True)
        if not inplace or whole:
            return
        if self._is_of_dictionary(node.func.value):
            self._held(node.func.value)
            return
        if self._is_view_changed(node, node.func.value):
            return
        if not self._same_or_new(node.func.value):
            raise ByHand("in place on a part of a tensor: Paddle's parts are copies")
        if isinstance(self._parent(), ast.Expr):  # made for nothing but what it changes
            raise ByHand("in place on a cast or moved tensor: it may be the tensor itself in PyTorch, and is a copy in Paddle")
