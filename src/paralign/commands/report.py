"""``paralign report``: a check's result for a reader, a server or an editor."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from pathlib import Path
    from typing import Any

    from paralign.report.told import Told

#: form -> the file that is written beside report.json
FORMS = {"html": "report.html", "markdown": "report.md", "junit": "junit.xml", "sarif": "paralign.sarif", "github": ""}

EPILOG = "exit codes: 0 written · 2 wrong usage · 3 the report is damaged"


def add_commands(commands: Any) -> None:
    """Add ``report``."""
    report = commands.add_parser(
        "report",
        help="the result of a check as a page, JUnit, SARIF, Markdown",
        epilog=EPILOG,
        description="Write the result of a check in another form. Nothing is run: report.json is read.",
    )
    report.add_argument("result", nargs="?", default="result", metavar="RESULT", help="a project, an output folder, or a report.json")
    report.add_argument("--format", choices=list(FORMS), default="html", help="default: html; github: remarks of GitHub Actions, printed")
    report.add_argument("--out", metavar="FILE", help="file to write, - for standard output (default: beside report.json)")
    report.add_argument("--root", metavar="DIR", help="the repository's folder: paths in SARIF and remarks begin there (default: here)")
    report.add_argument("--open", action="store_true", help="show the page in a browser")
    report.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.capture.bounds import checked_path
    from paralign.report.told import read

    source = checked_path(options.result)
    if not (source / "report.json").exists() and (source / "result" / "report.json").exists():
        source = source / "result"  # the folder of a project, as other commands take it
    folder = source if source.is_dir() else source.parent
    project = folder.resolve().parent
    root = Path(options.root or ".").resolve()
    title = project.name or "paralign"
    if options.format == "html":
        text = _page(source, folder, project, title, options.lang)
    else:
        language = options.lang if options.format == "markdown" else "en"  # people read it; the other forms are for programs
        text = rendered(read(source, project, language), options.format, root, title=title)
    name = FORMS[options.format]
    if options.out == "-" or not (options.out or name):
        print(text, end="")
        return 0
    file = Path(options.out) if options.out else folder / name
    _write(file, text)
    print(file)
    if options.open and options.format == "html":
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
    return 0


def _page(source: Path, folder: Path, project: Path, title: str, language: str) -> str:
    """The page of a report, with what was kept to be drawn in it."""
    from paralign.report import figures
    from paralign.report.page import Both, html
    from paralign.report.told import read

    both = Both(read(source, project), read(source, project, "zh"))
    command = both.english.command or _again(both.english, title)
    return html(both, title=title, command=command, language=language, figures=figures.read(folder))


def rendered(told: Told, form: str, root: Path, *, title: str) -> str:
    """A report for a program: one of ``FORMS`` but the page.

    Args:
        told: the report.
        form: a key of ``FORMS``.
        root: where paths begin.
        title: the project's name.
    """
    if form == "markdown":
        from paralign.report.markdown import markdown

        return markdown(told)
    if form == "junit":
        from paralign.report.junit import junit

        return junit(told, title)
    if form == "sarif":
        from paralign.report.sarif import sarif

        return sarif(told, root)
    if form == "github":
        from paralign.report.remarks import remarks

    return remarks(told, root)


def _again(told: Told, title: str) -> str:
    """What makes a report again that does not say it itself."""
    import shlex

    from paralign.run.project import DEFAULTS

    stages = [stage.name for stage in told.stages]
    return shlex.join(["paralign", "check", title, *(stages if tuple(stages) != DEFAULTS else [])])


def _write(file: Path, text: str) -> None:
    from paralign.report.artifacts import replace

    replace(file, text)
