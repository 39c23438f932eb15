"""What is noted of the places of a program's tree; indices that Paddle reads otherwise."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from paralign.catalogue.naming import canonical
from paralign.port.edits.call_edits import ROOTS, Writer
from paralign.port.edits.kept_tensors import Kept
from paralign.port.edits.ledger import Fate, Place
from paralign.port.names.expression_forms import is_told_twice
from paralign.port.names.observing import Observed, place
from paralign.port.names.values import Instance, Object, Use
from paralign.port.plans.conversions import conversions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paralign.catalogue.parameters import Table
    from paralign.port.sources.texts import Text as SourceText


#: characters of a source that the ledger keeps
_SHOWN = 120


class Placer(Writer):
    """Keep a ledger of places beside the edits.

    ``uses`` are the callables that expressions use.
    """

    #: the part that is being written as the target of an assignment
    _written_part: ast.expr | None = None

    def __init__(self, path: str, text: str, seen: Observed, paddle: Table, file: SourceText | None = None) -> None:
        aliases = conversions().aliases
        known = {at: canonical(name) for at, name in seen.named.items() if name.partition(".")[0] in ROOTS}
        named = {at: aliases.get(name, name) for at, name in known.items()}
        super().__init__(text, named, paddle)
        self.path, self.seen, self.file = path, seen, file
        self.uses: dict[tuple[int, int, int, int], list[Use]] = {}
        for use in seen.uses:
            if use.name.partition(".")[0] in ROOTS:
                own = replace(use, name=aliases.get(use.name, use.name))
                self.uses.setdefault((use.line, use.column, use.end_line, use.end_column), []).append(own)
        self.places: list[Place] = []
        self._annotation = 0
        self._kept: Kept | None = None
        self._put_back: ast.expr | None = None
        #: what is written as a name of its own, and not visited
        self._replaced: ast.expr | None = None
        self._parents: list[ast.AST] = []

    @property
    def kept(self) -> Kept:
        """What the file keeps under attributes and keys, found once."""
        if self._kept is None:
            self._kept = Kept(self._parents[0])
        return self._kept

    def note(self, node: ast.expr | ast.stmt, name: str, fate: Fate, text: str = "", entries: Sequence[str] = ()) -> None:
        """Note a place in the ledger."""
        before = " ".join(self.text.content[self.text.start(node) : self.text.end(node)].decode("utf-8", "replace").split())
        cell, line = self._place(node.lineno)
        self.places.append(Place(self.path, line, node.col_offset + 1, name, fate, before[:_SHOWN], text, tuple(entries), cell))

    def note_line(self, line: int, before: str, name: str, fate: Fate, text: str) -> None:
        """Note a line that is no Python."""
        cell, line = self._place(line)
        self.places.append(Place(self.path, line, 1, name, fate, before[:_SHOWN], text, (), cell))

    def _place(self, line: int) -> tuple[int, int]:
        return (0, line) if self.file is None else self.file.place(line)

    def by_hand(self, node: ast.expr | ast.stmt, name: str, reason: str) -> None:
        """Let a place raise; an annotation becomes a text."""
        if self._annotation and isinstance(node, ast.expr):
            self.note(node, name, Fate.REWRITTEN, "an annotation without a counterpart: its text alone")
            self.text.edit(self.text.start(node), self.text.end(node), ascii(self.text.source(node)))
            return
        self.note(node, name, Fate.BY_HAND, reason)
        said = ascii(f"{self.places[-1].where}: {name} is not converted: {reason}")
        self.text.edit(self.text.start(node), self.text.end(node), f"(_ for _ in ()).throw(NotImplementedError({said}))")

    def visit(self, node: ast.AST) -> None:
        """Visit a node; its parents are known."""
        self._parents.append(node)
        super().visit(node)
        self._parents.pop()

    def _parent(self) -> ast.AST:
        return self._parents[-2] if len(self._parents) > 1 else self._parents[-1]

    def visit_Delete(self, node: ast.Delete) -> None:  # noqa: N802 - as above
        """Write ``del layers[-1]`` by the layer's name, where it may be a Sequential."""
        for target in node.targets:
            plain = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant | ast.UnaryOp)
            if not plain or not isinstance(target, ast.Subscript) or not self.seen.imported or self.hidden("_key_of("):
                continue
            if not isinstance(target.value, ast.Name | ast.Attribute) or isinstance(getattr(target.slice, "value", 0), str):
                continue
            self.needs("_key_of(")
            self.text.edit(self.text.start(target.slice), self.text.start(target.slice), f"_key_of({self.text.source(target.value)}, ")
            self.text.edit(self.text.end(target.slice), self.text.end(target.slice), ")", closes=True)
            self.note(target, "torch.nn.Sequential.__delitem__", Fate.REWRITTEN, "Paddle's Sequential deletes by names")
        self.generic_visit(node)

    def set_in_sequential(self, node: ast.Assign) -> None:
        """Write ``layers[-1] = …`` by the layer's name, where it may be a Sequential.

        Paddle's takes the index as a name, and adds a layer where it has none of that name.
        """
        for target in node.targets:
            if not isinstance(target, ast.Subscript) or not self.seen.imported or self.hidden("_key_of("):
                continue
            plain = isinstance(target.slice, ast.Constant | ast.UnaryOp) and not isinstance(getattr(target.slice, "value", 0), str)
            if not plain or not is_told_twice(target.value) or self._is_tensor(target.value) or not self._may_be_layer(target, node.value):
                continue
            self.needs("_key_of(")
            start, end = self.text.start(target.slice), self.text.end(target.slice)
            self.text.edit(start, start, f"_key_of({self.text.source(target.value)}, ", target.slice)
            self.text.edit(end, end, ")", target.slice, closes=True)
            self.note(target, "torch.nn.Sequential.__setitem__", Fate.REWRITTEN, "Paddle's Sequential sets layers by names")

    def _may_be_layer(self, target: ast.Subscript, value: ast.expr) -> bool:
        """Whether what an item is given may be a layer, by what makes it and where it is put."""
        found = self.seen.values.get(place(value))
        if isinstance(found, Instance):
            return found.of.startswith("torch.nn.")
        names = self._names_of(value)
        if names:
            return all(name.startswith("torch.nn.") and not name.startswith(("torch.nn.functional.", "torch.nn.init.")) for name in names)
        held = isinstance(target.value, ast.Attribute | ast.Subscript)
        return isinstance(found, Object) or (held and isinstance(value, ast.Call | ast.Name))

    def visit_Subscript(self, node: ast.Subscript) -> None:  # noqa: N802 - as above
        """Let a tensor lie in order before an index behind its first axis.

        Paddle reads other elements of a view.
        """
        if isinstance(node.ctx, ast.Load) and node is not self._written_part and _indexed_behind(node.slice) and self.seen.imported:
            known = self._is_tensor(node.value)
            if known or (self.seen.values.get(place(node.value)) is None and not self._annotation):
                self._in_order(node, known=known)
        self.generic_visit(node)

    def _in_order(self, node: ast.Subscript, *, known: bool) -> None:
        start, end = self.text.start(node.value), self.text.outer(node.value, self.text.start(node))[1]
        plain = known and isinstance(node.value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        start = start if plain else self.text.outer(node.value, self.text.start(node))[0]
        self.text.edit(start, start, "" if plain else "_in_order(", node)
        self.text.edit(end, end, ".contiguous()" if plain else ")", node, closes=True)
        if not plain:
            self.needs("_in_order(")
        text = "Paddle reads other elements where a view is indexed behind its first axis"
        self.note(node, "torch.Tensor.__getitem__", Fate.REWRITTEN, text)

    def _is_tensor(self, node: ast.expr) -> bool:
        found = self.seen.values.get(place(node))
        return isinstance(found, Instance) and found.of == "torch.Tensor"

    def _names_of(self, call: ast.AST) -> list[str]:
        """The names of the callables that a call uses; none of anything else."""
        if not isinstance(call, ast.Call):
            return []
        return [use.name for use in self.uses.get(place(call), [])]


def _indexed_behind(index: ast.expr) -> bool:
    """Whether a possible tensor or list stands behind the first place of an index."""
    if not isinstance(index, ast.Tuple) or not _is_sliced(index):
        return False
    return any(not isinstance(each, ast.Slice | ast.Constant | ast.UnaryOp) for each in index.elts[1:])


def _is_sliced(index: ast.Tuple) -> bool:
    """Whether an index has slices, as one of a tensor has and a type's parameters have not."""
    for each in index.elts:
        if isinstance(each, ast.Slice):
            return True
        if isinstance(each, ast.Constant) and each.value is Ellipsis:
            return True
    return False
