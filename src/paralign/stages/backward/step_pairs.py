"""The pairs of training steps, measured and judged.

Losses, rates, gradients, buffers and changes.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from paralign.comparison import compare_pair
from paralign.model import ALIGNED, DIVERGED, Noise, Pair, Record, Unjudged
from paralign.stages.backward.where_it_starts import places_of
from paralign.stages.common import coarse
from paralign.stages.common.judging import Noises, doubt_whole_numbers, floor, points_of, settle, twofold
from paralign.stages.common.places import Kind
from paralign.stages.forward import stage as forward
from paralign.stages.loss import stage as loss
from paralign.stages.steps import resolution, running
from paralign.worker.sides.session import DOUBLE, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.capture import Capture
    from paralign.context import Context
    from paralign.dtypes import Typed
    from paralign.stages.common.judging import Method

#: a gradient is rounding where the reference itself does not know it (noise above the first) and it is small (below the second, of the
#: norm of all gradients together)
UNKNOWN, SMALL = 0.1, 1e-4

#: what float64 leaves of gradients that cancel out, as a share of the norm of all: some thousand roundings
CANCELLED = 1e-12

#: gradients after an update, and what several steps changed together, may differ by this much more: optimizers, too, keep constants in
#: float32, which the weights then carry
LATER = 4.0

#: rates are one rate up to this relative difference: products of factors in another order round otherwise, in float32 too
EQUAL_RATES = 1e-6

#: a change's own noise counts where it exceeds what storing the parameters in their type explains, by this factor
STORAGE = 3.0


class Steps:
    """The pairs of one mode."""

    def __init__(self, context: Context, reference: Capture, candidate: Capture, method: Method, mode: str) -> None:
        if context.plan is None:
            raise AssertionError("the weights are carried over before the backward stage")
        self.context, self.reference, self.candidate, self.method, self.mode = context, reference, candidate, method, mode
        self.runs = f"{method.reference_run}:{mode}", f"{method.candidate_run}:{mode}"
        self.noises = Noises(reference, method)
        self.tolerance = context.settings.tolerance_of("backward")
        self.plan = context.plan
        self.gradient_noise: dict[str, float] = {}
        self.loss_noise = 0.0
        self.gradient_size: dict[str, float] = {}
        self.hidden: set[str] = set()
        self._weights = {r.name: r for r in context.weights_of_reference}
        self._sizes: dict[str, float] = {}

    def scalars(self, step: int) -> list[Pair]:
        """Loss and learning rates of one step."""
        losses, rates = self._scalars_of("loss", step), self._scalars_of("lr", step)
        pairs = [*losses, *rates]
        outputs = forward.noise(self.context)
        carried = 0.0 if outputs is None else outputs.value * loss.sensitivity(self.context)
        own = [p.noise.value for p in losses if p.noise is not None and p.reference is not None]
        self.loss_noise = max(self.loss_noise, *own, carried)
        self._settle(pairs, self.method, self.loss_noise)
        running.excuse_vanishing_parts(losses)
        self._excuse_groups([p for p in pairs for place in places_of([p]) if place.kind is Kind.RATE])
        return pairs

    def _scalars_of(self, name: str, step: int) -> list[Pair]:
        """The pairs of one step's scalars of a name, ``loss`` or ``lr``."""
        reference = self.reference.select(name=name, role="scalar", run=self.runs[0], step=step)
        candidate = self.candidate.select(name=name, role="scalar", run=self.runs[1], step=step)
        pairs = []
        for first, second, how in points_of(reference, candidate):
            leaf = next((r.leaf for r in (first, second) if r is not None and r.leaf), "")
            key = f"{name}_{step}.{leaf}" if leaf else f"{name}_{step}"
            pairs.append(self._pair(self._key(key), first, second, how))
        return pairs

    def _excuse_groups(self, pairs: list[Pair]) -> None:
        """Accept equal rates in another number or order of groups.

        What each parameter does is judged by its change.
        """
        rates = [
            _rates_in(self.reference, [p.reference for p in pairs]),
            _rates_in(self.candidate, [p.candidate for p in pairs]),
        ]
        alone = [p for p in pairs if p.reference is None or p.candidate is None]
        silent = not all(rates)
        common = [_shared(rates[0], rates[1]), _shared(rates[1], rates[0])]
        if silent or common == rates or (alone and common[0]):
            why = "an optimizer that tells no rate" if silent else "rates in other parameter groups"
            for pair in pairs:
                if pair.verdict == DIVERGED:
                    pair.leave_out(Unjudged.ELSEWHERE, f"{why}: judged by what each parameter does")
        for pair in alone:
            if pair.judged:
                pair.judged, pair.verdict = False, ALIGNED  # the rates that both sides have are at fault, and judged
                pair.notes.append("a parameter group that the other side has not: judged by what each parameter does")

    def gradients(self, step: int) -> list[Pair]:
        """The gradient of every parameter that both sides have."""
        pairs = self._mapped("gradient", step, lambda name: f"gradient_{step} {name}")
        total = math.sqrt(sum(_norm(p) ** 2 for p in pairs))
        for pair in pairs:
            if pair.noise is not None and pair.reference is not None:
                name = pair.reference.name
                pair.noise = max(pair.noise, twofold(pair.reference), self._cancelled(pair, total), key=lambda n: n.value)
                self.gradient_noise[name] = max(self.gradient_noise.get(name, 0.0), pair.noise.value)
                self.gradient_size[name] = max(self.gradient_size.get(name, 0.0), _norm(pair))
        self._settle(pairs, self._later(step))
        for pair in pairs:
            _excuse(pair, total)
        return pairs

    def _cancelled(self, pair: Pair, total: float) -> Noise:
        """The noise of a gradient that vanishes: rounding of what cancels out.

        It is used where no other run of the reference tells.
        """
        size = _norm(pair)
        left = math.inf if size == 0 else CANCELLED * total / size
        return Noise(0.0 if self.method.noise_runs else left, "rounding of the gradients that cancel out")

    def changes(self, step: int) -> list[Pair]:
        """What all steps together did to every parameter."""
        pairs = self._mapped("parameter", step, lambda name: f"update {name}")
        total = math.sqrt(sum(_norm(p) ** 2 for p in pairs))
        for pair in pairs:
            if pair.noise is not None and pair.reference is not None:
                pair.noise = self._change_noise(pair, pair.noise)
        self._settle(pairs, self._later(step))
        self.hidden = resolution.leave_out(pairs, self._resolutions(pairs))
        for pair in pairs:
            _excuse(pair, total)
        return pairs

    def _resolutions(self, pairs: list[Pair]) -> dict[str, float]:
        """Key -> the share of a change that storing the parameter makes.

        Those without a gradient are left out.
        """
        found = {}
        for pair in pairs:
            if pair.reference is None or pair.stats is None:
                continue
            if self.gradient_size.get(pair.reference.name):
                found[pair.key] = self._storing_noise(pair, self._held_in(pair)).value
        return found

    def _held_in(self, pair: Pair) -> str:
        """The element type in which the compared runs hold a parameter.

        The coarser, if they hold it in two.
        """
        if pair.reference is None or self.method.candidate_run == DOUBLE:
            return DOUBLE
        weight = self._weights.get(pair.reference.name)
        return DOUBLE if weight is None else weight.dtype

    def _storing_noise(self, pair: Pair, dtype: str) -> Noise:
        """The share of a change that storing its parameter in a type makes."""
        size = self._size(pair.reference.name) if pair.reference is not None else 0.0
        change = 0.0 if pair.stats is None else pair.stats.rms_reference
        return resolution.storing_noise(dtype, size, change, self.context.settings.steps)

    def _size(self, name: str) -> float:
        """The root mean square of a parameter before the first step.

        0 where its values were not kept.
        """
        if name not in self._sizes and self.context.weights is not None:
            weight = self._weights.get(name)
            if weight is None or weight.location is None:
                self._sizes[name] = 0.0
            else:
                self._sizes[name] = resolution.rms(self.context.weights.array(weight))
        return self._sizes.get(name, 0.0)

    def _change_noise(self, pair: Pair, own: Noise) -> Noise:
        """A change's noise: its gradients', unless storing the parameter explains no more."""
        name = pair.reference.name if pair.reference is not None else ""
        gradient, weight = self.gradient_noise.get(name, 0.0), self._weights.get(name)
        if weight is None or weight.location is None or pair.stats is None or pair.stats.rms_reference == 0 or self.context.weights is None:
            return own
        held = self._held_in(pair)
        least = self._storing_noise(pair, held)
        native = floor(weight.dtype) * self._size(name) / pair.stats.rms_reference * math.sqrt(self.context.settings.steps)
        if own.value > STORAGE * native and own.value > gradient:
            return max(own, least, key=lambda n: n.value)
        made = Noise(gradient, "the noise of the gradients that made the change")
        if self.method.candidate_run == NATIVE:  # there the rounding of what is stored is in the compared change itself
            return max(own, made, least, key=lambda n: n.value)
        return max(dataclasses.replace(made, value=max(gradient, floor(weight.dtype))), least, key=lambda n: n.value)

    def buffers(self, step: int) -> list[Pair]:
        """Running statistics and other buffers, where they were recorded.

        Between the first and the last step these are whole numbers alone.
        """
        pairs = [p for p in self._mapped("buffer", step, lambda name: f"buffer_{step} {name}") if p.stats is not None]
        framework = self.context.framework("reference")
        for pair in pairs:
            share = running.kept(pair.reference, framework)
            if pair.noise is not None and share is not None:
                pair.noise = max(pair.noise, running.stored(share), key=lambda n: n.value)
        self._settle(pairs, self._later(step))
        doubt_whole_numbers(pairs, self.noises)
        running.excuse_zero_means(pairs, self._deviations(pairs), UNKNOWN)
        for pair in pairs:
            if pair.verdict == DIVERGED and not self.context.settings.strict and self._inherent(pair, step):
                pair.leave_out(Unjudged.BIASED, running.BIASED)
        return pairs

    def _later(self, step: int) -> Method:
        """The method, less strict after an update."""
        return dataclasses.replace(self.method, limit=self.method.limit * (LATER if step else 1.0))

    def _deviations(self, pairs: list[Pair]) -> dict[str, float]:
        """Owner -> root of the mean running variance in the reference."""
        found = {}
        for pair in pairs:
            if pair.reference is not None and pair.reference.attrs.get("leaf") in running.VARIANCES:
                found[pair.reference.attrs["owner"]] = math.sqrt(max(float(self.reference.array(pair.reference).mean()), 0.0))
        return found

    def _inherent(self, pair: Pair, step: int) -> bool:
        """Whether a running variance differs as PyTorch's unbiased and Paddle's biased one do.

        After the first step that is measured; later ones may have batches of other sizes, and only another variance of a batch shows there.
        """
        first, second, framework = pair.reference, pair.candidate, self.context.framework("reference")
        differ = running.kept_otherwise(framework, self.context.framework("candidate"))
        if not differ or first is None or second is None or pair.stats is None:
            return False
        before = next((r for r in self.context.weights_of_reference if r.name == first.name), None)
        share = running.kept(first, framework)
        if before is None or share is None or self.context.weights is None or first.attrs.get("leaf") not in running.VARIANCES:
            return False
        if step:
            return True
        noise = pair.noise_value
        allowed = self.method.limit * noise * pair.stats.rms_reference * math.sqrt(pair.stats.count)
        held = self.candidate.by_name(role="buffer", run=self.runs[1], step=step)
        there = self.plan.restore(first.name, lambda name: self._value(held.get(name)))
        if there is None:
            return False
        values = self.context.weights.array(before), self.reference.array(first), there.array
        return running.is_biased(*values, share, allowed, reference_unbiased=running.is_unbiased(framework))

    def _mapped(self, role: str, step: int, key: Any) -> list[Pair]:
        """Records of a role, paired by the plan of the weights, in the reference's layout."""
        ours = self.reference.by_name(role=role, run=self.runs[0], step=step)
        theirs = self.candidate.by_name(role=role, run=self.runs[1], step=step)
        pairs = []
        for source in self.plan.sources:
            if source.attrs.get("shared"):
                continue  # what it shares with is compared
            moves = self.plan.moves_of(source.name)
            parts = [theirs.get(record.name) for record in self.plan.candidates_of(source.name)]
            first = ours.get(source.name)
            if first is None and not any(parts):
                continue
            if (first is None or not any(parts)) and self._is_still(source, first, parts):
                continue  # a buffer on one side, and a parameter on the other that nothing trains
            second = next((p for p in parts if p is None or p.location is None), parts[0])  # a part that is not there decides
            pair = self._pair(self._key(key(source.name)), first, second, moves[0].how, lambda name: self._value(theirs.get(name)))
            pair.transform = "; ".join(dict.fromkeys(m.transform for m in moves if m.transform)) or None
            pairs.append(pair)
        return pairs

    def _is_still(self, source: Record, first: Record | None, parts: list[Record | None]) -> bool:
        """Whether what one side alone recorded of a tensor is no gradient, or no change.

        The other side keeps it as a buffer, and records none.
        """
        lacking = [source] if first is None else self.plan.candidates_of(source.name)
        if any(record.role != "buffer" for record in lacking):
            return False
        capture, records = (self.candidate, parts) if first is None else (self.reference, [first])
        return not any(r is not None and r.location is not None and capture.array(r).any() for r in records)

    def _settle(self, pairs: list[Pair], method: Method, least: float = 0.0) -> None:
        settle(pairs, method, self.tolerance, least=least)
        if self.tolerance.ratio is None:
            coarse.excuse(pairs, self.noises.both, self._restored)

    def _restored(self, first: Record, second: Record) -> Typed | None:
        """A candidate's value in the layout of the reference's."""
        if first.role == "scalar":
            return self._value(second)
        held = self.candidate.by_name(role=second.role, run=second.run, step=second.step)
        return self.plan.restore(first.name, lambda name: self._value(held.get(name)))

    def _value(self, record: Record | None) -> Typed | None:
        if record is not None and record.location is not None:
            return self.candidate.value(record)
        return None

    def _key(self, name: str) -> str:
        return name if self.mode == "eval" else f"{name} ({self.mode})"

    def _pair(
        self, key: str, first: Record | None, second: Record | None, how: str, fetch: Callable[[str], Typed | None] | None = None
    ) -> Pair:
        """Measure a pair; with ``fetch``, in the reference's layout.

        It gives the candidate's values by name.
        """
        here, there, shown = self._value_of(first), self._value(second), second
        if fetch is not None and first is not None and second is not None and there is not None:
            there = self.plan.restore(first.name, fetch)
            if there is not None:
                shown = dataclasses.replace(second, shape=tuple(there.array.shape))
        pair = compare_pair(key, first, shown, here, there, how=how, atol=self.tolerance.atol, rtol=self.tolerance.rtol)
        pair.candidate = second
        pair.noise = self.noises.of(first) if first is not None else None
        return pair

    def _value_of(self, record: Record | None) -> Typed | None:
        """The values of a record of the reference."""
        if record is None or record.location is None:
            return None
        return self.reference.value(record)


def _norm(pair: Pair) -> float:
    return 0.0 if pair.stats is None else pair.stats.rms_reference * math.sqrt(pair.stats.count)


def _excuse(pair: Pair, total: float) -> None:
    """Leave out a small tensor that is rounding noise on both sides."""
    if pair.stats is None or pair.noise is None or pair.noise.value <= UNKNOWN:
        return
    greatest = max(pair.stats.rms_reference, pair.stats.rms_candidate) * math.sqrt(pair.stats.count)
    if greatest <= SMALL * total:
        pair.leave_out(Unjudged.ROUNDING, running.UNJUDGED)


def _rates_in(capture: Capture, records: list[Record | None]) -> list[float]:
    """The learning rates that records hold."""
    return [float(capture.array(r)) for r in records if r is not None]


def _shared(rates: list[float], others: list[float]) -> list[float]:
    """The rates that are among the others as well, but for rounding."""
    return [rate for rate in rates if any(math.isclose(rate, other, rel_tol=EQUAL_RATES) for other in others)]
