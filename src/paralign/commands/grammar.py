"""The command line's own parser.

Near names, one form of errors, no abbreviations, options that all commands have.
"""

from __future__ import annotations

import argparse
import math
import os
from typing import TYPE_CHECKING, Any

from paralign.commands.helping import Formatter, translated
from paralign.errors import UsageError, did_you_mean, nearest, quoted
from paralign.report.language import say
from paralign.report.translated_errors import told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: languages of what is printed
LANGUAGES = ("en", "zh")

#: variable of the environment -> the language where ``--lang`` is not given
LANGUAGE = "PARALIGN_LANG"


class Parser(argparse.ArgumentParser):
    """A parser whose errors name what is near; its commands' parsers are of the same class."""

    def __init__(self, **given: Any) -> None:
        given.setdefault("formatter_class", Formatter)
        given.setdefault("allow_abbrev", False)  # an abbreviation of today is another option's name tomorrow
        super().__init__(**given)
        #: options that users look for and that are none -> what to write instead
        self.instead: dict[str, str] = {}

    def error(self, message: str) -> Any:
        """Say what is wrong in the form of all errors, and end with exit code 2."""
        self._refuse(UsageError(message, where=self.prog, hint=f"usage: {self._shape()}"))

    def _refuse(self, error: UsageError) -> None:
        self.exit(2, f"paralign: {told(error)}\n")

    def _shape(self) -> str:
        usage = " ".join(self.format_usage().split()).removeprefix(translated("usage: ").strip()).strip()
        return usage if commands_of(self) is None else f"{self.prog} COMMAND …  {say('(`{command} --help` lists them)', command=self.prog)}"

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but refuse an unknown option here.

        Its neighbours are known here.
        """
        words = None if args is None else list(args)
        if words is not None:
            self._check_options(words)
            words = self._options_first(words) if commands_of(self) is None else words
        options, rest = super().parse_known_args(words, namespace)
        if rest:
            self.error(f"{'an argument' if len(rest) == 1 else 'arguments'} too many: {' '.join(quoted(word) for word in rest)}")
        return options, rest

    def _check_options(self, words: list[str]) -> None:
        """Refuse an option that is unknown, whatever else is missing beside it."""
        known = self._option_string_actions
        inner = commands_of(self)
        for word in words:
            if word == "--" or (inner is not None and not word.startswith("-")):
                return  # what follows are no options, or those of another parser
            name = word.partition("=")[0]
            if word.startswith("--") and name not in known:
                near = nearest(name, [*known, *self.instead])
                meant = f"; did you mean {near!r}?" if near in known else f": {self.instead[near]}" if near is not None else ""
                self._refuse(UsageError(f"there is no option {quoted(name)}{meant}", where=self.prog, hint=f"options: {_listed(known)}"))

    def _options_first(self, words: list[str]) -> list[str]:
        """Write ``DIR --json STAGE`` as ``--json DIR STAGE``.

        argparse takes a list of arguments only in one piece.
        """
        if "--" in words:
            return words
        named: list[str] = []
        rest: list[str] = []
        remaining = iter(words)
        for word in remaining:
            action = self._option_string_actions.get(word)
            if action is None and not (word.startswith("-") and len(word) > 1):
                rest.append(word)
                continue
            named.append(word)
            if action is None or action.nargs is not None:
                continue
            value = next(remaining, None)
            if value is None:
                return words  # argparse says what is missing
            named.append(value)
        return [*named, *rest]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is no choice, and name the nearest one."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        what = "command" if isinstance(action, argparse._SubParsersAction) else f"{_named(action)}"  # noqa: SLF001 - the class has no public name
        refused = f"there is no {what} {quoted(value)}"
        self._refuse(
            UsageError(f"{refused}{did_you_mean(str(value), choices)}", where=self.prog, hint=f"choose one of: {', '.join(choices)}")
        )


def _named(action: argparse.Action) -> str:
    """What an argument is called in a message."""
    if action.option_strings:
        return action.option_strings[-1]
    return str(action.metavar or action.dest)


def _listed(options: dict[str, argparse.Action]) -> str:
    return ", ".join(sorted(name for name in options if name.startswith("--")))


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser] | None:
    """Name -> parser of the commands that a parser has; None for one that has none."""
    for action in parser._actions:  # noqa: SLF001 - argparse tells them in no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return None


def leaves(parser: argparse.ArgumentParser, words: Sequence[str] = ()) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every command that can be run: its words, and its parser.

    Words are such as ``("weights", "diff")``.
    """
    inner = commands_of(parser)
    if inner is None:
        yield tuple(words), parser
        return
    for name, each in inner.items():
        yield from leaves(each, [*words, name])


def inner_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands, and of groups of commands such as ``weights``."""
    for each in (commands_of(parser) or {}).values():
        yield each
        yield from inner_parsers(each)


def quiet(parser: argparse.ArgumentParser) -> None:
    """Give a command ``--quiet``: one that prints its conclusion alone."""
    parser.add_argument("-q", "--quiet", action="store_true", help="print the verdict alone, and no progress")


def verbose(parser: argparse.ArgumentParser) -> None:
    """Give a command ``--verbose``: one that prints findings."""
    parser.add_argument("-v", "--verbose", action="store_true", help="print all that is said of each stage, with arguments and chains")


def add_language(top: argparse.ArgumentParser) -> None:
    """Give every command ``--lang``, which may stand before the command as well.

    The last one counts.
    """
    told = f"language of what is printed (default: {LANGUAGE}, else en)"
    top.add_argument("--lang", choices=LANGUAGES, default=None, help=told)
    for parser in inner_parsers(top):
        # a default of its own would replace what was given before the command
        parser.add_argument("--lang", choices=LANGUAGES, default=argparse.SUPPRESS, help=told)


def language(given: str | None) -> str:
    """The language of what a command prints.

    The one that was given, else the environment's, else English.

    Raises:
        UsageError: the environment names a language that is none of ours.
    """
    wanted = given or os.environ.get(LANGUAGE) or "en"
    if wanted not in LANGUAGES:
        raise UsageError(
            f"there is no language {quoted(wanted)}", where=f"the environment's {LANGUAGE}", hint=f"set it to {' or '.join(LANGUAGES)}"
        )
    return wanted


def asked_language(words: Sequence[str]) -> str:
    """The language that a command line asks for, before it is parsed.

    Errors of the command line itself are in it.
    """
    after = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--lang"]
    joined = [word.partition("=")[2] for word in words if word.startswith("--lang=")]
    wanted = next(iter([*after, *joined]), os.environ.get(LANGUAGE, ""))
    return wanted if wanted in LANGUAGES else LANGUAGES[0]


# -- values ----------------------------------------------------------------------------------------------------------------------------


def number(text: str) -> float:
    """A number from 0 on.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no number from 0 on")
    return value


def whole(text: str) -> int:
    """A whole number.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no whole number") from None


def above_zero(text: str) -> int:
    """A whole number above 0.

    Raises:
        ArgumentTypeError: it is none.
    """
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not above 0")
    return value
