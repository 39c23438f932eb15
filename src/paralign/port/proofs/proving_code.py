"""``convert code --prove``: what calls made again say of each function and class.

A function, and an object of a class that is no model, is called by itself with what the original's entry gave to it. A model is built
again with the arguments that its constructor was given, has the original's state, and all layers within are compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paralign.port.edits.ledger import Fate
from paralign.port.proofs.line_facts import Fact, LineFact, Ran, line_facts
from paralign.port.proofs.proof_entries import package_name
from paralign.port.proofs.proving import (
    TOLERANCE,
    Proven,
    Seen,
    call_apart,
    causes,
    definitions,
    dotted,
    layers_compared,
    notes,
    proof_of,
)
from paralign.worker.calls.result_figures import SMALL, Agreement, figures_agree
from paralign.worker.protocol import Again

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paralign.capture import Capture
    from paralign.port.edits.ledger import Ledger
    from paralign.port.proofs.line_facts import LineFact, Proof
    from paralign.port.proofs.proof_entries import EntryPoint
    from paralign.worker.protocol import AgainCall, Definition, EntryCall, EntryTold, MadeObject

#: said of a call that cannot be made as the entry made it
MORE = "it depends on more than its arguments: called by itself, the original gives something else than within the entry"


#: said of a call whose results are as small as rounding leaves of nothing
ROUNDED = f"called by itself, the original gives other numbers below {SMALL:.0e} than within the entry: rounding, or it depends on more"


@dataclass
class Evidence:
    """What is known of calls, as it comes in.

    Args:
        told: what the entry called.
        modules: module -> path of the source, as the ledger names it.
        own: calls of functions and objects by themselves, by ``module:name``.
        definitions: of the source.
        inner: calls of layers within models, by ``module:Class``.
        passed, built: path -> lines of calls that were made again, and of the building of models.
    """

    told: EntryTold
    modules: Mapping[str, str]
    definitions: list[Definition]
    own: dict[str, Seen] = field(default_factory=dict)
    inner: dict[str, Seen] = field(default_factory=dict)
    passed: dict[str, set[int]] = field(default_factory=dict)
    built: dict[str, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note the calls that cannot be made again."""
        for call in self.told.calls:
            if call.problem:
                self._note(call, f"its inputs cannot be recorded: {call.problem}", again=False)
        for key, why in self.told.hidden.items():
            self._seen(key if "." not in key.partition(":")[2] else key.rpartition(".")[0]).reason = why

    def take(self, reference: Capture, candidate: Capture, number: int = 0) -> None:
        """Take calls that both sides have made: of the model of a number, or of all else."""
        due = {(call.name, call.number): call for call in self.told.calls}
        theirs = {(call.name, call.number): call for call in Again.answer(candidate).calls}
        answer = Again.answer(reference)
        for call in answer.calls:
            key = call.name, call.number
            self._compare(due[key], call, theirs.get(key), reference, candidate)
        if not number:
            return
        for name, seen in layers_compared(reference, candidate, answer.layers, Again.answer(candidate).layers).items():
            known = self.inner.setdefault(name, Seen(compared=0))
            known.calls += seen.calls
            known.compared = (known.compared or 0) + (seen.compared or 0)
            known.error = max(known.error, seen.error)
            known.reason = known.reason or seen.reason
            known.wrong = known.wrong or seen.wrong
        for lines, into in ((answer.passed, self.passed), (answer.built, self.built)):
            for module, numbers in lines.items():
                into.setdefault(self.modules[module], set()).update(self._of_classes(module, numbers))

    def _of_classes(self, module: str, numbers: list[int]) -> list[int]:
        """Those lines that stand in classes: functions are judged by calls of their own."""
        around = [each for each in self.definitions if each.kind == "class" and each.module == module]
        return [line for line in numbers if any(each.first <= line <= each.last for each in around)]

    def fail(self, names: set[str], number: int, reason: str) -> None:
        """Note that calls could not be made again."""
        for call in self.told.calls:
            if not call.problem and call.name in names and (not number or call.object_ == number):
                self._note(call, reason)

    def models(self) -> list[MadeObject]:
        """The models whose calls are made again, outermost first; notes those that cannot be."""
        found = [each for each in self.told.objects if each.model and each.called]
        for each in found:
            if each.problem:
                seen = self._seen(each.class_)
                seen.closed = f"its inputs cannot be recorded: {each.problem}"
                if not all(_is_forward(call) for call in self.told.calls if call.object_ == each.number):
                    seen.reason = seen.reason or seen.closed
        return sorted((each for each in found if not each.problem), key=lambda one: (one.depth, one.number))

    def is_held(self, made: MadeObject) -> bool:
        """Whether a model was compared within another, was right, and was only called forward."""
        seen = self.inner.get(made.class_)
        forward = all(_is_forward(call) for call in self.told.calls if call.object_ == made.number)
        if not forward:
            return False
        return made.depth > 0 and seen is not None and not seen.reason

    def seen(self, key: str) -> Seen | None:
        """What is known of a definition: of its own calls, or else of those within models.

        A layer that was shown wrong within a model is not proven, however many calls of its own were right.
        """
        own, inner = self.own.get(key), self.inner.get(key)
        if own is not None and inner is not None and inner.wrong and not own.why:
            return replace(own, reason=inner.wrong, calls=max(own.calls, inner.calls), error=max(own.error, inner.error))
        if own is None or (not own.calls and not own.why):
            if inner is not None:
                return inner
            return None if own is None else Seen(reason=own.closed)
        return own

    def _compare(self, due: EntryCall, call: AgainCall, other: AgainCall | None, reference: Capture, candidate: Capture) -> None:
        found = Seen()
        if call.problem:
            reason = f"the original cannot be called by itself: {call.problem}"
        elif other is None or other.problem:
            reason = f"the port raises {other.problem}" if other is not None else "the port does not make the call"
        else:
            reason = call_apart(call, other, reference, candidate, found) or _within(due, call, found)
        if not reason and found.error > TOLERANCE:
            reason = f"the outputs are {found.error:.1e} apart"
        self._note(due, reason, error=found.error, unasked=found.unasked)
        module = due.name.partition(":")[0]
        self.passed.setdefault(self.modules[module], set()).update(call.lines)

    def _note(self, call: EntryCall, reason: str, *, error: float = 0.0, again: bool = True, unasked: int = 0) -> None:
        for key in self._keys(call):
            seen = self._seen(key)
            if not again and _is_forward(call) and call.object_ and self.told.objects[call.object_ - 1].model:
                seen.closed = seen.closed or reason  # layers of its class may be compared within another model
                continue
            seen.calls += int(again)
            seen.unasked += unasked
            seen.error = max(seen.error, error)
            what = call.name.partition(":")[2]
            seen.note(f"call {call.number} of {what}", reason)

    def _keys(self, call: EntryCall) -> set[str]:
        """The definitions that a call speaks of: a method's class, and that of its object."""
        module, _, name = call.name.partition(":")
        found = {f"{module}:{name.partition('.')[0]}"}
        if call.object_:
            found.add(self.told.objects[call.object_ - 1].class_)
        return found

    def _seen(self, key: str) -> Seen:
        return self.own.setdefault(key, Seen())


def _is_forward(call: EntryCall) -> bool:
    """Whether a call is of ``forward``: those alone are seen within another model."""
    return call.name.rpartition(".")[2] == "forward"


def _within(due: EntryCall, call: AgainCall, found: Seen) -> str:
    """Why a call by itself is not the entry's, '' where it is or nothing is known.

    Notes whether it could be asked.
    """
    if not due.gave or not call.gave:
        found.unasked = 1
        return ""
    return {Agreement.SAME: "", Agreement.SMALL: ROUNDED, Agreement.OTHER: MORE}[figures_agree(due.gave, call.gave)]


def judge(evidence: Evidence, ledger: Ledger, sources: Mapping[str, str], package: str, entry: str) -> Proven:
    """What is known of each class and function, and of each place of the ledger.

    Args:
        evidence: of all calls.
        ledger: of the conversion.
        sources: the original's text by path.
        package: the package that the paths begin in; '' where they begin at the root.
        entry: ``module:function`` where that is what was run; '' otherwise.
    """
    found: list[Proof] = []
    defined = [each for path, text in sources.items() if path.endswith(".py") for each in definitions(path, text)]
    for each in defined:
        key = f"{dotted(each.path, package)}:{each.name}"
        seen = evidence.seen(key)
        problem = "it is the entry, which is held against nothing" if key == entry else _unreached(key, evidence)
        if seen is None and key in evidence.told.reached and key != entry:
            seen = Seen(reason="no call of it could be compared")
        proof = replace(proof_of(each, ledger, seen, problem), repaired=notes(each, ledger, Fate.REPAIRED))
        if proof.fact is Fact.UNPROVEN:
            proof = replace(proof, causes=causes(each, ledger))
        found.append(proof)
    ran = Ran(*({path: frozenset(numbers) for path, numbers in each.items()} for each in (evidence.passed, evidence.built)))
    return Proven(found, line_facts(ledger, found, sources, ran))


def _unreached(key: str, evidence: Evidence) -> str:
    kind = "makes no call of" if any(each.class_ == key for each in evidence.told.objects) else "does not call"
    return f"the entry {kind} it"


def entry_proofs(proven: Proven, entry: EntryPoint, source: Path) -> tuple[list[Proof], list[LineFact]]:
    """The proofs and places that the exit code counts: all but those of the entry."""
    if entry.kind != "function":
        return proven.proofs, proven.lines
    module, _, name = entry.target.partition(":")
    package = package_name(source)
    own: list[Proof] = []
    proofs: list[Proof] = []
    for each in proven.proofs:
        is_entry = each.name == name and dotted(each.path, package) == module
        (own if is_entry else proofs).append(each)
    return proofs, [line for line in proven.lines if not _lies_in(line, own)]


def _lies_in(line: LineFact, proofs: list[Proof]) -> bool:
    """Whether a place lies in one of some definitions."""
    return any(each.path == line.path and each.line <= line.line <= each.end for each in proofs)


def code_of(proofs: list[Proof], lines: list[LineFact], *, left: bool) -> int:
    """The exit code: 0 all is proven, 1 something is not, 4 something was not reached."""
    facts = Counter(each.fact for each in proofs) + Counter(each.fact for each in lines)
    if left or facts[Fact.UNPROVEN] or facts[Fact.UNCONVERTED]:
        return 1
    return 4 if facts[Fact.UNREACHED] else 0


__all__ = ["Evidence", "code_of", "entry_proofs", "judge"]
