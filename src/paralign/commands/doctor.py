"""``paralign doctor``: whether both sides' interpreters can be checked with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paralign.commands.grammar import number, quiet
from paralign.commands.under_way import Progress
from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.run.doctor import Diagnosis
    from paralign.run.examination import Examination, Framework

#: characters of a commit that are shown, as git shows them
_COMMIT = 8

EPILOG = "exit codes: 0 all well · 1 checks would be wrong or impossible · 2 wrong usage · 3 a side's interpreter failed"


def add_commands(commands: Any) -> None:
    """Add ``doctor``."""
    doctor = commands.add_parser(
        "doctor",
        help="examine both sides' interpreters",
        epilog=EPILOG,
        description="In each side's interpreter: versions, build, device, settings, libraries for pictures, and small computations "
        "beside numpy's; what differs between the sides, whether it matters, and the fix. Without a project, this interpreter.",
    )
    doctor.add_argument("directory", nargs="?", metavar="DIR", help="folder of paralign.toml (here, if left out)")
    doctor.add_argument("--json", action="store_true", help="print everything as JSON")
    quiet(doctor)
    doctor.add_argument("--timeout", type=number, metavar="SECONDS", help="time that one interpreter may take (default: 300)")
    doctor.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.run.doctor import LIMIT, diagnose

    directory = None if options.directory is None else Path(options.directory)
    with Progress(quiet=options.quiet) as progress:
        progress.step("examining the interpreters")
        result = diagnose(directory, LIMIT if options.timeout is None else options.timeout)
    lines = _told(result)
    print(_as_json(result) if options.json else "\n".join(lines[-1:] if options.quiet else lines))
    return result.code


def _as_json(result: Diagnosis) -> str:
    import dataclasses
    import json
    import math
    from enum import Enum

    def plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: _plain(value) for key, value in pairs}

    def _plain(value: Any) -> Any:
        if isinstance(value, Enum):
            return value.name.lower()
        return None if isinstance(value, float) and not math.isfinite(value) else value  # JSON has no NaN

    return json.dumps({"code": result.code, **dataclasses.asdict(result, dict_factory=plain)}, indent=1)


def _told(result: Diagnosis) -> list[str]:
    lines = []
    for side in result.sides:
        lines += _of_side(side)
    if result.differences:
        lines.append(say("differences between the sides (reference | candidate)"))
    for each in result.differences:
        told = {"what": say(each.what), "reference": say(each.reference), "candidate": say(each.candidate), "why": say(each.why)}
        if each.matters:
            lines.append("  " + say("{what}: {reference} | {candidate}; matters: {why}", **told))
            lines.append(f"    {say('fix: {fix}', fix=say(each.fix))}")
        else:
            lines.append("  " + say("{what}: {reference} | {candidate}; does not matter: {why}", **told))
    if result.symptoms:
        lines.append(say("findings"))
    for symptom in result.symptoms:
        told = {"severity": say(symptom.severity.value), "side": say(symptom.side), "what": say(symptom.what)}
        lines += ["  " + say("{severity} ({side}): {what}", **told), f"    {say('fix: {fix}', fix=say(symptom.fix))}"]
    return [*lines, _of_kernel(), _of_watching(), say(_CONCLUSIONS[result.code])]


def _of_kernel() -> str:
    """What paralign itself compares with."""
    from paralign.comparison.compiled import SWITCH, State, state

    why = {
        State.SWITCHED_OFF: say("{switch}=0 is set", switch=SWITCH),
        State.ABSENT: say("its kernel was not compiled: there was no C compiler, or no headers of Python, when it was installed"),
        State.BROKEN: say("its kernel is of another system or another Python; install paralign again"),
        State.OUTDATED: say("its kernel is of another version; install paralign again"),
        State.STALE: say("its kernel was compiled from other sources than `native/` has now: run `python native/build_fused.py`"),
    }
    found = state()
    if found is State.IN_USE:
        return say("paralign compares with its compiled kernel")
    return say("paralign compares with numpy alone, some three times slower: {why}", why=why[found])


def _of_watching() -> str:
    """What digests and sketches are made with while a side is watched."""
    from paralign.capture import compiled_passes as passes

    why = {
        passes.ABSENT: say("that kernel was not compiled: there was no C compiler when paralign was installed"),
        passes.BROKEN: say("that kernel is of another system; install paralign again"),
        passes.OUTDATED: say("that kernel is of another version; install paralign again"),
        passes.STALE: say("that kernel was compiled from other sources than `native/` has now: run `python native/build_fused.py`"),
    }
    found = passes.unusable()
    if os.environ.get(passes.SWITCH) != "0" and not found:
        return say("paralign watches with its compiled kernel")
    reason = why[found] if os.environ.get(passes.SWITCH) != "0" else say("{switch}=0 is set", switch=passes.SWITCH)
    return say("paralign watches with the framework's own kernels, which is slower: {why}", why=reason)


_CONCLUSIONS = {0: "all well", 1: "checks would be wrong or impossible", 3: "an interpreter could not be examined"}


def _of_side(side: Examination) -> list[str]:
    python = f"Python {side.python}" if side.python else say("not examined")
    numpy = f", numpy {side.numpy}" if side.numpy else ""
    lines = [f"{say(side.side)}: {side.interpreter} ({python}{numpy})"]
    for framework in side.frameworks:
        lines += _of_framework(side, framework)
    if side.driver:
        lines.append("  " + say("NVIDIA driver {version}", version=side.driver))
    rows = {
        "pictures": [_of_library(name, about) for name, about in side.images.items()],
        "environment": [f"{name}={value}" for name, value in side.environment.items()],
    }
    return lines + [f"  {say(name)}: {', '.join(texts)}" for name, texts in rows.items() if texts]


def _releases(side: Examination, framework: Framework) -> str:
    """How the installed version stands to the one that paralign's tables were made with.

    And what lists all there are: none is asked.
    """
    from paralign.adapters.profile import profile_of
    from paralign.catalogue.parameters import stored

    measured, own = stored(framework.name).version.partition("+")[0], framework.versions.get(framework.name, "").partition("+")[0]
    package = profile_of(framework.name).distributions.get(framework.build or "cpu")
    if package is None or not measured:
        return ""
    numbers = [_numbers(text) for text in (own, measured)]
    stands = "unknown" if not numbers[0] else "same" if numbers[0] == numbers[1] else "older" if numbers[0] < numbers[1] else "newer"
    command = f"{side.interpreter} -m pip index versions {package}"
    newest = say("the newest is not looked up: {command}", command=command)
    return say("{stands}; {newest}", stands=say(_STANDS[stands], own=own, measured=measured), newest=newest)


#: how an installed version stands to the one that the tables were made with -> what is said
_STANDS = {
    "same": "{own} is the version that paralign's tables were made with",
    "older": "{own} is older than {measured}, which paralign's tables were made with",
    "newer": "{own} is newer than {measured}, which paralign's tables were made with",
    "unknown": "paralign's tables were made with {measured}",
}


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a release; none of a development build."""
    parts = text.split(".")
    if all(part.isdecimal() for part in parts) and any(map(int, parts)):
        return tuple(map(int, parts))
    return ()


def _of_library(name: str, about: dict[str, str]) -> str:
    if "failure" in about:
        return say("{name} (cannot be imported)", name=name)
    if "version" not in about:
        return say("{name} absent", name=name)
    return f"{name} {about['version']} ({about.get('jpeg') or say('no JPEG')})"


def _of_framework(side: Examination, framework: Framework) -> list[str]:
    if framework.failure:
        return ["  " + say("{name}: cannot be used", name=framework.name)]
    libraries = [f"{name} {value}" for name, value in framework.versions.items() if name not in ("numpy", framework.name)]
    head = say("{name} {version} on {device}", name=framework.name, version=framework.versions.get(framework.name, ""), device=side.device)
    several = [name if value == "yes" else f"{name} {say(value)}" for name, value in framework.collectives.items()]
    settings = [f"{name} {value}" for name, value in (framework.flags or framework.settings).items() if name != "device"]
    checks = [f"{say(check.name)} {say('fails') if check.failure else f'{check.error:.1e}'}" for check in framework.checks]
    parts = {
        "build": ", ".join([*_build(framework), *libraries]),
        "devices": ", ".join(framework.devices),
        "several processes": ", ".join(several),
        "settings": ", ".join(settings),
        "releases": _releases(side, framework),
        "error from numpy": ", ".join(checks) or say("not tried: this adapter has no self-check"),
    }
    return [f"  {head}", *(f"    {say(name)}: {text}" for name, text in parts.items() if text)]


def _build(framework: Framework) -> list[str]:
    """What a framework was built for, and of which commit."""
    if not framework.build:
        return []
    commit = [say("commit {commit}", commit=framework.commit[:_COMMIT])] if framework.commit else []
    return [say("{kind} build", kind=framework.build), *commit]
