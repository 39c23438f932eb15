"""What a call is written as in Paddle, or the reason why it is refused.

The catalogue and the table of conversions decide.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paralign.catalogue.binding import UNREADABLE, bind, plain
from paralign.catalogue.conditions import holds
from paralign.catalogue.entries import Entry, Outcome, Scope
from paralign.catalogue.lookup import entries_of
from paralign.catalogue.naming import function_of, names, paddle_argument, paddle_name, torch_signature
from paralign.catalogue.parameters import Kind, Signature, Table, literal, parse
from paralign.port.conversions import Way, conversions, signature_of, was_executed
from paralign.port.values import Form

if TYPE_CHECKING:
    from paralign.catalogue.binding import Bound
    from paralign.port.values import Use

#: stands for the object whose method is called
RECEIVER = ast.Name("self", ast.Load())

#: callables of Paddle that take PyTorch's arguments
_COMPAT = "paddle.compat."

_SELF = frozenset({"x", "input", "tensor", "self"})


_HOLE = re.compile(r"\{(\w+)\}")


class ByHand(Exception):
    """The call cannot be converted; the text says why."""


class Different(ByHand):
    """The source shows that this very call gives something else in Paddle.

    No other way of calling it helps.
    """


@dataclass
class Plan:
    """How a call is written.

    ``template`` replaces the whole call; otherwise ``port`` is its name, ``keywords`` gives each argument's name in Paddle (None: it stays
    in its place), ``added`` are templates of further arguments, ``removed`` names of arguments that are left out.
    ``refuses`` says when the written call raises.
    """

    port: str
    bound: Bound
    template: str = ""
    keywords: dict[str, str | None] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    function: bool = False
    entries: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    refuses: str = ""


def plan(use: Use, paddle: Table) -> Plan:
    """Say how a call is written in Paddle.

    Raises:
        ByHand: nothing that was executed says how.
    """
    table = conversions()
    way = table.calls.get(use.name)
    if use.name in _MOVES:
        return _moved(use)
    if use.name in _FILLED:
        return _filled(use)
    bound = _bound(use)
    chosen = _chosen(use, bound, way)
    if chosen is not None:
        return _templated(use, bound, chosen)
    port = _port(use, way, paddle)
    if bound.open and (way is None or "*" not in way.same):
        raise ByHand("its arguments are not shown (*arguments or **keywords)")
    made = Plan(port, bound)
    for entry in entries_of(use.name):
        if entry.outcome is not Outcome.EQUAL:
            _cover(entry, use, made)
    if not made.template:
        _arguments(use, made, paddle, way)
    made.conditions += [way.told] if way and way.told else []
    return made


#: second names that PyTorch takes for parameters, as numpy calls them
_SECOND = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "A": "input", "x1": "input", "x2": "other",
           "element": "elements", "test_element": "test_elements"}  # fmt: skip

#: what the first parameter is called in the stored signatures, whose functions take it by the name ``input`` too
_FIRST = frozenset({"A", "a", "x", "self", "tensor", "vec", "y"})


def _bound(use: Use) -> Bound:
    """A call's arguments by parameter, those given by a second name too."""
    signature = signature_of(use.name)
    bound = bind(signature, use.positional, use.keywords)
    first = signature.parameters[0].name if signature.parameters else ""
    for name in list(bound.unknown):
        target = first if name == "input" and first in _FIRST else _SECOND.get(name, "")
        if target and signature.parameter(target) is not None and target not in bound.given:
            bound.given[target] = bound.unknown.pop(name)
    way = conversions().calls.get(use.name)
    if way is not None and way.template and signature.parameter("reduction") is not None:
        _reduced(bound)
    return bound


def _reduced(bound: Bound) -> None:
    """Give a loss ``reduction`` in place of literals that stood for it once."""
    given = {name: bound.value(name) for name in ("size_average", "reduce") if name in bound.given}
    if not given or UNREADABLE in given.values():
        return
    for name in given:
        del bound.given[name]
    average, reduce = (given.get(name) for name in ("size_average", "reduce"))
    if average is None and reduce is None:
        return
    whole = "mean" if average is None or average else "sum"
    bound.given["reduction"] = ast.Constant("none" if reduce is not None and not reduce else whole)


def _port(use: Use, way: Way | None, paddle: Table) -> str:
    """The name of Paddle's callable.

    Raises:
        ByHand: there is none, or nobody executed it.
    """
    port = (way.call if way else "") or paddle_name(use.name, paddle)
    if not port:
        raise ByHand(_missing(use.name))
    if way is None and not entries_of(use.name):
        raise ByHand("not among the calls that were executed on both sides")
    if not (way and way.call) and any(pattern.match(use.name) for pattern, _ in names().otherwise_written):
        raise ByHand("written in another way altogether in Paddle")
    return port


def _chosen(use: Use, bound: Bound, way: Way | None) -> Way | None:
    """The template that writes a call; None where it keeps its form."""
    if use.name.startswith("torch.optim.") and "params" in bound.given and not _whole(bound):
        grouped = conversions().grouped.get(use.name)
        if grouped is None:
            raise ByHand("groups of parameters, or parameters that are not model.parameters(): a rate of a group is a factor in Paddle")
        return grouped
    if way is None:
        return way
    if use.name == "torch.nn.ModuleList" and use.form is Form.CALL and not isinstance(bound.given.get("modules"), _LISTS):
        return Way("paddle.nn.LayerList(list({modules}))")  # Paddle loses the first of a generator
    template = _by_argument(use, bound, way) or way.template
    return replace(way, template=template) if template else None


def _by_argument(use: Use, bound: Bound, way: Way) -> str:
    """The template that an argument asks for, given or not; '' without one."""
    for argument, template in way.absent:
        if not bound.open and not bound.many and (argument not in bound.given or bound.value(argument) in (None, UNREADABLE)):
            return template
    given = _by_given(bound, way)
    if given:
        return given
    if bound.open and way.open:
        return way.open
    for argument, template in way.either:
        if argument in bound.given and not _is_number(bound.given[argument]):
            return template
    for argument, template in way.single:
        if argument in bound.given and not _is_several(bound.given[argument], use.name):
            return template
    return ""


def _by_given(bound: Bound, way: Way) -> str:
    """The template that an argument asks for which is given; '' without one."""
    for argument, template in way.spelled:
        if argument in bound.given:
            return template
    for argument, template in way.instead:
        if bound.given.get(argument) is not None and bound.value(argument) is not None and not _as_default(argument, bound):
            return template
    return ""


def _is_number(node: ast.expr) -> bool:
    """Whether an argument is a number by its form, or several of them."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant | ast.Tuple | ast.List)


def _is_several(node: ast.expr, name: str) -> bool:
    """Whether an argument is several numbers by its form, or None."""
    if not hasattr(node, "lineno") and name.rpartition(".")[2][:1].isupper():
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):  # a part of a shape
        return True
    return isinstance(node, ast.Tuple | ast.List) or (isinstance(node, ast.Constant) and node.value is None)


def _whole(bound: Bound) -> bool:
    """Whether an optimizer is given ``model.parameters()`` and no other form."""
    given = bound.given.get("params")
    return isinstance(given, ast.Call) and getattr(given.func, "attr", "") == "parameters"


#: constructors of tensors by their element types: of sizes, or of data
_FILLED = {
    "torch.Tensor": "'float32'", "torch.FloatTensor": "'float32'", "torch.DoubleTensor": "'float64'", "torch.HalfTensor": "'float16'",
    "torch.IntTensor": "'int32'", "torch.LongTensor": "'int64'", "torch.ByteTensor": "'uint8'", "torch.BoolTensor": "'bool'",
    "torch.CharTensor": "'int8'", "torch.ShortTensor": "'int16'", "torch.BFloat16Tensor": "'bfloat16'",
}  # fmt: skip

#: when a constructor that is given a variable raises
_EITHER = "it is given a list or a tuple, which may be a size or data"

#: what is data, and no shape, by its form
_DATA = (ast.List, ast.Tuple, ast.ListComp, ast.BinOp)


def _filled(use: Use) -> Plan:
    """Plan ``torch.FloatTensor(2, 3)``, which sets no elements, or one of a list.

    Raises:
        ByHand: it may be either, or its arguments are not shown.
    """
    dtype, given = _FILLED[use.name], use.positional
    if use.keywords or any(isinstance(each, ast.Starred) for each in given):
        raise ByHand("its arguments are not shown one by one")
    bound = bind(parse(", ".join(f"size{at}" for at in range(len(given)))), given, [])
    if len(given) > 1 or (given and isinstance(given[0], ast.Constant) and type(given[0].value) is int):
        sizes = ", ".join(f"{{size{at}}}" for at in range(len(given)))
        return Plan(use.name, bound, template=f"paddle.empty([{sizes}], {dtype})", entries=["conversions"])
    if len(given) == 1 and isinstance(given[0], _DATA):
        return Plan(use.name, bound, template=f"_filled_with({{size0}}, {dtype})", entries=["conversions"])
    if len(given) == 1:
        return Plan(use.name, bound, template=f"_sized_or_filled({{size0}}, {dtype})", entries=["conversions"], refuses=_EITHER)
    raise ByHand("it makes a tensor of a size, or of data: which of them the source does not show")


#: methods that move and cast at once; what they are given is told apart when they are called, by Paddle as by PyTorch
_MOVES = frozenset({"torch.Tensor.to", "torch.nn.Module.to"})

_TO = parse(
    "first=None, second=None, third=None, *, device=None, dtype=None, other=None, tensor=None, non_blocking=False, copy=False, "
    "memory_format=None"
)


#: last names of dtypes: Paddle's layers take one by keyword only
_DTYPES = frozenset({"dtype", "float", "float16", "float32", "float64", "double", "half", "bfloat16"})


def _moved(use: Use) -> Plan:
    """Plan ``x.to(device, dtype)`` in its forms.

    Whether the copy is awaited chooses nothing of the result.

    Raises:
        ByHand: its arguments are not shown, or a copy is asked for.
    """
    bound = bind(_TO, use.positional, use.keywords)
    if bound.open or bound.many or bound.unknown or "third" in bound.given:
        raise ByHand("its arguments are not shown one by one")
    if "copy" in bound.given or "memory_format" in bound.given:
        raise ByHand("a copy or an order in memory is asked for")
    parts = [f"{{{name}}}" for name in ("first", "second") if name in bound.given and not isinstance(bound.value(name), bool)]
    first = bound.given.get("first")
    if use.name == "torch.nn.Module.to" and isinstance(first, ast.Attribute) and first.attr in _DTYPES:
        parts[0] = "dtype={first}"
    parts += [f"{name}={{{name}}}" for name in ("device", "dtype") if name in bound.given]
    parts += [f"{{{name}}}" for name in ("other", "tensor") if name in bound.given]
    return Plan(use.name, bound, template=f"{{self}}.to({', '.join(parts)})", entries=["conversions"])


def _missing(name: str) -> str:
    words = names().missing.get(name)
    if words is None:
        return "Paddle has no counterpart"
    return f"Paddle has no counterpart; {words.en}"


def _templated(use: Use, bound: Bound, way: Way) -> Plan:
    """Plan a call that a template writes as a whole.

    Raises:
        ByHand: an argument is not shown, or the template does not write it.
    """
    _check_written(use, bound, way)
    for name, value in way.only:
        if bound.value(name) is UNREADABLE or bound.value(name) != value:
            raise ByHand(f"only with {name}={value} is it the same in Paddle")
    conditions = [entry.differs.en for entry in entries_of(use.name) if _stays(entry, bound)]
    if use.name == "torch.Tensor.is_contiguous":
        conditions.append("Whether a result lies in order is each framework's own business: what depends on it may take another way.")
    if use.name in _FANS:
        conditions.append(
            "Paddle counts the inputs of a matrix along its first axis: another spread only for one that is no Linear's weight."
        )
    if way.told:
        conditions.append(way.told)
    return Plan(use.name, bound, template=way.template, entries=["conversions"], conditions=conditions, refuses=way.refuses)


def _check_written(use: Use, bound: Bound, way: Way) -> None:
    """Refuse a call of which a template does not write every argument."""
    written = {*_HOLE.findall(way.template), *way.ignored, *(name for name, _ in way.only)}
    if "{*}" in way.template:
        written |= {name for name, node in bound.given.items() if any(node is each for each in use.positional)}
    for name in (*bound.given, *bound.unknown):
        if name in conversions().dropped or name in written:
            continue
        if not _as_default(name, bound):
            raise ByHand(f"no rule for its argument {name}")
    gathers = "{*}" in way.template and not any(each.arg is None for each in use.keywords)
    if (bound.open or bound.many) and not gathers:
        raise ByHand("its arguments are not shown one by one")


def _as_default(name: str, bound: Bound) -> bool:
    """Whether an argument is given the value that it has without being given."""
    parameter = bound.signature.parameter(name)
    if parameter is None or bound.value(name) is UNREADABLE:
        return False
    try:
        default = plain(literal(parameter.default))
    except ValueError:
        return False
    given = bound.value(name)
    return type(given) is type(default) and given == default


def _stays(entry: Entry, bound: Bound) -> bool:
    """Whether an accepted difference may show in a call that a template writes."""
    if entry.outcome is Outcome.EQUAL:
        return False
    return entry.id in _TOLD and holds(entry.when, bound) is not False


#: callables of Paddle whose stored signature lacks a keyword that they take
_OPEN = frozenset({"torch.meshgrid"})

#: what is a list already; None where a list of layers begins empty
_LISTS = (ast.List, ast.ListComp, type(None))

#: starts whose spread depends on which axis of a weight its inputs are
_FANS = frozenset({"torch.nn.init.kaiming_normal_", "torch.nn.init.kaiming_uniform_"})

#: accepted differences of calls that templates write
_TOLD = frozenset({"numpy-shares", "from-numpy-shares"})


def _cover(entry: Entry, use: Use, made: Plan) -> None:
    """Apply the fix of a difference, accept it with a word, or refuse.

    Raises:
        ByHand: the difference may show, and no fix covers it.
    """
    own = use.name == entry.torch or use.name in entry.also
    function = None if own else function_of(use.name)
    bound = made.bound if function is None else bind(torch_signature(function), use.positional, use.keywords, RECEIVER)
    truth = holds(entry.when, bound)
    if truth is False or _is_irrelevant(entry, made, bound):
        return
    table = conversions()
    if entry.id in table.switched and truth is None:
        made.entries.append(entry.id)
        made.added.update({name: f"{value} if {{{table.switched[entry.id]}}} else False" for name, value in entry.fix.set.items()})
    elif entry.fix.mechanical and _is_certain(entry, truth):
        _apply(entry, made, bound, function=function is not None)
    elif entry.id in table.accepted or entry.scope is not Scope.CALL:
        where = f" Only {entry.data.en}." if entry.data.en else ""
        made.conditions.append(entry.differs.en + where)
    elif entry.outcome is Outcome.RAISES and entry.data.en:
        return  # Paddle refuses such data: nothing goes wrong in silence
    else:
        raise ByHand(f"{entry.differs.en} {entry.fix.words.en}".strip())


def _is_irrelevant(entry: Entry, made: Plan, bound: Bound) -> bool:
    """Whether a difference is covered elsewhere, of another port, or ruled out by literals."""
    if entry.id in conversions().covered or entry.scope is Scope.WEIGHTS:
        return True
    return _foreign(entry, made) or _never(entry, bound)


def _is_certain(entry: Entry, truth: bool | None) -> bool:
    """Whether a fix is right, whatever data the call is given.

    ``truth``: whether the difference's condition holds; None where the call does not show that.
    """
    table = conversions()
    if entry.id in table.either or (entry.id in table.always and truth):
        return True
    if entry.data.en:
        return False
    if truth:
        return True
    return any("{" in value for value in entry.fix.set.values())


def _foreign(entry: Entry, made: Plan) -> bool:
    """Whether the difference is another port's: nobody writes it here."""
    if entry.id not in conversions().accepted or entry.scope is not Scope.CALL:
        return False
    return bool(entry.paddle) and entry.paddle != made.port


def _never(entry: Entry, bound: Bound) -> bool:
    """Whether literals of the call rule a condition on data out."""
    if entry.id == "full-dtype":
        return isinstance(bound.value("fill_value"), float) or "dtype" in bound.given
    if entry.id == "reshape-zero":
        sizes = [*bound.many, *bound.given.values()]
        return not any(isinstance(node, ast.Constant) and node.value == 0 for each in sizes for node in ast.walk(each))
    return False


def _apply(entry: Entry, made: Plan, bound: Bound, *, function: bool) -> None:
    """Write a call with the fix of a difference.

    Raises:
        ByHand: another fix, or an argument of the call, rules it out.
    """
    made.entries.append(entry.id)
    if entry.fix.code:
        if made.template and made.template != entry.fix.code:
            raise ByHand("two fixes exclude one another")
        _check_held(entry.fix.code, bound)
        made.template, made.bound = entry.fix.code, bound
        return
    if entry.fix.call:
        if made.added:
            raise ByHand("two fixes exclude one another")
        made.port, made.bound, made.function = entry.fix.call, bound, made.function or function
    for text in entry.fix.set.values():
        for name in _HOLE.findall(text):
            if text != f"{{{name}}}" and name in bound.given and bound.value(name) is None:
                raise Different(f"{name}=None asks for a rule of its own, which Paddle has not")
    made.added.update(entry.fix.set)
    made.removed.update(entry.fix.drop)


def _check_held(code: str, bound: Bound) -> None:
    """Refuse a call of which the code of a fix does not hold every argument."""
    for name, node in bound.given.items():
        if node is not RECEIVER and "{" + name + "}" not in code:
            raise ByHand(f"no rule for its argument {name}")
    if bound.many or bound.unknown:
        raise ByHand("its arguments are not shown one by one")


def _arguments(use: Use, made: Plan, paddle: Table, way: Way | None) -> None:
    """Each argument's name in Paddle.

    Raises:
        ByHand: Paddle does not take it, or nobody executed the call with it.
    """
    table = conversions()
    ours = paddle.signature(made.port)
    if made.port.startswith("paddle.Tensor.") and ours.parameters and ours.parameters[0].name in _SELF:
        ours = replace(ours, parameters=ours.parameters[1:])
    if made.bound.unknown:
        raise ByHand(f"PyTorch's signature has no argument {next(iter(made.bound.unknown))}")
    if made.bound.many and "*" not in (way.same if way else ()):
        raise ByHand("more arguments than its signature has")
    mapped = _mapped(use.name)
    places = [each.name for each in ours.parameters if each.kind is Kind.PLAIN]
    theirs = [each.name for each in made.bound.signature.parameters if each.kind is Kind.PLAIN]
    for name, node in made.bound.given.items():
        if node is RECEIVER or name in made.removed or (way is not None and _by_way(name, node, made, way)):
            continue
        target = paddle_argument(name, mapped, ours)
        covered = name in made.added or (target is not None and target in made.added)
        if covered:
            _allowed(use, name, node, made, way)
        taken = _is_taken(name, target, ours)
        if covered or name in table.dropped or _goes_unsaid(use, name, node, made, way, taken=taken):
            made.removed.add(name)
            continue
        _allowed(use, name, node, made, way)
        if use.name in _OPEN and name == "indexing":
            continue  # Paddle takes it among keywords that it does not list
        made.keywords[name] = _placed(
            name, target, theirs, places, ours, gathers=bool(way and way.same and ours.gathers), compat=made.port.startswith(_COMPAT)
        )
    _defaults(use, made, ours, mapped)


def _defaults(use: Use, made: Plan, ours: Signature, mapped: dict[str, str]) -> None:
    """Write defaults that differ, but those that the catalogue's entries speak of."""
    if made.bound.open:
        return
    settled = {name for name in made.bound.given if name not in made.removed} | made.added.keys()
    given = frozenset(settled)
    for entry in entries_of(use.name):
        settled |= {*entry.fix.set, *entry.fix.drop, *entry.arguments}
    for each in made.bound.signature.parameters:
        target = paddle_argument(each.name, mapped, ours)
        parameter = None if target is None else ours.parameter(target)
        if parameter is None or target is None:
            continue
        needed = parameter.default is None and parameter.kind is Kind.PLAIN
        if not (given if needed else settled).isdisjoint((each.name, target)):
            continue
        try:
            theirs = literal(each.default)
            mine = ... if parameter.default is None else literal(parameter.default)
        except ValueError:
            continue
        if ((needed and theirs is not None) or (type(theirs) is type(mine) and theirs != mine)) and each.name not in conversions().dropped:
            made.added[target] = repr(theirs)
            settled.add(target)


def _by_way(name: str, node: ast.expr, made: Plan, way: Way) -> bool:
    """Write an argument as the table says; False where it says nothing of it."""
    if name == "inplace" and name in way.same:
        _in_place(node, made)
        return True
    texts = {} if _as_default(name, made.bound) else way.written(name)
    made.added.update(_decided(texts, made.bound.value(name)))
    if texts:
        made.removed.add(name)
    return bool(texts)


def _decided(texts: dict[str, str], value: object) -> dict[str, str]:
    """Texts with a choice made where the source shows it."""
    return {name: "False" if value is False and text.endswith(" else False") else text for name, text in texts.items()}


#: arguments whose counterpart in Paddle means something else: the opposite, a part of it, or another thing
_TURNED = frozenset({"track_running_stats", "batch_first", "bidirectional", "count_include_pad"})


def _goes_unsaid(use: Use, name: str, node: ast.expr, made: Plan, way: Way | None, *, taken: bool) -> bool:
    """Whether an argument has its default, and Paddle's call is better without it.

    Raises:
        ByHand: it has another value, and means something else in Paddle.
    """
    if not _as_default(name, made.bound):
        if name in _TURNED:
            raise ByHand(f"Paddle's argument for {name} means something else")
        return False
    if name in _TURNED:
        return True
    return not taken or not _is_allowed(use, name, node, made, way)


def _is_taken(name: str, target: str | None, ours: Signature) -> bool:
    """Whether Paddle's callable takes an argument.

    One whose signature is not known is taken to.
    """
    if not ours.known or ours.gathers:
        return True
    return any(each in ours.names or each in ours.accepts for each in (name, target or name))


def _is_allowed(use: Use, name: str, node: ast.expr, made: Plan, way: Way | None) -> bool:
    try:
        _allowed(use, name, node, made, way)
    except ByHand:
        return False
    return True


def _in_place(node: ast.expr, made: Plan) -> None:
    made.removed.add("inplace")
    if not (isinstance(node, ast.Constant) and node.value is False):
        made.conditions.append(
            "PyTorch changes the layer's input in place, Paddle does not: another result only where the input is read again"
        )


def _allowed(use: Use, name: str, node: ast.expr, made: Plan, way: Way | None) -> None:
    if name == "dim" and isinstance(made.bound.value(name), bool):
        raise Different("a truth value in the place of an axis means something else")
    if name == "input" or (way is not None and name in way.same):
        return
    parameter = made.bound.signature.parameter(name)
    try:
        default = literal(parameter.default if parameter else None)
    except ValueError:
        default = ...
    if not was_executed(use.name, name, node, default):
        raise ByHand(f"nobody executed it on both sides with {name}={ast.unparse(node)[:40]}")


def _mapped(name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entries_of(name):
        if name == entry.torch or name in entry.also:
            found.update(entry.arguments)
    return found


def _placed(
    name: str, target: str | None, theirs: list[str], places: list[str], ours: Signature, *, gathers: bool, compat: bool
) -> str | None:
    """The keyword that an argument needs; None where it may stay as it is."""
    offered = ours.names
    if not ours.known or gathers or compat:
        return None
    is_taken = name in offered or name in ours.accepts
    if target is not None and target not in offered:  # accepted by name only: at its place it is called otherwise
        target = next((each for each in names().arguments.get(name, []) if each in offered), target)
    at = theirs.index(name) if name in theirs else -1
    if 0 <= at < len(places) and places[at] in (target, name):
        return None if is_taken else places[at]
    if is_taken:
        return target if target in offered else name
    if target is None or (target not in offered and target not in ours.accepts):
        raise ByHand(f"Paddle has no argument {name}")
    return target
