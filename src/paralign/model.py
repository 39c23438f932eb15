"""The nouns of paralign: plain data, no behaviour beyond reading it.

Everything here runs on Python 3.8 with numpy alone.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Callable, ClassVar, Dict, Iterable, List, Optional, Tuple, Union

from paralign.errors import plain_text

#: version of the capture format and of ``report.json``
SCHEMA = 1

#: what a record can be
ROLES = ("input", "output", "parameter", "gradient", "buffer", "state", "scalar", "sample")

#: verdicts, from best to worst; the verdict of many is decided by :func:`overall`
ALIGNED, UNDERPOWERED, NOT_TESTED, DIVERGED, ERROR = "aligned", "underpowered", "not tested", "diverged", "error"


@dataclass
class Side:
    """One of the two programs: its framework and those of its functions that it has.

    Args:
        framework: ``torch``, ``paddle`` or ``numpy``; None takes it from the model.
        model: the model itself, for a side that lives in this process.
        loss: ``loss(outputs, labels)`` -> scalar tensor.
        optimizer: ``optimizer(parameters)`` -> optimizer.
        functions: any function of ``registry.SIGNATURES`` by name; ``model``, ``loss`` and ``optimizer`` are shorthands for three of them.
        device: where inputs are put and the model is expected, ``cpu`` or ``gpu:0``.
    """

    framework: Optional[str] = None
    model: Any = None
    loss: Optional[Callable[..., Any]] = None
    optimizer: Optional[Callable[..., Any]] = None
    scheduler: Optional[Callable[..., Any]] = None
    metric: Optional[Callable[..., Any]] = None
    dataset: Optional[Callable[..., Any]] = None
    dataloader: Optional[Callable[..., Any]] = None
    transforms: Optional[Callable[..., Any]] = None
    predict: Optional[Callable[..., Any]] = None
    export: Optional[Callable[..., Any]] = None
    functions: Dict[str, Callable[..., Any]] = field(default_factory=dict)
    device: str = "cpu"


@dataclass
class Record:
    """One tensor (or text) seen at one point of one run.

    ``key`` names the point: module path and, within a nested output, the path of the leaf. ``run`` names the pass of the
    stage that saw it (``float64``, ``float32``, ``perturbed-0``, ``train``). ``shape`` and ``dtype`` are the tensor's
    own; ``location`` is ``(shard file, tensor name)`` inside the capture, or None when values were not kept.
    """

    id: int
    name: str
    stage: str
    role: str
    dtype: str
    shape: Tuple[int, ...]
    leaf: str = ""
    run: str = ""
    step: int = 0
    rank: int = 0
    call: int = 0
    op: str = ""
    source: Optional[str] = None
    inputs: Tuple[int, ...] = ()
    digest: Optional[str] = None
    location: Optional[Tuple[str, str]] = None
    text: Optional[str] = None
    attrs: Dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name and leaf, joined by a dot."""
        return f"{self.name}.{self.leaf}" if self.leaf else self.name


@dataclass(frozen=True)
class SourceLine:
    """A line of source code; as text, and in files, ``file:line``."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of(cls, text: Optional[str]) -> "Optional[SourceLine]":
        """The line that a text names; None for a text that names none.

        >>> str(SourceLine.of("C:/net.py:12")), SourceLine.of("net.py"), SourceLine.of(None)
        ('C:/net.py:12', None, None)
        """
        file, _, number = (text or "").rpartition(":")
        return cls(file, int(number)) if file and number.isascii() and number.isdecimal() else None

    def at(self, line: int) -> "SourceLine":
        """Another line of the same file."""
        return SourceLine(self.file, line)


@dataclass(frozen=True)
class Pass:
    """Which pass a record is of: its precision (``native``, ``float64``, ``perturbed-0``), and in training its mode, else ''."""

    precision: str
    mode: str = ""

    @classmethod
    def of(cls, run: str) -> "Pass":
        """What a record's ``run`` says.

        >>> Pass.of("float64:train"), Pass.of("native")
        (Pass(precision='float64', mode='train'), Pass(precision='native', mode=''))
        """
        precision, _, mode = run.partition(":")
        return cls(precision, mode)


@dataclass
class Manifest:
    """How a capture was made."""

    schema: int = SCHEMA
    side: str = ""
    stage: str = ""
    framework: str = ""
    versions: Dict[str, str] = field(default_factory=dict)
    device: str = "cpu"
    seed: Optional[int] = None
    flags: Dict[str, Any] = field(default_factory=dict)
    command: List[str] = field(default_factory=list)
    revision: Optional[str] = None
    settings: Dict[str, Any] = field(default_factory=dict)
    files: Dict[str, str] = field(default_factory=dict)
    variables: Dict[str, str] = field(default_factory=dict)
    notes: List[str] = field(default_factory=list)
    resources: Dict[str, float] = field(default_factory=dict)
    created: str = ""
    complete: bool = False
    records: int = 0


@dataclass
class Stats:
    """What was measured on a pair; numbers only, a verdict is asked of them afterwards.

    All figures are over elements that are finite on both sides. Counts and greatest values are exact; sums (``mean_abs``, ``rel_l2``,
    ``cosine``, ``rms``) are within 1e-5 of the true ones for float32 and narrower types, within 1e-9 for others.
    ``error`` is reference minus candidate. ``max_abs_at`` and ``max_rel_at`` are indices into the reference's shape.
    ``rel_l2`` is the norm of the error over the norm of the reference (the error's norm where the reference is zero).
    ``ulp`` maps a quantile (``0.5``, ``0.9``, ``0.99``, ``1``) to a distance in units in the last place of the coarser type.
    ``exceeding`` counts elements beyond the user's ``atol + rtol * |reference|``; None where the user set neither.
    ``mean_abs`` and ``max_rel`` are None, and ``ulp`` is empty, of a pair that differs and was measured for its verdict alone.
    ``nan`` and ``inf`` count elements where the two sides disagree on being NaN or (signed) infinite.
    """

    count: int = 0
    mismatched: int = 0
    max_abs: float = 0.0
    max_abs_at: Optional[Tuple[int, ...]] = None
    mean_abs: Optional[float] = 0.0
    max_rel: Optional[float] = 0.0
    max_rel_at: Optional[Tuple[int, ...]] = None
    rel_l2: float = 0.0
    cosine: float = 1.0
    ulp: Dict[str, float] = field(default_factory=dict)
    exceeding: Optional[int] = None
    nan: int = 0
    inf: int = 0
    nan_reference: int = 0
    nan_candidate: int = 0
    inf_reference: int = 0
    inf_candidate: int = 0
    rms_reference: float = 0.0
    rms_candidate: float = 0.0


@dataclass
class Noise:
    """How far the reference is from itself, as a relative L2 distance, and how that was measured."""

    value: float
    how: str


@dataclass
class Tolerance:
    """What a verdict is derived with: error ÷ noise up to ``ratio``; ``atol`` and ``rtol`` only where the user set them."""

    ratio: Optional[float] = None
    atol: Optional[float] = None
    rtol: Optional[float] = None

    @property
    def absolute(self) -> bool:
        """Whether it replaces error ÷ noise."""
        return self.atol is not None or self.rtol is not None

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:g}" for name in ("ratio", "atol", "rtol") if (value := getattr(self, name)) is not None)


class Unjudged(Enum):
    """Why a pair that differs is not judged."""

    #: rounding alone, on both sides
    ROUNDING = "rounding"
    #: frozen on both sides, each in its own way
    FROZEN = "frozen"
    #: reached by nothing of the batch
    UNREACHED = "unreached"
    #: the running variance is kept unbiased by one framework, biased by the other
    BIASED = "biased"
    #: another inherent difference of the frameworks
    INHERENT = "inherent"
    #: judged by something else
    ELSEWHERE = "elsewhere"
    #: drawn at random, each side its own
    DRAWN = "drawn"
    #: a checkpoint decides on it
    LOADED = "loaded"
    #: training changes it
    CHANGING = "changing"
    #: the model was run while it was built
    FILLED = "filled"
    #: nothing trainable depends on it
    UNATTACHED = "unattached"
    #: it differs at the outputs, and no parameter's gradient does
    WITHOUT_EFFECT = "without effect"
    #: only one side has it, and the outputs are equal without
    UNNEEDED = "unneeded"


@dataclass
class Pair:
    """Two records held to be the same point, and what was measured on them; either record may be missing.

    ``granted`` is the user's absolute tolerance where that decided: error ÷ noise then says nothing about the verdict, and is None.
    ``unjudged`` is why :meth:`leave_out` left it out.
    """

    key: str
    reference: Optional[Record]
    candidate: Optional[Record]
    how: str = "name"
    transform: Optional[str] = None
    stats: Optional[Stats] = None
    noise: Optional[Noise] = None
    verdict: str = NOT_TESTED
    notes: List[str] = field(default_factory=list)
    judged: bool = True
    granted: Optional[Tolerance] = None
    unjudged: Optional[Unjudged] = None

    def leave_out(self, why: Unjudged, note: str) -> None:
        """Do not judge it: it counts as aligned, and a note says why."""
        self.verdict, self.judged, self.unjudged = ALIGNED, False, why
        self.notes.append(note)

    @property
    def wrong(self) -> bool:
        """Whether it is judged, and differs."""
        return self.judged and self.verdict == DIVERGED

    @property
    def error(self) -> Optional[float]:
        """Relative L2 error; infinite where NaN or infinities disagree; None where nothing was measured."""
        if self.stats is None:
            return None
        return math.inf if self.stats.nan or self.stats.inf else self.stats.rel_l2

    @property
    def ratio(self) -> Optional[float]:
        """Error ÷ noise; None where either is missing, or neither decided."""
        error = self.error
        if error is None or self.noise is None or self.granted is not None:
            return None
        if self.noise.value == 0.0:
            return 0.0 if error == 0.0 else math.inf
        return error / self.noise.value


def wrong_of(pairs: Iterable[Pair]) -> List[Pair]:
    """The pairs that are judged, and differ."""
    return [pair for pair in pairs if pair.wrong]


@dataclass
class Point:
    """One end of a divergence: where in a program.

    ``name`` is the module's path, ``op`` the operation or layer, ``source`` the line (``file:line``) to look at first and ``code`` its
    text; ``lines`` are further lines that led there, innermost first; ``arguments`` those of the operation that are no tensors.
    """

    name: str
    op: str = ""
    source: Optional[str] = None
    code: Optional[str] = None
    lines: List[str] = field(default_factory=list)
    arguments: Dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TracedValue:
    """A number, text or list of the candidate's that is wrong, and what the reference has in its place.

    ``reference`` is None where that is not known; ``source`` is the reference's line, ``file:line``.
    """

    candidate: Any
    reference: Any = None
    source: Optional[str] = None


@dataclass(frozen=True)
class OtherAxis:
    """The axis of a call, where the reference's goes along another one on the same values; counted from 0, of ``count``.

    ``candidate`` is None where the call names no axis. ``call`` is the operation or function.
    """

    candidate: Optional[int]
    reference: int
    count: int
    call: str


@dataclass
class LineProposal:
    """A line of the candidate (``file:line``) that a rule proposes to look at first."""

    rule: str
    line: str


@dataclass
class Divergence:
    """A guilty point: good inputs, bad output.

    ``what`` is the kind of fault (``different``, ``missing``, ``extra``, ``miswired``, ``region``, ``given``; ``factor``, ``detached``
    and others of gradients). ``rule`` is the id of the rule that chose the candidate's line, ``proposals`` is what all rules proposed,
    the strongest first. ``error_before``, ``error`` and ``error_after`` are distances from the reference: of the inputs, of the
    result, and of what follows once the reference's value was put there (``confirmed``). ``noise`` is what the operation is granted.
    ``repeats`` counts further places of the same fault; ``chain`` names what matched before it, the nearest last. ``hidden`` says that
    what follows hardly uses the result, so that no run can confirm it. ``value`` is what is wrong at the line, where that is known;
    ``axis`` the axis along which the operation goes, where the reference's goes along another one.
    """

    reference: Optional[Point]
    candidate: Optional[Point]
    pair: Optional[Pair] = None
    inputs_agree: bool = True
    last_agreeing: Optional[str] = None
    confirmed: bool = False
    what: str = ""
    rule: str = ""
    proposals: List[LineProposal] = field(default_factory=list)
    error_before: Optional[float] = None
    error: Optional[float] = None
    error_after: Optional[float] = None
    noise: Optional[float] = None
    repeats: int = 0
    chain: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    hidden: bool = False
    value: Optional[TracedValue] = None
    axis: Optional[OtherAxis] = None


@dataclass
class Finding:
    """A cause, with the evidence of the experiment that showed it (``proven``) or without (suspected).

    ``patch`` is a unified diff of the candidate that was applied to a copy and checked; ``gone`` and ``stays`` name the other stages
    that were aligned with it, or still diverged. ``cause_zh`` and ``fix_zh`` are the texts in Chinese, '' where there are none.
    ``together`` names the places (``file:line``) of the other edits without which this one proves nothing; the errors are those of all.
    """

    rule: str
    cause: str
    fix: str
    proven: bool = False
    error_before: Optional[float] = None
    error_after: Optional[float] = None
    patch: str = ""
    gone: List[str] = field(default_factory=list)
    stays: List[str] = field(default_factory=list)
    cause_zh: str = ""
    fix_zh: str = ""
    together: List[str] = field(default_factory=list)


@dataclass
class Coverage:
    """How much of something was compared; ``total`` is None where there is no end to it, or nobody knows it."""

    what: str
    compared: int
    total: Optional[int] = None

    def __str__(self) -> str:
        of = "" if self.total in (None, self.compared) else f" of {self.total:,}"
        return f"{self.compared:,}{of} {self.what}"


@dataclass
class Listing:
    """A table that a stage shows below its line: texts, row by row."""

    title: str
    columns: List[str]
    rows: List[List[str]]


@dataclass
class StageResult:
    """What one stage came to.

    ``divergences`` are all guilty points that were found, ``divergence`` the first; several may have one fault. ``follows`` names earlier
    stages that diverged, whose fault this one may only have inherited.
    ``coverage`` says, in numbers, how much was looked at of what is only looked at in part. ``tables`` are shown as they are.
    ``doubts`` say that all rests on less than it seems: in the shortest form, too, which leaves out most ``warnings``.
    ``lacks`` names the functions without which nothing could be tested.
    """

    name: str
    verdict: str = NOT_TESTED
    method: str = ""
    pairs: List[Pair] = field(default_factory=list)
    divergence: Optional[Divergence] = None
    divergences: List[Divergence] = field(default_factory=list)
    findings: List[Finding] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    failure: Optional[Dict[str, Any]] = None
    seconds: Dict[str, float] = field(default_factory=dict)
    peak_bytes: Dict[str, float] = field(default_factory=dict)
    coverage: List[Coverage] = field(default_factory=list)
    follows: List[str] = field(default_factory=list)
    tables: List[Listing] = field(default_factory=list)
    doubts: List[str] = field(default_factory=list)
    lacks: List[str] = field(default_factory=list)

    def doubt(self, warning: str) -> None:
        """Warn, first of all, of what the verdict rests on."""
        self.warnings.insert(0, warning)
        self.doubts.append(warning)

    def list_first(self) -> "StageResult":
        """Put ``divergence`` at the head of ``divergences``, where a stage set it alone; returns itself."""
        if self.divergence is not None:
            self.divergences = [self.divergence, *(d for d in self.divergences if d is not self.divergence)]
        return self

    @property
    def wrong(self) -> List[Pair]:
        """The pairs that are judged, and differ."""
        return wrong_of(self.pairs)

    @property
    def worst(self) -> Optional[Pair]:
        """The judged pair with the greatest error ÷ noise; a pair without one counts as infinite, or as least where it is aligned."""
        judged = [p for p in self.pairs if p.judged]
        return max(judged, key=_badness, default=None)


@dataclass
class PartTime:
    """Seconds of one part of a check, and how many of them paralign waited for a side."""

    seconds: float = 0.0
    waiting: float = 0.0


@dataclass
class JobTime:
    """How often a side did one task, in how many seconds, and seconds in which it computed."""

    count: int = 0
    seconds: float = 0.0
    busy: float = 0.0


@dataclass
class SideTime:
    """Where the time of one side went.

    ``starts`` processes were started; ``start`` seconds passed until they took a job (interpreter and paralign), and ``imports`` until
    the framework and the side's module were there. ``exchange``: between paralign and the side, beside the jobs. ``reused``: captures
    that were not recorded again.
    """

    starts: int = 0
    start: float = 0.0
    imports: float = 0.0
    exchange: float = 0.0
    reused: int = 0
    jobs: Dict[str, JobTime] = field(default_factory=dict)


@dataclass
class CheckTime:
    """Where the time of a check went: seconds in all, by part, and by side."""

    seconds: float
    parts: Dict[str, PartTime] = field(default_factory=dict)
    sides: Dict[str, SideTime] = field(default_factory=dict)


@dataclass(repr=False)
class CheckResult:
    """What a check came to; ``result["forward"]`` is the result of one stage.

    ``command`` makes it again, from the folder above the project's; '' where no command did. ``profile``: where the time went, None where
    nobody asked.
    """

    stages: List[StageResult] = field(default_factory=list)
    preflight: List[str] = field(default_factory=list)
    reference: Dict[str, Any] = field(default_factory=dict)
    candidate: Dict[str, Any] = field(default_factory=dict)
    command: str = ""
    profile: Optional[CheckTime] = None

    #: what makes HTML of a result, given by what stands above this module; None before
    renderer: "ClassVar[Optional[Callable[[CheckResult], str]]]" = None

    def __repr__(self) -> str:
        stages = ", ".join(f"{stage.name} {stage.verdict}" for stage in self.stages)
        return f"CheckResult({self.verdict}{': ' if stages else ''}{stages})"

    def _repr_html_(self) -> Optional[str]:
        """What a notebook shows."""
        return None if CheckResult.renderer is None else CheckResult.renderer(self)

    @property
    def verdict(self) -> str:
        """The worst verdict; stages that were not tested do not count unless there is no other."""
        return overall([s.verdict for s in self.stages])

    def to_dict(self) -> Dict[str, Any]:
        """The report as ``report.json`` holds it (schema: docs/report.md)."""
        stages = []
        for stage in self.stages:
            worst = stage.worst
            stages.append(
                {
                    "name": stage.name,
                    "verdict": stage.verdict,
                    "follows": stage.follows,
                    "method": stage.method,
                    "coverage": [asdict(c) for c in stage.coverage],
                    "error": worst.error if worst else None,
                    "noise": worst.noise.value if worst and worst.noise else None,
                    "ratio": worst.ratio if worst else None,
                    "worst": worst.key if worst else None,
                    "pairs": [_pair_to_dict(p) for p in stage.pairs],
                    "divergence": _divergence_to_dict(stage.divergence) if stage.divergence else None,
                    "divergences": [_divergence_to_dict(d) for d in stage.divergences],
                    "findings": [asdict(f) for f in stage.findings],
                    "notes": stage.notes,
                    "warnings": stage.warnings,
                    "failure": stage.failure,
                    "seconds": stage.seconds,
                    "peak_bytes": stage.peak_bytes,
                    "tables": [asdict(t) for t in stage.tables],
                }
            )
        report: Any = plain(
            {
                "schema": SCHEMA,
                "verdict": self.verdict,
                "command": self.command,
                "preflight": self.preflight,
                "reference": self.reference,
                "candidate": self.candidate,
                "stages": stages,
                **({} if self.profile is None else {"profile": asdict(self.profile)}),
            }
        )
        return dict(report)

    def to_json(self) -> str:
        """:meth:`to_dict` as text; control characters are escaped."""
        return plain_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False))

    def __getitem__(self, stage: str) -> StageResult:
        for result in self.stages:
            if result.name == stage:
                return result
        raise KeyError(stage)


def _pair_to_dict(pair: Pair) -> Dict[str, Any]:
    ends = {}
    for side, record in (("reference", pair.reference), ("candidate", pair.candidate)):
        ends[side] = (
            None
            if record is None
            else {
                "name": record.key,
                "op": record.op,
                "dtype": record.dtype,
                "shape": list(record.shape),
                "source": record.source,
                "text": record.text,
            }
        )
    return {
        "key": pair.key,
        "verdict": pair.verdict,
        "judged": pair.judged,
        "how": pair.how,
        "transform": pair.transform,
        **ends,
        "error": pair.error,
        "noise": pair.noise.value if pair.noise else None,
        "noise_from": pair.noise.how if pair.noise else None,
        "ratio": pair.ratio,
        "granted": asdict(pair.granted) if pair.granted else None,
        "stats": asdict(pair.stats) if pair.stats else None,
        "notes": pair.notes,
    }


def _divergence_to_dict(divergence: Divergence) -> Dict[str, Any]:
    return {
        "reference": asdict(divergence.reference) if divergence.reference else None,
        "candidate": asdict(divergence.candidate) if divergence.candidate else None,
        "pair": divergence.pair.key if divergence.pair else None,
        "inputs_agree": divergence.inputs_agree,
        "last_agreeing": divergence.last_agreeing,
        "confirmed": divergence.confirmed,
        "what": divergence.what,
        "rule": divergence.rule,
        "proposals": [asdict(p) for p in divergence.proposals],
        "error_before": divergence.error_before,
        "error": divergence.error,
        "error_after": divergence.error_after,
        "noise": divergence.noise,
        "repeats": divergence.repeats,
        "chain": divergence.chain,
        "notes": divergence.notes or (divergence.pair.notes if divergence.pair else []),
    }


def _badness(pair: Pair) -> Tuple[int, float]:
    rank = {ALIGNED: 0, NOT_TESTED: 0, UNDERPOWERED: 1, DIVERGED: 2, ERROR: 3}[pair.verdict]
    ratio = pair.ratio
    if pair.granted is not None and pair.stats is not None and pair.error != math.inf:
        return rank, pair.stats.max_abs
    return rank, (-1.0 if rank == 0 else math.inf) if ratio is None else ratio


def overall(verdicts: List[str]) -> str:
    """The verdict of many: error, then diverged, then underpowered, then aligned; not tested only where nothing was."""
    for verdict in (ERROR, DIVERGED, UNDERPOWERED, ALIGNED):
        if verdict in verdicts:
            return verdict
    return NOT_TESTED


def plain(value: Any) -> Union[bool, int, float, str, List[Any], Dict[str, Any], None]:
    """A value as JSON can hold it: dataclasses become dicts, infinities and NaN become the strings ``inf``, ``-inf``, ``nan``."""
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value  # type: ignore[no-any-return]
