"""``paralign completion bash|zsh|fish``: a completion script made from the parser.

It completes commands, options, their values and stages.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paralign.commands.grammar import commands_of
from paralign.registry import STAGES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish")

EPILOG = "exit codes: 0 printed · 2 wrong usage"

#: words of a metavar that stand for a file or a folder
_FILES = (
    "FILE",
    "DIR",
    "PATH",
    "PROJECT",
    "SPEC",
    "PORT",
    "SRC",
    "DST",
    "SOURCE",
    "REFERENCE",
    "CANDIDATE",
    "RESULT",
    "INTERPRETER",
    "A",
    "B",
)

#: commands whose arguments are stages as well
_STAGED = ("check",)

#: options whose values are stages
_STAGES_OF = "--without"


@dataclass(frozen=True)
class Option:
    """An option: its names, what it says, its values.

    ``files``: a value is a path; ``valued``: it takes one.
    """

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...]
    files: bool
    valued: bool


@dataclass(frozen=True)
class Place:
    """What may stand behind some words.

    ``words`` are those of the command so far, such as ``("weights", "diff")``.
    """

    words: tuple[str, ...]
    commands: dict[str, str]
    values: tuple[str, ...]
    options: tuple[Option, ...]
    files: bool

    @property
    def key(self) -> str:
        """The words as a script compares them."""
        return "".join(f" {word}" for word in self.words)


def add_commands(commands: Any, top: argparse.ArgumentParser) -> None:
    """Add ``completion`` of everything that a parser knows."""
    completion = commands.add_parser(
        "completion",
        help="a script that completes commands in your shell",
        epilog=EPILOG,
        description='Print a script that completes commands, options, their values and stages. bash: eval "$(paralign completion bash)" in '
        "~/.bashrc; zsh: the same in ~/.zshrc behind compinit; fish: paralign completion fish > ~/.config/fish/completions/paralign.fish",
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    completion.set_defaults(run=_completion, parser=top)


def _completion(options: argparse.Namespace) -> int:
    places = list(_places(options.parser, ()))
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](places), end="")
    return 0


def _places(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[Place]:
    inner = commands_of(parser)
    options, values, files = [], [], False
    for action in parser._actions:  # noqa: SLF001 - argparse tells them in no other way
        if action.option_strings:
            options.append(_option(action))
        elif inner is None:
            values += [str(choice) for choice in action.choices or ()]
            files = files or (not action.choices and _is_path(action))
    values += [stage.name for stage in STAGES] if words[:1] == _STAGED else []
    helps = _helps(parser) if inner is not None else {}
    yield Place(words, helps, tuple(values), tuple(options), files)
    for name, each in (inner or {}).items():
        yield from _places(each, (*words, name))


def _helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Command -> what the list of commands says of it."""
    for action in parser._actions:  # noqa: SLF001 - as above
        told = getattr(action, "_choices_actions", None)
        if told is not None:
            return {each.dest: each.help or "" for each in told}
    return {}


def _option(action: argparse.Action) -> Option:
    values = tuple(str(choice) for choice in action.choices or ())
    if _STAGES_OF in action.option_strings:
        values = tuple(stage.name for stage in STAGES)
    valued = action.nargs != 0
    return Option(tuple(action.option_strings), action.help or "", values, valued and not values and _is_path(action), valued)


def _is_path(action: argparse.Action) -> bool:
    shown = str(action.metavar or action.dest.upper())
    return any(word.strip("[]….,") in _FILES for word in shown.split())


# -- bash and zsh: one walk over the words, then what may stand there ---------------------------------------------------------------------


def _known(places: list[Place]) -> str:
    """The patterns of all commands, as ``case`` compares them."""
    return "|".join(f'"{place.key}"' for place in places if place.words)


def _bash(places: list[Place]) -> str:
    lines = [
        "# completion of paralign for bash; made by `paralign completion bash`",
        "_paralign() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" at="" i words="" files=""',
        '    if [ "$word" = "=" ]; then word=""; elif [ "$before" = "=" ]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi',
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        f'        case "$at ${{COMP_WORDS[i]}}" in {_known(places)}) at="$at ${{COMP_WORDS[i]}}" ;; esac',
        "    done",
        '    case "$at $before" in',
    ]
    for place in places:
        lines += [
            f"        {'|'.join(_quoted(f'{place.key} {name}') for name in option.names)}) {_bash_values(option)} ;;"
            for option in place.options
            if option.valued
        ]
    lines += ["        *)", '    case "$at" in']
    for place in places:
        words = " ".join([*place.commands, *place.values])
        options = " ".join(name for option in place.options for name in option.names)
        files = " files=1;" if place.files else ""
        lines.append(f'        "{place.key}") case "$word" in -*) words="{options}" ;; *) words="{words}";{files} ;; esac ;;')
    lines += [
        "    esac ;;",
        "    esac",
        "    local IFS=$'\\n'",
        '    COMPREPLY=($(compgen -W "${words// /$IFS}" -- "$word"))',
        '    if [ -n "$files" ]; then compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$word")); fi',
        "}",
        "complete -F _paralign paralign",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _bash_values(option: Option) -> str:
    return "files=1" if option.files else f'words="{" ".join(option.values)}"'


def _zsh(places: list[Place]) -> str:
    lines = [
        "#compdef paralign",
        "# completion of paralign for zsh; made by `paralign completion zsh`",
        "_paralign() {",
        '    local at="" i',
        "    for ((i = 2; i < CURRENT; i++)); do",
        f'        case "$at ${{words[i]}}" in {_known(places)}) at="$at ${{words[i]}}" ;; esac',
        "    done",
        '    case "$at ${words[CURRENT-1]}" in',
    ]
    for place in places:
        lines += [
            f"        {'|'.join(_quoted(f'{place.key} {name}') for name in option.names)}) {_zsh_values(option)}; return ;;"
            for option in place.options
            if option.valued
        ]
    lines += ["    esac", "    local -a told", '    case "$at" in']
    for place in places:
        told = [*place.commands.items(), *((value, "") for value in place.values)]
        named = [(name, option.help) for option in place.options for name in option.names]
        lines += [f'        "{place.key}")', f"            if [[ ${{words[CURRENT]}} == -* ]]; then told=({_described(named)})"]
        files = "; _files" if place.files else ""
        lines.append(f"            else told=({_described(told)}){files}; fi ;;")
    lines += [
        "    esac",
        "    _describe paralign told",
        "}",
        'if [ "${funcstack[1]}" = _paralign ]; then _paralign "$@"; else compdef _paralign paralign; fi',
    ]
    return "\n".join(lines) + "\n"


def _zsh_values(option: Option) -> str:
    return "_files" if option.files else f"compadd -- {' '.join(option.values)}"


def _described(told: list[tuple[str, str]]) -> str:
    return " ".join(shlex.quote(f"{name}:{_plain(text)}" if text else name) for name, text in told)


def _plain(text: str) -> str:
    """A help text on a line, as argparse prints it."""
    return " ".join(text.replace("%%", "%").split()).replace(":", ",")


# -- fish -----------------------------------------------------------------------------------------------------------------------------


def _fish(places: list[Place]) -> str:
    known = " ".join(shlex.quote(place.key) for place in places if place.words)
    lines = [
        "# completion of paralign for fish; made by `paralign completion fish`",
        "function __paralign_at",
        '    set -l at ""',
        "    for word in (commandline -opc)[2..-1]",
        f'        contains -- "$at $word" {known}; and set at "$at $word"',
        "    end",
        '    test "$at" = "$argv[1]"',
        "end",
        "complete -c paralign -f",
    ]
    for place in places:
        here = f"complete -c paralign -n {shlex.quote(f'__paralign_at {shlex.quote(place.key)}')}"
        lines += [f"{here} -a {shlex.quote(name)} -d {shlex.quote(_plain(text))}" for name, text in place.commands.items()]
        lines += [f"{here} -a {shlex.quote(' '.join(place.values))}"] if place.values else []
        lines += [f"{here} -F"] if place.files else []
        lines += [f"{here} {_fish_option(option)}" for option in place.options]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    value = [] if not option.valued else ["-r -F"] if option.files else [f"-x -a {shlex.quote(' '.join(option.values))}"]
    return " ".join([*names, *value, f"-d {shlex.quote(_plain(option.help))}"])
