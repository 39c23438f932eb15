"""The test functions of paconvert, converted by paralign and by paconvert, executed, and their values compared.

``python benchmarks/paconvert_tests/table.py DIR`` takes the folder ``tests`` of a checkout of PaddlePaddle/PaConvert, and prints how many
programs are right, flagged and silently wrong. ``--paconvert PROGRAM`` converts them with that program too. ``--only NAME`` takes the files
``test_NAME*.py`` alone, ``--every N`` every N-th program, ``--from N`` from the N-th on (0 is the first),
``--limit SECONDS`` ends a program after that time, ``--write FILE`` writes the table, ``--list FILE`` every outcome as JSON lines.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import executing
from borrowed import Snippet, snippets
from executing import ENDS, KIND, RAISES, REFUSES, SAME, UNRUN, VALUE, Found, apart, judged

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate, FileFate

#: what may become of a program
RIGHT, OTHER, CONDITION, FLAGGED, LOUD, WRONG = (
    "right", "right but for a dtype or gradient", "told under a condition", "left by hand", "raises in Paddle", "silently wrong",
)  # fmt: skip
KINDS = (RIGHT, OTHER, CONDITION, FLAGGED, LOUD, WRONG)

#: files that paconvert is given at once: it stops at the first that it cannot read
_BATCH = 100

#: programs that share a process
_TOGETHER = 100


@dataclass
class Converted:
    """What a converter made of every program: a text, and what it said of it."""

    name: str
    texts: dict[str, str] = field(default_factory=dict)
    flagged: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)

    def result(self, file: str, outcome: str) -> str:
        """What became of a program, by what its run gave and what was said before."""
        if outcome == SAME:
            return RIGHT
        if file in self.flagged or outcome == REFUSES:
            return FLAGGED
        if outcome in (RAISES, ENDS):
            return LOUD
        if file in self.told:
            return CONDITION
        return OTHER if outcome == KIND else WRONG


def by_paralign(source: Path, target: Path) -> Converted:
    """The programs as ``paralign convert code`` writes them."""
    made = Converted("paralign convert code")
    ledger = convert_code(source, target)
    made.flagged = {place.path for place in ledger.places if place.fate is Fate.BY_HAND}
    made.flagged |= {each.path for each in ledger.files if each.fate is FileFate.REFUSED}
    made.told = {place.path for place in ledger.places if place.fate is Fate.CONDITION}
    made.texts = {path.name: path.read_text(encoding="utf-8") for path in target.glob("*.py")}
    return made


def by_paconvert(program: str, source: Path, target: Path) -> Converted:
    """The programs as paconvert writes them; it marks what it does not convert."""
    made = Converted("paconvert")
    files = sorted(source.glob("*.py"))
    for at in range(0, len(files), _BATCH):
        with tempfile.TemporaryDirectory() as folder:
            for path in files[at : at + _BATCH]:
                Path(folder, path.name).write_bytes(path.read_bytes())
            _paconvert(program, Path(folder), target)
    for path in files:
        if not (target / path.name).exists():
            _paconvert(program, path, target / path.name)
    made.texts = {path.name: path.read_text(encoding="utf-8") for path in target.glob("*.py")}
    made.flagged = {name for name, text in made.texts.items() if ">>>>>>" in text}
    return made


def _paconvert(program: str, source: Path, target: Path) -> None:
    subprocess.run([program, "-i", source, "-o", target, "--log_dir", "disable"], capture_output=True, check=False)


def executed(found: dict[str, Snippet], made: list[Converted]) -> dict[str, Found]:
    """Run all programs and their conversions, many in a process; one whose values differ is run again in its own."""
    import paddle  # noqa: F401 - once, before the processes part
    import torch  # noqa: F401 - as above

    def of(each: tuple[str, Snippet]) -> Found:
        return judged(each[1], [converter.texts.get(each[0]) for converter in made])

    results = {}
    everything = list(found.items())
    for at in range(0, len(everything), _TOGETHER):
        members = everything[at : at + _TOGETHER]
        for (name, snippet), answer in zip(members, apart(members, of), strict=True):
            alone = answer is None or any(outcome == VALUE for outcome, _ in answer.outcomes)
            results[name] = _one_by_one(name, snippet, made) if alone or answer is None else answer
    return results


def _one_by_one(name: str, snippet: Snippet, made: list[Converted]) -> Found:
    """A program that ended its process, each conversion in a process of its own."""
    texts = [converter.texts.get(name) for converter in made]
    answers = list(apart(texts, lambda text: judged(snippet, [text])))
    if all(answer is None for answer in answers) and next(iter(apart([0], lambda _: judged(snippet, [])))) is None:
        return Found(f"{UNRUN}: it ends the process")
    known = next((answer for answer in answers if answer is not None), Found())
    if known.reference:
        return known
    return Found(drawn=known.drawn, outcomes=tuple((ENDS, "") if each is None else each.outcomes[0] for each in answers))


def table(found: dict[str, Snippet], results: dict[str, Found], made: list[Converted]) -> str:
    """Results by converter, for programs whose values are compared and for those that draw."""
    lines = ["| converted by | programs | " + " | ".join(KINDS) + " |", "|---|---|" + "---|" * len(KINDS)]
    for drawn in (False, True):
        names = [name for name, each in results.items() if not each.reference and each.drawn is drawn]
        for at, converter in enumerate(made):
            counted = Counter(converter.result(name, results[name].outcomes[at][0]) for name in names)
            label = f"{converter.name}{', random: shapes alone' if drawn else ''}"
            lines.append(f"| {label} | {len(names)} | " + " | ".join(str(counted[kind]) for kind in KINDS) + " |")
    others = Counter(each.reference.partition(":")[0] for each in results.values() if each.reference)
    left = ", ".join(f"{count} {kind}" for kind, count in others.items())
    return "\n".join(lines) + f"\n\n{len(found)} programs; not counted: {left or 'none'}.\n"


def _listed(path: Path, found: dict[str, Snippet], results: dict[str, Found], made: list[Converted]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for name, each in results.items():
            row = {"name": name, "file": found[name].file, "test": found[name].test, "reference": each.reference, "drawn": each.drawn}
            row["values"] = found[name].values
            for converter, (outcome, detail) in zip(made, each.outcomes, strict=False):
                row[converter.name] = [converter.result(name, outcome), detail]
            file.write(json.dumps(row) + "\n")


def main() -> int:
    """Read, convert, execute, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("tests", type=Path)
    options.add_argument("--paconvert", default="")
    options.add_argument("--only", default="")
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--from", dest="begin", type=int, default=0)
    options.add_argument("--limit", type=float, default=executing.LIMIT)
    options.add_argument("--write", type=Path)
    options.add_argument("--list", type=Path)
    chosen = options.parse_args()
    if not (chosen.tests / "apibase.py").is_file():
        print(f"{chosen.tests} holds no tests of paconvert (apibase.py): name the folder tests of a checkout of PaddlePaddle/PaConvert")
        return 2
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    executing.LIMIT = chosen.limit
    listed = list(itertools.islice(snippets(chosen.tests, chosen.only), chosen.begin, None, chosen.every))
    found = {f"program{at:05}.py": snippet for at, snippet in enumerate(listed)}
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "source"), []
        source.mkdir()
        for name, snippet in found.items():
            (source / name).write_text(snippet.code, encoding="utf-8")
        made.append(by_paralign(source, Path(folder, "paralign")))
        if chosen.paconvert:
            made.append(by_paconvert(chosen.paconvert, source, Path(folder, "paconvert")))
        sys.path.insert(0, str(Path(folder, "paconvert")))
        results = executed(found, made)
    text = table(found, results, made)
    print(text)
    if chosen.write:
        chosen.write.write_text(text, encoding="utf-8")
    if chosen.list:
        _listed(chosen.list, found, results, made)
    return int(any(made[0].result(name, each.outcomes[0][0]) == WRONG for name, each in results.items() if not each.reference))


if __name__ == "__main__":
    sys.exit(main())
