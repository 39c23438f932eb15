"""Which format a file has, told by its first bytes and not by its name.

Shards are found through their index.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from paralign.capture.bounds import HEADER, TENSORS, checked_path, open_regular
from paralign.capture.npy import MAGIC as NPY
from paralign.capture.unpickle import unpickle
from paralign.errors import CaptureFormatError, UsageError, quoted
from paralign.formats import numpy, paddle, torch
from paralign.formats.checkpoint import Checkpoint, Contents, damaged, some
from paralign.formats.mapped import Mapped
from paralign.formats.safetensors import read_index, read_safetensors
from paralign.formats.zips import read_archive
from paralign.remote import Fetched, is_remote

if TYPE_CHECKING:
    import os

#: what to look for in a folder, the likeliest first
USUAL = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
    "model_state.pdparams.index.json",
    "model_state.pdparams",
)
#: how the name of an index of shards ends
INDEX = ".index.json"
_PICKLE = b"\x80"
_TAR = slice(257, 262)


def open_checkpoint(path: str | os.PathLike[str], *, within: str | None = None, strip: str | None = None) -> Checkpoint:
    """Open a checkpoint of any tool, or a set of shards, without reading its tensors.

    Nothing in it is run.

    Args:
        path: ``.pth``, ``.pt``, ``.bin``, ``.safetensors``, ``.pdparams``, ``.pdopt``, ``.npz``, ``.npy``, an index of shards
            (``*.index.json``), a folder that holds a checkpoint under one of the usual names, or the URL of any of these, which is
            copied to this machine for as long as the process runs.
        within: dotted keys under which the tensors lie, such as ``model_ema``; None: they are looked for.
        strip: a prefix to be taken off the names that have it, such as ``module.``.

    Raises:
        UsageError: there is no such file, nothing under ``within``, or ``strip`` makes two names one; a URL that cannot be read.
        UnsafeFile: it names or does what tensors and containers do not need; says what; nothing of it was run.
        CaptureFormatError: it is truncated or damaged, a shard is missing, or it is of another kind.
        UnsupportedTensor: a tensor has an element type that is not known here.
    """
    found = fetched(path) if is_remote(path) else _located(Path(path))
    return Checkpoint(found, _contents(found, within), strip)


def fetched(url: str | os.PathLike[str], into: Path | None = None) -> Path:
    """The copy of a checkpoint that lies at a URL, with all of its shards.

    Args:
        url: of a file, of an index of shards, or of the folder of either.
        into: a folder for the copies of this URL, which are taken again while they are what lies there; None: they go with the process.

    Raises:
        EnvironmentUnavailable: the package for such a URL is not installed.
        UsageError: nothing lies there, or it cannot be read.
        CaptureFormatError: the index is damaged, or names a file outside its folder.
        WriteFailed: a copy cannot be written.
    """
    source = Fetched(str(url), into)
    name = source.name
    if source.is_folder:
        name = next((usual for usual in USUAL if source.holds(usual)), "")
    if not name:
        raise _unusual(str(url))
    path = source.file(name)
    if name.endswith(INDEX):
        HEADER.check(path.stat().st_size, "the index has", str(path))
        for shard in sorted(set(read_index(path, path.read_bytes())[0].values())):
            source.file(shard)
    return path


def _unusual(where: str) -> UsageError:
    return UsageError(
        "the folder holds no checkpoint of a usual name",
        where=where,
        hint=f"give the file itself, or a folder with one of {', '.join(USUAL)}",
    )


def _located(path: Path) -> Path:
    """The file itself, or the one of a usual name in a folder."""
    if not checked_path(path).is_dir():
        return path
    usual = [path / name for name in USUAL if (path / name).is_file()]
    if not usual:
        raise _unusual(str(path))
    return usual[0]


def _contents(path: Path, within: str | None, *, index: bool = True) -> Contents:
    """What a file holds; ``index``: it may be an index, which a shard may not."""
    file = Mapped(path)
    start = file.bytes(0, min(file.size, 512)).tobytes()
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _archive(path, file, within)
    if start.startswith(NPY):
        return numpy.read_array(path, file, within)
    tensors = start[8:9] == b"{"
    if tensors and int.from_bytes(start[:8], "little") < file.size:  # the length of a header; enormous in a pickle or an index
        return read_safetensors(path, file)
    if start[:1] == _PICKLE:
        return _pickle(path, file, within)
    if index and start.lstrip()[:1] == b"{":
        HEADER.check(file.size, "the file is no checkpoint of a known format, or an index of", str(path))
        return _shards(path, file, within)
    if tensors:
        return read_safetensors(path, file)
    raise _unknown(path, start)


def _unknown(path: Path, start: bytes) -> CaptureFormatError:
    known = "known are .pth (.pt, .bin), .safetensors, .pdparams, .npz, .npy and an index of shards"
    if not start:
        return CaptureFormatError("the file is empty", where=str(path), hint="get it again from where it came")
    if start.startswith(b"version https://git-lfs"):
        return CaptureFormatError(
            "the file is a pointer of git-lfs, the checkpoint itself was not fetched",
            where=str(path),
            hint="run git lfs pull where it was cloned",
        )
    if start[_TAR] == b"ustar":
        return CaptureFormatError(
            "the file is a tar archive, as PyTorch wrote before its version 0.2, or others",
            where=str(path),
            hint="unpack it, or load it with PyTorch and save it again",
        )
    if start.startswith(b"\x89HDF"):
        return CaptureFormatError("the file is HDF5", where=str(path), hint=known)
    return CaptureFormatError("the file is no checkpoint of a known format, or its beginning is damaged", where=str(path), hint=known)


def _archive(path: Path, file: Mapped, within: str | None) -> Contents:
    members = read_archive(path, file)
    programs = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(programs) == 1:
        return torch.read_zip(path, file, members, within)
    if programs:
        raise damaged(f"it holds {len(programs)} checkpoints: {some(programs)}", str(path))
    return numpy.read_npz(path, file, members)


def _pickle(path: Path, file: Mapped, within: str | None) -> Contents:
    with open_regular(path) as stream:
        tree = unpickle(stream, file.size, str(path), paddle.DIALECT, alone=False)
        if isinstance(tree, int) and tree == torch.MAGIC:
            return torch.read_legacy(path, file, stream, within)
        end = stream.tell()
    return paddle.read_paddle(path, file, tree, file.bytes(end, file.size - end).tobytes(), within)


def _shards(path: Path, file: Mapped, within: str | None) -> Contents:
    """The tensors of all shards that an index names."""
    index, metadata = read_index(path, file.bytes(0, file.size).tobytes())
    TENSORS.check(len(index), "the index names", str(path))
    missing = sorted({name for name in index.values() if not checked_path(path.parent / name).is_file()})
    if missing:
        raise CaptureFormatError(
            f"{len(missing)} of {len(set(index.values()))} shards are missing: {some(missing)}",
            where=str(path),
            hint="put them beside the index",
        )
    contents = Contents("", {}, [file], metadata)
    shards = {name: _contents(path.parent / name, within, index=False) for name in dict.fromkeys(index.values())}
    for name, shard in index.items():
        if name not in shards[shard].tensors:
            raise CaptureFormatError(
                f"the shard {shard} does not hold {quoted(name)}, which the index expects in it",
                where=str(path),
                hint="get the shard and the index again from where they came",
            )
        contents.tensors[name] = shards[shard].tensors[name]
    for shard, found in shards.items():
        unlisted = [name for name in found.tensors if index.get(name) != shard]
        if twice := [name for name in unlisted if name in index]:
            raise CaptureFormatError(
                f"{quoted(twice[0])} is in two shards, {index[twice[0]]} and {shard}",
                where=str(path),
                hint="get the shards again from where they came",
            )
        contents.ignored += [f"{shard}: {name}" for name in (*unlisted, *found.ignored)]
        contents.files += found.files
        contents.format, contents.nesting = found.format, found.nesting
        contents.metadata = {**found.metadata, **contents.metadata}
    return contents
