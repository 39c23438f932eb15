"""``paralign inputs``: a project's drawn inputs and labels as ``.npy`` files.

Other programs read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paralign.report.language import say

if TYPE_CHECKING:
    import argparse
    from pathlib import Path
    from typing import Any

    from paralign.run.project import Project

#: table of the project file -> the guides' name of its file
FILES = {"inputs": "fake_data.npy", "labels": "fake_label.npy"}

EPILOG = "exit codes: 0 written · 2 wrong usage, or a file is there already · 3 a file cannot be written"


def add_commands(commands: Any) -> None:
    """Add ``inputs``."""
    inputs = commands.add_parser(
        "inputs",
        help="write the drawn inputs and labels as fake_data.npy and fake_label.npy",
        epilog=EPILOG,
        description="Draw [inputs] and [labels] of a project file as a check does, from the same seeds, and write them as the guides call "
        "them: fake_data.npy and fake_label.npy. Scripts of your own read the same values as the check. Neither side is run.",
    )
    inputs.add_argument("directory", nargs="?", default=".", metavar="DIR", help="folder of paralign.toml (here, if left out)")
    inputs.add_argument("--out", metavar="DIR", help="where to write (default: the project's folder); no file is replaced")
    inputs.set_defaults(run=_inputs)


def _inputs(options: argparse.Namespace) -> int:
    from pathlib import Path

    from paralign.errors import UsageError
    from paralign.report.text import place
    from paralign.run.project import read

    project = read(Path(options.directory))
    folder = Path(options.out) if options.out else project.folder
    drawn = {file: value for name in FILES if _is_drawn(getattr(project, name)) for file, value in _files(project, name).items()}
    if not drawn:
        raise UsageError(
            "the project draws neither inputs nor labels",
            where=str(project.path),
            hint="give [inputs] a shape; what inputs() or a data loader gives is in forward_ref.npy after a check, under `input`",
        )
    there = [file for file in drawn if (folder / file).exists()]
    if there:
        raise UsageError(f"{', '.join(there)} would be overwritten", where=str(folder), hint="name another folder with --out")
    for file, value in drawn.items():
        _write(folder / file, value)
        again = say("a project reads it back with {line}", line=f'file = "{file}"')
        print(f"{place(folder / file)}: {_described(value)}; {again}")
    return 0


def _is_drawn(spec: Any) -> bool:
    """Whether values of an entry come from a distribution, not from a file or a data loader."""
    if isinstance(spec, list):
        if not spec:
            return False
        return all(_is_drawn(each) for each in spec)
    if not isinstance(spec, dict):
        return False
    if "keywords" in spec:
        return all(_is_drawn(each) for each in spec["keywords"].values())
    return "file" not in spec and "source" not in spec


def _files(project: Project, name: str) -> dict[str, Any]:
    """File -> the values that a check draws for it: one array, or several by keyword.

    Inputs by position have a file each.
    """
    from paralign.dtypes import Typed, widen
    from paralign.run.inputs import make

    seed = project.settings.seed + (1000 if name == "labels" else 0)  # as a check's own
    value = make(getattr(project, name), project.folder, f"[{name}]", seed)

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return widen(value)

    if isinstance(value, (dict, Typed)):
        return {FILES[name]: plain(value)}
    stem, dot, suffix = FILES[name].partition(".")
    return {f"{stem}_{place}{dot}{suffix}": plain(each) for place, each in enumerate(value)}


def _write(path: Path, value: Any) -> None:
    """One array as a plain ``.npy``, several as reprod_log's dict of them.

    Raises:
        WriteFailed: the file cannot be written.
    """
    import numpy as np

    from paralign.capture import save_foreign
    from paralign.errors import unwritten

    try:
        if isinstance(value, dict):
            save_foreign(path, value)
        else:
            with path.open("xb") as file:
                np.save(file, value, allow_pickle=False)
    except OSError as fault:
        raise unwritten(path, fault) from fault


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_described(each)}" for key, each in value.items())
    return f"{value.dtype} {list(value.shape)}"
