"""The tools that agents are offered: what each takes, runs and answers.

The protocol is another file's business.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from paralign.agents.brief import brief, of_report
from paralign.agents.commanding import Commands
from paralign.agents.confined import Root
from paralign.agents.offers import Argument, Kind, Offer
from paralign.errors import ParalignError, UsageError, did_you_mean, quoted, shortened
from paralign.registry import STAGES
from paralign.repair.applying import PATCH
from paralign.report.markdown import markdown
from paralign.report.told import read, told
from paralign.run.project import read as read_project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from paralign.agents.commanding import Done

#: seconds that a command is granted where nothing else is said, and at most
SECONDS, LONGEST = 600.0, 86_400

#: seconds that edits are tried where nothing else is said, as with `paralign repair`; share of a call's time that they may take:
#: the check comes before, and what was found is checked whole behind
SEARCH, SEARCH_SHARE = 120.0, 0.5

#: seconds that reading source, or looking something up, may take: a repository of 10,000 files
READING = 120.0

#: how addresses of reports begin
SCHEME = "paralign://report/"

#: characters of a report's text; a longer one has to be read from its file
REPORT = 200_000

#: statuses of calls that something is to be done about
_TO_DO = ("unknown", "missing", "silent", "arguments", "conditional")

#: fates of places of a conversion that an agent has to look at
_BY_HAND = ("by hand", "condition", "untouched")

_GRANTED = Argument("seconds", Kind.SECONDS, "time that this call may take; at most what the server grants", most=LONGEST)

_NAMES = tuple(stage.name for stage in STAGES)

OFFERS = (
    Offer(
        "scan",
        "List the calls of PyTorch in source files that become something else in Paddle: the worst first, each with its fix. Runs nothing.",
        (Argument("paths", Kind.PATHS, "files and folders", required=True),),
    ),
    Offer(
        "explain",
        "What differs between a call of PyTorch and Paddle's: arguments, defaults, results, the fix.",
        (Argument("api", Kind.TEXT, "such as torch.nn.AvgPool2d or F.pad", required=True),),
    ),
    Offer(
        "convert",
        "Write a first draft of the port (what=code), or a checkpoint in the other framework's layout (what=weights). Files that are there "
        "are never replaced. Places that were not converted raise where they stand, and are listed.",
        (
            Argument("source", Kind.PATH, "a file or folder", required=True),
            Argument("destination", Kind.PATH, "what to write; must not be there", required=True),
            Argument("what", Kind.CHOICE, "code (default) or weights", choices=("code", "weights")),
            Argument("project", Kind.PATH, "with weights: the folder of paralign.toml whose two sides build the models"),
            _GRANTED,
        ),
        writes=True,
        runs=True,
    ),
    Offer(
        "check",
        "Run both sides of a project and compare them stage by stage: the verdict, and of each stage the first wrong line, cause and fix.",
        (
            Argument("project", Kind.PATH, "the folder of paralign.toml", required=True),
            Argument("stages", Kind.CHOICES, "left out: those of the project", choices=_NAMES),
            Argument("fresh", Kind.FLAG, "run the reference again although nothing of it has changed"),
            _GRANTED,
        ),
        writes=True,
        runs=True,
    ),
    Offer(
        "locate",
        "Find in the captures of an earlier check where the runs part, operation by operation. Runs nothing.",
        (Argument("result", Kind.PATH, "the output folder of a check, such as port/result", required=True), _GRANTED),
    ),
    Offer(
        "repair",
        "Check a project and try edits of one statement on a copy of the candidate: causes, and the patch that was proven. Edits that name "
        "each other in `together` prove nothing alone. The candidate's own files are not changed: read the patch, and write it yourself.",
        (
            Argument("project", Kind.PATH, "the folder of paralign.toml", required=True),
            Argument("stages", Kind.CHOICES, "left out: those of the project", choices=_NAMES),
            Argument("search", Kind.SECONDS, "how long edits are tried (120); at most half of the call's time", most=LONGEST),
            _GRANTED,
        ),
        writes=True,
        runs=True,
    ),
    Offer(
        "verify",
        "Judge a port by a specification outside of it: weights and inputs drawn anew, the port's process watched. Only `accepted` counts.",
        (
            Argument("port", Kind.PATH, "the folder of the port", required=True),
            Argument("specification", Kind.PATH, "the folder of paralign.toml and the reference", required=True),
            Argument("rounds", Kind.WHOLE, "sets of weights and inputs (3)", most=100),
            Argument("sizes", Kind.WHOLES, "lengths of the first axis, one a round", most=65_536),
            _GRANTED,
        ),
        runs=True,
    ),
)


class Tools:
    """The tools over one folder.

    Args:
        root: the folder that all paths lie in.
        seconds: granted to one call at most.

    Raises:
        UsageError: the root is no folder.
    """

    def __init__(self, root: str | Path, seconds: float = SECONDS) -> None:
        self.root, self._seconds = Root(root), seconds
        self._commands = Commands(self.root.folder)
        self.reports: dict[str, Path] = {}
        self._made: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "scan": self._scan, "explain": self._explain, "convert": self._convert, "check": self._check, "locate": self._locate,
            "repair": self._repair, "verify": self._verify,
        }  # fmt: skip

    def call(self, name: str, arguments: Any) -> dict[str, Any]:
        """Run a tool.

        Args:
            name: of an offer.
            arguments: as the agent sent them.

        Raises:
            ParalignError: the tool or an argument is wrong, or the command failed; says why in a line.
        """
        offers = {offer.name: offer for offer in OFFERS}
        if name not in offers:
            raise UsageError(f"there is no tool {quoted(name)}{did_you_mean(str(name), offers)}", hint=f"there are: {', '.join(offers)}")
        return brief(self._made[name](offers[name].read({} if arguments is None else arguments, self.root)))

    def report(self, address: str) -> str:
        """The Markdown of a check's report.

        Args:
            address: ``paralign://report/`` and the path of the output folder from the root.

        Raises:
            ParalignError: it is no such address, leads out of the root, or there is no report.
        """
        if not address.startswith(SCHEME):
            raise UsageError(f"this is no address of a report: {quoted(address)}", hint=f"{SCHEME}FOLDER")
        folder = self.root.path(unquote(address[len(SCHEME) :]), "the address")
        file = folder / "report.json" if folder.is_dir() else folder
        if not file.resolve().is_relative_to(self.root.folder):
            raise UsageError("the report is a link that leads out of the root", where=quoted(address))
        return shortened(markdown(read(file, self.root.folder)), REPORT)

    # -- the tools ---------------------------------------------------------------------------------------------------------------------

    def _run(self, words: list[str], given: dict[str, Any], most: float | None = None) -> Done:
        return self._commands.run(words, min(self._granted(given), most or self._seconds))

    def _granted(self, given: dict[str, Any]) -> float:
        return float(min(given.get("seconds", self._seconds), self._seconds))

    def _words(self, *paths: Path) -> list[str]:
        return [self.root.within(path) for path in paths]

    def _scan(self, given: dict[str, Any]) -> dict[str, Any]:
        for path in given["paths"]:
            self.root.check_links(path)
        found = _answer(self._run(["scan", *self._words(*given["paths"]), "--json"], given, READING))
        calls = sorted((call for call in found["calls"] if call["status"] in _TO_DO), key=lambda call: _TO_DO.index(call["status"]))
        kept = ("path", "line", "source", "name", "status", "port", "notes")
        return {
            "statuses": found["statistics"]["status"],
            "files": len(found["files"]),
            "not_read": [each["path"] for each in found["files"] if each.get("problem")],
            "to_do": [{key: call[key] for key in kept} for call in calls],
            "other_libraries": found["foreign"],
        }

    def _explain(self, given: dict[str, Any]) -> dict[str, Any]:
        if given["api"].startswith("-"):
            raise UsageError(f"this is no name of a call: {quoted(given['api'])}")
        return _answer(self._run(["explain", given["api"], "--json"], given, READING))

    def _convert(self, given: dict[str, Any]) -> dict[str, Any]:
        self.root.check_links(given["source"])
        source, destination = self._words(given["source"], given["destination"])
        if given.get("what", "code") == "weights":
            model = ["--model", *self._words(given["project"])] if "project" in given else []
            return _answer(self._run(["convert", "weights", source, destination, *model, "--json"], given))
        if "project" in given:
            raise UsageError("project belongs to what='weights'")
        found = _answer(self._run(["convert", "code", source, destination, "--json"], given))
        left = sorted((place for place in found["places"] if place["fate"] in _BY_HAND), key=lambda each: _BY_HAND.index(each["fate"]))
        return {"counts": found["counts"], "files": found["files"], "to_do": left}

    def _check(self, given: dict[str, Any]) -> dict[str, Any]:
        words, out = self._judged("check", given)
        fresh = ["--fresh"] if given.get("fresh") else []
        return self._reported(self._run([*words, *fresh], given), out)

    def _repair(self, given: dict[str, Any]) -> dict[str, Any]:
        words, out = self._judged("repair", given)
        search = min(given.get("search", SEARCH), SEARCH_SHARE * self._granted(given))
        done = self._run([*words, "--seconds", f"{search:g}"], given)
        answer = self._reported(done, out)
        return {**answer, **self._repaired(done, out)}

    def _repaired(self, done: Done, out: Path) -> dict[str, Any]:
        """The edits that were proven, each with the lines of its patch.

        Texts of an answer have no line ends.
        """
        stages = _answer(done)["stages"]
        found = [(stage["name"], finding) for stage in stages for finding in stage["findings"] if finding["patch"]]
        return {
            "edits": [
                {
                    "stage": name,
                    **{key: each[key] for key in ("rule", "cause", "fix", "proven", "together", "gone", "stays")},
                    "patch": each["patch"].splitlines(),
                }
                for name, each in found
            ],
            "patch": self.root.within(out / PATCH) if found else None,
            "aligned_with_the_patch": done.code == 0,
        }

    def _judged(self, command: str, given: dict[str, Any]) -> tuple[list[str], Path]:
        """The words of a command that runs a project, and the project's output folder.

        The folder was seen to lie below the root.
        """
        project = read_project(given["project"])
        out = self.root.path(str(project.out), "the project's output folder")
        return [command, *self._words(given["project"]), *given.get("stages", []), "--json", "--out", self.root.within(out)], out

    def _locate(self, given: dict[str, Any]) -> dict[str, Any]:
        return self._reported(self._run(["locate", *self._words(given["result"]), "--json"], given), None)

    def _reported(self, done: Done, out: Path | None) -> dict[str, Any]:
        report = told(_answer(done), "the report", self.root.folder)
        if out is None:
            return of_report(report)
        address = f"{SCHEME}{quote(self.root.within(out)[2:])}"
        self.reports[address] = out
        return {**of_report(report), "page": self.root.within(out / "report.html"), "report": address}

    def _verify(self, given: dict[str, Any]) -> dict[str, Any]:
        port, specification = self._words(given["port"], given["specification"])
        sizes = ["--sizes", ",".join(map(str, given["sizes"]))] if given.get("sizes") else []
        found = _answer(self._run(["verify", port, "--spec", specification, "--rounds", str(given.get("rounds", 3)), *sizes], given))
        return {"certificate": found, "judgement": found["judgement"], "reasons": found["reasons"]}


def _answer(done: Done) -> dict[str, Any]:
    """The JSON that a command printed.

    Raises:
        ParalignError: it printed none: it failed, and says why.
    """
    try:
        found = json.loads(done.output)
    except ValueError:
        raise ParalignError(shortened(done.messages.removeprefix("paralign: "), 2000) or f"the command ended with {done.code}") from None
    if not isinstance(found, dict):
        raise ParalignError("the command printed no object")
    return found
