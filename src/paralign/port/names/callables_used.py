"""Expressions of a program: what they stand for, and which callables they use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from paralign.catalogue.naming import canonical
from paralign.catalogue.parameters import stored
from paralign.port.names.ownership import (
    FRAMEWORKS,
    LIBRARIES,
    could_be,
    guessed_owner,
    hinted_owner,
    is_module,
    owner_of,
    result_of,
    result_of_method,
)
from paralign.port.names.registries import by_name, dotted
from paralign.port.names.values import (
    GUESSED_TENSOR,
    TENSOR,
    Certainty,
    Choice,
    Class,
    Form,
    Instance,
    Named,
    Object,
    Partial,
    Registry,
    Space,
    Super,
    Use,
    Value,
    joined,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

#: attributes of a tensor that are tensors
_VIEWS = frozenset({"T", "mT", "H", "mH", "data", "grad", "real", "imag"})


#: methods of layers that make an attribute of what they are given
_REGISTER = frozenset({"register_buffer", "register_parameter"})

#: methods that lists have and tensors have not: a list of tensors is taken for one
_OF_LISTS = frozenset({"append", "extend", "insert", "pop", "remove", "reverse", "clear"})


class Calls:
    """Reads expressions; what a name stands for is kept scope by scope, the innermost last."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, Value]] = [{}]
        self.uses: list[Use] = []
        self.ambiguous = 0
        self.imported: set[str] = set()
        self.elsewhere: set[str] = set()
        self.modules: set[str] = set()
        self.tensorless: set[str] = set()
        self.frameworks: set[str] = set()
        self.owner: Class | None = None
        self.method_of: Class | None = None
        self.inside = ""
        self.depth = 0

    # names

    def name(self, name: str, value: Value) -> None:
        """Give a name a value; in a branch beside what it stood for."""
        scope = self.scopes[-1]
        scope[name] = joined(scope.get(name), value) if self.depth else value

    def bind(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a target."""
        if isinstance(target, ast.Name):
            self.name(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                self.bind(each, value)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, quiet=True)
            if isinstance(owner, Object):
                owner.of.attributes[target.attr] = joined(owner.of.attributes.get(target.attr), value)
        elif isinstance(target, ast.Subscript):
            self.value(target, quiet=True)

    # expressions

    def value(self, node: ast.expr, *, quiet: bool = False) -> Value:
        """What an expression stands for.

        Callables of a framework that it names are noted unless ``quiet``.
        """
        handle = getattr(self, f"_{type(node).__name__}", None)
        if handle is not None:
            found: Value = handle(node, quiet)
            return found
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                self.value(each)
        return None

    def _Name(self, node: ast.Name, quiet: bool) -> Value:  # noqa: N802 - named as ast names it
        for scope in reversed(self.scopes):
            if node.id in scope:
                found = scope[node.id]
                if not quiet and node.id in self.imported:
                    self._refer(node, found)
                return found
        return None

    def _Attribute(self, node: ast.Attribute, quiet: bool) -> Value:  # noqa: N802 - as above
        found = self.attribute(self.value(node.value, quiet=True), node.attr)
        if not quiet and not isinstance(node.value, ast.Call):
            self._refer(node, found)
        return found

    def attribute(self, of: Value, name: str) -> Value:
        """What an attribute of a value stands for."""
        if isinstance(of, Named):
            return Named(f"{of.name}.{name}", of.certainty)
        if isinstance(of, Space):
            return of.names.get(name)
        if isinstance(of, Object | Class):
            return (of.of if isinstance(of, Object) else of).attribute(name)
        if isinstance(of, Instance):
            return _attribute_of(of, name)
        if isinstance(of, Choice):
            found: Value = None
            for each in of.values:
                found = joined(found, self.attribute(each, name))
            return found
        return None

    def _Constant(self, node: ast.Constant, quiet: bool) -> Value:  # noqa: N802 - as above
        if not quiet and isinstance(node.value, str) and self.frameworks:
            name = dotted(node.value)
            if name:
                self._use(node, Named(name, Certainty.GUESSED), Form.REFERENCE)
        return None

    def _IfExp(self, node: ast.IfExp, quiet: bool) -> Value:  # noqa: N802 - as above
        self.value(node.test)
        return joined(self.value(node.body, quiet=quiet), self.value(node.orelse, quiet=quiet))

    def _BoolOp(self, node: ast.BoolOp, quiet: bool) -> Value:  # noqa: N802 - as above
        found: Value = None
        for each in node.values:
            found = joined(found, self.value(each, quiet=quiet))
        return found

    def _BinOp(self, node: ast.BinOp, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        return _tensor(self.value(node.left), self.value(node.right))

    def _Compare(self, node: ast.Compare, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        return _tensor(self.value(node.left), *[self.value(each) for each in node.comparators])

    def _UnaryOp(self, node: ast.UnaryOp, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        return _tensor(self.value(node.operand))

    def _NamedExpr(self, node: ast.NamedExpr, quiet: bool) -> Value:  # noqa: N802 - as above
        found = self.value(node.value, quiet=quiet)
        self.bind(node.target, found)
        return found

    def _Starred(self, node: ast.Starred, quiet: bool) -> Value:  # noqa: N802 - as above
        return self.value(node.value, quiet=quiet)

    def _List(self, node: ast.List | ast.Tuple | ast.Set, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        found: Value = None
        for each in node.elts:
            found = joined(found, self.value(each))
        return found

    _Tuple = _Set = _List

    def _Dict(self, node: ast.Dict, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        entries = []
        for key, each in zip(node.keys, node.values, strict=True):
            if key is not None:
                self.value(key)
            literal = key.value if isinstance(key, ast.Constant) else None
            entries.append((literal, self.value(each)))
            self._registered(literal, each, node, _as_keywords(node))
        if any(value is not None for _, value in entries):
            return Registry(tuple(entries))
        return None

    def _Subscript(self, node: ast.Subscript, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        of = self.value(node.value, quiet=True)
        self.value(node.slice)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(of, Named):
            if not of.name.endswith(".__dict__"):
                return None
            return Named(f"{of.name[: -len('.__dict__')]}.{key if isinstance(key, str) else '?'}")
        if isinstance(of, Registry):
            found: Value = None
            for name, value in of.entries:
                if key is None or name == key:
                    found = joined(found, value)
            return found
        return of if isinstance(of, Instance | Choice) else None

    def _Lambda(self, node: ast.Lambda, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.value(default)
        names = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.scopes.append({each.arg: None for each in names})
        self.value(node.body)
        self.scopes.pop()
        return None

    def _ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        self.scopes.append({})
        for each in node.generators:
            found = self.value(each.iter)
            self.bind(each.target, None if isinstance(found, Registry) else found)
            for condition in each.ifs:
                self.value(condition)
        value = self.value(node.elt)
        self.scopes.pop()
        return value

    _SetComp = _GeneratorExp = _ListComp

    def _DictComp(self, node: ast.DictComp, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        self.scopes.append({})
        for each in node.generators:
            self.bind(each.target, self.value(each.iter))
            for condition in each.ifs:
                self.value(condition)
        self.value(node.key)
        self.value(node.value)
        self.scopes.pop()
        return None

    # calls

    def _Call(self, node: ast.Call, quiet: bool) -> Value:  # noqa: N802, ARG002 - as above
        special = self._special(node)
        if special is not None:
            return special
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, quiet=isinstance(node.func.value, ast.Name | ast.Attribute))
            self._as_attribute(node, owner, self._arguments(node))
            return self._method(node, node.func, owner)
        callee = self.value(node.func, quiet=True)
        self._arguments(node)
        return self._called(node, callee)

    def _as_attribute(self, node: ast.Call, owner: Value, given: Sequence[Value]) -> None:
        """Note what ``self.register_buffer("mean", torch.zeros(3))`` makes of an attribute."""
        if not isinstance(owner, Object) or getattr(node.func, "attr", "") not in _REGISTER or len(node.args) <= 1:
            return
        name = getattr(node.args[0], "value", None)
        if isinstance(name, str):
            owner.of.attributes[name] = joined(owner.of.attributes.get(name), given[1])

    def _arguments(self, node: ast.Call) -> list[Value]:
        """Read the arguments of a call; what the positional ones stand for."""
        given = [self.value(each) for each in node.args]
        for keyword in node.keywords:
            self.value(keyword.value)
            self._registered(keyword.arg, keyword.value, node, [other for other in node.keywords if other is not keyword])
        return given

    def _special(self, node: ast.Call) -> Value:
        """What a call of Python's own names: ``getattr``, ``partial``, ``super`` and the like.

        ``import_module`` is another.
        """
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name == "partial" and node.args:
            return self._partial(node)
        if name == "getattr" and isinstance(node.func, ast.Name) and len(node.args) > 1:
            of = self.value(node.args[0], quiet=True)
            for each in node.args[2:]:
                self.value(each)
            literal = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
            if literal is None:
                self.value(node.args[1])
            if isinstance(of, Named | Space):
                return self.attribute(of, literal if isinstance(literal, str) else "?")
            return None
        if name == "super" and isinstance(node.func, ast.Name):
            return None if self.method_of is None else Super(self.method_of)
        if name in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
            module = str(node.args[0].value)
            return Named(module) if module.partition(".")[0] in (*FRAMEWORKS, *LIBRARIES) else None
        return None

    def _partial(self, node: ast.Call) -> Value:
        of = self.value(node.args[0], quiet=True)
        for each in node.args[1:]:
            self.value(each)
        for keyword in node.keywords:
            self.value(keyword.value)
        found: Value = None
        for each_value in of.values if isinstance(of, Choice) else (of,):
            if isinstance(each_value, Partial):
                inner = Partial(each_value.of, (*each_value.positional, *node.args[1:]), (*each_value.keywords, *node.keywords))
            elif isinstance(each_value, Named):
                inner = Partial(each_value, tuple(node.args[1:]), tuple(node.keywords))
            else:
                continue
            self._use(node, inner.of, Form.PARTIAL, inner.positional, inner.keywords)
            found = joined(found, inner)
        return found

    def _called(self, node: ast.Call, callee: Value) -> Value:  # noqa: PLR0911 - one answer a kind of value
        if isinstance(callee, Named):
            self._use(node, callee, Form.CALL, node.args, node.keywords)
            return result_of(canonical(callee.name))
        if isinstance(callee, Partial):
            self._use(node, callee.of, Form.CALL, [*callee.positional, *node.args], [*callee.keywords, *node.keywords])
            return result_of(canonical(callee.of.name))
        if isinstance(callee, Class):
            return Object(callee)
        if isinstance(callee, Object):
            return GUESSED_TENSOR if callee.of.framework_base() == "torch.nn.Module" else None
        if isinstance(callee, Instance):
            if is_module(callee.of) or callee.of == "torch.nn.Module":
                return TENSOR
            return None
        if isinstance(callee, Choice):
            found: Value = None
            for each in callee.values:
                one = Named(each.name, Certainty.INFERRED) if isinstance(each, Named) else each
                found = joined(found, self._called(node, one))
            return found
        return None

    def _method(self, node: ast.Call, func: ast.Attribute, owner: Value) -> Value:  # noqa: PLR0911 - as above
        name = func.attr
        if isinstance(owner, Instance):
            return self._method_of(node, owner_of(owner.of), name, owner.certainty)
        if isinstance(owner, Object | Super | Class):
            return self._method_of_own(node, owner, name)
        if isinstance(owner, Choice):
            found: Value = None
            for each in owner.values:
                found = joined(found, self._method(node, func, each))
            return found
        if owner is not None and not isinstance(owner, Registry):
            return self._called(node, self.attribute(owner, name))
        if not self.frameworks & {"torch", "torchvision", "torchaudio"} or self._is_elsewhere(func.value):
            return None
        guess = guessed_owner(name) or hinted_owner(func.value, name)
        if guess is not None:
            return self._method_of(node, guess, name, Certainty.GUESSED)
        if could_be(name):
            self.ambiguous += 1
        return None

    def _is_elsewhere(self, node: ast.expr) -> bool:
        """Whether an expression is a module or a name of another package.

        ``re.sub`` and ``math.erf`` are no methods of tensors.
        """
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.elsewhere

    def _method_of(self, node: ast.Call, owner: str, name: str, certainty: Certainty) -> Value:
        if f"{owner}.{name}" not in stored("torch") and owner != "torch.Tensor":
            return None
        if f"{owner}.{name}" not in stored("torch") and (certainty is Certainty.GUESSED or name in _OF_LISTS):
            return None
        self._use(node, Named(f"{owner}.{name}", certainty), Form.METHOD, node.args, node.keywords)
        found = result_of_method(owner, name)
        if found == TENSOR and certainty is Certainty.GUESSED:
            return GUESSED_TENSOR
        return found

    def _method_of_own(self, node: ast.Call, owner: Object | Super | Class, name: str) -> Value:
        """A method of an object of the program.

        It is an attribute of its class, or what the class has from a framework's.
        """
        made = owner if isinstance(owner, Class) else owner.of
        if isinstance(owner, Super):
            if any(name in one.methods for one in made.lineage()[1:]):
                return None  # a class of the program lies between
        else:
            attribute = made.attribute(name)
            if attribute is not None:
                return self._called(node, attribute)
            if made.defines(name):
                return None
        base = made.framework_base()
        if base is None:
            return None
        if name == "__init__":
            if node.args or node.keywords:
                self._use(node, Named(base), Form.SUBCLASS, node.args, node.keywords)
            return None
        return self._method_of(node, owner_of(base), name, Certainty.INFERRED)

    # notes

    def derived(self, made: Class, node: ast.expr, base: Value) -> None:
        """Note that a class is derived from a framework's, or from another of the program."""
        if isinstance(base, Named):
            made.bases.append(base)
            self._use(node, base, Form.SUBCLASS)
        elif isinstance(base, Class):
            made.bases.append(base)

    def _refer(self, node: ast.expr, found: Value) -> None:
        if isinstance(found, Named):
            name = canonical(found.name)
            if name in stored(name.partition(".")[0]):
                self._use(node, found, Form.REFERENCE)

    def _registered(self, key: object, node: ast.expr, call: ast.expr, keywords: list[ast.keyword]) -> None:
        """Note ``dict(type="Conv2d", …)``: a callable that a registry looks up by its name."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and isinstance(key, str) and self.frameworks:
            name = by_name(key, node.value)
            if name:
                self._use(call, Named(name, Certainty.GUESSED), Form.CALL, [], keywords)

    def _use(
        self, node: ast.expr, found: Named, form: Form, positional: Sequence[ast.expr] = (), keywords: Sequence[ast.keyword] = ()
    ) -> None:
        root = found.name.partition(".")[0]
        if root not in FRAMEWORKS and root not in LIBRARIES:
            return
        if root in LIBRARIES and form is not Form.CALL:
            return
        self.uses.append(
            Use(
                canonical(found.name),
                node.lineno,
                node.col_offset,
                node.end_lineno or node.lineno,
                node.end_col_offset or node.col_offset,
                form,
                found.certainty,
                list(positional),
                list(keywords),
                self.inside,
                self.method_of is not None and self.method_of.prepares_data(),
            )
        )


def _attribute_of(of: Instance, name: str) -> Value:
    """An attribute of a framework's object: a form of a tensor, or a context's tensors."""
    if of.of == "torch.autograd.Function" and name == "saved_tensors":
        return GUESSED_TENSOR
    if of.of == "torch.Tensor" and name in _VIEWS:
        return of
    return None


def _as_keywords(node: ast.Dict) -> list[ast.keyword]:
    """The other entries of a configuration, as the arguments that a registry makes of them."""
    found = []
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and by_name(key.value, getattr(value, "value", None) or "") == "":
            found.append(ast.keyword(key.value, value))
    return found


def _tensor(*values: Value) -> Value:
    """A tensor where one of the operands is: guessed where all of them are."""
    found: Value = None
    for each in values:
        if isinstance(each, Instance) and each.of == "torch.Tensor":
            found = each if found is None or each.certainty is not Certainty.GUESSED else found
    return found
