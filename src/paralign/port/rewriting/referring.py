"""Names of PyTorch that are no calls.

Constants, classes that are handed on, and what stands in formatted strings.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import TYPE_CHECKING, TypeGuard

from paralign.catalogue.naming import paddle_name
from paralign.catalogue.parameters import stored
from paralign.port.edits.ledger import Fate
from paralign.port.names.literal_names import MODULES
from paralign.port.names.observing import Observed, place
from paralign.port.plans.adapters import adapter_of
from paralign.port.plans.conversions import conversions
from paralign.port.rewriting.settings import Settings

if TYPE_CHECKING:
    from paralign.catalogue.parameters import Table
    from paralign.port.plans.adapters import Adapter
    from paralign.port.sources.texts import Text as SourceText

#: what is said of PyTorch's version, which stands in the port as a text
_VERSION = "a release of PyTorch, without what a build adds (+cpu): the same where only releases are told apart"


class Referrer(Settings):
    """Rewrite references.

    ``adapters`` are the functions and classes that the file gets for those that are handed on.
    ``tables`` are those of names that are made at run time.
    """

    def __init__(self, path: str, text: str, seen: Observed, paddle: Table, file: SourceText | None = None) -> None:
        super().__init__(path, text, seen, paddle, file)
        self.adapters: dict[str, tuple[str, Adapter]] = {}
        self.tables: dict[str, str] = {}

    def adapter(self, name: str) -> tuple[str, Adapter] | None:
        """The adapter of a callable and its name in this file; None where there can be none.

        It is defined in the file from then on.
        """
        if name not in self.adapters:
            made = adapter_of(name, self.paddle)
            if made is None or self.hidden(made.made.template):
                return None
            own = "_" + name.rpartition(".")[2]
            while (
                own.encode() in self.text.content
                or own in conversions().helpers
                or any(own == other for other, _ in self.adapters.values())
            ):
                own += "_"
            self.adapters[name] = (own, made)
            self.needs(made.made.template)
        return self.adapters[name]

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:  # noqa: N802 - as above
        """Rewrite within a formatted string where its parts are where they are said to be.

        Before Python 3.12 they may not be.
        """
        inner = [name for each in ast.walk(node) if isinstance(each, ast.expr) and (name := self.named.get(place(each)))]
        inner += [use.name for each in ast.walk(node) if isinstance(each, ast.Call) for use in self.uses.get(place(each), [])]
        if not inner:
            return
        edits, places, helpers = len(self.text.edits), len(self.places), set(self.helpers)
        if self._is_where_it_says(node):
            before = self.text.source(node)
            self.generic_visit(node)
            if _marks(self.text.within(node)) == _marks(before):  # a mark more would end the string before Python 3.12
                return
            if self._within_marks(node, before, edits):
                return
            del self.text.edits[edits:], self.places[places:]
            self.helpers = helpers
        self.by_hand(node, inner[0], "within a formatted string: give it a name before")

    def _within_marks(self, node: ast.JoinedStr, before: str, edits: int) -> bool:
        """Write texts within a formatted string with the marks that it has not.

        False where that cannot be done.
        ``edits`` is how many there were before those within the string.
        """
        marks = {found["mark"] for found in _OPENING.finditer(before)}
        if len(marks) != 1 or _holds_another(node):
            return False
        (mark,) = marks
        written = {}
        for each in node.values:
            if not isinstance(each, ast.FormattedValue):
                continue
            if not _is_plain_form(each.format_spec):
                return False
            text = remarked(self.text.within(each.value), mark[0])
            if text is None:
                return False
            written[each.value] = text
        del self.text.edits[edits:]
        for value, text in written.items():
            if text != self.text.source(value):
                self.text.edit(self.text.start(value), self.text.end(value), text)
        return True

    def _is_where_it_says(self, node: ast.JoinedStr) -> bool:
        """Whether the text at the place of each value within a formatted string is that value."""
        for each in ast.walk(node):
            if not isinstance(each, ast.FormattedValue):
                continue
            try:
                there = ast.parse(self.text.source(each.value).strip(), mode="eval").body
            except (SyntaxError, ValueError):
                return False
            if ast.dump(there) != ast.dump(each.value):
                return False
        return True

    def _reference(self, node: ast.Name | ast.Attribute) -> bool:
        name = self.named.get(place(node))
        if name is None or not isinstance(node.ctx, ast.Load):
            return name is not None
        kind = bool(self._annotation) or self._is_kind() or self._is_asked_type()
        if kind and _is_of_the_file(name):
            if self._asked_by_name(node, name):
                return True
            self.by_hand(node, name, "its objects are of a class of this file, which Paddle's class does not know")
            return True
        port = self._port_of(name, kind=kind) or self._module_of(name)
        if port:
            self.renamed(node, port)
            version = name == "torch.__version__"
            self.note(node, name, Fate.CONDITION if version else Fate.EQUAL, _VERSION if version else "")
            return True
        adapter = None if self._annotation or self._is_compared(node) else self.adapter(name)
        if adapter is not None:
            self._adapted(node, name, adapter)
            return True
        reason = "handed on as a value: what it is called with is not shown"
        if self._is_kept(node) and name not in conversions().modules and not self.hidden("_not_converted("):
            self._put_off(node, name, reason)
        else:
            self.by_hand(node, name, reason)
        return True

    def _port_of(self, name: str, *, kind: bool) -> str:
        """What stands in Paddle for a name that is not called; '' where nothing does.

        ``kind``: the name is asked for as a class.
        """
        if name == "torch.__version__":
            return repr(stored("torch").version)
        table = conversions()
        constant = table.constants.get(name, "")
        if constant:
            return constant
        is_class = kind and name in stored("torch") and name.rpartition(".")[2][:1].isupper()
        if name not in table.values and not is_class:
            return ""
        return table.kinds.get(name) or paddle_name(name, self.paddle)

    def _module_of(self, name: str) -> str:
        """What a module's other name is given, whose uses are written out.

        ``F = torch.nn.functional``, where ``F.relu(x)`` is read as ``torch.nn.functional.relu(x)``; '' of another use.
        """
        statement = self._parent()
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(target, ast.Name) or name.rpartition(".")[2] not in MODULES:
            return ""
        used = [each for each in ast.walk(self._parents[0]) if isinstance(each, ast.Name) and each.id == target.id]
        return conversions().modules.get(name, "None") if len(used) == 1 else ""

    def _is_kept(self, node: ast.expr) -> bool:
        """Whether a callable is kept for later, in a dictionary or as a parameter's default.

        It need not raise before it is called.
        """
        parent = self._parent()
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return any(node is each for each in (*parent.args.defaults, *parent.args.kw_defaults))
        if isinstance(parent, ast.Dict):
            return any(node is each for each in parent.values)
        return isinstance(parent, ast.keyword) and getattr(getattr(self._parents[-3], "func", None), "id", "") == "dict"

    def _put_off(self, node: ast.expr, name: str, reason: str) -> None:
        """Let a callable raise where it is called."""
        self.needs("_not_converted(")
        self.note(node, name, Fate.BY_HAND, reason)
        said = ascii(f"{self.places[-1].where}: {name} is not converted: {reason}")
        self.text.edit(self.text.start(node), self.text.end(node), f"_not_converted({said})")

    def _is_kind(self) -> bool:
        """Whether a name is asked for as a class, as an argument of ``isinstance``.

        Alone or in a tuple.
        """
        last = self._beyond(ast.Tuple, ast.BinOp)
        return isinstance(last, ast.Call) and getattr(last.func, "id", "") in ("isinstance", "issubclass")

    def _asked_by_name(self, node: ast.expr, name: str) -> bool:
        """Write ``isinstance(x, nn.LSTM)`` of a class that stands in each file.

        What the files hold is not one class, and has one name. False where no class stands for it.
        """
        own = conversions().calls[name].template.partition("(")[0]
        last = self._beyond(ast.Tuple, ast.BinOp)
        asked = isinstance(last, ast.Call) and getattr(last.func, "id", "") == "isinstance"
        if not asked or not _is_class_alone(own, name) or self.hidden("_kind_named("):
            return False
        self.needs("_kind_named(")
        self.text.edit(self.text.start(node), self.text.end(node), f"_kind_named({own!r})")
        self.note(node, name, Fate.REWRITTEN, "objects of the class of this name that stands in a file of this program")
        return True

    def _beyond(self, *kinds: type[ast.AST]) -> ast.AST | None:
        """The innermost part of the tree around this place that is of none of some kinds."""
        for each in reversed(self._parents[:-1]):
            if not isinstance(each, kinds):
                return each
        return None

    def visit_Compare(self, node: ast.Compare) -> None:  # noqa: N802 - as above
        """Rewrite ``type(m) is nn.Linear``.

        A class that stands in the file for one of Paddle's is that one.
        """
        asked = [inner for each in node.comparators for inner in ast.walk(each) if isinstance(inner, ast.Name | ast.Attribute)]
        if _is_type(node.left) and any(place(each) in self.named for each in asked) and not self.hidden("_class_of("):
            self.needs("_class_of(")
            self.text.edit(self.text.start(node.left.func), self.text.end(node.left.func), "_class_of")
        self.generic_visit(node)

    def _is_asked_type(self) -> bool:
        """Whether a class is what ``type(m)`` is compared with, alone or among others."""
        last = self._beyond(ast.Tuple, ast.List, ast.Set)
        if not isinstance(last, ast.Compare):
            return False
        return _is_type(last.left) and "_class_of" in self.helpers

    def _is_compared(self, node: ast.expr) -> bool:
        """Whether a callable is told from others by itself.

        An adapter is not the class that objects are made of elsewhere.
        """
        last = self._beyond(ast.Tuple, ast.List, ast.Set)
        if isinstance(last, ast.Dict):
            return any(node is each for each in last.keys)
        return isinstance(last, ast.Compare)

    def _adapted(self, node: ast.expr, name: str, adapter: tuple[str, Adapter]) -> None:
        """Write an adapter's name in place of a callable's."""
        self.text.edit(self.text.start(node), self.text.end(node), adapter[0])
        conditions = adapter[1].conditions
        self.note(node, name, Fate.CONDITION if conditions else Fate.REWRITTEN, " ".join(conditions), adapter[1].made.entries)


#: what a formatted string begins with
_OPENING = re.compile(r"""(?<!\w)(?:[fF][rR]?|[rR][fF])(?P<mark>\"{3}|'{3}|\"|')""")


def _holds_another(node: ast.JoinedStr) -> bool:
    """Whether a formatted string stands within the values of another one."""
    values = [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
    return any(isinstance(each, ast.JoinedStr) for value in values for each in ast.walk(value))


def _is_plain_form(form: ast.expr | None) -> bool:
    """Whether how a value is formatted holds no other value."""
    return form is None or (isinstance(form, ast.JoinedStr) and all(isinstance(each, ast.Constant) for each in form.values))


def remarked(text: str, mark: str) -> str | None:
    """An expression whose texts are written without a quotation mark.

    None where they need it, or a backslash.

    >>> remarked("f('a', 1)", "'")
    'f("a", 1)'
    """
    other = "'" if mark == '"' else '"'
    parts: list[str] = []
    at = 0
    lines = [0]
    for line in text.split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    try:
        for token in tokenize.generate_tokens(io.StringIO(f"{text}").readline):
            if token.type != tokenize.STRING or mark not in token.string:
                continue
            value = ast.literal_eval(token.string)
            if not isinstance(value, str) or any(each in value for each in ("'", '"', "\\", "\n")) or not value.isprintable():
                return None
            start, end = (lines[row - 1] + column for row, column in (token.start, token.end))
            parts += [text[at:start], other, value, other]
            at = end
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    written = "".join([*parts, text[at:]])
    return None if mark in written or "\\" in written or "#" in written or "\n" in written else written


def _is_of_the_file(name: str) -> bool:
    """Whether calls of a class become calls of a helper that the file gets."""
    table = conversions()
    way = table.calls.get(name)
    if name in table.kinds:
        return False
    return way is not None and way.template.partition("(")[0] in table.helpers


def _is_class_alone(own: str, name: str) -> bool:
    """Whether a class that stands in the file is that of one class of PyTorch.

    Distributions are derived from one another in another way there.
    """
    table = conversions()
    meant = {each.rpartition(".")[2] for each, way in table.calls.items() if way.template.partition("(")[0] == own}
    return table.helpers[own].startswith(f"class {own}") and len(meant) == 1 and not name.startswith("torch.distributions.")


def _is_type(node: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression is ``type(…)``."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "type" and len(node.args) == 1


def _marks(text: str) -> tuple[int, int, int]:
    """How many quotation marks and backslashes a text has."""
    return text.count("'"), text.count('"'), text.count("\\")
