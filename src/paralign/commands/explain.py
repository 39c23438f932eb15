"""``paralign explain``: what is known of a call of PyTorch or Paddle."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from paralign.catalogue import Entry, Found

EPILOG = (
    "exit codes: 0 an entry, a signature or an issue was printed · 2 the name is not known, or Paddle has what --issue would ask for · "
    "3 the interpreter of --torch does not answer, or the file cannot be written"
)

#: texts of the two languages
_TEXTS = {
    "en": {
        "differs": "differs", "when": "when", "data": "only", "fix": "fix", "measured": "measured", "arguments": "arguments",
        "write": "write", "shared": "also", "none": "No difference is known; the signatures:", "absent": "not in this Paddle",
    },
    "zh": {
        "differs": "差异", "when": "条件", "data": "仅", "fix": "修正", "measured": "实测", "arguments": "参数",
        "write": "写", "shared": "同样适用", "none": "没有已知差异、签名如下", "absent": "此版本 Paddle 没有",
    },
}  # fmt: skip


def add_commands(commands: Any) -> None:
    """Add ``explain``."""
    explain = commands.add_parser(
        "explain",
        help="what differs between a call of PyTorch and its port",
        epilog=EPILOG,
        description="Print the catalogue's entries of a call: both names, arguments, the difference, the fix, and what was measured.",
    )
    explain.add_argument("api", metavar="API", help="such as torch.nn.AvgPool2d, F.pad, cross_entropy, or an entry's id")
    form = explain.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the entries as JSON")
    form.add_argument("--issue", action="store_true", help="print the text of an issue that asks Paddle's project for a call that it lacks")
    explain.add_argument("--torch", metavar="INTERPRETER", help="with --issue: run its program there (default: here, if it has PyTorch)")
    explain.add_argument("--out", metavar="FILE", help="with --issue: write there instead; nothing is replaced")
    explain.set_defaults(run=_explain)


def _explain(options: argparse.Namespace) -> int:
    from paralign.catalogue import look_up
    from paralign.errors import UsageError, quoted

    if options.issue:
        return _ask(options)
    if options.torch is not None or options.out is not None:
        raise UsageError("--torch and --out belong to --issue, which is not given", hint="add --issue, or leave them out")
    found = look_up(options.api)
    if not found.names:
        hint = f"names like it: {', '.join(found.suggestions)}" if found.suggestions else "name it in full, as in torch.nn.AvgPool2d"
        raise UsageError(f"no call of this name is known: {quoted(options.api)}", hint=hint)
    if options.json:
        _print_json(found)
    else:
        print("\n".join(_told(found, options.lang)))
    return 0


def _ask(options: argparse.Namespace) -> int:
    from paralign.commands.output import write_new
    from paralign.port.scan.requesting import of_name
    from paralign.report.issues import issue

    write_new(issue(of_name(options.api, options.torch)), options.out)
    return 0


def _print_json(found: Found) -> None:
    import dataclasses
    import json
    from enum import Enum

    def plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: value.value if isinstance(value, Enum) else value for key, value in pairs}

    entries = [{**dataclasses.asdict(entry, dict_factory=plain), "status": _status(entry).partition(",")[0]} for entry in found.entries]
    json.dump({"names": found.names, "entries": entries}, sys.stdout, indent=1, ensure_ascii=False)
    print()


def _told(found: Found, language: str) -> list[str]:
    from paralign.catalogue.naming import paddle_name
    from paralign.catalogue.parameters import stored

    if not found.entries:
        lines = [_TEXTS[language]["none"]]
        for name in found.names:
            lines.append(_signature(name))
            if not name.startswith("paddle"):
                port = paddle_name(name, stored("paddle"))
                lines.append(f"  → {_signature(port) if port else _missing(name, language)}")
        return lines
    lines = []
    for entry in found.entries:
        lines += [*_of(entry, language), ""]
    return lines[:-1]


def _missing(name: str, language: str) -> str:
    from paralign.catalogue.naming import names

    words = names().missing.get(name)
    text = _TEXTS[language]["absent"]
    return text if words is None else f"{text}; {words.of(language)}"


def _signature(name: str) -> str:
    from paralign.catalogue.parameters import stored

    return f"{name}({stored(name.partition('.')[0]).texts.get(name, '…')})"


def _status(entry: Entry) -> str:
    """What an entry comes to in the words of ``scan``.

    Another type of result is a silent difference, too.
    """
    from paralign.catalogue import Outcome

    return "silent, another type" if entry.outcome is Outcome.TYPE else entry.outcome.value


def _of(entry: Entry, language: str) -> list[str]:
    from paralign.catalogue import Outcome

    texts = _TEXTS[language]
    lines = [f"{entry.torch} → {entry.paddle or texts['absent']}   [{entry.id}, {_status(entry)}]"]
    lines += [f"  {_signature(name)}" for name in (entry.torch, entry.paddle) if name]
    if entry.arguments:
        lines.append(f"  {texts['arguments']}: " + ", ".join(f"{ours} → {theirs}" for ours, theirs in entry.arguments.items()))
    lines.append(f"  {texts['differs']}: {entry.differs.of(language)}")
    if entry.when:
        lines.append(f"  {texts['when']}: {entry.when}")
    if entry.data.en:
        lines.append(f"  {texts['data']}: {entry.data.of(language)}")
    if entry.fix.words.en:
        lines.append(f"  {texts['fix']}: {entry.fix.words.of(language)}")
    if entry.fix.set or entry.fix.code or entry.fix.call:
        lines.append(f"  {texts['write']}: {_transformation(entry)}")
    if entry.also:
        lines.append(f"  {texts['shared']}: {', '.join(entry.also)}")
    after = "" if entry.outcome is Outcome.EQUAL else f" → {entry.measured.after}"
    return [*lines, f"  {texts['measured']}: {entry.measured.before}{after}{_versions()}"]


def _transformation(entry: Entry) -> str:
    if entry.fix.code:
        return entry.fix.code
    parts = [f"{name}={value}" for name, value in entry.fix.set.items()]
    if entry.fix.call:
        return entry.fix.call + (f"({', '.join(parts)})" if parts else "")
    return ", ".join(parts)


def _versions() -> str:
    from paralign.catalogue.parameters import stored

    return f" (torch {stored('torch').version.split('+')[0]}, paddle {stored('paddle').version}, CPU)"
