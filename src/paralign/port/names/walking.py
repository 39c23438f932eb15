"""Which callables a program uses, told from its source; nothing is imported or run."""

from __future__ import annotations

import ast
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paralign.catalogue.naming import canonical
from paralign.catalogue.parameters import stored
from paralign.port.names.callables_used import Calls
from paralign.port.names.ownership import FRAMEWORKS, LIBRARIES
from paralign.port.names.values import GUESSED_TENSOR, TENSOR, Choice, Class, Instance, Named, Object, Registry, Space, Value, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from paralign.port.names.values import Use

    #: names of another module of the program: its dotted name and the dots before it; None where the program has no such module
    Exports = Callable[[str, int], dict[str, Value] | None]


@dataclass
class Outcome:
    """What a program uses, and what could not be told."""

    uses: list[Use] = field(default_factory=list)
    ambiguous: int = 0
    lost: int = 0
    foreign: set[str] = field(default_factory=set)
    names: dict[str, Value] = field(default_factory=dict)


@dataclass
class _Deferred:
    node: ast.FunctionDef | ast.AsyncFunctionDef
    scopes: list[dict[str, Value]]
    inside: Class | None
    name: str


#: methods of torch.autograd.Function that are given a context first
_OF_A_CONTEXT = frozenset({"forward", "backward", "vjp", "jvp", "setup_context"})

#: arguments of isinstance
_PAIR = 2


def _instances(value: Value) -> Value:
    """Objects of a framework's class, or of one of several; None for all else."""
    found: Value = None
    for each in value.values if isinstance(value, Choice) else (value,):
        if not isinstance(each, Named):
            return None
        found = joined(found, Instance(canonical(each.name)))
    return found


class Reader(Calls):
    """Walk one program: statements in order, functions' bodies after the module's names."""

    def __init__(self, exports: Exports) -> None:
        super().__init__()
        self.exports = exports
        self.outcome = Outcome(uses=self.uses, names=self.scopes[0])
        self._deferred: list[_Deferred] = []

    def run(self, body: Sequence[ast.stmt]) -> Outcome:
        """Read a whole program."""
        self.block(body)
        while self._deferred:
            self._function_body(self._deferred.pop(0))
        self.outcome.ambiguous = self.ambiguous
        return self.outcome

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Read statements in order; one that is nested too deeply is counted."""
        for statement in body:
            self._guarded(statement)

    def _guarded(self, statement: ast.stmt) -> None:
        try:
            self.statement(statement)
        except RecursionError:
            self.outcome.lost += (statement.end_lineno or statement.lineno) - statement.lineno + 1

    def statement(self, node: ast.stmt) -> None:
        """Read one statement."""
        handle = getattr(self, f"_{type(node).__name__}", None)
        if handle is not None:
            handle(node)
            return
        for each in ast.iter_child_nodes(node):
            self._part(each)

    def _part(self, node: ast.AST) -> None:
        if isinstance(node, ast.expr):
            self.value(node)
        elif isinstance(node, ast.stmt):
            self.branch(lambda: self.block([node]))
        elif isinstance(node, ast.withitem):
            value = self.value(node.context_expr)
            if node.optional_vars is not None:
                self.bind(node.optional_vars, value)
        else:  # handlers of exceptions, cases of match
            for each in ast.iter_child_nodes(node):
                self._part(each)

    def branch(self, read: Callable[[], None]) -> None:
        """Read what may not be run.

        Names keep what they stood for beside what they are given there.
        """
        self.depth += 1
        read()
        self.depth -= 1

    # names

    def _Import(self, node: ast.Import) -> None:  # noqa: N802 - named as ast names it
        for alias in node.names:
            root = alias.name.partition(".")[0]
            if root in FRAMEWORKS or root in LIBRARIES:
                bound = Named(alias.name) if alias.asname else Named(root)
                self.name(alias.asname or root, bound)
                self.imported.add(alias.asname or root)
                self.frameworks.add(root)
                continue
            names = self.exports(alias.name, 0)
            if names is None:
                self.outcome.foreign.add(root)
                self._is_from(root, {alias.asname or root})
                self.modules |= {alias.asname or root, alias.asname or alias.name}
            elif alias.asname or "." not in alias.name:
                self.name(alias.asname or alias.name, Space(names))

    def _ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802 - as above
        module = node.module or ""
        root = module.partition(".")[0]
        if not node.level and (root in FRAMEWORKS or root in LIBRARIES):
            self.frameworks.add(root)
            self._from_framework(module, node)
            return
        names = self.exports(module, node.level)
        if names is None and not node.level:
            self.outcome.foreign.add(root)
            self._is_from(root, {alias.asname or alias.name for alias in node.names})
        for alias in node.names:
            if alias.name == "*":
                self.scopes[-1].update(names or {})
                continue
            value = (names or {}).get(alias.name)
            if value is None:
                inner = self.exports(f"{module}.{alias.name}".strip("."), node.level)
                value = None if inner is None else Space(inner)
            self.name(alias.asname or alias.name, value)

    def _is_from(self, package: str, names: set[str]) -> None:
        """Keep the names that another package gives, and no earlier one's."""
        self.elsewhere |= names
        self.modules -= names
        self.tensorless -= names
        if package in sys.stdlib_module_names:
            self.tensorless |= names

    def _from_framework(self, module: str, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != "*":
                self.name(alias.asname or alias.name, Named(canonical(f"{module}.{alias.name}")))
                self.imported.add(alias.asname or alias.name)
                continue
            for member in stored(module.partition(".")[0]).members(module):
                self.scopes[-1][member] = Named(f"{module}.{member}")
                self.imported.add(member)

    def _Assign(self, node: ast.Assign) -> None:  # noqa: N802 - as above
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            targets = node.targets[0].elts
            if len(targets) == len(node.value.elts):
                for target, value in zip(targets, [self.value(each) for each in node.value.elts], strict=True):
                    self.bind(target, value)
                return
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802 - as above
        value = self.annotated(node.annotation) if node.value is None else self.value(node.value)
        self.bind(node.target, value)

    def _AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802 - as above
        self.value(node.value)
        self.value(node.target, quiet=True)

    def _For(self, node: ast.For | ast.AsyncFor) -> None:  # noqa: N802 - as above
        value = self.value(node.iter)
        self.bind(node.target, None if isinstance(value, Registry) else value)
        self.branch(lambda: self.block(node.body))
        self.branch(lambda: self.block(node.orelse))

    _AsyncFor = _For

    def _If(self, node: ast.If) -> None:  # noqa: N802 - as above
        self.value(node.test)
        with self.narrowed(node.test):
            self.branch(lambda: self.block(node.body))
        self.branch(lambda: self.block(node.orelse))

    @contextmanager
    def narrowed(self, test: ast.expr) -> Iterator[None]:
        """Where ``isinstance(x, nn.Linear)`` holds, ``x`` is a Linear; afterwards what it was."""
        asked = isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance" and len(test.args) == _PAIR
        object_ = test.args[0] if asked and isinstance(test, ast.Call) else None
        name = object_.id if isinstance(object_, ast.Name) else getattr(object_, "attr", "")
        kind = _instances(self.value(test.args[1], quiet=True)) if name and isinstance(test, ast.Call) else None
        scope = self.scopes[-1]
        if isinstance(object_, ast.Attribute):
            owner = self.value(object_.value, quiet=True)
            scope = owner.of.attributes if isinstance(owner, Object) else {}
        if kind is None or name not in scope:
            yield
            return
        before, scope[name] = scope[name], kind
        yield
        scope[name] = before

    def _With(self, node: ast.With | ast.AsyncWith) -> None:  # noqa: N802 - as above
        for item in node.items:
            self._part(item)
        self.block(node.body)

    _AsyncWith = _With

    # functions and classes

    def annotations(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Read a function's annotations, which call nothing: a reader may pass over them."""

    def _FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:  # noqa: N802 - as above
        self.annotations(node)
        for decorator in node.decorator_list:
            self.value(decorator)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.value(default)
        name = f"{self.inside}.{node.name}" if self.inside else node.name
        self._deferred.append(_Deferred(node, list(self.scopes), self.owner, name))
        if self.owner is None:
            self.name(node.name, None)

    _AsyncFunctionDef = _FunctionDef

    def _ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802 - as above
        for decorator in node.decorator_list:
            self.value(decorator)
        made = Class(f"{self.inside}.{node.name}" if self.inside else node.name)
        for base in node.bases:
            self.derived(made, base, self.value(base, quiet=True))
        for keyword in node.keywords:
            self.value(keyword.value)
        self.name(node.name, made)
        before = (self.owner, self.inside, self.depth)
        self.owner, self.inside, self.depth = made, made.name, 0
        made.methods.update(each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
        self.scopes.append(made.attributes)
        first = [each for each in node.body if getattr(each, "name", "") == "__init__"]
        self.block([each for each in node.body if each not in first])
        self.scopes.pop()
        outer = self.scopes
        self.owner, self.inside, self.depth = before
        for each in first:  # attributes that __init__ sets are known to all methods
            if isinstance(each, ast.FunctionDef):
                self.annotations(each)
                for decorator in each.decorator_list:
                    self.value(decorator)
                for default in (*each.args.defaults, *each.args.kw_defaults):
                    if default is not None:
                        self.value(default)
                self._deferred.insert(0, _Deferred(each, list(outer), made, f"{made.name}.__init__"))

    def _function_body(self, work: _Deferred) -> None:
        self.scopes, self.owner, self.inside, self.depth = [*work.scopes], work.inside, work.name, 0
        if work.inside is not None and self.scopes and self.scopes[-1] is work.inside.attributes:
            self.scopes.pop()  # names of a class are no names of its methods
        self.scopes.append(self._parameters(work))
        owner, self.owner = self.owner, None
        self.method_of = owner
        self.block(work.node.body)
        self.method_of = None

    def _parameters(self, work: _Deferred) -> dict[str, Value]:
        arguments = work.node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        found: dict[str, Value] = {}
        for at, each in enumerate([*plain, *arguments.kwonlyargs]):
            found[each.arg] = self.annotated(each.annotation) if each.annotation is not None else self._expected(work, at)
        pairs = [*zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True)]
        pairs += [(each, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is not None]
        for each, default in pairs:
            known = self.value(default, quiet=True) if isinstance(default, ast.Name | ast.Attribute) else None
            found[each.arg] = joined(found[each.arg], known)
        static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in work.node.decorator_list)
        if work.inside is not None and plain and not static:
            found[plain[0].arg] = Object(work.inside)
        return found

    def _expected(self, work: _Deferred, at: int) -> Value:
        """What a method's argument is by the rules of its base class."""
        if work.inside is None:
            return None
        base = work.inside.framework_base()
        if base == "torch.nn.Module" and work.node.name == "forward":
            return GUESSED_TENSOR
        if base == "torch.autograd.Function" and work.node.name in _OF_A_CONTEXT:
            without = work.node.name == "forward" and work.inside.defines("setup_context")
            if at == 0 and not without:
                return Instance("torch.autograd.Function")
            return GUESSED_TENSOR
        return None

    def annotated(self, node: ast.expr) -> Value:
        """What an annotation says that a name is: a tensor or object, also as an option."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError):
                return None
        if isinstance(node, ast.BinOp):
            return self.annotated(node.left) or self.annotated(node.right)
        if isinstance(node, ast.Subscript):
            inner = self.annotated(node.slice)
            return (
                inner if isinstance(node.value, ast.Name) and node.value.id in ("Optional", "List", "Tuple", "Sequence", "list") else None
            )
        if isinstance(node, ast.Name | ast.Attribute):
            value = self.value(node, quiet=True)
            if isinstance(value, Named):
                return TENSOR if value.name == "torch.Tensor" else Instance(value.name) if value.name[:1].isalpha() else None
            return Object(value) if isinstance(value, Class) else None
        return None
