"""What commands print past the translating function: texts with words of their own that have no Chinese form."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

import said_sites

#: files whose texts go to a terminal
COMMANDS = ("commands/", "cli.py")
#: and functions of other files that make a terminal's lines
MAKERS = {
    "report/inventories.py": ("text", "summary", "_head", "_table", "_group", "_place", "_line", "_files", "_alternative"),
    "scaffold/input_tables.py": ("told",),
}

#: calls whose texts are looked up in the tables, each site by a test of its own (test_language, test_translated_errors)
TRANSLATING = frozenset({"say", "told"})
#: calls whose texts are no sentences of a result: help of the command line, patterns, names
NOT_PRINTED = frozenset({"add_parser", "add_argument", "add_subparsers", "add_argument_group", "ArgumentTypeError", "quiet", "compile"})

LANGUAGE_OF_SHELLS = "a script for a shell"
HELP = "help of the command line, which argparse prints in English"
BILINGUAL = "a table of both languages beside it has the words"
FILE = "a line of a file, which others read"
NAMES = "names and versions, no sentence"
#: text -> why it is no sentence that has to be translated
EXEMPT = {
    "No difference is known; the signatures:": BILINGUAL,
    "not in this Paddle": BILINGUAL,
    "silent, another type": NAMES,
    " (torch {}, paddle {}, CPU)": NAMES,
    "Python {}": NAMES,
    ", numpy {}": NAMES,
    "torch {}, paddle {} ({})": NAMES,
    "{} -m pip index versions {}": "a command to type",
    "paralign check {}": "a command to type",
    "{}; {}/{}_list.txt": "a path",
    "--fail-on {}: {}": "an option",
    "paralign: {}": NAMES,
    "paralign: {}\n": NAMES,
    "  paralign: {}\n": NAMES,
    "paralign: {} …": NAMES,
    "paralign {}": NAMES,
    "{}: num_workers={}, {}": "a setting",
    "# {} → {}: {}. reference: names in the source; candidate: names in the destination.\n": FILE,
    "Port a deep-learning model to another framework and prove that it is the same model.": HELP,
    "language of what is printed (default: {}, else en)": HELP,
    "the output": "put into a sentence that is translated whole",
    "{} COMMAND …  {}": "a usage line",
    "an argument": "put into a sentence that is translated whole",
}
#: whole files that print nothing of their own in words
EXEMPT_FILES = {"commands/completion.py": LANGUAGE_OF_SHELLS}


@dataclass
class Finder:
    """The texts of one file that have words and go past the translating function."""

    known: set[str]
    found: list[tuple[int, str]] = field(default_factory=list)

    def look(self, node: ast.AST) -> None:
        """Look at a part of a file's tree, what is inside included."""
        if isinstance(node, ast.Call) and said_sites._called(node) in TRANSLATING | NOT_PRINTED | said_sites.errors():
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            return
        if isinstance(node, (ast.JoinedStr, ast.Constant)):
            text = written(node)
            if text in self.known or text in EXEMPT or text.startswith("exit codes"):
                return
            if in_words(node, text):
                self.found.append((node.lineno, text))
                return
        for inner in ast.iter_child_nodes(node):
            self.look(inner)


def written(node: ast.JoinedStr | ast.Constant) -> str:
    """A text with ``{}`` for each part that is put in; of what is no text nothing."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(part.value if isinstance(part, ast.Constant) else said_sites.PART for part in node.values)


def in_words(node: ast.AST, text: str) -> bool:
    """Whether a text says something: a word beside what is put in, or two words of a plain text."""
    if isinstance(node, ast.JoinedStr):
        return " " in text and re.search("[A-Za-z]{3,}", text) is not None
    return len(re.findall(r"(?<![\w<>/=.-])[A-Za-z]{2,}(?![\w<>/=(.-])", text)) > 1 and " " in text.strip()


def untranslated(known: set[str]) -> list[tuple[str, int, str]]:
    """File, line and text of everything that is printed and has no Chinese form."""
    found = []
    for module in said_sites.modules().values():
        makers = MAKERS.get(module.path, ())
        if (not makers and not module.path.startswith(COMMANDS)) or module.path in EXEMPT_FILES:
            continue
        finder = Finder(known)
        for node in module.tree.body if makers else [module.tree]:
            if not makers or (isinstance(node, ast.FunctionDef) and node.name in makers):
                finder.look(node)
        found += [(module.path, line, text) for line, text in finder.found]
    return found


def of_source(source: str, known: set[str]) -> list[str]:
    """The texts that a piece of source prints past the translating function."""
    finder = Finder(known)
    finder.look(ast.parse(source))
    return [text for _, text in finder.found]
