"""Facts of both data sets and settings of both loaders side by side.

Some are only said, others break alignment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paralign.model import ALIGNED, DIVERGED, Finding, Pair, Record, StageResult
from paralign.worker.protocol import Data, DataSeen

if TYPE_CHECKING:
    from paralign.capture import Capture

#: samplers of the frameworks whose name tells what they do
TELLING = frozenset({"", "sequential", "random", "random with replacement", "random subset", "weighted", "distributed"})

#: settings that decide which samples a batch holds; the others are about speed and memory
DECIDING = ("batch_size", "drop_last", "shuffle", "sampler")

#: settings that no framework compares with another's: a collate function is named as its author liked
PRIVATE = ("collate_fn",)

#: values of one fact that a line lists
SHOWN = 6

Counts = dict[str, int]


@dataclass(frozen=True)
class Fact:
    """One thing that is known of both data sets, in words.

    ``judged``: a difference of it breaks alignment. ``told``: it is a cause by itself.
    ``fix``: what to do, in place of what is said of its kind.
    """

    key: str
    reference: str
    candidate: str
    judged: bool = True
    why: str = ""
    told: bool = True
    fix: str = ""

    @property
    def agree(self) -> bool:
        """Whether both sides say the same."""
        return self.reference == self.candidate


def dataset(result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Compare class counts, names, shapes and element types of every leaf.

    As far as both sides have read all samples.
    """
    answers = [Data.answer(c) for c in (reference, candidate)]
    first, second = (answer.facts for answer in answers)
    if first is None or second is None:
        return
    whole = all(_is_whole(answer) for answer in answers)
    facts = []
    for leaf in first:
        if leaf in second:
            facts += _of_leaf(leaf, first[leaf], second[leaf], whole=whole)
    if len(first) != len(second):
        missing = [(leaf, 0) for leaf in first if leaf not in second] + [(leaf, 1) for leaf in second if leaf not in first]
        facts += [Fact(f"facts.{leaf or 'sample'}.parts", *_there(side), judged=False) for leaf, side in missing]
    one, other = (answer.classes for answer in answers)
    if one and other:
        why = "the same classes in another order" if sorted(one) == sorted(other) else ""
        facts.append(Fact("facts.class_names", ", ".join(one), ", ".join(other), why=why))
    counts = [answer.whole.total for answer in answers if answer.whole is not None]
    if whole and counts[0] == counts[1]:
        facts = [_as_many(result, fact) for fact in facts]
    _append(result, facts)
    said = _summary(first, answers[0])
    if said:
        result.notes.append(said)


def _as_many(result: StageResult, fact: Fact) -> Fact:
    """A fact of data sets with as many samples each.

    That classes differ does not come from files that only one side reads. Where samples of the same numbers differ in something else,
    it may follow from that, and nothing is said beyond that it differs.
    """
    if not fact.key.endswith(".classes") or fact.why:
        return fact
    leaf = fact.key.removeprefix("facts.").rpartition(".")[0]
    named = [pair.key.rpartition("sample_")[2] for pair in result.pairs if pair.verdict == DIVERGED and "sample_" in pair.key]
    wrong = {name.partition(".")[2] for name in named}
    return replace(fact, told=not wrong - {leaf}, fix=MADE)


def _is_whole(answer: DataSeen) -> bool:
    if answer.whole is None or answer.whole.total is None:
        return False
    return answer.whole.count == answer.whole.total


def _there(number: int) -> tuple[str, str]:
    return ("there", "not there") if number == 0 else ("not there", "there")


def _of_leaf(leaf: str, one: dict[str, Counts], other: dict[str, Counts], *, whole: bool) -> list[Fact]:
    name = f"facts.{leaf or 'sample'}"
    facts = [Fact(f"{name}.dtype", _listed(one["dtypes"]), _listed(other["dtypes"]), judged=False, why="equal values of another type")]
    texts = "text" in one["dtypes"] and "text" in other["dtypes"]
    if whole:
        shapes = [_squeezed(side["shapes"]) if not texts else side["shapes"] for side in (one, other)]
        facts.append(Fact(f"{name}.{'lengths' if texts else 'shapes'}", _listed(shapes[0]), _listed(shapes[1])))
        if one["classes"] and other["classes"]:
            due, own = (_listed(side["classes"], every=True) for side in (one, other))
            facts.append(Fact(f"{name}.classes", due, own, why=_renumbered(one["classes"], other["classes"])))
    elif len(one["dtypes"]) == 1 and len(other["dtypes"]) == 1 and one["classes"] and other["classes"]:
        facts.append(Fact(f"{name}.classes", str(len(one["classes"])), str(len(other["classes"])), judged=False, why="of what was read"))
    return facts


def _renumbered(one: Counts, other: Counts) -> str:
    """Whether classes of the same sizes have other numbers, as why their counts differ."""
    return RENUMBERED if one != other and sorted(one.values()) == sorted(other.values()) else ""


def _squeezed(shapes: Counts) -> Counts:
    """Shapes without axes of length 1, which frameworks add as they like to labels."""
    found: Counts = {}
    for text, count in shapes.items():
        form = ", ".join(n for n in text.split(", ") if n not in ("", "1"))
        found[form] = found.get(form, 0) + count
    return found


def _listed(counts: Counts, *, every: bool = False) -> str:
    """Values and how many samples have each, sorted.

    One value alone is told without its count.
    """
    if len(counts) == 1 and not every:
        if next(iter(counts))[:1].isdigit():
            return f"({next(iter(counts))})"
        return next(iter(counts)) or "()"
    return "; ".join(f"{value or '()'} x{count}" for value, count in sorted(counts.items(), key=lambda item: (len(item[0]), item[0])))


def _summary(told: dict[str, dict[str, Counts]], answer: DataSeen) -> str:
    """The reference's data set in one line."""
    parts = []
    for leaf, facts in list(told.items())[:SHOWN]:
        dtype = " or ".join(sorted(facts["dtypes"]))
        classes, shapes = facts["classes"], facts["shapes"]
        if dtype == "text":
            parts.append(f"{leaf or 'sample'} text")
        elif classes and len(shapes) == 1 and 1 < len(classes) < sum(classes.values()):
            least, most = min(classes.values()), max(classes.values())
            parts.append(f"{leaf or 'label'} {dtype}, {len(classes)} classes of {least if least == most else f'{least}-{most}'} samples")
        else:
            shape = f"({next(iter(shapes))})" if len(shapes) == 1 else f"{len(shapes)} shapes"
            parts.append(f"{leaf or 'sample'} {dtype} {shape}")
    total = None if answer.whole is None else answer.whole.total
    if parts:
        return f"the reference's data set: {f'{total:,} samples; ' if total is not None else ''}{'; '.join(parts)}"
    return ""


def settings(result: StageResult, reference: Capture, candidate: Capture) -> None:
    """Compare loader settings: those that decide about values break alignment.

    The others are said.
    """
    known = [Data.answer(c).settings for c in (reference, candidate)]
    facts, unimportant = [], []
    for name in known[0]:
        if name not in known[1] or name in PRIVATE:
            continue
        one, other = known[0][name], known[1][name]
        judged = name in DECIDING and not (name == "sampler" and _own(one, other))
        if name == "drop_last" and one != other and _no_effect(result, reference, candidate):
            judged = False
            result.warnings.append(
                f"drop_last is {one} in the reference and {other} in the candidate; both loaders give as many batches of "
                f"{known[0].get('batch_size')} samples today, so that it has no effect"
            )
        fact = Fact(f"settings.{name}", one, other, judged=judged)
        facts.append(fact)
        if not judged and not fact.agree and name not in ("drop_last", "sampler"):
            unimportant.append(f"{name} {fact.reference} / {fact.candidate}")
    _append(result, facts)
    if unimportant:
        result.notes.append(f"loader settings that do not matter for the numbers (reference / candidate): {', '.join(unimportant)}")


def _own(one: str, other: str) -> bool:
    """Whether a sampler is of a user's class, a list or an array, whose name tells nothing.

    Its indices are compared. In one process a distributed sampler does what the plain one does that shuffles as it does.
    """
    kinds = {one, other}
    return not kinds <= TELLING or kinds <= {"random", "random subset", "distributed"} or kinds == {"sequential", "distributed"}


def _no_effect(result: StageResult, reference: Capture, candidate: Capture) -> bool:
    """Whether both loaders give as many batches although one drops what is left over."""
    totals = [None if batches is None else batches.total for batches in (Data.answer(reference).batches, Data.answer(candidate).batches)]
    if totals[0] is None or totals[0] != totals[1]:
        return False
    return all(p.verdict != DIVERGED for p in result.pairs)


def _append(result: StageResult, facts: list[Fact]) -> None:
    """The facts as pairs of texts.

    Those that agree are told and not judged: they make no test aligned.
    """
    for fact in facts:
        wrong = fact.judged and not fact.agree
        notes = [] if fact.agree else [note for note in (_parted(fact), fact.why) if note]
        first, second = (Record(0, fact.key, "data", "fact", "none", (), text=text) for text in (fact.reference, fact.candidate))
        result.pairs.append(Pair(fact.key, first, second, verdict=DIVERGED if wrong else ALIGNED, judged=wrong, notes=notes))
        if not fact.agree and not fact.judged and fact.key.endswith(".dtype"):
            result.notes.append(f"{fact.key}: {fact.reference} in the reference, {fact.candidate} in the candidate")
    wrong_facts = [f for f in facts if f.judged and not f.agree and f.told]
    for fact in wrong_facts:
        result.findings.append(_finding(fact))


def _parted(fact: Fact) -> str:
    """Of two lists the entries that only one has, or has otherwise; else both values."""
    one, other = (side.split("; ") for side in (fact.reference, fact.candidate))
    if len(one) + len(other) <= 2:  # noqa: PLR2004 - one value each
        return f"{fact.reference} in the reference, {fact.candidate} in the candidate"
    alone = [[entry for entry in mine if entry not in theirs] for mine, theirs in ((one, other), (other, one))]
    texts = ["; ".join(side[:SHOWN]) + (" …" if len(side) > SHOWN else "") or "nothing more" for side in alone]
    return f"{texts[0]} in the reference, {texts[1]} in the candidate"


#: why the numbers of samples of classes differ whose sizes are the same
RENUMBERED = "classes of the same sizes, numbered otherwise"

#: what to do about classes of as many samples
MADE = "both sides have as many samples: compare how this part of a sample is made"

_FIXES = {
    "classes": "read the same files on both sides: compare the lists of files, and what the data sets leave out",
    "class_names": "list the classes by the same rule on both sides: sorted folder names, as a rule",
    "shapes": "compare sizes of resize, crop and padding",
    "lengths": "compare how texts are cut and joined",
    "batch_size": "set the batch size as in the reference",
    "drop_last": "set drop_last as in the reference",
    "shuffle": "shuffle on both sides or on neither",
    "sampler": "use the sampler that the reference uses",
}


def _called(key: str) -> str:
    """What a fact is called in a sentence: ``shapes of sample.0``."""
    group, _, name = key.partition(".")
    leaf, _, kind = name.rpartition(".")
    if group != "facts" or not leaf:
        return name
    return f"{kind} of {leaf if leaf == 'sample' else f'sample.{leaf}'}"


def _finding(fact: Fact) -> Finding:
    """What to do about a fact that differs; a fact is seen, not guessed."""
    kind = fact.key.rpartition(".")[2]
    group = fact.key.partition(".")[0]
    cause = f"{_called(fact.key)}: {_parted(fact)}" + (f" ({fact.why})" if fact.why else "")
    fix = fact.fix or (_FIXES["class_names"] if fact.why == RENUMBERED else _FIXES.get(kind, ""))
    return Finding(f"data/{'setting' if group == 'settings' else 'fact'}-{kind.replace('_', '-')}", cause, fix, proven=False)
