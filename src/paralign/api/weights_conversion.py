"""Weights and optimizer states, converted from file to file."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.api.opened_project import without_log
from paralign.api.output_folder import make_folders
from paralign.checking import describe, given_tensors, sides
from paralign.conversion import Conversion, carried, modelled, plain
from paralign.conversion.conversion_outcome import INCOMPLETE
from paralign.errors import UsageError, WorkerFailed
from paralign.formats.saving import check_destination
from paralign.model import CheckResult
from paralign.remote import Destination, is_remote, passing
from paralign.run.functions import project as project_of
from paralign.run.project import read
from paralign.weights import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paralign.context import Context


def convert_weights(
    source: str | Path,
    destination: str | Path,
    *,
    model: str | Path | list[str] | None = None,
    rules: Rules | str | Path | None = None,
    inputs: Any = None,
    origin: str | None = None,
    prove: bool = True,
    within: str | None = None,
    strip: str | None = None,
    max_shard_bytes: int | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    step: Callable[[str], None] = lambda _: None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Conversion:
    """Convert a checkpoint: to another format, or to another model's names and layouts.

    About one tensor is in memory at a time.

    Args:
        source: a file, an index of shards, or a folder that holds one; or the URL of any of these.
        destination: its name tells the format; a URL is written once the whole is there, which needs room for it on this machine.
        model: the folder of a ``paralign.toml`` whose two sides build the models, or two of ``FILE.py:FUNCTION``; None where rules say
            all, or where nothing but the format is to change.
        rules: renamings and routes, or the path of a file of them.
        inputs: with ``model``, an ``[inputs]`` entry as in a project file; it goes before the project's.
        origin: whose weights these are, where that is not told: ``torch``, ``paddle``, ``numpy``; with ``model`` also ``reference``,
            ``candidate``.
        prove: with ``model``, whether to run both.
        within: dotted keys under which the tensors lie in the source; None: they are looked for.
        strip: a prefix to be taken off the names; None: those of wrappers, such as ``module.``.
        max_shard_bytes: write shards of at most so many bytes, and an index.
        overwrite: whether a checkpoint that is there may be replaced.
        dry_run: plan and prove, but write nothing.
        step: called with a line for every step.
        progress: told of bytes written, bytes in all, and the file.

    Returns:
        What it came to; see :class:`~paralign.conversion.Conversion` for the verdicts. Nothing is written where a tensor has no place.

    Raises:
        UsageError: as :func:`paralign.formats.convert`; a rule speaks of no tensor; the source belongs to neither model; a URL that
            cannot be read.
        EnvironmentUnavailable: the package that a URL needs is not installed.
        WriteFailed: files cannot be written.
        UnsafeFile, CaptureFormatError, UnsupportedTensor: as :func:`paralign.formats.open_checkpoint`.
        WorkerFailed: a model cannot be built.
    """
    asked = str(source) if is_remote(source) else "", str(destination) if is_remote(destination) else ""
    store = Destination(str(destination)) if is_remote(destination) else None
    if store is not None:
        _check_url(store, overwrite=overwrite or dry_run)
        destination = passing() / secrets.token_hex(4) / store.name
        destination.parent.mkdir()
    checkpoint = plain.opened(source, within, strip)
    check_destination(Path(destination), overwrite=overwrite or dry_run, sources=checkpoint.identities)
    wanted = rules if isinstance(rules, Rules) or rules is None else plain.rules_of(Path(rules))
    if model is None:
        found = plain.plan(checkpoint, Path(destination), wanted, origin)
    else:
        with tempfile.TemporaryDirectory(prefix="paralign-") as scratch, _modelled(model, inputs, Path(scratch), step) as context:
            found = modelled.plan(context, checkpoint, Path(destination), wanted, prove=prove, origin=origin, progress=step)
    found.asked = asked
    found.shapes = {name: tuple(entry.shape) for name, entry in checkpoint.entries.items()}
    if found.verdict != INCOMPLETE:
        plain.carry(found, checkpoint, dry_run=dry_run, overwrite=overwrite, max_shard_bytes=max_shard_bytes, progress=progress)
    if store is not None and found.files:
        step(f"copying to {store.url}")
        found.urls = store.put(found.files)
    return found


def _check_url(store: Destination, *, overwrite: bool) -> None:
    """Refuse a URL where a checkpoint lies already, in one file or in shards."""
    names = [store.name, f"{store.name.removesuffix('.index.json')}.index.json"]
    if not overwrite and any(map(store.is_there, names)):
        raise UsageError("the destination is there already", where=store.url, hint="give another URL, or --overwrite")


def convert_optimizer(
    source: str | Path,
    destination: str | Path,
    *,
    model: str | Path = ".",
    within: str | None = None,
    overwrite: bool = False,
    step: Callable[[str], None] = lambda _: None,
) -> carried.Carried:
    """Carry what an optimizer remembers from one framework's file to the other's.

    The two optimizers of a project do that.

    Args:
        source: a ``.pth`` or a ``.pdopt``.
        destination: the other; its name tells the framework.
        model: the folder of a ``paralign.toml`` whose sides have ``build_model()`` and ``build_optimizer(model)``.
        within: dotted keys under which the state lies in the source; None: it is looked for.
        overwrite: whether a file that is there may be replaced.
        step: called with a line for every step.

    Raises:
        UsageError: as :func:`convert_weights`; the state cannot be mapped, or fits no parameter.
        WorkerFailed: a side failed.
    """
    checkpoint, path = carried.opened(Path(source), within), Path(destination).absolute()
    check_destination(path, overwrite=overwrite, sources=checkpoint.identities)
    if not path.parent.is_dir():
        raise UsageError("the folder of the destination is not there", where=str(path.parent), hint="make it first")
    written = path.with_name(f".{path.name}.tmp")
    try:
        with tempfile.TemporaryDirectory(prefix="paralign-") as scratch, _modelled(model, None, Path(scratch), step) as context:
            found = carried.carry(context, checkpoint, path, written, step)
        check_destination(path, overwrite=overwrite, sources=checkpoint.identities)
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)
    return found


@contextmanager
def _modelled(model: str | Path | list[str], inputs: Any, folder: Path, step: Callable[[str], None]) -> Iterator[Context]:
    """Both models of a conversion, described and with their inputs.

    What they record goes into a folder.
    """
    project = project_of(model, folder) if isinstance(model, list) else read(Path(model))
    project.inputs = project.inputs if inputs is None else inputs
    make_folders(folder, "workers", "captures")
    try:
        with sides(project, folder, fresh=True) as context:
            step("starting both sides")
            describe(context, CheckResult(), None)
            context.inputs, _ = given_tensors(project, context, folder)
            yield context
    except WorkerFailed as failure:
        raise without_log(failure) from failure
