"""``paralign plot``: charts of a result as PNG or SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from pathlib import Path
    from typing import Any

    import numpy as np

    from paralign.capture import Capture
    from paralign.report.charts import Curve
    from paralign.training import Log

EPILOG = "exit codes: 0 written · 2 wrong usage, or matplotlib is not installed · 3 a file is damaged · 4 there is nothing to draw"

#: the run whose values are shown, the first of these that was recorded: the program as it is goes before the one in double precision
_RUNS = ("native", "")


def add_commands(commands: Any) -> None:
    """Add ``plot``."""
    plot = commands.add_parser(
        "plot",
        help="charts of a result: errors along the model, a tensor's values, losses",
        epilog=EPILOG,
        description="Draw error and noise of every value that a check compared; with --tensor both sides' values of one of them; with "
        "--against the figures of two training logs, one over the other. Nothing is run. Needs the extra `plot`.",
    )
    plot.add_argument("result", nargs="?", default="result", metavar="RESULT", help="a project, an output folder, or a report.json")
    plot.add_argument("--stage", metavar="NAME", help="this stage alone (default: all that measured something)")
    plot.add_argument("--tensor", metavar="KEY", help="histograms of this value; its key as the report has it, such as output")
    plot.add_argument("--against", metavar="LOG", help="RESULT is the reference's training log; draw it with the candidate's")
    plot.add_argument("--out", metavar="FILE", help="a .png or .svg file (default: plots/….png beside the report)")
    plot.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    plot.set_defaults(run=_plot)


def _plot(options: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from paralign.report import charts

    charts.available()
    if options.against:
        found = _curves([options.result, options.against])
        page, folder, name = charts.curves(found) if found else None, Path(), "curves"
    else:
        folder = _folder(options.result)
        page, name = (_tensor(options, folder), f"tensor-{_safe(options.tensor)}") if options.tensor else (_errors(options), "errors")
    if page is None:
        print(say("there is nothing to draw"), file=sys.stderr)
        return 4
    target = Path(options.out) if options.out else folder / "plots" / f"{name}.png"
    charts.save(page, target, overwrite=options.overwrite)
    print(target)
    return 0


def _source(result: str) -> Path:
    """What holds the report: a project's folder leads to its output."""
    from paralign.capture.bounds import checked_path

    source = checked_path(result)
    if not (source / "report.json").exists() and (source / "result" / "report.json").exists():
        return source / "result"
    return source


def _folder(result: str) -> Path:
    source = _source(result)
    return source if source.is_dir() else source.parent


def _errors(options: argparse.Namespace) -> Any:
    from paralign.errors import UsageError, did_you_mean, quoted
    from paralign.report import charts
    from paralign.report.told import read

    report = read(_source(options.result))
    stages = [stage for stage in report.stages if any(pair.error is not None for pair in stage.pairs)]
    if options.stage:
        names = [stage.name for stage in report.stages]
        if options.stage not in names:
            raise UsageError(
                f"the report has no stage {quoted(options.stage)}{did_you_mean(options.stage, names)}", hint=f"it has: {', '.join(names)}"
            )
        stages = [stage for stage in stages if stage.name == options.stage]
    return charts.errors(stages) if stages else None


def _tensor(options: argparse.Namespace, folder: Path) -> Any:
    """The histograms of one value, from the captures that a check left."""
    from paralign.capture import Capture
    from paralign.errors import UsageError, quoted
    from paralign.report import charts
    from paralign.report.told import names_of

    seen: list[Capture] = []
    for stage, names in names_of(_source(options.result), options.tensor):
        if options.stage not in (None, stage):
            continue
        places = [folder / "captures" / side / stage for side in ("reference", "candidate")]
        if all(place.is_dir() for place in places):
            captures = [Capture.open(place) for place in places]
            seen += [capture for capture, name in zip(captures, names, strict=True) if capture.select(name=name)]
            arrays = [_values(capture, name) for capture, name in zip(captures, names, strict=True)]
            if arrays[0] is not None and arrays[1] is not None:
                return charts.histograms(f"{stage}: {options.tensor}", arrays[0], arrays[1])
    for capture in seen:
        capture.require_values()
    raise UsageError(
        f"no values of both sides are kept under {quoted(options.tensor)}",
        where=str(folder),
        hint='name a key of `paralign report`; values of modules are kept where [forward] has modules = "full"',
    )  # fmt: skip


def _values(capture: Capture, name: str) -> np.ndarray[Any, Any] | None:
    """The values of a record, of the first run that was recorded.

    Of the stage ``init`` those of its first seed.
    """
    found = [record for record in capture.select(name=name) if record.location is not None and record.leaf != "moments"]
    for run in (*_RUNS, *dict.fromkeys(record.run for record in found)):
        for record in found:
            if record.run == run:
                return capture.array(record)
    return None


def _curves(paths: list[str]) -> list[Curve]:
    """Figures that both logs have, train and eval apart, by the order of their lines."""
    import numpy as np

    from paralign.report.charts import Curve
    from paralign.training import read_log

    logs: list[Log] = [read_log(path) for path in paths]
    found = []
    for name in logs[0].names:
        for kind in dict.fromkeys(row.kind for row in logs[0].rows):
            series = [log.series(name, kind) for log in logs]
            if all(series):
                first, second = ((np.arange(len(each)), np.array(list(each.values()))) for each in series)
                found.append(Curve(f"{name} ({kind.lower()})", first, second))
    return found


def _safe(key: str) -> str:
    """A key as part of a file's name."""
    import re

    return re.sub(r"[^\w.-]+", "_", key)[:80]
