"""An issue's text in Markdown that asks a framework for a callable that it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.errors import one_line
from paralign.report.language import current, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from paralign.port.scan.requesting import Request

#: places that are listed: an issue shows that there is a need, it is no inventory
_PLACES = 8


def issues(requests: Iterable[Request]) -> str:
    """The texts of several issues, a rule between them: each is filed by itself."""
    return "\n---\n\n".join(issue(request) for request in requests)


def issue(request: Request) -> str:
    """The text of one issue about a missing callable.

    Title, what is missing, a program with its numbers, where it is used, what is written meanwhile, versions.
    """
    title = say("Please add a counterpart of {name}", name=request.name)
    lines = [f"# {title}", "", f"## {say('What is missing')}", "", f"`{request.signature}`", ""]
    if request.does:
        lines += [say("PyTorch says of it: {sentence}", sentence=one_line(request.does)), ""]
    lines += [say("paddlepaddle {version} has no call of this name, and none is known under another.", version=request.paddle), ""]
    lines += [*_program(request), *_uses(request)]
    lines += [f"## {say('What is written meanwhile')}", "", _meanwhile(request), ""]
    lines += [f"## {say('Versions')}", "", f"- paddlepaddle {request.paddle}", f"- torch {request.torch}"]
    return "\n".join([*lines, *([f"- {request.system}"] if request.system else [])]) + "\n"


def _program(request: Request) -> list[str]:
    lines = [f"## {say('A minimal program')}", ""]
    if not request.program:
        unknown = "no small arguments that it accepts were found" if request.system else "no interpreter with PyTorch was there to run one"
        return [*lines, say("To be written by hand: {why}.", why=say(unknown)), ""]
    lines += ["```python", request.program.rstrip("\n"), "```", ""]
    if not request.printed:
        return [*lines, say("It prints other numbers each time."), ""]
    return [*lines, say("With torch {version} it prints", version=request.torch), "", "```text", request.printed.rstrip("\n"), "```", ""]


def _uses(request: Request) -> list[str]:
    if not request.uses:
        return []
    lines = [f"## {say('Where it is used')}", ""]
    places = list(dict.fromkeys(f"- {_code(row.place)}: {_code(row.source)}" for row in request.uses))
    lines += places[:_PLACES]
    more = len(places) - _PLACES
    return [*lines, *([f"- {say('and {count} more places', count=more)}"] if more > 0 else []), ""]


def _code(text: str) -> str:
    """A text as code: in more backticks than it has in a row."""
    plain = one_line(text)
    marks = "`"
    while marks in plain:
        marks += "`"
    pad = " " if "`" in plain else ""
    return f"{marks}{pad}{plain}{pad}{marks}"


def _meanwhile(request: Request) -> str:
    if request.instead is not None:
        return request.instead.of(current())
    return say("No composition of other calls is known to paralign: one by hand, or a custom operator (paddle.utils.cpp_extension).")
