"""How a call is edited once it is known what it becomes.

Its name, its arguments, or the whole of it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import TYPE_CHECKING

from paralign.catalogue.source_fixes import simplified
from paralign.port.names.observing import place
from paralign.port.names.values import Form, Use
from paralign.port.plans.call_plan import RECEIVER, ByHand, Plan
from paralign.port.plans.conversions import conversions, needed
from paralign.port.sources.editing import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paralign.catalogue.parameters import Table

#: packages whose names are converted
ROOTS = ("torch", "torchvision", "torchaudio")

_ATOMIC = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript, ast.Tuple, ast.List, ast.Dict, ast.JoinedStr)

#: parts of expressions that may not be written twice: they do something, or cost something
_ONCE = (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_HOLE = re.compile(r"\{(\w+)\}")


class Writer(ast.NodeVisitor):
    """Note the edits of calls.

    ``named`` are the places of names of PyTorch, ``spelled_out`` says that ``import paddle`` is needed.
    """

    def __init__(self, text: str, named: dict[tuple[int, int, int, int], str], paddle: Table) -> None:
        self.text, self.named, self.paddle = Text(text), named, paddle
        self._words = frozenset(re.findall(rb"(?<![\w.])\w+", self.text.content))
        self.spelled_out = False
        self.helpers: set[str] = set()

    def needs(self, template: str) -> None:
        """Note what a template uses: ``import paddle``, and functions that stand beside it."""
        if "paddle." in template:
            self.spelled_out = True
        for name in needed(template):
            self.helpers.add(name)
            self.spelled_out = True

    def renamed(self, node: ast.expr, port: str) -> None:
        """Write a name of Paddle in place of one of PyTorch."""
        self.text.edit(self.text.start(node), self.text.end(node), self._spelling(node, port))

    def _spelling(self, node: ast.expr, port: str) -> str:
        """A name of Paddle, by the user's own name of a module where there is one."""
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        module = self.named.get(place(root)) if isinstance(root, ast.Name) and root is not node else None
        ours = conversions().modules.get(module or "", "")
        if isinstance(root, ast.Name) and ours and port.startswith(ours + ".") and root.id not in ROOTS:
            return root.id + port[len(ours) :]
        self.spelled_out = True
        return port

    def edited(self, node: ast.Call, use: Use, made: Plan) -> None:
        """Edit a call's name and arguments where they stand."""
        text, func = self.text, node.func
        opening = text.content.find(b"(", text.end(func))
        if text.content[text.end(func) : opening].strip():
            raise ByHand("written in brackets")
        if self.hidden(made.port):
            raise ByHand(self.hidden(made.port))
        self.needs(made.port)
        kept, removed = self._split(node, made)
        added = [self._added(name, template, made) for name, template in made.added.items()]
        if added and any(isinstance(each, ast.GeneratorExp) for each in node.args):
            raise ByHand("its argument is a generator")
        self._callee(node, use, made, opening, alone=not kept and not added)
        for start, end in removed:
            text.edit(start, end, "", node)
        if added:
            at = max((text.outer(each, opening + 1)[1] for each in kept), default=opening + 1)
            text.edit(at, at, lambda: (", " if kept else "") + ", ".join(each() for each in added), node, closes=bool(kept))
        if isinstance(func, ast.Attribute) and place(func) not in self.named:
            self.visit(func.value)
        for each in kept:
            self.visit(each.value if isinstance(each, ast.keyword) else each)
        for each in self._left_out_of(node, made):
            self.visit(each)

    def _left_out_of(self, node: ast.Call, made: Plan) -> list[ast.expr]:
        """Arguments that go, and stand within one that is written."""
        holes = {name for template in made.added.values() for name in _HOLE.findall(template)}
        own = {id(each) for each in (*node.args, *(keyword.value for keyword in node.keywords))}
        given = [made.bound.given[name] for name in sorted(holes & made.removed) if name in made.bound.given]
        return [each for each in given if id(each) in own]

    def _callee(self, node: ast.Call, use: Use, made: Plan, opening: int, *, alone: bool) -> None:
        """Write what is called: a function in place of a method, or a new name."""
        text, func = self.text, node.func
        if made.function and isinstance(func, ast.Attribute):
            self.spelled_out = True
            text.edit(text.start(node), text.start(node), f"{made.port}(", node)
            text.edit(text.outer(func.value, text.start(node))[1], opening + 1, "" if alone else ", ", node)
        elif use.form is Form.METHOD and isinstance(func, ast.Attribute):
            last = made.port.rpartition(".")[2]
            if last != func.attr:
                text.edit(text.end(func) - len(func.attr.encode()), text.end(func), last, node)
        elif use.form is not Form.SUBCLASS:
            self.renamed(func, made.port)

    def _split(self, node: ast.Call, made: Plan) -> tuple[list[ast.expr | ast.keyword], list[tuple[int, int]]]:
        """The arguments that stay, named as Paddle names them, and the ranges of those that go."""
        text = self.text
        everything: list[ast.expr | ast.keyword] = sorted([*node.args, *node.keywords], key=text.start)
        names = {id(value): name for name, value in made.bound.given.items()}
        going = [names.get(id(_value_of(each)), "") in made.removed for each in everything]
        named = False
        for each, gone in zip(everything, going, strict=True):
            if isinstance(each, ast.keyword):
                if not gone:
                    self._rename(node, each, made, names.get(id(each.value), each.arg or ""))
                continue
            name = names.get(id(each), "")
            named = named or gone or bool(made.keywords.get(name))
            if named and not gone:
                if not name or isinstance(each, ast.Starred):
                    raise ByHand("its arguments are not shown one by one")
                text.edit(text.start(each), text.start(each), f"{made.keywords.get(name) or self._place_name(name, made)}=", node)
        opening = text.content.find(b"(", text.end(node.func))
        ranges = self._ranges([text.outer(each, opening + 1) for each in everything], going)
        return [each for each, gone in zip(everything, going, strict=True) if not gone], ranges

    def _rename(self, node: ast.Call, keyword: ast.keyword, made: Plan, name: str) -> None:
        """Write a keyword of a call as Paddle calls it."""
        given = keyword.arg
        new = made.keywords.get(name) or name
        if given and new != given:
            self.text.edit(self.text.start(keyword), self.text.start(keyword) + len(given.encode()), new, node)

    def _place_name(self, name: str, made: Plan) -> str:
        ours = self.paddle.signature(made.port)
        if name in ours.names or name in ours.accepts:
            return name
        raise ByHand(f"the argument {name} stands at another place")

    def _ranges(self, everything: Sequence[tuple[int, int]], going: Sequence[bool]) -> list[tuple[int, int]]:
        text, found = self.text, []
        at = 0
        while at < len(everything):
            if not going[at]:
                at += 1
                continue
            last = at
            while last + 1 < len(everything) and going[last + 1]:
                last += 1
            if last + 1 < len(everything):
                found.append((everything[at][0], everything[last + 1][0]))
            elif at:
                found.append((everything[at - 1][1], everything[last][1]))
            else:
                tail = re.match(rb"\s*,", text.content[everything[last][1] :])
                found.append((everything[at][0], everything[last][1] + (tail.end() if tail else 0)))
            at = last + 1
        return found

    def templated(self, node: ast.Call, made: Plan) -> None:
        """Replace a call by its template."""
        receiver = node.func.value if isinstance(node.func, ast.Attribute) and place(node.func) not in self.named else None
        holes = _HOLE.findall(made.template)
        parts = [made.bound.given[hole] for hole in dict.fromkeys(holes) if made.bound.given.get(hole, RECEIVER) is not RECEIVER]
        parts += [receiver] if receiver is not None else []
        everything = [*node.args] if "{*}" in made.template else []
        parts += everything
        for hole in holes:
            if hole != "self" and made.bound.text(hole) is None:
                raise ByHand(f"its argument {hole} is not shown")
        for hole in (hole for hole, count in Counter(holes).items() if count > 1):
            given = made.bound.given.get(hole)
            written = receiver if hole == "self" or given is RECEIVER else given
            if written is not None and any(isinstance(inner, _ONCE) for inner in ast.walk(written)):
                raise ByHand("an argument that is used twice is no plain expression")
        for each in parts:
            if hasattr(each, "lineno"):
                self.visit(each)
        if self.hidden(made.template):
            raise ByHand(self.hidden(made.template))
        self.needs(made.template)
        plain = _HOLE.sub("x", made.template.replace("{*}", "x"))
        compound = isinstance(ast.parse(plain, mode="eval").body, ast.BinOp | ast.Compare)
        self.text.edit(self.text.start(node), self.text.end(node), lambda: self._filling(made, receiver, everything, compound=compound))

    def hidden(self, template: str) -> str:
        """Why a template's functions cannot stand in the file, '' where they can.

        They would hide the program's own of the same names.
        """
        for name in sorted(needed(template)):
            if name.encode() in self._words:
                return f"the file has a {name} of its own, as the converted call needs one"
        return ""

    def _filling(self, made: Plan, receiver: ast.expr | None, everything: Sequence[ast.expr], *, compound: bool) -> str:

        def argument(found: re.Match[str]) -> str:
            return self._argument(found.group(1), made, receiver, dotted=made.template[found.end() : found.end() + 1] == ".")

        written = _HOLE.sub(argument, made.template)
        written = written.replace("{*}", ", ".join(self.text.within(each) for each in everything))
        return f"({written})" if compound else simplified(written)

    def _argument(self, name: str, made: Plan, receiver: ast.expr | None, *, dotted: bool) -> str:
        node = made.bound.given.get(name)
        if name == "self" or node is RECEIVER:
            node = receiver
        if node is None or not hasattr(node, "lineno"):
            return made.bound.text(name) or "None"
        written = self.text.within(node)
        if isinstance(node, _ATOMIC) and not _bare(node, written, dotted=dotted):
            return written
        return f"({written})"

    def _added(self, argument: str, template: str, made: Plan) -> Callable[[], str]:
        """A further argument, with the call's own in place of their names.

        They are written as they are once all edits are known.

        Raises:
            ByHand: an argument of the call cannot stand twice.
        """
        used = [made.bound.given[name] for name in _HOLE.findall(template) if name in made.bound.given]
        if any(isinstance(inner, _ONCE) for each in used for inner in ast.walk(each)):
            raise ByHand("an argument that is used twice is no plain expression")
        for each in used:
            if any(place(inner) in self.named for inner in ast.walk(each) if isinstance(inner, ast.expr)):
                raise ByHand("an argument that is used twice is PyTorch's")
        for name in _HOLE.findall(template):
            if made.bound.text(name) is None:
                raise ByHand(f"its argument {name} is not shown")
        if "paddle." in template:
            self.spelled_out = True
        return lambda: f"{argument}={simplified(_HOLE.sub(lambda found: self._hole_text(found.group(1), made), template))}"

    def _hole_text(self, name: str, made: Plan) -> str:
        node = made.bound.given.get(name)
        text = made.bound.text(name) or "None"
        if isinstance(node, ast.expr) and hasattr(node, "lineno") and self.text.within(node) != self.text.source(node):
            text = self.text.within(node)
        if node is None or isinstance(node, _ATOMIC):
            return text
        return f"({text})"


def _bare(node: ast.expr, written: str, *, dotted: bool) -> bool:
    """Whether a tuple is written without its brackets, or a number would swallow a dot."""
    number = dotted and isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    if isinstance(node, ast.Tuple) and not written.startswith("("):
        return True
    return number or "\n" in written


def _value_of(given: ast.expr | ast.keyword) -> ast.expr:
    """What a call is given, by place or by name."""
    return given.value if isinstance(given, ast.keyword) else given
