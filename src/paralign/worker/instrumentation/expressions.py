"""Source code rewritten so that every expression reports its value to a recorder.

Lines and meaning stay as they are.

``a + b`` becomes ``_paralign_pv.value(_paralign_f1, 17, a + b)``: the frame under way, and the number of the expression in a table of
sites. Names and constants are not wrapped: whoever takes them looks them up.
"""

from __future__ import annotations

import ast
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

#: what the rewritten code calls the recorder and the frames under way
RECORDER, FRAME = "_paralign_pv", "_paralign_f"

#: functions that look at the frame which calls them: their calls stay as they are
_LOOKING = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__", "breakpoint"})

#: methods that change what they are called on
CHANGING = frozenset({"append", "extend", "insert", "update", "add", "sort", "reverse", "set_value", "copy_", "fill", "setdefault"})

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Site(NamedTuple):
    """An expression of the source.

    Its line, its kind, what it is called, the sites that it is made of (role and number), the names that it may mean.
    """

    line: int
    kind: str
    label: str
    children: Tuple[Tuple[str, int], ...] = ()
    constant: Any = None
    keys: Tuple[str, ...] = ()
    #: the condition that decides whether it is evaluated
    under: int = -1


class FunctionSite(NamedTuple):
    """A function of the source.

    Its name, first line, parameters in order, those by keyword alone, and the names of ``*`` and ``**``.
    """

    name: str
    line: int
    parameters: Tuple[str, ...]
    keywords: Tuple[str, ...]
    starred: str
    mapped: str
    prefix: str = ""


#: what a statement stores to: ("name", key, frame depth), ("tuple", …), ("starred", target), ("other",)
Target = Tuple[Any, ...]


class Expressions:
    """Rewrites the expressions of one module.

    Args:
        first: the number of the first site.
        function: the number of the first function.

    Attributes:
        sites: those of the module, in order of their numbers.
        functions: the same.
        targets: number of a site whose value is stored -> where it goes.
    """

    def __init__(self, first: int = 0, function: int = 0) -> None:
        self.first, self.first_function = first, function
        self.sites: List[Site] = []
        self.functions: List[FunctionSite] = []
        self.targets: Dict[int, List[Target]] = {}
        self._depth = 0
        #: scopes inside the function under way, the innermost last: prefix and names; those of classes are seen directly inside only
        self._scopes: List[Tuple[str, Optional[set]]] = []  # type: ignore[type-arg]
        self._elsewhere: List[Dict[str, int]] = [{}]
        self._scope = 0
        #: the condition that decides whether what is rewritten now is evaluated
        self._under = -1

    # -- helpers -----------------------------------------------------------------------------------------------------------------

    def _site(self, node: ast.AST, kind: str, label: str = "", children: Sequence[Tuple[str, int]] = (), **more: Any) -> int:
        known = tuple(c for c in children if c[1] >= 0)
        self.sites.append(Site(getattr(node, "lineno", 0), kind, label, known, under=self._under, **more))
        return self.first + len(self.sites) - 1

    def _hook(self, node: ast.AST, name: str, *arguments: Any) -> ast.expr:
        """A call of the recorder's method ``name`` with the frame, and constants or expressions."""
        given: List[Any] = [a if isinstance(a, ast.AST) else ast.Constant(a) for a in arguments]
        call = ast.Call(
            ast.Attribute(ast.Name(RECORDER, ast.Load()), name, ast.Load()), [ast.Name(f"{FRAME}{self._depth}", ast.Load()), *given], []
        )
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _keys(self, name: str) -> Tuple[str, ...]:
        """What a name may be stored under, the innermost first."""
        inner = [prefix + name for prefix, names in reversed(self._scopes) if names is None or name in names]
        return (*inner, name)

    def _stored(self, name: str) -> Tuple[str, int]:
        """What a name is stored under, and the depth of the frame that keeps it."""
        if self._scopes and self._scopes[-1][1] is None:
            return self._scopes[-1][0] + name, self._depth
        return name, self._elsewhere[-1].get(name, self._depth)

    def _put_under(self, site: int, condition: int) -> None:
        """Note which condition decides whether an expression is evaluated."""
        self.sites[site - self.first] = self.sites[site - self.first]._replace(under=condition)

    def _condition(self, node: ast.expr, label: str) -> Tuple[ast.expr, int]:
        """The test of a statement or of a comprehension, which tells how it decides."""
        new, made = self.expression(node)
        site = self._site(node, "condition", label, [("value", made)])
        return self._hook(node, "decided", site, made, new), site

    # -- expressions: each gives the new node and its site, -1 where it has none ---------------------------------------------------

    def expression(self, node: Optional[ast.expr]) -> Tuple[Any, int]:
        """The rewritten expression and the number of its site."""
        if node is None:
            return None, -1
        constant = _constant(node)
        if constant is not None:
            return node, self._site(node, "constant", constant=constant[0])
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if isinstance(node, _COMPREHENSIONS):
            return self._comprehension(node)
        if method is not None:
            found: Tuple[Any, int] = method(node)
            return found
        return self._plain(node)

    def _plain(self, node: ast.expr) -> Tuple[ast.expr, int]:
        """Any other expression: made of all expressions in it."""
        children: List[Tuple[str, int]] = []
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                new, site = self.expression(value)
                setattr(node, name, new)
                children.append((name, site))
            elif isinstance(value, list) and value and all(isinstance(v, ast.expr) for v in value):
                pairs = [self.expression(v) for v in value]
                setattr(node, name, [p[0] for p in pairs])
                children += [(str(len(children) + n), p[1]) for n, p in enumerate(pairs)]
        site = self._site(node, "operation", _operator(node), children)
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.FormattedValue)):
            return node, site
        return self._hook(node, "value", site, node), site

    def _name(self, node: ast.Name) -> Tuple[ast.expr, int]:
        return node, self._site(node, "name", node.id, keys=self._keys(node.id))

    def _starred(self, node: ast.Starred) -> Tuple[ast.expr, int]:
        node.value, site = self.expression(node.value)
        return node, site

    def _namedexpr(self, node: Any) -> Tuple[ast.expr, int]:
        node.value, site = self.expression(node.value)
        key, depth = self._stored(node.target.id)
        new = self._site(node, "operation", "copy", [("value", site)])
        self.targets[new] = [("name", key, depth)]
        node.value = self._hook(node, "put", new, site, node.value)
        return node, site

    def _attribute(self, node: ast.Attribute) -> Tuple[ast.expr, int]:
        node.value, inner = self.expression(node.value)
        site = self._site(node, "attribute", node.attr, [("object", inner)])
        node.value = self._hook(node, "held", site, node.value)
        return self._hook(node, "attribute", site, node), site

    def _subscript(self, node: ast.Subscript) -> Tuple[ast.expr, int]:
        node.value, inner = self.expression(node.value)
        index = self._index(node)
        site = self._site(node, "item", "", [("object", inner), *index])
        node.value = self._hook(node, "held", site, node.value)
        self._capture_index(node, site)
        return self._hook(node, "item", site, node), site

    def _index(self, node: ast.Subscript) -> List[Tuple[str, int]]:
        """Rewrite what stands in brackets; its sites."""
        place: Any = node.slice
        if sys.version_info < (3, 9) and isinstance(place, ast.Index):
            place.value, site = self.expression(place.value)  # type: ignore[attr-defined]
            return [("index", site)]
        if sys.version_info < (3, 9) and isinstance(place, ast.ExtSlice):
            return [pair for part in place.dims for pair in self._slice(part)]  # type: ignore[attr-defined]
        if isinstance(place, ast.Slice):
            return self._slice(place)
        if isinstance(place, ast.Tuple) and any(isinstance(e, (ast.Slice, ast.Starred)) for e in place.elts):
            found = []
            for number, part in enumerate(place.elts):
                if isinstance(part, ast.Slice):
                    found += self._slice(part)
                else:
                    place.elts[number], site = self.expression(part)
                    found.append(("index", site))
            return found
        node.slice, site = self.expression(place)
        return [("index", site)]

    def _slice(self, part: Any) -> List[Tuple[str, int]]:
        found = []
        if isinstance(part, ast.Slice):
            for name in ("lower", "upper", "step"):
                new, site = self.expression(getattr(part, name))
                setattr(part, name, new)
                found.append((name, site))
        elif hasattr(part, "value"):
            part.value, site = self.expression(part.value)
            found.append(("index", site))
        return found

    def _capture_index(self, node: ast.Subscript, site: int) -> None:
        place: Any = node.slice
        if sys.version_info < (3, 9):
            if isinstance(place, ast.Index):
                place.value = self._hook(node, "index", site, place.value)  # type: ignore[attr-defined]
        elif not isinstance(place, ast.Slice) and not (
            isinstance(place, ast.Tuple) and any(isinstance(e, (ast.Slice, ast.Starred)) for e in place.elts)
        ):
            node.slice = self._hook(node, "index", site, place)

    def _call(self, node: ast.Call) -> Tuple[ast.expr, int]:
        if isinstance(node.func, ast.Name) and node.func.id in _LOOKING and not (node.func.id == "vars" and node.args):
            return node, self._site(node, "operation", node.func.id)
        children: List[Tuple[str, int]] = []
        if isinstance(node.func, ast.Attribute):
            node.func.value, inner = self.expression(node.func.value)
            children.append(("self", inner))
        else:
            node.func, inner = self.expression(node.func)
            children.append(("function", inner))
        site = self._site(node, "call", _dotted(node.func), children)
        for number, argument in enumerate(node.args):
            starred = isinstance(argument, ast.Starred)
            new, inner = self.expression(argument.value if isinstance(argument, ast.Starred) else argument)
            wrapped = self._hook(argument, "argument", site, "*" if starred else "", inner, new)
            node.args[number] = ast.copy_location(ast.Starred(wrapped, ast.Load()), argument) if starred else wrapped
        for keyword in node.keywords:
            new, inner = self.expression(keyword.value)
            keyword.value = self._hook(keyword.value, "argument", site, keyword.arg or "**", inner, new)
        node.func = self._hook(node, "begin", site, node.func)
        return self._hook(node, "end", site, node), site

    def _display(self, node: Any) -> Tuple[ast.expr, int]:
        children = []
        for number, element in enumerate(node.elts):
            new, site = self.expression(element)
            node.elts[number] = new
            children.append(("*" if isinstance(element, ast.Starred) else str(number), site))
        site = self._site(node, "display", type(node).__name__.lower(), children)
        return self._hook(node, "display", site, node), site

    _list = _tuple = _set = _display

    def _dict(self, node: ast.Dict) -> Tuple[ast.expr, int]:
        children = []
        for number, (key, value) in enumerate(zip(node.keys, node.values)):
            if key is not None:
                new, inner = self.expression(key)
                node.keys[number] = new
                children.append(("key", inner))
            node.values[number], inner = self.expression(value)
            children.append(("**" if key is None else str(number), inner))
        site = self._site(node, "display", "dict", children)
        return self._hook(node, "display", site, node), site

    def _ifexp(self, node: ast.IfExp) -> Tuple[ast.expr, int]:
        node.test, test = self.expression(node.test)
        node.body, body = self.expression(node.body)
        node.orelse, other = self.expression(node.orelse)
        site = self._site(node, "choice", "if", [("test", test), ("body", body), ("orelse", other)])
        node.test = self._hook(node, "tested", site, node.test)
        return self._hook(node, "choice", site, node), site

    def _lambda(self, node: ast.Lambda) -> Tuple[ast.expr, int]:
        self._defaults(node.args)
        self._scope += 1
        prefix = f"{self._scope}:"
        number, names = self._function(node, "<lambda>", prefix)
        self._scopes.append((prefix, set(names)))
        under, self._under = self._under, -1
        body, site = self.expression(node.body)
        self._under = under
        self._scopes.pop()
        entered = self._hook(node, "entered", number, loaded(names))
        node.body = self._hook(node.body, "returned", entered, site, body)
        return node, -1

    def _comprehension(self, node: Any) -> Tuple[ast.expr, int]:
        self._scope += 1
        prefix = f"{self._scope}:"
        names: set = set()  # type: ignore[type-arg]
        site = self._site(node, "comprehension", type(node).__name__.lower())
        under = self._under
        for number, loop in enumerate(node.generators):
            loop.iter, inner = self.expression(loop.iter)
            if number == 0:
                self._scopes.append((prefix, names))
            names |= {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
            target = self._site(loop.target, "iteration", "for", [("iterable", inner)])
            self.targets[target] = [pattern(loop.target, lambda name: (prefix + name, self._depth))]
            loop.iter = self._hook(loop.iter, "first" if number == 0 else "each", target, site, loop.iter)
            for place, test in enumerate(loop.ifs):
                loop.ifs[place], self._under = self._condition(test, "filter")
                self._put_under(site, self._under)
        if isinstance(node, ast.DictComp):
            node.key, _ = self.expression(node.key)
            node.value, inner = self.expression(node.value)
            node.value = self._hook(node.value, "element", site, inner, node.value)
        else:
            node.elt, inner = self.expression(node.elt)
            node.elt = self._hook(node.elt, "element", site, inner, node.elt)
        self._under = under
        self._scopes.pop()
        return self._hook(node, "collected", site, node), site

    def _yield(self, node: ast.Yield) -> Tuple[ast.expr, int]:
        if node.value is not None:
            new, site = self.expression(node.value)
            node.value = self._hook(node, "yielded", site, new)
        return node, -1

    def _joinedstr(self, node: ast.JoinedStr) -> Tuple[ast.expr, int]:
        children: List[Tuple[str, int]] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value, inner = self.expression(part.value)
                children.append((str(len(children)), inner))
        site = self._site(node, "operation", "format", children)
        return self._hook(node, "value", site, node), site

    def _defaults(self, given: ast.arguments) -> None:
        """Have defaults report themselves when the ``def`` runs.

        The function under way gets the next number.
        """
        positional = [*getattr(given, "posonlyargs", []), *given.args]
        number = self.first_function + len(self.functions) + _lambdas(given)
        for place, value in enumerate(given.defaults):
            name = positional[len(positional) - len(given.defaults) + place].arg
            new, site = self.expression(value)
            given.defaults[place] = self._hook(value, "default", number, name, site, new)
        for place, held in enumerate(given.kw_defaults):
            if held is not None:
                new, site = self.expression(held)
                given.kw_defaults[place] = self._hook(held, "default", number, given.kwonlyargs[place].arg, site, new)

    def _function(self, node: Any, name: str, prefix: str) -> Tuple[int, List[str]]:
        given = node.args
        positional = tuple(a.arg for a in (*getattr(given, "posonlyargs", []), *given.args))
        keywords = tuple(a.arg for a in given.kwonlyargs)
        starred, mapped = (held.arg if held is not None else "" for held in (given.vararg, given.kwarg))
        self.functions.append(FunctionSite(name, node.lineno, positional, keywords, starred, mapped, prefix))
        return self.first_function + len(self.functions) - 1, [n for n in (*positional, *keywords, starred, mapped) if n]


def _lambdas(given: ast.arguments) -> int:
    """How many lambdas stand in the defaults: they are numbered before the function itself."""
    return sum(isinstance(n, ast.Lambda) for value in (*given.defaults, *given.kw_defaults) if value is not None for n in ast.walk(value))


def pattern(target: Any, stored: Callable[[str], Tuple[str, int]]) -> Target:
    """Where a value goes."""
    if isinstance(target, ast.Name):
        return ("name", *stored(target.id))
    if isinstance(target, (ast.Tuple, ast.List)):
        return ("tuple", *(pattern(part, stored) for part in target.elts))
    if isinstance(target, ast.Starred):
        return ("starred", pattern(target.value, stored))
    return ("other",)


def loaded(names: List[str]) -> ast.expr:
    """A tuple of names, to be read."""
    return ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())


def _constant(node: ast.expr) -> Optional[Tuple[Any]]:
    """The value of a literal number or text, or of tuples of such; None for all else."""
    if isinstance(node, ast.Constant):
        if node.value is None or isinstance(node.value, (bool, int, float, complex, str)):
            return (node.value,)
        return None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _constant(node.operand)
        if inner is not None and isinstance(inner[0], (int, float, complex)):
            return (-inner[0],)
    return None


def _operator(node: ast.expr) -> str:
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp)):
        return type(node.op).__name__
    if isinstance(node, ast.Compare):
        return " ".join(type(op).__name__ for op in node.ops)
    return type(node).__name__


def _dotted(node: ast.expr) -> str:
    """The last two words of what is called."""
    if isinstance(node, ast.Attribute):
        before = node.value
        while isinstance(before, ast.Call) and before.args:  # our own hooks
            before = before.args[-1]
        return f"{before.id}.{node.attr}" if isinstance(before, ast.Name) else node.attr
    return node.id if isinstance(node, ast.Name) else ""
