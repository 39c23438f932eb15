"""Statements rewritten so that what they store, loop over, define and return is reported."""

from __future__ import annotations

import ast
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from paralign.worker.instrumentation.expressions import CHANGING, FRAME, Expressions, Function, loaded, pattern

#: what ends a function or a round of a loop, and what has rounds and scopes of its own
_ENDS_FUNCTION, _ENDS_ROUND = (ast.Return, ast.Raise), (ast.Break, ast.Continue)
_OWN_SCOPES = (*Function, ast.ClassDef, ast.Lambda)
_OWN_LOOPS = (*_OWN_SCOPES, ast.For, ast.AsyncFor, ast.While)

#: methods that take something out of what they are called on
_TAKING_OUT = frozenset({"pop", "remove", "clear"})


class Rewriter(Expressions):
    """Rewrites one module."""

    def __init__(self, first: int = 0, function: int = 0) -> None:
        super().__init__(first, function)
        #: the condition of the ``if`` that was rewritten last; those of the loop under way that can end it
        self._decided_by = -1
        self._breaking: List[int] = []
        #: first site of a function's body, and the first one behind it
        self._bodies: List[Tuple[int, int]] = []

    # -- statements --------------------------------------------------------------------------------------------------------------

    def _statements(self, body: List[ast.stmt]) -> List[ast.stmt]:
        found: List[ast.stmt] = []
        under = self._under
        for statement in body:
            leaves = isinstance(statement, ast.If) and _can_leave(statement)
            new = self.visit(statement)
            found += new if isinstance(new, list) else [new]
            if leaves:  # what follows is reached only if the condition lets it
                self._under = self._decided_by
        self._under = under
        return found

    def visit(self, node: ast.AST) -> Any:
        """Rewrite a statement, or a part of one that is no expression.

        Several statements may take its place.
        """
        method = getattr(self, "on_" + type(node).__name__.lower(), None)
        return self._any(node) if method is None else method(node)

    def _any(self, node: ast.AST) -> Any:
        """Any other statement: rewrite its expressions and blocks."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.expression(value)[0])
            elif isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, self._statements(value))
            elif isinstance(value, list):
                setattr(node, name, [self._part(v) for v in value])
        return node

    def _part(self, value: Any) -> Any:
        if isinstance(value, ast.expr):
            return self.expression(value)[0]
        return self.visit(value) if isinstance(value, ast.AST) else value

    def on_module(self, node: ast.Module) -> Any:
        """A module."""
        node.body = self._statements(node.body)
        return node

    def on_expr(self, node: ast.Expr) -> Any:
        """A statement of one expression; a text in it is left, for it may document."""
        if not isinstance(node.value, ast.Constant):
            node.value = self.expression(node.value)[0]
        return node

    def on_delete(self, node: ast.Delete) -> Any:
        """Nothing is looked at."""
        return node

    on_global = on_import = on_pass = on_break = on_continue = on_delete
    on_match = on_typealias = on_delete

    def on_nonlocal(self, node: ast.Nonlocal) -> Any:
        """Nothing is looked at: what these names are is known from the whole function."""
        return node

    def on_importfrom(self, node: ast.ImportFrom) -> Any:
        """Names of another module keep what they were made of."""
        if node.module == "__future__" or any(a.name == "*" for a in node.names) or (self._scopes and self._scopes[-1][1] is None):
            return node
        names = [(a.name, a.asname or a.name) for a in node.names]
        hook = self._hook(node, "imported", node.module or "", node.level, ast.Name("__name__", ast.Load()), tuple(names))
        return [node, ast.copy_location(ast.Expr(hook), node)]

    def on_return(self, node: ast.Return) -> Any:
        """What a function returns."""
        if node.value is not None:
            value, site = self.expression(node.value)
            node.value = self._hook(node, "returned", None, site, value)
        return node

    def on_assign(self, node: ast.Assign) -> Any:
        """``targets = value``."""
        return self._assigned(node, node.targets)

    def on_annassign(self, node: ast.AnnAssign) -> Any:
        """``target: type = value``."""
        return self._assigned(node, [node.target]) if node.value is not None else node

    def _assigned(self, node: Any, targets: List[Any]) -> Any:
        value, site = self.expression(node.value)
        store = self._site(node, "store", "=", [("value", site)])
        after: List[ast.stmt] = []
        self.targets[store] = [pattern(target, self._stored) for target in targets]
        node.value = self._hook(node.value, "put", store, site, value)
        for target in targets:
            self._target(node, target, store, after)
        return [node, *after]

    def _target(self, node: ast.AST, target: Any, store: int, after: List[ast.stmt]) -> None:
        """Rewrite what stands left of ``=``.

        An attribute's object and an entry's container are then known.
        """
        if isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._target(node, part.value if isinstance(part, ast.Starred) else part, store, after)
        elif isinstance(target, ast.Attribute):
            target.value, inner = self.expression(target.value)
            site = self._site(target, "attribute", target.attr, [("object", inner)])
            target.value = self._hook(target, "held", site, target.value)
            after.append(_statement(node, self._hook(node, "kept", site, store)))
        elif isinstance(target, ast.Subscript):
            target.value, inner = self.expression(target.value)
            site = self._site(target, "item", "", [("object", inner), *self._index(target)])
            target.value = self._hook(target, "held", site, target.value)
            self._capture_index(target, site)
            after.append(_statement(node, self._hook(node, "entered_item", site, store)))

    def on_augassign(self, node: ast.AugAssign) -> Any:
        """``target += value``."""
        value, inner = self.expression(node.value)
        node.value = value
        label = type(node.op).__name__
        if isinstance(node.target, ast.Name):
            key, depth = self._stored(node.target.id)
            old = self._site(node, "name", node.target.id, keys=self._keys(node.target.id))
            site = self._site(node, "operation", label, [("left", old), ("right", inner)])
            self.targets[site] = [("name", key, depth)]
            return [node, _statement(node, self._hook(node, "changed", site, ast.Name(node.target.id, ast.Load())))]
        after: List[ast.stmt] = []
        target: Any = node.target
        target.value, base = self.expression(target.value)
        kind = "attribute" if isinstance(target, ast.Attribute) else "item"
        index = self._index(target) if kind == "item" else []
        site = self._site(node, kind, getattr(target, "attr", ""), [("object", base), *index, ("right", inner)], constant=label)
        target.value = self._hook(target, "held", site, target.value)
        if kind == "item":
            self._capture_index(target, site)
        after.append(_statement(node, self._hook(node, "changed_inside", site)))
        return [node, *after]

    def on_for(self, node: Any) -> Any:
        """A loop."""
        node.iter, inner = self.expression(node.iter)
        site = self._site(node, "iteration", "for", [("iterable", inner)])
        self.targets[site] = [pattern(node.target, self._stored)]
        node.iter = self._hook(node.iter, "each", site, -1, node.iter)
        node.body, node.orelse = self._loop_body(node.body), self._statements(node.orelse)
        return node

    def on_if(self, node: ast.If) -> Any:
        """A condition: what either branch may change depends on it."""
        changed = [self._stored(name) for name in _changed_names([*node.body, *node.orelse])]
        node.test, site = self._condition(node.test, "if")
        under, self._under = self._under, site
        node.body, node.orelse = self._statements(node.body), self._statements(node.orelse)
        self._under, self._decided_by = under, site
        if _has(node.body + node.orelse, (ast.Break,), _OWN_LOOPS):
            self._breaking.append(site)
        return [node, _statement(node, self._hook(node, "joined", site, tuple(changed)))] if changed else node

    def on_while(self, node: ast.While) -> Any:
        """A loop that goes on while a condition holds."""
        node.test, site = self._condition(node.test, "while")
        under, self._under = self._under, site
        node.body = self._loop_body(node.body)
        self._under = under
        node.orelse = self._statements(node.orelse)
        return node

    def _loop_body(self, body: List[ast.stmt]) -> List[ast.stmt]:
        """The statements of a loop.

        A condition that ends it decides on what is done in the next round.
        """
        first, outer, functions = len(self.sites), self._under, len(self._bodies)
        before, self._breaking = self._breaking, []
        found = self._statements(body)
        ending = next((site for site in reversed(self._breaking) if self.sites[site - self.first].under == outer), None)
        self._breaking = before
        if ending is None:
            return found
        apart = {place for start, end in self._bodies[functions:] for place in range(start, end)}
        for place in range(first, len(self.sites)):
            if place not in apart and self.sites[place].under == outer and self.first + place != ending:
                self._put_under(self.first + place, ending)
        return found

    def _lambda(self, node: ast.Lambda) -> Tuple[ast.expr, int]:
        first = len(self.sites)
        found = super()._lambda(node)
        self._bodies.append((first, len(self.sites)))
        return found

    def on_asyncfor(self, node: Any) -> Any:
        """Only what is in it."""
        node.body, node.orelse = self._statements(node.body), self._statements(node.orelse)
        return node

    def on_withitem(self, node: Any) -> Any:
        """What is entered goes under the name that follows."""
        node.context_expr, inner = self.expression(node.context_expr)
        if isinstance(node.optional_vars, ast.Name):
            site = self._site(node.context_expr, "operation", "with", [("value", inner)])
            self.targets[site] = [pattern(node.optional_vars, self._stored)]
            node.context_expr = self._hook(node.context_expr, "put", site, inner, node.context_expr)
        return node

    def on_excepthandler(self, node: Any) -> Any:
        """Only what is in it."""
        node.body = self._statements(node.body)
        return node

    def on_classdef(self, node: ast.ClassDef) -> Any:
        """Rewrite a class, whose attributes are known under its own prefix.

        They go to the class when it is there.
        """
        node.bases = [self.expression(base)[0] for base in node.bases]
        node.decorator_list = [self.expression(each)[0] for each in node.decorator_list]
        self._scope += 1
        prefix = f"{self._scope}:"
        self._scopes.append((prefix, None))
        node.body = self._statements(node.body)
        self._scopes.pop()
        return [node, _statement(node, self._hook(node, "classed", prefix, ast.Name(node.name, ast.Load())))]

    def on_functiondef(self, node: Any) -> Any:
        """A function: its parameters are bound on entry."""
        node.decorator_list = [self.expression(each)[0] for each in node.decorator_list]
        self._defaults(node.args)
        number, names = self._function(node, node.name, "")
        kept, self._scopes = self._scopes, []
        outer = self._depth
        self._depth += 1
        under, self._under = self._under, -1
        self._elsewhere.append(_elsewhere(node, outer))
        document = [node.body[0]] if ast.get_docstring(node, clean=False) is not None else []
        first_inside = len(self.sites)
        body = self._statements(node.body[len(document) :])
        self._bodies.append((first_inside, len(self.sites)))
        self._elsewhere.pop()
        self._under = under
        self._depth -= 1
        self._scopes = kept
        first = ast.copy_location(
            ast.Assign([ast.Name(f"{FRAME}{outer + 1}", ast.Store())], self._hook(node, "enter", number, loaded(names))), node
        )
        node.body = [*document, ast.fix_missing_locations(first), *body]
        return node

    on_asyncfunctiondef = on_functiondef


def _within(body: Sequence[ast.AST], apart: Tuple[Any, ...]) -> Iterator[ast.AST]:
    """All that statements consist of, but for what stands in parts of some kinds."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [each for each in ast.iter_child_nodes(node) if not isinstance(each, apart)]


def _has(body: Sequence[ast.AST], kinds: Tuple[Any, ...], apart: Tuple[Any, ...]) -> bool:
    """Whether statements have one of some kinds, outside of parts of others."""
    return any(isinstance(node, kinds) for node in _within([each for each in body if not isinstance(each, apart)], apart))


def _can_leave(statement: ast.stmt) -> bool:
    """Whether a statement can end the function or the round of a loop under way."""
    return _has([statement], _ENDS_FUNCTION, _OWN_SCOPES) or _has([statement], _ENDS_ROUND, _OWN_LOOPS)


def _changed_names(body: Sequence[ast.stmt]) -> List[str]:
    """The names that statements store to, or whose lists and dicts they change."""
    found: Dict[str, None] = {}
    for node in _within([each for each in body if not isinstance(each, _OWN_SCOPES)], _OWN_SCOPES):
        changed = _changed(node)
        if isinstance(changed, ast.Name):
            found[changed.id] = None
    return list(found)


def _changed(node: ast.AST) -> Any:
    """What an expression stores to or changes; None where it does neither."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING | _TAKING_OUT:
        return node.func.value
    return None


def _elsewhere(node: Any, outer: int) -> Dict[str, int]:
    """Names that a function declares ``global`` or ``nonlocal`` -> the depth of the frame."""
    found: Dict[str, int] = {}
    for each in ast.walk(node):
        if isinstance(each, (ast.Global, ast.Nonlocal)):
            found.update({name: 0 if isinstance(each, ast.Global) else outer for name in each.names})
    return found


def _statement(node: ast.AST, value: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(value), node)


def rewrite(source: str, path: str, first: int, function: int) -> Tuple[Any, Rewriter]:
    """The code of a module whose expressions report themselves, and what is known of it.

    Raises:
        SyntaxError: source that this Python does not read.
        RecursionError: expressions that are nested too deep.
    """
    rewriter = Rewriter(first, function)
    tree = ast.fix_missing_locations(rewriter.visit(ast.parse(source, path)))
    return compile(tree, path, "exec", dont_inherit=True), rewriter
