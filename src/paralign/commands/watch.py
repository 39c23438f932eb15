"""``paralign watch-memory`` and ``paralign watch-loader``: why trainings are slow.

Or why they run out of memory.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from paralign.commands.grammar import number, quiet, whole
from paralign.commands.under_way import Progress
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.capture import Capture
    from paralign.comparison.trend import Trend
    from paralign.context import Context
    from paralign.worker.protocol import LoaderTold, MemoryWatched, Padding

EPILOG = "exit codes: 0 nothing grows · 1 something grows · 2 wrong usage · 3 a side failed · 4 nothing could be concluded"

#: what is counted: name of the series -> what it is called, unit, least growth a step that counts
#: (a page of memory; half an object: what is kept every second step; bytes of one small Python object)
SERIES = {
    "host": ("memory of the process", "bytes", 4096.0),
    "device": ("memory of the device", "bytes", 512.0),
    "tensors": ("live tensors", "", 0.5),
    "nodes": ("nodes of kept graphs", "", 0.5),
    "python": ("Python's own objects", "bytes", 64.0),
}

#: growth of the process alone, in bytes over the whole run, below which it is the allocators' own
SLACK = 1 << 20

#: share of a step that the reader may take before more workers are advised
READER = 0.1

#: gain in time of a batch below which another number of workers is not advised
GAIN = 0.1

#: standard errors by which two times differ that are not taken for chance
SURE = 3.0


@dataclass
class Growth:
    """One side's memory over the steps."""

    side: str
    what: str
    steps: int
    trends: dict[str, Trend]
    growing: list[str]
    containers: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    graphs: list[dict[str, Any]] = field(default_factory=list)
    fixes: list[str] = field(default_factory=list)
    unwatched: str = ""


def add_commands(commands: Any) -> None:
    """Add both commands."""
    memory = commands.add_parser(
        "watch-memory",
        help="find what grows from step to step",
        epilog=EPILOG,
        description="Do a side's training step, forward pass or prediction many times; say what grows, and which line's result is kept.",
    )
    memory.add_argument("directory", nargs="?", default=".", metavar="DIR", help="folder of paralign.toml (here, if left out)")
    memory.add_argument("--side", choices=["reference", "candidate", "both"], default="both", help="whose program (default: both)")
    memory.add_argument(
        "--what", choices=["step", "forward", "predict"], default="step", help="what is repeated (default: step, a training step)"
    )
    memory.add_argument("--steps", type=whole, default=30, metavar="N", help="how often, from 8 (default: 30)")
    memory.add_argument("--json", action="store_true", help="print everything as JSON")
    quiet(memory)
    memory.set_defaults(run=_memory)
    loader = commands.add_parser(
        "watch-loader",
        help="find how many loader workers are needed, and how much is padding",
        description="Time a side's data loader beside its training step, with several numbers of workers; say which number to take, and "
        "what sorting by length would save.",
    )
    loader.add_argument("directory", nargs="?", default=".", metavar="DIR", help="folder of paralign.toml (here, if left out)")
    loader.add_argument("--side", choices=["reference", "candidate", "both"], default="both", help="whose loader (default: both)")
    loader.add_argument("--workers", default="0,4,8", metavar="N,N,…", help="numbers of workers to try (default: 0,4,8)")
    loader.add_argument("--seconds", type=number, default=20.0, help="that one number of workers may take (default: 20)")
    loader.add_argument("--json", action="store_true", help="print everything as JSON")
    quiet(loader)
    loader.set_defaults(run=_loader)


def _sides(options: argparse.Namespace) -> list[str]:
    return ["reference", "candidate"] if options.side == "both" else [options.side]


# -- memory --------------------------------------------------------------------------------------------------------------------


def _memory(options: argparse.Namespace) -> int:
    from paralign.api import opened
    from paralign.errors import UsageError

    if options.steps < 8:  # noqa: PLR2004 - fewer prove nothing
        raise UsageError(f"--steps must be at least 8, not {options.steps}", hint="growth of fewer steps cannot be told from chance")
    with Progress(quiet=options.quiet) as progress:
        progress.step("starting both sides")
        with opened(options.directory) as context:
            found = []
            for side in _sides(options):
                progress.step(f"{options.steps} steps of the {side}")
                found.append(_grown(context, side, options.what, options.steps))
    if options.json:
        import json

        print(json.dumps([asdict(each) for each in found], indent=1))
    else:
        print("\n".join(line for each in found for line in ([_grows(each)] if options.quiet else _told(each))))
    return 1 if any(each.growing for each in found) else 0


def _grown(context: Context, side: str, what: str, steps: int) -> Growth:
    from paralign.errors import UsageError
    from paralign.worker.protocol import Memory

    values = {n: c for n, c in (("inputs", context.inputs), ("labels", context.labels)) if c is not None}
    if what == "predict" and not context.settings.paths:
        raise UsageError("there is no path to predict from", hint="set [infer] paths in paralign.toml")
    if what != "predict" and "inputs" not in values:
        raise UsageError("there are no inputs", hint="set [inputs] in paralign.toml, or define inputs() in the reference")
    order = Memory(what, steps, 5, (context.settings.paths or [""])[0])
    return judged(getattr(context, side).record("memory", order, values), side, what)


def judged(capture: Capture, side: str, what: str) -> Growth:
    """What a recording of the task ``memory`` shows."""
    from paralign.comparison.trend import trend
    from paralign.worker.protocol import Memory

    answer = Memory.answer(capture)
    steps = answer.steps
    trends = {name: trend([float(v) for v in capture.array(capture.select(name=name)[0])]) for name in SERIES}
    growing = [name for name, (_, _, least) in SERIES.items() if trends[name].grows(least)]
    if "python" in growing and not explained(answer, trends["python"].slope):
        growing.remove("python")  # no line of the user's keeps it: caches of the interpreter and of the framework
    if growing == ["host"] and trends["host"].slope * steps < SLACK:
        growing = []
    found = Growth(side, what, steps, trends, growing, unwatched=answer.unwatched)
    if growing:
        found.containers, found.lines = answer.containers, answer.lines
        found.graphs = answer.graphs if "nodes" in growing or any(c["graph"] for c in found.containers) else []
        found.fixes = list(dict.fromkeys(_fixes(found)))
    return found


def explained(answer: MemoryWatched, slope: float) -> bool:
    """Whether the user's program keeps what grows, frameworks' own caches aside.

    A container grows, or half of the growth is by the program's lines.
    """
    if answer.containers:
        return True
    return sum(float(each["bytes"]) for each in answer.lines) * 2 >= slope > 0


def _fixes(found: Growth) -> list[str]:
    fixes = []
    if found.graphs or any(each["graph"] for each in found.containers):
        fixes.append("what is kept over steps keeps its whole graph: keep a number (float(loss), loss.item()) or loss.detach()")
        if found.what != "step":
            fixes.append("put prediction under torch.no_grad() or paddle.no_grad()")
    elif any(each["tensor"] and not each["host"] for each in found.containers):
        fixes.append(
            "keep arrays on the host instead of tensors (PyTorch: x.detach().cpu().numpy(), Paddle: x.numpy(), else numpy.asarray(x)), "
            "or as many as are needed"
        )
    elif found.containers:
        fixes.append("bound what is kept (collections.deque(maxlen=…)), or clear it after each epoch")
    if found.growing == ["device"] or ("device" in found.growing and not found.containers):
        fixes.append(
            "write masked values with paddle.where or torch.where instead of by slices (x[mask] = v), which makes a tensor each time"
        )
    return fixes or ["nothing of Python's keeps it: look at what compiled code allocates (custom operators, readers), and at its caches"]


def _grows(found: Growth) -> str:
    """What grows on a side, in a line."""
    if found.growing:
        return f"{say(found.side)}: {say('{names} grows', names=', '.join(say(SERIES[name][0]) for name in found.growing))}"
    return f"{say(found.side)}: {say('nothing grows')}"


def _told(found: Growth) -> list[str]:
    from paralign.errors import one_line

    names = {"step": "{count} training steps", "forward": "{count} forward passes", "predict": "{count} predictions"}
    lines = [f"{say(found.side)}: {say(names[found.what], count=found.steps)}"]
    if found.unwatched:
        lines.append(say("  train_step was not watched, a step by the loss was: it fails on inputs and labels alone: ") + found.unwatched)
    for name, (said, unit, _) in SERIES.items():
        each = found.trends[name]
        size = f"{each.slope:+,.0f} {say(unit)}" if unit else f"{each.slope:+.2f}"
        grows = say("grows (chance {chance})", chance=f"{each.chance:.0e}") if name in found.growing else say("does not grow")
        lines.append(f"  {say(said)}: {say('{size} a step', size=size)}: {grows}")
    for kept in found.containers:
        holder, count = f"{kept['type']} {kept['holder']}", f"{kept['entries']:+.2f}"
        lines.append(say("  kept: {holder}: {count} entries a step ({of})", holder=holder, count=count, of=kept["of"]))
        lines += _at(kept["line"], "made at")
    for kept in found.graphs:
        within = say(" in {holder}", holder=kept["holder"]) if kept["holder"] else ""
        lines.append(say("  kept: a tensor with a graph of {count} nodes", count=kept["nodes"]) + within)
        lines += _at(kept["line"], "made at")
    for kept in found.lines if not found.containers and not found.graphs else []:
        size, count = f"{kept['bytes']:+,.0f}", f"{kept['objects']:+.1f}"
        lines.append(say("  kept: {size} bytes, {count} objects a step", size=size, count=count))
        lines += _at(kept["line"], "made at")
    return [one_line(line) for line in [*lines, *(f"  {say('fix: ')}{say(fix)}" for fix in found.fixes)]]


def _at(line: str | None, said: str) -> list[str]:
    from paralign.locate.optimizer.setting_lines import code_at

    if not line:
        return []
    return [f"    {say(said)} {line}: {code_at(line) or ''}"]


# -- loader --------------------------------------------------------------------------------------------------------------------


def _loader(options: argparse.Namespace) -> int:
    from paralign.api import opened
    from paralign.errors import UsageError
    from paralign.worker.protocol import Loading

    texts = [text.strip() for text in options.workers.split(",")]
    if not all(text.isdigit() and int(text) <= 256 for text in texts):  # noqa: PLR2004 - more than any machine feeds
        raise UsageError(f"--workers takes numbers from 0 to 256, not {options.workers!r}", hint="such as --workers 0,4,8")
    answers: dict[str, LoaderTold] = {}
    sides = _sides(options)
    with (
        Progress(quiet=options.quiet, steps=sides, seconds=dict.fromkeys(sides, options.seconds * len(texts))) as progress,
        opened(options.directory) as context,
    ):
        for side in sides:
            if not context.has(side, "build_dataloader"):
                continue
            progress.step(side)
            values = {n: c for n, c in (("inputs", context.inputs), ("labels", context.labels)) if c is not None}
            values = values if context.has(side, "build_model") and "inputs" in values else {}
            order = Loading(context.settings.split, [int(text) for text in texts], options.seconds)
            answers[side] = Loading.answer(getattr(context, side).record("loading", order, values))
    if not answers:
        raise UsageError("no side has build_dataloader(split)", hint="define it in the side's module")
    if options.json:
        import json

        print(json.dumps({side: {**asdict(answer), "advice": advice(answer)} for side, answer in answers.items()}, indent=1))
        return 0
    for side, answer in answers.items():
        print(f"{say(side)}: {say(advice(answer)[0])}" if options.quiet else "\n".join(_timed(side, answer)))
    return 0


def advice(answer: LoaderTold) -> list[str]:
    """What a recording of the task ``loading`` advises."""
    timed = [(each.seconds, each.workers) for each in answer.tried if each.seconds]
    if not timed or not answer.tried[0].seconds:  # the first is the loader as it is: without it nothing is faster
        return ["the loader gives too few batches to be timed"]
    (seconds, own), step = timed[0], answer.step
    least = min(timed, key=lambda each: each[0])
    said = []
    share = None if step is None else seconds / (seconds + step) if not own else max(0.0, 1 - step / seconds)
    if share is not None and share < READER:
        said.append(f"the reader takes {share:.0%} of a step: it is not what slows the training")
    elif least is timed[0] or least[0] > seconds * (1 - GAIN):
        if len(timed) > 1:
            said.append(f"keep num_workers={own}, the fastest of those tried: make samples cheaper (smaller files, fewer steps in Python)")
        else:
            said.append(f"keep num_workers={own}, the one number that could be tried: make samples cheaper (smaller files, fewer steps)")
    else:
        needed = [each for each in timed if step is not None and each[0] <= step and each[1]]  # without workers a step waits for its batch
        best = min(needed, key=lambda each: each[1] or 0) if needed else least
        if _is_chance(answer, own, best[1]):
            said.append(f"keep num_workers={own}: times of so few batches vary too much to tell; raise --seconds, or take more samples")
        else:
            said.append(f"set num_workers={best[1]}: a batch comes {seconds / best[0]:.1f} times as fast as with {own}")
    if any(workers and workers > answer.cores for _, workers in timed):
        said.append(f"this machine has {answer.cores} cores: more workers than cores help only where they wait for disks or a network")
    return [*said, *(_padded(each) for each in answer.padding)]


def _is_chance(answer: LoaderTold, *numbers: int | None) -> bool:
    """Whether two numbers of workers differ in time no more than batches spread.

    The mean times are compared.
    """
    one, other = (next(each for each in answer.tried if each.workers == number) for number in numbers)
    errors = [(each.spread or 0.0) / math.sqrt(max(1, each.batches - 1)) for each in (one, other)]
    return abs((one.seconds or 0.0) - (other.seconds or 0.0)) <= SURE * math.hypot(*errors)


def _padded(found: Padding) -> str:
    return (
        f"{found.share:.0%} of {found.leaf or 'the batch'} is padding ({found.mark}); "
        f"in batches of rows sorted by length it would be {found.sorted:.0%}: group rows of like length in a batch sampler"
    )


def _timed(side: str, answer: LoaderTold) -> list[str]:
    lines = [f"{say(side)}: num_workers={answer.own}, {say('{count} cores', count=answer.cores)}"]
    for each in answer.tried:
        spread, seconds = f"{(each.spread or 0.0) * 1e3:.2f}", say("too few batches")
        if each.seconds:
            seconds = say("{time} ms a batch (± {spread})", time=f"{each.seconds * 1e3:.2f}", spread=spread)
        batches = say("{count} batches", count=each.batches)
        lines.append(f"  {say('workers {number}', number=each.workers)}: {seconds}, {batches}")
    lines += [f"  {say('workers {number}', number=number)}: {say('fails')}: {why}" for number, why in answer.failed.items()]
    if answer.step is not None:
        lines.append(f"  {say('a step')}: {answer.step * 1e3:.2f} ms")
    return [*lines, *(f"  {say(said)}" for said in advice(answer))]
