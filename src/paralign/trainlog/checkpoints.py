"""``model_N`` of every epoch and ``latest``, and from which a training goes on.

The guides' training programs write them so.

A kill between two files leaves a checkpoint of two epochs: weights of one, optimizer of the other. So each has a note beside it with the
sizes and SHA-256 of its files, written last, and what does not fit its note is not taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional
from uuid import uuid4

from paralign.errors import UsageError

LATEST = "latest"

_NAME = re.compile(r"(latest|model_(\d+))(\.[\w.]+)?")

#: suffix of the notes
_NOTE = ".json"

#: bytes of a note that are read: more is none of ours
_MOST = 1 << 20


@dataclass
class Taken:
    """The checkpoint that a training goes on from.

    Args:
        stem: the path of its files without their suffixes, as ``save`` was given it.
        epoch: after which it was written; None for files without a note whose name does not tell.
        files: their paths.
        passed: why others were not taken.
        training: which training wrote it, '' where no note tells.
    """

    stem: str
    epoch: Optional[int]
    files: List[str]
    passed: List[str] = field(default_factory=list)
    training: str = ""


class Checkpoints:
    """The checkpoints of one training in a folder.

    Args:
        folder: where they lie.
        rank: number of this process; only 0 writes.

    Example:
        >>> import pathlib, tempfile
        >>> kept = Checkpoints(tempfile.mkdtemp())
        >>> for epoch in range(2):
        ...     kept.write(epoch, lambda stem, e=epoch: pathlib.Path(stem + ".pth").write_text(f"weights of {e}"))
        >>> [os.path.basename(f) for f in kept.taken().files], kept.resume(lambda stem: None)
        (['latest.pth'], 2)
    """

    def __init__(self, folder: str, rank: int = 0) -> None:
        self.folder, self.rank = Path(folder), rank
        self._training = uuid4().hex  # of a training that is resumed: as before

    def write(self, epoch: int, save: Callable[[str], Any]) -> None:
        """Write ``model_N`` and ``latest``.

        Args:
            epoch: that has been trained, from 0.
            save: ``save(stem)`` writes all that the training needs as ``stem.pth``, or as ``stem.pdparams`` and ``stem.pdopt``.

        Raises:
            UsageError: it wrote no file of that stem, or the folder cannot be written.
        """
        if self.rank != 0:
            return
        name = f"model_{epoch}"
        staging = self.folder / f".{name}.writing"
        try:
            staging.mkdir(parents=True, exist_ok=True)
            save(str(staging / name))
            written = sorted(path for path in staging.iterdir() if path.is_file() and path.name.startswith(name))
            if not written:
                raise UsageError(
                    f"save() wrote no file that begins with {name}", where=str(staging), hint="write stem + '.pth', or '.pdparams'"
                )
            strange = sorted(path.name for path in staging.iterdir() if path not in written)
            if strange:
                raise UsageError(
                    f"save() wrote {strange[0]}, whose name does not begin with {name}", where=str(staging), hint="write stem + a suffix"
                )
            parts = {path.name[len(name) :]: _digest(path) for path in written}
            for suffix in parts:
                (staging / f"{name}{suffix}").replace(self.folder / f"{name}{suffix}")
            self._note(name, epoch, parts)
            for suffix in parts:
                shutil.copyfile(str(self.folder / f"{name}{suffix}"), str(staging / f"{LATEST}{suffix}"))
            for suffix in parts:
                (staging / f"{LATEST}{suffix}").replace(self.folder / f"{LATEST}{suffix}")
            self._note(LATEST, epoch, parts)
            staging.rmdir()
        except OSError as error:
            raise UsageError(f"the checkpoint cannot be written: {error.strerror}", where=str(self.folder)) from error

    def taken(self) -> Optional[Taken]:
        """The complete checkpoint of the highest epoch; None where there is none.

        ``latest`` comes before ``model_N``.
        """
        names = self._names()
        suffixes = max((set(found) for found in names.values()), key=len, default=set())
        fit: List[Taken] = []
        passed: List[str] = []
        for name, found in names.items():
            epoch, why = self._judged(name, found, suffixes)
            if why:
                passed.append(f"{name}: {why}")
            else:
                told = _told(self.folder / f"{name}{_NOTE}")
                files = [str(self.folder / f"{name}{s}") for s in sorted(found)]
                fit.append(Taken(str(self.folder / name), epoch, files, training=told.training if told is not None else ""))
        latest = next((each for each in fit if each.stem.endswith(LATEST)), None)
        if latest is not None and latest.training:
            older = [each for each in fit if each.training not in ("", latest.training)]
            passed += [f"{Path(each.stem).name}: of another training than `latest`" for each in older]
            fit = [each for each in fit if each not in older]
        best = max((each for each in fit if each.epoch is not None), key=lambda each: (each.epoch, each is latest), default=None)
        noted = any((self.folder / f"{name}{_NOTE}").exists() for name in names)
        chosen = latest if latest is not None and latest.epoch is None and not noted else best
        if chosen is not None:
            chosen.passed = passed
        return chosen

    def resume(self, load: Callable[[str], Any]) -> int:
        """Load what :meth:`taken` gives.

        Args:
            load: ``load(stem)`` reads what ``save(stem)`` wrote. Of files without a note it returns the epoch to go on with.

        Returns:
            The epoch that follows.

        Raises:
            UsageError: there is no complete checkpoint, or nothing tells which epoch follows.
        """
        found = self.taken()
        if found is None:
            raise UsageError("there is no complete checkpoint to go on from", where=str(self.folder), hint="train without resume first")
        self._training = found.training or self._training
        following = load(found.stem)
        if found.epoch is not None:
            return found.epoch + 1
        if isinstance(following, int) and not isinstance(following, bool):
            return following
        raise UsageError("nothing tells which epoch follows this checkpoint", where=found.stem, hint="return it from load(stem)")

    def _names(self) -> Dict[str, List[str]]:
        """Name -> suffixes of its files, notes left out."""
        found: Dict[str, List[str]] = {}
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else []:
            match = _NAME.fullmatch(path.name)
            suffix = (match[3] or "") if match else ""
            if match and path.is_file() and suffix != _NOTE:
                found.setdefault(match[1], []).append(suffix)
        return found

    def _judged(self, name: str, found: List[str], usual: "set[str]") -> "tuple[Optional[int], str]":
        """The epoch of a checkpoint, and why it is not complete; '' where it is."""
        number = _NAME.fullmatch(name)
        epoch = int(number[2]) if number and number[2] else None
        note = self.folder / f"{name}{_NOTE}"
        if not note.exists():
            lacking = sorted(usual - set(found))
            return epoch, f"{lacking[0]} is missing" if lacking else ""
        told = _told(note)
        if told is None:
            return epoch, f"{note.name} cannot be read"
        for suffix, (size, digest) in told.parts.items():
            path = self.folder / f"{name}{suffix}"
            if not path.is_file():
                return told.epoch, f"{suffix or path.name} is missing"
            if path.stat().st_size != size or _digest(path)[1] != digest:
                return told.epoch, f"{path.name} is not the file that was written with it"
        return told.epoch, ""

    def _note(self, name: str, epoch: int, parts: "Dict[str, tuple[int, str]]") -> None:
        path = self.folder / f"{name}{_NOTE}"
        text = json.dumps(
            {
                "epoch": epoch,
                "training": self._training,
                "files": {s: {"bytes": size, "sha256": digest} for s, (size, digest) in parts.items()},
            }
        )
        beside = path.with_name(f".{path.name}.writing")
        with open(str(beside), "w", encoding="utf-8") as file:  # noqa: PTH123 - synced before it is renamed
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)


@dataclass
class _Note:
    epoch: int
    parts: "Dict[str, tuple[int, str]]"
    training: str = ""


def _told(path: Path) -> Optional[_Note]:
    """What a note says; None for one that is damaged."""
    try:
        with path.open("rb") as file:
            kept = json.loads(file.read(_MOST).decode("utf-8"))
        parts = {str(s): (int(each["bytes"]), str(each["sha256"])) for s, each in kept["files"].items()}
        return _Note(int(kept["epoch"]), parts, str(kept.get("training", "")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _digest(path: Path) -> "tuple[int, str]":
    """Size and SHA-256 of a file."""
    found, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
            size += len(block)
    return size, found.hexdigest()
