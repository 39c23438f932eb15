"""What is said of one side's data-parallel program, trait by trait.

Gradients, updates, samples, metrics, files, seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.stages.distributed import behaviour
from paralign.stages.distributed.behaviour import Average, Evidence, Found, Spread, Way, Writers
from paralign.worker.protocol import InOneProcess, LocalMetric, Ranked, RankTold, Single
from paralign.worker.ranks.share import LEFT, gradients_of_ranks
from paralign.worker.ranks.single import GIVEN, JOINED
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from paralign.capture import Capture
    from paralign.capture.merged import Merged

Array = np.ndarray[Any, Any]

#: what is said of ways of bringing gradients together that are sound; all others are warned of where both sides have them
_SOUND = (Way.JOINED, Way.SAMPLES, Way.MEAN, Way.GIVEN, Way.NOTHING)

#: the rounding of weights, as a share of an update, up to which it is granted: a factor of the rate that is off by 5 % is still seen
COARSE = 0.01

#: the relative distance of running statistics that rounding explains
STATISTICS = 1e-5


@dataclass
class Trait:
    """One thing that a side does.

    ``key`` is the same on both sides, ``told`` what is compared, ``sound`` says whether it is what a data-parallel program should do,
    ``function`` names the side's function that it comes from, ``place`` the line. ``judged``: a difference between the sides is a
    divergence. ``weak`` is why it proves nothing, '' where it does; ``remark`` what else is to be known.
    """

    key: str
    told: str
    sound: bool = True
    function: str = ""
    place: str = ""
    fix: str = ""
    judged: bool = True
    weak: str = ""
    remark: str = ""
    found: Found | None = None


@dataclass
class Side:
    """The captures of one side."""

    name: str
    ranks: Merged
    one: Capture

    @property
    def answers(self) -> list[RankTold]:
        """What each rank has told."""
        return [Ranked.answer(capture) for capture in self.ranks.ranks]

    @property
    def alone(self) -> InOneProcess:
        """What one process has told."""
        return Single.answer(self.one)

    def place(self, *functions: str) -> tuple[str, str]:
        """The first of some functions that the side has, and where it is defined."""
        places = self.answers[0].places
        return next(((name, places[name]) for name in functions if name in places), ("", ""))

    @property
    def scale(self) -> float | None:
        """How many times that of one process the learning rate of the ranks is.

        None where it is not known, or differs by group.
        """
        there, here = self.answers[0].rates, self.alone.rates
        if not there or len(there) != len(here) or 0.0 in here:
            return None
        factors = [one / other for one, other in zip(there, here, strict=True)]
        return factors[0] if np.allclose(factors, factors[0], rtol=1e-6) else None

    def evidence(self, role: str) -> Evidence:
        """All tensors of a role, of the ranks and of one process."""
        count, run = len(self.ranks.ranks), DOUBLE if DOUBLE in self.alone.runs else NATIVE
        call = gradients_of_ranks(self.ranks.ranks) if role == "gradient" else LEFT
        ranks = [_at(call, self.ranks, role, rank=rank) for rank in range(count)]
        batches = (*range(count), JOINED)
        ones = {rank: _at(call, self.one, role, run=run, rank=rank) for rank in batches}
        native = None
        if run == DOUBLE and NATIVE in self.alone.runs:
            native = [_at(call, self.one, role, run=NATIVE, rank=rank) for rank in batches]
        sizes = [answer.sizes[0] or 1 for answer in self.answers]
        return Evidence(ranks, [ones[rank] for rank in range(count)], ones[JOINED], native, sizes)


def _at(call: int, capture: Capture, role: str, **fields: Any) -> dict[str, Array]:
    """The tensors at a point of a step.

    Those that the backward pass left where the step changed nothing before its update.
    """
    return _values(capture, role, call=call, **fields) or _values(capture, role, call=LEFT, **fields)


def _values(capture: Capture, role: str, **fields: Any) -> dict[str, Array]:
    """Floating tensors of a role by name; running counts of batches are no statistics."""
    found = {}
    for record in capture.select(role=role, **fields):
        if record.location is None:
            continue
        array = capture.array(record)
        if array.dtype.kind == "f" and array.size:
            found[record.name] = array
    return found


def traits(side: Side) -> Iterator[Trait]:
    """Everything that is said of a side, in the order in which it is looked at."""
    yield _start(side)
    yield _rate(side)
    yield _batch(side)
    yield _samples(side)
    yield from _kind(side)
    yield from _replicas(side)
    yield from _numbers(side)
    yield from _statistics(side)
    yield from _metrics(side)
    yield from _files(side)
    yield _prints(side)
    yield from _seeds(side)


def _unlike(states: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of what is not the same in all ranks."""
    first, *others = states
    return [name for name, value in first.items() if any(other.get(name) != value for other in others)]


def _start(side: Side) -> Trait:
    place = side.place("distribute", "build_model")
    unlike = _unlike([answer.start for answer in side.answers])
    if not unlike:
        return Trait("start of the ranks", "the same weights in all ranks", True, *place)
    fix = f"bring rank 0's weights to all ranks before the first step (first that differs: {unlike[0]})"
    return Trait("start of the ranks", "other weights in each rank", False, *place, fix=fix)


def _replicas(side: Side) -> Iterator[Trait]:
    parameters = {r.name for r in side.ranks.select(role="parameter", rank=0)}
    steps = [answer.replicas for answer in side.answers]
    count = min(map(len, steps))
    for step in range(count):
        unlike = [name for name in _unlike([each[step] for each in steps]) if name in parameters]
        if unlike:
            fix = "bring the gradients of all ranks together before the update"
            told = f"different after step {step}"
            place = side.place("train_step", "distribute")
            yield Trait("replicas", told, False, *place, fix=f"{fix}; {len(unlike)} tensors, the first {unlike[0]}")
            return
    yield Trait("replicas", "equal after every step", True, *side.place("train_step", "distribute"))


_LAYERS = "layers that normalise over the batch see one rank's samples alone: convert BatchNorm on both sides, or on neither"

_BRING = {
    Way.SAMPLES: _LAYERS,
    Way.MEAN: _LAYERS,
    Way.SUM: "divide by the number of ranks after the sum, or all-reduce with the mean",
    Way.TIMES: "divide by the number of ranks after the sum, or all-reduce with the mean",
    Way.OWN: "wrap the model (DistributedDataParallel, DataParallel), or all-reduce the gradients",
    Way.PART: "a mean is divided by the number of ranks once more: leave one of the two divisions out",
    Way.FIRST: "all-reduce the gradients instead of sending rank 0's",
    Way.SOME: "let every rank take what the exchange gave: each has to put it in the place of its own gradients",
}


def _numbers(side: Side) -> Iterator[Trait]:
    """Gradients and update of the first step, and the loss."""
    place = side.place("train_step", "distribute", "loss")
    gradients = side.evidence("gradient")
    if all(gradients.alone) and all(gradients.ranks):
        found = gradients.told()
        yield _brought("gradients", found, place)
    update = side.evidence("parameter")
    given = _values(side.one, "parameter", run=GIVEN, rank=JOINED)
    moved = any(np.any(value) for value in (update.joined or update.alone[0]).values())
    if moved and given:
        yield _brought(
            "update", _made(update.ranks[0], given, side.scale or 1.0, side.alone.resolution), side.place("train_step", "build_optimizer")
        )
    elif moved:
        yield _brought("update", update.told(side.scale or 1.0), place)
    else:
        yield Trait("update", "no parameter moves", False, *place, weak="one process moves no parameter in its first step")
    loss = _loss(side)
    if loss is not None:
        yield loss


def _made(update: Mapping[str, Array], given: Mapping[str, Array], scale: float, resolution: float) -> Found:
    """Whether an update is one process's from the same gradients, times the rate's factor.

    Both were read from weights that are rounded to their types: ``resolution`` is the norm of what that may take from one of them.
    """
    wanted = {name: value * scale for name, value in given.items()}
    error = behaviour.distance(update, wanted)
    size = float(np.sqrt(sum(np.sum(value**2) for value in wanted.values())))
    rounding = resolution * (1 + abs(scale)) / size if size else 0.0
    granted = rounding if rounding <= COARSE else 0.0  # an update that drowns in rounding proves nothing
    if error <= behaviour.LIMIT * behaviour.LEAST + granted:
        return Found(Way.GIVEN, error)
    return Found(Way.OTHER, error, worst=behaviour.worst(update, wanted))


def _brought(key: str, found: Found, place: tuple[str, str]) -> Trait:
    weak = ""
    if found.way is Way.OTHER:
        weak = f"nothing explains it (most differs {found.worst})" if found.worst else "nothing explains it"
    return Trait(key, found.way.value, found.way in _SOUND, *place, fix=_BRING.get(found.way, ""), found=found, weak=weak)


def settled(one: Trait, other: Trait) -> tuple[Trait, Trait]:
    """Two sides' traits, told as the first way that the batches of both allow.

    Each side has its own batches, and some do not tell two ways apart. A way that is not sound is no agreement: equal batches in all ranks
    allow that rank 0's gradients are sent, whatever is done.
    """
    if one.found is None or other.found is None or one.found.way is other.found.way:
        return one, other
    allowed = [(trait.found.way, *trait.found.also) for trait in (one, other) if trait.found is not None]
    way = next((each for each in allowed[0] if each in allowed[1] and each in _SOUND), None)
    return (one, other) if way is None else (_as(one, way), _as(other, way))


def _as(trait: Trait, way: Way) -> Trait:
    """A trait told as another of the ways that its batches allow."""
    if trait.found is None or trait.found.way is way:
        return trait
    remark = f"one side's batches allow this and: {trait.found.way.value}"
    return replace(_brought(trait.key, replace(trait.found, way=way, also=()), (trait.function, trait.place)), remark=remark)


def _loss(side: Side) -> Trait | None:
    run = DOUBLE if DOUBLE in side.alone.runs else NATIVE
    losses = side.alone.losses.get(run, {})
    told = _floats([answer.losses[0] for answer in side.answers])
    own = _floats([losses.get(str(rank)) for rank in range(len(side.answers))])
    joined = losses.get(str(JOINED))
    if told is None or own is None:
        return None
    place = side.place("train_step", "loss")
    what = _way_of_losses(told, own)
    if what is None and joined is not None:
        weights = [answer.sizes[0] or 1 for answer in side.answers]
        average = np.average(np.array(told, float), weights=weights)
        if np.isclose(average, joined, rtol=1e-4, atol=1e-7):  # where layers normalise over all ranks
            what = "of its own batch as a part of the joined one"
    if what is None:
        return Trait("loss", "nothing that the ranks' batches explain", False, *place, judged=True)
    return Trait("loss", f"each rank tells the loss {what}", True, *place, judged=False)


def _floats(values: Sequence[float | None]) -> list[float] | None:
    """Values as numbers; None where one of them is not known."""
    known = [float(value) for value in values if value is not None]
    return known if len(known) == len(values) else None


def _way_of_losses(told: list[float], own: list[float]) -> str | None:
    """What the ranks tell, made of the losses of their own batches.

    None where nothing explains it.
    """
    count, total = len(own), sum(own)
    ways = {
        "of its own batch": own,
        "the mean over the ranks": [total / count] * count,
        "the sum over the ranks": [total] * count,
        "of its own batch, divided by the number of ranks": [value / count for value in own],
    }
    for what, values in ways.items():
        if np.allclose(told, values, rtol=1e-4, atol=1e-7):
            return what
    return None


def _rate(side: Side) -> Trait:
    count, scale = len(side.answers), side.scale
    place = side.place("build_optimizer")
    if not side.answers[0].rates:
        return Trait("learning rate", "not told", True, *place, judged=False)
    if scale is None:
        return Trait("learning rate", "scaled group by group", True, *place)
    if abs(scale - 1.0) < 1e-6:  # noqa: PLR2004 - equal in float32
        remark = "not scaled with the number of ranks; the guide (3.12.4) multiplies it by the number of cards"
        fix = "the guide multiplies it by the number of cards"
        return Trait("learning rate", "not scaled with the number of ranks", True, *place, fix=fix, remark=remark)
    told = "times the number of ranks" if abs(scale - count) < 1e-6 * count else f"{scale:g} times that of one process"
    return Trait("learning rate", told, True, *place, fix="scale the rate with the number of ranks on both sides, or on neither")


def _batch(side: Side) -> Trait:
    sizes = [answer.sizes[0] for answer in side.answers]
    told = f"{sizes[0]} samples a rank" if len(set(sizes)) == 1 else f"samples by rank: {', '.join(map(str, sizes))}"
    return Trait("batch", told, True, *side.place("build_dataloader"), fix="give both sides' loaders the same batch size a rank")


_SPREAD_FIX = {
    Spread.EVERY: "use the framework's DistributedSampler (PyTorch) or DistributedBatchSampler (Paddle)",
    Spread.UNEVEN: "use the framework's DistributedSampler (PyTorch) or DistributedBatchSampler (Paddle), with the same seed in all ranks",
    Spread.PADDED: "pad alike on both sides, or leave the last batch out alike",
    Spread.SHORT: "leave the last samples out alike on both sides (drop_last)",
}


def _samples(side: Side) -> Trait:
    found = behaviour.shares([answer.share for answer in side.answers], side.alone.share)
    spread = found.spread
    even = len(set(found.batches)) < 2  # noqa: PLR2004 - they differ
    sound = even and spread in (Spread.ONCE, Spread.PADDED, Spread.SHORT, Spread.UNKNOWN)
    weak = "which samples the ranks are given is not known" if spread is Spread.UNKNOWN else ""
    remark = found.told() if spread in (Spread.PADDED, Spread.SHORT) else ""
    fix = _SPREAD_FIX.get(spread, "")
    return Trait("samples", found.told(), sound, *side.place("build_dataloader"), fix=fix, weak=weak, remark=remark)


def _kind(side: Side) -> Iterator[Trait]:
    """The class of the normalisation layers."""
    place = side.place("distribute", "build_model")
    kinds = set(side.answers[0].layers.values())
    if kinds:
        mixed = any("sync" in kind.lower() for kind in kinds)
        told = "synchronised layers (SyncBatchNorm)" if mixed else "layers that normalise each rank by itself"
        yield Trait("kind of BatchNorm", told, True, *place, fix="convert the layers on both sides (convert_sync_batchnorm), or on neither")


def _statistics(side: Side) -> Iterator[Trait]:
    """Running statistics of normalisation layers: of each rank's batch, or of all ranks'."""
    place = side.place("distribute", "build_model")
    evidence = side.evidence("buffer")
    names = []
    for name, value in evidence.joined.items():
        alone = [{name: each[name]} for each in evidence.alone if name in each]
        if any(behaviour.distance(own, {name: value}) > LIMITED for own in alone):
            names.append(name)
    if not names:
        return
    way = _statistics_of(evidence, names)
    fix = "convert the layers on both sides (convert_sync_batchnorm), or on neither"
    yield Trait("running statistics", way, True, *place, fix=fix)


#: running statistics of the ranks and of the joined batch that are nearer cannot be told apart
LIMITED = 1e-4


def _statistics_of(evidence: Evidence, names: list[str]) -> str:
    def only(values: Mapping[str, Array]) -> dict[str, Array]:
        return {name: values[name] for name in names if name in values}

    ranks, alone = [only(each) for each in evidence.ranks], [only(each) for each in evidence.alone]

    def all_are(value: Mapping[str, Array]) -> bool:
        return all(behaviour.distance(rank, value) <= STATISTICS for rank in ranks)

    if all_are(only(evidence.joined)):
        return "of all ranks' samples: synchronised"
    if all(behaviour.distance(rank, own) <= STATISTICS for rank, own in zip(ranks, alone, strict=True)):
        return "of each rank's own samples: not synchronised"
    if all_are(alone[0]):
        return "of rank 0's samples in all ranks"
    if all_are(_mean(alone)):
        return "the mean of what the ranks have, each alone"
    return "nothing that the ranks' batches explain"


def _mean(sets: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.mean([values[name] for values in sets], axis=0) for name in sets[0]}


def _metrics(side: Side) -> Iterator[Trait]:
    told = [answer.metrics for answer in side.answers if answer.metrics is not None]
    alone = side.alone.metrics
    if alone is None or len(told) < len(side.answers):
        return
    local = [answer.local for answer in side.answers]
    for path, value in alone.items():
        if any(path not in each for each in told):
            continue
        own, counts = _local(local, path, alone)
        pooled = None if side.alone.pooled is None else _of_path(side.alone.pooled, path, alone)
        found = behaviour.average([each[path] for each in told], own, counts, value, pooled)
        sound = found in (Average.SAMPLES, Average.PADDED)
        remarks = []
        if found is Average.PADDED:
            remarks.append(f"samples that fill the shares count twice: {told[0][path]:g} instead of {value:g}")
        if sound and counts is not None and len(set(counts)) == 1:
            remarks.append("all ranks have as many samples: an average over the ranks would not show")
        fix = "" if sound else "sum the metric times the samples over the ranks, and divide by the sum of the samples"
        if not sound and not behaviour.is_mean(own, counts, pooled):
            fix = "bring together what the metric is made of (counts, a confusion matrix) over the ranks, and compute it once from that"
        weak = "nothing explains it" if found is Average.OTHER else ""
        place = side.place("evaluate")
        yield Trait(f"metric {path}".strip(), found.value, sound, *place, fix=fix, weak=weak, remark="; ".join(remarks))


def _local(local: list[LocalMetric | None], path: str, alone: dict[str, float]) -> tuple[list[float] | None, list[int] | None]:
    """The metric of each rank's samples by itself, and how many these are.

    By name, or the only one that there is.
    """
    own, counts = [], []
    for each in local:
        if each is None:
            return None, None
        value = _of_path(each.values, path, alone)
        if value is None:
            return None, None
        own.append(value)
        counts.append(int(each.samples))
    return own, counts


def _of_path(values: Mapping[str, float], path: str, alone: Mapping[str, float]) -> float | None:
    """A figure by its name, or the only one that there is; None where neither is known."""
    if path in values:
        return float(values[path])
    if len(values) == len(alone) == 1:
        return float(next(iter(values.values())))
    return None


def _files(side: Side) -> Iterator[Trait]:
    """Who saves, and which other files several ranks write."""
    fix = "save where the rank is 0 only: what several ranks write at once can be damaged"
    saved = [answer.saved for answer in side.answers if answer.saved is not None]
    if len(saved) == len(side.answers):
        yield _saving(side, saved, fix)
    written = [answer.writes for answer in side.answers]
    both = behaviour.shared([list(each) for each in written])
    if not both:
        yield Trait("files", "no file is written by several ranks")
        return
    line = written[1].get(both[0], "") if len(written) > 1 else ""
    yield Trait("files", "several ranks write the same file", sound=False, place=line, fix=f"{fix} ({', '.join(both[:3])})")


def _saving(side: Side, saved: Sequence[Mapping[str, str]], fix: str) -> Trait:
    """Which ranks write what the side's function ``save`` writes."""
    names = [list(each) for each in saved]
    writers = behaviour.writers(names)
    function, place = side.place("save")
    both = behaviour.shared(names)
    if not both:
        return Trait("saving", writers.value, writers is not Writers.SAME, function, place)
    lines = [line for each in saved[1:] for line in each.values() if line]
    place = next(iter(lines), place)
    return Trait("saving", writers.value, writers is not Writers.SAME, function, place, fix=f"{fix}: {', '.join(both[:3])}")


def _prints(side: Side) -> Trait:
    found = behaviour.writers([answer.printed.lines for answer in side.answers])
    sound = found is not Writers.SAME
    fix = "" if sound else "print and log where the rank is 0 only"
    return Trait("lines printed", found.value, sound, fix=fix, judged=False)


def _seeds(side: Side) -> Iterator[Trait]:
    states = [answer.generators for answer in side.answers]
    unlike = _unlike(states)
    fix = "seed the ranks alike on both sides, or with the rank in the seed on both"
    drawn = {name for answer in side.answers for name in answer.drawn}
    for name in states[0]:
        told = "other numbers in each rank" if name in unlike else "the same numbers in all ranks"
        what = "the framework" if name == "framework" else name
        place = side.place("distribute", "build_dataloader")
        yield Trait(f"draws of {what}", told, True, *place, fix=fix, judged=name in drawn)
